"""Grouped holds what it claims: simulation-based calibration through the mechanism (PROMISES E1, E8), and its power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.evaluate.calibration import Calibration
from noisewise_papers.grouped_calibration import RANKED, SIZES, STUDY, Cell, row_of
from noisewise_papers.grouped_worlds import GroupWorld

X = nw.column("x")
NAMES = ["a", "b", "c"]
SHARES = stats.dirichlet([1.0, 4.0, 20.0])


def calibrated(
    population: nw.Grouped,
    guarantee: object,
    *,
    trials: int,
    high: float = 100,
    neighbours: str = "change-one",
    outside: str = "clamp",
) -> Calibration:
    """150 people in three groups, one release of their mean by group."""
    n = 150
    size = {"n": n} if neighbours == "change-one" else {"n_max": 2 * n}
    columns = {"x": nw.Bounded(0, high), "g": nw.Levels(NAMES)}
    schema = nw.Schema(columns, neighbours=neighbours, outside=outside, **size)
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=guarantee)
    stated = None if neighbours == "change-one" else n
    return nw.calibrate(plan, population, trials=trials, draws=49, seed=5, progress=False, n=stated)


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("pooled", [(), ("mean",)])
def test_means_and_shares_of_small_and_large_groups_are_calibrated(pooled: tuple[str, ...], neighbours: str) -> None:
    law = nw.Normal(mean=stats.norm(50, 10), sd=12.0)
    population = nw.Grouped("g", x=law, pooled=pooled, names=NAMES, shares=SHARES)
    found = calibrated(population, nw.PureDP(3), neighbours=neighbours, trials=30)
    assert found.is_calibrated(), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("case", ["yes and no", "heavy tails", "clamped", "refused", "counts"])
def test_other_laws_are_calibrated(case: str) -> None:
    """Yes/no columns, log-normal incomes, 5 % and more beyond the bounds (clamped, or refused), Poisson counts."""
    law, high, outside = {
        "yes and no": (nw.Bernoulli(p=stats.beta(2, 3)), 1, "clamp"),
        "heavy tails": (nw.LogNormal(log_mean=stats.norm(3, 0.3), log_sd=0.7), 200, "clamp"),
        "clamped": (nw.Normal(mean=stats.norm(70, 8), sd=18.0), 100, "clamp"),
        "refused": (nw.Normal(mean=stats.norm(70, 8), sd=18.0), 100, "refuse"),
        "counts": (nw.Poisson(rate=stats.gamma(4, scale=2)), 40, "clamp"),
    }[case]
    population = nw.Grouped("g", x=law, names=NAMES, shares=SHARES)
    found = calibrated(population, nw.PureDP(5), high=high, outside=outside, trials=300)
    assert found.is_calibrated(), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("pooled", ["none", "mean", "both"])
@pytest.mark.parametrize("n", ["public", "learnt"])
def test_groups_of_5_to_5000_people_in_one_release_are_calibrated(
    n: str, pooled: str, noise: str, rng: np.random.Generator
) -> None:
    """100 trials: means, standard deviations, shares, centres, spreads and n inside the bands of the 1e-6 level."""
    settings = {"noise": noise, "pooled": pooled, "n": n, "method": "grouped", "trials": 100}
    rows = STUDY.run(settings, seed=int(rng.integers(2**31)), workers=1).rows
    assert {row["number"] for row in rows} >= {"mean", "sd", "share"} | ({"n"} if n == "learnt" else set())
    tests = 4 * len(rows)
    for row in rows:
        assert row["ks_p"] > 1e-6 / tests, row
        for level in (50, 90, 95):
            low, high = stats.binom(100, level / 100).ppf([1e-6 / tests / 2, 1 - 1e-6 / tests / 2]) / 100
            assert low <= row[f"coverage{level}"] <= high, row


def test_groups_of_an_unknown_number_of_people_are_calibrated() -> None:
    law = nw.Normal(mean=stats.norm(50, 10), sd=12.0)
    population = nw.Grouped("g", x=law, names=NAMES, shares=SHARES)
    schema = nw.Schema({"x": nw.Bounded(0, 100), "g": nw.Levels(NAMES)}, n_max=2000, neighbours="add-remove")
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.PureDP(2))
    found = nw.calibrate(plan, population, trials=30, draws=49, n=stats.nbinom(5, 5 / 155), progress=False)
    assert "n" in found.names
    assert found.is_calibrated(), found.summary()


def test_a_fit_that_takes_noisy_means_at_face_value_fails() -> None:
    """The same test has power: the naive pooled fit of the same releases leaves its bands by far."""
    rows = STUDY.run({"noise": "gaussian", "pooled": "mean", "method": "naive", "trials": 100}, seed=3, workers=1).rows
    for number, people in (("mean", 5), ("mean", 20), ("sd", 5), ("sd", 5000)):
        mine = [row for row in rows if (row["number"], row["people"]) == (number, people)]
        assert all(stats.binom(100, 0.9).cdf(100 * row["coverage90"]) < 1e-12 for row in mine)


def test_rows_of_the_study_say_whose_numbers_they_are() -> None:
    cell = Cell(GroupWorld(SIZES, "laplace", 1.0, "learnt"), "mean", "grouped")
    u = np.random.default_rng(1).random(40)
    row = row_of(cell, "mean[3]", u)
    assert list(row) == list(STUDY.columns)
    assert (row["number"], row["people"], row["trials"]) == ("mean", 50, 40)
    assert row["coverage50"] == np.mean(np.abs(u - 0.5) <= 0.25)
    assert row_of(cell, "mean.spread", u)["people"] == sum((5, 5, 20, 50, 200, 500, 1500, 5000))
    assert RANKED == 99
