"""Sums do not depend on order, chunking or engine (B3): the database against exact Python integers on the same doubles.

The oracle evaluates each feature on NumPy columns (one rounding an operation), and does everything after that in
Fractions: floor(v/step + 1/2), clamped, summed. No tolerance anywhere but for general powers, which promise one step.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import noisewise as nw
from noisewise.errors import InvalidData
from noisewise.holder import evaluate
from noisewise.holder.evaluate import IbisRows, lattice_values
from noisewise.lattice import entry_steps, lattice_for
from noisewise.statistics.enclosure import feature_range

x, y, z, g, h = (nw.column(name) for name in "xyzgh")
COLUMNS = {
    "x": nw.Bounded(-3, 7),
    "y": nw.Bounded(0, 250),
    "z": nw.Bounded(0, 1),
    "g": nw.Levels(["a", "b", "c"]),
    "h": nw.Levels([10, 20]),
}
N = 240
THIRD = (Fraction(1, 3), Fraction(2, 3))

SUMS: dict[str, Any] = {
    "mean": nw.Mean(x, x**2, abs(x), (x - 1).clip(-2, 2), z**0.5, 0.1 * y, (x - 2) / 3),
    "sum": nw.Sum(x * y, 3 * z - x, x.between(0, 3) * y, x**3),
    "sum of levels": nw.Sum(g.equals("b") * y, h.equals(20) * x),
    "comparisons": nw.Sum(x > 3, x >= 3, (x < 0) * y, x <= 0.1, x > 0, (x > z) * y, x.between(3, 3)),
    "count": nw.Count(x.between(0, 3)),
    "count above": nw.Count((x > 0) * g.equals("b")),
    "count of a level": nw.Count(g.equals("b")),
    "count of both": nw.Count(g.equals("b") * x.between(-3, 3)),
    "truncated sum": nw.TruncatedSum([y, x, y * z], "x", 0, 5),
    "moments": nw.Moments(["x", "z"], "y"),
    "moments without intercept": nw.Moments(["x", "z"], "y", intercept=False, parts=("xx", "xy")),
    "centred": nw.Moments(["x", "z"], "y", centre={"x": "0.3", "y": 100}),
    "scaled": nw.Moments(["x", "z"], "y", centre={"y": 100}, scale={"x": 3, "y": "33.3"}),
    "shrunk": nw.Moments(["x", "z"], "y", scale={"x": 3, "y": 100}, shrink="1.3"),
    "fourth": nw.Moments(["x", "z"], "y", fourth=True),
}
TABLES: dict[str, Any] = {
    "levels": nw.Histogram("g"),
    "edges": nw.Histogram("x", [-3, -1.5, 0, 0.1, 3, 7]),
    "marginals": nw.Marginals(["g", "h"], ["h"]),
}
AVERAGED: dict[str, Any] = {
    "averaged": nw.Moments(["x", "z"], "y", average=4),
    "averaged, shrunk": nw.Moments(["x", "z"], "y", scale={"x": 3, "y": 100}, shrink="1.3", average=8),
}
EIGENVALUE = nw.SmallestEigenvalue(["x", "z"], shrink="1.5", centre={"x": 2})
GUARANTEES = [nw.PureDP(1), nw.GaussianDP(20)]


def schema(n: int = N, neighbours: str = "change-one") -> nw.Schema:
    return nw.Schema(COLUMNS, neighbours=neighbours, **({"n": n} if neighbours == "change-one" else {"n_max": 2 * n}))


def drawn(n: int = N) -> pd.DataFrame:
    """Records with values beyond, at and beside the bounds and edges, and ordinary ones; different in every run."""
    rng = np.random.default_rng()
    data = pd.DataFrame(
        {
            "x": rng.normal(1, 4, n),
            "y": rng.gamma(2, 60, n),
            "z": rng.uniform(-0.1, 1.1, n),
            "g": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
            "h": rng.choice([10, 20], n),
            "person": [f"person {i}" for i in range(n)],
        }
    )
    edges = [-3.0, 7.0, 0.0, -0.0, 3.0, np.nextafter(3, 4), np.nextafter(0, 1), 0.1, -1.5, 5.0, 1e-300, 2.5]
    data.loc[: len(edges) - 1, "x"] = edges[:n]
    data.loc[: min(n, 3) - 1, "y"] = [0.0, 250.0, 0.1][:n]
    return data


def cleaned(data: pd.DataFrame) -> dict[str, Any]:
    """The columns as the schema declares them, by NumPy: clamped numbers, coded levels."""
    columns: dict[str, Any] = {}
    for name, column in COLUMNS.items():
        if isinstance(column, nw.Bounded):
            columns[name] = np.clip(data[name].to_numpy(float), column.low, column.high)
        else:
            columns[name] = np.array([column.levels.index(value) for value in data[name].tolist()])
    return columns


# ---- the oracle ----


def to_lattice(values: Any, step: float, low: int, high: int) -> list[int]:
    exact = (math.floor(Fraction(float(v)) / Fraction(step) + Fraction(1, 2)) for v in np.atleast_1d(values))
    return [min(max(q, low), high) for q in exact]


def exact_sums(features: Sequence[Any], lattice: Any, data: pd.DataFrame, declared: nw.Schema) -> tuple[int, ...]:
    columns = cleaned(data)
    values = [np.broadcast_to(feature.value(columns, declared), len(data)) for feature in features]
    return tuple(sum(to_lattice(v, lattice.step[k], lattice.low[k], lattice.high[k])) for k, v in enumerate(values))


def exact_cells(statistic: Any, data: pd.DataFrame) -> tuple[int, ...]:
    """Counts by plain loops over records."""
    if isinstance(statistic, nw.Histogram) and statistic.edges is not None:
        inner = [edge for edge in statistic.edges if -3 < edge < 7]
        cells = [sum(edge <= value for edge in inner) for value in cleaned(data)["x"]]
        return tuple(cells.count(j) for j in range(len(inner) + 1))
    cliques = [("g",)] if isinstance(statistic, nw.Histogram) else [("g", "h"), ("h",)]
    counts: list[int] = []
    for clique in cliques:
        rows = list(zip(*(data[name].tolist() for name in clique), strict=True))
        cells = [()]
        for name in clique:
            cells = [(*cell, level) for cell in cells for level in COLUMNS[name].levels]
        counts += [rows.count(cell) for cell in cells]
    return tuple(counts)


def exact_averaged(statistic: Any, plan: nw.Plan, data: pd.DataFrame) -> tuple[int, ...]:
    declared, k = plan.part_schema, statistic.average
    entries = statistic.entries(declared)
    ranges = [feature_range(entry, declared) for entry in entries]
    fine = lattice_for(entry_steps(ranges), ranges)
    columns = cleaned(data)
    blocks = []
    for i, entry in enumerate(entries):
        integers = to_lattice(entry.value(columns, declared), fine.step[i], fine.low[i], fine.high[i])
        blocks.append([float(sum(integers[b : b + k])) * fine.step[i] for b in range(0, len(data), k)])
    totals = []
    for c, monomial in enumerate(statistic.monomials(declared)):
        products = [math.prod(blocks[i][b] for i in monomial) for b in range(len(data) // k)]
        values = [p / k if len(monomial) == 2 else p for p in products]
        totals.append(sum(to_lattice(values, plan.lattice.step[c], plan.lattice.low[c], plan.lattice.high[c])))
    return tuple(totals)


def expected(plan: nw.Plan, data: pd.DataFrame) -> tuple[int, ...]:
    statistic, declared = plan.statistic, plan.part_schema
    if isinstance(statistic, nw.Histogram | nw.Marginals):
        return exact_cells(statistic, data)
    if isinstance(statistic, nw.Moments) and statistic.average:
        return exact_averaged(statistic, plan, data)
    return exact_sums(statistic.row(declared), plan.lattice, data, declared)


def as_csv(data: pd.DataFrame, path: Path) -> Path:
    # repr writes the shortest decimal that reads back as the same double.
    lines = [",".join(data.columns)]
    lines += [
        ",".join(repr(v) if isinstance(v, float) else str(v) for v in row) for row in data.itertuples(index=False)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def as_parquet(data: pd.DataFrame, path: Path, row_group_size: int) -> Path:
    pa.parquet.write_table(pa.Table.from_pandas(data, preserve_index=False), path, row_group_size=row_group_size)
    return path


SOURCES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "csv": lambda data, d: as_csv(data, d / "r.csv"),
    "parquet": lambda data, d: as_parquet(data, d / "one.parquet", 10**6),
    "parquet, small row groups": lambda data, d: as_parquet(data, d / "many.parquet", 7),
    "pandas": lambda data, _: data,
    "polars": lambda data, _: pl.from_pandas(data),
    "arrow, chunked": lambda data, _: pa.concat_tables(
        pa.Table.from_pandas(data[i : i + 31], preserve_index=False) for i in range(0, len(data), 31)
    ),
}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return drawn()


@pytest.fixture(scope="module")
def tables(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, nw.Table]:
    """The same records from every kind of source, and two of them shuffled."""
    folder = tmp_path_factory.mktemp("sources")
    made = {name: nw.Table.read(make(data, folder), schema()) for name, make in SOURCES.items()}
    for name, source in (("shuffled pandas", "pandas"), ("shuffled small row groups", "parquet, small row groups")):
        (folder / name).mkdir()
        made[name] = nw.Table.read(SOURCES[source](data.sample(frac=1), folder / name), schema())
    return made


# ---- sums ----


@pytest.mark.parametrize("name", [*SUMS, *TABLES])
def test_the_database_sums_the_very_integers_that_exact_arithmetic_does(
    name: str, data: pd.DataFrame, tables: dict[str, nw.Table]
) -> None:
    statistic = (SUMS | TABLES)[name]
    for guarantee in GUARANTEES[: 2 if name in SUMS else 1]:
        plan = nw.plan(statistic, schema(), guarantee=guarantee)
        assert lattice_values(tables["pandas"], plan) == expected(plan, data), guarantee


@pytest.mark.parametrize("name", [*SUMS, *TABLES, "smallest eigenvalue"])
def test_sums_do_not_depend_on_order_chunking_or_file_format(name: str, tables: dict[str, nw.Table]) -> None:
    statistic = (SUMS | TABLES | {"smallest eigenvalue": EIGENVALUE})[name]
    plan = nw.plan(statistic, schema(), guarantee=nw.PureDP(1))
    assert len({lattice_values(table, plan) for table in tables.values()}) == 1


@pytest.mark.parametrize("name", AVERAGED)
def test_averaged_rows_are_summed_block_by_block_in_exact_arithmetic(
    name: str, data: pd.DataFrame, tables: dict[str, nw.Table]
) -> None:
    for guarantee in GUARANTEES:
        plan = nw.plan(AVERAGED[name], schema(), guarantee=guarantee)
        exact = expected(plan, data)
        for source in ("csv", "parquet, small row groups", "polars"):
            assert lattice_values(tables[source], plan) == exact, source


def test_the_smallest_eigenvalue_is_that_of_the_exactly_summed_gram_matrix(
    data: pd.DataFrame, tables: dict[str, nw.Table]
) -> None:
    plan = nw.plan(EIGENVALUE, schema(), guarantee=nw.PureDP(1))
    row, step = EIGENVALUE.gram_row(schema()), EIGENVALUE.gram_step(schema())
    lattice = lattice_for([step] * len(row), [feature_range(feature, schema()) for feature in row])
    a, b, c = (float(Fraction(total) * Fraction(step)) for total in exact_sums(row, lattice, data, schema()))
    smallest = (a + c) / 2 - math.hypot((a - c) / 2, b)  # of [[a, b], [b, c]]
    (found,) = lattice_values(tables["pandas"], plan)
    assert abs(found * plan.lattice.step[0] - smallest) <= plan.lattice.step[0] / 2 + 1e-11 * (a + c)
    (unrounded,) = EIGENVALUE.value(cleaned(data), schema())
    assert found * plan.lattice.step[0] == pytest.approx(unrounded, abs=2 * plan.lattice.step[0])


def test_a_general_power_a_log_and_an_exp_move_by_at_most_the_step_they_declare(
    data: pd.DataFrame, tables: dict[str, nw.Table]
) -> None:
    powers = nw.Mean(z ** Fraction(3, 10), abs(x) ** 1.7, (y + 1).log(), (x / 3).exp(), (z + 0.01).log() * y)
    plan = nw.plan(powers, schema(), guarantee=nw.PureDP(1))
    for found, exact in zip(lattice_values(tables["pandas"], plan), expected(plan, data), strict=True):
        assert abs(found - exact) <= N


@pytest.mark.parametrize("name", ["sum", "sum of levels", "count", "truncated sum", "moments", "shrunk", *TABLES])
def test_add_remove_sums_the_same_integers_and_counts_the_intercept(name: str, data: pd.DataFrame) -> None:
    private = schema(neighbours="add-remove")
    plan = nw.plan((SUMS | TABLES)[name], private, guarantee=nw.PureDP(1))
    found = lattice_values(nw.Table.read(data, private), plan)
    assert found == expected(plan, data)
    if name == "moments":
        assert plan.statistic.labels(private)[0] == "n"
        assert found[0] * Fraction(plan.lattice.step[0]) == N


def test_the_oracle_sees_a_skipped_clamp_a_lost_record_and_a_float_sum(
    data: pd.DataFrame, tables: dict[str, nw.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: each of these faults changes the integers."""
    # Eight sums: that a float sum rounds to all eight exact ones by chance is less likely than 1e-6.
    several = nw.Sum(x, x * y, x**2, x**3, y**2, y * z, z**2, x * z)
    plan = nw.plan(several, schema(), guarantee=nw.PureDP(1))
    true = expected(plan, data)
    assert lattice_values(tables["pandas"], plan) == true
    unclamped = exact_sums(plan.statistic.row(schema()), plan.lattice, data.assign(x=data.x.clip(-2, 6)), schema())
    assert unclamped != true
    assert expected(plan, data[:-1]) != true
    floats = [float(np.sum(f.value(cleaned(data), schema()))) for f in plan.statistic.row(schema())]
    assert tuple(math.floor(v / s + 0.5) for v, s in zip(floats, plan.lattice.step, strict=True)) != true
    rounded = evaluate.lattice_integer
    monkeypatch.setattr(evaluate, "lattice_integer", lambda v, *where: rounded(v * 1.001, *where))
    assert lattice_values(tables["pandas"], plan) != true


