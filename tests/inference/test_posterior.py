"""Posteriors: what they say equals known answers, and what they lack they name (E7)."""

import math

import numpy as np
import pytest
from normal_posteriors import PLAN, POPULATION, PRIOR_SD, SCHEMA, SD, N, kept, posterior_of, release_at
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference import posterior as posteriors
from noisewise.inference.check import Check, overall_tail, tail_probabilities
from noisewise.inference.degrees import Degrees
from noisewise.inference.diagnostics import verdict
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict, Words
from noisewise.models.base import ModelBase
from noisewise.models.simulate import simulate
from noisewise.populations.population import Normal

ALARM = 1e-6
SIGMAS = stats.norm.isf(ALARM / 2)


def conjugate(y):
    """Posterior of the mean, and of the confidential mean of the records, in closed form: everything is normal."""
    noise = PLAN.noise[0].sd
    spread = SD**2 / N
    variance = 1 / (1 / PRIOR_SD**2 + 1 / (spread + noise**2))
    mean = variance * y / (spread + noise**2)
    prior_statistic = PRIOR_SD**2 + spread
    statistic_variance = 1 / (1 / prior_statistic + 1 / noise**2)
    predictive = math.sqrt(variance + spread + noise**2)
    return mean, math.sqrt(variance), statistic_variance * y / noise**2, math.sqrt(statistic_variance), predictive


SAID = Verdict(Words("toy"))


# ---- what it says ----


def test_mean_sd_and_intervals_are_those_of_the_conjugate_posterior(posterior):
    mean, sd, *_ = conjugate(1.5)
    assert posterior.mean["mean"] == pytest.approx(mean, abs=1e-4 * sd)  # by quadrature; the clamp is 15 sds away
    assert posterior.sd["mean"] == pytest.approx(sd, rel=1e-4)
    for level in (0.5, 0.9):
        low, high = posterior.interval(level)["mean"]
        share = stats.norm(mean, sd).cdf(high) - stats.norm(mean, sd).cdf(low)
        assert abs(share - level) < SIGMAS * math.sqrt(level * (1 - level) / 2000)
    without = Posterior(**kept(posterior) | {"moments": None})
    assert abs(without.mean["mean"] - mean) < SIGMAS * sd / math.sqrt(2000)
    assert without.mean["mean"] != posterior.mean["mean"]


def test_the_confidential_statistic_has_its_known_posterior(posterior):
    _, _, mean, sd, _ = conjugate(1.5)
    found = posterior.statistic
    assert found.labels == PLAN.statistic.labels(SCHEMA)
    assert abs(found.mean[0] - mean) < SIGMAS * sd / math.sqrt(len(found.draws))
    assert found.sd[0] == pytest.approx(sd, rel=SIGMAS / math.sqrt(2 * len(found.draws)))
    low, high = found.interval(0.9)
    assert low.shape == high.shape == (1,)
    assert low[0] < mean < high[0]
    assert found.labels[0] in str(found)


@pytest.mark.parametrize("y", [0.0, 1.5, 4.5, -6.0])
def test_the_check_is_the_tail_probability_of_the_predictive_law(seed, y):
    posterior = posterior_of([release_at(y)], seed=seed)
    mean, *_, predictive = conjugate(y)
    tail = 2 * stats.norm.sf(abs(y - mean) / predictive)
    found = posterior.check
    half = tail / 2
    assert (
        abs(found.overall - tail) < 2 * SIGMAS * math.sqrt(half * (1 - half) / found.replicates) + 2 / found.replicates
    )
    assert list(found.components) == list(PLAN.statistic.labels(SCHEMA))
    assert not found.is_checkable  # one number for one unknown: only a prior that disagrees would show
    assert str(found).startswith("The population cannot be checked by this release: it tells 1 number for 1 unknown")


def test_a_release_the_population_cannot_explain_is_surprising(seed):
    """The prior holds the mean within 0.01 of 0; a release of 5 is 30 sds away."""
    posterior = posterior_of([release_at(5.0)], Normal(mean=stats.norm(0, 0.01), sd=SD), seed=seed)
    assert posterior.check.is_surprising
    assert str(posterior.check).startswith("The release is surprising under the fitted model (tail probability 0.002):")
    assert "surprising" in posterior.summary()


