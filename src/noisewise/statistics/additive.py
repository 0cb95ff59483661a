"""Additive statistics: sums over records of a vector of features.

    Mean(f, g, ...)          sum_i f(x_i) / n    (change-one: n is public)
    Sum(f, g, ...)           sum_i f(x_i)
    Count(condition)         how many records satisfy a condition (a 0/1 feature)
    TruncatedSum(f, ...)     the sum over records whose column lies in [low, high]; the others are redacted

Every additive statistic is described by its `row`: the features summed, in order. One function computes the joint
sensitivity of any row (`sensitivity.py`), one settles its noise (`settling.py`), one sums it on records (`Rows.sums`).
Where values may be absent (`missing="leave-out"`) a mean becomes the counts of those present and the sums over them:
see `presence.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.lattice import Lattice
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Bounded, Schema, checked_schema
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.evaluation import completed_columns
from noisewise.statistics.feature import (
    DEEPEST_FEATURE,
    Feature,
    NumPyAlgebra,
    as_feature,
    column_name,
    number_text,
)
from noisewise.statistics.presence import (
    PresentRow,
    left_out_of,
    present_row,
    present_sensitivity,
    settled_present,
    sum_labels,
)
from noisewise.statistics.protocol import Average, Rows, Settled, Sort, Statistic, Whole
from noisewise.statistics.sensitivity import (
    Sensitivity,
    checked_norm,
    checked_weights,
    exact,
    joint_sensitivity,
    unit_range_weights,
)
from noisewise.statistics.settling import ONE, given_weights, settled_counts, settled_sums

S = TypeVar("S", bound=Statistic)
MOST_FEATURES = 2000
MOST_OPERATIONS = 20_000  # of all features of a statistic together


def sums(row: Sequence[Feature], columns: Mapping[str, Any], schema: Schema) -> Any:
    """The plain (unrounded) sums of a row of features over NumPy columns; the last axis is the record's."""
    algebra, memory = NumPyAlgebra(columns, schema), {}  # type: NumPyAlgebra, dict[Feature, Any]
    return np.stack([np.sum(feature.fold(algebra, memory), axis=-1) for feature in row], axis=-1)


class FeatureSums(Statistic):
    """What every statistic made of a row of features shares: a subclass says its `row`, columns, labels and text."""

    __slots__ = ()
    sort: ClassVar[Sort] = Sort.SUMS
    is_searched: ClassVar[bool] = True

    @abstractmethod
    def row(self, schema: Schema) -> tuple[Feature, ...]:
        """The features that are summed, in the order of the components."""

    def summed(self, schema: Schema) -> PresentRow:
        """The row, and what must be present for each of its features: nothing, unless the statistic says otherwise."""
        row = self.row(schema)
        return PresentRow(row, row, ((),) * len(row))

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        """Each component scaled to unit range, so that none drowns another."""
        row = self.summed(schema)
        return unit_range_weights(row.features, schema) if row.is_complete else row.weights(schema)

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        """The joint sensitivity of the weighted *sums* (for means: n times that of the means)."""
        row = self.summed(checked_schema(schema))
        given = self.default_weights(schema) if weights is None else checked_weights(weights, len(row.features))
        if not row.is_complete:
            return present_sensitivity(row, schema, norm=checked_norm(norm), weights=given)
        return joint_sensitivity(row.features, schema, norm=checked_norm(norm), weights=given)

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        given, row = given_weights(self.default_weights(schema), weights), self.summed(schema)
        if not row.is_complete:
            return settled_present(self, row, schema, guarantee, mechanism, given)
        return settled_sums(self, schema, guarantee, mechanism, given)

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        return rows.sums(self.row(rows.schema), lattice)

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        return sums(self.row(schema), completed_columns(columns, schema), schema.completed())


