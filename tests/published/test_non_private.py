"""Non-private posteriors are prior times likelihood, family by family: draws against numerical integration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise.published.baselines.non_private import FAMILIES, non_private

FALSE_ALARM = 1e-6
DRAWS = 4000
Cdf = Callable[[Any], Any]

COUNTS = np.array([3, 0, 2, 5, 1, 1], float)
WAITS = np.array([0.2, 1.4, 0.05, 0.7], float)
ANSWERS = np.array([1, 0, 0, 1, 0, 0, 0], float)
LEVELS = np.array([0, 2, 2, 1, 2, 0], float)
HEIGHTS = np.array([1.5, -0.3, 2.2, 0.9, 1.1], float)


def cdf_on(grid: Any, log_density: Any) -> Cdf:
    """The distribution function of a density on a grid, by the trapezoid rule."""
    density = np.exp(log_density - np.max(log_density))
    total = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    return lambda x: np.interp(x, grid, total / total[-1])


def one_unknown(grid: Any, prior: Any, record_log_density: Any) -> Cdf:
    return cdf_on(grid, prior.logpdf(grid) + record_log_density(grid[:, None]).sum(axis=1))


SHARE, RATE = np.linspace(1e-6, 1 - 1e-6, 20_001), np.linspace(1e-6, 20, 40_001)
RATE_PRIOR = stats.gamma(2, scale=1 / 3)
SINGLE: dict[str, tuple[Any, tuple[float, float], str, Cdf]] = {
    "binomial": (
        ANSWERS, (0.5, 5.0), "p",
        one_unknown(SHARE, stats.beta(0.5, 5), lambda p: stats.bernoulli.logpmf(ANSWERS, p)),
    ),
    "poisson": (
        COUNTS, (2.0, 3.0), "rate", one_unknown(RATE, RATE_PRIOR, lambda rate: stats.poisson.logpmf(COUNTS, rate))
    ),
    "exponential": (
        WAITS, (2.0, 3.0), "rate", one_unknown(RATE, RATE_PRIOR, lambda rate: stats.expon.logpdf(WAITS, scale=1 / rate))
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", SINGLE)
def test_draws_have_the_law_prior_times_likelihood(rng: np.random.Generator, family: str) -> None:
    records, prior, name, cdf = SINGLE[family]
    draws = non_private(rng, family, records, prior=prior, draws=DRAWS)
    assert list(draws) == [name]
    assert stats.kstest(draws[name], cdf).pvalue > FALSE_ALARM
    # Planted: two records are forgotten.
    wrong = non_private(rng, family, records[:-2], prior=prior, draws=DRAWS)[name]
    assert stats.kstest(wrong, cdf).pvalue < FALSE_ALARM


def test_a_table_has_the_law_prior_times_likelihood(rng: np.random.Generator) -> None:
    """The first share by summing over the second on a grid of the triangle."""
    alpha, grid = (1.5, 2.0, 3.0), np.linspace(0, 1, 801)[1:-1]
    first, second = np.meshgrid(grid, grid, indexing="ij")
    third = np.where(first + second < 1 - 1e-9, 1 - first - second, np.nan)
    counts = [int(np.sum(k == LEVELS)) for k in range(3)]
    log_density = sum((a - 1 + s) * np.log(p) for a, s, p in zip(alpha, counts, (first, second, third), strict=True))
    marginal = np.nansum(np.exp(log_density), axis=1)
    draws = non_private(rng, "multinomial", LEVELS, prior=alpha, draws=DRAWS)["p"]
    assert draws.shape == (DRAWS, 3)
    with np.errstate(divide="ignore"):
        cdf = cdf_on(grid, np.log(marginal))
    assert stats.kstest(draws[:, 0], cdf).pvalue > FALSE_ALARM
    assert stats.kstest(draws[:, 1], cdf).pvalue < FALSE_ALARM


def test_normal_records_have_the_law_prior_times_likelihood(rng: np.random.Generator) -> None:
    prior = (0.5, 2.0, 3.0, 4.0)
    mean, variance = np.linspace(-6, 8, 1401), np.exp(np.linspace(-5, 6, 801))
    m, v = np.meshgrid(mean, variance, indexing="ij")
    log_density = stats.normal_inverse_gamma(*prior).logpdf(m, v)
    for x in HEIGHTS:
        log_density = log_density + stats.norm.logpdf(x, m, np.sqrt(v))
    density = np.exp(log_density - log_density.max())
    draws = non_private(rng, "normal", HEIGHTS, prior=prior, draws=DRAWS)
    of_mean = cdf_on(mean, np.log(np.trapezoid(density, variance, axis=1) + 1e-300))
    of_variance = cdf_on(variance, np.log(np.trapezoid(density, mean, axis=0) + 1e-300))
    assert stats.kstest(draws["mean"], of_mean).pvalue > FALSE_ALARM
    assert stats.kstest(draws["variance"], of_variance).pvalue > FALSE_ALARM
    # Planted: a tenth of the prior's k, the number of records that its mean is worth.
    wrong = non_private(rng, "normal", HEIGHTS, prior=(0.5, 0.2, 3.0, 4.0), draws=DRAWS)
    assert stats.kstest(wrong["mean"], of_mean).pvalue < FALSE_ALARM


def test_a_family_that_is_not_there_is_refused_by_name(rng: np.random.Generator) -> None:
    with pytest.raises(InvalidArgument, match=r"'gauss'.*binomial") as raised:
        non_private(rng, "gauss", [1.0], prior=(1, 1), draws=1)
    assert raised.value.argument == "family"
    assert set(FAMILIES) == {"binomial", "multinomial", "poisson", "exponential", "normal"}
