"""Densities that are straight between grid points, drawn from and integrated in closed form.

A density with values a_k at points x_k a step h apart, straight between them, is a mixture of tents: point k with
probability a_k h, plus h times the sum of two uniform numbers less 1. Against a normal law,
    int tent_k(x) N(x; M, tau^2) dx = (H(x_k+1) - 2 H(x_k) + H(x_k-1))/h,
    H(x) = tau (z Phi(z) + phi(z)),   z = (x - M)/tau,
so that I(M, tau) = int N(x; M, tau^2) A(x) dx is a weighted sum of the A_k for every tau, however small or large.
Beyond the grid A is taken as at its ends.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from noisewise.types import Array, Bools, Floats, Ints

__all__ = ["chosen", "draw_tents", "interpolated", "normal_masses"]


def normal_masses(grid: Floats, centre: Array, sd: Array) -> Floats:
    """The mass (C, K) of N(centre, sd^2) under each point's tent; end points take what is beyond them."""
    h = grid[1] - grid[0]
    wide = np.concatenate([[grid[0] - h], grid, [grid[-1] + h]])
    z = (wide[None, :] - np.asarray(centre)[:, None]) / np.asarray(sd)[:, None]
    # Both forms of H differ by a straight line, which a second difference does not see; the smaller one keeps digits.
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    height = np.asarray(sd)[:, None] * (z * ndtr(z) + density)
    mass = np.diff(height, n=2, axis=1) / h
    slope = np.diff(height, axis=1) / h  # the normal mass below, gathered by a step that rises over one cell
    mass[:, 0] = slope[:, 1]
    mass[:, -1] = 1 - slope[:, -2]
    return np.asarray(np.maximum(mass, 0.0))


def chosen(rng: np.random.Generator, weights: Floats) -> Ints:
    """One column of each row (S, K), by weight."""
    upto = np.cumsum(weights, axis=1)
    at = rng.random(len(weights)) * upto[:, -1]
    return np.asarray(np.minimum((upto < at[:, None]).sum(axis=1), weights.shape[1] - 1))


def draw_tents(rng: np.random.Generator, weights: Floats, first: Array, step: Array) -> tuple[Floats, Floats]:
    """One draw for each row and its log-density: weights (S, K) at points first + k step, straight between them."""
    k = chosen(rng, weights)
    moved = rng.random(len(weights)) + rng.random(len(weights)) - 1
    at = k + moved
    total = weights.sum(axis=1) * step
    with np.errstate(divide="ignore", invalid="ignore"):
        log_q = np.log(interpolated(weights, at, is_extended=False) / total)
    return np.asarray(first + step * at), np.asarray(log_q)


def interpolated(rows: Floats, at: Array, *, is_extended: bool) -> Floats:
    """Rows (S, K) at places `at` (S,) or (S, M) counted in columns; beyond the ends 0, or as at the ends."""
    columns = rows.shape[1]
    flat = np.asarray(at)
    places = flat if flat.ndim == 2 else flat[:, None]
    if is_extended:
        places = np.clip(places, 0, columns - 1)
    left = np.floor(places).astype(int)
    share = places - left
    low = _taken(rows, left, (left >= 0) & (left < columns))
    high = _taken(rows, left + 1, (left + 1 >= 0) & (left + 1 < columns))
    found = (1 - share) * low + share * high
    return np.asarray(found if flat.ndim == 2 else found[:, 0])


def _taken(rows: Floats, index: Ints, is_inside: Bools) -> Floats:
    taken = np.take_along_axis(rows, np.clip(index, 0, rows.shape[1] - 1), axis=1)
    return np.where(is_inside, taken, 0.0)
