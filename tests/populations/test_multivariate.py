"""Columns that are normal together, through the clamp and the truncation, against Price's theorem and quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.cleaned import cell_probabilities, records_from_base, row_moments, sample_records
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.population import AnyPopulation, Joint, Normal
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Count, Histogram, Records, column

a, b, c = column("a"), column("b"), column("c")
FALSE_ALARM = 1e-6
HALF = stats.halfnorm()
PAIR = MultivariateNormal(
    columns=["a", "b"], mean=[stats.norm(), 0.5], sd=[HALF, 1.0], correlation=stats.uniform(-1, 2)
)
THETA = {"a.mean": np.array([0.3, -1.0]), "a.sd": np.array([1.5, 0.7]), "correlation": np.array([0.6, -0.8])}
MATRIX = np.array([[1.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 1.0]])
TRIPLE = MultivariateNormal(columns=["a", "b", "c"], mean=[stats.norm(), 0, 1], sd=[1, 2, 0.5], correlation=MATRIX)
BOUNDS = {"a": (-1.0, 2.0), "b": (-0.5, 1.5), "c": (0.4, 3.0)}


def schema(outside: str = "clamp", names: str = "abc", **bounds: tuple[float, float]) -> Schema:
    columns = {name: Bounded(*{**BOUNDS, **bounds}[name]) for name in names}
    return Schema(columns, n=10, neighbours="change-one", outside=outside)


def both_inside(mean: Any, sd: Any, rho: float) -> float:
    """P(both raw records inside their bounds), by scipy's bivariate cdf."""
    law = stats.multivariate_normal(mean, [[sd[0] ** 2, rho * sd[0] * sd[1]], [rho * sd[0] * sd[1], sd[1] ** 2]],
                                    abseps=1e-12, releps=1e-12, maxpts=10**6)  # fmt: skip
    (low_a, high_a), (low_b, high_b) = BOUNDS["a"], BOUNDS["b"]
    return float(
        law.cdf([high_a, high_b]) - law.cdf([low_a, high_b]) - law.cdf([high_a, low_b]) + law.cdf([low_a, low_b])
    )


def clamped_covariance(mean: Any, sd: Any, rho: float) -> float:
    """Price's theorem: d Cov(clamp A, clamp B)/d rho = sd_a sd_b P_rho(both inside), and Cov = 0 at rho = 0."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    slopes = [both_inside(mean, sd, r) for r in rho / 2 * (nodes + 1)]
    return float(rho / 2 * np.dot(weights, slopes) * sd[0] * sd[1])


def test_clamped_covariance_is_prices() -> None:
    mean, covariance = row_moments(PAIR, schema(), [a, b], THETA)
    margins, alone = row_moments(Joint(**PAIR.columns), schema(), [a, b], THETA)
    np.testing.assert_allclose(mean, margins, atol=1e-8)
    for k in range(2):
        assert covariance[k, 0, 0] == pytest.approx(alone[k, 0, 0], rel=1e-7)
        expected = clamped_covariance([THETA["a.mean"][k], 0.5], [THETA["a.sd"][k], 1.0], THETA["correlation"][k])
        assert covariance[k, 0, 1] == pytest.approx(expected, rel=1e-6)
        ignoring_the_clamp = THETA["correlation"][k] * THETA["a.sd"][k]  # planted: it would be caught
        assert abs(ignoring_the_clamp - expected) > 1e-2


def test_without_a_clamp_the_moments_are_those_of_the_normal() -> None:
    wide = schema(a=(-60, 60), b=(-60, 60), c=(-60, 60))
    mean, covariance = row_moments(PAIR, wide, [a, b, a * b, (a - b).between(0, 1)], THETA)
    for k in range(2):
        m, s, rho = THETA["a.mean"][k], THETA["a.sd"][k], THETA["correlation"][k]
        assert covariance[k, 0, 1] == pytest.approx(rho * s, rel=1e-8)
        assert mean[k, 2] == pytest.approx(rho * s + 0.5 * m, rel=1e-8)
        isserlis = s**2 * (1 + rho**2) + m**2 + 0.25 * s**2 + 2 * 0.5 * m * rho * s
        assert covariance[k, 2, 2] == pytest.approx(isserlis, rel=1e-8)
        difference = stats.norm(m - 0.5, np.sqrt(s**2 + 1 - 2 * rho * s))
        assert mean[k, 3] == pytest.approx(difference.cdf(1) - difference.cdf(0), rel=1e-6)


def truncated_moments(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Moments of (a, b) truncated to the box: a tensor Gauss-Legendre rule of the joint density."""
    m, s, rho = THETA["a.mean"][k], THETA["a.sd"][k], THETA["correlation"][k]
    unit, w = np.polynomial.legendre.leggauss(120)
    (al, ah), (bl, bh) = BOUNDS["a"], BOUNDS["b"]
    grid = np.stack(
        np.meshgrid((al + ah) / 2 + (ah - al) / 2 * unit, (bl + bh) / 2 + (bh - bl) / 2 * unit, indexing="ij"), -1
    )
    weight = np.outer(w, w) * stats.multivariate_normal([m, 0.5], [[s**2, rho * s], [rho * s, 1]]).pdf(grid)
    weight /= weight.sum()
    mean = np.einsum("ij,ijd->d", weight, grid)
    return mean, np.einsum("ij,ijd,ije->de", weight, grid - mean, grid - mean)


