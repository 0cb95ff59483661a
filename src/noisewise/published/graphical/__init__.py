"""Published estimates of a graphical model.

naive         noisy tables projected to probabilities and taken for the truth
collective    expectation-maximisation on the latent tables (Bernstein et al. 2017)
"""
