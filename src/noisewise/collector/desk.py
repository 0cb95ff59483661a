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

import hashlib
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from json import loads
from typing import Any, Generic, Protocol, Self, TypeVar

from noisewise.collector.store import Session, Store, close
from noisewise.errors import InvalidArgument, NoisewiseError, SurveyError
from noisewise.online.log import ANSWERED, ASKED, EXPIRED, WITHDRAWN
from noisewise.online.survey import check_reach
from noisewise.printable import shown
from noisewise.query import Answer, Query

__all__ = ["Desk", "Receipt"]

MOST_TOGETHER = 500
MOST_QUESTIONS = 2000  # that a worker remembers
ATTEMPTS = 6
PAUSE_SECONDS = 0.02
NONCE, MARK = 24, 16  # hexadecimal digits of a receipt
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Receipt:
    """That an answer is on disk and counts; a repeat gets the first one's again.

    Another value for the same query, as from a second device with the same invitation, is no repeat: it is not counted,
    and has no receipt.
    """

    receipt: str
    is_counted: bool


class Promise(Protocol[T_contra]):
    """Where an outcome is put: a future of threads, or of an event loop."""

    def done(self) -> bool: ...
    def set_result(self, result: T_contra, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


Tell = Callable[[Callable[[], None]], object]


def at_once(act: Callable[[], None]) -> None:
    """Tell an outcome in the writer's own thread."""
    act()


class Act(Generic[T]):
    """Something to be done inside the next transaction, where its outcome goes, and in whose thread that is told."""

    __slots__ = ("future", "tell", "work")

    def __init__(self, work: Callable[[Session], T], future: Promise[T], tell: Tell) -> None:
        self.work, self.future, self.tell = work, future, tell

    def tried(self, session: Session) -> Callable[[], None]:
        """Do it now; what comes back tells the caller, once the transaction is committed."""
        try:
            found = self.work(session)
        except NoisewiseError as error:  # refused before anything was written: the others go on
            return partial(self.fail, error)
        return partial(self.succeed, found)

    def succeed(self, found: T) -> None:
        if not self.future.done():  # whoever waited may have gone
            self.future.set_result(found)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def told(outcomes: Iterable[tuple[Tell, Callable[[], None]]]) -> None:
    """Tell everyone, with one call into each event loop."""
    by_loop: dict[Tell, list[Callable[[], None]]] = {}
    for tell, outcome in outcomes:
        by_loop.setdefault(tell, []).append(outcome)
    for tell, some in by_loop.items():
        with suppress(RuntimeError):  # a loop that is closed waits for nothing
            tell(partial(_each, some))


def _each(outcomes: Iterable[Callable[[], None]]) -> None:
    for outcome in outcomes:
        outcome()


class Desk:
    """Hands out and takes in for one process; any number of threads may call."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._line: queue.SimpleQueue[Act[Any] | None] = queue.SimpleQueue()
        self._questions: dict[str, Query] = {}
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
            found = self.done(self.hand_out)
            if found is not None:
                return Query.from_dict(loads(found[1]))
            if time.monotonic() >= until:
                raise SurveyError(
                    "There is no query to hand out: the learner is not running, behind, or has nothing more to ask. "
                    "Try again.",
                    reason="pool",
                )
            time.sleep(PAUSE_SECONDS)

    def answer(self, id: str | None, value: int) -> Receipt:
        """Take in an answer to the query of this id. When this returns, it is on disk."""
        return self.done(lambda session: self.take(session, str(id), value))

    def expire(self, *, older_than: float) -> int:
        """Wait no longer for queries handed out more than so many seconds ago; how many."""
        before = time.time() - older_than
        return self.done(lambda session: _expire(session, before))

    def withdraw(self, ids: Iterable[str | None]) -> None:
        """Take queries back: their answers are refused from now on. What was answered stays."""
        for id in ids:
            self.done(partial(_withdraw, id=str(id)))

    def close(self) -> None:
        """Hand out nothing and take no answer from now on."""
        self.done(close)

    # ---- one writer ----

    def submit(self, work: Callable[[Session], T], future: Promise[T], *, tell: Tell = at_once) -> None:
        """Something of one's own in the next transaction: `future` gets what comes of it after the commit, by `tell`
        (an event loop's `call_soon_threadsafe`)."""
        with self._door:
            if self._is_left:
                raise SurveyError("This desk was left; open another one. Nothing was changed.", reason="left")
            self._line.put(Act(work, future, tell))

    def done(self, work: Callable[[Session], T]) -> T:
        """The same, waited for."""
        future = Future[T]()
        self.submit(work, future)
        return future.result()

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
                    outcomes = [(act.tell, act.tried(session)) for act in acts]
                told(outcomes)
                return session
            except SurveyError as error:  # another writer held the store for too long; nothing was begun
                told((act.tell, partial(act.fail, error)) for act in acts)
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
        if problem is not None:
            refusal = SurveyError(
                f"The store {self.store.where!r} could not be written ({type(problem).__name__}). Whether it was "
                "counted is not known: send the same answer again.",
                reason="store",
            )
            told((act.tell, partial(act.fail, refusal)) for act in acts)
        return session

    # ---- queries ----

    def hand_out(self, session: Session) -> tuple[str, str] | None:
        """The id and the text of the next query in the pool, inside a transaction; None where it is empty."""
        session.check_open()
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
        """An answer, inside a transaction: on a repeat the first one's receipt."""
        text, state, receipt, number = _asked(session, id)
        check_reach(Answer(self._like(text), value), "This query")
        if state == "answered":
            return Receipt(receipt, True) if _is_receipt_of(receipt, value) else Receipt("", False)
        session.check_open()
        if state == "withdrawn":
            raise SurveyError("This query was withdrawn. Nothing was learnt.", reason="withdrawn")
        token = _receipt_of(value)
        session.run(
            "UPDATE queries SET state = 'answered', receipt = ?, asked_at = NULL WHERE number = ?", token, number
        )
        session.append(ANSWERED, number, str(value))
        return Receipt(token, True)

    def _like(self, text: str) -> Query:
        """A query that asks what this one asks. In a crowd many are asked the same, so each question is read once."""
        question = text[: text.rindex('"id"')]  # which stands last
        found = self._questions.get(question)
        if found is None:
            if len(self._questions) >= MOST_QUESTIONS:
                self._questions.clear()
            found = self._questions[question] = Query.from_dict(loads(text))
        return found


def _receipt_of(value: int, nonce: str | None = None) -> str:
    """A receipt that nobody can guess, by which a repeat is told from another value."""
    nonce = secrets.token_hex(NONCE // 2) if nonce is None else nonce
    return nonce + hashlib.sha256(f"{nonce} {value}".encode()).hexdigest()[:MARK]


def _is_receipt_of(receipt: str, value: int) -> bool:
    """Whether this receipt was given for this value; of one by an older version nobody knows, and it is."""
    return len(receipt) != NONCE + MARK or receipt == _receipt_of(value, receipt[:NONCE])


def _asked(session: Session, id: str) -> tuple[str, str, str, int]:
    """Text, state, receipt and number of a query that went out; refused in words that are true."""
    found = session.rows("SELECT query, state, receipt, number FROM queries WHERE id = ? AND state <> 'pooled'", id)
    if not found:
        raise InvalidArgument(
            f"The query {shown(id, 80)} was not asked by this survey. Nothing was learnt.", argument="query"
        )
    text, state, receipt, number = found[0]
    return text, state, receipt, int(number)


def _expire(session: Session, before: float) -> int:
    session.check_open()
    found = session.rows("SELECT number FROM queries WHERE state = 'asked' AND asked_at < ? ORDER BY number", before)
    for (number,) in found:
        session.run("UPDATE queries SET state = 'expired', asked_at = NULL WHERE number = ?", int(number))
        session.append(EXPIRED, int(number), None)
    return len(found)


def _withdraw(session: Session, id: str) -> None:
    _, state, _, number = _asked(session, id)
    session.check_open()
    if state == "answered":
        raise SurveyError("This query was answered, and what was learnt stays learnt.", reason="answered")
    if state != "withdrawn":
        session.run("UPDATE queries SET state = 'withdrawn', asked_at = NULL WHERE number = ?", number)
        session.append(WITHDRAWN, number, None)
