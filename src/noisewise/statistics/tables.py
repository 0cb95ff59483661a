"""Tables of counts: histograms and clique marginals.

    Histogram(column, edges=None)   counts of the cells of one column (its levels, or [edge_{j-1}, edge_j))
    Marginals(*cliques)             a contingency table for each clique of columns with levels

A record sits in exactly one cell of each table. Changing it moves two cells of each table by 1, adding or
removing it moves one. So with one weight w_c a table the joint L1 sensitivity over the tables is 2 sum_c w_c
(change-one) or sum_c w_c (add-remove), and the L2 one is sqrt(2 sum_c w_c^2) or sqrt(sum_c w_c^2).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import fraction
from noisewise.schema import Levels, Schema, checked_schema
from noisewise.statistics.feature import Feature, as_feature, column_name, number_text
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, checked_weights, norm_above

LARGEST_TABLE = 10**6


@dataclass(frozen=True, slots=True, init=False)
class Histogram:
    """Counts of the cells of one column. Edges are the inner ones: cell j is [edge_{j-1}, edge_j)."""

    column: str
    edges: tuple[float, ...] | None
    kind: ClassVar[str] = "histogram"
    is_count: ClassVar[bool] = True

    def __init__(self, column: str | Feature, edges: Sequence[object] | None = None) -> None:
        object.__setattr__(self, "column", column_name(column, "Histogram"))
        object.__setattr__(self, "edges", None if edges is None else read_edges(edges))

    def inner_edges(self, schema: Schema) -> tuple[float, ...] | None:
        """The edges strictly inside the bounds (None for a column with levels)."""
        return inner_edges(self.column, self.edges, schema)

    def tables(self, schema: Schema) -> list[int]:
        """The number of cells of each table."""
        checked_schema(schema)
        edges = self.inner_edges(schema)
        return [len(schema.levels(self.column)) if edges is None else len(edges) + 1]

    def labels(self, schema: Schema) -> tuple[str, ...]:
        return cell_labels(self.column, self.inner_edges(schema), schema)

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return (Fraction(1),) * sum(self.tables(schema))

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        return _table_sensitivity(self.tables(schema), schema, norm, weights)

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        size = self.tables(schema)[0]
        cells = cell_index(np.asarray(columns[self.column], dtype=float), self.inner_edges(schema))
        return np.stack([(cells == j).sum(axis=-1) for j in range(size)], axis=-1)

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "column": self.column, "edges": None if self.edges is None else list(self.edges)}

    def __str__(self) -> str:
        edges = "" if self.edges is None else f", [{', '.join(map(number_text, self.edges))}]"
        return f"histogram({as_feature(self.column)}{edges})"


@dataclass(frozen=True, slots=True, init=False)
class Marginals:
    """One contingency table for each clique of columns with levels; cells in row-major order, cliques in turn."""

    cliques: tuple[tuple[str, ...], ...]
    kind: ClassVar[str] = "marginals"
    is_count: ClassVar[bool] = True

    def __init__(self, *cliques: Sequence[str | Feature]) -> None:
        if not cliques:
            raise InvalidArgument("Marginals needs at least one clique, as in Marginals(['age', 'sex']).",
                                  argument="cliques")  # fmt: skip
        read = []
        for clique in cliques:
            if isinstance(clique, str | Feature) or not isinstance(clique, Sequence) or not clique:
                raise InvalidArgument("Each clique must be a list of columns, as in ['age', 'sex'].",
                                      argument="cliques")  # fmt: skip
            read.append(tuple(column_name(name, "Marginals") for name in clique))
        if any(len(set(clique)) != len(clique) for clique in read) or len(set(map(frozenset, read))) != len(read):
            raise InvalidArgument("A clique names a column twice, or a clique is given twice.", argument="cliques")
        object.__setattr__(self, "cliques", tuple(read))

    def tables(self, schema: Schema) -> list[int]:
        checked_schema(schema)
        sizes = [int(np.prod([len(schema.levels(name)) for name in clique], dtype=object)) for clique in self.cliques]
        if sum(sizes) > LARGEST_TABLE:
            raise InvalidArgument(f"The tables have {sum(sizes)} cells, more than {LARGEST_TABLE}.", argument="cliques")
        return sizes

    def labels(self, schema: Schema) -> tuple[str, ...]:
        self.tables(schema)
        names = []
        for clique in self.cliques:
            for cell in itertools.product(*(schema.levels(name).levels for name in clique)):
                names.append(", ".join(f"{name}={level}" for name, level in zip(clique, cell, strict=True)))
        return tuple(names)

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return (Fraction(1),) * sum(self.tables(schema))

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        return _table_sensitivity(self.tables(schema), schema, norm, weights)

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        pieces: list[Any] = []
        for clique, size in zip(self.cliques, self.tables(schema), strict=True):
            index = np.zeros(np.shape(columns[clique[0]]), dtype=int)
            for name in clique:
                index = index * len(schema.levels(name)) + np.asarray(columns[name], dtype=int)
            pieces.extend((index == j).sum(axis=-1) for j in range(size))
        return np.stack(pieces, axis=-1)

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "cliques": [list(clique) for clique in self.cliques]}

    def __str__(self) -> str:
        cliques = (f"[{', '.join(str(as_feature(name)) for name in clique)}]" for clique in self.cliques)
        return f"marginals({', '.join(cliques)})"


def _table_sensitivity(
    tables: Sequence[int], schema: Schema, norm: object, weights: Sequence[object] | None
) -> Sensitivity:
    """One record moves the two heaviest cells of each table (change-one), or the heaviest (add-remove)."""
    given = (Fraction(1),) * sum(tables) if weights is None else checked_weights(weights, sum(tables))
    moved, start, even = [], 0, True
    for size in tables:
        heaviest = sorted(given[start : start + size], reverse=True)[: 2 if schema.is_change_one else 1]
        even = even and len(set(given[start : start + size])) == 1
        moved.extend(heaviest)
        start += size
    p = checked_norm(norm)
    value = norm_above(moved, p)
    # With one weight a table, records that differ in every column attain it; else the heaviest cells may not meet.
    attained = float(value) if even or len(tables) == 1 else 0.0
    cells = "two cells" if schema.is_change_one else "one cell"
    each = "the table" if len(tables) == 1 else f"each of {len(tables)} tables"
    return Sensitivity(value, attained, p, f"one record moves {cells} of {each}")


def read_edges(edges: Sequence[object], argument: str = "edges") -> tuple[float, ...]:
    """Increasing numbers given by a person."""
    if isinstance(edges, str) or not isinstance(edges, Sequence | np.ndarray) or not len(edges):
        raise InvalidArgument(f"{argument} must be a list of increasing numbers.", argument=argument)
    read = tuple(float(fraction(edge, f"{argument}[{j}]")) for j, edge in enumerate(edges))
    if any(not a < b for a, b in itertools.pairwise(read)):
        raise InvalidArgument(f"{argument} must increase: {list(read)!r:.100}.", argument=argument)
    if len(read) > LARGEST_TABLE:
        raise InvalidArgument(f"{argument} has more than {LARGEST_TABLE} entries.", argument=argument)
    return read


def inner_edges(column: str, edges: tuple[float, ...] | None, schema: Schema) -> tuple[float, ...] | None:
    """Edges strictly inside a column's bounds; a column with levels has none and needs none."""
    if isinstance(schema.column(column), Levels):
        if edges is not None:
            raise InvalidArgument(f"Column {column!r} has levels, which are its cells: leave edges out.",
                                  argument="edges")  # fmt: skip
        return None
    bounds = schema.bounded(column)
    if edges is None:
        raise InvalidArgument(f"Column {column!r} is numeric: give edges=[...].", argument="edges")
    inner = tuple(edge for edge in edges if bounds.low < edge < bounds.high)
    if not inner:
        raise InvalidArgument(f"No edge lies inside the bounds of {column!r}; there would be one cell.",
                              argument="edges")  # fmt: skip
    return inner


def cell_index(values: Any, edges: tuple[float, ...] | None) -> Any:
    """The cell of each value: how many edges it has reached (or its level's index)."""
    if edges is None:
        return values.astype(int)
    return np.searchsorted(np.asarray(edges), values, side="right")


def cell_labels(name: str, edges: tuple[float, ...] | None, schema: Schema) -> tuple[str, ...]:
    if edges is None:
        return tuple(f"{name}={level}" for level in schema.levels(name).levels)
    bounds = schema.bounded(name)
    ends = [number_text(edge) for edge in (bounds.low, *edges, bounds.high)]
    last = len(ends) - 2
    return tuple(f"{name} in [{ends[j]}, {ends[j + 1]}{']' if j == last else ')'}" for j in range(last + 1))
