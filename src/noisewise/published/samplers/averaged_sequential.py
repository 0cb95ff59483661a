"""Averaged acceptance ratios for local answers (`mhaar`, sequential).

Each answer y_t has its own base draw z_t ~ mu, so averages are taken answer by answer and multiplied (Alparslan &
Yıldırım 2022, Algorithm 8):
    theta' ~ q(.|theta),   z_t^(1) = z_t,   z_t^(i) ~ mu;
    accept theta' by eta(theta') prod_t sum_i h(y_t|z_t^(i),theta') / eta(theta) prod_t sum_i h(y_t|z_t^(i),theta);
    z_t = z_t^(k_t), each k_t drawn proportionally to h(y_t|z_t^(k_t), theta) at the theta just decided.
The cost of a step is O(n N), all of it vectorised; the variance of the log ratio does not grow with n as long as the
walk shrinks like 1/sqrt(n), which warm-up sees to.
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
from noisewise.published.samplers.latent import SequentialLatent


class SequentialState(NamedTuple):
    position: Floats
    log_prior: Floats
    z: Floats  # (K, n)
    log_density: Floats


@dataclass(frozen=True, slots=True)
class AveragedSequential(Walking):
    """`mhaar` over the base draws of local answers."""

    target: Target
    walk: Walk
    latent: SequentialLatent
    n_particles: int = 20

    def __post_init__(self) -> None:
        integer(self.n_particles, "n_particles", minimum=2)

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> SequentialState:
        z = self.latent.base(rng, (len(position), self.n_particles))
        log_h, log_prior = self.latent.log_noise(z, position), self.target.log_prior(position)
        k = draw_index(rng, log_h)  # (K, n)
        return SequentialState(position, log_prior, take(z, k), joint(log_prior, take(log_h, k).sum(axis=1)))

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: SequentialState) -> tuple[SequentialState, Info]:
        position = self.walk.propose(rng, state.position)
        log_prior = self.target.log_prior(position)
        z = np.concatenate([state.z[:, None], self.latent.base(rng, (len(position), self.n_particles - 1))], axis=1)
        new, old = self.latent.log_noise(z, position), self.latent.log_noise(z, state.position)
        log_products = log_mean_exp(new).sum(axis=1) - log_mean_exp(old).sum(axis=1)
        info = decide(rng, joint(log_prior, log_products) - state.log_prior)
        log_h = choose(info.accepted, new, old)
        k = draw_index(rng, log_h)
        position, log_prior = choose(info.accepted, (position, log_prior), (state.position, state.log_prior))
        return SequentialState(position, log_prior, take(z, k), log_prior + take(log_h, k).sum(axis=1)), info
