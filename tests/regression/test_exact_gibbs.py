"""exact-gibbs: calibrated at every n, against records, importance sampling and the sampler over individuals."""

from dataclasses import replace

import numpy as np
import pytest
from regression_oracles import (
    ALARM,
    agrees,
    exact_moments,
    importance_posterior,
    same_law,
    smallest_rank_p_value,
    student_posterior,
    weighted_mean_agrees,
)
from regression_worlds import draw_world, pairs_of, uniforms
from scipy import stats

from noisewise.errors import Unsupported
from noisewise.published.regression import gibbs_moments
from noisewise.regression import exact_gibbs
from noisewise.regression.problem import GivenX, Problem


def mapping(m, j):
    """Holders in units of their own."""
    matrix = np.diag(np.linspace(0.8, 1.3 + 0.2 * j, m))
    matrix[0] = np.eye(m)[0]
    matrix[1:, 0] = 0.3 * j
    return matrix


def p_value(rng, trials, sampler, *, draws=594, warmup=300, **settings):
    draw = lambda own: draw_world(own, **settings)  # noqa: E731
    return smallest_rank_p_value(rng, trials, draw, sampler, uniforms=uniforms, draws=draws, warmup=warmup)


@pytest.mark.parametrize(
    "world",
    [
        pytest.param({"law": "gaussian"}, id="gaussian"),
        pytest.param({"law": "laplace", "intercept": False, "is_relative": True}, id="laplace-conjugate"),
        pytest.param({"law": "laplace", "is_learned": True, "holders": 2}, id="laplace-learned-two-holders"),
        pytest.param({"n": 24, "block": 3, "maps": [mapping(3, 1)]}, id="averaged-rows-own-units"),
    ],
)
def test_ranks_are_uniform_at_ten_rows_and_epsilon_ten(rng, world):
    settings = {"d": 1, "n": 10, "epsilon": 10.0} | world
    assert p_value(rng, 80, exact_gibbs.sample, **settings) > ALARM


def test_a_sampler_that_is_told_too_little_noise_fails(rng):
    """The test above has power: a noise deviation a third of the true one is seen."""

    def deceived(problem, own, **run):
        holders = tuple(replace(holder, variance=holder.variance / 9) for holder in problem.holders)
        return exact_gibbs.sample(replace(problem, holders=holders), own, **run)

    assert p_value(rng, 150, deceived, d=1, n=100, epsilon=0.5) < ALARM


@pytest.mark.grid(cells=6)
@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        pytest.param({"d": 1}, id="one"),
        pytest.param({"d": 1, "is_learned": True, "law": "laplace", "holders": 5}, id="one-learned-laplace-holders"),
        pytest.param({"d": 2, "is_relative": True}, id="two"),
        pytest.param({"d": 2, "law": "laplace", "holders": 3, "intercept": False}, id="two-laplace-holders"),
        pytest.param({"d": 4, "n": 20}, id="four"),
    ],
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
def test_ranks_are_uniform_at_few_rows_and_any_epsilon(rng, world, epsilon):
    settings = {"n": 10, "epsilon": epsilon} | world
    assert p_value(rng, 300, exact_gibbs.sample, draws=2970, warmup=1000, **settings) > ALARM


@pytest.mark.parametrize(("law", "intercept"), [("gaussian", False), ("laplace", False), ("gaussian", True)])
def test_the_posterior_is_that_of_importance_sampling_from_the_prior(rng, law, intercept):
    while True:  # a release in the prior's bulk, where importance sampling can tell a third of a deviation
        world = draw_world(rng, d=1, n=6, epsilon=4.0, law=law, intercept=intercept, is_relative=True)
        drawn, weight = importance_posterior(rng, world.problem, 300_000)
        if 1 / np.sum(weight**2) > 2000:
            break
    fit = exact_gibbs.sample(world.problem, rng, chains=2, draws=6000, warmup=1000)
    for i in range(world.problem.q):
        assert weighted_mean_agrees(fit.theta[..., i], drawn["theta"][:, i], weight)
        assert weighted_mean_agrees(fit.theta[..., i] ** 2, drawn["theta"][:, i] ** 2, weight)
    assert weighted_mean_agrees(np.log(fit.variance), np.log(drawn["variance"]), weight)
    assert weighted_mean_agrees(np.log(fit.covariance_x[..., 0, 0]), np.log(drawn["spread"]), weight)
    assert not weighted_mean_agrees(np.log(fit.variance) + 0.3, np.log(drawn["variance"]), weight)


