"""A parameter on its own line: where groups are compared and pooled.

    real line      u = theta                  (a mean)
    half line      u = log(theta - low)       (a standard deviation, a rate)
    interval       u = logit of theta         (a probability)

The prior that was given for the parameter, moved to that line, has a mean m and a standard deviation s there. Groups
apart have it each for itself. Pooled groups have

    u_g ~ N(M, tau^2),    M with the prior given,    tau ~ half-normal(s), unless another law is given for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from noisewise.inference.transform import Transform
from noisewise.types import Array, Floats

__all__ = ["Frozen", "Line"]

POINTS = 4001  # quantiles by which moments on the line are taken
TAIL = 2e-5  # of the prior, beyond which nothing is looked for


class Frozen(Protocol):
    """What is asked of a frozen scipy.stats distribution."""

    def logpdf(self, x: Floats) -> Floats: ...
    def ppf(self, q: Floats) -> Floats: ...
    def rvs(self, size: int, random_state: np.random.Generator) -> Floats: ...
    def std(self) -> float: ...


@dataclass(frozen=True)
class Line:
    """One unknown parameter, its prior, and its line."""

    name: str
    map: Transform  # of this parameter alone
    prior: Frozen
    reach: float = 1.0  # how many times as far from its middle as the prior's mass it is looked for

    @property
    def low(self) -> float:
        return self.map.supports[self.name].low

    @property
    def high(self) -> float:
        return self.map.supports[self.name].high

    @property
    def is_straight(self) -> bool:
        """Whether the line is the parameter itself."""
        return self.map.is_straight

    @property
    def words(self) -> str:
        """The line in words."""
        if self.is_straight:
            return self.name
        ends = np.isfinite([self.low, self.high])
        return f"{'logit' if ends.all() else 'log'} {self.name}"

    def parameter(self, u: Array) -> Floats:
        """theta at points of the line, of any shape; inside the support as far as doubles can tell."""
        shape = np.shape(u)
        theta = self.map.parameters(np.reshape(u, (-1, 1)))[self.name]
        low, high = np.nextafter(self.low, np.inf), np.nextafter(self.high, -np.inf)
        return np.asarray(np.clip(theta, low, high).reshape(shape))

    def place(self, theta: Array) -> Floats:
        """The points of the line at parameters of any shape."""
        return np.asarray(self.map.position({self.name: np.ravel(theta)})[:, 0].reshape(np.shape(theta)))

    def log_prior(self, u: Array) -> Floats:
        """The log-density of the prior on the line."""
        flat = np.reshape(u, (-1, 1))
        with np.errstate(all="ignore"):
            found = self.prior.logpdf(self.parameter(flat[:, 0])) + self.map.log_jacobian(flat)
        return np.asarray(np.nan_to_num(found, nan=-np.inf, posinf=-np.inf).reshape(np.shape(u)))

    def quantile(self, q: Array) -> Floats:
        """Quantiles of the prior on the line."""
        found = self.place(self.prior.ppf(np.asarray(q, dtype=float)))
        falls = np.isinf(self.low) and np.isfinite(self.high)  # u = log(high - theta)
        return np.asarray(self.place(self.prior.ppf(1 - np.asarray(q, dtype=float))) if falls else found)

    @cached_property
    def range(self) -> tuple[float, float]:
        """Where the prior has all but 4e-5 of its mass, and beyond by `reach`: there the releases may point."""
        low, high = (float(end) for end in self.quantile(np.array([TAIL, 1 - TAIL])))
        more = self.reach - 1
        return low - more * (self.mean - low), high + more * (high - self.mean)

    @property
    def wide_sd(self) -> float:
        """Of the wide normal law by which a pooled parameter is looked for."""
        return 2 * self.reach * self.sd

    def reaching(self, reach: float) -> Line:
        """The same, looked for farther out."""
        return replace(self, reach=reach)

    @cached_property
    def _middle(self) -> Floats:
        return self.quantile((np.arange(POINTS) + 0.5) / POINTS)

    @cached_property
    def mean(self) -> float:
        return float(self._middle.mean())

    @cached_property
    def sd(self) -> float:
        return float(self._middle.std())

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draws of the prior on the line."""
        drawn = np.asarray(self.prior.rvs(size=count, random_state=rng), dtype=float)
        return self.place(np.clip(drawn, np.nextafter(self.low, np.inf), np.nextafter(self.high, -np.inf)))