def test_many_components_are_not_many_chances_to_be_surprised(rng):
    """Forty components: the smallest of forty tail probabilities is small by itself, and the overall one knows it."""
    pooled = rng.standard_t(2, (300, 201, 40))  # 300 experiments with heavy tails; the first row is the release
    overall = np.array([overall_tail(experiment) for experiment in pooled])
    assert stats.kstest(overall - rng.random(300) / 201, "uniform").pvalue > ALARM
    smallest = [tail_probabilities(experiment).min() for experiment in pooled]
    assert stats.kstest(smallest, "uniform").pvalue < ALARM  # planted: the bare minimum is not a tail probability


def test_one_odd_component_among_many_is_found(rng):
    pooled = rng.standard_normal((501, 40))
    pooled[0, 17] = 30.0
    assert overall_tail(pooled) == 1 / 501
    pooled[:, 3] = 7.0  # a component that never moves changes nothing
    assert overall_tail(pooled) == 1 / 501


def test_check_and_statistic_are_reproducible_and_computed_once(seed):
    one, same, other = (posterior_of([release_at(1.5)], seed=s, draws=100) for s in (seed, seed, seed + 1))
    assert one.check == same.check
    assert np.array_equal(one.statistic.draws, same.statistic.draws)
    assert not np.array_equal(one.statistic.draws, other.statistic.draws)
    assert one.statistic is one.statistic


def test_several_releases_of_several_kinds_can_be_checked(seed):
    x = nw.column("x")
    plans = [
        PLAN,
        nw.plan(nw.Count(x.between(0, 50)), SCHEMA, guarantee=nw.PureDP(1)),
        nw.plan(nw.Histogram("x", edges=[-10, 0, 10]), SCHEMA, guarantee=nw.PureDP(1)),
        nw.plan(nw.Records(x.clip(-5, 5)), SCHEMA, guarantee=nw.PureDP(1)),
        nw.plan(nw.Records(x, cells=[-1, 1]), SCHEMA, guarantee=nw.PureDP(1)),
        nw.plan(nw.Median(x), SCHEMA, guarantee=nw.PureDP(1)),
    ]
    releases = [simulate(plan, POPULATION, at={"mean": 1.0}, seed=seed + k) for k, plan in enumerate(plans)]

    def check_at(mean, of):
        draws = {"mean": np.random.default_rng(seed).normal(mean, 0.1, (2, 100))}
        return Posterior(draws, "toy", "it is a toy", "auto", SAID, POPULATION, of, seed=seed).check

    found = check_at(1.0, releases)
    assert found.replicates == 200
    cells = sum("clip(x, -5, 5)" in label for label in found.components)
    assert 4 <= cells <= 12  # the noisy answers by their cells
    assert len(found.components) == 1 + 1 + 4 + cells + 3 + 1
    assert all(0 < p <= 1 for p in found.components.values())
    assert 0 < found.overall <= 1
    for release in releases:  # planted: draws that are elsewhere
        assert check_at(-30.0, [release]).is_surprising


def test_a_plan_is_rebuilt_as_it_was(seed):
    x = nw.column("x")
    weighted = nw.plan(nw.Mean(x, x**2), SCHEMA, guarantee=nw.PureDP(1), weights=["1/50", "1/9"])
    part = nw.plan(nw.Sum(x), SCHEMA, guarantee=nw.ZeroConcentratedDP("1/2"), part=("0", "1/2"))
    for plan in (PLAN, weighted, part):
        release = simulate(plan, POPULATION, at={"mean": 1.0}, seed=seed)
        again = release.as_plan()
        assert again.law == plan.law
        assert again.lattice == plan.lattice
        assert again.weights == plan.weights
        assert again.part_schema == plan.part_schema


