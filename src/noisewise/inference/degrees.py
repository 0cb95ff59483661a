"""How many numbers the releases tell, and how many unknowns must be settled by them.

A check needs more numbers than unknowns: with no more, some parameters explain whatever was released, and a tail
probability near 1 says nothing. What counts is what is told *about the records*: n records with features f have sums
whose covariance is n Cov f, so that
    told = rank Cov(f_1, .., f_d)
for all sums of the same records together. A sum released twice, x beside 1 - x, mean(x) beside mean(2x) are one number
(two noises of one sum check each other, not the population); k cells are k - 1; the tables of several cliques are as
many as their log-linear terms, sum over sets A of columns within a clique of prod (levels - 1). Order statistics are
one each, local answers one for each cell of randomized response but one, or one for each person.

Different records add up: two parts can disagree. But they tell of one law of a record, so that `shapes`, the rank over
all distinct features, says whether the law's shape is checked or only that the parts agree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.joining import same_records
from noisewise.likelihood.normal_sum import row_of
from noisewise.populations.cleaned import row_moments
from noisewise.populations.parameters import Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics import Histogram, Marginals, Records, Statistic
from noisewise.statistics.feature import Feature, as_feature
from noisewise.statistics.order import OrderStatistic
from noisewise.types import Floats

__all__ = ["Degrees", "degrees", "log_linear_terms", "more_answers", "told_by_one", "told_by_tables"]

MOST_FEATURES = 24  # of which a rank is computed; beyond that tables are counted by their terms
ROUNDING = 1e-12
ALIKE = 1e-9  # an eigenvalue of the correlation matrix this small is a sum that others give away


@dataclass(frozen=True, slots=True)
class Degrees:
    """Numbers told, numbers told of one record's law, unknowns; and what would make a check possible."""

    told: int
    shapes: int
    unknowns: int
    advice: str = ""

    @property
    def is_checkable(self) -> bool:
        """Whether there are more numbers than unknowns."""
        return self.told > self.unknowns

    @property
    def checks_shape(self) -> bool:
        """Whether that is so of the law of one record, and not only of several sets of records together."""
        return self.shapes > self.unknowns


