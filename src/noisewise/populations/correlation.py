"""Correlation matrices: their prior, and the unconstrained numbers that samplers walk on.

A d x d correlation matrix R is told by its entries above the diagonal, row by row: (1,2), (1,3), .., (2,3), .. Its
Cholesky factor L is made of canonical partial correlations z_ij, j < i, each anywhere in (-1, 1) (Joe 2006):

    L_ij = z_ij sqrt(prod_{k<j} (1 - z_ik^2)),    L_ii = sqrt(prod_{k<i} (1 - z_ik^2)),    u_ij = artanh z_ij

R_ij depends on z_i1 .. z_ij and on rows above i alone, so that d R / d z is triangular with the diagonal
    d R_ij / d z_ij = L_jj sqrt(prod_{k<j} (1 - z_ik^2)).

The prior is that of Lewandowski, Kurowicka & Joe (2009), p(R) proportional to det(R)^(eta - 1): uniform over all
correlation matrices for eta = 1, nearer to none for larger eta. Under it the z_ij are independent, with
    (1 + z_ij)/2 ~ Beta(a_j, a_j),   a_j = eta + (d - 1 - j)/2   (j from 1)
which gives its constant and its draws; every single correlation has (1 + r)/2 ~ Beta(eta + d/2 - 1, the same).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Self, cast

import numpy as np
from scipy import special, stats

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import LARGEST, Array
from noisewise.printable import shown

__all__ = [
    "LKJ",
    "cholesky",
    "entries_of",
    "factor_of",
    "log_slope",
    "matrix_of",
    "pair_labels",
    "partials_of",
    "smallest_eigenvalue",
]

LEAST = 1e-300  # a pivot that is not positive, and whose logarithm is still a number
FLOOR = 1e-14  # of a squared pivot, below which doubles cannot tell a matrix from a singular one


@dataclass(frozen=True)
class LKJ:
    """A prior of a correlation matrix: p(R) proportional to det(R)^(eta - 1).

    Of d columns, every single correlation r has (1 + r)/2 ~ Beta(eta + d/2 - 1, eta + d/2 - 1).

    Parameters
    ----------
    eta
        Positive. 1 is uniform over all correlation matrices; with larger eta correlations are believed to be nearer to
        0.
    order
        The number of columns; `MultivariateNormal` sets it.

    Examples
    --------
    >>> nw.MultivariateNormal(columns=["a", "b", "c"], mean=[0, 0, 0], sd=[1, 1, 1],
    ...                       correlation=nw.LKJ(2)).correlation_labels
    ('correlation[a, b]', 'correlation[a, c]', 'correlation[b, c]')
    """

    eta: float
    order: int = 0  # how many columns; told by the population that it is given to

    def __post_init__(self) -> None:
        eta: object = self.eta
        if isinstance(eta, bool) or not isinstance(eta, Real) or not 0 < cast("float", eta) < LARGEST:
            raise InvalidArgument(
                f"eta = {shown(eta)}: give a positive number, such as LKJ(1) for a prior that is uniform over "
                "correlation matrices.",
                argument="eta",
            )
        object.__setattr__(self, "eta", float(eta))

    def __repr__(self) -> str:
        return f"LKJ({int(self.eta) if self.eta.is_integer() and self.eta < 1e15 else self.eta!r})"

    def of(self, order: int) -> Self:
        """The prior for so many columns."""
        return replace(self, order=order)

    @property
    def one(self) -> object:
        """The law of a single correlation, as a frozen scipy.stats distribution."""
        shape = self.eta + self.order / 2 - 1
        return stats.beta(shape, shape, loc=-1, scale=2)

    def logpdf(self, entries: Array) -> Array:
        """The log-density (K,) at entries (K, pairs); -inf where they are those of no correlation matrix."""
        rows = np.atleast_2d(np.asarray(entries, dtype=float))
        pivots = np.square(np.diagonal(cholesky(matrix_of(rows, self.order)), axis1=-2, axis2=-1))
        inside = pivots.min(axis=-1) > FLOOR
        log_det = np.log(np.where(inside[:, None], pivots, 1.0)).sum(axis=-1)
        shapes = self._shapes()
        # Of z on (-1, 1): (1 - z^2)^(a-1) / (2^(2a-1) B(a, a)), for each of d - j rows below column j.
        constant = (2 * shapes - 1) * np.log(2.0) + special.betaln(shapes, shapes)
        total = -np.dot(np.arange(self.order - 1, 0, -1), constant)
        return np.asarray(np.where(inside, total + (self.eta - 1) * log_det, -np.inf))

    def rvs(self, size: int = 1, random_state: np.random.Generator | int | None = None) -> Array:
        """Draws (size, pairs) of the entries above the diagonal."""
        rng = np.random.default_rng(random_state)
        lower = np.tril_indices(self.order, -1)
        shapes = self._shapes()[lower[1]]
        # A small shape piles draws up at the ends, where a double is 0 or 1 itself.
        z = 2 * np.clip(rng.beta(shapes, shapes, (size, len(shapes))), 1e-12, 1 - 1e-12) - 1
        return entries_of(factor_of(z, self.order))

    def _shapes(self) -> Array:
        return self.eta + (self.order - 2 - np.arange(self.order - 1)) / 2


def pair_labels(name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """What the entries above the diagonal are called: correlation[a, b]."""
    return tuple(f"{name}[{first}, {other}]" for first, other in itertools.combinations(columns, 2))


def matrix_of(entries: Array, order: int) -> Array:
    """The matrices (K, d, d) whose entries above the diagonal are given (K, pairs)."""
    found = np.zeros((len(entries), order, order))
    found[:, *np.triu_indices(order, 1)] = entries
    return np.asarray(found + found.swapaxes(-1, -2) + np.eye(order))


def smallest_eigenvalue(entries: Array) -> Array:
    """Of each matrix (K,), by its entries above the diagonal."""
    order = round((1 + math.sqrt(1 + 8 * entries.shape[1])) / 2)
    return np.asarray(np.linalg.eigvalsh(matrix_of(entries, order))[:, 0])


def cholesky(matrices: Array) -> Array:
    """Factors (K, d, d) with ones on the diagonal of L L'; a pivot is a tiny number where a matrix is not positive."""
    factor = np.zeros_like(matrices)
    for j in range(matrices.shape[-1]):
        left = matrices[:, j, j] - np.square(factor[:, j, :j]).sum(axis=-1)
        pivot = np.sqrt(np.maximum(left, LEAST))
        below = matrices[:, j + 1 :, j] - np.einsum("kic,kc->ki", factor[:, j + 1 :, :j], factor[:, j, :j])
        factor[:, j, j] = pivot
        factor[:, j + 1 :, j] = np.where(left[:, None] > LEAST, below / pivot[:, None], 0.0)
    return factor


