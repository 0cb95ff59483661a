"""Features as database expressions, rounded to the lattice as floor(v/step + 1/2): the same numbers on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from noisewise.errors import Unsupported
from noisewise.holder.table import GRAIN, double, indicator, settled
from noisewise.lattice import Lattice
from noisewise.schema import Level, Schema
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.feature import Feature, Operators, power_by_products, sum_in_order

_PRODUCTS = frozenset({"multiply", "power", "shrunk"})
_SMALLEST_FACTOR = 2.0**60 * GRAIN  # of larger ranges, what `settled` changes is less than rounding does


class IbisAlgebra(Operators):
    """Features as database expressions: the same operations, in the same order, as on NumPy columns."""

    def __init__(self, rows: Any, schema: Schema, engine: str) -> None:
        self.rows, self.schema, self.engine = rows, schema, engine

    def column(self, name: str) -> Any:
        return self.rows[name]

    def constant(self, value: float) -> Any:
        return double(value)

    def multiply(self, a: Any, b: Any) -> Any:
        return product(a, b, self.engine)

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


def check_sizes(features: Sequence[Feature], schema: Schema, engine: str) -> None:
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


def product(a: Any, b: Any, engine: str) -> Any:
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


def lattice_integer(value: Any, lattice: Lattice, k: int, engine: str) -> Any:
    """floor(v/step + 1/2) between two integers; 1/step is a power of two, so the division is exact."""
    import ibis

    low, high = (ibis.literal(end, type="int64") for end in (lattice.low[k], lattice.high[k]))
    if engine != "duckdb" and lattice.step[k] > 1:  # what is far below one step is 0 steps, and must not vanish (above)
        value = _not_tiny(value, lattice.step[k] / 4)
    steps = (value * double(1 / lattice.step[k]) + double(0.5)).floor().cast("int64")
    return ibis.cases((steps < low, low), (steps > high, high), else_=steps)


def reads_rows(value: Any) -> bool:
    import ibis.expr.types as ir

    return isinstance(value, ir.Column)


def staged(rows: Any, row: Sequence[Feature], schema: Schema, engine: str) -> tuple[Any, dict[Feature, Any]]:
    """Rows with every shrunk entry computed once, in its own column, instead of once a product."""
    check_sizes(row, schema, engine)
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
            f"__s{g}_{k}": product(rows[f"__v{g}_{k}"], factor, engine) for k in range(len(entries))
        })  # fmt: skip
    return rows, {feature: rows[name] for feature, name in names.items()}


def _shrink_factor(columns: list[Any], radius: float, engine: str) -> Any:
    import ibis

    norm = sum_in_order([product(v, v, engine) for v in columns]).sqrt()
    return ibis.cases((norm > double(radius), settled(double(radius), engine) / norm), else_=double(1.0))


def cell_of(value: Any, edges: Sequence[float]) -> Any:
    """How many edges a value has reached: halved at each question, so that thousands of edges stay a shallow query."""
    import ibis

    def reached(first: int, last: int) -> Any:
        """The cell of a value known to be in one of first..last."""
        if first == last:
            return ibis.literal(first, type="int64")
        middle = (first + last) // 2
        return ibis.cases((value >= double(edges[middle]), reached(middle + 1, last)), else_=reached(first, middle))

    return reached(0, len(edges))
