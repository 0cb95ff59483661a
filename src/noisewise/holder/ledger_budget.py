"""What an account has spent and what remains, over every history a person may have in it.

Records can be replaced (`Ledger.replace_records`), and nobody knows who was in the old ones and is in the new: so the
totals are those of the worst history, and a charge must fit into the limit for each.
"""

from __future__ import annotations

from noisewise.errors import BudgetExceeded, Incomparable, InvalidArgument
from noisewise.holder import ledger_chain as chain
from noisewise.holder.ledger_chain import Book, Part
from noisewise.privacy.accounting import Charge, fits, parallel_total, remaining
from noisewise.privacy.guarantee import Guarantee

UNTOLD = "no fixed amount, it depends on the next charge"


def is_within_limit(book: Book, *charges: Charge) -> bool:
    """True where every history, with the charges to come, fits into the limit."""
    return all(fits([*history, *charges], book.limit) for history in chain.histories(book))


def check_budget(book: Book, charge: Charge, *, ledger: str, place: str = "this release") -> None:
    """Refuse a charge that does not fit into the limit, saying what would; `place` is how the release is called."""
    if is_within_limit(book, charge):
        return
    left, limit = left_of(book, charge.part), _amount(book.limit, like=charge.guarantee)
    if isinstance(left, str):
        what, left, advice = f"which does not fit into what remains of {limit}", None, "Ask for less, or open"
    elif left is None:
        what, advice = f"but nothing of {limit} remains", "Open"
    else:
        what = f"but {_amount(left, like=charge.guarantee)} of {limit} remains"
        advice = f"Ask for {str(left).replace('=', '<=')}, or open"
    raise BudgetExceeded(
        f"{place} needs {charge.guarantee}, {what} in ledger {ledger!r}. "
        f"{advice} a new ledger with the data owner's consent. Nothing was spent.",
        needed=charge.guarantee,
        remaining=left,
        limit=book.limit,
    )


def spent(book: Book) -> Guarantee | None:
    totals = (parallel_total(history, like=book.limit).worst for history in chain.histories(book))
    parts = [total.parts for total in totals if total is not None]
    return type(book.limit).from_parts(*map(max, zip(*parts, strict=True))) if parts else None


def told_total(book: Book) -> str:
    """What was spent, for a sentence."""
    try:
        return str(spent(book) or "nothing")
    except (Incomparable, InvalidArgument):
        return "more than any epsilon and delta below 1 can say"


def remaining_of(book: Book, part: Part | None) -> Guarantee | None:
    amounts = [remaining(history, book.limit, part) for history in chain.histories(book)]
    parts = [amount.parts for amount in amounts if amount is not None]
    return type(book.limit).from_parts(*map(min, zip(*parts, strict=True))) if len(parts) == len(amounts) else None


def left_of(book: Book, part: Part | None) -> Guarantee | str | None:
    """What remains, for a sentence. Under a limit of two numbers more may fit than plain addition shows."""
    try:
        left = remaining_of(book, part)
    except (Incomparable, InvalidArgument):
        return UNTOLD
    return UNTOLD if left is None and len(book.limit.parts) > 1 else left


def _amount(amount: Guarantee, *, like: Guarantee) -> str:
    """A guarantee in a sentence that has named its one number already: '0.3' for 'epsilon = 0.3'."""
    number = str(amount).partition(" = ")[2]
    return f"({amount})" if "=" in number or type(amount) is not type(like) else number
