"""Records, checked once against their schema, and then total.

`Table.read` looks at every record exactly once, in one aggregate query where the data lives, and refuses what does
not fit the schema (`cleaning.py`). What passes is an Ibis expression in which a bounded column is a double in
[low, high] and a categorical one is the code of its level, for *every* content of the source, so whatever is computed
from it has the sensitivity the schema promises. `Table.check` looks in the same way and refuses nothing.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from noisewise.errors import InvalidArgument, InvalidData, Unsupported
from noisewise.exact import fraction, integer
from noisewise.holder.cleaning import Clamped, Counts, check_clamping, check_counts, checked_share, cleaned, count
from noisewise.holder.expressions import GRAIN as GRAIN
from noisewise.holder.expressions import double as double
from noisewise.holder.expressions import indicator as indicator
from noisewise.holder.expressions import settled as settled
from noisewise.holder.expressions import totalled as totalled
from noisewise.holder.fields import parse
from noisewise.holder.fingerprint import hash_sums, unit
from noisewise.holder.reader import Reader
from noisewise.holder.sources import FAULTS_OF_LINES, KEY, ORDER, POSITION, Source, named, open_source
from noisewise.schema import Schema
from noisewise.statistics.feature import sum_in_order

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from noisewise.holder.check import RecordCheck
    from noisewise.planning import Plan

Part = tuple[Fraction, Fraction]

BLOCK = "__block"
_PLACE = "__place"
_SHORTEST_KEY = 16
_HASH_BITS = 128
_HASH_WORDS = 4
_WORD_DIGITS = 8  # hexadecimal; a hash is compared in words of 32 bits, which every engine's int64 and double hold
_MD5_ENGINES = frozenset({"duckdb", "pyspark", "databricks", "postgres", "risingwave", "mysql", "snowflake"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """The records of one data set, cleaned as the schema declares. Made by `Table.read`; never changes.

    Attributes
    ----------
    schema
        What was declared.
    engine
        Where the records are asked: "duckdb" for files and frames, else the database they are in.
    order, key
        As given to `read`.
    clamped
        What the bounds moved, where a share was given; exact, for the holder alone.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=3, neighbours="change-one")
    >>> nw.Table.read({"age": [23, 45, 37]}, schema)
    Table(age; n = 3; dict of arrays on duckdb)
    """

    schema: Schema
    engine: str
    order: str | None
    key: str | None
    _source: Source
    _cleaned: ir.Table
    clamped: tuple[Clamped, ...] = ()  # what the bounds moved, where a share was given; exact, for the holder alone
    _fingerprints: dict[tuple[bytes, bool], str] = field(default_factory=dict)
    _questions: dict[tuple[bytes, bool], ir.Table] = field(default_factory=dict)  # built once

    @classmethod
    def read(
        cls,
        source: object,
        schema: Schema,
        order: str | None = None,
        key: str | None = None,
        *,
        reader: Mapping[str, object] | None = None,
        clamp_at_most: object = None,
    ) -> Table:
        """Open `source`, check every record against `schema` in one pass, and refuse what does not fit.

        Parameters
        ----------
        source
            A CSV or Parquet file, a frame, a dict of arrays, or an Ibis table.
        schema
            What is public about the records.
        order
            A public, unique row id outside the schema (change-one); serves only parts, is never released.
        key
            The column that says whose record it is (add-remove); serves only parts, is never released.
        reader
            How the file writes its fields, as in `[data]` of a spec: `{"delimiter": ";", "decimal": ","}`.
            Default: comma, point, UTF-8, a header line.
        clamp_at_most
            The largest share of a column, from 0 to 1, that may lie outside its bounds and be clamped;
            above it the read is refused. Default None: any share. With one, `clamped` says what was moved.

        Returns
        -------
        Table
            The cleaned records. Whatever is computed from them has the sensitivity that the schema promises.

        Examples
        --------
        >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=2, neighbours="change-one")
        >>> nw.Table.read({"age": [23, 95]}, schema, clamp_at_most=0.5)
        Table(age; n = 2; dict of arrays on duckdb)
        """
        most = None if clamp_at_most is None else checked_share(clamp_at_most)
        is_told = most is not None
        opened, parsed, counts = counted(source, schema, order, key, Reader.of(reader), is_clamping_told=is_told)
        check_counts(counts, opened, parsed, schema, order or key)
        clamped = counts.clamped(schema) if schema.outside == "clamp" else ()
        if most is not None:
            check_clamping(clamped, most)
        return cls(schema, opened.engine, order, key, opened, cleaned(parsed, schema), clamped)

    @classmethod
    def check(
        cls,
        source: object,
        schema: Schema,
        *,
        plans: Sequence[Plan] = (),
        order: str | None = None,
        key: str | None = None,
        reader: Mapping[str, object] | None = None,
    ) -> RecordCheck:
        """Look at records before anything is paid, without refusing what does not fit: for the holder's eyes only.

        Parameters
        ----------
        source, schema, order, key, reader
            As for `read`.
        plans
            What is to be released; for each the check tells what clamping does to it.

        Returns
        -------
        RecordCheck
            Counts and shares by column. It is exact, not private: it is not for publication.

        Examples
        --------
        >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=3, neighbours="change-one")
        >>> nw.Table.check({"age": [23, 95, -1]}, schema).column("age").above
        1
        """
        from noisewise.holder.check import record_check

        return record_check(source, schema, plans, order, key, Reader.of(reader))

    @property
    def expression(self) -> ir.Table:
        """Every record, cleaned: the schema's columns, whether they are present where they may not be, nothing else."""
        return self._cleaned.select(*self.schema.completed().columns)

    def rows(self, part: Part | None = None) -> ir.Table:
        """The cleaned records of one part: by position under change-one, by key hash under add-remove."""
        if part is None:
            return self.expression
        start, stop = _checked_part(part)
        if self.schema.is_change_one:
            return self._between(*self._positions(start, stop)).select(*self.schema.completed().columns)
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
        return hashed.filter(inside).select(*self.schema.completed().columns)

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
                self._questions[key, arranged] = hash_sums(self._units(arranged), key, self.schema.largest_n)
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
        """Each column on [0, 1] by name, whether it is present, and the record's place if it counts."""
        table, place = self._cleaned, dict[str, Any]()
        if arranged and self.schema.is_change_one:
            table = self._positioned()
            place = {_PLACE: table[POSITION].cast("float64") / double(self.schema.largest_n)}
        elif arranged:
            table, words = self._hashed()
            place = {word: table[word].cast("float64") / double(16.0**_WORD_DIGITS) for word in words}
        columns = self.schema.completed().columns
        units = {name: unit(table[name], columns[name], self.engine) for name in sorted(columns)}
        return table.select(*named(units | place))


