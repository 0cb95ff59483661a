"""Slice sampling with leaps: what `exact` walks with where there are three parameters or more.

One step is a slice update along every direction (`slice`), and then a proposal from the prior itself,
    theta' ~ eta;   accept with probability min{1, p(y|theta') / p(y|theta)}.
Both leave the posterior invariant, and so does one after the other. A release that tells little leaves a posterior as
long and bent as the prior's shadow on it, along which a slice creeps and a leap does not; where a release tells much,
leaps are refused, at one evaluation a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.inference.kernels import Floats, Info, Target, Walk, choose
from noisewise.inference.kernels.slice import Slice, SliceState

__all__ = ["LeapingSlice"]


@dataclass(frozen=True, slots=True)
class LeapingSlice:
    """A slice update along every direction of the walk, and a leap."""

    target: Target
    walk: Walk
    most_widths: int = 20

    @property
    def ideal_scale(self) -> float:
        return self._slice.ideal_scale

    @property
    def ideal_acceptance(self) -> float | None:
        return None

    @property
    def _slice(self) -> Slice:
        return Slice(self.target, self.walk, self.most_widths)

    def init(self, rng: np.random.Generator, position: Floats) -> SliceState:
        return self._slice.init(rng, position)

    @np.errstate(invalid="ignore")
    def step(self, rng: np.random.Generator, state: SliceState) -> tuple[SliceState, Info]:
        state, info = self._slice.step(rng, state)
        leap = self._slice.init(rng, self.target.draw_prior(rng, len(state.position)))
        priors = [self.target.log_prior(place.position) for place in (leap, state)]
        log_ratio = (leap.log_density - priors[0]) - (state.log_density - priors[1])
        # A draw whose density is no number (it may be beyond a double) is no place to go, and no fault of the chain.
        is_taken = (-rng.standard_exponential(log_ratio.shape) < log_ratio) & np.isfinite(leap.log_density)
        return choose(is_taken, leap, state), info
