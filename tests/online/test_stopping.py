"""When to stop: the rule in words, the interval by its definition, and a forecast that comes about."""

from __future__ import annotations

import numpy as np
import pytest
from collecting import generator, new_store, sqlite_path, visit
from scipy import stats
from surveys import NORMAL, income, people

import noisewise as nw
from noisewise.collector.desk import Desk
from noisewise.collector.learner import Learner
from noisewise.errors import InvalidArgument, SurveyError
from noisewise.online.stopping import Stop, forecast


def test_a_rule_is_read_from_its_words():
    rule = Stop.read("90 % interval of the mean below 2")
    assert rule == Stop("mean", 2, 0.9)
    assert Stop.read(str(rule)) == rule
    assert Stop.read("95% interval of sd below 0.5") == Stop("sd", 0.5, 0.95)
    for wrong in ("soon", "90 % interval of the mean below zero", "0 % interval of the mean below 2", "",
                  "100 % interval of the mean below 2", "90 % interval of the mean below -1"):  # fmt: skip
        with pytest.raises(InvalidArgument):
            Stop.read(wrong)
    with pytest.raises(InvalidArgument, match="mean, sd"):
        nw.Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=50).forecast("90 % interval of the median below 2")


def test_the_width_is_that_of_the_posterior_s_interval(rng):
    survey = nw.Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=4000)
    people(survey, 40, rng, income)
    low, high = np.quantile(survey.posterior().draws["mean"], [0.05, 0.95])
    assert Stop("mean", 2).width_of(survey._engine, survey._state) == pytest.approx(high - low, rel=0.03)


def test_a_forecast_for_a_fixed_question_is_that_of_the_closed_formula(rng):
    """A yes/no population under randomized response: one answer has the information g^2 / (q (1 - q))."""
    query = nw.Query.cells([0.5], guarantee=nw.PureDP(2))
    survey = nw.Survey(nw.Bernoulli(p=stats.beta(1, 1)), guarantee=nw.PureDP(2), queries=query, n_particles=4000)
    people(survey, 400, rng, lambda rng: float(rng.random() < 0.4))
    keep = float(query.law.keep)
    p, sd = survey.mean["p"], survey.sd["p"]
    q = (1 - keep) + (2 * keep - 1) * p
    each = (2 * keep - 1) ** 2 / (q * (1 - q))
    width = Stop("p", 1).width_of(survey._engine, survey._state)
    expected = (4 - 1) / (sd**2 * each)  # half the width: four times the information
    assert survey.forecast(f"90 % interval of the p below {width / 2}") == pytest.approx(expected, rel=0.1)
    assert survey.forecast(f"90 % interval of the p below {2 * width}") == 0


def test_a_forecast_of_an_adaptive_survey_comes_about(rng):
    """Within a factor of two, which is what a forecast is for."""
    survey = nw.Survey(NORMAL, guarantee=nw.PureDP(3), n_particles=500)
    people(survey, 150, rng, income)
    stop = Stop("mean", Stop("mean", 1).width_of(survey._engine, survey._state) / 2)
    more = forecast(survey._engine, survey._state, stop)
    people(survey, 2 * more, rng, income)
    assert stop.width_of(survey._engine, survey._state) < 1.15 * stop.width
    assert 150 < more < 1500


def test_a_learner_closes_the_survey_when_its_rule_is_met(tmp_path):
    stop = Stop("mean", 40)
    learner = Learner(new_store(sqlite_path(tmp_path), n_particles=200), stop=stop)
    learner.step()
    with Desk(learner.store) as desk:
        for k in range(1000):
            if learner.store.standing().is_closed:
                break
            visit(desk, generator(7, k))
            learner.step()
        with pytest.raises(SurveyError, match="closed"):
            desk.ask()
        assert stop.is_met(learner.engine, learner.state)
    assert learner.store.standing().is_closed
    assert 0 < learner.state.answers < 1000
