"""truncation: the intervals are the best there are, by brute force on the information."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisewise.errors import InvalidArgument
from noisewise.likelihood import clipped_normal
from noisewise_papers.truncation import STUDY


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return list(STUDY.run(workers=1).rows)


def score(low: np.ndarray, high: np.ndarray, epsilon: float, name: str) -> np.ndarray:
    F = np.asarray(clipped_normal.information(mean=0.0, sd=1.0, low=low, high=high, scale=(high - low) / epsilon))
    return F[..., 0, 0] if name == "location" else 1 / (1 / F[..., 0, 0] + 1 / F[..., 1, 1])


def test_no_interval_of_a_grid_is_better(rows: list[dict[str, Any]]) -> None:
    centre, half = np.meshgrid(np.linspace(0, 1.5, 16), np.geomspace(0.02, 3, 24))
    for row in rows:
        others = score(centre - half, centre + half, row["epsilon"], str(row["score"]))
        own = score(np.array(row["low"]), np.array(row["high"]), row["epsilon"], str(row["score"]))
        assert own == pytest.approx(row["information"], rel=1e-6)
        assert others.max() <= row["information"] * (1 + 1e-9)
        assert others.max() > 0.97 * row["information"]  # the grid comes near, so the comparison has power


def test_the_intervals_for_the_mean_are_the_known_ones_beside_the_printed(rows: list[dict[str, Any]]) -> None:
    location = [row for row in rows if row["score"] == "location"]
    assert [row["epsilon"] for row in location] == [1, 2, 5, 10]
    assert [row["high"] for row in location] == pytest.approx([0.0706, 0.2234, 0.7281, 1.2244], abs=5e-5)
    assert [row["low"] for row in location] == pytest.approx([-row["high"] for row in location], abs=1e-4)
    assert [row["paper_high"] for row in location] == [0.06, 0.12, 0.54, 0.96]
    assert all(row["paper_low"] is None for row in rows if row["score"] == "harmonic")
    assert all(set(row) == set(STUDY.columns) for row in rows)


def test_the_note_says_what_the_printed_intervals_keep(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    words = STUDY.note(rows)
    assert "99.7% at 2" in words
    assert "epsilon = 1, 2;" in words
    assert STUDY.note([row for row in rows if row["score"] == "harmonic" and row["epsilon"] == 10]).startswith(
        "The best"
    )
    STUDY.plot(rows, tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 5000


def test_a_score_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="location or harmonic"):
        STUDY.run({"score": "trace"}, workers=1)
