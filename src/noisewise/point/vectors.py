"""Private estimates of several numbers at once, under the sum of their squared errors.

A finite model may have parameter points theta_i in m dimensions (a joint lattice, or any cloud of points). Given a
value s of the statistic the loss of an answer a is that of its distance from the mean of theta,
    E[|theta - a|^2 | s] = |E[theta | s] - a|^2 + sum_j Var(theta_j | s),
so that P(s), the means (S, m) and the summed variances are all a decision needs. The estimator is the linear program of
`program` over a list of answers; where any answer is allowed it is solved again with the Bayes answers of its own
columns until these no longer help, which lowers the risk from round to round. How far it then is from the best of *all*
private estimators is not known; of listed answers the program's own dual value is a bound. Rows are made exact, and
checked, by `exact_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.point import program
from noisewise.point.exact_rows import exact_rows
from noisewise.populations.parameters import Array

__all__ = [
    "VectorRows",
    "bayes_answers",
    "possible_columns",
    "refuse_vector",
    "solved_matrix",
    "squared_costs",
    "vector_rows",
]

NEVER = 1e-9  # a column whose probabilities are all below this is the solver's way to write 0
ROUNDS = 5
CLOSE = 1e-6  # a round that lowers the risk by less than this share of it is the last
LISTED = "No private estimator that gives one of {count} answers has a Bayes risk below {bound:.6g}."
Pairs = Sequence[tuple[int, int]]


class VectorRows(NamedTuple):
    """Exact rows, their largest ratio, the answers (A, m), the Bayes risk, and a bound on it where there is one."""

    rows: tuple[tuple[Fraction, ...], ...]
    largest_ratio: Fraction
    actions: Array
    risk: float
    bound: float | None
    because: str


def vector_rows(
    theta: Array, prior: Array, likelihood: Array, neighbours: Pairs, epsilon: Fraction, *, actions: ArrayLike | None
) -> VectorRows:
    """Estimate all m numbers of theta (I, m), from P(s | theta) (S, I); `actions` (A, m) lists the only answers."""
    joint = likelihood * prior
    weights = joint.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        given = np.where(weights[:, None] > 0, joint / weights[:, None], prior)
    mean = given @ theta
    variance = (given @ np.square(theta) - np.square(mean)).clip(0).sum(axis=1)
    rate, bound, because = float(epsilon), None, program.CHOSEN
    if actions is None:
        one, other = np.array(neighbours).T
        graph = csr_array((np.ones(len(one)), (one, other)), shape=(len(weights), len(weights)))
        distance = shortest_path(graph, method="D", unweighted=True, directed=False)
        near = [np.exp(-rate * share * distance) for share in (0.5, 1.0, 2.0)]  # 0 between parts that never meet
        begun = np.concatenate([prior[None] @ theta, mean, *(bayes_answers(weights, mean, one) for one in near)])
        matrix = solved_matrix(weights, mean, variance, neighbours, rate, np.unique(begun, axis=0))
        chosen = bayes_answers(weights, mean, matrix)
    else:
        listed = _listed(actions, theta.shape[1])
        solution = program.solve(squared_costs(weights, mean, variance, listed), neighbours, rate)
        used = solution.matrix.max(axis=0) > NEVER
        matrix, chosen, bound = solution.matrix[:, used], listed[used], float(solution.prices.sum())
        because = LISTED.format(count=len(listed), bound=bound)
    costs = squared_costs(weights, mean, variance, chosen)
    rows, ratio = exact_rows(matrix, neighbours, epsilon, spare=int(np.argmin(costs.sum(axis=0))))
    risk = float((np.array([[float(p) for p in row] for row in rows]) * costs).sum())
    return VectorRows(rows, ratio, chosen, risk, bound, because)


def squared_costs(weights: Array, mean: Array, variance: Array, actions: Array) -> Array:
    """P(s) E[|theta - a|^2 | s], (S, M)."""
    distance = ((mean[:, None, :] - actions[None, :, :]) ** 2).sum(axis=-1)
    return np.asarray(weights[:, None] * (variance[:, None] + distance))


def possible_columns(matrix: Array) -> Array:
    """The columns that some value gives a probability above a solver's way to write 0."""
    return np.asarray(matrix[:, matrix.max(axis=0) > NEVER])


def bayes_answers(weights: Array, mean: Array, matrix: Array) -> Array:
    """The posterior mean given each output, (Z, m)."""
    joint = weights[:, None] * matrix
    return np.asarray(joint.T @ mean / joint.sum(axis=0)[:, None])


def solved_matrix(
    weights: Array, mean: Array, variance: Array, neighbours: Pairs, epsilon: float, begun: Array
) -> Array:
    """The matrix of the program, solved again with the Bayes answers of its own columns until they no longer help.

    Bayes answers are no worse than those a column was solved with, so the risk falls from round to round.
    """
    actions, previous = begun, np.inf
    for _ in range(ROUNDS):
        costs = squared_costs(weights, mean, variance, actions)
        matrix = possible_columns(program.solve(costs, neighbours, epsilon).matrix)
        better = bayes_answers(weights, mean, matrix)
        risk = float((matrix * squared_costs(weights, mean, variance, better)).sum())
        if previous - risk <= CLOSE * risk:
            break
        actions, previous = np.concatenate([begun, better]), risk
    return matrix


def _listed(given: ArrayLike, size: int) -> Array:
    try:
        actions = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        actions = np.array(np.nan)
    if actions.ndim != 2 or actions.shape[1] != size or not len(actions) or not np.all(np.abs(actions) <= 1e100):
        raise InvalidArgument(
            f"actions must be a list of answers of {size} finite numbers each, as theta has them.", argument="actions"
        )
    return np.unique(actions, axis=0)


def refuse_vector(dimensions: int, what: str) -> None:
    """Refuse parameter points of several numbers where one is needed."""
    if dimensions > 1:
        raise Unsupported(
            f"{what} is about one number, and theta has several. Ask for one of them, as in "
            "estimand=lambda theta: theta[:, 0]."
        )
