"""One person's answer: runs on the respondent's side, with secure noise, before anything leaves them.

The value is clipped or sorted into its cell as the query says, rounded to the query's lattice, and noise of the
query's law is added. The law is recomputed from the query's guarantee, never taken on trust.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from numbers import Real

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.holder import draw
from noisewise.privacy.finite import RandomizedResponse
from noisewise.privacy.law import AdditiveLaw
from noisewise.query import Answer, Query
from noisewise.statistics.tables import cell_index


def respond(query: Query, x: float) -> Answer:
    """Answer a query about the private value x. No error ever repeats x."""
    if not isinstance(query, Query):
        raise InvalidArgument("query must be a Query; read one with Query.from_dict.", argument="query")
    value = _number(x)
    plan = query.plan()
    law = plan.law
    if isinstance(law, RandomizedResponse):
        cell = int(cell_index(np.asarray(value), query.edges))
        return Answer(query, int(draw.answers(law, np.array([cell]))[0]))
    assert isinstance(law, AdditiveLaw)
    bounds = plan.schema.bounded("x")
    clipped = Fraction(min(max(value, bounds.low), bounds.high))
    steps = math.floor(clipped / Fraction(plan.lattice.step[0]) + Fraction(1, 2))
    steps = min(max(steps, plan.lattice.low[0]), plan.lattice.high[0])
    return Answer(query, steps + draw.noise(law)[0])


def _number(x: object) -> float:
    value = math.nan
    if not isinstance(x, bool) and isinstance(x, Real):
        with suppress(OverflowError):
            value = float(x)
    if not math.isfinite(value):
        raise InvalidArgument("x must be a finite number. Nothing was answered.", argument="x")
    return value
