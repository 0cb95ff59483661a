"""Populations: densities, draws, scores and moments against scipy and quadrature."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.nodes import feature_moments, kinks_of
from noisewise.populations.population import (
    Bernoulli,
    Categorical,
    Exponential,
    Gamma,
    Joint,
    LocationScale,
    LogNormal,
    Normal,
    Poisson,
    Population,
    Uniform,
)
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics.feature import column

x = column("x")
HALF = stats.halfnorm(scale=2)
CASES: dict[str, tuple[Population, dict[str, list[float]], Any]] = {
    "normal": (Normal(mean=stats.norm(), sd=HALF), {"mean": [0.3, -2], "sd": [1.5, 0.2]},
               lambda p: stats.norm(p["mean"], p["sd"])),
    "normal variance": (Normal(mean=0.5, variance=HALF), {"variance": [2.0, 0.1]},
                        lambda p: stats.norm(0.5, np.sqrt(p["variance"]))),
    "uniform": (Uniform(low=-1, high=stats.uniform(0, 3)), {"high": [0.5, 2.5]},
                lambda p: stats.uniform(-1, p["high"] + 1)),
    "uniform width": (Uniform(low=stats.norm(), width=HALF), {"low": [0.1, -2], "width": [1.0, 3.0]},
                      lambda p: stats.uniform(p["low"], p["width"])),
    "exponential": (Exponential(rate=HALF), {"rate": [0.5, 3.0]}, lambda p: stats.expon(scale=1 / p["rate"])),
    "gamma": (Gamma(shape=HALF, rate=HALF), {"shape": [0.6, 4.0], "rate": [0.5, 3.0]},
              lambda p: stats.gamma(p["shape"], scale=1 / p["rate"])),
    "lognormal": (LogNormal(log_mean=stats.norm(), log_sd=0.7), {"log_mean": [0.0, 0.4]},
                  lambda p: stats.lognorm(0.7, scale=np.exp(p["log_mean"]))),
    "student": (LocationScale(stats.t(5), loc=stats.norm(), scale=HALF), {"loc": [0.0, 1.0], "scale": [1.0, 0.3]},
                lambda p: stats.t(5, p["loc"], p["scale"])),
    "weibull": (Population(stats.weibull_min, c=1.7, scale=HALF), {"scale": [1.0, 2.5]},
                lambda p: stats.weibull_min(1.7, scale=p["scale"])),
    "poisson": (Poisson(rate=HALF), {"rate": [0.5, 7.0]}, lambda p: stats.poisson(p["rate"])),
    "bernoulli": (Bernoulli(p=stats.beta(1, 1)), {"p": [0.2, 0.9]}, lambda p: stats.bernoulli(p["p"])),
}  # fmt: skip


def rows(theta: dict[str, list[float]]) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in theta.items()}


@pytest.mark.parametrize("name", CASES)
def test_density_cdf_and_quantile_are_scipys(name: str) -> None:
    population, theta, frozen = CASES[name]
    points = np.arange(-2.0, 9.0) if population.is_discrete else np.linspace(-3, 6, 41)
    log_density, cdf = population.log_density(points, rows(theta)), population.cdf(points, rows(theta))
    u = np.array([0.01, 0.3, 0.77])
    for k in range(2):
        oracle = frozen({key: values[k] for key, values in theta.items()})
        expected = oracle.logpmf(points) if population.is_discrete else oracle.logpdf(points)
        np.testing.assert_allclose(np.exp(log_density[k]), np.exp(expected), rtol=1e-10, atol=1e-300)
        np.testing.assert_allclose(cdf[k], oracle.cdf(points), rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(population.quantile(u, rows(theta))[k], oracle.ppf(u), rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_draws_follow_the_law(name: str) -> None:
    population, theta, frozen = CASES[name]
    draws = population.sample(np.random.default_rng(), 4000, rows(theta))
    assert draws.shape == (2, 4000)
    for k in range(2):
        oracle = frozen({key: values[k] for key, values in theta.items()})
        z = (draws[k].mean() - oracle.mean()) / (oracle.std() / np.sqrt(4000))
        assert abs(z) < 5.5  # two-sided normal 4e-8; heavy tails of these laws stay below 1e-6
        if not population.is_discrete:
            assert stats.kstest(draws[k], oracle.cdf).pvalue > 1e-6


@pytest.mark.parametrize("name", [name for name in CASES if "uniform" not in name])
def test_scores_have_mean_zero_and_match_differences(name: str) -> None:
    population, theta, _ = CASES[name]
    points = np.array([1.0]) if population.is_discrete else np.array([0.2, 0.7, 1.9])
    scores = population.score(points, rows(theta))
    assert set(scores) == set(theta)
    for parameter, values in theta.items():
        h = 1e-5
        up = population.log_density(points, {**rows(theta), parameter: np.array(values) + h})
        down = population.log_density(points, {**rows(theta), parameter: np.array(values) - h})
        np.testing.assert_allclose(scores[parameter], (up - down) / (2 * h), rtol=1e-4, atol=1e-6)


FEATURES = [x, x**2, abs(x), x.clip(-0.5, 0.7), x.between(0.1, 0.9), abs(x) ** 0.5]


CONTINUOUS = [name for name, case in CASES.items() if not case[0].is_discrete]
FAST = [("normal", (-1.0, 2.0), "clamp"), ("gamma", (-1.0, 2.0), "refuse"), ("student", (0.25, 0.75), "clamp")]
GRID = [
    pytest.param(*cell, marks=() if cell in FAST else pytest.mark.slow)
    for cell in itertools.product(CONTINUOUS, [(-1.0, 2.0), (0.25, 0.75), (-50.0, 90.0)], ["clamp", "refuse"])
]


@pytest.mark.parametrize(("name", "bounds", "outside"), GRID)
def test_feature_moments_match_adaptive_quadrature(name: str, bounds: tuple[float, float], outside: str) -> None:
    population, theta, frozen = CASES[name]
    schema = Schema({"x": Bounded(*bounds)}, n=10, neighbours="change-one", outside=outside)
    oracles = [frozen({key: values[k] for key, values in theta.items()}) for k in range(2)]
    if outside == "refuse" and min(o.cdf(bounds[1]) - o.cdf(bounds[0]) for o in oracles) < 1e-3:
        pytest.skip("no records inside these bounds under this law")
    features = [f for f in FEATURES if kinks_of((f,), schema, "x") is not None]
    mean, covariance = feature_moments(population, schema, features, rows(theta))
    for k, oracle in enumerate(oracles):
        for i, f in enumerate(features):
            g, j = features[i - 1], (i - 1) % len(features)
            expected = cleaned_expectation(oracle, bounds, outside, lambda v, f=f, g=g: value(f, v) * value(g, v))
            found = covariance[k, i, j] + mean[k, i] * mean[k, j]
            assert found == pytest.approx(expected, rel=1e-8, abs=1e-10)
            expected = cleaned_expectation(oracle, bounds, outside, lambda v, f=f: value(f, v))
            assert mean[k, i] == pytest.approx(expected, rel=1e-8, abs=1e-10)


WIDE = Schema({"x": Bounded(-1e6, 1e6)}, n=1, neighbours="change-one")


def value(feature: Any, at: Any) -> Any:
    return feature.value({"x": np.asarray(at, dtype=float)}, WIDE)


def cleaned_expectation(oracle: Any, bounds: tuple[float, float], outside: str, f: Any) -> float:
    """Tanh-sinh-like oracle: adaptive Gauss-Kronrod between every kink, graded towards 0 where a root may be."""
    low, high = bounds
    graded = [sign * 10.0**-k for sign in (-1, 1) for k in range(1, 13)]
    marks = (
        -0.5,
        0.0,
        0.1,
        0.7,
        0.9,
        *graded,
        *oracle.support(),
        *oracle.ppf([1e-12, 1e-6, 0.01, 0.5, 0.99, 1 - 1e-6]),
    )
    edges = np.unique(np.clip([low, *marks, high], low, high))
    total = sum(
        integrate.quad_vec(lambda v: f(v) * oracle.pdf(v), a, b, epsabs=1e-14, epsrel=1e-11)[0]
        for a, b in itertools.pairwise(edges)
    )
    if outside == "refuse":
        return float(total / (oracle.cdf(high) - oracle.cdf(low)))
    return float(total + oracle.cdf(low) * f(low) + oracle.sf(high) * f(high))


def test_discrete_moments_are_enumerated_with_the_clamp() -> None:
    schema = Schema({"x": Bounded(0, 5)}, n=10, neighbours="change-one")
    mean, covariance = feature_moments(Poisson(rate=HALF), schema, [x], {"rate": np.array([4.0])})
    k = np.arange(200)
    p, v = stats.poisson.pmf(k, 4), np.minimum(k, 5)
    assert mean[0, 0] == pytest.approx((p * v).sum(), rel=1e-12)
    assert covariance[0, 0, 0] == pytest.approx((p * v**2).sum() - (p * v).sum() ** 2, rel=1e-12)


def test_levels_have_categorical_moments() -> None:
    schema = Schema({"g": Levels(["a", "b", "c"])}, n=10, neighbours="change-one")
    g = column("g")
    theta = {"p": np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])}
    mean, covariance = feature_moments(
        Categorical(p=stats.dirichlet([1, 1, 1])), schema, [g.equals("a"), g.equals("c")], theta
    )
    np.testing.assert_allclose(mean, theta["p"][:, [0, 2]])
    np.testing.assert_allclose(covariance[0], [[0.16, -0.06], [-0.06, 0.21]], atol=1e-15)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Normal(mean=0, sd=-1), "sd"),
        (lambda: Normal(mean=0, sd=stats.norm()), "halfnorm"),
        (lambda: Normal(mean=float("nan"), sd=1), "mean"),
        (lambda: Normal(mean="flat", sd=1), "mean"),
        (lambda: Normal(mean=True, sd=1), "mean"),
        (lambda: Normal(mean=0), "sd"),
        (lambda: Normal(mean=0, sd=1, skew=2), "skew"),
        (lambda: Normal(mean=stats.uniform(0, np.inf), sd=1), "proper"),
        (lambda: Normal(mean=0, sd=stats.poisson(3)), "discrete"),
        (lambda: Bernoulli(p=2), "p = 2"),
        (lambda: Categorical(p=[0.5, 0.6]), "sum to 1"),
        (lambda: Population(3), "scipy.stats"),
        (lambda: LocationScale(stats.t, loc=0, scale=1), "stats.t"),
        (lambda: Joint(a=3), "population"),
        (lambda: Normal(prior=stats.norm()), "normal_inverse_gamma"),
    ],
)
def test_what_is_no_population_is_refused_with_the_reason(make: Any, word: str) -> None:
    with pytest.raises(InvalidArgument, match=word):
        make()


def test_a_joint_prior_and_independent_priors_are_scored_and_drawn() -> None:
    prior = stats.normal_inverse_gamma(1.0, 2.0, 3.0, 4.0)
    population = Normal(prior=prior)
    theta = {"mean": np.array([0.5, 1.0]), "variance": np.array([2.0, -1.0])}
    log_prior = population.parameters.log_prior(theta)
    assert log_prior[0] == pytest.approx(prior.logpdf(0.5, 2.0))
    assert log_prior[1] == -np.inf
    drawn = population.parameters.sample(np.random.default_rng(), 5)
    assert set(drawn) == {"mean", "variance"}
    categorical = Categorical(p=stats.dirichlet([1, 2, 3]))
    p = np.array([[0.2, 0.3, 0.5]])
    assert categorical.parameters.log_prior({"p": p})[0] == pytest.approx(stats.dirichlet([1, 2, 3]).logpdf(p[0]))
    assert categorical.parameters.sample(np.random.default_rng(), 4)["p"].shape == (4, 3)


def test_a_population_of_one_column_does_not_describe_two() -> None:
    schema = Schema({"x": Bounded(0, 1), "y": Bounded(0, 1)}, n=3, neighbours="change-one")
    with pytest.raises(Unsupported, match="Joint"):
        feature_moments(Normal(mean=0, sd=1), schema, [x, column("y")], {})


def test_bounds_that_the_population_never_meets_are_refused_when_records_outside_were() -> None:
    schema = Schema({"x": Bounded(100, 101)}, n=3, neighbours="change-one", outside="refuse")
    population = Uniform(low=0, high=stats.uniform(1, 200))
    with pytest.raises(InvalidArgument, match="no mass inside"):
        feature_moments(population, schema, [x], {"high": np.array([3.0])})
    mean, _ = feature_moments(population, schema, [x], {"high": np.array([3.0, 150.0])})
    assert np.isnan(mean[0, 0])  # one impossible row does not stop the others
    assert mean[1, 0] == pytest.approx(100.5, rel=1e-12)


def test_a_law_that_hardly_reaches_the_bounds_is_still_truncated_to_them() -> None:
    schema = Schema({"x": Bounded(100, 101)}, n=3, neighbours="change-one", outside="refuse")
    mean, covariance = feature_moments(Normal(mean=stats.norm(), sd=1), schema, [x], {"mean": np.array([0.0, 70.0])})
    for k, centre in enumerate((0.0, 70.0)):
        # Given X > 100 the excess t has a density proportional to exp(-d t - t^2/2), nearly exponential.
        weight = lambda t, d=100 - centre: np.exp(-d * t - t**2 / 2)  # noqa: E731
        total, first, second = (
            integrate.quad_vec(lambda t, w=weight, j=j: t**j * w(t), 0, 1, epsabs=0, epsrel=1e-12)[0] for j in range(3)
        )
        assert mean[k, 0] - 100 == pytest.approx(first / total, rel=1e-9)
        assert covariance[k, 0, 0] == pytest.approx(second / total - (first / total) ** 2, rel=1e-8)


def test_a_prior_without_its_numbers_is_refused_with_the_way_out():
    histogram = stats.rv_histogram(np.histogram([1, 2, 2, 3], bins=3))
    with pytest.raises(InvalidArgument, match="brackets") as error:
        Normal(mean=histogram, sd=1)
    assert error.value.argument == "mean"
    assert Normal(mean=histogram(), sd=1).free == ("mean",)


def test_a_uniform_population_narrower_than_doubles_at_its_place_survives_its_lower_end():
    law = Uniform(low=stats.norm(), width=HALF)
    p = law.values({"low": np.array([1.0]), "width": np.array([1e-20])})
    assert np.ravel(law.distribution.survival(np.array([1.0]), p)) == [1.0]


@pytest.mark.parametrize("shape", [0.02, 0.3, 1.0, 2.5, 40.0, 3000.0])
def test_many_quantiles_of_a_gamma_law_are_those_of_scipy(shape, rng):
    """Also the first and the last of them, and where small shapes leave the range of doubles."""
    u = np.concatenate([rng.random(20_000), [1e-12, 1 - 1e-12]])
    found = Gamma(shape=stats.gamma(2), rate=2.0).quantile(u, {"shape": np.array([shape])})
    np.testing.assert_allclose(found[0], stats.gamma.ppf(u, shape, scale=0.5), rtol=1e-7, atol=1e-300)


def test_quantiles_at_the_ends_of_a_gamma_law_are_its_ends():
    u = np.linspace(0, 1, 10_001)
    found = Gamma(shape=stats.gamma(2), rate=2.0).quantile(u, {"shape": np.array([1.5])})[0]
    assert found[0] == 0
    assert found[-1] == np.inf
    np.testing.assert_allclose(found[1:-1], stats.gamma.ppf(u[1:-1], 1.5, scale=0.5), rtol=1e-9)


def test_quantiles_between_bounds_come_from_the_nearer_tail_of_each_row():
    """Rows on either side together are the rows alone, and those of the truncated law."""
    population = Exponential(rate=HALF)
    u, rates = np.linspace(0.01, 0.99, 9), np.array([0.1, 1.0, 5.0])
    both = population.quantile_between(2.0, 9.0, u, {"rate": rates})
    for k, rate in enumerate(rates):
        alone = population.quantile_between(2.0, 9.0, u, {"rate": rates[k : k + 1]})[0]
        np.testing.assert_array_equal(both[k], alone)
        np.testing.assert_allclose(alone, stats.truncexpon.ppf(u, 7 * rate, loc=2, scale=1 / rate), rtol=1e-9)


@pytest.mark.parametrize("rate", [1e-9, 0.7, 8.0, 300.0, 1e6])
def test_many_quantiles_of_a_poisson_law_are_those_of_scipy(rate, rng):
    u = np.concatenate([rng.random(20_000), [1e-12, 1 - 1e-12]])
    for at in (u, np.append(u, [0.0, 1.0])):
        found = Poisson(rate=stats.gamma(2)).quantile(at, {"rate": np.array([rate])})
        np.testing.assert_array_equal(np.ravel(found), stats.poisson.ppf(at, rate))
