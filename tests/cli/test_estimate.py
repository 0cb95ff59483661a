"""noisewise estimate: a spec in; risk, certificate and answers out; with records, one answer released."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run, Shown, run_here

from noisewise.release import Release

SPEC = """\
[schema]
n = 20
neighbours = "change-one"
[schema.columns]
smoker = { levels = ["no", "yes"] }

[ledger]
limit = { epsilon = "1" }

[release]
statistic = "count(equals(smoker, 'yes'))"
guarantee = { epsilon = "1" }

[population]
smoker = "bernoulli(p=beta(2, 2))"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process, in a folder with spec and records: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC, "utf-8")
    (tmp_path / "people.csv").write_text("smoker\n" + "yes\nno\nno\nno\n" * 5, "utf-8")

    def command(*arguments: str) -> Shown:
        return run_here(monkeypatch, capsys, "estimate", *arguments)

    return command


def test_risk_certificate_and_answers_are_printed_and_written(run: Run, tmp_path: Path) -> None:
    code, shown, errors = run("spec.toml", "--loss", "absolute", "--json", "best.json", "--plot", "best.png")
    assert (code, errors) == (0, "")
    assert shown.startswith("Bayes risk ")
    assert "absolute loss" in shown
    assert "checked exactly" in shown
    assert "Answers: " in shown
    written = json.loads((tmp_path / "best.json").read_text("utf-8"))
    assert (len(written["rows"]), written["loss"]) == (21, "absolute")
    assert (tmp_path / "best.png").read_bytes()[:4] == b"\x89PNG"
    assert not (tmp_path / "people.ledger").exists()


def test_with_records_one_answer_is_released_and_paid_once(run: Run, tmp_path: Path) -> None:
    options = ("spec.toml", "--data", "people.csv", "--ledger", "people.ledger", "--out", "answer.json")
    code, shown, _ = run(*options)
    assert code == 0
    assert "Paid epsilon = 1. Written to answer.json." in shown
    answer = Release.load(tmp_path / "answer.json")
    assert answer.law.family == "finite"
    assert 0 < answer.estimate[0] < 1
    code, shown, _ = run(*options)
    assert "already paid" in shown
    assert Release.load(tmp_path / "answer.json").to_bytes() == answer.to_bytes()


@pytest.mark.parametrize(
    ("old", "new", "arguments", "words"),
    [
        ("count(equals(smoker, 'yes'))", "histogram(smoker)", (), "count"),
        ('{ epsilon = "1" }\n\n[pop', '{ mu = "1" }\n\n[pop', (), "epsilon"),
        ("bernoulli(p=beta(2, 2))", "bernoulli(p=0.3)", (), "prior"),
        ("[population]", "[populations]", (), "population"),
        ("", "", ("--loss", "cubic"), "loss"),
        ("", "", ("--plot", "map.txt"), "map.txt"),
        ("", "", ("--json", "no/such/place.json"), "folder"),
        ("", "", ("--json", "."), "folder"),
        ("n = 20", "n = 300", ("--data", "people.csv", "--ledger", "l", "--out", "o.json"), 'mechanism = "geometric"'),
        ("", "", ("--data", "people.csv"), "--ledger"),
        ("", "", ("--data", "people.csv", "--ledger", "l", "--out", "spec.toml"), "overwrite"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_message_and_costs_nothing(
    run: Run, tmp_path: Path, old: str, new: str, arguments: tuple[str, ...], words: str
) -> None:
    if old:
        (tmp_path / "spec.toml").write_text(SPEC.replace(old, new, 1), "utf-8")
    code, _, errors = run("spec.toml", *arguments)
    assert code == 2
    assert words in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.glob("*ledger*"))
