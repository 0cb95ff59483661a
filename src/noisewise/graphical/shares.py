"""What a graphical model answers in people's terms: the share of every level, and of every cell of its cliques.

The probabilities are those kept at every draw; a clique whose table was left out for its size, or has more cells than a
reader wants, is asked for by `GraphicalModel.marginal`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisewise.inference.answer_sources import AnswerSource, Drawn, Headline
from noisewise.inference.number_draws import NumberDraws
from noisewise.types import Theta

__all__ = ["share_sources"]

MOST_CELLS = 100
OF = "share of "


def share_sources(
    theta: Theta, tables: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]]
) -> tuple[AnswerSource, ...]:
    """A source for each table: the name of its draws, its columns, and the levels of its cells."""
    sources = []
    for name, columns, cells in tables:
        if name in theta and len(cells) <= MOST_CELLS:
            values = np.asarray(theta[name]).reshape(-1, len(cells))
            place = ", ".join(columns)
            numbers = tuple(Drawn(OF + cell, values[:, k], "", place, is_share=True) for k, cell in enumerate(cells))
            sources.append(NumberDraws(place, numbers, _headlines(place, numbers) if len(columns) == 1 else ()))
    return tuple(sources)


def _headlines(column: str, numbers: tuple[Drawn, ...]) -> tuple[Headline, ...]:
    """Of two levels the second one's share; of more the commonest."""
    if len(numbers) == 2:
        return (Headline(f"the share of {column} = {numbers[1].quantity.removeprefix(OF)}", numbers[1]),)
    largest = max(numbers, key=lambda one: float(np.mean(one.values)))
    return (Headline(f"the commonest {column}", largest, f"is {largest.quantity.removeprefix(OF)}, with"),)
