"""Orders: releases asked for together, charged and stored together or not at all.

    check every order against the account as the orders before it would leave it,
    then draw, charge and store each, in one transaction.

So no noise is drawn for a batch that is refused, equal requests are one release and one charge, and whatever stops the
transaction (a refusal, a full disk, a kill) undoes all of it. One release is a batch of one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from noisewise.errors import InvalidArgument, LedgerError, NoisewiseError
from noisewise.holder import ledger_chain as chain
from noisewise.holder.ledger_chain import Book, Part
from noisewise.holder.ledger_refusals import Asked, check_request
from noisewise.planning import Plan
from noisewise.privacy.accounting import Charge
from noisewise.privacy.guarantee import Guarantee

__all__ = ["Account", "Order", "as_stored", "check_payable", "fulfilled", "require", "stored_of"]

UNREAD = "records that are not read yet"


@dataclass(frozen=True, slots=True)
class Account:
    """Where a new release will stand: its data set, and the chain's head before it."""

    dataset: str
    head: str


@dataclass(frozen=True, slots=True)
class Order:
    """One release that is asked for.

    `fingerprint` says of which records, `arrangement` in which places where places matter (parts, averaged rows).
    `produce` draws the noise and gives the bytes of the release; it is called inside the transaction, or never.
    """

    request: bytes
    guarantee: Guarantee
    part: Part | None
    fingerprint: str
    produce: Callable[[Account], bytes]
    arrangement: str | None = None

    def __post_init__(self) -> None:
        require(isinstance(self.request, bytes) and len(self.request) > 0, "request", "the bytes of the request")
        require(isinstance(self.guarantee, Guarantee), "guarantee", "a guarantee such as PureDP(1)")
        for value, name in ((self.fingerprint, "fingerprint"), (self.arrangement or self.fingerprint, "arrangement")):
            require(isinstance(value, str) and len(value) > 0, name, "a fingerprint of the records")
        require(callable(self.produce), "produce", "a function that makes the release")
        chain.guarantee_text(self.guarantee)
        chain.part_text(Charge(self.guarantee, self.part).part)

    @property
    def asked(self) -> Asked:
        """The order as the account knows it: by its digest, its relation and its charge."""
        return Asked(
            chain.digest_of(self.request),
            chain.relation_of(self.request),
            Charge(self.guarantee, self.part),
            self.fingerprint,
            self.arrangement,
        )


def stored_of(connection: sqlite3.Connection, path: Path, book: Book, orders: Sequence[Order]) -> list[bytes | None]:
    """The stored release of each order, None where one would be made; refusals come early, all orders together."""
    return [
        None if sequence is None else _bytes_of(connection, sequence)
        for sequence in _checked_sequences(path, book, [order.asked for order in orders])
    ]


def fulfilled(
    connection: sqlite3.Connection, path: Path, book: Book, orders: Sequence[Order]
) -> tuple[list[bytes], str]:
    """The releases of all orders, the new ones charged and stored after the account's head; and the head then."""
    asked = [order.asked for order in orders]
    sequences = _checked_sequences(path, book, asked)
    new = [one for one, sequence in zip(asked, sequences, strict=True) if sequence is None]
    if new:
        # Write something first: a read-only or full disk is then met before any noise is drawn.
        places = next((one.arrangement for one in new if one.arrangement is not None), book.arrangement)
        chain.keep_fingerprint(connection, book, book.dataset, new[0].fingerprint, places)
    releases: dict[str, bytes] = {}
    head, count = book.head, len(book.entries)
    for order, one, sequence in zip(orders, asked, sequences, strict=True):
        if one.digest in releases:
            continue
        if sequence is not None:
            releases[one.digest] = _bytes_of(connection, sequence)
            continue
        release = _produced(order.produce, Account(book.dataset, head), one.relation)
        head = chain.append(
            connection,
            head,
            count,
            chain.RELEASED,
            dataset=book.dataset,
            request=one.digest,
            guarantee=one.charge.guarantee,
            part=one.charge.part,
            part_rule=chain.rule_of(one.relation, one.charge.part),
            release=release,
        )
        releases[one.digest], count = release, count + 1
    return [releases[one.digest] for one in asked], head


def _checked_sequences(path: Path, book: Book, asked: Sequence[Asked]) -> list[int | None]:
    """Where each order is stored already, None where it is not; refused unless all can be met, one after the other."""
    expected, sequences = book, []
    for number, one in enumerate(asked, 1):
        known = expected.stored(one.digest)
        check_request(path, expected, one, is_stored=known is not None, place=_place(number, len(asked)))
        sequences.append(known.sequence if known is not None and known.sequence < len(book.entries) else None)
        if known is None:
            expected = expected.after(one.digest, one.charge, one.relation)
            expected = expected.about(one.fingerprint, one.arrangement)
    return sequences


def as_stored(book: Book, plan: Plan) -> Plan:
    """The plan, or the one that an earlier version made of the same words where that is what was paid for."""
    if book.stored(chain.digest_of(plan.request())) is not None:
        return plan
    before = plan.earlier()
    is_paid = before is not None and book.stored(chain.digest_of(before.request())) is not None
    return before if before is not None and is_paid else plan


def check_payable(path: Path, book: Book, plans: Sequence[Plan]) -> None:
    """Refuse plans that this account could not sell together, whatever the records are; they are not read yet."""
    asked = [
        Asked(
            chain.digest_of(plan.request()),
            plan.schema.neighbours,
            Charge(plan.cost, plan.part),
            book.fingerprint or UNREAD,
            None,
        )
        for plan in (as_stored(book, plan) for plan in plans)
    ]
    _checked_sequences(path, book, asked)


def _place(number: int, count: int) -> str:
    if count == 1:
        return "this release"
    return f"release {number} of {count}" + (", after those before it," if number > 1 else "")


def _bytes_of(connection: sqlite3.Connection, sequence: int) -> bytes:
    release: bytes = connection.execute("SELECT release FROM entries WHERE sequence = ?", (sequence,)).fetchone()[0]
    return release


def _produced(produce: Callable[[Account], bytes], account: Account, relation: str | None) -> bytes:
    """Make the release. Of a failure only the kind is told, for its words may quote a record."""
    try:
        release = produce(account)
        fault = _fault(release, account, relation)
    except NoisewiseError:
        raise
    except Exception as error:
        fault = f"making it stopped with {type(error).__name__}"
    if fault is not None:
        raise LedgerError(f"no release was made: {fault}. Nothing was spent.", reason=fault)
    return release


def _fault(release: bytes, account: Account, relation: str | None) -> str | None:
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
    if chain.relation_of(release) != relation:
        return "what was produced names another neighbour relation than its request"
    return None


def require(is_met: bool, argument: str, expected: str) -> None:
    """Refuse an argument by its name."""
    if not is_met:
        raise InvalidArgument(f"{argument} cannot be used: expected {expected}. Nothing was spent.", argument=argument)