@pytest.mark.parametrize(("n", "value"), [(1, -3.0), (1, 1e6), (2, 7.0), (2, -1e6)])
def test_one_record_and_values_at_the_bounds_are_summed_like_any_other(n: int, value: float) -> None:
    data = drawn(n).assign(x=value)
    table = nw.Table.read(data, schema(n))
    for name in ("mean", "centred", "count"):
        plan = nw.plan(SUMS[name], schema(n), guarantee=nw.PureDP(1))
        assert lattice_values(table, plan) == expected(plan, data)


def test_a_table_whose_number_of_records_changed_under_us_is_refused(data: pd.DataFrame) -> None:
    connection = ibis.duckdb.connect()
    people = connection.create_table("people", pa.Table.from_pandas(data, preserve_index=False))
    table = nw.Table.read(people, schema())
    plan = nw.plan(nw.Mean(x), schema(), guarantee=nw.PureDP(1))
    assert lattice_values(table, plan) == expected(plan, data)
    connection.raw_sql("DELETE FROM people WHERE person = 'person 5'")
    with pytest.raises(InvalidData, match="Nothing was spent"):
        lattice_values(table, plan)


# ---- parts ----


def test_position_parts_hold_their_positions_and_add_up_to_the_whole(
    data: pd.DataFrame, tables: dict[str, nw.Table]
) -> None:
    cuts = [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)]
    parts = list(itertools.pairwise(cuts))
    for name in ("csv", "parquet, small row groups", "polars"):
        pieces = []
        for part in parts:
            plan = nw.plan(nw.Histogram("x", [0, 3]), schema(), guarantee=nw.PureDP(1), part=part)
            inside = data[math.floor(part[0] * N) : math.floor(part[1] * N)]
            pieces.append(lattice_values(tables[name], plan))
            assert pieces[-1] == expected(plan, inside)
        whole = nw.plan(nw.Histogram("x", [0, 3]), schema(), guarantee=nw.PureDP(1))
        assert tuple(map(sum, zip(*pieces, strict=True))) == lattice_values(tables[name], whole)


