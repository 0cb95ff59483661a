"""The answer of a continuous design: a ready plan with tidy numbers, the exact maximum beside it, and what it gains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from noisewise.errors import Unsupported
from noisewise.planning import Plan
from noisewise.statistics.feature import number_text


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The best member of a continuous family of plans."""

    what: str  # exponent, clamp, weights or cells
    plan: Plan  # with tidy numbers
    values: tuple[Fraction, ...] | tuple[float, ...]  # those numbers
    best: tuple[float, ...]  # where the maximum was found
    score: float  # of the plan
    best_score: float  # at the maximum
    score_name: str
    baseline: Plan
    baseline_score: float
    gain: float  # the plan's information over that of the baseline
    compared: tuple[tuple[Plan, float], ...]  # other plans of the family, and their gains over the baseline
    where: str  # at which parameter values
    note: str  # what to know about the search; empty if nothing

    @property
    def value(self) -> Fraction | float:
        """The number, where there is only one."""
        if len(self.values) != 1:
            raise Unsupported(f"The {self.what} has {len(self.values)} numbers: read .values.")
        return self.values[0]

    def __str__(self) -> str:
        lines = [
            f"{self.plan}",
            f"  {self.what} {_listed(self.values)} (the maximum is at {_listed(self.best)})",
            f"  {_times(self.gain)} the information of {self.baseline.statistic}{_weights(self)} "
            f"(score {self.score_name!r}: {self.score:.5g} against {self.baseline_score:.5g}), {self.where}",
        ]
        lines += [f"  {_times(gain):>14}  {plan.statistic}" for plan, gain in self.compared]
        return "\n".join([*lines, f"  {self.note}"] if self.note else lines)


def _times(gain: float) -> str:
    return "gain not defined against" if math.isnan(gain) else f"{gain:.3g} times"


def _weights(optimum: Optimum) -> str:
    return " with unit-range weights" if optimum.what == "weights" else ""


def _listed(values: tuple[Fraction, ...] | tuple[float, ...]) -> str:
    shown = [
        str(v) if isinstance(v, Fraction) else number_text(v) if len(number_text(v)) < 8 else f"{v:.3g}" for v in values
    ]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
