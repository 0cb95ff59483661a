"""When many come at once the pool grows with copies of fresh questions, and shrinks again; the lag stays bounded."""

from __future__ import annotations

import pytest
from collecting import bits, generator, income, new_store, sqlite_path

from noisewise.collector import crowd as room
from noisewise.collector.crowd import LARGEST, Crowd
from noisewise.collector.desk import Desk
from noisewise.collector.learner import POOL, Learner, replay
from noisewise.online.simulate import simulated_answer


@pytest.fixture
def place(tmp_path):
    store = new_store(sqlite_path(tmp_path))
    learner = Learner(store)
    learner.step()
    return store, learner, Crowd(learner)


def looked(store, crowd):
    with store.session() as session:
        crowd.look(session)
    return store.standing().pooled


def drained(desk):
    return [desk.ask(wait=0) for _ in range(desk.store.standing().pooled)]


def test_the_pool_grows_while_it_runs_low_and_shrinks_when_it_stays_full(place):
    store, _, crowd = place
    assert looked(store, crowd) == POOL  # nobody came: it is the learner's alone
    sizes, queries = [], []
    with Desk(store) as desk:
        for _ in range(6):
            queries += drained(desk)
            sizes.append(looked(store, crowd))
    assert sizes == [32, 64, 128, 256, 256, 256]
    assert max(sizes) == LARGEST
    assert len({query.id for query in queries}) == len(queries)
    assert all(query.id.startswith(f"{store.name}-") for query in queries)
    assert [looked(store, crowd) for _ in range(6)] == [128, 64, 32, 16, 16, 16]


def test_answers_to_copies_count_and_replay(place):
    store, learner, crowd = place
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


def test_a_learner_far_behind_lets_people_wait(place, monkeypatch):
    store, _, crowd = place
    monkeypatch.setattr(room, "MOST_BEHIND", 20)
    with Desk(store) as desk:
        drained(desk)
        assert looked(store, crowd) == 32  # 16 lines behind
        drained(desk)
        assert looked(store, crowd) == 0  # 48 lines behind
        desk.close()
    assert looked(store, crowd) == 0
