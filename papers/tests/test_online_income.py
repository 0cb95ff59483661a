"""online-income: files are read as they are, incomes in thousands, and the pattern of the printed table is there."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from noisewise.errors import InvalidArgument
from noisewise_papers.online_income import FILES, METHODS, STUDY, read

HEADER = "State_Name,State_ab,County,City,Mean,Median,Stdev\n"
SMALL = {"n": 60, "n_particles": 50, "runs": 1}


def rows_of(medians: list[object]) -> str:
    return HEADER + "".join(f"Indiana,IN,A County,Town,50000,{median},20000\n" for median in medians)


def test_incomes_are_read_in_thousands_without_what_is_missing_or_top_coded(tmp_path: Path) -> None:
    text = rows_of([40_000, 0, 55_500, 300_000, 61_000])
    (tmp_path / "plain.csv").write_text(text, "utf-8")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("plain.csv", "packed.csv.gz"):
        assert read(tmp_path / name).tolist() == [40.0, 55.5, 61.0]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", rows_of(["x"]), rows_of([0, 300_000, 50_000])],
                         ids=["empty", "no-median", "no-number", "too-few"])  # fmt: skip
def test_a_file_of_another_kind_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "income.csv").write_text(text, "utf-8")
    with pytest.raises(InvalidArgument, match=r"income\.csv"):
        read(tmp_path / "income.csv")


def test_a_file_that_is_not_gzip_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / FILES["us"]).write_text("no gzip", "utf-8")
    with pytest.raises(InvalidArgument, match=r"income_us\.csv\.gz"):
        STUDY.run(SMALL, workers=1, data=tmp_path)


def test_real_places_are_asked_in_every_run_and_the_sd_needs_adaptive_questions(tmp_path: Path) -> None:
    incomes = np.random.default_rng(1).normal(52, 18, 300).clip(5, 250)
    (tmp_path / FILES["indiana"]).write_text(rows_of([round(1000 * x) for x in incomes]), "utf-8")
    given = {"n": 1000, "n_particles": 50, "runs": 2, "places": "indiana", "epsilon": 2}
    rows = STUDY.run(given, workers=1, data=tmp_path).rows
    assert {(row["data"], row["n"]) for row in rows} == {("indiana", 300)}
    assert [(row["method"], row["run"]) for row in rows] == [(m, run) for m in ("mle", *METHODS) for run in (1, 2)]
    mle = rows[0]
    assert (mle["mu"], mle["sigma"]) == pytest.approx((incomes.mean(), incomes.std()), abs=1e-3)
    off = {m: np.mean([abs(r["sigma"] - mle["sigma"]) for r in rows if r["method"] == m]) for m in METHODS}
    assert off["adaptive"] < 5 < off["fixed"]


def test_without_data_the_incomes_are_simulated_and_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOISEWISE_DATA", raising=False)
    rows = STUDY.run(SMALL, workers=1).rows
    assert {row["data"] for row in rows} == {"simulated"}
    assert "simulated" in STUDY.note(rows)
    STUDY.plot(rows, tmp_path / "i.png")
    assert (tmp_path / "i.png").stat().st_size > 5000
