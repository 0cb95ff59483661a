"""Records against their schema: counted in one question, refused or cleaned.

What does not fit is counted by column and kind, where the data lives, in one aggregate query: missing, unparsable,
infinite, below and above the bounds, levels that were not declared. `check_counts` refuses what the schema's policies
do not cover, by column, kind of fault and number of rows, never by value. What passes becomes total:

    x -> max(low, min(high, x or its fill)),        level -> its index in the schema.

A column whose missing values are left out gets one more beside it: 1 where the value is present, else 0.

Values moved to a bound are no fault under `outside="clamp"`, but many of them are seldom what was meant: a code such
as -200 for "missing" is clamped like any other number. `Clamped` says how many; `check_clamping` stops above a share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from noisewise.errors import InvalidArgument, InvalidData
from noisewise.exact import fraction
from noisewise.holder.expressions import double, indicator, totalled
from noisewise.holder.reader import by_kind
from noisewise.holder.sources import GIVEN, KEY, ORDER, POSITION, Source, bad_data, named
from noisewise.holder.suggestions import suggested_form
from noisewise.printable import printable, toml_key
from noisewise.schema import Schema, presence_name

if TYPE_CHECKING:
    import ibis.expr.types as ir

ROWS, ABSENT, DISTINCT = "rows", "absent", "distinct"
SIDES = ("below", "above")


@dataclass(frozen=True, slots=True)
class Clamped:
    """How many values of one column lie outside its bounds, and would be moved to them."""

    column: str
    below: int
    above: int
    rows: int

    @property
    def moved(self) -> int:
        return self.below + self.above

    def __str__(self) -> str:
        return (
            f"{printable(self.column)}: {self.moved} of {self.rows} values ({share_text(self.moved, self.rows)}; "
            f"{self.below} below, {self.above} above)"
        )


def share_text(part: int, whole: int) -> str:
    """A share in per cent: `17.8 %`; never 0 for some, nor 100 for not all."""
    if part == 0 or whole == 0:
        return "0 %"
    per_cent = 100 * part / whole
    if part < whole:
        per_cent = min(per_cent, 99.9)
    return "< 0.1 %" if per_cent < 0.1 else f"{per_cent:.1f} %"


def cleaned(parsed: ir.Table, schema: Schema) -> ir.Table:
    """Filled, clamped, coded: total for every content, even one that appeared after the check."""
    columns = cleaned_columns(parsed, schema)
    return parsed.select(*named(columns), *(name for name in (POSITION, ORDER, KEY) if name in parsed.columns))


def cleaned_columns(parsed: ir.Table, schema: Schema) -> dict[str, ir.Value]:
    """The cleaned columns alone, by name."""
    import ibis

    fills, (numbers, levels) = schema.fills, by_kind(schema)
    columns: dict[str, ir.Value] = {}
    for name in schema.columns:
        if name in numbers:
            column = numbers[name]
            fill = double(float(fills.get(name, column.low)))
            value, low, high = parsed[name], double(column.low), double(column.high)
            absent = value.isnull() | value.isnan()
            columns[name] = ibis.cases((absent, fill), (value < low, low), (value > high, high), else_=value)
        else:
            columns[name] = parsed[name].fill_null(levels[name].index(fills.get(name, levels[name].levels[0])))
    for name in schema.left_out:
        value = parsed[name]
        absent = value.isnull() | value.isnan() if name in numbers else value.isnull()
        columns[presence_name(name)] = indicator(~absent)
    return columns


def may_be_missing(name: str, schema: Schema) -> bool:
    """True where a missing value is no fault: it is filled in, or left out."""
    return name in schema.fills or name in schema.left_out


class Kind(NamedTuple):
    """One way in which a value may not fit its column: its name, where it holds, and what to do, in both tongues."""

    name: str
    condition: ir.Value
    python: str
    toml: str


def kinds(parsed: ir.Table, name: str, schema: Schema) -> list[Kind]:
    """Everything that may be wrong with a value of one column."""
    value, given = parsed[name], parsed[GIVEN + name]
    absent, numbers = ~given, by_kind(schema)[0]
    if name not in numbers:
        levels = "true and false are read as 1 and 0"
        found = [
            Kind(
                "unknown level",
                given & value.isnull(),
                f"list every level in Levels([...]); {levels}",
                f"list every level in levels = [...], or say how the file writes one: recode under [data]; {levels}",
            )
        ]
    else:
        low, high = double(numbers[name].low), double(numbers[name].high)
        absent = absent | value.isnan()
        finite = ~value.isnan() & ~value.isinf()
        wider = "declare wider bounds, or outside="
        ways = "write them as plain numbers", "write them as plain numbers, or say how they are written under [data]"
        infinite = "infinities are never clamped; remove or repair them"
        found = [
            Kind("unparsable", given & value.isnull(), *ways),
            Kind("infinite", value.isinf(), infinite, infinite),
            Kind("below", (value < low) & finite, f"{wider}'clamp'", f'{wider} "clamp"'),
            Kind("above", (value > high) & finite, f"{wider}'clamp'", f'{wider} "clamp"'),
        ]
    found.append(
        Kind(
            "missing",
            absent,
            f"declare missing={{{name!r}: value}} or missing='leave-out'",
            f'declare missing = {{ {toml_key(name)} = VALUE }} or missing = "leave-out" under [schema]',
        )
    )
    return found


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted: rows, every kind of misfit by column, and the row ids or keys."""

    rows: int
    misfits: Mapping[tuple[str, str], int]  # by column and name of the kind
    ids: Mapping[str, int]

    def clamped(self, schema: Schema) -> tuple[Clamped, ...]:
        """The values outside the bounds, for every numeric column in which they were counted."""
        return tuple(
            Clamped(name, self.misfits[name, "below"], self.misfits[name, "above"], self.rows)
            for name in by_kind(schema)[0]
            if (name, "below") in self.misfits
        )


