"""Several correlated normal sums under Laplace noise: a closed part, and a small remainder by Monte Carlo.

Y = U + V, U ~ N(mu, Sigma), V_k ~ Laplace(b_k). Let c(y) be the score that Gaussian noise of the same variance would
give, with H = Sigma + diag(2 b^2), r = y - mu and A_i = H^-1 dSigma_i H^-1:
    c_i(y) = dmu_i' H^-1 r + (r' A_i r - tr(H^-1 dSigma_i))/2.
For any function of y, E[s_i c_j] = d E[c_j]/d theta_i with c_j held fixed, so with the true score s
    E[s c'] = G, the Gaussian formula;       E[c c'] = C = G + (1/4) sum_k 12 b_k^4 A_i,kk A_j,kk,
both closed, and with B = G C^-1 (the best linear fit of s by c)
    F = G C^-1 G + E[(s - B c)(s - B c)'].
Only the last term is simulated. Given mixing variances w (V_k ~ N(0, w_k), w_k exponential with mean 2 b_k^2) the score
is closed, and s(y) = E[s(y | w) | y]. Every simulated y comes with its own w, which is a draw given y; two Gibbs chains
start from it (u given w, then 1/w given u inverse Gaussian), and the product of their averages has no bias from their
length, but for what the chains remember of their common start.

Quicker, and closed: normal noise of variances v_k between b_k^2 and 2 b_k^2 that tell as much, sum by sum. What the
other noisy sums leave open of U_k has variance t_k = 1/(H^-1)_kk - v_k, H = Sigma + diag(v), and v_k solves
    1/(t_k + v_k) = J(t_k, b_k), the information of N(0, t_k) + Laplace(b_k) about its centre,
by iteration. It is exact for one sum's centre, where noise dominates every sum (v = b^2) and where none does (2 b^2).
"""

from __future__ import annotations

import numpy as np

from noisewise.likelihood import normal_gaussian, normal_laplace
from noisewise.populations.parameters import Array

DRAWS = 4096  # simulated releases over all rows of theta, at least FEWEST a row
FEWEST = 128
FORGET, KEEP = 12, 16  # sweeps
MATCHES = 6
PIECE = 8192


