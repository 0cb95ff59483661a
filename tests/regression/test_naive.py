"""The posterior that ignores the noise: right where there is none, and a clear sentence where it does not exist."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, exact_release, health_schema, noisy_release, records
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.diagnostics import mcse_mean
from noisewise.published.regression import naive
from noisewise.regression.problem import Problem

N, DRAWS = 200, 4000
Z = 5.2  # two-sided normal quantile at 2e-7: several comparisons a test stay at 1e-6
FEATURES = ["age", "bmi"]
CONJUGATE = nw.NormalInverseGamma(mean=[0, 1, 0], precision=[1e-3, 2e-3, 1e-3], shape=2, rate=300)


def problem_of(columns: dict[str, Any], **beliefs: Any) -> Problem:
    n = len(columns["cost"])
    plan = nw.plan(nw.Moments(FEATURES, "cost"), health_schema(n), guarantee=nw.PureDP(10**6))
    return nw.LinearRegression(FEATURES, "cost", **beliefs).problem(exact_release(plan, columns))


def sample(problem: Problem, seed: int = 1, **options: Any) -> Any:
    return naive.sample(problem, np.random.default_rng([SEED, seed]), chains=4, draws=DRAWS // 4, warmup=200, **options)


def test_without_noise_it_is_the_conjugate_posterior_of_the_records() -> None:
    """Oracle: least squares on the records with the prior appended as pseudo-records; theta is Student's t."""
    columns = records(np.random.default_rng([SEED, 1]), N)
    fit = sample(problem_of(columns, prior=CONJUGATE))
    roots = np.sqrt(np.diag(CONJUGATE.sized(3)[1]))
    x = np.vstack([np.column_stack([np.ones(N), columns["age"], columns["bmi"]]), np.diag(roots)])
    y = np.concatenate([columns["cost"], roots * CONJUGATE.mean])
    mean, rss, *_ = np.linalg.lstsq(x, y)
    shape, rate = 2 + N / 2, 300 + float(rss[0]) / 2
    spread = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * rate / shape)
    for k in range(3):
        law = stats.t(2 * shape, loc=mean[k], scale=spread[k])
        assert stats.kstest(fit.theta[..., k].ravel(), law.cdf).pvalue > 1e-6 / 4
    assert stats.kstest(fit.variance.ravel(), stats.invgamma(shape, scale=rate).cdf).pvalue > 1e-6 / 4


def test_other_priors_are_sampled_to_the_posterior_that_quadrature_finds() -> None:
    """Oracle: with theta integrated out in closed form, sigma^2 by a fine grid."""
    n = 30
    columns = records(np.random.default_rng([SEED, 2]), n)
    prior = stats.multivariate_normal([50, 2, 0], np.diag([400.0, 1.0, 4.0]))
    fit = sample(problem_of(columns, coefficients=prior, noise=stats.invgamma(2, scale=300)))
    x = np.column_stack([np.ones(n), columns["age"], columns["bmi"]])
    grid = np.exp(np.linspace(np.log(50), np.log(5000), 200))
    weights, means = [], []
    for variance in grid:
        law = stats.multivariate_normal(x @ prior.mean, x @ prior.cov @ x.T + variance * np.eye(n))
        weights.append(law.logpdf(columns["cost"]) + stats.invgamma(2, scale=300).logpdf(variance) + np.log(variance))
        precision = np.linalg.inv(prior.cov) + x.T @ x / variance
        right = np.linalg.solve(prior.cov, prior.mean) + x.T @ columns["cost"] / variance
        means.append(np.linalg.solve(precision, right))
    share = np.exp(np.array(weights) - max(weights))
    share /= share.sum()
    for drawn, expected in [
        (fit.variance, share @ grid),
        *zip(np.moveaxis(fit.theta, 2, 0), share @ means, strict=True),
    ]:
        assert abs(drawn.mean() - expected) < Z * mcse_mean(drawn)


def test_a_learned_scale_draws_small_coefficients_towards_zero() -> None:
    rng = np.random.default_rng([SEED, 3])
    x = rng.normal(size=(8, 3))
    made = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": rng.normal(size=8)}
    schema = nw.Schema({name: nw.Bounded(-8, 8) for name in made}, n=8, neighbours="change-one")
    plan = nw.plan(nw.Moments(["a", "b", "c"], "y", intercept=False), schema, guarantee=nw.PureDP(10**6))
    one = exact_release(plan, made)
    learned, wide = (
        nw.LinearRegression(["a", "b", "c"], "y", intercept=False, coefficients=prior).problem(one)
        for prior in ("learned", stats.norm(0, 1e3))
    )
    sizes = [np.square(sample(problem).theta).sum(axis=2).mean() for problem in (learned, wide)]
    assert sizes[0] < sizes[1]


