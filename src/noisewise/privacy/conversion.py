"""What other kinds promise in the words of (epsilon, delta): numbers only, every one rounded up, against ourselves.

    rho-zCDP  epsilon = min over t > 0 of rho (1+t) + (log(1/delta) - log(1+t))/t - log(1+1/t)
              (order 1+t; Canonne, Kamath & Steinke 2020; every t is valid, so the search need not be exact)
    mu-GDP    the root of delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)   (Dong, Roth & Su 2022)
Results are rounded up in the 12th digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from noisewise.privacy.calibration import decimal_context, decimal_of, gaussian_curve

# The smallest epsilon reported where a conversion would allow none at all: an ApproxDP has epsilon > 0.
LEAST_EPSILON = Fraction(1, 2**64)
_BISECTION = Fraction(1, 2**45)


@lru_cache(maxsize=1024)
def zero_concentrated_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that rho-zCDP promises at this delta, rounded up."""
    log_inverse_delta = math.log(delta.denominator) - math.log(delta.numerator)
    rate = float(rho)

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        return rate * (1 + t) + (log_inverse_delta - math.log1p(t)) / t - math.log1p(1 / t)

    t = Decimal(math.exp(_argmin(bound, -300.0, 300.0)))
    with localcontext(decimal_context(60 + max(0, t.adjusted()))):
        log_delta = decimal_of(delta).ln()
        return round_up(decimal_of(rho) * (1 + t) - (log_delta + (1 + t).ln()) / t - (1 + 1 / t).ln())


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu_squared: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that mu-GDP promises at this delta, rounded up."""
    with localcontext(decimal_context(60)):
        target = decimal_of(delta)
    if gaussian_curve(LEAST_EPSILON, mu_squared) <= target:
        return LEAST_EPSILON
    low, high = LEAST_EPSILON, zero_concentrated_epsilon(mu_squared / 2, delta)
    while high - low > _BISECTION * high:
        middle = (low + high) / 2
        if gaussian_curve(middle, mu_squared) <= target:
            high = middle
        else:
            low = middle
    with localcontext(decimal_context(60)):
        return round_up(decimal_of(high))


def _argmin(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is lowest, by golden section."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 1e-9:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return (low + high) / 2


def round_up(value: Decimal) -> Fraction:
    """`value`, computed to sixty digits, in twelve digits that are not below it; at least LEAST_EPSILON."""
    surely_above = value + abs(value).scaleb(-40)
    return max(Fraction(Context(prec=12, rounding=ROUND_CEILING).plus(surely_above)), LEAST_EPSILON)
