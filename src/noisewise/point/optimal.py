"""The best private point estimate: the one estimator that no epsilon-private mechanism beats on average.

    estimator = optimal_estimator(Bernoulli(p=stats.beta(2, 2)), "squared", guarantee=PureDP(1), n=10)

For a count, geometric noise and the Bayes action are exactly that (`geometric`), where the conditions of the theorem
hold; `duality` decides the other cases by a bound on every private estimator, and a linear program (`program`) answers
those where something better exists. Either way the matrix that is released is one of Fractions, private by arithmetic
(`exact_rows`), and the certificate says how far from the best it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from noisewise.deprecation import by_name
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.point import duality, geometric, program
from noisewise.point.belief import PointBelief
from noisewise.point.estimator import Certificate, Estimator, gap_between, pure_guarantee
from noisewise.point.exact_rows import exact_rows
from noisewise.point.losses import Loss, read_loss
from noisewise.point.models import FiniteModel, Problem, read_problem
from noisewise.point.simplex import dirichlet_alpha, table_estimator
from noisewise.point.vectors import vector_rows
from noisewise.populations.parameters import Array
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee, PureDP

METHODS = ("auto", "geometric", "program")
MOST_EXACT = 50_000  # entries of a matrix of Fractions: counts of 222 records
MOST_CHECKED = 2**22  # pairs of a value and an output, where optimality has to be checked: 2000 records
GRID = 101
CHECKED = 20  # actions at which a bound is checked, for each action of the grid
ROUNDS = 6
CLOSE = 1e-6  # a gap below this share of the risk counts as none
NEVER = 1e-9  # a column whose probabilities are all below this is the solver's way to write 0

PROVED = "No private estimator has a smaller Bayes risk: the loss is ordered and the belief monotone in the count."
BOUNDED = (
    "No private estimator whose answers are among {count} numbers from {low:.6g} to {high:.6g} has a Bayes risk below "
    "{bound:.6g}, by duality."
)
PARTS = " Values that no chain of neighbours joins are not hidden from each other."
SAMPLED = (
    " Expected losses are sums over {count} points of the prior, {spacing:.1e} apart on average: exact to many digits "
    "for a smooth loss; for one with steps, off by the probability that the truth is within one spacing of a step."
)
NOISE = "The loss is ordered and the belief monotone in the count: no other private noise is better."
LISTED = "No private estimator that gives one of {count} answers has a Bayes risk below {bound:.6g}."


@by_name(
    "guarantee", write="optimal_estimator(model, 'squared', guarantee=PureDP(1))", places=("model", "loss", "guarantee")
)
def optimal_estimator(
    model: object,
    loss: object,
    *,
    guarantee: Guarantee,
    n: int | None = None,
    statistic: object = None,
    schema: object = None,
    estimand: Callable[[Array], Any] | None = None,
    actions: ArrayLike | None = None,
    grid: int = GRID,
    method: str = "auto",
) -> Estimator:
    """The epsilon-private estimator of smallest Bayes risk.

    Parameters
    ----------
    model
        A Bernoulli population with n= records, of which the ones are counted (the second of two levels); any
        population with one unknown, with the Count and the schema that are released; a Categorical population with n=;
        or a `FiniteModel`, also of a parameter of several numbers (loss "squared", summed over them).
    loss
        "squared", "absolute", ("pinball", q), ("window", h) or a function loss(truth, answer) of arrays.
    guarantee
        PureDP(epsilon).
    n
        The number of records, of a population. Default None.
    statistic, schema
        The Count and the schema that are released. Default None.
    estimand
        A function of the parameter. Default None: the parameter itself.
    actions
        The only answers allowed. Default None: any may be one.
    grid
        How many answers a program begins with. Default 101.
    method
        "auto" (default); "geometric" and "program" insist on one way.

    Returns
    -------
    Estimator
        Its risk with a certificate, and exact rows through which a holder can release.

    Examples
    --------
    >>> best = nw.optimal_estimator(nw.Bernoulli(p=stats.uniform()), "squared", guarantee=nw.PureDP(1), n=10)
    >>> round(best.risk, 5)
    0.02324
    """
    pure = pure_guarantee(guarantee, "an optimal estimator")
    if method not in METHODS:
        raise InvalidArgument(f"method = {shown(method)}; there are {', '.join(METHODS)}.", argument="method")
    points = integer(grid, "grid", minimum=2, maximum=100_000)
    wanted = read_loss(loss)
    alpha = dirichlet_alpha(model)
    if alpha is not None:
        if wanted.name != "squared" or any(given is not None for given in (statistic, schema, estimand, actions)):
            raise Unsupported(
                "For a table of counts the loss is 'squared', summed over the cells, of their probabilities; write "
                "anything else as a FiniteModel."
            )
        return table_estimator(alpha, n, pure, method=method, answers=points)
    if isinstance(model, FiniteModel) and model.theta.ndim == 2 and estimand is None:
        if wanted.name != "squared" or method == "geometric" or (n, statistic, schema) != (None, None, None):
            raise Unsupported(
                "Several numbers are estimated under the loss 'squared', summed over them, by a program, of a "
                "FiniteModel that says everything itself; for one of them give estimand=lambda theta: theta[:, 0]."
            )
        return _of_several(model, pure, actions)
    problem = read_problem(model, wanted, n=n, statistic=statistic, schema=schema, estimand=estimand)
    allowed = None if actions is None else _allowed(actions)
    if method == "geometric" or (method == "auto" and problem.is_path and allowed is None):
        found = _by_noise(problem, wanted, pure, is_asked=method == "geometric", is_free=allowed is None)
        if found is not None:
            return found
    return _by_program(problem, wanted, pure, allowed, points)


def _of_several(model: FiniteModel, guarantee: PureDP, actions: ArrayLike | None) -> Estimator:
    """The estimator of a parameter of several numbers."""
    found = vector_rows(
        model.theta, model.prior, model.likelihood, model.neighbours, guarantee.epsilon, actions=actions
    )
    gap = None if found.bound is None else gap_between(found.risk, found.bound)
    certificate = Certificate(guarantee, found.largest_ratio, found.bound, gap, found.because)
    return Estimator(found.actions, found.risk, "squared", "program", certificate, len(found.rows), found.rows)


def _by_noise(problem: Problem, loss: Loss, guarantee: PureDP, *, is_asked: bool, is_free: bool) -> Estimator | None:
    """Geometric noise and the Bayes action, if it is optimal or was asked for."""
    if not problem.is_path or not is_free:
        raise Unsupported(
            "method='geometric' is for statistics that move by one, with any number as an answer; use 'program'."
        )
    epsilon, belief = float(guarantee.epsilon), problem.belief
    actions, risk = geometric.decide(loss, belief, epsilon)
    bound: float | None
    if loss.is_ordered and belief.is_monotone:
        bound, because = (None, NOISE) if problem.is_sampled else (risk, PROVED)
    else:
        if problem.size**2 > MOST_CHECKED:
            raise Unsupported(
                f"Whether noise is optimal cannot be checked for {problem.size} values; count fewer records."
            )
        prices = geometric.prices(loss, belief, epsilon, actions)
        checked = _checked_actions(problem, loss, actions, GRID)
        bound = duality.lower_bound(_costs(problem, loss, checked), prices, epsilon)
        if risk - bound > CLOSE * abs(risk) and not is_asked:
            return None
        because = BOUNDED.format(bound=bound, count=len(checked), low=checked[0], high=checked[-1])
    because += _reservations(problem)
    exact, ratio = None, None
    if problem.size**2 <= MOST_EXACT:
        law = np.exp(geometric.log_geometric(problem.size, epsilon, np.arange(problem.size)))
        exact, ratio = exact_rows(law, problem.neighbours, guarantee.epsilon, spare=problem.size // 2)
    certificate = Certificate(guarantee, ratio, bound, None if bound is None else gap_between(risk, bound), because)
    return Estimator(actions, risk, loss.name, "geometric", certificate, problem.size, exact)


def _by_program(problem: Problem, loss: Loss, guarantee: PureDP, allowed: Array | None, points: int) -> Estimator:
    """The linear program; where any number may be an answer, answers are added until none would help."""
    if allowed is not None:
        return _solved(problem, loss, guarantee, allowed, is_free=False).estimator
    actions, best = np.linspace(*loss.reach(problem.belief), points), None
    for _ in range(ROUNDS):
        found = _solved(problem, loss, guarantee, actions, is_free=True)
        risk, gap, previous = found.estimator.risk, found.estimator.certificate.gap, best.risk if best else np.inf
        best = found.estimator if best is None or _is_better(found.estimator, best) else best
        # On a path the bound covers many more answers; elsewhere those listed: then the last ones must not have helped.
        if (previous - risk if gap is None else gap) <= CLOSE * abs(risk):
            break
        actions = np.unique(np.concatenate([actions, found.estimator.actions, found.missed]))
    assert best is not None
    return best


def _is_better(one: Estimator, other: Estimator) -> bool:
    """A smaller risk, or much the same one with a better bound."""
    if abs(one.risk - other.risk) > CLOSE * abs(other.risk) or one.certificate.gap is None:
        return one.risk < other.risk
    return other.certificate.gap is None or one.certificate.gap < other.certificate.gap


class _Round(NamedTuple):
    """The estimator of one program, and answers that it lacked and would use."""

    estimator: Estimator
    missed: Array


def _solved(problem: Problem, loss: Loss, guarantee: PureDP, actions: Array, *, is_free: bool) -> _Round:
    """Solve the program; where answers are free, take the Bayes action of every column and bound what others give."""
    epsilon = float(guarantee.epsilon)
    solution = program.solve(_costs(problem, loss, actions), problem.neighbours, epsilon)
    used = solution.matrix.max(axis=0) > NEVER
    matrix, chosen, missed = solution.matrix[:, used], actions[used], np.empty(0)
    among, words = actions, LISTED if problem.is_path or not is_free else program.CHOSEN
    bound: float | None = float(solution.prices.sum()) if words == LISTED else None
    if is_free:
        chosen = loss.best_actions(problem.belief, np.exp(problem.belief.log_weights)[:, None] * matrix)
    if is_free and problem.is_path:
        checked = _checked_actions(problem, loss, np.concatenate([actions, chosen]), len(actions))
        costs = _costs(problem, loss, checked)
        bound, among, words = duality.lower_bound(costs, solution.prices, epsilon), checked, BOUNDED
        missed = checked[duality.undercutting(costs, solution.prices, epsilon)]
    paid = _costs(problem, loss, chosen)
    spare = int(np.argmin(paid.sum(axis=0)))  # the best answer to nothing
    exact, ratio = exact_rows(matrix, problem.neighbours, guarantee.epsilon, spare=spare)
    risk = float((np.array([[float(p) for p in row] for row in exact]) * paid).sum())
    gap = None if bound is None else gap_between(risk, bound)
    because = words.format(bound=bound, count=len(among), low=among[0], high=among[-1])
    certificate = Certificate(guarantee, ratio, bound, gap, because + _reservations(problem))
    return _Round(Estimator(chosen, risk, loss.name, "program", certificate, problem.size, exact), missed)


def _costs(problem: Problem, loss: Loss, actions: Array) -> Array:
    """c(s, a) = P(s) E[L(g, a) | s], (S, M)."""
    return np.asarray(np.exp(problem.belief.log_weights)[:, None] * loss.expected(problem.belief, actions))


def _reservations(problem: Problem) -> str:
    """What the numbers of a certificate leave out."""
    said = PARTS if problem.parts > 1 else ""
    if problem.is_sampled and isinstance(problem.belief, PointBelief):
        low, high = problem.belief.range
        count = len(problem.belief.values)
        said += SAMPLED.format(count=count, spacing=(high - low) / count)
    return said


def _checked_actions(problem: Problem, loss: Loss, used: Array, points: int) -> Array:
    """Answers at which a bound is checked: a fine grid, those that are used, and what lies between them."""
    fine = np.linspace(*loss.reach(problem.belief), CHECKED * (points - 1) + 1)
    ordered = np.unique(used)
    return np.unique(np.concatenate([fine, ordered, (ordered[1:] + ordered[:-1]) / 2]))


def _allowed(given: ArrayLike) -> Array:
    try:
        is_number = not any(isinstance(answer, bool | np.bool_) for answer in np.asarray(given, dtype=object).flat)
        actions = np.asarray(given if is_number else np.nan, dtype=float)
    except (TypeError, ValueError, OverflowError):
        actions = np.array(np.nan)
    if actions.ndim != 1 or not actions.size or not np.all(np.abs(actions) <= 1e100):
        raise InvalidArgument("actions must be a list of finite numbers: the only answers allowed.",
                              argument="actions")  # fmt: skip
    return np.unique(actions)
