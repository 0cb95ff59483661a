"""Continuous design finds the maximum that brute force finds, says what it gains, and rounds it at little cost."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, special, stats

import noisewise as nw
from noisewise.design.continuous import best_cells, best_clamp, best_exponent, best_weights
from noisewise.design.coordinates import prior_rows
from noisewise.design.information import information
from noisewise.inference.infer import infer
from noisewise.models.simulate import simulate
from noisewise.populations.population import Normal, Poisson

x = nw.column("x")
WIDE = nw.Schema({"x": nw.Bounded(-100, 100)}, n=100, neighbours="change-one")
VARIANCE = Normal(mean=0, variance=stats.uniform(0.01, 20))
MEAN = Normal(mean=stats.norm(0, 10), sd=1)
INCOMES = nw.Schema({"x": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
INCOME = Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
TYPICAL = {"mean": 50, "sd": 20}


def power_information(
    a: float, *, theta: float = 2.0, bound: float = 100.0, n: int = 100, noise_of: float = 1.0
) -> float:
    """F of mean(|x|^a) + N(0, (A^a/n)^2) about the variance of N(0, theta): a normal mean, its moments closed."""

    def moment(k: float) -> float:
        return float(theta ** (k / 2) * 2 ** (k / 2) * special.gamma((k + 1) / 2) / math.sqrt(math.pi))

    mean, variance = moment(a), moment(2 * a) - moment(a) ** 2
    total = variance / n + (bound ** (a * noise_of) / n) ** 2
    d_mean, d_variance = mean * a / (2 * theta), variance * a / theta
    return d_mean**2 / total + 0.5 * (d_variance / n / total) ** 2


def test_the_best_exponent_is_far_below_the_whole_ones_that_were_published() -> None:
    found = best_exponent("x", WIDE, VARIANCE, guarantee=nw.GaussianDP(1), at={"variance": 2})
    assert 0.18 < found.best[0] < 0.27
    assert 0.2 <= found.value <= 0.25
    assert 28 < found.gain < 32
    assert found.plan.statistic == nw.Mean(abs(x) ** found.value)
    # Among a = 1, 2, 3, 4 the absolute value is best, as Alparslan & Yıldırım (2022) say.
    gains = [gain for _, gain in found.compared]
    assert gains[0] == 1
    assert gains == sorted(gains, reverse=True)
    assert "30.3 times" in str(found)
    assert "mean(abs(x))" in str(found)


def test_the_best_exponent_is_where_brute_force_finds_it() -> None:
    found = best_exponent("x", WIDE, VARIANCE, guarantee=nw.GaussianDP(1), at={"variance": 2}, likelihood="clt")
    grid = np.arange(0.05, 4, 0.0005)
    values = np.array([power_information(a) for a in grid])
    assert found.best[0] == pytest.approx(grid[values.argmax()], abs=1e-3)
    assert math.exp(found.best_score) == pytest.approx(values.max(), rel=1e-4)
    assert found.gain == pytest.approx(power_information(float(found.value)) / power_information(1.0), rel=1e-4)
    # Noise that does not follow the exponent (sensitivity A instead of A^a) would move the maximum far away.
    planted = [power_information(a, noise_of=1 / a) for a in grid]
    assert abs(grid[int(np.argmax(planted))] - found.best[0]) > 0.5


def test_the_search_under_the_normal_law_serves_the_exact_law_too() -> None:
    few = nw.Schema({"x": nw.Bounded(-10, 10)}, n=10, neighbours="change-one")
    found = best_exponent("x", few, VARIANCE, guarantee=nw.PureDP(10), at={"variance": 2}, low="0.2", high=3)
    tried = [Fraction(k, 4) for k in range(1, 9)]
    plans = [nw.plan(nw.Mean(abs(x) ** a), few, guarantee=nw.PureDP(10)) for a in tried]
    exact = [information(p, VARIANCE, at={"variance": 2}) for p in plans]
    assert {e.likelihood for e in exact} == {"exact"}
    assert math.exp(found.score) > 0.97 * max(float(e.value) for e in exact)


def test_an_average_over_the_prior_is_an_average_over_its_fixed_draws() -> None:
    options = {"guarantee": nw.GaussianDP(1), "score": "trace", "likelihood": "clt"}
    over = best_exponent("x", WIDE, VARIANCE, **options)  # type: ignore[arg-type]
    at = best_exponent("x", WIDE, VARIANCE, at=prior_rows(VARIANCE), **options)  # type: ignore[arg-type]
    assert over.best == at.best
    assert over.score == at.score
    assert over.score == pytest.approx(float(information(over.plan, VARIANCE, likelihood="clt").value))
    point = best_exponent("x", WIDE, VARIANCE, at={"variance": 15}, **options)  # type: ignore[arg-type]
    assert point.best != over.best


def test_where_n_is_private_the_sum_is_published() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n_max=200, neighbours="add-remove")
    options = {"guarantee": nw.PureDP(1), "n": 100, "at": {"variance": 2}}
    found = best_exponent("x", schema, VARIANCE, **options)  # type: ignore[arg-type]
    assert isinstance(found.plan.statistic, nw.Sum)
    assert str(found.plan.statistic).startswith("sum(x**")


def clipped_information(left: float, right: float, *, n: int, mu: float) -> float:
    """F of mean(clip(x, l, r)) about the mean of N(0, 1) under Gaussian noise: moments by quadrature."""

    def moments(m: float) -> tuple[float, float]:
        def power(k: int) -> float:
            inner = integrate.quad(lambda v: v**k * stats.norm.pdf(v, m), left, right)[0]
            return float(inner + left**k * stats.norm.cdf(left, m) + right**k * stats.norm.sf(right, m))

        return power(1), power(2) - power(1) ** 2

    h = 1e-4
    (m1, v1), (m0, v0), (_, v) = moments(h), moments(-h), moments(0.0)
    total = v / n + ((right - left) / n / mu) ** 2
    return ((m1 - m0) / (2 * h)) ** 2 / total + 0.5 * ((v1 - v0) / (2 * h) / n / total) ** 2


def test_the_best_clamp_of_a_mean_is_symmetric_and_where_brute_force_finds_it() -> None:
    found = best_clamp(nw.Mean(x), WIDE, MEAN, guarantee=nw.GaussianDP("0.2"), at={"mean": 0})
    left, right = found.best
    assert left == pytest.approx(-right, rel=0.02)
    halves = np.arange(0.1, 2, 0.04)
    values = [clipped_information(-half, half, n=100, mu=0.2) for half in halves]
    assert right == pytest.approx(halves[int(np.argmax(values))], abs=0.05)
    assert math.exp(found.best_score) == pytest.approx(max(values), rel=1e-3)
    assert found.baseline.statistic == nw.Mean(x)
    assert found.gain > 100


def test_one_end_of_a_clamp_can_stay_where_it_was_declared() -> None:
    options = {"guarantee": nw.GaussianDP("0.2"), "at": {"mean": 125, "sd": 20}, "score": "mean"}
    high = best_clamp(nw.Mean(x), INCOMES, INCOME, side="high", **options)  # type: ignore[arg-type]
    low = best_clamp(nw.Mean(x), INCOMES, INCOME, side="low", **options)  # type: ignore[arg-type]
    both = best_clamp(nw.Mean(x), INCOMES, INCOME, **options)  # type: ignore[arg-type]
    assert high.values[0] == 0
    assert low.values[1] == 250
    # The mean is in the middle of the bounds, so one side mirrors the other.
    assert high.best[1] == pytest.approx(250 - low.best[0], abs=0.5)
    assert 1 < high.gain == pytest.approx(low.gain, rel=0.02)
    assert both.best_score > 1.2 * max(high.best_score, low.best_score)


@pytest.mark.parametrize(("epsilon", "half"), [(1, 0.0706), (2, 0.2234), (5, 0.7281), (10, 1.2244)])
def test_the_best_clamp_of_local_answers_about_a_normal_mean(epsilon: int, half: float) -> None:
    schema = nw.Schema({"x": nw.Bounded(-20, 20)}, n=1000, neighbours="change-one")
    found = best_clamp(nw.Records(x), schema, MEAN, guarantee=nw.PureDP(epsilon), at={"mean": 0}, score="mean")
    # The ridge is flat, and rounding to the lattice makes it rough at 1e-6: the place is known to two digits only.
    assert found.best == pytest.approx((-half, half), abs=2e-3)
    known = nw.plan(nw.Records(x.clip(-half, half)), schema, guarantee=nw.PureDP(epsilon))
    assert found.best_score == pytest.approx(float(information(known, MEAN, at={"mean": 0}).value), rel=1e-5)
    assert found.score > 0.99 * found.best_score


@functools.cache
def income_moments(mean: float, sd: float) -> np.ndarray:
    """Mean and covariance of (x, x^2) of a clamped income, flat: by quadrature."""

    def power(k: int) -> float:
        inner = integrate.quad(lambda v: v**k * stats.norm.pdf(v, mean, sd), 0, 250, points=[mean], limit=200)[0]
        return float(inner + 250**k * stats.norm.sf(250, mean, sd))

    e = [power(k) for k in range(1, 5)]
    return np.array([e[0], e[1], e[1] - e[0] ** 2, e[2] - e[0] * e[1], e[2] - e[0] * e[1], e[3] - e[1] ** 2])


def moment_matrix(multiple: float, *, mu: float) -> np.ndarray:
    """F of (mean x, mean x^2) of incomes about mean and sd under Gaussian noise, the second weight being a multiple."""
    n, h = 4000, 1e-3
    sigma = math.hypot(1, multiple) / mu * np.array([250, 62500 / multiple])
    slopes = [
        n * (income_moments(50 + h, 20) - income_moments(50 - h, 20)) / (2 * h),
        n * (income_moments(50, 20 + h) - income_moments(50, 20 - h)) / (2 * h),
    ]
    inverse = np.linalg.inv(n * income_moments(50, 20)[2:].reshape(2, 2) + np.diag(sigma**2))

    def entry(a: np.ndarray, b: np.ndarray) -> float:
        bends = inverse @ a[2:].reshape(2, 2) @ inverse @ b[2:].reshape(2, 2)
        return float(a[:2] @ inverse @ b[:2] + np.trace(bends) / 2)

    return np.array([[entry(a, b) for b in slopes] for a in slopes])


@pytest.mark.parametrize("score", ["logdet", "a-optimal"])
def test_the_best_weights_are_where_brute_force_finds_them(score: str) -> None:
    found = best_weights(nw.Mean(x, x**2), INCOMES, INCOME, guarantee=nw.GaussianDP(1), at=TYPICAL, score=score)
    multiples = np.exp(np.linspace(-1, 2, 61))

    def level(matrix: np.ndarray) -> float:
        return float(np.linalg.slogdet(matrix)[1] if score == "logdet" else -np.trace(np.linalg.inv(matrix)))

    levels = [level(moment_matrix(m, mu=1.0)) for m in multiples]
    assert found.best[1] / found.best[0] * 250 == pytest.approx(multiples[int(np.argmax(levels))], rel=0.06)
    assert found.best_score == pytest.approx(max(levels), abs=2e-3 * abs(max(levels)))
    assert found.gain > 1.03


@pytest.mark.parametrize(
    ("score", "gain"),
    [
        ("a-optimal", 1.11),
        pytest.param("logdet", 1.035, marks=pytest.mark.slow),
        pytest.param("sd", 1.15, marks=pytest.mark.slow),
    ],
)
def test_the_best_weights_beat_unit_range_weights_for_incomes_under_pure_privacy(score: str, gain: float) -> None:
    found = best_weights(nw.Mean(x, x**2), INCOMES, INCOME, guarantee=nw.PureDP(1), at=TYPICAL, score=score)
    assert found.gain == pytest.approx(gain, abs=0.015)
    assert found.baseline == nw.plan(nw.Mean(x, x**2), INCOMES, guarantee=nw.PureDP(1))
    assert found.plan == nw.plan(nw.Mean(x, x**2), INCOMES, guarantee=nw.PureDP(1), weights=found.values)
    assert all(isinstance(w, Fraction) and w.denominator < 10**7 for w in found.values)
    # Not an accident of the common draws: others, and more of them, agree.
    best, base = (
        information(p, INCOME, at=TYPICAL, seed=11, draws=20_000).matrix for p in (found.plan, found.baseline)
    )
    if score == "logdet":
        ratio = math.sqrt(np.linalg.det(best) / np.linalg.det(base))
    else:
        left = np.linalg.inv(base), np.linalg.inv(best)
        ratio = np.trace(left[0]) / np.trace(left[1]) if score == "a-optimal" else left[0][1, 1] / left[1][1, 1]
    assert ratio == pytest.approx(found.gain, abs=0.03)
    assert ratio > 1.01


def test_a_score_that_starves_a_component_says_so() -> None:
    found = best_weights(nw.Mean(x, x**2), INCOMES, INCOME, guarantee=nw.PureDP(1), at=TYPICAL, score="trace")
    assert "loses all its budget" in str(found)
    options = {"guarantee": nw.GaussianDP(1), "at": TYPICAL}
    three = best_weights(nw.Mean(x, x**2, x**3), INCOMES, INCOME, **options)  # type: ignore[arg-type]
    two = best_weights(nw.Mean(x, x**2), INCOMES, INCOME, **options)  # type: ignore[arg-type]
    assert "loses all its budget" in three.note
    assert not two.note
    assert three.best_score == pytest.approx(two.best_score, abs=0.01)  # the cube tells nothing more


def answer_information(edges: tuple[float, ...], epsilon: float) -> float:
    """F of one k-ary answer about the mean of N(0, 1)."""
    ends = np.array([-np.inf, *edges, np.inf])
    p, slope = np.diff(stats.norm.cdf(ends)), -np.diff(stats.norm.pdf(ends))
    k = len(p)
    truth = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    other = (1 - truth) / (k - 1)
    return float(np.sum(((truth - other) * slope) ** 2 / (other + (truth - other) * p)))


@pytest.mark.parametrize("epsilon", ["0.1", 1])
def test_at_high_privacy_the_best_question_is_the_side_of_the_mean(epsilon: object) -> None:
    found = best_cells("x", WIDE, MEAN, guarantee=nw.PureDP(epsilon), at={"mean": 3})
    assert found.best == pytest.approx((3,), abs=0.01)
    assert found.values == (3,)
    assert all(gain < 1 for _, gain in found.compared)


def test_the_best_cells_are_where_brute_force_finds_them() -> None:
    found = best_cells("x", WIDE, MEAN, guarantee=nw.PureDP(4), cells=4, at={"mean": 0})
    grid = np.arange(-2.4, 2.41, 0.2)
    values = {edges: answer_information(edges, 4.0) for edges in itertools.combinations(grid.tolist(), 3)}
    assert found.best == pytest.approx(max(values, key=lambda edges: values[edges]), abs=0.21)
    assert math.exp(found.best_score) / 100 >= max(values.values()) * (1 - 1e-6)
    assert math.exp(found.best_score) / 100 == pytest.approx(answer_information(found.best, 4.0), rel=1e-4)
    assert found.gain > 1
    assert len(found.plan.statistic.cells) == 3


def test_cells_beat_noise_on_clipped_answers_by_the_known_margins() -> None:
    for epsilon, count, margin in ((1, 2, 1.25), (5, 6, 1.40)):
        options = {"guarantee": nw.PureDP(epsilon), "at": {"mean": 0}, "score": "mean"}
        cells = best_cells("x", WIDE, MEAN, cells=count, **options)  # type: ignore[arg-type]
        noise = best_clamp(nw.Records(x), WIDE, MEAN, **options)  # type: ignore[arg-type]
        assert cells.best_score / noise.best_score == pytest.approx(margin, abs=0.02)


def test_two_unknowns_need_three_cells() -> None:
    options = {"guarantee": nw.PureDP(3), "at": TYPICAL, "score": "logdet"}
    with pytest.raises(nw.Unsupported, match="tells the unknowns mean, sd apart"):
        best_cells("x", INCOMES, INCOME, cells=2, **options)  # type: ignore[arg-type]
    found = best_cells("x", INCOMES, INCOME, cells=3, **options)  # type: ignore[arg-type]
    assert found.values[0] < 50 < found.values[1]


@pytest.mark.slow
def test_the_best_number_of_cells_leaves_out_numbers_that_tell_too_little() -> None:
    found = best_cells("x", INCOMES, INCOME, guarantee=nw.PureDP(3), at=TYPICAL, score="logdet")
    assert all(len(plan.statistic.cells) >= 2 for plan, _ in found.compared)
    assert all(gain < found.gain for _, gain in found.compared)


def test_the_baseline_of_cells_has_equal_probabilities_where_values_allow_it() -> None:
    found = best_cells("x", WIDE, MEAN, guarantee=nw.PureDP(4), cells=4, at={"mean": 0})
    assert found.baseline.statistic.cells == pytest.approx(stats.norm.ppf([0.25, 0.5, 0.75]), abs=2e-3)
    counts = nw.Schema({"x": nw.Bounded(0, 40)}, n=500, neighbours="change-one")
    found = best_cells("x", counts, Poisson(rate=stats.gamma(9)), guarantee=nw.PureDP(2), cells=3, at={"rate": 9})
    assert found.baseline.statistic.cells == pytest.approx(stats.poisson.ppf([1 / 3, 2 / 3], 9), abs=1)
    assert 1 <= found.gain < 1.5


def test_round_numbers_cost_no_more_than_was_allowed() -> None:
    for tolerance in (0.0, 0.001, 0.05):
        options = {"guarantee": nw.PureDP(2), "at": {"mean": 0}, "score": "mean", "tolerance": tolerance}
        for found in (
            best_clamp(nw.Records(x), WIDE, MEAN, **options),  # type: ignore[arg-type]
            best_cells("x", WIDE, MEAN, cells=4, **options),  # type: ignore[arg-type]
        ):
            assert found.score >= (1 - tolerance) * found.best_score * (1 - 1e-6)
            assert found.score == pytest.approx(float(information(found.plan, MEAN, at={"mean": 0}).value))
            if tolerance == 0.05:
                assert all(len(f"{value:g}") <= 5 for value in found.values)


def test_a_posterior_may_take_the_place_of_the_prior() -> None:
    first = nw.plan(nw.Mean(x.clip(-20, 20)), WIDE, guarantee=nw.GaussianDP(5), part=(0, "1/2"))
    population = Normal(mean=stats.norm(0, 10), sd=1)
    release = simulate(first, population, at={"mean": 6.0}, seed=3)
    posterior = infer(release, population, likelihood="clt", seed=1, progress=False)
    options = {"guarantee": nw.GaussianDP(1), "part": ("1/2", 1), "likelihood": "clt"}
    second = best_clamp(nw.Mean(x), WIDE, posterior, **options)  # type: ignore[arg-type]
    assert "the posterior" in second.where
    assert second.plan.part == (Fraction(1, 2), Fraction(1))
    assert second.values[0] < 6 < second.values[1]
    # Under the prior, whose sd is 10, a clamp as narrow as this would miss most of the means.
    assert second.values[1] - second.values[0] < 6


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda g: best_exponent("x", WIDE, VARIANCE, guarantee=g, low=2, high=1), "low = 2 must be less"),
        (lambda g: best_exponent("x", WIDE, VARIANCE, guarantee=g, low=-1), "low = -1"),
        (lambda g: best_exponent("x", WIDE, VARIANCE, guarantee=g, score="best"), "score = 'best'"),
        (lambda g: best_exponent("y", WIDE, VARIANCE, guarantee=g), "no column"),
        (lambda g: best_clamp(nw.Mean(x), WIDE, VARIANCE, guarantee=g, side="left"), "side = 'left'"),
        (lambda g: best_clamp(nw.Mean(x), WIDE, VARIANCE, guarantee=g, tolerance=1), "tolerance = 1"),
        (lambda g: best_clamp(nw.Median(x), WIDE, VARIANCE, guarantee=g), "best_clamp takes"),
        (lambda g: best_clamp(nw.Records(x, cells=[0]), WIDE, VARIANCE, guarantee=g), "best_clamp takes"),
        (lambda g: best_weights(nw.Mean(x), WIDE, VARIANCE, guarantee=g), "no budget to split"),
        (lambda g: best_cells("x", WIDE, VARIANCE, guarantee=g, cells=9), "cells = 9"),
        (lambda g: best_cells("x", WIDE, VARIANCE, guarantee=g, cells=True), "cells = True"),
        (lambda _: best_cells("x", WIDE, VARIANCE, guarantee=nw.GaussianDP(1)), "randomized-response"),
        (lambda g: best_cells("x", WIDE, Normal(mean=0, sd=1), guarantee=g), "Every parameter"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_reason(act: object, words: str) -> None:
    with pytest.raises(nw.NoisewiseError, match=words):
        act(nw.PureDP(1))  # type: ignore[operator]
