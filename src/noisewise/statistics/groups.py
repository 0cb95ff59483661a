"""Statistics by group: one component for each declared level (or pair of levels), all of them in one release.

    Mean(f, by=)   for every group g   (sum 1[g], sum f 1[g], ...)     a group's mean is its sum over its count
    Sum(f, by=)                        (sum f 1[g], ...)
    Count(c, by=)                      (sum c 1[g])

A record lies in exactly one group. Let R_g be the largest ||w_g * (1, f(x))|| of one record, and D_g the distance of
two records within group g (that of the statistic without groups, under the weights of g). A record that is changed
leaves one group *and* enters another, so with the two largest R of two groups

    change-one   max( R_(1) + R_(2) in L1, sqrt(R_(1)^2 + R_(2)^2) in L2,  max_g D_g )
    add-remove   max_g R_g

A feature that reads the group column, as in equals(region, 'north')*income, is another one in every group: it is
taken with the group's own level in place of the column, and R_g and D_g are those of what is left.

Rounding to the lattice moves a record by half a step in each component of its own group only, so the slack of the
whole is that of one group. Groups are declared by the schema's levels: a group nobody is in is released like any other.
Where values may be absent (`presence.py`), a record without a group is in none, and an absent feature adds nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import root_above
from noisewise.lattice import Lattice, lattice_for, sum_step
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import AddedNoise, added_noise
from noisewise.schema import Levels, Schema
from noisewise.statistics.additive import rewritten
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.feature import Feature, as_feature, column_name, constant
from noisewise.statistics.polynomial import is_zero
from noisewise.statistics.presence import ONE as ONE
from noisewise.statistics.presence import (
    PresentRow,
    is_whole,
    left_out_of,
    one_record,
    present_sensitivity,
    where_present,
)
from noisewise.statistics.protocol import Cells, Settled
from noisewise.statistics.sensitivity import Sensitivity, joint_sensitivity, norm_above, sharing
from noisewise.statistics.settling import Weights, calibrated, rounding, scales

MOST_GROUPS = 10_000
MOST_COMPONENTS = 50_000
MOST_COLUMNS = 2
MOST_KINDS = 200  # of groups, in which features are different ones


def read_by(by: object, user: str) -> tuple[str, ...]:
    """The columns of `by=`: one name or feature, or a list of at most two."""
    given = [by] if isinstance(by, str | Feature) else by
    if not isinstance(given, Sequence) or not given:
        raise InvalidArgument(
            f"{user}: by= names a column with levels, or two: by='region', by=['region', 'sex'].", argument="by"
        )
    names = tuple(column_name(one, f"{user}(by=)") for one in given)
    if len(names) > MOST_COLUMNS or len(set(names)) != len(names):
        raise InvalidArgument(f"{user}: by= takes one column or two different ones, not {len(names)}.", argument="by")
    return names


def written_by(by: tuple[str, ...]) -> str:
    """The end of the text of a statistic: `, by=region` or `, by=[region, sex]`."""
    if not by:
        return ""
    names = [str(as_feature(name)) for name in by]
    return f", by={names[0] if len(names) == 1 else '[' + ', '.join(names) + ']'}"


def group_cells(by: tuple[str, ...], schema: Schema) -> Cells:
    """The groups as the cells of a table."""
    for name in by:
        if not isinstance(schema.column(name), Levels):
            raise Unsupported(
                f"by={name!r}: groups need a column with declared levels, and {name!r} is numeric with bounds. Declare "
                f"its groups as levels, or use histogram({name}, [edges]) for counts. Nothing was spent."
            )
    size = math.prod(len(schema.levels(name)) for name in by)
    if size > MOST_GROUPS:
        raise Unsupported(f"by= makes {size} groups, more than {MOST_GROUPS}; use coarser levels. Nothing was spent.")
    return Cells(by, None, size, left_out_of(by, schema))


def group_names(by: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """The groups in words, in the order of the release: `region=north, sex=f`."""
    levels = [[f"{name}={level}" for level in schema.levels(name).levels] for name in by]
    return tuple(", ".join(cell) for cell in itertools.product(*levels))


def short_group_names(by: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """The groups by their levels alone, in the order of the release: `north, f`.

    Where two groups would then be called the same ('a, b' with 'c', and 'a' with 'b, c'), every level is quoted.
    """
    cells = list(itertools.product(*(schema.levels(name).levels for name in by)))
    names = tuple(", ".join(map(str, cell)) for cell in cells)
    if len(set(names)) == len(names):
        return names
    return tuple(", ".join(repr(str(level)) for level in cell) for cell in cells)


def group_row(features: Sequence[Feature], by: tuple[str, ...], schema: Schema) -> tuple[Feature, ...]:
    """Each feature times the indicator of each group, group by group; the feature 1 is the group itself."""
    row, needs = list[Feature](), left_out_of(by, schema)
    for cell in itertools.product(*(schema.levels(name).levels for name in by)):
        inside = math.prod(
            (as_feature(name).equals(level) for name, level in zip(by[1:], cell[1:], strict=True)),
            start=as_feature(by[0]).equals(cell[0]),
        )
        inside = where_present(inside, needs)
        row.extend(inside if feature == ONE else inside * feature for feature in features)
    return tuple(row)


def group_weights(row: PresentRow, by: tuple[str, ...], schema: Schema) -> Weights:
    """Each component to unit size: the largest value that one record can give it, for a record leaves as it comes."""
    own = []
    for feature, (low, high, _) in zip(row.complete, feature_ranges(row.complete, schema), strict=True):
        size = Fraction(max(abs(low), abs(high)))
        if size <= 0 or is_zero(feature):
            raise InvalidArgument(
                f"The feature {feature!s:.200} is 0 for every record, so it tells nothing: leave it out. Nothing was "
                "spent.",
                argument="features",
            )
        own.append(1 / size)
    return tuple(own) * group_cells(by, schema).size


def group_sensitivity(
    row: PresentRow, by: tuple[str, ...], schema: Schema, *, norm: int, weights: Weights
) -> Sensitivity:
    """The joint sensitivity over all groups: see the head of this file.

    Nobody reaches farther than a record with nothing missing, and a record in no group less far than one in another.
    """
    groups, is_told = _kinds(row, by, schema, weights)
    alone, together = (one_record(schema, neighbours) for neighbours in ("add-remove", "change-one"))
    with sharing(len({one.row for one in groups})):
        rows = {one: joint_sensitivity(one.row.complete, alone, norm=norm, weights=one.weights) for one in groups}
        farthest = sorted(
            (rows[one] for one, count in groups.items() for _ in range(min(count, 2))),
            key=lambda found: found.value,
            reverse=True,
        )
        if not schema.is_change_one:
            found = farthest[0]
            attained = min(max(one.attained for one in rows.values()), float(found.value)) if is_told else 0.0
            return Sensitivity(found.value, attained, norm, f"one record in one of the groups; {found.argument}")
        best = Sensitivity(Fraction(0), 0.0, norm, "")
        if len(farthest) > 1:
            value = _joined([one.value for one in farthest[:2]], norm)
            reached = math.fsum(one.attained for one in farthest[:2])
            if norm == 2:
                reached = math.hypot(*(one.attained for one in farthest[:2]))
            argument = "a changed record leaves one group and enters another"
            best = Sensitivity(value, reached, norm, argument)
        for one in groups:
            if one.row.is_complete:
                inside = joint_sensitivity(one.row.complete, together, norm=norm, weights=one.weights)
            else:
                inside = present_sensitivity(one.row, schema, norm=norm, weights=one.weights)
            if inside.value > best.value:
                best = inside
    return replace(best, attained=min(best.attained, float(best.value)) if is_told else 0.0)


def settled_groups(
    row: PresentRow,
    by: tuple[str, ...],
    schema: Schema,
    guarantee: Guarantee,
    mechanism: str,
    weights: Weights,
) -> Settled:
    """Sums by group: a component has the same step in every group, so that one query sums them all."""
    features, noise, size = row.complete, added_noise(mechanism), group_cells(by, schema).size
    _check_size(len(features) * size, noise, mechanism)
    unrounded = group_sensitivity(row, by, schema, norm=noise.norm, weights=weights)
    noise_scales = scales(noise, unrounded, guarantee, weights)
    ranges = [(min(low, 0.0), max(high, 0.0), error) for low, high, error in feature_ranges(features, schema)]
    steps = []
    for k, (low, high, error) in enumerate(ranges):
        own = sum_step(scale=min(noise_scales[k :: len(features)]), n=schema.largest_n, low=low, high=high, error=error)
        steps.append(min(own, 1.0) if is_whole(features[k]) else own)
    inside = lattice_for(steps, ranges)
    lattice = Lattice(inside.step * size, inside.low * size, inside.high * size)
    rounded = _rounded(features, schema, unrounded, inside, ranges, weights)
    return Settled(weights, calibrated(noise, rounded, lattice, guarantee, weights), lattice, rounded)


def _rounded(
    features: Sequence[Feature],
    schema: Schema,
    unrounded: Sensitivity,
    lattice: Lattice,
    ranges: Sequence[tuple[float, float, float]],
    weights: Weights,
) -> Sensitivity:
    """The sensitivity of what is rounded, at most the slack of one group above, at most the spans of two groups."""
    norm, slack, spans, within = unrounded.norm, Fraction(0), [Fraction(0)], Fraction(0)
    moves = []
    for k, feature in enumerate(features):
        step = Fraction(lattice.step[k])
        error = Fraction(rounding(*ranges[k], lattice.step[k]))
        moves.append(Fraction(0) if is_whole(feature) else (1 + feature.has_general_power) * step + 2 * error)
    moved = Fraction(1) if schema.is_change_one else Fraction(1, 2)
    ends = list(zip(lattice.step, lattice.low, lattice.high, strict=True))
    for own, count in _distinct(weights, len(features)).items():
        slack = max(slack, norm_above([w * moved * move for w, move in zip(own, moves, strict=True)], norm))
        sizes = [w * Fraction(step) * max(abs(low), abs(high)) for w, (step, low, high) in zip(own, ends, strict=True)]
        widths = [w * Fraction(step) * (high - low) for w, (step, low, high) in zip(own, ends, strict=True)]
        spans += [norm_above(sizes, norm)] * min(count, 2)
        within = max(within, norm_above(widths, norm))
    largest = sorted(spans, reverse=True)
    span = max(_joined(largest[:2], norm), within) if schema.is_change_one else largest[0]
    value = min(unrounded.value + slack, span)
    return Sensitivity(value, min(unrounded.attained, float(value)), norm, unrounded.argument)


class _Kind(NamedTuple):
    """What groups may have in common: their weights, and what is summed as it is in these groups."""

    weights: Weights
    row: PresentRow


def _kinds(row: PresentRow, by: tuple[str, ...], schema: Schema, weights: Weights) -> tuple[dict[_Kind, int], bool]:
    """The kinds of groups, each once, with the number of groups of it; and whether each is as it is in its groups.

    Where features name too many levels it is not: they are then taken as if any record might be in any group, for a
    bound; where weights are of too many kinds, the largest stand for all. Levels are told apart by their place in the
    schema: '1' is the level 1.
    """
    asked = {node.arguments for feature in row.complete for node in feature.nodes() if node.operation == "equals"}
    named = {name: {schema.levels(name).index(level) for column, level in asked if column == name} for name in by}
    is_told = math.prod(len(places) + 1 for places in named.values()) <= MOST_KINDS
    if not is_told:
        named = {name: set() for name in by}
    size, found = len(row.complete), dict[_Kind, int]()
    known: dict[tuple[int | None, ...], PresentRow] = {}
    for start, cell in enumerate(itertools.product(*(range(len(schema.levels(name))) for name in by))):
        told = tuple(place if place in named[name] else None for name, place in zip(by, cell, strict=True))
        if told not in known:
            places = {name: place for name, place in zip(by, cell, strict=True) if named[name]}
            features, complete = (
                tuple(_within(feature, places, schema) for feature in some) for some in (row.features, row.complete)
            )
            known[told] = PresentRow(features, complete, row.needs)
        kind = _Kind(tuple(weights[start * size : (start + 1) * size]), known[told])
        found[kind] = found.get(kind, 0) + 1
    if len(found) > MOST_KINDS:
        return _heaviest(found), False
    return found, is_told


def _heaviest(groups: Mapping[_Kind, int]) -> dict[_Kind, int]:
    """Groups of different weights as if each had the largest of every component: distances only grow with weights."""
    weights: dict[PresentRow, Weights] = {}
    counts: dict[PresentRow, int] = {}
    for one, count in groups.items():
        known = weights.get(one.row, one.weights)
        weights[one.row] = tuple(map(max, known, one.weights))
        counts[one.row] = counts.get(one.row, 0) + count
    return {_Kind(own, row): counts[row] for row, own in weights.items()}


def _within(feature: Feature, places: Mapping[str, int], schema: Schema) -> Feature:
    """The feature of a record whose group columns have the levels at these places."""

    def known(part: Feature) -> Feature | None:
        name, *level = part.arguments
        if part.operation == "equals" and name in places:
            return constant(int(schema.levels(str(name)).index(level[0]) == places[str(name)]))
        return None if part.columns() & set(places) else part

    return rewritten(feature, known)


def _distinct(weights: Weights, size: int) -> dict[Weights, int]:
    """The weights of the groups, each kind once, with the number of groups that have them."""
    found: dict[Weights, int] = {}
    for start in range(0, len(weights), size):
        own = tuple(weights[start : start + size])
        found[own] = found.get(own, 0) + 1
    return found


def _joined(values: Sequence[Fraction], norm: int) -> Fraction:
    """The norm of moves in different components."""
    return sum(values, Fraction(0)) if norm == 1 else root_above(sum((v * v for v in values), Fraction(0)))


def _check_size(components: int, noise: AddedNoise, mechanism: str) -> None:
    if components > MOST_COMPONENTS:
        raise Unsupported(
            f"by= makes {components} components, more than {MOST_COMPONENTS}; name fewer features or coarser levels. "
            "Nothing was spent."
        )
    if components > 1 and not noise.is_for_vectors:
        raise Unsupported(f"The mechanism {mechanism!r} hides one number, not one for each group. Nothing was spent.")
