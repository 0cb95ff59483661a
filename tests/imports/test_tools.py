"""What other tools publish is read as they publish it, scored as our own release with the same law, or refused.

The inputs are made by the tools themselves where they are installed (`pip install noisewise[peers]`).
"""

import collections
import functools
import importlib
import importlib.util
import json
import math
import sys
import types

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import noisewise as nw
from noisewise.graphical import observed as graphical
from noisewise.likelihood.joint import joint_likelihood
from noisewise.release import Release

COLUMNS = {"age": nw.Bounded(0, 50), "smoker": nw.Levels(["no", "yes"]), "region": nw.Levels(["n", "e", "s"])}
SCHEMA = nw.Schema(COLUMNS, n=1000, neighbours="change-one")
AGES = [float(k % 40) for k in range(1000)]
SMOKERS = nw.Count(nw.column("smoker").equals("yes"))
AGE = nw.Normal(mean=stats.norm(20, 10), sd=10.0)
SHARE = nw.Bernoulli(p=stats.beta(1, 1))
REGIONS = nw.Categorical(p=stats.dirichlet([1.0, 1.0, 1.0]))


def opendp_context(**more):
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), **more)
    unit = dp.unit_of(contributions=2 if more else 1)  # of a known size one change is one record less and one more
    loss = dp.loss_of(epsilon=1.0)
    return dp.Context.compositor(data=AGES, privacy_unit=unit, privacy_loss=loss, split_evenly_over=3, domain=domain)


@functools.cache
def diffprivlib_mechanisms():
    """The mechanisms of diffprivlib; its models need an older scikit-learn, and are left out where they fail."""
    found = importlib.util.find_spec("diffprivlib")
    if found is None:
        pytest.skip("diffprivlib is not installed (pip install noisewise[peers])")
    try:
        return importlib.import_module("diffprivlib.mechanisms")
    except ImportError:
        package = types.ModuleType("diffprivlib")
        package.__path__ = list(found.submodule_search_locations)
        sys.modules["diffprivlib"] = package
        return importlib.import_module("diffprivlib.mechanisms")


def posterior_mean_of_share(y, n, log_noise):
    """E[p | y] under a uniform prior: the count is uniform on 0..n, and p given it Beta(s + 1, n - s + 1)."""
    s = np.arange(n + 1)
    weights = np.exp(log_noise(y - s) - np.max(log_noise(y - s)))
    return np.sum(weights * (s + 1) / (n + 2)) / weights.sum()


def exact_table(published, log_noise, p):
    """log p(published | p) of a table of three cells, by every table of 1000 records and the noise as it is stated."""
    s = np.arange(1001)
    first, second = (one.ravel() for one in np.meshgrid(s, s, indexing="ij"))
    tables = np.stack([first, second, 1000 - first - second])[:, first + second <= 1000]
    near = np.all(np.abs(tables - np.asarray(published)[:, None]) < 250, axis=0)  # 30 sd of any noise used here
    tables = tables[:, near]
    noise = np.sum([log_noise(y - cell, j) for j, (y, cell) in enumerate(zip(published, tables, strict=True))], axis=0)
    ways = gammaln(1001) - gammaln(tables + 1.0).sum(axis=0) + noise
    return np.array([np.logaddexp.reduce(ways + np.log(one) @ tables) for one in p])


def our_release(measured, statistic, step=2.0**-20):
    """The same numbers as a release of our own with the same law, on a lattice that is not the measurement's."""
    law = measured.law.__class__(measured.law.scale, (step,) * measured.law.size)
    value = tuple(round(one / step) for one in measured.published)
    weights = nw.plan(statistic, measured.schema, guarantee=nw.PureDP(1)).weights
    return Release("ours", measured.schema, statistic, weights, law, nw.PureDP(1), value)


def shares_near(measured, size=6):
    """Shares where the posterior is, spread over some of its standard deviations."""
    return np.random.default_rng().dirichlet(np.maximum(measured.published, 1.0), size)


