"""A release in words: what was released, with which noise, at which price, and what that says about the value."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from noisewise.laws import Form, additive_law
from noisewise.printable import printable
from noisewise.release import NoisyValue
from noisewise.statistics.presence import left_out_of
from noisewise.statistics.protocol import Average
from noisewise.statistics.units import component_units, feature_unit
from noisewise.types import Floats

MOST_LINES = 40
CLAMPING, LEFT_OUT = "Clamping", "Left out"  # facts that are whole sentences
SIMULATED = "this file was made for a study and describes no real records."
FEW = "too few to say"
FEWEST_SDS = 4  # of a noisy count, above which a ratio to it means something


def describe_release(release: NoisyValue) -> str:
    """Everything a reader of a release file may want to know, in plain sentences."""
    lines = [f"SIMULATED: {SIMULATED}"] if release.simulated else []
    lines += [told if term in (CLAMPING, LEFT_OUT) else f"{term}: {told}" for term, told in release_facts(release)]
    lines += ["", *value_lines(release), "", f"{release.origin}, {release.hash}."]
    return "\n".join(map(printable, lines))


def describe_survey(releases: Sequence[NoisyValue]) -> str:
    """A survey's answers, question by question."""
    answers = sum(release.schema.largest_n for release in releases)
    first = releases[0]
    lines = [f"SIMULATED: {SIMULATED}"] if first.simulated else []
    lines += [
        f"Released: the answers of a survey, {answers} people, each of whom answered one of {len(releases)} questions.",
        f"Price: {first.price.removesuffix('.')}, for each person.",
        f"Neighbours: {first.schema.neighbours}; {_neighbours(first)}",
        "",
    ]
    for release in releases[:MOST_LINES]:
        lines += [f"{release.statistic}, of {release.schema.largest_n} people:", *value_lines(release)]
    lines += [f"... and {len(releases) - MOST_LINES} more questions."] if len(releases) > MOST_LINES else []
    return "\n".join(map(printable, lines))


def release_facts(release: NoisyValue) -> list[tuple[str, str]]:
    """What was released, at which price, between which neighbours, of which columns, with which noise; term by term."""
    schema = release.schema
    size = (
        f"{schema.n} records" if schema.is_change_one else f"at most {schema.n_max} records (their number is private)"
    )
    part = "" if release.part is None else f", part {release.part[0]} to {release.part[1]} of the data set"
    return [
        ("Measured" if release.is_foreign else "Released", f"{release.statistic}, of {size}{part}."),
        ("Privacy" if release.is_foreign else "Price", release.price),
        ("Neighbours", f"{schema.neighbours}; {_neighbours(release)}"),
        ("Columns", f"{', '.join(f'{name} {column!r}' for name, column in schema.columns.items())}."),
        (CLAMPING, f"Values outside the bounds were {'clamped to them' if schema.outside == 'clamp' else 'refused'}."),
        *((LEFT_OUT, line) for line in _left_out(release)),
        ("Noise", release.noise_words),
    ]


def value_lines(release: NoisyValue) -> list[str]:
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
    lines += [f"  ... and {len(rows) - MOST_LINES} more."] if len(rows) > MOST_LINES else []
    return lines + _means_of_present(release)


def group_lines(release: NoisyValue) -> list[str]:
    """A table by group; beside counts also each group's mean, with the standard deviation that noise gives it."""
    groups, estimate, spread = (
        release.statistic.groups(release.schema),
        release.estimate.tolist(),
        additive_law(release.law).sd,
    )
    size = len(release.value) // len(groups)
    names = [printable(label.removeprefix(f"{groups[0]}: ")) for label in release.labels[:size]]
    averages: dict[str, list[Average]] = {}
    for one in release.statistic.averages(release.schema):
        averages.setdefault(one.group, []).append(one)
    heads = [
        f"mean({printable(one.feature)}){f',{unit}' if unit else ''}"
        for one in averages.get(groups[0], [])
        for unit in [feature_unit(one.feature, release.schema)]
    ]
    rows = [["", *names, *heads]]
    small = []
    for g, group in enumerate(groups[:MOST_LINES]):
        own, sds = estimate[g * size : (g + 1) * size], spread[g * size : (g + 1) * size]
        row = [printable(group), *(with_spread(value, sd) for value, sd in zip(own, sds, strict=True))]
        means = [_ratio(estimate, spread, one) for one in averages.get(group, [])]
        row += [FEW if mean is None else with_spread(*mean) for mean in means]
        if None in means:
            small.append(printable(group))
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


def _left_out(release: NoisyValue) -> list[str]:
    """What happened to missing values, where they were left out."""
    if not left_out_of(release.statistic.columns(), release.schema):
        return []
    return [
        "Missing values were left out: a feature adds nothing where one of its columns is missing. How many are "
        "present is private; counts of them have noise, too."
    ]


def _ratio(values: Sequence[float], sds: Sequence[float], average: Average) -> tuple[float, float] | None:
    """A sum over a count, and the standard deviation that noise gives it; nothing where the count is mostly noise."""
    count = float(values[average.count])
    if count < FEWEST_SDS * sds[average.count]:
        return None
    mean = float(values[average.total]) / count
    return mean, math.hypot(sds[average.total], mean * sds[average.count]) / count


def _means_of_present(release: NoisyValue) -> list[str]:
    """The mean of those present, for each sum whose count was released."""
    units, lines = component_units(release.statistic, release.schema), list[str]()
    for average in release.statistic.averages(release.schema)[:MOST_LINES]:
        found = _ratio(list(release.estimate), additive_law(release.law).sd, average)
        told = FEW if found is None else f"{found[0]:.6g}{units[average.total]}  (noise sd {found[1]:.4g})"
        lines.append(f"  mean({printable(average.feature)}) of those present: {told}")
    return lines


def with_spread(value: float, sd: float) -> str:
    """A number and its standard deviation, without powers of ten where people do not write them."""
    return f"{plain_number(value, 6)} ± {plain_number(sd, 3)}"


def plain_number(value: float, digits: int) -> str:
    """A number in so many digits, all of them before the point where it is larger: 1414, not 1.41e+03."""
    return f"{value:.0f}" if 10.0**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"


def noise_sds(release: NoisyValue) -> Floats:
    """The standard deviation of the noise on each published number; NaN where its scale is secret or has none."""
    if release.law.form is not Form.NUMBER:
        return np.full(len(release.value), math.nan)
    return np.asarray(additive_law(release.law).sd, float) / release.divisor


def _spreads(release: NoisyValue) -> Sequence[str]:
    law = release.law
    if law.form is not Form.NUMBER:
        return [""] * len(release.value)
    return [f"  (noise sd {sd / release.divisor:.4g})" for sd in additive_law(law).sd]


def _neighbours(release: NoisyValue) -> str:
    if release.schema.is_change_one:
        return "the guarantee compares data sets in which one record was replaced; n is public."
    return "the guarantee compares data sets with one record more or less."