@pytest.mark.parametrize(("intercept", "holders", "law"), [(False, 1, "gaussian"), (True, 3, "laplace")])
def test_without_noise_it_is_the_posterior_given_the_records(rng, intercept, holders, law):
    world = draw_world(rng, d=2, n=40, epsilon=1e5, intercept=intercept, holders=holders, law=law, is_relative=True)
    fit = exact_gibbs.sample(world.problem, rng, chains=2, draws=2000, warmup=500)
    laws, variance = student_posterior(world.problem.prior, *exact_moments(world.problem))
    for i, exact in enumerate(laws):
        assert agrees(fit.theta[..., i], exact)
    assert agrees(fit.variance, variance)
    assert not agrees(1.2 * fit.variance, variance)


def test_noise_without_end_gives_the_prior_back(rng):
    world = draw_world(rng, d=1, n=10, epsilon=1e-5, intercept=False, is_relative=True)
    fit = exact_gibbs.sample(world.problem, rng, chains=2, draws=4000, warmup=500)
    prior = world.problem.prior
    assert agrees(fit.variance, stats.invgamma(prior.shape, scale=prior.rate))
    scale = np.sqrt(prior.rate / prior.shape / prior.precision[0, 0])
    assert agrees(fit.theta[..., 0], stats.t(2 * prior.shape, prior.mean[0], scale))


def test_at_a_thousand_rows_the_published_sampler_agrees(rng):
    world = draw_world(rng, d=2, n=1000, epsilon=1.0, holders=2, intercept=False, is_relative=True)
    one = exact_gibbs.sample(world.problem, rng, chains=2, draws=4000, warmup=1000)
    other = gibbs_moments.sample_update(world.problem, rng, chains=2, draws=4000, warmup=1000)
    for i in range(2):
        assert same_law(one.theta[..., i], other.theta[..., i], slack=0.1)
        assert not same_law(one.theta[..., i], other.theta[..., i] + 2 * other.theta[..., i].std(), slack=0.1)


def test_moments_that_no_records_have_and_a_holder_lost_in_noise_are_no_trouble(rng):
    world = draw_world(rng, d=2, n=20, epsilon=0.05, holders=2)
    holders = list(world.problem.holders)
    holders[0].observed[:] = -np.abs(holders[0].observed)
    problem = Problem(tuple(holders), world.problem.prior, world.problem.covariates, True)
    fit = exact_gibbs.sample(problem, rng, chains=2, draws=300, warmup=300)
    assert fit.non_finite == 0
    assert np.isfinite(fit.theta).all()
    assert (fit.variance > 0).all()


def test_parts_that_were_not_published_stay_unknown(rng):
    """Without yy a single holder leaves sigma^2 about as wide as its prior, and theta still has a posterior."""
    pairs = pairs_of(3, False)[:-1]
    pairs = pairs[pairs[:, 0] < 2]
    world = draw_world(rng, d=2, n=50, epsilon=5.0, intercept=False, is_relative=True, pairs=pairs)
    fit = exact_gibbs.sample(world.problem, rng, chains=2, draws=2000, warmup=500)
    assert np.isfinite(fit.theta).all()
    assert np.log(fit.variance).std() > 0.3


def test_the_same_seed_gives_the_same_draws(rng):
    world = draw_world(rng, d=1, n=10)
    one, other = (
        exact_gibbs.sample(world.problem, np.random.default_rng(7), chains=2, draws=700, warmup=600) for _ in range(2)
    )
    assert np.array_equal(one.theta, other.theta)
    assert not np.array_equal(one.theta[0], one.theta[1])


def test_progress_counts_every_step(rng):
    world, seen = draw_world(rng, d=1, n=10), []
    exact_gibbs.sample(world.problem, rng, chains=2, draws=600, warmup=300, progress=lambda *done: seen.append(done))
    assert seen[-1] == (1800, 1800)
    assert seen == sorted(seen)


def test_too_few_rows_and_covariates_without_a_law_are_refused(rng):
    world = draw_world(rng, d=2, n=3, intercept=True)
    with pytest.raises(Unsupported, match="at least 4 rows"):
        exact_gibbs.sample(world.problem, rng, chains=1, draws=10, warmup=10)
    problem = Problem(world.problem.holders, world.problem.prior, GivenX(np.eye(3), np.ones((3,) * 4)), True)
    with pytest.raises(Unsupported, match="normal"):
        exact_gibbs.sample(problem, rng, chains=1, draws=10, warmup=10)