def laplace_vector_information(
    rng: np.random.Generator,
    *,
    covariance: Array,
    d_mean: Array,
    d_covariance: Array,
    scale: Array,
    draws: int | None = None,
) -> tuple[Array, Array]:
    """F and its standard error, (K, P, P): d_mean (K, P, d), d_covariance (K, P, d, d), scale (d,)."""
    unit = scale[:, None] * scale
    # In units of the noise scales: b = 1.
    sigma, slope, d_sigma = covariance / unit, d_mean / scale, d_covariance / unit
    count = max(FEWEST, DRAWS // len(sigma)) if draws is None else draws
    closed, fit, control = _closed_part(sigma, slope, d_sigma)
    total, square = np.zeros_like(closed), np.zeros_like(closed)
    per = max(1, PIECE // len(sigma))
    for start in range(0, count, per):
        products = _remainders(rng, sigma, slope, d_sigma, fit, control, min(per, count - start))
        total += products.sum(axis=1)
        square += np.square(products).sum(axis=1)
    mean = total / count
    error = np.sqrt(np.maximum(square / count - np.square(mean), 0) / (count - 1))
    return closed + mean, error


def matched_variance(covariance: Array, scale: Array) -> Array:
    """Variances (K, d) of normal noises that tell as much about each sum as the Laplace noises do; see the module."""
    unit = scale[:, None] * scale
    sigma = covariance / unit
    matched = np.full(sigma.shape[:2], 2.0)
    for _ in range(MATCHES):
        precision = np.linalg.inv(sigma + np.eye(sigma.shape[-1]) * matched[:, None, :])
        left = np.maximum(1 / np.diagonal(precision, axis1=1, axis2=2) - matched, 1e-12)
        told = normal_laplace.information(variance=left, scale=1.0)[0]
        matched = np.clip(1 / told - left, 1.0, 2.0)
    return np.asarray(matched * np.square(scale))


def _closed_part(sigma: Array, slope: Array, d_sigma: Array) -> tuple[Array, Array, Array]:
    """G C^-1 G, B = G C^-1, and H^-1."""
    noise = np.full(sigma.shape[-1], 2.0)
    gauss = normal_gaussian.information(d_mean=slope, d_covariance=d_sigma, covariance=sigma, noise_variance=noise)
    precision = np.linalg.inv(sigma + np.diag(noise))
    bends = np.einsum("kab,kpbc,kca->kpa", precision, d_sigma, precision)
    second = gauss + 3.0 * np.einsum("kpa,kqa->kpq", bends, bends)
    fit = gauss @ np.linalg.pinv(second, hermitian=True)
    return fit @ gauss, fit, precision


def _remainders(
    rng: np.random.Generator, sigma: Array, slope: Array, d_sigma: Array, fit: Array, control: Array, count: int
) -> Array:
    """(s - B c)(s - B c)' at simulated releases, (K, count, P, P), symmetric, from two chains."""
    values, vectors = np.linalg.eigh(sigma)
    root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    shape = (len(sigma), count, sigma.shape[-1])
    w = 2 * rng.standard_exponential(shape)
    r = _normal(rng, root, shape) + np.sqrt(w) * rng.standard_normal(shape)
    # The Gaussian score at r, and its fit to the score.
    fitted = np.einsum("kpq,kmq->kmp", fit, _score(control[:, None], r, slope, d_sigma))
    one, other = (_chain_score(rng, sigma, root, slope, d_sigma, r, w) - fitted for _ in range(2))
    product = one[..., :, None] * other[..., None, :]
    return np.asarray(0.5 * (product + product.swapaxes(-1, -2)))


def _chain_score(
    rng: np.random.Generator, sigma: Array, root: Array, slope: Array, d_sigma: Array, r: Array, w: Array
) -> Array:
    """The average of s(y | w) over sweeps w -> u -> w given y, (K, count, P)."""
    total: Array = np.zeros((*r.shape[:2], slope.shape[1]))
    for sweep in range(FORGET + KEEP):
        precision: Array = np.linalg.inv(sigma[:, None] + w[..., None] * np.eye(r.shape[-1])).astype(float)
        if sweep >= FORGET:
            total = total + _score(precision, r, slope, d_sigma)
        prior = _normal(rng, root, r.shape)
        gap = r - prior - np.sqrt(w) * rng.standard_normal(r.shape)
        u = prior + np.einsum("kde,kme->kmd", sigma, np.einsum("kmef,kmf->kme", precision, gap))
        w = normal_laplace.draw_mixing(rng, r - u, 1.0)
    return np.asarray(total / KEEP)


def _score(precision: Array, r: Array, slope: Array, d_sigma: Array) -> Array:
    """dmu_i' H^-1 r + (r' H^-1 dSigma_i H^-1 r - tr(H^-1 dSigma_i))/2, (K, count, P)."""
    alpha = np.einsum("kmab,kmb->kma", np.broadcast_to(precision, (*r.shape, r.shape[-1])), r)
    in_mean = np.einsum("kpa,kma->kmp", slope, alpha)
    bent = np.einsum("kpab,kma,kmb->kmp", d_sigma, alpha, alpha, optimize=True)
    trace = np.einsum("kmab,kpba->kmp", np.broadcast_to(precision, (*r.shape, r.shape[-1])), d_sigma)
    return np.asarray(in_mean + 0.5 * (bent - trace))


def _normal(rng: np.random.Generator, root: Array, shape: tuple[int, ...]) -> Array:
    return np.asarray(np.einsum("kde,kme->kmd", root, rng.standard_normal(shape)))
