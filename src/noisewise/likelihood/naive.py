"""What most people do: take the noisy value for the true one. For comparison only; its intervals do not cover.

sums, means, tables     the central limit theorem with no noise, at the published value
counts                  binomial at the published count, rounded into 0..n
randomized response     the answered cells taken for the true ones
local answers           the mean of the answers taken for that of the records
order statistics        the density of the order statistic itself at the published value
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from noisewise.errors import Unsupported
from noisewise.joining import stated_sizes
from noisewise.likelihood.joint import checked_releases
from noisewise.likelihood.model import GroupLaw
from noisewise.likelihood.normal_sum import row_of
from noisewise.populations.cleaned import attach, cell_probabilities, row_moments
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics import Count, Histogram, Records
from noisewise.statistics.order import OrderStatistic

NARROWEST = 1e-12  # relative variance given to a component that cannot vary


class NaiveLikelihood(GroupLaw):
    """log p of the releases as if they carried no noise, each release on its own."""

    is_exact = False
    groups: tuple[GroupLaw, ...] = ()  # it joins nothing
    cautions: tuple[str, ...] = ()
    because = "the noise is ignored, for comparison only: intervals are too narrow"

    def __init__(self, releases: Any, population: AnyPopulation, *, n: object = None) -> None:
        self.releases = checked_releases(releases)
        self.population = population
        self.sizes = stated_sizes(self.releases, n)

    def log_likelihood(self, theta: Theta) -> Array:
        each = [
            _naive(release, self.population, n, theta) for release, n in zip(self.releases, self.sizes, strict=True)
        ]
        return np.asarray(np.sum(each, axis=0))


def _naive(release: NoisyValue, population: AnyPopulation, n: int, theta: Theta) -> Array:
    statistic = release.statistic
    if isinstance(statistic, OrderStatistic):
        return _order(release, population, theta)
    if isinstance(statistic, Records) and not release.is_categorical:
        mean, covariance = row_moments(population, release.schema, (statistic.feature,), theta)
        return _normal(np.array([release.estimate.mean()]), mean, covariance / release.estimate.size)
    if isinstance(statistic, Count):
        p = cell_probabilities(population, release.schema, statistic, theta)[:, 1]
        s = float(np.clip(np.rint(release.estimate[0]), 0, n))
        return np.asarray(xlogy(s, p) + xlog1py(n - s, -p))
    if isinstance(statistic, Histogram | Records):
        p = cell_probabilities(population, release.schema, statistic, theta)
        counts = np.maximum(release.estimate, 0.0)
        return np.asarray(xlogy(counts, p).sum(axis=1))
    mean, covariance = row_moments(population, release.schema, row_of(release), theta)
    n_read = n / release.divisor
    return _normal(release.estimate, n_read * mean, n_read / release.divisor * covariance)


def _normal(y: Array, mean: Array, covariance: Array) -> Array:
    """The normal log-density; components that cannot vary get a hair's breadth."""
    d = len(y)
    size = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / d
    matrix = covariance + NARROWEST * np.maximum(size, 1e-300) * np.eye(d)
    root = np.linalg.cholesky(matrix)
    white = np.linalg.solve(root, (y - mean)[..., None])[..., 0]
    log_determinant = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(-0.5 * (np.square(white).sum(axis=1) + log_determinant + d * np.log(2 * np.pi)))


def _order(release: NoisyValue, population: AnyPopulation, theta: Theta) -> Array:
    """log n!/((k-1)!(n-k)!) F^(k-1) (1-F)^(n-k) f at the published value, for the column itself."""
    statistic = release.statistic
    assert isinstance(statistic, OrderStatistic)
    if statistic.feature.operation != "column":
        raise Unsupported("The naive posterior of an order statistic is offered for a column itself, not a feature.")
    column = statistic.feature.arguments[0]
    one = attach(population, release.schema, (column,))[column]
    mine = population.theta_of(column, theta)
    n = release.schema.largest_n
    k = statistic.rank(n)
    low, high = statistic.bounds(release.schema)
    y = np.clip(release.estimate, low, high)
    cdf = one.cdf(y, mine)[:, 0]
    constant = gammaln(n + 1) - gammaln(k) - gammaln(n - k + 1)
    return np.asarray(constant + xlogy(k - 1, cdf) + xlog1py(n - k, -cdf) + one.log_density(y, mine)[:, 0])
