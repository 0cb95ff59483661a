"""Public facts about records, declared before anyone looks at them.

A `Schema` names the columns with their bounds or levels, how many records there are, which data sets count
as neighbours, and what happens to values outside the bounds or missing. Bounds are declared, never read
from data: a bound taken from the records is itself a release, and not a private one. The whole schema
travels in every release, because every sensitivity and every likelihood depends on it.

    neighbours = "change-one"   n is public and fixed; one record is replaced by another
    neighbours = "add-remove"   n is private (`n_max` is declared); one record appears or disappears

A missing value is refused, filled in with a public value, or left out: with `missing="leave-out"` a feature adds
nothing where one of its columns is missing. Then whether a value is present is a fact about the record like any other,
and `completed()` has a column for it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction, integer
from noisewise.html import MOST_SHOWN, Section, pieces
from noisewise.printable import did_you_mean, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]

Level = str | int
LARGEST_N = 2**40
LARGEST_BOUND = 1e30
LARGEST_LEVELS = 100_000
LONGEST_LEVEL = 200  # characters
LONGEST_UNIT = 40
LONGEST_NAME = 200
LEAVE_OUT = "leave-out"


@dataclass(frozen=True, slots=True, init=False)
class Bounded:
    """A numeric column with public bounds `low <= x <= high`, and the unit it is told in.

    Bounds are declared, never read from records: noise is scaled to them.

    Parameters
    ----------
    low, high
        The ends, in the column's own unit; low < high, both finite.
    unit
        A caption of at most 40 printable characters, such as "thousand EUR"; default None. It is shown, and it travels
        in release files (format 2), but it is no part of the column's equality, of a request or of a price.

    Examples
    --------
    >>> nw.Bounded(0, 250, unit="thousand EUR")
    Bounded(0, 250, unit='thousand EUR')
    """

    low: float
    high: float
    unit: str | None = field(compare=False)

    def __init__(self, low: object, high: object, *, unit: str | None = None) -> None:
        object.__setattr__(self, "low", _bound(low, "low"))
        object.__setattr__(self, "high", _bound(high, "high"))
        object.__setattr__(self, "unit", _unit(unit))
        if not self.low < self.high:
            raise InvalidArgument(
                f"Bounded(low={self.low!r}, high={self.high!r}): low must be less than high.", argument="low"
            )

    @property
    def lowest(self) -> float:
        """The value that stands in the place of an absent one."""
        return self.low

    def is_absent(self, values: Numbers) -> Flags:
        """Where numbers are absent: NaN is."""
        absent: Flags = values != values
        return absent

    def has_level(self, level: object) -> bool:
        return False

    def to_dict(self) -> dict[str, object]:
        """The plain form, without the unit."""
        return {"bounds": [_plain(self.low), _plain(self.high)]}

    def __repr__(self) -> str:
        unit = "" if self.unit is None else f", unit={self.unit!r}"
        return f"Bounded({_plain(self.low)}, {_plain(self.high)}{unit})"


@dataclass(frozen=True, slots=True, init=False)
class Levels:
    """A categorical column with a public list of levels; inside the program a level is its index.

    Parameters
    ----------
    levels
        Two or more different texts or whole numbers, at most 100 000.

    Examples
    --------
    >>> nw.Levels(["north", "south"]).index("south")
    1
    """

    levels: tuple[Level, ...]
    unit: ClassVar[None] = None  # levels are told by their names
    _places: dict[str, int] = field(repr=False, compare=False)

    def __init__(self, levels: Sequence[Level]) -> None:
        if isinstance(levels, str) or not isinstance(levels, Sequence):
            raise InvalidArgument("levels must be a list such as ['north', 'south'].", argument="levels")
        if len(levels) > LARGEST_LEVELS:
            raise InvalidArgument(
                f"levels lists {len(levels)} values, more than {LARGEST_LEVELS}; group them into coarser ones.",
                argument="levels",
            )
        places = {str(checked_level(level, "levels")): k for k, level in enumerate(levels)}
        if len(levels) < 2 or len(places) != len(levels):
            raise InvalidArgument("levels must list at least two different values.", argument="levels")
        object.__setattr__(self, "levels", tuple(levels))
        object.__setattr__(self, "_places", places)

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def lowest(self) -> float:
        """The code that stands in the place of an absent one."""
        return 0.0

    def is_absent(self, values: Numbers) -> Flags:
        """Where codes are absent: those below 0 are, and NaN."""
        absent: Flags = (values != values) | (values < 0)
        return absent

    def has_level(self, level: object) -> bool:
        return level in self.levels

    def index(self, level: object) -> int:
        """The position of a level, by value or by its text."""
        known: object = level
        if not isinstance(level, bool | str) and isinstance(level, Integral):  # NumPy's whole numbers, too
            known = operator.index(level)
        place = self._places.get(str(checked_level(known, "level")))
        if place is None:
            raise InvalidArgument(
                f"{shown(level)} is not one of the levels {shown(list(self.levels[:20]), 200)}.", argument="level"
            )
        return place

    def to_dict(self) -> dict[str, object]:
        return {"levels": list(self.levels)}

    def __repr__(self) -> str:
        return f"Levels({list(self.levels)!r})"


def checked_level(level: object, argument: str) -> Level:
    """A level as a text or a whole number of bounded length; its digits are counted without writing them out."""
    if isinstance(level, bool) or not isinstance(level, str | int):
        way = "; write 1 for True and 0 for False: a column of truth values is read as 1 and 0"
        raise InvalidArgument(
            f"{argument} = {shown(level)} cannot be used: a level is a text or a whole number"
            f"{way if level is True or level is False else ''}.",
            argument=argument,
        )
    if len(level) > LONGEST_LEVEL if isinstance(level, str) else abs(level) >= 10 ** (LONGEST_LEVEL - 1):
        raise InvalidArgument(
            f"{argument}: a level may have at most {LONGEST_LEVEL} characters, and one is longer.", argument=argument
        )
    return level


Column = Bounded | Levels


@dataclass(frozen=True, slots=True, init=False)
class Schema:
    """What everyone may know about a table: columns, size, neighbours, and the clamp and missing policies.

    Parameters
    ----------
    columns
        Each column by its name: `Bounded` or `Levels`.
    neighbours
        "change-one": one record is replaced by another, n is public. "add-remove": one record appears or disappears,
        n is private. There is no default.
    n
        The number of records, under change-one only.
    n_max
        The largest number of records there could be, under add-remove only.
    outside
        What becomes of a number beyond its bounds: "clamp" (default) moves it to the nearer one, "refuse" stops.
    missing
        What becomes of a missing value: "refuse" (default), "leave-out", or a mapping from columns to the public value
        that takes its place (or "leave-out").

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=1000, neighbours="change-one", missing={"age": 40})
    >>> schema.is_change_one, schema.largest_n
    (True, 1000)
    """

    columns: Mapping[str, Column]
    n: int | None
    n_max: int | None
    neighbours: str
    outside: str
    missing: str | Mapping[str, float | Level]

    def __init__(
        self,
        columns: Mapping[str, Column],
        *,
        neighbours: str | None = None,
        n: int | None = None,
        n_max: int | None = None,
        outside: str = "clamp",
        missing: str | Mapping[str, float | Level] = "refuse",
    ) -> None:
        assign = object.__setattr__
        assign(self, "columns", _columns(columns))
        if neighbours is None:  # required, like epsilon and bounds; asked for in words instead of by a TypeError
            raise InvalidArgument(
                "Say which data sets are neighbours: neighbours='change-one' (n is public) or 'add-remove' "
                "(n is private). Every sensitivity depends on it.",
                argument="neighbours",
            )
        assign(self, "neighbours", _one_of(neighbours, ("change-one", "add-remove"), "neighbours"))
        assign(self, "outside", _one_of(outside, ("clamp", "refuse"), "outside"))
        assign(self, "missing", _missing(missing, self.columns))
        if self.neighbours == "change-one":
            if n is None or n_max is not None:
                raise InvalidArgument(
                    "neighbours='change-one' means that the number of records is public: give n=..., not n_max.",
                    argument="n",
                )
            assign(self, "n", integer(n, "n", minimum=1, maximum=LARGEST_N))
            assign(self, "n_max", None)
        else:
            if n_max is None or n is not None:
                raise InvalidArgument(
                    "neighbours='add-remove' keeps the number of records private: give n_max=..., not n.",
                    argument="n_max",
                )
            assign(self, "n", None)
            assign(self, "n_max", integer(n_max, "n_max", minimum=1, maximum=LARGEST_N))

    @property
    def largest_n(self) -> int:
        """n under change-one, n_max under add-remove: what overflow and steps are planned for."""
        size = self.n if self.n is not None else self.n_max
        assert size is not None
        return size

    @property
    def is_change_one(self) -> bool:
        """Whether one record is replaced by another, and n is public."""
        return self.neighbours == "change-one"

    def bounded(self, name: str) -> Bounded:
        """The bounds of a numeric column, or an error that says what the column is."""
        column = self.column(name)
        if not isinstance(column, Bounded):
            raise Unsupported(f"Column {name!r} has levels, not bounds; use column({name!r}).equals(level).")
        return column

    def levels(self, name: str) -> Levels:
        """The levels of a categorical column, or an error that says what the column is."""
        column = self.column(name)
        if not isinstance(column, Levels):
            raise Unsupported(f"Column {name!r} is numeric with bounds; it has no levels.")
        return column

    def column(self, name: str) -> Column:
        """What was declared of a column, or an error that lists the columns."""
        if name not in self.columns:
            raise InvalidArgument(
                f"There is no column {name!r} in the schema{did_you_mean(name, self.columns)}; it has "
                f"{', '.join(self.columns)}.",
                argument="column",
            )
        return self.columns[name]

    def part_size(self, part: tuple[Fraction, Fraction] | None) -> Schema:
        """The schema of one part: n records by position under change-one; n_max stays under add-remove."""
        if part is None or not self.is_change_one:
            return self
        start, stop = part
        size = math.floor(stop * self.largest_n) - math.floor(start * self.largest_n)
        if size < 1:
            raise InvalidArgument(f"part = ({start}, {stop}) of n = {self.n} holds no record.", argument="part")
        return replace_n(self, size)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns in which a value may be missing, and then leaves its record out of what is made of the column."""
        if self.missing == LEAVE_OUT:
            return tuple(self.columns)
        return tuple(name for name, value in self._said.items() if _is_left_out(value, self.columns[name]))

    @property
    def fills(self) -> dict[str, float | Level]:
        """What a missing value becomes, in the columns where it is filled in."""
        left_out = self.left_out
        return {name: value for name, value in self._said.items() if name not in left_out}

    @property
    def _said(self) -> Mapping[str, float | Level]:
        """What is said about the missing values of single columns."""
        return {} if isinstance(self.missing, str) else self.missing

    def completed(self) -> Schema:
        """These columns with nothing missing, and for each that may be left out one more: is it present (0 or 1)?"""
        if not self.left_out:
            return self
        present = {presence_name(name): PRESENCE for name in self.left_out}
        return Schema(
            {**self.columns, **present}, n=self.n, n_max=self.n_max, neighbours=self.neighbours, outside=self.outside
        )

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns with bounds, by name; the others have levels."""
        return tuple(name for name, column in self.columns.items() if "bounds" in column.to_dict())

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns that have one."""
        return {name: column.unit for name, column in self.columns.items() if column.unit is not None}

    def captioned(self) -> dict[str, object]:
        """The plain form with the units of the columns; where there are none, the plain form itself."""
        units = self.units
        columns = {
            name: {**column.to_dict(), **({"unit": units[name]} if name in units else {})}
            for name, column in self.columns.items()
        }
        return {**self.to_dict(), "columns": columns}

    def to_dict(self) -> dict[str, object]:
        """The plain form that requests are made of: without units, which change nothing that is released."""
        size = {"n": self.n} if self.is_change_one else {"n_max": self.n_max}
        missing = self.missing if isinstance(self.missing, str) else dict(self.missing)
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        return {**size, "neighbours": self.neighbours, "outside": self.outside, "missing": missing, "columns": columns}

    def __reduce__(self) -> tuple[object, ...]:
        return (schema_from_dict, (self.captioned(),))

    def _repr_html_(self) -> str:
        plain = self.to_dict()
        size = f"n = {self.n}, public" if self.is_change_one else f"at most {self.n_max} records, their number private"
        policy = f"Values outside the bounds: {self.outside}. Missing values: {plain['missing']}."
        rows = [(name, f"{shown(column, 300)}") for name, column in self.columns.items()][:MOST_SHOWN]
        more = f" {len(self.columns) - len(rows)} more columns." if len(self.columns) > len(rows) else ""
        text = f"Neighbours: {self.neighbours}. {policy}{more}"
        return pieces(Section(f"Schema: {size}", text=text, header=("column", "declared"), rows=rows))

    def __hash__(self) -> int:
        return hash((tuple(self.columns.items()), self.n, self.n_max, self.neighbours, self.outside))


