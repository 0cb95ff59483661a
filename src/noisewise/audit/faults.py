"""Planted faults: mistakes that were made before, by us or in print, and the check that catches each.

Every fault is run twice through the same check, as the library does it and with the mistake planted. The check must
pass on the first and fail on the second; a check that passes on both has no power and proves nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

from noisewise.audit.absence import (
    absence_taken_for_change,
    presence_counted_without_noise,
    presence_not_in_the_fingerprint,
    public_part,
    released,
)
from noisewise.audit.attack import MEMORY
from noisewise.audit.canary import everything_said, leaks
from noisewise.audit.cases import schema_of, trace_schema, x
from noisewise.audit.exact import exact_loss
from noisewise.audit.fit import fit_of_plan
from noisewise.audit.neighbours import data_of, evaluated_move, weighted
from noisewise.audit.order import order_noise
from noisewise.errors import BudgetExceeded
from noisewise.laws import RandomizedResponse, additive_law, cell_law
from noisewise.planning import Plan, plan
from noisewise.privacy.calibration import gaussian_sigma, laplace_scale
from noisewise.privacy.divergence import guarantee_beside
from noisewise.privacy.guarantee import KINDS, ApproxDP, GaussianDP, PureDP
from noisewise.query import Query
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Marginals, Mean, Median, Moments, Records, Sum

Passed = list[bool]


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake, the check that catches it, and the results of that check with and without the mistake."""

    name: str
    caught_by: str
    check: Callable[[bool], Passed]

    def passes_without(self) -> bool:
        """The library as it is passes the check."""
        return all(self.check(False))

    def is_caught(self) -> bool:
        """With the mistake planted the check fails, in every variant."""
        return not any(self.check(True))


def touched_parts(before: Sequence[tuple[Plan, Any]], after: Sequence[tuple[Plan, Any]]) -> int:
    """In how many parts the sums (in units, not steps) differ between neighbours; parallel composition allows one."""
    from noisewise.holder.evaluate import lattice_values

    def sums(part: tuple[Plan, Any]) -> list[Fraction]:
        made, table = part
        return [v * Fraction(s) for v, s in zip(lattice_values(table, made), made.lattice.step, strict=True)]

    return sum(sums(a) != sums(b) for a, b in zip(before, after, strict=True))


# ---- the checks, each with its fault ----

A_TENTH_LESS = Fraction(9, 10)


def _scale_too_small(planted: bool) -> Passed:
    """exact divergence: a law with 0.9 of its scale exceeds every additive guarantee."""
    made = [
        plan(Mean(x, x**2), schema_of(0, 250, 4000), guarantee=guarantee_beside(kind, Fraction(1)))
        for kind in KINDS.values()
    ]
    return [exact_loss(replace(one, law=one.law.smaller(A_TENTH_LESS)) if planted else one).holds for one in made]


def _scale_drawn_too_small(planted: bool) -> Passed:
    made = plan(Mean(x), schema_of(0, 1, 10), guarantee=PureDP(1))
    return [fit_of_plan(made, drawn=made.law.smaller(A_TENTH_LESS) if planted else None).fits]


def _clamping_skipped(planted: bool) -> Passed:
    """Evaluated neighbours: a record far outside the bounds moves the sum no further than one at them."""
    from noisewise.holder.table import Table

    made = plan(Mean(x), _column(0, 1, 2), guarantee=PureDP(1))
    read, lattice = made.schema, made.lattice
    if planted:  # the table clamps to wider bounds, and the lattice has no ends
        read = _column(-100, 100, 2)
        lattice = replace(lattice, low=tuple(100 * -v for v in lattice.high), high=tuple(100 * v for v in lattice.high))
    broken = replace(made, lattice=lattice)
    tables = [Table.read({"x": [0.5, value]}, read) for value in (-60.0, 90.0)]
    return [exact_loss(made, steps=evaluated_move(broken, *tables)).holds]


def _wrong_norm(planted: bool) -> Passed:
    made = plan(Mean(x, x**2), schema_of(0, 250, 4000), guarantee=PureDP(1))
    if planted:
        bound = made.statistic.sensitivity(made.schema, norm=2, weights=made.weights)
        base = laplace_scale(sensitivity=bound.value, epsilon=Fraction(1))
        made = replace(made, law=replace(additive_law(made.law), scale=tuple(float(base / w) for w in made.weights)))
    return [exact_loss(made).holds]


