"""The prior of the potentials, against the laws that scipy has of it."""

import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.graphical import prior

FALSE_ALARM = 1e-6
MANY = 20_000
T, TAU_SQUARED = stats.t(4), stats.invgamma(2, scale=0.5)
TAU = np.array([0.3, 1.0, 4.0])
THETA = np.array([[0.0, -0.5], [2.0, 1e-3], [-9.0, 40.0]])


def is_the_prior(tau, theta):
    """Whether tau^2 and a potential next to tau have their laws, by Kolmogorov and Smirnov."""
    found = stats.kstest(np.square(tau), TAU_SQUARED.cdf), stats.kstest(theta[:, 0] / tau, T.cdf)
    return min(test.pvalue for test in found) > FALSE_ALARM / 2


def test_draws_have_the_declared_laws(rng):
    tau, theta = prior.draw(rng, MANY, 3)
    assert is_the_prior(tau, theta)
    assert not is_the_prior(1.1 * tau, 1.1 * theta)
    assert not is_the_prior(tau, 1.5 * theta)


def test_the_score_is_that_of_students_law():
    def log_density(theta):
        return np.sum(T.logpdf(theta / TAU[:, None]), axis=1)

    value, slope = prior.score(THETA, TAU)
    at_zero, _ = prior.score(np.zeros_like(THETA), TAU)
    np.testing.assert_allclose(value - at_zero, log_density(THETA) - log_density(np.zeros_like(THETA)), rtol=1e-12)
    for i, step in enumerate(1e-5 * np.eye(2)):
        difference = (log_density(THETA + step) - log_density(THETA - step)) / 2e-5
        np.testing.assert_allclose(slope[:, i], difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("theta", "tau"), [(0.0, 0.5), (3.0, 0.5), (-1.0, 2.0)])
def test_the_precision_is_the_mean_over_the_latent_variance(theta, tau):
    latent = stats.invgamma(2, scale=2)

    def weight(v):
        return latent.pdf(v) * stats.norm.pdf(theta, scale=tau * np.sqrt(v))

    mean = integrate.quad(lambda v: weight(v) / (tau**2 * v), 0, np.inf)[0] / integrate.quad(weight, 0, np.inf)[0]
    assert prior.precision(np.array([[theta]]), np.array([tau]))[0, 0] == pytest.approx(mean, rel=1e-6)


def test_the_width_has_its_density_on_the_log_scale():
    wanted = TAU_SQUARED.logpdf(np.square(TAU)) + np.log(2 * np.square(TAU))  # d tau^2 = 2 tau^2 d log tau
    np.testing.assert_allclose(np.diff(prior.log_width(TAU)), np.diff(wanted), rtol=1e-12)


def test_drawing_the_width_anew_leaves_the_prior_as_it_is(rng):
    tau = np.sqrt(TAU_SQUARED.rvs(MANY, random_state=rng))
    theta = tau[:, None] * T.rvs((MANY, 3), random_state=rng)
    fresh = prior.draw_width(rng, theta, tau)
    assert is_the_prior(fresh, theta)
    assert stats.spearmanr(fresh, tau).statistic < 0.95
    assert not is_the_prior(prior.draw_width(rng, 2 * theta, tau), theta)
