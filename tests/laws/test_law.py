"""The noise laws say what they are: 60-digit arithmetic, summation, exact divergence (promises A1, B2)."""

import json
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from noisewise import laws
from noisewise.errors import InvalidArgument
from noisewise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialQuantile,
    FiniteLaw,
    RandomizedResponse,
    RoundedGaussian,
    SmoothCauchy,
    SmoothLaplace,
    law_from_dict,
)

ADDITIVE = (DiscreteLaplace, DiscreteGaussian, RoundedGaussian)
SMOOTH = (SmoothLaplace, SmoothCauchy)
RATIOS = (1e-3, 0.03, 0.39, 0.41, 1.0, 2.5, 7.0, 99.0, 101.0, 1e3 + 0.5, 1e6, 2.0**33 + 1, 2.0**50)
HALF = mp.mpf("0.5")


@pytest.fixture(autouse=True)
def _sixty_digits():
    with mp.workdps(60):
        yield


def additive(kind, ratio):
    return kind(scale=(ratio * 0.25,), step=(0.25,))


def smooth(kind):
    return kind(alpha=Fraction(1, 2), beta=0.05, step=2.0**-10)


def normal_cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def theta(r):
    """sum_j exp(-j^2/2r^2) to 60 digits; by Poisson's formula where direct summation is long."""
    rate, factor = (1 / (2 * r * r), 1) if r < 1 else (2 * (mp.pi * r) ** 2, r * mp.sqrt(2 * mp.pi))
    return factor * (1 + 2 * mp.fsum(mp.exp(-rate * j * j) for j in range(1, 40)))


def continuous_cdf(kind, x):
    """The law before rounding, at scale 1."""
    if kind is RoundedGaussian:
        return normal_cdf(x)
    if kind is SmoothCauchy:
        return HALF + mp.atan(x) / mp.pi
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def oracle_pmf(kind, k, r):
    """P(k) with plain formulas and many digits."""
    if kind is DiscreteLaplace:
        a = mp.exp(-1 / r)
        return (1 - a) / (1 + a) * a ** abs(k)
    if kind is DiscreteGaussian:
        return mp.exp(-(mp.mpf(k) ** 2) / (2 * r * r)) / theta(r)
    upper = -abs(k) + HALF  # in the lower tail, where a difference of cdfs keeps its digits
    with mp.workdps(120):
        return continuous_cdf(kind, upper / r) - continuous_cdf(kind, (upper - 1) / r)


def points(ratio):
    """The centre, the bulk and tails out to 300 scales."""
    return sorted({0, 1, 2, *(round(ratio * x) for x in (0.3, 1, 3, 10, 37)), round(300 * ratio) + 1})


def smooth_scale(ratio):
    return ratio * 0.5 * 2.0**-10


def score(kind, ratio):
    """log_pmf and cdf of a law as functions of k."""
    if kind in ADDITIVE:
        return additive(kind, ratio).log_pmf, additive(kind, ratio).cdf
    law, scale = smooth(kind), smooth_scale(ratio)
    return (lambda k: law.log_pmf(k, smooth_scale=scale)), (lambda k: law.cdf(k, smooth_scale=scale))


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("kind", ADDITIVE + SMOOTH)
def test_log_probabilities_are_right_to_rounding_in_the_centre_and_far_tails(kind, ratio):
    log_pmf, _ = score(kind, ratio)
    for k in points(ratio):
        expected = mp.log(oracle_pmf(kind, k, mp.mpf(ratio)))
        for signed in (k, -k):
            assert abs(float(log_pmf(signed)) - expected) <= 2e-15 * max(1, abs(expected)), (k, ratio)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("kind", [DiscreteLaplace, RoundedGaussian, *SMOOTH])
def test_cumulative_probabilities_keep_their_digits_in_the_lower_tail(kind, ratio):
    _, cdf = score(kind, ratio)
    r = mp.mpf(ratio)
    for k in (sign * point for point in points(ratio) for sign in (1, -1)):
        if kind is DiscreteLaplace:
            a = mp.exp(-1 / r)
            expected = a**-k / (1 + a) if k < 0 else 1 - a ** (k + 1) / (1 + a)
        else:
            expected = continuous_cdf(kind, (k + HALF) / r)
        if expected > mp.mpf("1e-290"):
            assert abs(float(cdf(k)) / expected - 1) < 1e-12, (k, ratio)


