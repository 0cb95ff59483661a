"""`normal-x`: normal covariates, each holder's S_j a Wishart matrix that walks (Alparslan, Yildirim & Birbil 2022).

    Sigma | S_1..S_J ~ InverseWishart(Psi + sum S_j, nu + n),    S_j | Sigma ~ Wishart(n_j, Sigma),
    S'_j ~ Wishart(alpha, S_j/alpha), accepted with min(1, ratio);   theta, sigma^2 given S_j, z integrated out

With an intercept (Alparslan 2023, thesis) the mean of a holder's rows, N(mu, Sigma/n_j), walks beside their scatter,
Wishart(n_j - 1, Sigma). alpha and the step of log sigma^2 are tuned in warm-up. Under Laplace noise S_j is weighed by
the Laplace density, z by mixing variances. yy is not used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.inference.progress import Progress
from noisewise.published.regression.cross_moments import (
    Cross,
    Laws,
    adopt,
    cross,
    cross_log_density,
    cross_notes,
    draw_parameters,
    laws,
    set_moments,
    set_variance,
)
from noisewise.regression.chains import State, Trace, chunks, empty_trace, first_state, fit_first, keep, stacked
from noisewise.regression.conjugate import draw_covariates
from noisewise.regression.loadings import Beliefs, Published, beliefs, published, require_normal_covariates
from noisewise.regression.normal_product import log_noise
from noisewise.regression.problem import Fit, Floats, Problem
from noisewise.regression.start import first_moments
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

TARGET = 0.3
"""The share of proposals that the walks are tuned to accept."""


class Walk(NamedTuple):
    """The walks' tuning: logs of (alpha - d) and of the mean's step, by holder; of the step of log sigma^2."""

    alpha: Floats
    step: Floats
    variance: Floats
    fit: Floats  # log density of each holder's published xx
    accepted: Floats  # sums of acceptance probabilities after warm-up: S, mean, sigma^2


def sample(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
) -> Fit:
    """Draws of theta, sigma^2, mu and Sigma."""
    require_normal_covariates(problem, "normal-x")
    fewest = problem.d + int(problem.intercept)
    if min(holder.n for holder in problem.holders) < fewest:
        raise Unsupported(
            f"method 'normal-x' needs at least {fewest} rows (or blocks) of every holder: a Wishart matrix has no "
            "density with fewer. Use method 'marginal'."
        )
    data, priors = published(problem), beliefs(problem)
    parts = cross(problem, data, "normal-x")
    traces = [empty_trace(problem, draws) for _ in range(chains)]
    failed, accepted = np.zeros(1, np.int64), np.zeros(3)
    for chain, own in enumerate(rng.spawn(chains)):
        moments, mixing, state = first_moments(problem, data, own), data.variance.copy(), first_state(problem)
        fit_first(own, moments, data.n.sum(), priors, state)
        holders = len(data.n)
        walk = Walk(np.log(data.n / 2.0 + 10.0), np.zeros(holders), np.zeros(1), np.zeros(holders), np.zeros(3))
        now = laws(data, parts)
        for begin, steps in chunks(chain, chains, warmup, draws, progress):
            _advance(
                own, begin, steps, warmup, data, parts, priors, state, mixing, moments, walk, now, traces[chain], failed
            )
        accepted += walk.accepted / (chains * draws)
    return Fit(
        **stacked(traces, covariates=True),
        how="normal-x: Metropolis within Gibbs over each holder's X'X (Alparslan, Yildirim & Birbil 2022)",
        notes=cross_notes(problem),
        non_finite=int(failed[0]),
        details={"acceptance": dict(zip(("moments", "means", "variance"), accepted.tolist(), strict=True))},
    )


@njit(cache=True)
def _advance(
    rng: np.random.Generator,
    begin: int,
    steps: int,
    warmup: int,
    data: Published,
    parts: Cross,
    priors: Beliefs,
    state: State,
    mixing: Floats,
    moments: Floats,
    walk: Walk,
    now: Laws,
    trace: Trace,
    failed: NDArray[np.int64],
) -> None:
    """Steps `begin`, `begin` + 1, ...; those below 0 are warm-up and tune the walks."""
    d, holders = len(state.mean_x), len(data.n)
    total, root = np.empty(moments.shape[1:]), np.empty((d, d))
    for j in range(holders):
        set_moments(data, parts, j, j, moments[j], now)
        set_variance(parts, j, j, j, state.scales[0], mixing[j], now)
        walk.fit[j] = published_fit(data, parts, j, now.vector)
    for at in range(begin, begin + steps):
        gain = (at + warmup + 1.0) ** -0.6 if at < 0 else 0.0
        total[:] = 0.0
        for j in range(holders):
            total += moments[j]
        if not draw_covariates(rng, total, data.n.sum(), priors, state.mean_x, state.spread_x):
            failed[0] += 1
        factor(state.spread_x, d, root, 0.0)
        for j in range(holders):
            accepted = walk_scatter(rng, data, parts, j, state, root, mixing[j], walk, now, moments[j])
            walk.alpha[j] = min(max(walk.alpha[j] - 2.0 * gain * (accepted - TARGET), -3.0), 30.0)
            walk.accepted[0] += accepted / holders if at >= 0 else 0.0
            if priors.intercept:
                accepted = walk_mean(rng, data, parts, j, state, root, mixing[j], walk, now, moments[j])
                walk.step[j] += gain * (accepted - TARGET)
                walk.accepted[1] += accepted / holders if at >= 0 else 0.0
        is_sound, accepted = draw_parameters(rng, data, parts, moments, mixing, priors, state, walk.variance[0], now)
        walk.variance[0] += gain * (accepted - TARGET)
        walk.accepted[2] += accepted if at >= 0 else 0.0
        if not is_sound:
            failed[0] += 1
        keep(state, trace, at)


@njit(cache=True)
def published_fit(data: Published, parts: Cross, j: int, vector: Floats) -> float:
    """log p(published xx | S_j), less its constant; `vector` is S_j at the pairs."""
    value = 0.0
    for k in range(parts.count_xx[j]):
        value += log_noise(data, j, parts.xx[j, k], vector)
    return value


@njit(cache=True)
def settle(
    rng: np.random.Generator,
    data: Published,
    parts: Cross,
    j: int,
    state: State,
    mixing: Floats,
    walk: Walk,
    now: Laws,
    ratio: float,
    proposal: Floats,
    moments: Floats,
) -> float:
    """Accept a proposed S_j or not; `ratio` holds all but what was published. The acceptance probability."""
    holders = len(data.n)
    set_moments(data, parts, j, holders + j, proposal, now)
    fit = published_fit(data, parts, j, now.vector)
    if not set_variance(parts, j, holders + j, holders + j, state.scales[0], mixing, now):
        return 0.0
    ratio += fit - walk.fit[j]
    ratio += cross_log_density(parts, j, holders + j, holders + j, state.theta, now)
    ratio -= cross_log_density(parts, j, j, j, state.theta, now)
    accepted = math.exp(min(0.0, ratio)) if ratio == ratio else 0.0
    if rng.random() < accepted:
        moments[:] = proposal
        walk.fit[j] = fit
        adopt(j, now)
    return accepted


@njit(cache=True)
def scatter_of(moments: Floats, start: int, scatter: Floats) -> None:
    """The covariates' scatter, about their mean where there is an intercept."""
    for i in range(len(scatter)):
        for k in range(len(scatter)):
            scatter[i, k] = moments[start + i, start + k]
            if start == 1:
                scatter[i, k] -= moments[0, 1 + i] * moments[0, 1 + k] / moments[0, 0]


