"""Prediction: against the closed predictive law, in every way X can be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from moment_releases import SEED, exact_release, health_schema, records
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.posterior import Posterior
from noisewise.regression.prediction import mixture_quantile

N, DRAWS = 300, 8000
FEATURES = ["age", "bmi"]
PRIOR = nw.NormalInverseGamma(mean=0, precision=1e-4, shape=2, rate=300)
MODEL = nw.LinearRegression(FEATURES, "cost", prior=PRIOR)
X = np.array([[30, 20], [45, 26], [80, 35.0]])


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    return records(np.random.default_rng([SEED, 1]), N)


@pytest.fixture(scope="module")
def posterior(columns: dict[str, Any]) -> Posterior:
    plan = nw.plan(nw.Moments(FEATURES, "cost", centre={"age": 45}, scale={"cost": 50}), health_schema(N),
                   guarantee=nw.PureDP(10**7))  # fmt: skip
    return nw.infer(exact_release(plan, columns), MODEL, method="naive", seed=SEED + 1, draws=DRAWS // 4, chains=4)


def closed_law(columns: dict[str, Any], *, of_mean: bool) -> Any:
    """Student's t: with the prior as pseudo-records, y | x has scale^2 = (b/a)(1 + x' (X'X)^-1 x)."""
    design = np.vstack([np.column_stack([np.ones(N), columns["age"], columns["bmi"]]), 1e-2 * np.eye(3)])
    mean, rss, *_ = np.linalg.lstsq(design, np.concatenate([columns["cost"], np.zeros(3)]))
    shape, rate = 2 + N / 2, 300 + float(rss[0]) / 2
    at = np.column_stack([np.ones(len(X)), X])
    leverage = np.einsum("ki,ij,kj->k", at, np.linalg.inv(design.T @ design), at)
    return stats.t(2 * shape, loc=at @ mean, scale=np.sqrt(rate / shape * (leverage + (not of_mean))))


@pytest.mark.parametrize("kind", ["response", "mean"])
def test_it_is_the_closed_predictive_law_where_there_is_no_noise(
    kind: str, columns: dict[str, Any], posterior: Posterior
) -> None:
    law = closed_law(columns, of_mean=kind == "mean")
    found = MODEL.predict(posterior, X, level=0.9, kind=kind)
    sd, error = law.std(), law.std() / np.sqrt(DRAWS)
    assert (np.abs(found.mean - law.mean()) < 5.2 * error).all()
    assert (np.abs(found.sd / sd - 1) < 5.2 * np.sqrt(0.6 / DRAWS)).all()
    # The share of the true law below each end: a quantile of DRAWS draws errs by sqrt(p (1-p)/DRAWS) at most.
    allowed = 5.2 * np.sqrt(0.05 * 0.95 / DRAWS)
    assert (np.abs(law.cdf(found.low) - 0.05) < allowed).all()
    assert (np.abs(law.cdf(found.high) - 0.95) < allowed).all()
    for k in range(len(X)):
        one = stats.t(law.kwds.get("df", law.args[0]), loc=law.mean()[k], scale=law.kwds["scale"][k])
        assert stats.kstest(found.draws[:, k], one.cdf).pvalue > 1e-6 / 3


def test_a_response_is_wider_than_its_mean_and_both_bands_are_kept(posterior: Posterior) -> None:
    response, mean = (MODEL.predict(posterior, X, kind=kind) for kind in ("response", "mean"))
    assert (response.sd > 3 * mean.sd).all()
    np.testing.assert_array_equal(response.mean_low, mean.low)
    np.testing.assert_array_equal(response.mean_high, mean.high)


def test_an_end_that_is_found_early_stays_while_others_are_sought() -> None:
    """Many rows at once converge at different steps; each end must leave p below it, to rounding."""
    rng = np.random.default_rng([SEED, 9])
    mean = np.linspace(90, 150, 500) + rng.normal(size=(400, 1)) * np.linspace(0, 2, 500)
    sd = rng.normal(12, 0.3, (400, 1))
    for p in (0.05, 0.5, 0.95):
        found = mixture_quantile(mean, sd, p)
        assert np.abs(stats.norm.cdf(found, mean, sd).mean(axis=0) - p).max() < 1e-10


def test_the_quantile_of_a_mixture_is_the_one_that_root_finding_finds() -> None:
    from scipy.optimize import brentq

    rng = np.random.default_rng([SEED, 2])
    mean, sd = 5 * rng.standard_cauchy((50, 4)), np.exp(rng.normal(size=(50, 1)))
    low, high = (mean - 40 * sd).min(), (mean + 40 * sd).max()
    for p in (1e-4, 0.05, 0.5, 0.99):
        found = mixture_quantile(mean, sd, p)
        for k in range(4):
            expected = brentq(lambda t, k=k, p=p: stats.norm.cdf((t - mean[:, k]) / sd[:, 0]).mean() - p, low, high,
                              xtol=1e-10)  # fmt: skip
            assert found[k] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        {"age": [30, 45, 80], "bmi": [20, 26, 35]},
        pd.DataFrame({"bmi": [20, 26, 35], "age": [30, 45, 80], "other": [1, 2, 3]}),
        pl.DataFrame({"age": [30, 45, 80], "bmi": [20, 26, 35]}),
        X.tolist(),
        pa.table({"bmi": [20, 26, 35], "other": ["a", "b", "c"], "age": [30.0, 45.0, 80.0]}),
        pa.record_batch({"bmi": [20, 26, 35], "age": [30, 45, 80]}),
        np.array([(20, 30), (26, 45), (35, 80)], dtype=[("bmi", float), ("age", int)]),
        pd.DataFrame({"age": [30, 45, 80], "bmi": [20, 26, 35], "column_names": [1, 2, 3]}),
    ],
    ids=["mapping", "pandas", "polars", "list", "arrow", "arrow-batch", "structured", "pandas-odd-name"],
)
def test_x_is_taken_as_people_have_it(given: Any, posterior: Posterior) -> None:
    np.testing.assert_allclose(MODEL.predict(posterior, given).mean, MODEL.predict(posterior, X).mean)


