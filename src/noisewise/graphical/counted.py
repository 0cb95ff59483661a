"""What a published table counts, in a model's own numbering of columns and levels.

A table over columns (a, b, ..) has an entry for each combination of levels, the last column's level changing first, in
the order of the *release's* schema; the model may list the same levels in another order. A tied table adds up the
tables of several cliques, entry by entry. `sums_of` writes that as a matrix over the cells of any tables that hold the
columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical.propagation import cell_map
from noisewise.graphical.structure import Region, Regions
from noisewise.printable import shown
from noisewise.schema import Levels, Schema
from noisewise.statistics import Histogram, Marginals, Statistic
from noisewise.types import Ints

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["CountedTable", "counted_tables", "home_of", "sums_of", "with_regions"]


@dataclass(frozen=True, slots=True, eq=False)
class CountedTable:
    """One published table: the cliques it counts (several where tied), and for each the cell of every entry."""

    cliques: tuple[Region, ...]
    cells: tuple[Ints, ...]  # row-major over the clique's columns, by the model's levels

    @property
    def size(self) -> int:
        return len(self.cells[0])


def counted_tables(model: GraphicalModel, statistic: Statistic, schema: Schema) -> list[CountedTable]:
    """The tables of a statistic in their order; anything that is not a table of the model's columns is refused."""
    if isinstance(statistic, Histogram):
        cliques: tuple[tuple[str, ...], ...] = ((statistic.column,),)
    elif isinstance(statistic, Marginals):
        cliques = statistic.cliques
    else:
        raise Unsupported(
            f"A graphical model learns from tables; {statistic} is one of {statistic.kind}. Plan Marginals([...], "
            "[...]), or describe these records by a population."
        )
    read = [_read(model, clique, schema, str(statistic)) for clique in cliques]
    if isinstance(statistic, Marginals) and statistic.tied:
        return [CountedTable(tuple(region for region, _ in read), tuple(cells for _, cells in read))]
    return [CountedTable((region,), (cells,)) for region, cells in read]


def with_regions(tables: Regions, wanted: Iterable[Region]) -> Regions:
    """The tables, and one more for each wanted set of columns that none of them has."""
    regions, known = list(tables.regions), {frozenset(region) for region in tables.regions}
    for region in wanted:
        if frozenset(region) not in known:
            known.add(frozenset(region))
            regions.append(region)
    return Regions(tables.states, tuple(regions))


def home_of(tables: Regions, clique: Region) -> int | None:
    """The smallest region that holds a clique's columns, if any does."""
    able = [r for r, region in enumerate(tables.regions) if set(clique) <= set(region)]
    return min(able, key=lambda r: math.prod(tables.shape(tables.regions[r])), default=None)


def sums_of(tables: Regions, counted: CountedTable) -> sparse.csr_array:
    """W (entries, cells): the cells of the regions that each entry adds up."""
    rows, columns = [], []
    for clique, cells in zip(counted.cliques, counted.cells, strict=True):
        r = home_of(tables, clique)
        assert r is not None
        owner = cell_map(tables, tables.regions[r], clique)  # of each of the region's cells: the clique's cell
        rows.append(np.argsort(cells)[owner])
        columns.append(tables.starts[r] + np.arange(len(owner)))
    row = np.concatenate(rows)
    return sparse.csr_array((np.ones(len(row)), (row, np.concatenate(columns))), shape=(counted.size, tables.cells))


def _read(model: GraphicalModel, clique: tuple[str, ...], schema: Schema, counted: str) -> tuple[Region, Ints]:
    """A clique's columns by number, and the model's cell of each entry."""
    orders = []
    for name in clique:
        if name not in model.columns:
            raise InvalidArgument(
                f"{counted:.200} counts the column {shown(name)}, which the model does not have. Add a clique with it, "
                f"as in [{shown(name)}].",
                argument="releases",
            )
        orders.append(_order(name, model.levels[model.columns.index(name)], schema))
    region = model.region(clique)
    index = np.zeros(1, dtype=np.int64)
    for order in orders:
        index = (index[:, None] * len(order) + order).ravel()
    return region, index


def _order(name: str, levels: Levels, schema: Schema) -> Ints:
    """Of each level in the schema: its number in the model."""
    column = schema.column(name)
    if not isinstance(column, Levels):
        raise Unsupported(
            f"The column {shown(name)} is numeric in this release; a graphical model is about columns with levels. "
            "Declare ranges as levels in the schema, and compute them before the table is read."
        )
    known = [str(level) for level in levels.levels]
    given = [str(level) for level in column.levels]
    if sorted(known) != sorted(given):
        raise InvalidArgument(
            f"The column {shown(name)} has the levels {shown(given, 200)} in the release, and {shown(known, 200)} in "
            "the model.",
            argument="levels",
        )
    return np.array([known.index(level) for level in given], dtype=np.int64)
