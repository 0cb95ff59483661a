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
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from json import dumps, loads
from typing import Any, NamedTuple

from noisewise.collector.database import Database, Row, Rows, Statement, database_at
from noisewise.errors import InvalidArgument, SurveyError
from noisewise.online.engine import Engine
from noisewise.online.log import CLOSED
from noisewise.online.store import settings_from_dict, settings_to_dict
from noisewise.online.survey import Survey

__all__ = ["Line", "Standing", "Store", "close", "create", "open_store"]

FORMAT = "noisewise-survey-store/1"
LAST = 2**62
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
        try:
            engine = Engine(settings_from_dict(loads(self._settings)), int(self._entropy))
        except (ValueError, TypeError, LookupError) as error:
            raise self.refusal("what makes its survey cannot be read: it was damaged or changed") from error
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
            try:
                yield session
            except self.database.failures as error:
                reason = f"the database failed ({type(error).__name__}): it is away, or the store was damaged"
                raise self.refusal(reason) from error

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
    database, shown = database_at(where, is_new=False)
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
    database, shown = database_at(where, is_new=True)
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
