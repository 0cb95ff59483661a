"""Numbers as people read them: as many digits as the interval warrants, and no more.

The spread decides: an interval from 49.4 to 51.1 is told with one decimal, one from 12 100 to 13 600 in hundreds: two
digits of its width. A number without a spread gets four digits; where an interval spans orders of magnitude (90 to
500 000) a number that would be told as 0 gets two of its own.
"""

from __future__ import annotations

import math
from typing import Protocol

__all__ = ["decimals_of", "interval_words", "number_words", "percent"]

WIDTH_DIGITS = 2
FEWEST, MOST = -30, 30  # decimals
ORDERS = 100.0  # from an end to the other


class Told(Protocol):
    """What has an interval."""

    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def sd(self) -> float | None: ...
    @property
    def level(self) -> float: ...


def decimals_of(low: float | None, high: float | None, sd: float | None) -> int | None:
    """How many decimals a number is told with, by the width of its interval; None without one."""
    width = high - low if low is not None and high is not None else 3.3 * sd if sd is not None else 0.0
    if not (math.isfinite(width) and width > 0):
        return None
    return min(max(WIDTH_DIGITS - 1 - math.floor(math.log10(width)), FEWEST), MOST)


def number_words(value: float, low: float | None, high: float | None, sd: float | None) -> str:
    """A number with the digits that its interval warrants."""
    decimals = decimals_of(low, high, sd)
    if decimals is None:
        return f"{value:.4g}"
    if abs(value) < 0.5 * 10.0**-decimals and _is_of_orders(low, high):
        decimals = WIDTH_DIGITS - 1 - math.floor(math.log10(abs(value))) if value else decimals
    return with_decimals(value, decimals)


def _is_of_orders(low: float | None, high: float | None) -> bool:
    """Whether an interval on one side of 0 spans orders of magnitude: its lower numbers would all be told as 0."""
    if low is None or high is None or low * high <= 0:
        return False
    near, far = sorted((abs(low), abs(high)))
    return far > ORDERS * near


def with_decimals(value: float, decimals: int) -> str:
    """A number rounded to so many decimals, fewer than none being tens and hundreds."""
    rounded = round(value, decimals) + 0.0
    if abs(rounded) >= 1e9 or (rounded != 0 and abs(rounded) < 1e-4):
        digits = math.floor(math.log10(abs(rounded))) + decimals if rounded else 0
        return f"{rounded:.{min(max(digits, 0), 15)}e}"
    return f"{rounded:.{max(decimals, 0)}f}"


def interval_words(told: Told) -> str:
    """'90 % interval 49.4 to 51.1', 'standard error 0.5', or nothing."""
    if told.low is None or told.high is None:
        return "" if told.sd is None else f"standard error {told.sd:.2g}"
    ends = [number_words(end, told.low, told.high, told.sd) for end in (told.low, told.high)]
    return f"{percent(told.level)} interval {ends[0]} to {ends[1]}"


def percent(share: float) -> str:
    """'90 %'."""
    return f"{100 * share:.4g} %"
