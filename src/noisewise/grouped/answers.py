"""Answers about groups: the law of the column in each, at every draw, and the share of records that each group has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noisewise.inference.answer_sources import AnswerSource, Drawn
from noisewise.inference.number_draws import NumberDraws
from noisewise.inference.population_answers import law_source
from noisewise.inference.units import column_units
from noisewise.types import Theta

if TYPE_CHECKING:
    from noisewise.grouped.model import Grouped
    from noisewise.release import NoisyValue

__all__ = ["group_sources", "group_units"]


def group_sources(model: Grouped, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
    """One source for each group, and one for their shares where a column makes the groups."""
    units = column_units(releases)
    sources: list[AnswerSource] = []
    for group, (law, own) in model.laws_by_group(theta).items():
        sources.append(law_source(law, model.column, own, releases, units, group=group))
    if not model.is_by_holder:
        by = ", ".join(model.by)
        shares = np.asarray(theta["share"], float)
        told = [
            Drawn(f"share of {group}", shares[..., k].ravel(), column=by, is_share=True)
            for k, group in enumerate(model.groups)
        ]
        sources.append(NumberDraws(column=by, numbers=tuple(told)))
    return tuple(sources)


def group_units(model: Grouped, releases: Sequence[NoisyValue]) -> dict[str, str]:
    """The unit of each parameter that is told in that of the column, group by group, and of pooled centres."""
    unit = column_units(releases).of(model.column)
    if not unit:
        return {}
    in_unit = model.population.marginal(model.column).distribution.in_unit
    labels = [label for name, own in model.component_labels.items() if name in in_unit for label in own]
    return dict.fromkeys([*labels, *(f"{name}.centre" for name in model.pooled if name in in_unit)], unit)
