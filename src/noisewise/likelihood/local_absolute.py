"""One record answered as |x| with Laplace noise: Y = min(|X|, A) + V, X ~ N(0, theta), V ~ Laplace(b).

With z = clip(y/sqrt theta, 0, alpha), alpha = A/sqrt theta and k = sqrt(theta)/b (Alparslan & Yildirim 2022, 5.5, with
the clipping atom):
    2b p(y) = exp(-dist(y, [0, A])/b) Q,    Q = 2 Phi(-alpha) e^{-k(alpha - z)} + 2 int_0^alpha phi(x) e^{-k|x - z|} dx.
For A = inf and y <= 0 that is e^{y/b} Ein(k)/b, Ein(k) = Phi(-k) e^{k^2/2}. The score, as in `clipped_normal`, is
    Q theta d/dtheta log p = k int_0^alpha x sign(z - x) phi(x) e^{-k|x - z|} dx                       if k <= 1,
                           = alpha phi(alpha) e^{-k(alpha - z)} + int_0^alpha (x^2 - 1) phi(x) e^{-k|x - z|} dx   else.
Promise: log p to 1e-12 relative, the score to 1e-11 in units of 1/theta; A = inf allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from noisewise.likelihood.tilted_normal import log_mass, window_moments
from noisewise.types import Floats

__all__ = ["log_density", "score"]

LOG_2 = float(np.log(2))
LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


def log_density(y: ArrayLike, *, variance: ArrayLike, scale: ArrayLike, bound: ArrayLike = np.inf) -> Floats:
    """log p(y); `bound` is A."""
    z, alpha, k, distance, scale = _standard(y, variance, scale, bound)
    return np.asarray(_log_window(z, alpha, k) - distance / scale - np.log(2 * scale))[()]


def score(y: ArrayLike, *, variance: ArrayLike, scale: ArrayLike, bound: ArrayLike = np.inf) -> Floats:
    """The derivative of log p(y) in the variance."""
    z, alpha, k, _, _ = _standard(y, variance, scale, bound)
    z, alpha, k = np.broadcast_arrays(z, alpha, k)
    log_q = _log_window(z, alpha, k)
    log_below, below, log_above, above = window_moments(np.zeros_like(z), z, alpha, k, z, alpha - z)
    p, q = np.exp(log_below - log_q), np.exp(log_above - log_q)
    with np.errstate(invalid="ignore"):
        edge = alpha * np.exp(-0.5 * np.square(alpha) - LOG_ROOT_2PI - k * (alpha - z) - log_q)
    edge = np.where(np.isinf(alpha), 0.0, edge)
    moved = k * (p * below.mean - q * above.mean)
    weighed = edge + p * (below.square - 1) + q * (above.square - 1)
    return np.asarray(np.where((k <= 1) | (k * alpha <= 1), moved, weighed) / np.asarray(variance))[()]


def _standard(y: ArrayLike, variance: ArrayLike, scale: ArrayLike, bound: ArrayLike) -> tuple[Floats, ...]:
    y, scale, bound = (np.asarray(v, dtype=np.float64) for v in (y, scale, bound))
    sd = np.sqrt(np.asarray(variance, dtype=np.float64))
    alpha = bound / sd
    z = np.where(y >= bound, alpha, np.maximum(y, 0) / sd)
    return z, alpha, sd / scale, np.maximum(np.maximum(-y, y - bound), 0), scale


def _log_window(z: Floats, alpha: Floats, k: Floats) -> Floats:
    """log Q."""
    with np.errstate(invalid="ignore"):
        atom = np.where(np.isinf(alpha), -np.inf, log_ndtr(-alpha) - k * (alpha - z))
    inside = np.logaddexp(log_mass(np.zeros_like(z), z, k), log_mass(-alpha, -z, k))
    return np.asarray(LOG_2 + np.logaddexp(atom, inside))
