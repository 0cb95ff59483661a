"""A population prints as it was written: its repr is Python that makes the same population again."""

from __future__ import annotations

import pytest
from scipy import stats

import noisewise as nw
from noisewise.populations.text import population_to_spec

WRITTEN = [
    "Normal(mean=stats.norm(50, 50), sd=2)",
    "Normal(mean=1.5, variance=stats.invgamma(3, scale=0.25))",
    "Normal(prior=stats.normal_inverse_gamma(0, 1, 2, 3.5))",
    "Uniform(low=0, width=stats.halfnorm(scale=10))",
    "Uniform(low=stats.norm(0, 1), high=9)",
    "Bernoulli(p=stats.beta(1, 1))",
    "Categorical(p=stats.dirichlet([1, 1, 2.5]))",
    "Categorical(p=[0.2, 0.3, 0.5])",
    "Poisson(rate=stats.gamma(2, scale=3))",
    "Exponential(rate=stats.gamma(2))",
    "Gamma(shape=2, rate=stats.halfnorm(scale=0.5))",
    "LogNormal(log_mean=stats.norm(3, 1), log_sd=stats.halfnorm())",
    "LocationScale(stats.t(5), loc=stats.norm(0, 1), scale=2)",
    "LocationScale(stats.logistic, loc=stats.norm(0, 1), scale=2)",
    "Population(stats.weibull_min, c=2, scale=stats.halfnorm())",
    "Population(stats.weibull_min, c=2, loc=0, scale=stats.halfnorm())",
    "Population(stats.nbinom, n=3, p=stats.beta(1, 1))",
    "Joint(income=Normal(mean=stats.norm(50, 50), sd=1e-07), smoker=Bernoulli(p=stats.beta(1, 1)))",
    "MultivariateNormal(columns=['x', 'y'], mean=[stats.norm(5, 3), 4], sd=[2, 2.5], correlation=0.3)",
    "MultivariateNormal(columns=['x', 'y'], mean=[0, 4], sd=[2, 2.5], correlation=stats.uniform(-1, 2))",
    "MultivariateNormal(columns=['x', 'y'], mean=[0, 4], sd=[2, 2.5], correlation=[[1, 0.3], [0.3, 1]])",
    "Normal(mean=stats.norm(50, 50), sd=2).named('income')",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_population_prints_as_it_was_written(text):
    made = eval(text, {"stats": stats, **{name: getattr(nw, name) for name in nw.__all__}})
    assert repr(made) == text
    again = eval(repr(made), {"stats": stats, **{name: getattr(nw, name) for name in nw.__all__}})
    assert population_to_spec(again) == population_to_spec(made)
