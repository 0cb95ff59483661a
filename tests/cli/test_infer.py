"""noisewise infer: release files and a population in; posterior, summary, plot and a report that stands alone out."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from command_line import Run, Shown, run_here
from scipy import stats

from noisewise.cli.infer import FILES, MARK
from noisewise.inference.posterior import Posterior
from noisewise.laws import laplace_noise
from noisewise.measuring import ELSEWHERE, measurement
from noisewise.models.simulate import simulate
from noisewise.planning import plan
from noisewise.populations.population import Bernoulli, Normal
from noisewise.privacy.guarantee import PureDP
from noisewise.release import Release
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Count, Mean, column

SPEC = """\
[population]
income = "normal(mean=norm(50, 20), sd=15)"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process, in a folder of its own: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> Shown:
        law = () if "--likelihood" in arguments else ("--likelihood", "clt")  # it is the quickest
        return run_here(monkeypatch, capsys, *arguments, *law)

    return command


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A simulated release of a mean income, and a spec that says what is assumed."""
    schema = Schema({"income": Bounded(0, 100)}, n=50, neighbours="change-one")
    population = Normal(mean=stats.norm(50, 20), sd=15)
    made = plan(Mean(column("income")), schema, guarantee=PureDP(1))
    simulate(made, population, at={"mean": 48.0}, seed=1).save(tmp_path / "a.json")
    simulate(made, population, at={"mean": 48.0}, seed=2).save(tmp_path / "b.json")
    (tmp_path / "spec.toml").write_text(SPEC, "utf-8")
    return tmp_path


class Links(HTMLParser):
    """Everything a page asks a browser to fetch, and its headings."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.headings: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self._inside = tag == "h2"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.headings.append(data)
            self._inside = False


def test_infer_writes_a_posterior_a_summary_a_plot_and_a_report(home: Path, run: Run) -> None:
    code, shown, errors = run("infer", "a.json", "--spec", "spec.toml", "--out", "found", "--seed", "7")
    assert (code, errors) == (0, "")
    assert {path.name for path in (home / "found").iterdir()} == {*FILES, MARK}
    posterior = Posterior.load(home / "found" / "posterior.npz")
    assert posterior.draws["mean"].shape == (4, 1000)
    assert posterior.seed == 7
    assert posterior.summary() in shown
    assert (home / "found" / "summary.txt").read_text("utf-8").strip() == posterior.summary().strip()
    assert (home / "found" / "posterior.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_needs_nothing_from_outside_and_says_what_it_should(home: Path, run: Run) -> None:
    assert run("infer", "a.json", "--spec", "spec.toml", "--out", "found", "--quiet")[:2] == (0, "")
    text = (home / "found" / "report.html").read_text("utf-8")
    links = Links()
    links.feed(text)
    assert links.fetched
    assert all(link.startswith("data:image/png;base64,") for link in links.fetched)
    assert "<script" not in text
    assert not re.search(r"url\(|@import", text)
    assert links.headings == [
        "The answers",
        "How sure, and why",
        "Does the model fit the release?",
        "What was released, and at which price",
        "How to state the guarantee",
        "What the confidential statistic probably was",
        "How it was computed",
    ]
    assert re.search(r"<h1>The mean income is [\d.]+, 90 % interval [\d.]+ to [\d.]+, from 50 records", text)
    release = Release.load(home / "a.json")
    for words in (
        "epsilon = 1",
        "change-one",
        "R-hat",
        release.hash,
        "cannot be checked by this release",
        "SIMULATED",
        "mean(income)",
    ):
        assert words in text, words
    assert str(home) not in text


def test_intervals_that_ignore_the_noise_are_reported_as_too_narrow(home: Path, run: Run) -> None:
    """Noise of sd 100/50 sqrt(2) = 2.8 on a mean of sd 15/sqrt(50) = 2.1: right intervals are 1.66 times as wide."""
    run("infer", "a.json", "--spec", "spec.toml", "--out", "found", "--quiet", "--seed", "3")
    text = (home / "found" / "report.html").read_text("utf-8")
    (ratio,) = re.findall(r">mean</td><td[^>]*>[^<]*</td><td[^>]*>[^<]*</td><td[^>]*wide\">([\d.]+)</td></tr>", text)
    assert 1.4 < float(ratio) < 2.0


def test_the_same_seed_gives_the_same_draws_and_two_releases_more_than_one(home: Path, run: Run) -> None:
    for out, files in (("one", ["a.json"]), ("again", ["a.json"]), ("both", ["a.json", "b.json"])):
        assert run("infer", *files, "--spec", "spec.toml", "--out", out, "--seed", "5", "--draws", "500")[0] == 0
    one, again, both = (Posterior.load(home / out / "posterior.npz") for out in ("one", "again", "both"))
    assert np.array_equal(one.draws["mean"], again.draws["mean"])
    assert both.sd["mean"] < 0.9 * one.sd["mean"]
    assert len(both.releases) == 2


def test_a_folder_of_ones_own_is_written_again_and_other_files_are_never_touched(home: Path, run: Run) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "report.html").write_text("a year of work", "utf-8")
    code, _, errors = run("infer", "a.json", "--spec", "spec.toml", "--out", "mine")
    assert code == 2
    assert "did not write" in errors
    assert [path.name for path in (home / "mine").iterdir()] == ["report.html"]
    assert (home / "mine" / "report.html").read_text("utf-8") == "a year of work"
    (home / "found").mkdir()
    (home / "found" / "notes.txt").write_text("mine", "utf-8")
    for _ in range(2):
        assert run("infer", "a.json", "--spec", "spec.toml", "--out", "found", "--quiet", "--draws", "50")[0] == 0
    assert (home / "found" / "notes.txt").read_text("utf-8") == "mine"


