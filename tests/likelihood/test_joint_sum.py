"""The joint law of several sums of few records: against enumeration, quadrature over records, and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood import joint_inversion
from noisewise.likelihood.bank import log_noise
from noisewise.likelihood.closed_sum import ClosedSum
from noisewise.likelihood.exact_sum import ExactSum
from noisewise.likelihood.joint import Product
from noisewise.likelihood.joint_sum import JointSum
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.populations.cleaned import sample_records

X = nw.column("x")
SIGMAS = stats.norm.isf(5e-7)
BOTH = nw.Normal(mean=stats.norm(0, 3), sd=stats.halfnorm(scale=3))
LINE = nw.Normal(mean=stats.norm(0, 3), sd=1)
SKEWED = nw.LogNormal(log_mean=stats.norm(0, 1), log_sd=stats.halfnorm(scale=1))
COUNTS = nw.Poisson(rate=stats.gamma(2))


def releases(n: int, bounds, *released, outside: str = "clamp") -> tuple[nw.Release, ...]:
    schema = nw.Schema({"x": nw.Bounded(*bounds)}, n=n, neighbours="change-one", outside=outside)
    return tuple(release_of(statistic, schema, guarantee, estimate) for statistic, guarantee, estimate in released)


def resolved(model: JointSum, theta) -> np.ndarray:
    found = model.log_likelihood(theta)
    assert not model.normal_rows.matter, model.because
    return found


# ---- three records, integrated one by one ----

SQUARE, INDICATOR = nw.Mean(X, X**2), nw.Mean(X, X.between(0.3, 1))
OF_FEW = {
    "x and its square, Laplace": ((SQUARE, nw.PureDP(10), [0.9, 0.8]),),
    "x and its square, Gaussian": ((SQUARE, nw.GaussianDP(5), [0.9, 0.8]),),
    "x and an indicator": ((INDICATOR, nw.PureDP(10), [0.6, 0.7]),),
    "x twice, Laplace and Gaussian": ((nw.Mean(X), nw.PureDP(5), [0.6]), (nw.Sum(X), nw.GaussianDP(2), [1.7])),
    "x, its square, and x again": ((SQUARE, nw.PureDP(10), [0.9, 0.8]), (nw.Mean(1 - X), nw.GaussianDP(2), [0.2])),
    "three sums": ((nw.Mean(X, X**2, X.between(0.5, 1)), nw.PureDP(12), [0.9, 0.8, 0.9]),),
}


@pytest.mark.parametrize("name", OF_FEW)
def test_three_clamped_records_are_integrated_one_by_one(name: str) -> None:
    """Most records lie at the bound: an atom, and one or two records off it."""
    given = releases(3, (0, 1), *OF_FEW[name])
    theta = {"mean": np.array([2.0, 1.4, 0.8]), "sd": np.array([0.6, 0.9, 0.5])}
    found = resolved(JointSum(given, BOTH, n=3), theta)
    cells = 120
    middle = (np.arange(cells) + 0.5) / cells
    for k in range(3):
        law = stats.norm(theta["mean"][k], theta["sd"][k])
        x = np.concatenate([[0.0], middle, [1.0]])
        weight = np.concatenate([[law.cdf(0)], np.diff(law.cdf(np.linspace(0, 1, cells + 1))), [law.sf(1)]])
        records = np.stack([part.ravel() for part in np.meshgrid(x, x, x, indexing="ij")], axis=1)
        total = np.einsum("i,j,k->ijk", weight, weight, weight).ravel()
        logs = sum(log_noise(release, {"x": records}) for release in given)
        assert found[k] == pytest.approx(np.log(np.sum(total * np.exp(logs))), abs=0.01)


@pytest.mark.parametrize(
    ("population", "theta", "bounds", "released"),
    [
        (nw.Bernoulli(p=stats.beta(1, 1)), {"p": [0.1, 0.5]}, (0, 1), ((nw.Mean(X, 2 * X), nw.PureDP(5), [0.4, 0.9]),)),
        (COUNTS, {"rate": [0.4, 1.5]}, (0, 3), ((SQUARE, nw.PureDP(40), [0.9, 1.8]),)),
        (COUNTS, {"rate": [0.4, 1.5]}, (0, 3), ((SQUARE, nw.PureDP(3), [0.9, 1.8]),)),
        (COUNTS, {"rate": [0.4, 1.5]}, (0, 3), ((nw.Mean(X, X.between(1, 3)), nw.GaussianDP(3), [0.9, 0.6]),)),
        (COUNTS, {"rate": [0.4, 1.5]}, (0, 3), ((nw.Count(X.between(2, 3)), nw.PureDP(2), [4]),
                                               (nw.Sum(X), nw.PureDP(5), [12]))),
    ],
    ids=["one sum twice", "sharp noise", "wide noise", "Gaussian", "count and sum"],
)  # fmt: skip
def test_whole_numbers_are_enumerated(population, theta, bounds, released) -> None:
    """Every table of 12 records over the values 0 .. 3, with its multinomial probability."""
    n, values = 12, np.arange(bounds[1] + 1)
    given = releases(n, bounds, *released)
    at = {name: np.array(value) for name, value in theta.items()}
    found = resolved(JointSum(given, population, n=n), at)
    tables = [t for t in itertools.product(range(n + 1), repeat=len(values)) if sum(t) == n]
    records = np.array([np.repeat(values, table) for table in tables], dtype=float)
    logs = sum(log_noise(release, {"x": records}) for release in given)
    for k in range(2):
        if "p" in at:
            cells = np.array([1 - at["p"][k], at["p"][k]])
        else:
            cells = stats.poisson.pmf(values, at["rate"][k])
            cells[-1] = stats.poisson.sf(values[-1] - 1, at["rate"][k])
        chance = stats.multinomial(n, cells).pmf(np.array(tables))
        assert found[k] == pytest.approx(np.log(np.sum(chance * np.exp(logs))), abs=1e-4)


# ---- sums that are normal, or known otherwise ----


@pytest.mark.parametrize("n", [2, 9, 20, 100, 1000])
@pytest.mark.parametrize(
    "released",
    [
        ((nw.Mean(X), nw.PureDP(5), [0.5]), (nw.Mean(X), nw.PureDP(5), [0.52])),
        ((nw.Mean(X, 1 - X), nw.PureDP(5), [0.5, 0.52]),),
        ((nw.Mean(X), nw.PureDP(5), [0.5]), (nw.Mean(2 * X), nw.GaussianDP(5), [1.1])),
        ((nw.Mean(X), nw.PureDP(5), [0.5]), (nw.Count(X.between(-40, 40)), nw.PureDP(1), [8])),
        ((nw.Mean(X), nw.GaussianDP(5), [0.5]), (nw.Sum(1 - X), nw.GaussianDP(1), [4.0])),
    ],
    ids=["one sum twice", "x and 1 - x", "x and 2 x, mixed noise", "x and everybody", "Gaussian"],
)
def test_tied_sums_of_normal_records_have_their_normal_law(n: int, released) -> None:
    """No bound is in reach, so the central limit theorem is no approximation."""
    given = releases(n, (-40, 40), *released)
    theta = {"mean": np.linspace(-1, 2, 13), "sd": np.linspace(0.5, 2, 13)}
    expected = NormalSum(given, BOTH, n=n).log_likelihood(theta)
    counted = [release for release in given if isinstance(release.statistic, nw.Count)]
    for release in counted:  # whole steps of noise on a whole number, which a density takes as continuous
        away, scale = release.value[0] - n, release.law.scale[0]
        expected += float(release.law.log_pmf(away)) - (-abs(away) / scale - np.log(2 * scale))
    found = resolved(JointSum(given, BOTH, n=n), theta)
    near = expected > expected.max() - 40
    assert found[near] == pytest.approx(expected[near], abs=1e-3)
    assert np.all(found[~near] < expected.max() - 35)  # e^-35: a bound is as good as a value


@pytest.mark.parametrize("guarantee", [nw.PureDP(2), nw.GaussianDP(1)], ids=["Laplace", "Gaussian"])
def test_one_sum_has_the_law_that_a_finer_inversion_finds(guarantee) -> None:
    given = releases(25, (0, 20), (nw.Mean(X), guarantee, [1.9]))
    theta = {"log_mean": np.array([0.0, 0.3, 0.6]), "log_sd": np.array([0.7, 0.9, 1.2])}
    expected = ExactSum(given[0], SKEWED, n=25).log_likelihood(theta)
    assert resolved(JointSum(given, SKEWED, n=25), theta) == pytest.approx(expected, abs=1e-3)


def test_two_releases_of_waiting_times_have_their_closed_law() -> None:
    waits = nw.Exponential(rate=stats.gamma(2))
    given = releases(30, (0, 10), (nw.Mean(X), nw.PureDP(5), [1.5]), (nw.Mean(X), nw.PureDP(3), [1.2]))
    theta = {"rate": np.linspace(0.3, 2, 9)}
    expected = ClosedSum.of(given, waits, n=30).log_likelihood(theta)
    assert resolved(JointSum(given, waits, n=30), theta) == pytest.approx(expected, abs=1e-3)


def test_truncated_records_and_impossible_ones() -> None:
    given = releases(10, (0, 2), (SQUARE, nw.PureDP(10), [0.9, 1.2]), outside="refuse")
    uniform = nw.Uniform(low=0, high=stats.uniform(0.5, 9))
    found = JointSum(given, uniform, n=10).log_likelihood({"high": np.array([1.9, 2.0, 8.0])})
    assert found[1] == pytest.approx(found[2], abs=1e-6)  # truncated to the bounds both are uniform on them
    assert found[0] != pytest.approx(found[1], abs=1e-3)
    beyond = nw.Uniform(low=stats.uniform(3, 1), high=9)
    assert JointSum(given, beyond, n=10).log_likelihood({"low": np.array([3.5])})[0] == -np.inf


# ---- some ten records, by brute force ----

BRUTE = {
    "square": (BOTH, {"mean": 0.4, "sd": 1.1}, (-5, 5), ((SQUARE, nw.PureDP(4), [0.5, 1.4]),)),
    "indicator": (BOTH, {"mean": 0.4, "sd": 1.1}, (-5, 5), ((INDICATOR, nw.PureDP(3), [0.5, 0.4]),)),
    "three of the same records": (
        BOTH,
        {"mean": 0.4, "sd": 1.1},
        (-5, 5),
        ((nw.Mean(X), nw.PureDP(4), [0.5]), (nw.Count(X.between(1, 5)), nw.PureDP(1), [9]),
         (nw.Mean(X**2), nw.GaussianDP(1), [1.4])),
    ),
    "skewed": (SKEWED, {"log_mean": 0.2, "log_sd": 0.8}, (0, 20),
               ((nw.Mean(X, X.clip(0, 3)), nw.PureDP(8), [1.5, 1.2]),)),
}  # fmt: skip


def brute_force(rng, given, population, theta, n: int, count: int):
    """log p with its standard error, and the statistics of simulated data sets with their weights."""
    one = {name: np.array([value]) for name, value in theta.items()}
    schema = given[0].schema
    x = sample_records(rng, population, schema, n * count, one, ("x",))["x"].reshape(count, n)
    logs = np.sum([log_noise(release, {"x": x}) for release in given], axis=0)
    weight = np.exp(logs - logs.max())
    values = np.concatenate([release.statistic.value({"x": x}, schema) for release in given], axis=1)
    error = weight.std() / weight.mean() / np.sqrt(count)
    return logs.max() + np.log(weight.mean()), error, values, weight


@pytest.mark.parametrize("name", BRUTE)
def test_the_law_and_its_draws_are_those_of_simulated_data_sets(name: str, rng) -> None:
    population, theta, bounds, released = BRUTE[name]
    n, rows = 20, 1500
    given = releases(n, bounds, *released)
    model = JointSum(given, population, n=n)
    expected, error, values, weight = brute_force(rng, given, population, theta, n, 60_000)
    found = resolved(model, {key: np.array([value]) for key, value in theta.items()})
    assert abs(found[0] - expected) < SIGMAS * error + 1e-3
    assert error < 0.03
    drawn = model.draw_statistic(rng, {key: np.full(rows, value) for key, value in theta.items()})
    assert drawn.shape == (rows, values.shape[1])
    mean = np.average(values, axis=0, weights=weight)
    sd = np.sqrt(np.average(np.square(values - mean), axis=0, weights=weight))
    size = 1 / (1 / rows + np.sum(weight**2) / weight.sum() ** 2)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < SIGMAS * sd / np.sqrt(size))
    assert drawn.std(axis=0) == pytest.approx(sd, rel=SIGMAS * 1.3 / np.sqrt(2 * size))
    if name == "three of the same records":
        assert np.all(drawn[:, 1] == np.rint(drawn[:, 1]))  # a count is a whole number


def test_the_draw_of_one_sum_has_its_law_given_two_noises(rng) -> None:
    given = releases(20, (-40, 40), (nw.Mean(X), nw.PureDP(20), [0.5]), (nw.Mean(X), nw.GaussianDP(5), [0.8]))
    model = JointSum(given, LINE, n=20)
    drawn = 20 * model.draw_statistic(rng, {"mean": np.full(3000, 0.6)})[:, 0]
    grid = np.linspace(-20, 45, 80_001)
    logs = stats.norm.logpdf(grid, 12, np.sqrt(20)) - abs(grid - model.normal.observed[0]) / model.normal.noise.scale[0]
    logs += stats.norm.logpdf(grid, model.normal.observed[1], model.normal.noise.scale[1])
    cdf = np.cumsum(np.exp(logs - logs.max()))
    assert stats.kstest(np.interp(drawn, grid, cdf / cdf[-1]), "uniform").pvalue > 1e-6


# ---- how it is chosen, and what it says where it fails ----


def test_a_law_that_cannot_be_resolved_falls_back_and_warns(monkeypatch) -> None:
    given = releases(40, (-5, 5), (SQUARE, nw.PureDP(4), [0.5, 1.4]))
    monkeypatch.setattr(joint_inversion, "MOST_PRODUCTS", 1.0)
    posterior = nw.infer(given, LINE, seed=1, draws=200, progress=False)
    assert posterior.verdict.warns
    assert "could not be computed" in posterior.verdict.warnings[0]
    assert "exact" not in str(posterior.verdict).lower()
    monkeypatch.undo()
    better = nw.infer(given, LINE, seed=1, draws=200, progress=False)
    assert not better.verdict.warns
    assert posterior.mean["mean"] == pytest.approx(better.mean["mean"], abs=0.1 * better.sd["mean"])


def test_the_score_is_the_slope_of_the_law() -> None:
    model = JointSum(releases(40, (-5, 5), (SQUARE, nw.PureDP(4), [0.5, 1.4])), LINE, n=40)
    theta = np.array([0.2, 0.6])
    h = 1e-3
    slope = (model.log_likelihood({"mean": theta + h}) - model.log_likelihood({"mean": theta - h})) / (2 * h)
    assert model.score({"mean": theta})["mean"] == pytest.approx(slope, abs=0.02)


@pytest.mark.parametrize(
    ("statistic", "estimate", "population", "n", "why"),
    [
        (SQUARE, [0.5, 1], BOTH, 1001, "more than 1000 records"),
        (nw.Mean(X, X**2, X + X**2), [0.5, 1, 1.5], BOTH, 50, "adds several sums up"),
        (nw.Mean(X, X**2, abs(X), X.clip(0, 1)), [0.5, 1, 1, 0.4], BOTH, 50, "4 sums that depend"),
        (nw.Mean(X, X**2), [0.5, 1], nw.Population(stats.t, df=stats.gamma(9), loc=stats.norm(), scale=stats.gamma(2)),
         50, "more than two unknowns"),
    ],
)  # fmt: skip
def test_what_is_out_of_reach_says_why(statistic, estimate, population, n, why) -> None:
    given = releases(n, (-5, 5), (statistic, nw.PureDP(4), estimate))
    assert why in JointSum.refusal(given, population, n=n)


def test_three_levels_are_two_unknowns_whose_shares_have_the_multinomial_law(rng) -> None:
    """Against every table of 20 people in 3 levels, each with its discrete noise."""
    levels = nw.Schema({"s": nw.Levels(["a", "b", "c"])}, n=20, neighbours="change-one")
    level = nw.column("s")
    plan = nw.plan(nw.Mean(level.equals("a"), level.equals("b")), levels, guarantee=nw.PureDP(5))
    step, law = plan.lattice.step, plan.law
    value = [round(5 / step[0]), round(8.3 / step[1])]
    release = nw.Release.of(plan, value, dataset="d", ledger_head=None, simulated=True)
    population = nw.Categorical(p=stats.dirichlet([1, 1, 1]))
    assert JointSum.refusal((release,), population, n=20) is None
    p = rng.dirichlet([1, 1, 1], 20)
    found = resolved(JointSum((release,), population, n=20), {"p": p})
    counts = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)])
    noise = sum(law.log_pmf(value[k] - np.round(counts[:, k] / step[k]), k) for k in range(2))
    expected = [np.logaddexp.reduce(stats.multinomial.logpmf(counts, 20, row) + noise) for row in p]
    assert np.diff(found) == pytest.approx(np.diff(expected), abs=1e-3)
    four = nw.Categorical(p=stats.dirichlet([1, 1, 1, 1]))
    assert "more than two unknowns" in JointSum.refusal((release,), four, n=20)


# ---- a sum that cannot move ----

STILL = ((nw.Mean(X**2, X.between(0, 55)), nw.PureDP("4.4"), [150.0, 0.4]),)


def test_a_sum_that_cannot_move_leaves_the_law_of_the_other() -> None:
    """x^2 is 0 as far as its noise can tell, and x > 0 a coin: its frequencies were centred at 10^12 others."""
    (release,) = given = releases(9, (-55, 55), *STILL, outside="refuse")
    sd = 10.0 ** -np.arange(3, 40, 1.5)
    theta = {"mean": np.repeat([0.0, 0.3, -1.0], sd.size) * np.tile(sd, 3), "sd": np.tile(sd, 3)}
    found = resolved(JointSum(given, BOTH, n=9), theta)
    observed, scale = np.array(release.value) * release.law.step, release.law.scale
    k = np.arange(10)
    coin = stats.binom.pmf(k, 9, stats.norm.sf(0, theta["mean"], theta["sd"])[:, None])
    coin = coin @ stats.laplace.pdf(observed[1] - k, scale=scale[1])
    expected = stats.laplace.logpdf(observed[0], scale=scale[0]) + np.log(coin) + np.log(release.law.step).sum()
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_rows_with_too_many_frequencies_fall_back_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is known before anything is allocated."""
    given = releases(9, (-55, 55), *STILL, outside="refuse")
    theta = {"mean": np.zeros(3), "sd": np.array([5.0, 10.0, 20.0])}
    exact = resolved(JointSum(given, BOTH, n=9), theta)
    monkeypatch.setattr(joint_inversion, "MOST_SPAN", 0)
    model = JointSum(given, BOTH, n=9)
    found = model.log_likelihood(theta)
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, exact, atol=1.5)  # the central limit theorem of nine records
    assert model.normal_rows.matter
    assert model.cautions
    assert cautions_at(Product((model,)), theta) == model.cautions


