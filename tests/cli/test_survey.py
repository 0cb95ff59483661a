"""`noisewise survey`: a survey from its spec to its release, as an operator types it."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from command_line import Run, run_here
from serving_surveys import needs_server, until

import noisewise as nw
from noisewise.online.simulate import simulated_answer

needs_server()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(run_here, monkeypatch, capsys)


def posted(url, body):
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=30) as response:
        return json.load(response)


def quick_spec(home, **changes):
    """The template with few particles, one fixed question and any free port."""
    from noisewise.cli.survey_demo import _free_port

    text = Path("way.toml").read_text()
    text = text.replace("[server]", "queries = { cells = [20, 40, 60] }\nparticles = 50\n\n[server]")
    port = _free_port()
    text = text.replace("port = 8000", f"port = {port}").replace("workers = 2", "workers = 1")
    for old, new in changes.items():
        text = text.replace(old.replace("_", " "), new)
    Path("way.toml").write_text(text)
    return f"http://127.0.0.1:{port}"


def test_a_survey_from_its_spec_to_its_release(home, run, rng):
    code, out, _ = run("survey", "new", "way.toml", "--title", "Way to work")
    assert code == 0
    assert "survey serve way.toml" in out
    url = quick_spec(home)
    code, _, err = run("survey", "watch", "way.toml", "--once")
    assert code == 2
    assert "survey serve" in err
    with Path("serve.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", "from noisewise.cli.main import main; main()", "survey", "serve", "way.toml"],
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: "page sha256" in Path("serve.log").read_text(), 90)  # links are told when they can be opened
        assert urllib.request.urlopen(f"{url}/healthz", timeout=5).read() == b"ok\n"
        for _ in range(12):
            query = nw.Query.from_dict(posted(f"{url}/api/query", {})["query"])
            posted(f"{url}/api/answer", {"id": query.id, "value": simulated_answer(rng, query, 35.0).value})
        told = Path("serve.log").read_text()
        assert "Way to work" in told
        assert re.search(r"/#k=[\w-]{87}", told)
        assert re.search(r"/live#admin=[\w-]{32}", told)
        code, out, _ = run("survey", "watch", "way.toml", "--once")
        assert out.startswith("12 answers, 0 outstanding")
        code, _, err = run("survey", "invite", "way.toml", "3")
        assert code == 2
        assert "invited = true" in err.replace("\n", " ")
        assert run("survey", "close", "way.toml")[1].strip() == "Closed after 12 answers."
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    assert "Traceback" not in Path("serve.log").read_text()
    code, out, _ = run("survey", "export", "way.toml", "--out", "way.release.json")
    assert "12 answers to 1 questions" in out
    code, out, _ = run("show", "way.release.json")
    assert code == 0
    first, second = run("survey", "replay", "way.toml")[1], run("survey", "replay", "way.toml")[1]
    assert first == second
    assert "12 answers; particles sha256:" in first


def test_invitations_are_written_for_the_operator_alone(home, run):
    from noisewise.cli.survey_actions import begin
    from noisewise.cli.survey_spec import SurveySpec

    run("survey", "new", "way.toml")
    quick_spec(home, **{"#_invited": "invited"})
    token = begin(SurveySpec.read(Path("way.toml")), simulated=True, wants_token=False)
    assert token is not None
    assert begin(SurveySpec.read(Path("way.toml")), simulated=True, wants_token=False) is None
    code, _, _ = run("survey", "invite", "way.toml", "5", "--out", "links.txt")
    assert code == 0
    links = Path("links.txt").read_text().split()
    assert len(set(links)) == 5
    assert all(re.fullmatch(r"http://127\.0\.0\.1:\d+/#k=[\w-]{87}&i=[\w-]{24}", link) for link in links)
    assert stat.S_IMODE(Path("links.txt").stat().st_mode) == 0o600
    assert len(run("survey", "invite", "way.toml", "2")[1].split()) == 2
    code, _, err = run("survey", "invite", "way.toml", "5", "--out", "links.txt")
    assert code == 2
    assert "shown only once" in err.replace("\n", " ")
    assert Path("links.txt").read_text().split() == links
    run("survey", "close", "way.toml")
    code, _, err = run("survey", "invite", "way.toml", "2")
    assert code != 0
    assert "closed" in err


def test_what_is_known_is_told_without_powers_of_ten(home, run):
    """Incomes of tens of thousands, on the terminal and in the words of the next question."""
    from noisewise.cli.survey_actions import announcement, begin
    from noisewise.cli.survey_spec import SurveySpec
    from noisewise.collector.board import Board
    from noisewise.collector.bulletin import Bulletin
    from noisewise.collector.learner import Learner

    run("survey", "new", "way.toml", "--population", "normal(mean=norm(45000, 3000), sd=halfnorm(scale=20000))")
    spec = SurveySpec.read(Path("way.toml"))
    token = begin(spec, simulated=True, wants_token=False)
    board = Board(spec.store())
    learner = Learner(board.store)
    learner.step()
    Bulletin(board, learner, board.words).look(is_closed=False)
    said = run("survey", "watch", "way.toml", "--once")[1]
    low, high = map(float, re.findall(r"mean \d+ \[(\d+), (\d+)\]", said.replace("\n", " "))[0])
    assert 35_000 < low < 45_000 < high < 55_000
    assert "e+" not in said + str(json.loads(board.read("shown"))["asking"])
    assert f"admin={token}" in announcement(spec, token)
    assert "--new-admin-token makes another" in announcement(spec, None)


def test_a_store_of_another_survey_is_refused(home, run):
    from noisewise.cli.survey_actions import begin
    from noisewise.cli.survey_spec import SurveySpec
    from noisewise.errors import InvalidSpec

    run("survey", "new", "way.toml")
    quick_spec(home)
    begin(SurveySpec.read(Path("way.toml")), simulated=False, wants_token=False)
    Path("way.toml").write_text(Path("way.toml").read_text().replace('epsilon = "1"', 'epsilon = "2"'))
    with pytest.raises(InvalidSpec, match="another survey"):
        begin(SurveySpec.read(Path("way.toml")), simulated=False, wants_token=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('title = "Way"', ""), "title"),
        (('title = "Way"', 'titel = "Way"'), "did you mean"),
        (("port = 8000", "port = 99999"), "port"),
        (("workers = 2", "workers = 0"), "workers"),
        (('epsilon = "1"', 'epsilon = "-1"'), "epsilon"),
        (("90 % interval", "about 90 %"), "closing rule"),
        (("interval of the mean", "interval of the tail"), "not 'tail'"),
        (("normal(", "abnormal("), "abnormal"),
    ],
)
def test_mistakes_in_a_spec_are_named_with_their_place(home, run, change, said):
    run("survey", "new", "way.toml", "--title", "Way")
    text = Path("way.toml").read_text()
    assert change[0] in text
    Path("way.toml").write_text(text.replace(*change))
    code, _, err = run("survey", "serve", "way.toml")
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert not Path("way.survey").exists()


def test_a_spec_is_never_overwritten(home, run):
    run("survey", "new", "way.toml")
    before = Path("way.toml").read_text()
    code, _, err = run("survey", "new", "way.toml", "--title", "Other")
    assert code == 2
    assert "was not changed" in err
    assert Path("way.toml").read_text() == before
    code, _, err = run("survey", "new", "bad.toml", "--population", "nothing()")
    assert code == 2
    assert not Path("bad.toml").exists()


def test_the_page_and_its_digest(home, run):
    import hashlib

    _, out, _ = run("survey", "page", "--out", "page.html")
    assert out.split()[0] == hashlib.sha256(Path("page.html").read_bytes()).hexdigest()


def test_the_demo_answers_by_itself(home):
    demo = subprocess.run(
        [sys.executable, "-c", "from noisewise.cli.main import main; main()", "survey", "demo", "--people", "8",
         "--pause", "0", "--leave"],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert demo.returncode == 0, demo.stderr
    assert "All have answered." in demo.stdout
    assert not demo.stderr


LEVELS = """
[survey]
title = "Ways to work"
question = "Your way to work"
input = "slider"
guarantee = { epsilon = "1" }
population = "joint(minutes=normal(mean=norm(40, 30), sd=halfnorm(scale=30)), way=categorical(p=dirichlet([1, 1, 1])))"
particles = 60
close = "90 % interval of minutes.mean below 3"

