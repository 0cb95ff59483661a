"""The world that studies of groups share: people in groups of stated sizes, one release by group, noise of a kind.

A column x in [0, 100] and a column g with a level for every group; `plan` is what is released of them. Trials of a grid
go through `gathered`, a few of one world at a time, so that a process has something to do and progress is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from noisewise.likelihood.size_prior import Size
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import statistic
from noisewise_papers.study import Setup

__all__ = ["NOISES", "NUMBERS", "GroupWorld", "gathered"]

NOISES = ("laplace", "gaussian")
# Who knows the number of people: everybody (change-one); under add-remove the analyst, or nobody.
NUMBERS = ("public", "stated", "learnt")
MOST = 40_000  # people, where their number is learnt
SURENESS = 40  # its prior has an sd of 1/sqrt(40) of its mean, a sixth
GUARANTEES = {"laplace": ("pure-dp", "epsilon"), "gaussian": ("gaussian-dp", "mu")}
Cell = TypeVar("Cell")
Value = TypeVar("Value")
Task = Callable[[np.random.Generator, tuple[Cell, int]], dict[str, list[Value]]]


@dataclass(frozen=True, slots=True)
class GroupWorld:
    """Groups of these sizes, expected or true; the noise, its guarantee, and who knows the number of people."""

    sizes: tuple[int, ...]
    noise: str
    epsilon: float
    number: str = "public"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"g{k}" for k in range(len(self.sizes)))

    @property
    def total(self) -> int:
        return sum(self.sizes)

    @property
    def n(self) -> Size | None:
        """What the analyst says of the number of people: nothing where it is public, else the number or its prior."""
        return {"public": None, "stated": self.total, "learnt": self._prior}[self.number]

    @property
    def _prior(self) -> Size:
        from scipy import stats

        prior: Size = stats.nbinom(SURENESS, SURENESS / (SURENESS + self.total))
        return prior

    @property
    def _schema(self) -> Schema:
        columns: dict[str, Bounded | Levels] = {"x": Bounded(0, 100), "g": Levels(self.names)}
        if self.number == "public":
            return Schema(columns, n=self.total, neighbours="change-one")
        most = {"stated": self.total, "learnt": MOST}[self.number]
        return Schema(columns, n_max=most, neighbours="add-remove")

    def plan(self, text: str) -> Plan:
        """The release of a statistic, such as mean(x, by=g)."""
        kind, unit = GUARANTEES[self.noise]
        guarantee = guarantee_from_dict({"kind": kind, unit: f"{self.epsilon:g}"})
        return plan(statistic(text), self._schema, guarantee=guarantee)


def gathered(
    setup: Setup, task: Task[Cell, Value], cells: Sequence[Cell], *, trials: int, at_once: int, what: str
) -> dict[tuple[Cell, str], list[Value]]:
    """What `task` lists by name, over so many trials of every cell, `at_once` of them in one call."""
    batches = [(cell, min(at_once, trials - done)) for cell in cells for done in range(0, trials, at_once)]
    found: dict[tuple[Cell, str], list[Value]] = {}
    for (cell, _), by_name in zip(batches, setup.map(task, batches, what), strict=True):
        for name, values in by_name.items():
            found.setdefault((cell, name), []).extend(values)
    return found
