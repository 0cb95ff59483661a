"""Regressions on covariates as real records have them: coverage, limits, the release that once went wrong (E3, E8)."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from command_line import run_here
from scipy import stats

import noisewise as nw
from noisewise.evaluate.coverage import Coverage
from noisewise.evaluate.discrepancy import uniformity
from noisewise.inference.posterior import Posterior
from noisewise.populations.text import population_from_text
from noisewise.regression.glm import histograms
from noisewise_papers.regression_coverage import FAMILIES, LAWS, NOISES, SIZES, STATED, STUDY, Cell, simulated_release

FALSE_ALARM = 1e-6
TRIALS = 60
B = nw.column("b").equals("yes")
ILL = nw.column("ill").equals("yes")
CELLS = list(itertools.product(FAMILIES, LAWS, SIZES, NOISES))


def test_the_grid_has_as_many_cells_as_promised():
    assert len(CELLS) == 126


@pytest.mark.slow
@pytest.mark.grid(cells=8)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell)))
def test_intervals_hold_with_covariates_of_every_kind(cell):
    """Coverage and ranks within the band of their trials, or the verdict warned before most numbers."""
    family, law, n, noise = cell
    rng = np.random.default_rng()
    trials = [Cell(family, law, n, noise, "right").trial(rng) for _ in range(TRIALS)]
    u = np.array([rank for rank, _ in trials])
    is_warned = np.mean([warned for _, warned in trials]) > 0.5
    covered = Coverage(0.9, int(np.sum(np.abs(u - 0.5) <= 0.45)), TRIALS)
    assert is_warned or (covered.p_value > FALSE_ALARM and uniformity(u).p_value > FALSE_ALARM), f"{cell}: {covered}"


@pytest.mark.slow
def test_the_wrong_law_is_caught():
    """The same test has power: a log-normal number taken for a normal one in a logistic regression."""
    rng = np.random.default_rng()
    cell = Cell("logistic", "log-normal", 10_000, "gaussian", "wrong")
    u = np.array([cell.trial(rng)[0] for _ in range(TRIALS)])
    assert Coverage(0.9, int(np.sum(np.abs(u - 0.5) <= 0.45)), TRIALS).p_value < FALSE_ALARM


def test_the_study_runs_on_one_cell():
    rows = STUDY.run({"family": "linear", "law": "yes-no", "trials": "2"}, workers=1).rows
    assert [row["trials"] for row in rows] == [2]
    assert "90 % intervals" in STUDY.note(rows)


# ---- the release that once went wrong ----


def records(rng, n=1000):
    """y = 1 + 2 b + N(0, 1)."""
    b = rng.random(n) < 0.3
    return {"b": np.where(b, "yes", "no"), "y": 1 + 2 * b + rng.standard_normal(n)}, b.astype(float)


def least_squares(b, y):
    return float(np.cov(b, y)[0, 1] / np.var(b, ddof=1))


@pytest.mark.slow
def test_a_yes_no_covariate_has_the_slope_of_least_squares(tmp_path):
    """In at least 17 of 20 releases within the 99 % interval, no wider than 1.3 times that with known moments."""
    rng = np.random.default_rng()
    schema = nw.Schema({"b": nw.Levels(["no", "yes"]), "y": nw.Bounded(-5, 9)}, n=1000, neighbours="change-one")
    made = nw.plan(nw.Moments([B], "y"), schema, guarantee=nw.GaussianDP(2))
    given = nw.GivenMoments.of_rows((rng.random((200_000, 1)) < 0.3).astype(float))
    held, ratios = 0, []
    for k in range(20):
        columns, b = records(rng)
        ledger = nw.Ledger.open(tmp_path / f"{k}.ledger", limit=nw.GaussianDP(2))
        release = nw.make_release(nw.Table.read(columns, schema), made, ledger=ledger)
        found = nw.infer(release, nw.LinearRegression([B], "y"), seed=k, progress=False)
        known = nw.infer(release, nw.LinearRegression([B], "y", covariates=given), seed=k, progress=False)
        low, high = found.interval(0.99)[str(B)]
        held += low <= least_squares(b, columns["y"]) <= high
        ratios.append(found.sd[str(B)] / known.sd[str(B)])
    print(f"held {held} of 20; sd {np.mean(ratios):.3f} of that with known moments, at most {max(ratios):.3f}")
    assert held >= 17
    assert np.mean(ratios) <= 1.3


SPEC = """\
[schema]
n = 1000
neighbours = "change-one"
[schema.columns]
b = { levels = ["no", "yes"] }
y = { bounds = [-5, 9] }

