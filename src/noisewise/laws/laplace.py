"""Discrete Laplace noise: P(k) = (1-a)/(1+a) a^|k| on whole steps, a = exp(-step/scale): geometric on counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noisewise.laws.numbers import Floats, floats, from_upper_tail, log1mexp
from noisewise.laws.protocol import (
    NOISES,
    AddedToPublished,
    AdditiveLaw,
    Mixing,
    NormalMixture,
    StatedNoise,
    register_law,
    stated_scale,
)


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


# ---- as a publisher states it ----


@dataclass(frozen=True, slots=True)
class _Laplace(AddedToPublished):
    kind: ClassVar[str] = "laplace"

    def family(self) -> type[AdditiveLaw]:
        return DiscreteLaplace

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "scale": list(self.scale), "rounded": self.is_rounded}

    def words(self) -> str:
        return f"Laplace noise of scale {self._spread()}."


@dataclass(frozen=True, slots=True)
class _Geometric(AddedToPublished):
    kind: ClassVar[str] = "geometric"

    def family(self) -> type[AdditiveLaw]:
        return DiscreteLaplace

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "scale": list(self.scale)}

    def words(self) -> str:
        return f"geometric noise (Laplace on whole numbers) of scale {self._spread()}."


def laplace_noise(*, scale: float | Sequence[float], rounded: bool = False) -> StatedNoise:
    """Laplace noise as a publisher states it: density exp(-|v|/scale)/(2 scale), on the published value.

    Parameters
    ----------
    scale
        b of each published number (sensitivity/epsilon; the sd is sqrt(2) b), in its units: on a mean it is that of
        the mean, not of the sum. One number serves all components, a list has one for each.
    rounded
        Whether noisy counts were rounded to whole numbers. Default False.

    Returns
    -------
    StatedNoise

    Examples
    --------
    >>> nw.laplace_noise(scale=0.5)
    _Laplace(scale=(0.5,), is_whole=False, is_rounded=False)
    """
    return _Laplace(stated_scale(scale, "scale"), is_rounded=bool(rounded))


def geometric_noise(*, scale: float | Sequence[float]) -> StatedNoise:
    """Noise of whole numbers, P(k) = (1-a)/(1+a) a^|k|, a = exp(-1/scale): Laplace noise as integers have it.

    Parameters
    ----------
    scale
        1/epsilon for a count that one record moves by 1. One number serves all components, a list has one for each.

    Returns
    -------
    StatedNoise

    Examples
    --------
    >>> nw.geometric_noise(scale=2)
    _Geometric(scale=(2.0,), is_whole=True, is_rounded=False)
    """
    return _Geometric(stated_scale(scale, "scale"), is_whole=True)


NOISES |= {"laplace": laplace_noise, "geometric": geometric_noise}
