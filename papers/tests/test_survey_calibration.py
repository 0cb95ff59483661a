"""survey-calibration: rows count what they say, and every population gives ranks that are uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from noisewise_papers.survey_calibration import POPULATIONS, Cell, row_of, trial, trials


def test_a_row_counts_the_intervals_that_hold_the_truth(rng):
    u = rng.beta(2, 2, 30)
    row = row_of("normal", "mean", u)
    assert row["trials"] == 30
    assert row["coverage90"] == np.mean((u >= 0.05) & (u <= 0.95))
    assert row["coverage50"] == np.mean((u >= 0.25) & (u <= 0.75))
    assert row["ks_p"] == pytest.approx(stats.kstest(u, "uniform").pvalue)


EXPECTED = {
    "normal": {"mean", "sd"},
    "log-normal": {"log_mean", "log_sd"},
    "categorical": {"p[0]", "p[1]"},
    "joint": {"x.mean", "x.sd", "level.p[0]", "level.p[1]"},
    "contaminated": {"mean", "sd", "lies.top", "lies.bottom", "lies.anywhere"},
}


@pytest.mark.parametrize("population", POPULATIONS)
def test_every_population_gives_a_rank_for_each_unknown(population, rng):
    found = trial(rng, Cell(population, 6, 40, 1))
    assert set(found) == EXPECTED[population]
    assert all(0 < u < 1 for u in found.values())


@pytest.mark.parametrize("population", ["categorical", "joint"])
def test_small_surveys_of_levels_are_calibrated(population, rng):
    """Few trials; a wrong law is caught by the same test in tests/online/test_survey_calibration.py."""
    for u in trials(rng, Cell(population, 25, 100, 20)).values():
        assert stats.kstest(u, "uniform").pvalue > 1e-7
        assert stats.kstest(np.abs(2 * np.array(u) - 1), "uniform").pvalue > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("population", POPULATIONS)
def test_surveys_are_calibrated(population, rng):
    for u in trials(rng, Cell(population, 60, 250, 300)).values():
        assert stats.kstest(u, "uniform").pvalue > 1e-7
        assert stats.kstest(np.abs(2 * np.array(u) - 1), "uniform").pvalue > 1e-7
