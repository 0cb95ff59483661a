"""noisewise choose: candidates in; a table, a winner's [release] section, a plot and JSON out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from command_line import Run, Shown, run_here

from noisewise.cli.choose import release_section
from noisewise.cli.spec import Spec
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Mean, Median, Records, column

SPEC = """\
[schema]
n = 400
neighbours = "change-one"
[schema.columns]
income = { bounds = [0, 250] }

[[candidates]]
statistic = "mean(income)"
guarantee = { mu = "1" }

[[candidates]]
statistic = "mean(clip(income, 0, 120))"
guarantee = { mu = "1" }

[population]
income = "normal(mean=norm(50, 10), sd=15)"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process, in a folder with the spec: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC, "utf-8")

    def command(*arguments: str) -> Shown:
        return run_here(monkeypatch, capsys, "choose", *arguments)

    return command


def test_the_table_is_printed_and_the_winner_is_ready_to_be_released(run: Run, tmp_path: Path) -> None:
    code, shown, errors = run("spec.toml", "--json", "rows.json", "--plot", "curves.png", "--likelihood", "clt")
    assert (code, errors) == (0, "")
    assert "averaged over 64 draws from the prior" in shown
    assert shown.count("mu = 1 ") == 2
    rows = json.loads((tmp_path / "rows.json").read_text("utf-8"))["rows"]
    assert [row["rank"] for row in rows] == [1, 2]
    assert rows[0]["score"] > rows[1]["score"]
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    # The section printed last makes the winning plan again.
    section = shown[shown.index("[release]") :]
    assert tomllib.loads(section)["release"]["statistic"] == rows[0]["statistic"] == "mean(clip(income, 0, 120))"
    (tmp_path / "chosen.toml").write_text(SPEC.split("[[candidates]]")[0] + section, "utf-8")
    assert Spec.read(tmp_path / "chosen.toml").plan() == Spec.read(tmp_path / "spec.toml").candidates()[1]


SCHEMA = Schema({"x": Bounded(-10, 10), "my region": Levels(["n", 'the "south"'])}, n=40, neighbours="change-one")
X = column("x")
PLANS = [
    plan(Mean(X, X**2), SCHEMA, guarantee=PureDP("1/3"), weights=[1, "1/7"]),
    plan(Median(X), SCHEMA, guarantee=ApproxDP(1, "1e-6"), part=("1/4", 1)),
    plan(Records(X, cells=[-1, 2.5]), SCHEMA, guarantee=PureDP(1)),
    plan(Count(column("my region").equals('the "south"')), SCHEMA, guarantee=PureDP("0.1"), mechanism="geometric"),
    plan(Histogram("x", edges=[0, 5]), SCHEMA, guarantee=GaussianDP("0.7")),
]


@pytest.mark.parametrize("made", PLANS, ids=str)
def test_every_kind_of_plan_is_written_as_the_section_that_makes_it_again(made: Plan, tmp_path: Path) -> None:
    schema = '[schema]\nn = 40\nneighbours = "change-one"\n[schema.columns]\nx = { bounds = [-10, 10] }\n'
    levels = "\"my region\" = { levels = ['n', 'the \"south\"'] }\n"
    (tmp_path / "spec.toml").write_text(schema + levels + release_section(made), "utf-8")
    assert Spec.read(tmp_path / "spec.toml").plan().request() == made.request()


def test_a_score_and_parameter_values_can_be_asked_for(run: Run) -> None:
    code, shown, _ = run("spec.toml", "--score", "a-optimal", "--at", "mean=50", "--likelihood", "clt")
    assert code == 0
    assert shown.startswith("Information about mean (a-optimal), at mean = 50.")
    code, shown, _ = run("spec.toml", "--at", "mean=40,50,60", "--likelihood", "clt")
    assert "averaged over the 3 parameter values given" in shown


def test_unequal_prices_are_ranked_only_when_asked_to(run: Run, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC.replace('mu = "1"', 'mu = "2"', 1), "utf-8")
    code, _, errors = run("spec.toml")
    assert code == 2
    assert errors.startswith("Incomparable: These plans cannot be ranked")
    code, shown, _ = run("spec.toml", "--despite-guarantees", "--likelihood", "clt")
    assert code == 0
    assert "do not cost the same" in shown


@pytest.mark.parametrize(
    ("old", "new", "arguments", "words"),
    [
        ("", "", ("missing.toml",), "missing.toml"),
        (SPEC[SPEC.index("[[c") : SPEC.index("[pop")], "", (), "[[candidates]]"),
        (SPEC[SPEC.index("[pop") :], "", (), "[population]"),
        ("mean(income)", "mode(income)", (), "mode"),
        ('income = "normal', 'age = "normal', (), "age"),
        ("", "", ("--score", "best"), "score"),
        ("", "", ("--at", "mean"), "--at"),
        ("", "", ("--at", "mean=x"), "--at"),
        ("", "", ("--at", "sd=1"), "at="),
        ("", "", ("--likelihood", "magic"), "likelihood"),
        ("", "", ("--seed", "-1"), "seed"),
        ("", "", ("--n", "7"), "n"),
        ("", "", ("--plot", "curves.txt"), "curves.txt"),
        ("", "", ("--json", "no/such/folder.json"), "folder"),
    ],
    ids=repr,
)
def test_what_is_wrong_is_said_in_one_message_with_exit_code_2(
    run: Run, tmp_path: Path, old: str, new: str, arguments: tuple[str, ...], words: str
) -> None:
    if old:
        (tmp_path / "spec.toml").write_text(SPEC.replace(old, new, 1), "utf-8")
    first = () if arguments[:1] and not arguments[0].startswith("--") else ("spec.toml",)
    code, _, errors = run(*first, *arguments)
    assert code == 2
    assert words in errors
    assert "Traceback" not in errors
    assert not [path for path in tmp_path.iterdir() if path.name != "spec.toml"]
