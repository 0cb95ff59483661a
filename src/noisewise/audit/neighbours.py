"""Worst-case neighbours: how far one record can move a statistic in lattice steps, by enumeration.

Records are laid on a fine grid of the declared domain (ends, zero, both sides of every edge, and absent where a value
may be: NaN, or the code -1 of a level), each becomes the vector
of integers it adds to the released sums, and the worst pair (change-one) or the worst record (add-remove) is taken.
The rounding here is arithmetic of its own on NumPy columns; `evaluated_move` asks the holder's wing itself.

For an additive law with ratios r_k = scale_k/step_k and a move d, all that matters is exact:
    L1 = sum_k |d_k| / r_k        L2^2 = sum_k (d_k / r_k)^2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisewise.laws import AdditiveLaw, additive_law
from noisewise.planning import Plan
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Records
from noisewise.statistics.evaluation import completed_columns
from noisewise.statistics.feature import Feature
from noisewise.statistics.sensitivity import Sensitivity

MOST_RECORDS = 600
CLOSEST = 16  # neighbours that are worst by floats, among which the worst is chosen exactly
Record = dict[str, float]
Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Move:
    """The worst neighbours found: the record that leaves, the one that comes (None: nobody), and the steps moved."""

    left: Record
    came: Record | None
    steps: tuple[int, ...]


def worst_move(plan: Plan) -> Move:
    """The neighbours, on the grid of records, between which the noise of `plan` has most to hide."""
    law = additive_law(plan.law)
    columns = record_grid(plan)
    integers = contributions(plan, columns)
    if isinstance(plan.statistic, Records) or plan.schema.is_change_one:
        pairs = _farthest_pairs(integers / np.array(law.ratio), _norm(plan))
    else:
        sizes = np.sum(np.abs(integers / np.array(law.ratio)) ** _norm(plan), axis=1)
        pairs = [(int(i), -1) for i in np.argsort(sizes)[-CLOSEST:]]
    moves = (_move(columns, integers, i, j) for i, j in pairs)
    return max(moves, key=lambda move: weighted(law, move.steps, _norm(plan)))


def weighted(law: AdditiveLaw, steps: Sequence[int], norm: int) -> Fraction:
    """sum |d_k/r_k| (norm 1) or sum (d_k/r_k)^2 (norm 2), exactly."""
    terms = (
        abs(Fraction(d)) * Fraction(step) / Fraction(scale)
        for d, step, scale in zip(steps, law.step, law.scale, strict=True)
    )
    return sum((term**norm for term in terms), Fraction(0))


def contributions(plan: Plan, columns: Columns) -> NDArray[np.int64]:
    """What each record adds to the released integers, one row a record."""
    statistic, schema, lattice = plan.statistic, plan.part_schema, plan.lattice
    size = len(next(iter(columns.values())))
    if statistic.is_count:
        alone = {name: values[:, None] for name, values in columns.items()}
        return np.asarray(statistic.value(alone, schema)).reshape(size, -1).astype(np.int64)
    features = (statistic.feature,) if isinstance(statistic, Records) else statistic.row(schema)
    integers, complete = [], completed_columns(columns, schema)
    for feature, step, low, high in zip(features, lattice.step, lattice.low, lattice.high, strict=True):
        values = np.broadcast_to(feature.value(complete, schema.completed()), (size,))
        integers.append(np.clip(np.floor(values / step + 0.5).astype(np.int64), low, high))
    return np.stack(integers, axis=1)


def record_grid(plan: Plan) -> Columns:
    """Records on a grid of the columns the statistic reads; the other columns stay at their first value."""
    schema, names = plan.schema, sorted(_columns(plan))
    numeric = [name for name in names if isinstance(schema.columns[name], Bounded)]
    levels = int(np.prod([len(schema.levels(name)) for name in names if name not in numeric], dtype=int))
    points = int((MOST_RECORDS / levels) ** (1 / max(1, len(numeric))))
    axes = [
        _axis(schema, name, min(points, 401)) if name in numeric else np.arange(len(schema.levels(name)), dtype=float)
        for name in names
    ]
    axes = [
        np.append(axis, np.nan if name in numeric else -1.0) if name in schema.left_out else axis
        for name, axis in zip(names, axes, strict=True)
    ]
    grid = np.array(list(itertools.product(*axes)))
    rest = {name: np.full(len(grid), _first(schema, name)) for name in schema.columns if name not in names}
    return {name: grid[:, k] for k, name in enumerate(names)} | rest


def evaluated_move(plan: Plan, before: Any, after: Any) -> tuple[int, ...]:
    """How far the holder's own evaluation moves between two tables, in steps."""
    from noisewise.holder.evaluate import lattice_values

    return tuple(b - a for a, b in zip(lattice_values(before, plan), lattice_values(after, plan), strict=True))


