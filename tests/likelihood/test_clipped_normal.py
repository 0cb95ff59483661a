"""The clipped normal under Laplace noise: density, score and information against quadrature and 60-digit arithmetic."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.likelihood import clipped_normal

RANDOM = [
    (mean, sd, low, low + width, epsilon)
    for mean, sd, low, width, epsilon in zip(
        np.random.default_rng(7).normal(0, 2, 12),
        10 ** np.random.default_rng(8).uniform(-0.7, 0.7, 12),
        np.random.default_rng(9).normal(-1, 2, 12),
        10 ** np.random.default_rng(10).uniform(-0.7, 0.8, 12),
        10 ** np.random.default_rng(11).uniform(-2, 1.3, 12),
        strict=True,
    )
]
EXTREME = [
    # mean, sd, low, high, epsilon
    (0.0, 1.0, 30.0, 31.0, 1.0),
    (0.0, 1.0, -45.0, -40.0, 50.0),
    (0.0, 1.0, -100.0, 100.0, 50.0),
    (0.0, 1.0, -1.0, 2.0, 1e-3),
    (0.0, 1.0, -1.0, 2.0, 3e6),
    (5.0, 1e-3, -1.0, 9.0, 50.0),
    (5.0, 1e5, 4.0, 4.5, 0.3),
    (5.0, 1e5, 4.0, 4.5, 50.0),
    (0.0, 1.0, 4.0, 4.0 + 1e-6, 20.0),
    (0.0, 1.0, -1e4, 1e4, 1e-2),
]


def exact_log_density(y, mean, sd, low, high, scale):
    """log of P(x <= l) g(y - l) + P(x >= r) g(y - r) + int g(y - x) N(x), each piece with mpmath's erfc."""
    with mpmath.workdps(70):
        y, mean, sd, low, high, lam = (mpmath.mpf(v) for v in (y, mean, sd, low, high, scale))
        total = normal_between(-mpmath.inf, (low - mean) / sd) * mpmath.exp(-abs(y - low) / lam)
        total += normal_between((high - mean) / sd, mpmath.inf) * mpmath.exp(-abs(y - high) / lam)
        middle = min(max(y, low), high)
        for start, stop, sign in ((low, middle, 1), (middle, high, -1)):
            # int N(x; mean, sd) exp(sign (x - y)/lam) = exp(sign (mean - y)/lam + sd^2/2lam^2) P(shifted normal)
            centre = mean + sign * sd**2 / lam
            factor = mpmath.exp(sign * (mean - y) / lam + sd**2 / (2 * lam**2))
            total += factor * normal_between((start - centre) / sd, (stop - centre) / sd)
        return mpmath.log(total / (2 * lam))


def normal_between(start, stop):
    if start > 0:
        start, stop = -stop, -start
    return (mpmath.erfc(-stop / mpmath.sqrt(2)) - mpmath.erfc(-start / mpmath.sqrt(2))) / 2


def answers(mean, sd, low, high, scale):
    """Inside, at and outside the bounds, near the mean, and far in the tails."""
    width = high - low
    near = min(max(mean, low), high)
    inside = [low + u * width for u in (0.0, 1e-9, 0.013, 0.4, 0.77, 1 - 1e-7, 1.0)]
    return [*inside, near, min(high, near + 0.3 * sd), low - 0.2 * scale, high + 3 * scale, low - 300 * scale]


@pytest.mark.parametrize("parameters", RANDOM + EXTREME)
def test_density_and_score_agree_with_high_precision(parameters):
    mean, sd, low, high, epsilon = parameters
    scale = (high - low) / epsilon
    law = {"mean": mean, "sd": sd, "low": low, "high": high, "scale": scale}
    for y in answers(mean, sd, low, high, scale):
        exact = exact_log_density(y, *law.values())
        assert float(clipped_normal.log_density(y, **law)) == pytest.approx(float(exact), rel=1e-12, abs=1e-12)
        found = clipped_normal.score(y, **law)
        with mpmath.workdps(70):
            step = mpmath.mpf(10) ** -20 * mpmath.mpf(sd)
            for value, move in zip(found, ((1, 0), (0, 1)), strict=True):
                up, down = (
                    exact_log_density(
                        y, mpmath.mpf(mean) + s * step * move[0], mpmath.mpf(sd) + s * step * move[1], low, high, scale
                    )
                    for s in (1, -1)
                )
                exact_score = float((up - down) / (2 * step) * sd)
                assert float(value) * sd == pytest.approx(exact_score, rel=1e-10, abs=1e-12)


