"""Statistics on records: integers on the lattice, computed where the data lives.

`IbisRows` is the holder's back end of `statistics.Rows`. Features become Ibis expressions (`algebra.py`), rounded to
the lattice, clamped, and summed as 64-bit integers by the database: the result does not depend on row order, chunking
or engine. Order statistics fetch only the ranks that can matter. Nothing here adds noise or leaves the holder's wing;
`curator.py` does both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise.errors import InvalidData
from noisewise.holder.algebra import IbisAlgebra, cell_of, check_sizes, lattice_integer, product, reads_rows, staged
from noisewise.holder.sources import check_cells
from noisewise.holder.table import BLOCK, Table, double, indicator, totalled
from noisewise.lattice import Lattice
from noisewise.planning import Plan
from noisewise.schema import presence_name
from noisewise.statistics.feature import Feature, sum_in_order
from noisewise.statistics.protocol import Blocks, Cells, Whole, Window


def lattice_values(table: Table, plan: Plan) -> tuple[int, ...]:
    """The noise-free value of a plan in lattice steps: whole numbers, the same on every engine."""
    (values,) = plan.statistic.evaluate(IbisRows(table, plan), plan.lattice).tolist()
    return tuple(values)


class IbisRows:
    """The records of a plan's part as a database sees them: the one data set there is (see `statistics.Rows`)."""

    def __init__(self, table: Table, plan: Plan) -> None:
        self.table, self.part, self.schema = table, plan.part, plan.part_schema
        self.complete = self.schema.completed()
        self.engine = table.engine

    @property
    def n(self) -> int:
        return self.schema.largest_n

    def sums(self, features: Sequence[Feature], lattice: Lattice) -> Whole:
        rows, memory = staged(self._rows(), features, self.complete, self.engine)
        algebra = IbisAlgebra(rows, self.complete, self.engine)
        return self._summed(rows, [feature.fold(algebra, memory) for feature in features], lattice, self.schema.n)

    def group_sums(self, features: Sequence[Feature], groups: Cells, lattice: Lattice) -> Whole:
        """One scan, grouped by the database; a group that nobody is in is filled up with nothing."""
        rows, memory = staged(self._rows(), features, self.complete, self.engine)
        algebra = IbisAlgebra(rows, self.complete, self.engine)
        values = [feature.fold(algebra, memory) for feature in features]
        reading = {f"s{k}": value for k, value in enumerate(values) if reads_rows(value)}
        rows = rows.mutate(
            __group=self._cell(rows, groups),
            **{name: lattice_integer(value, lattice, int(name[1:]), self.engine) for name, value in reading.items()},
        )
        # Summed above the lowest integer: only the width of the range has to fit into 62 bits.
        totals = {name: (rows[name] - lattice.low[int(name[1:])]).sum() for name in reading}
        found = self.table.execute(rows.group_by("__group").aggregate(rows=rows.count(), **totals)).to_pylist()
        if self.schema.n is not None and sum(int(row["rows"]) for row in found) != self.schema.n:
            raise changed_records()
        sums = [[0] * len(features) for _ in range(groups.size)]
        for row in found:
            count = int(row["rows"])
            if int(row["__group"]) < 0:  # records whose group is missing
                continue
            sums[int(row["__group"])] = [
                int(row.get(f"s{k}") or 0) + lattice.low[k] * count if f"s{k}" in reading else count * lattice.high[k]
                for k in range(len(features))
            ]
        return _only([value for own in sums for value in own])

    def block_sums(self, blocks: Blocks, lattice: Lattice) -> Whole:
        rows, memory = staged(self.table.blocks(blocks.block, self.part), blocks.entries, self.schema, self.engine)
        algebra, fine = IbisAlgebra(rows, self.schema, self.engine), blocks.fine
        integers = {
            f"e{k}": lattice_integer(entry.fold(algebra, memory), fine, k, self.engine).sum()
            for k, entry in enumerate(blocks.entries)
        }
        grouped = rows.group_by(BLOCK).aggregate(**integers)
        sums = [grouped[f"e{k}"].cast("float64") * double(fine.step[k]) for k in range(len(blocks.entries))]
        values = []
        for monomial, divisor in zip(blocks.monomials, blocks.divisors, strict=True):
            value = sums[monomial[0]]
            for i in monomial[1:]:
                value = product(value, sums[i], self.engine)
            values.append(value if divisor == 1 else value / double(divisor))
        return self._summed(grouped, values, lattice, self.n // blocks.block)

    def counts(self, tables: Sequence[Cells]) -> Whole:
        counted: list[int] = []
        for cells in tables:
            rows = self._rows()
            counted.extend(self._cell_counts(rows.select(cell=self._cell(rows, cells)), cells.size))
        return _only(counted)

    def shared_counts(self, tables: Sequence[Cells], *, unit: int, left_out: int | None) -> Whole:
        """Counted by cell and by the number K of cells that share a record: each gets unit/K of it."""
        import ibis

        rows = self._rows()
        names = [f"cell{k}" for k in range(len(tables))]
        rows = rows.select(**{name: self._cell(rows, cells) for name, cells in zip(names, tables, strict=True)})
        if left_out is None:
            sharers = ibis.literal(len(names), type="int64")
        else:
            sharers = sum_in_order([indicator(rows[name] != left_out) for name in names])
        rows = rows.mutate(sharers=sharers)
        steps = ibis.union(*(rows.select("sharers", cell=rows[name]) for name in names))
        counted = steps.group_by(["cell", "sharers"]).aggregate(count=steps.count())
        totals = [0] * tables[0].size
        for row in self.table.execute(counted).to_pylist():
            if row["cell"] != left_out:
                totals[int(row["cell"])] += int(row["count"]) * (unit // int(row["sharers"]))
        return _only(totals)

    def window(self, feature: Feature, lattice: Lattice, *, rank: int, reach: int) -> Window:
        import ibis

        first, last = max(1, rank - reach), min(self.n, rank + reach)
        rows = self._lattice_column(feature, lattice)
        if self.engine == "duckdb":
            nearby = rows.order_by(rows.q).limit(last - first + 1, offset=first - 1)
        else:  # not every engine has OFFSET
            ranked = rows.mutate(rank=ibis.row_number().over(order_by=rows.q))
            nearby = ranked.filter((ranked.rank >= first - 1) & (ranked.rank < last)).select("q")
        return Window(np.sort(self._column(nearby)), first)

    def rank_below(self, feature: Feature, lattice: Lattice, point: int) -> int:
        rows = self._lattice_column(feature, lattice)
        counted = rows.aggregate(count=indicator(rows.q < point).sum())
        return int(self.table.execute(counted)["count"][0].as_py() or 0)

    def answers(self, feature: Feature, lattice: Lattice) -> Whole:
        return self._column(self._lattice_column(feature, lattice))

    def answered_cells(self, feature: Feature, edges: tuple[float, ...] | None) -> Whole:
        check_sizes([feature], self.schema, self.engine)
        rows = self._rows()
        value = feature.fold(IbisAlgebra(rows, self.schema, self.engine))
        if edges is None:
            return self._column(rows.select(q=value.cast("int64")))
        check_cells(len(edges), self.engine, f"Answers are in {len(edges) + 1} cells")
        return self._column(rows.select(q=cell_of(value, edges)))

    def _rows(self) -> Any:
        return self.table.rows(self.part)

    def _cell(self, rows: Any, cells: Cells) -> Any:
        """The cell of each row: of a column cut at edges, or of a clique of columns with levels."""
        import ibis

        if cells.edges is not None:
            check_cells(len(cells.edges), self.engine, f"The histogram has {len(cells.edges) + 1} cells")
            index = cell_of(rows[cells.columns[0]], cells.edges)
        else:
            index = rows[cells.columns[0]]
            for name in cells.columns[1:]:
                index = index * len(self.schema.levels(name)) + rows[name]
        for name in cells.needs:  # a record in which a column is absent is in no cell
            index = ibis.cases((rows[presence_name(name)] > 0, index), else_=-1)
        return index.cast("int64")

    def _cell_counts(self, rows: Any, size: int) -> list[int]:
        result = self.table.execute(rows.group_by("cell").aggregate(count=rows.count()))
        counts = [0] * size
        for cell, count in zip(result["cell"].to_pylist(), result["count"].to_pylist(), strict=True):
            if int(cell) >= 0:
                counts[int(cell)] = int(count)
        return counts

    def _lattice_column(self, feature: Feature, lattice: Lattice) -> Any:
        check_sizes([feature], self.schema, self.engine)
        rows = self._rows()
        value = feature.fold(IbisAlgebra(rows, self.schema, self.engine))
        return rows.select(q=lattice_integer(value, lattice, 0, self.engine))

    def _column(self, rows: Any) -> Whole:
        return np.asarray(self.table.execute(rows)["q"].to_numpy(), dtype=np.int64)[None]

    def _summed(self, rows: Any, values: Sequence[Any], lattice: Lattice, expected: int | None) -> Whole:
        """Exact integer sums of values rounded to the lattice, over as many rows as were declared."""
        totals = {"rows": rows.count()}
        for k, value in enumerate(values):
            if reads_rows(value):
                # Summed above the lowest integer: only the width of the range has to fit into 62 bits.
                totals[f"s{k}"] = (lattice_integer(value, lattice, k, self.engine) - lattice.low[k]).sum()
        result = totalled(rows, totals, self.table.execute)
        if expected is not None and result["rows"] != expected:
            raise changed_records()
        # A value that is the same for every record (the intercept under add-remove) has low = high and is no column of
        # its own.
        return _only([result.get(f"s{k}", 0) + lattice.low[k] * result["rows"] for k in range(len(values))])


def changed_records() -> InvalidData:
    return InvalidData(
        "The records changed after they were read: their number is no longer the declared one. "
        "Read the table again. Nothing was spent.",
        fault="changed",
    )


def _only(values: Sequence[int]) -> Whole:
    """The whole numbers of the one data set, as Python's where they may pass 64 bits."""
    return np.array([values], dtype=object)
