"""Region moments: right to rounding in every tail, and the joint moments that follow from them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.families.region_moments import exponential_regions, joint_moments, normal_regions, poisson_regions
from noisewise.families.sum_gibbs import sum_moments

INF = math.inf


def by_quadrature(log_density, k: int, low: float, high: float) -> float:
    """E[x^k; low < x < high], scaled by the largest density there so that a far tail keeps its digits."""
    if not low < high:
        return 0.0
    grid = np.linspace(max(low, -200), min(high, 200), 4001)
    place = grid[np.argmax(log_density(grid))]
    top = log_density(place)
    cuts = sorted({max(low, place - 12), place, min(high, place + 12)})
    parts = [
        integrate.quad(lambda x: x**k * math.exp(log_density(x) - top), a, b, epsabs=0, epsrel=1e-12, limit=400)[0]
        for a, b in itertools.pairwise(cuts)
    ]
    return math.exp(top) * math.fsum(parts)


NORMAL_WINDOWS = [
    (-1, 2),
    (-0.3, 0.4),
    (0.1, 0.101),
    (2, 5),
    (8, 8.5),
    (8, 11),
    (20, 22),
    (-30, -29.5),
    (-12, -9),
    (-40, 3),
]


@pytest.mark.parametrize(("low", "high"), NORMAL_WINDOWS)
def test_normal_moments_are_right_in_every_region_and_tail(low: float, high: float) -> None:
    out = np.empty((3, 5))
    normal_regions(low, high, out)
    for region, (a, b) in enumerate([(-INF, low), (low, high), (high, INF)]):
        for k in range(5):
            expected = by_quadrature(stats.norm.logpdf, k, a, b)
            # Odd moments of a region around 0 cancel: they are as good as the mass is.
            assert out[region, k] == pytest.approx(expected, rel=2e-9, abs=1e-13 * out[region, 0]), (region, k)
    assert out.sum(axis=0) == pytest.approx([1, 0, 1, 0, 3], abs=1e-11)


@pytest.mark.parametrize("rate", [1e-4, 0.3, 1.0, 7.0])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 2), (0.2, 0.21), (1, 40), (6, 8), (2.5, 3.5)])
def test_exponential_moments_are_right_in_every_region_and_tail(rate: float, low: float, high: float) -> None:
    out = np.empty((3, 3))
    exponential_regions(rate, low, high, out)
    regions = [(0.0, max(low, 0.0)), (max(low, 0.0), high), (high, INF)]
    for region, (a, b) in enumerate(regions):
        for k in range(3):
            # int_a^b x^k rate e^{-rate x} dx, in units of the mean and from its own start.
            end = min(rate * (b - a), 60.0)
            expected = math.exp(-rate * a) * integrate.quad(
                lambda u, a=a, k=k: (a + u / rate) ** k * math.exp(-u), 0, end, epsabs=0, epsrel=1e-12, limit=300
            )[0] if end > 0 else 0.0  # fmt: skip
            assert out[region, k] == pytest.approx(expected, rel=1e-9), (region, k)


@pytest.mark.parametrize("rate", [1e-5, 0.2, 3.0, 40.0, 400.0])
@pytest.mark.parametrize(("low", "high"), [(0, 8), (-3, 2.5), (1, 4), (2.5, 3.5), (30, 31), (60, 90), (380, 500)])
def test_poisson_moments_are_sums_of_probabilities(rate: float, low: float, high: float) -> None:
    out = np.empty((3, 3))
    poisson_regions(rate, low, high, out)
    x = np.arange(0.0, 1500.0)
    mass = np.exp(stats.poisson.logpmf(x, rate))
    for region, inside in enumerate([x < low, (x >= low) & (x <= high), x > high]):
        for k in range(3):
            expected = math.fsum((x**k * mass)[inside])
            assert out[region, k] == pytest.approx(expected, rel=1e-9, abs=1e-280), (region, k)


def enumerated(x: np.ndarray, low: float, high: float, ends: np.ndarray, powers: int):
    """The published and the true powers of the atoms of a record, each (powers, atoms), and who is outside."""
    below, above = x < low, x > high
    s = np.stack([x**k for k in range(powers)])
    r = np.where(below, ends[0][:, None], np.where(above, ends[1][:, None], s))
    return r, s, below, above


@pytest.mark.parametrize("clamped", [(True, True), (False, False), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("is_independent", [False, True], ids=["joint", "independent"])
def test_joint_moments_are_those_of_an_enumerated_record(clamped: tuple[bool, bool], is_independent: bool) -> None:
    x = np.array([-2.0, -0.5, 0.3, 1.0, 2.5, 4.0])
    weight = np.array([0.1, 0.25, 0.2, 0.2, 0.15, 0.1])
    low, high, powers = -1.0, 2.0, 3
    ends = np.array(
        [[low**k if c else 0.0 for k in range(powers)] for low, c in zip((low, high), clamped, strict=True)]
    )
    r, s, below, above = enumerated(x, low, high, ends, powers)
    regions = np.array([[np.sum(weight * x**k * inside) for k in range(5)]
                        for inside in (below, ~below & ~above, above)])  # fmt: skip
    mean, rr, sr, ss = np.empty(3), np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    joint_moments(regions, ends, is_independent, mean, rr, sr, ss)
    assert mean == pytest.approx(r @ weight)
    groups = (below, ~below & ~above, above) if is_independent else (np.ones_like(below),)
    for a, b, found in ((r, r, rr), (s, r, sr), (s, s, ss)):
        expected = np.zeros((3, 3))
        for group in groups:
            part = a * weight * group
            expected += part @ b.T - np.outer(part.sum(axis=1), (b * weight * group).sum(axis=1))
        assert found == pytest.approx(expected, abs=1e-13)


def test_taking_the_parts_as_independent_is_another_law() -> None:
    """The parts exclude each other: without their covariances the sufficient sum would be wider than it is."""
    out, wide = np.empty(5), np.empty(5)
    window, redacted = np.array([0.5, 2.0]), np.array([False, False])
    sum_moments(False, 100.0, 1.0, window, redacted, False, out)
    sum_moments(False, 100.0, 1.0, window, redacted, True, wide)
    assert out[3] == pytest.approx(100.0)  # the variance of a sum of 100 standard exponentials
    assert wide[3] > 1.3 * out[3]
    assert wide[2] == pytest.approx(out[2])  # one part alone is the same


def test_a_window_that_holds_everything_publishes_the_sufficient_sum() -> None:
    out = np.empty(5)
    sum_moments(True, 50.0, 4.0, np.array([0.0, 300.0]), np.array([True, True]), False, out)
    assert out == pytest.approx([200.0] * 5)
