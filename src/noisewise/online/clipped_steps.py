"""One clipped answer under a discrete population with many values in the interval: a few values of its cdf do.

By parts, with F(x) = P(X <= x) and d(x) = g(y - x) - g(y - x - 1), g the density of the noise (whole low and high):
    p(y | theta) = g(y - high) + sum_{x=low}^{high-1} F(x) d(x).
F is smooth where its steps are small beside the whole: on panels of consecutive values it is the polynomial through its
values at n of them (rounded Chebyshev points, both ends among them), so that
    p(y | theta) = g(y - high) + sum_j F(x_j) w_j(y),        w_j(y) = sum_x l_j(x) d(x),
where w_j does not depend on theta; its sum over x is that of Gauss for sums over equally spaced points (Gram's
polynomials), cut where g has its kink.

Promise: at each theta the polynomial is compared with F at other values, and panels are halved until they agree to
1e-10, down to the sum itself: p is exact to 1e-9 of the largest g in the interval, as if one person in a billion had
answered anything. That is 1e-6 of p itself where p is more than 1/1000 of it. A cdf that is itself not as good as that
(scipy's Poisson from rates of 1e7 on, 4.5 standard deviations out) is followed to its own error.
`coarse_log_density` is for judging questions only: cells of the interval stand for their values.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from noisewise.online.asked import Asked
from noisewise.online.clipped_record import Channel, log_noise
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import Population

__all__ = [
    "FEW_VALUES",
    "coarse_log_density",
    "cumulative",
    "first_value",
    "is_summed",
    "log_densities",
    "summed_mass",
    "value_count",
]

FEW_VALUES = 8  # up to so many are summed as they are
COARSE_CELLS = 64
LARGEST_ERROR, LARGEST_STALL = 1e-10, 3e-6
SUM_ORDER = 24
ORDERS = ((2, 2), (6, 12), (10, 50), (16, 128))  # nodes of a panel, and the fewest values it must have
MOST_PANELS = 256
LAPLACE_PANEL, GAUSSIAN_PANEL = 20.0, 6.0  # the widest panel, in scales of the noise
BLOCK = 1_000_000


def value_count(asked: Asked) -> int:
    """How many whole numbers lie inside an interval."""
    return max(int(np.ceil(asked.high) - np.floor(asked.low)) - 1, 0)


def is_summed(population: Population) -> bool:
    """Whether scipy has no formula for the cdf, and adds up probabilities each time."""
    from scipy.stats import rv_discrete

    law = population.distribution.scipy_law
    return isinstance(law, rv_discrete) and type(law)._cdf is rv_discrete._cdf


def first_value(population: Population, theta: Theta) -> float:
    """The least value, over all rows, of a population of scipy's."""
    law: Any = population.distribution
    p = population.values(theta)
    return float(np.min(law.distribution.support(**{name: p[name] for name in law.domains})[0]))


def cumulative(population: Population, x: Array, theta: Theta) -> Array:
    """P(X <= x) at whole x (M,), (K, M)."""
    p = population.values(theta)
    if not is_summed(population):
        return np.broadcast_to(population.distribution.cdf(x, p), (rows_of(theta), x.size))
    least = first_value(population, theta)
    values = np.arange(least, max(float(x.max()), least) + 1)
    found = np.empty((rows_of(theta), x.size))
    for rows in _blocks(len(found), values.size):
        mass = np.exp(population.log_density(values, _taken(theta, rows)))
        sums = np.concatenate([np.zeros((len(mass), 1)), np.cumsum(mass, axis=1)], axis=1)
        found[rows] = sums[:, np.clip(x - least + 1, 0, values.size).astype(int)]
    return np.minimum(found, 1.0)


def summed_mass(population: Population, low: Array, high: Array, theta: Theta) -> Array:
    """P(low <= x < high), (K, M), where the cdf is added up: once, for all ends."""
    ends = np.unique(np.concatenate([low, high]))
    inner = ends[np.isfinite(ends)]
    below = cumulative(population, np.ceil(inner) - 1, theta) if inner.size else np.empty((rows_of(theta), 0))
    at = np.concatenate([[-np.inf], inner, [np.inf]])
    below = np.concatenate([np.zeros((len(below), 1)), below, np.ones((len(below), 1))], axis=1)
    return np.maximum(below[:, np.searchsorted(at, high)] - below[:, np.searchsorted(at, low)], 0.0)


