"""The pieces of Grouped against quadrature, enumeration and draws: one group's law, sizes that add up, tents, boxes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.grouped import few_normals
from noisewise.grouped.group_sizes import CountSeen, Rest, SizeWindow, Totals, draw_sizes, log_weight
from noisewise.grouped.lines import Line
from noisewise.grouped.log_spline import LogSpline, grid_places, is_near
from noisewise.grouped.record_moments import RecordMoments, shared_moments
from noisewise.grouped.sum_law import Seen, SumLaw
from noisewise.grouped.tents import normal_masses, tent_draw
from noisewise.grouped.zoom import climbed, narrowed
from noisewise.inference.transform import Transform
from noisewise.likelihood.size_prior import SizePrior

ALARM = 1e-6
MEAN = np.array([[5.0, 29.0]])
COVARIANCE = np.array([[[4.0, 40.0], [40.0, 432.0]]])


def line(name: str, prior: object, population: object) -> Line:
    return Line(name, Transform({name: population.supports[name]}), prior)


def normal_pdf(x: float, mean: float, variance: float) -> float:
    return float(np.exp(-0.5 * (x - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance))


def test_gaussian_noise_on_two_sums_is_one_normal_law() -> None:
    law = SumLaw((Seen(0, 31.0, 3.0, 1.0, False), Seen(1, 180.0, 20.0, 1.0, False)), 2)
    for n in (0, 1, 6, 200):
        expected = stats.multivariate_normal(n * MEAN[0], n * COVARIANCE[0] + np.diag([9.0, 400.0])).logpdf([31, 180])
        assert law.log_density(np.array([n]), MEAN, COVARIANCE)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("excess", [0.0, 1e-9, -1e-9], ids=["singular", "beyond", "within"])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-7])
def test_two_sums_that_are_all_but_one_are_scored_behind_little_noise(scale: float, excess: float) -> None:
    """The determinant in whole fractions; splines may claim a covariance a little larger than the variances allow."""
    law = SumLaw((Seen(0, 31.0, scale, 1.0, False), Seen(1, 310.0 + 3 * scale, scale, 1.0, False)), 2)
    covariance = np.array([[[4.0, 40.0 * (1 + excess)], [40.0 * (1 + excess), 400.0]]])
    (found,) = law.log_density(np.array([6]), np.array([[5.0, 50.0]]), covariance)
    noise = Fraction(scale) ** 2
    c = min(Fraction(6) * Fraction(40.0 * (1 + excess)), Fraction(240))
    a, b, d, e = 24 + noise, 2400 + noise, Fraction(1), Fraction(310.0 + 3 * scale) - 300
    det = a * b - c * c
    squares = (b * d * d - 2 * c * d * e + a * e * e) / det
    expected = -0.5 * (float(squares) + math.log(det) + 2 * math.log(2 * math.pi))
    assert found == pytest.approx(expected, rel=2e-2 if scale < 1e-6 else 1e-6, abs=1e-3)


def test_two_gaussian_releases_of_one_sum_are_both_counted() -> None:
    law = SumLaw((Seen(0, 31.0, 3.0, 0.5, False), Seen(0, 27.0, 5.0, 0.25, False)), 1)
    n, mean, variance = 6, 5.0, 4.0
    both = stats.multivariate_normal([n * mean] * 2, n * variance + np.diag([9.0, 25.0]))
    found = law.log_density(np.array([n]), np.array([[mean]]), np.array([[[variance]]]))[0]
    assert found == pytest.approx(both.logpdf([31, 27]) + np.log(0.5 * 0.25), rel=1e-9)


@pytest.mark.parametrize("seen", [
    (Seen(0, 31.0, 3.0, 1.0, True),),
    (Seen(0, 31.0, 3.0, 1.0, True), Seen(0, 25.0, 6.0, 1.0, True)),
    (Seen(0, 31.0, 3.0, 1.0, True), Seen(1, 190.0, 25.0, 1.0, True)),
    (Seen(0, 31.0, 3.0, 1.0, True), Seen(1, 190.0, 25.0, 1.0, False)),
])  # fmt: skip
@pytest.mark.parametrize("n", [2, 7])
def test_laplace_noise_is_integrated_as_quadrature_does(seen: tuple[Seen, ...], n: int) -> None:
    """p = int N(u; n mu, n Sigma) prod noise(y - u) du, on a fine grid of both sums."""
    mean, covariance = n * MEAN[0], n * COVARIANCE[0]
    z = np.linspace(-8, 8, 1601)
    root = np.linalg.cholesky(covariance)
    a, b = np.meshgrid(z, z, indexing="ij")
    u = mean[:, None, None] + root[:, 0, None, None] * a + root[:, 1, None, None] * b
    weight = np.exp(-0.5 * (a**2 + b**2)) / (2 * np.pi) * (z[1] - z[0]) ** 2
    for one in seen:
        d = np.abs(one.value - u[one.feature]) / one.scale
        laplace, gauss = np.exp(-d) / (2 * one.scale), np.exp(-0.5 * d**2) / one.scale / np.sqrt(2 * np.pi)
        weight = weight * (laplace if one.is_laplace else gauss)
    found = SumLaw(seen, 2).log_density(np.array([n]), MEAN, COVARIANCE)[0]
    assert found == pytest.approx(np.log(weight.sum()), abs=2e-4)


@pytest.mark.parametrize(("n", "mean", "sd", "scale", "laplace"), [
    (2, 50.0, 12.0, (20.0, 1500.0), (True, True)),
    (3, 5.0, 3.0, (2.0, 20.0), (True, True)),
    (6, 50.0, 12.0, (10.0, 1000.0), (False, False)),
    (20, -4.0, 3.0, (8.0, 40.0), (True, False)),
    (40, 0.5, 1.0, (1.0, 3.0), (False, True)),
])  # fmt: skip
def test_few_normal_numbers_behind_little_noise_are_as_simulated_records_say(
    n: int, mean: float, sd: float, scale: tuple[float, float], laplace: tuple[bool, bool]
) -> None:
    """p(y) is the mean of the noise's density around sums of simulated records, which a normal law of them misses."""
    rng = np.random.default_rng(n)
    x = mean + sd * rng.standard_normal((200_000, n))
    sums = np.stack([x.sum(1), np.square(x).sum(1)])
    y = (float(sums[0, 0] + scale[0]), float(np.quantile(sums[1], 0.02) - scale[1]))
    density = np.ones(len(x))
    for own, value, b, is_laplace in zip(sums, y, scale, laplace, strict=True):
        density *= (stats.laplace if is_laplace else stats.norm)(scale=b).pdf(value - own)
    expected, error = density.mean(), density.std() / len(x) ** 0.5
    rows = np.array([float(n)]), np.array([mean]), np.array([sd**2])
    found = np.exp(few_normals.log_density(*rows, y, scale, laplace)[0])
    assert abs(found - expected) < 4.9 * error + 0.006 * expected
    moments = np.array([[mean, mean**2 + sd**2]])
    cross, square = 2 * mean * sd**2, 4 * mean**2 * sd**2 + 2 * sd**4
    covariance = np.array([[[sd**2, cross], [cross, square]]])
    assert few_normals.is_normal(moments, covariance)[0]
    assert not few_normals.is_normal(moments, covariance * [[1, 1], [1, 1.1]])[0]
    seen = tuple(Seen(k, y[k], scale[k], 1.0, laplace[k]) for k in range(2))
    normal = np.exp(SumLaw(seen, 2).log_density(rows[0], moments, covariance)[0])
    assert n not in (3, 6) or abs(normal - expected) > 6 * error + 0.03 * expected


