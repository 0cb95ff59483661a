"""What releases say by themselves, for pictures and tables: numbers on a column's axis, bars, and means by group.

The reach of noise is where it lies with the level stated, as for normal noise of its standard deviation: of a sum over
a count, S/N, by the usual rule sd^2 = (sd_S^2 + (S/N)^2 sd_N^2) / N^2. It holds the noise alone: who was sampled, and
that a ratio of noisy numbers is biased, is what inference adds. A group whose noisy count is below four times its noise
has no such mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import cast

import numpy as np

from noisewise.release import NoisyValue
from noisewise.report.densities import Bars, Mark
from noisewise.report.words import FEWEST_SDS, noise_sds
from noisewise.statistics.groups import short_group_names
from noisewise.types import Floats

__all__ = ["Published", "group_means", "group_names", "published_bars", "published_marks"]

Published = tuple[float, float, float]  # value, low, high
ONE_VALUE = ("median", "maximum", "minimum", "quantile")


def published_marks(releases: Sequence[NoisyValue], column: str, *, group: str = "", level: float = 0.9) -> list[Mark]:
    """The published numbers that lie on the axis of a column: its means, medians, extremes; of one group its mean."""
    marks = []
    for release in releases:
        plain = release.statistic.to_dict()
        if plain["kind"] == "mean" and not group:
            reach = reach_of(level) * noise_sds(release)
            for text, label, value, half in zip(
                map(str, cast("list[str]", plain["features"])), release.labels, release.estimate, reach, strict=True
            ):
                if text == column or re.fullmatch(rf"clip\({re.escape(column)}, [^()]*\)", text):
                    marks.append(Mark(label, float(value), float(value - half), float(value + half)))
        elif plain["kind"] in ONE_VALUE and plain.get("feature") == column and not group:
            value = float(release.estimate[0])
            marks.append(Mark(release.labels[0], value, value, value))
        elif group:
            found = group_means(release, level).get(column, {}).get(group)
            marks += [] if found is None else [Mark(f"mean({column})", *found)]
    return marks


def published_bars(releases: Sequence[NoisyValue], column: str, level: float = 0.9) -> Bars | None:
    """The first published histogram of a column: shares for each unit, or of each level; None where there is none."""
    for release in releases:
        plain = release.statistic.to_dict()
        is_histogram = plain["kind"] == "histogram" and plain.get("column") == column
        is_counts = plain["kind"] == "count-by" and plain.get("by") == [column] and not plain.get("features")
        if not (is_histogram or is_counts) or not np.isfinite(noise_sds(release)).all():
            continue
        counts, reach = np.asarray(release.estimate, float), reach_of(level) * noise_sds(release)
        total = float(release.schema.n or max(float(counts.sum()), 1.0))
        edges: Floats = np.arange(len(counts) + 1, dtype=np.float64) - 0.5
        if plain.get("edges") is not None:
            edges = _whole_edges(release, column, np.asarray(plain["edges"], float))
        if len(edges) == len(counts) + 1 and np.isfinite(edges).all():
            size = total * np.diff(edges)
            return Bars(edges, counts / size, (counts - reach) / size, (counts + reach) / size)
    return None


def group_means(release: NoisyValue, level: float = 0.9) -> Mapping[str, Mapping[str, Published | None]]:
    """By feature and group the published sum over the published count with its reach; None where the count is small."""
    names = dict(zip(release.statistic.groups(release.schema), group_names(release), strict=True))
    value, sds = np.asarray(release.estimate, float), noise_sds(release)
    found: dict[str, dict[str, Published | None]] = {}
    for one in release.statistic.averages(release.schema) if names else ():
        means = found.setdefault(str(one.feature), {})
        count = float(value[one.count])
        if not count >= FEWEST_SDS * sds[one.count]:
            means[names[one.group]] = None
            continue
        mean = float(value[one.total]) / count
        half = reach_of(level) * math.hypot(sds[one.total], mean * sds[one.count]) / count
        means[names[one.group]] = mean, mean - half, mean + half
    return found


def group_names(release: NoisyValue) -> list[str]:
    """The groups by their levels alone: north, or north, f; none where a release has no groups."""
    by = release.statistic.by_group()[0]
    return list(short_group_names(by, release.schema)) if by else []


def reach_of(level: float) -> float:
    """How many standard deviations normal noise stays within, with a probability."""
    return NormalDist().inv_cdf((1 + level) / 2)


def _whole_edges(release: NoisyValue, column: str, edges: Floats) -> Floats:
    """The edges inside the column's bounds, with those at their ends: the outer cells reach to them."""
    bounds = release.schema.bounded(column)
    inner = edges[(edges > bounds.low) & (edges < bounds.high)]
    return np.concatenate([[bounds.low], inner, [bounds.high]])
