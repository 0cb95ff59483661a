"""Levels and several columns: one question about one column to each person, and the design picks the column."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats
from surveys import NORMAL

import noisewise as nw
from noisewise.errors import BudgetExceeded, InvalidArgument, Unsupported
from noisewise.online.simulate import simulated_answer, simulated_person

REGION = nw.Categorical(p=stats.dirichlet([1, 1, 1]))
LEVELS = ["north", "south", "west"]
BOTH = nw.Joint(income=NORMAL, region=REGION)


def person(rng):
    return {"income": float(rng.normal(50, 20)), "region": float(rng.choice(3, p=[0.6, 0.3, 0.1]))}


def joint(**given):
    known = {"guarantee": nw.PureDP(2), "levels": {"region": LEVELS}, "n_particles": 200, "seed": 1}
    return nw.Survey(BOTH, **{**known, **given})


def asked(survey, n, rng):
    return [survey.answer(simulated_person(rng, survey.query(), person(rng))) for _ in range(n)]


def test_shares_of_levels_are_those_of_a_grid(rng):
    """Against quadrature over the simplex of two levels: p has a known one-dimensional posterior."""
    survey = nw.Survey(nw.Categorical(p=stats.dirichlet([2, 1])), guarantee=nw.PureDP(1), levels=["yes", "no"], seed=1)
    counts = np.zeros(2)
    for _ in range(60):
        answer = simulated_answer(rng, survey.query(), float(rng.random() < 0.3))
        survey.answer(answer)
        counts[answer.value] += 1
    p = (np.arange(4000) + 0.5) / 4000
    keep = np.e / (1 + np.e)
    yes = keep * p + (1 - keep) * (1 - p)
    weight = stats.beta(2, 1).pdf(p) * yes ** counts[0] * (1 - yes) ** counts[1]
    weight /= weight.sum()
    mean = weight @ p
    sd = np.sqrt(weight @ (p - mean) ** 2)
    assert survey.mean["p[yes]"] == pytest.approx(mean, abs=0.25 * sd)  # 1000 particles: eight standard errors
    assert survey.sd["p[yes]"] == pytest.approx(sd, rel=0.25)
    assert survey.mean["p[yes]"] + survey.mean["p[no]"] == pytest.approx(1)


def test_everyone_is_asked_about_one_column_and_each_column_is_learnt(rng, tmp_path):
    survey = joint()
    asked(survey, 400, rng)
    columns = Counter(event.question.column for event in survey.log if event.kind == "asked")
    assert set(columns) == {"income", "region"}
    assert min(columns.values()) > 60  # neither is forgotten
    assert abs(survey.mean["income.mean"] - 50) < 6 * survey.sd["income.mean"]
    assert abs(survey.mean["region.p[north]"] - 0.6) < 6 * survey.sd["region.p[north]"]
    assert list(survey.mean) == ["income.mean", "income.sd", *(f"region.p[{level}]" for level in LEVELS)]
    survey.save(tmp_path / "s")
    again = nw.Survey.load(tmp_path / "s")
    assert again.mean == survey.mean == survey.replay().mean
    first, second = again.ask(), survey.ask()
    assert (first.column, first.edges, first.levels) == (second.column, second.edges, second.levels)
    assert survey.posterior().draws["region.p"].shape == (1, 200, 3)
    assert survey.forecast("90 % interval of the income.mean below 1") > 100
    with pytest.raises(InvalidArgument, match="a number this survey learns"):
        survey.forecast("90 % interval of the region.p below 1")
    assert len(survey._state.wide) == 1  # the levels have no wide question


def test_columns_are_learnt_as_if_each_had_a_survey_of_its_own(rng):
    """Answers about one column tell nothing of another: evidence is the product, the marginal is the same."""
    fixed = [nw.Query.cells([40, 60], guarantee=nw.PureDP(2), column="income")]
    both = joint(queries=fixed, n_particles=2000, explore=0)
    income = nw.Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=2000, seed=2,
                       queries=nw.Query.cells([40, 60], guarantee=nw.PureDP(2)))  # fmt: skip
    region = nw.Survey(REGION, guarantee=nw.PureDP(2), levels=LEVELS, n_particles=2000, seed=3)
    for _ in range(120):
        query = both.query()
        answer = simulated_person(rng, query, person(rng))
        both.answer(answer)
        other = income if query.column == "income" else region
        other.answer(other.query(), answer.value)
    assert income.answers > 10 < region.answers
    apart = income.log_evidence + region.log_evidence
    assert both.log_evidence == pytest.approx(apart, abs=0.6)
    assert both.mean["income.mean"] == pytest.approx(income.mean["mean"], abs=0.5 * income.sd["mean"])
    assert both.mean["region.p[west]"] == pytest.approx(region.mean["p[west]"], abs=0.5 * region.sd["p[west]"])


def test_weights_decide_which_column_is_asked_about(rng):
    for weights, only in (({"income.mean": 1}, "income"), ({"region.p": 1}, "region")):
        survey = joint(score=weights, explore=0, n_particles=100)
        asked(survey, 40, rng)
        assert {event.question.column for event in survey.log if event.kind == "asked"} == {only}
    with pytest.raises(InvalidArgument, match="weighs 'mean'"):
        joint(score={"mean": 1})
    for score in ("trace", "location", "harmonic", np.multiply):
        with pytest.raises(Unsupported, match="one column"):
            joint(score=score)


def test_a_release_of_several_columns_is_learnt_by_infer(rng, tmp_path):
    from noisewise.survey_release import SurveyRelease

    survey = joint(queries=("sign", "cells"), n_particles=500)
    answers: dict[nw.Query, list[int]] = {}
    for _ in range(150):
        answer = simulated_person(rng, survey.query(), person(rng))
        survey.answer(answer)
        question = nw.Query.from_dict({**answer.query.to_dict(), "id": None})
        answers.setdefault(question, []).append(answer.value)
    SurveyRelease.of("s", answers, simulated=True).save(tmp_path / "r.json")
    loaded = SurveyRelease.load(tmp_path / "r.json")
    assert loaded.answers == 150
    law = nw.likelihood_of(loaded, BOTH)
    engine = survey._engine
    theta = engine.target.parameters(engine.begin().particles.position[:5])
    past = engine._past(survey._state, lambda found: found)
    gap = law.log_likelihood(theta) - past(engine.target.position(theta))
    np.testing.assert_allclose(gap, gap[0], atol=1e-6)  # counts of cells have a constant more than single answers


def test_a_choice_is_answered_on_the_device_by_its_level(rng):
    query = nw.Query.choice(LEVELS, guarantee=nw.PureDP(1), id="a", column="region")
    assert nw.Query.from_dict(query.to_dict()) == query
    assert "levels=('north', 'south', 'west'), column='region'" in repr(query)
    counts = Counter(nw.respond(query, "south", cap=nw.PureDP(1)).value for _ in range(3000))
    keep = np.e / (np.e + 2)
    expected = 3000 * np.array([(1 - keep) / 2, keep, (1 - keep) / 2])
    assert stats.chisquare([counts[k] for k in range(3)], expected).pvalue > 1e-6
    with pytest.raises(BudgetExceeded):
        nw.respond(query, "south", cap=nw.PureDP("0.5"))
    for wrong in ("secret place", 1.5, None, True):
        with pytest.raises(InvalidArgument) as error:
            nw.respond(query, wrong, cap=nw.PureDP(1))
        assert error.value.argument == "x"
        assert "secret" not in str(error.value)
    me = nw.Respondent(cap=nw.PureDP(1))
    first = me.respond(query, "west")
    assert me.respond(query, "north") == first  # stored
    for other in (nw.Query.choice(LEVELS[::-1], guarantee=nw.PureDP(1), id="a", column="region"),
                  nw.Query.choice(LEVELS, guarantee=nw.PureDP(1), id="a", column="canton")):  # fmt: skip
        with pytest.raises(InvalidArgument, match="another question"):
            me.respond(other, "west")


def test_queries_and_settings_that_do_not_fit_are_refused():
    for wrong in ({"levels": LEVELS, "edges": [1]}, {"levels": LEVELS, "low": 0, "high": 1}, {"levels": ["a"]},
                  {"levels": LEVELS, "column": ""}, {"levels": LEVELS, "column": ["a"]},
                  {"levels": "abc"}):  # fmt: skip
        with pytest.raises(InvalidArgument):
            nw.Query(guarantee=nw.PureDP(1), **wrong)
    with pytest.raises(InvalidArgument, match="has no levels"):
        nw.Survey(NORMAL, guarantee=nw.PureDP(1), levels=["a", "b"])
    with pytest.raises(InvalidArgument, match="2 names"):
        nw.Survey(REGION, guarantee=nw.PureDP(1), levels=["a", "b"])
    with pytest.raises(InvalidArgument, match="by column"):
        joint(levels=LEVELS)
    with pytest.raises(InvalidArgument, match="'canton'"):
        joint(levels={"canton": LEVELS})
    with pytest.raises(Unsupported, match="PureDP"):
        nw.Survey(REGION, guarantee=nw.GaussianDP(1))
    for query in (nw.Query.cells([1], guarantee=nw.PureDP(2)), nw.Query.cells([1], guarantee=nw.PureDP(2), column="a"),
                  nw.Query.choice(LEVELS, guarantee=nw.PureDP(2), column="income"),
                  nw.Query.choice(["a", "b", "c"], guarantee=nw.PureDP(2), column="region")):  # fmt: skip
        with pytest.raises(InvalidArgument) as error:
            joint(queries=query)
        assert error.value.argument == "queries"
    assert nw.Survey(REGION, guarantee=nw.PureDP(1)).query().levels == (0, 1, 2)
    with pytest.raises(InvalidArgument, match="nothing to ask"):
        nw.Survey(nw.Joint(a=nw.Normal(mean=0, sd=1)), guarantee=nw.PureDP(1))


def test_a_column_of_which_all_is_known_is_never_asked_about(rng):
    known = nw.Joint(a=nw.Normal(mean=0, sd=1), b=nw.Bernoulli(p=stats.beta(1, 1)))
    survey = nw.Survey(known, guarantee=nw.PureDP(1), n_particles=50)
    for _ in range(20):
        query = survey.query()
        assert query.column == "b"
        survey.answer(simulated_person(rng, query, {"b": 1.0}))


def test_populations_of_several_columns_are_compared(rng):
    survey = joint()
    asked(survey, 80, rng)
    other = nw.Joint(income=nw.Normal(mean=stats.norm(500, 1), sd=10), region=REGION)
    found = survey.compare({"here": BOTH, "far": other}, n_particles=100, seed=1)
    assert found.ranking == ["here", "far"]
