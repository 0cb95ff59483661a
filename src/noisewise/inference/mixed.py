"""Laplace noise on three or more components: its mixing variances walk along with theta.

Laplace(b) is N(0, w) with w ~ Exponential(mean 2 b^2) (Andrews & Mallows 1974), so given theta and w the likelihood is
normal and closed. The target is on (position of theta, log(w / 2 b^2)), with the density e^{v - e^v} of the latter;
draws of w are dropped afterwards, which leaves the exact posterior of theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisewise.inference.target import Target
from noisewise.populations.parameters import Array


@dataclass(frozen=True, slots=True)
class MixedTarget:
    """A target whose last coordinates are log-variances of the noise, relative to 2 b^2."""

    theta: Target
    likelihood: Any  # of (theta, variances)
    scale: Array  # b of each mixed component

    @property
    def size(self) -> int:
        return self.theta.size + self.scale.size

    @property
    def names(self) -> tuple[str, ...]:
        return self.theta.names

    def parameters(self, position: Any) -> dict[str, Array]:
        return self.theta.parameters(np.atleast_2d(position)[:, : self.theta.size])

    def log_prior(self, position: Any) -> Array:
        position = np.atleast_2d(position)
        v = position[:, self.theta.size :]
        with np.errstate(over="ignore"):
            mixing = (v - np.exp(v)).sum(axis=1)
        return np.asarray(self.theta.log_prior(position[:, : self.theta.size]) + mixing)

    def log_likelihood(self, position: Any) -> Array:
        position = np.atleast_2d(position)
        with np.errstate(over="ignore", invalid="ignore"):
            variances = 2 * np.square(self.scale) * np.exp(position[:, self.theta.size :])
            return np.asarray(self.likelihood(self.parameters(position), variances))

    def over(self, theta: Target, read: Callable[[Callable[..., Array]], Callable[..., Array]]) -> MixedTarget:
        """The posterior over other unknowns: `theta` of them, the likelihood as `read` makes it one of theirs."""
        return replace(self, theta=theta, likelihood=read(self.likelihood))

    def log_density(self, position: Any) -> Array:
        position = np.atleast_2d(np.asarray(position, dtype=float))
        total = self.log_prior(position)
        inside = np.isfinite(total)
        if inside.any():
            total[inside] = total[inside] + self.log_likelihood(position[inside])
        return total

    def draw_prior(self, rng: np.random.Generator, count: int) -> Array:
        mixing = np.log(rng.standard_exponential((count, self.scale.size)))
        return np.concatenate([self.theta.draw_prior(rng, count), mixing], axis=1)
