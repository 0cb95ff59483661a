"""Noisewise."""
