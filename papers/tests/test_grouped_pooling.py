"""grouped-pooling: rows say what errors are, and pooling gains where groups are alike."""

from __future__ import annotations

import numpy as np
import pytest

from noisewise_papers.grouped_pooling import METHODS, SIZES, STUDY, Cell, rows_of
from noisewise_papers.grouped_worlds import GroupWorld

WORLD = Cell(GroupWorld(SIZES, "laplace", 2.0), 1.0)


def test_a_row_is_the_error_of_one_size_beside_separate_fits() -> None:
    rng = np.random.default_rng(1)
    separate = rng.chisquare(3, (300, len(SIZES)))
    errors = {"naive": 4 * separate, "separate": separate, "pooled": 0.25 * separate}
    for people in (5, 50, 500):
        rows = rows_of(WORLD, people, errors)
        assert [row["method"] for row in rows] == list(METHODS)
        assert all(tuple(row) == STUDY.columns for row in rows)
        mine = separate[:, np.array(SIZES) == people]
        assert rows[1]["rmse"] == pytest.approx(np.sqrt(mine.mean()))
        assert [row["ratio"] for row in rows] == pytest.approx([2, 1, 0.5])
        assert [row["ratio_se"] for row in rows] == pytest.approx([0, 0, 0], abs=1e-12)


def test_the_standard_error_of_a_ratio_is_that_of_repeated_studies() -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(400):
        separate, pooled = rng.chisquare(4, (2, 100, len(SIZES)))
        rows = rows_of(
            WORLD,
            50,
            {"naive": separate, "separate": separate, "pooled": pooled},
        )
        found.append((rows[2]["ratio"], rows[2]["ratio_se"]))
    ratios, errors = np.array(found).T
    assert ratios.std() == pytest.approx(errors.mean(), rel=0.2)  # 400 repetitions know it to 4 %


def test_pooling_gains_where_groups_are_alike() -> None:
    rows = STUDY.run({"data_sets": 3, "spread": 1.0}, seed=7, workers=1).rows
    pooled = {row["people"]: row["ratio"] for row in rows if row["method"] == "pooled"}
    naive = {row["people"]: row["ratio"] for row in rows if row["method"] == "naive"}
    assert pooled[5] < 0.5
    assert pooled[50] < 0.9
    assert naive[5] > 1.5