@dataclass(frozen=True, slots=True, init=False)
class Mean(FeatureSums):
    """Averages of features over all records: sum_i f(x_i) / n. Change-one only, but for means by group.

    Where values may be absent (`missing="leave-out"`): how many are present, and the sums over them. Their ratio is
    the mean of those present.

    Parameters
    ----------
    features
        One or several: names of columns, or features. All are published for one price.
    by
        A column with levels, or a list of two: counts and sums of each group, in one release. Default None.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> x = nw.column("income")
    >>> print(nw.plan(nw.Mean(x, x**2), schema, guarantee=nw.PureDP(1)))
    mean(income, income**2) by laplace at epsilon = 1
    """

    features: tuple[Feature, ...]
    kind: ClassVar[str] = "mean"
    needs_public_n: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = True

    def __new__(cls, *features: object, by: object = None) -> Any:
        """With `by=` the statistic of each group: see `grouped.py`."""
        return by_group("mean-by", features, by) if by is not None else object.__new__(cls)

    def __init__(self, *features: object, by: object = None) -> None:
        object.__setattr__(self, "features", read_features(features, "Mean"))

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        return with_listed(cls, entries, "features")

    def columns(self) -> tuple[str, ...]:
        return columns_of(self.features)

    def divisor(self, schema: Schema) -> int:
        return 1 if left_out_of(self.columns(), schema) else schema.largest_n

    def needs_n(self, schema: Schema) -> bool:
        return not left_out_of(self.columns(), schema)

    def summed(self, schema: Schema) -> PresentRow:
        features = checked_row(self.features, schema)
        is_counted = bool(left_out_of(self.columns(), schema))
        return present_row(features, schema, is_counted=is_counted, is_n_public=schema.is_change_one)

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        return self.summed(schema).features

    def labels(self, schema: Schema) -> tuple[str, ...]:
        if left_out_of(self.columns(), schema):
            return sum_labels(self.summed(schema))
        return tuple(f"mean({feature})" for feature in self.features)

    def averages(self, schema: Schema) -> tuple[Average, ...]:
        return self.summed(schema).averages()

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        total = sums(self.row(schema), completed_columns(columns, schema), schema.completed())
        is_mean = self.needs_n(schema)
        return total / np.shape(columns[self.columns()[0]])[-1] if is_mean else total

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "features": [str(feature) for feature in self.features]}

    def __str__(self) -> str:
        return f"mean({', '.join(map(str, self.features))})"


@dataclass(frozen=True, slots=True, init=False)
class Sum(FeatureSums):
    """Sums of features over all records, or over those in which they are present.

    Parameters
    ----------
    features
        One or several: names of columns, or features.
    by
        A column with levels, or a list of two: counts and sums of each group, in one release. Default None.

    Examples
    --------
    >>> schema = nw.Schema({"visits": nw.Bounded(0, 20)}, n_max=1000, neighbours="add-remove")
    >>> nw.plan(nw.Sum("visits"), schema, guarantee=nw.PureDP(1)).noise
    (Noise(label='sum(visits)', sd=28.284271247461216, words='sd 28.28'),)
    """

    features: tuple[Feature, ...]
    kind: ClassVar[str] = "sum"
    leaves_out: ClassVar[bool] = True

    def __new__(cls, *features: object, by: object = None) -> Any:
        """With `by=` the statistic of each group: see `grouped.py`."""
        return by_group("sum-by", features, by) if by is not None else object.__new__(cls)

    def __init__(self, *features: object, by: object = None) -> None:
        object.__setattr__(self, "features", read_features(features, "Sum"))

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        return with_listed(cls, entries, "features")

    def columns(self) -> tuple[str, ...]:
        return columns_of(self.features)

    def summed(self, schema: Schema) -> PresentRow:
        return present_row(checked_row(self.features, schema), schema)

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        return self.summed(schema).features

    def labels(self, schema: Schema) -> tuple[str, ...]:
        return tuple(f"sum({feature})" for feature in self.features)

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "features": [str(feature) for feature in self.features]}

    def __str__(self) -> str:
        return f"sum({', '.join(map(str, self.features))})"