def noisy_pieces(mean, sd, low, high, scale):
    points = [low - 45 * scale, low, high, high + 45 * scale]
    points += [p for p in (mean - 6 * sd, mean - sd, mean, mean + sd, mean + 6 * sd) if low < p < high]
    points += [p for p in (low + 5 * scale, low + 30 * scale, high - 30 * scale, high - 5 * scale) if low < p < high]
    points = sorted(set(points))
    return list(itertools.pairwise(points))


@pytest.mark.parametrize("parameters", RANDOM)
def test_density_is_the_mixture_by_quadrature_and_integrates_to_one(parameters):
    mean, sd, low, high, epsilon = parameters
    scale = (high - low) / epsilon
    law = {"mean": mean, "sd": sd, "low": low, "high": high, "scale": scale}
    normal = stats.norm(mean, sd)
    for y in (low - scale, low + 0.3 * (high - low), high):
        noise = stats.laplace(y, scale)
        cuts = sorted({low, high, *[p for p in (y, mean, mean - 5 * sd, mean + 5 * sd) if low < p < high]})
        inside = sum(
            integrate.quad(lambda x, noise=noise: normal.pdf(x) * noise.pdf(x), lo, hi, epsabs=1e-14, epsrel=1e-12)[0]
            for lo, hi in itertools.pairwise(cuts)
        )
        expected = normal.cdf(low) * noise.pdf(low) + normal.sf(high) * noise.pdf(high) + inside
        assert float(np.exp(clipped_normal.log_density(y, **law))) == pytest.approx(expected, rel=1e-10)
    total = sum(
        integrate.quad(lambda y: float(np.exp(clipped_normal.log_density(y, **law))), lo, hi, limit=200)[0]
        for lo, hi in noisy_pieces(mean, sd, low, high, scale)
    )
    assert total == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("parameters", [*RANDOM, EXTREME[2], EXTREME[3], EXTREME[7]])
def test_information_agrees_with_quadrature_of_the_squared_score(parameters):
    mean, sd, low, high, epsilon = parameters
    scale = (high - low) / epsilon
    law = {"mean": mean, "sd": sd, "low": low, "high": high, "scale": scale}
    found = clipped_normal.information(**law) * sd**2

    def integrand(y, i, j):
        scores = clipped_normal.score(y, **law)
        return float(np.exp(clipped_normal.log_density(y, **law)) * scores[i] * scores[j] * sd**2)

    for i, j in ((0, 0), (0, 1), (1, 1)):
        pieces = noisy_pieces(mean, sd, low, high, scale)
        expected = sum(
            integrate.quad(integrand, lo, hi, (i, j), limit=300, epsabs=1e-12, epsrel=1e-11)[0] for lo, hi in pieces
        )
        assert found[i, j] == pytest.approx(expected, rel=1e-10, abs=1e-11)
        assert found[i, j] == found[j, i]


def test_information_is_vectorised_and_the_same_row_by_row():
    rng = np.random.default_rng(3)
    mean, sd, low = rng.normal(size=(3, 40))
    sd = np.exp(sd)
    high = low + np.exp(rng.normal(size=40))
    scale = (high - low) / np.exp(rng.normal(1, 1.5, size=40))
    together = clipped_normal.information(mean=mean, sd=sd, low=low, high=high, scale=scale)
    for k in range(40):
        row = clipped_normal.information(mean=mean[k], sd=sd[k], low=low[k], high=high[k], scale=scale[k])
        np.testing.assert_allclose(together[k], row, rtol=1e-13, atol=1e-15)
    assert np.all(np.linalg.eigvalsh(together) > -1e-12)


def test_the_best_intervals_for_the_mean_are_those_on_record():
    """Known optima of F_11 over symmetric intervals: +-.0706, .2234, .7281, 1.2244 at epsilon 1, 2, 5, 10."""
    from scipy.optimize import minimize_scalar

    for epsilon, known in ((1, 0.0706), (2, 0.2234), (5, 0.7281), (10, 1.2244)):

        def lost(c, epsilon=epsilon):
            return -float(clipped_normal.information(mean=0, sd=1, low=-c, high=c, scale=2 * c / epsilon)[0, 0])

        best = minimize_scalar(lost, bounds=(0.01, 4), method="bounded", options={"xatol": 1e-7}).x
        assert best == pytest.approx(known, abs=1e-3)


def test_limits_of_the_information():
    """No noise and no clipping gives 1/sd^2 and 2/sd^2; drowning noise gives nothing."""
    clear = clipped_normal.information(mean=1.0, sd=2.0, low=-40.0, high=42.0, scale=1e-5)
    np.testing.assert_allclose(clear, [[0.25, 0], [0, 0.5]], atol=1e-9)
    drowned = clipped_normal.information(mean=1.0, sd=2.0, low=-1.0, high=2.0, scale=1e6)
    assert np.all(np.abs(drowned) < 1e-11)
