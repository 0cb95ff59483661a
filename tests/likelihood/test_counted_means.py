"""A condition asked for as a mean or a sum is scored as the count it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import noisewise as nw
from noisewise.likelihood import binomial_laplace
from noisewise.likelihood.count_models import CountModel
from noisewise.likelihood.joint import joint_likelihood

X = nw.column("x")
WIDE = {"mean": np.array([-0.4, 0.3, 1.1]), "sd": np.array([0.5, 1.3, 2.0])}


def mean_release(statistic, guarantee, total, n=12):
    """A release of one sum, given in records: its value on the lattice of its plan."""
    made = nw.plan(statistic, nw.Schema({"x": nw.Bounded(-3, 3)}, n=n, neighbours="change-one"), guarantee=guarantee)
    value = [round(total / made.law.step[0])]
    return nw.Release.of(made, value, dataset="made", ledger_head=None, simulated=True)


@pytest.mark.parametrize("guarantee", [nw.PureDP("0.7"), nw.PureDP(17), nw.GaussianDP(1), nw.GaussianDP(17)], ids=str)
@pytest.mark.parametrize("ask", [nw.Mean, nw.Sum])
def test_the_mean_of_a_condition_is_its_count_on_a_finer_lattice(guarantee, ask):
    """Every count is summed over, with the noise's own probabilities."""
    release = mean_release(ask(X.between(-1, 1)), guarantee, 4.3)
    population = nw.Normal(mean=stats.norm(0, 1), sd=stats.halfnorm())
    model = joint_likelihood((release,), population)
    law, (y,) = release.law, release.value
    p = stats.norm.cdf((1 - WIDE["mean"]) / WIDE["sd"]) - stats.norm.cdf((-1 - WIDE["mean"]) / WIDE["sd"])
    s = np.arange(13)
    noise = law.log_pmf(np.array([float(y - round(k / law.step[0])) for k in s]))
    expected = special.logsumexp(stats.binom.logpmf(s, 12, p[:, None]) + noise, axis=1)
    assert model.is_exact
    assert "binomial" in model.because
    np.testing.assert_allclose(model.log_likelihood(WIDE), expected, rtol=1e-9)


def test_a_mean_beside_a_count_of_the_same_condition_is_one_count_under_two_noises():
    schema = nw.Schema({"x": nw.Bounded(-3, 3)}, n=12, neighbours="change-one")
    mean = mean_release(nw.Mean(X.between(-1, 1)), nw.PureDP(2), 4.3)
    made = nw.plan(nw.Count(X.between(-1, 1)), schema, guarantee=nw.PureDP(1))
    count = nw.Release.of(made, [6], dataset="made", ledger_head=None, simulated=True)
    both = joint_likelihood((mean, count), nw.Normal(mean=stats.norm(0, 1), sd=1.0))
    p = stats.norm.cdf(1 - WIDE["mean"]) - stats.norm.cdf(-1 - WIDE["mean"])
    s = np.arange(13)
    steps = 1 / mean.law.step[0]
    noise = mean.law.log_pmf(mean.value[0] - steps * s) + count.law.log_pmf(6.0 - s)
    expected = special.logsumexp(stats.binom.logpmf(s, 12, p[:, None]) + noise, axis=1)
    np.testing.assert_allclose(both.log_likelihood({"mean": WIDE["mean"]}), expected, rtol=1e-9)


def test_the_mean_of_a_level_has_the_posterior_of_its_count():
    """With a beta prior: the mixture of beta laws over the counts."""
    schema = nw.Schema({"c": nw.Levels(["no", "yes"])}, n=12, neighbours="change-one")
    made = nw.plan(nw.Mean(nw.column("c").equals("yes")), schema, guarantee=nw.PureDP(2))
    release = nw.Release.of(made, [round(5.2 / made.law.step[0])], dataset="made", ledger_head=None, simulated=True)
    found = nw.infer(release, nw.Bernoulli(p=stats.beta(2, 3.5)), seed=1, progress=False, draws=50)
    s = np.arange(13)
    noise = made.law.log_pmf(release.value[0] - s / made.law.step[0])
    weights = special.softmax(noise + stats.betabinom(12, 2, 3.5).logpmf(s))
    assert found.mean["p"] == pytest.approx(weights @ ((2 + s) / 17.5), rel=1e-9)
    assert "conjugate" in found.because


def test_the_score_of_the_mean_of_a_level_is_the_slope_of_its_law():
    """Also where nobody and where everybody has the level, and for a release beyond all counts."""
    schema = nw.Schema({"c": nw.Levels(["no", "yes"])}, n=12, neighbours="change-one")
    made = nw.plan(nw.Mean(nw.column("c").equals("yes")), schema, guarantee=nw.PureDP(2))
    s, p = np.arange(13), np.array([0.0, 1e-9, 0.2, 0.7, 1.0])
    for total in (-3.3, 0.0, 0.4, 6.7, 11.9, 12.0, 15.2):
        y = round(total / made.law.step[0])
        release = nw.Release.of(made, [y], dataset="made", ledger_head=None, simulated=True)
        model = CountModel.of((release,), nw.Bernoulli(p=stats.beta(1, 1)), n=12)
        noise = made.law.log_pmf(y - s / made.law.step[0])
        total_p = np.exp(stats.binom.logpmf(s, 12, p[:, None]) + noise).sum(axis=1)
        np.testing.assert_allclose(model.log_likelihood({"p": p}), np.log(total_p), rtol=1e-10)
        rises = stats.binom.pmf(s - 1, 11, p[:, None]) - stats.binom.pmf(s, 11, p[:, None])  # d pmf/dp over n
        slope = 12 * (rises * np.exp(noise)).sum(axis=1) / total_p
        found = binomial_laplace.score(p, y=y * made.law.step[0], n=12, rate=1 / made.law.scale[0])
        np.testing.assert_allclose(found, slope, rtol=1e-8, atol=1e-8)
        inner = {"p": p[1:-1]}
        np.testing.assert_allclose(model.score(inner)["p"], slope[1:-1], rtol=1e-5, atol=1e-5)
