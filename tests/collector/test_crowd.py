"""When many come at once the pool grows with copies of fresh questions, and shrinks again; the lag stays bounded."""

from __future__ import annotations

import pytest
from collecting import bits, generator, income, new_store, sqlite_path

from noisewise.collector import crowd as room
from noisewise.collector.crowd import LARGEST, Crowd
from noisewise.collector.desk import Desk
from noisewise.collector.learner import POOL, Learner, replay
from noisewise.errors import Unsupported
from noisewise.online.simulate import simulated_answer


@pytest.fixture
def place(tmp_path):
    store = new_store(sqlite_path(tmp_path))
    learner = Learner(store)
    learner.step()
    now = [0.0]
    return store, learner, Crowd(learner, clock=lambda: now[0]), now


def looked(store, crowd):
    with store.session() as session:
        crowd.look(session)
    return store.standing().pooled


def drained(desk):
    return [desk.ask(wait=0) for _ in range(desk.store.standing().pooled)]


def test_the_pool_grows_while_it_runs_low_and_shrinks_when_it_lasts(place):
    store, _, crowd, now = place
    assert looked(store, crowd) == POOL  # nobody came: it is the learner's alone
    sizes, queries = [], []
    with Desk(store) as desk:
        for _ in range(7):
            queries += drained(desk)
            sizes.append(looked(store, crowd))
    assert sizes == [32, 64, 128, 256, 512, 512, 512]
    assert max(sizes) == LARGEST
    assert len({query.id for query in queries}) == len(queries)
    assert all(query.id.startswith(f"{store.name}-") for query in queries)
    assert [looked(store, crowd) for _ in range(3)] == [512, 512, 512]  # for a while
    shrunk = []
    for _ in range(7):
        now[0] += room.CALM_SECONDS + 0.1
        shrunk.append(looked(store, crowd))
    assert shrunk == [256, 128, 64, 32, 16, 16, 16]


def test_a_pool_that_empties_slowly_is_filled_anew_and_not_widened(place):
    store, _, crowd, _ = place
    with Desk(store) as desk:
        looked(store, crowd)
        drained(desk)
        assert looked(store, crowd) == 32
        sizes = []
        for _ in range(8):
            desk.ask(wait=0), desk.ask(wait=0), desk.ask(wait=0)
            sizes.append(looked(store, crowd))
    assert sizes == [29, 26, 23, 20, 17, 32, 29, 26]
    assert crowd.wanted == 32


def test_a_crowd_is_noticed_however_few_were_left_before(place):
    """The learner fills its own pool up between two looks; a pool that is drained again and again must grow."""
    store, learner, crowd, _ = place
    with Desk(store) as desk:
        looked(store, crowd)
        for count in (7, 11):  # as many as the pool can stand
            for _ in range(count):
                desk.ask(wait=0)
            looked(store, crowd)
            learner.step()
        assert crowd.wanted == POOL
        for _ in range(3):
            drained(desk)
            looked(store, crowd)
            learner.step()
    assert crowd.wanted == 8 * POOL


def test_sixteen_at_a_time_are_no_crowd(place):
    """As many as the pool holds, half of them between two looks: each gets a question of their own."""
    store, learner, crowd, now = place
    with Desk(store) as desk:
        for _ in range(20):
            looked(store, crowd)
            learner.step()
            for _ in range(POOL // 2):
                desk.ask(wait=0)
            now[0] += 0.05
    assert crowd.wanted == POOL


def test_answers_to_copies_count_and_replay(place):
    store, learner, crowd, _ = place
    looked(store, crowd)
    rng = generator()
    with Desk(store) as desk:
        for _ in range(3):
            queries = drained(desk)
            looked(store, crowd)
            for query in queries:
                desk.answer(query.id, simulated_answer(rng, query, income(rng)).value)
    while learner.step():
        pass
    assert learner.state.answers == 16 + 32 + 64
    assert bits(learner.state) == bits(replay(store))


def test_a_crowd_of_a_survey_that_can_ask_no_more_gets_what_is_left(place, monkeypatch):
    """Nothing can be designed any more: the learner's process goes on, and learns what is still answered."""

    def nothing(*_):
        raise Unsupported("no question is fine enough")

    store, learner, crowd, _ = place
    looked(store, crowd)
    monkeypatch.setattr(room, "planned_query", nothing)
    rng = generator()
    with Desk(store) as desk:
        queries = drained(desk)
        assert looked(store, crowd) == 0
        for query in queries:
            desk.answer(query.id, simulated_answer(rng, query, income(rng)).value)
    while learner.step():
        with store.session() as session:
            crowd.freshen(session)
    assert learner.state.answers == len(queries) == POOL


def test_a_learner_far_behind_lets_people_wait(place, monkeypatch):
    store, _, crowd, _ = place
    looked(store, crowd)
    monkeypatch.setattr(room, "MOST_BEHIND", 20)
    with Desk(store) as desk:
        drained(desk)
        assert looked(store, crowd) == 32  # 16 lines behind
        drained(desk)
        assert looked(store, crowd) == 0  # 48 lines behind
        desk.close()
    assert looked(store, crowd) == 0
