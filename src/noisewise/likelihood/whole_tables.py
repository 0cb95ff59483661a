"""Any sums of records that take few values: every table of how many take which is summed over.

A record of m kinds (the levels of a column, values that no released feature tells apart, or the stretches of a
continuous column between the ends of all conditions) makes n records a table s = (s_1 .. s_m), and every sum, mean,
count or histogram of them is a linear function of it. So whatever was released,
    p(y | theta) = sum_s n!/(s_1! .. s_m!) prod_i p_i(theta)^{s_i} prod_j noise_j(y_j - sum_i s_i f_j(i)),
and the part that theta does not change is made once. There are C(n + m - 1, m - 1) tables: 5151 of 100 records of three
levels. It serves where releases of one table are tied to each other, as a histogram and a count of one of its cells,
where conditions overlap, and where whole numbers show through narrow noise; promise: p to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from noisewise.laws import Form
from noisewise.likelihood.bank import log_noise_at
from noisewise.likelihood.model import GroupLaw, numerical_score, scalar_supports
from noisewise.likelihood.normal_sum import row_of
from noisewise.likelihood.record_points import RecordPoints
from noisewise.likelihood.scrambles import log_sum
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue

__all__ = ["WholeTables"]

MOST_KINDS, MOST_TABLES = 5, 20_000
PER_BATCH = 2**21  # numbers held at once
NEVER = -1e6  # the logarithm of a chance of zero, times a count of none


@dataclass(frozen=True, slots=True, eq=False)
class WholeTables(GroupLaw):
    """Additive releases of the same n records, each of few kinds."""

    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int
    points: RecordPoints
    kinds: Array  # (m, d): the features of a record of each kind
    tables: NDArray[np.int64]  # (T, m)
    log_noise: Array  # (T,): with the number of ways to such a table
    is_exact: ClassVar[bool] = True
    cautions: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> WholeTables | None:
        """None where records are of too many kinds, or the tables too many."""
        schema = releases[0].schema
        row = tuple(feature for release in releases for feature in row_of(release))
        if RecordPoints.refusal(population, schema, row) is not None:
            return None
        points = RecordPoints.of(population, schema, row)
        if not all(release.law.form is Form.NUMBER for release in releases):
            return None
        if points.is_discrete:
            kinds = np.unique(points.values(points.places), axis=0)
        elif points.stretches is not None:
            kinds = np.unique(points.stretches.values, axis=0)
        else:
            return None
        m = len(kinds)
        if not 2 <= m <= MOST_KINDS or math.comb(n + m - 1, m - 1) > MOST_TABLES:
            return None
        tables = _tables(n, m)
        ways = gammaln(n + 1) - gammaln(tables + 1.0).sum(axis=1)
        return cls(releases, population, n, points, kinds, tables, ways + log_noise_at(releases, tables @ kinds))

    @property
    def because(self) -> str:
        return (
            f"exact: {self.n} records of {len(self.kinds)} kinds make {len(self.tables)} tables, and every one is "
            "summed over"
        )

    def probabilities(self, theta: Theta) -> Array:
        """The chance of each kind, (K, m)."""
        if self.points.stretches is not None:
            weights, values = self.points.stretch_chances(theta), self.points.stretches.values[None]
        else:
            record = self.points.record(theta)
            weights, values = np.exp(record.logs), record.values
        found = np.empty((rows_of(theta), len(self.kinds)))
        for i, kind in enumerate(self.kinds):
            found[:, i] = np.sum(weights * np.isclose(values, kind, rtol=1e-9, atol=1e-12).all(axis=2), axis=1)
        return found

    def log_likelihood(self, theta: Theta) -> Array:
        p = self.probabilities(theta)
        each = max(1, PER_BATCH // len(self.tables))
        return np.concatenate([log_sum(self._logs(p[start : start + each])) for start in range(0, len(p), each)])

    def _logs(self, p: Array) -> Array:
        """log p(y, table | theta), (K, T)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(p), NEVER) @ self.tables.T + self.log_noise)

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The statistics of a table drawn in proportion to its chance given y and theta."""
        p = self.probabilities(theta)
        chosen = [int(np.argmax(self._logs(one[None])[0] + rng.gumbel(size=len(self.tables)))) for one in p]
        divisors = np.concatenate([np.full(len(release.value), release.divisor) for release in self.releases])
        return np.asarray(self.tables[chosen] @ self.kinds / divisors)


def _tables(n: int, m: int) -> NDArray[np.int64]:
    """All ways to write n as an ordered sum of m counts, (T, m)."""
    if m == 1:
        return np.array([[n]], np.int64)
    parts = [
        np.column_stack([np.full(math.comb(n - s + m - 2, m - 2), s), _tables(n - s, m - 1)]) for s in range(n + 1)
    ]
    return np.concatenate(parts)
