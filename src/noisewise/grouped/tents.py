"""Densities that are straight between grid points, drawn from and integrated in closed form.

A density with values a_k at points x_k a step h apart, straight between them, is a mixture of tents: point k with
probability a_k h, plus h times the sum of two uniform numbers less 1. Against a normal law,
    int tent_k(x) N(x; M, tau^2) dx = (H(x_k+1) - 2 H(x_k) + H(x_k-1))/h,
    H(x) = tau (z Phi(z) + phi(z)),   z = (x - M)/tau,
so that I(M, tau) = int N(x; M, tau^2) A(x) dx is a weighted sum of the A_k for every tau, however small or large.
Beyond the grid A is taken as at its ends.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.types import Array, Floats, Ints

__all__ = ["chosen", "normal_masses", "tent_draw"]

FAR = 9.0
ROOT_2, ROOT_2PI = math.sqrt(2.0), math.sqrt(2 * math.pi)


def normal_masses(grid: Floats, centre: Array, sd: Array) -> Floats:
    """The mass (C, K) of N(centre, sd^2) under each point's tent; end points take what is beyond them."""
    return _masses(grid, np.asarray(centre, np.float64), np.asarray(sd, np.float64))


@njit(cache=True)
def _masses(grid: Floats, centre: Floats, sd: Floats) -> Floats:
    h, last = grid[1] - grid[0], grid.size - 1
    mass = np.empty((centre.size, grid.size))
    for c in range(centre.size):
        upto, here = 0.0, _height((grid[0] - centre[c]) / sd[c])
        for k in range(last):
            after = _height((grid[k + 1] - centre[c]) / sd[c])
            rising = sd[c] * (after - here) / h  # the normal mass below, gathered by a step that rises over one cell
            mass[c, k] = max(rising - upto, 0.0)
            upto, here = rising, after
        mass[c, last] = max(1 - upto, 0.0)
    return mass


@njit(cache=True)
def _height(z: float) -> float:
    """z Phi(z) + phi(z)."""
    if z < -FAR:
        return 0.0
    if z > FAR:
        return z
    return 0.5 * z * math.erfc(-z / ROOT_2) + math.exp(-0.5 * z * z) / ROOT_2PI


def chosen(rng: np.random.Generator, weights: Floats) -> Ints:
    """One column of each row (S, K), by weight."""
    upto = np.cumsum(weights, axis=1)
    at = rng.random(len(weights)) * upto[:, -1]
    return np.asarray(np.minimum((upto < at[:, None]).sum(axis=1), weights.shape[1] - 1))


@njit(cache=True)
def tent_draw(weights: Floats, first: float, step: float, chance: Floats) -> tuple[float, float]:
    """A draw and its log-density: weights at points first + k step, straight between them; three uniform numbers."""
    total = 0.0
    for weight in weights:
        total += weight
    left, k = chance[0] * total, 0
    while k < weights.size - 1 and left >= weights[k]:
        left -= weights[k]
        k += 1
    at = k + chance[1] + chance[2] - 1
    low = int(np.floor(at))
    share, height = at - low, 0.0
    if 0 <= low < weights.size:
        height += (1 - share) * weights[low]
    if 0 <= low + 1 < weights.size:
        height += share * weights[low + 1]
    return first + step * at, np.log(height / (total * step)) if height > 0 else -np.inf
