"""Local answers and sums of the same records: against enumeration, closed joint laws and quadrature; calibrated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.likelihood.answers_and_sums import AnswersAndSums
from noisewise.likelihood.joint import joint_likelihood

X = nw.column("x")
DATASET = "the same"


def made(plan: nw.Plan, value: list[int]) -> nw.Release:
    return nw.Release.of(plan, value, dataset=DATASET, ledger_head=None, simulated=True)


def law_of(*releases: nw.Release, population: object) -> AnswersAndSums:
    (law,) = joint_likelihood(releases, population).groups
    assert isinstance(law, AnswersAndSums)
    return law


def product_of(*releases: nw.Release, population: object, theta: dict) -> np.ndarray:
    return sum(joint_likelihood([release], population).log_likelihood(theta) for release in releases)


def level(values: np.ndarray) -> np.ndarray:
    """Without its constant: what is left is what a posterior sees."""
    return values - values.mean()


def centre_and_sd(log: np.ndarray, at: np.ndarray) -> tuple[float, float]:
    """Of the posterior on an even grid, under a flat prior."""
    weight = np.exp(log - log.max())
    mean = weight @ at / weight.sum()
    return mean, math.sqrt(weight @ np.square(at - mean) / weight.sum())


def agree(found: np.ndarray, exact: np.ndarray, wrong: np.ndarray, at: np.ndarray) -> None:
    """The posterior is the exact one but for the theorem; that of the product of both laws is too narrow."""
    (mean, sd), (own, spread), (_, narrow) = (centre_and_sd(log, at) for log in (exact, found, wrong))
    assert abs(own - mean) < 0.15 * sd  # 60 drawn cases: at most 0.034, and 0.016 below
    assert abs(spread / sd - 1) < 0.08
    assert narrow < 0.95 * sd


# ---- enumeration ----


@pytest.mark.parametrize(("counts", "published"), [((31, 17, 12), 28), ((16, 28, 16), 14), ((160, 80, 60), 145)])
def test_three_levels_and_a_count_are_as_enumeration_says(counts, published) -> None:
    """Of c_j people who answered j a binomial number is of level a: summed over all of them, every noisy count."""
    n = sum(counts)
    schema = nw.Schema({"x": nw.Levels(["a", "b", "c"])}, n=n, neighbours="change-one")
    asked = nw.plan(nw.Records("x"), schema, guarantee=nw.PureDP(2))
    counted = nw.plan(nw.Count(X.equals("a")), schema, guarantee=nw.PureDP(1))
    at = np.linspace(0.02, 0.98, 193)
    p = np.stack([at, 0.6 * (1 - at), 0.4 * (1 - at)], axis=1)
    keep, scale = float(asked.law.keep), counted.law.scale[0]
    response = np.full((3, 3), (1 - keep) / 2)
    np.fill_diagonal(response, keep)
    exact = []
    for own in p:
        q = own @ response
        log = math.lgamma(n + 1) + sum(c * math.log(v) - math.lgamma(c + 1) for c, v in zip(counts, q, strict=True))
        total = np.ones(1)
        for j, c in enumerate(counts):
            total = np.convolve(total, stats.binom(c, own[0] * response[0, j] / q[j]).pmf(np.arange(c + 1)))
        noise = np.exp(-np.abs(published - np.arange(n + 1)) / scale) * math.tanh(0.5 / scale)
        exact.append(log + math.log(total @ noise))
    releases = made(asked, list(counts)), made(counted, [published])
    population = nw.Categorical(p=stats.dirichlet([1, 1, 1]))
    law = law_of(*releases, population=population)
    found = law.log_likelihood({"p": p})
    agree(found, np.array(exact), product_of(*releases, population=population, theta={"p": p}), at)
    assert abs(np.max(found) - max(exact)) < 0.05  # the height, too: evidence is of the published numbers
    assert "given the answers, by the central limit theorem" in law.because


@pytest.mark.parametrize("guarantee", [nw.PureDP(3), nw.GaussianDP(2)])
def test_yes_and_no_with_noise_and_their_sum_are_as_enumeration_says(guarantee, rng) -> None:
    """Each person's answer leaves a chance of yes; the sum of unequal chances is built up one by one."""
    n = 80
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=n, neighbours="change-one")
    asked = nw.plan(nw.Records(X), schema, guarantee=guarantee)
    summed = nw.plan(nw.Sum(X), schema, guarantee=guarantee)
    truth = np.repeat([0.0, 1.0], [48, 32])
    b, step = asked.law.scale[0], asked.law.step[0]
    is_laplace = isinstance(guarantee, nw.PureDP)
    noise = rng.laplace(0, b, n) if is_laplace else rng.normal(0, b, n)
    answers = np.sort(np.rint((truth + noise) / step).astype(int))
    published = round(truth.sum() / summed.law.step[0])
    releases = made(asked, answers.tolist()), made(summed, [published])
    at = np.linspace(0.02, 0.98, 193)

    def log_h(residual, scale):
        if is_laplace:
            return -np.abs(residual) / scale - np.log(2 * scale)
        return stats.norm(0, scale).logpdf(residual)

    exact = []
    for own in at:
        yes, no = own * np.exp(log_h(answers * step - 1, b)), (1 - own) * np.exp(log_h(answers * step, b))
        total = np.ones(1)
        for chance in yes / (yes + no):
            total = np.convolve(total, [1 - chance, chance])
        seen = np.exp(log_h(published * summed.law.step[0] - np.arange(n + 1), summed.law.scale[0]))
        exact.append(np.log(yes + no).sum() + math.log(total @ seen))
    population = nw.Bernoulli(p=stats.uniform(0, 1))
    found = law_of(*releases, population=population).log_likelihood({"p": at})
    agree(found, np.array(exact), product_of(*releases, population=population, theta={"p": at}), at)


