"""Yardsticks of a regression: the records' own posterior, and output perturbation."""

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise.published.baselines.non_private_regression import non_private_regression
from noisewise.published.baselines.output_perturbation import local_sensitivity, output_perturbation, prediction
from noisewise.regression.problem import Prior

ALARM = 1e-6


def records(rng, n=40):
    x = rng.normal(0.5, 1.0, (n, 2))
    return x, 1.0 + x @ [0.5, -0.7] + 0.6 * rng.standard_normal(n)


def test_the_posterior_without_privacy_is_student_t_around_the_penalized_least_squares(rng):
    x, y = records(rng)
    prior = Prior(np.array([3.0, -2.0, 1.0]), np.diag([1.0, 2.0, 3.0]), 2.0, 1.5, is_relative=True)
    fit = non_private_regression(rng, x, y, prior=prior, draws=20_000)
    # Ridge as least squares on rows that stand for the prior: an oracle without the conjugate formulas.
    root = np.linalg.cholesky(prior.precision).T
    design = np.vstack([np.column_stack([np.ones(len(y)), x]), root])
    target = np.concatenate([y, root @ prior.mean])
    mean, squares, _, _ = np.linalg.lstsq(design, target)
    shape, rate = prior.shape + len(y) / 2, prior.rate + squares[0] / 2
    scale = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rate / shape)
    for i in range(3):
        law = stats.t(2 * shape, mean[i], scale[i])
        assert stats.kstest(fit.theta[0, :, i], law.cdf).pvalue > ALARM / 4
    assert stats.kstest(fit.variance[0], stats.invgamma(shape, scale=rate).cdf).pvalue > ALARM / 4
    forgotten = np.linalg.solve(design.T @ design, design[:-3].T @ y)  # P m left out, as one print has it
    wrong = stats.t(2 * shape, forgotten[0], scale[0])
    assert stats.kstest(fit.theta[0, :, 0], wrong.cdf).pvalue < ALARM


def test_few_records_and_other_priors_give_a_posterior_too(rng):
    x, y = records(rng, n=2)
    prior = Prior(np.zeros(3), np.eye(3), 2.0, 1.0, is_learned=True)
    fit = non_private_regression(rng, x, y, prior=prior, chains=2, draws=50)
    assert fit.theta.shape == (2, 50, 3)
    assert np.isfinite(fit.theta).all()
    assert (fit.variance > 0).all()


def test_records_that_do_not_fit_together_are_refused(rng):
    x, y = records(rng)
    prior = Prior(np.zeros(2), np.eye(2), 2.0, 1.0, is_relative=True)
    with pytest.raises(InvalidArgument, match="need 3"):
        non_private_regression(rng, x, y, prior=prior, draws=10)
    with pytest.raises(InvalidArgument, match="must agree"):
        non_private_regression(rng, x, y[1:], prior=prior, intercept=False, draws=10)


def test_the_prediction_is_that_of_least_squares(rng):
    x, y = rng.random(30), rng.random(30)
    slope, intercept = np.polyfit(x, y, 1)
    assert prediction(x, y, 0.25) == pytest.approx(intercept + 0.25 * slope, rel=1e-10)
    assert prediction(np.full(3, 0.4), np.array([0.1, 0.2, 0.6]), 0.25) == pytest.approx(0.3)


def test_the_local_sensitivity_is_the_worst_corner(rng):
    x, y = rng.beta(2, 2, 60), rng.beta(2, 2, 60)
    now = np.polyval(np.polyfit(x, y, 1), 0.25)
    moves = [abs(np.polyval(np.polyfit([*x, a], [*y, b], 1), 0.25) - now) for a in (0.0, 1.0) for b in (0.0, 1.0)]
    assert local_sensitivity(x, y, 0.25) == pytest.approx(max(moves), rel=1e-9)
    assert max(moves) > min(moves)


def test_noise_is_the_largest_sensitivity_over_epsilon_and_size(rng):
    groups = [(rng.random(n), rng.random(n)) for n in (20, 80, 446)] * 700
    done = output_perturbation(rng, groups, at=0.25, epsilon=4.0)
    assert done.chi == pytest.approx(max(len(x) * local_sensitivity(x, y, 0.25) for x, y in groups[:3]))
    scale = done.chi / (4.0 * np.array([len(x) for x, _ in groups]))
    noise = (done.published - done.exact) / scale
    assert stats.kstest(noise, stats.laplace.cdf).pvalue > ALARM
    assert stats.kstest(noise * 2, stats.laplace.cdf).pvalue < ALARM  # half the scale is seen
    assert done.noise_sd == pytest.approx(np.sqrt(2) * scale)


def test_gaussian_noise_has_the_same_spread(rng):
    groups = [(rng.random(30), rng.random(30))] * 3000
    done = output_perturbation(rng, groups, at=0.25, epsilon=1.0, law="gaussian")
    assert stats.kstest((done.published - done.exact) / done.noise_sd, stats.norm.cdf).pvalue > ALARM


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0.0}, {"epsilon": float("nan")}, {"law": "cauchy"}, {"groups": []}, {"groups": [([2.0, 1], [1, 0])]}],
)
def test_bad_settings_are_refused(rng, change):
    settings = {"groups": [([0.1, 0.9], [0.2, 0.3])], "epsilon": 1.0, "at": 0.25} | change
    with pytest.raises(InvalidArgument):
        output_perturbation(rng, **settings)
