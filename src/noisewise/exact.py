"""Exact numbers from what people type.

Budgets, bounds and weights are `Fraction`s: 1/10 taken ten times from 1 leaves 0. A float typed as `0.1`
means the decimal its owner sees, so it is read through its shortest repr. Everything else (nan, inf, bool,
text that is not a number, sizes no computation could meet) is refused, naming the argument.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Integral, Rational, Real

from noisewise.errors import InvalidArgument
from noisewise.printable import shown

type_error = "a number such as 1, 0.5, '0.1' or Fraction(1, 3)"

# Numbers outside these magnitudes overflow the float arithmetic of the databases that sum our lattices.
LARGEST = Fraction(10) ** 100
SMALLEST = 1 / LARGEST
LONGEST_BITS, LONGEST_TEXT = 5000, 2000  # what is accepted can be written into a release and read back


def fraction(
    value: object, argument: str, *, positive: bool = False, nonzero: bool = False, minimum: int | None = None
) -> Fraction:
    """Read `value` as an exact number, or refuse it by the name of its argument."""
    exact = _parse(value, argument)
    if abs(exact) > LARGEST or (exact != 0 and abs(exact) < SMALLEST):
        raise _refuse(argument, value, "a number between 1e-100 and 1e100 in magnitude")
    if _bits(exact) > LONGEST_BITS:
        raise _refuse(argument, "a longer number", "a number of at most 1500 digits")
    if nonzero and exact == 0:
        raise _refuse(argument, value, "a number other than 0")
    if positive and exact <= 0:
        raise _refuse(argument, value, "a number greater than 0")
    if minimum is not None and exact < minimum:
        raise _refuse(argument, value, f"a number of at least {minimum}")
    return exact


def integer(value: object, argument: str, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Read `value` as an integer within bounds, or refuse it by the name of its argument."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _refuse(argument, value, "a whole number")
    whole = int(value)
    if minimum is not None and whole < minimum:
        raise _refuse(argument, value, f"a whole number of at least {minimum}")
    if maximum is not None and whole > maximum:
        raise _refuse(argument, value, f"a whole number of at most {maximum}")
    return whole


def float_above(exact: Fraction) -> float:
    """The smallest float that is not below `exact`."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def float_below(exact: Fraction) -> float:
    """The largest float that is not above `exact`."""
    return -float_above(-exact)


def power_of_two_below(exact: Fraction) -> Fraction:
    """The largest power of two that is not above `exact` > 0."""
    if exact <= 0:  # it would be looked for without end
        raise ArithmeticError("no power of two is below a number that is not positive; this is a fault of the library")
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    power = Fraction(2) ** exponent
    while power > exact:
        power /= 2
    while power * 2 <= exact:
        power *= 2
    return power


def root_above(square: Fraction) -> Fraction:
    """A rational at least sqrt(square), exact for perfect squares and within 2^-60 of it otherwise."""
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    shift = max(0, 128 + square.denominator.bit_length() - square.numerator.bit_length())
    scaled = math.isqrt((square.numerator << 2 * shift) // square.denominator) + 1
    return Fraction(scaled, 1 << shift)


def float_root_above(square: Fraction) -> float:
    """The smallest float whose square is at least `square`."""
    scale = max(0, 130 + square.denominator.bit_length() - square.numerator.bit_length()) // 2
    root = float(Fraction(math.isqrt((square.numerator << 2 * scale) // square.denominator), 1 << scale))
    while Fraction(root) ** 2 >= square:
        root = math.nextafter(root, 0.0)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def text(exact: Fraction) -> str:
    """An exact number as people write it: '2', '0.1' or '1/3'; `fraction` reads it back unchanged."""
    denominator = exact.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1 or exact.denominator > 10**12:
        return str(exact)
    digits = format(Decimal(exact.numerator) / Decimal(exact.denominator), "f")
    return digits if Fraction(digits) == exact else str(exact)


def _parse(value: object, argument: str) -> Fraction:
    if isinstance(value, bool) or value is None:
        raise _refuse(argument, value, type_error)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Real | Decimal):
        if not math.isfinite(value):
            raise _refuse(argument, value, "a finite number")
        return Fraction(repr(float(value))) if isinstance(value, Real) else Fraction(value)
    if isinstance(value, str):
        return _parse_text(value, argument)
    raise _refuse(argument, value, type_error)


def _parse_text(value: str, argument: str) -> Fraction:
    if len(value) > LONGEST_TEXT:
        raise _refuse(argument, value[:20] + "...", type_error)
    try:
        if "/" in value:
            return Fraction(value.replace(" ", ""))
        decimal = Decimal(value.strip())
        if not decimal.is_finite() or abs(decimal.adjusted()) > 400:
            raise _refuse(argument, value, "a finite number")
        return Fraction(decimal)
    except (ValueError, InvalidOperation, ZeroDivisionError):
        raise _refuse(argument, value, type_error) from None


def _bits(value: Rational) -> int:
    return int(value.numerator).bit_length() + int(value.denominator).bit_length()


def _refuse(argument: str, value: object, expected: str) -> InvalidArgument:
    return InvalidArgument(
        f"{argument} = {shown(value)} cannot be used: expected {expected}. Nothing was spent.", argument=argument
    )
