"""The gauge: directions in which the potentials may move without moving the distribution.

    v is a gauge direction when v . t(x) is the same number for every x:  Sigma(theta) v = 0, whatever theta.

A table over variables r splits into interactions, one for each S in r: the part that depends on x_S and sums to zero
along each of its axes. A sum of tables is constant when for every S (but the empty one) the interactions of the
tables that hold S cancel. So the orthogonal projection off the gauge shares each total interaction out again:

    G_S = sum over r that hold S of the S-interaction of theta_r, as a mean over r \\ S
    free(theta)_r = sum over S in r of G_S / (w_S |r \\ S|),     w_S = sum over r that hold S of 1 / |r \\ S|,

|r \\ S| the number of cells over the variables of r that are not in S. This is arithmetic with the structure alone; no
Sigma and no rank is estimated. Tied parameters theta (potentials E theta) lose the null space of E' P E, P the
projection above, found by eigenvalues of a matrix of small integers and their reciprocals.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse

from noisewise.graphical.problem import Problem
from noisewise.graphical.propagation import cell_map
from noisewise.graphical.structure import Region, Regions
from noisewise.types import Floats, Ints

__all__ = ["GaugeFree", "Projection", "gauge_free", "without_gauge"]

# Eigenvalues of E' P E below this share of the largest are zeros met with rounding; true ones are far above.
ZERO = 1e-9
# Up to so many parameters a product with the projection's matrix is faster than its means.
LARGE = 2000


def gauge_free(problem: Problem) -> GaugeFree:
    """theta -> the theta nearest to zero that gives the same distribution; for one theta (p,) or rows of them."""
    return GaugeFree(problem.engine.tables, problem.spread)


@dataclass(frozen=True)
class GaugeFree:
    """The orthogonal projection of parameters off the gauge directions."""

    tables: Regions
    spread: Ints = field(repr=False)  # of each cell: its parameter, or -1

    def __call__(self, theta: Floats) -> Floats:
        rows = np.atleast_2d(np.asarray(theta, dtype=float))
        by_means = self.is_untied and self.parameters > LARGE
        free = self._untied(rows) if by_means else rows @ self.projector
        return np.asarray(free.reshape(np.shape(theta)))

    @property
    def parameters(self) -> int:
        return int(self.spread.max(initial=-1)) + 1

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """The regions with parameters."""
        return tuple(r for r in range(len(self.tables.regions)) if np.any(self.spread[self.tables.part(r)] >= 0))

    @cached_property
    def is_untied(self) -> bool:
        """Each cell of a factor has a parameter, and each parameter one cell."""
        of_factors = [self.spread[self.tables.part(r)] for r in self.factors]
        own = np.concatenate([*of_factors, np.zeros(0, dtype=np.int64)])
        return bool(np.all(own >= 0) and len(np.unique(own)) == len(own))

    @cached_property
    def projector(self) -> Floats:
        """(p, p), symmetric."""
        return self._untied(np.eye(self.parameters)) if self.is_untied else np.asarray(self.basis @ self.basis.T)

    @cached_property
    def basis(self) -> Floats:
        """(p, dimension): orthonormal columns that span what is left."""
        if self.is_untied:
            kept = self.projector
        else:
            spread_out = np.where(self.spread >= 0, np.eye(self.parameters)[:, self.spread], 0.0)
            kept = without_gauge(self.tables, spread_out) @ spread_out.T
        values, vectors = np.linalg.eigh((kept + kept.T) / 2)
        return np.asarray(vectors[:, values > ZERO * max(values.max(initial=0.0), 1e-300)])

    @property
    def dimension(self) -> int:
        """How many numbers the distribution depends on: the rank of Sigma."""
        if not self.is_untied:
            return int(self.basis.shape[1])
        within = {S for r in self.factors for S in _subsets(self.tables.regions[r])}
        return sum(math.prod(self.tables.states[v] - 1 for v in S) for S in within)

    def _untied(self, rows: Floats) -> Floats:
        tables = Regions(self.tables.states, tuple(self.tables.regions[r] for r in self.factors))
        cells = self.spread[self.spread >= 0]
        free = np.zeros_like(rows)
        free[:, cells] = without_gauge(tables, rows[:, cells])
        return free


def without_gauge(tables: Regions, potentials: Floats) -> Floats:
    """free(theta), for rows (K, cells) of potentials without ties."""
    return np.asarray(Projection.of(tables)(np.ascontiguousarray(potentials.T)).T)


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """theta -> free(theta) = M' C M theta / w for tables without ties, a column each, at the cost of their means.

    M takes the means of each table on every S within it, and adds those of one S up; C centres S-tables along each of
    their axes.
    """

    means: sparse.csr_array  # M, (cells of all S, cells)
    lines: tuple[sparse.csr_array, ...]  # L of each axis: 1/sqrt(states) where a line along it holds a cell of an S
    weights: Floats  # w_S at each cell of S

    @classmethod
    def of(cls, tables: Regions) -> Projection:
        """That of tables over these regions."""
        sets = sorted({S for region in tables.regions for S in _subsets(region)})
        inner = Regions(tables.states, tuple(sets))
        where, weights, means = {S: inner.part(k) for k, S in enumerate(sets)}, np.zeros(inner.cells), _Entries()
        for r, region in enumerate(tables.regions):
            for S in _subsets(region):
                share = 1 / _beyond(tables, region, S)
                weights[where[S]] += share
                means.add(where[S].start + cell_map(tables, region, S), tables.part(r), share)
        axes = range(max(map(len, sets), default=0))
        return cls(means.matrix(inner.cells, tables.cells), tuple(_lines(inner, axis) for axis in axes), weights)

    def __call__(self, columns: Floats) -> Floats:
        total = self.means @ columns
        for lines in self.lines:
            total -= lines.T @ (lines @ total)
        return np.asarray(self.means.T @ (total / self.weights[:, None]))


class _Entries:
    """A sparse matrix as it is gathered."""

    def __init__(self) -> None:
        self.rows, self.columns, self.values = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]

    def add(self, rows: Ints, columns: slice, value: float) -> None:
        """One value in each of these rows, at the columns in turn."""
        self.rows.append(rows)
        self.columns.append(np.arange(columns.start, columns.stop))
        self.values.append(np.full(len(rows), value))

    def matrix(self, height: int, width: int) -> sparse.csr_array:
        values, rows, columns = map(np.concatenate, (self.values, self.rows, self.columns))
        return sparse.csr_array((values, (rows, columns)), shape=(height, width))


def _lines(inner: Regions, axis: int) -> sparse.csr_array:
    height, entries = 0, _Entries()
    for k, S in enumerate(inner.regions):
        if axis < len(S):
            rest = tuple(v for v in S if v != S[axis])
            entries.add(height + cell_map(inner, S, rest), inner.part(k), 1 / math.sqrt(inner.states[S[axis]]))
            height += math.prod(inner.shape(rest))
    return entries.matrix(height, inner.cells)


def _subsets(region: Region) -> list[Region]:
    """The sets of variables in a region, each sorted, without the empty one."""
    ordered = sorted(region)
    return [S for size in range(1, len(ordered) + 1) for S in itertools.combinations(ordered, size)]


def _beyond(tables: Regions, region: Region, S: Region) -> int:
    return math.prod(tables.states[v] for v in region if v not in S)
