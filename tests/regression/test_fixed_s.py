"""fixed-s and fixed-s-fast: right without noise in X'X, over-confident with it, and they say so."""

from dataclasses import replace

import numpy as np
import pytest
from regression_oracles import ALARM, agrees, exact_moments, same_law, student_posterior
from regression_worlds import draw_world, pairs_of
from scipy import stats

from noisewise.errors import Unsupported
from noisewise.published.regression import fixed_s
from noisewise.regression import exact_gibbs
from noisewise.regression.problem import GivenX


@pytest.mark.parametrize("intercept", [False, True])
def test_without_noise_it_is_the_posterior_given_xx_and_xy(rng, intercept):
    world = draw_world(rng, d=2, n=50, epsilon=1e4, intercept=intercept, is_relative=True)
    fit = fixed_s.sample(world.problem, rng, chains=2, draws=8000, warmup=1000)
    total, _ = exact_moments(world.problem)
    q = world.problem.q
    total[q, q] = total[:q, q] @ np.linalg.solve(total[:q, :q], total[:q, q])  # z | S is worth q rows
    laws, variance = student_posterior(world.problem.prior, total, q)
    for i, exact in enumerate(laws):
        assert agrees(fit.theta[..., i], exact)
    assert agrees(fit.variance, variance)


def precise_squares(world):
    """The same problem, its X'X published all but exactly."""
    q, holders = world.problem.q, []
    for holder in world.problem.holders:
        b = holder.pairs[:, 1]
        variance = np.where(b < q, 1e-9, holder.variance)
        laplace = np.where(b < q, 0.0, holder.laplace)
        holders.append(replace(holder, variance=variance, laplace=laplace))
    return replace(world.problem, holders=tuple(holders))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_in_xy_is_in_the_model(rng, law):
    """Told that X'X is exact, the exact sampler agrees with taking it as exact."""
    pairs = pairs_of(3, False)
    pairs = pairs[pairs[:, 0] < 2]
    smallest = 0.0
    while smallest < 5.0:  # an X'X that needs no projection
        world = draw_world(rng, d=2, n=200, epsilon=2.0, law=law, intercept=False, is_relative=True, pairs=pairs)
        smallest = np.linalg.eigvalsh(exact_moments(world.problem)[0][:2, :2])[0]
    problem = precise_squares(world)
    one = fixed_s.sample(problem, rng, chains=2, draws=8000, warmup=1000)
    other = exact_gibbs.sample(problem, rng, chains=4, draws=4000, warmup=1000)
    for i in range(2):
        assert same_law(one.theta[..., i], other.theta[..., i])


def coverage(rng, trials, sampler):
    """How often an 80 % interval holds the first of two coefficients, from many holders with much noise."""
    inside = 0
    for _ in range(trials):
        world = draw_world(rng, d=2, n=200, epsilon=0.1, holders=20, intercept=False)
        fit = sampler(world.problem, rng, chains=1, draws=500, warmup=300)
        low, high = np.quantile(fit.theta[..., 0], [0.1, 0.9])
        inside += low < world.theta[0] < high
    return inside


def test_its_intervals_are_too_narrow_where_the_exact_ones_are_not(rng):
    assert stats.binom.cdf(coverage(rng, 150, fixed_s.sample), 150, 0.8) < ALARM
    assert stats.binom.cdf(coverage(rng, 15, exact_gibbs.sample), 15, 0.8) > ALARM


