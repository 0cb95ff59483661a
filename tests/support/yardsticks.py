"""What there would be to learn without privacy: of the statistic itself, and of the raw records.

    sampling_information    the statistic without noise: N(mu, Sigma/n) for sums, the multinomial for counts and tables
    record_information      n cleaned records themselves, n sum_m w_m (d log w_m)(d log w_m)'
No release tells more than the records; the normal approximation of a sum may claim to, at small n, since it lets the
covariance tell about theta as if the sum were normal.
"""

from __future__ import annotations

import numpy as np

from noisewise.design.additive import moment_slopes
from noisewise.design.blank import blank_release
from noisewise.design.coordinates import coordinate_slopes
from noisewise.design.record_score import scored_record
from noisewise.errors import Unsupported
from noisewise.joining import record_count
from noisewise.likelihood import cells, normal_gaussian
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.planning import plan
from noisewise.populations.cleaned import attach, cell_probabilities
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.privacy.guarantee import GaussianDP
from noisewise.schema import Schema
from noisewise.statistics import Count, Histogram, Marginals, Records, Statistic
from noisewise.statistics.order import OrderStatistic


def sampling_information(
    statistic: Statistic, schema: Schema, population: AnyPopulation, theta: Theta, *, n: object = None
) -> Array:
    """F (K, P, P) of a statistic released without noise."""
    size = record_count(schema, n)
    is_cells = isinstance(statistic, Records) and statistic.is_categorical(schema)
    if is_cells or isinstance(statistic, Count | Histogram) or (
        isinstance(statistic, Marginals) and len(statistic.cliques) == 1):  # fmt: skip

        def probabilities(at: Theta) -> Array:
            return cell_probabilities(population, schema, statistic, at)  # type: ignore[arg-type]

        p = probabilities(theta)
        slope = coordinate_slopes(probabilities, theta, population.supports)
        return np.asarray(size * cells.information(p, slope, channel=np.eye(p.shape[-1])))
    if isinstance(statistic, Records | OrderStatistic):
        raise Unsupported(
            f"{statistic} without noise has no normal law; compare with record_information, what the records tell."
        )
    # The guarantee only completes the plan: its noise is left out below.
    model = NormalSum((blank_release(plan(statistic, schema, guarantee=GaussianDP(1))),), population, n=size)
    covariance, d_mean, d_covariance = moment_slopes(model, population, theta)
    return normal_gaussian.information(d_mean=d_mean, d_covariance=d_covariance, covariance=covariance)


def record_information(population: AnyPopulation, schema: Schema, theta: Theta, *, n: object = None) -> Array:
    """F (K, P, P) of n cleaned records of every column that the population describes."""
    if isinstance(population, MultivariateNormal):
        raise Unsupported("The information of clamped records that are jointly normal has no form here.")
    columns = tuple(population.columns) or tuple(schema.columns)
    attach(population, schema, columns)
    names = len(coordinate_slopes(_zero, theta, population.supports)[0])
    total = np.zeros((rows_of(theta), names, names))
    for column in columns:
        record = scored_record(population, schema, column, theta)
        if not record.is_regular:
            raise Unsupported(
                f"The support of column {column!r} moves with a parameter: its raw records have no Fisher information, "
                "though a noisy statistic of them does."
            )
        total += record.information
    return np.asarray(record_count(schema, n) * total)


def _zero(theta: Theta) -> Array:
    return np.zeros(rows_of(theta))
