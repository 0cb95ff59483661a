"""Populations of records in which values may be absent: a share present beside the law of the values.

Whether a value is present is one more column, 1 with an unknown chance:

    Joint(income=Normal(...), **{"present(income)": Bernoulli(p=stats.uniform())})      unknowns: mean, sd, present

Values are taken as *missing at random*: those present follow the law of all, whatever made the others absent. Columns
that releases always need together have one chance; the presence of different columns is taken as independent. A
population that does not say what share is present gets one with a uniform prior (`with_presence`), so that the counts
of those present, which a release holds beside its sums, tell it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

import numpy as np
from scipy import stats

from noisewise.errors import Unsupported
from noisewise.populations.cleaned import attach, sample_records
from noisewise.populations.parameters import Array, Theta, offers, rows_of
from noisewise.populations.population import AnyPopulation, is_presence
from noisewise.schema import PRESENCE, Schema, presence_name
from noisewise.statistics.presence import left_out_of
from noisewise.statistics.protocol import Statistic

__all__ = ["Told", "presence_columns", "present_schema", "sample_present", "share_present", "with_presence"]

Block = tuple[str, ...]


class Told(Protocol):
    """A plan or a release, as far as its columns are asked for."""

    @property
    def statistic(self) -> Statistic: ...
    @property
    def schema(self) -> Schema: ...


class _Joining(Protocol):
    """A population of independent columns, to which others can be added."""

    def beside_shares(self, column: str, shares: Mapping[str, object]) -> AnyPopulation: ...


def with_presence(population: AnyPopulation, told: Sequence[Told]) -> AnyPopulation:
    """The population with a share present, of uniform prior, where values may be absent and it is silent on them."""
    needs = [needed for one in told for needed in needs_of(one.statistic, one.schema)]
    silent = [needed for needed in needs if not set(needed) <= _described(population)]
    if not silent:
        return population
    columns = sorted({name for one in told for name in one.statistic.columns()})
    attach(population, _every_column(told), columns)
    known = _described(population)
    blocks = _blocks([tuple(name for name in needed if name not in known) for needed in silent])
    shares = {presence_name(", ".join(block)): stats.uniform(0, 1) for block in blocks}
    if not offers(population, "beside_shares"):
        raise Unsupported(
            f"Values may be absent in these records, and a {type(population).__name__} cannot be joined with the share "
            "that is present. Describe the columns one by one, as in Joint(income=..., age=...), or infer from "
            "releases in which missing values were refused or filled in."
        )
    joined: AnyPopulation = cast(_Joining, population).beside_shares(columns[0], shares)
    return joined


def _every_column(told: Sequence[Told]) -> Schema:
    columns = {name: entry for one in told for name, entry in one.schema.columns.items()}
    return Schema(columns, n=1, neighbours="change-one", outside=told[0].schema.outside)


def needs_of(statistic: Statistic, schema: Schema) -> list[Block]:
    """The sets of columns that must be present for something that a statistic sums; empty ones are left out."""
    if not left_out_of(statistic.columns(), schema):
        return []
    if statistic.why_not_left_out() is not None:
        return []
    names = {presence_name(name): name for name in schema.left_out}
    found = [tuple(names[c] for c in names if c in feature.columns()) for feature in statistic.row(schema)]
    return [needed for needed in dict.fromkeys(found) if needed]


def presence_columns(population: AnyPopulation, needed: Iterable[str]) -> tuple[str, ...]:
    """The columns of a population that say whether all of some columns are present, each once."""
    wanted, found = set(needed), list[str]()
    for name in population.columns:
        if is_presence(name) and wanted & set(_members(name)):
            found.append(name)
            wanted -= set(_members(name))
    if wanted:
        raise Unsupported(
            f"Values of {sorted(wanted)[0]!r} may be absent, and the population does not say what share is present: "
            f"describe it, as in Joint({sorted(wanted)[0]}=..., **{{{presence_name(sorted(wanted)[0])!r}: "
            "Bernoulli(p=stats.uniform(0, 1))}), or name no share at all, and it is an unknown of its own."
        )
    return tuple(found)


def present_schema(population: AnyPopulation, schema: Schema) -> Schema:
    """The schema with the population's own columns of presence, and nothing missing."""
    told = {name: PRESENCE for name in population.columns if is_presence(name)}
    return Schema(
        {**schema.columns, **told}, n=schema.n, n_max=schema.n_max, neighbours=schema.neighbours, outside=schema.outside
    )


def share_present(population: AnyPopulation, needed: Iterable[str], theta: Theta) -> Array:
    """The chance (K,) that all of some columns are present."""
    share = np.ones(rows_of(theta))
    for name in presence_columns(population, needed):
        law = population.marginal(name)
        share = share * np.exp(law.log_density([1.0], population.theta_of(name, theta)))[:, 0]
    return share


def sample_present(
    rng: np.random.Generator, population: AnyPopulation, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
) -> dict[str, Array]:
    """n cleaned records for each row of theta, by column (K, n), and beside each whether it is present."""
    names = tuple(columns)
    needed = left_out_of(names, schema)
    if not needed:
        return sample_records(rng, population, schema, n, theta, names)
    told = presence_columns(population, needed)
    drawn = sample_records(rng, population, present_schema(population, schema), n, theta, (*names, *told))
    present = {presence_name(name): drawn[block] for block in told for name in _members(block) if name in needed}
    return {name: drawn[name] for name in names} | present


def _described(population: AnyPopulation) -> set[str]:
    """The columns of which the population says what share is present."""
    return {member for name in population.columns if is_presence(name) for member in _members(name)}


def _members(name: str) -> list[str]:
    return name.removeprefix("present(").removesuffix(")").split(", ")


def _blocks(needs: Sequence[Block]) -> list[Block]:
    """Columns that are always needed together, in the order in which they are met."""
    sets = [set(needed) for needed in needs]
    found: dict[tuple[bool, ...], list[str]] = {}
    for name in dict.fromkeys(name for needed in needs for name in needed):
        found.setdefault(tuple(name in one for one in sets), []).append(name)
    return [tuple(block) for block in found.values()]
