"""Several sums of 20, 40 and 100 records are calibrated: mean and indicator, mean and square, three releases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.evaluate.calibration import Calibration, calibrate
from noisewise.likelihood.joint import joint_likelihood

ALARM = 1e-6
X = nw.column("x")
LINE = nw.Normal(mean=stats.norm(0, 1), sd=1)
BOTH = nw.Normal(mean=stats.norm(0, 1), sd=stats.gamma(4, scale=0.25))
SKEWED = nw.LogNormal(log_mean=stats.norm(0, 0.7), log_sd=0.8)
WIDE, POSITIVE = (-5, 5), (0, 20)
KINDS: dict[str, tuple[Any, tuple[float, float], tuple[tuple[Any, Any], ...]]] = {
    "mean and indicator": (LINE, WIDE, ((nw.Mean(X, X.between(1, 5)), nw.PureDP(8)),)),
    "mean and square": (LINE, WIDE, ((nw.Mean(X, X**2), nw.PureDP(8)),)),
    "skewed": (SKEWED, POSITIVE, ((nw.Mean(X, X.clip(0, 3)), nw.PureDP(8)),)),
    "three releases": (
        LINE,
        WIDE,
        ((nw.Mean(X), nw.PureDP(5)), (nw.Count(X.between(1, 5)), nw.PureDP(2)), (nw.Mean(X**2), nw.GaussianDP(2))),
    ),
    "one sum twice": (LINE, WIDE, ((nw.Mean(X), nw.PureDP(5)), (nw.Mean(1 - X), nw.PureDP(5)))),
}


def run(name: str, n: int, trials: int, population: Any = None, **options: Any) -> Calibration:
    own, bounds, released = KINDS[name]
    schema = nw.Schema({"x": nw.Bounded(*bounds)}, n=n, neighbours="change-one")
    plans = [nw.plan(statistic, schema, guarantee=guarantee) for statistic, guarantee in released]
    return calibrate(plans, population or own, trials=trials, progress=False, **options)


def on_a_grid(
    releases: Sequence[nw.Release], population: Any, seed: int, *, likelihood: str = "auto"
) -> dict[str, Any]:
    """Draws of one unknown from the posterior that is constant between 80 quantiles of the prior."""
    (name,) = population.free
    prior, rng, size = population.parameters.priors[name], np.random.default_rng(seed), 80
    middle = prior.ppf((np.arange(size) + 0.5) / size)
    law = joint_likelihood(releases, population, likelihood=likelihood)
    log_p = law.log_likelihood({name: middle})
    assert likelihood == "clt" or not law.cautions
    p = np.exp(log_p - log_p.max())
    chosen = rng.choice(size, 400, p=p / p.sum())
    return {name: prior.ppf((chosen + rng.random(400)) / size)}


@pytest.mark.parametrize("name", KINDS)
def test_the_joint_law_of_few_records_is_calibrated(name: str) -> None:
    found = run(name, 40, 10 if name == "three releases" else 40, infer=on_a_grid)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 40, 100])
@pytest.mark.parametrize("name", KINDS)
def test_the_joint_law_of_few_records_is_calibrated_at_length(name: str, n: int) -> None:
    found = run(name, n, {"three releases": 200, "skewed": 300}.get(name, 500), infer=on_a_grid)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mean and indicator", "mean and square", "three releases"])
def test_two_unknowns_of_few_records_are_calibrated(name: str) -> None:
    found = run(name, 20, 150, population=BOTH)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
def test_a_plain_normal_law_of_few_skewed_records_is_caught() -> None:
    """E2 for laws: the same calibration, with the central limit theorem in place of the joint law (planted).

    Five records, most of whose sum is one of them, under little noise: a thousand trials have a p-value of 1e-9. Of
    twenty records of the kinds above the plain law is off by less than 12 000 trials show.
    """

    def plain(releases: Sequence[nw.Release], population: Any, seed: int) -> dict[str, Any]:
        return on_a_grid(releases, population, seed, likelihood="clt")

    population = nw.LogNormal(log_mean=stats.norm(0, 0.7), log_sd=1.5)
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=5, neighbours="change-one")
    plan = nw.plan(nw.Mean(X, X.clip(0, 3)), schema, guarantee=nw.PureDP(100))
    assert not calibrate(plan, population, trials=4000, progress=False, infer=plain).is_calibrated(ALARM)
