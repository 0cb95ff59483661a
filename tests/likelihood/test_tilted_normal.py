"""The tilted normal integral and its moments, and the panels they rest on, against high precision."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from noisewise.likelihood import quadrature, tilted_normal

CASES = [
    # c, d, k
    (-1.0, 2.0, 0.5),
    (-np.inf, 1.0, 3.0),
    (-3.0, 40.0, 1e-3),
    (30.0, 31.0, 2.0),
    (-31.0, -30.0, 2.0),
    (0.2, 0.2 + 1e-7, 50.0),
    (-1.0, 2.0, 1e6),
    (5.0, 9.0, 5.0),
    (-1e3, 1e3, 20.0),
]


def exact(c, d, k):
    with mpmath.workdps(80):
        c, d, k = (mpmath.mpf(v) for v in (c, d, k))

        def phi(x):
            return mpmath.npdf(x) if abs(x) < mpmath.inf else mpmath.mpf(0)

        start, stop = (c - k, d - k) if c - k <= 0 else (k - d, k - c)
        mass = (mpmath.erfc(-stop / mpmath.sqrt(2)) - mpmath.erfc(-start / mpmath.sqrt(2))) / 2
        first = k + (phi(c - k) - phi(d - k)) / mass
        edge = ((c + k) * phi(c - k) if c > -mpmath.inf else 0) - (d + k) * phi(d - k)
        second = 1 + k * k + edge / mass
        return float(mpmath.log(mass) + k * k / 2 - k * d), float(first), float(second)


@pytest.mark.parametrize("case", CASES)
def test_mass_and_moments_agree_with_high_precision(case):
    c, d, k = (np.asarray(v) for v in case)
    log_mass, first, second = exact(*case)
    narrow = 1e-8 if d - c < 1e-6 else 1e-12
    assert float(tilted_normal.log_mass(c, d, k)) == pytest.approx(log_mass, rel=1e-13, abs=narrow)
    found = tilted_normal.moments(c, d, k)
    assert float(found.mean) == pytest.approx(first, rel=1e-12)
    assert float(found.square) == pytest.approx(second, rel=1e-12)


def test_an_empty_interval_has_no_mass_and_its_only_point_as_mean():
    point = np.asarray(0.7)
    assert tilted_normal.log_mass(point, point, np.asarray(2.0)) == -np.inf
    assert float(tilted_normal.moments(point, point, np.asarray(2.0)).mean) == 0.7


def test_panels_integrate_polynomials_exactly_and_interpolate_them():
    edges = np.array([[0.0, 0.5, 3.0], [-2.0, -2.0, 1.0]])
    nodes, weights = quadrature.on_panels(edges, 4)
    np.testing.assert_allclose(np.sum(weights * nodes**7, axis=(1, 2)), [3.0**8 / 8, (1 - 2.0**8) / 8], rtol=1e-13)
    unit, _ = quadrature.gauss_legendre(6)
    points = np.linspace(-1, 1, 9)
    matrix = quadrature.interpolation_matrix(6, points)
    np.testing.assert_allclose(matrix @ (unit**5 - 3 * unit**2), points**5 - 3 * points**2, atol=1e-14)
