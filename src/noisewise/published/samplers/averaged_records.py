"""Averaged acceptance ratios over base draws, for any statistic (`mhaar` over z).

Where the statistic is not a sum (a median, a maximum, noise scaled to the records) the state is (theta, z): records
are x_i = phi_theta(z_i) with z_i ~ mu free of theta (Alparslan & Yıldırım 2022, Algorithm 7 and Proposition 1):
    theta' ~ q(.|theta),   z^(1) = z,   z^(i) ~ mu in full, or only on a uniform random subset b of m records;
    accept theta' by eta(theta') sum_i h(y|z^(i),theta') / eta(theta) sum_i h(y|z^(i),theta);
    z = z^(k), k drawn proportionally to h(y|z^(k), theta) at the theta just decided.
z^(1:N) are exchangeable in either mode, given the records outside b. For such candidates the pair of moves
(theta given all candidates, k given theta) is a Gibbs move on eta(theta) (1/N) h(y|z^(k),theta), so k is redrawn after
a rejection too; the printed box then repeats z, which is also valid and mixes more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise.exact import integer
from noisewise.inference.kernels import (
    Bools,
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
from noisewise.published.samplers.latent import RecordsLatent


class RecordsState(NamedTuple):
    position: Floats
    log_prior: Floats
    z: Floats  # (K, n)
    log_density: Floats


@dataclass(frozen=True, slots=True)
class AveragedRecords(Walking):
    """`mhaar` over base draws: all of them each step, or `subset` of them."""

    target: Target
    walk: Walk
    latent: RecordsLatent
    n_particles: int = 20
    subset: int | None = None

    def __post_init__(self) -> None:
        integer(self.n_particles, "n_particles", minimum=2)
        if self.subset is not None:
            integer(self.subset, "subset", minimum=1, maximum=self.latent.n)

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> RecordsState:
        """The best of N base draws, so that a chain does not begin at data sets that hardly explain the release."""
        z = self.latent.base(rng, (len(position), self.n_particles))
        log_h, log_prior = self.latent.log_noise(z, position), self.target.log_prior(position)
        k = draw_index(rng, log_h)
        return RecordsState(position, log_prior, take(z, k), joint(log_prior, take(log_h, k)))

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: RecordsState) -> tuple[RecordsState, Info]:
        position = self.walk.propose(rng, state.position)
        log_prior = self.target.log_prior(position)
        z = self._candidates(rng, state.z)
        new, old = self.latent.log_noise(z, position), self.latent.log_noise(z, state.position)
        log_ratio = joint(log_prior, log_mean_exp(new)) - state.log_prior - log_mean_exp(old)
        info = decide(rng, log_ratio)
        log_h = choose(info.accepted, new, old)
        k = draw_index(rng, log_h)
        position, log_prior = choose(info.accepted, (position, log_prior), (state.position, state.log_prior))
        return RecordsState(position, log_prior, take(z, k), log_prior + take(log_h, k)), info

    def _candidates(self, rng: np.random.Generator, z: Floats) -> Floats:
        fresh = self.latent.base(rng, (len(z), self.n_particles - 1))
        if self.subset is not None:
            fresh = np.where(random_subset(rng, z.shape, self.subset)[:, None], fresh, z[:, None])
        return np.concatenate([z[:, None], fresh], axis=1)


def random_subset(rng: np.random.Generator, shape: tuple[int, ...], size: int) -> Bools:
    """A uniform random subset of `size` records in each row, as a mask."""
    permutation = rng.random(shape).argsort(axis=1)
    mask: Bools = permutation < size
    return mask
