"""Promises D5 and D6: processes of a survey are killed at random instants; no receipted answer is lost or doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from collecting import answered_lines, caught_up, fresh_database, new_store, postgres, sqlite_path

import noisewise as nw
from noisewise.collector.learner import Learner
from noisewise.collector.store import open_store

SCRIPT = str(Path(__file__).with_name("collector_worker.py"))
FIXED = nw.Query.cells([30, 50, 70], guarantee=nw.PureDP(2))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        yield str(sqlite_path(tmp_path))
    else:
        with postgres() as url:
            yield fresh_database(url)


def started(where, *arguments):
    return subprocess.Popen([sys.executable, SCRIPT, where, *map(str, arguments)], stderr=subprocess.PIPE, text=True)


def receipts_in(folder):
    found = []
    for file in sorted(folder.glob("receipts-*")):
        lines = file.read_text().split("\n")
        found += [tuple(line.split()) for line in lines[:-1]]  # what follows the last line end was never told whole
    return found


def check_books(where, receipts):
    """Every receipted answer is in the log once, and what is known after recovery is what a replay knows."""
    store = open_store(where)
    logged = answered_lines(store)
    assert len({id for id, _ in logged}) == len(logged)
    assert len({receipt[0] for receipt in receipts}) == len(receipts)
    assert {(id, int(value)) for id, value, _ in receipts} <= set(logged)
    with store.session() as session:
        kept = dict(session.rows("SELECT id, receipt FROM queries WHERE state = 'answered'"))
        lines = store.lines(session)
    assert len(kept) == len(logged)
    assert all(kept[id] == receipt for id, _, receipt in receipts)
    assert [line.position for line in lines] == list(range(1, len(lines) + 1))
    learner = caught_up(Learner(store))  # from a snapshot, compared with a replay of the log
    assert learner.state.answers == len(logged)
    return logged, learner


def kill_and_go_on(where, folder, *, rounds, workers, seed):
    """Workers and a learner under load; in each round some are killed at a random instant and started again."""
    rng = np.random.default_rng(seed)
    names = [*(f"worker{k}" for k in range(workers)), "learner"]
    running: dict[str, subprocess.Popen[str]] = {}
    kills = 0

    def start(name, number):
        if name == "learner":
            return started(where, "learner")
        return started(where, "worker", number, 10**6, folder / f"receipts-{name}-{number}")

    try:
        for round in range(rounds):
            for k, name in enumerate(names):
                if name not in running:
                    running[name] = start(name, 1000 * round + k)
            before = len(answered_lines(open_store(where)))
            until = time.monotonic() + 60
            while len(answered_lines(open_store(where))) < before + 10 and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(float(rng.uniform(0, 0.5)))
            for name in [name for name in names if rng.random() < 0.6] or ["learner"]:
                process = running.pop(name)
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    return kills


def test_every_receipt_survives_kills_of_workers_and_learner(place, tmp_path):
    new_store(place, queries=FIXED)
    kills = kill_and_go_on(place, tmp_path, rounds=2, workers=2, seed=None)
    receipts = receipts_in(tmp_path)
    assert kills >= 2
    assert len(receipts) >= 10
    check_books(place, receipts)


@pytest.mark.slow
def test_every_receipt_survives_many_kills_under_load(place, tmp_path):
    new_store(place)
    kills = kill_and_go_on(place, tmp_path, rounds=25, workers=4, seed=None)
    receipts = receipts_in(tmp_path)
    assert kills >= 25
    assert len(receipts) >= 250
    check_books(place, receipts)


def test_a_killed_connection_of_the_database_loses_nothing(tmp_path):
    """PostgreSQL ends every session of the store again and again while people answer."""
    import threading

    psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL client is installed (extra 'survey')")
    from collecting import generator, visit

    from noisewise.collector.desk import Desk

    with postgres() as url:
        where = fresh_database(url)
        store = new_store(where, queries=FIXED)
        stop, ends, seen = threading.Event(), [], []
        learner = Learner(store)
        learner.step()
        following = threading.Thread(target=learner.run, args=(stop.is_set,))
        following.start()

        def interrupt():
            with psycopg.connect(url, autocommit=True) as connection:
                while not stop.is_set():
                    time.sleep(0.15)
                    ended = connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    ).fetchall()
                    ends.extend(ended)

        breaking = threading.Thread(target=interrupt)
        breaking.start()
        with Desk(store) as desk:
            for k in range(60):
                try:
                    query, value, receipt = visit(desk, generator(5, k))
                except nw.SurveyError:  # away for longer than the desk tries: told, and not receipted
                    continue
                seen.append((query.id, str(value), receipt.receipt))
                time.sleep(0.01)
        stop.set()
        breaking.join()
        following.join()
        assert ends
        assert len(seen) >= 30
        check_books(where, seen)


def loaded(place, tmp_path, *, workers, people):
    new_store(place, queries=FIXED)
    learner = started(place, "learner")
    try:
        working = [started(place, "worker", k, people, tmp_path / f"receipts-{k}") for k in range(workers)]
        for process in working:
            _, problems = process.communicate()
            assert process.returncode == 0, problems
            assert not problems
    finally:
        learner.kill()
        learner.communicate()
    receipts = receipts_in(tmp_path)
    logged, _ = check_books(place, receipts)
    assert len(receipts) == len(logged) == workers * people


def test_workers_at_once_lose_nothing(place, tmp_path):
    loaded(place, tmp_path, workers=2, people=60)


@pytest.mark.slow
def test_eight_workers_of_ten_thousand_answers_lose_nothing(place, tmp_path):
    loaded(place, tmp_path, workers=8, people=10_000)
