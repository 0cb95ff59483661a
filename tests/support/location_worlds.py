"""Regressions on yes/no covariates, drawn from their own prior: unknowns, records, noisy moments.

Shares, rows and sums are made here from the formulas of the docs; only the list of configurations is the library's.
"""

import math
from dataclasses import dataclass

import numpy as np
from regression_worlds import draw_noise, pairs_of
from scipy import stats

import noisewise as nw
from noisewise.regression.configurations import Configurations
from noisewise.regression.location import location_model
from noisewise.regression.problem import Holder, Prior, Problem

SCHEMA = nw.Schema(
    {"s": nw.Levels(["no", "yes"]), "t": nw.Levels(["no", "yes"]), "r": nw.Levels(["a", "b", "c"]),
     "x": nw.Bounded(-100, 100), "y": nw.Bounded(-100, 100)}, n=100, neighbours="change-one",
)  # fmt: skip
SMOKES, DRINKS = nw.column("s").equals("yes"), nw.column("t").equals("yes")
KINDS = {
    "one": (SMOKES,),
    "two": (SMOKES, DRINKS),
    "levels": (nw.column("r").equals("b"), nw.column("r").equals("c")),
    "number": (SMOKES, nw.column("x")),
    "interaction": (SMOKES, nw.column("x"), SMOKES * nw.column("x")),
}


@dataclass(frozen=True)
class World:
    """The truth behind a problem."""

    problem: Problem
    theta: np.ndarray
    variance: float


def draw_world(rng, kind, *, n, epsilon, law="gaussian", holders=1, intercept=True):
    """Unknowns from the prior, rows from the model, moments with noise as if rows lay in a ball of radius 2."""
    made = Configurations.of(KINDS[kind], (SCHEMA,))
    d, k = made.constant.shape[1], len(made.numbers)
    x = location_model(made, centre=np.zeros(d), factor=np.ones(d), likely=(np.zeros(k), np.ones(k)))
    q, m = d + intercept, d + intercept + 1
    prior = Prior(np.zeros(q), 0.5 * np.eye(q), 3.0, 1.0)
    variance = 1 / rng.gamma(prior.shape, 1 / prior.rate)
    theta = rng.standard_normal(q) * math.sqrt(2)
    logits = x.tilt @ rng.standard_normal(x.tilt.shape[1])
    share = np.exp(logits - logits.max())
    share /= share.sum()
    root = np.zeros((k, k))
    if k:
        root = np.linalg.cholesky(np.atleast_2d(stats.invwishart(df=x.degrees, scale=x.scale).rvs(random_state=rng)))
    means = x.contrast @ rng.standard_normal((k, x.contrast.shape[1])).T @ root.T
    pairs = pairs_of(m, intercept)
    found = []
    for _ in range(holders):
        which = rng.choice(len(share), size=n, p=share)
        z = means[which] + rng.standard_normal((n, k)) @ root.T
        rows = made.constant[which] + np.einsum("nik,nk->ni", made.coefficient[which], z)
        u = np.column_stack([np.ones(n), rows]) if intercept else rows
        w = np.column_stack([u, u @ theta + math.sqrt(variance) * rng.standard_normal(n)])
        noise, scale, spread = draw_noise(rng, law, pairs, 2.0, epsilon)
        total = (w.T @ w)[pairs[:, 0], pairs[:, 1]]
        found.append(
            Holder(
                n=n, pairs=pairs, observed=total + noise, variance=spread, laplace=scale, map=np.eye(m),
                low=np.full(d + 1, -np.inf), high=np.full(d + 1, np.inf),
            )
        )  # fmt: skip
    return World(Problem(tuple(found), prior, x, intercept), theta, variance)


def uniforms(rng, world, fit, keep=99):
    """(rank + V)/(draws + 1) of each true coefficient and the variance: uniform if the posterior is calibrated."""
    truth = np.append(world.theta, world.variance)
    draws = np.concatenate([fit.theta, fit.variance[..., None]], axis=-1).reshape(-1, len(truth))
    draws = draws[:: max(1, len(draws) // keep)][:keep]
    return (np.sum(draws < truth, axis=0) + rng.random(len(truth))) / (len(draws) + 1)
