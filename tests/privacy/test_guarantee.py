"""Guarantees are exact, refuse what they cannot mean, compare only what has a common scale, round against us (A5)."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from hypothesis import given
from hypothesis import strategies as st

from noisewise.errors import Incomparable, InvalidArgument, InvalidSpec, NoisewiseError
from noisewise.exact import float_root_above
from noisewise.privacy.guarantee import (
    KINDS,
    ApproxDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
    guarantee_from_dict,
    guarantee_from_spec,
)

EXAMPLES = [PureDP(1), ApproxDP(1, "1e-6"), ZeroConcentratedDP("0.5"), GaussianDP(1)]
BAD = [float("nan"), float("inf"), -float("inf"), "nan", "inf", -1, 0, "0", "", "one", "1/0", None, True, False, 1e308]
BAD += [10**200, [1], 1j, np.bool_(True), "1" * 500]
positive = st.fractions(min_value=Fraction(1, 10**9), max_value=10**6)


@pytest.mark.parametrize("written", [Fraction(1, 10), "0.1", 0.1, "1/10", np.float64(0.1)])
def test_one_tenth_is_one_tenth_however_it_is_written(written):
    assert PureDP(written).epsilon == Fraction(1, 10)
    assert ApproxDP(written, delta=written) == ApproxDP(epsilon=Fraction(1, 10), delta=Fraction(1, 10))
    assert ZeroConcentratedDP(rho=written).rho == Fraction(1, 10)
    assert GaussianDP(mu=written).mu == Fraction(1, 10)


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_number_that_means_nothing_is_refused_by_its_name(bad):
    for argument, make in [
        ("epsilon", lambda: PureDP(bad)),
        ("epsilon", lambda: ApproxDP(bad, "1e-6")),
        ("delta", lambda: ApproxDP(1, bad)),
        ("rho", lambda: ZeroConcentratedDP(bad)),
        ("mu", lambda: GaussianDP(bad)),
        ("delta", lambda: GaussianDP(1).to(ApproxDP, delta=bad)),
    ]:
        with pytest.raises(InvalidArgument) as caught:
            make()
        assert caught.value.argument == argument
        assert argument in str(caught.value)


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, None, "2"])
def test_a_mechanism_is_repeated_a_whole_number_of_times(bad):
    with pytest.raises(InvalidArgument, match="count"):
        PureDP(1).times(bad)


@pytest.mark.parametrize("delta", [1, 1.0, "1.5", 2])
def test_a_delta_of_one_or_more_promises_nothing_and_is_refused(delta):
    with pytest.raises(InvalidArgument, match="delta"):
        ApproxDP(1, delta)
    with pytest.raises(InvalidArgument, match="delta"):
        ApproxDP(1, "0.6") + ApproxDP(1, "0.4")


def test_values_are_frozen_hashable_and_survive_copying():
    for value in EXAMPLES:
        for field in fields(value):
            with pytest.raises(FrozenInstanceError):
                setattr(value, field.name, Fraction(2))
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
        assert len({value, copy.copy(value)}) == 1


def test_one_tenth_ten_times_is_exactly_one():
    tenth = PureDP(0.1)
    total = tenth
    for _ in range(9):
        total = total + tenth
    assert total == PureDP(1) == tenth.times(10)


@given(positive, positive)
def test_parts_add_exactly_within_a_kind(a, b):
    assert (PureDP(a) + PureDP(b)).epsilon == a + b
    assert (ZeroConcentratedDP(a) + ZeroConcentratedDP(b)).rho == a + b
    assert (GaussianDP(a) + GaussianDP(b)).mu_squared == a**2 + b**2
    small, other = a / 10**7, b / 10**7
    assert ApproxDP(a, small) + ApproxDP(b, other) == ApproxDP(a + b, small + other)


def test_mu_is_exact_for_squares_and_rounded_up_otherwise():
    assert (GaussianDP(3) + GaussianDP(4)).mu == 5
    diagonal = (GaussianDP(1) + GaussianDP(1)).mu
    assert isinstance(diagonal, float)
    assert Fraction(diagonal) ** 2 >= 2 > Fraction(np.nextafter(diagonal, 0)) ** 2


@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**40))
def test_a_root_is_the_smallest_float_that_is_not_too_small(square):
    root = float_root_above(square)
    assert Fraction(root) ** 2 >= square > Fraction(np.nextafter(root, 0)) ** 2


def test_order_holds_within_a_kind_and_is_only_partial():
    assert PureDP(1) <= PureDP(1) < PureDP(2)
    assert not PureDP(1) < PureDP(1)
    assert PureDP(2) > PureDP(1) >= PureDP(1)
    sharp, likely = ApproxDP(1, "1e-3"), ApproxDP(2, "1e-6")
    assert not any([sharp <= likely, likely <= sharp, sharp < likely, sharp > likely, sharp >= likely])
    assert ApproxDP(1, "1e-6") < likely
    assert GaussianDP(1) < GaussianDP(1) + GaussianDP("1e-20")


@pytest.mark.parametrize("left", EXAMPLES, ids=repr)
@pytest.mark.parametrize("right", EXAMPLES, ids=repr)
def test_different_kinds_are_never_added_or_compared(left, right):
    if type(left) is type(right):
        assert left + right == left.times(2) > left
        return
    assert left != right
    for act in ("__add__", "__le__", "__lt__", "__ge__", "__gt__"):
        with pytest.raises(Incomparable, match=r"\.to\(") as caught:
            getattr(left, act)(right)
        assert repr(left) in str(caught.value)
        assert repr(right) in str(caught.value)


@pytest.mark.parametrize("stranger", [1, "1", None, 0.5])
def test_a_plain_number_is_not_a_guarantee(stranger):
    with pytest.raises(TypeError):
        PureDP(1) <= stranger  # noqa: B015
    with pytest.raises(TypeError):
        PureDP(1) + stranger
    assert PureDP(1) != stranger


def test_guarantees_read_as_people_write_them():
    shown = ["epsilon = 1", "epsilon = 1, delta = 1e-06", "rho = 0.5", "mu = 1"]
    assert [str(value) for value in EXAMPLES] == shown
    assert [repr(value) for value in EXAMPLES] == [
        "PureDP(epsilon=1)",
        "ApproxDP(epsilon=1, delta=1e-06)",
        "ZeroConcentratedDP(rho=0.5)",
        "GaussianDP(mu=1)",
    ]
    assert str(GaussianDP(1) + GaussianDP(1)) == "mu = 1.41422"  # rounded up
    assert str(PureDP(Fraction(1, 3))) == "epsilon = 1/3"


@given(positive, positive)
def test_text_and_plain_data_read_back_unchanged(a, b):
    delta = a / (a + b)
    for value in (PureDP(a), ApproxDP(a, delta), ZeroConcentratedDP(b), GaussianDP(a), GaussianDP(a) + GaussianDP(b)):
        plain = value.to_dict()
        assert all(type(entry) is str for entry in plain.values())
        assert guarantee_from_dict(plain) == value
        assert eval(repr(value)) == value
        assert KINDS[plain["kind"]] is type(value)


def test_plain_data_has_the_published_form():
    assert PureDP(1).to_dict() == {"kind": "pure-dp", "epsilon": "1"}
    assert ApproxDP(1, "1e-6").to_dict() == {"kind": "approx-dp", "epsilon": "1", "delta": "0.000001"}
    assert ZeroConcentratedDP(0.5).to_dict() == {"kind": "zero-concentrated-dp", "rho": "0.5"}
    assert GaussianDP("1/3").to_dict() == {"kind": "gaussian-dp", "mu": "1/3"}


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        "pure-dp",
        {},
        {"kind": "pure-dp"},
        {"kind": "pure", "epsilon": "1"},
        {"kind": ["pure-dp"], "epsilon": "1"},
        {"kind": "pure-dp", "rho": "1"},
        {"kind": "pure-dp", "epsilon": 1},
        {"kind": "pure-dp", "epsilon": 1.0},
        {"kind": "pure-dp", "epsilon": "nan"},
        {"kind": "pure-dp", "epsilon": "-1"},
        {"kind": "pure-dp", "epsilon": "1", "delta": "1e-6"},
        {"kind": "approx-dp", "epsilon": "1"},
        {"kind": "approx-dp", "epsilon": "1", "delta": "1"},
        {"kind": "gaussian-dp", "mu_squared": "-2"},
        {"kind": "pure-dp", "epsilon": "1", "extra": "1"},
        {"kind": "pure-dp", 1: "1"},
    ],
    ids=repr,
)
def test_damaged_plain_data_is_refused(plain):
    with pytest.raises(NoisewiseError):
        guarantee_from_dict(plain)


def test_a_spec_names_the_kind_by_its_numbers():
    assert guarantee_from_spec({"epsilon": "1"}) == PureDP(1)
    assert guarantee_from_spec({"epsilon": 0.1, "delta": 1e-6}) == ApproxDP("0.1", "0.000001")
    assert guarantee_from_spec({"rho": "1/2"}) == ZeroConcentratedDP(0.5)
    assert guarantee_from_spec({"mu": 1}) == GaussianDP(1)
    for table in ({}, {"eps": 1}, {"epsilon": 1, "rho": 1}, {"delta": 1e-6}, {"mu_squared": "2"}, 1, None, {1: 1}):
        with pytest.raises(InvalidSpec, match="epsilon"):
            guarantee_from_spec(table)
    with pytest.raises(InvalidArgument, match="epsilon"):
        guarantee_from_spec({"epsilon": True})


def test_conversions_follow_the_arrows_and_nothing_else():
    allowed = {
        (PureDP, PureDP),
        (PureDP, ZeroConcentratedDP),
        (ZeroConcentratedDP, ZeroConcentratedDP),
        (GaussianDP, GaussianDP),
        (ApproxDP, ApproxDP),
    }
    for value in EXAMPLES:
        for kind in KINDS.values():
            if (type(value), kind) in allowed:
                assert isinstance(value.to(kind), kind)
            elif kind is ApproxDP:
                with pytest.raises(InvalidArgument, match="delta"):
                    value.to(kind)
                assert value.to(kind, delta="1e-9").delta == Fraction(1, 10**9)
            else:
                with pytest.raises(Incomparable):
                    value.to(kind)
    assert PureDP(3).to(ZeroConcentratedDP) == ZeroConcentratedDP("4.5")
    assert PureDP("0.1").to(ApproxDP, delta="1e-9") == ApproxDP("0.1", "1e-9")
    assert ApproxDP(1, "1e-6").to(ApproxDP, delta="1e-5") == ApproxDP(1, "1e-5")
    with pytest.raises(Incomparable, match="delta >= 1e-06"):
        ApproxDP(1, "1e-6").to(ApproxDP, delta="1e-7")
    with pytest.raises(InvalidArgument, match="delta"):
        PureDP(1).to(ZeroConcentratedDP, delta="1e-6")
    with pytest.raises(InvalidArgument, match="kind"):
        PureDP(1).to("zcdp")


def test_pure_privacy_implies_the_concentrated_privacy_it_is_converted_to():
    """Randomized response is the worst epsilon-private mechanism: its Renyi divergence stays below rho a."""
    with mpmath.workdps(40):
        for epsilon in ("0.01", "0.5", "1", "4", "20"):
            rho = mpmath.mpf(str(float(PureDP(epsilon).to(ZeroConcentratedDP).rho)))
            e = mpmath.exp(mpmath.mpf(epsilon))
            p, q = e / (1 + e), 1 / (1 + e)
            for order in (1.0001, 1.5, 2, 10, 100):
                renyi = mpmath.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)
                assert renyi <= rho * order
                if order == 1.0001 and epsilon == "0.01":
                    assert renyi > 0.99 * rho * order  # and half the rho would be a lie


CURVES = [
    ("1e-3", "1e-5"),
    ("0.1", "1e-6"),
    ("0.5", "1e-3"),
    ("1", "1e-6"),
    ("3", "1e-10"),
    ("8", "1e-30"),
    ("1", "0.05"),
]


@pytest.mark.parametrize(("rho", "delta"), CURVES)
def test_concentrated_to_approximate_is_rounded_up_and_tight(rho, delta):
    with mpmath.workdps(60):
        r, d = mpmath.mpf(rho), mpmath.mpf(delta)

        def epsilon_at(order):
            return r * order + (mpmath.log(1 / d) - mpmath.log(order)) / (order - 1) + mpmath.log1p(-1 / order)

        start = 1 + mpmath.sqrt(mpmath.log(1 / d) / r)
        optimum = mpmath.findroot(lambda order: mpmath.diff(epsilon_at, order), start)
        true = epsilon_at(optimum)
        assert all(epsilon_at(1 + (optimum - 1) * mpmath.mpf(f)) > true for f in ("0.1", "0.9", "1.1", "10"))
        reported = _mpf(ZeroConcentratedDP(rho).to(ApproxDP, delta=delta).epsilon)
        assert true <= reported <= true * (1 + mpmath.mpf("1e-10"))
        assert reported < r + 2 * mpmath.sqrt(r * mpmath.log(1 / d))
    orders = 1 + float(optimum - 1) * np.exp(np.linspace(-0.5, 0.5, 1001))
    other, _ = compute_epsilon(orders, float(rho) * orders, float(delta))
    assert float(reported) == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize(("mu", "delta"), [*CURVES, ("0.05", "1e-3"), ("30", "1e-12")])
def test_gaussian_to_approximate_is_rounded_up_and_tight(mu, delta):
    with mpmath.workdps(60):
        reported = _mpf(GaussianDP(mu).to(ApproxDP, delta=delta).epsilon)
        m, d = mpmath.mpf(mu), mpmath.mpf(delta)

        def delta_at(e):
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

        if delta_at(mpmath.mpf(0)) <= d:
            assert reported < mpmath.mpf("1e-19")
            return
        assert delta_at(reported) <= d < delta_at(reported * (1 - mpmath.mpf("1e-9")))
        # Gaussian noise is rho-zCDP too; the exact curve must beat that road.
        assert reported <= _mpf(ZeroConcentratedDP(Fraction(mu) ** 2 / 2).to(ApproxDP, delta=delta).epsilon)
    assert float(reported) == pytest.approx(dp_accounting.get_epsilon_gaussian(1 / float(mu), float(delta)), rel=1e-6)


def _mpf(exact):
    return mpmath.mpf(exact.numerator) / exact.denominator