def same_posterior(one, two, population, theta, tolerance=1e-6):
    """Whether two numbers tell the same: their likelihoods differ by a constant, and the same seed draws the same."""
    laws = [nw.likelihood_of(given, population).log_likelihood(theta) for given in (one, two)]
    drawn = [nw.infer(given, population, seed=1, progress=False) for given in (one, two)]
    gap = laws[0] - laws[1]
    name = population.free[0]
    # A draw picks a table by a number between 0 and 1; where two tables meet, the last digit may pick the other.
    apart = np.mean(np.abs(drawn[0].draws[name] - drawn[1].draws[name]) > 1e-6)
    return np.max(np.abs(gap - gap[0])) < tolerance and apart < 0.01


# ---- OpenDP ----


def test_a_mean_from_opendp_has_the_posterior_of_our_own_release():
    query = opendp_context(size=1000).query().clamp((0.0, 50.0)).mean().laplace()
    value, stated = query.release(), {"distribution": "Float Laplace", "scale": query.param()}
    measured = nw.imports.opendp(nw.Mean("age"), SCHEMA, value, stated)
    posterior = nw.infer(measured, AGE, seed=1, progress=False)
    made = nw.plan(nw.Mean("age"), SCHEMA, guarantee=nw.PureDP("1/3"))
    law = made.law.__class__((query.param() * 1000,), made.law.step)
    release = Release(
        "ours", SCHEMA, made.statistic, made.weights, law, made.guarantee, (round(value * 1000 / law.step[0]),)
    )
    ours = nw.infer(release, AGE, seed=1, progress=False)
    assert query.param() == pytest.approx(0.05 * 3, rel=1e-3)
    assert posterior.mean["mean"] == pytest.approx(ours.mean["mean"], rel=1e-6)
    assert posterior.sd["mean"] == pytest.approx(ours.sd["mean"], rel=1e-6)


def test_a_count_from_opendp_is_geometric():
    context = opendp_context()
    query = context.query().count().laplace()
    schema = nw.Schema({"age": nw.Bounded(0, 50)}, n_max=5000, neighbours="add-remove")
    everybody = nw.Count(nw.column("age").between(0, 50))
    measured = nw.imports.opendp(
        everybody, schema, query.release(), {"distribution": "Integer Laplace", "scale": query.param()}
    )
    assert measured.law.step == (1.0,)
    assert measured.law.scale == (query.param(),)


@pytest.mark.parametrize(
    ("distribution", "value", "family"),
    [
        ("Integer Laplace", 17, "discrete-laplace"),
        ("Float Laplace", 17.5, "discrete-laplace"),
        ("Integer Gaussian", 17, "discrete-gaussian"),
        ("Float Gaussian", 17.5, "rounded-gaussian"),
    ],
)
def test_every_distribution_of_a_summary_is_read(distribution, value, family):
    row = {"column": "smoker", "aggregate": "Sum", "distribution": distribution, "scale": 2.0, "accuracy": 6.4}
    polars = importlib.import_module("polars")
    pandas = importlib.import_module("pandas")
    for summary in (row, [row], polars.DataFrame([row]), pandas.DataFrame([row])):
        measured = nw.imports.opendp(SMOKERS, SCHEMA, value, summary)
        assert measured.law.family == family
        assert measured.law.scale == (2.0,)


def test_thresholds_and_means_of_noisy_counts_are_refused():
    row = {"column": "age", "aggregate": "Sum", "distribution": "Float Laplace", "scale": 2.0}
    with pytest.raises(nw.Unsupported, match="threshold"):
        nw.imports.opendp(SMOKERS, SCHEMA, 17.5, {**row, "threshold": 33})
    with pytest.raises(nw.Unsupported, match="several noisy ones"):
        nw.imports.opendp(nw.Mean("age"), SCHEMA, 17.5, [row, {**row, "aggregate": "Length"}])
    with pytest.raises(nw.Unsupported, match="not one of"):
        nw.imports.opendp(SMOKERS, SCHEMA, 17.5, {**row, "distribution": "Gumbel Max"})
    for bad in (None, 3, [], "text", [3], {"scale": 1}, {"distribution": "Float Laplace"}):
        with pytest.raises(nw.NoisewiseError):
            nw.imports.opendp(SMOKERS, SCHEMA, 17.5, bad)


