"""One record as atoms and an exponential piece: moments by quadrature, uniforms by splines, ends by known tails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, interpolate, stats

from noisewise.likelihood.few_records import FEW, UNIFORM_SUMS
from noisewise.likelihood.record_law import NEGLIGIBLE, NO_PIECE, ends, tilted, transform

ATOMS, LOGS = np.array([0.5, 4.0]), np.log([0.15, 0.25])


def piece(kappa: float, mass: float = 0.6) -> np.ndarray:
    low, width = 0.5, 3.5
    total = integrate.quad(lambda x: math.exp(-kappa * (x - low)), low, low + width)[0]
    return np.array([math.log(mass / total), kappa, low, width])


@pytest.mark.parametrize("kappa", [-2.0, 0.0, 1e-7, 0.8, 40.0])
@pytest.mark.parametrize("tilt", [-30.0, -0.5, 0.0, 0.8, 12.0])
def test_moments_and_transform_under_a_tilt_are_those_of_the_tilted_density(kappa: float, tilt: float) -> None:
    law = piece(kappa)
    height, _, low, width = law
    x, w = np.polynomial.legendre.leggauss(200)
    x, w = low + 0.5 * width * (1 + x), 0.5 * width * w
    points = np.concatenate([ATOMS, x])
    logs = np.concatenate([LOGS, np.log(w) + height - kappa * (x - low)]) + tilt * points
    weights = np.exp(logs - logs.max())
    log_moment = logs.max() + math.log(weights.sum())
    weights /= weights.sum()
    mean = weights @ points
    found = tilted(tilt, ATOMS, LOGS, law)
    assert found[0] == pytest.approx(log_moment, abs=1e-10)
    assert found[1] == pytest.approx(mean, rel=1e-9)
    assert found[2] == pytest.approx(weights @ np.square(points - mean), rel=1e-7)
    assert math.exp(found[3]) == pytest.approx(weights[2:].sum(), rel=1e-9)
    for omega in (0.0, 1e-4, 0.7, 20.0):
        waves = weights * np.exp(1j * omega * (points - mean))
        on, off = transform(tilt, omega, mean, log_moment, ATOMS, LOGS, law)
        assert on == pytest.approx(waves[:2].sum(), abs=1e-11)
        assert off == pytest.approx(waves[2:].sum(), abs=1e-11)


def test_the_density_of_a_sum_of_uniforms_is_the_cardinal_spline() -> None:
    for m in range(2, FEW):
        spline = interpolate.BSpline.basis_element(np.arange(m + 1))
        for j in range(m):
            u = np.linspace(0.01, 0.99, 7)
            assert np.polynomial.polynomial.polyval(u, UNIFORM_SUMS[m, j]) == pytest.approx(spline(j + u), abs=1e-14)


@pytest.mark.parametrize("n", [1, 5, 100, 100_000])
def test_the_ends_leave_out_what_they_say_and_little_room(n: int) -> None:
    none = (np.array([0.0, 400.0]), np.full(2, -np.inf))
    waiting = (*none, np.array([0.0, 1.0, 0.0, 400.0]))
    rare = (np.array([0.0, 1.0]), np.log([1 - 1e-3, 1e-3]), np.array(NO_PIECE))
    for law, sum_of in ((waiting, stats.gamma(n)), (rare, stats.binom(n, 1e-3))):
        log_moment, _, variance, _ = tilted(0.0, *law)
        low, high = ends(0.0, n, log_moment, variance, law)
        assert sum_of.logcdf(low - 1e-6) <= -NEGLIGIBLE
        assert sum_of.logsf(high + 1e-6) <= -NEGLIGIBLE
        assert high - sum_of.mean() < 16 * sum_of.std() + 80
