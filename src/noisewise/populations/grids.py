"""Weighted points of several columns at once, for what a product of one-column moments does not reach.

    E f(X, Y, ...) = sum_m weight_m f(x_m, y_m, ...)        points by column (K, M), weights (K, M) that sum to 1

Two columns: nodes of the first, and for each of them nodes of the second given the first, cut wherever a clip, an
indicator or an absolute value of both switches: about 1e-9, and 1e-4 for a root that mixes columns. Three independent
columns: a tensor grid, about 1e-8 where features bend in one column at a time, 1e-3 where an indicator mixes columns.
Everything else: a fixed quasi-random bank of 8192 points (Sobol), about 1e-4 of a feature's spread (1e-3 for indicators
that mix columns), the same points for every theta, so moments stay smooth in theta. Under outside="refuse" the bank of
a multivariate normal is drawn inside the bounds column by column, weighted by the mass it came from (Genz, 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from scipy import special, stats

from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.nodes import (
    Nodes,
    bends_of,
    crossings,
    kinks_of,
    quadrature_nodes,
    quantile_inside,
    record_nodes,
)
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import Joint, Normal, Population
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature

BANK_SIZE = 2**13
CHUNK = 32
CROSSINGS = 4
CONDITIONAL = Normal(mean=stats.norm(), sd=stats.halfnorm())  # both free: one row a condition

Points = tuple[dict[str, Array], Array]


def weighted_points(
    population: Joint | MultivariateNormal,
    schema: Schema,
    columns: Sequence[str],
    features: Sequence[Feature],
    bends: Sequence[tuple[Feature, float]],
    theta: Theta,
) -> Iterator[Points]:
    """Points by column and weights, a few rows of theta at a time; `bends` are further edges (f, edge) of interest."""
    bends = [*bends, *bends_of(features)]
    is_grid = len(columns) == 3 and isinstance(population, Joint)
    chunk = 1 if is_grid else CHUNK
    for rows in row_chunks(theta, chunk):
        if len(columns) == 2:
            yield _pair(population, schema, columns, features, bends, rows)
        elif is_grid:
            yield _tensor(population, schema, columns, features, rows)
        else:
            yield _bank(population, schema, columns, rows)


def row_chunks(theta: Theta, size: int) -> Iterator[dict[str, Array]]:
    """A few rows of theta at a time."""
    for start in range(0, rows_of(theta), size):
        yield {name: np.asarray(value)[start : start + size] for name, value in theta.items()}


def normal_points(
    population: MultivariateNormal, schema: Schema, columns: Sequence[str], theta: Theta
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Records of the bank before and after the clamp."""
    z = special.ndtri(base_bank(len(columns)))
    raw = population.from_normals(z, theta, columns)
    return raw, {name: _cleaned(x, schema, name) for name, x in raw.items()}


def _pair(
    population: Joint | MultivariateNormal,
    schema: Schema,
    columns: Sequence[str],
    features: Sequence[Feature],
    bends: Sequence[tuple[Feature, float]],
    theta: Theta,
) -> Points:
    """Nodes of one column, and for each of them nodes of the other given it."""
    # The inner column is cut where features of both switch, so it had better be continuous.
    outer, inner = sorted(columns, key=lambda name: not population.marginal(name).is_discrete)
    mixed = [(f, edge) for f, edge in bends if f.columns() == {outer, inner}]
    first = _outer_nodes(population, schema, outer, (*_kinks(features, bends, schema, outer),
                                                     *_corners(mixed, schema, outer, inner)), theta)  # fmt: skip
    K, M = rows_of(theta), first.x.shape[1]
    raw = np.broadcast_to(first.x, (K, M)).reshape(-1)
    law, given = _conditional(population, outer, inner, raw, theta)
    x = _cleaned(raw, schema, outer)
    own = np.broadcast_to(_kinks(features, bends, schema, inner), (K * M, len(_kinks(features, bends, schema, inner))))
    kinks = np.concatenate([own, *(_mixed_crossings(bend, schema, outer, inner, x) for bend in mixed)], axis=1)
    second = record_nodes(law, schema, inner, given, kinks, coarse=True)
    weight = np.broadcast_to(first.weight, (K, M)).reshape(-1, 1) * second.weight
    if isinstance(population, MultivariateNormal) and schema.outside == "refuse":
        bounds = schema.bounded(inner)
        weight = weight * law.between([bounds.low], [bounds.high], given)
    weight = weight.reshape(K, -1)
    points = {
        outer: np.broadcast_to(x[:, None], (K * M, second.x.shape[1])).reshape(K, -1),
        inner: np.broadcast_to(second.x, (K * M, second.x.shape[1])).reshape(K, -1),
    }
    return points, weight / weight.sum(axis=1, keepdims=True)


