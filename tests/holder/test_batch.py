"""Several releases in one transaction: all paid and stored, or none; the bill says beforehand what will be spent.

The oracle of every sum is a sum of fractions over the quarters of the records, written out here.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from accounts import FINGERPRINT, produce
from curated_records import COLUMNS, PRIVATE, PUBLIC, N, x, y

import noisewise as nw
from noisewise.errors import BudgetExceeded, DifferentRecords, InvalidArgument, LedgerError, NoisewiseError
from noisewise.holder import curator, ledger_store
from noisewise.holder.ledger import Account, Order

QUARTERS = [Fraction(k, 4) for k in range(4)]


def mean_plan(epsilon: object, top: object = 7, part: Any = None) -> nw.Plan:
    """Different tops are different requests."""
    return nw.plan(nw.Mean(x.clip(-3, top)), PUBLIC, guarantee=nw.PureDP(epsilon), part=part)


def worst(charges: Sequence[tuple[Fraction, tuple[Fraction, Fraction]]]) -> Fraction:
    """The largest sum of charges that meet in one quarter of the records."""
    return max(sum((cost for cost, (start, stop) in charges if start <= q < stop), Fraction(0)) for q in QUARTERS)


@pytest.fixture
def ledger(tmp_path: Path) -> nw.Ledger:
    return nw.Ledger.open(tmp_path / "people.ledger", nw.PureDP(2))


def test_a_batch_spends_exactly_the_sum_of_its_prices(table: nw.Table, ledger: nw.Ledger) -> None:
    prices = [Fraction(1, k) for k in (3, 5, 7, 11, 13)]
    plans = [mean_plan(price, top=k) for k, price in enumerate(prices, 1)]
    made = nw.make_releases(table, plans, ledger=ledger)
    assert ledger.spent() == nw.PureDP(sum(prices))
    assert ledger.remaining() == nw.PureDP(2 - sum(prices))
    assert [release.statistic for release in made] == [plan.statistic for plan in plans]
    assert [release.to_bytes() for release in made] == list(ledger.releases())
    assert len({release.ledger_head for release in made}) == len(plans)
    assert [release.ledger_head for release in made] == [entry.head for entry in ledger.entries()[:-1]]
    ledger.check([release.to_bytes() for release in made])


def test_parts_of_a_batch_are_charged_in_parallel_with_what_was_charged_before(
    table: nw.Table, ledger: nw.Ledger
) -> None:
    charges = [
        (Fraction(1, 3), ("0", "1")),
        (Fraction(1, 2), ("0", "1/2")),
        (Fraction(2, 3), ("1/2", "1")),
        (Fraction(3, 7), ("1/4", "3/4")),
        (Fraction(1, 5), ("3/4", "1")),
    ]
    plans = [mean_plan(price, top=k + 1, part=part) for k, (price, part) in enumerate(charges)]
    exact = [(price, (Fraction(start), Fraction(stop))) for price, (start, stop) in charges]
    nw.make_release(table, plans[1], ledger=ledger)
    bill = ledger.bill(plans)
    assert bill.total == nw.PureDP(worst([exact[0], *exact[2:]]))
    nw.make_releases(table, plans, ledger=ledger)
    assert ledger.spent() == nw.PureDP(worst(exact))
    assert str(ledger.spent()) in str(bill)
    assert str(ledger.remaining()) in str(bill)


def test_equal_requests_are_one_release_and_one_charge(
    table: nw.Table, ledger: nw.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[nw.Plan] = []
    sound = curator.lattice_values
    monkeypatch.setattr(curator, "lattice_values", lambda table, plan: computed.append(plan) or sound(table, plan))
    plans = [mean_plan("1/2"), mean_plan("0.25", top=5), mean_plan("0.5")]
    assert [item.free for item in ledger.bill(plans).items] == ["", "", "the same as 1"]
    first, second, again = nw.make_releases(table, plans, ledger=ledger)
    assert first.to_bytes() == again.to_bytes() != second.to_bytes()
    assert ledger.spent() == nw.PureDP("3/4")
    assert len(ledger.releases()) == len(computed) == 2


def test_what_is_stored_is_handed_out_and_only_the_rest_is_paid(table: nw.Table, ledger: nw.Ledger) -> None:
    old = nw.make_release(table, mean_plan("1.5"), ledger=ledger)
    plans = [mean_plan("0.3", top=5), mean_plan("1.5"), mean_plan("0.2", top=4)]
    bill = ledger.bill(plans)
    assert [item.free for item in bill.items] == ["", "already paid", ""]
    assert bill.total == nw.PureDP("1/2")
    assert bill.fits
    made = nw.make_releases(table, plans, ledger=ledger)
    assert made[1].to_bytes() == old.to_bytes()
    assert ledger.remaining() is None
    assert nw.make_releases(table, plans, ledger=ledger) == made, "an empty account still hands out what it sold"
    assert ledger.bill(plans).total is None
    assert len(ledger.releases()) == 3


@pytest.mark.parametrize(
    ("prices", "failing"), [(("2.1", "0.1", "0.1"), 1), (("0.5", "1.9", "0.1"), 2), (("0.9", "0.9", "0.3"), 3)], ids=str
)
def test_a_refusal_anywhere_in_a_batch_makes_none_and_draws_no_noise(
    prices: tuple[str, ...], failing: int, table: nw.Table, ledger: nw.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []
    sound = curator.draw.noise
    monkeypatch.setattr(curator.draw, "noise", lambda law: drawn.append(law) or sound(law))
    plans = [mean_plan(price, top=k) for k, price in enumerate(prices, 1)]
    bill = ledger.bill(plans)
    assert bill.fits is False
    assert "does not fit" in str(bill)
    with pytest.raises(BudgetExceeded, match=rf"^release {failing} of 3.* needs.*Nothing was spent") as caught:
        nw.make_releases(table, plans, ledger=ledger)
    left = 2 - sum((Fraction(price) for price in prices[: failing - 1]), Fraction(0))
    assert caught.value.fields["remaining"] == nw.PureDP(left)
    assert drawn == []
    assert ledger.spent() is None
    assert ledger.releases() == ()
    nw.make_releases(table, [plan for k, plan in enumerate(plans, 1) if k != failing], ledger=ledger)
    assert len(drawn) == 2


def test_every_plan_is_checked_before_anything_is_spent(table: nw.Table, ledger: nw.Ledger) -> None:
    sound = mean_plan("1/2")
    cheap = replace(mean_plan("1/2", top=5), guarantee=nw.PureDP("1/100"))
    wider = nw.Schema(COLUMNS | {"x": nw.Bounded(-3, 8)}, n=N, neighbours="change-one")
    other = nw.plan(nw.Mean(x), wider, guarantee=nw.PureDP(1))
    for wrong, words in ((cheap, "altered"), (other, "another schema"), ("mean(x)", "must be a Plan")):
        with pytest.raises(InvalidArgument, match=rf"plans\[1\].*{words}.*Nothing was spent") as caught:
            nw.make_releases(table, [sound, wrong], ledger=ledger)  # type: ignore[list-item]
        assert caught.value.fields["argument"] == "plans[1]"
    for nothing in ([], sound, "mean(x)", None):
        with pytest.raises(InvalidArgument, match="one plan or more"):
            nw.make_releases(table, nothing, ledger=ledger)  # type: ignore[arg-type]
    assert len(ledger.entries()) == 1


def test_a_failure_in_the_midst_of_a_batch_spends_nothing(
    table: nw.Table, ledger: nw.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [mean_plan("1/4", top=k) for k in (3, 4, 5)]
    for target, name in ((curator, "lattice_values"), (curator.draw, "noise")):
        sound, calls = getattr(target, name), []

        def fails(*arguments: Any, sound: Any = sound, calls: list[int] = calls) -> Any:
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError("the value was 123.456789")
            return sound(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(target, name, fails)
            with pytest.raises(NoisewiseError, match="Nothing was spent") as caught:
                nw.make_releases(table, plans, ledger=ledger)
        assert len(calls) == 2
        assert "123.456789" not in "".join(traceback.format_exception(caught.value))
        assert len(ledger.entries()) == 1
    nw.make_releases(table, plans, ledger=ledger)
    assert ledger.spent() == nw.PureDP("3/4")


def test_records_that_change_or_move_refuse_the_whole_batch(
    data: pd.DataFrame, table: nw.Table, ledger: nw.Ledger
) -> None:
    half = mean_plan("1/4", part=(0, "1/2"))
    nw.make_releases(table, [mean_plan("1/4", top=5), half], ledger=ledger)
    shuffled = nw.Table.read(data[::-1], PUBLIC)
    with pytest.raises(DifferentRecords, match=r"places.*Nothing was spent"):
        nw.make_releases(shuffled, [mean_plan("1/8"), half], ledger=ledger)
    with pytest.raises(DifferentRecords, match="Nothing was spent"):
        nw.make_releases(nw.Table.read(data.assign(x=0.5), PUBLIC), [mean_plan("1/8"), half], ledger=ledger)
    assert ledger.spent() == nw.PureDP("1/2")


def test_a_database_that_drifts_during_a_batch_is_noticed_and_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ibis

    connection = ibis.duckdb.connect()
    declared = nw.Schema({"x": nw.Bounded(0, 1)}, n=3, neighbours="change-one")
    table = nw.Table.read(connection.create_table("people", pa.table({"x": [0.1, 0.2, 0.3]})), declared)
    plans = [nw.plan(statistic, declared, guarantee=nw.PureDP(1)) for statistic in (nw.Mean("x"), nw.Median("x"))]
    sound = curator.lattice_values

    def drifting(*arguments: Any) -> tuple[int, ...]:
        found = sound(*arguments)
        connection.raw_sql("UPDATE people SET x = 0.9 WHERE x = 0.1")
        return found

    monkeypatch.setattr(curator, "lattice_values", drifting)
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(2)) as ledger:
        with pytest.raises(nw.InvalidData, match=r"changed while.*Nothing was spent\."):
            nw.make_releases(table, plans, ledger=ledger)
        assert ledger.releases() == ()


def test_a_database_that_may_not_grow_stores_none_of_a_batch(
    ledger: nw.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of three fits on the disk, the second does not: neither is there afterwards."""
    monkeypatch.setattr(ledger_store, "PRAGMAS", (*ledger_store.PRAGMAS, "max_page_count=12"))
    made: list[int] = []

    def sized(size: int) -> Order:
        def large(account: Account) -> bytes:
            made.append(size)
            return produce(account) + b" " * size

        return Order(f"{size}".encode(), nw.PureDP("1/4"), None, FINGERPRINT, large)

    with pytest.raises(LedgerError, match=r"the disk is full.*Nothing was spent\."):
        ledger.release_all([sized(1), sized(100_000), sized(2)])
    assert made[:2] == [1, 100_000]
    assert ledger.releases() == ()
    assert ledger.spent() is None
    assert len(ledger.release_all([sized(1), sized(2)])) == 2
    ledger.check()


