"""The file under a ledger: one SQLite database, written in whole transactions or not at all.

The promise: `write` returns only what is on disk. Each write is one BEGIN IMMEDIATE transaction, so its reads and
its writes see one state and no other process comes between; it is journalled (journal_mode=DELETE) and synchronised
down to the directory entry (synchronous=EXTRA). Each call uses a fresh connection: a fork, a thread or a file that
was moved away cannot mix two ledgers up.

Whatever SQLite or the system reports becomes a `LedgerError` in our words, raised outside the handler: SQLite's own
message may quote a cell, so it must not even travel along as the error's context.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from noisewise.errors import LedgerError
from noisewise.files import has_one_name, synchronise

APPLICATION_ID = 0x4E57_4C44  # "NWLD", in the header of the file
VERSION = 1
TABLES = {
    "entries": "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, dataset TEXT NOT NULL, "
    "request TEXT, guarantee TEXT, part TEXT, release BLOB, moment TEXT NOT NULL, head TEXT NOT NULL)",
    "private": "CREATE TABLE private (salt BLOB NOT NULL, fingerprint TEXT, arrangement TEXT, seal TEXT NOT NULL)",
}
BEING_MADE = (".ledger-", ".new")  # how the name of a ledger begins and ends until it is complete
PRAGMAS = ("journal_mode=DELETE", "synchronous=EXTRA", "secure_delete=ON", "temp_store=MEMORY", "trusted_schema=OFF")

Result = TypeVar("Result")


def read(path: Path, act: Callable[[sqlite3.Connection], Result], *, wait_seconds: float) -> Result:
    """Run `act` on one unchanging view of the file."""
    problem: LedgerError
    try:
        with closing(_connect(path, wait_seconds)) as connection:
            _prepare(connection, wait_seconds)
            connection.execute("BEGIN")
            _patiently(connection, "SELECT 1 FROM sqlite_master", wait_seconds)
            _recognise(connection, path)
            return act(connection)
    except sqlite3.Error as error:
        problem = _explain(path, error, wait_seconds)
    raise problem


def write(
    path: Path, act: Callable[[sqlite3.Connection], tuple[Result, str]], *, wait_seconds: float
) -> tuple[Result, str]:
    """Run `act` in one transaction; it gives its result, and the head of the entry that the commit will store.

    Whatever stops `act`, an interrupt included, closes the connection, and that rolls everything back.
    """
    head = None
    problem: LedgerError
    try:
        with closing(_connect(path, wait_seconds)) as connection:
            _prepare(connection, wait_seconds)
            _patiently(connection, "BEGIN IMMEDIATE", wait_seconds)
            _recognise(connection, path)
            result, head = act(connection)
            _patiently(connection, "COMMIT", wait_seconds)
            return result, head
    except sqlite3.Error as error:
        problem = _explain(path, error, wait_seconds)
        if head is not None and not _is_busy(error) and _may_be_stored(path, head, wait_seconds):
            problem = LedgerError(
                f"the disk failed while ledger {path.name!r} was being written, and it is not certain whether the "
                "charge was stored. Nothing was shown. Run `noisewise ledger check`; repeating the same request "
                "is free if it was stored.",
                reason="commit uncertain",
            )
    raise problem


def create(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Build a complete ledger aside and link it into place: one creator wins, and no half-made file ever shows."""
    _refuse_stray_journal(path)
    problem: LedgerError
    fresh: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=BEING_MADE[0], suffix=BEING_MADE[1], dir=path.parent)  # its mode is 0600
        os.close(handle)
        fresh = Path(name)
        with closing(_connect(fresh, 0)) as connection:
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={VERSION}")
            _prepare(connection, 0)
            connection.execute("BEGIN IMMEDIATE")
            for definition in TABLES.values():
                connection.execute(definition)
            fill(connection)
            connection.execute("COMMIT")
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        return
    except OSError as error:
        problem = _explain_os(path, error)
    except sqlite3.Error as error:
        problem = _explain(path, error, 0)
    finally:
        if fresh is not None:
            fresh.unlink(missing_ok=True)
            fresh.with_name(fresh.name + "-journal").unlink(missing_ok=True)
        synchronise(path.parent)
    raise problem


