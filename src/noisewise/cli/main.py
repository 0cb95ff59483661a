"""The command line: parse, call, print. No arithmetic happens here.

Every error a user can make is one clear message on the error stream and exit code 2; a traceback is a bug.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from noisewise.cli.survey import survey_app
from noisewise.cli.wording import as_typed
from noisewise.errors import NoisewiseError, Unsupported

app = typer.Typer(
    name="noisewise",
    help="Differentially private Bayesian estimation: choose what to share, share it safely, learn from it honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ledger_app = typer.Typer(no_args_is_help=True, help="Show, check or move on the account of a data set.")
app.add_typer(ledger_app, name="ledger")
app.add_typer(survey_app, name="survey")

SpecFile = Annotated[Path, typer.Argument(help="The spec file (TOML).", metavar="SPEC.toml")]
AcceptClamping = Annotated[
    bool, typer.Option("--accept-clamping", help="Release although more than clamp_at_most of a column is clamped.")
]
Only = Annotated[str | None, typer.Option("--only", help="Only the release of this name in the spec.", metavar="NAME")]
LedgerFile = Annotated[Path, typer.Option("--ledger", help="The ledger of this data set.")]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"noisewise {version('noisewise')}")
        raise typer.Exit


@app.callback()
def whole(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Differentially private Bayesian estimation: choose what to share, share it safely, learn from it honestly."""


@app.command()
def choose(
    spec: SpecFile,
    score: Annotated[
        str, typer.Option("--score", help="gain, trace, logdet, a-optimal, or the name of a parameter.")
    ] = "gain",
    at: Annotated[list[str] | None, typer.Option("--at", help="A parameter's value.", metavar="KEY=VALUE")] = None,
    likelihood: Annotated[str, typer.Option("--likelihood", help="auto, or clt.")] = "auto",
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed for what is simulated.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="How many records there are, where that is private.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="Compare guarantees as (epsilon, delta).")] = None,
    despite_guarantees: Annotated[
        bool, typer.Option("--despite-guarantees", help="Rank plans that do not cost the same.")
    ] = False,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the curves: .png, .pdf or .svg.")] = None,
) -> None:
    """Rank a spec's candidates by what their releases would tell; needs no records and spends nothing."""
    from noisewise.cli.choose import choose_candidates

    choose_candidates(
        spec, score=score, at=at or [], likelihood=likelihood, seed=seed, n=n, delta=delta,
        despite_guarantees=despite_guarantees, json=json, plot=plot,
    )  # fmt: skip


@app.command()
def precision(
    spec: SpecFile,
    budgets: Annotated[
        str | None, typer.Option("--budgets", help="Values of epsilon, rho or mu.", metavar="0.1,1,10")
    ] = None,
    at: Annotated[list[str] | None, typer.Option("--at", help="A parameter's value.", metavar="KEY=VALUE")] = None,
    n: Annotated[int | None, typer.Option("--n", help="How many records there are, where that is private.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed for what is simulated.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the curves: .png, .pdf or .svg.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    only: Only = None,
) -> None:
    """What each budget would buy, and what it means for one person; needs no records and spends nothing."""
    from noisewise.cli.precision import precision_of

    precision_of(spec, budgets=budgets, at=at or [], n=n, seed=seed, only=only, json=json, plot=plot, quiet=quiet)


@app.command()
def release(
    spec: SpecFile,
    data: Annotated[Path | None, typer.Option("--data", help="The records: CSV or Parquet.")] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="The ledger of this data set.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the release goes (JSON); the folder of named ones.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be released and its price; stop.")] = False,
    accept_clamping: AcceptClamping = False,
    only: Only = None,
) -> None:
    """Publish statistics: check the records, pay from the ledger, write the release, or all that the spec names."""
    from noisewise.cli.actions import publish

    publish(spec, data, ledger, out, dry_run=dry_run, accept_clamping=accept_clamping, only=only)


@app.command()
def check(
    spec: SpecFile,
    data: Annotated[Path, typer.Option("--data", help="The records: CSV or Parquet.")],
    json: Annotated[Path | None, typer.Option("--json", help="Also write it as JSON; not for publication.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write it as a page; not for publication.")] = None,
) -> None:
    """Look at records before paying: what is missing, clamped, undeclared; for the holder's eyes only."""
    from noisewise.cli.check import check_records

    check_records(spec, data, json=json, html=html)


@app.command()
def estimate(
    spec: SpecFile,
    loss: Annotated[str, typer.Option("--loss", help="squared, absolute, pinball(0.9) or window(0.1).")] = "squared",
    data: Annotated[Path | None, typer.Option("--data", help="The records, to release one answer.")] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="The ledger of this data set.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the release goes (JSON).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the estimator as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw its heat map: .png, .pdf or .svg.")] = None,
    accept_clamping: AcceptClamping = False,
    only: Only = None,
) -> None:
    """The best private point estimate behind a spec's count; with --data, release one answer through it."""
    from noisewise.cli.estimate import estimate_spec

    estimate_spec(
        spec,
        loss=loss,
        data=data,
        ledger=ledger,
        out=out,
        json=json,
        plot=plot,
        accept_clamping=accept_clamping,
        only=only,
    )


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


