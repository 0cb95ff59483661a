"""Promises about records at the door: what is refused, what comes through, what is never said (F2, F4, B3)."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import math
import pickle
import secrets
import subprocess
import sys
import traceback
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisewise.errors import InvalidArgument, InvalidData, NoisewiseError, Unsupported
from noisewise.holder import table as table_module
from noisewise.holder.table import Table
from noisewise.schema import Bounded, Levels, Schema

KEY = b"a secret of the holder, 32 bytes"
REGIONS = ["north", "south", "east"]
HALVES = ((Fraction(0), Fraction(1, 2)), (Fraction(1, 2), Fraction(1)))
NUMBERS = [3.5, -1.0, 251.0, 0.1, 250.0, 1e-300, 17.25]
CLAMPED = [3.5, 0.0, 250.0, 0.1, 250.0, 1e-300, 17.25]
PLACES = ["south", "north", "east", "east", "south", "north", "north"]
CODES = [1, 0, 2, 2, 1, 0, 0]


def schema(n: int = 7, **changes: Any) -> Schema:
    columns = {"income": Bounded(0, 250), "region": Levels(REGIONS)}
    return Schema(columns, **({"n": n, "neighbours": "change-one"} | changes))


def one(column: Bounded | Levels, n: int, **changes: Any) -> Schema:
    return Schema({"x": column}, **({"n": n, "neighbours": "change-one"} | changes))


def records() -> pa.Table:
    return pa.table({"id": list(range(100, 107)), "region": PLACES, "income": NUMBERS})


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def as_text(table: pa.Table, separator: str = ",") -> str:
    rows = [table.column_names, *zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return "".join(separator.join("" if v is None else str(v) for v in row) + "\n" for row in rows)


def values(table: Table, expression: Any = None) -> list[tuple[Any, ...]]:
    rows = table.execute(table.expression if expression is None else expression).to_pylist()
    return [tuple(row.values()) for row in rows]


def foreign(table: pa.Table) -> Any:
    return ibis.duckdb.connect().create_table("people", table)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda d: write(d / "r.csv", as_text(records())),
    "csv.gz": lambda d: str(write(d / "r.csv.gz", as_text(records()))),
    "tsv": lambda d: write(d / "r.tsv", as_text(records(), "\t")),
    "crlf, bom, quotes": lambda d: write(
        d / "r.csv", "\ufeff" + as_text(records()).replace("south", '"south"').replace("\n", "\r\n")
    ),
    "parquet": lambda d: (pa.parquet.write_table(records(), d / "r.parquet"), d / "r.parquet")[1],
    "parquet directory": lambda d: (
        pa.parquet.write_table(records()[:3], d / "a.parquet"),
        pa.parquet.write_table(records()[3:], d / "b.parquet"),
        d,
    )[2],
    "pandas": lambda _: records().to_pandas(),
    "pandas categories": lambda _: records().to_pandas().astype({"region": "category"}),
    "polars": lambda _: pl.from_arrow(records()),
    "arrow": lambda _: records(),
    "dict": lambda _: {"income": np.array(NUMBERS), "region": PLACES, "id": np.arange(100, 107)},
    "ibis": lambda _: foreign(records()),
}


# --- every source, one meaning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_means_the_same_records(kind: str, tmp_path: Path) -> None:
    table = Table.read(SOURCES[kind](tmp_path), schema())
    assert sorted(values(table)) == sorted(zip(CLAMPED, CODES, strict=True))
    assert table.expression.schema() == ibis.schema({"income": "float64", "region": "int64"})
    assert table.fingerprint(KEY) == python_fingerprint(CLAMPED, CODES)
    assert table.engine == "duckdb"


@pytest.mark.parametrize(
    ("column", "given", "cleaned"),
    [
        (Bounded(0, 2), pa.array([True, False, True]), [1.0, 0.0, 1.0]),
        (Bounded(0, 1e19), pa.array([2**63, 7, 0], pa.uint64()), [2.0**63, 7.0, 0.0]),
        (Bounded(-1, 1), pa.array([1, 0, -1], pa.decimal128(20, 3)), [1.0, 0.0, -1.0]),
        (Bounded(-1, 1), pa.array(np.array([0.5, 7, -7], np.float16)), [0.5, 1.0, -1.0]),
        (Bounded(-9, 9), pa.array(["1", " 2.5 ", "-1e1"]), [1.0, 2.5, -9.0]),
        (Bounded(0.1, 0.30000000000000004), pa.array([-5.0, 0.2, 5.0]), [0.1, 0.2, 0.30000000000000004]),
        (Levels([0, 1]), pa.array([True, False, True]), [1, 0, 1]),
        (Levels([5, -7]), pa.array([5.0, -7.0, 5.0]), [0, 1, 0]),
        (Levels([5, -7]), pa.array([5, -7, 5], pa.int8()), [0, 1, 0]),
        (Levels([5, -7]), pa.array(["-7", "5", "5"]), [1, 0, 0]),
        (Levels(["5", "x"]), pa.array([5, 5, 5]), [0, 0, 0]),
        (Levels([2**60, 2**60 + 1]), pa.array([2**60 + 1, 2**60, 2**60]), [1, 0, 0]),
    ],
)
def test_every_type_is_read_by_value(column: Bounded | Levels, given: pa.Array, cleaned: list[float]) -> None:
    assert [x for (x,) in values(Table.read(pa.table({"x": given}), one(column, 3)))] == cleaned


def test_cleaning_equals_min_and_max_for_random_doubles_and_bounds() -> None:
    rng = np.random.default_rng()
    for scale in (1e-9, 1.0, 1e12):
        low, high = sorted(rng.normal(size=2) * scale)
        x = rng.standard_cauchy(2000) * scale
        table = Table.read({"x": x}, one(Bounded(low, high), 2000))
        bounds = table.schema.bounded("x")
        assert [v for (v,) in values(table)] == [min(max(v, bounds.low), bounds.high) for v in x.tolist()]


def test_a_file_name_is_a_name_not_a_pattern(tmp_path: Path) -> None:
    write(tmp_path / "r1.csv", "x\n1\n")
    assert values(Table.read(write(tmp_path / "r[1].csv", "x\n2\n"), one(Bounded(0, 9), 1))) == [(2.0,)]


def test_columns_that_differ_in_case_are_different_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "X,x,other\n1,2,3\n")
    assert values(Table.read(path, one(Bounded(0, 9), 1))) == [(2.0,)]
    with pytest.raises(Unsupported, match="upper and lower case"):
        Table.read(path, Schema({"x": Bounded(0, 1), "X": Bounded(0, 1)}, n=1, neighbours="change-one"))


def test_later_edits_never_reach_a_table(tmp_path: Path) -> None:
    frame, array = records().to_pandas(), np.array([1.0, 2.0])
    table, other = Table.read(frame, schema()), Table.read({"x": array}, one(Bounded(0, 9), 2))
    frame.loc[:, "income"] = 9.0
    array[:] = 9.0
    assert sorted(values(table)) == sorted(zip(CLAMPED, CODES, strict=True))
    assert values(other) == [(1.0,), (2.0,)]
    path = write(tmp_path / "r.csv", "x\n1\n2\n")
    table = Table.read(path, one(Bounded(0, 9), 2))
    table.fingerprint(KEY)
    write(path, "x\n1\n2\n3\n")
    for act in (lambda: table.execute(table.expression), lambda: table.fingerprint(KEY)):
        with pytest.raises(InvalidData, match="changed since") as refused:
            act()
        assert refused.value.fault == "changed"


def test_cleaned_records_stay_in_bounds_even_if_the_database_changes_after_the_check() -> None:
    connection = ibis.duckdb.connect()
    source = connection.create_table("t", pa.table({"x": [1.0, 2.0], "g": ["a", "b"]}))
    columns = {"x": Bounded(1, 2), "g": Levels(["a", "b"])}
    table = Table.read(source, Schema(columns, n=2, neighbours="change-one", outside="refuse"))
    connection.raw_sql("insert into t values (1e300, 'z'), ('nan', null), (null, 'a'), ('-inf', 'b'), ('inf', 'a')")
    assert values(table)[2:] == [(2.0, 0), (1.0, 0), (1.0, 0), (1.0, 1), (2.0, 0)]


# --- what is refused, and how -----------------------------------------------------------------------------------------

CANARY = "83751.90642"
WORD = "Quetzalcoatl"


def refusal(source: object, declared: Schema, **options: Any) -> NoisewiseError:
    """The error of a read, after checking that it says nothing about any value, anywhere."""
    with pytest.raises(NoisewiseError) as caught:
        Table.read(source, declared, **options)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert str(error).endswith("Nothing was spent.")
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(error.fields)
    for secret in (CANARY, WORD, CANARY.split(".")[0], WORD[1:-1]):
        assert secret not in told
    return error


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


def test_passing_on_what_the_engine_says_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    path = write(tmp_path / "r.csv", BROKEN_FILES["short row"][0])
    for leaky in (quoted, chained):
        monkeypatch.setattr(table_module, "attempt", leaky)
        with pytest.raises(AssertionError):
            refusal(path, one(Bounded(0, 1e6), 4))


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


def test_opening_the_module_loads_no_engine() -> None:
    code = "import sys, noisewise.holder.table as t; sys.exit(bool({'ibis', 'duckdb', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- parts ------------------------------------------------------------------------------------------------------------


def numbered(n: int) -> pa.Table:
    return pa.table({"x": np.arange(n, dtype=float), "id": [f"k{i}" for i in range(n)]})


@pytest.mark.parametrize("n", [1, 7, 100])
def test_position_parts_are_disjoint_cover_everything_and_sit_where_the_fractions_say(n: int) -> None:
    table = Table.read(numbered(n), one(Bounded(0, n), n))
    cuts = [Fraction(0), Fraction(1, 7), Fraction(1, 3), Fraction(2, 3), Fraction(1)]
    seen = []
    for start, stop in pairwise(cuts):
        expected = [float(i) for i in range(n) if math.floor(start * n) <= i < math.floor(stop * n)]
        if not expected:
            with pytest.raises(InvalidArgument, match="empty"):
                table.rows((start, stop))
            continue
        got = sorted(x for (x,) in values(table, table.rows((start, stop))))
        assert got == expected
        assert len(got) == table.schema.part_size((start, stop)).n
        seen += got
    assert seen == [float(i) for i in range(n)]


def test_position_is_the_order_of_the_file_even_when_it_is_read_in_parallel(tmp_path: Path) -> None:
    n = 2_000_000
    source = pa.table({"x": np.arange(n), "filler": pa.array(["something to fill a line"] * n)})
    pa.parquet.write_table(source, tmp_path / "r.parquet", row_group_size=100_000)
    pa.csv.write_csv(source, tmp_path / "r.csv")
    for name in ("r.parquet", "r.csv"):
        table = Table.read(tmp_path / name, one(Bounded(0, n), n))
        x = table.rows((Fraction(1, 7), Fraction(5, 7)))
        first, last = n // 7, 5 * n // 7
        summary = x.aggregate(n=x.count(), low=x.x.min(), high=x.x.max())
        assert values(table, summary) == [(last - first, float(first), float(last - 1))]
        blocks = table.blocks(8)
        wrong = blocks.filter(blocks["__block"] != (blocks.x / 8).floor()).count()
        assert table.execute(wrong).as_py() == 0


@pytest.mark.parametrize("kind", ["csv", "ibis", "arrow", "parquet directory"])
def test_order_ranks_by_the_row_id_whatever_the_order_of_the_rows(kind: str, tmp_path: Path) -> None:
    n = 40
    shuffled = np.random.default_rng().permutation(n)
    source = pa.table({"x": shuffled.astype(float), "row": shuffled * 3 + 5})
    if kind == "csv":
        opened: Any = write(tmp_path / "r.csv", as_text(source))
    elif kind == "parquet directory":
        pa.parquet.write_table(source[:13], tmp_path / "b.parquet")
        pa.parquet.write_table(source[13:], tmp_path / "a.parquet")
        opened = tmp_path
    else:
        opened = foreign(source) if kind == "ibis" else source
    table = Table.read(opened, one(Bounded(0, n), n), order="row")
    got = sorted(x for (x,) in values(table, table.rows((Fraction(1, 4), Fraction(1, 2)))))
    assert got == [float(i) for i in range(10, 20)]


@pytest.mark.parametrize("order", ["income", "INCOME", "region"])
def test_a_schema_column_is_no_order(order: str) -> None:
    source = records().append_column("INCOME", pa.array(range(7)))
    error = refusal(source, schema(), order=order)
    assert isinstance(error, InvalidArgument)
    assert error.argument == "order"
    assert "no safe position parts" in str(error)


@pytest.mark.parametrize(
    ("ids", "fault"), [([1, 2, 2], "duplicate"), ([1, 2, None], "missing"), ([0.5, 1.0, 2.0], "wrong type")]
)
def test_an_order_must_be_complete_and_unique(ids: list[Any], fault: str) -> None:
    error = refusal({"x": [1.0, 2.0, 3.0], "row": ids}, one(Bounded(0, 9), 3), order="row")
    assert (error.column, error.fault) == ("row", fault)


def test_an_order_by_a_private_value_would_let_one_change_touch_two_parts() -> None:
    """Why schema columns are refused: ranked by themselves, one changed record moves another into the next part."""
    before, after = [1, 2, 3, 4], [1, 5, 3, 4]
    by_value = [set(sorted(before)[:2]) ^ set(sorted(after)[:2]), set(sorted(before)[2:]) ^ set(sorted(after)[2:])]
    assert all(by_value), "both halves differ"
    halves = []
    for x in (before, after):
        table = Table.read({"x": x, "row": [10, 20, 30, 40]}, one(Bounded(0, 9), 4), order="row")
        halves.append([set(values(table, table.rows(part))) for part in HALVES])
    assert halves[0][0] != halves[1][0]
    assert halves[0][1] == halves[1][1]


def test_without_an_order_of_its_own_a_source_has_no_position_parts(tmp_path: Path) -> None:
    pa.parquet.write_table(numbered(3), tmp_path / "a.parquet")
    pa.parquet.write_table(numbered(3), tmp_path / "b.parquet")
    for source in (foreign(numbered(6)), str(tmp_path / "*.parquet")):
        table = Table.read(source, one(Bounded(0, 9), 6))
        for act in (lambda t=table: t.rows(HALVES[0]), lambda t=table: t.blocks(2)):
            with pytest.raises(Unsupported, match="order="):
                act()


def keyed(n_max: int = 1000) -> Schema:
    return Schema({"x": Bounded(0, 1000)}, n_max=n_max, neighbours="add-remove")


@pytest.mark.parametrize("key", ["id", "x"])
def test_key_parts_are_the_md5_of_the_key(key: str, tmp_path: Path) -> None:
    source = pa.table({"x": np.arange(500), "id": [f"k{i}é" for i in range(500)]})
    texts = [str(v) for v in source[key].to_pylist()]
    hashes = [int.from_bytes(hashlib.md5(text.encode()).digest()[:4]) for text in texts]
    cuts = [Fraction(0), Fraction(1, 3), Fraction(hashes[7], 2**32), Fraction(1)]
    cuts.sort()
    for opened in (source, foreign(source), write(tmp_path / "r.csv", as_text(source))):
        table = Table.read(opened, keyed(), key=key)
        seen: list[float] = []
        for start, stop in pairwise(cuts):
            got = sorted(x for (x,) in values(table, table.rows((start, stop))))
            assert got == [float(i) for i, h in enumerate(hashes) if start * 2**32 <= h < stop * 2**32]
            seen += got
        assert sorted(seen) == [float(i) for i in range(500)]


def test_adding_a_record_touches_one_key_part_but_two_position_parts() -> None:
    parts = []
    for n in (100, 101):
        table = Table.read(numbered(n), keyed(), key="id")
        parts.append([set(values(table, table.rows(part))) for part in HALVES])
    assert sum(a != b for a, b in zip(*parts, strict=True)) == 1


def test_parts_that_one_neighbour_would_cross_are_refused() -> None:
    source = numbered(4)
    assert "touch two parts" in str(refusal(source, one(Bounded(0, 9), 4), key="id"))
    assert "touch two parts" in str(refusal(source, keyed(), order="id"))
    table = Table.read(source, keyed())
    for act in (lambda: table.rows(HALVES[0]), lambda: table.fingerprint(KEY, arranged=True)):
        with pytest.raises(Unsupported, match="touch two parts"):
            act()
    with pytest.raises(Unsupported, match="change-one"):
        table.blocks(2)
    assert refusal({"x": [1, 2], "id": ["a", None]}, keyed(), key="id").fault == "missing"
    assert refusal({"x": [1, 2], "id": [0.1, 0.2]}, keyed(), key="id").fault == "wrong type"


@pytest.mark.parametrize(
    "part", [(0, 0), (1, 0), (-1, 1), (0, 2), (0, math.nan), ("a", 1), (0,), 3, (0, True), (None, 1)]
)
def test_a_part_is_two_fractions_in_order(part: Any) -> None:
    table = Table.read(numbered(4), one(Bounded(0, 9), 4))
    for act in (lambda: table.rows(part), lambda: table.blocks(1, part)):
        with pytest.raises(InvalidArgument) as caught:
            act()
        assert caught.value.argument == "part"


def test_blocks_number_the_records_of_a_part_in_runs_of_k() -> None:
    table = Table.read(numbered(24), one(Bounded(0, 24), 24))
    assert table.blocks(4).schema()["__block"].is_int64()
    assert sorted(values(table, table.blocks(4))) == [(float(i), i // 4) for i in range(24)]
    part = (Fraction(1, 4), Fraction(3, 4))
    assert sorted(values(table, table.blocks(3, part))) == [(float(i), (i - 6) // 3) for i in range(6, 18)]
    for size in (5, 25, 0, -1, True, 2.0):
        with pytest.raises(InvalidArgument) as caught:
            table.blocks(size)  # type: ignore[arg-type]
        assert caught.value.argument == "size"


@pytest.mark.parametrize("name", ["", 3, True, "__position"])
def test_order_and_key_are_column_names(name: Any) -> None:
    assert refusal(numbered(2), one(Bounded(0, 9), 2), order=name).argument == "order"
    assert refusal(numbered(2), keyed(), key=name).argument == "key"
    with pytest.raises(InvalidArgument, match="schema"):
        Table.read(numbered(2), {"x": Bounded(0, 9)})  # type: ignore[arg-type]


# --- the fingerprint --------------------------------------------------------------------------------------------------


def python_fingerprint(incomes: list[float], codes: list[int], key: bytes = KEY) -> str:
    """The formula in Python floats and integers, as another engine would compute it."""

    def constants(name: str) -> tuple[float, float, float, float]:
        d = hmac.digest(key, name.encode(), "sha256")
        k, odd, m, b, c = (256 * d[i] + d[i + 1] for i in range(0, 10, 2))
        return 65536 + k + (odd + 0.5) / 65536, 65536.0 + m, 1 + b / 65536, 1 + c / 65536

    def q(w: float, name: str) -> float:
        _, m, _, c = constants(name)
        w -= math.floor(w)
        w = w * (w + c) * m
        return w - math.floor(w)

    def v(u: float, name: str) -> float:
        k, _, b, _ = constants(name)
        return q((u + b) * k, name)

    lanes = [0, 0]
    bits = min(31, 62 - len(codes).bit_length())
    for x, code in zip(incomes, codes, strict=True):
        hashed = {"income": v(x / 250.0, "income"), "region": v(code / 3.0, "region")}
        for i, lane in enumerate(("__lane0", "__lane1")):
            w = constants(lane)[2]
            for name, value in hashed.items():
                w = w + value * constants(f"{lane}|{name}")[1]
            lanes[i] += math.floor(q(w, lane) * 2.0**bits)
    text = f"noisewise-fingerprint/1|change-one|False|{len(codes)}|{lanes[0]}|{lanes[1]}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def test_the_fingerprint_is_the_same_number_in_another_engine_and_in_any_order() -> None:
    rng = np.random.default_rng()
    x, codes = rng.uniform(-10, 260, 5000), rng.integers(0, 3, 5000)
    expected = python_fingerprint(np.clip(x, 0, 250).tolist(), codes.tolist())
    names = np.array(REGIONS)[codes]
    for order in (np.arange(5000), rng.permutation(5000), np.argsort(x)):
        assert Table.read({"income": x[order], "region": names[order]}, schema(5000)).fingerprint(KEY) == expected


def two_columns(x: list[float], y: list[float], **options: Any) -> str:
    declared = Schema({"x": Bounded(-1, 1), "y": Bounded(-1, 1)}, n_max=1000, neighbours="add-remove")
    return Table.read({"x": x, "y": y}, declared).fingerprint(KEY, **options)


def test_the_fingerprint_sees_every_change_of_the_records() -> None:
    rng = np.random.default_rng()
    x, y = rng.uniform(-1, 1, (2, 50)).tolist()
    original = two_columns(x, y)
    nudged = [x[0] + 2**-46 * (1 if x[0] < 0 else -1), *x[1:]]
    changed = {
        "one value": two_columns([0.5, *x[1:]], y),
        "a tiny change": two_columns(nudged, y),
        "values swapped between records": two_columns([x[1], x[0], *x[2:]], y),
        "columns swapped": two_columns(y, x),
        "a record dropped": two_columns(x[1:], y[1:]),
        "a record doubled": two_columns([*x, x[0]], [*y, y[0]]),
        "one record in place of another": two_columns([x[1], *x[1:]], [y[1], *y[1:]]),
    }
    assert two_columns(x[::-1], y[::-1]) == original
    assert original not in changed.values()
    assert len(set(changed.values())) == len(changed)


def test_the_fingerprint_tells_simple_values_apart() -> None:
    """Halves, thirds and the two ends of the range are where a hash by whole multiples is blind."""
    key = secrets.token_bytes(32)
    simple = sorted({p / q for q in range(1, 17) for p in range(q + 1)})
    assert len({python_fingerprint([250.0 * u], [1], key) for u in simple}) == len(simple)
    prints = {two_columns([float(bit), 0.0, 1.0], [0.0, 0.5, 1.0]) for bit in (-1, 0, 1)}
    assert len(prints) == 3


def moved_weight_shows(trials: int) -> bool:
    """Whether moving weight from one record to another is seen every time (sums and means would not see it)."""
    rng = np.random.default_rng()
    for _ in range(trials):
        low, high, shift = rng.integers(1, 400) / 1024, rng.integers(500, 900) / 1024, rng.integers(1, 100) / 1024
        declared = one(Bounded(0, 1), 2)
        before, after = {"x": [low, high]}, {"x": [low + shift, high - shift]}
        if low + shift == high:
            continue
        if Table.read(before, declared).fingerprint(KEY) == Table.read(after, declared).fingerprint(KEY):
            return False
    return True


def test_the_fingerprint_sees_weight_moved_between_records() -> None:
    assert moved_weight_shows(10)


def test_a_linear_hash_would_not_see_moved_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    def linear(table: Any, constants: dict[str, Any]) -> Any:
        return table.select(**{name: table[name] - table[name].floor() for name in constants})

    monkeypatch.setattr(table_module, "_scrambled", linear)
    assert not moved_weight_shows(80)


def test_a_fingerprint_depends_on_its_secret_and_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.read(records(), schema())
    prints = {table.fingerprint(key) for key in (KEY, KEY[::-1], KEY[:16])}
    assert len(prints) == 3
    monkeypatch.setattr(Table, "execute", None)
    assert table.fingerprint(KEY) in prints
    for key in (b"", b"short", "a text that is long enough", None, 3):
        with pytest.raises(InvalidArgument) as caught:
            table.fingerprint(key)  # type: ignore[arg-type]
        assert caught.value.argument == "key"


def test_an_arranged_fingerprint_sees_records_that_change_places() -> None:
    declared = one(Bounded(0, 9), 4)

    def prints(x: list[int], rows: list[int]) -> tuple[str, str]:
        table = Table.read({"x": x, "row": rows}, declared, order="row")
        return table.fingerprint(KEY), table.fingerprint(KEY, arranged=True)

    assert prints([1, 2, 3, 4], [1, 2, 3, 4]) == prints([2, 1, 3, 4], [2, 1, 3, 4])
    moved, original = prints([1, 2, 3, 4], [1, 3, 2, 4]), prints([1, 2, 3, 4], [1, 2, 3, 4])
    assert moved[0] == original[0]
    assert moved[1] != original[1]
    by_key = [Table.read({"x": [1, 2], "id": ids}, keyed(), key="id") for ids in (["a", "b"], ["b", "a"])]
    assert by_key[0].fingerprint(KEY) == by_key[1].fingerprint(KEY)
    assert by_key[0].fingerprint(KEY, arranged=True) != by_key[1].fingerprint(KEY, arranged=True)


def test_the_hash_sum_cannot_overflow_at_the_largest_number_of_records() -> None:
    for n in (1, 2**20, 2**31, 2**40):
        bits = min(31, 62 - n.bit_length())
        assert n * 2**bits < 2**62
    wide = Schema({"x": Bounded(0, 1)}, n_max=2**40, neighbours="add-remove")
    prints = {Table.read({"x": [x, 0.5]}, wide).fingerprint(KEY) for x in (0.25, 0.75)}
    assert len(prints) == 2
