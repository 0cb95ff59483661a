"""The moments behind a release, drawn under a normal law: mean and covariance against plain linear algebra."""

import numpy as np
import pytest
from regression_worlds import draw_rows, draw_world, pairs_of
from scipy import stats

from noisewise.errors import Unsupported
from noisewise.published.regression.prior_moments import prior_moments
from noisewise.regression import normal_product as product
from noisewise.regression.loadings import published
from noisewise.regression.moments import moment_covariance_given, normal_moment_covariance
from noisewise.regression.problem import GivenX, NormalX

ALARM = 1e-6


def mapping(m, intercept):
    """Another holder's rows: scaled, mixed, and shifted where there is an intercept."""
    matrix = np.diag(np.linspace(0.7, 1.6, m))
    matrix[-2, -1] = 0.0
    if intercept:
        matrix[0] = np.eye(m)[0]
        matrix[1:, 0] = np.linspace(-0.5, 0.8, m - 1)
    return matrix


def law_of(world, block):
    m = world.problem.m
    mean, spread = np.empty(m), np.empty((m, m))
    product.normal_row(world.theta, world.variance, world.mean_x, world.covariance_x, block**0.5, mean, spread)
    return mean, spread


@pytest.mark.parametrize(("intercept", "block"), [(False, 1), (True, 1), (True, 3)])
def test_the_law_of_a_row_is_that_of_simulated_rows(rng, intercept, block):
    world = draw_world(rng, d=2, intercept=intercept)
    mean, spread = law_of(world, block)
    size = 200_000
    rows = draw_rows(rng, size * block, world.theta, world.variance, world.mean_x, world.covariance_x, intercept)
    rows = rows.reshape(size, block, -1).sum(1) / block**0.5
    error = np.sqrt(np.diag(spread) / size)
    assert np.all(np.abs(rows.mean(0) - mean) <= 6 * error + 1e-9)
    products = (rows - mean)[:, :, None] * (rows - mean)[:, None, :]
    assert np.all(np.abs(products.mean(0) - spread) <= 6 * products.std(0) / size**0.5 + 1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_drawn_moments_have_the_mean_and_covariance_of_a_normal_given_a_linear_observation(rng, intercept):
    """With a holder in units of its own and two components never published."""
    m = 3 + intercept
    pairs = pairs_of(m, intercept)[:-2]
    world = draw_world(rng, d=2, n=50, epsilon=1.0, intercept=intercept, pairs=pairs, maps=[mapping(m, intercept)])
    data = published(world.problem)
    mean, spread = law_of(world, 1)
    size = len(data.pairs)
    centre, covariance, root = np.empty(size), np.empty((size, size)), np.empty((size, size))
    product.normal_law(mean, spread, data.pairs, centre, covariance)
    a, b = data.pairs.T
    assert centre == pytest.approx((spread + np.outer(mean, mean))[a, b])
    full = normal_moment_covariance(spread + np.outer(mean, mean), mean)
    assert covariance == pytest.approx(full[a[:, None], b[:, None], a, b])
    product.factor(covariance, size, root, 1e-13)
    carried, lower = np.empty((len(pairs), size)), np.empty((len(pairs), len(pairs)))
    product.carried(data, 0, covariance, carried)
    assert product.factor_components(data, 0, carried, data.variance[0], lower)
    draws, vector = np.empty((4000, size)), np.empty(size)
    for i in range(len(draws)):
        product.draw_moments(rng, data, 0, centre, root, carried, data.variance[0], lower, vector)
        draws[i] = vector
    # The oracle: entries of map T map' as a matrix acting on T, found by probing, and Bayes in precision form.
    holder = world.problem.holders[0]
    loading = np.empty((len(pairs), size))
    for p in range(size):
        unit = np.zeros((m, m))
        unit[a[p], b[p]] = unit[b[p], a[p]] = 1.0
        loading[:, p] = (holder.map @ unit @ holder.map.T)[pairs[:, 0], pairs[:, 1]]
    constant = np.zeros((m, m))
    constant[0, 0] = 50.0 * intercept
    observed = holder.observed - (holder.map @ constant @ holder.map.T)[pairs[:, 0], pairs[:, 1]]
    precision = np.linalg.inv(50 * covariance) + loading.T @ (loading / holder.variance[:, None])
    expected = np.linalg.solve(
        precision, np.linalg.solve(50 * covariance, 50 * centre) + loading.T @ (observed / holder.variance)
    )
    white = (draws - expected) @ np.linalg.cholesky(precision)
    for column in white.T:
        assert stats.kstest(column, stats.norm.cdf).pvalue > ALARM / size
    assert np.sum(white**2) == pytest.approx(white.size, rel=6 * np.sqrt(2 / white.size))
    assert np.abs(white.T @ white / len(white) - np.eye(size)).max() < 7 / np.sqrt(len(white))


def test_moments_that_are_given_have_the_covariances_of_the_corrected_formula(rng):
    rows = np.column_stack([np.ones(400), rng.exponential(size=400), rng.random(400) < 0.3])
    second = rows.T @ rows / 400
    fourth = np.einsum("na,nb,nc,nd->abcd", rows, rows, rows, rows) / 400
    theta, pairs = rng.standard_normal(3), pairs_of(4, True)
    eta, xi = product.given_moments(GivenX(second, fourth), 1, True)
    centre, covariance = np.empty(len(pairs)), np.empty((len(pairs), len(pairs)))
    product.given_law(theta, 0.7, eta, xi, pairs, centre, covariance)
    full = moment_covariance_given(theta, 0.7, second, fourth)
    a, b = pairs.T
    assert covariance == pytest.approx(full[a[:, None], b[:, None], a, b], abs=1e-10)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-10  # a 0/1 covariate is its own square: singular, not negative


def test_averaged_rows_need_a_mean(rng):
    with pytest.raises(Unsupported, match="intercept=True"):
        product.given_moments(GivenX(np.eye(2), np.ones((2, 2, 2, 2))), 3, False)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_priors_moments_are_those_of_simulated_covariates(rng, intercept):
    x = NormalX(np.array([0.5, -0.3]) * intercept, 4.0, np.array([[9.0, 2.0], [2.0, 12.0]]), 14.0)
    size = 100_000
    covariance = stats.invwishart(x.degrees, x.scale).rvs(size, random_state=rng)
    root = np.linalg.cholesky(covariance)
    mean = x.location + (root @ rng.standard_normal((size, 2, 1)))[..., 0] / 2.0 * intercept
    drawn = mean + (root @ rng.standard_normal((size, 2, 1)))[..., 0]
    u = np.column_stack([np.ones(size), drawn]) if intercept else drawn
    found = prior_moments(x, intercept)
    two = np.einsum("na,nb->nab", u, u)
    four = np.einsum("nab,ncd->nabcd", two, two)
    assert np.all(np.abs(two.mean(0) - found.second) <= 6 * two.std(0) / size**0.5 + 1e-9)
    assert np.all(np.abs(four.mean(0) - found.fourth) <= 6 * four.std(0) / size**0.5 + 1e-9)
    if not intercept:  # x is wider than a normal of the same covariance: E x^4 = 3 E Sigma^2 > 3 (E Sigma)^2
        given = 3 * covariance[:, 0, 0] ** 2
        assert abs(given.mean() - found.fourth[0, 0, 0, 0]) < 6 * given.std() / size**0.5
        assert given.mean() - 3 * found.second[0, 0] ** 2 > 6 * given.std() / size**0.5
    with pytest.raises(Unsupported, match="degrees"):
        prior_moments(NormalX(x.location, 4.0, x.scale, 5.0), intercept)
