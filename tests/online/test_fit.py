"""The fit of a survey's population, checked on a wide question that was fixed early: its level, and its power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from surveys import NORMAL, income, people

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.online.fit import LEVEL, FitCheck


def survey(**given):
    return nw.Survey(NORMAL, guarantee=nw.PureDP(2), **{"n_particles": 100, "seed": 1, "explore": 0.1, **given})


def test_one_person_in_ten_gets_the_same_wide_question_once_fifty_have_answered(rng, tmp_path):
    one = survey()
    answers = people(one, 260, rng, income)
    (question,) = one._state.wide
    wide = question.edges
    assert len(wide) == 5
    exploring = [number for number, answer in enumerate(answers) if answer.query.edges == wide]
    assert exploring == list(range(59, 260, 10))
    # Its edges are the quantiles of the fitted population: most people are not in one cell.
    share = np.diff(stats.norm.cdf([-np.inf, *wide, np.inf], 50, 20))
    assert share.max() < 0.6
    one.save(tmp_path / "s")
    again = nw.Survey.load(tmp_path / "s")
    assert again._state.wide == (question,)
    assert again.explore == 0.1
    assert one.replay()._state.wide == (question,)
    assert str(again.fit) == str(one.fit)
    assert "cannot be checked" in str(one.fit)  # 21 are too few
    assert not one.fit.is_surprising


def test_the_counts_and_expectations_are_those_of_the_exploring_answers(rng):
    one = survey(explore=0.5, n_particles=400)
    answers = people(one, 150, rng, income)
    fit = one.fit
    values = [answer.value for answer in answers if answer.query.edges == fit.edges]
    assert fit.counts == tuple(values.count(cell) for cell in range(6))
    keep = float(nw.Query.cells(fit.edges, guarantee=nw.PureDP(2)).law.keep)
    draws = one.posterior().draws
    ends = np.array([-np.inf, *fit.edges, np.inf])
    mass = np.diff(stats.norm.cdf(ends[:, None], draws["mean"][0], draws["sd"][0]), axis=0).mean(axis=1)
    expected = len(values) * ((1 - keep) / 5 + (keep - (1 - keep) / 5) * mass)
    np.testing.assert_allclose(fit.expected, expected, rtol=0.03)
    assert 0 < fit.tail <= 1


def test_people_with_two_ends_and_no_middle_are_noticed(rng):
    """Half at 0, half at 100: no normal population. One survey; a misfit this large is missed less than 1e-6 often."""
    one = survey(explore=0.5, n_particles=200)
    people(one, 600, rng, lambda rng: 100.0 * (rng.random() < 0.5))
    assert one.fit.is_surprising
    assert "does not describe" in str(one.fit)
    assert one.fit.tail < 1e-3


def surveyed(rng, draw, n):
    one = nw.Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=300)
    people(one, n, rng, draw)
    return one


@pytest.mark.slow
def test_false_alarms_have_their_level(rng):
    """200 honest surveys with the default share of exploring people; the alarms of a check that has its level are few,
    and tails are not crowded anywhere."""
    found = np.array([surveyed(rng, income, 600).fit.tail for _ in range(200)])
    alarms = int((found < LEVEL).sum())
    assert stats.binomtest(alarms, 200, LEVEL, alternative="greater").pvalue > 1e-6
    assert stats.kstest(found, "uniform").pvalue > 1e-6


@pytest.mark.slow
def test_skewed_incomes_under_a_normal_are_flagged_and_the_log_normal_wins(rng):
    flagged = won = 0
    other = nw.LogNormal(log_mean=stats.norm(3.5, 1), log_sd=stats.halfnorm(scale=1))
    for _ in range(50):
        one = surveyed(rng, lambda rng: rng.lognormal(3.5, 0.8), 2000)
        flagged += one.fit.is_surprising
        won += one.compare({"normal": NORMAL, "log-normal": other}, n_particles=200).ranking[0] == "log-normal"
    # 11 of 15 were flagged when this was written, and the log-normal won 10 of 10; at a power of .73 fewer than 20 of
    # 50 flagged come less than once in a million runs. A blind check would flag one in twenty.
    assert flagged >= 20
    assert won >= 40


def test_a_check_without_anything_to_check_says_so():
    assert "cannot be checked yet: that takes answers to a fixed wide question" in str(survey(explore=0).fit)
    few, narrow = FitCheck((0.0, 1.0), (3, 4, 5), (), None), FitCheck((0.0,), (30, 40), (), None)
    assert str(few) == "The fit cannot be checked yet: 12 of the 30 answers to a fixed wide question came."
    assert "has 2 cells, which is too few" in str(narrow)
    assert FitCheck((0.0,), (3, 4), (), None).is_surprising is False


def test_exploring_needs_cells_and_a_share():
    with pytest.raises(Unsupported, match="PureDP"):
        nw.Survey(NORMAL, guarantee=nw.GaussianDP(1), explore=0.1)
    for wrong in (-0.1, 0.7, "many", True, float("nan")):
        with pytest.raises(InvalidArgument) as error:
            survey(explore=wrong)
        assert error.value.argument == "explore"
    assert survey(explore=0).name != survey().name


def test_one_in_ten_explores_unless_questions_about_cells_are_not_wanted():
    """The default of the contract; who names families without cells, or a fixed question, is asked those alone."""
    assert nw.Survey(NORMAL, guarantee=nw.PureDP(2)).explore == 0.1
    assert nw.Survey(NORMAL, guarantee=nw.PureDP(2), queries=("clip", "cells")).explore == 0.1
    fixed = nw.Query.cells([40, 60], guarantee=nw.PureDP(2))
    for queries in ("clip", ("clip", "sign"), fixed):
        assert nw.Survey(NORMAL, guarantee=nw.PureDP(2), queries=queries).explore == 0
    assert nw.Survey(NORMAL, guarantee=nw.GaussianDP(1)).explore == 0


def test_a_discrete_population_is_asked_between_its_values(rng):
    one = nw.Survey(nw.Poisson(rate=stats.gamma(5)), guarantee=nw.PureDP(3), n_particles=100, explore=0.3)
    people(one, 80, rng, lambda rng: float(rng.poisson(4)))
    assert all(edge % 1 == 0.5 for edge in one._state.wide[0].edges)