def test_truncated_moments_are_those_of_the_box() -> None:
    mean, covariance = row_moments(PAIR, schema("refuse", "ab"), [a, b], THETA)
    alone, _ = row_moments(PAIR, schema("refuse", "ab"), [a], THETA)
    for k in range(2):
        expected, spread = truncated_moments(k)
        np.testing.assert_allclose(mean[k], expected, atol=1e-7)
        np.testing.assert_allclose(covariance[k], spread, atol=1e-7)
        assert alone[k, 0] == pytest.approx(expected[0], abs=1e-7)  # truncating b moves a as well
    margin, _ = row_moments(Joint(**PAIR.columns), schema("refuse", "ab"), [a], THETA)
    assert np.min(np.abs(margin - alone)) > 1e-3


THREE = {"a.mean": np.array([0.2, -0.6])}


def test_three_columns_taken_in_pairs_agree_with_the_bank() -> None:
    features = [a, b**2, c.clip(0.5, 2), abs(a)]
    mean, covariance = row_moments(TRIPLE, schema(), features, THREE)
    banked_mean, banked = row_moments(TRIPLE, schema(), [*features, a * b * c], THREE)
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    np.testing.assert_allclose(mean, banked_mean[:, :4], atol=1e-3)
    assert np.max(np.abs(covariance - banked[:, :4, :4]) / (spread[:, :, None] * spread[:, None, :])) < 2e-3
    pair, _ = row_moments(PAIR, schema(), [a, b], THETA)
    assert pair.shape == (2, 2)


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_moments_of_three_columns_match_draws(outside: str) -> None:
    n, features = 60_000, [a, b, c, a * b * c, (a + b + c).between(0, 2)]
    mean, covariance = row_moments(TRIPLE, schema(outside), features, THREE)
    drawn = sample_records(np.random.default_rng(), TRIPLE, schema(outside), n, THREE, "abc")
    for name, (low, high) in BOUNDS.items():
        assert drawn[name].min() >= low
        assert drawn[name].max() <= high
    values = np.stack([f.value(drawn, schema(outside)) for f in features], axis=-1)
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    # The bank adds its own error, at most 1e-3 of the spread, to that of the draws.
    limit = stats.norm.isf(FALSE_ALARM / 2 / mean.size) / np.sqrt(n) + 1e-3
    assert np.max(np.abs(values.mean(axis=1) - mean) / spread) < limit
    other, _ = row_moments(TRIPLE, schema("refuse" if outside == "clamp" else "clamp"), features, THREE)
    assert np.max(np.abs(values.mean(axis=1) - other) / spread) > limit


