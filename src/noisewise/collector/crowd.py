"""When many come at once: the questions at hand are given to several people each, so that nobody waits for the learner.

A query that waits in the pool was designed before the answers that come meanwhile, so the pool is small as long as
people come one by one (`learner.POOL`). A crowd would drain it faster than the learner designs. Then the pool grows,
doubled while it runs low and halved when it stays full, and its queries are copies, under ids of their own, of the few
questions that were designed last; at every step they are replaced by copies of newer ones. What this costs is some
precision (4-13 % larger standard deviations with 256 outstanding), never correctness: the
posterior is that of the questions as they were asked.

The lag is bounded: while more than `MOST_BEHIND` lines of the log wait to be learnt, the pool is not widened, and
people wait for the learner after all.
"""

from __future__ import annotations

import uuid
from json import dumps

from noisewise.collector.learner import POOL, Learner
from noisewise.collector.store import Session
from noisewise.online.survey import planned_query

__all__ = ["Crowd"]

LARGEST = 256
MOST_BEHIND = 4096  # lines of the log


class Crowd:
    """Widens one learner's pool while it runs low."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.wanted = learner, POOL

    def look(self, session: Session) -> None:
        """Before a step of the learner, which fills up what is missing to its own pool: how many are left?"""
        ((pooled,),) = session.rows("SELECT count(*) FROM queries WHERE state = 'pooled'")
        ((position, closed),) = session.rows("SELECT position, closed FROM head")
        before, left = self.wanted, int(pooled)
        if 4 * left < before:
            self.wanted = min(2 * before, LARGEST)
        elif 4 * left > 3 * before:
            self.wanted = max(before // 2, POOL)
        is_left_to_learner = before == self.wanted == POOL or (before == self.wanted and 2 * left > before)
        is_behind = int(position) - self.learner.position > MOST_BEHIND
        if not (is_left_to_learner or is_behind or int(closed)):
            self._replace(session)

    def _replace(self, session: Session) -> None:
        """Take back what nobody was given, and put copies of fresh questions in its place."""
        engine, state, name = self.learner.engine, self.learner.state, self.learner.store.name
        ((last,),) = session.rows("SELECT max(number) FROM queries")
        first = 0 if last is None else int(last) + 1
        designed = [planned_query(engine, state, first + k, "") for k in range(POOL)]
        rows: list[object] = []  # written outside the transaction, so that nobody waits for it
        for place in range(self.wanted):
            label = f"{name}-{uuid.uuid4().hex[:16]}-{first + place}"
            rows += [first + place, label, dumps({**designed[place % POOL].to_dict(), "id": label})]
        places = ", ".join(["(?, ?, ?, 'pooled', NULL, NULL)"] * self.wanted)
        with session.transaction():
            session.run("DELETE FROM queries WHERE state = 'pooled'")
            session.run(f"INSERT INTO queries VALUES {places} ON CONFLICT DO NOTHING", *rows)
