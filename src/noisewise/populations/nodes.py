"""The law of one cleaned record as weighted points: every expectation becomes a weighted sum.

A record passes the schema before a statistic sees it. With outside="clamp" its law on [low, high] has atoms at the
bounds, P(X <= low) and P(X >= high); with "refuse" it is the population truncated to the bounds, a different law. The
inside is cut at the quantiles of the population and at the kinks of the features (where a clip, an indicator or an
absolute value bends, and within what a logarithm or an exponential spans), and each panel gets Gauss-Legendre nodes, so
moments of smooth features are exact to rounding:

    E f(X) = sum_m weight_m f(x_m),    nodes x and weights (K, M), one row a value of theta.

Where the density has a pole or a spike that these panels do not resolve (a gamma law of shape below 1, a Weibull law),
the mass they find is not the mass there is. Panels at fault then get their mass from the distribution function and
their nodes in probability, x = Q(u) at Gauss-Legendre nodes u: a quantile function has no pole where a density has one.

A discrete population is enumerated between the bounds; what a clamp moves there comes from its distribution function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import Population
from noisewise.schema import Bounded, Schema
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature

MOST_POINTS = 200_000
LARGEST_MISS = 1e-10  # of the mass between the bounds, before panels are settled by the distribution function
Kinks = Sequence[float] | Array  # shared by all rows (m,), or one row each (K, m)


@dataclass(frozen=True, slots=True)
class Rule:
    """Where the inside is cut (quantiles of the population) and the Gauss-Legendre rule of each panel."""

    tails: tuple[float, ...]
    per_panel: int

    @property
    def cuts(self) -> Array:
        return np.array([*self.tails, *(1 - t for t in reversed(self.tails[:-1]))])


FINE = Rule((1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15, 0.3, 0.5), 14)
COARSE = Rule((1e-11, 1e-7, 1e-4, 0.01, 0.15, 0.5), 9)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Weighted points of the law of one cleaned record, one row a value of theta; weights sum to 1."""

    x: Array
    weight: Array

    def mean(self, values: Array) -> Array:
        """E of values (K, M)."""
        return np.asarray((self.weight * values).sum(axis=-1))

    def moments(self, values: Array) -> tuple[Array, Array]:
        """Mean (K, d) and covariance (K, d, d) of values (K, M, d)."""
        rows = np.ascontiguousarray(np.moveaxis(values, -1, 1))  # (K, d, M): sums run along the points
        mean = (rows @ self.weight[:, :, None])[:, :, 0]
        centred = rows - mean[:, :, None]
        return mean, (self.weight[:, None, :] * centred) @ centred.swapaxes(1, 2)


def record_nodes(
    population: Population, schema: Schema, column: str, theta: Theta, kinks: Kinks, *, coarse: bool = False
) -> Nodes:
    """The law of one record of a column after the schema's clamp or truncation; `coarse` for grids of columns."""
    entry = schema.column(column)
    if not isinstance(entry, Bounded):
        return _levels(population, len(entry), theta)
    if population.components:
        return _mixed_nodes(population, schema, column, theta, kinks, coarse=coarse)
    if population.is_discrete:
        nodes = _enumerated(population, entry, schema.outside, theta)
    else:
        nodes = quadrature_nodes(population, entry, schema.outside, theta, kinks, coarse=coarse)
    is_empty = schema.outside == "refuse" and bool(np.isnan(nodes.weight).all())
    if is_empty and not np.isnan(population.log_density([entry.low], theta)).any():
        raise nothing_inside()
    return nodes


def _mixed_nodes(
    population: Population, schema: Schema, column: str, theta: Theta, kinks: Kinks, *, coarse: bool
) -> Nodes:
    """The points of all components of a mixture, each with its weight, or with its share of what is inside."""
    entry = schema.bounded(column)
    rows = rows_of(theta)
    points, weights = [], []
    for one, own, weight in population.parts(theta):
        made = record_nodes(one, schema, column, own, kinks, coarse=coarse)
        share = np.asarray(weight)
        if schema.outside == "refuse":
            before = np.nextafter(entry.low, -np.inf)
            share = share * one.between([before], [entry.high], own)[:, 0]
        x = np.broadcast_to(made.x, (rows, made.x.shape[1]))
        points.append(x)
        weights.append(np.nan_to_num(np.broadcast_to(made.weight, x.shape)) * np.broadcast_to(share, rows)[:, None])
    weight = np.concatenate(weights, axis=1)
    total = weight.sum(axis=1, keepdims=True)
    return Nodes(np.concatenate(points, axis=1), weight / np.where(total > 0, total, np.nan))


def nothing_inside() -> InvalidArgument:
    """The refusal of a truncated law that has no mass."""
    return InvalidArgument(
        "This population puts no mass inside the declared bounds, so it cannot have produced records that were "
        "all inside them (outside='refuse').",
        argument="population",
    )


