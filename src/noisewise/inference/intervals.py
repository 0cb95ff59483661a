"""Credible intervals from draws.

Equal-tailed: the quantiles (1 - level)/2 and (1 + level)/2. Shortest ("hpd"): the narrowest interval between two
order statistics that holds a share `level` of the draws; for a density with one mode, the region of highest density.
"""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.printable import shown
from noisewise.types import Floats

__all__ = ["KINDS", "checked_level", "equal_tailed", "interval_of", "shortest"]

KINDS = ("equal-tailed", "hpd")


def checked_level(level: object) -> float:
    """A probability strictly between 0 and 1."""
    is_number = isinstance(level, Real) and not isinstance(level, bool)
    if not is_number or not 0 < level < 1:  # type: ignore[operator]
        raise InvalidArgument(
            f"level = {shown(level, 40)}: an interval holds a share of the posterior between 0 and 1, such as 0.9.",
            argument="level",
        )
    return float(level)  # type: ignore[arg-type]


def interval_of(draws: Floats, level: float, kind: str) -> tuple[Floats, Floats]:
    """(low, high) over the first axis of draws (M, ...), by the kind of interval."""
    if kind not in KINDS:
        raise InvalidArgument(f"kind = {shown(kind, 40)}: it is {' or '.join(map(repr, KINDS))}.", argument="kind")
    return equal_tailed(draws, level) if kind == "equal-tailed" else shortest(draws, level)


def equal_tailed(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """As much probability on the left as on the right."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.asarray(low), np.asarray(high)


def shortest(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """The narrowest interval between order statistics that holds the level."""
    ordered = np.sort(draws, axis=0)
    count = len(ordered)
    inside = min(count, max(1, math.ceil(level * count)))
    widths = ordered[inside - 1 :] - ordered[: count - inside + 1]
    start = np.argmin(widths, axis=0)
    low = np.take_along_axis(ordered, start[None, ...], axis=0)[0]
    high = np.take_along_axis(ordered, start[None, ...] + inside - 1, axis=0)[0]
    return np.asarray(low), np.asarray(high)
