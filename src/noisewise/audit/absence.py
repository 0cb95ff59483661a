"""Mistakes about values that are left out, each planted in a check that must catch it (see `faults.py`)."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

from noisewise.audit.attack import MEMORY
from noisewise.audit.cases import schema_of
from noisewise.audit.exact import exact_loss
from noisewise.audit.neighbours import evaluated_move
from noisewise.laws import additive_law
from noisewise.planning import Plan, plan
from noisewise.privacy.divergence import guarantee_beside
from noisewise.privacy.guarantee import KINDS
from noisewise.release import Release
from noisewise.schema import LEAVE_OUT, Bounded, Schema
from noisewise.statistics import statistic

Passed = list[bool]
MEAN, SUM = statistic("mean(x)"), statistic("sum(x)")
EVERY = [guarantee_beside(kind, Fraction(1)) for kind in KINDS.values()]
ONE, TWO = (guarantee_beside(KINDS["pure-dp"], Fraction(epsilon)) for epsilon in (1, 2))


def public_part(release: Release) -> dict[str, object]:
    """What a release says besides its value and its account: the same for all neighbouring data sets."""
    private = ("value", "dataset", "ledger_head", "hash")
    return {key: entry for key, entry in release.to_dict().items() if key not in private}


def released(made: Plan, data: Mapping[str, Sequence[Any]]) -> Release:
    """One release of a data set from a ledger of its own."""
    from noisewise.holder.curator import make_release
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table

    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder,
        Ledger.open(Path(folder, "ledger"), limit=made.guarantee) as ledger,
    ):
        return make_release(Table.read(dict(data), made.schema), made, ledger=ledger)


def presence_counted_without_noise(planted: bool) -> Passed:
    """Public part and evaluated neighbours: how many rows are complete is as private as what is in them.

    Planted twice: incomplete rows are dropped before reading and n is how many are left; the count has no noise to
    speak of, for only the sums are calibrated.
    """
    from noisewise.holder.table import Table

    passed, parts, neighbours = [], list[object](), ([0.2, 0.4, 0.5], [0.2, None, 0.5])
    for data in neighbours:
        kept = [value for value in data if value is not None or not planted]
        schema = Schema({"x": Bounded(0, 1)}, n=len(kept), neighbours="change-one", missing=LEAVE_OUT)
        parts.append(public_part(released(plan(MEAN, schema, guarantee=ONE), {"x": kept})))
    passed.append(parts[0] == parts[1])
    made = plan(MEAN, schema_of(0, 1, 3, missing=LEAVE_OUT), guarantee=ONE)
    rest = {"y": [None] * 3, "g": [None] * 3, "h": [None] * 3}
    move = evaluated_move(made, *(Table.read({"x": data, **rest}, made.schema) for data in neighbours))
    law = additive_law(made.law)
    if planted:
        law = replace(law, scale=(law.step[0], *law.scale[1:]))
    return [*passed, exact_loss(replace(made, law=law), steps=move).holds]


def absence_taken_for_change(planted: bool) -> Passed:
    """Exact divergence: on [9, 10] a value that becomes absent moves a sum by 10, one that changes by 1."""
    made = [plan(SUM, schema_of(9, 10, 10, missing=LEAVE_OUT), guarantee=one) for one in EVERY]
    changed = [plan(SUM, schema_of(9, 10, 10), guarantee=one) for one in EVERY]
    laws = ([additive_law(one.law) for one in plans] for plans in (made, changed))
    return [
        exact_loss(replace(one, law=replace(law, scale=less.scale)) if planted else one).holds
        for one, law, less in zip(made, *laws, strict=True)
    ]


def presence_not_in_the_fingerprint(planted: bool) -> Passed:
    """Records of one account: where a value was present and is missing now, they are others, and are refused.

    Planted: only cleaned values are in the fingerprint, in which an absent value is as the lowest one. Then a second
    table is handed the release of the first, and a third release is booked as if it were about the same records.
    """
    from noisewise.errors import LedgerError
    from noisewise.holder.curator import make_release
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table

    schema = Schema({"x": Bounded(0, 1)}, n=3, neighbours="change-one", missing=LEAVE_OUT)
    made = plan(MEAN, schema, guarantee=ONE)
    units = Table._units

    def without_presence(table: Table, arranged: bool) -> object:
        seen = units(table, arranged)
        return seen.drop(*(name for name in seen.columns if name not in schema.columns))

    blind = patch.object(Table, "_units", without_presence) if planted else contextlib.nullcontext()
    with blind, tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        ledger = Ledger.open(Path(folder, "ledger"), limit=TWO)
        make_release(Table.read({"x": [0.0, 0.5, 1.0]}, schema), made, ledger=ledger)
        try:
            make_release(Table.read({"x": [None, 0.5, 1.0]}, schema), made, ledger=ledger)
        except LedgerError:
            return [True]
    return [False]