def degrees(model: AnyPopulation, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees:
    """What releases tell about a population with parameter values like `theta`; a model says it for itself."""
    middle = {name: np.mean(np.asarray(value), axis=0, keepdims=True) for name, value in theta.items()}
    unknowns = sum(model.supports[name].unknowns for name in model.free)
    told = sum(_told([releases[index] for index in group], model, middle) for group in same_records(releases))
    distinct = {(str(release.statistic), str(release.schema.to_dict()["columns"])): release for release in releases}
    shapes = min(told, _told(list(distinct.values()), model, middle))
    advice = "" if told > unknowns else _advice(releases, model, middle, unknowns - told + 1)
    return Degrees(told, shapes, unknowns, advice)


def _told(releases: Sequence[NoisyValue], population: AnyPopulation, theta: Theta) -> int:
    """Of releases of the same records (or as if they were)."""
    distinct = {str(release.statistic): release for release in releases}
    sums = [release for release in distinct.values() if not _is_single(release.statistic)]
    others = sum(told_by_one(release) for release in distinct.values() if _is_single(release.statistic))
    sizes = [len(release.labels) for release in sums]
    if len(sums) == 1 and isinstance(sums[0].statistic, Histogram | Marginals):
        return others + told_by_tables(sums[0])
    if sum(sizes) <= MOST_FEATURES and sums:
        return others + _rank(sums, population, theta)
    return others + sum(
        told_by_tables(release) if isinstance(release.statistic, Histogram | Marginals) else size
        for release, size in zip(sums, sizes, strict=True)
    )


def _is_single(statistic: Statistic) -> bool:
    return isinstance(statistic, OrderStatistic | Records)


def told_by_one(release: NoisyValue) -> int:
    """The numbers in local answers, or in an order statistic."""
    if isinstance(release.statistic, Records):
        return len(release.value) - 1 if release.is_categorical else len(release.value)
    return 1


def _rank(
    releases: Sequence[NoisyValue], population: AnyPopulation, theta: Theta, more: tuple[Feature, ...] = ()
) -> int:
    """The rank of the correlation matrix of all features of one record, and of some more."""
    row = (*(feature for release in releases for feature in row_of(release)), *more)
    try:
        mean, covariance = (one[0] for one in row_moments(population, releases[0].schema, row, theta))
    except NoisewiseError:
        return len(row)
    if not np.all(np.isfinite(covariance)):
        return len(row)
    sd = np.sqrt(np.diag(covariance))
    varies = sd > ROUNDING * np.abs(mean)  # a constant, such as a count of everybody, tells nothing of a record
    correlation = covariance[np.ix_(varies, varies)] / np.outer(sd[varies], sd[varies])
    return int(np.sum(np.linalg.eigvalsh(correlation) > ALIKE))


def told_by_tables(release: NoisyValue) -> int:
    """The independent numbers in a table, or in the tables of several cliques, of the same records."""
    statistic, schema = release.statistic, release.schema
    if isinstance(statistic, Histogram):
        return len(release.value) - 1
    assert isinstance(statistic, Marginals)
    if statistic.tied:
        return len(release.value) - 1
    levels = {name: len(schema.levels(name)) for clique in statistic.cliques for name in clique}
    return log_linear_terms(statistic.cliques, levels)


def log_linear_terms(cliques: Sequence[Sequence[str]], levels: Mapping[str, int]) -> int:
    """sum of prod (levels - 1) over the sets of columns that lie within a clique."""
    sets = {
        tuple(sorted(some))
        for clique in cliques
        for size in range(1, len(clique) + 1)
        for some in itertools.combinations(clique, size)
    }
    return sum(math.prod(levels[name] - 1 for name in some) for some in sets)


def _advice(releases: Sequence[NoisyValue], population: AnyPopulation, theta: Theta, more: int) -> str:
    """What to release beside this, in the words of the statistics."""
    from noisewise.schema import Bounded

    numeric = sorted(
        {(name, release) for release in releases for name in release.statistic.columns()
         if isinstance(release.schema.column(name), Bounded)}, key=lambda pair: pair[0]
    )  # fmt: skip
    if not numeric:
        return (
            "Every table of these levels fits some shares, so no release of this column alone can check it; releases "
            "of disjoint parts of the records would show whether they agree."
        )
    name, release = numeric[0]
    number = "one more number" if more == 1 else f"{more} more numbers"
    cut = _middle(population, release, name, theta)
    low = release.schema.bounded(name).low
    local = [r for r in releases if isinstance(r.statistic, Records)]
    if local:
        return more_answers(local[0], more)
    x = as_feature(name)
    ideas = [f"count(between({x}, {low:g}, {cut:.3g}))"]
    sums = [one for one in releases if not _is_single(one.statistic)]
    is_small = sum(len(one.labels) for one in sums) <= MOST_FEATURES
    if not sums or (is_small and _rank(sums, population, theta, (x, x**2)) > _rank(sums, population, theta)):
        ideas.insert(0, f"mean({x}, {x}**2)" if release.schema.is_change_one else f"sum({x}**2)")
    return (
        f"Release {number} of these records or of others like them, such as {' or '.join(ideas)}; histogram({x}, "
        f"edges=[...]) with {more + 3} cells or more would show the shape."
    )


def more_answers(release: NoisyValue, more: int) -> str:
    """What to ask for where local answers cannot be checked: more cells, or (noisy numbers, cells to spare) people."""
    if not release.is_categorical or more < 1:
        return "So few answers do not fill enough cells: ask more people."
    cells = "1 more cell" if more == 1 else f"{more} more cells"
    return f"Ask with {cells} than now ({release.statistic!s:.60} has {len(release.value)}), or for noisy numbers."


def _middle(population: AnyPopulation, release: NoisyValue, name: str, theta: Theta) -> float:
    """The fitted population's median of a column, inside the bounds: where a count tells most."""
    entry = release.schema.bounded(name)
    law = population.marginal(name)
    found: Floats = law.quantile(np.array([0.5]), population.theta_of(name, theta))
    value = float(np.mean(found))
    inside = entry.low < value < entry.high
    return value if inside else (entry.low + entry.high) / 2
