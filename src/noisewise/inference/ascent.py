"""The highest point of a function of few numbers, from several starts: damped Newton steps by differences.

At each step gradient and Hessian come from one batch of central differences, with steps of a share of the length over
which the function falls by a half (1/sqrt|h_jj|). The direction is the saddle-free Newton one, V |L|^-1 V' g with
-H = V L V', never longer than a few prior widths; a batch of its multiples is tried at once and the best is kept.
Starts are the best of many points that lie apart, so that what one of them misses another finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.types import Bools, Floats

__all__ = ["Climb", "climbed", "separate_starts"]

Function = Callable[[Floats], Floats]  # positions (K, d) to values (K,), -inf where there is none
MOST_STEPS, MOST_STARTS, APART = 60, 8, 0.5
LONGEST = 3.0  # of a step, in widths
SHARES = np.array([2.0, 1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6])
IDLE = 1e-7  # of the value: no rise worth a step
SETTLED = 1e-5  # of the gradient, in standard errors
SMALLEST_STEP, SMOOTH, ROUGH = 1e-6, 0.02, 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Climb:
    """Where a climb ended: position, value, gradient and the negative Hessian there, over the free coordinates."""

    position: Floats
    value: float
    gradient: Floats  # (d,), 0 where a coordinate is held
    information: Floats  # (d, d), minus the Hessian; 0 in rows and columns that are held

    def is_beside(self, other: Climb) -> bool:
        """Whether another place is on the slope of this top: half a standard error away, and hardly lower."""
        away = other.position - self.position
        return abs(self.value - other.value) < 0.3 and 0 <= float(away @ self.information @ away) < 0.25

    def distance(self, held: Bools) -> float:
        """The gradient in standard errors: how far the top still is."""
        free = np.flatnonzero(~held)
        if not free.size:
            return 0.0
        inner = self.information[np.ix_(free, free)]
        step = np.linalg.lstsq(inner, self.gradient[free], rcond=1e-10)[0]
        return math.sqrt(max(float(self.gradient[free] @ step), 0.0))


def separate_starts(points: Floats, values: Floats, widths: Floats) -> Floats:
    """The best of some points, and then the best of those that lie apart from all taken before."""
    order = [int(k) for k in np.argsort(-values, kind="stable") if np.isfinite(values[k])]
    taken: list[int] = []
    for k in order:
        if len(taken) >= MOST_STARTS:
            break
        gaps = np.max(np.abs(points[np.array(taken, int)] - points[k]) / widths, axis=1)
        if np.all(gaps > APART):
            taken.append(k)
    return np.asarray(points[taken])


def climbed(
    function: Function,
    start: Floats,
    widths: Floats,
    held: Bools,
    *,
    is_rough: bool = False,
    known: Sequence[Climb] = (),
    most_steps: int = MOST_STEPS,
) -> Climb:
    """The top that a start leads to; coordinates that are held stay where they are.

    A climb that comes close to a top that is `known` ends there.
    """
    position, lengths = start.copy(), np.array(widths, np.float64)
    share = ROUGH if is_rough else SMOOTH
    here, idle = _looked(function, position, share * lengths, held), 0
    for _ in range(most_steps):
        if (top := next((one for one in known if one.is_beside(here)), None)) is not None:
            return top
        diagonal = np.diag(here.information)
        sharp = np.where(np.abs(diagonal) > 0, 1 / np.sqrt(np.maximum(np.abs(diagonal), 1e-300)), widths)
        lengths = np.clip(sharp, SMALLEST_STEP * widths, widths)
        step = _step(here, widths, held)
        tried = position + SHARES[:, None] * step
        values = function(tried)
        best = int(np.argmax(values))
        is_better = values[best] > here.value
        idle = 0 if values[best] - here.value > IDLE else idle + 1
        if is_better:
            position = tried[best]
        here = _looked(function, position, share * lengths, held)
        if here.distance(held) < SETTLED or (not is_better and here.distance(held) < np.sqrt(SETTLED)):
            break
        if idle >= 2:  # it hardly rises: a top, or a plain that leads to an end of the support
            break
    return here


def _step(here: Climb, widths: Floats, held: Bools) -> Floats:
    """The saddle-free Newton step, in widths so that flat directions are not divided by nothing."""
    free = np.flatnonzero(~held)
    step = np.zeros_like(here.position)
    if not free.size:
        return step
    scale = widths[free]
    curvature, gradient = here.information[np.ix_(free, free)] * np.outer(scale, scale), here.gradient[free] * scale
    values, vectors = np.linalg.eigh(curvature)
    along = vectors.T @ gradient
    lengths = along / np.maximum(np.abs(values), 1e-8 + 0.1 * np.abs(along))  # at most ten widths along any of them
    move = vectors @ lengths
    longest = np.max(np.abs(move))
    step[free] = scale * move * min(1.0, LONGEST / longest if longest > 0 else 1.0)
    return step


def _looked(function: Function, position: Floats, steps: Floats, held: Bools) -> Climb:
    """Value, gradient and information at a position by central differences, all asked for at once."""
    size, free = len(position), np.flatnonzero(~held)
    moves = np.diag(steps)
    pairs = [(i, j) for a, i in enumerate(free) for j in free[a + 1 :]]
    rows = [np.zeros(size)]
    rows += [sign * moves[i] for i in free for sign in (1, -1)]
    rows += [one * moves[i] + two * moves[j] for i, j in pairs for one, two in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    values = function(position + np.array(rows))
    top, single = values[0], values[1 : 1 + 2 * len(free)].reshape(-1, 2)
    gradient, information = np.zeros(size), np.zeros((size, size))
    with np.errstate(invalid="ignore"):
        for k, i in enumerate(free):
            up, down = single[k]
            gradient[i] = (up - down) / (2 * steps[i])
            information[i, i] = -(up - 2 * top + down) / steps[i] ** 2
        for k, (i, j) in enumerate(pairs):
            both = values[1 + 2 * len(free) + 4 * k : 5 + 2 * len(free) + 4 * k]
            mixed = -(both[0] - both[1] - both[2] + both[3]) / (4 * steps[i] * steps[j])
            information[i, j] = information[j, i] = mixed
    lost = ~np.isfinite(information)
    return Climb(position, float(top), np.where(np.isfinite(gradient), gradient, 0.0), np.where(lost, 0.0, information))
