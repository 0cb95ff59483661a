"""Noise-aware Gibbs sampling of a mean and variance behind noisy clamped or redacted sums of x and x^2.

As `sum_gibbs`, with two sums: r = (sum x, sum x^2) as published before the noise, s the same over everybody,
jointly normal by the random-sum central limit theorem. Per sweep, D = diag d:
    s | mean, variance, d, y     N(m_s + C K (y - m_r), V_s - C K C'),  K = (V_r + D)^-1
    mean, variance | s           normal-inverse-gamma
    r | mean, variance, d, y     N(m_r + V_r K (y - m_r), V_r K D)
    d | r, y                     the mixing variances of Laplace noise (`conditionals`)
D is never singular, so V_r may be. Sums of n numbers and of their squares satisfy s_2 > s_1^2/n, and so do r: draws
that do not are rejected, and after MOST_TRIES moved to the nearest possible s_2 (counted as projections).
Moments are those of z = (x - mean)/sd, and s is kept in units of z, so that nothing cancels where the mean is many
standard deviations from 0; the published sums are sums of (1, x, x^2) = B (1, z, z^2), redacted records giving 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.families.conditionals import mixing_variance
from noisewise.families.region_moments import joint_moments, normal_regions
from noisewise.types import Floats

__all__ = ["log_fit", "normal_chain", "normal_inverse_gamma", "pair_moments", "updated"]

Booleans = NDArray[np.bool_]
MOST_TRIES = 1000
FARTHEST = 1e70  # standardised ends beyond it would overflow in their fourth power
LEAST_VARIANCE, LARGEST_VARIANCE, LEAST = 1e-200, 1e200, 1e-300


@njit(cache=True)
def pair_moments(
    mean: float, variance: float, window: Floats, is_clamped: Booleans, is_independent: bool,
    m_r: Floats, m_s: Floats, v_r: Floats, v_s: Floats, c: Floats,
) -> None:  # fmt: skip
    """Of one record: the moments of r in units of x, of s in units of z, and their covariance C (s by r)."""
    sd = math.sqrt(variance)
    edges = np.empty(2)
    for side in range(2):
        edges[side] = min(max((window[side] - mean) / sd, -FARTHEST), FARTHEST)
    regions, ends = np.empty((3, 5)), np.zeros((2, 3))
    normal_regions(edges[0], edges[1], regions)
    for side in range(2):
        if is_clamped[side]:
            ends[side, 0], ends[side, 1], ends[side, 2] = 1.0, edges[side], edges[side] * edges[side]
    published, rr, sr, ss = np.empty(3), np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    joint_moments(regions, ends, is_independent, published, rr, sr, ss)
    b = np.zeros((2, 3))
    b[0, 0], b[0, 1] = mean, sd
    b[1, 0], b[1, 1], b[1, 2] = mean * mean, 2.0 * mean * sd, variance
    for i in range(2):
        m_s[i] = regions[0, i + 1] + regions[1, i + 1] + regions[2, i + 1]
        m_r[i] = 0.0
        for k in range(3):
            m_r[i] += b[i, k] * published[k]
        for j in range(2):
            v_s[i, j] = ss[i + 1, j + 1]
            v_r[i, j], c[i, j] = 0.0, 0.0
            for k in range(3):
                c[i, j] += sr[i + 1, k] * b[j, k]
                for h in range(3):
                    v_r[i, j] += b[i, k] * rr[k, h] * b[j, h]


@njit(cache=True)
def log_fit(theta: Floats, sizes: Floats, observed: Floats, d: Floats, windows: Floats, is_clamped: Booleans) -> Floats:
    """log N(y; m_r, V_r + D) at each row (mean, variance), up to a constant: where chains may start."""
    m_r, m_s, k = np.empty(2), np.empty(2), np.empty((2, 2))
    v_r, v_s, c = np.empty((2, 2)), np.empty((2, 2)), np.empty((2, 2))
    fit = np.zeros(len(theta))
    for i in range(len(theta)):
        for j in range(sizes.size):
            pair_moments(theta[i, 0], theta[i, 1], windows[j], is_clamped[j], False, m_r, m_s, v_r, v_s, c)
            determinant = _inverse_of_sum(sizes[j], v_r, d[j], k)
            u, v = observed[j, 0] - sizes[j] * m_r[0], observed[j, 1] - sizes[j] * m_r[1]
            fit[i] -= 0.5 * (k[0, 0] * u * u + 2.0 * k[0, 1] * u * v + k[1, 1] * v * v) + 0.5 * math.log(determinant)
    return fit


@njit(cache=True)
def normal_chain(
    rng: np.random.Generator, prior: Floats, sizes: Floats, observed: Floats, scale: Floats, is_laplace: Booleans,
    d: Floats, windows: Floats, is_clamped: Booleans, is_independent: bool, forgets: bool, start: Floats, sweeps: int,
) -> tuple[Floats, int]:  # fmt: skip
    """Draws (sweeps, 2) of (mean, variance) behind noisy sums (groups, 2), and how many sums were projected.

    The noise variances d (groups, 2) are where the mixing starts, and are overwritten.
    """
    mean, variance = start[0], start[1]
    drawn, projections, groups, n = np.empty((sweeps, 2)), 0, sizes.size, 0.0
    m_r, m_s = np.empty((groups, 2)), np.empty((groups, 2))
    v_r, v_s, c = np.empty((groups, 2, 2)), np.empty((groups, 2, 2)), np.empty((groups, 2, 2))
    s, r, total = np.empty(2), np.empty(2), np.empty(2)
    for j in range(groups):
        n += sizes[j]
        pair_moments(mean, variance, windows[j], is_clamped[j], is_independent, m_r[j], m_s[j], v_r[j], v_s[j], c[j])
    for sweep in range(sweeps):
        total[0] = total[1] = 0.0
        for j in range(groups):
            projections += _draw_sufficient(rng, sizes[j], observed[j], d[j], m_r[j], m_s[j], v_r[j], v_s[j], c[j], s)
            total[0] += s[0]
            total[1] += s[1]
        mean, variance = normal_inverse_gamma(rng, prior, n, total, mean, variance)
        for j in range(groups):
            pair_moments(
                mean, variance, windows[j], is_clamped[j], is_independent, m_r[j], m_s[j], v_r[j], v_s[j], c[j]
            )
            if is_laplace[j, 0] or is_laplace[j, 1]:
                projections += _draw_published(rng, sizes[j], observed[j], d[j], m_r[j], v_r[j], forgets, r)
            for i in range(2):
                if is_laplace[j, i]:
                    d[j, i] = mixing_variance(rng, observed[j, i] - r[i], scale[j, i])
        drawn[sweep, 0], drawn[sweep, 1] = mean, variance
    return drawn, projections


@njit(cache=True)
def normal_inverse_gamma(
    rng: np.random.Generator, prior: Floats, n: float, total: Floats, mean: float, variance: float
) -> tuple[float, float]:
    """(mean, variance) given n records whose sums of z and z^2, z = (x - mean)/sd by the old ones, are `total`."""
    average = mean + math.sqrt(variance) * total[0] / n
    squares = variance * max(total[1] - total[0] * total[0] / n, 0.0)
    centre, weight, a, b = updated(prior, n, average, squares)
    drawn = b / max(rng.standard_gamma(a), LEAST)
    drawn = min(max(drawn, LEAST_VARIANCE), LARGEST_VARIANCE)
    return centre + math.sqrt(drawn / weight) * rng.standard_normal(), drawn


@njit(cache=True)
def updated(prior: Floats, n: float, average: float, squares: float) -> tuple[float, float, float, float]:
    """The prior's (mu, lmbda, a, b) after n records with this average and sum of squares about it."""
    mu, weight, a, b = prior[0], prior[1], prior[2], prior[3]
    grown = weight + n
    between = weight * n / grown * (average - mu) ** 2
    return (weight * mu + n * average) / grown, grown, a + 0.5 * n, b + 0.5 * (squares + between)


