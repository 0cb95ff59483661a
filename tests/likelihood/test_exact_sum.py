"""One sum without the central limit theorem, against brute-force simulation and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.exact_sum import ExactSum, pieces
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.populations.population import Exponential, Normal, Poisson, Uniform

X = nw.column("x")


def schema_of(low: float, high: float, n: int, outside: str = "clamp") -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high)}, n=n, neighbours="change-one", outside=outside)


CASES = {
    "identity-clamped": (X, -1, 1.2, "clamp", Normal(mean=stats.norm(0, 1), sd=1), {"mean": 0.4}),
    "absolute": (abs(X), -3, 3, "clamp", Normal(mean=0, sd=stats.halfnorm(scale=2)), {"sd": 1.3}),
    "square-off-centre": (X**2, -1, 3, "clamp", Normal(mean=stats.norm(), sd=1), {"mean": 0.7}),
    "clipped-inside": (X.clip(0, 1), -2, 4, "clamp", Normal(mean=stats.norm(), sd=1), {"mean": 0.3}),
    "truncated": (X, 0.5, 2, "refuse", Exponential(rate=stats.gamma(2)), {"rate": 1.2}),
    "root": (abs(X) ** 0.5, -4, 4, "clamp", Normal(mean=0, sd=stats.halfnorm()), {"sd": 1.1}),
    "uniform": (X, 0, 10, "clamp", Uniform(low=0, width=stats.uniform(1, 20)), {"width": 12.0}),
    "gaussian-noise": (X, 0, 3, "clamp", Exponential(rate=stats.gamma(2)), {"rate": 0.8}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 5, 20])
def test_the_density_is_the_average_noise_density_over_simulated_records(name: str, n: int) -> None:
    feature, low, high, outside, population, at = CASES[name]
    schema = schema_of(low, high, n, outside)
    guarantee = nw.GaussianDP(2) if name == "gaussian-noise" else nw.PureDP(3)
    rng = np.random.default_rng(7)
    theta = {k: np.array([v]) for k, v in at.items()}
    x = population.sample(rng, 40 * n * 1000, theta)[0]
    x = x[(x >= low) & (x <= high)] if outside == "refuse" else np.clip(x, low, high)
    x = x[: x.size // n * n].reshape(-1, n)
    sums = np.broadcast_to(feature.value({"x": x}, schema), x.shape).sum(axis=1)
    release = release_of(nw.Sum(feature), schema, guarantee, [float(np.quantile(sums, 0.8))])
    assert ExactSum.refusal(release, population, n=n) is None
    model = ExactSum(release, population, n=n)
    noise = model.normal.noise
    each = np.exp(noise.log_density((model.normal.observed[0] - sums)[:, None])) * noise.step[0]
    error = each.std() / np.sqrt(each.size)
    assert np.exp(model.log_likelihood(theta)[0]) == pytest.approx(each.mean(), abs=5 * error)
    assert error < 0.02 * each.mean()


def test_poisson_counts_are_convolved_exactly() -> None:
    schema = schema_of(0, 4, 3)
    population = Poisson(rate=stats.gamma(2))
    release = release_of(nw.Sum(X), schema, nw.PureDP(1), [6.25])
    model = ExactSum(release, population, n=3)
    p = stats.poisson.pmf(np.arange(4), 1.7)
    p = np.append(p, 1 - p.sum())
    total = 0.0
    for values in itertools.product(range(5), repeat=3):
        k = release.value[0] - round(sum(values) / release.law.step[0])
        total += np.prod([p[v] for v in values]) * np.exp(release.law.log_pmf(k))
    assert np.exp(model.log_likelihood({"rate": np.array([1.7])}))[0] == pytest.approx(total, rel=1e-9)


def test_wide_and_narrow_parameters_in_one_call_equal_one_at_a_time() -> None:
    population = Normal(mean=stats.norm(0, 5), sd=stats.halfnorm(scale=5))
    release = release_of(nw.Mean(X), schema_of(-10, 10, 30), nw.PureDP(2), [0.7])
    model = ExactSum(release, population, n=30)
    theta = {"mean": np.array([-4.0, 0.5, 0.6, 3.0, 8.0]), "sd": np.array([0.01, 0.5, 20.0, 3.0, 1.0])}
    together = model.log_likelihood(theta)
    apart = [model.log_likelihood({k: v[j : j + 1] for k, v in theta.items()})[0] for j in range(5)]
    assert together == pytest.approx(apart, abs=1e-7)


def test_it_tends_to_the_central_limit_law_as_n_grows() -> None:
    """At the parameter that explains the release, where the likelihood has its weight."""
    population = Exponential(rate=stats.gamma(2))
    gaps = []
    for n in (5, 50, 500):
        release = release_of(nw.Mean(X), schema_of(0, 6, n), nw.PureDP(20), [0.9])
        theta = {"rate": 1.1 * np.exp(np.linspace(-1, 1, 5) / np.sqrt(n))}
        exact = ExactSum(release, population, n=n).log_likelihood(theta)
        gaps.append(np.abs(exact - NormalSum((release,), population, n=n).log_likelihood(theta)).max())
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]


def test_a_feature_is_cut_where_it_turns_and_where_it_is_flat() -> None:
    schema = schema_of(-2, 5, 10)
    cuts, flat = pieces((X - 1) ** 2, schema, "x")
    assert cuts == pytest.approx([-2, 1, 5], abs=1e-6)
    assert flat == []
    cuts, flat = pieces(X.clip(0, 3), schema, "x")
    assert cuts == pytest.approx([-2, 0, 3, 5])
    assert [value for *_, value in flat] == [0.0, 3.0]


@pytest.mark.parametrize(
    ("statistic", "population", "reason"),
    [
        (nw.Mean(X, X**2), Normal(mean=stats.norm(), sd=1), "several components"),
        (nw.Mean(X.between(0, 1)), Normal(mean=stats.norm(), sd=1), "constant in pieces"),
        (nw.Mean(X * X.clip(0, 1).clip(0.2, 0.5)), Poisson(rate=stats.gamma(2)), "evenly spaced"),
    ],
)
def test_what_is_out_of_reach_is_said(statistic: object, population: object, reason: str) -> None:
    release = release_of(statistic, schema_of(-2, 5, 10), nw.PureDP(1), [0.5] * len(statistic.features))
    assert reason in str(ExactSum.refusal(release, population, n=10))
