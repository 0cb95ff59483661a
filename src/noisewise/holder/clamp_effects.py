"""What the clamp does to a planned statistic: as released, beside the rows inside the bounds alone.

A mean of all rows stands beside the mean of those in which nothing was clamped or filled in; a sum or a count beside
what it would be if all rows were like those. An order statistic is some record's own value, so only its place among
the rows is told. Averages are shown of at least `FEWEST` rows, by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, NamedTuple

from noisewise.errors import Unregistered
from noisewise.holder.algebra import IbisAlgebra
from noisewise.holder.check_text import FEWEST
from noisewise.holder.expressions import double, indicator
from noisewise.planning import Plan
from noisewise.schema import Schema, presence_name
from noisewise.statistics import Histogram, Marginals, Moments, Records, SmallestEigenvalue
from noisewise.statistics.additive import FeatureSums
from noisewise.statistics.feature import Feature
from noisewise.statistics.grouped import GroupedSums
from noisewise.statistics.order import OrderStatistic

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

FEW = f"fewer than {FEWEST} rows inside the bounds enter it, so it is not shown"
MEAN, TOTAL = "by the rows inside the bounds alone", "if all rows were like those inside the bounds"


@dataclass(frozen=True, slots=True)
class Effect:
    """One component of a statistic: as it would be released (before noise), and by the rows inside the bounds."""

    label: str
    released: float | None
    inside: float | None
    words: str  # what `inside` is; where there are no numbers, all there is to say


def totals_of(conditions: Iterable[ir.Value]) -> dict[str, ir.Value]:
    return {f"t{i}": indicator(condition).sum() for i, condition in enumerate(conditions)}


@dataclass(frozen=True, slots=True)
class Sides:
    """The cleaned rows that a release would take, and which of them lie inside the bounds by themselves."""

    schema: Schema
    engine: str
    ask: Callable[[ir.Table], pa.Table]
    rows: ir.Table
    inside: ir.Value
    plan: Plan
    taken: int
    n_inside: int

    @property
    def labels(self) -> tuple[str, ...]:
        return self.plan.statistic.labels(self.schema)

    def sums(self, values: Sequence[ir.Value]) -> list[tuple[float, float]]:
        """The sum over all rows and over those inside, for each value."""
        import ibis

        totals: dict[str, ir.Value] = {}
        for k, value in enumerate(values):
            totals[f"a{k}"] = ibis.cases((self.inside, value), (~self.inside, value)).sum()  # also of a constant
            totals[f"b{k}"] = ibis.cases((self.inside, value), else_=double(0.0)).sum()
        (seen,) = self.ask(self.rows.aggregate(**totals)).to_pylist()
        return [(float(seen[f"a{k}"] or 0), float(seen[f"b{k}"] or 0)) for k in range(len(values))]

    def entering(self, values: Sequence[ir.Value]) -> list[int]:
        """How many rows inside the bounds give a value something to add: a few of them would be told one by one."""
        import ibis

        enters = {
            f"c{k}": ibis.cases((self.inside & (value != double(0.0)), 1), else_=0).sum()
            for k, value in enumerate(values)
        }
        (seen,) = self.ask(self.rows.aggregate(**enters)).to_pylist()
        return [int(seen[f"c{k}"] or 0) for k in range(len(values))]

    def values(self, features: Sequence[Feature]) -> list[ir.Value]:
        algebra, memory = IbisAlgebra(self.rows, self.schema.completed(), self.engine), dict[Feature, object]()
        return [feature.fold(algebra, memory) for feature in features]


# --- what the clamp does, by kind of statistic ------------------------------------------------------------------------


def _no_effects(_sides: Sides) -> list[Effect]:
    return []


class Look(NamedTuple):
    """Which columns a statistic reads, and how each of its components is shown; by default only rows are counted."""

    columns: tuple[str, ...]
    effects: Callable[[Sides], list[Effect]] = _no_effects


def _read(features: Iterable[Feature]) -> tuple[str, ...]:
    return tuple(sorted(frozenset[str]().union(*(feature.columns() for feature in features))))


@singledispatch
def look_at(statistic: object, schema: Schema) -> Look:
    """How to look at a kind of statistic; what is not registered is refused."""
    raise Unregistered(
        f"It is not known how {statistic} reads {', '.join(schema.columns)}; check without it. Nothing was spent.",
        piece="look_at",
    )


@look_at.register
def _(statistic: FeatureSums, schema: Schema) -> Look:
    """A mean of all beside the mean of those inside; a sum beside the sum if all were like those inside.

    Beside sums and counts of those present also their ratio, the mean that is read off them.
    """
    row = statistic.row(schema)

    def effects(sides: Sides) -> list[Effect]:
        is_mean = sides.plan.divisor > 1
        unit, whole = (1, sides.taken) if is_mean else (sides.taken, 1)
        values = sides.values(row)
        sums, entering = sides.sums(values), sides.entering(values)
        told = [
            Effect(label, every / whole, part / sides.n_inside * unit, MEAN if is_mean else TOTAL)
            for label, (every, part) in zip(sides.labels, sums, strict=True)
        ]
        shown = [
            one if least >= FEWEST else Effect(one.label, None, None, FEW)
            for one, least in zip(told, entering, strict=True)
        ]
        for one in statistic.averages(schema):  # of those present: what is read off a sum and its count
            label = f"mean({one.feature}) of those present"
            every, part = (sums[one.total][k] / max(sums[one.count][k], 1.0) for k in (0, 1))
            is_shown = min(entering[one.total], entering[one.count]) >= FEWEST
            shown.append(Effect(label, every, part, MEAN) if is_shown else Effect(label, None, None, FEW))
        return shown

    return Look(tuple(name for name in _read(row) if name in schema.columns), effects)


@look_at.register
def _(statistic: GroupedSums, _schema: Schema) -> Look:
    """Only rows are counted: a group may be one person's."""
    return Look(statistic.columns())


