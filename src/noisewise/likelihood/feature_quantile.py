"""The quantile function of one feature of one cleaned record, as a table that is cheap to read millions of times.

    G_theta(u) = quantile of f(X),   X the record after the schema's clamp or truncation,   u = expit(ell).
Order statistics of f(X_1), .., f(X_n) are then G at order statistics of uniforms, whatever the population.
- f monotone: G = f(Q(u)) or f(Q(1 - u)), from the population's own quantiles Q.
- f with turning points (|x|, x^2): P(f(X) <= t) is a sum over the stretches on which f is monotone, each inverted by
  bisection; G is its inverse, refined until the nodes of the table are hit.
- discrete populations: G is a step function, by enumeration, without a table's smoothing.
The table has nodes ell = centre + spread sinh(s) with s evenly spaced: close together where the order statistic lies
(`centre`, `spread` are its mean and standard deviation in ell), far apart in the tails. Between nodes it is a cubic
Hermite polynomial with fourth-order slopes, limited so that it never falls (Fritsch & Carlson 1980). Smooth laws are
met to about 1e-6 of the spread. Atoms at the feature's least and largest value (the clamp) have exactly their mass;
other kinks (a clip inside |x|) are rounded off within one cell, 1/25 of the spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.populations.cleaned import attach, records_from_base
from noisewise.populations.nodes import kinks_of, record_nodes, turning_points
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation, Population
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature
from noisewise.types import Floats

NODES = 512
FURTHEST = 35.0  # |ell|; beyond it u is 0 or 1 to rounding
REFINEMENTS = 2
BISECTIONS = 56
INVERSIONS = 64


class Table(NamedTuple):
    """G of one theta: nodes evenly spaced in s, or (`is_step`) values between `edges` in ell."""

    values: Array  # (M,)
    slopes: Array  # (M,) in units of one cell
    edges: Array  # (M - 1,) of a step function, else empty
    is_step: bool
    centre: float
    spread: float
    first: float  # s of the first node
    cell: float
    least_until: float = -math.inf  # ell up to which G is values[0]: an atom
    largest_from: float = math.inf


@dataclass(frozen=True, slots=True)
class FeatureQuantile:
    """G for one feature of one column, with a table built around `centre`."""

    population: AnyPopulation
    schema: Schema
    feature: Feature
    column: str
    law: Population
    cuts: Array  # between which the feature is monotone, from bound to bound
    atoms: Array  # values that a clamp or a clip may give to many records
    centre: float
    spread: float

    @classmethod
    def of(
        cls, population: AnyPopulation, schema: Schema, feature: Feature, *, centre: float, spread: float
    ) -> FeatureQuantile:
        names = feature.columns()
        if len(names) != 1:
            raise Unsupported(
                f"The law of an order statistic of {feature} is known here for features of one column; this one reads "
                f"{', '.join(sorted(names))}. Release the statistic of one column, or few enough records."
            )
        (column,) = names
        law = attach(population, schema, names)[column]
        cuts = atoms = np.empty(0)
        if not law.is_discrete:
            cuts = _monotone_cuts(feature, schema, column)
            edges = np.append(cuts, kinks_of((feature,), schema, column))
            atoms = np.unique(np.broadcast_to(feature.value({column: edges}, schema), edges.shape))
        return cls(population, schema, feature, column, law, cuts, atoms, centre, spread)

    def tables(self, theta: Theta) -> list[Table]:
        """One table a row of theta."""
        if self.law.is_discrete:
            return self._steps(theta)
        first, last = (math.asinh((end - self.centre) / self.spread) for end in (-FURTHEST, FURTHEST))
        s = np.linspace(first, last, NODES)
        ell = self.centre + self.spread * np.sinh(s)
        values = self._monotone(ell, theta) if len(self.cuts) == 2 else self._turning(ell, theta)
        slopes = _limited_slopes(values)
        none, cell = np.empty(0), float(s[1] - s[0])
        return [
            Table(row, slope, none, False, self.centre, self.spread, first, cell, float(low), float(high))
            for row, slope, (low, high) in zip(np.ascontiguousarray(values), slopes, self._ends(theta), strict=True)
        ]

    def feature_of(self, x: Array) -> Array:
        return np.asarray(np.broadcast_to(self.feature.value({self.column: x}, self.schema), x.shape), dtype=float)

    def _records(self, u: Array, theta: Theta) -> Array:
        return records_from_base(self.population, self.schema, {self.column: u}, theta, (self.column,))[self.column]

    def _monotone(self, ell: Array, theta: Theta) -> Array:
        low, high = self.feature_of(self.cuts)
        found = self.feature_of(self._records(expit(ell if low <= high else -ell), theta))
        # Rounding in the far tail must not turn an order statistic around.
        return np.asarray(np.maximum.accumulate(found, axis=1))

    def _turning(self, ell: Array, theta: Theta) -> Array:
        """G at ell by inverting P(f(X) <= t) at values t that come ever closer to G(ell).

        Values that may be atoms (of the clamp, of a clip) are always among the t, with P(f < t) beside P(f <= t).
        """
        t = np.sort(self.feature_of(self._records(expit(np.linspace(-FURTHEST, FURTHEST, 2 * NODES)), theta)), axis=1)
        atoms = np.broadcast_to(self.atoms, (len(t), self.atoms.size))
        before = self._logit(atoms, theta, strict=True)
        for _ in range(REFINEMENTS + 1):
            t = np.concatenate([t, atoms], axis=1)
            # t and P rise together, so each may be sorted by itself.
            logit = np.sort(np.concatenate([self._logit(t, theta, strict=False), before], axis=1), axis=1)
            known = np.sort(np.concatenate([t, atoms], axis=1), axis=1)
            t = np.stack([np.interp(ell, *row) for row in zip(logit, known, strict=True)])
        return t

    def _logit(self, t: Array, theta: Theta, *, strict: bool) -> Array:
        """logit P(f(X) <= t), or of P(f(X) < t), for t (K, M), both tails to full precision."""
        own = self.population.theta_of(self.column, theta)
        entry = self.schema.bounded(self.column)
        below, above = np.zeros(t.shape), np.zeros(t.shape)
        for left, right in zip(self.cuts[:-1], self.cuts[1:], strict=True):
            x, rises = self._crossing(t, left, right, strict)
            lower, upper = self.law.between(left, x, own), self.law.between(x, right, own)
            below += lower if rises else upper
            above += upper if rises else lower
        if self.schema.outside == "clamp":
            ends = self.law.between([-np.inf, entry.high], [entry.low, np.inf], own)
            for k, value in enumerate(self.feature_of(np.array([entry.low, entry.high]))):
                is_below = value < t if strict else value <= t
                below += np.where(is_below, ends[:, k : k + 1], 0.0)
                above += np.where(is_below, 0.0, ends[:, k : k + 1])
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(np.log(below) - np.log(above), -2 * FURTHEST, 2 * FURTHEST))

    def _ends(self, theta: Theta) -> Array:
        """The ell (K, 2) up to which G is the feature's least value, and from which on it is its largest."""
        extremes = self.feature_of(self.cuts)
        least, largest = (np.full((rows_of(theta), 1), value) for value in (extremes.min(), extremes.max()))
        found = self._logit(least, theta, strict=False), self._logit(largest, theta, strict=True)
        return np.concatenate(found, axis=1)

    def _crossing(self, t: Array, left: float, right: float, strict: bool) -> tuple[Array, bool]:
        """Where f passes t on a monotone stretch: it is below t to the left if it rises, to the right if it falls."""
        ends = self.feature_of(np.array([left, right]))
        rises = bool(ends[0] <= ends[1])
        low, high = np.full(t.shape, left), np.full(t.shape, right)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            value = self.feature_of(middle)
            is_left = (value < t if strict else value <= t) == rises
            np.copyto(low, middle, where=is_left)
            np.copyto(high, middle, where=~is_left)
        # Bisection never reaches the ends themselves.
        inside = np.where(low == left, left, np.where(high == right, right, 0.5 * (low + high)))
        return inside, rises

    def _steps(self, theta: Theta) -> list[Table]:
        nodes = record_nodes(self.law, self.schema, self.column, self.population.theta_of(self.column, theta), ())
        values = self.feature_of(np.asarray(nodes.x[0]))
        order = np.argsort(values, kind="stable")
        weight = np.broadcast_to(nodes.weight, (rows_of(theta), values.size))[:, order]
        below = np.cumsum(weight, axis=1)[:, :-1]
        above = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1][:, 1:]
        with np.errstate(divide="ignore"):
            edges = np.log(below) - np.log(above)
        return [
            Table(values[order], np.empty(0), row, True, self.centre, self.spread, 0.0, 1.0)
            for row in np.ascontiguousarray(edges)
        ]


