"""The least value on a box, against bounded least squares and a closed form."""

import numpy as np
import pytest
from scipy import optimize

from noisewise.graphical.box_descent import least


def quadratic(matrix, target):
    gram = matrix.T @ matrix

    def function(x):
        left = matrix @ x - target
        return float(left @ left) / 2, matrix.T @ left, np.diag(gram)

    return function


@pytest.mark.parametrize("reach", [0.05, 0.5, 5.0])
def test_it_finds_the_bounded_least_squares_of_another_solver(rng, reach):
    matrix, target = rng.normal(size=(60, 30)), rng.normal(size=60) * 5
    found = least(quadratic(matrix, target), np.zeros(30), reach=reach, tolerance=1e-10)
    oracle = optimize.lsq_linear(matrix, target, bounds=(-reach, reach), method="bvls")
    assert found.settled
    np.testing.assert_allclose(found.x, oracle.x, atol=1e-8)
    assert np.all(np.abs(found.x) <= reach)


def test_without_a_box_it_finds_the_zero_of_the_slope(rng):
    matrix, target = rng.normal(size=(60, 30)), rng.normal(size=60)
    found = least(quadratic(matrix, target), rng.normal(size=30), reach=np.inf, tolerance=1e-10)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(matrix, target)[0], atol=1e-8)


def test_a_start_outside_the_box_is_cut_to_it(rng):
    matrix, target = rng.normal(size=(20, 5)), rng.normal(size=20)
    inside = least(quadratic(matrix, target), np.zeros(5), reach=0.1, tolerance=1e-10)
    outside = least(quadratic(matrix, target), np.full(5, 9.0), reach=0.1, tolerance=1e-10)
    np.testing.assert_allclose(inside.x, outside.x, atol=1e-8)


def test_stopping_at_the_limit_is_said(rng):
    matrix, target = rng.normal(size=(60, 30)), rng.normal(size=60) * 5
    assert not least(quadratic(matrix, target), np.zeros(30), reach=1.0, tolerance=1e-10, limit=1).settled