def _bounds_from_data(planted: bool) -> Passed:
    """Public part: what is printed beside the value is the same for neighbours."""
    parts = []
    for data in ([0.2, 0.4, 0.5], [0.2, 0.4, 0.9]):
        low, high = (min(data), max(data)) if planted else (0.0, 1.0)
        made = plan(Mean(x), _column(low, high, 3), guarantee=PureDP(1))
        parts.append(public_part(released(made, {"x": data})))
    return [parts[0] == parts[1]]


def _wrong_neighbours(planted: bool) -> Passed:
    made = plan(Histogram("g"), schema_of(0, 1, 10), guarantee=PureDP(1))
    other = plan(Histogram("g"), schema_of(0, 1, 10, "add-remove"), guarantee=PureDP(1))
    return [exact_loss(replace(made, law=other.law) if planted else made).holds]


def _off_by_one(planted: bool) -> Passed:
    """Exact matrix: odds over cells - 2 others where there are cells - 1."""
    made = plan(Records("g"), schema_of(0, 1, 2), guarantee=PureDP(1))
    if planted:
        law = cell_law(made.law)
        odds = law.keep / law.other
        made = replace(made, law=RandomizedResponse(odds / (odds + law.cells - 2), law.cells))
    return [exact_loss(made).holds]


def _position_under_add_remove(planted: bool) -> Passed:
    """Touched parts: the first record leaves; by position every later record moves up, by key none does."""
    from noisewise.holder.table import Table

    values, names = [0.1, 0.4, 0.7, 0.9, 0.3], ["ann", "bob", "cem", "dora", "eve"]
    sides = []
    for first in (0, 1):
        data = {"x": values[first:], "id": names[first:]}
        neighbours = "change-one" if planted else "add-remove"
        schema = _column(0, 1, 5 - first if planted else 5, neighbours)
        table = Table.read(data, schema, key=None if planted else "id")
        sides.append([(made, table) for made in _halves(schema)])
    return [touched_parts(*sides) <= 1]


def _ordered_by_a_private_column(planted: bool) -> Passed:
    """Touched parts: one value changes; sorted by that value other records change places, by a public id none does."""
    from noisewise.holder.table import Table

    schema = _column(0, 1, 4)
    sides = []
    for value in (0.1, 0.8):
        values = [value, 0.4, 0.7, 0.9]
        data = {"x": sorted(values) if planted else values, "id": [3, 1, 4, 2]}
        table = Table.read(data, schema, order=None if planted else "id")
        sides.append([(made, table) for made in _halves(schema)])
    return [touched_parts(*sides) <= 1]


def _nine_digit_key_parts(planted: bool) -> Passed:
    """Touched parts: one person leaves; of a partition with cuts just below 1 that touches one part."""
    from noisewise.holder.table import Table

    schema = _column(0, 1, 20, "add-remove")
    names = [f"person {k}" for k in range(20)]
    cuts = [Fraction(0), *(1 - Fraction(1, 2**bits) for bits in (1, 33, 34, 60)), Fraction(1)]
    plans = [plan(Sum(x), schema, guarantee=PureDP(1), part=part) for part in itertools.pairwise(cuts)]
    with patch.object(Table, "rows", _rows_by_text) if planted else contextlib.nullcontext():
        sides = [Table.read({"x": [0.5] * len(ids), "id": ids}, schema, key="id") for ids in (names, names[1:])]
        return [touched_parts(*([(made, table) for made in plans] for table in sides)) <= 1]


def _rows_by_text(table: Any, part: tuple[Fraction, Fraction]) -> Any:
    """Parts as version 0.1 made them: the hash as text, between cuts of 32 bits, the highest cut of nine digits."""
    from noisewise.holder.sources import KEY
    from noisewise.holder.table import _md5

    low, high = (math.ceil(end * 2**32) for end in part)
    hashed = table._cleaned.mutate(text=_md5(table._cleaned[KEY]))
    inside = hashed["text"] >= f"{low:08x}"
    return hashed.filter(inside & (hashed["text"] < f"{high:08x}") if high < 2**32 else inside)


