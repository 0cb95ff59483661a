"""The common law of pooled parameters: u_g ~ N(M, tau^2), with M and tau unknown.

Every group's own parameters and size integrated out,
    p(M, tau | y) ~ p(M) p(tau) prod_g I_g(M, tau),      I_g = int N(u; M, tau^2) A_g(u) du,
A_g the group's likelihood on the grid of its table, straight between grid points, so that I_g is closed (`tents`). The
pair (M, log tau) is drawn by tents from a narrowed grid and accepted by cubic splines of its logarithm (`log_spline`).
Two pooled parameters have
    I_g = sum_kl w_k(M_1, tau_1) A_kl w_l(M_2, tau_2),
so that the grid of all four numbers costs two matrix products for each group; the marginal of each pair proposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from noisewise.grouped.draws import Pool, Slices, settled_draws
from noisewise.grouped.group_table import GroupTable
from noisewise.grouped.lines import Frozen, Line
from noisewise.grouped.log_spline import LogSpline, grid_places
from noisewise.grouped.record_moments import Box, mesh
from noisewise.grouped.tents import normal_masses
from noisewise.grouped.zoom import climbed, narrowed
from noisewise.types import Array, Floats

__all__ = ["Pooled", "Spread", "draw_common"]

COARSE, FEWER = (17, 17), (11, 11)
ONE, TWO, FINE = 33, 15, 65  # points of every line: of one pair, of two pairs, and of what proposes
LEAST = 1e-4  # of the prior's scale of tau, below which groups are the same to any eye
MOST_TURNS = 30


@dataclass(frozen=True)
class Spread:
    """The prior of tau, on the parameter's line."""

    prior: Frozen

    def log_prior(self, log_tau: Array) -> Floats:
        """The log-density of log tau."""
        with np.errstate(all="ignore"):
            found = self.prior.logpdf(np.exp(log_tau)) + log_tau
        return np.asarray(np.where(np.isnan(found), -np.inf, found))

    @property
    def range(self) -> tuple[float, float]:
        """log tau from where groups are the same to any eye to where the prior ends."""
        low, high = np.asarray(self.prior.ppf(np.array([1e-5, 1 - 1e-6])), dtype=float)
        return float(np.log(max(low, LEAST * high))), float(np.log(high))


@dataclass(frozen=True)
class Pooled:
    """One pooled parameter: which line, and the prior of its spread."""

    index: int
    line: Line
    spread: Spread

    def log_prior(self, phi: Array) -> Floats:
        """log p(M) p(log tau) at phi (C, 2)."""
        return self.line.log_prior(phi[:, 0]) + self.spread.log_prior(phi[:, 1])

    @property
    def whole(self) -> Box:
        """Where (M, log tau) can be at all."""
        low, high = self.line.range
        room = 3 * self.line.sd
        return (low - room, high + room), self.spread.range


def draw_common(
    rng: np.random.Generator, tables: Sequence[GroupTable], pooled: Sequence[Pooled], count: int
) -> tuple[list[Pool], float]:
    """`count` draws of (M, tau) for each pooled parameter, and the share of proposals that was accepted."""
    likelihoods = [_Likelihood.of(table, pooled) for table in tables]

    def density(grids: list[Floats]) -> Floats:
        return _on_grids(likelihoods, pooled, grids)

    starts = [_box(one, [like.alone(which, pooled) for like in likelihoods]) for which, one in enumerate(pooled)]
    box = tuple(side for start in starts for side in start)
    points, is_one = (COARSE, True) if len(pooled) == 1 else ((*FEWER, *FEWER), False)
    box = narrowed(density, box, points, limits=tuple(side for one in pooled for side in one.whole))
    lines = [np.linspace(a, b, ONE if is_one else TWO) for a, b in box]
    log = density(lines)
    spline, proposals = LogSpline(log), []
    for which in range(len(pooled)):
        pair = lines[2 * which : 2 * which + 2]
        own = LogSpline(log if is_one else logsumexp(log, axis=(2, 3) if which == 0 else (0, 1)))
        fine = [np.linspace(grid[0], grid[-1], FINE) for grid in pair]
        near = own.at(grid_places(mesh(fine), pair)).reshape(FINE, FINE)
        proposals.append(Slices.of(fine, near[None]))

    def propose() -> tuple[Floats, Floats]:
        parts = [slices.propose(rng, np.zeros(count), (None, None)) for slices in proposals]
        return np.concatenate([part[0] for part in parts], axis=1), np.sum([part[1] for part in parts], axis=0)

    drawn, accepted = settled_draws(propose, lambda phi: spline.at(grid_places(phi, lines)), rng, MOST_TURNS)
    return [(drawn[:, 2 * k], np.exp(drawn[:, 2 * k + 1])) for k in range(len(pooled))], accepted


