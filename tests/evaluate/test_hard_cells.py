"""E1, E1b and E2 in the cells where a toy fails: five records, a population clamped by a fifth, statistics at a bound,
a vector with two unknowns, several releases of the same records, a median at epsilon = 1.

The quick tests take the posterior from the library's likelihood on a grid of prior quantiles, which costs one batch of
theta a trial and shares nothing with the search and quadrature of `infer`. The slow ones do the same at length, and run
`infer` itself. Every calibration has a false-alarm rate of 1e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from noisewise.evaluate.calibration import Calibration, calibrate
from noisewise.inference.infer import infer
from noisewise.likelihood.joint import joint_likelihood
from noisewise.planning import plan
from noisewise.populations.population import Bernoulli, Categorical, Exponential, Normal, Poisson
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from noisewise.release import Release
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Maximum, Mean, Median, Records, Statistic, Sum, column

ALARM = 1e-6
X, C = column("x"), column("c")
LINE = Normal(mean=stats.norm(0, 2), sd=1)
BOTH = Normal(mean=stats.norm(0, 2), sd=stats.gamma(4, scale=0.3))
CLAMPED = Normal(mean=stats.norm(0, 0.5), sd=1)  # a fifth of it lies beyond -1.28 and 1.28
AT_BOUND = Normal(mean=stats.norm(-1, 1), sd=1)  # most of it lies below 0
COIN, RARE = Bernoulli(p=stats.beta(2, 3)), Bernoulli(p=stats.beta(0.5, 5))
DIE = Categorical(p=stats.dirichlet([1.0, 2.0, 3.0]))
COUNTS = Poisson(rate=stats.gamma(1, scale=20))
WAITS = Exponential(rate=stats.gamma(2, scale=2))
YES = Count(C.equals("b"))
SMOOTH = ApproxDP(1, "1/1000")


class Cell(NamedTuple):
    """A population, what is released of n records of it, and how many trials `infer` can afford."""

    population: Any
    n: int
    released: tuple[tuple[Statistic, Guarantee], ...]
    bounds: tuple[float, float] = (-6, 6)
    quick: int = 20
    at_length: int = 300

    def run(self, trials: int, **options: Any) -> Calibration:
        columns = {"x": Bounded(*self.bounds), "c": Levels(["a", "b"]), "d": Levels(["a", "b", "c"])}
        schema = Schema(columns, n=self.n, neighbours="change-one")
        plans = [plan(statistic, schema, guarantee=guarantee) for statistic, guarantee in self.released]
        return calibrate(plans, self.population, trials=trials, progress=False, **options)


# One unknown: the likelihood on a grid always, `infer` at length.
CELLS = {
    "mean of 5, Laplace": Cell(LINE, 5, ((Mean(X), PureDP(1)),), at_length=50),
    "mean of 20, Laplace": Cell(LINE, 20, ((Mean(X), PureDP(1)),), at_length=50),
    "mean of 5, Gaussian": Cell(LINE, 5, ((Mean(X), GaussianDP(1)),), at_length=100),
    "mean of 20, Gaussian": Cell(LINE, 20, ((Mean(X), ZeroConcentratedDP(1)),), at_length=100),
    "count of 5, geometric": Cell(COIN, 5, ((YES, PureDP(1)),), quick=100),
    "count of 20, geometric": Cell(COIN, 20, ((YES, PureDP(1)),), quick=100),
    "answers of 5, randomized response": Cell(COIN, 5, ((Records(C), PureDP(1)),), quick=60),
    "answers of 20, randomized response": Cell(COIN, 20, ((Records(C), PureDP(1)),), quick=60),
    "median of 5, smooth Cauchy": Cell(LINE, 5, ((Median(X), PureDP(1)),), at_length=40),
    "median of 20, smooth Cauchy": Cell(LINE, 20, ((Median(X), PureDP(1)),), quick=10, at_length=40),
    "median of 5, smooth Laplace": Cell(LINE, 5, ((Median(X), SMOOTH),), at_length=40),
    "median of 20, smooth Laplace": Cell(LINE, 20, ((Median(X), SMOOTH),), quick=10, at_length=40),
    "maximum of 5, smooth Cauchy": Cell(LINE, 5, ((Maximum(X), PureDP(5)),), at_length=40),
    "a fifth clamped, 5, Laplace": Cell(CLAMPED, 5, ((Mean(X), PureDP(1)),), (-1.28, 1.28), at_length=30),
    "a fifth clamped, 20, Laplace": Cell(CLAMPED, 20, ((Mean(X), PureDP(1)),), (-1.28, 1.28), at_length=30),
    "a fifth clamped, 20, Gaussian": Cell(CLAMPED, 20, ((Mean(X), GaussianDP(1)),), (-1.28, 1.28), at_length=100),
    "mean at a bound, 5": Cell(AT_BOUND, 5, ((Mean(X), PureDP(1)),), (0, 4), quick=10, at_length=20),
    "mean of waits at a bound, 20": Cell(WAITS, 20, ((Mean(X), PureDP(1)),), (0, 4), quick=10, at_length=20),
    "median at a bound, 5": Cell(AT_BOUND, 5, ((Median(X), PureDP(5)),), (0, 4), quick=15, at_length=40),
    "rare count of 5, Laplace": Cell(RARE, 5, ((YES, PureDP(1)),), quick=100),
    "rare count of 20, Laplace": Cell(RARE, 20, ((YES, PureDP(1)),), quick=100),
    "rare count of 20, Gaussian": Cell(RARE, 20, ((YES, GaussianDP(1)),), quick=100),
    "sum of counts under a wide prior": Cell(COUNTS, 5, ((Sum(X), PureDP(1)),), (0, 20), quick=60),
    "same records, mean and sum": Cell(LINE, 5, ((Mean(X), PureDP(20)), (Sum(X), PureDP(20))), at_length=20),
    "same records, mean and median": Cell(
        LINE, 5, ((Mean(X), PureDP(20)), (Median(X), PureDP(5))), quick=15, at_length=20
    ),
    "same records, one count twice": Cell(COIN, 20, ((YES, PureDP(1)), (YES, ZeroConcentratedDP(1))), quick=60),
}
# Several unknowns: `infer` alone.
SEVERAL = {
    "table of 5": Cell(DIE, 5, ((Histogram("d"), PureDP(1)),)),
    "table of 20": Cell(DIE, 20, ((Histogram("d"), PureDP(1)),)),
    "vector Laplace, mean and sd": Cell(BOTH, 400, ((Mean(X, X**2), PureDP(1)),), (-10, 10)),
    "vector Laplace, mean and sd, few records": Cell(BOTH, 5, ((Mean(X, X**2), PureDP(5)),), (-10, 10), at_length=20),
    "same records, mean and mean square": Cell(BOTH, 200, ((Mean(X), PureDP(3)), (Mean(X**2), PureDP(3)))),
}


def on_a_grid(releases: Sequence[Release], population: Any, seed: int, *, size: int = 80) -> dict[str, Any]:
    """Draws of one unknown from the posterior that is constant between `size` quantiles of the prior."""
    (name,) = population.free
    prior, rng = population.parameters.priors[name], np.random.default_rng(seed)
    middle = prior.ppf((np.arange(size) + 0.5) / size)
    log_p = joint_likelihood(releases, population).log_likelihood({name: middle})
    p = np.exp(log_p - log_p.max())
    chosen = rng.choice(size, 400, p=p / p.sum())
    return {name: prior.ppf((chosen + rng.random(400)) / size)}


@pytest.mark.parametrize("name", CELLS)
def test_the_likelihood_is_calibrated(name: str) -> None:
    found = CELLS[name].run(CELLS[name].quick, infer=on_a_grid)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.grid(cells=10)
@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_the_likelihood_is_calibrated_at_length(name: str) -> None:
    found = CELLS[name].run(300, infer=on_a_grid)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.parametrize("name", ["table of 5", "table of 20"])
def test_posteriors_of_several_unknowns_are_calibrated(name: str) -> None:
    found = SEVERAL[name].run(60)
    assert found.is_calibrated(ALARM), found.summary()


def test_the_search_survives_extreme_rates() -> None:
    """A wide prior sends `infer` to rates far beyond the bounds, whose counts cannot be enumerated."""
    found = CELLS["sum of counts under a wide prior"].run(8)
    assert not found.failures


@pytest.mark.grid(cells=10)
@pytest.mark.slow
@pytest.mark.parametrize("name", [*CELLS, *SEVERAL])
def test_posteriors_are_calibrated(name: str) -> None:
    cell = {**CELLS, **SEVERAL}[name]
    found = cell.run(cell.at_length)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.parametrize(
    ("name", "guarantee"),
    [
        ("mean of 20, Gaussian", ZeroConcentratedDP(1)),
        ("a fifth clamped, 20, Gaussian", GaussianDP("1/4")),
        ("a fifth clamped, 20, Laplace", PureDP("1/4")),
        ("count of 20, geometric", PureDP("1/4")),
    ],
)
def test_the_naive_posterior_fails(name: str, guarantee: Guarantee) -> None:
    """E2: the same cells at a budget whose noise outweighs the records' own, ignored."""
    cell = CELLS[name]
    found = cell._replace(released=((cell.released[0][0], guarantee),)).run(150, method="naive")
    assert not found.failures
    assert found.smallest_p_value < ALARM


def test_six_releases_of_the_same_records_are_joined_and_their_product_fails() -> None:
    """E1b: told as six data sets (planted), the posterior is up to 2.4 times too narrow."""
    cell = Cell(LINE, 40, tuple((Sum(X) if k % 2 else Mean(X), GaussianDP(20 + k)) for k in range(6)))
    assert cell.run(40, likelihood="clt").is_calibrated(ALARM)
    assert not cell.run(160, infer=as_six_data_sets).is_calibrated(ALARM)


def as_six_data_sets(releases: Sequence[Release], population: Any, seed: int) -> Any:
    apart = [replace(release, dataset=f"holder {k}") for k, release in enumerate(releases)]
    return infer(apart, population, likelihood="clt", draws=25, seed=seed, progress=False).draws
