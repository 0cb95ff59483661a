"""What the commands do: call the library and print what it returns."""

from __future__ import annotations

import contextlib
import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from noisewise.cli import kinds
from noisewise.cli.desk import check_payable, read_records
from noisewise.cli.kinds import check_kind
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec
from noisewise.files import checked_place, checked_plot, write_whole
from noisewise.planning import Plan
from noisewise.printable import printable, printable_lines
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.odds import caution


class PlainConsole(Console):
    """Prints what others named without obeying it: no control characters, whoever wrote the file."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable_lines(one) if isinstance(one, str) else one for one in objects), **options)


console = PlainConsole(highlight=False, soft_wrap=True)


def cell(text: object) -> Text:
    """A table's cell: one line, and no markup in it."""
    return Text(printable(text))


def check_outputs(*, json: Path | None = None, plot: Path | None = None, html: Path | None = None) -> None:
    """Whether what was asked for can be written: known before anything is read, paid or computed."""
    given = {name: place for name, place in (("--json", json), ("--plot", plot), ("--html", html)) if place is not None}
    if len({place.resolve() for place in given.values()}) < len(given):
        raise InvalidSpec(f"{' and '.join(given)} name the same file. Give each its own.", where="options")
    for name, place in given.items():
        refuse_to_replace(place, name)
        (checked_plot if name == "--plot" else checked_place)(place, name)


def refuse_to_replace(place: Path, option: str) -> None:
    """A ledger, a spec or a release that is there already is never overwritten by a table or a picture."""
    with contextlib.suppress(OSError):
        kind = kinds.kind_of(place) if place.is_file() else None
        if kind is not None and kind in (kinds.LEDGER, kinds.SPEC, kinds.RELEASE, kinds.RECORDS):
            raise InvalidSpec(
                f"{option} would overwrite {printable(place)}, which is {kind.name}. Give another name. Nothing was "
                "written.",
                where=option,
            )


def check_release_options(spec: Path, data: Path | None, ledger: Path | None, out: Path | None) -> None:
    """The options of a release are all there, and its file can be written: known before anything is paid."""
    check_overwriting(*given_options(spec, data, ledger, out), [out or spec])
    checked_place(out, "--out")


def given_options(spec: Path, data: Path | None, ledger: Path | None, out: Path | None) -> tuple[Path, Path, Path]:
    """Spec, records and ledger, or what is missing to make a release."""
    missing = [name for name, value in (("--data", data), ("--ledger", ledger), ("--out", out)) if value is None]
    if missing or data is None or ledger is None:
        raise InvalidSpec(f"Give {', '.join(missing)} (or --dry-run). Nothing was spent.", where="options")
    return spec, data, ledger


def check_overwriting(spec: Path, data: Path, ledger: Path, places: Sequence[Path]) -> None:
    """No release is written over what it is made from."""
    account = ledger.resolve()
    journals = [account.with_name(account.name + end) for end in ("-journal", "-wal", "-shm")]  # SQLite's own
    if {place.resolve() for place in places} & {spec.resolve(), data.resolve(), account, *journals}:
        raise InvalidSpec(
            "--out would overwrite the spec, the records, the ledger or its journal. Give another name. "
            "Nothing was spent.",
            where="--out",
        )


def limit_of(read: Spec, ledger: Path) -> Guarantee | None:
    """The limit of a ledger that is to be made, from the spec; None where the ledger is there."""
    limit = None if ledger.exists() else read.limit()
    if limit is None and not ledger.exists():
        raise InvalidSpec(
            f"There is no ledger at {ledger}. Check the path, or let {read.path} say how much a new one may sell: "
            '[ledger] limit = { epsilon = "2" }. Nothing was spent.',
            where="--ledger",
        )
    return limit


def publish(
    spec: Path,
    data: Path | None,
    ledger: Path | None,
    out: Path | None,
    *,
    dry_run: bool,
    accept_clamping: bool = False,
    only: str | None = None,
) -> None:
    """noisewise release"""
    if not dry_run:
        given_options(spec, data, ledger, out)
    read = Spec.read(spec)
    releases = read.releases(only)
    if len(releases) > 1 or releases[0].name is not None:
        from noisewise.cli.batch import publish_all

        publish_all(read, releases, data, ledger, out, dry_run=dry_run, accept_clamping=accept_clamping)
        return
    if not dry_run:
        check_release_options(spec, data, ledger, out)
    plan = releases[0].plan
    read.check_population()
    read.data()
    console.print(plan.describe(), markup=False)
    if caution(plan.guarantee):
        console.print(caution(plan.guarantee), markup=False)
    if dry_run:
        console.print("Dry run: no record was read and nothing was spent.")
        return
    release_by(read, plan, data, ledger, out, accept_clamping=accept_clamping)