def test_orders_of_two_relations_or_of_two_tables_are_refused_together(ledger: nw.Ledger) -> None:
    def order(name: bytes, fingerprint: str = FINGERPRINT, relation: str | None = None) -> Order:
        request = b'{"name": "%b", "schema": {"neighbours": "%b"}}' % (name, (relation or "").encode())
        return Order(request, nw.PureDP("1/4"), None, fingerprint, produce)

    with pytest.raises(LedgerError, match="no common sum"):
        ledger.release_all([order(b"a", relation="change-one"), order(b"b", relation="add-remove")])
    with pytest.raises(DifferentRecords, match="Nothing was spent"):
        ledger.release_all([order(b"a"), order(b"b", fingerprint="v1:1:other")])
    assert ledger.releases() == ()


def test_key_parts_of_a_batch_are_charged_in_parallel(data: pd.DataFrame, ledger: nw.Ledger) -> None:
    keyed = nw.Table.read(data.assign(person=[f"p{i}" for i in range(N)]), PRIVATE, key="person")
    plans = [nw.plan(nw.Sum(x), PRIVATE, guarantee=nw.PureDP(2), part=part) for part in ((0, "1/2"), ("1/2", 1))]
    assert "(disjoint parts in parallel)" in str(ledger.bill(plans))
    nw.make_releases(keyed, plans, ledger=ledger)
    assert ledger.spent() == nw.PureDP(2)
    assert ledger.remaining() is None


