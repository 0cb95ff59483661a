"""Units are captions: they change neither what is paid, nor which records these are, nor which request was made."""

from __future__ import annotations

from pathlib import Path

import noisewise as nw


def test_the_same_request_in_another_unit_is_handed_out_free_with_the_unit_it_was_paid_with(tmp_path: Path) -> None:
    schemas = [
        nw.Schema({"income": nw.Bounded(0, 250, unit=unit)}, n=5, neighbours="change-one")
        for unit in ("thousand EUR", None, "k€")
    ]
    records = {"income": [1.0, 2.0, 30.0, 400.0, 5.0]}
    with nw.Ledger.open(tmp_path / "account", limit=nw.PureDP(1)) as ledger:
        made = [
            nw.make_release(
                nw.Table.read(records, schema),
                nw.plan(nw.Mean("income"), schema, guarantee=nw.PureDP(1)),
                ledger=ledger,
            )
            for schema in schemas
        ]
        assert len({one.to_bytes() for one in made}) == 1
        assert ledger.spent() == nw.PureDP(1)
    assert made[-1].schema.units == {"income": "thousand EUR"}
    assert b'"noisewise-release/2"' in made[-1].to_bytes()


def test_a_request_that_was_paid_without_a_unit_stays_a_file_of_format_1(tmp_path: Path) -> None:
    bare, told = (
        nw.Schema({"income": nw.Bounded(0, 250, unit=unit)}, n=2, neighbours="change-one") for unit in (None, "EUR")
    )
    records = {"income": [1.0, 2.0]}
    with nw.Ledger.open(tmp_path / "account", limit=nw.PureDP(1)) as ledger:
        first, second = (
            nw.make_release(
                nw.Table.read(records, schema), nw.plan(nw.Sum("income"), schema, guarantee=nw.PureDP(1)), ledger=ledger
            )
            for schema in (bare, told)
        )
    assert first.to_bytes() == second.to_bytes()
    assert b'"noisewise-release/1"' in second.to_bytes()
