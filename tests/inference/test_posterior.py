"""Posteriors: what they say equals known answers, what they keep comes back whole, what they lack they name (E7)."""

import io
import json
import math
from dataclasses import fields

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference.check import Check, overall_tail, plan_of, tail_probabilities
from noisewise.inference.diagnostics import Verdict, verdict
from noisewise.inference.exact import exact
from noisewise.inference.posterior import Posterior
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.simulate import simulate
from noisewise.populations.population import Bernoulli, Joint, LocationScale, Normal, Population
from noisewise.populations.text import population_to_spec

ALARM = 1e-6
SIGMAS = stats.norm.isf(ALARM / 2)
N, SD, PRIOR_SD = 4000, 3.0, 2.0
SCHEMA = nw.Schema({"x": nw.Bounded(-50, 50)}, n=N, neighbours="change-one")
PLAN = nw.plan(nw.Mean(nw.column("x")), SCHEMA, guarantee=nw.GaussianDP("1"))
POPULATION = Normal(mean=stats.norm(0, PRIOR_SD), sd=SD)


def release_at(mean, plan=PLAN):
    """The release that reads as `mean`."""
    steps = round(mean * plan.divisor / plan.lattice.step[0])
    return nw.Release.of(plan, [steps], dataset="toy", ledger_head=None, simulated=True)


def posterior_of(releases, population=POPULATION, *, seed, draws=500, n=None):
    """By exact computation on the joint likelihood, as `infer` does it."""
    law = joint_likelihood(releases, population, n=n)
    target = Target(Transform(population.supports), population.log_prior, law.log_likelihood, population.sample_prior)
    found = exact(np.random.default_rng(seed), target, chains=4, draws=draws, warmup=200)
    theta = target.parameters(found.positions.reshape(-1, target.size))
    return Posterior(
        draws={name: value.reshape(4, draws, *value.shape[1:]) for name, value in theta.items()},
        method="exact",
        because=f"{found.how}; {law.because}",
        likelihood="auto",
        verdict=found.verdict,
        population=population,
        releases=law.releases,
        seed=seed,
        log_evidence=found.log_evidence,
        moments=found.moments,
        seconds=0.25,
        stated_n=n,
    )


@pytest.fixture
def seed(rng):
    return int(rng.integers(2**62))


@pytest.fixture
def posterior(seed):
    return posterior_of([release_at(1.5)], seed=seed)


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


def kept(posterior):
    return {f.name: getattr(posterior, f.name) for f in fields(posterior) if not f.name.startswith("_")}


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
    assert "not surprising under the fitted model (tail probability" in str(found)


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
        return Posterior(draws, "toy", "it is a toy", "auto", None, POPULATION, of, seed=seed).check

    found = check_at(1.0, releases)
    assert found.replicates == 200
    assert len(found.components) == 1 + 1 + 4 + 10 + 3 + 1  # the sorted answers by their mean and deciles
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
        again = plan_of(release)
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
    posterior = Posterior(draws, "toy", "it is a toy", "auto", None, None, ())
    low, high = posterior.interval(0.9, kind="hpd")["a"]
    assert low < 0.03
    assert high == pytest.approx(-math.log(0.1), abs=0.2)
    assert posterior.interval(0.9)["a"] == pytest.approx((-math.log(0.95), -math.log(0.05)), abs=0.2)
    with pytest.raises(InvalidArgument, match="equal-tailed"):
        posterior.interval(0.9, kind="widest")