def quantile_inside(population: Population, entry: Bounded, u: Array, theta: Theta) -> Array:
    """Quantiles (K, M) of the population truncated to the bounds, for u (M,) or (K, M); NaN where it has no mass there.

    Where the mass is too small for a double (beyond 38 standard deviations) the nodes' own distribution is inverted.
    """
    x = population.quantile_between(entry.low, entry.high, u, theta)
    lost = np.flatnonzero(np.isnan(x).all(axis=1))
    if population.is_discrete or not len(lost):
        return x
    rows = {name: np.asarray(value)[lost] for name, value in theta.items()}
    nodes = quadrature_nodes(population, entry, "refuse", rows, ())
    for k, points, weight in zip(lost, nodes.x, nodes.weight, strict=True):
        upto = np.cumsum(weight) - weight / 2
        x[k] = np.interp(u if np.ndim(u) == 1 else u[k], upto, points)
    return x


def feature_moments(
    population: Population, schema: Schema, features: Sequence[Feature], theta: Theta
) -> tuple[Array, Array]:
    """Mean (K, d) and covariance (K, d, d) of a row of features of one cleaned record."""
    column = only_column(features)
    nodes = record_nodes(population, schema, column, theta, kinks_of(tuple(features), schema, column))
    values = np.stack([np.broadcast_to(f.value({column: nodes.x}, schema), nodes.x.shape) for f in features], axis=-1)
    return nodes.moments(values)


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
    for inner, edge in bends_of(features):
        kinks |= crossings(_excess(inner, edge, schema, column), grid)
    for feature in features:
        for node in feature.nodes():
            if node.operation == "power" and node.arguments[1].denominator != 1:
                # A root has an infinite slope at 0: panels shrink towards it, so that each sees a smooth piece.
                base = node.arguments[0]
                while base.operation == "absolute":
                    base = base.arguments[0]
                zeros = crossings(_excess(base, 0.0, schema, column), grid)
                kinks |= {zero + sign * (entry.high - entry.low) * 4.0**-k
                          for zero in zeros for sign in (-1, 0, 1) for k in range(1, 24)}  # fmt: skip
            elif node.operation in ("logarithm", "exponential"):
                for level in _levels_between(node, schema):
                    kinks |= crossings(_excess(node.arguments[0], level, schema, column), grid)
    return tuple(sorted(k for k in kinks if entry.low < k < entry.high))


def _levels_between(node: Feature, schema: Schema) -> Array:
    """Values of f that cut log(f) and exp(f) into pieces that a few nodes integrate: f grows fourfold, or by 8."""
    low, high, _ = feature_range(node.arguments[0], schema)
    if node.operation == "exponential":
        return np.asarray(np.arange(low, high, 8.0)[1:], np.float64)
    return np.asarray(low * 4.0 ** np.arange(1, math.ceil(math.log(high / low) / math.log(4.0))), np.float64)


def bends_of(features: Sequence[Feature]) -> list[tuple[Feature, float]]:
    """The pairs (f, edge) at which a clip, an indicator, an absolute value or a shortening inside features switches."""
    bends: dict[tuple[Feature, float], None] = {}
    for feature in features:
        for node in feature.nodes():
            if node.operation in ("clip", "between", "absolute"):
                edges = [float(edge) for edge in node.arguments[1:] or (0.0,) if math.isfinite(edge)]
                bends.update(dict.fromkeys((node.arguments[0], edge) for edge in edges))
            elif node.operation == "shrunk":
                _, radius, *row = node.arguments
                squares = [entry**2 for entry in row]
                bends[sum(squares[1:], start=squares[0]), float(radius) ** 2] = None
    return list(bends)


def _excess(inner: Feature, edge: float, schema: Schema, column: str) -> Callable[[Array], Array]:
    """f - edge as a function of the column."""
    return lambda x: np.broadcast_to(np.asarray(inner.value({column: x}, schema), dtype=float), x.shape) - edge


def crossings(excess: Callable[[Array], Array], grid: Array) -> set[float]:
    """Where a function changes sign: the first double on the far side, for every change that the grid sees."""
    values = excess(grid)
    found = set(grid[values == 0].tolist())
    places = np.flatnonzero(values[:-1] * values[1:] < 0)
    low, high, start = grid[places], grid[places + 1], np.sign(values[places])
    for _ in range(60):
        middle = (low + high) / 2
        before = excess(middle) * start > 0
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return found | set(high.tolist())


