"""Gaussian noise on a normal vector, against scipy, high-precision differences and known answers."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

from noisewise.likelihood import normal_gaussian


def random_rows(dimension, count, seed):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(count, dimension)) * 10 ** rng.uniform(-3, 3, dimension)
    root = rng.normal(size=(count, dimension, dimension)) * 10 ** rng.uniform(-3, 3, dimension)[:, None]
    return rng.normal(size=dimension), mean, root @ np.swapaxes(root, -1, -2), 10 ** rng.uniform(-4, 2, dimension)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_density_agrees_with_scipy_row_by_row(dimension):
    y, mean, covariance, noise = random_rows(dimension, 20, seed=dimension)
    found = normal_gaussian.log_density(y, mean=mean, covariance=covariance, noise_variance=noise)
    assert found.shape == (20,)
    for k in range(20):
        exact = exact_log_density(y, mean[k], covariance[k] + np.diag(noise))
        assert found[k] == pytest.approx(float(exact), rel=1e-9)
    y, mean, covariance = np.ones(dimension), np.zeros((1, dimension)), np.eye(dimension)[None]
    found = normal_gaussian.log_density(y, mean=mean, covariance=covariance, noise_variance=0.5)
    assert found[0] == pytest.approx(stats.multivariate_normal.logpdf(y, mean[0], 1.5 * np.eye(dimension)), rel=1e-13)


def exact_log_density(y, mean, total):
    with mpmath.workdps(50):
        h = mpmath.matrix(total.tolist()) if isinstance(total, np.ndarray) else total
        residual = mpmath.matrix([mpmath.mpf(a) - mpmath.mpf(b) for a, b in zip(y, mean, strict=True)])
        form = (residual.T * mpmath.lu_solve(h, residual))[0]
        return -(len(y) * mpmath.log(2 * mpmath.pi) + mpmath.log(mpmath.det(h)) + form) / 2


def test_scores_agree_with_high_precision_differences():
    y, mean, covariance, noise = random_rows(3, 4, seed=5)
    in_mean, in_covariance = normal_gaussian.score(y, mean=mean, covariance=covariance, noise_variance=noise)
    with mpmath.workdps(50):
        step = mpmath.mpf(10) ** -18
        for k in range(4):
            total = mpmath.matrix((covariance[k] + np.diag(noise)).tolist())
            base = [mpmath.mpf(m) for m in mean[k]]
            for i in range(3):
                size = abs(base[i]) * step
                up, down = ([m + s * size * (j == i) for j, m in enumerate(base)] for s in (1, -1))
                expected = (exact_log_density(y, up, total) - exact_log_density(y, down, total)) / (2 * size)
                assert in_mean[k, i] == pytest.approx(float(expected), rel=1e-8)
                for j in range(3):
                    size = abs(total[i, j]) * step
                    up, down = total.copy(), total.copy()
                    up[i, j] += size
                    down[i, j] -= size
                    expected = (exact_log_density(y, base, up) - exact_log_density(y, base, down)) / (2 * size)
                    assert in_covariance[k, i, j] == pytest.approx(float(expected), rel=1e-7)


@pytest.mark.parametrize(
    ("a", "sensitivity", "known"), [(1, 10.0, 4.630626), (2, 100.0, 0.928669), (1, 0.0, 11.074615), (2, 0.0, 13.0)]
)
def test_known_fisher_information_under_gaussian_noise(a, sensitivity, known):
    """theta = 2 the variance of N(0, theta), mean |x|^a, n = 100, A = 10, mu-GDP with mu = 1; or no privacy."""
    theta, n = 2.0, 100
    mean, variance = (np.sqrt(2 * theta / np.pi), theta * (1 - 2 / np.pi)) if a == 1 else (theta, 2 * theta**2)
    found = normal_gaussian.information(
        d_mean=[[[mean * a / (2 * theta)]]],
        d_covariance=[[[[variance * a / theta / n]]]],
        covariance=[[[variance / n]]],
        noise_variance=(sensitivity / n) ** 2,
    )
    assert found[0, 0, 0] == pytest.approx(known, abs=6e-7)


def test_information_is_the_variance_of_the_score():
    """Two parameters in three dimensions, by Gauss-Hermite quadrature over y (exact: the score is quadratic)."""
    rng = np.random.default_rng(1)
    d_mean, root = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
    d_covariance = rng.normal(size=(2, 3, 3))
    d_covariance = d_covariance + np.swapaxes(d_covariance, -1, -2)
    covariance, noise = root @ root.T, np.array([0.3, 1.0, 0.1])
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    mass = np.einsum("i,j,k->ijk", *([weights / np.sqrt(2 * np.pi)] * 3)).reshape(-1)
    y = grid @ np.linalg.cholesky(covariance + np.diag(noise)).T
    rows = (len(y), 3, 3)
    in_mean, in_covariance = normal_gaussian.score(
        y, mean=np.zeros((len(y), 3)), covariance=np.broadcast_to(covariance, rows), noise_variance=noise
    )
    scores = in_mean @ d_mean.T + np.einsum("kab,pab->kp", in_covariance, d_covariance)
    found = normal_gaussian.information(
        d_mean=d_mean, d_covariance=d_covariance, covariance=covariance, noise_variance=noise
    )
    np.testing.assert_allclose(found, np.einsum("k,kp,kq->pq", mass, scores, scores), rtol=1e-10)


def test_a_bad_row_is_nan_and_spoils_no_other():
    covariance = np.stack([np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]]), np.full((2, 2), np.nan), 2 * np.eye(2)])
    found = normal_gaussian.log_density([0.1, 0.2], mean=np.zeros((4, 2)), covariance=covariance)
    np.testing.assert_array_equal(np.isnan(found), [False, True, True, False])
