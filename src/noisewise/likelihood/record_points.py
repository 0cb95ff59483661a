"""One record of one column, as the laws of several sums need it: weighted points, atoms, and features on a lattice."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from noisewise.likelihood.independent_sums import possible_records
from noisewise.likelihood.record_tilt import Record
from noisewise.likelihood.sum_features import common_steps
from noisewise.populations.cleaned import attach
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.nodes import kinks_of, record_nodes
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature

__all__ = ["RecordPoints"]

EMPTY = 1e-25  # a point of less weight is not seen under any tilt that matters
MOST_STEPS = 2000  # of a lattice of values
MOST_ATOMS = 24
INSIDE = (0.02, 0.1, 0.3, 0.7, 0.9, 0.98)
FEW_VALUES = 12  # of a feature that is constant in pieces


@dataclass(frozen=True, eq=False)
class RecordPoints:
    """Features of one column whose sums are wanted."""

    population: AnyPopulation
    schema: Schema
    column: str
    features: tuple[Feature, ...]

    @classmethod
    def refusal(cls, population: AnyPopulation, schema: Schema, features: Sequence[Feature]) -> str | None:
        """Why a record of these features is not taken as points, or None."""
        names = frozenset().union(*(feature.columns() for feature in features))
        if len(names) != 1:
            return "sums of features that mix columns"
        if isinstance(population, MultivariateNormal) and schema.outside == "refuse":
            return "columns truncated together"
        return None

    @cached_property
    def _law(self) -> Any:
        return attach(self.population, self.schema, (self.column,))[self.column]

    @cached_property
    def _places(self) -> Array:
        return possible_records(self.features, self.schema, self.population)[self.column]

    @property
    def is_discrete(self) -> bool:
        return bool(self._law.is_discrete) or not isinstance(self.schema.column(self.column), Bounded)

    def values(self, x: Array) -> Array:
        """The features at places x (..., r)."""
        each = [np.broadcast_to(f.value({self.column: x}, self.schema), np.shape(x)) for f in self.features]
        return np.stack(each, axis=-1).astype(float)

    def record(self, theta: Theta) -> Record:
        """The points at K rows of theta; NaN weights where no record is possible."""
        own = self.population.theta_of(self.column, theta)
        rows = rows_of(theta)
        kinks = kinks_of(self.features, self.schema, self.column)
        cuts: Any = kinks
        if not self.is_discrete:
            # Noise sharper than a panel bends within it: what lies inside the bounds is cut by its own quantiles, too.
            entry = self.schema.bounded(self.column)
            inside = self._law.quantile_between(entry.low, entry.high, np.array(INSIDE), own)
            finer = np.clip(
                np.nan_to_num(np.broadcast_to(inside, (rows, len(INSIDE))), nan=entry.low), entry.low, entry.high
            )
            cuts = np.concatenate([np.broadcast_to(kinks, (rows, len(kinks))), finer], axis=1)
        nodes = record_nodes(self._law, self.schema, self.column, own, cuts, coarse=True)
        x, weight = (np.broadcast_to(part, (rows, part.shape[1])) for part in (nodes.x, nodes.weight))
        kept = ~(weight <= EMPTY).all(axis=0)
        with np.errstate(divide="ignore"):
            return Record(np.log(weight[:, kept]), self.values(x[:, kept]))

    @cached_property
    def lattices(self) -> tuple[tuple[float, float, int] | None, ...]:
        """For each feature its lowest value, the gap between values and their number, where they are evenly spaced."""
        seen = self.values(self._places)
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
            return self.values(self._places[:MOST_ATOMS])
        entry = self.schema.bounded(self.column)
        found = [entry.low, entry.high] if self.schema.outside == "clamp" else []
        cuts = np.unique([entry.low, *kinks_of(self.features, self.schema, self.column), entry.high])
        for low, high in itertools.pairwise(cuts):
            inside = self.values(np.linspace(low, high, 9)[1:-1])
            if np.all(np.ptp(inside, axis=0) == 0):
                found.append(0.5 * (low + high))
        values = self.values(np.array(found, dtype=float))
        return np.unique(values, axis=0)[:MOST_ATOMS]
