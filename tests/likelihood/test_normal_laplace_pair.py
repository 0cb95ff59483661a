"""Two correlated components under Laplace noise, against plain integrals."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.likelihood import normal_laplace, normal_laplace_pair


def log_erfc(x):
    if x < 300:
        return mpmath.log(mpmath.erfc(x))
    total = term = mpmath.mpf(1)
    for k in range(1, 15):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return -x * x - mpmath.log(x * mpmath.sqrt(mpmath.pi)) + mpmath.log(total)


def exact_log_density(y, mean, covariance, scale):
    """mpmath quadrature over u_1, on a fine partition about every feature: brute force, no search for the peak."""
    with mpmath.workdps(30):
        (c11, c12), (_, c22) = [[mpmath.mpf(float(v)) for v in row] for row in covariance]
        d = [mpmath.mpf(float(a)) - mpmath.mpf(float(b)) for a, b in zip(y, mean, strict=True)]
        b1, b2 = (mpmath.mpf(float(v)) for v in scale)
        tau1, variance = mpmath.sqrt(c11), c22 - c12**2 / c11
        slope = c12 / tau1

        def second(v):
            if variance <= 0:
                return -abs(v) / b2 - mpmath.log(2 * b2)
            tau = mpmath.sqrt(variance)
            z, r = v / tau, tau / b2
            logs = [r * r / 2 - s * z * r + log_erfc((r - s * z) / mpmath.sqrt(2)) for s in (1, -1)]
            return max(logs) + mpmath.log1p(mpmath.exp(-abs(logs[0] - logs[1]))) - mpmath.log(4 * b2)

        def log_integrand(x):
            normal = -x * x / 2 - mpmath.log(2 * mpmath.pi) / 2
            return normal - abs(d[0] - tau1 * x) / b1 - mpmath.log(2 * b1) + second(d[1] - slope * x)

        marks, reaches = [mpmath.mpf(0), d[0] / tau1], [mpmath.mpf(1), b1 / tau1]
        if slope != 0:
            width = mpmath.sqrt(max(variance, 0)) / abs(slope)
            turn = max(variance, 0) / b2 / abs(slope)
            marks += [d[1] / slope + s * turn for s in (-1, 0, 1)]
            reaches += [width, b2 / abs(slope)]
        sizes = [mpmath.mpf(0), 1, 4, 12, 40]
        points = {m + s * f * r for m in marks for r in reaches for f in sizes for s in (-1, 1)}
        points = sorted(p for p in points if abs(p) < 60)
        top = max(log_integrand(p) for p in points)
        keep = [p for p in points if log_integrand(p) > top - 400]
        low, high = max(points.index(keep[0]) - 1, 0), min(points.index(keep[-1]) + 2, len(points))
        points = points[low:high]
        nodes, weights = np.polynomial.legendre.leggauss(30)
        total = mpmath.mpf(0)
        for start, stop in itertools.pairwise(points):
            half = (stop - start) / 2
            if half > 0 and max(log_integrand(start + half * f) for f in (0, 0.5, 1, 1.5, 2)) > top - 60:
                values = [
                    w * mpmath.exp(log_integrand(start + half * (1 + mpmath.mpf(x))) - top)
                    for x, w in zip(nodes, weights, strict=True)
                ]
                total += half * mpmath.fsum(values)
        return float(top + mpmath.log(total))


def covariance_of(tau1, tau2, rho):
    return np.array([[tau1**2, rho * tau1 * tau2], [rho * tau1 * tau2, tau2**2]])


CASES = [
    # tau1, tau2, rho, b1, b2, y in units of the noisy sds
    (1.0, 1.0, 0.5, 1.0, 0.3, (0.4, -0.8)),
    (1.0, 2.0, -0.9, 0.02, 0.5, (2.0, 1.0)),
    (1.0, 1.0, 1 - 1e-9, 0.3, 0.2, (1.0, 1.1)),
    (1.0, 1.0, -1.0, 0.3, 0.2, (1.0, -0.4)),
    (1.0, 1.0, 0.999, 1e-3, 1e-3, (0.5, 0.52)),
    (1.0, 3.0, 0.7, 1e-6, 1e-6, (0.7, 1.2)),
    (1.0, 3.0, 0.7, 1e6, 1e5, (0.7, -1.2)),
    (1.0, 1.0, 0.8, 1e5, 1e-5, (3.0, 2.0)),
    (1.0, 1.0, 0.95, 0.1, 2.0, (25.0, -20.0)),
    (1.0, 1.0, 0.0, 0.4, 0.7, (1.0, 3.0)),
    (1e-4, 1e3, 0.6, 1e-5, 1e4, (-1.0, 2.0)),
]


@pytest.mark.parametrize("case", CASES)
def test_density_agrees_with_brute_force_at_the_extremes(case):
    tau1, tau2, rho, b1, b2, place = case
    covariance, scale = covariance_of(tau1, tau2, rho), np.array([b1, b2])
    mean = np.array([0.5, -2.0]) * [tau1, tau2]
    y = mean + np.array(place) * np.hypot([tau1, tau2], scale)
    found = normal_laplace_pair.log_density(y, mean=mean[None], covariance=covariance[None], scale=scale)
    assert found.shape == (1,)
    assert found[0] == pytest.approx(exact_log_density(y, mean, covariance, scale), rel=1e-12, abs=2e-11)
    swapped = normal_laplace_pair.log_density(
        y[::-1], mean=mean[None, ::-1], covariance=covariance[None, ::-1, ::-1], scale=scale[::-1]
    )
    assert swapped[0] == pytest.approx(found[0], rel=1e-12, abs=1e-10)


def test_density_is_the_double_integral():
    covariance, scale, y = covariance_of(1.0, 1.4, 0.6), (0.8, 0.5), (0.3, -0.5)
    normal = stats.multivariate_normal([0, 0], covariance)

    def integrand(v2, v1):
        return (
            normal.pdf([y[0] - v1, y[1] - v2])
            * np.exp(-abs(v1) / scale[0] - abs(v2) / scale[1])
            / (4 * scale[0] * scale[1])
        )

    pieces = [(-14, 0), (0, 14)]
    nodes, weights = np.polynomial.legendre.leggauss(80)
    total = 0.0
    for lo1, hi1 in pieces:
        for lo2, hi2 in pieces:
            v1, v2 = (lo + (hi - lo) * (1 + nodes) / 2 for lo, hi in ((lo1, hi1), (lo2, hi2)))
            grid = np.array([[integrand(b, a) for b in v2] for a in v1])
            total += weights @ grid @ weights * (hi1 - lo1) * (hi2 - lo2) / 4
    found = normal_laplace_pair.log_density(y, mean=np.zeros((1, 2)), covariance=covariance[None], scale=scale)
    assert np.exp(found[0]) == pytest.approx(total, rel=1e-9)


def test_integrating_out_one_component_leaves_the_other():
    covariance, scale = covariance_of(0.7, 1.2, -0.8), (0.4, 0.3)

    def density(second):
        law = {"mean": np.zeros((1, 2)), "covariance": covariance[None], "scale": scale}
        return float(np.exp(normal_laplace_pair.log_density([0.6, second], **law)[0]))

    total = sum(integrate.quad(density, lo, hi, epsabs=1e-11, limit=100)[0] for lo, hi in ((-22, -1), (-1, 0), (0, 20)))
    expected = np.exp(normal_laplace.log_density(0.6, mean=0.0, variance=0.49, scale=0.4))
    assert total == pytest.approx(expected, rel=1e-8)


def test_independent_and_degenerate_components_factor():
    y, scale = np.array([0.3, -1.7]), np.array([0.5, 2.0])
    for variances in ((1.0, 0.4), (0.0, 0.4), (1.0, 0.0), (0.0, 0.0)):
        found = normal_laplace_pair.log_density(
            y, mean=np.zeros((1, 2)), covariance=np.diag(variances)[None], scale=scale
        )
        expected = normal_laplace.log_density(y, mean=0.0, variance=np.array(variances), scale=scale).sum()
        assert found[0] == pytest.approx(float(expected), rel=1e-11)


def test_vanishing_noise_gives_the_normal_law():
    covariance = covariance_of(1.0, 2.0, 0.9)
    found = normal_laplace_pair.log_density(
        [0.4, 1.5], mean=np.zeros((1, 2)), covariance=covariance[None], scale=[1e-6, 1e-6]
    )
    assert found[0] == pytest.approx(stats.multivariate_normal.logpdf([0.4, 1.5], [0, 0], covariance), abs=1e-9)


def test_rows_are_independent_and_an_impossible_covariance_is_nan():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(50, 2, 2))
    covariance, mean = root @ np.swapaxes(root, -1, -2), rng.normal(size=(50, 2))
    together = normal_laplace_pair.log_density([0.1, 0.2], mean=mean, covariance=covariance, scale=[0.3, 1.0])
    for k in range(0, 50, 7):
        law = {"mean": mean[k : k + 1], "covariance": covariance[k : k + 1], "scale": [0.3, 1.0]}
        assert together[k] == pytest.approx(normal_laplace_pair.log_density([0.1, 0.2], **law)[0], rel=1e-13)
    bad = np.array([[[1.0, 2.0], [2.0, 1.0]]])
    assert np.isnan(
        normal_laplace_pair.log_density([0.1, 0.2], mean=np.zeros((1, 2)), covariance=bad, scale=[0.3, 1.0])
    )[0]


def test_the_quick_way_knows_the_logarithm_to_a_thousandth() -> None:
    """Noise from a thousandth to a thousand of the spread, any correlation, values as likely as not and far away."""
    rng = np.random.default_rng(8)
    rows = 3000
    tau, b = np.exp(rng.uniform(-5, 5, (rows, 2))), np.exp(rng.uniform(-2, 2, (rows, 2)))
    rho = np.tanh(rng.normal(0, 2.5, rows))
    covariance = np.einsum("ki,kj->kij", tau, tau)
    covariance[:, 0, 1] = covariance[:, 1, 0] = rho * tau[:, 0] * tau[:, 1]
    z = rng.standard_normal((rows, 2))
    z[:, 1] = rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1]
    y = z * tau * rng.choice([0.3, 1, 2], (rows, 1)) + b * rng.laplace(size=(rows, 2)) * rng.choice(
        [0, 1, 3], (rows, 1)
    )
    law = {"mean": np.zeros((rows, 2)), "covariance": covariance, "scale": b}
    exact = normal_laplace_pair.log_density(y, **law)
    quick = normal_laplace_pair.log_density(y, **law, is_quick=True)
    assert np.abs(quick - exact).max() < 1e-3


def test_the_quick_way_takes_sums_that_do_not_vary() -> None:
    covariance = np.array([[0.0, 0.0], [0.0, 4.0]])
    found = normal_laplace_pair.log_density([0.7, 1.0], mean=[[0.0, 0.0]], covariance=[covariance], scale=[2.0, 0.5],
                                            is_quick=True)  # fmt: skip
    second = normal_laplace.log_density(1.0, mean=0.0, variance=4.0, scale=0.5)
    assert found[0] == pytest.approx(-0.35 - np.log(4) + second, abs=1e-3)


@pytest.mark.parametrize("is_quick", [False, True])
def test_a_component_whose_deviation_is_lost_in_its_noise_is_laplace(is_quick: bool) -> None:
    y, scale = np.array([3.0, -2.0]), np.array([7.0, 5.0])
    for tiny in (1e-250, 1e-30, 1e-18):
        covariance = np.diag([tiny, tiny])
        found = normal_laplace_pair.log_density(
            y, mean=np.zeros(2), covariance=covariance, scale=scale, is_quick=is_quick
        )
        assert found == pytest.approx(stats.laplace.logpdf(y, scale=scale).sum(), abs=1e-9 if not is_quick else 1e-3)