@pytest.mark.parametrize("ratio", [r for r in RATIOS if r < 2e3])
def test_the_discrete_gaussian_cumulates_its_probabilities(ratio):
    law, r = additive(DiscreteGaussian, ratio), mp.mpf(ratio)
    furthest = round(38 * ratio) + 3
    weights = [mp.exp(-mp.mpf(j * j) / (2 * r * r)) for j in range(furthest + 1)]
    tail = [mp.mpf(0)] * (furthest + 2)
    total = theta(r)
    for j in range(furthest, -1, -1):
        tail[j] = tail[j + 1] + weights[j] / total
    for k in points(ratio):
        if 1 <= k <= round(37 * ratio) and tail[k] > mp.mpf("1e-290"):
            assert abs(float(law.cdf(-k)) / tail[k] - 1) < 1e-12
        if k <= furthest:
            assert abs(float(law.cdf(k)) - (1 - tail[k + 1])) < 1e-15


@pytest.mark.parametrize("ratio", [1e6, 2.0**33 + 1, 2.0**50])
def test_a_fine_discrete_gaussian_cumulates_like_the_continuous_one(ratio):
    # The midpoint rule differs from the integral by 1/(24 r^2) < 1e-13.
    k = np.round(np.linspace(-6, 6, 25) * ratio)
    expected = [float(normal_cdf((mp.mpf(int(j)) + HALF) / ratio)) for j in k]
    np.testing.assert_allclose(additive(DiscreteGaussian, ratio).cdf(k), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("ratio", [r for r in RATIOS if r < 2e3])
@pytest.mark.parametrize("kind", ADDITIVE + SMOOTH)
def test_probabilities_sum_to_one_and_the_cdf_is_their_running_sum(kind, ratio):
    log_pmf, cdf = score(kind, ratio)
    reach = round(45 * ratio) + 5
    k = np.arange(-reach, reach + 1)
    running = float(cdf(-reach - 1)) + np.cumsum(np.exp(log_pmf(k)))
    np.testing.assert_allclose(cdf(k), running, rtol=0, atol=2e-12)
    outside = 2 * float(cdf(-reach - 1))  # the law is symmetric; a Cauchy keeps mass out there
    assert abs(math.fsum(np.exp(log_pmf(k))) + outside - 1) < 1e-12
    assert cdf(-(2**70)) <= 1e-3
    assert cdf(2**70) >= 1 - 1e-3


@pytest.mark.parametrize("ratio", [1e-3, 0.3, 1.0, 3.9, 4.1, 60.5])
@pytest.mark.parametrize("kind", ADDITIVE)
def test_the_stated_standard_deviation_is_that_of_the_probabilities(kind, ratio):
    k = range(1, round(45 * ratio) + 800 if kind is DiscreteLaplace else round(40 * ratio) + 5)
    variance = 2 * mp.fsum(j * j * oracle_pmf(kind, j, mp.mpf(ratio)) for j in k)
    assert abs(additive(kind, ratio).sd[0] - float(mp.sqrt(variance)) * 0.25) <= 1e-12 * ratio


def test_components_have_their_own_scale_and_step():
    law = RoundedGaussian(scale=(3.0, 8.0), step=(1.0, 0.5))
    assert law.size == 2
    assert law.log_pmf(5, component=1) == RoundedGaussian((16.0,), (1.0,)).log_pmf(5)
    with pytest.raises(InvalidArgument, match="component"):
        law.cdf(0, component=2)


def test_smooth_laws_broadcast_points_against_scales():
    k, scales = np.arange(-3, 4)[:, None], np.array([0.1, 1.0, 30.0])
    for law in map(smooth, SMOOTH):
        table = law.log_pmf(k, smooth_scale=scales)
        assert table.shape == law.cdf(k, smooth_scale=scales).shape == (7, 3)
        assert table[5, 2] == law.log_pmf(2, smooth_scale=30.0)


# ---- A1: the exact divergence of each discrete law at a shift of d steps ----

SHIFTS = (1, 2, 5)
GRID = (0.3, 1.0, 4.0, 25.0, 400.0, 2.0**20, 2.0**50)


def lattice(ratio, shift):
    """Points that see both laws, and their spacing: all of them, or a rule exact to rounding for smooth sums."""
    spacing = max(1, round(ratio / 40))
    reach = math.ceil((40 * ratio + 40 * shift) / spacing)
    return np.arange(-reach, reach + 1) * spacing, spacing


def worst_log_ratio(law, shift):
    k, _ = lattice(law.ratio[0], shift)
    return float(np.max(np.abs(law.log_pmf(k) - law.log_pmf(k - shift))))


def renyi(law, shift, order):
    k, spacing = lattice(law.ratio[0], shift)
    exponent = order * law.log_pmf(k) + (1 - order) * law.log_pmf(k - shift)
    return float(np.log(spacing * np.sum(np.exp(exponent - exponent.max()))) + exponent.max()) / (order - 1)


def hockey_stick(law, shift, epsilon):
    """delta(epsilon) = sum_k (P(k) - e^epsilon P(k - shift))_+, the best test's advantage."""
    k, spacing = lattice(law.ratio[0], shift)
    assert spacing == 1
    p, q = np.exp(law.log_pmf(k)), np.exp(law.log_pmf(k - shift))
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0))


