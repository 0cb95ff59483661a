"""What black-box attacks aim at: for every mechanism a small plan, and the two neighbouring tables it hides worst."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from noisewise.audit.cases import geometric_estimator, schema_of, x
from noisewise.audit.neighbours import Record, data_of, neighbouring_pairs, worst_move
from noisewise.audit.order import exponential_log_ratio, order_noise, smooth_delta, smooth_log_ratio
from noisewise.laws import Form, SmoothShape, smooth_law, smooth_shape
from noisewise.planning import Plan, plan
from noisewise.privacy.divergence import guarantee_beside
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Count, Mean, Median, Quantile, Records, Statistic, column

Data = dict[str, list[Any]]
LEVEL = Fraction(1)
FIT_LEVEL = {"exponential": Fraction(5)}  # at 1 its exponents are too small for a tenth to show
_SUBJECTS: dict[str, tuple[Statistic, Schema]] = {
    "laplace": (Mean(x), schema_of(0, 250, 2)),
    "gaussian": (Mean(x), schema_of(9, 10, 2)),
    "geometric": (Count(x.between(0, 1)), schema_of(0, 3, 2)),
    "randomized-response": (Records(column("g")), schema_of(0, 3, 1)),
    "smooth-laplace": (Median(x), schema_of(0, 4, 3)),
    "smooth-cauchy": (Median(x), schema_of(0, 4, 3)),
    "exponential": (Quantile(x, "0.5"), schema_of(0, 4, 3)),
    "finite": (Count(x.between(0, 1)), schema_of(0, 3, 2)),
}


class Target(NamedTuple):
    """A plan and two neighbouring data sets."""

    plan: Plan
    one: Data
    other: Data


def target(mechanism: str, kind: type[Guarantee], epsilon: Fraction = LEVEL) -> Target:
    """The plan of a mechanism at one level, and the neighbours at which it loses most."""
    statistic, schema = _SUBJECTS.get(mechanism, _SUBJECTS["laplace"])  # a registered mechanism adds noise to sums
    chosen: object = geometric_estimator(schema.largest_n, epsilon) if mechanism == "finite" else mechanism
    made = plan(statistic, schema, guarantee=guarantee_beside(kind, epsilon), mechanism=chosen)
    return Target(made, *worst_neighbours(made))


def worst_neighbours(made: Plan) -> tuple[Data, Data]:
    """The two data sets of a plan between which its law has most to hide."""
    schema, law = made.schema, made.law
    rest = [_record(schema)] * (schema.largest_n - 1)
    if law.form is Form.NUMBER:
        move = worst_move(made)
        came = [] if move.came is None else [move.came]
        return data_of([move.left, *rest], schema), data_of([*came, *rest], schema)
    if law.form in (Form.CELL, Form.ACTION):
        names = [name for name in schema.columns if name in ("x", "g")]
        ends = [_record(schema, **{name: _end(schema, name) for name in names}), _record(schema)]
        return data_of([ends[0], *rest], schema), data_of([ends[1], *rest], schema)
    pairs = _order_neighbours(made)
    step = made.lattice.step[0]
    tables = [[_record(schema, x=steps * step) for steps in records] for records in pairs]
    return data_of(tables[0], schema), data_of(tables[1], schema)


def _order_neighbours(made: Plan) -> tuple[Sequence[int], Sequence[int]]:
    low, high = made.lattice.low[0], made.lattice.high[0]
    values = tuple(low + (high - low) * k // 4 for k in range(5))

    def loss(pair: tuple[Sequence[int], Sequence[int]]) -> float:
        if made.law.form is Form.POINT:
            return exponential_log_ratio(made, *pair)
        first, second = (order_noise(made, records) for records in pair)
        law = smooth_law(made.law)
        if smooth_shape(law) is SmoothShape.CAUCHY:
            return smooth_log_ratio(law, first, second)
        return smooth_delta(law, first, second, 0.0)  # at epsilon = 0: how often they differ at all

    return max(neighbouring_pairs(values, made.schema.largest_n), key=loss)


def _record(schema: Schema, **given: float) -> Record:
    return {name: given.get(name, c.low if isinstance(c, Bounded) else 0.0) for name, c in schema.columns.items()}


def _end(schema: Schema, name: str) -> float:
    named = schema.columns[name]
    return named.high if isinstance(named, Bounded) else float(len(named) - 1)
