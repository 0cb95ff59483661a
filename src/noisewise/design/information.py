"""How much a release would tell: the Fisher information of a plan's *noisy* statistic, before any record is touched.

    F(theta) = E[score score'],     score = d log p(y | theta) / d theta,
p the law of the release with the privacy noise inside (Alparslan & Yıldırım 2022, section 3). A large F means a narrow
posterior: with n large its covariance is about the inverse of F plus the prior's precision. The law is the statistic's
own where that is affordable, as in inference, else the central limit theorem's:
    counts, two-cell tables, estimators, randomized response   exact, enumerated                    `counted`
    one sum of up to some hundred records                      exact, by its characteristic function `exact_sum`
    other sums and tables                                      normal, with the clamp in its moments `additive`
    local answers                                              exact, quadrature                     `local`
    median, maximum, minimum                                   exact, by a bank of base draws        `order`
`method="monte-carlo"` runs the published Monte Carlo algorithms instead (`monte_carlo`). Where no standard error is
reported the answer is closed, enumerated or by quadrature.

Parameters that are probabilities on a simplex count in their free coordinates, all but the last. Without `at`, F is
averaged over 64 fixed quasi-random draws from the prior (`coordinates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from noisewise.design.additive import NormalSumInformation
from noisewise.design.blank import blank_release, checked_plan, not_a_plan
from noisewise.design.coordinates import coordinate_names, given_rows, prior_rows
from noisewise.design.counted import CellInformation
from noisewise.design.exact_sum import ExactSumInformation
from noisewise.design.local import LocalInformation
from noisewise.design.monte_carlo import MonteCarloInformation
from noisewise.design.order import OrderInformation
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.joining import record_count
from noisewise.laws import Form
from noisewise.likelihood.exact_sum import ExactSum
from noisewise.likelihood.model import check_likelihood
from noisewise.likelihood.record_points import unlisted_records
from noisewise.models.protocol import Model, model_of, population_for
from noisewise.planning import Plan
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.printable import shown
from noisewise.statistics import Count, Histogram, Marginals, Records
from noisewise.statistics.order import OrderStatistic

MOST_DRAWS = 10_000_000


class Engine(Protocol):
    """One way to compute F for one plan."""

    @property
    def method(self) -> str: ...
    @property
    def is_exact(self) -> bool:
        """Whether the law is the statistic's own."""
        ...

    @property
    def shares_draws(self) -> bool:
        """Whether the Monte Carlo errors of different rows come from the same draws."""
        ...

    def rows(self, theta: Theta) -> tuple[Array, Array]:
        """F and its standard error, (K, P, P)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Information:
    """Fisher information of one plan, averaged over the parameter values `at`. Made by `information`.

    Attributes
    ----------
    matrix
        (P, P), rows and columns as in `parameters`.
    matrix_error
        The standard error of each entry; 0 where nothing was simulated.
    parameters
        The unknowns by name.
    method
        How it was computed.
    likelihood
        "exact" or "clt": whose law was used.
    at
        The parameter values.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> made = nw.plan(nw.Mean("income"), schema, guarantee=nw.GaussianDP(1))
    >>> nw.information(made, nw.Normal(mean=stats.norm(50, 20), sd=20), at={"mean": 50}).parameters
    ('mean',)
    """

    matrix: Array  # (P, P)
    matrix_error: Array  # (P, P), zero where nothing was simulated
    parameters: tuple[str, ...]
    method: str
    likelihood: str  # "exact" or "clt"
    at: Theta

    @property
    def value(self) -> float | Array:
        """A number for one unknown parameter, else the matrix."""
        return float(self.matrix[0, 0]) if len(self.parameters) == 1 else self.matrix

    @property
    def standard_error(self) -> float | Array:
        """Of `value`; 0 where nothing was simulated."""
        return float(self.matrix_error[0, 0]) if len(self.parameters) == 1 else self.matrix_error

    def __str__(self) -> str:
        rows = len(next(iter(self.at.values())))
        where = f"averaged over {rows} parameter values" if rows > 1 else "at " + ", ".join(
            f"{name} = {np.array2string(np.asarray(value)[0], precision=4)}" for name, value in self.at.items()
        )  # fmt: skip
        error = (
            f" (standard error {self.standard_error:.2g})"
            if np.ndim(self.value) == 0 and self.matrix_error.any()
            else ""
        )
        shown = f"{self.value:.6g}" if np.ndim(self.value) == 0 else np.array2string(self.matrix, precision=5)
        names = ", ".join(self.parameters)
        return f"information on {names}: {shown}{error}, {where}; {self.likelihood} law, {self.method}"


def information(
    plan: Plan,
    population: AnyPopulation,
    *,
    at: Any = None,
    method: str = "auto",
    likelihood: str = "auto",
    seed: object = None,
    n: object = None,
    draws: int | None = None,
) -> Information:
    """The Fisher information of a plan's release about the unknown parameters of a population.

    Parameters
    ----------
    plan
        What would be released.
    population
        What is believed of the records, with a prior for each unknown.
    at
        A number (or K numbers, averaged) for each unknown, by name. Default None: averaged over the prior.
    method
        "auto" (default), or "monte-carlo" for the published algorithms.
    likelihood
        "auto" (default) or "clt".
    seed
        Of whatever is simulated. Default None.
    n
        The number of records, where the plan keeps it private (add-remove).
    draws
        The size of whatever is simulated. Default None: large enough for a stated standard error.

    Returns
    -------
    Information
        The matrix with its standard errors.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> count = nw.plan(nw.Count(nw.column("smokes").equals("yes")), schema, guarantee=nw.PureDP(1))
    >>> round(nw.information(count, nw.Bernoulli(p=stats.uniform()), at={"p": 0.3}).value, 1)
    2339.9
    """
    population = cast(AnyPopulation, population_for(population, [plan]))
    names = coordinate_names(population)
    theta = prior_rows(population) if at is None else given_rows(population, at)
    engine = engine_for(plan, population, method=method, likelihood=likelihood, seed=seed, n=n, draws=draws)
    matrices, errors = _checked(engine, theta)
    rows = len(matrices)
    error = errors.mean(axis=0) if engine.shares_draws else np.sqrt(np.square(errors).sum(axis=0)) / rows
    law = "exact" if engine.is_exact else "clt"
    return Information(matrices.mean(axis=0), error, names, engine.method, law, theta)


def information_rows(
    plan: Plan,
    population: AnyPopulation,
    theta: Theta,
    *,
    method: str = "auto",
    likelihood: str = "auto",
    seed: object = None,
    n: object = None,
    draws: int | None = None,
) -> tuple[Array, Array]:
    """F and its standard error at each of K parameter values, (K, P, P)."""
    coordinate_names(population)
    engine = engine_for(plan, population, method=method, likelihood=likelihood, seed=seed, n=n, draws=draws)
    return _checked(engine, given_rows(population, theta))


def engine_for(
    plan: object,
    population: AnyPopulation | Model,
    *,
    method: str = "auto",
    likelihood: str = "auto",
    seed: object = None,
    n: object = None,
    draws: int | None = None,
) -> Engine:
    """The way to compute F that the plan's structure asks for."""
    check_likelihood(likelihood)
    if method not in ("auto", "monte-carlo"):
        raise InvalidArgument(f"method = {shown(method, 40)}: it is 'auto' or 'monte-carlo'.", argument="method")
    if draws is not None:
        draws = integer(draws, "draws", minimum=72, maximum=MOST_DRAWS)
    if seed is not None:
        integer(seed, "seed", minimum=0)
    if not isinstance(plan, Plan):
        raise not_a_plan(plan)
    return model_of(population).information_engine(
        plan, method=method, likelihood=likelihood, n=n, seed=seed, draws=draws
    )


