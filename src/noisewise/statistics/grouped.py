"""Means, sums and counts of each group: `Mean(f, by="region")`, `Sum(f, by=)`, `Count(c, by=)`.

One release holds them all, and a record pays for its group alone: means by region cost one epsilon, not one each. The
components, their joint sensitivity and their noise are in `groups.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from noisewise.errors import InvalidArgument
from noisewise.lattice import Lattice, unit_lattice
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Schema, checked_schema
from noisewise.statistics.additive import FeatureSums, checked_row, columns_of, read_features, with_listed
from noisewise.statistics.feature import Feature, as_feature
from noisewise.statistics.groups import (
    ONE,
    group_cells,
    group_names,
    group_row,
    group_sensitivity,
    group_weights,
    read_by,
    settled_groups,
    written_by,
)
from noisewise.statistics.presence import PresentRow, present_row, sum_labels
from noisewise.statistics.protocol import Average, Rows, Settled, Sort, Whole
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, checked_weights
from noisewise.statistics.settling import given_weights, settled_counts


class GroupedSums(FeatureSums):
    """What grouped statistics share: the features of one group, the columns that make groups, and one query."""

    __slots__ = ()
    leaves_out: ClassVar[bool] = True
    by: tuple[str, ...]
    features: tuple[Feature, ...]

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        return with_listed(cls, entries, "features")

    @abstractmethod
    def own(self) -> tuple[Feature, ...]:
        """The features that are summed in each group; the feature 1 counts its records."""

    def in_group(self, schema: Schema) -> PresentRow:
        """What is summed in each group: its features where they are present."""
        return present_row(self.own(), schema)

    def columns(self) -> tuple[str, ...]:
        return columns_of((*self.features, *map(as_feature, self.by)))

    def by_group(self) -> tuple[tuple[str, ...], tuple[Feature, ...]]:
        return self.by, self.own()

    def groups(self, schema: Schema) -> tuple[str, ...]:
        return group_names(self.by, schema)

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        group_cells(self.by, checked_schema(schema))
        checked_row(self.own(), schema)
        return group_row(self.in_group(schema).features, self.by, schema)

    def labels(self, schema: Schema) -> tuple[str, ...]:
        group_cells(self.by, checked_schema(schema))
        own = sum_labels(self.in_group(schema))
        return tuple(f"{group}: {label}" for group in self.groups(schema) for label in own)

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return group_weights(self.in_group(schema), self.by, schema)

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        default = self.default_weights(checked_schema(schema))
        given = default if weights is None else checked_weights(weights, len(default))
        return group_sensitivity(self.in_group(schema), self.by, schema, norm=checked_norm(norm), weights=given)

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        given = given_weights(self.default_weights(schema), weights)
        return settled_groups(self.in_group(schema), self.by, schema, guarantee, mechanism, given)

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        own = self.in_group(rows.schema).features
        size = len(own)
        one = Lattice(lattice.step[:size], lattice.low[:size], lattice.high[:size])
        return rows.group_sums(own, group_cells(self.by, rows.schema), one)

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "features": [str(feature) for feature in self.features], "by": list(self.by)}

    def __str__(self) -> str:
        features = ", ".join(map(str, self.features))
        return f"{self.kind.removesuffix('-by')}({(features + written_by(self.by)).removeprefix(', ')})"


@dataclass(frozen=True, slots=True, init=False)
class GroupedMean(GroupedSums):
    """For each group the number of its records and the sums of features over them; their ratio is its mean."""

    features: tuple[Feature, ...]
    by: tuple[str, ...]
    kind: ClassVar[str] = "mean-by"

    def __init__(self, *features: object, by: object) -> None:
        object.__setattr__(self, "features", read_features(features, "Mean"))
        object.__setattr__(self, "by", read_by(by, "Mean"))

    def own(self) -> tuple[Feature, ...]:
        return (ONE, *self.features)

    def in_group(self, schema: Schema) -> PresentRow:
        """Before the sums how many records of the group have what they need: its mean is one over the other."""
        return present_row(self.features, schema, is_counted=True, is_n_public=False)

    def averages(self, schema: Schema) -> tuple[Average, ...]:
        row, groups = self.in_group(schema), self.groups(schema)
        return tuple(one for g, group in enumerate(groups) for one in row.averages(group, g * len(row.features)))


@dataclass(frozen=True, slots=True, init=False)
class GroupedSum(GroupedSums):
    """The sums of features over the records of each group."""

    features: tuple[Feature, ...]
    by: tuple[str, ...]
    kind: ClassVar[str] = "sum-by"

    def __init__(self, *features: object, by: object) -> None:
        object.__setattr__(self, "features", read_features(features, "Sum"))
        object.__setattr__(self, "by", read_by(by, "Sum"))

    def own(self) -> tuple[Feature, ...]:
        return self.features


@dataclass(frozen=True, slots=True, init=False)
class GroupedCount(GroupedSums):
    """How many records of each group there are, or satisfy a condition: whole numbers, like a histogram's."""

    features: tuple[Feature, ...]
    by: tuple[str, ...]
    kind: ClassVar[str] = "count-by"
    sort: ClassVar[Sort] = Sort.TABLE
    is_searched: ClassVar[bool] = False

    def __init__(self, *features: object, by: object) -> None:
        if len(features) > 1 or any(not (isinstance(f, Feature) and f.is_condition) for f in features):
            raise InvalidArgument(
                "Count(by=) takes one condition or none, as in count(by=region) or count(income > 50, by=region).",
                argument="condition",
            )
        object.__setattr__(self, "features", tuple(features))
        object.__setattr__(self, "by", read_by(by, "Count"))

    def own(self) -> tuple[Feature, ...]:
        return self.features or (ONE,)

    def labels(self, schema: Schema) -> tuple[str, ...]:
        group_cells(self.by, checked_schema(schema))
        return tuple(f"{group}: count" for group in self.groups(schema))

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return (Fraction(1),) * group_cells(self.by, checked_schema(schema)).size

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        return settled_counts(self, schema, guarantee, mechanism, given_weights(self.default_weights(schema), weights))

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        own = self.in_group(rows.schema).features
        return rows.group_sums(own, group_cells(self.by, rows.schema), unit_lattice(1))


def grouped(kind: str, features: Sequence[object], by: object) -> GroupedMean | GroupedSum | GroupedCount:
    """The grouped statistic of a kind."""
    kinds: dict[str, Callable[..., GroupedMean | GroupedSum | GroupedCount]] = {
        "mean-by": GroupedMean,
        "sum-by": GroupedSum,
        "count-by": GroupedCount,
    }
    return kinds[kind](*features, by=by)
