"""The account of one data set: what was released, what it cost, what is left.

A data set may be asked only so much. With charges g_1, ..., g_m on parts of the records and a limit L, the ledger
lets release m + 1 happen only if

    the worst part's total of (g_1, ..., g_(m+1)) <= L        (composition: `privacy.accounting`),

and it decides, draws, charges and stores in one transaction. So no number of processes spends more than L, a crash
leaves the charge and the release both stored or neither, and nothing is shown that is not stored. The same request
on the same records returns the stored bytes and costs nothing: asking twice must not average the noise away.

Which records? The ledger keeps a keyed fingerprint of the first table and refuses any other before it charges.
The fingerprint and its key stay in the file: they are in no release, entry, message or printed form.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from noisewise import exact
from noisewise.errors import BudgetExceeded, DifferentRecords, InvalidArgument, LedgerError, NoisewiseError
from noisewise.holder import ledger_chain as chain
from noisewise.holder import ledger_store as store
from noisewise.holder.ledger_chain import Book, Entry, Part
from noisewise.privacy.accounting import Charge, fits, parallel_total, remaining
from noisewise.privacy.guarantee import Guarantee

__all__ = ["Account", "Entry", "Ledger"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Account:
    """Where a new release will stand: its data set, and the chain's head before it."""

    dataset: str
    head: str


class Ledger:
    """The account of one data set, kept in one file; open it with `Ledger.open`.

    The object holds the path and the limit only. Every question reads the file afresh and verifies its chain, so
    several processes and threads may use one ledger, and what they see is what is stored.
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
            _require(isinstance(limit, Guarantee), "limit", "a guarantee such as PureDP(2)")
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

    def fingerprint_key(self) -> bytes:
        """The secret salt under which the holder fingerprints records; it must not leave the holder."""
        return self._book().salt

    def release_once(
        self,
        request: bytes,
        guarantee: Guarantee,
        part: Part | None,
        fingerprint: str,
        produce: Callable[[Account], bytes],
    ) -> bytes:
        """Make, charge and store one release; or return the stored one if this request was already met.

        `produce` draws the noise. It runs after the records and the budget are checked and inside the transaction,
        so its bytes come back only when they and their charge are on disk. Whatever fails, nothing is spent.
        """
        _require(isinstance(request, bytes) and len(request) > 0, "request", "the bytes of the request")
        _require(isinstance(guarantee, Guarantee), "guarantee", "a guarantee such as PureDP(1)")
        _require(isinstance(fingerprint, str) and len(fingerprint) > 0, "fingerprint", "the records' fingerprint")
        _require(callable(produce), "produce", "a function that makes the release")
        chain.guarantee_text(guarantee)
        charge = Charge(guarantee, part)
        digest = hashlib.sha256(request).hexdigest()

        def act(connection: sqlite3.Connection) -> tuple[bytes, str]:
            book = self._verified(connection)
            if book.fingerprint not in (None, fingerprint):
                raise self._different_records()
            stored = book.stored(digest)
            if stored is not None:
                sql = "SELECT release FROM entries WHERE sequence = ?"
                return connection.execute(sql, (stored.sequence,)).fetchone()[0], book.head
            self._check_budget(book, charge)
            # Write something first: a read-only or full disk is then met before any noise is drawn.
            chain.keep_fingerprint(connection, book, book.dataset, fingerprint)
            release = _produced(produce, Account(book.dataset, book.head))
            head = chain.append(
                connection,
                book.head,
                len(book.entries),
                chain.RELEASED,
                dataset=book.dataset,
                request=digest,
                guarantee=guarantee,
                part=charge.part,
                release=release,
            )
            return release, head

        return self._write(act)

    def replace_records(self) -> None:
        """Accept other records from now on: a new data-set id, and nothing that was spent is forgotten.

        The same people may be in the new records, so every earlier charge still counts, on all of them.
        """

        def act(connection: sqlite3.Connection) -> tuple[None, str]:
            book, dataset = self._verified(connection), secrets.token_hex(16)
            chain.keep_fingerprint(connection, book, dataset, None)
            return None, chain.append(connection, book.head, len(book.entries), chain.REPLACED, dataset=dataset)

        self._write(act)

    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the account, first to last, without anything private."""
        return self._book().entries

    def releases(self) -> tuple[bytes, ...]:
        """The stored release files, first to last."""
        return self._read(lambda connection: tuple(self._releases(connection).values()))

    def charges(self) -> tuple[Charge, ...]:
        """What the account has to add up."""
        return chain.charges(self._book())

    def spent(self) -> Guarantee | None:
        """What the records that were asked most have given so far, on the limit's scale; None if nothing."""
        charges = self.charges()
        return parallel_total(charges, like=self._limit) if charges else None

    def remaining(self, part: Part | None = None) -> Guarantee | None:
        """What may still be spent on `part` (None: on all records); None when nothing is left."""
        return remaining(self.charges(), self._limit, part)

    def check(self, releases: Sequence[bytes] = ()) -> None:
        """Verify the file, the chain, the total, and that each given release file is the one stored here.

        The chain alone cannot show that its last entries were cut off; a release made after them can.
        """

        def act(connection: sqlite3.Connection) -> tuple[Book, dict[str, bytes]]:
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise store.damaged(self._path, "SQLite's integrity check failed")
            return self._verified(connection), self._releases(connection)

        book, stored = self._read(act)
        charges = chain.charges(book)
        if charges and not fits(charges, book.limit):
            raise store.damaged(self._path, f"more than its limit, {book.limit}, was spent")
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
        charges = chain.charges(book)
        n_releases = sum(entry.kind == chain.RELEASED for entry in book.entries)
        spent = parallel_total(charges, like=book.limit) if charges else "nothing"
        left = remaining(charges, book.limit, None) or "nothing"
        return (
            f"Ledger {self._path.name!r} of data set {book.dataset}\n"
            f"  limit      {book.limit}\n"
            f"  spent      {spent}, in {n_releases} release{'' if n_releases == 1 else 's'}\n"
            f"  remaining  {left}"
        )

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

    def _check_budget(self, book: Book, charge: Charge) -> None:
        charges = chain.charges(book)
        if fits([*charges, charge], book.limit):
            return
        left = remaining(charges, book.limit, charge.part)
        advice = "Open" if left is None else f"Ask for {str(left).replace('=', '<=')}, or open"
        remains, limit = (_amount(amount, like=charge.guarantee) for amount in (left, book.limit))
        raise BudgetExceeded(
            f"this release needs {charge.guarantee}, but {remains} of {limit} remains in ledger "
            f"{self._path.name!r}. {advice} a new ledger with the data owner's consent. Nothing was spent.",
            needed=charge.guarantee,
            remaining=left,
            limit=book.limit,
        )

    def _releases(self, connection: sqlite3.Connection) -> dict[str, bytes]:
        """Each stored release under the head it names: the one before its own entry."""
        self._verified(connection)
        rows = connection.execute(
            "SELECT before.head, entry.release FROM entries AS entry JOIN entries AS before "
            "ON before.sequence = entry.sequence - 1 WHERE entry.release IS NOT NULL ORDER BY entry.sequence"
        )
        return dict(rows)

    def _different_records(self) -> DifferentRecords:
        return DifferentRecords(
            f"these are not the records that ledger {self._path.name!r} has accounted for. Open a new ledger, or "
            "call ledger.replace_records(), which keeps what was spent and gives a new data-set id. "
            "Nothing was spent.",
            reason="different records",
        )


