"""What should not happen to a survey, and does: damage, two learners, strange clocks, late and impossible answers."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from collecting import answered_lines, bits, caught_up, generator, new_store, new_survey, sqlite_path, visit
from scipy import stats

import noisewise as nw
from noisewise.collector.desk import Desk
from noisewise.collector.export import export
from noisewise.collector.learner import Learner, replay
from noisewise.collector.store import create, open_store
from noisewise.errors import InvalidArgument, NoisewiseError, SurveyError

FIXED = nw.Query.cells([40, 60], guarantee=nw.PureDP(2))


def answered(where, n, people, **given):
    learner = Learner(new_store(where, **given), snapshot_every=5)
    learner.step()
    with Desk(learner.store) as desk:
        for k in range(n):
            visit(desk, generator(people, k))
            learner.step()
    return caught_up(learner)


@pytest.mark.parametrize("damage", ["one bit of a particle", "another survey's", "another position's", "unsealed"])
def test_a_snapshot_that_reads_well_and_is_wrong_is_left_aside(damage, tmp_path):
    """Particles that are numbers, only not these: nothing but a digest can tell."""
    learner = answered(sqlite_path(tmp_path), 12, 1)
    store = learner.store
    with store.session() as session:
        (old, _), (last, data) = session.rows("SELECT position, state FROM snapshots ORDER BY position")
        changed = bytearray(data)
        if damage == "one bit of a particle":
            place = data.index(learner_bytes(store, last)) + 3
            changed[place] ^= 1
        elif damage == "another survey's":
            other = answered(sqlite_path(tmp_path), 12, 1, seed=2)
            with other.store.session() as theirs:
                changed = theirs.rows("SELECT state FROM snapshots ORDER BY position DESC")[0][0]
        elif damage == "another position's":
            changed = session.rows("SELECT state FROM snapshots WHERE position = ?", old)[0][0]
        else:
            changed = data[32:]
        session.run("UPDATE snapshots SET state = ? WHERE position = ?", bytes(changed), last)
    again = Learner(open_store(tmp_path / store.where))
    assert again.position == old
    assert bits(caught_up(again).state) == bits(learner.state)


def learner_bytes(store, position):
    """Some bytes of the particles as they were at a position, which stand uncompressed in the snapshot."""
    state = store.engine.begin()
    from noisewise.collector.learner import answers_of

    with store.session() as session:
        for question, value in answers_of(store.lines(session, until=position), {}):
            state = store.engine.step(state, question, value)
    return state.particles.position.tobytes()[:64]


def test_two_learners_at_once_know_the_same_and_spoil_nothing(tmp_path):
    store = new_store(sqlite_path(tmp_path))
    learners = [Learner(store, snapshot_every=7) for _ in range(2)]
    stop = threading.Event()
    following = [threading.Thread(target=learner.run, args=(stop.is_set,)) for learner in learners]
    for thread in following:
        thread.start()
    with Desk(store) as desk:
        seen = [visit(desk, generator(2, k)) for k in range(60)]
    stop.set()
    for thread in following:
        thread.join()
    assert len({query.id for query, _, _ in seen}) == 60
    assert bits(caught_up(learners[0]).state) == bits(caught_up(learners[1]).state)
    assert learners[0].state.answers == len(answered_lines(store)) == 60
    assert bits(caught_up(Learner(open_store(tmp_path / store.where))).state) == bits(learners[0].state)
    assert store.standing().pooled <= 2 * learners[0].pool


def test_a_clock_that_goes_backwards_loses_no_answer(tmp_path, monkeypatch):
    store = new_store(sqlite_path(tmp_path), queries=FIXED)
    learner = Learner(store)
    learner.step()
    now = [1e9]
    monkeypatch.setattr("noisewise.collector.desk.time.time", lambda: now[0])
    with Desk(store) as desk:
        early, late = desk.ask(), None
        now[0] -= 1e6
        late = desk.ask()
        assert desk.expire(older_than=3600) == 0  # the first is from the future
        now[0] += 2e6
        assert desk.expire(older_than=3600) == 2
        assert all(desk.answer(query.id, 1).is_counted for query in (early, late))
    assert caught_up(learner).state.answers == 2


def test_answers_out_of_reach_and_of_strange_kinds_are_refused_and_leave_no_line(tmp_path):
    store = new_store(sqlite_path(tmp_path), queries=nw.Query.clip(0, 100, guarantee=nw.PureDP(2)))
    Learner(store).step()
    with Desk(store) as desk:
        query = desk.ask()
        for wrong in (2**62, -(2**62), 2**200, 1.5, "1", None, True, float("nan"), [1]):
            with pytest.raises(InvalidArgument):
                desk.answer(query.id, wrong)
        assert desk.answer(query.id, 5).is_counted
    assert len(answered_lines(store)) == 1


def test_closing_while_people_answer_splits_them_into_counted_and_refused(tmp_path):
    """Everyone is told the truth: a receipt means a line before the closing, a refusal means none."""
    store = new_store(sqlite_path(tmp_path), queries=FIXED)
    learner = Learner(store, pool=60)
    learner.step()
    counted, refused = [], []

    def answer(query):
        try:
            counted.append((query.id, desk.answer(query.id, 1).receipt))
        except SurveyError as error:
            refused.append(error.fields["reason"])

    with Desk(store) as desk, Desk(store) as other:
        queries = [desk.ask() for _ in range(60)]
        threads = [threading.Thread(target=answer, args=(query,)) for query in queries]
        closing = threading.Thread(target=other.close)
        for place, thread in enumerate(threads):
            thread.start()
            if place == 30:
                closing.start()
        for thread in (*threads, closing):
            thread.join()
    assert sorted(id for id, _ in counted) == sorted(id for id, _ in answered_lines(store))
    assert refused == ["closed"] * (60 - len(counted))
    with store.session() as session:
        assert store.lines(session)[-1].kind == "closed"
    assert caught_up(learner).state.answers == len(counted)


def test_who_comes_after_the_desk_was_left_is_told_and_does_not_wait_for_ever(tmp_path):
    store = new_store(sqlite_path(tmp_path))
    Learner(store).step()
    desk = Desk(store)
    query = desk.ask()
    desk.leave()
    desk.leave()
    for act in (desk.ask, desk.close, lambda: desk.answer(query.id, 0)):
        with pytest.raises(SurveyError, match="was left"):
            act()
    assert len(answered_lines(store)) == 0


def test_a_survey_that_can_ask_no_more_still_learns(tmp_path, monkeypatch):
    from noisewise.errors import Unsupported

    learner = Learner(new_store(sqlite_path(tmp_path), queries=FIXED))
    learner.step()

    def nothing(*_):
        raise Unsupported("no question is fine enough")

    monkeypatch.setattr("noisewise.collector.learner.planned_query", nothing)
    with Desk(learner.store) as desk:
        visit(desk, generator(3))
        learner.step()
    assert learner.state.answers == 1
    assert learner.problem == "no question is fine enough"
    monkeypatch.undo()
    learner.step()
    assert learner.problem is None
    assert learner.store.standing().pooled == learner.pool


def test_a_learner_waits_for_a_database_that_is_away(tmp_path, monkeypatch):
    """Connections fail for a while; the same learner goes on afterwards."""
    store = new_store(sqlite_path(tmp_path), queries=FIXED)
    learner = Learner(store)
    learner.step()
    from noisewise.collector import learner as module

    real, failures = module.Session, [0]

    def away(database):
        if failures[0] < 5:
            failures[0] += 1
            raise store.database.failures[0]("away")
        return real(database)

    monkeypatch.setattr(module, "Session", away)
    with Desk(store) as desk:
        visit(desk, generator(4))
    until = time.monotonic() + 30
    learner.run(lambda: learner.state.answers == 1 or time.monotonic() > until)
    assert failures[0] == 5
    assert learner.state.answers == 1


def test_levels_and_columns_go_through_the_store(tmp_path, rng):
    both = nw.Joint(
        income=nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)),
        region=nw.Categorical(p=stats.dirichlet([1, 1, 1])),
    )
    survey = nw.Survey(both, guarantee=nw.PureDP(2), levels={"region": ["n", "s", "w"]}, n_particles=60, seed=1,
                       contamination=0)  # fmt: skip
    where = sqlite_path(tmp_path)
    learner = Learner(create(where, survey, simulated=True), snapshot_every=20)
    learner.step()
    from noisewise.online.simulate import simulated_person

    with Desk(learner.store) as desk:
        for _ in range(70):
            query = desk.ask()
            values = {"income": float(rng.normal(50, 20)), "region": float(rng.integers(3))}
            desk.answer(query.id, simulated_person(rng, query, values).value)
            learner.step()
    again = caught_up(Learner(open_store(where)))
    assert again.position == learner.position
    assert bits(again.state) == bits(caught_up(learner).state)
    assert again.state.wide == learner.state.wide != ()
    made = export(learner.store)
    assert made.answers == 70
    assert {column for release in made for column in release.schema.columns} == {"income", "region"}
    posterior = nw.infer(made, both, seed=1)
    assert (
        abs(posterior.mean["income.mean"] - learner.posterior().mean["income.mean"]) < 3 * posterior.sd["income.mean"]
    )


def test_a_survey_that_allows_for_lies_is_kept_and_replayed(tmp_path):
    where = sqlite_path(tmp_path)
    store = create(where, new_survey(contamination=0.1), simulated=True)
    learner = Learner(store, snapshot_every=10)
    learner.step()
    with Desk(store) as desk:
        for k in range(25):
            visit(desk, generator(6, k))
            learner.step()
    assert np.isfinite(learner.posterior().mean["lies.top"])
    assert bits(replay(open_store(where))) == bits(caught_up(learner).state)


def test_a_log_whose_lines_were_repeated_is_refused_and_not_counted_twice(tmp_path):
    """By whoever can write the file: an answer twice, and the whole log ten times over."""
    where = sqlite_path(tmp_path)
    store = new_store(where)
    learner = Learner(store)
    learner.step()
    with Desk(store) as desk:
        for k in range(5):
            visit(desk, generator(k))
    with store.session() as session:
        lines = store.lines(session)
        (answer, *_) = [line for line in lines if line.kind == "answered"]
        session.run("INSERT INTO log VALUES (?, ?, ?, ?)", len(lines) + 1, *answer[1:])
    for read in (Learner(store).step, lambda: replay(store), lambda: export(store)):
        with pytest.raises(NoisewiseError, match=f"Line {len(lines) + 1} of this survey's log"):
            read()
    with store.session() as session:
        session.run("DELETE FROM log WHERE position = ?", len(lines) + 1)
        for place in range(len(lines), 10 * len(lines)):
            session.run("INSERT INTO log VALUES (?, ?, ?, ?)", place + 1, *lines[place % len(lines)][1:])
    with pytest.raises(SurveyError, match="The log holds 50 answers, but 5 queries were answered"):
        export(store)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DROP TABLE log", "was damaged"),
        ("UPDATE log SET body = '{}' WHERE position = 1", "Line 1 of this survey's log cannot be read"),
        ("UPDATE log SET body = '[' WHERE position = 1", "Line 1 of this survey's log cannot be read"),
        ("UPDATE log SET body = 'x' WHERE kind = 'answered'", "log cannot be read"),
        ("UPDATE log SET number = 999 WHERE kind = 'answered'", "not asked, or was answered before"),
        ("UPDATE survey SET settings = 'x'", "cannot be used: what makes its survey"),
        ("UPDATE survey SET settings = '{}'", "cannot be used: what makes its survey"),
        ("UPDATE survey SET entropy = 'x'", "cannot be used: what makes its survey"),
    ],
)
def test_a_damaged_store_is_told_in_a_sentence(damage, said, tmp_path):
    store = answered(sqlite_path(tmp_path), 2, 4).store
    with store.session() as session:
        session.run(damage)
    with pytest.raises(NoisewiseError) as error:
        replay(open_store(next(tmp_path.glob("*.survey"))))
    assert said in str(error.value)


def test_bytes_that_were_overwritten_are_told_in_a_sentence(tmp_path):
    where = sqlite_path(tmp_path)
    store = answered(where, 30, 5).store
    with store.session() as session:
        session.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = where.read_bytes()
    where.write_bytes(whole[:8192] + bytes(len(whole) - 8192))
    with pytest.raises(SurveyError, match="cannot be used"):
        replay(open_store(where))
