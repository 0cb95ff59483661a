"""Additive releases under the central limit theorem, against quadrature and brute force."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from made_releases import release_of
from scipy import integrate, stats

import noisewise as nw
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.populations.population import Joint, Normal, Uniform

X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(-10, 10)}, n=100, neighbours="change-one")
CENTRED = Normal(mean=0, variance=stats.uniform(0, 10))
BOTH = Normal(mean=stats.norm(0, 3), sd=stats.halfnorm(scale=3))
AT = {"mean": np.array([0.2, 0.5]), "sd": np.array([2.0, 1.5])}


def density_by_double_integral(model: NormalSum, mean: np.ndarray, covariance: np.ndarray) -> float:
    """p(y) of two components by integrating the noise out on a grid, an oracle that knows no closed form."""
    law = stats.multivariate_normal(mean, covariance)
    grids = [model.observed[j] - model.noise.scale[j] * np.linspace(-40, 40, 1501) for j in range(2)]
    u = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1)
    noise = [
        stats.laplace.pdf((model.observed[j] - grids[j]) / b) / b
        if model.noise.is_laplace[j]
        else stats.norm.pdf(model.observed[j] - grids[j], scale=b)
        for j, b in enumerate(model.noise.scale)
    ]
    values = law.pdf(u) * noise[0][:, None] * noise[1][None, :]
    return float(abs(integrate.trapezoid(integrate.trapezoid(values, grids[1], axis=1), grids[0])))


def test_the_known_posterior_of_the_mean_of_absolute_values() -> None:
    release = release_of(nw.Mean(abs(X)), SCHEMA, nw.PureDP(5), [1.2])
    theta = np.linspace(0.005, 9.995, 2000)
    log_p = NormalSum((release,), CENTRED, n=100).log_likelihood({"variance": theta})
    weight = np.exp(log_p - log_p.max())
    mean = np.average(theta, weights=weight)
    sd = np.sqrt(np.average((theta - mean) ** 2, weights=weight))
    assert (round(mean, 4), round(sd, 4)) == (2.3617, 0.3919)


@pytest.mark.parametrize(
    ("statistics", "guarantees"),
    [
        ((nw.Mean(X, X**2),), (nw.PureDP(5),)),
        ((nw.Mean(X), nw.Mean(X**2)), (nw.PureDP(5), nw.PureDP(2))),
        ((nw.Mean(X), nw.Mean(X**2)), (nw.PureDP(5), nw.GaussianDP(1))),
        ((nw.Mean(X), nw.Mean(X**2)), (nw.GaussianDP(2), nw.GaussianDP(1))),
    ],
    ids=["one-vector", "two-laplace", "laplace-and-gaussian", "two-gaussian"],
)
def test_two_components_equal_the_double_integral_over_their_noise(statistics, guarantees) -> None:
    values = [[0.3, 4.5]] if len(statistics) == 1 else [[0.3], [4.5]]
    releases = tuple(release_of(s, SCHEMA, g, v) for s, g, v in zip(statistics, guarantees, values, strict=True))
    model = NormalSum(releases, BOTH, n=100)
    mean, covariance = model.moments(AT)
    found = model.log_likelihood(AT)
    for k in range(2):
        expected = np.log(density_by_double_integral(model, mean[k], covariance[k])) + np.log(model.noise.step).sum()
        assert found[k] == pytest.approx(expected, abs=2e-3)


def test_the_moments_are_those_of_clamped_records() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=50, neighbours="change-one")
    model = NormalSum((release_of(nw.Sum(X), schema, nw.PureDP(1), [20.0]),), BOTH, n=50)
    rng = np.random.default_rng(1)
    x = np.clip(rng.normal(0.8, 0.6, 2_000_000), 0, 1)
    mean, covariance = model.moments({"mean": np.array([0.8]), "sd": np.array([0.6])})
    assert mean[0, 0] == pytest.approx(50 * x.mean(), abs=50 * 6 * x.std() / np.sqrt(x.size))
    assert covariance[0, 0, 0] == pytest.approx(50 * x.var(), rel=0.01)


@pytest.mark.parametrize("guarantee", [nw.PureDP(5), nw.GaussianDP(1)], ids=["laplace", "gaussian"])
def test_the_score_is_the_slope_of_the_log_likelihood(guarantee: object) -> None:
    model = NormalSum((release_of(nw.Mean(abs(X)), SCHEMA, guarantee, [1.2]),), CENTRED, n=100)
    h = 1e-4
    theta = np.array([0.5, 2.0, 6.0])
    slope = (model.log_likelihood({"variance": theta + h}) - model.log_likelihood({"variance": theta - h})) / (2 * h)
    assert model.score({"variance": theta})["variance"] == pytest.approx(slope, rel=1e-5)


def test_the_confidential_sum_given_theta_has_its_own_law() -> None:
    model = NormalSum((release_of(nw.Mean(abs(X)), SCHEMA, nw.PureDP(5), [1.2]),), CENTRED, n=100)
    rows = 20_000
    drawn = 100 * model.draw_statistic(np.random.default_rng(2), {"variance": np.full(rows, 2.0)})[:, 0]
    mean, variance = (float(m.ravel()[0]) for m in model.moments({"variance": np.array([2.0])}))
    grid = np.linspace(mean - 9 * variance**0.5, mean + 9 * variance**0.5, 40_001)
    weight = stats.norm.pdf(grid, mean, variance**0.5) * np.exp(-abs(model.observed[0] - grid) / model.noise.scale[0])
    cdf = np.cumsum(weight) / weight.sum()
    uniform = np.interp(drawn, grid, cdf)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-6


def test_the_confidential_sums_of_a_vector_have_the_moments_of_their_own_law() -> None:
    release = release_of(nw.Mean(X, X**2), SCHEMA, nw.PureDP(20), [0.3, 4.5])
    model = NormalSum((release,), BOTH, n=100)
    rows = 20_000
    at = {"mean": np.full(rows, 0.2), "sd": np.full(rows, 2.0)}
    drawn = 100 * model.draw_statistic(np.random.default_rng(3), at)
    mean, covariance = (m[0] for m in model.moments({"mean": np.array([0.2]), "sd": np.array([2.0])}))
    rng = np.random.default_rng(4)
    proposal = rng.multivariate_normal(mean, covariance, 400_000)
    log_w = -np.abs((model.observed - proposal) / model.noise.scale).sum(axis=1)
    w = np.exp(log_w - log_w.max())
    expected = np.average(proposal, axis=0, weights=w)
    size = 1 / (1 / rows + (w**2).sum() / w.sum() ** 2)
    error = np.sqrt(np.average((proposal - expected) ** 2, axis=0, weights=w) / size)
    assert np.all(np.abs(drawn.mean(axis=0) - expected) < 6 * error)


def test_mixing_variances_average_to_the_laplace_likelihood() -> None:
    """The scale mixture of three components, integrated by plain Monte Carlo, is the likelihood under Laplace noise."""
    release = release_of(nw.Mean(X, X**2, abs(X)), SCHEMA, nw.PureDP(5), [0.3, 4.5, 1.6])
    model = NormalSum((release,), BOTH, n=100)
    assert model.mixing == 3
    rng = np.random.default_rng(5)
    count = 200_000
    one = {name: np.full(count, value[0]) for name, value in AT.items()}
    variances = 2 * model.mixing_scale**2 * rng.standard_exponential((count, 3))
    mixed = np.exp(model.log_likelihood_given({k: v[:1] for k, v in one.items()}, variances))
    mean, covariance = (m[0] for m in model.moments({k: v[:1] for k, v in one.items()}))
    u = rng.multivariate_normal(mean, covariance, count)
    direct = np.exp(model.noise.log_density(model.observed - u) + np.log(model.noise.step).sum())
    error = np.sqrt(mixed.var() / count + direct.var() / count)
    assert abs(mixed.mean() - direct.mean()) < 5 * error
    assert error < 0.05 * direct.mean()


def test_cells_of_a_table_are_features_that_add_up_to_one() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=60, neighbours="change-one")
    release = release_of(nw.Histogram("x", edges=[0.25, 0.5]), schema, nw.PureDP(1), [20, 20, 20])
    model = NormalSum((release,), Uniform(low=0, high=stats.uniform(0.6, 0.4)), n=60)
    mean, covariance = model.moments({"high": np.array([0.8])})
    assert mean[0] == pytest.approx([60 * 0.25 / 0.8, 60 * 0.25 / 0.8, 60 * 0.3 / 0.8])
    assert covariance[0].sum() == pytest.approx(0, abs=1e-9)
    assert Fraction(1) == release.weights[0]


def test_independent_columns_are_blocks_whose_densities_multiply() -> None:
    bounds = {name: nw.Bounded(-3, 3) for name in "abc"}
    schema = nw.Schema(bounds, n=40, neighbours="change-one")
    a, b, c = (nw.column(name) for name in "abc")
    population = Joint(**{name: Normal(mean=stats.norm(), sd=1) for name in "abc"})
    together = release_of(nw.Mean(a, b, a**2, c), schema, nw.PureDP(8), [0.2, -0.1, 1.1, 0.3])
    model = NormalSum((together,), population, n=40)
    assert sorted(block.tolist() for block in model.blocks) == [[0, 2], [1], [3]]
    assert model.mixing == 0
    theta = {f"{name}.mean": np.array([0.1, 0.4]) for name in "abc"}
    mean, covariance = model.moments(theta)
    expected = np.log(model.noise.step).sum()
    for index in (1, 3):
        u = np.linspace(-40, 40, 40_001)
        law = stats.norm.pdf(u, mean[0, index], covariance[0, index, index] ** 0.5)
        scale = model.noise.scale[index]
        expected += np.log(integrate.trapezoid(law * stats.laplace.pdf(model.observed[index] - u, scale=scale), u))
    pair = NormalSum.__new__(NormalSum)
    pair.observed, pair.noise = (
        model.observed[[0, 2]],
        model.noise.__class__(model.noise.is_laplace[[0, 2]], model.noise.scale[[0, 2]], model.noise.step[[0, 2]]),
    )
    expected += np.log(density_by_double_integral(pair, mean[0][[0, 2]], covariance[0][np.ix_([0, 2], [0, 2])]))
    assert model.log_likelihood(theta)[0] == pytest.approx(expected, abs=2e-3)
