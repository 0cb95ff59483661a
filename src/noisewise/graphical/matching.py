"""The model whose tables are given: the convex problem under every point estimate.

    maximise  theta . m - A(theta) - ridge |theta|^2,          gradient  m - t(theta) - 2 ridge theta

m are the parameters' statistics (for each parameter the probability of its cells, summed), t(theta) those of the model.
With ridge 0 the model's own statistics become m, provided that some distribution with no empty cell has them: such is
the posterior mean of t(theta), and the model that matches it is the q that minimises the posterior expectation of
KL(p_theta || q), since that is a constant less theta_q . m - A(theta_q). Starting at 0, directions that change no
probability are never taken.
"""

from __future__ import annotations

import numpy as np

from noisewise.graphical.box_descent import least
from noisewise.graphical.problem import Problem
from noisewise.types import Floats

__all__ = ["match"]

STEPS = 5000
TOLERANCE = 1e-9  # of a statistic: a probability


def match(
    problem: Problem, target: Floats, *, ridge: float = 0.0, start: Floats | None = None, limit: int = STEPS
) -> Floats:
    """theta (p,) for the statistics `target` (p,), by at most `limit` quasi-Newton steps; each raises the objective."""

    def loss(theta: Floats) -> tuple[float, Floats, Floats]:
        total, mu = problem.engine.marginals(problem.potentials(theta))
        own = problem.gather(mu)
        # One curvature for all: a diagonal that differs would lead into directions that change no probability.
        curvature = np.full(len(own), np.mean(own * np.abs(1 - own)) + 2 * ridge + 1e-12)
        return float(total - theta @ target + ridge * (theta @ theta)), own - target + 2 * ridge * theta, curvature

    first = np.zeros(problem.parameters) if start is None else start
    return least(loss, first, reach=np.inf, tolerance=TOLERANCE, limit=limit).x
