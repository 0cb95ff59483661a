"""The standard normal law tilted by an exponential over an interval: what Laplace noise makes of a clipped normal.

    I(c, d, k) = int_c^d phi(x) exp(k (x - d)) dx,      k >= 0, c <= d,
with Ein(x) = Phi(-x) exp(x^2/2), c' = c - k, d' = d - k (c = -inf allowed):
    d' <= 0:  exp(-d^2/2) [Ein(-d') - exp((d - c)(c' + d')/2) Ein(-c')]
    c' >= 0:  exp(-c^2/2 - k(d - c)) [Ein(c') - exp(-(d - c)(c' + d')/2) Ein(d')]
    else   :  exp(k^2/2 - k d) [Phi(d') - Phi(c')].
The two-sided window about z in [a, b] is I(a, z, k) + I(-b, -z, k), by reflection.
`moments` integrates the same law with 40 Gauss-Legendre nodes on the part of [c, d] that holds all but exp(-40) of it;
the log integrand falls by at most 40 there, so mean and second moment keep 13 digits also where the closed form of a
truncated mean, Mills ratio minus argument, would lose all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

from noisewise.likelihood.quadrature import gauss_legendre
from noisewise.types import Floats

__all__ = ["TiltedMoments", "log_mass", "moments", "window_moments"]

REACH = 80.0  # twice the fall of the log integrand at which it is cut off


class TiltedMoments(NamedTuple):
    """Moments of x under the tilted law."""

    mean: Floats
    square: Floats


def log_mass(c: Floats, d: Floats, k: Floats, width: Floats | None = None) -> Floats:
    """log I(c, d, k), -inf where c = d; `width` is d - c where the caller knows it better than the difference."""
    with np.errstate(all="ignore"):
        c, d, k, width = np.broadcast_arrays(c, d, k, d - c if width is None else width)
        below, above = c - k, d - k
        middle = 0.5 * (below + above)
        left = -0.5 * np.square(d) + np.log(_mills(-above) - _faded(width * middle, -below))
        right = -0.5 * np.square(c) - k * width + np.log(_mills(below) - _faded(-width * middle, above))
        centre = k * (0.5 * k - d) + np.log(ndtr(above) - ndtr(below))
        result = np.select([above <= 0, below >= 0], [left, right], centre)
        return np.asarray(np.where(width == 0, -np.inf, result))


def moments(c: Floats, d: Floats, k: Floats, width: Floats | None = None) -> TiltedMoments:
    """E x and E x^2 under the law proportional to phi(x) exp(k x) on [c, d]."""
    c, d, k, width = np.broadcast_arrays(c, d, k, d - c if width is None else width)
    peak = np.minimum(np.maximum(k, c), d)
    slope = peak - k
    reach = REACH / (np.sqrt(np.square(slope) + REACH) + np.abs(slope))
    to_low, to_high = np.where(peak == d, width, peak - c), np.where(peak == c, width, d - peak)
    low, high = -np.minimum(to_low, reach), np.minimum(np.where(peak == d, 0.0, to_high), reach)
    low = np.where(peak == c, 0.0, low)
    unit, weights = gauss_legendre(40)
    half = 0.5 * (high - low)[..., None]
    s = low[..., None] + half * (1 + unit)
    mass = weights * np.exp(-s * (slope[..., None] + 0.5 * s))
    total = np.sum(mass, axis=-1)
    shift, spread = np.sum(mass * s, axis=-1) / total, np.sum(mass * np.square(s), axis=-1) / total
    return TiltedMoments(peak + shift, np.square(peak) + 2 * peak * shift + spread)


def window_moments(
    a: Floats, z: Floats, b: Floats, k: Floats, below: Floats, above: Floats
) -> tuple[Floats, TiltedMoments, Floats, TiltedMoments]:
    """The window exp(-k|x - z|) on [a, b]: log mass and moments of its part below z, then of its part above.

    `below` and `above` are z - a and b - z.
    """
    mirrored = moments(-b, -z, k, above)
    upper = TiltedMoments(-mirrored.mean, mirrored.square)
    return log_mass(a, z, k, below), moments(a, z, k, below), log_mass(-b, -z, k, above), upper


def _mills(x: Floats) -> Floats:
    return np.asarray(0.5 * erfcx(np.maximum(x, 0) / np.sqrt(2)))


def _faded(exponent: Floats, x: Floats) -> Floats:
    """exp(exponent) Ein(x), where exponent <= 0 wherever it is used; zero at x = inf."""
    return np.asarray(np.where(np.isinf(x), 0.0, np.exp(np.minimum(exponent, 0)) * _mills(x)))
