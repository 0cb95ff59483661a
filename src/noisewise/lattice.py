"""The lattice: fixed-point steps on which sums are exact and noise lives.

Each record's feature is rounded to a public step (a power of two), clamped, and summed as integers, so the sum
does not depend on order, chunking or engine, and the noise is added on the same lattice: no bit of the released
number comes from floating point. For a sum with noise scale b over n records the step is the largest power of two

    step <= min(2^-20 b, 2^-9 b / n)    with    n * range / step < 2^62,

relaxing the second term where needed. Rounding moves a feature by at most step/2 (+ its rounding error), so the
sensitivity of what is actually summed is at most Delta + ||w * step||, or the span of the clamped integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import power_of_two_below

LARGEST_SUM = Fraction(2) ** 62


@dataclass(frozen=True, slots=True)
class Lattice:
    """Per component: the step, and the integers (in steps) between which one record's value lies."""

    step: tuple[float, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]


def unit_lattice(size: int, most: int = 1) -> Lattice:
    """Counts: step 1, one record contributes 0 or 1 (at most its whole weight, in a tied table)."""
    return Lattice((1.0,) * size, (0,) * size, (most,) * size)


def sum_step(*, scale: Fraction, n: int, low: float, high: float, error: float) -> float:
    """The step of a sum of n values in [low, high] that gets noise of the given scale."""
    width, largest = Fraction(high) - Fraction(low), max(abs(Fraction(low)), abs(Fraction(high)))
    coarse = power_of_two_below(scale / 2**20)
    step = min(coarse, power_of_two_below(scale / (2**9 * n)))
    # Below the rounding error of the feature and of floor(v/step + 1/2) a finer step buys nothing.
    finest = max(Fraction(error), largest / 2**48, n * width / LARGEST_SUM + Fraction(1, 2**1000))
    while step < coarse and step < finest:
        step *= 2
    if step < finest:
        raise Unsupported(
            f"The noise scale {float(scale):.3g} is too small beside values up to {float(largest):.3g} over n = {n} "
            "records to be added exactly. Ask for a smaller epsilon, or centre the feature. Nothing was spent."
        )
    return float(step)


def lattice_for(steps: Sequence[float], ranges: Sequence[tuple[float, float, float]]) -> Lattice:
    """The integers each record's features are clamped to, for given steps and feature ranges."""
    pairs = list(zip(steps, ranges, strict=True))
    low = tuple(_nearest(Fraction(bounds[0]) / Fraction(step)) for step, bounds in pairs)
    high = tuple(_nearest(Fraction(bounds[1]) / Fraction(step)) for step, bounds in pairs)
    return Lattice(tuple(steps), low, high)


def entry_steps(ranges: Sequence[tuple[float, float, float]]) -> list[float]:
    """Steps for entries that are summed over a block before products are taken: 2^-30 of each entry's size."""
    if any(low == high == 0 for low, high, _ in ranges):
        raise InvalidArgument(
            "An entry of the averaged rows is 0 for every record within the declared bounds, so it tells nothing: "
            "leave it out, or change its limits (clip, between) or the schema's bounds. Nothing was spent.",
            argument="features",
        )
    return [float(power_of_two_below(Fraction(max(abs(low), abs(high))) / 2**30)) for low, high, _ in ranges]


def _nearest(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))
