"""The sum and the sum of squares of a few normal numbers, seen through noise: exact where a normal law is not.

Of n numbers from N(m, s^2) the sum is S1 ~ N(n m, n s^2), and given it S2 = S1^2/n + s^2 W with W ~ chi-squared of
n - 1 degrees, free of m. With y_j = S_j + noise,
    p(y1, y2) = int N(u; n m, n s^2) noise_1(y1 - u) G(u) du,
    G(u) = int chi2_{n-1}(w) noise_2(y2 - u^2/n - s^2 w) dw,
both by Gauss-Legendre nodes on what is left of each line by the laws that meet there, split at the cusp of a Laplace
noise; w = v^2 takes the pole of one degree away.

The normal law of (S1, S2) misses the skewness of W, 8 n s^6 over the variance of S2 given S1 and noise to the power of
1.5: from a quarter on (`is_skewed`) this law stands in its place. Whether numbers are normal is told by their moments:
    Cov(x, x^2) = 2 m s^2,    Var(x^2) = 4 m^2 s^2 + 2 s^4.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.likelihood.quadrature import gauss_legendre
from noisewise.types import Array, Bools, Floats

__all__ = ["is_normal", "is_skewed", "log_density", "may_be_skewed"]

SKEWED = 0.25
ALIKE = 0.02  # by how much third and fourth moments may differ, of their own size
NODES = 16
LONG, FAR = 18.0, 6.5  # reach of Laplace noise in scales, of normal laws in standard deviations


def is_normal(mean: Array, covariance: Array) -> Bools:
    """Whether one record's (x, x^2) has the moments (..., 2), (..., 2, 2) of a normal x."""
    m, v = mean[..., 0], covariance[..., 0, 0]
    cross, square = 2 * m * v, 4 * m**2 * v + 2 * v**2
    with np.errstate(invalid="ignore"):
        near = np.abs(covariance[..., 0, 1] - cross) <= ALIKE * np.sqrt(v * square)
        return np.asarray(near & (np.abs(covariance[..., 1, 1] - square) <= ALIKE * square))


def is_skewed(n: Array, variance: Array, noise: float) -> Bools:
    """Whether S2 given S1 is skewed in spite of noise of this variance; groups of nobody and of one are not meant."""
    squares = np.square(variance)
    return np.asarray((n >= 2) & (8 * n * squares * variance > SKEWED * (2 * n * squares + noise) ** 1.5))


def may_be_skewed(variance: float, noise: float) -> bool:
    """Whether any number of people could make S2 skewed: the skewness is largest where 2 n s^4 is twice the noise."""
    return bool(8 * variance > SKEWED * np.sqrt(27 * noise))


def log_density(
    n: Array,
    mean: Array,
    variance: Array,
    y: tuple[float, float],
    scale: tuple[float, float],
    is_laplace: tuple[bool, bool],
) -> Floats:
    """log p(y1, y2) for rows of n, m and s^2 (K,)."""
    rows = np.stack([np.asarray(part, np.float64) for part in (n, mean, variance)], axis=1)
    return _rows(rows, np.array(y), np.array(scale), np.array(is_laplace), *gauss_legendre(NODES))


@njit(cache=True)
def _rows(rows: Floats, y: Floats, scale: Floats, is_laplace: Bools, nodes: Floats, weights: Floats) -> Floats:
    found = np.empty(len(rows))
    reach = np.where(is_laplace, LONG, FAR) * scale
    edges, log = np.empty(5), np.empty(4 * nodes.size)
    for r in range(len(rows)):
        n, m, s = rows[r, 0], rows[r, 1], math.sqrt(rows[r, 2])
        root = math.sqrt(n)
        # chi of k degrees: mean about sqrt(k), standard deviation below 0.71
        k = n - 1
        least, most = max(math.sqrt(k) - FAR * 0.75, 0.0), math.sqrt(k) + FAR * 0.75
        constant = -(0.5 * k - 1) * math.log(2.0) - math.lgamma(0.5 * k)
        low, high = max(y[0] - reach[0], n * m - FAR * root * s), min(y[0] + reach[0], n * m + FAR * root * s)
        inside = n * (y[1] + reach[1] - s * s * least * least)  # u^2 at most
        outside = n * (y[1] - reach[1] - s * s * most * most)  # u^2 at least
        if inside > 0:
            low, high = max(low, -math.sqrt(inside)), min(high, math.sqrt(inside))
        if outside > 0:
            if low > -math.sqrt(outside):
                low = max(low, math.sqrt(outside))
            elif high < math.sqrt(outside):
                high = min(high, -math.sqrt(outside))
        if inside <= 0 or not low < high:
            found[r] = -np.inf
            continue
        middle = min(max(y[0], low), high)
        edges[0], edges[2], edges[4] = low, middle, high
        edges[1], edges[3] = 0.5 * (low + middle), 0.5 * (middle + high)
        top, count = -np.inf, 0
        for j in range(4):
            half = 0.5 * (edges[j + 1] - edges[j])
            if half <= 0:
                continue
            for i in range(nodes.size):
                u = edges[j] + half * (1 + nodes[i])
                z = (u - n * m) / (root * s)
                inner = _given_sum(
                    y[1] - u * u / n, s, k, least, most, scale[1], is_laplace[1], reach[1], nodes, weights
                )
                log[count] = (
                    math.log(half * weights[i]) - 0.5 * z * z + _noise(y[0] - u, scale[0], is_laplace[0]) + inner
                )
                top = max(top, log[count])
                count += 1
        total = 0.0
        if top > -np.inf:
            for i in range(count):
                total += math.exp(log[i] - top)
        found[r] = (
            math.log(total) + top - math.log(root * s) - 0.5 * math.log(2 * math.pi) + constant
            if total > 0
            else -np.inf
        )
    return found


@njit(cache=True)
def _noise(d: float, scale: float, is_laplace: bool) -> float:
    z = abs(d) / scale
    return -z - math.log(2 * scale) if is_laplace else -0.5 * z * z - math.log(scale) - 0.5 * math.log(2 * math.pi)


@njit(cache=True)
def _given_sum(
    c: float,
    s: float,
    k: float,
    least: float,
    most: float,
    scale: float,
    is_laplace: bool,
    reach: float,
    nodes: Floats,
    weights: Floats,
) -> float:
    """log of int v^(k-1) e^(-v^2/2) noise(c - s^2 v^2) dv, between the ends of v and of the noise."""
    low, high = least, min(most, math.sqrt(max(c + reach, 0.0)) / s)
    if c - reach > 0:
        low = max(low, math.sqrt(c - reach) / s)
    if not low < high:
        return -np.inf
    middle = min(max(math.sqrt(max(c, 0.0)) / s, low), high)
    total, top = 0.0, -np.inf
    for side in range(2):
        a, b = (low, middle) if side == 0 else (middle, high)
        half = 0.5 * (b - a)
        if half <= 0:
            continue
        for i in range(nodes.size):
            v = a + half * (1 + nodes[i])
            one = math.log(half * weights[i]) + (k - 1) * math.log(v) - 0.5 * v * v
            one += _noise(c - s * s * v * v, scale, is_laplace)
            if one > top:
                total = total * math.exp(top - one) + 1.0 if total > 0 else 1.0
                top = one
            else:
                total += math.exp(one - top)
    return math.log(total) + top if total > 0 else -np.inf