# ---- closed joint laws ----


@pytest.mark.parametrize("n", [6, 1500])
def test_normal_numbers_with_gaussian_noise_are_jointly_normal(n, rng) -> None:
    """Everything is normal, so the theorem is exact: sum and answers have one closed density, few or many of them."""
    schema = nw.Schema({"x": nw.Bounded(-1000, 1000)}, n=n, neighbours="change-one")
    asked = nw.plan(nw.Records(X), schema, guarantee=nw.GaussianDP(80))
    summed = nw.plan(nw.Mean(X), schema, guarantee=nw.GaussianDP(40))
    x = rng.normal(30, 12, n)
    noise, step = asked.law.scale[0], np.array([asked.law.step[0], summed.law.step[0]])
    answers = np.sort(np.rint((x + rng.normal(0, noise, n)) / step[0]).astype(int))
    published = round((x.sum() + rng.normal(0, summed.law.scale[0])) / step[1])
    population = nw.Normal(mean=stats.norm(0, 100), sd=stats.halfnorm(scale=50))
    law = law_of(made(summed, [published]), made(asked, answers.tolist()), population=population)
    theta = {"mean": np.array([25.0, 30.0, 34.0, 31.0, 29.0]), "sd": np.array([10.0, 12.0, 12.0, 20.0, 5.0])}
    found, exact = law.log_likelihood(theta), []
    y, total = answers * step[0], published * step[1]
    for mean, sd in zip(theta["mean"], theta["sd"], strict=True):
        alone = stats.norm(mean, math.hypot(sd, noise)).logpdf(y).sum() + n * math.log(step[0])
        share = sd**2 / (sd**2 + noise**2)  # of an answer's distance from the mean that is the record's
        centre, variance = np.sum(mean + share * (y - mean)), n * share * noise**2
        own = stats.norm(centre, math.sqrt(variance + summed.law.scale[0] ** 2)).logpdf(total) + math.log(step[1])
        exact.append(alone + own)
    np.testing.assert_allclose(found, exact, atol=2e-4)
    assert law.cautions == ()
    drawn = law.draw_statistic(rng, {name: np.repeat(value[1], 300) for name, value in theta.items()})
    variance = n * noise**2 * 144 / (144 + noise**2)
    share = variance / (variance + summed.law.scale[0] ** 2)
    centre = np.sum(30 + (y - 30) * 144 / (144 + noise**2))
    wanted = centre + share * (total - centre)
    sd = math.sqrt(variance * (1 - share))
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 1], rtol=1e-6)  # the mean is the answers' true mean
    assert abs(drawn[:, 0].mean() * n - wanted) < 4.9 * sd / math.sqrt(300)
    assert abs(drawn[:, 0].std() * n / sd - 1) < 4.9 / math.sqrt(2 * 300)


