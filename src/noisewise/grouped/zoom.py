"""Finding where a density on a line or a plane is: climb from the best point of a grid, then fit a box around the mass.

A grid over everything may be far coarser than the density is wide, so its best point is only a start. From there five
points on each line are compared, one step apart: the best one becomes the middle, and a step is shortened where the
density falls by more than e within it, as a parabola says, and doubled where it hardly falls, until every step is about
a standard deviation. A box of a few such steps is then fitted by grids: what is beyond its tails is cut off, one grid
step is left on either side, and where there is mass at an edge the box grows again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisewise.grouped.record_moments import Box
from noisewise.types import Array, Floats, Ints

__all__ = ["climbed", "cut", "leans_on", "log_total", "narrowed", "tempered"]

SPREAD = 2.5
MOST_ROUNDS = 40
SETTLED = 0.75  # of a side's length: a box that shrinks by less than this stays
MOST_STEPS = 80
NEAR = np.arange(-2.0, 3.0)
SHORTENED = 4.0  # at most, at once
STEEP, FLAT = 1.0, 0.1  # falls within a step that is too long, and too short
REACH = 5.0  # steps of the first box on either side
WIDE_TAIL = 0.01  # cut off where beta < 1
AT_EDGE = 1e-3  # of the mass, in one grid point: then the box ends too early
MOST_POINTS = 129
BETAS = tuple(0.5**k for k in range(40))


def tempered(log: Floats) -> tuple[float, Floats]:
    """beta, and the shares of a grid's points (its shape) under the density to the power of beta."""
    safe = np.where(np.isfinite(log), log, -1e300)
    top = safe.max()
    for beta in BETAS:
        with np.errstate(under="ignore"):
            share = np.exp(beta * (safe - top))
        share = share / share.sum()
        wide = [_effective(marginal(share, axis)) >= min(SPREAD, 0.5 * share.shape[axis]) for axis in range(log.ndim)]
        if all(wide):
            return beta, share
    return 0.0, np.full(log.shape, 1 / log.size)


def marginal(share: Floats, axis: int) -> Floats:
    """Shares along one line."""
    return np.asarray(share.sum(axis=tuple(k for k in range(share.ndim) if k != axis)))


def _effective(weight: Floats) -> float:
    return float(1 / np.square(weight).sum())


def cut(weight: Floats, grid: Array | Ints, tail: float) -> tuple[float, float]:
    """The ends of a grid without its tails, one step left on either side."""
    upto = np.cumsum(weight) / weight.sum()
    first = int(np.searchsorted(upto, tail))
    last = int(np.searchsorted(upto, 1 - tail))
    return float(grid[max(first - 1, 0)]), float(grid[min(last + 1, grid.size - 1)])


def climbed(log_density: Callable[[list[Floats]], Floats], box: Box, sizes: tuple[int, ...]) -> Box:
    """A box of a few standard deviations around the mode that the best point of a grid leads to."""
    grids = [np.linspace(low, high, size) for (low, high), size in zip(box, sizes, strict=True)]
    log = log_density(grids)
    best = np.unravel_index(int(np.argmax(np.where(np.isfinite(log), log, -np.inf))), log.shape)
    middle = np.array([grid[k] for grid, k in zip(grids, best, strict=True)])
    step = np.array([grid[1] - grid[0] for grid in grids])
    low, high = np.array(box).T
    longest = (high - low) / 6
    for _ in range(MOST_STEPS):
        local = [np.clip(m + h * NEAR, a, b) for m, h, a, b in zip(middle, step, low, high, strict=True)]
        log = log_density(local)
        log = np.where(np.isfinite(log), log, -1e300)
        best = np.unravel_index(int(np.argmax(log)), log.shape)
        centre = (2,) * log.ndim
        if log[best] > log[centre]:
            middle = np.array([grid[k] for grid, k in zip(local, best, strict=True)])
            continue
        falls = np.array([_fall(log, axis) for axis in range(log.ndim)])
        longer = (falls < FLAT) & (step < longest)
        if not (longer | (falls > STEEP)).any():
            break
        shorter = step / np.clip(np.sqrt(2 * falls), 1.5, SHORTENED)
        step = np.where(falls > STEEP, shorter, np.where(longer, np.minimum(2 * step, longest), step))
    return tuple(
        (float(max(m - REACH * h, a)), float(min(m + REACH * h, b)))
        for m, h, a, b in zip(middle, step, low, high, strict=True)
    )


def _fall(log: Floats, axis: int) -> float:
    """How far the density falls from the middle to its better neighbour on one line."""
    line = log[tuple(slice(None) if k == axis else 2 for k in range(log.ndim))]
    return max(float(line[2] - max(line[1], line[3])), 0.0)


def narrowed(
    log_density: Callable[[list[Floats]], Floats],
    box: Box,
    sizes: tuple[int, ...],
    *,
    limits: Box,
    tail: float = 1e-5,
) -> Box:
    """The box that holds all but the tails of a density, given as the logarithms (its shape) on grids."""
    points = list(sizes)
    for _ in range(MOST_ROUNDS):
        grids = [np.linspace(low, high, size) for (low, high), size in zip(box, points, strict=True)]
        beta, share = tempered(log_density(grids))
        weights = [marginal(share, axis) for axis in range(len(grids))]
        short = tail if beta == 1.0 else WIDE_TAIL
        cuts = [cut(weight, grid, short) for weight, grid in zip(weights, grids, strict=True)]
        new = tuple(_grown(*parts) for parts in zip(cuts, weights, grids, limits, strict=True))
        change = [(b - a) / (high - low) for (a, b), (low, high) in zip(new, box, strict=True)]
        if beta < 1.0 and min(change) > 0.95 and max(change) <= 1.0:
            points = [min(2 * size, MOST_POINTS) for size in points]
        box = new
        if beta == 1.0 and min(change) > SETTLED and max(change) <= 1.0:
            break
    return box


def _grown(ends: tuple[float, float], weight: Floats, grid: Floats, limit: tuple[float, float]) -> tuple[float, float]:
    """A side whose end holds mass, moved outwards by half its length, but not beyond its limit."""
    low, high = ends
    half = 0.5 * (grid[-1] - grid[0])
    if weight[0] > AT_EDGE and grid[0] > limit[0]:
        low = max(float(grid[0] - half), limit[0])
    if weight[-1] > AT_EDGE and grid[-1] < limit[1]:
        high = min(float(grid[-1] + half), limit[1])
    return low, high


def leans_on(
    log_density: Callable[[list[Floats]], Floats], box: Box, sizes: tuple[int, ...], limits: Box
) -> frozenset[int]:
    """The lines on which a box holds mass right at its limit: the density goes on beyond it."""
    grids = [np.linspace(low, high, size) for (low, high), size in zip(box, sizes, strict=True)]
    log = log_density(grids)
    safe = np.where(np.isfinite(log), log, -1e300)
    with np.errstate(under="ignore"):
        share = np.exp(safe - safe.max())
    share = share / share.sum()
    found = set()
    for axis, (grid, (low, high)) in enumerate(zip(grids, limits, strict=True)):
        weight = marginal(share, axis)
        if (weight[0] > AT_EDGE and grid[0] <= low) or (weight[-1] > AT_EDGE and grid[-1] >= high):
            found.add(axis)
    return frozenset(found)


def log_total(log: Floats, axis: int) -> Floats:
    """log of the sum of exponentials along an axis: -inf, not NaN, where there is nothing."""
    top = np.max(log, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(np.log(np.exp(log - top).sum(axis=axis)) + np.squeeze(top, axis=axis))
