"""Where the mass of a posterior of two parameters lies, and its shape there: one frame a mode.

Importance sampling with a falling temperature. Points x ~ q (prior draws at first) get weights
    w(x) = prior(x) likelihood(x)^beta / q(x)
with the largest beta <= 1 that leaves a third of them effective. The next q is a wider t law with their mean and
covariance, or a mixture of such laws where the points fall into groups that lie apart; and so on until enough of them
are effective at beta = 1. A posterior far in the prior's tail, or far narrower, is walked to; modes that separate on
the way are each followed. A mode with a small share of the mass can be lost while it has few points, and one that no
prior draw leans towards is not seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from noisewise.errors import NoisewiseError
from noisewise.inference.density import Density
from noisewise.types import Bools, Floats

__all__ = ["Frame", "Frames", "draw_t", "factor_of", "find_frames", "log_t"]

FIRST_POINTS, POINTS, EFFECTIVE, ARRIVED = 512, 192, 0.35, 0.15
MOST_TEMPERINGS = 60
BENT = 0.1  # of the points effective: of a bent ridge ever fewer are, of anything like an ellipse more
DEGREES, STRETCH = 5.0, 1.5
# Two groups lie apart if their centres are this many of their summed sds apart; halves of a normal law are 1.3, of a
# uniform one 1.7.
APART, FEWEST_APART, MOST_MODES = 2.5, 5.0, 6


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """x = centre + L z, with L lower triangular."""

    centre: Floats
    factor: Floats

    def position(self, z: Floats) -> Floats:
        return np.asarray(self.centre + z @ self.factor.T)

    def coordinates(self, position: Floats) -> Floats:
        """z, the inverse of `position`."""
        return np.asarray(solve_triangular(self.factor, (position - self.centre).T, lower=True).T)

    @property
    def log_volume(self) -> float:
        """log |det L|."""
        return float(np.log(np.abs(np.diag(self.factor))).sum())


class Frames(NamedTuple):
    """A frame for each mode, and whether the mass was ever so unlike an ellipse that part of it may have been lost."""

    frames: list[Frame]
    is_bent: bool


def find_frames(rng: np.random.Generator, density: Density) -> Frames:
    """Mean and covariance of the posterior, in each of its modes that lie apart."""
    points = density.target.draw_prior(rng, FIRST_POINTS)
    points = points[np.isfinite(points).all(axis=1)]
    parts = density.parts(points)
    log_proposal = np.where(np.isfinite(parts[0]), parts[0], 0.0)
    if not np.any(parts[1] > -np.inf):
        raise NoisewiseError(
            f"The posterior density is not a positive number at any of {len(points)} draws from the prior "
            f"({density.non_finite} gave NaN or infinity). Check that the prior allows what was released.",
            evaluations=density.evaluations,
        )
    demand, reached, smallest = EFFECTIVE, 0.0, EFFECTIVE
    for _ in range(MOST_TEMPERINGS):
        beta, weights, has_arrived = _tempered(parts, log_proposal, demand)
        # A curved ridge never lets a t law be so effective: ask for less until beta moves on.
        demand, reached = (0.7 * demand if beta <= 1.05 * reached else min(EFFECTIVE, 1.2 * demand)), max(beta, reached)
        smallest = min(smallest, demand)
        groups = _groups(points, weights, weights > 0)
        frames = [_frame(points, np.where(group, weights, 0.0)) for group in groups]
        if has_arrived:
            break
        shares = np.maximum([weights[group].sum() for group in groups], 0.1)
        points, log_proposal = _draw_mixture(rng, frames, shares / shares.sum())
        parts = density.parts(points)
        if not np.any(parts[1] > -np.inf):
            raise NoisewiseError("The posterior density is zero all around the place where it seemed to be highest.")
    density.check_resolution(parts.sum(axis=0))
    return Frames(frames, smallest < BENT)


def _tempered(parts: Floats, log_proposal: Floats, demand: float) -> tuple[float, Floats, bool]:
    """The largest beta <= 1 that leaves enough effective points (or most), their weights, and whether 1 would do."""
    seen = parts[1] > -np.inf
    log_prior_weight, log_likelihood = (parts[0] - log_proposal)[seen], parts[1][seen]
    betas = np.exp(np.linspace(-60.0, 0.0, 481))
    log_weights = log_prior_weight + betas[:, None] * (log_likelihood - log_likelihood.max())
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    effective = 1 / np.sum(weights**2, axis=1)
    # The points were drawn about an earlier beta: at a smaller one they are as few as at a larger one.
    enough = np.flatnonzero(effective >= demand * min(seen.size, POINTS))
    best = int(enough[-1]) if enough.size else int(np.argmax(effective))
    found = np.zeros(seen.size)
    found[seen] = weights[best]
    return float(betas[best]), found, bool(effective[-1] >= ARRIVED * seen.size)


def _groups(points: Floats, weights: Floats, group: Bools, most: int = MOST_MODES) -> list[Bools]:
    """Cut the points in two as long as both halves lie apart."""
    halves = None if most < 2 else _halves(points, np.where(group, weights, 0.0))
    if halves is None:
        return [group]
    first = _groups(points, weights, group & halves, most - 1)
    return first + _groups(points, weights, group & ~halves, most - len(first))


def _halves(points: Floats, weights: Floats) -> Bools | None:
    """The cut of weighted points into two groups farthest apart (by two means, from several starts), or None."""
    total = weights.sum()
    if not total > 0:
        return None
    z = _frame(points, weights).coordinates(points)
    best, found = APART, None
    for angle in np.arange(6) * math.pi / 6:
        side = z @ [math.cos(angle), math.sin(angle)] > 0
        for _ in range(12):
            if min(_effective(weights[side]), _effective(weights[~side])) < FEWEST_APART:
                break
            one, other = (np.average(z[part], axis=0, weights=weights[part]) for part in (side, ~side))
            moved = np.sum((z - one) ** 2, axis=1) < np.sum((z - other) ** 2, axis=1)
            if np.array_equal(moved, side):
                distance = _separation(z @ (one - other), weights, side)
                best, found = (distance, side) if distance > best else (best, found)
                break
            side = moved
    return found


def _separation(x: Floats, weights: Floats, side: Bools) -> float:
    """How far apart two groups are on a line, in their summed sds."""
    means, sds = [], []
    for part in (side, ~side):
        mean = np.average(x[part], weights=weights[part])
        means.append(mean)
        sds.append(math.sqrt(np.average((x[part] - mean) ** 2, weights=weights[part])))
    return float(abs(means[0] - means[1]) / max(sum(sds), np.finfo(float).tiny))


def _effective(weights: Floats) -> float:
    total = weights.sum()
    return float(total**2 / np.sum(weights**2)) if total > 0 else 0.0


def _frame(points: Floats, weights: Floats) -> Frame:
    """The frame of a weighted sample's mean and covariance."""
    share = weights / weights.sum()
    centre = share @ points
    return Frame(centre, factor_of((share * (points - centre).T) @ (points - centre)))


