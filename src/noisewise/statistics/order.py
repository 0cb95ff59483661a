"""Order statistics: median, maximum, minimum, and private quantiles.

Their global sensitivity is the whole range, so noise is scaled to the *smooth* sensitivity of the records at
hand (`privacy/smooth.py`), which stays secret; a release names the rule only. The median is the lower one,
s_(ceil(n/2)), a real order statistic for every n. `Quantile` goes through the exponential mechanism and serves
to set bounds, on records that are not used again. Change-one only: the index moves with n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction, power_of_two_below, text
from noisewise.schema import Schema, checked_schema
from noisewise.statistics.additive import read_features
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, exact

LOWER_MEDIAN = "ceil(n/2)"


class OrderStatistic:
    """What order statistics share: one feature, one rank, the range as global sensitivity. Abstract."""

    __slots__ = ()
    kind: ClassVar[str]
    is_count: ClassVar[bool] = False
    feature: Feature

    def rank(self, n: int) -> int:
        raise TypeError(f"{type(self).__name__} must say which order statistic it is.")

    def labels(self, schema: Schema) -> tuple[str, ...]:
        return (str(self),)

    def bounds(self, schema: Schema) -> tuple[float, float]:
        """The range of the feature, between which the statistic lies."""
        if not checked_schema(schema).is_change_one:
            raise Unsupported(f"{self.kind} needs neighbours='change-one': its index moves with the number of records.")
        low, high, _ = feature_range(self.feature, schema)
        return low, high

    def step(self, schema: Schema) -> float:
        """The lattice of an order statistic: the largest power of two <= 2^-40 (high - low).

        It is never finer than 2^-50 of the largest value, below which doubles could not tell values apart.
        """
        low, high = (Fraction(end) for end in self.bounds(schema))
        if not low < high:
            raise InvalidArgument(f"The feature {self.feature} is constant; it tells nothing.", argument="feature")
        step = max(power_of_two_below((high - low) / 2**40), power_of_two_below(max(abs(low), abs(high)) / 2**50))
        if step > (high - low) / 2**20:
            raise Unsupported(
                f"The range of {self.feature} is too narrow beside the size of its values; subtract a public constant "
                "first. Nothing was spent."
            )
        return float(step)

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        """The *global* sensitivity, the whole range; releases use the smooth one, which is secret."""
        if weights is not None:
            raise InvalidArgument(f"{self.kind} has one component and takes no weights.", argument="weights")
        low, high = self.bounds(schema)
        return exact(Fraction(high) - Fraction(low), checked_norm(norm), "one record can move it across the range")

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        values = np.sort(self.feature.value(columns, schema), axis=-1)
        return values[..., self.rank(values.shape[-1]) - 1, None]

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "feature": str(self.feature)}

    def __str__(self) -> str:
        return f"{self.kind}({self.feature})"


@dataclass(frozen=True, slots=True, init=False)
class Median(OrderStatistic):
    """The lower median s_(ceil(n/2)) of a feature."""

    feature: Feature
    kind: ClassVar[str] = "median"

    def __init__(self, feature: object) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Median")[0])

    def rank(self, n: int) -> int:
        return (n + 1) // 2

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "feature": str(self.feature), "index": LOWER_MEDIAN}


@dataclass(frozen=True, slots=True, init=False)
class Maximum(OrderStatistic):
    """The largest value of a feature."""

    feature: Feature
    kind: ClassVar[str] = "maximum"

    def __init__(self, feature: object) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Maximum")[0])

    def rank(self, n: int) -> int:
        return n


@dataclass(frozen=True, slots=True, init=False)
class Minimum(OrderStatistic):
    """The smallest value of a feature."""

    feature: Feature
    kind: ClassVar[str] = "minimum"

    def __init__(self, feature: object) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Minimum")[0])

    def rank(self, n: int) -> int:
        return 1


@dataclass(frozen=True, slots=True, init=False)
class Quantile(OrderStatistic):
    """The q-quantile of a feature by the exponential mechanism: a lattice point y with |#{x < y} - q n| small."""

    feature: Feature
    q: Fraction
    kind: ClassVar[str] = "quantile"

    def __init__(self, feature: object, q: object) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Quantile")[0])
        object.__setattr__(self, "q", fraction(q, "q", positive=True))
        if self.q >= 1:
            raise InvalidArgument(f"q = {q!r} must lie strictly between 0 and 1.", argument="q")

    def rank(self, n: int) -> int:
        return max(1, math.ceil(self.q * n))

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "feature": str(self.feature), "q": text(self.q)}

    def __str__(self) -> str:
        return f"quantile({self.feature}, {text(self.q)})"
