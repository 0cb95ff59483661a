"""Answers by question: one more costs the same whatever came before, and nobody's answers change afterwards."""

from __future__ import annotations

import threading

import pytest

import noisewise as nw
from noisewise.online.answers import Answers
from noisewise.online.asked import question_of
from noisewise.online.engine import Engine, Settings

QUESTIONS = [question_of(nw.Query.cells([edge], guarantee=nw.PureDP(1))) for edge in range(5)]


def by_hand(answers):
    found = {}
    for question, value in answers:
        found.setdefault(question, []).append(value)
    return {question: tuple(values) for question, values in found.items()}


def test_every_state_keeps_its_own_answers_whatever_follows_it(rng):
    """Against plain dictionaries: many continuations of many states, in any order."""
    known = [(Answers(), [])]
    for _ in range(300):
        answers, listed = known[int(rng.integers(len(known)))]
        question, value = QUESTIONS[int(rng.integers(5))], int(rng.integers(2))
        known.append((answers.and_one(question, value), [*listed, (question, value)]))
    for answers, listed in known:
        expected = by_hand(listed)
        assert dict(answers) == expected
        assert list(answers) == list(expected)  # in the order of first answers
        assert (len(answers), answers.count) == (len(expected), len(listed))
        assert answers.in_order() == listed
        assert answers == Answers.of(listed)
        for question in QUESTIONS:
            assert (question in answers) == (question in expected)


def test_a_question_that_only_a_later_state_has_is_not_there():
    first = Answers().and_one(QUESTIONS[0], 1)
    later = first.and_one(QUESTIONS[1], 0)
    assert later[QUESTIONS[1]] == (0,)
    with pytest.raises(KeyError):
        first[QUESTIONS[1]]


def test_steps_share_one_book():
    """A copy for each answer would be another book."""
    answers = [Answers()]
    for value in range(1000):
        answers.append(answers[-1].and_one(QUESTIONS[0], value % 2))
    assert len({id(one._book) for one in answers}) == 1


def test_two_threads_that_go_on_from_one_state_do_not_mix():
    begun = Answers.of([(QUESTIONS[0], 0)])
    found = {}

    def go_on(place):
        mine = begun
        for _ in range(2000):
            mine = mine.and_one(QUESTIONS[1 + place], place)
        found[place] = mine

    threads = [threading.Thread(target=go_on, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in range(4):
        assert dict(found[place]) == {QUESTIONS[0]: (0,), QUESTIONS[1 + place]: (place,) * 2000}


def test_an_engine_that_steps_twice_from_one_state_gives_the_same_twice():
    from scipy import stats

    population = nw.Bernoulli(p=stats.beta(1, 1))
    engine = Engine(Settings.checked(population, nw.PureDP(1), "sign", "logdet", 50), 1)
    state = engine.begin()
    for value in (0, 1, 1):
        state = engine.step(state, QUESTIONS[0], value)
    one, other, again = (engine.step(state, QUESTIONS[0], value) for value in (1, 0, 1))
    assert one.answered == again.answered != other.answered
    assert one.particles.log_weight.tobytes() == again.particles.log_weight.tobytes()
    assert state.answered[QUESTIONS[0]] == (0, 1, 1)