@pytest.mark.parametrize("name", ["mean", "shrunk", "averaged", "marginals"])
def test_a_part_is_evaluated_on_its_own_lattice(name: str, data: pd.DataFrame, tables: dict[str, nw.Table]) -> None:
    plan = nw.plan((SUMS | TABLES | AVERAGED)[name], schema(), guarantee=nw.PureDP(1), part=THIRD)
    assert lattice_values(tables["csv"], plan) == expected(plan, data[N // 3 : 2 * N // 3])


def test_an_order_column_restores_the_positions_of_a_shuffled_file(data: pd.DataFrame) -> None:
    numbered = data.assign(row=np.arange(N) * 3 - 50)
    plan = nw.plan(nw.Mean(x, y), schema(), guarantee=nw.PureDP(1), part=THIRD)
    table = nw.Table.read(numbered.sample(frac=1), schema(), order="row")
    assert lattice_values(table, plan) == expected(plan, data[N // 3 : 2 * N // 3])


def place(person: str) -> Fraction:
    """Where md5 puts a key on [0, 1)."""
    return Fraction(int(hashlib.md5(person.encode(), usedforsecurity=False).hexdigest()[:8], 16), 2**32)


def test_key_parts_hold_the_records_whose_key_hashes_into_them(data: pd.DataFrame) -> None:
    private = schema(neighbours="add-remove")
    table = nw.Table.read(data.sample(frac=1), private, key="person")
    for part in ((Fraction(0), Fraction(1, 3)), THIRD, (Fraction(2, 3), Fraction(1))):
        plan = nw.plan(nw.Sum(x, y), private, guarantee=nw.PureDP(1), part=part)
        inside = data[[part[0] <= place(person) < part[1] for person in data.person]]
        assert 0 < len(inside) < N
        assert lattice_values(table, plan) == expected(plan, inside)


def test_a_key_part_without_records_sums_to_zero() -> None:
    private = schema(neighbours="add-remove")
    one = drawn(1)
    part = (Fraction(0), Fraction(1, 2)) if place("person 0") >= Fraction(1, 2) else (Fraction(1, 2), Fraction(1))
    table = nw.Table.read(one, private, key="person")
    for statistic in (SUMS["sum"], SUMS["moments"], SUMS["count"], *TABLES.values()):
        plan = nw.plan(statistic, private, guarantee=nw.PureDP(1), part=part)
        assert set(lattice_values(table, plan)) == {0}
        whole = nw.plan(statistic, private, guarantee=nw.PureDP(1))
        assert lattice_values(table, whole) == expected(whole, one)


# ---- order statistics and records ----


@pytest.mark.parametrize("feature", [x, abs(x), x * z, y.clip(20, 90)], ids=str)
def test_the_window_around_a_rank_is_a_piece_of_the_sorted_lattice_values(
    feature: Any, data: pd.DataFrame, tables: dict[str, nw.Table]
) -> None:
    plan = nw.plan(nw.Median(feature), schema(), guarantee=nw.PureDP(1))
    lattice = plan.lattice
    values = feature.value(cleaned(data), schema())
    ascending = np.sort(to_lattice(values, lattice.step[0], lattice.low[0], lattice.high[0]))
    for source in ("pandas", "csv", "shuffled pandas"):
        for rank, reach in ((1, 3), (120, 0), (120, 5), (120, 10**6), (240, 2), (239, 7)):
            window = IbisRows(tables[source], plan).window(feature, plan.lattice, rank=rank, reach=reach)
            first, last = max(1, rank - reach), min(N, rank + reach)
            assert window.first == first
            assert window.values[0].tolist() == ascending[first - 1 : last].tolist()


def test_the_rank_of_a_point_counts_the_records_strictly_below_it(
    data: pd.DataFrame, tables: dict[str, nw.Table]
) -> None:
    plan = nw.plan(nw.Quantile(x, "0.9"), schema(), guarantee=nw.PureDP(1))
    step, low, high = plan.lattice.step[0], plan.lattice.low[0], plan.lattice.high[0]
    values = to_lattice(cleaned(data)["x"], step, low, high)
    for point in (low - 1, low, low + 1, values[50], values[50] + 1, 0, 1, high, high + 1):
        assert IbisRows(tables["parquet"], plan).rank_below(x, plan.lattice, point) == sum(
            value < point for value in values
        )


def test_order_statistics_of_a_part_see_only_that_part(data: pd.DataFrame, tables: dict[str, nw.Table]) -> None:
    plan = nw.plan(nw.Maximum(x), schema(), guarantee=nw.PureDP(1), part=THIRD)
    values = to_lattice(cleaned(data)["x"][80:160], plan.lattice.step[0], plan.lattice.low[0], plan.lattice.high[0])
    window = IbisRows(tables["csv"], plan).window(x, plan.lattice, rank=80, reach=4)
    assert window.values[0].tolist() == sorted(values)[-5:]
    assert IbisRows(tables["csv"], plan).rank_below(x, plan.lattice, 0) == sum(value < 0 for value in values)


def test_each_record_answers_its_own_lattice_value_or_cell(data: pd.DataFrame, tables: dict[str, nw.Table]) -> None:
    columns = cleaned(data)

    def answers(statistic: nw.Records) -> list[int]:
        plan = nw.plan(statistic, schema(), guarantee=nw.PureDP(1))
        return sorted(lattice_values(tables["parquet, small row groups"], plan))

    numeric = nw.plan(nw.Records(x), schema(), guarantee=nw.PureDP(1)).lattice
    assert answers(nw.Records(x)) == sorted(to_lattice(columns["x"], numeric.step[0], numeric.low[0], numeric.high[0]))
    assert answers(nw.Records(x, cells=[-1.5, 0, 3])) == sorted(
        sum(edge <= v for edge in (-1.5, 0, 3)) for v in columns["x"]
    )
    assert answers(nw.Records(g)) == sorted(columns["g"].tolist())
    assert answers(nw.Records(x.between(0, 3))) == sorted(int(0 <= v <= 3) for v in columns["x"])
    assert answers(nw.Records(h.equals(20))) == sorted(int(v == 1) for v in columns["h"])


# ---- size (another engine: test_spark.py) ----


@pytest.mark.slow
def test_ten_million_rows_sum_to_the_same_integers_in_any_order(tmp_path: Path) -> None:
    n = 10**7
    rng = np.random.default_rng()
    values = rng.normal(1, 4, n)
    public = nw.Schema({"x": nw.Bounded(-3, 7)}, n=n, neighbours="change-one")
    plan = nw.plan(nw.Mean(x, x**2, abs(x)), public, guarantee=nw.PureDP(1))
    found = []
    for name, order in (("a", slice(None)), ("b", rng.permutation(n))):
        path = tmp_path / f"{name}.parquet"
        pa.parquet.write_table(pa.table({"x": values[order]}), path, row_group_size=10**6 if name == "a" else 77_777)
        found.append(lattice_values(nw.Table.read(path, public), plan))
    clipped = np.clip(values, -3, 7)
    exact = []
    for k, feature in enumerate((clipped, clipped * clipped, np.abs(clipped))):
        steps = np.floor(feature / plan.lattice.step[k] + 0.5).astype(np.int64)
        bounded = np.clip(steps, plan.lattice.low[k], plan.lattice.high[k])
        exact.append(sum(int(chunk.astype(object).sum()) for chunk in np.array_split(bounded, 100)))
    assert found[0] == found[1] == tuple(exact)
