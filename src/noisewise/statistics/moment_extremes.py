"""Worst records of products: exact extrema of quadratics on a box, cuts, and a search for pairs that exist.

Three tools for `moment_bounds.py`, none of which knows about privacy:

  exact_l1     sup over u, v in a box of sum_k w_k |f_k(u) - f_k(v)|, f_k linear or quadratic, as an exact number.
               The supremum is max over signs s of (max g_s - min g_s) with g_s = sum_k s_k w_k f_k, and a quadratic
               on a box has its maximum at a vertex or at the critical point of a face on which it is concave.
  largest_cut  max over z in {-1, 1}^N of sum_{a<b} A_ab [z_a != z_b], by enumeration.
  farthest     the largest distance a deterministic search finds between records that the schema allows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from noisewise.schema import Bounded, Schema
from noisewise.statistics.enclosure import Array, operations
from noisewise.statistics.evaluation import evaluated
from noisewise.statistics.feature import Feature
from noisewise.statistics.moment_rows import Box, Monomial

LARGEST_ENUMERATION = 120_000  # sign patterns x faces x positions of the other rows: about a second
LARGEST_CUT = 17  # nodes
LARGEST_SEARCH = 5 * 10**7  # products and operations of the entries evaluated while climbing


# --- exact extrema ----------------------------------------------------------------------------------------------


def exact_l1_is_affordable(box: Box, monomials: Sequence[Monomial], block: int) -> bool:
    p = len(box)
    faces = int(2 * 3 ** (p // 2) * 2 ** (p - p // 2))
    shifts = 1 if block == 1 else 1 << p
    return (1 << (len(monomials) - 1)) * faces * shifts <= LARGEST_ENUMERATION


def exact_l1(box: Box, monomials: Sequence[Monomial], weights: Sequence[Fraction], block: int = 1) -> Fraction:
    """sup sum_k w_k |f_k(S + u) - f_k(S + v)| over u, v in the box and S in (block - 1) times the box.

    The squares of S cancel, so for fixed u, v and signs the sum is linear in S: its worst S is a vertex.
    """
    others = [[(block - 1) * end for end in ends] for ends in box] if block > 1 else [[Fraction(0)]] * len(box)
    return max(_exact_l1_at(box, shift, monomials, weights) for shift in itertools.product(*others))


def _exact_l1_at(
    box: Box, shift: Sequence[Fraction], monomials: Sequence[Monomial], weights: Sequence[Fraction]
) -> Fraction:
    p = len(box)
    rows = [_unit_cube_terms(box, shift, monomial, w) for monomial, w in zip(monomials, weights, strict=True)]
    common = math.lcm(*(term.denominator for row in rows for term in row.values()))
    whole = [{key: int(term * common) for key, term in row.items()} for row in rows]
    patterns = [_signed_sum(p, whole, (1, *signs)) for signs in itertools.product((1, -1), repeat=len(whole) - 1)]
    patterns.sort(key=_loose_span, reverse=True)
    best = Fraction(0)
    for linear, square in patterns:
        if _loose_span((linear, square)) <= 4 * best:
            break
        top = largest_on_cube(0, linear, square)
        bottom = -largest_on_cube(0, [-b for b in linear], [[-q for q in line] for line in square])
        best = max(best, Fraction(top - bottom))
    return best / common


def _signed_sum(p: int, rows: Sequence[dict[Monomial, int]], signs: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    linear, square = [0] * p, [[0] * p for _ in range(p)]
    for sign, row in zip(signs, rows, strict=True):
        for key, term in row.items():
            if len(key) == 1:
                linear[key[0]] += sign * term
            else:
                square[key[0]][key[1]] += sign * term
    return linear, square


def _loose_span(quadratic: tuple[list[int], list[list[int]]]) -> int:
    """At least four times max - min of b.z + z'Qz on the unit cube, term by term around its centre."""
    linear, square = quadratic
    p = len(linear)
    slopes = [2 * linear[i] + sum(square[i][j] + square[j][i] for j in range(p)) for i in range(p)]
    crossed = sum(abs(square[i][j]) for i in range(p) for j in range(i + 1, p))
    return 2 * sum(map(abs, slopes)) + 2 * crossed + sum(abs(square[i][i]) for i in range(p))


