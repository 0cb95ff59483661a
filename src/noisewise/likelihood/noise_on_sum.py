"""All noise on one sum of a release, as a factor g(s) of its law: several releases, any mix of laws, one sum.

    log g(s) = sum over the components that see the sum:  log P(noise = published value - s).
An inversion over frequencies needs, for a window of the sum and a tilt tau, the transform
    G(t) = int_window g(s) e^{-tau s} e^{-it (s - c)} ds         (a sum over whole numbers where the sum is one)
and takes it closed for Laplace noise (straight stretches between knots), closed over the whole line for Gaussian noise,
and by Gauss-Legendre panels cut at the knots where both meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from noisewise.likelihood.normal_laplaces import Knots
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.quadrature import on_panels
from noisewise.populations.parameters import Array

__all__ = ["NoiseOnSum", "Window"]

LOG_2PI = float(np.log(2 * np.pi))
ORDER = 20
REACH = 9.5  # sds of Gaussian noise beyond which nothing is seen


class Window(NamedTuple):
    """Where one sum is looked for: for each row its low end, its length, and the centre phases are taken about (K,)."""

    low: Array
    length: Array
    centre: Array


@dataclass(frozen=True, eq=False)
class NoiseOnSum:
    """g(s) of one sum: knots of its Laplace noises, the product of its Gaussian ones, and its lattice if it has one."""

    knots: Knots | None
    gauss: tuple[float, float] | None  # centre and sd
    log_height: float  # of all noises at their knots and centres
    components: tuple[tuple[Any, int, int, float, float], ...]  # law, index in it, value, constant, loading
    gap: float | None  # of a sum that takes evenly spaced values

    @classmethod
    def of(cls, model: NormalSum, which: int, gap: float | None) -> NoiseOnSum:
        """The noise on one of the independent sums behind a model's components, each of which sees it alone."""
        ties, n = model.ties, model.n
        chosen = np.flatnonzero(ties.sum_of == which)
        slope = ties.loading[chosen, which]
        places = (model.observed[chosen] - n * ties.constant[chosen]) / slope
        scale = model.noise.scale[chosen]
        is_laplace = model.noise.is_laplace[chosen]
        height = float(np.log(model.noise.step[chosen]).sum() - np.log(2 * scale[is_laplace]).sum())
        knots = Knots.of(places[is_laplace], (scale / np.abs(slope))[is_laplace]) if is_laplace.any() else None
        gauss = None
        if not is_laplace.all():
            y, sd = places[~is_laplace], (scale / np.abs(slope))[~is_laplace]
            precision = 1 / np.square(sd)
            centre = float(precision @ y / precision.sum())
            height -= 0.5 * float(precision @ np.square(y - centre))
            height -= float(np.sum(np.log(scale[~is_laplace]) + 0.5 * LOG_2PI))
            gauss = (centre, float(precision.sum() ** -0.5))
        entries = [(release, k) for release in model.releases for k in range(len(release.value))]
        components = tuple(
            (entries[j][0].law, entries[j][1], int(entries[j][0].value[entries[j][1]]), n * float(ties.constant[j]), a)
            for j, a in zip(chosen, slope, strict=True)
        )
        return cls(knots, gauss, height, components, gap)

    @property
    def is_gaussian(self) -> bool:
        return self.knots is None

    @property
    def pull(self) -> tuple[float, float, bool]:
        """Where the noises are highest together, a scale, and whether it is Laplace's: enough to choose a tilt by."""
        if self.knots is None:
            assert self.gauss is not None
            return (*self.gauss, False)
        if self.gauss is None:
            top = int(np.argmax(self.knots.values))
            return float(self.knots.places[top]), self.knots.sharpest, True
        centre, sd = self.gauss
        ends = np.concatenate([[-np.inf], self.knots.places, [np.inf]])
        inner = np.clip(centre + sd * sd * self.knots.slopes, ends[:-1], ends[1:])
        tried = np.concatenate([self.knots.places, inner])
        return float(tried[np.argmax(self.log_noise(tried))]), sd, False

    @property
    def finest(self) -> float:
        """The scale of the sharpest noise."""
        sharp = [] if self.knots is None else [self.knots.sharpest]
        return min([*sharp, *([] if self.gauss is None else [self.gauss[1]])])

    def log_noise(self, s: Array) -> Array:
        """log g(s), the noises taken as continuous; on a lattice as the whole steps they are."""
        s = np.asarray(s, dtype=float)
        if self.gap is not None:
            total = np.zeros(s.shape)
            for law, index, value, constant, slope in self.components:
                total = total + law.log_pmf(value - (constant + slope * s) / law.step[index], component=index)
            return total
        total = np.full(s.shape, self.log_height)
        if self.knots is not None:
            total = total + self.knots.log_noise(s)
        if self.gauss is not None:
            total = total - 0.5 * np.square((s - self.gauss[0]) / self.gauss[1])
        return np.asarray(total)

    def whole_line(self, tilt: Array, centre: Array, t: Array) -> tuple[Array, Any]:
        """Gaussian noise alone: log of the unit, and G (K, T) over the whole line at t (K, T)."""
        assert self.gauss is not None
        y, sd = self.gauss
        unit = self.log_height + np.log(sd) + 0.5 * LOG_2PI - tilt * y + 0.5 * np.square(sd * tilt)
        angle = t * (centre - y + sd * sd * tilt)[:, None]
        return unit, np.exp(-0.5 * np.square(sd * t) + 1j * angle)

    def on_window(self, tilt: Array, window: Window, t: Array) -> tuple[Array, Any]:
        """The same over a window, at t (K, T)."""
        if self.gauss is not None:
            return self._by_panels(tilt, window, t)
        assert self.knots is not None
        low, high = window.low, window.low + window.length
        inner = np.clip(self.knots.places, low[:, None], high[:, None])
        ends = np.concatenate([low[:, None], inner, high[:, None]], axis=1)
        logs = self.log_noise(ends) - tilt[:, None] * ends
        unit = logs.max(axis=1)
        heights = np.exp(logs - unit[:, None])
        waves = heights[:, :, None] * np.exp(-1j * t[:, None, :] * (ends - window.centre[:, None])[:, :, None])
        slopes = self.knots.slopes - tilt[:, None]
        total = np.zeros(t.shape, complex)
        zero = t == 0
        for j in range(slopes.shape[1]):
            with np.errstate(divide="ignore", invalid="ignore"):
                piece = (waves[:, j + 1] - waves[:, j]) / (slopes[:, j, None] - 1j * t)
                steep = (heights[:, j + 1] - heights[:, j]) / slopes[:, j]
            width = ends[:, j + 1] - ends[:, j]
            flat = np.sqrt(heights[:, j] * heights[:, j + 1]) * width
            area = np.where(np.abs(slopes[:, j] * width) < 1e-4, flat, steep)
            total += np.where(zero, area[:, None], piece)
        return unit, total

    def on_lattice(self, tilt: Array, points: Array) -> tuple[Array, Array]:
        """log of the unit, and g(s) e^{-tau s} in it, at sums s (K, W)."""
        logs = self.log_noise(points) - tilt[:, None] * points
        unit = logs.max(axis=1)
        return unit, np.exp(logs - unit[:, None])

    def _by_panels(self, tilt: Array, window: Window, t: Array) -> tuple[Array, Any]:
        assert self.gauss is not None
        y, sd = self.gauss
        low, high = window.low, window.low + window.length
        # The tilt moves a Gaussian by sd^2 tau, each straight stretch by sd^2 times its slope.
        slopes = np.array([0.0]) if self.knots is None else self.knots.slopes
        peaks = y + sd * sd * (slopes[None, :] - tilt[:, None])
        marks = np.concatenate([peaks + m * sd for m in (-REACH, -5.0, -2.0, 0.0, 2.0, 5.0, REACH)], axis=1)
        fixed = [] if self.knots is None else [np.broadcast_to(self.knots.places, (len(low), self.knots.places.size))]
        even = low[:, None] + window.length[:, None] * np.linspace(0, 1, 5)
        edges = np.sort(np.clip(np.concatenate([marks, even, *fixed], axis=1), low[:, None], high[:, None]), axis=1)
        nodes, weights = (part.reshape(len(low), -1) for part in on_panels(edges, ORDER))
        logs = self.log_noise(nodes) - tilt[:, None] * nodes
        unit = logs.max(axis=1)
        heights = weights * np.exp(logs - unit[:, None])
        waves = np.exp(-1j * t[:, :, None] * (nodes - window.centre[:, None])[:, None, :])
        return unit, (waves @ heights[:, :, None])[:, :, 0]
