"""Groups far from where the prior expects them: the answer is Bayes' rule's there, too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.grouped.test_grouped import FAST, X, agree, flat, release_of, schema_of

import noisewise as nw
from noisewise.grouped.model import Grouped

SIGMA, CENTRE, WIDTH, MEANS = 10.0, 10.0, 3.0, (48.0, 52.0)
SIZES = (1200, 800)


def far_release() -> nw.Release:
    """Two groups whose means are thirteen prior standard deviations away; Gaussian noise that leaves sizes known."""
    schema = schema_of(["a", "b"], sum(SIZES), high=1000.0)
    low = nw.Schema({**schema.columns, "x": nw.Bounded(-1000, 1000)}, n=sum(SIZES), neighbours="change-one")
    plan = nw.plan(nw.Mean(X, by="g"), low, guarantee=nw.ZeroConcentratedDP(200))
    assert max(noise.sd for noise in plan.noise[::2]) < 0.11  # a count tells its size
    return release_of(plan, [part for n, m in zip(SIZES, MEANS, strict=True) for part in (n, n * m)])


def seen_means(release: nw.Release) -> tuple[np.ndarray, np.ndarray]:
    """What is seen of each group's mean, and the variance of that."""
    y = np.array(release.estimate).reshape(2, 2)[:, 1] / SIZES
    sd = [noise.sd for noise in release.as_plan().noise[1::2]]
    variance = [SIGMA**2 / n + (s / n) ** 2 for n, s in zip(SIZES, sd, strict=True)]
    return y, np.array(variance)


def law(prior: object) -> nw.Population:
    return nw.Normal(mean=prior, sd=SIGMA)


def test_a_group_far_in_the_priors_tail_is_told_by_bayes_rule() -> None:
    release = far_release()
    found = nw.infer(release, Grouped("g", x=law(stats.norm(CENTRE, WIDTH))), **FAST)
    y, v = seen_means(release)
    variance = 1 / (1 / v + 1 / WIDTH**2)
    for g in range(2):
        exact = stats.norm(variance[g] * (y[g] / v[g] + CENTRE / WIDTH**2), np.sqrt(variance[g]))
        agree(flat(found, "mean")[:, g], exact.cdf)


def test_pooled_groups_far_in_the_priors_tail_are_told_by_bayes_rule() -> None:
    release = far_release()
    found = nw.infer(release, Grouped("g", x=law(stats.norm(CENTRE, WIDTH)), pooled="mean"), **FAST)
    y, v = seen_means(release)
    centre, tau = np.linspace(-10, 60, 1401)[:, None], np.linspace(0.01, 60, 2400)
    log = stats.norm.logpdf(centre, CENTRE, WIDTH) + stats.halfnorm.logpdf(tau, scale=WIDTH)
    log = log + sum(stats.norm.logpdf(y[g], centre, np.sqrt(tau**2 + v[g])) for g in range(2))
    weight = np.exp(log - log.max())
    for name, grid, axis in (("mean.centre", centre[:, 0], 1), ("mean.spread", tau, 0)):
        upto = np.cumsum(weight.sum(axis=axis)) / weight.sum()
        agree(flat(found, name), lambda value, grid=grid, upto=upto: float(np.interp(value, grid, upto)), slack=0.004)


def test_groups_that_differ_by_far_more_than_the_prior_of_the_spread_expects() -> None:
    release = far_release()
    model = Grouped("g", x=law(stats.norm(50, WIDTH)), pooled="mean", spread=stats.halfnorm(scale=0.1))
    spread = flat(nw.infer(release, model, **FAST), "mean.spread")
    y, v = seen_means(release)
    centre, tau = np.linspace(30, 70, 1601)[:, None], np.linspace(0.001, 2, 2400)
    log = stats.norm.logpdf(centre, 50, WIDTH) + stats.halfnorm.logpdf(tau, scale=0.1)
    log = log + sum(stats.norm.logpdf(y[g], centre, np.sqrt(tau**2 + v[g])) for g in range(2))
    weight = np.exp(log - log.max()).sum(axis=0)
    upto = np.cumsum(weight) / weight.sum()
    assert np.interp(0.49, tau, upto) < 0.95  # below which the prior has all but 1e-6 of its mass
    agree(spread, lambda value: float(np.interp(value, tau, upto)), slack=0.004)


@pytest.mark.parametrize("guarantee", [nw.PureDP(5), nw.ZeroConcentratedDP(5)])
def test_sums_that_no_parameter_of_the_prior_explains_are_warned_of_by_group(guarantee: nw.Guarantee) -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], 2000), guarantee=guarantee)
    release = release_of(plan, [1200, 1200 * 25.0, 800, 800 * 52.0])
    found = nw.infer(release, Grouped("g", x=law(stats.uniform(0, 30))), **FAST)
    assert len(found.verdict.warnings) == 1
    assert found.verdict.warnings[0].startswith("The sum of x in b was released as 4.16e+04, but should be ")
    assert found.sentence.startswith("Caution: The sum of x in b ")
    assert not nw.infer(release, Grouped("g", x=law(stats.uniform(0, 100))), **FAST).verdict.warnings


def test_a_group_that_is_shown_far_from_the_prior_is_not_called_the_prior() -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], 2000), guarantee=nw.PureDP(1))
    sd = plan.noise[1].sd
    wide = law(stats.norm(50, 30))
    lifted = release_of(plan, [1990, 1990 * 50.0, 10, 500 + 4 * sd])
    assert not any("b" in note.split(":")[0] for note in silent_notes(nw.infer(lifted, Grouped("g", x=wide), **FAST)))
    level = release_of(plan, [1995, 1995 * 50.0, 5, 250.0])
    assert silent_notes(nw.infer(level, Grouped("g", x=wide), **FAST))


def silent_notes(found: nw.Posterior) -> list[str]:
    return [note for note in found.verdict.notes if "next to nothing" in note]
