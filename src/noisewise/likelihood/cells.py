"""Answers that fell into cells by randomized response, or through any finite channel.

A true cell i is answered as j with probability R_ij; in k-ary randomized response R_ii = keep and the other entries are
(1 - keep)/(k - 1). With cell probabilities p_i(theta), an answer is j with probability q_j, q = p R, and answers are
independent, so their counts c are sufficient:
    log p(c | theta) = sum_j c_j log q_j,      d/dp_i = sum_j R_ij c_j/q_j,      F = n dp R diag(1/q) R' dp'.
Randomized response is R = other 1 1' + (keep - other) I, so v R = other sum(v) + (keep - other) v: a table of any size
costs as much as its cells, and no matrix is made.
The multinomial coefficient, free of theta, is left out: the answers' order is not part of the release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from noisewise.errors import InvalidArgument
from noisewise.types import Floats

__all__ = ["answer_probabilities", "draw_cells", "information", "log_likelihood", "response_matrix", "score"]


def response_matrix(*, keep: float, cells: int) -> Floats:
    """R of k-ary randomized response."""
    other = (1 - keep) / (cells - 1)
    return np.full((cells, cells), other) + (keep - other) * np.eye(cells)


def answer_probabilities(
    probabilities: ArrayLike, *, keep: float | None = None, channel: ArrayLike | None = None
) -> Floats:
    """q (K, answers) from p (K, cells): randomized response by `keep`, or any row-stochastic `channel`."""
    return _through(np.asarray(probabilities, dtype=np.float64), keep, channel)


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
    counts = np.asarray(counts, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = np.where(counts == 0, 0.0, counts / answer_probabilities(probabilities, keep=keep, channel=channel))
    return _through(pull, keep, None if channel is None else np.transpose(np.asarray(channel, dtype=np.float64)))


def information(
    probabilities: ArrayLike, d_probabilities: ArrayLike, *, keep: float | None = None, channel: ArrayLike | None = None
) -> Floats:
    """Fisher information of one answer (K, P, P), from d_probabilities (K, P, cells)."""
    q = answer_probabilities(probabilities, keep=keep, channel=channel)
    moved = _through(np.asarray(d_probabilities, dtype=np.float64), keep, channel)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.where(moved == 0, 0.0, moved / np.sqrt(q)[..., None, :])
    return np.asarray(np.einsum("...pj,...qj->...pq", half, half))


def draw_cells(rng: np.random.Generator, counts: ArrayLike, probabilities: ArrayLike, *, keep: float) -> Floats:
    """The true cells of all records given their randomized answers, one table for each row of p: (K, cells).

    An answer j stands for cell j by itself with probability (keep - other) p_j/q_j; else it says nothing, and the cell
    is drawn from p.
    """
    p, given = np.asarray(probabilities, dtype=np.float64), np.asarray(counts, dtype=np.int64)
    q, other = answer_probabilities(p, keep=keep), (1 - keep) / (p.shape[-1] - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        said = np.where((given == 0) | (q <= 0), 0.0, np.clip((keep - other) * p / q, 0.0, 1.0))
    kept = rng.binomial(given, said)
    silent = np.sum(given) - np.sum(kept, axis=-1)
    return np.asarray(kept + rng.multinomial(silent, p / np.sum(p, axis=-1, keepdims=True)), dtype=np.float64)


def _through(rows: Floats, keep: float | None, channel: ArrayLike | None) -> Floats:
    """Row vectors times R."""
    if keep is not None and channel is None:
        other = (1 - keep) / (rows.shape[-1] - 1)
        return np.asarray(other * np.sum(rows, axis=-1, keepdims=True) + (keep - other) * rows)
    if keep is None and channel is not None:
        return np.asarray(rows @ np.asarray(channel, dtype=np.float64))
    raise InvalidArgument("Give either `keep` (randomized response) or `channel` (any rows).", argument="keep")
