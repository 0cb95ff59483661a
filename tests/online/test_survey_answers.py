"""Answers to a survey that are late, lost, twice, strange: each counts once, and only where it was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from surveys import NORMAL, income

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.online.asked import asked_of
from noisewise.online.simulate import simulated_answer
from noisewise.online.survey import Survey


def test_the_order_of_answers_does_not_matter_and_lost_ones_are_as_if_never_asked():
    fixed = nw.Query.clip(20, 80, guarantee=nw.PureDP(3))
    found = []
    for order in (1, -1):
        survey = Survey(NORMAL, guarantee=nw.PureDP(3), queries=fixed, n_particles=3000, seed=8)
        asked = [survey.query() for _ in range(60)]
        answers = [simulated_answer(np.random.default_rng([9, k]), query, income(np.random.default_rng([10, k])))
                   for k, query in enumerate(asked[:50])][::order]  # fmt: skip
        for answer in answers:
            survey.answer(answer)
        assert survey.waiting == 10
        found.append((survey.mean, survey.sd, survey.log_evidence))
    assert found[0][0]["mean"] == pytest.approx(found[1][0]["mean"], abs=0.15 * found[0][1]["mean"])
    assert found[0][2] == pytest.approx(found[1][2], abs=0.3)


def test_an_answer_counts_once():
    survey = Survey(NORMAL, guarantee=nw.PureDP(1), n_particles=200, seed=11)
    rng = np.random.default_rng(12)
    first = simulated_answer(rng, survey.query(), 40.0)
    assert survey.answer(first).is_counted
    mean, evidence = survey.mean, survey.log_evidence
    again = survey.answer(first)
    assert not again.is_counted
    assert "before" in again.reason
    other = nw.Answer(first.query, 1 - first.value if first.query.edges else first.value + 1)
    assert not survey.answer(other).is_counted  # the first answer stays
    assert (survey.mean, survey.log_evidence, survey.answers, survey.repeated) == (mean, evidence, 1, 2)


def strangers(survey, query):
    """Answers that this survey cannot have received."""
    guarantee = nw.PureDP(1)
    name = survey.name
    return {
        "no id": (nw.Query.cells([3], guarantee=guarantee), 0),
        "another survey's": (nw.Query.cells([3], guarantee=guarantee, id="abc-0"), 0),
        "never issued": (nw.Query.cells([3], guarantee=guarantee, id=f"{name}-99"), 0),
        "odd number": (nw.Query.cells([3], guarantee=guarantee, id=f"{name}-00"), 0),
        "negative": (nw.Query.cells([3], guarantee=guarantee, id=f"{name}--1"), 0),
        "another question": (nw.Query.cells([3.25], guarantee=guarantee, id=query.id), 0),
        "another law": (
            nw.Query(guarantee=nw.PureDP(9), low=query.low, high=query.high, edges=query.edges, id=query.id),
            0,
        ),
        "no cell": (query, 7),
        "negative cell": (query, -1),
        "half a cell": (query, 0.5),
        "true": (query, True),
        "nothing": (query, None),
        "text": (query, "1"),
        "no query": ("query", 1),
        "a number": (3, 1),
    }


def test_what_was_not_asked_or_cannot_be_answered_is_refused_and_teaches_nothing():
    survey = Survey(NORMAL, guarantee=nw.PureDP(1), queries="sign", n_particles=200, seed=13)
    query = survey.query()
    mean = survey.mean
    cases = strangers(survey, query)
    for case, (asked, value) in cases.items():
        with pytest.raises(InvalidArgument):
            survey.answer(asked, value)
        assert survey.mean == mean, case
    assert survey.refused == len(cases)
    assert survey.answers == 0
    assert survey.answer(query, 1).is_counted  # and the query itself is still open


@pytest.mark.parametrize("value", [0.5, 2**70, None, "1", True], ids=repr)
def test_a_clipped_answer_off_its_lattice_is_refused(value):
    survey = Survey(NORMAL, guarantee=nw.PureDP(1), queries="clip", n_particles=100, seed=14)
    query = survey.query()
    with pytest.raises(InvalidArgument):
        survey.answer(query, value)
    assert survey.refused == 1


@pytest.mark.parametrize(
    ("guarantee", "reach"), [(nw.PureDP(1), 900), (nw.GaussianDP(1), 40)], ids=["laplace", "gaussian"]
)
def test_an_answer_far_out_is_counted_while_its_noise_can_reach_it_and_refused_beyond(guarantee, reach):
    survey = Survey(NORMAL, guarantee=guarantee, queries="clip", n_particles=200, seed=15)
    for side in (-1, 1):
        query = survey.query()
        asked = asked_of(query)
        end = asked.high if side > 0 else asked.low
        for beyond in (2**62, int((abs(end) + 3 * reach * asked.noise) / asked.step)):
            with pytest.raises(InvalidArgument, match="noise"):
                survey.answer(query, side * beyond)
        assert survey.answer(query, int((end + side * reach * asked.noise) / asked.step)).is_counted
    assert survey.refused == 4
    assert np.isfinite(list(survey.mean.values())).all()
    assert np.isfinite(survey.log_evidence)


def test_surveys_that_differ_in_anything_do_not_take_each_other_s_answers():
    def survey(population=NORMAL, epsilon=2, **options):
        return Survey(population, guarantee=nw.PureDP(epsilon), **{"n_particles": 50, "seed": 7, **options})

    wider = nw.Normal(mean=stats.norm(50, 51), sd=stats.halfnorm(scale=50))
    named = [survey(), survey(wider), survey(epsilon=1), survey(queries="sign"), survey(score="harmonic"),
             survey(n_particles=51), survey(seed=8), survey(seed=None), survey(seed=None),
             survey(queries=nw.Query.clip(0, 1, guarantee=nw.PureDP(2))),
             survey(nw.Poisson(rate=stats.gamma(3)))]  # fmt: skip
    assert len({one.name for one in named}) == len(named)
    with pytest.raises(InvalidArgument, match="not asked by this survey"):
        named[0].answer(named[1].query(), 0)
    assert survey().name == named[0].name  # the same seed and the same everything is the same survey


def test_a_second_answer_to_an_edited_question_is_refused_not_called_a_repetition():
    survey = Survey(NORMAL, guarantee=nw.PureDP(1), queries="sign", n_particles=50, seed=32)
    query = survey.query()
    survey.answer(query, 1)
    for edited in (
        nw.Query.cells([7.25], guarantee=nw.PureDP(1), id=query.id),
        nw.Query.clip(0, 1, guarantee=nw.PureDP(9), id=query.id),
    ):
        with pytest.raises(InvalidArgument, match="not as this survey asked it"):
            survey.answer(edited, 0)
    with pytest.raises(InvalidArgument, match="value"):
        survey.answer(query, "1")
    assert not survey.answer(query, 0).is_counted
    assert (survey.refused, survey.repeated) == (3, 1)


def test_what_needs_a_release_says_that_a_survey_has_none():
    posterior = nw.Survey(nw.Bernoulli(p=stats.beta(1, 1)), guarantee=nw.PureDP(1), seed=1).posterior()
    with pytest.raises(Unsupported, match="no release"):
        _ = posterior.statistic
    with pytest.raises(Unsupported, match="no release"):
        _ = posterior.check
