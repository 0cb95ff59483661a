"""The same records and the same plan on DuckDB and on PySpark: identical integers (with the `spark` extra)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.holder.evaluate import lattice_values, order_window

pytest.importorskip("pyspark", reason="pyspark is not installed (extra 'spark')")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # pyspark's own, about pandas
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

N = 600
KEY = b"sixteen secret bytes"
x, y, g = nw.column("x"), nw.column("y"), nw.column("g")
STATISTICS = [
    nw.Mean(x, x**2, abs(x) ** 0.5, x.clip(-1, 0.25)),
    nw.Sum(x * y, x.between(-1, 1)),
    nw.Count(g.equals("b")),
    nw.Histogram("g"),
    nw.Histogram("x", [-1, 0, 1.5]),
    nw.Marginals(["g", "h"]),
    nw.Moments(["x"], "y", centre={"x": 0.1}, scale={"y": 3}),
    nw.Moments(["x"], "y", shrink=1),
    nw.Moments(["x"], "y", average=6),
    nw.TruncatedSum([x], "x", 0, 1),
]


def schema() -> nw.Schema:
    columns = {"x": nw.Bounded(-2.5, 3), "y": nw.Bounded(9, 10), "g": nw.Levels(["a", "b"]), "h": nw.Levels([0, 1, 2])}
    return nw.Schema(columns, n=N, neighbours="change-one")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[nw.Table, nw.Table]]:
    from pyspark.sql import SparkSession

    patch = pytest.MonkeyPatch()
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "id": rng.permutation(N),
            "x": rng.normal(scale=2, size=N),
            "y": rng.uniform(8.9, 10.1, N),
            "g": rng.choice(["a", "b"], N),
            "h": rng.integers(0, 3, N),
        }
    )
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    try:
        session.createDataFrame(frame).createOrReplaceTempView("people")
        yield nw.Table.read(frame, schema(), order="id"), nw.Table.read(spark_table(session), schema(), order="id")
    finally:
        session.stop()
        patch.undo()


def spark_table(session: Any) -> Any:
    import ibis

    return ibis.pyspark.connect(session).table("people")


def test_the_engines_are_two(tables: tuple[nw.Table, nw.Table]) -> None:
    assert [table.engine for table in tables] == ["duckdb", "pyspark"]


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
@pytest.mark.parametrize("part", [None, ("1/3", "2/3")])
def test_both_engines_sum_to_the_same_integers(
    statistic: Any, part: tuple[str, str] | None, tables: tuple[nw.Table, nw.Table]
) -> None:
    if part is not None and str(statistic).endswith("average=6)"):
        part = ("0", "1/2")
    plan = nw.plan(statistic, schema(), guarantee=nw.PureDP(1), part=part)
    duck, spark = (lattice_values(table, plan) for table in tables)
    assert duck == spark


def test_both_engines_see_the_same_order_statistics_and_fingerprints(tables: tuple[nw.Table, nw.Table]) -> None:
    plan = nw.plan(nw.Median(x), schema(), guarantee=nw.PureDP(1))
    duck, spark = (order_window(table, x, plan, rank=N // 2, reach=20) for table in tables)
    assert duck.values.tolist() == spark.values.tolist()
    assert tables[0].fingerprint(KEY) == tables[1].fingerprint(KEY)
    assert tables[0].fingerprint(KEY, arranged=True) == tables[1].fingerprint(KEY, arranged=True)


def test_a_release_from_spark_is_a_release(tables: tuple[nw.Table, nw.Table], tmp_path: Path) -> None:
    plan = nw.plan(nw.Mean(x), schema(), guarantee=nw.PureDP(1))
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        first = nw.make_release(tables[1], plan, ledger=ledger)
        # The same records on another engine: the ledger knows them, and the request is already paid.
        assert nw.make_release(tables[0], plan, ledger=ledger) == first
