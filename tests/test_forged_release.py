"""The door: nothing but a release comes through (C7, F3).

A hostile file is one whose hash is right: its author can compute it, too. Whatever it holds, loading it gives a
release or one sentence, InvalidRelease.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from release_examples import EXAMPLES, loaded_or_told, refusal

import noisewise as nw
from noisewise.errors import InvalidRelease
from noisewise.report.words import describe_release
from noisewise.statistics import sensitivity


def hashed(plain: dict[str, Any]) -> dict[str, Any]:
    """The plain form with the hash a careful forger would write: SHA-256 of the sorted, compact JSON text."""
    rest = {key: value for key, value in plain.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return {**rest, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize("name", ["discrete-laplace-mean", "records-cells", "finite-count"])
def test_a_truncated_file_is_refused_wherever_it_ends(name: str) -> None:
    data = EXAMPLES[name].to_bytes()
    for length in {0, 1, 2, *range(3, len(data) - 2, 97), len(data) - 3}:
        refusal(data[:length])


def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing() -> None:
    release = EXAMPLES["rounded-gaussian-moments"]
    data = release.to_bytes()
    for position in range(len(data)):
        for bit in random.sample(range(8), 2):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            loaded = loaded_or_told(bytes(flipped))
            assert isinstance(loaded, str) or loaded == release  # white space, or 1E-5 for 1e-5


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from leaves(value[index], (*path, index))


def changed(plain: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with one place replaced; `...` removes it."""
    if not path:
        return value
    copied = copy.deepcopy(plain)
    holder = copied
    for step in path[:-1]:
        holder = holder[step]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return copied


def test_an_edit_of_any_field_without_a_new_hash_is_refused() -> None:
    for name in ("discrete-laplace-mean", "smooth-laplace-median", "records-cells"):
        plain = EXAMPLES[name].to_dict()
        for path in leaves(plain):
            if path:
                refusal(json.dumps(changed(plain, path, "another")).encode())


@pytest.mark.parametrize(
    "value", [None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"a": 1}, 10**30, "1/0", [None]], ids=repr
)
def test_wrong_types_anywhere_are_refused_in_one_sentence(value: Any) -> None:
    for name in ("discrete-laplace-mean", "finite-count", "moments-fourth", "records-cells", "smooth-laplace-median"):
        plain = EXAMPLES[name].to_dict()
        for path in leaves(plain):
            if path and path[0] != "hash" and len(path) < 4:
                load_or_refuse(changed(plain, path, value))


def load_or_refuse(plain: Any) -> nw.Release | None:
    """Load a forged file; what loads must also print, estimate and make the trip again."""
    forged = hashed(plain) if isinstance(plain, dict) else plain
    release = loaded_or_told(json.dumps(forged).encode())
    if isinstance(release, str):
        return None
    assert nw.Release.from_bytes(release.to_bytes()) == release
    assert np.all(np.isfinite(release.estimate))
    assert describe_release(release)
    return release


