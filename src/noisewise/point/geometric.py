"""The exact optimum for a statistic that moves by one: geometric noise folded at the ends, then the Bayes action.

    G[s, z] = c_z a^|s - z|,   c_z = (1 - a)/(1 + a),  1/(1 + a) at both ends,   a = e^-epsilon,
    action_z = argmin_a sum_s P(s) G[s, z] E[L(g, a) | s].

**Theorem.** Let neighbouring values of s be s and s + 1, and let E[L(g, a) | s] - E[L(g, a') | s] pass from negative to
positive at most once as s grows, for all a < a'. Then no epsilon-private estimator has a smaller Bayes risk.

*Proof.* By duality it suffices to find prices v_s with sum_s v_s = risk and sum_s (c(s, a) - v_s) p_s >= 0 for every
action a and every p in the cone |log p_s - log p_(s+1)| <= epsilon, where c(s, a) = P(s) E[L(g, a) | s]. Take the v
that makes this 0 for each action_z and column p = G[., z]: it exists, since G is invertible, and sums to the risk. An
extreme p climbs or falls by the factor a at every step, so it is a sum of columns at its peaks minus columns at its
valleys, and the sum above becomes that of the regrets D_z(a) = sum_s (c(s, a) - c(s, action_z)) a^|s - z| >= 0 at the
peaks minus those at the valleys, each times p_z. Actions grow with z. Give each valley y with action_y >= a its next
peak z > y, any other the peak before it; no peak is given twice. It remains that a^-z D_z(a) grows in z where action_z
>= a. From y to y + 1 it grows by at least (a^-2 - 1) sum_{s > y} a^(s - 2y) (c(s, a) - c(s, action_y)), as action_(y+1)
is best for y + 1. That is not negative: the summand changes sign once, from negative to positive, and its sum over
*all* s, with weights a^|s - y|, is the regret D_y(a) >= 0.  QED

Where the loss is ordered (`losses`) and the belief is monotone in the likelihood-ratio order, as for any monotone
function of a proportion, the difference of expected losses changes sign no more often than that of the losses
(Karlin 1968), once. It fails for estimands that rise and fall, for statistics that move by two, and for tables.
For losses that fall with |s - z| the optimality of the geometric mechanism is that of Ghosh, Roughgarden &
Sundararajan (2012). `duality` decides each other case by the same prices.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from noisewise.point.belief import Belief
from noisewise.point.losses import Loss, Squared
from noisewise.populations.parameters import Array

BLOCK = 2**20  # entries of the columns that are held at once
NEGLIGIBLE = 1e-18


class Decisions(NamedTuple):
    """The Bayes action of every output, and the Bayes risk of them all."""

    actions: Array
    risk: float


def log_geometric(size: int, epsilon: float, outputs: NDArray[np.intp]) -> Array:
    """log G[s, z] for s = 0..size-1 and the given z, (S, Z)."""
    distance = np.abs(np.arange(size)[:, None] - outputs[None, :])
    return np.asarray(log_masses(size, epsilon)[outputs] - epsilon * distance)


def log_masses(size: int, epsilon: float) -> Array:
    """log c_z, what a column is scaled by."""
    log_mass = np.full(size, math.log(-math.expm1(-epsilon)) - math.log1p(math.exp(-epsilon)))
    log_mass[[0, -1]] = -math.log1p(math.exp(-epsilon))
    return log_mass


def decide(loss: Loss, belief: Belief, epsilon: float) -> Decisions:
    """The Bayes actions after geometric noise, and their risk: O(S) for squared loss, else O(S^2) by blocks."""
    if isinstance(loss, Squared):
        return _decide_means(belief, epsilon)
    size = len(belief.log_weights)
    actions, risk = np.empty(size), 0.0
    for block in np.array_split(np.arange(size), math.ceil(size * size / BLOCK)):
        log_joint = belief.log_weights[:, None] + log_geometric(size, epsilon, block)
        log_total = logsumexp(log_joint, axis=0)
        given = np.exp(log_joint - log_total)
        matters = given.max(axis=1) > NEGLIGIBLE
        here, given = belief.only(matters), given[matters]
        actions[block] = loss.best_actions(here, given)
        losses = (given * loss.expected(here, actions[block])).sum(axis=0)
        risk += float(np.exp(log_total) @ losses)
    return Decisions(actions, risk)


def _decide_means(belief: Belief, epsilon: float) -> Decisions:
    """Posterior means by two passes: what lies at or before z, and what lies after it, each fading by a per step.

    risk = sum_s P(s) Var(g | s) + sum_s P(s) (m_s - m)^2 - sum_z P(z) (action_z - m)^2, m the prior mean.
    """
    log_weights, mean = belief.log_weights, belief.mean
    before = _faded(log_weights, mean, epsilon)
    after = tuple(part[::-1] for part in _faded(log_weights[::-1], mean[::-1], epsilon))
    log_after = np.append(after[0][1:], -np.inf) - epsilon
    log_total = np.logaddexp(before[0], log_after)
    share = np.exp(log_after - log_total)
    actions = before[1] + share * (np.append(after[1][1:], 0.0) - before[1])
    weights, outputs = np.exp(log_weights), np.exp(log_total + log_masses(len(mean), epsilon))
    centre = float(weights @ mean)
    spread = weights @ (belief.variance + (mean - centre) ** 2) - outputs @ (actions - centre) ** 2
    return Decisions(actions, float(spread))


def _faded(log_weights: Array, mean: Array, epsilon: float) -> tuple[Array, Array]:
    """log sum_{s <= z} P(s) a^(z - s), and the mean under these weights, for every z."""
    log_totals, means = np.empty(len(mean)), np.empty(len(mean))
    log_total, current = -math.inf, 0.0
    for z, (log_weight, value) in enumerate(zip(log_weights.tolist(), mean.tolist(), strict=True)):
        faded = log_total - epsilon
        top = max(faded, log_weight)
        if top > -math.inf:
            log_total = top + math.log(math.exp(faded - top) + math.exp(log_weight - top))
            current += math.exp(log_weight - log_total) * (value - current)
        log_totals[z], means[z] = log_total, current
    return log_totals, means


def prices(loss: Loss, belief: Belief, epsilon: float, actions: Array) -> Array:
    """The v of the theorem: sum_s (c(s, action_z) - v_s) a^|s - z| = 0 for every z, by the tridiagonal inverse."""
    size, a = len(actions), math.exp(-epsilon)
    kernel = np.exp(-epsilon * np.abs(np.subtract.outer(np.arange(size), np.arange(size))))
    paid = np.exp(belief.log_weights)[:, None] * loss.expected(belief, actions)
    target = (kernel * paid).sum(axis=0)
    solved = target * np.where(np.isin(np.arange(size), (0, size - 1)), 1.0, 1 + a * a)
    solved[1:] -= a * target[:-1]
    solved[:-1] -= a * target[1:]
    return np.asarray(solved / -math.expm1(-2 * epsilon))
