"""noisewise precision: what each budget would buy of a spec's releases, as a table, sentences, JSON and a curve."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path

from noisewise.cli.actions import check_outputs, console
from noisewise.cli.choose import values_at
from noisewise.cli.spec import Spec
from noisewise.design.expected import precision
from noisewise.errors import InvalidSpec
from noisewise.files import write_whole


def precision_of(
    spec: Path,
    *,
    budgets: str | None,
    at: Sequence[str],
    n: int | None,
    seed: int | None,
    only: str | None,
    json: Path | None,
    plot: Path | None,
    quiet: bool,
) -> None:
    """The planned releases, and the candidates, of a spec under its population, if it has one; or one of them."""
    check_outputs(json=json, plot=plot)
    read = Spec.read(spec)
    releases = read.plans(only) if only is not None or "release" in read.sections else ()
    plans = [*releases, *(() if only is not None else read.candidates())]
    if not plans:
        raise InvalidSpec(
            f"{spec} plans nothing: it needs a [release] or [[candidates]], each with statistic = ... and "
            "guarantee = ... .",
            where="release",
        )
    read.check_population()
    population = read.population() if "population" in read.sections else None
    found = precision(
        plans, population, budgets=_numbers(budgets), at=values_at(at), n=n, seed=seed, progress=not quiet
    )
    console.print(str(found), markup=False)
    if json is not None:
        write_whole(json, (json_format.dumps(found.to_dict(), indent=1, allow_nan=False) + "\n").encode())
        console.print(f"\nWritten to {json}.", markup=False)
    if plot is not None:
        found.plot(plot)
        console.print(f"\nWritten to {plot}.", markup=False)


def _numbers(budgets: str | None) -> list[str] | None:
    """Budgets from 0.1,1,10; what is no number is refused further on, by name."""
    if budgets is None:
        return None
    listed = [one.strip() for one in budgets.split(",") if one.strip()]
    if not listed:
        raise InvalidSpec("--budgets takes numbers with commas, as in --budgets 0.1,1,10.", where="--budgets")
    return listed