@dataclass(frozen=True, slots=True, init=False)
class Count(FeatureSums):
    """How many records satisfy a condition; absent ones do not.

    Parameters
    ----------
    condition
        A feature that is 0 or 1, such as `column("income") > 50`, `column("smoker").equals("yes")`, or products of
        them. With `by=` it may be left out: the count of everybody in the group.
    by
        A column with levels, or a list of two: the count of each group, in one release. Default None: of all records.

    Examples
    --------
    >>> print(nw.Count(nw.column("smoker").equals("yes")))
    count(equals(smoker, 'yes'))
    >>> print(nw.Count(by="region"))
    count(by=region)
    """

    condition: Feature
    kind: ClassVar[str] = "count"
    leaves_out: ClassVar[bool] = True
    sort: ClassVar[Sort] = Sort.COUNT
    is_searched: ClassVar[bool] = False

    def __new__(cls, condition: Feature | None = None, *, by: object = None) -> Any:
        """With `by=` the count of each group, of all its records or of those that satisfy a condition."""
        given = () if condition is None else (condition,)
        return by_group("count-by", given, by) if by is not None else object.__new__(cls)

    def __init__(self, condition: Feature | None = None, *, by: object = None) -> None:
        if not isinstance(condition, Feature) or not condition.is_condition:
            raise InvalidArgument(
                "Count needs a condition: f > a, f.between(low, high), column.equals(level), or products of them; as "
                "text count(income > 50), count(equals(region, 'north')).",
                argument="condition",
            )
        object.__setattr__(self, "condition", condition)

    def columns(self) -> tuple[str, ...]:
        return columns_of((self.condition,))

    def summed(self, schema: Schema) -> PresentRow:
        return present_row(checked_row((self.condition,), schema), schema)

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        return self.summed(schema).features

    def labels(self, schema: Schema) -> tuple[str, ...]:
        return (str(self),)

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return (Fraction(1),)

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        (weight,) = (Fraction(1),) if weights is None else checked_weights(weights, 1)
        self.row(schema)
        return exact(weight, checked_norm(norm), "one record is in the count or not")

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        return settled_counts(self, schema, guarantee, mechanism, given_weights(ONE, weights))

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "condition": str(self.condition)}

    def __str__(self) -> str:
        return f"count({self.condition})"