def test_skewed_sums_are_those_of_few_people_behind_little_noise() -> None:
    n = np.array([0.0, 1.0, 2.0, 100.0, 200.0])
    assert few_normals.is_skewed(n, np.full(5, 144.0), 1.0).tolist() == [False, False, True, True, False]
    for noise, possible in ((500.0**2, True), (3000.0**2, False)):
        everybody = few_normals.is_skewed(np.arange(2.0, 5000.0), np.full(4998, 144.0), noise)
        assert everybody.any() == possible == few_normals.may_be_skewed(144.0, noise)


def test_a_group_of_nobody_is_noise_alone() -> None:
    law = SumLaw((Seen(0, 3.0, 2.0, 1.0, True), Seen(1, -9.0, 5.0, 1.0, True)), 2)
    expected = -3 / 2 - np.log(4) - 9 / 5 - np.log(10)
    assert law.log_density(np.array([0]), MEAN, COVARIANCE)[0] == pytest.approx(expected, rel=1e-12)


def test_three_different_laplace_sums_are_refused_in_a_sentence() -> None:
    with pytest.raises(Unsupported, match="at most two different features"):
        SumLaw(tuple(Seen(k, 0.0, 1.0, 1.0, True) for k in range(3)), 3)


SCHEMA = nw.Schema({"x": nw.Bounded(0, 10), "g": nw.Levels(["a", "b"])}, n=50, neighbours="change-one")
X = nw.column("x")


