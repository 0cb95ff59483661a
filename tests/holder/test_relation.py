"""One account, one neighbour relation, for ever: two of them have no common sum."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import noisewise as nw
from noisewise.errors import LedgerError
from noisewise.holder import ledger as ledger_module
from noisewise.holder import ledger_refusals
from noisewise.holder.ledger import Account

COLUMNS = {"x": nw.Bounded(0, 1)}
RELATIONS = ("change-one", "add-remove")
X = [0.25, 0.5, 0.75, 1.0]


def schema(neighbours: str) -> nw.Schema:
    return nw.Schema(COLUMNS, neighbours=neighbours, **({"n": 4} if neighbours == "change-one" else {"n_max": 9}))


def release(neighbours: str, ledger: nw.Ledger, epsilon: object = 1) -> nw.Release:
    table = nw.Table.read({"x": X}, schema(neighbours))
    return nw.make_release(table, nw.plan(nw.Sum("x"), schema(neighbours), guarantee=nw.PureDP(epsilon)), ledger=ledger)


@pytest.fixture
def ledger(tmp_path: Path) -> nw.Ledger:
    return nw.Ledger.open(tmp_path / "survey.ledger", limit=nw.PureDP(10))


@pytest.mark.parametrize("first", RELATIONS)
@pytest.mark.parametrize("replaced", [0, 1, 3])
def test_the_relation_of_the_first_release_is_that_of_the_ledger_for_ever(
    first: str, replaced: int, ledger: nw.Ledger
) -> None:
    (other,) = set(RELATIONS) - {first}
    assert ledger.neighbours is None
    release(first, ledger)
    for _ in range(replaced):
        ledger.replace_records()
    with pytest.raises(LedgerError, match=rf"neighbours '{first}'.*replace_records\(\).*Nothing was spent\.") as caught:
        release(other, nw.Ledger.open(ledger.path))
    assert (caught.value.stored, caught.value.given) == (first, other)
    assert ledger.spent() == nw.PureDP(1)
    assert ledger.neighbours == first
    release(first, ledger, 2)
    ledger.check()


def test_a_ledger_that_never_sold_anything_has_no_relation_yet(ledger: nw.Ledger) -> None:
    with pytest.raises(nw.BudgetExceeded):
        release("change-one", ledger, 11)
    ledger.replace_records()
    release("add-remove", ledger)
    assert ledger.neighbours == "add-remove"


def request(neighbours: str, salt: int = 0) -> bytes:
    return json.dumps({"schema": {"neighbours": neighbours}, "salt": salt}).encode()


def named(account: Account, neighbours: str) -> bytes:
    content: dict[str, Any] = {"dataset": account.dataset, "ledger_head": account.head, "simulated": False}
    return json.dumps(content | {"schema": {"neighbours": neighbours}}).encode()


def test_a_release_must_name_the_relation_of_its_request(ledger: nw.Ledger) -> None:
    with pytest.raises(LedgerError, match=r"another neighbour relation than its request\. Nothing was spent\."):
        ledger.release_once(
            request("change-one"), nw.PureDP(1), None, "f", lambda account: named(account, "add-remove")
        )
    assert ledger.spent() is None


def test_of_two_that_use_an_empty_ledger_at_once_one_gives_it_its_relation(ledger: nw.Ledger) -> None:
    """The first is held in the middle of its release until the second has looked and found no relation."""
    looked, refused = threading.Event(), []

    def second() -> None:
        other = nw.Ledger.open(ledger.path)
        assert other.find(request("add-remove"), nw.PureDP(1), None, "g") is None
        looked.set()
        try:
            other.release_once(
                request("add-remove"), nw.PureDP(1), None, "g", lambda account: named(account, "add-remove")
            )
        except LedgerError as error:
            refused.append(error)

    thread = threading.Thread(target=second)

    def first(account: Account) -> bytes:
        thread.start()
        assert looked.wait(60)
        return named(account, "change-one")

    ledger.release_once(request("change-one"), nw.PureDP(1), None, "f", first)
    thread.join(60)
    assert len(refused) == 1
    assert ledger.neighbours == "change-one"
    assert ledger.spent() == nw.PureDP(1)


def test_a_level_or_column_that_reads_like_a_relation_is_none(ledger: nw.Ledger) -> None:
    """The relation is that of the schema, wherever else in the release the words may stand."""
    columns = {"neighbours": nw.Levels(["add-remove", '"neighbours":"add-remove"'])}
    declared = nw.Schema(columns, n=2, neighbours="change-one", missing={"neighbours": "add-remove"})
    table = nw.Table.read({"neighbours": ["add-remove", None]}, declared)
    nw.make_release(table, nw.plan(nw.Histogram("neighbours"), declared, guarantee=nw.PureDP(1)), ledger=ledger)
    assert ledger.neighbours == "change-one"


def both(ledger: nw.Ledger, guarantee: nw.PureDP, monkeypatch: pytest.MonkeyPatch) -> None:
    """What version 0.1 let happen: a change-one charge, replaced records, an add-remove charge on a part."""
    with monkeypatch.context() as patch:
        for module in (ledger_module, ledger_refusals):
            patch.setattr(module, "check_relation", lambda *_: None)
        for k, neighbours in enumerate(RELATIONS):
            ledger.release_once(
                request(neighbours, k), guarantee, None, "f", lambda account, r=neighbours: named(account, r)
            )
            if k == 0:
                ledger.replace_records()


@pytest.mark.parametrize(
    ("limit", "guarantee", "total"),
    [
        (nw.PureDP(4), nw.PureDP(1), nw.PureDP(3)),
        (nw.ZeroConcentratedDP(9), nw.ZeroConcentratedDP(1), nw.ZeroConcentratedDP(5)),
        (nw.GaussianDP(9), nw.GaussianDP(2), nw.GaussianDP.from_parts(4 + 16)),
    ],
)
def test_the_true_total_of_both_relations_counts_add_remove_for_two_records(
    limit: Any, guarantee: Any, total: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = nw.Ledger.open(tmp_path / "both.ledger", limit=limit)
    both(ledger, guarantee, monkeypatch)
    assert ledger.spent() == total
    with pytest.raises(LedgerError, match="both neighbour relations"):
        ledger.check()


def test_a_total_that_no_delta_can_say_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = nw.Ledger.open(tmp_path / "both.ledger", limit=nw.ApproxDP(60, "1e-5"))
    both(ledger, nw.ApproxDP(20, "1e-6"), monkeypatch)
    with pytest.raises(LedgerError, match="more than any epsilon and delta below 1 can say was spent"):
        ledger.check()
    assert "more than any" in str(ledger)
