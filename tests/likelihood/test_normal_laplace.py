"""The normal-Laplace law against its defining integral and against 60-digit arithmetic."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.likelihood import normal_laplace

RATIOS = (1e-6, 1e-3, 0.1, 1.0, 7.0, 49.0, 51.0, 1e3, 1e6)
OFFSETS = (0.0, 0.03, 0.7, -2.5, 6.0, -31.0, 400.0, 1e5)


def cases():
    rng = np.random.default_rng(20240501)
    for r in RATIOS:
        for z in OFFSETS:
            if abs(z) * min(r, abs(z)) < 1e9:
                b = float(10 ** rng.uniform(-3, 3))
                mean = float(rng.normal() * 10)
                yield mean + z * r * b, mean, (r * b) ** 2, b


@pytest.mark.parametrize(("y", "mean", "variance", "scale"), list(cases()))
def test_density_and_scores_agree_with_high_precision(y, mean, variance, scale):
    expected = exact_log_density(y, mean, variance, scale)
    law = {"mean": mean, "variance": variance, "scale": scale}
    found = float(normal_laplace.log_density(y, **law))
    assert found == pytest.approx(float(expected), rel=2e-13, abs=2e-13)
    in_mean, in_variance = (float(v) for v in normal_laplace.score(y, **law))
    tau = float(np.sqrt(variance))
    with mpmath.workdps(60):
        step = mpmath.mpf(10) ** -18
        by_mean = _difference(lambda t: exact_log_density(y, mean, variance, scale, shift=t), step * tau)
        by_variance = _difference(lambda t: exact_log_density(y, mean, variance, scale, grow=t), step * variance)
    assert in_mean * tau == pytest.approx(float(by_mean * tau), rel=1e-11, abs=1e-12)
    assert in_variance * variance == pytest.approx(float(by_variance * variance), rel=1e-11, abs=2e-12)


def exact_log_density(y, mean, variance, scale, shift=0, grow=0):
    with mpmath.workdps(60):
        y, mean, variance, b = (mpmath.mpf(float(v)) for v in (y, mean, variance, scale))
        mean, variance = mean + shift, variance + grow
        tau = mpmath.sqrt(variance)
        z, r = (y - mean) / tau, tau / b
        logs = [r * r / 2 - s * z * r + _log_erfc((r - s * z) / mpmath.sqrt(2)) - mpmath.log(2) for s in (1, -1)]
        top = max(logs)
        return top + mpmath.log(sum(mpmath.exp(v - top) for v in logs)) - mpmath.log(2 * b)


def _log_erfc(x):
    """log erfc at 60 digits: erfc itself up to x = 1000, then its asymptotic series (terms below 1e-80)."""
    if x < 1000:
        return mpmath.log(mpmath.erfc(x))
    total = term = mpmath.mpf(1)
    for k in range(1, 15):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return -x * x - mpmath.log(x * mpmath.sqrt(mpmath.pi)) + mpmath.log(total)


def _difference(f, step):
    return (f(step) - f(-step)) / (2 * step)


@pytest.mark.parametrize("r", [0.01, 0.5, 3.0, 30.0])
def test_density_is_the_convolution_and_integrates_to_the_cdf(r):
    mean, b = 1.3, 0.7
    tau = r * b
    law = {"mean": mean, "variance": tau**2, "scale": b}

    def density(y):
        return float(np.exp(normal_laplace.log_density(y, **law)))

    for y in (mean - 4 * tau - 3 * b, mean - 0.2 * tau, mean, mean + b):
        points = sorted({y, mean, mean - tau, mean + tau})
        low, high = mean - 12 * tau, mean + 12 * tau
        pieces = [low, *[p for p in points if low < p < high], high]
        convolution = sum(
            integrate.quad(
                lambda u, y=y: stats.norm.pdf(u, mean, tau) * np.exp(-abs(y - u) / b) / (2 * b), lo, hi, epsabs=0
            )[0]
            for lo, hi in itertools.pairwise(pieces)
        )
        assert density(y) == pytest.approx(convolution, rel=1e-9)
    far = mean + 12 * tau + 40 * b
    edges = sorted([2 * mean - far, mean - tau, mean, mean + 0.5 * b, mean + tau, far])
    masses = [integrate.quad(density, lo, hi, limit=400)[0] for lo, hi in itertools.pairwise(edges)]
    assert sum(masses) == pytest.approx(1, abs=1e-9)
    for edge, mass in zip(edges[1:], np.cumsum(masses), strict=True):
        assert float(normal_laplace.cdf(edge, **law)) == pytest.approx(mass, abs=1e-9)


@pytest.mark.parametrize("r", [1e-5, 0.02, 1.0, 25.0, 4e4])
def test_lower_tail_of_the_cdf_is_relatively_exact(r):
    for z in (-1e-3, -1.0, -8.0, -30.0):
        with mpmath.workdps(60):
            z_, r_ = mpmath.mpf(z), mpmath.mpf(r)
            parts = [
                s * mpmath.exp(r_ * r_ / 2 - s * z_ * r_ + _log_erfc((r_ - s * z_) / mpmath.sqrt(2))) for s in (1, -1)
            ]
            expected = mpmath.erfc(-z_ / mpmath.sqrt(2)) / 2 - sum(parts) / 4
        found = float(normal_laplace.cdf(z, mean=0.0, variance=1.0, scale=1 / r))
        assert found == pytest.approx(float(expected), rel=1e-11)


def test_limits_are_the_laplace_law_and_the_normal_law():
    y = np.array([-7.0, -0.3, 0.5, 2.0, 60.0])
    laplace = {"mean": 0.5, "variance": 0.0, "scale": 1.5}
    np.testing.assert_allclose(normal_laplace.log_density(y, **laplace), stats.laplace.logpdf(y, 0.5, 1.5), rtol=1e-14)
    np.testing.assert_allclose(normal_laplace.cdf(y, **laplace), stats.laplace.cdf(y, 0.5, 1.5), rtol=1e-14)
    normal = {"mean": 0.5, "variance": 4.0, "scale": 0.0}
    for scale in (0.0, 1e-200, 1e-9):
        law = normal | {"scale": scale}
        np.testing.assert_allclose(normal_laplace.log_density(y, **law), stats.norm.logpdf(y, 0.5, 2.0), rtol=1e-13)
        np.testing.assert_allclose(normal_laplace.cdf(y, **law), stats.norm.cdf(y, 0.5, 2.0), rtol=1e-13)
        in_mean, in_variance = normal_laplace.score(y, **law)
        np.testing.assert_allclose(in_mean, (y - 0.5) / 4, rtol=1e-12)
        np.testing.assert_allclose(in_variance, ((y - 0.5) ** 2 / 4 - 1) / 8, rtol=1e-12)
    assert np.isnan(normal_laplace.log_density(0.0, mean=0.0, variance=0.0, scale=0.0))
    assert np.isnan(normal_laplace.log_density(0.0, mean=0.0, variance=1.0, scale=-1.0))


def absolute_power(theta, a, n=100):
    """Mean and variance of mean |x|^a, X ~ N(0, theta), and their derivatives in theta."""
    from scipy.special import gamma

    m = (2 * theta) ** (a / 2) * gamma((a + 1) / 2) / np.sqrt(np.pi)
    v = (2 * theta) ** a * (gamma(a + 0.5) / np.sqrt(np.pi) - gamma((a + 1) / 2) ** 2 / np.pi) / n
    return m, v, m * a / (2 * theta), v * a / theta


@pytest.mark.parametrize(("a", "epsilon", "known"), [(1, 1.0, 3.3576817), (2, 1.0, 0.73750525), (1, 5.0, 9.9653126)])
def test_known_fisher_information_under_laplace_noise(a, epsilon, known):
    mean, variance, d_mean, d_variance = absolute_power(2.0, a)
    scale = 10.0**a / (100 * epsilon)
    in_mean, in_variance = normal_laplace.information(variance=variance, scale=scale)
    assert in_mean * d_mean**2 + in_variance * d_variance**2 == pytest.approx(known, rel=2e-8)

    def integrand(y):
        first, second = normal_laplace.score(y, mean=mean, variance=variance, scale=scale)
        density = np.exp(normal_laplace.log_density(y, mean=mean, variance=variance, scale=scale))
        return float(np.square(first * d_mean + second * d_variance) * density)

    tau = np.sqrt(variance)
    edges = [mean + s * (8 * tau + 40 * scale) for s in (-1, 1)]
    edges = sorted([*edges, mean, mean - 3 * tau, mean + 3 * tau, mean - 9 * tau, mean + 9 * tau])
    by_quadrature = sum(integrate.quad(integrand, lo, hi, limit=200)[0] for lo, hi in itertools.pairwise(edges))
    assert by_quadrature == pytest.approx(known, rel=2e-8)


@pytest.mark.parametrize(("r", "tolerance"), [(1e-4, 1e-3), (1e4, 1e-6)])
def test_information_tends_to_that_of_the_laplace_and_the_normal_law(r, tolerance):
    in_mean, in_variance = normal_laplace.information(variance=r**2, scale=1.0)
    if r < 1:
        assert in_mean == pytest.approx(1.0, rel=tolerance)
    else:
        assert in_mean * r**2 == pytest.approx(1.0, rel=tolerance)
        assert in_variance * r**4 == pytest.approx(0.5, rel=tolerance)
