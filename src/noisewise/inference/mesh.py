"""A posterior of two parameters on a sparse mesh, refined while it is cooled: for ridges, however thin or bent.

A single release of two unknowns often leaves a curve of parameters that explain it equally well, as thin as the noise
is small: no ellipse is like it. So the mesh starts coarse on a box that holds the prior's draws and whatever else
was found, on the flattened density
    prior(x) likelihood(x)^beta,
with the largest beta at which neighbouring points differ little. Points that are hopeless at that beta are dropped,
neighbours of others are not, the spacing is halved along each axis that is still rough, and so on to beta = 1: a curve
is seen while it is still broad, and followed as it thins. The cost grows with the length of the ridge over its width,
and all modes whose flattened humps the first mesh sees are kept.

The points carry a bilinear interpolant, a mixture of tents, which is the proposal of an independence sampler (`plane`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from noisewise.inference.density import Density
from noisewise.inference.modes import Frame, factor_of
from noisewise.types import Bools, Floats

__all__ = ["Mesh", "lay_mesh"]

Keys = NDArray[np.int64]
FIRST_SIDE = 48
FALL = 16.0  # a point this far below the highest holds nothing
ROUGH, SMOOTH = 1.5, 0.6  # mean difference of neighbouring log densities: allowed on the way, wanted at the end
MOST_ROUNDS, MOST_GROWTHS, MOST_EVALUATIONS = 60, 8, 800_000
SHIFT = 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Points origin + step * (a, b) with whole a, b, in the order of their keys, and log density there."""

    origin: Floats
    step: Floats
    index: Keys  # (M, 2)
    parts: Floats  # (2, M): log prior and log likelihood
    beta: float = 0.0

    @property
    def positions(self) -> Floats:
        return np.asarray(self.origin + self.step * self.index)

    @property
    def values(self) -> Floats:
        return np.asarray(self.parts[0] + self.beta * self.parts[1])

    @property
    def frame(self) -> Frame:
        """Mean and covariance of the points, by their mass."""
        share = np.exp(self.values - logsumexp(self.values))
        centre = share @ self.positions
        away = self.positions - centre
        return Frame(centre, factor_of((share * away.T) @ away + np.diag(self.step**2)))

    def log_mass(self) -> float:
        return float(logsumexp(self.values)) + math.log(float(np.prod(self.step)))

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """From the interpolant, in the frame's coordinates: a point, and a triangle law about it on either axis."""
        cumulated = np.cumsum(np.exp(self.values - self.values.max()))
        index = np.searchsorted(cumulated, rng.random(count) * cumulated[-1], side="right")
        tent = rng.random((count, 2)) + rng.random((count, 2)) - 1
        return self.frame.coordinates(self.positions[np.minimum(index, len(self.index) - 1)] + self.step * tent)

    def log_interpolant(self, z: Floats) -> Floats:
        """The log of the normalised interpolant at the frame's coordinates z (K, 2)."""
        frame = self.frame
        at = (frame.position(z) - self.origin) / self.step
        low = np.floor(at)
        share = at - low
        weights = np.exp(self.values - logsumexp(self.values))
        keys, total = _keys(self.index), np.zeros(len(z))
        with np.errstate(invalid="ignore"):
            inside = np.all(np.abs(low) < SHIFT / 2, axis=1)
        base = np.where(inside[:, None], low, 0.0).astype(np.int64)
        for first in (0, 1):
            for second in (0, 1):
                corner = _keys(base + np.array([first, second], np.int64))
                place = np.minimum(np.searchsorted(keys, corner), keys.size - 1)
                tent = np.where(first, share[:, 0], 1 - share[:, 0]) * np.where(second, share[:, 1], 1 - share[:, 1])
                total += np.where((keys[place] == corner) & inside, weights[place] * tent, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total) - math.log(float(np.prod(self.step))) + frame.log_volume)


def lay_mesh(
    rng: np.random.Generator, density: Density, frames: list[Frame], most_evaluations: int = MOST_EVALUATIONS
) -> Mesh | None:
    """A mesh that holds the posterior, or None if it is out of reach; `frames` are places that were found."""
    started = density.evaluations
    mesh = _first(rng, density, frames)
    for _ in range(MOST_ROUNDS):
        if mesh is None:
            return None
        mesh = _cooled(mesh)
        kept = _around(mesh)
        rough = _roughness(mesh, mesh.beta)
        is_rough = rough > 0.5 * max(rough.max(), SMOOTH)
        if mesh.beta == 1.0 and rough.max() <= SMOOTH:
            return _chosen(mesh, kept)
        cost = int(kept.sum()) * (2 ** int(is_rough.sum()) - 1)
        if density.evaluations - started + cost > most_evaluations:
            return _chosen(mesh, kept) if mesh.beta == 1.0 else None
        mesh = _halved(density, _chosen(mesh, kept), is_rough)
    return None


