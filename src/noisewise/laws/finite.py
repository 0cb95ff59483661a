"""Exact arithmetic on small laws: row-stochastic matrices of Fractions.

Row i is the law of the output when the secret is i. The mechanism is epsilon-DP exactly when, for all neighbouring
rows i, i' and every column j,
    rows[i][j] <= e^epsilon rows[i'][j],
and here that is decided by arithmetic, never by floating point: e^epsilon is enclosed between Fractions that close in
until the comparison is settled (for rational epsilon > 0 it is irrational, so it always is).

Promise: what is built here keeps its epsilon exactly; every rounding goes against us.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from numbers import Rational
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise import exact
from noisewise.errors import InvalidArgument
from noisewise.laws.numbers import Floats, refusal
from noisewise.laws.protocol import NOISES, Form, Law, StatedNoise, register_law, stated, wrong_form

Rows = Sequence[Sequence[Fraction]]
MOST_CELLS = 2**20
LARGEST_EXPONENT = 10**6
LARGEST_DENOMINATOR = 2**64
LONGEST_FRACTION = 4000  # digits: what Python converts between integers and text without being told to
LARGEST_EPSILON = Fraction(1000)  # nothing is built that needs probabilities below e^-1000
FINEST = 40  # epsilon is used up to a factor 1 - 2^-40: about where short fractions stop being short


@register_law
@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """Answer the true cell with probability `keep`, each other cell with (1-keep)/(cells-1)."""

    keep: Fraction
    cells: int
    family: ClassVar[str] = "randomized-response"
    mechanism: ClassVar[str] = "randomized-response"
    form: ClassVar[Form] = Form.CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", _probability(self.keep, "keep"))
        object.__setattr__(self, "cells", exact.integer(self.cells, "cells", minimum=2, maximum=MOST_CELLS))
        if not 0 < self.keep < 1:
            raise refusal("keep", f"keep = {_shown(self.keep)} must lie strictly between 0 and 1")

    @property
    def other(self) -> Fraction:
        """The probability of each answer that is not the true cell."""
        return (1 - self.keep) / (self.cells - 1)

    def rows(self) -> tuple[tuple[Fraction, ...], ...]:
        """The exact matrix P(answer | true), one row a true cell."""
        cells = range(self.cells)
        return tuple(tuple(self.keep if answer == true else self.other for answer in cells) for true in cells)

    def log_pmf(self, answer: ArrayLike, true: ArrayLike) -> Floats:
        answer, true = _index(answer, self.cells, "answer"), _index(true, self.cells, "true")
        return np.where(answer == true, _log(self.keep), _log(self.other))

    def to_dict(self) -> dict[str, object]:
        return {"family": self.family, "keep": str(self.keep), "cells": self.cells}

    def read(self, values: Floats) -> Floats:
        return values

    def share_of_noise(self, due: RandomizedResponse) -> float:
        return float(self.keep <= due.keep)

    def smaller(self, factor: Fraction) -> RandomizedResponse:
        odds = self.keep / self.other / factor
        return RandomizedResponse(odds / (odds + self.cells - 1), self.cells)

    def brief(self) -> str:
        return f"answered truthfully with probability {self.keep}, else any of the other {self.cells - 1} cells"

    def words(self) -> str:
        return f"each record told its true cell with probability {self.keep} (about {float(self.keep):.3f})."


@dataclass(frozen=True, slots=True)
class _Response:
    """Randomized response in its publisher's words."""

    law: RandomizedResponse
    kind: ClassVar[str] = "randomized-response"
    counts_answers: ClassVar[bool] = True

    def settle(
        self, sums: Sequence[Fraction], *, divisor: int, largest: Sequence[Fraction], period: int, is_count: bool
    ) -> tuple[Law, tuple[int, ...]]:
        if is_count or divisor != 1:
            raise stated("randomized response is given by people one by one; its answers are those of Records(...)")
        if len(sums) != self.law.cells or any(value.denominator != 1 or value < 0 for value in sums):
            raise stated(f"of answers in {self.law.cells} cells, publish how many gave each: {self.law.cells} counts")
        if len(largest) != self.law.cells or period < 1:
            raise stated(f"it is stated for {self.law.cells} cells, and the answers have {len(largest)}")
        return self.law, tuple(map(int, sums))

    def some(self, chosen: Sequence[int]) -> StatedNoise:
        raise stated(f"answers in {self.law.cells} cells are not taken apart (asked for {len(chosen)} of them)")

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "keep": str(self.law.keep), "cells": self.law.cells}

    def words(self) -> str:
        return f"randomized response: {self.law.words()}"


