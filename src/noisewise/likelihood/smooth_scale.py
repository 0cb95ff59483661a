"""The smooth sensitivity of many simulated data sets at once (for likelihoods; never of records).

For the order statistic c of rank m, with up_0 = down_0 = c, ranks above and below it up_b, down_a, and w = e^(-beta .):
    S = max over (a, b) != (0, 0) of e^beta w_a w_b (up_b - down_a)          (Nissim, Raskhodnikova & Smith 2007)
The lines x -> w_b (up_b - x) rise in b more and more flatly, so their upper envelope is a stack, built in one pass; as
a grows, x = down_a falls and the best line moves down the stack: all pairs cost no more than all ranks.
Ranks too far to matter are not even computed: none beyond e^(-beta (k-1)) (high - low) <= best so far can win.

Two sources of ranks: sorted data sets (`of_sorted`), or `Window`s, where ranks far from m are *thinned* to every 48th
part of their distance. Thinning lowers S by a few parts in a thousand at most: near the best rank k ~ 1/beta the
envelope is flat, and the ranks between two neighbours of the thinned list stray by half the root of their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.types import Floats

Whole = NDArray[np.int64]
THINNING = 48
STEEPEST = 60.0


@dataclass(frozen=True)
class Side:
    """The distances from rank m at which one side is looked at; the last is the end of the range if `has_end`."""

    size: int  # how many of the n records lie on this side
    distance: Whole
    has_end: bool

    @classmethod
    def of(cls, size: int, reach: int) -> Side:
        """Every rank near m, then ever fewer; the end of the range stands at distance size + 1."""
        furthest, found, k = min(size, reach), [], 0
        while k < furthest:
            k = min(furthest, k + max(1, k // THINNING))
            found.append(k)
        has_end = size < reach
        return cls(size, np.array([*found, size + 1] if has_end else found, dtype=np.int64), has_end)

    @property
    def n_ranks(self) -> int:
        """The number of random ranks: all distances but the end of the range."""
        return len(self.distance) - self.has_end

    @cached_property
    def steps(self) -> tuple[Whole, Whole]:
        """(p, q) with the ratio of successive uniform spacings to the end ~ Beta(p, q), all independent."""
        distance = self.distance[: self.n_ranks]
        q = np.diff(distance, prepend=0)
        return self.size - distance + 1, q

    def weights(self, beta: float) -> Floats:
        """w_k of rank m itself and of each distance."""
        return np.exp(-steep(beta) * np.append(0, self.distance))


def of_sorted(values: Floats, *, rank: int, low: float, high: float, beta: float) -> Floats:
    """S of each sorted row of values (M, n), as the holder would compute it, up to rounding."""
    found: Floats = _of_sorted(np.ascontiguousarray(values), rank, low, high, steep(beta))
    return found


def steep(beta: float) -> float:
    """beta, or a value so large that one rank further counts for less than the floor of any lattice (2^-30)."""
    return min(beta, STEEPEST)


@njit(cache=True)
def discounted_gap(up: Floats, up_weight: Floats, n_up: int, down: Floats, down_weight: Floats, n_down: int) -> float:
    """max over a < n_down, b < n_up of up_weight[b] down_weight[a] (up[b] - down[a]), by an envelope of lines."""
    stack = np.empty(n_up, dtype=np.int64)
    top = -1
    for b in range(n_up):
        w, c = up_weight[b], up_weight[b] * up[b]
        while top >= 1:
            w1, w2 = up_weight[stack[top - 1]], up_weight[stack[top]]
            c1, c2 = w1 * up[stack[top - 1]], w2 * up[stack[top]]
            if (c1 - c) * (w1 - w2) > (c1 - c2) * (w1 - w):
                break
            top -= 1
        top += 1
        stack[top] = b
    best = 0.0
    for a in range(n_down):
        x = down[a]
        height = up_weight[stack[top]] * (up[stack[top]] - x)
        while top >= 1:
            below = up_weight[stack[top - 1]] * (up[stack[top - 1]] - x)
            if below < height:
                break
            height = below
            top -= 1
        best = max(best, down_weight[a] * height)
    return best


@njit(cache=True)
def _of_sorted(values: Floats, rank: int, low: float, high: float, beta: float) -> Floats:
    rows, n = values.shape
    n_up, n_down = n - rank + 2, rank + 1  # ranks on each side, rank m itself and the end of the range
    up_weight, down_weight = np.exp(-beta * np.arange(n_up)), np.exp(-beta * np.arange(n_down))
    up, down, found = np.empty(n_up), np.empty(n_down), np.empty(rows)
    lift, width = math.exp(beta), high - low
    for row in range(rows):
        centre = values[row, rank - 1]
        up[0] = down[0] = centre
        best, b, a = 0.0, 1, 1
        while b < n_up and lift * up_weight[b] * width > best:
            up[b] = values[row, rank - 1 + b] if b < n_up - 1 else high
            best = max(best, lift * up_weight[b] * (up[b] - centre))
            b += 1
        while a < n_down and lift * down_weight[a] * width > best:
            down[a] = values[row, rank - 1 - a] if a < n_down - 1 else low
            best = max(best, lift * down_weight[a] * (centre - down[a]))
            a += 1
        found[row] = max(best, lift * discounted_gap(up, up_weight, b, down, down_weight, a))
    return found
