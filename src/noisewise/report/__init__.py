"""Plots, words and pages for people."""