@dataclass(frozen=True, slots=True, init=False)
class TruncatedSum(FeatureSums):
    """Sums of features over the records whose `column` lies in [low, high]; all others are redacted.

    Prefer a sum of `clip(low, high)`: of those that remain a sum has two explanations, their number and their size.

    Parameters
    ----------
    features
        One feature or a list.
    column
        The column that decides.
    low, high
        The ends of the window, in the column's unit.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> nw.TruncatedSum(["income"], "income", 0, 100).labels(schema)
    ('sum(income where 0 <= income <= 100)',)
    """

    features: tuple[Feature, ...]
    column: str
    low: float
    high: float
    kind: ClassVar[str] = "truncated-sum"

    def why_not_left_out(self) -> str | None:
        column = as_feature(self.column)
        return f"write sum(f*{column.between(self.low, self.high)}) for each of its features, which can"

    def __init__(self, features: Sequence[object], column: str | Feature, low: object, high: object) -> None:
        given = (features,) if isinstance(features, str | Feature) else features
        name = column_name(column, "TruncatedSum")
        kept = as_feature(name).clip(low, high)  # a window of one point is refused, as a clip to it is
        object.__setattr__(self, "features", read_features(given, "TruncatedSum"))
        object.__setattr__(self, "column", name)
        object.__setattr__(self, "low", kept.arguments[1])
        object.__setattr__(self, "high", kept.arguments[2])

    def columns(self) -> tuple[str, ...]:
        return columns_of((*self.features, as_feature(self.column)))

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        schema.bounded(self.column)
        kept = as_feature(self.column).between(self.low, self.high)
        # Clip inside as well: outside the window the product is 0, so this only tightens the declared range.
        inside = as_feature(self.column).clip(self.low, self.high)
        return checked_row(tuple(with_column(f, self.column, inside) * kept for f in self.features), schema)

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        """Of two kept records, or of a kept and a redacted one, which is the zero vector; the larger of the two.

        Boxes of records that straddle the window's edge would never be divided finely enough: an indicator and a number
        at its edge would be taken for free of each other.
        """
        row = self.row(checked_schema(schema))
        given = self.default_weights(schema) if weights is None else checked_weights(weights, len(row))
        column, p = schema.bounded(self.column), checked_norm(norm)
        low, high = max(column.low, self.low), min(column.high, self.high)
        if not low < high:
            return joint_sensitivity(row, schema, norm=p, weights=given)
        kept = {**schema.columns, self.column: Bounded(low, high)}
        alone = joint_sensitivity(self.features, Schema(kept, n_max=1, neighbours="add-remove"), norm=p, weights=given)
        if not schema.is_change_one:
            return alone
        pair = joint_sensitivity(self.features, Schema(kept, n=1, neighbours="change-one"), norm=p, weights=given)
        is_whole = (low, high) == (column.low, column.high)
        return pair if is_whole else max(pair, alone, key=lambda one: one.value)

    def labels(self, schema: Schema) -> tuple[str, ...]:
        window = f"{number_text(self.low)} <= {self.column} <= {number_text(self.high)}"
        return tuple(f"sum({feature} where {window})" for feature in self.features)

    def to_dict(self) -> dict[str, object]:
        features = [str(feature) for feature in self.features]
        return {"kind": self.kind, "features": features, "column": self.column, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        bounds = f"{number_text(self.low)}, {number_text(self.high)}"
        return f"truncated_sum([{', '.join(map(str, self.features))}], {as_feature(self.column)}, {bounds})"


def by_group(kind: str, features: Sequence[object], by: object) -> Statistic:
    """The statistic of each group; the classes of grouped statistics are built on this file's."""
    from noisewise.statistics.grouped import grouped

    return grouped(kind, features, by)


def columns_of(features: Sequence[Feature]) -> tuple[str, ...]:
    """The columns that features read, in alphabetical order."""
    return tuple(sorted(frozenset[str]().union(*(feature.columns() for feature in features))))


def with_listed(kind: Callable[..., S], entries: Mapping[str, Any], listed: str) -> S:
    """A statistic whose entry `listed` is given as arguments of their own."""
    named = dict(entries)
    return kind(*named.pop(listed, []), **named)


def read_features(features: Sequence[object], name: str) -> tuple[Feature, ...]:
    """Features, column names or numbers given by a person, as features; at least one, none of them constant."""
    if not isinstance(features, Sequence) or not features:
        raise InvalidArgument(
            f"{name} needs at least one feature, as in {name}(column('income')).", argument="features"
        )
    if len(features) > MOST_FEATURES:
        raise InvalidArgument(
            f"{name} names {len(features)} features, more than {MOST_FEATURES}; split them over several releases.",
            argument="features",
        )
    read, operations = list[Feature](), 0
    for feature in features:
        is_named = (isinstance(feature, str) and feature) or isinstance(feature, Feature)
        if not is_named or not as_feature(feature).columns():
            raise InvalidArgument(
                f"{name} needs features made of columns, not {shown(feature)}; start with column('name').",
                argument="features",
            )
        read.append(as_feature(feature))
        if read[-1].depth > DEEPEST_FEATURE:
            raise InvalidArgument(f"{name}: a feature is more than {DEEPEST_FEATURE} operations deep.",
                                  argument="features")  # fmt: skip
        operations += read[-1].size
        if operations > MOST_OPERATIONS:
            raise InvalidArgument(
                f"{name}: its features have more than {MOST_OPERATIONS} operations together; simplify them, or split "
                "them over several releases.",
                argument="features",
            )
    if len(set(read)) != len(read):
        raise InvalidArgument(f"{name} names the same feature twice; that would only cost budget.", argument="features")
    return tuple(read)


def checked_row(row: tuple[Feature, ...], schema: Schema) -> tuple[Feature, ...]:
    """The row, after every feature has shown that it has a finite range under the schema."""
    feature_ranges(row, schema)
    return row


def with_column(feature: Feature, name: str, replacement: Feature) -> Feature:
    """The feature with one column replaced by another feature."""
    return rewritten(feature, lambda one: replacement if one == as_feature(name) else None)


def rewritten(feature: Feature, rule: Callable[[Feature], Feature | None]) -> Feature:
    """The feature with every part for which the rule has another one replaced by it."""
    other = rule(feature)
    if other is not None:
        return other
    arguments = tuple(rewritten(a, rule) if isinstance(a, Feature) else a for a in feature.arguments)
    return Feature(feature.operation, arguments)
