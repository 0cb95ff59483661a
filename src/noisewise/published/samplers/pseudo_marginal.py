"""Pseudo-marginal Metropolis–Hastings (`pmmh`).

The likelihood is replaced by an unbiased estimate from N particles, kept as long as its theta is kept (Andrieu &
Roberts 2009; Alparslan & Yıldırım 2022, Algorithm 5, whose step 3 must read f(u|theta') as here):
    u_j ~ q_theta',   Z' = (1/N) sum_j f(u_j|theta') g(y|u_j) / q_theta'(u_j);
    accept by eta(theta') Z' / eta(theta) Z.
The posterior of theta is exact for every N; a lucky Z makes the chain stick, the more the fewer particles.

The first share of the particles is drawn from f(.|theta'), the rest from the normal fit, and every weight has the
whole mixture q in its denominator (the balance heuristic, Veach & Guibas 1995): unbiased, since
    sum_c (N_c/N) q_c = q,   and bounded by sup g / share (see `latent`).
For order statistics and local answers the particles are base draws z ~ mu, and the estimate is the mean of
h(y|z_j, theta'), a product of such means over local answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from noisewise.exact import integer
from noisewise.inference.kernels import (
    Floats,
    Info,
    Target,
    Walk,
    choose,
    decide,
    ideal_walk_scale,
    joint,
    log_mean_exp,
)
from noisewise.published.samplers.latent import (
    BatchLatent,
    Mixture,
    checked_share,
    given_noise,
    is_batch,
    normal,
)


class PseudoMarginalState(NamedTuple):
    position: Floats
    log_density: Floats  # log eta(theta) + log Z


@dataclass(frozen=True, slots=True)
class PseudoMarginal:
    """`pmmh`: a random walk accepted by an estimate of the marginal posterior."""

    target: Target
    walk: Walk
    latent: Any  # a BatchLatent, a RecordsLatent or a SequentialLatent
    n_particles: int = 20
    share: float = 0.5

    def __post_init__(self) -> None:
        integer(self.n_particles, "n_particles", minimum=1)
        checked_share(self.share)

    @property
    def ideal_scale(self) -> float:
        return ideal_walk_scale(self.target.size)

    @property
    def ideal_acceptance(self) -> float | None:
        """None: an estimate may reject a step of any length, so the rate says nothing about the walk."""
        return None

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> PseudoMarginalState:
        return PseudoMarginalState(position, joint(self.target.log_prior(position), self._estimate(rng, position)))

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: PseudoMarginalState) -> tuple[PseudoMarginalState, Info]:
        proposal = self.init(rng, self.walk.propose(rng, state.position))  # fresh u ~ q_theta'
        info = decide(rng, proposal.log_density - state.log_density)
        return choose(info.accepted, proposal, state), info

    def _estimate(self, rng: np.random.Generator, position: Floats) -> Floats:
        if is_batch(self.latent):
            normals = rng.standard_normal((len(position), self.n_particles, self.latent.size))
            return log_estimate(self.latent, position, normals, self.share)
        base = self.latent.base(rng, (len(position), self.n_particles))
        means = log_mean_exp(np.asarray(self.latent.log_noise(base, position)))  # (K,), or (K, n) for local answers
        return means if means.ndim == 1 else np.asarray(means.sum(axis=1))


def log_estimate(latent: BatchLatent, position: Floats, normals: Floats, share: float) -> Floats:
    """log of an unbiased estimate of p(y|theta), a smooth function of theta and of the normals (K, N, d)."""
    law = normal(*latent.moments(position))
    own, n_particles = own_particles(normals.shape[1], share), normals.shape[1]
    if own == n_particles:
        return log_mean_exp(latent.log_noise(law.transform(normals)))
    fit = given_noise(law, latent)
    u = np.concatenate([law.transform(normals[:, :own]), fit.transform(normals[:, own:])], axis=1)
    proposal = Mixture((law, fit), (own / n_particles, 1 - own / n_particles))
    return log_mean_exp(law.log_density(u) + latent.log_noise(u) - proposal.log_density(u))


def own_particles(n_particles: int, share: float) -> int:
    """How many particles come from f(.|theta) itself: at least one."""
    return max(1, round(share * n_particles))
