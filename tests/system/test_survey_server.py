"""Promise D5 through the whole server: people answer over HTTP while everything is killed; each receipt counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from collecting import answered_lines, bits, fresh_database, postgres
from serving_surveys import needs_server, until

from noisewise.collector.learner import Learner, replay
from noisewise.collector.store import open_store

needs_server()
VISITORS = str(Path(__file__).with_name("survey_visitors.py"))
SPEC = """
[survey]
title = "Time to work"
question = "How long was your way to work today?"
unit = "minutes"
guarantee = {{ epsilon = "2" }}
population = "normal(mean=norm(40, 30), sd=halfnorm(scale=30))"
particles = {particles}
{queries}

[server]
port = {port}
workers = 2
rate = 10000000
store = "{store}"
"""
FIXED = "queries = { cells = [20, 40, 60] }"


def started(folder):
    """The server in a group of its own, so that all of it can be killed at once."""
    with (folder / "serve.log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-c", "from noisewise.cli.main import main; main()", "survey", "serve", "way.toml"],
            cwd=folder, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def killed(server):
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def is_up(url):
    return urllib.request.urlopen(f"{url}/healthz", timeout=5).read() == b"ok\n"


def answered_through_kills(folder, store, *, people, at_once, kills, rng, particles=50, queries=FIXED):
    """People answer; after each share of them the whole server is killed and started again."""
    from noisewise.cli.survey_demo import _free_port

    port = _free_port()
    url, receipts = f"http://127.0.0.1:{port}", folder / "receipts"
    (folder / "way.toml").write_text(SPEC.format(port=port, store=store, particles=particles, queries=queries))
    where = store if "://" in store else str(folder / store)
    server = started(folder)
    visitors = None
    try:
        until(lambda: is_up(url), 120)
        arguments = [sys.executable, VISITORS, url, str(people), str(at_once), str(receipts)]
        visitors = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        for kill in range(kills):
            wanted = people * (kill + 1) // (kills + 1)
            until(lambda: len(answered_lines(open_store(where))) >= wanted, 600)  # noqa: B023
            time.sleep(float(rng.uniform(0, 0.3)))
            killed(server)
            server = started(folder)
        _, problems = visitors.communicate(timeout=900)
        assert visitors.returncode == 0, problems
        store = open_store(where)
        return store, [tuple(line.split()) for line in receipts.read_text().splitlines()]
    finally:
        if visitors is not None and visitors.poll() is None:
            visitors.kill()
            visitors.communicate()
        killed(server)


def check_counted(store, receipts, people):
    """Every receipt once, nobody twice, and what a new learner knows is what a replay knows."""
    assert len(receipts) == people
    assert len({id for id, _, _ in receipts}) == people
    logged = answered_lines(store)
    assert len({id for id, _ in logged}) == len(logged)
    assert {(id, int(value)) for id, value, _ in receipts} <= set(logged)
    with store.session() as session:
        kept = dict(session.rows("SELECT id, receipt FROM queries WHERE state = 'answered'"))
    assert all(kept[id] == receipt for id, _, receipt in receipts)
    learner = Learner(store)
    while learner.step():
        pass
    assert learner.state.answers == len(logged) == people
    assert bits(learner.state) == bits(replay(store))


def test_a_killed_server_has_lost_no_receipt(tmp_path, rng):
    store, receipts = answered_through_kills(tmp_path, "way.survey", people=60, at_once=4, kills=1, rng=rng)
    check_counted(store, receipts, 60)
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_thousand_people_and_a_kill_of_everything_in_the_middle(tmp_path, rng, kind):
    given = {"people": 2000, "at_once": 16, "kills": 1, "rng": rng, "particles": 500, "queries": ""}
    if kind == "sqlite":
        check_counted(*answered_through_kills(tmp_path, "way.survey", **given), 2000)
        return
    with postgres() as url:
        check_counted(*answered_through_kills(tmp_path, fresh_database(url), **given), 2000)
