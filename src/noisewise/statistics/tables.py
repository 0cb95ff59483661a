"""Tables of counts: histograms and clique marginals.

    Histogram(column, edges=None)               counts of the cells of one column (its levels, or [edge_{j-1}, edge_j))
    Marginals(*cliques)                         a contingency table for each clique of columns with levels
    Marginals(*cliques, tied=True, null=None)   the sum of these tables, each record normalised (Bernstein 2020)

A record sits in exactly one cell of each table, or in none where a column is absent (`missing="leave-out"`), which
moves less than going to another. Changing it moves two cells of each table by 1, adding or
removing it moves one. So with one weight w_c a table the joint L1 sensitivity over the tables is 2 sum_c w_c
(change-one) or sum_c w_c (add-remove), and the L2 one is sqrt(2 sum_c w_c^2) or sqrt(sum_c w_c^2).

In a tied table a record gives 1/K to the cell of each of its K cliques, where cliques with every column at the level
`null` do not count: mass 1 in all, or none if K = 0. In whole units of 1/L that is L/K, with L a multiple of every
possible K. The largest moves are between corners of the simplex, all mass in one cell or in another: the L1
sensitivity is 2 L (change-one) or L (add-remove), the L2 one sqrt(2) L or L, however many cliques there are.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction
from noisewise.lattice import Lattice
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Level, Levels, Schema, checked_level, checked_schema
from noisewise.statistics.additive import with_listed
from noisewise.statistics.evaluation import cell_counts, clique_index, shared_counts, table_cell
from noisewise.statistics.feature import Feature, as_feature, column_name, number_text
from noisewise.statistics.presence import left_out_of, where_present
from noisewise.statistics.protocol import Cells, Rows, Settled, Sort, Statistic, Whole
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, checked_weights, norm_above, weights_above
from noisewise.statistics.settling import given_weights, settled_counts

LARGEST_TABLE = 10**5  # cells of all tables together
MOST_CLIQUES = 20_000
LARGEST_UNIT = 2**40
LARGEST_SUM = 2**62
Cell = tuple[int, ...]


@dataclass(frozen=True, slots=True, init=False)
class Histogram(Statistic):
    """Counts of the cells of one column, which add up to everybody. One table has one price.

    Parameters
    ----------
    column
        A column with levels, or with bounds and then `edges`.
    edges
        The inner edges, ascending: cell j is [edge_{j-1}, edge_j), the outermost end at the bounds. Default None, for
        a column with levels, whose cells are its levels.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=1000, neighbours="change-one")
    >>> nw.Histogram("age", [30, 60]).labels(schema)
    ('age in [18, 30)', 'age in [30, 60)', 'age in [60, 90]')
    """

    column: str
    edges: tuple[float, ...] | None
    kind: ClassVar[str] = "histogram"
    sort: ClassVar[Sort] = Sort.TABLE
    leaves_out: ClassVar[bool] = True

    def __init__(self, column: str | Feature, edges: Sequence[object] | None = None) -> None:
        object.__setattr__(self, "column", column_name(column, "Histogram"))
        object.__setattr__(self, "edges", None if edges is None else read_edges(edges))

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

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

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        """The cells as 0/1 features."""
        needs = left_out_of((self.column,), schema)
        cells = cell_features(self.column, self.inner_edges(schema), schema)
        return tuple(where_present(cell, needs) for cell in cells)

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return (Fraction(1),) * sum(self.tables(schema))

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        return _table_sensitivity(self.tables(schema), schema, norm, weights)

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        return settled_counts(self, schema, guarantee, mechanism, given_weights(self.default_weights(schema), weights))

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        return rows.counts([self._cells(rows.schema)])

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        cells = self._cells(schema)
        return cell_counts(table_cell(columns, cells, schema), cells.size)

    def _cells(self, schema: Schema) -> Cells:
        names = (self.column,)
        return Cells(names, self.inner_edges(schema), self.tables(schema)[0], left_out_of(names, schema))

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "column": self.column, "edges": None if self.edges is None else list(self.edges)}

    def __str__(self) -> str:
        edges = "" if self.edges is None else f", [{', '.join(map(number_text, self.edges))}]"
        return f"histogram({as_feature(self.column)}{edges})"


@dataclass(frozen=True, slots=True, init=False)
class Marginals(Statistic):
    """One contingency table for each clique of columns with levels; cells in row-major order, cliques in turn.

    Parameters
    ----------
    cliques
        Lists of columns, one for each table.
    tied
        True: the cliques are alike, and one table is published, the sum over cliques, in which every record weighs the
        same. Default False.
    null
        Of tied tables: the level that means "nothing here"; the cell in which every column has it is left out. Default
        None.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"]), "sex": nw.Levels(["f", "m"])}, n=500,
    ...                    neighbours="change-one")
    >>> nw.Marginals(["smokes", "sex"]).labels(schema)
    ('smokes=no, sex=f', 'smokes=no, sex=m', 'smokes=yes, sex=f', 'smokes=yes, sex=m')
    """

    cliques: tuple[tuple[str, ...], ...]
    tied: bool
    null: Level | None
    kind: ClassVar[str] = "marginals"
    sort: ClassVar[Sort] = Sort.TABLE
    leaves_out: ClassVar[bool] = True

    def __init__(
        self, *cliques: Sequence[str | Feature], tied: bool = False, null: Level | Feature | None = None
    ) -> None:
        if not cliques:
            raise InvalidArgument("Marginals needs at least one clique, as in Marginals(['age', 'sex']).",
                                  argument="cliques")  # fmt: skip
        read = []
        if len(cliques) > MOST_CLIQUES:
            raise InvalidArgument(f"Marginals names {len(cliques)} cliques, more than {MOST_CLIQUES}.",
                                  argument="cliques")  # fmt: skip
        for clique in cliques:
            if isinstance(clique, str | Feature) or not isinstance(clique, Sequence) or not clique:
                raise InvalidArgument("Each clique must be a list of columns, as in ['age', 'sex'].",
                                      argument="cliques")  # fmt: skip
            read.append(tuple(column_name(name, "Marginals") for name in clique))
        if any(len(set(clique)) != len(clique) for clique in read) or len(set(map(frozenset, read))) != len(read):
            raise InvalidArgument("A clique names a column twice, or a clique is given twice.", argument="cliques")
        object.__setattr__(self, "cliques", tuple(read))
        object.__setattr__(self, "tied", _checked_tie(tied, read))
        object.__setattr__(self, "null", _checked_null(null, is_tied=tied))
        self.unit()

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        return with_listed(cls, entries, "cliques")

    def columns(self) -> tuple[str, ...]:
        return tuple(sorted({name for clique in self.cliques for name in clique}))

    def why_not_left_out(self) -> str | None:
        return "a tied table shares every record among all its cliques; leave tied=True out" if self.tied else None

    def divisor(self, schema: Schema) -> int:
        return self.unit()

    def unit(self) -> int:
        """What one record adds to the table in all: counts divided by this are in records."""
        if not self.tied:
            return 1
        if self.null is None:
            return len(self.cliques)
        unit = 1
        for k in range(2, len(self.cliques) + 1):
            unit = math.lcm(unit, k)
            if unit >= LARGEST_UNIT:
                raise InvalidArgument(
                    f"With null= a record may share its weight among 1 to {len(self.cliques)} cliques, and no whole "
                    f"number below 2^40 is divisible by all of these; tie at most {k - 1} cliques.",
                    argument="cliques",
                )
        return unit

    def tables(self, schema: Schema) -> list[int]:
        """The number of cells of each table."""
        checked_schema(schema)
        sizes = [math.prod(len(schema.levels(name)) for name in clique) for clique in self.cliques]
        if self.tied:
            sizes = sizes[:1]
        if sum(sizes) > LARGEST_TABLE:
            raise InvalidArgument(
                f"The tables have more than {LARGEST_TABLE} cells; use smaller cliques or coarser levels.",
                argument="cliques",
            )
        if self.tied:
            self._check_levels(schema)
        return sizes

    def labels(self, schema: Schema) -> tuple[str, ...]:
        self.tables(schema)
        if self.tied:
            levels = (schema.levels(name).levels for name in self.cliques[0])
            return tuple(", ".join(map(str, cell)) for cell in itertools.product(*levels))
        names = []
        for clique in self.cliques:
            for cell in itertools.product(*(schema.levels(name).levels for name in clique)):
                names.append(", ".join(f"{name}={level}" for name, level in zip(clique, cell, strict=True)))
        return tuple(names)

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        """The cells of each clique as 0/1 features; a tied table has none, for it shares a record among its cells."""
        refuse_tied(self)
        features = []
        for clique in self.cliques:
            for cell in itertools.product(*(schema.levels(name).levels for name in clique)):
                equal = [as_feature(name).equals(level) for name, level in zip(clique, cell, strict=True)]
                features.append(where_present(functools.reduce(operator.mul, equal), left_out_of(clique, schema)))
        return tuple(features)

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return (Fraction(1),) * sum(self.tables(schema))

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        if self.tied:
            return self._tied_sensitivity(schema, norm, weights)
        return _table_sensitivity(self.tables(schema), schema, norm, weights)

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        given = given_weights(self.default_weights(schema), weights)
        return settled_counts(self, schema, guarantee, mechanism, given, most=self.unit())

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        sizes = self.tables(rows.schema)
        if not self.tied:
            return rows.counts(self._cells(rows.schema))
        tables = [Cells(clique, None, sizes[0]) for clique in self.cliques]
        return rows.shared_counts(tables, unit=self.unit(), left_out=self.null_cell(rows.schema))

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        if self.tied:
            cells, (size,) = [clique_index(clique, columns, schema) for clique in self.cliques], self.tables(schema)
            return shared_counts(np.stack(cells), size, unit=self.unit(), left_out=self.null_cell(schema))
        tables = self._cells(schema)
        return np.concatenate([cell_counts(table_cell(columns, own, schema), own.size) for own in tables], axis=-1)

    def _cells(self, schema: Schema) -> list[Cells]:
        """The table of each clique; a record in which one of its columns is absent is in none of its cells."""
        return [
            Cells(clique, None, size, left_out_of(clique, schema))
            for clique, size in zip(self.cliques, self.tables(schema), strict=True)
        ]

    def null_cell(self, schema: Schema) -> int | None:
        """The cell of a tied table that is left out: every column at the level `null`."""
        if self.null is None:
            return None
        index = 0
        for name in self.cliques[0]:
            index = index * len(schema.levels(name)) + schema.levels(name).index(self.null)
        return index

    def to_dict(self) -> dict[str, object]:
        plain: dict[str, object] = {"kind": self.kind, "cliques": [list(clique) for clique in self.cliques]}
        if self.tied:
            plain["tied"] = True
        if self.null is not None:
            plain["null"] = self.null
        return plain

    def __str__(self) -> str:
        written = [f"[{', '.join(str(as_feature(name)) for name in clique)}]" for clique in self.cliques]
        written += ["tied=True"] if self.tied else []
        written += [] if self.null is None else [f"null={self.null!r}"]
        return f"marginals({', '.join(written)})"

    def _check_levels(self, schema: Schema) -> None:
        """Tied columns have the same levels, `null` is one of them, and n records sum up exactly."""
        for names in zip(*self.cliques, strict=True):
            first = schema.levels(names[0])
            other = next((name for name in names if schema.levels(name).levels != first.levels), None)
            if other is not None:
                raise InvalidArgument(
                    f"Tied cliques are counted in one table, but {names[0]!r} and {other!r} have different levels.",
                    argument="cliques",
                )
            if self.null is not None:
                first.index(self.null)
        if schema.largest_n * self.unit() >= LARGEST_SUM:
            raise InvalidArgument(
                f"{schema.largest_n} records with {self.unit()} units each pass 62 bits; tie fewer cliques, or "
                "declare fewer records.",
                argument="cliques",
            )

    def _tied_sensitivity(self, schema: Schema, norm: object, weights: Sequence[object] | None) -> Sensitivity:
        (size,), unit, p = self.tables(schema), self.unit(), checked_norm(norm)
        given = (Fraction(1),) * size if weights is None else checked_weights(weights, size)
        left_out, corners = self.null_cell(schema), 2 if schema.is_change_one else 1
        usable = [weight for j, weight in enumerate(given) if j != left_out]
        value = norm_above([unit * weight for weight in heapq.nlargest(corners, usable)], p)
        if len(set(usable)) == 1 and p == 1:
            # Attained: every column at one level against every column at another (with two levels, one of them null,
            # against one column alone at the other): these records have no cell in common.
            attained = float(value)
        else:
            reached = heapq.nlargest(corners, {cell: given[cell] for cell in self._corners(schema, given)}.values())
            attained = min(float(norm_above([unit * weight for weight in reached], p)), float(value))
        moved = "moves from one cell to another" if schema.is_change_one else "appears in one cell"
        return Sensitivity(value, attained, p, f"one record's whole weight {unit} {moved}")

    def _corners(self, schema: Schema, weights: Sequence[Fraction]) -> Iterator[int]:
        """Cells, among the simplest and the heaviest, that hold some record's whole weight."""
        sizes = [len(schema.levels(name)) for name in self.cliques[0]]
        null = [-1 if self.null is None else schema.levels(name).index(self.null) for name in self.cliques[0]]
        simple = [(level,) * len(sizes) for level in range(min(sizes))]
        if self.null is not None:
            simple += [
                (*null[:k], level, *null[k + 1 :]) for k, size in enumerate(sizes) for level in range(min(size, 3))
            ]
        heavy = [] if weights[1:] == weights[:-1] else heapq.nlargest(64, range(len(weights)), key=weights.__getitem__)
        cells = [*simple, *(tuple(map(int, np.unravel_index(j, sizes))) for j in heavy)]
        for cell in cells:
            if list(cell) != null and _holds_a_record(cell, self.cliques, null):
                yield int(np.ravel_multi_index(cell, sizes))


