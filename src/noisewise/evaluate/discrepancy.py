"""Distances between distributions, from draws.

Maximum mean discrepancy (Gretton et al. 2012) with the standard normal kernel k(x, y) = exp(-|x - y|^2/2):
    MMD^2 = E k(x, x') + E k(y, y') - 2 E k(x, y),
estimated without the pairs of a draw with itself (unbiased, so it may be negative) or with them (biased, never
negative). Kolmogorov's distance sup |F_m(t) - t| from the uniform law on [0, 1], with its exact p-value, is what
calibration is judged by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.types import Floats

# Rows of the kernel matrix held at once: 16 MB at ten thousand draws.
ROWS = 200


def mmd_squared(x: ArrayLike, y: ArrayLike, *, biased: bool = False) -> float:
    """Squared maximum mean discrepancy of draws x (m, d) and y (n, d); one-dimensional draws may be flat arrays."""
    one, two = _draws(x, "x"), _draws(y, "y")
    if one.shape[1] != two.shape[1]:
        raise InvalidArgument(
            f"y has {two.shape[1]} columns and x has {one.shape[1]}: draws of one space are compared.", argument="y"
        )
    m, n = len(one), len(two)
    within_one, within_two, across = _kernel_sum(one, one), _kernel_sum(two, two), _kernel_sum(one, two)
    if biased:
        return within_one / m**2 + within_two / n**2 - 2 * across / (m * n)
    if min(m, n) < 2:
        raise InvalidArgument("x and y: the unbiased estimate needs two draws of each.", argument="x")
    # k(x, x) = 1: the m pairs of a draw with itself are taken out.
    return (within_one - m) / (m * (m - 1)) + (within_two - n) / (n * (n - 1)) - 2 * across / (m * n)


@dataclass(frozen=True, slots=True)
class Uniformity:
    """Kolmogorov's distance from the uniform law, and the probability of one at least as large under it."""

    distance: float
    p_value: float


def uniformity(values: ArrayLike) -> Uniformity:
    """Kolmogorov–Smirnov distance of values in [0, 1] to the uniform law, with its exact p-value."""
    from scipy.stats import kstwo

    ordered = np.sort(np.asarray(values, float), axis=None)
    if not ordered.size or not (ordered[0] >= 0 and ordered[-1] <= 1):
        raise InvalidArgument("values: expected numbers between 0 and 1, and at least one.", argument="values")
    m = ordered.size
    above = np.arange(1, m + 1) / m - ordered
    below = ordered - np.arange(m) / m
    distance = float(max(above.max(), below.max()))
    return Uniformity(distance, float(kstwo.sf(distance, m)))


def _draws(values: ArrayLike, argument: str) -> Floats:
    draws = np.asarray(values, np.float64)
    if draws.ndim == 1:
        draws = draws[:, None]
    if draws.ndim != 2 or not len(draws) or not np.all(np.isfinite(draws)):
        raise InvalidArgument(f"{argument}: expected finite draws of shape (count, size).", argument=argument)
    return draws


def _kernel_sum(one: Floats, two: Floats) -> float:
    """The sum of k over all pairs, a block of rows at a time."""
    total = 0.0
    squares = np.sum(two**2, axis=1)
    for at in range(0, len(one), ROWS):
        rows = one[at : at + ROWS]
        distances = np.sum(rows**2, axis=1)[:, None] + squares - 2 * rows @ two.T
        total += float(np.exp(-0.5 * np.maximum(distances, 0.0)).sum())
    return total
