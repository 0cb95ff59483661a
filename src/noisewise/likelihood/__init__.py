"""The likelihood of a release, p(y | theta): one file per closed form or numerical scheme, functions of arrays only.

    normal_laplace, normal_laplace_pair, normal_gaussian   a normal statistic under Laplace or Gaussian noise
    clipped_normal, clipped_normal_gaussian                one clipped normal record, answered locally
    local_absolute, local_square, local_general            |x|, x^2 or any population, answered locally
    cells, counts                                          randomized response; counts and tables
    inversion, integers                                    a sum of n bounded records, without the central limit theorem
    tilted_normal, quadrature, additive_noise              what these share

Everything is on the log scale, vectorised, and free of randomness except the i.i.d. posterior draws of `counts`, which
take an explicit generator.
"""
