"""Latent statistics, and the laws kernels propose them from.

Three ways to see what lies between theta and a release (Alparslan & Yıldırım 2022, sections 4.2, 4.3, 4.4):
    BatchLatent        u | theta ~ N(mean, covariance), y | u ~ g        an additive statistic, central limit theorem
    RecordsLatent      z ~ mu, y | z, theta ~ h                          any statistic of base draws z free of theta
    SequentialLatent   z_t ~ mu, y_t | z_t, theta ~ h                    local answers

**Where u is proposed from.** The conditional of u is proportional to f(u|theta) g(y|u). Were g normal it would be
    fit = N(m + C D^-1 (y - m), C),   C = (V^-1 + D^-1)^-1,   D the diagonal of noise variances,
which is right for Gaussian noise and close for other noise, but must not be used alone: against Laplace or Cauchy
noise its tails are lighter than the target's, f g / fit grows like exp(+u^2/2D), and estimates have infinite variance.
So the law is always a mixture with f itself (defensive importance sampling, Hesterberg 1995):
    q = share f + (1 - share) fit,   hence   f g / q <= sup g / share:   weights are *bounded* for every bounded noise
density, however heavy its tails. Infinite noise variance (Cauchy) gives D^-1 = 0, and the fit is f.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, TypeGuard

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.types import Floats

LOG_TWO_PI = math.log(2 * math.pi)


class BatchLatent(Protocol):
    """An additive statistic u of size d, normal given theta, behind a noisy value y that is fixed inside."""

    @property
    def size(self) -> int: ...
    @property
    def noise_variance(self) -> Floats: ...  # (d,)
    @property
    def observed(self) -> Floats: ...  # y (d,)
    def moments(self, position: Floats) -> tuple[Floats, Floats]: ...  # (K, d), (K, d, d)
    def log_noise(self, u: Floats) -> Floats: ...  # log g(y|u), (..., d) -> (...)


class RecordsLatent(Protocol):
    """n base draws z ~ mu, and log h(y | z, theta) for z (K, N, n) and K positions."""

    @property
    def n(self) -> int: ...
    def base(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats: ...  # (*shape, n)
    def log_noise(self, z: Floats, position: Floats) -> Floats: ...  # (K, N)


class SequentialLatent(Protocol):
    """One base draw z_t a local answer, and log h(y_t | z_t, theta) for each of them."""

    @property
    def n(self) -> int: ...
    def base(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats: ...  # (*shape, n)
    def log_noise(self, z: Floats, position: Floats) -> Floats: ...  # (K, N, n)


def is_batch(latent: object) -> TypeGuard[BatchLatent]:
    """True for a statistic with moments, which is proposed from its own law; false for base draws."""
    return hasattr(latent, "moments")


class Normal(NamedTuple):
    """K normal laws on R^d: N(mean, factor factor^T); NaN throughout where the covariance was not positive definite."""

    mean: Floats  # (K, d)
    factor: Floats  # (K, d, d)
    whitening: Floats  # factor^-1
    log_norm: Floats  # (K,): log |det whitening| - d/2 log 2 pi

    def transform(self, normals: Floats) -> Floats:
        """Standard normals (K, N, d) to draws of the law: smooth in the law's parameters."""
        moved: Floats = self.mean[:, None, :] + normals @ self.factor.swapaxes(-1, -2)
        return moved

    def log_density(self, u: Floats) -> Floats:
        """(K, N, d) -> (K, N)"""
        white = (u - self.mean[:, None, :]) @ self.whitening.swapaxes(-1, -2)
        density: Floats = self.log_norm[:, None] - 0.5 * np.sum(white * white, axis=-1)
        return density


class Mixture(NamedTuple):
    """A mixture of normal laws with public shares."""

    parts: tuple[Normal, ...]
    shares: tuple[float, ...]

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """`count` independent draws a chain, (K, count, d)."""
        chains, size = self.parts[0].mean.shape
        normals = rng.standard_normal((chains, count, size))
        u, level = self.parts[0].transform(normals), rng.random((chains, count, 1))
        for part, below in zip(self.parts[1:], np.cumsum(self.shares), strict=False):
            u = np.where(level >= below, part.transform(normals), u)
        return u

    def log_density(self, u: Floats) -> Floats:
        total: Floats = np.logaddexp.reduce(
            [math.log(share) + part.log_density(u) for part, share in zip(self.parts, self.shares, strict=True)]
        )
        return total


def normal(mean: Floats, covariance: Floats) -> Normal:
    """K normal laws from their moments."""
    factor = cholesky(covariance)
    whitening = np.asarray(np.linalg.inv(factor), np.float64)
    return Normal(mean, factor, whitening, _log_determinant(whitening) - 0.5 * mean.shape[1] * LOG_TWO_PI)


def given_noise(law: Normal, latent: BatchLatent) -> Normal:
    """What u would be, given y, if the noise were normal with its own variance: the `fit` of this module."""
    precision = 1.0 / np.asarray(latent.noise_variance, float)
    # C = L (I + L^T D^-1 L)^-1 L^T with L the factor of V: no inverse of V, and D^-1 = 0 is allowed.
    scaled = np.sqrt(precision)[:, None] * law.factor
    root = cholesky(np.eye(latent.size) + scaled.swapaxes(-1, -2) @ scaled)
    shrunk = law.factor @ np.linalg.inv(root).swapaxes(-1, -2)
    whitening = root.swapaxes(-1, -2) @ law.whitening
    pull = (precision * (latent.observed - law.mean))[:, :, None]
    mean = law.mean + (shrunk @ (shrunk.swapaxes(-1, -2) @ pull))[:, :, 0]
    return Normal(mean, shrunk, whitening, law.log_norm + _log_determinant(root))


def between(one: Normal, two: Normal) -> Normal:
    """The normal law with the average moments of two: symmetric in them."""
    covariance = one.factor @ one.factor.swapaxes(-1, -2) + two.factor @ two.factor.swapaxes(-1, -2)
    return normal((one.mean + two.mean) / 2, covariance / 2)


def cholesky(matrices: Floats) -> Floats:
    """Lower Cholesky factors (K, d, d); NaN where a matrix is not positive definite, so one chain cannot stop all."""
    try:
        return np.asarray(np.linalg.cholesky(matrices), np.float64)
    except np.linalg.LinAlgError:
        return np.stack([_cholesky_or_nan(matrix) for matrix in matrices])


def checked_share(share: float) -> float:
    """The share of particles drawn from f(u|theta) itself: above 0, or weights need not be bounded."""
    if not 0 < share <= 1:
        raise InvalidArgument(
            f"share = {share!r}: the share of particles drawn from the statistic's own law lies in (0, 1].",
            argument="share",
        )
    return share


def _cholesky_or_nan(matrix: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.cholesky(matrix), np.float64)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _log_determinant(triangular: Floats) -> Floats:
    total: Floats = np.sum(np.log(np.diagonal(triangular, axis1=-2, axis2=-1)), axis=-1)
    return total
