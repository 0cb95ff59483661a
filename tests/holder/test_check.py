"""Table.check: what it counts is right, what it shows is little, and nothing of it gets out (F2, F4)."""

from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from people_tables import CANARY, WORD, one, write

import noisewise as nw
from noisewise.errors import InvalidArgument, InvalidData, Unregistered
from noisewise.holder.check import RecordCheck
from noisewise.holder.clamp_effects import look_at
from noisewise.report.words import describe_release
from noisewise.schema import Bounded, Levels, Schema

N = 1000
LOW, HIGH = 0.0, 10.0
REGIONS = ["north", "south"]


def made(seed: int) -> pd.DataFrame:
    """Records with every kind of fault, as text."""
    rng = np.random.default_rng(seed)
    x = rng.normal(5, 4, N).round(3).astype(str)
    x[rng.choice(N, 300, replace=False)] = rng.choice(["-200", "999", "NA", "", "inf", "abc"], 300)
    g = rng.choice([*REGIONS, "North", "", "rare"], N, p=[0.5, 0.3, 0.1, 0.06, 0.04])
    return pd.DataFrame({"x": x, "g": g, "id": np.arange(N)})


def schema(n: int = N, **changes: Any) -> Schema:
    columns = {"x": Bounded(LOW, HIGH), "g": Levels(REGIONS)}
    return Schema(columns, **({"n": n, "neighbours": "change-one"} | changes))


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def sources(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    path = folder / "r.csv"
    frame.to_csv(path, index=False)
    nulls = frame.replace("", None)
    return {
        "csv": path,
        "pandas": nulls,
        "ibis": ibis.duckdb.connect().create_table("t", pa.Table.from_pandas(nulls, preserve_index=False)),
    }


@pytest.mark.parametrize("kind", ["csv", "pandas", "ibis"])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_every_count_is_what_plain_python_counts(kind: str, neighbours: str, tmp_path: Path) -> None:
    size = {"n": N} if neighbours == "change-one" else {"n": None, "n_max": 2 * N}
    frame = made(np.random.SeedSequence().entropy % 2**32)
    check = nw.Table.check(sources(frame, tmp_path)[kind], schema(neighbours=neighbours, **size))
    numbers = [number(text) for text in frame["x"]]
    finite = [v for v in numbers if v is not None and math.isfinite(v)]
    x, g = check.column("x"), check.column("g")
    assert check.rows == N
    assert x.missing == sum(text == "" for text in frame["x"])
    assert x.unparsable == sum(v is None and text != "" for v, text in zip(numbers, frame["x"], strict=True))
    assert x.infinite == sum(v is not None and math.isinf(v) for v in numbers)
    assert (x.below, x.above) == (sum(v < LOW for v in finite), sum(v > HIGH for v in finite))
    assert (g.missing, g.undeclared, g.undeclared_levels) == (
        sum(frame["g"] == ""),
        sum(text not in ("", *REGIONS) for text in frame["g"]),
        2,
    )


def test_a_check_refuses_nothing_and_says_what_a_read_would_refuse(tmp_path: Path) -> None:
    frame = made(1)
    check = nw.Table.check(frame, schema(n=17))
    with pytest.raises(InvalidData) as refused:
        nw.Table.read(frame, schema(n=17))
    assert check.refusal == str(refused.value)
    clean = nw.Table.check({"x": [1.0] * 40, "g": ["north"] * 40}, schema(40))
    assert clean.refusal is None
    assert all(column.is_clean for column in clean.columns)
    assert nw.Table.check({"x": [], "g": []}, schema()).rows == 0


# --- the few values that may be shown ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [30, 1000, 2000, 5000])
@pytest.mark.parametrize("is_shown", [False, True])
def test_a_value_is_shown_only_if_enough_rows_share_it(rows: int, is_shown: bool) -> None:
    """At least max(20, n/100): outside the bounds, no number, or a level that was not declared."""
    shared = {30: 20, 1000: 20, 2000: 20, 5000: 50}[rows] - (not is_shown)
    rest = rows - shared
    cases = {
        "-83751": ({"x": [1.0] * rest + [-83751.0] * shared}, Bounded(0, 10)),
        "83751": ({"x": [1.0] * rest + [83751.0] * shared}, Bounded(0, 10)),
        WORD: ({"x": ["1"] * rest + [WORD] * shared}, Bounded(0, 10)),
        WORD + "s": ({"x": ["a"] * rest + [WORD + "s"] * shared}, Levels(["a", "b"])),
    }
    for text, (source, column) in cases.items():
        check = nw.Table.check(source, one(column, rows))
        codes = check.column("x").codes
        assert [code.text for code in codes] == ([text] if is_shown else [])
        assert all(code.rows == shared for code in codes)
        for told in (str(check), check.text(in_toml=True), check.to_html(), json.dumps(check.to_dict())):
            assert (text in told) == is_shown


def test_no_other_value_is_ever_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    """Canaries everywhere: as an outlier, a word, a level, the median, the maximum; held by 19 rows each."""
    caplog.set_level(logging.DEBUG)
    n = 400
    x = [str(v) for v in np.linspace(1, 9, n - 19 * 3)] + [CANARY] * 19 + ["-" + CANARY] * 19 + [WORD] * 19
    g = ["north"] * (n - 19) + [WORD] * 19
    z = [CANARY] * 19 + [str(0.5 * k) for k in range(n - 19)]  # inside its bounds
    columns = {"x": Bounded(0, 10), "g": Levels(REGIONS), "z": Bounded(0, 1e6)}
    declared = Schema(columns, n=n, neighbours="change-one")
    texts = ("median(z)", "maximum(z)", "minimum(x)", "quantile(z, 0.99)", "mean(z, x)", "histogram(z, [100])",
             "records(z)", "marginals([g])", "moments([x], z)")  # fmt: skip
    plans = [nw.plan(nw.statistic(text), declared, guarantee=nw.PureDP(1)) for text in texts]
    path = write(tmp_path / "r.csv", "x,g,z\n" + "".join(f"{a},{b},{c}\n" for a, b, c in zip(x, g, z, strict=True)))
    check = nw.Table.check(path, declared, plans=plans)
    told = [str(check), repr(check), check.text(in_toml=True), check.to_html(), check._repr_html_(),
            json.dumps(check.to_dict()), caplog.text, *capfd.readouterr()]  # fmt: skip
    for secret in (CANARY, CANARY.split(".")[0], WORD, "83751.9"):
        assert not [text for text in told if secret in text]


def test_a_shared_word_cannot_write_on_the_terminal_or_the_page() -> None:
    word = "\x1b[31m<b>evil</b>\u202e"
    check = nw.Table.check({"x": [word] * 50}, one(Levels(["a", "b"]), 50))
    assert check.column("x").codes[0].rows == 50
    assert "\x1b" not in str(check)
    assert "<b>" not in check.to_html()
    assert "&lt;b&gt;" in check.to_html()


def test_codes_are_found_among_many_outliers() -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(0, 10, 900), rng.uniform(20, 900, 150), [-200.0] * 60, [999.0] * 30])
    check = nw.Table.check({"x": x}, one(Bounded(0, 10), len(x)))
    expected = [text for text, rows in Counter({"-200": 60, "999": 30}).most_common() if rows >= 20]
    assert sorted(code.text for code in check.column("x").codes) == sorted(expected)


