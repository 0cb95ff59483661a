"""What is known before any record: a population and a count, or a finite model written out.

    Bernoulli(p=stats.beta(2, 2)), n=10                     the count of ones among n records
    Normal(mean=stats.norm(0, 1), sd=1), statistic, schema  any count of records with one unknown parameter
    FiniteModel(theta, prior, likelihood, neighbours)       any finite statistic: P(s | theta), and its neighbours

Each becomes a `Problem`: the belief given s, and the pairs of values that one person's record can turn into each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.joining import refuse_absent_values
from noisewise.laws.finite import adjacent
from noisewise.likelihood.conjugate import beta_shapes
from noisewise.point.belief import (
    Belief,
    BetaBelief,
    PointBelief,
    binomial_belief,
    estimand_values,
)
from noisewise.point.losses import Custom, Loss, Window
from noisewise.point.panels import PriorPanels
from noisewise.point.vectors import refuse_vector
from noisewise.populations.cleaned import attach, cell_probabilities
from noisewise.populations.distribution import BernoulliLaw
from noisewise.populations.parameters import Array, missing_members
from noisewise.populations.population import AnyPopulation, Population
from noisewise.printable import shown
from noisewise.schema import Schema, checked_schema
from noisewise.statistics import Count

MOST_RECORDS = 10**6
Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Problem:
    """The belief given each value of the statistic, and the values that are neighbours."""

    belief: Belief
    neighbours: tuple[tuple[int, int], ...]
    is_sampled: bool = False  # a continuous law is held as points, and the loss has steps, or may have
    is_path: bool = field(init=False)  # neighbours are exactly the values that follow each other
    parts: int = field(init=False)  # groups of values that no chain of neighbours joins

    def __post_init__(self) -> None:
        path = tuple(adjacent(self.size))
        is_path = self.neighbours == path or {(min(pair), max(pair)) for pair in self.neighbours} == set(path)
        object.__setattr__(self, "is_path", is_path)
        object.__setattr__(self, "parts", 1 if is_path else _parts(self.neighbours, self.size))

    @property
    def size(self) -> int:
        return len(self.belief.log_weights)


@dataclass(frozen=True, slots=True, init=False, eq=False)
class FiniteModel:
    """A model written out: everything that an optimal estimator needs to know, in finite tables.

    Parameters
    ----------
    theta
        Parameter points (I,), or (I, m) where a parameter has several numbers.
    prior
        Their probabilities (I,).
    likelihood
        P(s | theta), (S, I): one row for each value s of the statistic. Of a count of n records S is n + 1.
    neighbours
        Pairs (s, t) of values that one record can turn into each other. Default None: values that follow each other,
        as those of a count.

    Examples
    --------
    >>> coins = nw.FiniteModel(theta=[0.2, 0.7], prior=[0.5, 0.5], likelihood=[[0.8, 0.3], [0.2, 0.7]])
    >>> round(nw.optimal_estimator(coins, "squared", guarantee=nw.PureDP(1)).risk, 4)
    0.0592
    """

    theta: Array
    prior: Array
    likelihood: Array
    neighbours: tuple[tuple[int, int], ...]

    def __init__(
        self, *, theta: ArrayLike, prior: ArrayLike, likelihood: ArrayLike, neighbours: Pairs | None = None
    ) -> None:
        points = _points(theta)
        weights, law = _numbers(prior, "prior", 1), _numbers(likelihood, "likelihood", 2)
        if weights.shape != points.shape[:1] or law.shape[1] != len(points) or len(law) < 2:
            raise InvalidArgument(
                f"theta {points.shape}, prior {weights.shape} and likelihood {law.shape} do not fit together: expected "
                "(I,) or (I, m), (I,) and (S, I), with at least two values s of the statistic.",
                argument="likelihood",
            )
        for name, table in (("prior", weights), ("likelihood", law)):
            if np.any(table < 0) or not np.allclose(table.sum(axis=0), 1, rtol=0, atol=1e-9):
                wanted = "sum to 1" if name == "prior" else "have columns P(. | theta) that sum to 1"
                raise InvalidArgument(f"{name} must hold probabilities that {wanted}.", argument=name)
        object.__setattr__(self, "theta", points)
        object.__setattr__(self, "prior", weights / weights.sum())
        object.__setattr__(self, "likelihood", law)
        object.__setattr__(self, "neighbours", _pairs(neighbours, len(law)))


def read_problem(
    model: object,
    loss: Loss,
    *,
    n: int | None,
    statistic: object,
    schema: object,
    estimand: Callable[[Array], Any] | None,
) -> Problem:
    """The decision problem of a model."""
    if isinstance(model, FiniteModel):
        if n is not None or statistic is not None or schema is not None:
            raise InvalidArgument(
                "A FiniteModel says everything itself; leave n, statistic and schema out.", argument="n"
            )
        if estimand is None:
            refuse_vector(model.theta.ndim, "This estimate")
        values = estimand_values(estimand, model.theta)
        belief = PointBelief.of(values, model.prior, model.likelihood, is_monotone=False)
        return Problem(belief, model.neighbours)
    if statistic is None and schema is None:
        return _counted(_bernoulli(model), "p", lambda p: p, n, loss, estimand)
    if not isinstance(statistic, Count):
        raise InvalidArgument(
            f"statistic = {shown(statistic)}: an optimal estimator answers a Count, as in Count(column('smoker')"
            ".equals('yes')), together with its schema.",
            argument="statistic",
        )
    declared = checked_schema(schema)
    if not declared.is_change_one:
        raise Unsupported("An estimator of a count needs neighbours='change-one': its rows are the counts up to n.")
    refuse_absent_values(statistic, declared, "an estimator")
    if n is not None and n != declared.n:
        raise InvalidArgument(f"n = {shown(n)}, but the schema has n = {declared.n}; leave n out.", argument="n")
    law = _described(model, declared, statistic)
    name = law.free[0]

    def probability(theta: Array) -> Array:
        return np.asarray(cell_probabilities(law, declared, statistic, {name: theta})[:, 1])

    return _counted(law, name, probability, declared.n, loss, estimand)


def _counted(
    law: Population,
    name: str,
    probability: Callable[[Array], Array],
    n: object,
    loss: Loss,
    estimand: Callable[[Array], Any] | None,
) -> Problem:
    """A count of n records, each counted with probability(theta)."""
    if n is None:
        raise InvalidArgument("Give n, the number of records that are counted.", argument="n")
    records = integer(n, "n", minimum=1, maximum=MOST_RECORDS)
    prior = law.parameters.priors[name]
    neighbours = tuple(adjacent(records + 1))
    shapes = beta_shapes(prior)
    if shapes is not None and estimand is None and not isinstance(loss, Custom):
        at = np.array([0.2, 0.7])
        for is_complement in (False, True):
            if np.allclose(probability(at), 1 - at if is_complement else at, rtol=0, atol=1e-12):
                return _usable(Problem(BetaBelief.of(records, *shapes, is_complement=is_complement), neighbours))
    panels = PriorPanels.of(prior)
    theta, weights = panels.points()
    values = estimand_values(estimand, theta)
    belief = binomial_belief(records, probability(theta), weights, values, panels=panels if estimand is None else None)
    is_sampled = isinstance(loss, Custom) or (isinstance(loss, Window) and estimand is not None)
    return _usable(Problem(belief, neighbours, is_sampled=is_sampled))


def _usable(problem: Problem) -> Problem:
    """The problem, if its prior is one that floating-point numbers can follow."""
    belief = problem.belief
    with np.errstate(all="ignore"):
        is_usable = np.all(np.isfinite(belief.mean) & np.isfinite(belief.variance) & (belief.log_weights < np.inf))
    if not is_usable:
        raise InvalidArgument(
            "The prior of the unknown is too narrow or too wide to compute with: its posterior moments are not finite.",
            argument="model",
        )
    return problem


def _bernoulli(model: object) -> Population:
    if isinstance(model, Population) and isinstance(model.distribution, BernoulliLaw) and model.free == ("p",):
        return model
    raise InvalidArgument(
        f"model = {shown(model)}: expected Bernoulli(p=stats.beta(...)) with n=, Categorical(p=stats.dirichlet([...])) "
        "with n=, a population with one unknown together with statistic= and schema=, or a FiniteModel.",
        argument="model",
    )


def _described(model: object, schema: Schema, statistic: Count) -> Population:
    """The law of the one column that is counted, with one unknown number."""
    if lacks := missing_members(model, AnyPopulation):
        raise InvalidArgument(
            f"model = {shown(model)} is not a population: it lacks {', '.join(lacks)}.", argument="model"
        )
    laws = attach(cast(AnyPopulation, model), schema, statistic.condition.columns())
    if len(laws) != 1:
        raise Unsupported("An optimal estimator answers a count on one column.")
    (law,) = laws.values()
    if not law.free:
        raise InvalidArgument(
            "Nothing about the counted column is unknown, so there is nothing to estimate. Give one parameter a prior, "
            "as in bernoulli(p=beta(1, 1)).",
            argument="model",
        )
    if len(law.free) != 1 or law.free[0] not in law.parameters.priors or law.supports[law.free[0]].size is not None:
        raise Unsupported(
            f"The counted column has the unknowns {', '.join(law.free)}; an optimal estimator is about one "
            "unknown number. Give the others as numbers."
        )
    return law


def _numbers(value: ArrayLike, argument: str, dimensions: int) -> Array:
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array(np.nan)
    if numbers.ndim != dimensions or not numbers.size or not np.all(np.isfinite(numbers)):
        shape = "a list of numbers" if dimensions == 1 else "a table of numbers, one row a value of the statistic"
        raise InvalidArgument(f"{argument} must be {shape}, all finite.", argument=argument)
    return numbers


def _points(theta: ArrayLike) -> Array:
    """Parameter points: numbers, or rows of several."""
    try:
        return _numbers(theta, "theta", np.ndim(np.asarray(theta, dtype=float)) if np.ndim(theta) == 2 else 1)
    except (TypeError, ValueError, OverflowError) as fault:
        if isinstance(fault, InvalidArgument):
            raise
        return _numbers([np.nan], "theta", 1)


def _pairs(given: Pairs | None, size: int) -> tuple[tuple[int, int], ...]:
    if given is None:
        return tuple(adjacent(size))
    pairs = []
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping) or not list(given):
        raise InvalidArgument(
            f"neighbours = {shown(given)}: expected a list of pairs of values that one record can turn into each "
            "other, at least one; without any, nothing would be private. Leave it out for values that follow each "
            "other.",
            argument="neighbours",
        )
    for pair in given:
        if isinstance(pair, str) or not isinstance(pair, Iterable) or len(tuple(pair)) != 2:
            raise InvalidArgument(
                f"neighbours holds {shown(pair)}: expected pairs of values, as in (0, 1).", argument="neighbours"
            )
        one, other = (integer(end, "neighbours", minimum=0, maximum=size - 1) for end in pair)
        if one == other:
            raise InvalidArgument(
                f"neighbours holds ({one}, {other}): a value is no neighbour of itself.", argument="neighbours"
            )
        pairs.append((one, other))
    return tuple(pairs)


def _parts(neighbours: tuple[tuple[int, int], ...], size: int) -> int:
    one, other = np.array(neighbours).T
    return int(
        connected_components(coo_array((np.ones(len(one)), (one, other)), shape=(size, size)), directed=False)[0]
    )
