"""Releases that are hard to learn from: every sampler gives a sound posterior or a sentence."""

from dataclasses import replace

import numpy as np
import pytest
from regression_oracles import same_law
from regression_worlds import draw_world

from noisewise.errors import Unsupported
from noisewise.published.regression import fixed_s, gibbs_moments, normal_x
from noisewise.regression import exact_gibbs

NOISE_AWARE = {
    "exact-gibbs": exact_gibbs.sample,
    "gibbs-update": gibbs_moments.sample_update,
    "normal-x": normal_x.sample,
}
ALL = NOISE_AWARE | {"fixed-s": fixed_s.sample, "fixed-s-fast": fixed_s.sample_fast}


def collinear(rng, epsilon):
    """Two covariates that are one: y = 1 + x + e, told as y ~ x + x."""
    problem = draw_world(rng, d=2, n=200, epsilon=epsilon, is_relative=True).problem
    holder = problem.holders[0]
    x = rng.standard_normal(200)
    rows = np.column_stack([np.ones(200), x, x, 1 + x + rng.standard_normal(200)])
    a, b = holder.pairs.T
    noise = np.sqrt(holder.variance) * rng.standard_normal(len(a))
    return replace(problem, holders=(replace(holder, observed=(rows.T @ rows)[a, b] + noise),))


@pytest.mark.parametrize("epsilon", [1.0, 1e4])
@pytest.mark.parametrize("method", list(ALL))
def test_covariates_that_are_one_share_a_coefficient(rng, method, epsilon):
    fit = ALL[method](collinear(rng, epsilon), rng, chains=2, draws=1500, warmup=1000)
    assert fit.non_finite == 0
    assert np.isfinite(fit.theta).all()
    if method in NOISE_AWARE:
        together = fit.theta[..., 1] + fit.theta[..., 2]
        assert abs(together.mean() - 1.0) < 6 * together.std()
        assert fit.theta[..., 1].std() > 1.5 * together.std()


@pytest.mark.parametrize("method", list(NOISE_AWARE))
def test_a_holder_lost_in_noise_changes_nothing(rng, method):
    problem = draw_world(rng, d=2, n=100, epsilon=1.0, holders=2, is_relative=True).problem
    lost = problem.holders[1]
    variance = 1e10 * lost.variance
    lost = replace(lost, variance=variance, observed=lost.observed + np.sqrt(variance) * rng.standard_normal(9))
    run = {"chains": 2, "draws": 6000, "warmup": 1500}
    alone = NOISE_AWARE[method](replace(problem, holders=problem.holders[:1]), rng, **run)
    beside = NOISE_AWARE[method](replace(problem, holders=(problem.holders[0], lost)), rng, **run)
    for i in range(3):
        assert same_law(alone.theta[..., i], beside.theta[..., i])
        assert not same_law(alone.theta[..., i], beside.theta[..., i] + 2 * beside.theta[..., i].std())


def test_more_covariates_than_rows_are_a_sentence_or_a_posterior(rng):
    problem = draw_world(rng, d=6, n=4, epsilon=1.0, is_relative=True).problem
    run = {"chains": 1, "draws": 200, "warmup": 200}
    for method in ("exact-gibbs", "normal-x"):
        with pytest.raises(Unsupported, match="marginal"):
            ALL[method](problem, rng, **run)
    for method in ("gibbs-update", "fixed-s", "fixed-s-fast"):
        assert np.isfinite(ALL[method](problem, rng, **run).theta).all()


def test_fourteen_covariates_and_twenty_holders_are_within_reach(rng):
    problem = draw_world(rng, d=14, n=100, epsilon=10.0, holders=20, intercept=False, is_relative=True).problem
    for method, sampler in ALL.items():
        fit = sampler(problem, rng, chains=1, draws=20, warmup=20)
        assert np.isfinite(fit.theta).all(), method
        assert fit.non_finite == 0, method
