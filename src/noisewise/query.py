"""What one person is asked in the local model, and the law of the answer.

A `Query` is plain data that travels to the respondent; `holder.respond` answers it there, with the noise added before
anything leaves. An answer is one integer: a lattice value (clip the value to [low, high], add noise), a cell (say
which interval the value lies in, through randomized response) or a level. Whoever knows the query knows the law of the
answer.

    Query.clip(low, high, guarantee=...)    y = clip(x, low, high) + noise on the lattice
    Query.cells(edges, guarantee=...)       y = cell of x, kept with probability `keep`
    Query.choice(levels, guarantee=...)     y = the place of x among the levels, kept with probability `keep`

A person who may be asked about one of several things is told which one by `column`.
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
from noisewise.schema import Bounded, Level, Levels, Schema
from noisewise.statistics import Records
from noisewise.statistics import column as feature_of
from noisewise.statistics.tables import read_edges

LONGEST_ID = 200
UNNAMED = "x"  # the column of a query that names none


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Query:
    """One private question: clip and add noise (`low`, `high`), name a cell (`edges`) or a level. Plain data.

    Parameters
    ----------
    guarantee
        What one answer costs.
    low, high
        The value is moved into [low, high], in its own unit, and gets noise.
    edges
        The answer is the cell between these edges, through randomized response.
    levels
        The answer is one of these levels, through randomized response.
    id
        A name of at most 200 characters, by which a retry is known. Default None.
    column
        What is asked about, where a person has several things. Default None.

    Examples
    --------
    >>> nw.Query.cells([20, 40, 60], guarantee=nw.PureDP(2)).law.cells
    4
    """

    guarantee: Guarantee
    low: float | None = None
    high: float | None = None
    edges: tuple[float, ...] | None = None
    id: str | None = None
    levels: tuple[Level, ...] | None = None
    column: str | None = None  # what is asked about, where a person has several

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
        levels: Sequence[Level] | None = None,
        column: str | None = None,
    ) -> None:
        is_cells = edges is not None or levels is not None
        if [end is None for end in (low, high)] != [is_cells] * 2 or (edges is not None and levels is not None):
            raise InvalidArgument("A query has either low and high, or edges, or levels.", argument="query")
        for argument, text in (("id", id), ("column", column)):
            if text is not None and not (isinstance(text, str) and len(text) <= LONGEST_ID):
                raise InvalidArgument(
                    f"{argument} must be a text of at most {LONGEST_ID} characters.", argument=argument
                )
        bounds = None if is_cells else Bounded(low, high)
        object.__setattr__(self, "low", None if bounds is None else bounds.low)
        object.__setattr__(self, "high", None if bounds is None else bounds.high)
        object.__setattr__(self, "edges", None if edges is None else read_edges(edges))
        object.__setattr__(self, "levels", None if levels is None else Levels(levels).levels)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "guarantee", checked_guarantee(guarantee))
        self.plan()  # checks that they fit

    @classmethod
    @by_name("guarantee", write="Query.clip(0, 1, guarantee=PureDP(1))", places=("cls", "low", "high", "guarantee"))
    def clip(
        cls, low: float, high: float, *, guarantee: Guarantee, id: str | None = None, column: str | None = None
    ) -> Query:
        """The value moved into [low, high], rounded to a public lattice, plus noise.

        Examples
        --------
        >>> nw.Query.clip(0, 100, guarantee=nw.PureDP(2)).law
        DiscreteLaplace(scale=(50.0,), step=(3.0517578125e-05,))
        """
        return cls(guarantee=guarantee, low=low, high=high, id=id, column=column)

    @classmethod
    @by_name("guarantee", write="Query.cells([0], guarantee=PureDP(1))", places=("cls", "edges", "guarantee"))
    def cells(
        cls, edges: Sequence[float], *, guarantee: Guarantee, id: str | None = None, column: str | None = None
    ) -> Query:
        """The number of the cell that the value lies in, through randomized response.

        Examples
        --------
        >>> nw.Query.cells([20, 40, 60], guarantee=nw.PureDP(2)).law.cells
        4
        """
        return cls(guarantee=guarantee, edges=edges, id=id, column=column)

    @classmethod
    def choice(
        cls, levels: Sequence[Level], *, guarantee: Guarantee, id: str | None = None, column: str | None = None
    ) -> Query:
        """Which of these levels, through randomized response over all of them.

        Examples
        --------
        >>> nw.Query.choice(["north", "south"], guarantee=nw.PureDP(1)).law.cells
        2
        """
        return cls(guarantee=guarantee, levels=levels, id=id, column=column)

    @property
    def asks_about(self) -> str:
        """The name of the column in the query's plan."""
        return UNNAMED if self.column is None else self.column

    def __repr__(self) -> str:
        levels = "" if self.levels is None else f", levels={self.levels!r}"
        column = "" if self.column is None else f", column={self.column!r}"
        ends = f"low={self.low!r}, high={self.high!r}, edges={self.edges!r}"
        return f"Query(guarantee={self.guarantee!r}, {ends}, id={self.id!r}{levels}{column})"

    def plan(self, *, n: int = 1) -> Plan:
        """The query as a release of one record: its law, lattice and price come from the same rules.

        With n, of so many people who were asked the same: each answers once, so neither law nor price changes.
        """
        return _plan_of(self.guarantee, self.low, self.high, self.edges, self.levels, self.asks_about, n)

    @property
    def law(self) -> Law:
        return self.plan().law

    def to_dict(self) -> dict[str, Any]:
        asked: dict[str, Any] = {"low": self.low, "high": self.high}
        if self.edges is not None:
            asked = {"edges": list(self.edges)}
        elif self.levels is not None:
            asked = {"levels": list(self.levels)}
        asked |= {} if self.column is None else {"column": self.column}
        return {**asked, "guarantee": self.guarantee.to_dict(), "law": self.law.to_dict(), "id": self.id}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Query:
        """Read a query; a law that is not the one its guarantee implies is refused."""
        known = {"edges", "levels", "low", "high", "column", "guarantee", "law", "id"}
        if not isinstance(data, Mapping) or set(data) - known or not isinstance(data.get("guarantee"), Mapping):
            raise InvalidArgument(
                "A query has low and high, edges or levels, a guarantee, a law and an id.", argument="query"
            )
        query = cls(
            guarantee=guarantee_from_dict(data["guarantee"]),
            low=data.get("low"),
            high=data.get("high"),
            edges=data.get("edges"),
            levels=data.get("levels"),
            column=data.get("column"),
            id=data.get("id"),
        )
        if "law" in data and not _is_same(data["law"], query.law.to_dict()):
            raise InvalidArgument(
                "The query's law is not the one its guarantee implies; do not answer it.", argument="law"
            )
        return query


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's noisy answer together with the query it answers. Made by `respond`.

    Parameters
    ----------
    query
        What was asked.
    value
        The noisy answer as a whole number: of lattice steps, of the cell, or of the level.

    Examples
    --------
    >>> answer = nw.Answer(nw.Query.choice(["no", "yes"], guarantee=nw.PureDP(1)), 1)
    >>> nw.Answer.from_dict(answer.to_dict()) == answer
    True
    """

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
    guarantee: Guarantee,
    low: float | None,
    high: float | None,
    edges: tuple[float, ...] | None,
    levels: tuple[Level, ...] | None,
    name: str,
    n: int,
) -> Plan:
    """Planned once: a query is checked, answered and taken in one after the other, and surveys repeat questions."""
    feature = feature_of(name)
    own: Bounded | Levels = (
        Levels(levels) if levels is not None else Bounded(low, high) if edges is None else _wide(edges)
    )
    schema = Schema({name: own}, n=n, neighbours="change-one")
    return plan(Records(feature, cells=edges), schema, guarantee=guarantee)


def _wide(edges: tuple[float, ...]) -> Bounded:
    """Bounds with room on both sides of the edges."""
    return Bounded(edges[0] - 1 - abs(edges[0]), edges[-1] + 1 + abs(edges[-1]))


def _is_same(given: object, law: Mapping[str, Any]) -> bool:
    """Whether a law is written as it must be; what cannot be compared (an array) is not."""
    try:
        return bool(given == law)
    except (ValueError, TypeError):
        return False