def presence_name(column: str) -> str:
    """The column of a completed schema that says whether the value of another is present."""
    return f"present({column})"


def checked_schema(schema: object) -> Schema:
    """The schema as it is, or a refusal by name."""
    if not isinstance(schema, Schema):
        raise InvalidArgument(f"schema = {shown(schema)}; make one with Schema(...).", argument="schema")
    return schema


def replace_n(schema: Schema, n: int) -> Schema:
    """The same public facts about n records (change-one)."""
    return Schema(schema.columns, n=n, neighbours=schema.neighbours, outside=schema.outside, missing=schema.missing)


def schema_from_dict(data: Mapping[str, object]) -> Schema:
    """Read a schema from its plain form, as in a release or a spec file; unknown keys are refused."""
    known = ("n", "n_max", "neighbours", "outside", "missing", "columns")
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise InvalidArgument(
            f"Unknown entry {unknown[0]!r} in the schema{did_you_mean(unknown[0], known)}; there are "
            f"{', '.join(known)}.",
            argument="schema",
        )
    columns = data.get("columns")
    if not isinstance(columns, Mapping):
        raise InvalidArgument("The schema needs columns = {name = {bounds = [lo, hi]}}.", argument="columns")
    arguments = {key: value for key, value in data.items() if key != "columns"}
    if "neighbours" not in arguments:
        raise InvalidArgument("The schema needs neighbours = 'change-one' or 'add-remove'.", argument="neighbours")
    return Schema({name: _column_from_dict(name, entry) for name, entry in columns.items()}, **arguments)  # type: ignore[arg-type]


