"""dp-sgd: what it spends against another accountant, its gradient against definitions, its limit without noise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant
from scipy import integrate, stats

from noisewise.errors import InvalidArgument
from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.problem import Problem
from noisewise.graphical.structure import Regions
from noisewise.published.baselines.dp_sgd import _Marks, dp_sgd, probabilities
from noisewise.published.baselines.non_private_graphical import non_private_graphical
from noisewise.published.baselines.subsampled_gaussian import (
    WHOLE_ORDERS,
    log_moments,
    noise_multiplier_for,
    spent_epsilon,
)

FALSE_ALARM = 1e-6
RUNS = [  # sampling rate, steps, noise multiplier, delta
    (0.01, 1000, 1.0, 1e-5),
    (0.1, 100, 2.0, 1e-3),
    (0.01, 500, 4.0, 1e-4),
    (1.0, 50, 20.0, 1e-6),
    (0.5, 10, 5.0, 1e-3),
    (0.002, 400, 0.9, 1e-6),
]


def event(rate: float, steps: int, sigma: float) -> SelfComposedDpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)), steps)


# ---- the account ----


@pytest.mark.parametrize(("rate", "steps", "sigma", "delta"), RUNS)
def test_the_account_is_that_of_another_renyi_accountant_and_never_below_the_privacy_loss(
    rate: float, steps: int, sigma: float, delta: float
) -> None:
    """dp-accounting at the same whole orders is at most 5 % above; its privacy-loss distribution is always below."""
    ours = spent_epsilon(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=delta)
    renyi, loss = RdpAccountant(orders=WHOLE_ORDERS[1:]), PLDAccountant()
    for accountant in (renyi, loss):
        accountant.compose(event(rate, steps, sigma))
    assert 0.95 * renyi.get_epsilon(delta) <= ours <= renyi.get_epsilon(delta) * (1 + 1e-9)
    assert ours >= loss.get_epsilon(delta)


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.3, 2.0), (0.9, 0.7), (1.0, 3.0)])
def test_moments_are_those_of_the_mixture(rate: float, sigma: float) -> None:
    """E_0 (p/p_0)^a by quadrature, p = (1 - q) N(0, sigma^2) + q N(1, sigma^2); also chords between whole orders."""

    def moment(order: float) -> float:
        def log_integrand(z: float) -> float:
            apart = (2 * z - 1) / (2 * sigma**2) + math.log(rate)
            mixed = np.logaddexp(math.log1p(-rate) if rate < 1 else -np.inf, apart)
            return float(-(z**2) / (2 * sigma**2) + order * mixed)

        grid = np.linspace(-40 * sigma, 40 * sigma + order, 4001)
        top = max(map(log_integrand, grid))
        mass, _ = integrate.quad(lambda z: math.exp(log_integrand(z) - top), grid[0], grid[-1], limit=400,
                                 points=[0, order / 2, order])  # fmt: skip
        return top + math.log(mass) - math.log(sigma * math.sqrt(2 * math.pi))

    moments = dict(zip(WHOLE_ORDERS, log_moments(sigma, rate), strict=True))
    for order in (2, 3, 7):
        assert moments[order] == pytest.approx(moment(order), rel=1e-7)
    assert moment(2.5) <= (moments[2] + moments[3]) / 2 + 1e-12


@pytest.mark.parametrize(("epsilon", "steps", "rate"), [(0.1, 100, 0.01), (0.5, 400, 0.002), (1, 50, 0.1), (8, 20, 1)])
def test_the_noise_is_the_least_that_keeps_the_promise(epsilon: float, steps: int, rate: float) -> None:
    sigma = noise_multiplier_for(epsilon=epsilon, delta=1e-4, sampling_rate=rate, steps=steps)
    assert spent_epsilon(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-4) <= epsilon
    less = spent_epsilon(noise_multiplier=sigma * 0.9999, sampling_rate=rate, steps=steps, delta=1e-4)
    assert epsilon < less < epsilon * 1.01


def test_what_no_noise_can_promise_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="out of reach"):
        noise_multiplier_for(epsilon=1e-5, delta=1e-12, sampling_rate=0.5, steps=1000)
    for wrong in ({"noise_multiplier": 0.0}, {"sampling_rate": 0.0}, {"sampling_rate": 1.1}, {"delta": 0.0}):
        given: dict[str, Any] = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 3, "delta": 1e-3} | wrong
        with pytest.raises(InvalidArgument):
            spent_epsilon(**given)


# ---- the gradient ----


def chain(*, tied: bool = False) -> Problem:
    tables = Regions((2, 3, 3, 3) if not tied else (3, 3, 3, 3), ((0, 1), (2, 1), (2, 3)) if not tied else
                     ((0, 1), (1, 2), (2, 3)))  # fmt: skip
    spread = np.tile(np.arange(9), 3) if tied else np.arange(tables.cells)
    return Problem(JunctionEngine(tables), spread, ())


def marks(problem: Problem, record: Any) -> Any:
    """t(x) by its definition."""
    tables, found = problem.engine.tables, np.zeros(problem.parameters)
    for r, region in enumerate(tables.regions):
        cells = list(itertools.product(*(range(tables.states[v]) for v in region)))
        found[problem.spread[tables.starts[r] + cells.index(tuple(record[v] for v in region))]] += 1
    return found


@pytest.mark.parametrize("tied", [False, True], ids=["free", "tied"])
@pytest.mark.parametrize("length", [0.8, 1.5, 10.0])
def test_gradients_are_shortened_one_by_one(rng: np.random.Generator, tied: bool, length: float) -> None:
    problem = chain(tied=tied)
    states = problem.engine.tables.states
    records = np.stack([rng.integers(s, size=50) for s in states], axis=1)
    mu = probabilities(problem, rng.standard_normal(problem.parameters))
    wanted = np.zeros(problem.parameters)
    for record in records:
        gradient = marks(problem, record) - mu
        wanted += gradient * min(1, length / np.linalg.norm(gradient))
    assert np.allclose(_Marks.of(problem).clipped_sum(records, mu, length), wanted, rtol=0, atol=1e-9)


def test_tables_that_are_no_factors_are_not_marked(rng: np.random.Generator) -> None:
    """An extra table (spread -1) changes nothing."""
    tables = Regions((2, 3, 2), ((0, 1), (0, 2), (1, 2)))
    problem = Problem(JunctionEngine(tables), np.concatenate([np.arange(6), -np.ones(4, int), np.arange(6, 12)]), ())
    records = np.stack([rng.integers(s, size=20) for s in tables.states], axis=1)
    mu = np.zeros(12)
    found = _Marks.of(problem).clipped_sum(records, mu, 10.0)
    assert found[:6].sum() == found[6:].sum() == 20
    assert found[:6].tolist() == np.bincount(records[:, 0] * 3 + records[:, 1], minlength=6).tolist()


def test_no_gradient_is_longer_than_the_root_of_twice_the_tables(rng: np.random.Generator) -> None:
    """|t(x) - mu|^2 <= 2 k, and at the truth its mean is k - |mu|^2 < k: of records and model by enumeration."""
    problem = chain()
    theta = 3 * rng.standard_normal(problem.parameters)
    _, mu = problem.engine.marginals(theta)
    worst = 0.0
    for record in itertools.product(*map(range, problem.engine.tables.states)):
        worst = max(worst, float(np.sum((marks(problem, record) - mu) ** 2)))
    assert worst <= 6


# ---- the fit ----


def test_without_noise_it_finds_the_maximum_of_the_likelihood(rng: np.random.Generator) -> None:
    """Whole batches, no clipping: plain gradient ascent."""
    problem = chain()
    records = np.stack([rng.integers(s, size=400) for s in problem.engine.tables.states], axis=1)
    counts = sum(marks(problem, record) for record in records)
    fit = dp_sgd(rng, problem, records, epsilon=math.inf, delta=0.5, steps=4000, sampling_rate=1.0, learning_rate=2.0,
                 clip=3.0)  # fmt: skip
    best = non_private_graphical(problem, counts, n=400, ridge=0.0)
    for theta in (fit.theta, best.theta):
        assert np.allclose(probabilities(problem, theta), counts / 400, atol=1e-5)
    assert "not private" in fit.notes[0]


def test_noise_is_what_the_account_asks_for(rng: np.random.Generator) -> None:
    """One step of whole batches moves theta by the gradient and noise of sd sigma C rate/n: a chi-square test."""
    tables = Regions((20,) * 4, ((0, 1), (1, 2), (2, 3)))
    problem = Problem(JunctionEngine(tables), np.arange(tables.cells), ())
    records = rng.integers(20, size=(1000, 4))
    given = {"epsilon": 1.0, "delta": 1e-3, "sampling_rate": 1.0, "steps": 1}
    sigma = noise_multiplier_for(**given)  # type: ignore[arg-type]
    moved = np.stack([dp_sgd(rng, problem, records, learning_rate=1.0, clip=3.0, **given).theta  # type: ignore[arg-type]
                      for _ in range(8)])  # fmt: skip
    exact = _Marks.of(problem).clipped_sum(records, probabilities(problem, np.zeros(problem.parameters)), 3.0) / 1000
    squares = float(np.sum(((moved - exact) / (3 * sigma / 1000)) ** 2))
    low, high = stats.chi2(moved.size).ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
    assert low < squares < high
    assert low * 1.1**2 > high  # noise of a scale 10 % larger would be seen


def test_the_yardstick_matches_the_tables_and_stays_finite_where_nobody_is(rng: np.random.Generator) -> None:
    problem = chain()
    records = np.stack([rng.integers(s, size=30) for s in problem.engine.tables.states], axis=1)
    records[:, 1] = np.minimum(records[:, 1], 1)  # nobody in its third state
    counts = sum(marks(problem, record) for record in records)
    fit = non_private_graphical(problem, counts, n=30)
    assert np.all(np.isfinite(fit.theta))
    assert np.allclose(probabilities(problem, fit.theta), counts / 30, atol=1e-3)
    with pytest.raises(InvalidArgument, match="24 cells"):
        non_private_graphical(problem, counts[:-1], n=30)