def refuse_tied(statistic: object) -> None:
    """A population has no law for a tied table: a record is not in one cell of it, but shared among several."""
    if isinstance(statistic, Marginals) and statistic.tied:
        raise Unsupported(
            f"{statistic!s:.200} shares each record among the cells of its cliques; only a GraphicalModel learns "
            "from a tied table. Leave tied=True out to count every clique in a table of its own."
        )


def _checked_tie(tied: object, cliques: Sequence[tuple[str, ...]]) -> bool:
    if not isinstance(tied, bool):
        raise InvalidArgument(f"tied = {shown(tied)} must be True or False.", argument="tied")
    if tied and (len(cliques) < 2 or len(cliques[0]) < 2 or len(set(map(len, cliques))) > 1):
        raise InvalidArgument(
            "tied=True needs at least two cliques, all of the same number of columns, two or more, as in "
            "Marginals(['hour1', 'hour2'], ['hour2', 'hour3'], tied=True).",
            argument="tied",
        )
    return tied


def _checked_null(null: object, *, is_tied: bool) -> Level | None:
    if null is None:
        return None
    level = column_name(null, "null=") if isinstance(null, Feature) else null  # null=off, as it is read in a text
    checked = checked_level(level, "null")
    if not is_tied:
        raise InvalidArgument("null= leaves cliques out of a tied table: give tied=True with it.", argument="null")
    return checked


