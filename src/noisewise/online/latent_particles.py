"""The published particle method, as a baseline: particles that carry theta and everyone's private value x_1, ..., x_t.

Yıldırım (2024), Algorithms 2 to 4. With every answer y_t to the question [low_t, high_t],
    resample    particles by their weights (multinomial)
    rejuvenate  each x_k by one random-walk step under p(x_k | theta) p(y_k | x_k), k = 1, ..., t - 1, and then
                theta by one random-walk step under prior(theta) prod_k p(x_k | theta)
    propagate   x_t ~ p(. | theta)
    weight      by the noise alone, p(y_t | x_t)
Each answer touches every value that came before, of every particle, so n answers cost O(N n^2). A step of theta is as
small as the values x_{1:t} let it be, which is less than the posterior's own spread, so particles follow slowly.
`values` bounds how many x are moved a step, which the paper suggests against the quadratic cost (copying is left).

Where the print leaves a choice: x_k takes steps of 2.4 times theta's own sd (half the steps are of a quarter of that,
for answers with little noise); theta those of its conditional law given x, sd/sqrt(t) for the mean and 1/sqrt(2t) for
log sd, times 1.7. Normal populations only, whose sums of x and x^2 are all that the step of theta needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked, asked_of
from noisewise.online.interval import Interval, best_interval
from noisewise.online.particles import weights
from noisewise.populations.distribution import NormalLaw
from noisewise.populations.parameters import Array
from noisewise.populations.population import Population
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Answer, Query

__all__ = ["LatentSurvey"]

VALUE_STEP, SHORT_STEP, THETA_STEP = 2.4, 0.6, 1.7


@dataclass(frozen=True, slots=True, eq=False)
class Latent:
    """Particles: positions of theta (N, size), private values x (N, t), log weights (N,)."""

    position: Array
    x: Array
    log_weight: Array


class LatentSurvey:
    """A survey by the published method: ask `query()`, take in `answer(...)`; see the module.

    `query` is asked of everyone if given (SMC-nonadaptive); else each interval is the best one for the score, moved to
    a particle drawn by its weight (SMC-adaptive, Algorithm 3).
    """

    def __init__(
        self,
        population: Population,
        guarantee: Guarantee,
        *,
        query: Query | None = None,
        score: str = "location",
        n_particles: int = 1000,
        values: int | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(population, Population) or not isinstance(population.distribution, NormalLaw):
            raise Unsupported("The published particle method is here for normal populations; use Survey.")
        if query is not None and query.edges is not None:
            raise InvalidArgument("query: the published method clips; give Query.clip(...).", argument="query")
        self.population, self.guarantee, self.fixed = population, guarantee, query
        self.n_particles = integer(n_particles, "n_particles", minimum=2)
        self.values = None if values is None else integer(values, "values", minimum=1)
        self.answers = self.rejuvenations = 0
        self._rng = np.random.default_rng(seed)
        self._law = AnswerLaw(population)
        self._target = Target(
            Transform(population.supports), population.log_prior, population.log_prior, population.sample_prior
        )
        self._best: Interval | None = (
            None if query is not None else best_interval("normal", guarantee=guarantee, score=score)
        )
        self._asked: list[Asked] = []
        self._readings: list[float] = []
        position = self._target.draw_prior(self._rng, self.n_particles)
        self._particles = Latent(position, np.empty((self.n_particles, 0)), np.zeros(self.n_particles))

    def query(self) -> Query:
        """What to ask the next person."""
        if self._best is None:
            assert self.fixed is not None
            return self.fixed
        chosen = self._rng.choice(self.n_particles, p=weights(self._particles.log_weight))
        loc, scale = self._law.place(self._target.parameters(self._particles.position[chosen]))
        low, high = (float(loc[0] + scale[0] * end) for end in (self._best.low, self._best.high))
        return Query.clip(low, high, guarantee=self.guarantee)

    def answer(self, answer: Answer) -> None:
        """Algorithm 2: resample, rejuvenate, propagate, weight."""
        asked = asked_of(answer.query)
        rng, particles = self._rng, self._particles
        if self.answers:
            chosen = rng.choice(self.n_particles, self.n_particles, p=weights(particles.log_weight))
            particles = Latent(particles.position[chosen], particles.x[chosen], np.zeros(self.n_particles))
            particles = self._moved_theta(self._moved_values(particles))
            self.rejuvenations += 1
        mean, sd = self._law.place(self._target.parameters(particles.position))
        x = mean + sd * rng.standard_normal(self.n_particles)
        log_weight = log_noise(answer.reading, x, asked.low, asked.high, asked.noise, is_laplace=asked.is_laplace)
        self._particles = Latent(particles.position, np.column_stack([particles.x, x]), log_weight)
        self._asked.append(asked)
        self._readings.append(answer.reading)
        self.answers += 1

    def _moved_values(self, particles: Latent) -> Latent:
        """One Metropolis step of each x_k, or of a random few."""
        rng, count = self._rng, self.answers
        some = np.arange(count)
        if self.values is not None and self.values < count:
            some = rng.choice(count, self.values, replace=False)
        readings = np.array(self._readings)[some]
        low, high, noise = np.array([(a.low, a.high, a.noise) for a in (self._asked[k] for k in some)]).T
        is_laplace = self._asked[0].is_laplace  # one guarantee, one kind of noise
        mean, sd = (each[:, None] for each in self._law.place(self._target.parameters(particles.position)))
        size = np.where(rng.random(some.size) < 0.5, VALUE_STEP, SHORT_STEP)
        x = particles.x[:, some]
        proposal = x + size * sd * rng.standard_normal(x.shape)
        log_ratio = 0.5 * (np.square(x - mean) - np.square(proposal - mean)) / np.square(sd)
        log_ratio += log_noise(readings, proposal, low, high, noise, is_laplace=is_laplace)
        log_ratio -= log_noise(readings, x, low, high, noise, is_laplace=is_laplace)
        kept = np.where(-rng.standard_exponential(x.shape) < log_ratio, proposal, x)
        if some.size == count:
            return Latent(particles.position, kept, particles.log_weight)
        moved = particles.x.copy()
        moved[:, some] = kept
        return Latent(particles.position, moved, particles.log_weight)

    def _moved_theta(self, particles: Latent) -> Latent:
        """One Metropolis step of theta given the values."""
        rng, count, position = self._rng, self.answers, particles.position
        total, square = particles.x.mean(axis=1), np.square(particles.x).mean(axis=1)

        def log_density(position: Array) -> Array:
            mean, sd = self._law.place(self._target.parameters(position))
            away = square - 2 * mean * total + np.square(mean)
            return np.asarray(self._target.log_prior(position) - count * (np.log(sd) + 0.5 * away / np.square(sd)))

        def root(position: Array) -> Array:
            """The size of a step, (N, size): the sd of each coordinate given x."""
            _, sd = self._law.place(self._target.parameters(position))
            is_real = [np.isinf(s.low) and np.isinf(s.high) for s in self._target.transform.supports.values()]
            return np.asarray(THETA_STEP * np.where(is_real, sd[:, None], np.sqrt(0.5)) / np.sqrt(count))

        step = root(position)
        proposal = position + step * rng.standard_normal(position.shape)
        with np.errstate(all="ignore"):
            back = root(proposal)
            away = np.square(proposal - position)
            log_walk = np.sum(0.5 * away * (step**-2 - back**-2) + np.log(step) - np.log(back), axis=1)
            log_ratio = log_density(proposal) - log_density(position) + log_walk
            is_accepted = -rng.standard_exponential(self.n_particles) < log_ratio  # False where it is NaN
        return Latent(np.where(is_accepted[:, None], proposal, position), particles.x, particles.log_weight)

    @property
    def positions(self) -> tuple[dict[str, Array], Array]:
        """Parameters (N,) of the particles, and their weights."""
        return self._target.parameters(self._particles.position), weights(self._particles.log_weight)

    def some_particles(self, count: int) -> dict[str, Array]:
        """A few parameter values by weight; looking changes nothing."""
        theta, w = self.positions
        chosen = np.random.default_rng(self.answers).choice(len(w), count, p=w)
        return {name: value[chosen] for name, value in theta.items()}

    @property
    def mean(self) -> dict[str, float]:
        """The posterior mean of each parameter."""
        theta, w = self.positions
        return {name: float(w @ value) for name, value in theta.items()}

    @property
    def sd(self) -> dict[str, float]:
        """The posterior standard deviation of each parameter."""
        theta, w = self.positions
        return {name: float(np.sqrt(w @ np.square(value - w @ value))) for name, value in theta.items()}


def log_noise(
    y: Array | float, x: Array, low: Array | float, high: Array | float, noise: Array | float, *, is_laplace: bool
) -> Array:
    """log p(y | x) up to a constant, of y = clip(x, low, high) + noise."""
    z = (y - np.clip(x, low, high)) / noise
    return -np.abs(z) if is_laplace else -0.5 * z * z