def _unit_cube_terms(
    box: Box, shift: Sequence[Fraction], monomial: Monomial, weight: Fraction
) -> dict[Monomial, Fraction]:
    """Coefficients, but for the constant, of w * prod_i (S_i + low_i + width_i z_i) in z of the unit cube."""
    start = [shift[i] + box[i][0] for i in monomial]
    width = [box[i][1] - box[i][0] for i in monomial]
    if len(monomial) == 1:
        return {monomial: weight * width[0]}
    i, j = monomial
    if i == j:
        return {(i,): 2 * weight * start[0] * width[0], (i, i): weight * width[0] ** 2}
    return {
        (i,): weight * start[1] * width[0],
        (j,): weight * start[0] * width[1],
        (min(i, j), max(i, j)): weight * width[0] * width[1],
    }


def largest_on_cube(constant: Any, linear: Sequence[Any], square: Sequence[Sequence[Any]]) -> Any:
    """max of c + b.z + sum_{i<=j} q_ij z_i z_j over the unit cube, in the exact arithmetic of its arguments."""
    return max(value for value, _ in _candidates(constant, list(linear), [list(row) for row in square]))


def _candidates(c: Any, b: list[Any], q: list[list[Any]]) -> Iterator[tuple[Any, list[Any]]]:
    """Values and places of every vertex and every critical point of a face where the quadratic is concave.

    The last variable is 0, 1, or free; a free one is eliminated at its critical point
    z = -(b + sum_j q_j z_j) / 2 q (a Schur complement), and the point kept if z turns out to lie in [0, 1].
    """
    if not b:
        yield c, []
        return
    last = len(b) - 1
    inner_b, inner_q = b[:last], [row[:last] for row in q[:last]]
    coupling, curvature = [q[j][last] for j in range(last)], q[last][last]
    for value, place in _candidates(c, inner_b, inner_q):
        yield value, [*place, 0]
    moved = [inner_b[j] + coupling[j] for j in range(last)]
    for value, place in _candidates(c + b[last] + curvature, moved, inner_q):
        yield value, [*place, 1]
    if curvature >= 0:
        return
    factor = Fraction(-1) / (4 * curvature)
    free_b = [inner_b[j] + 2 * factor * b[last] * coupling[j] for j in range(last)]
    free_q = [
        [
            inner_q[i][j] + factor * coupling[i] * coupling[j] * (1 if i == j else 2) if i <= j else 0
            for j in range(last)
        ]
        for i in range(last)
    ]
    for value, place in _candidates(c + factor * b[last] ** 2, free_b, free_q):
        z = 2 * factor * (b[last] + sum(coupling[j] * place[j] for j in range(last)))
        if 0 <= z <= 1:
            yield value, [*place, z]


def largest_cut(weights: Array) -> float:
    """A float at least max over z in {-1, 1}^N of sum_{a<b} A_ab [z_a != z_b], A >= 0 symmetric, N <= 17."""
    n = len(weights)
    codes = np.arange(2 ** (n - 1))[:, None] >> np.arange(n)[None, :]
    z = 1.0 - 2.0 * (codes & 1)
    cut = (np.triu(weights, 1).sum() - ((z @ np.triu(weights, 1)) * z).sum(axis=1)) / 2
    # At least half of all weight can be cut, so the rounding of these sums of N^2 terms is far below 2^-40 of it.
    return float(cut.max()) * (1 + 2.0**-40)


# --- the search -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of products of entries, as a numerical map from records in [0, 1]^columns."""

    entries: tuple[Feature, ...]
    monomials: tuple[Monomial, ...]
    schema: Schema
    radius: float | None
    block: int

    @property
    def names(self) -> list[str]:
        return sorted(frozenset().union(*(entry.columns() for entry in self.entries)))

    def at(self, records: Array) -> Array:
        """Entries (shortened to the radius) of records given in units of their columns' ranges."""
        rows: Array = np.stack(evaluated(self.entries, self._columns(records), self.schema), axis=-1)
        if self.radius is not None:
            norm = np.sqrt((rows**2).sum(axis=-1, keepdims=True))
            rows = rows * (self.radius / np.maximum(norm, self.radius))
        return rows

    def _columns(self, records: Array) -> dict[str, Array]:
        columns = {}
        for k, name in enumerate(self.names):
            column = self.schema.columns[name]
            if isinstance(column, Bounded):
                columns[name] = np.clip(
                    column.low + (column.high - column.low) * records[..., k], column.low, column.high
                )
            else:
                columns[name] = np.rint((len(column) - 1) * records[..., k])
        return columns

    def products(self, rows: Array) -> Array:
        """The monomials of a block's summed rows; products of two are divided by the block's size."""
        degree = max(map(len, self.monomials))
        padded = np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)
        index = np.array([[*m, *[len(self.entries)] * (degree - len(m))] for m in self.monomials])
        divisor = np.array([self.block if len(m) == 2 else 1 for m in self.monomials])
        result: Array = padded[..., index[:, 0]] / divisor
        for k in range(1, degree):
            result = result * padded[..., index[:, k]]
        return result


