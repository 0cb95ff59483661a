"""Seven records with an income and a region in every form, and a read that is refused without a word about values."""

from __future__ import annotations

import gzip
import hmac
import math
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisewise.errors import NoisewiseError
from noisewise.holder.table import Table
from noisewise.schema import Bounded, Levels, Schema

KEY = b"a secret of the holder, 32 bytes"
REGIONS = ["north", "south", "east"]
HALVES = ((Fraction(0), Fraction(1, 2)), (Fraction(1, 2), Fraction(1)))
NUMBERS = [3.5, -1.0, 251.0, 0.1, 250.0, 1e-300, 17.25]
CLAMPED = [3.5, 0.0, 250.0, 0.1, 250.0, 1e-300, 17.25]
PLACES = ["south", "north", "east", "east", "south", "north", "north"]
CODES = [1, 0, 2, 2, 1, 0, 0]


def schema(n: int = 7, **changes: Any) -> Schema:
    columns = {"income": Bounded(0, 250), "region": Levels(REGIONS)}
    return Schema(columns, **({"n": n, "neighbours": "change-one"} | changes))


def one(column: Bounded | Levels, n: int, **changes: Any) -> Schema:
    return Schema({"x": column}, **({"n": n, "neighbours": "change-one"} | changes))


def records() -> pa.Table:
    return pa.table({"id": list(range(100, 107)), "region": PLACES, "income": NUMBERS})


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def as_text(table: pa.Table, separator: str = ",") -> str:
    rows = [table.column_names, *zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return "".join(separator.join("" if v is None else str(v) for v in row) + "\n" for row in rows)


def values(table: Table, expression: Any = None) -> list[tuple[Any, ...]]:
    rows = table.execute(table.expression if expression is None else expression).to_pylist()
    return [tuple(row.values()) for row in rows]


def foreign(table: pa.Table) -> Any:
    return ibis.duckdb.connect().create_table("people", table)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda d: write(d / "r.csv", as_text(records())),
    "csv.gz": lambda d: str(write(d / "r.csv.gz", as_text(records()))),
    "tsv": lambda d: write(d / "r.tsv", as_text(records(), "\t")),
    "crlf, bom, quotes": lambda d: write(
        d / "r.csv", "\ufeff" + as_text(records()).replace("south", '"south"').replace("\n", "\r\n")
    ),
    "parquet": lambda d: (pa.parquet.write_table(records(), d / "r.parquet"), d / "r.parquet")[1],
    "parquet directory": lambda d: (
        pa.parquet.write_table(records()[:3], d / "a.parquet"),
        pa.parquet.write_table(records()[3:], d / "b.parquet"),
        d,
    )[2],
    "pandas": lambda _: records().to_pandas(),
    "pandas categories": lambda _: records().to_pandas().astype({"region": "category"}),
    "polars": lambda _: pl.from_arrow(records()),
    "arrow": lambda _: records(),
    "dict": lambda _: {"income": np.array(NUMBERS), "region": PLACES, "id": np.arange(100, 107)},
    "ibis": lambda _: foreign(records()),
}


CANARY = "83751.90642"
WORD = "Quetzalcoatl"


def refusal(source: object, declared: Schema, **options: Any) -> NoisewiseError:
    """The error of a read, after checking that it says nothing about any value, anywhere."""
    with pytest.raises(NoisewiseError) as caught:
        Table.read(source, declared, **options)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert str(error).endswith("Nothing was spent.")
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(error.fields)
    for secret in (CANARY, WORD, CANARY.split(".")[0], WORD[1:-1]):
        assert secret not in told
    return error


def keyed(n_max: int = 1000) -> Schema:
    return Schema({"x": Bounded(0, 1000)}, n_max=n_max, neighbours="add-remove")


def python_fingerprint(incomes: list[float], codes: list[int], key: bytes = KEY) -> str:
    """The formula in Python floats and integers, as another engine would compute it."""

    def constants(name: str) -> tuple[float, float, float, float]:
        d = hmac.digest(key, name.encode(), "sha256")
        k, odd, m, b, c = (256 * d[i] + d[i + 1] for i in range(0, 10, 2))
        return 65536 + k + (odd + 0.5) / 65536, 65536.0 + m, 1 + b / 65536, 1 + c / 65536

    def q(w: float, name: str) -> float:
        _, m, _, c = constants(name)
        w -= math.floor(w)
        w = w * (w + c) * m
        return w - math.floor(w)

    def v(u: float, name: str) -> float:
        k, _, b, _ = constants(name)
        return q((u + b) * k, name)

    lanes = [0, 0]
    bits = min(31, 62 - len(codes).bit_length())
    for x, code in zip(incomes, codes, strict=True):
        hashed = {"income": v(x / 250.0, "income"), "region": v(code / 3.0, "region")}
        for i, lane in enumerate(("__lane0", "__lane1")):
            w = constants(lane)[2]
            for name, value in hashed.items():
                w = w + value * constants(f"{lane}|{name}")[1]
            lanes[i] += math.floor(q(w, lane) * 2.0**bits)
    text = f"noisewise-fingerprint/1|change-one|False|{len(codes)}|{lanes[0]}|{lanes[1]}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()
