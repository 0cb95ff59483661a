"""regression-cirrhosis: public bounds, intervals of the predictive law, rows as announced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisewise.errors import InvalidArgument
from noisewise_papers.regression import Fitted
from noisewise_papers.regression_cirrhosis import COLUMNS, STUDY, predictive_interval, records

FAST = {"splits": 3, "method": "naive,non-private"}


def written(folder: Path, *, rows: int = 46, largest: float = 35.0) -> Path:
    share = np.arange(rows) / (rows - 1)
    lines = [f"{k + 1},1,50,40,{largest * s},{150 * s},{20 + 120 * s}" for k, s in enumerate(share)]
    (folder / "cirrhosis.csv").write_text("\n".join([COLUMNS, *lines]), "utf-8")
    return folder


def test_public_bounds_become_zero_and_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for drink in ("wine", "liquor"):
        rows, remark = records(written(tmp_path), drink, rng)
        np.testing.assert_allclose(rows, np.column_stack([np.arange(46) / 45] * 2), atol=1e-12)
        assert remark == f"Real records: {drink} and cirrhosis in 46 states."


def test_another_file_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for changes in ({"rows": 45}, {"largest": 36.0}):
        with pytest.raises(InvalidArgument, match=r"cirrhosis\.csv"):
            records(written(tmp_path, **changes), "wine", rng)  # type: ignore[arg-type]
    (tmp_path / "cirrhosis.csv").write_text("a,b\n" + "1,2\n" * 46, "utf-8")
    with pytest.raises(InvalidArgument, match="header"):
        records(tmp_path, "wine", rng)


def test_without_data_it_says_where_they_are(tmp_path: Path) -> None:
    result = STUDY.run(FAST, data=tmp_path, workers=1)
    assert "simulated rows" in STUDY.note(result.rows)
    assert "x20.txt" in STUDY.note(result.rows)
    assert "Real records" in STUDY.note(STUDY.run(FAST, data=written(tmp_path), workers=1).rows)


def test_an_interval_holds_its_share_of_what_is_drawn() -> None:
    """Brute force: new responses at every draw of the posterior."""
    rng = np.random.default_rng(1)
    fit = Fitted(rng.normal(0.3, 0.2, (4, 500, 2)), rng.gamma(2, 0.05, (4, 500)), 0.0)
    x = np.array([[0.0], [0.5], [2.0]])
    new = fit.lines(x)[:, None] + np.sqrt(fit.joint[:, -1])[:, None, None] * rng.standard_normal((2000, 200, 3))
    for level in (0.5, 0.9):
        low, high = predictive_interval(fit, x, level)
        np.testing.assert_allclose(np.mean((new < low), axis=(0, 1)), (1 - level) / 2, atol=0.005)
        np.testing.assert_allclose(np.mean((new > high), axis=(0, 1)), (1 - level) / 2, atol=0.005)


def test_naive_covers_less_than_the_records_do(tmp_path: Any) -> None:
    """Coverage of 50 and 90 % intervals at a strict epsilon; the same seed gives the same rows."""
    given = {"splits": 25, "method": "naive,non-private", "epsilon": 0.3}
    rows = STUDY.run(given, workers=1, data=tmp_path).rows
    assert [list(row) for row in rows] == [["method", "level", "coverage"]] * 4
    assert [row["level"] for row in rows] == [0.5, 0.9, 0.5, 0.9]
    covered = {(row["method"], row["level"]): row["coverage"] for row in rows}
    assert covered["non-private", 0.9] > 0.8
    assert covered["naive", 0.9] < covered["non-private", 0.9] - 0.2
    assert list(rows) == list(STUDY.run(given, workers=1, data=tmp_path).rows)
    STUDY.plot(rows, tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 5_000
    assert "Here naive covers" in STUDY.note(rows)