@njit(cache=True)
def _draw_sufficient(
    rng: np.random.Generator, n: float, y: Floats, d: Floats, m_r: Floats, m_s: Floats, v_r: Floats, v_s: Floats,
    c: Floats, s: Floats,
) -> int:  # fmt: skip
    """s | theta, d, y in units of z; 1 if it had to be projected."""
    k = np.empty((2, 2))
    _inverse_of_sum(n, v_r, d, k)
    centre, left, pull = np.empty(2), np.empty((2, 2)), np.empty((2, 2))
    _product(n, c, k, pull)
    for i in range(2):
        centre[i] = n * m_s[i] + pull[i, 0] * (y[0] - n * m_r[0]) + pull[i, 1] * (y[1] - n * m_r[1])
        for j in range(2):
            left[i, j] = n * (v_s[i, j] - pull[i, 0] * c[j, 0] - pull[i, 1] * c[j, 1])
    projected: int = _draw_possible(rng, centre, left, n, s)
    return projected


@njit(cache=True)
def _draw_published(
    rng: np.random.Generator, n: float, y: Floats, d: Floats, m_r: Floats, v_r: Floats, forgets: bool, r: Floats
) -> int:
    """r | theta, d, y (or, with `forgets`, r | theta alone); 1 if it had to be projected."""
    k, gain = np.empty((2, 2)), np.empty((2, 2))
    _inverse_of_sum(n, v_r, d, k)
    _product(n, v_r, k, gain)
    centre, left = np.empty(2), np.empty((2, 2))
    for i in range(2):
        centre[i] = n * m_r[i]
        for j in range(2):
            if not forgets:
                centre[i] += gain[i, j] * (y[j] - n * m_r[j])
            left[i, j] = n * v_r[i, j] if forgets else gain[i, j] * d[j]
    projected: int = _draw_possible(rng, centre, left, n, r)
    return projected


