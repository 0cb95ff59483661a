"""Finding where a density on a line or a plane is: a grid over everything, narrowed to where the mass is.

A grid may be far coarser than the density is wide; its best point alone then has all the mass. So the logarithm is
first multiplied by the largest beta <= 1 at which at least `SPREAD` grid points of every line have a share: a density
as wide as the grid can see, around the same place. What is beyond a tail of that is cut off, one grid step is left on
either side, and the same is done again until beta = 1 and nothing more is cut off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from noisewise.grouped.record_moments import Box
from noisewise.types import Array, Floats

__all__ = ["mesh", "narrowed", "tempered"]

SPREAD = 3.0
MOST_ROUNDS = 25
SETTLED = 0.8  # of a side's length: a box that shrinks by less than this stays
BETAS = tuple(0.5**k for k in range(40))


def mesh(grids: list[Floats]) -> Floats:
    """The points (K, p) of a grid, the last line's changing first."""
    return np.stack([part.ravel() for part in np.meshgrid(*grids, indexing="ij")], axis=1)


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


def cut(weight: Floats, grid: Array, tail: float) -> tuple[float, float]:
    """The ends of a grid without its tails, one step left on either side."""
    upto = np.cumsum(weight) / weight.sum()
    first = int(np.searchsorted(upto, tail))
    last = int(np.searchsorted(upto, 1 - tail))
    return float(grid[max(first - 1, 0)]), float(grid[min(last + 1, grid.size - 1)])


def narrowed(
    log_density: Callable[[list[Floats]], Floats], box: Box, sizes: tuple[int, ...], tail: float = 1e-5
) -> Box:
    """The box that holds all but the tails of a density, given as the logarithms (its shape) on grids."""
    for _ in range(MOST_ROUNDS):
        grids = [np.linspace(low, high, size) for (low, high), size in zip(box, sizes, strict=True)]
        beta, share = tempered(log_density(grids))
        new = tuple(cut(marginal(share, axis), grid, tail) for axis, grid in enumerate(grids))
        shrunk = [(b - a) / (high - low) for (a, b), (low, high) in zip(new, box, strict=True)]
        box = new
        if beta == 1.0 and min(shrunk) > SETTLED:
            break
    return box


def log_total(log: Floats, axis: int) -> Floats:
    """logsumexp that is -inf, not NaN, where there is nothing."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(log, axis=axis))
