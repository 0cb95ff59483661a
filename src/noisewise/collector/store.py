"""The store of a survey: an append-only log, and a table that says where every query stands.

    store = create("people.survey", survey)                 a file (SQLite), or postgresql://... (extra `survey`)
    store = open_store("people.survey")

    survey       one row: what makes the survey, and whether its respondents are simulated
    head         one row: the last position of the log, and whether the survey is closed
    log          position, kind, number, body: `asked` with its query, `answered` with its value, ...
    queries      pooled -> asked -> answered, with expired and withdrawn on the way; derived from the log
    snapshots    what was known at a position; losing them costs time, nothing else

**Positions are in the order of commits.** A reader that has seen position p has seen every line up to p, now and for
ever: whoever appends holds the row of `head` (SQLite: the only writer's lock) from taking a position to committing it.
A sequence would not do, because a transaction that took number 7 may commit after 8 was read.

**A receipt is durable.** SQLite runs in WAL mode with synchronous=FULL, PostgreSQL with synchronous_commit=on, and no
act is reported before its transaction is committed. What can be made again (pool, picture, snapshots) is written by a
session that does not wait for the disk: a write-ahead log is flushed in order, so the next act that is reported takes
everything before it to the disk with it. One database (or schema, by `search_path`) holds one survey.

**Writers of a SQLite file stand in line** at a lock of the operating system (a file beside it, `.line`), which wakes
the next one at once; SQLite alone would let them sleep and try again. What keeps them apart is SQLite's own lock.
Whoever waits longer than `WAIT_SECONDS`, in the line or at a lock of either database, leaves with a sentence: then a
process that writes hangs or was halted, and nothing was begun.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from json import dumps, loads
from typing import Any, NamedTuple, Protocol, cast

from noisewise.errors import InvalidArgument, NoisewiseError, SurveyError
from noisewise.files import OWN, checked_path
from noisewise.online.engine import Engine
from noisewise.online.log import CLOSED
from noisewise.online.store import settings_from_dict, settings_to_dict
from noisewise.online.survey import Survey
from noisewise.printable import printable

__all__ = ["Connection", "Line", "Standing", "Store", "close", "create", "open_store"]

FORMAT = "noisewise-survey-store/1"
WAIT_SECONDS, HALTED_SECONDS = 30.0, 60.0
LAST = 2**62
LINE = ".line"  # beside the file: where its writers wait
POSTGRES = ("postgresql://", "postgres://")
TABLES = (
    "CREATE TABLE survey (format TEXT NOT NULL, name TEXT NOT NULL, settings TEXT NOT NULL, entropy TEXT NOT NULL, "
    "simulated INTEGER NOT NULL)",
    "CREATE TABLE head (position BIGINT NOT NULL, closed INTEGER NOT NULL)",
    "CREATE TABLE log (position BIGINT PRIMARY KEY, kind TEXT NOT NULL, number BIGINT, body TEXT)",
    "CREATE TABLE queries (number BIGINT PRIMARY KEY, id TEXT NOT NULL UNIQUE, query TEXT NOT NULL, "
    "state TEXT NOT NULL, receipt TEXT, asked_at DOUBLE PRECISION)",
    "CREATE INDEX queries_by_state ON queries (state, number)",
    "CREATE TABLE snapshots (position BIGINT PRIMARY KEY, state BYTEA NOT NULL)",
)
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


class Line(NamedTuple):
    """One line of the log."""

    position: int
    kind: str
    number: int | None
    body: str | None


class Standing(NamedTuple):
    """How a survey stands."""

    answers: int
    outstanding: int  # asked, neither answered nor expired nor withdrawn
    pooled: int
    position: int  # of the last line
    is_closed: bool


class Session:
    """One connection, spoken to in one language; `is_durable`: a commit is on disk before it returns."""

    def __init__(self, database: Database, *, is_durable: bool = True) -> None:
        self.database, self.connection = database, database.connect(is_durable)
        self.position, self.is_closed = 0, False  # of the log, inside a transaction
        self._waiting: list[Statement] | None = None  # inside a transaction: what goes with the next that gives rows
        self._is_aside = False

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Every row of a statement that gives rows."""
        return self._sent(statement, parameters).fetchall()

    def run(self, statement: str, *parameters: object) -> None:
        """A statement that gives none; inside a transaction it waits for the next that gives some, or for the end."""
        if self._waiting is None:
            self._sent(statement, parameters)
        else:
            self._waiting.append((statement.replace("?", self.database.mark), parameters))

    def _sent(self, statement: str, parameters: Row) -> Rows:
        """This statement with all that wait: a database that is far away is then asked once."""
        waiting = [*(self._waiting or ()), (statement.replace("?", self.database.mark), parameters)]
        if self._waiting:
            self._waiting = []
        return self.database.together(self.connection, waiting)

    @contextmanager
    def transaction(self, *, is_aside: bool = False) -> Iterator[Session]:
        """All or nothing, and in the order of commits: `position` and `is_closed` are true until the commit.

        `is_aside`: for what is not in the log (pool, snapshots, board). In PostgreSQL it makes nobody wait who appends;
        nothing can be appended in it, and somebody may close the survey before it ends.
        """
        with self.database.line():
            self._waiting, self._is_aside = [(self.database.begin, ())], is_aside
            try:
                hold = "" if is_aside else self.database.hold
                (position, closed), *_ = self.rows(f"SELECT position, closed FROM head{hold}")
                before = self.position, self.is_closed = int(position), bool(int(closed))
                yield self
                if (self.position, self.is_closed) != before:
                    self.run("UPDATE head SET position = ?, closed = ?", self.position, int(self.is_closed))
                self._sent("COMMIT", ())
            except BaseException:
                self._waiting = None
                with suppress(*self.database.failures):
                    self.run("ROLLBACK")
                raise
            finally:
                self._waiting = None

    def check_open(self) -> None:
        """Inside a transaction, before anything is written."""
        if self.is_closed:
            raise SurveyError("This survey is closed: it asks nobody and takes no answer any more.", reason="closed")

    def append(self, kind: str, number: int | None, body: str | None) -> int:
        """One more line, inside a transaction; its position."""
        assert not self._is_aside
        self.check_open()
        self.position += 1
        self.run("INSERT INTO log VALUES (?, ?, ?, ?)", self.position, kind, number, body)
        return self.position

    def close(self) -> None:
        with suppress(*self.database.failures):
            self.connection.close()


