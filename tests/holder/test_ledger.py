"""Promises C4 and F4 of the ledger: exact charges, one release a request, one set of records, nothing leaked."""

from __future__ import annotations

import json
import sqlite3
import threading
import traceback
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from accounts import FINGERPRINT, HALF, produce, spend

from noisewise.errors import (
    BudgetExceeded,
    DifferentRecords,
    Incomparable,
    InvalidArgument,
    InvalidData,
    LedgerError,
    NoisewiseError,
)
from noisewise.holder.ledger import Account, Ledger
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "survey.ledger"


# What a release costs


def test_one_tenth_ten_times_from_one_leaves_exactly_nothing(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(1))
    for taken in range(10):
        left = ledger.remaining()
        assert left is not None
        assert left.to_dict() == PureDP(1 - Fraction(taken, 10)).to_dict()
        spend(ledger, PureDP(0.1))
    assert ledger.spent() == PureDP(1)
    assert ledger.remaining() is None
    with pytest.raises(BudgetExceeded):
        spend(ledger, PureDP("1e-50"))
    ledger.check(ledger.releases())


def test_a_refusal_tells_what_was_needed_what_remains_and_that_nothing_was_spent(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(2))
    spend(ledger, PureDP("1.7"))
    drawn: list[Account] = []
    with pytest.raises(BudgetExceeded) as caught:
        ledger.release_once(b"more", PureDP(0.5), None, FINGERPRINT, lambda account: drawn.append(account) or b"{}")
    assert str(caught.value) == (
        "this release needs epsilon = 0.5, but 0.3 of 2 remains in ledger 'survey.ledger'. "
        "Ask for epsilon <= 0.3, or open a new ledger with the data owner's consent. Nothing was spent."
    )
    assert (caught.value.needed, caught.value.remaining, caught.value.limit) == (PureDP(0.5), PureDP(0.3), PureDP(2))
    assert drawn == [], "no noise is drawn for a release that is refused"
    assert ledger.spent() == PureDP("1.7")
    spend(ledger, PureDP(0.3))
    with pytest.raises(BudgetExceeded, match=r"needs epsilon = 1, but nothing of 2 remains .* Open a new ledger"):
        spend(ledger, PureDP(1))


def test_disjoint_parts_cost_their_maximum_and_overlapping_parts_their_sum(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(2))
    spend(ledger, PureDP(1), (Fraction(0), HALF))
    spend(ledger, PureDP("1.5"), (HALF, Fraction(1)))
    assert ledger.spent() == PureDP("1.5")
    spend(ledger, PureDP("0.25"), (Fraction(1, 4), Fraction(3, 4)))
    assert ledger.spent() == PureDP("1.75")
    assert ledger.remaining((Fraction(0), Fraction(1, 4))) == PureDP(1)
    assert ledger.remaining((Fraction(0), HALF)) == PureDP("0.75")
    assert ledger.remaining() == PureDP("0.25")
    with pytest.raises(BudgetExceeded):
        spend(ledger, PureDP(HALF))
    spend(ledger, PureDP("0.75"), (Fraction(0), HALF))
    assert ledger.spent() == PureDP(2)
    assert [entry.part for entry in ledger.entries()[1:3]] == [(Fraction(0), HALF), (HALF, Fraction(1))]


@pytest.mark.parametrize(
    ("limit", "guarantee", "n_fit"),
    [
        (PureDP(3), PureDP(1), 3),
        (ApproxDP(3, "1e-6"), ApproxDP(1, "1e-7"), 3),
        (ZeroConcentratedDP(1), ZeroConcentratedDP("0.25"), 4),
        (GaussianDP(1), GaussianDP("0.5"), 4),
    ],
    ids=str,
)
def test_every_kind_of_guarantee_is_kept_exactly(
    path: Path, limit: Guarantee, guarantee: Guarantee, n_fit: int
) -> None:
    ledger = Ledger.open(path, limit)
    for _ in range(n_fit):
        spend(ledger, guarantee)
    with pytest.raises(BudgetExceeded):
        spend(ledger, guarantee)
    again = Ledger.open(path)
    assert again.limit == limit
    assert [charge.guarantee for charge in again.charges()] == [guarantee] * n_fit


def test_a_guarantee_that_has_no_place_on_the_limits_scale_is_refused_and_free(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(3))
    with pytest.raises(Incomparable):
        spend(ledger, GaussianDP(1))
    assert ledger.spent() is None


# The same request, the same records


def test_the_same_request_returns_the_same_bytes_and_is_charged_once(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(1))
    accounts: list[Account] = []

    def recorded(account: Account) -> bytes:
        accounts.append(account)
        return produce(account)

    before = ledger.head
    first = ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, recorded)
    assert Ledger.open(path).release_once(b"request", PureDP(1), None, FINGERPRINT, recorded) == first
    assert accounts == [Account(ledger.dataset, before)], "noise is drawn once, on the head before the entry"
    assert ledger.releases() == (first,)
    assert ledger.spent() == PureDP(1)


