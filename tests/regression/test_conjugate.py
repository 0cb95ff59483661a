"""Parameters given moments: the conjugate laws against closed forms, quadrature and the prior itself."""

import math

import numpy as np
import pytest
from regression_worlds import draw_rows
from scipy import stats

from noisewise.regression import conjugate
from noisewise.regression.loadings import beliefs
from noisewise.regression.problem import NormalX, Prior, Problem

ALARM = 1e-6


def believed(prior, d, intercept, **x):
    normal = NormalX(np.full(d, 0.4) * intercept, 3.0, (d + 3.0) * np.eye(d) + 0.5, d + 6.0)
    return beliefs(Problem((), prior, normal, intercept)), normal


def moments(rng, d, n, intercept, block=1):
    theta = rng.standard_normal(d + intercept)
    rows = draw_rows(rng, n * block, theta, 0.7, np.full(d, 0.5) * intercept, np.eye(d) + 0.3, intercept)
    rows = rows.reshape(n, block, -1).sum(1) / math.sqrt(block)
    return rows.T @ rows, rows


def draws_of(rng, total, n, priors, count, thin=1):
    theta, scales = np.zeros(len(priors.mean)), np.ones(2)
    kept = np.empty((count, len(theta) + 2))
    for i in range(count * thin + 50):
        assert conjugate.draw_coefficients(rng, total, n, priors, theta, scales)
        if i >= 50 and i % thin == 0:
            kept[(i - 50) // thin] = [*theta, *scales]
    return kept[:, : len(theta)], kept[:, -2], kept[:, -1]


@pytest.mark.parametrize("intercept", [False, True])
def test_a_relative_prior_gives_student_t_coefficients_and_an_inverse_gamma_variance(rng, intercept):
    d, n, q = 2, 25, 2 + intercept
    prior = Prior(np.linspace(4.0, 6.0, q), np.diag(np.arange(9.0, q + 9)) + 0.2, 2.0, 1.5, is_relative=True)
    total, rows = moments(rng, d, n, intercept)
    priors, _ = believed(prior, d, intercept)
    theta, variance, _ = draws_of(rng, total, n, priors, 6000)
    root = np.linalg.cholesky(prior.precision).T  # the prior as q rows more of data
    design, target = np.vstack([rows[:, :q], root]), np.concatenate([rows[:, q], root @ prior.mean])
    mean, squares, _, _ = np.linalg.lstsq(design, target)
    shape, rate = prior.shape + n / 2, prior.rate + squares[0] / 2
    sd = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rate / shape)
    for i in range(q):
        assert stats.kstest((theta[:, i] - mean[i]) / sd[i], stats.t(2 * shape).cdf).pvalue > ALARM
    assert stats.kstest(variance, stats.invgamma(shape, scale=rate).cdf).pvalue > ALARM
    # The print's m_N, without P m, would be seen; so would a rate b_N that is off by 30 %.
    forgotten = np.linalg.solve(design.T @ design, rows[:, :q].T @ rows[:, q])
    assert stats.kstest((theta[:, 0] - forgotten[0]) / sd[0], stats.t(2 * shape).cdf).pvalue < ALARM
    assert stats.kstest(variance * 1.3, stats.invgamma(shape, scale=rate).cdf).pvalue < ALARM


def test_an_absolute_prior_agrees_with_quadrature(rng):
    prior = Prior(np.array([1.0]), np.array([[30.0]]), 2.0, 0.5)
    total, _ = moments(rng, 1, 8, False)
    priors, _ = believed(prior, 1, False)
    theta, variance, _ = draws_of(rng, total, 8, priors, 4000, thin=6)
    t, v = np.linspace(-3, 4, 1501), np.geomspace(0.01, 60, 1501)
    square = total[1, 1] - 2 * t * total[0, 1] + t**2 * total[0, 0]
    log = -0.5 * 30 * (t - 1) ** 2 + (
        -(prior.shape + 4) * np.log(v)[:, None] - (prior.rate + 0.5 * square) / v[:, None]
    )
    weight = np.exp(log - log.max())  # the grid of v is even in log v, so its power is one less
    for drawn, grid, axis in ((theta[:, 0], t, 0), (variance, v, 1)):
        cdf = np.cumsum(weight.sum(axis))
        assert stats.kstest(drawn, lambda x, g=grid, c=cdf: np.interp(x, g, c / c[-1])).pvalue > ALARM


@pytest.mark.parametrize("across", [0.0, 0.7])
def test_a_learned_scale_follows_its_law_with_and_without_a_tie_to_the_intercept(rng, across):
    precision = np.array([[2.0, across, 0.1 * across], [across, 1.0, 0.2], [0.1 * across, 0.2, 1.5]])
    prior = Prior(np.zeros(3), precision, 2.0, 1.0, is_learned=True)
    priors, _ = believed(prior, 2, True)
    theta, scales, drawn = np.array([0.8, -1.5, 0.6]), np.ones(2), np.empty(4000)
    for i in range(4000 * 10):
        conjugate.draw_learned_scale(rng, priors, theta, scales)
        drawn[i // 10] = scales[1]
    tau2 = np.geomspace(1e-3, 1e4, 20_001)
    root = np.stack([np.ones_like(tau2), 1 / np.sqrt(tau2), 1 / np.sqrt(tau2)]) * theta[:, None]
    log = -0.5 * np.log(tau2) - 0.5 / tau2 - np.log(tau2) - 0.5 * np.einsum("in,ij,jn->n", root, precision, root)
    cdf = np.cumsum(np.exp(log - log.max()))
    assert stats.kstest(drawn, lambda x: np.interp(x, tau2, cdf / cdf[-1])).pvalue > ALARM


@pytest.mark.parametrize(("intercept", "block"), [(False, 1), (True, 1), (True, 4)])
def test_covariates_drawn_given_data_from_their_prior_are_draws_from_their_prior(rng, intercept, block):
    """Averaged over data the posterior is the prior: a wrong degree, scale or mean would show."""
    prior = Prior(np.zeros(2 + intercept), np.eye(2 + intercept), 3.0, 1.0, is_relative=True)
    priors, x = believed(prior, 2, intercept)
    mean, spread, found = np.zeros(2), np.empty((2, 2)), []
    for _ in range(1500):
        covariance = stats.invwishart(x.degrees, x.scale).rvs(random_state=rng)
        centre = x.location + np.linalg.cholesky(covariance / x.strength) @ rng.standard_normal(2) * intercept
        rows = draw_rows(rng, 6 * block, np.zeros(2 + intercept), 1.0, centre, covariance, intercept)
        rows = rows.reshape(6, block, -1).sum(1) / math.sqrt(block)
        assert conjugate.draw_covariates(rng, rows.T @ rows, 6.0, priors, mean, spread)
        found.append([spread[0, 0], spread[0, 1], mean[0], np.linalg.det(spread)])
    found = np.array(found)
    truth = stats.invwishart(x.degrees, x.scale).rvs(20_000, random_state=rng)
    assert stats.kstest(found[:, 0], stats.invgamma((x.degrees - 1) / 2, scale=x.scale[0, 0] / 2).cdf).pvalue > ALARM
    assert stats.ks_2samp(found[:, 1], truth[:, 0, 1]).pvalue > ALARM
    assert stats.ks_2samp(found[:, 3], np.linalg.det(truth)).pvalue > ALARM
    if intercept:
        degrees = x.degrees - 1
        scale = math.sqrt(x.scale[0, 0] / x.strength / degrees)
        assert stats.kstest((found[:, 2] - x.location[0]) / scale, stats.t(degrees).cdf).pvalue > ALARM
