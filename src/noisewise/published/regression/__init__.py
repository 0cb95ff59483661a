"""Published samplers and estimates of a linear regression, each a function from a `Problem` to a `Fit`.

gibbs_moments       gibbs-noisy, gibbs-prior, gibbs-update, bernstein-distributed (Bernstein & Sheldon 2019)
prior_moments       the covariates' moments as believed, for gibbs-prior
normal_x, fixed_s   normal-x, fixed-s, fixed-s-fast (Alparslan, Yildirim & Birbil 2022)
cross_moments       X'y integrated out, for both
naive, adassp       the noise ignored; a point estimate (Wang 2018)
individual          every record an unknown, by NUTS
"""
