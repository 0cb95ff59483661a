"""A person who is asked more than once: one account, one cap over all answers, one answer to each query.

    me = Respondent(cap=PureDP(2), path="answers.account")
    answer = me.respond(query, x)

The promise, whatever the askers send and whichever ids they choose:
- the guarantees of all draws ever made for this account add up to at most the cap. A price is booked, and on disk,
  before its noise is drawn;
- a query is answered once. The same query again gets the stored answer, free of charge, whatever x is given with it;
  a known id with another question is refused; a query without id is known by its question and guarantee;
- an answer is shown only after it is stored. A process that dies between booking and storing has shown nothing. Its
  price stays booked, because nobody can tell any more whether the noise was drawn; a retry books the price again and
  draws afresh, or is refused if the cap does not allow it. So there is never a draw that is not booked.

The file is a SQLite database of mode 0600. It holds the cap and, for each query, a hash of it, its price and the noisy
answer; never x, nor the question. One process at a time works with it: its lock is held from booking to storing
(locking_mode=EXCLUSIVE) and released by the system if the process dies, so a price found without an answer was
abandoned. Without a path the account lives in memory, as long as this object, in the process that made it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

from noisewise.errors import BudgetExceeded, InvalidArgument, LedgerError, Unsupported
from noisewise.files import checked_path, has_one_name, synchronise
from noisewise.holder.ledger_store import error_code
from noisewise.holder.respond import check_cap, check_query, checked_record, drawn_answer
from noisewise.planning import canonical
from noisewise.printable import printable
from noisewise.privacy.guarantee import Guarantee, guarantee_from_dict
from noisewise.query import Answer, Query
from noisewise.schema import Level
from noisewise.types import Plain

__all__ = ["Respondent"]

APPLICATION_ID = 0x4E57_5253  # "NWRS", in the header of the file
VERSION = 1
WAIT_SECONDS = 60.0
BEING_MADE = (".account-", ".new")  # how the name of an account begins and ends until it is complete
TABLES = {
    "account": "CREATE TABLE account (cap TEXT NOT NULL)",
    "queries": "CREATE TABLE queries (key TEXT PRIMARY KEY, content TEXT NOT NULL, price TEXT NOT NULL, "
    "bookings INTEGER NOT NULL, answer TEXT) WITHOUT ROWID",
}
PRAGMAS = ("journal_mode=DELETE", "synchronous=EXTRA", "secure_delete=ON", "temp_store=MEMORY", "trusted_schema=OFF")


class Respondent:
    """One person's answers within one cap, over queries and retries; the same query again gets the stored answer.

    Parameters
    ----------
    cap
        The most that all answers together may cost: PureDP(2), GaussianDP(1), ... Queries of another kind are refused.
        A file keeps the cap it was made with.
    path
        Where the account is kept, so that it outlives the process. Default None: in memory.

    Examples
    --------
    >>> me = nw.Respondent(cap=nw.PureDP(2))
    >>> query = nw.Query.clip(0, 100, guarantee=nw.PureDP(1), id="age")
    >>> me.respond(query, 37).value == me.respond(query, 37).value
    True
    """

    def __init__(self, *, cap: Guarantee | None = None, path: str | os.PathLike[str] | None = None) -> None:
        check_cap(cap, "Respondent(cap=PureDP(2))", "all answers together")
        assert cap is not None
        self._cap = cap
        self._path = None if path is None else checked_path(path).absolute()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        if self._path is None:
            self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            _fill(self._memory, cap)
        elif not _is_there(self._path):
            _create(self._path, cap)
        with self._account() as connection:
            stored = _guarantee(connection.execute("SELECT cap FROM account").fetchone()[0])
        if stored != cap:
            raise self._refusal(f"its cap is {stored}, not {cap}; open it with its own cap", stored=stored, cap=cap)

    @property
    def cap(self) -> Guarantee:
        """The most that all answers together may cost."""
        return self._cap

    @property
    def spent(self) -> Guarantee | None:
        """What is booked so far; None where nothing is."""
        with self._account() as connection:
            return _booked(connection)

    @property
    def remaining(self) -> Guarantee | None:
        """What all further answers together may cost; None where nothing is left."""
        return _left(self._cap, self.spent)

    def respond(self, query: Query, x: float | Level) -> Answer:
        """The answer to a query: the stored one if it was answered before, else a new one within the cap.

        BudgetExceeded where the cap would be passed, Incomparable where the query's guarantee is of another kind,
        InvalidArgument where its id is known with another question; nothing is drawn or booked then.
        """
        check_query(query)
        value = checked_record(query, x)
        key, content = _key(query), _content(query)
        with self._account() as connection:
            stored = self._book(connection, query, key, content)
            if stored is not None:
                return Answer(query, stored)
            answer = drawn_answer(query, value)
            with _transaction(connection):
                connection.execute("UPDATE queries SET answer = ? WHERE key = ?", (str(answer.value), key))
        return answer

    def _book(self, connection: sqlite3.Connection, query: Query, key: str, content: str) -> int | None:
        """Book the price of a query and commit it, or give the answer it has already."""
        with _transaction(connection):
            row = connection.execute("SELECT content, answer FROM queries WHERE key = ?", (key,)).fetchone()
            if row is not None and row[0] != content:
                raise InvalidArgument(
                    f"The id {query.id!r} was used for another question, and an id is answered once. Nothing was "
                    "answered; ask for a query with an id of its own.",
                    argument="query",
                )
            if row is not None and row[1] is not None:
                return int(row[1])
            self._check_budget(query, _booked(connection), is_lost=row is not None)
            price = json.dumps(query.guarantee.to_dict(), sort_keys=True)
            connection.execute(
                "INSERT INTO queries VALUES (?, ?, ?, 1, NULL) ON CONFLICT (key) DO UPDATE SET bookings = bookings + 1",
                (key, content, price),
            )
        return None

    def _check_budget(self, query: Query, spent: Guarantee | None, *, is_lost: bool) -> None:
        total = query.guarantee if spent is None else spent + query.guarantee  # other kinds raise, here or below
        if total <= self._cap:
            return
        lost = " An earlier attempt to answer it was booked and never stored; it counts." if is_lost else ""
        raise BudgetExceeded(
            f"The query asks for {query.guarantee}; {'nothing' if spent is None else spent} of {self._cap} is spent, "
            f"and all answers together may not cost more.{lost} Nothing was answered.",
            needed=query.guarantee,
            remaining=_left(self._cap, spent),
            limit=self._cap,
        )

    @contextmanager
    def _account(self) -> Iterator[sqlite3.Connection]:
        """The account, to this thread of this process alone until the block ends."""
        if self._memory is not None and os.getpid() != self._process:
            raise LedgerError(
                "This account is in the memory of the process that made it, and a copy would spend the cap twice. "
                "Give path= to answer from several processes. Nothing was answered.",
                reason="another process",
            )
        problem: LedgerError
        try:
            with self._lock:
                if self._memory is not None:
                    yield self._memory
                    return
                assert self._path is not None
                _is_there(self._path)
                with closing(_connect(self._path)) as connection:
                    self._recognise(connection)
                    yield connection
                    return
        except sqlite3.Error as error:
            problem = self._refusal(_reason(error))
        raise problem  # outside the handler: SQLite's own message may quote a cell

    def _recognise(self, connection: sqlite3.Connection) -> None:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if application != APPLICATION_ID:
            raise self._refusal("the file is not an account of answers; give another path")
        if version != VERSION or tables != TABLES:
            raise self._refusal("it was changed, or made by another version of this program")

    def _refusal(self, reason: str, **fields: object) -> LedgerError:
        name = "in memory" if self._path is None else repr(printable(self._path.name))
        return LedgerError(
            f"The account {name} cannot be used: {reason}. Nothing was answered.", reason=reason, **fields
        )

    def __repr__(self) -> str:
        return f"Respondent(cap={self._cap!r}, path={None if self._path is None else printable(self._path)!r})"

    def __reduce__(self) -> NoReturn:
        raise Unsupported("A Respondent is not copied: a copy would spend its cap again. Open it anew by its path.")


def _key(query: Query) -> str:
    """What a query is known by: its id, or else its content."""
    text = "content " + _content(query) if query.id is None else "id " + query.id
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _content(query: Query) -> str:
    """A hash of what is asked and at which price, which together make the law of the answer."""
    asked: Plain = {"low": query.low, "high": query.high, "edges": query.edges, "guarantee": query.guarantee.to_dict()}
    asked |= {} if query.levels is None else {"levels": query.levels}
    asked |= {} if query.column is None else {"column": query.column}
    return hashlib.sha256(canonical(asked)).hexdigest()


def _booked(connection: sqlite3.Connection) -> Guarantee | None:
    """The sum of all bookings."""
    total: Guarantee | None = None
    rows = connection.execute("SELECT price, sum(bookings) FROM queries GROUP BY price")
    for price, bookings in rows.fetchall():
        these = _guarantee(price).times(bookings)
        total = these if total is None else total + these
    return total


def _left(cap: Guarantee, spent: Guarantee | None) -> Guarantee | None:
    if spent is None:
        return cap
    parts = [most - part for most, part in zip(cap.parts, spent.parts, strict=True)]
    return cap.from_parts(*parts) if min(parts) > 0 else None


def _guarantee(text: str) -> Guarantee:
    try:
        return guarantee_from_dict(json.loads(text))
    except (ValueError, TypeError):
        pass
    raise sqlite3.DatabaseError("a price that is none")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction, on disk when the block has ended; whatever stops the block undoes it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path) -> sqlite3.Connection:
    """The file with its lock, which this connection keeps until it is closed.

    The lock is taken in the normal mode and kept by the exclusive one: two connections that were in the exclusive mode
    from the start would each hold a shared lock for ever while they wait for the other's.
    """
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=1.0, isolation_level=None)
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}").close()
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("PRAGMA locking_mode=EXCLUSIVE").close()
            connection.execute("COMMIT")
            return connection
        except BaseException as error:
            is_busy = isinstance(error, sqlite3.OperationalError) and error_code(error) in (
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            )
            if not is_busy or time.monotonic() >= deadline:
                connection.close()
                raise
        time.sleep(0.002)


def _create(path: Path, cap: Guarantee) -> None:
    """Build a complete account aside and link it into place: one creator wins, and no half-made file ever shows."""
    problem: LedgerError
    fresh: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=BEING_MADE[0], suffix=BEING_MADE[1], dir=path.parent)  # its mode is 0600
        os.close(handle)
        fresh = Path(name)
        with closing(sqlite3.connect(f"{fresh.as_uri()}?mode=rw", uri=True, isolation_level=None)) as connection:
            _fill(connection, cap)
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        return
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or "the disk reported an error"
        problem = LedgerError(
            f"The account {printable(path)!r} cannot be made: {reason}. Give a writable folder. Nothing was answered.",
            reason=reason,
        )
    finally:
        if fresh is not None:
            fresh.unlink(missing_ok=True)
            fresh.with_name(fresh.name + "-journal").unlink(missing_ok=True)
        synchronise(path.parent)
    raise problem


def _fill(connection: sqlite3.Connection, cap: Guarantee) -> None:
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    with _transaction(connection):
        for definition in TABLES.values():
            connection.execute(definition)
        connection.execute("INSERT INTO account VALUES (?)", (json.dumps(cap.to_dict(), sort_keys=True),))


def _is_there(path: Path) -> bool:
    """Whether an account lies there; what is not a plain file of one name is refused (a pipe would hang)."""
    try:
        is_plain = stat.S_ISREG(path.stat().st_mode)
        is_alone = is_plain and has_one_name(path, BEING_MADE)
    except FileNotFoundError:
        return False
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise LedgerError(f"The account {printable(path)!r} cannot be used: {reason}.", reason=reason) from None
    if not is_plain:
        raise LedgerError(f"The account {printable(path)!r} is not a plain file.", reason="not a plain file")
    if not is_alone:
        raise LedgerError(
            f"The account {printable(path)!r} is a file of several names (hard links), and a crash under one name "
            "could undo an answer's price under another. Keep one name and remove the others, or use a symbolic link. "
            "Nothing was answered.",
            reason="several names",
        )
    return True


def _reason(error: sqlite3.Error) -> str:
    reasons = {
        sqlite3.SQLITE_BUSY: f"another process kept it locked for more than {WAIT_SECONDS:g} seconds; repeat later",
        sqlite3.SQLITE_LOCKED: f"another process kept it locked for more than {WAIT_SECONDS:g} seconds; repeat later",
        sqlite3.SQLITE_READONLY: "it is read-only; make the file and its folder writable",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is there and its folder is writable",
        sqlite3.SQLITE_FULL: "the disk is full; free some space",
        sqlite3.SQLITE_IOERR: "the disk reported an error; check it",
        sqlite3.SQLITE_NOTADB: "the file is not an account of answers; give another path",
    }
    return reasons.get(error_code(error), "the file is damaged")