def shift_for(ratio, shift):
    """A shift of so many steps, or of as many tenths of the scale where one step is invisible."""
    return shift if ratio < 1e3 else shift * round(ratio / 10)


def laplace_keeps(law, shift, promised_scale):
    return worst_log_ratio(law, shift) <= shift * law.step[0] / promised_scale * (1 + 1e-12) + 1e-13


def gaussian_keeps(law, shift, promised_scale):
    rho = (shift * law.step[0] / promised_scale) ** 2 / 2
    return all(renyi(law, shift, order) <= order * rho * (1 + 1e-9) + 1e-13 for order in (1.1, 2, 3.5, 8))


def rounded_keeps(law, shift, promised_scale):
    mu = mp.mpf(shift * law.step[0] / promised_scale)
    for epsilon in (0.01, 0.1, 0.5, 1, 2, 4, 8, 20):
        curve = normal_cdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * normal_cdf(-mu / 2 - epsilon / mu)
        if hockey_stick(law, shift, epsilon) > float(curve) * (1 + 1e-9) + 1e-14:
            return False
    return True


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("ratio", GRID)
def test_no_law_exceeds_its_guarantee_discrete_laplace_pure_dp(ratio, shift):
    d, law = shift_for(ratio, shift), additive(DiscreteLaplace, ratio)
    assert laplace_keeps(law, d, law.scale[0])
    assert math.isclose(worst_log_ratio(law, d), d / ratio, rel_tol=1e-12, abs_tol=1e-13), (
        "the bound is met, not only kept"
    )
    planted = additive(DiscreteLaplace, 0.9 * ratio)
    assert not laplace_keeps(planted, d, law.scale[0])


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("ratio", GRID)
def test_no_law_exceeds_its_guarantee_discrete_gaussian_zcdp(ratio, shift):
    d, law = shift_for(ratio, shift), additive(DiscreteGaussian, ratio)
    assert gaussian_keeps(law, d, law.scale[0])
    planted = additive(DiscreteGaussian, 0.9 * ratio)
    assert not gaussian_keeps(planted, d, law.scale[0])


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("ratio", [r for r in GRID if r < 50])
def test_no_law_exceeds_its_guarantee_discrete_gaussian_approximate_dp(ratio, shift):
    # zCDP implies delta <= exp(-(epsilon - rho)^2/(4 rho)) (Bun and Steinke, 2016).
    law = additive(DiscreteGaussian, ratio)
    rho = (shift / ratio) ** 2 / 2
    for epsilon in rho + np.array([0.1, 0.5, 1, 2, 5, 20]) * math.sqrt(rho):
        if epsilon < 300:
            assert hockey_stick(law, shift, epsilon) <= math.exp(-((epsilon - rho) ** 2) / (4 * rho)) + 1e-14


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("ratio", [r for r in GRID if r < 50])
def test_no_law_exceeds_its_guarantee_rounded_gaussian_gdp(ratio, shift):
    law = additive(RoundedGaussian, ratio)
    assert rounded_keeps(law, shift, law.scale[0])
    if ratio >= 4:  # on a coarser lattice rounding itself hides a tenth of the scale
        assert not rounded_keeps(additive(RoundedGaussian, 0.9 * ratio), shift, law.scale[0])


