"""The common law of pooled parameters: u_g ~ N(M, tau^2), with M and tau unknown.

Every group's own parameters and size integrated out,
    p(M, tau | y) ~ p(M) p(tau) prod_g I_g(M, tau),      I_g = int N(u; M, tau^2) A_g(u) du,
A_g the group's likelihood on the grid of its table, straight between grid points, so that I_g is closed (`tents`). The
pair (M, log tau) is drawn by tents from a narrowed grid and accepted by cubic splines of its logarithm (`log_spline`).
Two pooled parameters have
    I_g = sum_kl w_k(M_1, tau_1) A_kl w_l(M_2, tau_2).
Each pair has a law of its own where the other is held at its middle, q_1 and q_2, found like that of one parameter.
These propose, and what they leave over,
    R = log p(M_1, tau_1, M_2, tau_2 | y) - log q_1(M_1, tau_1) - log q_2(M_2, tau_2),
is how the two pairs tell of each other: smooth, and next to nothing where groups tell means and spreads apart. So a few
points of every line carry its spline, where the density itself, steep wherever tau is too small for what groups differ
by, would need many. M is counted there in standard deviations around its mean at each tau, and R is two matrix
products for each group; where the spline misses it at some of the draws, points are added, and at last the law itself
accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import logsumexp, ndtr

from noisewise.grouped.draws import Pool, Slices, settled_draws
from noisewise.grouped.group_table import GroupTable
from noisewise.grouped.lines import Frozen, Line
from noisewise.grouped.log_spline import TESTED, LogSpline, grid_places, is_near
from noisewise.grouped.record_moments import Box, mesh
from noisewise.grouped.tents import normal_masses
from noisewise.grouped.zoom import climbed, narrowed
from noisewise.types import Array, Floats

__all__ = ["Pooled", "Spread", "draw_common"]

COARSE = (17, 17)
ONE, FINE = 33, 65  # points of every line: of a pair's law, and of what proposes
LEFT_OVER = (7, 11, 17)  # of what two pairs tell of each other; the first that is near enough
HELD = 3  # times that each pair's law is found, the other held at its middle
WIDE = 4.0  # standard deviations of M, and as much of log tau, over which R is laid out
FLATTER = 0.85  # a power of each pair's law, which proposes: the other pair may widen it
LEAST = 1e-4  # of the prior's scale of tau, below which groups are the same to any eye
BEYOND = 50.0  # times the prior's scale of tau, within which groups may differ by more than it expects
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
        """log tau from where groups are the same to any eye to beyond where the prior has its mass."""
        low, high, end = np.asarray(self.prior.ppf(np.array([1e-5, 1 - 1e-6, 1.0])), dtype=float)
        return float(np.log(max(low, LEAST * high))), float(np.log(min(BEYOND * high, end)))


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
    if len(pooled) == 1:
        law = _PairLaw.of(pooled[0], likelihoods)
        drawn, accepted = settled_draws(lambda: law.propose(rng, count), law.log_density, rng, MOST_TURNS)
    else:
        drawn, accepted = _two_pairs(rng, likelihoods, pooled, count)
    return [(drawn[:, 2 * k], np.exp(drawn[:, 2 * k + 1])) for k in range(len(pooled))], accepted


def _two_pairs(
    rng: np.random.Generator, likelihoods: Sequence[_Likelihood], pooled: Sequence[Pooled], count: int
) -> tuple[Floats, float]:
    """Draws (S, 4) of both pairs: proposed by each pair's own law, accepted by these and by what they leave over."""
    first = _PairLaw.of(pooled[0], [like.alone(0, pooled) for like in likelihoods])
    for _ in range(HELD):
        second = _PairLaw.of(pooled[1], [like.held(0, first.middle) for like in likelihoods])
        first = _PairLaw.of(pooled[0], [like.held(1, second.middle) for like in likelihoods])
    laws = first, second

    def propose() -> tuple[Floats, Floats]:
        parts = [law.propose(rng, count, power=FLATTER) for law in laws]
        return np.concatenate([part[0] for part in parts], axis=1), np.sum([part[1] for part in parts], axis=0)

    for points in LEFT_OVER:
        rest = _LeftOver.of(likelihoods, pooled, laws, points)
        drawn, accepted = settled_draws(propose, rest.log_density, rng, MOST_TURNS)
        few = drawn[:TESTED]
        if is_near(rest.log_density(few), _each(likelihoods, pooled, few)):
            return drawn, accepted
    return settled_draws(propose, partial(_each, likelihoods, pooled), rng, MOST_TURNS)


