"""Records, checked once against their schema, and then total.

`Table.read` looks at every record exactly once, in one aggregate query where the data lives, and counts what does
not fit the schema: missing, unparsable, infinite or out-of-bounds values, unknown levels, the number of rows. Bad
data is refused here, to the holder, by column, kind of fault and number of rows, never by value. What passes is an
Ibis expression in which a bounded column x is a double in [low, high] and a categorical one is the code of its level,

    x -> max(low, min(high, x or its fill)),        level -> its index in the schema,

for *every* content of the source, so whatever is computed from it has the sensitivity the schema promises.

Parts compose in parallel only if one neighbour touches one part. Under change-one the part (a, b) holds the
positions floor(a n) <= position < floor(b n), position being the file's own order or the rank by a public row id
(`order=`); a file sorted by a private value has no safe position parts, since changing one record moves others.
Under add-remove it holds the records whose key hashes into it: ceil(a 2^128) <= h < ceil(b 2^128), h all 128 bits of
md5(key), compared as whole numbers. Cuts rise with their fractions and the last is above every hash, so of any
partition a record lies in exactly one part, however close the cuts.
Files are read lazily, again for every query; one that was edited after `read` is refused. A table may be used from
several threads: its queries are run one at a time.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from noisewise.errors import InvalidArgument, InvalidData, Unsupported
from noisewise.exact import fraction, integer
from noisewise.holder.sources import GIVEN, KEY, ORDER, POSITION, Source, named, open_source, parse
from noisewise.schema import Bounded, Column, Levels, Schema
from noisewise.statistics.feature import sum_in_order

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

Part = tuple[Fraction, Fraction]

BLOCK = "__block"
GRAIN = 2.0**-430  # 4e-130
WIDEST = 500  # totals in one row of an answer; Postgres gives no row of more than 1664 columns
_PLACE = "__place"
_SHORTEST_KEY = 16
_HASH_BITS = 128
_HASH_WORDS = 4
_WORD_DIGITS = 8  # hexadecimal; a hash is compared in words of 32 bits, which every engine's int64 and double hold
_MD5_ENGINES = frozenset({"duckdb", "pyspark", "databricks", "postgres", "risingwave", "mysql", "snowflake"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """The records of one data set, cleaned as the schema declares. Made by `Table.read`; never changes."""

    schema: Schema
    engine: str
    order: str | None
    key: str | None
    _source: Source
    _cleaned: ir.Table
    _fingerprints: dict[tuple[bytes, bool], str] = field(default_factory=dict)
    _questions: dict[tuple[bytes, bool], ir.Table] = field(default_factory=dict)  # built once

    @classmethod
    def read(cls, source: object, schema: Schema, order: str | None = None, key: str | None = None) -> Table:
        """Open `source`, check every record against `schema` in one pass, and refuse what does not fit.

        `order` names a public, unique row id outside the schema (change-one); `key` a column that says whose
        record it is (add-remove). Both serve only parts; neither is ever released.
        """
        if not isinstance(schema, Schema):
            raise InvalidArgument(f"schema must be a Schema, not a {type(schema).__name__}.", argument="schema")
        _check_names(schema, order, key)
        wanted = dict.fromkeys([*schema.columns, *(name for name in (order, key) if name is not None)])
        opened = open_source(source, list(wanted))
        parsed = parse(opened, schema, order=order, key=key)
        _check_records(opened, parsed, schema, order or key)
        return cls(schema, opened.engine, order, key, opened, _cleaned(parsed, schema))

    @property
    def expression(self) -> ir.Table:
        """Every record, cleaned: the schema's columns and nothing else."""
        return self._cleaned.select(*self.schema.columns)

    def rows(self, part: Part | None = None) -> ir.Table:
        """The cleaned records of one part: by position under change-one, by key hash under add-remove."""
        if part is None:
            return self.expression
        start, stop = _checked_part(part)
        if self.schema.is_change_one:
            return self._between(*self._positions(start, stop)).select(*self.schema.columns)
        first, last = (math.ceil(end * 2**_HASH_BITS) for end in (start, stop))
        if first >= last:
            raise InvalidArgument(
                f"part = ({start}, {stop}) is narrower than one step of the {_HASH_BITS}-bit key hash, "
                "so nobody can be in it. Nothing was spent.",
                argument="part",
            )
        hashed, words = self._hashed()
        inside = _is_at_least([hashed[word] for word in words], first)
        if last < 2**_HASH_BITS:
            inside = inside & ~_is_at_least([hashed[word] for word in words], last)
        return hashed.filter(inside).select(*self.schema.columns)

    def blocks(self, size: int, part: Part | None = None) -> ir.Table:
        """The cleaned records of a part with `__block`, their position in the part divided by `size` (change-one)."""
        size = integer(size, "size", minimum=1)
        if not self.schema.is_change_one:
            raise Unsupported(
                "Blocks of records need fixed positions, so neighbours='change-one': under 'add-remove' one record "
                "more would shift every later block. Nothing was spent."
            )
        first, last = self._positions(*_checked_part((Fraction(0), Fraction(1)) if part is None else part))
        if (last - first) % size:
            raise InvalidArgument(
                f"size = {size} does not divide the {last - first} records of this part into whole blocks. "
                "Nothing was spent.",
                argument="size",
            )
        inside = self._between(first, last)
        block = ((inside[POSITION] - first) // size).cast("int64")
        return inside.select(*self.schema.columns, **{BLOCK: block})

    def execute(self, expression: Any) -> pa.Table:
        """Run an expression built on this table and return its Arrow form; engine errors quote no record."""
        self._source.check_unchanged()
        return self._source.run(expression.to_pyarrow)

    def fingerprint(self, key: bytes, *, arranged: bool = False) -> str:
        """A keyed, order-free fingerprint of the cleaned records; private, for the ledger alone.

        Each record becomes u in [0, 1]^d; with secret constants from HMAC-SHA256(key, ...) and {w} the fractional part,
            v_j = q({k_j (u_j + b_j)}),   h = q({B + sum_j K_j v_j}),   q(w) = {m w (w + c)},
        and two lanes of sum floor(h 2^bits) are whole-number sums, the same in every order and engine (only IEEE
        + - * / and floor are used). Its squares tie values to each other, so swapping values between records, or
        moving some weight from one to another, shows. Changes below 2^-48 of a column's range may not.

        `arranged=True` also binds each record's place (position or key hash): releases of *parts* add up only
        while no record moves from one part to another.
        """
        if not isinstance(key, bytes) or len(key) < _SHORTEST_KEY:
            raise InvalidArgument(f"key must be at least {_SHORTEST_KEY} secret bytes.", argument="key")
        self._source.check_unchanged()
        if (key, arranged) not in self._fingerprints or self._source.can_drift:
            if (key, arranged) not in self._questions:
                self._questions[key, arranged] = _hash_sums(self._units(arranged), key, self.schema.largest_n)
            sums = self.execute(self._questions[key, arranged]).to_pylist()[0]
            relation = self.schema.neighbours  # one account, one relation: budgets under two of them do not add
            counted = "|".join(str(sums[name]) for name in ("__count", "__lane0", "__lane1"))
            text = f"noisewise-fingerprint/1|{relation}|{arranged}|{counted}"
            self._fingerprints[key, arranged] = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        return self._fingerprints[key, arranged]

    def __repr__(self) -> str:
        size = f"n = {self.schema.n}" if self.schema.is_change_one else f"n <= {self.schema.n_max}"
        return f"Table({', '.join(self.schema.columns)}; {size}; {self._source.kind} on {self.engine})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("A Table holds records and a connection; it is not pickled. Read it where it is needed.")

    def _positions(self, start: Fraction, stop: Fraction) -> tuple[int, int]:
        n = self.schema.largest_n
        first, last = math.floor(start * n), math.floor(stop * n)
        if first >= last:
            raise InvalidArgument(f"part = ({start}, {stop}) of n = {n} is empty. Nothing was spent.", argument="part")
        return first, last

    def _between(self, first: int, last: int) -> ir.Table:
        positioned = self._positioned()
        return positioned.filter((positioned[POSITION] >= first) & (positioned[POSITION] < last))

    def _positioned(self) -> ir.Table:
        import ibis

        if self.order is not None:
            rank = ibis.row_number().over(order_by=_sort_keys(self._cleaned[ORDER], self._source.is_text))
            return self._cleaned.mutate(**{POSITION: rank})
        if self._source.position is None:
            raise Unsupported(
                f"Parts by position need an order of the records, and a {self._source.kind} has none of its own. Give "
                "Table.read(..., order=) a public, unique row id that is not a schema column. Nothing was spent."
            )
        return self._cleaned

    def _hashed(self) -> tuple[ir.Table, list[str]]:
        """The cleaned records with the words of their key's hash, and the names of those columns."""
        if self.key is None:
            raise Unsupported(
                "Under 'add-remove' a part is chosen by key: give Table.read(..., key=) the column that says whose "
                "record it is. By position one neighbour would touch two parts. Nothing was spent."
            )
        if self.engine not in _MD5_ENGINES:
            raise Unsupported(f"Parts by key hash are not available on {self.engine}. Nothing was spent.")
        table = self._cleaned.mutate(**{_PLACE: _md5(self._cleaned[KEY])})
        words = {f"{_PLACE}{k}": _hash_word(table[_PLACE], k, self.engine) for k in range(_HASH_WORDS)}
        return table.mutate(**words), list(words)

    def _units(self, arranged: bool) -> ir.Table:
        """Each column on [0, 1] in the order of the names, and the record's place if it counts."""
        table, place = self._cleaned, dict[str, Any]()
        if arranged and self.schema.is_change_one:
            table = self._positioned()
            place = {_PLACE: table[POSITION].cast("float64") / double(self.schema.largest_n)}
        elif arranged:
            table, words = self._hashed()
            place = {word: table[word].cast("float64") / double(16.0**_WORD_DIGITS) for word in words}
        columns = self.schema.columns
        units = {name: _unit(table[name], columns[name], self.engine) for name in sorted(columns)}
        return table.select(*named(units | place))


# --- what may be asked for --------------------------------------------------------------------------------------------


def _check_names(schema: Schema, order: str | None, key: str | None) -> None:
    folded = {name.casefold() for name in schema.columns}
    if len(folded) < len(schema.columns) or any(name.startswith("__") for name in folded):
        raise Unsupported("Column names must not start with '__', nor differ only in upper and lower case.")
    for argument, name in (("order", order), ("key", key)):
        if name is not None and not (isinstance(name, str) and name and not name.startswith("__")):
            raise InvalidArgument(f"{argument} must be the name of a column. Nothing was spent.", argument=argument)
    if order is not None and not schema.is_change_one:
        raise InvalidArgument(
            "order= makes parts by position, and under 'add-remove' one neighbour would touch two parts: every later "
            "record moves up. Use key=, the column that says whose record it is. Nothing was spent.",
            argument="order",
        )
    if key is not None and schema.is_change_one:
        raise InvalidArgument(
            "key= makes parts by key hash, and under 'change-one' one neighbour would touch two parts: the record "
            "leaves one and enters another. Use order= or the file's own order. Nothing was spent.",
            argument="key",
        )
    if order is not None and order.casefold() in folded:
        raise InvalidArgument(
            f"order = {order!r} is a schema column, so it is private: when one record changes its value, others change "
            "position, and parts would no longer be disjoint. A file sorted by a private value has no safe position "
            "parts. Use a public, unique row id. Nothing was spent.",
            argument="order",
        )


def _checked_part(part: Part) -> Part:
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise InvalidArgument("part must be a pair (start, stop) of fractions. Nothing was spent.", argument="part")
    start, stop = fraction(part[0], "part"), fraction(part[1], "part")
    if not 0 <= start < stop <= 1:
        expected = "expected 0 <= start < stop <= 1. Nothing was spent."
        raise InvalidArgument(f"part = ({start}, {stop}); {expected}", argument="part")
    return start, stop


# --- cleaning and checking: one expression each -----------------------------------------------------------------------


def _cleaned(parsed: ir.Table, schema: Schema) -> ir.Table:
    """Filled, clamped, coded: total for every content, even one that appeared after the check."""
    import ibis

    fills = schema.missing if not isinstance(schema.missing, str) else {}
    columns: dict[str, Any] = {}
    for name, column in schema.columns.items():
        if isinstance(column, Bounded):
            fill = double(float(fills.get(name, column.low)))
            value, low, high = parsed[name], double(column.low), double(column.high)
            absent = value.isnull() | value.isnan()
            columns[name] = ibis.cases((absent, fill), (value < low, low), (value > high, high), else_=value)
        else:
            columns[name] = parsed[name].fill_null(column.index(fills.get(name, column.levels[0])))
    return parsed.select(*named(columns), *(name for name in (POSITION, ORDER, KEY) if name in parsed.columns))


def _check_records(source: Source, parsed: ir.Table, schema: Schema, row_id: str | None) -> None:
    """One aggregate query over all records; every fault is reported, the first one in the error's fields."""
    faults = [(name, *fault) for name in schema.columns for fault in _faults(parsed, name, schema)]
    counts = {"rows": parsed.count()} | {f"fault{i}": condition.sum() for i, (_, _, condition, _) in enumerate(faults)}
    if KEY in parsed.columns:
        counts["absent"] = parsed[KEY].isnull().sum()
    elif ORDER in parsed.columns:
        counts |= {"absent": parsed[ORDER].isnull().sum(), "distinct": parsed[ORDER].nunique()}
    source.check_unchanged()
    seen = totalled(parsed, counts, lambda question: source.run(question.to_pyarrow))
    if seen["rows"] == 0 and schema.is_change_one:
        raise InvalidData(f"The {source.kind} holds no records. Nothing was spent.", fault="no rows")
    every = [(name, fault, seen[f"fault{i}"], advice) for i, (name, fault, _, advice) in enumerate(faults)]
    met = [one for one in every if one[2] > 0]
    if met:
        sentences = [
            f"Column {name!r}, {fault}: {rows} row{'s' * (rows > 1)}; {advice}." for name, fault, rows, advice in met
        ]
        name, fault, rows, _ = met[0]
        raise InvalidData(f"{' '.join(sentences)} Nothing was spent.", column=name, fault=fault, rows=rows)
    _check_size(seen["rows"], schema)
    if row_id is not None:
        _check_ids(seen, row_id)


def totalled(rows: ir.Table, totals: Mapping[str, ir.Scalar], ask: Callable[[ir.Table], pa.Table]) -> dict[str, int]:
    """Totals over all rows by name, however many: one question, so that an engine answers all of one state of its data.

    More than `WIDEST` are asked for as several rows of one answer. A sum of no rows is null, which means 0.
    """
    import ibis

    names = list(totals)
    pieces = [names[start : start + WIDEST] for start in range(0, len(names), WIDEST)]
    if len(pieces) == 1:
        return {name: int(total or 0) for name, total in ask(rows.aggregate(**totals)).to_pylist()[0].items()}
    answers = []
    for k, piece in enumerate(pieces):
        answer = rows.aggregate(**{f"t{i}": totals[name].cast("int64") for i, name in enumerate(piece)})
        filled = {f"t{i}": ibis.literal(0, type="int64") for i in range(len(piece), WIDEST)}
        answers.append(answer.mutate(piece=ibis.literal(k, type="int64"), **filled))
    found = {int(row["piece"]): row for row in ask(ibis.union(*answers)).to_pylist()}
    return {name: int(found[k][f"t{i}"] or 0) for k, piece in enumerate(pieces) for i, name in enumerate(piece)}


def _faults(parsed: ir.Table, name: str, schema: Schema) -> list[tuple[str, Any, str]]:
    """What would not fit in one column: the fault, its condition, and how to put it right."""
    value, given, column = parsed[name], parsed[GIVEN + name], schema.columns[name]
    absent = ~given
    if isinstance(column, Levels):
        faults = [
            (
                "unknown level",
                given & value.isnull(),
                "list every level in Levels([...]); true and false are read as 1 and 0",
            )
        ]
    else:
        absent = absent | value.isnan()
        beyond = (value < double(column.low)) | (value > double(column.high))
        faults = [
            ("unparsable", given & value.isnull(), "write them as plain numbers"),
            ("infinite", value.isinf(), "infinities are never clamped; remove or repair them"),
            ("outside", beyond & ~value.isnan() & ~value.isinf(), "declare wider bounds, or outside='clamp'"),
        ]
        if schema.outside == "clamp":
            faults.pop()
    if isinstance(schema.missing, str) or name not in schema.missing:
        faults.append(("missing", absent, f"declare missing={{{name!r}: value}}, or leave those rows out"))
    return faults


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


def _check_ids(seen: dict[str, int], name: str) -> None:
    if seen["absent"]:
        why, fault = f"missing in {seen['absent']} of {seen['rows']} records; every one needs it", "missing"
    elif seen.get("distinct", seen["rows"]) != seen["rows"]:
        why, fault = f"{seen['distinct']} different ids for {seen['rows']} records; they must be unique", "duplicate"
    else:
        return
    raise InvalidData(f"Column {name!r} (order= or key=): {why}. Nothing was spent.", column=name, fault=fault)


# --- numbers and hashes, the same in every engine ---------------------------------------------------------------------


def double(value: float) -> Any:
    """A literal that every engine reads as this very double: bare decimals may be rounded twice on their way."""
    import ibis

    return ibis.literal(repr(float(value))).cast("float64")


def settled(value: Any, engine: str, grain: float = GRAIN) -> Any:
    """The same number if it is of a usual size; one far below `grain` becomes 0 or a multiple of 2^-53 grain.

    Some engines (Postgres) stop with an error where a product or a quotient of numbers that are not 0 comes out as 0.
    Whether they stop would be an exact yes or no about one record. Settled factors are 0 or at least 2^-483, so their
    product cannot vanish. From 2^54 grain on, nothing changes. To add and to take away names the value once, where a
    condition would write it twice and a nested feature exponentially often. DuckDB gives 0 by itself.
    """
    return value if engine == "duckdb" else (value + double(grain)) + double(-grain)


def indicator(condition: Any) -> Any:
    """1 where the condition holds, else 0, as a whole number; not every engine casts truth values (Postgres)."""
    import ibis

    return ibis.cases((condition, 1), else_=0).cast("int64")


def _sort_keys(order: Any, is_text: bool) -> list[Any]:
    """Row ids in their own order; in a CSV file, where all is text, whole numbers by value and before other texts."""
    return [order.try_cast("int64").asc(nulls_first=False), order.asc()] if is_text else [order.asc()]


def _unit(value: Any, column: Column, engine: str) -> Any:
    if isinstance(column, Levels):
        return value.cast("float64") / double(len(column))
    width = column.high - column.low
    return settled(value - double(column.low), engine, width * 2.0**-200) / double(width)


def _hash_sums(units: ir.Table, key: bytes, largest_n: int) -> ir.Table:
    """The count and both lanes of the fingerprint, in stages so that no engine computes a fractional part twice."""
    names = units.columns
    secrets = {name: _secrets(key, name) for name in names}
    table = units.select(*named({name: (units[name] + s.offset) * s.factor for name, s in secrets.items()}))
    table = _scrambled(table, secrets)
    lanes = {lane: _secrets(key, lane) for lane in ("__lane0", "__lane1")}
    terms = {lane: [table[name] * _secrets(key, f"{lane}|{name}").whole for name in names] for lane in lanes}
    table = _scrambled(table.select(**{lane: sum(terms[lane], s.offset) for lane, s in lanes.items()}), lanes)
    bits = min(31, 62 - largest_n.bit_length())
    sums = {lane: (table[lane] * double(2.0**bits)).floor().sum() for lane in lanes}
    return table.aggregate(__count=table.count(), **sums)


class _Secrets(NamedTuple):
    """Constants of few bits, which every engine reads alike."""

    factor: Any  # an odd number over 2^17: a whole one would send 0 and 1, or any two halves, to one hash
    whole: Any
    offset: Any
    shift: Any


def _secrets(key: bytes, name: str) -> _Secrets:
    digest = hmac.new(key, name.encode(), hashlib.sha256).digest()
    k, odd, m, b, c = (int.from_bytes(digest[i : i + 2]) for i in range(0, 10, 2))
    factor = 2**16 + k + (2 * odd + 1) / 2**17
    return _Secrets(*map(double, (factor, 2**16 + m, 1 + b / 2**16, 1 + c / 2**16)))


def _scrambled(table: ir.Table, secrets: dict[str, _Secrets]) -> ir.Table:
    """w -> {m {w} ({w} + c)} in every column."""
    table = table.select(*named({name: table[name] - table[name].floor() for name in secrets}))
    table = table.select(*named({name: table[name] * (table[name] + s.shift) * s.whole for name, s in secrets.items()}))
    return table.select(*named({name: table[name] - table[name].floor() for name in secrets}))


def _md5(text: Any) -> Any:
    import ibis

    @ibis.udf.scalar.builtin(name="md5", signature=((str,), str))
    def md5(text): ...  # type: ignore[no-untyped-def]

    return md5(text)


def _hash_word(hashed: Any, k: int, engine: str) -> Any:
    """The k-th word of a hash in hexadecimal digits, as a whole number: no engine's collation has a say in it."""
    import ibis

    if engine == "duckdb":  # it reads hexadecimal text by itself, in a tenth of the time
        return (ibis.literal("0x") + hashed.substr(k * _WORD_DIGITS, _WORD_DIGITS)).cast("int64")
    digits = ibis.literal("0123456789abcdef")
    places = range(k * _WORD_DIGITS, (k + 1) * _WORD_DIGITS)
    values = [digits.find(hashed.substr(i, 1).lower()).cast("float64") for i in places]
    # Whole doubles, exact below 2^53: an engine's own whole numbers may have 31 bits (Postgres: POSITION).
    return sum_in_order([v * double(16.0 ** (_WORD_DIGITS - 1 - i)) for i, v in enumerate(values)]).cast("int64")


def _is_at_least(words: list[Any], cut: int) -> Any:
    """Whether the number that `words` write, first word first, is at least `cut`."""
    below = (len(words) - 1) * 4 * _WORD_DIGITS
    lead, rest = divmod(cut, 2**below)
    if rest == 0:
        return words[0] >= lead
    return (words[0] > lead) | ((words[0] == lead) & _is_at_least(words[1:], rest))