def test_a_stated_n_is_used_and_printed(seed):
    schema = nw.Schema({"x": nw.Bounded(-50, 50)}, n_max=10_000, neighbours="add-remove")
    plan = nw.plan(nw.Sum(nw.column("x")), schema, guarantee=nw.GaussianDP("1"))
    release = nw.Release.of(plan, [round(6000 / plan.lattice.step[0])], dataset="t", ledger_head=None, simulated=True)
    posterior = posterior_of([release], seed=seed, n=4000)
    assert "Stated n: 4000" in posterior.summary()
    assert posterior.check.overall > 0.05
    assert abs(posterior.mean["mean"] - 1.5) < 0.5
    assert abs(posterior.statistic.mean[0] - 6000) < 1000


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, math.nan, math.inf, True, "0.9", None, [0.9]])
def test_a_level_that_is_no_share_is_refused(posterior, level):
    for ask in (posterior.interval, posterior.statistic.interval):
        with pytest.raises(InvalidArgument) as error:
            ask(level)
        assert error.value.argument == "level"


def test_the_shortest_interval_of_an_exponential_starts_at_zero(rng):
    draws = {"a": rng.standard_exponential((4, 5000))}
    posterior = Posterior(draws, "toy", "it is a toy", "auto", SAID, None, ())
    low, high = posterior.interval(0.9, kind="hpd")["a"]
    assert low < 0.03
    assert high == pytest.approx(-math.log(0.1), abs=0.2)
    assert posterior.interval(0.9)["a"] == pytest.approx((-math.log(0.95), -math.log(0.05)), abs=0.2)
    with pytest.raises(InvalidArgument, match="equal-tailed"):
        posterior.interval(0.9, kind="widest")


def test_diagnostics_come_by_parameter_and_component(rng):
    x = rng.standard_normal((4, 500))
    posterior = Posterior(
        {"a": x, "p": rng.dirichlet([1, 2, 3], (4, 500))}, "toy", "it is a toy", "auto", SAID, None, (), energy=x
    )
    assert posterior.ess["a"] > 1000
    assert posterior.rhat["p"].shape == posterior.mean["p"].shape == posterior.sd["p"].shape == (3,)
    assert posterior.mcse["a"] == pytest.approx(1 / math.sqrt(2000), rel=0.3)
    assert posterior.iac["a"] == pytest.approx(1, abs=0.5)
    assert posterior.interval()["p"][0].shape == (3,)
    assert [label for label, _ in posterior.scalars()] == ["a", "p[0]", "p[1]", "p[2]"]
    assert posterior.missing_information.shape == (4,)
    assert "p[2]" in posterior.summary()
    with pytest.raises(Unsupported, match="nuts"):
        _ = Posterior({"a": x}, "slice", "", "auto", SAID, None, ()).missing_information


def test_draws_of_different_sizes_are_refused(rng):
    for draws in ({}, {"a": np.ones(3)}, {"a": np.ones((2, 3)), "b": np.ones((2, 4))}):
        with pytest.raises(InvalidArgument):
            Posterior(draws, "toy", "", "auto", SAID, None, ())


def test_a_summary_simulates_nothing_and_shows_the_check_once_it_is_known(seed, tmp_path, monkeypatch):
    fresh = posterior_of([release_at(1.5)], seed=seed, draws=100)
    with monkeypatch.context() as patch:
        patch.setattr(posteriors, "predictive_check", lambda *_: pytest.fail("a summary simulated"))
        assert "Check: not made yet; posterior.check simulates" in fresh.summary()
        fresh.save(tmp_path / "before")
    assert fresh.known_check is None
    made = fresh.check
    assert fresh.known_check is made
    assert f"Check: {str(made)[:60]}" in fresh.summary()
    fresh.save(tmp_path / "after")
    assert Posterior.load(tmp_path / "before").known_check is None
    assert Posterior.load(tmp_path / "after").known_check == made
    assert Posterior.load(tmp_path / "after").summary() == fresh.summary()


def test_why_there_is_no_check_is_said_once_it_was_asked_for(seed):
    alone = Posterior({"mean": np.zeros((2, 50))}, "toy", "", "auto", SAID, None, (release_at(1.5),), seed=seed)
    with pytest.raises(Unsupported, match="no model"):
        _ = alone.check
    assert "Check: not made: These draws are of no model" in alone.summary()


