"""Where a sampler of latent moments begins: what was published, noised once more, made a possible matrix of moments.

Fresh noise spreads the chains about as far as the release leaves open, so that R-hat can see whether they meet. What
was never published is filled in by its regression on the rest, under the prior's expectations held loosely. Eigenvalues
lost in the noise start at its size: from 0 a chain would crawl.
"""

from __future__ import annotations

import numpy as np

from noisewise.regression.loadings import Published
from noisewise.regression.moments import moment_covariance_given, normal_moment_covariance, second_moments_given
from noisewise.regression.problem import Floats, GivenX, LocationX, Problem

LOOSENESS = 2.0
"""How many of its own standard deviations the prior's guess of a mean square may be wrong by."""


def first_moments(problem: Problem, published: Published, rng: np.random.Generator) -> Floats:
    """(J, m, m): possible moments of each holder's rows, in working units."""
    guess, scatter = _expectations(problem)
    a, b = published.pairs.T
    moments = np.empty((len(published.n), problem.m, problem.m))
    for j, (n, block) in enumerate(zip(published.n, published.block, strict=True)):
        size = int(published.components[j])
        loading = np.zeros((size, len(a)))
        for k in range(size):
            width = published.width[j, k]
            loading[k, published.place[j, k, :width]] = published.weight[j, k, :width]
        scale = np.full(problem.m, 1.0)
        if problem.intercept:
            scale[0] = np.sqrt(block)
        mean = n * (guess * np.outer(scale, scale))[a, b]
        loose = (
            (LOOSENESS * n) ** 2
            * scatter[a[:, None], b[:, None], a, b]
            * np.outer(scale[a] * scale[b], scale[a] * scale[b])
        )
        variance, laplace = published.variance[j, :size], published.laplace[j, :size]
        noise = np.where(laplace > 0, rng.laplace(size=size) * laplace, rng.normal(size=size) * np.sqrt(variance))
        gain = np.linalg.lstsq(
            loading @ loose @ loading.T + np.diag(variance), published.observed[j, :size] + noise - loading @ mean
        )[0]
        vector = mean + loose @ loading.T @ gain
        moments[j, a, b] = moments[j, b, a] = vector
        if problem.intercept:
            moments[j, 0, 0] = n * block
        typical = float(np.sqrt(variance.mean())) if size else 0.0
        _lift(moments[j], problem.intercept, typical)
    return moments


def _expectations(problem: Problem) -> tuple[Floats, Floats]:
    """E w w' and Cov(w_a w_b, w_c w_d) at central values of the priors."""
    prior, x = problem.prior, problem.covariates
    variance = prior.rate / (prior.shape + 1.0)
    if isinstance(x, GivenX):
        return second_moments_given(prior.mean, variance, x.second), moment_covariance_given(
            prior.mean, variance, x.second, x.fourth
        )
    if isinstance(x, LocationX):
        raise TypeError("covariates of a location model are for method 'marginal'")
    spread = x.scale / (x.degrees + problem.d + 1.0)
    if problem.intercept:
        row = np.concatenate([[1.0], x.location])
        second = np.outer(row, row)
        second[1:, 1:] += spread
    else:
        second = spread
    joint = second_moments_given(prior.mean, variance, second)
    mean = joint[0] if problem.intercept else np.zeros(problem.m)
    return joint, normal_moment_covariance(joint, np.ascontiguousarray(mean))


def _lift(moments: Floats, intercept: bool, noise: float) -> None:
    """Raise the eigenvalues of the scatter that the noise hides to its size, or to a share of the typical one."""
    start = int(intercept)
    pull = np.outer(moments[0, start:], moments[0, start:]) / moments[0, 0] if intercept else 0.0
    values, vectors = np.linalg.eigh(moments[start:, start:] - pull)
    size = float(np.abs(values).mean())
    floor = max(min(noise, 0.3 * size), 1e-9 * size, 1e-300) if values[0] <= noise else 0.0
    moments[start:, start:] = (vectors * np.maximum(values, floor)) @ vectors.T + pull
