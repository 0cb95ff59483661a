"""Fixed quasi-random points with exact low moments: normal ones, and directions.

Scrambled Sobol points, -z beside z, whose weights are moved from 1/B just enough that all moments up to the fourth are
exact: whatever is integrated loses its polynomial part of that degree from the error. In many dimensions there are too
many fourth moments for that, and only the second are matched. On the circle equal angles are better than any of this,
on the sphere a product of equal angles and Gauss-Legendre heights.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from noisewise.types import Floats

# The scramble is part of the quadrature rule, not of any sampler.
SCRAMBLE = 2022
ANGLES, TURNS, HEIGHTS = 80, 36, 18


@lru_cache(maxsize=8)
def base_points(dimension: int, points: int) -> tuple[Floats, Floats]:
    """Normal points (points, dimension) in pairs z, -z, and weights that give them the moments of N(0, I)."""
    half = _sobol_normal(dimension, points // 2)
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T
    weights = _calibrated(half)
    return np.concatenate([half, -half]), np.concatenate([weights, weights])


@lru_cache(maxsize=8)
def directions(dimension: int) -> tuple[Floats, Floats]:
    """Unit vectors of the plane or of space, with weights that sum to 1."""
    if dimension == 2:
        angles = 2 * math.pi * np.arange(ANGLES) / ANGLES
        return np.column_stack([np.cos(angles), np.sin(angles)]), np.full(ANGLES, 1 / ANGLES)
    height, weight = np.polynomial.legendre.leggauss(HEIGHTS)
    angles = 2 * math.pi * np.arange(TURNS) / TURNS
    z, turn = np.repeat(height, TURNS), np.tile(angles, HEIGHTS)
    flat = np.sqrt(1 - z**2)
    return np.column_stack([flat * np.cos(turn), flat * np.sin(turn), z]), np.repeat(weight / 2, TURNS) / TURNS


def _sobol_normal(dimension: int, points: int) -> Floats:
    from scipy.special import ndtri
    from scipy.stats import qmc

    sobol = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(SCRAMBLE))
    return np.asarray(ndtri(np.clip(sobol.random(points), 1e-12, 1 - 1e-12)))


def _calibrated(half: Floats) -> Floats:
    """The weights nearest 1/B that match the moments of N(0, I) of degree 2 and 4, or else of degree 2."""
    count, dimension = half.shape
    even = np.full(count, 0.5 / count)
    for degrees in ((2, 4), (2,)):
        columns, wanted = [np.ones(count)], [1]
        for degree in degrees:
            for powers in combinations_with_replacement(range(dimension), degree):
                columns.append(np.prod(half[:, powers], axis=1))
                wanted.append(math.prod(_normal_moment(int(power)) for power in np.bincount(powers)))
        if len(wanted) > count // 4:
            continue
        equations = 2.0 * np.stack(columns)
        move, *_ = np.linalg.lstsq(equations, np.asarray(wanted) - equations @ even)
        if np.all(even + move > 0):
            return np.asarray(even + move)
    return even


def _normal_moment(degree: int) -> int:
    """E z^degree of a standard normal z."""
    return 0 if degree % 2 else math.prod(range(degree - 1, 0, -2))
