"""A `RecordCheck` in words and as a page: what is wrong, what the clamp does, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noisewise.holder.cleaning import share_text
from noisewise.holder.suggestions import HINTS
from noisewise.html import Section, page, pieces
from noisewise.printable import printable, toml_key, toml_text

if TYPE_CHECKING:
    from noisewise.holder.check import Code, ColumnCheck, RecordCheck, StatisticCheck
    from noisewise.holder.clamp_effects import Effect

FEWEST = 20  # rows behind anything that is shown
PRIVATE = "For the holder's eyes only: these counts are exact, not private. Not for publication."
CHOSEN = (
    "Bounds, codes or levels changed because of what this shows are chosen from the records, and no guarantee covers "
    "that choice. Take them from the data's public description, or buy them with a Quantile of a disjoint part."
)
HEADER = ("column", "missing", "unparsable", "below", "above", "not declared")
WHERE = {
    "below": "below the bounds",
    "above": "above the bounds",
    "unparsable": "no number",
    "undeclared": "not declared",
}


def text_of(check: RecordCheck, *, in_toml: bool) -> str:
    """Plain text, a fixed-width table and paragraphs."""
    lines = [f"{_title(check)} {PRIVATE}", "", *_grid([HEADER, *_rows(check)])]
    for title, sentences in _parts(check, in_toml=in_toml):
        lines += ["", f"{title}:", *(f"  {sentence}" for sentence in sentences)]
    return "\n".join([*lines, "", CHOSEN])


def html_of(check: RecordCheck, *, in_toml: bool) -> str:
    """The same as pieces of HTML, for a notebook."""
    return pieces(*_sections(check, in_toml=in_toml))


def page_of(check: RecordCheck, *, in_toml: bool) -> str:
    """The same as one page."""
    return page("Check of records: not for publication", PRIVATE, _sections(check, in_toml=in_toml))


def _sections(check: RecordCheck, *, in_toml: bool) -> list[Section]:
    first = Section(_title(check), text=PRIVATE, header=HEADER, rows=_rows(check))
    parts = [
        Section(title, header=("",), rows=[(sentence,) for sentence in sentences])
        for title, sentences in _parts(check, in_toml=in_toml)
    ]
    return [first, *parts, Section("Before anything is changed", text=CHOSEN)]


def _title(check: RecordCheck) -> str:
    schema = check.schema
    declared = f"n = {schema.n}" if schema.is_change_one else f"n_max = {schema.n_max}"
    return f"{check.rows} records ({check.kind}; {declared} is declared)."


def _rows(check: RecordCheck) -> list[tuple[str, ...]]:
    return [
        (
            printable(column.name),
            _counted(column.missing, column.rows),
            _counted(column.unparsable + column.infinite, column.rows),
            _counted(column.below, column.rows),
            _counted(column.above, column.rows),
            _counted(column.undeclared, column.rows),
        )
        for column in check.columns
    ]


def _counted(rows: int, of: int) -> str:
    return f"{rows} ({share_text(rows, of)})" if rows else "0"


def _grid(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _parts(check: RecordCheck, *, in_toml: bool) -> list[tuple[str, list[str]]]:
    """The titled lists of sentences under the table; those that are empty are left out."""
    refusal = check.refusal_in_toml if in_toml else check.refusal
    refused = [] if refusal is None else [refusal.removesuffix(" Nothing was spent.")]
    parts = [
        ("What looks like a code", [_code(column, code) for column in check.columns for code in column.codes]),
        ("What was not declared", [_levels(column) for column in check.columns if column.undeclared]),
        (
            "What clamping and filling do, over all records",
            [line for one in _each_once(check.statistics) for line in _clamping(one)],
        ),
        ("What a release would be refused for", refused),
        ("What to do", [way for column in check.columns for way in _ways(column, in_toml=in_toml)]),
    ]
    return [(title, sentences) for title, sentences in parts if sentences]


def _each_once(statistics: Sequence[StatisticCheck]) -> list[StatisticCheck]:
    """Parts of one statistic are told together: what is said is over all records."""
    return [one for k, one in enumerate(statistics) if one not in statistics[:k]]


def _code(column: ColumnCheck, code: Code) -> str:
    return f"{printable(column.name)}: {code.text} in {_counted(code.rows, column.rows)} rows, {WHERE[code.where]}"


def _levels(column: ColumnCheck) -> str:
    levels = f"{column.undeclared_levels} level{'s' * (column.undeclared_levels != 1)}"
    return f"{printable(column.name)}: {levels} in {_counted(column.undeclared, column.rows)} rows"


def _clamping(one: StatisticCheck) -> list[str]:
    if not one.taken:
        return [f"{one.statistic}: unknown; in every row something that it reads would be refused."]
    absent = [
        f"{one.statistic}: {_counted(one.absent, one.taken)} of its rows lack a value that it reads, and are left out "
        "of what is made of it."
    ]
    if one.inside == one.taken:
        nothing = [f"{one.statistic}: nothing; no value that it reads is clamped or filled in."]
        return absent if one.absent else nothing
    filled = f", {_counted(one.filled, one.taken)} with one filled in" if one.filled else ""
    lines = absent if one.absent else []
    lines.append(f"{one.statistic}: {_counted(one.clamped, one.taken)} of its rows hold a clamped value{filled}.")
    lines += [f"  {_effect(effect)}" for effect in one.effects]
    if not one.effects and one.inside < FEWEST:
        lines.append(f"  Fewer than {FEWEST} rows hold neither; no average of them is shown.")
    if one.left_out:
        lines.append(f"  ... and {one.left_out} more components.")
    return lines


def _effect(effect: Effect) -> str:
    if effect.released is None or effect.inside is None:
        return f"{printable(effect.label)}: {effect.words}."
    return (
        f"{printable(effect.label)}: {_number(effect.released)} as it would be released (before noise); "
        f"{_number(effect.inside)} {effect.words}."
    )


def _number(value: float) -> str:
    """Four digits, or all before the point where there are more."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def _ways(column: ColumnCheck, *, in_toml: bool) -> list[str]:
    """What may be done about one column, as Python arguments or as it stands in a spec file."""
    name, key, ways = printable(column.name), toml_key(column.name), []
    hint, words = column.hint, [code.text for code in column.codes if code.where == "unparsable"]
    if hint is not None and hint != HINTS["nothing"]:
        words = []  # decimal commas, dates or words for yes and no: they do not mean that nothing was given
    codes = [
        code.text
        for code in column.codes
        if code.where in ("below", "above") or (code.where == "unparsable" and code.text in words)
    ]
    if codes:
        listed = ", ".join(code if _is_plain(code) else toml_text(code) for code in codes)
        said = f"missing = {{ {key} = [{listed}] }} under [data]"
        if not in_toml:
            said = f"reader={{'missing': {{{name!r}: [{listed}]}}}}"
        ways.append(f"{name}: if {listed} means that nothing was given, say {said}.")
    if hint is not None and not words:
        ways.append(f"{name}: {hint.reason}; {hint.toml if in_toml else hint.python}.")
    if (column.missing or codes) and column.fill is None and not column.is_left_out:
        filled = f"missing = {{ {key} = VALUE }} under [schema]" if in_toml else f"missing={{{name!r}: value}}"
        gone = 'missing = "leave-out"' if in_toml else "missing='leave-out'"
        ways.append(f"{name}: missing values need a public value in their place ({filled}), or are left out ({gone}).")
    if column.undeclared:
        said = f"recode = {{ {key} = {{ OLD = NEW }} }} under [data]"
        if not in_toml:
            said = f"reader={{'recode': {{{name!r}: {{old: new}}}}}}"
        ways.append(
            f"{name}: declare every level that the data's description lists, or say how this file writes one: {said}."
        )
    if (column.below or column.above) and not codes:
        ways.append(f"{name}: declare the bounds that the data's description gives, or accept the clamping.")
    return ways


def _is_plain(code: str) -> bool:
    """Whether a code is a number as TOML and Python write it: 007 is not."""
    return re.fullmatch(r"-?(0|[1-9][0-9]*)([.][0-9]+)?", code) is not None
