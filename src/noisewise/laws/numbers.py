"""Numbers that laws share: stable pieces of their formulas, and what may be a scale or a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.types import Floats as Floats

LARGEST_NUMBER = 1e200


def floats(k: ArrayLike) -> Floats:
    return np.asarray(k, dtype=np.float64)


def log1mexp(x: ArrayLike) -> Floats:
    """log(1 - exp(-x)) for x > 0."""
    x = floats(x)
    with np.errstate(divide="ignore"):
        return np.where(x < math.log(2), np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def from_upper_tail(k: ArrayLike, tail: Callable[[Floats], Floats]) -> Floats:
    """P(K <= k) of a symmetric law from tail(m) = P(K >= m), asked only for m >= 1: small ones keep their digits."""
    k = floats(k)
    with np.errstate(over="ignore"):
        beyond = tail(np.where(k < 0, -k, k + 1))
    return np.where(k < 0, beyond, 1 - beyond)


# ---- what may enter a law ----


def positive_number(value: object, argument: str) -> float:
    """A finite float that is exactly what was given; a rounded scale or step would be another law."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction) or not 0 < value <= LARGEST_NUMBER:
        raise refusal(argument, f"{argument} must be made of numbers greater than 0 and at most 1e200")
    if float(value) != value:
        raise refusal(argument, f"{argument} must be exact as a float")
    return float(value)


def positive_numbers(values: object, argument: str) -> tuple[float, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise refusal(argument, f"{argument} must be a sequence of numbers, one a component")
    numbers = tuple(positive_number(value, argument) for value in values)
    if not numbers:
        raise refusal(argument, f"{argument} must not be empty")
    return numbers


def power_of_two(value: object, argument: str) -> float:
    step = positive_number(value, argument)
    mantissa, exponent = math.frexp(step)
    if mantissa != 0.5 or abs(exponent) > 600:
        raise refusal(argument, f"{argument} = {step!r} must be a power of two between 2**-600 and 2**600")
    return step


def refusal(argument: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{reason}. Nothing was spent.", argument=argument)
