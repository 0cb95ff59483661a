"""noisewise simulate-online: a survey is tried on simulated people and told in words, JSON and figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run, Shown, run_here

SPEC = """\
[population]
income = "normal(mean=norm(50, 20), sd=halfnorm(scale=20))"
[survey]
guarantee = { epsilon = "3" }
n = 25
n_particles = 50
truth = { mean = 45, sd = 10 }
"""
COMPARED = SPEC + "compare = { clip = [-55, 145] }\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command on a spec, in a folder of its own: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def command(spec: str, *arguments: str) -> Shown:
        Path("spec.toml").write_text(spec, "utf-8")
        return run_here(monkeypatch, capsys, "simulate-online", "spec.toml", *arguments)

    return command


def test_one_run_is_told_beside_a_fixed_question_and_written(run: Run) -> None:
    code, shown, errors = run(COMPARED, "--seed", "1", "--json", "s.json", "--plot", "s.png")
    assert (code, errors) == (0, ""), shown
    assert "25 simulated people, each under epsilon = 3." in shown
    assert "compared: asked clip 25." in shown
    assert Path("s.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(Path("s.json").read_text("utf-8"))
    assert found["n"] == 25
    (one,) = found["runs"]
    assert set(one) == {"survey", "compared"}
    assert one["survey"]["truth"] == {"mean": 45, "sd": 10}
    assert sum(one["survey"]["asked"].values()) == 25
    assert one["survey"]["cramer_rao"]["mean"] < one["compared"]["cramer_rao"]["mean"]
    again = run(COMPARED, "--seed", "1")
    assert again[1].splitlines() == [line for line in shown.splitlines() if not line.startswith("Written")]
    assert run(COMPARED, "--seed", "2")[1] != again[1]


def test_several_runs_are_told_by_their_errors_and_drawn_as_boxes(run: Run) -> None:
    code, shown, errors = run(
        COMPARED, "--runs", "3", "--n", "10", "--seed", "1", "--plot", "s.svg", "--json", "s.json"
    )
    assert (code, errors) == (0, ""), shown
    assert "10 simulated people" in shown
    assert "rmse" in shown
    assert "in 90 %" in shown
    assert Path("s-runs.svg").exists()
    assert len(json.loads(Path("s.json").read_text("utf-8"))["runs"]) == 3


def test_without_a_truth_it_is_drawn_from_the_prior(run: Run) -> None:
    spec = SPEC.replace("truth = { mean = 45, sd = 10 }\n", 'queries = ["sign", { clip = [0, 100] }]\n')
    for seed in ("1", "2"):
        code, shown, errors = run(spec, "--seed", seed, "--json", f"{seed}.json", "--quiet")
        assert (code, errors) == (0, ""), shown
    first, second = (json.loads(Path(f"{seed}.json").read_text("utf-8"))["runs"][0]["survey"] for seed in "12")
    assert first["truth"] != second["truth"]
    assert set(first["asked"]) <= {"sign", "clip"}


WRONG = {
    "no survey": (SPEC.split("[survey]")[0], "needs a section [survey]"),
    "no guarantee": (SPEC.replace('guarantee = { epsilon = "3" }\n', ""), "guarantee and n are needed"),
    "an unknown entry": (SPEC + "colour = 3\n", "unknown entry 'colour'"),
    "an unknown family": (SPEC + 'queries = "guess"\n', "guess"),
    "no question": (SPEC + "queries = { clip = [1] }\n", "is no question"),
    "a number for a question": (SPEC + "queries = 3\n", "is no question"),
    "edges out of order": (SPEC + "queries = { cells = [3, 1] }\n", "In [survey]"),
    "an unknown score": (SPEC + 'score = "best"\n', "best"),
    "a truth for another parameter": (SPEC.replace("mean = 45, sd", "middle = 45, sd"), "mean, sd"),
    "a truth outside its support": (SPEC.replace("sd = 10 }", "sd = -1 }"), "truth"),
    "two truths": (SPEC.replace("mean = 45, sd = 10", "mean = [45, 46], sd = [10, 11]"), "one number"),
    "several columns": (SPEC.replace("[survey]", 'other = "bernoulli(p=beta(1, 1))"\n\n[survey]'), "several columns"),
    "no people": (SPEC.replace("n = 25", "n = 0"), "n"),
    "particles in words": (SPEC.replace("n_particles = 50", 'n_particles = "many"'), "n_particles"),
    "a score that is a list": (SPEC + "score = [1]\n", "score"),
    "randomized response without pure privacy": (
        SPEC.replace('{ epsilon = "3" }', '{ mu = "1" }') + 'queries = "sign"\n', "PureDP",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG)
def test_a_mistake_is_one_clear_message(fault: str, run: Run) -> None:
    spec, words = WRONG[fault]
    code, shown, errors = run(spec)
    assert code == 2
    assert shown == ""
    assert words in errors
    assert "Traceback" not in errors
    assert errors.startswith("InvalidSpec")


@pytest.mark.parametrize("option", [("--runs", "0"), ("--seed", "-1"), ("--plot", "s.txt"), ("--json", "no/s.json")],
                         ids=["runs", "seed", "plot", "json"])  # fmt: skip
def test_an_option_is_checked_before_anyone_is_asked(option: tuple[str, str], run: Run) -> None:
    code, shown, errors = run(SPEC, *option)
    assert (code, shown) == (2, "")
    assert errors.startswith("InvalidArgument")