@lru_cache
def _gauss(order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return np.asarray(nodes), np.asarray(weights)


def turning_points(feature: Feature, grid: Array, schema: Schema, column: str) -> Array:
    """Where a feature turns from rising to falling or back, by golden sections between neighbours on the grid."""

    def height(x: Array) -> Array:
        return np.broadcast_to(np.asarray(feature.value({column: x}, schema), dtype=float), x.shape)

    rise = np.sign(np.diff(height(grid)))
    tops = np.flatnonzero(rise[:-1] * rise[1:] < 0) + 1
    low, high, up = grid[tops - 1], grid[tops + 1], rise[tops - 1]
    for _ in range(60):
        a, b = high - 0.6180339887498949 * (high - low), low + 0.6180339887498949 * (high - low)
        left = up * height(a) > up * height(b)
        low, high = np.where(left, low, a), np.where(left, b, high)
    return np.asarray((low + high) / 2)


def quadrature_nodes(
    population: Population, entry: Bounded, outside: str, theta: Theta, kinks: Kinks, *, coarse: bool = False
) -> Nodes:
    """Nodes of a continuous record between bounds, with the clamp's atoms or truncated."""
    low, high, rule = entry.low, entry.high, COARSE if coarse else FINE
    cuts = np.clip(np.nan_to_num(population.quantile(rule.cuts, theta), nan=low), low, high)
    mass = population.between([low], [high], theta)
    parts = [cuts, _as_rows(kinks), np.array([[low, high]])]
    if outside == "refuse" and np.any(mass < 1e-9):
        # A law that lies almost wholly outside leaves a steep slope at one bound: panels shrink towards both.
        graded = np.asarray((high - low) * 4.0 ** -np.arange(1, 25), np.float64)
        parts += [_as_rows(low + graded), _as_rows(high - graded)]
    rows = max(len(mass), *(len(part) for part in parts))
    edges = np.concatenate([np.broadcast_to(part, (rows, part.shape[1])) for part in parts], axis=1)
    edges = np.sort(edges, axis=1)
    unit, unit_weight = _gauss(rule.per_panel)
    half = np.diff(edges, axis=1)[..., None] / 2
    x = (edges[:, :-1, None] + half + half * unit).reshape(rows, -1)
    width = (half * unit_weight).reshape(rows, -1)
    log_density = np.broadcast_to(population.log_density(x, theta), x.shape)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        inside = np.where(width > 0, width * np.exp(log_density), 0.0)  # an infinite density at a bound has no width
    missed = np.broadcast_to(mass[:, 0], rows) - inside.sum(axis=1)
    is_seen = mass[:, 0] >= (
        1e-9 if outside == "refuse" else 0.0
    )  # of a smaller share only the density's shape is known
    rough = np.flatnonzero(~(np.abs(missed) <= LARGEST_MISS) & is_seen)
    if rough.size:
        x, inside = x.copy(), inside.copy()
        _settle_mass(population, theta, rough, edges, rule.per_panel, x, inside)
    if outside == "refuse":
        nodes = _truncated(x, width, log_density)
        nodes.weight[rough] = inside[rough] / inside[rough].sum(axis=1, keepdims=True)
        _place_points(nodes, population, entry, theta, np.isnan(nodes.weight).all(axis=1))
        return nodes
    ends = np.broadcast_to(population.between([-np.inf, high], [low, np.inf], theta), (rows, 2))
    points = np.concatenate([x, np.broadcast_to([low, high], (rows, 2))], axis=1)
    weight = np.concatenate([inside, ends], axis=1)
    total = weight.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        nodes = Nodes(points, weight / total)
    # The quadrature of a density is exact to rounding; what little is missing is shared out so that weights sum to 1.
    _place_points(nodes, population, entry, theta, ~(total[:, 0] > 0.5))
    return nodes


def _settle_mass(
    population: Population, theta: Theta, rough: Any, edges: Array, per_panel: int, x: Array, inside: Array
) -> None:
    """Nodes in probability, and the true mass, for each panel of the rough rows that does not find its own mass."""
    rows = len(edges)
    own = {name: np.asarray(value)[rough] if len(value) == rows > 1 else value for name, value in theta.items()}
    low, high = edges[rough, :-1], edges[rough, 1:]
    mass = np.broadcast_to(population.between(low, high, own), low.shape)
    found = inside[rough].reshape(*low.shape, per_panel).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(found - mass) <= np.maximum(1e-9 * mass, 1e-13))
    which, panel = np.nonzero(wrong)
    one = {name: np.asarray(value)[which] if len(value) == rough.size > 1 else value for name, value in own.items()}
    low, high, mass = low[wrong][:, None], high[wrong][:, None], mass[wrong][:, None]
    unit, unit_weight = _gauss(per_panel)
    share = (1 + unit) / 2 * mass
    p, law = population.values(one), population.distribution
    below, above = law.cdf(low, p), law.survival(low, p)
    with np.errstate(invalid="ignore"):
        lower = law.quantile(np.clip(below + share, 0.0, 1.0), p)
        upper = law.upper_quantile(np.clip(above - share, 0.0, 1.0), p)
        points = np.clip(np.where(below < above, lower, upper), low, high)
    columns = panel[:, None] * per_panel + np.arange(per_panel)
    x[rough[which, None], columns] = np.where(np.isnan(points), low, points)
    inside[rough[which, None], columns] = mass * unit_weight / 2


