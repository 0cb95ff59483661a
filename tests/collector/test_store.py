"""The store: queries go out once, a receipt means it is in the log, and positions are in the order of commits."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import stat
import threading
import time
from concurrent.futures import Future

import pytest
from collecting import (
    answered_lines,
    bits,
    caught_up,
    fresh_database,
    generator,
    new_store,
    new_survey,
    postgres,
    sqlite_path,
    visit,
)

import noisewise as nw
from noisewise.collector import database as room
from noisewise.collector.desk import Desk
from noisewise.collector.learner import Learner, replay
from noisewise.collector.store import Session, create, open_store
from noisewise.errors import InvalidArgument, SurveyError


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def places(request, tmp_path_factory):
    """A maker of new places for a store, in each database."""
    if request.param == "sqlite":
        yield lambda: sqlite_path(tmp_path_factory.mktemp("stores"))
    else:
        with postgres() as url:
            yield lambda: fresh_database(url)


def test_people_ask_and_answer_and_the_learner_knows_what_a_replay_knows(places):
    where = places()
    learner = Learner(new_store(where), snapshot_every=10)
    learner.step()
    receipts = set()
    with Desk(learner.store) as desk:
        for k in range(35):
            query, value, receipt = visit(desk, generator(1, k))
            assert receipt.is_counted
            receipts.add(receipt.receipt)
            assert desk.answer(query.id, value) == receipt  # a repeat: the same receipt, nothing counted
            learner.step()
    assert len(receipts) == 35
    caught_up(learner)
    assert learner.state.answers == 35
    again = Learner(open_store(where))  # from a snapshot and the log after it
    assert again.position > 0
    assert bits(caught_up(again).state) == bits(learner.state)
    standing = learner.store.standing()
    assert (standing.answers, standing.outstanding, standing.is_closed) == (35, 0, False)
    assert standing.pooled == learner.pool
    assert again.posterior().mean == learner.posterior().mean


def test_eight_threads_at_two_desks_lose_nothing_and_no_query_goes_out_twice(places):
    store = new_store(places(), queries=nw.Query.cells([40, 60], guarantee=nw.PureDP(2)))
    learner, each, seen, problems = Learner(store), 12, [], []
    learner.step()
    stop = threading.Event()
    following = threading.Thread(target=learner.run, args=(stop.is_set,))
    following.start()

    def work(desk, place):
        try:
            for k in range(each):
                seen.append(visit(desk, generator(2, place, k)))
        except BaseException as error:
            problems.append(error)

    with Desk(store) as one, Desk(store) as two:
        threads = [threading.Thread(target=work, args=((one, two)[place % 2], place)) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stop.set()
    following.join()
    assert not problems
    assert len({query.id for query, _, _ in seen}) == len({receipt.receipt for _, _, receipt in seen}) == 8 * each
    assert sorted(answered_lines(store)) == sorted((query.id, value) for query, value, _ in seen)
    assert caught_up(learner).state.answers == 8 * each


def holding(desk):
    """Keep the writer inside one transaction until the event is set, so that a line forms behind it."""
    taken, held = threading.Event(), threading.Event()

    def hold(_):
        taken.set()
        held.wait()

    first = threading.Thread(target=desk.done, args=(hold,))
    first.start()
    taken.wait()
    return held, first


def lined_up(desk, count):
    until = time.monotonic() + 60
    while desk._line.qsize() < count:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_what_waits_is_committed_together(places):
    """Group commit: far fewer transactions than acts, counted at the database."""
    store = new_store(places(), queries=nw.Query.cells([40, 60], guarantee=nw.PureDP(2)))
    Learner(store, pool=40).step()
    commits = []

    class Counting(Session):
        def _sent(self, statement, parameters):
            commits.extend([statement] if statement == "COMMIT" else [])
            return super()._sent(statement, parameters)

    desk = Desk(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noisewise.collector.desk.Session", Counting)
        held, first = holding(desk)
        rest = [threading.Thread(target=desk.ask) for _ in range(40)]
        for thread in rest:
            thread.start()
        lined_up(desk, 40)
        held.set()
        for thread in (first, *rest):
            thread.join()
        desk.leave()
    assert store.standing().outstanding == 40
    assert len(commits) == 2


def test_refusals_say_what_is_true_and_change_nothing(places):
    store = new_store(places())
    Learner(store).step()
    with Desk(store) as desk:
        query, other, third = desk.ask(), desk.ask(), desk.ask()
        with store.session() as session:
            pooled = session.rows("SELECT id FROM queries WHERE state = 'pooled'")[0][0]
        for strange in ("nobody-1", pooled, None, ""):
            with pytest.raises(InvalidArgument, match="not asked by this survey"):
                desk.answer(strange, 0)
        with pytest.raises(InvalidArgument, match="value"):
            desk.answer(query.id, 99)
        desk.withdraw([other.id])
        desk.withdraw([other.id])
        with pytest.raises(SurveyError, match="withdrawn"):
            desk.answer(other.id, 0)
        assert desk.expire(older_than=-1) == 2
        assert store.standing().outstanding == 0
        receipt = desk.answer(query.id, 0)  # expired, and counted all the same
        with pytest.raises(SurveyError, match="stays learnt"):
            desk.withdraw([query.id])
        desk.close()
        desk.close()
        with pytest.raises(SurveyError, match="closed"):
            desk.answer(third.id, 0)
        with pytest.raises(SurveyError, match="closed"):
            desk.ask()
        assert desk.answer(query.id, 0) == receipt  # a repeat is still told
        assert store.standing().outstanding == 0
    with store.session() as session:
        lines = store.lines(session)
    assert [line.kind for line in lines] == ["asked"] * 3 + ["withdrawn", "expired", "expired", "answered", "closed"]
    assert [line.position for line in lines] == list(range(1, 9))
    assert caught_up(Learner(store)).state.answers == 1


def test_an_empty_pool_is_said_after_the_wait(places):
    store = new_store(places())
    with Desk(store) as desk, pytest.raises(SurveyError, match="learner"):
        desk.ask(wait=0.05)


def test_one_refused_act_does_not_spoil_the_others_of_its_transaction(places):
    store = new_store(places())
    Learner(store).step()
    with Desk(store) as desk:
        query, other = desk.ask(), desk.ask()
        desk.withdraw([other.id])
        held, first = holding(desk)
        found: dict[str, object] = {}

        def send(one):
            try:
                found[one.id] = desk.answer(one.id, 0).is_counted
            except SurveyError as error:
                found[one.id] = error.fields["reason"]

        threads = [threading.Thread(target=send, args=(one,)) for one in (other, query)]
        for thread in threads:
            thread.start()
        lined_up(desk, 2)
        held.set()
        for thread in (first, *threads):
            thread.join()
    assert found == {query.id: True, other.id: "withdrawn"}


def test_positions_are_in_the_order_of_commits_where_a_sequence_is_not(places):
    """A reader that goes on from the last position it saw misses nothing; planted: one that reads a sequence does."""
    where = places()
    store = new_store(where)
    is_postgres = str(where).startswith("postgres")
    seen, order = [], []
    begun, release = threading.Event(), threading.Event()

    def slow():
        with store.session() as session, session.transaction():
            session.append("expired", 100, None)
            begun.set()
            release.wait()
        order.append("slow")

    def quick():
        with store.session() as session, session.transaction():
            session.append("expired", 200, None)
        order.append("quick")

    threads = [threading.Thread(target=slow), threading.Thread(target=quick)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    with store.session() as session:
        threads[1].join(0.3)
        seen += store.lines(session)
        release.set()
        for thread in threads:
            thread.join()
        seen += store.lines(session, seen[-1].position if seen else 0)
    assert [line.number for line in seen] == [100, 200]
    assert order == ["slow", "quick"]
    if not is_postgres:
        return
    with store.session() as early, store.session() as late, store.session() as reader:
        early.run("CREATE TABLE planted (position BIGSERIAL PRIMARY KEY, number BIGINT)")
        for session, number in ((early, 1), (late, 2)):
            session.run("BEGIN")
            session.run("INSERT INTO planted (number) VALUES (?)", number)
        late.run("COMMIT")
        last, found = reader.rows("SELECT max(position), count(*) FROM planted")[0]
        early.run("COMMIT")
        missed = reader.rows("SELECT number FROM planted WHERE position > ?", last)
    assert int(found) + len(missed) == 1  # of two: a late commit is never read


def test_a_lost_connection_is_opened_again_and_the_answer_counted_once(places):
    store = new_store(places())
    Learner(store).step()
    failures = store.database.failures

    class Failing(Session):
        left = 2

        def _sent(self, statement, parameters):
            found = super()._sent(statement, parameters)
            if statement == "COMMIT" and Failing.left:  # committed, and nobody was told
                Failing.left -= 1
                self.connection.close()
                raise failures[0]("the connection is lost")
            return found

    with pytest.MonkeyPatch.context() as patch:
        desk = Desk(store)
        query = desk.ask()
        desk._commit(None, [])
        patch.setattr("noisewise.collector.desk.Session", Failing)
        other = Desk(store)
        assert other.answer(query.id, 0).is_counted
        assert Failing.left == 0
        desk.leave()
        other.leave()
    assert len(answered_lines(store)) == 1
    assert caught_up(Learner(store)).state.answers == 1


def test_a_damaged_snapshot_costs_time_and_nothing_else(places):
    where = places()
    learner = Learner(new_store(where), snapshot_every=5)
    learner.step()
    with Desk(learner.store) as desk:
        for k in range(12):
            visit(desk, generator(3, k))
            learner.step()
    with learner.store.session() as session:
        session.run("UPDATE snapshots SET state = ? WHERE position = (SELECT max(position) FROM snapshots)", b"nothing")
    again = Learner(open_store(where))
    assert 0 < again.position < learner.position
    assert bits(caught_up(again).state) == bits(learner.state)


def test_a_store_is_begun_once_and_nothing_else_is_taken_for_one(places, tmp_path):
    where = places()
    assert new_store(where).is_simulated
    assert open_store(where).is_simulated
    with pytest.raises(SurveyError, match=r"already|exists"):
        new_store(where)
    assert not create(places(), new_survey()).is_simulated
    used = new_survey()
    used.ask()
    with pytest.raises(InvalidArgument, match="nobody yet"):
        create(places(), used)
    with pytest.raises(SurveyError, match="cannot be"):
        open_store(tmp_path / "missing")
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(SurveyError, match="not the store"):
        open_store(tmp_path / "text")


def test_a_file_is_its_owner_s_and_every_commit_is_flushed(tmp_path):
    store = new_store(tmp_path / "s")
    assert stat.S_IMODE(os.stat(tmp_path / "s").st_mode) == 0o600
    with store.session() as session:
        assert session.rows("PRAGMA synchronous") == [(2,)]  # FULL: the log is flushed before COMMIT returns
        assert session.rows("PRAGMA journal_mode") == [("wal",)]
    changed = sqlite3.connect(tmp_path / "s")
    changed.execute("UPDATE survey SET entropy = '7'")
    changed.commit()
    changed.close()
    with pytest.raises(SurveyError, match="another name"):
        replay(open_store(tmp_path / "s"))


def test_a_password_is_not_repeated():
    from noisewise.collector.database import _without_password

    assert _without_password("postgresql://me:secret@host/db?x=1") == "postgresql://me@host/db?x=1"
    assert _without_password("postgresql:///db") == "postgresql:///db"
    asked = _without_password("postgresql:///db?password=secret&user=me")
    assert asked == "postgresql:///db?password=...&user=me"


# ---- what waits for the disk, and who waits for whom ----


def test_only_what_can_be_made_again_is_written_without_waiting_for_the_disk(tmp_path):
    store = new_store(sqlite_path(tmp_path))
    for is_durable, level in ((True, 2), (False, 1)):  # FULL flushes at every commit, NORMAL with the next that does
        with store.session(is_durable=is_durable) as session:
            assert session.rows("PRAGMA synchronous") == [(level,)]
            assert session.rows("PRAGMA journal_mode") == [("wal",)]
    with Desk(store) as desk:
        assert desk.done(lambda session: session.rows("PRAGMA synchronous")) == [(2,)]


def test_writers_of_a_file_stand_in_line(tmp_path):
    """Whoever holds the line is waited for, then the next one goes on; without a line SQLite's lock is enough."""
    fcntl = pytest.importorskip("fcntl", reason="this system has no such lock")
    path = sqlite_path(tmp_path)
    store = new_store(path)
    Learner(store).step()
    with open(f"{path}.line", "a") as line, Desk(store) as desk:
        assert stat.S_IMODE(os.stat(line.fileno()).st_mode) == 0o600
        fcntl.flock(line, fcntl.LOCK_EX)
        future = Future()
        desk.submit(desk.hand_out, future)
        with pytest.raises(TimeoutError):
            future.result(timeout=0.3)
        fcntl.flock(line, fcntl.LOCK_UN)
        assert future.result(timeout=30) is not None
    os.remove(f"{path}.line")
    os.mkdir(f"{path}.line")  # so no line can be opened
    with Desk(store) as desk:
        assert desk.ask(wait=0).id


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(room, "WAIT_SECONDS", 0.3)


