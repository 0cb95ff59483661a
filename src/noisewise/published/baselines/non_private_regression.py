"""What the records themselves tell of a regression: its conjugate posterior without privacy, the yardstick.

    P_n = P + X'X,   m_n = P_n^-1 (P m + X'y),   a_n = a + n/2,   b_n = b + (y'y + m'P m - m_n'P_n m_n)/2

for a prior relative to the error variance, drawn independently; other priors by Gibbs steps. Records go in, draws of
(theta, sigma^2) come out; nothing here is private.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.published.regression import naive
from noisewise.regression.moments import all_pairs
from noisewise.regression.problem import Fit, Holder, NormalX, Prior, Problem


def non_private_regression(
    rng: np.random.Generator,
    x: ArrayLike,
    y: ArrayLike,
    *,
    prior: Prior,
    intercept: bool = True,
    chains: int = 1,
    draws: int,
    warmup: int = 500,
) -> Fit:
    """Draws of theta and sigma^2 given records x (n, d) and y (n,), in their own units."""
    covariates, response = np.asarray(x, float), np.asarray(y, float).ravel()
    if covariates.ndim == 1:
        covariates = covariates[:, None]
    n, d = covariates.shape
    if len(response) != n:
        raise InvalidArgument(f"y has {len(response)} values and x {n} rows; they must agree.", argument="y")
    if len(prior.mean) != d + intercept:
        raise InvalidArgument(
            f"the prior has {len(prior.mean)} coefficients; {d} covariates need {d + intercept}.", argument="prior"
        )
    rows = np.column_stack([np.ones((n, int(intercept))), covariates, response])
    pairs, total = all_pairs(rows.shape[1]), rows.T @ rows
    nothing, no_bounds = np.zeros(len(pairs)), np.full(d + 1, np.inf)
    holder = Holder(
        n, pairs, total[pairs[:, 0], pairs[:, 1]], nothing, nothing, np.eye(len(total)), -no_bounds, no_bounds
    )
    problem = Problem((holder,), prior, NormalX(np.zeros(d), 1.0, np.eye(d), d + 2.0), intercept)
    fit = naive.sample(problem, rng, chains=chains, draws=draws, warmup=warmup, project=True)
    return replace(fit, how="the posterior given the records, without privacy", notes=())
