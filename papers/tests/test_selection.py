"""The studies of selection: their posterior means are the library's, and the error follows the information."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.design.choice import choose
from noisewise.errors import InvalidArgument
from noisewise.inference.infer import infer
from noisewise.planning import Plan
from noisewise.populations.population import Normal
from noisewise.release import Release
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Mean, Records
from noisewise_papers import selection_batch, selection_local, selection_two_stage
from noisewise_papers.selection import Grid, NoisySum, clear_pairs, first_part, misordered, planned, power
from noisewise_papers.selection_local import answers_log_likelihood, records_log_likelihood, told_by_records
from noisewise_papers.selection_two_stage import Problem, averages, power_plan, width_population
from noisewise_papers.setting import read_settings

LIMIT = stats.norm.isf(1e-6)
HIGH = 20.0
SCHEMA = Schema({"x": Bounded(-6, 6)}, n=40, neighbours="change-one")
POPULATION = Normal(mean=0, variance=stats.uniform(0, HIGH))


def released(plan: Plan, values: Any, step: float) -> Release:
    integers = [round(float(value) / step) for value in np.atleast_1d(values)]
    return Release.of(plan, integers, dataset="simulated", ledger_head=None, simulated=True)


def exact_mean(releases: Any, population: Any, name: str, **options: Any) -> float:
    posterior = infer(releases, population, method="exact", seed=1, draws=100, progress=False, **options)
    return float(posterior.mean[name])


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(("exponent", "total"), [(1.0, 45.0), (2.0, 80.0), (0.5, 42.0)])
def test_posterior_means_of_sums_are_those_of_infer(mechanism: str, exponent: float, total: float) -> None:
    plan, grid = planned(Mean(power(exponent)), SCHEMA, mechanism, 2.0), Grid.of(HIGH, 40)
    model = NoisySum.of(plan, POPULATION, grid.theta, exponent)
    law: Any = plan.law
    theirs = exact_mean(released(plan, total, law.step[0]), POPULATION, "variance", likelihood="clt")
    ours = grid.means(model.log_likelihood(np.array([total])))[0]
    assert ours == pytest.approx(theirs, rel=1e-3)
    planted = replace(model, mean=1.03 * model.mean)
    assert grid.means(planted.log_likelihood(np.array([total])))[0] != pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_posterior_means_of_local_answers_are_those_of_infer(exponent: float) -> None:
    plan, grid = planned(Records(power(exponent)), SCHEMA, "laplace", 8.0), Grid.of(HIGH, 40)
    law: Any = plan.law
    answers = np.linspace(-2.0, 9.0, 40)
    theirs = exact_mean(released(plan, answers, law.step[0]), POPULATION, "variance")
    found = answers_log_likelihood(plan, POPULATION, np.stack([answers, answers + 0.5]), grid.theta)
    ours = grid.means(found)
    assert ours[0] == pytest.approx(theirs, rel=1e-3)
    assert ours[1] != pytest.approx(theirs, rel=1e-3)


def test_without_privacy_local_answers_are_the_records() -> None:
    """The clamped records' likelihood integrates to one, and its information is the mean square of its score."""
    bound, theta = 2.0, 3.0

    def log_density(x: float, at: float) -> float:
        found = float(records_log_likelihood(np.array([[x]]), bound, np.array([at]))[0, 0])
        return found - (0.5 * math.log(2 * math.pi) if abs(x) < bound else 0.0)

    def score(x: float) -> float:
        return (log_density(x, theta + 1e-4) - log_density(x, theta - 1e-4)) / 2e-4

    atom = 2 * math.exp(log_density(bound, theta))
    inside = integrate.quad(lambda x: math.exp(log_density(x, theta)), -bound, bound)[0]
    assert inside + atom == pytest.approx(1, rel=1e-9)
    square = integrate.quad(lambda x: math.exp(log_density(x, theta)) * score(x) ** 2, -bound, bound)[0]
    assert told_by_records(7, bound, theta) == pytest.approx(7 * (square + atom * score(bound) ** 2), rel=1e-5)
    assert told_by_records(100, 1e3, 2.0) == pytest.approx(12.5, rel=1e-9)


def follows(found: Any) -> bool:
    """Whether no clear pair has the opposite order beyond its standard errors."""
    return all(a["mse"] - b["mse"] < LIMIT * math.hypot(a["mse_se"], b["mse_se"]) for a, b in clear_pairs(found))


FIELDS = ["mechanism", "epsilon", "statistic", "information", "mse", "mse_se"]
CASES = [
    (selection_batch.STUDY, {"epsilon": "1,5,50,inf", "repeats": 300}, 7),
    (selection_local.STUDY, {"epsilon": "10", "repeats": 150}, 1),
]


@pytest.mark.parametrize(("study", "given", "clear"), CASES, ids=["batch", "local"])
def test_the_more_informative_statistic_has_the_smaller_error(study: Any, given: Any, clear: int) -> None:
    found = study.run(given, seed=3, workers=1).rows
    assert list(study.columns) == FIELDS
    assert all(list(row) == FIELDS for row in found)
    assert len(clear_pairs(found)) >= clear
    assert follows(found)
    # Planted: information that ranks the statistics the wrong way round.
    assert not follows([row | {"information": 1 / row["information"]} for row in found])


def test_the_known_information_stands_beside_the_error() -> None:
    found = selection_batch.STUDY.run({"epsilon": "1,inf", "repeats": 2}, workers=1).rows
    values = {(row["mechanism"], row["epsilon"], row["statistic"]): row["information"] for row in found}
    assert values["gaussian", 1.0, "mean(abs(x))"] == pytest.approx(4.630626, rel=1e-6)
    assert values["gaussian", math.inf, "mean(x**2)"] == pytest.approx(13.0, rel=1e-6)
    assert values["laplace", 1.0, "mean(x**2)"] == pytest.approx(0.73750525, rel=1e-6)


