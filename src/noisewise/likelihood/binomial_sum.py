"""A noisy count by summation, at every n: s ~ Binomial(n, p) behind any log-concave noise, or several.

    p(y | p) = sum_s Binomial(s; n, p) g(s),      g(s) = prod_i P(y_i | s), one factor a release of the same count.
The terms are log-concave in s with log-curvature at least 1/s + 1/(n-s), so they fall to e^{-45} of their peak within
10 standard deviations and a little. Gaussian noise is smooth, and a sum of a smooth bell over every h-th integer, times
h, is the sum itself up to exp(-2 pi^2 sd^2/h^2): 256 terms serve every n. Laplace noise has a kink at y, where that
fails, so with it every integer is summed; a single one is closed (`binomial_laplace`).
Promise: 12 digits of p(y | p); p = 0 and p = 1 are allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from noisewise.likelihood import log_concave
from noisewise.likelihood.discrete_laws import binomial_log_pmf
from noisewise.types import Floats

__all__ = ["BinomialSum", "draw_count", "draw_enumerated", "enumerated_sum", "log_sum"]

LogNoise = Callable[[Floats], Floats]
NODES = 256
DEVIATIONS = 10
MARGIN = 50
FALL = 45.0
MOST_CELLS = 2_000_000


class BinomialSum(NamedTuple):
    """log p(y | p), E[s | y, p] and E[n - s | y, p], each (K,)."""

    log_total: Floats
    counted: Floats
    others: Floats


def log_sum(p: ArrayLike, log_noise: LogNoise, *, n: int, precision: float, is_smooth: bool) -> BinomialSum:
    """The sum and its means; `precision` is at most the log-curvature of smooth noise, the sum of 1/sd^2."""
    p = np.atleast_1d(np.asarray(p, dtype=np.float64))
    peak = _mode(p, log_noise, n)
    if is_smooth:
        sd = 1 / np.sqrt(1 / np.maximum(peak, 1) + 1 / np.maximum(n - peak, 1) + precision)
        half = np.ceil(DEVIATIONS * sd + MARGIN)
        stride = np.ceil((2 * half + 1) / NODES)
    else:
        first, last = log_concave.reach(
            lambda s: binomial_log_pmf(s, n=n, p=p) + log_noise(s),
            peak,
            np.zeros(p.size),
            np.full(p.size, float(n)),
            fall=FALL,
        )
        half, stride = np.maximum(peak - first, last - peak), np.ones(p.size)
    total, shift = np.empty(p.size), np.empty(p.size)
    for rows in _chunks(np.ceil(half / stride)):
        side = int(np.max(np.ceil(half[rows] / stride[rows])))
        moved = stride[rows, None] * np.arange(-side, side + 1)
        s = peak[rows, None] + moved
        values = binomial_log_pmf(s, n=n, p=p[rows, None]) + log_noise(np.clip(s, 0, n))
        with np.errstate(invalid="ignore"):
            total[rows] = logsumexp(values, axis=-1)
            shift[rows] = np.sum(np.exp(values - total[rows, None]) * moved, axis=-1)
    return BinomialSum(total + np.log(stride), peak + shift, n - peak - shift)


def draw_count(rng: np.random.Generator, p: ArrayLike, log_noise: LogNoise, log_total: Floats, *, n: int) -> Floats:
    """s | y, p, one exact draw a row; log_total is log p(y | p) however it was found."""
    p = np.atleast_1d(np.asarray(p, dtype=np.float64))
    return log_concave.draw(
        rng,
        lambda s, rows: binomial_log_pmf(s, n=n, p=p[rows]) + log_noise(np.clip(s, 0, n)),
        _mode(p, log_noise, n),
        log_total,
    )


def enumerated_sum(p: ArrayLike, log_noise: Floats) -> BinomialSum:
    """The same for noise of any shape, log_noise (n + 1,): every count is summed."""
    p = np.atleast_1d(np.asarray(p, dtype=np.float64))
    n, s = log_noise.size - 1, np.arange(log_noise.size)
    total, counted, others = np.empty(p.size), np.empty(p.size), np.empty(p.size)
    for rows in _chunks(np.full(p.size, n / 2)):
        values = binomial_log_pmf(s, n=n, p=p[rows, None]) + log_noise
        with np.errstate(invalid="ignore"):
            total[rows] = logsumexp(values, axis=-1)
            weights = np.exp(values - total[rows, None])
        counted[rows], others[rows] = weights @ s, weights @ (n - s)
    return BinomialSum(total, counted, others)


def draw_enumerated(rng: np.random.Generator, p: ArrayLike, log_noise: Floats) -> Floats:
    """s | y, p, one draw a row, for noise of any shape."""
    p = np.atleast_1d(np.asarray(p, dtype=np.float64))
    s, drawn = np.arange(log_noise.size), np.empty(p.size)
    for rows in _chunks(np.full(p.size, s.size / 2)):
        values = binomial_log_pmf(s, n=s.size - 1, p=p[rows, None]) + log_noise
        cumulative = np.cumsum(np.exp(values - np.max(values, axis=-1, keepdims=True)), axis=-1)
        drawn[rows] = np.sum(cumulative <= rng.random((rows.size, 1)) * cumulative[:, -1:], axis=-1)
    return drawn


def _chunks(sizes: Floats) -> list[NDArray[np.intp]]:
    """Rows of similar size together, so many at once as fit."""
    order, chunks, start = np.argsort(sizes), [], 0
    while start < sizes.size:
        stop = start + 1
        while stop < sizes.size and (stop + 1 - start) * (2 * sizes[order[stop]] + 1) <= MOST_CELLS:
            stop += 1
        chunks.append(order[start:stop])
        start = stop
    return chunks


def _mode(p: Floats, log_noise: LogNoise, n: int) -> Floats:
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-p)

    def rises(s: Floats) -> NDArray[np.bool_]:
        s = np.minimum(s, n - 1)
        slope = np.log(n - s) - np.log(s + 1) + (log_noise(s + 1) - log_noise(s))
        return np.asarray(odds + slope > 0)

    return log_concave.mode(rises, np.zeros(p.shape), np.full(p.shape, float(n)))
