"""One record's features under an exponential tilt, and the tilt that a noisy release asks for.

A record is weighted points (`populations.nodes`), so with features f (r of them) and tilt tau
    K(tau) = log E e^{tau . f},      K' the mean and K'' the covariance of f under weights w e^{tau . f - K}.
The tilt that puts n records where the release is minimises the convex function
    n K(tau) - tau . y + sum_k K_V(tau_k),     K_V = -log(1 - b^2 tau^2) for Laplace noise, s^2 tau^2/2 for Gaussian,
by damped Newton steps: K_V is strictly convex and keeps |tau| below 1/b, so neither a singular covariance nor a release
beyond all possible sums stops them. Any tilt is valid; the best one only makes what follows accurate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noisewise.populations.parameters import Array

__all__ = ["Pull", "Record", "Tilted", "best_tilt"]

MOST_STEPS = 60
CLOSE = 1e-8  # Newton's decrement, squared
INSIDE = 0.9  # of the way to the pole of the noise's transform


class Tilted(NamedTuple):
    """The tilted record: log moment (K,), weights (K, M), mean (K, r), covariance (K, r, r)."""

    log_moment: Array
    weights: Array
    mean: Array
    covariance: Array


class Record(NamedTuple):
    """Weighted points of one record: log weights (K, M), and features (K, M, r)."""

    logs: Array
    values: Array

    def rows(self, chosen: Any) -> Record:
        return Record(self.logs[chosen], self.values[chosen])

    def tilted(self, tilt: Array) -> Tilted:
        exponent = self.logs + np.einsum("kmr,kr->km", self.values, tilt)
        top = exponent.max(axis=1, keepdims=True)
        weights = np.exp(exponent - top)
        total = weights.sum(axis=1, keepdims=True)
        weights /= total
        mean = np.einsum("km,kmr->kr", weights, self.values)
        centred = self.values - mean[:, None, :]
        covariance = (weights[:, :, None] * centred).swapaxes(1, 2) @ centred
        return Tilted((top + np.log(total))[:, 0], weights, mean, covariance)

    def log_moment(self, tilt: Array) -> Array:
        exponent = self.logs + np.einsum("kmr,kr->km", self.values, tilt)
        top = exponent.max(axis=1, keepdims=True)
        return np.asarray((top + np.log(np.exp(exponent - top).sum(axis=1, keepdims=True)))[:, 0])


class Pull(NamedTuple):
    """How the noise of each sum pulls: where the release would put it (r,), the noise's scale, and its kind."""

    place: Array
    scale: Array
    is_laplace: Array

    def log_moment(self, tilt: Array) -> Array:
        """K_V, summed over sums; inf at and beyond a pole."""
        v = np.square(self.scale * tilt)
        with np.errstate(divide="ignore", invalid="ignore"):
            laplace = np.where(v < 1, -np.log1p(-np.minimum(v, 1.0)), np.inf)
        return np.asarray(np.where(self.is_laplace, laplace, 0.5 * v).sum(axis=1))

    def slopes(self, tilt: Array) -> tuple[Array, Array]:
        """K_V' and K_V'', (K, r)."""
        square = np.square(self.scale)
        left = np.where(self.is_laplace, 1 - square * np.square(tilt), 1.0)
        first = np.where(self.is_laplace, 2 * square * tilt / left, square * tilt)
        second = np.where(self.is_laplace, 2 * square * (2 - left) / np.square(left), square)
        return first, second


def best_tilt(record: Record, n: int, pull: Pull) -> Array:
    """tau (K, r), to a small part of its own uncertainty."""
    tilt = np.zeros((len(record.logs), record.values.shape[2]))
    value = n * record.log_moment(tilt) - tilt @ pull.place + pull.log_moment(tilt)
    active = np.arange(len(tilt))
    for _ in range(MOST_STEPS):
        own = record.rows(active)
        at = tilt[active]
        here = own.tilted(at)
        first, second = pull.slopes(at)
        gradient = n * here.mean - pull.place + first
        curvature = n * here.covariance + np.einsum("kr,rs->krs", second, np.eye(at.shape[1]))
        # In units of the curvature's diagonal: sums of very different size cost no digits.
        size = 1 / np.sqrt(np.diagonal(curvature, axis1=1, axis2=2))
        scaled = curvature * size[:, :, None] * size[:, None, :]
        step = -size * np.linalg.solve(scaled, (size * gradient)[:, :, None])[:, :, 0]
        decrement = -np.sum(gradient * step, axis=1)
        length = np.minimum(1.0, _room(at, step, pull))
        for _ in range(30):
            moved = at + length[:, None] * step
            reached = n * own.log_moment(moved) - moved @ pull.place + pull.log_moment(moved)
            is_short = ~(reached <= value[active] - 1e-4 * length * decrement + 1e-12 * np.abs(value[active]))
            if not is_short.any():
                break
            length = np.where(is_short, 0.5 * length, length)
        is_better = reached <= value[active]
        tilt[active] = np.where(is_better[:, None], moved, at)
        value[active] = np.where(is_better, reached, value[active])
        active = active[(decrement > CLOSE) & is_better & np.isfinite(decrement)]
        if active.size == 0:
            break
    return tilt


def _room(tilt: Array, step: Array, pull: Pull) -> Array:
    """How far a step may go before it nears a pole of Laplace noise, (K,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        to_pole = np.where(step > 0, 1 / pull.scale - tilt, -1 / pull.scale - tilt) / step
    room = np.where(pull.is_laplace & (step != 0), INSIDE * to_pole, np.inf)
    return np.asarray(room.min(axis=1))
