"""What an account refuses: a second neighbour relation, other records, records that moved, a price too high.

Refusals come before any noise is drawn, so they cost nothing. What is stored already may be had again even from an
account that sells no more: it tells nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from noisewise.errors import DifferentRecords
from noisewise.holder.ledger_budget import check_budget, told_total
from noisewise.holder.ledger_chain import Book
from noisewise.holder.ledger_store import refusal
from noisewise.privacy.accounting import Charge


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: its digest, its relation (None where it names none), its price, which records, and their places if
    they matter."""

    digest: str
    relation: str | None
    charge: Charge
    fingerprint: str
    arrangement: str | None


def check_request(path: Path, book: Book, asked: Asked, *, is_stored: bool, place: str = "this release") -> None:
    """Refuse what this account cannot answer; `is_stored` where it has answered this request before.

    `place` is how a refusal by the budget calls the release: it may be one of several.
    """
    if not is_stored:
        check_relation(path, book, asked.relation)
    is_old = asked.arrangement is not None and book.has_old_key_parts
    _check_records(path, book, asked.fingerprint, None if is_old else asked.arrangement)
    if is_stored:
        return
    if is_old:
        raise refusal(
            path,
            "it sold parts of these records under the rule of version 0.1, which cut them at 32 bits of the key's "
            "hash; they are cut at all 128 bits now, and a record between the two cuts would be in two parts",
            "release from all records, open a new ledger with the data owner's consent, or call "
            "ledger.replace_records(), which keeps what was spent",
        )
    check_budget(book, asked.charge, ledger=path.name, place=place)


def check_relation(path: Path, book: Book, relation: str | None) -> None:
    """Refuse a second neighbour relation, and an account that holds two already."""
    relations = book.relations
    if len(relations) > 1:
        raise refusal(
            path,
            "it holds releases under both neighbour relations, and they have no common sum. Under change-one, "
            f"where an add-remove charge counts for two records, {told_total(book)} was spent of {book.limit}",
            "open a new ledger with the data owner's consent; what was released can still be read from this one",
            spent=told_total(book),
            limit=book.limit,
        )
    if relation is not None and relations not in ((), (relation,)):
        raise refusal(
            path,
            f"its charges are for neighbours {relations[0]!r}, and this release is for {relation!r}; the two have "
            "no common sum, also after replace_records()",
            f"read the records under a schema with neighbours={relations[0]!r}, or open a new ledger with the data "
            "owner's consent",
            stored=relations[0],
            given=relation,
        )


def _check_records(path: Path, book: Book, fingerprint: str, arrangement: str | None) -> None:
    """Refuse other records; and, where places matter, the same records in other places."""
    advice = (
        "Open a new ledger, or call ledger.replace_records(), which keeps what was spent and gives a new data-set "
        "id. Nothing was spent."
    )
    if book.fingerprint not in (None, fingerprint):
        raise DifferentRecords(
            f"these are not the records that ledger {path.name!r} has accounted for, or not under the schema "
            f"(columns, bounds, clamping) of its first release. {advice}",
            reason="different records",
        )
    if arrangement is not None and book.arrangement not in (None, arrangement):
        raise DifferentRecords(
            f"these records are not in the places they had when ledger {path.name!r} first released a part: "
            f"a record that moved could be in two parts. Restore their order, or: {advice}",
            reason="different places",
        )
