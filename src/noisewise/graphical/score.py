"""The log-likelihood of parameters and its gradient, by the chain rule through the tables' means.

    log p(y | theta) = sum_h log p_h(y_h | n W mu(theta)),      gradient = t' Sigma(theta) v,     v = sum_h n W' slope_h

Sigma(theta) v is the derivative of mu along v, which the engine carries through the tree: the covariance matrix itself
is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisewise.graphical.cell_laws import CellLaw
from noisewise.graphical.problem import Problem
from noisewise.types import Floats

__all__ = ["log_likelihood", "means", "score"]


def means(problem: Problem, theta: Floats) -> list[Floats]:
    """Each holder's n W mu (K, entries), for K rows of theta."""
    _, mu = problem.engine.marginals_of_rows(problem.potentials(theta))
    return [holder.mean(mu) for holder in problem.holders]


def log_likelihood(problem: Problem, laws: Sequence[CellLaw], theta: Floats) -> Floats:
    """log p(y | theta) (K,)."""
    parts = [law.score(mean)[0] for law, mean in zip(laws, means(problem, theta), strict=True)]
    return np.asarray(sum(parts))


def score(problem: Problem, laws: Sequence[CellLaw], theta: Floats) -> tuple[Floats, Floats]:
    """log p(y | theta) (K,) and its gradient (K, p)."""
    _, mu, covariance_times = problem.engine.linearised(problem.potentials(theta))
    total, direction = np.zeros(len(theta)), np.zeros(mu.shape)
    for holder, law in zip(problem.holders, laws, strict=True):
        log_density, slope = law.score(holder.mean(mu))
        total += log_density
        direction += holder.n * holder.back(slope)
    return total, problem.gather(covariance_times(direction))
