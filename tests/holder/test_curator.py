"""make_release: what is published is the statistic plus the declared noise, paid once.

Every statistic x mechanism x guarantee of the validity table goes through the real ledger and the real database; the
truth comes from NumPy.
"""

from __future__ import annotations

import traceback
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from curated_records import COLUMNS, PRIVATE, PUBLIC, STATISTICS, N, columns, drawn, replaced, secret_scale, x

import noisewise as nw
from noisewise.errors import BudgetExceeded, DifferentRecords, InvalidArgument, NoisewiseError, Unsupported
from noisewise.holder import curator
from noisewise.laws import AdditiveLaw
from noisewise.laws.finite import FiniteLaw, truncated_geometric
from noisewise.privacy.mechanism import TABLE
from noisewise.report.words import describe_release
from noisewise.statistics.registry import statistic_kinds

HALVES = (("0", "1/2"), ("1/2", "1"))
# Much budget, so that a wrong value stands out against the noise.
BUDGETS = {
    nw.PureDP: nw.PureDP(40),
    nw.ApproxDP: nw.ApproxDP(10, "1e-6"),
    nw.ZeroConcentratedDP: nw.ZeroConcentratedDP(50),
    nw.GaussianDP: nw.GaussianDP(10),
}
CELLS = [
    (row.name, kind, statistic.kind)
    for row in TABLE
    for kind in row.guarantees
    for statistic in statistic_kinds()
    if row.serves(statistic)
]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> dict[type, nw.Ledger]:
    folder = tmp_path_factory.mktemp("ledgers")
    limits = {
        nw.PureDP: nw.PureDP(10**6),
        nw.ApproxDP: nw.ApproxDP(10**6, "1e-2"),
        nw.ZeroConcentratedDP: nw.ZeroConcentratedDP(10**6),
        nw.GaussianDP: nw.GaussianDP(10**6),
    }
    return {kind: nw.Ledger.open(folder / kind.__name__, limit) for kind, limit in limits.items()}


def planned(mechanism: str, kind: type, name: str, schema: nw.Schema = PUBLIC) -> nw.Plan:
    statistic = STATISTICS[name]
    if mechanism == "randomized-response":
        statistic = nw.Records(x, cells=[-1, 0, 3])
    if mechanism == "finite":
        rows = truncated_geometric(N + 1, Fraction(40))
        return nw.plan(
            statistic, schema, guarantee=BUDGETS[kind], mechanism=FiniteLaw(rows, tuple(map(float, range(N + 1))))
        )
    return nw.plan(statistic, schema, guarantee=BUDGETS[kind], mechanism=mechanism)


def spread(plan: nw.Plan, data: pd.DataFrame) -> Any:
    """A width that the noise passes with probability below 1e-6, in the units of the estimate."""
    if isinstance(plan.law, AdditiveLaw):
        divisor = N if plan.statistic.kind == "mean" else 1
        return 30 * np.array(plan.law.sd) / divisor + N * np.array(plan.law.step)
    if plan.mechanism == "smooth-laplace":
        return 20 * secret_scale(plan, data) / float(plan.law.alpha)
    return 1e-9


@pytest.mark.parametrize(("mechanism", "kind", "name"), CELLS, ids=lambda v: getattr(v, "__name__", v))
def test_every_cell_of_the_validity_table_makes_a_release_near_the_truth_and_charges_it_once(
    mechanism: str, kind: type, name: str, data: pd.DataFrame, table: nw.Table, ledgers: dict[type, nw.Ledger]
) -> None:
    plan, ledger = planned(mechanism, kind, name), ledgers[kind]
    before = len(ledger.entries())
    release = nw.make_release(table, plan, ledger=ledger)
    assert nw.Release.from_bytes(release.to_bytes()) == release
    assert (release.law, release.guarantee, release.schema) == (plan.law, plan.guarantee, PUBLIC)
    assert (release.dataset, release.simulated) == (ledger.dataset, False)
    first = release.labels[0].split(": ")[0]  # groups are the rows of a table
    assert first in describe_release(release) or name == "records"
    truth = plan.statistic.value(columns(data), PUBLIC)
    if name == "quantile":
        assert -3 <= release.estimate[0] <= 7
        below = int(np.sum(data.x < release.estimate[0]))
        assert abs(below - N / 4) <= 3  # three ranks off weigh e^-40 as much, on an interval at most 2^20 times longer
    elif mechanism != "smooth-cauchy":  # a Cauchy draw can be anywhere; its law: test_smooth_release.py
        assert np.all(np.abs(release.estimate - truth) <= spread(plan, data))
    assert nw.make_release(table, plan, ledger=ledger).to_bytes() == release.to_bytes()
    assert len(ledger.entries()) == before + 1
    assert ledger.entries()[-1].guarantee == plan.cost