# --- what the clamp does ----------------------------------------------------------------------------------------------


def effects(check: RecordCheck, k: int = 0) -> dict[str, tuple[float | None, float | None]]:
    return {effect.label: (effect.released, effect.inside) for effect in check.statistics[k].effects}


def test_the_mean_of_those_present_is_told_beside_its_sum_and_count() -> None:
    """-200 is clamped, some values are missing: what counts is the mean that a reader takes off sum and count."""
    rng = np.random.default_rng(3)
    x = rng.uniform(1, 9, N)
    x[:200], x[200:300] = -200, np.nan
    own = schema(missing="leave-out")
    frame = pd.DataFrame({"x": x, "g": "north"})
    plans = [nw.plan(nw.Mean("x"), own, guarantee=nw.PureDP(1))]
    released, inside = effects(nw.Table.check(frame, own, plans=plans))["mean(x) of those present"]
    assert released == pytest.approx(np.nanmean(np.clip(x, LOW, HIGH)), rel=1e-9)
    assert inside == pytest.approx(x[300:].mean(), rel=1e-9)
    few = frame.assign(x=np.where(np.arange(N) < N - 19, np.nan, x))
    coded = few.assign(x=few.x.where(few.index != N - 1, -200.0))
    hidden = ["count present", "sum(x)", "mean(x) of those present"]
    assert effects(nw.Table.check(coded, own, plans=plans)) == dict.fromkeys(hidden, (None, None))


