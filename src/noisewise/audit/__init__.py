"""Attacks on our own mechanisms: exact divergences, goodness of fit, black-box lower bounds, and planted faults."""