def _outer_nodes(
    population: Joint | MultivariateNormal, schema: Schema, outer: str, kinks: Sequence[float], theta: Theta
) -> Nodes:
    """Nodes of the outer column: cleaned where columns are independent, before the clamp where they are not."""
    law, own = population.marginal(outer), population.theta_of(outer, theta)
    if isinstance(population, Joint) or schema.outside == "refuse":
        return record_nodes(law, schema, outer, own, kinks, coarse=True)
    # Given that the outer record was clamped, the inner one is not normal: the tail itself has to be integrated.
    bounds = schema.bounded(outer)
    mean, sd = population.location(theta, [outer])
    wide = Bounded(float(np.min(mean - 12 * sd)), float(np.max(mean + 12 * sd)))
    ends = [end for end in (bounds.low, bounds.high, *kinks) if wide.low < end < wide.high]
    return quadrature_nodes(law, wide, "clamp", own, ends, coarse=True)


def _conditional(
    population: Joint | MultivariateNormal, outer: str, inner: str, raw: Array, theta: Theta
) -> tuple[Population, dict[str, Array]]:
    """The law of the inner column given each outer value, one row a value."""
    K = rows_of(theta)
    each = len(raw) // K
    if isinstance(population, Joint):
        own = population.theta_of(inner, theta)
        return population.marginal(inner), {name: np.repeat(value, each, axis=0) for name, value in own.items()}
    mean, sd = (np.repeat(value, each, axis=0) for value in population.location(theta, [outer, inner]))
    root = np.repeat(population.root(theta, [outer, inner]), each, axis=0)
    z = (raw - mean[:, 0]) / sd[:, 0]
    return CONDITIONAL, {"mean": mean[:, 1] + sd[:, 1] * root[:, 1, 0] * z, "sd": sd[:, 1] * root[:, 1, 1]}


def _kinks(
    features: Sequence[Feature], bends: Sequence[tuple[Feature, float]], schema: Schema, name: str
) -> tuple[float, ...]:
    """Where the parts of features that read this column alone bend, or meet an edge."""
    entry = schema.column(name)
    if not isinstance(entry, Bounded):
        return ()
    alone = {node for feature in features for node in feature.nodes() if node.columns() == {name}}
    found = set(kinks_of(tuple(sorted(alone, key=str)), schema, name))
    grid = np.linspace(entry.low, entry.high, 2049)
    for f, edge in bends:
        if f.columns() == {name}:
            found |= crossings(_along(f, schema, {}, name, edge), grid)
    return tuple(sorted(k for k in found if entry.low < k < entry.high))


def _corners(mixed: Sequence[tuple[Feature, float]], schema: Schema, outer: str, inner: str) -> set[float]:
    """Outer values at which a bend of both columns enters or leaves the bounds of the inner one."""
    across, along = schema.column(inner), schema.column(outer)
    if not isinstance(across, Bounded) or not isinstance(along, Bounded):
        return set()
    grid = np.linspace(along.low, along.high, 2049)
    found: set[float] = set()
    for f, edge in mixed:
        for end in (across.low, across.high):
            found |= crossings(_along(f, schema, {inner: end}, outer, edge), grid)
    return found


def _along(f: Feature, schema: Schema, fixed: Mapping[str, float], name: str, edge: float) -> Callable[[Array], Array]:
    """f - edge as a function of one column, the others held fixed."""

    def excess(x: Array) -> Array:
        others = {other: np.full(x.shape, value) for other, value in fixed.items()}
        return np.broadcast_to(np.asarray(f.value({**others, name: x}, schema), dtype=float), x.shape) - edge

    return excess


