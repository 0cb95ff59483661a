"""LinearRegression: from releases to a posterior in the units of the columns, by every method, with a true verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, exact_release, health_schema, noisy_release, records
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, InvalidSpec, Unsupported
from noisewise.inference.posterior import Posterior
from noisewise.populations.text import population_from_spec
from noisewise.regression.methods import METHODS, RegressionMethod, automatic, skewness_of
from noisewise.regression.problem import Fit, Problem
from noisewise.release import Release

FEATURES = ["age", "bmi"]
CENTRE, SCALE = {"age": 45, "bmi": 26, "cost": 180}, {"age": 12, "bmi": 4, "cost": 40}
N = 4000
WEAK = nw.NormalInverseGamma(mean=0, precision=1e-8, shape=1, rate=1)


def plan(n: int = N, epsilon: float = 10**7, guarantee: Any = None, **options: Any) -> nw.Plan:
    return nw.plan(nw.Moments(FEATURES, "cost", **options), health_schema(n), guarantee=guarantee or nw.PureDP(epsilon))


def release(seed: int = 1, *, n: int = N, dataset: str = "a", **options: Any) -> Release:
    return exact_release(plan(n, **options), records(np.random.default_rng([SEED, seed]), n), dataset=dataset)


def noisy(seed: int = 1, *, n: int = 400, dataset: str = "a", mu: float = 5, **options: Any) -> Release:
    rng = np.random.default_rng([SEED, seed])
    made = plan(n, guarantee=nw.GaussianDP(mu), **{"centre": CENTRE, "scale": SCALE, **options})
    return noisy_release(made, records(rng, n), rng, dataset=dataset)


# ---- units ----


@pytest.mark.parametrize("average", [None, 4], ids=["rows", "averaged"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "through-centre"])
@pytest.mark.parametrize(
    "public", [{}, {"centre": CENTRE}, {"scale": SCALE}, {"centre": CENTRE, "scale": SCALE}],
    ids=["raw", "centred", "scaled", "both"],
)  # fmt: skip
def test_without_noise_it_is_least_squares_in_the_units_of_the_columns(
    public: dict[str, Any], intercept: bool, average: int | None
) -> None:
    """Oracle: numpy's least squares on the records themselves (on block sums where rows are averaged)."""
    columns = records(np.random.default_rng([SEED, 1]), N)
    model = nw.LinearRegression(FEATURES, "cost", intercept=intercept, prior=WEAK)
    made = plan(intercept=intercept, average=average, **public)
    found = nw.infer(exact_release(made, columns), model, method="naive", seed=SEED + 1, draws=1000)
    centre = {name: 0.0 if intercept else public.get("centre", {}).get(name, 0.0) for name in columns}
    rows = np.column_stack([np.ones(N), *(columns[name] - centre[name] for name in (*FEATURES, "cost"))])
    rows = rows if average is None else rows.reshape(-1, average, 4).sum(axis=1) / np.sqrt(average)
    design = rows[:, :-1] if intercept else rows[:, 1:-1]
    beta, rss, *_ = np.linalg.lstsq(design, rows[:, -1])
    for name, expected in zip(FEATURES, beta[-2:], strict=True):
        assert found.mean[name] == pytest.approx(expected, abs=0.2 * found.sd[name])
    start = float(beta[0]) if intercept else centre["cost"] - beta @ [centre["age"], centre["bmi"]]
    if "intercept" in found.draws:
        assert found.mean["intercept"] == pytest.approx(start, abs=0.2 * found.sd["intercept"])
    else:
        assert start == 0
    assert found.mean["noise_variance"] == pytest.approx(float(rss[0]) / len(rows), rel=0.02)
    at = np.array([[30.0, 20.0], [60.0, 30.0]])
    spread = max(float(value) for value in model.predict(found, at, kind="mean").sd)
    np.testing.assert_allclose(model.predict_mean(found, at), start + at @ beta[-2:], atol=0.2 * spread)


def test_the_units_of_the_first_release_do_not_matter() -> None:
    one, other = release(1, centre=CENTRE, scale=SCALE), release(2, dataset="b")
    model = nw.LinearRegression(FEATURES, "cost", prior=WEAK)
    orders = ([one, other], [other, one])
    found = [nw.infer(order, model, method="naive", seed=SEED, draws=500).mean for order in orders]
    for name in (*FEATURES, "intercept", "noise_variance"):
        assert found[0][name] == pytest.approx(found[1][name], rel=0.02)


