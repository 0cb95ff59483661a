"""regression-distributed: errors against brute force, adaSSP against least squares, rows as announced."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from noisewise_papers.regression import Fitted
from noisewise_papers.regression_distributed import (
    STUDY,
    adassp,
    drawn_rows,
    drawn_world,
    errors,
    model_of,
    planned,
    worth,
)

FIELDS = ["method", "holders", "epsilon", "d", "mse", "prediction_mse", "mmd", "milliseconds_per_iteration",
          "ess_per_second"]  # fmt: skip


def test_the_public_scale_is_an_order_of_magnitude() -> None:
    world = drawn_world(np.random.default_rng(0), 3)
    sd = np.sqrt([*np.diag(world.covariance), world.theta @ world.covariance @ world.theta + 1])
    assert np.all((world.scale >= sd) & (world.scale < 2 * sd))
    assert np.all(np.log2(world.scale) == np.round(np.log2(world.scale)))


def test_the_prediction_error_is_that_of_new_rows() -> None:
    rng = np.random.default_rng(1)
    world = drawn_world(rng, 2)
    estimate = world.theta + [0.3, -0.2] / np.sqrt(np.diag(world.covariance))
    rows = drawn_rows(rng, world, 400_000)
    squares = (rows[:, :-1] @ estimate - rows[:, -1]) ** 2
    found = errors(world, estimate)
    assert abs(found["prediction_mse"] - squares.mean()) < 5 * squares.std() / math.sqrt(len(rows))
    assert found["mse"] == pytest.approx(np.mean((estimate - world.theta) ** 2))
    assert errors(world, world.theta) == {"mse": 0.0, "prediction_mse": 1.0}


def test_adassp_is_least_squares_where_there_is_no_noise_and_shrinks_where_there_is() -> None:
    rng = np.random.default_rng(2)
    world = drawn_world(rng, 2)
    rows = [drawn_rows(rng, world, 3000) for _ in range(2)]
    everyone = np.concatenate(rows)
    bounded = np.clip(everyone, -4 * world.scale, 4 * world.scale)
    expected = np.linalg.lstsq(bounded[:, :-1], bounded[:, -1])[0]
    model = model_of(world, "matched")
    np.testing.assert_allclose(adassp(rng, world, model, rows, 1e6), expected, atol=1e-3 * np.abs(expected).max())
    drowned = adassp(rng, world, model, rows, 1e-4)
    assert np.linalg.norm(drowned) < np.linalg.norm(expected)


def test_worth_is_the_effective_draws_by_the_second() -> None:
    rng = np.random.default_rng(3)
    fit = Fitted(rng.standard_normal((4, 500, 2)), np.ones((4, 500)), 2.0)
    same = Fitted(rng.standard_normal((4, 500, 2)), np.ones((4, 500)), 2.0)
    found = worth(fit, same)
    assert found["milliseconds_per_iteration"] == pytest.approx(2000 / 4000)
    assert 500 < found["ess_per_second"] < 1500  # 2000 independent draws in 2 seconds
    assert abs(found["mmd"]) < 0.02
    stuck = Fitted(np.repeat(fit.theta[:, ::10], 10, axis=1), fit.variance, 2.0)
    assert worth(stuck, same)["ess_per_second"] < 200


def test_each_holder_spends_what_it_says() -> None:
    world = drawn_world(np.random.default_rng(4), 2)
    guarantee: Any = planned(world, 1000, 0.5).guarantee
    assert (float(guarantee.epsilon), float(guarantee.delta)) == (0.5, 0.001)


def test_rows_are_as_announced_and_less_noise_is_better(tmp_path: Any) -> None:
    given = {"n": 4000, "epsilon": "0.1,100", "holders": "1,2", "repeats": 3, "iterations": 200,
             "method": "naive,fixed-s-fast,adassp,non-private"}  # fmt: skip
    result = STUDY.run(given, seed=3, workers=1)
    assert all(list(row) == FIELDS == list(STUDY.columns) for row in result.rows)
    rows = {(row["method"], row["holders"], row["epsilon"]): row for row in result.rows}
    assert len(rows) == len(result.rows) == 16
    for holders in (1, 2):
        assert rows["adassp", holders, 100.0]["prediction_mse"] < rows["adassp", holders, 0.1]["prediction_mse"]
        assert rows["naive", holders, 100.0]["prediction_mse"] == pytest.approx(1, abs=0.05)
        assert math.isnan(rows["adassp", holders, 0.1]["mmd"])
        assert rows["non-private", holders, 0.1]["ess_per_second"] > 0
    STUDY.plot(result.rows, tmp_path / "errors.png")
    assert (tmp_path / "errors.png").stat().st_size > 10_000
    assert "The dearest iterations here" in STUDY.note(result.rows)


def test_every_method_of_the_print_and_ours_run_at_two_holders() -> None:
    given = {"n": 2000, "epsilon": 2, "holders": 2, "repeats": 1, "iterations": 200}
    rows = STUDY.run(given, workers=1).rows
    assert [row["method"] for row in rows] == list(STUDY.settings["method"].default)
    assert all(math.isfinite(row["mse"]) for row in rows)
    assert "Here auto predicts at least as well as normal-x" in STUDY.note(rows)
