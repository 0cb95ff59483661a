"""z = sum of u y, u = ([1,] x), integrated out: the law of the published cross moments given S = sum of u u'.

    z | S, theta, sigma^2 ~ N(S theta, sigma^2 S)   exactly, for covariates of any law, so that
    published = H z + c(S) + N(0, V) ~ N(H S theta + c(S), sigma^2 H S H' + V)

(Alparslan, Yildirim & Birbil 2022, Propositions 1 and 3). H is the identity but where a holder's rows are in units of
its own. theta given the rest is normal, sigma^2 walks on the log scale, and Laplace noise has mixing variances V drawn
given a z that is drawn for the purpose and dropped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.regression.chains import State
from noisewise.regression.conjugate import distance, draw_given_precision, draw_learned_scale, scaled_precision
from noisewise.regression.loadings import Beliefs, Published
from noisewise.regression.normal_product import expected
from noisewise.regression.problem import Floats, Integers, Problem
from noisewise.regression.wishart import dot, draw_mixing_variance, factor, solve, solve_lower

Generator = np.random.Generator


class Laws(NamedTuple):
    """The law of each holder's cross moments, in slots: slot j for holder j as it stands, J + j as it is proposed."""

    residual: Floats  # (2J, K): published - c(S)
    slope: Floats  # (2J, K, q): H S
    base: Floats  # (2J, K, K): H S H'
    lower: Floats  # (2J, K, K): the factor of sigma^2 H S H' + V
    vector: Floats  # (P,) room for S at the pairs
    joint: Floats  # (K, K) room


class Cross(NamedTuple):
    """Which components of each holder are of xx and which of xy, and H."""

    xx: Integers  # (J, K), filled up with zeros
    xy: Integers
    count_xx: Integers  # (J,)
    count_xy: Integers
    carry: Floats  # (J, K, q): H
    has_laplace: bool  # among the components of xy


def laws(data: Published, parts: Cross) -> Laws:
    """Room for the laws of all holders."""
    holders, most = data.observed.shape
    size, q = (2 * holders, most), parts.carry.shape[2]
    return Laws(
        np.zeros(size),
        np.zeros((*size, q)),
        np.zeros((*size, most)),
        np.zeros((*size, most)),
        np.zeros(len(data.pairs)),
        np.zeros((most, most)),
    )


def cross(problem: Problem, published: Published, method: str) -> Cross:
    """Sort the components by the moments they depend on; those of yy are left out."""
    q, shape = problem.q, published.observed.shape
    xx, xy = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    counts = np.zeros((2, shape[0]), np.int64)
    carry = np.zeros((*shape, q))
    a, b = published.pairs.T
    for j in range(shape[0]):
        for k in range(published.components[j]):
            width = published.width[j, k]
            places, weights = published.place[j, k, :width], published.weight[j, k, :width]
            if np.any(a[places] == q):
                continue
            if not np.any(b[places] == q):
                xx[j, counts[0, j]] = k
                counts[0, j] += 1
                continue
            xy[j, counts[1, j]] = k
            for place, weight in zip(places, weights, strict=True):
                if b[place] == q:
                    carry[j, counts[1, j], a[place]] = weight
            counts[1, j] += 1
    if not counts[1].any():
        raise Unsupported(
            f"method {method!r} needs xy of at least one holder. Ask for releases with parts=('xx', 'xy')."
        )
    has_laplace = any(bool(published.laplace[j, xy[j, : counts[1, j]]].any()) for j in range(shape[0]))
    return Cross(xx, xy, counts[0], counts[1], carry, has_laplace)


def cross_notes(problem: Problem) -> tuple[str, ...]:
    """What these methods leave out, and what cannot be learned without it."""
    q = problem.q
    notes = []
    if any(np.any(holder.pairs[:, 0] == q) for holder in problem.holders):
        notes.append("The released yy is not used by this method; 'marginal' uses it.")
    if len(problem.holders) == 1:
        notes.append("Without yy a single holder says little of the error variance: its posterior leans on the prior.")
    return tuple(notes)