def test_a_noisy_matrix_that_is_not_positive_is_a_sentence_and_can_be_projected() -> None:
    rng = np.random.default_rng([SEED, 4])
    plan = nw.plan(nw.Moments(FEATURES, "cost"), health_schema(N), guarantee=nw.PureDP(0.01))
    one = noisy_release(plan, records(rng, N), rng, dataset="a")
    problem = nw.LinearRegression(FEATURES, "cost", prior=CONJUGATE).problem(one)
    broken = replace(problem.holders[0], observed=np.where(np.diff(problem.holders[0].pairs)[:, 0] == 0, -1e6, 0.0))
    problem = replace(problem, holders=(broken,))
    with pytest.raises(Unsupported, match="marginal"):
        sample(problem)
    fit = sample(problem, project=True)
    assert np.isfinite(fit.theta).all()
    assert (fit.variance > 0).all()
    assert any("nearest" in note for note in fit.notes)


def test_a_missing_part_is_a_sentence() -> None:
    plan = nw.plan(nw.Moments(FEATURES, "cost", parts=["xx", "xy"]), health_schema(N), guarantee=nw.PureDP(10))
    one = exact_release(plan, records(np.random.default_rng([SEED, 1]), N))
    with pytest.raises(Unsupported, match="'yy'"):
        nw.infer(one, nw.LinearRegression(FEATURES, "cost"), method="naive", seed=SEED + 1)


def test_holders_add_up_whatever_their_units() -> None:
    """Two holders with other centres and scales: the same posterior as one holder with all the records."""
    halves = [records(np.random.default_rng([SEED, seed]), N) for seed in (1, 2)]
    options = [{"centre": {"age": 40, "cost": 100}}, {"scale": {"age": 12, "bmi": 4, "cost": 80}}]
    plans = [nw.plan(nw.Moments(FEATURES, "cost", **option), health_schema(N), guarantee=nw.PureDP(10**7))
             for option in options]  # fmt: skip
    apart = [exact_release(plan, half, dataset=name) for plan, half, name in zip(plans, halves, "ab", strict=True)]
    whole = {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}
    plan = nw.plan(nw.Moments(FEATURES, "cost"), health_schema(2 * N), guarantee=nw.PureDP(10**7))
    model = nw.LinearRegression(FEATURES, "cost", prior=CONJUGATE)
    found = [nw.infer(releases, model, method="naive", seed=SEED + 3, draws=1000) for releases in
             (apart, exact_release(plan, whole))]  # fmt: skip
    for name in ("intercept", "age", "bmi", "noise_variance"):
        assert found[0].mean[name] == pytest.approx(found[1].mean[name], abs=0.01 * found[1].sd[name])


def test_its_intervals_are_too_narrow_and_the_verdict_says_so() -> None:
    rng = np.random.default_rng([SEED, 5])
    columns = records(rng, 2000)
    statistic = nw.Moments(FEATURES, "cost", centre={"age": 45, "bmi": 26, "cost": 180})
    plan = nw.plan(statistic, health_schema(2000), guarantee=nw.PureDP(20))
    model = nw.LinearRegression(FEATURES, "cost")
    releases = [noisy_release(plan, columns, rng, dataset=f"d{k}") for k in range(20)]
    settings = {"method": "naive", "project": True, "draws": 100, "chains": 2, "warmup": 50}
    noisy = [nw.infer(one, model, seed=SEED + k, **settings) for k, one in enumerate(releases)]
    # The noise alone scatters the estimates by five or ten times what these posteriors claim.
    assert np.std([found.mean["age"] for found in noisy]) > 2 * np.median([found.sd["age"] for found in noisy])
    assert "privacy noise is ignored" in str(noisy[0].verdict)


def test_an_option_it_does_not_have_is_named() -> None:
    plan = nw.plan(nw.Moments(FEATURES, "cost"), health_schema(N), guarantee=nw.PureDP(10))
    one = exact_release(plan, records(np.random.default_rng([SEED, 1]), N))
    with pytest.raises(InvalidArgument, match="'shrinkage' is not an option"):
        nw.infer(one, nw.LinearRegression(FEATURES, "cost"), method="naive", shrinkage=2, seed=SEED + 1)
