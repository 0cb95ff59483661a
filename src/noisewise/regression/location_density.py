"""The density of density.py where covariates follow the general location model (location.py), with its gradient.

Within a configuration c a row is normal with mean m_c and factor B_c, so with M_c and C_c its moments (moments.py),
    M = sum_c p_c M_c,      C = sum_c p_c (C_c + (M_c - M)(M_c - M)'),
exactly. From the pulls a on M and G on C (density.py):
    on M_c   p_c (a + G (M_c - M)),     on C_c   p_c G,     on p_c   a'M_c + <G, C_c + (M_c - M)(M_c - M)'>/2
and from there, configuration by configuration, to theta, sigma, A, the effects Z and the coefficients u of the shares.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner, njit
from noisewise.inference.hamiltonian import walk_of
from noisewise.regression.coordinates import (
    Belief,
    Floats,
    covariates_prior,
    is_out_of_range,
    read_covariates,
    read_theta,
    theta_prior,
)
from noisewise.regression.density import Scratch, add_mapped, make_data, members_density, pull_back_normal
from noisewise.regression.groups import AS_NORMAL, Groups, Members, group_holders
from noisewise.regression.moments import normal_covariance_at
from noisewise.regression.problem import LocationX, Problem


class Location(NamedTuple):
    """The model's arrays, and where its unknowns stand in a position."""

    offset: Floats  # (C, d)
    slope: Floats  # (C, d, k)
    tilt: Floats  # (C, s)
    contrast: Floats  # (C, r)
    effects: int  # Z (k, r) row by row
    tilts: int  # u (s,)


class LocationScratch(NamedTuple):
    """Arrays of every configuration."""

    share: Floats  # (C,)
    by_share: Floats
    mean: Floats  # (C, m)
    spread: Floats  # (C, m, k + 1)
    by_mean: Floats
    by_spread: Floats
    holder_mean: Floats  # (C, m)
    holder_spread: Floats
    s: Floats  # (C, m, m)
    n: Floats
    second: Floats  # (C, K): M_c
    fourth: Floats  # (C, K, K): C_c + (M_c - M)(M_c - M)'
    pull: Floats  # (K,)
    grip: Floats  # (K, K)
    effects: Floats  # (k, r)
    by_effects: Floats
    shift: Floats  # (C, k): Z h(c)


class LocationData(NamedTuple):
    """Everything the density needs. `numbers` is the belief of A alone, without a mean of its own."""

    belief: Belief
    groups: Groups
    members: Members
    scratch: Scratch
    numbers: Belief
    location: Location
    own: LocationScratch


@njit(cache=True)
def location_density(position: Floats, data: LocationData, gradient: Floats) -> float:
    """log posterior density (up to a constant) with covariates of the location model; writes its gradient."""
    belief, groups, members, work, numbers, location, own = data
    gradient.fill(0.0)
    if is_out_of_range(position, belief, len(work.mu)):
        return -np.inf
    sigma = read_theta(position, belief, work.theta)
    read_covariates(position, numbers, work.factor, work.mu)
    _read_location(position, location, own)
    _row_laws(sigma, belief.intercept, location, work, own)
    own.by_share.fill(0.0)
    own.by_mean.fill(0.0)
    own.by_spread.fill(0.0)
    value: float = 0.0
    for g in range(len(groups.n)):
        _group_moments(g, groups, work, own)
        value += members_density(g, position, belief, groups, members, work, gradient)
        if not math.isfinite(value):
            gradient.fill(0.0)
            return -np.inf
        _pull_back_group(g, groups, work, own)
    _pull_back_rows(sigma, belief, location, work, own, gradient)
    value += _location_prior(position, location, own, gradient)
    value += theta_prior(position, belief, work.theta, work.by_theta, gradient)
    value += covariates_prior(
        position, numbers, work.factor, work.mu, work.by_factor, work.by_mu, gradient, work.inverse_factor, work.product
    )
    return value


@inner()
def _read_location(position: Floats, location: Location, own: LocationScratch) -> None:
    """Write the shares p_c, the effects Z and Z h(c)."""
    count, size = location.tilt.shape
    largest = -np.inf
    for c in range(count):
        logit = 0.0
        for j in range(size):
            logit += location.tilt[c, j] * position[location.tilts + j]
        own.share[c] = logit
        largest = max(largest, logit)
    total = 0.0
    for c in range(count):
        own.share[c] = math.exp(own.share[c] - largest)
        total += own.share[c]
    for c in range(count):
        own.share[c] /= total
    k, r = own.effects.shape
    for i in range(k):
        for j in range(r):
            own.effects[i, j] = position[location.effects + i * r + j]
    for c in range(count):
        for i in range(k):
            total = 0.0
            for j in range(r):
                total += own.effects[i, j] * location.contrast[c, j]
            own.shift[c, i] = total


