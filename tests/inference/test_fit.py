"""The verdict says where the fitted population puts people that no release shows (E9), and seldom without need (E8)."""

from __future__ import annotations

import csv
import gzip
import itertools
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.inference.fit import LARGE, bounds_sentences, level_sentences
from noisewise.likelihood.simulate import noisy_values
from noisewise.models.simulate import simulate

X = nw.column("income")
DATA = Path(os.environ.get("NOISEWISE_DATA", "no data"))
NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))


def schema(outside="clamp", n=4000):
    return nw.Schema({"income": nw.Bounded(0, 250)}, n=n, neighbours="change-one", outside=outside)


def log_normal_release(rng, outside="clamp"):
    """Positive incomes, all but a few within the bounds."""
    made = nw.plan(nw.Mean(X, X**2), schema(outside), guarantee=nw.GaussianDP(1))
    skewed = nw.LogNormal(log_mean=stats.norm(3, 0.01), log_sd=1.0)
    return simulate(made, skewed, seed=int(rng.integers(2**62)))


def theta(mean, sd):
    return {"mean": np.full(50, float(mean)), "sd": np.full(50, float(sd))}


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_incomes_that_are_never_negative_under_a_normal_are_told_of_and_warned_of_where_nobody_can_be(rng, outside):
    """A third of the mass below 0 and a "mean" of 21 beside a released mean of 33."""
    release = log_normal_release(rng, outside)
    found = nw.infer(release, NORMAL, seed=1, progress=False, draws=250)
    text = str(found.verdict)
    assert found.verdict.warns == (outside == "refuse")
    place = found.verdict.warnings if outside == "refuse" else found.verdict.notes
    assert any(sentence.startswith("The fitted population ") for sentence in place)
    assert "% below 0" in text
    assert "its parameters are not theirs" in text
    own = float(re.search(r"its own mean is ([-0-9.]+),", text).group(1))
    assert own == pytest.approx(found.mean["mean"], abs=0.3 * found.sd["mean"])
    assert f"released: {release.estimate[0]:.4g}" in text
    assert found.mean["mean"] < release.estimate[0] - 5
    assert ("where no record can be" in text) == (outside == "refuse")
    assert ("which no release shows" in text) == (outside == "clamp")


def test_many_clamped_records_are_no_warning_where_the_model_clamps_them(rng):
    """The population is right, 37 % of it is clamped: the answer is right, so nothing speaks against it."""
    population = nw.Normal(mean=stats.norm(50, 50), sd=50)
    made = nw.plan(nw.Mean(X), schema(), guarantee=nw.GaussianDP(1))
    release = simulate(made, population, at={"mean": 16.0}, seed=int(rng.integers(2**62)))
    found = nw.infer(release, population, seed=1, progress=False, draws=50)
    assert abs(found.mean["mean"] - 16) < 6 * found.sd["mean"]
    assert not found.verdict.warns
    assert any("% below 0" in note for note in found.verdict.notes)


def test_a_released_mean_that_the_prior_does_not_allow_is_warned_of(rng):
    """Incomes of about 100 under a prior that is sure of 50: the fitted mean is not the released one."""
    sure = nw.Normal(mean=stats.norm(50, 0.1), sd=30)
    made = nw.plan(nw.Mean(X), schema(), guarantee=nw.GaussianDP(1))
    for at, is_far in ((100.0, True), (50.0, False)):
        release = simulate(made, sure, at={"mean": at}, seed=int(rng.integers(2**62)))
        verdict = nw.infer(release, sure, seed=1, progress=False, draws=50).verdict
        assert verdict.warns == is_far
        assert any(f"released as {release.estimate[0]:.4g}" in warning for warning in verdict.warnings) == is_far


def test_the_share_beyond_is_that_of_the_normal_law(rng):
    release = log_normal_release(rng)
    for mean, sd in ((21, 50), (50, 29), (150, 60)):
        said = " ".join((*bounds_sentences((release,), NORMAL, theta(mean, sd)).warnings,
                         *bounds_sentences((release,), NORMAL, theta(mean, sd)).notes))  # fmt: skip
        for share, words in ((stats.norm.cdf(-mean / sd), "below 0"), (stats.norm.sf((250 - mean) / sd), "above 250")):
            assert (f"{100 * share:.2g} % {words}" in said) == (share >= 0.0025)
        assert f"its own mean is {mean:.4g}, " in said
        clamped = np.clip(mean + sd * stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000), 0, 250).mean()
        assert f"summed {clamped:.4g};" in said


def test_nothing_is_said_where_next_to_nobody_is_beyond(rng):
    said = bounds_sentences((log_normal_release(rng),), NORMAL, theta(100, 30))
    assert said.warnings == said.notes == ()


