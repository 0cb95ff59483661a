"""A number that was published elsewhere is scored as our own release of the same law, and stays foreign."""

import json
import math
from html import unescape

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

import noisewise as nw
from noisewise.graphical import observed as graphical
from noisewise.likelihood.joint import joint_likelihood
from noisewise.measuring import ELSEWHERE
from noisewise.regression import observed as regression
from noisewise.release import Release
from noisewise.survey_release import load_releases

COLUMNS = {"age": nw.Bounded(0, 100), "smoker": nw.Levels(["no", "yes"]), "region": nw.Levels(["n", "e", "s"])}
PEOPLE = nw.Schema(COLUMNS, n=60, neighbours="change-one")
SMOKERS = nw.Count(nw.column("smoker").equals("yes"))
AGE = nw.Normal(mean=stats.norm(40, 20), sd=stats.halfnorm(scale=20))
SHARE = nw.Bernoulli(p=stats.beta(1, 1))
REGIONS = nw.Categorical(p=stats.dirichlet([1.0, 1.0, 1.0]))


def log_likelihood(release, population, theta, **more):
    return joint_likelihood([release], population, **more).log_likelihood(
        {name: np.asarray(value, float) for name, value in theta.items()}
    )


def up_to_a_constant(values):
    return np.asarray(values) - np.asarray(values)[0]


def own_release(statistic, schema, guarantee, value, mechanism=None):
    """A plan of ours and a release by it, of a value in lattice steps (or of what makes one of the plan)."""
    made = nw.plan(statistic, schema, guarantee=guarantee, mechanism=mechanism)
    steps = value(made) if callable(value) else value
    return made, Release.of(made, steps, dataset="made-up", ledger_head=None, simulated=True)


def stated(made, kind):
    """The noise of a plan, as a publisher would state it on the published value."""
    scale = [one / made.divisor for one in made.law.scale]
    return nw.laplace_noise(scale=scale) if kind == "laplace" else nw.gaussian_noise(sd=scale)


# ---- the same law as our own release ----


AGES = {"mean": np.array([35.0, 40.0, 43.5, 60.0]), "sd": np.array([12.0, 9.0, 20.0, 5.0])}


SUMS = [nw.Mean("age"), nw.Mean("age", nw.column("age") ** 2), nw.Sum(nw.column("age").clip(20, 60))]
PRICES = [("laplace", nw.PureDP(1)), ("gaussian", nw.GaussianDP(1)), ("gaussian", nw.ZeroConcentratedDP(1))]