def test_the_fast_law_is_that_of_weighted_least_squares(rng):
    world = draw_world(rng, d=2, n=200, epsilon=5.0, holders=3, intercept=False)
    prior, variance = world.problem.prior, 0.8
    mean, precision = fixed_s.fast_law(world.problem, variance)
    blocks, target, weights = [np.eye(2)], [prior.mean], [np.linalg.inv(prior.precision)]
    for holder in world.problem.holders:
        matrix = np.zeros((3, 3))
        a, b = holder.pairs.T
        matrix[a, b] = matrix[b, a] = holder.observed
        values, vectors = np.linalg.eigh(matrix[:2, :2])
        square = (vectors * np.maximum(values, 0)) @ vectors.T
        noise = holder.variance[(b == 2) & (a < 2)]
        blocks.append(square)
        target.append(matrix[:2, 2])
        weights.append(variance * square + np.diag(noise))
    oracle = sum(block.T @ np.linalg.solve(w, block) for block, w in zip(blocks, weights, strict=True))
    right = sum(block.T @ np.linalg.solve(w, t) for block, w, t in zip(blocks, weights, target, strict=True))
    assert precision == pytest.approx(oracle)
    assert mean == pytest.approx(np.linalg.solve(oracle, right))
    assert np.abs(precision @ mean - mean).max() > 0.1  # the print returns the precision times the mean
    fit = fixed_s.sample_fast(world.problem, rng, chains=2, draws=5000, warmup=0, noise_variance=variance)
    white = (fit.theta.reshape(-1, 2) - mean) @ np.linalg.cholesky(oracle)
    for column in white.T:
        assert stats.kstest(column, stats.norm.cdf).pvalue > ALARM
    assert fit.variance is None


def test_the_crude_variance_is_a_third_of_the_bound_squared_in_working_units(rng):
    shifted = np.array([[1.0, 0, 0], [0.4, 1.3, 0], [-0.6, 0, 0.8]])
    plain = draw_world(rng, d=1, bound=6.0)
    assert fixed_s.crude_variance(plain.problem) == pytest.approx(4.0)
    moved = draw_world(rng, d=1, bound=6.0, maps=[shifted])  # y' = 0.8 y - 0.6 in [-6, 6]: |y| <= 6.6/0.8
    assert fixed_s.crude_variance(moved.problem) == pytest.approx((6.6 / 0.8 / 3) ** 2)


def test_both_say_that_they_are_over_confident_and_need_no_law_of_the_covariates(rng):
    world = draw_world(rng, d=1, n=50, epsilon=1.0)
    problem = replace(world.problem, covariates=GivenX(np.eye(2), np.ones((2,) * 4)))
    for sampler in (fixed_s.sample, fixed_s.sample_fast):
        fit = sampler(problem, rng, chains=2, draws=50, warmup=50)
        assert np.isfinite(fit.theta).all()
        assert any("too narrow" in note for note in fit.notes)


def test_another_holders_units_do_not_matter(rng):
    shifted = np.array([[1.0, 0, 0], [0.4, 1.3, 0], [-0.6, 0, 0.8]])
    world = draw_world(rng, d=1, n=100, epsilon=1e5, maps=[shifted])
    fit = fixed_s.sample_fast(world.problem, rng, chains=1, draws=10, warmup=0, noise_variance=1e-6)
    plain = np.linalg.inv(shifted)
    holder = world.problem.holders[0]
    matrix = np.zeros((3, 3))
    a, b = holder.pairs.T
    matrix[a, b] = matrix[b, a] = holder.observed
    matrix[0, 0] = holder.n
    working = plain @ matrix @ plain.T
    assert fit.details["mean"] == pytest.approx(np.linalg.solve(working[:2, :2], working[:2, 2]), abs=1e-3)


def test_what_they_cannot_do_is_refused(rng):
    run = {"chains": 1, "draws": 10, "warmup": 10}
    learned = draw_world(rng, d=1, is_learned=True)
    with pytest.raises(Unsupported, match="learn"):
        fixed_s.sample_fast(learned.problem, rng, **run)
    missing = draw_world(rng, d=2, intercept=False, pairs=np.array([[0, 0], [0, 1], [0, 2]]))
    for sampler in (fixed_s.sample, fixed_s.sample_fast):
        with pytest.raises(Unsupported, match="xx"):
            sampler(missing.problem, rng, **run)
