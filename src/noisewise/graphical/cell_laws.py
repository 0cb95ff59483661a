"""The law of published entries around their means n W mu(theta): sampling plus noise, as a function of the means.

    normal tables      y ~ N(m, S + V)                                  Gaussian noise, or any by its variance
    mixed tables       y ~ N(m, S + diag(omega)), omega_i ~ Exp(2 b^2)  Laplace noise, as a mixture of normal laws
    independent cells  y_i ~ N(m_i, S_ii) + Laplace(b_i)                the same with the correlations of S left out

S = n W Sigma W' is held fixed. Each law gives, for K rows of means, the log density of y and its slope in the means.
The mixed law draws its omega anew given y and the means: noise e by Gaussian conditioning, and then
    1/omega_i | e_i ~ inverse Gaussian with mean 1/(b |e_i|) and shape 1/b^2          (Andrews & Mallows 1974)
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from scipy import linalg

from noisewise.compilation import njit
from noisewise.graphical.problem import Holder
from noisewise.likelihood.compiled import log_density_and_pull
from noisewise.likelihood.normal_laplace import draw_mixing
from noisewise.types import Floats

__all__ = ["CellLaw", "IndependentCells", "MixedTables", "NormalTables", "inverse_of", "log_volume", "root_of",
           "total_factor"]  # fmt: skip

SMALLEST = 1e-6  # sampling variance and mixing variances, in units of the noise: zero is not divided by
ROUNDING = 1e-10  # of the largest sampling variance: noise below it cannot be told from rounding in S


class CellLaw(Protocol):
    """What one holder's entries say about K rows of means (K, entries)."""

    def score(self, means: Floats) -> tuple[Floats, Floats]:
        """log p(y | means) (K,), and its slope in the means (K, entries)."""
        ...

    def refresh(self, rng: np.random.Generator, means: Floats) -> None:
        """Draw whatever is latent in the law given y and the means."""
        ...


class NormalTables:
    """y ~ N(m, S + V), one covariance for all rows."""

    def __init__(self, holder: Holder, factor: Floats) -> None:
        """`factor`: lower triangular, of S + V."""
        self.observed = holder.observed
        self.precision = inverse_of(factor)
        self.log_volume = log_volume(factor)

    def score(self, means: Floats) -> tuple[Floats, Floats]:
        residual = self.observed - means
        slope = residual @ self.precision
        return -0.5 * np.einsum("ki,ki->k", residual, slope) - self.log_volume, slope

    def refresh(self, rng: np.random.Generator, means: Floats) -> None:
        """Nothing is latent."""


class MixedTables:
    """y ~ N(m, S + diag(omega)), with an omega of its own for each row."""

    def __init__(self, holder: Holder, sampling: Floats, rows: int) -> None:
        """`sampling`: S. Every omega starts at the variance of the noise."""
        self.observed, self.scale, self.sampling = holder.observed, holder.scale, np.asfortranarray(sampling)
        self.root = root_of(sampling)
        self.omega = np.tile(holder.variance, (rows, 1))
        self.factors = [self._factor(holder.variance)] * rows

    def score(self, means: Floats) -> tuple[Floats, Floats]:
        residual = self.observed - means
        slope = np.stack([_solved(factor, row) for factor, row in zip(self.factors, residual, strict=True)])
        volume = np.array([log_volume(factor) for factor in self.factors])
        return -0.5 * np.einsum("ki,ki->k", residual, slope) - volume, slope

    def refresh(self, rng: np.random.Generator, means: Floats) -> None:
        noise = np.sqrt(self.omega) * rng.standard_normal(means.shape)
        sampled = rng.standard_normal((len(means), self.root.shape[1])) @ self.root.T
        gap = self.observed - means - noise - sampled
        noise += self.omega * np.stack([_solved(f, row) for f, row in zip(self.factors, gap, strict=True)])
        omega = draw_mixing(rng, noise, self.scale, least=SMALLEST)
        self.omega = np.maximum(omega, SMALLEST * np.square(self.scale))
        self.factors = [self._factor(row) for row in self.omega]

    def _factor(self, omega: Floats) -> Floats:
        return total_factor(self.sampling, omega)


class IndependentCells:
    """y_i ~ N(m_i, S_ii) + Laplace(b_i), entry by entry."""

    def __init__(self, holder: Holder, sampling: Floats) -> None:
        """`sampling`: the diagonal of S."""
        self.observed, self.scale = holder.observed, holder.scale
        self.spread = np.sqrt(np.maximum(sampling, SMALLEST * holder.variance))

    def score(self, means: Floats) -> tuple[Floats, Floats]:
        log_density, slope = np.empty(len(means)), np.empty(means.shape)
        _score_cells(self.observed, means, self.spread, self.scale, log_density, slope)
        return log_density, slope

    def refresh(self, rng: np.random.Generator, means: Floats) -> None:
        """Nothing is latent."""


@njit(cache=True)
def _score_cells(
    observed: Floats, means: Floats, spread: Floats, scale: Floats, log_density: Floats, slope: Floats
) -> None:
    for k in range(len(means)):
        total = 0.0
        for i in range(len(observed)):
            log_f, pull = log_density_and_pull(observed[i] - means[k, i], spread[i], scale[i])
            total += log_f
            slope[k, i] = pull
        log_density[k] = total


def total_factor(sampling: Floats, noise: Floats) -> Floats:
    """The lower triangular factor of S + diag(noise)."""
    total = sampling.copy(order="F")
    diagonal = np.diag(sampling)
    total[np.diag_indices(len(noise))] += np.maximum(noise, ROUNDING * diagonal.max(initial=0.0))
    return np.asarray(linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False))


def inverse_of(factor: Floats) -> Floats:
    """The inverse of the matrix with this lower triangular factor."""
    inverse, _ = linalg.lapack.dpotri(factor, lower=1)
    return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)


def root_of(covariance: Floats) -> Floats:
    """R with R R' = covariance, which need not have full rank."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _solved(factor: Floats, row: Floats) -> Floats:
    half = linalg.blas.dtrsv(factor, row, lower=1)
    return np.asarray(linalg.blas.dtrsv(factor, half, lower=1, trans=1))


def log_volume(factor: Floats) -> float:
    """The normal law's log density at its mean, with the sign turned; `factor` is that of its covariance."""
    return float(np.sum(np.log(np.diag(factor)))) + 0.5 * len(factor) * math.log(2 * math.pi)