REFUSED: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "unknown version": ("discrete-laplace-mean", ("format",), "noisewise-release/2"),
    "no version": ("discrete-laplace-mean", ("format",), ...),
    "no hash": ("discrete-laplace-mean", ("hash",), ...),
    "an extra field": ("discrete-laplace-mean", ("path",), "/home/someone/records.csv"),
    "a smooth scale": ("smooth-laplace-median", ("law", "scale"), 0.25),
    "too few values": ("discrete-laplace-mean", ("value",), [1]),
    "too many values": ("discrete-laplace-mean", ("value",), [1, 2, 3, 4]),
    "a float value": ("discrete-laplace-mean", ("value", 0), 1.0),
    "a text value": ("discrete-laplace-mean", ("value", 0), "1"),
    "a true value": ("discrete-laplace-mean", ("value", 0), True),
    "an enormous value": ("discrete-laplace-mean", ("value", 0), 2**100),
    "too few weights": ("discrete-laplace-mean", ("statistic", "weights"), ["1"]),
    "no weights": ("discrete-laplace-mean", ("statistic", "weights"), ...),
    "a weight of 0": ("discrete-laplace-mean", ("statistic", "weights", 0), "0"),
    "a law of another size": ("discrete-laplace-mean", ("law", "scale"), [1.0]),
    "a step off powers of two": ("discrete-laplace-mean", ("law", "step", 0), 0.3),
    "a scale of 0": ("discrete-laplace-mean", ("law", "scale", 0), 0),
    "an unknown law": ("discrete-laplace-mean", ("law", "family"), "uniform"),
    "an unknown statistic": ("discrete-laplace-mean", ("statistic", "kind"), "mode"),
    "another statistic's law": ("smooth-laplace-median", ("statistic", "kind"), "mean"),
    "a quantile's statistic": ("exponential-quantile", ("statistic", "kind"), "median"),
    "an unknown column": ("discrete-laplace-mean", ("statistic", "features", 0), "salary + 1)"),
    "code": ("discrete-laplace-mean", ("statistic", "features", 0), "__import__('os').system('true')"),
    "a part backwards": ("discrete-laplace-mean", ("part",), ["1/2", "0"]),
    "a part beyond": ("discrete-laplace-mean", ("part",), ["0", "2"]),
    "no neighbours": ("discrete-laplace-mean", ("schema", "neighbours"), ...),
    "other neighbours": ("discrete-laplace-mean", ("schema", "neighbours"), "none"),
    "n of 0": ("discrete-laplace-mean", ("schema", "n"), 0),
    "an enormous n": ("discrete-laplace-mean", ("schema", "n"), 10**40),
    "swapped bounds": ("discrete-laplace-mean", ("schema", "columns", "x", "bounds"), [7, -1]),
    "an infinite bound": ("discrete-laplace-mean", ("schema", "columns", "x", "bounds", 1), "inf"),
    "a negative epsilon": ("discrete-laplace-mean", ("guarantee", "epsilon"), "-1"),
    "epsilon nan": ("discrete-laplace-mean", ("guarantee", "epsilon"), "nan"),
    "another kind": ("discrete-laplace-mean", ("guarantee", "kind"), "no-dp"),
    "a negative count": ("records-cells", ("value", "counts"), [-1, 4, 3]),
    "counts off n": ("records-cells", ("value", "counts"), [1, 2, 4]),
    "unsorted answers": ("records-laplace", ("value", "answers"), [5, 0, 0, 7, 8, 9]),
    "answers for counts": ("records-cells", ("value",), {"answers": [1, 2, 3]}),
    "an output off the matrix": ("finite-count", ("value",), [7]),
    "rows off 1": ("finite-count", ("law", "rows", 0, 0), "1/2"),
    "a row that is a number": ("finite-count", ("law", "rows", 0), 5),
    "a keep of 1": ("records-cells", ("law", "keep"), "1"),
    "cells off the statistic": ("records-cells", ("law", "cells"), 4),
    "a long data-set name": ("discrete-laplace-mean", ("dataset",), "d" * 65),
    "a long text": ("discrete-laplace-mean", ("statistic", "features", 0), "x+" * 10**6 + "x"),
    "a long sum": ("discrete-laplace-mean", ("statistic", "features", 0), "+".join(["x"] * 5000)),
    "deep parentheses": ("discrete-laplace-mean", ("statistic", "features", 0), "(" * 5000 + "x" + ")" * 5000),
    "a tower of powers": ("discrete-laplace-mean", ("statistic", "features", 0), "x**9**9**9**9"),
    "a minus of nothing": ("discrete-laplace-mean", ("statistic", "features", 0), "-None"),
    "a minus of a statistic": ("discrete-laplace-mean", ("statistic", "features", 0), "-mean(x)"),
    "a long fraction": ("discrete-laplace-mean", ("guarantee", "epsilon"), "1/" + "3" * 10**5),
    "long exponents": ("discrete-laplace-mean", ("guarantee", "epsilon"), "1e999999999"),
    "a table of 10^12 cells": ("marginals", ("statistic", "cliques"), [["h", "g"]] * 10**5),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_forged_file_is_refused_in_one_sentence(case: str) -> None:
    name, path, value = REFUSED[case]
    plain = EXAMPLES[name].to_dict()
    assert load_or_refuse(plain) == EXAMPLES[name]  # the unforged one passes, so the refusal is of the forgery
    forged = changed(plain, path, value)
    data = json.dumps(forged if path == ("hash",) else hashed(forged)).encode()
    refusal(data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("12345678901", "NaN"),
        ("12345678901", "Infinity"),
        ("12345678901", "-Infinity"),
        ("12345678901", "1e999"),
        ("12345678901", "1" * 10**5),
        ("12345678901", "[" * 10**5),
        ("12345678901", '{"a":' * 10**5),
        ('"simulated": false', '"simulated": false, "simulated": false'),
        ('"kind": "mean"', '"kind": "mean", "kind": "sum"'),
        ('"6f1c"', '"\\ud800"'),
        ('"6f1c"', '"' + "a" * 10**7 + '"'),
    ],
    ids=lambda text: text[:24],
)
def test_hostile_json_is_refused_in_one_sentence(old: str, new: str) -> None:
    text = json.dumps(hashed(EXAMPLES["discrete-laplace-mean"].to_dict()))
    assert old in text
    refusal(text.replace(old, new, 1).encode())


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b'"a"', b"1", b"\xff\xfe", b"\x00" * 100, b"\xef\xbb\xbf{}", b"{}", b"PK\x03\x04"]
)
def test_what_is_not_a_release_is_refused(data: bytes) -> None:
    refusal(data)


