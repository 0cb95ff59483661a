"""Scores: one number for a Fisher information matrix, so that plans can be ranked.

With F (P, P) at a parameter value, Sigma the covariance of what is believed before, weights w_j >= 0:
    trace          sum_j w_j F_jj                         what is told about each parameter by itself, added up
    logdet         log det F                              the volume of the confidence region; no units, no weights
    a-optimal      -sum_j w_j (F^-1)_jj                   minus the variance left by the release alone
    gain           log det(I + Sigma F) / 2               nats told beyond what is believed; never infinite
    a parameter j  1/(F^-1)_jj = F_jj - F_j' F_-j^+ F_j   what is told about j when the others are unknown too
    a callable     of the matrices (K, P, P), one number each
Each is averaged over the parameter values. E[F^-1] under a first posterior is the score of two-stage selection
(Alparslan 2023, section 6.5); `gain` is the Bayesian D-optimal criterion (Chaloner & Verdinelli 1995).

A direction in which the release tells less than 1e-8 of what is believed already counts as untold: there logdet and
a-optimal are -inf, and the parameter's own score is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import Array
from noisewise.printable import shown

SCORES = ("trace", "logdet", "a-optimal", "gain")
WEIGHTED = ("trace", "a-optimal")
UNTOLD = 1e-8  # of the information already held
ALIKE = 1e-10  # of what would be told about a parameter if the others were known: rounding


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """A rule that turns matrices (K, P, P) into numbers (K,), larger is better."""

    name: str
    rows: Callable[[Array], Array]
    kind: str  # trace, logdet, a-optimal, gain, parameter or callable

    def share_of(self, score: float, best: float, parameters: int) -> float | None:
        """The score as a share of the best one, on the scale of information; None where there is no such scale."""
        if not (np.isfinite(score) and np.isfinite(best)) or self.kind == "callable" or best == 0:
            return None
        if self.kind == "logdet":
            return float(np.exp((score - best) / parameters))
        return best / score if self.kind == "a-optimal" else score / best


def read_score(score: object, weights: object, names: tuple[str, ...], covariance: Array) -> Score:
    """The score a person named, for the coordinates `names` under the belief's covariance."""
    if weights is not None and score not in WEIGHTED:
        raise InvalidArgument(f"weights= goes with score={' or '.join(map(repr, WEIGHTED))}.", argument="weights")
    variance = np.diag(covariance)
    w = _weights(weights, names)
    if callable(score):
        return Score(getattr(score, "__name__", "score"), _checked(score), "callable")
    if score == "trace":
        return Score("trace", lambda f: np.einsum("kjj,j->k", f, w), "trace")
    if score == "logdet":
        return Score("logdet", lambda f: log_det(f, variance), "logdet")
    if score == "a-optimal":
        return Score("a-optimal", lambda f: -variance_left(f, w, variance), "a-optimal")
    if score == "gain":
        return Score("gain", lambda f: gain(f, covariance), "gain")
    if isinstance(score, str) and score in names:
        j = names.index(score)
        return Score(score, lambda f: effective(f, j, variance), "parameter")
    listed = ", ".join([*map(repr, SCORES), *map(repr, names)])
    raise InvalidArgument(
        f"score = {shown(score)}; use one of {listed}, or a function of matrices (K, {len(names)}, {len(names)}).",
        argument="score",
    )


def effective(matrices: Array, j: int, variance: Array) -> Array:
    """1/(F^-1)_jj: what is told about coordinate j when the others are unknown too; 0 where it cannot be told apart.

    Coordinates of which nothing is told are left out by the generalised inverse: they hide nothing either.
    """
    own = matrices[:, j, j]
    others = [i for i in range(matrices.shape[1]) if i != j]
    left = np.ones(len(matrices))
    if others:
        size = np.sqrt(np.maximum(np.einsum("kjj->kj", matrices), 0.0))
        unit = np.divide(1.0, size, out=np.zeros_like(size), where=np.square(size) * variance > UNTOLD)
        alike = matrices * unit[:, :, None] * unit[:, None, :]
        values, vectors = np.linalg.eigh(alike[:, others][:, :, others])
        along = np.einsum("kio,ki->ko", vectors, alike[:, others, j])
        told = values > ALIKE
        left = 1 - np.divide(np.square(along), values, out=np.zeros_like(values), where=told).sum(axis=1)
    found = own * np.where(left > ALIKE, left, 0.0)
    return np.where(found * variance[j] > UNTOLD, found, 0.0)


def variance_left(matrices: Array, weights: Array, variance: Array) -> Array:
    """sum_j w_j (F^-1)_jj; infinite where a parameter that counts is not told."""
    total = np.zeros(len(matrices))
    with np.errstate(divide="ignore"):
        for j in np.flatnonzero(weights):
            total += weights[j] / effective(matrices, int(j), variance)
    return total


def log_det(matrices: Array, variance: Array) -> Array:
    """log det F; -inf where some direction is not told."""
    size = np.sqrt(variance)
    relative = matrices * size[:, None] * size
    told = np.stack([effective(matrices, j, variance) for j in range(len(variance))]).min(axis=0) > 0
    sign, value = np.linalg.slogdet(np.where(told[:, None, None], relative, np.eye(len(variance))))
    return np.where(told & (sign > 0), value - np.log(variance).sum(), -np.inf)


def gain(matrices: Array, covariance: Array) -> Array:
    """log det(I + Sigma F)/2, the nats told beyond the belief, in the normal approximation."""
    root = np.linalg.cholesky(covariance)
    values = np.linalg.eigvalsh(np.einsum("ai,kab,bj->kij", root, matrices, root))
    return np.asarray(np.log1p(np.maximum(values, 0.0)).sum(axis=1) / 2)


def _weights(weights: object, names: tuple[str, ...]) -> Array:
    if weights is None:
        return np.ones(len(names))
    if not isinstance(weights, Mapping) or not weights or set(weights) - set(names):
        raise InvalidArgument(
            f"weights must map parameters to numbers, as in {{{names[0]!r}: 1}}; there are {', '.join(names)}. "
            "What is not named counts nothing.",
            argument="weights",
        )
    for name, value in weights.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e100:
            raise InvalidArgument(f"weights[{name!r}] = {shown(value, 40)} must be a number >= 0.", argument="weights")
    found = np.array([float(weights.get(name, 0.0)) for name in names])
    if not found.any():
        raise InvalidArgument("weights are all 0: then nothing counts.", argument="weights")
    return found


def _checked(score: Callable[[Array], Any]) -> Callable[[Array], Array]:
    def rows(matrices: Array) -> Array:
        try:
            found = np.asarray(score(matrices), dtype=float)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"score failed on matrices {matrices.shape}: {error}", argument="score") from error
        if found.shape != (len(matrices),) or np.isnan(found).any():
            raise InvalidArgument(
                f"score must give one number for each of {len(matrices)} matrices (larger is better), "
                f"not shape {found.shape}{' with NaN' if np.isnan(found).any() else ''}.",
                argument="score",
            )
        return found

    return rows