@pytest.mark.parametrize("guarantee", [nw.PureDP(3), nw.GaussianDP(1)])
@pytest.mark.parametrize("feature", [X, X.clip(20, 50), X**2])
def test_what_an_answer_leaves_of_its_record_is_as_quadrature_says(feature, guarantee) -> None:
    """A clamped normal record, asked for one feature and summed in two: moments given three answers, one by one."""
    schema = nw.Schema({"x": nw.Bounded(0, 60)}, n=3, neighbours="change-one")
    asked = nw.plan(nw.Records(feature), schema, guarantee=guarantee)
    summed = nw.plan(nw.Mean(X, X**2), schema, guarantee=nw.GaussianDP(1))
    step, b = asked.law.step[0], asked.law.scale[0]
    values = np.array([-0.4, 0.3, 1.2]) * (3600 if feature == X**2 else 60)
    answers = np.sort(np.rint(values / step).astype(int))
    population = nw.Normal(mean=stats.norm(0, 100), sd=15)
    law = law_of(made(asked, answers.tolist()), made(summed, [0, 0]), population=population)
    mean, sd = 45.0, 15.0
    _, centre, covariance = law.placed({"mean": np.array([mean])})

    def answered(x):
        return x if feature == X else np.clip(x, 20, 50) if feature != X**2 else x**2

    def expected(function, y):
        def at(x):
            z = (y - answered(x)) / b
            return math.exp(-abs(z) if isinstance(guarantee, nw.PureDP) else -0.5 * z * z)

        inner = math.sqrt(max(y, 0.0)) if feature == X**2 else y
        points = sorted({20.0, 50.0, min(max(inner, 1e-3), 59.9)})
        inside = [
            integrate.quad(lambda x, f=f: f(x) * at(x) * stats.norm.pdf(x, mean, sd), 0, 60, points=points, limit=300)[
                0
            ]
            for f in (function, lambda _: 1.0)
        ]
        ends = [(0.0, stats.norm.cdf(0, mean, sd)), (60.0, stats.norm.sf(60, mean, sd))]
        above = inside[0] + sum(function(x) * at(x) * w for x, w in ends)
        return above / (inside[1] + sum(at(x) * w for x, w in ends))

    wanted_mean, wanted = np.zeros(2), np.zeros((2, 2))
    for y in answers * step:
        one = np.array([expected(lambda x, k=k: x**k, y) for k in (1, 2, 3, 4)])
        wanted_mean += one[:2]
        wanted += [[one[1] - one[0] ** 2, one[2] - one[0] * one[1]], [one[2] - one[0] * one[1], one[3] - one[1] ** 2]]
    np.testing.assert_allclose(centre[0], wanted_mean, rtol=2e-4)
    np.testing.assert_allclose(covariance[0], wanted, rtol=2e-3)


def test_three_sums_with_laplace_noise_beside_answers_are_mixed_as_without(rng) -> None:
    """With next to nothing said by the answers, the law is that of the sums alone, mixing variances and all."""
    schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
    asked = nw.plan(nw.Records(X), schema, guarantee=nw.PureDP("1e-4"))
    summed = nw.plan(nw.Mean(X, X**2, X**3), schema, guarantee=nw.PureDP(2))
    population = nw.Normal(mean=stats.norm(5, 2), sd=stats.halfnorm(scale=2))
    answers = np.sort(np.rint(rng.laplace(0, asked.law.scale[0], 400) / asked.law.step[0]).astype(int))
    values = [round(400 * v / s) for v, s in zip((5.0, 27.0, 160.0), summed.law.step, strict=True)]
    law = law_of(made(asked, answers.tolist()), made(summed, values), population=population)
    (alone,) = joint_likelihood([made(summed, values)], population, likelihood="clt").groups
    assert law.mixing == alone.mixing == 3
    theta = {"mean": np.array([4.8, 5.0, 5.3]), "sd": np.array([1.2, 1.5, 1.8])}
    variances = np.abs(rng.normal(1, 0.2, (3, 3))) * 2 * alone.mixing_scale**2
    one, two = (each.log_likelihood_given(theta, variances) for each in (law, alone))
    np.testing.assert_allclose(level(one), level(two), atol=0.05)
    assert law.integrated() is not None


