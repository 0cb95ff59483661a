"""Moments of clamped and shortened rows, against simulation and, where nothing is changed, the closed form."""

import math
from dataclasses import replace

import numpy as np
import pytest
from regression_worlds import draw_world, published
from scipy import stats

from noisewise.regression import points
from noisewise.regression import sphere as sphere_module
from noisewise.regression.groups import BY_BANK, RADIALLY, group_holders
from noisewise.regression.moments import at_pairs, block_second, normal_moment_covariance
from noisewise.regression.points import base_points, directions
from noisewise.regression.radial import radial_moments
from noisewise.regression.shortened import MOST_POINTS, POINTS, bank_moments, make_bank
from noisewise.regression.sphere import make_sphere

ALARM = 1e-6


def moments(problem, mean, spread, how):
    """M and C by the bank or along directions."""
    groups, _ = group_holders(problem, [how] * len(problem.holders))
    size = len(problem.holders[0].pairs)
    second, covariance = np.zeros((problem.m, problem.m)), np.zeros((size, size))
    first, dimension = int(problem.intercept), problem.d + 1
    if how == RADIALLY:
        sphere = make_sphere(dimension, m=problem.m, pairs=size, is_used=True)
        assert radial_moments(0, groups, sphere, mean, spread, first, second, covariance)
    else:
        bank = make_bank(dimension, m=problem.m, pairs=size)
        bank_moments(0, groups, bank, mean, spread, first, second, covariance)
    return second, covariance


def row_law(rng, problem):
    """The mean of a row (1, x, y) and its factor: x and y are affine in d + 1 normal variables."""
    size = problem.d + 1
    factor = np.tril(rng.standard_normal((size, size)), -1) + np.diag(rng.uniform(0.5, 1.5, size))
    if not problem.intercept:
        return np.zeros(size), factor
    return np.append(1.0, 0.5 * rng.standard_normal(size)), np.vstack([np.zeros(size), factor])


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_the_bank_has_the_moments_of_a_normal_law_up_to_the_fifth(dimension):
    z, weights = base_points(dimension, POINTS.get(dimension, MOST_POINTS))
    assert np.all(weights > 0)
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights @ z, 0.0, atol=1e-13)
    np.testing.assert_allclose((z * weights[:, None]).T @ z, np.eye(dimension), atol=1e-12)
    fourth = np.einsum("s,si,sj,sk,sl->ijkl", weights, z, z, z, z, optimize=True)
    one = np.eye(dimension)
    isserlis = np.multiply.outer(one, one)
    isserlis = isserlis + isserlis.transpose(0, 2, 1, 3) + isserlis.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(fourth, isserlis, atol=1e-11)


def test_in_many_dimensions_the_bank_still_has_the_second_moments():
    z, weights = base_points(15, 4096)
    assert np.all(weights > 0)
    np.testing.assert_allclose((z * weights[:, None]).T @ z, np.eye(15), atol=1e-11)


@pytest.mark.parametrize("dimension", [2, 3])
def test_directions_have_the_moments_of_the_sphere(dimension):
    unit, weights = directions(dimension)
    assert np.all(weights > 0)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0)
    np.testing.assert_allclose(weights @ unit, 0.0, atol=1e-13)
    np.testing.assert_allclose((unit * weights[:, None]).T @ unit, np.eye(dimension) / dimension, atol=1e-12)
    fourth = weights @ unit[:, 0] ** 4, weights @ (unit[:, 0] ** 2 * unit[:, 1] ** 2)
    np.testing.assert_allclose(fourth, np.array([3, 1]) / (dimension * (dimension + 2)), atol=1e-12)


@pytest.mark.parametrize("how", [BY_BANK, RADIALLY])
@pytest.mark.parametrize(("intercept", "block"), [(True, 1), (False, 1), (True, 4), (False, 3)])
def test_where_nothing_is_shortened_the_closed_form_is_found(rng, how, intercept, block):
    problem = draw_world(rng, d=1, n=12, intercept=intercept, shrink=1e6, bound=1e6, block=block).problem
    mean, spread = row_law(rng, problem)
    second, covariance = moments(problem, mean, spread, how)
    # A block of normal rows is a normal row with sqrt(k) times the mean.
    expected = block_second(spread @ spread.T + np.outer(mean, mean), mean, block)
    closed = at_pairs(normal_moment_covariance(expected, math.sqrt(block) * mean), problem.holders[0].pairs)
    np.testing.assert_allclose(second, expected, atol=1e-6 * expected.max())
    np.testing.assert_allclose(covariance, closed, atol=1e-6 * closed.max())


