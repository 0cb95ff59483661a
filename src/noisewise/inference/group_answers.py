"""Answers by group: one source for each group's law of the column, and one for the shares of the groups.

    group_sources(column, {group: (law, rows of its parameters)}, releases, by="region", shares=(K, groups))
A model with groups offers these as its `answer_sources`; contrasts, ranks and the opening sentence then go by group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noisewise.inference.answer_sources import AnswerSource, Drawn
from noisewise.inference.number_draws import NumberDraws
from noisewise.inference.population_answers import law_source
from noisewise.inference.units import column_units
from noisewise.populations.population import AnyPopulation
from noisewise.release import Release
from noisewise.types import Floats, Theta

__all__ = ["group_sources", "group_units"]


def group_sources(
    column: str,
    laws: Mapping[str, tuple[AnyPopulation, Theta]],
    releases: Sequence[Release],
    *,
    by: str = "",
    shares: Floats | None = None,
) -> tuple[AnswerSource, ...]:
    """The law of every group, and how large a share of the records each group is where that is unknown."""
    units = column_units(releases)
    sources: list[AnswerSource] = [
        law_source(population, column, theta, releases, units, group=group)
        for group, (population, theta) in laws.items()
    ]
    if shares is not None:
        rows = np.asarray(shares).reshape(-1, len(laws))
        told = [Drawn(f"share of {group}", rows[:, k], "", by, is_share=True) for k, group in enumerate(laws)]
        sources.append(NumberDraws(by, tuple(told)))
    return tuple(sources)


def group_units(
    column: str, population: AnyPopulation, groups: Sequence[str], releases: Sequence[Release]
) -> dict[str, str]:
    """The unit of each group's parameters that are told in that of the column, by label: mean[north]."""
    unit = column_units(releases).of(column)
    names = [name for name in population.marginal(column).distribution.in_unit if name in population.free]
    return {f"{name}[{group}]": unit for name in names for group in groups} if unit else {}
