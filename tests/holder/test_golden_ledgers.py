"""Ledgers of version 0.1: they open, add up to what was truly spent, and go on as far as that is safe."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import golden_ledgers as golden
import pytest

import noisewise as nw
from noisewise.errors import BudgetExceeded, LedgerError

Opener = Callable[[str], nw.Ledger]
TOTALS = {
    "change-one": "3/4",
    "add-remove": "3/4",
    "position-parts": "7/4",
    "key-parts": "7/4",
    "nine-digit-parts": "3",  # three times nearly everybody, where 1 was booked
    "both-relations": "3",  # 1 under change-one, and 1 under add-remove, which is 2 under change-one
}


@pytest.fixture
def copied(tmp_path: Path) -> Opener:
    def opened(name: str) -> nw.Ledger:
        return nw.Ledger.open(shutil.copyfile(golden.path(name), tmp_path / "old.ledger"))

    return opened


def test_every_history_has_its_file_and_its_total() -> None:
    assert {file.stem.removeprefix("ledger-1-") for file in golden.FOLDER.glob("ledger-1-*.ledger")} == set(TOTALS)
    assert set(golden.HISTORIES) == set(TOTALS)


@pytest.mark.parametrize("name", TOTALS)
def test_an_old_ledger_opens_and_adds_up_to_what_was_truly_spent(name: str, copied: Opener) -> None:
    ledger = copied(name)
    assert ledger.spent() == nw.PureDP(TOTALS[name])
    assert ledger.neighbours == next(act[0] for act in golden.HISTORIES[name][1] if act is not None)
    assert len(ledger.releases()) == sum(act is not None for act in golden.HISTORIES[name][1])
    assert str(ledger.spent()) in str(ledger)


@pytest.mark.parametrize("name", TOTALS)
def test_what_an_old_ledger_stored_is_handed_out_again_free(name: str, copied: Opener) -> None:
    ledger, acts = copied(name), golden.HISTORIES[name][1]
    last = len(acts) - acts[::-1].index(None) if None in acts else 0
    stored = [nw.Release.from_bytes(release) for release in ledger.releases()]
    for act in acts[last:]:
        assert nw.make_release(golden.table(act[0]), golden.plan(*act), ledger=ledger) in stored
    assert len(ledger.releases()) == len(stored)


@pytest.mark.parametrize("name", ["change-one", "add-remove", "position-parts", "key-parts"])
def test_a_sound_old_ledger_passes_its_check_and_sells_on_all_records(name: str, copied: Opener) -> None:
    ledger, relation = copied(name), golden.HISTORIES[name][1][0][0]
    ledger.check(ledger.releases())
    nw.make_release(golden.table(relation), golden.plan(relation, "1/8"), ledger=ledger)
    with pytest.raises(BudgetExceeded):
        nw.make_release(golden.table(relation), golden.plan(relation, 2), ledger=ledger)
    ledger.check(ledger.releases())


def test_position_parts_go_on(copied: Opener) -> None:
    ledger = copied("position-parts")
    nw.make_release(golden.table("change-one"), golden.plan("change-one", "7/4", ("1/2", 1)), ledger=ledger)
    assert ledger.remaining(("1/2", 1)) is None
    ledger.check()


def test_key_parts_under_the_old_rule_are_not_continued_under_the_new_one(copied: Opener) -> None:
    ledger, table = copied("key-parts"), golden.table("add-remove")
    with pytest.raises(LedgerError, match=r"version 0\.1.*32 bits.*replace_records\(\).*Nothing was spent\."):
        nw.make_release(table, golden.plan("add-remove", "1/4", ("1/2", 1)), ledger=ledger)
    assert ledger.spent() == nw.PureDP("7/4")
    ledger.replace_records()
    nw.make_release(table, golden.plan("add-remove", "1/4", ("1/2", 1)), ledger=ledger)
    assert ledger.spent() == nw.PureDP(2), "an old part may meet any new one"
    ledger.check()


def test_slivers_that_held_nearly_everybody_are_counted_on_them(copied: Opener) -> None:
    ledger = copied("nine-digit-parts")
    with pytest.raises(LedgerError, match=r"more than its limit, epsilon = 1, was spent: epsilon = 3 .*15 of 16"):
        ledger.check()
    assert ledger.remaining() is None
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="nothing of 1 remains"):
            nw.make_release(golden.table("add-remove"), golden.plan("add-remove", "1/100"), ledger=ledger)
        ledger.replace_records()


def test_a_ledger_of_both_relations_is_refused_with_its_true_total(copied: Opener) -> None:
    ledger = copied("both-relations")
    acts = [
        ledger.check,
        ledger.remaining,
        ledger.replace_records,
        *(
            lambda relation=relation: nw.make_release(
                golden.table(relation), golden.plan(relation, "1/8"), ledger=ledger
            )
            for relation in ("change-one", "add-remove")
        ),
    ]
    for act in acts:
        with pytest.raises(LedgerError, match=r"both neighbour relations.*epsilon = 3 was spent of epsilon = 4"):
            act()
    assert len(ledger.releases()) == 2
