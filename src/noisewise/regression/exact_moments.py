"""The exact law of the moments of normal rows, and Metropolis steps that leave it invariant given what was published.

    Q ~ Wishart(nu, Omega),  r ~ N(0, N Omega),   Omega = B B',  B = [[A, 0], [theta'A, sigma]],  Sigma_x = A A'

Q is the scatter of (x, y): about 0 with nu = n, or about its mean with nu = n - 1, and then r is the sum of the rows
less its expectation, N = T_11. Three proposals, each good where the others are not: from the normal law times the noise
(precise releases), from the exact law itself (noise that drowns it), and a Wishart step from where the chain stands.
Laplace noise is weighed by its own density but in the first, which is normal given mixing variances.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.regression.chains import State
from noisewise.regression.loadings import Published
from noisewise.regression.normal_product import (
    draw_mixing,
    draw_moments,
    from_matrix,
    log_noise,
    to_matrix,
)
from noisewise.regression.problem import Floats
from noisewise.regression.wishart import (
    dot,
    draw_bartlett,
    factor,
    log_determinant,
    multiply_lower,
    solve_lower,
    square,
    trace_ratio,
)

Generator = np.random.Generator


@njit(cache=True)
def row_factor(theta: Floats, variance: float, root_x: Floats, factored: Floats) -> None:
    """B, the factor of the covariance of (x, y), from that of x."""
    d = len(root_x)
    start = len(theta) - d
    factored[:] = 0.0
    factored[:d, :d] = root_x
    for i in range(d):
        for k in range(d):
            factored[d, i] += theta[start + k] * root_x[k, i]
    factored[d, d] = math.sqrt(variance)


@njit(cache=True)
def row_mean(theta: Floats, mean_x: Floats, mean: Floats) -> None:
    """The mean of (x, y), with an intercept; else 0."""
    d = len(mean_x)
    mean[:] = 0.0
    if len(theta) > d:
        mean[:d] = mean_x
        mean[d] = theta[0] + dot(theta[1:], mean_x, d)


@njit(cache=True)
def take_apart(moments: Floats, start: int, mean: Floats, scatter: Floats, away: Floats) -> None:
    """Q and r from the moments."""
    for i in range(len(scatter)):
        away[i] = moments[0, 1 + i] - moments[0, 0] * mean[i] if start == 1 else 0.0
        for k in range(len(scatter)):
            scatter[i, k] = moments[start + i, start + k]
            if start == 1:
                scatter[i, k] -= moments[0, 1 + i] * moments[0, 1 + k] / moments[0, 0]


@njit(cache=True)
def put_together(scatter: Floats, away: Floats, start: int, mean: Floats, moments: Floats) -> None:
    """The moments from Q and r; the constant stays."""
    if start == 1:
        for i in range(len(scatter)):
            moments[0, 1 + i] = moments[0, 0] * mean[i] + away[i]
            moments[1 + i, 0] = moments[0, 1 + i]
    for i in range(len(scatter)):
        for k in range(len(scatter)):
            moments[start + i, start + k] = scatter[i, k]
            if start == 1:
                moments[1 + i, 1 + k] += moments[0, 1 + i] * moments[0, 1 + k] / moments[0, 0]


@njit(cache=True)
def noise_log_density(data: Published, j: int, vector: Floats) -> float:
    """log p(t_j | T_j), less its constant; `vector` is T_j at the pairs."""
    value = 0.0
    for k in range(data.components[j]):
        value += log_noise(data, j, k, vector)
    return value


@njit(cache=True)
def exact_log_density(degrees: float, count: float, scatter: Floats, away: Floats, row: Floats) -> float:
    """log p(Q, r | Omega), less what does not depend on Q and r; -inf where Q is not positive definite."""
    size = len(scatter)
    lower = np.empty((size, size))
    if not factor(scatter, size, lower, 0.0):
        return -math.inf
    value = 0.5 * (degrees - size - 1.0) * log_determinant(lower, size) - 0.5 * trace_ratio(row, size, lower)
    white = away.copy()
    solve_lower(row, size, white)
    return float(value - 0.5 * dot(white, white, size) / count)


@njit(cache=True)
def accept(rng: Generator, ratio: float) -> tuple[bool, float]:
    """Whether a proposal is taken, and the probability of it; never where the ratio is not a number."""
    probability = math.exp(min(0.0, ratio)) if ratio == ratio else 0.0
    return rng.random() < probability, probability


@njit(cache=True)
def step_from_law(
    rng: Generator, data: Published, j: int, start: int, row: Floats, mean: Floats, moments: Floats
) -> float:
    """Propose T_j from its exact law given the parameters: what is weighed is the noise alone."""
    size = len(row)
    bartlett, lower, scatter, away = (
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty((size, size)),
        np.zeros(size),
    )
    draw_bartlett(rng, data.n[j] - start, size, bartlett)
    multiply_lower(row, bartlett, size, lower)
    square(lower, size, scatter)
    if start == 1:
        normal = np.empty(size)
        for i in range(size):
            normal[i] = math.sqrt(moments[0, 0]) * rng.standard_normal()
            away[i] = dot(row[i], normal, i + 1)
    proposal = moments.copy()
    put_together(scatter, away, start, mean, proposal)
    return float(settle(rng, data, j, 0.0, proposal, moments))


@njit(cache=True)
def settle(rng: Generator, data: Published, j: int, ratio: float, proposal: Floats, moments: Floats) -> float:
    """Accept the proposed moments or not; `ratio` holds all but the noise. The acceptance probability."""
    before, after = np.empty(len(data.pairs)), np.empty(len(data.pairs))
    from_matrix(data, moments, before)
    from_matrix(data, proposal, after)
    ratio += noise_log_density(data, j, after) - noise_log_density(data, j, before)
    is_taken, probability = accept(rng, ratio)
    if is_taken:
        moments[:] = proposal
    return float(probability)


@njit(cache=True)
def step_from_here(
    rng: Generator,
    data: Published,
    j: int,
    start: int,
    row: Floats,
    mean: Floats,
    log_alpha: float,
    moments: Floats,
) -> float:
    """Q' ~ Wishart(alpha, Q/alpha), and r moved by as much."""
    size, count = len(row), data.n[j] * data.block[j]
    alpha = size + math.exp(log_alpha)
    scatter, away = np.empty((size, size)), np.empty(size)
    lower, bartlett, moved = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    take_apart(moments, start, mean, scatter, away)
    before = exact_log_density(data.n[j] - start, count, scatter, away, row)
    if not factor(scatter, size, lower, 0.0):
        return 0.0
    draw_bartlett(rng, alpha, size, bartlett)
    bartlett /= math.sqrt(alpha)
    multiply_lower(lower, bartlett, size, moved)
    identity = np.eye(size)
    forth, back = trace_ratio(identity, size, bartlett), trace_ratio(bartlett, size, identity)
    shrunk = -log_determinant(bartlett, size)
    ratio = (alpha - 0.5 * (size + 1)) * shrunk + 0.5 * alpha * (forth - back) - before
    square(moved, size, scatter)
    if start == 1:
        normal = np.empty(size)
        for i in range(size):
            normal[i] = math.sqrt(count / alpha) * rng.standard_normal()
            away[i] += dot(row[i], normal, i + 1)
    ratio += exact_log_density(data.n[j] - start, count, scatter, away, row)
    proposal = moments.copy()
    put_together(scatter, away, start, mean, proposal)
    return float(settle(rng, data, j, ratio, proposal, moments))