def _mixed_crossings(bend: tuple[Feature, float], schema: Schema, outer: str, inner: str, x: Array) -> Array:
    """For each outer value x (R,) the inner values where f passes the edge, (R, crossings); the rest sit at a bound."""
    (f, edge), entry = bend, schema.column(inner)
    if not isinstance(entry, Bounded):
        return np.zeros((len(x), 0))

    def excess(y: Array) -> Array:
        return np.asarray(f.value({outer: np.broadcast_to(x[:, None], y.shape), inner: y}, schema) - edge)

    grid = np.linspace(entry.low, entry.high, 65)
    values = excess(np.broadcast_to(grid, (len(x), len(grid))))
    changes = values[:, :-1] * values[:, 1:] <= 0
    first = np.argsort(~changes, axis=1, kind="stable")[:, :CROSSINGS]
    low, high = grid[first], grid[first + 1]
    start = np.sign(np.take_along_axis(values, first, axis=1))
    for _ in range(48):
        middle = (low + high) / 2
        before = excess(middle) * start > 0
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return np.where(np.take_along_axis(changes, first, axis=1), high, entry.high)


def _tensor(
    population: Joint | MultivariateNormal,
    schema: Schema,
    columns: Sequence[str],
    features: Sequence[Feature],
    theta: Theta,
) -> Points:
    """The tensor grid of the columns' own nodes."""
    K = rows_of(theta)
    points: dict[str, Array] = {}
    weight = np.ones((K, 1))
    for name in columns:
        law, own = population.marginal(name), population.theta_of(name, theta)
        nodes = record_nodes(law, schema, name, own, _kinks(features, (), schema, name), coarse=True)
        size = nodes.x.shape[1]
        points = {other: np.repeat(x, size, axis=1) for other, x in points.items()}
        points[name] = np.tile(np.broadcast_to(nodes.x, (K, size)), (1, weight.shape[1]))
        weight = (weight[:, :, None] * np.broadcast_to(nodes.weight, (K, size))[:, None, :]).reshape(K, -1)
    return points, weight


def _bank(population: Joint | MultivariateNormal, schema: Schema, columns: Sequence[str], theta: Theta) -> Points:
    K, u = rows_of(theta), base_bank(len(columns))
    weight = np.full((K, len(u)), 1 / len(u))
    if isinstance(population, Joint):
        points = {}
        for j, name in enumerate(columns):
            law, own, entry = population.marginal(name), population.theta_of(name, theta), schema.column(name)
            if isinstance(entry, Bounded) and schema.outside == "refuse":
                x = quantile_inside(law, entry, u[:, j], own)
            else:
                x = law.quantile(u[:, j], own)
            points[name] = _cleaned(np.broadcast_to(x, (K, len(u))), schema, name)
        return points, weight
    if schema.outside == "refuse":
        return _truncated_bank(population, schema, columns, u, theta)
    raw = population.from_normals(special.ndtri(u), theta, columns)
    return {name: _cleaned(x, schema, name) for name, x in raw.items()}, weight


def _truncated_bank(
    population: MultivariateNormal, schema: Schema, columns: Sequence[str], u: Array, theta: Theta
) -> Points:
    """Each column drawn inside its bounds given those before it, weighted by the mass it was drawn from."""
    K, M = rows_of(theta), len(u)
    mean, sd = population.location(theta, columns)
    root = population.root(theta, columns)
    z, weight = np.zeros((K, M, len(columns))), np.ones((K, M))
    points = {}
    for j, name in enumerate(columns):
        bounds = schema.bounded(name)
        centre = mean[:, j, None] + sd[:, j, None] * np.einsum("kmi,ki->km", z, root[:, j])
        given = {"mean": centre.reshape(-1), "sd": np.repeat(sd[:, j] * root[:, j, j], M)}
        weight = weight * CONDITIONAL.between([bounds.low], [bounds.high], given).reshape(K, M)
        x = CONDITIONAL.quantile_between(bounds.low, bounds.high, np.tile(u[:, j], K)[:, None], given).reshape(K, M)
        points[name] = np.where(np.isnan(x), bounds.low, x)  # of weight 0
        z[..., j] = (points[name] - centre) / (sd[:, j] * root[:, j, j])[:, None]
    total = weight.sum(axis=1, keepdims=True)
    return points, weight / np.where(total > 0, total, np.nan)


@lru_cache(maxsize=8)
def base_bank(size: int) -> Array:
    """The fixed quasi-random bank (8192, size) of uniforms; the same on every call."""
    # One fixed scrambling keeps points off the corners; it is part of the rule, not a source of randomness.
    return np.asarray(stats.qmc.Sobol(size, scramble=True, rng=np.random.default_rng(0)).random(BANK_SIZE))


def _cleaned(x: Array, schema: Schema, name: str) -> Array:
    entry = schema.column(name)
    return np.clip(x, entry.low, entry.high) if isinstance(entry, Bounded) else np.asarray(x)
