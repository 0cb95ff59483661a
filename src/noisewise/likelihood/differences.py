"""Derivatives in a parameter where no closed form is at hand: a central difference of fourth order.

    f'(t) = (8 (f(t+h) - f(t-h)) - (f(t+2h) - f(t-2h))) / 12h + O(h^4)
with h small beside the parameter and its room inside its support, and not smaller than the support says. Functions of
theta are vectorised, so all four points of all rows are one call.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisewise.populations.parameters import Array, Support, Theta

RELATIVE_STEP = 1e-3
POINTS = (-2, -1, 1, 2)


def central_difference(function: Callable[[Theta], Array], theta: Theta, name: str, support: Support) -> Array:
    """d function / d theta[name] at each of K rows; function gives (K, ...)."""
    value = np.asarray(theta[name], dtype=float)
    rows = len(value)
    room = np.minimum(value - support.low, support.high - value)
    h = np.minimum(np.maximum(RELATIVE_STEP * np.maximum(np.abs(value), RELATIVE_STEP), support.step), room / 4)
    moved = {other: np.concatenate([np.asarray(column)] * len(POINTS)) for other, column in theta.items()}
    moved[name] = np.concatenate([value + k * h for k in POINTS])
    at = np.asarray(function(moved)).reshape(len(POINTS), rows, -1)
    slope = (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h[:, None])
    shape = np.asarray(function({k: np.asarray(v)[:1] for k, v in theta.items()})).shape[1:]
    return np.asarray(slope.reshape(rows, *shape))
