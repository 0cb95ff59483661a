"""Levels that no release tells apart, explored as one.

Of unknown proportions with a Dirichlet prior only the sums over such levels are learnt about: what was counted is the
same whatever the shares of levels within a sum, which are independent of the sums in the prior, and so in the posterior
(`likelihood.conjugate`). So the posterior is explored over the sums alone (one unknown for one level of ten), and each
draw is split by shares drawn from the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, cast

import numpy as np

from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.likelihood.conjugate import MergedPrior, merged_prior
from noisewise.likelihood.normal_sum import row_of
from noisewise.populations.parameters import Array, Theta, offers
from noisewise.populations.population import AnyPopulation
from noisewise.populations.products import expanded
from noisewise.release import NoisyValue
from noisewise.statistics import Sort

__all__ = ["Merging"]

MOST_FEATURES = 256
KnownMoments = Mapping[str, tuple[Array, Array]]


class _Exchanging(Protocol):
    def with_column(self, column: str, law: AnyPopulation) -> AnyPopulation: ...


@dataclass(frozen=True, slots=True)
class Merging:
    """Unknown proportions whose levels are merged, by name, and the population of what is left to learn."""

    priors: Mapping[str, MergedPrior]
    population: AnyPopulation

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation) -> Merging | None:
        """None where every level is told apart."""
        merged, found = population, dict[str, MergedPrior]()
        if not offers(population, "with_column") or not _are_sums(releases):
            return None
        for column in sorted({name for release in releases for name in release.statistic.columns()}):
            prior = merged_prior(population, frozenset({column}), partial(_cells, releases, column))
            if prior is not None and 2 <= prior.cells < len(prior.alpha):
                found[prior.name] = prior
                merged = cast(_Exchanging, merged).with_column(column, prior.law)
        return cls(found, merged) if found else None

    def target(self, target: Target) -> Target:
        """The posterior of the sums; `target` is that of all levels."""
        return replace(
            target,
            transform=Transform(self.population.supports),
            prior=self.population.log_prior,
            likelihood=self.of_levels(target.likelihood),
            sample_prior=self.population.sample_prior,
        )

    def of_levels(self, likelihood: Callable[..., Array]) -> Callable[..., Array]:
        """A likelihood of all levels as one of the sums; the shares within a sum do not matter to it."""

        def of_sums(theta: Theta, *more: Array) -> Array:
            whole = {name: prior.split(np.asarray(theta[name])) for name, prior in self.priors.items()}
            return likelihood({**theta, **whole}, *more)

        return of_sums

    def draws(self, rng: np.random.Generator, draws: Mapping[str, Array]) -> dict[str, Array]:
        """Draws (chains, draws, ...) of all levels, from those of the sums."""
        made = dict(draws)
        for name, prior in self.priors.items():
            sums = draws[name]
            made[name] = prior.draw_split(rng, sums.reshape(-1, prior.cells)).reshape(*sums.shape[:2], -1)
        return made

    def moments(self, known: KnownMoments | None) -> KnownMoments | None:
        """Means and sds of all levels, from those of the sums."""
        if known is None:
            return None
        levels = {name: self.priors[name].moments(known[name][0], np.square(known[name][1])) for name in self.priors}
        return {**known, **{name: (mean, np.sqrt(variance)) for name, (mean, variance) in levels.items()}}


def _are_sums(releases: tuple[NoisyValue, ...]) -> bool:
    sorts = (Sort.SUMS, Sort.COUNT, Sort.TABLE)
    return bool(releases) and all(
        release.statistic.sort in sorts and len(release.value) <= MOST_FEATURES for release in releases
    )


def _cells(releases: tuple[NoisyValue, ...], column: str, _law: object, p: Array) -> Array:
    """Which levels the released features tell apart, as cells: (levels, cells), 1 where a level belongs to a cell."""
    levels = len(p)
    places, seen = {column: np.arange(levels, dtype=float)}, [np.zeros(levels)]
    for release in releases:
        for feature in row_of(release):
            if column not in feature.columns():
                continue
            terms = expanded(feature)
            if terms is None:  # a mix of columns: every level may matter
                return np.eye(levels)
            seen += [
                np.broadcast_to(term.factors[column].value(places, release.schema), levels)
                for term in terms
                if column in term.factors
            ]
    _, cell = np.unique(np.stack(seen, axis=1), axis=0, return_inverse=True)
    return np.eye(int(cell.max()) + 1)[np.ravel(cell)]
