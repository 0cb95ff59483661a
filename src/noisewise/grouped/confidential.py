"""The confidential counts and sums behind a release by group, given parameters and sizes.

Given n_g (drawn with the parameters) and theta_g, the sums of group g are N(n mu, n Sigma), seen through noise:
Gaussian noise leaves a normal law, Laplace noise a normal law given its mixing variances (`normal_laplace`), and a few
turns draw both. Counts are the sizes themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.grouped.observed import RecordSet
from noisewise.grouped.record_moments import GRIDS, RecordMoments, shared_moments
from noisewise.likelihood.normal_laplace import draw_mixing
from noisewise.populations.parameters import Array, Theta
from noisewise.release import NoisyValue
from noisewise.statistics.groups import ONE
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.grouped.model import Grouped

__all__ = ["GroupLaws"]

TURNS = 40


@dataclass(frozen=True, slots=True, eq=False)
class GroupLaws:
    """One law for each set of records."""

    groups: tuple[SetLaw, ...]

    @classmethod
    def of(cls, model: Grouped, releases: tuple[NoisyValue, ...], *, n: object) -> GroupLaws:
        from noisewise.grouped.learn import record_sets

        if model.is_by_holder:
            raise Unsupported(
                "The confidential statistics of holders that are groups each are asked one by one: infer from a "
                "holder's own releases."
            )
        sets = record_sets(model, releases, n)
        return cls(tuple(SetLaw(model, one, k, len(sets)) for k, one in enumerate(sets)))


@dataclass(frozen=True, slots=True, eq=False)
class SetLaw:
    """The releases of one set of records."""

    model: Grouped
    records: RecordSet
    index: int
    sets: int

    @property
    def releases(self) -> tuple[NoisyValue, ...]:
        return self.records.releases

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The statistic (K, components) given y, theta and the sizes kept with it."""
        sizes = np.asarray(theta["size"], dtype=float)
        if sizes.ndim == 3:
            sizes = sizes[:, self.index]
        places = [self._places(theta, g) for g in range(sizes.shape[1])]
        moments = self._moments(places, sizes)
        sums = [self._sums(rng, u, sizes[:, g], g, moments[g]) for g, u in enumerate(places)]
        columns = []
        for release in self.releases:
            _, own = release.statistic.by_group()
            features = self.records.moments.features
            for g in range(sizes.shape[1]):
                for feature in own:
                    columns.append(sizes[:, g] if feature == ONE else sums[g][:, features.index(feature)])
        return np.stack(columns, axis=1)

    def _places(self, theta: Theta, g: int) -> Floats:
        """The parameters of one group on their lines (K, p)."""
        return np.stack([line.place(np.asarray(theta[line.name])[:, g]) for line in self.model.lines], axis=1)

    def _moments(self, places: Sequence[Floats], sizes: Floats) -> list[RecordMoments]:
        """What a record of each group is like around its draws: by splines, where these are fine enough."""
        exactly = self.records.moments
        boxes = [tuple(zip(u.min(axis=0).tolist(), u.max(axis=0).tolist(), strict=True)) for u in places]
        ends = np.array(boxes)
        whole = tuple(zip(ends[:, :, 0].min(axis=0).tolist(), ends[:, :, 1].max(axis=0).tolist(), strict=True))
        noises = [term.law.noise_variance for term in self.records.terms]
        return shared_moments(exactly, exactly.over(whole, GRIDS[0]), boxes, sizes.max(axis=0).tolist(), noises)

    def _sums(self, rng: np.random.Generator, u: Floats, n: Floats, g: int, moments: RecordMoments) -> Floats:
        """The sums (K, d) of one group."""
        law = self.records.terms[g].law
        if not moments.features:
            return np.zeros((len(n), 0))
        mean, covariance = moments.at(u)
        mean, covariance = n[:, None] * mean, n[:, None, None] * covariance
        load = np.zeros((len(law.seen), mean.shape[1]))
        for row, one in enumerate(law.seen):
            load[row, one.feature] = 1.0
        y = np.array([one.value for one in law.seen])
        scale = np.array([one.scale for one in law.seen])
        laplace = np.array([one.is_laplace for one in law.seen], dtype=bool)
        now = np.tile(np.where(laplace, 2.0, 1.0) * scale**2, (len(n), 1))
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        drawn = mean
        for _ in range(TURNS if laplace.any() else 1):
            believed = mean + (root @ rng.standard_normal(mean.shape)[..., None])[..., 0]
            noise = rng.standard_normal(now.shape) * np.sqrt(now)
            total = load @ covariance @ load.T + now[:, :, None] * np.eye(len(y))
            missing = (y - believed @ load.T - noise)[..., None]
            pull = missing / total if len(y) == 1 else np.linalg.solve(total, missing)
            drawn = believed + (covariance @ load.T @ pull)[..., 0]
            if laplace.any():
                left = (y - drawn @ load.T)[:, laplace]
                now[:, laplace] = draw_mixing(rng, left, scale[laplace])
        return np.asarray(drawn)
