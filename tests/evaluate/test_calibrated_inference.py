"""E1: what `infer` returns is calibrated through the mechanism, by family, mechanism and method; E1b: so are joins.

A few quick cases run always; the others are in the slow tier. Each is one calibration at a false-alarm rate of 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from scipy import stats

from noisewise.evaluate.calibration import calibrate
from noisewise.planning import plan
from noisewise.populations.population import Bernoulli, Categorical, Exponential, Joint, Normal, Poisson
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Maximum, Mean, Median, Records, Statistic, Sum, column

ALARM = 1e-6
X, C = column("x"), column("c")
NORMAL = Normal(mean=stats.norm(0, 2), sd=1)
BOTH = Normal(mean=stats.norm(0, 2), sd=stats.gamma(4, scale=0.3))
COIN = Bernoulli(p=stats.beta(2, 3))
DIE = Categorical(p=stats.dirichlet([1.0, 2.0, 3.0]))
HALVES = ((Fraction(0), Fraction(1, 2)), (Fraction(1, 2), Fraction(1)))


class Case(NamedTuple):
    """A population and what is released of it."""

    population: Any
    statistics: tuple[Statistic, ...]
    guarantee: Guarantee
    n: int = 40
    bounds: tuple[float, float] = (-6, 6)
    parts: tuple[Any, ...] = (None, None)
    options: tuple[tuple[str, Any], ...] = ()

    def run(self, trials: int, **options: Any) -> Any:
        columns = {"x": Bounded(*self.bounds), "c": Levels(["a", "b"]), "d": Levels(["a", "b", "c"])}
        schema = Schema(columns, n=self.n, neighbours="change-one")
        plans = [plan(statistic, schema, guarantee=self.guarantee, part=part)
                 for statistic, part in zip(self.statistics, self.parts, strict=False)]  # fmt: skip
        return calibrate(plans, self.population, trials=trials, progress=False, **{**dict(self.options), **options})


CLT = (("likelihood", "clt"),)
CASES = {
    "normal mean, Laplace": Case(NORMAL, (Mean(X),), PureDP(1), options=CLT),
    "normal mean, Gaussian": Case(NORMAL, (Mean(X),), GaussianDP(1), options=CLT),
    "normal mean, clamped hard": Case(NORMAL, (Mean(X),), ZeroConcentratedDP(1), bounds=(-1, 1), n=400, options=CLT),
    "count, geometric": Case(COIN, (Count(C.equals("b")),), PureDP(1)),
    "coin, randomized response": Case(COIN, (Records(C),), PureDP(1)),
    "two means of the same records": Case(NORMAL, (Mean(X), Sum(X)), GaussianDP(30), options=CLT),
    "means of two halves": Case(NORMAL, (Mean(X), Mean(X)), GaussianDP(30), parts=HALVES, options=CLT),
}
SLOW = {
    "table, Laplace": Case(DIE, (Histogram("d"),), PureDP(1), n=20),
    "normal mean, exact law": Case(NORMAL, (Mean(X),), PureDP(1), n=10),
    "mean and sd, Laplace": Case(BOTH, (Mean(X, X**2),), PureDP(5), n=400, bounds=(-10, 10)),
    "mean and sd, Gaussian": Case(BOTH, (Mean(X, X**2),), GaussianDP(2), n=400, bounds=(-10, 10)),
    "Poisson sum": Case(Poisson(rate=stats.gamma(3)), (Sum(X),), PureDP(1), bounds=(0, 20), n=20),
    "exponential mean, clamped": Case(Exponential(rate=stats.gamma(3)), (Mean(X),), PureDP(1), bounds=(0, 1), n=200),
    "median, smooth Laplace": Case(NORMAL, (Median(X),), ApproxDP(1, "1/1000")),
    "median, smooth Cauchy": Case(NORMAL, (Median(X),), PureDP(2)),
    "maximum, smooth Cauchy": Case(NORMAL, (Maximum(X),), PureDP(5)),
    "local answers, Laplace": Case(NORMAL, (Records(X),), PureDP(2)),
    "two columns": Case(Joint(x=NORMAL, c=COIN), (Mean(X), Count(C.equals("b"))), PureDP(1), n=200, options=CLT),
}
METHODS: dict[str, dict[str, Any]] = {
    "mh": {},
    "slice": {},
    "mh-within-gibbs": {},
    "pmmh": {"n_particles": 50},
    "cpm": {"n_particles": 20},
    "mhaar": {"n_particles": 20},
}


@pytest.mark.parametrize("name", CASES)
def test_posteriors_are_calibrated_through_the_mechanism(name: str) -> None:
    found = CASES[name].run(trials=50)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES, *SLOW])
def test_posteriors_are_calibrated_at_length(name: str) -> None:
    found = {**CASES, **SLOW}[name].run(trials=300 if name in CASES else 100)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_sampler_is_calibrated(method: str) -> None:
    found = CASES["normal mean, Laplace"].run(trials=60, method=method, warmup=500, draws=50, **METHODS[method])
    assert found.is_calibrated(ALARM), found.summary()


def test_the_naive_posterior_fails() -> None:
    """E2: noise of sd 1.2 on a mean of sd 0.16, ignored."""
    found = CASES["normal mean, Gaussian"].run(trials=100, method="naive")
    assert not found.is_calibrated(ALARM)


@pytest.mark.slow
def test_the_releases_of_one_data_set_multiplied_fail() -> None:
    """E1b: the same two releases, told to `infer` as if they came from two data sets (planted)."""
    found = CASES["two means of the same records"].run(trials=1000, infer=_apart)
    assert not found.is_calibrated(ALARM)


def _apart(releases: Any, population: Any, seed: int) -> Any:
    from dataclasses import replace

    from noisewise.inference.infer import infer

    told = [replace(release, dataset=f"holder {k}") for k, release in enumerate(releases)]
    make: Callable[..., Any] = infer
    return make(told, population, likelihood="clt", draws=25, seed=seed, progress=False).draws
