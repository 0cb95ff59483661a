"""Where records come from, opened without looking at them.

A source is a CSV or Parquet file, a frame in memory (pandas, Polars, Arrow, a dict of arrays) or an Ibis table
that lives in a database. Each becomes one `Source`: an Ibis expression of the columns that were asked for, and,
where the order of the rows is a fact (one file, one frame), their position in it. Nothing is guessed: every CSV
field is text until the schema says otherwise, and file and frame names are matched letter by letter.

Promise: an error names the kind of fault and, at most, a line number. Engines like to quote the line they
stumbled over, so their words are never passed on, not even as the cause of our own error.
"""

from __future__ import annotations

import glob
import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from noisewise.errors import InvalidArgument, InvalidData, NoisewiseError, Unsupported
from noisewise.printable import shown
from noisewise.schema import Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pandas as pd
    import pyarrow as pa
    from ibis.backends.duckdb import Backend as DuckDB

    from noisewise.holder.reader import Reader

T = TypeVar("T")
Stamp = tuple[str, int, int, int, int]  # path; times of the last change of text and of anything, file number, size

POSITION, ORDER, KEY = "__position", "__order", "__key"
GIVEN, RAW = "__given_", "__raw_"
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
MOST_CASES = 10_000  # in one question to an engine other than DuckDB
PARQUET = ".parquet"
BELIEVING_OPTIMIZERS = {"statistics_propagation", "filter_pushdown", "row_group_pruner", "join_filter_pushdown"}
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
FROM_SHEETS = "save the sheet as CSV, or read it with pandas.read_excel(...) and pass the frame"
FROM_AFAR = "read a remote table with Ibis and pass that"
SOURCES = (
    "a path to a .csv, .csv.gz, .tsv or .parquet file, a pandas or Polars frame, an Arrow table, "
    "a dict of arrays, or an Ibis table"
)

# What to look for in an engine's message (lower case), what we call it, and what its owner can do.
_FAULTS = (
    ("unicode", "wrong encoding", "it is not UTF-8 text; save it as UTF-8"),
    ("utf-8", "wrong encoding", "it is not UTF-8 text; save it as UTF-8"),
    ("expected number of columns", "ragged rows", "a row has more or fewer fields than the header"),
    ("unterminated quote", "broken quotes", "a quoted field does not end where it should"),
    ("maximum line size", "row too long", "a row is longer than any record should be"),
    ("state machine", "not a CSV file", "its line ends or quotes do not follow RFC 4180"),
    ("end-of-stream", "cut off", "the compressed file ends before its end; copy it again"),
    ("gzip", "not a gzip file", "it ends in .gz but is not compressed; rename it"),
    ("magic bytes", "not a Parquet file", "it ends in .parquet but holds something else"),
    ("too small to be a parquet file", "not a Parquet file", "it ends in .parquet but holds something else"),
    ("no such file", "missing file", "there is no such file"),
    ("permission denied", "unreadable", "this account may not read it"),
    ("out of memory", "out of memory", "this machine has too little memory for it"),
)
# Faults of a text file that reading it line by line may get over, or name the line of.
FAULTS_OF_LINES = ("wrong encoding", "ragged rows", "broken quotes", "row too long", "not a CSV file", "unreadable")

_LOCKS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_LOCKS_OPEN = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Records as they lie: an Ibis table of the wanted columns, and the position of a row where it has one."""

    kind: str
    expression: ir.Table
    engine: str
    position: Any = None
    is_text: bool = False
    stamps: tuple[Stamp, ...] = ()
    can_drift: bool = False  # a database may change under an open table; files are stamped and frames are copied
    again: Callable[[], Source] | None = None  # the same records read by another, slower way, for files that need it
    lock: Any = field(default_factory=threading.RLock)  # one query at a time: a connection is not safe under threads

    def run(self, act: Callable[[], T]) -> T:
        """One call into this source's engine, whichever thread asks; its words are never passed on."""
        with self.lock:
            return attempt(act, f"The {self.kind}")

    def check_unchanged(self) -> None:
        """Files are read again for every release, so one that was edited after its check is refused."""
        if self.stamps != stamps_of([path for path, *_ in self.stamps]):
            raise InvalidData(
                "The file has changed since Table.read checked it. Read it again with Table.read. Nothing was spent.",
                fault="changed",
            )