@pytest.mark.parametrize("statistic", SUMS, ids=str)
@pytest.mark.parametrize(("kind", "guarantee"), PRICES)
@pytest.mark.parametrize("n", [60, 4000])
def test_a_measured_sum_has_the_likelihood_of_our_own_release(statistic, kind, guarantee, n):
    schema = nw.Schema({"age": nw.Bounded(0, 100)}, n=n, neighbours="change-one")
    records = {"age": np.linspace(15, 70, n)}

    def in_steps(made):
        sums = [np.sum(feature.value(records, schema)) for feature in statistic.row(schema)]
        return [round(total / step) for total, step in zip(sums, made.law.step, strict=True)]

    made, release = own_release(statistic, schema, guarantee, in_steps)
    measured = nw.measurement(statistic, schema, release.estimate, noise=stated(made, kind))
    ours, theirs = (up_to_a_constant(log_likelihood(one, AGE, AGES)) for one in (release, measured))
    assert theirs == pytest.approx(ours, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("n", [3, 60, 5000, 10**6])
def test_geometric_noise_on_a_count_is_our_own_release(n):
    schema = nw.Schema({"smoker": nw.Levels(["no", "yes"])}, n=n, neighbours="change-one")
    made, release = own_release(SMOKERS, schema, nw.PureDP(1), [n // 4 + 1])
    measured = nw.measurement(SMOKERS, schema, n // 4 + 1, noise=nw.geometric_noise(scale=made.law.scale[0]))
    assert (measured.law, measured.value) == (release.law, release.value)
    theta = {"p": [0.2, 0.25, 0.3, 0.9]}
    assert log_likelihood(measured, SHARE, theta) == pytest.approx(log_likelihood(release, SHARE, theta), rel=1e-12)


def test_discrete_gaussian_cells_are_our_own_release():
    table = nw.Histogram("region")
    made, release = own_release(table, PEOPLE, nw.ZeroConcentratedDP("1/2"), [21, 18, 24])
    measured = nw.measurement(table, PEOPLE, [21, 18, 24], noise=nw.gaussian_noise(sd=made.law.scale[0], discrete=True))
    assert (measured.law, measured.value) == (release.law, release.value)


def test_rounded_gaussian_counts_are_our_own_release():
    made, release = own_release(SMOKERS, PEOPLE, nw.GaussianDP(1), [17])
    measured = nw.measurement(SMOKERS, PEOPLE, 17, noise=nw.gaussian_noise(sd=made.law.scale[0], rounded=True))
    assert (measured.law, measured.value) == (release.law, release.value)


def test_answers_under_randomized_response_are_our_own_release():
    answers = nw.Records("region")
    made, release = own_release(answers, PEOPLE, nw.PureDP(1), [30, 20, 10])
    noise = nw.randomized_response(keep=made.law.keep, cells=3)
    measured = nw.measurement(answers, PEOPLE, [30, 20, 10], noise=noise)
    assert (measured.law, measured.value) == (release.law, release.value)
    assert measured.is_categorical


# ---- continuous noise, against enumeration and quadrature ----


def noise_density(kind, away, scale):
    return stats.laplace.logpdf(away, scale=scale) if kind == "laplace" else stats.norm.logpdf(away, scale=scale)


def stated_as(kind, scale, **more):
    return nw.laplace_noise(scale=scale, **more) if kind == "laplace" else nw.gaussian_noise(sd=scale, **more)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.05, 0.4, 3.0, 40.0])
@pytest.mark.parametrize(("count", "away"), [(0, -3.7), (12, 0.25), (17, 1.6), (60, 3.9)])
def test_a_count_with_continuous_noise_is_a_mixture_over_counts(kind, scale, count, away):
    """No lattice: the density of y is sum_s Binomial(s) f(y - s), however narrow the noise."""
    value = count + away * scale
    p = np.array([0.01, 0.2, 0.3, 0.6, 0.97])
    s = np.arange(61)
    joint = stats.binom.logpmf(s, 60, p[:, None]) + noise_density(kind, value - s, scale)
    measured = nw.measurement(SMOKERS, PEOPLE, value, noise=stated_as(kind, scale))
    found = log_likelihood(measured, SHARE, {"p": p}) - math.log(measured.law.step[0])
    assert found == pytest.approx(logsumexp(joint, axis=1), rel=1e-6, abs=1e-6)


def test_taking_a_continuously_noised_count_for_a_lattice_would_be_seen():
    """Planted: 17.6 rounded to 18 and scored as geometric noise is another likelihood."""
    theta = {"p": np.array([0.2, 0.3, 0.4])}
    right = nw.measurement(SMOKERS, PEOPLE, 17.6, noise=nw.laplace_noise(scale=0.4))
    wrong = nw.measurement(SMOKERS, PEOPLE, 18, noise=nw.geometric_noise(scale=0.4))
    one, other = (up_to_a_constant(log_likelihood(made, SHARE, theta)) for made in (right, wrong))
    assert np.max(np.abs(one - other)) > 1e-3


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.1, 1.3, [0.5, 2.0, 8.0]])
def test_a_table_with_continuous_noise_is_a_mixture_over_tables(kind, scale):
    schema = nw.Schema({"region": nw.Levels(["n", "e", "s"])}, n=9, neighbours="change-one")
    y = np.array([3, 0, 6]) + np.array([0.9, -1.5, -0.3]) * scale
    tables = np.array([(a, b, 9 - a - b) for a in range(10) for b in range(10 - a)])
    measured = nw.measurement(nw.Histogram("region"), schema, y, noise=stated_as(kind, scale))
    for p in ([0.2, 0.3, 0.5], [0.34, 0.06, 0.6], [0.9, 0.05, 0.05]):
        ways = gammaln(10) - gammaln(tables + 1).sum(axis=1) + (tables * np.log(p)).sum(axis=1)
        oracle = logsumexp(ways + noise_density(kind, y - tables, np.asarray(scale)).sum(axis=1))
        found = log_likelihood(measured, REGIONS, {"p": [p]})[0]
        assert found - sum(math.log(step) for step in measured.law.step) == pytest.approx(oracle, rel=1e-6, abs=1e-6)


