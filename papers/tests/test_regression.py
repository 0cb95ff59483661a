"""The set-up of the regression studies: the noise is that of [-1, 1], truth is the model's, all see the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.privacy.guarantee import GaussianDP, PureDP
from noisewise.statistics import Moments
from noisewise_papers.regression import (
    FAR,
    METHODS,
    STANDARDISED,
    Synthetic,
    fitted,
    plan_with_small_noise,
    release_of,
    seed_for,
)

CHEAP = ("naive", "fixed-s-fast", "non-private")


def world(n: int = 50, epsilon: float = 1.0, methods: tuple[str, ...] = CHEAP, **changes: Any) -> Synthetic:
    settings = {"d": 1, "holders": 1, "noise": "laplace", "iterations": 200}
    return Synthetic.of(n, epsilon, **(settings | changes), methods=methods)  # type: ignore[arg-type]


@pytest.mark.parametrize("guarantee", [PureDP(1), GaussianDP(1)], ids=["laplace", "gaussian"])
def test_the_noise_is_that_of_records_in_the_unit_box_and_the_release_says_what_that_is_worth(guarantee: Any) -> None:
    statistic = Moments(["x1", "x2"], "y")
    columns = {name: nw.Bounded(-1, 1) for name in ("x1", "x2", "y")}
    near = nw.plan(statistic, nw.Schema(columns, n=100, neighbours="change-one"), guarantee=guarantee)
    far = plan_with_small_noise(statistic, 100, guarantee)
    np.testing.assert_allclose(far.law.scale, near.law.scale, rtol=1e-5)  # type: ignore[union-attr]
    assert far.schema.columns["y"] == nw.Bounded(-FAR, FAR)
    # A record may now move the products by up to 400, so the same noise protects far less, and says so.
    kind = "epsilon" if isinstance(guarantee, PureDP) else "mu"
    assert float(getattr(far.guarantee, kind)) > 100


def test_a_release_is_the_sums_of_products_and_noise() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(0, 0.5, (300, 2))
    planned = plan_with_small_noise(Moments("x1", "y"), 300, PureDP(10**6))
    x, y = rows.T
    found = np.ravel(list(release_of(rng, planned, rows).estimate))
    np.testing.assert_allclose(found, [x.sum(), y.sum(), x @ x, x @ y, y @ y], atol=1e-3)


def test_truths_are_those_of_the_printed_prior() -> None:
    """Second moments of theta, sigma^2 and x by hand; 2000 draws, each statement wrong once in a million."""
    synthetic, rng, count = world(n=2), np.random.default_rng(2), 2000
    drawn = [synthetic.draw(rng) for _ in range(count)]
    theta = {name: np.array([truth.theta[name] for truth in drawn]) for name in synthetic.model.free}
    variance = stats.invgamma(20, scale=0.5)
    expected = {"intercept": 38 * variance.mean(), "x1": 38 * variance.mean()}
    away = stats.norm.isf(0.5e-6)
    for name, square in expected.items():
        assert abs(np.mean(theta[name] ** 2) - square) < away * np.std(theta[name] ** 2) / np.sqrt(count)
    assert stats.kstest(theta["noise_variance"], variance.cdf).pvalue > 1e-6
    x = np.array([truth.rows[0][0, 0] for truth in drawn])
    assert stats.kstest(x, stats.t(50, scale=np.sqrt(2 / 50)).cdf).pvalue > 1e-6  # the predictive law of one x


def test_two_thirds_of_responses_lie_in_the_box_where_the_print_says_95_percent() -> None:
    synthetic, rng, count = world(n=1), np.random.default_rng(3), 4000
    inside = sum(abs(float(synthetic.draw(rng).rows[0][0, -1])) <= 1 for _ in range(count))
    assert stats.binomtest(inside, count, 0.674).pvalue > 1e-6  # 0.674 by four million draws of other code
    assert stats.binomtest(inside, count, 0.95).pvalue < 1e-6


@pytest.mark.parametrize("name", ["normal", "uniform", "log-normal", "two-point"])
def test_covariates_of_every_law_keep_the_mean_and_the_spread_of_the_model(name: str) -> None:
    """Standardised by the moments that scipy has for each law."""
    known = {"normal": stats.norm(), "uniform": stats.uniform(), "log-normal": stats.lognorm(1)}
    z = STANDARDISED[name](np.random.default_rng(), (2000, 2)).ravel()
    if name == "two-point":
        assert set(z) == {-0.5, 2.0}  # (0 - 1/5)/(2/5) and (1 - 1/5)/(2/5)
        assert stats.binomtest(int(np.sum(z == 2)), z.size, 0.2).pvalue > 1e-6
        return
    law = known[name]
    assert stats.kstest(law.mean() + law.std() * z, law.cdf).pvalue > 1e-6


def test_covariates_that_are_not_normal_reach_the_rows() -> None:
    x = world(n=200, covariates="two-point").draw(np.random.default_rng()).rows[0][:, 0]
    assert len(np.unique(x.round(9))) == 2


def test_records_are_clamped_to_the_bound_that_is_set() -> None:
    rng = np.random.default_rng(8)
    planned = plan_with_small_noise(Moments("x1", "y"), 3, PureDP(10**6), bound=2)
    found = np.ravel(list(release_of(rng, planned, np.array([[0.0, 3.0], [-5.0, 1.0], [1.0, 1.0]])).estimate))
    np.testing.assert_allclose(found, [-1, 4, 5, -1, 6], atol=1e-3)


def test_the_non_private_posterior_is_the_conjugate_one() -> None:
    synthetic, rng = world(n=80, holders=2), np.random.default_rng(4)
    rows = np.concatenate(synthetic.draw(rng).rows)
    fit = fitted("non-private", [], rows, synthetic.model, seed=5)
    assert fit.coefficients.shape == (2000, 2)
    x, y, prior = np.column_stack([np.ones(160), rows[:, 0]]), rows[:, 1], np.eye(2) / 38
    precision = x.T @ x + prior
    mean = np.linalg.solve(precision, x.T @ y)
    rate = 0.5 + 0.5 * (y @ y - mean @ precision @ mean)
    spread = np.sqrt(rate / 100 * np.diag(np.linalg.inv(precision)))
    laws = [stats.t(2 * 100, *each) for each in zip(mean, spread, strict=True)]
    for law, draws in zip([*laws, stats.invgamma(100, scale=rate)], fit.joint.T, strict=True):
        assert stats.kstest(draws, law.cdf).pvalue > 1e-6


def test_what_a_method_finds_does_not_depend_on_who_else_is_there() -> None:
    truth = world().draw(np.random.default_rng(6))
    alone = world(methods=("naive",)).fits(truth, ("naive",), 7)
    together = world().fits(truth, CHEAP, 7)
    np.testing.assert_array_equal(alone["naive"].joint, together["naive"].joint)
    assert np.all(np.isnan(together["fixed-s-fast"].variance))  # it takes sigma^2 as known
    assert len({seed_for(7, method) for method in METHODS}) == len(METHODS)


@pytest.mark.parametrize("method", ["gibbs-noisy", "gibbs-prior", "normal-x", "fixed-s"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_every_published_method_runs_on_several_holders(method: str, noise: str) -> None:
    synthetic = world(n=200, methods=(method,), d=2, holders=2, noise=noise)
    truth = synthetic.draw(np.random.default_rng(8))
    fit = synthetic.fits(truth, (method,), 9)[method]
    assert fit.theta.shape == (4, 500 if method == "fixed-s" else 200, 3)
    assert np.all(np.isfinite(fit.joint))
    assert fit.seconds > 0
