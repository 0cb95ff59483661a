"""What is wrong with records, told to their holder before anything is paid: `Table.check` and `noisewise check`.

By column: what is missing, unparsable, infinite, below and above the bounds, which levels were not declared, and
values that look like codes. By planned statistic: what it would be as released, beside what the rows inside the bounds
alone would give. Nothing is refused that can be read.

It is exact, not private, so it is for the holder's eyes only and enters no release, ledger or log. Even here a single
value is shown only as a *code*: one value outside the bounds, one word that is no number, one level that was not
declared, and only if at least max(20, n/100) rows share it. Averages are shown of at least 20 rows; of an order
statistic, which is some record's own value, only its place. Whoever changes bounds, codes or levels because of
what is shown here chooses them from the records, which no guarantee covers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from noisewise.errors import InvalidArgument, InvalidData
from noisewise.holder.check_text import FEWEST, html_of, page_of, text_of
from noisewise.holder.clamp_effects import Effect, Sides, look_at, totals_of
from noisewise.holder.cleaning import Counts, check_counts, cleaned_columns, kinds, may_be_missing
from noisewise.holder.expressions import indicator
from noisewise.holder.reader import Reader
from noisewise.holder.sources import RAW, Source, named
from noisewise.holder.suggestions import Hint, suggested_form
from noisewise.holder.table import counted
from noisewise.planning import Plan
from noisewise.printable import printable, shown
from noisewise.schema import LONGEST_LEVEL, Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

FORMAT = "noisewise-check/1"
MOST_COMPONENTS = 20
MISFITS = ("missing", "unparsable", "infinite", "below", "above", "undeclared")
BAD, OUT, FILLED, GONE = "__bad_", "__out_", "__filled_", "__gone_"


@dataclass(frozen=True, slots=True)
class Code:
    """One value that many rows share and that is no value of its column: `where` says why not."""

    text: str
    rows: int
    where: str  # below, above, unparsable, undeclared


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """One column: how many of its values do not fit, and in which way."""

    name: str
    declared: str
    rows: int
    missing: int
    unparsable: int = 0
    infinite: int = 0
    below: int = 0
    above: int = 0
    undeclared: int = 0
    undeclared_levels: int = 0
    codes: tuple[Code, ...] = ()
    fill: str | None = None  # what a missing value becomes; None where none is filled in
    hint: Hint | None = None
    is_left_out: bool = False  # a record is left out of what is made of the column where it is missing

    @property
    def misfits(self) -> dict[str, int]:
        """How many rows do not fit, by kind."""
        return {kind: getattr(self, kind) for kind in MISFITS}

    @property
    def is_clean(self) -> bool:
        return not any(self.misfits.values())

    def to_dict(self) -> dict[str, object]:
        shares = {kind: rows / self.rows if self.rows else 0.0 for kind, rows in self.misfits.items()}
        return asdict(self) | {"shares": shares, "hint": self.hint and self.hint.reason}


@dataclass(frozen=True, slots=True)
class StatisticCheck:
    """What the clamp does to one planned statistic, over all records."""

    statistic: str
    taken: int  # rows that a release would take
    inside: int  # of these, rows with nothing clamped or filled
    clamped: int
    filled: int
    effects: tuple[Effect, ...]
    left_out: int = 0  # components not listed
    absent: int = 0  # rows in which a value that it reads is missing and left out


@dataclass(frozen=True, slots=True, repr=False)
class RecordCheck:
    """What `Table.check` saw: exact, for the holder only. `print(check)`, `check.to_dict()`, `check.to_html()`.

    Attributes
    ----------
    kind
        What was read: a file, a frame, a table of a database.
    rows
        How many records there are.
    schema
        What they were held against.
    columns
        What was found in each column.
    statistics
        What clamping does to each statistic that was asked about.
    refusal, refusal_in_toml
        What `Table.read` would say, in the words of Python and of a spec file; None where it would not refuse.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=3, neighbours="change-one")
    >>> check = nw.Table.check({"age": [23, 95, -1]}, schema)
    >>> check.rows, check.column("age").above, check.refusal
    (3, 1, None)
    """

    kind: str
    rows: int
    schema: Schema
    columns: tuple[ColumnCheck, ...]
    statistics: tuple[StatisticCheck, ...]
    refusal: str | None  # what Table.read would say
    refusal_in_toml: str | None

    def column(self, name: str) -> ColumnCheck:
        """The check of one column."""
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            self.schema.column(name)  # which says what there is
            raise InvalidArgument(f"There is no column {shown(name)}.", argument="name")
        return found

    def to_dict(self) -> dict[str, object]:
        """Plain data for a JSON file that stays with the holder."""
        return {
            "format": FORMAT,
            "note": "For the holder only; not for publication.",
            "rows": self.rows,
            "refusal": self.refusal,
            "columns": [column.to_dict() for column in self.columns],
            "statistics": [asdict(statistic) for statistic in self.statistics],
        }

    def text(self, *, in_toml: bool = False) -> str:
        """The check in words; the ways out as Python arguments, or as they stand in a spec file."""
        return text_of(self, in_toml=in_toml)

    def to_html(self, *, in_toml: bool = False) -> str:
        """The check as one self-contained page."""
        return page_of(self, in_toml=in_toml)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"RecordCheck({len(self.columns)} columns; for the holder only)"

    def _repr_html_(self) -> str:
        return html_of(self, in_toml=False)


def record_check(
    source: object, schema: Schema, plans: Sequence[Plan], order: str | None, key: str | None, reader: Reader
) -> RecordCheck:
    """Open, count and look; see `Table.check`."""
    planned = _checked_plans(plans, schema)
    opened, parsed, counts = counted(source, schema, order, key, reader)
    refusal = _refusal(counts, opened, parsed, schema, order or key)
    desk = _Desk(opened, parsed, schema, counts)
    return RecordCheck(
        kind=opened.kind,
        rows=counts.rows,
        schema=schema,
        columns=tuple(desk.column(name) for name in schema.columns),
        statistics=tuple(desk.statistic(plan) for plan in planned),
        refusal=None if refusal is None else str(refusal),
        refusal_in_toml=None if refusal is None else str(refusal.fields.get("toml", refusal)),
    )


def _checked_plans(plans: Sequence[Plan], schema: Schema) -> tuple[Plan, ...]:
    planned = tuple(plans) if not isinstance(plans, Plan) else (plans,)
    for plan in planned:
        if not isinstance(plan, Plan) or plan.schema != schema:
            raise InvalidArgument(
                "plans must be made by plan(...) with the schema that is checked. Nothing was spent.", argument="plans"
            )
    return planned


def _refusal(
    counts: Counts, source: Source, parsed: ir.Table, schema: Schema, row_id: str | None
) -> InvalidData | None:
    try:
        check_counts(counts, source, parsed, schema, row_id)
    except InvalidData as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class _Desk:
    """The records as they lie, on the holder's desk."""

    source: Source
    parsed: ir.Table
    schema: Schema
    counts: Counts

    @property
    def threshold(self) -> int:
        """How many rows must share a value before it is shown."""
        return max(FEWEST, math.ceil(self.counts.rows / 100))

    def ask(self, question: ir.Table) -> pa.Table:
        self.source.check_unchanged()
        return self.source.run(question.to_pyarrow)

    # --- columns ---

    def column(self, name: str) -> ColumnCheck:
        seen = {kind: rows for (column, kind), rows in self.counts.misfits.items() if column == name}
        conditions = {kind.name: kind.condition for kind in kinds(self.parsed, name, self.schema)}
        fill, is_left_out = self.schema.fills.get(name), name in self.schema.left_out
        missing, fill_text = seen["missing"], None if fill is None else printable(fill)
        declared = printable(self.schema.columns[name])
        codes: tuple[Code, ...] = ()
        distinct = 0
        if "unknown level" in seen:
            undeclared = seen["unknown level"]
            condition = conditions["unknown level"]
            if undeclared:
                codes, distinct = self.words(name, condition, "undeclared"), self.distinct(name, condition)
            return ColumnCheck(
                name,
                declared,
                self.counts.rows,
                missing,
                undeclared=undeclared,
                undeclared_levels=distinct,
                codes=codes,
                fill=fill_text,
                is_left_out=is_left_out,
            )
        hint = None
        if seen["unparsable"]:
            hint = suggested_form(self.source, self.parsed, name, conditions["unparsable"])
        for side in ("below", "above"):
            if seen[side] >= self.threshold:
                codes += self.numbers(name, conditions[side], side)
        if seen["unparsable"] >= self.threshold:
            codes += self.words(name, conditions["unparsable"], "unparsable")
        return ColumnCheck(
            name,
            declared,
            self.counts.rows,
            missing,
            seen["unparsable"],
            seen["infinite"],
            seen["below"],
            seen["above"],
            codes=codes,
            fill=fill_text,
            hint=hint,
            is_left_out=is_left_out,
        )

    def numbers(self, name: str, condition: ir.Value, where: str) -> tuple[Code, ...]:
        """The numbers beyond a bound that enough rows share."""
        return tuple(Code(f"{value:.15g}", rows, where) for value, rows in self.shared(self.parsed[name], condition))

    def words(self, name: str, condition: ir.Value, where: str) -> tuple[Code, ...]:
        """The texts that enough rows share."""
        field = self.parsed[RAW + name].cast("string")
        short = condition & (field.length() <= LONGEST_LEVEL)
        return tuple(Code(printable(text), rows, where) for text, rows in self.shared(field, short))

    def shared(self, value: ir.Value, condition: ir.Value) -> list[tuple[object, int]]:
        """Values with the number of rows that share them, from the threshold on; the most common first."""
        rows = self.parsed.filter(condition.fill_null(False)).select(value.name("value"))
        grouped = rows.group_by("value").aggregate(rows=rows.count())
        found = self.ask(grouped.filter(grouped["rows"] >= self.threshold)).to_pylist()
        pairs = [(row["value"], int(row["rows"])) for row in found]
        return sorted(pairs, key=lambda pair: (-pair[1], str(pair[0])))

    def distinct(self, name: str, condition: ir.Value) -> int:
        rows = self.parsed.filter(condition.fill_null(False)).select(self.parsed[RAW + name].name("value"))
        return int(self.ask(rows.aggregate(distinct=rows["value"].nunique()))["distinct"][0].as_py() or 0)

    # --- statistics ---

    def flagged(self) -> ir.Table:
        """Cleaned records, and for each column whether its value would be refused, clamped, filled in or left out."""
        flags: dict[str, ir.Value] = {}
        for name in self.schema.columns:
            conditions = {kind.name: kind.condition for kind in kinds(self.parsed, name, self.schema)}
            absent = conditions.pop("missing")
            out = [conditions.pop(side) for side in ("below", "above") if side in conditions]
            bad = [*conditions.values(), *([] if may_be_missing(name, self.schema) else [absent])]
            bad += out if self.schema.outside == "refuse" else []
            flags[BAD + name] = indicator(_any(bad))
            flags[OUT + name] = indicator(_any(out)) if out else indicator(_any([absent])) * 0
            gone = indicator(_any([absent]))
            is_left_out = int(name in self.schema.left_out)
            flags |= {FILLED + name: gone * (1 - is_left_out), GONE + name: gone * is_left_out}
        return self.parsed.select(*named(cleaned_columns(self.parsed, self.schema) | flags))

    def statistic(self, plan: Plan) -> StatisticCheck:
        rows, look = self.flagged(), look_at(plan.statistic, self.schema)
        rows = rows.filter(~_any(rows[BAD + name] > 0 for name in look.columns))
        flags = (OUT, FILLED, GONE)
        clamped, filled, gone = (_any(rows[flag + name] > 0 for name in look.columns) for flag in flags)
        inside = ~clamped & ~filled
        seen = self.ask(rows.aggregate(rows=rows.count(), **totals_of([clamped, filled, inside, gone]))).to_pylist()[0]
        taken, n_clamped, n_filled, n_inside, n_gone = (int(total or 0) for total in seen.values())
        effects: list[Effect] = []
        if FEWEST <= n_inside < taken:
            sides = Sides(self.schema, self.source.engine, self.ask, rows, inside, plan, taken, n_inside)
            effects = look.effects(sides)
        shown = tuple(effects[:MOST_COMPONENTS])
        left_out = len(effects) - len(shown)
        return StatisticCheck(printable(plan.statistic), taken, n_inside, n_clamped, n_filled, shown, left_out, n_gone)


def _any(conditions: Iterable[ir.Value]) -> ir.Value:
    return reduce(or_, [condition.fill_null(False) for condition in conditions])
