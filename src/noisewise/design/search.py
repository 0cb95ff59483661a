"""The search behind continuous design: how a maximum is found, and how it becomes numbers that people can read.

    line_maximum         points on a line, then a bracketed search between the neighbours of the best (Brent)
    coordinate_maximum   one coordinate at a time, between its neighbours
    simplex_maximum      Nelder & Mead (1965)
    simple_fractions, round_multiples, round_digits, rounded_in_turn      nearby numbers, roundest first
A function that is maximised is on a logarithmic scale, so that differences are relative gains, and may answer -inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from scipy import optimize

Point = tuple[float, ...]
FAR = 1e300  # stands for minus infinity where a search needs a number


def line_maximum(f: Callable[[float], float], points: Sequence[float], *, accuracy: float = 1e-5) -> float:
    """The best x near the best of increasing points; `accuracy` is relative to the distance of its neighbours."""
    values = [f(x) for x in points]
    best = int(np.argmax(values))
    low, high = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    found = optimize.minimize_scalar(
        lambda x: _cost(f(float(x))), bounds=(low, high), method="bounded", options={"xatol": accuracy * (high - low)}
    )
    return float(found.x) if -found.fun > values[best] else float(points[best])


def coordinate_maximum(
    f: Callable[[Point], float], start: Point, ends: tuple[float, float], *, sweeps: int = 20, accuracy: float = 1e-5
) -> Point:
    """Increasing numbers inside `ends`, each moved in turn between its neighbours, until a sweep gains nothing more."""
    at, reached = start, f(start)
    for _ in range(sweeps):
        before = reached
        for k in range(len(at)):
            low, high = (ends[0], *at, ends[1])[k], (ends[0], *at, ends[1])[k + 2]
            margin = 1e-6 * (high - low)
            found = optimize.minimize_scalar(
                lambda x, k=k, at=at: _cost(f((*at[:k], float(x), *at[k + 1 :]))),
                bounds=(low + margin, high - margin),
                method="bounded",
                options={"xatol": 1e-3 * (high - low)},
            )
            if -found.fun > reached:
                at, reached = (*at[:k], float(found.x), *at[k + 1 :]), float(-found.fun)
        if reached - before <= accuracy:
            break
    return at


def simplex_maximum(f: Callable[[Point], float], start: Point, steps: Point, *, accuracy: float = 1e-4) -> Point:
    """The maximum near `start` by Nelder-Mead, in units of `steps`; never worse than the start."""
    scale = np.asarray(steps, dtype=float)
    reached = f(start)

    def cost(z: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return _cost(f(tuple((np.asarray(start) + scale * z).tolist())) - reached)

    corners = np.vstack([np.zeros(len(start)), np.eye(len(start))])
    found = optimize.minimize(
        cost,
        corners[0],
        method="Nelder-Mead",
        options={"initial_simplex": corners, "xatol": accuracy, "fatol": 1e-10, "maxfev": 120 * len(start)},
    )
    return tuple((np.asarray(start) + scale * found.x).tolist()) if found.fun < 0 else start


def simple_fractions(x: float, *, low: float, high: float, largest: int = 40) -> Iterator[Fraction]:
    """The fraction nearest to x for each denominator, simplest first, inside [low, high]."""
    seen = set()
    for denominator in range(1, largest + 1):
        near = Fraction(round(x * denominator), denominator)
        if near > 0 and low <= near <= high and near not in seen:
            seen.add(near)
            yield near


def round_multiples(value: float, *, width: float) -> Iterator[float]:
    """The value rounded to multiples of 5, 2, 1, 0.5, ..., coarsest first, starting from the size of `width`."""
    top = math.floor(math.log10(width))
    for exponent in range(top, top - 8, -1):
        for lead in (5, 2, 1):
            step = Fraction(lead) * Fraction(10) ** exponent
            yield float(round(Fraction(value) / step) * step)


def rounded_in_turn(
    level: Callable[[Point], float], start: Point, *, width: float, tolerance: float, fixed: Point = ()
) -> Point:
    """The numbers rounded one after another, each as far as an equal share of the tolerated loss allows."""
    at, allowed = start, math.log1p(-tolerance) / len(start)
    for k, value in enumerate(start):
        floor = level(at) + allowed
        near = [value] if value in fixed else round_multiples(value, width=width)
        moved = ((*at[:k], other, *at[k + 1 :]) for other in near)
        at = next((other for other in moved if level(other) >= floor), at)
    return at


def round_digits(values: Point) -> Iterator[tuple[Fraction, ...]]:
    """Positive values rounded to one, two, ... significant digits, exactly."""
    for digits in range(1, 7):
        yield tuple(Fraction(f"{value:.{digits - 1}e}") for value in values)


def _cost(value: float) -> float:
    return -value if math.isfinite(value) else FAR
