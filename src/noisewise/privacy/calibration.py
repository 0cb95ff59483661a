"""Noise scales: how much noise a guarantee asks for, never a hair less.

With sensitivity D (of the weighted sum, L1 for Laplace, L2 for Gaussian noise):
    PureDP              Laplace scale b = D / epsilon
    ZeroConcentratedDP  sigma = D / sqrt(2 rho)                                   (Bun & Steinke 2016)
    GaussianDP          sigma = D / mu                                            (Dong, Roth & Su 2022)
    ApproxDP            the smallest sigma with delta(sigma) <= delta, where with mu = D/sigma
                        delta(sigma) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)
                                                                                  (Balle & Wang 2018; exact)
The curve is one function of (epsilon, mu). It is evaluated in decimal arithmetic through Mills ratios,
R(x) = Phi(-x)/phi(x): with a = epsilon/mu - mu/2 and b = a + mu, e^epsilon phi(b) = phi(a), so
    delta = phi(a) (R(a) - R(b))  for a >= 0,     delta = 1 - phi(a) (R(-a) + R(b))  for a < 0,
with as many digits as the subtraction needs. Every result is rounded up, so the true delta of the sigma returned
is at most the one asked for, at every epsilon and down to delta = 1e-100.
"""

from __future__ import annotations

import math
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    getcontext,
    localcontext,
)
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from noisewise.errors import Unsupported
from noisewise.exact import float_above, float_root_above, fraction

if TYPE_CHECKING:
    from noisewise.privacy.protocol import Guarantee

_CERTAIN_DIGITS = 25
_MARGIN = Decimal("1e-20")  # far above the error of a result certain to 25 digits, far below what anyone can see
_BISECTION = Fraction(1, 2**45)


def laplace_scale(*, sensitivity: Fraction, epsilon: Fraction) -> Fraction:
    """The scale of Laplace noise that makes a sum of L1 sensitivity `sensitivity` epsilon-private, exactly."""
    return fraction(sensitivity, "sensitivity", positive=True) / fraction(epsilon, "epsilon", positive=True)


def gaussian_scale(*, sensitivity: Fraction, mu_squared: Fraction) -> Fraction:
    """The standard deviation D/mu of Gaussian noise for a sum of L2 sensitivity D, as a float rounded up."""
    exact = fraction(sensitivity, "sensitivity", positive=True)
    return Fraction(float_root_above(exact**2 / mu_squared))