@dataclass(frozen=True, slots=True, eq=False)
class _PairLaw:
    """The law of (M, log tau) of one pooled parameter: a spline on a narrowed grid, and a finer one that proposes."""

    lines: list[Floats]
    spline: LogSpline
    fine: list[Floats]
    near: Floats  # (FINE, FINE): its logarithms there

    @classmethod
    def of(cls, one: Pooled, likelihoods: Sequence[_Likelihood]) -> _PairLaw:
        """From what each group says of the parameter alone."""

        def density(grids: list[Floats]) -> Floats:
            return _pair_density(likelihoods, one, mesh(grids)).reshape([grid.size for grid in grids])

        box = narrowed(density, _box(one, likelihoods), COARSE, limits=one.whole)
        lines = [np.linspace(a, b, ONE) for a, b in box]
        spline = LogSpline(density(lines))
        fine = [np.linspace(a, b, FINE) for a, b in box]
        near = spline.at(grid_places(mesh(fine), lines)).reshape(FINE, FINE)
        return cls(lines, spline, fine, near - near.max())

    def log_density(self, phi: Floats) -> Floats:
        """The log-density of (M, log tau), up to a constant."""
        return self.spline.at(grid_places(phi, self.lines))

    def propose(self, rng: np.random.Generator, count: int, power: float = 1.0) -> tuple[Floats, Floats]:
        """Draws (count, 2) from the law to a power, and their log-densities."""
        return Slices.of(self.fine, power * self.near[None]).propose(rng, np.zeros(count), (None, None))

    @property
    def middle(self) -> tuple[float, float]:
        """The means of M and of log tau."""
        share = np.exp(self.near) / np.exp(self.near).sum()
        return float(share.sum(axis=1) @ self.fine[0]), float(share.sum(axis=0) @ self.fine[1])

    @property
    def funnel(self) -> tuple[Floats, Floats]:
        """The mean and the standard deviation of M at each point of log tau: it is narrow where tau is small."""
        share = np.exp(self.near - self.near.max(axis=0))
        share = share / share.sum(axis=0)
        mean = self.fine[0] @ share
        variance = np.square(self.fine[0][:, None] - mean)
        least = 0.5 * (self.fine[0][1] - self.fine[0][0])
        return mean, np.maximum(np.sqrt((variance * share).sum(axis=0)), least)

    @property
    def reach(self) -> tuple[float, float]:
        """log tau from end to end, but for tails as small as those of a normal law beyond WIDE."""
        share = np.exp(FLATTER * self.near).sum(axis=0)
        upto = np.cumsum(share) / share.sum()
        low, high = np.interp([ndtr(-WIDE), ndtr(WIDE)], upto, self.fine[1])
        return float(low), float(max(high, low + 1e-6))


@dataclass(frozen=True, slots=True, eq=False)
class _LeftOver:
    """What two pairs tell of each other, beyond the law of each: a spline over all four numbers."""

    laws: tuple[_PairLaw, _PairLaw]
    lines: list[Floats]  # (M - mean)/sd and log tau, of one pair and of the other
    spline: LogSpline

    @classmethod
    def of(
        cls,
        likelihoods: Sequence[_Likelihood],
        pooled: Sequence[Pooled],
        laws: tuple[_PairLaw, _PairLaw],
        points: int,
    ) -> _LeftOver:
        lines, phis = [], []
        for law in laws:
            pair = [np.linspace(-WIDE, WIDE, points), np.linspace(*law.reach, points)]
            mean, sd = (np.interp(pair[1], law.fine[1], part) for part in law.funnel)
            centre = mean + pair[0][:, None] * sd
            phis.append(np.stack([centre.ravel(), np.tile(pair[1], points)], axis=1))
            lines += pair
        rest = _both_density(likelihoods, pooled, phis)
        rest = rest - laws[0].log_density(phis[0])[:, None] - laws[1].log_density(phis[1])
        return cls(laws, lines, LogSpline(rest.reshape((points,) * 4)))

    def log_density(self, phi: Floats) -> Floats:
        """The log-density of all four numbers (S, 4), up to a constant."""
        places, own = [], np.zeros(len(phi))
        for law, pair in zip(self.laws, (phi[:, :2], phi[:, 2:]), strict=True):
            mean, sd = (np.interp(pair[:, 1], law.fine[1], part) for part in law.funnel)
            places += [(pair[:, 0] - mean) / sd, pair[:, 1]]
            own = own + law.log_density(pair)
        return np.asarray(own + self.spline.at(grid_places(np.stack(places, axis=1), self.lines)))