def _box(one: Pooled, alone: list[_Likelihood]) -> Box:
    """Where (M, log tau) has its mass, each A_g taken as a normal law."""
    normal = np.array([like.normal for like in alone])

    def rough(grids: list[Floats]) -> Floats:
        phi = mesh(grids)
        variance = normal[:, 1] + np.exp(2 * phi[:, 1:])
        product = -0.5 * np.sum(np.square(normal[:, 0] - phi[:, :1]) / variance + np.log(variance), axis=1)
        return np.asarray(one.log_prior(phi) + product).reshape([grid.size for grid in grids])

    return narrowed(rough, climbed(rough, one.whole, COARSE), COARSE, limits=one.whole)


@dataclass(frozen=True, slots=True, eq=False)
class _Likelihood:
    """A_g on the grids of the pooled parameters: what is not pooled is integrated out under its prior."""

    grids: tuple[Floats, ...]
    density: Floats
    log_top: float

    @classmethod
    def of(cls, table: GroupTable, pooled: Sequence[Pooled]) -> _Likelihood:
        log = table.log_likelihood + table.log_prior
        others = [k for k in range(len(table.grids)) if k not in {one.index for one in pooled}]
        for k in others:
            log = logsumexp(log, axis=k) + np.log(table.steps[k])
        coarse = [table.grids[one.index] for one in pooled]
        # Straight lines between points would widen A_g by a sixth of the squared step; half the step leaves a fourth.
        kept = [np.linspace(grid[0], grid[-1], 2 * grid.size - 1) for grid in coarse]
        log = LogSpline(log).at(grid_places(mesh(kept), coarse)).reshape([grid.size for grid in kept])
        for axis in range(len(kept)):
            kept[axis], log = _continued(kept[axis], log, axis)
        top = float(np.max(log))
        with np.errstate(under="ignore"):
            return cls(tuple(kept), np.exp(log - top), top)

    @property
    def normal(self) -> tuple[float, float]:
        """Mean and variance of A_g on its only line, as if it were a density."""
        share = self.density / self.density.sum()
        mean = float(share @ self.grids[0])
        return mean, max(float(share @ np.square(self.grids[0] - mean)), 1e-300)

    def alone(self, which: int, pooled: Sequence[Pooled]) -> _Likelihood:
        """The same of one pooled parameter, the other's law taken as its prior, widened."""
        if len(self.grids) == 1:
            return self
        other = 1 - which
        line, grid = pooled[other].line, self.grids[other]
        weight = np.exp(-0.5 * np.square((grid - line.mean) / (1.5 * line.sd)))
        density = self.density @ weight if other == 1 else weight @ self.density
        return _Likelihood((self.grids[which],), density, 0.0)


def _continued(grid: Floats, log: Floats, axis: int) -> tuple[Floats, Floats]:
    """A grid and logarithms on it, longer by half on either side: straight on where they fall at the end."""
    more, h = grid.size // 2, grid[1] - grid[0]
    first = np.moveaxis(np.where(np.isfinite(log), log, -1e4), axis, 0)
    steps = np.arange(1, more + 1).reshape(-1, *(1,) * (log.ndim - 1))
    before = first[0] - steps[::-1] * np.maximum(first[1] - first[0], 0.0)
    after = first[-1] - steps * np.maximum(first[-2] - first[-1], 0.0)
    longer = np.concatenate([grid[0] - h * np.arange(more, 0, -1), grid, grid[-1] + h * np.arange(1, more + 1)])
    return longer, np.moveaxis(np.concatenate([before, first, after]), 0, axis)


def _on_grids(likelihoods: Sequence[_Likelihood], pooled: Sequence[Pooled], grids: list[Floats]) -> Floats:
    """log p(M) p(log tau) prod_g I_g on the grid of M and log tau, then M and log tau of a second pooled parameter.

    I_g is a sum over points of products of one mass for each pooled parameter: two matrix products for all of it.
    """
    phis = [mesh(grids[2 * k : 2 * k + 2]) for k in range(len(pooled))]
    total = pooled[0].log_prior(phis[0])
    if len(pooled) == 2:
        total = total[:, None] + pooled[1].log_prior(phis[1])
    for like in likelihoods:
        masses = [normal_masses(grid, phi[:, 0], np.exp(phi[:, 1])) for grid, phi in zip(like.grids, phis, strict=True)]
        inside = masses[0] @ like.density
        with np.errstate(divide="ignore"):
            total = total + np.log(inside if len(masses) == 1 else inside @ masses[1].T) + like.log_top
    return np.asarray(total.reshape([grid.size for grid in grids]))
