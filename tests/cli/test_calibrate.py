"""noisewise calibrate: honest intervals pass with exit code 0, the naive ones fail with 1, a bad spec is 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run, Shown, run_here

SCHEMA = """\
[schema]
n = 40
neighbours = "change-one"
[schema.columns]
income = { bounds = [0, 100] }
[population]
income = "normal(mean=norm(50, 10), sd=15)"
"""
RELEASE = """\
[release]
statistic = "mean(income)"
guarantee = { mu = "1" }
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command on a spec, in a folder of its own: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def command(spec: str, *arguments: str) -> Shown:
        Path("spec.toml").write_text(spec, "utf-8")
        # The central limit theorem is the quickest, and right here: forty normal records, hardly ever clamped.
        return run_here(monkeypatch, capsys, "calibrate", "spec.toml", "--likelihood", "clt", *arguments)

    return command


def test_a_release_is_calibrated_and_told_in_rows_ranks_and_a_plot(run: Run) -> None:
    code, shown, errors = run(SCHEMA + RELEASE, "--trials", "60", "--json", "c.json", "--plot", "c.png")
    assert (code, errors) == (0, ""), shown
    assert "Calibrated, as far as 60 trials tell" in shown
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")
    (found,) = json.loads(Path("c.json").read_text("utf-8"))["calibrations"]
    assert found["is_calibrated"]
    assert found["releases"] == ["mean(income) by gaussian at mu = 1"]
    assert len(found["ranks"]["mean"]) == 60
    assert all(0 <= rank <= 100 for rank in found["ranks"]["mean"])
    assert found["rows"][0]["coverage_90_low"] < found["rows"][0]["coverage_90"] < found["rows"][0]["coverage_90_high"]


def test_the_naive_posterior_fails_with_exit_code_1(run: Run) -> None:
    """E2: Gaussian noise of sd 3 * 100/40 = 7.5 beside a mean of sd 15/sqrt(40) = 2.4: three times too narrow."""
    code, shown, _ = run(SCHEMA + RELEASE.replace('"1"', '"1/3"'), "--trials", "200", "--method", "naive")
    assert code == 1
    assert "Not calibrated" in shown


def test_several_releases_are_calibrated_together_and_candidates_one_by_one(run: Run) -> None:
    together = SCHEMA + RELEASE.replace("[release]", "[[release]]") * 2
    code, shown, _ = run(together, "--trials", "20", "--json", "c.json")
    assert code == 0, shown
    (found,) = json.loads(Path("c.json").read_text("utf-8"))["calibrations"]
    assert len(found["releases"]) == 2
    apart = SCHEMA + RELEASE.replace("[release]", "[[candidates]]") * 2
    code, shown, _ = run(apart, "--trials", "20", "--json", "c.json", "--plot", "c.png")
    assert code == 0, shown
    assert [len(each["releases"]) for each in json.loads(Path("c.json").read_text("utf-8"))["calibrations"]] == [1, 1]
    assert Path("c-1.png").exists()
    assert Path("c-2.png").exists()


@pytest.mark.parametrize(
    ("spec", "arguments", "words"),
    [
        (SCHEMA, (), "[release]"),
        (RELEASE, (), "[population]"),
        ("release = 3\n" + SCHEMA, (), "[release]"),
        (SCHEMA.replace("sd=15", "sd=-1") + RELEASE, (), "sd"),
        (SCHEMA.replace("norm(50, 10)", "50") + RELEASE, (), "unknown"),
        (SCHEMA + RELEASE, ("--trials", "0"), "trials"),
        (SCHEMA + RELEASE, ("--method", "magic"), "method"),
        (SCHEMA + RELEASE, ("--plot", "c.exe"), ".png"),
        (SCHEMA + RELEASE, ("--json", "nowhere/c.json"), "folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_message_with_exit_code_2(
    run: Run, spec: str, arguments: tuple[str, ...], words: str
) -> None:
    code, _, errors = run(spec, *arguments, "--trials", "3") if "--trials" not in arguments else run(spec, *arguments)
    assert code == 2
    assert words in errors
    assert "Traceback" not in errors