def _box(one: Pooled, alone: Sequence[_Likelihood]) -> Box:
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
        """The same of one of two pooled parameters, the other's law taken as its prior, widened."""
        other = 1 - which
        line, grid = pooled[other].line, self.grids[other]
        return self._weighted(other, np.exp(-0.5 * np.square((grid - line.mean) / (1.5 * line.sd))))

    def held(self, other: int, phi: tuple[float, float]) -> _Likelihood:
        """The same of one of two pooled parameters, the other's law being N(M, tau^2) with this (M, log tau)."""
        return self._weighted(other, normal_masses(self.grids[other], np.array(phi[:1]), np.exp(phi[1:]))[0])

    def _weighted(self, other: int, weight: Floats) -> _Likelihood:
        density = self.density @ weight if other == 1 else weight @ self.density
        top = max(float(density.max()), 1e-300)
        return _Likelihood((self.grids[1 - other],), density / top, self.log_top + float(np.log(top)))


def _continued(grid: Floats, log: Floats, axis: int) -> tuple[Floats, Floats]:
    """A grid and logarithms on it, longer by half on either side: straight on where they fall at the end."""
    more, h = grid.size // 2, grid[1] - grid[0]
    first = np.moveaxis(np.where(np.isfinite(log), log, -1e4), axis, 0)
    steps = np.arange(1, more + 1).reshape(-1, *(1,) * (log.ndim - 1))
    before = first[0] - steps[::-1] * np.maximum(first[1] - first[0], 0.0)
    after = first[-1] - steps * np.maximum(first[-2] - first[-1], 0.0)
    longer = np.concatenate([grid[0] - h * np.arange(more, 0, -1), grid, grid[-1] + h * np.arange(1, more + 1)])
    return longer, np.moveaxis(np.concatenate([before, first, after]), 0, axis)


def _pair_density(likelihoods: Sequence[_Likelihood], one: Pooled, phi: Floats) -> Floats:
    """log p(M) p(log tau) prod_g I_g at pairs phi (C, 2) of the only pooled parameter."""
    total = one.log_prior(phi)
    for like in likelihoods:
        inside = normal_masses(like.grids[0], phi[:, 0], np.exp(phi[:, 1])) @ like.density
        with np.errstate(divide="ignore"):
            total = total + np.log(inside) + like.log_top
    return np.asarray(total)


def _both_density(likelihoods: Sequence[_Likelihood], pooled: Sequence[Pooled], phis: Sequence[Floats]) -> Floats:
    """log p prod_g I_g (C, D) at pairs (C, 2) of one parameter, each with all pairs (D, 2) of the other."""
    total = pooled[0].log_prior(phis[0])[:, None] + pooled[1].log_prior(phis[1])
    for like in likelihoods:
        one, two = (
            normal_masses(grid, phi[:, 0], np.exp(phi[:, 1])) for grid, phi in zip(like.grids, phis, strict=True)
        )
        with np.errstate(divide="ignore"):
            total += np.log(one @ like.density @ two.T) + like.log_top
    return np.asarray(total)


def _each(likelihoods: Sequence[_Likelihood], pooled: Sequence[Pooled], phi: Floats) -> Floats:
    """The same at rows (S, 4) of both pairs, one by one."""
    pairs = phi[:, :2], phi[:, 2:]
    total = pooled[0].log_prior(pairs[0]) + pooled[1].log_prior(pairs[1])
    for like in likelihoods:
        one, two = (normal_masses(grid, p[:, 0], np.exp(p[:, 1])) for grid, p in zip(like.grids, pairs, strict=True))
        with np.errstate(divide="ignore"):
            total = total + np.log(np.sum(one @ like.density * two, axis=1)) + like.log_top
    return np.asarray(total)
