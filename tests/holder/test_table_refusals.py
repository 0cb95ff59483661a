"""Promises about records at the door: what is refused, and what is never said (F2, F4)."""

from __future__ import annotations

import math
import pickle
import secrets
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pytest
from people_tables import CANARY, WORD, keyed, one, refusal, schema, values, write

from noisewise.errors import InvalidArgument, InvalidData
from noisewise.holder import sources
from noisewise.holder.table import Table
from noisewise.schema import Bounded, Levels, Schema

FAULTS = {
    "null": (["1", None, CANARY], "missing", 1),
    "nan": ([CANARY, "nan", "NaN"], "missing", 2),
    "infinite": ([CANARY, "inf", "-inf"], "infinite", 2),
    "overflowing": (["1", "2", CANARY + "e400"], "infinite", 1),
    "text": (["1", WORD, CANARY], "unparsable", 1),
    "comma": (["1", "2", f'"{CANARY.replace(".", ",")}"'], "unparsable", 1),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_bad_numbers_in_a_file_are_counted_and_refused(name: str, outside: str, tmp_path: Path) -> None:
    given, fault, rows = FAULTS[name]
    path = write(tmp_path / "r.csv", "y,x\n" + "".join(f"0,{v or ''}\n" for v in given))
    error = refusal(path, one(Bounded(0, 1e6), 3, outside=outside))
    assert (error.column, error.fault, error.rows) == ("x", fault, rows)
    assert f"{rows} row" in str(error)
    assert "'x'" in str(error)


@pytest.mark.parametrize(
    "make", [lambda x: {"x": x}, lambda x: pd.DataFrame({"x": x}), lambda x: pl.DataFrame({"x": x})]
)
def test_bad_numbers_in_a_frame_are_counted_and_refused(make: Callable[[list[Any]], Any]) -> None:
    secret = float(CANARY)
    for bad, fault in ((None, "missing"), (math.nan, "missing"), (math.inf, "infinite"), (-math.inf, "infinite")):
        error = refusal(make([secret, bad, 1.0, bad]), one(Bounded(0, 1e6), 4))
        assert (error.fault, error.rows) == (fault, 2)
    error = refusal(make([secret, 1.0, 2.0, -3.0]), one(Bounded(0, 10), 4, outside="refuse"))
    assert (error.column, error.fault, error.rows) == ("x", "outside", 2)
    assert "outside='clamp'" in str(error)


@pytest.mark.parametrize("source", [["a", WORD, None], [1, 2, 83751], [1.0, 2.5, 83751.90642], [True, False, None]])
def test_unknown_levels_are_refused_under_every_policy(source: list[Any]) -> None:
    for levels in (Levels(["a", "b"]), Levels([1, 7])):
        known = {str(level) for level in levels.levels} | ({"True"} if 1 in levels.levels else set())
        unknown = sum(v is not None and str(v).removesuffix(".0") not in known for v in source)
        fill = {"x": levels.levels[0]}
        error = refusal({"x": source}, one(levels, 3, missing=fill, outside="clamp"))
        assert (error.column, error.fault, error.rows) == ("x", "unknown level", unknown)
        assert "true and false are read as 1 and 0" in str(error)


def test_missing_levels_follow_the_policy() -> None:
    source = {"x": ["a", None, "b"], "y": [1.0, math.nan, 2.0]}
    assert refusal(source, one(Levels(["a", "b"]), 3)).fault == "missing"
    columns = {"x": Levels(["a", "b"]), "y": Levels([1, 2, 3])}
    declared = Schema(columns, n=3, neighbours="change-one", missing={"x": "b", "y": 3})
    assert values(Table.read(source, declared)) == [(0, 0), (1, 2), (1, 1)]


def test_missing_numbers_are_filled_as_declared(tmp_path: Path) -> None:
    declared = one(Bounded(0, 10), 5, missing={"x": 4})
    expected = [(1.0,), (4.0,), (4.0,), (4.0,), (10.0,)]
    assert values(Table.read(write(tmp_path / "r.csv", 'y,x\n0,1\n0,\n0,""\n0,nan\n0,99\n'), declared)) == expected
    assert values(Table.read({"x": [1.0, None, math.nan, None, 99.0]}, declared)) == expected


def test_every_faulty_column_is_named_at_once() -> None:
    error = refusal({"income": [1.0, None, math.inf], "region": ["north", WORD, None]}, schema(3))
    assert str(error).count("Column 'income'") == 2
    assert str(error).count("Column 'region'") == 2


GOOD = f"x,y\n1,{WORD}\n2,b\n3,c\n"
BROKEN_FILES = {
    "short row": (GOOD + f"{CANARY}\n", "ragged rows"),
    "long row": (GOOD + f"4,d,{CANARY}\n", "ragged rows"),
    "empty file": ("", "empty file"),
    "header only": ("x,y\n", "no rows"),
    "latin-1": (GOOD.replace("x,y", "y,x").encode() + f"{WORD},é{CANARY}\n".encode("latin-1"), "wrong encoding"),
    "latin-1 header": ("é,x\n1,2\n".encode("latin-1"), "wrong encoding"),
    "utf-16": (GOOD.encode("utf-16"), "wrong encoding"),
    "open quote": (GOOD + f'4,"{CANARY}\n5,e\n', "broken quotes"),
    "no header": (f"{CANARY},{WORD}\n1,2\n", "missing column"),
    "binary": (secrets.token_bytes(5000) + b"\x00\xff", None),
    "blank first line": ("\n" + GOOD, "missing column"),
    "repeated column": (f"x,x\n1,{CANARY}\n", "duplicate column"),
}


@pytest.mark.parametrize("name", BROKEN_FILES)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_broken_file_is_refused_by_kind_of_fault(
    name: str, suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    content, fault = BROKEN_FILES[name]
    error = refusal(write(tmp_path / f"r{suffix}", content), one(Bounded(0, 1e6), 4))
    assert isinstance(error, InvalidData)
    assert fault in (None, error.fault)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_passing_on_what_the_engine_says_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def quoted(act: Callable[[], Any], what: str) -> Any:
        try:
            return act()
        except Exception as error:
            raise InvalidData(f"{what}: {error} Nothing was spent.", fault="ragged rows") from None

    def chained(act: Callable[[], Any], what: str) -> Any:
        try:
            return act()
        except Exception:
            raise InvalidData(f"{what}. Nothing was spent.", fault="ragged rows")  # noqa: B904

    for leaky in (quoted, chained):
        monkeypatch.setattr(sources, "attempt", leaky)
        with pytest.raises(AssertionError):
            refusal({"x": [3.0, WORD]}, one(Bounded(0, 1e6), 2))


def test_files_that_are_not_what_they_are_called_are_refused(tmp_path: Path) -> None:
    declared = one(Bounded(0, 1), 1)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "zip.csv.gz").write_text(GOOD)
    faults = {
        write(tmp_path / "r.parquet", GOOD * 10): "not a Parquet file",
        write(tmp_path / "s.parquet", ""): "not a Parquet file",
        tmp_path / "zip.csv.gz": "not a gzip file",
        tmp_path / "folder.csv": "unreadable",
        tmp_path / "nowhere.csv": "missing file",
        tmp_path / "nowhere.parquet": "missing file",
        str(tmp_path / "*" / "nowhere*.parquet"): "missing file",
        tmp_path / "folder.csv" / "..": None,
    }
    for path, fault in faults.items():
        error = refusal(path, declared)
        assert fault in (None, error.fault), path


@pytest.mark.parametrize(
    "source", [None, 3, [1, 2], object(), "records.xlsx", "", "s3://bucket/r.csv", np.eye(2), "a\0.csv"]
)
def test_an_unknown_source_is_refused_by_name(source: object) -> None:
    error = refusal(source, one(Bounded(0, 1), 1))
    assert isinstance(error, InvalidArgument)
    assert error.argument == "source"


def test_lazy_frames_and_the_polars_engine_are_refused_with_a_way_out() -> None:
    frame = pl.DataFrame({"x": [1]})
    assert "collect()" in str(refusal(frame.lazy(), one(Bounded(0, 1), 1)))
    engine = ibis.polars.connect().create_table("t", frame)
    assert "Pass the Polars frame itself" in str(refusal(engine, one(Bounded(0, 1), 1)))
    assert refusal(ibis.table({"x": "int64"}, name="nowhere"), one(Bounded(0, 1), 1)).fault == "unreadable"


def test_frames_that_cannot_be_read_are_refused_without_their_values() -> None:
    declared = one(Bounded(0, 1), 2)
    for source in ({"x": [WORD, 3.0]}, {"x": [[WORD], 3]}, pd.DataFrame({"x": [WORD, 3.0]})):
        assert refusal(source, declared).fault in ("unreadable", "unparsable")
    assert refusal({"x": [1.0, 2.0], "y": [1]}, schema(2)).fault == "missing column"
    assert refusal({"income": [1.0, 2.0], "region": ["north"]}, schema(2)).fault == "unreadable"
    assert refusal({"x": np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")}, declared).fault == "wrong type"
    twice = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    assert refusal(twice, one(Bounded(0, 1), 1)).fault == "duplicate column"


def test_a_missing_column_lists_what_was_wanted_and_never_what_was_found() -> None:
    error = refusal({WORD: [1.0], "income": [1.0]}, schema(1), order="row")
    assert (error.column, error.fault) == ("region", "missing column")
    assert "'income', 'region', 'row'" in str(error)


def test_the_number_of_records_must_be_the_declared_one() -> None:
    error = refusal({"x": [1.0, 2.0, 3.0]}, one(Bounded(0, 9), 4))
    assert (error.fault, error.rows) == ("row count", 3)
    assert "number of records is 3" in str(error)
    assert "n = 4" in str(error)
    assert refusal({"x": np.zeros(0)}, one(Bounded(0, 9), 4)).fault == "no rows"
    error = refusal({"x": np.zeros(37)}, keyed(36))
    assert error.fault == "row count"
    assert "37" not in str(error), "under add-remove the count is private"
    assert "37" not in repr(Table.read({"x": np.zeros(37)}, keyed(40)))


def test_engine_errors_after_the_read_quote_nothing_either() -> None:
    table = Table.read({"x": [float(CANARY), 1.0]}, one(Bounded(0, 1e6), 2))
    with pytest.raises(InvalidData) as caught:
        table.execute(table.expression.select(y=table.expression.x.cast("string").cast("int8")))
    told = "".join(traceback.format_exception(caught.value))
    assert CANARY not in told
    assert caught.value.__context__ is None


def test_a_table_prints_its_public_facts_only(tmp_path: Path) -> None:
    table = Table.read(write(tmp_path / f"{WORD}.csv", f"x\n{CANARY}\n"), one(Bounded(0, 1e6), 1))
    assert repr(table) == "Table(x; n = 1; CSV on duckdb)"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(table)
    with pytest.raises(AttributeError):
        table.schema = schema()  # type: ignore[misc]
