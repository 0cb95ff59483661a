"""Wishart matrices, their inverses and the mixing variances of Laplace noise, drawn inside compiled loops.

    W ~ Wishart(nu, L L') = L A A' L',  A lower triangular with A_ii^2 ~ chi^2_{nu - i} and A_ij ~ N(0, 1)  (Bartlett)
    Sigma ~ InverseWishart(L L', nu) = (L A^-T)(L A^-T)',   density |Sigma|^{-(nu + p + 1)/2} e^{-tr(L L' Sigma^-1)/2}
    Laplace(b) = N(0, v) with v ~ Exponential(mean 2 b^2);  1/v | r ~ InverseGaussian(1/(b |r|), 1/b^2)

Matrices here are small, so the factorizations are written out: a call to a library costs more than the work. Every
function writes into the array it is given and takes the generator it draws from.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.types import Floats

Generator = np.random.Generator


@njit(cache=True, fastmath={"reassoc", "contract"})
def dot(one: Floats, other: Floats, size: int) -> float:
    """The inner product of the first `size` entries."""
    total = 0.0
    for i in range(size):
        total += one[i] * other[i]
    return total


@njit(cache=True)
def factor(matrix: Floats, size: int, lower: Floats, tolerance: float) -> bool:
    """L with L L' = matrix, and whether it is positive definite.

    Where a pivot falls under `tolerance` times its diagonal entry the column is left empty, so that L L' still is the
    matrix of a semidefinite one, up to rounding.
    """
    is_definite = True
    for i in range(size):
        row = lower[i]
        for j in range(i):
            row[j] = (matrix[i, j] - dot(row, lower[j], j)) / lower[j, j] if lower[j, j] > 0.0 else 0.0
        pivot = matrix[i, i] - dot(row, row, i)
        if pivot > tolerance * matrix[i, i]:
            row[i] = math.sqrt(pivot)
        else:
            row[i] = 0.0
            is_definite = False
        for j in range(i + 1, size):
            row[j] = 0.0
    return is_definite


@njit(cache=True)
def solve_lower(lower: Floats, size: int, vector: Floats) -> None:
    """vector <- L^-1 vector."""
    for i in range(size):
        vector[i] = (vector[i] - dot(lower[i], vector, i)) / lower[i, i]


@njit(cache=True)
def solve_upper(lower: Floats, size: int, vector: Floats) -> None:
    """vector <- L^-T vector."""
    for i in range(size - 1, -1, -1):
        vector[i] /= lower[i, i]
        for j in range(i):
            vector[j] -= lower[i, j] * vector[i]


@njit(cache=True)
def solve(lower: Floats, size: int, vector: Floats) -> None:
    """vector <- (L L')^-1 vector."""
    solve_lower(lower, size, vector)
    solve_upper(lower, size, vector)


@njit(cache=True)
def log_determinant(lower: Floats, size: int) -> float:
    """log |L L'|."""
    total = 0.0
    for i in range(size):
        total += math.log(lower[i, i])
    return 2.0 * total


@njit(cache=True)
def trace_ratio(lower: Floats, size: int, factor_of: Floats) -> float:
    """tr((L L')^-1 F F') = ||L^-1 F||^2 for a lower triangular F."""
    total = 0.0
    column = np.empty(size)
    for j in range(size):
        for i in range(size):
            column[i] = factor_of[i, j]
        for i in range(j, size):  # the first j entries stay zero
            value = column[i]
            for k in range(j, i):
                value -= lower[i, k] * column[k]
            column[i] = value / lower[i, i]
            total += column[i] * column[i]
    return total


@njit(cache=True)
def multiply_lower(one: Floats, other: Floats, size: int, product: Floats) -> None:
    """The product of two lower triangular matrices, itself lower triangular."""
    for i in range(size):
        for j in range(size):
            total = 0.0
            for k in range(j, i + 1):
                total += one[i, k] * other[k, j]
            product[i, j] = total


@njit(cache=True)
def square(lower: Floats, size: int, product: Floats) -> None:
    """L L'."""
    for i in range(size):
        for j in range(i + 1):
            product[i, j] = dot(lower[i], lower[j], j + 1)
            product[j, i] = product[i, j]


@njit(cache=True)
def draw_bartlett(rng: Generator, degrees: float, size: int, lower: Floats) -> None:
    """A of a standard Wishart matrix A A' with the given degrees of freedom, real and more than size - 1."""
    for i in range(size):
        lower[i, i] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (degrees - i)))
        for j in range(i):
            lower[i, j] = rng.standard_normal()
        for j in range(i + 1, size):
            lower[i, j] = 0.0


@njit(cache=True)
def draw_inverse_wishart(rng: Generator, scale: Floats, degrees: float, drawn: Floats) -> bool:
    """drawn <- InverseWishart(scale, degrees); False, and nothing written, where the scale is not positive definite."""
    size = len(scale)
    lower, bartlett = np.empty((size, size)), np.empty((size, size))
    if not factor(scale, size, lower, 1e-14):
        return False
    draw_bartlett(rng, degrees, size, bartlett)
    row = np.empty(size)
    spread = np.empty((size, size))
    for i in range(size):  # row i of L A^-T solves A r = (row i of L)'
        for k in range(size):
            row[k] = lower[i, k]
        solve_lower(bartlett, size, row)
        spread[i] = row
    for i in range(size):
        for j in range(i + 1):
            drawn[i, j] = dot(spread[i], spread[j], size)
            drawn[j, i] = drawn[i, j]
    return True


@njit(cache=True)
def draw_mixing_variance(rng: Generator, residual: float, scale: float) -> float:
    """v with 1/v ~ InverseGaussian(1/(b |r|), 1/b^2), b the Laplace scale, r the noise.

    Both roots of the usual transformation are written without its subtraction, which cancels where |r| << b.
    """
    ratio = scale / max(abs(residual), 1e-12 * scale)  # mean over shape
    normal = rng.standard_normal()
    phi = ratio * normal * normal
    shrunk = 1.0 + 0.5 * phi + 0.5 * math.sqrt(phi * (4.0 + phi))
    mean = ratio / (scale * scale)
    if rng.random() * (1.0 + 1.0 / shrunk) <= 1.0:
        return shrunk / mean
    return 1.0 / (mean * shrunk)


@njit(cache=True)
def project(moments: Floats, has_intercept: bool) -> bool:
    """Put a matrix of moments into the cone of possible ones, and say whether it was outside.

    Negative eigenvalues become 0 (Higham 1988). With an intercept it is the scatter about the mean that is put right,
    so that the sums and the count stay.
    """
    start = 1 if has_intercept else 0
    size = len(moments) - start
    scatter = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            scatter[i, j] = moments[start + i, start + j]
            if has_intercept:
                scatter[i, j] -= moments[0, 1 + i] * moments[0, 1 + j] / moments[0, 0]
    lower = np.empty((size, size))
    if factor(scatter, size, lower, 0.0):
        return False
    values, vectors = np.linalg.eigh(scatter)
    for i in range(size):
        for j in range(size):
            total = 0.0
            for k in range(size):
                total += max(values[k], 0.0) * vectors[i, k] * vectors[j, k]
            if has_intercept:
                total += moments[0, 1 + i] * moments[0, 1 + j] / moments[0, 0]
            moments[start + i, start + j] = total
    return True
