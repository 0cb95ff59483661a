"""Junction trees: an order in which tables over few variables answer for the whole distribution.

    p(x) = exp(sum_r theta_r(x_r) - A(theta)),      r a region: a tuple of variables with a table of potentials

Variables that meet in a region are joined; the graph is made chordal by eliminating variables in turn, each time the
one that joins the fewest pairs anew (min-fill), and its maximal cliques form a tree in which the cliques that hold a
variable are connected. Exact inference then costs as many operations as the cliques have cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisewise.types import Ints

__all__ = ["JunctionTree", "Region", "Regions", "junction_tree", "onto"]

Region = tuple[int, ...]


@dataclass(frozen=True)
class Regions:
    """Tables over variables with so many states each; their cells are laid end to end, each table row-major."""

    states: tuple[int, ...]
    regions: tuple[Region, ...]

    def shape(self, region: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.states[v] for v in region)

    @cached_property
    def starts(self) -> Ints:
        """Where each region's cells begin, and at the end where all end."""
        return np.concatenate([[0], np.cumsum([math.prod(self.shape(region)) for region in self.regions])])

    @property
    def cells(self) -> int:
        return int(self.starts[-1])

    def part(self, r: int) -> slice:
        """The cells of region r."""
        return slice(int(self.starts[r]), int(self.starts[r + 1]))


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in an order in which each comes after its parent; the first is the root and has none (-1)."""

    cliques: tuple[Region, ...]
    parents: tuple[int, ...]
    homes: tuple[int, ...]  # of each region: a clique that holds it

    def separator(self, k: int) -> Region:
        """What clique k shares with its parent."""
        if self.parents[k] < 0:
            return ()
        parent = set(self.cliques[self.parents[k]])
        return tuple(v for v in self.cliques[k] if v in parent)


def onto(table: NDArray[Any], variables: Sequence[int], inner: Sequence[int]) -> NDArray[Any]:
    """Sum a table whose last axes are `variables` down to one whose last axes are `inner`, in that order."""
    lead = table.ndim - len(variables)
    left = [v for v in variables if v in inner]
    summed = table.sum(axis=tuple(lead + a for a, v in enumerate(variables) if v not in inner))
    return np.asarray(summed).transpose([*range(lead), *(lead + left.index(v) for v in inner)])


def junction_tree(tables: Regions) -> JunctionTree:
    """A junction tree of the graph in which the variables of every region are joined."""
    cliques, parents = _rooted(_maximal_cliques(tables))
    size = [math.prod(tables.shape(clique)) for clique in cliques]
    homes = []
    for region in tables.regions:
        holding = [k for k, clique in enumerate(cliques) if set(region) <= set(clique)]
        homes.append(min(holding, key=size.__getitem__))
    return JunctionTree(cliques, parents, tuple(homes))


def _maximal_cliques(tables: Regions) -> list[Region]:
    """Those of the chordal graph that min-fill elimination makes (ties: the smaller table first)."""
    neighbours: dict[int, set[int]] = {v: set() for v in range(len(tables.states))}
    for region in tables.regions:
        for v, w in itertools.permutations(region, 2):
            neighbours[v].add(w)
    found: list[set[int]] = []

    def cost(v: int) -> tuple[int, float]:
        around = neighbours[v]
        missing = sum(w not in neighbours[u] for u, w in itertools.combinations(around, 2))
        return missing, math.prod(tables.states[w] for w in around)

    costs = {v: cost(v) for v in neighbours}
    while neighbours:
        v = min(costs, key=costs.__getitem__)
        around = neighbours.pop(v)
        del costs[v]
        for u in around:
            neighbours[u] |= around - {u}
            neighbours[u].discard(v)
        # What is missing around a variable changes only for those that are joined, and for their neighbours.
        for u in around.union(*(neighbours[u] for u in around)):
            costs[u] = cost(u)
        clique = around | {v}
        if not any(clique <= other for other in found):
            found.append(clique)
    return sorted(tuple(sorted(clique)) for clique in found)


def _rooted(cliques: list[Region]) -> tuple[tuple[Region, ...], tuple[int, ...]]:
    """Cliques and parents, by Prim's rule: next comes what shares most variables with what is there."""
    sets = [set(clique) for clique in cliques]
    order, parents = [0], [-1]
    nearest = {k: (len(sets[k] & sets[0]), 0) for k in range(1, len(cliques))}
    while nearest:
        k = max(nearest, key=lambda k: (nearest[k][0], -k))
        parents.append(nearest.pop(k)[1])
        order.append(k)
        for j in nearest:
            nearest[j] = max(nearest[j], (len(sets[j] & sets[k]), len(order) - 1))
    return tuple(cliques[k] for k in order), tuple(parents)
