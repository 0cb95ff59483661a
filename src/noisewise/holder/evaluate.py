"""Statistics on records: integers on the lattice, computed where the data lives.

Features become Ibis expressions, are rounded to the lattice as floor(v/step + 1/2), clamped, and summed as 64-bit
integers by the database: the result does not depend on row order, chunking or engine. Order statistics fetch only
the ranks that can matter. Nothing here adds noise or leaves the holder's wing; `curator.py` does both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from noisewise.errors import InvalidData, Unsupported
from noisewise.holder.sources import check_cells
from noisewise.holder.table import BLOCK, GRAIN, Table, double, indicator, settled, totalled
from noisewise.lattice import Lattice, entry_steps, lattice_for
from noisewise.plan import Plan, eigenvalue_gram_step
from noisewise.schema import Level, Schema
from noisewise.statistics import Histogram, Marginals, Moments, Records, SmallestEigenvalue
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.feature import Feature, Operators, power_by_products, sum_in_order
from noisewise.statistics.order import OrderStatistic

_PRODUCTS = frozenset({"multiply", "power", "shrunk"})
_SMALLEST_FACTOR = 2.0**60 * GRAIN  # of larger ranges, what `settled` changes is less than rounding does


def lattice_values(table: Table, plan: Plan) -> tuple[int, ...]:
    """The noise-free value of an additive plan in lattice steps: whole numbers, the same on every engine."""
    statistic, schema = plan.statistic, plan.part_schema
    if isinstance(statistic, Histogram):
        return _histogram(table, statistic, plan)
    if isinstance(statistic, Marginals):
        return _marginals(table, statistic, plan)
    if isinstance(statistic, SmallestEigenvalue):
        return _smallest_eigenvalue(table, statistic, plan)
    if isinstance(statistic, OrderStatistic | Records):
        raise Unsupported(f"{statistic.kind} is not a sum.")
    if isinstance(statistic, Moments) and statistic.block > 1:
        return _averaged_moments(table, statistic, plan)
    return _integer_sums(table, statistic.row(schema), plan.lattice, plan)


@dataclass(frozen=True, slots=True)
class Window:
    """The sorted lattice values around a rank: values[k] is the order statistic of rank first + k (1-based)."""

    values: np.ndarray[Any, np.dtype[np.int64]]
    first: int


def order_window(table: Table, feature: Feature, plan: Plan, *, rank: int, reach: int) -> Window:
    """The order statistics of ranks rank-reach..rank+reach (as far as they exist), in lattice steps."""
    import ibis

    n = plan.part_schema.largest_n
    first, last = max(1, rank - reach), min(n, rank + reach)
    rows = _lattice_column(table, feature, plan)
    if table.engine == "duckdb":
        nearby = rows.order_by(rows.q).limit(last - first + 1, offset=first - 1)
    else:  # not every engine has OFFSET
        ranked = rows.mutate(rank=ibis.row_number().over(order_by=rows.q))
        nearby = ranked.filter((ranked.rank >= first - 1) & (ranked.rank < last)).select("q")
    return Window(np.sort(_column(table, nearby, "q")), first)


def rank_below(table: Table, feature: Feature, plan: Plan, point: int) -> int:
    """How many records lie strictly below a lattice point."""
    rows = _lattice_column(table, feature, plan)
    counted = rows.aggregate(count=_count_where(rows.q < point))
    return int(table.execute(counted)["count"][0].as_py() or 0)


def record_values(table: Table, statistic: Records, plan: Plan) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Each record's own answer before noise: its lattice value, or its cell."""
    schema = plan.part_schema
    if not statistic.is_categorical(schema):
        return _column(table, _lattice_column(table, statistic.feature, plan), "q")
    _check_sizes([statistic.feature], schema, table.engine)
    rows = table.rows(plan.part)
    if statistic.cells is not None:
        check_cells(len(statistic.cells), table.engine, f"Answers are in {len(statistic.cells) + 1} cells")
        value = statistic.feature.fold(IbisAlgebra(rows, schema, table.engine))
        cell = _cell(value, statistic.cells)
    elif statistic.feature.operation == "column":
        cell = rows[statistic.feature.arguments[0]].cast("int64")
    else:
        cell = statistic.feature.fold(IbisAlgebra(rows, schema, table.engine)).cast("int64")
    return _column(table, rows.select(q=cell), "q")