def count(source: Source, parsed: ir.Table, schema: Schema, *, is_clamping_told: bool = True) -> Counts:
    """One aggregate query over all records; clamped values are no fault, and counted only where they matter."""
    every = [(name, kind) for name in schema.columns for kind in kinds(parsed, name, schema)]
    if not is_clamping_told and schema.outside == "clamp":
        every = [(name, kind) for name, kind in every if kind.name not in SIDES]
    totals = {ROWS: parsed.count()} | {f"fault{i}": kind.condition.sum() for i, (_, kind) in enumerate(every)}
    if KEY in parsed.columns:
        totals[ABSENT] = parsed[KEY].isnull().sum()
    elif ORDER in parsed.columns:
        totals |= {ABSENT: parsed[ORDER].isnull().sum(), DISTINCT: parsed[ORDER].nunique()}
    source.check_unchanged()
    seen = totalled(parsed, totals, lambda question: source.run(question.to_pyarrow))
    misfits = {(name, kind.name): seen[f"fault{i}"] for i, (name, kind) in enumerate(every)}
    return Counts(seen[ROWS], misfits, {name: seen[name] for name in (ABSENT, DISTINCT) if name in seen})


def check_counts(counts: Counts, source: Source, parsed: ir.Table, schema: Schema, row_id: str | None) -> None:
    """Refuse what the schema's policies do not cover; every fault is told, the first one in the error's fields."""
    if counts.rows == 0 and schema.is_change_one:
        raise InvalidData(f"The {source.kind} holds no records. Nothing was spent.", fault="no rows")
    met = [fault for name in schema.columns for fault in _faults(counts, source, parsed, name, schema)]
    if met:
        raise bad_data(
            "",
            python=" ".join(f"{fault.sentence}; {fault.python}." for fault in met),
            toml=" ".join(f"{fault.sentence}; {fault.toml}." for fault in met),
            column=met[0].column,
            fault=met[0].name,
            rows=met[0].rows,
        )
    _check_size(counts.rows, schema)
    if row_id is not None:
        _check_ids(counts, row_id)


class _Fault(NamedTuple):
    column: str
    name: str
    rows: int
    python: str
    toml: str

    @property
    def sentence(self) -> str:
        return f"Column {self.column!r}, {self.name}: {self.rows} row{'s' * (self.rows > 1)}"