def private_count(home: Path) -> tuple[str, ...]:
    """A noisy count of records whose number is private, and how to learn from it."""
    schema = Schema({"smoker": Bounded(0, 1)}, n_max=100, neighbours="add-remove")
    population = Bernoulli(p=stats.beta(1, 1))
    made = plan(Count(column("smoker").between(0.5, 1)), schema, guarantee=PureDP(1))
    simulate(made, population, seed=1, n=80).save(home / "count.json")
    (home / "smoker.toml").write_text('[population]\nsmoker = "bernoulli(p=beta(1, 1))"\n', "utf-8")
    return ("infer", "count.json", "--spec", "smoker.toml", "--out", "found")


def test_a_private_number_of_records_must_be_stated(home: Path, run: Run) -> None:
    arguments = private_count(home)
    code, _, errors = run(*arguments)
    assert code == 2
    assert "n" in errors
    assert not (home / "found").exists()
    assert run(*arguments, "--n", "80")[0] == 0


@pytest.mark.parametrize("words", ["poisson(-1)", "poisson", "norm(80, 5)", "0", "8.5", "x"])
def test_what_is_no_number_of_records_is_refused(home: Path, run: Run, words: str) -> None:
    arguments = private_count(home)
    code, _, errors = run(*arguments, "--n", words)
    assert code == 2
    assert "Traceback" not in errors
    assert not (home / "found").exists()


def test_a_prior_on_a_private_number_of_records_is_learnt_from(home: Path, run: Run) -> None:
    code, told, _ = run(*private_count(home), "--n", "poisson(80)", "--seed", "1")
    assert code == 0
    found = Posterior.load(home / "found" / "posterior.npz")
    assert 40 < found.draws["n"].mean() <= 100
    assert re.search(r"^n +\d", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a.json": None}, "a.json"),
        ({"a.json": "{}"}, "format"),
        ({"spec.toml": ""}, "[population]"),
        ({"spec.toml": "[population]\nincome = 'normal(mean=norm(50, 20))'\n"}, "sd"),
        ({"spec.toml": "[population]\nincome = '__import__(\"os\")'\n"}, "[population]"),
        ({"spec.toml": "[population]\nage = 'normal(mean=norm(50, 20), sd=15)'\n"}, "income"),
        ({"--method": "magic"}, "method"),
        ({"--likelihood": "magic"}, "likelihood"),
        ({"--draws": "0"}, "draws"),
        ({"--seed": "-1"}, "seed"),
        ({"--out": "a.json"}, "--out"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_message_with_exit_code_2(
    home: Path, run: Run, change: dict[str, str | None], words: str
) -> None:
    options = {"--spec": "spec.toml", "--out": "found"}
    for name, value in change.items():
        if name.startswith("--"):
            options[name] = str(value)
        elif value is None:
            (home / name).unlink()
        else:
            (home / name).write_text(value, "utf-8")
    code, _, errors = run("infer", "a.json", *(part for pair in options.items() for part in pair))
    assert code == 2
    assert words in errors
    assert "Traceback" not in errors
    assert not (home / "found").exists()


def test_a_measurement_made_elsewhere_is_shown_and_learnt_from_like_a_release(home: Path, run: Run) -> None:
    schema = Schema({"income": Bounded(0, 100)}, n=50, neighbours="change-one")
    measured = measurement(Mean(column("income")), schema, 48.5, noise=laplace_noise(scale=0.5), source="a report")
    measured.save(home / "m.measurement.json")
    code, out, err = run("infer", "m.measurement.json", "--spec", "spec.toml", "--out", "found", "--seed", "1")
    assert code == 0, err
    assert ELSEWHERE in " ".join(out.split())
    page = unescape((home / "found" / "report.html").read_text("utf-8"))
    assert ELSEWHERE in page
    assert "satisfies" not in page
    code, _, err = run("infer", "m.measurement.json", "a.json", "--spec", "spec.toml", "--out", "both")
    assert code != 0
    assert "whose records" in " ".join(err.split())
