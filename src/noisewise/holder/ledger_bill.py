"""The bill: what several releases would cost together, by the account's own accounting, before anything is paid.

    to pay = the worst part's total of the charges that are new    (composition: `privacy.accounting`)

What is stored costs nothing, equal requests are charged once, disjoint parts run in parallel. A bill reads the account
and the plans alone; it is an announcement, and the ledger checks again inside the transaction that pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisewise.errors import Incomparable, InvalidArgument
from noisewise.holder import ledger_chain as chain
from noisewise.holder.ledger_budget import is_within_limit, left_of, told_total
from noisewise.holder.ledger_chain import Book, Part
from noisewise.holder.ledger_orders import as_stored
from noisewise.planning import Plan
from noisewise.printable import printable
from noisewise.privacy.accounting import Charge, parallel_total
from noisewise.privacy.guarantee import Guarantee

__all__ = ["Bill", "Item"]


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a bill; `free` says why it costs nothing, and is empty where it is to be paid."""

    name: str | None
    what: str
    part: Part | None
    price: Guarantee
    free: str


@dataclass(frozen=True, slots=True)
class Bill:
    """The lines, what they cost together, and what is spent and left in words; `fits` is None without an account."""

    items: tuple[Item, ...]
    total: Guarantee | None  # of what is new; None where nothing is, or where the prices have no common sum
    closing: tuple[str, ...]
    fits: bool | None

    @classmethod
    def of(cls, plans: Sequence[Plan], book: Book | None, *, names: Sequence[str] | None = None) -> Bill:
        """The bill of these plans in this account; without one (None) nothing is stored and only the sum is told."""
        if not plans:
            raise InvalidArgument("plans = [] cannot be used: expected at least one plan.", argument="plans")
        numbers: dict[str, int] = {}
        items, new, after = [], [], book
        for number, asked in enumerate(plans, 1):
            plan = asked if book is None else as_stored(book, asked)
            digest, charge = chain.digest_of(plan.request()), Charge(plan.cost, plan.part)
            free = f"the same as {numbers[digest]}" if digest in numbers else ""
            if not free and book is not None and book.stored(digest) is not None:
                free = "already paid"
            numbers.setdefault(digest, number)
            if not free:
                new.append(charge)
                after = after and after.after(digest, charge, plan.schema.neighbours)
            name = None if names is None else names[number - 1]
            items.append(Item(name, str(plan.statistic), plan.part, plan.cost, free))
        total = _total(new, None if book is None else book.limit)
        words = _in_words(new, total)
        if book is None or after is None:
            return cls(tuple(items), total, (words,), None)
        fits = not new or is_within_limit(after)
        return cls(tuple(items), total, (words, *_closing(book, after, fits=fits)), fits)

    def __str__(self) -> str:
        rows = [("#", *(() if self.items[0].name is None else ("name",)), "what", "part", "price", "to pay")]
        for number, item in enumerate(self.items, 1):
            rows.append(
                (
                    str(number),
                    *(() if item.name is None else (printable(item.name),)),
                    printable(item.what),
                    "all" if item.part is None else f"{item.part[0]} to {item.part[1]}",
                    str(item.price),
                    f"0: {item.free}" if item.free else str(item.price),
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join((*lines, *self.closing))


def _total(new: Sequence[Charge], limit: Guarantee | None) -> Guarantee | None:
    """What is new, together; a price that the account cannot take at all is refused here."""
    if not new:
        return None
    if limit is not None:
        return parallel_total(new, like=limit).worst
    try:
        return parallel_total(new, like=new[0].guarantee).worst
    except Incomparable:
        return None


def _in_words(new: Sequence[Charge], total: Guarantee | None) -> str:
    if not new:
        return "  to pay     nothing"
    count = f"{len(new)} release{'' if len(new) == 1 else 's'}"
    if total is None:
        return f"  to pay     for {count}, of kinds that have no common sum"
    parallel = " (disjoint parts in parallel)" if any(charge.part is not None for charge in new) else ""
    return f"  to pay     {total}, for {count}{parallel}"


def _closing(book: Book, after: Book, *, fits: bool) -> tuple[str, str]:
    left = left_of(after, None) if fits and len(book.relations) < 2 else None
    remains = f"{left or 'nothing'} of {book.limit}" if fits else f"it does not fit into the limit, {book.limit}"
    return f"  spent      {told_total(book)} now, {told_total(after)} then", f"  remaining  {remains}"
