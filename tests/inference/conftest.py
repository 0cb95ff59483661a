"""Toy releases with known posteriors, and the kernels that sample them.

A model here has a `target` (position on the real line), sometimes a `latent`, and a `reference`: posterior mean and
standard deviation of `theta(position)` from quadrature or algebra that shares nothing with the kernels.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import pytest
from normal_posteriors import posterior_of, release_at
from scipy import stats
from scipy.special import expit, log_ndtr

from noisewise.inference.kernels.leaping_slice import LeapingSlice
from noisewise.inference.kernels.slice import Slice
from noisewise.published.samplers.averaged import Averaged
from noisewise.published.samplers.averaged_records import AveragedRecords
from noisewise.published.samplers.averaged_sequential import AveragedSequential
from noisewise.published.samplers.correlated import Correlated
from noisewise.published.samplers.metropolis import Metropolis
from noisewise.published.samplers.pseudo_marginal import PseudoMarginal
from noisewise.published.samplers.within_gibbs import WithinGibbs


def log_laplace(residual, scale):
    return -np.abs(residual) / scale - math.log(2 * scale)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)


def integrate(function, edges):
    """Gauss-Legendre between successive edges, given as arrays (one integral a row)."""
    total = 0.0
    for low, high in pairwise(edges):
        half = (high - low)[..., None] / 2
        total = total + np.sum(WEIGHTS * half * function(low[..., None] + half * (1 + NODES)), axis=-1)
    return total


def grid_moments(likelihood, count=2000):
    """Mean and sd of theta under a uniform prior on (0, 10), by the midpoint rule on a fine grid."""
    thetas = 10 * (np.arange(count) + 0.5) / count
    weights = likelihood(thetas)
    weights = weights / weights.sum()
    mean = weights @ thetas
    return mean, math.sqrt(weights @ (thetas - mean) ** 2)


@dataclass
class UniformScale:
    """theta ~ Uniform(0, 10) walked as x = logit(theta/10); the Jacobian is theta (10 - theta)/10."""

    likelihood: object
    names = ("theta",)
    size = 1

    def parameters(self, position):
        return {"theta": 10 * expit(position[:, 0])}

    def log_prior(self, position):
        x = position[:, 0]
        return -np.logaddexp(0, x) - np.logaddexp(0, -x)

    def log_likelihood(self, position):
        return self.likelihood(10 * expit(position[:, 0]))

    def draw_prior(self, rng, count):
        return rng.logistic(size=(count, 1))


class NormalPair:
    """(a) theta ~ N(0, P), u | theta ~ N(A theta, V), y | u ~ N(u, D): conjugate, two parameters, correlated."""

    prior = np.diag([4.0, 1.0])
    slope = np.array([[1.0, 0.3], [-0.5, 0.8]])
    spread = np.array([[0.5, 0.2], [0.2, 0.4]])
    noise = np.array([0.3, 0.9])
    y = np.array([1.3, -0.4])

    def __init__(self):
        self.target, self.latent = self, _NormalPairLatent(self)
        total = self.spread + np.diag(self.noise)
        precision = np.linalg.inv(self.prior) + self.slope.T @ np.linalg.inv(total) @ self.slope
        self.covariance = np.linalg.inv(precision)
        mean = self.covariance @ self.slope.T @ np.linalg.inv(total) @ self.y
        self.reference = mean, np.sqrt(np.diag(self.covariance))

    names = ("one", "two")
    size = 2

    def theta(self, position):
        return position

    def log_prior(self, position):
        return -0.5 * np.sum(position**2 / np.diag(self.prior), axis=-1)

    def log_likelihood(self, position):
        residual = self.y - position @ self.slope.T
        total = np.linalg.inv(self.spread + np.diag(self.noise))
        return -0.5 * np.einsum("ki,ij,kj->k", residual, total, residual)

    def draw_prior(self, rng, count):
        return rng.standard_normal((count, 2)) * np.sqrt(np.diag(self.prior))


@dataclass
class _NormalPairLatent:
    model: NormalPair
    size = 2

    def __post_init__(self):
        self.noise_variance, self.observed = self.model.noise, self.model.y

    def moments(self, position):
        return position @ self.model.slope.T, np.broadcast_to(self.model.spread, (len(position), 2, 2))

    def log_noise(self, u):
        return np.sum(stats.norm.logpdf(self.observed, u, np.sqrt(self.noise_variance)), axis=-1)


@dataclass
class MeanOfAbsolutes:
    """(b) X ~ N(0, variance theta), s = mean |x| by the central limit theorem, Laplace noise of scale A/(n epsilon)."""

    n: int = 100
    scale: float = 10 / (100 * 5)
    y: float = 1.2
    size = 1

    def theta(self, position):
        return 10 * expit(position)

    @property
    def target(self):
        return UniformScale(self.log_likelihood)

    @property
    def latent(self):
        return self

    @property
    def noise_variance(self):
        return np.array([2 * self.scale**2])

    @property
    def observed(self):
        return np.array([self.y])

    def moments(self, position):
        theta = 10 * expit(position)
        return np.sqrt(2 * theta / np.pi), (theta * (1 - 2 / np.pi) / self.n)[:, :, None]

    def log_noise(self, u):
        return log_laplace(self.y - u[..., 0], self.scale)

    def log_likelihood(self, theta):
        tau = np.sqrt(theta * (1 - 2 / np.pi) / self.n)
        z, r = (self.y - np.sqrt(2 * theta / np.pi)) / tau, tau / self.scale
        one, two = -z * r + log_ndtr(z - r), z * r + log_ndtr(-z - r)
        return r**2 / 2 + np.logaddexp(one, two) - math.log(2 * self.scale)

    @cached_property
    def reference(self):
        """By quadrature over u, split at the kink: the closed form above is not used."""

        def likelihood(theta):
            mean, sd = np.sqrt(2 * theta / np.pi), np.sqrt(theta * (1 - 2 / np.pi) / self.n)
            y, reach = np.full_like(theta, self.y), 40 * self.scale
            edges = [
                np.clip(y + step, mean - 12 * sd, mean + 12 * sd) for step in (-reach, -reach / 8, 0, reach / 8, reach)
            ]

            def integrand(u):
                return stats.norm.pdf(u, mean[:, None], sd[:, None]) * np.exp(log_laplace(self.y - u, self.scale))

            return integrate(integrand, edges)

        return grid_moments(likelihood)


@dataclass
class OrderStatistic:
    """(c) The rank-th smallest of n draws |x|, X ~ N(0, variance theta), with Laplace noise: no sum, no normal law."""

    rank: int
    n: int = 20
    scale: float = 0.15
    y: float = 1.1
    size = 1

    def theta(self, position):
        return 10 * expit(position)

    @property
    def target(self):
        return UniformScale(lambda theta: np.full(theta.shape, np.nan))  # no kernel for records may ask for it

    @property
    def latent(self):
        return self

    def base(self, rng, shape):
        return rng.standard_normal((*shape, self.n))

    def log_noise(self, z, position):
        statistic = np.partition(np.abs(z), self.rank - 1, axis=-1)[..., self.rank - 1]
        return log_laplace(self.y - np.sqrt(10 * expit(position)) * statistic, self.scale)

    @cached_property
    def reference(self):
        law, ranks = stats.halfnorm, stats.beta(self.rank, self.n - self.rank + 1)

        def likelihood(theta):
            root = np.sqrt(theta)[:, None]

            def integrand(s):
                return ranks.pdf(law.cdf(s)) * law.pdf(s) * np.exp(log_laplace(self.y - root * s, self.scale))

            kink = np.minimum(self.y / np.sqrt(theta), 7.0)
            return integrate(integrand, [0 * theta, kink, np.minimum(2 * kink, 7.0), 0 * theta + 7.0])

        return grid_moments(likelihood, 1000)


@dataclass
class LocalAnswers:
    """(d) n people answer |x| + Laplace noise themselves."""

    y: np.ndarray
    scale: float = 0.8
    size = 1

    @property
    def n(self):
        return self.y.shape[-1]

    def theta(self, position):
        return 10 * expit(position)

    @property
    def target(self):
        return UniformScale(lambda theta: np.full(theta.shape, np.nan))

    @property
    def latent(self):
        return self

    def base(self, rng, shape):
        return rng.standard_normal((*shape, self.n))

    def log_noise(self, z, position):
        return log_laplace(self.y - np.sqrt(10 * expit(position))[:, :, None] * np.abs(z), self.scale)

    @cached_property
    def reference(self):
        def likelihood(theta):
            log_density = np.zeros_like(theta)
            for y in self.y:

                def integrand(s, y=y):
                    answer = y - np.sqrt(theta)[:, None] * s
                    return stats.halfnorm.pdf(s) * np.exp(log_laplace(answer, self.scale))

                kink = np.clip(y / np.sqrt(theta), 0.0, 7.0)
                log_density += np.log(integrate(integrand, [0 * theta, kink, 0 * theta + 7.0]))
            return np.exp(log_density - log_density.max())

        return grid_moments(likelihood, 400)


def local_answers(rng, n=30, theta=2.0, scale=0.8):
    return LocalAnswers(np.abs(rng.normal(0, math.sqrt(theta), n)) + rng.laplace(0, scale, n), scale)


BATCH_KERNELS = {
    "mh": lambda _: Metropolis,
    "slice": lambda _: Slice,
    "slice with leaps": lambda _: LeapingSlice,
    "mh-within-gibbs": lambda model: partial(WithinGibbs, latent=model.latent),
    "pmmh": lambda model: partial(PseudoMarginal, latent=model.latent, n_particles=10),
    "pmmh from f alone": lambda model: partial(PseudoMarginal, latent=model.latent, n_particles=10, share=1.0),
    "cpm": lambda model: partial(Correlated, latent=model.latent, n_particles=10),
    "mhaar": lambda model: partial(Averaged, latent=model.latent, n_particles=5),
    "mhaar from f alone": lambda model: partial(Averaged, latent=model.latent, n_particles=5, share=1.0),
}
RECORD_KERNELS = {
    "mhaar over z": lambda model: partial(AveragedRecords, latent=model.latent, n_particles=8),
    "mhaar over z, subsets": lambda model: partial(AveragedRecords, latent=model.latent, n_particles=5, subset=4),
    "mhaar over z, all as a subset": lambda model: partial(
        AveragedRecords, latent=model.latent, n_particles=5, subset=20
    ),
}
SEQUENTIAL_KERNELS = {
    "mhaar sequential": lambda model: partial(AveragedSequential, latent=model.latent, n_particles=5),
}


@dataclass(frozen=True)
class Toys:
    """Everything above under one name, since test modules cannot import each other."""

    NormalPair: type = NormalPair
    MeanOfAbsolutes: type = MeanOfAbsolutes
    OrderStatistic: type = OrderStatistic
    LocalAnswers: type = LocalAnswers
    local_answers: object = staticmethod(local_answers)
    log_laplace: object = staticmethod(log_laplace)
    batch_kernels: dict = field(default_factory=lambda: BATCH_KERNELS)
    record_kernels: dict = field(default_factory=lambda: RECORD_KERNELS)
    sequential_kernels: dict = field(default_factory=lambda: SEQUENTIAL_KERNELS)


@pytest.fixture(scope="session")
def toys():
    return Toys()


@pytest.fixture
def seed(rng):
    return int(rng.integers(2**62))


@pytest.fixture
def posterior(seed):
    return posterior_of([release_at(1.5)], seed=seed)
