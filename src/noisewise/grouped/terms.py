"""What one set of records says of one group: the sizes the group may have, and the law of its sums at each.

    log p(published | n, u) = (counts: exact, in the window of sizes) + log p(sums | n, u)
`SumsTerm` is that of a release by group; `HolderTerm` that of a holder whose releases are of the whole data set: its
size is known, and every law of `likelihood` serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from noisewise.grouped import few_normals
from noisewise.grouped.group_sizes import SizeWindow
from noisewise.grouped.lines import Line
from noisewise.grouped.record_moments import RecordMoments, mesh
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
    def outer(self, n: Array | Ints, grids: Sequence[Floats]) -> Floats: ...
    def cells(self, n: Array | Ints, grids: Sequence[Floats], rows: Ints, columns: Ints) -> Floats: ...
    def each(self, n: Array | Ints, u: Array) -> Floats: ...


@dataclass(frozen=True)
class SumsTerm:
    """The sums of one group in a release by group."""

    window: SizeWindow
    law: SumLaw
    moments: RecordMoments
    two_values: tuple[float, float] | None = None
    squared: tuple[int, int] | None = None  # a feature and its square, where few people may stand behind little noise
    is_rough: bool = False

    @property
    def is_slow(self) -> bool:
        return self.law.is_slow or self.squared is not None

    def rough(self, widening: float = 1.0) -> SumsTerm:
        """A law that is quick and near: for finding the place."""
        return SumsTerm(self.window, self.law.rough(widening), self.moments, is_rough=True)

    def outer(self, n: Array | Ints, grids: Sequence[Floats]) -> Floats:
        """log p(sums | n, u) for all pairs of sizes (N,) and points of a grid (K in all): (N, K)."""
        mean, covariance = self.moments.on_grid(grids)
        sizes: Floats = np.asarray(n, dtype=np.float64)[:, None]
        found = self.law.log_density(sizes, mean[None], covariance[None])
        moments = mean[None], covariance[None]
        return self._branches(np.broadcast_to(sizes, found.shape), mesh(grids), moments, found)

    def cells(self, n: Array | Ints, grids: Sequence[Floats], rows: Ints, columns: Ints) -> Floats:
        """The same for some pairs alone, by the numbers of their size and of their point."""
        mean, covariance = self.moments.on_grid(grids)
        return self._each(np.asarray(n, np.float64)[rows], mesh(grids)[columns], mean[columns], covariance[columns])

    def each(self, n: Array | Ints, u: Array) -> Floats:
        """The same for sizes (K,) and points (K, p) one by one: (K,)."""
        return self._each(n, u, *self.moments.at(u))

    def _each(self, n: Array | Ints, u: Array, mean: Array, covariance: Array) -> Floats:
        sizes: Floats = np.asarray(n, dtype=np.float64)
        found = self.law.log_density(sizes, mean, covariance)
        return np.asarray(self._branches(sizes[None], u, (mean[None], covariance[None]), found[None])[0])

    def _branches(self, n: Floats, u: Array, moments: tuple[Array, Array], found: Floats) -> Floats:
        """One person, yes/no features, few normal numbers: laws of their own, not the normal one. n, found: (N, K)."""
        mean, covariance = moments
        found = np.where(np.isnan(found), -np.inf, found)
        if not self.law.seen or self.is_rough:
            return found
        if self.two_values is not None:
            low, high = self.two_values
            share = np.clip((mean[..., 0] - low) / (high - low), 0.0, 1.0)
            exact = self.law.of_yes_and_no(n, np.broadcast_to(share, n.shape), self.two_values)
            return np.where(np.isnan(exact), found, exact)
        if self.squared is not None:
            found = self._few(n, mean, covariance, found)
        alone = n == 1
        columns = np.flatnonzero(alone.any(axis=0))
        if columns.size:
            values, weight = self.moments.nodes(u[columns], self.law.marks)
            own = self.law.of_one(values, weight)
            found[:, columns] = np.where(alone[:, columns], own, found[:, columns])
        return found

    def _few(self, n: Floats, mean: Array, covariance: Array, found: Floats) -> Floats:
        """The exact law of a sum and a sum of squares where numbers are normal and their sums are not."""
        assert self.squared is not None
        pair = np.array(self.squared)
        mean, covariance = mean[..., pair], covariance[..., pair[:, None], pair]
        variance = np.broadcast_to(covariance[..., 0, 0], found.shape)
        noise = float(self.law.noise_variance[pair[1]])
        is_few = few_normals.is_normal(mean, covariance) & few_normals.is_skewed(n, variance, noise)
        if is_few.any():
            one, two = (next(seen for seen in self.law.seen if seen.feature == k) for k in pair)
            exact = few_normals.log_density(
                n[is_few],
                np.broadcast_to(mean[..., 0], found.shape)[is_few],
                variance[is_few],
                (one.value, two.value),
                (one.scale, two.scale),
                (one.is_laplace, two.is_laplace),
            )
            found[is_few] = exact + np.log(one.step * two.step)
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

    def outer(self, n: Array | Ints, grids: Sequence[Floats]) -> Floats:
        u = mesh(grids)
        return np.broadcast_to(self.each(n, u), (len(n), len(u)))

    def cells(self, n: Array | Ints, grids: Sequence[Floats], rows: Ints, columns: Ints) -> Floats:
        return self.each(np.asarray(n, np.float64)[rows], mesh(grids)[columns])

    def each(self, n: Array | Ints, u: Array) -> Floats:
        theta = {line.name: line.parameter(u[:, k]) for k, line in enumerate(self.lines)}
        with np.errstate(all="ignore"):
            found = np.asarray(self.likelihood.log_likelihood(theta))
        return np.where(np.isnan(found), -np.inf, found)