@njit(cache=True)
def walk_scatter(
    rng: np.random.Generator,
    data: Published,
    parts: Cross,
    j: int,
    state: State,
    root: Floats,
    mixing: Floats,
    walk: Walk,
    now: Laws,
    moments: Floats,
) -> float:
    """One Wishart step of holder j's scatter, and its acceptance probability."""
    d = len(state.mean_x)
    start = len(state.theta) - d
    alpha, degrees = d + math.exp(walk.alpha[j]), data.n[j] - start
    scatter, lower, bartlett, moved = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    scatter_of(moments, start, scatter)
    if not factor(scatter, d, lower, 0.0):
        return 0.0
    draw_bartlett(rng, alpha, d, bartlett)
    bartlett /= math.sqrt(alpha)
    multiply_lower(lower, bartlett, d, moved)
    identity = np.eye(d)
    # tr S^-1 S' = ||A||^2 and tr S'^-1 S = ||A^-1||^2 with S = L L', S' = L A A' L'.
    forth, back = trace_ratio(identity, d, bartlett), trace_ratio(bartlett, d, identity)
    shrunk = -log_determinant(bartlett, d)  # log |S|/|S'|
    ratio = (alpha - 0.5 * (d + 1)) * shrunk + 0.5 * alpha * (forth - back)
    ratio -= 0.5 * (degrees - d - 1.0) * shrunk
    ratio += 0.5 * (trace_ratio(root, d, lower) - trace_ratio(root, d, moved))
    proposal, fresh = moments.copy(), np.empty((d, d))
    square(moved, d, fresh)
    proposal[start : start + d, start : start + d] += fresh - scatter
    return float(settle(rng, data, parts, j, state, mixing, walk, now, ratio, proposal, moments))


@njit(cache=True)
def walk_mean(
    rng: np.random.Generator,
    data: Published,
    parts: Cross,
    j: int,
    state: State,
    root: Floats,
    mixing: Floats,
    walk: Walk,
    now: Laws,
    moments: Floats,
) -> float:
    """One step of the sums of holder j's covariates, their scatter held, and its acceptance probability."""
    d, n, block = len(state.mean_x), data.n[j], data.block[j]
    normal, before, after, shift = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    step = math.exp(walk.step[j]) * math.sqrt(n * block)
    for i in range(d):
        normal[i] = rng.standard_normal()
    proposal = moments.copy()
    for i in range(d):
        shift[i] = step * dot(root[i], normal, i + 1)
        before[i] = moments[0, 1 + i] - n * block * state.mean_x[i]
        after[i] = before[i] + shift[i]
    for i in range(d):
        proposal[0, 1 + i] = moments[0, 1 + i] + shift[i]
        proposal[1 + i, 0] = proposal[0, 1 + i]
    for i in range(d):
        for k in range(d):
            pull = proposal[0, 1 + i] * proposal[0, 1 + k] - moments[0, 1 + i] * moments[0, 1 + k]
            proposal[1 + i, 1 + k] = moments[1 + i, 1 + k] + pull / moments[0, 0]
    solve_lower(root, d, before)
    solve_lower(root, d, after)
    ratio = 0.5 * (dot(before, before, d) - dot(after, after, d)) / (n * block)
    return float(settle(rng, data, parts, j, state, mixing, walk, now, ratio, proposal, moments))
