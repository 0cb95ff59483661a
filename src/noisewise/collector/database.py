"""What differs between the databases that keep a survey: how they connect, wait in line, and take several statements.

**Writers of a SQLite file stand in line** at a lock of the operating system (a file beside it, `.line`), which wakes
the next one at once; SQLite alone would let them sleep and try again. What keeps them apart is SQLite's own lock.
Whoever waits longer than `WAIT_SECONDS`, in the line or at a lock of either database, leaves with a sentence: then a
process that writes hangs or was halted, and nothing was begun.

**PostgreSQL may be far away**: what a transaction says travels with the next statement that gives rows, or with its
end. A session that was halted inside a transaction is ended after `HALTED_SECONDS`, so that the others go on.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

from noisewise.errors import NoisewiseError, SurveyError
from noisewise.files import OWN, checked_path
from noisewise.printable import printable

__all__ = ["Connection", "Database", "Row", "Rows", "Statement", "database_at"]

WAIT_SECONDS, HALTED_SECONDS = 30.0, 60.0
LINE = ".line"  # beside the file: where its writers wait
POSTGRES = ("postgresql://", "postgres://")
Row = tuple[object, ...]


class Rows(Protocol):
    """What a statement found."""

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Connection(Protocol):
    """A connection to either database, without transactions of its own making."""

    def execute(self, statement: str, parameters: Row = ..., /) -> Rows: ...
    def close(self) -> None: ...


Statement = tuple[str, Row]  # with its parameters


@dataclass(frozen=True, slots=True)
class Database:
    """What differs between SQLite and PostgreSQL."""

    connect: Callable[[bool], Connection]  # whether a commit waits for the disk
    line: Callable[[], AbstractContextManager[None]]  # where writers wait for each other
    begin: str
    hold: str  # of the head's row, so that no other transaction can overtake
    mark: str  # of a parameter
    skip: str  # rows that others hold
    failures: tuple[type[Exception], ...]  # of the connection: try again on a new one
    # Several at once; what the last one found. A sentence where another writer keeps us waiting too long.
    together: Callable[[Connection, list[Statement]], Rows]


def database_at(where: str | os.PathLike[str], *, is_new: bool) -> tuple[Database, str]:
    """The database at a path or a URL, and how it is named in sentences."""
    if str(where).startswith(POSTGRES):
        shown = _without_password(str(where))
        return _postgres(str(where), shown), shown
    path = checked_path(where).absolute()
    shown = printable(path.name)
    flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if is_new else 0)
    try:
        os.close(os.open(path, flags, OWN))
    except OSError as error:
        raise SurveyError(
            f"The survey's store {shown!r} cannot be {'made' if is_new else 'opened'}: {error.strerror}.",
            reason=str(error.strerror),
        ) from None

    def connect(is_durable: bool) -> Connection:
        connection = sqlite3.connect(path, isolation_level=None, timeout=WAIT_SECONDS, check_same_thread=False)
        flushing = "FULL" if is_durable else "NORMAL"
        try:
            for pragma in ("journal_mode=WAL", f"synchronous={flushing}", "trusted_schema=OFF"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def together(connection: Connection, statements: list[Statement]) -> Rows:
        try:
            return _one_by_one(connection, statements)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise _held(shown) from None
            raise

    line = partial(_turn, f"{path}{LINE}", shown)
    return Database(connect, line, "BEGIN IMMEDIATE", "", "?", "", (sqlite3.Error,), together), shown


def _one_by_one(connection: Connection, statements: list[Statement]) -> Rows:
    *before, (last, parameters) = statements
    for statement, given in before:
        connection.execute(statement, given)
    return connection.execute(last, parameters)


def _held(shown: str) -> SurveyError:
    return SurveyError(
        f"The survey's store {shown!r} is held by another process, which has been writing for {WAIT_SECONDS:g} "
        "seconds. Look for one that hangs or was halted, end it, and try again. Nothing was changed.",
        reason="held",
    )


@contextmanager
def _turn(path: str, shown: str) -> Iterator[None]:
    """One's turn among the writers of a file; nobody waits where the system or the folder has no such lock."""
    try:
        import fcntl

        place = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWN)
    except (ImportError, OSError):
        yield
        return
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _wait_in_line(place, shown)
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(place)  # which gives the turn to the next


def _wait_in_line(place: int, shown: str) -> None:
    """Wait for the lock of an open file, no longer than one may.

    The system's wait has no end of its own, and a signal to end it belongs to the main thread alone. So another thread
    waits; where nobody wants the turn any more when it comes, that thread gives it on.
    """
    import fcntl

    door, is_given, is_gone = threading.Lock(), threading.Event(), False

    def wait() -> None:
        with suppress(OSError):
            fcntl.flock(place, fcntl.LOCK_EX)
        with door:
            if is_gone:
                os.close(place)
            else:
                is_given.set()

    threading.Thread(target=wait, name="survey-line", daemon=True).start()
    if is_given.wait(WAIT_SECONDS):
        return
    with door:
        if is_given.is_set():
            return
        is_gone = True
    raise _held(shown)


def _postgres(url: str, shown: str) -> Database:
    try:
        import psycopg
    except ImportError:
        raise NoisewiseError("A store in PostgreSQL needs psycopg: pip install 'noisewise[survey]'.") from None

    def connect(is_durable: bool) -> Connection:
        connection: Connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
        for setting in (
            f"synchronous_commit = {'on' if is_durable else 'off'}",
            f"lock_timeout = '{WAIT_SECONDS:g}s'",
            f"idle_in_transaction_session_timeout = '{HALTED_SECONDS:g}s'",  # of one that was halted: the others go on
        ):
            connection.execute(f"SET {setting}")
        return connection

    def together(connection: Connection, statements: list[Statement]) -> Rows:
        """In one message: each by itself would wait for the network while the others wait for who holds the head."""
        try:
            if len(statements) == 1 or not psycopg.Pipeline.is_supported():
                return _one_by_one(connection, statements)
            with cast("psycopg.Connection[Any]", connection).pipeline():
                return _one_by_one(connection, statements)
        except psycopg.errors.LockNotAvailable:
            raise _held(shown) from None

    failures = (psycopg.OperationalError, psycopg.InterfaceError)
    skip = " FOR UPDATE SKIP LOCKED"
    return Database(connect, nullcontext, "BEGIN", " FOR UPDATE", "%s", skip, failures, together)


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    person, at, place = rest.rpartition("@")
    return re.sub(r"([?&]password=)[^&]*", r"\1...", f"{scheme}://{person.partition(':')[0]}{at}{place}")