# ---- methods ----


def test_the_default_covers_the_truth_and_says_what_it_assumes() -> None:
    model = nw.LinearRegression(FEATURES, "cost")
    found = nw.infer([noisy(1), noisy(2, dataset="b")], model, seed=SEED, draws=250, warmup=200, progress=False)
    assert found.method == "marginal"
    assert "nearly normal" in found.because
    assert "2 holders" in found.because
    assert "by default" in found.because
    assert "Covariates are taken to be normal." in str(found.verdict)
    for name, truth in (("age", 3.0), ("bmi", -2.0), ("noise_variance", 400.0)):
        assert found.mean[name] == pytest.approx(truth, abs=6 * found.sd[name])


def test_covariates_are_kept_for_later_and_not_listed() -> None:
    found = nw.infer(noisy(), nw.LinearRegression(FEATURES, "cost"), method="exact-gibbs", seed=SEED, draws=300)
    assert found.draws["covariate_covariance"].shape[2:] == (2, 2)
    text = found.summary()
    assert "covariate" not in text.split("Method:")[0]
    assert "noise_variance" in text
    mean = found.mean["covariate_mean"]
    assert mean[0] == pytest.approx(45, abs=6 * found.sd["covariate_mean"][0])


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("individual", "adassp")])
def test_every_method_is_reached_by_its_name(name: str) -> None:
    """Each gives finite draws of what it promises, near the truth at a loose budget, in the units of the columns."""
    conjugate = nw.NormalInverseGamma(mean=0, precision=1e-3, shape=2, rate=400)
    covariates = nw.NormalCovariates(location=[45, 26], strength=1, scale=[5 * 144, 5 * 16], degrees=8)
    model = nw.LinearRegression(FEATURES, "cost", intercept=False, prior=conjugate, covariates=covariates)
    one = noisy(n=2000, mu=300, intercept=False, fourth=name == "gibbs-noisy")
    found = nw.infer(one, model, method=name, seed=SEED + 1, draws=200, warmup=300, chains=2, progress=False)
    assert found.method == name
    assert found.draws["age"].shape == (2, 200)
    assert np.isfinite(found.draws["age"]).all()
    # Shrunk a little by the prior, noisy a little: half a unit is many times either.
    assert found.mean["age"] == pytest.approx(3, abs=0.5)
    assert str(found.verdict)


@pytest.mark.parametrize("given", ["ols", "", None, 3], ids=repr)
def test_an_unknown_method_is_named_with_those_there_are(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="marginal, exact-gibbs") as error:
        nw.infer(noisy(), nw.LinearRegression(FEATURES, "cost"), method=given)
    assert error.value.argument == "method"