def test_one_record_has_its_own_law_clamp_included() -> None:
    population = nw.Normal(mean=stats.norm(5, 5), sd=3.0)
    moments = RecordMoments(population, SCHEMA, "x", (X, X**2), [line("mean", stats.norm(5, 5), population)])
    seen = (Seen(0, 7.0, 2.0, 1.0, True), Seen(1, 60.0, 15.0, 1.0, False))
    law = SumLaw(seen, 2)
    found = law.of_one(*moments.nodes(np.array([[8.0]]), law.marks))[0]

    def noise(x: float) -> float:
        return np.exp(-abs(7 - x) / 2) / 4 * normal_pdf(60, x * x, 225)

    inside = integrate.quad(lambda x: normal_pdf(x, 8, 9) * noise(x), 0, 10, points=[7], epsabs=1e-14)[0]
    record = stats.norm(8, 3)
    assert np.exp(found) == pytest.approx(inside + record.cdf(0) * noise(0) + record.sf(10) * noise(10), rel=1e-8)


def test_a_yes_and_no_sum_is_binomial() -> None:
    law = SumLaw((Seen(0, 4.0, 1.5, 1.0, True),), 1)
    k = np.arange(10)
    expected = logsumexp(stats.binom(9, 0.3).logpmf(k) - np.abs(4 - k) / 1.5 - np.log(3))
    assert law.of_yes_and_no(np.array([9.0]), np.array([0.3]), (0.0, 1.0))[0] == pytest.approx(expected, rel=1e-10)
    assert np.isnan(law.of_yes_and_no(np.array([1e5]), np.array([0.3]), (0.0, 1.0))[0])


def test_splines_of_moments_are_those_of_the_cleaned_record() -> None:
    population = nw.Normal(mean=stats.norm(5, 5), sd=stats.halfnorm(scale=3))
    lines = [line("mean", stats.norm(5, 5), population), line("sd", stats.halfnorm(scale=3), population)]
    moments = RecordMoments(population, SCHEMA, "x", (X, X**2), lines)
    boxes = [((2.0, 4.0), (0.0, 1.5)), ((7.0, 8.0), (-0.5, 0.5))]
    rough = moments.over(((-20.0, 30.0), (-6.0, 3.0)), (65, 49))
    made = shared_moments(moments, rough, boxes, [50.0, 2000.0], [np.zeros(2)] * 2)
    rng = np.random.default_rng(4)
    for box, own in zip(boxes, made, strict=True):
        u = np.stack([rng.uniform(low, high, 50) for low, high in box], axis=1)
        x = np.clip(u[:, :1] + np.exp(u[:, 1:]) * stats.norm.ppf((np.arange(20001) + 0.5) / 20001), 0, 10)
        mean, covariance = own.at(u)
        assert np.allclose(mean, np.stack([x.mean(1), (x**2).mean(1)], 1), rtol=2e-3)
        assert np.allclose(covariance[:, 0, 0], x.var(1), rtol=5e-3)
        assert np.allclose(covariance[:, 0, 1], (x**3).mean(1) - x.mean(1) * (x**2).mean(1), rtol=1e-2)


def test_splines_of_variances_stay_below_what_records_within_bounds_can_have(rng: np.random.Generator) -> None:
    """Far out all records are clamped and their variance is 0: a cubic in its logarithm overshot to 1e22 there."""
    population = nw.Normal(mean=stats.norm(5, 5), sd=stats.halfnorm(scale=3))
    lines = [line("mean", stats.norm(5, 5), population), line("sd", stats.halfnorm(scale=3), population)]
    box = ((-15.0, 25.0), (-7.0, 9.0))
    made = RecordMoments(population, SCHEMA, "x", (X, X**2), lines).over(box, (33, 25))
    u = np.stack([rng.uniform(low, high, 20_000) for low, high in box], axis=1)
    _, covariance = made.at(u)
    most = np.array([10.0, 100.0]) ** 2 / 4  # half of the records at either bound
    assert np.all(np.diagonal(covariance, axis1=1, axis2=2) <= 1.2 * most)


