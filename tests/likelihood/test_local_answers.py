"""|x| and x^2 answered locally under Laplace noise, against 60-digit quadrature and differences."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.likelihood import local_absolute, local_square

CASES = [
    # theta, b, A
    (2.0, 10.0, 10.0),
    (2.0, 0.3, np.inf),
    (2.0, 4.0, np.inf),  # kappa = 1/theta - 2/b = 0
    (2.0, 4.0 + 1e-9, 3.0),
    (2.0, 4.0 - 1e-9, 3.0),
    (0.01, 50.0, 5.0),
    (400.0, 0.02, 30.0),
    (30.0, 1e4, 2.0),
    (1.0, 1e-4, 1.3),
    (1e6, 3.0, 2.0),
    (0.5, 1e3, np.inf),
]


def exact_log_density(y, theta, b, bound, power):
    """The defining integral over |x|, cut at the kink and at the scales of both factors."""
    with mpmath.workdps(40):
        y, theta, b = mpmath.mpf(y), mpmath.mpf(theta), mpmath.mpf(b)
        sd = mpmath.sqrt(theta)
        end = 45 * sd if np.isinf(bound) else min(mpmath.mpf(bound), 45 * sd)
        kink = y if power == 1 else mpmath.sqrt(max(y, 0))
        near = b if power == 1 else b / max(kink, mpmath.sqrt(b))

        def integrand(x):
            return 2 * mpmath.npdf(x, 0, sd) * mpmath.exp(-abs(y - x**power) / b)

        marks = [kink + s * f * near for f in (0, 1, 3, 8, 20, 60) for s in (-1, 1)]
        marks += [f * sd for f in (0.5, 1, 2, 4, 8, 15, 25)]
        edge = b / (power * end ** (power - 1))
        marks += [f * b ** (1 / mpmath.mpf(power)) for f in (1, 3, 8, 20, 60)] + [
            end - f * edge for f in (1, 3, 8, 20, 60)
        ]
        marks = sorted({mpmath.mpf(0), end, *[m for m in marks if 0 < m < end]})
        total = mpmath.fsum(
            mpmath.quad(integrand, [lo, hi], method="gauss-legendre", maxdegree=5)
            for lo, hi in itertools.pairwise(marks)
        )
        if not np.isinf(bound):
            bound = mpmath.mpf(bound)
            total += mpmath.erfc(bound / sd / mpmath.sqrt(2)) * mpmath.exp(-abs(y - bound**power) / b)
        return mpmath.log(total / (2 * b))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("module", "power"), [(local_absolute, 1), (local_square, 2)])
def test_density_and_score_agree_with_the_defining_integral(case, module, power):
    theta, b, bound = case
    top = bound**power if np.isfinite(bound) else (3 * np.sqrt(theta)) ** power
    law = {"variance": theta, "scale": b, "bound": bound}
    for y in (-2 * b, 0.0, 0.2 * top, 0.9 * top, top, top + 5 * b):
        exact = float(exact_log_density(y, theta, b, bound, power))
        assert float(module.log_density(y, **law)) == pytest.approx(exact, rel=1e-11, abs=1e-11)
    for y in (-2 * b, 0.3 * top, top + b):
        with mpmath.workdps(40):
            step = mpmath.mpf(10) ** -12 * mpmath.mpf(theta)
            up, down = (exact_log_density(y, mpmath.mpf(theta) + s * step, b, bound, power) for s in (1, -1))
            slope = float((up - down) / (2 * step) * theta)
        assert float(module.score(y, **law)) * theta == pytest.approx(slope, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize(("module", "power"), [(local_absolute, 1), (local_square, 2)])
@pytest.mark.parametrize(("theta", "b", "bound"), [(2.0, 1.0, 2.0), (2.0, 4.0, np.inf), (0.3, 6.0, 1.0)])
def test_density_integrates_to_one_and_the_score_to_zero(module, power, theta, b, bound):
    top = min(bound, 9 * np.sqrt(theta)) ** power
    law = {"variance": theta, "scale": b, "bound": bound}
    marks = [-45 * b, 0, 0.02 * top, 0.1 * top, 0.3 * top, top, top + 45 * b]
    pieces = list(itertools.pairwise(marks))

    def density(y):
        return float(np.exp(module.log_density(y, **law)))

    assert sum(integrate.quad(density, lo, hi, limit=200)[0] for lo, hi in pieces) == pytest.approx(1, abs=1e-9)
    mean_score = sum(
        integrate.quad(lambda y: density(y) * float(module.score(y, **law)), lo, hi, limit=200)[0] for lo, hi in pieces
    )
    assert mean_score == pytest.approx(0, abs=1e-8)


def test_limits_of_no_noise_and_of_drowning_noise():
    theta, y = 2.0, np.array([0.3, 1.0, 2.5])
    quiet = local_absolute.log_density(y, variance=theta, scale=1e-6)
    np.testing.assert_allclose(quiet, np.log(2) + stats.norm.logpdf(y, 0, np.sqrt(theta)), atol=1e-10)
    np.testing.assert_allclose(
        local_absolute.score(y, variance=theta, scale=1e-6), (y**2 / theta - 1) / (2 * theta), atol=1e-10
    )
    quiet = local_square.log_density(y, variance=theta, scale=1e-6)
    np.testing.assert_allclose(quiet, stats.chi2.logpdf(y, 1, scale=theta), atol=1e-9)
    np.testing.assert_allclose(
        local_square.score(y, variance=theta, scale=1e-6), (y / theta - 1) / (2 * theta), atol=1e-9
    )
    for module in (local_absolute, local_square):
        assert np.all(np.abs(module.score(y, variance=theta, scale=1e9, bound=3.0)) < 1e-8)


@pytest.mark.parametrize(("theta", "b"), [(2.0, 1.3), (0.5, 9.0)])
def test_unclipped_forms_are_those_in_print(theta, b):
    """y <= 0: e^{y/b} Phi(-r) e^{r^2/2}/b for |x|, (1 + 2 theta/b)^{-1/2} e^{y/b}/2b for x^2."""
    y, r = -0.7, np.sqrt(theta) / b
    expected = np.exp(y / b) * stats.norm.cdf(-r) * np.exp(r**2 / 2) / b
    assert np.exp(local_absolute.log_density(y, variance=theta, scale=b)) == pytest.approx(expected, rel=1e-13)
    expected = np.exp(y / b) / np.sqrt(1 + 2 * theta / b) / (2 * b)
    assert np.exp(local_square.log_density(y, variance=theta, scale=b)) == pytest.approx(expected, rel=1e-13)
