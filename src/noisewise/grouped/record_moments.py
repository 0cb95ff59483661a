"""What one record's features are like, as a function of where the parameters are on their lines.

    u  ->  mean (d,) and covariance (d, d) of the features of one cleaned record (clamped, or refused outside bounds)

All groups share that function. It is taken from `populations.cleaned.row_moments` at a grid of u that covers every
group, and cubic splines between; where these miss the function by more than a fiftieth of what n people behind noise
could show, the function itself is asked. Nodes of the record's own law, for a group of one, and the two values of a
yes/no feature come from the same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.interpolate import CubicSpline, RectBivariateSpline

from noisewise.errors import InvalidArgument
from noisewise.grouped.lines import Line
from noisewise.populations.cleaned import attach, row_moments
from noisewise.populations.nodes import kinks_of, record_nodes
from noisewise.populations.population import AnyPopulation
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature, as_feature
from noisewise.types import Array, Bools, Floats

__all__ = ["GRIDS", "Box", "RecordMoments", "mesh", "shared_moments"]

Box = tuple[tuple[float, float], ...]  # low and high on each line
GRIDS = ((33, 25), (65, 49))
TESTED = 16  # points at which splines are compared with the function
FELT = 0.02  # of a standard deviation of the published sum of n people
PIECE = 400  # parameter values at once, so that their nodes stay in the processor's cache
LEAST = 1e-250  # a variance
OVERSHOOT = 0.1  # by which the logarithm of a variance between grid points may exceed what is at them


def mesh(grids: Sequence[Floats]) -> Floats:
    """The points (K, p) of a grid, the last line's changing first."""
    return np.stack([part.ravel() for part in np.meshgrid(*grids, indexing="ij")], axis=1)


