"""Whether positions are draws of a posterior, as far as steps that leave it as it is can tell.

A sampler of somebody else's may mix well and still draw from another law. Let theta be its draws, and theta' what some
steps of a random walk Metropolis-Hastings chain at the posterior itself make of them. If theta ~ posterior, then
theta' ~ posterior, and for every f
    E[f(theta') - f(theta)] = 0,
which the pairs test one by one, without any other sampler's answer: f each coordinate, its squared distance from the
draws' centre, and the log-density. Draws too narrow spread, draws too wide contract, and both climb or fall. Pairs are
as many as the draws have effective ones, so that they are about independent.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from noisewise.inference.diagnostics import ess_mean
from noisewise.types import Floats

__all__ = ["moved_on"]

MOST_PAIRS, FEWEST_PAIRS, STEPS = 400, 50, 12
FAR = 6.0  # standard errors: by chance once in 5e8, for one f


class Posterior(Protocol):
    """What is asked of a posterior on the real line."""

    @property
    def size(self) -> int: ...
    def log_prior(self, position: Floats, /) -> Floats: ...
    def log_likelihood(self, position: Floats, /) -> Floats: ...


def moved_on(target: Posterior, rng: np.random.Generator, positions: Floats, method: str) -> tuple[str, ...]:
    """A sentence where the positions (chains, draws, size) change when the posterior's own steps move them on."""
    if not np.isfinite(positions).all():
        return ()
    scaled = positions / np.abs(positions).max(axis=(0, 1), initial=1.0)  # whose squares are numbers
    effective = min(ess_mean(scaled[:, :, j]) for j in range(target.size))
    if not effective >= FEWEST_PAIRS:
        return ()
    every = positions.reshape(-1, target.size)
    before = every[np.linspace(0, len(every) - 1, int(min(MOST_PAIRS, effective))).astype(int)]
    with np.errstate(all="ignore"):
        spread, centre = before.std(axis=0), before.mean(axis=0)
        first = density = target.log_prior(before) + target.log_likelihood(before)
        after, accepted = before.copy(), 0.0
        for k in range(STEPS):
            length = 2.4 / np.sqrt(target.size) * 4.0 ** -(k % 4)  # of several lengths: the draws' own may be wrong
            proposal = after + length * spread * rng.standard_normal(after.shape)
            new = target.log_prior(proposal) + target.log_likelihood(proposal)
            moves = np.log(rng.random(len(after))) < new - density
            after, density = np.where(moves[:, None], proposal, after), np.where(moves, new, density)
            accepted += moves.mean()
        pairs = np.column_stack([
            after - before, np.square(after - centre) - np.square(before - centre), density - first
        ])  # fmt: skip
        error = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))
        gaps = np.abs(pairs.mean(axis=0)) / error
    if not accepted or np.any(gaps > FAR) or not np.isfinite(pairs).all():
        return (
            f"What {method!r} returned are not draws of this posterior: moved on by steps that leave it as it is, they "
            "change. Its mean, sd and intervals are those of another law.",
        )
    return ()
