"""A source of answers that are numbers by themselves: a coefficient, the cells of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from noisewise.errors import InvalidArgument
from noisewise.inference.answer_sources import Asked, Drawn, Headline
from noisewise.printable import did_you_mean, shown
from noisewise.types import Floats

__all__ = ["NumberDraws"]


@dataclass(frozen=True, slots=True, eq=False)
class NumberDraws:
    """Numbers of one column (or of several, named together), each at every draw."""

    column: str
    numbers: tuple[Drawn, ...]
    told: tuple[Headline, ...] = ()
    group: str = ""

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(number.quantity for number in self.numbers)

    def answers(self, asked: Asked) -> Iterable[Drawn]:
        """All of them; what else is asked of laws is not for them."""
        return self.numbers

    def drawn(self, quantity: str) -> Drawn:
        """One of them by its name."""
        found = next((number for number in self.numbers if number.quantity == quantity), None)
        if found is None:
            raise InvalidArgument(
                f"There is no quantity {shown(quantity)}{did_you_mean(quantity, self.quantities)} of {self.column}; "
                f"there are {', '.join(self.quantities[:12])}.",
                argument="quantity",
            )
        return found

    def share_of(self, level: object) -> Floats:
        """The share of records with a level, or in a cell such as 'primary, yes'."""
        return self.drawn(f"share of {level}").values

    def headlines(self) -> Sequence[Headline]:
        return self.told