def counted(
    source: object, schema: Schema, order: str | None, key: str | None, reader: Reader, *, is_clamping_told: bool = True
) -> tuple[Source, ir.Table, Counts]:
    """The source opened, its fields parsed, and what does not fit counted in one pass.

    Where the engine cannot read a text file it is read again line by line, which takes more kinds of line ends and
    knows the number of the line that is at fault.
    """
    if not isinstance(schema, Schema):
        raise InvalidArgument(f"schema must be a Schema, not a {type(schema).__name__}.", argument="schema")
    _check_names(schema, order, key)
    wanted = dict.fromkeys([*schema.columns, *(name for name in (order, key) if name is not None)])
    opened = open_source(source, list(wanted), schema, reader)
    parsed = parse(opened, schema, reader, order=order, key=key)
    try:
        return opened, parsed, count(opened, parsed, schema, is_clamping_told=is_clamping_told)
    except InvalidData as error:
        if opened.again is None or error.fields.get("fault") not in FAULTS_OF_LINES:
            raise
    again = opened.again()  # outside the handler: nothing that the engine said is its context
    parsed = parse(again, schema, reader, order=order, key=key)
    return again, parsed, count(again, parsed, schema, is_clamping_told=is_clamping_told)


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


# --- numbers and hashes, the same in every engine ---------------------------------------------------------------------


def _sort_keys(order: Any, is_text: bool) -> list[Any]:
    """Row ids in their own order; in a CSV file, where all is text, whole numbers by value and before other texts."""
    return [order.try_cast("int64").asc(nulls_first=False), order.asc()] if is_text else [order.asc()]


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
