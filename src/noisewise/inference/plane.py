"""A posterior of two parameters: grids in its own frames, as the proposal of an independence sampler.

1. The modes and their shapes are found by importance sampling (`modes`).
2. With z = L^-1 (x - mean), the density of each mode is seen on a square grid of z, grown while mass touches its
   border, cut to what matters, and refined (only where there is mass) until its bilinear interpolant differs little
   from the density. Where there are several modes, a point belongs to the nearest one. Sums over a grid are trapezoidal
   rules: evidence and moments, where a grid and every second point of it agree.
3. Draws: proposals from the interpolants (exactly: a cell, one of its corners, a triangle law towards it), mixed with a
   little of a t law so that no place is out of reach, accepted with probability
       min(1, w(x')/w(x)),   w = posterior / proposal.
   The chain leaves the posterior itself invariant, whatever the grids missed, and is nearly independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from noisewise.inference.adapt import Progress
from noisewise.inference.density import BATCH, Density, ExactTarget
from noisewise.inference.kernels import Bools, Floats, Indices
from noisewise.inference.modes import Frame, draw_t, factor_of, find_frames, log_t

__all__ = ["Grid", "PlaneDraws", "Proposal", "accepted", "evidence", "lay_grids", "moments", "sample"]

SIDE, FINEST = 25, 385
NEGLIGIBLE = 28.0
MOST_FRAMES, MOST_GROWTHS = 6, 12
MOST_GRID_EVALUATIONS = 12_000
ENOUGH_OVERLAP = 0.015
DEFENSIVE_SHARE, DEFENSIVE_DEGREES, DEFENSIVE_STRETCH = 0.01, 3.0, 2.0
BURN = 25

Axes = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Log densities (A, B) at the points first[a], second[b] of z; -inf is allowed."""

    frame: Frame
    first: Floats
    second: Floats
    values: Floats
    mismatch: float = math.inf  # estimated total variation distance between the interpolant and the density

    @property
    def steps(self) -> tuple[float, float]:
        return float(self.first[1] - self.first[0]), float(self.second[1] - self.second[0])

    @property
    def points(self) -> Floats:
        """z at every point of the grid, (A, B, 2)."""
        return np.stack(np.meshgrid(self.first, self.second, indexing="ij"), axis=-1)

    @property
    def is_closed(self) -> bool:
        """Whether no border has mass, so that nothing leads out."""
        border = np.concatenate([self.values[0], self.values[-1], self.values[:, 0], self.values[:, -1]])
        return bool(border.max() < self.values.max() - NEGLIGIBLE / 2)

    def log_mass(self, stride: int = 1) -> float:
        """The log of the density's integral by the trapezoidal rule on every stride-th point."""
        area = math.log(self.steps[0] * self.steps[1] * stride**2)
        return float(logsumexp(self.values[::stride, ::stride])) + area + self.frame.log_volume

    @property
    def _corners(self) -> Floats:
        """The density at the corners of each cell, (A-1, B-1, 4), in units of the highest."""
        f = np.exp(self.values - self.values.max())
        return np.stack([f[:-1, :-1], f[:-1, 1:], f[1:, :-1], f[1:, 1:]], axis=-1)

    def log_interpolant(self, z: Floats) -> Floats:
        """The log of the normalised bilinear density at z (K, 2)."""
        corners, steps = self._corners, np.array(self.steps)
        at = (z - [self.first[0], self.second[0]]) / steps
        inside = ((at >= 0) & (at < corners.shape[:2])).all(axis=1)
        at = np.where(inside[:, None], at, 0.0)
        a, b = np.floor(at).astype(np.intp).T
        s, t = (at - np.floor(at)).T
        weights = np.stack([(1 - s) * (1 - t), (1 - s) * t, s * (1 - t), s * t], axis=-1)
        log_total = math.log(corners.sum() / 4 * steps.prod())
        with np.errstate(divide="ignore"):
            found = np.log(np.sum(weights * corners[a, b], axis=-1)) - log_total
        return np.asarray(np.where(inside, found, -np.inf))

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """z (count, 2) from the bilinear density: a corner of a cell, and a triangle law towards it."""
        corners = self._corners
        cumulated = np.cumsum(corners.ravel())
        index = np.searchsorted(cumulated, rng.random(count) * cumulated[-1], side="right")
        a, b, corner = np.unravel_index(np.minimum(index, cumulated.size - 1), corners.shape)
        away = 1 - np.sqrt(rng.random((count, 2)))  # density 2(1 - t)
        s = np.where(corner >= 2, 1 - away[:, 0], away[:, 0])
        t = np.where(corner % 2 == 1, 1 - away[:, 1], away[:, 1])
        return np.stack([self.first[a] + self.steps[0] * s, self.second[b] + self.steps[1] * t], axis=-1)


