"""Parameters moved together with the moments: the rows keep their standardized form while the law changes under them.

    W = B^-1 Q B^-T and B^-1 r do not depend on the parameters; a step of (theta, log sigma, A, mu) at fixed W carries
    Q' = G Q G',  r' = G r,  G = B' B^-1,  and is weighed by the prior and the noise alone.

Drawing parameters given moments and then at fixed W interweaves two forms of one model (Yu & Meng 2011): the first
mixes where releases are precise, the second where noise hides the moments. The step's shape is learned in warm-up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import njit
from noisewise.regression.chains import State
from noisewise.regression.conjugate import distance, scaled_precision
from noisewise.regression.exact_moments import accept, noise_log_density, put_together, row_factor, row_mean, take_apart
from noisewise.regression.loadings import Beliefs, Published
from noisewise.regression.normal_product import from_matrix
from noisewise.regression.problem import Floats, Problem
from noisewise.regression.wishart import dot, factor, solve_lower, square, trace_ratio

Generator = np.random.Generator

TARGET = 0.25
"""The share of steps that the walk is tuned to accept."""


class Shear(NamedTuple):
    """What the walk has learned: of all coordinates, and of the coefficients and log sigma, which come first."""

    mean: Floats  # (D,)
    covariance: Floats  # (D, D), sums of squares
    root: Floats  # (D, D)
    log_step: Floats  # (2,): for the coefficients and sigma alone, for all
    seen: Floats  # (1,)


def shear(problem: Problem, n: float) -> Shear:
    """A walk that has seen nothing: steps about as long as n precise rows would allow."""
    d = problem.d
    size = problem.q + 1 + d * (d + 1) // 2 + (d if problem.intercept else 0)
    return Shear(np.zeros(size), np.zeros((size, size)), np.eye(size) / math.sqrt(n), np.zeros(2), np.zeros(1))


@njit(cache=True)
def coordinates(state: State, root_x: Floats, point: Floats) -> None:
    """(theta, log sigma, A with log diagonal, mu)."""
    q, d = len(state.theta), len(root_x)
    point[:q] = state.theta
    point[q] = 0.5 * math.log(state.scales[0])
    at = q + 1
    for i in range(d):
        for k in range(i + 1):
            point[at] = math.log(root_x[i, i]) if i == k else root_x[i, k]
            at += 1
    if q > d:
        point[at:] = state.mean_x


@njit(cache=True)
def from_coordinates(point: Floats, theta: Floats, root_x: Floats, mean_x: Floats) -> float:
    """The parameters of a point; sigma^2 is returned."""
    q, d = len(theta), len(root_x)
    theta[:] = point[:q]
    root_x[:] = 0.0
    at = q + 1
    for i in range(d):
        for k in range(i + 1):
            root_x[i, k] = math.exp(point[at]) if i == k else point[at]
            at += 1
    if q > d:
        mean_x[:] = point[at:]
    return math.exp(2.0 * point[q])


@njit(cache=True)
def log_prior(
    theta: Floats, variance: float, root_x: Floats, mean_x: Floats, priors: Beliefs, learned: float, scale_root: Floats
) -> float:
    """Log density of a point under the priors, with the Jacobians of log sigma and of A; tau^2 is held.

    |d Sigma / d A| is proportional to the product of A_ii^{d - i} (i from 0), and a log diagonal gives one power more.
    """
    q, d = len(theta), len(root_x)
    precision = scaled_precision(priors, learned)
    away = distance(theta, priors.mean, precision)
    value = -priors.shape * math.log(variance) - priors.rate / variance
    if priors.is_relative:
        value -= 0.5 * (q * math.log(variance) + away / variance)
    else:
        value -= 0.5 * away
    log_root = 0.0
    for i in range(d):
        log_root += math.log(root_x[i, i])
        value += (d - i + 1.0) * math.log(root_x[i, i])
    value -= (priors.degrees + d + 1.0) * log_root + 0.5 * trace_ratio(root_x, d, scale_root)
    if q > d:
        white = mean_x - priors.location
        solve_lower(root_x, d, white)
        value -= log_root + 0.5 * priors.strength * dot(white, white, d)
    return float(value)


@njit(cache=True)
def carry(scatter: Floats, away: Floats, row: Floats, new_row: Floats) -> None:
    """Q <- G Q G' and r <- G r with G = B' B^-1, by way of the factor of Q."""
    size = len(row)
    lower, white, column = np.empty((size, size)), np.zeros((size, size)), np.empty(size)
    factor(scatter, size, lower, 0.0)
    for k in range(size):
        for i in range(size):
            column[i] = lower[i, k]
        solve_lower(row, size, column)
        for i in range(k, size):
            white[i, k] = dot(new_row[i], column, i + 1)
    square(white, size, scatter)
    solve_lower(row, size, away)
    column[:] = away
    for i in range(size):
        away[i] = dot(new_row[i], column, i + 1)


@njit(cache=True)
def step(
    rng: Generator,
    data: Published,
    priors: Beliefs,
    state: State,
    root_x: Floats,
    row: Floats,
    mean: Floats,
    moments: Floats,
    walk: Shear,
    is_whole: bool,
    scale_root: Floats,
) -> float:
    """One step of the parameters (or of theta and sigma alone) with all moments; its acceptance probability."""
    q, d, size = len(state.theta), len(state.mean_x), len(row)
    start, moving = q - d, len(walk.mean) if is_whole else q + 1
    point, normal = np.empty(len(walk.mean)), np.empty(len(walk.mean))
    coordinates(state, root_x, point)
    length = math.exp(walk.log_step[1 if is_whole else 0]) * 2.38 / math.sqrt(moving)
    for i in range(moving):
        normal[i] = length * rng.standard_normal()
        point[i] += dot(walk.root[i], normal, i + 1)
    theta, new_root, mean_x = np.empty(q), np.empty((d, d)), np.zeros(d)
    variance = from_coordinates(point, theta, new_root, mean_x)
    new_row, new_mean = np.empty((size, size)), np.empty(size)
    row_factor(theta, variance, new_root, new_row)
    row_mean(theta, mean_x, new_mean)
    ratio = log_prior(theta, variance, new_root, mean_x, priors, state.scales[1], scale_root)
    ratio -= log_prior(state.theta, state.scales[0], root_x, state.mean_x, priors, state.scales[1], scale_root)
    proposal = moments.copy()
    scatter, away, vector = np.empty((size, size)), np.empty(size), np.empty(len(data.pairs))
    for j in range(len(data.n)):
        from_matrix(data, moments[j], vector)
        ratio -= noise_log_density(data, j, vector)
        take_apart(moments[j], start, mean, scatter, away)
        carry(scatter, away, row, new_row)
        put_together(scatter, away, start, new_mean, proposal[j])
        from_matrix(data, proposal[j], vector)
        ratio += noise_log_density(data, j, vector)
    is_taken, probability = accept(rng, ratio)
    if is_taken:
        moments[:] = proposal
        state.theta[:] = theta
        state.scales[0] = variance
        state.mean_x[:] = mean_x
        square(new_root, d, state.spread_x)
        root_x[:] = new_root
        row[:] = new_row
        mean[:] = new_mean
    return float(probability)


@njit(cache=True)
def learn(walk: Shear, state: State, root_x: Floats) -> None:
    """Add the present point to the running mean and covariance; now and then take the covariance's root."""
    size = len(walk.mean)
    point = np.empty(size)
    coordinates(state, root_x, point)
    walk.seen[0] += 1.0
    for i in range(size):
        point[i] -= walk.mean[i]
    for i in range(size):
        for k in range(size):
            walk.covariance[i, k] += (1.0 - 1.0 / walk.seen[0]) * point[i] * point[k]
    for i in range(size):
        walk.mean[i] += point[i] / walk.seen[0]
    if walk.seen[0] > 2 * size + 20 and int(walk.seen[0]) % 25 == 0:
        covariance, root = walk.covariance / walk.seen[0], np.empty((size, size))
        for i in range(size):
            covariance[i, i] *= 1.0 + 1e-6
        if factor(covariance, size, root, 1e-12):
            walk.root[:] = root
