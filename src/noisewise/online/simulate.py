"""Simulated people: answers with seeded noise, for studies and calibration. None of it is privacy noise.

What `holder.respond` does for one real person, with the same lattice and the same law, but from a generator. A level
is its number; of someone with several columns the query picks one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from noisewise.laws import Form
from noisewise.likelihood.simulate import draw_answers, draw_noise
from noisewise.online.asked import Question, question_of
from noisewise.planning import Plan
from noisewise.query import Answer, Query
from noisewise.statistics.evaluation import cell_index

__all__ = ["simulated_answer", "simulated_person"]


def simulated_person(rng: np.random.Generator, query: Query, values: Mapping[str, float]) -> Answer:
    """How a person who has such values by column might answer."""
    return simulated_answer(rng, query, values[query.asks_about])


def simulated_answer(rng: np.random.Generator, query: Query, x: float) -> Answer:
    """How a person whose value is x might answer."""
    plan = _plan(question_of(query))
    law = plan.law
    if law.form is Form.CELL:
        true = np.array([x]) if query.edges is None else cell_index(np.array([x]), query.edges)
        return Answer(query, int(draw_answers(rng, law, true)[0]))
    bounds, lattice = plan.schema.bounded(query.asks_about), plan.lattice
    steps = int(np.floor(min(max(x, bounds.low), bounds.high) / lattice.step[0] + 0.5))
    steps = min(max(steps, lattice.low[0]), lattice.high[0])
    return Answer(query, steps + int(np.ravel(draw_noise(rng, law, 1))[0]))


@lru_cache(maxsize=8192)
def _plan(question: Question) -> Plan:
    return question.query().plan()