# ---- PipelineDP ----


@pytest.mark.parametrize("kind", ["LAPLACE", "GAUSSIAN"])
def test_a_table_from_pipelinedp_has_the_likelihood_of_its_law(kind):
    pipeline = pytest.importorskip("pipeline_dp", reason="PipelineDP is not installed (pip install noisewise[peers])")
    people = [(k, "nes"[k % 3]) for k in range(1000)]
    accountant = pipeline.NaiveBudgetAccountant(total_epsilon=2, total_delta=1e-6)
    engine = pipeline.DPEngine(accountant, pipeline.LocalBackend())
    asked = pipeline.AggregateParams(
        noise_kind=pipeline.NoiseKind[kind], metrics=[pipeline.Metrics.COUNT], max_partitions_contributed=1,
        max_contributions_per_partition=1, output_noise_stddev=True,
    )  # fmt: skip
    extractors = pipeline.DataExtractors(lambda row: row[0], lambda row: row[1], lambda _: 0)
    result = engine.aggregate(people, asked, extractors, public_partitions=["n", "e", "s"])
    accountant.compute_budgets()
    result = list(result)
    measured = nw.imports.pipelinedp(
        nw.Histogram("region"), SCHEMA, result, metric="count", noise_kind=asked.noise_kind, public_partitions=True
    )
    by_key = dict(result)
    assert measured.published == tuple(by_key[level].count for level in "nes")
    assert np.array(measured.law.sd) == pytest.approx([by_key[level].count_noise_stddev for level in "nes"], rel=1e-6)
    assert measured.law.mixture().is_laplace == (kind == "LAPLACE")
    assert np.abs(np.array(measured.published) - 1000 / 3).max() < 60
    theta = {"p": shares_near(measured)}
    assert same_posterior(measured, our_release(measured, nw.Histogram("region")), REGIONS, theta)
    sd = [by_key[level].count_noise_stddev for level in "nes"]
    noise = {
        "LAPLACE": lambda v, j: -np.abs(v) * math.sqrt(2) / sd[j],
        "GAUSSIAN": lambda v, j: -0.5 * (v / sd[j]) ** 2,
    }
    gap = nw.likelihood_of(measured, REGIONS).log_likelihood(theta) - exact_table(
        measured.published, noise[kind], theta["p"]
    )
    assert np.max(np.abs(gap - gap[0])) < 1e-6


Metrics = collections.namedtuple("MetricsTuple", ["count", "count_noise_stddev"])


def test_partitions_that_may_have_been_dropped_are_refused():
    rows = [(level, Metrics(300.5, 2.0)) for level in "nes"]
    read = {"metric": "count", "noise_kind": "laplace", "public_partitions": True}
    table = nw.Histogram("region")
    assert nw.imports.pipelinedp(table, SCHEMA, rows[::-1], **read).published == (300.5,) * 3
    with pytest.raises(nw.Unsupported, match="threshold"):
        nw.imports.pipelinedp(table, SCHEMA, rows, **{**read, "public_partitions": False})
    with pytest.raises(nw.InvalidArgument, match="2 partitions"):
        nw.imports.pipelinedp(table, SCHEMA, rows[:2], **read)
    with pytest.raises(nw.Unsupported, match="noisy sum and a noisy count"):
        nw.imports.pipelinedp(table, SCHEMA, rows, **{**read, "metric": "mean"})
    with pytest.raises(nw.InvalidArgument, match="output_noise_stddev"):
        nw.imports.pipelinedp(table, SCHEMA, rows, **{**read, "metric": "sum"})
    with pytest.raises(nw.InvalidArgument, match="neither"):
        nw.imports.pipelinedp(table, SCHEMA, rows, **{**read, "noise_kind": "cauchy"})
    with pytest.raises(nw.InvalidArgument, match="twice"):
        nw.imports.pipelinedp(table, SCHEMA, [*rows, rows[0]], **read)


