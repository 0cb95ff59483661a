"""Moments of polynomials in columns that are normal together, closed.

A feature made of columns by sums, products and whole powers is a polynomial in the columns' distances d from their
means. Central moments of a normal vector with covariance C follow from each other (Stein 1972; Isserlis 1918):

    E d_i g(d) = sum_j C_ij E dg/dd_j,      so   M(a) = sum_j C_ij (a - e_i)_j M(a - e_i - e_j),   a_i >= 1

and the covariance of two polynomials is a sum over their monomials but the constants: nothing large is subtracted from
anything large. It is the law before the clamp. Where bounds are further than FAR standard deviations from the mean,
nobody is there to be clamped, and these are the moments of the cleaned record. Where they are nearer, clamped columns
are integrated: three over nodes of two of them, the moments of the third given these closed (about 1e-5 of a feature's
spread, 3e-3 where columns correlate by .98 and a third of the records are clamped); of more columns these moments are
control variates for points of the clamped record (`corrected`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from scipy import special

from noisewise.populations.parameters import Array, Theta
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature
from noisewise.types import Bools

__all__ = ["are_polynomials", "clamped_moments", "corrected", "far_rows", "polynomial_moments"]

FAR = 8.0  # standard deviations: a share of 1e-15 lies beyond
HIGHEST = 6  # power of one feature
REACH = 7.0  # standard deviations that nodes go out
OUTER, INNER = np.polynomial.legendre.leggauss(10), np.polynomial.legendre.leggauss(24)

Exponents = tuple[int, ...]
Polynomial = dict[Exponents, Array]


class NormalColumns(Protocol):
    """Columns that are normal together."""

    def location(self, theta: Theta, columns: Sequence[str]) -> tuple[Array, Array]:
        """Means and standard deviations (K, d)."""
        ...

    def root(self, theta: Theta, columns: Sequence[str]) -> Array:
        """The Cholesky factor (K, d, d) of their correlation."""
        ...


def are_polynomials(features: Sequence[Feature]) -> bool:
    """Whether all of these are polynomials of a degree that is summed here."""
    return all(0 <= _degree(feature) <= HIGHEST for feature in features)


def far_rows(population: NormalColumns, schema: Schema, columns: Sequence[str], theta: Theta) -> Bools:
    """(K,): True where no record of these columns reaches its bounds."""
    mean, sd = population.location(theta, columns)
    entries = [schema.column(name) for name in columns]
    ends = np.array([[e.low, e.high] if isinstance(e, Bounded) else [-np.inf, np.inf] for e in entries])
    reach = FAR * sd
    return np.asarray(np.all((mean - reach >= ends[:, 0]) & (mean + reach <= ends[:, 1]), axis=1))


def polynomial_moments(
    population: NormalColumns, features: Sequence[Feature], columns: Sequence[str], theta: Theta
) -> tuple[Array, Array]:
    """Mean (K, d) and covariance (K, d, d) of the features of one record before it is cleaned."""
    mean, sd = population.location(theta, columns)
    root = population.root(theta, columns) * sd[:, :, None]
    central = _Central(root @ root.swapaxes(-1, -2))
    return _assembled([_polynomial(feature, columns, mean) for feature in features], central.of)


def clamped_moments(
    population: NormalColumns, schema: Schema, features: Sequence[Feature], columns: Sequence[str], theta: Theta
) -> tuple[Array, Array]:
    """The same of a record of three columns that was clamped to its bounds."""
    grid = _Clamped(population, schema, columns, theta)
    return _assembled([_polynomial(feature, columns, grid.centre) for feature in features], grid.of)


def _assembled(own: list[Polynomial], moment: Callable[[Exponents], Array]) -> tuple[Array, Array]:
    """Mean and covariance of polynomials from the moments of their monomials."""
    zero = (0,) * len(next(iter(own[0])))
    K, d = len(own[0][zero]) if zero in own[0] else len(next(iter(own[0].values()))), len(own)
    rises = [{a: c for a, c in one.items() if a != zero} for one in own]
    means = np.stack([sum((c * moment(a) for a, c in one.items()), np.zeros(K)) for one in own], axis=-1)
    covariance = np.zeros((K, d, d))
    for i, j in itertools.combinations_with_replacement(range(d), 2):
        for (a, left), (b, right) in itertools.product(rises[i].items(), rises[j].items()):
            both = moment(tuple(map(int.__add__, a, b)))
            covariance[:, i, j] += left * right * (both - moment(a) * moment(b))
        covariance[:, j, i] = covariance[:, i, j]
    return means, covariance


def corrected(cleaned: Array, raw: Array, closed: tuple[Array, Array]) -> tuple[Array, Array]:
    """Moments of cleaned features (K, M, d) at equal points, with those of the raw ones, known closed, as a control.

    A mean is that of the points + slope (closed raw - raw of the points), with the slope by which cleaned values
    follow raw ones: 1 where nobody is clamped, towards 0 where the raw value says little of the cleaned one. A
    covariance moves by the product of its two slopes.
    """
    count = cleaned.shape[1]
    about, raw_about = cleaned.mean(axis=1), raw.mean(axis=1)
    f, r = cleaned - about[:, None], raw - raw_about[:, None]
    spread = np.einsum("kmi,kmi->ki", r, r)
    slope = np.clip(np.einsum("kmi,kmi->ki", f, r) / np.where(spread > 0, spread, np.inf), 0.0, 1.0)
    mean = about + slope * (closed[0] - raw_about)
    at, raw_at = (one.swapaxes(1, 2) @ one / count for one in (f, r))
    return mean, at + slope[:, :, None] * slope[:, None, :] * (closed[1] - raw_at)


class _Central:
    """Central moments of a normal vector with covariances (K, d, d), each computed once."""

    def __init__(self, covariance: Array) -> None:
        self.covariance = covariance
        self._known: dict[Exponents, Array] = {(0,) * covariance.shape[-1]: np.ones(len(covariance))}

    def of(self, a: Exponents) -> Array:
        if sum(a) % 2:
            return np.zeros(len(self.covariance))
        if a not in self._known:
            i = next(k for k, power in enumerate(a) if power)
            less = _lowered(a, i)
            terms = [
                power * self.covariance[:, i, j] * self.of(_lowered(less, j)) for j, power in enumerate(less) if power
            ]
            self._known[a] = np.asarray(sum(terms))
        return self._known[a]


class _Clamped:
    """Moments of clamped columns about their centres: nodes of all columns but the last, whose moments are closed.

    A column's nodes are those of its raw value given the columns before it, Gauss-Legendre between the ends of REACH
    standard deviations and the bounds: the moments of the columns after it bend there and nowhere else.
    """

    def __init__(self, population: NormalColumns, schema: Schema, columns: Sequence[str], theta: Theta) -> None:
        mean, sd = population.location(theta, columns)
        root = population.root(theta, columns) * sd[:, :, None]
        bounds = np.array([[schema.bounded(name).low, schema.bounded(name).high] for name in columns])
        self.centre = np.clip(mean, bounds[:, 0], bounds[:, 1])
        ends = bounds[None] - self.centre[:, :, None]  # (K, m, 2)
        shift = mean - self.centre
        K, m = shift.shape
        z, weight = np.zeros((K, 1, 0)), np.ones((K, 1))
        values: list[Array] = []
        for j in range(m - 1):
            place = shift[:, j, None] + np.einsum("kni,ki->kn", z, root[:, j, :j])
            scale = root[:, j, j, None]
            fresh, share = _nodes((ends[:, j, 0, None] - place) / scale, (ends[:, j, 1, None] - place) / scale)
            count = fresh.shape[-1]
            x = np.clip(
                place[..., None] + scale[..., None] * fresh, ends[:, j, 0, None, None], ends[:, j, 1, None, None]
            )
            z = np.concatenate([np.repeat(z, count, axis=1), fresh.reshape(K, -1, 1)], axis=2)
            weight = (weight[..., None] * share).reshape(K, -1)
            values = [*(np.repeat(one, count, axis=1) for one in values), x.reshape(K, -1)]
        self._values = values
        self._weighted: dict[Exponents, Array] = {(0,) * (m - 1): weight / weight.sum(axis=1, keepdims=True)}
        place = shift[:, -1, None] + np.einsum("kni,ki->kn", z, root[:, -1, : m - 1])
        self._last = _LastColumn(place, root[:, -1, -1, None], ends[:, -1, 0, None], ends[:, -1, 1, None])
        self._known: dict[Exponents, Array] = {}

    def of(self, a: Exponents) -> Array:
        if a not in self._known:
            self._known[a] = np.asarray(np.einsum("kn,kn->k", self._before(a[:-1]), self._last.of(a[-1])))
        return self._known[a]

    def _before(self, a: Exponents) -> Array:
        """The weights times powers of all columns but the last."""
        if a not in self._weighted:
            i = next(k for k, power in enumerate(a) if power)
            self._weighted[a] = np.asarray(self._before(_lowered(a, i)) * self._values[i])
        return self._weighted[a]


class _LastColumn:
    """Moments of a clamped normal about 0, in the order they are asked for: E clip(x)^c, from those inside."""

    def __init__(self, mean: Array, sd: Array, low: Array, high: Array) -> None:
        self.mean, self.sd, self.low, self.high = mean, sd, low, high
        a, b = (low - mean) / sd, (high - mean) / sd
        self.below, self.above = special.ndtr(a), special.ndtr(-b)
        self.at_low, self.at_high = (np.exp(-0.5 * e * e) / np.sqrt(2 * np.pi) for e in (a, b))
        self._inside = [1 - self.below - self.above]
        self._found: dict[int, Array] = {}

    def of(self, power: int) -> Array:
        while len(self._inside) <= power:
            k = len(self._inside)
            edge = self.high ** (k - 1) * self.at_high - self.low ** (k - 1) * self.at_low
            before = (k - 1) * np.square(self.sd) * self._inside[k - 2] if k > 1 else 0.0
            self._inside.append(self.mean * self._inside[k - 1] + before - self.sd * edge)
        if power not in self._found:
            ends = self.low**power * self.below + self.high**power * self.above
            self._found[power] = np.asarray(self._inside[power] + ends)
        return self._found[power]


def _nodes(low: Array, high: Array) -> tuple[Array, Array]:
    """Nodes (..., M) of a standard normal variate and their weights, cut where its value meets a bound."""
    cuts = [
        np.full_like(low, -REACH),
        np.clip(low, -REACH, REACH),
        np.clip(high, -REACH, REACH),
        np.full_like(low, REACH),
    ]
    nodes, weights = [], []
    for start, stop, (x, w) in zip(cuts, cuts[1:], (OUTER, INNER, OUTER), strict=False):
        half = 0.5 * (stop - start)[..., None]
        at = start[..., None] + half * (x + 1)
        nodes.append(at)
        weights.append(half * w * np.exp(-0.5 * at * at) / np.sqrt(2 * np.pi))
    return np.concatenate(nodes, axis=-1), np.concatenate(weights, axis=-1)


def _lowered(a: Exponents, i: int) -> Exponents:
    return (*a[:i], a[i] - 1, *a[i + 1 :])


def _degree(feature: Feature) -> int:
    """The degree of a polynomial; below zero by far where a feature is none."""
    none = -100 * HIGHEST
    match feature.operation, feature.arguments:
        case "constant", _:
            return 0
        case "column", _:
            return 1
        case (("add" | "subtract"), (a, b)):
            degrees = _degree(a), _degree(b)
            return none if min(degrees) < 0 else max(degrees)
        case "multiply", (a, b):
            degrees = _degree(a), _degree(b)
            return none if min(degrees) < 0 else sum(degrees)
        case "power", (a, exponent) if exponent.denominator == 1 and exponent > 0:
            inner = _degree(a)
            return none if inner < 0 else inner * int(exponent)
    return none


def _polynomial(feature: Feature, columns: Sequence[str], mean: Array) -> Polynomial:
    """Its coefficients (K,) in the distances of the columns from their means."""
    zero = (0,) * len(columns)
    match feature.operation, feature.arguments:
        case "constant", (value,):
            return {zero: np.full(len(mean), float(value))}
        case "column", (name,):
            j = list(columns).index(name)
            return {(*zero[:j], 1, *zero[j + 1 :]): np.ones(len(mean)), zero: mean[:, j]}
        case ("add" | "subtract") as operation, (a, b):
            found = dict(_polynomial(a, columns, mean))
            sign = 1.0 if operation == "add" else -1.0
            for exponents, c in _polynomial(b, columns, mean).items():
                found[exponents] = found.get(exponents, 0.0) + sign * c
            return found
        case "multiply", (a, b):
            return _times(_polynomial(a, columns, mean), _polynomial(b, columns, mean))
        case "power", (a, exponent):
            inner = found = _polynomial(a, columns, mean)
            for _ in range(int(exponent) - 1):
                found = _times(found, inner)
            return found
    raise TypeError(f"{feature} is no polynomial.")


def _times(left: Mapping[Exponents, Array], right: Mapping[Exponents, Array]) -> Polynomial:
    found: Polynomial = {}
    for (a, c), (b, e) in itertools.product(left.items(), right.items()):
        both = tuple(map(int.__add__, a, b))
        found[both] = found.get(both, 0.0) + c * e
    return found
