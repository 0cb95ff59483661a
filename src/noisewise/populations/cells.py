"""The law of the cell that one cleaned record of one column falls into.

Cell j of a feature f is {x: edge_{j-1} <= f(x) < edge_j}. Its preimage is a union of intervals whose ends are where f
crosses an edge; there are few of them and they do not depend on theta. So with the breaks found once,

    P(cell j) = sum over its intervals (a, b) of P(a < X < b),   plus the atoms of the clamp at low and high,

from the population's own cdf, exact to its rounding. Discrete populations and levels are enumerated.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from noisewise.populations.nodes import crossings, kinks_of, quadrature_nodes, record_nodes, turning_points
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Population
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature

Indices = np.ndarray[Any, np.dtype[np.int64]]


def column_cells(
    population: Population,
    schema: Schema,
    column: str,
    feature: Feature,
    edges: tuple[float, ...] | None,
    theta: Theta,
) -> Array:
    """Probabilities (K, cells); without edges the cells are the levels of the column."""
    entry = schema.column(column)
    if population.is_discrete or not isinstance(entry, Bounded):
        nodes = record_nodes(population, schema, column, theta, ())
        if edges is None:
            return np.array(nodes.weight)
        return _gathered(nodes.weight, _cell(feature, edges, nodes.x[0], schema, column), len(edges) + 1)
    assert edges is not None
    breaks, owner = _intervals(feature, edges, schema, column)
    inside = population.between(breaks[:-1], breaks[1:], theta)
    p = _gathered(inside, owner, len(edges) + 1)
    if schema.outside == "clamp":
        first, last = _cell(feature, edges, np.array([entry.low, entry.high]), schema, column)
        p[:, first] += population.between([-np.inf], [entry.low], theta)[:, 0]
        p[:, last] += population.between([entry.high], [np.inf], theta)[:, 0]
    lost = np.flatnonzero(p.sum(axis=1) == 0)
    if len(lost):  # truncated so far out that the mass is no double: relative weights instead
        rows = {name: np.asarray(value)[lost] for name, value in theta.items()}
        nodes = quadrature_nodes(population, entry, schema.outside, rows, breaks[1:-1])
        cell = owner[np.clip(np.searchsorted(breaks, nodes.x, side="right") - 1, 0, len(owner) - 1)]
        p[lost] = _gathered(nodes.weight, cell, p.shape[1])
        p[lost] = np.where(np.isnan(nodes.weight).any(axis=1, keepdims=True), np.nan, p[lost])
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _gathered(weights: Array, cell: Indices, size: int) -> Array:
    """The weights (K, nodes) added up by their cells, the same for each row or (K, nodes): (K, size)."""
    cells = np.broadcast_to(cell, weights.shape)
    rows = [np.bincount(one, each, minlength=size) for one, each in zip(cells, weights, strict=True)]
    return np.asarray(rows, dtype=np.float64).reshape(len(weights), size)


@lru_cache(maxsize=256)
def _intervals(feature: Feature, edges: tuple[float, ...], schema: Schema, column: str) -> tuple[Array, Indices]:
    """Breaks b_0 = low < ... < b_m = high and the cell (m,) of each open interval between them."""
    entry = schema.bounded(column)
    kinks, _ = _grid(feature, schema, column)
    found = set(kinks).union(*(_reached(feature, edge, schema, column) for edge in edges))
    breaks = np.array(sorted({entry.low, entry.high, *found}))
    owner = _cell(feature, edges, (breaks[:-1] + breaks[1:]) / 2, schema, column)
    kept = np.concatenate([[True], owner[1:] != owner[:-1]])
    return np.append(breaks[:-1][kept], breaks[-1]), owner[kept]


@lru_cache(maxsize=64)
def _grid(feature: Feature, schema: Schema, column: str) -> tuple[tuple[float, ...], Array]:
    """The kinks of a feature, and a grid fine enough to see every change of direction."""
    entry, kinks = schema.bounded(column), kinks_of((feature,), schema, column)
    grid = np.unique(np.concatenate([np.linspace(entry.low, entry.high, 2049), kinks]))
    turns = turning_points(feature, grid, schema, column)
    return kinks, np.unique(np.concatenate([grid, (grid[:-1] + grid[1:]) / 2, turns]))


@lru_cache(maxsize=4096)
def _reached(feature: Feature, edge: float, schema: Schema, column: str) -> frozenset[float]:
    """Where the feature crosses one edge; cached, since a search moves one edge at a time."""
    if feature == Feature("column", (column,)):
        entry = schema.bounded(column)
        return frozenset({edge} if entry.low <= edge <= entry.high else ())
    grid = _grid(feature, schema, column)[1]
    return frozenset(crossings(lambda x: _values(feature, x, schema, column) - edge, grid))


def _cell(feature: Feature, edges: tuple[float, ...], x: Array, schema: Schema, column: str) -> Indices:
    """How many edges the feature has reached at each x."""
    return np.asarray(np.searchsorted(np.asarray(edges), _values(feature, x, schema, column), side="right"))


def _values(feature: Feature, x: Array, schema: Schema, column: str) -> Array:
    return np.broadcast_to(np.asarray(feature.value({column: x}, schema), dtype=float), x.shape)
