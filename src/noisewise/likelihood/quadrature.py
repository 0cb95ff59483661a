"""Gauss-Legendre rules on many panels at once, and the polynomial through the nodes of a panel.

A rule of order m integrates polynomials of degree 2m-1 exactly and exp(-s) over a panel of length L with an error near
L^(2m+1) (m!)^4 / ((2m+1) (2m)!^3): 1e-23 for L = 45, m = 40. Panels may differ from row to row; an empty panel costs
nothing but time.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike

from noisewise.types import Floats

__all__ = ["gauss_legendre", "interpolation_matrix", "on_panels"]


@cache
def gauss_legendre(order: int) -> tuple[Floats, Floats]:
    """Nodes and weights on [-1, 1]; read-only, since they are shared."""
    nodes, weights = legendre.leggauss(order)
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights


def on_panels(edges: ArrayLike, order: int) -> tuple[Floats, Floats]:
    """Nodes and weights (..., P, order) of the panels between P+1 increasing edges (..., P+1)."""
    edges = np.asarray(edges, dtype=np.float64)
    unit, weights = gauss_legendre(order)
    half = 0.5 * np.diff(edges)[..., None]
    # From the nearer edge: a node close to an edge keeps its distance to that edge.
    nodes = np.where(unit < 0, edges[..., :-1, None] + half * (1 + unit), edges[..., 1:, None] - half * (1 - unit))
    return nodes, half * weights


def interpolation_matrix(order: int, points: ArrayLike) -> Floats:
    """B (..., order): B @ f(nodes) is the polynomial through f at the Gauss-Legendre nodes, at `points` in [-1, 1].

    f = sum_k c_k P_k with c_k = (k + 1/2) sum_j w_j P_k(x_j) f_j, exact for polynomials of degree below the order.
    """
    nodes, weights = gauss_legendre(order)
    degrees = np.arange(order)
    coefficients = (degrees + 0.5)[:, None] * legendre.legvander(nodes, order - 1).T * weights
    return np.asarray(legendre.legvander(np.asarray(points, dtype=np.float64), order - 1) @ coefficients)
