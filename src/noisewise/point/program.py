"""The best private estimator as a linear program, for any finite model and loss.

    minimise   sum_{s,j} c[s, j] P[s, j]                          c[s, j] = P(s) E[L(g, action_j) | s]
    subject to a P[s, j] <= P[s', j] for neighbours s, s', both ways,  sum_j P[s, j] = 1,  P >= 0,   a = e^-epsilon
(Lakshminarayanan & Rojas, A unified approach to differentially private Bayes point estimation, equation 11, with the
observations as rows). The dual values of the row sums are the prices of `duality`. The solver's answer is a float
matrix that is private only up to its tolerance; `exact_rows` repairs it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from noisewise.errors import Unsupported
from noisewise.populations.parameters import Array

MOST_ENTRIES = 2_000_000  # of the program's matrix
TOLERANCE = 1e-9
CHOSEN = "A linear program chose among many answers; how much better an estimator with others can be is not known."


class Solution(NamedTuple):
    """The solver's matrix (S, A), the dual values of its row sums (S,), and its risk."""

    matrix: Array
    prices: Array
    risk: float


def solve(costs: Array, neighbours: Sequence[tuple[int, int]], epsilon: float) -> Solution:
    """Solve the program for costs c (S, A), by HiGHS."""
    import highspy

    size, answers = costs.shape
    if size * answers + 4 * len(neighbours) * answers > MOST_ENTRIES:
        raise Unsupported(
            f"The linear program of {size} values and {answers} answers, with {len(neighbours)} neighbouring pairs, is "
            f"too large: more than {MOST_ENTRIES} entries. Give fewer answers (grid=...), or method='geometric'."
        )
    # Rows of P sum to 1, so a constant taken from each row of the costs, and their scale, can be put back after.
    least = costs.min(axis=1)
    scale = float((costs - least[:, None]).max()) or 1.0
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(tolerance, TOLERANCE)
    solver.passModel(_model(highspy, (costs - least[:, None]) / scale, neighbours, epsilon))
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise Unsupported(f"The linear program was not solved: {solver.modelStatusToString(status)}.")
    found = solver.getSolution()
    matrix = np.array(found.col_value).reshape(size, answers)
    prices = scale * np.array(found.row_dual)[:size] + least
    return Solution(matrix, prices, float((costs * matrix).sum()))


def _model(highspy: Any, costs: Array, neighbours: Sequence[tuple[int, int]], epsilon: float) -> Any:
    """Rows 0..S-1: sums that are 1; then for every ordered neighbouring pair and answer, P[s', j] - a P[s, j] >= 0."""
    size, answers = costs.shape
    places = np.arange(size * answers).reshape(size, answers)
    both_ways = [pair for one, other in neighbours for pair in ((one, other), (other, one))]
    pairs = np.stack([places[[other for _, other in both_ways]], places[[one for one, _ in both_ways]]], axis=-1)
    count = pairs.size // 2
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = size * answers, size + count
    model.col_cost_ = costs.ravel()
    model.col_lower_, model.col_upper_ = np.zeros(size * answers), np.full(size * answers, highspy.kHighsInf)
    model.row_lower_ = np.concatenate([np.ones(size), np.zeros(count)])
    model.row_upper_ = np.concatenate([np.ones(size), np.full(count, highspy.kHighsInf)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.concatenate([np.arange(size) * answers, size * answers + 2 * np.arange(count + 1)])
    model.a_matrix_.index_ = np.concatenate([places.ravel(), pairs.ravel()])
    model.a_matrix_.value_ = np.concatenate([np.ones(size * answers), np.tile([1.0, -math.exp(-epsilon)], count)])
    return model
