"""M and C of a row (1, x, y), against enumeration, two-dimensional quadrature and a million simulated rows."""

import itertools
import math

import numpy as np
import pytest
from glm_worlds import KINDS, LINKS, draw_rows, draw_world
from scipy import special, stats

from noisewise.regression.glm.links import response_moments, scalar_moments
from noisewise.regression.glm.problem import Cap
from noisewise.regression.glm.rows import GlmRows
from noisewise.regression.units import Units

CASES = [("logistic", 1.0, False), ("probit", 1.0, False), ("poisson", 6.0, False), ("poisson", 6.0, True)]


def response_of(link, cap, refuses):
    return np.array([LINKS[link].code, cap, refuses], float)


def expected(link, cap, refuses, s):
    """E y^k, k = 0..4, of rows that were kept, by the definition of the link."""
    if link != "poisson":
        p = special.expit(s) if link == "logistic" else stats.norm.cdf(s)
        return np.array([1.0, p, p, p, p])
    y = np.arange(0, 4000)
    mass = stats.poisson.pmf(y, math.exp(s))
    if refuses:
        mass = np.where(y <= cap, mass, 0.0)
    return np.array([mass @ np.minimum(y, cap).astype(float) ** k for k in range(5)])


@pytest.mark.parametrize("s", [-40.0, -6.0, -1.2, 0.0, 0.7, 2.5, 6.0])
@pytest.mark.parametrize(("link", "cap", "refuses"), [*CASES, ("poisson", 1.0, False), ("poisson", 60.0, False)])
def test_the_moments_of_a_response_are_sums_over_its_values(link, cap, refuses, s):
    value, slope = np.empty(5), np.empty(5)
    up, down = np.empty(5), np.empty(5)
    response_moments(response_of(link, cap, refuses), s, value, slope)
    assert value == pytest.approx(expected(link, cap, refuses, s), rel=1e-10, abs=1e-14)
    response_moments(response_of(link, cap, refuses), s + 1e-5, up, np.empty(5))
    response_moments(response_of(link, cap, refuses), s - 1e-5, down, np.empty(5))
    assert slope == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-7 * max(1.0, np.abs(value).max()))


@pytest.mark.parametrize("s", [-900.0, 900.0])
@pytest.mark.parametrize(("link", "cap", "refuses"), CASES)
def test_far_out_a_response_is_at_its_end(link, cap, refuses, s):
    value, slope = np.empty(5), np.empty(5)
    response_moments(response_of(link, cap, refuses), s, value, slope)
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(slope))
    if not refuses:
        top = 1.0 if link != "poisson" else cap
        assert value[1] == pytest.approx(0.0 if s < 0 else top, abs=1e-12)


@pytest.mark.parametrize("sigma", [0.01, 0.5, 1.0, 2.0, 5.0, 12.0])
@pytest.mark.parametrize(("link", "cap", "refuses"), CASES)
def test_integrals_over_a_normal_s_are_those_of_a_fine_grid(link, cap, refuses, sigma):
    moment, by_m, by_sigma = np.empty((5, 5)), np.empty((5, 5)), np.empty((5, 5))
    share = scalar_moments(response_of(link, cap, refuses), -0.4, sigma, moment, by_m, by_sigma)
    t = np.linspace(-9, 9, 8001)
    weight = stats.norm.pdf(t) * (t[1] - t[0])
    values = np.array([expected(link, cap, refuses, s) for s in (-0.4 + sigma * t)[::1]]) if link != "poisson" else None
    if values is None:
        y = np.arange(0, int(cap) + 1)
        mass = stats.poisson.pmf(y[None], np.exp(np.minimum(-0.4 + sigma * t, 500.0))[:, None])
        above = np.zeros(len(t)) if refuses else 1 - mass.sum(axis=1)
        values = np.array([mass @ y.astype(float) ** k + above * cap**k for k in range(5)]).T
    whole = weight @ values[:, 0]
    assert share == pytest.approx(whole, rel=1e-8)
    for i, j in itertools.product(range(5), range(5)):
        if i + j <= 4:
            assert moment[i, j] == pytest.approx((weight * t**i) @ values[:, j] / whole, rel=1e-6, abs=1e-6 * cap**j)


def law_of(world, link, cap, refuses, units):
    x = world.problem.covariates
    mean = x.offset + np.einsum("cik,ck->ci", x.slope, world.means)
    factor = x.slope @ world.root
    low, high = np.full(len(world.theta), -np.inf), np.full(len(world.theta), np.inf)
    return GlmRows(
        LINKS[link], world.share[None], mean[None], factor[None], world.theta[None], units, low, high, not refuses,
        Cap(cap, refuses),
    )  # fmt: skip


