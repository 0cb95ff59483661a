"""Responses that are no line with normal scatter, from the same noisy moments: yes/no, and clamped counts.

What is computed:
    links           m_k(s) = E[min(y, B)^k | s] of each link, and its one-dimensional integrals over s ~ N(m, sigma^2)
    row_moments     M and C of a row (1, x, y) within one combination of yes/no features, and the way back (gradient)
    density         the log posterior density of all unknowns, with its gradient
    problem         a model and what was observed as arrays: priors, holders, the law of the covariates
    sampler         importance sampling by a Student law at the mode, Hamiltonian Monte Carlo where that fails
What is asked for, and said:
    model           LogisticRegression, ProbitRegression, PoissonRegression
    covariates      what may be said of the features' law; given_rows: by example
    responses       which responses a link can have
    learn, words    from releases to a posterior; what was assumed, in sentences
    fitness         what the fitted model says of its own assumptions
    prior_draws     parameter values from the prior, or by name
    rows            rows at known parameters: simulation, checks, the sums behind the noise
    answers         probabilities and rates at new covariates; odds ratios and rate ratios
"""
