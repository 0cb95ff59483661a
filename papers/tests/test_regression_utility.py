"""regression-utility: rows as announced; the yardstick is at no distance from itself, naive farther than auto."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisewise_papers.regression_utility import STUDY, thinned


def test_draws_are_thinned_evenly() -> None:
    assert thinned(np.arange(2000.0)[:, None], 400).ravel().tolist() == list(range(0, 2000, 5))
    assert len(thinned(np.arange(401.0)[:, None], 400)) == 201
    assert len(thinned(np.arange(7.0)[:, None], 400)) == 7


def test_the_order_of_the_figure_is_there(tmp_path: Any) -> None:
    """n = 1000, epsilon = 1: auto is nearer to the non-private posterior than naive."""
    given = {"n": 1000, "epsilon": 1, "trials": 8, "method": "auto,naive,non-private"}
    result = STUDY.run(given, seed=3, workers=1)
    assert all(list(row) == ["method", "n", "epsilon", "mmd"] == list(STUDY.columns) for row in result.rows)
    mmd = {row["method"]: row["mmd"] for row in result.rows}
    assert abs(mmd["non-private"]) < 0.01
    assert mmd["non-private"] < mmd["auto"] < mmd["naive"]
    STUDY.plot(result.rows, tmp_path / "mmd.png")
    assert (tmp_path / "mmd.png").stat().st_size > 5_000
    assert "Here auto is nearer than naive in 1 of 1 cells." in STUDY.note(result.rows)


def test_the_settings_are_those_of_the_calibration() -> None:
    from noisewise_papers.regression_calibration import STUDY as CALIBRATION

    assert list(STUDY.settings) == list(CALIBRATION.settings)
