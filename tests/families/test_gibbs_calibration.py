"""Gibbs posteriors cover what they claim through the mechanism, and taking the parts as independent does not."""

from __future__ import annotations

import pytest
from scipy import stats

import noisewise as nw
from noisewise.evaluate.calibration import calibrate

X = nw.column("x")
ALARM = 1e-6


def schema(n: int, low: float, high: float) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high)}, n=n, neighbours="change-one")


@pytest.mark.slow
def test_a_redacted_sum_is_calibrated_jointly_and_not_with_independent_parts() -> None:
    """Bernstein & Sheldon (2018) take the parts below, inside and above as independent: too narrow by a tenth."""
    plan = nw.plan(nw.TruncatedSum([X], "x", 0.5, 3), schema(500, 0, 100), guarantee=nw.PureDP(10))
    population = nw.Exponential(rate=stats.gamma(20, scale=1 / 20))
    runs = {
        variant: calibrate(plan, population, method="gibbs", trials=600, seed=1, progress=False, variant=variant)
        for variant in ("joint", "published")
    }
    assert runs["joint"].is_calibrated(ALARM)
    assert not runs["published"].is_calibrated(ALARM)


@pytest.mark.slow
def test_a_clamped_mean_and_variance_are_calibrated() -> None:
    plan = nw.plan(nw.Mean(X, X**2), schema(200, -4, 4), guarantee=nw.PureDP(2))
    population = nw.Normal(prior=stats.normal_inverse_gamma(0, 0.5, 3, 8))
    assert calibrate(plan, population, method="gibbs", trials=300, seed=2, progress=False).is_calibrated(ALARM)
