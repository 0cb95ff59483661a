"""Populations: what the analyst believes records are drawn from."""