def open_source(source: object, wanted: Sequence[str], schema: Schema, reader: Reader) -> Source:
    """Open any source; refuse unknown ones, sources without the `wanted` columns, and options that do not fit it."""
    is_path = isinstance(source, str | Path)
    is_text_file = is_path and _suffix(str(source)) in SEPARATORS
    reader.check_use(schema, is_text_file=is_text_file, is_database=_is_ibis(source))
    if is_path:
        return _open_path(str(source), wanted, reader)
    if _is_ibis(source):
        return _open_ibis(source, wanted)
    if isinstance(source, Mapping):
        return _open_dict(source, wanted)
    if _is_from(source, "pandas", "DataFrame"):
        return _open_pandas(source, wanted)
    if hasattr(source, "__arrow_c_stream__") and not _is_from(source, "polars", "Series", "LazyFrame"):
        return _open_arrow("Polars frame" if _is_from(source, "polars", "DataFrame") else "Arrow table", source, wanted)
    hint = "; call .collect() first" if _is_from(source, "polars", "LazyFrame") else ""
    raise InvalidArgument(
        f"source is a {type(source).__name__}{hint}; expected {SOURCES}. Nothing was spent.", argument="source"
    )


def attempt(act: Callable[[], T], what: str) -> T:
    """Run one call into an engine; whatever it complains about, only the kind of fault comes out."""
    try:
        return act()
    except NoisewiseError:
        raise
    except Exception as error:
        fault, meaning = _diagnosis(error)
    # Raised here, outside the handler, so that the engine's error is neither its cause nor its context.
    raise InvalidData(f"{what} cannot be read ({fault}): {meaning}. Nothing was spent.", fault=fault)


def bad_data(sentence: str, *, python: str, toml: str, **fields: object) -> InvalidData:
    """A refusal that tells the way out in Python; its field `toml` is the same for those who write spec files."""
    lead = f"{sentence}; " if sentence else ""
    message, other = (f"{lead}{way}{'' if way.endswith('.') else '.'} Nothing was spent." for way in (python, toml))
    return InvalidData(message, toml=other, **fields)


def _diagnosis(error: Exception) -> tuple[str, str]:
    message = str(error).lower()
    line = re.match(r"[a-z ]*error: csv error on line: (\d+)", message)
    where = f" (line {line[1]})" if line else ""
    for phrase, fault, meaning in _FAULTS:
        if phrase in message:
            return fault, meaning + where
    advice = "; export the table to Parquet or Arrow and read that" if "NotDefined" in type(error).__name__ else ""
    return "unreadable", f"the engine stopped with {type(error).__name__}{where}{advice}"


# --- files ------------------------------------------------------------------------------------------------------------


def _open_path(name: str, wanted: Sequence[str], reader: Reader) -> Source:
    suffix = _suffix(name)
    is_directory = os.path.isdir(name)
    if "://" in name or "\0" in name or (suffix is None and not is_directory):
        is_sheet = name.lower().endswith(SHEETS)
        raise InvalidArgument(
            f"source = {shown(name, 200)} is not {SOURCES}; {FROM_SHEETS if is_sheet else FROM_AFAR}. Nothing was "
            "spent.",
            argument="source",
        )
    if suffix in SEPARATORS:
        from noisewise.holder.text_files import open_text

        return open_text(Path(name), SEPARATORS[suffix], wanted, reader)
    return _open_parquet(_parquet_files(name, is_directory), wanted)


def _suffix(name: str) -> str | None:
    return next((suffix for suffix in (*SEPARATORS, PARQUET) if name.lower().endswith(suffix)), None)


