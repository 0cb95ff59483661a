"""What the gap between two known ranks weighs where records between them are equal.

Lattice points of a private quantile are weighed by w(k) = exp(-rate |k - target|), k records below. Between the ranks
i < j, read at the uniforms u_i < u_j, lie m = j - i - 1 more. Where values are spread out, the gap s_j - s_i is shared
by the ranks i .. j - 1 alike. Where the quantile function jumps at e, u_i < e < u_j, the whole step lies at one rank,
    k = i + Binomial(m, (e - u_i)/(u_j - u_i)),
and where it is flat up to e or from e on (a clamp), what is left of the gap is shared by the ranks on k's other side
alone. Far from the target w changes by many e-folds from i to j, so an average over all ranks would be wrong by as
much. k is read from a uniform by the binomial quantile function; what is left of the uniform within the atom it fell on
is uniform again, and serves the next e in the same gap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner, njit
from noisewise.types import Floats, Ints

__all__ = ["Points", "Shape", "tied_weights"]

NOTHING = 20.0  # logarithms by which a gap may weigh less than others before its ties are passed over


class Shape(NamedTuple):
    """Of a quantile function: a step function's jumps in rising order and heights (E,), or any other's flat ends."""

    jumps: Floats  # ell = logit u
    heights: Floats
    flat: tuple[float, float]  # the ell up to which, and from which on, it is flat


class Points(NamedTuple):
    """The lattice points from low to high, weighed by exp(-rate |k - target|) where k records lie below."""

    low: float
    high: float
    target: float
    rate: float


@inner()
def _binomial(v: float, m: int, share: float) -> tuple[int, float]:
    """The v-quantile of Binomial(m, share), searched from its mode, and where in that atom v lies, in (0, 1)."""
    if m == 0 or share <= 0.0:
        return 0, v
    if share >= 1.0:
        return m, v
    odds = share / (1.0 - share)
    k = min(m, int((m + 1) * share))
    log_ways = math.lgamma(m + 1.0) - math.lgamma(k + 1.0) - math.lgamma(m - k + 1.0)
    chance = math.exp(log_ways + k * math.log(share) + (m - k) * math.log1p(-share))
    below, term, i = 0.0, chance, k
    while i > 0 and term > 1e-18:
        term *= i / ((m - i + 1.0) * odds)
        below += term
        i -= 1
    while k > 0 and v < below:
        chance *= k / ((m - k + 1.0) * odds)
        k -= 1
        below -= chance
    while k < m and v >= below + chance and chance > 1e-18:
        below += chance
        chance *= (m - k) * odds / (k + 1.0)
        k += 1
    return k, min(max((v - below) / max(chance, 1e-300), 1e-12), 1.0 - 1e-12)


@inner()
def _log_of(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


@inner()
def _log_series(nearest: float, count: int, rate: float) -> float:
    """log of the sum of exp(-rate d) over d = nearest, nearest + 1, .. (count of them)."""
    if count <= 0:
        return -math.inf
    share = float(count) if rate * count < 1e-9 else math.expm1(-rate * count) / math.expm1(-rate)
    return -rate * nearest + math.log(share)


@inner()
def _log_mean_weight(first: int, last: int, target: float, rate: float) -> float:
    """log of the mean of w over the ranks from the first to the last."""
    turn = math.floor(target)
    left, right = min(last, turn), max(first, turn + 1)
    down = _log_series(target - left, left - first + 1, rate)
    up = _log_series(right - target, last - right + 1, rate)
    top = max(down, up)
    return top + math.log(math.exp(down - top) + math.exp(up - top)) - math.log(last - first + 1.0)


@inner()
def _log_tail(ell: float, is_below: bool) -> float:
    """log u below the point, log (1 - u) above it."""
    x = -ell if is_below else ell
    return -math.log1p(math.exp(x)) if x < 30.0 else -x


@inner()
def _between(start: float, at: float, end: float, is_below: bool) -> float:
    """(u(at) - u(start))/(u(end) - u(start)) of u = expit, by the tail that is told to full precision."""
    first = _log_tail(start, is_below)
    return math.expm1(_log_tail(at, is_below) - first) / math.expm1(_log_tail(end, is_below) - first)


@njit(cache=True)
def tied_weights(
    values: Floats,
    place: Floats,
    rank: Ints,
    below: int,
    uniform: Floats,
    log_weight: Floats,
    shape: Shape,
    points: Points,
) -> Floats:
    """log of the mean weight of every gap (B, W + 1), where a jump or a flat end lies in it; elsewhere `log_weight`.

    values, place (B, W)   the feature at the nodes, and their ell = logit u
    rank (W,), below       of the nodes; how many of them are below the released point
    uniform (B, W + 1)     one for every gap

    A gap that weighs next to nothing beside those without records between is left as it is.
    """
    jumps, heights, flat = shape
    low, high, target, rate = points
    size, nodes = values.shape
    found = np.empty((size, nodes + 1))
    is_step = jumps.size > 0
    for b in range(size):
        found[b] = log_weight
        weighs = max(_log_of(values[b, 0] - low) + log_weight[0], _log_of(high - values[b, -1]) + log_weight[nodes])
        for g in range(1, nodes):
            if rank[g] - rank[g - 1] == 1:
                weighs = max(weighs, _log_of(values[b, g] - values[b, g - 1]) + log_weight[g])
        edge = 0
        for g in range(1, nodes):
            i, m = rank[g - 1], rank[g] - rank[g - 1] - 1
            start, end = place[b, g - 1], place[b, g]
            rise = values[b, g] - values[b, g - 1]
            if m == 0 or not rise > 0.0:
                continue
            away = max(0.0, i - target, target - i - m)
            if math.log(rise) - rate * away < weighs - NOTHING:
                continue
            v, k, upto = uniform[b, g], 0, 0.0
            if not is_step:
                first, last = i, i + m
                if start < flat[0] < end:
                    upto = _between(start, flat[0], end, g < below)
                    k, v = _binomial(v, m, upto)
                    first = i + k
                if start < flat[1] < end:
                    share = (_between(start, flat[1], end, g < below) - upto) / (1.0 - upto)
                    last = first + _binomial(v, m - k, share)[0]
                if first > i or last < i + m:
                    found[b, g] = _log_mean_weight(first, last, target, rate)
                continue
            while edge < jumps.size and jumps[edge] <= start:
                edge += 1
            total, top = 0.0, -math.inf
            while edge < jumps.size and jumps[edge] < end:
                here = _between(start, jumps[edge], end, g < below)
                more, v = _binomial(v, m - k, (here - upto) / (1.0 - upto))
                k, upto = k + more, here
                log_w = -rate * abs(i + k - target)
                if log_w > top:
                    total *= math.exp(top - log_w)
                    top = log_w
                total += heights[edge] * math.exp(log_w - top)
                edge += 1
            if total > 0.0:
                found[b, g] = top + math.log(total / rise)
    return found
