"""Intervals of a model's tables at a few times the cost of `map`, for models of any size.

Around the estimate the posterior is taken to be normal, theta ~ N(theta^, (C (S + V)^-1 C' + tau^-2)^-1), and the
tables to be linear in theta. A draw is the estimate's error in tables that are made up (`matrix_free` has the names):
    t ~ N(0, tau^2),   e = tables of n made-up records - n W mu,   v ~ N(0, V),
    delta = t - tau^2 C K^-1 (C' t + e + v),      interval: mu^ +- z sd(Sigma delta), cut at 0 and 1
Linear in mu on purpose: draws pushed through mu() are too narrow. tau is held at its estimate, so where noise swamps
the tables intervals are too narrow, as those of `posterior` are.
"""

from __future__ import annotations

import numpy as np

from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.matrix_free import SOLVED, Entries, Here
from noisewise.graphical.problem import Fit, Problem
from noisewise.types import Floats

__all__ = ["errors"]


def errors(problem: Problem, found: Fit, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """mu at the estimate, and draws (cells, count) of how far it may be off."""
    engine, tau = problem.engine, float(found.tau or 0.0)
    assert isinstance(engine, JunctionEngine)
    entries = Entries(problem)
    here = Here(problem, entries, found.theta, tau)
    potentials, noise = problem.potentials(found.theta), np.sqrt(entries.noise)[:, None]
    theta = tau * rng.standard_normal((problem.parameters, count))
    made = np.concatenate(
        [holder.sums @ _tables(rng, engine, potentials, holder.n, count) for holder in problem.holders]
    )
    sides = here.crossed(theta) + made - here.mean[:, None] + noise * rng.standard_normal((len(noise), count))
    solved = here.solve(sides, start=np.zeros_like(sides), limit=SOLVED)
    return here.mu, here.sigma(entries.outof @ (theta - tau**2 * here.pulled(solved)))


def _tables(rng: np.random.Generator, engine: JunctionEngine, potentials: Floats, n: float, count: int) -> Floats:
    """The cells (cells, count) of made-up records, n of them each time."""
    return np.column_stack([engine.sample_tables(rng, potentials, round(n)) for _ in range(count)]).astype(float)
