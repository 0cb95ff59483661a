"""Randomised quasi-Monte Carlo with its own error: a few independent scrambles of one net.

An expectation estimated by each of R scrambles alone, e_1 .. e_R, is estimated by their mean; the e_r are independent
and unbiased, so sd(e)/sqrt(R) is an honest standard error however the points within a scramble depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp
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
    return np.asarray(logsumexp(logs, axis=-1) - math.log(logs.shape[-1]))


def log_error(logs: Array) -> Array:
    """The standard error of log_mean(logs), (K,), from the logs (K, R) of R scrambles."""
    with np.errstate(invalid="ignore"):
        relative = np.exp(logs - log_mean(logs)[:, None])
    return np.asarray(np.std(relative, axis=-1, ddof=1) / math.sqrt(logs.shape[-1]))


def typical_error(scramble_logs: Callable[[Theta], Array], population: AnyPopulation, seed: int) -> float:
    """The error of log p near the parameters that explain the release best.

    Prior draws are pulled towards the best so far, more where that brings nothing better, until they explain the
    release about equally well: a posterior may be far narrower than its prior. Supports are convex, so no draw leaves.
    """
    rng = np.random.default_rng(seed)
    best: Theta = {}
    highest, found, reach = -math.inf, math.inf, 1.0
    for _ in range(MOST_ROUNDS if population.free else 1):
        theta: Theta = population.sample_prior(rng, PER_ROUND) if population.free else {}
        if best:
            theta = {name: best[name] + reach * (value - best[name]) for name, value in theta.items()}
        logs = scramble_logs(theta)
        means, errors = log_mean(logs), log_error(logs)
        usable = np.isfinite(means) & np.isfinite(errors)
        if not usable.any():
            continue
        top = int(np.argmax(np.where(usable, means, -np.inf)))
        reach *= SLOWER if means[top] > highest else FASTER
        if means[top] > highest:
            highest, best = float(means[top]), {name: value[top : top + 1] for name, value in theta.items()}
        weight = np.where(usable, np.exp(np.where(usable, means, -np.inf) - highest), 0.0)
        if weight.sum() > 0:
            found = float(weight @ np.where(usable, errors, 0.0) / weight.sum())
        if np.median(weight) > math.exp(-2):
            break
    return found
