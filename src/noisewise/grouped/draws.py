"""Draws of one group's parameters: the table proposes, the law itself accepts.

A table P[i, u1, u2] of densities (i: sizes in steps, or one where sizes are summed out) proposes u1 from its row, then
u2 from the row at u1, each straight between grid points (`tents`). A pooled parameter has N(u; M, tau^2) as its prior,
with an (M, tau) for each draw; its row is taken at points around the product of that law and the row's own normal
approximation, so that nothing is lost where tau is far below or above a grid step. A few turns of
    accept u' instead of u with probability min{1, pi(u') q(u) / pi(u) q(u')},      pi the law itself,
leave draws that are those of pi, and not of the table: how often a proposal is accepted says how near the table was,
and how many turns are left until nothing of the start is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.compilation import njit
from noisewise.grouped.tents import tent_draw
from noisewise.types import Floats

__all__ = ["Pool", "Slices", "settled_draws"]

WINDOW, REACH = 41, 6.5  # points, and standard deviations, of a pooled parameter's row
LEFT = 5e-3  # of the law, that may still be the table's after the last turn
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
        p = len(self.grids)
        steps = np.array([[grid[0], grid[1] - grid[0]] for grid in self.grids])
        none = np.zeros((0, 2))
        common = [none if pool is None else np.stack(pool, axis=1) for pool in pools]
        second = np.zeros((1, 1, 0)) if self.second is None else self.second
        chance = rng.random((len(at), 3 * p))
        return _proposed(self.first, second, steps, np.asarray(at, np.float64), common[0], common[-1], chance)


@njit(cache=True)
def _proposed(
    first: Floats, second: Floats, steps: Floats, at: Floats, pool: Floats, other: Floats, chance: Floats
) -> tuple[Floats, Floats]:
    """u1 from its row, straight between sizes; u2 from its row, straight between sizes and points of u1."""
    rows, p = len(first), len(steps)
    u, log_q = np.empty((len(at), p)), np.empty(len(at))
    row, weights = np.empty(first.shape[1]), np.empty(max(first.shape[1], second.shape[2], WINDOW))
    row2 = np.empty(second.shape[2])
    for s in range(len(at)):
        i, share = _between(at[s], rows)
        after = min(i + 1, rows - 1)
        for k in range(row.size):
            row[k] = (1 - share) * first[i, k] + share * first[after, k]
        u[s, 0], log_q[s] = _drawn(row, steps[0], pool, s, chance[s, :3], weights)
        if p == 2:
            j, part = _between((u[s, 0] - steps[0, 0]) / steps[0, 1], row.size)
            beyond = min(j + 1, row.size - 1)
            for k in range(row2.size):
                here = (1 - part) * second[i, j, k] + part * second[i, beyond, k]
                there = (1 - part) * second[after, j, k] + part * second[after, beyond, k]
                row2[k] = (1 - share) * here + share * there
            u[s, 1], more = _drawn(row2, steps[1], other, s, chance[s, 3:], weights)
            log_q[s] += more
    return u, log_q


@njit(cache=True)
def _between(at: float, count: int) -> tuple[int, float]:
    """Whole place and the share of the next one."""
    at = min(max(at, 0.0), count - 1.0)
    low = min(int(at), max(count - 2, 0))
    return low, at - low


@njit(cache=True)
def _drawn(row: Floats, grid: Floats, pool: Floats, which: int, chance: Floats, weights: Floats) -> tuple[float, float]:
    """A draw from a row of densities on a grid (its start, its step), times a normal law where there is one."""
    start, h = grid
    if len(pool) == 0:
        return tent_draw(row, start, h, chance)
    total = mean = square = 1e-300
    for k in range(row.size):
        x = start + k * h
        total += row[k]
        mean += row[k] * x
        square += row[k] * x * x
    mean /= total
    variance = max(square / total - mean * mean, 0.05 * h * h)
    centre, tau = pool[which]
    precision = 1 / variance + 1 / (tau * tau)
    middle = (mean / variance + centre / (tau * tau)) / precision
    step = 2 * REACH / np.sqrt(precision) / (WINDOW - 1)
    first = middle - REACH / np.sqrt(precision)
    height = 0.5 * ((middle - centre) / tau) ** 2  # of the normal law's exponent in the middle, where it is left out
    for k in range(WINDOW):
        x = first + k * step
        place, share = _between((x - start) / h, row.size)
        own = (1 - share) * row[place] + share * row[min(place + 1, row.size - 1)]
        z = (x - centre) / tau
        weights[k] = max(own, 1e-300) * np.exp(min(height - 0.5 * z * z, 300.0))
    return tent_draw(weights[:WINDOW], first, step, chance)


def settled_draws(
    propose: Callable[[], tuple[Floats, Floats]],
    target: Callable[[Floats], Floats],
    rng: np.random.Generator,
    most: int,
) -> tuple[Floats, float]:
    """Draws after turns of accepting proposals by the law itself, and the share that was accepted.

    There are at most `most` turns, fewer where so many proposals are accepted that the start is forgotten before.
    """
    now, log_q = propose()
    weight = target(now) - log_q
    taken = 0.0
    for turn in range(1, most + 1):
        new, log_q = propose()
        with np.errstate(invalid="ignore"):
            fresh = target(new) - log_q
            better = np.log(rng.random(len(now))) < fresh - weight
        is_new = (better | ~np.isfinite(weight)) & np.isfinite(fresh)
        now = np.where(is_new[:, None], new, now)
        weight = np.where(is_new, fresh, weight)
        taken += float(is_new.mean())
        # A start off by about the share refused, of which every turn leaves about that share.
        if (1 - taken / turn) ** (turn + 1) < LEFT:
            break
    return now, taken / turn
