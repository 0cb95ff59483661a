"""Metropolis within Gibbs on (theta, u) (`mh-within-gibbs`).

The statistic u stays in the state and the two conditionals are moved in turn (Alparslan & Yıldırım 2022, section 4.2):
    u | theta, y  proportional to  f(u|theta) g(y|u)         an independent proposal from `latent`'s bounded mixture
    theta | u     proportional to  eta(theta) f(u|theta)     a random walk
Exact for every noise law, cheap, and slow where theta and u depend strongly on each other given y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise.inference.kernels import (
    Bools,
    Floats,
    Info,
    Target,
    Walk,
    Walking,
    choose,
    decide,
    joint,
)
from noisewise.published.samplers.latent import BatchLatent, Mixture, Normal, checked_share, given_noise, normal


class WithinGibbsState(NamedTuple):
    position: Floats
    log_prior: Floats
    law: Normal  # f(.|theta)
    u: Floats  # (K, d)
    log_density: Floats


class WithinGibbsInfo(NamedTuple):
    accepted: Bools
    is_finite: Bools
    acceptance: Floats
    u_accepted: Bools


@dataclass(frozen=True, slots=True)
class WithinGibbs(Walking):
    """`mh-within-gibbs`: u given theta and y, then theta given u."""

    target: Target
    walk: Walk
    latent: BatchLatent
    share: float = 0.5

    def __post_init__(self) -> None:
        checked_share(self.share)

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> WithinGibbsState:
        law = normal(*self.latent.moments(position))
        return self._state(position, self.target.log_prior(position), law, self._proposal(law).draw(rng, 1)[:, 0])

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: WithinGibbsState) -> tuple[WithinGibbsState, WithinGibbsInfo]:
        state, first = self._move_u(rng, state)
        position = self.walk.propose(rng, state.position)
        proposal = self._state(position, self.target.log_prior(position), self._law(position), state.u)
        second = decide(rng, proposal.log_density - state.log_density)  # g(y|u) cancels
        info = WithinGibbsInfo(
            second.accepted, first.is_finite & second.is_finite, second.acceptance, u_accepted=first.accepted
        )
        return choose(second.accepted, proposal, state), info

    def _move_u(self, rng: np.random.Generator, state: WithinGibbsState) -> tuple[WithinGibbsState, Info]:
        proposal = self._proposal(state.law)
        moved = self._state(state.position, state.log_prior, state.law, proposal.draw(rng, 1)[:, 0])
        log_q = proposal.log_density(np.stack([state.u, moved.u], axis=1))
        info = decide(rng, moved.log_density - log_q[:, 1] - state.log_density + log_q[:, 0])
        return choose(info.accepted, moved, state), info

    def _state(self, position: Floats, log_prior: Floats, law: Normal, u: Floats) -> WithinGibbsState:
        log_likelihood = law.log_density(u[:, None])[:, 0] + self.latent.log_noise(u[:, None])[:, 0]
        return WithinGibbsState(position, log_prior, law, u, joint(log_prior, log_likelihood))

    def _law(self, position: Floats) -> Normal:
        return normal(*self.latent.moments(position))

    def _proposal(self, law: Normal) -> Mixture:
        if self.share == 1:
            return Mixture((law,), (1.0,))
        return Mixture((law, given_noise(law, self.latent)), (self.share, 1 - self.share))