def _parquet_files(name: str, is_directory: bool) -> list[str]:
    if is_directory:
        files = sorted(glob.glob(os.path.join(glob.escape(name), "*" + PARQUET)))
    elif os.path.exists(name):
        files = [name]
    else:
        files = sorted(glob.glob(name))
    if not files:
        raise InvalidData(f"There is no Parquet file at {shown(name, 200)}. Nothing was spent.", fault="missing file")
    return files


def _open_parquet(files: list[str], wanted: Sequence[str]) -> Source:
    what = f"The file {os.path.basename(files[0])!r}" if len(files) == 1 else f"The {len(files)} Parquet files"
    stamps = attempt(lambda: stamps_of(files), what)
    connection = private_engine()
    # Only one file has a row order that is a fact; several need a row id (`order=`).
    is_single = len(files) == 1
    names = [glob.escape(file) for file in files]
    # A folder named "x=5" says nothing of the records: a column x is what the file holds.
    table = attempt(lambda: connection.read_parquet(names, hive_partitioning=False), what)
    found_in(table.columns, wanted, what.lower() if not is_single else "the" + what[3:])
    position = None
    if is_single and "file_row_number" not in table.columns:
        table = attempt(lambda: connection.read_parquet(names, hive_partitioning=False, file_row_number=True), what)
        position = table["file_row_number"]
    return Source("Parquet", table, "duckdb", position=position, stamps=stamps)


def stamps_of(paths: Sequence[str]) -> tuple[Stamp, ...]:
    facts = [(path, os.stat(path)) if os.path.exists(path) else (path, None) for path in paths]
    return tuple(
        (path, fact.st_mtime_ns, fact.st_ctime_ns, fact.st_ino, fact.st_size) if fact else (path, 0, 0, 0, -1)
        for path, fact in facts
    )


# --- frames -----------------------------------------------------------------------------------------------------------


def _open_dict(source: Mapping[Any, Any], wanted: Sequence[str]) -> Source:
    import pyarrow as pa

    found = found_in(list(source), wanted, "the dict")
    arrow = attempt(lambda: pa.table({name: source[name] for name in found}), "The dict of arrays")
    return _open_arrow("dict of arrays", arrow, wanted)


def _open_pandas(source: Any, wanted: Sequence[str]) -> Source:
    import pyarrow as pa

    found = list(found_in(list(source.columns), wanted, "the pandas frame"))
    frame = attempt(lambda: source[found].apply(_unmixed), "The pandas frame")
    arrow = attempt(lambda: pa.Table.from_pandas(frame, preserve_index=False), "The pandas frame")
    return _open_arrow("pandas frame", arrow, wanted)


def _unmixed(column: pd.Series) -> pd.Series:
    """A column in which numbers stand beside text, as sheets have them, as the text of both."""
    from pandas.api.types import infer_dtype

    is_mixed = column.dtype == object and infer_dtype(column, skipna=True).startswith("mixed")
    return column.map(str, na_action="ignore") if is_mixed else column


def _open_arrow(kind: str, source: Any, wanted: Sequence[str]) -> Source:
    """Copy the wanted columns into a private DuckDB, so that later edits of the frame change nothing."""
    import pyarrow as pa

    arrow = attempt(lambda: source if isinstance(source, pa.Table) else pa.table(source), f"The {kind}")
    found = found_in(arrow.column_names, wanted, f"the {kind}")
    columns = {name: attempt(partial(_plain, arrow.column(i)), f"The {kind}") for name, i in found.items()}
    columns[POSITION] = pa.array(np.arange(arrow.num_rows, dtype=np.int64))
    connection = private_engine()
    table = attempt(lambda: connection.create_table("records", pa.table(columns)), f"The {kind}")
    return Source(kind, table, "duckdb", position=table[POSITION])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values in a type every engine knows: categories as text, half floats as floats."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        # Not every text type can be cast to from categories; plain text always can.
        words = pa.string() if _is_text(kind.value_type) else kind.value_type
        chunks = [chunk.dictionary.cast(words).take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=words)
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    return column.cast(pa.float32()) if pa.types.is_float16(kind) else column


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