def products_of(rows, units, pairs, intercept):
    v = units.factor * (rows[:, 1:] - units.centre)
    w = np.column_stack([np.ones(len(v)), v]) if intercept else v
    return w[:, pairs[:, 0]] * w[:, pairs[:, 1]]


def pairs_among(m):
    return np.array(list(itertools.combinations_with_replacement(range(m), 2)), np.int64)


@pytest.mark.parametrize(("link", "cap", "refuses"), CASES)
@pytest.mark.parametrize("kind", ["one", "two", "levels"])
def test_with_yes_no_features_alone_mean_and_covariance_are_finite_sums(rng, kind, link, cap, refuses):
    world = draw_world(rng, kind, link, n=5, epsilon=1.0)
    d = len(KINDS[kind])
    units = Units(rng.standard_normal(d + 1), rng.uniform(0.5, 2, d + 1), True)
    pairs = pairs_among(d + 2)
    mean, covariance = law_of(world, link, cap, refuses, units).moments(pairs, intercept=True)
    rows, masses = [], []
    for share, x in zip(world.share, world.problem.covariates.offset, strict=True):
        s = world.theta[0] + x @ world.theta[1:]
        ys = np.arange(2) if link != "poisson" else np.arange(int(cap) + 1)
        if link == "poisson":
            mass = stats.poisson.pmf(ys, np.exp(s))
            if not refuses:
                mass[-1] += stats.poisson.sf(cap, np.exp(s))
        else:
            p = expected(link, cap, refuses, s)[1]
            mass = np.array([1 - p, p])
        for y, own in zip(ys, mass, strict=True):
            rows.append([1.0, *x, y])
            masses.append(share * own)
    weight = np.array(masses) / np.sum(masses)
    products = products_of(np.array(rows), units, pairs, True)
    middle = weight @ products
    away = products - middle
    assert mean[0] == pytest.approx(middle, rel=1e-9, abs=1e-9)
    assert covariance[0] == pytest.approx((weight[:, None] * away).T @ away, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("link", "cap", "refuses"), CASES)
@pytest.mark.parametrize("kind", ["normal", "interaction"])
def test_mean_and_covariance_are_those_of_simulated_rows(rng, kind, link, cap, refuses, intercept):
    world = draw_world(rng, kind, link, n=5, epsilon=1.0)
    d = len(KINDS[kind])
    units = Units(0.5 * rng.standard_normal(d + 1), rng.uniform(0.5, 2, d + 1), True)
    pairs = pairs_among(d + 1 + intercept)
    mean, covariance = law_of(world, link, cap, refuses, units).moments(pairs, intercept=intercept)
    rows = draw_rows(rng, world, link, 1_000_000, cap, refuses=refuses)
    products = products_of(rows, units, pairs, intercept)
    scale = np.sqrt(np.diag(covariance[0])) + 1e-9
    error = (products.mean(axis=0) - mean[0]) / scale * 1000
    assert np.abs(error).max() < 6.5  # of some 20 standard normal numbers, at a false-alarm rate of 1e-6
    # Second moments of products have heavy tails: their own standard error is taken from the rows.
    away = (products - mean[0]) / scale
    for a, b in itertools.combinations_with_replacement(range(len(pairs)), 2):
        both = away[:, a] * away[:, b]
        expected_here = covariance[0, a, b] / (scale[a] * scale[b])
        assert both.mean() == pytest.approx(expected_here, abs=8 * both.std() / 1000 + 1e-9)


def test_slopes_of_zero_leave_the_covariates_alone(rng):
    """At theta = (a, 0, .., 0) the response is independent of x, and M factorises."""
    world = draw_world(rng, "normal", "logistic", n=5, epsilon=1.0)
    still = type(world)(world.problem, np.array([0.3, 0.0, 0.0]), world.share, world.means, world.root)
    pairs = pairs_among(4)
    units = Units(np.zeros(3), np.ones(3), True)
    mean, covariance = law_of(still, "logistic", 1.0, False, units).moments(pairs, intercept=True)
    p = special.expit(0.3)
    by = {tuple(pair): k for k, pair in enumerate(pairs.tolist())}
    assert mean[0, by[1, 3]] == pytest.approx(p * mean[0, by[0, 1]], rel=1e-6)
    assert mean[0, by[0, 3]] == pytest.approx(p)
    assert covariance[0, by[0, 1], by[0, 3]] == pytest.approx(0.0, abs=1e-8)
