"""The Laplace baselines: the closed form in print, quadrature, and a simulation of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument
from noisewise.point.laplace import KINDS, LaplaceEstimator
from noisewise.point.losses import read_loss
from noisewise.point.models import Problem, read_problem
from noisewise.point.optimal import optimal_estimator

FALSE_ALARM = 1e-6
UNIFORM = nw.Bernoulli(p=stats.uniform())
# Every epsilon of Figures 3 and 4.
FIGURES = [*(f"{k}/1000" for k in range(1, 11)), *(f"{k}/2" for k in range(2, 11))]


def problem_of(loss: Any, n: int = 10, population: Any = UNIFORM) -> Problem:
    return read_problem(population, read_loss(loss), n=n, statistic=None, schema=None, estimand=None)


@pytest.mark.parametrize("n", [3, 10, 40])
@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 5.0])
def test_the_printed_risk_has_its_closed_form(epsilon: float, n: int) -> None:
    found = LaplaceEstimator.of(problem_of("squared", n), read_loss("squared"), epsilon, "printed").risk
    assert found == pytest.approx(1 / (6 * (n + 2)) + 2 / ((n + 2) * epsilon) ** 2, rel=1e-10)


def test_known_answers() -> None:
    risks = [LaplaceEstimator.of(problem_of("squared"), read_loss("squared"), e, "printed").risk for e in (0.1, 1, 5)]
    assert risks == pytest.approx([1.4028, 0.02778, 0.01444], abs=5e-5)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("epsilon", FIGURES)
def test_the_unified_estimator_is_never_worse(epsilon: str, loss: str) -> None:
    guarantee = nw.PureDP(epsilon)
    best = optimal_estimator(UNIFORM, loss, guarantee=guarantee, n=10).risk
    problem = problem_of(loss)
    printed, clipped, bayes = (
        LaplaceEstimator.of(problem, read_loss(loss), float(guarantee.epsilon), kind).risk for kind in KINDS
    )
    assert best < bayes * (1 + 1e-9)
    assert bayes < clipped < printed


def test_the_clipped_risk_by_an_integral_of_its_own() -> None:
    """E (p - clip(y))^2 over y and the count, by adaptive quadrature on the Laplace distribution function."""
    n, epsilon = 4, 0.8
    scale = 1 / ((n + 2) * epsilon)
    total = 0.0
    for s in range(n + 1):
        centre, law = (s + 1) / (n + 2), stats.beta(s + 1, n - s + 1)

        def cost(y: float, law: Any = law) -> float:
            return float(law.var() + (law.mean() - np.clip(y, 0, 1)) ** 2)

        noise = stats.laplace(centre, scale)
        inside = integrate.quad(lambda y, noise=noise, cost=cost: noise.pdf(y) * cost(y), 0, 1, points=[centre])[0]
        total += (inside + noise.cdf(0) * cost(0.0) + noise.sf(1) * cost(1.0)) / (n + 1)
    found = LaplaceEstimator.of(problem_of("squared", n), read_loss("squared"), epsilon, "clipped").risk
    assert found == pytest.approx(total, rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["squared", "absolute", ("window", 0.1)], ids=str)
def test_a_simulation_of_the_whole_line_gives_the_same_risk(loss: Any, kind: str) -> None:
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    rng, draws, epsilon = np.random.default_rng(seed), 5_000 if kind == "bayes" else 20_000, 0.7
    wanted = read_loss(loss)
    found = LaplaceEstimator.of(problem_of(loss, 6, nw.Bernoulli(p=stats.beta(2, 3))), wanted, epsilon, kind)
    truth = rng.beta(2, 3, draws)
    counts = rng.binomial(6, truth)
    noisy = found.centres[counts] + rng.laplace(scale=found.scale, size=draws)
    costs = wanted.cost(truth, found.answers(noisy))
    error = costs.std(ddof=1) / np.sqrt(draws)
    z = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(costs.mean() - found.risk) < z * error
    # Planted: a scale without the division by epsilon is caught, where it matters.
    if kind == "printed":
        careless = wanted.cost(
            truth, found.answers(found.centres[counts] + rng.laplace(scale=found.scale * epsilon, size=draws))
        )
        assert abs(careless.mean() - found.risk) > z * careless.std(ddof=1) / np.sqrt(draws)


def test_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="kind"):
        LaplaceEstimator.of(problem_of("squared"), read_loss("squared"), 1.0, "rounded")
