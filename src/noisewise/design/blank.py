"""A plan as a release whose value is not known yet, so that the models of `likelihood` can be asked about its law.

Only what does not depend on the value may be asked of such a model: moments, noise, the density of other values. It is
marked as simulated and never leaves this room.
"""

from __future__ import annotations

from dataclasses import replace

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.planning import Plan
from noisewise.printable import shown
from noisewise.release import Release
from noisewise.schema import Schema
from noisewise.statistics import Records
from noisewise.statistics.protocol import no_population
from noisewise.statistics.tables import refuse_tied


def blank_release(plan: Plan) -> Release:
    """The release of a plan with zeros for a value; of local answers, that of one record."""
    return Release.of(
        _of_one_record(plan) if isinstance(plan.statistic, Records) else plan,
        [0] * (1 if isinstance(plan.statistic, Records) else len(plan.statistic.labels(plan.part_schema))),
        dataset="not-released",
        ledger_head=None,
        simulated=True,
    )


def checked_plan(plan: object) -> Plan:
    """A plan whose release tells about a population."""
    if not isinstance(plan, Plan):
        raise not_a_plan(plan)
    if plan.mechanism == "exponential":
        raise Unsupported(f"How much {plan.statistic} by the exponential mechanism would tell is not computed here.")
    if reason := plan.statistic.why_no_population():
        raise no_population(plan.statistic.kind, reason)
    refuse_tied(plan.statistic)
    return plan


def not_a_plan(plan: object) -> InvalidArgument:
    """The sentence for anything else."""
    return InvalidArgument(
        f"plan = {shown(plan)}: make one with plan(statistic, schema, guarantee=...).", argument="plan"
    )


def _of_one_record(plan: Plan) -> Plan:
    """The same question to one person: the law of a local answer does not depend on how many are asked."""
    schema = plan.part_schema
    size = {"n": 1} if schema.is_change_one else {"n_max": 1}
    one = Schema(schema.columns, neighbours=schema.neighbours, outside=schema.outside, missing=schema.missing, **size)
    return replace(plan, schema=one, part=None)
