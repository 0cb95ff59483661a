"""When many come at once: the questions at hand are given to several people each, so that nobody waits for the learner.

A query that waits in the pool was designed before the answers that come meanwhile, so the pool is small as long as
people come one by one (`learner.POOL`). A crowd would drain it faster than the learner designs. Then the pool grows,
doubled when three quarters of it went from one look to the next, halved when it lasts for seconds. Its queries are
copies, under
ids of their own, of the few questions that were designed last; whenever half are gone, copies of newer ones take the
place of all. What this costs is some precision, since many answer before anybody has learnt from them, never
correctness: the posterior is that of the questions as they were asked.

The lag is bounded: while more than `MOST_BEHIND` lines of the log wait to be learnt, the pool is not widened, and
people wait for the learner after all.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from json import dumps

from noisewise.collector.learner import POOL, Learner
from noisewise.collector.store import Session
from noisewise.errors import Unsupported
from noisewise.online.survey import planned_query

__all__ = ["Crowd"]

LARGEST = 512
STALE = 1.1  # times as many answers learnt as when the pool was filled
CALM_SECONDS = 2.0
FRESH = 8  # questions that are designed for one filling
MOST_BEHIND = 4096  # lines of the log


class Crowd:
    """Widens one learner's pool while it runs low."""

    def __init__(self, learner: Learner, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.learner, self.wanted, self._clock = learner, POOL, clock
        self._stood, self._filled = 0, clock()  # how many the last look left, and when copies were last put in
        self._learnt = 0  # answers when they were

    @property
    def lines(self) -> int:
        """How many lines the learner may read in a step: what a pool of this size brings."""
        return 2 * self.wanted

    def look(self, session: Session) -> None:
        """Before a step of the learner, which fills up what is missing to its own pool: how many are left?"""
        ((pooled,),) = session.rows("SELECT count(*) FROM queries WHERE state = 'pooled'")
        ((position, closed),) = session.rows("SELECT position, closed FROM head")
        now, left, before = self._clock(), int(pooled), self.wanted
        # The learner's step after each look fills up to its own pool, so at least so many stood there.
        gone, self._stood = self._stood - left, max(left, POOL)
        if 4 * gone >= 3 * before:
            self.wanted = min(2 * before, LARGEST)
        elif now > self._filled + CALM_SECONDS:
            self.wanted = max(before // 2, POOL)
        is_due = before != self.wanted or (before > POOL and 2 * left <= before)
        is_behind = int(position) - self.learner.position > MOST_BEHIND
        if is_due and not (is_behind or int(closed)):
            self._replace(session)
            self._stood, self._filled = self.wanted, now

    def freshen(self, session: Session) -> None:
        """After a step of the learner: questions designed when much less was known make place for better ones.

        At the start a few hundred answers change everything, so a crowd's pool is filled anew after every step; when
        thousands are learnt it lasts until half of it is gone.
        """
        is_stale = self.learner.state.answers > STALE * self._learnt
        if self.wanted > POOL and is_stale and not int(session.rows("SELECT closed FROM head")[0][0]):
            self._replace(session)
            self._stood, self._filled = self.wanted, self._clock()

    def _replace(self, session: Session) -> None:
        """Take back what nobody was given, and put copies of fresh questions in its place."""
        engine, state, name = self.learner.engine, self.learner.state, self.learner.store.name
        ((last,),) = session.rows("SELECT max(number) FROM queries")
        first = 0 if last is None else int(last) + 1
        self._learnt = state.answers
        try:
            designed = [planned_query(engine, state, first + k, "") for k in range(FRESH)]
        except Unsupported:  # nothing can be asked any more: the learner says why, and goes on learning
            return
        plain = [query.to_dict() for query in designed]
        rows: list[object] = []  # written outside the transaction, so that nobody waits for it
        for place in range(self.wanted):
            label = f"{name}-{uuid.uuid4().hex[:16]}-{first + place}"
            rows += [first + place, label, dumps({**plain[place % FRESH], "id": label})]
        places = ", ".join(["(?, ?, ?, 'pooled', NULL, NULL)"] * self.wanted)
        with session.transaction(is_aside=True):
            session.run("DELETE FROM queries WHERE state = 'pooled'")
            session.run(f"INSERT INTO queries VALUES {places} ON CONFLICT DO NOTHING", *rows)
