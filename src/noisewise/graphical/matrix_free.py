"""`map` for large tables: the estimate of `empirical_bayes` by products alone; no matrix of cells by cells is made.

    y ~ N(m, S + V),   m = n W mu(theta),   S = n W Sigma W',   theta ~ N(0, tau^2),   C = n E' Sigma W'
for holders' entries stacked (S is zero between holders; E adds up the cells of a parameter). Fisher scoring solves
(C (S + V)^-1 C' + tau^-2) theta' = C (S + V)^-1 (y - m + C' theta), which by Woodbury's identity is
    theta' = tau^2 C u,      K u = y - m + C' theta,      K = V + S + tau^2 C' C,
and the number of parameters that the tables determine is
    gamma = tr(tau^2 C K^-1 C') = the mean of tau^2 z' C K^-1 C' z over random signs z,
so that tau^2 goes to |theta'|^2 / gamma. K times a column is two passes of differentiated propagation. The columns, one
for theta' and one for each of a few fixed z, are solved side by side by conjugate gradients, each from where it ended
before, with
    K ~ P = V + D + tau^2 D^2,   D = n W mu (1 - mu),   preconditioned by Pi P^-1 Pi + (1 - Pi) V^-1 (1 - Pi)
Pi projects off the directions that no model moves (`gauge`), along which S and C are 0 and K is V.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from noisewise.graphical import empirical_bayes
from noisewise.graphical.empirical_bayes import SMALLEST_TAU, told
from noisewise.graphical.engine import JunctionEngine, Product
from noisewise.graphical.gauge import Projection
from noisewise.graphical.problem import Fit, Holder, Problem
from noisewise.graphical.structure import Region, Regions
from noisewise.types import Floats, Ints

__all__ = ["SOLVED", "Entries", "Here", "estimate", "fit", "is_able"]

SMALL = 500  # parameters
STEPS, PROBES = 100, 16
LONGEST, WIDENED = 2.0, 2.0  # a step's largest log potential; a step's factor of tau
ENOUGH, SETTLED = 1e-3, 0.02  # the last step's square in posterior variances, a parameter; its change of log tau
# An error's square in the same unit; as a share of the last step's, up to a limit, and of what is to be solved.
SOLVED, SHARE, LOOSEST, ITERATIONS = 1e-4, 1e-2, 0.3, 500
SHORTEST, GROWTH = 0.15, 1.25  # how far a parameter goes whose steps point to and fro


def estimate(problem: Problem) -> Fit | empirical_bayes.MapFit:
    """`map`: by matrices where they are small or the tables are of another kind, else by products alone."""
    return fit(problem) if problem.parameters > SMALL and is_able(problem) else empirical_bayes.fit(problem)


def is_able(problem: Problem) -> bool:
    """Whether inference is exact, and every published table is one of the regions, whole."""
    tables = problem.engine.tables
    return isinstance(problem.engine, JunctionEngine) and all(_whole(tables, held) for held in problem.holders)


def fit(problem: Problem) -> Fit:
    """The empirical Bayes estimate; its evidence is not computed."""
    steps, theta, tau, size, done = _Steps(problem), np.zeros(problem.parameters), 1.0, math.inf, 0
    moved, settled, gamma = theta, False, 0.0
    while done < STEPS and not settled:
        wanted, gamma, precision = steps.towards(theta, tau, size)
        moved = steps.damped(wanted - theta)
        theta, before, done = theta + moved, tau, done + 1
        tau = max(math.sqrt(float(wanted @ wanted) / gamma), SMALLEST_TAU)
        tau = min(max(tau, before / WIDENED), WIDENED * before)
        size = float(np.square(moved) @ precision) / gamma
        settled = size < ENOUGH and abs(math.log(tau / before)) < SETTLED
    change = 0.0 if size < ENOUGH else float(np.abs(moved).max())
    return Fit(theta, done, told(tau, change, steps=STEPS), tau, effective=gamma)


class _Steps:
    """Fisher scoring on one problem. What stays between steps: where the solver ended, and how far parameters go."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.entries = problem, Entries(problem)
        signs = np.random.default_rng(0).integers(0, 2, size=(problem.parameters, PROBES))
        self.signs = 2.0 * signs - 1.0  # the same at every step, and in every fit
        self.solved = np.zeros((len(self.entries.noise), 1 + PROBES))
        self.share, self.last = np.ones(problem.parameters), np.zeros(problem.parameters)

    def towards(self, theta: Floats, tau: float, size: float) -> tuple[Floats, float, Floats]:
        """theta', gamma, and the posterior's precision, parameter by parameter and roughly."""
        here = Here(self.problem, self.entries, theta, tau)
        sides = here.crossed(np.column_stack([theta, self.signs]))
        probes = sides[:, 1:].copy()
        sides[:, 0] += self.entries.observed - here.mean
        self.solved = here.solve(sides, start=self.solved, limit=max(SOLVED, min(SHARE * size, LOOSEST)))
        gamma = max(float(np.sum(probes * self.solved[:, 1:])) * tau**2 / PROBES, 1e-300)
        wanted = tau**2 * here.pulled(self.solved[:, :1])[:, 0]
        return wanted, gamma, here.information + tau**-2

    def damped(self, step: Floats) -> Floats:
        """The step, shorter for a parameter that was sent the other way last time."""
        turned = step * self.last < 0
        self.share = np.clip(self.share * np.where(turned, 0.5, GROWTH), SHORTEST, 1.0)
        self.last = step
        step = self.share * step
        return np.asarray(step / max(1.0, np.abs(step).max() / LONGEST))


