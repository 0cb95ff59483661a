"""Parameters of a population: a number when you know it, a frozen scipy.stats distribution when you don't.

A prior must be proper: under a flat prior on (0, inf) the posterior of a noisy statistic is not a distribution at all,
because the likelihood does not vanish where the noise alone explains the release. Where a parameter lives (`Support`)
comes from its prior; the transform to the real line that samplers use belongs to `inference.target`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.printable import did_you_mean, shown
from noisewise.types import Array as Array
from noisewise.types import Theta as Theta

# What other libraries call the same parameter.
OTHER_NAMES = {
    "mu": "mean", "loc": "mean", "sigma": "sd", "std": "sd", "stdev": "sd", "scale": "sd", "var": "variance",
    "lam": "rate", "lambda_": "rate", "mu_log": "log_mean", "sigma_log": "log_sd", "prob": "p", "probability": "p",
    "alpha": "shape", "k": "shape", "beta": "rate", "a": "low", "b": "high",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Support:
    """Where a parameter lives: an open interval, or (with `size`) a vector.

    A vector of `size` numbers lies on the simplex of probabilities; with `order` it is made of the entries above the
    diagonal of a correlation matrix of that order. `step` is the least distance over which a slope in it is taken,
    where the law is simulated and jumps.
    """

    low: float = -math.inf
    high: float = math.inf
    size: int | None = None
    step: float = 0.0
    order: int = 0

    @classmethod
    def correlations(cls, order: int) -> Support:
        """The correlation matrices of so many columns."""
        return cls(-1.0, 1.0, size=order * (order - 1) // 2, order=order)

    @property
    def is_simplex(self) -> bool:
        return self.size is not None and not self.order

    @property
    def unknowns(self) -> int:
        """How many numbers are unknown: the last of several probabilities follows from the others."""
        if self.size is None:
            return 1
        return self.size if self.order else self.size - 1

    @property
    def entries(self) -> str:
        """What a value of it is, in words."""
        if self.size is None:
            return "a finite number"
        return f"{self.size} {'correlations' if self.order else 'probabilities'}"

    def contains(self, other: Support) -> bool:
        return self.size == other.size and self.low <= other.low and other.high <= self.high

    def __str__(self) -> str:
        if self.order:
            return f"the correlation matrices of {self.order} columns"
        return f"the simplex of {self.size}" if self.size is not None else f"({self.low:g}, {self.high:g})"


Supports: TypeAlias = Mapping[str, Support]  # of several parameters, by name


def rows_of(theta: Theta) -> int:
    """K: how many parameter values theta holds; 1 where nothing is unknown."""
    return max((len(value) for value in theta.values()), default=1)


LARGEST = 1e100  # beyond it squares and products leave the range of doubles
REAL, POSITIVE, UNIT = Support(), Support(low=0.0), Support(low=0.0, high=1.0)


def rows_at(at: object, supports: Mapping[str, Support]) -> dict[str, Array]:
    """Rows of theta from numbers by name: one for each unknown, or a list of them."""
    if not isinstance(at, Mapping) or set(at) != set(supports):
        wanted = ", ".join(supports) or "nothing: every parameter is known"
        raise InvalidArgument(f"at= must give a number for each unknown parameter: {wanted}.", argument="at")
    rows = {name: _rows(at[name], name, support) for name, support in supports.items()}
    count = rows_of(rows)
    if any(len(row) not in (1, count) for row in rows.values()):
        raise InvalidArgument("at= lists different numbers of values for its parameters.", argument="at")
    return {name: np.array(np.broadcast_to(row, (count, *row.shape[1:]))) for name, row in rows.items()}


def _rows(given: object, name: str, support: Support) -> Array:
    try:
        value = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        value = np.array(np.nan)
    shape = () if support.size is None else (support.size,)
    rows = value[None] if value.shape == shape else value
    if isinstance(given, bool) or not rows.size or rows.shape[1:] != shape or not np.all(np.abs(rows) < LARGEST):
        raise InvalidArgument(f"at[{name!r}] must be {support.entries}, or a list of such.", argument="at")
    if support.order and not _are_positive(rows, support.order):
        raise InvalidArgument(f"at[{name!r}] must lie in {support}: no others are correlations.", argument="at")
    return np.asarray(rows)


def _are_positive(rows: Array, order: int) -> bool:
    """Whether rows of entries above the diagonal are those of positive definite matrices."""
    matrices = np.zeros((len(rows), order, order))
    matrices[:, *np.triu_indices(order, 1)] = rows
    return bool(np.linalg.eigvalsh(matrices + matrices.swapaxes(-1, -2) + np.eye(order)).min() > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Known numbers, independent priors, and at most one joint prior over several parameters."""

    known: Mapping[str, Array]
    priors: Mapping[str, Any]
    joint: tuple[tuple[str, ...], Any] | None
    supports: Mapping[str, Support]
    order: tuple[str, ...] = ()  # parameters of one prior, of which each is larger than the one before

    @property
    def free(self) -> tuple[str, ...]:
        """The unknown parameters, in the population's order."""
        return tuple(self.supports)

    @property
    def independent(self) -> Mapping[str, Any] | None:
        """One frozen prior for each unknown; None where some are believed together."""
        return self.priors if self.joint is None and not self.order else None

    def prior_of(self, name: str) -> Any:
        """The frozen prior of one scalar unknown, or None where it has none of its own."""
        return self.priors[name] if name in self.priors and self.supports[name].size is None else None

    def full(self, theta: Theta) -> dict[str, Array]:
        """All parameters as arrays with one row a value of theta; known ones are repeated by broadcasting."""
        return {**self.known, **{name: np.asarray(theta[name], dtype=float) for name in self.free}}

    def log_prior(self, theta: Theta) -> Array:
        """The log-density of the prior at each row of theta; -inf outside its support."""
        total: Array = np.zeros(rows_of(theta))
        for name, prior in self.priors.items():
            value = np.asarray(theta[name], dtype=float)
            total = total + (_dirichlet(prior, value) if self.supports[name].is_simplex else prior.logpdf(value))
        if self.joint is not None:
            names, prior = self.joint
            inside = np.all([_inside(theta[name], self.supports[name]) for name in names], axis=0)
            values = [np.where(inside, theta[name], 1.0) for name in names]
            total = total + np.where(inside, prior.logpdf(*values), -np.inf)
        if self.order:
            # Alike parameters are as likely in every order: one of them holds all of the prior.
            is_rising = np.all(np.diff(np.stack([theta[name] for name in self.order]), axis=0) > 0, axis=0)
            total = np.where(is_rising, total + math.lgamma(len(self.order) + 1), -np.inf)
        return total

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        """`count` draws of the free parameters from the prior."""
        drawn = {
            name: np.asarray(prior.rvs(size=count, random_state=rng), dtype=float)
            for name, prior in self.priors.items()
        }
        if self.joint is not None:
            names, prior = self.joint
            drawn.update(zip(names, map(np.asarray, prior.rvs(size=count, random_state=rng)), strict=True))
        if self.order:
            drawn |= zip(self.order, np.sort(np.stack([drawn[name] for name in self.order]), axis=0), strict=True)
        return {
            name: np.reshape(drawn[name], (count, -1) if self.supports[name].size else (count,)) for name in self.free
        }


