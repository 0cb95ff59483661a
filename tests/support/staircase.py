"""A noise law from outside the package: the staircase (Geng & Viswanath 2016), in the three pieces a law needs.

On whole steps, with D steps of sensitivity and a first stair of g:  P(k) = e^{-epsilon level(|k|)}/Z, the level being 0
below g and rises by one at g, g + D, g + 2D, ... A shift by at most D steps passes at most one edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

import noisewise as nw
from noisewise import exact
from noisewise.holder import draw
from noisewise.laws import AdditiveLaw, register_law
from noisewise.laws.protocol import FAMILIES
from noisewise.likelihood.simulate import simulated_steps
from noisewise.privacy.mechanism import ADDITIVE, TABLE, AddedNoise, Mechanism, register_mechanism


@dataclass(frozen=True, slots=True)
class Staircase(AdditiveLaw):
    """Staircase noise; scale is the sensitivity over epsilon."""

    epsilon: Fraction = Fraction(1)
    family: ClassVar[str] = "staircase"
    mechanism: ClassVar[str] = "staircase"

    def __post_init__(self) -> None:
        super(Staircase, self).__post_init__()
        object.__setattr__(self, "epsilon", exact.fraction(self.epsilon, "epsilon", positive=True))

    def to_dict(self) -> dict[str, object]:
        return {**super(Staircase, self).to_dict(), "epsilon": str(self.epsilon)}

    def stairs(self, ratio: Fraction) -> tuple[int, int]:
        """D and g at r = scale/step."""
        wide = max(1, math.ceil(ratio * self.epsilon))
        return wide, max(1, min(wide, round(wide / (1 + math.exp(float(self.epsilon) / 2)))))

    def _stairs(self, component: int) -> tuple[int, int]:
        return self.stairs(Fraction(self.scale[component]) / Fraction(self.step[component]))

    def _log_total(self, component: int) -> float:
        wide, first = self._stairs(component)
        return math.log(2 * first - 1 + 2 * wide / math.expm1(float(self.epsilon)))

    def log_pmf(self, k, component=0):
        wide, first = self._stairs(component)
        m = np.abs(np.asarray(k, dtype=float))
        level = np.where(m < first, 0.0, np.floor((m - first) / wide) + 1)
        return -float(self.epsilon) * level - self._log_total(component)

    def cdf(self, k, component=0):
        """By the mass below -m: whole stairs in closed form, and the part of the stair that m stands on."""
        wide, first = self._stairs(component)
        rate, k = float(self.epsilon), np.asarray(k, dtype=float)
        m = np.where(k < 0, -k, k + 1)  # P(K <= k) = P(K >= m) below 0, one minus it above
        level = np.floor(np.maximum(m - first, 0.0) / wide) + 1
        outer = first + level * wide  # the next edge beyond m
        on_stair = np.maximum(outer - np.maximum(m, first), 0) * np.exp(-rate * level)
        beyond = on_stair + wide * np.exp(-rate * (level + 1)) / -math.expm1(-rate) + np.maximum(first - m, 0)
        tail = beyond / math.exp(self._log_total(component))
        return np.where(k < 0, tail, 1 - tail)

    @property
    def sd(self) -> tuple[float, ...]:
        found = []
        for component, step in enumerate(self.step):
            wide, first = self._stairs(component)
            edges = [0, *(first + wide * j for j in range(math.ceil(80 / float(self.epsilon)) + 2))]
            squares = [(b - 1) * b * (2 * b - 1) / 6 - (a - 1) * a * (2 * a - 1) / 6 for a, b in pairwise(edges)]
            weights = np.exp(-float(self.epsilon) * np.arange(len(squares)) - self._log_total(component))
            found.append(step * math.sqrt(2 * float(weights @ np.array(squares, dtype=float))))
        return tuple(found)


def scale(sensitivity: Fraction, guarantee: nw.PureDP) -> Fraction:
    return sensitivity / guarantee.epsilon


def law(scales: tuple[float, ...], steps: tuple[float, ...], guarantee: nw.PureDP) -> Staircase:
    return Staircase(scales, steps, guarantee.epsilon)


STAIRCASE = Mechanism(
    "staircase", (nw.PureDP,), (*ADDITIVE, "answers"), AddedNoise(1, scale, law, is_for_vectors=False)
)


def sample(primitives: draw.Primitives, law: Staircase, ratio: Fraction, count: int) -> list[int]:
    """A level of weight e^{-epsilon j}, then a point of it; the first level has fewer points than the others."""
    wide, first = law.stairs(ratio)
    drawn: list[int] = []
    while len(drawn) < count:
        level, place = primitives.geometric_exp(law.epsilon), primitives.uniform_below(2 * wide)
        if level == 0 and place < 2 * first - 1:
            drawn.append(place - first + 1)
        elif level > 0:
            size = first + (level - 1) * wide + place % wide
            drawn.append(size if place < wide else -size)
    return drawn


def simulate(law: Staircase, rng: np.random.Generator, ratio, shape):
    wide, first = law.stairs(Fraction(float(ratio)))
    count = int(np.prod(shape))
    found = np.empty(0, dtype=np.int64)
    while found.size < count:
        level = rng.geometric(-math.expm1(-float(law.epsilon)), 2 * count + 20) - 1
        place = rng.integers(0, 2 * wide, level.size)
        size = first + (level - 1) * wide + place % wide
        value = np.where(level > 0, np.where(place < wide, size, -size), place - first + 1)
        found = np.concatenate([found, value[(level > 0) | (place < 2 * first - 1)]])
    return found[:count].reshape(shape)


PIECES = ("law", "mechanism", "sampler", "simulated_steps")


@contextmanager
def registered(*pieces: str) -> Iterator[type[Staircase]]:
    """The staircase with these pieces registered, and forgotten afterwards."""
    with ExitStack() as stack:
        if "law" in pieces:
            register_law(Staircase)
            stack.callback(FAMILIES.pop, Staircase.family)
        if "mechanism" in pieces:
            register_mechanism(STAIRCASE)
            stack.callback(TABLE.remove, STAIRCASE)
        if "sampler" in pieces:
            draw.register_sampler(Staircase.family, sample)
            stack.callback(draw._SAMPLERS.pop, Staircase.family)
        if "simulated_steps" in pieces:
            simulated_steps.register(Staircase, simulate)
            stack.callback(simulated_steps.register, Staircase, simulated_steps.dispatch(object))
        yield Staircase
