"""Parts of a table: disjoint, complete, and no neighbour crosses them."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_tables import HALVES, KEY, as_text, foreign, keyed, one, records, refusal, schema, values, write

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.holder.table import Table
from noisewise.schema import Bounded


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


position = st.one_of(
    st.fractions(0, 1),
    st.fractions(0, 1, max_denominator=30),
    st.builds(
        lambda k, e: min(Fraction(1), Fraction(k, 23) + Fraction(1, 2**e)), st.integers(0, 23), st.integers(1, 90)
    ),
    st.builds(
        lambda k, e: max(Fraction(0), Fraction(k, 23) - Fraction(1, 2**e)), st.integers(0, 23), st.integers(1, 90)
    ),
)
ROW_IDS = [(7 * i) % 23 * 1000 - 9 for i in range(23)]  # as they lie in the frame: not in order
BY_ID = Table.read({"x": [float(i) for i in range(23)], "row": ROW_IDS}, one(Bounded(0, 23), 23), order="row")


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(position, min_size=1, max_size=3))
def test_of_any_partition_by_a_row_id_a_record_lies_in_exactly_one_part(cuts: list[Fraction]) -> None:
    ranked = sorted(range(23), key=lambda i: ROW_IDS[i])
    seen: list[int] = []
    for start, stop in pairwise(sorted({Fraction(0), Fraction(1), *cuts})):
        expected = [i for rank, i in enumerate(ranked) if math.floor(start * 23) <= rank < math.floor(stop * 23)]
        if not expected:
            for act in (lambda p=(start, stop): BY_ID.rows(p), lambda p=(start, stop): BY_ID.schema.part_size(p)):
                with pytest.raises(InvalidArgument):
                    act()
            continue
        assert sorted(x for (x,) in values(BY_ID, BY_ID.rows((start, stop)))) == sorted(map(float, expected))
        assert BY_ID.schema.part_size((start, stop)).n == len(expected)
        seen += expected
    assert sorted(seen) == list(range(23))


def test_parts_of_very_many_records_are_counted_without_rounding() -> None:
    declared = one(Bounded(0, 1), 2**30 + 1)
    cuts = [
        Fraction(0),
        Fraction(1, 3),
        Fraction(1, 3) + Fraction(1, 2**31),
        Fraction(2, 3),
        1 - Fraction(1, 2**30),
        Fraction(1),
    ]
    sizes = []
    for start, stop in pairwise(cuts):
        try:
            sizes.append(declared.part_size((start, stop)).n or 0)
        except InvalidArgument:
            sizes.append(0)
    assert sum(sizes) == 2**30 + 1
    assert sizes[-1] == 2
    assert sizes[1] in (0, 1)


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


@pytest.mark.parametrize("key", ["id", "x"])
def test_key_parts_are_the_md5_of_the_key(key: str, tmp_path: Path) -> None:
    source = pa.table({"x": np.arange(500), "id": [f"k{i}é" for i in range(500)]})
    texts = [str(v) for v in source[key].to_pylist()]
    hashes = [int.from_bytes(hashlib.md5(text.encode()).digest()) for text in texts]
    cuts = [Fraction(0), Fraction(1, 3), Fraction(hashes[7], 2**128), Fraction(1)]
    cuts.sort()
    for opened in (source, foreign(source), write(tmp_path / "r.csv", as_text(source))):
        table = Table.read(opened, keyed(), key=key)
        seen: list[float] = []
        for start, stop in pairwise(cuts):
            got = sorted(x for (x,) in values(table, table.rows((start, stop))))
            assert got == [float(i) for i, h in enumerate(hashes) if start * 2**128 <= h < stop * 2**128]
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