def test_sizes_are_drawn_as_enumeration_says() -> None:
    """All (n1, n2, n3) that add up to 7, with their weights, against 40000 draws (chi-squared)."""
    rng = np.random.default_rng(1)
    windows = [(np.arange(0, 8), rng.normal(0, 2, 8)), (np.arange(1, 6), rng.normal(0, 2, 5)),
               (np.arange(0, 7), rng.normal(0, 2, 7))]  # fmt: skip
    weights = {}
    for places in itertools.product(*(range(len(sizes)) for sizes, _ in windows)):
        sizes = tuple(int(window[0][k]) for window, k in zip(windows, places, strict=True))
        if sum(sizes) == 7:
            weights[sizes] = np.exp(sum(window[1][k] for window, k in zip(windows, places, strict=True)))
    drawn = draw_sizes(np.random.default_rng(2), windows, Totals.known(7), 40_000)
    assert drawn is not None
    assert (drawn.sum(axis=1) == 7).all()
    total, expected, seen = sum(weights.values()), [], []
    for sizes, weight in weights.items():
        expected.append(40_000 * weight / total)
        seen.append(int((drawn == sizes).all(axis=1).sum()))
    assert sum(seen) == 40_000
    order = np.argsort(expected)
    rare = order[np.cumsum(np.array(expected)[order]) < 20]
    merged = [k for k in range(len(expected)) if k not in rare]
    observed = [seen[k] for k in merged] + [sum(seen[k] for k in rare)]
    wanted = [expected[k] for k in merged] + [sum(expected[k] for k in rare)]
    if wanted[-1] < 5:
        observed[-2:], wanted[-2:] = [sum(observed[-2:])], [sum(wanted[-2:])]
    assert stats.chisquare(observed, wanted).pvalue > ALARM


def test_sizes_and_their_unknown_total_are_drawn_as_enumeration_says(rng: np.random.Generator) -> None:
    """All (n1, n2, n3) of up to 17 people, weighted by a prior of their sum and by shares, against 40000 draws."""
    alpha, prior = np.array([0.5, 1.5, 2.0]), SizePrior.of(stats.poisson(8), 14)
    ends = ((0, 8), (1, 6), (0, 7))
    own = [rng.normal(0, 1, high - low) for low, high in ends]
    windows = [
        (np.arange(low, high), log_weight(np.arange(low, high), a) + noise)
        for (low, high), a, noise in zip(ends, alpha, own, strict=True)
    ]
    drawn = draw_sizes(rng, windows, Totals(1, 14, prior, 4.0), 40_000)
    assert drawn is not None
    weights = {}
    for places in itertools.product(*(range(len(sizes)) for sizes, _ in windows)):
        sizes = tuple(int(window[0][k]) for window, k in zip(windows, places, strict=True))
        if 1 <= sum(sizes) <= 14:
            multinomial = math.factorial(sum(sizes)) / math.prod(map(math.factorial, sizes))
            shares = math.prod(math.gamma(k + a) for k, a in zip(sizes, alpha, strict=True)) / math.gamma(
                sum(sizes) + 4
            )
            noise = math.exp(sum(one[k] for one, k in zip(own, places, strict=True)))
            weights[sizes] = stats.poisson.pmf(sum(sizes), 8) * multinomial * shares * noise
    total = sum(weights.values())
    # Of any event the share among 40 000 draws is within .0125 of its chance, but once in a million.
    for which in range(3):
        for k in range(8):
            chance = sum(weight for sizes, weight in weights.items() if sizes[which] <= k) / total
            assert abs(float(np.mean(drawn[:, which] <= k)) - chance) < 0.015
    for n in range(1, 15):
        chance = sum(weight for sizes, weight in weights.items() if sum(sizes) <= n) / total
        assert abs(float(np.mean(drawn.sum(axis=1) <= n)) - chance) < 0.015


def test_a_window_is_summed_over_the_unknown_total() -> None:
    prior = SizePrior.of(stats.nbinom(4, 0.2), 60)
    window = SizeWindow.of((), Totals(1, 60, prior, 5.5), 1.5, 4.0)
    expected = []
    for k in window.sizes:
        n = np.arange(max(k, 1), 61)
        terms = prior.log_pmf(n) - log_weight(n, 5.5) + log_weight(n - k, 4.0)
        expected.append(np.logaddexp.reduce(terms) + log_weight(k, 1.5))
    assert np.diff(window.log_alone) == pytest.approx(np.diff(expected), abs=1e-9)


def test_sizes_that_cannot_add_up_are_told() -> None:
    assert draw_sizes(np.random.default_rng(1), [(np.arange(3), np.zeros(3))] * 2, Totals.known(9), 5) is None


