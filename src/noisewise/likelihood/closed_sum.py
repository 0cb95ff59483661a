"""One noisy sum of waiting times or of whole numbers, exactly, at every n: the transform of a record is closed.

    exponential records, a feature that is straight on one stretch and constant elsewhere      `exponential_sum`
    discrete records whose feature takes evenly spaced values, of one column or of several      `lattice_sum`
Clamping, truncation to the bounds and redaction are inside: they cut the exponential piece and make atoms. Several
releases of the same sum of the same records multiply their noise given the sum.

The cost does not grow with n, so nothing is gained by the central limit theorem; beyond LARGEST_N records rounding
would eat the digits, and no difference could be told. Parameters so extreme that two bounds hold nearly all of many
records keep the law of `fallback`; where they could be seen in a posterior `because` says so, after evaluation.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from noisewise.likelihood import exponential_sum, lattice_sum
from noisewise.likelihood.exact_sum import ExactSum
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.normal_rows import NormalRows, cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.record_points import RecordPoints
from noisewise.likelihood.sum_features import Lattice, Line
from noisewise.likelihood.sum_noise import SumNoise
from noisewise.populations.cleaned import attach
from noisewise.populations.distribution import GammaLaw
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation, Population
from noisewise.release import NoisyValue

__all__ = ["ClosedSum"]

LARGEST_N = 10**6


class ClosedSum(GroupLaw):
    """The likelihood of one or several releases of the same sum of the same n records."""

    def __init__(self, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> None:
        self.releases, self.population, self.n = releases, population, n
        self.normal = NormalSum(releases, population, n=n)
        self.feature = self.normal.row[0]
        self.points = RecordPoints.of(population, releases[0].schema, (self.feature,))
        noise = SumNoise.of(self.normal.noise, self.normal.observed)
        assert noise is not None
        self.noise = noise
        self.normal_rows = NormalRows()

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> ClosedSum | None:
        """The law, or None where it is not closed."""
        normal = NormalSum(releases, population, n=n)
        features = set(normal.row)
        if n > LARGEST_N or len(features) != 1 or len(normal.row) != len(releases):
            return None
        schema = releases[0].schema
        names = normal.row[0].columns()
        if not names or SumNoise.of(normal.noise, normal.observed) is None:
            return None
        if len(names) > 1 and RecordPoints.refusal(population, schema, normal.row[:1]) is not None:
            return None
        model = cls(releases, population, n=n)
        is_closed = model._lattice if model.points.is_discrete else model._line
        return model if is_closed is not None else None

    @property
    def cautions(self) -> tuple[str, ...]:
        return self.normal_rows.cautions(self.n)

    @property
    def is_exact(self) -> bool:
        return not self.normal_rows.matter

    @property
    def because(self) -> str:
        several = f"; {len(self.releases)} releases of it multiply their noise" if len(self.releases) > 1 else ""
        return (
            f"exact law of the sum over {self.n} records (its characteristic function is closed), "
            f"with the noise inside{several}{self.normal_rows.words()}"
        )

    def log_likelihood(self, theta: Theta) -> Array:
        with np.errstate(all="ignore"):
            result = self._on_lattice(theta) if self.points.is_discrete else self._of_pieces(theta)
        result = np.array(np.broadcast_to(result, (rows_of(theta),)))
        lost = np.flatnonzero(np.isnan(result))
        self.normal_rows.add(result, np.zeros(result.shape, bool))
        if lost.size:
            rows = {name: np.asarray(value)[lost] for name, value in theta.items()}
            result[lost] = self.fallback.log_likelihood(rows)
            if isinstance(self.fallback, NormalSum):
                self.normal_rows.add(result[lost], np.ones(lost.shape, bool))
        return result

    @cached_property
    def fallback(self) -> ExactSum | NormalSum:
        """The law of the rows that have no closed one at an affordable cost."""
        if len(self.releases) == 1 and ExactSum.refusal(self.releases[0], self.population, n=self.n) is None:
            return ExactSum(self.releases[0], self.population, n=self.n, normal_rows=self.normal_rows)
        return self.normal

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The sum given y and theta, from its own law where that is inverted, else by the central limit theorem."""
        from noisewise.likelihood.joint_sum import JointSum

        if JointSum.refusal(self.releases, self.population, n=self.n) is None:
            return JointSum(self.releases, self.population, n=self.n).draw_statistic(rng, theta)
        return self.normal.draw_statistic(rng, theta)

    def latent(self, parameters: Parameters) -> Any:
        return None

    @cached_property
    def _line(self) -> Line | None:
        law = self._law.distribution
        if not isinstance(law, GammaLaw) or law.has_shape:
            return None
        return Line.of(self.feature, self.releases[0], self.points.column)

    @cached_property
    def _lattice(self) -> Lattice | None:
        return Lattice.of(self.feature, self.releases[0].schema)

    @property
    def _law(self) -> Population:
        """The law of the one column."""
        return attach(self.population, self.releases[0].schema, self.points.columns)[self.points.column]

    def _of_pieces(self, theta: Theta) -> Array:
        assert self._line is not None
        rate = np.ravel(self._law.values(self.population.theta_of(self.points.column, theta))["rate"])
        return exponential_sum.log_likelihood(self.noise, n=self.n, **self._line.law(rate))

    def _on_lattice(self, theta: Theta) -> Array:
        assert self._lattice is not None
        if len(self.points.columns) == 1:
            own, column = self.population.theta_of(self.points.column, theta), self.points.column
            log_pmf = self._lattice.log_pmf(self._law, self.releases[0], column, self.feature, own)
        else:
            record = self.points.record(theta)
            log_pmf = self._lattice.gathered(record.values[0, :, 0], np.exp(record.logs))
        return lattice_sum.log_likelihood(
            self.noise, n=self.n, log_pmf=log_pmf, low=self._lattice.low, gap=self._lattice.gap
        )


@cautions_at.register
def _(model: ClosedSum, theta: Theta) -> tuple[str, ...]:
    return model.normal_rows.cautions_at(model.log_likelihood, theta, model.n)
