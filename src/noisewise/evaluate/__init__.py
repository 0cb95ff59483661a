"""How good a posterior is: simulation, calibration, coverage, and distances between distributions."""
