"""The density of a generalized linear model's unknowns given noisy moments, with its gradient.

Covariates follow the general location model (location.py): a table of combinations c of yes/no features with shares
p_c, numbers that are normal within each. With M_c and C_c of a row within a combination (row_moments.py),
    M = sum_c p_c M_c,   C = sum_c p_c (C_c + (M_c - M)(M_c - M)'),   T ~ N(n M, n C + noise) for every holder,
and where records above a count's bound were refused, p_c is the share among those that were kept. A position is
    xi        coefficients: theta = base + turn xi, each N(0, 1) a priori, or N(0, tau^2) where the scale is learned
    log tau   where it is learned, tau^2 ~ InverseGamma(1/2, 1/2)
    A, Z, u   covariance, means and shares of the location model
    mixing    variances of Laplace noise (coordinates.py)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner, njit
from noisewise.inference.hamiltonian import walk_of
from noisewise.regression.coordinates import OVERFLOW, Belief, covariates_prior, read_covariates
from noisewise.regression.density import Scratch, members_density
from noisewise.regression.glm.point_moments import point_moments, pull_points
from noisewise.regression.glm.row_moments import (
    RowScratch,
    begin_pulls,
    pull_moments,
    pull_split,
    split_row,
    write_moments,
)
from noisewise.regression.groups import Groups, Members
from noisewise.types import Floats, Integers


class Covariates(NamedTuple):
    """The location model's arrays, and where its unknowns stand in a position."""

    offset: Floats  # (C, d)
    slope: Floats  # (C, d, k)
    tilt: Floats  # (C, s)
    log_weight: Floats  # (C,)
    contrast: Floats  # (C, r)
    effects: int  # Z (k, r) row by row
    tilts: int  # u (s,)


class Coefficients(NamedTuple):
    """theta = base + turn xi; `is_scaled` marks those whose prior sd is the learned tau (log_tau < 0: none)."""

    base: Floats  # (d + 1,)
    turn: Floats  # (d + 1, p)
    is_scaled: Integers  # (p,)
    log_tau: int


class Shared(NamedTuple):
    """Arrays of every combination."""

    share: Floats  # (C,): p_c
    log_share: Floats
    kept: Floats  # (C,): p_c among the rows that were kept
    mean: Floats  # (C, d)
    factor: Floats  # (C, d, k)
    second: Floats  # (C, K)
    fourth: Floats  # (C, K, K)
    middle: Floats  # (K,)
    pull: Floats  # (K,)
    grip: Floats  # (K, K)
    by_log_share: Floats  # (C,)
    by_mean: Floats  # (C, d)
    by_factor: Floats  # (C, d, k)
    effects: Floats  # (k, r)
    by_effects: Floats
    shift: Floats  # (C, k): Z h(c)
    theta: Floats  # (d + 1,)
    by_theta: Floats


class GlmData(NamedTuple):
    """Everything the density needs; `belief` is that of A, and says where the mixing variances stand."""

    belief: Belief
    groups: Groups
    members: Members
    scratch: Scratch
    coefficients: Coefficients
    covariates: Covariates
    responses: Floats  # (G, 3): the link's code, the cap of a count, whether records above it were refused
    shared: Shared
    row: RowScratch


@njit(cache=True)
def glm_density(position: Floats, data: GlmData, gradient: Floats) -> float:
    """log posterior density (up to a constant); writes its gradient."""
    return _density(position, data, gradient, True)


@inner()
def _density(position: Floats, data: GlmData, gradient: Floats, has_gradient: bool) -> float:
    """The same; without its gradient three times as fast."""
    belief, groups, members, work, coefficients, covariates, _, shared, _ = data
    gradient.fill(0.0)
    if _is_out_of_range(position, belief, coefficients, len(work.mu)):
        return -np.inf
    _read(position, belief, coefficients, covariates, work, shared)
    value: float = 0.0
    for g in range(len(groups.n)):
        size, response = groups.size[g], data.responses[g]
        if not mixed_moments(groups.map[g], groups.pairs[g], size, response, shared, data.row, work.covariance):
            gradient.fill(0.0)
            return -np.inf
        _copy_middle(size, groups.pairs[g], shared.middle, work)
        value += members_density(g, position, belief, groups, members, work, gradient)
        if not math.isfinite(value):
            gradient.fill(0.0)
            return -np.inf
        if has_gradient:
            _pull_group(g, data)
    value += _finish(position, belief, coefficients, covariates, work, shared, gradient)
    return value


