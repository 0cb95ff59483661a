"""What a model says about its tables: log-partition function, probabilities, covariances, entropy, draws; exact.

    A(theta) = log sum_x exp(theta . t(x)),     mu = grad A,     Sigma = hess A = Cov t(x),     H = A - theta . mu

t(x) marks, region by region, the cell that x lies in. Everything is exact on a junction tree (`JunctionEngine`);
`loopy` approximates it for graphs whose cliques are too large. Potentials are laid out as `Regions` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.graphical.propagation import Route, propagate, propagate_rows, route_of, turn, turn_rows
from noisewise.graphical.structure import JunctionTree, Region, Regions, junction_tree, onto
from noisewise.types import Floats as Floats
from noisewise.types import Ints as Ints

__all__ = ["Engine", "JunctionEngine", "Product", "one_a_cell"]

Product = Callable[[Floats], Floats]
BLOCK = 16  # directions that are carried through the tree together


class Engine(Protocol):
    """Inference in a model whose potentials are given cell by cell."""

    @property
    def tables(self) -> Regions: ...

    @property
    def is_exact(self) -> bool: ...

    @property
    def reason(self) -> str:
        """Why answers are not exact; empty if they are."""
        ...

    def marginals(self, potentials: Floats) -> tuple[float, Floats]:
        """A and mu at one vector of potentials."""
        ...

    def marginals_of_rows(self, potentials: Floats) -> tuple[Floats, Floats]:
        """A (K,) and mu (K, cells) at K vectors."""
        ...

    def covariance(self, potentials: Floats) -> Floats:
        """Sigma (cells, cells)."""
        ...

    def linearised(self, potentials: Floats) -> tuple[Floats, Floats, Product]:
        """A (K,), mu (K, cells), and what takes directions (K, cells) to Sigma times them, row by row.

        Sigma times a direction is the derivative of mu along it.
        """
        ...


class JunctionEngine:
    """Exact inference on a junction tree."""

    is_exact = True
    reason = ""

    def __init__(self, tables: Regions, tree: JunctionTree | None = None) -> None:
        self.tables = tables
        self.tree = junction_tree(tables) if tree is None else tree

    @cached_property
    def route(self) -> Route:
        return route_of(self.tables, self.tree)

    @cached_property
    def tree_cells(self) -> int:
        """The cells of all cliques: what one pass costs."""
        return sum(math.prod(self.tables.shape(clique)) for clique in self.tree.cliques)

    def marginals(self, potentials: Floats) -> tuple[float, Floats]:
        total, _, _, mu = self._propagated(potentials)
        return total, mu

    def marginals_of_rows(self, potentials: Floats) -> tuple[Floats, Floats]:
        total, mu, _, _ = self._rows_propagated(one_a_cell(self.tables, potentials), 1)
        return total, mu

    def linearised(self, potentials: Floats) -> tuple[Floats, Floats, Product]:
        """Sigma is never made: a product costs little more than mu does."""
        rows = one_a_cell(self.tables, potentials)
        total, mu, given, beliefs = self._rows_propagated(rows, len(rows))

        def product(directions: Floats) -> Floats:
            products = np.empty_like(mu)
            turn_rows(one_a_cell(self.tables, directions), self.route, given, beliefs, products)
            return products

        return total, mu, product

    def _rows_propagated(self, rows: Floats, kept: int) -> tuple[Floats, Floats, Floats, Floats]:
        """A, mu; of the cliques' cells P(x_k | separator) and P(x_k) for `kept` rows (all, or one to overwrite)."""
        given, beliefs = np.empty((kept, self.tree_cells)), np.empty((kept, self.tree_cells))
        mu, total = np.empty((len(rows), self.tables.cells)), np.empty(len(rows))
        propagate_rows(rows, self.route, given, beliefs, mu, total)
        return total, mu, given, beliefs

    def _propagated(self, potentials: Floats) -> tuple[float, Floats, Floats, Floats]:
        """A; of the cliques' cells P(x_k | separator) and P(x_k), laid end to end; mu."""
        given, beliefs, mu = np.empty(self.tree_cells), np.empty(self.tree_cells), np.empty(self.tables.cells)
        return propagate(one_a_cell(self.tables, potentials), self.route, given, beliefs, mu), given, beliefs, mu

    def _by_clique(self, values: Floats) -> list[Floats]:
        """Values laid end to end as each clique's table, with an axis a variable."""
        starts = self.route.starts
        return [
            values[starts[k] : starts[k + 1]].reshape(self.tables.shape(clique))
            for k, clique in enumerate(self.tree.cliques)
        ]

    def entropy(self, potentials: Floats) -> float:
        """H of the whole distribution, in nats."""
        total, mu = self.marginals(potentials)
        return float(total - potentials @ mu)

    def covariance(self, potentials: Floats) -> Floats:
        """Sigma: the derivative of mu along every cell, a block of cells at a time."""
        _, product = self.response(potentials)
        sigma = np.empty((self.tables.cells, self.tables.cells))
        for start in range(0, self.tables.cells, BLOCK):
            block = np.eye(self.tables.cells, min(BLOCK, self.tables.cells - start), -start)
            sigma[start : start + BLOCK] = product(block).T
        return sigma

    def response(self, potentials: Floats) -> tuple[Floats, Product]:
        """mu, and what takes columns (cells, k) to Sigma times them; Sigma is never made."""
        _, given, beliefs, mu = self._propagated(potentials)

        def product(columns: Floats) -> Floats:
            turned = np.empty_like(columns)
            turn(columns, self.route, given, beliefs, turned)
            return turned

        return mu, product

    def sample(self, rng: np.random.Generator, potentials: Floats, count: int) -> Ints:
        """Records (count, variables), as indices of states."""
        records = np.zeros((count, len(self.tables.states)), dtype=np.int64)
        for clique, separator, given in self._given_separators(potentials):
            fresh = [v for v in clique if v not in separator]
            ladder = np.cumsum(given.reshape(math.prod(self.tables.shape(separator)), -1), axis=1)
            ladder /= ladder[:, -1:]
            row = np.zeros(count, dtype=np.int64)
            for v in separator:
                row = row * self.tables.states[v] + records[:, v]
            # One sorted line for all rows: row i's steps lie in (i, i + 1].
            line = (ladder + np.arange(len(ladder))[:, None]).ravel()
            cell = np.searchsorted(line, row + rng.random(count), side="right") - row * ladder.shape[1]
            cell = np.minimum(cell, ladder.shape[1] - 1)
            for v in reversed(fresh):
                cell, records[:, v] = np.divmod(cell, self.tables.states[v])
        return records

    def sample_tables(self, rng: np.random.Generator, potentials: Floats, count: int) -> Ints:
        """The tables (cells,) of `count` records; the cost does not depend on count."""
        counts: list[Ints] = []
        for k, (clique, separator, given) in enumerate(self._given_separators(potentials)):
            flat = given.reshape(math.prod(self.tables.shape(separator)), -1)
            flat = flat / flat.sum(axis=1, keepdims=True)
            parent = self.tree.parents[k]
            if parent < 0:
                people = np.array([count])
            else:
                people = onto(counts[parent], self.tree.cliques[parent], separator).ravel()
            drawn = rng.multinomial(people, flat).reshape(given.shape)
            order = [*separator, *(v for v in clique if v not in separator)]
            counts.append(onto(drawn, order, clique))
        tables = [
            onto(counts[home], self.tree.cliques[home], region).ravel()
            for region, home in zip(self.tables.regions, self.tree.homes, strict=True)
        ]
        return np.concatenate([*tables, np.zeros(0, dtype=np.int64)])

    def _given_separators(self, potentials: Floats) -> list[tuple[Region, Region, Floats]]:
        """Clique by clique: its variables, its separator's, and P(clique | separator) with the separator's axes first.

        Conditionals are proper also where the separator's probability is too small for a float.
        """
        found = []
        for k, given in enumerate(self._by_clique(self._propagated(potentials)[1])):
            clique, separator = self.tree.cliques[k], self.tree.separator(k)
            order = [clique.index(v) for v in (*separator, *(v for v in clique if v not in separator))]
            found.append((clique, separator, given.transpose(order)))
        return found


def one_a_cell(tables: Regions, values: Floats) -> Floats:
    """The values, contiguous; compiled code would read past the end of a vector that is too short."""
    if np.shape(values)[-1:] != (tables.cells,):
        raise InvalidArgument(
            f"a vector over the cells of these tables has {tables.cells} entries, but the shape is {np.shape(values)}",
            argument="potentials",
        )
    return np.ascontiguousarray(values, dtype=float)
