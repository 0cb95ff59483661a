"""Noise laws as plain data, each with its log-probability and cumulative probability; nothing here is random.

A release publishes value + step*K, an integer number K of public lattice steps drawn from one of
    discrete Laplace    P(k) = (1-a)/(1+a) a^|k|,  a = exp(-1/r)        r = scale/step
    discrete Gaussian   P(k) = exp(-k^2/2r^2) / sum_j exp(-j^2/2r^2)
    rounded Gaussian    K = round(r Z),  P(k) = Phi((k+1/2)/r) - Phi((k-1/2)/r)
    smooth Laplace      K = round(r V),  V ~ Laplace(1)                 r = S/(alpha step), S secret
    smooth Cauchy       K = round(r C),  C ~ Cauchy(0, 1)
or is an index drawn from a row of exact Fractions (randomized response, a finite law). Rounding a continuous law is
post-processing, so a continuous proof of privacy holds on the lattice as it stands.

Promise: the log-probabilities are right to rounding for every r between 1e-3 and 2^55, in the far tails too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise import exact
from noisewise.errors import InvalidArgument
from noisewise.privacy.finite import FiniteLaw, RandomizedResponse

__all__ = [
    *("AdditiveLaw", "DiscreteGaussian", "DiscreteLaplace", "RoundedGaussian"),
    *("SmoothCauchy", "SmoothLaplace", "SmoothLaw", "ExponentialQuantile", "FiniteLaw", "RandomizedResponse"),
    *("Law", "law_from_dict"),
]

Floats = NDArray[np.float64]
LARGEST_RATIO = 2.0**55  # below it the chance that noise reaches 2^63 steps is under exp(-256)
SMALLEST_RATIO = 2.0**-200  # nothing overflows when 2^63 steps are scored
LARGEST_NUMBER = 1e200


@dataclass(frozen=True, slots=True)
class AdditiveLaw(ABC):
    """Independent noise on every component, in whole steps; `scale` and `step` are in units of the sum."""

    scale: tuple[float, ...]
    step: tuple[float, ...]
    family: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _numbers(self.scale, "scale"))
        object.__setattr__(self, "step", _numbers(self.step, "step"))
        if len(self.scale) != len(self.step):
            raise _refuse("step", f"{len(self.scale)} scales need as many steps, not {len(self.step)}")
        for scale, step in zip(self.scale, self.step, strict=True):
            _power_of_two(step, "step")
            if not Fraction(SMALLEST_RATIO) <= Fraction(scale) / Fraction(step) < Fraction(LARGEST_RATIO):
                raise _refuse("scale", f"scale/step = {scale!r}/{step!r} must lie between 2**-200 and 2**55")

    @property
    def size(self) -> int:
        """The number of components."""
        return len(self.scale)

    @property
    def ratio(self) -> tuple[float, ...]:
        """r = scale/step of each component; exact, since the step is a power of two."""
        return tuple(scale / step for scale, step in zip(self.scale, self.step, strict=True))

    def to_dict(self) -> dict[str, object]:
        return {"family": self.family, "scale": list(self.scale), "step": list(self.step)}

    def _ratio(self, component: int) -> float:
        k = exact.integer(component, "component", minimum=0, maximum=self.size - 1)
        return self.scale[k] / self.step[k]

    @property
    @abstractmethod
    def sd(self) -> tuple[float, ...]:
        """The standard deviation of each component, in units of the sum."""

    @abstractmethod
    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        """log P(noise = k steps)."""

    @abstractmethod
    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        """P(noise <= k steps)."""


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(AdditiveLaw):
    """P(k) = (1-a)/(1+a) a^|k|, a = exp(-step/scale); moving the sum by d changes log P by at most d/scale."""

    family: ClassVar[str] = "discrete-laplace"

    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        rate = 1 / self._ratio(component)
        with np.errstate(over="ignore"):
            return np.asarray(_log1mexp(rate) - math.log1p(math.exp(-rate)) - np.abs(_float(k)) * rate)

    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        rate = 1 / self._ratio(component)
        return _from_upper_tail(k, lambda m: np.exp(-m * rate) / (1 + math.exp(-rate)))

    @property
    def sd(self) -> tuple[float, ...]:
        """sqrt(2a)/(1-a) steps."""
        return tuple(
            step * math.sqrt(2) * math.exp(-0.5 / r) / -math.expm1(-1 / r)
            for r, step in zip(self.ratio, self.step, strict=True)
        )


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(AdditiveLaw):
    """P(k) proportional to exp(-(k step)^2/(2 scale^2)): (d/scale)^2/2-zCDP when the sum moves by d."""

    family: ClassVar[str] = "discrete-gaussian"

    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        r = self._ratio(component)
        with np.errstate(over="ignore"):
            return -0.5 * np.square(_float(k) / r) - _log_theta(r)

    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        r = self._ratio(component)
        if r > 100:
            return _discrete_gaussian_cdf(_float(k), r)
        furthest = math.ceil(39 * r) + 1  # exp(-39^2/2) is below the smallest float
        pmf = np.exp(self.log_pmf(np.arange(furthest + 1), component))
        tail = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
        return _from_upper_tail(k, lambda m: tail[np.minimum(m, furthest + 1).astype(np.int64)])

    @property
    def sd(self) -> tuple[float, ...]:
        # From r = 4 on the variance is r^2 up to exp(-2 pi^2 r^2) < 1e-136.
        return tuple(
            self.scale[j] if r >= 4 else self.step[j] * _sd_by_summation(self, j) for j, r in enumerate(self.ratio)
        )


@dataclass(frozen=True, slots=True)
class RoundedGaussian(AdditiveLaw):
    """K = round(scale Z/step): the continuous Gaussian mechanism followed by rounding, so (d/scale)-GDP."""

    family: ClassVar[str] = "rounded-gaussian"

    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        r = self._ratio(component)
        m = np.abs(_float(k))
        x, half = m / r, 0.5 / r
        if half >= 0.5:
            return _log_wide_cell(m, r)
        narrow = x * half < 2
        return np.where(narrow, _log_narrow_cell(np.where(narrow, x, 0.0), half), _log_wide_cell(m, r))

    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr((_float(k) + 0.5) / self._ratio(component)))

    @property
    def sd(self) -> tuple[float, ...]:
        # From r = 4 on rounding adds the variance of a uniform, 1/12, up to exp(-2 pi^2 r^2) < 1e-136.
        return tuple(
            self.step[j] * (math.sqrt(r * r + 1 / 12) if r >= 4 else _sd_by_summation(self, j))
            for j, r in enumerate(self.ratio)
        )


@dataclass(frozen=True, slots=True)
class SmoothLaw(ABC):
    """Noise whose scale S(x)/alpha is a beta-smooth bound of the local sensitivity: the rule is public, S is secret."""

    alpha: Fraction
    beta: float
    step: float
    family: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", exact.fraction(self.alpha, "alpha", positive=True))
        object.__setattr__(self, "beta", _number(self.beta, "beta"))
        object.__setattr__(self, "step", _power_of_two(self.step, "step"))

    def to_dict(self) -> dict[str, object]:
        return {"family": self.family, "alpha": str(self.alpha), "beta": self.beta, "step": self.step}

    def _ratio(self, smooth_scale: ArrayLike) -> Floats:
        """r = S/(alpha step), elementwise."""
        scale = _float(smooth_scale)
        if not np.all((scale > 0) & np.isfinite(scale)):
            raise _refuse(
                "smooth_scale", "a smooth scale must be positive and finite (it is secret, so it is not shown)"
            )
        return scale / (float(self.alpha) * self.step)

    @abstractmethod
    def log_pmf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        """log P(noise = k steps | S = smooth_scale)."""

    @abstractmethod
    def cdf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        """P(noise <= k steps | S = smooth_scale)."""


@dataclass(frozen=True, slots=True)
class SmoothLaplace(SmoothLaw):
    """K = round(S/(alpha step) V), V ~ Laplace(1)."""

    family: ClassVar[str] = "smooth-laplace"

    def log_pmf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        rate, m = 1 / self._ratio(smooth_scale), np.abs(_float(k))
        beside = _log1mexp(rate) - math.log(2) - np.maximum(m - 0.5, 0.0) * rate
        return np.where(m == 0, _log1mexp(rate / 2), beside)

    def cdf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        rate = 1 / self._ratio(smooth_scale)
        return _from_upper_tail(k, lambda m: np.exp(-(m - 0.5) * rate) / 2)


@dataclass(frozen=True, slots=True)
class SmoothCauchy(SmoothLaw):
    """K = round(S/(alpha step) C), C standard Cauchy.

    P(k) = (atan(b) - atan(a))/pi with a, b = (k -+ 1/2)/r, which is atan2(r, r^2 + k^2 - 1/4)/pi without cancellation.
    """

    family: ClassVar[str] = "smooth-cauchy"

    def log_pmf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        r, m = self._ratio(smooth_scale), _float(k)
        return np.asarray(np.log(np.arctan2(r, r * r + (m * m - 0.25)) / np.pi))

    def cdf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        return np.asarray(np.arctan2(self._ratio(smooth_scale), -(_float(k) + 0.5)) / np.pi)


@dataclass(frozen=True, slots=True)
class ExponentialQuantile:
    """P(lattice point y) proportional to exp(-epsilon/2 |#{x_i < y} - q n|); it has no pmf without the records."""

    epsilon: Fraction
    step: float
    family: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact.fraction(self.epsilon, "epsilon", positive=True))
        object.__setattr__(self, "step", _power_of_two(self.step, "step"))

    def to_dict(self) -> dict[str, object]:
        return {"family": self.family, "epsilon": str(self.epsilon), "step": self.step}