@pytest.mark.parametrize("name", ["sum", "count", "truncated-sum", "histogram", "marginals", "moments"])
def test_add_remove_releases_carry_no_number_of_records(name: str, data: pd.DataFrame, tmp_path: Path) -> None:
    plan = nw.plan(STATISTICS[name], PRIVATE, guarantee=nw.PureDP(40))
    ledger = nw.Ledger.open(tmp_path / "l", nw.PureDP(100))
    release = nw.make_release(nw.Table.read(data, PRIVATE), plan, ledger=ledger)
    truth = np.asarray(plan.statistic.value(columns(data), PRIVATE), dtype=float)
    width = 30 * np.array(plan.law.sd) + N * np.array(plan.law.step)
    assert np.all(np.abs(release.estimate - truth) <= width)
    assert release.schema.n is None
    assert '"n":' not in release.to_bytes().decode()


# ---- the account ----


@pytest.fixture
def ledger(tmp_path: Path) -> nw.Ledger:
    return nw.Ledger.open(tmp_path / "people.ledger", nw.PureDP(2))


def mean_plan(epsilon: object = 1, **options: Any) -> nw.Plan:
    return nw.plan(nw.Mean(x), PUBLIC, guarantee=nw.PureDP(epsilon), **options)


def test_the_same_request_returns_the_same_bytes_also_from_a_reordered_or_rewritten_file(
    data: pd.DataFrame, ledger: nw.Ledger, tmp_path: Path
) -> None:
    first = nw.make_release(nw.Table.read(data, PUBLIC), mean_plan(), ledger=ledger)
    data.sample(frac=1).to_parquet(tmp_path / "again.parquet")
    for source in (data.sample(frac=1), tmp_path / "again.parquet"):
        again = nw.make_release(nw.Table.read(source, PUBLIC), mean_plan("1.0"), ledger=ledger)
        assert again.to_bytes() == first.to_bytes()
    assert ledger.remaining() == nw.PureDP(1)
    assert ledger.releases() == (first.to_bytes(),)


def test_a_changed_question_is_a_new_release_with_fresh_noise(table: nw.Table, ledger: nw.Ledger) -> None:
    first = nw.make_release(table, mean_plan(1), ledger=ledger)
    second = nw.make_release(table, mean_plan("0.99"), ledger=ledger)
    assert first.value != second.value
    assert second.ledger_head == ledger.entries()[-2].head
    assert ledger.remaining() == nw.PureDP("0.01")
    ledger.check([first.to_bytes(), second.to_bytes()])


def test_other_records_are_refused_before_anything_is_spent(data: pd.DataFrame, ledger: nw.Ledger) -> None:
    nw.make_release(nw.Table.read(data, PUBLIC), mean_plan(), ledger=ledger)
    others = {"another value": data.assign(x=data.x.where(data.index != 3, 0.5)), "other people": drawn()}
    for other in others.values():
        with pytest.raises(DifferentRecords, match=r"Nothing was spent"):
            nw.make_release(nw.Table.read(other, PUBLIC), mean_plan("0.5"), ledger=ledger)
    assert ledger.remaining() == nw.PureDP(1)


def test_a_release_that_does_not_fit_is_refused_and_the_rest_stays(table: nw.Table, ledger: nw.Ledger) -> None:
    nw.make_release(table, mean_plan("1.7"), ledger=ledger)
    with pytest.raises(BudgetExceeded, match=r"epsilon <= 0\.3.*Nothing was spent"):
        nw.make_release(table, mean_plan("0.5"), ledger=ledger)
    assert ledger.remaining() == nw.PureDP("0.3")
    nw.make_release(table, mean_plan("0.3"), ledger=ledger)
    assert ledger.remaining() is None


