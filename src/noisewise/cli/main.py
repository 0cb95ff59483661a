"""The command line: parse, call, print. No arithmetic happens here.

Every error a user can make is one clear message on the error stream and exit code 2; a traceback is a bug.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from noisewise.errors import NoisewiseError

app = typer.Typer(
    name="noisewise",
    help="Differentially private Bayesian estimation: choose what to share, share it safely, learn from it honestly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ledger_app = typer.Typer(no_args_is_help=True, help="Show or check the account of a data set.")
app.add_typer(ledger_app, name="ledger")

SpecFile = Annotated[Path, typer.Argument(help="The spec file (TOML).", metavar="SPEC.toml")]
LedgerFile = Annotated[Path, typer.Option("--ledger", help="The ledger of this data set.")]


@app.command()
def release(
    spec: SpecFile,
    data: Annotated[Path | None, typer.Option("--data", help="The records: CSV or Parquet.")] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="The ledger of this data set.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the release goes (JSON).")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be released and its price; stop.")] = False,
) -> None:
    """Publish one statistic: check the records, pay from the ledger, write the release."""
    from noisewise.cli.actions import publish

    publish(spec, data, ledger, out, dry_run=dry_run)


@app.command()
def show(file: Annotated[Path, typer.Argument(help="A release file (JSON).", metavar="RELEASE.json")]) -> None:
    """Read a release aloud: what was released, with which noise, at which price."""
    from noisewise.cli.actions import show_release

    show_release(file)


@ledger_app.command("show")
def ledger_show(ledger: Annotated[Path, typer.Argument(help="The ledger file.")]) -> None:
    """What was spent, on what, and what remains."""
    from noisewise.cli.actions import show_ledger

    show_ledger(ledger)


@ledger_app.command("check")
def ledger_check(
    ledger: Annotated[Path, typer.Argument(help="The ledger file.")],
    releases: Annotated[list[Path] | None, typer.Argument(help="Release files that should be in it.")] = None,
) -> None:
    """Verify that no entry was edited, and that given releases are in the chain."""
    from noisewise.cli.actions import check_ledger

    check_ledger(ledger, releases or [])


@app.command()
def audit(
    mechanism: Annotated[str | None, typer.Argument(help="Only this mechanism.")] = None,
    runs: Annotated[int, typer.Option("--runs", help="Black-box runs on each side.")] = 2000,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
) -> None:
    """Attack our own mechanisms: exact divergences, goodness of fit, black-box lower bounds."""
    from noisewise.cli.actions import run_audit

    run_audit(mechanism, runs, json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the demo's files.")] = Path("demo-report"),
) -> None:
    """Run the whole line on simulated records and write an HTML report."""
    from noisewise.cli.demo import run

    run(out)


def main() -> None:
    """The `noisewise` command."""
    try:
        app()
    except NoisewiseError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"Cannot use {error.filename!r}: {error.strerror}.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Interrupted. What is in the ledger is paid and stored; nothing else was spent.", file=sys.stderr)
        sys.exit(130)