# ---- through infer ----


def test_joint_posteriors_are_narrower_than_either_and_wider_than_their_product(rng) -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=2000, neighbours="change-one")
    plans = [nw.plan(one, schema, guarantee=nw.PureDP(8)) for one in (nw.Mean(X), nw.Records(X))]
    population = nw.Normal(mean=stats.norm(50, 30), sd=12.0)
    x = np.clip(rng.normal(55, 12, 2000), 0, 100)
    step = [plan.law.step[0] for plan in plans]
    answers = np.sort(np.rint((x + rng.laplace(0, plans[1].law.scale[0], 2000)) / step[1]).astype(int))
    total = round((x.sum() + rng.laplace(0, plans[0].law.scale[0])) / step[0])
    releases = made(plans[0], [total]), made(plans[1], answers.tolist())
    both = nw.infer(list(releases), population, seed=1, progress=False)
    apart = [nw.infer(release, population, seed=1, progress=False).sd["mean"] for release in releases]
    product = np.sum(np.power(apart, -2.0)) ** -0.5
    assert product < 0.97 * both.sd["mean"] < both.sd["mean"] <= 1.01 * min(apart)
    assert list(both.statistic.labels) == ["mean(x)", "x"]
    assert both.check_sentence()


def test_means_and_answers_of_the_same_records_are_calibrated(rng) -> None:
    found = calibrated("cells", trials=30, n=60, seed=int(rng.integers(2**31)))
    assert found.is_calibrated(), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 1000])
@pytest.mark.parametrize("kind", ["numbers", "cells"])
def test_means_and_answers_of_the_same_records_are_calibrated_at_length(kind, n, rng) -> None:
    found = calibrated(kind, trials=300, n=n, seed=int(rng.integers(2**31)))
    assert found.is_calibrated(), found.summary()


def calibrated(kind: str, *, trials: int, n: int, seed: int):
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=n, neighbours="change-one")
    answers = nw.Records(X) if kind == "numbers" else nw.Records(X, cells=[40, 60])
    plans = [nw.plan(one, schema, guarantee=nw.PureDP(4)) for one in (nw.Mean(X), answers)]
    population = nw.Normal(mean=stats.norm(50, 12), sd=14.0)
    return nw.calibrate(plans, population, trials=trials, draws=49, seed=seed, progress=False)


def test_few_skewed_records_are_told() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=8, neighbours="change-one")
    asked = nw.plan(nw.Records(X, cells=[50]), schema, guarantee=nw.PureDP("0.1"))
    summed = nw.plan(nw.Sum(X), schema, guarantee=nw.PureDP(1000))
    population = nw.Exponential(rate=stats.gamma(4, scale=0.02))
    releases = [made(asked, [5, 3]), made(summed, [round(120 / summed.law.step[0])])]
    posterior = nw.infer(releases, population, seed=1, progress=False)
    assert "skewness" in str(posterior.verdict)


# ---- refused ----


def test_what_has_no_joint_law_with_answers_is_refused() -> None:
    columns = {"x": nw.Bounded(0, 100), "y": nw.Bounded(0, 1)}
    schema = nw.Schema(columns, n=3, neighbours="change-one")
    population = nw.Joint(x=nw.Normal(mean=stats.norm(50, 30), sd=12.0), y=nw.Uniform(low=0, high=1))
    asked = made(nw.plan(nw.Records(X), schema, guarantee=nw.PureDP(1)), [1, 2, 3])
    other = made(nw.plan(nw.Records(X, cells=[50]), schema, guarantee=nw.PureDP(1)), [1, 2])
    with pytest.raises(Unsupported, match="Two sets of answers"):
        nw.infer([asked, other], population, progress=False)
    elsewhere = made(nw.plan(nw.Mean("y"), schema, guarantee=nw.PureDP(1)), [3])
    with pytest.raises(Unsupported, match="sums that read y"):
        nw.infer([asked, elsewhere], population, progress=False)
    middle = made(nw.plan(nw.Median(X), schema, guarantee=nw.PureDP(1)), [3])
    with pytest.raises(Unsupported, match="Local answers and median"):
        nw.infer([asked, middle], population, progress=False)
