"""Answers about groups: the law of the column in each, at every draw, and the share of records that each group has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noisewise.grouped.present import PRESENT
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
    shares = None if model.is_by_holder else np.asarray(theta["share"], float)
    parts = [None if shares is None else shares[..., k].ravel() for k in range(len(model.groups))]
    laws = model.laws_by_group(theta)
    sources: list[AnswerSource] = [
        law_source(law, model.column, own, releases, units, group=group, part=part)
        for (group, (law, own)), part in zip(laws.items(), parts, strict=True)
    ]
    if shares is not None:
        by = ", ".join(model.by)
        told = [
            Drawn(f"share of {group}", part, column=by, is_share=True)
            for group, part in zip(model.groups, parts, strict=True)
            if part is not None
        ]
        if PRESENT in theta:
            told.append(Drawn("share present", np.ravel(theta[PRESENT]), column=by, is_share=True))
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
