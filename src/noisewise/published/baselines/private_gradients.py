"""Private stochastic gradients (Abadi et al. 2016), for whatever has a gradient for each record.

    B    each record with chance q, by itself (Poisson sampling)
    theta <- theta + (rate / (q n)) (sum_{i in B} g_i(theta) + N(0, (sigma C)^2 I)),        T steps from theta = 0

with every g_i shortened to length C where it is longer; the answer is the mean of the later half of the steps.
Guarantee: (epsilon, delta)-DP for records *added or removed*, by `subsampled_gaussian`; n is taken as public, and so
are the tuning constants. Noise is simulated, from the generator that is given: for comparison only. A step costs as
much as its minibatch, whatever n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.published.baselines.subsampled_gaussian import noise_multiplier_for
from noisewise.types import Floats, Ints

__all__ = ["PrivateGradients"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateGradients:
    """How steps are made and what they may cost; `epsilon=inf` adds no noise and is not private."""

    epsilon: float
    delta: float
    clip: float
    steps: int
    sampling_rate: float
    learning_rate: float

    def __post_init__(self) -> None:
        integer(self.steps, "steps", minimum=1)
        if not (self.learning_rate > 0 and self.clip > 0):
            raise InvalidArgument("learning_rate and clip must be above 0.", argument="learning_rate")

    @property
    def noise_multiplier(self) -> float:
        """sigma: the sd of the noise in units of the clip."""
        if math.isinf(self.epsilon):
            return 0.0
        return noise_multiplier_for(
            epsilon=self.epsilon, delta=self.delta, sampling_rate=self.sampling_rate, steps=self.steps
        )

    def climb(
        self, rng: np.random.Generator, n: int, size: int, clipped_sum: Callable[[Ints, Floats], Floats]
    ) -> tuple[Floats, str]:
        """The mean (size,) of the later steps, and what was guaranteed.

        `clipped_sum(batch, theta)` is the sum of the records' gradients, each shortened to `clip`.
        """
        sigma, later = self.noise_multiplier, self.steps // 2
        theta, total = np.zeros(size), np.zeros(size)
        for step in range(self.steps):
            batch = rng.choice(n, size=rng.binomial(n, self.sampling_rate), replace=False, shuffle=False)
            noisy = clipped_sum(batch, theta) + sigma * self.clip * rng.standard_normal(size)
            theta = theta + self.learning_rate / (self.sampling_rate * n) * noisy
            if step >= later:
                total += theta
        said = (
            f"({self.epsilon:g}, {self.delta:g})-DP for records added or removed; noise multiplier {sigma:.4g}, "
            f"length {self.clip:.4g}"
        )
        return total / (self.steps - later), said if sigma > 0 else "no noise was added: this is not private"