class Proposal(Protocol):
    """What the sampler asks of a grid or a mesh: draws and the log density of its interpolant, in its frame."""

    @property
    def frame(self) -> Frame: ...
    def log_mass(self) -> float: ...
    def draw(self, rng: np.random.Generator, count: int) -> Floats: ...
    def log_interpolant(self, z: Floats) -> Floats: ...


@dataclass(frozen=True, slots=True, eq=False)
class PlaneDraws:
    """Draws of the independence sampler and how they went."""

    positions: Floats  # (chains, draws, size)
    acceptance: float
    non_finite: tuple[int, ...]  # proposals of each chain without a finite density
    proposed: Floats  # (proposals, size)
    log_proposal: Floats  # (proposals,)
    log_weight: Floats  # (proposals,): log density - log proposal, -inf where that is not finite


def lay_grids(rng: np.random.Generator, density: Density, frames: list[Frame] | None = None) -> tuple[Grid, ...]:
    """A grid for each mode of a target of size 2 that has mass; `frames` if they are already known."""
    frames = find_frames(rng, density).frames if frames is None else frames
    grids = [_Mode(density, frames, k).grid() for k in range(len(frames))]
    found = [grid for grid in grids if grid is not None]
    top = max(grid.log_mass() for grid in found)
    return tuple(grid for grid in found if grid.log_mass() > top - NEGLIGIBLE)


def evidence(grids: tuple[Grid, ...], stride: int = 1) -> float:
    """The log evidence by the trapezoidal rule on every stride-th point."""
    return float(logsumexp([grid.log_mass(stride) for grid in grids]))


def moments(grids: tuple[Grid, ...], target: ExactTarget, stride: int = 1) -> dict[str, tuple[Floats, Floats]]:
    """Mean and sd of every parameter."""
    positions, weights = [], []
    total = evidence(grids, stride)
    for grid in grids:
        values = grid.values[::stride, ::stride].ravel()
        kept = values > values.max() - 2 * NEGLIGIBLE
        positions.append(grid.frame.position(grid.points[::stride, ::stride].reshape(-1, 2)[kept]))
        weights.append(np.exp(values[kept] - logsumexp(values) + grid.log_mass(stride) - total))
    share, found = np.concatenate(weights), {}
    for name, theta in target.parameters(np.concatenate(positions)).items():
        mean = np.tensordot(share, theta, axes=1)
        found[name] = np.asarray(mean), np.sqrt(np.tensordot(share, (theta - mean) ** 2, axes=1))
    return found


def sample(
    rng: np.random.Generator,
    density: Density,
    grids: Sequence[Proposal],
    *,
    chains: int,
    draws: int,
    progress: Progress | None = None,
) -> PlaneDraws:
    """The independence Metropolis sampler whose proposals come from the grids' interpolants."""
    positions, log_proposal = propose(rng, grids, chains * (draws + BURN))
    return accepted(rng, density, positions, log_proposal, chains=chains, draws=draws, progress=progress)


