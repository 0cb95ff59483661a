"""The published Gibbs samplers over noisy sufficient statistics, corrected."""

from dataclasses import replace

import numpy as np
import pytest
from regression_oracles import ALARM, agrees, exact_moments, smallest_rank_p_value, student_posterior
from regression_worlds import draw_world, pairs_of, uniforms
from scipy import stats

from noisewise.errors import Unsupported
from noisewise.published.regression import gibbs_moments
from noisewise.regression.problem import GivenX

RUN = {"chains": 2, "draws": 2000, "warmup": 500}


def given_rows(world, rng, size=4000):
    """Moments of ([1,] x) as a public sample would give them."""
    o = int(world.problem.intercept)
    root = np.linalg.cholesky(world.covariance_x)
    x = world.mean_x + rng.standard_normal((size, len(root))) @ root.T
    u = np.column_stack([np.ones((size, o)), x])
    return GivenX(u.T @ u / size, np.einsum("na,nb,nc,nd->abcd", u, u, u, u) / size)


def with_fourth(world, rng):
    """The same problem with fourth moments of its covariates released, up to a little noise."""
    moments, q, o = given_rows(world, rng).fourth, world.problem.q, int(world.problem.intercept)
    n = world.problem.holders[0].n
    fourth = {
        index: (n * moments[index], 1e-6)
        for index in np.ndindex(*(q,) * 4)
        if list(index) == sorted(index) and not (o and index[1] == 0)
    }
    return replace(world.problem, holders=tuple(replace(holder, fourth=fourth) for holder in world.problem.holders))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("method", ["update", "prior", "noisy"])
def test_without_noise_every_variant_is_the_posterior_given_the_records(rng, method, intercept):
    world = draw_world(rng, d=2, n=400, epsilon=1e5, intercept=intercept, is_relative=True, holders=2)
    problem = world.problem
    if method == "prior":
        problem = replace(problem, covariates=given_rows(world, rng))
    if method == "noisy":
        problem = with_fourth(world, rng)
    fit = getattr(gibbs_moments, f"sample_{method}")(problem, rng, **RUN)
    laws, variance = student_posterior(problem.prior, *exact_moments(problem))
    for i, exact in enumerate(laws):
        assert agrees(fit.theta[..., i], exact)
        assert not agrees(fit.theta[..., i] + exact.std(), exact)
    assert agrees(fit.variance, variance)
    assert fit.non_finite == 0
    assert (fit.covariance_x is None) == (method != "update")


def test_the_distributed_form_without_noise_is_the_posterior_given_all_records(rng):
    """Its printed b_n, without b_0 and with a half on y'y alone, would be far off."""
    world = draw_world(rng, d=3, n=60, epsilon=1e5, intercept=False, is_relative=True, holders=4)
    fit = gibbs_moments.sample_distributed(world.problem, rng, **RUN)
    laws, variance = student_posterior(world.problem.prior, *exact_moments(world.problem))
    for i, exact in enumerate(laws):
        assert agrees(fit.theta[..., i], exact)
    assert agrees(fit.variance, variance)


def test_update_is_calibrated_at_a_hundred_rows(rng):
    """Normal covariates with an intercept, Laplace noise, two holders with moments in blocks of rows."""
    settings = {"d": 1, "n": 200, "block": 2, "epsilon": 1.0, "law": "laplace", "holders": 2, "is_relative": True}
    draw = lambda own: draw_world(own, **settings)  # noqa: E731
    p_value = smallest_rank_p_value(rng, 80, draw, gibbs_moments.sample_update, uniforms=uniforms, draws=1980)
    assert p_value > ALARM


def test_prior_moments_of_covariates_are_used_where_none_are_given(rng):
    world = draw_world(rng, d=1, n=200, epsilon=3.0, intercept=True, is_relative=True)
    wide = replace(world.problem, covariates=replace(world.problem.covariates, degrees=12.0))
    fit = gibbs_moments.sample_prior(wide, rng, **RUN)
    assert np.isfinite(fit.theta).all()
    assert any("not learned" in note for note in fit.notes)
    with pytest.raises(Unsupported, match=r"NormalCovariates\(.*degrees=\) above 4"):
        gibbs_moments.sample_prior(replace(wide, covariates=replace(world.problem.covariates, degrees=3.0)), rng, **RUN)


def test_noise_without_end_is_not_taken_for_data(rng):
    """The posterior of the variance stays near its prior, far from what the noisy moments say."""
    world = draw_world(rng, d=1, n=50, epsilon=1e-4, intercept=False, is_relative=True)
    fit = gibbs_moments.sample_update(world.problem, rng, chains=2, draws=4000, warmup=500)
    prior = stats.invgamma(world.problem.prior.shape, scale=world.problem.prior.rate)
    assert prior.ppf(0.2) < np.median(fit.variance) < prior.ppf(0.8)


def test_impossible_moments_are_projected_and_said_so(rng):
    world = draw_world(rng, d=2, n=10, epsilon=0.2, intercept=True, is_relative=True)
    fit = gibbs_moments.sample_update(world.problem, rng, **RUN)
    assert fit.non_finite == 0
    assert np.isfinite(fit.theta).all()
    assert fit.details["projected"] > 0
    assert any("projected" in note for note in fit.notes)


def test_parts_that_were_not_published_and_a_binary_covariate_are_no_trouble(rng):
    pairs = pairs_of(3, True)[:-1]
    world = draw_world(rng, d=1, n=300, epsilon=3.0, intercept=True, is_relative=True, pairs=pairs)
    u = np.column_stack([np.ones(1000), np.arange(1000) < 300])
    binary = GivenX(u.T @ u / 1000, np.einsum("na,nb,nc,nd->abcd", u, u, u, u) / 1000)
    fit = gibbs_moments.sample_prior(replace(world.problem, covariates=binary), rng, **RUN)
    assert np.isfinite(fit.theta).all()
    assert fit.non_finite == 0


@pytest.mark.parametrize("method", ["update", "prior", "noisy", "distributed"])
def test_a_prior_that_is_not_conjugate_is_refused(rng, method):
    world = draw_world(rng, d=1, intercept=False)
    with pytest.raises(Unsupported, match="NormalInverseGamma"):
        getattr(gibbs_moments, f"sample_{method}")(world.problem, rng, **RUN)


def test_what_a_method_was_not_published_for_is_refused(rng):
    world = draw_world(rng, d=1, is_relative=True)
    with pytest.raises(Unsupported, match="intercept=False"):
        gibbs_moments.sample_distributed(world.problem, rng, **RUN)
    with pytest.raises(Unsupported, match="fourth"):
        gibbs_moments.sample_noisy(world.problem, rng, **RUN)
    partial = draw_world(rng, d=1, is_relative=True, intercept=False, pairs=pairs_of(2, False)[:2])
    with pytest.raises(Unsupported, match="yy"):
        gibbs_moments.sample_distributed(partial.problem, rng, **RUN)
    with pytest.raises(Unsupported, match="normal"):
        gibbs_moments.sample_update(replace(world.problem, covariates=given_rows(world, rng)), rng, **RUN)
