"""Moments of rows that were shortened to a norm R: exact along each direction, a smooth quadrature over directions.

r = B z with z ~ N(h, I), h = B^-1 mean. Along a direction v of z the row is t b, b = B v, shortened beyond T = R/|b|:
    E g(s) = sum over v of w_v [ int_0^T g(t b) p(t) dt + g(T b) int_T^oo p(t) dt ],
    p(t) = c t^(D-1) exp(-t^2/2 + t v'h - |h|^2/2),   c = 2^(1 - D/2)/Gamma(D/2)
so that monomials of degree k need only J_k = int_0^T t^k p + T^k int_T^oo p, whose slopes are simple: dJ_k/dT =
k T^(k-1) int_T^oo p, dJ_k/d(v'h) = int_0^T t^(k+1) p + T^k int_T^oo t p. No kink is left to integrate over: for one
covariate a few dozen angles do, for two a product rule on the sphere, both gathered round h where that is long. In more
dimensions directions come as often as they should (sphere.py), and p is divided by its integral. Either way weights sum
to 1, so C is a covariance and positive. Blocks of k rows as in shortened.py.

Where numbers overflow there are no moments: that is said, and the density is 0 there (changed.py).
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import inner
from noisewise.regression.groups import Groups
from noisewise.regression.shortened import paired, pull_back_means
from noisewise.regression.sphere import (
    FEW_NODES,
    NODES,
    Sphere,
    gather,
    pull_back_axis,
    pull_back_gather,
    pull_back_tilt,
    tilt,
)
from noisewise.types import Floats

# Less than this to be integrated over takes the shorter rule.
SHORT = 2.5
# This far from its peak t^(D+1) p(t) has no mass that would show: its standard deviation is 0.7 at h = 0, 1 far off.
REACH = 6.5


@inner(allocates=True)
def radial_moments(
    g: int, groups: Groups, sphere: Sphere, mean: Floats, spread: Floats, first: int, second: Floats, covariance: Floats
) -> bool:
    """Write M_v (m, m) and C_v at the group's pairs, for rows (or blocks of rows) shortened to the group's norm.

    False where they are beyond what numbers can hold; then nothing is written.
    """
    size, k, m, n = groups.size[g], groups.block[g], len(mean), len(sphere.weights)
    if not _integrate(groups.radius[g], sphere, mean, spread, first):
        return False
    sphere.mean.fill(0.0)
    second.fill(0.0)
    total = sphere.totals[0]
    for v in range(n):
        w = sphere.weights[v] / total
        for a in range(first, m):
            sphere.mean[a] += w * sphere.powers[v, 1] * sphere.rows[v, a - first]
            for b in range(first, a + 1):
                second[a, b] += w * sphere.powers[v, 2] * sphere.rows[v, a - first] * sphere.rows[v, b - first]
    for a in range(m):
        if first:
            sphere.mean[0] = 1.0
            second[a, 0] = sphere.mean[a]
        for b in range(a):
            second[b, a] = second[a, b]
    linear, square = sphere.linear[: n * size].reshape(n, size), sphere.square[: n * size].reshape(n, size)
    one, two = sphere.one[: n * size].reshape(n, size), sphere.two[: n * size].reshape(n, size)
    _coefficients(g, groups, sphere, first, linear, square)
    for v in range(n):
        w = sphere.weights[v] / total
        for p in range(size):
            one[v, p] = w * (sphere.powers[v, 2] * linear[v, p] + sphere.powers[v, 3] * square[v, p])
            two[v, p] = w * (sphere.powers[v, 3] * linear[v, p] + sphere.powers[v, 4] * square[v, p])
    scatter = np.dot(linear.T, one) + np.dot(square.T, two)
    for p in range(size):
        for q in range(size):
            product = _product_mean(g, p, groups, sphere, second, first) * _product_mean(
                g, q, groups, sphere, second, first
            )
            covariance[p, q] = (scatter[p, q] - product) / k
            if k > 1.0:
                covariance[p, q] += (1.0 - 1.0 / k) * paired(g, p, q, groups, sphere.mean, second)
    if k > 1.0:
        for a in range(m):
            for b in range(m):
                second[a, b] += (k - 1.0) * sphere.mean[a] * sphere.mean[b]
    return True


@inner(allocates=True, error_model="numpy")
def _integrate(radius: float, sphere: Sphere, mean: Floats, spread: Floats, first: int) -> bool:
    """h, and along each direction b, T, the inner and outer integrals, and J_k; False where one is not a number."""
    n, size = sphere.directions.shape
    for i in range(size):  # B h = mean, B lower triangular
        value = mean[first + i]
        for j in range(i):
            value -= spread[first + i, j] * sphere.centre[j]
        sphere.centre[i] = value / spread[first + i, i]
    if sphere.is_tilted:
        tilt(sphere)
    else:
        gather(sphere)
    log_constant = 0.0 if sphere.is_tilted else (1.0 - 0.5 * size) * math.log(2.0) - math.lgamma(0.5 * size)
    sphere.totals[0], is_usable = 0.0, True
    for v in range(n):
        along, length = sphere.along[v], 0.0
        for i in range(size):
            entry = 0.0
            for j in range(i + 1):
                entry += spread[first + i, j] * sphere.directions[v, j]
            sphere.rows[v, i] = entry
            length += entry * entry
        end = radius / math.sqrt(length)
        sphere.ends[v] = end
        # where t^(D+1) exp(-t^2/2 + along t) is highest
        peak = 0.5 * (along + math.sqrt(along * along + 4.0 * (size + 1)))
        low, high = max(0.0, peak - REACH), peak + REACH
        log_height = log_constant - 0.5 * sphere.across[v] ** 2
        _panel(v, min(low, end), min(high, end), along, log_height, sphere, sphere.inner)
        _panel(v, max(low, end), max(high, end), along, log_height, sphere, sphere.outer)
        if sphere.is_tilted:  # the law along the direction, not of it
            total = sphere.inner[v, 0] + sphere.outer[v, 0]
            sphere.inner[v] /= total
            sphere.outer[v] /= total
        power = 1.0
        for k in range(5):
            sphere.powers[v, k] = sphere.inner[v, k] + power * sphere.outer[v, 0]
            power *= end
        sphere.totals[0] += sphere.weights[v] * sphere.powers[v, 0]
        is_usable = is_usable and 0.0 < length < np.inf and math.isfinite(sphere.powers[v, 4])
    return is_usable and 0.0 < sphere.totals[0] < np.inf


@inner()
def _panel(v: int, low: float, high: float, along: float, log_height: float, sphere: Sphere, integrals: Floats) -> None:
    """int t^k p(t) dt from low to high, for all k that `integrals` has room for."""
    size, count = sphere.directions.shape[1], integrals.shape[1]
    for k in range(count):
        integrals[v, k] = 0.0
    if high <= low:
        return
    is_short = high - low < SHORT
    for i in range(NODES if is_short else 0, NODES + FEW_NODES if is_short else NODES):
        t = low + (high - low) * sphere.nodes[i]
        value = (high - low) * sphere.node_weights[i] * math.exp(log_height - 0.5 * (t - along) ** 2)
        for _ in range(size - 1):
            value *= t
        for k in range(count):
            integrals[v, k] += value
            value *= t


@inner()
def _coefficients(g: int, groups: Groups, sphere: Sphere, first: int, linear: Floats, square: Floats) -> None:
    """The product f_ab = s_a s_b + (k - 1)(s_a e_b + e_a s_b) along a direction is constant + linear t + square t^2."""
    k = groups.block[g]
    for p in range(groups.size[g]):
        a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
        for v in range(len(sphere.weights)):
            if b < first:
                linear[v, p], square[v, p] = 0.0, 0.0
            elif a < first:
                linear[v, p], square[v, p] = k * sphere.rows[v, b - first], 0.0
            else:
                u, w = sphere.rows[v, a - first], sphere.rows[v, b - first]
                linear[v, p], square[v, p] = (k - 1.0) * (u * sphere.mean[b] + sphere.mean[a] * w), u * w


@inner()
def _product_mean(g: int, p: int, groups: Groups, sphere: Sphere, second: Floats, first: int) -> float:
    """E f_ab less its constant; `second` is that of one row."""
    a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
    k = groups.block[g]
    value: float = second[a, b] + 2.0 * (k - 1.0) * sphere.mean[a] * sphere.mean[b]
    if b < first:
        value = 0.0
    elif a < first:
        value = k * sphere.mean[b]
    return value


@inner(allocates=True)
def pull_back_radial(
    g: int, groups: Groups, sphere: Sphere, first: int, pull: Floats, grip: Floats, second: Floats, spread: Floats,
    by_mean: Floats, by_spread: Floats,
) -> None:  # fmt: skip
    """From the pulls on M_v and C_v (before the factor n) to those on P m and P B; `radial_moments` came before."""
    size, k, n = groups.size[g], groups.block[g], len(sphere.weights)
    linear, square = sphere.linear[: n * size].reshape(n, size), sphere.square[: n * size].reshape(n, size)
    one, two = sphere.one[: n * size].reshape(n, size), sphere.two[: n * size].reshape(n, size)
    own_grip, centre = np.empty((size, size)), np.empty(size)
    for p in range(size):
        centre[p] = -_product_mean(g, p, groups, sphere, second, first)
        if k > 1.0 and groups.pairs[g, p, 0] >= first:  # `second` is that of a block by now
            a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
            centre[p] += (k - 1.0) * sphere.mean[a] * sphere.mean[b]
        for q in range(size):
            own_grip[p, q] = 0.5 * groups.n[g] / k * grip[p, q]
    np.dot(linear, own_grip, one)
    np.dot(square, own_grip, two)
    still = np.dot(own_grip, centre)
    pull_back_means(g, groups, pull, grip, second, sphere.mean, sphere.by_mean, sphere.by_second)
    for a in range(first, len(sphere.mean) if first else 0):  # M_0a = e_a
        sphere.by_mean[a] += sphere.by_second[0, a] + sphere.by_second[a, 0]
    _pull_back_powers(sphere, linear, square, one, two, centre, still)
    for v in range(n):  # from here on `one` and `two` are the pulls on the coefficients
        w = 2.0 * sphere.weights[v] / sphere.totals[0]
        for p in range(size):
            y1, y2 = one[v, p], two[v, p]
            j = sphere.powers[v]
            one[v, p] = w * (j[2] * y1 + j[3] * y2 + j[1] * still[p])
            two[v, p] = w * (j[3] * y1 + j[4] * y2 + j[2] * still[p])
            a, b = groups.pairs[g, p, 0], groups.pairs[g, p, 1]
            if k > 1.0 and a >= first:
                sphere.by_mean[a] += (k - 1.0) * one[v, p] * sphere.rows[v, b - first]
                sphere.by_mean[b] += (k - 1.0) * one[v, p] * sphere.rows[v, a - first]
    _pull_back_total(sphere, first)
    _pull_back_rows(g, groups, sphere, first, one, two, spread, by_mean, by_spread)


@inner()
def _pull_back_powers(
    sphere: Sphere, linear: Floats, square: Floats, one: Floats, two: Floats, centre: Floats, still: Floats
) -> None:
    """Pulls on J_k through C, for f = centre + linear t + square t^2 about its mean."""
    sphere.by_powers.fill(0.0)
    size = len(centre)
    for v in range(len(sphere.weights)):
        w = sphere.weights[v] / sphere.totals[0]
        for p in range(size):
            sphere.by_powers[v, 0] += w * centre[p] * still[p]
            sphere.by_powers[v, 1] += 2.0 * w * linear[v, p] * still[p]
            sphere.by_powers[v, 2] += w * (linear[v, p] * one[v, p] + 2.0 * square[v, p] * still[p])
            sphere.by_powers[v, 3] += 2.0 * w * linear[v, p] * two[v, p]
            sphere.by_powers[v, 4] += w * square[v, p] * two[v, p]


@inner()
def _pull_back_total(sphere: Sphere, first: int) -> None:
    """Add the pulls on J_k through e and M, and take away that of the sum of weights by which all are divided."""
    m = len(sphere.mean)
    for v in range(len(sphere.weights)):
        w = sphere.weights[v] / sphere.totals[0]
        for a in range(first, m):
            sphere.by_powers[v, 1] += w * sphere.by_mean[a] * sphere.rows[v, a - first]
            for b in range(first, m):
                product = sphere.rows[v, a - first] * sphere.rows[v, b - first]
                sphere.by_powers[v, 2] += w * sphere.by_second[a, b] * product
    total = 0.0
    for v in range(len(sphere.weights)):
        for k in range(5):
            total += sphere.by_powers[v, k] * sphere.powers[v, k]
    for v in range(len(sphere.weights)):
        sphere.by_powers[v, 0] -= sphere.weights[v] / sphere.totals[0] * total


@inner(allocates=True)
def _pull_back_rows(
    g: int, groups: Groups, sphere: Sphere, first: int, by_linear: Floats, by_square: Floats, spread: Floats,
    by_mean: Floats, by_spread: Floats,
) -> None:  # fmt: skip
    """From the pulls on coefficients, means and J_k to those on b = B v and h = B^-1 mean, then on the mean and B."""
    k, size = groups.block[g], sphere.directions.shape[1]
    by_mean.fill(0.0)
    by_spread.fill(0.0)
    by_row, by_centre, by_axis, total, by_log_kappa = np.empty(size), np.zeros(size), np.zeros(size), 0.0, 0.0
    far = math.sqrt(np.sum(sphere.centre**2))
    for v in range(len(sphere.weights)):
        w, end, length = sphere.weights[v] / sphere.totals[0], sphere.ends[v], 0.0
        for i in range(size):
            length += sphere.rows[v, i] ** 2
            by_row[i] = w * sphere.powers[v, 1] * sphere.by_mean[first + i]
            for j in range(size):
                pull = sphere.by_second[first + i, first + j] + sphere.by_second[first + j, first + i]
                by_row[i] += w * sphere.powers[v, 2] * pull * sphere.rows[v, j]
        for p in range(groups.size[g]):
            a, b = groups.pairs[g, p, 0] - first, groups.pairs[g, p, 1] - first
            if b >= 0 and a < 0:
                by_row[b] += k * by_linear[v, p]
            elif b >= 0:
                by_row[a] += (k - 1.0) * by_linear[v, p] * sphere.mean[first + b] + by_square[v, p] * sphere.rows[v, b]
                by_row[b] += (k - 1.0) * by_linear[v, p] * sphere.mean[first + a] + by_square[v, p] * sphere.rows[v, a]
        by_end, by_along, by_weight, power, lower = 0.0, 0.0, 0.0, 1.0, 0.0
        mean_length = sphere.inner[v, 1] + sphere.outer[v, 1] if sphere.is_tilted else 0.0
        for j in range(5):
            slope = sphere.by_powers[v, j]
            by_end += slope * j * lower * sphere.outer[v, 0]
            by_along += slope * (
                sphere.inner[v, j + 1] + power * sphere.outer[v, 1] - sphere.powers[v, j] * mean_length
            )
            by_weight += slope * sphere.powers[v, j]
            lower, power = power, power * end
        for i in range(size):
            by_row[i] -= by_end * end / length * sphere.rows[v, i]
            by_centre[i] += by_along * sphere.directions[v, i]
            for j in range(size):
                by_spread[first + i, j] += by_row[i] * sphere.directions[v, j]
        for i in range(size):  # to v, by b = B v and v'h; rows above i are not needed again
            value = by_along * sphere.centre[i]
            for j in range(i, size):
                value += spread[first + j, i] * by_row[j]
            by_row[i] = value
        if sphere.is_tilted:
            pull_back_tilt(v, sphere, by_row, by_centre)
        else:
            total += by_weight
            if far > 0.0:
                by_log_kappa += pull_back_gather(v, by_weight, far, sphere, by_row, by_axis)
    if far > 0.0 and not sphere.is_tilted:
        pull_back_axis(far, sphere, by_log_kappa, by_axis, by_centre)
    for i in range(size):
        by_centre[i] -= total * sphere.centre[i]
    for i in range(size - 1, -1, -1):  # B' x = by_centre; then d h = B^-1 (d mean - d B h)
        value = by_centre[i]
        for j in range(i + 1, size):
            value -= spread[first + j, i] * by_mean[first + j]
        by_mean[first + i] = value / spread[first + i, i]
    for i in range(size):
        for j in range(size):
            by_spread[first + i, j] -= by_mean[first + i] * sphere.centre[j]
