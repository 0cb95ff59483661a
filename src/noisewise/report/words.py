"""A release in words: what was released, with which noise, at which price, and what that says about the value."""

from __future__ import annotations

from collections.abc import Sequence

from noisewise.laws import Form, additive_law
from noisewise.printable import printable
from noisewise.release import Release
from noisewise.statistics.units import component_units

MOST_LINES = 40


def describe_release(release: Release) -> str:
    """Everything a reader of a release file may want to know, in plain sentences."""
    schema = release.schema
    size = (
        f"{schema.n} records" if schema.is_change_one else f"at most {schema.n_max} records (their number is private)"
    )
    part = "" if release.part is None else f", part {release.part[0]} to {release.part[1]} of the data set"
    lines = []
    if release.simulated:
        lines.append("SIMULATED: this file was made for a study and describes no real records.")
    lines += [
        f"Released: {release.statistic}, of {size}{part}.",
        f"Price: {release.guarantee} ({release.guarantee.kind}).",
        f"Neighbours: {schema.neighbours}; {_neighbours(release)}",
        f"Columns: {', '.join(f'{name} {column!r}' for name, column in schema.columns.items())}.",
        f"Values outside the bounds were {'clamped to them' if schema.outside == 'clamp' else 'refused'}.",
        f"Noise: {release.law.words()}",
        "",
        *value_lines(release),
        "",
        f"Data set {release.dataset}, {release.hash}.",
    ]
    return "\n".join(map(printable, lines))


def value_lines(release: Release) -> list[str]:
    """One line for each component: its noisy value and the noise's standard deviation."""
    if not release.is_categorical and release.statistic.kind == "records":
        answers = release.estimate
        unit = component_units(release.statistic, release.schema)[0]
        return [f"  {len(answers)} noisy answers, from {answers[0]:.6g} to {answers[-1]:.6g}{unit}, sorted."]
    units = component_units(release.statistic, release.schema)
    rows = list(zip(map(printable, release.labels), release.estimate, units, _spreads(release), strict=True))
    width = max(len(label) for label, *_ in rows[:MOST_LINES])
    lines = [f"  {label:<{width}}  {value:.6g}{unit}{spread}" for label, value, unit, spread in rows[:MOST_LINES]]
    return lines + ([f"  ... and {len(rows) - MOST_LINES} more."] if len(rows) > MOST_LINES else [])


def _spreads(release: Release) -> Sequence[str]:
    law = release.law
    if law.form is not Form.NUMBER:
        return [""] * len(release.value)
    return [f"  (noise sd {sd / release.divisor:.4g})" for sd in additive_law(law).sd]


def _neighbours(release: Release) -> str:
    if release.schema.is_change_one:
        return "the guarantee compares data sets in which one record was replaced; n is public."
    return "the guarantee compares data sets with one record more or less."