def test_a_histogram_and_marginals_of_one_column_are_one_table():
    y, noise = [21.4, 17.9, 22.2], nw.laplace_noise(scale=2)
    theta = {"p": [[0.2, 0.3, 0.5], [0.4, 0.3, 0.3]]}
    both = [log_likelihood(nw.measurement(statistic, PEOPLE, y, noise=noise), REGIONS, theta)
            for statistic in (nw.Histogram("region"), nw.Marginals(("region",)))]  # fmt: skip
    assert both[0] == pytest.approx(both[1], rel=1e-12)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_mean_of_normal_records_is_a_convolution(kind):
    """Far from the bounds the mean of n normal records is normal, and the noise is that of the mean, not of the sum."""
    schema = nw.Schema({"age": nw.Bounded(-(10**6), 10**6)}, n=400, neighbours="change-one")
    measured = nw.measurement(nw.Mean("age"), schema, 41.0, noise=stated_as(kind, 0.7))
    for mean, sd in ((40.0, 10.0), (38.0, 25.0), (44.5, 3.0)):
        width = sd / 20

        def term(u, mean=mean, width=width):
            return stats.norm.pdf(u, mean, width) * np.exp(noise_density(kind, 41.0 - u, 0.7))

        ends = (mean - 12 * width, mean + 12 * width)
        oracle = integrate.quad(term, *ends, points=[41.0] if ends[0] < 41 < ends[1] else None, epsabs=0, epsrel=1e-11)[
            0
        ]
        found = log_likelihood(measured, AGE, {"mean": [mean], "sd": [sd]})[0] - math.log(measured.law.step[0] / 400)
        assert found == pytest.approx(math.log(oracle), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_local_answers_are_convolutions_of_single_records(kind):
    schema = nw.Schema({"age": nw.Bounded(20, 60)}, n=3, neighbours="change-one")
    answers, scale = np.array([12.5, 44.0, 71.3]), 8.0
    measured = nw.measurement(nw.Records("age"), schema, answers[::-1], noise=stated_as(kind, scale))
    assert measured.published == tuple(answers)  # sorted: the order would tell who gave which

    def density(y, mean, sd):
        def term(u):
            return stats.norm.pdf(u, mean, sd) * np.exp(noise_density(kind, y - u, scale))

        inner = integrate.quad(term, 20, 60, points=[y] if 20 < y < 60 else None, epsabs=0, epsrel=1e-11)[0]
        below, above = stats.norm.cdf(20, mean, sd), stats.norm.sf(60, mean, sd)
        return (
            inner
            + below * np.exp(noise_density(kind, y - 20, scale))
            + above * np.exp(noise_density(kind, y - 60, scale))
        )

    theta = {"mean": np.array([35.0, 50.0, 62.0]), "sd": np.array([15.0, 5.0, 20.0])}
    oracle = [sum(math.log(density(y, mean, sd)) for y in answers) for mean, sd in zip(*theta.values(), strict=True)]
    assert up_to_a_constant(log_likelihood(measured, AGE, theta)) == pytest.approx(up_to_a_constant(oracle), abs=1e-6)


def test_a_posterior_from_a_measured_count_is_the_exact_mixture():
    y, b = 17.3, 2.0
    posterior = nw.infer(nw.measurement(SMOKERS, PEOPLE, y, noise=nw.laplace_noise(scale=b)), SHARE, seed=1)
    s = np.arange(61)
    weights = np.exp(stats.laplace.logpdf(y - s, scale=b))  # the beta-binomial with a uniform prior is uniform
    mean = np.sum(weights * (1 + s) / 62) / np.sum(weights)
    assert posterior.mean["p"] == pytest.approx(mean, rel=1e-6)


# ---- every model takes it ----


def test_several_columns_are_factored_as_those_of_a_release():
    schema = nw.Schema({"a": nw.Bounded(0, 10), "b": nw.Bounded(0, 10)}, n=200, neighbours="change-one")
    population = nw.Joint(a=nw.Normal(mean=stats.norm(5, 2), sd=2.0), b=nw.Normal(mean=stats.norm(5, 2), sd=1.0))
    both = nw.measurement(nw.Mean("a", "b"), schema, [4.0, 6.0], noise=nw.laplace_noise(scale=[0.1, 0.3]))
    alone = nw.measurement(nw.Mean("b"), schema, 6.0, noise=nw.laplace_noise(scale=0.3))
    theta = {"a.mean": np.full(3, 4.0), "b.mean": np.array([5.8, 6.0, 6.4])}
    whole, part = (up_to_a_constant(log_likelihood(one, population, theta)) for one in (both, alone))
    assert whole == pytest.approx(part, rel=1e-6, abs=1e-6)


def test_a_regression_reads_measured_moments_as_those_of_a_release():
    schema = nw.Schema({"x": nw.Bounded(-5, 5), "y": nw.Bounded(-20, 20)}, n=500, neighbours="change-one")
    moments = nw.Moments(["x"], "y")
    made = nw.plan(moments, schema, guarantee=nw.GaussianDP(2))
    sums = [40.0, 530.0, 1010.0, 2100.0, 5300.0]  # of x, y, x x, x y, y y
    value = [round(total / step) for total, step in zip(sums, made.law.step, strict=True)]
    release = Release.of(made, value, dataset="made-up", ledger_head=None, simulated=True)
    measured = nw.measurement(moments, schema, release.estimate, noise=nw.gaussian_noise(sd=list(made.law.scale)))
    (ours,), (theirs,) = (
        regression.observe(one, [nw.column("x")], nw.column("y"), intercept=True, n=None).holders
        for one in (release, measured)
    )
    assert theirs.observed == pytest.approx(ours.observed, rel=1e-9)
    assert theirs.variance == pytest.approx(ours.variance, rel=1e-9)
    assert theirs.n == 500


def test_a_graphical_model_reads_measured_marginals_as_those_of_a_release():
    model = nw.GraphicalModel([("smoker", "region")], PEOPLE)
    tables, y = nw.Marginals(("smoker", "region")), [12.3, 9.1, 15.2, 4.4, 11.7, 8.1]
    made, release = own_release(tables, PEOPLE, nw.ZeroConcentratedDP("1/8"), [round(v) for v in y])
    sd = made.law.scale[0]
    whole = nw.measurement(tables, PEOPLE, [round(v) for v in y], noise=nw.gaussian_noise(sd=sd, discrete=True))
    loose = nw.measurement(tables, PEOPLE, y, noise=nw.gaussian_noise(sd=sd))
    ours, same, near = (graphical.observe(model, one).problem.holders[0] for one in (release, whole, loose))
    assert (same.observed == ours.observed).all()
    assert (same.variance == ours.variance).all()
    assert near.observed == pytest.approx(y)
    assert near.variance == pytest.approx(np.full(6, sd**2))
    assert near.family == ours.family
    drawn = model.simulate_values(
        np.random.default_rng(1), loose.as_plan(), model.sample_prior(np.random.default_rng(2), 50)
    )
    noise = np.array(loose.law.step) * drawn
    assert np.abs(noise.sum(axis=1) - 60).max() < 10 * math.sqrt(6) * sd


def test_sums_and_counts_by_group_are_learnt_from_as_from_a_release():
    statistic = nw.Mean("age", by="region")
    population = nw.Grouped("region", age=nw.Normal(mean=stats.norm(40, 20), sd=10.0), names=["n", "e", "s"])
    release = nw.simulate(nw.plan(statistic, PEOPLE, guarantee=nw.PureDP(4)), population, seed=5)
    measured = nw.measurement(
        statistic, PEOPLE, release.estimate, noise=nw.laplace_noise(scale=list(release.law.scale))
    )
    ours, theirs = (nw.infer(one, population, seed=1, draws=1000, progress=False) for one in (release, measured))
    for name in ours.mean:
        assert np.ravel(theirs.mean[name]) == pytest.approx(np.ravel(ours.mean[name]), abs=0.5 * np.max(ours.sd[name]))
    assert theirs.check.overall > 1e-6


@pytest.mark.parametrize(
    ("statistic", "value", "population"),
    [
        (SMOKERS, 17.6, SHARE),
        (nw.Histogram("region"), [21.4, 17.9, 22.2], REGIONS),
        (nw.Mean("age"), 40.3, nw.Normal(mean=stats.norm(40, 20), sd=10.0)),
    ],
    ids=str,
)
def test_replicates_of_a_measurement_are_drawn_around_it(statistic, value, population):
    """Planted: replicates of a table in whole steps of 1 would be nowhere near a lattice of 2^-36."""
    measured = nw.measurement(statistic, PEOPLE, value, noise=nw.laplace_noise(scale=np.abs(value) / 20))
    posterior = nw.infer(measured, population, seed=2, progress=False)
    assert posterior.check.overall > 0.001


# ---- it stays foreign (G2) ----


COUNT = nw.measurement(SMOKERS, PEOPLE, 17.6, noise=nw.laplace_noise(scale=2), source="diffprivlib")
NAMED = nw.measurement(SMOKERS, PEOPLE, 17.6, noise=nw.laplace_noise(scale=2), dataset="survey")
OTHER = nw.measurement(nw.Histogram("region"), PEOPLE, [20.2, 20.3, 20.4], noise=nw.laplace_noise(scale=2))


def test_infer_asks_whose_records_they_are():
    population = nw.Joint(smoker=nw.Bernoulli(p=stats.beta(1, 1)), region=nw.Categorical(p=stats.dirichlet([1.0] * 3)))
    for pair in ([COUNT, OTHER], [NAMED, OTHER], [OTHER, NAMED]):
        with pytest.raises(nw.InvalidArgument, match="whose records"):
            nw.infer(pair, population, progress=False)
    release = nw.simulate(nw.plan(nw.Histogram("region"), PEOPLE, guarantee=nw.PureDP(1)), population, seed=1)
    with pytest.raises(nw.InvalidArgument, match="whose records"):
        nw.infer([release, COUNT], population, progress=False)
    assert nw.infer([release, NAMED], population, seed=1, progress=False).releases == (release, NAMED)


def test_two_names_are_two_data_sets_and_one_name_is_one():
    """Log-likelihoods of different records add; two noisy counts of the same records have one sum behind them."""
    theta = {"p": np.array([0.2, 0.3, 0.4])}
    twin = nw.measurement(SMOKERS, PEOPLE, 20.1, noise=nw.laplace_noise(scale=1), dataset="survey")
    stranger = nw.measurement(SMOKERS, PEOPLE, 20.1, noise=nw.laplace_noise(scale=1), dataset="registry")
    apart = joint_likelihood([NAMED, stranger], SHARE).log_likelihood(theta)
    assert apart == pytest.approx(log_likelihood(NAMED, SHARE, theta) + log_likelihood(stranger, SHARE, theta))
    s = np.arange(61)
    both = noise_density("laplace", 17.6 - s, 2) + noise_density("laplace", 20.1 - s, 1)
    oracle = logsumexp(stats.binom.logpmf(s, 60, theta["p"][:, None]) + both, axis=1)
    together = joint_likelihood([NAMED, twin], SHARE).log_likelihood(theta)
    assert up_to_a_constant(together) == pytest.approx(up_to_a_constant(oracle), abs=1e-6)


def test_no_ledger_and_no_release_file_takes_a_measurement(tmp_path):
    file = tmp_path / "count.measurement.json"
    COUNT.save(file)
    with pytest.raises(nw.InvalidRelease, match="a measurement that was made elsewhere"):
        Release.load(file)
    ledger = nw.Ledger.open(tmp_path / "a.ledger", limit=nw.PureDP(1))
    with pytest.raises(nw.NoisewiseError):
        ledger.check([COUNT.to_bytes()])
    table = nw.Table.read({"smoker": ["no", "yes"] * 30, "age": [1.0] * 60, "region": ["n"] * 60}, PEOPLE)
    with pytest.raises(nw.InvalidArgument, match="must be a Plan"):
        nw.make_release(table, COUNT, ledger=ledger)
    with pytest.raises(nw.InvalidArgument, match="must be a Plan"):
        nw.make_release(table, COUNT.as_plan(), ledger=ledger)
    assert [entry.kind for entry in ledger.entries()] == ["open"]


def test_every_summary_says_that_it_was_measured_elsewhere(tmp_path):
    posterior = nw.infer(COUNT, SHARE, seed=1, progress=False)
    for text in (str(COUNT), repr(COUNT), posterior.summary(), COUNT._repr_html_(), posterior._repr_html_()):
        assert ELSEWHERE in " ".join(unescape(unescape(text)).split())
    posterior.save(tmp_path / "posterior.npz")
    again = nw.Posterior.load(tmp_path / "posterior.npz")
    assert again.releases == (COUNT,)
    assert ELSEWHERE in " ".join(again.summary().split())


def test_a_stated_guarantee_is_printed_as_a_statement():
    stated = nw.measurement(SMOKERS, PEOPLE, 17.6, noise=nw.laplace_noise(scale=2), guarantee=nw.PureDP("1/2"))
    assert "it states epsilon = 0.5" in stated.price
    assert nw.infer(stated, SHARE, seed=1, progress=False).summary().count("epsilon") == 0


# ---- its file ----


@pytest.mark.parametrize(
    "made",
    [
        COUNT,
        NAMED,
        OTHER,
        nw.measurement(nw.Mean("age"), PEOPLE, 40.3, noise=nw.gaussian_noise(sd=0.5), guarantee=nw.GaussianDP(1)),
        nw.measurement(SMOKERS, PEOPLE, 17, noise=nw.geometric_noise(scale=2)),
        nw.measurement(SMOKERS, PEOPLE, 17, noise=nw.gaussian_noise(sd=2, discrete=True)),
        nw.measurement(nw.Records("smoker"), PEOPLE, [40, 20], noise=nw.randomized_response(keep="3/4", cells=2)),
        nw.measurement(nw.Sum("age", by="region"), PEOPLE, [700.0, 800.5, 12.0], noise=nw.laplace_noise(scale=3)),
    ],
    ids=str,
)
def test_a_file_holds_what_was_measured(tmp_path, made):
    file = tmp_path / "one.measurement.json"
    made.save(file)
    again = nw.Measurement.load(file)
    assert (again, again.law, again.value, again.hash) == (made, made.law, made.value, made.hash)
    assert load_releases(file) == (made,)
    assert json.loads(file.read_text())["format"] == "noisewise-measurement/1"


def changed(**entries):
    return {**COUNT.to_dict(), **entries}


@pytest.mark.parametrize(
    "plain",
    [
        [], 3, None, {}, {"format": "noisewise-measurement/2"}, changed(value=[18.0]), changed(value=["18"]),
        changed(value=[[18.0]]), changed(value=[]), changed(value=[1e400]), changed(noise={"kind": "laplace"}),
        changed(noise={"kind": "cauchy", "scale": [1.0]}), changed(noise={"kind": "laplace", "scale": [0.0]}),
        changed(noise={"kind": "laplace", "scale": [-1.0], "rounded": False}), changed(noise=[]),
        changed(hash="sha256:0"),
        changed(dataset=""), changed(dataset="x" * 65), changed(source="x" * 301), changed(extra=1),
        changed(statistic={"kind": "median", "feature": "age"}), changed(statistic={}), changed(schema={}),
        changed(guarantee={"epsilon": "0"}),
    ],
)  # fmt: skip
def test_a_forged_or_damaged_measurement_is_refused_in_a_sentence(tmp_path, plain):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(plain))
    with pytest.raises(nw.InvalidRelease) as refused:
        nw.Measurement.load(file)
    assert str(refused.value).endswith(".")


