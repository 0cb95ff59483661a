"""Sums over records in which values may be missing: `missing="leave-out"`.

A feature is present where all its columns are; an absent one adds nothing. What is summed is

    1[present]   for each set of columns that features need (how many are present is private),     f 1[present]

A record u with the presence pattern P and a record v with the pattern Q differ, in the features that need the same
columns, by w * (f(u) - f(v)) where both are present, and by w * (1, f(u)) where v's are absent. So, for features that
share their columns, directly or through others, and all need the same set of them,

    change-one   max( sup ||w * (f(u) - f(v))||,  sup ||w * (1, f(u))|| )          add-remove   sup ||w * (1, f(u))||

and suprema of features without common columns add (L1), or their squares do (L2). Where features need different sets
of columns, records are searched together with their patterns, as columns of their own (`Schema.completed`), and the
bound is never above that of the sets taken one by one. Under add-remove a record with nothing missing reaches farthest.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from noisewise.errors import InvalidArgument
from noisewise.lattice import lattice_for, sum_step
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Schema, presence_name
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.feature import Feature, as_feature, constant
from noisewise.statistics.protocol import Average, Settled, Statistic
from noisewise.statistics.sensitivity import (
    Sensitivity,
    independent_groups,
    joint_sensitivity,
    norm_above,
    sharing,
)
from noisewise.statistics.settling import (
    Range,
    Weights,
    calibrated,
    noise_for,
    rounded_sensitivity,
    rounding,
    scales,
)

ONE = constant(1)


@dataclass(frozen=True, slots=True)
class PresentRow:
    """What is summed: `features[k]` is `complete[k]` where the columns `needs[k]` are present, and 0 elsewhere."""

    features: tuple[Feature, ...]
    complete: tuple[Feature, ...]
    needs: tuple[tuple[str, ...], ...]

    def ranges(self, schema: Schema) -> list[Range]:
        """The range of each feature, with 0 in it where it may be absent; errors are those of the complete feature."""
        return [
            (min(low, 0.0), max(high, 0.0), error) if needs else (low, high, error)
            for needs, (low, high, error) in zip(self.needs, feature_ranges(self.complete, schema), strict=True)
        ]

    def weights(self, schema: Schema) -> Weights:
        """Each component scaled to unit range (change-one), or to unit size (add-remove)."""
        found = []
        for feature, (low, high, _) in zip(self.complete, self.ranges(schema), strict=True):
            width = Fraction(high) - Fraction(low) if schema.is_change_one else Fraction(max(abs(low), abs(high)))
            if width <= 0:
                raise InvalidArgument(
                    f"The feature {feature!s:.200} is the same for every record, so it tells nothing: leave it out, or "
                    "change its limits (clip, between) or the schema's bounds. Nothing was spent.",
                    argument="features",
                )
            found.append(1 / width)
        return tuple(found)

    @property
    def is_complete(self) -> bool:
        """True where nothing that is summed may be absent."""
        return not any(self.needs)

    def averages(self, group: str = "", start: int = 0) -> tuple[Average, ...]:
        """Each sum over the count of those that it sums, where there is one; components are numbered from `start`."""
        counts = {own: start + k for k, own in enumerate(self.needs) if self.complete[k] == ONE}
        sums = [(k, feature) for k, feature in enumerate(self.complete) if feature != ONE]
        return tuple(
            Average(group, feature, counts[self.needs[k]], start + k) for k, feature in sums if self.needs[k] in counts
        )

    def only(self, places: Sequence[int]) -> PresentRow:
        """Some of its components."""
        return PresentRow(
            tuple(self.features[k] for k in places),
            tuple(self.complete[k] for k in places),
            tuple(self.needs[k] for k in places),
        )


def left_out_of(names: Iterable[str], schema: Schema) -> tuple[str, ...]:
    """Those of some columns whose values may be missing, in the schema's order."""
    wanted = frozenset(names)
    return tuple(name for name in schema.left_out if name in wanted)


def presence(needs: Sequence[str]) -> Feature:
    """1 where all these columns are present, else 0: a feature of the completed schema; no columns are always there."""
    conditions = [as_feature(presence_name(name)).equals(1) for name in needs]
    return functools.reduce(operator.mul, conditions) if conditions else ONE


def where_present(feature: Feature, needs: Sequence[str]) -> Feature:
    """The feature where these columns are present, else 0."""
    if not needs:
        return feature
    return presence(needs) if feature == ONE else Feature("multiply", (feature, presence(needs)))


def present_row(
    features: Sequence[Feature], schema: Schema, *, is_counted: bool = False, is_n_public: bool = True
) -> PresentRow:
    """Each feature where it is present; before them, where asked for, how many have each set of columns they need.

    How many records there are in all is counted only where that is not public.
    """
    needs = tuple(left_out_of(feature.columns(), schema) for feature in features)
    counted = tuple(own for own in dict.fromkeys(needs) if is_counted and (own or not is_n_public))
    complete, every = (*(ONE for _ in counted), *features), (*counted, *needs)
    return PresentRow(tuple(where_present(f, own) for f, own in zip(complete, every, strict=True)), complete, every)


