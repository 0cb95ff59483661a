"""Warm-up: learning the walk.

The walk theta' = theta + scale * L xi is best with L L^T near the posterior's covariance and a scale that accepts a
kernel's ideal share of proposals. Both are learned in warm-up and then left alone, so the draws come from one fixed
kernel. After step t (Haario, Saksman & Tamminen 2001; Andrieu & Thoms 2008):
    mean_k      += gain (x_k - mean_k)                              of each chain k
    covariance  += gain (average_k of (x_k - mean_k)(x_k - mean_k)^T - covariance)
    log scale   += t^-0.6 (acceptance - ideal)
In the first half of warm-up the gain is (t + 5)^-0.6: it finds the posterior's size and shape from wherever it starts
and forgets the way. In the second half it is 1/(draws of that half + 1/first half's last gain): a plain average.
Deviations are from each chain's own mean, so chains far apart do not ask for leaps between them, and the covariance of
chains that do not move shrinks until they do. Kernels without an ideal rate (an *estimated* ratio can reject a step of
any length; a slice rejects none) keep the ideal scale, and only the covariance is learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from noisewise.inference.kernels import Floats, Info, Kernel, MakeKernel, Target, Walk

Progress = Callable[[int, int], None]


class Adaptation(NamedTuple):
    """Everything warm-up knows after `step` of its `steps`."""

    step: int
    steps: int
    ideal_scale: float
    ideal_acceptance: float | None
    log_scale: float
    mean: Floats  # (K, size): of each chain
    covariance: Floats  # (size, size): about those means
    factor: Floats  # its Cholesky factor

    @property
    def walk(self) -> Walk:
        return Walk(math.exp(self.log_scale), self.factor)


def begin(kernel: Kernel, position: Floats, steps: int) -> Adaptation:
    """Nothing learned yet: coordinates of unit length, each chain about its start."""
    unit = np.eye(position.shape[1])
    scale = kernel.ideal_scale
    return Adaptation(0, steps, scale, kernel.ideal_acceptance, math.log(scale), position, covariance=unit, factor=unit)


def learn(known: Adaptation, position: Floats, info: Info) -> Adaptation:
    """What is known after one more step, which led to `position`."""
    gain = _gain(known.step, known.steps)
    deviation = position - known.mean
    covariance = known.covariance + gain * (deviation.T @ deviation / len(position) - known.covariance)
    log_scale = known.log_scale
    if known.ideal_acceptance is not None:
        log_scale += math.pow(known.step + 1, -0.6) * (float(np.mean(info.acceptance)) - known.ideal_acceptance)
    return known._replace(
        step=known.step + 1,
        log_scale=log_scale,
        mean=known.mean + gain * deviation,
        covariance=covariance,
        factor=_factor(covariance, known.factor),
    )


def warm_up(
    rng: np.random.Generator, make_kernel: MakeKernel, target: Target, position: Floats, steps: int
) -> tuple[Kernel, Any, Adaptation]:
    """The tuned kernel, the state after `steps` steps from `position`, and what was learned."""
    kernel = make_kernel(target, walk=Walk.isotropic(target.size, 1.0))
    known = begin(kernel, position, steps)
    state = kernel.init(rng, position)
    for _ in range(steps):
        state, info = make_kernel(target, walk=known.walk).step(rng, state)
        known = learn(known, state.position, info)
    return make_kernel(target, walk=known.walk), state, known


def _gain(step: int, steps: int) -> float:
    half = steps // 2
    if step < half:
        return math.pow(step + 5, -0.6)
    return 1 / (step - half + 1 + math.pow(half + 5, 0.6))


def _factor(covariance: Floats, last: Floats) -> Floats:
    """The Cholesky factor, or the last one if rounding has cost the covariance its positive definiteness."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), np.float64)
    except np.linalg.LinAlgError:
        return last
