"""expfam-calibration: rows as announced, a distance that is Kolmogorov's, and the pattern of the figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import NoisewiseError
from noisewise_papers.expfam_calibration import STUDY, RankedRows, outside, row_of

FIELDS = ["family", "n", "epsilon", "method", "ks", "coverage50", "coverage90", "coverage95", "trials"]
KEPT = ("exact", "naive", "one-posterior-sampling", "non-private")
CELL = ("binomial", 100, 0.1, "exact")


def test_a_row_is_the_distance_and_the_coverage_of_the_ranks() -> None:
    u = np.random.default_rng(0).beta(2, 2, 40)
    row = row_of(CELL, u)
    assert list(row) == FIELDS
    assert row["ks"] == pytest.approx(stats.kstest(u, "uniform").statistic, rel=1e-12)
    assert row["coverage50"] == np.mean((u >= 0.25) & (u <= 0.75))
    assert row["coverage90"] == np.mean((u >= 0.05) & (u <= 0.95))
    assert row["coverage95"] == np.mean((u >= 0.025) & (u <= 0.975))
    assert row["trials"] == 40
    with pytest.raises(NoisewiseError, match="Every trial of exact failed for binomial"):
        row_of(CELL, np.array([]))


def test_the_pattern_of_the_figures_is_there() -> None:
    """n = 1000, epsilon = 0.01: naive is far too narrow, one-posterior sampling too wide, the others are right."""
    given = {"family": "binomial", "n": 1000, "epsilon": 0.01, "trials": 120, "method": ",".join(KEPT)}
    rows = {row["method"]: row for row in STUDY.run(given, workers=1).rows}
    assert list(rows) == list(KEPT)
    alarm = stats.kstwo.isf(1e-6, 120)
    assert rows["exact"]["ks"] < alarm
    assert rows["non-private"]["ks"] < alarm
    assert rows["naive"]["ks"] > alarm
    assert rows["naive"]["coverage90"] < 0.5
    assert rows["one-posterior-sampling"]["coverage50"] > 0.7
    assert [row["method"] for row in outside(list(rows.values()), "naive")] == ["naive"]


def test_there_is_one_row_a_cell_and_method() -> None:
    given = {"family": "binomial,multinomial", "n": "10,20", "epsilon": "1", "trials": 4, "method": ",".join(KEPT)}
    rows: Any = STUDY.run(given, seed=5, workers=1).rows
    found = [(row["family"], row["n"], row["method"]) for row in rows]
    assert len(set(found)) == len(found) == 2 * 4 + 2 * 3  # no one-posterior sampling of tables
    assert all(list(row) == FIELDS == list(STUDY.columns) for row in rows)
    assert all(row["trials"] == 4 for row in rows)
    assert list(rows) == list(STUDY.run(given, seed=5, workers=1).rows)


def test_the_figure_is_drawn_and_the_note_names_who_fails(tmp_path: Any) -> None:
    even = (np.arange(30) + 0.5) / 30
    ranks = {"exact": even, "naive": np.where(even < 0.5, 0.001, 0.999), "one-posterior-sampling": 0.4 + even / 5}
    cells = {("binomial", n, 0.01, method): u for n in (100, 1000) for method, u in ranks.items()}
    rows = RankedRows(cells, [row_of(cell, u) for cell, u in cells.items()])
    STUDY.plot(rows, tmp_path / "ranks.png")
    STUDY.plot([dict(row) for row in rows], tmp_path / "distances.png")  # as read back from a file: no ranks
    assert (tmp_path / "ranks.png").stat().st_size > (tmp_path / "distances.png").stat().st_size > 5_000
    note = STUDY.note(rows)
    assert "exact leaves the 99 % band of a calibrated posterior in 0 of 2 cells." in note
    assert "naive leaves the 99 % band of a calibrated posterior in 2 of 2 cells, worst for binomial at n = 100" in note
    assert "(ks 0.50, its 90 % intervals cover 0 %)" in note
    assert "failed" not in note
    lost = [row | {"trials": row["trials"] - 3} if row["method"] == "exact" else row for row in rows]
    assert "6 trials failed" in STUDY.note(lost)


def test_the_default_holds_the_cell_of_the_figure() -> None:
    assert 1000 in STUDY.settings["n"].default
    assert 0.01 in STUDY.settings["epsilon"].default
    assert set(STUDY.settings) >= {"family", "n", "epsilon", "trials", "prior", "method"}
