"""From the fields of a file or a frame to numbers and codes, as database expressions: how `Reader` options are applied.

    field -> number (bounds) or place of the level (levels), null where it reads as neither; whether anything was given

Every step is a map of one field, the same for every record. Nothing is repaired: what does not read as declared is
null and counts as unparsable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from noisewise.errors import InvalidData
from noisewise.holder.expressions import double
from noisewise.holder.reader import Reader, as_text, by_kind, finite_number
from noisewise.holder.sources import GIVEN, KEY, ORDER, POSITION, RAW, Source, bad_data, check_cells, named
from noisewise.printable import toml_key
from noisewise.schema import Levels, Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir

NOT_FINITE = r"^\s*[+-]?(?i:nan|inf|infinity)\s*$"


def parse(
    source: Source, schema: Schema, reader: Reader | None = None, *, order: str | None, key: str | None
) -> ir.Table:
    """Each column as a number or a code, null where there is none, beside whether anything was given, and the field."""
    raw, reader = source.expression, reader or Reader()
    _check_types(raw, schema, reader, order, key)
    columns: dict[str, ir.Value] = {}
    numbers, levels = by_kind(schema)
    for name in schema.columns:
        value, words = raw[name], reader.missing_words(name)
        given = value.notnull() & ~value.isnan() if value.type().is_floating() else value.notnull()
        if name in numbers:
            parsed = _as_number(value, name, reader)
            absent = _is_word(value, words) | _is_number(parsed, words) if words else None
        else:
            parsed = _as_code(value, name, levels[name], reader, source.engine)
            absent = _is_word(value, words) if words else None
        columns[name] = parsed if absent is None else _unless(absent, parsed)
        columns[GIVEN + name] = given if absent is None else given & ~absent.fill_null(False)
        columns[RAW + name] = value
    if order is not None:
        columns[ORDER] = raw[order]
    if source.position is not None:
        columns[POSITION] = source.position
    if key is not None:
        columns[KEY] = raw[key].cast("string")
    return raw.select(*named(columns))


def _unless(condition: ir.Value, value: ir.Value) -> ir.Value:
    """The value where the condition does not hold, else null."""
    import ibis

    return ibis.cases((condition.fill_null(False), ibis.null(value.type())), else_=value)


def _is_word(value: ir.Value, words: Sequence[str]) -> ir.Value:
    """Whether a field is one of the words, the spaces around it apart; in a numeric column, by value."""
    import ibis

    if value.type().is_string():
        return value.strip().isin(list(words))
    wholes = [int(word) for word in words if _is_whole(word)]
    plain = _without_truth(value)
    return plain.isin(wholes) if wholes and plain.type().is_numeric() else ibis.literal(False)


def _is_number(number: ir.Value, words: Sequence[str]) -> ir.Value:
    """Whether a number is one of the words that are numbers: the code -200 is also written -200.00."""
    import ibis

    codes = [code for code in map(finite_number, words) if code is not None]
    return number.isin([double(code) for code in codes]) if codes else ibis.literal(False)


def _as_number(value: ir.Value, name: str, reader: Reader) -> ir.Value:
    import ibis

    if name in reader.dates:
        return _as_days(value, reader.dates[name])
    if not value.type().is_string():
        return _without_truth(value).cast("float64")
    if reader.thousands is None and reader.decimal == ".":
        number = ibis.cases((value.contains("_"), ibis.null("float64")), else_=value.try_cast("float64"))
    else:
        plain = value if reader.thousands is None else value.replace(reader.thousands, "")
        plain = plain.replace(reader.decimal, ".")
        shaped = value.re_search(_shape(reader.decimal, reader.thousands)) | value.re_search(NOT_FINITE)
        number = _unless(~shaped, plain).try_cast("float64")
    truths = [
        (value.strip().isin([as_text(w) for w in words]), double(one))
        for words, one in ((reader.yes, 1.0), (reader.no, 0.0))
        if words
    ]
    return ibis.cases(*truths, else_=number) if truths else number


def _shape(decimal: str, thousands: str | None) -> str:
    """How a number is written: digits in one piece or in groups of three, and a fraction."""
    point = re.escape(decimal)
    whole = r"\d+" if thousands is None else rf"(?:\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+|\d+)"
    return rf"^\s*[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?\s*$"


def _as_days(value: ir.Value, written: str) -> ir.Value:
    """A date as days since 1970-01-01, the time of day as a fraction; null where the text is not such a date."""
    import ibis
    import ibis.expr.datatypes as dt

    def date_of(text: str, written: str) -> datetime:
        raise NotImplementedError  # DuckDB's own

    signature = ((dt.string, dt.string), dt.timestamp)
    read_date = ibis.udf.scalar.builtin(date_of, name="try_strptime", signature=signature)
    moment = value.cast("timestamp") if value.type().is_temporal() else read_date(value.strip(), written)
    return moment.epoch_seconds().cast("float64") / double(86400.0)


def _without_truth(value: ir.Value) -> ir.Value:
    """Truth values as 1 and 0, null as null; everything else as it is. Not every engine casts them (Postgres)."""
    import ibis

    return ibis.cases((value, 1), (~value, 0)).cast("int64") if value.type().is_boolean() else value


def _as_code(value: ir.Value, name: str, column: Levels, reader: Reader, engine: str) -> ir.Value:
    """The index of the level, by text in a text column and by value in a numeric one; null if unknown."""
    import ibis

    known = reader.codes(name, column)
    check_cells(len(known), engine, f"Column {name!r} has {len(known)} levels")
    if value.type().is_string():
        pairs = [(value == text, place) for text, place in known.items()]
    else:
        plain = _without_truth(value)
        number = plain if plain.type().is_integer() else plain.cast("float64")
        pairs = [(number == int(text), place) for text, place in known.items() if _is_whole(text)]
    return ibis.cases(*pairs).cast("int64") if pairs else ibis.null("int64")


def _is_whole(level: str) -> bool:
    """Whether the text is a whole number (of 64 bits), written as such."""
    digits = level.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(level)) == level and abs(int(level)) < 2**63


def _check_types(raw: ir.Table, schema: Schema, reader: Reader, order: str | None, key: str | None) -> None:
    for name in schema.columns:
        kind = raw[name].type()
        if kind.is_temporal() and name in reader.dates:
            continue
        if kind.is_temporal():
            raise bad_data(
                f"Column {name!r} holds dates, and a schema column must hold numbers, booleans or text",
                python=f"say reader={{'dates': {{{name!r}: '%Y-%m-%d'}}}}: days since 1970-01-01, bounds in days",
                toml=f'write dates = {{ {toml_key(name)} = "%Y-%m-%d" }} under [data]: days since 1970-01-01, '
                "bounds in days",
                column=name,
                fault="wrong type",
            )
        if not (kind.is_numeric() or kind.is_boolean() or kind.is_string()):
            raise InvalidData(
                f"Column {name!r} is of type {kind}; a schema column must hold numbers, booleans or text. "
                "Nothing was spent.",
                column=name,
                fault="wrong type",
            )
    for argument, id_name in (("order", order), ("key", key)):
        if id_name is None:
            continue
        kind = raw[id_name].type()
        if not (kind.is_integer() or kind.is_string() or (argument == "order" and kind.is_temporal())):
            raise InvalidData(
                f"Column {id_name!r} ({argument}=) is of type {kind}; it must hold whole numbers or text. "
                "Nothing was spent.",
                column=id_name,
                fault="wrong type",
            )
