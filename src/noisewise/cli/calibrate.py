"""noisewise calibrate: test that what a spec describes is inferred with honest intervals."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisewise.cli.actions import check_outputs, console
from noisewise.cli.spec import Spec
from noisewise.evaluate.calibration import Calibration, calibrate
from noisewise.files import write_whole
from noisewise.planning import Plan


def calibrate_spec(
    spec: Path,
    *,
    method: str,
    likelihood: str,
    trials: int,
    draws: int,
    seed: int | None,
    workers: int,
    n: int | None,
    json: Path | None,
    plot: Path | None,
    quiet: bool,
    only: str | None = None,
) -> None:
    """Calibrate the releases of a spec together, or each of its candidates; exit 1 where one is not calibrated."""
    check_outputs(json=json, plot=plot)
    read = Spec.read(spec)
    population = read.population()
    groups = [read.plans(only)] if only is not None or "release" in read.sections or not read.candidates() else [
        (candidate,) for candidate in read.candidates()
    ]  # fmt: skip
    found = []
    for plans in groups:
        found.append(
            calibrate(plans, population, method=method, likelihood=likelihood, trials=trials, draws=draws, seed=seed,
                      workers=workers, n=n, progress=not quiet)
        )  # fmt: skip
        console.print(found[-1].summary() + "\n", markup=False)
    _write(groups, found, json, plot)
    if not all(each.is_calibrated() for each in found):
        raise SystemExit(1)


def _write(
    groups: Sequence[Sequence[Plan]], found: Sequence[Calibration], json: Path | None, plot: Path | None
) -> None:
    if json is not None:
        plain = [_plain(plans, each) for plans, each in zip(groups, found, strict=True)]
        write_whole(json, (json_format.dumps({"calibrations": plain}, indent=1) + "\n").encode())
        console.print(f"Written to {json}.", markup=False)
    if plot is not None:
        places = [plot] if len(found) == 1 else [plot.with_stem(f"{plot.stem}-{k}") for k in range(1, len(found) + 1)]
        for place, each in zip(places, found, strict=True):
            each.plot(place)
            console.print(f"Written to {place}.", markup=False)


def _plain(plans: Sequence[Plan], found: Calibration) -> dict[str, Any]:
    return {
        "releases": [str(plan) for plan in plans],
        "is_calibrated": found.is_calibrated(),
        "verdict": found.verdict(),
        "rows": found.rows,
        "ranks": {name: found.ranks[:, k].tolist() for k, name in enumerate(found.names)},
        "draws": found.draws,
        "failures": list(found.failures),
        "seed": found.seed,
        "seconds": found.seconds,
    }
