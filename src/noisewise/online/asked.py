"""What was asked, as the numbers that the law of its answer needs.

A `Query` is what travels to a person; `Asked` is the same question without its id, with the noise in the units of x:
    clip     y = clip(x, low, high) + noise of the given scale (Laplace) or standard deviation (Gaussian)
    cells    y = the cell of x, cell j = [edge_{j-1}, edge_j), kept with probability `keep`, else any other alike
    levels   as cells: a level is its number, and edges lie half-way between numbers
The noise of a clipped answer is proportional to the width of its interval (`noise_share`), so a candidate question can
be judged before it is made into a Query, whose lattice then widens the noise by less than one part in 2^20.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from noisewise.errors import Unsupported
from noisewise.laws import Form, additive_law, cell_law, normal_mixture
from noisewise.laws.finite import randomized_response
from noisewise.populations.parameters import Array
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Query
from noisewise.schema import Level

__all__ = [
    "Asked",
    "Question",
    "asked_by",
    "asked_cells",
    "asked_clip",
    "asked_of",
    "level_edges",
    "noise_share",
    "question_of",
]

LARGEST = 1e90
FARTHEST_LAPLACE, FARTHEST_GAUSSIAN = 1000.0, 45.0  # in scales, in standard deviations


@dataclass(frozen=True, slots=True)
class Asked:
    """One question in numbers: an interval with its noise, or edges with their randomized response."""

    low: float = 0.0
    high: float = 0.0
    noise: float = 0.0  # Laplace scale or Gaussian standard deviation
    is_laplace: bool = True
    step: float = 1.0
    edges: tuple[float, ...] | None = None
    keep: float = 1.0
    other: float = 0.0
    column: str | None = None  # what is asked about, where there are several

    @property
    def is_huge(self) -> bool:
        """Whether its ends are larger than anything that is measured."""
        ends = (self.low, self.high) if self.edges is None else self.edges
        return not max(map(abs, ends)) < LARGEST

    @property
    def is_cells(self) -> bool:
        return self.edges is not None

    def can_be(self, reading: float) -> bool:
        """Whether noise reaches that far: beyond it an answer has a probability below e^-1000."""
        reach = self.noise * (FARTHEST_LAPLACE if self.is_laplace else FARTHEST_GAUSSIAN)
        return self.is_cells or self.low - reach <= reading <= self.high + reach

    @property
    def cell_ends(self) -> tuple[Array, Array]:
        """The ends of each cell, (cells,) and (cells,)."""
        ends = np.array([-np.inf, *(self.edges or ()), np.inf])
        return ends[:-1], ends[1:]

    @property
    def answer_count(self) -> int:
        """How many different answers a question about cells has."""
        return len(self.edges or ()) + 1


class Question(NamedTuple):
    """A query without its id."""

    guarantee: Guarantee
    low: float | None
    high: float | None
    edges: tuple[float, ...] | None
    levels: tuple[Level, ...] | None = None
    column: str | None = None

    def query(self, id: str | None = None) -> Query:
        """The question as a query again."""
        return Query(**self._asdict(), id=id)


def question_of(query: Query) -> Question:
    """What a query asks; two queries that differ in their ids alone ask the same."""
    return Question(query.guarantee, query.low, query.high, query.edges, query.levels, query.column)


def asked_of(query: Query) -> Asked:
    """The question that a query asks, in numbers."""
    return asked_by(question_of(query))


@lru_cache(maxsize=8192)
def asked_by(question: Question) -> Asked:
    """A question in numbers; its law is settled once."""
    query = question.query()
    law = query.law
    if law.form is Form.CELL:
        law = cell_law(law)
        edges = query.edges or level_edges(law.cells)
        return Asked(edges=edges, keep=float(law.keep), other=float(law.other), column=query.column)
    assert query.low is not None
    assert query.high is not None
    noise = normal_mixture(law)
    step = float(additive_law(law).step[0])
    return Asked(query.low, query.high, float(noise.scale[0]), noise.is_laplace, step, column=query.column)


def level_edges(count: int) -> tuple[float, ...]:
    """Half-way between the numbers of so many levels."""
    return tuple(k + 0.5 for k in range(count - 1))


@lru_cache(maxsize=256)
def asked_unit(guarantee: Guarantee) -> Asked:
    """A clipped answer on [0, 1]: its noise is the share of the width that any interval gets."""
    return asked_of(Query.clip(0, 1, guarantee=guarantee))


def noise_share(guarantee: Guarantee) -> float:
    """The noise of a clipped answer as a share of the interval's width."""
    return asked_unit(guarantee).noise


def asked_clip(low: float, high: float, guarantee: Guarantee) -> Asked:
    """A candidate interval."""
    unit = asked_unit(guarantee)
    return Asked(low, high, (high - low) * unit.noise, unit.is_laplace)


def asked_cells(edges: tuple[float, ...], guarantee: Guarantee) -> Asked:
    """Candidate cells."""
    keep, other = _kept(guarantee, len(edges) + 1)
    return Asked(edges=edges, keep=keep, other=other)


@lru_cache(maxsize=256)
def _kept(guarantee: Guarantee, cells: int) -> tuple[float, float]:
    epsilon = guarantee.pure_epsilon
    if epsilon is None:
        raise Unsupported(f"Questions about cells need PureDP, not {guarantee!r}.")
    law = randomized_response(cells, epsilon)
    return float(law.keep), float(law.other)


def is_rising(edges: tuple[float, ...]) -> bool:
    """Whether edges increase strictly, as cells need."""
    return all(a < b for a, b in pairwise(edges))