# ---- diffprivlib ----


@pytest.mark.parametrize(
    "name", ["Laplace", "Geometric", "GaussianAnalytic", "GaussianDiscrete", "LaplaceTruncated", "GeometricTruncated"]
)
def test_a_count_from_diffprivlib_has_the_exact_posterior(name):
    mechanisms = diffprivlib_mechanisms()
    options = {"epsilon": 0.5, "sensitivity": 1}
    if name.startswith("Gaussian"):
        options["delta"] = 1e-5
    if name.endswith("Truncated"):
        options |= {"lower": 0, "upper": 1000}
    mechanism = getattr(mechanisms, name)(**options)
    noisy = mechanism.randomise(300)
    measured = nw.imports.diffprivlib(SMOKERS, SCHEMA, noisy, mechanism)
    found = nw.infer(measured, SHARE, seed=1, progress=False).mean["p"]
    if name.startswith("Gaussian"):
        sd = mechanism._scale
        exact = posterior_mean_of_share(noisy, 1000, lambda away: -0.5 * (away / sd) ** 2)
    else:
        exact = posterior_mean_of_share(noisy, 1000, lambda away: -0.5 * np.abs(away))
    assert found == pytest.approx(exact, rel=1e-6)
    if name not in ("GaussianDiscrete", "GeometricTruncated"):  # of which the library states no variance
        assert mechanism.variance(300) == pytest.approx(measured.law.sd[0] ** 2, rel=1e-6)


def test_answers_from_diffprivlib_are_randomized_response():
    binary = diffprivlib_mechanisms().Binary(epsilon=1.0, value0="no", value1="yes")
    answers = [binary.randomise("yes" if k < 300 else "no") for k in range(1000)]
    counts = [answers.count("no"), answers.count("yes")]
    measured = nw.imports.diffprivlib(nw.Records("smoker"), SCHEMA, counts, binary)
    assert float(measured.law.keep) == pytest.approx(math.e / (1 + math.e), rel=1e-12)


@pytest.mark.parametrize("name", ["LaplaceFolded", "LaplaceBoundedDomain", "GeometricFolded", "Snapping", "Staircase"])
def test_mechanisms_that_do_more_than_add_noise_are_refused(name):
    bounds = {} if name == "Staircase" else {"lower": 0, "upper": 1000}
    mechanism = getattr(diffprivlib_mechanisms(), name)(epsilon=1, sensitivity=1, **bounds)
    with pytest.raises(nw.Unsupported, match=name):
        nw.imports.diffprivlib(SMOKERS, SCHEMA, 300, mechanism)


def test_a_value_clipped_to_a_bound_is_refused():
    mechanism = diffprivlib_mechanisms().GeometricTruncated(epsilon=1, sensitivity=1, lower=0, upper=1000)
    for bound in (0, 1000):
        with pytest.raises(nw.Unsupported, match="clipped"):
            nw.imports.diffprivlib(SMOKERS, SCHEMA, bound, mechanism)


# ---- mbi ----


def mbi_measurements(sd, *cliques):
    """Noisy marginals of a data set of mbi's own, as its users make them."""
    mbi = pytest.importorskip("mbi", reason="mbi is not installed (pip install noisewise[peers])")
    rng = np.random.default_rng()
    records = {"smoker": (np.arange(1000) % 10 < 3).astype(int), "region": np.arange(1000) % 3}
    data = mbi.Dataset(records, mbi.Domain(["smoker", "region"], [2, 3]))
    counts = [np.asarray(data.project(clique).datavector()) for clique in cliques]
    noisy = [one + rng.normal(0, sd, one.size) for one in counts]
    return [mbi.LinearMeasurement(one, clique, sd) for one, clique in zip(noisy, cliques, strict=True)]


