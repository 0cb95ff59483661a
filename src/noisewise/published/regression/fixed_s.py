"""`fixed-s` and `fixed-s-fast`: the noisy X'X, made possible, taken as true (Alparslan, Yildirim & Birbil 2022).

    S_j = the positive semidefinite matrix nearest to the published one;  then theta, sigma^2 | z-hat as in `normal-x`,
    or, with sigma^2 set to a crude value s^2,  theta ~ N(m, Q^-1),
    Q = P + sum_j S_j (s^2 S_j + V_j)^-1 S_j,   m = Q^-1 (P m_0 + sum_j S_j (s^2 S_j + V_j)^-1 z_j).

No law of the covariates is assumed. Both ignore the noise in S_j and are over-confident (95 % intervals were seen to
cover down to 73 %). Corrections to the print: the fast form returns m, not Q m; and its crude (bound of |y|)/3 is an sd
(three of them reach the bound), so that s^2 is its square.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.inference.progress import Progress
from noisewise.published.regression.cross_moments import (
    Cross,
    Laws,
    add_information,
    cross,
    cross_notes,
    draw_parameters,
    laws,
    set_moments,
    set_variance,
)
from noisewise.published.regression.normal_x import TARGET
from noisewise.regression.chains import State, Trace, chunks, empty_trace, first_state, keep, stacked
from noisewise.regression.loadings import Beliefs, Published, beliefs, published
from noisewise.regression.pooled import moment_matrix
from noisewise.regression.problem import Fit, Floats, Holder, Problem
from noisewise.regression.wishart import project

OVERCONFIDENT = "The noise in X'X is ignored: intervals are too narrow. Method 'marginal' has it in the model."


def sample(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
) -> Fit:
    """`fixed-s`: draws of theta and sigma^2."""
    data, priors = published(problem), beliefs(problem)
    parts = cross(problem, data, "fixed-s")
    moments = fixed_moments(problem, "fixed-s")
    traces = [empty_trace(problem, draws) for _ in range(chains)]
    failed, accepted = np.zeros(1, np.int64), np.zeros(1)
    for chain, own in enumerate(rng.spawn(chains)):
        mixing, state, walk, now = data.variance.copy(), first_state(problem), np.zeros(1), laws(data, parts)
        state.scales[0] = problem.prior.rate / own.standard_gamma(problem.prior.shape)
        for begin, steps in chunks(chain, chains, warmup, draws, progress):
            _advance(
                own, begin, steps, warmup, data, parts, priors, moments, state, mixing, walk, now, traces[chain],
                accepted, failed,
            )  # fmt: skip
    return Fit(
        **stacked(traces, covariates=False),
        how="fixed-s: Metropolis within Gibbs with X'X as published (Alparslan, Yildirim & Birbil 2022)",
        notes=(OVERCONFIDENT, *cross_notes(problem)),
        non_finite=int(failed[0]),
        details={"acceptance": {"variance": float(accepted[0]) / (chains * draws)}},
    )


def sample_fast(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int = 0,
    progress: Progress | None = None,
    noise_variance: float | None = None,
) -> Fit:
    """`fixed-s-fast`: independent draws of theta from its normal law given a crude sigma^2 (in working units)."""
    del warmup, progress
    if problem.prior.is_learned:
        raise Unsupported(
            "method 'fixed-s-fast' has no scale of the coefficients to learn. "
            "Give `coefficients` a prior, or use method 'fixed-s' or 'marginal'."
        )
    variance = crude_variance(problem) if noise_variance is None else noise_variance
    mean, precision = fast_law(problem, variance)
    root = np.linalg.cholesky(precision)
    normal = rng.standard_normal((chains, draws, problem.q))
    return Fit(
        theta=mean + np.linalg.solve(root.T, normal[..., None])[..., 0],
        variance=None,
        how="fixed-s-fast: the normal law of theta with X'X as published and a crude error variance "
        "(Alparslan, Yildirim & Birbil 2022)",
        notes=(OVERCONFIDENT, f"The error variance was set to {variance:.3g} in working units, not learned."),
        details={"mean": mean, "precision": precision, "noise_variance": variance},
    )


def fast_law(problem: Problem, variance: float) -> tuple[Floats, Floats]:
    """m and Q of theta's normal law given sigma^2; Laplace noise enters by its variance."""
    data, priors = published(problem), beliefs(problem)
    parts = cross(problem, data, "fixed-s-fast")
    moments = fixed_moments(problem, "fixed-s-fast")
    precision = problem.prior.precision / (variance if problem.prior.is_relative else 1.0)
    weighted, now = precision @ priors.mean, laws(data, parts)
    for j in range(len(data.n)):
        set_moments(data, parts, j, j, moments[j], now)
        set_variance(parts, j, j, j, variance, data.variance[j], now)
        add_information(parts, j, now, precision, weighted)
    return np.asarray(np.linalg.solve(precision, weighted), float), precision


def crude_variance(problem: Problem) -> float:
    """(bound of |y|/3)^2, the smallest over the holders, in working units."""
    q = problem.q
    widths = [
        max(abs(holder.low[-1] - _shift(holder, q)), abs(holder.high[-1] - _shift(holder, q))) / abs(holder.map[q, q])
        for holder in problem.holders
    ]
    return float((min(widths) / 3.0) ** 2)


def _shift(holder: Holder, q: int) -> float:
    """What a holder's y has added to the working y: the constant's coefficient, where there is an intercept."""
    return float(holder.map[q, 0]) if len(holder.low) < q + 1 else 0.0


def fixed_moments(problem: Problem, method: str) -> Floats:
    """(J, m, m): each holder's published X'X, projected in its own units, mapped to working units."""
    q = problem.q
    moments = np.zeros((len(problem.holders), problem.m, problem.m))
    for j, holder in enumerate(problem.holders):
        own = moment_matrix(holder, problem.m, intercept=problem.intercept)[:q, :q].copy()
        if np.isnan(own).any():
            raise Unsupported(f"method {method!r} needs xx of every holder. Ask for releases with parts=('xx', 'xy').")
        project(own, problem.intercept)
        back = np.linalg.inv(holder.map[:q, :q])
        moments[j, :q, :q] = back @ own @ back.T
    return moments


@njit(cache=True)
def _advance(
    rng: np.random.Generator,
    begin: int,
    steps: int,
    warmup: int,
    data: Published,
    parts: Cross,
    priors: Beliefs,
    moments: Floats,
    state: State,
    mixing: Floats,
    walk: Floats,
    now: Laws,
    trace: Trace,
    accepted: Floats,
    failed: NDArray[np.int64],
) -> None:
    """Steps `begin`, `begin` + 1, ...; those below 0 are warm-up and tune the step of log sigma^2."""
    for j in range(len(data.n)):
        set_moments(data, parts, j, j, moments[j], now)
        set_variance(parts, j, j, j, state.scales[0], mixing[j], now)
    for at in range(begin, begin + steps):
        is_sound, probability = draw_parameters(rng, data, parts, moments, mixing, priors, state, walk[0], now)
        if at < 0:
            walk[0] += (at + warmup + 1.0) ** -0.6 * (probability - TARGET)
        else:
            accepted[0] += probability
        if not is_sound:
            failed[0] += 1
        keep(state, trace, at)
