"""The common law of pooled parameters: u_g ~ N(M, tau^2), with M and tau unknown.

Every group's own parameters and size integrated out,
    p(M, tau | y) ~ p(M) p(tau) prod_g I_g(M, tau),      I_g = int N(u; M, tau^2) A_g(u) du,
A_g the group's likelihood on the grid of its table, straight between grid points, so that I_g is closed (`tents`). The
pair (M, log tau) is drawn from a narrowed grid by tents and accepted by the density itself. Two pooled parameters have
I_g = sum_kl w_k(M_1, tau_1) A_kl w_l(M_2, tau_2); a pair of grids, one for each parameter with the other's prior wide,
proposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from noisewise.grouped.draws import Pool, Slices, settled_draws
from noisewise.grouped.group_table import GroupTable
from noisewise.grouped.lines import Frozen, Line
from noisewise.grouped.tents import normal_masses
from noisewise.grouped.zoom import climbed, mesh, narrowed
from noisewise.types import Array, Floats

__all__ = ["Pooled", "Spread", "draw_common"]

COARSE, FINE = (17, 17), (41, 41)
LEAST = 1e-4  # of the prior's scale of tau, below which groups are the same to any eye
TURNS_ONE, TURNS_TWO = 3, 30
PIECE = 500


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


def draw_common(
    rng: np.random.Generator, tables: Sequence[GroupTable], pooled: Sequence[Pooled], count: int
) -> tuple[list[Pool], float]:
    """`count` draws of (M, tau) for each pooled parameter, and the share of proposals that was accepted."""
    likelihoods = [_Likelihood.of(table, pooled) for table in tables]
    proposals = []
    for which, one in enumerate(pooled):
        alone = [like.alone(which, pooled) for like in likelihoods]

        def density(phi: Floats, one: Pooled = one, alone: list[_Likelihood] = alone) -> Floats:
            return one.log_prior(phi) + _log_product(alone, [phi])

        def on_grid(grids: list[Floats], density: object = density) -> Floats:
            phi = mesh(grids)
            assert callable(density)
            return np.asarray(density(phi)).reshape(tuple(grid.size for grid in grids))

        low, high = one.line.range
        room = 3 * one.line.sd
        whole = ((low - room, high + room), one.spread.range)
        box = narrowed(on_grid, climbed(on_grid, whole, COARSE), COARSE, limits=whole)
        grids = [np.linspace(a, b, size) for (a, b), size in zip(box, FINE, strict=True)]
        proposals.append(Slices.of(grids, on_grid(grids)[None]))

    def propose() -> tuple[Floats, Floats]:
        parts = [slices.propose(rng, np.zeros(count), (None, None)) for slices in proposals]
        return np.concatenate([part[0] for part in parts], axis=1), np.sum([part[1] for part in parts], axis=0)

    def target(phi: Floats) -> Floats:
        pieces = [phi[:, 2 * k : 2 * k + 2] for k in range(len(pooled))]
        prior = np.sum([one.log_prior(piece) for one, piece in zip(pooled, pieces, strict=True)], axis=0)
        return np.asarray(prior + _log_product(likelihoods, pieces))

    drawn, accepted = settled_draws(propose, target, rng, TURNS_ONE if len(pooled) == 1 else TURNS_TWO)
    return [(drawn[:, 2 * k], np.exp(drawn[:, 2 * k + 1])) for k in range(len(pooled))], accepted


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
        kept = [table.grids[one.index] for one in pooled]
        for axis in range(len(kept)):
            kept[axis], log = _continued(kept[axis], log, axis)
        top = float(np.max(log))
        with np.errstate(under="ignore"):
            return cls(tuple(kept), np.exp(log - top), top)

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


def _log_product(likelihoods: Sequence[_Likelihood], phi: Sequence[Floats]) -> Floats:
    """sum_g log I_g at rows (C, 2) of (M, log tau), one for each pooled parameter."""
    total = np.zeros(len(phi[0]))
    for like in likelihoods:
        for start in range(0, len(total), PIECE):
            some = slice(start, start + PIECE)
            masses = [
                normal_masses(grid, one[some, 0], np.exp(one[some, 1]))
                for grid, one in zip(like.grids, phi, strict=True)
            ]
            inside = masses[0] @ like.density
            if len(masses) == 2:
                inside = np.sum(inside * masses[1], axis=1)
            with np.errstate(divide="ignore"):
                total[some] += np.log(inside) + like.log_top
    return total
