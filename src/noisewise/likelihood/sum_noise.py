"""The noise of one or several releases of the same sum, as a function g of the sum, ready for compiled code.

    Laplace releases     log g(s) = sum_r -|y_r - s|/b_r - log 2 b_r      concave, straight between the y_r
    Gaussian releases    log g(s) = -(s - y)^2/2 sd^2 + const             precisions add
Steps of the lattice are far below the scales, so the noise is continuous up to the square of their ratio.

`choose_tilt` finds the tilt tau of a sum's law that this noise asks for: the slope of log g where the tilted sum has
its mean, so that g(s) e^{-tau s} is largest there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from noisewise.compilation import njit
from noisewise.likelihood.normal_sum import Noise
from noisewise.likelihood.record_law import span, tilt_to, tilted
from noisewise.populations.parameters import Array
from noisewise.types import Floats

LOG_2PI = float(np.log(2 * np.pi))

PlainNoise: TypeAlias = tuple[
    bool, float, float, float, Floats, Floats, Floats
]  # the fields of `SumNoise`, for compiled code


class SumNoise(NamedTuple):
    """g(s): straight lines between knots (log values there, and r + 1 slopes, falling), or a Gaussian."""

    is_gaussian: bool
    centre: float
    sd: float
    log_height: float  # of the Gaussian, at its centre
    knots: Array
    values: Array
    slopes: Array

    @classmethod
    def of(cls, noise: Noise, observed: Array) -> SumNoise | None:
        """The product of the releases' noise; None where Laplace and Gaussian noise meet."""
        if noise.is_laplace.all():
            return cls._laplace(observed, noise.scale, float(np.log(noise.step).sum()))
        if noise.is_laplace.any():
            return None
        precision = 1 / np.square(noise.scale)
        total = precision.sum()
        centre = float(precision @ observed / total)
        left_over = -0.5 * float(precision @ np.square(observed - centre))
        log_height = left_over + float(np.log(noise.step).sum()) - float(np.sum(np.log(noise.scale) + 0.5 * LOG_2PI))
        empty: Any = np.empty(0)
        return cls(True, centre, float(total**-0.5), log_height, empty, empty, np.zeros(1))

    @classmethod
    def _laplace(cls, y: Array, b: Array, log_step: float) -> SumNoise:
        order = np.argsort(y, kind="stable")
        knots, rates = np.asarray(y, dtype=float)[order], 1 / b[order]
        slopes = rates.sum() - 2 * np.concatenate([[0.0], np.cumsum(rates)])
        slopes[-1] = -slopes[0]
        values = -np.abs(knots[:, None] - knots) @ rates - np.sum(np.log(2 * b)) + log_step
        return cls(False, 0.0, 1.0, 0.0, knots, np.asarray(values), slopes)

    def plain(self) -> PlainNoise:
        """Its fields, as compiled functions take them."""
        return self.is_gaussian, self.centre, self.sd, self.log_height, self.knots, self.values, self.slopes

    def log_density(self, s: Array) -> Array:
        """log g(s)."""
        s = np.asarray(s, dtype=float)
        if self.is_gaussian:
            return self.log_height - 0.5 * np.square((s - self.centre) / self.sd)
        rates = -0.5 * np.diff(self.slopes)
        return np.asarray(
            self.values[0] + np.abs(self.knots[0] - self.knots) @ rates - np.abs(s[..., None] - self.knots) @ rates
        )


@njit(cache=True)
def log_noise(noise: PlainNoise, s: float) -> float:
    """log g(s)."""
    is_gaussian, centre, sd, log_height, knots, values, slopes = noise
    if is_gaussian:
        return float(log_height - 0.5 * ((s - centre) / sd) ** 2)
    j = 0
    while j < knots.size - 1 and s > knots[j]:
        j += 1
    # The lines on either side of knot j: every s is next to one of its knots.
    return float(values[j] + (slopes[j] if s < knots[j] else slopes[j + 1]) * (s - knots[j]))


@njit(cache=True)
def choose_tilt(noise: PlainNoise, n: int, law: tuple[Floats, Floats, Floats]) -> tuple[float, int]:
    """tau, and the index of the straight stretch of log g whose slope it is (-1: none, a knot or a Gaussian)."""
    is_gaussian, centre, sd, _, knots, _, slopes = noise
    atoms, logs, piece = law
    if is_gaussian:
        low, high = span(law)
        variance = sd * sd
        return tilt_to(centre, n, variance, (centre - n * high) / variance, (centre - n * low) / variance, law), -1
    for j in range(knots.size + 1):
        mean = n * tilted(slopes[j], atoms, logs, piece)[1]
        if j == knots.size or mean <= knots[j]:
            if j == 0 or mean >= knots[j - 1]:
                return slopes[j], j
            return tilt_to(knots[j - 1], n, 0.0, slopes[j], slopes[j - 1], law), -1
    return 0.0, -1


@njit(cache=True)
def on_one_stretch(
    noise: PlainNoise,
    tilt: float,
    stretch: int,
    log_total: float,
    low: float,
    high: float,
) -> float:
    """log E g(s) where log g is straight over all that the sum reaches; NaN elsewhere. log_total is log E e^{tau s}."""
    knots = noise[4]
    if stretch >= 0:
        left = knots[stretch - 1] if stretch > 0 else -np.inf
        right = knots[stretch] if stretch < knots.size else np.inf
        if left <= low and high <= right:
            at = right if right < np.inf else left
            return float(log_total + log_noise(noise, at) - tilt * at)
    return np.nan


@njit(cache=True)
def highest_point(noise: PlainNoise, tilt: float, stretch: int, mean: float) -> float:
    """Where g(s) e^{-tau s} is taken as the unit: the knot whose slopes hold tau, else the mean of the tilted sum."""
    knots, slopes = noise[4], noise[6]
    peak = mean
    if not noise[0] and stretch < 0:
        for j in range(knots.size):
            if slopes[j + 1] <= tilt <= slopes[j]:
                peak = knots[j]
    return peak


@njit(cache=True)
def least_value(noise: PlainNoise, variance: float) -> float:
    """An integral of f_tau h below this has lost its digits: f_tau avoids the place where h is, as few records may."""
    width = noise[2] if noise[0] else 1.0 / noise[6][0]
    return 1e-8 * min(1.0, width / math.sqrt(variance)) if variance > 0 else 0.0
