"""What a file seems to be: said in a refusal, never applied.

A file that cannot be read as declared is looked at once more for the ways in which files usually differ: another
separator, another encoding, no header, decimal commas, dates, words for yes, no or missing. What comes out is a hint
in words; whoever holds the records decides, and writes it down. A hint names forms, never a field's content.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from noisewise.holder.sources import RAW, Source

if TYPE_CHECKING:
    import ibis.expr.types as ir

SEPARATORS = ";,\t|"
NUMBER = re.compile(r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*")
KINDS_OF_BYTES = {
    b"PK\x03\x04": "a zip archive, perhaps an Excel workbook; save the sheet as CSV, or read it with "
    "pandas.read_excel(...) and pass the frame",
    b"\x1f\x8b": "compressed by gzip; let its name end in .gz",
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"SQLite format 3": "an SQLite database; read its table with Ibis and pass that",
}


class Hint(NamedTuple):
    """What a file seems to be, and how to say so in Python and in a spec file."""

    reason: str
    python: str
    toml: str


def kind_of_bytes(beginning: bytes) -> str | None:
    """What a file is that is no text at all, by how it begins."""
    return next((words for magic, words in KINDS_OF_BYTES.items() if beginning.startswith(magic)), None)


def likely_encoding(beginning: bytes, declared: str) -> str:
    """An encoding in which bytes that are not in the declared one might be written."""
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if beginning[1:200:2].count(0) > 50 or beginning[1:20:2].count(0) > 5:
        return "utf-16-le"
    if declared != "utf-8" and _is_in(beginning, "utf-8"):
        return "utf-8"
    return "cp1252" if _is_in(beginning, "cp1252") else "latin-1"


def _is_in(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start > len(data) - 4  # a letter cut in two by the end of what was looked at
    return True


def suggested_layout(
    line: str, first: list[str], wanted: Sequence[str], delimiter: str, names: Sequence[str] | None, *, has_header: bool
) -> Hint | None:
    """How the first line would have to be cut, or its fields named, so that the wanted columns are there."""
    for other in SEPARATORS:
        cut = _cut(line, other) if other != delimiter else []
        if set(wanted) <= set(cut) if names is None else len(cut) == len(names) > 1:
            written = '"\\t"' if other == "\t" else f'"{other}"'
            return _hint(
                f"this file seems to use {other!r} between fields",
                f"{{'delimiter': {other!r}}}",
                f"delimiter = {written}",
            )
    if names is None and has_header and first and all(NUMBER.fullmatch(field) or not field for field in first):
        reason = f"its first line holds {len(first)} numbers, so it seems to have no header"
        named = 'names = ["...", ...], one for each field,'
        return _hint(
            reason, "{'header': False, 'names': [...]}, one name for each field", f"header = false and {named}"
        )
    folded = {field.strip().casefold() for field in first}
    if names is None and {name.strip().casefold() for name in wanted} <= folded:
        reason = "its names differ from the schema's only in upper and lower case or in spaces around them"
        return Hint(reason, *["name the columns of the schema as the file does"] * 2)
    return None


def _cut(line: str, delimiter: str) -> list[str]:
    """The fields of a line; none where it cannot be cut in this way."""
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _hint(reason: str, python: str, toml: str) -> Hint:
    return Hint(reason, f"if so, say reader={python}", f"if so, write {toml} under [data]")


# --- fields -----------------------------------------------------------------------------------------------------------

YES_NO = ("yes", "no", "y", "n", "true", "false", "ja", "nein", "oui", "non", "si", "sí")
NOTHING = ("na", "n/a", "#n/a", "null", "none", "nan", "-", "--", ".", "?", "missing", "")
FORMS = {
    "decimal comma": r"^\s*[+-]?\d*,\d+\s*$",
    "thousands": r"^\s*[+-]?\d{1,3}([ ,'_]\d{3})+(\.\d*)?\s*$",
    "points and comma": r"^\s*[+-]?\d{1,3}(\.\d{3})+(,\d*)?\s*$",
    "dates": r"^\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})",
}
HINTS = {
    "decimal comma": _hint("most look like numbers with a decimal comma", "{'decimal': ','}", 'decimal = ","'),
    "thousands": _hint("most look like numbers in groups of three digits", "{'thousands': ...}", 'thousands = "..."'),
    "points and comma": _hint(
        "most look like numbers such as 1.234,5",
        "{'decimal': ',', 'thousands': '.'}",
        'decimal = "," and thousands = "."',
    ),
    "dates": _hint("most look like dates", "{'dates': {COLUMN: '%Y-%m-%d'}}", 'dates = { COLUMN = "%Y-%m-%d" }'),
    "yes or no": _hint(
        "most are words such as yes and no",
        "{'yes': ['yes'], 'no': ['no']}, in the words of the file",
        'yes = ["yes"] and no = ["no"], in the words of the file,',
    ),
    "nothing": _hint(
        "most are words such as NA for nothing",
        "{'missing': ['NA']}, in the words of the file",
        'missing = ["NA"], in the words of the file,',
    ),
}


def suggested_form(source: Source, parsed: ir.Table, name: str, unparsable: ir.Value) -> Hint | None:
    """The form that at least nine tenths of a text column's unparsable fields have, if they have one."""
    field = parsed[RAW + name]
    if not field.type().is_string() or source.engine != "duckdb":
        return None
    word = field.strip().lower()
    forms = {form: field.re_search(pattern) for form, pattern in FORMS.items()}
    forms |= {"yes or no": word.isin(list(YES_NO)), "nothing": word.isin(list(NOTHING))}
    totals = {"all": unparsable.sum()} | {form: (unparsable & has).sum() for form, has in forms.items()}
    seen = source.run(parsed.aggregate(**{f"t{i}": total for i, total in enumerate(totals.values())}).to_pyarrow)
    counts = dict(zip(totals, [column[0].as_py() or 0 for column in seen.columns], strict=True))
    likely = [form for form in forms if counts[form] >= 0.9 * counts["all"] > 0]
    return HINTS[likely[0]] if likely else None
