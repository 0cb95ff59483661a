"""A posterior of one parameter, by adaptive quadrature on the real line.

The mass is found first. The log density is seen at prior quantiles and beyond them while it rises; every local maximum
is closed in on, by parabolas and by subdivision, until its neighbours lie within one unit of log density, which gives
it a width w. From there edges m +- w 2^k go out until the density has fallen by e^-36, in the second moment too.
Between the edges the density is a polynomial through 15 Gauss-Legendre nodes,
    f(u) = sum_k c_k P_k(x),   int_{-1}^{x} P_k = (P_{k+1}(x) - P_{k-1}(x)) / (2k + 1),
so that evidence, moments and distribution function are sums. A panel is halved while its last two coefficients are
felt, for f, theta f and theta^2 f alike. Draws invert the distribution function: independent, with no warm-up.

Promise: errors near 1e-8 (of 1 in the distribution function, of the sd in the mean), or what the density's own
roughness leaves, which is reported as `error`. A kink that hides between two nodes leaves up to 1e-7; a mode that no
point of the search leans towards is not seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import legendre

from noisewise.errors import NoisewiseError
from noisewise.inference.density import Density, ExactTarget
from noisewise.inference.verdict import TOLERANCE
from noisewise.likelihood.quadrature import gauss_legendre, interpolation_matrix
from noisewise.types import Bools, Floats

__all__ = ["Line", "on_the_line"]

ORDER, CELLS = 15, 64
NEGLIGIBLE = 36.0  # e^-36 is below the rounding of a double
# Beyond this many evaluations the tolerance grows tenfold with every 400 more: a rough density earns no more digits.
PATIENCE, MOST_EVALUATIONS = 800, 3000
MOST_MODES = 12
EVEN_SHARE = 0.1
MOST_ROUNDS = 60
HOPELESS = 1e21  # no search beyond the prior's draws comes back from a log density below this
OUTWARD = 1.5  # the search beyond the prior's draws goes out by this factor


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A normalised density on panels of the real line; `mean` and `sd` are those of theta (NaN or inf: none)."""

    edges: Floats  # (P, 2)
    values: Floats  # (P, ORDER): the density at the nodes
    log_evidence: float
    mean: float
    sd: float
    error: float
    evaluations: int
    non_finite: int  # nodes of the panels without a finite density
    search_non_finite: int  # points of the search without one

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent draws."""
        return self.quantile(rng.random(shape))

    def quantile(self, probability: Floats) -> Floats:
        """The inverse of the distribution function, whose density is taken as linear inside a cell."""
        points, density, cumulated = self._cells()
        p = np.asarray(probability, np.float64)
        cell = np.clip(np.searchsorted(cumulated, p, side="right") - 1, 0, len(points) - 1)
        mass = np.diff(cumulated)[cell]
        share = np.divide(p - cumulated[cell], mass, out=np.full(p.shape, 0.5), where=mass > 0).clip(0, 1)
        first, last = density[cell, 0], density[cell, 1]
        bottom = first + np.sqrt(first**2 + share * (last**2 - first**2))
        t = np.divide(share * (first + last), bottom, out=share.copy(), where=bottom > 0)
        return np.asarray(points[cell, 0] + t * (points[cell, 1] - points[cell, 0]))

    def cdf(self, position: Floats) -> Floats:
        """The share of the mass below each position."""
        points, density, cumulated = self._cells()
        u = np.asarray(position, np.float64)
        cell = np.clip(np.searchsorted(points[:, 0], u, side="right") - 1, 0, len(points) - 1)
        t = np.clip((u - points[cell, 0]) / (points[cell, 1] - points[cell, 0]), 0, 1)
        first, last = density[cell, 0], density[cell, 1]
        whole = (first + last) / 2
        share = np.divide(first * t + (last - first) * t**2 / 2, whole, out=t.copy(), where=whole > 0)
        return np.asarray(cumulated[cell] + share * np.diff(cumulated)[cell])

    def propose(self, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """Draws (count, 1) as proposals and their log density: a few spread each panel's mass evenly over it.

        A polynomial through a rough density may be zero where the density is not.
        """
        points, height, cumulated = self._cells()
        mass = np.diff(cumulated)
        panel_mass = mass.reshape(-1, CELLS).sum(axis=1)
        low, width = self.edges[:, 0], np.diff(self.edges, axis=1)[:, 0]
        is_even = rng.random(count) < EVEN_SHARE
        panel = np.minimum(np.searchsorted(np.cumsum(panel_mass), rng.random(count)), len(low) - 1)
        x = np.where(is_even, low[panel] + width[panel] * rng.random(count), self.draw(rng, (count,)))
        cell = np.clip(np.searchsorted(points[:, 0], x, side="right") - 1, 0, len(points) - 1)
        length = points[cell, 1] - points[cell, 0]
        t = np.clip((x - points[cell, 0]) / length, 0, 1)
        first, last = height[cell, 0], height[cell, 1]
        whole = (first + last) / 2
        shape = np.divide(first + (last - first) * t, whole, out=np.ones(count), where=whole > 0)
        own = cell // CELLS
        even = panel_mass[own] / width[own]
        with np.errstate(divide="ignore"):
            log_density = np.log((1 - EVEN_SHARE) * shape * mass[cell] / length + EVEN_SHARE * even)
        return x[:, None], np.asarray(log_density)

    def _cells(self) -> tuple[Floats, Floats, Floats]:
        """Each panel cut into cells: their ends (C, 2), the density there (C, 2), and the mass up to each (C + 1)."""
        at_ends, integrals = _cell_matrices()
        ticks = np.linspace(0.0, 1.0, CELLS + 1)
        low, width = self.edges[:, :1], np.diff(self.edges, axis=1)
        points = np.where(ticks < 1, low + ticks * width, self.edges[:, 1:])
        density = np.maximum(self.values @ at_ends.T, 0.0)
        masses = np.maximum(width / 2 * (self.values @ integrals.T), 0.0).ravel()
        cumulated = np.concatenate([[0.0], np.cumsum(masses)])
        pairs = [np.stack([array[:, :-1], array[:, 1:]], axis=-1).reshape(-1, 2) for array in (points, density)]
        return pairs[0], pairs[1], cumulated / cumulated[-1]


@cache
def _cell_matrices() -> tuple[Floats, Floats]:
    """From node values to values at the ends of a panel's cells, and to the integrals over them (on [-1, 1])."""
    ends = np.linspace(-1.0, 1.0, CELLS + 1)
    nodes, weights = gauss_legendre(ORDER)
    degrees = np.arange(ORDER)
    coefficients = (degrees + 0.5)[:, None] * legendre.legvander(nodes, ORDER - 1).T * weights
    powers = legendre.legvander(ends, ORDER)
    antiderivative = np.empty((CELLS + 1, ORDER))
    antiderivative[:, 0] = ends
    antiderivative[:, 1:] = (powers[:, 2:] - powers[:, :-2]) / (2 * degrees[1:] + 1)
    return interpolation_matrix(ORDER, ends), np.diff(antiderivative @ coefficients, axis=0)