def data_of(records: Sequence[Record], schema: Schema) -> dict[str, list[Any]]:
    """Records as a frame, with levels by name."""
    return {
        name: [
            _read(record[name], column) for record in records
        ]
        for name, column in schema.columns.items()
    }  # fmt: skip


def neighbouring_pairs(values: Sequence[int], n: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every ordered pair of sorted data sets that differ in one record."""
    pairs = set()
    for rest in itertools.combinations_with_replacement(sorted(values), n - 1):
        for a, b in itertools.permutations(values, 2):
            pairs.add((tuple(sorted((*rest, a))), tuple(sorted((*rest, b)))))
    return iter(sorted(pairs))


def _farthest_pairs(points: NDArray[np.float64], norm: int) -> list[tuple[int, int]]:
    """The pairs of rows that are farthest apart, by floats; the exact choice among them is made later."""
    from scipy.spatial.distance import cdist

    distances = cdist(points, points, "cityblock" if norm == 1 else "euclidean")
    largest = np.argpartition(distances, -min(CLOSEST, distances.size), axis=None)[-CLOSEST:]
    return [(int(i), int(j)) for i, j in zip(*np.unravel_index(largest, distances.shape), strict=True)]


def _move(columns: Columns, integers: NDArray[np.int64], i: int, j: int) -> Move:
    left = {name: float(values[i]) for name, values in columns.items()}
    if j < 0:
        return Move(left, None, tuple(-int(v) for v in integers[i]))
    came = {name: float(values[j]) for name, values in columns.items()}
    return Move(left, came, tuple(int(b) - int(a) for a, b in zip(integers[i], integers[j], strict=True)))


def _norm(plan: Plan) -> int:
    assert isinstance(plan.sensitivity, Sensitivity)
    return plan.sensitivity.norm


def _columns(plan: Plan) -> frozenset[str]:
    statistic: Any = plan.statistic
    if statistic.kind == "histogram":
        return frozenset({statistic.column})
    if statistic.kind == "marginals":
        return frozenset(itertools.chain(*statistic.cliques))
    features: Sequence[Feature] = (
        (statistic.feature,) if isinstance(statistic, Records) else statistic.row(plan.part_schema)
    )
    return frozenset().union(*(feature.columns() for feature in features)) & frozenset(plan.schema.columns)


def _axis(schema: Schema, name: str, points: int) -> NDArray[np.float64]:
    """A grid of a numeric column that holds its ends, 0, and the whole numbers just reached and just missed."""
    bounds = schema.bounded(name)
    grid = np.linspace(bounds.low, bounds.high, max(2, points - 7))
    edges = [0.0, 1.0, 2.0, -1.0]
    special = [p for edge in edges for p in (edge, np.nextafter(edge, -np.inf)) if bounds.low <= p <= bounds.high]
    return np.unique(np.concatenate([grid, special]))


def _read(value: float, column: Bounded | Levels) -> float | str | None:
    """A value as a file has it: a level by its name, an absent one not at all."""
    if column.is_absent(np.array([value]))[0]:
        return None
    return value if isinstance(column, Bounded) else str(column.levels[int(value)])


def _first(schema: Schema, name: str) -> float:
    column = schema.columns[name]
    return column.low if isinstance(column, Bounded) else 0.0
