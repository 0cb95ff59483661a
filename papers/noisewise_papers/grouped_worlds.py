"""The world that studies of groups share: people in groups of stated sizes, one release by group, noise of a kind.

A column x in [0, 100] and a column g with a level for every group; `plan` is what is released of them. Trials of a grid
go through `gathered`, a few of one world at a time, so that a process has something to do and progress is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import statistic
from noisewise_papers.study import Setup

__all__ = ["NOISES", "RELATIONS", "GroupWorld", "gathered"]

NOISES, RELATIONS = ("laplace", "gaussian"), ("change-one", "add-remove")
GUARANTEES = {"laplace": ("pure-dp", "epsilon"), "gaussian": ("gaussian-dp", "mu")}
Cell = TypeVar("Cell")
Value = TypeVar("Value")
Task = Callable[[np.random.Generator, tuple[Cell, int]], dict[str, list[Value]]]


@dataclass(frozen=True, slots=True)
class GroupWorld:
    """Groups of these sizes, expected or true; the noise, its guarantee's number, and the neighbour relation."""

    sizes: tuple[int, ...]
    noise: str
    epsilon: float
    neighbours: str = "change-one"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"g{k}" for k in range(len(self.sizes)))

    @property
    def total(self) -> int:
        return sum(self.sizes)

    @property
    def stated_n(self) -> int | None:
        """What the analyst has to state: the number of people where it is private."""
        return None if self.neighbours == "change-one" else self.total

    def plan(self, text: str) -> Plan:
        """The release of a statistic, such as mean(x, by=g)."""
        columns: dict[str, Bounded | Levels] = {"x": Bounded(0, 100), "g": Levels(self.names)}
        public, most = (self.total, None) if self.stated_n is None else (None, self.total)
        schema = Schema(columns, n=public, n_max=most, neighbours=self.neighbours)
        kind, number = GUARANTEES[self.noise]
        guarantee = guarantee_from_dict({"kind": kind, number: f"{self.epsilon:g}"})
        return plan(statistic(text), schema, guarantee=guarantee)


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
