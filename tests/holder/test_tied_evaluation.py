"""Tied tables of records in a database: the integers of a plain loop over records, whatever the engine and the part."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.holder.evaluate import lattice_values
from noisewise.likelihood.simulate import noisy_values
from noisewise.models.simulate import simulate

PLACES = ["library", "off", "canteen"]
N = 150
CLIQUES = [[f"t{k}", f"t{k + 1}"] for k in range(4)]


def schema(neighbours: str = "change-one", n: int = N) -> nw.Schema:
    size = {"n": n} if neighbours == "change-one" else {"n_max": 2 * n}
    return nw.Schema({f"t{k}": nw.Levels(PLACES) for k in range(5)}, neighbours=neighbours, **size)


def drawn(n: int = N) -> pd.DataFrame:
    """Days of people who are mostly off, some of them always; different in every run."""
    rng = np.random.default_rng()
    data = pd.DataFrame({f"t{k}": rng.choice(PLACES, n, p=[0.2, 0.6, 0.2]) for k in range(5)})
    data.loc[:3] = "off"
    data["person"] = [f"person {i}" for i in range(n)]
    return data


def by_loop(data: pd.DataFrame, null: str | None) -> tuple[int, ...]:
    """In records, from the definition, times the unit."""
    total: Counter[tuple[str, str]] = Counter()
    for day in data[[f"t{k}" for k in range(5)]].to_numpy().tolist():
        steps = [step for step in itertools.pairwise(day) if null is None or step != (null, null)]
        for step in steps:
            total[step] += Fraction(1, len(steps))
    unit = 4 if null is None else 12
    exact = [unit * total[a, b] for a in PLACES for b in PLACES]
    assert all(Fraction(v).denominator == 1 for v in exact)
    return tuple(int(v) for v in exact)


def coded(data: pd.DataFrame) -> dict[str, Any]:
    return {name: np.array([PLACES.index(place) for place in data[name]]) for name in schema().columns}


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("null", [None, "off"])
def test_the_database_counts_the_very_integers_of_a_loop_over_records(null, neighbours, tmp_path: Path):
    data = drawn()
    plan = nw.plan(nw.Marginals(*CLIQUES, tied=True, null=null), schema(neighbours), guarantee=nw.PureDP(1))
    data.to_csv(tmp_path / "days.csv", index=False)
    data.sample(frac=1).to_parquet(tmp_path / "days.parquet", row_group_size=7)
    expected = by_loop(data, null)
    assert tuple(plan.statistic.value(coded(data), plan.schema)) == expected
    for source in (data, tmp_path / "days.csv", tmp_path / "days.parquet"):
        assert lattice_values(nw.Table.read(source, plan.schema), plan) == expected


def test_another_engine_counts_the_same():
    data = drawn()
    connection = ibis.sqlite.connect()
    connection.create_table("days", data)
    for null in (None, "off"):
        plan = nw.plan(nw.Marginals(*CLIQUES, tied=True, null=null), schema(), guarantee=nw.PureDP(1))
        assert lattice_values(nw.Table.read(connection.table("days"), plan.schema), plan) == by_loop(data, null)


@pytest.mark.parametrize("part", [("0", "1/3"), ("1/3", "1")])
def test_a_part_is_the_table_of_its_own_records(part):
    data = drawn()
    plan = nw.plan(nw.Marginals(*CLIQUES, tied=True, null="off"), schema(), guarantee=nw.PureDP(1), part=part)
    own = data[50 * (part[0] == "1/3") : N // 3 if part[0] == "0" else N]
    assert lattice_values(nw.Table.read(data, schema()), plan) == by_loop(own, "off")


def test_no_records_and_records_always_at_null_make_an_empty_table():
    plan = nw.plan(nw.Marginals(*CLIQUES, tied=True, null="off"), schema("add-remove"), guarantee=nw.PureDP(1))
    for n in (0, 3):
        data = pd.DataFrame({f"t{k}": pd.Series(["off"] * n, dtype="str") for k in range(5)})
        assert lattice_values(nw.Table.read(data, plan.schema), plan) == (0,) * 9


def test_a_release_is_made_and_read_back_in_records(tmp_path: Path):
    """At epsilon = 1000 the noise is below half a record but for once in 10^100."""
    data = drawn()
    plan = nw.plan(nw.Marginals(*CLIQUES, tied=True, null="off"), schema(), guarantee=nw.PureDP(1000))
    with nw.Ledger.open(tmp_path / "ledger", limit=plan.guarantee) as ledger:
        release = nw.make_release(nw.Table.read(data, schema()), plan, ledger=ledger)
    release.save(tmp_path / "tied.json")
    found = nw.Release.load(tmp_path / "tied.json")
    assert found == release
    assert np.abs(found.estimate - np.array(by_loop(data, "off")) / 12).max() < 0.5


@pytest.mark.parametrize("null", [None, "off"])
def test_simulation_counts_what_the_holder_counts(null):
    """The same records with noise that is next to nothing: below half a unit but for once in 10^30."""
    one, other = drawn(), drawn()
    plan = nw.plan(nw.Marginals(*CLIQUES, tied=True, null=null), schema(), guarantee=nw.PureDP(4000))
    both = {name: np.stack([coded(one)[name], coded(other)[name]]) for name in schema().columns}
    found = noisy_values(np.random.default_rng(), plan, both)
    assert [tuple(row) for row in found.tolist()] == [by_loop(one, null), by_loop(other, null)]


def test_records_of_a_population_are_simulated_one_by_one_also_where_many_are_asked_for():
    """All but surely every record is at one place all the time, so the table is known."""
    n = 300_000
    population = nw.Joint(**{f"t{k}": nw.Categorical(p=[1e-14, 1e-14, 1 - 2e-14]) for k in range(5)})
    plan = nw.plan(nw.Marginals(*CLIQUES, tied=True, null="off"), schema(n=n), guarantee=nw.PureDP(4000))
    release = simulate(plan, population, at={}, approximate=True)
    assert release.simulated
    assert release.value == (0,) * 8 + (12 * n,)
    assert release.estimate.tolist() == [0] * 8 + [n]
