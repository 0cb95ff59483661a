"""Records at the desk: read as the spec says, and stopped where more of a column is clamped than it allows.

The stop stands here, before the ledger is asked, not in `make_release`. A request that is already paid for is handed
out regardless: it tells nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.cli.spec import Spec
from noisewise.planning import Plan
from noisewise.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from noisewise.holder.table import Table


def read_records(read: Spec, plans: Sequence[Plan], data: Path, ledger: Path, *, accept_clamping: bool) -> Table:
    """The checked records of a spec, what the bounds move told, and stopped where that is too much."""
    from noisewise.cli.actions import console
    from noisewise.holder.cleaning import check_clamping, over_share
    from noisewise.holder.table import Table

    options = read.data()
    table = Table.read(data, plans[0].schema, options.order, options.key, reader=options.reader, clamp_at_most=1)
    for clamped in table.clamped:
        if clamped.moved:
            console.print(f"Clamped to its bounds: {clamped}.", markup=False)
    is_over = bool(over_share(table.clamped, options.clamp_at_most)) and not accept_clamping
    if is_over and not all(_is_paid(table, plan, ledger) for plan in plans):
        check_clamping(table.clamped, options.clamp_at_most)
    return table


def check_payable(plans: Sequence[Plan], ledger: Path, limit: Guarantee | None) -> None:
    """Refuse what the account cannot sell before a record is read; inside its transaction it checks again."""
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.ledger_chain import unopened
    from noisewise.holder.ledger_orders import check_payable as check_in

    if limit is not None:
        check_in(ledger, unopened(limit), plans)
        return
    with Ledger.open(ledger) as account:
        account.check_payable(plans)


def _is_paid(table: Table, plan: Plan, ledger: Path) -> bool:
    """Whether this very request is in the ledger already. Refusals of the ledger come as they are."""
    from noisewise.holder.ledger import Ledger

    if not ledger.exists():
        return False
    with Ledger.open(ledger) as account:
        fingerprint, (known,) = table.fingerprint(account.fingerprint_key()), account.as_stored([plan])
        return account.find(known.request(), known.cost, known.part, fingerprint) is not None