# --- databases --------------------------------------------------------------------------------------------------------


def _is_ibis(source: object) -> bool:
    if not type(source).__module__.startswith("ibis."):
        return False
    import ibis.expr.types as ir

    return isinstance(source, ir.Table)


def _open_ibis(source: Any, wanted: Sequence[str]) -> Source:
    engine: str = attempt(lambda: source.get_backend().name, "The Ibis table (no database behind it)")
    if engine == "polars":
        raise InvalidArgument(
            "source lives in Ibis's Polars engine, which lets whole-number sums overflow in silence. "
            "Pass the Polars frame itself; it is read into DuckDB. Nothing was spent.",
            argument="source",
        )
    found = found_in(source.columns, wanted, f"the {engine} table")
    if engine == "duckdb":
        attempt(lambda: look_at_every_value(source.get_backend()), "The duckdb table")
    lock = _backend_lock(source.get_backend())
    return Source(f"{engine} table", source.select(*found), engine, can_drift=True, lock=lock)


def _backend_lock(backend: Any) -> Any:
    """The lock of a connection: tables of one database share it."""
    with _LOCKS_OPEN:
        return _LOCKS.setdefault(backend, threading.RLock())


def check_cells(count: int, engine: str, what: str) -> None:
    """Refuse more cases in one question than engines other than DuckDB take in reasonable time."""
    if engine != "duckdb" and count > MOST_CASES:
        raise Unsupported(
            f"{what}, and a question to {engine} can tell at most {MOST_CASES} apart. Use coarser ones, or export the "
            "table to Parquet or Arrow and read that: DuckDB takes more. Nothing was spent."
        )


def named(columns: Mapping[str, Any]) -> list[Any]:
    """Expressions under their names. As keywords, a column `self` would be taken for an argument of the call."""
    return [expression.name(name) for name, expression in columns.items()]


# --- shared -----------------------------------------------------------------------------------------------------------


def found_in(names: Sequence[object], wanted: Sequence[str], place: str) -> dict[str, int]:
    """Where each wanted column stands. Names found are never listed: without a header they would be records."""
    lacking = [name for name in wanted if name not in names]
    if lacking:
        raise InvalidData(
            f"Column {lacking[0]!r} is not in {place}. Wanted: {', '.join(map(repr, wanted))}; names must match letter "
            "by letter. Nothing was spent.",
            column=lacking[0],
            fault="missing column",
        )
    twice = [name for name in wanted if list(names).count(name) > 1]
    if twice:
        raise InvalidData(
            f"Column {twice[0]!r} appears more than once in {place}. Rename all but one. Nothing was spent.",
            column=twice[0],
            fault="duplicate column",
        )
    return {name: list(names).index(name) for name in wanted}


def private_engine() -> Any:
    """A private DuckDB in memory. It may not spill: records belong on no disk their owner did not choose."""
    import ibis

    connection = ibis.duckdb.connect(preserve_insertion_order=True, temp_directory="")
    look_at_every_value(connection)
    return connection


def look_at_every_value(connection: DuckDB) -> None:
    """Let a DuckDB compare every value itself, instead of believing what a file says of its own values.

    A Parquet file states the least and the greatest value of a column, and NaN is neither; other statements may be
    wrong. DuckDB leaves out comparisons that are settled by them, and the clamp to the bounds is such a comparison.
    """
    known = {name for (name,) in connection.raw_sql("SELECT name FROM duckdb_optimizers()").fetchall()}
    ((disabled,),) = connection.raw_sql("SELECT current_setting('disabled_optimizers')").fetchall()
    names = sorted((known & BELIEVING_OPTIMIZERS) | set(filter(None, str(disabled or "").split(","))))
    connection.raw_sql(f"SET disabled_optimizers = '{','.join(names)}'")


def _is_from(source: object, package: str, *names: str) -> bool:
    return type(source).__module__.split(".")[0] == package and type(source).__name__ in names
