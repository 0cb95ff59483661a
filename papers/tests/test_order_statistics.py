"""The study of order statistics: its bank scores releases as the library does, and its rows are as announced."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from noisewise.likelihood.order_bank import OrderBank
from noisewise.populations.population import Normal
from noisewise.release import Release
from noisewise_papers.order_statistics import STUDY, Problem, posterior_means
from noisewise_papers.setting import read_settings

FALSE_ALARM = 1e-6
LIMIT = stats.norm.isf(FALSE_ALARM / 20)
HIGH = 30.0


def problem(name: str, **given: Any) -> Problem:
    return Problem.of(name, read_settings(STUDY.settings, {"n": 25, "bound": 4.0, **given}, full=False))


def released(of: Problem, y: float) -> Release:
    value = round(y / of.law.step)
    return Release.of(of.plan, [value], dataset="simulated", ledger_head=None, simulated=True)


def deviation(of: Problem, judged: Problem, rng: np.random.Generator, y: float, thetas: np.ndarray) -> float:
    """The largest distance between our bank's log p and the library's, in standard errors of both, over theta."""
    population = Normal(mean=0, variance=stats.uniform(0, HIGH))
    bank = OrderBank.of(released(of, y), population)
    theirs = bank.log_likelihood({"variance": thetas}) - math.log(of.law.step)
    batches = [judged.base(rng, 1500) for _ in range(30)]
    each = np.exp([[judged.log_density(np.array([y]), b, t)[0] for t in thetas] for b in batches] - theirs)
    error = np.hypot(each.std(axis=0, ddof=1) / math.sqrt(len(batches)), bank.error({"variance": thetas}))
    return float(np.max(np.abs(each.mean(axis=0) - 1) / (error + 0.01)))


@pytest.mark.parametrize(("name", "y"), [("median", 1.0), ("max", 2.9)])
def test_the_bank_of_data_sets_scores_a_release_as_the_library_does(
    name: str, y: float, rng: np.random.Generator
) -> None:
    of = problem(name)
    assert deviation(of, of, rng, y, np.array([1.0, 2.5, 5.0])) < LIMIT


def test_another_clamp_would_be_caught(rng: np.random.Generator) -> None:
    """Planted: the study's records are clamped at 8 where the release's were clamped at 4."""
    of = problem("max")
    assert deviation(of, replace(of, bound=8.0), rng, 2.9, np.array([5.0])) > LIMIT


def test_the_posterior_mean_is_that_of_the_library_s_likelihood(rng: np.random.Generator) -> None:
    of, y = problem("median"), 1.0
    bank = OrderBank.of(released(of, y), Normal(mean=0, variance=stats.uniform(0, HIGH)))
    edges = np.geomspace(0.05, HIGH, 121)
    theta = np.sqrt(edges[1:] * edges[:-1])
    weight = bank.log_likelihood({"variance": theta}) + np.log(np.diff(edges))
    mean = float(np.exp(weight - logsumexp(weight)) @ theta)
    means = [float(posterior_means(of, np.array([y]), of.base(rng, 1500), HIGH)[0]) for _ in range(12)]
    error = float(np.std(means, ddof=1)) / math.sqrt(len(means))
    # 1 % for the Monte Carlo error of the library's bank and for two grids.
    assert abs(np.mean(means) - mean) < stats.t.isf(FALSE_ALARM / 2, len(means) - 1) * error + 0.01 * mean


def test_rows_are_as_announced_and_no_release_tells_more_than_the_records() -> None:
    given = {"theta": "1,3", "repeats": 20, "bank": 400}
    rows = STUDY.run(given, seed=5, workers=1).rows
    fields = ["statistic", "theta", "mse", "mse_low", "mse_high", "information", "paper"]
    assert list(STUDY.columns) == fields
    assert all(list(row) == fields for row in rows)
    assert [(row["statistic"], row["theta"]) for row in rows] == [
        ("median", 1.0), ("median", 3.0), ("max", 1.0), ("max", 3.0),
    ]  # fmt: skip
    for median, most in zip(rows[:2], rows[2:], strict=True):
        assert median["mse_low"] <= median["mse"] <= median["mse_high"] < most["mse"]
        raw = 100 / (2 * median["theta"] ** 2)  # of 100 normal records on their variance
        assert most["information"] < median["information"] < raw


def test_the_papers_figures_stand_only_beside_their_own_setting() -> None:
    given = {"theta": "2", "repeats": 2, "bank": 100}
    assert [row["paper"] for row in STUDY.run(given, seed=1, workers=1).rows] == [0.391, 22.64]
    assert [row["paper"] for row in STUDY.run({**given, "n": 50}, seed=1, workers=1).rows] == [None, None]