def _relation_switched(planted: bool) -> Passed:
    """Booked loss: what two releases tell about one changed record is at most what the ledger says was spent."""
    from noisewise.errors import LedgerError
    from noisewise.holder import ledger_chain
    from noisewise.holder.curator import make_release
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table

    lost = Fraction(0)
    forgetful = patch.object(ledger_chain, "relation_of", lambda _: None) if planted else contextlib.nullcontext()
    with forgetful, tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        ledger = Ledger.open(Path(folder, "ledger"), limit=PureDP(4))
        for neighbours in ("change-one", "add-remove"):
            made = plan(Histogram("g"), schema_of(0, 1, 2, neighbours), guarantee=PureDP(1))
            records = [dict.fromkeys(made.schema.columns, 0.0) | {"g": cell} for cell in (0.0, 1.0)]
            before, after = (
                Table.read(data_of([one, records[0]], made.schema), made.schema) for one in records
            )  # the first record changes its cell
            try:
                make_release(before, made, ledger=ledger)
            except LedgerError:
                continue  # refused, so nothing was told
            lost += weighted(additive_law(made.law), evaluated_move(made, before, after), 1)
            ledger.replace_records()
        booked = ledger.spent()
        assert booked is not None
        return [lost <= booked.parts[0]]


def _smooth_scale_published(planted: bool) -> Passed:
    """Canary: the secret scale of a median, in any plausible form, in anything that comes out of its release."""
    from noisewise.holder.curator import make_release
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table

    records = [137.2, 917.3, 1445.9, 1823.7, 1991.8, 2633.1, 3271.9]
    passed = []
    for guarantee in (PureDP(2), ApproxDP(2, "1e-4")):
        made = plan(Median(x), _column(0, 4000, len(records)), guarantee=guarantee)
        step = made.lattice.step[0]
        noise = order_noise(made, [round(Fraction(v) / Fraction(step)) for v in records])
        secrets = (noise.scale, noise.ratio, noise.scale / step, noise.ratio * step)
        with everything_said() as said, tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "ledger")
            with Ledger.open(path, limit=guarantee) as ledger:
                release = make_release(Table.read({"x": records}, made.schema), made, ledger=ledger)
                release.save(Path(folder, "median.json"))
                seen = [str(ledger), repr(ledger), repr(ledger.entries()), made.describe(), repr(release), repr(made)]
            document = json.loads(Path(folder, "median.json").read_bytes())
            if planted:
                document["law"]["scale"] = noise.scale
            seen += [json.dumps(document), said.getvalue()]
            passed.append(not leaks(secrets, *seen, path.read_bytes()))
    return passed


def _intercept_left_out(planted: bool) -> Passed:
    """Exact divergence: rows in a ball with an intercept move by sqrt 2 (1 + R^2), without one by sqrt 2 R^2."""
    ball = Moments(["x"], "y", shrink="1.7")
    made = plan(ball, schema_of(-3, 3, 10), guarantee=GaussianDP(1))
    if planted:
        without = Moments(["x"], "y", intercept=False, shrink="1.7").sensitivity(made.schema, norm=2)
        sigma = Fraction(gaussian_sigma(sensitivity=without.value, guarantee=made.guarantee))
        made = replace(made, law=replace(additive_law(made.law), scale=tuple(float(sigma / w) for w in made.weights)))
    return [exact_loss(made).holds]


def _tied_record_halved(planted: bool) -> Passed:
    """Exact divergence: a changed record takes its whole weight out of one cell of a tied table and into another."""
    made = [
        plan(Marginals(["t0", "t1"], ["t1", "t2"], tied=True, null=null), trace_schema(10), guarantee=guarantee)
        for null in (None, "off")
        for guarantee in (PureDP(1), GaussianDP(1))
    ]
    return [exact_loss(replace(one, law=one.law.smaller(Fraction(1, 2))) if planted else one).holds for one in made]


