"""Statistics on NumPy records: the same whole numbers as the holder's, for simulated records and many data sets.

A column is an array (K, n): K data sets of n records. Records come in pieces, which pass by once, so that the memory of
a sum does not grow with n; what needs them sorted or one by one holds them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise.errors import Unsupported
from noisewise.lattice import Lattice
from noisewise.schema import Schema, presence_name
from noisewise.statistics.feature import Feature, NumPyAlgebra
from noisewise.statistics.protocol import Blocks, Cells, Whole, Window

Array = NDArray[np.float64]
Records = Mapping[str, Array]


class NumPyRows:
    """Records of one or many data sets, in pieces of some records each."""

    def __init__(self, schema: Schema, pieces: Iterable[Records], n: int) -> None:
        self.schema, self.n, self._pieces = schema, n, iter(pieces)
        self._asked = False

    def sums(self, features: Sequence[Feature], lattice: Lattice) -> Whole:
        def piece(records: Records) -> Whole:
            return lattice_sums(self._evaluated(features, records), lattice, _shape(records), self.n)

        return self._added(piece)

    def group_sums(self, features: Sequence[Feature], groups: Cells, lattice: Lattice) -> Whole:
        def piece(records: Records) -> Whole:
            (sets, size), cell = _shape(records), self._cell(records, groups)
            place = (cell + groups.size * np.arange(sets)[:, None]).ravel()
            inside = np.flatnonzero(cell.ravel() >= 0)  # a record without a group is in none
            totals = np.zeros((sets * groups.size, len(features)), dtype=object if self._is_long(lattice) else np.int64)
            for k, value in enumerate(self._evaluated(features, records)):
                whole = steps(np.broadcast_to(value, (sets, size)), lattice, k).ravel()
                np.add.at(totals[:, k], place[inside], whole[inside].astype(totals.dtype))
            return totals.reshape(sets, -1)

        return self._added(piece)

    def _is_long(self, lattice: Lattice) -> bool:
        """True where n values may pass 64 bits; then Python's integers are summed."""
        return any(max(-low, high) * self.n >= 2**62 for low, high in zip(lattice.low, lattice.high, strict=True))

    def block_sums(self, blocks: Blocks, lattice: Lattice) -> Whole:
        def piece(records: Records) -> Whole:
            sets, size = _shape(records)
            values = evaluated(blocks.entries, records, self.schema)
            sums = [
                steps(value, blocks.fine, k).reshape(sets, -1, blocks.block).sum(axis=-1) * blocks.fine.step[k]
                for k, value in enumerate(values)
            ]
            products = [
                math.prod((sums[i] for i in monomial[1:]), start=sums[monomial[0]]) / divisor
                for monomial, divisor in zip(blocks.monomials, blocks.divisors, strict=True)
            ]
            return lattice_sums(products, lattice, (sets, size // blocks.block), self.n)

        return self._added(piece)

    def counts(self, tables: Sequence[Cells]) -> Whole:
        def piece(records: Records) -> Whole:
            return np.concatenate([cell_counts(self._cell(records, one), one.size) for one in tables], axis=-1)

        return self._added(piece)

    def shared_counts(self, tables: Sequence[Cells], *, unit: int, left_out: int | None) -> Whole:
        def piece(records: Records) -> Whole:
            cells = np.stack([self._cell(records, one) for one in tables])  # (tables, K, n)
            return shared_counts(cells, tables[0].size, unit=unit, left_out=left_out)

        return self._added(piece)

    def window(self, feature: Feature, lattice: Lattice, *, rank: int, reach: int) -> Window:
        ranked = np.sort(self.answers(feature, lattice), axis=-1)
        first = max(1, rank - reach)
        return Window(ranked[:, first - 1 : rank + reach], first)

    def rank_below(self, feature: Feature, lattice: Lattice, point: int) -> int:
        (values,) = self.answers(feature, lattice)
        return int(np.count_nonzero(values < point))

    def answers(self, feature: Feature, lattice: Lattice) -> Whole:
        return np.concatenate(
            [
                steps(np.broadcast_to(evaluated((feature,), records, self.schema)[0], _shape(records)), lattice, 0)
                for records in self._once()
            ],
            axis=-1,
        )

    def answered_cells(self, feature: Feature, edges: tuple[float, ...] | None) -> Whole:
        def piece(records: Records) -> Whole:
            values = np.broadcast_to(evaluated((feature,), records, self.schema)[0], _shape(records))
            return cell_index(values, edges)

        return np.concatenate([piece(records) for records in self._once()], axis=-1)

    def _once(self) -> Iterator[Records]:
        if self._asked:
            raise Unsupported("Simulated records pass by once: ask for everything in one call of the rows.")
        self._asked = True
        return self._pieces

    def _added(self, piece: Callable[[Records], Whole]) -> Whole:
        total: Whole | int = 0
        for records in self._once():
            total = total + piece(records)
        return np.asarray(total)

    def _cell(self, records: Records, cells: Cells) -> Whole:
        return table_cell(records, cells, self.schema)

    def _evaluated(self, features: Sequence[Feature], records: Records) -> list[Array]:
        """Features on records, some of whose values may be absent."""
        return evaluated(features, completed_columns(records, self.schema), self.schema.completed())


def table_cell(columns: Mapping[str, ArrayLike], cells: Cells, schema: Schema) -> Whole:
    """The cell of each record; -1, which is no cell, where a column that it needs is absent."""
    complete = completed_columns(columns, schema)
    if cells.edges is not None:
        index = cell_index(np.asarray(complete[cells.columns[0]], dtype=float), cells.edges)
    else:
        index = clique_index(cells.columns, complete, schema)
    for name in cells.needs:
        index = np.where(np.asarray(complete[presence_name(name)]) > 0, index, -1)
    return index


def completed_columns(columns: Mapping[str, ArrayLike], schema: Schema) -> Mapping[str, ArrayLike]:
    """NumPy columns with absent values filled in, and beside each column that may be absent whether it is present.

    A number is absent where it is NaN, a level where its code is negative or NaN, and both where a column
    `present(name)` that is given says so.
    """
    if not schema.left_out:
        return columns
    filled = dict(columns)
    for name in schema.left_out:
        if name in columns:
            values = np.asarray(columns[name], dtype=float)
            column, told = schema.columns[name], columns.get(presence_name(name))
            is_present = ~np.asarray(column.is_absent(values))
            if told is not None:
                is_present = is_present & (np.asarray(told, dtype=float) > 0)
            filled[name] = np.where(is_present, values, column.lowest)
            filled[presence_name(name)] = is_present.astype(float)
    return filled


def evaluated(features: Sequence[Feature], records: Mapping[str, ArrayLike], schema: Schema) -> list[Array]:
    """Features on NumPy columns, each shared part computed once."""
    algebra, memory = NumPyAlgebra(records, schema), {}  # type: NumPyAlgebra, dict[Feature, Array]
    return list(np.broadcast_arrays(*(feature.fold(algebra, memory) for feature in features)))


def steps(values: ArrayLike, lattice: Lattice, k: int) -> Whole:
    """Values in whole steps, between the integers that the lattice allows."""
    whole = np.floor(np.asarray(values) / lattice.step[k] + 0.5).astype(np.int64)
    return np.clip(whole, lattice.low[k], lattice.high[k])


def lattice_sums(values: Sequence[Array], lattice: Lattice, shape: tuple[int, int], n: int) -> Whole:
    """Values rounded to their step, clamped, and summed as integers; Python's where n of them would pass 64 bits."""
    totals = []
    for k, value in enumerate(values):
        above = steps(np.broadcast_to(value, shape), lattice, k) - lattice.low[k]
        total = np.sum(above, axis=-1)
        if abs(lattice.low[k]) * n >= 2**61:
            total = total.astype(object)
        totals.append(total + lattice.low[k] * shape[-1])
    return np.stack(totals, axis=-1)


def cell_index(values: Array, edges: tuple[float, ...] | None) -> Whole:
    """The cell of each value: how many edges it has reached (or its level's index)."""
    if edges is None:
        return values.astype(np.int64)
    return np.searchsorted(np.asarray(edges), values, side="right")


def clique_index(clique: Sequence[str], records: Mapping[str, ArrayLike], schema: Schema) -> Whole:
    """The cell of each record in the table of a clique, row by row."""
    index = np.zeros(np.shape(records[clique[0]]), dtype=np.int64)
    for name in clique:
        index = index * len(schema.levels(name)) + np.asarray(records[name], dtype=np.int64)
    return index


def cell_counts(cells: ArrayLike, size: int) -> Whole:
    """How many of the last axis are in each of `size` cells; what is in none of them is not counted."""
    index = np.asarray(cells, dtype=np.int64)
    rows = np.arange(math.prod(index.shape[:-1])).reshape((*index.shape[:-1], 1))
    inside = (index >= 0) & (index < size)
    placed = np.where(inside, rows * size + index, len(rows.ravel()) * size)
    counted = np.bincount(placed.ravel(), minlength=len(rows.ravel()) * size + 1)[:-1]
    return counted.reshape((*index.shape[:-1], size))


def shared_counts(cells: Whole, size: int, *, unit: int, left_out: int | None) -> Whole:
    """One table of cells (tables, ..., n): a record's `unit` in equal shares to its cells other than `left_out`."""
    kept = np.ones(cells.shape, dtype=bool) if left_out is None else cells != left_out
    share = np.where(kept, unit // np.maximum(kept.sum(axis=0), 1), 0)
    rows = math.prod(cells.shape[1:-1])
    total = np.zeros((rows, size), dtype=np.int64)
    row = np.broadcast_to(np.arange(rows).reshape((*cells.shape[1:-1], 1)), cells.shape)
    np.add.at(total, (row.ravel(), cells.ravel()), share.ravel())
    return total.reshape((*cells.shape[1:-1], size))


def _shape(records: Records) -> tuple[int, int]:
    sets, size = np.shape(next(iter(records.values())))
    return sets, size