@inner()
def _row_laws(sigma: float, intercept: int, location: Location, work: Scratch, own: LocationScratch) -> None:
    """m_c (m,) and B_c (m, k + 1) of w = ([1,] x, y) in every configuration."""
    count, d, k = location.slope.shape
    y = own.mean.shape[1] - 1
    own.spread.fill(0.0)
    for c in range(count):
        if intercept:
            own.mean[c, 0] = 1.0
        own.mean[c, y] = work.theta[0] if intercept else 0.0
        for i in range(d):
            theta = work.theta[intercept + i]
            mean = location.offset[c, i]
            for j in range(k):
                spread = 0.0  # (D A)_ij
                for p in range(j, k):
                    spread += location.slope[c, i, p] * work.factor[p, j]
                own.spread[c, intercept + i, j] = spread
                own.spread[c, y, j] += theta * spread
                mean += spread * own.shift[c, j]
            own.mean[c, intercept + i] = mean
            own.mean[c, y] += theta * mean
        own.spread[c, y, k] = sigma


@inner()
def _group_moments(g: int, groups: Groups, work: Scratch, own: LocationScratch) -> None:
    """M (into the released places of work.s) and C of a group's rows, and those of every configuration."""
    count, m, d1 = own.spread.shape
    size, pairs = groups.size[g], groups.pairs[g]
    work.s.fill(0.0)
    work.n.fill(0.0)
    work.covariance.fill(0.0)
    for c in range(count):
        for a in range(m):
            total = 0.0
            for b in range(m):
                total += groups.map[g, a, b] * own.mean[c, b]
            own.holder_mean[c, a] = total
            for j in range(d1):
                total = 0.0
                for b in range(m):
                    total += groups.map[g, a, b] * own.spread[c, b, j]
                own.holder_spread[c, a, j] = total
        for a in range(m):
            for b in range(m):
                total = 0.0
                for j in range(d1):
                    total += own.holder_spread[c, a, j] * own.holder_spread[c, b, j]
                own.s[c, a, b] = total
                own.n[c, a, b] = own.holder_mean[c, a] * own.holder_mean[c, b]
        for r in range(size):
            a, b = pairs[r, 0], pairs[r, 1]
            own.second[c, r] = own.s[c, a, b] + own.n[c, a, b]
            work.s[a, b] += own.share[c] * own.second[c, r]
    for c in range(count):
        normal_covariance_at(own.s[c], own.n[c], pairs, size, own.fourth[c])
        for r in range(size):
            away = own.second[c, r] - work.s[pairs[r, 0], pairs[r, 1]]
            for t in range(size):
                own.fourth[c, r, t] += away * (own.second[c, t] - work.s[pairs[t, 0], pairs[t, 1]])
                work.covariance[r, t] += own.share[c] * own.fourth[c, r, t]


@inner(allocates=True)
def _pull_back_group(g: int, groups: Groups, work: Scratch, own: LocationScratch) -> None:
    """From the pulls on a group's M and C to those on p_c, m_c and B_c."""
    count, m, d1 = own.spread.shape
    size, n, pairs = groups.size[g], groups.n[g], groups.pairs[g]
    own.pull[:] = work.pull
    own.grip[:] = work.grip
    middle = np.empty(size)
    for r in range(size):
        middle[r] = work.s[pairs[r, 0], pairs[r, 1]]
    for c in range(count):
        total = 0.0
        for r in range(size):
            total += own.pull[r] * own.second[c, r]
            pull = own.pull[r]
            for t in range(size):
                total += 0.5 * own.grip[r, t] * own.fourth[c, r, t]
                pull += own.grip[r, t] * (own.second[c, t] - middle[t])
                work.grip[r, t] = own.share[c] * own.grip[r, t]
            work.pull[r] = own.share[c] * pull
        own.by_share[c] += n * total
        work.s[:] = own.s[c]
        work.n[:] = own.n[c]
        work.holder_mean[:] = own.holder_mean[c]
        work.holder_spread[:] = own.holder_spread[c]
        work.by_mean.fill(0.0)
        work.by_spread.fill(0.0)
        pull_back_normal(g, groups, work)
        add_mapped(groups.map[g], 1.0, work)
        for a in range(m):
            own.by_mean[c, a] += work.by_mean[a]
            for j in range(d1):
                own.by_spread[c, a, j] += work.by_spread[a, j]


