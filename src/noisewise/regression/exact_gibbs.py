"""`exact-gibbs`: the exact law of normal rows' moments at every n, however few; no normal approximation.

Each iteration draws
    T_j | parameters, t_j      by Metropolis steps that know the Wishart law (exact_moments.py),
    (theta, sigma^2), (mu, Sigma) | T_1..T_J      from their conjugate laws (conjugate.py),
    parameters and T_j together, the standardized rows held (shear.py).

The default where a release is so precise and n so small that the moments plus noise are visibly skewed; elsewhere
`marginal` gives the same answer faster. Needs normal covariates and more than d rows (d + 1 with an intercept).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.inference.progress import Progress
from noisewise.regression.chains import State, Trace, chunks, empty_trace, first_state, fit_first, keep, stacked
from noisewise.regression.conjugate import draw_coefficients, draw_covariates
from noisewise.regression.exact_moments import (
    read_state,
    refresh_mixing,
    step_from_here,
    step_from_law,
    step_from_normal,
)
from noisewise.regression.loadings import Beliefs, Published, beliefs, published, require_normal_covariates
from noisewise.regression.normal_product import carried, factor_components, normal_law, normal_row
from noisewise.regression.problem import Fit, Floats, Problem
from noisewise.regression.shear import TARGET, Shear, learn, shear, step
from noisewise.regression.start import first_moments
from noisewise.regression.wishart import factor

SHEARS = 2
"""Steps of each kind of the parameters with the moments, in one iteration."""

WALK_TARGET = 0.3
"""The share of Wishart steps that are tuned to be accepted."""


class Kernels(NamedTuple):
    """Tuning and record of the Metropolis steps."""

    alpha: Floats  # (J,): log(alpha - p) of the Wishart steps
    accepted: Floats  # sums of acceptance probabilities after warm-up: normal, law, walk, shear of some, of all


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
    x = require_normal_covariates(problem, "exact-gibbs")
    fewest = problem.d + 1 + int(problem.intercept)
    if min(holder.n for holder in problem.holders) < fewest:
        raise Unsupported(
            f"method 'exact-gibbs' needs at least {fewest} rows (or blocks) of every holder: the moments of fewer have "
            "no density. Use method 'marginal'."
        )
    data, priors, scale_root = published(problem), beliefs(problem), np.asarray(np.linalg.cholesky(x.scale), np.float64)
    traces = [empty_trace(problem, draws) for _ in range(chains)]
    failed, accepted = np.zeros(1, np.int64), np.zeros(5)
    for chain, own in enumerate(rng.spawn(chains)):
        moments, mixing, state = first_moments(problem, data, own), data.variance.copy(), first_state(problem)
        fit_first(own, moments, data.n.sum(), priors, state)
        kernels, walk = Kernels(np.log(data.n + 10.0), np.zeros(5)), shear(problem, float(data.n.sum()))
        for begin, steps in chunks(chain, chains, warmup, draws, progress):
            _advance(
                own, begin, steps, warmup, data, priors, scale_root, state, mixing, moments, kernels, walk,
                traces[chain], failed,
            )  # fmt: skip
        accepted += kernels.accepted / (chains * draws)
    names = ("normal", "law", "walk", "shear of coefficients", "shear of all")
    return Fit(
        **stacked(traces, covariates=True),
        how="exact-gibbs: the exact law of the moments of normal rows, Metropolis within Gibbs",
        non_finite=int(failed[0]),
        details={"acceptance": dict(zip(names, accepted.tolist(), strict=True))},
    )


@njit(cache=True)
def _advance(
    rng: np.random.Generator,
    begin: int,
    steps: int,
    warmup: int,
    data: Published,
    priors: Beliefs,
    scale_root: Floats,
    state: State,
    mixing: Floats,
    moments: Floats,
    kernels: Kernels,
    walk: Shear,
    trace: Trace,
    failed: NDArray[np.int64],
) -> None:
    """Steps `begin`, `begin` + 1, ...; those below 0 are warm-up and tune the walks."""
    holders, m, d = len(data.n), moments.shape[1], len(state.mean_x)
    total, root_x, row, mean = np.empty((m, m)), np.empty((d, d)), np.empty((d + 1, d + 1)), np.empty(d + 1)
    record = np.empty(5)
    for at in range(begin, begin + steps):
        gain = (at + warmup + 1.0) ** -0.6 if at < 0 else 0.0
        if not read_state(state, root_x, row, mean):
            failed[0] += 1
        record[:] = 0.0
        draw_all_moments(rng, data, state, row, mean, mixing, moments, kernels, gain, record)
        total[:] = 0.0
        for j in range(holders):
            total += moments[j]
        is_sound = draw_coefficients(rng, total, data.n.sum(), priors, state.theta, state.scales)
        is_sound = draw_covariates(rng, total, data.n.sum(), priors, state.mean_x, state.spread_x) and is_sound
        if not (read_state(state, root_x, row, mean) and is_sound):
            failed[0] += 1
        for i in range(2 * SHEARS):
            kind = i % 2
            accepted = step(rng, data, priors, state, root_x, row, mean, moments, walk, kind == 1, scale_root)
            walk.log_step[kind] += gain * (accepted - TARGET)
            record[3 + kind] += accepted / SHEARS
        if at < 0 and 4 * (at + warmup) > warmup:  # what came first is forgotten
            learn(walk, state, root_x)
        if at >= 0:
            kernels.accepted[:] += record
        keep(state, trace, at)


@njit(cache=True)
def draw_all_moments(
    rng: np.random.Generator,
    data: Published,
    state: State,
    row: Floats,
    mean: Floats,
    mixing: Floats,
    moments: Floats,
    kernels: Kernels,
    gain: float,
    record: Floats,
) -> None:
    """Each holder's moments given the parameters: by all three proposals in turn."""
    holders, m, start = len(data.n), moments.shape[1], len(state.theta) - len(state.mean_x)
    size, most = len(data.pairs), data.observed.shape[1]
    row_mean, spread = np.empty(m), np.empty((m, m))
    centre, covariance, root = np.empty(size), np.empty((size, size)), np.empty((size, size))
    product, lower = np.empty((most, size)), np.empty((most, most))
    is_law, is_sound = True, True
    for j in range(holders):
        record[1] += step_from_law(rng, data, j, start, row, mean, moments[j]) / holders
        accepted = step_from_here(rng, data, j, start, row, mean, kernels.alpha[j], moments[j])
        kernels.alpha[j] = min(max(kernels.alpha[j] - 2.0 * gain * (accepted - WALK_TARGET), -3.0), 30.0)
        record[2] += accepted / holders
        refresh_mixing(rng, data, j, moments[j], mixing[j])
        if j == 0 or data.block[j] != data.block[j - 1]:
            width = math.sqrt(data.block[j])
            normal_row(state.theta, state.scales[0], state.mean_x, state.spread_x, width, row_mean, spread)
            normal_law(row_mean, spread, data.pairs, centre, covariance)
            is_law = factor(covariance, size, root, 1e-14)
        if not data.repeats[j]:
            carried(data, j, covariance, product)
            is_sound = factor_components(data, j, product, mixing[j], lower)
        if is_law and is_sound:
            accepted = step_from_normal(
                rng, data, j, start, row, mean, centre, root, product, mixing[j], lower, moments[j]
            )
            record[0] += accepted / holders