@pytest.mark.parametrize(("guarantee", "is_warned"), [(nw.PureDP("0.1"), False), (nw.PureDP(60), True)])
def test_rows_of_many_records_that_fall_back_warn_of_a_lattice_alone(monkeypatch, guarantee, is_warned) -> None:
    """Of 400 records the theorem is as good as where it is the law of all rows: a count under little noise is not."""
    given = releases(400, (-55, 55), (nw.Mean(X**2, X.between(0, 55)), guarantee, [150.0, 0.4]), outside="refuse")
    theta = {"mean": np.zeros(3), "sd": np.array([11.0, 12.0, 13.0])}
    monkeypatch.setattr(joint_inversion, "MOST_SPAN", 0)
    model = JointSum(given, BOTH, n=400)
    model.log_likelihood(theta)
    assert model.normal_rows.matter
    assert not model.is_exact
    found = cautions_at(Product((model,)), theta)
    assert found == model.tilted.cautions
    assert bool(found) == is_warned


def test_rows_that_fall_back_where_the_posterior_is_not_are_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Likely enough to be told, but none of the draws is there."""
    given = releases(9, (-55, 55), *STILL, outside="refuse")
    model = JointSum(given, BOTH, n=9)
    theta = {"mean": np.zeros(3), "sd": np.array([5.0, 10.0, 20.0])}
    monkeypatch.setattr(joint_inversion, "MOST_SPAN", 0)
    model.log_likelihood(theta)
    monkeypatch.undo()
    assert model.cautions
    assert not model.is_exact
    assert cautions_at(Product((model,)), theta) == ()


# ---- a row is the same whatever rows it is asked with ----


def test_rows_far_away_do_not_take_the_law_from_likely_ones() -> None:
    """Three sums near the budget of a row: a prior's whole width asked at once, against rows one by one and records."""
    statistic, n = nw.Mean(X, X ** (1 / 2), X**2), 41
    given = releases(n, (0.38, 20), (statistic, nw.PureDP("4.2"), [2.77, 1.59, 14.7]), outside="refuse")
    population = nw.LogNormal(log_mean=stats.norm(1, 0.6), log_sd=0.6)
    model = JointSum(given, population, n=n)
    likely = np.array([0.6, 0.85, 1.1, 1.3])
    together = model.log_likelihood({"log_mean": np.concatenate([likely, [-2.2, -1.0, 2.4, 2.7]])})[:4]
    apart = [float(model.log_likelihood({"log_mean": np.array([at])})[0]) for at in likely]
    assert together == pytest.approx(apart, abs=2e-3)
    assert not cautions_at(model, {"log_mean": likely})
    rng, sets = np.random.default_rng(3), 40_000
    base = rng.random((sets, n))  # shared by all rows, so that their differences are seen sharply
    logs = []
    for at in likely:
        law = stats.lognorm(0.6, scale=np.exp(at))
        low, high = law.cdf([0.38, 20])
        logs.append(log_noise(given[0], {"x": law.ppf(low + (high - low) * base)}))
    weights = np.exp(np.array(logs) - np.max(logs))
    found = np.exp(together - together[1])
    for k in (0, 2, 3):  # delta method for a ratio of two means over the same data sets
        ratio = weights[k].mean() / weights[1].mean()
        error = np.std(weights[k] - ratio * weights[1]) / np.sqrt(sets) / weights[1].mean()
        assert abs(found[k] - ratio) < SIGMAS * error + 0.02 * ratio