def on_the_line(rng: np.random.Generator, target: ExactTarget, tolerance: float = TOLERANCE) -> Line:
    """The posterior of a target of size 1; `rng` only spreads the points of the search."""
    search = _Search(rng, target, is_rough=tolerance > TOLERANCE)
    edges = search.edges()
    return _integrate(target, edges, search, tolerance)


class _Search:
    """Where the mass is: points seen so far, in order, and the modes among them."""

    def __init__(self, rng: np.random.Generator, target: ExactTarget, *, is_rough: bool = False) -> None:
        self.target, self.density, self.is_rough = target, Density(target), is_rough
        self.points: Floats = self._first_points(rng)
        self.values: Floats = self.density(self.points[:, None])
        if not np.any(self.values > -HOPELESS):
            self.density.check_resolution(self.values)  # before the search goes where such a density is slow
        self._go_outward()
        if not np.any(self.values > -np.inf):
            raise NoisewiseError(
                f"The posterior density is not a positive number at any of {len(self.points)} points "
                f"({self.density.non_finite} gave NaN or infinity). Check that the prior allows what was released.",
                evaluations=self.density.evaluations,
            )
        self._close_in()
        self.density.check_resolution(self.values)

    def _first_points(self, rng: np.random.Generator) -> Floats:
        """Prior draws in order; for a prior that gives none, numbers around 0."""
        drawn = np.sort(self.target.draw_prior(rng, 512)[:, 0])
        drawn = drawn[np.isfinite(drawn)]
        return np.unique(drawn[:: max(1, drawn.size // 96)]) if drawn.size else np.linspace(-4.0, 4.0, 33)

    def _add(self, points: Floats) -> None:
        fresh = np.setdiff1d(points[np.isfinite(points)], self.points)
        where = np.searchsorted(self.points, fresh)
        self.values = np.insert(self.values, where, self.density(fresh[:, None]))
        self.points = np.insert(self.points, where, fresh)

    def _go_outward(self) -> None:
        """Three ever longer steps past each end of the points, again and again while mass may still be there."""
        low, centre, high = np.quantile(self.points, [0.1, 0.5, 0.9])
        spread = (high - low) / 2 or max(abs(centre), 1.0)
        for side in (-1.0, 1.0):
            distance = max(side * (self.points[-1 if side > 0 else 0] - centre), spread)
            for _ in range(MOST_ROUNDS):
                distance *= OUTWARD**3
                before = self.values.max()
                self._add(centre + side * distance / OUTWARD ** np.arange(3.0))
                outermost = self.values[:3][::-1] if side < 0 else self.values[-3:]
                is_falling = outermost[-1] <= outermost[0] and outermost[-1] < before - NEGLIGIBLE
                is_outside = np.all(self.target.log_prior((centre + side * distance) * np.ones((1, 1))) == -np.inf)
                if is_outside or (is_falling and before > -np.inf):
                    break

    def modes(self) -> list[int]:
        """Indices of the local maxima, the highest first."""
        left = np.concatenate([[-np.inf], self.values[:-1]])
        right = np.concatenate([self.values[1:], [-np.inf]])
        peaks = np.flatnonzero((self.values > left) & (self.values >= right))
        return [int(i) for i in peaks[np.argsort(-self.values[peaks], kind="stable")][:MOST_MODES]]

    def _close_in(self) -> None:
        """Subdivide around each maximum until its neighbours lie within one unit of it, or doubles end."""
        for _ in range(MOST_ROUNDS):
            wanted = [self._points_around(i) for i in self.modes() if not self._is_closed(i)]
            if not wanted or self.density.evaluations > MOST_EVALUATIONS:
                return
            self._add(np.concatenate(wanted))

    def _neighbours(self, i: int) -> tuple[float, float, float, float]:
        low, high = max(i - 1, 0), min(i + 1, len(self.points) - 1)
        return (float(self.points[low]), float(self.points[high]), float(self.values[low]), float(self.values[high]))

    def _is_closed(self, i: int) -> bool:
        left, right, below, above = self._neighbours(i)
        drops = [self.values[i] - value for value in (below, above)]
        gap = right - left
        return bool(max(drops) < 1.0 or gap <= 64 * np.spacing(max(abs(left), abs(right))))

    def _points_around(self, i: int) -> Floats:
        """Three points on each side; the top of the parabola and one and four of its sds about it."""
        left, right, below, above = self._neighbours(i)
        m, top = float(self.points[i]), float(self.values[i])
        shares = np.array([0.25, 0.5, 0.75])
        points = [m + (left - m) * shares, m + (right - m) * shares]
        if left < m < right and math.isfinite(below) and math.isfinite(above):
            slope_left, slope_right = (top - below) / (m - left), (above - top) / (right - m)
            curvature = 2 * (slope_right - slope_left) / (right - left)
            if curvature < 0:
                # The parabola's slope is slope_left at the middle of [left, m].
                centre, sd = (left + m) / 2 - slope_left / curvature, 1 / math.sqrt(-curvature)
                points.append(centre + sd * np.array([-4.0, -1.0, 0.0, 1.0, 4.0]))
        found = np.concatenate(points)
        return found[(found > left) & (found < right)]

    def edges(self) -> Floats:
        """Edges of panels that hold all of the mass: m +- w 2^k about each mode that matters."""
        top = float(self.values.max())
        modes = [i for i in self.modes() if self.values[i] > top - NEGLIGIBLE - 10]
        centres = self.points[modes]
        widths = np.array([self._width(i) for i in modes])
        edges = [centres]
        for centre, width in zip(centres, widths, strict=True):
            edges += [self._outward(centre, side * width) for side in (-1.0, 1.0)]
        found = np.unique(np.concatenate(edges))
        beyond = self.points[((self.points < found[0]) | (self.points > found[-1])) & (self.values > top - NEGLIGIBLE)]
        return _thinned(np.union1d(found, beyond), centres, widths)

    def _width(self, i: int) -> float:
        """To the further neighbour; of a rough density, as far as its log is known to stay within one unit.

        That makes fewer panels, but a kink beside the mode may hide between an edge and the first node: 1e-5.
        """
        left, right, _, _ = self._neighbours(i)
        if self.is_rough:
            far = np.flatnonzero((self.values <= self.values[i] - 1.0) | (self.values > self.values[i]))
            left = min(left, float(self.points[max(far[far < i], default=-1) + 1]))
            right = max(right, float(self.points[min(far[far > i], default=len(self.points)) - 1]))
        m = float(self.points[i])
        sides = [side for side in (m - left, right - m) if side > 0]
        return max(sides) if sides else max(abs(m), 1.0) * 1e-3

    def _outward(self, centre: float, width: float) -> Floats:
        """centre + width 2^k, up to where nothing is left, of the second moment neither."""
        reach: Floats = np.asarray(centre + width * np.exp2(np.arange(64.0)), np.float64)
        felt = np.empty(0)
        for start in range(0, reach.size, 4):
            felt = np.concatenate([felt, self._felt(reach[start : start + 4], centre, width)])
            gone = np.flatnonzero(felt < -NEGLIGIBLE)
            if gone.size:
                last = int(gone[0])
                if last > 0 and felt[last] < -2 * NEGLIGIBLE:
                    reach[last] = self._drawn_in(reach[last - 1], reach[last], centre, width)
                return reach[: last + 1]
        return reach

    def _drawn_in(self, inner: float, outer: float, centre: float, width: float) -> float:
        """A nearer end at which nothing is left either: far beyond it a density may be slow, or break."""
        nearer = inner + (outer - inner) * np.exp2(np.arange(-6.0, 0.0))
        gone = np.flatnonzero(self._felt(nearer, centre, width) < -NEGLIGIBLE)
        return float(nearer[gone[0]]) if gone.size else outer

    def _felt(self, points: Floats, centre: float, width: float) -> Floats:
        """log of the density times (1 + distance in theta / width)^2, below the highest density seen."""
        start, end = _theta(self.target, np.array([centre, centre + width]))
        unit = max(abs(float(end - start)), np.finfo(float).tiny)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.abs(_theta(self.target, points) - start) / unit
        weight = 2 * np.log1p(np.where(np.isfinite(distance), distance, 0.0))
        return np.asarray(self.density(points[:, None]) + weight - self.values.max())


def _thinned(edges: Floats, centres: Floats, widths: Floats) -> Floats:
    """Edges of several modes without those that lie close together for their distance from the nearest mode."""
    kept = [float(edges[0])]
    for edge in edges[1:]:
        distance = np.abs(edge - centres)
        nearest = int(np.argmin(distance))
        if edge - kept[-1] >= 0.3 * max(float(widths[nearest]), float(distance[nearest]) / 2):
            kept.append(float(edge))
    if kept[-1] < edges[-1]:
        kept.append(float(edges[-1]))
    return np.array(kept)


def _theta(target: ExactTarget, points: Floats) -> Floats:
    """The parameter itself (for a simplex of two, its first probability)."""
    (value,) = target.parameters(points[:, None]).values()
    return np.asarray(value[:, 0] if value.ndim == 2 else value)


def _integrate(target: ExactTarget, edges: Floats, search: _Search, tolerance: float) -> Line:
    """Halve panels until the last two coefficients of every integrand are no longer felt."""
    density = Density(target)
    centre, scale = _theta_scale(target, search)
    panels = np.stack([edges[:-1], edges[1:]], axis=1)
    log_values, theta = _at_nodes(density, panels)
    history: list[float] = []
    while True:
        sums, errors, top = _sums(panels, log_values, (theta - centre) / scale)
        exists = _moments_that_exist(panels, log_values, (theta - centre) / scale)
        felt = _felt(sums, errors + _jumps(panels, log_values - top)[:, None], exists)
        history.append(float(felt.sum()))
        # A panel narrower than this cannot be halved into different doubles.
        can_halve = np.diff(panels, axis=1)[:, 0] > 256 * np.spacing(np.abs(panels).max(axis=1))
        chosen = can_halve & (felt > tolerance / 10)
        # A log density of size |top| is rounded to eps |top|, and a rough one stops gaining: halving on would not help.
        has_stalled = len(history) > 8 and history[-1] > 0.5 * history[-9]
        reached = history[-1] <= max(tolerance, 16 * np.finfo(float).eps * abs(top))
        if reached or has_stalled or not chosen.any() or density.evaluations > MOST_EVALUATIONS:
            break
        chosen &= felt > 0.01 * felt[chosen].max()
        middle = panels[chosen].mean(axis=1)
        halves = np.concatenate([np.stack([panels[chosen, 0], middle], 1), np.stack([middle, panels[chosen, 1]], 1)])
        fresh_values, fresh_theta = _at_nodes(density, halves)
        panels = np.concatenate([panels[~chosen], halves])
        order = np.argsort(panels[:, 0])
        panels = panels[order]
        log_values = np.concatenate([log_values[~chosen], fresh_values])[order]
        theta = np.concatenate([theta[~chosen], fresh_theta])[order]
    zeroth, first, second = sums.sum(axis=0)
    if not zeroth > 0:
        raise NoisewiseError(
            f"The posterior has no mass where its density was found: {density.non_finite} of {density.evaluations} "
            "evaluations gave NaN or infinity.",
            evaluations=density.evaluations,
        )
    mean, variance = first / zeroth, second / zeroth - (first / zeroth) ** 2
    return Line(
        panels,
        np.exp(log_values - top) / zeroth,
        log_evidence=top + math.log(zeroth),
        mean=centre + scale * mean if exists[1] else math.nan,
        sd=scale * math.sqrt(max(variance, 0.0)) if exists[2] else math.inf if exists[1] else math.nan,
        error=float(felt.sum()),
        evaluations=density.evaluations + search.density.evaluations,
        non_finite=density.non_finite,
        search_non_finite=search.density.non_finite,
    )


def _theta_scale(target: ExactTarget, search: _Search) -> tuple[float, float]:
    """theta at the highest point, and how far it moves over that mode's width: the units of the moments."""
    best = int(np.argmax(search.values))
    m, width = float(search.points[best]), search._width(best)
    centre, low, high = _theta(target, np.array([m, m - width, m + width]))
    return float(centre), max(float(abs(high - low)) / 2, np.finfo(float).tiny)


def _at_nodes(density: Density, panels: Floats) -> tuple[Floats, Floats]:
    """Log density and theta (P, ORDER) at the nodes of each panel."""
    nodes, _ = gauss_legendre(ORDER)
    half = np.diff(panels, axis=1) / 2
    points = np.where(nodes < 0, panels[:, :1] + half * (1 + nodes), panels[:, 1:] - half * (1 - nodes)).ravel()
    return density(points[:, None]).reshape(-1, ORDER), _theta(density.target, points).reshape(-1, ORDER)


@cache
def _last_coefficients() -> Floats:
    """(ORDER, 2): the last two Legendre coefficients of the polynomial through the node values."""
    nodes, weights = gauss_legendre(ORDER)
    degrees = np.array([ORDER - 2, ORDER - 1])
    return (degrees + 0.5) * legendre.legvander(nodes, ORDER - 1)[:, degrees] * weights[:, None]


def _sums(panels: Floats, log_values: Floats, g: Floats) -> tuple[Floats, Floats, float]:
    """Integrals (P, 3) of f, g f and g^2 f over each panel, their errors (P, 3), and the log of f's unit."""
    _, weights = gauss_legendre(ORDER)
    half = np.diff(panels, axis=1) / 2
    top = float(log_values.max())
    top = top if math.isfinite(top) else 0.0
    with np.errstate(divide="ignore", over="ignore"):
        log_g = np.log(np.abs(g))
        powers = [np.exp(log_values - top), np.exp(log_values - top + log_g), np.exp(log_values - top + 2 * log_g)]
    powers[1] = powers[1] * np.sign(g)
    powers = [np.nan_to_num(power, nan=0.0) for power in powers]
    sums = np.stack([half[:, 0] * (power @ weights) for power in powers], axis=1)
    errors = [half[:, 0] * np.abs(power @ _last_coefficients()).sum(axis=1) for power in powers]
    return sums, np.stack(errors, axis=1), top


def _jumps(panels: Floats, log_values: Floats) -> Floats:
    """What may hide in each panel between its outermost nodes and the next panel's, where the density drops to zero."""
    inner = 1 - gauss_legendre(ORDER)[0][-1]
    gap = inner * np.diff(panels, axis=1)[:, 0] / 2
    last, first = log_values[:-1, -1], log_values[1:, 0]
    is_jump = (last == -np.inf) != (first == -np.inf)
    jump = np.where(is_jump, np.exp(np.maximum(last, first)), 0.0)
    found = np.zeros(len(panels))
    found[:-1] += gap[:-1] * jump
    found[1:] += gap[1:] * jump
    return found


def _felt(sums: Floats, errors: Floats, exists: Bools) -> Floats:
    """The error of each panel: of the mass in its own unit, of the mean in sds, of the second moment in its own."""
    zeroth, _, second = np.maximum(sums.sum(axis=0), np.finfo(float).tiny)
    units = np.array([zeroth, math.sqrt(zeroth) * math.sqrt(second) if exists[2] else zeroth, second])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.max((errors / units)[:, exists], axis=1))


def _moments_that_exist(panels: Floats, log_values: Floats, g: Floats) -> Bools:
    """Whether f, g f and g^2 f have died out where the density ends, unless theta has an end of its own there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_g = np.log(np.maximum(np.abs(g), 1.0))
        log_width = np.log(np.diff(panels, axis=1))
        scores = [np.where(log_values > -np.inf, log_values + log_width + k * log_g, -np.inf).ravel() for k in range(3)]
    seen = np.flatnonzero(scores[0] > -np.inf)
    if not seen.size:
        return np.array([True, False, False])
    ends = [end for end in (seen[0], seen[-1]) if log_g.ravel()[end] > 25.0]
    died = [all(score[end] < score.max() - 12.0 for end in ends) for score in scores[1:]]
    return np.array([True, *died])
