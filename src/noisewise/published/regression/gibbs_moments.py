"""Gibbs sampling over noisy sufficient statistics (Bernstein & Sheldon 2019), one holder or many.

    s_j | theta, sigma^2 ~ N(n mu_t, n C),  t_j = s_j + noise:     s_j from the product of the two normal laws,
    (theta, sigma^2) | sum s_j from its normal-inverse-gamma law, the mixing variances of Laplace noise given t_j - s_j

C needs the covariates' fourth moments: `gibbs-noisy` takes released ones as true, `gibbs-prior` those of the prior of
x, `gibbs-update` draws mu, Sigma of normal covariates given X'X. A drawn s_j that no records could have is projected.
Corrections to the print: Cov(x_i y, x_j y) has xi_ik,jl; m_N has P m; b_N = b + (y'y + m'P m - m_N'P_N m_N)/2; the
distributed form (Alparslan, Yildirim & Birbil 2022) has (n_j C)^-1.

As published, theta's draw takes s_j as exact sufficient statistics while s_j's law is normal: the two conditionals are
not of one joint law, and differ where n is small.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.inference.progress import Progress
from noisewise.published.regression.prior_moments import prior_moments
from noisewise.regression.chains import State, Trace, chunks, empty_trace, first_state, fit_first, keep, stacked
from noisewise.regression.conjugate import draw_coefficients, draw_covariates
from noisewise.regression.loadings import (
    Beliefs,
    Published,
    beliefs,
    published,
    require_conjugate,
    require_normal_covariates,
)
from noisewise.regression.normal_product import (
    carried,
    draw_mixing,
    draw_moments,
    factor_components,
    from_matrix,
    given_law,
    given_moments,
    normal_law,
    normal_row,
    to_matrix,
)
from noisewise.regression.problem import Fit, Floats, GivenX, Problem
from noisewise.regression.released import released_moments
from noisewise.regression.start import first_moments
from noisewise.regression.wishart import factor, project


class Given(NamedTuple):
    """The covariates' moments for each holder (rows averaged in blocks have their own); empty where they are drawn."""

    second: Floats  # (J, q, q)
    xi: Floats  # (J, q, q, q, q)
    is_empty: bool


def sample_noisy(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
) -> Fit:
    """`gibbs-noisy`: the covariates' released fourth moments, taken as true."""
    require_conjugate(problem.prior, "gibbs-noisy")
    moments = released_moments(problem.holders, intercept=problem.intercept, asked_by="method 'gibbs-noisy'")
    note = "The covariates' released fourth moments are taken as true: their noise is not in the intervals."
    return _run(problem, rng, "gibbs-noisy", moments, (note,), chains, draws, warmup, progress)


def sample_prior(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
) -> Fit:
    """`gibbs-prior`: the covariates' moments as given or as their prior has them, whatever the release says."""
    require_conjugate(problem.prior, "gibbs-prior")
    x = problem.covariates
    if not isinstance(x, GivenX):
        x = prior_moments(require_normal_covariates(problem, "gibbs-prior"), problem.intercept)
    note = "The covariates' moments are taken as given, not learned from the release."
    return _run(problem, rng, "gibbs-prior", x, (note,), chains, draws, warmup, progress)


def sample_update(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
) -> Fit:
    """`gibbs-update`: normal covariates whose mean and covariance are drawn given the latent X'X."""
    require_conjugate(problem.prior, "gibbs-update")
    require_normal_covariates(problem, "gibbs-update")
    return _run(problem, rng, "gibbs-update", None, (), chains, draws, warmup, progress)


