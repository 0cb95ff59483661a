"""One clipped answer under a discrete population: the sum over its values.

    p(y | theta) = P(x <= low) g(y - low) + P(x >= high) g(y - high) + sum_x P(x | theta) g(y - x),    low < x < high,
g the density of the noise.
"""

from __future__ import annotations

import numpy as np

from noisewise.online.asked import Asked
from noisewise.populations.parameters import Array

__all__ = ["Channel", "log_noise"]

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
