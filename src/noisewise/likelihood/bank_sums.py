"""Sums of polynomials over a bank of data sets, compiled: what `bank` computes for any release, for the commonest fast.

Records of a location-scale law are x = clip(a(theta) + c(theta) z, low, high) with base draws z that no theta changes.
If every released component sums a polynomial of x,
    sum_i f_j(x_i) = sum_k c_jk P_k,      P_k = sum_i x_i^k,
so one pass over the records gives the power sums, and another over the data sets the noise densities, averaged over
each scramble. The noise is continuous: the steps of a sum's lattice are far below its scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.compilation import njit
from noisewise.laws import Form
from noisewise.likelihood.any_noise import is_any_noise
from noisewise.likelihood.normal_sum import Noise, row_of
from noisewise.likelihood.scrambles import N_SCRAMBLES
from noisewise.populations.cleaned import attach
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Mean, Sum
from noisewise.statistics.feature import Feature
from noisewise.types import Bools, Floats

__all__ = ["PolynomialSums"]

DEGREE = 4
EXACT = 1e-12
BLOCK = 512
FAINT = 45.0


@dataclass(frozen=True, slots=True, eq=False)
class PolynomialSums:
    """Releases that sum polynomials of one location-scale column, over fixed base draws."""

    population: Any  # of the column
    column: str
    z: Array  # (n, B)
    bounds: tuple[float, float]
    coefficients: Array  # (d, DEGREE + 1), rising powers
    observed: Array
    noise: Noise

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, base: Array) -> PolynomialSums | None:
        """For base draws (B, n) of the one column; None where the releases are not of this form."""
        schema = releases[0].schema
        if schema.outside != "clamp" or not all(
            isinstance(release.statistic, Sum | Mean) and release.law.form is Form.NUMBER for release in releases
        ):
            return None
        if is_any_noise(releases):
            return None
        row = tuple(feature for release in releases for feature in row_of(release))
        names = frozenset[str]().union(*(feature.columns() for feature in row))
        if len(names) != 1 or not isinstance(schema.column(column := next(iter(names))), Bounded):
            return None
        one = attach(population, schema, names)[column]
        theta = population.theta_of(column, population.sample_prior(np.random.default_rng(0), 1))
        place = one.distribution.location_scale(one.values(theta))
        found = [polynomial(feature, schema, column) for feature in row]
        if one.is_discrete or place is None or any(line is None for line in found):
            return None
        z = (one.quantile(base.T.ravel(), theta).reshape(base.T.shape) - place[0]) / place[1]
        noise, entry = Noise.of(releases), schema.bounded(column)
        observed = np.concatenate([np.array(release.value, dtype=float) for release in releases]) * noise.step
        coefficients = np.array([line for line in found if line is not None])
        return cls(one, column, z, (float(entry.low), float(entry.high)), coefficients, observed, noise)

    def scramble_logs(self, theta: Theta) -> Array:
        """log of the mean noise density of each scramble, (K, N_SCRAMBLES)."""
        both = self.population.distribution.location_scale(self.population.values(theta))
        assert both is not None  # `of` saw to it
        place, scale = (np.array(np.broadcast_to(np.ravel(v), (rows_of(theta),)), dtype=float) for v in both)
        found = _scramble_logs(
            self.z,
            place,
            scale,
            *self.bounds,
            self.coefficients,
            self.observed,
            self.noise.is_laplace,
            self.noise.scale,
        )
        log_height = np.where(self.noise.is_laplace, np.log(2.0), 0.5 * np.log(2 * np.pi)) + np.log(self.noise.scale)
        return np.asarray(found + np.sum(np.log(self.noise.step) - log_height))


def polynomial(feature: Feature, schema: Schema, column: str) -> Array | None:
    """The coefficients of a feature that is a polynomial on the whole of its column; else None."""
    entry = schema.bounded(column)
    middle, half = 0.5 * (entry.low + entry.high), 0.5 * (entry.high - entry.low)

    def values(unit: Array) -> Array:
        return np.array(np.broadcast_to(feature.value({column: middle + half * unit}, schema), unit.shape))

    nodes = np.polynomial.chebyshev.chebpts2(DEGREE + 1)
    line = np.polynomial.Polynomial.fit(nodes, values(nodes), DEGREE, domain=[-1, 1])
    seen = np.linspace(-1, 1, 257)
    at = values(seen)
    if np.max(np.abs(line(seen) - at)) > EXACT * np.max(np.abs(at)):
        return None
    inner = np.polynomial.Polynomial([-middle / half, 1 / half])
    found = np.zeros(DEGREE + 1)
    coefficients = line(inner).coef
    found[: coefficients.size] = coefficients
    # What fitting leaves at powers that are not there.
    largest = np.max(np.abs(found) * np.maximum(abs(entry.low), abs(entry.high)) ** np.arange(DEGREE + 1))
    reach = np.maximum(abs(entry.low), abs(entry.high)) ** np.arange(DEGREE + 1)
    found[np.abs(found) * reach < 1e-11 * largest] = 0.0
    return found


@njit(cache=True)
def _scramble_logs(
    z: Floats,
    place: Floats,
    scale: Floats,
    low: float,
    high: float,
    coefficients: Floats,
    observed: Floats,
    is_laplace: Bools,
    widths: Floats,
) -> Floats:
    n, size = z.shape
    per = size // N_SCRAMBLES
    degree = 0
    for k in range(coefficients.shape[1]):
        for j in range(len(coefficients)):
            if coefficients[j, k] != 0.0:
                degree = max(degree, k)
    powers = np.empty((degree + 1, size))
    found = np.full((place.size, N_SCRAMBLES), np.nan)
    logs, residual = np.empty(size), np.empty(size)
    for row in range(place.size):
        a, c = place[row], scale[row]
        if not (np.isfinite(a) and np.isfinite(c)):
            continue
        _power_sums(z, a, c, low, high, powers)
        logs[:] = 0.0
        for j in range(observed.size):
            residual[:] = (observed[j] - n * coefficients[j, 0]) / widths[j]
            for k in range(1, degree + 1):
                _add(residual, -coefficients[j, k] / widths[j], powers[k])
            _add_noise(logs, residual, is_laplace[j])
        for r in range(N_SCRAMBLES):
            found[row, r] = _log_mean(logs[r * per : (r + 1) * per])
    return found


@njit(cache=True)
def _power_sums(z: Floats, a: float, c: float, low: float, high: float, powers: Floats) -> None:
    """powers[k] = sum_i x_i^k over the records x_i = clip(a + c z_i, low, high) of each data set."""
    powers[:] = 0.0
    highest = len(powers) - 1
    for start in range(0, z.shape[1], BLOCK):  # so that the sums of a block stay near the processor
        stop = min(start + BLOCK, z.shape[1])
        first, second = powers[1, start:stop], powers[min(2, highest), start:stop]
        third, fourth = powers[min(3, highest), start:stop], powers[highest, start:stop]
        for i in range(len(z)):
            line = z[i, start:stop]
            for b in range(stop - start):
                x = a + c * line[b]
                x = low if x < low else x
                x = high if x > high else x
                first[b] += x
                if highest > 1:
                    second[b] += x * x
                if highest > 2:
                    third[b] += x * x * x
                if highest > 3:
                    fourth[b] += x * x * x * x


@njit(cache=True)
def _add(total: Floats, factor: float, values: Floats) -> None:
    for b in range(total.size):
        total[b] += factor * values[b]


@njit(cache=True)
def _add_noise(logs: Floats, residual: Floats, is_laplace: bool) -> None:
    if is_laplace:
        for b in range(logs.size):
            logs[b] -= abs(residual[b])
    else:
        for b in range(logs.size):
            logs[b] -= 0.5 * residual[b] * residual[b]


@njit(cache=True)
def _log_mean(logs: Floats) -> float:
    top = logs.max()
    total = 0.0
    for b in range(logs.size):
        if logs[b] > top - FAINT:
            total += math.exp(logs[b] - top)
    return float(top + math.log(total / logs.size))
