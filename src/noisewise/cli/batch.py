"""noisewise release of a spec that names several: one bill, one payment, one file for each.

Every place is checked, then every statistic is computed, then all is paid in one transaction, then the files are
written. A file that cannot be written by then is not lost: its release is in the ledger, and asking again is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.cli import kinds
from noisewise.cli.actions import check_overwriting, console, given_options, limit_of
from noisewise.cli.desk import check_payable, read_records
from noisewise.cli.kinds import check_kind
from noisewise.cli.naming import NamedPlan, file_of
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.files import checked_folder, checked_place
from noisewise.printable import printable
from noisewise.privacy.odds import caution

if TYPE_CHECKING:
    from noisewise.holder.ledger_bill import Bill
    from noisewise.planning import Plan
    from noisewise.release import Release


def publish_all(
    read: Spec,
    releases: Sequence[NamedPlan],
    data: Path | None,
    ledger: Path | None,
    out: Path | None,
    *,
    dry_run: bool,
    accept_clamping: bool = False,
) -> None:
    """Make every release that is named, or none."""
    names, plans = _names(read, releases), [one.plan for one in releases]
    read.check_population()
    read.data()
    for said in dict.fromkeys(caution(plan.guarantee) for plan in plans):
        if said:
            console.print(said, markup=False)
    if dry_run:
        for name, plan in zip(names, plans, strict=True):
            console.print(f"{name}: {plan.describe()}", markup=False)
        console.print(str(_announced(read, plans, names, ledger)), markup=False)
        console.print("Dry run: no record was read and nothing was spent.")
        return
    _, data, ledger = given_options(read.path, data, ledger, out)
    assert out is not None
    places = _checked_places(read.path, data, ledger, out, names)
    from noisewise.holder.curator import make_releases
    from noisewise.holder.ledger import Ledger

    check_kind(data, kinds.RECORDS, place="--data")
    if ledger.exists():
        check_kind(ledger, kinds.LEDGER, place="--ledger")
    limit = limit_of(read, ledger)
    bill = _announced(read, plans, names, ledger)
    console.print(str(bill), markup=False)
    check_payable(plans, ledger, limit)
    with console.status("Checking the records..."):
        table = read_records(read, plans, data, ledger, accept_clamping=accept_clamping)
    with Ledger.open(ledger, limit=limit) as account:
        before = len(account.entries())
        with console.status("Computing and adding noise..."):
            made = make_releases(table, plans, ledger=account)
        count = len(account.entries()) - before
        console.print(_paid(bill, count), markup=False)
        console.print(str(account), markup=False)
    _write(made, places, out)


def _names(read: Spec, releases: Sequence[NamedPlan]) -> list[str]:
    """The name of each release: each needs one, for its file."""
    names = [one.name for one in releases if one.name is not None]
    if len(names) != len(releases):
        number = next(k for k, one in enumerate(releases, 1) if one.name is None)
        raise InvalidSpec(
            f'[[release]] {number} of {read.path} has no name: give it one, as in name = "mean-income", for its file '
            "is called after it. Nothing was spent.",
            where="name",
        )
    return names


def _checked_places(spec: Path, data: Path, ledger: Path, out: Path, names: Sequence[str]) -> list[Path]:
    """Where the files go, once it is known that they can be written there."""
    if out.suffix == ".json" and not out.is_dir():
        raise InvalidSpec(
            f"--out {printable(out)} is named like a file, and the releases of {spec} have names: give a folder, and "
            f"they are written there as {file_of(names[0])}. Nothing was spent.",
            where="--out",
        )
    places = [out / file_of(name) for name in names]
    check_overwriting(spec, data, ledger, places)
    checked_folder(out, "--out")
    if out.is_dir():
        for place in places:
            checked_place(place, "--out")
    return places


def _announced(read: Spec, plans: Sequence[Plan], names: Sequence[str], ledger: Path | None) -> Bill:
    """The bill in the ledger if there is one, else in the one that the spec's limit would open."""
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.ledger_bill import Bill
    from noisewise.holder.ledger_chain import unopened

    if ledger is not None and ledger.exists():
        with Ledger.open(ledger) as account:
            return account.bill(plans, names)
    limit = read.limit()
    return Bill.of(plans, None if limit is None else unopened(limit), names=names)


def _paid(bill: Bill, count: int) -> str:
    """What was paid; without the sum where others paid for some of it since the bill was written."""
    if not count:
        return "Nothing was to pay."
    is_as_announced = count == len([item for item in bill.items if not item.free])
    return f"Paid{f' {bill.total},' if is_as_announced else ''} for {count} release{'' if count == 1 else 's'}."


def _write(made: Sequence[Release], places: Sequence[Path], out: Path) -> None:
    """Write each file; one that fails does not keep the others from being written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fault = f"Cannot make {printable(out)!r}: {error.strerror}."
        raise NoisewiseError(_lost(len(places), len(places), fault)) from None
    written: list[str] = []
    faults: list[str] = []
    for release, place in zip(made, places, strict=True):
        try:
            release.save(place)
            written.append(place.name)
        except NoisewiseError as error:
            faults.append(str(error).partition(". ")[0] + ".")
    if written:
        console.print(f"Written to {out}: {', '.join(written)}.", markup=False)
    if faults:
        raise NoisewiseError(_lost(len(faults), len(places), " ".join(faults)))


def _lost(count: int, of: int, faults: str) -> str:
    return (
        f"{faults} All {of} releases are paid and stored in the ledger; {count} of them could not be written. Give "
        "another --out and ask again: that is free."
    )
