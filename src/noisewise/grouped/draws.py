"""Draws of one group's parameters: the table proposes, the law itself accepts.

A table P[i, u1, u2] of densities (i: sizes in steps, or one where sizes are summed out) proposes u1 from its row, then
u2 from the row at u1, each straight between grid points (`tents`). A pooled parameter has N(u; M, tau^2) as its prior,
with an (M, tau) for each draw; its row is taken at points around the product of that law and the row's own normal
approximation, so that nothing is lost where tau is far below or above a grid step. A few turns of
    accept u' instead of u with probability min{1, pi(u') q(u) / pi(u) q(u')},      pi the law itself,
leave draws that are those of pi, and not of the table: how often a proposal is accepted says how near the table was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.grouped.tents import draw_tents, interpolated
from noisewise.types import Array, Floats

__all__ = ["Pool", "Slices", "settled_draws"]

WINDOW, REACH = 41, 6.5  # points, and standard deviations, of a pooled parameter's row
Pool = tuple[Floats, Floats]  # M and tau, one for each draw


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Densities of u at each size (or at one, where sizes are summed out), normalised row by row."""

    grids: tuple[Floats, ...]
    first: Floats  # (N, K1): of u1
    second: Floats | None  # (N, K1, K2): of u2 given u1

    @classmethod
    def of(cls, grids: Sequence[Floats], log: Floats) -> Slices:
        """From logarithms (N, K1) or (N, K1, K2)."""
        safe = np.where(np.isfinite(log), log, -np.inf)
        top = np.max(safe, axis=tuple(range(1, log.ndim)), keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(under="ignore"):
            density = np.exp(safe - top)
        second = None
        if log.ndim == 3:
            # Of a row without any mass nothing is known: it is taken as that of all rows together.
            whole = density.sum(axis=1, keepdims=True)
            row = density + 1e-12 * whole / np.maximum(whole.sum(axis=2, keepdims=True), 1e-300)
            total = row.sum(axis=2, keepdims=True)
            flat = np.full_like(row, 1.0 / row.shape[2])
            second = np.where(total > 0, row / np.where(total > 0, total, 1.0), flat)
            density = density.sum(axis=2)
        total = density.sum(axis=1, keepdims=True)
        first = np.where(total > 0, density / np.where(total > 0, total, 1.0), 1.0 / density.shape[1])
        return cls(tuple(grids), first, second)

    def propose(self, rng: np.random.Generator, at: Floats, pools: Sequence[Pool | None]) -> tuple[Floats, Floats]:
        """u (S, p) and its log-density, at places `at` (S,) among the sizes."""
        i, share = _between(at, len(self.first))
        rows = (1 - share) * self.first[i] + share * self.first[np.minimum(i + 1, len(self.first) - 1)]
        u1, log_q = _drawn(rng, rows, self.grids[0], pools[0])
        if self.second is None:
            return u1[:, None], log_q
        grid = self.grids[0]
        j, part = _between((u1 - grid[0]) / (grid[1] - grid[0]), grid.size)
        rows = np.zeros((len(u1), self.grids[1].size))
        for di, wi in ((0, 1 - share), (1, share)):
            for dj, wj in ((0, 1 - part), (1, part)):
                rows += (
                    wi * wj * self.second[np.minimum(i + di, len(self.first) - 1), np.minimum(j + dj, grid.size - 1)]
                )
        u2, more = _drawn(rng, rows, self.grids[1], pools[1])
        return np.stack([u1, u2], axis=1), log_q + more


def _between(at: Array, count: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats]:
    """Whole place and the share of the next one (S, 1)."""
    at = np.clip(np.asarray(at, dtype=float), 0, count - 1)
    low = np.minimum(at.astype(np.int64), max(count - 2, 0))
    return low, (at - low)[:, None]


def _drawn(rng: np.random.Generator, rows: Floats, grid: Floats, pool: Pool | None) -> tuple[Floats, Floats]:
    """One draw for each row of densities on a grid, times a normal law where there is one."""
    h = grid[1] - grid[0]
    if pool is None:
        return draw_tents(rng, rows, grid[0], np.full(len(rows), h))
    total = np.maximum(rows.sum(axis=1), 1e-300)
    mean = rows @ grid / total
    variance = np.maximum(rows @ np.square(grid) / total - mean**2, 0.05 * h * h)
    centre, tau = pool
    precision = 1 / variance + 1 / tau**2
    middle = (mean / variance + centre / tau**2) / precision
    sd = precision**-0.5
    step = 2 * REACH * sd / (WINDOW - 1)
    first = middle - REACH * sd
    points = first[:, None] + step[:, None] * np.arange(WINDOW)
    own = interpolated(rows, (points - grid[0]) / h, is_extended=True)
    z = (points - centre[:, None]) / tau[:, None]
    log_w = np.log(np.maximum(own, 1e-300)) - 0.5 * z * z
    with np.errstate(under="ignore"):
        return draw_tents(rng, np.exp(log_w - log_w.max(axis=1, keepdims=True)), first, step)


def settled_draws(
    propose: Callable[[], tuple[Floats, Floats]],
    target: Callable[[Floats], Floats],
    rng: np.random.Generator,
    turns: int,
) -> tuple[Floats, float]:
    """Draws after `turns` turns of accepting proposals by the law itself, and the share that was accepted."""
    now, log_q = propose()
    weight = target(now) - log_q
    taken = 0.0
    for _ in range(turns):
        new, log_q = propose()
        with np.errstate(invalid="ignore"):
            fresh = target(new) - log_q
            better = np.log(rng.random(len(now))) < fresh - weight
        is_new = (better | ~np.isfinite(weight)) & np.isfinite(fresh)
        now = np.where(is_new[:, None], new, now)
        weight = np.where(is_new, fresh, weight)
        taken += float(is_new.mean())
    return now, taken / max(turns, 1)
