"""Information of noisy sums under the central limit theorem.

Y = U + V with U ~ N(n mu(theta), n Sigma(theta)), moments taken of the cleaned record:
    Gaussian noise            F_ij = dmu_i' H^-1 dmu_j + tr(H^-1 dH_i H^-1 dH_j)/2, closed        `normal_gaussian`
    one sum, Laplace noise    F_ij = dmu_i dmu_j J_mu + dtau2_i dtau2_j J_tau2, by quadrature      `normal_laplace`
    several, Laplace noise    a closed part plus a small remainder by Monte Carlo                  `laplace_vector`
(Alparslan & Yıldırım 2022, sections 3.1 and 3.2.) The normal law also has its covariance move with theta; at small n
that second term can exceed what the raw records tell: an artefact of the approximation, not of the release.
"""

from __future__ import annotations

import numpy as np

from noisewise.design.blank import blank_release
from noisewise.design.coordinates import coordinate_slopes
from noisewise.design.laplace_vector import laplace_vector_information
from noisewise.likelihood import normal_gaussian, normal_laplace
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.planning import Plan
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation


class NormalSumInformation:
    """Information of the sums of n records, taken as jointly normal."""

    is_exact = False
    shares_draws = False

    def __init__(self, plan: Plan, population: AnyPopulation, *, n: int, seed: object, draws: int | None) -> None:
        self.model = NormalSum((blank_release(plan),), population, n=n)
        self.population, self.seed, self.draws = population, seed, draws
        self.is_laplace = bool(self.model.noise.is_laplace.any())

    @property
    def method(self) -> str:
        if not self.is_laplace:
            return "closed form"
        return "quadrature" if len(self.model.row) == 1 else "monte-carlo (remainder beside a closed form)"

    def rows(self, theta: Theta) -> tuple[Array, Array]:
        """F (K, P, P) and its standard error."""
        covariance, d_mean, d_covariance = moment_slopes(self.model, self.population, theta)
        noise = self.model.noise
        if not self.is_laplace:
            found = normal_gaussian.information(
                d_mean=d_mean, d_covariance=d_covariance, covariance=covariance, noise_variance=np.square(noise.scale)
            )
            return found, np.zeros_like(found)
        if len(self.model.row) == 1:
            in_mean, in_variance = normal_laplace.information(variance=covariance[:, 0, 0], scale=noise.scale[0])
            mean, variance = d_mean[..., 0], d_covariance[..., 0, 0]
            found = _outer(mean) * in_mean[:, None, None] + _outer(variance) * in_variance[:, None, None]
            return found, np.zeros_like(found)
        rng = np.random.default_rng(self.seed)  # type: ignore[arg-type]
        return laplace_vector_information(
            rng, covariance=covariance, d_mean=d_mean, d_covariance=d_covariance, scale=noise.scale, draws=self.draws
        )


def moment_slopes(model: NormalSum, population: AnyPopulation, theta: Theta) -> tuple[Array, Array, Array]:
    """The covariance (K, d, d) of the sums, and the derivatives of mean (K, P, d) and covariance (K, P, d, d)."""
    d = len(model.row)

    def packed(at: Theta) -> Array:
        mean, covariance = model.moments(at)
        return np.concatenate([mean, covariance.reshape(len(mean), -1)], axis=1)

    slope = coordinate_slopes(packed, theta, population.supports)
    return model.moments(theta)[1], slope[..., :d], slope[..., d:].reshape(*slope.shape[:2], d, d)


def _outer(v: Array) -> Array:
    return np.asarray(v[:, :, None] * v[:, None, :])