def stated_response(*, keep: object, cells: int) -> StatedNoise:
    """The true cell with probability `keep`, each other one equally likely, as a survey states it."""
    return _Response(RandomizedResponse(_probability(keep, "keep"), cells))


NOISES |= {"randomized-response": stated_response}


@register_law
@dataclass(frozen=True, slots=True)
class FiniteLaw:
    """Row s is the exact law of the output index given statistic value s; output j means action j."""

    rows: tuple[tuple[Fraction, ...], ...]
    actions: tuple[float, ...]
    family: ClassVar[str] = "finite"
    mechanism: ClassVar[str] = "finite"
    form: ClassVar[Form] = Form.ACTION
    _log_rows: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", _actions(self.actions))
        object.__setattr__(self, "rows", _stochastic(self.rows, len(self.actions)))
        object.__setattr__(self, "_log_rows", np.array([[_log(p) for p in row] for row in self.rows]))

    def log_pmf(self, output: ArrayLike, true: ArrayLike) -> Floats:
        return np.asarray(
            self._log_rows[_index(true, len(self.rows), "true"), _index(output, len(self.actions), "output")]
        )

    def to_dict(self) -> dict[str, object]:
        rows = [[str(p) for p in row] for row in self.rows]
        return {"family": self.family, "rows": rows, "actions": list(self.actions)}

    def read(self, values: Floats) -> Floats:
        """The action of each output."""
        return np.array([self.actions[int(value)] for value in values])

    def share_of_noise(self, due: FiniteLaw) -> float:
        """1: its plan has checked its rows exactly."""
        return 1.0

    def smaller(self, factor: Fraction) -> FiniteLaw:
        return FiniteLaw(tuple(_sharpened(row, k, factor) for k, row in enumerate(self.rows)), self.actions)

    def brief(self) -> str:
        return "drawn from the estimator's row for the true count"

    def words(self) -> str:
        return f"an estimator with {len(self.actions)} possible outputs."


def cell_law(law: Law) -> RandomizedResponse:
    """The law as randomized response; other forms are refused."""
    if not isinstance(law, RandomizedResponse):
        raise wrong_form(law, Form.CELL)
    return law


def action_law(law: Law) -> FiniteLaw:
    """The law as an estimator's matrix; other forms are refused."""
    if not isinstance(law, FiniteLaw):
        raise wrong_form(law, Form.ACTION)
    return law


def randomized_response(cells: int, epsilon: Fraction) -> RandomizedResponse:
    """k-ary randomized response that keeps epsilon-DP: keep (cells-1)/(1-keep) = E, rational, 1 <= E <= e^epsilon.

    All its probabilities have denominators of at most 2^64, so that an answer costs one 64-bit uniform.
    """
    cells = exact.integer(cells, "cells", minimum=2, maximum=MOST_CELLS)
    epsilon = exact.fraction(epsilon, "epsilon", positive=True)
    others = cells - 1
    # The denominator of (1-keep)/others divides (p + q others), E = p/q; an enormous epsilon is cut to what fits.
    largest_odds = Fraction(LARGEST_DENOMINATOR - others)
    for bits in range(FINEST, 0, -4):
        odds = min(_odds_below(epsilon, bits), largest_odds)
        keep = odds / (odds + others)
        if math.lcm(keep.denominator, ((1 - keep) / others).denominator) <= LARGEST_DENOMINATOR:
            return RandomizedResponse(keep=keep, cells=cells)
    return RandomizedResponse(keep=Fraction(1, cells), cells=cells)


def truncated_geometric(size: int, epsilon: Fraction) -> tuple[tuple[Fraction, ...], ...]:
    """Rows of the geometric mechanism on 0..size-1, its tails folded into the ends: epsilon-DP between adjacent values.

    P(j | i) = c_j a^|i-j|, c_j = 1/(1+a) at both ends and (1-a)/(1+a) between them, a rational and >= e^-epsilon.
    """
    size = exact.integer(size, "size", minimum=2)
    a = 1 / _odds_below(exact.fraction(epsilon, "epsilon", positive=True), FINEST - 10)
    powers = [Fraction(1)]
    for _ in range(1, size):
        powers.append(powers[-1] * a)
    ends, between = 1 / (1 + a), (1 - a) / (1 + a)
    weight = [ends if j in (0, size - 1) else between for j in range(size)]
    return tuple(tuple(weight[j] * powers[abs(i - j)] for j in range(size)) for i in range(size))


