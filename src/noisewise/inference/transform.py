"""Parameters on the real line: where samplers walk.

Each unknown parameter lives on an open interval or a simplex (`populations.parameters.Support`). It is walked on as

    real line      u = theta                       half line     u = log(theta - low)
    interval       u = logit((theta - low)/(high - low))
    simplex of m   u_j = log(p_j / p_m), j < m     (additive log-ratio)
    correlations   artanh of the canonical partial correlations (`populations.correlation`)

and the density gains log |d theta / d u|. A walk on log theta without it targets another posterior.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from noisewise.populations.correlation import entries_of, factor_of, log_slope, partials_of
from noisewise.populations.parameters import Array, Support, Theta


@dataclass(frozen=True, slots=True)
class Transform:
    """The map between positions (K, size) on the real line and parameters, with its log-Jacobian."""

    supports: Mapping[str, Support]
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)  # where each parameter's coordinates end

    def __post_init__(self) -> None:
        ends = itertools.accumulate(support.unknowns for support in self.supports.values())
        object.__setattr__(self, "_ends", tuple(ends))

    @property
    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def is_straight(self) -> bool:
        """Whether position and parameters are the same numbers."""
        return all(s.size is None and np.isinf(s.low) and np.isinf(s.high) for s in self.supports.values())

    def parameters(self, position: Array) -> dict[str, Array]:
        """theta at each row of a position."""
        theta, start = {}, 0
        for (name, support), stop in zip(self.supports.items(), self._ends, strict=True):
            theta[name] = _forward(position[:, start:stop], support)
            start = stop
        return theta

    def position(self, theta: Theta) -> Array:
        """The position of each row of theta."""
        return np.concatenate([_backward(np.asarray(theta[n]), s) for n, s in self.supports.items()], axis=1)

    def is_inside(self, theta: Theta) -> Array:
        """True for rows that lie strictly inside every support, as far as doubles can tell."""
        inside = [
            ((theta[name] > support.low) & (theta[name] < support.high)).reshape(len(theta[name]), -1).all(axis=1)
            for name, support in self.supports.items()
        ]
        return np.asarray(np.all(inside, axis=0))

    def log_jacobian(self, position: Array) -> Array:
        """log |d theta / d position| at each row."""
        total: Array = np.zeros(len(position))
        start = 0
        for support, stop in zip(self.supports.values(), self._ends, strict=True):
            total = total + _log_jacobian(position[:, start:stop], support)
            start = stop
        return total


def _forward(u: Array, support: Support) -> Array:
    if support.order:
        return entries_of(factor_of(np.tanh(u), support.order))
    if support.size is not None:
        return np.asarray(special.softmax(np.concatenate([u, np.zeros((len(u), 1))], axis=1), axis=1))
    u = u[:, 0]
    if np.isfinite(support.low) and np.isfinite(support.high):
        return np.asarray(support.low + (support.high - support.low) * special.expit(u))
    with np.errstate(over="ignore"):
        if np.isfinite(support.low):
            return np.asarray(support.low + np.exp(u))
        if np.isfinite(support.high):
            return np.asarray(support.high - np.exp(u))
    return u


def _backward(theta: Array, support: Support) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        if support.order:
            return np.asarray(np.arctanh(partials_of(theta, support.order)))
        if support.size is not None:
            return np.asarray(np.log(theta[:, :-1]) - np.log(theta[:, -1:]))
        if np.isfinite(support.low) and np.isfinite(support.high):
            return np.asarray(special.logit((theta - support.low) / (support.high - support.low)))[:, None]
        if np.isfinite(support.low):
            return np.asarray(np.log(theta - support.low))[:, None]
        if np.isfinite(support.high):
            return np.asarray(np.log(support.high - theta))[:, None]
    return np.asarray(theta, dtype=float)[:, None]


def _log_jacobian(u: Array, support: Support) -> Array:
    if support.order:
        return log_slope(u, support.order)
    if support.size is not None:
        padded = np.concatenate([u, np.zeros((len(u), 1))], axis=1)
        return np.asarray(special.log_softmax(padded, axis=1).sum(axis=1))
    u = u[:, 0]
    if np.isfinite(support.low) and np.isfinite(support.high):
        return np.asarray(np.log(support.high - support.low) + special.log_expit(u) + special.log_expit(-u))
    return u if np.isfinite(support.low) or np.isfinite(support.high) else np.zeros_like(u)
