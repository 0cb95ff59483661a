"""noisewise choose: rank the candidates of a spec by what they would tell, and print the best as a [release]."""

from __future__ import annotations

import json as json_format
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisewise.cli.actions import check_outputs, console
from noisewise.cli.spec import Spec
from noisewise.design.choice import Choice, choose
from noisewise.errors import InvalidSpec
from noisewise.files import write_whole
from noisewise.planning import Plan, plan


def choose_candidates(
    spec: Path,
    *,
    score: str,
    at: Sequence[str],
    likelihood: str,
    seed: int | None,
    n: int | None,
    delta: str | None,
    despite_guarantees: bool,
    json: Path | None,
    plot: Path | None,
) -> None:
    """Rank the candidates of a spec under its population; print the table and the winner's section."""
    check_outputs(json=json, plot=plot)
    read = Spec.read(spec)
    candidates = read.candidates()
    if not candidates:
        raise InvalidSpec(f"{spec} needs [[candidates]], each with statistic = ... and guarantee = ... .",
                          where="candidates")  # fmt: skip
    population = read.population()
    found = choose(
        candidates, population, score=score, at=values_at(at), likelihood=likelihood, seed=seed, n=n, delta=delta,
        despite_guarantees=despite_guarantees,
    )  # fmt: skip
    console.print(str(found), markup=False)
    _write(found, json, plot)
    console.print(f"\n{release_section(found.winner)}", markup=False)


def release_section(winner: Plan) -> str:
    """A plan as the [release] section that makes it again."""
    price = ", ".join(f"{name} = {json_format.dumps(value)}" for name, value in winner.guarantee.to_dict().items()
                      if name != "kind")  # fmt: skip
    lines = [
        "[release]",
        f"statistic = {json_format.dumps(str(winner.statistic))}",
        f"guarantee = {{ {price} }}",
        f"mechanism = {json_format.dumps(winner.mechanism)}",
    ]
    usual = plan(winner.statistic, winner.schema, guarantee=winner.guarantee, mechanism=winner.mechanism,
                 part=winner.part)  # fmt: skip
    if winner.weights != usual.weights:
        lines.append(f"weights = {json_format.dumps([str(weight) for weight in winner.weights])}")
    if winner.part is not None:
        lines.append(f"part = {json_format.dumps([str(end) for end in winner.part])}")
    return "\n".join(lines)


def values_at(given: Sequence[str]) -> dict[str, Any] | None:
    """Parameter values from KEY=VALUE, several values with commas; None where there are none."""
    values: dict[str, Any] = {}
    for text in given:
        name, equals, listed = text.partition("=")
        try:
            numbers = [float(one) for one in listed.split(",")]
        except ValueError:
            numbers = []
        if not equals or not name.strip() or not numbers:
            raise InvalidSpec(f"--at {text!r}: expected a parameter and its value, as in --at mean=50.", where="--at")
        values[name.strip()] = numbers
    return values or None


def _write(found: Choice, json: Path | None, plot: Path | None) -> None:
    if json is not None:
        rows = [{key: None if _is_infinite(value) else value for key, value in row.items()} for row in found.table]
        plain = {
            "score": found.score.name,
            "parameters": list(found.belief.names),
            "theta": found.belief.words,
            "rows": rows,
            "remarks": list(found.remarks),
        }
        write_whole(json, (json_format.dumps(plain, indent=1, allow_nan=False) + "\n").encode())
        console.print(f"Written to {json}.", markup=False)
    if plot is not None:
        found.plot(plot)
        console.print(f"Written to {plot}.", markup=False)


def _is_infinite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
