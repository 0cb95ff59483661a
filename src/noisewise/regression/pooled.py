"""The holders' noisy moment matrices, added up in working units.

A holder's rows are R w, so its T is R (sum of w w') R', and the sum over holders is sum_j R_j^-1 T_j R_j'^-1. Methods
that take the noisy sums for the true ones need nothing else.
"""

from __future__ import annotations

import numpy as np

from noisewise.errors import Unsupported
from noisewise.regression.problem import Floats, Holder, Problem


def moment_matrix(holder: Holder, m: int, *, intercept: bool) -> Floats:
    """The noisy T (m, m) of one holder in its own units; NaN where a product was not released."""
    matrix = np.full((m, m), np.nan)
    if intercept:
        matrix[0, 0] = holder.n * holder.block
    a, b = holder.pairs.T
    matrix[a, b] = matrix[b, a] = holder.observed
    for (i, j), (slope, constant) in holder.implied.items():
        matrix[i, j] = matrix[j, i] = (slope * matrix[0, j] if slope else 0.0) + constant * holder.n
    return matrix


def pooled_moments(problem: Problem, *, needs_response: bool = True) -> Floats:
    """sum over holders of T (m, m) in working units; without `needs_response` y'y may be missing (and is then NaN)."""
    total = np.zeros((problem.m, problem.m))
    for holder in problem.holders:
        matrix = moment_matrix(holder, problem.m, intercept=problem.intercept)
        missing = np.isnan(matrix)
        if missing[:-1].any() or (needs_response and missing[-1, -1]):
            needed = "'xx', 'xy' and 'yy'" if needs_response else "'xx' and 'xy'"
            raise Unsupported(f"This method needs the parts {needed} of Moments from every holder; use 'marginal'.")
        if missing[-1, -1]:  # the shape of R^-1 keeps y'y out of the other entries
            matrix[-1, -1] = 0.0
        back = np.linalg.inv(holder.map)
        total += back @ matrix @ back.T
        if missing[-1, -1]:
            total[-1, -1] = np.nan
    return np.asarray((total + total.T) / 2)


def rows_of(problem: Problem) -> int:
    """Rows in all (blocks of them, where they are averaged)."""
    return sum(holder.n for holder in problem.holders)