def test_marginals_from_mbi_are_read_as_a_release_of_the_same_law():
    given = mbi_measurements(5.0, ("smoker", "region"), ("region",))
    noisy, region = (np.asarray(one.noisy_measurement) for one in given)
    first, second = nw.imports.mbi(given, SCHEMA, dataset="adult")
    assert first.estimate == pytest.approx(noisy, rel=1e-6)
    assert first.labels[1] == nw.Marginals(("smoker", "region")).labels(SCHEMA)[1]
    made = nw.plan(nw.Marginals(("smoker", "region")), SCHEMA, guarantee=nw.GaussianDP("2/7"))
    theirs = graphical.observe(nw.GraphicalModel([("smoker", "region")], SCHEMA), [first, second]).problem.holders[0]
    assert theirs.variance == pytest.approx(np.full(9, 25.0), rel=1e-6)
    assert theirs.observed == pytest.approx(np.concatenate([noisy, region]), rel=1e-6)
    assert made.law.family == first.law.family
    with pytest.raises(nw.InvalidArgument, match="whose records"):
        nw.infer(nw.imports.mbi(given, SCHEMA), nw.GraphicalModel([("smoker", "region")], SCHEMA), progress=False)
    assert len(nw.imports.mbi(given[0], SCHEMA)) == 1


def test_a_table_from_mbi_has_the_posterior_of_our_own_release():
    (measured,) = nw.imports.mbi(mbi_measurements(5.0, ("region",)), SCHEMA)
    theta = {"p": shares_near(measured)}
    assert same_posterior(measured, our_release(measured, nw.Marginals(("region",))), REGIONS, theta)
    exact = exact_table(measured.published, lambda v, _: -0.5 * (v / 5) ** 2, theta["p"])
    gap = nw.likelihood_of(measured, REGIONS).log_likelihood(theta) - exact
    assert np.max(np.abs(gap - gap[0])) < 1e-6
    joint = nw.Joint(smoker=SHARE, region=REGIONS)
    (both,) = nw.imports.mbi(mbi_measurements(5.0, ("smoker", "region")), SCHEMA)
    at = {"smoker.p": np.array([0.28, 0.3, 0.32]), "region.p": shares_near(measured, 3)}
    laws = [nw.likelihood_of(one, joint).log_likelihood(at) for one in (both, our_release(both, both.statistic))]
    assert laws[0] - laws[0][0] == pytest.approx(laws[1] - laws[1][0], abs=1e-6)


def test_a_marginal_from_mbi_has_the_exact_posterior():
    mbi = pytest.importorskip("mbi", reason="mbi is not installed (pip install noisewise[peers])")
    (measured,) = nw.imports.mbi(mbi.LinearMeasurement(np.array([698.4, 301.2]), ("smoker",), 2.0), SCHEMA)
    found = nw.infer(measured, nw.Categorical(p=stats.dirichlet([1.0, 1.0])), seed=1, progress=False)
    s = np.arange(1001)
    log_weights = stats.norm.logpdf(301.2 - s, scale=2) + stats.norm.logpdf(698.4 - (1000 - s), scale=2)
    weights = np.exp(log_weights - log_weights.max())
    assert np.ravel(found.mean["p"])[1] == pytest.approx(np.sum(weights * (s + 1) / 1002) / weights.sum(), abs=1e-3)
    theta = {"p": np.array([[0.7, 0.3], [0.65, 0.35]])}
    joint = stats.binom.logpmf(s, 1000, theta["p"][:, 1:]) + log_weights
    oracle = np.logaddexp.reduce(joint, axis=1)
    law = joint_likelihood([measured], nw.Categorical(p=stats.dirichlet([1.0, 1.0]))).log_likelihood(theta)
    assert law - law[0] == pytest.approx(oracle - oracle[0], abs=1e-6)