@pytest.mark.parametrize("fill", [None, 3.0])
def test_a_statistic_stands_beside_what_the_rows_inside_give(fill: float | None) -> None:
    rng = np.random.default_rng()
    x = rng.normal(5, 4, 500)
    x[:40] = -200
    if fill is not None:
        x[40:60] = np.nan
    changes = {} if fill is None else {"missing": {"x": fill}}
    declared = one(Bounded(0, 10), 500, **changes)
    texts = ("mean(x, x**2)", "sum(x)", "count(between(x, 2, 4))", "histogram(x, [2, 8])", "median(x)")
    plans = [nw.plan(nw.statistic(text), declared, guarantee=nw.PureDP(1)) for text in texts]
    check = nw.Table.check({"x": x}, declared, plans=plans)
    released = np.clip(np.where(np.isnan(x), 0 if fill is None else fill, x), 0, 10)
    inside = x[(x >= 0) & (x <= 10)]
    scale = 500 / len(inside)
    expected = {
        "mean(x)": (released.mean(), inside.mean()),
        "mean(x**2)": ((released**2).mean(), (inside**2).mean()),
        "sum(x)": (released.sum(), inside.sum() * scale),
        "count(between(x, 2, 4))": (
            ((released >= 2) & (released <= 4)).sum(),
            ((inside >= 2) & (inside <= 4)).sum() * scale,
        ),
    }
    found = {label: pair for k in range(3) for label, pair in effects(check, k).items()}
    assert set(found) == set(expected)
    for label, pair in expected.items():
        assert found[label] == pytest.approx(pair, rel=1e-9)
    ends = list(effects(check, 3).values())
    assert ends[0] == pytest.approx(((released < 2).sum(), (inside < 2).sum() * scale))
    assert ends[1] == pytest.approx(((released >= 8).sum(), (inside >= 8).sum() * scale))
    median = np.sort(released)[math.ceil(500 / 2) - 1]
    (place,) = check.statistics[4].effects
    shares = [float(share) for share in re.findall(r"([\d.]+) %", place.words)]
    assert shares == pytest.approx([100 * (released < median).mean(), 100 * (inside < median).mean()], abs=0.051)
    assert check.statistics[0].clamped == ((x < 0) | (x > 10)).sum()
    assert check.statistics[0].filled == np.isnan(x).sum()


def test_a_clip_in_a_feature_is_not_clamping() -> None:
    x = np.linspace(0, 10, 200)
    declared = one(Bounded(0, 10), 200)
    plans = [nw.plan(nw.Mean(nw.column("x").clip(4, 6)), declared, guarantee=nw.PureDP(1))]
    check = nw.Table.check({"x": x}, declared, plans=plans)
    assert (check.statistics[0].clamped, check.statistics[0].effects) == (0, ())
    assert nw.Table.read({"x": x}, declared, clamp_at_most=0).clamped[0].moved == 0


def test_no_average_of_few_rows_is_shown() -> None:
    declared = one(Bounded(0, 10), 30)
    plans = [nw.plan(nw.Mean("x"), declared, guarantee=nw.PureDP(1))]
    for inside, is_shown in ((19, False), (20, True)):
        check = nw.Table.check({"x": [1.0] * inside + [-5.0 - k for k in range(30 - inside)]}, declared, plans=plans)
        assert bool(check.statistics[0].effects) == is_shown


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(
    "text",
    [
        "moments([x], z)",
        "moments([x], z, shrink=3)",
        "moments([x], z, average=2)",
        "smallest_eigenvalue([x, z], shrink=3)",
        "truncated_sum([x], x, 1, 4)",
        "histogram(g)",
        "marginals([g])",
        "records(x)",
        "maximum(x)",
        "quantile(x, 0.5)",
        "mean(equals(g, 'north') * x)",
    ],
)
def test_every_statistic_can_be_looked_at(text: str, neighbours: str) -> None:
    size = {"n": 100} if neighbours == "change-one" else {"n_max": 100}
    columns = {"x": Bounded(0, 10), "z": Bounded(0, 1), "g": Levels(REGIONS)}
    declared = Schema(columns, neighbours=neighbours, **size)
    try:
        plan = nw.plan(nw.statistic(text), declared, guarantee=nw.PureDP(1))
    except nw.NoisewiseError:
        pytest.skip("not released under this relation or guarantee")
    rng = np.random.default_rng(5)
    x = rng.normal(5, 5, 100)
    check = nw.Table.check({"x": x, "z": rng.random(100), "g": ["north"] * 100}, declared, plans=[plan])
    outside = ((x < 0) | (x > 10)).sum()
    assert check.statistics[0].clamped == (outside if "x" in text.replace("max", "") else 0)
    assert str(check.statistics[0].statistic) in str(check)


