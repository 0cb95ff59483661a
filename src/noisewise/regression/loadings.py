"""What the holders published as linear functions of the moments behind it, in arrays that compiled loops can read.

    t_jk = sum_p loading_jkp T_jp + noise_jk,     T_j = sum of w w' over holder j's rows, in working units

p runs over the pairs a <= b of w but the constant (1, 1), which is known. A holder whose rows are `map @ w` publishes
entries of map T map', so a loading has few entries that are not 0: they are listed by place and weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import Unsupported
from noisewise.regression.moments import all_pairs
from noisewise.regression.problem import Floats, GivenX, Holder, Integers, LocationX, NormalX, Prior, Problem


class Published(NamedTuple):
    """Every holder's noisy components, one row a holder, filled up with zeros behind its components."""

    n: Floats  # (J,) rows, or blocks of rows
    block: Floats  # (J,) rows in a block
    pairs: Integers  # (P, 2) the moments that are not known
    components: Integers  # (J,)
    width: Integers  # (J, K) entries of a loading that are not 0
    place: Integers  # (J, K, W) which moments
    weight: Floats  # (J, K, W)
    observed: Floats  # (J, K) less what the constant contributes
    variance: Floats  # (J, K)
    laplace: Floats  # (J, K) scale of Laplace noise; 0 where it is Gaussian
    repeats: NDArray[np.bool_]  # (J,) whether n, block, loadings and Gaussian variances are those of the holder before


class Beliefs(NamedTuple):
    """The priors of the coefficients, of the error variance and of the covariates, flags as numbers."""

    mean: Floats
    precision: Floats
    shape: float
    rate: float
    is_relative: bool
    is_learned: bool
    intercept: bool
    location: Floats
    strength: float
    scale: Floats
    degrees: float


def published(problem: Problem) -> Published:
    """The problem's holders as arrays."""
    pairs = all_pairs(problem.m)[int(problem.intercept) :]
    loadings = [_loading(holder, problem, pairs) for holder in problem.holders]
    kept = [np.flatnonzero(np.any(matrix != 0.0, axis=1)) for matrix, _ in loadings]
    holders, most = len(kept), max(1, max(len(rows) for rows in kept))
    widest = max((int(np.count_nonzero(matrix, axis=1).max(initial=1)) for matrix, _ in loadings), default=1)
    width = np.zeros((holders, most), np.int64)
    place, weight = np.zeros((holders, most, widest), np.int64), np.zeros((holders, most, widest))
    observed, laplace = np.zeros((holders, most)), np.zeros((holders, most))
    variance = np.ones((holders, most))
    for j, (holder, rows, (matrix, constant)) in enumerate(zip(problem.holders, kept, loadings, strict=True)):
        observed[j, : len(rows)] = (holder.observed - constant)[rows]
        variance[j, : len(rows)] = holder.variance[rows]
        laplace[j, : len(rows)] = holder.laplace[rows]
        for k, row in enumerate(rows):
            places = np.flatnonzero(matrix[row])
            width[j, k] = len(places)
            place[j, k, : len(places)] = places
            weight[j, k, : len(places)] = matrix[row, places]
    n = np.array([holder.n for holder in problem.holders], float)
    block = np.array([holder.block for holder in problem.holders], float)
    count = np.array([len(rows) for rows in kept], np.int64)
    geometry = [
        (n[j], block[j], count[j], place[j].tobytes(), weight[j].tobytes(), variance[j].tobytes())
        for j in range(holders)
    ]
    repeats = np.array(
        [j > 0 and geometry[j] == geometry[j - 1] and not laplace[j - 1 : j + 1].any() for j in range(holders)]
    )
    return Published(n, block, pairs, count, width, place, weight, observed, variance, laplace, repeats)


def beliefs(problem: Problem) -> Beliefs:
    """The problem's priors as numbers; without a law of the covariates their part is empty."""
    prior, x, d = problem.prior, problem.covariates, problem.d
    if isinstance(x, LocationX):
        raise TypeError("covariates of a location model are for method 'marginal'")
    given = isinstance(x, GivenX)
    return Beliefs(
        mean=np.ascontiguousarray(prior.mean, float),
        precision=np.ascontiguousarray(prior.precision, float),
        shape=float(prior.shape),
        rate=float(prior.rate),
        is_relative=prior.is_relative,
        is_learned=prior.is_learned,
        intercept=problem.intercept,
        location=np.zeros(d) if isinstance(x, GivenX) else np.ascontiguousarray(x.location, float),
        strength=1.0 if isinstance(x, GivenX) else float(x.strength),
        scale=np.eye(d) if isinstance(x, GivenX) else np.ascontiguousarray(x.scale, float),
        degrees=0.0 if given else float(x.degrees),  # type: ignore[union-attr]
    )


def require_normal_covariates(problem: Problem, method: str) -> NormalX:
    """The law of the covariates, where a method cannot do without one."""
    if isinstance(problem.covariates, GivenX):
        raise Unsupported(
            f"method {method!r} needs covariates that are normal, but only their moments were given. "
            "Leave out `covariates`, or use method 'marginal' or 'gibbs-prior'."
        )
    if isinstance(problem.covariates, LocationX):
        raise TypeError(f"method {method!r} was handed covariates of a location model")
    return problem.covariates


def require_conjugate(prior: Prior, method: str) -> None:
    """Bernstein & Sheldon's samplers draw (theta, sigma^2) together, which needs a prior relative to sigma^2."""
    if not prior.is_relative:
        raise Unsupported(
            f"method {method!r} needs a prior of the coefficients relative to the error variance. Give "
            "prior=NormalInverseGamma(mean, precision, shape, rate), or use method 'marginal' or 'exact-gibbs'."
        )


def _loading(holder: Holder, problem: Problem, pairs: Integers) -> tuple[Floats, Floats]:
    """(K, P) and (K,): how each component depends on the free moments, and what the constant one contributes."""
    a, b = holder.map[holder.pairs[:, 0]], holder.map[holder.pairs[:, 1]]
    i, j = pairs.T
    matrix = a[:, i] * b[:, j] + np.where(i == j, 0.0, a[:, j] * b[:, i])
    constant = a[:, 0] * b[:, 0] * holder.n * holder.block if problem.intercept else np.zeros(len(holder.pairs))
    return matrix, constant