@pytest.mark.parametrize("ratio", [0.5, 3.0, 60.0, 3000.0])
@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(1, 2), Fraction(5)])
def test_no_law_exceeds_its_guarantee_smooth_cauchy_pure_dp(ratio, alpha):
    # A neighbour moves the value by at most S and S itself by at most a factor e^beta; each costs its own share.
    beta, scale = 0.25, ratio * float(alpha)
    law = SmoothCauchy(alpha=alpha, beta=beta, step=1.0)
    k = np.unique(
        np.round(np.concatenate([np.arange(-9000, 9001), np.geomspace(1, 1e9, 999), -np.geomspace(1, 1e9, 999)]))
    )

    def loss(smooth_scale, *, shift, factor):
        here, there = smooth_scale, smooth_scale * factor
        return float(np.max(np.abs(law.log_pmf(k, smooth_scale=here) - law.log_pmf(k - shift, smooth_scale=there))))

    shift = math.floor(scale)
    assert loss(scale, shift=shift, factor=1.0) <= alpha + 1e-9
    for factor in (math.exp(beta), math.exp(-beta)):
        assert loss(scale, shift=0, factor=factor) <= beta + 1e-9
        assert loss(scale, shift=shift, factor=factor) <= alpha + beta + 1e-9
    if ratio >= 60:  # planted: S a tenth too small (the bound is tight for small alpha only), S not beta-smooth
        assert alpha > Fraction(1, 20) or loss(0.9 * scale, shift=shift, factor=1.0) > alpha
        assert loss(scale, shift=0, factor=math.exp(1.1 * beta)) > beta


# ---- what a law is on paper ----

EXAMPLES = (
    DiscreteLaplace((500.0, 125000.0), (0.000244140625, 0.03125)),
    DiscreteGaussian((2.5,), (1.0,)),
    RoundedGaussian((0.1, 7.25), (2.0**-20, 1.0)),
    SmoothLaplace(Fraction(1, 2), 0.0504, 2.0**-32),
    SmoothCauchy(Fraction(1, 3), 0.25, 2.0**-32),
    RandomizedResponse(Fraction(1901, 4000), 4),
    FiniteLaw(((Fraction(1, 3), Fraction(2, 3)), (Fraction(1), Fraction(0))), (0.25, 0.5)),
    ExponentialQuantile(Fraction(1, 10), 0.5),
)


@pytest.mark.parametrize("law", EXAMPLES, ids=lambda law: law.family)
def test_a_law_comes_back_from_json_unchanged(law):
    entries = json.loads(json.dumps(law.to_dict()))
    assert law_from_dict(entries) == law
    assert type(law_from_dict(entries)) is type(law)
    assert laws.protocol.FAMILIES[entries["family"]] is type(law)


@pytest.mark.parametrize("law", EXAMPLES, ids=lambda law: law.family)
def test_a_damaged_law_is_refused(law):
    entries = law.to_dict()
    hostile = (None, math.nan, math.inf, -1, 0, "", True, 10**400, "1e999999999", "1/0", [], {}, [[]], "9" * 9000)
    for name in entries:
        missing = {key: value for key, value in entries.items() if key != name}
        for damaged in (missing, *({**entries, name: value} for value in hostile)):
            with pytest.raises(InvalidArgument):
                law_from_dict(damaged)
    with pytest.raises(InvalidArgument):
        law_from_dict({**entries, "smooth_scale": 1.0})
    with pytest.raises(InvalidArgument):
        law_from_dict([entries])


@pytest.mark.parametrize(
    ("scale", "step", "argument"),
    [
        ((0.0,), (1.0,), "scale"),
        ((-1.0,), (1.0,), "scale"),
        ((1.0,), (0.3,), "step"),
        ((1.0,), (1.0, 1.0), "step"),
        ((), (), "scale"),
        ((2.0**55,), (1.0,), "scale"),
        ((1e-320,), (2.0**500,), "scale"),
        ("12", (1.0, 1.0), "scale"),
        ((2**60 + 1,), (2.0**10,), "scale"),
    ],
)
@pytest.mark.parametrize("kind", ADDITIVE)
def test_scales_and_steps_outside_their_domain_are_refused_by_name(kind, scale, step, argument):
    with pytest.raises(InvalidArgument) as refused:
        kind(scale, step)
    assert refused.value.argument == argument


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", SMOOTH)
def test_a_smooth_scale_outside_its_domain_is_refused_without_being_shown(kind, scale):
    with pytest.raises(InvalidArgument, match="smooth scale") as refused:
        smooth(kind).log_pmf(0, smooth_scale=np.array([1.0, scale]))
    assert repr(scale) not in str(refused.value)
    assert "smooth_scale" not in smooth(kind).to_dict()


@pytest.mark.parametrize("kind", ADDITIVE)
def test_extreme_arguments_overflow_to_certainty_not_to_nan(kind):
    for ratio in (2.0**-200, 2.0**-100, 1.0, 2.0**54):
        law = kind((ratio,), (1.0,))
        k = [-(2**62), -1, 0, 1, 2**62]
        assert not np.isnan(law.log_pmf(k)).any()
        assert not np.isnan(law.cdf(k)).any()
        assert np.all(np.diff(law.cdf(k)) >= 0)
        assert not math.isnan(law.sd[0])