@njit(cache=True)
def _draw_possible(rng: np.random.Generator, centre: Floats, covariance: Floats, n: float, out: Floats) -> int:
    """N(centre, covariance) given out_2 > out_1^2/n, which sums of numbers and of their squares satisfy."""
    first = math.sqrt(max(covariance[0, 0], 0.0))
    slope = 0.5 * (covariance[0, 1] + covariance[1, 0]) / first if first > 0.0 else 0.0
    second = math.sqrt(max(covariance[1, 1] - slope * slope, 0.0))
    for _ in range(MOST_TRIES):
        u = rng.standard_normal()
        out[0] = centre[0] + first * u
        out[1] = centre[1] + slope * u + second * rng.standard_normal()
        if out[1] > out[0] * out[0] / n:
            return 0
    out[1] = out[0] * out[0] / n
    return 1


@njit(cache=True)
def _inverse_of_sum(n: float, v: Floats, d: Floats, out: Floats) -> float:
    """(n v + diag d)^-1, and the determinant of what was inverted."""
    a, b, c = n * v[0, 0] + d[0], n * v[0, 1], n * v[1, 1] + d[1]
    # A mixing variance may be next to nothing, and the covariance of x and x^2 singular to rounding.
    determinant: float = max(a * c - b * b, 1e-15 * a * c)
    out[0, 0], out[1, 1] = c / determinant, a / determinant
    out[0, 1] = out[1, 0] = -b / determinant
    return determinant


@njit(cache=True)
def _product(n: float, a: Floats, b: Floats, out: Floats) -> None:
    """n a b."""
    for i in range(2):
        for j in range(2):
            out[i, j] = n * (a[i, 0] * b[0, j] + a[i, 1] * b[1, j])
