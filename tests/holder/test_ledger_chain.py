"""Promise C5: no cell, row or rule of a ledger, and no release file, is changed unnoticed."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from noisewise.errors import (
    BudgetExceeded,
    LedgerError,
)
from noisewise.holder.ledger import Account, Ledger
from noisewise.privacy.guarantee import Guarantee, PureDP

FINGERPRINT = "v1:4000:canary-fingerprint"
HALF = Fraction(1, 2)


def produce(account: Account) -> bytes:
    """A release as the door writes it, with random content."""
    content = {
        "dataset": account.dataset,
        "ledger_head": account.head,
        "simulated": False,
        "value": os.urandom(8).hex(),
    }
    return json.dumps(content).encode()


def spend(ledger: Ledger, guarantee: Guarantee, part: tuple[Fraction, Fraction] | None = None) -> bytes:
    return ledger.release_once(os.urandom(16), guarantee, part, FINGERPRINT, produce)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "survey.ledger"


def filled(path: Path) -> Ledger:
    """A ledger with every kind of entry and every kind of cell."""
    ledger = Ledger.open(path, PureDP(4))
    spend(ledger, PureDP(1))
    spend(ledger, PureDP(1), (Fraction(0), HALF))
    ledger.replace_records()
    spend(ledger, PureDP(1))
    return ledger


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