def sample_distributed(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
) -> Fit:
    """`bernstein-distributed`: `gibbs-update` for holders that publish all of xx, xy, yy, without an intercept."""
    require_conjugate(problem.prior, "bernstein-distributed")
    require_normal_covariates(problem, "bernstein-distributed")
    if problem.intercept:
        raise Unsupported(
            "method 'bernstein-distributed' was published for covariates with mean 0 and no intercept. "
            "Fit with intercept=False, or use method 'gibbs-update', which is the same with an intercept."
        )
    if any(len(holder.pairs) < problem.m * (problem.m + 1) // 2 for holder in problem.holders):
        raise Unsupported(
            "method 'bernstein-distributed' needs xx, xy and yy of every holder. "
            "Ask for releases with parts=('xx', 'xy', 'yy'), or use method 'gibbs-update'."
        )
    return _run(problem, rng, "bernstein-distributed", None, (), chains, draws, warmup, progress)


def _run(
    problem: Problem,
    rng: np.random.Generator,
    name: str,
    covariates: GivenX | None,
    notes: tuple[str, ...],
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None,
) -> Fit:
    """All chains; `covariates` None draws mu and Sigma, else gives the moments."""
    data, priors, given = published(problem), beliefs(problem), _given(problem, covariates)
    traces = [empty_trace(problem, draws) for _ in range(chains)]
    met = np.zeros(2, np.int64)
    for chain, own in enumerate(rng.spawn(chains)):
        moments, mixing, state = first_moments(problem, data, own), data.variance.copy(), first_state(problem)
        fit_first(own, moments, data.n.sum(), priors, state)
        for begin, steps in chunks(chain, chains, warmup, draws, progress):
            _advance(own, begin, steps, data, priors, given, state, mixing, moments, traces[chain], met)
    failed, projected = int(met[0]), met[1] / (chains * (warmup + draws) * len(data.n))
    if projected:
        notes = (*notes, f"{projected:.1%} of the drawn moments were projected to possible ones.")
    return Fit(
        **stacked(traces, covariates=covariates is None),
        how=f"{name}: Gibbs sampling over the noisy moments, taken as normal (Bernstein & Sheldon 2019)",
        notes=notes,
        non_finite=failed,
        details={"projected": projected},
    )


def _given(problem: Problem, covariates: GivenX | None) -> Given:
    if covariates is None:
        return Given(np.zeros((1, 1, 1)), np.zeros((1, 1, 1, 1, 1)), True)
    moments = [given_moments(covariates, holder.block, problem.intercept) for holder in problem.holders]
    return Given(np.array([second for second, _ in moments]), np.array([xi for _, xi in moments]), False)


@njit(cache=True)
def _advance(
    rng: np.random.Generator,
    begin: int,
    steps: int,
    data: Published,
    priors: Beliefs,
    given: Given,
    state: State,
    mixing: Floats,
    moments: Floats,
    trace: Trace,
    met: NDArray[np.int64],
) -> None:
    """Steps `begin`, `begin` + 1, ...; `met` counts laws that could not be formed, and projections."""
    m, size, most = moments.shape[1], len(data.pairs), data.observed.shape[1]
    mean, spread, total = np.empty(m), np.empty((m, m)), np.empty((m, m))
    centre, covariance, root = np.empty(size), np.empty((size, size)), np.empty((size, size))
    product, lower, vector = np.empty((most, size)), np.empty((most, most)), np.empty(size)
    rows, is_sound = data.n.sum(), True
    for at in range(begin, begin + steps):
        total[:] = 0.0
        for j in range(len(data.n)):
            if j == 0 or data.block[j] != data.block[j - 1]:
                width = math.sqrt(data.block[j])
                if given.is_empty:
                    normal_row(state.theta, state.scales[0], state.mean_x, state.spread_x, width, mean, spread)
                    normal_law(mean, spread, data.pairs, centre, covariance)
                else:
                    second, xi = given.second[j], given.xi[j]
                    given_law(state.theta, state.scales[0], second, xi, data.pairs, centre, covariance)
                factor(covariance, size, root, 1e-13)
            if not data.repeats[j]:
                carried(data, j, covariance, product)
                is_sound = factor_components(data, j, product, mixing[j], lower)
            if is_sound:
                draw_moments(rng, data, j, centre, root, product, mixing[j], lower, vector)
                to_matrix(data, j, vector, moments[j])
                if project(moments[j], priors.intercept):
                    met[1] += 1
                    from_matrix(data, moments[j], vector)
                draw_mixing(rng, data, j, vector, mixing[j])
            else:
                met[0] += 1
            total += moments[j]
        if not draw_coefficients(rng, total, rows, priors, state.theta, state.scales):
            met[0] += 1
        if given.is_empty and not draw_covariates(rng, total, rows, priors, state.mean_x, state.spread_x):
            met[0] += 1
        keep(state, trace, at)
