"""Joint sensitivity: how far one record can move a whole vector of sums.

For features f = (f_1..f_K) of one record and public weights w, the sensitivity of the weighted sums is

    change-one:  sup over records u, v of || w * (f(u) - f(v)) ||_p
    add-remove:  sup over records u    of || w * f(u) ||_p

jointly over the components: one record moves them all at once, but it cannot be at two places. The supremum
is computed as an exact number where the worst pair is known, and otherwise bracketed by branch and bound over
boxes of records with guaranteed enclosures: `value` is a certified upper bound, `attained` a distance that
two actual records reach, and `gap` what lies between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import fraction, root_above
from noisewise.schema import Levels, Schema
from noisewise.statistics.enclosure import Array, Enclosure, EnclosureAlgebra, feature_range, whole_box
from noisewise.statistics.feature import Feature

TOLERANCE = {1: 2.0**-14, 2: 2.0**-9}  # relative gap aimed at, by number of columns; beyond two, 2^-5
LARGEST_POOL = 60_000
LARGEST_MOVE = Fraction(10) ** 100
ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A certified bound on how far one record moves a weighted statistic, and how close to it records get."""

    value: Fraction
    attained: float
    norm: int
    argument: str

    @property
    def gap(self) -> float:
        """What separates the bound from a distance actually attained; 0 means the bound is exact."""
        return max(0.0, float(self.value) - self.attained)

    @property
    def is_exact(self) -> bool:
        return self.gap <= 1e-9 * float(self.value)

    def __str__(self) -> str:
        gap = self.gap / float(self.value)
        kind = "exact" if self.is_exact else f"certified bound, gap {'below 0.1%' if gap < 0.001 else f'{gap:.1%}'}"
        return f"{float(self.value):.6g} (L{self.norm}, {kind}: {self.argument})"


def exact(value: Fraction, norm: int, argument: str) -> Sensitivity:
    """A sensitivity known in closed form and attained by some pair of records."""
    return Sensitivity(value, float(value), norm, argument)


def checked_norm(norm: object) -> int:
    if isinstance(norm, bool) or norm not in (1, 2):
        raise InvalidArgument(f"norm = {norm!r:.60}; choose 1 (Laplace) or 2 (Gaussian).", argument="norm")
    return int(norm)


def checked_weights(weights: Sequence[object], size: int) -> tuple[Fraction, ...]:
    """Public per-component weights given by a person: positive numbers, one a component."""
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != size:
        raise InvalidArgument(f"weights must list {size} positive numbers, one a component.", argument="weights")
    return tuple(fraction(weight, f"weights[{k}]", positive=True) for k, weight in enumerate(weights))


def norm_above(terms: Sequence[Fraction], norm: int) -> Fraction:
    """The L1 norm exactly, or the L2 norm rounded up, of exact entries."""
    if norm == 1:
        return sum((abs(term) for term in terms), Fraction(0))
    return root_above(sum((term * term for term in terms), Fraction(0)))


def unit_range_weights(features: Sequence[Feature], schema: Schema) -> tuple[Fraction, ...]:
    """1/range of each feature: no component drowns another, whatever their units."""
    weights = []
    for feature in features:
        low, high, _ = feature_range(feature, schema)
        width = Fraction(high) - Fraction(low) if schema.is_change_one else Fraction(max(abs(low), abs(high)))
        if width <= 0:
            raise InvalidArgument(f"The feature {feature} is constant; it tells nothing.", argument="features")
        weights.append(1 / width)
    return tuple(weights)


def joint_sensitivity(
    features: Sequence[Feature], schema: Schema, *, norm: int, weights: Sequence[Fraction]
) -> Sensitivity:
    """The joint sensitivity of the weighted sums of `features`, exact or certified.

    Components that share no column are independent choices of the worst pair: their L1 suprema add, their
    squared L2 suprema add.
    """
    values, attained, arguments = [], [], []
    for group in _independent_groups(features):
        found = _group_sensitivity([features[k] for k in group], schema, norm=norm, weights=[weights[k] for k in group])
        values.append(found.value)
        attained.append(found.attained)
        arguments.append(found.argument)
    if len(values) == 1:
        return Sensitivity(values[0], attained[0], norm, arguments[0])
    reached = sum(attained) if norm == 1 else math.sqrt(sum(a * a for a in attained))
    return Sensitivity(norm_above(values, norm), reached, norm, "independent columns; " + arguments[0])