CHANGES = {
    "shortened": (RADIALLY, 1, 1, 1.5, 1e6, 1e-4),
    "shortened, two covariates": (RADIALLY, 2, 1, 1.4, 1e6, 1e-3),
    "shortened, in blocks": (RADIALLY, 1, 3, 1.5, 1e6, 1e-4),
    "shortened, four covariates": (RADIALLY, 4, 1, 2.0, 1e6, 2e-2),
    "shortened, three covariates, in blocks": (RADIALLY, 3, 3, 1.8, 1e6, 2e-2),
    "clamped": (BY_BANK, 1, 1, None, 0.8, 3e-3),
    "clamped and shortened, in blocks": (BY_BANK, 1, 3, 1.5, 1.2, 3e-3),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_rows_have_the_moments_that_simulation_finds(rng, name):
    how, d, block, shrink, bound, accuracy = CHANGES[name]
    problem = draw_world(rng, d=d, n=12, shrink=shrink, bound=bound, block=block).problem
    mean, spread = row_law(rng, problem)
    second, covariance = moments(problem, mean, spread, how)
    rows = published(mean + rng.standard_normal((300_000, d + 1)) @ spread.T, True, bound, shrink, block)
    a, b = problem.holders[0].pairs.T
    products = rows[:, a] * rows[:, b]
    sd = products.std(axis=0)
    allowed = (6 / math.sqrt(len(rows)) + accuracy) * sd  # the rule's own accuracy, in a product's spread
    assert np.all(np.abs(products.mean(axis=0) - second[a, b]) < allowed)
    centred = (products - products.mean(axis=0)) / sd
    correlation = centred.T @ centred / len(rows)
    errors = np.sqrt((centred**2).T @ (centred**2) / len(rows)) / math.sqrt(len(rows))
    assert np.all(np.abs(covariance / np.outer(sd, sd) - correlation) < 6 * errors + 5 * accuracy)
    # The closed form of rows as they were is far off, and would be caught.
    plain = block_second(spread @ spread.T + np.outer(mean, mean), mean, block)[a, b]
    assert np.any(np.abs(products.mean(axis=0) - plain) > allowed)


def far_rows(rng, d, far, **world):
    """Rows whose h is `far` long in any direction, half of them shortened: problem, mean and factor, and many rows."""
    spread = np.tril(rng.standard_normal((d + 1, d + 1)), -1) + np.diag(rng.uniform(0.5, 1.5, d + 1))
    direction = rng.standard_normal(d + 1)
    mean = spread @ direction * far / np.linalg.norm(direction)
    rows = mean + rng.standard_normal((60_000, d + 1)) @ spread.T
    shrink = float(np.median(np.linalg.norm(rows, axis=1)))
    problem = draw_world(rng, d=d, n=12, shrink=shrink, bound=1e9, **world).problem
    return problem, np.append(1.0, mean), np.vstack([np.zeros(d + 1), spread]), rows, shrink


@pytest.mark.parametrize("far", [0.0, 3.0, 6.0, 12.0, 21.0, 41.0, 104.0, 1e3, 1e4])
@pytest.mark.parametrize("d", [1, 2])
def test_however_far_from_the_origin_shortened_rows_have_the_moments_that_simulation_finds(rng, d, far):
    problem, mean, spread, rows, shrink = far_rows(rng, d, far)
    second, covariance = moments(problem, mean, spread, RADIALLY)
    rows = published(np.column_stack([np.ones(len(rows)), rows]), True, 1e9, shrink, 1)
    a, b = problem.holders[0].pairs.T
    products = rows[:, a] * rows[:, b]
    sd = np.where(a + b > 0, products.std(axis=0), 1.0)
    centred = (products - second[a, b]) / sd
    pairs = np.einsum("ip,iq->ipq", centred, centred).reshape(len(rows), -1)
    quantile = stats.norm.isf(ALARM / (2 * (sd.size + sd.size**2)))
    rounding = 1e-5  # of C where rows are 10^4 standard deviations from 0
    error = quantile * centred.std(axis=0) / math.sqrt(len(rows)) + rounding
    assert np.all(np.abs(centred.mean(axis=0)) < error)
    error = quantile * pairs.std(axis=0) / math.sqrt(len(rows)) + rounding
    assert np.all(np.abs(pairs.mean(axis=0) - (covariance / np.outer(sd, sd)).ravel()) < error)
    # Rows as they were before would be caught.
    plain = (np.outer(mean, mean) + spread @ spread.T)[a, b]
    assert np.any(np.abs(plain - second[a, b]) > 0.05 * sd)


@pytest.mark.parametrize(("d", "accuracy"), [(1, 1e-5), (2, 2e-3)])
def test_four_times_as_many_directions_find_the_same_moments_near_and_far(rng, monkeypatch, d, accuracy):
    """So nothing shows, to a sampler that needs a smooth density, of how directions gather as h grows."""
    for far in np.concatenate([np.linspace(1, 12, 8), np.geomspace(15, 1e3, 5)]):
        problem, mean, spread, _, _ = far_rows(rng, d, far, block=2)
        found = moments(problem, mean, spread, RADIALLY)
        with monkeypatch.context() as patched:
            for name in ("ANGLES", "TURNS", "HEIGHTS"):
                patched.setattr(points, name, 4 * getattr(points, name))
            patched.setattr(sphere_module, "directions", points.directions.__wrapped__)
            finer = moments(problem, mean, spread, RADIALLY)
        a, b = problem.holders[0].pairs.T
        sd = np.sqrt(np.where(a + b > 0, np.diag(finer[1]), 1.0))
        np.testing.assert_array_less(np.abs(found[0] - finer[0])[a, b] / sd, accuracy)
        np.testing.assert_array_less(np.abs(found[1] - finer[1]) / np.outer(sd, sd), accuracy)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_rows_beyond_all_numbers_have_no_moments_and_raise_nothing(rng, d):
    problem = draw_world(rng, d=d, n=12, shrink=1.5, bound=1e6).problem
    groups, _ = group_holders(problem, [RADIALLY])
    size = len(problem.holders[0].pairs)
    sphere = make_sphere(d + 1, m=problem.m, pairs=size, is_used=True)
    mean, spread = row_law(rng, problem)
    outcomes = set()
    for exponent in (0, 5, 10, 18, 23, 100, 160, 200, 300):
        for lengthen, widen in ((10.0**exponent, 1.0), (1.0, 10.0**-exponent), (1.0, 10.0**exponent), (0.0, 0.0)):
            second, covariance = np.zeros((problem.m, problem.m)), np.zeros((size, size))
            far = np.append(1.0, lengthen * mean[1:])
            with np.errstate(all="ignore"):  # compiled code, as which it runs elsewhere, says nothing either
                has_moments = radial_moments(0, groups, sphere, far, widen * spread, 1, second, covariance)
            assert np.all(np.isfinite(second))
            assert np.all(np.isfinite(covariance))
            assert np.all(np.abs(second) <= 1.5**2 * (1 + 1e-9)), (exponent, lengthen, widen)
            outcomes.add(has_moments)
    assert outcomes == {True, False}


def test_along_directions_and_from_the_bank_the_moments_agree(rng):
    problem = draw_world(rng, d=2, shrink=1.3, bound=1e6, block=2).problem
    mean, spread = row_law(rng, problem)
    found = [moments(problem, mean, spread, how) for how in (RADIALLY, BY_BANK)]
    scale = np.abs(found[0][1]).max()
    np.testing.assert_allclose(found[0][0], found[1][0], atol=2e-2)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=5e-2 * scale)


@pytest.mark.parametrize("how", [BY_BANK, RADIALLY])
def test_a_covariance_is_positive_even_when_every_row_is_shortened(rng, how):
    problem = draw_world(rng, d=2, shrink=0.05, bound=1e6).problem
    mean, spread = row_law(rng, problem)
    _, covariance = moments(problem, mean, 10 * spread, how)
    assert np.linalg.eigvalsh(covariance).min() > -1e-14


def test_records_that_are_refused_are_not_clamped(rng):
    problem = draw_world(rng, d=1, bound=0.1).problem
    refused = replace(problem, holders=(replace(problem.holders[0], clamps=False),))
    mean, spread = row_law(rng, problem)
    second, _ = moments(refused, mean, spread, BY_BANK)
    np.testing.assert_allclose(second, spread @ spread.T + np.outer(mean, mean), atol=1e-11)
