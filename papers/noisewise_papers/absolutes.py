"""The noisy sum of absolute normal records, two ways: by the central limit theorem and by its own law.

X ~ N(0, theta) is clamped to [-A, A], the sum of |x| over n records has Laplace noise of scale b. The library handles
this release like any other, by quadrature over the record; studies that take a million steps on it use these closed and
tabulated forms of the same likelihoods (tests say so), so that the times they show are those of the kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

from noisewise.laws import additive_law
from noisewise.likelihood import normal_laplace
from noisewise.likelihood.model import Likelihood, Parameters
from noisewise.populations.parameters import Array, Theta
from noisewise.release import Release

PARAMETER = "variance"
N_NODES, SMALLEST = 400, 1e-4  # of the table in log theta, and its lower end as a share of the upper


@dataclass(frozen=True, slots=True)
class NormalAbsolutes:
    """Sums of min(|X|, A), X ~ N(0, theta), by the central limit theorem, behind Laplace noise of scale b.

    With s = sqrt(theta), a = A/s, T = 2 Phi(-a):
        E min(|X|, A)   = s sqrt(2/pi) (1 - exp(-a^2/2)) + A T
        E min(|X|, A)^2 = theta (1 - T) - 2 s A phi(a) + A^2 T.
    """

    n: int
    bound: float
    scale: float
    y: float  # of the sum

    @classmethod
    def of(cls, release: Release) -> NormalAbsolutes:
        law, n = additive_law(release.law), release.schema.n
        assert n is not None
        bound = float(release.schema.bounded("x").high)
        return cls(n, bound, law.scale[0], float(release.value[0] * law.step[0]))

    def sums(self, theta: Array) -> tuple[Array, Array]:
        """Mean and variance of the sum at each theta."""
        s, top = np.sqrt(theta), self.bound
        bell = np.exp(-0.5 * np.square(top / s))
        beyond = 2 * ndtr(-top / s)
        first = s * math.sqrt(2 / math.pi) * (1 - bell) + top * beyond
        second = theta * (1 - beyond) - math.sqrt(2 / math.pi) * s * top * bell + top**2 * beyond
        return self.n * first, self.n * (second - np.square(first))

    def log_likelihood(self, theta: Theta) -> Array:
        mean, variance = self.sums(theta[PARAMETER])
        return np.asarray(normal_laplace.log_density(self.y, mean=mean, variance=variance, scale=self.scale))

    def log_noise(self, total: Array) -> Array:
        """log g(y | sum)."""
        return np.asarray(-np.abs(self.y - total) / self.scale - math.log(2 * self.scale))

    def latent(self, parameters: Parameters) -> AbsolutesLatent:
        return AbsolutesLatent(self, parameters)


@dataclass(frozen=True, slots=True)
class AbsolutesLatent:
    """The sum as a latent variable of the kernels."""

    model: NormalAbsolutes
    parameters: Parameters
    size: int = 1

    @property
    def noise_variance(self) -> Array:
        return np.array([2 * self.model.scale**2])

    @property
    def observed(self) -> Array:
        return np.array([self.model.y])

    def moments(self, position: Array) -> tuple[Array, Array]:
        mean, variance = self.model.sums(self.parameters(position)[PARAMETER])
        return mean[:, None], variance[:, None, None]

    def log_noise(self, u: Array) -> Array:
        return self.model.log_noise(u[..., 0])


@dataclass(frozen=True, slots=True)
class OwnAbsolutes:
    """The same release by the statistic's own law: log p(y | theta) tabulated in log theta, cubic between the nodes."""

    normal: NormalAbsolutes
    table: Any

    @classmethod
    def of(cls, likelihood: Likelihood, release: Release, high: float) -> OwnAbsolutes:
        nodes = np.geomspace(SMALLEST * high, high, N_NODES)
        values = likelihood.log_likelihood({PARAMETER: nodes})
        # Where theta is far too small the law may underflow; the table begins where it is finite.
        first = int(np.argmax(np.isfinite(values)))
        return cls(NormalAbsolutes.of(release), CubicSpline(np.log(nodes[first:]), values[first:], extrapolate=False))

    def log_likelihood(self, theta: Theta) -> Array:
        value = self.table(np.log(theta[PARAMETER]))
        return np.asarray(np.where(np.log(theta[PARAMETER]) < self.table.x[0], -np.inf, value))

    def latent(self, parameters: Parameters) -> AbsolutesRecords:
        return AbsolutesRecords(self.normal, parameters)


@dataclass(frozen=True, slots=True)
class AbsolutesRecords:
    """The standardised records themselves as latent variables of the kernels."""

    model: NormalAbsolutes
    parameters: Parameters

    @property
    def n(self) -> int:
        return self.model.n

    def base(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.standard_normal((*shape, self.n))

    def log_noise(self, z: Array, position: Array) -> Array:
        root = np.sqrt(self.parameters(position)[PARAMETER])[:, None, None]
        return self.model.log_noise(np.minimum(root * np.abs(z), self.model.bound).sum(axis=-1))
