"""The unit in which a number is told: that of the column it is made of, where nothing has changed it.

A mean, a sum or a median of `income` is in the column's unit, and so is one of clip(income, 0, 120) or abs(income). A
product, a power, a logarithm or a count is not; such numbers are shown bare. Units are captions (`Bounded(unit=)`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisewise.schema import Schema
from noisewise.statistics.feature import Feature
from noisewise.statistics.protocol import Statistic
from noisewise.statistics.text import feature_from_text

IN_THEIR_UNIT = ("mean", "sum", "truncated-sum", "median", "maximum", "minimum", "quantile", "records")


def feature_unit(feature: Feature, schema: Schema) -> str:
    """The unit of a feature, with a space before it; nothing where it has none."""
    while feature.operation in ("clip", "absolute"):
        feature = feature.arguments[0]
    unit = schema.units.get(feature.arguments[0]) if feature.operation == "column" else None
    return "" if unit is None else f" {unit}"


def component_units(statistic: Statistic, schema: Schema) -> tuple[str, ...]:
    """The unit of each component of a statistic, as `feature_unit` tells it."""
    size = len(statistic.labels(schema))
    plain: Mapping[str, Any] = statistic.to_dict()
    if not schema.units or plain["kind"] not in IN_THEIR_UNIT or "cells" in plain:
        return ("",) * size
    texts = plain["features"] if "features" in plain else [plain["feature"]]
    units = tuple(feature_unit(feature_from_text(text), schema) for text in texts)
    counts = size - len(units)  # of those present, before the sums over them
    return ("",) * counts + units
