"""Releases described plainly: what was asked of which records, with which noise, and what came out.

Each kind estimates its own likelihood by simulation or summation, with nothing taken to be normal:
    Sums      the noise density averaged over simulated data sets, made of two halves of the records in all pairs
    Ordered   an order statistic under smooth noise: data sets simulated, their smooth sensitivity computed pair by pair
    Answers   single records with noise of their own: integrated over the quantiles of one record
    Cells     randomized response: the probabilities of the cells of one record
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from plain_laws import bounded_records, log_mean, log_noise, record_quantiles, scipy_law, smooth_scales

Array = np.ndarray
Theta = Mapping[str, Array]
CHUNK = 1_500_000  # numbers at a time


@dataclass(frozen=True)
class PlainColumn:
    """One column: its law, known numbers, names of its unknowns, and how it is kept inside the bounds."""

    name: str
    kind: str
    known: Mapping[str, float]
    unknown: Mapping[str, str]  # parameter -> name of the unknown
    bounds: tuple[float, float] | None
    outside: str = "clamp"

    def values(self, theta: Theta, axes: int) -> dict[str, Array]:
        """Parameters that broadcast against (K, ...) records."""
        made: dict[str, Array] = {name: np.asarray(value) for name, value in self.known.items()}
        for parameter, name in self.unknown.items():
            value = np.asarray(theta[name])
            made[parameter] = value.reshape(len(value), *(1,) * axes, *value.shape[1:])
        if self.kind == "categorical" and "p" in self.known:
            made["p"] = np.asarray(self.known["p"]).reshape(1, *(1,) * axes, -1)
        return made

    def draw(self, rng: np.random.Generator, theta: Theta, shape: tuple[int, ...]) -> Array:
        return bounded_records(self.kind, rng, self.values(theta, len(shape) - 1), shape, self.bounds, self.outside)


def rows_of(theta: Theta) -> int:
    return len(next(iter(theta.values())))


def some_rows(theta: Theta, rows: slice) -> dict[str, Array]:
    return {name: value[rows] for name, value in theta.items()}


@dataclass(frozen=True)
class Noise:
    """The noise of one released number: family, scale in steps, and the step."""

    family: str
    ratio: float
    step: float


Feature = Callable[[Mapping[str, Array]], Array]


@dataclass(frozen=True)
class Sums:
    """Released sums over the same n records (means and counts are sums, too); y in steps."""

    columns: tuple[PlainColumn, ...]
    n: int
    features: tuple[Feature, ...]
    noise: tuple[Noise, ...]
    y: tuple[int, ...]

    def simulate(self, rng: np.random.Generator, theta: Theta, count: int, n: int) -> Array:
        """(features, K, count) sums of n records, in steps."""
        rows = rows_of(theta)
        if n == 0:
            return np.zeros((len(self.features), rows, count))
        records = {column.name: column.draw(rng, theta, (rows, count, n)) for column in self.columns}
        return np.stack([np.broadcast_to(f(records), (rows, count, n)).sum(axis=-1) / noise.step
                         for f, noise in zip(self.features, self.noise, strict=True)])  # fmt: skip

    def log_likelihood(self, rng: np.random.Generator, theta: Theta, halves: int) -> Array:
        """log of the average noise density over all pairs of halves, at each of K parameters."""
        half = self.n // 2
        counts = (1, min(halves**2, 2000)) if half == 0 else (halves, halves)
        size = max(1, int(CHUNK / (max(counts) * max(self.n - half, 1) + counts[0] * counts[1])))
        found = []
        for start in range(0, rows_of(theta), size):
            part = some_rows(theta, slice(start, start + size))
            first = self.simulate(rng, part, counts[0], half)
            second = self.simulate(rng, part, counts[1], self.n - half)
            total = 0.0
            for k, noise in enumerate(self.noise):
                gap = (float(self.y[k]) - first[k])[:, :, None] - second[k][:, None, :]
                total = total + log_noise(noise.family, noise.ratio, gap)
            flat = np.reshape(total, (len(first[0]), -1))
            found.append(log_mean(flat))
        return np.concatenate(found)


@dataclass(frozen=True)
class Ordered:
    """An order statistic under smooth noise, with released sums of the same records beside it, if any."""

    columns: tuple[PlainColumn, ...]
    n: int
    feature: Feature
    rank: int
    family: str
    alpha: float
    beta: float
    bounds: tuple[float, float]
    step: float
    y: int
    beside: Sums | None = None

    def statistic(self, records: Mapping[str, Array]) -> tuple[Array, Array]:
        """The order statistic and the scale of its noise, of each data set."""
        values = np.sort(self.feature(records), axis=-1)
        flat = values.reshape(-1, self.n)
        scales = np.full(len(flat), np.nan)
        fine = np.isfinite(flat).all(axis=1)
        scales[fine] = smooth_scales(flat[fine], self.rank, self.bounds, self.beta)
        floor = 2.0**10 * self.step * max(1.0, self.alpha)
        return values[..., self.rank - 1], np.maximum(scales, floor).reshape(values.shape[:-1]) / self.alpha

    def log_likelihood(self, rng: np.random.Generator, theta: Theta, halves: int) -> Array:
        count = 2 * halves
        size = max(1, int(CHUNK / (count * self.n)))
        found = []
        for start in range(0, rows_of(theta), size):
            part = some_rows(theta, slice(start, start + size))
            records = {c.name: c.draw(rng, part, (rows_of(part), count, self.n)) for c in self.columns}
            value, scale = self.statistic(records)
            total = log_noise(self.family, 1.0, (self.y * self.step - value) / scale) - np.log(scale)
            if self.beside is not None:
                for k, (f, noise) in enumerate(zip(self.beside.features, self.beside.noise, strict=True)):
                    gap = self.beside.y[k] - f(records).sum(axis=-1) / noise.step
                    total = total + log_noise(noise.family, noise.ratio, gap)
            found.append(log_mean(total))
        return np.concatenate(found)


@dataclass(frozen=True)
class Answers:
    """Local answers: each record's feature with noise of its own, integrated over the quantiles of one record."""

    column: PlainColumn
    feature: Feature
    noise: Noise
    y: tuple[int, ...]
    points: int = 250

    def log_likelihood(self, rng: np.random.Generator, theta: Theta, halves: int) -> Array:
        answers = np.array(self.y, dtype=float)
        size = max(1, int(CHUNK / self.points / 4))
        found = []
        for start in range(0, rows_of(theta), size):
            part = some_rows(theta, slice(start, start + size))
            x, mass = self._record(part)
            value = np.broadcast_to(self.feature({self.column.name: x}), x.shape) / self.noise.step
            total = np.zeros(rows_of(part))
            for answer in answers:
                total += log_mean(log_noise(self.noise.family, self.noise.ratio, answer - value) + mass)
            found.append(total)
        return np.concatenate(found)

    def _record(self, theta: Theta) -> tuple[Array, Array]:
        """Points of one record and the logarithms of their weights: quantiles, or the whole numbers of a count."""
        p, (low, high) = self.column.values(theta, 1), self.column.bounds
        if self.column.kind != "poisson":
            u = (np.arange(self.points) + 0.5) / self.points
            x = record_quantiles(self.column.kind, p, u, (low, high), self.column.outside)
            return x, np.zeros_like(x)
        law, k = scipy_law("poisson", p), np.arange(np.ceil(low), np.floor(high) + 1)[None, :]
        mass = law.pmf(k)
        if self.column.outside == "clamp":
            mass[:, :1], mass[:, -1:] = law.cdf(k[:, :1]), law.sf(k[:, -1:] - 1)
        with np.errstate(divide="ignore"):
            return np.broadcast_to(k, mass.shape), np.log(mass / mass.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Cells:
    """Randomized response: how many answered each cell; cell j of one record is [edge_(j-1), edge_j)."""

    column: PlainColumn
    edges: tuple[float, ...] | None  # None: the levels themselves
    keep: float
    y: tuple[int, ...]

    def log_likelihood(self, rng: np.random.Generator, theta: Theta, halves: int) -> Array:
        p = self.column.values(theta, 1)
        if self.column.kind == "categorical":
            cells = np.asarray(p["p"]).reshape(rows_of(theta), -1)
        elif self.edges is None:
            cells = np.concatenate([1 - p["p"], p["p"]], axis=1)
        else:
            cells = cell_masses(self.column, p, self.edges)
        others = (1 - self.keep) / (len(self.y) - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.array(self.y) * np.log(others + (self.keep - others) * cells)).sum(axis=1)


def cell_masses(column: PlainColumn, p: Mapping[str, Array], edges: Sequence[float]) -> Array:
    """The probability of each cell of one kept record, (K, cells)."""
    law, (low, high) = scipy_law(column.kind, p), column.bounds
    before = np.nextafter(np.array(edges), -np.inf)[None, :]  # P(X < edge)
    below = law.cdf(before)
    if column.outside == "refuse":
        start, stop = law.cdf(np.nextafter(low, -np.inf)), law.cdf(high)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.clip((below - start) / (stop - start), 0, 1)
    ends = np.concatenate([np.zeros((len(below), 1)), below, np.ones((len(below), 1))], axis=1)
    return np.maximum(np.diff(ends, axis=1), 0.0)
