"""Discrete laws of scipy.stats that say only their probabilities: cdf and quantiles, added up once for all.

A law of one's own (`class Own(stats.rv_discrete)` with a `_pmf`) has no formula for its cdf. scipy then adds up the
probabilities from the least value on for every x and every row of parameters, one after the other, and searches each
quantile by such sums. Here all rows are added up together,
    F(k) = sum_{j <= k} p(j),    k = a, a+1, ..,    one cumulative sum for each row,
and every x is looked up in it. Values are taken until what is left is lost in rounding. A law without a least value,
or whose tail does not end within 2^18 values, is left to scipy: None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from noisewise.types import Array, Floats

__all__ = ["DiscreteSums", "is_added_up"]

FIRST, MOST = 64, 2**18  # values
MOST_HELD = 2**22  # probabilities of all rows together
LOST = 1e-18  # of the mass: below it a further value is not felt


def is_added_up(law: object) -> bool:
    """Whether a distribution of scipy.stats is discrete and has no formula for its cdf."""
    from scipy.stats import rv_discrete

    return isinstance(law, rv_discrete) and type(law)._cdf is rv_discrete._cdf


class DiscreteSums(NamedTuple):
    """The probabilities of a law at its first values, and their sums, one row for each row of parameters."""

    values: Floats  # (V,) before the location
    location: Floats  # (K, 1)
    mass: Floats  # (K, V)
    upto: Floats  # (K, V)
    last: Floats  # (K, 1): the end of the support

    @classmethod
    def of(cls, law: Any, arguments: Mapping[str, ArrayLike], *, upto: float) -> DiscreteSums | None:
        """As far as a value (before the location), or to the end of the mass where that comes first."""
        shapes = {name: np.atleast_2d(np.asarray(value, np.float64)) for name, value in arguments.items()}
        rows = max((len(value) for value in shapes.values()), default=1)
        if any(value.shape[1] != 1 for value in shapes.values()):
            return None
        location = np.broadcast_to(shapes.pop("loc", np.zeros((1, 1))), (rows, 1))
        low, high = (np.asarray(end, np.float64) for end in law.support(**shapes))
        known = low[np.isfinite(low)]
        if known.size == 0 or not np.isfinite(low[~np.isnan(low)]).all():
            return None
        least, count = float(known.min()), FIRST
        while count <= MOST and rows * count <= MOST_HELD:
            values: Floats = least + np.arange(count, dtype=np.float64)
            mass = np.broadcast_to(law.pmf(values, **shapes), (rows, count))
            is_whole = bool(np.all(~(mass[:, count // 2 :].sum(axis=1) > LOST)))
            if values[-1] >= upto or (is_whole and _has_mass(mass)):
                return cls(values, location, mass, np.cumsum(mass, axis=1), np.broadcast_to(high, (rows, 1)))
            count *= 4
        return None

    def cdf(self, x: ArrayLike) -> Array:
        """P(X <= x) for x (M,) or (K, M)."""
        at = np.atleast_2d(np.asarray(x, np.float64)) - self.location
        place = np.clip(np.floor(at) - self.values[0], -1, self.values.size - 1).astype(np.int64)
        found = np.take_along_axis(self.upto, np.maximum(place, 0), axis=1)
        found = np.where(place < 0, 0.0, np.minimum(found, 1.0))
        return np.where(at >= self.last, np.where(np.isnan(self.upto[:, -1:]), np.nan, 1.0), found)

    def quantile(self, u: ArrayLike) -> Array:
        """The least value at which so much mass is reached, for u (M,) or (K, M)."""
        levels = np.broadcast_to(np.atleast_2d(np.asarray(u, np.float64)), (len(self.upto), np.shape(u)[-1]))
        found = np.empty(levels.shape)
        for k, (sums, own) in enumerate(zip(self.upto, levels, strict=True)):
            # The sum of all probabilities falls short of 1 by rounding: the last value that has any is the end.
            end = int(np.flatnonzero(self.mass[k] > 0)[-1]) if self.mass[k].max() > 0 else 0
            place = np.minimum(np.searchsorted(sums, own), end)
            first = int(np.argmax(self.mass[k] > 0))
            found[k] = np.where(own <= 0, self.values[first] - 1, self.values[place])
        found = np.where(levels >= 1, self.last, found)
        return np.where(np.isnan(levels) | np.isnan(self.upto[:, -1:]), np.nan, found + self.location)

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance, (K, 1)."""
        mean = (self.mass * self.values).sum(axis=1, keepdims=True)
        away = np.square(self.values - mean)
        return np.asarray(mean + self.location), (self.mass * away).sum(axis=1, keepdims=True)


def _has_mass(mass: Floats) -> bool:
    """Whether every row that has any probabilities was met by its mass: a law may begin far from its least value."""
    total = mass.sum(axis=1)
    return bool(np.all(np.isnan(total) | (total > 1 - 1e-9)))
