"""Discrete Laplace noise: P(k) = (1-a)/(1+a) a^|k| on whole steps, a = exp(-step/scale): geometric on counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noisewise.laws.numbers import Floats, floats, from_upper_tail, log1mexp
from noisewise.laws.protocol import AdditiveLaw, Mixing, NormalMixture, register_law


@register_law
@dataclass(frozen=True, slots=True)
class DiscreteLaplace(AdditiveLaw):
    """P(k) = (1-a)/(1+a) a^|k|, a = exp(-step/scale); moving the sum by d changes log P by at most d/scale."""

    family: ClassVar[str] = "discrete-laplace"
    mechanism: ClassVar[str] = "laplace"
    is_log_concave: ClassVar[bool] = True

    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        rate = 1 / self._ratio(component)
        with np.errstate(over="ignore"):
            return np.asarray(log1mexp(rate) - math.log1p(math.exp(-rate)) - np.abs(floats(k)) * rate)

    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        rate = 1 / self._ratio(component)
        return from_upper_tail(k, lambda m: np.exp(-m * rate) / (1 + math.exp(-rate)))

    @property
    def sd(self) -> tuple[float, ...]:
        """sqrt(2a)/(1-a) steps."""
        return tuple(
            step * math.sqrt(2) * math.exp(-0.5 / r) / -math.expm1(-1 / r)
            for r, step in zip(self.ratio, self.step, strict=True)
        )

    def mixture(self) -> NormalMixture:
        return NormalMixture(Mixing.EXPONENTIAL, self.scale)

    def reach(self, tail: float, component: int = 0) -> int:
        return math.ceil(-math.log(tail) * self._ratio(component)) + 1
