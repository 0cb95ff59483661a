"""Laws scaled to a smooth bound of the local sensitivity (`privacy.smooth`): the rule is public, the scale secret."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noisewise.laws.numbers import Floats, floats, from_upper_tail, log1mexp
from noisewise.laws.protocol import SmoothLaw, SmoothShape, register_law


@register_law
@dataclass(frozen=True, slots=True)
class SmoothLaplace(SmoothLaw):
    """K = round(S/(alpha step) V), V ~ Laplace(1)."""

    family: ClassVar[str] = "smooth-laplace"
    mechanism: ClassVar[str] = "smooth-laplace"

    def shape(self) -> SmoothShape:
        return SmoothShape.LAPLACE

    def log_pmf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        rate, m = 1 / self._ratio(smooth_scale), np.abs(floats(k))
        beside = log1mexp(rate) - math.log(2) - np.maximum(m - 0.5, 0.0) * rate
        return np.where(m == 0, log1mexp(rate / 2), beside)

    def cdf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        rate = 1 / self._ratio(smooth_scale)
        return from_upper_tail(k, lambda m: np.exp(-(m - 0.5) * rate) / 2)


@register_law
@dataclass(frozen=True, slots=True)
class SmoothCauchy(SmoothLaw):
    """K = round(S/(alpha step) C), C standard Cauchy.

    P(k) = (atan(b) - atan(a))/pi with a, b = (k -+ 1/2)/r, which is atan2(r, r^2 + k^2 - 1/4)/pi without cancellation.
    """

    family: ClassVar[str] = "smooth-cauchy"
    mechanism: ClassVar[str] = "smooth-cauchy"

    def shape(self) -> SmoothShape:
        return SmoothShape.CAUCHY

    def log_pmf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        r, m = self._ratio(smooth_scale), floats(k)
        return np.asarray(np.log(np.arctan2(r, r * r + (m * m - 0.25)) / np.pi))

    def cdf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        return np.asarray(np.arctan2(self._ratio(smooth_scale), -(floats(k) + 0.5)) / np.pi)
