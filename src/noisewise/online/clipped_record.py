"""One clipped answer under discrete and piecewise exponential populations: exact mixtures.

    p(y | theta) = P(x <= low) g(y - low) + P(x >= high) g(y - high) + int_low^high f(x | theta) g(y - x) dx,
g the density of the noise. How the integral is done depends on the population:
    steps      a discrete record: the sum over its values
    pieces     log f is linear between its kinks (Laplace, exponential, uniform), and so is log g or its exponent is
               a square: each piece is closed,
                   Laplace   int_p^q e^{u + v x} dx = (q - p) e^{top} (1 - e^{-d})/d,    d = |v| (q - p)
                   Gaussian  e^{u + v y + v^2 s^2/2} [Phi((q - y - v s^2)/s) - Phi((p - y - v s^2)/s)] for N(y; x, s^2)
"""

from __future__ import annotations

import numpy as np
from scipy.special import exprel, log_ndtr

from noisewise.online.asked import Asked
from noisewise.populations.parameters import Array

__all__ = ["Channel", "linear_pieces", "log_noise"]

LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


class Channel:
    """log g between given values of x and given answers; p = weights on x times e^{log g}."""

    __slots__ = ("matrix", "top")

    def __init__(self, log_matrix_top: Array, matrix: Array) -> None:
        self.top, self.matrix = log_matrix_top, matrix

    def log_density(self, weights: Array) -> Array:
        """log p (K, n) from weights (K, M) of the values of x."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(weights @ self.matrix.T, 0.0)) + self.top)

    @classmethod
    def at_points(cls, asked: Asked, y: Array, x: Array) -> Channel:
        """Values x as they are."""
        logs = log_noise(asked, y[:, None] - x)
        top = logs.max(axis=1)
        return cls(top, np.exp(logs - top[:, None]))


def log_noise(asked: Asked, residual: Array) -> Array:
    """log g of a residual y - x."""
    r = residual / asked.noise
    if asked.is_laplace:
        return np.asarray(-np.abs(r) - np.log(2 * asked.noise))
    return np.asarray(-0.5 * r * r - np.log(asked.noise) - LOG_ROOT_2PI)


def linear_pieces(asked: Asked, y: Array, starts: Array, stops: Array, level: Array, slope: Array) -> Array:
    """log int of f(x) g(y - x) over the interval, (K, n), for f = e^{level + slope (x - low)} on each of its pieces.

    The pieces are (K, J): where each starts and stops, its level at the interval's lower end, and its slope.
    """
    width = asked.high - asked.low
    starts, stops = (np.minimum(np.maximum(v - asked.low, 0.0), width)[:, None, :] for v in (starts, stops))
    level, slope, at = level[:, None, :], slope[:, None, :], (y - asked.low)[None, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        if asked.is_laplace:
            kink = np.minimum(np.maximum(at, starts), stops)
            left = _exponential(starts, kink, level - at / asked.noise, slope + 1 / asked.noise)
            right = _exponential(kink, stops, level + at / asked.noise, slope - 1 / asked.noise)
            logs = np.concatenate([left, right], axis=-1) - np.log(2 * asked.noise)
        else:
            logs = _gaussian(asked, starts, stops, level, slope, at)
    return _log_sum(logs)


def _exponential(p: Array, q: Array, u: Array, v: Array) -> Array:
    """log int_p^q e^{u + v x} dx."""
    top = u + np.maximum(v * p, v * q)
    return np.asarray(np.where(q > p, top + np.log(q - p) + np.log(exprel(-np.abs(v) * (q - p))), -np.inf))


def _gaussian(asked: Asked, p: Array, q: Array, u: Array, v: Array, y: Array) -> Array:
    s = asked.noise
    centre = y + v * s * s
    low, high = (p - centre) / s, (q - centre) / s
    # From the nearer tail, so that nothing cancels.
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    above = log_ndtr(high)
    inside = above + np.log1p(-np.exp(np.minimum(log_ndtr(low) - above, 0.0)))
    return np.asarray(np.where(q > p, u + v * y + 0.5 * np.square(v * s) + inside, -np.inf))


def _log_sum(logs: Array) -> Array:
    high = logs.max(axis=-1, keepdims=True)
    high = np.where(np.isfinite(high), high, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - high).sum(axis=-1)) + high[..., 0])