class Entries:
    """The holders' entries stacked, and all that does not depend on theta."""

    def __init__(self, problem: Problem) -> None:
        self.holders, tables = problem.holders, problem.engine.tables
        self.observed = np.concatenate([holder.observed for holder in self.holders])
        self.noise = np.concatenate([holder.variance for holder in self.holders])  # V
        ends = np.cumsum([0, *(len(holder.observed) for holder in self.holders)])
        self.parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self.gauges = [_Gauge.of(tables, holder) for holder in self.holders]
        own = np.flatnonzero(problem.spread >= 0)
        shape = (problem.parameters, tables.cells)
        self.onto = sparse.csr_array((np.ones(len(own)), (problem.spread[own], own)), shape=shape)  # E
        self.outof = sparse.csr_array(self.onto.T)

    def of_cells(self, cells: Floats) -> Floats:
        """n W x for every holder, stacked; x (cells, k)."""
        return np.concatenate([holder.n * (holder.sums @ cells) for holder in self.holders])

    def of_parameters(self, entries: Floats) -> Floats:
        """Numbers of entries, added up parameter by parameter."""
        cells = sum(holder.sums.T @ entries[part] for holder, part in zip(self.holders, self.parts, strict=True))
        return np.asarray(self.onto @ cells)

    def without_gauge(self, entries: Floats) -> Floats:
        """Pi x, holder by holder."""
        return np.concatenate([gauge(entries[part]) for gauge, part in zip(self.gauges, self.parts, strict=True)])


class Here:
    """The model at one theta."""

    def __init__(self, problem: Problem, entries: Entries, theta: Floats, tau: float) -> None:
        assert isinstance(problem.engine, JunctionEngine)
        self.entries, self.tau = entries, tau
        self.mu, self.sigma = problem.engine.response(problem.potentials(theta))
        self.mean = entries.of_cells(self.mu)  # m
        spread = entries.of_cells(np.maximum(self.mu * (1 - self.mu), 0.0))  # D
        self.kept = np.square(spread) / (spread + entries.noise)
        self.about = entries.noise + spread + np.square(tau * spread)  # P
        self.information = entries.of_parameters(self.kept)  # parameter by parameter, and roughly

    def crossed(self, parameters: Floats) -> Floats:
        """C' z, a column each."""
        return self.entries.of_cells(self.sigma(self.entries.outof @ parameters))

    def pulled(self, columns: Floats) -> Floats:
        """C u, a column each."""
        return np.asarray(self.entries.onto @ sum(holder.n * part for holder, part in self._turned(columns)))

    def weighed(self, columns: Floats) -> Floats:
        """K u, a column each."""
        turned = self._turned(columns)
        within = np.concatenate([holder.n * (holder.sums @ part) for holder, part in turned])
        pulled = self.entries.onto @ sum(holder.n * part for holder, part in turned)
        return np.asarray(self.entries.noise[:, None] * columns + within + self.tau**2 * self.crossed(pulled))

    def solve(self, sides: Floats, *, start: Floats, limit: float) -> Floats:
        """K^-1 of each column, to an error of theta whose square is `limit` posterior variances a parameter."""
        entries, noise = self.entries, self.entries.noise[:, None]

        def prepared(columns: Floats) -> Floats:
            on = entries.without_gauge(columns)
            off = (columns - on) / noise
            return np.asarray(off + entries.without_gauge(on / self.about[:, None] - off))

        determined = np.sum(self.information / (self.information + self.tau**-2))
        weights = self.tau**2 * self.kept / self.about / determined
        return _solve(self.weighed, prepared, sides, start, weights, np.minimum(limit, SHARE * (weights @ sides**2)))

    def _turned(self, columns: Floats) -> list[tuple[Holder, Floats]]:
        """Sigma W' u of each holder, all in one pass."""
        entries, width = self.entries, columns.shape[1]
        cells = np.concatenate(
            [holder.sums.T @ columns[part] for holder, part in zip(entries.holders, entries.parts, strict=True)], axis=1
        )
        turned = self.sigma(cells)
        return [(holder, turned[:, k * width : (k + 1) * width]) for k, holder in enumerate(entries.holders)]