class RecordMoments:
    """Moments of a row of features of one column, at points of the parameters' lines."""

    def __init__(
        self,
        population: AnyPopulation,
        schema: Schema,
        column: str,
        features: tuple[Feature, ...],
        lines: Sequence[Line],
    ) -> None:
        self.population, self.schema, self.column, self.features = population, schema, column, features
        self.lines = tuple(lines)
        self._splines: _Splines | None = None

    def theta(self, u: Array) -> dict[str, Floats]:
        """Parameters at points (K, p) of the lines."""
        return {line.name: line.parameter(u[:, k]) for k, line in enumerate(self.lines)}

    def at(self, u: Array) -> tuple[Floats, Floats]:
        """Mean (K, d) and covariance (K, d, d) at points (K, p)."""
        if self._splines is not None:
            mean, covariance = self._splines.at(u)
            outside = ~self._splines.covers(u)
            if outside.any():
                mean[outside], covariance[outside] = self.exactly(u[outside])
            return mean, covariance
        return self.exactly(u)

    def on_grid(self, grids: Sequence[Floats]) -> tuple[Floats, Floats]:
        """The same at all points of a grid, the last line's changing first."""
        if self._splines is not None and self._splines.holds(grids):
            return self._splines.on_grid(grids)
        return self.at(mesh(grids))

    def exactly(self, u: Array) -> tuple[Floats, Floats]:
        """The same without splines."""
        d = len(self.features)
        mean, covariance = np.zeros((len(u), d)), np.zeros((len(u), d, d))
        for start in range(0, len(u), PIECE):
            some = slice(start, start + PIECE)
            try:
                found = row_moments(self.population, self.schema, self.features, self.theta(u[some]))
            except InvalidArgument:  # none of these parameters can have left a record inside the bounds
                found = np.full(d, np.nan), np.full((d, d), np.nan)
            mean[some], covariance[some] = found
        return mean, covariance

    def over(self, box: Box, sizes: tuple[int, ...]) -> RecordMoments:
        """The same by splines over a box; itself where the function has gaps there."""
        copy = RecordMoments(self.population, self.schema, self.column, self.features, self.lines)
        copy._splines = _Splines.of(self, box, sizes) if self.features else None
        return copy

    def missed(self, boxes: Sequence[Box], people: Array, noise: Array) -> Floats:
        """The most by which splines miss at points in each box, of what the noisy sums of so many people show.

        `people` (B,) are the people, `noise` (B, d) the variances of the noise on each feature's sum.
        """
        share = np.random.default_rng(0).random((TESTED, len(self.lines)))
        ends = np.array(boxes)  # (B, p, 2)
        points = (ends[:, None, :, 0] + share * (ends[:, None, :, 1] - ends[:, None, :, 0])).reshape(
            -1, len(self.lines)
        )
        mean, covariance = self.exactly(points)
        near, spread = self.at(points)
        n, noise = np.repeat(people, TESTED)[:, None], np.repeat(noise, TESTED, axis=0)
        sd = np.sqrt(np.maximum(n * np.diagonal(covariance, axis1=1, axis2=2) + noise, LEAST))
        off = np.max(n * np.abs(near - mean) / sd, axis=1)
        wide = np.max(n[..., None] * np.abs(spread - covariance) / (sd[:, :, None] * sd[:, None, :]), axis=(1, 2))
        by_box = np.maximum(off, wide).reshape(len(boxes), TESTED)
        by_box = np.where(np.isnan(by_box).all(axis=1, keepdims=True), np.inf, by_box)  # nothing is possible there
        return np.asarray(np.max(by_box, axis=1, where=~np.isnan(by_box), initial=0.0))

    def nodes(self, u: Array, marks: Sequence[tuple[int, float]] = ()) -> tuple[Floats, Floats]:
        """The features (K, M, d) of one record at the nodes of its law, and their weights (K, M).

        `marks` are values of features, by number, around which nodes are to be close: where a noise has its cusp.
        """
        law = attach(self.population, self.schema, [self.column])[self.column]
        own = [value for k, value in marks if self.features[k] == as_feature(self.column)]
        inside: list[float] = []
        if own:
            entry = self.schema.bounded(self.column)
            inside = [value for value in own if entry.low < value < entry.high]
        kinks = (*kinks_of(self.features, self.schema, self.column), *inside)
        found = record_nodes(law, self.schema, self.column, self.theta(u), kinks)
        values = [np.broadcast_to(f.value({self.column: found.x}, self.schema), found.x.shape) for f in self.features]
        return np.stack(values, axis=-1), np.broadcast_to(found.weight, found.x.shape)

    def two_values(self) -> tuple[float, float] | None:
        """The two values of the only feature, where it takes no others (a condition, a yes/no column)."""
        if len(self.features) != 1:
            return None
        rng = np.random.default_rng(0)
        u = np.stack([line.quantile(rng.uniform(0.1, 0.9, 7)) for line in self.lines], axis=1)
        values, weight = self.nodes(u)
        taken = np.unique(values[..., 0][weight > 1e-12])
        return (float(taken[0]), float(taken[1])) if taken.size == 2 else None

    def spread(self) -> Floats:
        """Variances (K, d) of the features at parameters up to the 99th hundredth of their priors."""
        u = mesh([line.quantile(np.array([0.01, 0.5, 0.9, 0.99])) for line in self.lines])
        return np.asarray(np.diagonal(self.exactly(u)[1], axis1=1, axis2=2))

    def skewness(self, u: Array) -> tuple[Floats, Floats]:
        """Third central moment (K, d) and variance (K, d) of the features of one record."""
        values, weight = self.nodes(u)
        mean = np.einsum("km,kmd->kd", weight, values)
        centred = values - mean[:, None, :]
        third = np.einsum("km,kmd->kd", weight, centred**3)
        return third, np.einsum("km,kmd->kd", weight, centred**2)

    @property
    def box(self) -> Box | None:
        """Where its splines hold; None where there are none."""
        if self._splines is None:
            return None
        return tuple((float(grid[0]), float(grid[-1])) for grid in self._splines.grids)