def adjacent(size: int) -> list[tuple[int, int]]:
    """Neighbours of a count: rows i and i+1."""
    return [(i, i + 1) for i in range(size - 1)]


def all_pairs(size: int) -> list[tuple[int, int]]:
    """Neighbours of one person's answer: every two rows."""
    return list(combinations(range(size), 2))


def largest_ratio(rows: Rows, neighbours: Iterable[tuple[int, int]]) -> Fraction | float:
    """The largest rows[i][j]/rows[i'][j] over columns j and neighbouring pairs taken both ways; inf beside a zero."""
    if any(p < 0 for row in rows for p in row):
        raise InvalidArgument("rows must not hold negative probabilities.", argument="rows")
    largest = Fraction(1)
    for first, second in neighbours:
        for p, q in zip(rows[first], rows[second], strict=True):
            low, high = (p, q) if p < q else (q, p)
            if low == high:
                continue
            if low == 0:
                return math.inf
            if high > largest * low:
                largest = Fraction(high) / low
    return largest


def satisfies(rows: Rows, neighbours: Iterable[tuple[int, int]], epsilon: Fraction) -> bool:
    """Whether the stochastic matrix `rows` is epsilon-DP between `neighbours`, by exact arithmetic."""
    epsilon = exact.fraction(epsilon, "epsilon", minimum=0)
    if any(sum(row) != 1 for row in rows):
        raise InvalidArgument("every row must sum to exactly 1.", argument="rows")
    ratio = largest_ratio(rows, neighbours)
    return isinstance(ratio, Fraction) and at_most_exp(ratio, epsilon)


def at_most_exp(value: Fraction, x: Fraction) -> bool:
    """Decide value <= e^x exactly."""
    bits = 64
    while exp_lower(x, bits) < value:
        if value > exp_upper(x, bits):
            return False
        bits *= 2
    return True


def exp_lower(x: Fraction, bits: int = 96) -> Fraction:
    """A Fraction <= e^x, within a factor 1 - 2^-bits of it."""
    low, _, shift = exp_interval(x, bits)
    return Fraction(low) * Fraction(2) ** shift


def exp_upper(x: Fraction, bits: int = 96) -> Fraction:
    """A Fraction >= e^x, within a factor 1 + 2^-bits of it."""
    _, high, shift = exp_interval(x, bits)
    return Fraction(high) * Fraction(2) ** shift


def exp_interval(x: Fraction, bits: int) -> tuple[int, int, int]:
    """Integers with low 2^shift <= e^x <= high 2^shift and high - low <= 2^-bits low; e^0 = 1 exactly.

    e^|x| = (e^y)^(2^halvings), y = |x|/2^halvings <= 1/2: Taylor's series of e^y and the squarings are done on
    integers, rounded down for `low` and up for `high`. Each squaring doubles the relative width, hence the guard bits.
    """
    if abs(x) > LARGEST_EXPONENT:
        raise InvalidArgument(
            f"the exponent must lie between -{LARGEST_EXPONENT} and {LARGEST_EXPONENT}.", argument="x"
        )
    if x == 0:
        return 1, 1, 0
    numerator, denominator = abs(x.numerator), x.denominator
    halvings = max(0, numerator.bit_length() - denominator.bit_length() + 2)
    precision = bits + halvings + 16
    low, high = _exp_taylor(numerator, denominator << halvings, precision)
    shift = -precision
    for _ in range(halvings):
        low, high, shift = low * low, high * high, 2 * shift
        excess = low.bit_length() - precision
        low, high, shift = low >> excess, _ceil_divide(high, 1 << excess), shift + excess
    if x < 0:
        one = 1 << (high.bit_length() + precision)
        low, high, shift = one // high, _ceil_divide(one, low), 1 - one.bit_length() - shift
    return low, high, shift


def _exp_taylor(numerator: int, denominator: int, precision: int) -> tuple[int, int]:
    """Bounds of 2^precision e^y for 0 < y = numerator/denominator <= 1/2."""
    y_low = (numerator << precision) // denominator
    y_high = y_low + 1
    low = high = term_low = term_high = 1 << precision
    order = 0
    while term_high > 1:
        order += 1
        term_low = (term_low * y_low >> precision) // order
        term_high = _ceil_divide(term_high * y_high, order << precision)
        low += term_low
        high += term_high
    return low, high + 1  # what is left of the series is below its last term, which is at most 1


