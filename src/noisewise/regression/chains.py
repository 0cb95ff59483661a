"""The chains of a compiled sampler: what is kept of them, and their steps in chunks, so that progress can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from noisewise.compilation import njit
from noisewise.inference.progress import Progress
from noisewise.regression.conjugate import draw_coefficients, draw_covariates
from noisewise.regression.loadings import Beliefs
from noisewise.regression.problem import Floats, Problem

CHUNK = 500
"""Steps between two reports of progress."""


class State(NamedTuple):
    """The parameters of a chain, written in place."""

    theta: Floats
    scales: Floats  # sigma^2 and, where it is learned, tau^2
    mean_x: Floats
    spread_x: Floats


class Trace(NamedTuple):
    """The draws of one chain."""

    theta: Floats
    variance: Floats
    mean_x: Floats
    spread_x: Floats


def first_state(problem: Problem) -> State:
    """Room for the parameters."""
    return State(np.zeros(problem.q), np.ones(2), np.zeros(problem.d), np.eye(problem.d))


def empty_trace(problem: Problem, draws: int) -> Trace:
    """Room for the draws of one chain."""
    d = problem.d
    return Trace(np.empty((draws, problem.q)), np.empty(draws), np.empty((draws, d)), np.empty((draws, d, d)))


def stacked(traces: list[Trace], *, covariates: bool) -> dict[str, Any]:
    """The draws of all chains as the fields of a Fit."""
    fields = {"theta": "theta", "variance": "variance"}
    if covariates:
        fields |= {"mean_x": "mean_x", "covariance_x": "spread_x"}
    return {field: np.array([getattr(trace, name) for trace in traces]) for field, name in fields.items()}


def chunks(chain: int, chains: int, warmup: int, draws: int, progress: Progress | None) -> Iterator[tuple[int, int]]:
    """(begin, steps) of each chunk, counted so that the first draw that is kept has number 0; warm-up ends a chunk."""
    begin = -warmup
    while begin < draws:
        stop = min(begin + CHUNK, draws if begin >= 0 else 0)
        yield begin, stop - begin
        begin = stop
        if progress:
            progress(chain * (warmup + draws) + begin + warmup, chains * (warmup + draws))


@njit(cache=True)
def fit_first(rng: np.random.Generator, moments: Floats, n: float, priors: Beliefs, state: State) -> None:
    """Parameters that go with the first moments (J, m, m) of n rows in all."""
    total = np.zeros(moments.shape[1:])
    for j in range(len(moments)):
        total += moments[j]
    state.scales[0] = (priors.rate + 0.5 * total[-1, -1]) / (priors.shape + 0.5 * n)
    for _ in range(3):  # theta and sigma^2 in turn where they are not drawn together
        draw_coefficients(rng, total, n, priors, state.theta, state.scales)
    if priors.degrees > 0.0:
        draw_covariates(rng, total, n, priors, state.mean_x, state.spread_x)


@njit(cache=True)
def keep(state: State, trace: Trace, at: int) -> None:
    """Write the state into the trace, once warm-up is over."""
    if at >= 0:
        trace.theta[at] = state.theta
        trace.variance[at] = state.scales[0]
        trace.mean_x[at] = state.mean_x
        trace.spread_x[at] = state.spread_x