def factor_of(z: Array, order: int) -> Array:
    """The Cholesky factor (K, d, d) of canonical partial correlations z (K, pairs), row by row below the diagonal."""
    factor = np.zeros((len(z), order, order))
    factor[:, *np.tril_indices(order, -1)] = z
    left = np.ones((len(z), order))  # prod_{k<j} (1 - z_ik^2), of every row at once
    for j in range(order):
        partial = factor[:, :, j].copy()
        factor[:, :, j] = partial * np.sqrt(left)
        factor[:, j, j] = np.sqrt(left[:, j])
        left = left * (1 - partial) * (1 + partial)
    return factor


def entries_of(factor: Array) -> Array:
    """The entries (K, pairs) above the diagonal of L L'."""
    matrices = factor @ factor.swapaxes(-1, -2)
    return np.asarray(matrices[:, *np.triu_indices(factor.shape[-1], 1)])


def partials_of(entries: Array, order: int) -> Array:
    """Canonical partial correlations (K, pairs) of matrices by their entries; NaN where a matrix is not positive."""
    factor = cholesky(matrix_of(entries, order))
    z = np.zeros_like(factor)
    left = np.ones(factor.shape[:2])
    with np.errstate(divide="ignore", invalid="ignore"):
        for j in range(order):
            z[:, :, j] = factor[:, :, j] / np.sqrt(left)
            left = left - np.square(factor[:, :, j])
    is_positive = np.square(np.diagonal(factor, axis1=-2, axis2=-1)).min(axis=-1) > FLOOR
    below = z[:, *np.tril_indices(order, -1)]
    return np.asarray(np.where(is_positive[:, None], below, np.nan))


def log_slope(u: Array, order: int) -> Array:
    """log |d R / d u| (K,), z = tanh u: the triangular Jacobian above, and dz/du = 1 - z^2 = 1/cosh^2 u."""
    log_left = np.zeros((len(u), order, order))
    # log(1 - tanh^2 u) = 2 log 2 - 2|u| - 2 log(1 + e^(-2|u|)), which does not round to log 0.
    away = np.abs(u)
    log_left[:, *np.tril_indices(order, -1)] = 2 * (np.log(2.0) - away - np.log1p(np.exp(-2 * away)))
    before = np.cumsum(log_left, axis=-1) - log_left  # sum over k < j, of every row i
    log_pivot = 0.5 * log_left.sum(axis=-1)
    rows, others = np.tril_indices(order, -1)
    return np.asarray((log_pivot[:, others] + 0.5 * before[:, rows, others] + log_left[:, rows, others]).sum(axis=-1))
