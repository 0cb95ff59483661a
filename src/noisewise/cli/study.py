"""noisewise study: list the studies, or run one and print its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid

from noisewise.cli.actions import check_outputs, console
from noisewise.files import write_whole
from noisewise_papers import named, studies
from noisewise_papers.setting import parse_assignments, shown
from noisewise_papers.study import Progress, Result, Study

WIDEST_CELL = 24  # columns are folded beyond it where the terminal is narrow


def list_studies() -> None:
    """noisewise study"""
    grid = Grid(box=None, pad_edge=False, show_header=False)
    for study in studies():
        grid.add_row(study.name, f"{study.about} [dim]({study.source})[/dim]")
    console.print(grid)
    console.print("\nRun one with `noisewise study NAME`, at the papers' scale with `--full`.", markup=False)


def run_study(
    name: str,
    *,
    full: bool,
    assignments: list[str],
    json: Path | None,
    plot: Path | None,
    seed: int,
    data: Path | None,
    workers: int,
) -> None:
    """noisewise study NAME"""
    check_outputs(json=json, plot=plot)
    study = named(name)
    given = parse_assignments(assignments)
    with _bars() as progress:
        result = study.run(given, full=full, seed=seed, data=data, workers=workers, progress=progress)
    _print(study, result)
    if json is not None:
        write_whole(json, result.to_bytes())
    if plot is not None:
        study.plot(result.rows, plot)
    for written in (json, plot):
        if written is not None:
            console.print(f"Written to {written}.", markup=False)


def _print(study: Study, result: Result) -> None:
    console.print(f"{study.name}: {study.about}", style="bold", markup=False)
    settings = "  ".join(f"{name}={shown(value)}" for name, value in result.settings.items())
    console.print(f"{study.source}; {settings}; seed {result.seed}", markup=False)
    grid = Grid(box=None, pad_edge=False)
    for title in study.columns:
        words = title.split("_")
        widest = max(len(text) for text in (*words, *(_cell(row, title) for row in result.rows)))
        side: Any = "right" if _is_numeric(result, title) else "left"
        grid.add_column(" ".join(words), justify=side, min_width=min(widest, WIDEST_CELL), overflow="fold")
    for row in result.rows:
        grid.add_row(*(_cell(row, title) for title in study.columns))
    console.print(grid)
    console.print(f"\n{study.note(result.rows)}", markup=False)
    console.print(f"{result.seconds:.1f} seconds.", markup=False)


def _is_numeric(result: Result, title: str) -> bool:
    return not any(isinstance(row.get(title), str) for row in result.rows)


def _cell(row: Mapping[str, Any], title: str) -> str:
    value = row.get(title)
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def _bars() -> Iterator[Progress]:
    """One bar a grid while the study runs; nothing where the output is not a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield advance
