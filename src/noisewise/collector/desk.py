"""A worker's side of a survey: hands out queries, takes answers, and reports nothing before it is on disk.

    with Desk(store) as desk:
        query = desk.ask()                       from the pool that the learner keeps filled; each goes out once
        receipt = desk.answer(query.id, value)   after the commit; the same receipt for a repeat

**Group commit.** Whoever calls waits in a line; one writer gathers all that wait into one transaction, commits, and
only then answers them. So a hundred people at once cost one flush of the disk, not a hundred. Where the connection is
lost the whole transaction is tried again on a new one; that is safe, because an answer is known by its query's id, and
a query that was handed out to nobody expires.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from json import loads
from typing import Any, Generic, Self, TypeVar

from noisewise.collector.store import Session, Store, close
from noisewise.errors import InvalidArgument, NoisewiseError, SurveyError
from noisewise.online.log import ANSWERED, ASKED, EXPIRED, WITHDRAWN
from noisewise.online.survey import check_reach
from noisewise.query import Answer, Query

__all__ = ["Desk", "Receipt"]

MOST_TOGETHER = 500
ATTEMPTS = 6
PAUSE_SECONDS = 0.02
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Receipt:
    """That an answer is on disk and counts; a repeat gets the first one's again."""

    receipt: str
    is_counted: bool