def _column_from_dict(name: str, entry: object) -> Column:
    hint = ""
    match entry:
        case {"bounds": [low, high], **rest} if rest.keys() <= {"unit"}:
            return Bounded(low, high, unit=_unit(rest.get("unit")))
        case {"levels": [*levels], **rest} if not rest:
            return Levels(levels)
        case {**keys}:
            known = ("bounds", "levels", "unit")
            hint = "".join(did_you_mean(key, known) for key in keys if key not in known)[:80]
    raise InvalidArgument(
        f'Column {name!r} needs {{ bounds = [lo, hi] }}, with unit = "..." if you like, or {{ levels = [...] }}, not '
        f"{shown(entry)}{hint}.",
        argument="columns",
    )


def _unit(unit: object) -> str | None:
    if unit is None:
        return None
    if not isinstance(unit, str) or not unit.strip() or len(unit) > LONGEST_UNIT or not unit.isprintable():
        raise InvalidArgument(
            f"unit = {shown(unit)} cannot be used: expected a text of at most {LONGEST_UNIT} printable characters, "
            "such as 'thousand EUR'.",
            argument="unit",
        )
    return unit


def _bound(value: object, argument: str) -> float:
    exact = fraction(value, argument)
    if abs(exact) > LARGEST_BOUND:
        raise InvalidArgument(f"{argument} = {shown(value)} is beyond 1e30; scale the column first.", argument=argument)
    return float(exact) + 0.0  # no negative zero


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def _columns(columns: object) -> Mapping[str, Column]:
    if not isinstance(columns, Mapping) or not columns:
        raise InvalidArgument("columns must be a mapping such as {'income': Bounded(0, 250)}.", argument="columns")
    for name, column in columns.items():
        if not isinstance(name, str) or not name or len(name) > LONGEST_NAME:
            raise InvalidArgument(f"A column name must be a text, not {shown(name)}.", argument="columns")
        if not isinstance(column, Bounded | Levels):
            raise InvalidArgument(
                f"Column {name!r} must be Bounded(lo, hi) or Levels([...]), not {shown(column)}.", argument="columns"
            )
    return MappingProxyType(dict(columns))


