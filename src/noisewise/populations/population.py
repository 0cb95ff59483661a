"""Populations: the law records are drawn from, with known numbers and priors in place of its parameters.

    Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))      number = known, distribution = unknown
    Population(stats.weibull_min, c=2, loc=0, scale=stats.halfnorm())  any scipy.stats distribution

A population of one column attaches to a release that uses exactly one column; `Joint(income=..., smoker=...)` names
its columns. Nothing here has seen a record: a population is what the analyst believes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.populations.distribution import (
    BernoulliLaw,
    CategoricalLaw,
    Distribution,
    FromScipy,
    GammaLaw,
    LogNormalLaw,
    NormalLaw,
    PoissonLaw,
    UniformLaw,
)
from noisewise.populations.parameters import (
    Array,
    Parameters,
    Support,
    Theta,
    missing_members,
    offers,
    read_parameters,
    rows_of,
)
from noisewise.printable import shown


class AnyPopulation(Protocol):
    """What inference needs of a population of one or several columns: unknowns, their prior, and a law a column."""

    @property
    def free(self) -> tuple[str, ...]:
        """The unknown parameters, by name."""
        ...

    @property
    def supports(self) -> Mapping[str, Support]:
        """Where each unknown parameter lives, by its prior."""
        ...

    @property
    def columns(self) -> Collection[str]:
        """The columns it describes, by name; none where it describes whichever one column a release uses."""
        ...

    def log_prior(self, theta: Theta) -> Array: ...
    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]: ...
    def marginal(self, column: str) -> Population:
        """The law of one column by itself."""
        ...

    def theta_of(self, column: str, theta: Theta) -> Theta:
        """The parameters of that law."""
        ...

    @property
    def independent_priors(self) -> Mapping[str, Any] | None:
        """One frozen distribution for each unknown; None where the prior is no product of such."""
        ...

    def prior_of(self, name: str) -> Any:
        """That of one scalar unknown, or None where it has none of its own."""
        ...


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Population:
    """The law of one column: a distribution with a number or a prior for each parameter.

    Parameters
    ----------
    distribution
        Any distribution of scipy.stats, or one of one's own: `stats.weibull_min`, a class with `_pdf` or `_pmf`.
    prior
        A joint prior of several parameters, where a distribution offers one. Default None.
    parameters
        Each by its name in scipy.stats (shapes, loc, scale): a number if you know it, else a frozen scipy.stats
        distribution.

    Examples
    --------
    >>> nw.Population(stats.weibull_min, c=2, loc=0, scale=stats.halfnorm(scale=10)).free
    ('scale',)
    """

    distribution: Distribution
    parameters: Parameters
    column: str | None
    given: tuple[str, ...]  # parameters that were written down; the others have the values that scipy gives them
    is_moved: bool  # a standard law of scipy, moved and stretched (LocationScale)
    components: tuple[Population, ...]  # of a mixture: what a record is one of; else none

    def __init__(self, distribution: Any, *, prior: object = None, **parameters: object) -> None:
        is_own = offers(distribution, "domains", "log_density")
        if is_own and (lacks := missing_members(distribution, Distribution)):
            raise InvalidArgument(
                f"{type(distribution).__name__} is no distribution of records: it lacks {', '.join(lacks)}.",
                argument="distribution",
            )
        law: Distribution = distribution if is_own else FromScipy(distribution)
        object.__setattr__(self, "given", tuple(parameters))
        object.__setattr__(self, "is_moved", is_own and law.scipy_law is not None)
        if not is_own:
            parameters = {"loc": 0, **({} if law.is_discrete else {"scale": 1}), **parameters}
        joint = ("mean", "variance") if isinstance(law, NormalLaw) else ()
        object.__setattr__(self, "distribution", law)
        object.__setattr__(self, "parameters", read_parameters(parameters, law.domains, prior, joint))
        object.__setattr__(self, "column", None)
        object.__setattr__(self, "components", ())
        if isinstance(law, FromScipy):
            law.check(self.parameters.known, self.parameters.priors)

    @property
    def free(self) -> tuple[str, ...]:
        """The unknown parameters."""
        return self.parameters.free

    @property
    def supports(self) -> Mapping[str, Support]:
        """Where each unknown parameter lives, by its prior."""
        return self.parameters.supports

    @property
    def is_discrete(self) -> bool:
        return self.distribution.is_discrete

    def values(self, theta: Theta) -> dict[str, Array]:
        """All parameters as columns (K, 1) that broadcast against records (K, M); vectors keep their last axis."""
        full = self.parameters.full(theta)
        vectors = {name for name, domain in self.distribution.domains.items() if domain.size is not None}
        return {name: value if name in vectors else np.reshape(value, (-1, 1)) for name, value in full.items()}

    def log_density(self, x: Any, theta: Theta) -> Array:
        """log p(x | theta): x (M,) or (K, M) gives (K, M)."""
        return self.distribution.log_density(np.asarray(x, dtype=float), self.values(theta))

    def cdf(self, x: Any, theta: Theta) -> Array:
        """P(X <= x | theta): x (M,) or (K, M) gives (K, M)."""
        return self.distribution.cdf(np.asarray(x, dtype=float), self.values(theta))

    def between(self, low: Any, high: Any, theta: Theta) -> Array:
        """P(low < X <= high), (K, M), from whichever tail is nearer: no cancellation in the upper one."""
        p = self.values(theta)
        a, b = (np.asarray(end, dtype=float) for end in (low, high))
        below, above = self.distribution.cdf(a, p), self.distribution.survival(a, p)
        from_below, from_above = self.distribution.cdf(b, p) - below, above - self.distribution.survival(b, p)
        return np.maximum(np.where(below < above, from_below, from_above), 0.0)

    def quantile(self, u: Any, theta: Theta) -> Array:
        """The base-draw map phi_theta(u): uniform base draws u (M,) or (K, M) to records (K, M)."""
        return self.distribution.quantile(np.asarray(u, dtype=float), self.values(theta))

    def quantile_between(self, low: float, high: float, u: Any, theta: Theta) -> Array:
        """Quantiles of the law given low <= X <= high, from the nearer tail; NaN where it has no mass there."""
        p, u = self.values(theta), np.asarray(u, dtype=float)
        before = np.array([np.nextafter(low, -np.inf)])
        below, above = self.distribution.cdf(before, p), self.distribution.survival(before, p)
        mass = self.between(before, [high], theta)
        is_lower = below < above
        x = np.zeros(())
        with np.errstate(invalid="ignore"):  # an inverse is dear: a tail that is nearer to no row is not asked
            if is_lower.any():
                x = self.distribution.quantile(np.minimum(below + u * mass, 1.0), p)
            if not is_lower.all():
                upper = self.distribution.upper_quantile(np.clip(above - u * mass, 0.0, 1.0), p)
                x = np.where(is_lower, x, upper)
        return np.where(mass > 0, np.clip(x, low, high), np.nan)

    def sample(self, rng: np.random.Generator, n: int, theta: Theta) -> Array:
        """n records for each row of theta: (K, n)."""
        return self.distribution.sample(rng, (rows_of(theta), n), self.values(theta))

    @property
    def columns(self) -> Collection[str]:
        """The column it was named for; none where it describes whichever one column a release uses."""
        return () if self.column is None else (self.column,)

    def beside_shares(self, column: str, shares: Mapping[str, object]) -> Joint:
        """This law as that of a column, and a share present with its prior for each name."""
        return Joint(**{column: self}, **{presence: Bernoulli(p=prior) for presence, prior in shares.items()})

    def with_column(self, column: str, law: Population) -> Population:
        """The same with another law of the column: that law."""
        return law if self.column is None else law.named(column)

    def named(self, column: str) -> Population:
        """The same population, of this column only."""
        return self._with(column=column)

    def mixing(self, components: tuple[Population, ...], order: tuple[str, ...]) -> Population:
        """The same population as a mixture of these, the prior cut to an order of some of its parameters."""
        return self._with(components=components, parameters=replace(self.parameters, order=order))

    def parts(self, theta: Theta) -> list[tuple[Population, Theta, Array]]:
        """The components of a mixture, each with its rows of theta and its weight (K,); none of a plain law."""
        if not self.components:
            return []
        weights = np.atleast_2d(self.parameters.full(theta)["weights"])
        rows = rows_of(theta)
        return [
            (one, {name: theta[f"{name}[{j}]"] for name in one.free}, np.broadcast_to(weights[:, j - 1], rows))
            for j, one in enumerate(self.components, 1)
        ]

    def _with(self, **changed: object) -> Population:
        copy = object.__new__(Population)
        for one in fields(self):
            object.__setattr__(copy, one.name, changed[one.name] if one.name in changed else getattr(self, one.name))
        return copy

    def __repr__(self) -> str:
        """As it was written: Normal(mean=stats.norm(50, 50), sd=2)."""
        from noisewise.populations.written import written

        return written(self)

    def marginal(self, column: str) -> Population:
        return self

    def theta_of(self, column: str, theta: Theta) -> Theta:
        return theta

    @property
    def independent_priors(self) -> Mapping[str, Any] | None:
        return self.parameters.independent

    def prior_of(self, name: str) -> Any:
        return self.parameters.prior_of(name)

    def log_prior(self, theta: Theta) -> Array:
        """The log-density of the prior at each row of theta."""
        return self.parameters.log_prior(theta)

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        """`count` draws of the unknown parameters from the prior."""
        return self.parameters.sample(rng, count)

    def score(self, x: Any, theta: Theta) -> dict[str, Array]:
        """d log p(x | theta) / d theta for each scalar unknown, closed for the normal, else by central differences."""
        x = np.asarray(x, dtype=float)
        if isinstance(self.distribution, NormalLaw):
            return self._normal_score(self.distribution, x, theta)
        return {name: self._difference(x, theta, name) for name in self.free if self.supports[name].size is None}

    def _normal_score(self, law: NormalLaw, x: Array, theta: Theta) -> dict[str, Array]:
        p = self.values(theta)
        sd = law.sd(p)
        z = (x - p["mean"]) / sd
        scores = {"mean": z / sd, "sd": (z**2 - 1) / sd, "variance": (z**2 - 1) / (2 * sd**2)}
        return {name: np.asarray(scores[name]) for name in self.free}

    def _difference(self, x: Array, theta: Theta, name: str) -> Array:
        """A central difference of fourth order in one parameter."""
        value = np.asarray(theta[name], dtype=float)
        support = self.supports[name]
        room = np.minimum(value - support.low, support.high - value)
        h = np.minimum(1e-3 * np.maximum(np.abs(value), 1e-3), np.where(np.isfinite(room), room / 4, np.inf))
        at = {k: self.log_density(x, {**theta, name: value + k * h}) for k in (-2, -1, 1, 2)}
        return np.asarray((8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h[:, None]))


def Normal(*, prior: object = None, **parameters: object) -> Population:
    """Normal records.

    Parameters
    ----------
    mean, sd
        In the column's unit: numbers if you know them, else priors.
    variance
        In the place of `sd`.
    prior
        Of mean and variance together: `stats.normal_inverse_gamma(...)`. Default None.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)).free
    ('mean', 'sd')
    """
    if prior is not None or "variance" in parameters:
        return Population(NormalLaw("variance"), prior=prior, **parameters)
    return Population(NormalLaw("sd"), **parameters)


def Uniform(**parameters: object) -> Population:
    """Uniform records on (low, high), on (low, low + width), or on (centre - half_width, centre + half_width).

    Parameters
    ----------
    low, high
        The ends, in the column's unit: numbers if you know them, else priors.
    width
        In the place of `high`.
    half_width, centre
        In the place of both; the centre is 0 unless it is given.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.Uniform(half_width=stats.gamma(2, scale=5)).free
    ('half_width',)
    """
    if "half_width" in parameters:
        return Population(UniformLaw("half_width"), **{"centre": 0, **parameters})
    return Population(UniformLaw("width" if "width" in parameters else "high"), **parameters)


def Bernoulli(**parameters: object) -> Population:
    """0/1 records (or a column with two levels): 1 (the second level) with probability p.

    Parameters
    ----------
    p
        A number if you know it, else a prior on (0, 1).

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.Bernoulli(p=stats.beta(1, 1)).free
    ('p',)
    """
    return Population(BernoulliLaw(), **parameters)


def Categorical(**parameters: object) -> Population:
    """Records with levels.

    Parameters
    ----------
    p
        The probabilities of the levels in their order, or `stats.dirichlet([...])` with one number for each.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.Categorical(p=stats.dirichlet([1, 1, 1])).free
    ('p',)
    """
    return Population(CategoricalLaw(), **parameters)


def Poisson(**parameters: object) -> Population:
    """Whole numbers 0, 1, 2, ... of events.

    Parameters
    ----------
    rate
        Their mean: a number if you know it, else a prior.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.Poisson(rate=stats.gamma(2)).is_discrete
    True
    """
    return Population(PoissonLaw(), **parameters)


def Exponential(**parameters: object) -> Population:
    """Waiting times.

    Parameters
    ----------
    rate
        One over their mean: a number if you know it, else a prior.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.Exponential(rate=stats.gamma(2)).free
    ('rate',)
    """
    return Population(GammaLaw(has_shape=False), **parameters)


def Gamma(**parameters: object) -> Population:
    """Positive records with a long tail, such as incomes: density proportional to x^(shape - 1) exp(-rate x).

    Parameters
    ----------
    shape
        A number if you know it, else a prior.
    rate
        In one over the column's unit; the mean is shape/rate.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.Gamma(shape=stats.halfnorm(scale=4), rate=stats.halfnorm(scale=0.2)).free
    ('shape', 'rate')
    """
    return Population(GammaLaw(has_shape=True), **parameters)


def LogNormal(**parameters: object) -> Population:
    """Records whose logarithm is normal.

    Parameters
    ----------
    log_mean, log_sd
        Mean and sd of the natural logarithm: numbers if you know them, else priors.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.LogNormal(log_mean=stats.norm(3, 1), log_sd=0.5).free
    ('log_mean',)
    """
    return Population(LogNormalLaw(), **parameters)


def LocationScale(base: Any, **parameters: object) -> Population:
    """loc + scale * z with z from a standard scipy.stats distribution.

    Parameters
    ----------
    base
        Such as `stats.t(5)` or `stats.logistic`.
    loc, scale
        In the column's unit: numbers if you know them, else priors.

    Returns
    -------
    Population

    Examples
    --------
    >>> nw.LocationScale(stats.t(5), loc=stats.norm(50, 20), scale=stats.halfnorm(scale=20)).free
    ('loc', 'scale')
    """
    return Population(FromScipy(base, only_location_scale=True), **parameters)


def is_presence(column: str) -> bool:
    """Whether a column says that the values of others are present: `present(income)` (see `presence.py`)."""
    return column.startswith("present(") and column.endswith(")")


def _unknown_names(columns: Mapping[str, Population]) -> dict[str, tuple[str, str]]:
    """Each unknown by name, with its column and parameter: column.parameter, as a rule.

    A share present is called `present`, or `present[income]` among several; beside shares alone a column's parameters
    keep their plain names, as they have without them.
    """
    shares = [column for column in columns if is_presence(column)]
    is_plain = bool(shares) and len(columns) - len(shares) == 1
    found = {}
    for column, population in columns.items():
        for name in population.free:
            if column in shares:
                told = "present" if len(shares) == 1 else f"present[{column[len('present(') : -1]}]"
            else:
                told = name if is_plain else f"{column}.{name}"
            found[told] = (column, name)
    return found


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Joint:
    """Several columns, independent of each other given the parameters; a parameter is named column.parameter.

    Parameters
    ----------
    columns
        The population of each column, by its name.

    Examples
    --------
    >>> nw.Joint(income=nw.Normal(mean=stats.norm(50, 20), sd=20), smokes=nw.Bernoulli(p=stats.beta(1, 1))).free
    ('income.mean', 'smokes.p')
    """

    columns: Mapping[str, Population]
    _unknowns: Mapping[str, tuple[str, str]]

    def __init__(self, /, **columns: Population) -> None:
        if not columns:
            raise InvalidArgument(
                "Joint needs at least one column, as in Joint(income=Normal(...)).", argument="columns"
            )
        for name, population in columns.items():
            if not isinstance(population, Population):
                raise InvalidArgument(f"{name} must be a population such as Normal(...), not {shown(population)}.",
                                      argument=name)  # fmt: skip
        object.__setattr__(self, "columns", dict(columns))
        object.__setattr__(self, "_unknowns", _unknown_names(columns))

    @property
    def free(self) -> tuple[str, ...]:
        return tuple(self._unknowns)

    @property
    def supports(self) -> Mapping[str, Support]:
        return {told: self.columns[column].supports[name] for told, (column, name) in self._unknowns.items()}

    def beside_shares(self, _column: str, shares: Mapping[str, object]) -> Joint:
        """The same columns, and a share present with its prior for each name."""
        return Joint(**self.columns, **{presence: Bernoulli(p=prior) for presence, prior in shares.items()})

    def __repr__(self) -> str:
        return f"Joint({', '.join(f'{name}={law!r}' for name, law in self.columns.items())})"

    def marginal(self, column: str) -> Population:
        return self.columns[column]

    def with_column(self, column: str, law: Population) -> Joint:
        """The same with another law of a column, whose unknowns have the same names."""
        other = Joint(**{**self.columns, column: law})
        object.__setattr__(other, "_unknowns", self._unknowns)
        return other

    def of_columns(self, names: Collection[str]) -> Joint:
        """Some of the columns, with their parameters and priors: independent of the others in either."""
        some = Joint(**{name: law for name, law in self.columns.items() if name in names})
        kept = {told: own for told, own in self._unknowns.items() if own[0] in names}
        object.__setattr__(some, "_unknowns", kept)
        return some

    def theta_of(self, column: str, theta: Theta) -> Theta:
        """The parameters of one column."""
        return {name: theta[told] for told, (own, name) in self._unknowns.items() if own == column}

    @property
    def independent_priors(self) -> Mapping[str, Any] | None:
        found: dict[str, Any] = {}
        for told, (column, name) in self._unknowns.items():
            priors = self.columns[column].independent_priors
            if priors is None:
                return None
            found[told] = priors[name]
        return found

    def prior_of(self, name: str) -> Any:
        column, parameter = self._unknowns.get(name, ("", ""))
        return self.columns[column].prior_of(parameter) if column in self.columns else None

    def log_prior(self, theta: Theta) -> Array:
        parts = [p.log_prior(self.theta_of(c, theta)) for c, p in self.columns.items() if p.free]
        return np.asarray(np.sum([np.zeros(rows_of(theta)), *parts], axis=0))

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        drawn = {column: population.sample_prior(rng, count) for column, population in self.columns.items()}
        return {told: drawn[column][name] for told, (column, name) in self._unknowns.items()}

    def sample(self, rng: np.random.Generator, n: int, theta: Theta) -> dict[str, Array]:
        """n records for each row of theta, by column."""
        shape = (rows_of(theta), n)
        return {
            c: p.distribution.sample(rng, shape, p.values(self.theta_of(c, theta))) for c, p in self.columns.items()
        }
