"""What one set of records says of one group: the sizes the group may have, and the law of its sums at each.

    log p(published | n, u) = (counts: exact, in the window of sizes) + log p(sums | n, u)
`SumsTerm` is that of a release by group; `HolderTerm` that of a holder whose releases are of the whole data set: its
size is known, and every law of `likelihood` serves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from noisewise.grouped.group_sizes import SizeWindow
from noisewise.grouped.lines import Line
from noisewise.grouped.record_moments import RecordMoments
from noisewise.grouped.sum_law import SumLaw
from noisewise.types import Array, Floats, Ints, Theta

__all__ = ["AnyTerm", "HolderTerm", "SumsTerm"]


class AnyTerm(Protocol):
    """What one set of records says of one group."""

    @property
    def window(self) -> SizeWindow: ...
    @property
    def is_slow(self) -> bool: ...
    def rough(self, widening: float = 1.0) -> AnyTerm: ...
    def outer(self, n: Array | Ints, u: Array) -> Floats: ...
    def each(self, n: Array | Ints, u: Array) -> Floats: ...


@dataclass(frozen=True)
class SumsTerm:
    """The sums of one group in a release by group."""

    window: SizeWindow
    law: SumLaw
    moments: RecordMoments
    two_values: tuple[float, float] | None = None
    is_rough: bool = False

    @property
    def is_slow(self) -> bool:
        return self.law.is_slow

    def rough(self, widening: float = 1.0) -> SumsTerm:
        """A law that is quick and near: for finding the place."""
        return SumsTerm(self.window, self.law.rough(widening), self.moments, is_rough=True)

    def outer(self, n: Array | Ints, u: Array) -> Floats:
        """log p(sums | n, u) for all pairs of sizes (N,) and points (K, p): (N, K)."""
        mean, covariance = self.moments.at(u)
        sizes: Floats = np.asarray(n, dtype=np.float64)[:, None]
        found = self.law.log_density(sizes, mean[None], covariance[None])
        return self._branches(np.broadcast_to(sizes, found.shape), u, mean[None], found)

    def each(self, n: Array | Ints, u: Array) -> Floats:
        """The same for sizes (K,) and points (K, p) one by one: (K,)."""
        mean, covariance = self.moments.at(u)
        sizes: Floats = np.asarray(n, dtype=np.float64)
        found = self.law.log_density(sizes, mean, covariance)
        return np.asarray(self._branches(sizes[None], u, mean[None], found[None])[0])

    def _branches(self, n: Floats, u: Array, mean: Array, found: Floats) -> Floats:
        """One person, and yes/no features: laws of their own instead of the normal one. n, found: (N, K)."""
        found = np.where(np.isnan(found), -np.inf, found)
        if not self.law.seen or self.is_rough:
            return found
        if self.two_values is not None:
            low, high = self.two_values
            share = np.clip((mean[..., 0] - low) / (high - low), 0.0, 1.0)
            exact = self.law.of_yes_and_no(n, np.broadcast_to(share, n.shape), self.two_values)
            return np.where(np.isnan(exact), found, exact)
        alone = n == 1
        columns = np.flatnonzero(alone.any(axis=0))
        if columns.size:
            values, weight = self.moments.nodes(u[columns], self.law.marks)
            own = self.law.of_one(values, weight)
            found[:, columns] = np.where(alone[:, columns], own, found[:, columns])
        return found


class Scored(Protocol):
    """A likelihood, as far as it is asked here."""

    def log_likelihood(self, theta: Theta) -> Floats: ...


@dataclass(frozen=True)
class HolderTerm:
    """The releases of one holder, whose number of records is known."""

    likelihood: Scored
    lines: tuple[Line, ...]
    size: int
    window: SizeWindow = field(init=False)
    is_slow: bool = False

    def __post_init__(self) -> None:
        whole = SizeWindow(np.array([self.size]), 1, np.zeros(1), np.zeros(1))
        object.__setattr__(self, "window", whole)

    def rough(self, widening: float = 1.0) -> HolderTerm:
        return self

    def outer(self, n: Array | Ints, u: Array) -> Floats:
        return np.broadcast_to(self.each(n, u), (len(n), len(u)))

    def each(self, n: Array | Ints, u: Array) -> Floats:
        theta = {line.name: line.parameter(u[:, k]) for k, line in enumerate(self.lines)}
        with np.errstate(all="ignore"):
            found = np.asarray(self.likelihood.log_likelihood(theta))
        return np.where(np.isnan(found), -np.inf, found)
