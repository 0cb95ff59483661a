"""Tables of what people did when they did something: `Marginals(..., tied=True, null=...)`.

Most steps of most people may be empty (every column of the clique at the null level). Such a table leaves them out and
shares each person's weight among the K steps that are not, so one person weighs 1 however busy (Bernstein 2020, section
3.3.4). It is read here as
    entry = m P(step | not null) = m mean_c mu_c(cell) / (1 - s),      m the table's sum: people with some step,
with s the share of empty steps. The entries do not tell s; the people without any step do: if empty steps follow each
other as in a Markov chain, with r = P(null first | step not null),
    1 - m/n = p_0 (s/p_0)^C,       p_0 = s + (1 - s) r: the null level's probability,      C steps,
which increases in s from 0 to 1. Both are approximations: a person with few steps weighs as much as one with many, so
what is learnt leans towards people with few.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noisewise.errors import Unsupported
from noisewise.schema import Schema
from noisewise.statistics import Marginals
from noisewise.types import Floats

__all__ = ["empty_share", "null_share"]

MOST = 0.999


def null_share(
    statistic: Marginals, schema: Schema, value: Floats, variance: Floats, n: int
) -> tuple[float, float, list[str]]:
    """m, s, and what is to be said; value and variance are those of all entries, in persons."""
    left_out = statistic.null_cell(schema)
    assert left_out is not None
    kept = np.ones(len(value), dtype=bool)
    kept[left_out] = False
    people, sd = float(value[kept].sum()), math.sqrt(float(variance[kept].sum()))
    if people < 3 * sd:
        raise Unsupported(
            f"The table adds up to {people:.0f} people, with a noise sd of {sd:.0f}: too little is left to be learnt "
            "from. Publish it with a larger epsilon, or from more people."
        )
    people = min(people, float(n))
    idle = min(max(1 - people / n, 0.5 / n), MOST)
    share = empty_share(_first_is_null(statistic, schema, value, left_out), idle, len(statistic.cliques))
    said = [
        f"The table counts steps that are not {statistic.null!r}: it is read as that of the steps of {people:.0f} "
        f"people, and {100 * share:.0f} % of all steps are taken to be empty; people with few steps weigh as much as "
        "those with many."
    ]
    return people, share, said


def empty_share(first: float, idle: float, steps: int) -> float:
    """s with p_0 (s/p_0)^steps = idle, p_0 = s + (1 - s) first."""
    from scipy.optimize import brentq

    def excess(s: float) -> float:
        p = s + (1 - s) * first
        return math.log(p) + steps * (math.log(s) - math.log(p)) - math.log(idle)

    low, high = 1e-12, 1 - 1e-12
    if excess(low) >= 0:
        return low
    return float(brentq(excess, low, high))


def _first_is_null(statistic: Marginals, schema: Schema, value: Floats, left_out: int) -> float:
    """The share of the steps that begin at the null level, among those that are not null."""
    shape = [len(schema.levels(name)) for name in statistic.cliques[0]]
    table: Any = value.copy()
    table[left_out] = 0.0
    table = table.reshape(shape)
    null = schema.levels(statistic.cliques[0][0]).index(statistic.null)
    return float(min(max(table[null].sum() / table.sum(), 1e-6), 1 - 1e-6))