def test_a_bill_of_prices_that_the_account_cannot_take_is_refused(ledger: nw.Ledger) -> None:
    gaussian = nw.plan(nw.Mean(x), PUBLIC, guarantee=nw.GaussianDP(1))
    with pytest.raises(nw.Incomparable, match="Nothing was spent"):
        ledger.bill([mean_plan(1), gaussian])
    with pytest.raises(InvalidArgument, match="at least one plan"):
        ledger.bill([])


def test_many_prices_of_several_kinds_fit_together_as_they_do_one_by_one(table: nw.Table, tmp_path: Path) -> None:
    limit = nw.ApproxDP(3, "1e-5")
    guarantees = [nw.PureDP("1/10"), nw.ZeroConcentratedDP("1/50"), nw.GaussianDP("1/5"), nw.ApproxDP("1/10", "1e-6")]
    plans = [nw.plan(nw.Mean(x), PUBLIC, guarantee=guarantee) for guarantee in guarantees]
    together, apart = (nw.Ledger.open(tmp_path / name, limit) for name in ("together", "apart"))
    nw.make_releases(table, plans, ledger=together)
    for plan in plans:
        nw.make_release(table, plan, ledger=apart)
    assert together.spent() == apart.spent() is not None
    assert together.charges() == apart.charges()


def test_a_value_of_a_record_is_in_no_bill_refusal_release_or_ledger_of_a_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    canary, n = "123.456789", 30
    public = nw.Schema({"y": nw.Bounded(0, 250)}, n=n, neighbours="change-one")
    path = tmp_path / "people.csv"
    path.write_text("y\n" + f"{canary}\n" * n)
    table, ledger = nw.Table.read(path, public), nw.Ledger.open(tmp_path / "people.ledger", nw.PureDP(3))
    statistics = (nw.Mean(y), nw.Median(y), nw.Quantile(y, "1/2"), nw.Records(y))
    plans = [nw.plan(statistic, public, guarantee=nw.PureDP("1/2")) for statistic in statistics]
    told = [str(ledger.bill(plans)), repr(ledger.bill(plans))]
    told += [release.to_bytes().decode() for release in nw.make_releases(table, plans, ledger=ledger)]
    more = [nw.plan(statistic, public, guarantee=nw.PureDP("3/4")) for statistic in statistics]
    told.append(str(ledger.bill(more)))
    with pytest.raises(BudgetExceeded) as caught:
        nw.make_releases(table, more, ledger=ledger)
    told += [
        "".join(traceback.format_exception(caught.value)),
        repr(caught.value.fields),
        caplog.text,
        *capfd.readouterr(),
    ]
    told.append((tmp_path / "people.ledger").read_bytes().decode("latin-1"))
    assert [text for text in told if canary[:9] in text] == []
    assert canary[:9] in path.read_text()