def test_diagnostics_come_by_parameter_and_component(rng):
    x = rng.standard_normal((4, 500))
    posterior = Posterior(
        {"a": x, "p": rng.dirichlet([1, 2, 3], (4, 500))}, "toy", "it is a toy", "auto", None, None, (), energy=x
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
        _ = Posterior({"a": x}, "slice", "", "auto", None, None, ()).missing_information


def test_draws_of_different_sizes_are_refused(rng):
    for draws in ({}, {"a": np.ones(3)}, {"a": np.ones((2, 3)), "b": np.ones((2, 4))}):
        with pytest.raises(InvalidArgument):
            Posterior(draws, "toy", "", "auto", None, None, ())


def test_the_summary_says_what_was_found_how_and_how_far_to_trust_it(posterior):
    text = posterior.summary()
    assert [word for word in text.splitlines()[0].split() if word != "%"] == [
        "parameter", "mean", "sd", "5", "50", "95", "ess", "rhat",
    ]  # fmt: skip
    assert f"{posterior.mean['mean']:.6g}" in text
    assert "equal-tailed 90 % interval" in text
    assert "Method: exact (adaptive quadrature of one parameter" in text
    assert "Likelihood: auto" in text
    assert "Verdict: Exact: 2000 independent draws by quadrature." in text
    assert "Check: The release is not surprising" in text
    assert repr(posterior) == "<Posterior of mean by exact: 4 chains of 500 draws>"


def test_the_summary_of_a_broken_run_says_so(rng):
    x = rng.standard_normal((4, 100, 1))
    judged = verdict(x, names=("a",), non_finite=(0, 3, 0, 0))
    posterior = Posterior({"a": x[:, :, 0]}, "mh", "", "auto", judged, POPULATION, ())
    assert "3 of 400 steps met a non-finite density; chain 2 should be run again." in posterior.summary()


def test_a_point_has_values_but_no_spread_and_names_a_method_that_has():
    point = Posterior.point(
        {"mean": 1.25, "p": [0.2, 0.8]}, method="map", because="the highest density", population=POPULATION,
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


class Line:
    """A model that is no population: it brings its own likelihood and its own simulation."""

    releases = ()

    def joint_likelihood(self, releases, *, likelihood, n):
        self.releases = releases
        return self

    def draw_statistic(self, rng, theta):
        return np.full((len(theta["slope"]), 1), 7.0)

    def simulate_values(self, rng, plan, theta, *, n):
        return np.round(rng.normal(theta["slope"], 1.0) / plan.lattice.step[0])[:, None].astype(int)

    def to_spec(self):
        return {"a": 1}


def test_a_model_answers_with_its_own_likelihood_and_simulation(rng):
    posterior = Posterior(
        {"slope": rng.normal(0, 1, (2, 100))}, "gibbs", "", "auto", None, Line(), (release_at(0.0),), seed=1
    )
    assert posterior.statistic.draws[0, 0] == 7.0
    assert posterior.check.replicates == 200


# ---- what it keeps ----


def assert_same(one, other):
    assert list(one.draws) == list(other.draws)
    for name in one.draws:
        assert np.array_equal(one.draws[name], other.draws[name])
    assert one.releases == other.releases
    assert population_to_spec(one.population) == population_to_spec(other.population)
    for name in ("method", "because", "likelihood", "seed", "is_point", "log_evidence", "seconds", "stated_n",
                 "instead", "verdict"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    assert (one.moments is None) == (other.moments is None)
    if one.moments is not None:
        for name, pair in one.moments.items():
            assert [np.asarray(v).tolist() for v in pair] == [np.asarray(v).tolist() for v in other.moments[name]]
    assert np.array_equal(one.energy, other.energy) if one.energy is not None else other.energy is None


@pytest.mark.parametrize("name", ["posterior.npz", "posterior", "posterior.json"])
def test_a_saved_posterior_comes_back_in_every_field_and_answers_the_same(posterior, tmp_path, name):
    posterior.save(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    loaded = Posterior.load(tmp_path / name)
    assert_same(posterior, loaded)
    assert loaded.check == posterior.check
    assert np.array_equal(loaded.statistic.draws, posterior.statistic.draws)
    assert loaded.summary() == posterior.summary()


def test_every_kind_of_posterior_survives_a_file(rng, tmp_path):
    x = rng.standard_normal((2, 50))
    joint = Joint(x=Normal(mean=stats.norm(0, 1), sd=stats.halfnorm(scale=3)), smoker=Bernoulli(p=stats.beta(1, 1)))
    made = [
        Posterior(
            {"x.mean": x, "x.sd": np.exp(x), "smoker.p": 1 / (1 + np.exp(x))},
            "nuts", "because", "clt", verdict(x[:, :, None]), joint, (), seed=3, stated_n=[400, 20], energy=x,
        ),
        Posterior.point({"mean": 1.0}, method="map", because="", population=POPULATION, releases=[], instead="exact"),
        Posterior(
            {"mean": x}, "mh", "", "auto", None, POPULATION, (), moments={"mean": (math.nan, math.inf)}, seconds=1.0
        ),
    ]  # fmt: skip
    for k, posterior in enumerate(made):
        posterior.save(tmp_path / str(k))
        loaded = Posterior.load(tmp_path / str(k))
        if k == 1:
            assert loaded.is_point
        if k == 2:
            assert math.isnan(loaded.mean["mean"])
            assert loaded.sd["mean"] == math.inf
            posterior, loaded = (Posterior(**kept(p) | {"moments": None}) for p in (posterior, loaded))
        if k == 0:
            assert isinstance(loaded.verdict, Verdict)
            assert str(loaded.verdict) == str(posterior.verdict)
            posterior, loaded = (Posterior(**kept(p) | {"verdict": None}) for p in (posterior, loaded))
        assert_same(posterior, loaded)


def altered(path, change):
    """The file with its header changed."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    header = json.loads(str(arrays["header"]))
    change(header, arrays)
    arrays["header"] = np.array(json.dumps(header))
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    path.write_bytes(stream.getvalue())


def test_bad_files_are_refused_in_one_sentence(posterior, tmp_path):
    path = tmp_path / "p"
    changes = {
        "a newer version": lambda h, _: h.update(format="noisewise-posterior/2"),
        "a missing field": lambda h, _: h.pop("method"),
        "missing draws": lambda _, a: a.pop("draws_0"),
        "an edited release": lambda h, _: h["releases"][0].update(value=[1]),
        "a hostile model": lambda h, _: h.update(population={"class": "os:system", "spec": "true"}),
        "a hostile population": lambda h, _: h.update(population={"spec": {"x": "__import__('os')"}}),
        "draws of another shape": lambda _, a: a.update(draws_0=np.ones(3)),
        "an unknown verdict": lambda h, _: h.update(verdict={"kind": "Verdict"}),
    }
    for name, change in changes.items():
        posterior.save(path)
        altered(path, change)
        with pytest.raises(InvalidArgument, match="saved posterior") as error:
            Posterior.load(path)
        assert error.value.argument == "path", name
    posterior.save(path)
    whole = path.read_bytes()
    np.save(tmp_path / "one.npy", np.ones(3))
    np.savez(tmp_path / "pickled.npz", header=np.array([{"format": "noisewise-posterior/1"}], dtype=object))
    one, pickled = ((tmp_path / name).read_bytes() for name in ("one.npy", "pickled.npz"))
    for data in (b"", b"{}", whole[: len(whole) // 2], one, pickled):
        path.write_bytes(data)
        with pytest.raises(InvalidArgument, match="saved posterior"):
            Posterior.load(path)
    with pytest.raises(InvalidArgument, match="saved posterior"):
        Posterior.load(tmp_path / "nowhere")
    for bad in ("", None, 3):
        with pytest.raises(InvalidArgument) as error:
            Posterior.load(bad)
        assert error.value.argument == "path"
    with pytest.raises(NoisewiseError, match="Cannot write"):
        posterior.save(tmp_path / "no" / "folder")


class Triangular(stats.rv_continuous):
    """A distribution scipy.stats does not know by name."""

    def _pdf(self, x):
        return np.where(np.abs(x) < 1, 1 - np.abs(x), 0.0)


def test_a_population_that_cannot_be_written_is_a_clear_error(rng, tmp_path):
    for population in (
        Population(Triangular(a=-1, b=1, name="triangular"), loc=stats.norm(), scale=1),
        LocationScale(Triangular(a=-1, b=1, name="triangular")(), loc=stats.norm(), scale=1),
    ):
        posterior = Posterior({"loc": rng.normal(size=(2, 20))}, "mh", "", "auto", None, population, ())
        with pytest.raises(Unsupported, match="cannot be saved, because its population cannot be written"):
            posterior.save(tmp_path / "p")
        assert not list(tmp_path.iterdir())


def test_the_sentences_of_the_check():
    assert str(Check({"a": 0.4}, 0.41, 500)) == (
        "The release is not surprising under the fitted model (tail probability 0.41)."
    )
    assert str(Check({"a": 0.4, "b": 0.01}, 0.02, 500)) == (
        "The release is somewhat unusual under the fitted model (tail probability 0.02), most of all in b."
    )
