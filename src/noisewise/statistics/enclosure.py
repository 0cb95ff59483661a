"""Guaranteed enclosures of features: interval arithmetic with a running bound on rounding errors.

For a box of records, an `Enclosure` holds arrays `low <= f <= high` for the exact real value of a feature and
`error`, a bound on |computed - exact| when the feature is evaluated in double precision by any engine that
rounds each operation to nearest (Higham 2002, ch. 2-3). Both are vectorised over many boxes at once, which is
what the branch and bound of `sensitivity.py` lives on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.schema import Bounded, Level, Levels, Schema
from noisewise.statistics.feature import Feature

UNIT = 2.0**-53
LARGEST_VALUE = 1e250
LARGEST_EXPONENT = 575.0  # exp of it is below LARGEST_VALUE, and exp of minus it is no subnormal number
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Enclosure:
    """low <= f <= high over a box (exact real value), and |computed - exact| <= error."""

    low: Array
    high: Array
    error: Array

    @property
    def magnitude(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))


class EnclosureAlgebra:
    """The feature language over boxes; `boxes` maps each column to (low, high) arrays."""

    def __init__(self, schema: Schema, boxes: Mapping[str, tuple[Array, Array]]) -> None:
        self.schema = schema
        self.boxes = boxes

    def column(self, name: str) -> Enclosure:
        self.schema.bounded(name)
        low, high = self.boxes[name]
        return Enclosure(low, high, np.zeros_like(low))

    def constant(self, value: float) -> Enclosure:
        shape = next(iter(self.boxes.values()))[0].shape if self.boxes else (1,)
        return Enclosure(np.full(shape, value), np.full(shape, value), np.zeros(shape))

    def add(self, a: Enclosure, b: Enclosure) -> Enclosure:
        return _rounded(a.low + b.low, a.high + b.high, a.error + b.error)

    def subtract(self, a: Enclosure, b: Enclosure) -> Enclosure:
        if a is b:  # a part of a feature less itself: nothing, though its range less its range would be an interval
            nothing = np.zeros_like(a.low)
            return _rounded(nothing, nothing, a.error + b.error)
        return _rounded(a.low - b.high, a.high - b.low, a.error + b.error)

    def multiply(self, a: Enclosure, b: Enclosure) -> Enclosure:
        with np.errstate(over="ignore", invalid="ignore"):
            corners = np.stack([a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high])
            error = a.magnitude * b.error + b.magnitude * a.error + a.error * b.error
        return _rounded(corners.min(axis=0), corners.max(axis=0), error)

    def absolute(self, a: Enclosure) -> Enclosure:
        crosses = (a.low <= 0) & (a.high >= 0)
        low = np.where(crosses, 0.0, np.minimum(np.abs(a.low), np.abs(a.high)))
        return Enclosure(low, a.magnitude, a.error)

    def power(self, a: Enclosure, exponent: Fraction) -> Enclosure:
        if exponent.denominator != 1:
            return self._root(a, exponent)
        e = int(exponent)
        base = self.absolute(a) if e % 2 == 0 else a
        low, high, size, error = base.low, base.high, a.magnitude, a.error
        with np.errstate(over="ignore", invalid="ignore"):
            # Products, as engines compute them: the ends are then the very doubles that records at the ends give.
            for _ in range(e - 1):
                error = error * a.magnitude + size * a.error + error * a.error
                low, high, size = low * base.low, high * base.high, size * a.magnitude
                error = error + UNIT * (size + error)
        return _finite(Enclosure(low, high, error))

    def _root(self, a: Enclosure, exponent: Fraction) -> Enclosure:
        if np.any(a.low < 0):
            raise Unsupported(
                f"A power {exponent} needs a feature that is never negative: take abs(f) first, or clip it at 0."
            )
        e = float(exponent)
        # For e < 1, |x^e - y^e| <= |x - y|^e; for e > 1 the slope is largest at the far end. Engines differ by ulps.
        spread = a.error**e if e < 1 else e * (a.magnitude + a.error) ** (e - 1) * a.error
        return _finite(Enclosure(a.low**e, a.high**e, spread + 8 * UNIT * a.high**e))

    def logarithm(self, a: Enclosure) -> Enclosure:
        if np.any(a.low - a.error <= 0):
            raise Unsupported(
                "A logarithm needs a feature that is above 0 within the declared bounds: clip it at a number above 0, "
                "as in log(clip(income, 1, 250)), or add a constant first, as in log(income + 1). Nothing was spent."
            )
        low, high = np.log(a.low), np.log(a.high)
        # |log x - log y| <= |x - y| / min(x, y); engines differ by ulps.
        spread = a.error / (a.low - a.error)
        return Enclosure(low, high, spread + 8 * UNIT * np.maximum(np.abs(low), np.abs(high)))

    def exponential(self, a: Enclosure) -> Enclosure:
        if np.any(a.magnitude + a.error > LARGEST_EXPONENT):
            raise InvalidArgument(
                f"exp(f) needs a feature between -{LARGEST_EXPONENT:g} and {LARGEST_EXPONENT:g} within the declared "
                "bounds: scale it first, as in exp(income/100), or clip it. Nothing was spent.",
                argument="feature",
            )
        low, high = np.exp(a.low), np.exp(a.high)
        return _finite(Enclosure(low, high, high * (np.expm1(a.error) + 8 * UNIT * (1 + a.error))))

    def clip(self, a: Enclosure, low: float, high: float) -> Enclosure:
        return Enclosure(np.clip(a.low, low, high), np.clip(a.high, low, high), a.error)

    def between(self, a: Enclosure, low: float, high: float) -> Enclosure:
        # Within its rounding error of an edge the computed indicator may be either, so the enclosure holds both.
        surely = (a.low - a.error >= low) & (a.high + a.error <= high)
        possibly = (a.high + a.error >= low) & (a.low - a.error <= high)
        return Enclosure(surely.astype(float), possibly.astype(float), np.zeros_like(a.low))

    def equals(self, name: str, level: Level) -> Enclosure:
        code = self.schema.levels(name).index(level)
        low, high = self.boxes[name]
        surely = (low == code) & (high == code)
        possibly = (np.ceil(low) <= code) & (np.floor(high) >= code)
        return Enclosure(surely.astype(float), possibly.astype(float), np.zeros_like(low))

    def shrunk(self, row: tuple[Enclosure, ...], index: int, radius: float) -> Enclosure:
        entry = row[index]
        low, high = np.maximum(np.minimum(entry.low, 0), -radius), np.minimum(np.maximum(entry.high, 0), radius)
        low, high = np.where(entry.low > 0, 0.0, low), np.where(entry.high < 0, 0.0, high)
        # v -> v min(1, R/|v|) is a projection, hence 1-Lipschitz in the whole row; computing it costs a few roundings.
        error = np.sqrt(sum(entry.error**2 for entry in row)) + (len(row) + 6) * UNIT * radius
        return Enclosure(low, high, error)


def _rounded(low: Array, high: Array, error: Array) -> Enclosure:
    """One more operation: the true range lies within one rounding of the computed ends."""
    magnitude = np.maximum(np.abs(low), np.abs(high))
    return _finite(Enclosure(low, high, error + UNIT * (magnitude + error)))


def _finite(enclosure: Enclosure) -> Enclosure:
    """Refuse what could overflow on the way: past infinity no enclosure holds, and indicators would hide it."""
    if not np.all(enclosure.magnitude + enclosure.error < LARGEST_VALUE):
        raise InvalidArgument(
            "A feature overflows over the declared bounds; scale the column first.", argument="feature"
        )
    return enclosure


def operations(features: Sequence[Feature]) -> int:
    """How many operations on boxes one evaluation of all features takes, what they share counted once."""
    seen: dict[Feature, int] = {}
    pending = list(features)
    while pending:
        feature = pending.pop()
        if feature in seen:
            continue
        is_whole_power = feature.operation == "power" and feature.arguments[1].denominator == 1
        seen[feature] = int(feature.arguments[1]) if is_whole_power else max(1, len(feature.inner))
        pending.extend(feature.inner)
    return sum(seen.values())


def whole_box(schema: Schema, names: frozenset[str]) -> dict[str, tuple[Array, Array]]:
    """The declared bounds (level indices for levels) of the named columns, as one box."""
    boxes = {}
    for name in sorted(names):
        column = schema.column(name)
        low, high = (column.low, column.high) if isinstance(column, Bounded) else (0.0, float(len(column) - 1))
        boxes[name] = (np.array([low]), np.array([high]))
    return boxes


def feature_range(feature: Feature, schema: Schema) -> tuple[float, float, float]:
    """(low, high, error) of a feature over the declared bounds; one column is cut finely for tightness."""
    names = feature.columns()
    boxes = whole_box(schema, names)
    if len(names) == 1:
        (name,) = names
        boxes = {name: _cut(feature, schema, name)}
    enclosure: Enclosure = feature.fold(EnclosureAlgebra(schema, boxes))
    return float(enclosure.low.min()), float(enclosure.high.max()), float(enclosure.error.max())


def feature_ranges(features: Sequence[Feature], schema: Schema) -> list[tuple[float, float, float]]:
    """`feature_range` of each, with what features of several columns share computed once."""
    several = [feature.columns() for feature in features]
    wide = [names for names in several if len(names) > 1]
    algebra, memory = EnclosureAlgebra(schema, whole_box(schema, frozenset().union(*wide))), dict[Feature, Any]()
    ranges = []
    for feature, names in zip(features, several, strict=True):
        if len(names) > 1:
            enclosure: Enclosure = feature.fold(algebra, memory)
            ranges.append((float(enclosure.low.min()), float(enclosure.high.max()), float(enclosure.error.max())))
        else:
            ranges.append(feature_range(feature, schema))
    return ranges


def telling_codes(features: Sequence[Feature], name: str, column: Levels) -> Array:
    """The codes of the levels that the features name and of one that none of them does: the others are as that one."""
    nodes = (node for feature in features for node in feature.nodes() if node.operation == "equals")
    named = {column.index(level) for column_name, level in (node.arguments for node in nodes) if column_name == name}
    other = next((code for code in range(len(column)) if code not in named), None)
    return np.array(sorted(named if other is None else named | {other}), dtype=float)


def _cut(feature: Feature, schema: Schema, name: str) -> tuple[Array, Array]:
    column = schema.column(name)
    if isinstance(column, Levels):
        codes = telling_codes([feature], name, column)
        return codes, codes
    edges = np.linspace(column.low, column.high, 1025)
    edges[0], edges[-1] = column.low, column.high
    return edges[:-1], edges[1:]
