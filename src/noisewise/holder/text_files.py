"""Text files of records (CSV, TSV, gzip): cut into fields strictly, by DuckDB or line by line.

The rows of a UTF-8 file are cut by DuckDB, lazily and without guessing: the separator, the quotes and the number of
fields are known before. Files in other encodings or with line ends of several kinds (CR LF, LF, CR), and files that
DuckDB's strict reader stops at, are read here by Python's csv module, as strictly, into a private DuckDB in memory. It
knows the number of the line that is at fault.

Promise: no line of more than `LONGEST_LINE` characters is held in memory, so a file without line ends costs no more
than another; what is refused is named by kind and line number, never by content.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidData
from noisewise.holder.reader import Reader
from noisewise.holder.sources import POSITION, Source, attempt, bad_data, found_in, named, private_engine, stamps_of
from noisewise.holder.suggestions import kind_of_bytes, likely_encoding, suggested_layout

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_LINE = 2**21  # characters; DuckDB's own limit is 2^21 bytes
MOST_FIELDS = 10_000
CHUNK = 2**20
BATCH = 10_000  # rows
QUOTES = {
    "broken quotes": "a quoted field does not end where it should",
    "row too long": "a field is longer than any should be; perhaps a quoted one does not end",
}


def open_text(path: Path, separator: str, wanted: Sequence[str], reader: Reader) -> Source:
    """The wanted columns of a text file, every field as text."""
    import ibis

    what, delimiter = f"The file {path.name!r}", reader.delimiter or separator
    stamps = stamps_of([str(path)])
    first = attempt(lambda: _first_row(path, wanted, delimiter, reader), what)
    names = attempt(lambda: _names(path, first, wanted, delimiter, reader), what)
    found = found_in(names, wanted, f"the file {path.name!r}, {_place_of_names(reader)}")

    def again() -> Source:
        return attempt(lambda: _loaded(path, delimiter, found, len(first), reader), what)

    if reader.encoding != "utf-8" or not attempt(lambda: _suits_engine(path), what):
        return again()
    connection = private_engine()
    text = attempt(
        lambda: connection.read_csv(
            glob.escape(str(path)),
            auto_detect=False,
            header=reader.header,
            delim=delimiter,
            quote='"',
            escape='"',
            nullstr="",
            strict_mode=True,
            null_padding=False,
            ignore_errors=False,
            compression="gzip" if _is_compressed(path) else "none",
            columns={f"c{i}": "VARCHAR" for i in range(len(first))},
        ),
        what,
    )
    expression = text.select(*named({name: text[f"c{i}"] for name, i in found.items()}))
    # DuckDB keeps the order of the lines, so the streaming row number is the line's position.
    return Source("CSV", expression, "duckdb", position=ibis.row_number(), is_text=True, stamps=stamps, again=again)


def _place_of_names(reader: Reader) -> str:
    return "whose first line must hold the column names" if reader.names is None else "by the names that were given"


def _names(path: Path, first: list[str], wanted: Sequence[str], delimiter: str, reader: Reader) -> list[str]:
    """The names of the columns; where they cannot be, what the file seems to be instead."""
    names = first if reader.names is None else list(reader.names)
    if len(names) != len(first) or not set(wanted) <= set(names):
        _suggest(path, first, wanted, delimiter, reader)
    if len(names) != len(first):
        raise InvalidData(
            f"names lists {len(names)} columns, but the first line of {path.name!r} has {len(first)} fields. Name "
            'every field, "" where it is not used. Nothing was spent.',
            fault="ragged rows",
        )
    return names


def _suggest(path: Path, first: list[str], wanted: Sequence[str], delimiter: str, reader: Reader) -> None:
    """Refuse with what the file seems to be, if it seems to be something."""
    line = next(_lines(path, reader.encoding), "")
    hint = suggested_layout(line, first, wanted, delimiter, reader.names, has_header=reader.header)
    if hint is not None:
        raise bad_data(
            f"The columns wanted are not in the file {path.name!r} as it was read: {hint.reason}",
            python=hint.python,
            toml=hint.toml,
            fault="missing column",
            column=next((name for name in wanted if name not in first), None),
        )


# --- lines and rows ---------------------------------------------------------------------------------------------------


def _first_row(path: Path, wanted: Sequence[str], delimiter: str, reader: Reader) -> list[str]:
    """The first row of a file: its header, or the fields that names are given to."""
    if path.exists() and not stat.S_ISREG(os.stat(path).st_mode) and not path.is_dir():
        raise InvalidData(
            f"{path.name!r} is a pipe or a device; give a plain file. Nothing was spent.", fault="unreadable"
        )
    broken: InvalidData | None = None
    try:
        first = next(_rows(path, reader.encoding, delimiter), None)
    except InvalidData as error:
        if error.fields["fault"] != "broken quotes":
            raise
        broken = error
    if broken is not None:  # a quote ends in the middle of a field where fields are cut at the wrong sign
        _suggest(path, [], wanted, delimiter, reader)
        raise broken
    if first is None:
        raise InvalidData(f"The file {path.name!r} is empty. Nothing was spent.", fault="empty file")
    if len(first[1]) > MOST_FIELDS:
        raise _bad_line(path, "row too long", 1, f"a row has more than {MOST_FIELDS} fields")
    if any("\0" in name for name in first[1]):
        raise _bad_encoding(path, reader.encoding, 1)
    return first[1]


def _rows(path: Path, encoding: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of the line it starts on."""
    rows = csv.reader(_lines(path, encoding), delimiter=delimiter, strict=True)
    while True:
        line, fault = rows.line_num + 1, ""
        try:
            row = next(rows, None)
        except csv.Error as error:
            row, fault = None, "row too long" if "field limit" in str(error) else "broken quotes"
        if fault:  # outside the handler: what the csv module said is not the context of what we say
            raise _bad_line(path, fault, line, QUOTES[fault])
        if row is None:
            return
        yield line, row


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a file with their ends (CR LF, LF or CR), never more than a chunk and a line in memory."""
    return chain.from_iterable(_chunks(path, encoding))


def _chunks(path: Path, encoding: str) -> Iterator[list[str]]:
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)("strict")
    pending, number = "", 1
    with _opened(path) as file:
        while True:
            chunk = file.read(CHUNK)
            text, is_good = _decoded(decoder, chunk, encoding)
            lines = io.StringIO(pending + text, newline="").readlines()
            # A CR at the end of a chunk may be the first half of a line end.
            pending = lines.pop() if lines and chunk and is_good and not lines[-1].endswith("\n") else ""
            if max(map(len, (*lines, pending))) > LONGEST_LINE:
                longest = next((k for k, line in enumerate(lines) if len(line) > LONGEST_LINE), len(lines))
                raise _bad_line(path, "row too long", number + longest, "a row is longer than any record should be")
            if not is_good:
                whole = len(lines) if not lines or lines[-1].endswith(("\n", "\r")) else len(lines) - 1
                raise _bad_encoding(path, encoding, number + whole)
            yield lines
            number += len(lines)
            if not chunk:
                return


def _decoded(decoder: codecs.IncrementalDecoder, chunk: bytes, encoding: str) -> tuple[str, bool]:
    """The text of a chunk, or as much of it as could be decoded."""
    try:
        return decoder.decode(chunk, not chunk), True
    except UnicodeDecodeError as error:
        return error.object[: error.start].decode(encoding, "ignore"), False


def _suits_engine(path: Path) -> bool:
    """Whether DuckDB reads every row of the file; it leaves some out, without a word, where line ends are mixed.

    One kind of line end, LF or CR LF, also inside quotes; and a last line that is not endless.
    """
    kinds: set[str] = set()
    length, held = 0, b""
    with _opened(path) as file:
        while chunk := file.read(CHUNK):
            chunk, held = held + chunk, b""
            if chunk.endswith(b"\r"):  # perhaps the first half of a line end
                chunk, held = chunk[:-1], b"\r"
            letters = np.frombuffer(chunk, np.uint8)
            is_return, is_feed = letters == ord("\r"), letters == ord("\n")
            returns, feeds = np.count_nonzero(is_return), np.count_nonzero(is_feed)
            pairs = np.count_nonzero(is_return[:-1] & is_feed[1:]) if returns else 0
            kinds |= {kind for kind, rows in (("LF", feeds - pairs), ("CR", returns - pairs), ("CR LF", pairs)) if rows}
            if len(kinds) > 1 or "CR" in kinds:
                return False
            end = chunk.rfind(b"\n")
            length = length + len(chunk) if end < 0 else len(chunk) - end - 1
    return not held and length < LONGEST_LINE


def _opened(path: Path) -> io.BufferedIOBase:
    return gzip.open(path, "rb") if _is_compressed(path) else open(path, "rb")


def _is_compressed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _loaded(path: Path, delimiter: str, found: dict[str, int], width: int, reader: Reader) -> Source:
    """The wanted columns read line by line into a private DuckDB."""
    import pyarrow as pa

    stamps = stamps_of([str(path)])
    batches = [_columns(rows, found) for rows in _batches(path, delimiter, width, reader)] or [_columns([], found)]
    count = sum(len(batch[0]) for batch in batches)
    arrays = {name: pa.chunked_array([batch[k] for batch in batches]) for k, name in enumerate(found)}
    arrays[POSITION] = pa.array(np.arange(count, dtype=np.int64))
    table = private_engine().create_table("records", pa.table(arrays))
    return Source("CSV", table, "duckdb", position=table[POSITION], is_text=True, stamps=stamps)


def _batches(path: Path, delimiter: str, width: int, reader: Reader) -> Iterator[list[list[str]]]:
    """Rows of the right width, many at a time. A blank line is no record, unless it is the one field of its row."""
    rows = csv.reader(_lines(path, reader.encoding), delimiter=delimiter, strict=True)
    while True:
        is_sound, batch = True, list[list[str]]()
        is_first = rows.line_num == 0
        try:
            batch = list(islice(rows, BATCH))
        except csv.Error:
            is_sound = False
        is_last = not batch
        if is_first and reader.header:
            del batch[:1]
        if [] in batch:
            batch = [row for row in batch if row] if width > 1 else [row or [""] for row in batch]
        if not is_sound or not set(map(len, batch)) <= {width}:
            raise _first_fault(path, delimiter, width, reader)
        if is_last:
            return
        if batch:
            yield batch


def _first_fault(path: Path, delimiter: str, width: int, reader: Reader) -> InvalidData:
    """The first row that is not as the others, by the number of its line; found in a second, slower reading."""
    for line, row in _rows(path, reader.encoding, delimiter):
        if row and len(row) != width:
            fields = f"it has {len(row)} field{'s' * (len(row) != 1)}, and the first line has {width}"
            return _bad_line(path, "ragged rows", line, f"a row has more or fewer fields than the first: {fields}")
    return InvalidData(f"The file {path.name!r} changed while it was read. Nothing was spent.", fault="changed")


def _columns(rows: list[list[str]], found: dict[str, int]) -> list[pa.Array]:
    """Rows as columns of text; an empty field is null, as DuckDB reads it."""
    import pyarrow as pa

    return [pa.array([row[i] or None for row in rows], pa.string()) for i in found.values()]


# --- what is wrong ----------------------------------------------------------------------------------------------------


def _bad_line(path: Path, fault: str, line: int, meaning: str) -> InvalidData:
    return InvalidData(
        f"The file {path.name!r} cannot be read ({fault}): {meaning} (line {line}). Nothing was spent.",
        fault=fault,
        line=line,
    )


def _bad_encoding(path: Path, encoding: str, line: int) -> InvalidData:
    """Not text in the encoding that was declared; what it seems to be instead."""
    with _opened(path) as file:
        beginning = file.read(CHUNK)
    known = kind_of_bytes(beginning)
    if known is not None:
        return InvalidData(f"The file {path.name!r} is {known}. Nothing was spent.", fault="not a CSV file", line=line)
    likely = likely_encoding(beginning, encoding)
    return bad_data(
        f"The file {path.name!r} cannot be read (wrong encoding): it is not {encoding.upper()} text (line {line}), and "
        f"seems to be {likely}",
        python=f"if so, say reader={{'encoding': {likely!r}}}, or save it as UTF-8",
        toml=f'if so, write encoding = "{likely}" under [data], or save it as UTF-8',
        fault="wrong encoding",
        line=line,
    )
