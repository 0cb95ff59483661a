"""What can be asked in people's terms of whatever was learnt: the protocol between models and answers.

    model.answer_sources(theta, releases)     sources: a column's law (in a group), a coefficient, a table
    source.answers(asked)                     its numbers at every draw (`Drawn`), which `answers` turns into intervals
    source.drawn("mean")                      one of them by name, for contrasts and ranks
    source.headlines()                        what the sentence that opens a summary says of it
A model without sources is refused by the name of the member. Nothing here simulates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from noisewise.statistics.feature import Feature
from noisewise.types import Floats

__all__ = ["AnswerSource", "Asked", "Drawn", "Headline"]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """One number of the population at every draw, with what it is called and the unit it is told in."""

    quantity: str
    values: Floats  # (K,)
    unit: str = ""
    column: str = ""
    group: str = ""
    note: str = ""
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked beyond mean, sd and median: quantiles, thresholds, and conditions on records."""

    quantiles: tuple[float, ...] = ()
    above: tuple[float, ...] = ()
    conditions: tuple[Feature, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Headline:
    """What a source is first asked for, and the words around its number: `subject` is `number` `ending`."""

    subject: str
    drawn: Drawn
    verb: str = "is"
    ending: str = ""
    is_signed: bool = False


class AnswerSource(Protocol):
    """One column (in one group), coefficient or table that can be asked for numbers in people's terms."""

    @property
    def column(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def quantities(self) -> tuple[str, ...]:
        """The names that `drawn` knows without further numbers."""
        ...

    def answers(self, asked: Asked) -> Iterable[Drawn]:
        """Every number of it, one for each draw."""
        ...

    def drawn(self, quantity: str) -> Drawn:
        """One number by its name, as contrasts and ranks ask for it."""
        ...

    def headlines(self) -> Sequence[Headline]:
        """What a sentence says of it; none where there is nothing to say."""
        ...
