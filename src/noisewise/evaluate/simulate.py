"""Several simulated releases from one world: one data set, its records drawn once, every plan released from them.

Plans of the same part are released from the *same* records, so their releases depend on each other beyond theta; plans
of disjoint parts, and of different data sets, see different records. A simulation that drew records anew for each plan
could not tell a right joint likelihood from a product of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.joining import record_count
from noisewise.likelihood.simulate import noisy_values
from noisewise.models.protocol import Model, model_of
from noisewise.planning import Part, Plan
from noisewise.populations.parameters import Theta
from noisewise.populations.population import AnyPopulation
from noisewise.printable import shown
from noisewise.release import Release


def data_sets(plans: object) -> tuple[tuple[Plan, ...], ...]:
    """Plans by data set, from a plan, a list of plans of one data set, or a list of such lists."""
    given = [plans] if isinstance(plans, Plan) else plans
    if isinstance(given, Sequence) and not isinstance(given, str) and given:
        if all(isinstance(each, Plan) for each in given):
            given = [given]
        if all(isinstance(each, Sequence) and each and all(isinstance(p, Plan) for p in each) for each in given):
            holders = tuple(tuple(each) for each in given)
            for each in holders:
                _check_together(each)
            return holders
    raise InvalidArgument(
        f"plans = {shown(plans)}: give a plan, a list of plans of one data set, or a list of such lists.",
        argument="plans",
    )


def simulate_releases(
    rng: np.random.Generator,
    plans: Sequence[Plan],
    population: AnyPopulation | Model,
    theta: Theta,
    *,
    n: int | None = None,
) -> list[Release]:
    """One release a plan, all of one data set drawn at the single row of theta; each is marked as simulated."""
    model = model_of(population)
    dataset = f"simulated-{rng.bytes(8).hex()}"
    values: dict[int, Any] = {}
    for part in dict.fromkeys(plan.part for plan in plans):
        mine = [k for k, plan in enumerate(plans) if plan.part == part]
        if len(mine) == 1:
            values[mine[0]] = model.simulate_values(rng, plans[mine[0]], theta, n=n)[0]
            continue
        schema = plans[mine[0]].part_schema
        size = record_count(schema, n)
        columns = sorted({name for k in mine for name in plans[k].statistic.columns()})
        records = model.sample_records(rng, schema, size, theta, columns)
        values |= {k: noisy_values(rng, plans[k], records)[0] for k in mine}
    return [
        Release.of(plan, values[k].tolist(), dataset=dataset, ledger_head=None, simulated=True)
        for k, plan in enumerate(plans)
    ]


def _check_together(plans: Sequence[Plan]) -> None:
    if any(plan.schema != plans[0].schema for plan in plans):
        raise Unsupported(
            "Plans of one data set share its schema; plans of another data set go in a list of their own."
        )
    whole = (Fraction(0), Fraction(1))
    parts: list[Part] = sorted({whole if plan.part is None else plan.part for plan in plans})
    for one, other in pairwise(parts):
        if other[0] < one[1]:
            raise Unsupported(
                f"The parts {one[0]} to {one[1]} and {other[0]} to {other[1]} overlap: no likelihood joins releases of "
                "overlapping parts. Use the same part, or disjoint ones."
            )
