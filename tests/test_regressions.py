"""Promises that were once broken: each test is a way in that was found, and must stay shut."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import DifferentRecords, InvalidArgument, InvalidRelease, NoisewiseError, Unsupported
from noisewise.holder.evaluate import lattice_values
from noisewise.noisy_value import digest as _digest
from noisewise.planning import canonical

x = nw.column("x")


def schema_of(low: float = 0, high: float = 10, n: int = 10) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high)}, n=n, neighbours="change-one")


def test_an_overflow_cannot_hide_behind_an_indicator() -> None:
    """inf * 0 is NaN in a database and 0 elsewhere; an enclosure that lost it declared too small a sensitivity."""
    hidden = ((x + 9e29) ** 40 * 0).between(-1, 1)
    cells = [(x * 1e-30).between(k / 10, k / 10 + 0.05) for k in range(10)]
    with pytest.raises(InvalidArgument, match="overflows"):
        nw.plan(nw.Sum(*[c + hidden - c * hidden for c in cells]), schema_of(-1e30, 1e30, 1), guarantee=nw.PureDP(1))


@pytest.mark.parametrize("name", ["class", "in", "None", "µg", "ﬁ", "my column", "it's"])
def test_any_column_name_can_be_released_and_read(name: str, tmp_path: Path) -> None:
    schema = nw.Schema({name: nw.Levels(["1st", "2nd"])}, n=4, neighbours="change-one")
    table = nw.Table.read({name: ["1st", "2nd", "1st", "1st"]}, schema)
    plan = nw.plan(nw.Count(nw.column(name).equals("1st")), schema, guarantee=nw.PureDP(1))
    with nw.Ledger.open(tmp_path / "l", limit=nw.PureDP(1)) as ledger:
        release = nw.make_release(table, plan, ledger=ledger)
        release.save(tmp_path / "r.json")
    assert nw.Release.load(tmp_path / "r.json") == release


def test_what_cannot_be_read_back_is_refused_before_it_is_paid() -> None:
    endless = Fraction(10**1500 + 1, 10**1499)
    with pytest.raises(InvalidArgument, match="digits"):
        nw.plan(nw.Mean(x, x**2), schema_of(), guarantee=nw.PureDP(1), weights=[endless, 1])
    with pytest.raises(InvalidArgument, match="digits"):
        nw.Quantile(x, endless - 10 + Fraction(1, 3))


def test_the_price_of_a_plan_is_not_taken_on_trust(tmp_path: Path) -> None:
    schema = schema_of()
    table = nw.Table.read({"x": np.arange(10.0)}, schema)
    cheap = dataclasses.replace(nw.plan(nw.Mean(x), schema, guarantee=nw.PureDP(50)), guarantee=nw.PureDP("1/1000"))
    with nw.Ledger.open(tmp_path / "l", limit=nw.PureDP(1)) as ledger:
        with pytest.raises(InvalidArgument, match="altered"):
            nw.make_release(table, cheap, ledger=ledger)
        assert ledger.spent() is None


def test_a_database_that_changes_under_an_open_table_is_noticed(tmp_path: Path) -> None:
    connection = ibis.duckdb.connect()
    connection.raw_sql("create table t as select range::double x, range id from range(10)")
    schema = schema_of()
    table = nw.Table.read(connection.table("t"), schema, order="id")
    halves = [nw.plan(nw.Sum(x), schema, guarantee=nw.PureDP(50), part=part) for part in ((0, "1/2"), ("1/2", 1))]
    with nw.Ledger.open(tmp_path / "l", limit=nw.PureDP(50)) as ledger:
        nw.make_release(table, halves[0], ledger=ledger)
        connection.raw_sql("update t set id = 9 - id")
        with pytest.raises(DifferentRecords, match="places"):
            nw.make_release(table, halves[1], ledger=ledger)
        connection.raw_sql("update t set x = 1 where x = 2")
        with pytest.raises(DifferentRecords, match="not the records"):
            nw.make_release(table, halves[1], ledger=ledger)


def test_one_account_keeps_to_one_neighbour_relation(tmp_path: Path) -> None:
    data = {"x": np.arange(10.0)}
    change = schema_of()
    add = nw.Schema({"x": nw.Bounded(0, 10)}, n_max=10, neighbours="add-remove")
    with nw.Ledger.open(tmp_path / "l", limit=nw.PureDP(2)) as ledger:
        nw.make_release(nw.Table.read(data, change), nw.plan(nw.Sum(x), change, guarantee=nw.PureDP(1)), ledger=ledger)
        count = nw.plan(nw.Count(x.between(0, 5)), add, guarantee=nw.PureDP(1))
        with pytest.raises(nw.LedgerError, match="for neighbours 'change-one'"):
            nw.make_release(nw.Table.read(data, add), count, ledger=ledger)


def test_a_root_of_a_rounded_zero_is_zero_for_every_record() -> None:
    low = next(v for v in (1 + i * 0.00037 for i in range(3000)) if np.float64(v) ** 3 > v * v * v)
    schema = schema_of(low, 2.5, 1)
    feature = (x**3 - float(np.float64(low) ** 3)) ** "1/2"
    try:
        plan = nw.plan(nw.Sum(feature), schema, guarantee=nw.PureDP(1))
    except Unsupported:
        plan = nw.plan(nw.Sum((x**3 - low * low * low) ** "1/2"), schema, guarantee=nw.PureDP(1))
    for value in (low, 2.0, 2.5):
        assert len(lattice_values(nw.Table.read({"x": [value]}, schema), plan)) == 1


def test_levels_are_their_own_cells() -> None:
    schema = nw.Schema({"r": nw.Levels(["a", "b", "c"])}, n=6, neighbours="change-one")
    with pytest.raises(InvalidArgument, match="leave cells out"):
        nw.plan(nw.Records("r", cells=[0.5]), schema, guarantee=nw.PureDP(1))


def forged(release: nw.Release, **changes: Any) -> bytes:
    """The release with entries changed at dotted places, and its hash made right again."""
    plain = json.loads(json.dumps(release.to_dict()))
    for place, value in changes.items():
        *path, last = place.split("__")
        target = plain
        for step in path:
            target = target[step]
        target[last] = value
    del plain["hash"]
    return canonical({**plain, "hash": _digest(plain)})


def released(statistic: Any, guarantee: Any, value: list[int], n: int = 10) -> nw.Release:
    plan = nw.plan(statistic, schema_of(n=n), guarantee=guarantee)
    return nw.Release.of(plan, value, dataset="d", ledger_head=None, simulated=False)


MEAN = released(nw.Mean(x), nw.PureDP(1), [5])
MEDIAN = released(nw.Median(x), nw.ApproxDP(1, "1e-5"), [5])
CELLS = released(nw.Records(x, cells=[5]), nw.PureDP(1), [4, 6])
HISTOGRAM = released(nw.Histogram("x", [5]), nw.PureDP(1), [4, 6])
QUANTILE = released(nw.Quantile(x, "0.5"), nw.PureDP(1), [5])
FORGERIES: dict[str, tuple[nw.Release, dict[str, Any]]] = {
    "epsilon beside another law": (MEAN, {"guarantee__epsilon": "1e-6"}),
    "a narrow law": (MEAN, {"law__scale": [MEAN.law.scale[0] / 2]}),
    "an unknown column": (MEAN, {"statistic__features": ["nosuch"]}),
    "a constant feature": (MEAN, {"statistic__features": ["x*0"]}),
    "a mean of a private number": (MEAN, {"schema__neighbours": "add-remove"}),
    "a talkative answer": (CELLS, {"law__keep": "999999/1000000"}),
    "a steep smooth rule": (MEDIAN, {"law__alpha": "1000000"}),
    "a rough smooth rule": (MEDIAN, {"law__beta": 1e100}),
    "another index": (MEDIAN, {"statistic__index": "n"}),
    "half counts": (HISTOGRAM, {"law__step": [0.5, 0.5]}),
    "a quantile outside": (QUANTILE, {"value": [10**15]}),
    "a greedy quantile": (QUANTILE, {"law__epsilon": "100"}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_file_whose_noise_is_not_worth_its_guarantee_is_refused(name: str) -> None:
    release, changes = FORGERIES[name]
    assert nw.Release.from_bytes(forged(release)) == release
    with pytest.raises(InvalidRelease):
        nw.Release.from_bytes(forged(release, **changes))


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["a", "b"])], ids=["categorical", "enum"])
def test_polars_categories_are_levels(kind: Any) -> None:
    schema = nw.Schema({"r": nw.Levels(["a", "b"])}, n=2, neighbours="change-one")
    table = nw.Table.read(pl.DataFrame({"r": pl.Series(["a", "b"], dtype=kind)}), schema)
    assert lattice_values(table, nw.plan(nw.Histogram("r"), schema, guarantee=nw.PureDP(1))) == (1, 1)


def deep(depth: int) -> Any:
    feature = x
    for _ in range(depth):
        feature = feature + 1
    return feature


@pytest.mark.parametrize(
    "call",
    [
        lambda: nw.TruncatedSum(3, "x", 0, 1),
        lambda: nw.Mean(x).sensitivity(None),
        lambda: nw.Histogram("x", [1]).sensitivity(None),
        lambda: nw.Median(x).sensitivity(None),
        lambda: nw.Release.load(None),
        lambda: nw.Release.from_bytes("x"),
        lambda: MEAN.save(None),
        lambda: nw.Schema({"x": nw.Bounded(0, 1)}, n=2, neighbours="change-one", missing=np.array([1, 2])),
        lambda: nw.Mean(deep(700)),
        lambda: nw.plan(nw.Sum(x**8, x), schema_of(-1e30, 1e30), guarantee=nw.PureDP(1), weights=["1e100", 1]),
    ],
)
def test_bad_input_is_met_in_our_own_words(call: Any) -> None:
    with pytest.raises(NoisewiseError):
        call()


def test_order_statistics_far_from_zero_have_a_lattice_that_fits(tmp_path: Path) -> None:
    schema = schema_of(1_700_000_000, 1_700_000_100, 5)
    table = nw.Table.read({"x": 1_700_000_000 + np.array([1.0, 20, 30, 50, 99])}, schema)
    with nw.Ledger.open(tmp_path / "l", limit=nw.PureDP(1000)) as ledger:
        release = nw.make_release(table, nw.plan(nw.Maximum(x), schema, guarantee=nw.PureDP(400)), ledger=ledger)
        nw.make_release(table, nw.plan(nw.Quantile(x, "1/2"), schema, guarantee=nw.PureDP(400)), ledger=ledger)
    assert abs(release.estimate[0] - 1_700_000_099) < 1000
    with pytest.raises(Unsupported, match="subtract a public constant"):
        nw.plan(nw.Median(x), schema_of(1e15, 1e15 + 1), guarantee=nw.PureDP(1))


def test_an_empty_table_is_a_neighbour_like_any_other(tmp_path: Path) -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 10)}, n_max=10, neighbours="add-remove")
    table = nw.Table.read({"x": np.array([], dtype=float)}, schema)
    with nw.Ledger.open(tmp_path / "l", limit=nw.PureDP(1)) as ledger:
        assert nw.make_release(table, nw.plan(nw.Sum(x), schema, guarantee=nw.PureDP(1)), ledger=ledger).value


def test_a_parquet_column_called_file_row_number_is_a_column(tmp_path: Path) -> None:
    schema = nw.Schema({"file_row_number": nw.Bounded(0, 100)}, n=3, neighbours="change-one")
    pl.DataFrame({"file_row_number": [7.0, 8.0, 90.0]}).write_parquet(tmp_path / "has.parquet")
    pl.DataFrame({"other": [7.0, 8.0, 90.0]}).write_parquet(tmp_path / "lacks.parquet")
    table = nw.Table.read(tmp_path / "has.parquet", schema)
    plan = nw.plan(nw.Sum(nw.column("file_row_number")), schema, guarantee=nw.PureDP(1))
    assert lattice_values(table, plan)[0] * plan.lattice.step[0] == pytest.approx(105)
    with pytest.raises(nw.InvalidData, match="file_row_number"):
        nw.Table.read(tmp_path / "lacks.parquet", schema)


class TestInferring:
    """What a review of the analyst's wing broke."""

    X = nw.column("x")

    def inferred(self, bounds, n, outside, population, at, epsilon) -> nw.Posterior:
        schema = nw.Schema({"x": nw.Bounded(*bounds)}, n=n, neighbours="change-one", outside=outside)
        plan = nw.plan(nw.Mean(self.X), schema, guarantee=nw.PureDP(epsilon))
        return nw.infer(nw.simulate(plan, population, at=at, seed=1), population, seed=1)

    def test_a_truncated_population_that_may_lie_far_outside_is_inferred(self) -> None:
        posterior = self.inferred((0, 10), 50, "refuse", nw.Normal(mean=stats.norm(5, 3), sd=0.3), {"mean": 5}, 2)
        assert abs(posterior.mean["mean"] - 5) < 5 * posterior.sd["mean"]

    @pytest.mark.parametrize("outside", ["clamp", "refuse"])
    def test_an_sd_that_may_be_almost_zero_is_inferred(self, outside: str) -> None:
        posterior = self.inferred((0, 10), 50, outside, nw.Normal(mean=5, sd=stats.halfnorm(scale=3)), {"sd": 2}, 2)
        assert posterior.verdict.is_converged

    def test_two_records_with_clamped_ends_are_inferred(self) -> None:
        posterior = self.inferred((5, 15), 2, "clamp", nw.Normal(mean=stats.norm(10, 5), sd=4), {"mean": 9}, 3)
        assert posterior.verdict.is_converged

    @pytest.mark.parametrize("bound", [100, 1000])
    @pytest.mark.parametrize("guarantee", [nw.PureDP(100), nw.GaussianDP(10)])
    def test_wide_bounds_do_not_inflate_information(self, bound: int, guarantee: object) -> None:
        schema = nw.Schema({"x": nw.Bounded(-bound, bound)}, n=100, neighbours="change-one")
        population = nw.Normal(mean=0, variance=stats.uniform(0, 10))
        for statistic in (nw.Mean(abs(self.X)), nw.Mean(self.X**2)):
            plan = nw.plan(statistic, schema, guarantee=guarantee)
            exact, normal = (
                nw.information(plan, population, at={"variance": 2.0}, likelihood=law).value for law in ("auto", "clt")
            )
            assert exact == pytest.approx(normal, rel=0.05)

    @pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1, "", None, True, 1e308, 10**400])
    def test_bad_numbers_are_refused_by_name(self, wrong: object) -> None:
        schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=10, neighbours="change-one")
        plan = nw.plan(nw.Mean(self.X), schema, guarantee=nw.PureDP(1))
        population = nw.Normal(mean=stats.norm(), sd=1)
        attempts = {
            "sd": lambda: nw.Normal(mean=0, sd=wrong),
            "p": lambda: nw.Categorical(p=[wrong, wrong]),
            "at": lambda: nw.simulate(plan, population, at={"mean": wrong} if wrong != -1 else {}),
            "plan": lambda: nw.simulate(wrong, population),
            "population": lambda: nw.information(plan, wrong),
            "trials": lambda: nw.calibrate(plan, population, trials=wrong),
        }
        if wrong is not None and not (isinstance(wrong, int) and wrong > 1):
            attempts["seed"] = lambda: nw.simulate(plan, population, seed=wrong)
        for name, attempt in attempts.items():
            with pytest.raises(nw.InvalidArgument) as refused:
                attempt()
            assert refused.value.argument == name