Law = (
    DiscreteLaplace | DiscreteGaussian | RoundedGaussian | SmoothLaplace | SmoothCauchy
    | RandomizedResponse | FiniteLaw | ExponentialQuantile
)  # fmt: skip
FAMILIES: dict[str, type[Law]] = {
    kind.family: kind
    for kind in (
        *(DiscreteLaplace, DiscreteGaussian, RoundedGaussian, SmoothLaplace, SmoothCauchy),
        *(RandomizedResponse, FiniteLaw, ExponentialQuantile),
    )
}


def law_from_dict(entries: Mapping[str, object]) -> Law:
    """The law written by `to_dict`; anything missing, unknown or out of its domain is refused by name."""
    if not isinstance(entries, Mapping):
        raise _refuse("law", "a law is written as a mapping with a 'family'")
    family = entries.get("family")
    kind = FAMILIES.get(family) if isinstance(family, str) else None
    if kind is None:
        raise _refuse("family", f"the noise family must be one of {', '.join(FAMILIES)}")
    expected = {entry.name for entry in fields(kind) if entry.init}
    if set(entries) != expected | {"family"}:
        raise _refuse("law", f"a {family} law has exactly the entries family, {', '.join(sorted(expected))}")
    return kind(**{name: entries[name] for name in expected})  # type: ignore[arg-type]


