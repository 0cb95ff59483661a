"""What one person is asked in the local model, and the law of the answer.

A `Query` is plain data that travels to the respondent; `holder.respond` answers it there, with the noise added before
anything leaves. An answer is one integer: a lattice value (clip the value to [low, high], add noise) or a cell (say
which interval the value lies in, through randomized response). Whoever knows the query knows the law of the answer.

    Query.clip(low, high, guarantee=...)    y = clip(x, low, high) + noise on the lattice
    Query.cells(edges, guarantee=...)       y = cell of x, kept with probability `keep`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from noisewise.deprecation import by_name
from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.laws import Form, Law, cell_law
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import Guarantee, checked_guarantee, guarantee_from_dict
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Records, column
from noisewise.statistics.tables import read_edges

LONGEST_ID = 200
_ONE = column("x")


@dataclass(frozen=True, slots=True, init=False)
class Query:
    """One private question: clip and add noise (`low`, `high`), or name a cell (`edges`). Plain data."""

    guarantee: Guarantee
    low: float | None = None
    high: float | None = None
    edges: tuple[float, ...] | None = None
    id: str | None = None

    @by_name(
        "guarantee",
        write="Query(low=0, high=1, guarantee=PureDP(1))",
        places=("self", "guarantee", "low", "high", "edges", "id"),
    )
    def __init__(
        self,
        *,
        guarantee: Guarantee,
        low: float | None = None,
        high: float | None = None,
        edges: Sequence[float] | None = None,
        id: str | None = None,
    ) -> None:
        if [end is None for end in (low, high)] != [edges is not None] * 2:
            raise InvalidArgument("A query has either low and high, or edges.", argument="query")
        if id is not None and not (isinstance(id, str) and len(id) <= LONGEST_ID):
            raise InvalidArgument(f"id must be a text of at most {LONGEST_ID} characters.", argument="id")
        bounds = None if edges is not None else Bounded(low, high)
        object.__setattr__(self, "low", None if bounds is None else bounds.low)
        object.__setattr__(self, "high", None if bounds is None else bounds.high)
        object.__setattr__(self, "edges", None if edges is None else read_edges(edges))
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "guarantee", checked_guarantee(guarantee))
        self.plan()  # checks that they fit

    @classmethod
    @by_name("guarantee", write="Query.clip(0, 1, guarantee=PureDP(1))", places=("cls", "low", "high", "guarantee"))
    def clip(cls, low: float, high: float, *, guarantee: Guarantee, id: str | None = None) -> Query:
        return cls(guarantee=guarantee, low=low, high=high, id=id)

    @classmethod
    @by_name("guarantee", write="Query.cells([0], guarantee=PureDP(1))", places=("cls", "edges", "guarantee"))
    def cells(cls, edges: Sequence[float], *, guarantee: Guarantee, id: str | None = None) -> Query:
        return cls(guarantee=guarantee, edges=edges, id=id)

    def plan(self, *, n: int = 1) -> Plan:
        """The query as a release of one record: its law, lattice and price come from the same rules.

        With n, of so many people who were asked the same: each answers once, so neither law nor price changes.
        """
        return _plan_of(self.guarantee, self.low, self.high, self.edges, n)

    @property
    def law(self) -> Law:
        return self.plan().law

    def to_dict(self) -> dict[str, Any]:
        asked: dict[str, Any] = (
            {"edges": list(self.edges)} if self.edges is not None else {"low": self.low, "high": self.high}
        )
        return {**asked, "guarantee": self.guarantee.to_dict(), "law": self.law.to_dict(), "id": self.id}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Query:
        """Read a query; a law that is not the one its guarantee implies is refused."""
        known = {"edges", "low", "high", "guarantee", "law", "id"}
        if not isinstance(data, Mapping) or set(data) - known or not isinstance(data.get("guarantee"), Mapping):
            raise InvalidArgument("A query has low and high or edges, a guarantee, a law and an id.", argument="query")
        query = cls(
            guarantee=guarantee_from_dict(data["guarantee"]),
            low=data.get("low"),
            high=data.get("high"),
            edges=data.get("edges"),
            id=data.get("id"),
        )
        if "law" in data and not _is_same(data["law"], query.law.to_dict()):
            raise InvalidArgument(
                "The query's law is not the one its guarantee implies; do not answer it.", argument="law"
            )
        return query


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's noisy answer together with the query it answers."""

    query: Query
    value: int

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise InvalidArgument("query must be a Query; read one with Query.from_dict.", argument="query")
        law = self.query.law
        if law.form is Form.CELL:
            value = integer(self.value, "value", minimum=0, maximum=cell_law(law).cells - 1)
        else:
            value = integer(self.value, "value", minimum=-(2**63), maximum=2**63)
        object.__setattr__(self, "value", value)

    @property
    def reading(self) -> float:
        """The noisy value in the units of x, or the cell's number."""
        return float(self.query.law.read(np.array([float(self.value)]))[0])

    def to_dict(self) -> dict[str, Any]:
        return {"query": self.query.to_dict(), "value": self.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """Read an answer with its query; both are checked as if they were new."""
        if not isinstance(data, Mapping) or set(data) != {"query", "value"}:
            raise InvalidArgument("An answer has exactly a query and a value.", argument="answer")
        return cls(Query.from_dict(data["query"]), data["value"])


@lru_cache(maxsize=512)
def _plan_of(
    guarantee: Guarantee, low: float | None, high: float | None, edges: tuple[float, ...] | None, n: int
) -> Plan:
    """Planned once: a query is checked, answered and taken in one after the other, and surveys repeat questions."""
    if edges is not None:
        bounds = Bounded(edges[0] - 1 - abs(edges[0]), edges[-1] + 1 + abs(edges[-1]))
        statistic = Records(_ONE, cells=edges)
    else:
        bounds, statistic = Bounded(low, high), Records(_ONE)
    schema = Schema({"x": bounds}, n=n, neighbours="change-one")
    return plan(statistic, schema, guarantee=guarantee)


def _is_same(given: object, law: Mapping[str, Any]) -> bool:
    """Whether a law is written as it must be; what cannot be compared (an array) is not."""
    try:
        return bool(given == law)
    except (ValueError, TypeError):
        return False
