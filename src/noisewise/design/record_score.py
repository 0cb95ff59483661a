"""One cleaned record as weighted points, with the derivative of each log weight: the score of what a record tells.

A clamped record has the density of the population inside the bounds and atoms on them; a truncated one is divided by
the mass inside. With points x_m held fixed and weights w_m(theta), sum_m w_m = 1,
    score at x_m = d log w_m / d theta,        F of the record itself = sum_m w_m (d log w_m)(d log w_m)'.
This needs points that do not move with theta: a population whose support moves (a uniform width) has no such score,
and its raw records have no Fisher information, though their noisy answers do. `is_regular` says which.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.design.coordinates import coordinate_slopes
from noisewise.populations.nodes import record_nodes
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation, Population
from noisewise.schema import Bounded, Schema

TOLERANCE = 1e-5


class ScoredRecord(NamedTuple):
    """Points (K, M) of a cleaned record, their weights (K, M), and d log weight (K, M, P)."""

    x: Array
    weight: Array
    slope: Array

    @property
    def is_regular(self) -> bool:
        """Whether weights keep their sum to first order, as they do when the support stays where it is."""
        if not np.all(np.isfinite(self.slope)):
            return False
        drift = np.einsum("km,kmp->kp", self.weight, self.slope)
        size = np.sqrt(np.einsum("km,kmp->kp", self.weight, np.square(self.slope)))
        return bool(np.all(np.abs(drift) <= TOLERANCE * size + 1e-300))

    @property
    def information(self) -> Array:
        """F of one record, (K, P, P)."""
        half = np.sqrt(self.weight)[..., None] * self.slope
        return np.asarray(half.swapaxes(-1, -2) @ half)


def scored_record(
    population: AnyPopulation, schema: Schema, column: str, theta: Theta, kinks: tuple[float, ...] = ()
) -> ScoredRecord:
    """The law of one cleaned record of a column at each row of theta."""
    one, entry = population.marginal(column), schema.column(column)
    if one.is_discrete or not isinstance(entry, Bounded):
        return _discrete(population, one, schema, column, theta)
    nodes = record_nodes(one, schema, column, population.theta_of(column, theta), kinks)
    x = np.asarray(nodes.x)
    is_clamped = schema.outside == "clamp"
    inner = x[:, :-2] if is_clamped else x

    def log_weight(moved: Theta) -> Array:
        own = population.theta_of(column, moved)
        rows = max((len(value) for value in own.values()), default=1)
        points = np.tile(inner, (rows // len(inner) + 1, 1))[:rows]
        inside = np.broadcast_to(one.log_density(points, own), points.shape)
        with np.errstate(divide="ignore"):
            if is_clamped:
                ends = np.log(one.between([-np.inf, entry.high], [entry.low, np.inf], own))
                return np.concatenate([inside, np.broadcast_to(ends, (rows, 2))], axis=1)
            return np.asarray(inside - np.log(one.between([entry.low], [entry.high], own)))

    return _with_slopes(population, x, np.asarray(nodes.weight), log_weight, theta)


def _discrete(population: AnyPopulation, one: Population, schema: Schema, column: str, theta: Theta) -> ScoredRecord:
    """Each value a cleaned record can take, once: mass beyond a bound sits on it."""
    nodes = record_nodes(one, schema, column, population.theta_of(column, theta), ())
    points = np.unique(nodes.x)
    is_levels = not isinstance(schema.column(column), Bounded)
    ends = (-np.inf, np.inf) if schema.outside == "clamp" else (points[0] - 1, points[-1])
    low, high = np.append(ends[0], points[:-1]), np.append(points[:-1], ends[1])

    def probability(moved: Theta) -> Array:
        own = population.theta_of(column, moved)
        p = np.exp(one.log_density(points, own)) if is_levels else one.between(low, high, own)
        return np.asarray(p / p.sum(axis=-1, keepdims=True))

    def log_weight(moved: Theta) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(probability(moved))

    rows = max((len(value) for value in theta.values()), default=1)
    weight = np.array(np.broadcast_to(probability(theta), (rows, points.size)))
    return _with_slopes(population, np.broadcast_to(points, weight.shape), weight, log_weight, theta)


def _with_slopes(population: AnyPopulation, x: Array, weight: Array, log_weight: object, theta: Theta) -> ScoredRecord:
    with np.errstate(invalid="ignore"):
        slope = np.moveaxis(coordinate_slopes(log_weight, theta, population.supports), 1, 2)  # type: ignore[arg-type]
    # A point that has no mass, and none nearby in theta, tells nothing.
    slope = np.where((weight > 1e-300)[..., None], slope, 0.0)
    return ScoredRecord(x, weight, slope)