class Act(Generic[T]):
    """Something to be done inside the next transaction, and what came of it."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[Session], T]) -> None:
        self.work, self.future = work, Future[T]()

    def tried(self, session: Session) -> Callable[[], None]:
        """Do it now; what comes back tells the caller, once the transaction is committed."""
        try:
            found = self.work(session)
        except NoisewiseError as error:  # refused before anything was written: the others go on
            refusal = error
            return lambda: self.future.set_exception(refusal)
        return lambda: self.future.set_result(found)


class Desk:
    """Hands out and takes in for one process; any number of threads may call."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._line: queue.SimpleQueue[Act[Any] | None] = queue.SimpleQueue()
        self._known: dict[str, Query] = {}
        self._door = threading.Lock()  # so that nobody lines up behind the one who leaves last
        self._is_left = False
        self._writer = threading.Thread(target=self._write, name="survey-writer", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Finish what waits, and stop; whoever comes later is refused."""
        with self._door:
            if not self._is_left:
                self._is_left = True
                self._line.put(None)
        self._writer.join()

    # ---- what people ask for ----

    def ask(self, wait: float = 30.0) -> Query:
        """A query for the next person, once; waits for the learner where the pool is empty."""
        until = time.monotonic() + wait
        while True:
            found = self._done(self.hand_out)
            if found is not None:
                return self._read(*found)
            if time.monotonic() >= until:
                raise SurveyError(
                    "There is no query to hand out: the learner is not running, behind, or has nothing more to ask. "
                    "Try again.",
                    reason="pool",
                )
            time.sleep(PAUSE_SECONDS)

    def answer(self, id: str | None, value: int) -> Receipt:
        """Take in an answer to the query of this id. When this returns, it is on disk."""
        answer = Answer(self._query(id), value)
        check_reach(answer, "This query")
        token = uuid.uuid4().hex
        return self._done(lambda session: _take(session, str(id), answer.value, token))

    def expire(self, *, older_than: float) -> int:
        """Wait no longer for queries handed out more than so many seconds ago; how many."""
        before = time.time() - older_than
        return self._done(lambda session: _expire(session, before))

    def withdraw(self, ids: Iterable[str | None]) -> None:
        """Take queries back: their answers are refused from now on. What was answered stays."""
        for id in ids:
            self._query(id)
            self._done(partial(_withdraw, id=str(id)))

    def close(self) -> None:
        """Hand out nothing and take no answer from now on."""
        self._done(close)

    # ---- one writer ----

    def submit(self, work: Callable[[Session], T]) -> Future[T]:
        """Something of one's own in the next transaction: what comes of it is told after the commit."""
        act = Act(work)
        with self._door:
            if self._is_left:
                raise SurveyError("This desk was left; open another one. Nothing was changed.", reason="left")
            self._line.put(act)
        return act.future

    def _done(self, work: Callable[[Session], T]) -> T:
        return self.submit(work).result()

    def _write(self) -> None:
        """Gather what waits, commit it together, then answer."""
        session: Session | None = None
        is_open = True
        while is_open:
            first = self._line.get()
            waiting = [] if first is None else [first]
            is_open = first is not None
            while is_open and len(waiting) < MOST_TOGETHER:
                try:
                    other = self._line.get_nowait()
                except queue.Empty:
                    break
                if other is None:
                    is_open = False
                else:
                    waiting.append(other)
            session = self._commit(session, waiting)
        if session is not None:
            session.close()

    def _commit(self, session: Session | None, acts: list[Act[Any]]) -> Session | None:
        """One transaction for all acts, tried again where the connection fails."""
        problem: Exception | None = None
        for attempt in range(ATTEMPTS if acts else 0):
            try:
                session = Session(self.store.database) if session is None else session
                with session.transaction():
                    outcomes = [act.tried(session) for act in acts]
                for outcome in outcomes:
                    outcome()
                return session
            except self.store.database.failures as error:
                problem = error
                if session is not None:
                    session.close()
                session = None
                time.sleep(PAUSE_SECONDS * 2**attempt)
            except BaseException as error:
                problem = SurveyError("The writer stopped. Nothing was counted.", reason=type(error).__name__)
                break
        for act in acts if problem is not None else ():
            act.future.set_exception(
                SurveyError(
                    f"The store {self.store.where!r} could not be written ({type(problem).__name__}). Whether it was "
                    "counted is not known: send the same answer again.",
                    reason="store",
                )
            )
        return session

    # ---- queries ----

    def hand_out(self, session: Session) -> tuple[str, str] | None:
        """The id and the text of the next query in the pool, inside a transaction; None where it is empty."""
        _check_open(session)  # a refusal must come before anything is written
        found = session.rows(
            "UPDATE queries SET state = 'asked', asked_at = ? WHERE number = (SELECT number FROM queries "
            f"WHERE state = 'pooled' ORDER BY number LIMIT 1{self.store.database.skip}) "
            "RETURNING number, id, query",
            time.time(),
        )
        if not found:
            return None
        number, id, query = found[0]
        session.append(ASKED, int(number), query)
        return id, query

    def take(self, session: Session, id: str, value: int) -> Receipt:
        """An answer, inside a transaction."""
        answer = Answer(self._asked(session, id), value)
        check_reach(answer, "This query")
        return _take(session, id, answer.value, uuid.uuid4().hex)

    def _query(self, id: str | None) -> Query:
        """The query of an id."""
        known = self._known.get(str(id))
        if known is not None:
            return known
        with self.store.session() as session:
            return self._asked(session, str(id))

    def _asked(self, session: Session, id: str) -> Query:
        """The query of an id; refused in words that are true."""
        known = self._known.get(id)
        if known is not None:
            return known
        found = session.rows("SELECT query FROM queries WHERE id = ? AND state <> 'pooled'", id)
        if not found:
            raise InvalidArgument(
                f"The query {id!r:.80} was not asked by this survey. Nothing was learnt.", argument="query"
            )
        return self._read(id, found[0][0])

    def _read(self, id: str, text: str) -> Query:
        if len(self._known) > 10 * MOST_TOGETHER:
            self._known.clear()
        query = self._known[id] = Query.from_dict(loads(text))
        return query


def _check_open(session: Session) -> None:
    if int(session.rows("SELECT closed FROM head")[0][0]):
        raise SurveyError("This survey is closed: it asks nobody and takes no answer any more.", reason="closed")


def _take(session: Session, id: str, value: int, token: str) -> Receipt:
    state, receipt, number = session.rows("SELECT state, receipt, number FROM queries WHERE id = ?", id)[0]
    if state == "answered":
        return Receipt(receipt, True)
    _check_open(session)
    if state == "withdrawn":
        raise SurveyError("This query was withdrawn. Nothing was learnt.", reason="withdrawn")
    session.run("UPDATE queries SET state = 'answered', receipt = ?, asked_at = NULL WHERE id = ?", token, id)
    session.append(ANSWERED, int(number), str(value))
    return Receipt(token, True)


def _expire(session: Session, before: float) -> int:
    _check_open(session)
    found = session.rows("SELECT number FROM queries WHERE state = 'asked' AND asked_at < ? ORDER BY number", before)
    for (number,) in found:
        session.run("UPDATE queries SET state = 'expired', asked_at = NULL WHERE number = ?", int(number))
        session.append(EXPIRED, int(number), None)
    return len(found)


def _withdraw(session: Session, id: str) -> None:
    _check_open(session)
    state, number = session.rows("SELECT state, number FROM queries WHERE id = ?", id)[0]
    if state == "answered":
        raise SurveyError("This query was answered, and what was learnt stays learnt.", reason="answered")
    if state != "withdrawn":
        session.run("UPDATE queries SET state = 'withdrawn', asked_at = NULL WHERE id = ?", id)
        session.append(WITHDRAWN, int(number), None)
