"""Populations compared by evidence: against quadrature, and the one that people were drawn from wins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from surveys import people

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.online.compare import Comparison

FLAT = nw.Bernoulli(p=stats.beta(1, 1))
SHARP = nw.Bernoulli(p=stats.beta(40, 2))


def test_evidence_is_that_of_quadrature(rng):
    survey = nw.Survey(FLAT, guarantee=nw.PureDP(2), n_particles=2000)
    answers = people(survey, 40, rng, lambda rng: float(rng.random() < 0.3))
    found = survey.compare({"flat": FLAT, "sharp": SHARP}, seed=1)
    p = np.linspace(0, 1, 20_001)
    for name, prior in (("flat", stats.beta(1, 1)), ("sharp", stats.beta(40, 2))):
        log = np.zeros_like(p)
        for answer in answers:
            keep = float(answer.query.law.keep)
            edges, cells = answer.query.edges, len(answer.query.edges) + 1
            other = (1 - keep) / (cells - 1)
            zero, one = (int(np.searchsorted(edges, x, side="right")) for x in (0.0, 1.0))
            mass = (answer.value == zero) * (1 - p) + (answer.value == one) * p
            log += np.log(other + (keep - other) * mass)
        expected = np.log(np.trapezoid(np.exp(log - log.max()) * prior.pdf(p), p)) + log.max()
        assert found.log_evidence[name] == pytest.approx(expected, abs=max(0.3, 6 * found.error[name]))
    assert found.ranking == ["flat", "sharp"]
    assert found.is_settled
    assert sum(found.probability.values()) == pytest.approx(1)
    assert found.answers == 40


def test_skewed_incomes_speak_for_a_log_normal_on_wide_questions(rng):
    wide = nw.Query.cells([10, 20, 30, 45, 70], guarantee=nw.PureDP(4))
    normal = nw.Normal(mean=stats.norm(40, 40), sd=stats.halfnorm(scale=40))
    skewed = nw.LogNormal(log_mean=stats.norm(3, 1), log_sd=stats.halfnorm(scale=1))
    survey = nw.Survey(normal, guarantee=nw.PureDP(4), queries=wide, n_particles=200)
    people(survey, 800, rng, lambda rng: rng.lognormal(3.2, 0.8))
    found = survey.compare({"normal": normal, "log-normal": skewed}, seed=2)
    assert found.ranking[0] == "log-normal"
    assert found.probability["log-normal"] > 0.99
    assert "800 answers" in str(found)


def test_a_race_that_particles_do_not_settle_is_said_to_be_open():
    close = Comparison({"a": -10.0, "b": -10.1}, {"a": 0.1, "b": 0.1}, 5)
    assert not close.is_settled
    assert "not told apart" in str(close)
    assert Comparison({"a": -10.0, "b": -12.0}, {"a": 0.1, "b": 0.1}, 5).is_settled


def test_what_cannot_be_compared_is_refused(rng):
    survey = nw.Survey(FLAT, guarantee=nw.PureDP(2), n_particles=50)
    with pytest.raises(InvalidArgument, match="answers"):
        survey.compare({"flat": FLAT, "sharp": SHARP})
    people(survey, 3, rng, lambda _: 1.0)
    with pytest.raises(InvalidArgument, match="two populations"):
        survey.compare({"flat": FLAT})
    normal = nw.Normal(mean=stats.norm(0, 1), sd=1)
    clipped = nw.Survey(normal, guarantee=nw.PureDP(2), queries="clip", n_particles=50)
    people(clipped, 3, rng, lambda rng: rng.normal())
    skewed = nw.LogNormal(log_mean=stats.norm(0, 1), log_sd=1)
    with pytest.raises(Unsupported, match="no exact law"):
        clipped.compare({"normal": normal, "log-normal": skewed})
