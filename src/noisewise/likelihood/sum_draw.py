"""Sums given a release, drawn from their own joint law.

The last sum is drawn from its law given the release, the one before given it, and so on: each density is a sum over
frequencies times the noise (`sum_frame`), taken as straight between the points of a grid, fine where the noise is
sharp; a sum of whole numbers is drawn from its probabilities. With nearly all records at one value, the few cases that
`Frame.apart` adds point by point are drawn as such.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noisewise.likelihood.sum_frame import Axis, Frame, waves_of
from noisewise.populations.parameters import Array

__all__ = ["GRID", "draw_sums"]

GRID = 200  # points, about, at which a density is drawn from
NEAR = np.array([0.0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.4, 0.6, 0.9, 1.3, 1.8, 2.5, 3.5, 5.0, 7.0, 10.0, 14.0, 20.0, 30.0])


def draw_sums(rng: np.random.Generator, frame: Frame) -> tuple[Array, Array]:
    """Sums (K, r) given the release, and the rim's part of p."""
    axes, index = frame.axes()
    powers = frame.powers(axes, index)
    if frame.rank == 1:
        powers = powers[:, :, None]
        index = [index[0][:, :, None]]
    outer = frame.outer_weights([*index[:-1], index[-1].reshape(len(powers), -1)])
    powers = powers * outer[:, :, None]
    factors: list[Any] = [axes[k].noise(index[k]) for k in range(frame.rank)]
    whole = _product(powers, factors)
    apart = frame.apart
    total = whole.real.sum(axis=(1, 2)) + apart
    sizes = np.abs(whole)
    rim = frame.rim(sizes, index)
    sums = np.empty((len(powers), frame.rank))
    for k in range(frame.rank - 1, -1, -1):
        others = _product(powers, [factor for j, factor in enumerate(factors) if j != k])
        sums[:, k] = _draw_axis(rng, frame, k, others, axes[k], index[k])
        away = axes[k].step * (sums[:, k] - frame.windows[k].centre)
        factors[k] = np.exp(-1j * away.reshape((-1,) + (1,) * (index[k].ndim - 1)) * index[k])
    with np.errstate(divide="ignore", invalid="ignore"):
        is_apart = rng.random(len(sums)) * total < apart
    if is_apart.any():
        sums[is_apart] = _picked(rng, *frame.rows(is_apart).apart_terms())
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums, np.where(total > 0, rim / total, np.inf)


def _draw_axis(rng: np.random.Generator, frame: Frame, k: int, others: Any, axis: Axis, index: Any) -> Array:
    """One sum from its density: the terms of all frequencies (K, N, J), waves of this sum's frequency, the noise."""
    noise, window, tilt = frame.setting.noises[k], frame.windows[k], frame.tilt[:, k]
    grid = _grid(frame, k)
    away = grid - window.centre[:, None]
    terms = others if index.ndim == 3 else others.sum(axis=2)
    first, count = int(index.min()), int(np.ptp(index)) + 1
    place = (index - first + count * np.arange(len(grid)).reshape((-1,) + (1,) * (index.ndim - 1))).ravel()
    real, imaginary = (np.bincount(place, part.ravel(), count * len(grid)) for part in (terms.real, terms.imag))
    by_index = (real + 1j * imaginary).reshape(len(grid), 1, count)
    frequencies = np.broadcast_to(np.arange(first, first + count), (len(grid), count))
    waves = waves_of(-axis.step[:, None] * away, frequencies)
    density = (by_index @ waves)[:, 0, :].real
    logs = noise.log_noise(grid) - tilt[:, None] * grid
    heights = np.maximum(density, 0.0) * np.exp(logs - logs.max(axis=1, keepdims=True))
    if frame.periods[k]:
        return _drawn_point(rng, grid, heights)
    return _drawn_between(rng, grid, heights)


def _grid(frame: Frame, k: int) -> Array:
    """Points (K, P) of one sum's window: all of a lattice, else even ones and finer ones about the noise."""
    window, noise = frame.windows[k], frame.setting.noises[k]
    if frame.periods[k]:
        return window.low[:, None] + (window.length / frame.periods[k])[:, None] * np.arange(frame.periods[k])
    marks = []
    if noise.knots is not None:
        near = noise.knots.sharpest * NEAR
        marks.append(np.ravel(noise.knots.places[:, None] + np.concatenate([-near, near])))
    if noise.gauss is not None:
        marks.append(noise.gauss[0] + noise.gauss[1] * np.linspace(-8, 8, 65))
    shared = np.concatenate(marks)
    even = window.low[:, None] + window.length[:, None] * np.linspace(0, 1, 97)
    low, high = window.low[:, None], (window.low + window.length)[:, None]
    moved = np.broadcast_to(shared, (len(even), shared.size))
    if noise.gauss is not None:  # the tilt moves a Gaussian
        extra = moved[:, -65:] - (noise.gauss[1] ** 2 * frame.tilt[:, k])[:, None]
        moved = np.concatenate([moved, extra], axis=1)
    return np.sort(np.clip(np.concatenate([even, moved], axis=1), low, high), axis=1)


def _product(powers: Any, factors: list[Any]) -> Any:
    """phi^n (K, N, J) times factors of the sums, (K, N) or (K, N, J)."""
    for factor in factors:
        powers = powers * (factor if factor.ndim == 3 else factor[:, :, None])
    return powers


def _drawn_point(rng: np.random.Generator, grid: Array, heights: Array) -> Array:
    """One of the points of each row, in proportion to its height; NaN where all are 0."""
    upto = np.cumsum(heights, axis=1)
    share = rng.random((len(grid), 1)) * upto[:, -1:]
    place = np.minimum(np.sum(upto < share, axis=1), grid.shape[1] - 1)
    return np.where(upto[:, -1] > 0, grid[np.arange(len(grid)), place], np.nan)


def _drawn_between(rng: np.random.Generator, grid: Array, heights: Array) -> Array:
    """A draw for each row from the density that is straight between the points of a rising grid."""
    widths = np.diff(grid, axis=1)
    cells = 0.5 * (heights[:, 1:] + heights[:, :-1]) * widths
    upto = np.cumsum(cells, axis=1)
    share = rng.random((len(grid), 1)) * upto[:, -1:]
    rows = np.arange(len(grid))
    cell = np.minimum(np.sum(upto < share, axis=1), cells.shape[1] - 1)
    left, right = heights[rows, cell], heights[rows, cell + 1]
    u = rng.random(len(grid))
    # The cdf of a straight density on [0, 1] from height a to b, inverted.
    with np.errstate(divide="ignore", invalid="ignore"):
        bent = (np.sqrt(left**2 + u * (right**2 - left**2)) - left) / (right - left)
    at = np.where(np.abs(right - left) < 1e-9 * (right + left), u, bent)
    return np.where(upto[:, -1] > 0, grid[rows, cell] + at * widths[rows, cell], np.nan)


def _picked(rng: np.random.Generator, sums: Array, weights: Array) -> Array:
    """One of the sums (K, A, r) of each row, in proportion to its weight."""
    upto = np.cumsum(weights, axis=1)
    share = rng.random((len(upto), 1)) * upto[:, -1:]
    place = np.minimum(np.sum(upto < share, axis=1), upto.shape[1] - 1)
    return np.asarray(sums[np.arange(len(upto)), place])
