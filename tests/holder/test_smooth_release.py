"""Releases with smooth sensitivity, as laws, draw by draw, at the records' own scale."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from curated_records import PUBLIC, STATISTICS, columns, drawn, replaced, secret_scale, x
from goodness_of_fit import FALSE_ALARM, chi_square

import noisewise as nw
from noisewise.holder import curator


def test_smooth_releases_of_concentrated_records_stay_close(tmp_path: Path) -> None:
    """With all records at the bound the smooth scale is at its floor, and even a Cauchy draw stays near."""
    cases = [(nw.Maximum(x), 7.0), (nw.Minimum(x), -3.0), (nw.Median(x), 2.0)]
    for k, (statistic, value) in enumerate(cases):
        same = nw.Table.read(drawn(200).assign(x=value), replaced(200))
        ledger = nw.Ledger.open(tmp_path / f"{k}", nw.PureDP(10))
        release = nw.make_release(same, nw.plan(statistic, replaced(200), guarantee=nw.PureDP(5)), ledger=ledger)
        # The scale is 2^10 steps of 2^-37, and a Cauchy variable passes 4e6 with probability 1.6e-7.
        assert abs(release.estimate[0] - value) < 4e6 * 2**10 * 2.0**-37


def cell_counts(draws: Any, law: Any, scale: float, cells: int = 20) -> tuple[Any, Any]:
    """Counts of draws in cells of about equal probability under the law at this scale, and those probabilities."""
    width = scale / (float(law.alpha) * law.step)
    cuts = np.floor(width * np.tan(np.pi * (np.arange(1, cells) / cells - 0.5)))
    counts = np.bincount(np.searchsorted(cuts, draws, side="left"), minlength=cells)
    return counts, np.diff([0.0, *law.cdf(cuts, smooth_scale=scale), 1.0])


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.ApproxDP(1, "1e-4")], ids=str)
@pytest.mark.parametrize("name", ["median", "maximum", "minimum"])
def test_smooth_draws_follow_the_law_at_the_records_own_scale(
    guarantee: Any, name: str, data: pd.DataFrame, table: nw.Table
) -> None:
    plan = nw.plan(STATISTICS[name], PUBLIC, guarantee=guarantee)
    draw = curator._drawer(table, plan)
    truth = float(plan.statistic.value(columns(data), PUBLIC)[0])
    centre = math.floor(Fraction(truth) / Fraction(plan.law.step) + Fraction(1, 2))
    draws = np.array([float(draw()[0] - centre) for _ in range(40_000)])
    scale = secret_scale(plan, data)
    assert chi_square(*map(list, cell_counts(draws, plan.law, scale))) > FALSE_ALARM
    for wrong in (0.87, 1.15):  # planted: a scale that is off is rejected by the same draws
        assert chi_square(*map(list, cell_counts(draws, plan.law, wrong * scale))) < FALSE_ALARM


def test_the_pmf_of_a_smooth_law_sums_to_what_its_cells_say(data: pd.DataFrame) -> None:
    plan = nw.plan(nw.Median(x), PUBLIC, guarantee=nw.ApproxDP(1, "1e-4"))
    coarse = replace(plan.law, step=2.0**-4)
    k = np.arange(-40_000, 40_001)
    pmf = np.exp(coarse.log_pmf(k, smooth_scale=3.0))
    assert np.cumsum(pmf)[40_000 + 25] == pytest.approx(float(coarse.cdf(25, smooth_scale=3.0)), rel=1e-9)
