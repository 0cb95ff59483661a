"""The published Monte Carlo algorithms agree with quadrature; order statistics with brute force and with limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.design.information import information
from noisewise.design.laplace_vector import laplace_vector_information
from noisewise.design.monte_carlo import MonteCarloInformation
from noisewise.errors import Unsupported
from noisewise.likelihood import normal_laplace, normal_laplace_pair
from noisewise.populations.population import Bernoulli, Normal, Poisson

x = nw.column("x")
VARIANCE = Normal(mean=0, variance=stats.uniform(0, 10))
ERRORS = 5.5  # standard errors: a false alarm below 1e-6, with room for the skewness of a squared score


def schema(n: int, low: float = -10, high: float = 10) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high)}, n=n, neighbours="change-one")


SETTINGS = [
    (1, nw.Mean(abs(x)), nw.PureDP(1), VARIANCE, {"variance": 2.0}, schema(100), True),
    (1, nw.Mean(x**2), nw.PureDP(5), VARIANCE, {"variance": 2.0}, schema(100), True),
    (1, nw.Mean(abs(x)), nw.GaussianDP(1), VARIANCE, {"variance": 2.0}, schema(100), True),
    (2, nw.Mean(abs(x)), nw.PureDP(5), VARIANCE, {"variance": 2.0}, schema(10), False),
    (2, nw.Median(abs(x)), nw.PureDP(5), VARIANCE, {"variance": 2.0}, schema(10), False),
    (2, nw.Count(x.between(1, 3)), nw.PureDP(1), Poisson(rate=stats.gamma(3)), {"rate": 2.0}, schema(10, 0, 20), False),
    (3, nw.Records(abs(x)), nw.PureDP(5), VARIANCE, {"variance": 2.0}, schema(100), False),
    (3, nw.Records(x), nw.GaussianDP(2), Bernoulli(p=stats.beta(1, 1)), {"p": 0.3}, schema(100, 0, 1), False),
    (3, nw.Records(x, cells=[-1, 1]), nw.PureDP(1), VARIANCE, {"variance": 2.0}, schema(100), False),
]


@pytest.mark.parametrize(("algorithm", "statistic", "guarantee", "population", "at", "where", "is_clt"), SETTINGS)
def test_the_published_algorithms_agree_with_the_default(
    algorithm, statistic, guarantee, population, at, where, is_clt
) -> None:
    made = nw.plan(statistic, where, guarantee=guarantee)
    engine = MonteCarloInformation(
        made, population, n=where.n, is_clt=is_clt, seed=0, draws=400, inner=8000 if algorithm == 3 else 4000
    )
    assert engine.algorithm == algorithm
    matrix, error = engine.rows({name: np.array([value]) for name, value in at.items()})
    found = information(made, population, at=at, likelihood="clt" if is_clt else "auto", seed=0)
    allowed = ERRORS * np.hypot(error[0, 0, 0], found.standard_error)
    assert abs(matrix[0, 0, 0] - found.value) < allowed
    assert error[0, 0, 0] < 0.15 * found.value  # narrow enough that a wrong answer would show


def test_few_inner_draws_overstate_the_information_and_the_comparison_notices() -> None:
    made = nw.plan(nw.Records(abs(x)), schema(100), guarantee=nw.PureDP(5))
    engine = MonteCarloInformation(made, VARIANCE, n=100, is_clt=False, seed=0, draws=2000, inner=10)
    matrix, error = engine.rows({"variance": np.array([2.0])})
    exact = information(made, VARIANCE, at={"variance": 2.0}).value
    assert matrix[0, 0, 0] - exact > ERRORS * error[0, 0, 0]


def test_monte_carlo_says_which_algorithm_it_ran_and_repeats_with_its_seed() -> None:
    made = nw.plan(nw.Mean(abs(x)), schema(100), guarantee=nw.PureDP(1))
    one, same, other = (
        information(made, VARIANCE, at={"variance": 2.0}, method="monte-carlo", likelihood="clt", seed=s, draws=100)
        for s in (1, 1, 2)
    )
    assert one.value == same.value != other.value
    assert one.method == "monte-carlo (Algorithm 1, N = 100, M = 100)"
    assert one.standard_error > 0


# ---- several components under Laplace noise ----


def test_a_pair_of_sums_under_laplace_noise_agrees_with_the_score_of_their_density() -> None:
    rng = np.random.default_rng(0)
    sigma, b = np.array([[2.0, 1.2], [1.2, 3.0]]), np.array([1.0, 2.5])
    d_mean, d_sigma = np.array([[1.0, -0.5]]), np.array([[[0.8, 0.1], [0.1, 0.6]]])
    count = 400
    y = rng.multivariate_normal([0, 0], sigma, count) + rng.laplace(size=(count, 2)) * b
    h = 1e-3

    def log_density(t: float) -> np.ndarray:
        mean = np.broadcast_to(t * d_mean[0], (count, 2))
        covariance = np.broadcast_to(sigma + t * d_sigma[0], (count, 2, 2))
        return normal_laplace_pair.log_density(y, mean=mean, covariance=covariance, scale=b)

    squares = np.square((log_density(h) - log_density(-h)) / (2 * h))
    found, error = laplace_vector_information(
        np.random.default_rng(1), covariance=sigma[None], d_mean=d_mean[None], d_covariance=d_sigma[None], scale=b
    )
    assert abs(found[0, 0, 0] - squares.mean()) < ERRORS * squares.std() / np.sqrt(count)
    assert error[0, 0, 0] < 0.02 * found[0, 0, 0]


@pytest.mark.parametrize("ratio", [0.05, 1.0, 20.0])
def test_the_remainder_is_right_whatever_the_noise(ratio: float) -> None:
    """Three independent sums: the information is the sum of three scalar ones, known by quadrature."""
    sigma, b = np.diag([1.0, 2.0, 0.5]), ratio * np.array([1.0, 1.5, 0.5])
    slope, spread = np.array([[1.0, 0.5, 0.2]]), np.diag([0.7, 1.0, 0.4])[None]
    in_mean, in_variance = normal_laplace.information(variance=np.diag(sigma), scale=b)
    expected = np.sum(slope[0] ** 2 * in_mean + np.diag(spread[0]) ** 2 * in_variance)
    found, error = laplace_vector_information(
        np.random.default_rng(2), covariance=sigma[None], d_mean=slope[None], d_covariance=spread[None], scale=b
    )
    assert abs(found[0, 0, 0] - expected) < ERRORS * error[0, 0, 0]
    assert error[0, 0, 0] < 0.03 * expected


# ---- order statistics ----


def literal_scale(values: np.ndarray, rank: int, low: float, high: float, beta: float) -> np.ndarray:
    """max_k e^(-k beta) max_t (x_(m+t) - x_(m+t-k-1)), by its definition, for sorted rows."""
    rows, n = values.shape
    padded = np.concatenate([np.full((rows, n + 1), low), values, np.full((rows, n + 1), high)], axis=1)
    at = n + rank  # where x_(m) stands
    best = np.zeros(rows)
    for k in range(n + 1):
        for t in range(k + 2):
            gap = padded[:, min(at + t, 3 * n + 1)] - padded[:, max(at + t - k - 1, 0)]
            best = np.maximum(best, np.exp(-k * beta) * gap)
    return best


@pytest.mark.parametrize("guarantee", [nw.PureDP(2), nw.ApproxDP("0.9", "0.01")])
def test_a_noisy_median_agrees_with_brute_force_over_data_sets(guarantee) -> None:
    n, blocks, each, h = 7, 10, 2000, 0.02
    made = nw.plan(nw.Median(x), schema(n, -5, 5), guarantee=guarantee)
    law, rank = made.law, 4
    z = np.random.default_rng(0).standard_normal((blocks * each, n))
    y = np.concatenate([-np.logspace(4, 1, 150), np.linspace(-9.9, 9.9, 200), np.logspace(1, 4, 150)])

    def density(mean: float) -> np.ndarray:
        values = np.sort(np.clip(mean + z, -5, 5), axis=1)
        c = literal_scale(values, rank, -5, 5, law.beta) / float(law.alpha)
        result = np.empty((blocks, y.size))
        for block, members in enumerate(np.split(np.arange(len(z)), blocks)):
            r = (y[:, None] - values[members, rank - 1]) / c[members]
            kernel = 1 / (np.pi * (1 + r * r)) if isinstance(guarantee, nw.PureDP) else 0.5 * np.exp(-np.abs(r))
            result[block] = (kernel / c[members]).mean(axis=1)
        return result

    slope, p = (density(0.5 + h) - density(0.5 - h)) / (2 * h), density(0.5)

    def estimate(kept: list[int]) -> float:
        total, count = slope[kept].sum(axis=0), len(kept)
        across = (total**2 - (slope[kept] ** 2).sum(axis=0)) / (count * (count - 1))
        mean = p[kept].mean(axis=0)
        return float(integrate.trapezoid(np.where(mean > 1e-100, across, 0.0) / np.maximum(mean, 1e-100), x=y))

    without = [estimate([j for j in range(blocks) if j != k]) for k in range(blocks)]
    error = np.sqrt((blocks - 1) / blocks * np.sum(np.square(np.array(without) - np.mean(without))))
    found = information(made, Normal(mean=stats.norm(0, 1), sd=1), at={"mean": 0.5})
    # The grid of the oracle is good to two in a thousand.
    expected = estimate(list(range(blocks)))
    assert abs(found.value - expected) < ERRORS * np.hypot(error, found.standard_error) + 0.002 * expected


def test_with_little_noise_a_median_tells_what_its_own_law_tells() -> None:
    n, rank = 21, 11
    s = np.linspace(-3, 3, 4001)

    def law(mean: float) -> np.ndarray:
        u = stats.norm.cdf(s, mean)
        return stats.beta.pdf(u, rank, n + 1 - rank) * stats.norm.pdf(s, mean)

    h = 1e-3
    slope = (law(h) - law(-h)) / (2 * h)
    limit = integrate.simpson(slope**2 / law(0), x=s)
    population = Normal(mean=stats.norm(0, 1), sd=1)
    values = [
        information(nw.plan(nw.Median(x), schema(n), guarantee=nw.PureDP(e)), population, at={"mean": 0.0}).value
        for e in (1, 10, 5000)
    ]
    assert values[0] < values[1] < values[2] < limit * 1.001
    assert values[2] == pytest.approx(limit, rel=0.02)


def test_a_discrete_order_statistic_is_refused_with_a_way_out() -> None:
    made = nw.plan(nw.Median(x), schema(10, 0, 20), guarantee=nw.PureDP(1))
    population, at = Poisson(rate=stats.gamma(3)), {"rate": 3.0}
    with pytest.raises(Unsupported, match="monte-carlo"):
        information(made, population, at=at)
    assert information(made, population, at=at, method="monte-carlo", seed=0, draws=100).value > 0
