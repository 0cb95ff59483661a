"""The posterior of the confidential statistic itself: what the records said before noise was added.

    p(s | y) = integral p(s | theta, y) p(theta | y) d theta,
drawn by drawing theta from its posterior and s given theta and the release (`Likelihood.draw_statistic`). It uses what
the population says about possible values of s, so it is at least as sharp as the noise alone. Learning it costs no
privacy: it is post-processing of the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.inference.intervals import checked_level, equal_tailed
from noisewise.release import NoisyValue
from noisewise.types import Floats

__all__ = ["StatisticPosterior", "statistic_labels"]


@dataclass(frozen=True, slots=True, eq=False)
class StatisticPosterior:
    """Draws (M, d) of the confidential statistic, in the units people read."""

    labels: tuple[str, ...]
    draws: Floats

    @property
    def mean(self) -> Floats:
        return np.asarray(self.draws.mean(axis=0))

    @property
    def sd(self) -> Floats:
        return np.asarray(self.draws.std(axis=0, ddof=1))

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """The equal-tailed interval of every component: (low, high), each (d,)."""
        return equal_tailed(self.draws, checked_level(level))

    def __str__(self) -> str:
        low, high = self.interval(0.9)
        width = max(len(label) for label in self.labels)
        lines = [f"{'':<{width}}  {'mean':>11}  {'sd':>10}  {'5 %':>11}  {'95 %':>11}"]
        for label, *numbers in list(zip(self.labels, self.mean, self.sd, low, high, strict=True))[:20]:
            mean, sd, below, above = numbers
            lines.append(f"{label:<{width}}  {mean:>11.6g}  {sd:>10.4g}  {below:>11.6g}  {above:>11.6g}")
        if len(self.labels) > 20:
            lines.append(f"... and {len(self.labels) - 20} more components.")
        return "\n".join(lines)


def statistic_labels(groups: Sequence[Any], sizes: Sequence[int]) -> tuple[str, ...]:
    """Names of the components that each group of releases draws, told apart where they repeat."""
    labels: list[str] = []
    for group, size in zip(groups, sizes, strict=True):
        releases: tuple[NoisyValue, ...] = tuple(group.releases)
        every = [label for release in releases for label in release.labels]
        distinct = list(dict.fromkeys(every))
        named = every if len(every) == size else distinct
        if len(named) != size:
            stem = distinct[0] if len(distinct) == 1 else "component"
            named = [f"{stem} {k + 1}" for k in range(size)]
        labels += named
    seen: dict[str, int] = {}
    told_apart = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        told_apart.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return tuple(told_apart)
