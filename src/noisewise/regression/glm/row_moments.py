"""M and C of a row (1, x, y) within one combination of yes/no features, whatever the link; and the way back.

Within a combination x = mu + F e, e ~ N(0, I), and y depends on x through s = theta_0 + theta' x alone. With
b = F' theta, sigma = |b|, u = b/sigma and t = u' e:
    s = m + sigma t,      x = mu + h t + r,      h = F u,     r ~ N(0, R), R = F F' - h h', independent of (t, y),
so the row is G q + r with q = (1, t, y): a polynomial in two scalars plus a normal rest. For a holder's row
P (1, x, y), H = P G and S = P R P', and pi_ab the six coefficients of (H_a q)(H_b q) in q~ = (1, t, y, t^2, ty, y^2),
    M_ab = pi_ab' E q~ + S_ab,      E q~ and E q~ q~' made of the fifteen T_ij (links.py),
    C_ab,cd = pi_ab' Cov(q~) pi_cd + S_ac S_bd + S_ad S_bc + S_ac B_bd + S_bd B_ac + S_ad B_bc + S_bc B_ad
with B = H E qq' H', exactly. The gradient goes back the same way.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner
from noisewise.regression.glm.links import ORDER, scalar_moments
from noisewise.regression.moments import normal_covariance_at
from noisewise.types import Floats, Integers

# The powers of t and y in the six products of (1, t, y).
OF_T = np.array([0, 1, 0, 2, 1, 0])
OF_Y = np.array([0, 0, 1, 0, 1, 2])
SMALLEST = 1e-9  # a sigma below which s is taken to be that large: its direction is lost in rounding


class RowScratch(NamedTuple):
    """What is known of one combination, and the pulls on it; d features, k numbers, m = d + 2 entries, K pairs."""

    scalars: Floats  # (4,): m, sigma, share kept, and the pull on log of that share
    unit: Floats  # (k,): u
    along: Floats  # (d,): h
    rest: Floats  # (d, d): R
    moment: Floats  # (5, 5): T, and its slopes
    by_m: Floats
    by_sigma: Floats
    rows: Floats  # (m, 3): H
    spread: Floats  # (m, m): S
    square: Floats  # (m, m): B
    products: Floats  # (K, 6): pi
    first: Floats  # (K,): pi' E q~
    turned: Floats  # (K, 6): pi Cov(q~)
    pull_products: Floats  # (K, 6)
    pull_rows: Floats  # (m, 3)
    pull_spread: Floats  # (m, m)
    pull_square: Floats
    pull_moment: Floats  # (5, 5)
    pull_along: Floats  # (d,)
    pull_rest: Floats  # (d, d)
    pull_b: Floats  # (k,)


def row_scratch(features: int, numbers: int, pairs: int) -> RowScratch:
    """Arrays of the right sizes."""
    d, k, m = features, numbers, features + 2
    shapes = [
        (4,),
        (k,),
        (d,),
        (d, d),
        (ORDER, ORDER),
        (ORDER, ORDER),
        (ORDER, ORDER),
        (m, 3),
        (m, m),
        (m, m),
        (pairs, 6),
        (pairs,),
        (pairs, 6),
        (pairs, 6),
        (m, 3),
        (m, m),
        (m, m),
        (ORDER, ORDER),
        (d,),
        (d, d),
        (k,),
    ]
    return RowScratch(*(np.zeros(shape) for shape in shapes))


@inner()
def split_row(theta: Floats, mean: Floats, factor: Floats, response: Floats, own: RowScratch) -> float:
    """m, sigma, u, h, R and T of x = mean + factor e; returns the share of rows that were kept.

    `response` is the link's code, the cap of a count, and whether records above it were refused.
    """
    d, k = factor.shape
    middle, size = theta[0], 0.0
    for i in range(d):
        middle += theta[1 + i] * mean[i]
    for j in range(k):
        total = 0.0
        for i in range(d):
            total += factor[i, j] * theta[1 + i]
        own.unit[j] = total
        size += total * total
    sigma = math.sqrt(size)
    if 0.0 < sigma < SMALLEST or (sigma == 0.0 and k > 0):
        sigma = SMALLEST
    for j in range(k):
        own.unit[j] /= sigma
    for i in range(d):
        total = 0.0
        for j in range(k):
            total += factor[i, j] * own.unit[j]
        own.along[i] = total
    for a in range(d if k else 0):
        for b in range(d):
            total = 0.0
            for j in range(k):
                total += factor[a, j] * factor[b, j]
            own.rest[a, b] = total - own.along[a] * own.along[b]
    own.scalars[0], own.scalars[1] = middle, sigma
    own.scalars[2] = scalar_moments(response, middle, sigma, own.moment, own.by_m, own.by_sigma)
    return float(own.scalars[2])


@inner()
def write_moments(
    mapping: Floats, pairs: Integers, size: int, mean: Floats, own: RowScratch, second: Floats, fourth: Floats
) -> None:
    """M (size,) and C (size, size) of a holder's products, after `split_row`."""
    m, d = own.rows.shape[0], len(mean)
    for a in range(m):
        own.rows[a, 0], own.rows[a, 1], own.rows[a, 2] = mapping[a, 0], 0.0, mapping[a, m - 1]
        for i in range(d):
            own.rows[a, 0] += mapping[a, 1 + i] * mean[i]
            own.rows[a, 1] += mapping[a, 1 + i] * own.along[i]
    for a in range(m if len(own.unit) else 0):  # without numbers nothing is left beside (t, y)
        for b in range(a + 1):
            total = 0.0
            for i in range(d):
                inner = 0.0
                for j in range(d):
                    inner += own.rest[i, j] * mapping[b, 1 + j]
                total += mapping[a, 1 + i] * inner
            own.spread[a, b] = own.spread[b, a] = total
            own.square[a, b] = own.square[b, a] = _square(own.rows[a], own.rows[b], own.moment)
    if len(own.unit):
        normal_covariance_at(own.spread, own.square, pairs, size, fourth)
    else:
        fourth.fill(0.0)
    for r in range(size):
        _coefficients(own.rows[pairs[r, 0]], own.rows[pairs[r, 1]], own.products[r])
        own.first[r] = 0.0
        for x in range(6):
            own.first[r] += own.products[r, x] * own.moment[OF_T[x], OF_Y[x]]
        second[r] = own.first[r] + own.spread[pairs[r, 0], pairs[r, 1]]
        for x in range(6):
            total = 0.0
            for z in range(6):
                total += own.products[r, z] * _covariance(own.moment, x, z)
            own.turned[r, x] = total
    for r in range(size):
        for q in range(r + 1):
            total = fourth[r, q]
            for x in range(6):
                total += own.turned[r, x] * own.products[q, x]
            fourth[r, q] = fourth[q, r] = total