def sum_labels(row: PresentRow) -> tuple[str, ...]:
    """The names of the components; counts are told apart by their columns where there are several."""
    counts = [own for feature, own in zip(row.complete, row.needs, strict=True) if feature == ONE]
    labels = []
    for feature, own in zip(row.complete, row.needs, strict=True):
        if feature != ONE:
            labels.append(f"sum({feature})")
        else:
            which = f"({', '.join(own)})" if len(counts) > 1 else ""
            labels.append(f"count present{which}" if own else "count")
    return tuple(labels)


def present_sensitivity(row: PresentRow, schema: Schema, *, norm: int, weights: Weights) -> Sensitivity:
    """The joint sensitivity of the weighted sums: see the head of this file."""
    if not schema.is_change_one:
        return joint_sensitivity(row.complete, schema, norm=norm, weights=weights)
    groups = independent_groups(row.features)
    if not groups:  # nothing but the number of records, which no change moves
        return Sensitivity(Fraction(0), 0.0, norm, "")
    if len(groups) == 1:
        return _of_group(row.only(groups[0]), schema, norm, tuple(weights[k] for k in groups[0]))
    with sharing(len(groups)):
        found = [_of_group(row.only(group), schema, norm, tuple(weights[k] for k in group)) for group in groups]
    reached = sum(one.attained for one in found) if norm == 1 else math.sqrt(sum(one.attained**2 for one in found))
    value = norm_above([one.value for one in found], norm)
    return Sensitivity(value, min(reached, float(value)), norm, "independent columns; " + found[0].argument)


def _of_group(row: PresentRow, schema: Schema, norm: int, weights: Weights) -> Sensitivity:
    """Features that share columns: all present or all absent, or in patterns that are searched."""
    sets = list(dict.fromkeys(row.needs))
    if len(sets) == 1:
        return _of_one_set(row, schema, norm, weights)
    with sharing(len(sets)):
        alone = []
        for needs in sets:
            places = [k for k, own in enumerate(row.needs) if own == needs]
            alone.append(_of_one_set(row.only(places), schema, norm, tuple(weights[k] for k in places)))
    joined = norm_above([one.value for one in alone], norm)
    searched = joint_sensitivity(row.features, schema.completed(), norm=norm, weights=weights)
    if searched.value <= joined:
        return searched
    reached = max(searched.attained, *(one.attained for one in alone))
    return Sensitivity(joined, min(reached, float(joined)), norm, "each set of columns over its own records")


def _of_one_set(row: PresentRow, schema: Schema, norm: int, weights: Weights) -> Sensitivity:
    """All of them are present or none is: the larger of two present records, and of a present and an absent one."""
    both = joint_sensitivity(row.complete, one_record(schema, "change-one"), norm=norm, weights=weights)
    if not row.needs[0]:
        return both
    alone = joint_sensitivity(row.complete, one_record(schema, "add-remove"), norm=norm, weights=weights)
    if both.value > alone.value:
        return both
    return Sensitivity(alone.value, alone.attained, norm, f"a record becomes absent; {alone.argument}")


def one_record(schema: Schema, neighbours: str) -> Schema:
    """The columns alone: how far one record reaches, or two differ."""
    is_change_one = neighbours == "change-one"
    return Schema(schema.columns, n=1 if is_change_one else None, n_max=None if is_change_one else 1,
                  neighbours=neighbours)  # fmt: skip


def settled_present(
    statistic: Statistic,
    row: PresentRow,
    schema: Schema,
    guarantee: Guarantee,
    mechanism: str,
    weights: Weights,
) -> Settled:
    """Noise and lattice of such sums; counts and conditions are whole numbers, which nothing rounds."""
    noise = noise_for(statistic, mechanism, weights)
    unrounded = statistic.sensitivity(schema, norm=noise.norm, weights=weights)
    ranges, steps = row.ranges(schema), list[float]()
    for k, scale in enumerate(scales(noise, unrounded, guarantee, weights)):
        low, high, error = ranges[k]
        own = sum_step(scale=scale, n=schema.largest_n, low=low, high=high, error=error)
        steps.append(min(own, 1.0) if is_whole(row.features[k]) else own)
    lattice = lattice_for(steps, ranges)
    whole = [is_whole(feature) for feature in row.features]
    rounded = rounded_sensitivity(
        unrounded,
        lattice,
        weights=weights,
        errors=[0.0 if is_exact else rounding(*ranges[k], steps[k]) for k, is_exact in enumerate(whole)],
        extra_steps=[
            -1 if is_exact else int(feature.has_general_power)  # -1: not even the step itself is rounded to
            for is_exact, feature in zip(whole, row.features, strict=True)
        ],
        is_change_one=schema.is_change_one,
    )
    return Settled(weights, calibrated(noise, rounded, lattice, guarantee, weights), lattice, rounded)


def is_whole(feature: Feature) -> bool:
    """True for 0/1 features, which are whole numbers of any step up to 1."""
    return feature == ONE or feature.is_condition
