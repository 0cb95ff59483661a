"""A1c: black-box releases prove no more than was promised, and would prove it if the noise were halved."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.audit.attack import CHOOSING, attack, lower_bound, power, releases, workers
from noisewise.audit.cases import rows_of
from noisewise.audit.targets import target

ROWS = rows_of(None)

HALF = Fraction(1, 2)


def halved(plan):
    return plan.law.smaller(HALF)


def proved(guarantee, draw, shift, runs, repeats):
    """In how many simulated attacks, event chosen and all, releases `shift` scales apart prove a breach."""
    return sum(lower_bound(guarantee, draw(runs), shift + draw(runs)).is_breach for _ in range(repeats))


@pytest.mark.slow
def test_choosing_the_event_leaves_the_power_that_is_promised():
    """The whole attack simulated, not only its last step: the power at a known event is an upper bound."""
    rng = np.random.default_rng()
    # At a true power of .999 more than 20 misses in 2000 happen less than once in 10^12 runs.
    assert proved(nw.PureDP(1), lambda n: rng.laplace(size=n), 2.0, 2000, 2000) >= 1980
    assert proved(nw.GaussianDP(2), lambda n: rng.normal(size=n), 4.0, 600, 2000) >= 1980


def test_a_halved_gaussian_scale_is_proved_in_600_releases_a_side():
    """At mu = 2 the halved scale gives mu = 4: events of probability Phi(2) and Phi(-2), proved almost surely."""
    p = stats.norm.cdf(2)
    assert power(nw.GaussianDP(2), p, 1 - p, runs=600) > 1 - 1e-6
    aimed = target("gaussian", nw.GaussianDP, Fraction(2))
    assert attack(aimed.plan, aimed.one, aimed.other, runs=600, drawn=halved(aimed.plan)).is_breach


@pytest.mark.parametrize(("mechanism", "kind"), ROWS[:1] + ROWS[3:], ids=[row[0] for row in ROWS[:1] + ROWS[3:]])
def test_no_mechanism_is_accused_by_a_short_attack(mechanism, kind):
    aimed = target(mechanism, kind)
    found = attack(aimed.plan, aimed.one, aimed.other, runs=40)
    assert not found.is_breach
    assert found.lower_bound >= 0


@pytest.mark.slow
@pytest.mark.parametrize("remember", [True, False], ids=["remembered", "every query anew"])
def test_2000_releases_a_side_prove_a_halved_laplace_scale_with_power_99(remember):
    aimed = target("laplace", nw.PureDP)
    p, q = stats.laplace.sf(0), stats.laplace.sf(2)  # beyond the farther centre, at the true epsilon of 2
    assert power(nw.PureDP(1), p, q, runs=2000) >= 0.99
    with workers(min(2, os.cpu_count() or 1)) as pool:
        planted = halved(aimed.plan)
        broken = attack(aimed.plan, aimed.one, aimed.other, runs=2000, pool=pool, remember=remember, drawn=planted)
        sound = attack(aimed.plan, aimed.one, aimed.other, runs=2000, pool=pool, remember=remember)
    assert broken.is_breach
    assert not sound.is_breach
    assert sound.lower_bound > 0.3, "an attack that proves nothing has no power"


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "kind"), ROWS[1:], ids=[f"{m}-{k.__name__}" for m, k in ROWS[1:]])
def test_2000_releases_a_side_accuse_no_mechanism(mechanism, kind):
    aimed = target(mechanism, kind)
    with workers(min(2, os.cpu_count() or 1)) as pool:
        assert not attack(aimed.plan, aimed.one, aimed.other, runs=2000, pool=pool).is_breach


def test_a_database_that_remembers_gives_the_same_releases_in_law_and_fresh_noise_each_time():
    aimed = target("laplace", nw.PureDP)
    remembered, anew = (releases(aimed.plan, [aimed.one], runs=40, remember=r)[0][:, 0] for r in (True, False))
    centre = float(aimed.one["x"][0]) / aimed.plan.lattice.step[0]
    scale = aimed.plan.law.ratio[0]
    for values in (remembered, anew):
        assert len(set(values)) == len(values)  # 2^20 steps a scale: equal values would be repeated noise
        assert stats.kstest((values - centre) / scale, "laplace").pvalue > 1e-6


# ---- the bounds themselves ----


@pytest.mark.parametrize("guarantee", [nw.GaussianDP(1), nw.ZeroConcentratedDP("1/2"), nw.ApproxDP(5, "1e-6")], ids=str)
def test_lower_bounds_stay_below_the_true_loss_and_come_near_it(guarantee):
    """Normal scores a distance of 1 apart: mu = 1, rho = 1/2, and epsilon below 5 at delta = 1e-6."""
    rng = np.random.default_rng()
    found = lower_bound(guarantee, rng.normal(size=20_000), rng.normal(1.0, size=20_000))
    assert not found.is_breach
    near = {"gaussian-dp": 0.8, "zero-concentrated-dp": 0.15, "approx-dp": 1.0}
    assert found.lower_bound > near[guarantee.kind]


def test_a_certain_difference_gives_a_large_bound_and_equal_sides_none():
    certain = lower_bound(nw.PureDP(1), np.zeros(2000), np.ones(2000))
    n = 2000 - round(CHOOSING * 2000)
    # All n against none: p >= a^(1/n), q <= 1 - a^(1/n), a = 5e-7.
    edge = (5e-7) ** (1 / n)
    assert certain.lower_bound == pytest.approx(math.log(edge / (1 - edge)), rel=1e-6)
    same = np.random.default_rng().normal(size=(2, 2000))
    assert lower_bound(nw.PureDP("0.01"), *same).lower_bound == 0


def test_the_clopper_pearson_bounds_are_those_of_scipy():
    from noisewise.audit.attack import _clopper_pearson

    for a, b in ((0, 7), (50, 3), (100, 100)):
        p, q = _clopper_pearson(a, 100, b, 100)
        low = stats.binomtest(a, 100).proportion_ci(1 - 1e-6, "exact").low
        high = stats.binomtest(b, 100).proportion_ci(1 - 1e-6, "exact").high
        assert (float(p), float(q)) == pytest.approx((low, high), rel=1e-6)
