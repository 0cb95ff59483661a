"""Moments of rows that were clamped to bounds or shortened to a norm before they were multiplied.

    r = P (m + B z), z ~ N(0, I);   s = c clamp(r),  c = min(1, R/|clamp(r)|);   M = E s s',  C = Cov(s_a s_b, s_c s_d)
by a fixed bank of quasi-random z (scrambled Sobol, with -z beside z): the same z for all parameters, so that moments
are smooth in them, with gradient by the chain rule. The points' weights are moved from 1/B just enough that all moments
of z up to the fourth are those of N(0, I): where nothing is shortened the bank *is* the closed form, and C is a
covariance, so positive, however much is. (In many dimensions there are too many fourth moments for that; then up to
the second.)

Blocks of k rows, v = (s_1 + .. + s_k)/sqrt k, with mean e and covariance S of a row (Hoeffding 1948):
    M_v = M + (k - 1) e e',   C_v = Cov(f)/k + (1 - 1/k)(S_ac S_bd + S_ad S_bc),
    f_ab = s_a s_b + (k - 1)(s_a e_b + e_a s_b)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner, njit
from noisewise.regression.groups import Groups
from noisewise.regression.points import base_points
from noisewise.types import Floats

POINTS = {2: 2048, 3: 2048, 4: 2048, 5: 2048}
MOST_POINTS = 4096


class Bank(NamedTuple):
    """Base points, and room for what one evaluation computes at them."""

    z: Floats  # (B, d + 1)
    weights: Floats  # (B,)
    rows: Floats  # (B, m): s
    factors: Floats  # (B,): c
    is_free: Floats  # (B, m): 0 where an entry was clamped, else 1
    products: Floats  # (B K,): f less its mean, (B, size) as a matrix
    weighted: Floats  # (B K,): those times weights, or times the pull on C
    mean: Floats  # (m,): e
    by_mean: Floats
    by_second: Floats  # (m, m)


def make_bank(dimension: int, *, m: int, pairs: int, points: int | None = None) -> Bank:
    """A bank for rows of m entries that are functions of `dimension` normal variables; none where points = 0."""
    count = POINTS.get(dimension, MOST_POINTS) if points is None else points
    z, weights = base_points(dimension, count) if count else (np.zeros((0, dimension)), np.zeros(0))
    return Bank(
        z, weights, np.zeros((count, m)), np.zeros(count), np.zeros((count, m)), np.zeros(count * pairs),
        np.zeros(count * pairs), np.zeros(m), np.zeros(m), np.zeros((m, m)),
    )  # fmt: skip


@njit(cache=True)
def shorten_rows(g: int, groups: Groups, bank: Bank, mean: Floats, spread: Floats, first: int) -> float:
    """Write the rows s of the bank; returns the share of them that were changed."""
    size, d1 = spread.shape
    changed = 0.0
    for i in range(len(bank.z)):
        square, is_changed = 0.0, False
        for a in range(size):
            entry = mean[a]
            for j in range(d1):
                entry += spread[a, j] * bank.z[i, j]
            kept = min(max(entry, groups.low[g, a]), groups.high[g, a])
            bank.is_free[i, a] = 1.0 if kept == entry else 0.0
            is_changed = is_changed or kept != entry
            bank.rows[i, a] = kept
            if a >= first:
                square += kept * kept
        factor = 1.0
        if square > groups.radius[g] ** 2:
            factor = groups.radius[g] / math.sqrt(square)
            is_changed = True
            for a in range(first, size):
                bank.rows[i, a] *= factor
        bank.factors[i] = factor
        changed += bank.weights[i] * is_changed
    return changed


@inner(allocates=True)
def bank_moments(
    g: int, groups: Groups, bank: Bank, mean: Floats, spread: Floats, first: int, second: Floats, covariance: Floats
) -> None:
    """Write M_v (m, m) and C_v at the group's pairs, for rows (or blocks of rows) that are shortened."""
    shorten_rows(g, groups, bank, mean, spread, first)
    size, k, points, m = groups.size[g], groups.block[g], len(bank.z), len(mean)
    bank.mean.fill(0.0)
    second.fill(0.0)
    for i in range(points):
        w = bank.weights[i]
        for a in range(m):
            bank.mean[a] += w * bank.rows[i, a]
            for b in range(a + 1):
                second[a, b] += w * bank.rows[i, a] * bank.rows[i, b]
    for a in range(m):
        for b in range(a + 1):
            second[b, a] = second[a, b]
    products = bank.products[: points * size].reshape(points, size)
    weighted = bank.weighted[: points * size].reshape(points, size)
    for i in range(points):
        for p in range(size):
            a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
            u, v, mu, mv = bank.rows[i, a], bank.rows[i, b], bank.mean[a], bank.mean[b]
            value = u * v - second[a, b] + (k - 1.0) * (u * mv + mu * v - 2.0 * mu * mv)
            products[i, p] = value
            weighted[i, p] = bank.weights[i] * value / k
    scatter = np.dot(weighted.T, products)
    for p in range(size):
        for q in range(size):
            covariance[p, q] = scatter[p, q]
    if k > 1.0:
        for p in range(size):
            for q in range(size):
                covariance[p, q] += (1.0 - 1.0 / k) * paired(g, p, q, groups, bank.mean, second)
        for a in range(m):
            for b in range(m):
                second[a, b] += (k - 1.0) * bank.mean[a] * bank.mean[b]