def test_what_other_groups_counts_say_is_all_counts_less_ones_own() -> None:
    law = nw.plan(nw.Count(by="g"), SCHEMA, guarantee=nw.PureDP(1)).law
    counts = [tuple(CountSeen(law, 0, value, 1.0, sd) for value, sd in own)
              for own in ([(10, 2.0), (13, 1.0)], [(30, 3.0)], [(5, 4.0)])]  # fmt: skip
    rests = Rest.of_each(counts, has_tails=False)
    assert rests[0] == Rest(35.0, 25.0, has_tails=False)
    joined = (10 / 4 + 13) / 1.25  # two counts of one group, by their precisions
    assert rests[2].number == pytest.approx(joined + 30)
    assert rests[2].variance == pytest.approx(0.8 + 9)
    found = Rest.of_each([counts[0], (), counts[2]], has_tails=False)
    assert (found[0], found[2]) == (None, None)
    assert found[1].number == pytest.approx(joined + 5)


def test_a_spline_of_a_log_density_is_near_the_density_between_points() -> None:
    """A skew density of two lines, in two cases far apart in height, and one that a spline cannot hold."""

    def log(i: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return -300.0 * i - np.exp(0.7 * a) + 1.5 * a - 0.5 * (b - 0.3 * a) ** 2

    grids = [np.linspace(-4, 4, 33), np.linspace(-5, 5, 33)]
    spline = LogSpline(log(*np.meshgrid([0, 1], *grids, indexing="ij")), rows=1)
    rng = np.random.default_rng(1)
    points, case = rng.uniform(-3.9, 3.9, (200, 2)), rng.integers(0, 2, 200)
    law = log(case, *points.T)
    found = spline.at(np.column_stack([case, grid_places(points, grids)]))
    is_inner = np.abs(points).max(axis=1) < 3
    assert np.abs(found - law)[is_inner].max() < 1e-3
    assert np.abs(found - law).max() < 0.05
    assert is_near(found, law + 7.0)
    assert not is_near(found, law - 5 * np.abs(points[:, 0] - 0.13))


def test_one_size_alone_is_beta_binomial() -> None:
    window = SizeWindow.of((), Totals.known(20), 1.5, 4.0)
    found = np.exp(window.log_alone - logsumexp(window.log_alone))
    assert np.allclose(found, stats.betabinom(20, 1.5, 4.0).pmf(window.sizes), rtol=1e-9)
    assert gammaln(3) == pytest.approx(np.log(2))


@pytest.mark.parametrize("tau", [0.01, 0.3, 5.0])
def test_a_straight_density_against_a_normal_law_is_closed(tau: float) -> None:
    grid = np.linspace(-1, 2, 13)
    values = np.random.default_rng(1).uniform(0.1, 1, 13)
    found = normal_masses(grid, np.array([0.4]), np.array([tau]))[0] @ values
    z = np.linspace(-9, 9, 400_001)
    expected = np.trapezoid(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) * np.interp(0.4 + tau * z, grid, values), z)
    assert found == pytest.approx(expected, rel=1e-7)


def test_tents_are_drawn_with_the_density_they_say() -> None:
    weights = np.array([0.2, 1.0, 0.4, 0.9])
    chance = np.random.default_rng(3).random((60_000, 3))
    drawn, log_q = np.array([tent_draw(weights, 2.0, 0.5, row) for row in chance]).T
    x = np.concatenate([[1.5], 2 + 0.5 * np.arange(4), [4.0]])
    height = np.concatenate([[0], weights, [0]]) / (weights.sum() * 0.5)
    assert np.allclose(np.exp(log_q), np.interp(drawn, x, height))
    fine = np.linspace(1.5, 4, 20_001)
    upto = np.concatenate([[0], np.cumsum(np.diff(fine) * 0.5 * (np.interp(fine, x, height)[1:]
                                                               + np.interp(fine, x, height)[:-1]))])  # fmt: skip
    assert stats.kstest(drawn, lambda at: np.interp(at, fine, upto)).pvalue > ALARM


@pytest.mark.parametrize("sd", [1e-4, 0.1, 30.0])
def test_a_box_holds_a_narrow_law_in_a_wide_space(sd: float) -> None:
    centre = np.array([37.123, -2.718])

    def log_density(grids: list[np.ndarray]) -> np.ndarray:
        a, b = np.meshgrid(*grids, indexing="ij")
        return -0.5 * ((a - centre[0]) / sd) ** 2 - 0.5 * ((b - centre[1] - 0.5 * (a - centre[0])) / sd) ** 2

    whole = ((-300.0, 300.0), (-200.0, 200.0))
    box = narrowed(log_density, climbed(log_density, whole, (33, 33)), (17, 15), limits=whole)
    for (low, high), middle, wide in zip(box, centre, (sd, sd * np.sqrt(1.25)), strict=True):
        assert low < middle - 3.5 * wide
        assert high > middle + 3.5 * wide
        assert high - low < 25 * wide
