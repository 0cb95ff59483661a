"""Predicted precision: limits, the smallest budget, curves, and the whole line simulated to check the prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from noisewise.design.curve import design_curve
from noisewise.design.precision import epsilon_for, predicted_sd, simulated_sd
from noisewise.errors import InvalidArgument, NoisewiseError, PrecisionWarning, Unsupported
from noisewise.inference.infer import infer
from noisewise.models.simulate import simulate
from noisewise.planning import Plan, plan
from noisewise.populations.population import Bernoulli, Categorical, Normal
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Mean, Median, Statistic, Sum, column

X = column("x")
MEAN = Normal(mean=stats.norm(0, 2), sd=2)
BOTH = Normal(mean=stats.norm(0, 2), sd=stats.uniform(1, 2))
AT = {"mean": 1.0}


def schema(n: int = 2000, bound: float = 10) -> Schema:
    return Schema({"x": Bounded(-bound, bound)}, n=n, neighbours="change-one")


def planned(guarantee: Guarantee, statistic: Statistic | None = None, n: int = 2000, bound: float = 10) -> Plan:
    return plan(statistic or Mean(X), schema(n, bound), guarantee=guarantee)


# ---- the prediction ----


def test_a_normal_mean_under_gaussian_noise_has_the_posterior_of_a_textbook() -> None:
    # y ~ N(mean, sd^2/n + sigma^2) with a normal prior: the posterior precision is a sum. Bounds 20 clamp nothing.
    made = planned(GaussianDP("0.1"), bound=20)
    noise = 40 / 2000 / 0.1
    expected = (1 / (4 / 2000 + noise**2) + 1 / 4) ** -0.5
    assert predicted_sd(made, MEAN, at=AT, likelihood="clt")["mean"] == pytest.approx(expected, rel=1e-3)
    assert predicted_sd(made, MEAN, likelihood="clt")["mean"] == pytest.approx(expected, rel=1e-3)


def test_without_budget_the_prior_remains_and_with_all_of_it_the_sampling_spread() -> None:
    nothing, everything = (predicted_sd(planned(PureDP(e)), MEAN, at=AT)["mean"] for e in ("1e-4", 1000))
    assert nothing == pytest.approx(2, rel=1e-2)
    assert everything == pytest.approx(2 / np.sqrt(2000), rel=1e-2)


def test_the_prediction_averages_variances_over_the_prior() -> None:
    made = planned(PureDP(1), Mean(X, X**2))
    values = {"mean": [-1.0, 2.0], "sd": [1.5, 2.5]}
    each = [predicted_sd(made, BOTH, at={k: v[i] for k, v in values.items()}, seed=4, likelihood="clt") for i in (0, 1)]
    both = predicted_sd(made, BOTH, at=values, seed=4, likelihood="clt")
    for name in both:
        root = np.sqrt(np.mean([one[name] ** 2 for one in each]))
        assert both[name] == pytest.approx(root, rel=0.05)  # their simulated remainders differ


def test_what_a_first_posterior_knows_counts() -> None:
    made = planned(PureDP("0.5"))
    first = infer(simulate(made, MEAN, at=AT, seed=1), MEAN, likelihood="clt", seed=1, progress=False)
    fresh = predicted_sd(made, MEAN, at=AT, likelihood="clt")["mean"]
    after = predicted_sd(made, first, at=AT, likelihood="clt")["mean"]
    expected = (fresh**-2 - 1 / 4 + first.sd["mean"] ** -2) ** -0.5
    assert after == pytest.approx(expected, rel=0.05)  # the covariance of 4000 draws


@pytest.mark.parametrize("guarantee", [PureDP(1), GaussianDP("0.1")], ids=str)
def test_the_simulated_posterior_is_as_wide_as_predicted(guarantee: Guarantee) -> None:
    made = planned(guarantee)
    predicted = predicted_sd(made, MEAN, at=AT)["mean"]
    assert simulated_sd(made, MEAN, at=AT, releases=6, seed=1)["mean"] == pytest.approx(predicted, rel=0.05)


def test_a_count_is_as_precise_as_predicted() -> None:
    levels = Schema({"smoker": Levels(["no", "yes"])}, n=1000, neighbours="change-one")
    made = plan(Count(column("smoker").equals("yes")), levels, guarantee=PureDP(1))
    population = Bernoulli(p=stats.beta(1, 1))
    predicted = predicted_sd(made, population, at={"p": 0.3})["p"]
    assert simulated_sd(made, population, at={"p": 0.3}, releases=20, seed=1)["p"] == pytest.approx(predicted, rel=0.05)


@pytest.mark.slow
def test_a_median_is_as_precise_as_predicted() -> None:
    made = planned(ApproxDP(5, "1e-6"), Median(X), n=1000)
    predicted = predicted_sd(made, MEAN, at=AT)["mean"]
    assert simulated_sd(made, MEAN, at=AT, releases=4, seed=1)["mean"] == pytest.approx(predicted, rel=0.05)


def test_the_prediction_holds_where_one_laplace_noise_dominates() -> None:
    # 1/F = b^2 where the posterior's variance is 2 b^2: information alone would be too hopeful by sqrt(2).
    made = planned(PureDP("0.02"))
    wide = Normal(mean=stats.norm(0, 50), sd=2)
    found = predicted_sd(made, wide, at=AT)["mean"]
    assert simulated_sd(made, wide, at=AT, releases=6, seed=1)["mean"] == pytest.approx(found, rel=0.05)
    assert found == pytest.approx(np.sqrt(2) * 20 / (2000 * 0.02), rel=0.02)  # sd of the noise on the mean


@pytest.mark.parametrize("sd", [0.06, 0.2, 0.5])
def test_the_budget_for_a_precision_reaches_it_where_noise_dominates(sd: float) -> None:
    """Asked for .2, a budget by information alone left .25."""
    wide = Normal(mean=stats.norm(0, 50), sd=2)
    found = epsilon_for(Mean(X), wide, schema(), sd={"mean": sd}, at=AT)
    assert simulated_sd(planned(found), wide, at=AT, releases=6, seed=1)["mean"] < 1.05 * sd


@pytest.mark.slow
def test_a_budget_for_a_median_under_heavy_noise_comes_with_a_warning() -> None:
    """Cauchy noise that outweighs the sampling: no formula is right there, and it says so."""
    with pytest.warns(PrecisionWarning, match=r"outweighs the sampling.*simulated_sd"):
        epsilon_for(Median(X), MEAN, schema(200), sd={"mean": 0.6}, at=AT)


# ---- the smallest budget ----


@pytest.mark.parametrize(
    ("kind", "delta", "less"),
    [
        ("pure", None, lambda g: PureDP(g.epsilon * 97 / 100)),
        ("approx", "1e-6", lambda g: ApproxDP(g.epsilon * 97 / 100, "1e-6")),
        ("zcdp", None, lambda g: ZeroConcentratedDP(g.rho * 97 / 100)),
        ("gdp", None, lambda g: GaussianDP(g.mu * 97 / 100)),
    ],
)
def test_the_budget_found_is_enough_and_three_percent_less_is_not(kind: str, delta: str | None, less: object) -> None:
    found = epsilon_for(Mean(X), MEAN, schema(), sd={"mean": 0.06}, kind=kind, delta=delta, at=AT)
    assert predicted_sd(planned(found), MEAN, at=AT)["mean"] <= 0.06
    assert predicted_sd(planned(less(found)), MEAN, at=AT)["mean"] > 0.06  # type: ignore[operator]


def test_small_and_large_budgets_are_found_too() -> None:
    for sd in (1.5, 0.0448):  # nearly the prior's 2, nearly the sampling spread's 0.0447
        found = epsilon_for(Mean(X), MEAN, schema(), sd={"mean": sd}, at=AT)
        assert isinstance(found, PureDP)
        assert predicted_sd(planned(found), MEAN, at=AT)["mean"] <= sd
        assert predicted_sd(planned(PureDP(found.epsilon * 97 / 100)), MEAN, at=AT)["mean"] > sd


def test_every_parameter_asked_for_is_as_precise_as_asked() -> None:
    wanted = {"mean": 0.2, "sd": 0.15}
    found = epsilon_for(Mean(X, X**2), BOTH, schema(), sd=wanted, likelihood="clt", draws=8)
    predicted = predicted_sd(planned(found, Mean(X, X**2)), BOTH, likelihood="clt", draws=8)
    assert all(predicted[name] <= value for name, value in wanted.items())
    assert any(predicted[name] > 0.97 * value for name, value in wanted.items())


def test_a_precision_that_the_records_do_not_hold_is_refused_with_the_best_there_is() -> None:
    with pytest.raises(Unsupported, match=r"mean 0\.0447.*wanted 0\.04.*more records") as refusal:
        epsilon_for(Mean(X), MEAN, schema(), sd={"mean": 0.04}, at=AT)
    assert isinstance(refusal.value.sd, dict)
    assert refusal.value.sd["mean"] == pytest.approx(2 / np.sqrt(2000), rel=1e-2)


def test_where_no_plan_can_be_made_the_search_ends_with_the_reason() -> None:
    # The smooth-laplace rule holds up to some epsilon only.
    with pytest.raises(Unsupported, match="no plan can be made: The smooth-laplace rule"):
        epsilon_for(Median(X), MEAN, schema(100), sd={"mean": 0.1}, kind="approx", delta="1e-6", at=AT)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"sd": {"median": 1}}, "sd"),
        ({"sd": {}}, "sd"),
        ({"sd": {"mean": -1}}, "sd"),
        ({"sd": {"mean": float("nan")}}, "sd"),
        ({"sd": {"mean": 2.5}}, "sd"),
        ({"kind": "renyi"}, "kind"),
        ({"kind": "approx"}, "delta"),
        ({"delta": "1e-6"}, "delta"),
        ({"mechanism": "magic"}, "mechanism"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_by_name(change: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        epsilon_for(Mean(X), MEAN, schema(), **{"sd": {"mean": 0.1}, **change})  # type: ignore[arg-type]
    assert refusal.value.argument == word


# ---- the curve ----


def test_the_curve_falls_with_budget_and_records_and_each_point_is_the_prediction(tmp_path: Path) -> None:
    curve = design_curve([Mean(X), Mean(abs(X))], MEAN, schema(), epsilon=[3, "0.3"], n=[200, 2000], at=AT,
                         likelihood="clt")  # fmt: skip
    sd = {(row["statistic"], row["epsilon"], row["n"]): row["sd"]["mean"] for row in curve.rows}
    assert len(sd) == 8
    for statistic in ("mean(x)", "mean(abs(x))"):
        for n in (200, 2000):
            assert sd[statistic, 3, n] < sd[statistic, 0.3, n]
        assert sd[statistic, 3, 2000] < sd[statistic, 3, 200]
    for (_, epsilon, n), value in ((key, v) for key, v in sd.items() if key[0] == "mean(x)"):
        alone = plan(Mean(X), schema(n), guarantee=PureDP(epsilon))
        assert value == predicted_sd(alone, MEAN, at=AT, likelihood="clt")["mean"]
    assert str(curve).startswith("Predicted posterior sd, at mean = 1.")
    assert "epsilon = 0.3" in str(curve)
    assert curve.before["mean"] == pytest.approx(2, rel=1e-2)
    assert curve.plot(tmp_path / "curve.svg")[:4] == b"\x89PNG"
    assert "epsilon" in (tmp_path / "curve.svg").read_text("utf-8")


def test_the_curve_warns_of_cauchy_noise_and_of_no_other() -> None:
    pure, approx = (
        design_curve(planned(guarantee, Median(X), n=50), MEAN, epsilon=[5], at=AT)
        for guarantee in (PureDP(1), ApproxDP(1, "1e-6"))
    )
    assert "wider than predicted" in str(pure)
    assert "wider than predicted" not in str(approx)


def test_a_plan_keeps_its_kind_its_weights_and_its_part() -> None:
    made = plan(Mean(X, X**2), schema(), guarantee=GaussianDP(1), weights=[1, "1/50"], part=(0, "1/2"))
    curve = design_curve(made, BOTH, epsilon=[1, 2], at={"mean": 1.0, "sd": 2.0})
    assert [row["guarantee"] for row in curve.rows] == ["mu = 1", "mu = 2"]
    assert [row["n"] for row in curve.rows] == [1000, 1000]
    assert curve.rows[0]["sd"] == predicted_sd(made, BOTH, at={"mean": 1.0, "sd": 2.0})
    assert curve.rows[0]["budget"] == "mu"


def test_a_private_number_of_records_is_stated_and_the_shares_of_a_table_have_their_own_column() -> None:
    private = Schema({"x": Bounded(-10, 10)}, n_max=500, neighbours="add-remove")
    curve = design_curve(Sum(X), MEAN, private, epsilon=[1], n=[100, 400], at=AT, likelihood="clt")
    few, many = (row["sd"]["mean"] for row in curve.rows)
    assert many < few
    levels = Schema({"region": Levels(["n", "s", "e"])}, n=300, neighbours="change-one")
    table = design_curve(Histogram("region"), Categorical(p=stats.dirichlet([2, 3, 5])), levels, epsilon=[1, 10])
    assert table.parameters == ("p[0]", "p[1]")
    assert table.plot()


@pytest.mark.parametrize(
    "change",
    [
        {"candidates": []},
        {"candidates": ["mean(x)"]},
        {"schema": None},
        {"epsilon": []},
        {"epsilon": 1},
        {"epsilon": [0]},
        {"n": [0]},
        {"n": 100},
        {"candidates": Median(X), "likelihood": "clt"},
    ],
    ids=str,
)
def test_a_curve_that_cannot_be_drawn_is_refused(change: dict[str, object]) -> None:
    given: dict[str, object] = {"candidates": Mean(X), "schema": schema(), "epsilon": [1], "at": AT, **change}
    with pytest.raises(NoisewiseError):
        design_curve(given.pop("candidates"), MEAN, given.pop("schema"), **given)  # type: ignore[arg-type]
