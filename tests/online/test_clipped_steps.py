"""Clipped answers over many values: against the plain sum over all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.online import clipped_steps
from noisewise.online.asked import asked_of
from noisewise.online.clipped_record import log_noise
from noisewise.online.clipped_steps import coarse_log_density, cumulative, log_densities, sum_rule

POISSON = nw.Poisson(rate=stats.gamma(100, scale=100))
RATES = np.array([20.0, 5e3, 9.6e3, 9.9e3, 1e4, 1.02e4, 1.1e4, 3e4])
GEOMETRIC = nw.Population(stats.geom, p=stats.beta(1, 2000))
ZIPF = nw.Population(stats.zipf, a=stats.uniform(1.5, 1))
CASES = {
    "poisson": (POISSON, {"rate": RATES}, 9900, 10130, stats.poisson(RATES[:, None])),
    "poisson between values": (POISSON, {"rate": RATES}, 9890.3, 10011.6, stats.poisson(RATES[:, None])),
    "poisson wide": (POISSON, {"rate": RATES}, 9000, 12000, stats.poisson(RATES[:, None])),
    "poisson narrow": (POISSON, {"rate": RATES}, 9990, 10003, stats.poisson(RATES[:, None])),
    "geometric": (GEOMETRIC, {"p": np.array([1e-4, 1e-3, 0.05, 0.9])}, 1, 3000,
                  stats.geom(np.array([1e-4, 1e-3, 0.05, 0.9])[:, None])),
    "zipf": (ZIPF, {"a": np.array([1.5, 2.5])}, 1, 60, stats.zipf(np.array([[1.5], [2.5]]))),
}  # fmt: skip


def plain(asked, y, law):
    """log of the sum over all values, by scipy's probabilities."""
    inside = np.arange(np.floor(asked.low) + 1, np.ceil(asked.high))
    x = np.concatenate([[asked.low], inside, [asked.high]])
    below, above = law.cdf(np.array([asked.low])), law.sf(np.array([np.ceil(asked.high) - 1]))
    mass = np.concatenate([below, law.pmf(inside), above], axis=1)
    return np.log(np.exp(log_noise(asked, y[:, None] - x)) @ mass.T).T


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.PureDP(8), nw.GaussianDP(1), nw.GaussianDP(3)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_law_is_the_plain_sum(name, guarantee):
    population, theta, low, high, law = CASES[name]
    asked = asked_of(nw.Query.clip(low, high, guarantee=guarantee))
    reach = 3 * asked.noise if asked.is_laplace else asked.noise
    y = np.concatenate([np.linspace(low - reach, high + reach, 14), [np.ceil(low) + 3.0]])
    np.testing.assert_allclose(log_densities(population, asked, y, theta), plain(asked, y, law), rtol=0, atol=1e-6)


def test_fewer_values_of_the_cdf_are_asked_for_than_there_are(monkeypatch):
    asked, seen = asked_of(nw.Query.clip(9900, 10130, guarantee=nw.GaussianDP(1))), []

    def counted(population, x, theta):
        seen.append(x.size)
        return cumulative(population, x, theta)

    monkeypatch.setattr(clipped_steps, "cumulative", counted)
    log_densities(POISSON, asked, np.array([1e4]), {"rate": RATES})
    assert sum(seen) < 60


def test_a_law_with_a_spike_is_refined_until_it_is_met_and_a_blind_rule_would_not_do(monkeypatch):
    """All but few records at one value: no polynomial goes through such a cdf."""
    population = nw.Population(stats.binom, n=600, p=stats.beta(1, 1))
    theta = {"p": np.array([1e-3, 0.5, 0.999])}
    asked, y = asked_of(nw.Query.clip(0, 600, guarantee=nw.PureDP(1))), np.array([-5.0, 10.0, 320.0, 610.0])
    law = stats.binom(600, theta["p"][:, None])
    np.testing.assert_allclose(log_densities(population, asked, y, theta), plain(asked, y, law), rtol=0, atol=1e-8)
    monkeypatch.setattr(clipped_steps, "LARGEST_ERROR", 1.0)
    assert np.abs(log_densities(population, asked, y, theta) - plain(asked, y, law)).max() > 1e-3


@pytest.mark.parametrize("count", [1, 5, 24, 25, 300, 10**6])
def test_sums_of_polynomials_are_exact(count):
    x, weights = sum_rule(7, 7 + count - 1)
    for degree in (0, 1, 2, 5):
        exact = sum((k - 3) ** degree for k in range(7, 7 + count)) if count < 1000 else None
        if exact is None:
            # Faulhaber, through the values at a few counts
            exact = {0: count, 1: count * (count + 7) // 2,
                     2: (count + 3) * (count + 4) * (2 * count + 7) // 6 - 14,
                     5: _fifth(count + 3) - _fifth(3)}[degree]  # fmt: skip
        assert weights @ (x - 3) ** degree == pytest.approx(exact, rel=1e-11)


def _fifth(n):
    return n * n * (n + 1) ** 2 * (2 * n * n + 2 * n - 1) // 12


def test_a_cdf_that_scipy_adds_up_is_added_up_once():
    assert clipped_steps.is_summed(ZIPF)
    assert not clipped_steps.is_summed(GEOMETRIC)
    assert not clipped_steps.is_summed(POISSON)
    x = np.array([0.0, 1, 2, 17, 300])
    a = np.array([1.5, 2.5])
    np.testing.assert_allclose(cumulative(ZIPF, x, {"a": a}), stats.zipf.cdf(x, a[:, None]), rtol=1e-12)


def test_cells_of_single_values_are_the_law_itself():
    asked, y = asked_of(nw.Query.clip(9990, 10020, guarantee=nw.PureDP(1))), np.array([9980.0, 10001.3, 10100.0])
    exact = plain(asked, y, stats.poisson(RATES[:, None]))
    coarse = coarse_log_density(POISSON, asked, y, {"rate": RATES})
    np.testing.assert_allclose(coarse, exact + np.log(asked.step), rtol=0, atol=1e-9)
