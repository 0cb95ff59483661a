"""A feature as closed sums need it: one straight stretch and constants, or evenly spaced values.

    Line      value = a + b x on one stretch of the column, constant on the others: an exponential record keeps its form
    Lattice   value = low + gap k, k = 0 .. size - 1, at all values of discrete columns: whole numbers, levels, ends
Under a clamp what lies beyond the bounds is added at the bounds' values; under "refuse" the law is divided by the mass
between the bounds, on the log scale, so that it keeps its digits however little that is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.likelihood.exact_sum import MOST_CONVOLVED, pieces
from noisewise.likelihood.independent_sums import MOST_COMBINED
from noisewise.populations.nodes import nothing_inside, record_nodes
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Population
from noisewise.release import NoisyValue
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature

__all__ = ["Lattice", "Line"]

STRAIGHT = 1e-12
MOST_PARTS = 400  # of the smallest gap between values


@dataclass(frozen=True, slots=True)
class Line:
    """intercept + slope x for x in [start, stop]; elsewhere constant, with mass from these stretches of x."""

    slope: float
    intercept: float
    start: float
    stop: float
    atoms: Array  # (2,)
    stretches: tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]  # by atom; x above 0
    bounds: tuple[float, float] | None  # of a truncated law

    @classmethod
    def of(cls, feature: Feature, release: NoisyValue, column: str) -> Line | None:
        """None where the feature is not of this form, or has more than two constant values."""
        schema = release.schema
        entry = schema.bounded(column)
        cuts, constants = pieces(feature, schema, column)
        flat = {(low, high) for low, high, _ in constants}
        # An indicator leaves a crack of one rounding error beside its edge.
        crack = STRAIGHT * (entry.high - entry.low)
        moving = [(a, b) for a, b in itertools.pairwise(cuts) if (a, b) not in flat and b - a > crack]
        if not moving or moving[-1][1] <= 0 or any(a > b + crack for (_, b), (a, _) in itertools.pairwise(moving)):
            return None
        start, stop = float(moving[0][0]), float(moving[-1][1])
        x = np.linspace(start, stop, 33)[1:-1]
        values = np.broadcast_to(feature.value({column: x}, schema), x.shape)
        slope = float((values[-1] - values[0]) / (x[-1] - x[0]))
        intercept = float(values[0] - slope * x[0])
        if np.max(np.abs(intercept + slope * x - values)) > STRAIGHT * np.max(np.abs(values)):
            return None
        masses: dict[float, list[tuple[float, float]]] = {}
        for low, high, value in constants:
            masses.setdefault(value, []).append((low, high))
        if schema.outside == "clamp":
            ends = np.broadcast_to(feature.value({column: np.array([entry.low, entry.high])}, schema), (2,))
            masses.setdefault(float(ends[0]), []).append((-np.inf, entry.low))
            masses.setdefault(float(ends[1]), []).append((entry.high, np.inf))
        seen = {value: tuple((max(a, 0.0), b) for a, b in parts if b > 0) for value, parts in masses.items()}
        seen = {value: parts for value, parts in seen.items() if parts}
        if len(seen) > 2:
            return None
        values_, parts_ = [*seen], [*seen.values()]
        while len(values_) < 2:
            values_.append(intercept + slope * start)
            parts_.append(())
        bounds = None if schema.outside == "clamp" else (max(entry.low, 0.0), entry.high)
        return cls(slope, intercept, max(start, 0.0), stop, np.array(values_), (parts_[0], parts_[1]), bounds)

    def law(self, rate: Array) -> dict[str, Array]:
        """One record at each rate of an exponential law: atoms (2,), log_weights (K, 2) and pieces (K, 4)."""
        origin, log_mass = 0.0, np.zeros(rate.shape)
        if self.bounds is not None:
            origin = self.bounds[0]
            log_mass = np.log(-np.expm1(-rate * (self.bounds[1] - origin)))
        weights = np.full((rate.size, 2), -np.inf)
        for j, parts in enumerate(self.stretches):
            for a, b in parts:
                inside = np.log(-np.expm1(-rate * (b - a))) - rate * (a - origin) - log_mass
                weights[:, j] = np.logaddexp(weights[:, j], inside)
        ends = self.intercept + self.slope * np.array([self.start, self.stop])
        lowest = self.start if self.slope > 0 else self.stop
        height = np.log(rate) - rate * (lowest - origin) - log_mass - np.log(abs(self.slope))
        width = abs(ends[1] - ends[0])
        piece = [height, rate / self.slope, np.full(rate.shape, ends.min()), np.full(rate.shape, width)]
        return {"atoms": self.atoms, "log_weights": weights, "pieces": np.stack(piece, axis=1)}


def common_steps(values: Array) -> int | None:
    """Into how many equal steps the range of sorted values falls so that every value is at one; None if too many.

    The smallest gap is a step or a few of them, as .5 is where bounds (0, 5.5) clamp whole numbers.
    """
    gaps = np.diff(values)
    if gaps.size == 0:
        return None
    away = (values - values[0]) / gaps.min()
    for parts in range(1, MOST_PARTS + 1):
        steps = round(float(away[-1]) * parts)
        places = away * (steps / away[-1])
        if np.max(np.abs(places - np.rint(places))) <= STRAIGHT * max(steps, 100):
            return steps
    return None


def listed_records(schema: Schema, columns: Iterable[str]) -> dict[str, Array] | None:
    """Every combination of the values of discrete columns, by column (P,): levels, the whole numbers between bounds and
    clamped ends. None where they are too many."""
    each = {}
    for name in sorted(columns):
        entry = schema.column(name)
        if not isinstance(entry, Bounded):
            each[name] = np.arange(len(entry), dtype=float)
            continue
        if entry.high - entry.low >= MOST_CONVOLVED:
            return None
        points = np.arange(np.ceil(entry.low), np.floor(entry.high) + 1)
        each[name] = np.unique([entry.low, *points, entry.high]) if schema.outside == "clamp" else points
        if not each[name].size:
            raise nothing_inside()
    if len(each) > 1 and math.prod(len(points) for points in each.values()) > MOST_COMBINED:
        return None
    grids = np.meshgrid(*each.values(), indexing="ij")
    return {name: grid.ravel() for name, grid in zip(each, grids, strict=True)}


@dataclass(frozen=True, slots=True)
class Lattice:
    """Values low + gap k, k = 0 .. size - 1."""

    low: float
    gap: float
    size: int

    @classmethod
    def of(cls, feature: Feature, schema: Schema) -> Lattice | None:
        """None where the values of its discrete columns give a feature no values on a lattice."""
        records = listed_records(schema, feature.columns())
        if records is None:
            return None
        shape = np.shape(next(iter(records.values())))
        values = np.unique(np.broadcast_to(feature.value(records, schema), shape))
        steps = common_steps(values)
        if steps is None or steps >= MOST_CONVOLVED:
            return None
        return cls(float(values[0]), float(values[-1] - values[0]) / steps, steps + 1)

    def log_pmf(self, one: Population, release: NoisyValue, column: str, feature: Feature, theta: Theta) -> Array:
        """log P(value = low + gap k), (K, size)."""
        nodes: Any = record_nodes(one, release.schema, column, theta, ())
        values = np.broadcast_to(feature.value({column: nodes.x[:1]}, release.schema), nodes.x[:1].shape)
        return self.gathered(values[0], nodes.weight)

    def gathered(self, values: Array, weights: Array) -> Array:
        """log P(value = low + gap k), (K, size), of values (M,) with weights (K, M)."""
        place = np.rint((values - self.low) / self.gap).astype(int)
        pmf = np.zeros((len(weights), self.size))
        if np.all(np.diff(place) > 0):
            pmf[:, place] = weights
        else:
            order = np.argsort(place, kind="stable")
            first = np.flatnonzero(np.diff(place[order], prepend=-1))
            pmf[:, place[order][first]] = np.add.reduceat(weights[:, order], first, axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(pmf))
