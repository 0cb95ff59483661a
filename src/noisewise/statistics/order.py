"""Order statistics: median, maximum, minimum, and private quantiles.

Their global sensitivity is the whole range, so noise is scaled to the *smooth* sensitivity of the records at
hand (`privacy/smooth.py`), which stays secret; a release names the rule only. The median is the lower one,
s_(ceil(n/2)), a real order statistic for every n. `Quantile` goes through the exponential mechanism unless it is told
otherwise; under smooth sensitivity it is s_(ceil(q n)). Change-one only: the index moves with n.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument, InvalidSpec, Unsupported
from noisewise.exact import fraction, power_of_two_below, text
from noisewise.lattice import Lattice, lattice_for
from noisewise.privacy import smooth
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import ruled_law
from noisewise.schema import Schema, checked_schema
from noisewise.statistics.additive import columns_of, read_features
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature
from noisewise.statistics.polynomial import is_constant
from noisewise.statistics.protocol import Rows, Settled, Sort, Statistic, Whole, refuse_weights
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, exact
from noisewise.statistics.settling import ONE

LOWER_MEDIAN = "ceil(n/2)"


class OrderStatistic(Statistic):
    """What order statistics share: one feature, one rank, the range as global sensitivity."""

    __slots__ = ()
    sort: ClassVar[Sort] = Sort.ORDER
    takes_weights: ClassVar[bool] = False
    needs_public_n: ClassVar[bool] = True

    def why_not_left_out(self) -> str | None:
        return "it is the value at a rank among all records, and how many there are would be private"

    feature: Feature

    @abstractmethod
    def rank(self, n: int) -> int:
        """Which of n sorted records it is, from 1."""

    def columns(self) -> tuple[str, ...]:
        return columns_of((self.feature,))

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
        if not low < high or is_constant(self.feature):
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
        refuse_weights(self, weights)
        low, high = self.bounds(schema)
        return exact(Fraction(high) - Fraction(low), checked_norm(norm), "one record can move it across the range")

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        refuse_weights(self, weights)
        return Settled(ONE, ruled_law(mechanism, guarantee, self.step(schema)), self.lattice(schema), None)

    def lattice(self, schema: Schema) -> Lattice:
        """The points between the bounds on which the statistic lies."""
        return lattice_for([self.step(schema)], [(*self.bounds(schema), 0.0)])

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        return rows.window(self.feature, lattice, rank=self.rank(rows.n), reach=0).values

    def scaled(
        self, rows: Rows, lattice: Lattice, *, alpha: Fraction, beta: float
    ) -> tuple[Whole, NDArray[np.float64]]:
        """The value (K, 1) and its smooth sensitivity (K,), from the ranks that can matter."""
        rank, low, high = self.rank(rows.n), float(lattice.low[0]), float(lattice.high[0])
        floor = smooth.scale_floor(step=1.0, alpha=alpha)
        reach = smooth.reach(beta=beta, low=low, high=high, floor=floor) + 1
        window = rows.window(self.feature, lattice, rank=rank, reach=reach)
        index = rank - window.first
        found = [
            smooth.smooth_scale(values, index=index + 1, low=low, high=high, beta=beta)
            for values in window.values.astype(float)
        ]
        scales = [smooth.floored(scale, step=1.0, alpha=alpha) for scale in found]
        return window.values[:, index, None], np.array(scales)

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        values = np.sort(self.feature.value(columns, schema), axis=-1)
        return values[..., self.rank(values.shape[-1]) - 1, None]

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "feature": str(self.feature)}

    def __str__(self) -> str:
        return f"{self.kind}({self.feature})"


@dataclass(frozen=True, slots=True, init=False)
class Median(OrderStatistic):
    """The lower median s_(ceil(n/2)) of a feature, with noise by smooth sensitivity. Change-one only.

    Parameters
    ----------
    feature
        The name of a column, or a feature.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> print(nw.plan(nw.Median("income"), schema, guarantee=nw.PureDP(1)))
    median(income) by smooth-cauchy at epsilon = 1
    """

    feature: Feature
    kind: ClassVar[str] = "median"

    def __init__(self, feature: object) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Median")[0])

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        named = dict(entries)
        if named.pop("index", LOWER_MEDIAN) != LOWER_MEDIAN:
            raise InvalidSpec(f"The median is the lower one, index {LOWER_MEDIAN!r}.", where="statistic.index")
        return cls(**named)

    def rank(self, n: int) -> int:
        return (n + 1) // 2

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "feature": str(self.feature), "index": LOWER_MEDIAN}


@dataclass(frozen=True, slots=True, init=False)
class Maximum(OrderStatistic):
    """The largest value of a feature, with noise by smooth sensitivity. Change-one only.

    Parameters
    ----------
    feature
        The name of a column, or a feature.

    Examples
    --------
    >>> nw.Maximum("income").rank(4000)
    4000
    """

    feature: Feature
    kind: ClassVar[str] = "maximum"

    def __init__(self, feature: object) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Maximum")[0])

    def rank(self, n: int) -> int:
        return n


@dataclass(frozen=True, slots=True, init=False)
class Minimum(OrderStatistic):
    """The smallest value of a feature, with noise by smooth sensitivity. Change-one only.

    Parameters
    ----------
    feature
        The name of a column, or a feature.

    Examples
    --------
    >>> nw.Minimum("income").rank(4000)
    1
    """

    feature: Feature
    kind: ClassVar[str] = "minimum"

    def __init__(self, feature: object) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Minimum")[0])

    def rank(self, n: int) -> int:
        return 1


@dataclass(frozen=True, slots=True, init=False)
class Quantile(OrderStatistic):
    """The q-quantile of a feature. Change-one only.

    By the exponential mechanism (the default) a lattice point y with |#{x < y} - q n| small; under smooth sensitivity
    (`mechanism="smooth-laplace"`, `"smooth-cauchy"`) the value s_(ceil(q n)) with noise.

    Parameters
    ----------
    feature
        The name of a column, or a feature.
    q
        Strictly between 0 and 1; a text such as "0.95" is exact.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> nw.plan(nw.Quantile("income", "0.95"), schema, guarantee=nw.PureDP(1)).mechanism
    'exponential'
    """

    feature: Feature
    q: Fraction
    kind: ClassVar[str] = "quantile"
    sort: ClassVar[Sort] = Sort.QUANTILE

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


def quantile_statistic(statistic: Statistic) -> Quantile:
    """The statistic as a quantile; others are refused."""
    if not isinstance(statistic, Quantile):
        raise Unsupported(f"{statistic.kind} is no quantile.")
    return statistic
