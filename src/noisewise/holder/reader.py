"""Fields as they are written, and the numbers and levels they mean: `[data]` of a spec, `reader=` of `Table.read`.

Files differ in how they write a number, a date, a yes, or nothing at all. A `Reader` says how this one does; nothing
is guessed, and what does not read as declared counts as unparsable instead of being repaired.

    delimiter encoding header names         text files only: how the rows are cut
    decimal thousands                       "1.234,5" -> 1234.5, in groups of three and no other way
    missing                                 words or codes that mean nothing was given: ["NA"], or {"co": [-200]}
    dates                                   {"born": "%d.%m.%Y"} -> days since 1970-01-01
    yes no                                  words that mean 1 and 0
    recode                                  {"M": "m"}: how a level is written in this file

Each is a public map of one field, the same for every record, so the sensitivity of what is computed from the cleaned
records does not depend on it. Without options a field is read as DuckDB reads a double, except that an underscore is
no part of a number: `1_000` is refused, not taken for 1000.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from noisewise.errors import InvalidArgument
from noisewise.printable import did_you_mean, printable, shown
from noisewise.schema import Bounded, Levels, Schema

MOST_WORDS = 1000
ENCODINGS = re.compile(
    r"utf-8(-sig)?|utf-(16|32)(-[bl]e)?|ascii|iso8859-\d+|cp\d+|mac-\w+|koi8-\w|shift_jis\w*|euc_\w+|gb\w+|big5\w*|tis-620"
)
FOR_TEXT_FILES = ("delimiter", "encoding", "header", "names")
EVERY_COLUMN = ""
YEARS = {"%Y", "%y"}
DATES_SAY = YEARS | {"%m", "%d", "%b", "%B", "%j", "%H", "%I", "%M", "%S", "%p", "%f"}

A_WORD = "words and numbers of at most 200 characters"
EXPECTED = {
    "delimiter": "a delimiter is one character, such as ';'",
    "decimal": "decimals are written with '.' or ','",
    "thousands": "between thousands stands one of . , ' _ or a space",
    "encoding": 'give the name of an encoding, such as "cp1252"',
    "header": "say true or false",
    "names": "give a list of texts, one for each field",
    "missing": f'give {A_WORD}, such as ["NA"], or a list for each column, such as {{ income = [-200] }}',
    "dates": 'give a text for each column, such as { born = "%d.%m.%Y" }',
    "yes": f'give a list of {A_WORD}, such as ["yes"], at most {MOST_WORDS}',
    "no": f'give a list of {A_WORD}, such as ["no"], at most {MOST_WORDS}',
    "recode": f'give levels for words, such as {{ "M" = "m" }}, at most {MOST_WORDS}',
}

Word = Annotated[str, Field(max_length=200)] | int | float
Words = Annotated[list[Word], Field(max_length=MOST_WORDS)]
Level = Annotated[str, Field(max_length=200)] | int


class Reader(BaseModel):
    """How a file writes its fields. Made by `Reader.of` from a mapping, as it stands in `[data]`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    decimal: Literal[".", ","] = "."
    thousands: Literal[".", ",", " ", "'", "_", "\u00a0", "\u202f", "\u2019"] | None = None
    encoding: str = "utf-8"
    header: bool = True
    names: Annotated[tuple[str, ...], Field(strict=False, max_length=100_000)] | None = None
    missing: dict[str, Words] = {}  # by column; under EVERY_COLUMN those that count wherever they stand
    dates: dict[str, str] = {}
    yes: Words = []
    no: Words = []
    recode: dict[str, Annotated[dict[str, Level], Field(max_length=MOST_WORDS)]] = {}  # by column, as above

    @classmethod
    def of(cls, options: Mapping[str, object] | None) -> Self:
        """The reader of these options; a refusal names the first that is not one."""
        try:
            return cls.model_validate(dict(options or {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = printable(first["loc"][0]) if first["loc"] else "reader"
            wrong, given = EXPECTED.get(where, ""), shown(first["input"])
            if first["type"] == "value_error":  # in our own words
                wrong = first["msg"].removeprefix("Value error, ")
            if first["type"] == "extra_forbidden":
                known = ", ".join(cls.model_fields)
                wrong = f"there is no such option{did_you_mean(where, cls.model_fields)}; there are {known}"
        except (TypeError, ValueError):
            where, wrong, given = "reader", "it must be a mapping such as {'delimiter': ';'}", shown(options)
        raise InvalidArgument(f"{where} = {given}: {wrong[:1].lower()}{wrong[1:]}. Nothing was spent.", argument=where)

    @field_validator("delimiter")
    @classmethod
    def _plain_delimiter(cls, value: str | None) -> str | None:
        if value is not None and (value in '"\r\n\0' or value.isalnum() or not value.isascii()):
            raise ValueError("a delimiter is one ASCII character that is no letter, digit, quote or line end")
        return value

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            name = codecs.lookup(value).name
        except (LookupError, ValueError):
            name = ""
        if not ENCODINGS.fullmatch(name):
            raise ValueError('there is no such text encoding; common ones are "utf-8", "cp1252", "latin-1", "utf-16"')
        return name

    @field_validator("missing", mode="before")
    @classmethod
    def _missing_by_column(cls, value: object) -> object:
        match value:
            case [*words]:
                return {EVERY_COLUMN: words}
            case {**lists}:
                return lists
        raise ValueError('give words, such as ["NA"], or words by column, such as { income = [-200] }')

    @field_validator("recode", mode="before")
    @classmethod
    def _recode_by_column(cls, value: object) -> object:
        match value:
            case {**entries}:
                maps: dict[object, object] = {}
                everywhere = dict[object, object]()
                for name, entry in entries.items():
                    match entry:
                        case {**map_}:
                            maps[name] = map_
                        case _:
                            everywhere[name] = entry
                return maps | ({EVERY_COLUMN: everywhere} if everywhere else {})
        return value

    @field_validator("dates")
    @classmethod
    def _written_dates(cls, value: dict[str, str]) -> dict[str, str]:
        for text in value.values():
            said = re.findall(r"%-?.?", text)
            if not YEARS & set(said) or not set(said) <= DATES_SAY or len(text) > 100:
                raise ValueError(f'a date is written like "%d.%m.%Y", from {" ".join(sorted(DATES_SAY))}')
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.thousands == self.decimal:
            raise ValueError("decimal and thousands are the same character")
        if not self.header and self.names is None:
            raise ValueError('header = false needs names = ["...", ...], one for each field ("" for one not used)')
        if {as_text(word) for word in self.yes} & {as_text(word) for word in self.no}:
            raise ValueError("a word means both yes and no")
        return self

    def check_use(self, schema: Schema, *, is_text_file: bool, is_database: bool) -> None:
        """Refuse options for columns that are not in the schema, and for sources that are not written in fields."""
        given = sorted(self.model_fields_set)
        if is_database and given:
            raise InvalidArgument(
                f"{given[0]}: a reader is for files and frames; a database has types of its own, so write the "
                "conversion into the Ibis expression. Nothing was spent.",
                argument=given[0],
            )
        of_files = [option for option in FOR_TEXT_FILES if option in given]
        if of_files and not is_text_file:
            raise InvalidArgument(
                f"{of_files[0]}: only text files (.csv, .tsv) have one. Leave it out. Nothing was spent.",
                argument=of_files[0],
            )
        numbers, levels = by_kind(schema)
        self._check_truths(numbers, levels)
        _check_columns("missing", self.missing, schema.columns)
        _check_columns("dates", self.dates, numbers)
        _check_columns("recode", self.recode, levels)
        for name, map_ in self.recode.items():
            within = list(levels.values()) if name == EVERY_COLUMN else [levels[name]]
            known = {str(level) for column in within for level in column.levels}
            strange = [new for new in map_.values() if str(new) not in known]
            if strange:
                raise InvalidArgument(
                    f"recode: {shown(strange[0])} is not a declared level; list it among the levels. "
                    "Nothing was spent.",
                    argument="recode",
                )

    def _check_truths(self, numbers: Mapping[str, Bounded], levels: Mapping[str, Levels]) -> None:
        """Refuse a word for 1 or 0 that is itself a declared value, so that a record would be read as another one."""
        for option, words, truth in (("yes", self.yes, 1), ("no", self.no, 0)):
            for word in map(as_text, words):
                number = finite_number(word.replace(self.decimal, "."))
                for name, bounds in numbers.items():
                    if number is not None and number != truth and bounds.low <= number <= bounds.high:
                        raise _overridden(option, word, truth, f"is a number within the bounds of column {name!r}")
                for name, column in levels.items():
                    known = {str(level) for level in column.levels}
                    if word in known and word != str(truth) and str(truth) in known:
                        raise _overridden(option, word, truth, f"is a declared level of column {name!r}")

    def missing_words(self, name: str) -> list[str]:
        """The words that mean nothing was given in this column, as text."""
        return [as_text(word) for word in (*self.missing.get(EVERY_COLUMN, ()), *self.missing.get(name, ()))]

    def codes(self, name: str, column: Levels) -> dict[str, int]:
        """Every text that means a level of this column, and the level's place."""
        places = {str(level): place for place, level in enumerate(column.levels)}
        known = dict(places)
        for words, level in ((self.yes, "1"), (self.no, "0")):
            if level in places:
                known |= {as_text(word): places[level] for word in words}
        everywhere, own = self.recode.get(EVERY_COLUMN, {}), self.recode.get(name, {})
        return known | {old: places[str(new)] for old, new in (everywhere | own).items() if str(new) in places}


def _overridden(option: str, word: str, truth: int, reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"{option}: {shown(word)} would be read as {truth}, but {reason}. Leave it out; for one column with levels, "
        "recode says how this file writes them. Nothing was spent.",
        argument=option,
    )


def by_kind(schema: Schema) -> tuple[dict[str, Bounded], dict[str, Levels]]:
    """The numeric columns of a schema, and those with levels."""
    numbers = {name: column for name, column in schema.columns.items() if isinstance(column, Bounded)}
    return numbers, {name: schema.levels(name) for name in schema.columns if name not in numbers}


def _check_columns(option: str, named: Iterable[str], possible: Iterable[str]) -> None:
    strange = [name for name in named if name != EVERY_COLUMN and name not in set(possible)]
    if strange:
        kind = {"dates": "a column with bounds", "recode": "a column with levels"}.get(option, "a column")
        raise InvalidArgument(
            f"{option} names {shown(strange[0])}, which is not {kind} of the schema. Nothing was spent.",
            argument=option,
        )


def as_text(word: object) -> str:
    """A word as a file writes it: -200 and "-200" are the same."""
    return str(word)


def finite_number(word: str) -> float | None:
    try:
        number = math.nan if "_" in word else float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
