"""The posterior as a density on the real line: prior times likelihood, with the transform's Jacobian.

A `Target` is what kernels walk on. It owns the transform: a kernel never knows whether a parameter is positive, and a
likelihood never knows that it is walked on. A density that is NaN is passed on as NaN, for kernels to report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.inference.transform import Transform
from noisewise.populations.parameters import Array, Theta


@dataclass(frozen=True, slots=True)
class Target:
    """log prior + log likelihood at positions (K, size); `likelihood` and `prior` are functions of theta."""

    transform: Transform
    prior: Callable[[Theta], Array]
    likelihood: Callable[[Theta], Array]
    sample_prior: Callable[[np.random.Generator, int], dict[str, Array]]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.transform.supports)

    @property
    def size(self) -> int:
        return self.transform.size

    def log_prior(self, position: Any) -> Array:
        """The log prior density of the position (with the Jacobian); -inf where theta leaves its support."""
        position = np.atleast_2d(position)
        theta = self.parameters(position)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            value = self.prior(theta) + self.transform.log_jacobian(position)
        # At the far ends rounding puts theta on its bound, where a density may be infinite: no walk belongs there.
        return np.where(self.transform.is_inside(theta) & ~np.isnan(value), value, -np.inf)

    def log_likelihood(self, position: Any) -> Array:
        """The log marginal likelihood of the releases at each position."""
        return np.asarray(self.likelihood(self.parameters(np.atleast_2d(position))))

    def log_density(self, position: Any) -> Array:
        """The unnormalised log posterior; rows that the prior excludes are not sent to the likelihood."""
        position = np.atleast_2d(np.asarray(position, dtype=float))
        total = self.log_prior(position)
        inside = np.isfinite(total)
        if inside.any():
            total[inside] = total[inside] + self.log_likelihood(position[inside])
        return total

    def parameters(self, position: Any) -> dict[str, Array]:
        return self.transform.parameters(np.atleast_2d(position))

    def position(self, theta: Theta) -> Array:
        return self.transform.position(theta)

    def over(self, theta: Target, read: Callable[[Callable[..., Array]], Callable[..., Array]]) -> Target:
        """The posterior over other unknowns: that target, in which `read` has put the likelihood already."""
        return theta

    def draw_prior(self, rng: np.random.Generator, count: int) -> Array:
        return self.position(self.sample_prior(rng, count))