def _place_points(nodes: Nodes, population: Population, entry: Bounded, theta: Theta, lost: Any) -> None:
    """A law too narrow for doubles is lost between two of them: it becomes a point at its median, if that is inside."""
    if not lost.any():
        return
    middle = np.broadcast_to(population.quantile([0.5], theta), (len(nodes.x), 1))[:, 0]
    spread = np.broadcast_to(np.diff(population.quantile([0.01, 0.99], theta)), (len(nodes.x), 1))[:, 0]
    is_point = lost & (middle >= entry.low) & (middle <= entry.high) & (spread <= 1e-12 * (entry.high - entry.low))
    nodes.x[is_point, 0] = middle[is_point]
    nodes.weight[is_point] = 0.0
    nodes.weight[is_point, 0] = 1.0


def _truncated(x: Array, width: Array, log_density: Array) -> Nodes:
    """Weights given that the record is inside, relative to the largest density: however small the mass, rows sum to 1.

    A row under which no record can be inside has no such law: its weights are NaN.
    """
    seen = np.where(width > 0, log_density, -np.inf)  # between edges that meet a steep density may be any height
    largest = seen.max(axis=1, keepdims=True, initial=-np.inf)
    possible = np.isfinite(largest)
    with np.errstate(under="ignore"):
        inside = width * np.exp(seen - np.where(possible, largest, 0.0))
    total = np.where(possible, inside.sum(axis=1, keepdims=True), np.nan)
    return Nodes(x, inside / total)


def _as_rows(kinks: Kinks) -> Array:
    """Kinks (m,) shared by all rows, or a row each (K, m), as (1 or K, m)."""
    return np.atleast_2d(np.asarray(kinks, dtype=float))


def _levels(population: Population, count: int, theta: Theta) -> Nodes:
    """A column of levels: every level with its probability."""
    levels = np.arange(count, dtype=float)
    weight = np.exp(population.log_density(levels, theta))
    total = weight.sum(axis=1, keepdims=True)
    return Nodes(np.broadcast_to(levels, weight.shape), weight / np.where(total > 0, total, np.nan))


def _enumerated(population: Population, entry: Bounded, outside: str, theta: Theta) -> Nodes:
    """Values of a discrete record between the bounds; a clamp adds P(X < low) at low and P(X > high) at high.

    What lies beyond a bound needs no enumeration, so a law far outside costs no more than one inside.
    """
    before = np.nextafter(entry.low, -np.inf)
    below = population.cdf([before], theta)
    above = population.distribution.survival(np.array([entry.high]), population.values(theta))
    is_truncated = outside == "refuse"
    # Of a law that lies almost wholly outside the inner tail is all there is to see: its quantiles lead past it.
    is_outside = is_truncated and bool(np.any(below + above > 1 - 1e-9))
    points = _lattice(population, entry, theta, is_whole=is_outside)
    log_density = population.log_density(points, theta)
    if is_truncated:
        return _truncated(np.broadcast_to(points, log_density.shape), np.ones(log_density.shape), log_density)
    with np.errstate(under="ignore"):
        inside = np.exp(log_density)
    rows = max(len(inside), len(below))
    parts = [np.broadcast_to(part, (rows, part.shape[1])) for part in (below, inside, above)]
    weight = np.concatenate(parts, axis=1)
    x = np.concatenate([[entry.low], points, [entry.high]])
    return Nodes(np.broadcast_to(x, weight.shape), weight / weight.sum(axis=1, keepdims=True))


def _lattice(population: Population, entry: Bounded, theta: Theta, *, is_whole: bool) -> Array:
    """The values between the bounds that any row reaches with probability above 1e-16, or all of them."""
    ends = population.quantile([1e-16, 0.5, 1 - 1e-16], theta)
    known = ends[np.isfinite(ends)]
    origin = known[0] % 1 if known.size else 0.0
    # Quantiles beyond what a double counts in ones are NaN: nothing is then known of where that row lies.
    unknown = is_whole or known.size < ends.size
    least = entry.low if unknown else max(entry.low, known.min())
    most = entry.high if unknown else min(entry.high, known.max())
    if most - least > MOST_POINTS:
        raise Unsupported(
            f"This discrete population spreads over more than {MOST_POINTS} values between {entry.low:g} and "
            f"{entry.high:g}, too many to enumerate. Describe it by a continuous law, such as Normal or Gamma."
        )
    return np.asarray(origin + np.arange(np.ceil(least - origin), np.floor(most - origin) + 1))
