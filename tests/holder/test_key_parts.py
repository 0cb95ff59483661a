"""Key parts: whole-number intervals of the whole hash. A record lies in one part, whatever the cuts."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_tables import KEY, keyed, values

import noisewise as nw
from noisewise.errors import BudgetExceeded, DifferentRecords, InvalidArgument
from noisewise.holder import table as table_module
from noisewise.holder.table import Table

N = 300
NAMES = [f"person {i}" for i in range(N)]
HASHES = [int(hashlib.md5(name.encode()).hexdigest(), 16) for name in NAMES]
TINY = Fraction(1, 2**60)


def people() -> Table:
    return Table.read({"x": np.arange(N, dtype=float), "id": NAMES}, keyed(), key="id")


TABLE = people()


def members(table: Table, start: Fraction, stop: Fraction) -> list[int]:
    """Who is in a part, by the database; a part too narrow to hold any hash is refused, so nobody is."""
    try:
        rows = table.rows((start, stop))
    except InvalidArgument as error:
        assert "narrower" in str(error)  # noqa: PT017
        assert math.ceil(start * 2**128) == math.ceil(stop * 2**128)
        return []
    return sorted(int(x) for (x,) in values(table, rows))


def oracle(start: Fraction, stop: Fraction) -> list[int]:
    """The same by plain fractions, without any rounding of cuts: start <= h/2^128 < stop."""
    return [i for i, h in enumerate(HASHES) if start <= Fraction(h, 2**128) < stop]


def test_forty_slivers_are_not_forty_times_everybody(tmp_path: Path) -> None:
    """The overspend of version 0.1: each of these parts held 15 of 16 people and was charged as a sliver."""
    data = {"x": [1.0] * 1000, "id": [f"p{i}" for i in range(1000)]}
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n_max=1000, neighbours="add-remove")
    table = Table.read(data, schema, key="id")
    slivers = [(1 - Fraction(k + 1, 2**40), 1 - Fraction(k, 2**40)) for k in range(40)]
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        for part in slivers:
            nw.make_release(table, nw.plan(nw.Sum("x"), schema, guarantee=nw.PureDP(1), part=part), ledger=ledger)
        ledger.check()
    everyone = table.rows((slivers[-1][0], Fraction(1)))
    assert [table.execute(table.rows(part).count()).as_py() for part in slivers[:3]] == [0, 0, 0]
    assert table.execute(everyone.count()).as_py() == 0, "all forty together are 2^-34 of the hashes"


def near(point: Fraction) -> st.SearchStrategy[Fraction]:
    """Fractions within 2^-60 of a point, down to differences that no hash can resolve."""
    return st.builds(
        lambda sign, numerator, bits: min(Fraction(1), max(Fraction(0), point + sign * Fraction(numerator, 2**bits))),
        st.sampled_from([-1, 0, 1]),
        st.integers(1, 16),
        st.integers(64, 140),
    )


cut = st.one_of(
    st.fractions(0, 1),
    st.fractions(0, 1, max_denominator=9),
    near(Fraction(0)),
    near(Fraction(1)),
    near(Fraction(1, 3)),
    near(Fraction(1, 2)),
    st.sampled_from(HASHES).map(lambda h: Fraction(h, 2**128)),
    st.sampled_from(HASHES).flatmap(lambda h: near(Fraction(h, 2**128))),
    st.sampled_from([1 - Fraction(1, 2**k) for k in range(30, 36)]),
)


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(cut, min_size=1, max_size=3))
def test_a_record_lies_in_exactly_one_part_of_any_partition(cuts: list[Fraction]) -> None:
    ends = sorted({Fraction(0), Fraction(1), *cuts})  # every part is asked of the database itself
    seen: list[int] = []
    for start, stop in pairwise(ends):
        inside = members(TABLE, start, stop)
        assert inside == oracle(start, stop)
        seen += inside
    assert sorted(seen) == list(range(N))


@pytest.mark.parametrize("part", [(0, TINY), (1 - TINY, 1), (Fraction(1, 3), Fraction(1, 3) + TINY)])
def test_a_sliver_holds_nobody_but_is_a_part_with_a_price(part: tuple[Fraction, Fraction], tmp_path: Path) -> None:
    assert members(TABLE, *map(Fraction, part)) == []
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        for _ in range(2):
            nw.make_release(TABLE, nw.plan(nw.Sum("x"), keyed(), guarantee=nw.PureDP(1), part=part), ledger=ledger)
        assert ledger.spent() == nw.PureDP(1)
        with pytest.raises(BudgetExceeded):
            nw.make_release(TABLE, nw.plan(nw.Sum("x"), keyed(), guarantee=nw.PureDP(1)), ledger=ledger)
        rest = nw.plan(nw.Sum("x"), keyed(), guarantee=nw.PureDP(1), part=_other_side(*map(Fraction, part)))
        nw.make_release(TABLE, rest, ledger=ledger)
        assert ledger.spent() == nw.PureDP(1)
        ledger.check()


def _other_side(start: Fraction, stop: Fraction) -> tuple[Fraction, Fraction]:
    return (stop, Fraction(1)) if stop < 1 else (Fraction(0), start)


def test_a_part_that_can_hold_no_hash_is_refused_and_free(tmp_path: Path) -> None:
    part = (1 - Fraction(1, 2**130), Fraction(1))
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        plan = nw.plan(nw.Sum("x"), keyed(), guarantee=nw.PureDP(1), part=part)
        with pytest.raises(InvalidArgument, match=r"nobody can be in it\. Nothing was spent\.") as caught:
            nw.make_release(TABLE, plan, ledger=ledger)
        assert caught.value.argument == "part"
        assert ledger.spent() is None


def names_with_a_common_prefix(digits: int) -> tuple[str, str]:
    """Two names whose hashes begin alike, by the birthday paradox."""
    seen: dict[str, str] = {}
    for i in range(10**6):
        prefix = hashlib.md5(f"n{i}".encode()).hexdigest()[:digits]
        if prefix in seen:
            return seen[prefix], f"n{i}"
        seen[prefix] = f"n{i}"
    raise AssertionError


@pytest.mark.parametrize("digits", [4, 8])
def test_people_whose_hashes_begin_alike_cannot_swap_parts_unseen(digits: int, tmp_path: Path) -> None:
    pair = names_with_a_common_prefix(digits)
    low, high = sorted(pair, key=lambda name: hashlib.md5(name.encode()).hexdigest())
    between = Fraction(int(hashlib.md5(high.encode()).hexdigest(), 16), 2**128)
    before = Table.read({"x": [1.0, 2.0], "id": [low, high]}, keyed(), key="id")
    after = Table.read({"x": [1.0, 2.0], "id": [high, low]}, keyed(), key="id")
    assert before.fingerprint(KEY) == after.fingerprint(KEY)
    assert before.fingerprint(KEY, arranged=True) != after.fingerprint(KEY, arranged=True)
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        plans = [
            nw.plan(nw.Sum("x"), keyed(), guarantee=nw.PureDP(1), part=part) for part in ((0, between), (between, 1))
        ]
        nw.make_release(before, plans[0], ledger=ledger)
        with pytest.raises(DifferentRecords, match="places"):
            nw.make_release(after, plans[1], ledger=ledger)
        nw.make_release(before, plans[1], ledger=ledger)


def test_every_digit_of_the_hash_is_bound_by_the_arranged_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that differ in one digit only, wherever it is: a stand-in for md5 that hands the key through."""
    monkeypatch.setattr(table_module, "_md5", lambda text: text)
    digits = "0123456789abcdef0123456789abcdef"
    prints = {arranged([digits, "f" * 32])}
    for place in (0, 3, 4, 7, 8, 15, 16, 23, 24, 31):
        changed = digits[:place] + ("0" if digits[place] != "0" else "1") + digits[place + 1 :]
        prints.add(arranged([changed, "f" * 32]))
    assert len(prints) == 11


def test_an_engine_that_reads_no_hexadecimal_text_gets_the_same_whole_numbers() -> None:
    """The general way, digit by digit, run by the database that also has the short one."""
    general = replace(TABLE, engine="postgres", _fingerprints={}, _questions={})
    for start, stop in pairwise([Fraction(0), Fraction(1, 3), Fraction(HASHES[7], 2**128), 1 - TINY, Fraction(1)]):
        assert members(general, start, stop) == oracle(start, stop)
    assert general.fingerprint(KEY, arranged=True) == TABLE.fingerprint(KEY, arranged=True)
    for table in (TABLE, general):
        hashed, words = table._hashed()
        found = table.execute(hashed.select("x", *words)).to_pylist()
        numbers = {int(row["x"]): sum(row[word] << 32 * (3 - k) for k, word in enumerate(words)) for row in found}
        assert numbers == dict(enumerate(HASHES))


def arranged(hashes: list[str]) -> str:
    return Table.read(pa.table({"x": [1.0, 2.0], "id": hashes}), keyed(), key="id").fingerprint(KEY, arranged=True)