class Store:
    """A survey's store; `session()` opens a connection, and reading needs no transaction."""

    def __init__(self, database: Database, where: str) -> None:
        self.database, self.where = database, where
        with self.session() as session:
            try:
                found = session.rows("SELECT format, name, settings, entropy, simulated FROM survey")
            except Exception as error:
                raise self.refusal("it is not the store of a survey; make one with create(...)") from error
        if len(found) != 1 or found[0][0] != FORMAT:
            raise self.refusal(f"it is not of the format {FORMAT!r}; a newer Noisewise may be needed")
        _, self.name, self._settings, self._entropy, simulated = found[0]
        self.is_simulated = bool(int(simulated))

    @cached_property
    def engine(self) -> Engine:
        """What learns and asks for this survey."""
        engine = Engine(settings_from_dict(loads(self._settings)), int(self._entropy))
        if engine.name != self.name:
            raise self.refusal(
                "its survey has another name here: it was changed, or versions of Noisewise or NumPy draw differently"
            )
        return engine

    @contextmanager
    def session(self, *, is_durable: bool = True) -> Iterator[Session]:
        """A connection of one's own; whoever works with it uses it from one thread."""
        try:
            session = Session(self.database, is_durable=is_durable)
        except self.database.failures as error:
            reason = f"it cannot be reached, or is not the store of a survey ({type(error).__name__})"
            raise self.refusal(reason) from error
        with closing(session):
            yield session

    def lines(self, session: Session, after: int = 0, *, until: int = LAST, most: int = LAST) -> list[Line]:
        """The log after a position, in order; up to another, and no more than so many."""
        found = session.rows(
            "SELECT position, kind, number, body FROM log WHERE position > ? AND position <= ? "
            "ORDER BY position LIMIT ?",
            after,
            until,
            most,
        )
        return [
            Line(int(position), kind, None if number is None else int(number), body)
            for position, kind, number, body in found
        ]

    def standing(self) -> Standing:
        """How the survey stands now."""
        with self.session() as session:
            states = dict(session.rows("SELECT state, count(*) FROM queries GROUP BY state"))
            position, closed = session.rows("SELECT position, closed FROM head")[0]
        answers, outstanding, pooled = (int(states.get(state, 0)) for state in ("answered", "asked", "pooled"))
        return Standing(answers, outstanding, pooled, int(position), bool(int(closed)))

    def refusal(self, reason: str) -> SurveyError:
        return SurveyError(f"The survey's store {self.where!r} cannot be used: {reason}.", reason=reason)


def close(session: Session) -> None:
    """The last line of a log, inside a transaction; nothing happens where it is there already."""
    if not session.is_closed:
        session.append(CLOSED, None, None)
        session.is_closed = True


def open_store(where: str | os.PathLike[str]) -> Store:
    """A store that exists, by the path of its file or its URL."""
    database, shown = _database(where, is_new=False)
    return Store(database, shown)


def create(where: str | os.PathLike[str], survey: Survey, *, simulated: bool = False) -> Store:
    """A new store for a survey of which nothing was asked yet.

    where       the path of a file that does not exist yet, or the URL of an empty PostgreSQL database
    survey      its population, guarantee, queries, score and particles are the store's from now on
    simulated   whether its respondents are simulated: then so is what it exports, for ever
    """
    if survey.issued or survey._engine.entropy is None:
        raise InvalidArgument("A store begins with a survey that has asked nobody yet.", argument="survey")
    row = (
        FORMAT,
        survey.name,
        dumps(settings_to_dict(survey._engine.settings)),  # as it is: the order of columns is part of a survey
        str(survey._engine.entropy),
        int(simulated),
    )
    database, shown = _database(where, is_new=True)
    with closing(Session(database)) as session:
        session.run("BEGIN")
        try:
            for statement in TABLES:
                session.run(statement)
            session.run("INSERT INTO survey VALUES (?, ?, ?, ?, ?)", *row)
            session.run("INSERT INTO head VALUES (0, 0)")
            session.run("COMMIT")
        except Exception as error:
            with suppress(*database.failures):
                session.run("ROLLBACK")
            raise SurveyError(
                f"No survey can be begun at {shown!r}: there is something already ({type(error).__name__}). Nothing "
                "was changed.",
                reason="exists",
            ) from error
    return Store(database, shown)


def _database(where: str | os.PathLike[str], *, is_new: bool) -> tuple[Database, str]:
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
    return f"{scheme}://{person.partition(':')[0]}{at}{place}"