def _holds_a_record(cell: Cell, cliques: Sequence[tuple[str, ...]], null: Sequence[int]) -> bool:
    """Whether a record exists whose cliques are all in this cell, or (at least one is, and) else at the null level.

    A clique in the cell settles its columns; a column settled away from null puts its other cliques into the cell too.
    """
    has_null = null[0] >= 0
    for first in cliques if has_null else cliques[:1]:
        held = [first] if has_null else list(cliques)
        settled: dict[str, int] = {}
        agrees = True
        for clique in held:  # grows
            for name, level, off in zip(clique, cell, null, strict=True):
                agrees = agrees and settled.setdefault(name, level) == level
                if has_null and level != off:
                    held.extend(other for other in cliques if name in other and other not in held)
        if agrees:
            return True
    return False


def _table_sensitivity(
    tables: Sequence[int], schema: Schema, norm: object, weights: Sequence[object] | None
) -> Sensitivity:
    """One record moves the two heaviest cells of each table (change-one), or the heaviest (add-remove)."""
    given = (Fraction(1),) * sum(tables) if weights is None else checked_weights(weights, sum(tables))
    moved, start, even, corners = list[Fraction](), 0, True, 2 if schema.is_change_one else 1
    for size in tables:
        here = given[start : start + size]
        even = even and here[1:] == here[:-1]
        moved.extend(here[:corners] if even else heapq.nlargest(corners, here))
        start += size
    p = checked_norm(norm)
    value = norm_above(weights_above(moved), p)
    # With one weight a table, records that differ in every column attain it; else the heaviest cells may not meet.
    attained = float(value) if even or len(tables) == 1 else 0.0
    cells = "two cells" if schema.is_change_one else "one cell"
    each = "the table" if len(tables) == 1 else f"each of {len(tables)} tables"
    return Sensitivity(value, attained, p, f"one record moves {cells} of {each}")


