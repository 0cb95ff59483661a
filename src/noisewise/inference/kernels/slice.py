"""Slice sampling along directions (`slice`).

Each direction v (a column of the walk's factor: coordinates at first, adapted ones after warm-up) is moved in turn by
Neal (2003): a level log p(x) - Exp(1); a bracket of width `scale` thrown at random over x and stepped out to at most
m widths, the allowance split at random between both ends; then points drawn from it, shrinking it towards x, until
one lies in the slice. Nothing is rejected and nothing needs tuning beyond a width of about the posterior's.

All chains move together: only the chains still searching are evaluated. A NaN or +inf density is outside every slice,
and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise.exact import integer
from noisewise.inference.kernels import Bools, Floats, Indices, Info, Target, Walk, joint

# A bracket shrinks towards a point of the slice, so it ends long before this unless the density is broken there.
MOST_SHRINKS = 200


class SliceState(NamedTuple):
    position: Floats
    log_density: Floats


@dataclass(frozen=True, slots=True)
class Slice:
    """`slice`: one univariate slice update along every direction of the walk."""

    target: Target
    walk: Walk
    most_widths: int = 20

    def __post_init__(self) -> None:
        integer(self.most_widths, "most_widths", minimum=1)

    @property
    def ideal_scale(self) -> float:
        """A slice of a normal law is 2.5 standard deviations wide on average."""
        return 2.5

    @property
    def ideal_acceptance(self) -> float | None:
        return None

    @np.errstate(invalid="ignore")
    def init(self, rng: np.random.Generator, position: Floats) -> SliceState:
        return SliceState(position, self._log_density(position))

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: SliceState) -> tuple[SliceState, Info]:
        moved = is_finite = np.ones(len(state.position), bool)
        for direction in self.walk.scale * self.walk.factor.T:
            line = _Line(self, state, direction, state.log_density - rng.standard_exponential(len(state.position)))
            left, right = line.step_out(rng)
            state, found = line.shrink(rng, left, right)
            moved, is_finite = moved & found, is_finite & line.is_finite
        return state, Info(moved, is_finite, moved.astype(float))

    def _log_density(self, position: Floats) -> Floats:
        return joint(self.target.log_prior(position), self.target.log_likelihood(position))


class _Line:
    """The line x + t v in every chain, the level of its slice, and a note of every density that was not a number."""

    __slots__ = ("direction", "is_finite", "kernel", "level", "state")

    def __init__(self, kernel: Slice, state: SliceState, direction: Floats, level: Floats) -> None:
        self.kernel, self.state, self.direction, self.level = kernel, state, direction, level
        self.is_finite: Bools = state.log_density < np.inf

    def evaluate(self, rows: Indices, t: Floats) -> tuple[Floats, Floats, Bools]:
        """Points, log densities, and whether they lie in the slice, at t (one a row)."""
        points = self.state.position[rows] + t[:, None] * self.direction
        log_density = self.kernel._log_density(points)
        finite = log_density < np.inf
        self.is_finite[rows] &= finite
        return points, log_density, finite & (log_density > self.level[rows])

    def step_out(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """A bracket [left, right] in widths, grown at each end while that end lies in the slice."""
        chains, most = len(self.level), self.kernel.most_widths - 1
        left = -rng.random(chains)
        allowance = rng.integers(0, most + 1, chains)
        ends = (left, left + 1.0)
        for end, outward, steps in zip(ends, (-1.0, 1.0), (allowance, most - allowance), strict=True):
            rows, taken = np.flatnonzero(steps > 0), 0
            while rows.size:
                inside = self.evaluate(rows, end[rows])[2]
                taken += 1
                end[rows[inside]] += outward
                rows = rows[inside & (steps[rows] > taken)]
        return ends

    def shrink(self, rng: np.random.Generator, left: Floats, right: Floats) -> tuple[SliceState, Bools]:
        """Points drawn from the bracket until each chain has one in its slice."""
        position, log_density = self.state.position.copy(), self.state.log_density.copy()
        found = np.zeros(len(position), bool)
        rows = np.arange(len(position))
        for _ in range(MOST_SHRINKS):
            t = left[rows] + (right[rows] - left[rows]) * rng.random(rows.size)
            points, values, inside = self.evaluate(rows, t)
            position[rows[inside]], log_density[rows[inside]] = points[inside], values[inside]
            found[rows[inside]] = True
            below = t < 0
            left[rows[below]], right[rows[~below]] = t[below], t[~below]
            rows = rows[~inside]
            if not rows.size:
                break
        return SliceState(position, log_density), found
