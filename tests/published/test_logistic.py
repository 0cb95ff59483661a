"""Logistic baselines: scikit-learn's fit, the privacy of the noisy objective by its density, limits without noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from noisewise.errors import InvalidArgument
from noisewise.published.baselines.logistic import (
    discriminant,
    dp_sgd_logistic,
    non_private_logistic,
    objective_perturbation,
)

TRUTH = np.array([-0.5, 1.0, -0.7])


def records(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    return x, (rng.random(n) < expit(x @ TRUTH)).astype(float)


@pytest.mark.parametrize("prior_sd", [0.3, 2.0])
def test_without_privacy_it_is_scikit_learns(prior_sd: float) -> None:
    x, y = records(400)
    theirs = LogisticRegression(C=prior_sd**2, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(x, y)
    np.testing.assert_allclose(non_private_logistic(x, y, prior_sd=prior_sd).coefficients, theirs.coef_[0], atol=1e-5)


def test_separated_classes_have_an_answer_with_a_prior() -> None:
    x = np.column_stack([np.ones(6), np.arange(6.0)])
    fit = non_private_logistic(x, [0, 0, 0, 1, 1, 1], prior_sd=1.0)
    assert np.isfinite(fit.coefficients).all()


@pytest.mark.parametrize(("epsilon", "ridge", "n"), [(1.0, 0.05, 20), (0.2, 0.01, 30), (5.0, 0.5, 10)])
def test_the_noisy_minimiser_is_private_by_its_density(epsilon: float, ridge: float, n: int) -> None:
    """d = 1: the density of the minimiser f is that of b(f) times |db/df|; its ratio for neighbours is within e^eps.

    b(f) = -(sum of slopes of the losses) - n (L + D) f, by the condition that f is a minimiser: an oracle that knows
    nothing of how f is found. Worst neighbours: a record at either end of [-1, 1], with either class.
    """
    c, rng = 0.25, np.random.default_rng(3)
    x, y = rng.uniform(-1, 1, n), rng.choice([-1.0, 1.0], n)
    left, more = epsilon - math.log(1 + 2 * c / (n * ridge) + (c / (n * ridge)) ** 2), 0.0
    if left <= 0:
        left, more = epsilon / 2, c / (n * math.expm1(epsilon / 4)) - ridge
    f = np.linspace(-30, 30, 3001)

    def log_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        s = np.multiply.outer(f, x * y)
        b = (x * y * expit(-s)).sum(axis=1) - n * (ridge + more) * f
        slope = (x**2 * expit(s) * expit(-s)).sum(axis=1) + n * (ridge + more)
        return np.asarray(-left / 2 * np.abs(b) + np.log(slope))

    here = log_density(x, y)
    for end in (-1.0, 0.0, 1.0):
        for kind in (-1.0, 1.0):
            there = log_density(np.append(x[1:], end), np.append(y[1:], kind))
            assert np.abs(here - there).max() <= epsilon + 1e-9


def test_what_objective_perturbation_draws_solves_its_equation_and_has_that_noise() -> None:
    """The b that the minimiser belongs to has length Gamma(d, 2/e): its mean over draws, within 6 standard errors."""
    x, y = records(200)
    epsilon, ridge, radius, count = 2.0, 0.05, 3.0, 400
    rng = np.random.default_rng(7)
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), radius)
    spent = 0.25 / (200 * ridge)
    left = epsilon - math.log(1 + 2 * spent + spent**2)
    assert left > 0
    lengths = []
    for _ in range(count):
        f = objective_perturbation(rng, x, y, epsilon=epsilon, radius=radius, ridge=ridge).coefficients * radius
        b = -(unit.T @ (expit(unit @ f) - y) + 200 * ridge * f)
        lengths.append(np.linalg.norm(b))
    expected, spread = 3 * 2 / left, math.sqrt(3) * 2 / left
    assert np.mean(lengths) == pytest.approx(expected, abs=6 * spread / math.sqrt(count))


def test_with_much_budget_all_of_them_find_the_records_fit() -> None:
    x, y = records(4000)
    exact = non_private_logistic(x, y).coefficients
    rng = np.random.default_rng(2)
    noisy = objective_perturbation(rng, x, y, epsilon=1e6, radius=20.0, ridge=1e-9).coefficients
    np.testing.assert_allclose(noisy, exact, atol=1e-3)
    steps = dp_sgd_logistic(rng, x, y, epsilon=math.inf, delta=1e-5, clip=50.0, steps=800, sampling_rate=0.2)
    np.testing.assert_allclose(steps.coefficients, exact, atol=0.05)
    assert "not private" in steps.note


def test_the_discriminant_is_scikit_learns_and_noise_may_leave_none() -> None:
    x, y = records(500)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x[:, 1:], y)
    rows = x[:, 1:]
    fit = discriminant(500, rows.sum(axis=0), rows.T @ rows, y.sum(), rows.T @ y)
    np.testing.assert_allclose(fit.coefficients, [theirs.intercept_[0], *theirs.coef_[0]], rtol=1e-6)
    assert np.isnan(discriminant(500, rows.sum(axis=0), -np.eye(2), y.sum(), rows.T @ y).coefficients).all()
    assert np.isnan(discriminant(500, rows.sum(axis=0), rows.T @ rows, -3, rows.T @ y).coefficients).all()


def test_less_budget_means_more_noise_in_private_gradients() -> None:
    x, y = records(1000)

    def error(epsilon: float) -> float:
        fits = [
            dp_sgd_logistic(np.random.default_rng(k), x, y, epsilon=epsilon, delta=1e-4, clip=2.0, steps=50)
            for k in range(20)
        ]
        return float(np.mean([np.sum((fit.coefficients - TRUTH) ** 2) for fit in fits]))

    assert error(0.1) > 2 * error(10.0)


def test_bad_input_is_refused() -> None:
    x, y = records(10)
    for epsilon in (0, -1, math.nan):
        with pytest.raises(InvalidArgument):
            objective_perturbation(np.random.default_rng(1), x, y, epsilon=epsilon, radius=1.0)
    with pytest.raises(InvalidArgument, match="0 and 1"):
        non_private_logistic(x, y + 1)
    with pytest.raises(InvalidArgument, match="rows"):
        non_private_logistic(x[:3], y)
