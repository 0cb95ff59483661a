"""Answers of many people, one record each, under any population and any noise: a mixture over nodes.

    p(y | theta) = sum_m w_m(theta) g(y - s_m)
The population enters as nodes s_m (quadrature nodes of the answered value, and atoms), with log weights log w_m(theta),
one row a theta; the noise as its log density (or log probability) g of a residual. For a discrete population the sum is
exact. For a density it is as good as its quadrature rule: spectral under smooth noise, but Laplace noise has a kink at
s = y, and a rule with spacing h there has a relative error near (h/b)^2/12 w.r.t. the noise scale b; use the closed
forms, or nodes with h << b, where that matters.

The score is Fisher's identity, d log p = sum_m r_m d log w_m, with responsibilities r_m proportional to w_m g(y - s_m);
the nodes must then be free of theta.
Memory: the (theta, answer, node) block is worked through in pieces of at most `MOST_CELLS` numbers.

Laplace noise needs no such block. With nodes and answers in order the sum on either side of an answer is a recursion,
    L(y) = sum over s_m <= y of w_m e^{-(y - s_m)/b} = L(y') e^{-(y - y')/b} + what lies between y' and y,
so `laplace_log_density` costs as much as nodes and answers together, not as much as their product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from noisewise.compilation import njit
from noisewise.types import Floats

__all__ = ["laplace_log_density", "laplace_sums", "log_density", "log_likelihood", "score"]

MOST_CELLS = 4_000_000  # 32 MB of float64
TINIEST = 1e-250


def log_density(
    y: ArrayLike, *, nodes: ArrayLike, log_weights: ArrayLike, log_noise: Callable[[Floats], Floats]
) -> Floats:
    """log p(y_i | theta_k), (K, n): nodes (M,) shared or (K, M) of their own, log_weights (K, M)."""
    y, nodes, log_weights = _floats(y, nodes, log_weights)
    result = np.empty((log_weights.shape[0], y.size))
    for rows, answers in _pieces(nodes, log_weights, y.size):
        if nodes.ndim == 1:
            result[:, answers] = _shared(log_noise(y[answers, None] - nodes), log_weights)
        else:
            joint = log_noise(y[answers, None] - nodes[rows, None, :]) + log_weights[rows, None, :]
            result[rows, answers] = _log_sum(joint)
    return result


def laplace_log_density(y: Floats, *, nodes: Floats, log_weights: Floats, scale: float) -> Floats:
    """log p(y_i | theta) of one theta, (n,), under Laplace noise: nodes (M,) and their log weights (M,)."""
    answers, order = np.argsort(y, kind="stable"), np.argsort(nodes, kind="stable")
    top = float(log_weights.max())
    weights = np.exp(log_weights[order] - top)
    found = np.empty(y.size)
    found[answers] = _sums_about(y[answers], nodes[order], weights, scale)
    with np.errstate(divide="ignore"):
        result = np.log(found)
    for i in np.flatnonzero(found < TINIEST):
        result[i] = _log_sum(-np.abs(y[i] - nodes) / scale + log_weights - top)
    return np.asarray(result + top - math.log(2 * scale))


def laplace_sums(y: Floats, *, nodes: Floats, weights: Floats, scale: float) -> Floats:
    """sum_m w_mc e^{-|y_i - s_m|/b} for several columns c of weights (M, C), which may be negative: (n, C)."""
    answers, order = np.argsort(y, kind="stable"), np.argsort(nodes, kind="stable")
    found = np.empty((y.size, weights.shape[1]))
    for c, column in enumerate(weights[order].T):
        found[answers, c] = _sums_about(y[answers], nodes[order], np.ascontiguousarray(column), scale)
    return found


@njit(cache=True)
def _sums_about(y: Floats, nodes: Floats, weights: Floats, scale: float) -> Floats:
    """sum_m w_m e^{-|y_i - s_m|/b} for answers and nodes in order: from below up to each answer, and from above."""
    found = np.zeros(y.size)
    total, at, m = 0.0, y[0], 0
    for i in range(y.size):
        total *= math.exp((at - y[i]) / scale)
        while m < nodes.size and nodes[m] <= y[i]:
            total += weights[m] * math.exp((nodes[m] - y[i]) / scale)
            m += 1
        found[i], at = total, y[i]
    total, at, m = 0.0, y[-1], nodes.size - 1
    for i in range(y.size - 1, -1, -1):
        total *= math.exp((y[i] - at) / scale)
        while m >= 0 and nodes[m] > y[i]:
            total += weights[m] * math.exp((y[i] - nodes[m]) / scale)
            m -= 1
        found[i] += total
        at = y[i]
    return found


def log_likelihood(
    y: ArrayLike,
    *,
    nodes: ArrayLike,
    log_weights: ArrayLike,
    log_noise: Callable[[Floats], Floats],
    times: ArrayLike = 1.0,
) -> Floats:
    """sum_i times_i log p(y_i | theta_k), (K,): equal answers may be given once with their number."""
    each = log_density(y, nodes=nodes, log_weights=log_weights, log_noise=log_noise)
    return np.asarray(np.sum(each * np.asarray(times, dtype=np.float64), axis=-1))


def score(
    y: ArrayLike,
    *,
    nodes: ArrayLike,
    log_weights: ArrayLike,
    d_log_weights: ArrayLike,
    log_noise: Callable[[Floats], Floats],
) -> Floats:
    """d log p(y_i | theta_k), (K, n, P), from d_log_weights (K, M, P)."""
    y, nodes, log_weights = _floats(y, nodes, log_weights)
    slopes = np.asarray(d_log_weights, dtype=np.float64)
    # A node of weight zero stays empty to first order, whatever slope its logarithm claims.
    slopes = np.where(np.isneginf(log_weights)[..., None], 0.0, slopes)
    result = np.empty((log_weights.shape[0], y.size, slopes.shape[-1]))
    rows_of_nodes = np.broadcast_to(nodes, log_weights.shape)
    for rows, answers in _pieces(rows_of_nodes, log_weights, y.size):
        joint = log_noise(y[answers, None] - rows_of_nodes[rows, None, :]) + log_weights[rows, None, :]
        with np.errstate(invalid="ignore"):
            share = np.exp(joint - _log_sum(joint)[..., None])
        result[rows, answers] = np.einsum("kim,kmp->kip", share, slopes[rows])
    return result


def _floats(y: ArrayLike, nodes: ArrayLike, log_weights: ArrayLike) -> tuple[Floats, Floats, Floats]:
    log_weights = np.atleast_2d(np.asarray(log_weights, dtype=np.float64))
    return np.atleast_1d(np.asarray(y, dtype=np.float64)), np.asarray(nodes, dtype=np.float64), log_weights


def _pieces(nodes: Floats, log_weights: Floats, n: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of thetas and answers; nodes that are shared need no theta axis."""
    k, m = log_weights.shape
    rows = k if nodes.ndim == 1 else max(1, min(k, MOST_CELLS // m))
    answers = max(1, MOST_CELLS // (m if nodes.ndim == 1 else m * rows))
    for first in range(0, k, rows):
        for start in range(0, n, answers):
            yield slice(first, first + rows), slice(start, start + answers)


def _shared(log_noise: Floats, log_weights: Floats) -> Floats:
    """log of a matrix product, each factor scaled by its largest term; rows that underflow are summed in logs."""
    high_noise = np.max(log_noise, axis=1, keepdims=True)
    high_weight = np.max(log_weights, axis=1, keepdims=True)
    high_noise, high_weight = (np.where(np.isfinite(v), v, 0.0) for v in (high_noise, high_weight))
    product = np.exp(log_weights - high_weight) @ np.exp(log_noise - high_noise).T
    with np.errstate(divide="ignore"):
        result = np.log(product) + high_weight + high_noise.T
    for k, i in np.argwhere(product < TINIEST):
        result[k, i] = _log_sum(log_noise[i] + log_weights[k])
    return np.asarray(result)


def _log_sum(joint: Floats) -> Floats:
    high = np.max(joint, axis=-1, keepdims=True)
    high = np.where(np.isfinite(high), high, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.sum(np.exp(joint - high), axis=-1)) + high[..., 0])