def exists(path: Path) -> bool:
    """Whether a file lies at `path`; anything that is not a plain file of one name is refused (a pipe would hang)."""
    problem: LedgerError
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and has_one_name(path, BEING_MADE):
            return True
        kind = "a folder" if stat.S_ISDIR(mode) else "not a plain file"
        remedy = "give the path of a file"
        if stat.S_ISREG(mode):
            kind = "a file of several names (hard links), and a crash under one name could undo a charge under another"
            remedy = "keep one name and remove the others, or use a symbolic link"
        problem = refusal(path, f"it is {kind}", remedy)
    except FileNotFoundError:
        return False
    except OSError as error:
        problem = _explain_os(path, error)
    raise problem


def refusal(path: Path, reason: str, remedy: str, **fields: object) -> LedgerError:
    """The ledger cannot be used, why, and what to do."""
    message = f"ledger {path.name!r} cannot be used: {reason}. To go on, {remedy}. Nothing was spent."
    return LedgerError(message, reason=reason, **fields)


def damaged(path: Path, reason: str, **fields: object) -> LedgerError:
    """The ledger does not agree with itself."""
    remedy = "restore the file from a backup, or open a new ledger with the data owner's consent"
    return refusal(path, reason, remedy, **fields)


def _connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    # SQLite itself waits a second at most; `_patiently` goes on from there, so an interrupt is never kept waiting.
    timeout = min(1.0, wait_seconds)
    return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None)


def _prepare(connection: sqlite3.Connection, wait_seconds: float) -> None:
    for pragma in PRAGMAS:
        _patiently(connection, f"PRAGMA {pragma}", wait_seconds)


def _patiently(connection: sqlite3.Connection, statement: str, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute(statement).close()
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(0.005)


def _recognise(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise refusal(path, "the file is not a ledger", "give the path of a ledger, or a new path and a limit")
    if version > VERSION:
        reason = f"it has version {version}, and this program knows version {VERSION}"
        raise refusal(path, reason, "install a newer noisewise")
    if version != VERSION or dict(connection.execute("SELECT name, sql FROM sqlite_master")) != TABLES:
        raise damaged(path, "its tables were changed")


def _may_be_stored(path: Path, head: str, wait_seconds: float) -> bool:
    """After a failed commit, look again with fresh eyes (this also rolls back a journal left behind)."""

    def count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM entries WHERE head = ?", (head,)).fetchone()[0])

    try:
        return read(path, count, wait_seconds=wait_seconds) > 0
    except LedgerError:
        return True


def _refuse_stray_journal(path: Path) -> None:
    """SQLite would play a journal left by a lost ledger back into the new one."""
    journal = path.with_name(path.name + "-journal")
    if journal.exists() and not path.exists():
        raise refusal(
            path,
            f"its journal {journal.name!r} lies there without it",
            "put the ledger file back beside its journal, or move the journal away if that ledger is truly gone",
        )


def error_code(error: sqlite3.Error) -> int:
    """What kind of fault SQLite reports."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # the low byte is the family of the code


def _is_busy(error: sqlite3.Error) -> bool:
    return error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _explain(path: Path, error: sqlite3.Error, wait_seconds: float) -> LedgerError:
    reasons = {
        sqlite3.SQLITE_BUSY: (
            f"another process kept it locked for more than {wait_seconds:g} seconds",
            "wait for that process to finish and repeat",
        ),
        sqlite3.SQLITE_READONLY: ("it is read-only for this user", "make the file and its folder writable"),
        sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check that the file is there and its folder is writable"),
        sqlite3.SQLITE_FULL: ("the disk is full", "free some space and repeat"),
        sqlite3.SQLITE_IOERR: ("the disk reported an error", "check the disk (its space and quota, too) and repeat"),
        sqlite3.SQLITE_NOTADB: ("the file is not a ledger", "give the path of a ledger, or a new path and a limit"),
    }
    code = sqlite3.SQLITE_BUSY if _is_busy(error) else error_code(error)
    if code in reasons:
        return refusal(path, *reasons[code])
    return damaged(path, "the file is damaged")


def _explain_os(path: Path, error: OSError) -> LedgerError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return refusal(path, f"there is no folder {str(path.parent)!r}", "create the folder first")
    reason = (error.strerror or type(error).__name__).lower()
    return refusal(path, f"the system says {reason!r}", "choose a writable folder on a local disk")