def read_edges(edges: Sequence[object], argument: str = "edges") -> tuple[float, ...]:
    """Increasing numbers given by a person."""
    if isinstance(edges, str | bytes) or not isinstance(edges, Sequence | np.ndarray) or not len(edges):
        raise InvalidArgument(f"{argument} must be a list of increasing numbers.", argument=argument)
    if len(edges) >= LARGEST_TABLE:
        raise InvalidArgument(f"{argument} lists {len(edges)} entries; at most {LARGEST_TABLE - 1} are possible.",
                              argument=argument)  # fmt: skip
    read = tuple(float(fraction(edge, f"{argument}[{j}]")) for j, edge in enumerate(edges))
    if any(not a < b for a, b in itertools.pairwise(read)):
        raise InvalidArgument(f"{argument} must increase: {shown(list(read), 100)}.", argument=argument)
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


def cell_features(name: str, edges: tuple[float, ...] | None, schema: Schema) -> tuple[Feature, ...]:
    """The cells of a column as 0/1 features. Cell j is [edge, next edge); features name closed intervals only."""
    column = as_feature(name)
    if edges is None:
        return tuple(column.equals(level) for level in schema.levels(name).levels)
    bounds = schema.bounded(name)
    ends = (bounds.low, *edges, bounds.high)
    return tuple(
        column.between(low, _below(high) if k < len(edges) else high)
        for k, (low, high) in enumerate(itertools.pairwise(ends))
    )


def _below(edge: float) -> float:
    """The largest number below an edge that a feature can name: next to 0, nothing smaller than 1e-90."""
    return min(float(np.nextafter(edge, -np.inf)), edge - 1e-90)


def cell_labels(name: str, edges: tuple[float, ...] | None, schema: Schema) -> tuple[str, ...]:
    if edges is None:
        return tuple(f"{name}={level}" for level in schema.levels(name).levels)
    bounds = schema.bounded(name)
    ends = [number_text(edge) for edge in (bounds.low, *edges, bounds.high)]
    last = len(ends) - 2
    return tuple(f"{name} in [{ends[j]}, {ends[j + 1]}{']' if j == last else ')'}" for j in range(last + 1))