def population_engine(
    plan: Plan,
    population: AnyPopulation,
    *,
    method: str,
    likelihood: str,
    seed: object,
    n: object,
    draws: int | None,
) -> Engine:
    """That of a population, by the plan's structure."""
    made = checked_plan(plan)
    size = record_count(made.part_schema, n)
    statistic, law = made.statistic, made.law
    is_sum = not isinstance(statistic, Records | OrderStatistic) and law.form is not Form.ACTION
    if likelihood == "clt" and not is_sum:
        raise Unsupported("likelihood='clt' needs sums, means, counts or tables; use likelihood='auto'.")
    if unlisted_records(population) and not is_sum and law.form is not Form.CELL:
        raise Unsupported(
            f"How much {statistic!s:.80} would tell of a population that is known by its draws alone cannot be said: "
            "of a Simulator the information of sums, means, counts, tables and answers in cells is known."
        )
    is_clt = is_sum and (likelihood == "clt" or not _is_exact(made, population, size))
    if method == "monte-carlo":
        return MonteCarloInformation(made, population, n=size, is_clt=is_clt, seed=seed, draws=draws)
    if is_clt:
        return NormalSumInformation(made, population, n=size, seed=seed, draws=draws)
    if isinstance(statistic, OrderStatistic):
        return OrderInformation(made, population, seed=seed, draws=draws)
    if isinstance(statistic, Records) and law.form is not Form.CELL:
        return LocalInformation(made, population, n=size)
    if isinstance(statistic, Count | Histogram | Marginals | Records):
        return CellInformation(made, population, n=size)
    return ExactSumInformation(made, population, n=size)


def _is_exact(plan: Plan, population: AnyPopulation, n: int) -> bool:
    """Whether a sum's own law is affordable."""
    if isinstance(plan.statistic, Count):
        return True
    if isinstance(plan.statistic, Histogram | Marginals):
        return CellInformation.is_affordable(plan, n=n)
    if unlisted_records(population):
        return False
    return ExactSum.refusal(blank_release(plan), population, n=n) is None


def _checked(engine: Engine, theta: Theta) -> tuple[Array, Array]:
    matrices, errors = engine.rows(theta)
    if not np.all(np.isfinite(matrices)):
        k = int(np.flatnonzero(~np.isfinite(matrices).all(axis=(1, 2)))[0])
        where = ", ".join(f"{name} = {np.asarray(value)[k]}" for name, value in theta.items())
        raise Unsupported(
            f"The information is not a finite number at {where}. There the law of the release does not vary smoothly; "
            "give parameter values with at=."
        )
    return matrices, errors
