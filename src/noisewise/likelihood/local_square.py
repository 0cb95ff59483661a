"""One record answered as x^2 with Laplace noise: Y = min(X^2, A^2) + V, X ~ N(0, theta), V ~ Laplace(b).

With t^2 = clip(y, 0, A^2), the roots split the integral over |x| at t:
    2b p(y) = L + U + 2 Phi(-A/sqrt theta) e^{-|y - A^2|/b},
    L = int_0^t  2 phi_theta(x) e^{-(y - x^2)/b} dx = (2/(pi theta))^{1/2} e^{-y/b} t h(w),     w = kappa t^2/2,
    U = int_t^A  2 phi_theta(x) e^{-(x^2 - y)/b} dx = 2 (q theta)^{-1/2} e^{(y - t^2)/b - t^2/2theta}
                                                     [Ein(t sqrt q) - e^{-q(A^2 - t^2)/2} Ein(A sqrt q)],
kappa = 1/theta - 2/b, q = 1/theta + 2/b, Ein(x) = Phi(-x) e^{x^2/2}, and one entire function for both signs of kappa,
    h(w) = int_0^1 e^{-w v^2} dv = (sqrt(pi)/2) erf(sqrt w)/sqrt w  (w > 0),   e^{-w} Dawson(sqrt -w)/sqrt -w  (w < 0).
The score is Fisher's identity, E[x^2/theta - 1 | y]/(2 theta) over L and U, plus the atom's own derivative.
Promise: log p to 1e-12 relative, the score to 1e-11 in units of 1/theta, through kappa = 0 too; A = inf allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import dawsn, erf, erfcx, log_ndtr

from noisewise.types import Floats

__all__ = ["log_density", "score"]

LOG_2 = float(np.log(2))
SERIES = np.cumprod(np.concatenate([[1.0], -1.0 / np.arange(1, 24)]))  # (-1)^j / j!


def log_density(y: ArrayLike, *, variance: ArrayLike, scale: ArrayLike, bound: ArrayLike = np.inf) -> Floats:
    """log p(y); `bound` is A, the bound of |x|."""
    y, theta, b, bound = _floats(y, variance, scale, bound)
    lower, upper, atom = _parts(y, theta, b, bound)
    return np.asarray(np.logaddexp(np.logaddexp(lower, upper), atom) - np.log(2 * b))[()]


def score(y: ArrayLike, *, variance: ArrayLike, scale: ArrayLike, bound: ArrayLike = np.inf) -> Floats:
    """The derivative of log p(y) in the variance."""
    y, theta, b, bound = _floats(y, variance, scale, bound)
    lower, upper, atom = _parts(y, theta, b, bound)
    log_p = np.logaddexp(np.logaddexp(lower, upper), atom)
    with np.errstate(all="ignore"):
        square = np.clip(y, 0, np.square(bound))
        below = square * _mean_square(0.5 * (1 / theta - 2 / b) * square)
        above = _mean_square_above(square, bound, 1 / theta + 2 / b)
        alpha = bound / np.sqrt(theta)
        distance = np.abs(y - np.square(bound))
        edge = alpha * np.exp(-0.5 * np.square(alpha) - distance / b - log_p) / np.sqrt(2 * np.pi)
        edge = np.where(np.isinf(bound), 0.0, edge)
        inside = np.exp(lower - log_p) * (below / theta - 1) + np.exp(upper - log_p) * (above / theta - 1)
    return np.asarray((0.5 * inside + edge) / theta)[()]


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values)))


def _parts(y: Floats, theta: Floats, b: Floats, bound: Floats) -> tuple[Floats, Floats, Floats]:
    """log L, log U and the log of the atom's term."""
    with np.errstate(all="ignore"):
        end = np.square(bound)
        square = np.clip(y, 0, end)
        at_root = -0.5 * square / theta
        w = 0.5 * (1 / theta - 2 / b) * square
        front = 0.5 * np.log(2 * square / (np.pi * theta))
        lower = front + np.where(w >= 0, -y / b + _log_h(w), -(y - square) / b + at_root + _log_dawson(w))
        q = 1 / theta + 2 / b
        far = np.where(np.isinf(end), 0.0, np.exp(-0.5 * q * (end - square)) * _mills(np.sqrt(q * end)))
        upper = LOG_2 - 0.5 * np.log(q * theta) + (y - square) / b + at_root
        upper = upper + np.log(_mills(np.sqrt(q * square)) - far)
        atom = np.where(np.isinf(end), -np.inf, LOG_2 + log_ndtr(-bound / np.sqrt(theta)) - np.abs(y - end) / b)
        return lower, np.where(y >= end, -np.inf, upper), atom


def _mills(x: Floats) -> Floats:
    return np.asarray(0.5 * erfcx(x / np.sqrt(2)))


def _log_h(w: Floats) -> Floats:
    """log h(w), w >= 0."""
    root = np.sqrt(np.maximum(w, 0))
    return np.where(root > 0, np.log(0.5 * np.sqrt(np.pi) * erf(root) / root), 0.0)


def _log_dawson(w: Floats) -> Floats:
    """log h(w) + w, w <= 0."""
    root = np.sqrt(np.maximum(-w, 0))
    return np.where(root > 0, np.log(dawsn(root) / root), 0.0)


def _mean_square(w: Floats) -> Floats:
    """E v^2 under the law proportional to e^{-w v^2} on [0, 1]: (1 - e^{-w}/h(w))/2w, or a ratio of series near 0."""
    small = np.abs(w) < 1
    powers = np.power.outer(np.where(small, w, 0.0), np.arange(SERIES.size)) * SERIES
    odd = 2 * np.arange(SERIES.size) + 1.0
    series = np.sum(powers / (odd + 2), axis=-1) / np.sum(powers / odd, axis=-1)
    fading = np.where(w >= 0, np.exp(-np.abs(w) - _log_h(w)), np.exp(-_log_dawson(w)))
    return np.where(small, series, 0.5 * (1 - fading) / w)


def _mean_square_above(square: Floats, bound: Floats, q: Floats) -> Floats:
    """E x^2 under the law proportional to e^{-q x^2/2} on [t, A]."""
    fade = np.where(np.isinf(bound), 0.0, np.exp(-0.5 * q * (np.square(bound) - square)))
    t, far = np.sqrt(square), np.where(np.isinf(bound), 0.0, bound)
    mass = np.sqrt(2 * np.pi / q) * (_mills(np.sqrt(q) * t) - fade * _mills(np.sqrt(q) * far))
    mean_square = 1 / q + (t - far * fade) / (q * mass)
    return np.where(mass > 0, np.clip(mean_square, square, np.square(bound)), square)