class IbisAlgebra(Operators):
    """Features as database expressions: the same operations, in the same order, as on NumPy columns."""

    def __init__(self, rows: Any, schema: Schema, engine: str) -> None:
        self.rows, self.schema, self.engine = rows, schema, engine

    def column(self, name: str) -> Any:
        return self.rows[name]

    def constant(self, value: float) -> Any:
        return double(value)

    def multiply(self, a: Any, b: Any) -> Any:
        return _product(a, b, self.engine)

    def absolute(self, a: Any) -> Any:
        return a.abs()

    def power(self, a: Any, exponent: Fraction) -> Any:
        if exponent.denominator == 1:
            a = _not_tiny(a, _smallest_base(float(exponent), self.engine))
        return power_by_products(
            a,
            exponent,
            root=lambda base: _not_negative(base).sqrt(),
            general=lambda base, e: _not_negative(base, _smallest_base(e, self.engine)).pow(e),
        )

    def clip(self, a: Any, low: float, high: float) -> Any:
        import ibis

        return ibis.cases((a < double(low), double(low)), (a > double(high), double(high)), else_=a)

    def between(self, a: Any, low: float, high: float) -> Any:
        return indicator((a >= double(low)) & (a <= double(high))).cast("float64")

    def equals(self, name: str, level: Level) -> Any:
        return indicator(self.rows[name] == self.schema.levels(name).index(level)).cast("float64")

    def shrunk(self, row: tuple[Any, ...], index: int, radius: float) -> Any:
        return self.multiply(row[index], _shrink_factor(list(row), radius, self.engine))


def _check_sizes(features: Sequence[Feature], schema: Schema, engine: str) -> None:
    """Refuse factors so small that `settled` would be seen in what is released; only the schema is looked at."""
    if engine == "duckdb":
        return
    products = {node for feature in features for node in feature.nodes() if node.operation in _PRODUCTS}
    factors = list({factor for node in products for factor in node.arguments if isinstance(factor, Feature)})
    sizes = [max(abs(low), abs(high)) for low, high, _ in feature_ranges(factors, schema)] if factors else []
    if any(0 < size < _SMALLEST_FACTOR for size in sizes):
        raise Unsupported(
            f"A factor or a base in a feature stays below {_SMALLEST_FACTOR:.0e} within the bounds, and on {engine} "
            "such numbers count as 0. Write the feature in other units, without so small a factor. Nothing was spent."
        )


def _product(a: Any, b: Any, engine: str) -> Any:
    return settled(a, engine) * settled(b, engine)


def _not_negative(base: Any, smallest: float = 0.0) -> Any:
    """The base where it is at least `smallest`, else 0."""
    import ibis

    return ibis.cases((base < double(smallest), double(0.0)), else_=base)


def _not_tiny(base: Any, smallest: float) -> Any:
    """The base where its size is at least `smallest`, else 0."""
    import ibis

    return base if smallest == 0 else ibis.cases((base.abs() < double(smallest), double(0.0)), else_=base)


def _smallest_base(exponent: float, engine: str) -> float:
    """Below it a power is under 1e-280; some engines stop with an error where one vanishes (see `settled`)."""
    return 0.0 if engine == "duckdb" else 10.0 ** (-280 / exponent)


def _lattice_integer(value: Any, lattice: Lattice, k: int, engine: str) -> Any:
    """floor(v/step + 1/2) between two integers; 1/step is a power of two, so the division is exact."""
    import ibis

    low, high = (ibis.literal(end, type="int64") for end in (lattice.low[k], lattice.high[k]))
    if engine != "duckdb" and lattice.step[k] > 1:  # what is far below one step is 0 steps, and must not vanish (above)
        value = _not_tiny(value, lattice.step[k] / 4)
    steps = (value * double(1 / lattice.step[k]) + double(0.5)).floor().cast("int64")
    return ibis.cases((steps < low, low), (steps > high, high), else_=steps)


def _integer_sums(table: Table, row: Sequence[Feature], lattice: Lattice, plan: Plan) -> tuple[int, ...]:
    rows, memory = _staged(table.rows(plan.part), row, plan.part_schema, table.engine)
    algebra = IbisAlgebra(rows, plan.part_schema, table.engine)
    return _summed(table, rows, [feature.fold(algebra, memory) for feature in row], lattice, plan.part_schema.n)


