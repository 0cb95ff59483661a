"""A matrix that is private by arithmetic, from one that is nearly so.

A solver's matrix breaks its own constraints in the last digits, and a zero beside a positive entry is an infinite
privacy loss. Here entries become whole numbers of units 2^-60, rounded up; each is raised, as little as possible, until
    p[s, j] >= a p[s', j]   for all neighbours s, s' and all j,   with a rational, e^-epsilon <= a <= 1.
Rows then sum to slightly different numbers R_s; u_s = D - R_s more units of one answer make every row sum to D. The
smallest D with a max(u) <= min(u) is taken, so u is private too, and a sum of private columns is private. All
probabilities have the one denominator D, of 61 bits or so: a row costs the drawer one uniform integer.

Promise: max ratio <= 1/a <= e^epsilon and row sums of exactly 1, checked entry by entry before anything is returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from noisewise.laws.finite import LARGEST_EPSILON, at_most_exp, exp_upper
from noisewise.populations.parameters import Array

UNITS = 60  # bits of a probability
Pairs = Sequence[tuple[int, int]]


class ExactRows(NamedTuple):
    """Rows of Fractions that sum to exactly 1, and the largest ratio of neighbouring entries."""

    rows: tuple[tuple[Fraction, ...], ...]
    largest_ratio: Fraction


def exact_rows(matrix: Array, neighbours: Pairs, epsilon: Fraction, *, spare: int) -> ExactRows:
    """Rows next to `matrix` that are exactly epsilon-DP; what is left over goes to column `spare`."""
    epsilon = min(epsilon, LARGEST_EPSILON)
    decay = exp_upper(-epsilon, UNITS + max(0, -math.floor(math.log2(epsilon))))
    columns = [_raised(column, neighbours, decay) for column in _units(matrix).T.tolist()]
    totals = [sum(row) for row in zip(*columns, strict=True)]
    spread = max(totals) - min(totals)
    least = _ceil_times(spread, decay / (1 - decay)) if spread else 0  # a (least + spread) <= least
    whole = max(totals) + least
    columns[spare] = [units + whole - total for units, total in zip(columns[spare], totals, strict=True)]
    rows = list(zip(*columns, strict=True))
    ratio = _largest_ratio(columns, neighbours)
    if any(sum(row) != whole for row in rows) or not at_most_exp(ratio, epsilon):
        raise ArithmeticError("the repaired matrix failed the exact check; this is a fault of the library")
    return ExactRows(tuple(tuple(Fraction(units, whole) for units in row) for row in rows), ratio)


def _largest_ratio(columns: list[list[int]], neighbours: Pairs) -> Fraction:
    """The largest quotient of neighbouring entries of a column, in whole numbers."""
    top, bottom = 1, 1
    for column in columns:
        for one, other in neighbours:
            low, high = sorted((column[one], column[other]))
            if high * bottom > top * low:
                top, bottom = high, low
    return Fraction(top, bottom)


def _units(matrix: Array) -> np.ndarray[tuple[int, int], np.dtype[np.object_]]:
    scaled = np.ceil(np.ldexp(np.clip(matrix, 0.0, 1.0), UNITS))
    return np.array([[int(value) for value in row] for row in scaled], dtype=object).reshape(matrix.shape)


def _raised(column: list[int], neighbours: Pairs, decay: Fraction) -> list[int]:
    """The smallest whole numbers, none below the given ones, of which none is below `decay` times a neighbour."""
    raised, is_settled = list(column), False
    while not is_settled:
        is_settled = True
        for ordered in (neighbours, [pair[::-1] for pair in reversed(neighbours)]):
            for one, other in ordered:
                for low, high in ((one, other), (other, one)):
                    needed = _ceil_times(raised[high], decay)
                    if raised[low] < needed:
                        raised[low], is_settled = needed, False
    return raised


def _ceil_times(units: int, factor: Fraction) -> int:
    return -(-units * factor.numerator // factor.denominator)
