"""The likelihood of a release, p(y | theta): one file per closed form or numerical scheme.

Chosen from the releases by their structure, with a score, a draw of the confidential statistic and a latent form:
    joint, model, stated_n                                 which law, what a law offers, a stated n against totals
    normal_sum, exact_sum                                  sums: the central limit theorem, or the sum's own law
    closed_sum                                             one sum whose record has a closed transform, at every n
    count_models, conjugate                                counts, tables, randomized response; conjugate priors
    local_answers                                          one noisy number a record
    order_bank, bank                                       order statistics, and anything else, from banks of base draws
    naive, simulate                                        the noise ignored; releases with simulated noise
Functions of arrays that these are made of:
    normal_laplace, normal_laplace_pair, normal_gaussian   a normal statistic under Laplace or Gaussian noise
    clipped_normal, clipped_normal_gaussian                one clipped normal record, answered locally
    local_absolute, local_square, local_general            |x|, x^2 or any population, answered locally
    cells, counts, binomial_laplace, binomial_sum,         randomized response; counts and tables
    table_sum, discrete_laws, log_concave
    inversion, inversion_atoms, integers                   a sum of n bounded records, without the central limit theorem
    few_records, exponential_sum, lattice_sum,             the same at a cost free of n, where a record's law allows it
    record_law, sum_features, sum_noise
    bank_sums                                              polynomials summed over a bank
    order_draws, feature_quantile, smooth_scale, scrambles base draws of ranks, quantiles of features, smooth scales
    answers, compiled, differences, tilted_normal,         what these share
    quadrature, additive_noise, normal_rows
Everything is on the log scale and vectorised over rows of theta; whatever is random takes an explicit generator.
"""