def test_the_figures_are_drawn(tmp_path: Any) -> None:
    found = selection_batch.STUDY.run({"epsilon": "1,inf", "repeats": 10}, workers=1).rows
    selection_batch.STUDY.plot(found, tmp_path / "batch.png")
    two = selection_two_stage.STUDY.run({"theta": "0.5,1", "repeats": 5, "exponent": "0.5,1"}, workers=1).rows
    selection_two_stage.STUDY.plot(two, tmp_path / "two.png")
    assert min((tmp_path / name).stat().st_size for name in ("batch.png", "two.png")) > 10_000
    assert "15 %" in selection_batch.STUDY.note(found)
    assert "two stages" in selection_two_stage.STUDY.note(two)


# ---- two stages ----


def staged(**given: Any) -> dict[str, Any]:
    return read_settings(selection_two_stage.STUDY.settings, {"exponent": "0.3,0.6,1,1.4", **given}, full=False)


def test_two_stages_are_infer_choose_and_infer_again() -> None:
    """One data set by the study's grids, and by the library's own acts."""
    settings = staged(n=200, first=40, epsilon=2)
    problem, population = Problem.of(settings), width_population(10.0)
    start, end = first_part(40, 200)
    records = 0.8 * np.linspace(0.0025, 0.9975, 200)[None, np.random.default_rng(0).permutation(200)]
    noise = np.array([[0.3], [-0.4]])
    estimate, exponent = problem.estimate_in_two_stages(records[:, :40], records[:, 40:], noise)

    first = power_plan(settings, 1.0, start)
    law: Any = first.law
    y = released(first, problem.first.released(records[:, :40], noise[0]), law.step[0])
    posterior = infer(y, population, method="exact", likelihood="clt", seed=1, progress=False)
    rest = [power_plan(settings, a, end) for a in settings["exponent"]]
    choice = choose(rest, posterior, score="a-optimal", likelihood="clt", draws=1000, progress=False)
    weights = problem.grid.weights(problem.first.log_likelihood(np.array([y.value[0] * law.step[0]])))
    left = {str(one): float(value) for one, value in zip(rest, (problem.variance_left @ weights)[:, 0], strict=True)}
    # A thousand draws, and an integral: the posterior reaches towards 0, where 1/F varies much.
    finite = [one for one in choice.ranking if str(one.plan) in [str(rest[k]) for k in (0, 1, 2)]]
    assert all(-one.score == pytest.approx(left[str(one.plan)], rel=0.1) for one in finite)
    assert str(choice.winner) == str(rest[settings["exponent"].index(exponent[0])])

    model = problem.rest[settings["exponent"].index(exponent[0])]
    chosen: Any = choice.winner.law
    second = released(choice.winner, model.released(records[:, 40:], noise[1]), chosen.step[0])
    both = exact_mean([y, second], population, "width", likelihood="clt")
    assert estimate[0] == pytest.approx(both, rel=1e-3)
    alone = exact_mean(second, population, "width", likelihood="clt")
    assert estimate[0] != pytest.approx(alone, rel=1e-3)


def test_rows_of_two_stages_are_as_announced_and_small_widths_choose_small_powers() -> None:
    given = {"theta": "0.1,9", "repeats": 60, "exponent": "0.2,0.5,1,1.5", "epsilon": 5}
    found = selection_two_stage.STUDY.run(given, workers=1).rows
    fields = ["theta", "method", "mse", "chosen_exponent"]
    assert list(selection_two_stage.STUDY.columns) == fields
    assert all(list(row) == fields for row in found)
    assert [(row["theta"], row["method"]) for row in found] == [
        (0.1, "fixed"), (0.1, "two-stage"), (9.0, "fixed"), (9.0, "two-stage"),
    ]  # fmt: skip
    assert found[1]["chosen_exponent"] < 1 < found[3]["chosen_exponent"]
    assert found[0]["chosen_exponent"] == found[2]["chosen_exponent"] == 1


def test_impossible_parts_and_widths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="first must be less than n"):
        selection_two_stage.STUDY.run({"first": 100}, workers=1)
    with pytest.raises(InvalidArgument, match="must not exceed the bound"):
        selection_two_stage.STUDY.run({"bound": 0.5}, workers=1)


def test_two_stages_beat_the_fixed_statistic_far_below_the_bound() -> None:
    given = {"theta": "0.1,0.4,0.7,1", "repeats": 250, "exponent": "0.2,0.4,0.6,0.8,1", "epsilon": 2}
    error = averages(selection_two_stage.STUDY.run(given, workers=1).rows)
    assert error["two-stage"] < 0.85 * error["fixed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bound", "epsilon", "is_better"), [(10, 1, True), (10, 2, True), (10, 5, True), (1, 0.5, False)]
)
def test_where_two_stages_win_and_where_they_lose(bound: float, epsilon: float, is_better: bool) -> None:
    given = {"bound": bound, "epsilon": epsilon, "repeats": 3000}
    error = averages(selection_two_stage.STUDY.run(given, workers=1).rows)
    assert (error["two-stage"] < error["fixed"]) == is_better


@pytest.mark.slow
@pytest.mark.parametrize("study", [selection_batch.STUDY, selection_local.STUDY], ids=["batch", "local"])
def test_at_full_scale_every_clear_difference_has_the_opposite_order(study: Any) -> None:
    found = study.run(full=True, workers=1).rows
    assert len(clear_pairs(found)) >= 6
    assert not misordered(found)
