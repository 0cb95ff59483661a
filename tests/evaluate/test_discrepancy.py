"""Distances equal brute force, and notice a difference."""

import math

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise.evaluate.discrepancy import mmd_squared, uniformity


def kernel(a, b):
    return math.exp(-sum((s - t) ** 2 for s, t in zip(a, b, strict=True)) / 2)


def brute_force(x, y, *, biased):
    """Loops over pairs, straight from the definition."""

    def mean(one, two, same):
        pairs = [(i, j) for i in range(len(one)) for j in range(len(two)) if biased or not same or i != j]
        return math.fsum(kernel(one[i], two[j]) for i, j in pairs) / len(pairs)

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("m", "n", "size"), [(2, 2, 1), (13, 7, 1), (30, 41, 3), (230, 9, 2)])
def test_maximum_mean_discrepancy_equals_loops(m, n, size, biased):
    rng = np.random.default_rng()
    x, y = rng.standard_normal((m, size)), 0.5 + 2 * rng.standard_normal((n, size))
    assert mmd_squared(x, y, biased=biased) == pytest.approx(brute_force(x, y, biased=biased), abs=1e-12)


def test_flat_arrays_are_one_column_and_equal_draws_have_no_biased_distance():
    x = np.random.default_rng().standard_normal(50)
    assert mmd_squared(x, x + 1) == mmd_squared(x[:, None], x[:, None] + 1)
    assert mmd_squared(x, x, biased=True) == pytest.approx(0, abs=1e-12)


def test_the_unbiased_estimate_is_unbiased_and_the_biased_one_is_not():
    """Two normal laws a distance 1 apart: E k = (1 + 2 s^2)^-1/2 exp(-d^2/(2(1 + 2 s^2))), s = 1."""
    rng = np.random.default_rng()
    truth = 2 / math.sqrt(3) * (1 - math.exp(-1 / 6))
    repeats = 4000
    draws = rng.standard_normal((repeats, 2, 6)) + np.array([0.0, 1.0])[:, None]
    for biased, is_right in ((False, True), (True, False)):
        values = np.array([mmd_squared(x, y, biased=biased) for x, y in draws])
        error = abs(values.mean() - truth) / (values.std(ddof=1) / math.sqrt(repeats))
        assert bool(error < 5) is is_right


def test_draws_that_cannot_be_compared_are_refused():
    x = np.zeros((5, 2))
    for bad in (np.zeros((5, 3)), np.full((5, 2), np.nan), np.zeros((0, 2)), np.zeros((2, 2, 2))):
        with pytest.raises(InvalidArgument, match="y"):
            mmd_squared(x, bad)
    with pytest.raises(InvalidArgument, match="two draws"):
        mmd_squared(x, np.zeros((1, 2)))


@pytest.mark.parametrize("m", [1, 2, 10, 500])
def test_distance_from_uniform_equals_another_library(m):
    values = np.random.default_rng().random(m) ** 1.3
    expected = stats.kstest(values, "uniform", method="exact")
    found = uniformity(values)
    assert found.distance == pytest.approx(expected.statistic, abs=1e-14)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)


def test_the_p_value_of_two_draws_by_hand():
    """P(D >= d) for m = 2, by integrating over the unit square."""
    found = uniformity([0.1, 0.35])

    def is_as_far(a, b):
        low, high = min(a, b), max(a, b)
        return max(0.5 - low, low, 1 - high, high - 0.5, abs(0.5 - high)) >= found.distance

    grid = (np.arange(1000) + 0.5) / 1000
    share = np.mean([[is_as_far(a, b) for a in grid[::5]] for b in grid[::5]])
    assert found.distance == pytest.approx(0.65)
    assert found.p_value == pytest.approx(share, abs=0.02)


def test_values_outside_the_unit_interval_are_refused():
    for bad in ([], [0.5, 1.2], [-0.1], [math.nan, 0.3]):
        with pytest.raises(InvalidArgument, match="values"):
            uniformity(bad)