def _uncapped_respondent(planted: bool) -> Passed:
    """Answers of one person: the exact losses of all that an asker gets, by one large query or many ids, add up."""
    from noisewise.holder.respond import respond
    from noisewise.holder.respondent import Respondent

    cap, passed = PureDP(2), []
    for asked in (
        [Query.clip(0, 1, guarantee=PureDP(10**6))],
        [Query.clip(0, 1, guarantee=PureDP(1), id=str(k)) for k in range(5)],
    ):
        me, answered = Respondent(cap=cap), 0.0
        for query in asked:
            try:
                respond(query, 0.5, cap=query.guarantee) if planted else me.respond(query, 0.5)
            except BudgetExceeded:
                continue
            answered += exact_loss(query.plan()).value
        passed.append(answered <= float(cap.epsilon))
    return passed


def _regions() -> Schema:
    return Schema({"x": Bounded(0, 1), "g": Levels(["a", "b", "c", "d"])}, n=3, neighbours="change-one")


def _one_groups_sensitivity(planted: bool) -> Passed:
    """Evaluated neighbours: a changed record leaves one group and enters another, and noise has to hide both."""
    from noisewise.holder.table import Table

    passed = []
    for statistic in (Sum(x, by="g"), Mean(x, by="g"), Count(by="g")):
        made = plan(statistic, _regions(), guarantee=PureDP(1))
        tables = [Table.read({"x": [1.0, 1.0, 1.0], "g": [own, "c", "d"]}, made.schema) for own in ("a", "b")]
        drawn = replace(made, law=made.law.smaller(Fraction(1, 2))) if planted else made
        passed.append(exact_loss(drawn, steps=evaluated_move(made, *tables)).holds)
    return passed


def _empty_groups_left_out(planted: bool) -> Passed:
    """Form of neighbours: a group of nobody and a group of one have the same number of components."""
    from noisewise.holder import evaluate
    from noisewise.holder.table import Table

    def components(groups: list[str]) -> int:
        made = plan(Mean(x, by="g"), _regions(), guarantee=PureDP(1))
        values = evaluate.lattice_values(Table.read({"x": [0.5, 0.5, 0.5], "g": groups}, made.schema), made)
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        return len([pair for pair in pairs if not planted or pair[0] != 0])

    return [components(["a", "b", "b"]) == components(["b", "b", "b"])]


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("scale 10 % too small", "exact divergence", _scale_too_small),
        Fault("scale drawn 10 % too small", "goodness of fit", _scale_drawn_too_small),
        Fault("clamping skipped", "evaluated neighbours", _clamping_skipped),
        Fault("wrong norm", "exact divergence", _wrong_norm),
        Fault("data-derived bounds", "public part of neighbours", _bounds_from_data),
        Fault("add-remove sensitivity under change-one", "exact divergence", _wrong_neighbours),
        Fault("off-by-one randomized response", "exact divergence", _off_by_one),
        Fault("position parts under add-remove", "touched parts", _position_under_add_remove),
        Fault("parts ordered by a private column", "touched parts", _ordered_by_a_private_column),
        Fault("nine-digit key parts", "touched parts", _nine_digit_key_parts),
        Fault("relation switched by `replace_records`", "booked loss", _relation_switched),
        Fault("smooth scale written into the release", "canary", _smooth_scale_published),
        Fault("intercept left out of the joint-ball sensitivity", "exact divergence", _intercept_left_out),
        Fault("half the sensitivity of a tied table", "exact divergence", _tied_record_halved),
        Fault("one group's sensitivity under change-one", "evaluated neighbours", _one_groups_sensitivity),
        Fault("empty groups left out", "form of neighbours", _empty_groups_left_out),
        Fault(
            "complete rows counted without noise",
            "public part and evaluated neighbours",
            presence_counted_without_noise,
        ),
        Fault("a value that becomes absent taken for one that changes", "exact divergence", absence_taken_for_change),
        Fault("presence left out of the fingerprint", "records of one account", presence_not_in_the_fingerprint),
        Fault("uncapped respondent", "answers of one person", _uncapped_respondent),
    )
}


def _column(low: float, high: float, n: int, neighbours: str = "change-one") -> Schema:
    if neighbours == "change-one":
        return Schema({"x": Bounded(low, high)}, n=n, neighbours=neighbours)
    return Schema({"x": Bounded(low, high)}, n_max=n, neighbours=neighbours)


def _halves(schema: Schema) -> list[Plan]:
    return [plan(Sum(x), schema, guarantee=PureDP(1), part=part) for part in ((0, "1/2"), ("1/2", 1))]