def release_by(
    read: Spec, plan: Plan, data: Path | None, ledger: Path | None, out: Path | None, *, accept_clamping: bool
) -> None:
    """Check the records, pay from the ledger, write the release, and say so."""
    check_release_options(read.path, data, ledger, out)
    assert data is not None
    assert ledger is not None
    assert out is not None
    from noisewise.holder.curator import make_release
    from noisewise.holder.ledger import Ledger

    check_kind(data, kinds.RECORDS, place="--data")
    if ledger.exists():
        check_kind(ledger, kinds.LEDGER, place="--ledger")
    limit = limit_of(read, ledger)
    check_payable([plan], ledger, limit)
    with console.status("Checking the records..."):
        table = read_records(read, [plan], data, ledger, accept_clamping=accept_clamping)
    with Ledger.open(ledger, limit=limit) as account:
        before = len(account.entries())
        with console.status("Computing and adding noise..."):
            made = make_release(table, plan, ledger=account)
        is_new = len(account.entries()) > before
        made.save(out)
        paid = f"Paid {plan.cost}." if is_new else "This request was already paid; the stored release costs nothing."
        console.print(f"{paid} Written to {out}.", markup=False)
        console.print(str(account), markup=False)


def show_release(file: Path) -> None:
    """noisewise show"""
    from noisewise.report.words import describe_release, describe_survey
    from noisewise.survey_release import load_releases

    check_kind(file, kinds.RELEASE, kinds.MEASUREMENT, place="`noisewise show`")
    releases = load_releases(file)
    told = describe_release(releases[0]) if len(releases) == 1 else describe_survey(releases)
    console.print(told, markup=False)


def show_ledger(ledger: Path) -> None:
    """noisewise ledger show"""
    from noisewise.holder.ledger import Ledger
    from noisewise.release import Release

    with Ledger.open(_existing(ledger)) as account:
        console.print(str(account), markup=False)
        grid = Grid(box=None, pad_edge=False)
        for title in ("#", "when (UTC)", "what", "price", "part", "release"):
            grid.add_column(title)
        stored = iter(account.releases())
        for entry in account.entries():
            release = None if entry.release_hash is None else Release.from_bytes(next(stored))
            grid.add_row(
                str(entry.sequence),
                f"{entry.when:%Y-%m-%d %H:%M}",
                cell(entry.kind if release is None else release.statistic),
                "" if entry.guarantee is None else str(entry.guarantee),
                "" if release is None else "all" if entry.part is None else f"{entry.part[0]} to {entry.part[1]}",
                "" if release is None else release.hash.removeprefix("sha256:")[:8],
            )
        console.print(grid)


def replace_records(ledger: Path, *, yes: bool) -> None:
    """noisewise ledger replace-records"""
    from noisewise.holder.ledger import Ledger

    with Ledger.open(_existing(ledger)) as account:
        if not yes:
            raise InvalidSpec(
                f"From then on {ledger} takes other records under a new data-set id; what was spent stays spent, for "
                "the same people may be in them. If that is meant, say so with --yes. Nothing was changed.",
                where="--yes",
            )
        account.replace_records()
        console.print(f"Other records may be released from now on; data set {account.dataset}.", markup=False)
        console.print(str(account), markup=False)


def check_ledger(ledger: Path, releases: list[Path]) -> None:
    """noisewise ledger check"""
    from noisewise.holder.ledger import Ledger
    from noisewise.release import Release

    with Ledger.open(_existing(ledger)) as account:
        account.check([Release.load(file).to_bytes() for file in releases])
        named = f" and {len(releases)} release file{'s' if len(releases) != 1 else ''}" if releases else ""
        console.print(f"The ledger is whole: {len(account.entries())} entries{named} verified.", markup=False)


def run_audit(mechanism: str | None, runs: int, json: Path | None) -> None:
    """noisewise audit"""
    from noisewise.audit.run import audit, table_of

    check_outputs(json=json)
    rows = audit(mechanism, runs=runs, progress=console)
    console.print(table_of(rows))
    if json is not None:
        write_whole(json, (json_format.dumps([row.to_dict() for row in rows], indent=1) + "\n").encode())
    if not all(row.is_sound for row in rows):
        raise SystemExit(1)


def _existing(ledger: Path) -> Path:
    if not ledger.exists():
        raise InvalidSpec(
            f"There is no ledger {str(ledger)!r}. Check the path; `noisewise release SPEC --ledger {ledger} ...` makes "
            "a new one.",
            where="ledger",
        )
    check_kind(ledger, kinds.LEDGER, place="this place")
    return ledger
