"""regression-calibration: rows as announced, a distance that is Kolmogorov's, and the pattern of the figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import NoisewiseError
from noisewise_papers.rank_panels import half_width
from noisewise_papers.regression_calibration import STUDY, RankedRows, rank, row_of

FIELDS = ["method", "n", "epsilon", "parameter", "ks", "coverage95", "seconds_per_fit"]
SETTINGS = ["n", "epsilon", "trials", "method", "d", "holders", "noise"]
ALARM = 1e-6


def test_a_rank_counts_the_draws_below_the_truth() -> None:
    draws = np.arange(1000) / 1000
    assert rank(draws, -1.0, 0.5) == pytest.approx(0.5 / 101)
    assert rank(draws, 2.0, 0.5) == pytest.approx(100.5 / 101)
    assert rank(draws, 0.5, 0.0) == pytest.approx(50 / 101)
    for bad in (draws[:50], np.full(1000, np.nan)):
        with pytest.raises(NoisewiseError, match="100 finite draws"):
            rank(bad, 0.0, 0.5)


def test_a_row_is_the_distance_and_the_coverage_of_the_ranks() -> None:
    u = np.random.default_rng(0).beta(0.5, 0.5, 40)
    row = row_of(("auto", 10, 0.1, "x1"), u, 0.25)
    assert list(row) == FIELDS == list(STUDY.columns)
    assert row["ks"] == pytest.approx(stats.kstest(u, "uniform").statistic, rel=1e-12)
    assert row["coverage95"] == np.mean((u >= 0.025) & (u <= 0.975))
    assert row["seconds_per_fit"] == 0.25


def test_the_pattern_of_the_figures_is_there() -> None:
    """n = 1000, epsilon = 0.1: naive fails for every parameter, the non-private posterior does not."""
    given = {"n": 1000, "epsilon": 0.1, "trials": 100, "method": "naive,non-private"}
    rows: Any = STUDY.run(given, workers=1).rows
    found = {(row["method"], row["parameter"]): row for row in rows}
    assert len(found) == 2 * 3
    alarm = stats.kstwo.isf(ALARM, 100)
    for parameter in ("intercept", "x1", "noise_variance"):
        assert found["non-private", parameter]["ks"] < alarm
        assert found["naive", parameter]["ks"] > alarm
        assert found["naive", parameter]["coverage95"] < 0.6
    assert "not for y" in STUDY.note(rows)


def test_auto_is_calibrated_where_naive_is_not() -> None:
    rows = STUDY.run({"n": 10, "epsilon": 0.1, "trials": 20, "method": "auto,naive"}, workers=1).rows
    auto = [row["ks"] for row in rows if row["method"] == "auto"]
    assert max(auto) < stats.kstwo.isf(ALARM, 20)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_auto_is_calibrated_over_many_trials(n: int, noise: str) -> None:
    given = {"n": n, "epsilon": 1, "trials": 300, "method": "auto", "noise": noise, "holders": 2}
    for row in STUDY.run(given, workers=2).rows:
        assert row["ks"] < stats.kstwo.isf(ALARM / 3, 300)
        assert stats.binomtest(round(row["coverage95"] * 300), 300, 0.95).pvalue > ALARM / 3


def test_rows_are_the_same_again_and_cover_the_grid() -> None:
    given = {"n": "20,30", "epsilon": 1, "trials": 3, "method": "fixed-s-fast,naive", "d": 2, "holders": 2}
    once, again = (STUDY.run(given, seed=5, workers=1).rows for _ in range(2))
    cells = {(row["method"], row["n"], row["epsilon"], row["parameter"]) for row in once}
    assert len(once) == len(cells) == 2 * (4 + 3)  # fixed-s-fast has no noise_variance
    untimed = [[{k: v for k, v in row.items() if k != "seconds_per_fit"} for row in rows] for rows in (once, again)]
    assert untimed[0] == untimed[1]
    assert list(STUDY.settings)[: len(SETTINGS)] == SETTINGS


def test_the_figure_is_drawn_and_the_note_names_who_fails(tmp_path: Any) -> None:
    even = (np.arange(30) + 0.5) / 30
    ranks = {"auto": even, "naive": np.where(even < 0.5, 0.001, 0.999)}
    cells = {(method, n, 0.1, name): u for n in (10, 1000) for method, u in ranks.items() for name in ("x1", "x2")}
    rows = RankedRows(cells, np.array([1.0, 0.67]), [row_of(cell, u, 0.1) for cell, u in cells.items()])
    STUDY.plot(rows, tmp_path / "ranks.png")
    STUDY.plot([dict(row) for row in rows], tmp_path / "distances.png")  # as read back from a file: no ranks
    assert (tmp_path / "ranks.png").stat().st_size > (tmp_path / "distances.png").stat().st_size > 5_000
    note = STUDY.note(rows)
    assert "auto leaves the 99 % band of a calibrated posterior in 0 of 4 rows." in note
    assert "naive leaves the 99 % band of a calibrated posterior in 4 of 4 rows, worst for x1 at n = 10" in note
    assert "(ks 0.50, its 95 % intervals cover 0 %)" in note
    assert half_width(30) == pytest.approx(stats.kstwo.isf(0.01, 30))
    assert "Here" not in STUDY.note([dict(row) for row in rows])
