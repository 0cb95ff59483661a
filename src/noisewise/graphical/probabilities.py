"""Tables of probabilities at rows of parameters, a few rows at a time.

Any set of columns has a table: it joins the model's cliques as one more region without potentials. Columns whose level
is known (`given`) get a potential that leaves nothing for their other levels, so the table is that of the records that
have it: P(x_r | x_g).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from noisewise.errors import Unsupported
from noisewise.graphical.counted import CountedTable, home_of, sums_of, with_regions
from noisewise.graphical.engine import Engine
from noisewise.graphical.loopy import engine_for
from noisewise.graphical.model import probability_name
from noisewise.graphical.structure import Region, Regions, onto
from noisewise.types import Floats, Ints

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["Table", "clique_tables", "column_rows", "column_tables", "evenly", "log_partitions",
           "pieces", "table_rows"]  # fmt: skip

PIECE = 4_000_000  # numbers at once
NOTHING = -1e4  # a potential: exp(-1e4) is zero


def table_rows(model: GraphicalModel, rows: Floats) -> Floats:
    """The cells (K, cells) of all cliques at K rows of parameters."""
    engine = engine_for(model.tables)
    out = np.empty((len(rows), model.tables.cells))
    for piece in pieces(len(rows), model.tables.cells):
        out[piece] = engine.marginals_of_rows(rows[piece][:, model.spread])[1]
    return out


def log_partitions(model: GraphicalModel, rows: Floats) -> Floats:
    """A (K,) at K rows of parameters."""
    engine = engine_for(model.tables)
    found = [engine.marginals_of_rows(rows[piece][:, model.spread])[0]
             for piece in pieces(len(rows), model.tables.cells)]  # fmt: skip
    return np.concatenate(found)


def column_tables(model: GraphicalModel, mu: Floats) -> dict[str, Floats]:
    """P(column) (K, levels) of every column by name, from the cliques' cells (K, cells)."""
    tables, found = model.tables, {}
    for v, name in enumerate(model.columns):
        r = min((r for r, region in enumerate(tables.regions) if v in region), key=lambda r: len(tables.regions[r]))
        region = tables.regions[r]
        table = mu[:, tables.part(r)].reshape(-1, *tables.shape(region))
        found[probability_name((name,))] = onto(table, region, (v,))
    return found


def column_rows(model: GraphicalModel, rows: Floats) -> dict[str, Floats]:
    """`column_tables` at K rows of parameters; the cliques' cells are not kept."""
    found = [column_tables(model, table_rows(model, rows[piece])) for piece in pieces(len(rows), model.tables.cells)]
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def clique_tables(model: GraphicalModel, mu: Floats) -> dict[str, Floats]:
    """P(clique) (K, levels, levels, ..) of every clique of two columns or more by name, from the cells (K, cells)."""
    tables = model.tables
    return {
        probability_name(clique): mu[:, tables.part(r)].reshape(-1, *tables.shape(tables.regions[r]))
        for r, clique in enumerate(model.cliques)
        if len(clique) > 1
    }


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The table of some columns, given the levels of others, at any rows of parameters."""

    engine: Engine
    spread: Ints  # of the first cells: their parameters
    known: Floats  # (cells,): the potentials that say which levels are given
    sums: sparse.csr_array  # (table's cells, cells)

    @classmethod
    def of(cls, model: GraphicalModel, region: Region, given: Mapping[int, int]) -> Table:
        own, extra = model.tables, tuple((v,) for v in given)
        engine = engine_for(Regions(own.states, (*with_regions(own, [region]).regions, *extra)))
        if not engine.is_exact:
            # Loopy propagation takes the columns of a table without potentials for independent: a clique must hold it.
            if home_of(own, region) is None:
                instead = ", or count them in model.synthetic(...)" if engine_for(own).is_exact else ""
                raise Unsupported(
                    "These columns are in no common clique, and the model is too large for the exact sums that their "
                    f"table takes. Ask for columns of a common clique{instead}."
                )
            engine = engine_for(Regions(own.states, (*own.regions, *extra)))
        tables = engine.tables
        known = np.zeros(tables.cells)
        for k, level in enumerate(given.values()):
            part = tables.part(len(tables.regions) - len(given) + k)
            known[part] = NOTHING
            known[part.start + level] = 0.0
        size = math.prod(own.shape(region))
        sums = sums_of(tables, CountedTable((region,), (np.arange(size),)))
        return cls(engine, model.spread, known, sums)

    def rows(self, parameters: Floats) -> Floats:
        """(K, cells of the table)."""
        out = np.empty((len(parameters), self.sums.shape[0]))
        own = len(self.spread)
        for piece in pieces(len(parameters), len(self.known)):
            potentials = np.tile(self.known, (len(parameters[piece]), 1))
            potentials[:, :own] += parameters[piece][:, self.spread]
            out[piece] = (self.sums @ self.engine.marginals_of_rows(potentials)[1].T).T
        return out


def pieces(rows: int, cells: int) -> Iterator[slice]:
    """Rows of so many cells each, in parts that are no more than `PIECE` numbers where a row is not."""
    each = max(1, PIECE // max(cells, 1))
    return (slice(start, min(start + each, rows)) for start in range(0, rows, each))


def evenly(count: int, most: int) -> Ints:
    """The numbers below `count`, or so many of them as are wanted at most, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
