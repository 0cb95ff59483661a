"""A survey is a function of its log: the same lines, the same posterior, whoever asks and answers from which thread."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from surveys import NORMAL, income, people

import noisewise as nw
from noisewise.errors import InvalidArgument, SurveyError, Unsupported
from noisewise.online.asked import question_of
from noisewise.online.engine import Engine, Settings
from noisewise.online.log import Event, Log
from noisewise.online.simulate import simulated_answer

GOLDEN = Path(__file__).parent.parent / "golden" / "survey-1.npz"


def survey(**given):
    return nw.Survey(NORMAL, guarantee=nw.PureDP(2), **{"n_particles": 100, "seed": 1, **given})


def bits(one):
    """Everything a posterior consists of, as bytes."""
    state = one._state
    arrays = (state.particles.position, state.particles.log_weight, state.particles.log_likelihood)
    numbers = (state.log_evidence, state.acceptance, state.answers, state.rejuvenations)
    return [array.tobytes() for array in arrays], repr(numbers)


@pytest.mark.parametrize("seed", [1, None])
def test_a_replay_of_the_log_gives_the_same_posterior_bit_for_bit(seed, rng, tmp_path):
    one = survey(seed=seed)
    ahead = [one.ask() for _ in range(7)]
    people(one, 40, rng, income)
    while one.rejuvenations < 2:  # so that generators are drawn from
        people(one, 10, rng, income)
    for query in reversed(ahead[:5]):
        one.learn(simulated_answer(rng, query, income(rng)))
    one.expire(ahead[5].id)
    one.withdraw(ahead[6].id)
    again = one.replay()
    assert bits(again) == bits(one)
    assert again.log == one.log
    assert again.ask() == one.ask()
    one.save(tmp_path / "s")
    loaded = nw.Survey.load(tmp_path / "s")
    assert loaded.log == one.log
    assert bits(loaded.replay()) == bits(one)


def test_the_posterior_depends_on_the_answers_and_their_order_and_not_on_what_was_asked_in_between(rng):
    settings = Settings.checked(NORMAL, nw.PureDP(2), "auto", "logdet", 100)
    engine = Engine(settings, 3)
    state = engine.begin()
    given = []
    for number in range(40):
        query = nw.Query.cells([40, 60], guarantee=nw.PureDP(2))
        given.append((question_of(query), simulated_answer(rng, query, income(rng)).value))
        before = state.particles.position.copy(), state.particles.log_weight.copy(), dict(state.answered)
        after = engine.step(state, *given[-1])
        assert np.array_equal(state.particles.position, before[0])  # a step changes nothing that it was given
        assert np.array_equal(state.particles.log_weight, before[1])
        assert dict(state.answered) == before[2]
        state = after
        engine.question(state, 1000 + number)
    other = Engine(settings, 3)
    plain = other.begin()
    for question, value in given:
        plain = other.step(plain, question, value)
    assert plain.particles.position.tobytes() == state.particles.position.tobytes()
    assert plain.log_evidence == state.log_evidence


def test_a_part_of_a_log_gives_the_posterior_of_that_part(rng):
    one = survey()
    people(one, 30, rng, income)
    evidence = one.log_evidence
    before = one.log
    people(one, 10, rng, income)
    assert one.log[: len(before)] == before  # nothing that was written is ever changed
    assert one.replay(before).log_evidence == evidence


def test_eight_threads_ask_and_answer_and_nothing_is_lost():
    one, each, ids, problems = survey(n_particles=20), 50, [], []

    def work(place):
        rng = np.random.default_rng([4, place])
        try:
            for _ in range(each):
                query = one.ask()
                ids.append(query.id)
                assert one.learn(simulated_answer(rng, query, income(rng))).is_counted
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(set(ids)) == one.issued == one.answers == 8 * each
    assert one.waiting == one.refused == one.repeated == 0
    assert bits(one.replay()) == bits(one)


def test_an_expired_query_is_not_waited_for_and_its_answer_counts_until_the_survey_is_closed(rng):
    one = survey()
    first, second, third = one.ask(), one.ask(), one.ask()
    one.expire(first.id, second.id)
    one.expire(first.id)  # again: nothing happens
    assert one.waiting == 1
    assert one.learn(first, 0).is_counted
    assert not one.learn(first, 1).is_counted
    with pytest.raises(SurveyError, match="learnt"):
        one.expire(first.id)
    one.close()
    for late in (second, third):
        with pytest.raises(SurveyError, match="closed after 1 answers"):
            one.learn(late, 0)
    assert not one.learn(first, 0).is_counted  # a repeat is still told that it counts
    with pytest.raises(SurveyError, match="asks nobody"):
        one.ask()
    one.close()
    assert one.is_closed
    assert "closed" in repr(one)
    assert [event.kind for event in one.log] == [*["asked"] * 3, "expired", "expired", "answered", "closed"]


def test_a_withdrawn_query_is_refused_and_an_answered_one_cannot_be_withdrawn():
    one = survey()
    first, second = one.ask(), one.ask()
    one.withdraw(first.id)
    assert one.waiting == 1
    with pytest.raises(SurveyError, match="withdrawn"):
        one.learn(first, 0)
    one.learn(second, 0)
    with pytest.raises(SurveyError, match="stays learnt"):
        one.withdraw(second.id)
    for strange in ("nobody-3", None, 7):
        with pytest.raises(InvalidArgument, match="not asked by this survey"):
            one.withdraw(strange)
    assert one.refused == 1
    assert one.answers == 1


def test_what_became_of_queries_survives_the_file(tmp_path):
    one = survey()
    first, second, third = one.ask(), one.ask(), one.ask()
    one.expire(first.id)
    one.withdraw(second.id)
    one.learn(third, 0)
    one.save(tmp_path / "s")
    again = nw.Survey.load(tmp_path / "s")
    assert again.waiting == 0
    assert again.learn(first, 0).is_counted
    with pytest.raises(SurveyError, match="withdrawn"):
        again.learn(second, 0)
    again.close()
    again.save(tmp_path / "t")
    assert nw.Survey.load(tmp_path / "t").is_closed


def test_another_session_s_id_is_not_called_foreign_and_a_foreign_one_is(tmp_path):
    one = survey()
    one.save(tmp_path / "s")
    lost = one.ask()  # asked, and never saved: the file knows of no query at all
    again = nw.Survey.load(tmp_path / "s")
    with pytest.raises(InvalidArgument, match="another copy") as error:
        again.learn(lost, 0)
    assert "not asked by this survey" not in str(error.value)
    foreign = nw.Query.cells([3], guarantee=nw.PureDP(2), id="0123456789ab-0")
    with pytest.raises(InvalidArgument, match="not asked by this survey"):
        again.learn(foreign, 0)


def test_a_file_of_the_first_format_is_read_and_goes_on_without_a_log(tmp_path, rng):
    """Made by the version before logs; the numbers are what that version printed."""
    old = nw.Survey.load(GOLDEN)
    assert old.name == "a0be02c7bb18"
    assert old.mean == {"mean": 43.30598845834394, "sd": 33.28972727077547}
    assert old.sd == {"mean": 15.499561459125248, "sd": 15.117619333220112}
    assert (old.log_evidence, old.answers, old.issued, old.waiting) == (-12.321080875610436, 12, 13, 1)
    out = nw.Query.cells([23.182185645279198, 72.81781435472081], guarantee=nw.PureDP(2), id="a0be02c7bb18-12")
    assert old.learn(out, 1).is_counted
    people(old, 20, rng, income)
    with pytest.raises(Unsupported, match="kept no log"):
        _ = old.log
    old.close()
    old.save(tmp_path / "s")
    again = nw.Survey.load(tmp_path / "s")
    assert bits(again) == bits(old)
    assert again.is_closed
    with pytest.raises(Unsupported, match="kept no log"):
        again.replay()


@pytest.mark.parametrize(
    "lines",
    [
        [("answered", 0)],
        [("asked", 0), ("asked", 0)],
        [("asked", 0), ("answered", 0), ("answered", 0)],
        [("asked", 0), ("answered", 0), ("withdrawn", 0)],
        [("asked", 0), ("withdrawn", 0), ("answered", 0)],
        [("closed", None), ("asked", 0)],
        [("closed", 0)],
        [("asked", None)],
        [("lost", 0)],
    ],
    ids=str,
)
def test_a_log_that_cannot_have_happened_is_refused(lines):
    question = question_of(nw.Query.cells([3], guarantee=nw.PureDP(2)))
    log = Log()
    for kind, number in lines[:-1]:
        log.append(Event(kind, number, question, 0))
    with pytest.raises(SurveyError):
        log.append(Event(*lines[-1], question, 0))
    assert log.lines == lines[:-1]


def test_a_survey_is_not_copied_by_accident():
    import copy

    with pytest.raises(Unsupported, match="ids"):
        copy.deepcopy(survey())


def test_what_is_remembered_between_steps_changes_no_bit(rng):
    """A crowd gives the same answers to few questions: one engine that remembers, beside a new one for each step."""
    settings = nw.Survey(NORMAL, guarantee=nw.PureDP(1), n_particles=60, seed=5)._engine.settings
    first = Engine(settings, 5)
    question = question_of(nw.Query.cells([20.0, 40.0, 60.0], guarantee=nw.PureDP(1)))
    other = question_of(nw.Query.cells([45.0], guarantee=nw.PureDP(1)))
    remembered = fresh = first.begin()
    for _ in range(60):
        asked, cells = (question, 4) if rng.random() < 0.5 else (other, 2)
        value = int(rng.integers(cells))
        remembered = first.step(remembered, asked, value)
        fresh = Engine(settings, 5).step(fresh, asked, value)
    assert remembered.rejuvenations > 0
    assert remembered.particles.position.tobytes() == fresh.particles.position.tobytes()
    assert remembered.particles.log_weight.tobytes() == fresh.particles.log_weight.tobytes()
    assert remembered.log_evidence == fresh.log_evidence
