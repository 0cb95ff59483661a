"""The confidential moments behind a release: what the holder's sums were before noise was added.

Given the parameters, the sums T of n rows are nearly N(n M, n C), and the release is T + noise (`models.confidential`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.errors import Unsupported
from noisewise.joining import joined
from noisewise.laws import additive_law, normal_mixture
from noisewise.models.confidential import behind_noise
from noisewise.populations.parameters import Theta
from noisewise.regression.problem import Floats
from noisewise.regression.row_law import row_law
from noisewise.regression.subject import MomentsRegression
from noisewise.release import NoisyValue
from noisewise.statistics import Moments


@dataclass(frozen=True, slots=True, eq=False)
class MomentsLaw:
    """The law of one release's confidential sums, given the release and the parameters."""

    model: MomentsRegression
    release: NoisyValue
    n: int

    @property
    def releases(self) -> tuple[NoisyValue, ...]:
        return (self.release,)

    def sums(self, theta: Theta) -> tuple[Floats, Floats]:
        """n M (K, size) and n C (K, size, size), at K rows of theta."""
        statistic = self.release.statistic
        assert isinstance(statistic, Moments)
        pairs = np.array(statistic.pairs(self.release.schema), np.int64)
        mean, covariance = row_law(self.model, statistic, self.release.schema, theta).moments(
            pairs, intercept=statistic.intercept, block=statistic.block
        )
        n = self.n // statistic.block
        return n * mean, n * covariance

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Floats:
        """T (K, size), one draw a row of theta."""
        law, (mean, covariance) = self.release.law, self.sums(theta)
        laplace = normal_mixture(law).laplace_scale
        return behind_noise(
            rng,
            mean,
            covariance,
            self.release.estimate,
            variance=np.square(additive_law(law).sd),
            laplace=None if laplace is None else np.array(laplace),
        )


@dataclass(frozen=True, slots=True, eq=False)
class MomentsLaws:
    """Those of several releases, each of other records."""

    groups: tuple[MomentsLaw, ...]

    @classmethod
    def of(cls, model: MomentsRegression, releases: tuple[NoisyValue, ...], *, n: object) -> MomentsLaws:
        """One law a release, where every release is of other records and of plain second moments."""
        together = joined(releases, n)
        statistics = [release.statistic for release in releases]
        is_plain = all(isinstance(s, Moments) and not s.fourth for s in statistics)
        if not is_plain or len(together.groups) < len(releases):
            raise Unsupported(
                "The confidential moments are drawn for releases of Moments of different records, without fourth "
                "moments."
            )
        return cls(
            tuple(MomentsLaw(model, release, size) for release, size in zip(releases, together.sizes, strict=True))
        )
