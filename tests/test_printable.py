"""What strangers wrote is printed, never obeyed."""

from __future__ import annotations

import io
import sys
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.cli.actions import PlainConsole, cell, show_ledger, show_release
from noisewise.html import Section
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict, Words
from noisewise.printable import printable, printable_lines, shown, toml_key, toml_text
from noisewise.release import Release
from noisewise.report.words import describe_release

EVIL = "a\x1b[31mred\x1b[0m\r\n\x07\u202eevil\u2066\u200b[link=file:///etc]x[/]$\\frac$"


def evil_release() -> Release:
    schema = nw.Schema({EVIL: nw.Levels([EVIL, "b"]), "y": nw.Bounded(0, 1)}, n=100, neighbours="change-one")
    plan = nw.plan(nw.Histogram(EVIL), schema, guarantee=nw.PureDP(1))
    return Release.of(plan, [40, 60], dataset="d\x1b[2J\nPrice: epsilon = 0", ledger_head=None, simulated=False)


def test_only_what_unicode_calls_printable_is_printed() -> None:
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        made = printable(character)
        assert made.isprintable()
        if character == " " or unicodedata.category(character)[0] not in "CZ":
            assert made == character
    assert printable("Größe 年齢 é") == "Größe 年齢 é"
    assert printable("a\x1b\n\u202e\ud800") == r"a\x1b\n\u202e\ud800"
    assert printable_lines("a\n\x1b") == "a\n\\x1b"
    assert printable(printable(EVIL)) == printable(EVIL)


@pytest.mark.parametrize("value", [10**5000, [10**5000], "x" * 1000, EVIL, "\ud800", None, float("nan")], ids=type)
def test_anything_can_be_shown_in_a_refusal(value: Any) -> None:
    assert len(shown(value)) <= 60
    assert shown(value).isprintable()


def test_a_forged_release_cannot_write_lines_or_colours_of_its_own() -> None:
    release = Release.from_bytes(evil_release().to_bytes())
    assert release == evil_release()
    honest = describe_release(release).split("\n")
    assert all(line.isprintable() for line in honest)
    assert sum(line.startswith("Price:") for line in honest) == 1
    assert repr(release).isprintable()
    assert str(release).isprintable()
    assert all(
        line.isprintable()
        for line in nw.plan(release.statistic, release.schema, guarantee=nw.PureDP(1)).describe().split("\n")
    )


def test_the_command_line_prints_a_forged_release_and_its_ledger_plainly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil_release().save(tmp_path / "evil.json")
    show_release(tmp_path / "evil.json")
    schema = nw.Schema({EVIL: nw.Levels(["a", "b"])}, n=3, neighbours="change-one")
    table = nw.Table.read({EVIL: ["b"] * 3}, schema)
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        plan = nw.plan(nw.Histogram(EVIL), table.schema, guarantee=nw.PureDP(1))
        nw.make_release(table, plan, ledger=ledger)
    show_ledger(tmp_path / "ledger")
    said = capsys.readouterr().out
    assert all(line.isprintable() for line in said.split("\n"))
    assert "[link=file:///etc]" in said


def test_an_error_prints_plainly_and_ends() -> None:
    error = nw.InvalidArgument(f"There is no {EVIL}.\nSecond line.", argument=EVIL)
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert str(error).endswith("\nSecond line.")
    assert len(str(nw.NoisewiseError("x" * 10**6))) < 5000


def test_a_forged_posterior_is_summed_up_plainly(tmp_path: Path, rng: np.random.Generator) -> None:
    population = nw.Normal(mean=stats.norm(0, 1), sd=1.0).named("y")
    schema = nw.Schema({"y": nw.Bounded(0, 1)}, n=100, neighbours="change-one")
    release = Release.of(nw.plan(nw.Mean(nw.column("y")), schema, guarantee=nw.PureDP(1)), [5], dataset="d",
                         ledger_head=None, simulated=False)  # fmt: skip
    forged = Posterior({"mean": rng.normal(size=(2, 100)), EVIL: rng.normal(size=(2, 100))}, EVIL, EVIL, EVIL,
                       Verdict(Words(EVIL)), population, (release,))  # fmt: skip
    forged.save(tmp_path / "p")
    loaded = nw.Posterior.load(tmp_path / "p")
    assert all(line.isprintable() for line in loaded.summary().split("\n"))
    assert repr(loaded).isprintable()


def test_html_and_tables_show_escapes() -> None:
    html = Section("t" + EVIL, EVIL, EVIL, (EVIL,), [(EVIL,)]).html()
    assert all(line.isprintable() for line in html.split("\n"))
    assert cell(EVIL).plain == printable(EVIL)
    stream = io.StringIO()
    PlainConsole(file=stream, highlight=False, soft_wrap=True).print(EVIL, markup=False)
    assert "\x1b" not in stream.getvalue()


def test_a_name_that_is_no_formula_is_drawn(rng: np.random.Generator) -> None:
    from noisewise.report.plots import posterior_plot

    assert posterior_plot([{"name": "$\\frac$", "draws": rng.normal(size=(2, 50)), "interval": (-1, 1), "level": 0.9}])


@pytest.mark.parametrize(
    "name",
    [
        "income",
        "CO(GT)",
        "net income",
        "",
        "a.b",
        'say "so"',
        "back\\slash",
        "tab\tin it",
        "Größe",
        "\u202e",
        "\x7f",
        "😀",
        "\x00",
    ],
)
def test_a_key_and_a_text_in_toml_are_read_back_as_they_are(name: str) -> None:
    assert tomllib.loads(f"missing = {{ {toml_key(name)} = 3 }}") == {"missing": {name: 3}}
    assert tomllib.loads(f"key = {toml_text(name)}") == {"key": name}
    assert "\n" not in toml_key(name + "\n")
    assert toml_key("income") == "income"