@njit(cache=True)
def to_vector(data: Published, moments: Floats, vector: Floats) -> None:
    """S at the pairs, 0 where y comes in."""
    q = moments.shape[0] - 1
    for p in range(len(vector)):
        a, b = data.pairs[p, 0], data.pairs[p, 1]
        vector[p] = moments[a, b] if b < q else 0.0


@njit(cache=True)
def set_moments(data: Published, parts: Cross, j: int, slot: int, moments: Floats, now: Laws) -> None:
    """What a slot holds that depends on S alone; `vector` becomes S at the pairs."""
    q, size = moments.shape[0] - 1, parts.count_xy[j]
    residual, slope, base = now.residual[slot], now.slope[slot], now.base[slot]
    to_vector(data, moments, now.vector)
    for k in range(size):
        component = parts.xy[j, k]
        residual[k] = data.observed[j, component] - expected(data, j, component, now.vector)
        for i in range(q):
            slope[k, i] = dot(parts.carry[j, k], moments[i], q)
        for other in range(k + 1):
            base[k, other] = dot(slope[k], parts.carry[j, other], q)


@njit(cache=True)
def set_variance(parts: Cross, j: int, slot: int, source: int, variance: float, mixing: Floats, now: Laws) -> bool:
    """The factor of sigma^2 H S H' + V in a slot, from the S in slot `source`; False where it has none."""
    base, joint = now.base[source], now.joint
    for k in range(parts.count_xy[j]):
        for other in range(k + 1):
            joint[k, other] = variance * base[k, other]
        joint[k, k] += mixing[parts.xy[j, k]]
    return bool(factor(joint, parts.count_xy[j], now.lower[slot], 1e-15))


@njit(cache=True)
def adopt(j: int, now: Laws) -> None:
    """Holder j's proposed law becomes the one that stands."""
    holders = len(now.residual) // 2
    now.residual[j] = now.residual[holders + j]
    now.slope[j] = now.slope[holders + j]
    now.base[j] = now.base[holders + j]
    now.lower[j] = now.lower[holders + j]


@njit(cache=True)
def cross_log_density(parts: Cross, j: int, slot: int, source: int, theta: Floats, now: Laws) -> float:
    """log N(published; H S theta + c(S), sigma^2 H S H' + V), less its constant: S of `source`, factor of `slot`."""
    size, lower = parts.count_xy[j], now.lower[slot]
    away, value = now.joint[0], 0.0
    for k in range(size):
        gap = now.residual[source, k] - dot(now.slope[source, k], theta, len(theta))
        away[k] = (gap - dot(lower[k], away, k)) / lower[k, k]
        value -= 0.5 * away[k] * away[k] + math.log(lower[k, k])
    return value


@njit(cache=True)
def add_information(parts: Cross, j: int, now: Laws, precision: Floats, weighted: Floats) -> None:
    """Add S H' (.)^-1 H S to the precision of theta and S H' (.)^-1 residual to its weighted mean."""
    q, size, lower = len(weighted), parts.count_xy[j], now.lower[j]
    white, away = np.empty((q, size)), now.residual[j, :size].copy()
    solve_lower(lower, size, away)
    for i in range(q):
        for k in range(size):
            white[i, k] = now.slope[j, k, i]
        solve_lower(lower, size, white[i])
        weighted[i] += dot(white[i], away, size)
        for other in range(i + 1):
            value = dot(white[i], white[other], size)
            precision[i, other] += value
            if other < i:
                precision[other, i] += value


