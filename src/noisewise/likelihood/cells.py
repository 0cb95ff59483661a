"""Answers that fell into cells by randomized response, or through any finite channel.

A true cell i is answered as j with probability R_ij; in k-ary randomized response R_ii = keep and the other entries are
(1 - keep)/(k - 1). With cell probabilities p_i(theta), an answer is j with probability q_j, q = p R, and answers are
independent, so their counts c are sufficient:
    log p(c | theta) = sum_j c_j log q_j,      d/dp_i = sum_j R_ij c_j/q_j,      F = n dp R diag(1/q) R' dp'.
The multinomial coefficient, free of theta, is left out: the answers' order is not part of the release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from noisewise.errors import InvalidArgument

__all__ = ["answer_probabilities", "information", "log_likelihood", "response_matrix", "score"]

Floats = NDArray[np.float64]


def response_matrix(*, keep: float, cells: int) -> Floats:
    """R of k-ary randomized response."""
    other = (1 - keep) / (cells - 1)
    return np.full((cells, cells), other) + (keep - other) * np.eye(cells)


def answer_probabilities(
    probabilities: ArrayLike, *, keep: float | None = None, channel: ArrayLike | None = None
) -> Floats:
    """q (K, answers) from p (K, cells): randomized response by `keep`, or any row-stochastic `channel`."""
    p = np.asarray(probabilities, dtype=np.float64)
    return np.asarray(p @ _channel(p.shape[-1], keep, channel))


def log_likelihood(
    counts: ArrayLike, probabilities: ArrayLike, *, keep: float | None = None, channel: ArrayLike | None = None
) -> Floats:
    """sum_j c_j log q_j, (K,); -inf where an answer that was given cannot be."""
    q = answer_probabilities(probabilities, keep=keep, channel=channel)
    return np.asarray(np.sum(xlogy(np.asarray(counts, dtype=np.float64), q), axis=-1))


def score(
    counts: ArrayLike, probabilities: ArrayLike, *, keep: float | None = None, channel: ArrayLike | None = None
) -> Floats:
    """d log p(c)/dp (K, cells), every p_i taken as free: contract it with dp/dtheta."""
    p = np.asarray(probabilities, dtype=np.float64)
    rows, counts = _channel(p.shape[-1], keep, channel), np.asarray(counts, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = np.where(counts == 0, 0.0, counts / (p @ rows))
    return np.asarray(pull @ rows.T)


def information(
    probabilities: ArrayLike, d_probabilities: ArrayLike, *, keep: float | None = None, channel: ArrayLike | None = None
) -> Floats:
    """Fisher information of one answer (K, P, P), from d_probabilities (K, P, cells)."""
    p, slopes = (np.asarray(v, dtype=np.float64) for v in (probabilities, d_probabilities))
    rows = _channel(p.shape[-1], keep, channel)
    moved = slopes @ rows
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.where(moved == 0, 0.0, moved / np.sqrt(p @ rows)[..., None, :])
    return np.asarray(np.einsum("...pj,...qj->...pq", half, half))


def _channel(cells: int, keep: float | None, channel: ArrayLike | None) -> Floats:
    if keep is not None and channel is None:
        return response_matrix(keep=keep, cells=cells)
    if keep is None and channel is not None:
        return np.asarray(channel, dtype=np.float64)
    raise InvalidArgument("Give either `keep` (randomized response) or `channel` (any rows).", argument="keep")