def _first(rng: np.random.Generator, density: Density, frames: list[Frame]) -> Mesh | None:
    """A coarse mesh over the prior's draws and the frames, grown while its border matters."""
    drawn = density.target.draw_prior(rng, 512)
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    corners = [frame.position(8.0 * np.array([[i, j] for i in (-1, 1) for j in (-1, 1)])) for frame in frames]
    places = np.concatenate([drawn, *corners])
    low, high = np.quantile(drawn, 0.005, axis=0), np.quantile(drawn, 0.995, axis=0)
    if corners:
        low, high = (
            np.minimum(low, places[len(drawn) :].min(axis=0)),
            np.maximum(high, places[len(drawn) :].max(axis=0)),
        )
    width = np.maximum(high - low, 1e-12 * (1 + np.abs(low)))
    low, high = low - 0.25 * width, high + 0.25 * width
    for _ in range(MOST_GROWTHS):
        step = (high - low) / FIRST_SIDE
        index = np.stack(np.meshgrid(*[np.arange(FIRST_SIDE + 1)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
        mesh = Mesh(low, step, index.astype(np.int64), density.parts(low + step * index))
        if not np.any(mesh.parts[1] > -np.inf):
            return None
        cooled = _cooled(mesh)
        top = cooled.values.max()
        reached = cooled.values > top - FALL / 2
        sides = [(reached & (index[:, k] == end)).any() for k in (0, 1) for end in (0, FIRST_SIDE)]
        if not any(sides):
            return mesh
        width = high - low
        low = low - 0.5 * width * np.array([sides[0], sides[2]])
        high = high + 0.5 * width * np.array([sides[1], sides[3]])
    return mesh


def _cooled(mesh: Mesh) -> Mesh:
    """The same points at the largest beta at which neighbours differ little; never a smaller one than before."""
    low, high = math.log(1e-12), 0.0
    if _roughness(mesh, 1.0).max() <= ROUGH:
        return replace(mesh, beta=1.0)
    for _ in range(24):
        middle = 0.5 * (low + high)
        is_even = _roughness(mesh, math.exp(middle)).max() <= ROUGH
        low, high = (middle, high) if is_even else (low, middle)
    return replace(mesh, beta=max(mesh.beta, math.exp(low)))


def _roughness(mesh: Mesh, beta: float) -> Floats:
    """How much log densities of neighbours differ along each axis, on average over the mass at that beta."""
    values = mesh.parts[0] + beta * mesh.parts[1]
    share = np.exp(values - logsumexp(values))
    keys, found = _keys(mesh.index), np.zeros(2)
    for k in (0, 1):
        for way in (-1, 1):
            neighbour = mesh.index.copy()
            neighbour[:, k] += way
            place = np.minimum(np.searchsorted(keys, _keys(neighbour)), keys.size - 1)
            is_there = keys[place] == _keys(neighbour)
            with np.errstate(invalid="ignore"):
                gap = np.where(is_there, np.abs(values[place] - values), 0.0)
            # A density may end, on a line: then its border is rough at every spacing, and holds ever less.
            found[k] += float(share @ np.minimum(np.nan_to_num(gap, nan=0.0, posinf=4.0), 4.0)) / 2
    return found


def _around(mesh: Mesh) -> Bools:
    """The points that matter and the neighbours of these."""
    values = mesh.values
    alive: Bools = values > values.max() - FALL
    keys, near = _keys(mesh.index), _keys(mesh.index[alive])
    kept: Bools = alive.copy()
    for first in (-1, 0, 1):
        for second in (-1, 0, 1):
            place = np.searchsorted(keys, near + first * (2 * SHIFT) + second)
            place = np.minimum(place, keys.size - 1)
            kept[place[keys[place] == near + first * (2 * SHIFT) + second]] = True
    return kept


def _chosen(mesh: Mesh, kept: Bools) -> Mesh:
    return replace(mesh, index=mesh.index[kept], parts=mesh.parts[:, kept])


def _halved(density: Density, mesh: Mesh, axes: Bools) -> Mesh:
    """Half the spacing along the axes: old points keep their values, points between and about them are asked for."""
    factor = np.where(axes, 2, 1)
    old = mesh.index * factor
    moves = [(i, j) for i in ((-1, 0, 1) if axes[0] else (0,)) for j in ((-1, 0, 1) if axes[1] else (0,))]
    index = np.concatenate([old + move for move in moves])
    keys, first = np.unique(_keys(index), return_index=True)
    index = index[first]
    step = mesh.step / factor
    known = np.searchsorted(keys, _keys(old))
    parts = np.full((2, keys.size), np.nan)
    parts[:, known] = mesh.parts
    fresh = np.ones(keys.size, bool)
    fresh[known] = False
    parts[:, fresh] = density.parts(mesh.origin + step * index[fresh])
    return replace(mesh, step=step, index=index, parts=parts)


def _keys(index: Keys) -> Keys:
    """One whole number for each pair, in the order of the pairs."""
    return np.asarray((index[:, 0] + SHIFT // 2) * (2 * SHIFT) + (index[:, 1] + SHIFT // 2), np.int64)