@inner()
def _is_out_of_range(position: Floats, belief: Belief, coefficients: Coefficients, k: int) -> bool:
    """Whether a scale would overflow or vanish, or a coordinate is no number."""
    for i in range(len(position)):
        if not abs(position[i]) < 1e50:
            return True
    at = belief.cholesky - 1
    for i in range(k):
        at += i + 1
        if abs(position[at]) > OVERFLOW / 3:
            return True
    return coefficients.log_tau >= 0 and abs(position[coefficients.log_tau]) > OVERFLOW / 3


@inner()
def _read(
    position: Floats, belief: Belief, coefficients: Coefficients, covariates: Covariates, work: Scratch, shared: Shared
) -> None:
    """theta, A, Z, shares, and the law of the numbers within every combination; clears the pulls."""
    for a in range(len(shared.theta)):
        shared.theta[a] = coefficients.base[a]
        for j in range(coefficients.turn.shape[1]):
            shared.theta[a] += coefficients.turn[a, j] * position[j]
    read_covariates(position, belief, work.factor, work.mu)
    count, d, k = covariates.slope.shape
    r = covariates.contrast.shape[1]
    largest = -np.inf
    for c in range(count):
        total = covariates.log_weight[c]
        for j in range(covariates.tilt.shape[1]):
            total += covariates.tilt[c, j] * position[covariates.tilts + j]
        shared.log_share[c] = total
        largest = max(largest, total)
    total = 0.0
    for c in range(count):
        total += math.exp(shared.log_share[c] - largest)
    for c in range(count):
        shared.log_share[c] -= largest + math.log(total)
        shared.share[c] = math.exp(shared.log_share[c])
    for i in range(k):
        for j in range(r):
            shared.effects[i, j] = position[covariates.effects + i * r + j]
    for c in range(count):
        for i in range(k):
            total = 0.0
            for j in range(r):
                total += shared.effects[i, j] * covariates.contrast[c, j]
            shared.shift[c, i] = total
        for i in range(d):
            mean = covariates.offset[c, i]
            for j in range(k):
                total = 0.0
                for p in range(j, k):
                    total += covariates.slope[c, i, p] * work.factor[p, j]
                shared.factor[c, i, j] = total
                mean += total * shared.shift[c, j]
            shared.mean[c, i] = mean
    shared.by_theta.fill(0.0)
    shared.by_log_share.fill(0.0)
    shared.by_mean.fill(0.0)
    shared.by_factor.fill(0.0)


@njit(cache=True)
def mixed_moments(
    mapping: Floats, pairs: Integers, size: int, response: Floats, shared: Shared, row: RowScratch, covariance: Floats
) -> bool:
    """M (shared.middle) and C of a holder's rows, and those of every combination; False where no row would be kept."""
    if shared.factor.shape[2] == 0:  # no numbers: C of each combination is not needed
        return point_moments(mapping, pairs, size, response, shared, row, covariance)
    total = 0.0
    for c in range(len(shared.share)):
        kept = split_row(shared.theta, shared.mean[c], shared.factor[c], response, row)
        if not kept > 0.0:
            return False
        shared.kept[c] = shared.share[c] * kept
        total += shared.kept[c]
        write_moments(mapping, pairs, size, shared.mean[c], row, shared.second[c], shared.fourth[c])
    if not total > 0.0:
        return False
    for r in range(size):
        shared.middle[r] = 0.0
        for c in range(len(shared.share)):
            shared.middle[r] += shared.kept[c] * shared.second[c, r] / total
    covariance.fill(0.0)
    for c in range(len(shared.share)):
        shared.kept[c] /= total
        for r in range(size):
            away = shared.second[c, r] - shared.middle[r]
            for t in range(size):
                shared.fourth[c, r, t] += away * (shared.second[c, t] - shared.middle[t])
                covariance[r, t] += shared.kept[c] * shared.fourth[c, r, t]
    return True


@inner()
def _copy_middle(size: int, pairs: Integers, middle: Floats, work: Scratch) -> None:
    """M where `members_density` reads it."""
    work.s.fill(0.0)
    work.n.fill(0.0)
    for r in range(size):
        work.s[pairs[r, 0], pairs[r, 1]] = middle[r]