@look_at.register
def _(statistic: Moments, schema: Schema) -> Look:
    look = look_at.dispatch(FeatureSums)(statistic, schema)
    return look if statistic.block == 1 else Look(look.columns)  # averaged rows are no sums over single records


@look_at.register
def _(statistic: Histogram, schema: Schema) -> Look:
    """Clamped values are counted in the first and the last cell."""
    edges, labels = statistic.inner_edges(schema), statistic.labels(schema)

    def effects(sides: Sides) -> list[Effect]:
        if not edges:
            return []
        value = sides.rows[statistic.column]
        ends = [indicator(value < double(edges[0])), indicator(value >= double(edges[-1]))]
        if statistic.column in schema.left_out:
            ends = [end * sides.rows[presence_name(statistic.column)] for end in ends]
        return [
            Effect(label, every, part / sides.n_inside * sides.taken, TOTAL)
            for label, (every, part) in zip((labels[0], labels[-1]), sides.sums(ends), strict=True)
        ]

    return Look((statistic.column,), effects)


@look_at.register
def _(statistic: Marginals, schema: Schema) -> Look:
    return Look(tuple(name for name in schema.columns if any(name in clique for clique in statistic.cliques)))


@look_at.register
def _(statistic: SmallestEigenvalue, schema: Schema) -> Look:
    return Look(_read(statistic.gram_row(schema)))


@look_at.register
def _(statistic: Records, schema: Schema) -> Look:
    return Look(tuple(name for name in schema.columns if name in statistic.feature.columns()))


@look_at.register
def _(statistic: OrderStatistic, schema: Schema) -> Look:
    """Only the place of the value among the rows inside: the value itself is some record's."""

    def effects(sides: Sides) -> list[Effect]:
        import ibis

        (value,) = sides.values([statistic.feature])
        rank = min(max(statistic.rank(sides.taken), 1), sides.taken)
        ranked = sides.rows.select(value.name("value"))
        ranked = ranked.mutate(rank=ibis.row_number().over(order_by=ranked["value"]))
        found = sides.ask(ranked.filter(ranked["rank"] == rank - 1).select("value"))
        below = value < double(float(found["value"][0].as_py()))
        seen = sides.ask(sides.rows.aggregate(**totals_of([below, sides.inside & below]))).to_pylist()[0]
        every, part = (
            100 * (total or 0) / of for total, of in zip(seen.values(), (sides.taken, sides.n_inside), strict=True)
        )
        words = f"{every:.1f} % of all rows lie below it, and {part:.1f} % of the rows inside the bounds"
        return [Effect(str(statistic), None, None, words)]

    return Look(tuple(name for name in schema.columns if name in statistic.feature.columns()), effects)
