"""Fits of shortened rows that much noise leaves anywhere: no crash, and the posterior that brute force finds."""

import numpy as np
import pytest
from scipy import stats

import noisewise as nw

ALARM = 1e-6
TRUTH = {"intercept": 0.5, "x": 1.0, "z": 0.5, "noise_variance": 0.5}


def belief_of(features, strength=5.0):
    return nw.LinearRegression(
        features,
        "y",
        coefficients=stats.norm(0, 2),
        noise=stats.invgamma(3, scale=2),
        covariates=nw.NormalCovariates(0, strength, 8, 8),
    )


def noisy_release(features, guarantee, seed):
    """500 rows shortened to the norm 2."""
    columns = [*features, "y"]
    schema = nw.Schema({name: nw.Bounded(-100, 100) for name in columns}, n=500, neighbours="change-one")
    own = {"scale": dict.fromkeys(columns, 1), "centre": dict.fromkeys(columns, 0)}
    plan = nw.plan(nw.Moments(features, "y", **own, shrink=2), schema, guarantee=guarantee)
    truth = {name: TRUTH[name] for name in ("intercept", *features, "noise_variance")}
    return nw.simulate(plan, belief_of(features), at=truth, seed=seed)


@pytest.mark.parametrize(("features", "fits"), [(["x"], 4), (["x", "z"], 1)])
def test_with_much_noise_the_default_model_strays_far_and_comes_back(rng, features, fits):
    for seed in rng.integers(2**32, size=fits):
        release = noisy_release(features, nw.GaussianDP("1/10"), int(seed))
        model = nw.LinearRegression(features, "y")
        posterior = nw.infer(release, model, seed=int(seed), chains=2, draws=60, warmup=60, progress=False)
        assert posterior.method == "marginal"
        for values in posterior.draws.values():
            assert np.all(np.isfinite(values))
        assert len(np.unique(posterior.draws["x"])) > 30


def log_prior(theta, strength):
    """Of intercept, slope, log sigma^2, mean and log variance of x, as in `belief_of`."""
    intercept, slope, log_noise, mean, log_variance = theta.T
    noise, variance = np.exp(log_noise), np.exp(log_variance)
    value = stats.norm(0, 2).logpdf(intercept) + stats.norm(0, 2).logpdf(slope)
    value += stats.invgamma(3, scale=2).logpdf(noise) + log_noise
    value += stats.invgamma(8 / 2, scale=8 / 2).logpdf(variance) + log_variance
    return value + stats.norm(0, np.sqrt(variance / strength)).logpdf(mean)


def log_chance(rng, release, theta, shrink=2.0):
    """Of the release given 500 rows, simulated from each theta, in place of its confidential ones."""
    intercept, slope, log_noise, mean, log_variance = (column[:, None] for column in theta.T)
    x = mean + np.exp(log_variance / 2) * rng.standard_normal((len(theta), 500))
    y = intercept + slope * x + np.exp(log_noise / 2) * rng.standard_normal(x.shape)
    factor = np.minimum(1.0, shrink / np.hypot(x, y))
    row = [np.ones_like(x), x * factor, y * factor]
    sums = [(row[a] * row[b]).sum(axis=1) for a, b in release.statistic.pairs(release.schema)]
    gaps = (np.asarray(release.estimate) - np.stack(sums, axis=1)) / np.asarray(release.law.sd)
    return -0.5 * np.sum(gaps**2, axis=1)


def test_the_posterior_of_shortened_rows_is_that_of_rows_simulated_one_by_one(rng):
    """Brute force: draws of a wide law, weighted by prior and chance over its density (Andrieu & Roberts 2009)."""
    strength = 0.5  # covariates whose mean may lie several standard deviations from 0
    release = noisy_release(["x"], nw.GaussianDP("1/10"), int(rng.integers(2**32)))
    posterior = nw.infer(release, belief_of(["x"], strength), seed=1, draws=1000, warmup=300, progress=False)
    names = ("intercept", "x", "noise_variance", "covariate_mean", "covariate_covariance")
    draws = np.stack([posterior.draws[name].ravel() for name in names], axis=1)
    draws[:, [2, 4]] = np.log(draws[:, [2, 4]])
    wide = stats.multivariate_t(draws.mean(axis=0), 1.5 * np.cov(draws.T), df=5)
    theta = wide.rvs(8_000, random_state=rng)
    log_weights = log_prior(theta, strength) - wide.logpdf(theta)
    log_weights += np.concatenate([log_chance(rng, release, part) for part in np.array_split(theta, 8)])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    assert 1 / np.sum(weights**2) > 500
    quantile = stats.norm.isf(ALARM / 10)
    for i, name in enumerate(names[:3]):
        # A bounded function, so that no single heavy weight decides.
        by_weight, by_draw = (np.tanh((x[:, i] - draws[:, i].mean()) / draws[:, i].std()) for x in (theta, draws))
        expected = weights @ by_weight
        error = np.sqrt(np.sum((weights * (by_weight - expected)) ** 2) + by_draw.var() / posterior.ess[name])
        assert abs(by_draw.mean() - expected) < quantile * error
        # Half a standard deviation would be caught.
        assert quantile * error < 0.3
