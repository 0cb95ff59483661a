"""Gaussian noise on a normal statistic of any dimension: Y ~ N(mu, H), H = Sigma + diag(noise variances).

    log f(y)  = -(d log 2 pi + log det H + (y - mu)' H^-1 (y - mu))/2
    d/dmu     = alpha = H^-1 (y - mu),       d/dSigma = (alpha alpha' - H^-1)/2
    F_ij      = dmu_i' H^-1 dmu_j + tr(H^-1 dH_i H^-1 dH_j)/2       (Alparslan & Yildirim 2022, 3.1)
K rows at once. H is scaled to a unit diagonal before its Cholesky factor is taken, so components of very different size
cost no digits; a row whose H is not positive definite, or not finite, is nan.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from noisewise.types import Floats

__all__ = ["information", "log_density", "score"]


def log_density(y: ArrayLike, *, mean: ArrayLike, covariance: ArrayLike, noise_variance: ArrayLike = 0.0) -> Floats:
    """log f(y), (K,): y (d,) or (K, d), mean (K, d), covariance (K, d, d), noise_variance () or (d,)."""
    root, size = _factor(covariance, noise_variance)
    residual = (np.asarray(y, dtype=np.float64) - np.asarray(mean, dtype=np.float64)) / size
    white = _solve(root, residual)
    log_determinant = 2 * np.sum(np.log(np.diagonal(root, axis1=-2, axis2=-1)) + np.log(size), axis=-1)
    dimension = residual.shape[-1]
    return np.asarray(-0.5 * (dimension * np.log(2 * np.pi) + log_determinant + np.sum(np.square(white), axis=-1)))


def score(
    y: ArrayLike, *, mean: ArrayLike, covariance: ArrayLike, noise_variance: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """The derivatives in the mean (K, d) and in the covariance (K, d, d), every entry taken as free."""
    root, size = _factor(covariance, noise_variance)
    precision = _precision(root, size)
    residual = np.asarray(y, dtype=np.float64) - np.asarray(mean, dtype=np.float64)
    alpha = np.einsum("...ij,...j->...i", precision, residual)
    return alpha, 0.5 * (alpha[..., :, None] * alpha[..., None, :] - precision)


def information(
    *, d_mean: ArrayLike, d_covariance: ArrayLike, covariance: ArrayLike, noise_variance: ArrayLike = 0.0
) -> Floats:
    """F (K, p, p) from d_mean (K, p, d) and d_covariance (K, p, d, d), the derivatives in p parameters."""
    precision = _precision(*_factor(covariance, noise_variance))
    d_mean, d_covariance = np.asarray(d_mean, dtype=np.float64), np.asarray(d_covariance, dtype=np.float64)
    in_mean = np.einsum("...ia,...ab,...jb->...ij", d_mean, precision, d_mean)
    relative = np.einsum("...ab,...ibc->...iac", precision, d_covariance)
    return np.asarray(in_mean + 0.5 * np.einsum("...iac,...jca->...ij", relative, relative))


def _factor(covariance: ArrayLike, noise_variance: ArrayLike) -> tuple[Floats, Floats]:
    """Cholesky factor of H scaled to a unit diagonal, and the square roots of that diagonal."""
    covariance = np.asarray(covariance, dtype=np.float64)
    dimension = covariance.shape[-1]
    noise = np.broadcast_to(np.asarray(noise_variance, dtype=np.float64), (dimension,))
    total = covariance + np.diag(noise)
    diagonal = np.diagonal(total, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(diagonal)
        correlation = total / (size[..., :, None] * size[..., None, :])
    usable = np.all(np.isfinite(correlation), axis=(-2, -1)) & np.all(diagonal > 0, axis=-1)
    safe = np.where(usable[..., None, None], correlation, np.eye(dimension))
    root = np.where(usable[..., None, None], _cholesky(safe), np.nan)
    return root, np.where(usable[..., None], size, np.nan)


def _cholesky(matrices: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
    except np.linalg.LinAlgError:
        flat = matrices.reshape(-1, *matrices.shape[-2:])
        roots = np.full_like(flat, np.nan)
        for row, matrix in enumerate(flat):
            if np.linalg.eigvalsh(matrix)[0] > 0:
                try:
                    roots[row] = np.linalg.cholesky(matrix)
                except np.linalg.LinAlgError:
                    continue  # positive only by rounding: the row stays nan
        return roots.reshape(matrices.shape)


def _solve(root: Floats, residual: Floats) -> Floats:
    """root^-1 residual, by forward substitution: the dimension is small and the rows are many."""
    dimension = residual.shape[-1]
    white = np.empty(np.broadcast_shapes(root.shape[:-1], residual.shape))
    for i in range(dimension):
        known = np.sum(root[..., i, :i] * white[..., :i], axis=-1)
        white[..., i] = (residual[..., i] - known) / root[..., i, i]
    return white


def _precision(root: Floats, size: Floats) -> Floats:
    """H^-1 = D^-1 L'^-1 L^-1 D^-1."""
    dimension = root.shape[-1]
    columns = [_solve(root, np.broadcast_to(np.eye(dimension)[j], root.shape[:-1])) for j in range(dimension)]
    inverse = np.stack(columns, axis=-1)
    precision = np.einsum("...ki,...kj->...ij", inverse, inverse)
    return np.asarray(precision / (size[..., :, None] * size[..., None, :]))
