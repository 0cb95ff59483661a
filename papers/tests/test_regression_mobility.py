"""regression-mobility: deciles, coverage and error against numbers by hand, and the pattern of the figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noisewise_papers.regression_mobility import STUDY, Line, confusion, deciles, row_of, simulated_tracts

COLUMNS = ["method", "epsilon", "coverage50", "coverage90", "mean_absolute_error", "rank_correlation", "extremes_kept"]


def test_deciles_are_tenths_by_rank() -> None:
    assert deciles(np.arange(20.0)[::-1]).tolist() == [9, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
    values = np.random.default_rng(0).random(30)
    table = confusion(values, values)
    assert np.array_equal(table, 3 * np.eye(10))
    assert np.array_equal(confusion(values, -values), 3 * np.eye(10)[::-1])


def test_a_row_is_what_it_says() -> None:
    yardstick = np.arange(20) / 20
    near = [Line(float(y), (y - 0.01, y + 0.01), (y - 0.1, y + 0.1)) for y in yardstick]
    good = row_of("auto", 4.0, yardstick, yardstick, near)
    assert list(good) == [*COLUMNS, "confusion"]
    assert [good[name] for name in COLUMNS[2:]] == pytest.approx([1, 1, 0, 1, 1])
    shifted = [Line(line.mean + 0.05, (line.half[0] + 0.05, line.half[1] + 0.05), line.ninety) for line in near]
    off = row_of("auto", 4.0, yardstick + 0.05, yardstick, shifted)
    assert [off[name] for name in COLUMNS[2:]] == pytest.approx([0, 1, 0.05, 1, 1])
    turned = row_of("output-perturbation", 4.0, -yardstick, yardstick, None)
    assert np.isnan(turned["coverage50"])
    assert turned["rank_correlation"] == pytest.approx(-1)
    assert turned["extremes_kept"] == 0


def test_tracts_are_as_announced() -> None:
    tracts = simulated_tracts(np.random.default_rng(1), 400)
    sizes = np.array([len(rows) for rows in tracts])
    assert sizes.min() >= 20
    assert sizes.max() <= 446
    assert np.mean(sizes) > np.median(sizes)  # a long tail
    assert all(np.all((rows >= 0) & (rows <= 1)) for rows in tracts)


def test_naive_is_off_and_over_confident_and_output_perturbation_has_no_intervals(tmp_path: Any) -> None:
    given = {"tracts": 30, "epsilon": "4,400", "method": "naive,output-perturbation"}
    result = STUDY.run(given, seed=2, workers=1)
    rows = {(row["method"], row["epsilon"]): row for row in result.rows}
    assert list(STUDY.columns) == COLUMNS
    assert rows["naive", 4.0]["coverage90"] < 0.8
    assert rows["naive", 400.0]["coverage90"] > 0.9  # with next to no noise it is the non-private posterior
    assert rows["naive", 400.0]["mean_absolute_error"] < rows["naive", 4.0]["mean_absolute_error"] / 5
    assert result.to_dict()["rows"][1]["coverage50"] is None
    assert np.sum(rows["naive", 4.0]["confusion"]) == 30
    STUDY.plot(result.rows, tmp_path / "deciles.png")
    assert (tmp_path / "deciles.png").stat().st_size > 10_000
    note = STUDY.note(result.rows)
    assert "Here naive at epsilon = 4 covers" in note
    assert "not differentially private" in note
    again = STUDY.run(given, seed=2, workers=1)
    assert str(again.to_dict()["rows"]) == str(result.to_dict()["rows"])


def test_auto_covers_and_is_nearer_than_naive() -> None:
    rows = STUDY.run({"tracts": 20, "epsilon": 4, "method": "auto,naive"}, workers=1).rows
    auto, naive = rows
    assert auto["coverage90"] > 0.55  # less than 12 of 20 has probability 1e-6 at 90 %
    assert auto["mean_absolute_error"] < naive["mean_absolute_error"]
    assert auto["coverage90"] > naive["coverage90"]


def test_the_printed_prior_can_be_taken() -> None:
    given = {"tracts": 20, "epsilon": 4, "method": "naive"}
    matched, printed = (STUDY.run(given | {"prior": prior}, workers=1).rows for prior in ("matched", "printed"))
    assert matched[0] != printed[0]
