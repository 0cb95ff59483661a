"""Kernels of the papers, in the grammar of `inference.kernels`: the step is the algorithm box.

metropolis            mh               the marginal posterior itself
within_gibbs          mh-within-gibbs  u | theta, y, then theta | u
pseudo_marginal       pmmh             an unbiased estimate of the likelihood
correlated            cpm              the same, with correlated estimates
averaged              mhaar            averaged acceptance ratios, batch statistic
averaged_records      mhaar            averaged over base draws z, any statistic
averaged_sequential   mhaar            averaged within each local answer
latent                                 what lies between theta and a release, and the laws it is proposed from
"""
