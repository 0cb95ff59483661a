"""The fingerprint of a table: it sees every change of the records, and nothing else."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pytest
from people_tables import KEY, REGIONS, keyed, one, python_fingerprint, records, schema

from noisewise.errors import InvalidArgument
from noisewise.holder import fingerprint as fingerprint_module
from noisewise.holder.table import Table
from noisewise.schema import Bounded, Schema


def test_the_fingerprint_is_the_same_number_in_another_engine_and_in_any_order() -> None:
    rng = np.random.default_rng()
    x, codes = rng.uniform(-10, 260, 5000), rng.integers(0, 3, 5000)
    expected = python_fingerprint(np.clip(x, 0, 250).tolist(), codes.tolist())
    names = np.array(REGIONS)[codes]
    for order in (np.arange(5000), rng.permutation(5000), np.argsort(x)):
        assert Table.read({"income": x[order], "region": names[order]}, schema(5000)).fingerprint(KEY) == expected


def two_columns(x: list[float], y: list[float], **options: Any) -> str:
    declared = Schema({"x": Bounded(-1, 1), "y": Bounded(-1, 1)}, n_max=1000, neighbours="add-remove")
    return Table.read({"x": x, "y": y}, declared).fingerprint(KEY, **options)


def test_the_fingerprint_sees_every_change_of_the_records() -> None:
    rng = np.random.default_rng()
    x, y = rng.uniform(-1, 1, (2, 50)).tolist()
    original = two_columns(x, y)
    nudged = [x[0] + 2**-46 * (1 if x[0] < 0 else -1), *x[1:]]
    changed = {
        "one value": two_columns([0.5, *x[1:]], y),
        "a tiny change": two_columns(nudged, y),
        "values swapped between records": two_columns([x[1], x[0], *x[2:]], y),
        "columns swapped": two_columns(y, x),
        "a record dropped": two_columns(x[1:], y[1:]),
        "a record doubled": two_columns([*x, x[0]], [*y, y[0]]),
        "one record in place of another": two_columns([x[1], *x[1:]], [y[1], *y[1:]]),
    }
    assert two_columns(x[::-1], y[::-1]) == original
    assert original not in changed.values()
    assert len(set(changed.values())) == len(changed)


def test_the_fingerprint_tells_simple_values_apart() -> None:
    """Halves, thirds and the two ends of the range are where a hash by whole multiples is blind."""
    key = secrets.token_bytes(32)
    simple = sorted({p / q for q in range(1, 17) for p in range(q + 1)})
    assert len({python_fingerprint([250.0 * u], [1], key) for u in simple}) == len(simple)
    prints = {two_columns([float(bit), 0.0, 1.0], [0.0, 0.5, 1.0]) for bit in (-1, 0, 1)}
    assert len(prints) == 3


def moved_weight_shows(trials: int) -> bool:
    """Whether moving weight from one record to another is seen every time (sums and means would not see it)."""
    rng = np.random.default_rng()
    for _ in range(trials):
        low, high, shift = rng.integers(1, 400) / 1024, rng.integers(500, 900) / 1024, rng.integers(1, 100) / 1024
        declared = one(Bounded(0, 1), 2)
        before, after = {"x": [low, high]}, {"x": [low + shift, high - shift]}
        if low + shift == high:
            continue
        if Table.read(before, declared).fingerprint(KEY) == Table.read(after, declared).fingerprint(KEY):
            return False
    return True


def test_the_fingerprint_sees_weight_moved_between_records() -> None:
    assert moved_weight_shows(10)


def test_a_linear_hash_would_not_see_moved_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    def linear(table: Any, constants: dict[str, Any]) -> Any:
        return table.select(**{name: table[name] - table[name].floor() for name in constants})

    monkeypatch.setattr(fingerprint_module, "_scrambled", linear)
    assert not moved_weight_shows(80)


def test_a_fingerprint_depends_on_its_secret_and_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.read(records(), schema())
    prints = {table.fingerprint(key) for key in (KEY, KEY[::-1], KEY[:16])}
    assert len(prints) == 3
    monkeypatch.setattr(Table, "execute", None)
    assert table.fingerprint(KEY) in prints
    for key in (b"", b"short", "a text that is long enough", None, 3):
        with pytest.raises(InvalidArgument) as caught:
            table.fingerprint(key)  # type: ignore[arg-type]
        assert caught.value.argument == "key"


def test_an_arranged_fingerprint_sees_records_that_change_places() -> None:
    declared = one(Bounded(0, 9), 4)

    def prints(x: list[int], rows: list[int]) -> tuple[str, str]:
        table = Table.read({"x": x, "row": rows}, declared, order="row")
        return table.fingerprint(KEY), table.fingerprint(KEY, arranged=True)

    assert prints([1, 2, 3, 4], [1, 2, 3, 4]) == prints([2, 1, 3, 4], [2, 1, 3, 4])
    moved, original = prints([1, 2, 3, 4], [1, 3, 2, 4]), prints([1, 2, 3, 4], [1, 2, 3, 4])
    assert moved[0] == original[0]
    assert moved[1] != original[1]
    by_key = [Table.read({"x": [1, 2], "id": ids}, keyed(), key="id") for ids in (["a", "b"], ["b", "a"])]
    assert by_key[0].fingerprint(KEY) == by_key[1].fingerprint(KEY)
    assert by_key[0].fingerprint(KEY, arranged=True) != by_key[1].fingerprint(KEY, arranged=True)


def test_the_hash_sum_cannot_overflow_at_the_largest_number_of_records() -> None:
    for n in (1, 2**20, 2**31, 2**40):
        bits = min(31, 62 - n.bit_length())
        assert n * 2**bits < 2**62
    wide = Schema({"x": Bounded(0, 1)}, n_max=2**40, neighbours="add-remove")
    prints = {Table.read({"x": [x, 0.5]}, wide).fingerprint(KEY) for x in (0.25, 0.75)}
    assert len(prints) == 2
