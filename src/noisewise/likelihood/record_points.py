"""One record as the laws of several sums need it: weighted points, atoms, and features on a lattice.

Features of one column, or of several independent ones that take few values each: then every combination is a point.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, NamedTuple

import numpy as np

from noisewise.likelihood.independent_sums import possible_records
from noisewise.likelihood.record_tilt import Record
from noisewise.likelihood.sum_features import common_steps, listed_records
from noisewise.populations.cells import column_cells
from noisewise.populations.cleaned import attach
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.nodes import kinks_of, record_nodes
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation, Population
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature

__all__ = ["RecordPoints", "unlisted_records"]

EMPTY = 1e-25  # a point of less weight is not seen under any tilt that matters
MOST_STEPS = 2000  # of a lattice of values
MOST_ATOMS = 24
INSIDE = (0.02, 0.1, 0.3, 0.7, 0.9, 0.98)
FEW_VALUES = 12  # of a feature that is constant in pieces
CRACK = 1e-12  # of a column's range: between the two doubles at which one condition ends and the next begins


class Stretches(NamedTuple):
    """Cells of a continuous column between edges, the features' values (C, r) there, and at its two bounds."""

    edges: tuple[float, ...]
    values: Array


@singledispatch
def unlisted_records(population: AnyPopulation) -> str:
    """Why a population's records cannot be taken as weighted points; nothing where its columns have laws."""
    del population
    return ""


