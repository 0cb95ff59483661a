"""The noise of a sum: lattice step, sensitivity of what is rounded to it, and the law calibrated to that.

scale of component k   Delta_w / (w_k epsilon), or sigma / w_k
step                   from the scale, the range and n (`lattice.sum_step`)
Delta_w as rounded     Delta_w + ||w * step||, or the span of the clamped integers: calibrated to this
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from noisewise.errors import Unsupported
from noisewise.exact import float_above
from noisewise.lattice import Lattice, lattice_for, sum_step, unit_lattice
from noisewise.laws import Law
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import AddedNoise, added_noise
from noisewise.schema import Schema
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.feature import Feature
from noisewise.statistics.protocol import Settled, Statistic
from noisewise.statistics.sensitivity import Sensitivity, checked_weights, norm_above, short_above

Weights = tuple[Fraction, ...]
Range = tuple[float, float, float]
ONE: Weights = (Fraction(1),)


def settled_counts(
    statistic: Statistic, schema: Schema, guarantee: Guarantee, mechanism: str, weights: Weights, *, most: int = 1
) -> Settled:
    """Counts on the whole numbers: nothing is rounded. `most` is what one record can add to a cell."""
    noise = noise_for(statistic, mechanism, weights)
    sensitivity = statistic.sensitivity(schema, norm=noise.norm, weights=weights)
    lattice = unit_lattice(len(weights), most)
    return Settled(weights, calibrated(noise, sensitivity, lattice, guarantee, weights), lattice, sensitivity)


def settled_sums(
    statistic: Statistic,
    schema: Schema,
    guarantee: Guarantee,
    mechanism: str,
    weights: Weights,
    *,
    ranges: Sequence[Range] | None = None,
    rows: int | None = None,
    sensitivity: Sensitivity | None = None,
) -> Settled:
    """Sums of features, each rounded to a step of its own.

    Given are, where they are not those of the features over all records: the ranges of what is summed, how many rows
    are summed, and the sensitivity before the sums are rounded.
    """
    noise = noise_for(statistic, mechanism, weights)
    unrounded = sensitivity or statistic.sensitivity(schema, norm=noise.norm, weights=weights)
    row = statistic.row(schema)
    lattice, rounded = sum_lattice(
        row,
        feature_ranges(row, schema) if ranges is None else ranges,
        schema.largest_n if rows is None else rows,
        scales(noise, unrounded, guarantee, weights),
        unrounded,
        weights,
        is_change_one=schema.is_change_one,
    )
    return Settled(weights, calibrated(noise, rounded, lattice, guarantee, weights), lattice, rounded)


def given_weights(default: Weights, weights: Weights | None) -> Weights:
    """The weights that were asked for, one a component, or those that make every component count the same."""
    return default if weights is None else checked_weights(weights, len(default))


def sum_lattice(
    row: Sequence[Feature],
    ranges: Sequence[Range],
    n: int,
    noise_scales: Sequence[Fraction],
    unrounded: Sensitivity,
    weights: Weights,
    *,
    is_change_one: bool,
) -> tuple[Lattice, Sensitivity]:
    """The lattice of n values in given ranges, and the sensitivity of what is rounded to it."""
    steps = [
        sum_step(scale=scale, n=n, low=low, high=high, error=error)
        for scale, (low, high, error) in zip(noise_scales, ranges, strict=True)
    ]
    lattice = lattice_for(steps, ranges)
    rounded = rounded_sensitivity(
        unrounded,
        lattice,
        weights=weights,
        errors=[rounding(*bounds, step) for bounds, step in zip(ranges, steps, strict=True)],
        extra_steps=[int(feature.has_general_power) for feature in row],
        is_change_one=is_change_one,
    )
    return lattice, rounded


def rounded_sensitivity(
    unrounded: Sensitivity,
    lattice: Lattice,
    *,
    weights: Sequence[Fraction],
    errors: Sequence[float],
    extra_steps: Sequence[int],
    is_change_one: bool,
) -> Sensitivity:
    """The sensitivity of the integers that are summed, never below that of the worst lattice pair.

    `errors` bound the rounding of each feature's evaluation, `extra_steps` is 1 for powers on which engines
    may differ by one step.
    """
    moved = Fraction(1) if is_change_one else Fraction(1, 2)
    slack = [
        w * moved * ((1 + extra) * Fraction(step) + 2 * Fraction(error))
        for w, step, error, extra in zip(weights, lattice.step, errors, extra_steps, strict=True)
    ]
    spans = [
        w * Fraction(step) * (high - low if is_change_one else max(abs(low), abs(high)))
        for w, step, low, high in zip(weights, lattice.step, lattice.low, lattice.high, strict=True)
    ]
    with_slack = unrounded.value + norm_above(slack, unrounded.norm)
    value = min(with_slack, norm_above(spans, unrounded.norm))
    return Sensitivity(value, min(unrounded.attained, float(value)), unrounded.norm, unrounded.argument)


def rounding(low: float, high: float, error: float, step: float) -> float:
    """What separates the lattice value from the exact one beyond half a step: the rounding of the feature, of its
    declared range (hence twice), and of v/step + 1/2."""
    return 2 * error + 2.0**-52 * (max(abs(low), abs(high)) + step)


def scales(noise: AddedNoise, sensitivity: Sensitivity, guarantee: Guarantee, weights: Weights) -> list[Fraction]:
    """The noise scale of each component's sum; a statistic that nobody moves is refused."""
    if sensitivity.value <= 0:
        raise Unsupported(
            "No record can move this statistic within the declared bounds, so it tells nothing: change its features' "
            "limits (clip, between) or the schema's bounds. Nothing was spent."
        )
    base = noise.scale(short_above(sensitivity.value), guarantee)
    return [base / weight for weight in weights]


def calibrated(
    noise: AddedNoise, sensitivity: Sensitivity, lattice: Lattice, guarantee: Guarantee, weights: Weights
) -> Law:
    """The noise law for a sensitivity on a lattice; noise in which every record rounds to nothing is refused."""
    if sensitivity.value <= 0:
        raise Unsupported(
            f"{guarantee} asks for noise so large that every record is rounded to the same lattice point, so it tells "
            "nothing: ask for less privacy. Nothing was spent."
        )
    scale = tuple(float_above(value) for value in scales(noise, sensitivity, guarantee, weights))
    return noise.law(scale, lattice.step, guarantee)


def noise_for(statistic: Statistic, mechanism: str, weights: Weights) -> AddedNoise:
    """The noise of a mechanism, refused where it hides one number and there are more."""
    noise = added_noise(mechanism)
    if len(weights) > 1 and not noise.is_for_vectors:
        raise Unsupported(
            f"The mechanism {mechanism!r} hides one number, and {statistic} has {len(weights)} components. Nothing was "
            "spent."
        )
    return noise