@inner()
def paired(g: int, p: int, q: int, groups: Groups, mean: Floats, second: Floats) -> float:
    """S_ac S_bd + S_ad S_bc with S = M - e e' of one row."""
    a, b, c, d = groups.pairs[g, p, 0], groups.pairs[g, p, 1], groups.pairs[g, q, 0], groups.pairs[g, q, 1]
    ac, bd = second[a, c] - mean[a] * mean[c], second[b, d] - mean[b] * mean[d]
    ad, bc = second[a, d] - mean[a] * mean[d], second[b, c] - mean[b] * mean[c]
    value: float = ac * bd + ad * bc
    return value


@inner(allocates=True)
def pull_back_bank(
    g: int, groups: Groups, bank: Bank, first: int, pull: Floats, grip: Floats, second: Floats, by_mean: Floats,
    by_spread: Floats,
) -> None:  # fmt: skip
    """From the pulls on M_v and C_v (before the factor n) to those on P m and P B; `bank_moments` came before."""
    size, n, k, points, m = groups.size[g], groups.n[g], groups.block[g], len(bank.z), len(by_mean)
    products = bank.products[: points * size].reshape(points, size)
    pulled = bank.weighted[: points * size].reshape(points, size)
    own_grip = np.empty((size, size))
    for p in range(size):
        for q in range(size):
            own_grip[p, q] = grip[p, q]
    np.dot(products, own_grip, pulled)  # d log p / d f_i = (n w_i / k) G (f_i - E f)
    pull_back_means(g, groups, pull, grip, second, bank.mean, bank.by_mean, bank.by_second)
    if k > 1.0:
        for i in range(points):
            w = (k - 1.0) * n / k * bank.weights[i]
            for p in range(size):
                a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
                bank.by_mean[b] += w * pulled[i, p] * bank.rows[i, a]
                bank.by_mean[a] += w * pulled[i, p] * bank.rows[i, b]
    by_mean.fill(0.0)
    by_spread.fill(0.0)
    by_row = np.empty(m)
    for i in range(points):
        w = bank.weights[i]
        for a in range(m):
            by_row[a] = w * bank.by_mean[a]
            for b in range(m):
                by_row[a] += w * (bank.by_second[a, b] + bank.by_second[b, a]) * bank.rows[i, b]
        for p in range(size):
            a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
            h = n / k * w * pulled[i, p]
            by_row[a] += h * (bank.rows[i, b] + (k - 1.0) * bank.mean[b])
            by_row[b] += h * (bank.rows[i, a] + (k - 1.0) * bank.mean[a])
        _pull_back_row(i, groups.radius[g], bank, first, by_row)
        for a in range(m):
            by_mean[a] += by_row[a]
            for j in range(by_spread.shape[1]):
                by_spread[a, j] += by_row[a] * bank.z[i, j]


@inner(allocates=True)
def pull_back_means(
    g: int, groups: Groups, pull: Floats, grip: Floats, second: Floats, mean: Floats, by_mean: Floats, by_second: Floats
) -> None:
    """Pulls on e and E s s' through M_v = M + (k-1) e e' and through S."""
    size, n, k, m = groups.size[g], groups.n[g], groups.block[g], len(mean)
    by_mean.fill(0.0)
    by_second.fill(0.0)
    for p in range(size):
        a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
        by_second[a, b] += n * pull[p]
        by_mean[a] += (k - 1.0) * n * pull[p] * mean[b]
        by_mean[b] += (k - 1.0) * n * pull[p] * mean[a]
    if k == 1.0:
        return
    by_centred = np.zeros((m, m))  # second holds M_v here, so S = M_v - k e e'
    for p in range(size):
        a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
        for q in range(size):
            c, d = groups.pairs[g, q, 0], groups.pairs[g, q, 1]
            h = 0.5 * n * (1.0 - 1.0 / k) * grip[p, q]
            by_centred[a, c] += h * (second[b, d] - k * mean[b] * mean[d])
            by_centred[b, d] += h * (second[a, c] - k * mean[a] * mean[c])
            by_centred[a, d] += h * (second[b, c] - k * mean[b] * mean[c])
            by_centred[b, c] += h * (second[a, d] - k * mean[a] * mean[d])
    for a in range(m):
        for b in range(m):
            by_second[a, b] += by_centred[a, b]
            by_mean[a] -= (by_centred[a, b] + by_centred[b, a]) * mean[b]


@inner()
def _pull_back_row(i: int, radius: float, bank: Bank, first: int, by_row: Floats) -> None:
    """Through s = c clamp(r): along the row nothing passes where it was shortened, nor where it was clamped."""
    factor, m = bank.factors[i], len(by_row)
    if factor < 1.0:
        along = 0.0
        for a in range(first, m):
            along += by_row[a] * bank.rows[i, a] / radius
        for a in range(first, m):
            by_row[a] = factor * (by_row[a] - along * bank.rows[i, a] / radius)
    for a in range(m):
        by_row[a] *= bank.is_free[i, a]
