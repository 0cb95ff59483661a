"""Marginal sequential Monte Carlo: particles carry theta alone, since the law of every answer is known exactly.

Particles (position on the real line, log weight) approximate the posterior of the answers so far. A new answer
multiplies each weight by p(y | theta), and the evidence by their weighted mean. When the effective size
    ESS = (sum w)^2 / sum w^2
falls below half their number, particles are resampled (systematic) and each makes three Metropolis moves with the
covariance of the particles' bulk times 2.38^2/d, targeting the posterior of *all* answers so far. An answer that would
leave almost nothing is taken in parts, p(y | theta)^phi with phi rising to 1 (Del Moral, Doucet & Jasra 2006).
The posterior sharpens like 1/sqrt(t), so it takes about a constant factor of answers to halve the effective size: the
number of rejuvenations grows like log t, and with answers summed by question the whole cost is linear in t
(Chopin 2002; Yıldırım 2024 carries the private values as well, which makes it quadratic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise.populations.parameters import Array

__all__ = ["LEAST_SHARE", "Particles", "absorb", "begin", "bulk", "covariance", "effective_size", "systematic",
           "weights"]  # fmt: skip

MOVES = 3
LEAST_SHARE = 0.5  # of the particles, in effective size
FEW_SHARE = 0.1  # below it an answer is taken in parts
FAR = 5.0  # in robust spreads: positions farther out count as if they lay there
BISECTIONS, SMALLEST_PART = 30, 1 / 32  # an answer is taken in a bounded number of parts, whatever it says
Density = Callable[[Array], Array]  # positions (K, size) -> (K,)
Integers = np.ndarray[tuple[int], np.dtype[np.intp]]


@dataclass(frozen=True, slots=True, eq=False)
class Particles:
    """Weighted positions, each with its log prior and the log likelihood of the answers so far."""

    position: Array  # (N, size)
    log_weight: Array  # (N,)
    log_prior: Array  # (N,)
    log_likelihood: Array  # (N,)

    @property
    def count(self) -> int:
        return len(self.position)

    def taken(self, chosen: Integers) -> Particles:
        """The chosen particles, with equal weights."""
        return Particles(
            self.position[chosen], np.zeros(len(chosen)), self.log_prior[chosen], self.log_likelihood[chosen]
        )


@dataclass(frozen=True, slots=True)
class Absorbed:
    """The particles after an answer, what it adds to the log evidence, and how often they were rejuvenated."""

    particles: Particles
    log_evidence: float
    rejuvenations: int
    acceptance: float  # of the last rejuvenation's moves; NaN if there was none


def begin(position: Array, log_prior: Array) -> Particles:
    """Draws from the prior as particles of equal weight."""
    count = len(position)
    return Particles(np.asarray(position, np.float64), np.zeros(count), log_prior, np.zeros(count))


def absorb(
    generator: Callable[[], np.random.Generator],
    particles: Particles,
    increment: Array,
    *,
    log_prior: Density,
    last: Density,
    past: Callable[[], Density],
) -> Absorbed:
    """Take in one answer with log likelihood `increment` (N,); `last` is its law, `past()` that of all before it.

    `past` and `generator` are asked for only if particles must move: the one touches every past answer, and to make the
    other takes as long as to weigh an answer.
    """
    log_evidence, power, rejuvenations, acceptance = 0.0, 0.0, 0, float("nan")
    before: Density | None = None
    rng: np.random.Generator | None = None
    while power < 1:
        part = _part(particles.log_weight, increment, 1 - power)
        moved = particles.log_weight + part * increment
        log_evidence += log_sum(moved) - log_sum(particles.log_weight)
        likelihood = particles.log_likelihood + part * increment
        particles = Particles(particles.position, moved - np.max(moved), particles.log_prior, likelihood)
        power = 1.0 if part == 1 - power else power + part
        if effective_size(particles.log_weight) >= LEAST_SHARE * particles.count:
            continue
        before = past() if before is None else before
        rng = generator() if rng is None else rng
        particles, acceptance = rejuvenated(rng, particles, log_prior, _joint(before, last, power))
        rejuvenations += 1
        if power < 1:
            increment = last(particles.position)
    return Absorbed(particles, log_evidence, rejuvenations, acceptance)


def rejuvenated(
    rng: np.random.Generator, particles: Particles, log_prior: Density, log_likelihood: Density
) -> tuple[Particles, float]:
    """Resample and move, and the share of moves accepted."""
    root = _root(covariance(particles)) * 2.38 / np.sqrt(particles.position.shape[1])
    particles = particles.taken(systematic(rng, particles.log_weight))
    accepted = 0
    for _ in range(MOVES):
        proposal = particles.position + rng.standard_normal(particles.position.shape) @ root.T
        prior = log_prior(proposal)
        inside = np.isfinite(prior)
        likelihood = np.full(particles.count, -np.inf)
        if inside.any():
            likelihood[inside] = log_likelihood(proposal[inside])
        with np.errstate(invalid="ignore"):
            log_ratio = prior + likelihood - particles.log_prior - particles.log_likelihood
            is_accepted = np.log(rng.random(particles.count)) < log_ratio  # False where the ratio is NaN
        accepted += int(is_accepted.sum())
        particles = Particles(
            np.where(is_accepted[:, None], proposal, particles.position),
            particles.log_weight,
            np.where(is_accepted, prior, particles.log_prior),
            np.where(is_accepted, likelihood, particles.log_likelihood),
        )
    return particles, accepted / (MOVES * particles.count)


def log_sum(logs: Array) -> float:
    """log sum exp."""
    top = float(np.max(logs))
    return top + float(np.log(np.sum(np.exp(logs - top))))


def weights(log_weight: Array) -> Array:
    """Weights that sum to 1."""
    return np.asarray(np.exp(log_weight - log_sum(log_weight)))


def effective_size(log_weight: Array) -> float:
    """(sum w)^2 / sum w^2."""
    return float(np.exp(2 * log_sum(log_weight) - log_sum(2 * log_weight)))


def systematic(rng: np.random.Generator, log_weight: Array) -> Integers:
    """N indices, index i about N w_i times: one uniform number spread over N strata."""
    share = np.cumsum(weights(log_weight))
    places = (rng.random() + np.arange(log_weight.size)) / log_weight.size
    return np.minimum(np.searchsorted(share / share[-1], places, side="right"), log_weight.size - 1)


class Bulk(NamedTuple):
    """What the particles are like, whatever their tails do."""

    spread: Array  # (size,): half the central 68 % range of each coordinate, where that is a point the sd
    covariance: Array  # (size, size)


def bulk(particles: Particles) -> Bulk:
    """The spread of the particles, and their weighted covariance with those far out drawn in to where they still count.

    Under a Cauchy prior the plain covariance is that of a few particles, and every question looks alike.
    """
    w, position = weights(particles.log_weight), particles.position
    low, centre, high = np.empty((3, position.shape[1]))
    for column, ranked in enumerate(np.argsort(position, axis=0).T):
        at = np.searchsorted(np.cumsum(w[ranked]), [0.16, 0.5, 0.84])
        low[column], centre[column], high[column] = position[ranked[np.minimum(at, len(w) - 1)], column]
    half = 0.5 * (high - low)
    half = np.where(half > 0, half, np.sqrt(w @ np.square(position - w @ position)))
    near = np.clip(position, centre - FAR * half, centre + FAR * half)
    centred = near - w @ near
    return Bulk(half, np.asarray((w[:, None] * centred).T @ centred))


def covariance(particles: Particles) -> Array:
    """The covariance of their bulk, (size, size)."""
    return bulk(particles).covariance


def _joint(before: Density, last: Density, power: float) -> Density:
    return lambda position: before(position) + power * last(position)


def _part(log_weight: Array, increment: Array, most: float) -> float:
    """The largest part of the increment, up to `most`, that leaves enough particles alive."""
    least = FEW_SHARE * log_weight.size
    if effective_size(log_weight + most * increment) >= least:
        return most
    low, high = 0.0, most
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective_size(log_weight + middle * increment) >= least else (low, middle)
    return max(low, SMALLEST_PART * most)


def _root(matrix: Array) -> Array:
    """A square root of a covariance, also where particles have come to lie on a line."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
