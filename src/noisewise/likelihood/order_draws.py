"""Base draws of the ranks around an order statistic, free of theta and of any population.

Uniform order statistics are a Markov chain from rank m outwards: with ell = logit u_(m) given, the ratios
    u_(m-a-q)/u_(m-a) ~ Beta(m-a-q, q)   and   (1-u_(m+b+q))/(1-u_(m+b)) ~ Beta(n-m-b-q+1, q)
are independent of it and of each other. So a window of ranks is drawn without drawing n uniforms. Points come in
independently scrambled nets: the first coordinate places ell, the next ones the nearest ranks below and above in turn;
ranks further out are plain draws.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv

from noisewise.likelihood.scrambles import N_SCRAMBLES, net
from noisewise.likelihood.smooth_scale import Side
from noisewise.populations.parameters import Array

SHARES = (4, 4, 1)  # points drawn from ell's own law, near the release, and widely
N_STRATIFIED = 20  # ranks on each side with quasi-random spacings
WIDTH_OF_WIDE = 2.0  # in spreads of ell


class Bank(NamedTuple):
    """Base draws, free of theta: N points, in N_SCRAMBLES blocks that were scrambled independently."""

    own: Array  # (N,) ell by its own law; NaN where a point belongs to another component
    cauchy: Array  # (N,) standard Cauchy draws of the points near the release
    wide: Array  # (N,) ell of the wide component
    component: Any  # (N,) which law a point was drawn from
    below: Array  # (N, A) log u_(m-a)/u_(m)
    above: Array  # (N, B) log (1-u_(m+b))/(1-u_(m))


class Window(NamedTuple):
    """The ranks beside rank m that S is computed from: base draws, weights w, and whether the last is the end."""

    below: Array
    above: Array
    down_weight: Array
    up_weight: Array
    has_end: tuple[bool, bool]


def draw_bank(
    rng: np.random.Generator, sides: tuple[Side, Side], m: int, n: int, centre: float, spread: float, per_share: int
) -> Bank:
    blocks = [
        _draw_block(rng, component, share * per_share, sides, m, n, centre, spread)
        for _ in range(N_SCRAMBLES)
        for component, share in enumerate(SHARES)
    ]
    return Bank(*(np.ascontiguousarray(np.concatenate(parts)) for parts in zip(*blocks, strict=True)))


def _draw_block(
    rng: np.random.Generator,
    component: int,
    count: int,
    sides: tuple[Side, Side],
    m: int,
    n: int,
    centre: float,
    spread: float,
) -> Bank:
    """One scrambled net of points of one component."""
    depth = max(1, min(N_STRATIFIED, max(side.n_ranks for side in sides)))
    points = net(rng, count, 1 + 2 * depth)
    t = points[:, 0]
    cauchy = np.tan(np.pi * (t - 0.5))
    own = np.log(betaincinv(m, n + 1 - m, t)) - np.log(betainccinv(n + 1 - m, m, t))
    below, above = (_log_ratios(rng, side, points[:, 1 + k :: 2]) for k, side in enumerate(sides))
    wide = centre + WIDTH_OF_WIDE * spread * cauchy
    return Bank(own, cauchy, wide, np.full(count, component), below, above)


def _log_ratios(rng: np.random.Generator, side: Side, points: Array) -> Array:
    """log of the distance of each rank from the end of (0, 1), over that of rank m: sums of log Beta(p, q) ratios."""
    p, q = side.steps
    logs = np.empty((len(points), side.n_ranks))
    near = min(side.n_ranks, points.shape[1])
    logs[:, :near] = np.log(points[:, :near]) / p[:near]  # q = 1 there: every rank is looked at
    if near < side.n_ranks:
        logs[:, near:] = np.log(rng.beta(p[near:], q[near:], size=(len(points), side.n_ranks - near)))
    return np.cumsum(logs, axis=1)


def window_of(bank: Bank, sides: tuple[Side, Side], beta: float, most: int | None) -> Window:
    """All ranks of the bank, or about `most` on each side: every so many, and the last."""
    parts = []
    for side, logs in zip(sides, (bank.below, bank.above), strict=True):
        count = len(side.distance)
        kept = np.unique(np.append(np.arange(0, count, 1 if most is None else max(1, count // most)), count - 1))
        kept = kept[kept >= 0].astype(np.int64)
        ranks = kept[kept < side.n_ranks]
        parts.append((np.ascontiguousarray(logs[:, ranks]), side.weights(beta)[np.append(0, kept + 1)]))
    (below, down), (above, up) = parts
    return Window(below, above, down, up, (sides[0].has_end, sides[1].has_end))