def _ceil_divide(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _odds_below(epsilon: Fraction, bits: int) -> Fraction:
    """The simplest Fraction between e^(epsilon (1 - 2^-bits)) and e^epsilon."""
    epsilon = min(epsilon, LARGEST_EPSILON)
    precision = bits + 32 + max(0, -math.floor(math.log2(epsilon)))
    low = exp_upper(epsilon * (1 - Fraction(1, 2**bits)), precision)
    return _simplest_between(low, exp_lower(epsilon, precision))


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The Fraction of smallest denominator in [low, high], 0 < low <= high, by continued fractions."""
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    floor = whole - 1
    return floor + 1 / _simplest_between(1 / (high - floor), 1 / (low - floor))


# ---- what may enter a finite law ----


def _probability(value: object, argument: str) -> Fraction:
    """An exact number in [0, 1]; unlike a budget it may be as small as e^-500 and as long as exact rows need."""
    if isinstance(value, str) and len(value) <= 2 * LONGEST_FRACTION and re.fullmatch(r"\d+/0*[1-9]\d*", value):
        number = _long_fraction(value, argument)
    elif isinstance(value, bool) or not isinstance(value, Rational):
        number = exact.fraction(value, argument)
    else:
        number = Fraction(int(value.numerator), int(value.denominator))
    if not 0 <= number <= 1 or number.denominator >= 10**LONGEST_FRACTION:
        raise refusal(
            argument, f"{argument} must hold probabilities between 0 and 1 of at most {LONGEST_FRACTION} digits"
        )
    return number


def _long_fraction(value: str, argument: str) -> Fraction:
    numerator, denominator = value.split("/")
    if max(len(numerator), len(denominator)) > LONGEST_FRACTION:
        raise refusal(argument, f"{argument} must be written with at most {LONGEST_FRACTION} digits")
    return Fraction(int(numerator), int(denominator))


def _stochastic(rows: object, columns: int) -> tuple[tuple[Fraction, ...], ...]:
    """Rows of exact probabilities, each of one entry per action and sum exactly 1."""
    given = _listed(rows)
    lists = [_listed(row) for row in given or []]
    if given is None or None in lists:
        raise refusal("rows", "rows must be a sequence of sequences of probabilities")
    matrix = tuple(tuple(_probability(p, "rows") for p in row or []) for row in lists)
    if not matrix or any(len(row) != columns for row in matrix):
        raise refusal("rows", f"rows must be given, each with {columns} entries: one per action")
    if any(sum(row) != 1 for row in matrix):
        raise refusal("rows", "every row must sum to exactly 1")
    return matrix


def _listed(value: object) -> list[Any] | None:
    """The entries of a sequence; None for texts, mappings and what is no sequence."""
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return list(value) if is_list else None  # type: ignore[call-overload]


def _index(value: ArrayLike, count: int, argument: str) -> NDArray[np.int64]:
    index = np.asarray(value)
    if index.dtype.kind not in "iu" or np.any((index < 0) | (index >= count)):
        raise refusal(argument, f"{argument} must be whole numbers from 0 to {count - 1}")
    return index.astype(np.int64)


def _shown(p: Fraction) -> str:
    return f"{float(p):.6g}"


def _actions(values: object) -> tuple[float, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise refusal("actions", "actions must be a sequence of numbers, one an output")
    actions = tuple(_action(value) for value in values)
    if not actions:
        raise refusal("actions", "actions must not be empty")
    return actions


def _action(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e200:
        raise refusal(
            "actions",
            "actions must be numbers of at most 1e200 in magnitude, one number for each output; an estimator of "
            "several numbers at once is not released",
        )
    return float(value)


def _log(p: Fraction) -> float:
    """log of an exact probability, of any size."""
    if p == 0:
        return -math.inf
    return math.log1p(-float(1 - p)) if 2 * p > 1 else math.log(p.numerator) - math.log(p.denominator)


def _sharpened(row: Sequence[Fraction], true: int, factor: Fraction) -> tuple[Fraction, ...]:
    """A row with more weight on the true value's own output."""
    heavier = [p / factor if k == true else p for k, p in enumerate(row)]
    return tuple(p / sum(heavier) for p in heavier)
