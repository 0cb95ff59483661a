"""Answers summed by question: the same likelihood as one by one, at a fraction of the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.online import answered
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.answered import Group, joint_law, summed
from noisewise.online.asked import asked_of
from noisewise.online.simulate import simulated_answer

POPULATIONS = {
    "normal": (nw.Normal(mean=stats.norm(0, 5), sd=stats.halfnorm(scale=3)),
               {"mean": [0.0, 0.2, -0.5, 3.0], "sd": [1.0, 1.2, 0.8, 2.0]}),
    "t": (nw.LocationScale(stats.t(5), loc=stats.norm(0, 5), scale=stats.halfnorm()),
          {"loc": [0.0, 0.2, 1.0], "scale": [1.0, 1.2, 0.7]}),
    "exponential": (nw.Exponential(rate=stats.gamma(2)), {"rate": [1.0, 1.3, 0.4]}),
    "poisson": (nw.Poisson(rate=stats.gamma(2)), {"rate": [1.0, 1.3, 0.4]}),
    "bernoulli": (nw.Bernoulli(p=stats.beta(2, 2)), {"p": [0.3, 0.5, 0.9]}),
}  # fmt: skip
QUESTIONS = {
    "clip, laplace": [nw.Query.clip(-0.7, 0.9, guarantee=nw.PureDP(3)), nw.Query.clip(0, 2, guarantee=nw.PureDP(1))],
    "clip, gaussian": [nw.Query.clip(-0.7, 0.9, guarantee=nw.GaussianDP(2))],
    "cells": [nw.Query.cells([0.5], guarantee=nw.PureDP(1)), nw.Query.cells([0.5, 1, 2], guarantee=nw.PureDP(4))],
    "both": [nw.Query.clip(0, 2, guarantee=nw.PureDP(1)), nw.Query.cells([0.5], guarantee=nw.PureDP(1))],
}


def asked_many(population, queries, theta, n, rng):
    """n answers to each question, from people drawn at the first row of theta."""
    first = {name: np.array(value[:1]) for name, value in theta.items()}
    groups = []
    for query in queries:
        x = population.sample(rng, n, first)[0]
        readings = [simulated_answer(rng, query, float(value)).reading for value in x]
        groups.append(Group(asked_of(query), np.array(readings)))
    return groups


@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("name", POPULATIONS)
def test_answers_summed_by_question_have_the_likelihood_of_answers_one_by_one(name, kind):
    population, theta = POPULATIONS[name]
    law, rng = AnswerLaw(population), np.random.default_rng(1)
    groups = asked_many(population, QUESTIONS[kind], theta, 250, rng)
    theta = {key: np.array(value) for key, value in theta.items()}
    near = {key: value[:2] for key, value in theta.items()}
    one_by_one = sum(law.log_density(group.asked, group.readings, theta).sum(axis=1) for group in groups)
    np.testing.assert_allclose(joint_law(law, groups, near)(theta), one_by_one, rtol=0, atol=2e-5)
    np.testing.assert_allclose(joint_law(law, groups, near)(near), one_by_one[:2], rtol=0, atol=1e-6)


def test_many_answers_to_one_question_become_few_numbers():
    population, theta = POPULATIONS["normal"]
    law, rng = AnswerLaw(population), np.random.default_rng(2)
    (group,) = asked_many(population, [nw.Query.clip(-0.7, 0.7, guarantee=nw.PureDP(5))], theta, 4000, rng)
    near = {key: np.array(value) for key, value in theta.items()}
    found = summed(law, group, near)
    assert found.points.size <= 2 + 48
    assert found.weights.sum() == pytest.approx(4000, abs=1e-6)


def test_a_sum_that_nodes_cannot_reproduce_keeps_its_answers(monkeypatch):
    """A population much narrower than the interval has a law that no polynomial follows."""
    population, _ = POPULATIONS["normal"]
    law, rng = AnswerLaw(population), np.random.default_rng(3)
    theta = {"mean": [0.0, 0.001], "sd": [1e-3, 2e-3]}
    (group,) = asked_many(population, [nw.Query.clip(-10, 10, guarantee=nw.PureDP(40))], theta, 600, rng)
    near = {key: np.array(value) for key, value in theta.items()}
    exact = law.log_density(group.asked, group.readings, near).sum(axis=1)
    np.testing.assert_allclose(joint_law(law, [group], near)(near), exact, atol=1e-6)
    monkeypatch.setattr(answered, "LARGEST_ERROR", np.inf)  # planted: the check is left out
    assert np.abs(joint_law(law, [group], near)(near) - exact).max() > 1e-3


def test_no_answers_tell_nothing_and_rows_in_blocks_change_nothing(monkeypatch):
    population, theta = POPULATIONS["normal"]
    law = AnswerLaw(population)
    theta = {key: np.array(value) for key, value in theta.items()}
    assert np.all(joint_law(law, [], theta)(theta) == 0)
    groups = asked_many(population, QUESTIONS["cells"], POPULATIONS["normal"][1], 50, np.random.default_rng(4))
    whole = joint_law(law, groups, theta)(theta)
    monkeypatch.setattr(answered, "MOST_NUMBERS", 3)
    np.testing.assert_allclose(joint_law(law, groups, theta)(theta), whole, rtol=1e-13)


def test_the_work_of_a_rejuvenation_is_that_of_the_different_questions(rng):
    """Ten times as many answers to the same questions are no more cells and hardly more readings to score."""
    law = AnswerLaw(nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)))
    theta = {"mean": np.array([48.0, 52.0]), "sd": np.array([19.0, 22.0])}
    cells = asked_of(nw.Query.cells([30, 50, 70], guarantee=nw.PureDP(2)))
    clip = asked_of(nw.Query.clip(40, 60, guarantee=nw.PureDP(2)))
    sizes = {}
    for n in (2000, 20_000):
        asked = []

        class Counting(AnswerLaw):
            def cell_mass(self, low, high, cells, theta, asked=asked):
                asked.append(low.size)
                return super().cell_mass(low, high, cells, theta)

        counting = Counting(law.population)
        total = joint_law(counting, [Group(cells, rng.integers(4, size=n).astype(float))], theta)
        total(theta)
        sizes[n] = asked[-1], summed(law, Group(clip, rng.uniform(20, 80, n)), theta).points.size
    assert sizes[20_000][0] == sizes[2000][0] == 4
    assert sizes[20_000][1] <= 100 >= sizes[2000][1]
