"""Logistic, probit and Poisson regressions drawn from their own prior: unknowns, records, noisy moments.

Rows, responses and sums are made here from the formulas of the docs; only the list of configurations is the library's.
"""

import math
from dataclasses import dataclass

import numpy as np
from regression_worlds import draw_noise
from scipy import special, stats

import noisewise as nw
from noisewise.regression.configurations import Configurations
from noisewise.regression.glm.links import LOGIT_LINK, POISSON_LINK, PROBIT_LINK
from noisewise.regression.glm.problem import Cap, CoefficientBelief, GlmProblem
from noisewise.regression.location import location_model
from noisewise.regression.problem import Holder
from noisewise.regression.units import Units

SCHEMA = nw.Schema(
    {"s": nw.Levels(["no", "yes"]), "t": nw.Levels(["no", "yes"]), "r": nw.Levels(["a", "b", "c"]),
     "x": nw.Bounded(-100, 100), "z": nw.Bounded(-100, 100)}, n=100, neighbours="change-one",
)  # fmt: skip
SMOKES, DRINKS = nw.column("s").equals("yes"), nw.column("t").equals("yes")
KINDS = {
    "one": (SMOKES,),
    "two": (SMOKES, DRINKS),
    "levels": (nw.column("r").equals("b"), nw.column("r").equals("c")),
    "normal": (nw.column("x"), nw.column("z")),
    "number": (SMOKES, nw.column("x")),
    "interaction": (SMOKES, nw.column("x"), SMOKES * nw.column("x")),
}
LINKS = {"logistic": LOGIT_LINK, "probit": PROBIT_LINK, "poisson": POISSON_LINK}
TIGHT = 6.0  # degrees of freedom more than numbers, so that their spread is near 1


@dataclass(frozen=True)
class World:
    """The truth behind a problem: theta (d + 1,), shares, means and factor of the numbers."""

    problem: GlmProblem
    theta: np.ndarray
    share: np.ndarray
    means: np.ndarray  # (C, k)
    root: np.ndarray  # (k, k)


def responses(rng, link, s, cap):
    """y given s, drawn by its definition; counts as they are, before any cap."""
    if link == "logistic":
        return (rng.random(s.shape) < special.expit(s)).astype(float)
    if link == "probit":
        return (rng.standard_normal(s.shape) < s).astype(float)
    return rng.poisson(np.exp(np.minimum(s, 30.0))).astype(float)


def draw_rows(rng, world, link, n, cap, *, refuses=False):
    """n rows (1, x, y) of a world; y clamped at the cap, or rows above it drawn again."""
    made = world.problem.covariates
    rows = np.empty((0, made.offset.shape[1] + 2))
    while len(rows) < n:
        which = rng.choice(len(world.share), size=n, p=world.share)
        z = world.means[which] + rng.standard_normal((n, made.numbers)) @ world.root.T
        x = made.offset[which] + np.einsum("nik,nk->ni", made.slope[which], z)
        y = responses(rng, link, world.theta[0] + x @ world.theta[1:], cap)
        new = np.column_stack([np.ones(n), x, y])
        if link == "poisson" and refuses:
            new = new[y <= cap]
        rows = np.concatenate([rows, new])
    rows = rows[:n]
    if link == "poisson":
        rows[:, -1] = np.minimum(rows[:, -1], cap)
    return rows


def draw_world(
    rng, kind, link, *, n, epsilon, law="gaussian", holders=1, cap=10.0, refuses=False, radius=2.0, learned=False
):  # fmt: skip
    """Unknowns from the prior, rows from the model, moments with noise as if rows lay in a ball of that radius."""
    made = Configurations.of(KINDS[kind], (SCHEMA,))
    d, k = made.constant.shape[1], len(made.numbers)
    x = location_model(made, centre=np.zeros(d), factor=np.ones(d), likely=(np.zeros(k), np.ones(k)))
    # The default law of the numbers is as weak as can be; here it is near N(0, 1), so that every draw is of use.
    contrast = np.concatenate([np.full((made.count, 1), 0.5), made.directions()], axis=1)
    x = type(x)(x.offset, x.slope, x.tilt, contrast, TIGHT * np.eye(k), k + TIGHT, x.centre, x.spread)
    scaled = np.array([0.0] + [float(learned)] * d)
    tau = 1 / math.sqrt(rng.gamma(0.5, 2.0)) if learned else 1.0
    theta = np.where(scaled > 0, tau, 1.0) * rng.standard_normal(d + 1)
    prior = CoefficientBelief(np.zeros(d + 1), np.eye(d + 1), scaled, learned)
    logits = x.tilt @ rng.standard_normal(x.tilt.shape[1])
    share = np.exp(logits - logits.max())
    share /= share.sum()
    root = np.zeros((k, k))
    if k:
        root = np.linalg.cholesky(np.atleast_2d(stats.invwishart(df=x.degrees, scale=x.scale).rvs(random_state=rng)))
    means = contrast @ rng.standard_normal((k, contrast.shape[1])).T @ root.T
    m = d + 2
    last = [(m - 1, m - 1)] if link == "poisson" else []
    pairs = np.array([(a, b) for a in range(m) for b in range(max(a, 1), m) if a < m - 1] + last, np.int64)
    caps = (Cap(cap if link == "poisson" else 1.0, refuses),) * holders
    bare = GlmProblem(LINKS[link], (), caps, prior, x, Units(np.zeros(d + 1), np.ones(d + 1), True))
    world = World(bare, theta, share, means, root)
    found = []
    for _ in range(holders):
        w = draw_rows(rng, world, link, n, cap, refuses=refuses)
        noise, scale, spread = draw_noise(rng, law, pairs, radius, epsilon)
        total = (w.T @ w)[pairs[:, 0], pairs[:, 1]]
        found.append(
            Holder(
                n=n, pairs=pairs, observed=total + noise, variance=spread, laplace=scale, map=np.eye(m),
                low=np.full(d + 1, -np.inf), high=np.full(d + 1, np.inf),
            )
        )  # fmt: skip
    problem = GlmProblem(bare.link, tuple(found), caps, prior, x, bare.units)
    return World(problem, theta, share, means, root)


def uniforms(rng, world, fit, keep=99):
    """(rank + V)/(draws + 1) of each true coefficient: uniform if the posterior is calibrated."""
    draws = fit.theta.reshape(-1, len(world.theta))
    draws = draws[:: max(1, len(draws) // keep)][:keep]
    return (np.sum(draws < world.theta, axis=0) + rng.random(len(world.theta))) / (len(draws) + 1)
