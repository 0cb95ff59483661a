"""Private stochastic gradients for a graphical model (Abadi et al. 2016).

The log-likelihood of a record has the gradient t(x) - mu(theta): the marks of its cells less their probabilities. So

    g_i  = t(x_i) - mu(theta),   shortened to length C where it is longer

and steps, noise and guarantee are those of `private_gradients`. With k tables t(x) has k ones and mu is a distribution
in each, so |g_i|^2 <= 2 k always, and its mean at the truth is below k: the default C = sqrt(k) shortens few. The
guarantee, (epsilon, delta)-DP for records added or removed, is weaker than the epsilon-DP of noisy tables, and than
change-one neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from noisewise.graphical.problem import Fit, Problem
from noisewise.published.baselines.private_gradients import PrivateGradients
from noisewise.types import Floats, Ints

__all__ = ["dp_sgd"]


def dp_sgd(
    rng: np.random.Generator,
    problem: Problem,
    records: Ints,
    *,
    epsilon: float,
    delta: float,
    steps: int = 200,
    sampling_rate: float = 0.1,
    learning_rate: float = 4.0,
    clip: float | None = None,
) -> Fit:
    """Parameters from records (n, variables), as indices of states; the problem's own tables are not read.

    `epsilon=inf` adds no noise and is not private. `clip=None` is C = sqrt(k).
    """
    rule = _Marks.of(problem)
    gradients = PrivateGradients(
        epsilon=epsilon,
        delta=delta,
        clip=math.sqrt(len(rule.starts)) if clip is None else clip,
        steps=steps,
        sampling_rate=sampling_rate,
        learning_rate=learning_rate,
    )

    def clipped_sum(batch: Ints, theta: Floats) -> Floats:
        return rule.clipped_sum(records[batch], probabilities(problem, theta), gradients.clip)

    theta, said = gradients.climb(rng, len(records), problem.parameters, clipped_sum)
    return Fit(theta, steps, (said,))


def probabilities(problem: Problem, theta: Floats) -> Floats:
    """mu(theta) of each parameter: the expected number of its cells that a record marks."""
    return problem.gather(problem.engine.marginals(problem.potentials(theta))[1])


@dataclass(frozen=True, slots=True, eq=False)
class _Marks:
    """Which parameters a record marks: of each factor table, the cell starts + x . strides, and that cell's one."""

    strides: Ints  # (variables, tables)
    starts: Ints  # (tables,)
    spread: Ints
    is_tied: bool

    @classmethod
    def of(cls, problem: Problem) -> _Marks:
        tables = problem.engine.tables
        factors = [r for r in range(len(tables.regions)) if problem.spread[tables.starts[r]] >= 0]
        strides = np.zeros((len(tables.states), len(factors)), dtype=np.int64)
        for k, r in enumerate(factors):
            stride = 1
            for v in reversed(tables.regions[r]):
                strides[v, k] = stride
                stride *= tables.states[v]
        used = problem.spread[problem.spread >= 0]
        return cls(strides, tables.starts[factors], problem.spread, len(np.unique(used)) < len(used))

    def clipped_sum(self, records: Ints, mu: Floats, length: float) -> Floats:
        """The sum over records of t(x) - mu, each shortened to `length`."""
        if not len(records):
            return np.zeros(len(mu))
        places = self.spread[records @ self.strides + self.starts]  # (records, tables)
        if self.is_tied:  # a parameter may be marked more than once
            squared = (places[:, :, None] == places[:, None, :]).sum(axis=(1, 2))
        else:
            squared = np.full(len(places), places.shape[1])
        norm = np.sqrt(np.maximum(squared - 2 * mu[places].sum(axis=1) + mu @ mu, 0))
        weight = length / np.maximum(norm, length)
        marked = np.bincount(places.ravel(), weights=np.repeat(weight, places.shape[1]), minlength=len(mu))
        return np.asarray(marked - weight.sum() * mu)
