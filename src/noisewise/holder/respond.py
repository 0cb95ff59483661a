"""One person's answer: runs on the respondent's side, with secure noise, before anything leaves them.

The value is clipped or sorted into its cell as the query says, rounded to the query's lattice, and noise of the
query's law is added. The law is recomputed from the query's guarantee, never taken on trust; and how much may be
spent is said by the person, never by the asker:

    respond(query, x, cap=PureDP(1))       one answer that costs at most the cap; every call draws and spends anew
    Respondent(cap=PureDP(2), path=...)    all answers together cost at most the cap (`holder.respondent`)
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from numbers import Real

import numpy as np

from noisewise.errors import BudgetExceeded, InvalidArgument
from noisewise.holder import draw
from noisewise.laws import Form
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Answer, Query
from noisewise.schema import Level, Levels
from noisewise.statistics.evaluation import cell_index


def respond(query: Query, x: float | Level, *, cap: Guarantee | None = None) -> Answer:
    """Answer a query about the private value x, if that costs at most `cap`. No error ever repeats x.

    Two calls are two answers and cost twice: only a `Respondent` keeps account over queries and retries.

    Parameters
    ----------
    query
        What is asked, as read by `Query.from_dict`.
    x
        The private value: a finite number, or one of the query's levels.
    cap
        The most this one answer may cost, as a guarantee of the query's kind; required. A query that asks for more, or
        whose kind does not compare with it, is refused and nothing is drawn.

    Returns
    -------
    Answer

    Examples
    --------
    >>> answer = nw.respond(nw.Query.cells([20, 40, 60], guarantee=nw.PureDP(2)), 37.5, cap=nw.PureDP(2))
    >>> answer.value in (0, 1, 2, 3)
    True
    """
    check_query(query)
    check_cap(cap, "respond(query, x, cap=PureDP(1))", "this answer")
    assert cap is not None
    if not query.guarantee <= cap:  # kinds that do not compare raise here
        raise BudgetExceeded(
            f"The query asks for {query.guarantee}, and one answer may cost at most {cap}. Nothing was answered.",
            needed=query.guarantee,
            remaining=cap,
            limit=cap,
        )
    return drawn_answer(query, checked_record(query, x))


def check_query(query: object) -> None:
    """A query, or a sentence."""
    if not isinstance(query, Query):
        raise InvalidArgument("query must be a Query; read one with Query.from_dict.", argument="query")


def check_cap(cap: object, example: str, what: str) -> None:
    """A cap is required, like epsilon and bounds; asked for in words instead of by a TypeError."""
    if not isinstance(cap, Guarantee):
        raise InvalidArgument(
            f"Say the most that {what} may cost: {example}. Without a cap the asker would decide what is spent. "
            "Nothing was answered.",
            argument="cap",
        )


def checked_record(query: Query, x: object) -> float:
    """What a query asks about as a number: the value, or the place of a level. A refusal does not repeat it."""
    if query.levels is None:
        return checked_value(x)
    try:
        return Levels(query.levels).index(x)
    except InvalidArgument:
        raise InvalidArgument(
            f"x must be one of the levels {shown(list(query.levels[:20]), 200)}. Nothing was answered.", argument="x"
        ) from None


def checked_value(x: object) -> float:
    """The private value as a number; a refusal does not repeat it."""
    value = math.nan
    if not isinstance(x, bool) and isinstance(x, Real):
        with suppress(OverflowError):
            value = float(x)
    if not math.isfinite(value):
        raise InvalidArgument("x must be a finite number. Nothing was answered.", argument="x")
    return value


def drawn_answer(query: Query, value: float) -> Answer:
    """One draw of the query's law at this value. Whoever calls it has booked its price."""
    plan = query.plan()
    law = plan.law
    if law.form is Form.CELL:
        cell = int(value) if query.levels is not None else int(cell_index(np.asarray(value), query.edges))
        return Answer(query, int(draw.answers(law, np.array([cell]))[0]))
    bounds = plan.schema.bounded(query.asks_about)
    clipped = Fraction(min(max(value, bounds.low), bounds.high))
    steps = math.floor(clipped / Fraction(plan.lattice.step[0]) + Fraction(1, 2))
    steps = min(max(steps, plan.lattice.low[0]), plan.lattice.high[0])
    return Answer(query, steps + draw.noise(law)[0])
