"""The two continuous noises of a sum, as `inversion` needs them: log density, its tilts, and where its kernel bends.

    Laplace(b):  E e^{sV} = 1/(1 - b^2 s^2), |Re s| < 1/b;      Normal(0, sigma^2):  E e^{sV} = e^{sigma^2 s^2/2}.
A release on a fine lattice (steps far below the scale) has these laws up to the square of step/scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise.types import Floats

__all__ = ["AdditiveNoise", "GaussianNoise", "LaplaceNoise"]

Complexes = NDArray[np.complex128]


class AdditiveNoise(Protocol):
    """A symmetric noise with an exponential moment."""

    @property
    def bends(self) -> Floats:
        """Distances from the centre between which the kernel is well approximated by polynomials."""

    def log_density(self, v: ArrayLike) -> Floats: ...

    def log_moment(self, s: Floats) -> Floats:
        """log E e^{sV}."""

    def mean(self, s: Floats) -> Floats:
        """The mean of the noise tilted by e^{sV}."""

    def ratio(self, s: Floats, t: Floats) -> Complexes:
        """E e^{(s + it)V} / E e^{sV}, s (K, 1), t (T,)."""

    def bracket(self, low: float, high: float) -> tuple[float, float]:
        """Tilts between which the mean lies in [low, high], or as far as tilts go."""

    def reach(self, s: Floats) -> Floats:
        """How far the noise tilted by s extends from its mean, but for e^{-27}."""


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Laplace noise of scale b on the sum."""

    scale: float

    @property
    def bends(self) -> Floats:
        return self.scale * np.array([0.0, 4.0, 12.0, 24.0, 42.0])

    def log_density(self, v: ArrayLike) -> Floats:
        return np.asarray(-np.abs(v) / self.scale - np.log(2 * self.scale))

    def log_moment(self, s: Floats) -> Floats:
        return np.asarray(-np.log1p(-np.square(self.scale * s)))

    def mean(self, s: Floats) -> Floats:
        return np.asarray(2 * self.scale**2 * s / (1 - np.square(self.scale * s)))

    def ratio(self, s: Floats, t: Floats) -> Complexes:
        return np.asarray((1 - np.square(self.scale * s)) / (1 - np.square(self.scale * (s + 1j * t))))

    def bracket(self, low: float, high: float) -> tuple[float, float]:
        return -1 / self.scale, 1 / self.scale

    def reach(self, s: Floats) -> Floats:
        return 27 * self.scale / (1 - np.abs(self.scale * s))


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Gaussian noise of standard deviation sigma on the sum."""

    sd: float

    @property
    def bends(self) -> Floats:
        return self.sd * np.array([0.0, 1.5, 3.5, 6.0, 9.0])

    def log_density(self, v: ArrayLike) -> Floats:
        return np.asarray(-0.5 * np.square(np.asarray(v) / self.sd) - np.log(self.sd) - 0.5 * np.log(2 * np.pi))

    def log_moment(self, s: Floats) -> Floats:
        return 0.5 * np.square(self.sd * s)

    def mean(self, s: Floats) -> Floats:
        return self.sd**2 * s

    def ratio(self, s: Floats, t: Floats) -> Complexes:
        return np.exp(self.sd**2 * t * (1j * s - 0.5 * t))

    def bracket(self, low: float, high: float) -> tuple[float, float]:
        return low / self.sd**2, high / self.sd**2

    def reach(self, s: Floats) -> Floats:
        return np.full_like(s, 8 * self.sd)
