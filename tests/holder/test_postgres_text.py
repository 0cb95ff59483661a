"""What Postgres would be asked, without one at hand: the text of every query holds nothing that it is known to refuse.

Postgres casts no truth value to a number of 64 bits, and its `POSITION` gives a number of 32 bits, multiples of which
overflow. A product, quotient or power of numbers that are not 0 must not come out as 0: Postgres stops there, and
whether it stops would be an exact answer about one record. All stopped releases there; the text is taken apart and
searched for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import ibis
import pyarrow as pa
import pytest

import noisewise as nw
from noisewise.holder import cleaning
from noisewise.holder.evaluate import IbisRows, lattice_values
from noisewise.holder.fields import parse
from noisewise.holder.sources import Source
from noisewise.holder.table import Table

sqlglot = pytest.importorskip("sqlglot")
exp = sqlglot.exp
compilers = pytest.importorskip("ibis.backends.sql.compilers.postgres")

COLUMNS = {"x": nw.Bounded(-2.5, 3), "g": nw.Levels(["a", "b"]), "yes": nw.Levels([0, 1]), "b": nw.Bounded(0, 1)}
TYPES = {"id": "int32", "x": "float64", "g": "string", "yes": "boolean", "b": "boolean"}
x, g = nw.column("x"), nw.column("g")
STATISTICS = [
    nw.Sum(x, x.between(-1, 1), g.equals("a"), abs(x) ** 0.5),
    nw.Count(nw.column("yes").equals(1)),
    nw.Histogram("x", [-1, 0, 1.5]),
    nw.Marginals(["g", "yes"]),
    nw.Moments(["x"], "b", shrink=1),
    nw.TruncatedSum([x], "x", 0, 1),
    nw.Sum(x + (x.between(1, 2) * 1e-90) ** 4),
    nw.Sum(x * abs(x)),
    nw.Sum(abs(x) ** 2.5),
    nw.Sum(1e40 * x),
]


class Asked(Exception):
    """Carries what would have been asked."""


def schema(neighbours: str) -> nw.Schema:
    return nw.Schema(COLUMNS, neighbours=neighbours, **({"n": 6} if neighbours == "change-one" else {"n_max": 6}))


def table(neighbours: str) -> Table:
    """A table that has no database behind it."""
    declared, people = schema(neighbours), ibis.table(TYPES, name="people")
    ids = {"order": "id", "key": None} if neighbours == "change-one" else {"order": None, "key": "id"}
    source = Source("postgres table", people, "postgres", can_drift=True)
    cleaned = cleaning.cleaned(parse(source, declared, **ids), declared)
    return Table(declared, "postgres", ids["order"], ids["key"], source, cleaned)


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_: Table, expression: Any) -> pa.Table:
        raise Asked(expression)

    monkeypatch.setattr(Table, "execute", ask)


def refused(expression: Any) -> Iterator[str]:
    """The pieces of a query that Postgres does not take."""
    query = compilers.PostgresCompiler().to_sqlglot(expression)
    for cast in query.find_all(exp.Cast):
        if isinstance(cast.this.unnest(), exp.Predicate | exp.Connector | exp.Not | exp.Boolean):
            yield cast.sql("postgres")
    for product in query.find_all(exp.Mul):
        yield from (
            side.sql("postgres") for side in (product.left, product.right) if isinstance(side.unnest(), exp.Sub)
        )


def number(side: Any) -> float | None:
    """A constant, as `double` writes it."""
    inner = side.unnest()
    inner = inner.this if isinstance(inner, exp.Cast) else inner
    sign = -1.0 if isinstance(inner, exp.Neg) else 1.0
    inner = inner.this if isinstance(inner, exp.Neg) else inner
    return sign * float(inner.this) if isinstance(inner, exp.Literal) else None


def is_large(side: Any) -> bool:
    """A constant of at least 1, or one added to what is not negative (a fractional part)."""
    inner = side.unnest()
    last = number(inner.right if isinstance(inner, exp.Add) else inner)
    return last is not None and abs(last) >= 1


def is_settled(side: Any) -> bool:
    """0 or far from it: settled, cut off, a whole number, or a public constant."""
    inner = side.unnest()
    if isinstance(inner, exp.Add) and isinstance(inner.left.unnest(), exp.Add):
        taken, added = number(inner.right), number(inner.left.unnest().right)
        return taken is not None and added is not None and taken == -added and 0 < added < 1
    if isinstance(inner, exp.Mul):  # the products of a power, whose base was cut off
        return all(isinstance(factor.unnest(), exp.Case | exp.Mul) for factor in (inner.left, inner.right))
    value = number(inner)
    return isinstance(inner, exp.Case | exp.Cast) if value is None else abs(value) >= 1e-100


def vanishing(expression: Any) -> Iterator[str]:
    """The products, quotients and powers of a query in which Postgres could meet an underflow."""
    query = compilers.PostgresCompiler().to_sqlglot(expression)
    for node in query.find_all(exp.Mul, exp.Div, exp.Pow):
        left, right = node.this, node.expression
        if isinstance(node, exp.Mul):
            is_safe = is_large(left) or is_large(right) or (is_settled(left) and is_settled(right))
        else:
            is_safe = is_settled(left)
        if not is_safe:
            yield node.sql("postgres")


def query(act: Any, *arguments: Any) -> Any:
    with pytest.raises(Asked) as asked:
        act(*arguments)
    return asked.value.args[0]


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
@pytest.mark.parametrize("part", [None, (Fraction(1, 3), Fraction(2, 3))])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_sums_and_tables_ask_nothing_that_postgres_refuses(
    neighbours: str, part: tuple[Fraction, Fraction] | None, statistic: Any
) -> None:
    plan = nw.plan(statistic, schema(neighbours), guarantee=nw.PureDP(1), part=part)
    asked = query(lattice_values, table(neighbours), plan)
    assert list(refused(asked)) == []
    assert list(vanishing(asked)) == []


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_places_ranks_and_answers_ask_nothing_that_postgres_refuses(neighbours: str) -> None:
    opened = table(neighbours)
    queries = [query(partial(opened.fingerprint, b"k" * 16, arranged=arranged)) for arranged in (False, True)]
    if neighbours == "change-one":
        plan = nw.plan(nw.Quantile(x, "0.5"), schema(neighbours), guarantee=nw.PureDP(1))
        queries.append(query(IbisRows(opened, plan).rank_below, x, plan.lattice, 5))
        for records in (nw.Records(g), nw.Records(x, cells=[0, 1])):
            queries.append(query(lattice_values, opened, nw.plan(records, schema(neighbours), guarantee=nw.PureDP(1))))
    for asked in queries:
        assert list(refused(asked)) == []
        assert list(vanishing(asked)) == []


def test_this_search_finds_what_it_looks_for() -> None:
    people = ibis.table(TYPES, name="people")
    assert list(refused(people.select(q=(people.x > 1).cast("float64"))))
    assert list(refused(people.select(q=(people.yes & (people.x > 1)).cast("int64"))))
    assert list(refused(people.select(q=people.g.find("a").cast("int64") * 2**28)))
    for hidden in (people.x * people.x, people.x * 0.5, people.x / 3.0, people.x.abs().pow(2.5)):
        assert list(vanishing(people.select(q=hidden)))


def test_features_of_vanishing_factors_are_refused_where_they_would_count_as_nothing() -> None:
    small = nw.Mean(x * 1e-100 * 1e-100 * 1e100)
    plan = nw.plan(small, schema("change-one"), guarantee=nw.PureDP(1))
    with pytest.raises(nw.Unsupported, match=r"in other units.*Nothing was spent"):
        lattice_values(table("change-one"), plan)