@njit(cache=True)
def excess(
    data: Published, j: int, vector: Floats, moments: Floats, start: int, row: Floats, mean: Floats,
    centre: Floats, root: Floats,
) -> float:  # fmt: skip
    """log of the exact law of T_j over the normal one."""
    size = len(row)
    scatter, away = np.empty((size, size)), np.empty(size)
    take_apart(moments, start, mean, scatter, away)
    value = exact_log_density(data.n[j] - start, data.n[j] * data.block[j], scatter, away, row)
    white = vector - data.n[j] * centre
    solve_lower(root, len(centre), white)
    return float(value + 0.5 * dot(white, white, len(centre)) / data.n[j])


@njit(cache=True)
def step_from_normal(
    rng: Generator,
    data: Published,
    j: int,
    start: int,
    row: Floats,
    mean: Floats,
    centre: Floats,
    root: Floats,
    product: Floats,
    mixing: Floats,
    lower: Floats,
    moments: Floats,
) -> float:
    """Propose T_j from the normal law times the noise, given the mixing variances: what is weighed is `excess`."""
    vector, proposal = np.empty(len(centre)), moments.copy()
    from_matrix(data, moments, vector)
    before = excess(data, j, vector, moments, start, row, mean, centre, root)
    draw_moments(rng, data, j, centre, root, product, mixing, lower, vector)
    to_matrix(data, j, vector, proposal)
    after = excess(data, j, vector, proposal, start, row, mean, centre, root)
    is_taken, probability = accept(rng, after - before)
    if is_taken:
        moments[:] = proposal
    return float(probability)


@njit(cache=True)
def refresh_mixing(rng: Generator, data: Published, j: int, moments: Floats, mixing: Floats) -> None:
    """Mixing variances given the moments as they stand."""
    vector = np.empty(len(data.pairs))
    from_matrix(data, moments, vector)
    draw_mixing(rng, data, j, vector, mixing)


@njit(cache=True)
def read_state(state: State, root_x: Floats, row: Floats, mean: Floats) -> bool:
    """A, B and the mean of (x, y) from the parameters."""
    is_sound = factor(state.spread_x, len(root_x), root_x, 0.0)
    row_factor(state.theta, state.scales[0], root_x, row)
    row_mean(state.theta, state.mean_x, mean)
    return bool(is_sound)