def test_other_records_are_refused_before_any_charge(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(10))
    ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, produce)
    for request in (b"request", b"another"):
        with pytest.raises(DifferentRecords, match=r"replace_records\(\).*Nothing was spent\."):
            ledger.release_once(request, PureDP(1), None, "v1:4000:other", produce)
    assert ledger.spent() == PureDP(1)


def test_a_release_that_failed_does_not_tie_the_ledger_to_its_records(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(1))
    with pytest.raises(BudgetExceeded):
        ledger.release_once(b"request", PureDP(2), None, "v1:4000:other", produce)
    spend(ledger, PureDP(1))


def test_replaced_records_keep_what_was_spent_under_a_new_id(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(3))
    first = ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, produce)
    old, head = ledger.dataset, ledger.head
    ledger.replace_records()
    assert ledger.dataset != old
    assert ledger.head != head
    assert ledger.entries()[-1].kind == "replace-records"
    assert ledger.spent() == PureDP(1)
    second = ledger.release_once(b"request", PureDP(1), None, "v1:9:new", produce)
    assert second != first, "on other records the same request is another release"
    assert ledger.spent() == PureDP(2)
    with pytest.raises(DifferentRecords):
        ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, produce)
    ledger.check([first, second])


def test_charges_that_leave_no_fixed_amount_are_still_kept_within_the_limit(path: Path) -> None:
    ledger = Ledger.open(path, ApproxDP(1, "1e-6"))
    spend(ledger, ZeroConcentratedDP("0.01"))
    with pytest.raises(Incomparable):
        ledger.remaining()
    assert "no fixed amount" in str(ledger)
    with pytest.raises(
        BudgetExceeded, match=r"rho = 0\.1, which does not fit into what remains of \(epsilon = 1"
    ) as caught:
        spend(ledger, ZeroConcentratedDP("0.1"))
    assert caught.value.remaining is None
    spend(ledger, ZeroConcentratedDP("0.001"))
    ledger.check(ledger.releases())


# Failing half-way


@pytest.mark.parametrize("failure", [ValueError, sqlite3.OperationalError, MemoryError, RecursionError, OSError])
def test_a_release_that_cannot_be_made_is_free_and_quotes_nothing(path: Path, failure: type[Exception]) -> None:
    ledger = Ledger.open(path, PureDP(1))

    def fail(account: Account) -> bytes:
        raise failure("could not convert 'canary-record-51.63'")

    with pytest.raises(LedgerError, match=rf"{failure.__name__}\. Nothing was spent\.") as caught:
        ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, fail)
    assert "canary" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None, "not even a logger that follows contexts may see it"
    assert ledger.spent() is None
    spend(ledger, PureDP(1))


def test_our_own_errors_pass_through_a_release_unchanged(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(1))

    def fail(account: Account) -> bytes:
        raise InvalidData("column 'income' has a missing value. Nothing was spent.", column="income")

    with pytest.raises(InvalidData, match="income"):
        ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, fail)
    assert ledger.entries()[1:] == ()


@pytest.mark.parametrize(
    "content",
    [
        {"simulated": True},
        {"simulated": 1},
        {"ledger_head": "0" * 64},
        {"dataset": "0" * 32},
    ],
    ids=str,
)
def test_a_simulated_or_foreign_release_is_not_accepted(path: Path, content: dict[str, object]) -> None:
    ledger = Ledger.open(path, PureDP(1))
    with pytest.raises(LedgerError, match=r"no release was made.*Nothing was spent\."):
        ledger.release_once(b"r", PureDP(1), None, FINGERPRINT, lambda _: json.dumps(content).encode())
    assert ledger.spent() is None


@pytest.mark.parametrize("returned", [None, "text", b"", bytearray(b"x"), 1])
def test_only_bytes_are_stored_as_a_release(path: Path, returned: object) -> None:
    ledger = Ledger.open(path, PureDP(1))
    with pytest.raises(LedgerError, match="not the bytes of a release"):
        ledger.release_once(b"r", PureDP(1), None, FINGERPRINT, lambda _: returned)  # type: ignore[arg-type,return-value]
    assert ledger.spent() is None


def test_threads_that_share_one_ledger_never_overspend(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(10))
    refused: list[NoisewiseError] = []

    def several() -> None:
        for _ in range(5):
            try:
                spend(ledger, PureDP(1))
            except BudgetExceeded as error:
                refused.append(error)

    threads = [threading.Thread(target=several) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.releases()) == len(refused) == 10


# Bad arguments, and what may be seen


