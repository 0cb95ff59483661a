"""Regressions drawn from their own prior: unknowns, rows, noisy moments. Nothing here uses the code under test."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from noisewise.regression.problem import Holder, NormalX, Prior, Problem


@dataclass(frozen=True)
class World:
    """The truth behind a problem."""

    problem: Problem
    theta: np.ndarray
    variance: float
    mean_x: np.ndarray
    covariance_x: np.ndarray


def pairs_of(m, intercept):
    """All released pairs under change-one: the public 1 * 1 is left out."""
    pairs = np.array(list(itertools.combinations_with_replacement(range(m), 2)), np.int64)
    return pairs[1:] if intercept else pairs


def draw_world(
    rng,
    *,
    d=1,
    n=100,
    epsilon=1.0,
    holders=1,
    law="gaussian",
    intercept=True,
    shrink=None,
    block=1,
    bound=30.0,
    radius=2.0,
    is_relative=False,
    is_learned=False,
    pairs=None,
    maps=None,
):
    """Unknowns from the prior, rows from the model, moments with noise as if rows lay in a ball of that radius."""
    q, m, o = d + intercept, d + intercept + 1, int(intercept)
    prior = Prior(np.zeros(q), 2.0 * np.eye(q), 3.0, 1.0, is_relative, is_learned)
    normal = NormalX(np.zeros(d), 2.0, (d + 3.0) * np.eye(d), d + 4.0)
    variance = 1 / rng.gamma(prior.shape, 1 / prior.rate)
    scales = np.full(q, math.sqrt(variance) if is_relative else 1.0)
    if is_learned:
        scales[o:] = 1 / math.sqrt(rng.gamma(0.5, 2.0))
    theta = scales * rng.standard_normal(q) / math.sqrt(2.0)
    covariance = np.atleast_2d(stats.invwishart(df=normal.degrees, scale=normal.scale).rvs(random_state=rng))
    mean = np.linalg.cholesky(covariance / normal.strength) @ rng.standard_normal(d) * o
    pairs = pairs_of(m, intercept) if pairs is None else pairs
    sizes = shrink or radius
    found = []
    for j in range(holders):
        mapping = np.eye(m) if maps is None else maps[j]
        rows = draw_rows(rng, n, theta, variance, mean, covariance, intercept) @ mapping.T
        rows = published(rows, intercept, bound, shrink, block)
        total = (rows.T @ rows)[pairs[:, 0], pairs[:, 1]]
        noise, scale, spread = draw_noise(rng, law, pairs, sizes, epsilon)
        found.append(
            Holder(
                n=n // block, pairs=pairs, observed=total + noise, variance=spread, laplace=scale, map=mapping,
                low=np.full(d + 1, -bound), high=np.full(d + 1, bound), shrink=shrink, block=block,
            )
        )  # fmt: skip
    return World(Problem(tuple(found), prior, normal, intercept), theta, variance, mean, covariance)


def draw_rows(rng, n, theta, variance, mean, covariance, intercept):
    """Rows w = ([1,] x, y)."""
    x = mean + rng.standard_normal((n, len(mean))) @ np.linalg.cholesky(covariance).T
    u = np.column_stack([np.ones(n), x]) if intercept else x
    return np.column_stack([u, u @ theta + math.sqrt(variance) * rng.standard_normal(n)])


def published(rows, intercept, bound, shrink, block):
    """Rows clamped, shortened and averaged in blocks, as the holder does it."""
    rows = rows.copy()
    entries = np.clip(rows[:, int(intercept) :], -bound, bound)
    if shrink:
        entries = entries * np.minimum(1.0, shrink / np.linalg.norm(entries, axis=1))[:, None]
    rows[:, int(intercept) :] = entries
    return rows.reshape(-1, block, rows.shape[1]).sum(axis=1) / math.sqrt(block)


def draw_noise(rng, law, pairs, radius, epsilon):
    """Noise, Laplace scales (0 where Gaussian) and variances of a size that `epsilon` would need in a ball."""
    count = len(pairs)
    if law == "laplace":
        scale = np.full(count, radius**2 * math.sqrt(count) / epsilon)
        return scale * rng.laplace(size=count), scale, 2 * scale**2
    sd = math.sqrt(2) * (1 + radius**2) / epsilon / np.where(pairs[:, 0] == pairs[:, 1], 1.0, math.sqrt(2))
    return sd * rng.standard_normal(count), np.zeros(count), sd**2


def uniforms(rng, world, fit, keep=99):
    """(rank + V)/(draws + 1) of each true unknown among the draws: uniform if the posterior is calibrated."""
    o = int(world.problem.intercept)
    truth = np.concatenate([world.theta, [world.variance], world.mean_x[: o * 99], np.diag(world.covariance_x)])
    draws = [fit.theta, fit.variance[..., None], *([fit.mean_x] if o else [])]
    draws = np.concatenate([*draws, np.diagonal(fit.covariance_x, axis1=-2, axis2=-1)], axis=-1)
    draws = draws.reshape(-1, len(truth))
    draws = draws[:: max(1, len(draws) // keep)][:keep]
    return (np.sum(draws < truth, axis=0) + rng.random(len(truth))) / (len(draws) + 1)


def smallest_p_value(u):
    """Of uniforms (trials, unknowns): the smallest over tests of rank, spread and coverage, times their number."""
    squares = np.sum(stats.norm.ppf(u) ** 2, axis=0)
    found = [*(2 * np.minimum(stats.chi2.cdf(squares, len(u)), stats.chi2.sf(squares, len(u))))]
    for column in u.T:
        found.append(stats.kstest(column, "uniform").pvalue)
        for level in (0.5, 0.9, 0.95):
            inside = int(np.sum(np.abs(column - 0.5) <= level / 2))
            found.append(stats.binomtest(inside, len(u), level).pvalue)
    return min(1.0, len(found) * min(found))
