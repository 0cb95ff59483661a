"""Distributions of one record, as functions of their parameters.

A `Distribution` knows its parameters and where they may lie, and computes density, cdf, quantile and draws with
parameters that are arrays (one row a value of theta, broadcast against x). Named ones use closed forms; `FromScipy`
takes any scipy.stats distribution. All of them are stateless: numbers and priors live in `Population`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import special

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.discrete_sums import DiscreteSums, is_added_up
from noisewise.populations.moments import (
    quantile_moments,
    scipy_moments_are_closed,
    scipy_quantiles_are_closed,
)
from noisewise.populations.parameters import POSITIVE, REAL, UNIT, Array, Support, offers
from noisewise.types import Values

LOG_2PI = float(np.log(2 * np.pi))
MANY, KNOTS = 8192, 1025  # quantiles at one shape from which a table pays, and its places


class Distribution(Protocol):
    """The law of one record given its parameters p (arrays that broadcast against x)."""

    @property
    def name(self) -> str: ...
    @property
    def domains(self) -> Mapping[str, Support]:
        """The parameters in order, and where each may lie."""
        ...

    @property
    def is_discrete(self) -> bool: ...
    @property
    def standard(self) -> tuple[Any, ...]:
        """The numbers of a standard law that is only moved and stretched; none where it has parameters of its own."""
        ...

    @property
    def scipy_law(self) -> object:
        """The scipy.stats distribution behind it, or None."""
        ...

    def log_density(self, x: Any, p: Values) -> Array:
        """log p(x); a log-probability for discrete records."""
        ...

    def cdf(self, x: Any, p: Values) -> Array: ...
    def survival(self, x: Any, p: Values) -> Array:
        """P(X > x), to full relative accuracy far in the upper tail."""
        ...

    def quantile(self, u: Any, p: Values) -> Array: ...
    def upper_quantile(self, v: Any, p: Values) -> Array:
        """x with P(X > x) = v, to full accuracy for tiny v."""
        ...

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array: ...
    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        """(loc, scale) with (x - loc)/scale free of parameters, where the family has such a form."""
        ...

    def moments(self, p: Values) -> tuple[Array, Array]:
        """Mean and variance of a record, shaped as the parameters; infinite or NaN where there are none."""
        ...

    @property
    def in_unit(self) -> tuple[str, ...]:
        """The parameters that are told in the unit of the record."""
        ...


class Continuous:
    """Draws by inverting the cdf: common random numbers give paths that are smooth in the parameters. Abstract."""

    __slots__ = ()
    is_discrete: ClassVar[bool] = False
    standard: ClassVar[tuple[Any, ...]] = ()
    scipy_law: ClassVar[None] = None
    in_unit: ClassVar[tuple[str, ...]] = ()

    def quantile(self, u: Any, p: Values) -> Array:
        raise TypeError(f"{type(self).__name__} must give its quantiles.")

    def upper_quantile(self, v: object, p: Values) -> Array:
        raise TypeError(f"{type(self).__name__} must give its upper quantiles.")

    def moments(self, p: Values) -> tuple[Array, Array]:
        return quantile_moments(self, p)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return self.quantile(rng.random(shape), p)

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return None


@dataclass(frozen=True, slots=True)
class NormalLaw(Continuous):
    """N(mean, sd^2), with `spread` naming the parameter: sd or variance."""

    spread: str
    name: ClassVar[str] = "normal"
    in_unit: ClassVar[tuple[str, ...]] = ("mean", "sd")

    @property
    def domains(self) -> Mapping[str, Support]:
        return {"mean": REAL, self.spread: POSITIVE}

    def moments(self, p: Values) -> tuple[Array, Array]:
        return p["mean"], np.square(self.sd(p))

    def sd(self, p: Values) -> Any:
        return p["sd"] if self.spread == "sd" else np.sqrt(p["variance"])

    def log_density(self, x: Any, p: Values) -> Array:
        sd = self.sd(p)
        return np.asarray(-0.5 * ((x - p["mean"]) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI)

    def cdf(self, x: Any, p: Values) -> Array:
        return np.asarray(special.ndtr((x - p["mean"]) / self.sd(p)))

    def survival(self, x: Any, p: Values) -> Array:
        return np.asarray(special.ndtr((p["mean"] - x) / self.sd(p)))

    def quantile(self, u: Any, p: Values) -> Array:
        return np.asarray(p["mean"] + self.sd(p) * special.ndtri(u))

    def upper_quantile(self, v: Any, p: Values) -> Array:
        return np.asarray(p["mean"] - self.sd(p) * special.ndtri(v))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return np.asarray(p["mean"] + self.sd(p) * rng.standard_normal(shape))

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return p["mean"], self.sd(p)


@dataclass(frozen=True, slots=True)
class UniformLaw(Continuous):
    """Uniform on (low, high), on (low, low + width), or on (centre - half_width, centre + half_width)."""

    end: str
    name: ClassVar[str] = "uniform"
    in_unit: ClassVar[tuple[str, ...]] = ("low", "high", "width", "centre", "half_width")

    @property
    def domains(self) -> Mapping[str, Support]:
        start = "centre" if self.end == "half_width" else "low"
        return {start: REAL, self.end: REAL if self.end == "high" else POSITIVE}

    def moments(self, p: Values) -> tuple[Array, Array]:
        width = self.width(p)
        return self.low(p) + width / 2, np.square(width) / 12

    def low(self, p: Values) -> Array:
        return np.asarray(p["centre"] - p["half_width"] if self.end == "half_width" else p["low"])

    def width(self, p: Values) -> Any:
        if self.end == "half_width":
            return 2 * p["half_width"]
        return p["width"] if self.end == "width" else p["high"] - p["low"]

    def log_density(self, x: Any, p: Values) -> Array:
        low, width = self.low(p), self.width(p)
        inside = (x >= low) & (x <= low + width) & (width > 0)
        return np.asarray(np.where(inside, -np.log(np.where(width > 0, width, 1.0)), -np.inf))

    def cdf(self, x: Any, p: Values) -> Array:
        return np.asarray(np.clip((x - self.low(p)) / self.width(p), 0, 1))

    def survival(self, x: Any, p: Values) -> Array:
        width = self.width(p)
        return np.asarray(np.clip((self.low(p) - x + width) / width, 0, 1))

    def quantile(self, u: Any, p: Values) -> Array:
        return np.asarray(self.low(p) + self.width(p) * np.asarray(u))

    def upper_quantile(self, v: Any, p: Values) -> Array:
        return np.asarray(self.low(p) + self.width(p) * (1 - np.asarray(v)))

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return self.low(p), self.width(p)


def _gamma_quantile(shape: Array, u: Array) -> Array:
    """Quantiles of Gamma(shape, 1); of very many u at one shape by a table, to about ten digits.

    log x is a smooth function of z = Phi^-1(u), whose slope phi(z)/(x f(x)) is known: a cubic between each two of
    KNOTS places. A bank of data sets asks for the same quantiles at thousands of parameters, and an inverse is dear.
    """
    if np.size(shape) != 1 or u.size < MANY:
        return np.asarray(special.gammaincinv(shape, u))
    a, z = np.ravel(shape)[0], special.ndtri(u)
    low, high = float(z.min()), float(z.max())
    with np.errstate(all="ignore"):
        width = (high - low) / (KNOTS - 1)
        knots = low + width * np.arange(KNOTS)
        x = special.gammaincinv(a, special.ndtr(knots))
        y = np.log(x)
        slope = width * np.exp(-0.5 * knots**2 - 0.5 * LOG_2PI - (a * y - x - special.gammaln(a)))
    if not (width > 0 and np.isfinite(y).all() and np.isfinite(slope).all()):  # an end of (0, 1), or of the doubles
        return np.asarray(special.gammaincinv(shape, u))
    rise = np.diff(y)
    second, third = 3 * rise - 2 * slope[:-1] - slope[1:], slope[:-1] + slope[1:] - 2 * rise
    place = (z - low) / width
    cell = np.minimum(place.astype(np.int64), KNOTS - 2)
    t = place - cell
    return np.asarray(np.exp(y[cell] + t * (slope[cell] + t * (second[cell] + t * third[cell]))))


@dataclass(frozen=True, slots=True)
class GammaLaw(Continuous):
    """Gamma with density proportional to x^(shape-1) e^(-rate x); shape None is the exponential."""

    has_shape: bool
    name: ClassVar[str] = "gamma"

    @property
    def domains(self) -> Mapping[str, Support]:
        return {"shape": POSITIVE, "rate": POSITIVE} if self.has_shape else {"rate": POSITIVE}

    def shape(self, p: Values) -> Any:
        return p["shape"] if self.has_shape else 1.0

    def moments(self, p: Values) -> tuple[Array, Array]:
        return self.shape(p) / p["rate"], self.shape(p) / np.square(p["rate"])

    def log_density(self, x: Any, p: Values) -> Array:
        a, rate = self.shape(p), p["rate"]
        positive = np.asarray(x) > 0
        safe = np.where(positive, x, 1.0)
        value = special.xlogy(a, rate) + special.xlogy(a - 1, safe) - rate * safe - special.gammaln(a)
        return np.asarray(np.where(positive, value, np.where((np.asarray(x) == 0) & (a == 1), np.log(rate), -np.inf)))

    def cdf(self, x: Any, p: Values) -> Array:
        return np.asarray(special.gammainc(self.shape(p), p["rate"] * np.maximum(x, 0)))

    def survival(self, x: Any, p: Values) -> Array:
        return np.asarray(special.gammaincc(self.shape(p), p["rate"] * np.maximum(x, 0)))

    def quantile(self, u: Any, p: Values) -> Array:
        if self.has_shape:
            return np.asarray(_gamma_quantile(p["shape"], np.asarray(u)) / p["rate"])
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log1p(-np.asarray(u)) / p["rate"])

    def upper_quantile(self, v: Any, p: Values) -> Array:
        if self.has_shape:
            return np.asarray(special.gammainccinv(p["shape"], v) / p["rate"])
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(v) / p["rate"])

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return np.asarray(rng.standard_gamma(np.broadcast_to(self.shape(p), shape)) / p["rate"])

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        # The standardised record x * rate is free of the rate; a shape that is unknown would not be.
        return (np.zeros_like(p["rate"]), 1 / p["rate"]) if not self.has_shape else None


@dataclass(frozen=True, slots=True)
class LogNormalLaw(Continuous):
    """log x ~ N(log_mean, log_sd^2)."""

    name: ClassVar[str] = "lognormal"
    domains: ClassVar[Mapping[str, Support]] = {"log_mean": REAL, "log_sd": POSITIVE}

    def moments(self, p: Values) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):  # infinite, beyond the largest double
            square = np.square(p["log_sd"])
            return np.exp(p["log_mean"] + square / 2), np.expm1(square) * np.exp(2 * p["log_mean"] + square)

    def log_density(self, x: Any, p: Values) -> Array:
        positive = np.asarray(x) > 0
        log_x = np.log(np.where(positive, x, 1.0))
        z = (log_x - p["log_mean"]) / p["log_sd"]
        return np.asarray(np.where(positive, -0.5 * z**2 - log_x - np.log(p["log_sd"]) - 0.5 * LOG_2PI, -np.inf))

    def cdf(self, x: Any, p: Values) -> Array:
        positive = np.asarray(x) > 0
        log_x = np.log(np.where(positive, x, 1.0))
        return np.asarray(np.where(positive, special.ndtr((log_x - p["log_mean"]) / p["log_sd"]), 0.0))

    def survival(self, x: Any, p: Values) -> Array:
        positive = np.asarray(x) > 0
        log_x = np.log(np.where(positive, x, 1.0))
        return np.asarray(np.where(positive, special.ndtr((p["log_mean"] - log_x) / p["log_sd"]), 1.0))

    def quantile(self, u: Any, p: Values) -> Array:
        with np.errstate(over="ignore"):  # infinite, beyond the largest double
            return np.asarray(np.exp(p["log_mean"] + p["log_sd"] * special.ndtri(u)))

    def upper_quantile(self, v: Any, p: Values) -> Array:
        with np.errstate(over="ignore"):  # infinite, beyond the largest double
            return np.asarray(np.exp(p["log_mean"] - p["log_sd"] * special.ndtri(v)))


@dataclass(frozen=True, slots=True)
class Discrete:
    """What discrete laws share. Abstract."""

    is_discrete: ClassVar[bool] = True
    standard: ClassVar[tuple[Any, ...]] = ()
    scipy_law: ClassVar[None] = None
    in_unit: ClassVar[tuple[str, ...]] = ()

    def moments(self, p: Values) -> tuple[Array, Array]:
        raise TypeError(f"{type(self).__name__} must give its mean and variance.")

    def cdf(self, x: Any, p: Values) -> Array:
        raise TypeError(f"{type(self).__name__} must give its cdf.")

    def survival(self, x: Any, p: Values) -> Array:
        return np.asarray(1 - self.cdf(x, p))

    def quantile(self, u: Any, p: Values) -> Array:
        raise TypeError(f"{type(self).__name__} must give its quantiles.")

    def upper_quantile(self, v: Any, p: Values) -> Array:
        return self.quantile(1 - np.asarray(v), p)

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return None


@dataclass(frozen=True, slots=True)
class BernoulliLaw(Discrete):
    """1 with probability p, else 0."""

    name: ClassVar[str] = "bernoulli"
    domains: ClassVar[Mapping[str, Support]] = {"p": UNIT}

    def moments(self, p: Values) -> tuple[Array, Array]:
        return p["p"], p["p"] * (1 - np.asarray(p["p"]))

    def log_density(self, x: Any, p: Values) -> Array:
        x = np.asarray(x, dtype=float)
        value = special.xlogy(x, p["p"]) + special.xlog1py(1 - x, -np.asarray(p["p"]))
        return np.asarray(np.where((x == 0) | (x == 1), value, -np.inf))

    def cdf(self, x: Any, p: Values) -> Array:
        return np.asarray(np.where(np.asarray(x) < 0, 0.0, np.where(np.asarray(x) < 1, 1 - np.asarray(p["p"]), 1.0)))

    def quantile(self, u: Any, p: Values) -> Array:
        return np.asarray((np.asarray(u) > 1 - np.asarray(p["p"])).astype(float))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return np.asarray((rng.random(shape) < p["p"]).astype(float))


@dataclass(frozen=True, slots=True)
class CategoricalLaw(Discrete):
    """Level j with probability p_j; records are the indices of the levels."""

    name: ClassVar[str] = "categorical"
    domains: ClassVar[Mapping[str, Support]] = {"p": Support(0.0, 1.0, size=0)}

    def moments(self, p: Values) -> tuple[Array, Array]:
        raise Unsupported("Levels have no mean; ask for the share of each level.")

    def log_density(self, x: Any, p: Values) -> Array:
        index = np.asarray(x, dtype=int)
        probabilities = np.asarray(p["p"])
        known = (index >= 0) & (index < probabilities.shape[-1])
        chosen = np.take_along_axis(np.atleast_2d(probabilities), np.atleast_2d(np.where(known, index, 0)), axis=-1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(known, np.log(chosen), -np.inf))

    def cdf(self, x: Any, p: Values) -> Array:
        cumulative = np.concatenate([np.zeros_like(p["p"][..., :1]), np.cumsum(p["p"], axis=-1)], axis=-1)
        index = np.clip(np.floor(np.asarray(x)).astype(int) + 1, 0, cumulative.shape[-1] - 1)
        return np.asarray(np.take_along_axis(np.atleast_2d(cumulative), np.atleast_2d(index), axis=-1))

    def quantile(self, u: Any, p: Values) -> Array:
        cumulative = np.cumsum(p["p"], axis=-1)[..., :-1]
        return np.asarray((np.asarray(u)[..., None] > cumulative[..., None, :]).sum(axis=-1).astype(float))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return self.quantile(rng.random(shape), p)


def _poisson_quantile(rate: Array, u: Array) -> Array:
    """The smallest k with P(X <= k) >= u; of very many u at one rate looked up among all P(X <= k)."""
    from scipy import stats

    if np.size(rate) != 1 or u.size < MANY or not 0 < u.min() <= u.max() < 1:
        return np.asarray(stats.poisson.ppf(u, rate))
    last = float(stats.poisson.ppf(u.max(), np.ravel(rate)[0]))
    if not last < MANY:
        return np.asarray(stats.poisson.ppf(u, rate))
    return np.searchsorted(special.pdtr(np.arange(last + 1), np.ravel(rate)[0]), u).astype(float)


@dataclass(frozen=True, slots=True)
class PoissonLaw(Discrete):
    """Counts with the given rate."""

    name: ClassVar[str] = "poisson"
    domains: ClassVar[Mapping[str, Support]] = {"rate": POSITIVE}
    in_unit: ClassVar[tuple[str, ...]] = ("rate",)

    def moments(self, p: Values) -> tuple[Array, Array]:
        return p["rate"], p["rate"]

    def log_density(self, x: Any, p: Values) -> Array:
        x = np.asarray(x, dtype=float)
        whole = (x >= 0) & (x == np.floor(x))
        safe = np.where(whole, x, 0.0)
        value = special.xlogy(safe, p["rate"]) - p["rate"] - special.gammaln(safe + 1)
        return np.asarray(np.where(whole, value, -np.inf))

    def cdf(self, x: Any, p: Values) -> Array:
        return np.asarray(np.where(np.asarray(x) < 0, 0.0, special.pdtr(np.floor(np.maximum(x, 0)), p["rate"])))

    def survival(self, x: Any, p: Values) -> Array:
        return np.asarray(np.where(np.asarray(x) < 0, 1.0, special.pdtrc(np.floor(np.maximum(x, 0)), p["rate"])))

    def quantile(self, u: Any, p: Values) -> Array:

        return _poisson_quantile(p["rate"], np.asarray(u))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return np.asarray(rng.poisson(np.broadcast_to(p["rate"], shape)).astype(float))


class FromScipy:
    """Any scipy.stats distribution by its own parameter names: shapes, then loc and scale."""

    __slots__ = ("distribution", "domains", "is_discrete", "name", "standard")

    def __init__(self, distribution: Any, *, only_location_scale: bool = False) -> None:
        args: tuple[Any, ...] = ()
        kwds: Mapping[str, Any] = {}
        if offers(distribution, "dist"):
            args, kwds, distribution = distribution.args, distribution.kwds, distribution.dist
        if not offers(distribution, "cdf", "numargs"):
            raise InvalidArgument("Give a scipy.stats distribution such as stats.weibull_min.", argument="distribution")
        self.distribution = distribution
        self.name = str(distribution.name)
        self.is_discrete = offers(distribution, "pmf")
        shapes = self._shapes()
        fixed = {**dict(zip([*shapes, "loc", "scale"], args, strict=False)), **kwds}
        if not only_location_scale and fixed:
            raise InvalidArgument(
                f"Give {self.name} without numbers of its own, and its parameters by name, as in "
                f"Population(stats.{self.name}, {', '.join(f'{name}=...' for name in fixed)}).",
                argument="distribution",
            )
        if only_location_scale and set(fixed) != set(shapes):
            raise InvalidArgument(f"LocationScale needs the shapes of {self.name} as numbers, as in stats.t(5), and "
                                  "neither loc nor scale there.", argument="base")  # fmt: skip
        self.standard = tuple(fixed[name] for name in shapes) if only_location_scale else ()
        shapes = [] if only_location_scale else shapes
        location = {"loc": REAL} if self.is_discrete else {"loc": REAL, "scale": POSITIVE}
        self.domains: Mapping[str, Support] = {**dict.fromkeys(shapes, REAL), **location}

    @property
    def scipy_law(self) -> object:
        return self.distribution

    def _shapes(self) -> list[str]:
        return [s.strip() for s in (self.distribution.shapes or "").split(",") if s.strip()]

    def check(self, known: Values, priors: Values) -> None:
        """Refuse parameters at which scipy has no density: NaN would otherwise only show deep inside a run."""
        quantiles = (0.001, 0.05, 0.5, 0.95, 0.999)
        middle = {**known, **{name: np.asarray([prior.median()]) for name, prior in priors.items()}}
        for name in self.domains:
            levels = priors[name].ppf(quantiles) if name in priors else known[name]
            for level in np.ravel(levels):
                p = {**middle, name: np.asarray([level])}
                with np.errstate(all="ignore"):
                    is_defined = not np.isnan(self.log_density(self._some_value(p), p)).any()
                if not is_defined:
                    reason = ", which its prior allows; choose a prior inside its domain" if name in priors else ""
                    raise InvalidArgument(
                        f"scipy's {self.name} has no density (NaN) at {name} = {level:.4g}{reason}.", argument=name
                    )

    def _some_value(self, p: Values) -> Any:
        """A value that the distribution can take, found at little cost.

        scipy finds a discrete median by adding probabilities up, for a heavy tail more of them than fit into memory;
        an end of the support will do.
        """
        if not self.is_discrete:
            return self.quantile(0.5, p)
        low, high = map(np.asarray, self.distribution.support(**self._arguments(p)))
        return np.where(np.isinf(low), np.where(np.isinf(high), 0.0, high), low)

    def _arguments(self, p: Values) -> dict[str, Any]:
        fixed = dict(zip(self._shapes(), self.standard, strict=False))
        return {**fixed, **{name: p[name] for name in self.domains}}

    def log_density(self, x: Any, p: Values) -> Array:
        method = self.distribution.logpmf if self.is_discrete else self.distribution.logpdf
        return np.asarray(method(x, **self._arguments(p)))

    def _sums(self, p: Values, farthest: float) -> DiscreteSums | None:
        """The cdf of a law that says only its probabilities, added up for all rows together; None else."""
        if not is_added_up(self.distribution):
            return None
        return DiscreteSums.of(self.distribution, self._arguments(p), upto=farthest)

    def cdf(self, x: Any, p: Values) -> Array:
        farthest = float(np.max(x, initial=-np.inf) - np.min(p.get("loc", 0.0)))
        if np.ndim(x) and (sums := self._sums(p, farthest)) is not None:
            return sums.cdf(x)
        return np.asarray(self.distribution.cdf(x, **self._arguments(p)))

    def survival(self, x: Any, p: Values) -> Array:
        if is_added_up(self.distribution):
            return np.asarray(1 - self.cdf(x, p))
        return np.asarray(self.distribution.sf(x, **self._arguments(p)))

    def quantile(self, u: Any, p: Values) -> Array:
        arguments = self._arguments(p)
        if np.ndim(u) and (sums := self._sums(p, np.inf)) is not None:
            return sums.quantile(u)
        if self.is_discrete:
            return np.asarray(self.distribution.ppf(u, **arguments))
        # The standard quantile is taken once for all rows that differ in location and scale alone.
        loc, scale = arguments.pop("loc"), arguments.pop("scale")
        return np.asarray(loc + scale * self.distribution.ppf(u, **arguments))

    def upper_quantile(self, v: Any, p: Values) -> Array:
        if is_added_up(self.distribution):
            return self.quantile(1 - np.asarray(v), p)
        return np.asarray(self.distribution.isf(v, **self._arguments(p)))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        if is_added_up(self.distribution):
            return self.quantile(rng.random(shape), p)
        return np.asarray(self.distribution.rvs(**self._arguments(p), size=shape, random_state=rng), dtype=float)

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return None if set(self.domains) != {"loc", "scale"} else (p["loc"], p["scale"])

    @property
    def in_unit(self) -> tuple[str, ...]:
        return ("loc", "scale")

    def moments(self, p: Values) -> tuple[Array, Array]:
        """scipy's own, of the standard law moved and stretched: once for all rows that differ in these alone.

        Where scipy would integrate one row after the other, its quantiles are summed instead, if it has them closed.
        """
        if not scipy_moments_are_closed(self.distribution) and scipy_quantiles_are_closed(self.distribution):
            return quantile_moments(self, p)
        if not scipy_moments_are_closed(self.distribution) and (sums := self._sums(p, np.inf)) is not None:
            return sums.moments()
        arguments = self._arguments(p)
        loc, scale = arguments.pop("loc"), arguments.pop("scale", 1.0)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its integrals, where they do not exist
            mean, variance = self.distribution.stats(**arguments, moments="mv")
        return np.asarray(loc + scale * mean), np.asarray(np.square(scale) * variance)
