"""Directions v along which rows B z, z ~ N(h, I), are integrated (radial.py), placed where h says that rows are.

In two or three dimensions a fixed rule on the circle or sphere (points.py). Where h is long only directions near its
own have mass, so all are gathered there by the conformal map of the sphere that keeps h and -h in place: a direction at
an angle s from h goes to phi,
    tan(phi/2) = kappa tan(s/2),   1/kappa = q + sqrt(1 + q^2),  q = |h|/GATHERED,   weight times (d phi/d s)^(D-1)
It is smooth in h, moves nothing at h = 0, and leaves as many directions within a standard deviation of h however long
that is. In more dimensions v = (z + h)/|z + h| with z from the bank of normal points, so that directions come as often
as they should. Slopes go through directions and weights: with u = h/|h|, c = cos s and rho = d phi/d s
    dv = d log kappa (cos(phi) v - u) + (cos(phi) - c rho) du + rho dc ((rho - 1) u - q (v - cos(phi) u)),
    d log rho = cos(phi) d log kappa - q rho dc,   d log kappa = -dq/sqrt(1 + q^2),  dc = w'du
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner
from noisewise.regression.points import base_points, directions
from noisewise.types import Floats

POINTS = 2048
# Gauss-Legendre nodes along a direction: the longer and the shorter rule.
NODES, FEW_NODES = 20, 10
# The length of h from which directions gather round it: half of it, over |h|, is kappa of a long h.
GATHERED = 3.0


class Sphere(NamedTuple):
    """Directions, and room for what one evaluation computes along them."""

    base: Floats  # (N, D): z, or directions before they are gathered
    base_weights: Floats  # (N,)
    is_tilted: int
    directions: Floats  # (N, D): v
    weights: Floats  # (N,)
    along: Floats  # (N,): v'h
    across: Floats  # (N,): |h - v v'h|, which is not needed of tilted directions
    distances: Floats  # (N,): |z + h|
    cosines: Floats  # (N,): c
    stretches: Floats  # (N,): rho
    nodes: Floats  # Gauss-Legendre on (0, 1), the longer rule and then the shorter
    node_weights: Floats
    rows: Floats  # (N, D): b
    inner: Floats  # (N, 6): int_0^T t^k p dt
    outer: Floats  # (N, 2): int_T^oo t^k p dt
    powers: Floats  # (N, 5): J_k
    by_powers: Floats  # (N, 5)
    ends: Floats  # (N,): T
    linear: Floats  # (N K,): the coefficients of t in the products
    square: Floats  # (N K,): of t^2
    one: Floats  # (N K,): scratch
    two: Floats  # (N K,): scratch
    centre: Floats  # (D,): h
    mean: Floats  # (m,): of a shortened row
    by_mean: Floats
    by_second: Floats  # (m, m)
    totals: Floats  # (1,): sum w J_0


def make_sphere(dimension: int, *, m: int, pairs: int, is_used: bool) -> Sphere:
    """Directions of R^dimension for rows of m entries; none where they are not used."""
    is_tilted = dimension > 3
    base, weights = np.zeros((0, dimension)), np.zeros(0)
    if is_used:
        base, weights = base_points(dimension, POINTS) if is_tilted else directions(dimension)
    rules = [np.polynomial.legendre.leggauss(count) for count in (NODES, FEW_NODES)]
    nodes, node_weights = np.concatenate([x for x, _ in rules]), np.concatenate([w for _, w in rules])
    n, flat = len(weights), np.zeros(len(weights) * pairs)
    return Sphere(
        base, weights, int(is_tilted), base.copy(), weights.copy(), np.zeros(n), np.zeros(n), np.ones(n), np.ones(n),
        np.ones(n), (nodes + 1) / 2, node_weights / 2, np.zeros((n, dimension)), np.zeros((n, 6)), np.zeros((n, 2)),
        np.zeros((n, 5)), np.zeros((n, 5)), np.zeros(n), flat, flat.copy(), flat.copy(), flat.copy(),
        np.zeros(dimension), np.zeros(m), np.zeros(m), np.zeros((m, m)), np.zeros(1),
    )  # fmt: skip


@inner(allocates=True, error_model="numpy")
def gather(sphere: Sphere) -> None:
    """Write directions nearer to that of h, their weights, and what h has along and across them."""
    n, size = sphere.base.shape
    far = math.sqrt(np.sum(sphere.centre**2))
    q = far / GATHERED
    kappa, unit = 1.0 / (q + math.sqrt(1.0 + q * q)), 1.0 / far if far > 0.0 else 0.0
    for v in range(n):
        cosine = 0.0
        for i in range(size):
            cosine += sphere.base[v, i] * (unit * sphere.centre[i])
        cosine = min(max(cosine, -1.0), 1.0)
        front, back = 1.0 + cosine, kappa * kappa * (1.0 - cosine)
        stretch = 2.0 * kappa / (front + back)  # = sin(phi)/sin(s)
        gathered = (front - back) / (front + back)  # cos(phi)
        weight = sphere.base_weights[v]
        for i in range(size):
            axis = unit * sphere.centre[i]
            sphere.directions[v, i] = gathered * axis + stretch * (sphere.base[v, i] - cosine * axis)
            weight *= stretch if i else 1.0
        sphere.cosines[v], sphere.stretches[v] = cosine, stretch
        sphere.weights[v], sphere.along[v] = weight, far * gathered
        sphere.across[v] = far * stretch * math.sqrt(1.0 - cosine * cosine)


@inner(error_model="numpy")
def tilt(sphere: Sphere) -> None:
    """Write the directions of z + h, and what h has along them."""
    n, size = sphere.base.shape
    for v in range(n):
        square = 0.0
        for i in range(size):
            square += (sphere.base[v, i] + sphere.centre[i]) ** 2
        sphere.distances[v], sphere.along[v] = math.sqrt(square), 0.0
        for i in range(size):
            sphere.directions[v, i] = (sphere.base[v, i] + sphere.centre[i]) / sphere.distances[v]
            sphere.along[v] += sphere.directions[v, i] * sphere.centre[i]


@inner()
def pull_back_gather(
    v: int, by_weight: float, far: float, sphere: Sphere, by_direction: Floats, by_axis: Floats
) -> float:
    """From the pulls on v and on the log of its weight: adds that on u, returns that on log kappa; |h| = far > 0."""
    size, q = len(by_direction), far / GATHERED
    cosine, stretch, gathered = sphere.cosines[v], sphere.stretches[v], sphere.along[v] / far
    by_stretch = (size - 1) * by_weight
    on_axis, on_direction = 0.0, 0.0
    for i in range(size):
        on_axis += by_direction[i] * sphere.centre[i] / far
        on_direction += by_direction[i] * sphere.directions[v, i]
    by_cosine = stretch * ((stretch - 1.0) * on_axis - q * (on_direction - gathered * on_axis + by_stretch))
    for i in range(size):
        by_axis[i] += (gathered - cosine * stretch) * by_direction[i] + by_cosine * sphere.base[v, i]
    return gathered * (on_direction + by_stretch) - on_axis  # type: ignore[no-any-return]


@inner()
def pull_back_axis(far: float, sphere: Sphere, by_log_kappa: float, by_axis: Floats, by_centre: Floats) -> None:
    """From the pulls on log kappa and on u to that on h."""
    on_axis = 0.0
    for i in range(len(by_axis)):
        on_axis += by_axis[i] * sphere.centre[i] / far
    outwards = -by_log_kappa / math.sqrt(GATHERED**2 + far**2)
    for i in range(len(by_axis)):
        by_centre[i] += by_axis[i] / far + (outwards - on_axis / far) * sphere.centre[i] / far


@inner()
def pull_back_tilt(v: int, sphere: Sphere, by_direction: Floats, by_centre: Floats) -> None:
    """From the pull on v = (z + h)/|z + h| to that on h."""
    across = 0.0
    for i in range(len(by_direction)):
        across += by_direction[i] * sphere.directions[v, i]
    for i in range(len(by_direction)):
        by_centre[i] += (by_direction[i] - across * sphere.directions[v, i]) / sphere.distances[v]