[ledger]
limit = { mu = "2" }

[release]
statistic = "moments([equals(b, 'yes')], y)"
guarantee = { mu = "2" }

[population]
"*" = "linear_regression(features=['equals(b, \\"yes\\")'], response='y')"
"""


def by_command_line(monkeypatch, capsys, rng, k):
    """One release made and learnt by commands with their defaults: posterior, release, slope of least squares."""
    columns, b = records(rng)
    lines = [f"{one},{y:.6f}" for one, y in zip(columns["b"], columns["y"], strict=True)]
    Path("people.csv").write_text("\n".join(["b,y", *lines]) + "\n", "utf-8")
    Path("spec.toml").write_text(SPEC, "utf-8")
    made = ["release", "spec.toml", "--data", "people.csv", "--ledger", f"l{k}", "--out", f"r{k}.json"]
    assert run_here(monkeypatch, capsys, *made)[0] == 0
    assert run_here(monkeypatch, capsys, "infer", f"r{k}.json", "--spec", "spec.toml", "--out", f"found{k}")[0] == 0
    release, found = nw.Release.load(f"r{k}.json"), Posterior.load(f"found{k}/posterior.npz")
    return found, release, least_squares(b, columns["y"])


def test_the_command_line_finds_the_slope_of_a_yes_no_covariate(tmp_path, monkeypatch, capsys, rng):
    monkeypatch.chdir(tmp_path)
    found, release, slope = by_command_line(monkeypatch, capsys, rng, 0)
    assert len(release.value) == 4  # sums of b, y, b y and y^2: b^2 follows from b
    assert found.mean[str(B)] == pytest.approx(slope, abs=6 * found.sd[str(B)])
    assert found.sd[str(B)] < 0.3


@pytest.mark.slow
def test_the_command_line_finds_it_in_nearly_all_of_twenty_releases(tmp_path, monkeypatch, capsys, rng):
    """At least 17 of 20 within the 99 % interval, no wider than 1.3 times that with the true moments."""
    monkeypatch.chdir(tmp_path)
    given = nw.GivenMoments.of_rows((np.arange(10) < 3).astype(float)[:, None])  # exactly 30 % yes
    held, ratios = 0, []
    for k in range(20):
        found, release, slope = by_command_line(monkeypatch, capsys, rng, k)
        known = nw.infer(release, nw.LinearRegression([B], "y", covariates=given), seed=k, progress=False)
        low, high = found.interval(0.99)[str(B)]
        held += low <= slope <= high
        ratios.append(found.sd[str(B)] / known.sd[str(B)])
    with capsys.disabled():
        print(f"held {held} of 20; sd {np.mean(ratios):.3f} of that with known moments, at most {max(ratios):.3f}")
    assert held >= 17
    assert np.mean(ratios) <= 1.3


# ---- limits ----

CLEAR, HIDDEN = nw.GaussianDP(10_000), nw.GaussianDP("1/1000")


def yes_no_schema(n):
    columns = {"b": nw.Levels(["no", "yes"]), "x": nw.Bounded(-6, 6), "y": nw.Bounded(-20, 20),
               "ill": nw.Levels(["no", "yes"]), "visits": nw.Bounded(0, 20)}  # fmt: skip
    return nw.Schema(columns, n=n, neighbours="change-one")


def conjugate_difference(rng, seed, n=2000):
    """By how many sds means differ from those of the conjugate posterior on the records, and the ratio of sds."""
    b, x = rng.random(n) < 0.2, rng.standard_normal(n)
    y = 1 + 2 * b - 0.5 * x + rng.standard_normal(n)
    made = nw.plan(nw.Moments([B, "x"], "y"), yes_no_schema(n), guarantee=CLEAR)
    release = simulated_release(rng, made, {"b": b.astype(float), "x": x, "y": y})
    prior = nw.NormalInverseGamma([0, 0, 0], np.eye(3) / 100, 2, 1)
    found = nw.infer(release, nw.LinearRegression([B, "x"], "y", prior=prior), seed=seed, progress=False)
    design = np.column_stack([np.ones(n), b, x])
    precision = design.T @ design + np.eye(3) / 100
    mean = np.linalg.solve(precision, design.T @ y)
    rate = 1 + (y @ y - mean @ precision @ mean) / 2
    sd = np.sqrt(rate / (2 + n / 2) * np.diag(np.linalg.inv(precision)))
    ours, spread = (np.array([each[name] for name in ("intercept", str(B), "x")]) for each in (found.mean, found.sd))
    return (ours - mean) / sd, spread / sd


def test_without_noise_a_line_has_the_conjugate_posterior_of_its_records(rng):
    away, ratio = conjugate_difference(rng, 1)
    assert np.abs(away).max() < 0.25
    assert np.abs(ratio - 1).max() < 0.15


@pytest.mark.slow
def test_without_noise_lines_of_a_hundred_data_sets_are_those_of_their_records(rng):
    """4000 draws have means within 1/sqrt(ESS) sds, some .02, and the normal law of sums moves nothing beside that."""
    found = [conjugate_difference(rng, k) for k in range(100)]
    away, ratio = np.array([one for one, _ in found]), np.array([one for _, one in found])
    print(f"means differ by {np.sqrt(np.square(away).mean()):.3f} sd, at most {np.abs(away).max():.3f}; "
          f"sds are {ratio.mean():.3f} of those on the records, {ratio.min():.3f} to {ratio.max():.3f}")  # fmt: skip
    assert np.abs(away).max() < 0.25
    assert np.abs(away.mean(axis=0)).max() < 6 * 0.05 / 10  # no bias, at a Monte Carlo error of 0.05 sd each
    assert np.abs(ratio.mean(axis=0) - 1).max() < 0.03


@pytest.mark.parametrize("kind", ["line", "logistic"])
def test_where_noise_hides_everything_the_prior_is_left(kind):
    n, rng = 200, np.random.default_rng()
    columns = {"b": (rng.random(n) < 0.2).astype(float), "x": rng.standard_normal(n), "y": rng.standard_normal(n),
               "ill": (rng.random(n) < 0.5).astype(float)}  # fmt: skip
    response = "y" if kind == "line" else ILL
    regression = nw.LinearRegression if kind == "line" else nw.LogisticRegression
    model = regression([B], response, coefficients=stats.norm(0, 1))
    made = nw.plan(nw.Moments([B], response), yes_no_schema(n), guarantee=HIDDEN)
    found = nw.infer(simulated_release(rng, made, columns), model, seed=1, progress=False)
    for name in ("intercept", str(B)):
        assert found.mean[name] == pytest.approx(0, abs=0.25)
        assert found.sd[name] == pytest.approx(1, rel=0.2)


def fitted_on_records(design, y, *, is_count, sd):
    """Mode and sd of the posterior on the records themselves, by Newton's method."""
    beta = np.zeros(design.shape[1])
    for _ in range(50):
        s = design @ beta
        mean = np.exp(np.minimum(s, 20)) if is_count else 1 / (1 + np.exp(-s))
        weight = mean if is_count else mean * (1 - mean)
        hessian = design.T @ (design * weight[:, None]) + np.eye(len(beta)) / sd**2
        beta = beta + np.linalg.solve(hessian, design.T @ (y - mean) - beta / sd**2)
    return beta, np.sqrt(np.diag(np.linalg.inv(hessian)))


