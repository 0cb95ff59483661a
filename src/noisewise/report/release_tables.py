"""What was released, as facts and tables of a page, release by release, and a sentence that states the guarantee."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisewise.html import Section, Table
from noisewise.inference.told import number_words
from noisewise.release import NoisyValue
from noisewise.report.published import group_means
from noisewise.report.words import SIMULATED, noise_sds, plain_number, release_facts, with_spread
from noisewise.statistics.units import component_units

__all__ = ["guarantee_sentence", "release_sections", "release_table"]

MOST_ROWS, MOST_RELEASES = 60, 12


def release_sections(releases: Sequence[NoisyValue]) -> list[Section]:
    """All that left the holder, release by release, and how to state the guarantee."""
    text = "All that left the holder. Each file carries its own noise law, from which the likelihood was built."
    first = Section("What was released, and at which price", text)
    parts = []
    for number, release in enumerate(releases[:MOST_RELEASES], start=1):
        facts = [("Simulated", f"SIMULATED: {SIMULATED}")] if release.simulated else []
        facts += [*release_facts(release), ("Records" if release.is_foreign else "Data set", _records(release))]
        facts.append(("File", release.hash))
        which = f"Release {number}" if len(releases) > 1 else ""
        parts.append(Section("", which, facts=facts, tables=[release_table(release)]))
    if len(releases) > MOST_RELEASES:
        parts.append(Section("", f"... and {len(releases) - MOST_RELEASES} more releases."))
    return [first, *parts, Section("How to state the guarantee", guarantee_sentence(releases))]


def _records(release: NoisyValue) -> str:
    return f"{release.origin}." if release.is_foreign else release.dataset


def release_table(release: NoisyValue) -> Table:
    """The published numbers with the spread of their noise: a row for each, or for each group."""
    if release.statistic.groups(release.schema):
        return _group_table(release)
    if release.statistic.is_local:
        return Table(("published", "answers"), [("noisy answers of single records", str(len(release.value)))])
    units, sds = component_units(release.statistic, release.schema), noise_sds(release)
    rows = [
        (label, f"{plain_number(float(value), 6)}{unit}", _number(sd))
        for label, value, unit, sd in zip(release.labels, release.estimate, units, sds, strict=True)
    ]
    return Table(("number", "published", "sd of its noise"), rows[:MOST_ROWS], _left(len(rows), "numbers"))


def guarantee_sentence(releases: Sequence[NoisyValue]) -> str:
    """A sentence to cite: what the guarantee is of, between which neighbours, and that inference spends nothing."""
    promises = dict.fromkeys(
        f"{release.statistic} satisfies {release.price.removesuffix('.')} between data sets that differ "
        + ("in one record" if release.schema.is_change_one else "by one record more or less")
        for release in releases
        if not release.is_foreign
    )
    foreign = list(dict.fromkeys(f"{release.statistic}: {release.price}" for release in releases if release.is_foreign))
    simulated = any(release.simulated for release in releases)
    warning = " (Simulated releases: no real records stand behind them.)" if simulated else ""
    told = [f"The published value of {'; that of '.join(promises)}."] if promises else []
    return (
        f"{' '.join([*told, *foreign])} The estimates on this page are computed from published "
        "values and public assumptions alone: such post-processing keeps the guarantee and costs nothing more."
        + warning
    )


def _group_table(release: NoisyValue) -> Table:
    groups = release.statistic.groups(release.schema)
    size = len(release.value) // len(groups)
    names = [label.removeprefix(f"{groups[0]}: ") for label in release.labels[:size]]
    table = np.asarray(release.estimate, float).reshape(len(groups), size)
    sds = noise_sds(release).reshape(table.shape)
    means = group_means(release)
    rows = []
    for k, group in enumerate(groups[:MOST_ROWS]):
        cells = [with_spread(value, sd) for value, sd in zip(table[k], sds[k], strict=True)]
        ratios = [list(found.values())[k] for found in means.values()]
        rows.append((group, *cells, *("too few to say" if one is None else number_words(*one, None) for one in ratios)))
    header = ("group", *names, *(f"sum over count of {feature}" for feature in means))
    caption = f"± is one standard deviation of the noise alone. {_left(len(groups), 'groups')}".strip()
    return Table(header, rows, caption)


def _number(sd: float) -> str:
    return plain_number(sd, 4) if np.isfinite(sd) else "-"


def _left(count: int, what: str) -> str:
    return f"The first {MOST_ROWS} of {count} {what}." if count > MOST_ROWS else ""