def _one_of(value: object, choices: tuple[str, ...], argument: str) -> str:
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(
            f"{argument} = {shown(value)}{did_you_mean(value, choices)}; choose {' or '.join(map(repr, choices))}.",
            argument=argument,
        )
    return value


def _missing(missing: object, columns: Mapping[str, Column]) -> str | Mapping[str, float | Level]:
    if isinstance(missing, str):
        policy = _one_of(missing, ("refuse", LEAVE_OUT), "missing")
        if policy == LEAVE_OUT:
            _check_presence_names(columns, columns)
        return policy
    if not isinstance(missing, Mapping):
        raise InvalidArgument(
            f"missing must be 'refuse', {LEAVE_OUT!r} or a mapping {{column: value}}.", argument="missing"
        )
    filled: dict[str, float | Level] = {}
    for name, value in missing.items():
        column = columns.get(name)
        if column is not None and _is_left_out(value, column):
            _check_presence_names([name], columns)
            filled[name] = LEAVE_OUT
        elif isinstance(column, Bounded):
            number = _plain(float(fraction(value, f"missing[{name!r}]")))
            if not column.low <= number <= column.high:
                raise InvalidArgument(f"missing[{name!r}] = {value!r} lies outside the bounds.", argument="missing")
            filled[name] = number
        elif isinstance(column, Levels):
            filled[name] = column.levels[column.index(value)]
        else:
            raise InvalidArgument(f"missing names {shown(name)}, which is not a column.", argument="missing")
    return MappingProxyType(filled)


def _is_left_out(value: object, column: Column) -> bool:
    """True for the word itself, unless a column has a level of that name to be filled in with."""
    return value == LEAVE_OUT and not column.has_level(LEAVE_OUT)


def _check_presence_names(names: Iterable[str], columns: Mapping[str, Column]) -> None:
    for name in names:
        if presence_name(name) in columns or len(presence_name(name)) > LONGEST_NAME:
            raise InvalidArgument(
                f"missing={LEAVE_OUT!r} needs the name {presence_name(name)[:60]!r} for whether a value is present, "
                f"at most {LONGEST_NAME} characters and no column's name: call the column by another one.",
                argument="missing",
            )


PRESENCE = Levels([0, 1])