@pytest.mark.parametrize(
    ("argument", "value"),
    [("draws", 0), ("warmup", -1), ("chains", 0), ("likelihood", "exact"), ("seed", -1), ("draws", 1.5)],
)
def test_bad_settings_are_refused_by_name(argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as error:
        nw.LinearRegression(FEATURES, "cost").posterior(noisy(), **{argument: value})
    assert error.value.argument == argument


def problem(release: Release, **beliefs: Any) -> Problem:
    return nw.LinearRegression(FEATURES, "cost", **beliefs).problem(release)


def test_auto_keeps_the_exact_law_where_few_rows_and_little_noise_make_sums_skew() -> None:
    few, many = problem(noisy(n=10, mu=10**4)), problem(noisy(n=1000, mu=1))
    assert automatic(few, likelihood="auto")[0] == "exact-gibbs"
    assert automatic(few, likelihood="clt")[0] == "marginal"
    assert automatic(many, likelihood="auto")[0] == "marginal"
    given = nw.GivenMoments.of_rows(np.random.default_rng([SEED, 1]).normal(size=(50, 2)))
    assert automatic(problem(noisy(n=10, mu=10**4), covariates=given), likelihood="auto")[0] == "marginal"
    short = problem(noisy(n=10, mu=10**4, shrink=2))
    assert automatic(short, likelihood="auto") == ("marginal", "rows were shortened, which only it models")


def test_the_skewness_is_that_of_a_noisy_sum_of_squares() -> None:
    """Oracle: simulation of sum x^2 + noise at the moments of the release (one feature, through its centre)."""
    rng = np.random.default_rng([SEED, 1])
    n, x = 12, rng.normal(0, 2, 12)
    schema = nw.Schema({"x": nw.Bounded(-10, 10), "y": nw.Bounded(-1e-3, 1e-3)}, n=n, neighbours="change-one")
    made = nw.plan(nw.Moments("x", "y", parts=["xx"], intercept=False), schema, guarantee=nw.GaussianDP(20))
    one = exact_release(made, {"x": x, "y": np.zeros(n)})
    found = nw.LinearRegression("x", "y", intercept=False).problem(one)
    noise = one.law.sd[0]
    variance = np.mean(x**2) + noise / n
    sums = np.square(rng.normal(0, np.sqrt(variance), (200_000, n))).sum(axis=1) + rng.normal(0, noise, 200_000)
    assert skewness_of(found.holders[0], found) == pytest.approx(stats.skew(sums), abs=0.06)


def test_chains_that_have_not_mixed_are_run_longer_and_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that creeps: a slow autoregression, of which four times the length is given back at a quarter."""
    lengths = []

    def creep(given: Problem, rng: np.random.Generator, *, chains: int, draws: int, warmup: int, **_: Any) -> Fit:
        lengths.append((draws, warmup))
        steps = np.cumsum(rng.normal(size=(chains, draws, given.q)), axis=1)
        return Fit(steps, None, "creeping")

    monkeypatch.setattr(METHODS, "_known", dict(METHODS.items()))
    METHODS.register(RegressionMethod("creeping", lambda: creep, runs_longer=True, models_shortening=True))
    model = nw.LinearRegression(FEATURES, "cost")
    found = nw.infer(noisy(), model, method="creeping", draws=300, warmup=50, seed=SEED)
    assert lengths == [(300, 50), (600, 100), (1200, 200)]
    assert found.draws["age"].shape == (4, 300)
    assert "4 times as long" in str(found.verdict)
    assert not found.verdict.is_converged


def test_the_noise_variance_is_not_identified_without_yy_at_one_holder() -> None:
    model = nw.LinearRegression(FEATURES, "cost")
    options = {"parts": ["xx", "xy"], "mu": 100}
    alone = nw.infer(noisy(**options), model, seed=SEED + 1, draws=100, warmup=200, chains=2, progress=False)
    assert "not identified" in str(alone.verdict)
    two = nw.infer([noisy(**options), noisy(2, dataset="b", **options)], model, seed=SEED + 1, draws=100, warmup=200,
                   chains=2, progress=False)  # fmt: skip
    assert "how the holders differ" in str(two.verdict)


def test_shortened_rows_are_modelled_or_the_verdict_says_they_are_not() -> None:
    model = nw.LinearRegression(FEATURES, "cost")
    one = noisy(shrink=1, mu=50)
    naive = nw.infer(one, model, method="naive", seed=SEED + 1, draws=100, project=True)
    assert "shortened, which method 'naive' ignores" in str(naive.verdict)
    gibbs = nw.infer(one, model, method="exact-gibbs", seed=SEED + 1, draws=100, warmup=100)
    assert "which this method ignores: coefficients may be biased" in str(gibbs.verdict)
    assert "% of rows were shortened" in str(gibbs.verdict)


def test_the_same_seed_gives_the_same_draws() -> None:
    model = nw.LinearRegression(FEATURES, "cost")
    settings = {"method": "exact-gibbs", "draws": 100, "warmup": 50, "chains": 2}
    one, other, third = (
        nw.infer(noisy(), model, seed=seed, **settings).draws["age"] for seed in (SEED, SEED, SEED + 1)
    )
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)


# ---- beliefs ----


def test_what_is_known_about_coefficients_counts() -> None:
    tight = nw.LinearRegression(FEATURES, "cost", coefficients={"intercept": stats.norm(100, 50),
                                "age": stats.norm(5, 1e-3), "bmi": stats.norm(0, 10)})  # fmt: skip
    found = nw.infer(noisy(), tight, method="exact-gibbs", seed=SEED, draws=200, warmup=200, chains=2)
    assert found.mean["age"] == pytest.approx(5, abs=0.01)


def test_ways_to_write_the_same_prior_agree() -> None:
    one = noisy()
    ways = [
        stats.norm(1, 2),
        [stats.norm(1, 2)] * 3,
        {"bmi": stats.norm(1, 2), "age": stats.norm(1, 2), "intercept": stats.norm(1, 2)},
        stats.multivariate_normal([1, 1, 1], 4 * np.eye(3)),
    ]
    found = [problem(one, coefficients=way).prior for way in ways]
    for prior in found[1:]:
        np.testing.assert_allclose(prior.mean, found[0].mean)
        np.testing.assert_allclose(prior.precision, found[0].precision)


def test_default_beliefs_follow_the_public_numbers() -> None:
    """The default is the same belief whether a column is in years or in days, with bounds or a scale to match."""
    year = 365.0
    schema = nw.Schema({"x": nw.Bounded(0, 100), "y": nw.Bounded(0, 10)}, n=50, neighbours="change-one")
    days = nw.Schema({"x": nw.Bounded(0, 100 * year), "y": nw.Bounded(0, 10)}, n=50, neighbours="change-one")
    rng = np.random.default_rng([SEED, 1])
    columns = {"x": rng.uniform(0, 100, 50), "y": rng.uniform(0, 10, 50)}
    model = nw.LinearRegression("x", "y")
    made = [exact_release(nw.plan(nw.Moments("x", "y"), one, guarantee=nw.PureDP(10**6)), data) for one, data in
            ((schema, columns), (days, {**columns, "x": year * columns["x"]}))]  # fmt: skip
    plain, scaled = (nw.infer(one, model, method="naive", seed=SEED + 1, draws=500) for one in made)
    assert plain.mean["x"] == pytest.approx(year * scaled.mean["x"], rel=1e-3)
    assert plain.mean["noise_variance"] == pytest.approx(scaled.mean["noise_variance"], rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"features": []}, "features"),
        ({"features": None}, "features"),
        ({"features": ["age", "age"]}, "features"),
        ({"features": ["age", "cost"]}, "features"),
        ({"features": ["intercept"]}, "features"),
        ({"intercept": 1}, "intercept"),
        ({"coefficients": 3}, "coefficients"),
        ({"coefficients": "flat"}, "coefficients"),
        ({"coefficients": stats.t(3)}, "coefficients"),
        ({"coefficients": [stats.norm()]}, "coefficients"),
        ({"coefficients": {"age": stats.norm()}}, "coefficients"),
        ({"coefficients": stats.multivariate_normal([0, 0])}, "coefficients"),
        ({"coefficients": stats.multivariate_normal([0, 0, 0], np.zeros((3, 3)), allow_singular=True)}, "coefficients"),
        ({"noise": 1.0}, "noise"),
        ({"noise": stats.invgamma(2, loc=1)}, "noise"),
        ({"noise": stats.gamma(2)}, "noise"),
        ({"prior": stats.norm()}, "prior"),
        ({"prior": WEAK, "noise": stats.invgamma(2)}, "prior"),
        ({"prior": nw.NormalInverseGamma([0, 0], 1, 1, 1)}, "mean"),
        ({"prior": nw.NormalInverseGamma(0, [1, 1], 1, 1)}, "precision"),
        ({"covariates": "normal"}, "covariates"),
        ({"covariates": stats.norm()}, "covariates"),
        ({"covariates": nw.NormalCovariates(0, 1, 1, 0.5)}, "degrees"),
        ({"covariates": nw.NormalCovariates([0, 0, 0], 1, 1, 5)}, "location"),
        ({"covariates": nw.GivenMoments(np.eye(2), np.ones((2, 2, 2, 2)) + 3 * np.eye(4).reshape((2,) * 4))},
         "covariates"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)  # fmt: skip
def test_bad_beliefs_are_refused_at_birth(arguments: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        nw.LinearRegression(**{"features": FEATURES, "response": "cost", **arguments})
    assert error.value.argument == argument


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1, 0, None, True, "x", [[1, 2]]], ids=repr)
def test_bad_numbers_in_beliefs_are_refused(bad: Any) -> None:
    for make, fields in (
        (nw.NormalInverseGamma, {"mean": 0, "precision": 1, "shape": 1, "rate": 1}),
        (nw.NormalCovariates, {"location": 0, "strength": 1, "scale": 1, "degrees": 5}),
    ):
        for name in fields:
            if name in ("mean", "location") and isinstance(bad, int) and not isinstance(bad, bool):
                continue  # any number is a mean
            with pytest.raises(InvalidArgument) as error:
                make(**{**fields, name: bad})
            assert error.value.argument == name
    with pytest.raises(InvalidArgument):
        nw.GivenMoments(bad, bad)


def test_moments_that_no_law_has_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="No law"):
        nw.GivenMoments(np.eye(1), np.full((1, 1, 1, 1), 0.5))
    with pytest.raises(InvalidArgument, match="positive definite"):
        nw.GivenMoments([[1, 2], [2, 1]], np.ones((2, 2, 2, 2)))
    with pytest.raises(InvalidArgument, match="shape"):
        nw.GivenMoments(np.eye(2), np.ones((2, 2)))
    with pytest.raises(InvalidArgument, match="more rows"):
        nw.GivenMoments.of_rows([[1.0, 2.0]])


# ---- writing and reading ----

MODELS = {
    "plain": nw.LinearRegression(FEATURES, "cost"),
    "norm": nw.LinearRegression(["age", nw.column("bmi") ** 2], "cost", intercept=False,
                                coefficients=stats.norm(0, 0.1), noise=stats.invgamma(3, scale=2.5)),
    "list": nw.LinearRegression("age", "cost", coefficients=[stats.norm(0, 1), stats.norm(1, 2)]),
    "dict": nw.LinearRegression("age", "cost", coefficients={"age": stats.norm(1, 2), "intercept": stats.norm(0, 1)}),
    "joint": nw.LinearRegression("age", "cost", coefficients=stats.multivariate_normal([0, 1], [[2, 0.1], [0.1, 1]])),
    "conjugate": nw.LinearRegression(FEATURES, "cost", prior=nw.NormalInverseGamma([0, 1, 2], 0.1, 2, 3),
                                     covariates=nw.NormalCovariates([40, 25], 1, [[144, 1], [1, 16]], 6)),
    "given": nw.LinearRegression(FEATURES, "cost", coefficients="learned",
                                 covariates=nw.GivenMoments.of_rows(np.random.default_rng().normal(size=(9, 2)))),
    "released": nw.LinearRegression(FEATURES, "cost", covariates="released"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_written_and_read_to_the_last_bit(name: str) -> None:
    model = MODELS[name]
    again = population_from_spec(model.to_spec())
    assert isinstance(again, nw.LinearRegression)
    assert again.to_spec() == model.to_spec()
    assert repr(again) == repr(model)


@pytest.mark.parametrize(
    "text",
    [
        "linear_regression()",
        "linear_regression(features=['age'])",
        "linear_regression(['age'], 'cost')",
        "linear_regression(features=['age'], response='cost', depth=3)",
        "linear_regression(features=['age'], response='cost', noise=__import__('os'))",
        "linear_regression(features=['age'], response='cost', covariates=normal_covariates(1, 2))",
    ],
)
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises((InvalidSpec, InvalidArgument)):
        population_from_spec({"*": text})


def test_a_regression_stands_for_all_columns_of_a_spec() -> None:
    with pytest.raises(InvalidSpec, match="several columns"):
        population_from_spec({"cost": "linear_regression(features=['age'], response='cost')"})
    with pytest.raises(InvalidArgument, match="does not describe a LinearRegression"):
        nw.LinearRegression.from_spec({"x": "normal(mean=norm(0, 1), sd=1)"})


def test_a_posterior_is_saved_and_read_with_its_model(tmp_path: Path) -> None:
    model = nw.LinearRegression(FEATURES, "cost", coefficients=stats.norm(0, 20))
    found = nw.infer(noisy(), model, method="exact-gibbs", seed=SEED, draws=50, warmup=100, chains=2)
    found.save(tmp_path / "p.npz")
    again = Posterior.load(tmp_path / "p.npz")
    assert again.verdict == found.verdict
    assert again.population.to_spec() == model.to_spec()
    np.testing.assert_array_equal(again.draws["covariate_covariance"], found.draws["covariate_covariance"])
    x = [[40, 25]]
    np.testing.assert_array_equal(again.population.predict(again, x).draws, model.predict(found, x).draws)


def test_a_method_that_needs_what_is_not_installed_says_so() -> None:
    with pytest.raises(Unsupported, match="noisewise"):
        nw.infer(noisy(), nw.LinearRegression(FEATURES, "cost"), method="individual", seed=SEED + 1, draws=2, warmup=2)
