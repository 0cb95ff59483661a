"""Exact numbers: what people type is what is counted."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisewise.errors import InvalidArgument
from noisewise.exact import float_above, float_below, fraction, integer, power_of_two_below, text

BAD = [float("nan"), float("inf"), float("-inf"), "", " ", "abc", None, True, False, [1], {}, 1e308, 10**400, "1e999",
       "nan", "1/0", Decimal("nan"), object(), "9" * 1000]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda v: repr(v)[:20])
def test_what_is_not_a_number_is_refused_by_the_name_of_its_argument(bad: object) -> None:
    with pytest.raises(InvalidArgument, match="epsilon") as caught:
        fraction(bad, "epsilon")
    assert caught.value.argument == "epsilon"


def test_a_float_means_the_decimal_its_owner_sees() -> None:
    assert fraction(0.1, "x") == Fraction(1, 10)
    assert fraction("0.1", "x") == fraction(np.float64(0.1), "x") == fraction(Decimal("0.1"), "x") == Fraction(1, 10)
    assert fraction("1/3", "x") == Fraction(1, 3)
    assert fraction(np.int64(7), "x") == 7


@given(st.fractions())
def test_text_reads_back_unchanged(value: Fraction) -> None:
    assert fraction(text(value), "x") == value


@given(st.fractions(min_value=Fraction(-(10**20)), max_value=Fraction(10**20)))
def test_floats_above_and_below_are_the_nearest_on_their_side(value: Fraction) -> None:
    above, below = float_above(value), float_below(value)
    assert Fraction(below) <= value <= Fraction(above)
    assert above == below or math.nextafter(below, math.inf) == above


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(10**12)))
def test_the_power_of_two_below_is_the_largest(value: Fraction) -> None:
    power = power_of_two_below(value)
    assert power <= value < 2 * power
    assert power.numerator == 1 or power.denominator == 1
    assert (power.numerator & (power.numerator - 1)) == 0 == (power.denominator & (power.denominator - 1))


@pytest.mark.parametrize("bad", [1.0, True, None, "3", 0, -1, 11])
def test_integers_are_whole_and_within_bounds(bad: object) -> None:
    with pytest.raises(InvalidArgument, match="n = "):
        integer(bad, "n", minimum=1, maximum=10)


@pytest.mark.parametrize("nothing", [Fraction(0), Fraction(-1, 3)])
def test_no_power_of_two_is_looked_for_below_what_is_not_positive(nothing: Fraction) -> None:
    with pytest.raises(ArithmeticError):
        power_of_two_below(nothing)