def _independent_groups(features: Sequence[Feature]) -> list[list[int]]:
    groups: list[tuple[set[str], list[int]]] = []
    for k, feature in enumerate(features):
        columns, members = set(feature.columns()), [k]
        rest = []
        for other_columns, other_members in groups:
            if columns & other_columns:
                columns |= other_columns
                members = other_members + members
            else:
                rest.append((other_columns, other_members))
        groups = [*rest, (columns, members)]
    return [sorted(members) for _, members in groups]


def _group_sensitivity(
    features: Sequence[Feature], schema: Schema, *, norm: int, weights: Sequence[Fraction]
) -> Sensitivity:
    """Range bound first: if some pair of records attains every component's range at once it is exact."""
    ranges = [feature_range(feature, schema) for feature in features]
    if schema.is_change_one:
        spans = [Fraction(high) - Fraction(low) for low, high, _ in ranges]
    else:
        spans = [Fraction(max(abs(low), abs(high))) for low, high, _ in ranges]
    weighted = [w * span for w, span in zip(weights, spans, strict=True)]
    if any(moved > LARGEST_MOVE or 0 < moved < 1 / LARGEST_MOVE for moved in weighted):
        raise InvalidArgument(
            "A weight times its feature's range must lie between 1e-100 and 1e100.", argument="weights"
        )
    bound = norm_above(weighted, norm)
    search = _BranchAndBound(features, schema, norm=norm, weights=weights)
    if search.best >= float(bound) * (1 - 1e-12):
        return Sensitivity(bound, search.best, norm, "the ends of all ranges are reached together")
    certified = search.run()
    slack = norm_above([2 * w * Fraction(error) for w, (_, _, error) in zip(weights, ranges, strict=True)], 1)
    value = min(bound, Fraction(certified) * (1 + Fraction(1, 2**40)) + slack)
    return Sensitivity(value, search.best, norm, "branch and bound over records")


