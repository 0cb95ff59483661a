"""The least value of a smooth convex function on a box.

Projected quasi-Newton steps (Bertsekas 1982): coordinates at an end of the box with the slope pointing outward stay;
the others take an L-BFGS step, whose first guess of the curvature is a diagonal that the caller knows, and are cut to
the box; the step is halved until the value falls enough. It ends when x - cut(x - slope) is small in every coordinate.
L-BFGS-B, which searches along the bent gradient path and has no such diagonal, takes 1.2 to 7 times as long for the
duals of `collective` (`benchmarks/graphical.py` solves some by both; hundreds of coordinates, epsilon from 0.05 to 5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisewise.types import Floats

__all__ = ["LowestPoint", "least"]

MEMORY = 12
HALVINGS = 40
ROUNDING = 1e-14  # of the value: differences below this are not seen


@dataclass(frozen=True, slots=True, eq=False)
class LowestPoint:
    x: Floats
    value: float
    steps: int
    settled: bool


def least(
    function: Callable[[Floats], tuple[float, Floats, Floats]],
    start: Floats,
    *,
    reach: float,
    tolerance: float,
    limit: int = 2000,
) -> LowestPoint:
    """The minimum over |x_i| <= reach of a function that gives value, slope and about the diagonal of its curvature."""
    x = np.clip(start, -reach, reach)
    value, slope, curvature = function(x)
    pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
    for step in range(limit):
        if np.max(np.abs(x - np.clip(x - slope, -reach, reach)), initial=0.0) <= tolerance:
            return LowestPoint(x, value, step, True)
        is_free = ~((x <= -reach) & (slope > 0) | (x >= reach) & (slope < 0))
        direction = -_newton(np.where(is_free, slope, 0.0), is_free, pairs, curvature)
        if not direction @ slope < 0:
            pairs.clear()
            direction = np.where(is_free, -slope / curvature, 0.0)
        length = 1.0
        for _ in range(HALVINGS):
            there = np.clip(x + length * direction, -reach, reach)
            found, turned, bent = function(there)
            if found <= value + 1e-4 * (slope @ (there - x)) + ROUNDING * abs(value):
                break
            length /= 2
        else:
            return LowestPoint(x, value, step, False)
        moved, change = there - x, turned - slope
        if moved @ change > 1e-10 * np.linalg.norm(moved) * np.linalg.norm(change):
            pairs.append((moved, change))
        x, value, slope, curvature = there, found, turned, bent
    return LowestPoint(x, value, limit, False)


def _newton(
    slope: Floats, is_free: NDArray[np.bool_], pairs: deque[tuple[Floats, Floats]], curvature: Floats
) -> Floats:
    """Inverse curvature times slope, by the two loops of L-BFGS among the free coordinates (Nocedal 1980)."""
    within = [(moved * is_free, change * is_free) for moved, change in pairs]
    products = [(moved, change, float(moved @ change)) for moved, change in within]
    seen = [triple for triple in products if triple[2] > 0]
    q, parts = slope.copy(), []
    for moved, change, product in reversed(seen):
        parts.append((moved @ q) / product)
        q -= parts[-1] * change
    q /= curvature
    if seen:
        moved, change, product = seen[-1]
        q *= product / float(change @ (change / curvature))
    for (moved, change, product), part in zip(seen, reversed(parts), strict=True):
        q += (part - (change @ q) / product) * moved
    return np.asarray(np.where(is_free, q, 0.0))
