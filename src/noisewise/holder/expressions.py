"""Numbers in questions to engines, written so that every engine reads and adds them alike.

double(x)        the very double x, not a decimal that is rounded twice on its way
settled(v)       v, or 0 where it is so small that a product could vanish (some engines stop there)
indicator(c)     1 or 0 as a whole number
totalled(...)    many totals in one question, so that all are of one state of the data
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

GRAIN = 2.0**-430  # 4e-130
WIDEST = 500  # totals in one row of an answer; Postgres gives no row of more than 1664 columns


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
