"""normal-x: a Wishart walk for each holder, z integrated out."""

from dataclasses import replace

import numpy as np
import pytest
from regression_oracles import ALARM, agrees, exact_moments, same_law, smallest_rank_p_value, student_posterior
from regression_worlds import draw_world, pairs_of, uniforms

from noisewise.errors import Unsupported
from noisewise.published.regression import normal_x
from noisewise.regression import exact_gibbs
from noisewise.regression.problem import GivenX


def without_yy(m, intercept):
    pairs = pairs_of(m, intercept)
    return pairs[pairs[:, 0] < m - 1]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"intercept": False}, id="as-published"),
        pytest.param({"intercept": True, "law": "laplace", "is_relative": True}, id="intercept-laplace-conjugate"),
        pytest.param({"intercept": True, "n": 60, "block": 2, "is_learned": True}, id="averaged-learned"),
    ],
)
def test_ranks_are_uniform(rng, settings):
    settings = {"d": 1, "n": 30, "epsilon": 3.0, "holders": 2} | settings
    settings["pairs"] = without_yy(2 + settings["intercept"], settings["intercept"])
    draw = lambda own: draw_world(own, **settings)  # noqa: E731
    p_value = smallest_rank_p_value(rng, 60, draw, normal_x.sample, uniforms=uniforms, draws=1980, warmup=400)
    assert p_value > ALARM


@pytest.mark.parametrize("intercept", [False, True])
def test_without_noise_it_is_the_posterior_given_xx_and_xy(rng, intercept):
    """z | S says as much as q rows do: S^{-1/2} z = S^{1/2} theta + e, so that y'y is z'S^-1 z and n is q."""
    world = draw_world(rng, d=2, n=50, epsilon=1e4, intercept=intercept, is_relative=True)
    fit = normal_x.sample(world.problem, rng, chains=4, draws=8000, warmup=2000)
    total, _ = exact_moments(world.problem)
    q = world.problem.q
    total[q, q] = total[:q, q] @ np.linalg.solve(total[:q, :q], total[:q, q])
    laws, variance = student_posterior(world.problem.prior, total, q)
    for i, exact in enumerate(laws):
        assert agrees(fit.theta[..., i], exact)
    assert agrees(fit.variance, variance)
    assert not agrees(1.5 * fit.variance, variance)
    assert any("not used" in note for note in fit.notes)
    assert any("single holder" in note for note in fit.notes)


def test_it_agrees_with_the_exact_sampler_on_what_both_use(rng):
    """Without yy both know the same: a holder in units of its own, another unlike it."""
    shifted = np.array([[1.0, 0, 0], [0.4, 1.3, 0], [-0.6, 0, 0.8]])
    settings = {"d": 1, "n": 25, "epsilon": 4.0, "holders": 2, "maps": [np.eye(3), shifted]}
    world = draw_world(rng, pairs=without_yy(3, True), **settings)
    one = normal_x.sample(world.problem, rng, chains=2, draws=10_000, warmup=1000)
    other = exact_gibbs.sample(world.problem, rng, chains=2, draws=4000, warmup=1000)
    for a, b in ((one.theta, other.theta), (one.mean_x, other.mean_x)):
        for i in range(a.shape[-1]):
            assert same_law(a[..., i], b[..., i])


def test_its_walks_are_tuned(rng):
    world = draw_world(rng, d=2, n=1000, epsilon=1.0, holders=3)
    fit = normal_x.sample(world.problem, rng, chains=2, draws=2000, warmup=2000)
    for name, rate in fit.details["acceptance"].items():
        assert 0.15 < rate < 0.5, name


def test_impossible_moments_and_a_holder_lost_in_noise_are_no_trouble(rng):
    world = draw_world(rng, d=3, n=20, epsilon=0.05, holders=2)
    fit = normal_x.sample(world.problem, rng, chains=2, draws=300, warmup=300)
    assert fit.non_finite == 0
    assert np.isfinite(fit.theta).all()
    assert (fit.variance > 0).all()


def test_what_it_cannot_do_is_refused(rng):
    run = {"chains": 1, "draws": 10, "warmup": 10}
    world = draw_world(rng, d=3, n=3, intercept=True)
    with pytest.raises(Unsupported, match="at least 4 rows"):
        normal_x.sample(world.problem, rng, **run)
    with pytest.raises(Unsupported, match="normal"):
        normal_x.sample(replace(world.problem, covariates=GivenX(np.eye(4), np.ones((4,) * 4))), rng, **run)
    only_xx = draw_world(rng, d=1, n=9, intercept=False, pairs=np.array([[0, 0]]))
    with pytest.raises(Unsupported, match="xy"):
        normal_x.sample(only_xx.problem, rng, **run)