def accepted(
    rng: np.random.Generator,
    density: Density,
    positions: Floats,
    log_proposal: Floats,
    *,
    chains: int,
    draws: int,
    progress: Progress | None = None,
) -> PlaneDraws:
    """What independent proposals (chains * (draws + BURN), size) become when they are accepted by their weights."""
    steps = draws + BURN
    log_density = np.empty(len(positions))
    for start in range(0, len(positions), BATCH):
        rows = slice(start, start + BATCH)
        log_density[rows] = density.seen(positions[rows]).sum(axis=0)
        if progress is not None:
            progress(min(start + BATCH, len(positions)), len(positions))
    broken = np.isnan(log_density).reshape(chains, steps)
    log_weight = np.where(broken, -np.inf, (log_density - log_proposal).reshape(chains, steps))
    picked, has_moved = _accept(rng, log_weight)
    kept = np.take_along_axis(positions.reshape(chains, steps, -1), picked[:, BURN:, None], axis=1)
    counts = broken[:, BURN:].sum(axis=1)
    non_finite = tuple(int(count) for count in counts)
    acceptance = float(has_moved[:, BURN:].mean())
    return PlaneDraws(kept, acceptance, non_finite, positions, log_proposal, log_weight.ravel())


def propose(rng: np.random.Generator, grids: Sequence[Proposal], count: int) -> tuple[Floats, Floats]:
    """Positions (count, 2) from the interpolants, a few from t laws, and the log density of that mixture."""
    masses = np.array([grid.log_mass() for grid in grids])
    shares = np.maximum(np.exp(masses - logsumexp(masses)), 1e-3)
    shares /= shares.sum()
    law = {"degrees": DEFENSIVE_DEGREES, "stretch": DEFENSIVE_STRETCH}
    drawn = []
    for grid, size in zip(grids, rng.multinomial(count, shares), strict=True):
        z = grid.draw(rng, size)
        is_far = rng.random(size) < DEFENSIVE_SHARE
        z[is_far] = draw_t(rng, int(is_far.sum()), **law)
        drawn.append(grid.frame.position(z))
    positions = rng.permutation(np.concatenate(drawn))
    parts = []
    for grid, share in zip(grids, shares, strict=True):
        z = grid.frame.coordinates(positions)
        near = grid.log_interpolant(z) + math.log1p(-DEFENSIVE_SHARE)
        far = log_t(z, **law) + math.log(DEFENSIVE_SHARE)
        parts.append(math.log(share) + np.logaddexp(near, far) - grid.frame.log_volume)
    return positions, np.asarray(logsumexp(parts, axis=0))


def _accept(rng: np.random.Generator, log_weight: Floats) -> tuple[Indices, Bools]:
    """Which proposal each chain stands on after each step, and whether it moved there."""
    chains, steps = log_weight.shape
    picked = np.zeros((chains, steps), np.intp)
    accepted = np.zeros((chains, steps), bool)
    here = log_weight[:, 0]
    level = -rng.standard_exponential(log_weight.shape)
    for t in range(1, steps):
        with np.errstate(invalid="ignore"):
            accepted[:, t] = level[:, t] < log_weight[:, t] - here
        accepted[:, t] |= (here == -np.inf) & (log_weight[:, t] > -np.inf)  # a first proposal without a density
        picked[:, t] = np.where(accepted[:, t], t, picked[:, t - 1])
        here = np.where(accepted[:, t], log_weight[:, t], here)
    return picked, accepted


