"""Tied tables: one table for all cliques, every record with the same weight, against plain loops over records."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.audit.cases import trace_schema
from noisewise.audit.exact import exact_loss
from noisewise.audit.neighbours import data_of, evaluated_move, worst_move
from noisewise.errors import InvalidArgument, InvalidRelease, NoisewiseError, Unsupported
from noisewise.likelihood.count_models import TableModel
from noisewise.likelihood.naive import NaiveLikelihood
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.populations.cleaned import cell_probabilities
from noisewise.statistics.text import statistic_from_dict

TWO, THREE = ["off", "on"], ["off", "a", "b"]
OTHER = [7, 8, "off", 9]
RELATIONS = ["change-one", "add-remove"]

# Name: the cliques, and the levels of every column.
SHAPES: dict[str, tuple[list[list[str]], dict[str, list[Any]]]] = {
    "chain of three": ([["t0", "t1"], ["t1", "t2"]], {"t0": THREE, "t1": THREE, "t2": THREE}),
    "chain of four": ([["t0", "t1"], ["t1", "t2"], ["t2", "t3"]], {f"t{k}": THREE for k in range(4)}),
    "binary chain": ([["t0", "t1"], ["t1", "t2"], ["t2", "t3"]], {f"t{k}": TWO for k in range(4)}),
    "binary star": ([["c", "u"], ["c", "v"], ["c", "w"]], dict.fromkeys("cuvw", TWO)),
    "binary ring": ([["u", "v"], ["v", "w"], ["w", "u"]], dict.fromkeys("uvw", TWO)),
    "ring": ([["u", "v"], ["v", "w"], ["w", "u"]], dict.fromkeys("uvw", THREE)),
    "pairs apart": ([["u", "x"], ["v", "y"]], {"u": TWO, "v": TWO, "x": OTHER, "y": OTHER}),
    "triples": ([["u", "v", "w"], ["v", "w", "x"]], dict.fromkeys("uvwx", TWO)),
}


def schema_of(shape: str, neighbours: str = "change-one", n: int = 9) -> nw.Schema:
    columns = {name: nw.Levels(levels) for name, levels in SHAPES[shape][1].items()}
    return nw.Schema(columns, neighbours=neighbours, **({"n": n} if neighbours == "change-one" else {"n_max": n}))


def tied(shape: str, null: str | None = None) -> nw.Marginals:
    return nw.Marginals(*SHAPES[shape][0], tied=True, null=null)


def shares(shape: str, null: str | None, record: Sequence[Any]) -> list[Fraction]:
    """What one record (levels by column) gives to each cell, from the definition."""
    cliques, columns = SHAPES[shape]
    mine = dict(zip(columns, record, strict=True))
    seen = [tuple(mine[name] for name in clique) for clique in cliques]
    counted = [cell for cell in seen if any(level != null for level in cell)]
    cells = list(itertools.product(*(columns[name] for name in cliques[0])))
    return [Fraction(counted.count(cell), len(counted)) if counted else Fraction(0) for cell in cells]


def coded(shape: str, records: Sequence[Sequence[Any]]) -> dict[str, Any]:
    columns = SHAPES[shape][1]
    return {name: np.array([levels.index(r[k]) for r in records]) for k, (name, levels) in enumerate(columns.items())}


def every_record(shape: str) -> list[tuple[Any, ...]]:
    return list(itertools.product(*SHAPES[shape][1].values()))


def farthest(table: Any, norm: int, neighbours: str) -> float:
    """The largest move over all pairs of records, or all records."""
    if neighbours == "add-remove":
        return float(np.linalg.norm(table, ord=norm, axis=1).max())
    return max(float(np.linalg.norm(table - row, ord=norm, axis=1).max()) for row in table)


# ---- the value ----


@pytest.mark.parametrize("null", [None, "off"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_record_gives_each_cell_its_share_in_whole_units(shape, null):
    statistic, records = tied(shape, null), every_record(shape)
    alone = {name: values[:, None] for name, values in coded(shape, records).items()}
    found = statistic.value(alone, schema_of(shape))
    expected = [[statistic.unit() * share for share in shares(shape, null, record)] for record in records]
    assert all(share.denominator == 1 for row in expected for share in row)
    assert found.tolist() == [[int(share) for share in row] for row in expected]


def test_the_value_sums_over_the_last_axis(rng):
    schema, statistic = schema_of("chain of four"), tied("chain of four", "off")
    records = {name: rng.integers(0, 3, (2, 5, 9)) for name in schema.columns}
    found = statistic.value(records, schema)
    assert found.shape == (2, 5, 9)
    for i, j in itertools.product(range(2), range(5)):
        own = statistic.value({name: values[i, j] for name, values in records.items()}, schema)
        assert found[i, j].tolist() == own.tolist()


def test_without_null_a_tied_table_is_the_sum_of_the_tables(rng):
    schema, statistic = schema_of("chain of four"), tied("chain of four")
    records = {name: rng.integers(0, 3, 9) for name in schema.columns}
    each = nw.Marginals(*SHAPES["chain of four"][0]).value(records, schema)
    assert statistic.value(records, schema).tolist() == each.reshape(3, 9).sum(axis=0).tolist()
    assert statistic.unit() == 3


def test_the_unit_is_divisible_by_every_number_of_cliques():
    cliques = [[f"t{k}", f"t{k + 1}"] for k in range(28)]
    unit = nw.Marginals(*cliques, tied=True, null="off").unit()
    assert unit == math.lcm(*range(1, 29))
    assert nw.Marginals(*cliques, tied=True).unit() == 28
    assert nw.Marginals(*cliques).unit() == 1


# ---- sensitivity ----


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("null", [None, "off"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_sensitivity_is_one_whole_record_and_says_where_it_is_attained(shape, null, norm, neighbours):
    schema, statistic = schema_of(shape, neighbours), tied(shape, null)
    declared, unit = statistic.sensitivity(schema, norm=norm), statistic.unit()
    brute = unit * farthest(np.array([shares(shape, null, r) for r in every_record(shape)], float), norm, neighbours)
    cells = 2 if neighbours == "change-one" else 1
    assert float(declared.value) == pytest.approx(unit * (cells if norm == 1 else math.sqrt(cells)), rel=1e-12)
    assert brute <= float(declared.value) * (1 + 1e-12)
    assert declared.attained <= brute * (1 + 1e-12)
    assert declared.is_exact == (brute >= float(declared.value) * (1 - 1e-9))


@pytest.mark.parametrize("norm", [1, 2])
def test_only_a_ring_of_two_levels_with_null_does_not_attain_its_bound(norm):
    """All on is the one record in one cell there; L1 needs no second one, only records with no cell in common."""
    declared = tied("binary ring", "off").sensitivity(schema_of("binary ring"), norm=norm)
    assert declared.is_exact == (norm == 1)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("null", [None, "off"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_pair_of_records_exceeds_the_sensitivity_under_uneven_weights(shape, null, norm, neighbours, rng):
    schema, statistic = schema_of(shape, neighbours), tied(shape, null)
    table = np.array([shares(shape, null, r) for r in every_record(shape)], float)
    for _ in range(5):
        weights = [Fraction(int(w), 16) for w in rng.integers(1, 64, table.shape[1])]
        declared = statistic.sensitivity(schema, norm=norm, weights=weights)
        brute = statistic.unit() * farthest(table * np.array(weights, float), norm, neighbours)
        assert declared.attained * (1 - 1e-12) <= brute <= float(declared.value) * (1 + 1e-12)
        usable = [w for j, w in enumerate(weights) if j != statistic.null_cell(schema)]
        heaviest = sorted(usable)[-2 if neighbours == "change-one" else -1 :]
        assert float(declared.value) == pytest.approx(
            statistic.unit() * np.linalg.norm(np.array(heaviest, float), ord=norm), rel=1e-12
        )


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("null", [None, "off"])
def test_the_audit_finds_the_worst_neighbours_and_catches_half_the_noise(null, neighbours):
    plan = nw.plan(tied("chain of three", null), trace_schema(3, neighbours), guarantee=nw.PureDP(1))
    assert exact_loss(plan).holds
    law = type(plan.law)(tuple(scale / 2 for scale in plan.law.scale), plan.law.step)
    assert not exact_loss(replace(plan, law=law)).holds
    move = worst_move(plan)
    assert sum(map(abs, move.steps)) == plan.sensitivity.value
    rest = [{"t0": 1.0, "t1": 0.0, "t2": 0.0}] * 2
    sides = ([move.left], [] if move.came is None else [move.came])
    tables = [nw.Table.read(data_of([*side, *rest], plan.schema), plan.schema) for side in sides]
    assert evaluated_move(plan, *tables) == move.steps


# ---- plans, texts and files ----


def test_a_plan_and_a_release_read_in_records():
    schema, statistic = schema_of("chain of four"), tied("chain of four", "off")
    plan = nw.plan(statistic, schema, guarantee=nw.PureDP(1), mechanism="geometric")
    assert plan.law.scale == (12.0,) * 9
    assert (plan.lattice.low, plan.lattice.high) == ((0,) * 9, (6,) * 9)
    assert plan.divisor == 6
    assert plan.noise[0].sd == pytest.approx(plan.law.sd[0] / 6)
    release = nw.Release.of(plan, range(0, 54, 6), dataset="d", ledger_head=None, simulated=False)
    assert release.estimate.tolist() == list(range(9))
    assert release.labels[:4] == ("off, off", "off, a", "off, b", "a, off")


@pytest.mark.parametrize(
    "text",
    [
        "marginals([a, b], [b, c], tied=True)",
        "marginals([a, b], [b, c], tied=True, null='off')",
        "marginals([a, b], [b, c], tied=True, null=0)",
        "marginals([column('my day'), b], [b, c], tied=True, null='not there')",
    ],
)
def test_a_text_and_a_plain_form_read_back_as_the_same_statistic(text):
    read = nw.statistic(text)
    assert str(read) == text
    assert nw.statistic(str(read)) == read
    assert statistic_from_dict(read.to_dict()) == read


def test_a_level_may_be_written_in_a_text_without_quotes():
    assert nw.statistic("marginals([a, b], [b, c], tied=True, null=off)").null == "off"


def test_the_plain_form_of_ordinary_marginals_is_as_it_was():
    assert nw.Marginals(["a", "b"], ["b", "c"]).to_dict() == {"kind": "marginals", "cliques": [["a", "b"], ["b", "c"]]}
    assert str(nw.Marginals(["a", "b"])) == "marginals([a, b])"


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.ZeroConcentratedDP(1), nw.ApproxDP(1, "1e-6")], ids=str)
def test_a_release_is_saved_and_loaded_and_one_with_too_little_noise_is_refused(guarantee, tmp_path):
    plan = nw.plan(tied("chain of four", "off"), schema_of("chain of four"), guarantee=guarantee)
    release = nw.Release.of(plan, range(9), dataset="d", ledger_head=None, simulated=False)
    release.save(tmp_path / "tied.json")
    assert nw.Release.load(tmp_path / "tied.json") == release
    weak = type(plan.law)(tuple(scale / 6 for scale in plan.law.scale), plan.law.step)  # of a record that weighs 1
    nw.Release("d", release.schema, release.statistic, release.weights, weak, guarantee, release.value).save(
        tmp_path / "weak.json"
    )
    with pytest.raises(InvalidRelease, match="less than"):
        nw.Release.load(tmp_path / "weak.json")


# ---- refusals ----


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: nw.Marginals(["a", "b"], tied=True), "tied"),
        (lambda: nw.Marginals(["a"], ["b"], tied=True), "tied"),
        (lambda: nw.Marginals(["a", "b"], ["b", "c", "d"], tied=True), "tied"),
        (lambda: nw.Marginals(["a", "b"], ["b", "c"], tied=1), "tied"),
        (lambda: nw.Marginals(["a", "b"], ["b", "c"], tied="yes"), "tied"),
        (lambda: nw.Marginals(["a", "b"], ["b", "a"], tied=True), "cliques"),
        (lambda: nw.Marginals(["a", "b"], ["b", "c"], null="off"), "null"),
        (lambda: nw.Marginals(["a", "b"], ["b", "c"], tied=True, null=True), "null"),
        (lambda: nw.Marginals(["a", "b"], ["b", "c"], tied=True, null=1.5), "null"),
        (lambda: nw.Marginals(["a", "b"], ["b", "c"], tied=True, null=["off"]), "null"),
        (lambda: nw.Marginals(*([f"t{k}", f"t{k + 1}"] for k in range(29)), tied=True, null="off"), "cliques"),
    ],
    ids=[
        "one clique", "single columns", "unequal lengths", "tied=1", "tied='yes'", "a clique twice", "null alone",
        "null=True", "null=1.5", "null a list", "29 cliques with null",
    ],
)  # fmt: skip
def test_what_cannot_be_tied_is_refused_by_name(make, argument):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == argument


def test_columns_with_different_levels_cannot_be_tied():
    columns = {"a": nw.Levels(TWO), "b": nw.Levels(TWO), "c": nw.Levels(THREE)}
    schema = nw.Schema(columns, n=3, neighbours="change-one")
    with pytest.raises(InvalidArgument, match="different levels"):
        nw.Marginals(["a", "b"], ["b", "c"], tied=True).tables(schema)
    with pytest.raises(InvalidArgument, match="different levels"):
        nw.Marginals(["a", "b"], ["a", "c"], tied=True).tables(schema)
    assert nw.Marginals(["a", "c"], ["b", "c"], tied=True).tables(schema) == [6]


def test_null_must_be_a_level():
    with pytest.raises(InvalidArgument, match="not one of the levels"):
        tied("chain of three", "gone").tables(schema_of("chain of three"))


def test_a_table_too_large_or_a_sum_beyond_62_bits_is_refused():
    many = nw.Levels([f"l{k}" for k in range(1001)])
    wide = nw.Schema(dict.fromkeys("abc", many), n=3, neighbours="change-one")
    with pytest.raises(InvalidArgument, match="cells"):
        nw.Marginals(["a", "b"], ["b", "c"], tied=True).tables(wide)
    cliques = [[f"t{k}", f"t{k + 1}"] for k in range(28)]
    for n, fits in ((2**62 // math.lcm(*range(1, 29)), True), (2**62 // math.lcm(*range(1, 29)) + 1, False)):
        schema = nw.Schema({f"t{k}": nw.Levels(TWO) for k in range(29)}, n=n, neighbours="change-one")
        statistic = nw.Marginals(*cliques, tied=True, null="off")
        if fits:
            assert statistic.tables(schema) == [4]
        else:
            with pytest.raises(InvalidArgument, match="62 bits"):
                statistic.tables(schema)


def test_populations_and_designs_refuse_a_tied_table_in_one_sentence():
    schema = schema_of("binary chain")
    population = nw.Joint(**{name: nw.Bernoulli(p=0.3) for name in schema.columns})
    unknown = nw.Joint(t0=nw.Bernoulli(p=stats.beta(1, 1)), **{f"t{k}": nw.Bernoulli(p=0.3) for k in (1, 2, 3)})
    plan = nw.plan(tied("binary chain"), schema, guarantee=nw.PureDP(1))
    release = nw.Release.of(plan, range(4), dataset="d", ledger_head=None, simulated=False)
    calls = {
        "infer": lambda: nw.infer(release, unknown),
        "infer by the central limit theorem": lambda: nw.infer(release, unknown, likelihood="clt"),
        "naive": lambda: NaiveLikelihood(release, population),
        "normal": lambda: NormalSum((release,), population, n=9),
        "table": lambda: TableModel.of((release,), population, n=9),
        "cells": lambda: cell_probabilities(population, schema, plan.statistic, {}),
        "information": lambda: nw.information(plan, unknown),
        "information by simulation": lambda: nw.information(plan, unknown, method="monte-carlo"),
        "choose": lambda: nw.choose([plan], unknown),
    }
    for name, call in calls.items():
        with pytest.raises(NoisewiseError, match="only a GraphicalModel") as caught:
            call()
        assert isinstance(caught.value, Unsupported), name