@inner()
def _pull_back_rows(
    sigma: float,
    belief: Belief,
    location: Location,
    work: Scratch,
    own: LocationScratch,
    gradient: Floats,
) -> None:
    """From the pulls on p_c, m_c and B_c to those on theta, sigma, A, Z and u; the prior's are added elsewhere."""
    count, d, k = location.slope.shape
    o, y, r = belief.intercept, own.mean.shape[1] - 1, location.contrast.shape[1]
    work.by_theta.fill(0.0)
    work.by_factor.fill(0.0)
    own.by_effects.fill(0.0)
    average = 0.0
    for c in range(count):
        average += own.share[c] * own.by_share[c]
    for c in range(count):
        by_logit = own.share[c] * (own.by_share[c] - average)
        for j in range(location.tilt.shape[1]):
            gradient[location.tilts + j] += by_logit * location.tilt[c, j]
        if o:
            work.by_theta[0] += own.by_mean[c, y]
        gradient[belief.log_sigma] += sigma * own.by_spread[c, y, k]
        for i in range(d):
            theta = work.theta[o + i]
            by_mean = own.by_mean[c, o + i] + theta * own.by_mean[c, y]
            work.by_theta[o + i] += own.mean[c, o + i] * own.by_mean[c, y]
            for j in range(k):
                spread = own.spread[c, o + i, j]
                work.by_theta[o + i] += spread * own.by_spread[c, y, j]
                # x_i = .. + (D A)_ij (shift_j + e_j)
                by_entry = own.by_spread[c, o + i, j] + theta * own.by_spread[c, y, j] + by_mean * own.shift[c, j]
                for p in range(j, k):
                    work.by_factor[p, j] += location.slope[c, i, p] * by_entry
                for t in range(r):
                    own.by_effects[j, t] += by_mean * spread * location.contrast[c, t]


@inner()
def _location_prior(position: Floats, location: Location, own: LocationScratch, gradient: Floats) -> float:
    """log N(0, 1) of every effect and tilt; adds its gradient and the likelihood's pull on the effects."""
    value = 0.0
    k, r = own.effects.shape
    for i in range(k):
        for j in range(r):
            at = location.effects + i * r + j
            value -= 0.5 * position[at] ** 2
            gradient[at] += own.by_effects[i, j] - position[at]
    for j in range(location.tilt.shape[1]):
        at = location.tilts + j
        value -= 0.5 * position[at] ** 2
        gradient[at] -= position[at]
    return value


location_walk = walk_of(location_density, "location_model_walk")


def location_data(problem: Problem, *, is_scaled: bool) -> LocationData:
    """The problem as arrays. A position is theta, log sigma, [log tau,] A, Z, u, mixing variances."""
    prior, x = problem.prior, problem.covariates
    assert isinstance(x, LocationX)
    k, r, s, q, m = x.numbers, x.contrast.shape[1], x.tilt.shape[1], problem.q, problem.m
    log_tau = q + 1
    cholesky = log_tau + int(prior.is_learned)
    effects = cholesky + k * (k + 1) // 2
    tilts = effects + k * r
    belief = Belief(
        mean=np.ascontiguousarray(prior.mean, np.float64),
        precision=np.ascontiguousarray(prior.precision, np.float64),
        shape=float(prior.shape),
        rate=float(prior.rate),
        location=np.zeros(k),
        strength=1.0,
        wishart=np.ascontiguousarray(x.scale, np.float64),
        degrees=float(x.degrees),
        intercept=int(problem.intercept),
        is_relative=int(prior.is_relative),
        is_learned=int(prior.is_learned),
        is_scaled=int(is_scaled and (prior.is_relative or prior.is_learned)),
        is_whitened=1,
        log_sigma=q,
        cholesky=cholesky,
        mu=effects,
        log_tau=log_tau,
        mixing=tilts + s,
    )
    groups, members = group_holders(problem, [AS_NORMAL] * len(problem.holders))
    count, pairs = x.configurations, groups.pairs.shape[1]
    offset, slope, tilt, contrast = map(np.ascontiguousarray, (x.offset, x.slope, x.tilt, x.contrast))
    location = Location(offset, slope, tilt, contrast, effects, tilts)
    shapes = [
        (count,), (count,), (count, m), (count, m, k + 1), (count, m), (count, m, k + 1), (count, m),
        (count, m, k + 1), (count, m, m), (count, m, m), (count, pairs), (count, pairs, pairs), (pairs,),
        (pairs, pairs), (k, r), (k, r), (count, k),
    ]  # fmt: skip
    own = LocationScratch(*(np.zeros(shape) for shape in shapes))
    return LocationData(*make_data(belief, groups, members), belief._replace(intercept=0, is_whitened=0), location, own)