class _Mode:
    """One mode: the density where this frame is the nearest of all frames, zero elsewhere."""

    __slots__ = ("density", "frames", "index")

    def __init__(self, density: Density, frames: list[Frame], index: int) -> None:
        self.density, self.frames, self.index = density, frames, index

    def grid(self) -> Grid | None:
        """The refined grid, or None if there is no mass."""
        grid = self._coarse(self.frames[self.index])
        for _ in range(MOST_FRAMES):
            better = None if grid is None else _reframed(grid)
            if better is None:
                break
            grid = self._coarse(better)
        if grid is None:
            return None
        started = self.density.evaluations
        while len(grid.first) < FINEST and not grid.mismatch <= ENOUGH_OVERLAP:
            if self.density.evaluations - started > MOST_GRID_EVALUATIONS:
                break
            grid = self._refined(grid)
        return grid

    def _coarse(self, frame: Frame) -> Grid | None:
        """A coarse grid that holds the mass and little else."""
        axes: Axes = (np.linspace(-6.0, 6.0, SIDE), np.linspace(-6.0, 6.0, SIDE))
        for _ in range(MOST_GROWTHS):
            values = self._evaluate(frame, axes)
            if not np.any(values > -np.inf):
                return None
            grown = _grown(axes, values)
            if grown is None:
                break
            axes = grown
        axes = _trimmed(axes, values)
        return Grid(frame, *axes, self._evaluate(frame, axes))

    def _refined(self, grid: Grid) -> Grid:
        """Half the step: new points are asked for beside mass only, and tell how far the old interpolant was."""
        fine = [np.linspace(axis[0], axis[-1], 2 * len(axis) - 1) for axis in (grid.first, grid.second)]
        top = float(grid.values.max())
        old = _interleaved(np.exp(grid.values - top))
        where = _interleaved((grid.values > top - NEGLIGIBLE).astype(float)) > 0
        where[::2, ::2] = False
        values = self._evaluate(grid.frame, (fine[0], fine[1]), where)
        values[::2, ::2] = grid.values
        new, old = np.exp(values - values.max()), old * math.exp(top - values.max())
        # The interpolant's error falls fourfold when the step is halved.
        mismatch = 0.25 * float(np.abs(new / new.sum() - old / old.sum()).sum()) / 2
        return Grid(grid.frame, fine[0], fine[1], values, mismatch)

    def _evaluate(self, frame: Frame, axes: Axes, where: Bools | None = None) -> Floats:
        """Log densities on the grid (only where asked, and where this mode is the nearest; -inf elsewhere)."""
        z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        positions = frame.position(z)
        chosen = np.ones(len(z), bool) if where is None else where.ravel()
        if len(self.frames) > 1:
            distances = [np.sum(one.coordinates(positions) ** 2, axis=1) for one in self.frames]
            chosen = chosen & (np.argmin(distances, axis=0) == self.index)
        values = np.full(len(z), -np.inf)
        values[chosen] = self.density(positions[chosen])
        return values.reshape(len(axes[0]), len(axes[1]))


def _reframed(grid: Grid) -> Frame | None:
    """The frame of the grid's own mean and covariance; None if this one is as good."""
    z = grid.points.reshape(-1, 2)
    weights = np.exp(grid.values.ravel() - logsumexp(grid.values))
    centre = weights @ z
    covariance = (weights * (z - centre).T) @ (z - centre)
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance), 0.0))
    if np.all((spread > 0.4) & (spread < 2.5)) and np.all(np.abs(centre) < 2.0):
        return None
    # Narrower than the steps, the grid has seen a point, not a width: look again at its scale.
    covariance += np.diag([(step / 4) ** 2 for step in grid.steps])
    return Frame(grid.frame.position(centre), grid.frame.factor @ factor_of(covariance))


def _grown(axes: Axes, values: Floats) -> Axes | None:
    """Axes half as long again at each border that still has mass; None if none has."""
    top, grown, has_grown = values.max(), [], False
    for k, axis in enumerate(axes):
        border = np.moveaxis(values, k, 0)
        low, high = (bool(edge.max() > top - NEGLIGIBLE / 2) for edge in (border[0], border[-1]))
        length = float(axis[-1] - axis[0])
        start, stop = axis[0] - 0.5 * length * low, axis[-1] + 0.5 * length * high
        grown.append(np.linspace(start, stop, SIDE))
        has_grown |= low or high
    return (grown[0], grown[1]) if has_grown else None


def _trimmed(axes: Axes, values: Floats) -> Axes:
    """Axes cut to one step around the rows and columns that have mass."""
    log_total, cut = float(logsumexp(values)), []
    for k, axis in enumerate(axes):
        marginal = logsumexp(values, axis=1 - k)
        kept = np.flatnonzero(marginal > log_total - NEGLIGIBLE / 1.5)
        low, high = max(kept[0] - 1, 0), min(kept[-1] + 1, len(axis) - 1)
        cut.append(np.linspace(axis[low], axis[high], SIDE))
    return cut[0], cut[1]


def _interleaved(values: Floats) -> Floats:
    """The bilinear interpolant at the points of a grid and half-way between them."""
    rows = np.empty((2 * len(values) - 1, values.shape[1]))
    rows[::2], rows[1::2] = values, (values[:-1] + values[1:]) / 2
    both = np.empty((len(rows), 2 * values.shape[1] - 1))
    both[:, ::2], both[:, 1::2] = rows, (rows[:, :-1] + rows[:, 1:]) / 2
    return both
