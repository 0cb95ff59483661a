"""Noise-aware Gibbs sampling of proportions behind noisy counts: beta-Bernoulli and Dirichlet-categorical.

Per sweep (Bernstein & Sheldon 2018, the bounded case), with w = n p, noise variances d, and s the confidential counts:
    s | p, d, y       N(n p, n (diag p - p p')) times N(y; s, diag d), every cell at least 0
    p | s             Dirichlet(alpha + s)
    d | s, y          the mixing variances of Laplace noise (`conditionals`)
The singular normal of a table is that of independent cells N(w_j, w_j) given that they sum to n. So with gains
g_j = w_j/(w_j + d_j) one draws u_j ~ N(w_j + g_j (y_j - w_j), g_j d_j) independently and moves them onto the sum,
s = u + v (n - sum u)/sum v, v_j = g_j d_j: exact, no matrix, linear in the cells. Where cells below 0 keep turning up,
moves between pairs of cells, each an exact truncated normal, take the place of rejection; nothing is ever projected.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.families.conditionals import mixing_variance, truncated_normal
from noisewise.types import Floats

__all__ = ["draw_table", "move_between", "proportion_chain", "proportions", "table_chain"]

Booleans = NDArray[np.bool_]
MOST_TRIES = 50
LEAST = 1e-300


@njit(cache=True)
def proportion_chain(
    rng: np.random.Generator, a: float, b: float, sizes: Floats, observed: Floats, scale: Floats, is_laplace: Booleans,
    d: Floats, start: float, sweeps: int,
) -> Floats:  # fmt: skip
    """Draws (sweeps,) of p ~ Beta(a, b) behind noisy counts of several groups of records.

    The noise variances d are where the mixing starts, and are overwritten.
    """
    p, drawn = start, np.empty(sweeps)
    for sweep in range(sweeps):
        yes, no = 0.0, 0.0
        for j in range(sizes.size):
            mean, spread = sizes[j] * p, sizes[j] * p * (1.0 - p)
            gain = spread / (spread + d[j])
            centre = mean + gain * (observed[j] - mean)
            s = truncated_normal(rng, centre, math.sqrt(gain * d[j]), 0.0, sizes[j])
            yes, no = yes + s, no + (sizes[j] - s)
            if is_laplace[j]:
                d[j] = mixing_variance(rng, observed[j] - s, scale[j])
        p = rng.beta(a + yes, b + no)
        drawn[sweep] = p
    return drawn


@njit(cache=True)
def table_chain(
    rng: np.random.Generator, alpha: Floats, sizes: Floats, observed: Floats, scale: Floats, is_laplace: Booleans,
    d: Floats, start: Floats, sweeps: int,
) -> Floats:  # fmt: skip
    """Draws (sweeps, cells) of p ~ Dirichlet(alpha) behind noisy tables (groups, cells); d as above, p from `start`."""
    groups, cells = observed.shape
    p, drawn, s = start, np.empty((sweeps, cells)), np.empty((groups, cells))
    for j in range(groups):
        for k in range(cells):
            s[j, k] = sizes[j] * p[k]
    centre, spread, proposal = np.empty(cells), np.empty(cells), np.empty(cells)
    for sweep in range(sweeps):
        for j in range(groups):
            for k in range(cells):
                w = sizes[j] * p[k]
                gain = w / (w + d[j, k])
                centre[k] = w + gain * (observed[j, k] - w)
                spread[k] = gain * d[j, k]
            draw_table(rng, centre, spread, sizes[j], s[j], proposal)
            for k in range(cells):
                if is_laplace[j, k]:
                    d[j, k] = mixing_variance(rng, observed[j, k] - s[j, k], scale[j, k])
        proportions(rng, alpha, s, p)
        for k in range(cells):
            drawn[sweep, k] = p[k]
    return drawn


@njit(cache=True)
def draw_table(rng: np.random.Generator, centre: Floats, spread: Floats, n: float, s: Floats, proposal: Floats) -> None:
    """Cells N(centre, spread) given that they sum to n and none is below 0, in place of the table s."""
    whole = 0.0
    for k in range(s.size):
        whole += spread[k]
    for _ in range(MOST_TRIES):
        missing = n
        for k in range(s.size):
            proposal[k] = centre[k] + math.sqrt(spread[k]) * rng.standard_normal()
            missing -= proposal[k]
        is_possible = whole > 0.0
        for k in range(s.size):
            proposal[k] += spread[k] / max(whole, LEAST) * missing
            is_possible = is_possible and proposal[k] >= 0.0
        if is_possible:
            for k in range(s.size):
                s[k] = proposal[k]
            return
    for k in range(s.size):
        move_between(rng, centre, spread, s, k, (k + 1 + int(rng.random() * (s.size - 1))) % s.size)


@njit(cache=True)
def move_between(rng: np.random.Generator, centre: Floats, spread: Floats, s: Floats, i: int, j: int) -> None:
    """Redraw s_i given s_i + s_j and the other cells."""
    both = s[i] + s[j]
    whole = spread[i] + spread[j]
    if i == j or not whole > 0.0:
        return
    share = spread[i] / whole
    mean = centre[i] + share * (both - centre[i] - centre[j])
    s[i] = truncated_normal(rng, mean, math.sqrt(share * spread[j]), 0.0, both)
    s[j] = both - s[i]


@njit(cache=True)
def proportions(rng: np.random.Generator, alpha: Floats, s: Floats, p: Floats) -> None:
    """Dirichlet(alpha + the summed tables) into p; gamma numbers by their logarithms, so that none is 0/0."""
    largest = -math.inf
    for k in range(p.size):
        shape = alpha[k]
        for j in range(s.shape[0]):
            shape += s[j, k]
        # 1 - random() is never 0.
        p[k] = math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape
        largest = max(largest, p[k])
    total = 0.0
    for k in range(p.size):
        p[k] = max(math.exp(p[k] - largest), LEAST)
        total += p[k]
    for k in range(p.size):
        p[k] /= total
