"""The confidential moments behind a release: what the holder's sums were before noise was added.

Given the parameters, the sums T of n rows are nearly N(n M, n C), and the release is T + noise, so T given both is
normal for Gaussian noise. Laplace noise of scale b is Gaussian with a variance w of its own (Andrews & Mallows 1974):
    1/w | T ~ InverseGaussian(1/(b |y - T|), 1/b^2),       T | w normal,
and a few turns of these two draw T. Only what the method's own law says is used; nothing here can see a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.laws import additive_law, normal_mixture
from noisewise.likelihood.joint import stated_sizes
from noisewise.likelihood.normal_laplace import draw_mixing
from noisewise.populations.parameters import Theta
from noisewise.regression.problem import Floats
from noisewise.regression.row_law import row_law
from noisewise.release import Release
from noisewise.statistics import Moments

if TYPE_CHECKING:
    from noisewise.regression.model import LinearRegression

TURNS = 50


@dataclass(frozen=True, slots=True, eq=False)
class MomentsLaw:
    """The law of one release's confidential sums, given the release and the parameters."""

    model: LinearRegression
    release: Release
    n: int

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.release,)

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Floats:
        """T (K, size), one draw a row of theta."""
        statistic, law = self.release.statistic, self.release.law
        assert isinstance(statistic, Moments)
        pairs = np.array(statistic.pairs(self.release.schema), np.int64)
        mean, covariance = row_law(self.model, statistic, self.release.schema, theta).moments(
            pairs, intercept=statistic.intercept, block=statistic.block
        )
        n = self.n // statistic.block
        laplace = normal_mixture(law).laplace_scale
        scale = None if laplace is None else np.array(laplace)
        variance = np.broadcast_to(np.square(additive_law(law).sd), mean.shape)
        for _ in range(1 if scale is None else TURNS):
            drawn = _given_noise(rng, n * mean, n * covariance, self.release.estimate, variance)
            if scale is not None:
                variance = draw_mixing(rng, self.release.estimate - drawn, scale)
        return drawn


@dataclass(frozen=True, slots=True, eq=False)
class MomentsLaws:
    """Those of several releases, each of other records."""

    groups: tuple[MomentsLaw, ...]

    @classmethod
    def of(cls, model: LinearRegression, releases: tuple[Release, ...], *, n: object) -> MomentsLaws:
        """One law a release, where every release is of other records and of plain second moments."""
        keys = [(release.dataset, release.part) for release in releases]
        statistics = [release.statistic for release in releases]
        is_plain = all(isinstance(s, Moments) and not s.fourth for s in statistics)
        if not is_plain or len(set(keys)) < len(keys):
            raise Unsupported(
                "The confidential moments are drawn for releases of Moments of different records, without fourth "
                "moments."
            )
        sizes = stated_sizes(releases, n)
        return cls(tuple(MomentsLaw(model, release, size) for release, size in zip(releases, sizes, strict=True)))


def _given_noise(
    rng: np.random.Generator, mean: Floats, covariance: Floats, observed: Floats, variance: Floats
) -> Floats:
    """T ~ N(mean, covariance) given T + noise = observed: T + gain (observed - T - noise) at fresh T and noise."""
    values, vectors = np.linalg.eigh(covariance)
    z = rng.standard_normal(mean.shape) * np.sqrt(np.maximum(values, 0.0))
    believed = mean + np.einsum("kij,kj->ki", vectors, z)
    noise = rng.standard_normal(mean.shape) * np.sqrt(variance)
    total = covariance + variance[:, :, None] * np.eye(mean.shape[1])
    pull = np.linalg.solve(total, (observed - believed - noise)[..., None])
    return np.asarray(believed + (covariance @ pull)[..., 0])
