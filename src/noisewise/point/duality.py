"""How far from the best any private estimator can be: a lower bound that holds for all of them.

For prices v_s, every epsilon-private estimator on a path (neighbours s, s + 1) with actions a has
    risk >= sum_s v_s - delta   if   sum_s (c(s, a) - v_s + delta/S) p_s >= 0   for all a and all p in the cone
    |log p_s - log p_(s+1)| <= epsilon,
where c(s, a) = P(s) E[L(g, a) | s]. The smallest such sum over p is found from the last s backwards: p climbs or falls
by e^-epsilon at every step, whichever makes what follows smaller,
    V_S = d_S,   V_s = d_s + min(a V_(s+1), V_(s+1)/a),   and the condition is V_0 >= 0.
The least delta comes by bisection. Prices of a linear program, or of the geometric mechanism, make it small.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from noisewise.populations.parameters import Array

HALVINGS = 60


def lower_bound(costs: Array, prices: Array, epsilon: float) -> float:
    """What no epsilon-private estimator on a path, with these actions, can undercut; costs are c(s, a), (S, M)."""
    reduced = costs - prices[:, None]
    if _is_feasible(reduced, epsilon):
        return float(prices.sum())
    low, high = 0.0, max(float(-reduced.min()), 0.0) * len(prices)  # there no entry is negative
    for _ in range(HALVINGS):
        delta = (low + high) / 2
        if _is_feasible(reduced + delta / len(prices), epsilon):
            high = delta
        else:
            low = delta
    return float(prices.sum()) - high


def least_sums(reduced: Array, epsilon: float) -> Array:
    """V_0 of every action, (M,): the smallest sum_s d_s p_s over the cone with p_0 = 1."""
    a = math.exp(-epsilon)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        least = reduced[-1]
        for row in reduced[-2::-1]:
            least = row + np.where(least >= 0, a * least, least / a)
    return np.asarray(least)


def undercutting(costs: Array, prices: Array, epsilon: float) -> NDArray[np.intp]:
    """Actions, in their order, at which the prices fail most: the lowest points of every stretch with V_0 < 0."""
    sums = least_sums(costs - prices[:, None], epsilon)
    padded = np.concatenate([[np.inf], sums, [np.inf]])
    return np.flatnonzero((sums < 0) & (sums <= padded[:-2]) & (sums <= padded[2:]))


def _is_feasible(reduced: Array, epsilon: float) -> bool:
    return bool(np.all(least_sums(reduced, epsilon) >= 0))