def log_densities(population: Population, asked: Asked, y: Array, theta: Theta) -> Array:
    """log p(y | theta), (K, n)."""
    top = log_noise(asked, y - np.clip(y, asked.low, asked.high))
    least = np.exp(np.minimum(log_noise(asked, y - asked.low), log_noise(asked, y - asked.high)) - top)
    found = np.empty((rows_of(theta), y.size))
    left, before = np.arange(len(found)), np.full(len(found), np.inf)
    for order, panels in _ladder(asked):
        rule = _rule(asked, np.ascontiguousarray(y).tobytes(), order, panels)
        part = _taken(theta, left)
        at = cumulative(population, np.concatenate([rule.nodes, rule.checks]), part)
        nodes, checks = at[:, : rule.nodes.size], at[:, rule.nodes.size :]
        if order == 2:  # F rises, so between two values that are the same it stays
            is_met = np.ptp(nodes, axis=1) <= LARGEST_ERROR
        else:
            error = np.abs(nodes @ rule.between.T - checks).max(axis=1)
            # A finer polynomial that is no better has met the error of the cdf itself.
            is_met = (error <= LARGEST_ERROR) | ((error <= LARGEST_STALL) & (error > 0.1 * before))
            before = error
        found[left[is_met]] = rule.constant + nodes[is_met] @ rule.weights.T
        left, before = left[~is_met], before[~is_met]
        if not left.size:
            break
    else:
        found[left] = _summed(population, asked, y, _taken(theta, left), top)
    return np.asarray(np.log(np.maximum(found, least)) + top)  # no mixture is below its least component


def coarse_log_density(population: Population, asked: Asked, y: Array, theta: Theta) -> Array:
    """log p(y | theta), (K, n), with the values inside the interval moved to the middles of its cells."""
    first, last = np.floor(asked.low) + 1, np.ceil(asked.high) - 1
    ends = np.asarray(np.unique(np.round(np.linspace(first - 1, last, COARSE_CELLS + 1))), np.float64)
    below = cumulative(population, ends, theta)
    mass = np.concatenate([below[:, :1], np.diff(below, axis=1), 1 - below[:, -1:]], axis=1)
    x = np.concatenate([[asked.low], 0.5 * (ends[:-1] + 1 + ends[1:]), [asked.high]])
    return np.asarray(Channel.at_points(asked, y, x).log_density(mass) + np.log(asked.step))


class Rule(NamedTuple):
    """p = constant + F(nodes) @ weights.T, in units of the largest density; F(checks) is near between @ F(nodes)."""

    nodes: Array  # (J,)
    weights: Array  # (n, J)
    constant: Array  # (n,)
    checks: Array  # (C,)
    between: Array  # (C, J)


def _grid(asked: Asked) -> tuple[int, int]:
    """The values that F is needed at: from that at or below low to the last below high."""
    return int(np.floor(asked.low)), int(np.ceil(asked.high)) - 1