def test_cells_of_two_columns_are_bivariate_probabilities() -> None:
    both = Count(a.between(0, 1) * b.between(0, 1))
    p = cell_probabilities(PAIR, schema(), both, THETA)[:, 1]
    histogram = cell_probabilities(PAIR, schema(), Histogram(a, [0, 1]), THETA)
    truncated = cell_probabilities(PAIR, schema("refuse", "ab"), both, THETA)[:, 1]
    sums = cell_probabilities(PAIR, schema(a=(-60, 60), b=(-60, 60)), Records(a + b, cells=[0, 1]), THETA)
    for k in range(2):
        m, s, rho = THETA["a.mean"][k], THETA["a.sd"][k], THETA["correlation"][k]
        law = stats.multivariate_normal([m, 0.5], [[s**2, rho * s], [rho * s, 1]], abseps=1e-12, releps=1e-12)
        expected = law.cdf([1, 1]) - law.cdf([0, 1]) - law.cdf([1, 0]) + law.cdf([0, 0])
        assert p[k] == pytest.approx(expected, abs=1e-7)
        assert truncated[k] == pytest.approx(expected / both_inside([m, 0.5], [s, 1.0], rho), abs=1e-7)
        margin = stats.norm(m, s)
        np.testing.assert_allclose(
            histogram[k], [margin.cdf(0), margin.cdf(1) - margin.cdf(0), margin.sf(1)], atol=1e-12
        )
        total = stats.norm(m + 0.5, np.sqrt(s**2 + 1 + 2 * rho * s))
        np.testing.assert_allclose(sums[k], [total.cdf(0), total.cdf(1) - total.cdf(0), total.sf(1)], atol=1e-6)


def test_base_draws_give_correlated_records() -> None:
    n = 20_000
    rng = np.random.default_rng()
    u = {"a": rng.random((2, n // 2)), "b": rng.random((2, n // 2))}
    made = records_from_base(PAIR, schema(a=(-60, 60), b=(-60, 60)), u, THETA, "ab")
    assert made["a"].shape == (2, 2, n // 2)
    for k in range(2):
        found = np.corrcoef(made["a"][k].ravel(), made["b"][k].ravel())[0, 1]
        z = (np.arctanh(found) - np.arctanh(THETA["correlation"][k])) * np.sqrt(n - 3)  # Fisher
        assert abs(z) < stats.norm.isf(FALSE_ALARM / 4)
    with pytest.raises(Unsupported, match="base draws"):
        records_from_base(PAIR, schema("refuse", "ab"), u, THETA, "ab")


def test_every_population_answers_the_same_questions() -> None:
    normal = Normal(mean=stats.norm(), sd=HALF)
    populations: list[tuple[AnyPopulation, tuple[str, ...]]] = [
        (normal, ("mean", "sd")),
        (Joint(a=normal, b=Normal(mean=0, sd=HALF)), ("a.mean", "a.sd", "b.sd")),
        (PAIR, ("a.mean", "a.sd", "correlation")),
        (Joint(a=Normal(mean=0, sd=1)), ()),
    ]
    for population, free in populations:
        assert population.free == free == tuple(population.supports)
        theta = population.sample_prior(np.random.default_rng(), 3)
        assert set(theta) == set(free)
        assert all(values.shape == (3,) for values in theta.values())
        priors = {"mean": stats.norm(), "sd": HALF, "correlation": stats.uniform(-1, 2)}
        expected = sum(
            (priors[name.rsplit(".")[-1]].logpdf(theta[name]) for name in free), start=np.zeros(3 if free else 1)
        )
        np.testing.assert_allclose(population.log_prior(theta), expected)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"columns": ["a"]}, "two different"),
        ({"columns": ["a", "a"]}, "two different"),
        ({"columns": "ab"}, "two different"),
        ({"mean": [0]}, "mean must list"),
        ({"mean": 0}, "mean must list"),
        ({"sd": [1, -1]}, "sd"),
        ({"correlation": 1.0}, "strictly between"),
        ({"correlation": 2.0}, "correlation"),
        ({"correlation": "high"}, "correlation"),
        ({"correlation": stats.norm()}, "correlation"),
        ({"correlation": [[1, 0.5], [0.4, 1]]}, "symmetric"),
        ({"correlation": [[1, 1], [1, 1]]}, "positive definite"),
        ({"columns": list("abc"), "mean": [0] * 3, "sd": [1] * 3}, "known 3 x 3 matrix"),
    ],
)
def test_what_is_no_multivariate_normal_is_refused_with_the_reason(changes: dict[str, Any], word: str) -> None:
    arguments = {"columns": ["a", "b"], "mean": [0, 0], "sd": [1, 1], "correlation": 0.5, **changes}
    with pytest.raises(InvalidArgument, match=word):
        MultivariateNormal(**arguments)