@dataclass(frozen=True, eq=False)
class RecordPoints:
    """Features of one column, or of several discrete ones, whose sums are wanted."""

    population: AnyPopulation
    schema: Schema
    columns: tuple[str, ...]
    features: tuple[Feature, ...]

    @classmethod
    def of(cls, population: AnyPopulation, schema: Schema, features: tuple[Feature, ...]) -> RecordPoints:
        names = frozenset[str]().union(*(feature.columns() for feature in features))
        return cls(population, schema, tuple(sorted(names)), features)

    @classmethod
    def refusal(cls, population: AnyPopulation, schema: Schema, features: Sequence[Feature]) -> str | None:
        """Why a record of these features is not taken as points, or None."""
        if why := unlisted_records(population):
            return why
        points = cls.of(population, schema, tuple(features))
        if len(points.columns) != 1 and not (points.is_discrete and listed_records(schema, points.columns)):
            return "sums of features that mix columns"
        if isinstance(population, MultivariateNormal) and schema.outside == "refuse":
            return "columns truncated together"
        return None

    @property
    def column(self) -> str:
        """The one column."""
        (name,) = self.columns
        return name

    @cached_property
    def _laws(self) -> Mapping[str, Population]:
        return attach(self.population, self.schema, self.columns)

    @cached_property
    def places(self) -> dict[str, Array]:
        """Places that a record can take, by column (P,)."""
        if len(self.columns) > 1 and (listed := listed_records(self.schema, self.columns)) is not None:
            return listed
        return possible_records(self.population, self.features, self.schema)

    @property
    def is_discrete(self) -> bool:
        return all(
            law.is_discrete or not isinstance(self.schema.column(name), Bounded) for name, law in self._laws.items()
        )

    def values(self, places: Mapping[str, Array]) -> Array:
        """The features at places of each column (...): (..., r)."""
        shape = np.shape(places[self.columns[0]])
        each = [np.broadcast_to(f.value(places, self.schema), shape) for f in self.features]
        return np.stack(each, axis=-1).astype(float)

    def _at(self, x: Array) -> Array:
        """The features of one column at places x (...): (..., r)."""
        return self.values({self.column: x})

    def record(self, theta: Theta) -> Record:
        """The points at K rows of theta; NaN weights where no record is possible."""
        if len(self.columns) > 1:
            return self._combined(theta)
        own = self.population.theta_of(self.column, theta)
        rows = rows_of(theta)
        kinks = kinks_of(self.features, self.schema, self.column)
        cuts: Any = kinks
        if not self.is_discrete:
            # Noise sharper than a panel bends within it: what lies inside the bounds is cut by its own quantiles, too.
            entry = self.schema.bounded(self.column)
            inside = self._laws[self.column].quantile_between(entry.low, entry.high, np.array(INSIDE), own)
            finer = np.clip(
                np.nan_to_num(np.broadcast_to(inside, (rows, len(INSIDE))), nan=entry.low), entry.low, entry.high
            )
            cuts = np.concatenate([np.broadcast_to(kinks, (rows, len(kinks))), finer], axis=1)
        nodes = record_nodes(self._laws[self.column], self.schema, self.column, own, cuts, coarse=True)
        x, weight = (np.broadcast_to(part, (rows, part.shape[1])) for part in (nodes.x, nodes.weight))
        kept = ~(weight <= EMPTY).all(axis=0)
        with np.errstate(divide="ignore"):
            return Record(np.log(weight[:, kept]), self._at(x[:, kept]))

    def _combined(self, theta: Theta) -> Record:
        """Every combination of the values of several independent columns, the same for all rows."""
        rows, places = rows_of(theta), list[Array]()
        logs = np.zeros((rows, 1))
        for name in self.columns:
            nodes = record_nodes(self._laws[name], self.schema, name, self.population.theta_of(name, theta), ())
            with np.errstate(divide="ignore"):
                own = np.broadcast_to(np.log(nodes.weight), (rows, nodes.weight.shape[1]))
            logs = (logs[:, :, None] + own[:, None, :]).reshape(rows, -1)
            places.append(nodes.x[0])
        grids = np.meshgrid(*places, indexing="ij")
        values = self.values({name: grid.ravel() for name, grid in zip(self.columns, grids, strict=True)})
        return Record(logs, np.broadcast_to(values, (rows, *values.shape)))

    @cached_property
    def stretches(self) -> Stretches | None:
        """Where all features of a continuous column are constant in pieces, these; else None."""
        if self.is_discrete:
            return None
        entry = self.schema.bounded(self.column)
        kinks = kinks_of(self.features, self.schema, self.column)
        cuts = [entry.low]
        for cut in (*kinks, entry.high):
            if cut - cuts[-1] > CRACK * (entry.high - entry.low) or cut == entry.high:
                cuts.append(cut)
        inside = np.linspace(cuts[:-1], cuts[1:], 33, axis=1)[:, 1:-1]
        values = self._at(inside)
        if np.any(np.ptp(values, axis=1) > 0):
            return None
        ends = self._at(np.array([entry.low, entry.high]))  # a condition may hold at a bound alone
        edges = (float(np.nextafter(entry.low, np.inf)), *map(float, cuts[1:]))
        return Stretches(edges, np.concatenate([ends[:1], values[:, 0], ends[1:]]))

    def stretch_chances(self, theta: Theta) -> Array:
        """The chance of each of the stretches, (K, C)."""
        assert self.stretches is not None
        own, itself = self.population.theta_of(self.column, theta), Feature("column", (self.column,))
        found = column_cells(self._laws[self.column], self.schema, self.column, itself, self.stretches.edges, own)
        return np.broadcast_to(found, (rows_of(theta), found.shape[1]))

    @cached_property
    def lattices(self) -> tuple[tuple[float, float, int] | None, ...]:
        """For each feature its lowest value, the gap between values and their number, where they are evenly spaced."""
        seen = self.values(self.places)
        return tuple(self._lattice(np.unique(seen[:, k])) for k in range(seen.shape[1]))

    def _lattice(self, values: Array) -> tuple[float, float, int] | None:
        if not self.is_discrete and values.size > FEW_VALUES:
            return None
        steps = common_steps(values)
        if steps is None or steps > MOST_STEPS:
            return None
        return float(values[0]), float(values[-1] - values[0]) / steps, steps + 1

    @cached_property
    def atoms(self) -> Array:
        """Values (A, r) that records may pile up at: at the bounds of a clamp, and where all features are constant."""
        if self.is_discrete:
            return self.values({name: x[:MOST_ATOMS] for name, x in self.places.items()})
        entry = self.schema.bounded(self.column)
        found = [entry.low, entry.high] if self.schema.outside == "clamp" else []
        cuts = np.unique([entry.low, *kinks_of(self.features, self.schema, self.column), entry.high])
        for low, high in itertools.pairwise(cuts):
            inside = self._at(np.linspace(low, high, 9)[1:-1])
            if np.all(np.ptp(inside, axis=0) == 0):
                found.append(0.5 * (low + high))
        values = self._at(np.array(found, dtype=float))
        return np.unique(values, axis=0)[:MOST_ATOMS]