def test_features_are_computed_from_columns() -> None:
    """A square and a level: X by column gives what the array of features gives."""
    rng = np.random.default_rng([SEED, 3])
    x, region = rng.uniform(-1, 1, 50), rng.integers(0, 2, 50)
    made = {"x": x, "region": region, "y": x**2 + region + rng.normal(0, 0.1, 50)}
    schema = nw.Schema({"x": nw.Bounded(-1, 1), "region": nw.Levels(["north", "south"]), "y": nw.Bounded(-3, 3)},
                       n=50, neighbours="change-one")  # fmt: skip
    features = [nw.column("x") ** 2, nw.column("region").equals("south")]
    plan = nw.plan(nw.Moments(features, "y"), schema, guarantee=nw.PureDP(10**6))
    model = nw.LinearRegression(features, "y")
    posterior = nw.infer(exact_release(plan, made), model, method="naive", seed=SEED + 1, draws=100, warmup=50)
    for columns in (dict, pa.table, pd.DataFrame):
        by_column = model.predict_mean(posterior, columns({"x": [0.5, -1.0], "region": ["south", "north"]}))
        np.testing.assert_allclose(by_column, model.predict_mean(posterior, [[0.25, 1], [1, 0]]))
    with pytest.raises(InvalidArgument, match="does not know"):
        model.predict_mean(posterior, {"x": [0.5], "region": ["west"]})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[1, 2, 3]], "one column for each"),
        ([[1, np.nan]], "finite"),
        ({"age": [1]}, "no column 'bmi'"),
        ({"age": [1, 2], "bmi": [1, 2, 3]}, "different lengths"),
        ("age", "array"),
        (None, "finite"),
    ],
    ids=["wide", "nan", "missing", "ragged", "text", "none"],
)
def test_bad_x_is_refused(given: Any, words: str, posterior: Posterior) -> None:
    for predict in (MODEL.predict, MODEL.predict_mean):
        with pytest.raises(InvalidArgument, match=words):
            predict(posterior, given)


def test_bad_options_are_refused(posterior: Posterior) -> None:
    with pytest.raises(InvalidArgument, match="kind"):
        MODEL.predict(posterior, X, kind="median")
    with pytest.raises(InvalidArgument, match="level"):
        MODEL.predict(posterior, X, level=1)
    with pytest.raises(InvalidArgument, match="seed"):
        MODEL.predict(posterior, X, seed=-1)
    with pytest.raises(InvalidArgument, match="at most"):
        MODEL.predict(posterior, np.zeros((10_000, 2)))


def test_the_same_seed_gives_the_same_draws(posterior: Posterior) -> None:
    one, other, third = (MODEL.predict(posterior, X, seed=seed).draws for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)


