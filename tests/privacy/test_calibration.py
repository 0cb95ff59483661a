"""Noise is never below what the guarantee asks for, and not visibly above it."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.privacy.calibration import gaussian_curve, gaussian_delta, gaussian_sigma, laplace_scale
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP

EPSILONS = ["0.001", "0.1", "1", "3", "10", "50"]
DELTAS = ["0.3", "1e-5", "1e-12", "1e-30"]
positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)


def true_delta(epsilon: str | Fraction, mu: Fraction) -> mpmath.mpf:
    """The curve in arithmetic fine enough that no subtraction matters."""
    e = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
    m = mpmath.mpf(mu.numerator) / mu.denominator
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@given(positive, positive)
def test_laplace_scale_is_exact(sensitivity, epsilon):
    assert laplace_scale(sensitivity=sensitivity, epsilon=epsilon) * epsilon == sensitivity


@given(positive, positive)
def test_closed_forms_are_the_smallest_floats_that_suffice(sensitivity, size):
    for guarantee, needed in (
        (ZeroConcentratedDP(size), sensitivity**2 / (2 * size)),
        (GaussianDP(size), (sensitivity / size) ** 2),
        (GaussianDP(size) + GaussianDP(1), sensitivity**2 / (size**2 + 1)),
    ):
        sigma = gaussian_sigma(sensitivity=sensitivity, guarantee=guarantee)
        assert Fraction(sigma) ** 2 >= needed > Fraction(math.nextafter(sigma, 0)) ** 2


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("sensitivity", [Fraction(1), Fraction(355, 113) * 10**5])
def test_analytic_sigma_keeps_delta_and_wastes_nothing(epsilon, delta, sensitivity):
    sigma = gaussian_sigma(sensitivity=sensitivity, guarantee=ApproxDP(epsilon, delta))
    with mpmath.workdps(150):
        mu = sensitivity / Fraction(sigma)
        assert true_delta(epsilon, mu) <= mpmath.mpf(delta)
        assert true_delta(epsilon, mu * (1 + Fraction(1, 10**12))) > mpmath.mpf(delta)  # planted: noise a hair smaller


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1, 1e-5), (5, 1e-8), (20, 1e-3)])
def test_analytic_sigma_agrees_with_another_library(epsilon, delta):
    ours = gaussian_sigma(sensitivity=Fraction(1), guarantee=ApproxDP(epsilon, delta))
    assert ours == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-6)


def test_the_published_slip_in_the_analytic_calibration_is_not_ours():
    """Phi(-sqrt(epsilon) u) written for Phi(-sqrt(epsilon u)) halves sigma at epsilon = 1, and delta is far from small.

    At epsilon = 1, delta = 5e-5 the right sigma is about 3.2, far above 1.49.
    """
    sigma = gaussian_sigma(sensitivity=Fraction(1), guarantee=ApproxDP(1, "5e-5"))
    assert 3.1 < sigma < 3.4
    assert gaussian_delta(sigma=1.49, sensitivity=Fraction(1), epsilon=Fraction(1)) > 0.02


@pytest.mark.parametrize("epsilon", ["1e-30", "0.001", "1", "7", "50", "1000"])
@pytest.mark.parametrize("mu", ["1e-20", "0.01", "0.3", "1", "2", "9", "40", "300"])
def test_the_curve_is_right_to_twenty_digits_and_never_below(epsilon, mu):
    curve = gaussian_curve(Fraction(epsilon), Fraction(mu) ** 2)
    with mpmath.workdps(400):
        if Fraction(epsilon) / Fraction(mu) > 10**6:
            assert curve == 0  # below 10^(-10^11)
            return
        true = true_delta(epsilon, Fraction(mu))
        assert true <= mpmath.mpf(str(curve)) <= true * (1 + mpmath.mpf("2e-20"))


def test_delta_is_rounded_up_to_a_float():
    for sigma, epsilon in ((1.0, 1), (0.3, 2), (5.0, 3), (1.0, 40), (0.001, 1), (1.0, 10**6)):
        delta = gaussian_delta(sigma=sigma, sensitivity=Fraction(1), epsilon=Fraction(epsilon))
        with mpmath.workdps(400):
            true = true_delta(Fraction(epsilon), 1 / Fraction(sigma))
            assert true <= mpmath.mpf(delta)
        assert 0 < delta <= 1
    with mpmath.workdps(60):
        once = gaussian_delta(sigma=1.0, sensitivity=Fraction(1), epsilon=Fraction(1))
        assert once == pytest.approx(float(true_delta("1", Fraction(1))), rel=1e-15)


def test_gaussian_noise_never_claims_pure_privacy():
    with pytest.raises(Unsupported, match="Laplace"):
        gaussian_sigma(sensitivity=Fraction(1), guarantee=PureDP(1))


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), None, True, "", 1e308])
def test_bad_numbers_are_refused_by_name(bad):
    one = Fraction(1)
    for argument, call in [
        ("sensitivity", lambda: laplace_scale(sensitivity=bad, epsilon=one)),
        ("epsilon", lambda: laplace_scale(sensitivity=one, epsilon=bad)),
        ("sensitivity", lambda: gaussian_sigma(sensitivity=bad, guarantee=GaussianDP(1))),
        ("sensitivity", lambda: gaussian_delta(sigma=1.0, sensitivity=bad, epsilon=one)),
        ("epsilon", lambda: gaussian_delta(sigma=1.0, sensitivity=one, epsilon=bad)),
        ("sigma", lambda: gaussian_delta(sigma=bad, sensitivity=one, epsilon=one)),
    ]:
        with pytest.raises(InvalidArgument, match=argument):
            call()