@njit(cache=True)
def draw_cross_mixing(
    rng: Generator,
    data: Published,
    parts: Cross,
    j: int,
    moments: Floats,
    state: State,
    mixing: Floats,
    now: Laws,
) -> None:
    """New mixing variances of the Laplace components of xy, given a z drawn for the purpose."""
    q, size, variance = len(state.theta), parts.count_xy[j], state.scales[0]
    root, normal, z, gap = np.empty((q, q)), np.empty(q), np.empty(q), np.empty(size)
    factor(moments, q, root, 1e-13)
    for i in range(q):
        normal[i] = rng.standard_normal()
        z[i] = dot(moments[i], state.theta, q) + math.sqrt(variance) * dot(root[i], normal, i + 1)
    for k in range(size):
        noise = math.sqrt(mixing[parts.xy[j, k]]) * rng.standard_normal()
        gap[k] = now.residual[j, k] - dot(parts.carry[j, k], z, q) - noise
    solve(now.lower[j], size, gap)
    for k in range(size):
        for i in range(q):
            z[i] += variance * now.slope[j, k, i] * gap[k]
    for k in range(size):
        component = parts.xy[j, k]
        if data.laplace[j, component] > 0.0:
            away = now.residual[j, k] - dot(parts.carry[j, k], z, q)
            mixing[component] = draw_mixing_variance(rng, away, data.laplace[j, component])


@njit(cache=True)
def draw_theta(rng: Generator, parts: Cross, holders: int, priors: Beliefs, state: State, now: Laws) -> bool:
    """theta | S, sigma^2, V, then tau^2 | theta where it is learned."""
    q = len(state.theta)
    precision, weighted = scaled_precision(priors, state.scales[1]), np.empty(q)
    if priors.is_relative:
        precision /= state.scales[0]
    for i in range(q):
        weighted[i] = dot(precision[i], priors.mean, q)
    for j in range(holders):
        add_information(parts, j, now, precision, weighted)
    is_sound = draw_given_precision(rng, precision, weighted, 1.0, state.theta)
    draw_learned_scale(rng, priors, state.theta, state.scales)
    return bool(is_sound)


@njit(cache=True)
def walk_variance(
    rng: Generator, parts: Cross, mixing: Floats, priors: Beliefs, state: State, log_step: float, now: Laws
) -> float:
    """A step of log sigma^2 given S, theta and V, and its acceptance probability.

    Target: the inverse gamma with the Jacobian of the log, theta's prior where it is relative, the cross moments.
    """
    holders, variance = len(mixing), state.scales[0]
    proposal = variance * math.exp(math.exp(log_step) * rng.standard_normal())
    power, rate = priors.shape, priors.rate
    if priors.is_relative:
        power += 0.5 * len(state.theta)
        rate += 0.5 * distance(state.theta, priors.mean, scaled_precision(priors, state.scales[1]))
    ratio = -power * math.log(proposal / variance) - rate * (1.0 / proposal - 1.0 / variance)
    for j in range(holders):
        if not set_variance(parts, j, holders + j, j, proposal, mixing[j], now):
            return 0.0
        ratio += cross_log_density(parts, j, holders + j, j, state.theta, now)
        ratio -= cross_log_density(parts, j, j, j, state.theta, now)
    accepted = math.exp(min(0.0, ratio)) if ratio == ratio else 0.0
    if rng.random() < accepted:
        state.scales[0] = proposal
        for j in range(holders):
            now.lower[j] = now.lower[holders + j]
    return accepted


@njit(cache=True)
def draw_parameters(
    rng: Generator,
    data: Published,
    parts: Cross,
    moments: Floats,
    mixing: Floats,
    priors: Beliefs,
    state: State,
    log_step: float,
    now: Laws,
) -> tuple[bool, float]:
    """theta, tau^2, sigma^2 and the mixing variances in turn; whether theta had a law, and sigma^2's acceptance."""
    is_sound = draw_theta(rng, parts, len(mixing), priors, state, now)
    accepted = walk_variance(rng, parts, mixing, priors, state, log_step, now)
    if parts.has_laplace:
        for j in range(len(mixing)):
            draw_cross_mixing(rng, data, parts, j, moments[j], state, mixing[j], now)
            is_sound = set_variance(parts, j, j, j, state.scales[0], mixing[j], now) and is_sound
    return is_sound, accepted