def test_the_summary_says_what_was_found_how_and_how_far_to_trust_it(posterior):
    _ = posterior.check
    text = posterior.summary()
    sentence, table = text.split("\n\n")[:2]
    assert sentence.startswith("The mean x is ")
    assert sentence.endswith(" at mu = 1.")
    assert [word for word in table.splitlines()[0].split() if word != "%"] == [
        "parameter", "mean", "sd", "5", "50", "95", "ess", "rhat",
    ]  # fmt: skip
    assert f"{posterior.mean['mean']:.6g}" in text
    assert "equal-tailed 90 % interval" in text
    assert "Method: Adaptive quadrature of one parameter" in text
    assert "Likelihood: auto" in text
    assert "Verdict: Computed by quadrature: 2000 independent draws." in text
    assert "Check: The population cannot be checked by this release" in text
    assert repr(posterior) == "<Posterior of mean by exact: 4 chains of 500 draws>"


def test_the_summary_of_a_broken_run_says_so(rng):
    x = rng.standard_normal((4, 100, 1))
    judged = verdict(x, names=("a",), non_finite=(0, 3, 0, 0))
    posterior = Posterior({"a": x[:, :, 0]}, "mh", "", "auto", judged, POPULATION, ())
    assert "3 of 400 steps met a non-finite density; chain 2 should be run again." in posterior.summary()


def test_a_point_has_values_but_no_spread_and_names_a_method_that_has():
    point = Posterior.point(
        {"mean": 1.25, "p": [0.2, 0.8]}, method="map", how="the highest density", population=POPULATION,
        releases=[release_at(1.5)], instead="slice",
    )  # fmt: skip
    assert point.is_point
    assert point.mean["mean"] == 1.25
    assert point.mean["p"].tolist() == [0.2, 0.8]
    for ask in (
        lambda: point.sd, point.interval, lambda: point.ess, lambda: point.rhat, lambda: point.mcse, lambda: point.iac,
        point.plot, point.to_arviz, lambda: point.statistic,
    ):  # fmt: skip
        with pytest.raises(Unsupported, match=r"point estimate.*method='slice'"):
            ask()
    assert "estimate" in point.summary()
    assert "1.25" in point.summary()
    assert 0 < point.check.overall <= 1
    assert repr(point) == "<Posterior of mean, p by map: a point estimate>"


def test_the_naive_method_has_no_confidential_statistic(posterior):
    with pytest.raises(Unsupported, match="naive"):
        _ = Posterior(**kept(posterior) | {"method": "naive"}).statistic


def test_a_plot_is_a_picture(posterior, tmp_path):
    path = tmp_path / "posterior.png"
    assert posterior.plot(path)[:4] == b"\x89PNG"
    assert path.read_bytes()[:4] == b"\x89PNG"


# ---- models of other kinds ----


class Line(ModelBase):
    """A model that is no population: it brings its own likelihood and its own simulation."""

    free = ("slope",)
    releases = ()

    def joint_likelihood(self, releases, *, likelihood, n):
        self.releases = releases
        self.groups = [self]
        return self

    def draw_statistic(self, rng, theta):
        return np.full((len(theta["slope"]), 1), 7.0)

    def simulate_values(self, rng, plan, theta, *, n, approximate):
        return np.round(rng.normal(theta["slope"], 1.0) / plan.lattice.step[0])[:, None].astype(int)

    def degrees(self, releases, theta):
        return Degrees(told=2, shapes=2, unknowns=1)


def test_a_model_answers_with_its_own_likelihood_and_simulation(rng):
    posterior = Posterior(
        {"slope": rng.normal(0, 1, (2, 100))}, "gibbs", "", "auto", SAID, Line(), (release_at(0.0),), seed=1
    )
    assert posterior.statistic.draws[0, 0] == 7.0
    assert posterior.check.replicates == 200


# ---- the words of the check ----


def test_the_sentences_of_the_check():
    assert str(Check({"a": 0.4}, 0.41, 500)) == (
        "The release is not surprising under the fitted model (tail probability 0.41)."
    )
    assert str(Check({"a": 0.4, "b": 0.01}, 0.02, 500)) == (
        "The release is somewhat unusual under the fitted model (tail probability 0.02), most of all in b."
    )
