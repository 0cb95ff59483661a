"""The account of one data set: what was released, what it cost, what is left.

A data set may be asked only so much. With charges g_1, ..., g_m on parts of the records and a limit L, the ledger
lets release m + 1 happen only if

    the worst part's total of (g_1, ..., g_(m+1)) <= L        (composition: `privacy.accounting`),

and it decides, draws, charges and stores in one transaction. So no number of processes spends more than L, a crash
leaves the charge and the release both stored or neither, and nothing is shown that is not stored. The same request
on the same records returns the stored bytes and costs nothing: asking twice must not average the noise away.

Which records? The ledger keeps a keyed fingerprint of the first table and refuses any other before it charges;
once a part was released, also of the places of its records, because parts are disjoint only while nobody moves.
The neighbour relation of the first release is the account's for ever, also when records are replaced: charges under
two relations have no common sum (to change one record is to remove one and add one).
The fingerprint and its key stay in the file: they are in no release, entry, message or printed form.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from noisewise import exact
from noisewise.errors import InvalidArgument, InvalidRelease, LedgerError
from noisewise.holder import ledger_chain as chain
from noisewise.holder import ledger_store as store
from noisewise.holder.ledger_bill import Bill
from noisewise.holder.ledger_budget import is_within_limit, left_of, remaining_of, spent, told_total
from noisewise.holder.ledger_chain import Book, Entry, Part
from noisewise.holder.ledger_orders import Account, Order, as_stored, check_payable, fulfilled, require, stored_of
from noisewise.holder.ledger_refusals import check_relation
from noisewise.html import MOST_SHOWN, Section, pieces
from noisewise.planning import Plan
from noisewise.privacy.accounting import Charge
from noisewise.privacy.guarantee import Guarantee
from noisewise.release import Release

__all__ = ["Account", "Entry", "Ledger", "Order"]

MOST_HISTORIES = 64  # Each is added up at every release; only parts charged unevenly and replaced often reach it.

Result = TypeVar("Result")


class Ledger:
    """The account of one data set, kept in one file; open it with `Ledger.open`.

    The object holds the path and the limit only. Every question reads the file afresh and verifies its chain, so
    several processes and threads may use one ledger, and what they see is what is stored.

    Parameters
    ----------
    path
        The file.
    limit
        All that may ever be spent on these records. Default None, for a ledger that is there.
    wait_seconds
        How long to wait for another process that is making a release.

    Examples
    --------
    >>> ledger = nw.Ledger.open("incomes.ledger", limit=nw.PureDP(2))
    >>> print(ledger.limit, ledger.spent())
    epsilon = 2 None
    """

    __slots__ = ("_is_closed", "_limit", "_newest_head", "_path", "_wait_seconds")

    def __init__(self, path: Path, limit: Guarantee | None, wait_seconds: float) -> None:
        self._path = path
        self._wait_seconds = wait_seconds
        self._is_closed = False
        self._newest_head: str | None = None
        stored = self._book().limit
        if limit is not None and limit != stored:
            raise store.refusal(
                path,
                f"its limit is {stored}, not {limit}",
                "open it without a limit or with its own; another limit needs a new ledger and the owner's consent",
                stored=stored,
                limit=limit,
            )
        self._limit = stored

    @classmethod
    def open(cls, path: str | os.PathLike[str], limit: Guarantee | None = None, *, wait_seconds: float = 120) -> Self:
        """Open the ledger at `path`, or create it with `limit` when no file is there.

        `wait_seconds` is how long to wait for another process that is making a release.
        """
        file = _path(path)
        if limit is not None:
            require(isinstance(limit, Guarantee), "limit", "a guarantee such as PureDP(2)")
            chain.guarantee_text(limit)
        patience = float(exact.fraction(wait_seconds, "wait_seconds", minimum=0))
        if not store.exists(file):
            if limit is None:
                reason = "there is no such file"
                raise store.refusal(file, reason, "check the path, or give limit= to create it", argument="limit")
            store.create(file, lambda connection: chain.open_account(connection, limit))
        return cls(file, limit, patience)

    @property
    def path(self) -> Path:
        """The file, symbolic links resolved."""
        return self._path

    @property
    def limit(self) -> Guarantee:
        """What may be spent on these records, ever."""
        return self._limit

    @property
    def dataset(self) -> str:
        """The random id of the present records, as releases print it."""
        return self._book().dataset

    @property
    def head(self) -> str:
        """The hash of the last entry and, through it, of all."""
        return self._book().head

    @property
    def neighbours(self) -> str | None:
        """The relation under which everything here is charged, for ever; None before the first release."""
        return next(iter(self._book().relations), None)

    def fingerprint_key(self) -> bytes:
        """The secret salt under which the holder fingerprints records; it must not leave the holder."""
        return self._book().salt

    def find(
        self,
        request: bytes,
        guarantee: Guarantee,
        part: Part | None,
        fingerprint: str,
        arrangement: str | None = None,
    ) -> bytes | None:
        """The stored release of this request, or None where `release_once` would make one; refusals come early."""
        return self.find_all([Order(request, guarantee, part, fingerprint, _never, arrangement)])[0]

    def find_all(self, orders: Sequence[Order]) -> list[bytes | None]:
        """The stored release of each order, None where one would be made; refused where not all could be met."""

        def act(connection: sqlite3.Connection) -> list[bytes | None]:
            return stored_of(connection, self._path, self._verified(connection), orders)

        return self._read(act)

    def as_stored(self, plans: Sequence[Plan]) -> list[Plan]:
        """The plans as they stand in the account: what an earlier version sold for the same words is not sold again."""
        book = self._book()
        return [as_stored(book, plan) for plan in plans]

    def bill(self, plans: Sequence[Plan], names: Sequence[str] | None = None) -> Bill:
        """What `make_releases` would charge for these plans now: nothing for what is stored, once for equal requests.

        It reads the account alone, no records; `print` it. `names` are what the plans are called on it.
        """
        return Bill.of(plans, self._book(), names=names)

    def check_payable(self, plans: Sequence[Plan]) -> None:
        """Refuse plans that could not all be paid, whatever the records are: to know before they are read."""
        check_payable(self._path, self._book(), plans)

    def release_once(
        self,
        request: bytes,
        guarantee: Guarantee,
        part: Part | None,
        fingerprint: str,
        produce: Callable[[Account], bytes],
        arrangement: str | None = None,
    ) -> bytes:
        """Make, charge and store one release; or return the stored one if this request was already met.

        `produce` draws the noise. It runs after the records and the budget are checked and inside the transaction,
        so its bytes come back only when they and their charge are on disk. Whatever fails, nothing is spent.
        `arrangement` is the fingerprint of the records in their places, for releases in which places matter.
        """
        return self.release_all([Order(request, guarantee, part, fingerprint, produce, arrangement)])[0]

    def release_all(self, orders: Sequence[Order]) -> list[bytes]:
        """Make, charge and store the releases of all orders in one transaction; what is stored is handed out.

        All are checked before any noise is drawn, equal requests are one release, and whatever fails, a kill or a full
        disk included, none is stored and nothing is spent.
        """

        def act(connection: sqlite3.Connection) -> tuple[list[bytes], str]:
            return fulfilled(connection, self._path, self._verified(connection), orders)

        return self._write(act)

    def replace_records(self) -> None:
        """Accept other records from now on: a new data-set id, and nothing that was spent is forgotten.

        The same people may be in the new records, so every earlier charge still counts. They need not be in the same
        part of them, so an earlier charge on a part may meet any part of the new records. The neighbour relation stays.
        """

        def act(connection: sqlite3.Connection) -> tuple[None, str]:
            book, dataset = self._verified(connection), secrets.token_hex(16)
            check_relation(self._path, book, None)
            chain.keep_fingerprint(connection, book, dataset, None, None)
            head = chain.append(connection, book.head, len(book.entries), chain.REPLACED, dataset=dataset)
            n_histories = len(chain.histories(chain.read_book(connection, self._path)))
            if n_histories > MOST_HISTORIES:
                reason = f"its parts were charged in {n_histories} different ways, too many to follow into new records"
                raise store.refusal(self._path, reason, "open a new ledger with the data owner's consent")
            return None, head

        self._write(act)

    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the account, first to last, without anything private."""
        return self._book().entries

    def releases(self) -> tuple[bytes, ...]:
        """The stored release files, first to last."""

        def act(connection: sqlite3.Connection) -> tuple[bytes, ...]:
            self._verified(connection)
            return tuple(_stored(connection).values())

        return self._read(act)

    def charges(self) -> tuple[Charge, ...]:
        """What was charged, as recorded. Parts of replaced records do not line up with those of the present ones."""
        return chain.charges(self._book().entries)

    def spent(self) -> Guarantee | None:
        """What the person who was asked most has given so far, on the limit's scale; None if nothing.

        Of an account that holds both neighbour relations (version 0.1 allowed it) this is the total under change-one.
        """
        return spent(self._book())

    def remaining(self, part: Part | None = None) -> Guarantee | None:
        """What may still be spent on `part` (None: on all records); None when nothing is left.

        Refused with `Incomparable` where no single amount says it (`privacy.accounting.remaining`), and where the
        account holds both neighbour relations.
        """
        book = self._book()
        check_relation(self._path, book, None)
        return remaining_of(book, part)

    def check(self, releases: Sequence[bytes] = ()) -> None:
        """Verify the file, the chain, the total, and that each given release file is the one stored here.

        The chain alone cannot show that its last entries were cut off; a release made from them can.
        """

        def act(connection: sqlite3.Connection) -> tuple[Book, dict[str, bytes]]:
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise store.damaged(self._path, "SQLite's integrity check failed")
            return self._verified(connection), _stored(connection)

        book, stored = self._read(act)
        check_relation(self._path, book, None)
        if not is_within_limit(book):
            why = " (parts that version 0.1 charged as slivers held 15 of 16 people)" if book.has_swollen_parts else ""
            raise store.damaged(self._path, f"more than its limit, {book.limit}, was spent: {told_total(book)}{why}")
        for release in releases:
            chain.check_release(release, book, stored, self._path)

    def close(self) -> None:
        """Refuse further use of this object; the file holds everything already."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r}, limit={self._limit!r})"

    def __str__(self) -> str:
        book = self._book()
        n_releases = len(chain.charges(book.entries))
        left = "nothing: it holds both neighbour relations" if len(book.relations) > 1 else left_of(book, None)
        return (
            f"Ledger {self._path.name!r} of data set {book.dataset}\n"
            f"  limit      {book.limit}\n"
            f"  spent      {told_total(book)}, in {n_releases} release{'' if n_releases == 1 else 's'}\n"
            f"  remaining  {left or 'nothing'}"
        )

    def _repr_html_(self) -> str:
        """The public view: what was bought, when, and for how much; never anything of the records."""
        title = f"Ledger {self._path.name!r}"
        if self._is_closed:
            return pieces(Section(title, text="It was closed; open it again with Ledger.open."))
        bought = [entry for entry in self.entries() if entry.release_hash is not None][-MOST_SHOWN:]
        rows = [
            (
                str(entry.sequence),
                f"{entry.when:%Y-%m-%d %H:%M}",
                _statistic_of(stored),
                "all" if entry.part is None else f"{entry.part[0]} to {entry.part[1]}",
                str(entry.guarantee),
            )
            for entry, stored in zip(bought, self.releases()[-MOST_SHOWN:], strict=True)
        ]
        header = ("#", "when (UTC)", "what", "part", "price")
        return pieces(Section(title, block=str(self), header=header, rows=rows))

    def _book(self) -> Book:
        return self._read(self._verified)

    def _verified(self, connection: sqlite3.Connection) -> Book:
        """The account as it is now; it may have grown since we last looked, but never shrunk."""
        book = chain.read_book(connection, self._path)
        if self._newest_head is not None and all(entry.head != self._newest_head for entry in book.entries):
            raise store.damaged(self._path, "entries that were there when it was opened are gone")
        self._newest_head = book.head
        return book

    def _read(self, act: Callable[[sqlite3.Connection], Result]) -> Result:
        self._check_usable()
        return store.read(self._path, act, wait_seconds=self._wait_seconds)

    def _write(self, act: Callable[[sqlite3.Connection], tuple[Result, str]]) -> Result:
        self._check_usable()
        result, self._newest_head = store.write(self._path, act, wait_seconds=self._wait_seconds)
        return result

    def _check_usable(self) -> None:
        if self._is_closed:
            raise store.refusal(self._path, "it was closed", "open it again with Ledger.open")
        if not store.exists(self._path):
            raise store.damaged(self._path, "its file is gone")


def _stored(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Each stored release under the head it names: the one before its own entry."""
    rows = connection.execute(
        "SELECT before.head, entry.release FROM entries AS entry JOIN entries AS before "
        "ON before.sequence = entry.sequence - 1 WHERE entry.release IS NOT NULL ORDER BY entry.sequence"
    )
    return dict(rows)


def _statistic_of(stored: bytes) -> str:
    """What a stored release is of, as far as this version can read it."""
    try:
        return str(Release.from_bytes(stored).statistic)
    except InvalidRelease:
        return "a release that this version does not read"


def _path(path: str | os.PathLike[str]) -> Path:
    try:
        name = os.fspath(path)
        require(isinstance(name, str) and name not in ("", ":memory:"), "path", "the path of a file")
        return Path(os.path.realpath(name))
    except (TypeError, ValueError):
        pass
    raise InvalidArgument("path cannot be used: expected the path of a file. Nothing was spent.", argument="path")


def _never(_account: Account) -> bytes:
    raise LedgerError("no release was made: it was only looked for. Nothing was spent.", reason="only looked for")
