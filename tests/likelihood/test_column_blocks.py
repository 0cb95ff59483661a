"""Independent columns of the same records: each block of components has a law, and a posterior, of its own."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.column_blocks import ColumnBlocks
from noisewise.likelihood.joint import joint_likelihood

AGE, SMOKER = nw.column("age"), nw.column("smoker")
PEOPLE = nw.Joint(
    age=nw.Normal(mean=stats.norm(50, 20), sd=stats.halfnorm(scale=20)), smoker=nw.Bernoulli(p=stats.beta(1, 1))
)
ROWS = {
    "age.mean": np.array([40.0, 40.0, 44.0]),
    "age.sd": np.array([15.0, 15.0, 12.0]),
    "smoker.p": np.array([0.2, 0.35, 0.2]),
}


def schema(n: int = 60) -> nw.Schema:
    columns = {"age": nw.Bounded(0, 120), "smoker": nw.Levels(["no", "yes"])}
    return nw.Schema(columns, n=n, neighbours="change-one")


def released(n: int = 60) -> nw.Release:
    return release_of(nw.Mean(AGE, SMOKER.equals("yes")), schema(n), nw.PureDP(4), [41.0, 0.3])


def test_the_share_of_one_column_is_binomial_whatever_the_other_is() -> None:
    law, release = joint_likelihood([released()], PEOPLE), released()
    assert type(law.groups[0]) is ColumnBlocks
    s = np.arange(61)
    noise = np.exp(release.law.log_pmf(release.value[1] - s / release.law.step[1], component=1))
    by_share = [np.log(np.sum(stats.binom.pmf(s, 60, p) * noise)) for p in ROWS["smoker.p"]]
    found = law.log_likelihood(ROWS)
    assert found[1] - found[0] == pytest.approx(by_share[1] - by_share[0], abs=1e-9)


def test_the_mean_of_the_other_has_the_law_it_has_alone() -> None:
    """Half of the budget alone is the noise of one of two equal components."""
    alone = release_of(nw.Mean(AGE), schema(), nw.PureDP(2), [41.0])
    whole = released()
    assert alone.law.scale[0] == pytest.approx(whole.law.scale[0], rel=1e-9)
    own = nw.Joint(age=PEOPLE.columns["age"])
    expected = joint_likelihood([alone], own).log_likelihood({k: v for k, v in ROWS.items() if k.startswith("age")})
    found = joint_likelihood([whole], PEOPLE).log_likelihood(ROWS)
    assert found[2] - found[0] == pytest.approx(expected[2] - expected[0], abs=1e-3)


def test_statistics_are_drawn_in_the_order_of_the_release() -> None:
    release = release_of(nw.Mean(SMOKER.equals("yes"), AGE), schema(), nw.PureDP(50), [0.3, 41.0])
    drawn = joint_likelihood([release], PEOPLE).draw_statistic(np.random.default_rng(1), ROWS)
    assert drawn[:, 0] == pytest.approx(0.3, abs=0.05)
    assert drawn[:, 1] == pytest.approx(41.0, abs=3.0)


def test_the_posterior_is_made_of_factors_of_few_unknowns() -> None:
    """Three unknowns of two columns are a plane and a line: nothing is walked, and the share is a beta mixture."""
    posterior = nw.infer(released(), PEOPLE, seed=1, draws=200, progress=False)
    assert "2 independent factors" in posterior.because
    assert "slice" not in posterior.because
    release, s = released(), np.arange(61)
    weight = stats.betabinom.pmf(s, 60, 1, 1) * np.exp(
        release.law.log_pmf(release.value[1] - s / release.law.step[1], component=1)
    )
    mean = np.average((1 + s) / 62, weights=weight)
    assert posterior.mean["smoker.p"] == pytest.approx(mean, abs=1e-6)
    assert list(posterior.draws) == ["age.mean", "age.sd", "smoker.p"]
    drawn = np.corrcoef([posterior.draws[name].ravel() for name in ("age.mean", "smoker.p")])[0, 1]
    assert abs(drawn) < stats.norm.isf(5e-7) / np.sqrt(posterior.draws["smoker.p"].size / 2)


def test_a_column_that_no_release_reads_keeps_its_prior() -> None:
    release = release_of(nw.Mean(AGE), schema(), nw.PureDP(2), [41.0])
    posterior = nw.infer(release, PEOPLE, seed=1, draws=500, progress=False)
    drawn = posterior.draws["smoker.p"].ravel()
    assert stats.kstest(drawn, stats.beta(1, 1).cdf).pvalue > 1e-6
    assert "prior" in posterior.because
