"""One column of simulated records by itself, for answers: shares, quantiles and moments by the bank.

It is what `populations.distribution.Distribution` asks for, with a density for whole numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import Unsupported
from noisewise.populations.averages import N_BATCHES
from noisewise.populations.drawing import Point
from noisewise.populations.parameters import Array, Support, rows_of
from noisewise.types import Floats, Values

__all__ = ["SimulatedColumn"]

FEW = 7  # places up to which records are counted rather than sorted


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedColumn:
    """The law of one column, by the records of the bank."""

    column: str
    domains: Mapping[str, Support]  # of the parameters, as they were given
    is_discrete: bool
    batch: Callable[[Point, int], Mapping[str, Floats]]  # the records of one batch at one theta
    name: ClassVar[str] = "simulated"
    standard: ClassVar[tuple[Any, ...]] = ()
    scipy_law: ClassVar[None] = None
    in_unit: ClassVar[tuple[str, ...]] = ()

    def _bank(self, p: Values) -> Iterator[Floats]:
        """The bank's values of the column at each row of the parameters."""
        vectors = {name for name, domain in self.domains.items() if domain.size is not None}
        given = {name: np.asarray(value) if name in vectors else np.ravel(value) for name, value in p.items()}
        for k in range(rows_of(given)):
            point = {name: value[min(k, len(value) - 1)] for name, value in given.items()}
            point = {name: value if name in vectors else float(value) for name, value in point.items()}
            batches = [self.batch(point, b)[self.column] for b in range(N_BATCHES)]
            yield np.concatenate(batches)

    def _each(self, x: ArrayLike, p: Values, read: Callable[[Floats, Floats], Floats]) -> Array:
        """A function of the values and of x (M,) or (K, M) at each row: (K, M)."""
        at = np.atleast_2d(np.asarray(x, np.float64))
        return np.stack([read(values, at[min(k, len(at) - 1)]) for k, values in enumerate(self._bank(p))])

    def log_density(self, x: ArrayLike, p: Values) -> Array:
        """The logarithm of the share of records that are x, for whole numbers; a density is not known."""
        if not self.is_discrete:
            raise Unsupported(
                f"{self.column} is known by draws alone, which have no density; ask for shares, quantiles or moments."
            )

        def read(values: Floats, at: Floats) -> Floats:
            return np.array([np.count_nonzero(values == one) for one in at]) / values.size

        with np.errstate(divide="ignore"):
            return np.log(self._each(x, p, read))

    def cdf(self, x: ArrayLike, p: Values) -> Array:
        def read(values: Floats, at: Floats) -> Floats:
            if at.size > FEW:
                return np.searchsorted(np.sort(values), at, side="right") / values.size
            return np.array([np.count_nonzero(values <= one) for one in at]) / values.size

        return self._each(x, p, read)

    def survival(self, x: ArrayLike, p: Values) -> Array:
        return np.asarray(1 - self.cdf(x, p))

    def quantile(self, u: ArrayLike, p: Values) -> Array:
        def read(values: Floats, at: Floats) -> Floats:
            ranked = np.sort(values)
            if self.is_discrete:
                return ranked[np.clip(np.ceil(at * values.size).astype(np.int64) - 1, 0, values.size - 1)]
            return np.interp(at * (values.size - 1), np.arange(values.size), ranked)

        return self._each(u, p, read)

    def upper_quantile(self, v: ArrayLike, p: Values) -> Array:
        return self.quantile(1 - np.asarray(v, np.float64), p)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return self.quantile(rng.random(shape), p)

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return None

    def moments(self, p: Values) -> tuple[Array, Array]:
        found = [(values.mean(), values.var()) for values in self._bank(p)]
        return np.array([[mean] for mean, _ in found]), np.array([[variance] for _, variance in found])