def _ladder(asked: Asked) -> list[tuple[int, int]]:
    """Orders and numbers of panels, from few nodes to many."""
    start, stop = _grid(asked)
    count = stop - start + 1
    widest = asked.noise * (LAPLACE_PANEL if asked.is_laplace else GAUSSIAN_PANEL)
    fewest = max(1, int(np.ceil(count / widest)))
    steps = [(order, fewest) for order, _ in ORDERS]
    steps += [(ORDERS[-1][0], fewest * 2**k) for k in range(1, 32) if fewest * 2**k <= max(MOST_PANELS, 2 * fewest)]
    needed = dict(ORDERS)
    return [(order, panels) for order, panels in steps if count // panels >= needed[order]]


@lru_cache(maxsize=512)
def _rule(asked: Asked, readings: bytes, order: int, panels: int) -> Rule:
    y = np.frombuffer(readings)
    start, stop = _grid(asked)
    ends = start + (np.arange(panels + 1) * (stop - start + 1)) // panels
    unit = 0.5 * (1 - np.cos(np.pi * np.arange(order) / (order - 1)))
    top = log_noise(asked, y - np.clip(y, asked.low, asked.high))
    nodes, weights, checks = [], [], []
    between = np.zeros((3 * panels if order > 2 else 0, order * panels))
    for k, (a, b) in enumerate(zip(ends[:-1], ends[1:] - 1, strict=True)):
        x = np.round(a + (b - a) * unit)
        if order > 2:
            seen = np.floor(0.5 * (x + np.roll(x, 1))[[1, order // 2, -1]])
            between[3 * k : 3 * k + 3, order * k : order * (k + 1)] = _lagrange(x, seen)
            checks.append(seen)
        nodes.append(x)
        weights.append(_panel_weights(asked, y, top, x))
    matrix = np.concatenate(weights, axis=1)

    def noise_at(x: float) -> Array:
        return np.asarray(np.exp(log_noise(asked, y - x) - top))

    matrix[:, 0] += noise_at(asked.low) - noise_at(start)
    matrix[:, -1] += noise_at(stop + 1) - noise_at(asked.high)
    return Rule(np.concatenate(nodes), matrix, noise_at(asked.high), np.concatenate([*checks, np.empty(0)]), between)


def _panel_weights(asked: Asked, y: Array, top: Array, nodes: Array) -> Array:
    """w_j (n, J) of one panel, whose ends are the outermost nodes."""
    a, b = int(nodes[0]), int(nodes[-1])

    def added(y: Array, top: Array, low: int, high: int) -> Array:
        x, mass = sum_rule(low, high)
        return np.asarray((mass * _falls(asked, y, top, x)) @ _lagrange(nodes, x))

    found = added(y, top, a, b)
    if asked.is_laplace:
        at = np.floor(y)
        for i in np.flatnonzero((at >= a) & (at <= b)):
            kink, one = int(at[i]), slice(i, i + 1)
            pieces = [(low, high) for low, high in ((a, kink - 1), (kink, kink), (kink + 1, b)) if low <= high]
            found[i] = np.sum([added(y[one], top[one], low, high)[0] for low, high in pieces], axis=0)
    return found


def _falls(asked: Asked, y: Array, top: Array, x: Array) -> Array:
    """d(x) = g(y - x) - g(y - x - 1) in units of e^top, (n, M)."""
    r = y[:, None] - x
    if asked.is_laplace:
        change = (np.abs(r) - np.abs(r - 1)) / asked.noise
    else:
        change = (r - 0.5) / asked.noise**2
    return np.asarray(-np.exp(log_noise(asked, r) - top[:, None]) * np.expm1(change))


def sum_rule(low: int, high: int) -> tuple[Array, Array]:
    """Points and weights: sum_{x=low}^{high} f(x), exact for polynomials of degree below 2 SUM_ORDER."""
    points, weights = _centred_rule(high - low + 1)
    return 0.5 * (low + high) + points, weights


@lru_cache(maxsize=4096)
def _centred_rule(count: int) -> tuple[Array, Array]:
    if count <= SUM_ORDER:
        return np.asarray(np.arange(count) - 0.5 * (count - 1), np.float64), np.ones(count)
    k = np.arange(1, SUM_ORDER)
    beside = 0.5 * k * np.sqrt((1 - (k / count) ** 2) / (4 * k**2 - 1))  # of Gram's polynomials, on a length of 1
    values, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return count * values, count * np.square(vectors[0])


def _lagrange(nodes: Array, x: Array) -> Array:
    """l_j(x) (M, J), the polynomials that are 1 at one node and 0 at the others."""
    gaps = nodes[:, None] - nodes
    np.fill_diagonal(gaps, 1.0)
    ratios = (x[:, None, None] - nodes) / gaps
    own = np.arange(nodes.size)
    ratios[:, own, own] = 1.0
    return np.asarray(np.prod(ratios, axis=2))


def _summed(population: Population, asked: Asked, y: Array, theta: Theta, top: Array) -> Array:
    """The sum itself, some values at a time."""
    start, stop = _grid(asked)
    ends = np.exp(log_noise(asked, y - np.array([[asked.low], [start], [stop + 1], [asked.high]])) - top)
    total = np.tile(ends[3], (rows_of(theta), 1))
    total += cumulative(population, np.array([float(start)]), theta) * (ends[0] - ends[1])
    total += cumulative(population, np.array([float(stop)]), theta) * (ends[2] - ends[3])
    for rows in _blocks(len(total), 64):
        part = _taken(theta, rows)
        size = max(1, BLOCK // max(len(rows), y.size))
        for low in range(start, stop + 1, size):
            x = np.arange(low, min(low + size, stop + 1), dtype=float)
            total[rows] += cumulative(population, x, part) @ _falls(asked, y, top, x).T
    return total


def _blocks(rows: int, numbers: int) -> list[Any]:
    """Row numbers in blocks of bounded size."""
    size = max(1, BLOCK // max(numbers, 1))
    return [np.arange(low, min(low + size, rows)) for low in range(0, rows, size)]


def _taken(theta: Theta, rows: Any) -> dict[str, Array]:
    return {name: np.asarray(value)[rows] for name, value in theta.items()}
