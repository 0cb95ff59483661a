"""The parameters given the moments of the rows, drawn from their conjugate laws inside compiled loops.

With T = sum_j T_j, S = T_uu, z = T_uy, u = ([1,] x), and N rows in all,

    sigma^2 ~ InverseGamma(a + N/2, b_N),   theta | sigma^2 ~ N(m_N, sigma^2 P_N^-1),   P_N = P + S,
    m_N = P_N^-1 (z + P m),   b_N = b + (y'y + m'P m - m_N' P_N m_N)/2,
    Sigma ~ InverseWishart(Psi_N, nu + N),   mu | Sigma ~ N((kappa m_x + sum x)/kappa_N, Sigma/kappa_N)

for a prior relative to sigma^2 (normal-inverse-gamma). Where theta's prior does not depend on sigma^2 the two are drawn
in turn. Averaged rows enter as they are: only kappa_N = kappa + T_11 and N differ.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.regression.loadings import Beliefs
from noisewise.regression.problem import Floats
from noisewise.regression.wishart import (
    dot,
    draw_inverse_wishart,
    factor,
    solve_lower,
    solve_upper,
)

Generator = np.random.Generator


@njit(cache=True)
def scaled_precision(beliefs: Beliefs, learned: float) -> Floats:
    """P, with the rows and columns of all coefficients but the intercept over tau where their scale is learned."""
    precision = beliefs.precision.copy()
    if beliefs.is_learned:
        start = 1 if beliefs.intercept else 0
        tau = math.sqrt(learned)
        for i in range(len(precision)):
            for j in range(len(precision)):
                if i >= start:
                    precision[i, j] /= tau
                if j >= start:
                    precision[i, j] /= tau
    return precision


@njit(cache=True)
def draw_given_precision(rng: Generator, precision: Floats, weighted: Floats, scale: float, drawn: Floats) -> bool:
    """drawn <- N(precision^-1 weighted, scale precision^-1); `weighted` becomes the mean."""
    size = len(weighted)
    lower = np.empty((size, size))
    if not factor(precision, size, lower, 1e-15):
        return False
    solve_lower(lower, size, weighted)
    noise = np.empty(size)
    root = math.sqrt(scale)
    for i in range(size):
        noise[i] = weighted[i] + root * rng.standard_normal()
    solve_upper(lower, size, weighted)
    solve_upper(lower, size, noise)
    drawn[:] = noise
    return True


@njit(cache=True)
def residual_sum(total: Floats, theta: Floats) -> float:
    """sum (y - theta'u)^2 from the moments."""
    q = len(theta)
    value = total[q, q]
    for i in range(q):
        value += theta[i] * (dot(total[i], theta, q) - 2.0 * total[i, q])
    return float(max(value, 0.0))


@njit(cache=True)
def distance(theta: Floats, mean: Floats, precision: Floats) -> float:
    """(theta - mean)' precision (theta - mean)."""
    value = 0.0
    for i in range(len(theta)):
        for j in range(len(theta)):
            value += (theta[i] - mean[i]) * precision[i, j] * (theta[j] - mean[j])
    return value


@njit(cache=True)
def draw_coefficients(rng: Generator, total: Floats, n: float, beliefs: Beliefs, theta: Floats, scales: Floats) -> bool:
    """theta and scales = (sigma^2, tau^2) given the moments of n rows; False where no law could be formed."""
    q = len(theta)
    prior = scaled_precision(beliefs, scales[1])
    shape = beliefs.shape + 0.5 * n
    divisor = 1.0 if beliefs.is_relative else scales[0]
    precision, weighted, mean = np.empty((q, q)), np.empty(q), np.empty(q)
    for i in range(q):
        weighted[i] = total[i, q] / divisor + dot(prior[i], beliefs.mean, q)
        for j in range(q):
            precision[i, j] = total[i, j] / divisor + prior[i, j]
    if beliefs.is_relative:
        mean[:] = weighted
        if not draw_given_precision(rng, precision, mean, 1.0, theta):  # `mean` becomes m_N, theta - m_N has scale 1
            return False
        # y'y + m'Pm - m_N'P_N m_N, written as a sum of squares.
        rate = beliefs.rate + 0.5 * (residual_sum(total, mean) + distance(mean, beliefs.mean, prior))
        scales[0] = rate / rng.standard_gamma(shape)
        theta[:] = mean + math.sqrt(scales[0]) * (theta - mean)
    else:
        if not draw_given_precision(rng, precision, weighted, 1.0, theta):
            return False
        scales[0] = (beliefs.rate + 0.5 * residual_sum(total, theta)) / rng.standard_gamma(shape)
    draw_learned_scale(rng, beliefs, theta, scales)
    return scales[0] > 0.0 and math.isfinite(scales[0])


@njit(cache=True)
def draw_learned_scale(rng: Generator, beliefs: Beliefs, theta: Floats, scales: Floats) -> None:
    """tau^2 ~ InverseGamma(1/2, 1/2) given theta; proposed as if the intercept were apart, then accepted or not."""
    if not beliefs.is_learned:
        return
    start = 1 if beliefs.intercept else 0
    scale = scales[0] if beliefs.is_relative else 1.0
    away = theta - beliefs.mean
    inside, across = 0.0, 0.0
    for i in range(start, len(theta)):
        for j in range(start, len(theta)):
            inside += away[i] * beliefs.precision[i, j] * away[j]
        if beliefs.intercept:
            across += away[0] * beliefs.precision[0, i] * away[i]
    proposal = (0.5 + 0.5 * inside / scale) / rng.standard_gamma(0.5 + 0.5 * (len(theta) - start))
    log_ratio = -across / scale * (1.0 / math.sqrt(proposal) - 1.0 / math.sqrt(scales[1]))
    if math.log(rng.random()) < log_ratio:
        scales[1] = proposal


@njit(cache=True)
def draw_covariates(rng: Generator, total: Floats, n: float, beliefs: Beliefs, mean: Floats, spread: Floats) -> bool:
    """mu (0 without an intercept) and Sigma given the moments of n rows."""
    d = len(mean)
    start = 1 if beliefs.intercept else 0
    scale = beliefs.scale + total[start : start + d, start : start + d]
    strength = beliefs.strength
    centre = np.zeros(d)
    if beliefs.intercept:
        strength += total[0, 0]
        for i in range(d):
            centre[i] = (beliefs.strength * beliefs.location[i] + total[0, 1 + i]) / strength
        for i in range(d):
            for j in range(d):
                scale[i, j] += beliefs.strength * beliefs.location[i] * beliefs.location[j]
                scale[i, j] -= strength * centre[i] * centre[j]
    if not draw_inverse_wishart(rng, scale, beliefs.degrees + n, spread):
        return False
    if beliefs.intercept:
        lower, noise = np.empty((d, d)), np.empty(d)
        if not factor(spread, d, lower, 0.0):
            return False
        for i in range(d):
            noise[i] = rng.standard_normal()
        for i in range(d):
            mean[i] = centre[i] + dot(lower[i], noise, i + 1) / math.sqrt(strength)
    return True