[survey.columns.minutes]
question = "How long was your way to work today?"
unit = "minutes"

[survey.columns.way]
question = "How did you come to work today?"
levels = ["walk", "bus", "car"]
words = { walk = "on foot", bus = "by bus or train" }
"""


def test_columns_and_levels_have_words_of_their_own(home):
    from noisewise.cli.survey_spec import SurveySpec
    from noisewise.collector.board import Words

    Path("ways.toml").write_text(LEVELS)
    spec = SurveySpec.read(Path("ways.toml"))
    words = spec.words()
    assert words.input == "slider"
    assert words.about("minutes").unit == "minutes"
    assert words.about("way").levels == {"walk": "on foot", "bus": "by bus or train"}
    assert words.about("way").question == "How did you come to work today?"
    assert Words.from_dict(json.loads(json.dumps(words.to_dict()))) == words
    parts = spec.new_survey(seed=1)._engine.law.parts
    assert parts["way"].levels == ("walk", "bus", "car")
    assert parts["minutes"].levels is None


def test_people_answer_a_column_of_0_and_1_in_words(home, run):
    """Yes and no where the spec has no words of its own, for one column and among several."""
    from noisewise.cli.survey_spec import SurveySpec

    run(
        "survey",
        "new",
        "way.toml",
        "--population",
        "bernoulli(p=beta(1, 1))",
        "--close",
        "90 % interval of p below 0.1",
    )
    assert SurveySpec.read(Path("way.toml")).words().levels == {"0": "no", "1": "yes"}
    text = Path("way.toml").read_text()
    Path("way.toml").write_text(text.replace("[server]", 'words = { 0 = "never", 1 = "ever" }\n[server]'))
    spec = SurveySpec.read(Path("way.toml"))
    spec.new_survey()
    assert spec.words().levels == {"0": "never", "1": "ever"}
    Path("ways.toml").write_text(LEVELS.replace("minutes=normal(mean=norm(40, 30), sd=halfnorm(scale=30))",
        "minutes=normal(mean=norm(40, 30), sd=halfnorm(scale=30)), late=bernoulli(p=beta(1, 1))"))  # fmt: skip
    words = SurveySpec.read(Path("ways.toml")).words()
    assert words.about("late").levels == {"0": "no", "1": "yes"}
    assert words.about("way").levels == {"walk": "on foot", "bus": "by bus or train"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('input = "slider"', 'input = "dial"', "number or slider"),
        ("[survey.columns.way]", "[survey.columns.weg]", "'weg'"),
        ("walk = ", "work = ", "'work', no level of the population: the levels are walk, bus, car"),
        ('unit = "minutes"', 'units = "minutes"', "columns.minutes.units"),
        ('["walk", "bus", "car"]', '["walk", "bus"]', "levels"),
        ('unit = "minutes"', 'unit = "minutes"\nwords = { a = "b" }', "it has no levels"),
    ],
)
def test_words_that_fit_nothing_are_refused(home, run, old, new, told):
    assert old in LEVELS
    Path("ways.toml").write_text(LEVELS.replace(old, new))
    code, _, problem = run("survey", "serve", "ways.toml")
    assert code != 0
    assert told in problem
    assert "Traceback" not in problem
    assert not Path("ways.survey").exists()


def test_infer_reads_the_population_of_a_survey(home, run, rng):
    """The release of a survey, learnt from under the survey's own spec: the same as in Python."""
    from noisewise.populations.text import population_from_text

    text = "normal(mean=norm(40, 30), sd=halfnorm(scale=30))"
    query = nw.Query.cells([30.0, 50.0, 70.0], guarantee=nw.PureDP(2))
    values = [simulated_answer(rng, query, float(rng.normal(46, 18))).value for _ in range(200)]
    nw.SurveyRelease.of("way", {query: values}, simulated=True).save("way.release.json")
    Path("way.toml").write_text(
        f'[survey]\ntitle = "Way"\nquestion = "?"\nguarantee = {{ epsilon = "2" }}\npopulation = "{text}"\n'
    )
    code, out, problem = run("infer", "way.release.json", "--spec", "way.toml", "--out", "report", "--seed", "1")
    assert code == 0, problem
    release, population = nw.SurveyRelease.load("way.release.json"), population_from_text(text)
    told = Path("report/summary.txt").read_text()
    assert told.strip() in out
    expected = nw.infer(release, population, seed=1)
    assert (
        re.findall(r"^ *(?:mean|sd) .*$", told, re.M)
        == re.findall(r"^ *(?:mean|sd) .*$", expected.summary(), re.M)
        != []
    )
    Path("way.toml").write_text(Path("way.toml").read_text().replace("normal(", "norml("))
    code, _, problem = run("infer", "way.release.json", "--spec", "way.toml", "--out", "report")
    assert code != 0
    assert "[survey]" in problem
