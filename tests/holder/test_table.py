"""Promises about records at the door: what comes through, whatever its source (F2, B3)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from people_tables import CLAMPED, CODES, KEY, SOURCES, one, python_fingerprint, records, schema, values, write

from noisewise.errors import InvalidData, Unsupported
from noisewise.holder.table import Table
from noisewise.schema import Bounded, Levels, Schema


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


def test_another_file_of_the_same_size_and_time_in_its_place_is_seen(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "r.csv", "x\n1\n2\n"))
    table, before = Table.read(path, one(Bounded(0, 9), 2)), path.stat()
    other = Path(write(tmp_path / "other.csv", "x\n8\n9\n"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(InvalidData, match="changed since"):
        table.fingerprint(KEY)
    table, before = Table.read(path, one(Bounded(0, 9), 2)), path.stat()
    path.write_text("x\n7\n9\n")  # the same file, its time set back
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InvalidData, match="changed since"):
        table.fingerprint(KEY)


def test_cleaned_records_stay_in_bounds_even_if_the_database_changes_after_the_check() -> None:
    connection = ibis.duckdb.connect()
    source = connection.create_table("t", pa.table({"x": [1.0, 2.0], "g": ["a", "b"]}))
    columns = {"x": Bounded(1, 2), "g": Levels(["a", "b"])}
    table = Table.read(source, Schema(columns, n=2, neighbours="change-one", outside="refuse"))
    connection.raw_sql("insert into t values (1e300, 'z'), ('nan', null), (null, 'a'), ('-inf', 'b'), ('inf', 'a')")
    assert values(table)[2:] == [(2.0, 0), (1.0, 0), (1.0, 0), (1.0, 1), (2.0, 0)]


def test_opening_the_module_loads_no_engine() -> None:
    code = "import sys, noisewise.holder.table as t; sys.exit(bool({'ibis', 'duckdb', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("files", [1, 2])
def test_the_name_of_a_folder_never_replaces_a_column(tmp_path: Path, files: int, neighbours: str) -> None:
    """A folder "x=5" looks like a partition of a lake; the column x is still what the files hold."""
    folder = tmp_path / "x=5" / "y=1"
    folder.mkdir(parents=True)
    held = [1.0, 2.0, 4.0, 8.0]
    for k in range(files):
        part = held[k::files]
        pyarrow.parquet.write_table(pa.table({"x": part, "z": part}), folder / f"part{k}.parquet")
    size = {"n": 4} if neighbours == "change-one" else {"n_max": 4}
    declared = Schema({"x": Bounded(0, 10), "z": Bounded(0, 10)}, neighbours=neighbours, **size)
    table = Table.read(folder / "part0.parquet" if files == 1 else folder, declared)
    assert sorted(table.execute(table.rows())["x"].to_pylist()) == held
    with pytest.raises(InvalidData, match="'y' is not in"):
        Table.read(folder, Schema({"y": Bounded(0, 5)}, neighbours=neighbours, **size))


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("name", ["self", "exprs", "values", "named_exprs", "metrics", "having", "by"])
def test_a_column_may_have_any_name(name: str, neighbours: str, tmp_path: Path) -> None:
    size = {"n": 2} if neighbours == "change-one" else {"n_max": 2}
    declared = Schema({name: Bounded(0, 5)}, neighbours=neighbours, **size)
    (tmp_path / "people.csv").write_text(f"{name}\n1\n2.0\n")
    for source in ({name: [1, 2.0]}, tmp_path / "people.csv"):
        table = Table.read(source, declared)
        assert table.execute(table.rows())[name].to_pylist() == [1.0, 2.0]
        assert len(table.fingerprint(KEY)) == 64
