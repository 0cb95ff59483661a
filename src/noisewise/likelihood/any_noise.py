"""One sum under noise of any law: what is left where no formula knows the law.

The sum U of n records is normal (central limit theorem, moments of the cleaned record). The noise V is cut into cells
[e_j, e_j+1) with the exact mass w_j that its distribution function gives them, and taken as uniform inside each:
    p(y) = sum_j w_j/h_j [Phi((y - mu - e_j)/tau) - Phi((y - mu - e_j+1)/tau)],      h_j = e_j+1 - e_j.
With 4096 cells the error is about h^2/24 of the density's curvature; a law that is piecewise flat is met exactly where
its edges are. Only the law's own members are asked for, so a law registered elsewhere needs nothing here.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from noisewise.errors import Unsupported
from noisewise.laws import AdditiveLaw, additive_law, normal_mixture
from noisewise.likelihood.model import GroupLaw, numerical_score, scalar_supports
from noisewise.likelihood.normal_sum import row_of
from noisewise.populations.cleaned import row_moments
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue

CELLS = 4096
TAIL = 1e-15
FEW_RECORDS = 200
LARGEST_PIECE = 2**22


def is_any_noise(releases: tuple[NoisyValue, ...]) -> bool:
    """Whether some law is neither Laplace nor normal noise."""
    return any(additive_law(release.law).mixture() is None for release in releases)


class AnyNoiseSum(GroupLaw):
    """The likelihood of one noisy sum, its noise known by its distribution function alone."""

    is_exact = False

    def __init__(self, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> None:
        if len(releases) > 1 or len(releases[0].value) > 1:
            for release in releases:
                normal_mixture(release.law)  # refused by name: several sums are joined under such noise alone
            raise Unsupported("Several sums of the same records have no joint law under this noise.")
        self.releases, self.population, self.n = releases, population, n
        self.law = additive_law(releases[0].law)
        self.row = row_of(releases[0])
        self.observed = float(releases[0].value[0]) * self.law.step[0]
        self.edges, self.log_density_of_cells = _cells(self.law)

    @property
    def because(self) -> str:
        return (
            f"central limit theorem: the sum is normal over {self.n} records, and noise of the law "
            f"{self.law.family!r} is added to it by quadrature"
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        if self.n >= FEW_RECORDS:
            return ()
        return (f"The sum of {self.n} records is taken as normal, and nothing here tells how far it is from that.",)

    def moments(self, theta: Theta) -> tuple[Array, Array]:
        """Mean and variance of the sum, (K,)."""
        mean, covariance = row_moments(self.population, self.releases[0].schema, self.row, theta)
        return self.n * mean[:, 0], self.n * covariance[:, 0, 0]

    def log_likelihood(self, theta: Theta) -> Array:
        mean, variance = self.moments(theta)
        each = max(1, LARGEST_PIECE // self.edges.size)
        parts = [
            logsumexp(self._terms(mean[start : start + each], variance[start : start + each]), axis=1)
            for start in range(0, len(mean), each)
        ]
        return np.asarray(np.concatenate(parts) + np.log(self.law.step[0]))

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The sum given y and theta: a cell of the noise, then a normal inside what it leaves."""
        mean, variance = self.moments(theta)
        terms = self._terms(mean, variance)
        chances = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
        cell = (rng.random((len(mean), 1)) > np.cumsum(chances, axis=1)).sum(axis=1).clip(max=chances.shape[1] - 1)
        sd = np.sqrt(np.maximum(variance, 1e-300))
        low, high = (ndtr((self.observed - self.edges[cell + k] - mean) / sd) for k in (1, 0))
        inside = np.clip(low + rng.random(len(mean)) * (high - low), 1e-300, 1 - 1e-16)
        return np.asarray((mean + sd * ndtri(inside)) / self.releases[0].divisor)[:, None]

    def _terms(self, mean: Array, variance: Array) -> Array:
        """log of each cell's part of the density, (K, cells)."""
        sd = np.sqrt(np.maximum(variance, (1e-9 * self.law.scale[0]) ** 2))
        z = (self.observed - self.edges - mean[:, None]) / sd[:, None]
        upper, lower = z[:, :-1], z[:, 1:]
        # Of two points above the mean the mirrored pair keeps its digits.
        flip = lower > 0
        a, b = np.where(flip, -lower, upper), np.where(flip, -upper, lower)
        top = log_ndtr(a)
        with np.errstate(divide="ignore"):
            return np.asarray(top + np.log(-np.expm1(np.minimum(log_ndtr(b) - top, 0.0))) + self.log_density_of_cells)


def _cells(law: AdditiveLaw) -> tuple[Array, Array]:
    """Edges of the noise's cells in units of the sum (ascending), and the log density inside each."""
    reach = law.reach(TAIL)
    whole = np.unique(np.round(np.linspace(-reach, reach + 1, CELLS + 1)))  # cells of whole steps
    mass = np.diff(law.cdf(whole - 1))
    edges = (whole - 0.5) * law.step[0]
    with np.errstate(divide="ignore"):
        return edges, np.log(np.maximum(mass, 0.0)) - np.log(np.diff(edges))