def test_a_count_at_a_natural_bound_is_not_beyond_it():
    counts = nw.Schema({"income": nw.Bounded(0, 50)}, n=500, neighbours="change-one")
    release = simulate(nw.plan(nw.Mean(X), counts, guarantee=nw.PureDP(1)), nw.Poisson(rate=stats.gamma(2)), seed=1)
    said = bounds_sentences((release,), nw.Poisson(rate=stats.gamma(2)), {"rate": np.full(10, 1.5)})
    assert said.warnings == said.notes == ()


def test_a_large_share_is_no_warning_where_a_release_shows_the_shape(rng):
    made = nw.plan(nw.Histogram("income", edges=[20, 50, 100]), schema("refuse"), guarantee=nw.PureDP(1))
    release = simulate(made, NORMAL, at={"mean": 21.0, "sd": 50.0}, seed=int(rng.integers(2**62)))
    found = nw.infer(release, NORMAL, seed=1, progress=False, draws=100)
    assert not any("below 0" in warning for warning in found.verdict.warnings)
    assert any("below 0" in note for note in found.verdict.notes)


def test_what_the_answer_rests_on_is_said_beside_a_check_too(rng):
    """One number more than unknowns lets the check see a gross misfit, and no finer one."""
    made = nw.plan(nw.Mean(X, X**2, X.between(0, 1)), schema(), guarantee=nw.PureDP(2))
    release = simulate(made, NORMAL, at={"mean": 21.0, "sd": 50.0}, seed=int(rng.integers(2**62)))
    few = theta(21, 50)
    (note,) = bounds_sentences((release,), NORMAL, few).notes
    assert note.endswith("the check would show only a gross misfit of the population's shape.")
    assert not bounds_sentences((release,), NORMAL, few).warnings
    (note,) = bounds_sentences((release,), NORMAL, theta(45, 25)).notes  # 4 % below 0: told, and rested on by nothing
    assert "% below 0" in note
    assert "rests" not in note


def answers_of(*queries):
    """One person's answer to each query, of people of their own."""
    law = {False: [0], True: [0, 1, 0]}
    return tuple(
        nw.Release.of(query.plan(), law[query.edges is not None], dataset=f"p{k}", ledger_head=None, simulated=True)
        for k, query in enumerate(queries)
    )


def test_cells_that_are_open_at_their_ends_clamp_nobody():
    queries = [nw.Query.cells([edge, edge + 9], guarantee=nw.PureDP(1)) for edge in (20, 30, 40)]
    said = bounds_sentences(answers_of(*queries), NORMAL, theta(45, 25))
    assert said.warnings == said.notes == ()


def test_questions_that_clip_to_ranges_of_their_own_are_told_in_one_sentence():
    """As many sentences as questions would drown what else the verdict says; shares against scipy."""
    queries = [nw.Query.clip(low, high, guarantee=nw.GaussianDP(1)) for low, high in ((0, 50), (20, 60), (10, 90))]
    said = bounds_sentences(answers_of(*queries), NORMAL, theta(45, 25))
    beyond = [1 - np.diff(stats.norm.cdf([q.low, q.high], 45, 25))[0] for q in queries]
    (note,) = said.notes
    assert (
        f"3 ranges, beyond which the fitted population puts {100 * min(beyond):.2g} to {100 * max(beyond):.2g} %"
        in note
    )
    assert not said.warnings
    assert bounds_sentences(answers_of(*queries), NORMAL, theta(35, 1)).notes == ()
    (note,) = bounds_sentences(answers_of(queries[0], queries[0]), NORMAL, theta(45, 25)).notes  # one range, as ever
    assert "above 50 of x, taken as clamped" in note


def test_an_uncertain_share_is_no_warning(rng):
    """Hardly any budget: the prior's own mass beyond the bounds is not what the records say."""
    made = nw.plan(nw.Mean(X, X**2), schema("refuse"), guarantee=nw.GaussianDP("0.001"))
    release = simulate(made, NORMAL, at={"mean": 80.0, "sd": 25.0}, seed=int(rng.integers(2**62)))
    found = nw.infer(release, NORMAL, seed=1, progress=False, draws=100)
    assert not any("below 0" in warning for warning in found.verdict.warnings)


def test_an_own_mean_that_is_not_about_the_records_is_a_warning_where_none_can_be_outside(rng):
    """One released mean of few records and two unknowns: the 5 % quantile of the share is small, its mean is large."""
    few = nw.Schema({"income": nw.Bounded(0, 1)}, n=50, neighbours="change-one", outside="refuse")
    made = nw.plan(nw.Mean(X), few, guarantee=nw.PureDP(2))
    release = nw.Release.of(
        made, [round(0.28 * 50 / made.lattice.step[0])], dataset="d", ledger_head=None, simulated=True
    )
    population = nw.Normal(mean=stats.norm(0.5, 1), sd=stats.halfnorm(scale=1))
    wide = {"mean": rng.normal(-0.47, 0.3, 300), "sd": np.full(300, 0.6)}
    wide["mean"][:30] = 0.4
    wide["sd"][:30] = 0.05  # one draw in ten has nobody outside
    near = {"mean": rng.normal(0.4, 0.3, 300), "sd": np.where(np.arange(300) < 30, 0.05, 0.4)}
    for theta, is_warned in ((wide, True), (near, False)):
        share = stats.norm.cdf(-theta["mean"] / theta["sd"]) + stats.norm.sf((1 - theta["mean"]) / theta["sd"])
        assert share.mean() > 0.1
        assert np.quantile(share, 0.05) < 0.1
        said = bounds_sentences((release,), population, theta)
        assert bool(said.warnings) == is_warned
        assert bool(said.notes) != is_warned