@inner(allocates=True)
def _pull_group(g: int, data: GlmData) -> None:
    """From the pulls on a group's M and C to those on theta, the shares, and the law within every combination."""
    groups, work, shared, row = data.groups, data.scratch, data.shared, data.row
    size, n, pairs = groups.size[g], groups.n[g], groups.pairs[g]
    if shared.factor.shape[2] == 0:
        pull_points(n, groups.map[g], pairs, size, data.responses[g], work.pull, work.grip, shared, row)
        return
    average, count = 0.0, len(shared.share)
    totals = np.zeros(count)
    for c in range(count):
        for r in range(size):
            totals[c] += work.pull[r] * shared.second[c, r]
            for t in range(size):
                totals[c] += 0.5 * work.grip[r, t] * shared.fourth[c, r, t]
        totals[c] *= n
        average += shared.kept[c] * totals[c]
    for c in range(count):
        by_kept = shared.kept[c] * (totals[c] - average)  # the pull on log(p_c kept_c)
        shared.by_log_share[c] += by_kept
        for r in range(size):
            total = work.pull[r]
            for t in range(size):
                total += work.grip[r, t] * (shared.second[c, t] - shared.middle[t])
                shared.grip[r, t] = n * shared.kept[c] * work.grip[r, t]
            shared.pull[r] = n * shared.kept[c] * total
        # Once more what this combination's row is: only one of them is held at a time.
        split_row(shared.theta, shared.mean[c], shared.factor[c], data.responses[g], row)
        write_moments(groups.map[g], pairs, size, shared.mean[c], row, shared.second[c], shared.fourth[c])
        begin_pulls(row)
        row.scalars[3] = by_kept
        pull_moments(groups.map[g], pairs, size, shared.pull, shared.grip, row, shared.by_mean[c])
        pull_split(
            shared.theta, shared.mean[c], shared.factor[c], row, shared.by_theta, shared.by_mean[c], shared.by_factor[c]
        )


@inner()
def _finish(
    position: Floats,
    belief: Belief,
    coefficients: Coefficients,
    covariates: Covariates,
    work: Scratch,
    shared: Shared,
    gradient: Floats,
) -> float:
    """From those pulls to the gradient; returns the log prior."""
    count, d, k = covariates.slope.shape
    r, value = covariates.contrast.shape[1], 0.0
    total = 0.0
    for c in range(count):
        total += shared.by_log_share[c]
    work.by_factor.fill(0.0)
    shared.by_effects.fill(0.0)
    for c in range(count):
        for j in range(covariates.tilt.shape[1]):
            by_logit = shared.by_log_share[c] - shared.share[c] * total
            gradient[covariates.tilts + j] += by_logit * covariates.tilt[c, j]
        for i in range(d):
            for j in range(k):  # mean_i = .. + F_ij shift_j, F_ij = sum_p D_ip A_pj
                by_entry = shared.by_factor[c, i, j] + shared.by_mean[c, i] * shared.shift[c, j]
                for p in range(j, k):
                    work.by_factor[p, j] += covariates.slope[c, i, p] * by_entry
                for t in range(r):
                    pull = shared.by_mean[c, i] * shared.factor[c, i, j]
                    shared.by_effects[j, t] += pull * covariates.contrast[c, t]
    for j in range(k):
        for t in range(r):
            at = covariates.effects + j * r + t
            value -= 0.5 * position[at] ** 2
            gradient[at] += shared.by_effects[j, t] - position[at]
    for j in range(covariates.tilt.shape[1]):
        at = covariates.tilts + j
        value -= 0.5 * position[at] ** 2
        gradient[at] -= position[at]
    value += _coefficients_prior(position, coefficients, shared, gradient)
    value += covariates_prior(
        position, belief, work.factor, work.mu, work.by_factor, work.by_mu, gradient, work.inverse_factor, work.product
    )
    return value


@inner()
def _coefficients_prior(position: Floats, coefficients: Coefficients, shared: Shared, gradient: Floats) -> float:
    """log prior of xi and tau; adds its gradient and the likelihood's pull."""
    value, at = 0.0, coefficients.log_tau
    tau = math.exp(position[at]) if at >= 0 else 1.0
    if at >= 0:
        value += -position[at] - 0.5 / tau**2
        gradient[at] += -1.0 + 1.0 / tau**2
    for j in range(coefficients.turn.shape[1]):
        scale = tau if coefficients.is_scaled[j] else 1.0
        own = position[j] / scale
        value -= 0.5 * own * own + math.log(scale)
        gradient[j] -= own / scale
        for a in range(len(shared.theta)):
            gradient[j] += coefficients.turn[a, j] * shared.by_theta[a]
        if coefficients.is_scaled[j]:
            gradient[at] += own * own - 1.0
    return value


glm_walk = walk_of(glm_density, "glm_walk")


@njit(cache=True)
def many_densities(positions: Floats, data: GlmData) -> Floats:
    """The log density at each row of positions (K, size)."""
    values, gradient = np.empty(len(positions)), np.empty(positions.shape[1])
    for i in range(len(positions)):
        values[i] = _density(positions[i], data, gradient, False)
    return values
