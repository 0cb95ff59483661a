"""A table of measurements: CSV, JSON or Parquet, one published number (or vector) in each row.

    statistic               value     noise       scale    dataset     source
    mean(age)               37.2      laplace     0.5      registry    annual report
    count(equals(ill, yes)) 120       geometric   2        registry    annual report

`statistic` is text of the whitelist grammar, `value` and `scale` numbers or JSON lists of them; the sd where noise is
`gaussian` or `discrete-gaussian`. `dataset` and `source` may be left out.

A file may come from a stranger: its columns are looked at before its rows, and a Parquet file, which can say little at
great length, is measured by what it would unfold to.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import cast

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.files import checked_path, read_file, read_json
from noisewise.imports.tools import MOST_ROWS, Row, table_rows
from noisewise.laws import StatedNoise, gaussian_noise, geometric_noise, laplace_noise
from noisewise.measuring import MOST_NUMBERS, Measurement, measurement
from noisewise.printable import printable, shown
from noisewise.schema import Schema
from noisewise.statistics import statistic

__all__ = ["table"]

LARGEST_FILE, UNFOLDED = 20 * 2**20, 100 * 2**20
NEEDED, KNOWN = ("statistic", "value", "noise", "scale"), ("statistic", "value", "noise", "scale", "dataset", "source")


def table(source: object, schema: Schema) -> list[Measurement]:
    """Measurements from a table with the columns statistic, value, noise, scale (and dataset, source).

    Parameters
    ----------
    source
        A path to a .csv, .json or .parquet file; or a Polars or pandas frame, or rows as mappings.
    schema
        The public facts of the records that all of them are of.

    Returns a list of Measurement, in the order of the rows. `noise` is laplace (scale), gaussian (its sd), geometric or
    discrete-gaussian.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(0, 100)}, n=1200, neighbours="change-one")
    >>> nw.imports.table([{"statistic": "mean(age)", "value": 37.2, "noise": "laplace", "scale": 0.5}], schema)
    [<Measurement mean(age) of 1200 records, measured elsewhere; its privacy is the publisher's word: 37.2>]
    """
    is_path = "isprintable" in dir(source) or "__fspath__" in dir(source)
    rows = _read(cast("str | os.PathLike[str]", source)) if is_path else table_rows(source, "source")
    if not rows:
        raise InvalidArgument("The table has no row.", argument="source")
    return [_measured(row, schema, number) for number, row in enumerate(rows, start=1)]


def _read(path: str | os.PathLike[str]) -> list[Row]:
    file = checked_path(path)
    ending = Path(file).suffix.lower()
    if ending not in (".csv", ".json", ".parquet"):
        raise InvalidArgument(f"{printable(path)} is no .csv, .json or .parquet file.", argument="source")
    data = read_file(file, largest=LARGEST_FILE, refuse=lambda text: InvalidArgument(text, argument="source"))
    try:
        if ending == ".json":
            return table_rows(read_json(data), "source")
        return _parquet_rows(data) if ending == ".parquet" else _csv_rows(data.decode("utf-8-sig"))
    except NoisewiseError:
        raise
    except (ValueError, csv.Error, OSError):  # OSError: of Parquet pages that cannot be unfolded
        raise InvalidArgument(
            f"{printable(path)} cannot be read as a table of measurements.", argument="source"
        ) from None


def _csv_rows(text: str) -> list[Row]:
    """The rows of a CSV file; a row that is longer or shorter than its header is none."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = next(lines, [])
    _check_columns(header)
    rows: list[Row] = []
    for line in lines:
        if not line:
            continue
        if len(rows) == MOST_ROWS or len(line) != len(header):
            fault = (
                f"has {len(line)} fields under {len(header)} columns" if len(rows) < MOST_ROWS else "is one too many"
            )
            raise InvalidArgument(f"Row {len(rows) + 1} {fault}.", argument="source")
        rows.append(dict(zip(header, line, strict=True)))
    return rows


def _parquet_rows(data: bytes) -> list[Row]:
    """The rows of a Parquet file that unfolds to no more than a table may hold."""
    import pyarrow
    from pyarrow import compute, parquet

    schema = parquet.read_schema(io.BytesIO(data))
    _check_columns(list(schema.names))
    texts = [one.name for one in schema if str(one.type).endswith(("string", "binary"))]
    file = parquet.ParquetFile(io.BytesIO(data), read_dictionary=texts)  # a text that is repeated is kept once
    parts = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
    chunks = [part.column(j) for part in parts for j in range(part.num_columns)]
    most = max((chunk.num_values for chunk in chunks), default=0)
    if (
        file.metadata.num_rows > MOST_ROWS
        or most > MOST_NUMBERS
        or sum(chunk.total_uncompressed_size for chunk in chunks) > UNFOLDED
    ):
        raise InvalidArgument("The table is too large to be read.", argument="source")
    found = file.read()
    told = [chunk for column in found.columns for chunk in column.chunks if pyarrow.types.is_dictionary(chunk.type)]
    longest = max((compute.max(compute.binary_length(one.dictionary)).as_py() or 0 for one in told), default=0)
    if longest * file.metadata.num_rows > UNFOLDED:
        raise InvalidArgument("The table is too large to be read.", argument="source")
    return cast("list[Row]", found.to_pylist())


def _check_columns(names: list[str]) -> None:
    """Refuse columns that are unknown, or there twice."""
    unknown = [name for name in names if name not in KNOWN]
    twice = [name for name in names if names.count(name) > 1] if not unknown else []
    if unknown or twice:
        fault = f"has a column {unknown[0]!s:.40}" if unknown else f"has the column {twice[0]} twice"
        raise InvalidArgument(f"The table {fault}; its columns are {', '.join(KNOWN)}.", argument="source")


def _measured(row: Row, schema: Schema, number: int) -> Measurement:
    missing = [name for name in NEEDED if row.get(name) in (None, "")]
    unknown = [name for name in row if name not in KNOWN]
    if missing or unknown:
        fault = f"lacks {missing[0]}" if missing else f"has a column {unknown[0]!s:.40}"
        raise InvalidArgument(f"Row {number} {fault}; the columns are {', '.join(KNOWN)}.", argument="source")
    try:
        return measurement(
            statistic(str(row["statistic"])),
            schema,
            _numbers(row["value"]),
            noise=_noise(str(row["noise"]).strip().lower(), _numbers(row["scale"])),
            dataset=str(row["dataset"]) if row.get("dataset") else None,
            source=str(row.get("source") or ""),
        )
    except NoisewiseError as error:
        raise InvalidArgument(f"Row {number}: {error}", argument="source") from None


def _numbers(given: object) -> object:
    """A number, or a JSON list of them as a text field holds it; other text is none, whatever Python makes of it."""
    if "isprintable" not in dir(given):
        return given
    try:
        return json.loads(str(given))
    except (ValueError, RecursionError):
        return None


def _noise(kind: str, scale: object) -> StatedNoise:
    spread = cast(float, scale)
    if kind == "laplace":
        return laplace_noise(scale=spread)
    if kind == "geometric":
        return geometric_noise(scale=spread)
    if kind in ("gaussian", "discrete-gaussian"):
        return gaussian_noise(sd=spread, discrete=kind != "gaussian")
    raise InvalidArgument(
        f"noise = {shown(kind, 40)}: it is laplace, gaussian, geometric or discrete-gaussian.",
        argument="noise",
    )
