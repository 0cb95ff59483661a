"""Clipped answers under exponential, Laplace and uniform populations, down to populations that are all but points.

The oracle is the textbook form of each integral in 120 digits, where what cancels does no harm.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.online.answer_information import answer_information
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked, asked_of
from noisewise.online.simulate import simulated_answer

DIGITS = 120
LOC, SCALE = stats.norm(0, 1), stats.halfnorm()
POPULATIONS = {
    "exponential": nw.Exponential(rate=stats.gamma(2)),
    "laplace": nw.LocationScale(stats.laplace, loc=LOC, scale=SCALE),
    "uniform": nw.Uniform(low=LOC, width=SCALE),
}
LOW, HIGH = -1.0, 3.0
PLACES = {"inside": 0.2, "at the lower end": LOW, "at the upper end": HIGH, "just inside": 2.999999999,
          "below": -1.7, "above": 9.0}  # fmt: skip
WIDTH_IN_NOISES = {"loud": 0.02, "middling": 1.0, "quiet": 50.0}
RATIOS = np.array([1e-30, 1e-18, 1e-9, 5e-7, 1e-4, 1e-2, 0.3, 7.0, 1e9])


def theta_of(name, loc, scale):
    if name == "exponential":
        return {"rate": 1 / scale}
    names = ("loc", "scale") if name == "laplace" else ("low", "width")
    return dict(zip(names, (np.full_like(scale, loc), scale), strict=True))


def question(name, place, noises, is_laplace):
    """The interval and loc; an exponential has its loc at 0, so there the interval moves instead."""
    shift = place if name == "exponential" else 0.0
    return Asked(LOW - shift, HIGH - shift, (HIGH - LOW) / noises, is_laplace), place - shift


def answers(asked, loc):
    """Far below, about the population, in the middle, and far above."""
    low, high, noise = asked.low, asked.high, asked.noise
    return np.array([low - 20 * noise, np.clip(loc, low, high), 0.3 * low + 0.7 * high, high + 9 * noise])


def tilted(asked, y, start, stop, slope):
    """int_start^stop e^{slope (x - start)} g(y - x) dx, as it stands."""
    s = mp.mpf(asked.noise)

    def power(p, q, c, at):  # int_p^q e^{c (x - at)} dx
        return q - p if c == 0 else (mp.exp(c * (q - at)) - mp.exp(c * (p - at))) / c

    if asked.is_laplace:
        kink = min(max(y, start), stop)
        left = power(start, kink, slope + 1 / s, start) * mp.exp((start - y) / s)
        right = power(kink, stop, slope - 1 / s, kink) * mp.exp(slope * (kink - start) + (y - kink) / s)
        return (left + right) / (2 * s)
    centre = y + slope * s * s
    a, b = (start - centre) / s / mp.sqrt(2), (stop - centre) / s / mp.sqrt(2)
    inside = (mp.erfc(a) - mp.erfc(b) if a > 0 else mp.erfc(-b) - mp.erfc(-a)) / 2
    return mp.exp(slope * (y - start) + (slope * s) ** 2 / 2) * inside


def mirrored(asked):
    return Asked(-asked.high, -asked.low, asked.noise, asked.is_laplace)


def half(asked, y, loc, scale, reach, slope):
    """E g(y - clip(x)) over x = loc + t, 0 < t < reach, of density e^{slope t}/scale."""
    low, high, s = mp.mpf(asked.low), mp.mpf(asked.high), mp.mpf(asked.noise)

    def noise(x):
        r = (y - x) / s
        return mp.exp(-abs(r)) / (2 * s) if asked.is_laplace else mp.exp(-r * r / 2) / (s * mp.sqrt(2 * mp.pi))

    def mass(a, b):
        if slope == 0:
            return (b - a) / scale
        return mp.exp(slope * a) - (0 if b == mp.inf else mp.exp(slope * b))

    first, last = min(max(low - loc, 0), reach), min(max(high - loc, 0), reach)
    total = mass(mp.mpf(0), first) * noise(low) + mass(last, reach) * noise(high)
    if last > first:
        total += mp.exp(slope * first) / scale * tilted(asked, y, loc + first, loc + last, slope)
    return total


def exact(name, asked, y, loc, scale):
    """log E g(y - clip(x)) in so many digits that nothing cancels."""
    with mp.workdps(DIGITS):
        y, loc, scale = mp.mpf(float(y)), mp.mpf(float(loc)), mp.mpf(float(scale))
        if name == "uniform":
            return float(mp.log(half(asked, y, loc, scale, scale, mp.mpf(0))))
        right = half(asked, y, loc, scale, mp.inf, -1 / scale)
        if name == "exponential":
            return float(mp.log(right))
        return float(mp.log((right + half(mirrored(asked), -y, -loc, scale, mp.inf, -1 / scale)) / 2))


def found_and_exact(name, place, noises, is_laplace):
    asked, loc = question(name, place, noises, is_laplace)
    scale = RATIOS * asked.noise
    theta = theta_of(name, loc, scale)
    y = answers(asked, loc)
    found = AnswerLaw(POPULATIONS[name]).log_density(asked, y, theta)
    if name == "exponential":
        scale = 1 / theta["rate"]
    return found, np.array([[exact(name, asked, v, loc, c) for v in y] for c in scale])


@pytest.mark.parametrize("noises", WIDTH_IN_NOISES)
@pytest.mark.parametrize("is_laplace", [True, False], ids=["laplace noise", "gaussian noise"])
@pytest.mark.parametrize("name", POPULATIONS)
def test_an_answer_has_its_law_from_a_population_of_any_scale_anywhere(name, is_laplace, noises):
    for place in PLACES.values():
        found, wanted = found_and_exact(name, place, WIDTH_IN_NOISES[noises], is_laplace)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("is_laplace", [True, False], ids=["laplace noise", "gaussian noise"])
@pytest.mark.parametrize("name", POPULATIONS)
def test_a_population_that_shrinks_becomes_a_point_and_stays_one(name, is_laplace):
    """p(y) tends to g(y - clip(loc)), at the rate of the scale, and is it to the last digit long before 1e-300."""
    ratios = np.array([1e-6, 1e-9, 1e-13, 1e-20, 1e-60, 1e-150, 1e-200, 1e-300])
    for place in PLACES.values():
        asked, loc = question(name, place, 1.0, is_laplace)
        y = answers(asked, loc) + 0.01  # beside the kink of Laplace noise
        found = AnswerLaw(POPULATIONS[name]).log_density(asked, y, theta_of(name, loc, ratios * asked.noise))
        point = (stats.laplace if is_laplace else stats.norm)(np.clip(loc, asked.low, asked.high), asked.noise)
        off = np.abs(found - point.logpdf(y)).max(axis=1)
        assert np.all(off <= 30 * ratios + 1e-12), (place, off)


@pytest.mark.parametrize("is_laplace", [True, False], ids=["laplace noise", "gaussian noise"])
@pytest.mark.parametrize("base", [stats.t(3), stats.t(30), stats.cauchy, stats.logistic, stats.norm, stats.gumbel_r],
                         ids=["t3", "t30", "cauchy", "logistic", "norm", "gumbel"])  # fmt: skip
def test_a_smooth_population_that_shrinks_becomes_a_point_too(base, is_laplace):
    ratios = np.array([1e-20, 1e-60, 1e-110, 1e-200, 1e-300])
    law = AnswerLaw(nw.LocationScale(base, loc=LOC, scale=SCALE))
    for place in PLACES.values():
        asked, loc = question("", place, 1.0, is_laplace)
        y = answers(asked, loc) + 0.01
        found = law.log_density(asked, y, theta_of("laplace", loc, ratios * asked.noise))
        point = (stats.laplace if is_laplace else stats.norm)(np.clip(loc, asked.low, asked.high), asked.noise)
        np.testing.assert_allclose(found, np.broadcast_to(point.logpdf(y), found.shape), rtol=0, atol=1e-10)


def test_a_uniform_population_without_a_width_has_no_density():
    law = AnswerLaw(nw.Uniform(low=LOC, high=LOC))
    theta = {"low": np.array([0.5, 0.0, 0.5]), "high": np.array([0.5, 1.0, 0.2])}
    found = law.log_density(Asked(0.0, 2.0, 1.0, is_laplace=True), np.array([0.3, 4.0]), theta)
    assert np.array_equal(np.isfinite(found), [[False] * 2, [True] * 2, [False] * 2])


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.GaussianDP(1)], ids=str)
@pytest.mark.parametrize("ratio", [1e-3, 1e-6])
def test_a_narrow_population_tells_what_its_mean_tells(guarantee, ratio):
    """Far below the noise an answer tells of the scale only through the mean: F = (d mean / d rate / noise)^2."""
    query = nw.Query.clip(0, 1e5, guarantee=guarantee)
    scale = ratio * asked_of(query).noise
    found = answer_information(POPULATIONS["exponential"], query, {"rate": 1 / scale})[0, 0]
    assert found == pytest.approx((scale**2 / asked_of(query).noise) ** 2, rel=5 * ratio + 1e-4)


def by_quadrature(y, asked, scale):
    """log E g(y - clip(scale t)), t exponential, by panels in t: (K, n)."""
    unit, weights = np.polynomial.legendre.leggauss(10)
    cuts = np.concatenate([np.linspace(0, 1, 9)[:-1], np.linspace(1, 40, 30)])
    half_width = 0.5 * np.diff(cuts)[:, None]
    t, mass = (cuts[:-1, None] + half_width * (1 + unit)).ravel(), (half_width * weights).ravel()
    x = np.clip(scale[:, None] * t, asked.low, asked.high)
    return np.stack([np.log(stats.norm.pdf(v, x, asked.noise) @ (mass * np.exp(-t))) for v in y], axis=1)


def test_a_survey_whose_answers_say_next_to_nothing_stays_near_its_prior():
    """Rates over ten powers of ten, noise of 1e5: rounding errors are not to be learnt from."""
    prior = stats.lognorm(3)
    query = nw.Query.clip(0, 1e5, guarantee=nw.GaussianDP(1))
    asked = asked_of(query)
    rng = np.random.default_rng(20)
    survey = nw.Survey(nw.Exponential(rate=prior), guarantee=nw.GaussianDP(1), queries=query, seed=1)
    readings = []
    for x in rng.exponential(2.0, 60):
        answer = simulated_answer(rng, survey.query(), float(x))
        survey.answer(answer)
        readings.append(answer.value * asked.step)
    log_rate = np.linspace(-18, 18, 500)
    log_posterior = prior.logpdf(np.exp(log_rate)) + log_rate
    log_posterior += by_quadrature(np.array(readings), asked, np.exp(-log_rate)).sum(axis=1)
    cdf = np.cumsum(np.exp(log_posterior - log_posterior.max()))
    cuts = np.interp([0.05, 0.25, 0.5, 0.75, 0.95], cdf / cdf[-1], log_rate)
    shares = [np.mean(np.log(survey.posterior().draws["rate"]) < cut) for cut in cuts]
    # A thousand particles, of which half count at the least: five standard errors.
    np.testing.assert_allclose(shares, [0.05, 0.25, 0.5, 0.75, 0.95], atol=5 * 0.5 / np.sqrt(500))
