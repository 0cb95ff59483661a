"""The symmetric inverse inside the densities, against LAPACK; and functions that only compiled code may call."""

import math

import numpy as np
import pytest

from noisewise.compilation import njit
from noisewise.regression.coordinates import mixing_variance
from noisewise.regression.density import invert_symmetric


@njit(cache=False)
def inverted(matrix, lower, inverse):
    for i in range(len(matrix)):
        for j in range(i + 1):
            lower[i, j] = matrix[i, j]
    return invert_symmetric(lower, len(matrix), inverse)


@njit(cache=False)
def mixed(u, scale):
    return mixing_variance(u, scale)


def room(size):
    """Memory that was used before: nothing may rest on zeros."""
    return np.full((size, size), 7.0)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 21, 66])
def test_inverse_and_determinant_are_those_of_lapack(size, rng):
    root = rng.standard_normal((size, 2 * size + 3)) * np.exp(rng.normal(0, 2, (size, 1)))
    matrix = root @ root.T
    inverse = room(size)
    found = inverted(matrix, room(size), inverse)
    assert found == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-9 * size)
    scale = np.sqrt(np.diag(matrix))
    np.testing.assert_allclose(inverse * np.outer(scale, scale) @ (matrix / np.outer(scale, scale)), np.eye(size),
                               atol=1e-9)  # fmt: skip
    assert np.array_equal(inverse, inverse.T)


def test_a_singular_or_indefinite_matrix_has_no_density():
    for matrix in (np.ones((3, 3)), np.diag([1.0, -1.0, 2.0]), np.zeros((2, 2)), np.full((2, 2), np.nan)):
        assert inverted(matrix, room(len(matrix)), room(len(matrix))) == math.inf


def test_a_function_for_compiled_code_alone_may_be_called_from_python():
    """It has no wrapper, so that calling its machine code would end the process."""
    for u in (-3.0, 0.0, 0.7, 9.0):
        assert mixing_variance(u, 2.5) == pytest.approx(mixed(u, 2.5), rel=1e-14)
    lower = np.array([[4.0, 0.0], [2.0, 3.0]])
    inverse = room(2)
    assert invert_symmetric(lower, 2, inverse) == pytest.approx(math.log(8))
    np.testing.assert_allclose(inverse, np.linalg.inv([[4.0, 2.0], [2.0, 3.0]]), rtol=1e-14)