@njit(cache=True, inline="always")
def read(ell: float, values: Any, slopes: Any, edges: Any, is_step: bool, layout: Any) -> float:
    """G at one ell; layout = (centre, spread, first, cell, least_until, largest_from)."""
    if is_step:
        return float(values[np.searchsorted(edges, ell)])
    last = values.size - 1
    if ell <= layout[4]:
        return float(values[0])
    if ell >= layout[5]:
        return float(values[last])
    x = (ell - layout[0]) / layout[1]
    size = abs(x)
    s = math.log(size + math.sqrt(size * size + 1.0))
    place = ((s if x >= 0 else -s) - layout[2]) / layout[3]
    if place <= 0.0:
        return float(values[0])
    if place >= last:
        return float(values[last])
    k = int(place)
    r = place - k
    left, right = values[k], values[k + 1]
    bend = slopes[k] * (1.0 - r) - slopes[k + 1] * r
    return float(left + r * r * (3.0 - 2.0 * r) * (right - left) + r * (1.0 - r) * bend)


@njit(cache=True)
def inverse(
    y: float,
    values: Floats,
    slopes: Floats,
    edges: Floats,
    is_step: bool,
    layout: tuple[float, float, float, float, float, float],
) -> float:
    """An ell at which G passes y (to rounding: noise may be very narrow), or the end of the table on y's side."""
    low, high = -FURTHEST, FURTHEST
    for _ in range(INVERSIONS):
        middle = 0.5 * (low + high)
        if read(middle, values, slopes, edges, is_step, layout) < y:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _monotone_cuts(feature: Feature, schema: Schema, column: str) -> Array:
    """The bounds, and between them the points where the feature turns; a flat top is cut at its left end."""
    entry = schema.bounded(column)
    grid = np.unique([*np.linspace(entry.low, entry.high, 4097), *kinks_of((feature,), schema, column)])
    values = np.broadcast_to(feature.value({column: grid}, schema), grid.shape)
    rise = np.sign(np.diff(values))
    moving = np.flatnonzero(rise)
    turns = moving[:-1][rise[moving[:-1]] != rise[moving[1:]]]
    flat = grid[turns[rise[turns + 1] == 0] + 1]
    return np.unique([entry.low, *flat, *turning_points(feature, grid, schema, column), entry.high])


def _limited_slopes(values: Array) -> Array:
    """Slopes a cell (K, M): fourth-order differences, at most three times the rise on either side."""
    rise = np.diff(values, axis=1)
    slope = np.empty_like(values)
    slope[:, 2:-2] = (values[:, :-4] - values[:, 4:]) / 12 + 2 * (values[:, 3:-1] - values[:, 1:-3]) / 3
    slope[:, 1] = (rise[:, 0] + rise[:, 1]) / 2
    slope[:, -2] = (rise[:, -2] + rise[:, -1]) / 2
    slope[:, 0], slope[:, -1] = rise[:, 0], rise[:, -1]
    room = np.minimum(np.pad(rise, ((0, 0), (0, 1)), mode="edge"), np.pad(rise, ((0, 0), (1, 0)), mode="edge"))
    return np.asarray(np.clip(slope, 0.0, 3 * room))