def _summed(table: Table, rows: Any, values: Sequence[Any], lattice: Lattice, expected: int | None) -> tuple[int, ...]:
    """Exact integer sums of values rounded to the lattice, over as many rows as were declared."""
    totals = {"rows": rows.count()}
    for k, value in enumerate(values):
        if _reads_rows(value):
            # Summed above the lowest integer: only the width of the range has to fit into 62 bits.
            totals[f"s{k}"] = (_lattice_integer(value, lattice, k, table.engine) - lattice.low[k]).sum()
    result = totalled(rows, totals, table.execute)
    if expected is not None and result["rows"] != expected:
        raise InvalidData(
            "The records changed after they were read: their number is no longer the declared one. "
            "Read the table again. Nothing was spent.",
            fault="changed",
        )
    # A value that is the same for every record (the intercept under add-remove) has low = high and is no column of its
    # own.
    return tuple(result.get(f"s{k}", 0) + lattice.low[k] * result["rows"] for k in range(len(values)))


def _reads_rows(value: Any) -> bool:
    import ibis.expr.types as ir

    return isinstance(value, ir.Column)


def _staged(rows: Any, row: Sequence[Feature], schema: Schema, engine: str) -> tuple[Any, dict[Feature, Any]]:
    """Rows with every shrunk entry computed once, in its own column, instead of once a product."""
    _check_sizes(row, schema, engine)
    found = {node for feature in row for node in feature.nodes() if node.operation == "shrunk"}
    groups = sorted({(node.arguments[1], node.arguments[2:]) for node in found}, key=str)
    names: dict[Feature, str] = {}
    for g, (radius, entries) in enumerate(groups):
        algebra, known = IbisAlgebra(rows, schema, engine), dict[Feature, Any]()
        rows = rows.mutate(**{f"__v{g}_{k}": entry.fold(algebra, known) for k, entry in enumerate(entries)})
        columns = [rows[f"__v{g}_{k}"] for k in range(len(entries))]
        rows = rows.mutate(**{f"__f{g}": _shrink_factor(columns, radius, engine)})
        for k in range(len(entries)):
            names[Feature("shrunk", (k, radius, *entries))] = f"__s{g}_{k}"
        factor = rows[f"__f{g}"]
        rows = rows.mutate(**{
            f"__s{g}_{k}": _product(rows[f"__v{g}_{k}"], factor, engine) for k in range(len(entries))
        })  # fmt: skip
    return rows, {feature: rows[name] for feature, name in names.items()}


def _shrink_factor(columns: list[Any], radius: float, engine: str) -> Any:
    import ibis

    norm = sum_in_order([_product(v, v, engine) for v in columns]).sqrt()
    return ibis.cases((norm > double(radius), settled(double(radius), engine) / norm), else_=double(1.0))


def _histogram(table: Table, statistic: Histogram, plan: Plan) -> tuple[int, ...]:
    schema = plan.part_schema
    rows = table.rows(plan.part)
    edges = statistic.inner_edges(schema)
    check_cells(len(edges or ()), table.engine, f"The histogram has {len(edges or ()) + 1} cells")
    cell = rows[statistic.column] if edges is None else _cell(rows[statistic.column], edges)
    return _cell_counts(table, rows.select(cell=cell.cast("int64")), statistic.tables(schema)[0])


def _marginals(table: Table, statistic: Marginals, plan: Plan) -> tuple[int, ...]:
    if statistic.tied:
        return _tied_table(table, statistic, plan)
    schema = plan.part_schema
    counts: list[int] = []
    for clique, size in zip(statistic.cliques, statistic.tables(schema), strict=True):
        rows = table.rows(plan.part)
        counts.extend(_cell_counts(table, rows.select(cell=_clique_cell(rows, clique, schema)), size))
    return tuple(counts)


