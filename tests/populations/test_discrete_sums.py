"""Discrete laws of one's own, which say only their probabilities: against scipy's sums and against closed laws."""

import numpy as np
import pytest
from scipy import special, stats

import noisewise as nw
from noisewise.likelihood.joint import joint_likelihood
from noisewise.populations.discrete_sums import DiscreteSums, is_added_up


class ZeroInflated(stats.rv_discrete):
    """Poisson counts, and a share of zeros beside them; nothing but its probabilities is said."""

    def _pmf(self, k, empty, rate):
        counts = np.exp(special.xlogy(k, rate) - rate - special.gammaln(k + 1))
        return np.where(k == 0, empty, 0.0) + (1 - empty) * counts

    def _argcheck(self, empty, rate):
        return (empty >= 0) & (empty <= 1) & (rate > 0)


LAW = ZeroInflated(name="zero_inflated", shapes="empty, rate")
VISITS = nw.Population(LAW, empty=stats.beta(2, 2), rate=stats.gamma(4, scale=1.5))
THETA = {"empty": np.array([0.1, 0.5, 0.9]), "rate": np.array([0.3, 6.0, 80.0])}


def test_only_laws_without_a_formula_are_added_up():
    assert is_added_up(LAW)
    assert not any(map(is_added_up, (stats.poisson, stats.nbinom, stats.norm, stats.rv_discrete(values=([1], [1])))))


def test_cdf_quantiles_and_moments_are_scipys_own():
    x = np.array([-1.0, 0.0, 0.5, 3.0, 7.0, 95.0, 2000.0, np.inf])
    u = np.array([0.0, 1e-12, 0.05, 0.5, 0.95, 1 - 1e-9, 1.0])
    found, quantiles = VISITS.cdf(x, THETA), VISITS.quantile(u, THETA)
    mean, variance = VISITS.distribution.moments(VISITS.values(THETA))
    for k in range(3):
        frozen = LAW(THETA["empty"][k], THETA["rate"][k])
        closed = THETA["empty"][k] * (x >= 0) + (1 - THETA["empty"][k]) * stats.poisson.cdf(x, THETA["rate"][k])
        assert found[k] == pytest.approx(closed, abs=1e-13)
        assert quantiles[k].tolist() == [frozen.ppf(one) for one in u]
        w, rate = 1 - THETA["empty"][k], THETA["rate"][k]
        assert float(mean[k, 0]) == pytest.approx(w * rate, rel=1e-12)
        assert float(variance[k, 0]) == pytest.approx(w * rate + w * (1 - w) * rate**2, rel=1e-12)


def test_a_location_and_rows_that_differ_in_it_are_followed():
    moved = nw.Population(LAW, empty=0.3, rate=4, loc=stats.norm(10, 2))
    theta = {"loc": np.array([7.0, 12.0])}
    x = np.array([6.0, 7.0, 12.0, 15.5, 30.0])
    for k, loc in enumerate(theta["loc"]):
        assert moved.cdf(x, theta)[k] == pytest.approx(LAW.cdf(x, 0.3, 4, loc=loc), abs=1e-13)
        assert moved.quantile([0.2, 0.9], theta)[k].tolist() == LAW.ppf([0.2, 0.9], 0.3, 4, loc=loc).tolist()


def test_parameters_without_a_law_give_no_numbers():
    p = {"empty": np.array([[0.5], [-1.0]]), "rate": np.array([[3.0], [3.0]]), "loc": np.array([[0.0]])}
    found = VISITS.distribution.cdf(np.array([1.0, 2.0]), p)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()
    assert np.isnan(VISITS.distribution.quantile(np.array([0.5]), p)[1]).all()


def test_a_law_whose_tail_has_no_end_is_left_to_scipy():
    class Heavy(stats.rv_discrete):
        def _pmf(self, k, a):
            return k**-a / special.zeta(a, 1)

    heavy = Heavy(a=1, name="heavy", shapes="a")
    assert DiscreteSums.of(heavy, {"a": 1.2, "loc": 0.0}, upto=np.inf) is None
    law = nw.Population(heavy, a=stats.uniform(2, 1))
    assert law.cdf([5.0], {"a": np.array([2.5])})[0, 0] == pytest.approx(
        sum(k**-2.5 for k in range(1, 6)) / special.zeta(2.5)
    )


def test_draws_follow_the_probabilities(rng):
    drawn = VISITS.sample(rng, 20_000, {"empty": np.array([0.4]), "rate": np.array([3.0])})[0]
    counts = np.bincount(np.minimum(drawn, 8).astype(int), minlength=9)
    expected = 20_000 * np.append(LAW.pmf(np.arange(8), 0.4, 3.0), LAW.sf(7, 0.4, 3.0))
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-7


def test_releases_of_it_are_scored_as_those_of_the_law_it_is_without_zeros(rng):
    """With no share of zeros it is Poisson: the same log-likelihood, to the last digits."""
    plain = nw.Population(LAW, empty=0, rate=stats.gamma(4, scale=1.5))
    poisson = nw.Poisson(rate=stats.gamma(4, scale=1.5))
    schema = nw.Schema({"visits": nw.Bounded(0, 40)}, n=60, neighbours="change-one")
    theta = {"rate": rng.uniform(2, 10, 4)}
    few = nw.Count(nw.column("visits").between(0, 3))
    for statistic, way in ((nw.Mean("visits"), "clt"), (nw.Histogram("visits", [2, 5, 9]), "auto"), (few, "auto")):
        plan = nw.plan(statistic, schema, guarantee=nw.PureDP(1))
        release = nw.simulate(plan, poisson, at={"rate": 6.0}, seed=int(rng.integers(2**32)))
        both = [joint_likelihood([release], law, likelihood=way).log_likelihood(theta) for law in (plain, poisson)]
        assert both[0] == pytest.approx(both[1], rel=1e-9)
