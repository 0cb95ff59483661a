"""The moments behind a release, drawn given the parameters as if they were normal.

    T ~ N(n mu_t, n C),   t = A T + noise,   noise ~ N(0, diag v):
    T | t = T_0 + n C A' (n A C A' + diag v)^-1 (t - A T_0 - e),     T_0, e drawn from their own laws

the product of two normal laws (Bernstein & Sheldon 2019, NormProduct) without an inverse of C, which may be singular (a
0/1 covariate equals its square), and with components that were never published. mu_t and C come from a normal row
(`normal_law`) or from second and fourth moments of the covariates (`given_law`).
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.regression.loadings import Published
from noisewise.regression.moments import block_fourth, block_second, normal_covariance_at
from noisewise.regression.problem import Floats, GivenX, Integers
from noisewise.regression.wishart import dot, draw_mixing_variance, factor, solve

Generator = np.random.Generator


@njit(cache=True)
def normal_row(
    theta: Floats, variance: float, mean_x: Floats, spread_x: Floats, root_block: float, mean: Floats, spread: Floats
) -> None:
    """Mean and covariance of a row ([1,] x, y), or of the average of a block, x normal."""
    q, d = len(theta), len(mean_x)
    start = q - d
    m = q + 1
    for a in range(m):
        mean[a] = 0.0
        for b in range(m):
            spread[a, b] = 0.0
    for i in range(d):
        for j in range(d):
            spread[start + i, start + j] = spread_x[i, j]
    for i in range(d):
        spread[start + i, q] = dot(spread_x[i], theta[start:], d)
        spread[q, start + i] = spread[start + i, q]
    spread[q, q] = variance
    for i in range(d):
        spread[q, q] += theta[start + i] * spread[start + i, q]
    if start == 1:
        mean[0] = root_block
        mean[q] = root_block * theta[0]
        for i in range(d):
            mean[1 + i] = root_block * mean_x[i]
            mean[q] += theta[1 + i] * mean[1 + i]


@njit(cache=True)
def normal_law(mean: Floats, spread: Floats, pairs: Integers, centre: Floats, covariance: Floats) -> None:
    """mu_t and C at the pairs from the mean and covariance of a normal row."""
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        centre[p] = spread[a, b] + mean[a] * mean[b]
    normal_covariance_at(spread, np.outer(mean, mean), pairs, len(pairs), covariance)


def given_moments(covariates: GivenX, block: int, intercept: bool) -> tuple[Floats, Floats]:
    """Second moments of u = ([1,] x) and covariances of their products, of rows averaged in blocks, none impossible."""
    second, fourth = covariates.second, covariates.fourth
    if block > 1:
        if not intercept:
            raise Unsupported(
                "rows averaged in blocks need the mean of the covariates, which moments without an intercept do not "
                "give. Fit with intercept=True, or leave out `covariates`."
            )
        second, fourth = (
            block_second(second, second[0], block),
            block_fourth(fourth, fourth[0], second, second[0], block),
        )
    q = len(second)
    xi = (fourth - np.multiply.outer(second, second)).reshape(q * q, q * q)
    return _possible(second), _possible(xi).reshape(q, q, q, q)


def _possible(matrix: Floats) -> Floats:
    """The nearest positive semidefinite matrix; the same one where it already is."""
    matrix = 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= 0.0:
        return np.ascontiguousarray(matrix)
    return np.ascontiguousarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


@njit(cache=True)
def given_law(
    theta: Floats, variance: float, second: Floats, xi: Floats, pairs: Integers, centre: Floats, covariance: Floats
) -> None:
    """mu_t and C at the pairs from the covariates' second moments and the covariances xi of their products.

    With B = [I; theta'] rows and e in the last: Cov = B B xi B' B' + sigma^2 (the one place of e in each product) +
    2 sigma^4 (Bernstein & Sheldon 2019, 5.3).
    """
    q = len(theta)
    rows = np.zeros((q + 1, q))
    for i in range(q):
        rows[i, i] = 1.0
        rows[q, i] = theta[i]
    size = len(pairs)
    spread = np.zeros((size, q * q))  # products of B u as combinations of products of u
    alone = np.zeros((size, q))  # what multiplies e
    for p in range(size):
        a, b = pairs[p, 0], pairs[p, 1]
        centre[p] = variance if a == q and b == q else 0.0
        for i in range(q):
            for j in range(q):
                spread[p, i * q + j] = rows[a, i] * rows[b, j]
                centre[p] += rows[a, i] * rows[b, j] * second[i, j]
            if a == q:
                alone[p, i] += rows[b, i]
            if b == q:
                alone[p, i] += rows[a, i]
    covariance[:] = spread @ xi.reshape(q * q, q * q) @ spread.T + variance * (alone @ second @ alone.T)
    for p in range(size):
        if pairs[p, 0] == q and pairs[p, 1] == q:
            covariance[p, p] += 2.0 * variance * variance


@njit(cache=True)
def carried(published: Published, j: int, covariance: Floats, product: Floats) -> None:
    """A C: how each component of holder j covaries with each moment of one row."""
    for k in range(published.components[j]):
        for p in range(len(covariance)):
            product[k, p] = 0.0
        for w in range(published.width[j, k]):
            row, weight = covariance[published.place[j, k, w]], published.weight[j, k, w]
            for p in range(len(covariance)):
                product[k, p] += weight * row[p]


@njit(cache=True)
def expected(published: Published, j: int, k: int, vector: Floats) -> float:
    """Component k of A T."""
    total = 0.0
    for w in range(published.width[j, k]):
        total += published.weight[j, k, w] * vector[published.place[j, k, w]]
    return total


@njit(cache=True)
def log_noise(published: Published, j: int, k: int, vector: Floats) -> float:
    """log p(t_jk | T_j), less its constant; `vector` is T_j at the pairs."""
    away = published.observed[j, k] - expected(published, j, k, vector)
    if published.laplace[j, k] > 0.0:
        return float(-abs(away) / published.laplace[j, k])
    return float(-0.5 * away * away / published.variance[j, k])


@njit(cache=True)
def factor_components(published: Published, j: int, product: Floats, mixing: Floats, lower: Floats) -> bool:
    """The factor of n A C A' + diag v."""
    size = published.components[j]
    joint = np.empty((size, size))
    for k in range(size):
        for other in range(k + 1):
            joint[k, other] = published.n[j] * expected(published, j, other, product[k])
            joint[other, k] = joint[k, other]
        joint[k, k] += mixing[k]
    return bool(factor(joint, size, lower, 1e-15))


@njit(cache=True)
def draw_moments(
    rng: Generator,
    published: Published,
    j: int,
    centre: Floats,
    root: Floats,
    product: Floats,
    mixing: Floats,
    lower: Floats,
    vector: Floats,
) -> None:
    """vector <- T_j at the pairs, given its normal law (centre and C = root root'), the noise variances and t_j."""
    n, size = published.n[j], published.components[j]
    normal = np.empty(len(centre))
    for p in range(len(centre)):
        normal[p] = rng.standard_normal()
    for p in range(len(centre)):
        vector[p] = n * centre[p] + math.sqrt(n) * dot(root[p], normal, p + 1)
    residual = np.empty(size)
    for k in range(size):
        residual[k] = published.observed[j, k] - expected(published, j, k, vector)
        residual[k] -= math.sqrt(mixing[k]) * rng.standard_normal()
    solve(lower, size, residual)
    for k in range(size):
        for p in range(len(centre)):
            vector[p] += n * residual[k] * product[k, p]


@njit(cache=True)
def to_matrix(published: Published, j: int, vector: Floats, moments: Floats) -> None:
    """The moments at the pairs as a symmetric matrix, the constant in its place."""
    moments[0, 0] = published.n[j] * published.block[j]
    for p in range(len(vector)):
        a, b = published.pairs[p, 0], published.pairs[p, 1]
        moments[a, b] = vector[p]
        moments[b, a] = vector[p]


@njit(cache=True)
def from_matrix(published: Published, moments: Floats, vector: Floats) -> None:
    """The moments at the pairs."""
    for p in range(len(vector)):
        vector[p] = moments[published.pairs[p, 0], published.pairs[p, 1]]


@njit(cache=True)
def draw_mixing(rng: Generator, published: Published, j: int, vector: Floats, mixing: Floats) -> None:
    """The mixing variances of Laplace noise given the moments; Gaussian components keep their variance."""
    for k in range(published.components[j]):
        if published.laplace[j, k] > 0.0:
            residual = published.observed[j, k] - expected(published, j, k, vector)
            mixing[k] = draw_mixing_variance(rng, residual, published.laplace[j, k])