# ---- numbers: stable pieces of the formulas above ----


def _float(k: ArrayLike) -> Floats:
    return np.asarray(k, dtype=np.float64)


def _log1mexp(x: ArrayLike) -> Floats:
    """log(1 - exp(-x)) for x > 0."""
    x = _float(x)
    with np.errstate(divide="ignore"):
        return np.where(x < math.log(2), np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def _from_upper_tail(k: ArrayLike, tail: Callable[[Floats], Floats]) -> Floats:
    """P(K <= k) of a symmetric law from tail(m) = P(K >= m), asked only for m >= 1: small ones keep their digits."""
    k = _float(k)
    with np.errstate(over="ignore"):
        beyond = tail(np.where(k < 0, -k, k + 1))
    return np.where(k < 0, beyond, 1 - beyond)


def _log_theta(r: float) -> float:
    """log sum_k exp(-k^2/2r^2); above r = 0.4 by Poisson summation, r sqrt(2 pi) (1 + 2 sum_j exp(-2 pi^2 r^2 j^2))."""
    rate = 0.5 / (r * r) if r < 0.4 else 2 * (math.pi * r) ** 2
    rest = math.log1p(2 * math.fsum(math.exp(-rate * j * j) for j in range(1, 6)))
    return rest if r < 0.4 else rest + math.log(r) + 0.5 * math.log(2 * math.pi)


def _discrete_gaussian_cdf(k: Floats, r: float) -> Floats:
    """Euler-Maclaurin at the midpoint u = (k+1/2)/r: Phi(u) + phi(u) sum_n c_n He_{2n-1}(u) r^{-2n}.

    c_n = -B_{2n}(1/2)/(2n)!. The relative error is about 2 (u/2 pi r)^12, below 1e-14 for r > 100 wherever Phi(u) > 0.
    """
    from numpy.polynomial.hermite_e import hermeval
    from scipy.special import ndtr

    u = (k + 0.5) / r
    coefficients = np.zeros(10)
    coefficients[1::2] = [1 / 24, -7 / 5760, 31 / 967680, -127 / 154828800, 73 / 3503554560]
    coefficients[1::2] /= r ** np.arange(2.0, 11.0, 2.0)
    near = np.clip(u, -40, 40)
    correction = hermeval(near, coefficients) * np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    return np.asarray(np.clip(ndtr(u) + correction, 0.0, 1.0))


def _log_narrow_cell(x: Floats, half: float) -> Floats:
    """log of the mass of phi on [x-half, x+half] = phi(x) 2 int_0^half cosh(x u) exp(-u^2/2) du, by Gauss."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    u = half * (nodes + 1) / 2
    mean = np.cosh(np.multiply.outer(x, u)) @ (weights / 2 * np.exp(-0.5 * u * u))
    return -0.5 * x * x + np.log(mean) + math.log(2 * half) - 0.5 * math.log(2 * math.pi)


def _log_wide_cell(m: Floats, r: float) -> Floats:
    """log(Phi(-a) - Phi(-b)), a, b = (m -+ 1/2)/r >= 0, by Phi(-a) = exp(-a^2/2) erfcx(a/sqrt 2)/2; m = 0 by erf."""
    from scipy.special import erf, erfc, erfcx

    half = 0.5 / r / math.sqrt(2)
    centre = math.log1p(-erfc(half)) if half > 0.5 else math.log(erf(half))
    beside = np.maximum(m, 1.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        a, b = (beside - 0.5) / r, (beside + 0.5) / r
        inner, outer = erfcx(a / math.sqrt(2)), erfcx(b / math.sqrt(2))
        fall = beside / r / r + np.where(outer > 0, np.log(inner) - np.log(outer), 0.0)
        log_cell = -0.5 * a * a + np.log(inner / 2) + _log1mexp(fall)
    return np.where(m == 0, centre, log_cell)


def _sd_by_summation(law: AdditiveLaw, component: int) -> float:
    k = np.arange(1, 170)  # covers 40 standard deviations for r < 4
    return math.sqrt(2 * math.fsum(k * k * np.exp(law.log_pmf(k, component))))


# ---- what may enter a law ----


def _number(value: object, argument: str) -> float:
    """A finite float that is exactly what was given; a rounded scale or step would be another law."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction) or not 0 < value <= LARGEST_NUMBER:
        raise _refuse(argument, f"{argument} must be made of numbers greater than 0 and at most 1e200")
    if float(value) != value:
        raise _refuse(argument, f"{argument} must be exact as a float")
    return float(value)


def _numbers(values: object, argument: str) -> tuple[float, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise _refuse(argument, f"{argument} must be a sequence of numbers, one a component")
    numbers = tuple(_number(value, argument) for value in values)
    if not numbers:
        raise _refuse(argument, f"{argument} must not be empty")
    return numbers


def _power_of_two(value: object, argument: str) -> float:
    step = _number(value, argument)
    mantissa, exponent = math.frexp(step)
    if mantissa != 0.5 or abs(exponent) > 600:
        raise _refuse(argument, f"{argument} = {step!r} must be a power of two between 2**-600 and 2**600")
    return step


def _refuse(argument: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{reason}. Nothing was spent.", argument=argument)
