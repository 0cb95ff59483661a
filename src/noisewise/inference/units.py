"""The units in which answers and parameters are told: those of the columns, as the releases carry them.

A unit is a caption (`Bounded(unit=)`). Releases that tell one column in different units leave it without one, and the
answers say so: nobody can know which is meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noisewise.release import NoisyValue

__all__ = ["ColumnUnits", "column_units", "singular", "with_unit"]

# One of what is counted in these; other units are told as they are written.
ONE = {
    "years": "year",
    "months": "month",
    "weeks": "week",
    "days": "day",
    "hours": "hour",
    "minutes": "minute",
    "seconds": "second",
    "points": "point",
    "people": "person",
    "persons": "person",
    "visits": "visit",
    "metres": "metre",
    "meters": "meter",
    "kilometres": "kilometre",
    "kilometers": "kilometer",
    "euros": "euro",
    "dollars": "dollar",
    "children": "child",
    "rooms": "room",
}


@dataclass(frozen=True, slots=True)
class ColumnUnits:
    """The unit of each column that has one, and a sentence for each column whose releases disagree."""

    units: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def of(self, column: str) -> str:
        """The unit of a column, or nothing."""
        return self.units.get(column, "")


def column_units(releases: Sequence[NoisyValue]) -> ColumnUnits:
    """The units that releases carry."""
    found: dict[str, dict[str, None]] = {}
    for release in releases:
        for column, unit in release.schema.units.items():
            found.setdefault(column, {})[unit] = None
    notes = tuple(
        f"The releases tell {column} in different units ({', '.join(units)}), so it is shown without one."
        for column, units in found.items()
        if len(units) > 1
    )
    return ColumnUnits({column: next(iter(units)) for column, units in found.items() if len(units) == 1}, notes)


def singular(unit: str) -> str:
    """One of a unit: a year of years."""
    return ONE.get(unit, unit)


def with_unit(label: str, unit: str) -> str:
    """A label with its unit, as axes and tables show it: mean (thousand EUR)."""
    return f"{label} ({unit})" if unit else label