def read_parameters(
    given: Mapping[str, object], domains: Mapping[str, Support], prior: object, joint_names: tuple[str, ...]
) -> Parameters:
    """Sort what a person gave into numbers and priors; refuse what is neither, or no value of the parameter."""
    if prior is not None:
        return _with_joint_prior(given, domains, prior, joint_names)
    known: dict[str, Array] = {}
    priors, supports = {}, {}
    _check_no_others(given, domains)
    for name, domain in domains.items():
        if name not in given:
            raise InvalidArgument(
                f"Give {name}: a number if you know it, else a scipy.stats distribution.", argument=name
            )
        value = given[name]
        if is_prior(value):
            supports[name] = _prior_support(value, name, domain)
            priors[name] = value
        else:
            known[name] = _number(value, name, domain)
    return Parameters(known, priors, None, supports)


def is_prior(value: object) -> bool:
    """True for frozen scipy.stats distributions."""
    return offers(value, "rvs") and (offers(value, "logpdf") or offers(value, "logpmf"))


def offers(value: object, *names: str) -> bool:
    """Whether a foreign thing has all of these: scipy's distributions have no class in common."""
    return all(hasattr(value, name) for name in names)


def missing_members(thing: object, protocol: type) -> list[str]:
    """The members of a protocol that a thing lacks; nothing of it is run."""
    absent = object()
    names = [name for name in vars(protocol) if not name.startswith("_")]
    return [name for name in names if inspect.getattr_static(thing, name, absent) is absent]


def scipy_name(prior: Any) -> str:
    """What scipy.stats calls a frozen distribution; nothing for anything else."""
    return str(prior.dist.name) if offers(prior, "dist") else ""


def _with_joint_prior(
    given: Mapping[str, object], domains: Mapping[str, Support], prior: object, names: tuple[str, ...]
) -> Parameters:
    if not names or not is_prior(prior) or type(prior).__name__ != "normal_inverse_gamma_frozen":
        raise InvalidArgument(
            "prior= takes stats.normal_inverse_gamma(...) for Normal's mean and variance; else give a prior each.",
            argument="prior",
        )
    if given:
        raise InvalidArgument(f"prior= already covers {', '.join(names)}; leave them out.", argument="prior")
    return Parameters({}, {}, (names, prior), {name: domains[name] for name in names})


