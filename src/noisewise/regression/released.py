"""Moments of the covariates as the holders published them: `covariates="released"`.

Releases of Moments(..., fourth=True) hold noisy sums of x_a x_b and x_a x_b x_c x_d; divided by the number of rows they
are taken for the moments of ([1,] x), of which no law is then assumed. Noise can make them the moments of no law at
all, so the matrix of E (x_a x_b)(x_c x_d) is moved to the nearest one with no negative variance.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from noisewise.errors import Unsupported
from noisewise.regression.pooled import moment_matrix
from noisewise.regression.problem import Floats, GivenX, Holder

FLOOR = 1e-6  # of the largest variance
ROUNDS = 50


def released_moments(holders: Sequence[Holder], *, intercept: bool, asked_by: str = "covariates='released'") -> GivenX:
    """Second and fourth moments of ([1,] x) in working units, from all holders that released them."""
    able = [holder for holder in holders if holder.fourth and holder.block == 1]
    if not able:
        raise Unsupported(
            f"{asked_by} needs the fourth moments of the covariates, and no holder published them. Release "
            "Moments(..., fourth=True), or give covariates=GivenMoments(...) or NormalCovariates(...) and use method "
            "'marginal'."
        )
    n = sum(holder.n for holder in able)
    size = len(able[0].map) - 1
    second, fourth = np.zeros((size,) * 2), np.zeros((size,) * 4)
    for holder in able:
        two, four = _sums(holder, intercept=intercept, asked_by=asked_by)
        back = np.linalg.inv(holder.map[:-1, :-1])
        second += back @ two @ back.T / n
        fourth += np.einsum("abcd,ia,jb,kc,ld->ijkl", four, *(back,) * 4, optimize=True) / n
    return _possible(second, fourth)


def _sums(holder: Holder, *, intercept: bool, asked_by: str) -> tuple[Floats, Floats]:
    """The noisy sums of products of two and of four entries, in the holder's own units."""
    size = len(holder.map) - 1
    two = moment_matrix(holder, size + 1, intercept=intercept)[:-1, :-1]
    four = np.empty((size,) * 4)
    for indices in itertools.product(range(size), repeat=4):
        a, b, c, d = sorted(indices)
        is_lower = intercept and b == 0  # 1 * 1 * x_c * x_d
        four[indices] = two[c, d] if is_lower else holder.fourth[a, b, c, d][0]
    if np.isnan(two).any():
        raise Unsupported(f"{asked_by} needs the part 'xx' of Moments.")
    return two, four


def _possible(second: Floats, fourth: Floats) -> GivenX:
    """The nearest moments with no negative variance, by alternating projections."""
    size = len(second)
    values, vectors = np.linalg.eigh(second)
    two = (vectors * np.maximum(values, FLOOR * values[-1])) @ vectors.T
    outer = np.outer(two.ravel(), two.ravel())
    four = fourth
    for _ in range(ROUNDS):
        values, vectors = np.linalg.eigh(four.reshape(size**2, -1) - outer)
        if values[0] >= -1e-10 * values[-1]:
            break
        raised = (vectors * np.maximum(values, 0.0)) @ vectors.T + outer
        four = _symmetric(raised.reshape((size,) * 4))
    return GivenX(two, four)


def _symmetric(tensor: Floats) -> Floats:
    """The mean over all orders of the four indices."""
    orders = list(itertools.permutations(range(4)))
    return np.asarray(sum(np.transpose(tensor, order) for order in orders) / len(orders))
