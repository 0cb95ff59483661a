"""online-normal: adaptive questions beat the wide interval, rows add up, and runs do not depend on processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise_papers import online_normal
from noisewise_papers.online import around, oracle, published_population, surveyed
from noisewise_papers.online_normal import STUDY, row_of

SMALL = {"n": 60, "n_particles": 50, "runs": 2, "epsilon": "5", "query": "sign"}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return list(STUDY.run(SMALL, workers=1).rows)


def test_every_method_and_parameter_has_a_row(rows: list[dict[str, Any]]) -> None:
    methods = ("adaptive", "fixed", "mcmc", "fixed-2sd", "fixed-oracle", "sign")
    assert [(row["method"], row["parameter"]) for row in rows] == [(m, p) for m in methods for p in ("mean", "sd")]
    assert all(set(row) == set(STUDY.columns) for row in rows)
    assert all((row["rejuvenations"] is None) == (row["method"] == "mcmc") for row in rows)
    by = {(row["method"], row["parameter"]): row for row in rows}
    for name in ("mean", "sd"):
        assert by["adaptive", name]["excess"] is None
        assert by["fixed", name]["excess"] == pytest.approx(
            by["fixed", name]["rmse"] ** 2 - by["adaptive", name]["rmse"] ** 2
        )
        assert (
            by["mcmc", name]["cramer_rao"] == by["fixed", name]["cramer_rao"] > 3 * by["adaptive", name]["cramer_rao"]
        )


def test_the_same_seed_gives_the_same_rows_and_they_can_be_drawn(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    again = STUDY.run(SMALL, workers=1).rows
    assert [row["rmse"] for row in again] == [row["rmse"] for row in rows]
    assert "beat the fixed wide interval" in STUDY.note(rows)
    STUDY.plot(rows, tmp_path / "o.png")
    assert (tmp_path / "o.png").stat().st_size > 5000


def test_a_row_is_the_error_spread_and_paired_excess_of_its_runs() -> None:
    def run(adaptive: float, fixed: float) -> dict[str, dict[str, Any]]:
        shared = {"seconds": 1.0, "rejuvenations": 3, "cramer_rao": {"mean": 0.5}}
        return {
            "adaptive": {"estimate": {"mean": adaptive}, **shared},
            "fixed": {"estimate": {"mean": fixed}, **shared},
        }

    runs = [run(11.0, 13.0), run(9.0, 10.0), run(10.0, 8.0)]
    row = row_of(1.0, "fixed", "mean", 10.0, runs)
    assert row["rmse"] == pytest.approx(np.sqrt((9 + 0 + 4) / 3))
    assert row["iqr"] == pytest.approx(2.5)
    assert row["excess"] == pytest.approx((8 - 1 + 4) / 3)
    assert row["excess_se"] == pytest.approx(np.std([8, -1, 4], ddof=1) / np.sqrt(3))
    assert row["cramer_rao"] == 0.5


def test_the_prior_is_the_published_one() -> None:
    draws = published_population().sample_prior(np.random.default_rng(1), 20_000)
    assert stats.kstest(draws["sd"] ** 2, stats.invgamma(1, scale=1).cdf).pvalue > 1e-6
    assert stats.kstest(draws["mean"], stats.norm(0, 100).cdf).pvalue > 1e-6
    assert stats.kstest(draws["sd"] ** 2, stats.invgamma(1.1, scale=1).cdf).pvalue < 1e-6


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_the_oracle_beats_other_fixed_questions(epsilon: float) -> None:
    from noisewise.online.asked import question_of
    from noisewise.online.collect import cramer_rao

    at = {"mean": 50.0, "sd": 2.0}

    def area(query: Any) -> float:
        return float(np.prod(list(cramer_rao(published_population(), [question_of(query)] * 9, at).values())))

    best = area(oracle(50.0, 2.0, epsilon))
    assert all(best < area(around(50.0, 2.0, widths, epsilon)) for widths in (0.5, 1, 1.5, 2, 3, 10))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_adaptive_beats_the_wide_interval_for_both_parameters(epsilon: float) -> None:
    """Paired over runs: the mean of the differences of absolute errors is many standard errors above 0."""
    rng = np.random.default_rng(3)
    differences = []
    for _ in range(16):
        people = rng.normal(50, 10**0.5, 600)
        found = [surveyed(rng, people, epsilon, way, 100).mean
                 for way in ("adaptive", around(50, 10**0.5, 10, epsilon))]  # fmt: skip
        off = np.abs([[one["mean"] - 50, one["sd"] - 10**0.5] for one in found])
        differences.append(off[1] - off[0])
    values = np.array(differences)
    z = values.mean(axis=0) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))
    assert (z > 2).all(), z


def test_unknown_queries_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="clip or sign or cells"):
        STUDY.run({"query": "guess"}, workers=1)
    assert online_normal.STUDY is STUDY