@pytest.mark.slow
@pytest.mark.parametrize("is_count", [False, True])
def test_without_noise_the_fit_on_the_records_is_within_three_sds(is_count):
    """In at least 95 of 100 data sets; moments leave more open than records do, by the printed ratio of widths."""
    rng, n, near, ratios = np.random.default_rng(), 1000, 0, []
    sd = 0.4 if is_count else 1.0
    response = "visits" if is_count else ILL
    kind = nw.PoissonRegression if is_count else nw.LogisticRegression
    model = kind([B, "x"], response, coefficients=stats.norm(0, sd))
    made = nw.plan(nw.Moments([B, "x"], response), yes_no_schema(n), guarantee=CLEAR)
    for k in range(100):
        b, x = (rng.random(n) < 0.2).astype(float), rng.standard_normal(n)
        design = np.column_stack([np.ones(n), b, x])
        s = design @ rng.normal(0, sd, 3)
        y = np.minimum(rng.poisson(np.exp(s)), 20) if is_count else rng.random(n) < 1 / (1 + np.exp(-s))
        columns = {"b": b, "x": x, "visits" if is_count else "ill": y.astype(float)}
        found = nw.infer(simulated_release(rng, made, columns), model, seed=k, draws=250, progress=False)
        beta, width = fitted_on_records(design, y.astype(float), is_count=is_count, sd=sd)
        mean, spread = (np.array([each[name] for name in model.names]) for each in (found.mean, found.sd))
        near += bool(np.all(np.abs(mean - beta) <= 3 * spread))
        ratios.append(spread / width)
    print(
        f"{response}, within 3 sd: {near} of 100; widths {np.round(np.mean(ratios, axis=0), 2)} of those on the records"
    )
    assert near >= 95