class _BranchAndBound:
    """Best-first bracketing of sup || w (f(u) - f(v)) || over pairs of boxes (or one box and nothing)."""

    def __init__(self, features: Sequence[Feature], schema: Schema, *, norm: int, weights: Sequence[Fraction]) -> None:
        self.features, self.schema, self.norm = features, schema, norm
        self.weights = np.array([float(weight) for weight in weights])[:, None]
        self.names = sorted(frozenset().union(*(feature.columns() for feature in features)))
        self.sides = 2 if schema.is_change_one else 1
        box = whole_box(schema, frozenset(self.names))
        low = np.array([[box[name][0][0] for name in self.names]])
        high = np.array([[box[name][1][0] for name in self.names]])
        self.low, self.high = np.tile(low, (1, self.sides)), np.tile(high, (1, self.sides))
        self.is_level = np.tile([isinstance(schema.columns[name], Levels) for name in self.names], self.sides)
        self.best = self._attained_at_corners(low[0], high[0])

    def run(self) -> float:
        """A certified upper bound of the supremum; `best` holds the largest distance found."""
        tolerance = TOLERANCE.get(len(self.names), 2.0**-5)
        low, high = self.low, self.high
        upper = self._upper(low, high)
        settled = 0.0
        for _ in range(ROUNDS):
            alive = upper > self.best * (1 + tolerance)
            settled = max(settled, float(upper[~alive].max(initial=0.0)))
            low, high, upper = low[alive], high[alive], upper[alive]
            if not len(upper):
                break
            order = np.argsort(-upper)
            take, keep = order[: LARGEST_POOL // 2], order[LARGEST_POOL // 2 :]
            new_low, new_high = self._split(low[take], high[take])
            low, high = np.concatenate([low[keep], new_low]), np.concatenate([high[keep], new_high])
            upper = np.concatenate([upper[keep], self._upper(new_low, new_high)])
            self._improve(new_low, new_high)
            if len(upper) > 4 * LARGEST_POOL:
                break
        return max(settled, float(upper.max(initial=0.0)), self.best)

    def _split(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Each box cut in two along its widest side, relative to the whole range."""
        width = (high - low) / np.maximum(self.high[0] - self.low[0], 1e-300)
        axis = width.argmax(axis=1)
        rows = np.arange(len(low))
        middle = (low[rows, axis] + high[rows, axis]) / 2
        left_high, right_low = high.copy(), low.copy()
        is_level = self.is_level[axis]
        left_high[rows, axis] = np.where(is_level, np.floor(middle), middle)
        right_low[rows, axis] = np.where(is_level, np.floor(middle) + 1, middle)
        right_low = np.minimum(right_low, high)
        return np.concatenate([low, right_low]), np.concatenate([left_high, high])

    def _values(self, low: Array, high: Array) -> list[Enclosure]:
        algebra = EnclosureAlgebra(self.schema, {n: (low[:, k], high[:, k]) for k, n in enumerate(self.names)})
        memory: dict[Feature, Any] = {}
        return [feature.fold(algebra, memory) for feature in self.features]

    def _upper(self, low: Array, high: Array) -> Array:
        d = len(self.names)
        first = self._values(low[:, :d], high[:, :d])
        if self.sides == 1:
            reach = np.stack([enclosure.magnitude for enclosure in first])
        else:
            second = self._values(low[:, d:], high[:, d:])
            reach = np.stack([np.maximum(a.high - b.low, b.high - a.low) for a, b in zip(first, second, strict=True)])
        return self._norm(reach)

    def _improve(self, low: Array, high: Array) -> None:
        middle = np.where(self.is_level, np.floor((low + high) / 2), (low + high) / 2)
        self.best = max(self.best, float(self._distance(middle).max(initial=0.0)))

    def _distance(self, points: Array) -> Array:
        d = len(self.names)
        first = [enclosure.low for enclosure in self._values(points[:, :d], points[:, :d])]
        if self.sides == 1:
            return self._norm(np.abs(np.stack(first)))
        second = [enclosure.low for enclosure in self._values(points[:, d:], points[:, d:])]
        return self._norm(np.abs(np.stack(first) - np.stack(second)))

    def _norm(self, reach: Array) -> Array:
        weighted: Array = self.weights * reach
        total: Array = weighted.sum(axis=0) if self.norm == 1 else np.sqrt((weighted**2).sum(axis=0))
        return total

    def _attained_at_corners(self, low: Array, high: Array) -> float:
        """The largest distance between special records: ends, zero, and edges written into the features."""
        axes = [self._special(name, low[k], high[k]) for k, name in enumerate(self.names)]
        while math.prod(map(len, axes)) ** self.sides > 40_000:
            longest = max(range(len(axes)), key=lambda k: len(axes[k]))
            if len(axes[longest]) <= 2:
                break
            axes[longest] = axes[longest][[0, -1]]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))[:20_000]
        if self.sides == 1:
            return float(self._distance(grid).max())
        if len(grid) > 200:
            grid = grid[:200]
        i, j = np.triu_indices(len(grid), 0)
        return float(self._distance(np.concatenate([grid[i], grid[j]], axis=1)).max())

    def _special(self, name: str, low: float, high: float) -> Array:
        if isinstance(self.schema.columns[name], Levels):
            return np.arange(low, high + 1)
        edges = {low, high, min(max(0.0, low), high)}
        for feature in self.features:
            for node in feature.nodes():
                if node.operation in ("clip", "between"):
                    edges |= {min(max(edge, low), high) for edge in node.arguments[1:]}
        return np.array(sorted(edges))