def test_other_queries_of_mbi_are_refused():
    Linear = collections.namedtuple("Linear", ["noisy_measurement", "clique", "stddev", "query"])
    with pytest.raises(nw.Unsupported, match="whole marginal"):
        nw.imports.mbi(Linear([1.0, 2.0], ("smoker",), 1.0, object()), SCHEMA)
    for bad in (3, None, [3], [{}]):
        with pytest.raises(nw.InvalidArgument):
            nw.imports.mbi(bad, SCHEMA)


# ---- the US Census, and tables of measurements ----


def test_a_row_of_the_census_is_a_discrete_gaussian_table():
    row = {"geocode": "44", "query_name": "region", "value": [312, 350, 341], "variance": 9.0}
    measured = nw.imports.census(nw.Histogram("region"), SCHEMA, row)
    made = nw.measurement(nw.Histogram("region"), SCHEMA, [312, 350, 341], noise=nw.gaussian_noise(sd=3, discrete=True))
    assert (measured.law, measured.value) == (made.law, made.value)
    assert "geocode 44" in measured.source
    for bad in (
        {},
        {"value": [1, 2, 3]},
        {**row, "variance": -1},
        {**row, "variance": "x"},
        {**row, "value": [1.5, 2, 3]},
    ):
        with pytest.raises(nw.InvalidArgument):
            nw.imports.census(nw.Histogram("region"), SCHEMA, bad)


ROWS = [
    {"statistic": "mean(age)", "value": 19.7, "noise": "laplace", "scale": 0.15, "dataset": "a", "source": "report"},
    {"statistic": "count(equals(smoker, 'yes'))", "value": 301, "noise": "geometric", "scale": 2, "dataset": "a",
     "source": ""},
    {"statistic": "histogram(region)", "value": [330, 340, 331], "noise": "discrete-gaussian", "scale": [2, 2, 3],
     "dataset": "", "source": ""},
]  # fmt: skip


def test_a_table_of_measurements_is_read_from_every_kind_of_file(tmp_path):
    pandas = importlib.import_module("pandas")
    text = [{**row, "value": json.dumps(row["value"]), "scale": json.dumps(row["scale"])} for row in ROWS]
    pandas.DataFrame(text).to_csv(tmp_path / "m.csv", index=False)
    pandas.DataFrame(text).to_parquet(tmp_path / "m.parquet")
    (tmp_path / "m.json").write_text(json.dumps(ROWS))
    wanted = nw.imports.table(ROWS, SCHEMA)
    assert [one.published for one in wanted] == [(19.7,), (301.0,), (330.0, 340.0, 331.0)]
    assert [one.dataset for one in wanted] == ["a", "a", ""]
    for source in (tmp_path / "m.csv", str(tmp_path / "m.json"), tmp_path / "m.parquet", pandas.DataFrame(text)):
        assert nw.imports.table(source, SCHEMA) == wanted