def held_up(store, ask):
    """What is said to whoever asks while another writer stands in the middle of a transaction."""
    with store.session() as other, other.transaction(), pytest.raises(SurveyError) as refusal:
        ask()
    return refusal.value


def test_a_writer_that_hangs_is_named_after_a_while_and_the_others_go_on_when_it_is_gone(places, impatient):
    store = new_store(places())
    learner = Learner(store)
    learner.step()
    with Desk(store) as desk:
        begun = time.monotonic()
        refusal = held_up(store, desk.ask)
        assert 0.3 <= time.monotonic() - begun < 20
        assert refusal.fields["reason"] == "held"
        assert "is held by another process" in str(refusal)
        assert "Nothing was changed" in str(refusal)
        query, value, receipt = visit(desk, generator(6))  # the desk is as good as before
        assert receipt.is_counted
        assert held_up(store, lambda: desk.answer(query.id, value)).fields["reason"] == "held"
        assert desk.answer(query.id, value) == receipt
    assert answered_lines(store) == [(query.id, value)]
    caught_up(learner)


def test_a_learner_outlives_a_writer_that_hangs(places, impatient):
    store = new_store(places())
    learner, stop = Learner(store), threading.Event()
    following = threading.Thread(target=learner.run, args=(stop.is_set,))
    with store.session() as other, other.transaction():
        following.start()
        time.sleep(1.0)
        assert following.is_alive()
    until = time.monotonic() + 30
    while store.standing().pooled == 0 and time.monotonic() < until:
        time.sleep(0.02)
    assert store.standing().pooled == learner.pool
    stop.set()
    following.join()


