"""Counts behind log-concave noise at every n: sums against enumeration, draws against the exact law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from noisewise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian
from noisewise.likelihood import binomial_laplace, binomial_sum, log_concave
from noisewise.likelihood.discrete_laws import binomial_log_pmf

ALARM = 1e-6


def noise_of(y, *laws):
    return lambda s: np.sum([law.log_pmf(y - s) for law in laws], axis=0)


@pytest.mark.parametrize("n", [1, 5, 100, 10_000, 150_000])
@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0, 1000.0])
def test_sums_and_means_by_enumeration(n, scale):
    rng = np.random.default_rng()
    gauss, rounded = (kind(scale=(scale,), step=(1.0,)) for kind in (DiscreteGaussian, RoundedGaussian))
    laplace = DiscreteLaplace(scale=(scale,), step=(1.0,))
    s = np.arange(n + 1)
    for laws, precision in (((gauss,), 1), ((rounded,), 1), ((gauss, rounded), 2), ((laplace, rounded), 0)):
        true = rng.beta(0.5, 0.5)
        spread = np.sqrt(n * true * (1 - true))
        noise = noise_of(int(rng.normal(n * true, spread + 3 * scale)), *laws)
        p = np.append(np.clip(true + spread / n * rng.normal(0, 8, 3), 1e-9, 1 - 1e-9), [1e-9, 1.0])
        found = binomial_sum.log_sum(p, noise, n=n, precision=precision / (scale**2 + 1 / 12), is_smooth=precision > 0)
        for k, value in enumerate(p):
            terms = binomial_log_pmf(s, n=n, p=value) + noise(s)
            total = logsumexp(terms)
            assert found.log_total[k] == pytest.approx(total, rel=1e-12, abs=1e-12)
            weights = np.exp(terms - terms.max())
            weights /= weights.sum()
            assert found.counted[k] == pytest.approx(weights @ s, rel=1e-10, abs=1e-10)
            assert found.others[k] == pytest.approx(weights @ (n - s), rel=1e-10, abs=1e-10)


def test_every_shape_of_noise_by_enumeration():
    rng = np.random.default_rng()
    rough = rng.normal(0, 3, 13)  # not log-concave
    p = np.array([0.0, 0.1, 0.6, 1.0])
    found = binomial_sum.enumerated_sum(p, rough)
    for k, value in enumerate(p):
        law = stats.binom.pmf(np.arange(13), 12, value) * np.exp(rough)
        assert found.log_total[k] == pytest.approx(np.log(law.sum()), rel=1e-12)
        assert found.counted[k] == pytest.approx(law @ np.arange(13) / law.sum(), abs=1e-12)
    drawn = binomial_sum.draw_enumerated(rng, np.full(40_000, 0.6), rough).astype(int)
    assert fits(drawn, stats.binom.pmf(np.arange(13), 12, 0.6) * np.exp(rough))
    assert not fits(drawn, stats.binom.pmf(np.arange(13), 12, 0.6))


def fits(drawn, law):
    expected = law / law.sum() * drawn.size
    counts = np.bincount(drawn, minlength=law.size)
    kept = expected > 8
    observed = np.append(counts[kept], counts[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    kept = expected > 0
    return stats.chisquare(observed[kept], expected[kept] * drawn.size / expected[kept].sum()).pvalue > ALARM


@pytest.mark.parametrize(("n", "y", "scale"), [(1, 3, 0.5), (30, 20, 3.0), (30, -4, 3.0), (2000, 700, 0.2)])
def test_draws_have_the_law_of_the_count_given_the_release(n, y, scale):
    rng = np.random.default_rng()
    law, p = DiscreteLaplace(scale=(scale,), step=(1.0,)), np.full(40_000, 0.4)
    total = binomial_laplace.log_likelihood(p, y=y, n=n, rate=1 / scale)
    drawn = binomial_sum.draw_count(rng, p, noise_of(y, law), total, n=n).astype(int)
    s = np.arange(n + 1)
    exact = binomial_log_pmf(s, n=n, p=0.4) + law.log_pmf(y - s)
    assert fits(drawn, np.exp(exact - exact.max()))
    wrong = binomial_log_pmf(s, n=n, p=0.4) + 0.8 * law.log_pmf(y - s)
    if 0 < y < n and scale > 1:
        assert not fits(drawn, np.exp(wrong - wrong.max())), "a noise scale 25 % off is caught"


def test_draws_at_a_billion_records():
    """s | y is nearly normal there: mean and variance by precision weighting."""
    rng = np.random.default_rng()
    n, p, y, scale = 10**9, 0.3, 300_020_000, 20_000.0
    law = RoundedGaussian(scale=(scale,), step=(1.0,))
    rows = np.full(20_000, p)
    total = binomial_sum.log_sum(rows[:1], noise_of(y, law), n=n, precision=1 / scale**2, is_smooth=True).log_total
    drawn = binomial_sum.draw_count(rng, rows, noise_of(y, law), np.repeat(total, rows.size), n=n)
    own, noise = n * p * (1 - p), scale**2 + 1 / 12
    mean, sd = (n * p / own + y / noise) / (1 / own + 1 / noise), (1 / own + 1 / noise) ** -0.5
    assert stats.kstest((drawn - mean) / sd, "norm").pvalue > ALARM
    assert stats.kstest((drawn - n * p) / sd, "norm").pvalue < ALARM


def test_mode_and_reach_of_log_concave_laws():
    mean = np.array([0.01, 3.5, 250.0])
    peak = log_concave.mode(lambda s: mean > s + 1, np.zeros(3), np.full(3, 1000.0))
    np.testing.assert_array_equal(peak, [0, 3, 249])
    first, last = log_concave.reach(
        lambda s: stats.poisson.logpmf(s, mean), peak, np.zeros(3), np.full(3, 1000.0), fall=20.0
    )
    s = np.arange(1001)
    for k in range(3):
        values = stats.poisson.logpmf(s, mean[k])
        inside = np.flatnonzero(values >= values[int(peak[k])] - 20)
        assert (first[k], last[k]) == (inside[0], inside[-1])