def test_a_cut_off_file_is_refused(tmp_path):
    file = tmp_path / "cut.json"
    for size in (0, 1, 100, len(COUNT.to_bytes()) - 5):
        file.write_bytes(COUNT.to_bytes()[:size])
        with pytest.raises(nw.InvalidRelease, match="not a whole JSON file"):
            nw.Measurement.load(file)


# ---- bad arguments ----


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 0, "", None, True, 10**400, "x", [], [1, 2, 3, 4], [[1]], {}])
def test_noise_that_is_no_scale_is_refused(bad):
    for noise in (
        lambda: nw.laplace_noise(scale=bad),
        lambda: nw.gaussian_noise(sd=bad),
        lambda: nw.geometric_noise(scale=bad),
    ):
        with pytest.raises(nw.InvalidArgument):
            nw.measurement(SMOKERS, PEOPLE, 17.6, noise=noise())
    with pytest.raises(nw.InvalidArgument):
        nw.measurement(nw.Records("smoker"), PEOPLE, [40, 20], noise=nw.randomized_response(keep=bad, cells=2))


@pytest.mark.parametrize("bad", [math.nan, math.inf, "", None, "x", [], [1.5, 2.5], [[1.5]], {}, 10**400, 1e308])
def test_a_value_that_cannot_be_meant_is_refused(bad):
    with pytest.raises(nw.InvalidArgument):
        nw.measurement(SMOKERS, PEOPLE, bad, noise=nw.laplace_noise(scale=1))


