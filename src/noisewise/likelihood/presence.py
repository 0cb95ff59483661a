"""Releases of records in which values may be absent, as releases of complete ones with a column of presence.

A sum of f where it is present is the sum of f q, q = 1 where the columns of f are present and 0 elsewhere, of records
that have a column q: then every law of sums and counts scores it as it is. One table keeps its form: with a share
present of s its cells have the chances s p_j, and a cell that nobody released holds the others, 1 - s
(`count_models.TableModel`). Tables beside other releases of the same records are sums of their cells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from noisewise.errors import Unsupported
from noisewise.planning import Plan
from noisewise.populations.presence import needs_of, presence_columns, present_schema
from noisewise.release import NoisyValue
from noisewise.schema import Schema, presence_name
from noisewise.statistics import Sort, Statistic, statistic_from_dict
from noisewise.statistics.feature import Feature, as_feature, constant

if TYPE_CHECKING:
    from noisewise.populations.population import AnyPopulation

__all__ = ["presence_note", "present_plan", "present_release", "present_releases"]


def present_release(release: NoisyValue, population: AnyPopulation) -> NoisyValue:
    """The same numbers, as a release about complete records of the population; itself where nothing is left out."""
    if not needs_of(release.statistic, release.schema):
        return release
    statistic = _present_statistic(release.statistic, release.schema, population)
    return release.with_schema(present_schema(population, release.schema), statistic)


def present_releases(releases: tuple[NoisyValue, ...], population: AnyPopulation) -> tuple[NoisyValue, ...]:
    """Every release as one about complete records."""
    return tuple(present_release(release, population) for release in releases)


def present_plan(plan: Plan, population: AnyPopulation) -> Plan:
    """The same plan, as one about complete records of the population; itself where nothing is left out."""
    if not needs_of(plan.statistic, plan.schema):
        return plan
    statistic = _present_statistic(plan.statistic, plan.schema, population)
    return replace(plan, statistic=statistic, schema=present_schema(population, plan.schema))


def presence_note(releases: tuple[NoisyValue, ...]) -> tuple[str, ...]:
    """What rests on the way in which values are missing; nothing where none are left out."""
    names = sorted({n for one in releases for needed in needs_of(one.statistic, one.schema) for n in needed})
    if not names:
        return ()
    apart = ", and whether values of different columns are present as independent" if len(names) > 1 else ""
    return (
        f"Missing values of {', '.join(names)} were left out: they are taken as missing at random (those present are "
        f"like the others), with an unknown share present{apart}.",
    )


def _present_statistic(statistic: Statistic, schema: Schema, population: AnyPopulation) -> Statistic:
    """The sums of each feature times its presence; a count stays a count."""
    names = {presence_name(name): name for name in schema.left_out}
    row = []
    for feature in statistic.row(schema):
        needed = [names[c] for c in names if c in feature.columns()]
        kept = _without_presence(feature, frozenset(names))
        row.append(_times(kept, presence_columns(population, needed)))
    if statistic.sort is Sort.COUNT:
        return statistic_from_dict({"kind": "count", "condition": str(row[0])})
    if any(not feature.columns() for feature in row):
        raise Unsupported(
            f"{statistic!s:.200} counts all records, whose number is private, beside those present; infer from a "
            "release of the features that may be absent alone."
        )
    return statistic_from_dict({"kind": "sum", "features": [str(feature) for feature in row]})


def _times(feature: Feature | None, columns: tuple[str, ...]) -> Feature:
    """A feature where the records of the columns of presence say so."""
    found = constant(1) if feature is None else feature
    for name in columns:
        inside = as_feature(name).equals(1)
        found = inside if found == constant(1) else Feature("multiply", (found, inside))
    return found


def _without_presence(feature: Feature, names: frozenset[str]) -> Feature | None:
    """A product without its factors of presence; None where nothing else is left."""
    if feature.operation == "equals" and feature.arguments[0] in names:
        return None
    if feature.operation != "multiply" or not feature.columns() & names:
        return feature
    a, b = (_without_presence(part, names) for part in feature.arguments)
    if a is None or b is None:
        return b if a is None else a
    return Feature("multiply", (a, b))
