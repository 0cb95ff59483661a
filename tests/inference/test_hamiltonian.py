"""Promises of Hamiltonian Monte Carlo: it leaves its target alone, learns its metric, and hides nothing."""

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from noisewise.inference import hamiltonian
from noisewise.inference.hamiltonian import sample, walk_of

ALARM = 1e-6


@njit
def banana(position, data, gradient):
    """x ~ N(0, 1), y | x ~ N(x^2, 1/4), all at inverse temperature data[0]."""
    x, y = position
    away = y - x * x
    gradient[0] = data[0] * (-x + 8.0 * x * away)
    gradient[1] = data[0] * -4.0 * away
    return data[0] * (-0.5 * x * x - 2.0 * away * away)


def draw_banana(rng, count):
    x = rng.standard_normal(count)
    return np.column_stack([x, x**2 + 0.5 * rng.standard_normal(count)])


BANANA_WALK = walk_of(banana, "banana_walk")


def p_values_after(rng, steps, temperature):
    """Of the place of 1500 chains that begin at exact draws, and the share of chains that moved."""
    starts = draw_banana(rng, 1500)
    trace = sample(rng, BANANA_WALK, np.array([temperature]), starts, factor=0.4 * np.eye(2), warmup=0, draws=steps)
    end = trace.positions[:, -1]
    scores = np.column_stack([end[:, 0], (end[:, 1] - end[:, 0] ** 2) * 2])
    moved = np.mean(np.any(end != starts, axis=1))
    return min(stats.kstest(column, "norm").pvalue for column in scores.T), moved


def test_a_step_leaves_the_target_as_it_is(rng):
    p_value, moved = p_values_after(rng, 10, 1.0)
    assert p_value > ALARM / 2
    assert moved > 0.9  # standing still would pass too


def test_a_density_that_is_too_flat_is_caught_by_the_same_test(rng):
    p_value, _ = p_values_after(rng, 30, 0.5)
    assert p_value < ALARM / 2


def test_warm_up_learns_the_shape_of_a_narrow_normal_law(rng):
    rotation = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    covariance = rotation @ np.diag([1e-3, 1e-2, 1.0, 2.0, 10.0]) @ rotation.T
    precision = np.linalg.inv(covariance)

    def normal(position, data, gradient):
        gradient[:] = -data @ position
        return 0.5 * float(position @ gradient)

    walk = walk_of(normal, "narrow_walk")
    starts = rng.standard_normal((2, 5)) @ np.linalg.cholesky(covariance).T
    trace = sample(rng, walk, precision, starts, factor=0.1 * np.eye(5), warmup=400, draws=400)
    learned = trace.factor @ trace.factor.T
    spread = np.linalg.eigvals(np.linalg.solve(covariance, learned)).real
    assert spread.max() / spread.min() < 10  # it was 1e4
    assert trace.leaps < 8
    assert np.all((trace.acceptance > 0.6) & (trace.acceptance < 0.99))
    squares = np.einsum("cdi,ij,cdj->cd", trace.positions, precision, trace.positions)
    assert abs(squares.mean() - 5) < 6 * math.sqrt(10 / 100)  # at least 100 of 800 draws are worth one each


def test_a_compiled_and_a_plain_density_walk_the_same_way():
    starts, data = np.array([[0.3, -0.2]]), np.array([1.0])
    walks = BANANA_WALK, walk_of(banana.py_func, "plain_banana_walk")
    runs = [
        sample(np.random.default_rng(7), walk, data, starts, factor=np.eye(2), warmup=50, draws=30) for walk in walks
    ]
    np.testing.assert_allclose(runs[0].positions, runs[1].positions, rtol=1e-6)
    assert len(np.unique(runs[0].positions[0, :, 0])) > 10


def test_densities_that_are_no_number_are_counted_and_never_visited(rng):
    def half_known(position, data, gradient):
        gradient[:] = -position
        return -0.5 * float(position @ position) if position[0] < 0.5 else math.nan

    starts = np.zeros((3, 1))
    trace = sample(rng, walk_of(half_known, "half_known"), None, starts, factor=np.eye(1), warmup=50, draws=100)
    assert trace.non_finite.sum() > 0
    assert np.array_equal(trace.divergent, trace.non_finite)
    assert trace.positions.max() < 0.5


def test_a_run_can_be_continued_thinned_and_followed(rng):
    reports = []
    walk, data = BANANA_WALK, np.array([1.0])
    trace = sample(
        rng, walk, data, draw_banana(rng, 2), factor=np.eye(2), warmup=30, draws=20, thin=3,
        progress=lambda done, total: reports.append((done, total)),
    )  # fmt: skip
    assert reports[-1] == (2 * (30 + 60), 2 * (30 + 60))
    assert trace.positions.shape == (2, 20, 2)
    end = trace.positions[:, -1].copy()
    assert np.array_equal([chain.position for chain in trace.chains], end)
    more = hamiltonian.drawn(rng, walk, data, trace.chains, draws=5)
    assert more.positions.shape == (2, 5, 2)
    assert np.array_equal(more.factor, trace.factor)


@pytest.mark.parametrize("warmup", [0, 5, 40])
def test_the_same_seed_gives_the_same_draws(warmup):
    runs = [
        sample(np.random.default_rng(3), BANANA_WALK, np.array([1.0]), np.zeros((2, 2)), factor=np.eye(2),
               warmup=warmup, draws=10).positions
        for _ in range(2)
    ]  # fmt: skip
    assert np.array_equal(*runs)