def test_many_signs_cost_no_more_than_their_length() -> None:
    plain = EXAMPLES["discrete-laplace-mean"].to_dict()
    load_or_refuse(changed(plain, ("statistic", "features", 0), "-" * 60 + "x"))


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(
        ["1/2", "0", "1e5", "-1", "x", "x**2", "abs(x)", "clip(x, 0, 1)", "mean", "median", "records", "quantile",
         "histogram", "marginals", "moments", "discrete-laplace", "finite", "exponential", "randomized-response",
         "smooth-cauchy", "add-remove", "refuse", "pure-dp", "gaussian-dp", "x if x else x", "lambda: x", "[x]"]
    ),
    st.lists(st.integers(-2, 10), max_size=4),
    st.dictionaries(st.sampled_from(["kind", "family", "x", "counts", "answers", "bounds", "levels"]),
                    st.integers(-2, 2), max_size=2),
)  # fmt: skip


@given(st.data())
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_forgery_at_random_places_loads_or_is_refused_and_never_crashes(data: st.DataObject) -> None:
    plain: Any = EXAMPLES[data.draw(st.sampled_from(sorted(EXAMPLES)))].to_dict()
    for _ in range(data.draw(st.integers(1, 3))):
        places = [path for path in leaves(plain) if path and path != ("hash",)]
        path = data.draw(st.sampled_from(places))
        act = data.draw(st.sampled_from(["replace", "remove", "move", "repeat"]))
        if act == "move":  # a piece of another release, or of another place
            other: Any = EXAMPLES[data.draw(st.sampled_from(sorted(EXAMPLES)))].to_dict()
            source = data.draw(st.sampled_from([p for p in leaves(other) if p]))
            piece = other
            for step in source:
                piece = piece[step]
            plain = changed(plain, path, copy.deepcopy(piece))
        elif act == "repeat":
            piece = plain
            for step in path:
                piece = piece[step]
            plain = changed(plain, path, [copy.deepcopy(piece)] * data.draw(st.integers(0, 3)))
        else:
            plain = changed(plain, path, ... if act == "remove" else data.draw(HOSTILE))
    load_or_refuse(plain)


# ---- noise between what a short search certifies and what records reach ----

TIGHT = Path(__file__).parent / "golden" / "tight-release-1.json"  # of 0.1, whose search of these features took 13 s


def with_noise(share: float) -> str:
    plain = json.loads(TIGHT.read_text("utf-8"))
    plain["law"]["scale"] = [share * scale for scale in plain["law"]["scale"]]
    return json.dumps(hashed(plain))


def test_a_release_whose_bound_took_a_longer_search_loads_as_it_did() -> None:
    release = nw.Release.load(TIGHT)
    due = nw.plan(release.statistic, release.schema, guarantee=release.guarantee, weights=release.weights)
    assert due.law.scale[0] > 1.01 * release.law.scale[0], "today's plan has more noise, so something was shown"
    assert json.loads(release.to_bytes()) == json.loads(TIGHT.read_text("utf-8"))


def test_noise_that_two_records_refute_is_refused_and_noise_that_none_does_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InvalidRelease, match="is not to be trusted"):
        nw.Release.from_bytes(with_noise(0.9).encode())
    monkeypatch.setattr(sensitivity, "LARGEST_PROOF", sensitivity.LARGEST_WORK // 20)
    with pytest.raises(InvalidRelease, match=r"cannot be shown.*Ask the holder"):
        nw.Release.from_bytes(with_noise(0.999).encode())
