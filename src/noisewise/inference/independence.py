"""Independence samplers of a few parameters: proposals from one t law, or from a plane and a t law beside it.

Importance sampling with a falling temperature, as in `modes` but of any number of parameters and one hump: points of
a t law (draws from the prior at first) are weighed by prior * likelihood^beta over their own density, beta as large as
leaves a third of them effective; the next t law has their mean and covariance, until beta is 1. Where that comes to no
end, the t law starts from the curvature at the highest point (`ascent`). Proposals of that law
are then accepted by their weights (`plane.accepted`). All of it asks for the density in batches, where a walk of a few
chains asks step by step: of laws whose calls cost more than their rows it is many times faster.

Where the last of three parameters is a share present, it is nearly independent of the others given the count of those
present: then the others are proposed by the grid or the mesh of the plane at the share's mean, bent as it may be, and
the share by its own t law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from noisewise.errors import NoisewiseError
from noisewise.inference.adapt import Progress
from noisewise.inference.ascent import Climb, climbed, separate_starts
from noisewise.inference.density import Density, ExactTarget
from noisewise.inference.mesh import lay_mesh
from noisewise.inference.modes import find_frames
from noisewise.inference.plane import BURN, PlaneDraws, Proposal, accepted, lay_grids, propose, sample
from noisewise.types import Bools, Floats

__all__ = ["fitted_sample", "sample_beside_a_share"]

FIRST_POINTS, POINTS, EFFECTIVE, ROUNDS = 2048, 1024, 0.3, 10
PLANE_EVALUATIONS, TRIED, GOOD, POINTS_ON_LINE = 60_000, 400, 0.8, 129
DEGREES, STRETCH = 5.0, 1.15
FEW_PARAMETERS, THIN = 6, 5
MOST_IDLE = 2  # rounds in which the temperature does not fall
REFITS, NEAR_TOP, AS_HIGH, ELSEWHERE = 3, 0.05, 6.0, 4.0
FEWEST = 50  # points with a density, of which a law may be fitted


class _Fit(NamedTuple):
    """The mean and a root of the covariance of a t law."""

    centre: Floats
    root: Floats

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        normal = rng.standard_normal((count, len(self.centre)))
        spread = np.sqrt(rng.chisquare(DEGREES, (count, 1)) / DEGREES)
        return np.asarray(self.centre + STRETCH * (normal / spread) @ self.root.T)

    def log_density(self, points: Floats) -> Floats:
        d = len(self.centre)
        z = np.linalg.solve(self.root, (points - self.centre).T) / STRETCH
        norm = (
            gammaln((DEGREES + d) / 2) - gammaln(DEGREES / 2) - d / 2 * math.log(DEGREES * math.pi)
            - d * math.log(STRETCH) - np.linalg.slogdet(self.root)[1]
        )  # fmt: skip
        return np.asarray(norm - (DEGREES + d) / 2 * np.log1p(np.square(z).sum(axis=0) / DEGREES))


def fitted_sample(
    rng: np.random.Generator,
    density: Density,
    *,
    chains: int,
    draws: int,
    progress: Progress | None = None,
    near: Density | None = None,
) -> PlaneDraws | None:
    """Draws by proposals of a t law fitted to the density, or to one near it; None where none could be fitted.

    Of more than a few parameters a t law of their shape is no close fit: then one draw of every THIN is kept.
    """
    fit = _fitted(rng, density if near is None else near)
    if fit is None:
        return None
    thin = 1 if len(fit.centre) <= FEW_PARAMETERS else THIN
    positions = fit.draw(rng, chains * (thin * draws + BURN))
    log_proposal = fit.log_density(positions)
    drawn = accepted(rng, density, positions, log_proposal, chains=chains, draws=thin * draws, progress=progress)
    return drawn if thin == 1 else replace(drawn, positions=drawn.positions[:, ::thin])


def sample_beside_a_share(
    rng: np.random.Generator, density: Density, *, chains: int, draws: int, progress: Progress | None = None
) -> PlaneDraws | None:
    """Draws of three parameters, the last of them a share; None where the plane at its mean cannot be laid out."""
    fit = _fitted(rng, density)
    if fit is None:
        return None
    own = _Fit(fit.centre[-1:], np.sqrt(np.square(fit.root[-1:]).sum(axis=1, keepdims=True)))
    try:
        proposals = _plane(rng, Density(_Fixed(density.target, float(own.centre[0]))))
        tried, _ = propose(rng, proposals, TRIED)
        near = _share_at(density, tried, own)
        if near is None:
            return None
        moved, own = abs(near.centre[0] - own.centre[0]) > near.root[0, 0], near
        if moved:
            proposals = _plane(rng, Density(_Fixed(density.target, float(own.centre[0]))))
    except NoisewiseError:
        return None
    count = chains * (draws + BURN)
    others, log_others = propose(rng, proposals, count)
    share = own.draw(rng, count)
    positions, log_proposal = np.concatenate([others, share], axis=1), log_others + own.log_density(share)
    return accepted(rng, density, positions, log_proposal, chains=chains, draws=draws, progress=progress)


def _share_at(density: Density, others: Floats, own: _Fit) -> _Fit | None:
    """The t law of the share where the other parameters fit best, on a line that is narrowed twice."""
    last = np.full((len(others), 1), own.centre[0])
    best = others[np.argmax(density(np.concatenate([others, last], axis=1)))]
    for _ in range(3):
        line = own.centre[0] + 8 * own.root[0, 0] * np.linspace(-1, 1, POINTS_ON_LINE)
        logs = density(np.column_stack([np.tile(best, (len(line), 1)), line]))
        if not np.isfinite(logs.max()):
            return None
        weights = np.exp(logs - logsumexp(logs))
        centre = weights @ line
        spread = max(np.sqrt(weights @ np.square(line - centre)), 8 * own.root[0, 0] / POINTS_ON_LINE)
        own = _Fit(np.array([centre]), np.array([[spread]]))
    return own


def _plane(rng: np.random.Generator, density: Density) -> Sequence[Proposal]:
    """The grids of a plane, or a mesh where they do not fit."""
    frames, is_bent = find_frames(rng, density)
    mesh = lay_mesh(rng, density, frames, PLANE_EVALUATIONS) if is_bent else None
    if mesh is not None:
        return (mesh,)
    grids = lay_grids(rng, density, frames)
    if sample(rng, density, grids, chains=1, draws=TRIED).acceptance < GOOD:
        mesh = lay_mesh(rng, density, frames, PLANE_EVALUATIONS)
    return grids if mesh is None else (mesh,)


class _Fixed(NamedTuple):
    """A target whose last parameter stays where it is."""

    target: ExactTarget
    last: float

    @property
    def size(self) -> int:
        return self.target.size - 1

    def log_prior(self, position: Floats) -> Floats:
        return self.target.log_prior(self._whole(position))

    def log_likelihood(self, position: Floats) -> Floats:
        return self.target.log_likelihood(self._whole(position))

    def draw_prior(self, rng: np.random.Generator, count: int) -> Floats:
        return self.target.draw_prior(rng, count)[:, :-1]

    def parameters(self, position: Floats) -> dict[str, Floats]:
        return self.target.parameters(self._whole(position))

    def _whole(self, position: Floats) -> Floats:
        given = np.atleast_2d(position)
        return np.concatenate([given, np.full((len(given), 1), self.last)], axis=1)


def _fitted(rng: np.random.Generator, density: Density) -> _Fit | None:
    """The t law of the posterior's mean and covariance, walked to from the prior."""
    points = density.target.draw_prior(rng, FIRST_POINTS)
    points = points[np.isfinite(points).all(axis=1)]
    parts = density.parts(points)
    log_proposal = np.where(np.isfinite(parts[0]), parts[0], 0.0)
    seen, highest, idle = [(points, parts.sum(axis=0))], 0.0, 0
    for _ in range(ROUNDS):
        beta, weights = _tempered(parts, log_proposal)
        if weights is None:
            return None
        highest, idle = max(highest, beta), idle + 1 if beta <= highest else 0
        if idle > MOST_IDLE:  # of many parameters a prior may be no t law at any temperature
            break
        centre = weights @ points
        covariance = (weights * (points - centre).T) @ (points - centre)
        try:
            root = np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance)))
            fit = _Fit(centre, np.asarray(root, np.float64))
        except np.linalg.LinAlgError:
            return None
        if beta == 1.0:
            return fit
        points = fit.draw(rng, POINTS)
        log_proposal, parts = fit.log_density(points), density.parts(points)
        seen.append((points, parts.sum(axis=0)))
    return _fitted_at_top(rng, density, *map(np.concatenate, zip(*seen, strict=True)))