def farthest(rows: Rows, *, norm: int, weights: Sequence[Fraction]) -> float:
    """The largest weighted distance found between records: from many starts, by compass search."""
    scale = np.array([float(weight) for weight in weights])
    c, cost = len(rows.names), len(weights) + operations(rows.entries)

    def distance(points: Array) -> Array:
        """Some points at a time: the memory held does not grow with the search."""
        flat = points.reshape(-1, points.shape[-1])
        pieces = np.array_split(flat, 1 + len(flat) * cost // 10**6)
        return np.concatenate([distance_of(piece) for piece in pieces]).reshape(points.shape[:-1])

    def distance_of(points: Array) -> Array:
        first = rows.at(points[..., :c])
        if not rows.schema.is_change_one:
            moved = rows.products(first)
        else:
            second = rows.at(points[..., c : 2 * c])
            rest = (rows.block - 1) * rows.at(points[..., 2 * c :]) if rows.block > 1 else 0.0
            moved = rows.products(rest + first) - rows.products(rest + second)
        weighted: Array = np.abs(moved * scale)
        total: Array = weighted.sum(axis=-1) if norm == 1 else np.sqrt((weighted**2).sum(axis=-1))
        return total

    starts = _starts(_pool(c), rows, most=10**7 // cost)
    values = distance(starts)
    best = starts[np.argsort(-values)[: 24 if starts.shape[1] <= 10 else 8]]
    rounds = LARGEST_SEARCH // (best.size * 2 * cost)
    return float(_climb(distance, best, min(rounds, 240)).max())


def _pool(c: int) -> Array:
    """Records to start from: corners (all, or Walsh patterns), the middle, and an additive quasi-random sequence."""
    if c <= 5:
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=c)))
    else:
        parity = [[(row & k).bit_count() % 2 for k in range(c)] for row in range(1 << (c - 1).bit_length())]
        corners = np.concatenate([np.array(parity, dtype=float), 1.0 - np.array(parity)])
    steps = np.sqrt([prime for prime in range(2, 400) if all(prime % k for k in range(2, prime))][:c])
    inner = (0.5 + np.arange(1, 33)[:, None] * np.resize(steps, c)[None, :]) % 1.0
    return np.concatenate([corners, np.full((1, c), 0.5), inner])


def _starts(pool: Array, rows: Rows, *, most: int) -> Array:
    """Records, pairs of them, or pairs with one that all the others are: every so many, so that `most` are left."""
    if not rows.schema.is_change_one:
        return pool[:: 1 + len(pool) // max(most, 1)]
    i, j = np.triu_indices(len(pool), 1)
    if rows.block > 1:
        i, j, others = np.concatenate([i, i]), np.concatenate([j, j]), np.concatenate([i, j])
    step = 1 + len(i) // max(most, 1)
    pairs = np.concatenate([pool[i[::step]], pool[j[::step]]], axis=1)
    return pairs if rows.block == 1 else np.concatenate([pairs, pool[others[::step]]], axis=1)


def _climb(distance: Any, points: Array, rounds: int) -> Array:
    """Compass search: try a step along each axis, take the best or all improving ones, else halve the step."""
    values: Array = distance(points)
    size = points.shape[1]
    axes = np.concatenate([np.eye(size), -np.eye(size)])
    step = np.full(len(points), 0.5)
    for _ in range(rounds):
        tried = np.clip(points[:, None, :] + step[:, None, None] * axes, 0.0, 1.0)
        found = distance(tried)
        better = np.where((found > values[:, None])[..., None], tried - points[:, None, :], 0.0).sum(axis=1)
        together = np.clip(points + better, 0.0, 1.0)
        tried = np.concatenate([tried, together[:, None, :]], axis=1)
        found = np.concatenate([found, distance(together)[:, None]], axis=1)
        chosen = found.argmax(axis=1)
        new = found[np.arange(len(points)), chosen]
        improved = new > values * (1 + 1e-15)
        points = np.where(improved[:, None], tried[np.arange(len(points)), chosen], points)
        values = np.maximum(values, new)
        step = np.where(improved, step, step / 2)
        if (step < 1e-9).all():
            break
    return values
