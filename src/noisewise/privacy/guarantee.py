"""Guarantees: what a release promises the people in the data, as exact numbers.

Four kinds, for neighbouring data sets x, x' and any mechanism M:
    PureDP(epsilon)            P(M(x) in S) <= e^epsilon P(M(x') in S)
    ApproxDP(epsilon, delta)   P(M(x) in S) <= e^epsilon P(M(x') in S) + delta            (Dwork et al. 2006)
    ZeroConcentratedDP(rho)    Renyi divergence of order a at most rho a, for every a > 1 (Bun & Steinke 2016)
    GaussianDP(mu)             no easier to tell apart than N(0, 1) from N(mu, 1)         (Dong, Roth & Su 2022)

The numbers are `Fraction`s that add within a kind (GaussianDP adds mu^2); the noise each asks for is in
`privacy.calibration`, the conversions between them in `privacy.conversion`, and what every kind owes in
`privacy.protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Self

from noisewise.errors import Incomparable
from noisewise.exact import float_root_above, fraction
from noisewise.privacy.calibration import gaussian_scale, gaussian_scale_at_delta, laplace_scale
from noisewise.privacy.conversion import gaussian_epsilon, zero_concentrated_epsilon
from noisewise.privacy.protocol import (
    CONVERSIONS,
    KINDS,
    Guarantee,
    Number,
    Parts,
    checked_guarantee,
    guarantee_from_dict,
    guarantee_from_spec,
    probability,
    readable,
    register_conversion,
    register_guarantee,
)

__all__ = [
    "CONVERSIONS",
    "KINDS",
    "ApproxDP",
    "GaussianDP",
    "Guarantee",
    "Number",
    "PureDP",
    "ZeroConcentratedDP",
    "checked_guarantee",
    "guarantee_from_dict",
    "guarantee_from_spec",
    "register_conversion",
    "register_guarantee",
]

BESIDE_DELTA = Fraction(1, 10**6)


@register_guarantee
@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(Guarantee):
    """epsilon-differential privacy: P(M(x) in S) <= e^epsilon P(M(x') in S) for neighbouring data sets x, x'.

    Parameters
    ----------
    epsilon
        Positive; a whole number, a Fraction or a text such as "0.1" is exact, a float is taken at its decimal writing.

    Examples
    --------
    >>> nw.PureDP("0.1") + nw.PureDP("0.2") == nw.PureDP("0.3")
    True
    """

    kind: ClassVar[str] = "pure-dp"
    norm: ClassVar[int] = 1
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", fraction(epsilon, "epsilon", positive=True))

    @property
    def pure_epsilon(self) -> Fraction:
        return self.epsilon

    @classmethod
    def beside(cls, epsilon: Fraction) -> Self:
        return cls(epsilon)

    def calibrate(self, sensitivity: Fraction) -> Fraction:
        """Laplace noise of scale D/epsilon."""
        return laplace_scale(sensitivity=sensitivity, epsilon=self.epsilon)


@register_guarantee
@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Guarantee):
    """(epsilon, delta)-differential privacy: P(M(x) in S) <= e^epsilon P(M(x') in S) + delta, 0 < delta < 1.

    Parameters
    ----------
    epsilon
        Positive, exact as in `PureDP`.
    delta
        By how much a probability may exceed that; far below one over the number of records.

    Examples
    --------
    >>> print(nw.ApproxDP(1, "1e-6"))
    epsilon = 1, delta = 1e-06
    """

    kind: ClassVar[str] = "approx-dp"
    norm: ClassVar[int] = 2
    takes_delta: ClassVar[bool] = True
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", fraction(epsilon, "epsilon", positive=True))
        object.__setattr__(self, "delta", probability(delta, "delta"))

    @classmethod
    def beside(cls, epsilon: Fraction) -> Self:
        return cls(epsilon, BESIDE_DELTA)

    def calibrate(self, sensitivity: Fraction) -> Fraction:
        """Gaussian noise of the smallest sigma whose exact delta at epsilon is at most delta."""
        return gaussian_scale_at_delta(sensitivity=sensitivity, epsilon=self.epsilon, delta=self.delta)


@register_guarantee
@dataclass(frozen=True, slots=True, init=False, repr=False)
class ZeroConcentratedDP(Guarantee):
    """rho-zero-concentrated differential privacy: the Renyi divergence of every order a > 1 is at most rho a.

    Parameters
    ----------
    rho
        Positive, exact as in `PureDP`. Gaussian noise has sigma = sensitivity/sqrt(2 rho); rho adds.

    Examples
    --------
    >>> print(nw.ZeroConcentratedDP("1/2").to(nw.ApproxDP, delta="1e-6"))
    epsilon = 5.22153444454, delta = 1e-06
    """

    kind: ClassVar[str] = "zero-concentrated-dp"
    norm: ClassVar[int] = 2
    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", fraction(rho, "rho", positive=True))

    @classmethod
    def beside(cls, epsilon: Fraction) -> Self:
        return cls(epsilon**2 / 2)

    def calibrate(self, sensitivity: Fraction) -> Fraction:
        """Gaussian noise of sigma = D/sqrt(2 rho), rounded up."""
        return gaussian_scale(sensitivity=sensitivity, mu_squared=2 * self.rho)


@register_guarantee
@dataclass(frozen=True, slots=True, init=False, repr=False)
class GaussianDP(Guarantee):
    """mu-Gaussian differential privacy: neighbours are no easier to tell apart than N(0, 1) from N(mu, 1).

    What adds is mu^2, so that is what is kept, exactly.

    Parameters
    ----------
    mu
        Positive. Gaussian noise has sigma = sensitivity/mu.

    Examples
    --------
    >>> print(nw.GaussianDP(3) + nw.GaussianDP(4))
    mu = 5
    """

    kind: ClassVar[str] = "gaussian-dp"
    norm: ClassVar[int] = 2
    mu_squared: Fraction

    def __init__(self, mu: Number) -> None:
        object.__setattr__(self, "mu_squared", fraction(mu, "mu", positive=True) ** 2)

    @property
    def mu(self) -> Fraction | float:
        """The root of `mu_squared`: exact if it is rational, else the smallest float that is not below it."""
        root = _rational_root(self.mu_squared)
        return float_root_above(self.mu_squared) if root is None else root

    @classmethod
    def from_parts(cls, *parts: Fraction) -> Self:
        (mu_squared,) = parts
        value = cls.__new__(cls)
        object.__setattr__(value, "mu_squared", mu_squared)
        return value

    def numbers(self) -> dict[str, Fraction]:
        root = _rational_root(self.mu_squared)
        return {"mu_squared": self.mu_squared} if root is None else {"mu": root}

    @classmethod
    def number_names(cls) -> tuple[str, ...]:
        return ("mu",)

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, Number]) -> Self | None:
        if set(numbers) == {"mu_squared"}:
            return cls.from_parts(fraction(numbers["mu_squared"], "mu_squared", positive=True))
        return cls(numbers["mu"]) if set(numbers) == {"mu"} else None

    @classmethod
    def beside(cls, epsilon: Fraction) -> Self:
        return cls(epsilon)

    def calibrate(self, sensitivity: Fraction) -> Fraction:
        """Gaussian noise of sigma = D/mu, rounded up."""
        return gaussian_scale(sensitivity=sensitivity, mu_squared=self.mu_squared)

    def __str__(self) -> str:
        return f"mu = {readable(_rational_root(self.mu_squared) or Fraction(self.mu))}"

    def __repr__(self) -> str:
        if _rational_root(self.mu_squared) is None:
            return f"GaussianDP.from_parts({self.mu_squared!r})"
        return Guarantee.__repr__(self)


# ---- conversions, each a theorem ----


def _approx_to_approx(source: ApproxDP, delta: Fraction) -> Parts:
    if delta < source.delta:
        raise Incomparable(
            f"{source!r} says nothing at the smaller delta = {readable(delta)}. "
            f"Ask for delta >= {readable(source.delta)}. Nothing was spent.",
            left=source,
            right=ApproxDP,
        )
    return (source.epsilon, delta)


register_conversion(PureDP, ZeroConcentratedDP, lambda source, _: (source.epsilon**2 / 2,))
register_conversion(PureDP, ApproxDP, lambda source, delta: (source.epsilon, delta))
register_conversion(ApproxDP, ApproxDP, _approx_to_approx)
register_conversion(
    ZeroConcentratedDP, ApproxDP, lambda source, delta: (zero_concentrated_epsilon(source.rho, delta), delta)
)
register_conversion(GaussianDP, ApproxDP, lambda source, delta: (gaussian_epsilon(source.mu_squared, delta), delta))


def _rational_root(square: Fraction) -> Fraction | None:
    root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    return root if root * root == square else None