def test_the_level_whose_share_p_is_is_named():
    """Of a column with levels yes and no, p is the share of the second: no."""
    both = nw.Schema(
        {"smoker": nw.Levels(["yes", "no"]), "sex": nw.Levels(["f", "m"]), "hand": nw.Bounded(0, 1)},
        n=100,
        neighbours="change-one",
    )
    coin = nw.Bernoulli(p=stats.beta(1, 1))
    smoker, sex, hand = map(nw.column, ("smoker", "sex", "hand"))
    joint = nw.Joint(smoker=coin, sex=coin, hand=coin)
    for statistic, population, said in (
        (nw.Count(smoker.equals("yes")), coin, ("p is the share of 'no', the second level of smoker.",)),
        (nw.Mean(smoker.equals("yes"), sex.equals("m")), joint, (
            "sex.p is the share of 'm', the second level of sex.",
            "smoker.p is the share of 'no', the second level of smoker.",
        )),
        (nw.Mean(hand), coin, ()),
        (nw.Count(smoker.equals("yes")), nw.Categorical(p=stats.dirichlet([1, 1])), ()),
    ):  # fmt: skip
        release = simulate(nw.plan(statistic, both, guarantee=nw.PureDP(1)), population, seed=1)
        assert tuple(sorted(level_sentences((release,), population))) == said
    release = simulate(nw.plan(nw.Count(smoker.equals("yes")), both, guarantee=nw.PureDP(1)), coin, seed=1)
    found = nw.infer(release, coin, seed=1, progress=False, draws=50)
    assert "p is the share of 'no'" in found.summary()
    assert not found.verdict.warns
    assert found.mean["p"] == pytest.approx(1 - release.estimate[0] / 100, abs=0.1)


def test_settings_that_hold_are_seldom_warned_of(rng):
    """Normal and other populations, up to 7 % of their mass beyond the bounds, all as fitted: at most 10 % may warn."""
    warned, settings = 0, 0
    for population, at in (
        (nw.Normal(mean=stats.norm(50, 50), sd=20), {"mean": 30.0}),
        (nw.Normal(mean=stats.norm(50, 50), sd=20), {"mean": 120.0}),
        (nw.LogNormal(log_mean=stats.norm(3, 1), log_sd=0.8), {"log_mean": 3.5}),
        (nw.Gamma(shape=2, rate=stats.gamma(2, scale=0.05)), {"rate": 0.03}),
        (nw.Exponential(rate=stats.gamma(2, scale=0.05)), {"rate": 0.02}),
    ):
        for statistic in (nw.Mean(X), nw.Mean(X.clip(0, 120)), nw.Count(X.between(0, 50))):
            made = nw.plan(statistic, schema("refuse", n=1000), guarantee=nw.GaussianDP(1))
            release = simulate(made, population, at=at, seed=int(rng.integers(2**62)))
            found = nw.infer(release, population, seed=1, progress=False, draws=50)
            warned += any("The fitted population" in warning for warning in found.verdict.warnings)
            settings += 1
    assert warned <= settings / 10


@pytest.mark.skipif(not (DATA / "income_us.csv.gz").exists(), reason="NOISEWISE_DATA has no income_us.csv.gz")
def test_real_incomes_are_warned_of_as_far_as_the_normal_law_puts_them_below_zero(rng):
    """Mean incomes of towns, and the spread of incomes within them, which is the more skewed of the two."""
    with gzip.open(DATA / "income_us.csv.gz", "rt", encoding="latin-1") as file:
        rows = list(itertools.islice(csv.DictReader(file), 4000))
    for name in ("Mean", "Stdev"):
        values = np.array([float(row[name]) / 1000 for row in rows])
        made = nw.plan(nw.Mean(X, X**2), schema("refuse", n=len(values)), guarantee=nw.GaussianDP(1))
        value = noisy_values(rng, made, {"income": np.clip(values, 0, 250)[None]})[0]
        release = nw.Release.of(made, value.tolist(), dataset=name, ledger_head=None, simulated=True)
        found = nw.infer(release, NORMAL, seed=1, progress=False, draws=100)
        share = stats.norm.cdf(-found.mean["mean"] / found.mean["sd"])
        is_warned = any("below 0" in warning for warning in found.verdict.warnings)
        assert is_warned if share > 1.2 * LARGE else not is_warned or share > 0.9 * LARGE
        assert is_warned or share < 0.01 or any("below 0" in note for note in found.verdict.notes)
