"""The lower bound: never above the optimum, whatever the prices; equal to it at the right ones."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from noisewise.laws.finite import adjacent
from noisewise.point import duality, geometric, program
from noisewise.point.belief import BetaBelief, binomial_belief
from noisewise.point.losses import Pinball, Squared
from noisewise.point.panels import PriorPanels

numbers = st.floats(0, 1).map(lambda x: round(x, 3))
tables = st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=4, max_size=4)


@settings(max_examples=60, deadline=None)
@given(tables, st.floats(0.05, 4))
def test_the_recursion_finds_the_least_sum_over_the_cone(entries: list[list[float]], epsilon: float) -> None:
    """Against all 2^3 ways to climb or fall by e^epsilon."""
    reduced = np.array(entries) - 0.5
    rays = np.array([np.exp(epsilon * np.cumsum([0, *steps])) for steps in product((-1, 1), repeat=3)])
    assert np.allclose(duality.least_sums(reduced, epsilon), (rays @ reduced).min(axis=0), rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(tables, st.lists(st.floats(-0.5, 0.5), min_size=4, max_size=4), st.floats(0.1, 3))
def test_no_prices_bound_more_than_the_optimum(entries: list[list[float]], errors: list[float], epsilon: float) -> None:
    costs = np.array(entries) / 4
    solved = program.solve(costs, adjacent(4), epsilon)
    assert duality.lower_bound(costs, solved.prices, epsilon) == pytest.approx(solved.risk, abs=1e-7)
    assert duality.lower_bound(costs, solved.prices + np.array(errors), epsilon) <= solved.risk + 1e-7


@pytest.mark.parametrize("loss", [Squared(), Pinball(0.5, 2.0), Pinball(0.9)], ids=str)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0])
def test_the_prices_of_the_theorem_prove_the_closed_form_on_every_answer(
    loss: Squared | Pinball, epsilon: float
) -> None:
    belief = BetaBelief.of(15, 2, 0.7)
    decided = geometric.decide(loss, belief, epsilon)
    prices = geometric.prices(loss, belief, epsilon, decided.actions)
    assert prices.sum() == pytest.approx(decided.risk, rel=1e-10)
    answers = np.unique(np.concatenate([np.linspace(0, 1, 3001), decided.actions]))
    costs = np.exp(belief.log_weights)[:, None] * loss.expected(belief, answers)
    assert duality.lower_bound(costs, prices, epsilon) == pytest.approx(decided.risk, rel=1e-9)
    # Planted: the prices of another epsilon prove less.
    wrong = geometric.prices(loss, belief, 1.2 * epsilon, decided.actions)
    assert duality.lower_bound(costs, wrong, epsilon) < decided.risk * (1 - 1e-7)


def test_answers_that_would_help_are_found() -> None:
    belief = BetaBelief.of(6, 1, 1)
    coarse, fine = np.linspace(0, 1, 4), np.linspace(0, 1, 301)
    weights = np.exp(belief.log_weights)[:, None]
    few = program.solve(weights * Squared().expected(belief, coarse), adjacent(7), 1.0)
    costs = weights * Squared().expected(belief, fine)
    missed = duality.undercutting(costs, few.prices, 1.0)
    assert len(missed)
    more = np.unique(np.concatenate([coarse, fine[missed]]))
    better = program.solve(weights * Squared().expected(belief, more), adjacent(7), 1.0)
    best = geometric.decide(Squared(), belief, 1.0).risk
    assert best < better.risk < few.risk


@pytest.mark.parametrize("shapes", [(1, 1), (2, 3), (0.5, 0.7), (40, 2)], ids=str)
def test_between_the_points_of_a_prior_its_distribution_function_has_no_steps(shapes: tuple[float, float]) -> None:
    panels = PriorPanels.of(stats.beta(*shapes))
    theta, prior = panels.points()
    exact, points = BetaBelief.of(7, *shapes), binomial_belief(7, theta, prior, theta, panels=panels)
    answers = np.linspace(-0.1, 1.1, 997)
    assert np.allclose(points.below(answers), exact.below(answers), rtol=0, atol=1e-6)
    assert np.allclose(points.shortfall(answers), exact.shortfall(answers), rtol=0, atol=1e-6)
    # Planted: counted points step.
    steps = binomial_belief(7, theta, prior, theta)
    assert np.abs(steps.below(answers) - exact.below(answers)).max() > 1e-5


def test_a_beta_belief_is_the_law_of_the_proportion_given_the_count() -> None:
    belief, answers = BetaBelief.of(5, 2, 3), np.array([0.0, 0.2, 0.7, 1.0])
    s = np.arange(6)
    law = stats.beta(2 + s, 8 - s)
    assert np.allclose(np.exp(belief.log_weights), stats.betabinom.pmf(s, 5, 2, 3))
    assert np.allclose(belief.mean, law.mean())
    assert np.allclose(belief.variance, law.var())
    assert np.allclose(belief.below(answers), stats.beta.cdf(answers, 2 + s[:, None], 8 - s[:, None]))
    for k in (0, 4):
        for j, answer in enumerate(answers):
            direct = stats.beta(2 + k, 8 - k).expect(lambda p, a=answer: max(a - p, 0.0))
            assert belief.shortfall(answers)[k, j] == pytest.approx(direct, abs=1e-9)
    assert math.isclose(float(np.exp(belief.log_weights).sum()), 1.0)
