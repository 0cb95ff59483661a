"""The density of a regression's unknowns given noisy moments, with every latent integrated out, and its gradient.

A holder's noisy sums t are normal: mean n M, covariance V = n C + noise, at the released pairs. With holders' rows
P w = P (m + B z), z ~ N(0, I), B = [[A, 0], [theta'A, sigma]] below a zero row for the intercept,
    S = P B B' P',  N = k (P m)(P m)',   M = S + N,   C_ab,cd = S_ac S_bd + S_ad S_bc + S_ac N_bd + ... (moments.py)
(k rows a block). Holders that differ in nothing but their answers share V, and enter by their mean and scatter:
    log p = -J/2 log |V| - tr(V^-1 scatter)/2 - J/2 (t - nM)' V^-1 (t - nM)
    a = V^-1 (t - nM),  G = V^-1 scatter V^-1 + J (a a' - V^-1):   d log p = J n a' dM + n/2 <G, dC>
and everything is pulled back to (m, B), then to the coordinates. Rows that were shortened or clamped: changed.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner, njit
from noisewise.inference.hamiltonian import walk_of
from noisewise.regression.coordinates import (
    REASSOCIATE,
    Belief,
    Floats,
    covariates_prior,
    is_out_of_range,
    mixing_variance,
    read_covariates,
    read_theta,
    theta_prior,
)
from noisewise.regression.groups import Groups, Members
from noisewise.regression.moments import normal_covariance_at


class Scratch(NamedTuple):
    """Arrays that are written before they are read, so that no evaluation allocates."""

    theta: Floats
    by_theta: Floats
    factor: Floats  # A
    mu: Floats
    by_factor: Floats
    by_mu: Floats
    inverse_factor: Floats
    product: Floats
    mean: Floats  # m
    spread: Floats  # B
    by_mean: Floats
    by_spread: Floats
    holder_mean: Floats  # P m
    holder_spread: Floats  # P B
    s: Floats
    n: Floats
    by_s: Floats
    by_n: Floats
    by_holder_mean: Floats
    by_holder_spread: Floats
    covariance: Floats  # C
    v: Floats
    inverse: Floats
    pull: Floats  # sum of J a
    grip: Floats  # sum of G
    residual: Floats
    alpha: Floats
    solved: Floats
    slope: Floats  # of the mixing variances


class Data(NamedTuple):
    belief: Belief
    groups: Groups
    members: Members
    scratch: Scratch


@njit(cache=True, _nrt=False)
def normal_density(position: Floats, data: Data, gradient: Floats) -> float:
    """log posterior density (up to a constant) with normal covariates; writes its gradient."""
    belief, groups, members, work = data
    sigma = begin(position, belief, work, gradient)
    if not sigma > 0.0:
        return -np.inf
    value: float = 0.0
    for g in range(len(groups.n)):
        holder_law(g, groups, math.sqrt(groups.block[g]), work)
        normal_covariance_at(work.s, work.n, groups.pairs[g], groups.size[g], work.covariance)
        value += members_density(g, position, belief, groups, members, work, gradient)
        pull_back_normal(g, groups, work)
        add_mapped(groups.map[g], math.sqrt(groups.block[g]), work)
    value += finish(position, sigma, belief, work, gradient)
    return value


@inner()
def begin(position: Floats, belief: Belief, work: Scratch, gradient: Floats) -> float:
    """Read the unknowns, write m and B of a row, clear the pulls; returns sigma, or 0 where there is no density."""
    gradient.fill(0.0)
    if is_out_of_range(position, belief, len(work.mu)):
        return 0.0
    sigma = read_theta(position, belief, work.theta)
    read_covariates(position, belief, work.factor, work.mu)
    _row_law(work.theta, sigma, work.factor, work.mu, belief.intercept, work.mean, work.spread)
    work.by_mean.fill(0.0)
    work.by_spread.fill(0.0)
    return sigma


@inner()
def finish(position: Floats, sigma: float, belief: Belief, work: Scratch, gradient: Floats) -> float:
    """From the pulls on m and B to those on theta, sigma, A and mu; returns the log prior."""
    d, y, o = len(work.mu), len(work.mean) - 1, belief.intercept
    work.by_theta.fill(0.0)
    work.by_factor.fill(0.0)
    for i in range(d):
        work.by_mu[i] = work.by_mean[o + i] + work.theta[o + i] * work.by_mean[y]
        work.by_theta[o + i] += work.mu[i] * work.by_mean[y]
        for j in range(i + 1):
            work.by_theta[o + i] += work.factor[i, j] * work.by_spread[y, j]
            work.by_factor[i, j] += work.by_spread[o + i, j] + work.theta[o + i] * work.by_spread[y, j]
    if o:
        work.by_theta[0] += work.by_mean[y]
    gradient[belief.log_sigma] += sigma * work.by_spread[y, d]
    value: float = theta_prior(position, belief, work.theta, work.by_theta, gradient)
    value += covariates_prior(
        position, belief, work.factor, work.mu, work.by_factor, work.by_mu, gradient, work.inverse_factor, work.product
    )
    return value


@inner()
def _row_law(
    theta: Floats, sigma: float, factor: Floats, mu: Floats, intercept: int, mean: Floats, spread: Floats
) -> None:
    """m (m,) and B (m, d + 1) of w = ([1,] x, y)."""
    d, y = len(mu), len(mean) - 1
    mean.fill(0.0)
    spread.fill(0.0)
    if intercept:
        mean[0], mean[y] = 1.0, theta[0]
    for i in range(d):
        slope = theta[intercept + i]
        mean[intercept + i] = mu[i]
        mean[y] += slope * mu[i]
        for j in range(i + 1):
            spread[intercept + i, j] = factor[i, j]
            spread[y, j] += slope * factor[i, j]
    spread[y, d] = sigma


@inner(fastmath=REASSOCIATE)
def holder_law(g: int, groups: Groups, root: float, work: Scratch) -> None:
    """Of a holder's rows root P m, P B, S = P B B' P' and N; root is sqrt(k) for blocks, 1 for single rows."""
    m, d1 = work.spread.shape
    for a in range(m):
        total = 0.0
        for b in range(m):
            total += groups.map[g, a, b] * work.mean[b]
        work.holder_mean[a] = root * total
        for j in range(d1):
            total = 0.0
            for b in range(m):
                total += groups.map[g, a, b] * work.spread[b, j]
            work.holder_spread[a, j] = total
    for a in range(m):
        for b in range(a + 1):
            total = 0.0
            for j in range(d1):
                total += work.holder_spread[a, j] * work.holder_spread[b, j]
            work.s[a, b] = total
            work.s[b, a] = total
            work.n[a, b] = work.holder_mean[a] * work.holder_mean[b]
            work.n[b, a] = work.n[a, b]


