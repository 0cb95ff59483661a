"""make_release: what is published is the statistic plus the declared noise, paid once, and nothing else gets out.

Every statistic x mechanism x guarantee of the validity table goes through the real ledger and the real database; the
truth comes from NumPy. The exponential mechanism and the smooth median are tested as laws, draw by draw.
"""

from __future__ import annotations

import itertools
import logging
import math
import traceback
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import BudgetExceeded, DifferentRecords, InvalidArgument, NoisewiseError, Unsupported
from noisewise.holder import curator
from noisewise.lattice import lattice_for
from noisewise.privacy.finite import FiniteLaw, truncated_geometric
from noisewise.privacy.law import AdditiveLaw, ExponentialQuantile
from noisewise.privacy.mechanism import TABLE
from noisewise.report.words import describe_release

FALSE_ALARM = 1e-6
N = 40
x, y, g = (nw.column(name) for name in "xyg")
COLUMNS = {"x": nw.Bounded(-3, 7), "y": nw.Bounded(0, 250), "g": nw.Levels(["a", "b", "c"])}
PUBLIC = nw.Schema(COLUMNS, n=N, neighbours="change-one")
PRIVATE = nw.Schema(COLUMNS, n_max=2 * N, neighbours="add-remove")
HALVES = (("0", "1/2"), ("1/2", "1"))

STATISTICS: dict[str, Any] = {
    "mean": nw.Mean(x, x**2),
    "sum": nw.Sum(x * y),
    "count": nw.Count(x.between(0, 3)),
    "truncated-sum": nw.TruncatedSum([y], "x", 0, 5),
    "histogram": nw.Histogram("g"),
    "marginals": nw.Marginals(["g"]),
    "moments": nw.Moments(["x"], "y"),
    "smallest-eigenvalue": nw.SmallestEigenvalue(["x", "y"], shrink=2, scale={"y": 100}),
    "records": nw.Records(x),
    "median": nw.Median(x),
    "maximum": nw.Maximum(x),
    "minimum": nw.Minimum(x),
    "quantile": nw.Quantile(x, "0.25"),
}
# Much budget, so that a wrong value stands out against the noise.
BUDGETS = {
    nw.PureDP: nw.PureDP(40),
    nw.ApproxDP: nw.ApproxDP(10, "1e-6"),
    nw.ZeroConcentratedDP: nw.ZeroConcentratedDP(50),
    nw.GaussianDP: nw.GaussianDP(10),
}
CELLS = [(row.mechanism, kind, statistic) for row in TABLE for kind in row.guarantees for statistic in row.statistics]


