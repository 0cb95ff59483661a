"""Joint sensitivity: how far one record can move a whole vector of sums.

For features f = (f_1..f_K) of one record and public weights w, the sensitivity of the weighted sums is

    change-one:  sup over records u, v of || w * (f(u) - f(v)) ||_p
    add-remove:  sup over records u    of || w * f(u) ||_p

jointly over the components: one record moves them all at once, but it cannot be at two places. The supremum
is computed as an exact number where the worst pair is known, and otherwise bracketed by branch and bound over
boxes of records with guaranteed enclosures: `value` is a certified upper bound, `attained` a distance that
two actual records reach, and `gap` what lies between.

The cost is bounded whatever the features: the search counts its operations (boxes times the features' own) and stops
when `LARGEST_WORK` is spent, with the bound it has by then and its gap. Work is counted, never timed, so that one plan
has one sensitivity on every machine. Under `proving(enough)` a search asks less and may spend more: boxes that cannot
move the sums by more than `enough` are settled as they are, which shows the bound of any longer search again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction, root_above
from noisewise.printable import shown
from noisewise.schema import Levels, Schema
from noisewise.statistics.enclosure import (
    Array,
    Enclosure,
    EnclosureAlgebra,
    feature_ranges,
    operations,
    telling_codes,
    whole_box,
)
from noisewise.statistics.feature import Feature
from noisewise.statistics.polynomial import is_constant, is_zero

TOLERANCE = {1: 2.0**-14, 2: 2.0**-9}  # relative gap aimed at, by number of columns; beyond two, 2^-5
LARGEST_POOL = 60_000
LARGEST_MOVE = Fraction(10) ** 100
ROUNDS = 60
LARGEST_WORK = 8 * 10**8  # operations on boxes in one search, over all groups of columns: some four seconds
LARGEST_PROOF = 2 * LARGEST_WORK  # the same where a stated bound is to be shown
LARGEST_FILE_WORK = 2 * LARGEST_WORK  # after so many in one file no further search is begun
CALL = 4000  # boxes whose evaluation costs as much as the call itself
MANY_LEVELS = 200  # beyond, only the levels that features name are tried, and one more
LARGEST_PIECE = 2**21  # operations whose results are held at once, some 50 MB
LARGEST_ENDS = 2**23  # numbers that the ends of all boxes of a pool may be: 64 MB
LONGEST_WEIGHTS = 20_000  # bits of all weights together; beyond, each is rounded up to WEIGHT_BITS of its own
WEIGHT_BITS = 128
LONGEST_VALUE = 4000  # bits of a sensitivity that is used as it is


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


@dataclass(frozen=True, slots=True)
class _Search:
    """What a search may spend, and the bound below which nothing more is asked of it."""

    work: int
    enough: float | None


_PROOF: ContextVar[_Search | None] = ContextVar("proof", default=None)
_LEFT: ContextVar[list[int] | None] = ContextVar("left", default=None)  # operations, of all searches of one file


@contextmanager
def proving(enough: Fraction) -> Iterator[None]:
    """Sensitivities computed inside are searched until they are at most `enough`, for `LARGEST_PROOF` at most."""
    token = _PROOF.set(_Search(LARGEST_PROOF, float(enough) * (1 - 2.0**-39)))
    try:
        yield
    finally:
        _PROOF.reset(token)


@contextmanager
def one_file() -> Iterator[None]:
    """Searches begun inside spend `LARGEST_FILE_WORK` together, and what the last one takes; another is refused.

    It is for files that list many statistics, each dear to plan again. A statistic that was planned just before costs
    nothing, so a file may hold the same one as often as it likes.
    """
    token = _LEFT.set([LARGEST_FILE_WORK])
    try:
        yield
    finally:
        _LEFT.reset(token)


@contextmanager
def sharing(parts: int) -> Iterator[None]:
    """Sensitivities computed inside are of pieces, which spend together what one search may, in equal shares.

    What is enough for the whole says nothing about a piece, so nothing is enough for it.
    """
    given = _PROOF.get() or _Search(LARGEST_WORK, None)
    token = _PROOF.set(_Search(given.work // parts, None))
    try:
        yield
    finally:
        _PROOF.reset(token)


def exact(value: Fraction, norm: int, argument: str) -> Sensitivity:
    """A sensitivity known in closed form and attained by some pair of records."""
    return Sensitivity(value, float(value), norm, argument)


def checked_norm(norm: object) -> int:
    if isinstance(norm, bool) or norm not in (1, 2):
        raise InvalidArgument(f"norm = {shown(norm)}; choose 1 (Laplace) or 2 (Gaussian).", argument="norm")
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
    for feature, (low, high, _) in zip(features, feature_ranges(features, schema), strict=True):
        width = Fraction(high) - Fraction(low) if schema.is_change_one else Fraction(max(abs(low), abs(high)))
        if width <= 0 or is_zero(feature) or (schema.is_change_one and is_constant(feature)):
            raise InvalidArgument(
                f"The feature {feature!s:.200} is the same for every record within the declared bounds, so it tells "
                "nothing: leave it out, or change its limits (clip, between) or the schema's bounds. "
                "Nothing was spent.",
                argument="features",
            )
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
    groups, given, search = (
        independent_groups(features),
        weights_above(weights),
        _PROOF.get() or _Search(LARGEST_WORK, None),
    )
    work, left = search.work, _LEFT.get()
    if left is not None and left[0] <= 0:
        raise Unsupported(
            "the sensitivities of the statistics in this file take too long to search, all together: keep fewer of "
            "them in one file"
        )
    for k, group in enumerate(groups):
        found, spent = _group_sensitivity(
            [features[i] for i in group],
            schema,
            norm=norm,
            weights=[given[i] for i in group],
            search=_Search(work // (len(groups) - k), search.enough if len(groups) == 1 else None),
        )
        work -= spent
        values.append(found.value)
        attained.append(found.attained)
        arguments.append(found.argument)
    if left is not None:
        left[0] -= search.work - work
    for k, feature in enumerate(features):
        if not feature.columns():  # a constant: one record brings it along, and two have it in common
            low, high, _ = feature_ranges([feature], schema)[0]
            size = Fraction(0) if schema.is_change_one else given[k] * max(abs(Fraction(low)), abs(Fraction(high)))
            values.append(size)
            attained.append(float(size))
            arguments.append("a record brings its constants along")
    if len(values) == 1:
        return Sensitivity(values[0], attained[0], norm, arguments[0])
    reached = sum(attained) if norm == 1 else math.sqrt(sum(a * a for a in attained))
    return Sensitivity(norm_above(values, norm), reached, norm, "independent columns; " + arguments[0])


def weights_above(weights: Sequence[Fraction]) -> Sequence[Fraction]:
    """The weights, rounded up to 128 bits where they are so long together that exact sums of them would grow costly.

    Every sensitivity grows with its weights, so what is computed from larger ones is a bound still.
    """
    if sum(_bits(weight) for weight in weights) <= LONGEST_WEIGHTS:
        return weights
    return [weight if _bits(weight) <= WEIGHT_BITS else rounded_above(weight) for weight in weights]


def rounded_above(value: Fraction) -> Fraction:
    """The least number of WEIGHT_BITS binary digits that is not below a positive one."""
    shift = WEIGHT_BITS - value.numerator.bit_length() + value.denominator.bit_length()
    return Fraction(math.ceil(value * Fraction(2) ** shift)) / Fraction(2) ** shift


def short_above(value: Fraction) -> Fraction:
    """The value, or one just above it where its exact form is longer than any number that is read."""
    return value if _bits(value) <= LONGEST_VALUE else rounded_above(value)


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def independent_groups(features: Sequence[Feature]) -> list[list[int]]:
    """Indices of features that share columns, directly or through others; groups in the order of their last member."""
    group_of: dict[str, list[int]] = {}
    for k, feature in enumerate(features):
        columns = feature.columns()
        met = list({id(group_of[name]): group_of[name] for name in columns if name in group_of}.values())
        largest = max(met, key=len, default=[])
        for other in met:
            if other is not largest:
                largest.extend(other)
        largest.append(k)
        moved = columns.union(*(features[i].columns() for other in met if other is not largest for i in other))
        group_of.update(dict.fromkeys(moved, largest))
    found = {id(group): sorted(group) for group in group_of.values()}
    return sorted(found.values(), key=lambda group: group[-1])


def _group_sensitivity(
    features: Sequence[Feature], schema: Schema, *, norm: int, weights: Sequence[Fraction], search: _Search
) -> tuple[Sensitivity, int]:
    """Range bound first: if some pair of records attains every component's range at once it is exact.

    Returns the operations that were spent, too.
    """
    ranges = feature_ranges(features, schema)
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
    found = _BranchAndBound(features, schema, norm=norm, weights=weights, work=search.work)
    if found.best >= float(bound) * (1 - 1e-12):
        return Sensitivity(bound, found.best, norm, "the ends of all ranges are reached together"), found.spent
    slack = norm_above([2 * w * Fraction(error) for w, (_, _, error) in zip(weights, ranges, strict=True)], 1)
    certified = found.run(None if search.enough is None else search.enough - float(slack))
    value = min(bound, Fraction(certified) * (1 + Fraction(1, 2**40)) + slack)
    return Sensitivity(value, found.best, norm, "branch and bound over records"), found.spent


class _BranchAndBound:
    """Best-first bracketing of sup || w (f(u) - f(v)) || over pairs of boxes (or one box and nothing)."""

    def __init__(
        self, features: Sequence[Feature], schema: Schema, *, norm: int, weights: Sequence[Fraction], work: int
    ) -> None:
        self.features, self.schema, self.norm = features, schema, norm
        self.weights = np.array([float(weight) for weight in weights])[:, None]
        self.names = sorted(frozenset().union(*(feature.columns() for feature in features)))
        self.sides = 2 if schema.is_change_one else 1
        self.cost, self.work, self.spent = operations(features) + len(self.names), work, 0
        self.piece = max(1, LARGEST_PIECE // self.cost)
        self.pool = min(LARGEST_POOL, LARGEST_ENDS // (8 * self.sides * len(self.names)))
        box = whole_box(schema, frozenset(self.names))
        low = np.array([[box[name][0][0] for name in self.names]])
        high = np.array([[box[name][1][0] for name in self.names]])
        self.low, self.high = np.tile(low, (1, self.sides)), np.tile(high, (1, self.sides))
        self.is_level = np.tile([isinstance(schema.columns[name], Levels) for name in self.names], self.sides)
        self.best = self._attained_at_corners(low[0], high[0])

    def run(self, enough: float | None) -> float:
        """A certified upper bound of the supremum; `best` holds the largest distance found.

        With `enough`, boxes that reach no farther are not divided, and no larger distance is looked for.
        """
        tolerance = TOLERANCE.get(len(self.names), 2.0**-5)
        evaluations = 4 if enough is None else 2
        low, high = self.low, self.high
        upper = self._upper(low, high)
        settled = 0.0
        for _ in range(ROUNDS):
            alive = upper > max(self.best * (1 + tolerance), enough or 0.0)
            settled = max(settled, float(upper[~alive].max(initial=0.0)))
            low, high, upper = low[alive], high[alive], upper[alive]
            # One box becomes two, and each is enclosed and tried at its middle: four evaluations on each side.
            affordable = self._affordable(self.work - self.spent - 2 * self.sides * CALL * self.cost) // evaluations
            if not len(upper) or affordable < 1:
                break
            order = np.argsort(-upper, kind="stable")
            most = min(self.pool // 2, affordable)
            take, keep = order[:most], order[most:]
            new_low, new_high = self._split(low[take], high[take])
            low, high = np.concatenate([low[keep], new_low]), np.concatenate([high[keep], new_high])
            upper = np.concatenate([upper[keep], self._upper(new_low, new_high)])
            if enough is None:
                self._improve(new_low, new_high)
            if len(upper) > 4 * self.pool:
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
        self.spent += (len(low) + CALL) * self.cost
        algebra = EnclosureAlgebra(self.schema, {n: (low[:, k], high[:, k]) for k, n in enumerate(self.names)})
        memory: dict[Feature, Any] = {}
        return [feature.fold(algebra, memory) for feature in self.features]

    def _in_pieces(self, function: Callable[..., Array], *arrays: Any) -> Array:
        """A function of boxes, some at a time: the memory held does not grow with the features."""
        starts = range(0, max(1, len(arrays[0])), self.piece)
        return np.concatenate([function(*(array[start : start + self.piece] for array in arrays)) for start in starts])

    def _affordable(self, work: int) -> int:
        """How many boxes may be evaluated on each side for so many operations, the calls for each piece among them."""
        return work * self.piece // (self.sides * self.cost * (self.piece + CALL))

    def _upper(self, low: Array, high: Array) -> Array:
        return self._in_pieces(self._upper_piece, low, high)

    def _upper_piece(self, low: Array, high: Array) -> Array:
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
        return self._in_pieces(self._distance_piece, points)

    def _distance_piece(self, points: Array) -> Array:
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
        written = self._written_edges()
        axes = [self._special(name, low[k], high[k], written) for k, name in enumerate(self.names)]
        while math.prod(map(len, axes)) ** self.sides > 40_000:
            longest = max(range(len(axes)), key=lambda k: len(axes[k]))
            if len(axes[longest]) <= 2:
                break
            axes[longest] = axes[longest][[0, -1]]
        # Within half of the work, so that some is left for the search; the records come in pairs under change-one.
        affordable = max(2, self._affordable(self.work // 2))
        if self.sides == 1:
            return float(self._distance(_first_of_grid(axes, min(20_000, affordable))).max())
        grid = _first_of_grid(axes, min(200, math.isqrt(2 * affordable)))
        i, j = np.triu_indices(len(grid), 0)
        return float(
            self._in_pieces(lambda a, b: self._distance(np.concatenate([grid[a], grid[b]], axis=1)), i, j).max()
        )

    def _written_edges(self) -> set[float]:
        """Where clips and indicators of the features begin and end."""
        nodes = (node for feature in self.features for node in feature.nodes() if node.operation in ("clip", "between"))
        return {edge for node in nodes for edge in node.arguments[1:]}

    def _special(self, name: str, low: float, high: float, written: set[float]) -> Array:
        column = self.schema.columns[name]
        if isinstance(column, Levels):
            return (
                np.arange(low, high + 1) if len(column) <= MANY_LEVELS else telling_codes(self.features, name, column)
            )
        return np.array(sorted({low, high, *(min(max(edge, low), high) for edge in (0.0, *written))}))


def _first_of_grid(axes: Sequence[Array], most: int) -> Array:
    """The first points of a grid, the last axis running fastest; a whole grid of many axes would fit nowhere."""
    size = min(most, math.prod(map(len, axes)))
    left, columns = np.arange(size), list[Array]()
    for axis in reversed(axes):
        columns.append(axis[left % len(axis)])
        left = left // len(axis)
    return np.stack(columns[::-1], axis=-1)