@inner()
def members_density(
    g: int, position: Floats, belief: Belief, groups: Groups, members: Members, work: Scratch, gradient: Floats
) -> float:
    """log p of all answers of a group; writes the pulls sum J a on M and sum G on C, before the factor n."""
    size, n, value = groups.size[g], groups.n[g], 0.0
    work.pull.fill(0.0)
    work.grip.fill(0.0)
    for h in range(groups.first[g], groups.first[g + 1]):
        at = belief.mixing + members.mixing[h]
        for p in range(size):
            a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
            for q in range(p + 1):
                work.v[p, q] = n * work.covariance[p, q]
            work.residual[p] = members.observed[h, p] - n * (work.s[a, b] + work.n[a, b])
            if members.laplace[h, p] > 0.0:
                u = position[at]
                value -= 0.5 * u * u
                noise, work.slope[p] = mixing_variance(u, members.laplace[h, p])
                work.v[p, p] += noise
                at += 1
            else:
                work.v[p, p] += members.variance[h, p]
        log_determinant = invert_symmetric(work.v, size, work.inverse)
        if not math.isfinite(log_determinant):
            return -np.inf
        count = members.holders[h]
        value -= 0.5 * count * log_determinant
        value += _score(size, count, work.inverse, work.residual, work.alpha, work.pull, work.grip)
        for r in range(members.rank[h]):
            value += _scatter(size, work.inverse, members.residual[h, :, r], work.solved, work.grip)
        at = belief.mixing + members.mixing[h]
        for p in range(size):
            if members.laplace[h, p] > 0.0:  # one holder: G_pp = a_p^2 - V^-1_pp
                gradient[at] += 0.5 * work.slope[p] * (work.alpha[p] ** 2 - work.inverse[p, p]) - position[at]
                at += 1
    return value


@inner(fastmath=REASSOCIATE)
def _score(
    size: int, count: float, inverse: Floats, residual: Floats, alpha: Floats, pull: Floats, grip: Floats
) -> float:
    """The quadratic form of one member's mean; adds J a to the pull and J (a a' - V^-1) to the grip."""
    value: float = 0.0
    for p in range(size):
        total = 0.0
        for q in range(size):
            total += inverse[p, q] * residual[q]
        alpha[p] = total
        value -= 0.5 * count * total * residual[p]
        pull[p] += count * total
    for p in range(size):
        for q in range(size):
            grip[p, q] += count * (alpha[p] * alpha[q] - inverse[p, q])
    return value


@inner(fastmath=REASSOCIATE)
def _scatter(size: int, inverse: Floats, residual: Floats, solved: Floats, grip: Floats) -> float:
    """One column of a member's scatter: its quadratic form; adds V^-1 r r' V^-1 to the grip."""
    value: float = 0.0
    for p in range(size):
        total = 0.0
        for q in range(size):
            total += inverse[p, q] * residual[q]
        solved[p] = total
        value -= 0.5 * total * residual[p]
    for p in range(size):
        for q in range(size):
            grip[p, q] += solved[p] * solved[q]
    return value