@pytest.mark.parametrize("argument", ["dataset", "source"])
@pytest.mark.parametrize("bad", [3, True, b"x", "a\nb", "\x1b[31m", "x" * 400, ["x"]])
def test_names_that_cannot_be_printed_are_refused(argument, bad):
    with pytest.raises(nw.InvalidArgument, match=argument):
        nw.measurement(SMOKERS, PEOPLE, 17.6, noise=nw.laplace_noise(scale=1), **{argument: bad})


def test_noise_that_does_not_fit_is_refused():
    with pytest.raises(nw.InvalidArgument, match="whole number, which noise on all numbers gives with probability 0"):
        nw.measurement(SMOKERS, PEOPLE, 17, noise=nw.laplace_noise(scale=2))
    with pytest.raises(nw.InvalidArgument, match="no whole number"):
        nw.measurement(SMOKERS, PEOPLE, 17.5, noise=nw.geometric_noise(scale=2))
    with pytest.raises(nw.InvalidArgument, match="no whole number"):
        nw.measurement(nw.Mean("age"), PEOPLE, 40.0, noise=nw.geometric_noise(scale=2))
    with pytest.raises(nw.Unsupported, match="below a scale of 32"):
        nw.measurement(nw.Sum("age"), PEOPLE, 2400, noise=nw.geometric_noise(scale=2))
    with pytest.raises(nw.Unsupported, match="below a scale of 32"):
        nw.measurement(SMOKERS, PEOPLE, 17, noise=nw.laplace_noise(scale=2, rounded=True))
    with pytest.raises(nw.InvalidArgument, match="too small"):
        nw.measurement(nw.Sum("age"), PEOPLE, 2400.5, noise=nw.laplace_noise(scale=1e-12))
    with pytest.raises(nw.InvalidArgument, match="3 numbers"):
        nw.measurement(SMOKERS, PEOPLE, 17.5, noise=nw.laplace_noise(scale=[1, 2, 3]))
    with pytest.raises(nw.InvalidArgument, match="sum to n"):
        nw.measurement(nw.Records("smoker"), PEOPLE, [41, 20], noise=nw.randomized_response(keep="3/4", cells=2))
    with pytest.raises(nw.InvalidArgument, match="Records"):
        nw.measurement(nw.Histogram("smoker"), PEOPLE, [40, 20], noise=nw.randomized_response(keep="3/4", cells=2))
    with pytest.raises(nw.Unsupported, match="no sum over records"):
        nw.measurement(nw.Median("age"), PEOPLE, 40.0, noise=nw.laplace_noise(scale=2))


