"""Second and fourth moments of the covariates as their prior has them (Bernstein & Sheldon 2019, Gibbs-SS-Prior)."""

from __future__ import annotations

import numpy as np

from noisewise.errors import Unsupported
from noisewise.regression.moments import pairings
from noisewise.regression.problem import GivenX, NormalX


def prior_moments(x: NormalX, intercept: bool) -> GivenX:
    """Moments of ([1,] x) when mu and Sigma are as their prior has them.

    E Sigma = Psi/(nu - d - 1) and E Sigma_ab Sigma_cd = ((nu-d-2) Psi_ab Psi_cd + Psi_ac Psi_bd + Psi_ad Psi_bc) /
    ((nu-d)(nu-d-1)(nu-d-3)); given Sigma, x ~ N(location, (1 + 1/strength) Sigma) with an intercept, else N(0, Sigma).
    """
    d = len(x.location)
    free = x.degrees - d
    if free <= 3.0:
        raise Unsupported(
            "method 'gibbs-prior' takes the covariates' fourth moments from their prior, and this one (the default is "
            f"such) has none. Give covariates=NormalCovariates(..., degrees=) above {d + 3}, or GivenMoments(...), or "
            "use method 'gibbs-update'."
        )
    wider = 1.0 + 1.0 / x.strength if intercept else 1.0
    product = np.multiply.outer(x.scale, x.scale)
    squares = ((free - 3.0) * product + pairings(x.scale, x.scale)) / (free * (free - 1.0) * (free - 3.0))
    central = wider**2 * (squares + squares.transpose(0, 2, 1, 3) + squares.transpose(0, 2, 3, 1))
    spread = wider * x.scale / (free - 1.0)
    if not intercept:
        return GivenX(spread, central)
    row = np.concatenate([[1.0], x.location])
    square, padded = np.outer(row, row), np.zeros((d + 1, d + 1))
    padded[1:, 1:] = spread
    fourth = np.multiply.outer(square, square) + pairings(padded, square) + pairings(square, padded)
    fourth[1:, 1:, 1:, 1:] += central
    return GivenX(padded + square, fourth)
