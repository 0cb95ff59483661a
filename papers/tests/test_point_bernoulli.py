"""The study of point estimates: rows as announced, risks confirmed by simulation, the printed claim reversed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise_papers.point_bernoulli import METHODS, STUDY, drawn_answers

FIELDS = ["K", "epsilon", "method", "risk", "monte_carlo_risk", "seconds"]


def test_rows_are_as_announced_and_nothing_beats_the_unified_estimator(tmp_path: Path) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    given = {"K": "4,10", "epsilon": "0.5,5", "grid": 60, "draws": 4000}
    rows = STUDY.run(given, seed=seed, workers=1).rows
    assert list(STUDY.columns) == FIELDS
    assert all(list(row) == FIELDS for row in rows)
    assert [row["method"] for row in rows] == list(METHODS) * 4
    for start in range(0, len(rows), len(METHODS)):
        best, *others = rows[start : start + len(METHODS)]
        assert all(best["risk"] <= other["risk"] * (1 + 1e-9) for other in others)
        for row in (best, *others):
            # A squared error has at most a few times its mean as standard deviation, also under Laplace noise.
            assert abs(row["monte_carlo_risk"] / row["risk"] - 1) < stats.norm.isf(5e-7 / 20) * 3 / math.sqrt(4000)
    assert "At none of them" in STUDY.note(rows)
    worse = [{**row, "risk": 2 * row["risk"]} if row["method"] == "unified" else row for row in rows]
    assert "At 4 of them" in STUDY.note(worse)
    STUDY.plot(rows, tmp_path / "risk.png")
    STUDY.plot([row for row in rows if row["epsilon"] == 5], tmp_path / "records.svg")


def test_answers_are_drawn_from_their_row() -> None:
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    matrix = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    drawn = drawn_answers(np.random.default_rng(seed), matrix, np.array([0.0, 1.0, 2.0]), np.repeat([0, 1], 5000))
    for row, half in zip(matrix, drawn.reshape(2, -1), strict=True):
        counts = np.bincount(half.astype(int), minlength=3)
        assert stats.chisquare(counts, 5000 * row).pvalue > 1e-6
        assert stats.chisquare(counts, 5000 * row[::-1]).pvalue < 1e-6  # planted: the other row


def test_other_priors_and_losses_can_be_asked_for() -> None:
    given = {"K": "5", "epsilon": "1", "prior": "beta(2, 5)", "loss": "pinball(0.9)", "grid": 40, "draws": 100}
    assert len(STUDY.run(given, seed=1, workers=1).rows) == 5


@pytest.mark.parametrize(
    "given",
    [{"prior": "0.3"}, {"prior": "norm(0, 1)"}, {"prior": "open('x')"}, {"loss": "cubic"}, {"K": "0"}],
    ids=repr,
)
def test_what_it_cannot_do_is_refused_before_it_begins(given: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        STUDY.run(given, workers=1)