@inner()
def _square(one: Floats, other: Floats, moment: Floats) -> float:
    """one' E qq' other."""
    return float(
        one[0] * other[0]
        + (one[0] * other[1] + one[1] * other[0]) * moment[1, 0]
        + (one[0] * other[2] + one[2] * other[0]) * moment[0, 1]
        + one[1] * other[1] * moment[2, 0]
        + (one[1] * other[2] + one[2] * other[1]) * moment[1, 1]
        + one[2] * other[2] * moment[0, 2]
    )


@inner()
def _coefficients(one: Floats, other: Floats, products: Floats) -> None:
    """Of (one' q)(other' q) in 1, t, y, t^2, ty, y^2."""
    products[0] = one[0] * other[0]
    products[1] = one[0] * other[1] + one[1] * other[0]
    products[2] = one[0] * other[2] + one[2] * other[0]
    products[3] = one[1] * other[1]
    products[4] = one[1] * other[2] + one[2] * other[1]
    products[5] = one[2] * other[2]


@inner()
def _covariance(moment: Floats, x: int, z: int) -> float:
    """Cov of two of the six products."""
    joint = moment[OF_T[x] + OF_T[z], OF_Y[x] + OF_Y[z]]
    return float(joint - moment[OF_T[x], OF_Y[x]] * moment[OF_T[z], OF_Y[z]])


@inner()
def begin_pulls(own: RowScratch) -> None:
    """No pull yet on T, h, R and the share kept; several holders' are added up."""
    own.pull_moment.fill(0.0)
    own.pull_along.fill(0.0)
    own.pull_rest.fill(0.0)
    own.scalars[3] = 0.0


@inner()
def pull_moments(
    mapping: Floats, pairs: Integers, size: int, pull: Floats, grip: Floats, own: RowScratch, by_mean: Floats
) -> None:
    """From pulls on M and on C (half of <grip, dC>) to those on mu, h, R and T; after `write_moments`."""
    _pull_products(size, pull, grip, own)
    own.pull_rows.fill(0.0)
    own.pull_spread.fill(0.0)
    own.pull_square.fill(0.0)
    for r in range(size):
        a, b = pairs[r, 0], pairs[r, 1]
        own.pull_spread[a, b] += pull[r]
        _pull_coefficients(own.pull_products[r], own.rows[a], own.rows[b], own.pull_rows[a], own.pull_rows[b])
        for q in range(r + 1 if len(own.unit) else 0):
            c, d = pairs[q, 0], pairs[q, 1]
            h = (0.5 if r == q else 1.0) * grip[r, q]
            ac, bd, ad, bc = own.spread[a, c], own.spread[b, d], own.spread[a, d], own.spread[b, c]
            own.pull_spread[a, c] += h * (bd + own.square[b, d])
            own.pull_spread[b, d] += h * (ac + own.square[a, c])
            own.pull_spread[a, d] += h * (bc + own.square[b, c])
            own.pull_spread[b, c] += h * (ad + own.square[a, d])
            own.pull_square[b, d] += h * ac
            own.pull_square[a, c] += h * bd
            own.pull_square[b, c] += h * ad
            own.pull_square[a, d] += h * bc
    m, count = own.rows.shape[0], len(own.along)
    for a in range(m if len(own.unit) else 0):
        for b in range(m):
            _pull_square(
                own.pull_square[a, b],
                own.rows[a],
                own.rows[b],
                own.moment,
                own.pull_rows[a],
                own.pull_rows[b],
                own.pull_moment,
            )
    for a in range(m):
        for i in range(count):
            by_mean[i] += mapping[a, 1 + i] * own.pull_rows[a, 0]
            own.pull_along[i] += mapping[a, 1 + i] * own.pull_rows[a, 1]
            for b in range(m if len(own.unit) else 0):
                for j in range(count):
                    own.pull_rest[i, j] += mapping[a, 1 + i] * own.pull_spread[a, b] * mapping[b, 1 + j]


