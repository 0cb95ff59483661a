"""What a Parquet file says of its own values is not believed: every value is looked at (F2, A3).

A file states the least and the greatest value of each column. NaN is in no such statement, and an engine that believes
it leaves out the question whether a value is NaN, or beyond the bounds.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet
import pytest

import noisewise as nw
from noisewise.holder.evaluate import lattice_values

x = nw.column("x")
LOW, HIGH, FILL = -50.0, 250.0, 7.0


def declared(missing: Any = "refuse") -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(LOW, HIGH)}, n=4, neighbours="change-one", missing=missing)


def by_path(path: Path) -> object:
    return path


def by_a_connection_of_ones_own(path: Path) -> object:
    return ibis.duckdb.connect().read_parquet(str(path))


def written(path: Path, values: list[float], *, said: dict[float, float] | None = None) -> Path:
    """A Parquet file of one column; `said` replaces numbers in what it states of its values, not in the values."""
    pa.parquet.write_table(pa.table({"x": values}), path)
    data = path.read_bytes()
    (size,) = struct.unpack("<I", data[-8:-4])
    values_, footer = data[: -8 - size], data[-8 - size :]
    for true, other in (said or {}).items():
        assert struct.pack("<d", true) in footer
        footer = footer.replace(struct.pack("<d", true), struct.pack("<d", other))
    path.write_bytes(values_ + footer)
    return path


def lattice_sum(source: object, schema: nw.Schema) -> float:
    plan = nw.plan(nw.Sum(x), schema, guarantee=nw.PureDP(1))
    (value,) = lattice_values(nw.Table.read(source, schema), plan)
    return value * plan.law.step[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("opened", [by_path, by_a_connection_of_ones_own])
@pytest.mark.parametrize("largest", [10.0, 1000.0], ids=["within the bounds", "beyond the bounds"])
def test_nan_in_a_parquet_file_is_missing_whatever_stands_beside_it(
    opened: Any, largest: float, tmp_path: Path
) -> None:
    path = written(tmp_path / "r.parquet", [1.25, -3.0, float("nan"), largest])
    assert pa.parquet.read_metadata(path).row_group(0).column(0).statistics.max == largest
    with pytest.raises(nw.InvalidData, match=r"Column 'x', missing: 1 row"):
        nw.Table.read(opened(path), declared())
    present = 1.25 - 3.0 + min(largest, HIGH)
    assert lattice_sum(opened(path), declared({"x": FILL})) == pytest.approx(present + FILL, abs=0.01)
    assert lattice_sum(opened(path), declared("leave-out")) == pytest.approx(present, abs=0.01)
    assert nw.Table.check(opened(path), declared()).column("x").missing == 1


@pytest.mark.parametrize("opened", [by_path, by_a_connection_of_ones_own])
def test_a_value_beyond_what_its_file_states_is_clamped_like_any_other(opened: Any, tmp_path: Path) -> None:
    honest = written(tmp_path / "honest.parquet", [1.25, -3.0, -2e9, 1e9])
    forged = written(tmp_path / "forged.parquet", [1.25, -3.0, -2e9, 1e9], said={1e9: 10.0, -2e9: -10.0})
    assert pa.parquet.read_metadata(forged).row_group(0).column(0).statistics.max == 10.0
    expected = 1.25 - 3.0 + LOW + HIGH
    assert lattice_sum(opened(honest), declared()) == pytest.approx(expected, abs=0.01)
    assert lattice_sum(opened(forged), declared()) == pytest.approx(expected, abs=0.01)
    refusing = nw.Schema({"x": nw.Bounded(LOW, HIGH)}, n=4, neighbours="change-one", outside="refuse")
    with pytest.raises(nw.InvalidData, match=r"Column 'x', outside: 2 rows"):
        nw.Table.read(opened(forged), refusing)


def test_settings_of_a_connection_of_ones_own_are_kept(tmp_path: Path) -> None:
    connection = ibis.duckdb.connect()
    connection.raw_sql("SET disabled_optimizers = 'top_n'")
    source = connection.read_parquet(str(written(tmp_path / "r.parquet", [1.0, 2.0, 3.0, 4.0])))
    for _ in range(2):
        nw.Table.read(source, declared())
    ((disabled,),) = connection.raw_sql("SELECT current_setting('disabled_optimizers')").fetchall()
    assert {"top_n", "statistics_propagation"} <= set(disabled.split(","))
    assert len(disabled.split(",")) == len(set(disabled.split(",")))
