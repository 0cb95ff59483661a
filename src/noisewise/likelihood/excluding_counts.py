"""Counts by conditions of which no record meets two: with those that meet none, a table.

Sums, means, counts and cells of tables, from one release or several of the same records: two levels of ten, three
stretches of a column, a histogram of values of which some are absent, a histogram beside one of its cells again. The
numbers of records that meet each condition, and of those that meet none, are multinomial,

    p(y | theta) = sum_s Multinomial(s; n, p(theta)) prod_j prod_k noise_jk(y_jk - s_j),

over all that was released of each cell j; of the last, which nobody released, nothing is. It is summed as a table
(`table_sum`); under a Dirichlet prior the posterior is a mixture (`conjugate`). Promise: that of `table_sum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from noisewise.laws import additive_law
from noisewise.likelihood import conjugate
from noisewise.likelihood.count_models import FARTHEST, MOST_WORK, TableLaw, table_work
from noisewise.likelihood.normal_sum import row_of
from noisewise.likelihood.record_points import RecordPoints
from noisewise.populations.cleaned import attach, condition_probability
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.populations.products import expanded
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature

__all__ = ["ExcludingCounts"]

MOST_CONDITIONS = 64


class _Component(NamedTuple):
    """One released number: its release, its place there, its cell, and what a record adds to it in lattice steps."""

    release: NoisyValue
    place: int
    cell: int
    steps: int


@dataclass(frozen=True, slots=True)
class ExcludingCounts(TableLaw):
    """Additive releases of the same records, each component the count of a condition; conditions exclude each other."""

    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int
    conditions: tuple[Feature, ...]
    components: tuple[_Component, ...]
    is_whole: bool  # every record meets one of the conditions
    is_exact: ClassVar[bool] = True
    cautions: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> ExcludingCounts | None:
        """None where something else was summed, conditions overlap, or the sums over all tables cost too much.

        All releases have noise added to numbers.
        """
        conditions: dict[Feature, int] = {}
        components = []
        for release in releases:
            if not additive_law(release.law).is_log_concave:
                return None
            for place, feature in enumerate(row_of(release)):
                steps = 1 / additive_law(release.law).step[place]
                if not feature.is_condition or not float(steps).is_integer():
                    return None
                cell = conditions.setdefault(feature, len(conditions))
                components.append(_Component(release, place, cell, int(steps)))
        every, schema = tuple(conditions), releases[0].schema
        if not 2 <= len(every) <= MOST_CONDITIONS:
            return None
        attach(population, schema, frozenset[str]().union(*(condition.columns() for condition in every)))
        is_whole = _partition(population, schema, every)
        if is_whole is None:
            return None
        model = cls(releases, population, n, every, tuple(components), is_whole)
        return model if model._work() <= MOST_WORK else None

    @property
    def because(self) -> str:
        rest = "" if self.is_whole else ", and those that meet none,"
        return (
            f"exact: the counts of {self.n} records by {len(self.conditions)} conditions that exclude each other{rest} "
            "are multinomial, and every table that matters is summed over"
        )

    def probabilities(self, theta: Theta) -> Array:
        """The chance that a record meets each condition, and none unless all meet one: (K, cells)."""
        return self._probabilities(self.population, theta)

    def _probabilities(self, population: AnyPopulation, theta: Theta) -> Array:
        schema = self.releases[0].schema
        each = [condition_probability(population, schema, condition, theta) for condition in self.conditions]
        p = np.stack([np.broadcast_to(chance, rows_of(theta)) for chance in each], axis=-1)
        p = np.maximum(p, 0.0)
        rest = np.maximum(1 - p.sum(axis=1, keepdims=True), 0.0)
        p = p if self.is_whole else np.concatenate([p, rest], axis=1)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def log_noise(self, s: Array) -> Array:
        total = np.zeros(s.shape)
        for release, place, cell, steps in self.components:
            law = additive_law(release.law)
            total[:, cell] += law.log_pmf(release.value[place] - steps * s[:, cell], place)
        return total

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The counts given y and theta, exactly, component by component; as shares where means were released."""
        table = self._table(theta).draw(rng).astype(float)
        return np.stack([table[:, one.cell] / one.release.divisor for one in self.components], axis=-1)

    def conjugate(self) -> conjugate.MergedPosterior | None:
        columns = frozenset[str]().union(*(condition.columns() for condition in self.conditions))
        prior = conjugate.merged_prior(self.population, columns, lambda law, p: self._probabilities(law, {"p": p}))
        if prior is None:
            return None
        cells = conjugate.DirichletPrior(prior.name, prior.merged)
        return conjugate.MergedPosterior(prior, conjugate.DirichletPosterior.of(cells, self.n, self.log_noise))

    def _work(self) -> float:
        """As a cell has several noises, the narrowest counts; a cell that nobody released has none."""
        cells = len(self.conditions) + (not self.is_whole)
        sd, reach = np.full(cells, np.inf), np.full(cells, np.inf)
        for release, place, cell, steps in self.components:
            law = additive_law(release.law)
            sd[cell] = min(sd[cell], law.sd[place])
            reach[cell] = min(reach[cell], law.reach(FARTHEST, place) / steps)
        return table_work(sd, reach, n=self.n)


def _partition(population: AnyPopulation, schema: Schema, conditions: tuple[Feature, ...]) -> bool | None:
    """Whether every record meets one of the conditions; None where one may meet two, or it cannot be told.

    A condition is a product of conditions on single columns, so two of them exclude each other if those on some column
    do, which the values of that column show: its levels, or the stretches between all ends of conditions on it.
    """
    terms = []
    for condition in conditions:
        expansion = expanded(condition)
        if expansion is None or len(expansion) != 1 or not expansion[0].factors:
            return None
        terms.append(expansion[0])
    apart = np.eye(len(terms), dtype=bool)
    columns = sorted(frozenset[str]().union(*(term.factors for term in terms)))
    is_whole = False
    for name in columns:
        own = [k for k, term in enumerate(terms) if name in term.factors]
        factors = tuple(terms[k].factors[name] for k in own)
        if RecordPoints.refusal(population, schema, factors) is not None:
            return None
        points = RecordPoints.of(population, schema, factors)
        if points.is_discrete:
            met = points.values(points.places)
        elif points.stretches is not None:
            met = points.stretches.values
        else:
            return None
        apart[np.ix_(own, own)] |= met.T @ met == 0
        is_whole = len(columns) == 1 and bool(np.all(met.sum(axis=1) == 1))
    return is_whole if apart.all() else None
