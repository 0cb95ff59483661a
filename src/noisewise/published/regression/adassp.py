"""adaSSP: ridge regression on noisy moments, regularised just enough (Wang 2018), for one holder or several.

With S, z the noisy X'X and X'y and l the noisy smallest eigenvalue of X'X,
    l_low  = max(l - r sqrt(log(2/delta)), 0)           r the noise sd of l, delta that of its guarantee
    lambda = max(t sqrt(d log(2 d^2/rho)) - l_low, 0)   t the noise sd of an entry of S; rho = 0.05
    theta  = (sum_j (S_j + lambda_j I))^-1 sum_j z_j    (Alparslan 2023, equation 7.2)
so that S + lambda I is likely to be positive definite. Wang writes r and t by a calibration of his own; here they are
the deviations of the noise that was added. Where a guarantee has no delta, `tail` stands for delta/2; for Laplace noise
of scale b the margin that is exceeded as rarely is b log(2/delta)/2. A point estimate, without an intercept: centre the
rows by public numbers.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.progress import Progress
from noisewise.regression.pooled import moment_matrix
from noisewise.regression.problem import Eigenvalue, Fit, Holder, Problem

RHO, TAIL = 0.05, 1e-6


def estimate(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int = 1,
    draws: int = 1,
    warmup: int = 0,
    progress: Progress | None = None,
    rho: float = RHO,
    tail: float = TAIL,
) -> Fit:
    """The regularised coefficients; nothing is random."""
    del rng, chains, draws, warmup, progress
    if problem.intercept:
        raise Unsupported(
            "method 'adassp' has no intercept. Release Moments(..., intercept=False) of rows with a public centre, and "
            "use LinearRegression(..., intercept=False); or use method='marginal'."
        )
    gram, cross, ridges = np.zeros((problem.d, problem.d)), np.zeros(problem.d), []
    for holder in problem.holders:
        matrix = moment_matrix(holder, problem.m, intercept=False)
        if np.isnan(matrix[:-1]).any():
            raise Unsupported("method 'adassp' needs the parts 'xx' and 'xy' of Moments from every holder.")
        ridges.append(regularisation(holder, problem.d, rho=rho, tail=tail))
        x, y = np.diag(holder.map)[:-1], holder.map[-1, -1]  # without intercept the map of rows is diagonal
        gram += (matrix[:-1, :-1] + ridges[-1] * np.eye(problem.d)) / np.outer(x, x)
        cross += matrix[:-1, -1] / (x * y)
    notes = ["Ridge regularisation pulls the coefficients towards 0."]
    if np.linalg.eigvalsh(gram)[0] <= 0:
        notes.append("The regularised matrix is not positive definite: the estimate is not to be trusted.")
    theta = np.asarray(np.linalg.solve(gram, cross), np.float64)
    how = f"ridge regression on the noisy moments, lambda = {', '.join(f'{ridge:.4g}' for ridge in ridges)}"
    return Fit(theta[None, None, :], None, how, is_point=True, notes=tuple(notes), details={"lambda": ridges})


def regularisation(holder: Holder, d: int, *, rho: float, tail: float) -> float:
    """lambda of one holder."""
    if holder.eigenvalue is None:
        raise Unsupported(
            "method 'adassp' needs a release of SmallestEigenvalue of the same records from every holder."
        )
    is_gram = np.all(holder.pairs < d, axis=1)
    noise = math.sqrt(float(holder.variance[is_gram].max()))
    lowest = max(holder.eigenvalue.value - margin(holder.eigenvalue, tail), 0.0)
    return max(noise * math.sqrt(d * math.log(2 * d * d / rho)) - lowest, 0.0)


def margin(eigenvalue: Eigenvalue, tail: float) -> float:
    """What the noise exceeds with probability at most sqrt(delta/2), or sqrt(tail)."""
    p = tail if eigenvalue.delta is None else eigenvalue.delta / 2
    if eigenvalue.is_laplace:
        return eigenvalue.sd / math.sqrt(2) * math.log(1 / p) / 2
    return eigenvalue.sd * math.sqrt(math.log(1 / p))
