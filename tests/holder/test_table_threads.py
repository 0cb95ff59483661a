"""One table, eight threads: every evaluation gives the integers that one thread gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ibis
import numpy as np
import pytest

import noisewise as nw
from noisewise.holder.evaluate import lattice_values

N = 400
SCHEMA = nw.Schema({"x": nw.Bounded(0, 1), "g": nw.Levels(["a", "b", "c"])}, n=N, neighbours="change-one")
STATISTICS = (nw.Mean("x", nw.column("x") ** 2), nw.Histogram("g"), nw.Histogram("x", [0.2, 0.5]))


def tables(rng, tmp_path):
    columns = {"x": rng.random(N), "g": rng.choice(["a", "b", "c"], N)}
    path = tmp_path / "records.csv"
    lines = [f"{x!r},{g}" for x, g in zip(columns["x"].tolist(), columns["g"], strict=True)]
    path.write_text("\n".join(["x,g", *lines, ""]))
    database = ibis.duckdb.connect()
    database.create_table("records", ibis.memtable({name: list(column) for name, column in columns.items()}))
    return {"dict": columns, "csv": str(path), "ibis": database.table("records")}


@pytest.mark.parametrize("kind", ["dict", "csv", "ibis"])
def test_eight_threads_get_the_integers_of_one(rng, tmp_path, kind):
    table = nw.Table.read(tables(rng, tmp_path)[kind], SCHEMA)
    plans = [nw.plan(statistic, SCHEMA, guarantee=nw.PureDP(1)) for statistic in STATISTICS]
    alone = [lattice_values(table, plan) for plan in plans]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda k: lattice_values(table, plans[k % 3]), range(48)))
    assert found == [alone[k % 3] for k in range(48)]


def test_thousands_of_edges_are_a_shallow_query(rng):
    where = nw.Schema({"x": nw.Bounded(0, 1)}, n=N, neighbours="change-one")
    edges = np.unique(np.concatenate([rng.random(1200), [0.5]]))
    x = np.concatenate([rng.random(N - 3), [0.0, 0.5, 1.0]])  # on an edge, and at both ends
    plan = nw.plan(nw.Histogram("x", edges.tolist()), where, guarantee=nw.PureDP(1))
    counts, _ = np.histogram(x, np.concatenate([[0.0], edges, [1.0]]))
    assert lattice_values(nw.Table.read({"x": x}, where), plan) == tuple(counts.tolist())
