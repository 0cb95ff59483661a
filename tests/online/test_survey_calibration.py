"""Surveys are calibrated: simulated truths rank uniformly among the particles, and a wrong law is caught."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.online import engine as engine_module
from noisewise.online.asked import Asked, asked_of
from noisewise.online.simulate import simulated_answer
from noisewise.online.survey import Survey

ALARM = 1e-6
WORLDS = {
    "exponential": (nw.Exponential(rate=stats.gamma(3, scale=0.5)), nw.PureDP(2), "auto"),
    "exponential, gaussian noise": (nw.Exponential(rate=stats.gamma(3, scale=0.5)), nw.GaussianDP(1), "auto"),
    "bernoulli": (nw.Bernoulli(p=stats.beta(1, 1)), nw.PureDP(1), "auto"),
    "student-t": (nw.LocationScale(stats.t(5), loc=stats.norm(0, 3), scale=stats.gamma(4, scale=0.4)), nw.PureDP(3),
                  ("sign", "cells")),
    "normal": (nw.Normal(mean=stats.norm(0, 3), sd=stats.gamma(4, scale=0.4)), nw.PureDP(3), "clip"),
    "poisson": (nw.Poisson(rate=stats.gamma(4)), nw.PureDP(2), "auto"),
    "student-t, clipped": (nw.LocationScale(stats.t(5), loc=stats.norm(0, 3), scale=stats.gamma(4, scale=0.4)),
                           nw.PureDP(3), "clip"),
    "laplace, clipped": (nw.LocationScale(stats.laplace, loc=stats.norm(0, 3), scale=stats.gamma(4, scale=0.4)),
                         nw.PureDP(3), "clip"),
}  # fmt: skip
FAST = ("exponential", "bernoulli", "student-t", "normal")


def smallest_p_value(name, trials, n, particles, seed, queries=None):
    """The smallest p-value, times their number, of tests that ranks are uniform and as spread as uniform ones."""
    population, guarantee, families = WORLDS[name]
    rows = []
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        truth = population.sample_prior(rng, 1)
        survey = Survey(
            population,
            guarantee=guarantee,
            queries=queries or families,
            n_particles=particles,
            seed=int(rng.integers(2**31)),
        )
        for x in population.sample(rng, n, truth)[0]:
            survey.answer(simulated_answer(rng, survey.query(), float(x)))
        posterior = survey.posterior()
        below = [np.mean(posterior.draws[key] < truth[key][0]) for key in population.free]
        rows.append([(share * particles + rng.random()) / (particles + 1) for share in below])
    columns = np.array(rows).T
    found = [stats.kstest(values, "uniform").pvalue for column in columns for values in (column, abs(2 * column - 1))]
    return min(found) * len(found)


@pytest.mark.parametrize("name", FAST)
def test_a_small_survey_is_calibrated(name):
    assert smallest_p_value(name, trials=20, n=25, particles=150, seed=100) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_a_survey_is_calibrated(name):
    assert smallest_p_value(name, trials=300, n=80, particles=400, seed=200) > ALARM


def test_a_survey_that_overlooks_the_noise_is_caught(monkeypatch):
    """Planted: answers are scored as if hardly anyone lied."""

    def credulous(query):
        asked = asked_of(query)
        return Asked(edges=asked.edges, keep=0.98, other=0.02)

    monkeypatch.setattr(engine_module, "asked_of", credulous)
    monkeypatch.setattr(engine_module, "asked_by", lambda question: credulous(question.query()))
    assert smallest_p_value("bernoulli", trials=40, n=80, particles=100, seed=300, queries="sign") < ALARM