@inner(fastmath=REASSOCIATE)
def invert_symmetric(v: Floats, size: int, inverse: Floats) -> float:
    """log |V| and V^-1 from the lower triangle of V, which is overwritten; infinite where V is singular.

    Every inner loop adds a multiple of a row to a row, which the processor does several numbers at a time.
    """
    log_determinant = 0.0
    for i in range(size):
        inverse[i, i] = v[i, i]
        for j in range(i):
            v[j, i] = v[i, j]
    for k in range(size):  # V = U'U, row by row in the upper triangle
        pivot = v[k, k]
        if not pivot > 1e-13 * inverse[k, k]:  # less is rounding, and a density computed from it would be any number
            return np.inf
        log_determinant += math.log(pivot)
        scale = 1.0 / math.sqrt(pivot)
        for j in range(k, size):
            v[k, j] *= scale
        for i in range(k + 1, size):
            factor = v[k, i]
            for j in range(i, size):
                v[i, j] -= factor * v[k, j]
    for i in range(size):  # X = U'^-1, lower, row by row
        for j in range(i):
            inverse[i, j] = 0.0
        scale = 1.0 / v[i, i]
        for k in range(i):
            factor = v[k, i]
            for j in range(k + 1):
                inverse[i, j] -= factor * inverse[k, j]
        for j in range(i):
            inverse[i, j] *= scale
        inverse[i, i] = scale
    for i in range(size):
        for j in range(i + 1):
            v[i, j] = 0.0
    for k in range(size):  # V^-1 = X'X, into the lower triangle of v
        for i in range(k + 1):
            factor = inverse[k, i]
            for j in range(i + 1):
                v[i, j] += factor * inverse[k, j]
    for i in range(size):
        for j in range(i + 1):
            inverse[i, j] = v[i, j]
            inverse[j, i] = v[i, j]
    return log_determinant


@inner()
def pull_back_pairs(g: int, groups: Groups, work: Scratch) -> None:
    """From the pulls on M and on C's normal part to those on S and N."""
    size, n = groups.size[g], groups.n[g]
    work.by_s.fill(0.0)
    work.by_n.fill(0.0)
    for p in range(size):
        a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
        work.by_s[a, b] += n * work.pull[p]
        work.by_n[a, b] += n * work.pull[p]
        for q in range(p + 1):
            c, d = groups.pairs[g, q, 0], groups.pairs[g, q, 1]
            h = (0.5 if p == q else 1.0) * n * work.grip[p, q]
            ac, bd, ad, bc = work.s[a, c], work.s[b, d], work.s[a, d], work.s[b, c]
            work.by_s[a, c] += h * (bd + work.n[b, d])
            work.by_s[b, d] += h * (ac + work.n[a, c])
            work.by_s[a, d] += h * (bc + work.n[b, c])
            work.by_s[b, c] += h * (ad + work.n[a, d])
            work.by_n[b, d] += h * ac
            work.by_n[a, c] += h * bd
            work.by_n[b, c] += h * ad
            work.by_n[a, d] += h * bc


@inner()
def pull_back_normal(g: int, groups: Groups, work: Scratch) -> None:
    """From the pulls on M and C to those on sqrt(k) P m and P B."""
    pull_back_pairs(g, groups, work)
    m, d1 = work.spread.shape
    for a in range(m):
        total = 0.0
        for b in range(m):
            total += (work.by_n[a, b] + work.by_n[b, a]) * work.holder_mean[b]
        work.by_holder_mean[a] = total
        for j in range(d1):
            total = 0.0
            for b in range(m):
                total += (work.by_s[a, b] + work.by_s[b, a]) * work.holder_spread[b, j]
            work.by_holder_spread[a, j] = total


@inner()
def add_mapped(mapping: Floats, root: float, work: Scratch) -> None:
    """Add P' times the pulls on a holder's mean (root P m) and spread to those on m and B."""
    m, d1 = work.spread.shape
    for a in range(m):
        for b in range(m):
            factor = mapping[a, b]
            if factor != 0.0:
                work.by_mean[b] += root * factor * work.by_holder_mean[a]
                for j in range(d1):
                    work.by_spread[b, j] += factor * work.by_holder_spread[a, j]


normal_walk = walk_of(normal_density, "regression_walk")


def make_data(belief: Belief, groups: Groups, members: Members) -> Data:
    """Everything a density needs, with its scratch."""
    q, d, m, size = len(belief.mean), len(belief.location), len(belief.mean) + 1, groups.pairs.shape[1]
    shapes = [
        (q,), (q,), (d, d), (d,), (d, d), (d,), (d, d), (max(d, 1), max(d, 1)), (m,), (m, d + 1), (m,), (m, d + 1),
        (m,), (m, d + 1), (m, m), (m, m), (m, m), (m, m), (m,), (m, d + 1), (size, size), (size, size), (size, size),
        (size,), (size, size), (size,), (size,), (size,), (size,),
    ]  # fmt: skip
    return Data(belief, groups, members, Scratch(*(np.zeros(shape) for shape in shapes)))
