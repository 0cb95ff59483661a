"""Noise-aware Gibbs sampling of a rate behind a noisy clamped or redacted sum: gamma-Poisson, gamma-exponential.

Per sweep, with r the published sum before its noise, s the sufficient one over everybody, and (r, s) jointly normal by
the random-sum central limit theorem, moments (m_r, m_s, V_r, V_s, C) from `region_moments`:
    s | rate, d, y      N(m_s + C (y - m_r)/(V_r + d), V_s - C^2/(V_r + d)), s >= 0
    rate | s            gamma: (a + s, b + n) for Poisson records, (a + n, b + s) for exponential ones
    r | rate, d, y      N(m_r + g (y - m_r), g d), g = V_r/(V_r + d), between what n records can sum to
    d | r, y            the mixing variance of Laplace noise (`conditionals`)
This is Algorithm 2 of Bernstein & Sheldon (2018), corrected: r is drawn given y at the new rate (their line 10 forgets
y, which `forgets` reproduces), and the three parts of s are not independent (which `is_independent` reproduces).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.families.conditionals import mixing_variance, truncated_normal
from noisewise.families.region_moments import exponential_regions, joint_moments, poisson_regions
from noisewise.types import Floats

__all__ = ["log_fit", "rate_chain", "sum_moments"]

Booleans = NDArray[np.bool_]
LEAST_RATE, LARGEST_RATE = 1e-100, 1e100


@njit(cache=True)
def sum_moments(
    is_poisson: bool, n: float, rate: float, window: Floats, is_clamped: Booleans, is_independent: bool, out: Floats
) -> None:
    """Of n records: the means of r and s, the variances of r and s, and their covariance, into out (5,)."""
    regions = np.empty((3, 3))
    if is_poisson:
        poisson_regions(rate, window[0], window[1], regions)
    else:
        exponential_regions(rate, window[0], window[1], regions)
    ends = np.zeros((2, 2))
    for side in range(2):
        if is_clamped[side]:
            ends[side, 0], ends[side, 1] = 1.0, window[side]
    mean, rr, sr, ss = np.empty(2), np.empty((2, 2)), np.empty((2, 2)), np.empty((2, 2))
    joint_moments(regions, ends, is_independent, mean, rr, sr, ss)
    whole = rate if is_poisson else 1.0 / rate
    spread = whole if is_poisson else whole * whole
    out[0], out[1] = n * mean[1], n * whole
    out[2], out[3] = n * max(rr[1, 1], 0.0), n * (ss[1, 1] if is_independent else spread)
    out[4] = n * sr[1, 1]


@njit(cache=True)
def log_fit(
    is_poisson: bool, rates: Floats, sizes: Floats, observed: Floats, d: Floats, windows: Floats, is_clamped: Booleans
) -> Floats:
    """log N(y; m_r, V_r + d) at each rate, up to a constant: where chains may start."""
    fit, now = np.zeros(rates.size), np.empty(5)
    for i in range(rates.size):
        for j in range(sizes.size):
            sum_moments(is_poisson, sizes[j], rates[i], windows[j], is_clamped[j], False, now)
            spread = now[2] + d[j]
            fit[i] -= 0.5 * (observed[j] - now[0]) ** 2 / spread + 0.5 * math.log(spread)
    return fit


@njit(cache=True)
def rate_chain(
    rng: np.random.Generator, is_poisson: bool, a: float, b: float, sizes: Floats, observed: Floats, scale: Floats,
    is_laplace: Booleans, d: Floats, windows: Floats, is_clamped: Booleans, ranges: Floats, is_independent: bool,
    forgets: bool, start: float, sweeps: int,
) -> Floats:  # fmt: skip
    """Draws (sweeps,) of the rate behind noisy sums of several groups of records.

    The noise variances d are where the mixing starts, and are overwritten.
    """
    rate, drawn, n, groups = start, np.empty(sweeps), 0.0, sizes.size
    now = np.empty((groups, 5))
    for j in range(groups):
        n += sizes[j]
        sum_moments(is_poisson, sizes[j], rate, windows[j], is_clamped[j], is_independent, now[j])
    for sweep in range(sweeps):
        total = 0.0
        for j in range(groups):
            m_r, m_s, v_r, v_s, c = now[j, 0], now[j, 1], now[j, 2], now[j, 3], now[j, 4]
            pull = c / (v_r + d[j])
            sd = math.sqrt(max(v_s - pull * c, 0.0))
            total += truncated_normal(rng, m_s + pull * (observed[j] - m_r), sd, 0.0, math.inf)
        if is_poisson:
            rate = rng.standard_gamma(a + total) / (b + n)
        else:
            rate = rng.standard_gamma(a + n) / (b + total)
        rate = min(max(rate, LEAST_RATE), LARGEST_RATE)
        for j in range(groups):
            sum_moments(is_poisson, sizes[j], rate, windows[j], is_clamped[j], is_independent, now[j])
            if is_laplace[j]:
                m_r, v_r = now[j, 0], now[j, 2]
                gain = 0.0 if forgets else v_r / (v_r + d[j])
                sd = math.sqrt(v_r if forgets else gain * d[j])
                r = truncated_normal(rng, m_r + gain * (observed[j] - m_r), sd, ranges[j, 0], ranges[j, 1])
                d[j] = mixing_variance(rng, observed[j] - r, scale[j])
        drawn[sweep] = rate
    return drawn