BAD = [float("nan"), float("inf"), -1, 0, "", None, True, 1e308, 10**400, b"x", object()]


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:12])
def test_bad_arguments_are_named_and_free(path: Path, value: object) -> None:
    ledger = Ledger.open(path, PureDP(1))
    good = {"request": b"r", "guarantee": PureDP(1), "part": None, "fingerprint": FINGERPRINT, "produce": produce}
    for argument in good:
        if (argument, value) in [("part", None), ("request", b"x")]:
            continue
        with pytest.raises(InvalidArgument) as caught:
            ledger.release_once(**(good | {argument: value}))
        assert argument in str(caught.value.argument)
    with pytest.raises(NoisewiseError, match="path"):
        Ledger.open(value, PureDP(1))  # type: ignore[arg-type]
    with pytest.raises(NoisewiseError, match="limit"):
        Ledger.open(path.with_name("new.ledger"), value)  # type: ignore[arg-type]
    if value != 0 and value is not True and not isinstance(value, int):
        with pytest.raises(NoisewiseError, match="wait_seconds"):
            Ledger.open(path, wait_seconds=value)  # type: ignore[arg-type]
    assert ledger.spent() is None
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "part",
    [(0, 1, 2), (HALF, HALF), (HALF, Fraction(0)), (Fraction(-1), HALF), (HALF, Fraction(3, 2)), (float("nan"), 1)],
)
def test_a_part_that_is_no_part_is_refused_and_free(path: Path, part: object) -> None:
    ledger = Ledger.open(path, PureDP(1))
    with pytest.raises(InvalidArgument, match="part"):
        spend(ledger, PureDP(1), part)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="part"):
        ledger.remaining(part)  # type: ignore[arg-type]
    assert ledger.spent() is None


def test_a_guarantee_that_could_not_be_read_back_is_refused_before_it_closes_the_ledger(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(1))
    with pytest.raises(InvalidArgument, match="digits"):
        PureDP(Fraction(10**900 + 1, 3**1900))
    long = PureDP(Fraction(10**330 + 1, 3**700))  # long, but within what is read back
    spend(Ledger.open(path.with_name("other.ledger"), long), long)
    assert Ledger.open(path.with_name("other.ledger")).spent() == long
    with pytest.raises(InvalidArgument, match="digits"):
        spend(ledger, PureDP(1), (HALF, HALF + Fraction(1, 3**10_000)))
    assert Ledger.open(path).spent() is None


def edit_the_seal(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE private SET seal = 'x'")


def test_neither_the_fingerprint_nor_its_key_is_ever_shown(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(2))
    release = spend(ledger, PureDP(1))
    shown = [repr(ledger), str(ledger), repr(ledger.entries()), str(ledger.charges()), release.decode(), ledger.head]
    attempts: list[Callable[[], object]] = [
        lambda: ledger.release_once(b"r", PureDP(1), None, "v1:1:canary-other", produce),
        lambda: spend(ledger, PureDP(2)),
        lambda: Ledger.open(path, PureDP(9)),
        lambda: ledger.check([b"{}"]),
        lambda: edit_the_seal(path) or ledger.spent(),
    ]
    key = ledger.fingerprint_key()
    for attempt in attempts:
        with pytest.raises(NoisewiseError) as caught:
            attempt()
        shown += ["".join(traceback.format_exception(caught.value)), repr(caught.value), repr(caught.value.fields)]
    for text in shown:
        # A traceback quotes this file's own source lines, and with them the word we look for.
        quoted = "".join(line for line in text.splitlines() if "canary-other" not in line)
        assert "canary" not in quoted
        assert key.hex() not in text
        assert repr(key)[2:-1] not in text


def test_the_printed_account_is_short_and_complete(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(2))
    assert str(ledger).splitlines() == [
        f"Ledger 'survey.ledger' of data set {ledger.dataset}",
        "  limit      epsilon = 2",
        "  spent      nothing, in 0 releases",
        "  remaining  epsilon = 2",
    ]
    spend(ledger, PureDP(0.5))
    assert str(ledger).splitlines()[2:] == ["  spent      epsilon = 0.5, in 1 release", "  remaining  epsilon = 1.5"]
    spend(ledger, PureDP(1.5))
    assert str(ledger).splitlines()[2:] == ["  spent      epsilon = 2, in 2 releases", "  remaining  nothing"]


def test_the_public_view_of_an_entry_says_what_was_done(path: Path) -> None:
    import hashlib

    ledger = Ledger.open(path, PureDP(2))
    release = ledger.release_once(b"request", PureDP(1), (Fraction(0), HALF), FINGERPRINT, produce)
    opened, released = ledger.entries()
    assert (opened.sequence, opened.kind, opened.guarantee) == (0, "open", PureDP(2))
    assert (released.sequence, released.kind, released.dataset) == (1, "release", ledger.dataset)
    assert (released.guarantee, released.part) == (PureDP(1), (Fraction(0), HALF))
    assert released.request == hashlib.sha256(b"request").hexdigest()
    assert released.release_hash == hashlib.sha256(release).hexdigest()
    assert released.head == ledger.head
    assert released.when.utcoffset() is not None