def _prior_support(prior: Any, name: str, domain: Support) -> Support:
    if not offers(prior, "logpdf"):
        raise InvalidArgument(f"The prior of {name} is discrete; parameters are continuous.", argument=name)
    if domain.size is not None:
        size = len(np.atleast_1d(prior.alpha)) if offers(prior, "alpha") else 0
        if size < 2:
            raise InvalidArgument(f"The prior of {name} must be stats.dirichlet([...]).", argument=name)
        return Support(0.0, 1.0, size)
    if not offers(prior, "support"):
        raise InvalidArgument(f"The prior of {name} must be one-dimensional.", argument=name)
    if not offers(prior, "dist"):
        raise InvalidArgument(
            f"The prior of {name} must be a scipy.stats distribution with its numbers, such as stats.norm(0, 10); "
            "rv_histogram(...) becomes one by a last pair of brackets: rv_histogram(...)().",
            argument=name,
        )
    with np.errstate(all="ignore"):
        ends = prior.support()
        if np.ndim(ends[0]):
            raise InvalidArgument(
                f"The prior of {name} must be one-dimensional, not {np.size(ends[0])} distributions.", argument=name
            )
        _check_own_numbers(prior, name)
        low, high = map(float, ends)
        middle = float(prior.logpdf(prior.median())) if low < high else math.nan
        reached = float(prior.cdf(high))
    if not math.isfinite(middle) or not reached > 0.999:
        raise InvalidArgument(
            f"The prior of {name} is not a proper distribution: its density is not finite at its median, or does not "
            "integrate to 1.",
            argument=name,
        )
    support = Support(low, high)
    if not domain.contains(support):
        raise InvalidArgument(
            f"The prior of {name} lives on {support}, but {name} must lie in {domain}; "
            "for a positive parameter use halfnorm, gamma, lognorm or a uniform above 0.",
            argument=name,
        )
    return support


def _check_own_numbers(prior: Any, name: str) -> None:
    """Refuse an infinite location or scale (a flat prior in disguise), and numbers that the prior does not take."""
    shown = f"{prior.dist.name}({', '.join([*map(str, prior.args), *(f'{k}={v}' for k, v in prior.kwds.items())])})"
    place = [*prior.args[prior.dist.numargs :], *(prior.kwds[key] for key in ("loc", "scale") if key in prior.kwds)]
    if np.isinf(np.asarray(place, dtype=float)).any():
        raise InvalidArgument(
            f"The prior of {name}, {shown}, is flat on an infinite range, which is not a proper distribution. The "
            "posterior would not exist, because noise alone can explain any release; use a wide but proper prior.",
            argument=name,
        )
    if np.isnan(prior.support()).any():
        raise InvalidArgument(
            f"The prior of {name}, {shown}, is not a proper distribution: scipy.stats does not define it at these "
            "numbers (a scale must be positive, for instance).",
            argument=name,
        )


def _number(value: object, name: str, domain: Support) -> Array:
    if domain.size is not None:
        try:
            vector = np.asarray(value, dtype=float) if not isinstance(value, str) else np.array([])
        except (TypeError, ValueError, OverflowError):
            vector = np.array([])
        if (
            vector.ndim != 1
            or vector.size < 2
            or not np.all((vector > 0) & (vector <= 1))
            or abs(vector.sum() - 1) > 1e-9
        ):
            raise InvalidArgument(
                f"{name} must list probabilities that sum to 1, or be stats.dirichlet([...]).", argument=name
            )
        # Probabilities that sum to 1 up to rounding are kept to the bit, so that they can be written and read again.
        is_whole = abs(vector.sum() - 1) <= 4e-16 * vector.size
        return np.asarray((vector if is_whole else vector / vector.sum())[None, :])
    number = cast("float", value)
    if isinstance(value, bool) or not isinstance(value, Real) or not -LARGEST < number < LARGEST:
        raise InvalidArgument(
            f"{name} = {shown(value)}: give a finite number if you know it, or a frozen scipy.stats distribution.",
            argument=name,
        )
    if not domain.low <= number <= domain.high or (domain.low == 0 == number and domain.high > 1):
        raise InvalidArgument(f"{name} = {value} must lie in {domain}.", argument=name)
    return np.array([float(number)])


def _check_no_others(given: Mapping[str, object], domains: Mapping[str, Support]) -> None:
    others = sorted(set(given) - set(domains))
    if others:
        meant = OTHER_NAMES.get(others[0], "")
        hint = f" (did you mean {meant!r}?)" if meant in domains else did_you_mean(others[0], domains)
        wanted = " and ".join(f"{name}=" for name in domains)
        raise InvalidArgument(
            f"There is no parameter {shown(others[0])}{hint}; give {wanted}, each a number if you know it, else a "
            "scipy.stats distribution.",
            argument=others[0],
        )


def _inside(value: Array, support: Support) -> Array:
    return np.asarray((value > support.low) & (value < support.high))


def _dirichlet(prior: Any, value: Array) -> Array:
    """The Dirichlet log-density at rows that sum to 1 up to rounding."""
    from scipy.special import gammaln, xlogy

    alpha = np.asarray(prior.alpha, dtype=float)
    constant = gammaln(alpha.sum()) - gammaln(alpha).sum()
    return np.asarray(constant + xlogy(alpha - 1, value).sum(axis=-1))
