"""What is audited: for every mechanism and guarantee, statistics and schemas that have gone wrong somewhere before.

Bounds that do not contain 0, a single record, both neighbour relations, vectors whose components move together, rows
shortened in a ball with the intercept among them, tables that share a record, a table among whose cells a record is
shared, values that are absent. Each is planned by `plan` itself at every level of epsilon, so that calibration, lattice
and rounding are inside what is audited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from noisewise.errors import Unsupported
from noisewise.laws.finite import FiniteLaw, truncated_geometric
from noisewise.planning import Plan, plan
from noisewise.privacy.divergence import guarantee_beside
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import TABLE, mechanism_named
from noisewise.schema import LEAVE_OUT, Bounded, Column, Levels, Schema
from noisewise.statistics import (
    Count,
    Histogram,
    Marginals,
    Maximum,
    Mean,
    Median,
    Minimum,
    Moments,
    Quantile,
    Records,
    Statistic,
    Sum,
    TruncatedSum,
    column,
)

EPSILONS = tuple(Fraction(level) for level in ("0.01", "0.1", "0.5", "1", "2", "5", "10", "20"))
x, y = column("x"), column("y")


@dataclass(frozen=True, slots=True)
class Subject:
    """A statistic of records under a schema."""

    statistic: Statistic
    schema: Schema

    def __str__(self) -> str:
        domain = next((c for c in self.schema.columns.values() if isinstance(c, Bounded)), "levels")
        left_out = ", values left out" if self.schema.left_out else ""
        return f"{self.statistic} on {domain}, n = {self.schema.largest_n}, {self.schema.neighbours}{left_out}"


def rows_of(mechanism: str | None) -> tuple[tuple[str, type[Guarantee]], ...]:
    """The mechanism-guarantee pairs to audit: all of the validity table, or those of one mechanism."""
    rows = TABLE if mechanism is None else [mechanism_named(mechanism)]
    return tuple((row.name, kind) for row in rows for kind in row.guarantees)


def plans(mechanism: str, kind: type[Guarantee], epsilon: Fraction) -> Iterator[Plan]:
    """The plans of all subjects of a mechanism at one level; what the planner refuses is not released."""
    guarantee = guarantee_beside(kind, epsilon)
    for subject in subjects(mechanism):
        chosen: object = mechanism
        if mechanism == "finite":
            chosen = geometric_estimator(subject.schema.largest_n, epsilon)
        try:
            yield plan(subject.statistic, subject.schema, guarantee=guarantee, mechanism=chosen)
        except Unsupported:
            continue


def geometric_estimator(n: int, epsilon: Fraction) -> FiniteLaw:
    """An estimator of a proportion: the truncated geometric mechanism on counts 0..n, read as count/n."""
    return FiniteLaw(truncated_geometric(n + 1, epsilon), tuple(k / n for k in range(n + 1)))


def schema_of(low: float, high: float, n: int, neighbours: str = "change-one", *, missing: str = "refuse") -> Schema:
    """Two numeric columns with the same bounds and two with levels."""
    columns: dict[str, Column] = {
        "x": Bounded(low, high),
        "y": Bounded(low, high),
        "g": Levels(["a", "b", "c"]),
        "h": Levels(["u", "v"]),
    }
    return _sized(columns, n, neighbours, missing)


def trace_schema(n: int, neighbours: str = "change-one") -> Schema:
    """Where a record was at three times, or off."""
    return _sized({f"t{k}": Levels(["off", "a", "b"]) for k in range(3)}, n, neighbours)


def _sized(columns: dict[str, Column], n: int, neighbours: str, missing: str = "refuse") -> Schema:
    if neighbours == "change-one":
        return Schema(columns, n=n, neighbours=neighbours, missing=missing)
    return Schema(columns, n_max=n, neighbours=neighbours, missing=missing)


def subjects(mechanism: str) -> tuple[Subject, ...]:
    """What a mechanism is audited on."""
    change, add = "change-one", "add-remove"
    counts = tuple(
        Subject(statistic, schema_of(0, 3, n, neighbours))
        for neighbours, n in ((change, 1), (change, 10**6), (add, 10))
        for statistic in (Count(x.between(0, 1)), Histogram("x", [1, 2]), Marginals(["g", "h"], ["h"]))
    )
    counts += (Subject(Marginals(["g", "h"], ["h"]), schema_of(0, 3, 10, missing=LEAVE_OUT)),)
    counts += tuple(
        Subject(Marginals(["t0", "t1"], ["t1", "t2"], tied=True, null=null), trace_schema(n, neighbours))
        for neighbours, n in ((change, 1), (add, 10))
        for null in (None, "off")
    )
    ranks = (Median(x), Maximum(x), Minimum(x), Quantile(x, "0.3"), Quantile(x, "0.9"))
    order = tuple(Subject(statistic, schema_of(-1, 3, n)) for statistic in ranks for n in (1, 2, 3, 4))
    row = mechanism_named(mechanism)
    if row.added is not None:
        subject = (*_sums(change, add), *counts)
        return tuple(one for one in subject if row.serves(one.statistic))
    match mechanism:
        case "randomized-response":
            return (
                Subject(Records(x, cells=[1]), schema_of(0, 3, 2)),
                Subject(Records(x, cells=[1, 2]), schema_of(0, 3, 2)),
                Subject(Records(column("g")), schema_of(0, 3, 3)),
                Subject(Records(x.between(0, 1)), schema_of(0, 3, 3)),
            )
        case "exponential":
            return tuple(
                Subject(Quantile(x, q), schema_of(-1, 3, n)) for q in ("0.1", "0.5", "0.9") for n in (1, 2, 3, 4)
            )
        case "finite":
            return tuple(Subject(Count(x.between(0, 1)), schema_of(0, 3, n)) for n in (1, 2, 12))
    return order


def _sums(change: str, add: str) -> tuple[Subject, ...]:
    ball = Moments(["x"], "y", shrink="1.7")
    return (
        Subject(Mean(x), schema_of(0, 1, 1)),
        Subject(Mean(x), schema_of(9, 10, 1000)),
        Subject(Mean(x, x**2), schema_of(0, 250, 4000)),
        Subject(Mean(x, abs(x), x**2), schema_of(-3, 5, 10)),
        Subject(Mean(x ** Fraction(7, 10)), schema_of(0, 10, 10)),
        Subject(Mean(x * y, x - y), schema_of(-1, 2, 1)),
        Subject(Sum(x, x**2), schema_of(9, 10, 100, add)),
        Subject(Sum(x, y), schema_of(-0.3, 0.7, 100, add)),
        Subject(TruncatedSum([x], "y", -1, 1), schema_of(-3, 3, 10, add)),
        Subject(Moments(["x"], "y"), schema_of(-1, 1, 10)),
        Subject(Moments(["x"], "y"), schema_of(9, 10, 10)),
        Subject(ball, schema_of(-3, 3, 10, change)),
        Subject(ball, schema_of(-3, 3, 10, add)),
        Subject(Moments(["x"], "y", intercept=False, shrink=1), schema_of(-3, 3, 1)),
        Subject(Records(x), schema_of(-0.3, 0.7, 1)),
        Subject(Mean(x), schema_of(9, 10, 10, missing=LEAVE_OUT)),
        Subject(Mean(x, x * y), schema_of(-1, 2, 10, missing=LEAVE_OUT)),
        Subject(Moments(["x"], "y"), schema_of(9, 10, 10, missing=LEAVE_OUT)),
        Subject(Mean(x, y), schema_of(9, 10, 10, add, missing=LEAVE_OUT)),
    )
