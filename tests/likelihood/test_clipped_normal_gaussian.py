"""The clipped normal under Gaussian noise against quadrature and 60-digit arithmetic."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.likelihood import clipped_normal_gaussian

CASES = [
    # mean, sd, low, high, noise_sd
    (0.3, 1.0, -1.0, 2.0, 0.7),
    (0.3, 1.0, -1.0, 2.0, 1e-4),
    (0.3, 1.0, -1.0, 2.0, 1e3),
    (-30.0, 1.0, -1.0, 2.0, 0.5),
    (0.0, 1e-3, -1.0, 2.0, 0.5),
    (0.0, 1e4, -1.0, 2.0, 0.5),
    (0.0, 1.0, -80.0, 90.0, 3.0),
    (0.0, 1.0, 4.0, 4.0 + 1e-6, 1e-7),
]


def exact_log_density(y, mean, sd, low, high, noise_sd):
    with mpmath.workdps(70):
        y, mean, sd, low, high, tau = (mpmath.mpf(v) for v in (y, mean, sd, low, high, noise_sd))

        def between(start, stop):
            if start > 0:
                start, stop = -stop, -start
            return (mpmath.erfc(-stop / mpmath.sqrt(2)) - mpmath.erfc(-start / mpmath.sqrt(2))) / 2

        total = between(-mpmath.inf, (low - mean) / sd) * mpmath.npdf(y, low, tau)
        total += between((high - mean) / sd, mpmath.inf) * mpmath.npdf(y, high, tau)
        variance = sd**2 + tau**2
        centre, spread = (mean * tau**2 + y * sd**2) / variance, sd * tau / mpmath.sqrt(variance)
        inside = between((low - centre) / spread, (high - centre) / spread)
        return mpmath.log(total + mpmath.npdf(y, mean, mpmath.sqrt(variance)) * inside)


@pytest.mark.parametrize("parameters", CASES)
def test_density_and_score_agree_with_high_precision(parameters):
    mean, sd, low, high, noise_sd = parameters
    law = {"mean": mean, "sd": sd, "low": low, "high": high, "noise_sd": noise_sd}
    for y in (low - 25 * noise_sd, low, low + 0.4 * (high - low), high - 1e-3 * (high - low), high + 3 * noise_sd):
        exact = float(exact_log_density(y, *parameters))
        assert float(clipped_normal_gaussian.log_density(y, **law)) == pytest.approx(exact, rel=1e-12, abs=1e-12)
        found = clipped_normal_gaussian.score(y, **law)
        with mpmath.workdps(70):
            step = mpmath.mpf(10) ** -20 * mpmath.mpf(sd)
            for value, (i, j) in zip(found, ((1, 0), (0, 1)), strict=True):
                up, down = (
                    exact_log_density(
                        y, mpmath.mpf(mean) + s * i * step, mpmath.mpf(sd) + s * j * step, low, high, noise_sd
                    )
                    for s in (1, -1)
                )
                expected = float((up - down) / (2 * step) * sd)
                assert float(value) * sd == pytest.approx(expected, rel=1e-10, abs=1e-11)


def test_density_is_the_mixture_by_quadrature_and_integrates_to_one():
    mean, sd, low, high, noise_sd = 0.3, 1.2, -1.0, 2.0, 0.4
    law = {"mean": mean, "sd": sd, "low": low, "high": high, "noise_sd": noise_sd}
    normal, noise = stats.norm(mean, sd), stats.norm(0, noise_sd)
    for y in (-1.7, 0.1, 2.0):
        inside = integrate.quad(lambda x, y=y: normal.pdf(x) * noise.pdf(y - x), low, high, epsabs=1e-14)[0]
        expected = normal.cdf(low) * noise.pdf(y - low) + normal.sf(high) * noise.pdf(y - high) + inside
        assert float(np.exp(clipped_normal_gaussian.log_density(y, **law))) == pytest.approx(expected, rel=1e-11)
    total = integrate.quad(lambda y: float(np.exp(clipped_normal_gaussian.log_density(y, **law))), -5, 6, limit=200)[0]
    assert total == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize("parameters", [CASES[0], CASES[6], (0.3, 1.0, -1.0, 2.0, 0.05), (0.3, 1.0, -1.0, 2.0, 20.0)])
def test_information_agrees_with_quadrature_of_the_squared_score(parameters):
    mean, sd, low, high, noise_sd = parameters
    law = {"mean": mean, "sd": sd, "low": low, "high": high, "noise_sd": noise_sd}
    found = clipped_normal_gaussian.information(**law)
    marks = [low - 9 * noise_sd, low, low + 4 * noise_sd, mean, high - 4 * noise_sd, high, high + 9 * noise_sd]
    marks = sorted([*marks, *[m for m in (mean - 5, mean - 10, mean + 5, mean + 10) if low < m < high]])

    def integrand(y, i, j):
        scores = clipped_normal_gaussian.score(y, **law)
        return float(np.exp(clipped_normal_gaussian.log_density(y, **law)) * scores[i] * scores[j])

    for i, j in ((0, 0), (0, 1), (1, 1)):
        expected = sum(
            integrate.quad(integrand, lo, hi, (i, j), limit=200, epsabs=1e-12)[0]
            for lo, hi in itertools.pairwise(marks)
        )
        assert found[i, j] == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_limits_of_the_information():
    clear = clipped_normal_gaussian.information(mean=1.0, sd=2.0, low=-40.0, high=42.0, noise_sd=1e-4)
    np.testing.assert_allclose(clear, [[0.25, 0], [0, 0.5]], atol=1e-8)
    wide = clipped_normal_gaussian.information(mean=1.0, sd=2.0, low=-1e3, high=1e3, noise_sd=3.0)
    np.testing.assert_allclose(wide, [[1 / 13, 0], [0, 2 * 4 / 13**2]], atol=1e-8)
    drowned = clipped_normal_gaussian.information(mean=1.0, sd=2.0, low=-1.0, high=2.0, noise_sd=1e6)
    assert np.all(np.abs(drowned) < 1e-11)