def test_whole_noise_on_a_wide_sum_is_taken_as_continuous():
    """At 32 steps to a scale the variance of whole noise is off by (1/32)^2/12, the likelihood by less than 1e-4."""
    theta = {"mean": np.array([38.0, 40.0, 42.0]), "sd": np.array([10.0, 9.0, 12.0])}
    found = [log_likelihood(nw.measurement(nw.Sum("age"), PEOPLE, 2400, noise=noise), AGE, theta)
             for noise in (nw.geometric_noise(scale=32), nw.laplace_noise(scale=32))]  # fmt: skip
    assert up_to_a_constant(found[0]) == pytest.approx(up_to_a_constant(found[1]), abs=1e-4)


def test_a_wrong_stated_n_is_caught_by_a_measured_table():
    schema = nw.Schema({"region": nw.Levels(["n", "e", "s"])}, n_max=1000, neighbours="add-remove")
    measured = nw.measurement(nw.Histogram("region"), schema, [20.2, 20.3, 20.4], noise=nw.laplace_noise(scale=1))
    assert nw.infer(measured, REGIONS, n=60, seed=1, progress=False).stated_n == 60
    with pytest.raises(nw.InvalidArgument, match="n = 200 was stated"):
        nw.infer(measured, REGIONS, n=200, progress=False)
