"""Draws and factorizations inside compiled loops against scipy and numpy."""

import numpy as np
import pytest
from scipy import stats

from noisewise.regression import wishart

ALARM = 1e-6


def random_covariance(rng, size):
    root = rng.standard_normal((size, size + 2))
    return root @ root.T


def test_the_factor_is_that_of_cholesky_and_says_when_there_is_none(rng):
    matrix, lower = random_covariance(rng, 4), np.full((4, 4), np.nan)
    assert wishart.factor(matrix, 4, lower, 0.0)
    assert lower == pytest.approx(np.linalg.cholesky(matrix))
    assert wishart.log_determinant(lower, 4) == pytest.approx(np.linalg.slogdet(matrix)[1])
    vector = rng.standard_normal(4)
    solved = vector.copy()
    wishart.solve(lower, 4, solved)
    assert solved == pytest.approx(np.linalg.solve(matrix, vector))
    other = np.linalg.cholesky(random_covariance(rng, 4))
    assert wishart.trace_ratio(lower, 4, other) == pytest.approx(np.trace(np.linalg.solve(matrix, other @ other.T)))
    assert not wishart.factor(-matrix, 4, lower, 0.0)


def test_a_singular_matrix_keeps_a_root(rng):
    row = rng.standard_normal(3)
    matrix, lower = np.outer(row, row), np.empty((3, 3))
    assert not wishart.factor(matrix, 3, lower, 1e-12)
    assert lower @ lower.T == pytest.approx(matrix)


@pytest.mark.parametrize("degrees", [3.5, 12.0])
def test_inverse_wishart_draws_have_inverse_gamma_quadratic_forms(rng, degrees):
    """a'Sigma a ~ InverseGamma((nu - d + 1)/2, a'Psi a/2) for every direction a."""
    scale, drawn = random_covariance(rng, 3), np.empty((6000, 3, 3))
    for i in range(len(drawn)):
        assert wishart.draw_inverse_wishart(rng, scale, degrees, drawn[i])
    a = rng.standard_normal(3)
    forms = np.einsum("i,nij,j->n", a, drawn, a)
    law = stats.invgamma((degrees - 2) / 2, scale=a @ scale @ a / 2)
    assert stats.kstest(forms, law.cdf).pvalue > ALARM
    off = stats.invgamma((degrees - 2) / 2 * 1.5, scale=a @ scale @ a / 2)
    assert stats.kstest(forms, off.cdf).pvalue < ALARM
    chi = np.einsum("i,nij,j->n", a, np.linalg.inv(drawn), a) / (a @ np.linalg.solve(scale, a))
    assert stats.kstest(chi, stats.chi2(degrees).cdf).pvalue > ALARM


def test_bartlett_factors_square_to_wishart_matrices(rng):
    drawn = np.empty((6000, 2, 2))
    for i in range(len(drawn)):
        wishart.draw_bartlett(rng, 4.5, 2, drawn[i])
    squares = drawn @ drawn.transpose(0, 2, 1)
    a = rng.standard_normal(2)
    forms = np.einsum("i,nij,j->n", a, squares, a) / (a @ a)
    assert stats.kstest(forms, stats.chi2(4.5).cdf).pvalue > ALARM


@pytest.mark.parametrize("ratio", [1e-9, 0.01, 1.0, 30.0])
def test_mixing_variances_are_inverse_gaussian_at_every_size_of_the_noise(rng, ratio):
    scale = 3.0
    residual = ratio * scale
    drawn = np.array([wishart.draw_mixing_variance(rng, residual, scale) for _ in range(5000)])
    assert (drawn > 0).all()
    mean, shape = 1 / (scale * residual), 1 / scale**2
    law = stats.invgauss(mean / shape, scale=shape)
    assert stats.kstest(1 / drawn, law.cdf).pvalue > ALARM
    assert stats.kstest(1.5 / drawn, law.cdf).pvalue < ALARM


def test_mixing_variances_give_laplace_noise_back(rng):
    """v ~ Exp(2 b^2), r ~ N(0, v), then v' | r: v' again is exponential."""
    scale = 2.0
    first = rng.exponential(2 * scale**2, 6000)
    again = [wishart.draw_mixing_variance(rng, r, scale) for r in rng.normal(0, np.sqrt(first))]
    assert stats.kstest(again, stats.expon(scale=2 * scale**2).cdf).pvalue > ALARM


def test_projection_is_the_nearest_possible_matrix(rng):
    matrix = random_covariance(rng, 3)
    matrix -= np.trace(matrix) / 3 * np.eye(3)  # so that some eigenvalue is negative
    values, vectors = np.linalg.eigh(matrix)
    projected = matrix.copy()
    assert wishart.project(projected, False)
    assert projected == pytest.approx((vectors * np.maximum(values, 0)) @ vectors.T)
    possible = random_covariance(rng, 3)
    kept = possible.copy()
    assert not wishart.project(kept, False)
    assert kept == pytest.approx(possible)


def test_projection_with_an_intercept_keeps_the_count_and_the_sums(rng):
    rows = np.column_stack([np.ones(20), rng.standard_normal((20, 2)) + 3])
    matrix = rows.T @ rows
    matrix[1, 1] -= 120.0  # less than any records with these sums could have
    projected = matrix.copy()
    assert wishart.project(projected, True)
    assert projected[0] == pytest.approx(matrix[0])
    assert np.linalg.eigvalsh(projected)[0] >= -1e-9