def test_a_band_is_drawn_along_one_feature(posterior: Posterior, tmp_path: Path) -> None:
    along = {"age": np.linspace(20, 80, 7), "bmi": 26}
    picture = MODEL.predict(posterior, along).plot(tmp_path / "band.png")
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "band.png").read_bytes() == picture
    with pytest.raises(Unsupported, match="2 of 2 vary"):
        MODEL.predict(posterior, X).plot()


def test_its_table_shows_the_rows(posterior: Posterior) -> None:
    text = str(MODEL.predict(posterior, np.repeat(X, 10, axis=0)))
    assert text.startswith("A new cost, predicted:")
    assert "5 %" in text
    assert "... and 10 more rows." in text


@pytest.mark.parametrize(
    "bad", [{"age": "old", "bmi": 20}, {"age": [10**400], "bmi": [20]}, [[10**400, 1]], "x", None, [[np.nan, 1]],
            [["40", "20"]], {"age": ["40"], "bmi": [20]}, {"age": "40", "bmi": 20},
            pa.table({"age": ["40"], "bmi": [20]}), pd.DataFrame({"age": ["40"], "bmi": [20]}, dtype=object),
            pa.table({"age": [40, None], "bmi": [20, 30]}), pa.table({"age": [40]}),
            pa.Table.from_arrays([pa.array([40]), pa.array([20]), pa.array([40])], names=["age", "bmi", "age"])],
    ids=["text", "huge", "huge array", "a text", "nothing", "nan", "digits", "a column of digits", "one of digits",
         "arrow digits", "pandas digits", "arrow null", "arrow missing", "arrow twice"],
)  # fmt: skip
def test_what_is_not_rows_of_numbers_is_refused(bad: Any, posterior: Posterior) -> None:
    with pytest.raises(InvalidArgument) as error:
        MODEL.predict(posterior, bad)
    assert error.value.argument == "X"


def test_a_posterior_of_another_model_is_refused(posterior: Posterior) -> None:
    for other in (posterior, None, 5):
        with pytest.raises(InvalidArgument) as error:
            nw.LinearRegression(["height"], "cost").predict(other, [[1.0]])
        assert error.value.argument == "posterior"


@pytest.mark.parametrize(
    "other",
    [nw.LinearRegression(["age"], "cost"), nw.LinearRegression(FEATURES, "charge"),
     nw.LinearRegression([*FEATURES, nw.column("age") ** 2], "cost"),
     nw.LinearRegression(FEATURES, "cost", intercept=False)],
    ids=["fewer-features", "another-response", "more-features", "no-intercept"],
)  # fmt: skip
def test_a_posterior_answers_only_for_the_regression_it_is_of(
    other: nw.LinearRegression, posterior: Posterior, tmp_path: Path
) -> None:
    posterior.save(tmp_path / "kept")
    for kept in (posterior, Posterior.load(tmp_path / "kept")):
        for predict in (other.predict, other.predict_mean):
            with pytest.raises(InvalidArgument, match=r"posterior\.population") as error:
                predict(kept, [[0.0] * len(other.features)])
            assert error.value.argument == "posterior"
            assert f"is of {MODEL}, not of {other}" in str(error.value)


def test_features_may_stand_in_another_order_and_x_follows_the_model(posterior: Posterior, tmp_path: Path) -> None:
    turned = nw.LinearRegression(FEATURES[::-1], "cost")
    posterior.save(tmp_path / "kept")
    for kept in (posterior, Posterior.load(tmp_path / "kept")):
        np.testing.assert_allclose(turned.predict(kept, X[:, ::-1]).mean, MODEL.predict(posterior, X).mean)


def test_a_posterior_of_a_population_is_no_regression(posterior: Posterior) -> None:
    """Even if its parameters are called as the coefficients are."""
    from dataclasses import replace

    with pytest.raises(InvalidArgument, match="not of a LinearRegression") as error:
        MODEL.predict(replace(posterior, population=None), X)
    assert error.value.argument == "posterior"


def test_a_frame_without_rows_yet_is_to_be_collected(posterior: Posterior) -> None:
    with pytest.raises(InvalidArgument, match=r"X\.collect\(\)"):
        MODEL.predict(posterior, pl.LazyFrame({"age": [30], "bmi": [20]}))


def test_one_draw_predicts_and_does_not_say_its_spread(posterior: Posterior) -> None:
    from dataclasses import replace

    single = replace(posterior, draws={name: value[:1, :1] for name, value in posterior.draws.items()})
    found = MODEL.predict(single, X)
    np.testing.assert_allclose(found.mean, MODEL.predict_mean(single, X))
    assert np.isnan(found.sd).all()