@dataclass(frozen=True, slots=True, eq=False)
class _Gauge:
    """Pi for one holder, whose tables are whole regions, their cells in an order of their own."""

    order: Ints  # where each cell stands among the entries, region after region
    projection: Projection

    @classmethod
    def of(cls, tables: Regions, holder: Holder) -> _Gauge:
        """That of a holder whose tables are whole."""
        found = _whole(tables, holder)
        assert found is not None
        order, regions = found
        return cls(order, Projection.of(Regions(tables.states, regions)))

    def __call__(self, entries: Floats) -> Floats:
        out = np.empty_like(entries)
        out[self.order] = self.projection(entries[self.order])
        return out


def _whole(tables: Regions, holder: Holder) -> tuple[Ints, tuple[Region, ...]] | None:
    """Where the cells of one region after another stand among the entries; None where an entry is no single cell."""
    sums = holder.sums
    if not (np.all(np.diff(sums.indptr) == 1) and np.all(sums.data == 1)):
        return None
    order, regions, start = [], [], 0
    while start < len(sums.indices):
        r = int(np.searchsorted(tables.starts, sums.indices[start], side="right")) - 1
        part = tables.part(r)
        cells = sums.indices[start : start + part.stop - part.start]
        position = np.argsort(cells)
        if not np.array_equal(cells[position], np.arange(part.start, part.stop)):
            return None
        order.append(start + position)
        regions.append(tables.regions[r])
        start += len(cells)
    return np.concatenate(order), tuple(regions)


def _solve(weighed: Product, prepared: Product, sides: Floats, start: Floats, weights: Floats, limit: Floats) -> Floats:
    """x with K x = b for each column b, by conjugate gradients, until sum of weights (b - K x)^2 <= limit.

    A column that starts no nearer than zero does starts at zero, and one whose curvature is lost in rounding ends.
    """

    def error(columns: Floats) -> Floats:
        return np.asarray(weights @ np.square(columns))

    found, left = start.copy(), sides - weighed(start)
    afar = ~(error(left) < error(sides))
    found[:, afar], left[:, afar] = 0.0, sides[:, afar]
    ready = prepared(left)
    along, slope = ready.copy(), np.einsum("ik,ik->k", left, ready)
    at_work = error(left) > limit
    for _ in range(ITERATIONS):
        k = np.flatnonzero(at_work)
        if not len(k):
            break
        turned = weighed(along[:, k])
        curvature = np.einsum("ik,ik->k", along[:, k], turned)
        fine = (curvature > 0) & (slope[k] > 0)
        at_work[k[~fine]] = False
        k, turned = k[fine], turned[:, fine]
        length = slope[k] / curvature[fine]
        found[:, k] += length * along[:, k]
        left[:, k] -= length * turned
        ready = prepared(left[:, k])
        after = np.einsum("ik,ik->k", left[:, k], ready)
        along[:, k] = ready + after / slope[k] * along[:, k]
        slope[k] = after
        at_work[k] = error(left[:, k]) > limit[k]
    return found
