"""joins-calibration: what is joined is disjoint, rows count what they say, and one release for all records fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.evaluate.calibration import Calibration
from noisewise.evaluate.simulate import data_sets
from noisewise_papers.joins_calibration import HOLDERS, WHOLE, Cell, plans_of, rows_of, trials


def test_a_row_counts_the_intervals_that_hold_the_truth() -> None:
    u = np.random.default_rng(3).beta(2, 2, (30, 1))
    parts = [
        cast(Calibration, SimpleNamespace(names=("mean",), uniforms=some, failures=()))
        for some in (u[:10], u[10:])
    ]  # fmt: skip
    (row,) = rows_of(Cell("part", "laplace", 1, 30), parts)
    assert (row["trials"], row["failed"]) == (30, 0)
    assert row["coverage90"] == np.mean((u >= 0.05) & (u <= 0.95))
    assert row["coverage50"] == np.mean((u >= 0.25) & (u <= 0.75))
    assert row["ks_p"] == pytest.approx(stats.kstest(u[:, 0], "uniform").pvalue)


def test_holders_have_their_own_records_and_parts_share_none() -> None:
    holders = data_sets(plans_of(Cell("holders", "gaussian", 1, 1)))
    assert [plan.part_schema.n for plans in holders for plan in plans] == list(HOLDERS)
    ((first, rest),) = data_sets(plans_of(Cell("part", "gaussian", 1, 1)))
    assert first.part is not None
    assert rest.part is not None
    assert first.part[1] == rest.part[0]
    assert first.part_schema.largest_n + rest.part_schema.largest_n == WHOLE


def test_every_join_gives_ranks_without_a_failure() -> None:
    for join in ("holders", "part"):
        found = trials(np.random.default_rng(5), Cell(join, "gaussian", 1, 2))
        assert (found.trials, found.failures) == (2, ())


@pytest.mark.slow
def test_a_posterior_of_one_holder_that_claims_the_width_of_all_three_fails() -> None:
    """The test has power: the same release read as if it were three independent ones is too narrow."""

    def three_times(releases: Any, population: Any, seed: int) -> dict[str, Any]:
        found = nw.infer(releases[-1], population, seed=seed, progress=False, draws=250)
        mean = np.ravel(found.draws["mean"])
        return {"mean": mean.mean() + (mean - mean.mean()) / np.sqrt(3)}

    plans = plans_of(Cell("holders", "gaussian", 1, 1))
    population = nw.Normal(mean=stats.norm(0, 2), sd=1.5)
    found = nw.calibrate(plans, population, trials=150, infer=three_times, progress=False)
    assert not found.is_calibrated(1e-6)