# ---- clamping that touches nobody ----


@pytest.mark.parametrize(("bound", "is_modelled"), [(5.0, False), (1.8, True)])
def test_clamping_is_modelled_by_the_rows_that_it_is_expected_to_touch(bound, is_modelled):
    n, rng = 1000, np.random.default_rng()
    columns = {"x": nw.Bounded(-bound, bound), "y": nw.Bounded(-30, 30)}
    made = nw.plan(nw.Moments(["x"], "y"), nw.Schema(columns, n=n, neighbours="change-one"), guarantee=nw.GaussianDP(5))
    x = rng.standard_normal(n)
    y = 1 + x + rng.standard_normal(n)
    release = simulated_release(rng, made, {"x": np.clip(x, -bound, bound), "y": y})
    found = nw.infer(release, nw.LinearRegression(["x"], "y"), seed=1, draws=50, warmup=50, progress=False)
    assert ("rows as they were clamped" in found.how) == is_modelled


# ---- histograms and moments of the same records ----


class Settings:
    """What observing asks for."""

    n = None


EDGES = [0.5, 1, 1.5, 2, 2.5, 3, 4, 5]


def histogram_ranks(rng, trials):
    """Ranks (trials, 2) of the slope of a logistic regression, and of the mean of its number."""
    n = 1000
    schema = nw.Schema({"x": nw.Bounded(0, 6), "ill": nw.Levels(["no", "yes"])}, n=n, neighbours="change-one")
    statistics = nw.Moments(["x"], ILL, parts=["xx", "xy"], centre={"x": 2}), nw.Histogram("x", EDGES)
    plans = [nw.plan(statistic, schema, guarantee=nw.GaussianDP(5)) for statistic in statistics]
    model = nw.LogisticRegression(["x"], ILL, covariates="released", coefficients=stats.norm(0, 1))
    ends, ranks = np.array([0, *EDGES, 6.0]), []
    for k in range(trials):
        share = rng.dirichlet(np.full(9, 5.0))
        cell = rng.choice(9, n, p=share)
        x = ends[cell] + np.diff(ends)[cell] * rng.random(n)
        beta = rng.normal(0, 1, 2)
        columns = {"x": x, "ill": (rng.random(n) < 1 / (1 + np.exp(-beta[0] - beta[1] * x))).astype(float)}
        pair = [simulated_release(rng, made, columns) for made in plans]
        same = nw.Release.of(plans[1], pair[1].value, dataset=pair[0].dataset, ledger_head=None, simulated=True)
        found = nw.infer([pair[0], same], model, seed=k, draws=100, warmup=200, progress=False)
        points = model.covariates.points(model.observe([pair[0], same], Settings()))
        mean = np.asarray(found.draws["configuration_share"]).reshape(-1, len(points.log_weight)) @ points.columns["x"]
        truth = share @ (ends[1:] + ends[:-1]) / 2
        both = (np.asarray(found.draws["x"]).ravel(), beta[1]), (mean, truth)
        ranks.append([(np.sum(rng.choice(d, 99, replace=False) < t) + rng.random()) / 100 for d, t in both])
    return np.array(ranks)


def p_value(u):
    """The smaller one of uniform ranks and of 90 % coverage."""
    return min(uniformity(u).p_value, Coverage(0.9, int(np.sum(np.abs(u - 0.5) <= 0.45)), len(u)).p_value)


@pytest.mark.slow
def test_histograms_and_moments_of_the_same_records_are_calibrated_together():
    slopes, means = histogram_ranks(np.random.default_rng(), 60).T
    assert p_value(slopes) > FALSE_ALARM
    assert p_value(means) > FALSE_ALARM


@pytest.mark.slow
def test_multiplying_them_is_caught(monkeypatch):
    """Planted: the counts are taken for those of other records, so that the law of the number is told twice."""
    own = histograms._counts
    monkeypatch.setattr(histograms, "_counts", lambda release, n, _: own(release, n, None))
    assert p_value(histogram_ranks(np.random.default_rng(), 250)[:, 1]) < FALSE_ALARM


@pytest.mark.parametrize("law", sorted(STATED))
def test_the_laws_that_the_study_states_can_be_read(law):
    assert population_from_text(STATED[law]).parameters