def gaussian_scale_at_delta(*, sensitivity: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The smallest standard deviation that is (epsilon, delta)-private, as a float rounded up."""
    exact = fraction(sensitivity, "sensitivity", positive=True)
    return Fraction(float_above(exact / _largest_mu(epsilon, delta)))


def gaussian_sigma(*, sensitivity: Fraction, guarantee: Guarantee) -> float:
    """The standard deviation of Gaussian noise for a sum of L2 sensitivity `sensitivity`, rounded up."""
    if guarantee.norm != 2:
        raise Unsupported(
            f"Gaussian noise cannot give {guarantee!r}: at no scale is its privacy loss bounded. "
            "Ask for ZeroConcentratedDP, GaussianDP or ApproxDP, or use Laplace noise. Nothing was spent.",
            guarantee=guarantee,
        )
    return float(guarantee.calibrate(sensitivity))


def gaussian_delta(*, sigma: float, sensitivity: Fraction, epsilon: Fraction) -> float:
    """The smallest delta at which Gaussian noise of this sigma is (epsilon, delta)-private, rounded up."""
    exact_sigma = fraction(sigma, "sigma", positive=True)
    if isinstance(sigma, float):
        exact_sigma = Fraction(sigma)  # noise is drawn with the float as it is, not as it reads
    mu = fraction(sensitivity, "sensitivity", positive=True) / exact_sigma
    delta = gaussian_curve(fraction(epsilon, "epsilon", positive=True), mu**2)
    if delta < Decimal("1e-320"):
        return math.ulp(0.0)
    return min(1.0, float_above(Fraction(delta)))


def gaussian_curve(epsilon: Fraction, mu_squared: Fraction) -> Decimal:
    """delta(epsilon) of mu-Gaussian differential privacy, epsilon >= 0, rounded up in the 20th digit."""
    digits = 2 * _CERTAIN_DIGITS
    while True:
        with localcontext(decimal_context(digits)):
            delta, largest = _curve(decimal_of(epsilon), decimal_of(mu_squared).sqrt())
            if largest == 0:
                return Decimal(0)  # it is below 10^(-10^11)
            lost = largest.adjusted() - delta.adjusted() if delta > 0 else digits
            if digits - lost >= _CERTAIN_DIGITS + 5:
                return delta * (1 + _MARGIN)
        digits += lost + _CERTAIN_DIGITS


def decimal_context(digits: int) -> Context:
    """Decimal arithmetic that neither overflows nor underflows within reach of a budget."""
    traps = [InvalidOperation, DivisionByZero, Overflow]
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)


def decimal_of(exact: Fraction) -> Decimal:
    """An exact number in the current decimal arithmetic."""
    return Decimal(exact.numerator) / Decimal(exact.denominator)


@lru_cache(maxsize=256)
def _largest_mu(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A mu whose curve passes under (epsilon, delta), within 2^-45 of the largest one."""
    with localcontext(decimal_context(2 * _CERTAIN_DIGITS)):
        target = decimal_of(delta)
        # rho-zCDP with rho + 2 sqrt(rho L) = epsilon, L = log(1/delta), is private enough: start from mu^2 = 2 rho.
        root_rho = decimal_of(epsilon) / ((decimal_of(epsilon) - target.ln()).sqrt() + (-target.ln()).sqrt())
    target *= 1 - _MARGIN
    safe = Fraction(float(root_rho))
    while gaussian_curve(epsilon, safe**2) > target:
        safe /= 2
    unsafe = 2 * safe
    while gaussian_curve(epsilon, unsafe**2) <= target:
        safe, unsafe = unsafe, 2 * unsafe
    while unsafe - safe > _BISECTION * safe:
        middle = (safe + unsafe) / 2
        if gaussian_curve(epsilon, middle**2) <= target:
            safe = middle
        else:
            unsafe = middle
    return safe


def _curve(epsilon: Decimal, mu: Decimal) -> tuple[Decimal, Decimal]:
    """delta(epsilon) in the current arithmetic, and the largest number that entered its subtraction."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a > 10**6:
        return Decimal(0), Decimal(0)
    density = (-a * a / 2).exp() / (2 * _pi(getcontext().prec)).sqrt()
    if a >= 0:
        return density * (_mills(a) - _mills(b)), density * _mills(a)
    return 1 - density * (_mills(-a) + _mills(b)), Decimal(1)


def _mills(x: Decimal) -> Decimal:
    """R(x) = Phi(-x)/phi(x) for x >= 0, to nearly all digits of the current arithmetic.

    Near 0 the series R(x) = sqrt(pi/2) e^(x^2/2) - sum_k x^(2k+1)/(2k+1)!!, with digits to spare for the subtraction;
    further out the continued fraction 1/(x + 1/(x + 2/(x + ...))), whose convergents lie on either side of R in turn.
    """
    digits = getcontext().prec
    if x > 4 + digits // 20:
        return _mills_far(x)
    with localcontext(decimal_context(digits + int(x * x / 4) + 10)) as context:
        term = total = x
        odd = 1
        while term > total.scaleb(-context.prec):
            odd += 2
            term *= x * x / odd
            total += term
        return (_pi(context.prec) / 2).sqrt() * (x * x / 2).exp() - total


def _mills_far(x: Decimal) -> Decimal:
    depth = 16
    while True:
        below, above = _convergent(x, depth), _convergent(x, depth + 1)
        if abs(above - below) <= above.scaleb(2 - getcontext().prec):
            return above
        depth *= 2


def _convergent(x: Decimal, depth: int) -> Decimal:
    tail = x
    for k in range(depth, 0, -1):
        tail = x + k / tail
    return 1 / tail


@lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    """pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239), in integers."""
    unit: int = 10 ** (digits + 10)

    def arctan_of_inverse(n: int) -> int:
        power = total = unit // n
        for odd in range(3, 4 * digits + 60, 2):
            power //= -n * n
            total += power // odd
        return total

    scaled = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)
    return decimal_context(digits + 5).divide(scaled, unit)