def factor_of(covariance: Floats) -> Floats:
    """The Cholesky factor; a covariance of too few points is widened until it has one."""
    scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    correlation = covariance / np.outer(scale, scale)
    for ridge in (0.0, 1e-10, 1e-6, 1e-2):
        try:
            return np.asarray(scale[:, None] * np.linalg.cholesky(correlation + ridge * np.eye(2)), np.float64)
        except np.linalg.LinAlgError:
            continue
    return np.asarray(np.diag(scale), np.float64)


def _draw_mixture(rng: np.random.Generator, frames: list[Frame], shares: Floats) -> tuple[Floats, Floats]:
    """Points of a mixture of wide t laws, one a frame, and their log densities."""
    counts = rng.multinomial(POINTS * min(len(frames), 3), shares)
    points = np.concatenate([
        frame.position(draw_t(rng, count, degrees=DEGREES, stretch=STRETCH))
        for frame, count in zip(frames, counts, strict=True)
    ])  # fmt: skip
    parts = [
        math.log(share) + log_t(frame.coordinates(points), degrees=DEGREES, stretch=STRETCH) - frame.log_volume
        for frame, share in zip(frames, shares, strict=True)
    ]
    return points, np.asarray(logsumexp(parts, axis=0))


def draw_t(rng: np.random.Generator, count: int, *, degrees: float, stretch: float) -> Floats:
    """Draws (count, 2) of a spherical t law, stretched."""
    spread = np.sqrt(rng.chisquare(degrees, (count, 1)) / degrees)
    return np.asarray(stretch * rng.standard_normal((count, 2)) / spread)


def log_t(z: Floats, *, degrees: float, stretch: float) -> Floats:
    """log of 1/(2 pi stretch^2) (1 + |z/stretch|^2/degrees)^-(degrees/2 + 1)."""
    square = np.sum((z / stretch) ** 2, axis=-1)
    return np.asarray(-(degrees / 2 + 1) * np.log1p(square / degrees) - math.log(2 * math.pi * stretch**2))