def _tied_table(table: Table, statistic: Marginals, plan: Plan) -> tuple[int, ...]:
    """Records counted by cell and by K, how many of their cliques count; each gives L/K, in Python's whole numbers."""
    import ibis

    schema = plan.part_schema
    (size,), unit, left_out = statistic.tables(schema), statistic.unit(), statistic.null_cell(schema)
    rows = table.rows(plan.part)
    names = [f"__c{k}" for k in range(len(statistic.cliques))]
    rows = rows.select(**{
        name: _clique_cell(rows, clique, schema) for name, clique in zip(names, statistic.cliques, strict=True)
    })  # fmt: skip
    if left_out is None:
        sharers = ibis.literal(len(names), type="int64")
    else:
        sharers = sum_in_order([indicator(rows[name] != left_out) for name in names])
    rows = rows.mutate(sharers=sharers)
    steps = ibis.union(*(rows.select("sharers", cell=rows[name]) for name in names))
    counted = steps.group_by(["cell", "sharers"]).aggregate(count=steps.count())
    totals = [0] * size
    for row in table.execute(counted).to_pylist():
        if row["cell"] != left_out:
            totals[int(row["cell"])] += int(row["count"]) * (unit // int(row["sharers"]))
    return tuple(totals)


def _clique_cell(rows: Any, clique: Sequence[str], schema: Schema) -> Any:
    """The cell of each row in the table of a clique."""
    index = rows[clique[0]]
    for name in clique[1:]:
        index = index * len(schema.levels(name)) + rows[name]
    return index.cast("int64")


def _cell_counts(table: Table, rows: Any, size: int) -> tuple[int, ...]:
    result = table.execute(rows.group_by("cell").aggregate(count=rows.count()))
    counts = [0] * size
    for cell, count in zip(result["cell"].to_pylist(), result["count"].to_pylist(), strict=True):
        counts[int(cell)] = int(count)
    return tuple(counts)


def _cell(value: Any, edges: Sequence[float]) -> Any:
    """How many edges a value has reached: halved at each question, so that thousands of edges stay a shallow query."""
    import ibis

    def reached(first: int, last: int) -> Any:
        """The cell of a value known to be in one of first..last."""
        if first == last:
            return ibis.literal(first, type="int64")
        middle = (first + last) // 2
        return ibis.cases((value >= double(edges[middle]), reached(middle + 1, last)), else_=reached(first, middle))

    return reached(0, len(edges))


def _smallest_eigenvalue(table: Table, statistic: SmallestEigenvalue, plan: Plan) -> tuple[int, ...]:
    """lambda_min of the exactly summed Gram matrix, rounded to the lattice and clamped to [0, n R^2]."""
    schema = plan.part_schema
    row = statistic.gram_row(schema)
    step = eigenvalue_gram_step(statistic, schema)
    gram_lattice = lattice_for([step] * len(row), feature_ranges(row, schema))
    sums = _integer_sums(table, row, gram_lattice, plan)
    size = len(statistic.features)
    gram = np.zeros((size, size))
    gram[np.triu_indices(size)] = [float(Fraction(s) * Fraction(step)) for s in sums]
    smallest = float(np.linalg.eigvalsh(gram, UPLO="U")[0])
    steps = round(Fraction(smallest) / Fraction(plan.lattice.step[0]))
    return (min(max(steps, plan.lattice.low[0]), plan.lattice.high[0]),)


def _averaged_moments(table: Table, statistic: Moments, plan: Plan) -> tuple[int, ...]:
    """Entries are summed over each block as integers; products of block sums are then rounded and summed."""
    schema = plan.part_schema
    entries = statistic.entries(schema)
    ranges = feature_ranges(entries, schema)
    fine = lattice_for(entry_steps(ranges), ranges)
    rows, memory = _staged(table.blocks(statistic.block, plan.part), entries, schema, table.engine)
    algebra = IbisAlgebra(rows, schema, table.engine)
    integers = {
        f"e{k}": _lattice_integer(entry.fold(algebra, memory), fine, k, table.engine).sum()
        for k, entry in enumerate(entries)
    }
    blocks = rows.group_by(BLOCK).aggregate(**integers)
    sums = [blocks[f"e{k}"].cast("float64") * double(fine.step[k]) for k in range(len(entries))]
    values = []
    for monomial, divisor in zip(statistic.monomials(schema), statistic.divisors(schema), strict=True):
        product = sums[monomial[0]]
        if len(monomial) == 2:
            product = _product(product, sums[monomial[1]], table.engine)
        values.append(product if divisor == 1 else product / double(divisor))
    return _summed(table, blocks, values, plan.lattice, schema.largest_n // statistic.block)


def _lattice_column(table: Table, feature: Feature, plan: Plan) -> Any:
    _check_sizes([feature], plan.part_schema, table.engine)
    rows = table.rows(plan.part)
    value = feature.fold(IbisAlgebra(rows, plan.part_schema, table.engine))
    return rows.select(q=_lattice_integer(value, plan.lattice, 0, table.engine))


def _count_where(condition: Any) -> Any:
    return indicator(condition).sum()


def _column(table: Table, rows: Any, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(table.execute(rows)[name].to_numpy(), dtype=np.int64)