def _produced(produce: Callable[[Account], bytes], account: Account) -> bytes:
    """Make the release. Of a failure only the kind is told, for its words may quote a record."""
    try:
        release = produce(account)
        fault = _fault(release, account)
    except NoisewiseError:
        raise
    except Exception as error:
        fault = f"making it stopped with {type(error).__name__}"
    if fault is not None:
        raise LedgerError(f"no release was made: {fault}. Nothing was spent.", reason=fault)
    return release


def _fault(release: bytes, account: Account) -> str | None:
    if not isinstance(release, bytes) or not release:
        return "what was produced is not the bytes of a release"
    document = chain.document(release) or {}
    if document.get("simulated", False) is not False:
        return "a simulated release is no release of these records"
    if (document.get("dataset", account.dataset), document.get("ledger_head", account.head)) != (
        account.dataset,
        account.head,
    ):
        return "what was produced names another account"
    return None


def _amount(guarantee: Guarantee | None, *, like: Guarantee) -> str:
    """A guarantee in a sentence that has named its one number already: '0.3' for 'epsilon = 0.3'."""
    if guarantee is None:
        return "nothing"
    number = str(guarantee).partition(" = ")[2]
    return f"({guarantee})" if "=" in number or type(guarantee) is not type(like) else number


def _path(path: str | os.PathLike[str]) -> Path:
    try:
        name = os.fspath(path)
        _require(isinstance(name, str) and name not in ("", ":memory:"), "path", "the path of a file")
        return Path(os.path.realpath(name))
    except (TypeError, ValueError):
        pass
    raise _refused("path", "the path of a file")


def _require(is_met: bool, argument: str, expected: str) -> None:
    if not is_met:
        raise _refused(argument, expected)


def _refused(argument: str, expected: str) -> InvalidArgument:
    return InvalidArgument(f"{argument} cannot be used: expected {expected}. Nothing was spent.", argument=argument)