def _fitted_at_top(rng: np.random.Generator, density: Density, points: Floats, values: Floats) -> _Fit | None:
    """The t law of the curvature at the highest point that points lead to, and of what is near; None if not the one."""

    widths = np.maximum(np.ptp(np.quantile(points, [0.16, 0.84], axis=0), axis=0) / 2, 1e-12)
    values = np.where(np.isfinite(values), values, -np.inf)
    none_held, climbs = np.zeros(points.shape[1], bool), list[Climb]()
    for start in separate_starts(points, values, widths):
        climbs.append(climbed(density, start, widths, none_held, known=climbs))
    tops = [one for one in climbs if np.linalg.eigvalsh(one.information)[0] > 0 and one.distance(none_held) < NEAR_TOP]
    if not tops:
        return None
    best = max(tops, key=lambda one: one.value)
    away = [one.position - best.position for one in tops if best.value - one.value < AS_HIGH]
    if any(float(one @ best.information @ one) > ELSEWHERE**2 for one in away):
        return None  # another top of some height is elsewhere: one t law does not hold both
    try:
        fit = _Fit(best.position, np.linalg.cholesky(np.linalg.inv(best.information)))
        for _ in range(REFITS):
            near = fit.draw(rng, 2 * POINTS)
            _, weights = _tempered(density.parts(near), fit.log_density(near))
            if weights is None:
                return None
            centre = weights @ near
            root = np.linalg.cholesky((weights * (near - centre).T) @ (near - centre))
            fit = _Fit(centre, np.asarray(root, np.float64))
    except np.linalg.LinAlgError:
        return None
    return fit


def _tempered(parts: Floats, log_proposal: Floats) -> tuple[float, Floats | None]:
    """The largest power of the likelihood that leaves enough points effective, and their weights."""
    seen: Bools = np.isfinite(parts[0]) & np.isfinite(parts[1])
    if seen.sum() < FEWEST:
        return 0.0, None
    base = np.where(seen, parts[0] - log_proposal, -np.inf)
    found = np.where(seen, parts[1], 0.0)

    # The points were drawn about an earlier beta: at a smaller one they are as few as at a larger one.
    betas = np.exp(np.linspace(-40.0, 0.0, 401))
    logs = base + betas[:, None] * (found - found[seen].max())
    weights = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    effective = 1 / np.square(weights).sum(axis=1)
    enough = np.flatnonzero(effective >= EFFECTIVE * min(len(seen), POINTS))
    best = int(enough[-1]) if enough.size else int(np.argmax(effective))
    return float(betas[best]), np.asarray(weights[best])