def test_disjoint_parts_cost_what_one_of_them_costs(data: pd.DataFrame, table: nw.Table, ledger: nw.Ledger) -> None:
    made = [nw.make_release(table, mean_plan("1.5", part=part), ledger=ledger) for part in HALVES]
    assert [release.schema.n for release in made] == [N // 2, N // 2]
    assert ledger.remaining() == nw.PureDP("0.5")
    with pytest.raises(BudgetExceeded):
        nw.make_release(table, mean_plan("0.6"), ledger=ledger)
    with pytest.raises(BudgetExceeded):
        nw.make_release(table, mean_plan("0.6", part=("1/4", "3/4")), ledger=ledger)
    nw.make_release(table, mean_plan("0.5"), ledger=ledger)
    assert ledger.remaining() is None


def test_a_part_is_the_mean_of_its_positions(data: pd.DataFrame, table: nw.Table, tmp_path: Path) -> None:
    rich = nw.Ledger.open(tmp_path / "rich", nw.PureDP(10**4))
    for part, inside in zip(HALVES, (data.x[: N // 2], data.x[N // 2 :]), strict=True):
        plan = nw.plan(nw.Mean(x), PUBLIC, guarantee=nw.PureDP(1000), part=part)
        release = nw.make_release(table, plan, ledger=rich)
        assert release.estimate[0] == pytest.approx(inside.mean(), abs=30 * plan.noise[0].sd + plan.law.step[0])


@pytest.mark.parametrize("options", [{"part": HALVES[0]}, {"average": True}], ids=str)
def test_a_reordered_file_is_refused_where_places_matter_and_only_there(
    options: dict[str, Any], data: pd.DataFrame, table: nw.Table, ledger: nw.Ledger
) -> None:
    if "average" in options:
        plans = [
            nw.plan(nw.Moments(["x"], "y", average=2), PUBLIC, guarantee=nw.PureDP(eps)) for eps in ("0.5", "0.25")
        ]
    else:
        plans = [mean_plan("0.5", **options), mean_plan("0.25", part=HALVES[1])]
    nw.make_release(table, plans[0], ledger=ledger)
    shuffled = nw.Table.read(data[::-1], PUBLIC)
    for plan in plans:
        with pytest.raises(DifferentRecords, match=r"places.*Nothing was spent"):
            nw.make_release(shuffled, plan, ledger=ledger)
    assert ledger.remaining() == nw.PureDP("1.5")
    nw.make_release(shuffled, mean_plan(1), ledger=ledger)
    assert ledger.remaining() == nw.PureDP("0.5")


def test_key_parts_do_not_mind_the_order_of_the_file(data: pd.DataFrame, ledger: nw.Ledger) -> None:
    keyed = data.assign(person=[f"p{i}" for i in range(N)])
    plans = [nw.plan(nw.Sum(x), PRIVATE, guarantee=nw.PureDP(1), part=part) for part in HALVES]
    nw.make_release(nw.Table.read(keyed, PRIVATE, key="person"), plans[0], ledger=ledger)
    nw.make_release(nw.Table.read(keyed[::-1], PRIVATE, key="person"), plans[1], ledger=ledger)
    assert ledger.remaining() == nw.PureDP(1)
    moved = keyed.assign(person=keyed.person.to_numpy()[::-1].copy())
    with pytest.raises(DifferentRecords, match="places"):
        nw.make_release(nw.Table.read(moved, PRIVATE, key="person"), plans[1], ledger=ledger)


def test_a_plan_for_another_schema_is_refused(table: nw.Table, ledger: nw.Ledger) -> None:
    wider = nw.Schema(COLUMNS | {"x": nw.Bounded(-3, 8)}, n=N, neighbours="change-one")
    with pytest.raises(InvalidArgument, match=r"table\.schema.*Nothing was spent"):
        nw.make_release(table, nw.plan(nw.Mean(x), wider, guarantee=nw.PureDP(1)), ledger=ledger)
    for arguments in ((None, mean_plan(), ledger), (table, "mean(x)", ledger), (table, mean_plan(), "a.ledger")):
        with pytest.raises(InvalidArgument, match="must be a"):
            nw.make_release(arguments[0], arguments[1], ledger=arguments[2])  # type: ignore[arg-type]
    assert len(ledger.entries()) == 1


def test_the_same_bounds_over_another_schema_need_a_new_ledger(data: pd.DataFrame, ledger: nw.Ledger) -> None:
    nw.make_release(nw.Table.read(data, PUBLIC), mean_plan(), ledger=ledger)
    narrow = nw.Schema(COLUMNS | {"x": nw.Bounded(0, 1)}, n=N, neighbours="change-one")
    plan = nw.plan(nw.Mean(x), narrow, guarantee=nw.PureDP("0.5"))
    with pytest.raises(DifferentRecords, match="schema"):
        nw.make_release(nw.Table.read(data, narrow), plan, ledger=ledger)


def test_a_failure_before_or_during_the_draw_spends_nothing(
    table: nw.Table, ledger: nw.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> Any:
        raise RuntimeError("the value was 123.456789")

    for target, name in ((curator, "lattice_values"), (curator.draw, "noise")):
        with monkeypatch.context() as patched:
            patched.setattr(target, name, fails)
            with pytest.raises(NoisewiseError, match="Nothing was spent") as caught:
                nw.make_release(table, mean_plan(), ledger=ledger)
            assert "123.456789" not in "".join(traceback.format_exception(caught.value))
        assert len(ledger.entries()) == 1
        assert ledger.remaining() == nw.PureDP(2)
    nw.make_release(table, mean_plan(), ledger=ledger)
    assert ledger.remaining() == nw.PureDP(1)


def test_a_file_edited_between_reading_and_releasing_is_refused(
    data: pd.DataFrame, ledger: nw.Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "people.csv"
    data.to_csv(path, index=False)
    table = nw.Table.read(path, PUBLIC)
    data.assign(x=0.5).to_csv(path, index=False)
    with pytest.raises(NoisewiseError, match="Nothing was spent"):
        nw.make_release(table, mean_plan(), ledger=ledger)
    assert ledger.remaining() == nw.PureDP(2)


@pytest.mark.parametrize("name", [name for name in STATISTICS if name != "marginals"])
@pytest.mark.parametrize(
    ("n", "value"), [(1, 1.5), (1, 7.0), (6, -3.0)], ids=["one record", "one at its bound", "equal"]
)
def test_one_record_or_equal_records_at_a_bound_can_be_released(
    name: str, n: int, value: float, tmp_path: Path
) -> None:
    data, schema = drawn(n).assign(x=value), replaced(n)
    plan = nw.plan(STATISTICS[name], schema, guarantee=nw.PureDP(40))
    ledger = nw.Ledger.open(tmp_path / "l", nw.PureDP(40))
    release = nw.make_release(nw.Table.read(data, schema), plan, ledger=ledger)
    if isinstance(plan.law, AdditiveLaw):
        truth = plan.statistic.value(columns(data), schema)
        divisor = n if name == "mean" else 1
        width = (30 * np.array(plan.law.sd) + n * np.array(plan.law.step)) / divisor
        assert np.all(np.abs(release.estimate - truth) <= width)
    assert ledger.remaining() is None


def test_an_average_needs_a_divisor_and_says_so_before_any_charge() -> None:
    with pytest.raises(InvalidArgument, match="divide"):
        nw.plan(nw.Moments(["x"], "y", average=7), PUBLIC, guarantee=nw.PureDP(1))
    with pytest.raises(Unsupported, match="change-one"):
        nw.plan(nw.Moments(["x"], "y", average=2), PRIVATE, guarantee=nw.PureDP(1))


def test_a_database_that_changes_while_a_release_is_computed_is_noticed_and_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ibis

    connection = ibis.duckdb.connect()
    declared = nw.Schema({"x": nw.Bounded(0, 1)}, n=3, neighbours="change-one")
    table = nw.Table.read(connection.create_table("people", pa.table({"x": [0.1, 0.2, 0.3]})), declared)
    plan = nw.plan(nw.Mean("x"), declared, guarantee=nw.PureDP(1))
    sound = curator.lattice_values

    def drifting(*arguments: Any) -> tuple[int, ...]:
        connection.raw_sql("UPDATE people SET x = 0.9 WHERE x = 0.1")
        return sound(*arguments)

    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(curator, "lattice_values", drifting)
            with pytest.raises(nw.InvalidData, match=r"changed while.*Nothing was spent\."):
                nw.make_release(table, plan, ledger=ledger)
        assert ledger.spent() is None
        nw.make_release(table, plan, ledger=ledger)
