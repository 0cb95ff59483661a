"""A release in words: what was released, with which noise, at which price, and what that says about the value."""

from __future__ import annotations

import math
from collections.abc import Sequence

from noisewise.laws import Form, additive_law
from noisewise.printable import printable
from noisewise.release import Release
from noisewise.statistics.units import component_units, feature_unit

MOST_LINES = 40
CLAMPING = "Clamping"
SIMULATED = "this file was made for a study and describes no real records."
FEWEST_SDS = 4  # of a noisy count, above which a ratio to it means something


def describe_release(release: Release) -> str:
    """Everything a reader of a release file may want to know, in plain sentences."""
    lines = [f"SIMULATED: {SIMULATED}"] if release.simulated else []
    lines += [told if term == CLAMPING else f"{term}: {told}" for term, told in release_facts(release)]
    lines += ["", *value_lines(release), "", f"Data set {release.dataset}, {release.hash}."]
    return "\n".join(map(printable, lines))


def release_facts(release: Release) -> list[tuple[str, str]]:
    """What was released, at which price, between which neighbours, of which columns, with which noise; term by term."""
    schema = release.schema
    size = (
        f"{schema.n} records" if schema.is_change_one else f"at most {schema.n_max} records (their number is private)"
    )
    part = "" if release.part is None else f", part {release.part[0]} to {release.part[1]} of the data set"
    return [
        ("Released", f"{release.statistic}, of {size}{part}."),
        ("Price", f"{release.guarantee} ({release.guarantee.kind})."),
        ("Neighbours", f"{schema.neighbours}; {_neighbours(release)}"),
        ("Columns", f"{', '.join(f'{name} {column!r}' for name, column in schema.columns.items())}."),
        (CLAMPING, f"Values outside the bounds were {'clamped to them' if schema.outside == 'clamp' else 'refused'}."),
        ("Noise", release.law.words()),
    ]


def value_lines(release: Release) -> list[str]:
    """One line for each component: its noisy value and the noise's standard deviation."""
    if not release.is_categorical and release.statistic.kind == "records":
        answers = release.estimate
        unit = component_units(release.statistic, release.schema)[0]
        return [f"  {len(answers)} noisy answers, from {answers[0]:.6g} to {answers[-1]:.6g}{unit}, sorted."]
    units = component_units(release.statistic, release.schema)
    if release.statistic.groups(release.schema):
        return group_lines(release)
    rows = list(zip(map(printable, release.labels), release.estimate, units, _spreads(release), strict=True))
    width = max(len(label) for label, *_ in rows[:MOST_LINES])
    lines = [f"  {label:<{width}}  {value:.6g}{unit}{spread}" for label, value, unit, spread in rows[:MOST_LINES]]
    return lines + ([f"  ... and {len(rows) - MOST_LINES} more."] if len(rows) > MOST_LINES else [])


def group_lines(release: Release) -> list[str]:
    """A table by group; beside counts also each group's mean, with the standard deviation that noise gives it."""
    groups, estimate, spread = release.statistic.groups(release.schema), release.estimate, additive_law(release.law).sd
    size = len(release.value) // len(groups)
    names = [printable(label.removeprefix(f"{groups[0]}: ")) for label in release.labels[:size]]
    averages = [one for one in release.statistic.averages(release.schema) if one.group == groups[0]]
    has_mean = bool(averages)
    heads = [
        f"mean({printable(one.feature)}){f',{unit}' if unit else ''}"
        for one, unit in zip(averages, (feature_unit(one.feature, release.schema) for one in averages), strict=True)
    ]
    rows = [["", *names, *heads]]
    small = []
    for g, group in enumerate(groups[:MOST_LINES]):
        own, sds = estimate[g * size : (g + 1) * size], spread[g * size : (g + 1) * size]
        row = [printable(group), *(f"{value:.6g} ± {sd:.3g}" for value, sd in zip(own, sds, strict=True))]
        if has_mean and own[0] < FEWEST_SDS * sds[0]:
            small.append(printable(group))
            row += ["too few to say"] * len(heads)
        elif has_mean:
            means = [value / own[0] for value in own[1:]]
            errors = [math.hypot(sd, mean * sds[0]) / own[0] for sd, mean in zip(sds[1:], means, strict=True)]
            row += [f"{mean:.6g} ± {error:.3g}" for mean, error in zip(means, errors, strict=True)]
        rows.append(row)
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines += [f"  ... and {len(groups) - MOST_LINES} more groups."] if len(groups) > MOST_LINES else []
    lines.append("  (± is one standard deviation of the noise alone.)")
    if small:
        lines.append(
            f"  Too few to say: the noisy count is below {FEWEST_SDS} times its noise sd, so a mean would say nothing."
        )
    return lines


def _spreads(release: Release) -> Sequence[str]:
    law = release.law
    if law.form is not Form.NUMBER:
        return [""] * len(release.value)
    return [f"  (noise sd {sd / release.divisor:.4g})" for sd in additive_law(law).sd]


def _neighbours(release: Release) -> str:
    if release.schema.is_change_one:
        return "the guarantee compares data sets in which one record was replaced; n is public."
    return "the guarantee compares data sets with one record more or less."
