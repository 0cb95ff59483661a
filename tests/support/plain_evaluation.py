"""The third evaluation of statistics: plain Python, record by record, from the *text* of a feature and exact sums.

It shares nothing with the two that the package has (Ibis and NumPy) but the text of features and the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import noisewise as nw

Record = dict[str, Any]


class Number:
    """A float whose powers are products, as on every engine."""

    def __init__(self, value: float) -> None:
        self.value = float(value)

    def __add__(self, other: Any) -> Number:
        return Number(self.value + plain(other))

    def __radd__(self, other: Any) -> Number:
        return Number(plain(other) + self.value)

    def __sub__(self, other: Any) -> Number:
        return Number(self.value - plain(other))

    def __rsub__(self, other: Any) -> Number:
        return Number(plain(other) - self.value)

    def __mul__(self, other: Any) -> Number:
        return Number(self.value * plain(other))

    def __rmul__(self, other: Any) -> Number:
        return Number(plain(other) * self.value)

    def __neg__(self) -> Number:
        return Number(-self.value)

    def __abs__(self) -> Number:
        return Number(abs(self.value))

    def __pow__(self, exponent: Any) -> Number:
        product = self.value
        for _ in range(int(exponent) - 1):
            product = product * self.value
        return Number(product)


def plain(value: Any) -> float:
    return value.value if isinstance(value, Number) else float(value)


WORDS = {
    "abs": abs,
    "clip": lambda v, low, high: Number(min(max(plain(v), low), high)),
    "between": lambda v, low, high: Number(low <= plain(v) <= high),
    "equals": lambda v, level: Number(v == level),
}


def cleaned(records: list[Record], schema: nw.Schema) -> list[Record]:
    """Each record with its numbers between the declared bounds."""
    bounds = {name: column for name, column in schema.columns.items() if isinstance(column, nw.Bounded)}
    return [
        {name: min(max(v, bounds[name].low), bounds[name].high) if name in bounds else v for name, v in one.items()}
        for one in records
    ]


def valued(text: str, record: Record) -> float:
    names = {name: v if isinstance(v, str) else Number(v) for name, v in record.items() if v is not None}
    return plain(eval(text, {"__builtins__": {}}, {**WORDS, **names}))


def in_steps(value: float, lattice: Any, k: int) -> int:
    steps = math.floor(Fraction(value) / Fraction(lattice.step[k]) + Fraction(1, 2))
    return min(max(steps, lattice.low[k]), lattice.high[k])


def summed(texts: list[str], plan: nw.Plan, records: list[Record]) -> list[int]:
    return [sum(in_steps(valued(text, one), plan.lattice, k) for one in records) for k, text in enumerate(texts)]


def ranked(plan: nw.Plan, records: list[Record]) -> list[int]:
    return sorted(in_steps(valued(str(plan.statistic.feature), one), plan.lattice, 0) for one in records)


def smallest_eigenvalue(plan: nw.Plan, records: list[Record]) -> list[int]:
    """Within two steps: rows shortened and multiplied by hand."""
    statistic, gram = plan.statistic, np.zeros((2, 2))
    scale = dict(statistic.scale)
    for one in records:
        row = np.array([valued(str(f), one) / float(scale.get(str(f), 1)) for f in statistic.features])
        row *= min(1.0, float(statistic.shrink) / max(np.linalg.norm(row), 1e-300))
        gram += np.outer(row, row)
    return [in_steps(float(np.linalg.eigvalsh(gram)[0]), plan.lattice, 0)]


def products(statistic: Any) -> list[str]:
    """Moments of one covariate with an intercept under change-one, by hand."""
    (x,), y = map(str, statistic.features), str(statistic.response)
    return [x, y, f"{x}*{x}", f"{x}*{y}", f"{y}*{y}"]


def answered(plan: nw.Plan, records: list[Record]) -> list[int]:
    """The answers in row order before noise."""
    return [in_steps(valued(str(plan.statistic.feature), one), plan.lattice, 0) for one in records]


def by_level(texts: list[str], plan: nw.Plan, records: list[Record]) -> list[int]:
    """The sums of texts over the records of each level of g, level by level."""
    size, totals = len(texts), []
    for place, level in enumerate("abc"):
        for k, text in enumerate(texts):
            own = [one for one in records if one["g"] == level]
            totals.append(sum(in_steps(valued(text, one), plan.lattice, place * size + k) for one in own))
    return totals


BY_KIND: dict[str, Callable[[nw.Plan, list[Record]], list[int]]] = {
    "mean": lambda plan, records: summed([str(f) for f in plan.statistic.features], plan, records),
    "sum": lambda plan, records: summed([str(f) for f in plan.statistic.features], plan, records),
    "count": lambda plan, records: [sum(valued(str(plan.statistic.condition), one) == 1 for one in records)],
    "truncated-sum": lambda plan, records: [
        sum(
            in_steps(valued(str(f), one), plan.lattice, k)
            for one in records
            if plan.statistic.low <= one[plan.statistic.column] <= plan.statistic.high
        )
        for k, f in enumerate(plan.statistic.features)
    ],
    "histogram": lambda _, records: [[one["g"] for one in records].count(level) for level in "abc"],
    "marginals": lambda _, records: [[one["g"] for one in records].count(level) for level in "abc"],
    "moments": lambda plan, records: summed(products(plan.statistic), plan, records),
    "smallest-eigenvalue": smallest_eigenvalue,
    "records": answered,
    "mean-by": lambda plan, records: by_level(["1", "x", "y"], plan, records),
    "sum-by": lambda plan, records: by_level(["y"], plan, records),
    "count-by": lambda plan, records: by_level(["between(x, 0, 3)"], plan, records),
    "median": lambda plan, records: [ranked(plan, records)[math.ceil(len(records) / 2) - 1]],
    "maximum": lambda plan, records: [ranked(plan, records)[-1]],
    "minimum": lambda plan, records: [ranked(plan, records)[0]],
    "quantile": lambda plan, records: [ranked(plan, records)[max(1, math.ceil(plan.statistic.q * len(records))) - 1]],
}
