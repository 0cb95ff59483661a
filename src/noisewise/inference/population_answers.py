"""Answers about a population: one source for each column, with the unit and the levels that its releases carry.

A population that names no column describes whichever one its releases use. Conditions on several columns are answered
for records as they were cleaned, by their joint law. A law whose moments scipy can only integrate one by one is asked
at some of the draws, evenly chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.inference.answer_sources import AnswerSource, Asked, Drawn, Headline
from noisewise.inference.law_draws import LawDraws
from noisewise.inference.units import ColumnUnits, column_units
from noisewise.likelihood.record_points import unlisted_records
from noisewise.populations.cleaned import row_moments
from noisewise.populations.moments import scipy_moments_are_closed, scipy_quantiles_are_closed
from noisewise.populations.multivariate import unknown_correlations
from noisewise.populations.parameters import rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.printable import shown
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature, as_feature
from noisewise.types import Floats, Theta

__all__ = ["law_source", "parameter_units", "population_sources"]

TOLD = 0.01  # share beyond the bounds from which the mean of records as they were summed is told beside the law's own
SOME_ROWS = 200  # draws at which a bank of simulated records is asked
FEW_ROWS = 24  # draws at which a law is asked whose moments are integrated one by one


def population_sources(
    population: AnyPopulation, theta: Theta, releases: Sequence[NoisyValue]
) -> tuple[AnswerSource, ...]:
    """One source for each column, and one for conditions on several."""
    units, columns = column_units(releases), _columns(population, releases)
    is_simulated = bool(unlisted_records(population))
    if is_simulated or any(_is_slow(population, column) for column in columns):
        most = SOME_ROWS if is_simulated else FEW_ROWS
        chosen = np.unique(np.linspace(0, rows_of(theta) - 1, min(most, rows_of(theta))).round().astype(int))
        theta = {name: np.asarray(value)[chosen] for name, value in theta.items()}
    sources: list[AnswerSource] = [law_source(population, column, theta, releases, units) for column in columns]
    if len(columns) > 1 and releases:
        sources.append(RecordDraws(population, theta, tuple(releases)))
    return tuple(sources)


def parameter_units(population: AnyPopulation, releases: Sequence[NoisyValue]) -> dict[str, str]:
    """The unit of each unknown that is told in that of its column."""
    units, found = column_units(releases), {}
    for column in _columns(population, releases):
        for name in population.marginal(column).distribution.in_unit:
            for label in (name, f"{column}.{name}"):
                if label in population.free and units.of(column):
                    found[label] = units.of(column)
    return found


def _columns(population: AnyPopulation, releases: Sequence[NoisyValue]) -> tuple[str, ...]:
    """The columns by name; of a population that names none, the one that releases use, or no name at all."""
    if population.columns:
        return tuple(population.columns)
    used = dict.fromkeys(column for release in releases for column in release.statistic.columns())
    return (next(iter(used), ""),)


def _is_slow(population: AnyPopulation, column: str) -> bool:
    law = population.marginal(column)
    shapes = set(law.free) - set(law.distribution.in_unit)
    scipy_law = law.distribution.scipy_law
    is_closed = scipy_law is None or scipy_moments_are_closed(scipy_law) or scipy_quantiles_are_closed(scipy_law)
    return bool(shapes) and not is_closed


def law_source(
    population: AnyPopulation,
    column: str,
    theta: Theta,
    releases: Sequence[NoisyValue],
    units: ColumnUnits,
    *,
    group: str = "",
    part: Floats | None = None,
) -> LawDraws:
    """The law of one column (in one group, with its share of the records) at rows of the population's parameters."""
    schema = next((release.schema for release in releases if column in release.schema.columns), None)
    law = population.marginal(column)
    return LawDraws(
        column=column,
        law=law,
        theta=population.theta_of(column, theta),
        rows=rows_of(theta),
        unit=units.of(column),
        group=group,
        levels=_levels(law.distribution.name, column, schema, law.values(population.theta_of(column, theta))),
        recorded=None if schema is None else _recorded(population, column, theta, schema, group),
        share=None if schema is None else lambda condition: _chance(population, schema, condition, theta),
        part=part,
    )


def _levels(kind: str, column: str, schema: Schema | None, values: Mapping[str, Floats]) -> tuple[str, ...]:
    """What the values of a column with levels are called; 0 and 1 of a proportion that is released as a number."""
    if schema is not None and column not in schema.numeric:
        return tuple(map(str, schema.levels(column).levels))
    if kind == "bernoulli":
        return ("0", "1")
    return tuple(map(str, range(values["p"].shape[-1]))) if kind == "categorical" else ()


def _recorded(
    population: AnyPopulation, column: str, theta: Theta, schema: Schema, group: str
) -> Callable[[], tuple[Floats, str] | None]:
    """The mean of cleaned records at every draw, where the law puts one in a hundred beyond the bounds."""

    def found() -> tuple[Floats, str] | None:
        entry = schema.bounded(column)
        law, own = population.marginal(column), population.theta_of(column, theta)
        inside = law.between([np.nextafter(entry.low, -np.inf)], [entry.high], own)
        beyond = float(np.mean(1 - inside))
        if not beyond >= TOLD:
            return None
        try:
            mean = row_moments(population, schema, (as_feature(column),), theta)[0][:, 0]
        except NoisewiseError:  # its records have no moments
            return None
        where = f"{column} in {group}" if group else column
        how = "were clamped to" if schema.outside == "clamp" else "all lie within"
        return mean, (
            f"The law puts {100 * beyond:.2g} % of {where} beyond the bounds {entry.low:g} to {entry.high:g}; as "
            f"recorded means: of records that {how} them."
        )

    return found


def _chance(population: AnyPopulation, schema: Schema, condition: Feature, theta: Theta) -> Floats:
    """P(condition) of a cleaned record at every draw: the mean of an indicator."""
    return np.clip(row_moments(population, schema, (condition,), theta)[0][:, 0], 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class RecordDraws:
    """Several columns of one record: conditions that read more than one of them."""

    population: AnyPopulation
    theta: Theta
    releases: tuple[NoisyValue, ...]
    column: str = ""
    group: str = ""

    @property
    def quantities(self) -> tuple[str, ...]:
        return ()

    def answers(self, asked: Asked) -> Iterable[Drawn]:
        for first, second, values in unknown_correlations(self.population, self.theta):
            yield Drawn("correlation", values, column=f"{first}, {second}")
        for condition in asked.conditions:
            names = condition.columns()
            if len(names) > 1 and names <= set(self.population.columns):
                schema = self._schema(names)
                values = _chance(self.population, schema, condition, self.theta)
                yield Drawn(f"share with {condition}", values, column=", ".join(sorted(names)), is_share=True)

    def drawn(self, quantity: str) -> Drawn:
        raise InvalidArgument(f"{shown(quantity)} is asked of one column at a time.", argument="quantity")

    def headlines(self) -> Sequence[Headline]:
        return ()

    def _schema(self, names: Iterable[str]) -> Schema:
        found = next((one.schema for one in self.releases if set(names) <= set(one.schema.columns)), None)
        if found is None:
            raise InvalidArgument(
                f"No release has all of the columns {', '.join(sorted(names))}, so nobody says what a record of them "
                "is.",
                argument="shares",
            )
        return found
