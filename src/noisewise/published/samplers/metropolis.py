"""Metropolis–Hastings on the marginal posterior (`mh`).

Where the likelihood of the release is closed, theta is the whole state (Alparslan & Yıldırım 2022, Algorithm 4):
    theta' ~ q(.|theta);   accept with probability min{1, eta(theta') p(y|theta') / eta(theta) p(y|theta)}.
The yardstick for every kernel that only imitates it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise.inference.kernels import (
    Floats,
    Info,
    Target,
    Walk,
    Walking,
    choose,
    decide,
    joint,
)


class MetropolisState(NamedTuple):
    position: Floats
    log_density: Floats


@dataclass(frozen=True, slots=True)
class Metropolis(Walking):
    """`mh`: a random walk accepted by the exact marginal posterior."""

    target: Target
    walk: Walk

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> MetropolisState:
        return MetropolisState(position, joint(self.target.log_prior(position), self.target.log_likelihood(position)))

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: MetropolisState) -> tuple[MetropolisState, Info]:
        proposal = self.init(rng, self.walk.propose(rng, state.position))
        info = decide(rng, proposal.log_density - state.log_density)
        return choose(info.accepted, proposal, state), info
