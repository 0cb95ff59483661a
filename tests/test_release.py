"""The door: every kind of release survives the trip, and old files still open (C7).

Releases are made from plans and invented values, so no records are needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from release_examples import EXAMPLES, planned, release_of, x

import noisewise as nw
from noisewise.errors import InvalidRelease, NoisewiseError
from noisewise.release import FORMAT, json_schema
from noisewise.report.words import describe_release

GOLDEN = Path(__file__).parent / "golden"


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
    from noisewise.laws.protocol import FAMILIES
    from noisewise.statistics.registry import statistic_kinds

    assert {release.law.family for release in EXAMPLES.values()} == set(FAMILIES)
    assert {release.statistic.kind for release in EXAMPLES.values()} == {kind.kind for kind in statistic_kinds()}
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
    of_format_1 = {name for name, release in EXAMPLES.items() if release.format == "noisewise-release/1"}
    assert {path.stem.removeprefix("release-1-") for path in golden_files()} == of_format_1


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


# ---- format 2: only where format 1 has no word for it ----


def in_units(statistic: str, unit: str | None = "thousand EUR") -> nw.Release:
    schema = nw.Schema(
        {"income": nw.Bounded(1, 250, unit=unit), "age": nw.Bounded(0, 120)}, n=3, neighbours="change-one"
    )
    made = nw.plan(nw.statistic(statistic), schema, guarantee=nw.PureDP(1))
    return nw.Release.of(made, [5] * len(made.noise), dataset="d", ledger_head=None, simulated=False)


@pytest.mark.parametrize(
    ("statistic", "unit", "is_new"),
    [
        ("mean(income)", None, False),
        ("mean(income)", "thousand EUR", True),
        ("count(between(income, 2, 3))", None, False),
        ("count(between(income, 2, 2))", None, True),
        ("count(income > 3)", None, True),
        ("mean(age*(0 < income <= 3))", None, True),
        ("mean(log(income))", None, True),
        ("moments([log(income)], age)", None, True),
        ("moments([age], exp(income/100))", None, True),
        ("truncated_sum([income], income, 2, 3)", None, False),
        ("sum(column('log(<'))", None, False),
    ],
)
def test_what_format_1_cannot_say_is_written_as_format_2_and_nothing_else_is(
    statistic: str, unit: str | None, is_new: bool, tmp_path: Path
) -> None:
    if "log(<" in statistic:  # a column's name is no operation
        schema = nw.Schema({"log(<": nw.Bounded(0, 1)}, n=3, neighbours="change-one")
        made = nw.plan(nw.statistic(statistic), schema, guarantee=nw.PureDP(1))
        release = nw.Release.of(made, [5], dataset="d", ledger_head=None, simulated=False)
    else:
        release = in_units(statistic, unit)
    assert json.loads(release.to_bytes())["format"] == f"noisewise-release/{1 + is_new}"
    release.save(tmp_path / "r.json")
    loaded = nw.Release.load(tmp_path / "r.json")
    assert loaded.to_bytes() == release.to_bytes()
    assert loaded.schema.units == release.schema.units


def test_a_unit_in_a_file_of_format_1_is_refused_and_so_is_format_2_with_nothing_new() -> None:
    told, bare = in_units("mean(income)").to_dict(), in_units("mean(income)", None).to_dict()
    for plain, wrong in ((told, "noisewise-release/1"), (bare, "noisewise-release/2")):
        changed = {**plain, "format": wrong}
        changed["hash"] = digest_of(changed)
        with pytest.raises(InvalidRelease, match="is written as"):
            nw.Release.from_dict(changed)


def digest_of(plain: dict[str, object]) -> str:
    """The hash of a plain form, computed here: canonical JSON of everything but the hash."""
    rest = {key: value for key, value in plain.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_the_unit_is_told_with_the_value_where_the_value_has_it() -> None:
    words = describe_release(in_units("mean(income, clip(income, 2, 9), income**2, age)"))
    value = {line.split("  ")[1]: line for line in words.splitlines() if line.startswith("  mean(")}
    assert "thousand EUR  (noise sd" in value["mean(income)"]
    assert "thousand EUR  (noise sd" in value["mean(clip(income, 2, 9))"]
    assert "EUR" not in value["mean(income**2)"] + value["mean(age)"]
    assert "unit='thousand EUR'" in words
