"""The door: every kind of release survives the trip, and nothing else comes through (C7, F3).

Releases are made from plans and invented values, so no records are needed. A hostile file is one whose hash is right:
its author can compute it, too. Whatever it holds, loading it gives a release or one sentence, InvalidRelease.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import math
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import noisewise as nw
from noisewise.errors import InvalidRelease, NoisewiseError
from noisewise.privacy.finite import FiniteLaw, truncated_geometric
from noisewise.release import FORMAT, json_schema
from noisewise.report.words import describe_release

GOLDEN = Path(__file__).parent / "golden"
N = 6
x, y = nw.column("x"), nw.column("income in k")
COLUMNS = {"x": nw.Bounded(-0.3, 7), "income in k": nw.Bounded(0, 250), "g": nw.Levels(["north", "été"]),
           "h": nw.Levels([1, 2, 3])}  # fmt: skip
PUBLIC = nw.Schema(COLUMNS, n=N, neighbours="change-one", missing={"x": 1, "g": "north"})
PRIVATE = nw.Schema(COLUMNS, n_max=100, neighbours="add-remove", outside="refuse")
TRACES = nw.Schema(
    {**dict.fromkeys("hij", nw.Levels([1, 2, 3])), "income in k": nw.Bounded(0, 250)}, n=N, neighbours="change-one"
)
ESTIMATOR = FiniteLaw(truncated_geometric(N + 1, Fraction(1)), tuple(k / 6 for k in range(N + 1)))


def release_of(plan: nw.Plan, value: list[int] | None = None, **options: Any) -> nw.Release:
    values = value or [(-1) ** k * (12345678901 + 997 * k) for k in range(len(plan.statistic.labels(plan.part_schema)))]
    given = {"dataset": "6f1c", "ledger_head": "9ab0", "simulated": False} | options
    return nw.Release.of(plan, values, **given)


def planned(statistic: Any, schema: nw.Schema = PUBLIC, guarantee: Any = None, **options: Any) -> nw.Plan:
    return nw.plan(statistic, schema, guarantee=guarantee or nw.PureDP(1), **options)


# One for each law family and each kind of statistic; the names are those of the golden files.
EXAMPLES: dict[str, nw.Release] = {
    "discrete-laplace-mean": release_of(planned(nw.Mean(x, x**2, y.clip(0, 120)), part=("0", "1/2"))),
    "discrete-gaussian-sum": release_of(planned(nw.Sum(x * y), guarantee=nw.ZeroConcentratedDP("0.1"))),
    "rounded-gaussian-moments": release_of(
        planned(nw.Moments(["x"], y, centre={"x": "0.1"}, shrink="1.7"), guarantee=nw.GaussianDP(1))
    ),
    "moments-averaged": release_of(planned(nw.Moments(["x"], y, intercept=False, average=2, scale={"x": 3}))),
    "moments-fourth": release_of(planned(nw.Moments(["x"], y, fourth=True), PRIVATE)),
    "rounded-gaussian-eigenvalue": release_of(
        planned(nw.SmallestEigenvalue(["x", y], shrink=2), guarantee=nw.ApproxDP(1, "1e-6"))
    ),
    "truncated-sum": release_of(planned(nw.TruncatedSum([y], "x", 0, 5), PRIVATE)),
    "geometric-count": release_of(planned(nw.Count(x.between(0, 3)), mechanism="geometric"), [4]),
    "finite-count": release_of(planned(nw.Count(x.between(0, 3)), mechanism=ESTIMATOR), [5]),
    "histogram-levels": release_of(planned(nw.Histogram("g"), PRIVATE), [-3, 12]),
    "histogram-edges": release_of(planned(nw.Histogram("x", [0, "0.1", 3])), [0, 1, 2, 3]),
    "marginals": release_of(planned(nw.Marginals(["g", "h"], ["h"])), list(range(9))),
    "marginals-tied": release_of(
        planned(nw.Marginals(["h", "i"], ["i", "j"], tied=True, null=2), TRACES), list(range(9))
    ),
    "smooth-laplace-median": release_of(planned(nw.Median(x), guarantee=nw.ApproxDP(1, "1e-4"))),
    "smooth-cauchy-maximum": release_of(planned(nw.Maximum(x)), [-(2**90)]),
    "smooth-cauchy-minimum": release_of(planned(nw.Minimum(x - 1))),
    "exponential-quantile": release_of(planned(nw.Quantile(x, "1/3"))),
    "records-laplace": release_of(planned(nw.Records(x)), [-5, 0, 0, 7, 8, 2**40]),
    "records-cells": release_of(planned(nw.Records(x, cells=[0, "0.5"])), [1, 2, 3]),
    "records-levels": release_of(planned(nw.Records("h")), [6, 0, 0]),
    "simulated": release_of(planned(nw.Mean(x)), simulated=True, ledger_head=None),
}


def hashed(plain: dict[str, Any]) -> dict[str, Any]:
    """The plain form with the hash a careful forger would write: SHA-256 of the sorted, compact JSON text."""
    rest = {key: value for key, value in plain.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return {**rest, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


def loaded_or_told(data: bytes) -> nw.Release | str:
    """The release, or the one sentence that refuses it; any other exception is a fault."""
    try:
        return nw.Release.from_bytes(data)
    except InvalidRelease as error:
        message = str(error)
    assert message
    assert "\n" not in message
    assert "Traceback" not in message
    assert len(message) < 1500
    return message


def refusal(data: bytes) -> None:
    assert isinstance(loaded_or_told(data), str), "a file that should be refused was loaded"


# ---- the trip ----


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_kind_of_release_comes_back_equal_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    release = EXAMPLES[name]
    release.save(tmp_path / "r.json")
    loaded = nw.Release.load(tmp_path / "r.json")
    assert loaded == release
    assert loaded.to_bytes() == release.to_bytes() == (tmp_path / "r.json").read_bytes()
    assert list(loaded.schema.columns) == list(release.schema.columns)
    assert (loaded.labels, loaded.hash) == (release.labels, release.hash)
    assert loaded.estimate.tolist() == release.estimate.tolist()
    assert nw.Release.from_dict(release.to_dict()) == release
    assert describe_release(loaded) == describe_release(release)


def test_the_examples_cover_every_law_family_and_statistic() -> None:
    from noisewise.privacy.law import FAMILIES
    from noisewise.statistics.text import STATISTICS

    assert {release.law.family for release in EXAMPLES.values()} == set(FAMILIES)
    assert {release.statistic.kind for release in EXAMPLES.values()} == {k.replace("_", "-") for k in STATISTICS}
    assert {type(release.guarantee) for release in EXAMPLES.values()} == {
        nw.PureDP, nw.ApproxDP, nw.ZeroConcentratedDP, nw.GaussianDP,
    }  # fmt: skip


def test_the_estimate_is_value_times_step_and_a_mean_is_divided_by_n() -> None:
    mean = EXAMPLES["discrete-laplace-mean"]
    assert mean.schema.n == 3
    exact = [Fraction(v) * Fraction(s) / 3 for v, s in zip(mean.value, mean.law.step, strict=True)]
    assert mean.estimate.tolist() == pytest.approx([float(e) for e in exact], rel=1e-15)
    assert EXAMPLES["finite-count"].estimate.tolist() == [5 / 6]
    assert EXAMPLES["records-cells"].estimate.tolist() == [1, 2, 3]
    maximum = EXAMPLES["smooth-cauchy-maximum"]
    assert maximum.estimate[0] == -(2.0**90) * maximum.law.step


def test_the_words_of_a_release_name_statistic_price_neighbours_and_columns() -> None:
    for release in EXAMPLES.values():
        words = describe_release(release)
        for part in (str(release.statistic), str(release.guarantee), release.schema.neighbours, "income in k"):
            assert part in words
        assert ("SIMULATED" in words) == release.simulated


def test_a_simulated_release_says_so_in_its_file() -> None:
    real = EXAMPLES["discrete-laplace-mean"]
    marked = nw.Release.from_bytes(replace(real, simulated=True).to_bytes())
    assert marked.simulated
    assert marked.hash != real.hash


# ---- golden files ----


def golden_files() -> list[Path]:
    return sorted(GOLDEN.glob("release-1-*.json"))


def test_there_is_a_golden_file_for_every_example() -> None:
    assert {path.stem.removeprefix("release-1-") for path in golden_files()} == set(EXAMPLES)


@pytest.mark.parametrize("path", golden_files(), ids=lambda path: path.stem)
def test_old_release_files_still_open_and_read_the_same(path: Path) -> None:
    """These files were written by the first version of the format and are never written again."""
    release = nw.Release.load(path)
    known = json.loads((GOLDEN / "estimates-1.json").read_text("utf-8"))[path.stem]
    assert release.estimate.tolist() == known["estimate"]
    assert list(release.labels) == known["labels"]
    assert release.law.family == known["family"]
    assert str(release.guarantee) == known["guarantee"]
    assert release.to_bytes() == path.read_bytes()


def test_the_json_schema_describes_the_format() -> None:
    schema = json_schema()
    assert set(schema["required"]) == set(EXAMPLES["simulated"].to_dict())
    assert schema["additionalProperties"] is False
    json.dumps(schema)
    if importlib.util.find_spec("jsonschema") is not None:
        import jsonschema

        validator = jsonschema.validators.validator_for(schema)
        validator.check_schema(schema)
        for path in golden_files():
            validator(schema).validate(json.loads(path.read_text("utf-8")))
        broken = json.loads(golden_files()[0].read_text("utf-8")) | {"value": [1.5]}
        assert not validator(schema).is_valid(broken)


# ---- damaged files ----


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


# ---- files ----


def test_a_file_that_is_missing_a_folder_or_too_large_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as stream:
        stream.truncate(201 * 2**20)
    for path in (tmp_path / "nothing.json", tmp_path, large):
        with pytest.raises(InvalidRelease, match=path.name):
            nw.Release.load(path)


def test_a_release_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    first, second = EXAMPLES["discrete-laplace-mean"], EXAMPLES["marginals"]
    first.save(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(NoisewiseError, match="asking for it again is free"):
            second.save(path)
    assert nw.Release.load(path) == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]
    with pytest.raises(NoisewiseError, match="Cannot write"):
        first.save(tmp_path / "no" / "such" / "folder.json")


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    known = [EXAMPLES["discrete-laplace-mean"], EXAMPLES["marginals"]]
    known[0].save(path)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for release in known:
                release.save(path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(150):
            assert nw.Release.load(path) in known
    finally:
        stop.set()
        writer.join()


def test_a_release_cannot_be_made_with_a_value_that_does_not_fit() -> None:
    plan = planned(nw.Mean(x))
    with pytest.raises(InvalidRelease, match="components"):
        release_of(plan, [1, 2])
    assert FORMAT.endswith("/1")
    assert math.isfinite(release_of(plan, [1]).estimate[0])
