"""Belief propagation on a junction tree, compiled: the log-partition function and every cell's probability.

    up:    m_k(s) = log sum_{x_k: x_s = s} exp(theta_k(x_k) + sum of m from below),       A = the root's
           P(x_k | s) = exp(theta_k(x_k) + sum of m from below - m_k(s))
    down:  P(x_k) = P(s) P(x_k | s),    P(s) from the clique above;     mu_r = P(x_k) summed onto the region

Each sum is taken against the largest term of its own group, so no potential is too large or too small; one exponential
a cell. Work is in proportion to the cells of the cliques; nothing depends on the number of records.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from noisewise.compilation import njit
from noisewise.graphical.structure import JunctionTree, Regions
from noisewise.types import Floats, Ints

__all__ = ["Route", "cell_map", "ends", "propagate", "propagate_rows", "route_of", "turn", "turn_rows"]


class Route(NamedTuple):
    """The tree as flat arrays. Clique k has cells starts[k]:starts[k+1]; its separator's cells are sep_starts[k]:..."""

    starts: Ints
    parents: Ints
    sep_starts: Ints
    up: Ints  # of a clique's cell: its cell in the clique's own separator (counted from 0)
    above_starts: Ints  # where the map from the parent's cells to this clique's separator begins
    above: Ints
    region_starts: Ints  # where the map from the home clique's cells to a region's cells begins
    region_cells: Ints
    homes: Ints


def cell_map(tables: Regions, clique: tuple[int, ...], inner: tuple[int, ...]) -> Ints:
    """Of each cell of a clique, row-major: the cell of the table over `inner` that it lies in."""
    shape = tables.shape(clique)
    index = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), dtype=np.int64)
    cell = np.zeros(math.prod(shape), dtype=np.int64)
    for v in inner:
        cell = cell * tables.states[v] + index[clique.index(v)]
    return cell


def route_of(tables: Regions, tree: JunctionTree) -> Route:
    """The arrays that `propagate` follows."""
    sizes = [math.prod(tables.shape(clique)) for clique in tree.cliques]
    separators = [tree.separator(k) for k in range(len(tree.cliques))]
    above = [
        cell_map(tables, tree.cliques[parent], separators[k]) if parent >= 0 else np.zeros(0, dtype=np.int64)
        for k, parent in enumerate(tree.parents)
    ]
    up = [cell_map(tables, clique, separators[k]) for k, clique in enumerate(tree.cliques)]
    maps = [
        cell_map(tables, tree.cliques[home], region) + tables.starts[r]
        for r, (region, home) in enumerate(zip(tables.regions, tree.homes, strict=True))
    ]
    return Route(
        ends(sizes),
        np.array(tree.parents, dtype=np.int64),
        ends([math.prod(tables.shape(separator)) for separator in separators]),
        np.concatenate(up),
        ends([len(part) for part in above]),
        np.concatenate(above),
        ends([len(part) for part in maps]),
        np.concatenate([*maps, np.zeros(0, dtype=np.int64)]),
        np.array(tree.homes, dtype=np.int64),
    )


def ends(sizes: list[int]) -> Ints:
    """Where parts of these sizes begin when laid end to end, and at the end where all end."""
    return np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64)


@njit(cache=True)
def log_sums(values: Floats, groups: Ints, shares: Floats, out: Floats) -> None:
    """out[g] = log of the sum of exp(values) over group g; shares: each value's part of its group's sum."""
    size = len(out)
    total = np.zeros(size)
    out[:] = -np.inf
    for t in range(len(values)):
        out[groups[t]] = max(out[groups[t]], values[t])
    for t in range(len(values)):
        shares[t] = math.exp(values[t] - out[groups[t]])
        total[groups[t]] += shares[t]
    for g in range(size):
        out[g] += math.log(total[g])
        total[g] = 1.0 / total[g]
    for t in range(len(values)):
        shares[t] *= total[groups[t]]


@njit(cache=True)
def propagate(potentials: Floats, route: Route, given: Floats, beliefs: Floats, marginals: Floats) -> float:
    """A(potentials); writes given = P(x_k | x_s) and beliefs = P(x_k) of each clique's cells, and regions' mu."""
    starts, parents, sep_starts, up, above_starts, above, region_starts, region_cells, homes = route
    beliefs[:] = 0.0
    for r in range(len(homes)):
        begin, offset = region_starts[r], starts[homes[r]]
        for t in range(region_starts[r + 1] - begin):
            beliefs[offset + t] += potentials[region_cells[begin + t]]
    message = np.empty(sep_starts[-1])
    for k in range(len(parents) - 1, -1, -1):
        begin, end, low, high = starts[k], starts[k + 1], sep_starts[k], sep_starts[k + 1]
        log_sums(beliefs[begin:end], up[begin:end], given[begin:end], message[low:high])
        if parents[k] >= 0:
            offset = starts[parents[k]]
            for t in range(above_starts[k + 1] - above_starts[k]):
                beliefs[offset + t] += message[low + above[above_starts[k] + t]]
    total = message[sep_starts[0]]
    for k in range(len(parents)):
        low, high = sep_starts[k], sep_starts[k + 1]
        _sum_above(k, route, beliefs, message[low:high], 1.0)
        for t in range(starts[k], starts[k + 1]):
            beliefs[t] = message[low + up[t]] * given[t]
    _onto_regions(route, beliefs, marginals)
    return float(total)