@ledger_app.command("replace-records")
def ledger_replace_records(
    ledger: Annotated[Path, typer.Argument(help="The ledger file.")],
    yes: Annotated[bool, typer.Option("--yes", help="The records are others from now on.")] = False,
) -> None:
    """Accept other records from now on: a new data-set id, and nothing that was spent is forgotten."""
    from noisewise.cli.actions import replace_records

    replace_records(ledger, yes=yes)


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


@app.command()
def infer(
    releases: Annotated[list[Path], typer.Argument(help="Release files (JSON).", metavar="RELEASE.json...")],
    spec: Annotated[Path, typer.Option("--spec", help="The spec file (TOML) with a population section.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the posterior, its summary, plot and report.")],
    method: Annotated[str, typer.Option("--method", help="auto, exact, mh, pmmh, mhaar, ...")] = "auto",
    likelihood: Annotated[str, typer.Option("--likelihood", help="auto, or clt.")] = "auto",
    draws: Annotated[int, typer.Option("--draws", help="Draws of each chain.")] = 1000,
    warmup: Annotated[int, typer.Option("--warmup", help="Steps before them.")] = 1000,
    chains: Annotated[int, typer.Option("--chains", help="Number of chains.")] = 4,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed gives the same draws.")] = None,
    n: Annotated[
        str | None,
        typer.Option("--n", help="How many records there are, where that is private: 4000, or a prior: poisson(1000)."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Learn from releases: the posterior of the population's unknowns, with the privacy noise in the model."""
    from noisewise.cli.infer import infer_releases

    infer_releases(
        releases, spec, out, method=method, likelihood=likelihood, draws=draws, warmup=warmup, chains=chains,
        seed=seed, n=n, quiet=quiet,
    )  # fmt: skip


@app.command()
def calibrate(
    spec: SpecFile,
    trials: Annotated[int, typer.Option("--trials", help="How many times the whole line is simulated.")] = 200,
    method: Annotated[str, typer.Option("--method", help="auto, exact, mh, pmmh, mhaar, naive, ...")] = "auto",
    likelihood: Annotated[str, typer.Option("--likelihood", help="auto, or clt.")] = "auto",
    draws: Annotated[int, typer.Option("--draws", help="Posterior draws that are ranked in each trial.")] = 100,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed gives the same ranks.")] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes; the ranks do not depend on it.")] = 1,
    n: Annotated[int | None, typer.Option("--n", help="How many records there are, where that is private.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Also write ranks and rows as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the ranks: .png, .pdf or .svg.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    only: Only = None,
) -> None:
    """Simulate a spec's population and releases many times: do the intervals cover what they claim?"""
    from noisewise.cli.calibrate import calibrate_spec

    calibrate_spec(
        spec, method=method, likelihood=likelihood, trials=trials, draws=draws, seed=seed, workers=workers, n=n,
        json=json, plot=plot, quiet=quiet, only=only,
    )  # fmt: skip


@app.command("simulate-online")
def simulate_online(
    spec: SpecFile,
    n: Annotated[int | None, typer.Option("--n", help="How many people are asked, in place of the spec's n.")] = None,
    runs: Annotated[int, typer.Option("--runs", help="How many times the survey is simulated.")] = 1,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed gives the same survey.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the estimates as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the survey's course: .png, .pdf or .svg.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Try a spec's survey on simulated people: private questions asked one by one, each chosen by what is known."""
    from noisewise.cli import simulate_online as command

    command.simulate_online(spec, n=n, runs=runs, seed=seed, json=json, plot=plot, quiet=quiet)


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="The study; without it, all are listed.")] = None,
    full: Annotated[bool, typer.Option("--full", help="At the paper's scale.")] = False,
    assignments: Annotated[list[str] | None, typer.Option("--set", help="A setting.", metavar="KEY=VALUE")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the figure: .png, .pdf or .svg.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same rows.")] = 1,
    data: Annotated[Path | None, typer.Option("--data", help="Folder of real data (else NOISEWISE_DATA).")] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes; the rows do not depend on it.")] = 2,
) -> None:
    """Redo a table or figure of a paper, beside what it printed."""
    try:
        from noisewise.cli.study import list_studies, run_study
    except ModuleNotFoundError as missing:
        if missing.name != "noisewise_papers":
            raise
        raise Unsupported(
            "The studies are a package of their own, noisewise-papers, which is not installed here: "
            "run `pip install ./papers` in a copy of Noisewise's repository."
        ) from None

    if name is None:
        list_studies()
        return
    run_study(
        name, full=full, assignments=assignments or [], json=json, plot=plot, seed=seed, data=data, workers=workers
    )


def main() -> None:
    """The `noisewise` command."""
    try:
        app()
    except NoisewiseError as error:
        print(as_typed(error), file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"Cannot use {error.filename!r}: {error.strerror}.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Interrupted. What is in the ledger is paid and stored; nothing else was spent.", file=sys.stderr)
        sys.exit(130)
