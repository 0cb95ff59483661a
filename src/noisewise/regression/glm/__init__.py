"""Responses that are no line with normal scatter, from the same noisy moments: yes/no, and clamped counts.

links           m_k(s) = E[min(y, B)^k | s] of each link, and its one-dimensional integrals over s ~ N(m, sigma^2)
row_moments     M and C of a row (1, x, y) within one combination of yes/no features, and the way back (gradient)
density         the log posterior density of all unknowns, with its gradient
problem         a model and what was observed as arrays: priors, holders, the law of the covariates
sampler         its mode, importance sampling by a Student law, Hamiltonian Monte Carlo where that fails
model           LogisticRegression, ProbitRegression, PoissonRegression
learn, words    from releases to a posterior; what was assumed, in sentences
rows            rows at known parameters: simulation, checks, the sums behind the noise
answers         probabilities and rates at new covariates; odds ratios and rate ratios
"""
