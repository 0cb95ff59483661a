"""Metropolis–Hastings with averaged acceptance ratios, for a batch statistic (`mhaar`).

State (theta, u). Both sides of the ratio are estimated afresh from the same N values of u, of which the current one is
the first (Andrieu, Yıldırım, Doucet & Chopin 2020; Alparslan & Yıldırım 2022, Algorithm 6):
    theta' ~ q(.|theta),   u_1 = u,   u_j ~ q_{theta,theta'},   w_j = f(u_j|theta) g(y|u_j) / q(u_j),   w'_j likewise;
    accept theta' by eta(theta') sum w'_j / eta(theta) sum w_j;
    u = u_k with k drawn proportionally to w' if accepted, *to w if rejected*: u moves in either case.
No estimate is carried over, so the chain does not stick, and mixes nearly as the ideal one already at small N.

It needs q_{theta,theta'} = q_{theta',theta}. Ours is
    share/2 f(.|theta) + share/2 f(.|theta') + (1 - share) fit(average moments),
symmetric by its form, and w, w' <= 2 sup g / share (see `latent`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise.exact import integer
from noisewise.inference.kernels import (
    Floats,
    Info,
    Target,
    Walk,
    Walking,
    choose,
    decide,
    draw_index,
    joint,
    log_mean_exp,
    take,
)
from noisewise.published.samplers.latent import (
    BatchLatent,
    Mixture,
    Normal,
    between,
    checked_share,
    given_noise,
    normal,
)


class AveragedState(NamedTuple):
    position: Floats
    log_prior: Floats
    law: Normal  # f(.|theta)
    u: Floats  # (K, d)
    log_density: Floats


@dataclass(frozen=True, slots=True)
class Averaged(Walking):
    """`mhaar` for an additive statistic."""

    target: Target
    walk: Walk
    latent: BatchLatent
    n_particles: int = 20
    share: float = 0.5

    def __post_init__(self) -> None:
        integer(self.n_particles, "n_particles", minimum=2)
        checked_share(self.share)

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> AveragedState:
        law = normal(*self.latent.moments(position))
        u = symmetric_proposal(law, law, self.latent, self.share).draw(rng, 1)
        log_prior = self.target.log_prior(position)
        log_density = joint(log_prior, (law.log_density(u) + self.latent.log_noise(u))[:, 0])
        return AveragedState(position, log_prior, law, u[:, 0], log_density)

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: AveragedState) -> tuple[AveragedState, Info]:
        position = self.walk.propose(rng, state.position)
        log_prior, law = self.target.log_prior(position), normal(*self.latent.moments(position))
        proposal = symmetric_proposal(state.law, law, self.latent, self.share)
        u = np.concatenate([state.u[:, None], proposal.draw(rng, self.n_particles - 1)], axis=1)
        log_noise, log_q = self.latent.log_noise(u), proposal.log_density(u)
        old = state.law.log_density(u) + log_noise  # log w + log q
        new = law.log_density(u) + log_noise
        log_ratio = joint(log_prior, log_mean_exp(new - log_q)) - state.log_prior - log_mean_exp(old - log_q)
        info = decide(rng, log_ratio)
        log_joint = choose(info.accepted, new, old)
        k = draw_index(rng, log_joint - log_q)  # proportionally to w' or w
        position, log_prior, law = choose(
            info.accepted, (position, log_prior, law), (state.position, state.log_prior, state.law)
        )
        return AveragedState(position, log_prior, law, take(u, k), log_prior + take(log_joint, k)), info


def symmetric_proposal(one: Normal, two: Normal, latent: BatchLatent, share: float) -> Mixture:
    """q_{theta,theta'}: the same law if theta and theta' change places."""
    if share == 1:
        return Mixture((one, two), (0.5, 0.5))
    return Mixture((one, two, given_noise(between(one, two), latent)), (share / 2, share / 2, 1 - share))
