"""Correlated pseudo-marginal (`cpm`).

The particles of `pmmh` are written as a fixed function of standard normals, u_j = m(theta) + L(theta) xi_j, and the
normals move a little where `pmmh` draws them afresh (Deligiannidis, Doucet & Pitt 2018; Alparslan 2023, Algorithm 3):
    xi' = rho xi + sqrt(1 - rho^2) N(0, I);
    accept (theta', xi') by eta(theta') Z(theta', xi') / eta(theta) Z(theta, xi).
The move leaves N(0, I) invariant, so it cancels; errors of the two estimates cancel too, as far as Z is smooth in
(theta, xi). It is: each particle has its own normals and its own part of the mixture for good, and nothing is
resampled, so nothing has to be sorted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.inference.kernels import Floats, Info, Target, Walk, choose, decide, ideal_walk_scale, joint
from noisewise.published.samplers.latent import BatchLatent, checked_share
from noisewise.published.samplers.pseudo_marginal import log_estimate


class CorrelatedState(NamedTuple):
    position: Floats
    normals: Floats  # xi (K, N, d)
    log_density: Floats


@dataclass(frozen=True, slots=True)
class Correlated:
    """`cpm`: pseudo-marginal with correlation rho between one estimate's normals and the next's."""

    target: Target
    walk: Walk
    latent: BatchLatent
    n_particles: int = 20
    correlation: float = 0.9
    share: float = 0.5

    def __post_init__(self) -> None:
        integer(self.n_particles, "n_particles", minimum=1)
        checked_share(self.share)
        if not 0 <= self.correlation < 1:
            raise InvalidArgument(
                f"correlation = {self.correlation!r}: expected a number in [0, 1); at 1 the normals would never move.",
                argument="correlation",
            )

    @property
    def ideal_scale(self) -> float:
        return ideal_walk_scale(self.target.size)

    @property
    def ideal_acceptance(self) -> float | None:
        """None: an estimate may reject a step of any length, so the rate says nothing about the walk."""
        return None

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> CorrelatedState:
        return self._state(position, rng.standard_normal((len(position), self.n_particles, self.latent.size)))

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: CorrelatedState) -> tuple[CorrelatedState, Info]:
        rho = self.correlation
        normals = rho * state.normals + math.sqrt(1 - rho**2) * rng.standard_normal(state.normals.shape)
        proposal = self._state(self.walk.propose(rng, state.position), normals)
        info = decide(rng, proposal.log_density - state.log_density)
        return choose(info.accepted, proposal, state), info

    def _state(self, position: Floats, normals: Floats) -> CorrelatedState:
        log_likelihood = log_estimate(self.latent, position, normals, self.share)
        return CorrelatedState(position, normals, joint(self.target.log_prior(position), log_likelihood))