def drawn(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng()
    return pd.DataFrame({"x": rng.uniform(-3, 7, n), "y": rng.uniform(0, 250, n), "g": rng.choice(["a", "b", "c"], n)})


def columns(data: pd.DataFrame) -> dict[str, Any]:
    codes = {level: k for k, level in enumerate("abc")}
    return {"x": data.x.to_numpy(), "y": data.y.to_numpy(), "g": data.g.map(codes).to_numpy()}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return drawn()


@pytest.fixture(scope="module")
def table(data: pd.DataFrame) -> nw.Table:
    return nw.Table.read(data, PUBLIC)


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


def secret_scale(plan: nw.Plan, data: pd.DataFrame) -> float:
    """The smooth sensitivity by its definition, over all pairs of ranks: O(n^2), for tests only."""
    low, high = plan.statistic.bounds(plan.part_schema)
    values = np.sort(plan.statistic.feature.value(columns(data), plan.part_schema))
    n = len(values)
    m = {"median": (n + 1) // 2, "maximum": n, "minimum": 1}[plan.statistic.kind]

    def s(i: int) -> float:
        return low if i < 1 else high if i > n else float(values[i - 1])

    smooth = max(
        math.exp(-k * plan.law.beta) * max(s(m + t) - s(m + t - k - 1) for t in range(k + 2)) for k in range(n + 1)
    )
    return max(smooth, 2**10 * plan.law.step * max(1.0, float(plan.law.alpha)))


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
    assert release.labels[0] in describe_release(release) or name == "records"
    truth = plan.statistic.value(columns(data), PUBLIC)
    if name == "quantile":
        assert -3 <= release.estimate[0] <= 7
        below = int(np.sum(data.x < release.estimate[0]))
        assert abs(below - N / 4) <= 3  # three ranks off weigh e^-40 as much, on an interval at most 2^20 times longer
    elif mechanism != "smooth-cauchy":  # a Cauchy draw can be anywhere; its law is tested below
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


def test_smooth_releases_of_concentrated_records_stay_close(tmp_path: Path) -> None:
    """With all records at the bound the smooth scale is at its floor, and even a Cauchy draw stays near."""
    cases = [(nw.Maximum(x), 7.0), (nw.Minimum(x), -3.0), (nw.Median(x), 2.0)]
    for k, (statistic, value) in enumerate(cases):
        same = nw.Table.read(drawn(200).assign(x=value), replaced(200))
        ledger = nw.Ledger.open(tmp_path / f"{k}", nw.PureDP(10))
        release = nw.make_release(same, nw.plan(statistic, replaced(200), guarantee=nw.PureDP(5)), ledger=ledger)
        # The scale is 2^10 steps of 2^-37, and a Cauchy variable passes 4e6 with probability 1.6e-7.
        assert abs(release.estimate[0] - value) < 4e6 * 2**10 * 2.0**-37


def replaced(n: int) -> nw.Schema:
    return nw.Schema(COLUMNS, n=n, neighbours="change-one")


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


# ---- the exponential mechanism, point by point ----


def chi_square(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Pearson's p-value, with cells of small expectation joined."""
    expected = np.array(probabilities) * sum(counts)
    order = np.argsort(expected)
    joined, seen, joined_expected, joined_counts = 0.0, 0, [], []
    for j in order:
        joined, seen = joined + expected[j], seen + counts[j]
        if joined >= 10:
            joined_expected.append(joined)
            joined_counts.append(seen)
            joined, seen = 0.0, 0
    joined_expected[-1] += joined
    joined_counts[-1] += seen
    statistic = sum((c - e) ** 2 / e for c, e in zip(joined_counts, joined_expected, strict=True))
    return float(stats.chi2.sf(statistic, len(joined_expected) - 1))


def coarse_quantile(values: Sequence[float], q: str, epsilon: object, top: int = 8) -> tuple[nw.Table, nw.Plan]:
    """The private quantile on the whole numbers 0..top, where every point can be enumerated."""
    schema = nw.Schema({"x": nw.Bounded(0, top)}, n=len(values), neighbours="change-one")
    plan = nw.plan(nw.Quantile(x, q), schema, guarantee=nw.PureDP(epsilon))
    coarse = replace(
        plan,
        law=ExponentialQuantile(plan.law.epsilon, 1.0),
        lattice=lattice_for([1.0], [(0.0, float(top), 0.0)]),
    )
    return nw.Table.read(pd.DataFrame({"x": values}), schema), coarse


def exponential_law(values: Sequence[float], q: str, epsilon: float, top: int = 8, *, closed: bool = False) -> Any:
    """P(y) over y = 0..top by the definition; `closed` is the planted fault #{x <= y}."""
    target = float(Fraction(q) * len(values))
    ranks = [sum(v <= point if closed else v < point for v in values) for point in range(top + 1)]
    weights = np.exp(-epsilon / 2 * np.abs(np.array(ranks) - target))
    return weights / weights.sum()


SMALL = [
    ([3.0], "0.5", 2),
    ([1.0, 1.0, 6.0], "0.5", 3),
    ([0.0, 2.0, 2.0, 5.0, 8.0], "0.3", 2),
    ([0.0, 2.0, 2.0, 5.0, 8.0], "0.99", 1),
    ([8.0, 8.0, 8.0, 8.0], "0.1", 4),
    ([1.0, 3.0, 4.0, 6.0, 7.0], "0.6", 20),
]


@pytest.mark.parametrize(("values", "q", "epsilon"), SMALL)
def test_private_quantiles_have_the_enumerated_exponential_law(values: list[float], q: str, epsilon: int) -> None:
    table, plan = coarse_quantile(values, q, epsilon)
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(4000)]
    counts = [points.count(point) for point in range(9)]
    assert sum(counts) == 4000
    assert chi_square(counts, exponential_law(values, q, epsilon)) > FALSE_ALARM


@pytest.mark.parametrize("nearby", [0, 1])
def test_private_quantiles_have_the_same_law_when_far_ranks_go_through_rejection(
    nearby: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, q, epsilon = [0.0, 1.0, 2.0, 5.0, 7.0], "0.5", Fraction(1, 2)
    table, plan = coarse_quantile(values, q, epsilon)
    monkeypatch.setattr(curator, "NEARBY_RANKS", nearby)
    asked: list[int] = []

    def by_hand(table: object, feature: object, plan: object, point: int) -> int:
        asked.append(point)
        return sum(v < point for v in values)

    # The database's own answer to a rank is tested in test_evaluate.py, and once more below.
    monkeypatch.setattr(curator, "rank_below", by_hand)
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(6000)]
    counts = [points.count(point) for point in range(9)]
    assert len(asked) > 1000
    assert chi_square(counts, exponential_law(values, q, 0.5)) > FALSE_ALARM


def test_the_rejection_asks_the_database_for_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.0, 1.0, 2.0, 5.0, 7.0]
    table, plan = coarse_quantile(values, "0.5", 1)
    monkeypatch.setattr(curator, "NEARBY_RANKS", 0)
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(100)]
    counts = [points.count(point) for point in range(9)]
    assert chi_square(counts, exponential_law(values, "0.5", 1)) > FALSE_ALARM


