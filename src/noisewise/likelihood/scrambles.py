"""Randomised quasi-Monte Carlo with its own error: a few independent scrambles of one net.

An expectation estimated by each of R scrambles alone, e_1 .. e_R, is estimated by their mean; the e_r are independent
and unbiased, so sd(e)/sqrt(R) is an honest standard error however the points within a scramble depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation

N_SCRAMBLES = 8
PER_ROUND, MOST_ROUNDS, SLOWER, FASTER = 8, 14, 0.6, 0.3
EDGE = 1e-12


def net(rng: np.random.Generator, count: int, size: int) -> Array:
    """`count` scrambled Sobol' points of `size` coordinates, strictly inside (0, 1); count is a power of two."""
    return np.asarray(np.clip(qmc.Sobol(size, scramble=True, rng=rng).random(count), EDGE, 1 - EDGE))


def log_mean(logs: Array) -> Array:
    """log of the mean of exp(logs) over the last axis."""
    return log_sum(logs) - math.log(logs.shape[-1])


def log_sum(logs: Array) -> Array:
    """log of the sum of exp(logs) over the last axis; several times faster than SciPy's on small arrays."""
    top = logs.max(axis=-1)
    unit = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.log(np.exp(logs - unit[..., None]).sum(axis=-1)) + unit)


def log_error(logs: Array) -> Array:
    """The standard error of log_mean(logs), (K,), from the logs (K, R) of R scrambles."""
    with np.errstate(invalid="ignore"):
        relative = np.exp(logs - log_mean(logs)[:, None])
    return np.asarray(np.std(relative, axis=-1, ddof=1) / math.sqrt(logs.shape[-1]))


class Typical(NamedTuple):
    """The error of log p near the parameters that explain the release best, and where that was seen."""

    error: float
    theta: Theta


def typical_error(scramble_logs: Callable[[Theta], Array], population: AnyPopulation, seed: int) -> Typical:
    """The error of log p, weighted by how well each of a few parameters explains the release.

    Prior draws are pulled towards the best so far, more where that brings nothing better, until they explain the
    release about equally well: a posterior may be far narrower than its prior. Supports are convex, so no draw leaves.
    """
    rng = np.random.default_rng(seed)
    best: Theta = {}
    highest, found, reach = -math.inf, Typical(math.inf, {}), 1.0
    for _ in range(MOST_ROUNDS if population.free else 1):
        theta: Theta = population.sample_prior(rng, PER_ROUND) if population.free else {}
        if best:
            theta = {name: best[name] + reach * (value - best[name]) for name, value in theta.items()}
        logs = scramble_logs(theta)
        means = log_mean(logs)
        usable = np.isfinite(means) & np.isfinite(log_error(logs))
        if not usable.any():
            continue
        top = int(np.argmax(np.where(usable, means, -np.inf)))
        reach *= SLOWER if means[top] > highest else FASTER
        if means[top] > highest:
            highest, best = float(means[top]), {name: value[top : top + 1] for name, value in theta.items()}
        weight = np.where(usable, np.exp(np.where(usable, means, -np.inf) - highest), 0.0)
        if weight.sum() > 0:
            found = Typical(weighted_error(logs), theta)
        if np.median(weight) > math.exp(-2):
            break
    return found


def weighted_error(logs: Array) -> float:
    """The errors of the rows of logs (K, R), averaged in proportion to the likelihood of each."""
    means, errors = log_mean(logs), log_error(logs)
    usable = np.isfinite(means) & np.isfinite(errors)
    if not usable.any():
        return math.inf
    weight = np.exp(means[usable] - means[usable].max())
    return float(weight @ errors[usable] / weight.sum())
