"""The two draws that every sweep of the Gibbs samplers makes besides conjugate ones.

    truncated normal     a confidential sum given everything else: normal, between what n records can sum to
    mixing variance      Laplace noise v of scale b is normal given sigma^2 ~ Exponential(mean 2 b^2), and
                         1/sigma^2 | v ~ InverseGaussian(mean 1/(b|v|), shape 1/b^2)      (Park & Casella 2008)
Geometric noise on a count has the same kernel e^{-|v|/b}, so the same mixture serves it. Both are compiled and take an
explicit generator; neither rejects more than a fixed share of its proposals, however far the tail.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit

__all__ = ["mixing_variance", "truncated_normal"]

MOST_PROPOSALS = 1000
SMALLEST_DISTANCE = 1e-200  # in units of b; at 0 the law is the limit sigma^2 = b^2 z^2
SMALLEST_VARIANCE = 1e-60  # in units of b^2, so that no gain is 0/0


@njit(cache=True)
def mixing_variance(rng: np.random.Generator, distance: float, b: float) -> float:
    """sigma^2 given Laplace noise at this distance, by the roots of Michael, Schucany & Haas (1976).

    With w = b z^2/|v| the smaller root of x^2 - (2 + w) x + 1 is written so that nothing cancels as |v| goes to 0.
    """
    v = max(abs(distance), SMALLEST_DISTANCE * b)
    z = rng.standard_normal()
    w = b / v * z * z
    root = 2.0 / (2.0 + w + math.sqrt(w) * math.sqrt(w + 4.0))
    drawn = b * v / root if rng.random() * (1.0 + root) <= 1.0 else b * v * root
    return max(drawn, SMALLEST_VARIANCE * b * b)


@njit(cache=True)
def truncated_normal(rng: np.random.Generator, mean: float, sd: float, low: float, high: float) -> float:
    """N(mean, sd^2) on (low, high); the nearest end where the normal is a point outside."""
    nearest = min(max(mean, low), high)
    if not sd > 0.0 or not math.isfinite(mean + sd):
        return nearest
    a, b = (low - mean) / sd, (high - mean) / sd
    if a > 0.0:
        z = _in_the_upper_tail(rng, a, b)
    elif b < 0.0:
        z = -_in_the_upper_tail(rng, -b, -a)
    else:
        z = _around_zero(rng, a, b)
    drawn: float = min(max(mean + sd * z, low), high)
    return drawn


@njit(cache=True)
def _around_zero(rng: np.random.Generator, a: float, b: float) -> float:
    """On (a, b) that holds 0: plain normals, or uniforms where the interval is narrow."""
    is_narrow = b - a < 2.5
    for _ in range(MOST_PROPOSALS):
        if is_narrow:
            z = a + (b - a) * rng.random()
            if rng.random() < math.exp(-0.5 * z * z):
                return z
        else:
            z = rng.standard_normal()
            if a < z < b:
                return z
    return 0.0


@njit(cache=True)
def _in_the_upper_tail(rng: np.random.Generator, a: float, b: float) -> float:
    """On (a, b), a > 0: exponential proposals (Robert 1995), or uniforms where the interval is narrow."""
    rate = 0.5 * (a + math.sqrt(a * a + 4.0))
    is_narrow = (b - a) * rate < 1.0
    for _ in range(MOST_PROPOSALS):
        if is_narrow:
            z = a + (b - a) * rng.random()
            if rng.random() < math.exp(-0.5 * (z - a) * (z + a)):
                return z
        else:
            z = a + rng.standard_exponential() / rate
            if z < b and rng.random() < math.exp(-0.5 * (z - rate) * (z - rate)):
                return z
    return a