def shared_moments(
    moments: RecordMoments,
    rough: RecordMoments,
    boxes: Sequence[Box],
    people: Sequence[float],
    noises: Sequence[Floats],
) -> list[RecordMoments]:
    """For each group splines that are fine enough in its box: everybody's, else those of the rest, else its own.

    `people` are the most that a group may have, `noises` the variances of the noise on its sums.
    """
    if not moments.features:
        return [moments] * len(boxes)
    found: list[RecordMoments | None] = [None] * len(boxes)

    def settle(made: RecordMoments, groups: Iterable[int]) -> None:
        mine = [g for g in groups if found[g] is None and _inside(boxes[g], made)]
        if mine:
            missed = made.missed([boxes[g] for g in mine], np.array(people)[mine], np.array(noises)[mine])
            for g, miss in zip(mine, missed, strict=True):
                found[g] = made if miss < FELT else None

    everybody = range(len(boxes))
    settle(rough, everybody)
    left = [box for box, one in zip(boxes, found, strict=True) if one is None]
    if len(left) > 1:
        union = tuple(
            (min(box[k][0] for box in left), max(box[k][1] for box in left)) for k in range(len(moments.lines))
        )
        settle(moments.over(union, GRIDS[1]), everybody)
    for g, one in enumerate(found):
        if one is None:
            settle(moments.over(boxes[g], GRIDS[0]), [g])
    return [moments if one is None else one for one in found]


def _inside(box: Box, moments: RecordMoments) -> bool:
    ends = moments.box
    return ends is not None and all(a <= low and high <= b for (low, high), (a, b) in zip(box, ends, strict=True))


class _Splines:
    """Cubic splines of means, log-variances and correlations over a box of one line or two."""

    def __init__(self, grids: list[Floats], table: Floats, d: int) -> None:
        self.grids, self.d = grids, d
        self.pairs = [(i, j) for i in range(d) for j in range(i, d)]
        # Where all records are clamped a variance falls to 0, and a cubic in its logarithm overshoots beside that edge.
        self.ceiling = table.reshape(-1, table.shape[-1]).max(axis=0)[d:] + OVERSHOOT
        if len(grids) == 1:
            self._line = CubicSpline(grids[0], table)
        else:
            self._planes = [RectBivariateSpline(*grids, table[:, :, k], s=0) for k in range(table.shape[2])]

    @classmethod
    def of(cls, moments: RecordMoments, box: Box, sizes: tuple[int, ...]) -> _Splines | None:
        grids = [
            np.linspace(low - 1e-9, high + 1e-9, 2 * sizes[0] - 1 if len(box) == 1 else size)
            for (low, high), size in zip(box, sizes, strict=False)
        ]
        mean, covariance = moments.exactly(mesh(grids))
        d = mean.shape[1]
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            return None
        variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), LEAST)
        sd = np.sqrt(variance)
        entries = [
            np.log(variance[:, i]) if i == j else covariance[:, i, j] / (sd[:, i] * sd[:, j])
            for i in range(d)
            for j in range(i, d)
        ]
        table = np.concatenate([mean, np.stack(entries, axis=1)], axis=1)
        return cls(grids, table.reshape(*(grid.size for grid in grids), -1), d)

    def covers(self, u: Array) -> Bools:
        return np.asarray(
            np.all([(u[:, k] >= grid[0]) & (u[:, k] <= grid[-1]) for k, grid in enumerate(self.grids)], axis=0)
        )

    def holds(self, grids: Sequence[Floats]) -> bool:
        """Whether a grid lies inside."""
        return all(own[0] <= grid[0] and grid[-1] <= own[-1] for own, grid in zip(self.grids, grids, strict=True))

    def at(self, u: Array) -> tuple[Floats, Floats]:
        if len(self.grids) == 1:
            return self._moments(np.asarray(self._line(u[:, 0])))
        return self._moments(np.stack([plane.ev(u[:, 0], u[:, 1]) for plane in self._planes], axis=1))

    def on_grid(self, grids: Sequence[Floats]) -> tuple[Floats, Floats]:
        if len(self.grids) == 1:
            return self._moments(np.asarray(self._line(grids[0])))
        return self._moments(np.stack([plane(*grids).ravel() for plane in self._planes], axis=1))

    def _moments(self, table: Floats) -> tuple[Floats, Floats]:
        """Means and covariances from means, log-variances and correlations."""
        covariance = np.empty((len(table), self.d, self.d))
        second = np.minimum(table[:, self.d :], self.ceiling)
        sd = [np.exp(0.5 * second[:, self.pairs.index((i, i))]) for i in range(self.d)]
        for k, (i, j) in enumerate(self.pairs):
            alike = 1.0 if i == j else np.clip(second[:, k], -1.0, 1.0)
            covariance[:, i, j] = covariance[:, j, i] = alike * sd[i] * sd[j]
        return table[:, : self.d].copy(), covariance