@pytest.mark.parametrize(
    "row",
    [
        {}, {"statistic": "mean(age)"}, {**ROWS[0], "noise": "cauchy"}, {**ROWS[0], "scale": "x"},
        {**ROWS[0], "extra": 1},
        {**ROWS[0], "statistic": "__import__('os')"}, {**ROWS[0], "value": "[[["}, {**ROWS[0], "scale": -1},
        {**ROWS[0], "statistic": "mean(other)"},
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_is_named(row):
    with pytest.raises(nw.InvalidArgument, match="Row 2"):
        nw.imports.table([ROWS[0], row], SCHEMA)


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    """Of two values none is taken for the published one."""
    (tmp_path / "m.csv").write_text("statistic,value,value,noise,scale\nmean(age),41,19,laplace,1\n")
    with pytest.raises(nw.InvalidArgument, match="column value twice"):
        nw.imports.table(tmp_path / "m.csv", SCHEMA)


@pytest.mark.parametrize("value", ["true", "1_9", "19,7", "nineteen", "null", "NaN", ""])
def test_text_that_is_no_number_is_not_taken_for_one(tmp_path, value):
    (tmp_path / "m.csv").write_text(f'statistic,value,noise,scale\nmean(age),"{value}",laplace,1\n')
    with pytest.raises(nw.InvalidArgument, match="Row 1"):
        nw.imports.table(tmp_path / "m.csv", SCHEMA)


@pytest.mark.parametrize("fields", ["mean(age),19,laplace", "mean(age),19,laplace,1,2"])
def test_a_row_of_another_length_than_its_header_is_refused(tmp_path, fields):
    (tmp_path / "m.csv").write_text(f"statistic,value,noise,scale\n{fields}\n")
    with pytest.raises(nw.InvalidArgument, match=r"Row 1 has \d fields under 4 columns"):
        nw.imports.table(tmp_path / "m.csv", SCHEMA)


def made(name, **members):
    """An object that has the name of a tool's class, and these members."""
    one = type(name, (), {})()
    vars(one).update(members)
    return one


def linear(**changes):
    members = {"clique": ("region",), "noisy_measurement": [300.5] * 3, "stddev": 5.0, "query": made("DatavectorQuery")}
    return made("LinearMeasurement", **members | changes)


COUNTED = collections.namedtuple("COUNTED", "count count_noise_stddev")
MISSHAPEN = {
    "mbi without a sd": lambda: nw.imports.mbi(linear(stddev=None), SCHEMA),
    "mbi with a text": lambda: nw.imports.mbi(linear(noisy_measurement="x"), SCHEMA),
    "mbi without a clique": lambda: nw.imports.mbi(linear(clique=None), SCHEMA),
    "a census row that is none": lambda: nw.imports.census(nw.Histogram("region"), SCHEMA, None),
    "a mechanism without members": lambda: nw.imports.diffprivlib(SMOKERS, SCHEMA, 300, made("Geometric")),
    "no mechanism": lambda: nw.imports.diffprivlib(SMOKERS, SCHEMA, 300, None),
    "a mechanism of no epsilon": lambda: nw.imports.diffprivlib(
        SMOKERS, SCHEMA, 300.5, made("Laplace", epsilon=0, delta=0, sensitivity=1)
    ),
    "partitions that are no pairs": lambda: pipelinedp_counts([1, 2, 3]),
    "partitions without noise": lambda: pipelinedp_counts([(level, COUNTED(300.5, None)) for level in "nes"]),
    "OpenDP without a scale": lambda: nw.imports.opendp(SMOKERS, SCHEMA, 300, {"distribution": "Integer Laplace"}),
    "True for a number": lambda: nw.measurement(SMOKERS, SCHEMA, True, noise=nw.geometric_noise(scale=2)),
    "a masked number": lambda: nw.measurement(
        nw.Histogram("region"), SCHEMA, np.ma.masked_less([330, 340, 0], 1), noise=nw.geometric_noise(scale=2)
    ),
}


def pipelinedp_counts(partitions):
    return nw.imports.pipelinedp(
        nw.Histogram("region"), SCHEMA, partitions, metric="count", noise_kind="laplace", public_partitions=True
    )


@pytest.mark.parametrize("kind", MISSHAPEN)
def test_output_of_another_shape_is_refused_in_a_sentence(kind):
    with pytest.raises(nw.InvalidArgument):
        MISSHAPEN[kind]()


def test_a_file_that_is_no_table_is_refused(tmp_path):
    for name, text in (("a.csv", "\0\n"), ("b.json", "{"), ("c.json", "3"), ("d.txt", "x")):
        (tmp_path / name).write_text(text)
        with pytest.raises(nw.NoisewiseError):
            nw.imports.table(tmp_path / name, SCHEMA)
    with pytest.raises(nw.NoisewiseError):
        nw.imports.table(tmp_path / "missing.csv", SCHEMA)


def test_the_importers_import_none_of_the_tools():
    room = importlib.import_module("noisewise.imports.tools")
    source = (importlib.util.find_spec(room.__name__)).loader.get_source(room.__name__)
    assert not any(f"import {tool}" in source for tool in ("opendp", "pipeline_dp", "diffprivlib", "mbi", "pydp"))
