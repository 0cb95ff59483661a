"""The noise ignored: the conjugate posterior at the noisy moments (Bernstein & Sheldon 2019, section 2.2).

With S, z, u the noisy X'X, X'y, y'y of all holders and n rows, taken for the true ones, a normal-inverse-gamma prior
N(m, sigma^2 P^-1), InverseGamma(a, b) becomes
    P_n = P + S,   m_n = P_n^-1 (P m + z),   a_n = a + n/2,   b_n = b + (u + m'P m - m_n' P_n m_n)/2,
drawn independently; other priors by Gibbs steps on (theta, sigma^2[, tau^2]). It is here for comparison: its intervals
do not cover what they claim. A noisy matrix of moments that is not positive semi-definite is no data set's, and is
refused, or, with `project=True`, replaced by the nearest one that is.
"""

from __future__ import annotations

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.progress import Progress
from noisewise.regression.pooled import pooled_moments, rows_of
from noisewise.regression.problem import Fit, Floats, Prior, Problem

NOTE = "The privacy noise is ignored: these intervals are too narrow, and are for comparison only."


def sample(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
    project: bool = False,
) -> Fit:
    """Draws from the posterior that takes the noisy moments for the true ones."""
    moments, notes = _semi_definite(pooled_moments(problem), project=project)
    if problem.prior.is_relative:
        theta, variance = _conjugate(problem.prior, moments, rows_of(problem), rng, (chains, draws))
        how = "the conjugate posterior at the noisy moments, independent draws"
    else:
        theta, variance = _gibbs(problem, moments, rng, chains=chains, draws=draws, warmup=warmup, progress=progress)
        how = "Gibbs sampling of the posterior at the noisy moments"
    return Fit(theta, variance, how, notes=(NOTE, *notes))


def _semi_definite(moments: Floats, *, project: bool) -> tuple[Floats, tuple[str, ...]]:
    values, vectors = np.linalg.eigh(moments)
    if values[0] >= 0:
        return moments, ()
    if not project:
        raise Unsupported(
            "The noisy matrix of moments is not positive semi-definite, so it has no posterior that ignores the noise. "
            "Use method='marginal', which models the noise, or project=True for the nearest matrix that is."
        )
    nearest = (vectors * np.maximum(values, 0)) @ vectors.T
    return nearest, ("The noisy matrix of moments was not positive semi-definite and was replaced by the nearest.",)


def _conjugate(
    prior: Prior, moments: Floats, n: int, rng: np.random.Generator, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    S, z, u = moments[:-1, :-1], moments[:-1, -1], float(moments[-1, -1])
    precision = prior.precision + S
    mean = np.linalg.solve(precision, prior.precision @ prior.mean + z)
    rate = prior.rate + 0.5 * (u + prior.mean @ prior.precision @ prior.mean - mean @ precision @ mean)
    variance = rate / rng.standard_gamma(prior.shape + n / 2, size=shape)
    root = np.linalg.inv(np.linalg.cholesky(precision))  # root' root = precision^-1
    theta = mean + np.sqrt(variance)[..., None] * (rng.standard_normal((*shape, len(mean))) @ root)
    return np.asarray(theta), np.asarray(variance)


def _gibbs(
    problem: Problem,
    moments: Floats,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None,
) -> tuple[Floats, Floats]:
    """theta | sigma^2, tau^2 normal; sigma^2 | theta and tau^2 | theta inverse gamma; all chains at once."""
    prior, n = problem.prior, rows_of(problem)
    S, z, u = moments[:-1, :-1], moments[:-1, -1], float(moments[-1, -1])
    slopes = slice(int(problem.intercept), None)
    variance = np.full(chains, max(float(u) / max(n, 1), prior.rate))
    scale = np.ones(chains)
    kept_theta, kept_variance = np.empty((chains, draws, problem.q)), np.empty((chains, draws))
    for t in range(-warmup, draws):
        believed = np.repeat(prior.precision[None], chains, axis=0)
        believed[:, slopes, slopes] /= scale[:, None, None]
        precision = believed + S / variance[:, None, None]
        right = believed @ prior.mean + z / variance[:, None]
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, right[..., None])[..., 0]
        theta = mean + np.linalg.solve(np.swapaxes(root, 1, 2), rng.standard_normal((chains, problem.q, 1)))[..., 0]
        residual = u - 2 * theta @ z + np.einsum("ci,ij,cj->c", theta, S, theta)
        variance = (prior.rate + 0.5 * np.maximum(residual, 0)) / rng.standard_gamma(prior.shape + n / 2, size=chains)
        if prior.is_learned:
            away = (theta - prior.mean)[:, slopes]
            length = np.einsum("ci,ij,cj->c", away, prior.precision[slopes, slopes], away)
            scale = (0.5 + 0.5 * length) / rng.standard_gamma(0.5 + problem.d / 2, size=chains)
        if t >= 0:
            kept_theta[:, t], kept_variance[:, t] = theta, variance
        if progress is not None:
            progress(t + warmup + 1, warmup + draws)
    return kept_theta, kept_variance