@njit(cache=True)
def turn(directions: Floats, route: Route, given: Floats, beliefs: Floats, products: Floats) -> None:
    """products = Sigma directions = d mu(potentials + e direction)/de at e = 0, a column each, after `propagate`.

    up:    dm_k(s) = sum over x_k of P(x_k | s) d_k(x_k),    d_k = direction's + all dm from below
    down:  dP(x_k) = dP(s) P(x_k | s) + P(x_k) (d_k(x_k) - dm_k(s))
    """
    starts, parents, sep_starts, up, above_starts, above, region_starts, region_cells, homes = route
    columns = directions.shape[1]
    change, message = np.zeros((starts[-1], columns)), np.zeros((sep_starts[-1], columns))
    for r in range(len(homes)):
        begin, offset = region_starts[r], starts[homes[r]]
        for t in range(region_starts[r + 1] - begin):
            add(change, offset + t, directions, region_cells[begin + t], 1.0)
    for k in range(len(parents) - 1, -1, -1):
        low = sep_starts[k]
        for t in range(starts[k], starts[k + 1]):
            add(message, low + up[t], change, t, given[t])
        for t in range(starts[k], starts[k + 1]):
            add(change, t, message, low + up[t], -1.0)
        if parents[k] >= 0:
            offset = starts[parents[k]]
            for t in range(above_starts[k + 1] - above_starts[k]):
                add(change, offset + t, message, low + above[above_starts[k] + t], 1.0)
    message[:] = 0.0
    for k in range(len(parents)):
        low = sep_starts[k]
        if parents[k] >= 0:
            offset = starts[parents[k]]
            for t in range(above_starts[k + 1] - above_starts[k]):
                add(message, low + above[above_starts[k] + t], change, offset + t, 1.0)
        for t in range(starts[k], starts[k + 1]):
            for c in range(columns):
                change[t, c] = message[low + up[t], c] * given[t] + beliefs[t] * change[t, c]
    products[:] = 0.0
    for r in range(len(homes)):
        begin, offset = region_starts[r], starts[homes[r]]
        for t in range(region_starts[r + 1] - begin):
            add(products, region_cells[begin + t], change, offset + t, 1.0)


@njit(cache=True, inline="always")
def add(target: Any, i: int, source: Any, j: int, weight: float) -> None:
    """target[i] += weight source[j], row to row."""
    for c in range(target.shape[1]):
        target[i, c] += weight * source[j, c]


@njit(cache=True)
def _sum_above(k: int, route: Route, values: Floats, out: Floats, at_root: float) -> None:
    """The sums of the parent's values over all cells that share a cell of clique k's separator."""
    starts, parents, above_starts, above = route[0], route[1], route[4], route[5]
    if parents[k] < 0:
        out[:] = at_root
        return
    out[:] = 0.0
    offset = starts[parents[k]]
    for t in range(above_starts[k + 1] - above_starts[k]):
        out[above[above_starts[k] + t]] += values[offset + t]


@njit(cache=True)
def _onto_regions(route: Route, values: Floats, out: Floats) -> None:
    """The cliques' values, summed to the regions they are home to."""
    starts, region_starts, region_cells, homes = route[0], route[6], route[7], route[8]
    out[:] = 0.0
    for r in range(len(homes)):
        begin, offset = region_starts[r], starts[homes[r]]
        for t in range(region_starts[r + 1] - begin):
            out[region_cells[begin + t]] += values[offset + t]


@njit(cache=True)
def propagate_rows(
    potentials: Floats, route: Route, given: Floats, beliefs: Floats, marginals: Floats, totals: Floats
) -> None:
    """`propagate` for each row of potentials; given and beliefs have a row each, or one row for all to overwrite."""
    for j in range(len(potentials)):
        k = j % len(given)
        totals[j] = propagate(potentials[j], route, given[k], beliefs[k], marginals[j])


@njit(cache=True)
def turn_rows(directions: Floats, route: Route, given: Floats, beliefs: Floats, products: Floats) -> None:
    """`turn` for each row of what `propagate_rows` wrote, with its own row of directions."""
    for j in range(len(directions)):
        turn(directions[j].reshape(-1, 1), route, given[j], beliefs[j], products[j].reshape(-1, 1))