def test_the_quantile_test_catches_a_closed_count_a_doubled_epsilon_and_a_missing_rejection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: 4000 draws of each wrong law are rejected by the same test."""
    values, q, epsilon = [0.0, 2.0, 2.0, 5.0, 8.0], "0.3", 2
    law = exponential_law(values, q, epsilon)
    rng = np.random.default_rng()
    for wrong in (exponential_law(values, q, epsilon, closed=True), exponential_law(values, q, 2 * epsilon)):
        assert chi_square(rng.multinomial(4000, wrong), law) < FALSE_ALARM
    table, plan = coarse_quantile(values, q, epsilon)
    monkeypatch.setattr(curator, "NEARBY_RANKS", 0)
    monkeypatch.setattr(curator, "rank_below", lambda *_: 1)  # always kept: the far side at its largest density
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(4000)]
    assert chi_square([points.count(point) for point in range(9)], law) < FALSE_ALARM


def test_a_quantile_on_the_fine_lattice_weighs_the_intervals_between_records(tmp_path: Path) -> None:
    values, epsilon = [-2.0, 0.5, 0.5, 3.0, 6.0], 2.0
    schema = nw.Schema({"x": nw.Bounded(-3, 7)}, n=5, neighbours="change-one")
    plan = nw.plan(nw.Quantile(x, "0.4"), schema, guarantee=nw.PureDP(2))
    draw = curator._drawer(nw.Table.read(pd.DataFrame({"x": values}), schema), plan)
    step = plan.law.step
    points = np.array([draw()[0] for _ in range(4000)]) * step
    ends = [-3.0, *values, 7.0]
    # Each interval in two halves, so that uniformity inside it is tested as well.
    cuts = sorted({*ends, *((a + b) / 2 for a, b in itertools.pairwise(ends))})
    weights = [
        (b - a) * math.exp(-epsilon / 2 * abs(sum(v < (a + b) / 2 for v in values) - 2.0))
        for a, b in itertools.pairwise(cuts)
    ]
    counts, _ = np.histogram(points, bins=np.array(cuts) + np.array([0] + [step / 2] * (len(cuts) - 1)))
    assert counts.sum() == 4000
    assert chi_square(counts.tolist(), np.array(weights) / sum(weights)) > FALSE_ALARM


# ---- smooth sensitivity ----


def cell_counts(draws: Any, law: Any, scale: float, cells: int = 20) -> tuple[Any, Any]:
    """Counts of draws in cells of about equal probability under the law at this scale, and those probabilities."""
    width = scale / (float(law.alpha) * law.step)
    cuts = np.floor(width * np.tan(np.pi * (np.arange(1, cells) / cells - 0.5)))
    counts = np.bincount(np.searchsorted(cuts, draws, side="left"), minlength=cells)
    return counts, np.diff([0.0, *law.cdf(cuts, smooth_scale=scale), 1.0])


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.ApproxDP(1, "1e-4")], ids=str)
@pytest.mark.parametrize("name", ["median", "maximum", "minimum"])
def test_smooth_draws_follow_the_law_at_the_records_own_scale(
    guarantee: Any, name: str, data: pd.DataFrame, table: nw.Table
) -> None:
    plan = nw.plan(STATISTICS[name], PUBLIC, guarantee=guarantee)
    draw = curator._drawer(table, plan)
    truth = float(plan.statistic.value(columns(data), PUBLIC)[0])
    centre = math.floor(Fraction(truth) / Fraction(plan.law.step) + Fraction(1, 2))
    draws = np.array([float(draw()[0] - centre) for _ in range(40_000)])
    scale = secret_scale(plan, data)
    assert chi_square(*map(list, cell_counts(draws, plan.law, scale))) > FALSE_ALARM
    for wrong in (0.87, 1.15):  # planted: a scale that is off is rejected by the same draws
        assert chi_square(*map(list, cell_counts(draws, plan.law, wrong * scale))) < FALSE_ALARM


def test_the_pmf_of_a_smooth_law_sums_to_what_its_cells_say(data: pd.DataFrame) -> None:
    plan = nw.plan(nw.Median(x), PUBLIC, guarantee=nw.ApproxDP(1, "1e-4"))
    coarse = replace(plan.law, step=2.0**-4)
    k = np.arange(-40_000, 40_001)
    pmf = np.exp(coarse.log_pmf(k, smooth_scale=3.0))
    assert np.cumsum(pmf)[40_000 + 25] == pytest.approx(float(coarse.cdf(25, smooth_scale=3.0)), rel=1e-9)


# ---- nothing else gets out (F4) ----

CANARY = 123.456789
CANARY_TEXTS = ("123.456789", "123.45678", "123,456789", "1.23456789e")


def leaks(text: str) -> list[str]:
    return [canary for canary in CANARY_TEXTS if canary in text]


def test_a_value_of_a_record_is_in_no_message_log_repr_release_or_ledger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    n = 30
    public = nw.Schema({"y": nw.Bounded(0, 250)}, n=n, neighbours="change-one")
    path = tmp_path / "people.csv"
    path.write_text("y\n" + f"{CANARY}\n" * n)
    table = nw.Table.read(path, public)
    ledger = nw.Ledger.open(tmp_path / "people.ledger", nw.PureDP(3))
    told = [repr(table), str(table)]
    for statistic in (nw.Mean(y), nw.Median(y), nw.Maximum(y), nw.Quantile(y, "1/2"), nw.Records(y)):
        plan = nw.plan(statistic, public, guarantee=nw.PureDP("1/2"))
        release = nw.make_release(table, plan, ledger=ledger)
        told += [release.to_bytes().decode(), repr(release), describe_release(release), repr(plan), plan.describe()]

    def attempts() -> Any:
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP(2)), ledger=ledger)
        other = nw.Table.read(pd.DataFrame({"y": [CANARY] * (n - 1) + [1.0]}), public)
        yield lambda: nw.make_release(other, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/4")), ledger=ledger)
        monkeypatch.setattr(curator.draw, "noise", lambda _: [CANARY / 0])
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/4")), ledger=ledger)
        monkeypatch.setattr(curator.draw, "noise", lambda _: [{CANARY: 1}])
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/4")), ledger=ledger)
        path.write_text("y\n" + f"{CANARY}\n" * (n + 1))
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/5")), ledger=ledger)
        path.write_text("y\n" + f"{CANARY} years\n" * n)
        yield lambda: nw.Table.read(path, public)

    n_refused = 0
    for attempt in attempts():
        with pytest.raises(NoisewiseError) as caught:
            attempt()
        told += [str(caught.value), repr(caught.value), repr(caught.value.fields)]
        told += traceback.format_exception_only(caught.value)
        n_refused += 1
    assert n_refused == 6
    told += [
        str(ledger),
        repr(ledger),
        repr(ledger.entries()),
        repr(ledger.charges()),
        caplog.text,
        *capfd.readouterr(),
    ]
    assert [text for text in told if leaks(text)] == []
    assert leaks((tmp_path / "people.ledger").read_bytes().decode("latin-1")) == []
    assert leaks(f"a planted {CANARY}")


def numbers_like(value: float) -> set[str]:
    """How a number might be written: at several precisions, and as a ratio."""
    return {
        repr(value),
        f"{value:.12g}",
        f"{value:.9g}",
        f"{value:.7f}",
        f"{value:.6e}",
        value.hex(),
        str(Fraction(value)),
    }


def test_the_smooth_scale_is_in_no_file_ledger_or_printed_form(
    data: pd.DataFrame, table: nw.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ledger = nw.Ledger.open(tmp_path / "l", nw.ApproxDP(10, "1e-3"))
    for name in ("median", "maximum"):
        plan = nw.plan(STATISTICS[name], PUBLIC, guarantee=nw.ApproxDP(1, "1e-4"))
        release = nw.make_release(table, plan, ledger=ledger)
        release.save(tmp_path / f"{name}.json")
        scale, alpha, step = secret_scale(plan, data), float(plan.law.alpha), plan.law.step
        secrets = set().union(*(numbers_like(s) for s in (scale, scale / alpha, scale / step, scale / alpha / step)))
        told = [(tmp_path / f"{name}.json").read_text(), repr(release), describe_release(release), plan.describe()]
        told += [repr(plan), str(ledger), repr(ledger.entries()), caplog.text]
        told.append((tmp_path / "l").read_bytes().decode("latin-1"))
        assert [secret for secret in secrets for text in told if secret in text] == []
        assert set(release.law.to_dict()) == {"family", "alpha", "beta", "step"}
        planted = replace(plan.law, beta=scale).to_dict()
        assert any(secret in str(planted) for secret in secrets)
