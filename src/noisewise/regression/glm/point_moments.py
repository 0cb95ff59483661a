"""M and C of rows whose features take known values: points x_c with shares p_c, and the way back. No numbers are left.

At a point y alone is random, and each product is a polynomial in it, a row's entries being a_e + b_e y:
    w_a w_b = q_0 + q_1 y + q_2 y^2,        M = sum_c p_c E(w_a w_b | c),
    C = sum_c p_c (M_c - M)(M_c - M)' + sum_c p_c (q_1 q_1' v_11 + (q_1 q_2' + q_2 q_1') v_12 + q_2 q_2' v_22)
with v the covariances of (y, y^2) at c. It is what `row_moments` has for no numbers, at a twentieth of its cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisewise.compilation import inner
from noisewise.regression.glm.links import scalar_moments
from noisewise.regression.glm.row_moments import RowScratch
from noisewise.types import Floats, Integers

if TYPE_CHECKING:
    from noisewise.regression.glm.density import Shared


@inner()
def write_point(
    theta: Floats, mean: Floats, mapping: Floats, pairs: Integers, size: int, response: Floats, own: RowScratch
) -> float:
    """q_0, q_1, q_2 (in own.products) and the moments of y at one point; returns the share of rows that were kept."""
    m, d, s = own.rows.shape[0], len(mean), theta[0]
    for i in range(d):
        s += theta[1 + i] * mean[i]
    for a in range(m):
        value = mapping[a, 0]
        for i in range(d):
            if mapping[a, 1 + i] != 0.0:
                value += mapping[a, 1 + i] * mean[i]
        own.rows[a, 0], own.rows[a, 2] = value, mapping[a, m - 1]
    for r in range(size):
        a, b = pairs[r, 0], pairs[r, 1]
        own.products[r, 0] = own.rows[a, 0] * own.rows[b, 0]
        own.products[r, 1] = own.rows[a, 0] * own.rows[b, 2] + own.rows[a, 2] * own.rows[b, 0]
        own.products[r, 2] = own.rows[a, 2] * own.rows[b, 2]
    return float(scalar_moments(response, s, 0.0, own.moment, own.by_m, own.by_sigma))


@inner()
def point_moments(
    mapping: Floats, pairs: Integers, size: int, response: Floats, shared: Shared, own: RowScratch, covariance: Floats
) -> bool:
    """Write the shares among rows that were kept (C,), M_c (C, size), M and C; False where no row would be kept."""
    theta, mean, share = shared.theta, shared.mean, shared.share
    kept, second, middle = shared.kept, shared.second, shared.middle
    covariance.fill(0.0)
    total = 0.0
    for c in range(len(share)):
        part = write_point(theta, mean[c], mapping, pairs, size, response, own)
        if not part > 0.0:
            return False
        kept[c] = share[c] * part
        total += kept[c]
        m1, m2 = own.moment[0, 1], own.moment[0, 2]
        v11, v12, v22 = m2 - m1 * m1, own.moment[0, 3] - m1 * m2, own.moment[0, 4] - m2 * m2
        for r in range(size):
            one, two = own.products[r, 1], own.products[r, 2]
            second[c, r] = own.products[r, 0] + one * m1 + two * m2
            if one == 0.0 and two == 0.0:
                continue
            for t in range(r + 1):
                other, square = own.products[t, 1], own.products[t, 2]
                covariance[r, t] += kept[c] * (
                    one * other * v11 + (one * square + two * other) * v12 + two * square * v22
                )
    if not total > 0.0:
        return False
    for r in range(size):
        middle[r] = 0.0
        for c in range(len(share)):
            middle[r] += kept[c] * second[c, r] / total
        for t in range(r + 1):
            covariance[r, t] /= total
    for c in range(len(share)):
        kept[c] /= total
        for r in range(size):
            away = kept[c] * (second[c, r] - middle[r])
            for t in range(r + 1):
                covariance[r, t] += away * (second[c, t] - middle[t])
    for r in range(size):
        for t in range(r):
            covariance[t, r] = covariance[r, t]
    return True


@inner(allocates=True)
def pull_points(
    n: float,
    mapping: Floats,
    pairs: Integers,
    size: int,
    response: Floats,
    pull: Floats,
    grip: Floats,
    shared: Shared,
    own: RowScratch,
) -> None:
    """From pulls on M and on C (half of <grip, dC>) to those on theta and the log shares."""
    theta, mean, kept, second, middle = shared.theta, shared.mean, shared.kept, shared.second, shared.middle
    count = len(kept)
    totals, by_s, by_kept = np.empty(count), np.empty(count), np.empty(count)
    gripped, average = np.empty(size), 0.0
    for c in range(count):
        write_point(theta, mean[c], mapping, pairs, size, response, own)
        total, along = 0.0, 0.0
        q11, q12, q22 = 0.0, 0.0, 0.0
        m1, m2, m3, m4 = own.moment[0, 1], own.moment[0, 2], own.moment[0, 3], own.moment[0, 4]
        d1, d2, d3, d4 = own.by_m[0, 1], own.by_m[0, 2], own.by_m[0, 3], own.by_m[0, 4]
        for r in range(size):
            gripped[r] = 0.0
            for t in range(size):
                gripped[r] += grip[r, t] * (second[c, t] - middle[t])
            total += pull[r] * second[c, r] + 0.5 * gripped[r] * (second[c, r] - middle[r])
            one, two = own.products[r, 1], own.products[r, 2]
            along += (pull[r] + gripped[r]) * (one * d1 + two * d2)
            if one == 0.0 and two == 0.0:
                continue
            for t in range(size):
                q11 += grip[r, t] * one * own.products[t, 1]
                q12 += grip[r, t] * one * own.products[t, 2]
                q22 += grip[r, t] * two * own.products[t, 2]
        total += 0.5 * (q11 * (m2 - m1 * m1) + 2.0 * q12 * (m3 - m1 * m2) + q22 * (m4 - m2 * m2))
        along += 0.5 * q11 * (d2 - 2.0 * m1 * d1) + q12 * (d3 - d1 * m2 - m1 * d2) + 0.5 * q22 * (d4 - 2.0 * m2 * d2)
        totals[c], by_s[c], by_kept[c] = n * total, n * kept[c] * along, own.by_m[0, 0]
        average += kept[c] * totals[c]
    for c in range(count):
        by_share = kept[c] * (totals[c] - average)
        shared.by_log_share[c] += by_share
        down = by_s[c] + by_share * by_kept[c]
        shared.by_theta[0] += down
        for i in range(mean.shape[1]):
            shared.by_theta[1 + i] += down * mean[c, i]
