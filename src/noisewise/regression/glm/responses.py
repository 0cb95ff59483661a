"""Which responses a link can have, by the schema alone; others are refused, with the reason.

A yes/no response is made of conditions and takes the values 0 and 1; a column with bounds [0, 1] is taken at its word,
and the verdict says so. A count is one column with whole bounds that begin at 0 (or a clip of one): what lies above its
upper bound was clamped to it, or its records were refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.regression.configurations import Configurations, has_conditions, is_discrete
from noisewise.regression.glm.links import Link
from noisewise.regression.glm.problem import Cap
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature
from noisewise.statistics.moment_rows import entry_box

__all__ = ["check_response", "largest_count", "response_cap", "undeclared"]

LARGEST_COUNT = 100_000
PLAIN = ("column", "clip")


def check_response(link: Link, response: Feature, features: Sequence[Feature], schemas: Sequence[Schema]) -> None:
    """Refuse a response that the link cannot have."""
    shared = sorted(set(response.columns()) & {name for feature in features for name in feature.columns()})
    if shared:
        raise InvalidArgument(
            f"The response {response} is made of column {shared[0]!r}, and so is a feature: given the one the other is "
            "known, and no regression describes that. Leave the column out of one of them.",
            argument="features",
        )
    for schema in schemas:
        if link.is_count:
            _check_count(response, schema)
        else:
            _check_yes_no(link, response, schema)


def _check_yes_no(link: Link, response: Feature, schema: Schema) -> None:
    if is_discrete(response):
        values = set(Configurations.of((response,), (schema,)).constant[:, 0].tolist())
        if values == {0.0, 1.0}:
            return
        found = f"it takes the values {', '.join(f'{value:g}' for value in sorted(values))}"
    else:
        low, high = entry_box((response,), schema)[0]
        if response.operation == "column" and low == 0 and high == 1:
            return
        found = f"it lies between {float(low):g} and {float(high):g}"
    raise InvalidArgument(
        f"A {link.name} regression has a response that is 0 or 1; of {response} the schema says that {found}. Declare "
        "a yes/no column by its levels and write column(...).equals('yes'), or cut a number by between(...); for "
        "counts there is PoissonRegression, for numbers LinearRegression.",
        argument="response",
    )


def _check_count(response: Feature, schema: Schema) -> None:
    if has_conditions(response) or response.operation not in PLAIN:
        raise InvalidArgument(
            f"A Poisson regression has one column as its response, a count, or a clip of one; {response} is something "
            "else. For yes/no responses there is LogisticRegression.",
            argument="response",
        )
    low, high = entry_box((response,), schema)[0]
    if low != 0 or high.denominator != 1 or not 1 <= high <= LARGEST_COUNT:
        raise InvalidArgument(
            f"A Poisson regression has a response with whole bounds that begin at 0; {response} lies between "
            f"{float(low):g} and {float(high):g}. Declare it as Bounded(0, B) with a whole B up to {LARGEST_COUNT}, "
            "or write column(...).clip(0, B).",
            argument="response",
        )
    if response.operation != "column" and schema.outside != "clamp":
        raise Unsupported(
            f"{response} is cut at {float(high):g}, and records outside their bounds were refused: both at once are "
            "not modelled. Use the column itself, or a schema with outside='clamp'."
        )


def response_cap(link: Link, high: float, *, clamps: bool) -> Cap:
    """What a holder did to counts above `high`."""
    return Cap(float(np.round(high)), not clamps) if link.is_count else Cap(1.0, False)


def largest_count(caps: Sequence[Cap]) -> float:
    """The largest bound of all holders."""
    return max(cap.cap for cap in caps)


def undeclared(link: Link, response: Feature) -> list[str]:
    """What is to be said of a yes/no response that is a number to the schema."""
    if link.is_count or is_discrete(response):
        return []
    return [
        f"{response} is taken to be 0 or 1 in every record, which its bounds do not say: declare it as Levels([0, 1]) "
        "and write equals(1)."
    ]
