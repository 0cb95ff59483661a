"""Means and covariances of a row's products, against quadrature and enumeration that share nothing with them."""

import itertools
import math

import numpy as np
import pytest

from noisewise.regression.moments import (
    all_pairs,
    at_pairs,
    block_fourth,
    block_second,
    moment_covariance_given,
    normal_covariance_at,
    normal_moment_covariance,
    second_moments_given,
)

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(6)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def moments(rows, chances):
    """Second and fourth moments of a law with finitely many rows."""
    second = np.einsum("s,si,sj->ij", chances, rows, rows)
    fourth = np.einsum("s,si,sj,sk,sl->ijkl", chances, rows, rows, rows, rows, optimize=True)
    return second, fourth


def covariance(rows, chances):
    second, fourth = moments(rows, chances)
    return fourth - np.multiply.outer(second, second)


def normal_rows(mean, factor):
    """A law on 6^k points with the moments of N(mean, factor factor') up to degree 11."""
    grid = np.array(list(itertools.product(range(6), repeat=factor.shape[1])))
    return mean + NODES[grid] @ factor.T, np.prod(WEIGHTS[grid], axis=1)


def skewed_covariates(rng, intercept):
    """Five points with unequal chances: as far from normal as can be."""
    support = rng.exponential(size=(5, 3))
    if intercept:
        support[:, 0] = 1.0
    return support, rng.dirichlet(np.ones(5))


@pytest.mark.parametrize("intercept", [True, False])
def test_products_of_a_normal_row_scatter_as_isserlis_says(rng, intercept):
    mean, factor = rng.standard_normal(4), rng.standard_normal((4, 3))
    if intercept:
        mean[0], factor[0] = 1.0, 0.0
    else:
        mean[:] = 0.0
    rows, chances = normal_rows(mean, factor)
    expected = covariance(rows, chances)
    second = factor @ factor.T + np.outer(mean, mean)
    np.testing.assert_allclose(normal_moment_covariance(second, mean), expected, atol=1e-11)
    pairs, stable = all_pairs(4), np.empty((10, 10))
    normal_covariance_at(factor @ factor.T, np.outer(mean, mean), pairs, 10, stable)
    np.testing.assert_allclose(stable, at_pairs(expected, pairs), atol=1e-11)


def test_the_covariance_survives_a_mean_a_million_times_the_spread():
    mean, spread, stable = np.array([1e6, -2e6]), np.array([[1.0, 0.3], [0.3, 2.0]]), np.empty((3, 3))
    normal_covariance_at(spread, np.outer(mean, mean), all_pairs(2), 3, stable)
    first = 4 * 1e12 * 1.0 + 2 * 1.0  # Var x^2 = 4 mu^2 s^2 + 2 s^4
    assert stable[0, 0] == pytest.approx(first, rel=1e-14)


@pytest.mark.parametrize("intercept", [True, False])
def test_given_covariates_give_the_covariance_of_products_with_y(rng, intercept):
    support, chances = skewed_covariates(rng, intercept)
    theta, sigma = rng.standard_normal(3), 0.7
    second, fourth = moments(support, chances)
    rows, weights = with_response(support, chances, theta, sigma)
    joint, _ = moments(rows, weights)
    np.testing.assert_allclose(second_moments_given(theta, sigma**2, second), joint, atol=1e-12)
    found = moment_covariance_given(theta, sigma**2, second, fourth)
    np.testing.assert_allclose(found, covariance(rows, weights), atol=1e-11)


def with_response(support, chances, theta, sigma):
    """Every support point with six values of the error."""
    u = np.repeat(support, 6, axis=0)
    y = u @ theta + sigma * np.tile(NODES, len(support))
    return np.column_stack([u, y]), np.repeat(chances, 6) * np.tile(WEIGHTS, len(support))


def test_cov_xi_y_xj_y_is_the_corrected_formula_and_not_the_printed_one(rng):
    support, chances = skewed_covariates(rng, intercept=False)
    theta, sigma2 = rng.standard_normal(3), 0.5
    eta, fourth = moments(support, chances)
    xi = fourth - np.multiply.outer(eta, eta)  # xi[i, j, k, l] = Cov(x_i x_j, x_k x_l)
    found = moment_covariance_given(theta, sigma2, eta, fourth)[:3, 3, :3, 3]
    corrected = sigma2 * eta + np.einsum("k,l,ikjl->ij", theta, theta, xi)
    printed = sigma2 * eta + np.einsum("k,l,ijkl->ij", theta, theta, xi)
    rows, weights = with_response(support, chances, theta, math.sqrt(sigma2))
    simulated = covariance(rows, weights)[:3, 3, :3, 3]
    np.testing.assert_allclose(corrected, simulated, atol=1e-11)
    np.testing.assert_allclose(found, simulated, atol=1e-11)
    assert np.abs(printed - simulated).max() > 1e-4 * np.abs(simulated).max()


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_rows_averaged_in_blocks_have_the_moments_of_all_their_sums(rng, k):
    rows, chances = rng.standard_normal((4, 3)) + 0.5, rng.dirichlet(np.ones(4))
    sums, weights = np.zeros((1, 3)), np.ones(1)
    for _ in range(k):
        sums = (sums[:, None] + rows).reshape(-1, 3)
        weights = (weights[:, None] * chances).ravel()
    second, fourth = moments(sums / math.sqrt(k), weights)
    mean, third = chances @ rows, np.einsum("s,si,sj,sk->ijk", chances, rows, rows, rows)
    one, four = moments(rows, chances)
    np.testing.assert_allclose(block_second(one, mean, k), second, atol=1e-10)
    np.testing.assert_allclose(block_fourth(four, third, one, mean, k), fourth, atol=1e-10)


def test_sums_of_simulated_rows_scatter_n_times_as_much_as_one_row(rng):
    theta, sigma2, n, trials = np.array([0.5, -1.2]), 0.4, 8, 20_000
    x = rng.exponential(size=(trials, n))
    y = theta[0] + theta[1] * x + math.sqrt(sigma2) * rng.standard_normal(x.shape)
    sums = np.column_stack([x.sum(1), (x * x).sum(1), y.sum(1), (x * y).sum(1), (y * y).sum(1)])
    powers = [1.0, 1.0, 2.0, 6.0, 24.0]  # E x^k of an exponential law
    second = np.array([[powers[i + j] for j in range(2)] for i in range(2)])
    fourth = np.array([powers[sum(index)] for index in itertools.product(range(2), repeat=4)]).reshape(2, 2, 2, 2)
    pairs = np.array([(0, 1), (1, 1), (0, 2), (1, 2), (2, 2)])
    expected = n * at_pairs(moment_covariance_given(theta, sigma2, second, fourth), pairs)
    centred = sums - n * second_moments_given(theta, sigma2, second)[pairs[:, 0], pairs[:, 1]]
    products = centred[:, :, None] * centred[:, None, :]
    errors = products.std(axis=0) / math.sqrt(trials)
    assert np.all(np.abs(products.mean(axis=0) - expected) < 6 * errors)  # 15 normal errors, false alarm 3e-8
    assert np.any(np.abs(products.mean(axis=0) - 1.2 * expected) > 6 * errors)  # it would see 20 %