def _faults(counts: Counts, source: Source, parsed: ir.Table, name: str, schema: Schema) -> list[_Fault]:
    """The kinds of misfit in one column that no policy covers. Below and above are one fault, `outside`."""
    every = {kind.name: kind for kind in kinds(parsed, name, schema)}
    faults = [
        _Fault(name, kind.name, counts.misfits[name, kind.name], kind.python, kind.toml)
        for kind in every.values()
        if kind.name not in SIDES and not (kind.name == "missing" and may_be_missing(name, schema))
    ]
    if counts.misfits.get((name, "unparsable")):
        hint = suggested_form(source, parsed, name, every["unparsable"].condition)
        if hint is not None:
            ways = (f"{hint.reason}: {way}" for way in (hint.python, hint.toml))
            faults[0] = _Fault(name, "unparsable", counts.misfits[name, "unparsable"], *ways)
    if schema.outside == "refuse" and "below" in every:
        outside = sum(counts.misfits[name, side] for side in SIDES)
        faults.insert(2, _Fault(name, "outside", outside, every["below"].python, every["below"].toml))
    return [fault for fault in faults if fault.rows]


def _check_size(rows: int, schema: Schema) -> None:
    if schema.is_change_one and rows != schema.n:
        raise InvalidData(
            f"The schema declares n = {schema.n}, but the number of records is {rows}. Correct n (it is public under "
            "'change-one') or read the right file. Nothing was spent.",
            fault="row count",
            rows=rows,
        )
    if rows > schema.largest_n:
        raise InvalidData(
            f"There are more records than n_max = {schema.n_max}. Declare a larger n_max. Nothing was spent.",
            fault="row count",
        )


def _check_ids(counts: Counts, name: str) -> None:
    if counts.ids[ABSENT]:
        why, fault = f"missing in {counts.ids[ABSENT]} of {counts.rows} records; every one needs it", "missing"
    elif counts.ids.get(DISTINCT, counts.rows) != counts.rows:
        distinct = counts.ids[DISTINCT]
        why, fault = f"{distinct} different ids for {counts.rows} records; they must be unique", "duplicate"
    else:
        return
    raise InvalidData(f"Column {name!r} (order= or key=): {why}. Nothing was spent.", column=name, fault=fault)


# --- the stop at the desk ---------------------------------------------------------------------------------------------


def checked_share(clamp_at_most: object) -> Fraction:
    """A share from 0 to 1, exactly."""
    share = fraction(clamp_at_most, "clamp_at_most")
    if not 0 <= share <= 1:
        raise InvalidArgument(
            f"clamp_at_most = {share}; it is a share of the rows, from 0 to 1, such as 0.01. Nothing was spent.",
            argument="clamp_at_most",
        )
    return share


def over_share(clamped: Sequence[Clamped], clamp_at_most: Fraction) -> list[Clamped]:
    """The columns of which more than this share lies outside the bounds."""
    return [one for one in clamped if one.moved > clamp_at_most * one.rows]


def check_clamping(clamped: Sequence[Clamped], clamp_at_most: Fraction) -> None:
    """Stop where more than this share of a column lies outside its bounds. It answers the holder exactly.

    The stop is no part of the guarantee: like every refusal at read it tells, to whoever sees it, something exact
    about the records.
    """
    over = over_share(clamped, clamp_at_most)
    if not over:
        return
    worst = max(over, key=lambda one: one.moved)
    told, most = "; ".join(map(str, over)), f"{float(100 * clamp_at_most):.4g} %"
    ways = "Then, by the data's public description: name a code that means missing,"
    raise bad_data(
        "",
        python=f"Clamping would move too many values, and at most {most} of a column is accepted. {told}. Look at them "
        f"with Table.check(...). {ways} reader={{'missing': {{{worst.column!r}: [CODE]}}}}; declare wider bounds; or "
        "accept it with a larger clamp_at_most",
        toml=f"Clamping would move too many values, and at most {most} of a column is accepted. {told}. Look at them "
        f"with noisewise check SPEC --data FILE. {ways} missing = {{ {toml_key(worst.column)} = [CODE] }} under "
        "[data]; declare wider bounds under [schema.columns]; or accept it with --accept-clamping, or with a larger "
        "clamp_at_most under [data]",
        column=worst.column,
        fault="clamped",
        rows=worst.moved,
    )
