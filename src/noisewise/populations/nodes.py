"""The law of one cleaned record as weighted points: every expectation becomes a weighted sum.

A record passes the schema before a statistic sees it. With outside="clamp" its law on [low, high] has atoms at the
bounds, P(X <= low) and P(X >= high); with "refuse" it is the population truncated to the bounds, a different law. The
inside is cut at the quantiles of the population and at the kinks of the features (where a clip, an indicator or an
absolute value bends), and each panel gets Gauss-Legendre nodes, so moments of smooth features are exact to rounding:

    E f(X) = sum_m weight_m f(x_m),    nodes x and weights (K, M), one row a value of theta.

Discrete populations are enumerated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Population
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature

TAILS = (1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15, 0.3, 0.5)
CUTS = np.array([*TAILS, *(1 - t for t in reversed(TAILS[:-1]))])
PER_PANEL = 14
MOST_POINTS = 200_000
GAUSS_X, GAUSS_W = np.polynomial.legendre.leggauss(PER_PANEL)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Weighted points of the law of one cleaned record, one row a value of theta; weights sum to 1."""

    x: Array
    weight: Array

    def mean(self, values: Array) -> Array:
        """E of values (K, M)."""
        return np.asarray((self.weight * values).sum(axis=-1))


def record_nodes(population: Population, schema: Schema, column: str, theta: Theta, kinks: Sequence[float]) -> Nodes:
    """The law of one record of a column after the schema's clamp or truncation."""
    entry = schema.column(column)
    if not isinstance(entry, Bounded):
        return _enumerated(population, np.arange(len(entry), dtype=float), theta, None)
    if population.is_discrete:
        return _enumerated(population, _lattice(population, theta), theta, (entry, schema.outside))
    return _quadrature(population, entry, schema.outside, theta, kinks)


def feature_moments(
    population: Population, schema: Schema, features: Sequence[Feature], theta: Theta
) -> tuple[Array, Array]:
    """Mean (K, d) and covariance (K, d, d) of a row of features of one cleaned record."""
    column = only_column(features)
    nodes = record_nodes(population, schema, column, theta, kinks_of(tuple(features), schema, column))
    values = np.stack([np.broadcast_to(f.value({column: nodes.x}, schema), nodes.x.shape) for f in features], axis=-1)
    mean = np.einsum("km,kmd->kd", nodes.weight, values)
    centred = values - mean[:, None, :]
    return mean, np.einsum("km,kmd,kme->kde", nodes.weight, centred, centred)


def only_column(features: Sequence[Feature]) -> str:
    """The one column that features read, for a population of one column."""
    names = frozenset().union(*(feature.columns() for feature in features))
    if len(names) != 1:
        raise Unsupported(
            f"The release uses the columns {', '.join(sorted(names))}; describe each of them, as in "
            f"Joint({'=..., '.join(sorted(names))}=...)."
        )
    return next(iter(names))


@lru_cache(maxsize=256)
def kinks_of(features: tuple[Feature, ...], schema: Schema, column: str) -> tuple[float, ...]:
    """Where features of one column bend: the values at which a clip, an indicator or an absolute value switches."""
    entry = schema.column(column)
    if not isinstance(entry, Bounded):
        return ()
    grid = np.linspace(entry.low, entry.high, 2049)
    kinks: set[float] = set()
    for feature in features:
        for node in feature.nodes():
            if node.operation in ("clip", "between", "absolute"):
                inner, edges = node.arguments[0], node.arguments[1:] or (0.0,)
                for edge in edges:
                    kinks |= _crossings(inner, float(edge), grid, schema, column)
            elif node.operation == "power" and node.arguments[1].denominator != 1:
                # A root has an infinite slope at 0: panels shrink towards it, so that each sees a smooth piece.
                base = node.arguments[0]
                while base.operation == "absolute":
                    base = base.arguments[0]
                zeros = _crossings(base, 0.0, grid, schema, column)
                kinks |= {zero + sign * (entry.high - entry.low) * 4.0**-k
                          for zero in zeros for sign in (-1, 0, 1) for k in range(1, 24)}  # fmt: skip
    return tuple(sorted(k for k in kinks if entry.low < k < entry.high))


def _crossings(inner: Feature, edge: float, grid: Array, schema: Schema, column: str) -> set[float]:
    def excess(x: Array) -> Array:
        return np.broadcast_to(np.asarray(inner.value({column: x}, schema), dtype=float), x.shape) - edge

    values = excess(grid)
    found = set(grid[values == 0].tolist())
    for k in np.flatnonzero(values[:-1] * values[1:] < 0):
        low, high = grid[k], grid[k + 1]
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(np.array([middle]))[0] * values[k] > 0 else (low, middle)
        found.add(float(high))
    return found


def _quadrature(population: Population, entry: Bounded, outside: str, theta: Theta, kinks: Sequence[float]) -> Nodes:
    low, high = entry.low, entry.high
    cuts = np.clip(np.nan_to_num(population.quantile(CUTS, theta), nan=low), low, high)
    fixed = np.broadcast_to([low, *kinks, high], (len(cuts), len(kinks) + 2))
    edges = np.sort(np.concatenate([cuts, fixed], axis=1), axis=1)
    half = np.diff(edges, axis=1)[..., None] / 2
    x = (edges[:, :-1, None] + half + half * GAUSS_X).reshape(len(edges), -1)
    with np.errstate(under="ignore"):
        density = np.exp(population.log_density(x, theta))
    inside = (half * GAUSS_W).reshape(len(edges), -1) * density
    if outside == "refuse":
        mass = inside.sum(axis=1, keepdims=True)
        if np.any(mass < 1e-12):
            raise InvalidArgument(
                "Under some parameters this population puts no mass inside the declared bounds, so it cannot have "
                "produced records that were all inside them (outside='refuse').",
                argument="population",
            )
        return Nodes(x, inside / mass)
    ends = np.concatenate([population.cdf([low], theta), 1 - population.cdf([high], theta)], axis=1)
    rows = len(edges)
    ends = np.broadcast_to(ends, (rows, 2))
    points = np.concatenate([x, np.broadcast_to([low, high], (rows, 2))], axis=1)
    weight = np.concatenate([inside, ends], axis=1)
    # The quadrature of a density is exact to rounding; what little is missing is shared out so that weights sum to 1.
    return Nodes(points, weight / weight.sum(axis=1, keepdims=True))


def _enumerated(population: Population, points: Array, theta: Theta, cleaned: tuple[Bounded, str] | None) -> Nodes:
    weight = np.exp(population.log_density(points, theta))
    x = np.broadcast_to(points, weight.shape)
    if cleaned is not None:
        entry, outside = cleaned
        if outside == "refuse":
            weight = np.where((x >= entry.low) & (x <= entry.high), weight, 0.0)
        x = np.clip(x, entry.low, entry.high)
    return Nodes(np.asarray(x, dtype=float), weight / weight.sum(axis=1, keepdims=True))


def _lattice(population: Population, theta: Theta) -> Array:
    ends = population.quantile([1e-16, 1 - 1e-16], theta)
    low, high = float(np.min(ends[:, 0])), float(np.max(ends[:, 1]))
    if not np.isfinite([low, high]).all() or high - low > MOST_POINTS:
        raise Unsupported("This discrete population spreads over too many values to enumerate.")
    return np.arange(low, high + 1)
