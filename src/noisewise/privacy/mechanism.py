"""Mechanisms and where they are valid.

A mechanism turns a sensitivity and a guarantee into a noise law. The table below says which mechanism gives
which kind of guarantee to which statistics; anything else is refused with the table, because a mechanism
outside its row is not weaker privacy but none.
"""

from __future__ import annotations

from dataclasses import dataclass

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP

ADDITIVE = ("mean", "sum", "count", "truncated-sum", "histogram", "marginals", "moments", "smallest-eigenvalue")
COUNTS = ("count", "histogram", "marginals")
ORDER = ("median", "maximum", "minimum")
ADD_REMOVE = ("count", "sum", "truncated-sum", "histogram", "marginals", "moments", "smallest-eigenvalue")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a mechanism, the guarantees it can give, and the statistics it can serve."""

    mechanism: str
    guarantees: tuple[type[Guarantee], ...]
    statistics: tuple[str, ...]


TABLE = (
    Row("laplace", (PureDP,), (*ADDITIVE, "records")),
    Row("gaussian", (ZeroConcentratedDP, GaussianDP, ApproxDP), (*ADDITIVE, "records")),
    Row("geometric", (PureDP,), COUNTS),
    Row("randomized-response", (PureDP,), ("records",)),
    Row("smooth-laplace", (ApproxDP,), ORDER),
    Row("smooth-cauchy", (PureDP,), ORDER),
    Row("exponential", (PureDP,), ("quantile",)),
    Row("finite", (PureDP,), ("count",)),
)

MECHANISMS = tuple(row.mechanism for row in TABLE)


def default_mechanism(kind: str, guarantee: Guarantee, *, is_categorical: bool) -> str:
    """The first mechanism of the table that serves this statistic under this guarantee."""
    if kind == "records" and is_categorical:
        return "randomized-response"
    for row in TABLE:
        if kind in row.statistics and isinstance(guarantee, row.guarantees):
            return row.mechanism
    raise Unsupported(f"No mechanism gives {kind} a guarantee of kind {guarantee.kind}.\n{validity_table()}")


def check_validity(mechanism: str, kind: str, guarantee: Guarantee, *, neighbours: str) -> None:
    """Refuse a mechanism outside its row of the table, with the table."""
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        named = ", ".join(MECHANISMS)
        raise InvalidArgument(f"mechanism = {mechanism!r:.60}; there are {named}.", argument="mechanism")
    row = TABLE[MECHANISMS.index(mechanism)]
    if kind not in row.statistics or not isinstance(guarantee, row.guarantees):
        raise Unsupported(
            f"The mechanism {mechanism!r} does not give {kind} a guarantee of kind {guarantee.kind}. "
            f"Nothing was spent. It is valid only as in this table:\n{validity_table()}"
        )
    if neighbours == "add-remove" and kind not in ADD_REMOVE:
        raise Unsupported(
            f"{kind} needs neighbours='change-one': with a private number of records only "
            f"{', '.join(ADD_REMOVE)} can be released. Nothing was spent."
        )


def validity_table() -> str:
    """The table as text."""
    lines = ["  mechanism            guarantee                                       statistics"]
    for row in TABLE:
        kinds = ", ".join(kind.__name__ for kind in row.guarantees)
        lines.append(f"  {row.mechanism:<20} {kinds:<47} {', '.join(row.statistics)}")
    return "\n".join(lines)