@inner(allocates=True)
def _pull_products(size: int, pull: Floats, grip: Floats, own: RowScratch) -> None:
    """The pulls on pi and, through the means and covariances of the six products, on T."""
    joint, mean, gripped = np.zeros((6, 6)), np.zeros(6), np.zeros(6)
    for r in range(size):
        gripped.fill(0.0)
        for x in range(6):
            own.pull_products[r, x] = pull[r] * own.moment[OF_T[x], OF_Y[x]]
            mean[x] += pull[r] * own.products[r, x]
        for q in range(size):
            for x in range(6):
                own.pull_products[r, x] += grip[r, q] * own.turned[q, x]
                gripped[x] += grip[r, q] * own.products[q, x]
        for x in range(6):
            for z in range(6):
                joint[x, z] += 0.5 * own.products[r, x] * gripped[z]
    for x in range(6):
        for z in range(6):
            own.pull_moment[OF_T[x] + OF_T[z], OF_Y[x] + OF_Y[z]] += joint[x, z]
            mean[x] -= (joint[x, z] + joint[z, x]) * own.moment[OF_T[z], OF_Y[z]]
    for x in range(6):
        own.pull_moment[OF_T[x], OF_Y[x]] += mean[x]


@inner()
def _pull_coefficients(pull: Floats, one: Floats, other: Floats, by_one: Floats, by_other: Floats) -> None:
    """The way back through `_coefficients`."""
    by_one[0] += pull[0] * other[0] + pull[1] * other[1] + pull[2] * other[2]
    by_one[1] += pull[1] * other[0] + pull[3] * other[1] + pull[4] * other[2]
    by_one[2] += pull[2] * other[0] + pull[4] * other[1] + pull[5] * other[2]
    by_other[0] += pull[0] * one[0] + pull[1] * one[1] + pull[2] * one[2]
    by_other[1] += pull[1] * one[0] + pull[3] * one[1] + pull[4] * one[2]
    by_other[2] += pull[2] * one[0] + pull[4] * one[1] + pull[5] * one[2]


@inner(allocates=True)
def _pull_square(
    pull: float, one: Floats, other: Floats, moment: Floats, by_one: Floats, by_other: Floats, by_moment: Floats
) -> None:
    """The way back through `_square`."""
    own, pulls = np.empty(6), np.empty(6)
    _coefficients(one, other, own)
    for x in range(6):
        pulls[x] = pull * moment[OF_T[x], OF_Y[x]]
        by_moment[OF_T[x], OF_Y[x]] += pull * own[x]
    _pull_coefficients(pulls, one, other, by_one, by_other)


@inner()
def pull_split(
    theta: Floats, mean: Floats, factor: Floats, own: RowScratch, by_theta: Floats, by_mean: Floats, by_factor: Floats
) -> None:
    """From the pulls on T, h, R and the log share kept to those on theta, mu and F."""
    d, k = factor.shape
    by_middle = own.scalars[3] * own.by_m[0, 0]
    by_sigma = own.scalars[3] * own.by_sigma[0, 0]
    for i in range(ORDER):
        for j in range(ORDER - i):
            if i + j > 0:
                by_middle += own.pull_moment[i, j] * own.by_m[i, j]
                by_sigma += own.pull_moment[i, j] * own.by_sigma[i, j]
    for a in range(d if k else 0):  # R = F F' - h h'
        for b in range(d):
            both = own.pull_rest[a, b] + own.pull_rest[b, a]
            own.pull_along[a] -= both * own.along[b]
            for j in range(k):
                by_factor[a, j] += both * factor[b, j]
    inner = 0.0
    for j in range(k):  # h = F u
        total = 0.0
        for i in range(d):
            by_factor[i, j] += own.pull_along[i] * own.unit[j]
            total += factor[i, j] * own.pull_along[i]
        own.pull_b[j] = total
        inner += total * own.unit[j]
    for j in range(k):  # b = sigma u
        own.pull_b[j] = by_sigma * own.unit[j] + (own.pull_b[j] - inner * own.unit[j]) / own.scalars[1]
        for i in range(d):
            by_factor[i, j] += theta[1 + i] * own.pull_b[j]
            by_theta[1 + i] += factor[i, j] * own.pull_b[j]
    by_theta[0] += by_middle
    for i in range(d):
        by_theta[1 + i] += by_middle * mean[i]
        by_mean[i] += by_middle * theta[1 + i]