def test_a_statistic_that_nobody_registered_is_refused() -> None:
    with pytest.raises(Unregistered, match="It is not known"):
        look_at(object(), schema())


def test_plans_of_another_schema_are_refused() -> None:
    other = nw.plan(nw.Mean("x"), one(Bounded(0, 5), 4), guarantee=nw.PureDP(1))
    for plans in ([other], ["mean(x)"], other):
        with pytest.raises(InvalidArgument):
            nw.Table.check({"x": [1.0]}, one(Bounded(0, 9), 1), plans=plans)  # type: ignore[arg-type]


# --- the stop ---------------------------------------------------------------------------------------------------------


def test_a_read_stops_above_the_share_that_was_allowed() -> None:
    declared = one(Bounded(0, 10), 200)
    x = [5.0] * 197 + [-float(CANARY)] * 2 + [11.0]
    assert [(c.below, c.above, c.rows) for c in nw.Table.read({"x": x}, declared, clamp_at_most="3/200").clamped] == [
        (2, 1, 200)
    ]
    nw.Table.read({"x": x}, declared)
    with pytest.raises(InvalidData) as stopped:
        nw.Table.read({"x": x}, declared, clamp_at_most=0.0149)
    error = stopped.value
    assert (error.column, error.fault, error.rows) == ("x", "clamped", 3)
    for told in (str(error), error.fields["toml"]):
        assert "3 of 200 values (1.5 %; 2 below, 1 above)" in told
        assert CANARY not in told
        assert told.endswith("Nothing was spent.")
    assert "--accept-clamping" in error.fields["toml"]
    assert "reader=" in str(error)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan, "x", True, [], 1e308])
def test_a_share_lies_between_nothing_and_all(share: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        nw.Table.read({"x": [1.0]}, one(Bounded(0, 9), 1), clamp_at_most=share)
    assert refused.value.argument == "clamp_at_most"


def test_nothing_of_a_check_is_in_a_release_or_a_ledger(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Canaries: the codes themselves, and the counts 12347 below and 23459 above wherever they stand by themselves."""
    caplog.set_level(logging.DEBUG)
    n = 100_003
    x = np.concatenate([np.full(n - 12347 - 23459, 5.0), np.full(12347, -54321.5625), np.full(23459, 67890.4375)])
    declared = one(Bounded(0, 10), n)
    plan = nw.plan(nw.Mean("x"), declared, guarantee=nw.PureDP(1))
    check = nw.Table.check({"x": x}, declared, plans=[plan])
    assert {(code.text, code.rows) for code in check.column("x").codes} == {
        ("-54321.5625", 12347),
        ("67890.4375", 23459),
    }
    table = nw.Table.read({"x": x}, declared, clamp_at_most=1)
    with nw.Ledger.open(tmp_path / "x.ledger", limit=nw.PureDP(1)) as ledger:
        release = nw.make_release(table, plan, ledger=ledger)
        told = [release.to_bytes().decode(), describe_release(release), repr(release), str(ledger), repr(ledger)]
    told += [repr(table), caplog.text, (tmp_path / "x.ledger").read_bytes().decode("latin-1")]
    for canary in ("54321.5625", "67890.4375", "above", "RecordCheck", "clamp_at_most"):
        assert not [text for text in told if canary in text]
    alone = re.compile(r"(?<![0-9A-Za-z.])(12347|23459|35806)(?![0-9A-Za-z.])")
    assert alone.search(str(check))  # the search can find them
    assert not [text for text in told[:-1] if alone.search(text)]
    assert list(tmp_path.iterdir()) == [tmp_path / "x.ledger"]


def test_a_check_prints_itself_in_a_notebook_and_as_a_page() -> None:
    check = nw.Table.check(made(2), schema())
    page = check.to_html()
    assert page.startswith("<!doctype html>")
    assert "Not for publication" in page
    assert "chosen from the records" in page
    assert "<table>" in check._repr_html_()
    assert "http" not in page
    assert json.loads(json.dumps(check.to_dict(), allow_nan=False))["note"].endswith("not for publication.")
