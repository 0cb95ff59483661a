"""Promise C5: nothing in a ledger is changed unnoticed; and what replaced records gave still counts."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from accounts import HALF, filled, spend

from noisewise.errors import (
    BudgetExceeded,
    LedgerError,
)
from noisewise.holder.ledger import Ledger
from noisewise.privacy.guarantee import ApproxDP, PureDP


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "survey.ledger"


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def cells(path: Path) -> list[tuple[str, int, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            (table, row, column)
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (_, column, *_) in connection.execute(f"PRAGMA table_info({table})").fetchall()
            for (row,) in connection.execute(f"SELECT rowid FROM {table}").fetchall()
        ]


@pytest.mark.parametrize(
    "change",
    [
        "CASE typeof({0}) WHEN 'integer' THEN {0} + 9 WHEN 'blob' THEN CAST({0} || x'20' AS BLOB) ELSE {0} || ' ' END",
        "CASE WHEN {0} IS NULL THEN 'x' ELSE 77 END",
        "x'ff'",
    ],
    ids=["appended", "retyped", "undecodable"],
)
def test_no_cell_can_be_edited(path: Path, change: str) -> None:
    filled(path)
    tried = 0
    for table, row, column in cells(path):
        edited = path.with_name(f"{table}-{row}-{column}.ledger")
        shutil.copyfile(path, edited)
        with closing(sqlite3.connect(edited, isolation_level=None)) as connection:
            before = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
            try:
                connection.execute(f"UPDATE {table} SET {column} = {change.format(column)} WHERE rowid = ?", (row,))
            except sqlite3.IntegrityError:
                continue  # A sequence is an integer for SQLite, too.
            after = connection.execute(f"SELECT CAST({column} AS BLOB) FROM {table}").fetchall()
        if before == (None,) and (None,) in after and change.startswith("CASE typeof"):
            continue  # NULL with something appended is NULL.
        with pytest.raises(LedgerError, match=r"Nothing was spent\.") as caught:
            Ledger.open(edited)
        assert caught.value.__context__ is None
        if table == "entries" and column != "sequence" and change != "x'ff'":
            assert f"entry {row} was edited" in str(caught.value)
        tried += 1
    assert tried > 25


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (['UPDATE entries SET guarantee = \'{"epsilon": "400", "kind": "pure-dp"}\' WHERE sequence = 0'], "entry 0"),
        (["DELETE FROM entries WHERE sequence = 0"], "entry 0 is missing"),
        (["DELETE FROM entries WHERE sequence = 2"], "entry 2 is missing"),
        (["DELETE FROM entries WHERE sequence = 0", "UPDATE entries SET sequence = sequence - 1"], "entry 0 was"),
        (
            [
                "UPDATE entries SET sequence = sequence - 3 WHERE sequence IN (1, 2)",
                "UPDATE entries SET sequence = -sequence WHERE sequence < 0",
            ],
            "entry 1 was edited",
        ),
        (["DELETE FROM entries"], "entry 0"),
        (["DELETE FROM private"], "private row"),
        (["UPDATE private SET fingerprint = NULL"], "private row was edited"),
        (["INSERT INTO private SELECT * FROM private"], "private row"),
        (["INSERT INTO entries SELECT 5, kind, dataset, request, guarantee, part, release, moment, head FROM entries "
          "WHERE sequence = 4"], "entry 5 was edited"),
        (["CREATE TRIGGER forget AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE sequence > 1; END"], "tables"),
        (["PRAGMA user_version = 0"], "tables were changed"),
        (["PRAGMA user_version = 7"], "version 7, and this program knows version 1"),
        (["PRAGMA application_id = 0"], "not a ledger"),
    ],
)  # fmt: skip
def test_no_row_or_rule_can_be_changed(path: Path, statements: list[str], reason: str) -> None:
    filled(path)
    alter(path, *statements)
    with pytest.raises(LedgerError, match=reason):
        Ledger.open(path)


def test_a_deleted_last_row_shows_against_a_release_made_from_it(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(4))
    releases = [spend(ledger, PureDP(1)) for _ in range(3)]
    ledger.check(releases)
    alter(path, "DELETE FROM entries WHERE sequence = 3")
    with pytest.raises(LedgerError, match="entries that were there when it was opened are gone"):
        spend(ledger, PureDP(1))
    again = Ledger.open(path)
    again.check(releases[:2])
    with pytest.raises(LedgerError, match="entry 3, of which a release is given, is missing"):
        again.check(releases)
    alter(path, "DELETE FROM entries WHERE sequence = 2")
    with pytest.raises(LedgerError, match=r"a release names the entry with head .* which is not in it"):
        Ledger.open(path).check(releases[2:])
    spend(Ledger.open(path), PureDP(1))
    with pytest.raises(LedgerError, match="not the one stored as entry 2"):
        Ledger.open(path).check(releases[1:2])


def test_an_edited_release_file_is_refused(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(4))
    release = spend(ledger, PureDP(1))
    ledger.check([json.dumps(json.loads(release), indent=2).encode()])
    with pytest.raises(LedgerError, match="not the one stored as entry 1"):
        ledger.check([json.dumps(json.loads(release) | {"simulated": 0}).encode()])
    for nothing in (b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"ledger_head": 1}'):
        with pytest.raises(LedgerError, match="not a release that names its ledger"):
            ledger.check([nothing])
    with pytest.raises(LedgerError, match="belongs to another ledger"):
        ledger.check([spend(Ledger.open(path.with_name("other.ledger"), PureDP(1)), PureDP(1))])


def test_a_rewritten_chain_that_overspends_is_refused(path: Path) -> None:
    """Someone who recomputes every hash, as we do, still cannot hide that the sum passes the limit."""
    from noisewise.holder.ledger_chain import RELEASED, append, read_book

    ledger = Ledger.open(path, PureDP(1))
    with closing(sqlite3.connect(path)) as connection:
        book = read_book(connection, path)
        append(
            connection,
            book.head,
            1,
            RELEASED,
            dataset=book.dataset,
            request="0" * 64,
            guarantee=PureDP(2),
            release=b"{}",
        )
        connection.commit()
    with pytest.raises(LedgerError, match=r"more than its limit, epsilon = 1, was spent"):
        ledger.check()
    with pytest.raises(BudgetExceeded):
        spend(ledger, PureDP("1e-9"))


def test_a_flipped_byte_is_refused_or_changes_nothing(path: Path) -> None:
    ledger = filled(path)
    entries, releases, key = ledger.entries(), ledger.releases(), ledger.fingerprint_key()
    original = path.read_bytes()
    n_refused = 0
    for position in [*range(100), *random.sample(range(100, len(original)), 300)]:
        flipped = path.with_name("flipped.ledger")
        flipped.write_bytes(original[:position] + bytes([original[position] ^ 0x41]) + original[position + 1 :])
        try:
            with Ledger.open(flipped, wait_seconds=0) as damaged:
                assert (damaged.entries(), damaged.releases(), damaged.fingerprint_key()) == (entries, releases, key)
                damaged.check(releases)
        except LedgerError:
            n_refused += 1
    assert n_refused > 0


# Replaced records


def test_parts_of_replaced_records_count_for_everyone(path: Path) -> None:
    """A person in the first half of the old records may be in the second half of the new ones."""
    ledger = Ledger.open(path, PureDP(3))
    spend(ledger, PureDP(1), (Fraction(0), HALF))
    spend(ledger, PureDP(HALF), (HALF, Fraction(1)))
    ledger.replace_records()
    assert ledger.spent() == PureDP(1), "nobody gave more than the worst part of the old records"
    spend(ledger, PureDP(2), (HALF, Fraction(1)))
    assert ledger.spent() == PureDP(3)
    with pytest.raises(BudgetExceeded):
        spend(ledger, PureDP(HALF), (HALF, Fraction(1)))


def worst_person(charges: list[list[tuple[Fraction, tuple[Fraction, Fraction] | None]]]) -> Fraction:
    """By enumeration: people who stood anywhere in each data set, and what each of them has given."""
    places = [Fraction(k, 6) for k in (1, 3, 5)]  # one inside each third
    return max(
        sum(
            (
                epsilon
                for group, place in zip(charges, person, strict=True)
                for epsilon, part in group
                if part is None or part[0] <= place < part[1]
            ),
            Fraction(0),
        )
        for person in itertools.product(places, repeat=len(charges))
    )


def test_the_total_is_that_of_the_worst_person_across_replaced_records(path: Path) -> None:
    thirds = [Fraction(k, 3) for k in range(4)]
    parts = [None, *itertools.combinations(thirds, 2)]
    n_refused = 0
    for attempt in range(8):
        ledger = Ledger.open(path.with_name(f"{attempt}.ledger"), PureDP(2))
        charges: list[list[tuple[Fraction, tuple[Fraction, Fraction] | None]]] = [[]]
        for _ in range(12):
            if random.random() < 0.2:
                ledger.replace_records()
                charges.append([])
                continue
            epsilon, part = Fraction(random.randint(1, 7), 10), random.choice(parts)
            would_be = worst_person([*charges[:-1], [*charges[-1], (epsilon, part)]])
            if would_be <= 2:
                spend(ledger, PureDP(epsilon), part)
                charges[-1].append((epsilon, part))
            else:
                with pytest.raises(BudgetExceeded):
                    spend(ledger, PureDP(epsilon), part)
                n_refused += 1
            worst = worst_person(charges)
            assert ledger.spent() == (PureDP(worst) if worst else None)
            assert ledger.remaining() == (PureDP(2 - worst) if worst < 2 else None)
        ledger.check(ledger.releases())
    assert n_refused > 0


def test_under_a_limit_of_two_numbers_replacing_records_loses_no_delta(path: Path) -> None:
    ledger = Ledger.open(path, ApproxDP(3, "1e-6"))
    for _ in range(3):
        spend(ledger, PureDP("0.5"), (Fraction(0), HALF))
        spend(ledger, PureDP("0.25"), (HALF, Fraction(1)))
        spend(ledger, ApproxDP("0.25", "1e-7"), (HALF, Fraction(1)))
        ledger.replace_records()
        ledger.check()
    assert ledger.remaining() == ApproxDP("1.5", "7e-7")
    spend(ledger, ApproxDP("1.5", "7e-7"))
    with pytest.raises(BudgetExceeded):
        spend(ledger, PureDP("0.1"))


def test_records_replaced_in_too_many_different_ways_are_refused_and_nothing_changes(path: Path) -> None:
    ledger = Ledger.open(path, ApproxDP(100, "1e-3"))

    def replace(times: int) -> None:
        for number in range(times):
            spend(ledger, PureDP(Fraction(1, number + 2)), (Fraction(0), HALF))
            spend(ledger, ApproxDP(Fraction(1, number + 2), "1e-6"), (HALF, Fraction(1)))
            ledger.replace_records()

    replace(6)
    before = ledger.dataset
    with pytest.raises(LedgerError, match=r"128 different ways.*Nothing was spent\."):
        replace(1)
    assert ledger.dataset == before
    ledger.check(ledger.releases())