def test_whoever_left_the_line_of_a_file_gives_on_the_turn_that_comes_late(tmp_path, impatient):
    store = new_store(sqlite_path(tmp_path))
    Learner(store).step()
    with Desk(store) as desk:
        with store.session() as other, other.transaction():
            for _ in range(3):
                with pytest.raises(SurveyError, match="held"):
                    desk.done(desk.hand_out)
        until = time.monotonic() + 30
        while any(thread.name == "survey-line" for thread in threading.enumerate()) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(thread.name == "survey-line" for thread in threading.enumerate())
        visit(desk, generator(7))


def test_a_program_that_holds_the_file_without_standing_in_line_is_named_too(tmp_path, impatient):
    where = sqlite_path(tmp_path)
    store = new_store(where)
    Learner(store).step()
    with Desk(store) as desk:
        stranger = sqlite3.connect(where, isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        with pytest.raises(SurveyError, match="held by another process"):
            desk.ask()
        assert time.monotonic() - begun < 20  # waited once, not again and again
        stranger.execute("ROLLBACK")
        stranger.close()
        visit(desk, generator(8))


def test_a_visit_asks_a_far_away_database_six_times_and_a_refill_holds_nobody_up(monkeypatch):
    """PostgreSQL: statements that give nothing travel with the next that gives something."""
    with postgres() as url:
        store, sent = new_store(fresh_database(url)), []
        learner = Learner(store)
        learner.step()
        together = store.database.together
        counting = dataclasses.replace(
            store.database, together=lambda *given: (sent.append(len(given[1])), together(*given))[1]
        )
        monkeypatch.setattr(store, "database", counting)
        with Desk(store) as desk:
            visit(desk, generator(9))
        # Asked: begin and head; the query; log, head and commit. Answered: the same.
        assert sent == [2, 1, 3, 2, 1, 4]
        sent.clear()
        with store.session() as other, other.transaction():  # someone appends, and takes long
            begun = time.monotonic()
            assert learner.step() == 2
            assert time.monotonic() - begun < 20
        assert store.standing().pooled == learner.pool
        assert len(sent) <= 9  # its own, and two of the other's


def test_nothing_is_appended_aside(tmp_path):
    store = new_store(sqlite_path(tmp_path))
    with store.session() as session, session.transaction(is_aside=True), pytest.raises(AssertionError):
        session.append("expired", 0, None)
