"""Wrong inputs at the command line: no traceback, exit 2, nothing spent, and each message says how to go on.

The table is the promise: every line is something a person typed, and what must stand in the answer for them to go on.
All run through the same `main` inside this process; three of them in a real process, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_here

import noisewise as nw

SPEC = """\
[schema]
n = 30
neighbours = "change-one"
outside = "clamp"
[schema.columns]
income = { bounds = [0, 250] }
age = { bounds = [0, 120] }
region = { levels = ["north", "south"] }

[ledger]
limit = { epsilon = "2" }

[release]
statistic = "mean(income)"
guarantee = { epsilon = "0.5" }
"""
POPULATION = '\n[population]\nincome = "normal(mean=norm(50, 50), sd=halfnorm(scale=50))"\n'
CANARY = "123.456789"
RELEASE = ("--data", "records.csv", "--ledger", "account", "--out", "new.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records, a spec, a ledger that has paid for one release, that release, and other files."""
    made = tmp_path_factory.mktemp("wrong")
    rows = [f"{CANARY if k == 3 else 7.5 * k},{20 + k},{'north' if k % 3 else 'south'}" for k in range(30)]
    (made / "records.csv").write_text("income,age,region\n" + "\n".join(rows) + "\n")
    (made / "spec.toml").write_text(SPEC)
    (made / "full.toml").write_text(SPEC + POPULATION)
    schema = nw.Schema(
        {"income": nw.Bounded(0, 250), "age": nw.Bounded(0, 120), "region": nw.Levels(["north", "south"])},
        n=30, neighbours="change-one",
    )  # fmt: skip
    table = nw.Table.read(made / "records.csv", schema)
    with nw.Ledger.open(made / "account", limit=nw.PureDP(2)) as ledger:
        first = nw.make_release(table, nw.plan(nw.Mean("income"), schema, guarantee=nw.PureDP(1)), ledger=ledger)
        first.save(made / "first.json")
    (made / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 50)
    (made / "posterior.npz").write_bytes(b"PK\x03\x04" + b"0" * 50)
    (made / "other.json").write_text('{"a": 1}\n')
    return made


@pytest.fixture
def home(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder, to be in."""
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "home"))
    return tmp_path / "home"


# ---- what is wrong in a spec: what stands there, what it becomes, what the answer says ----

SPECS: dict[str, tuple[str, str, str]] = {
    "a misspelt section": ("[release]", "[relase]", "did you mean 'release'"),
    "a misspelt schema": ("[schema]", "[shema]", "did you mean 'schema'"),
    "a misspelt entry of a release": ("guarantee =", "garantee =", "did you mean 'guarantee'"),
    "another entry of a release": ("[release]", "[release]\nepsilon = 1", "there are statistic, guarantee"),
    "american neighbours": ("neighbours =", "neighbors =", "did you mean 'neighbours'"),
    "neighbours with a blank": ('"change-one"', '"change one"', "did you mean 'change-one'"),
    "neighbours of another tool": ('"change-one"', '"bounded"', "choose 'change-one' or 'add-remove'"),
    "a private n, declared": ('"change-one"', '"add-remove"', "write n_max = ..., not n"),
    "no n": ("n = 30\n", "", "write n = ..., not n_max"),
    "an unknown policy": ('"clamp"', '"clip"', "choose 'clamp' or 'refuse'"),
    "bound for bounds": ("bounds = [0, 250]", "bound = [0, 250]", "did you mean 'bounds'"),
    "level for levels": ("levels =", "level =", "did you mean 'levels'"),
    "minimum and maximum": ("{ bounds = [0, 250] }", "{ min = 0, max = 250 }", "bounds = [lo, hi]"),
    "bounds the wrong way": ("[0, 250]", "[250, 0]", "low must be less than high"),
    "a unit of two lines": ("[0, 250]", '[0, 250], unit = "EUR\\n"', "at most 40 printable characters"),
    "a unit of 41 characters": ("[0, 250]", f'[0, 250], unit = "{"x" * 41}"', "at most 40 printable characters"),
    "a unit of levels": ('"south"] }', '"south"], unit = "km" }', "levels = [...]"),
    "a misspelt column": ("mean(income)", "mean(incme)", "did you mean 'income'"),
    "a column in other letters": ("mean(income)", "mean(Income)", "did you mean 'income'"),
    "a column of nothing like it": ("mean(income)", "mean(salary)", "it has income, age, region"),
    "a misspelt statistic": ("mean(income)", "medain(income)", "did you mean 'median'"),
    "a statistic in capitals": ("mean(income)", "MEAN(income)", "did you mean 'mean'"),
    "variance": ("mean(income)", "variance(income)", "mean(x, x**2)"),
    "standard deviation": ("mean(income)", "std(income)", "mean(x, x**2)"),
    "average": ("mean(income)", "avg(income)", "write mean(x)"),
    "proportion": ("mean(income)", "proportion(income > 50)", "mean(x > 50)"),
    "square root": ("mean(income)", "mean(sqrt(income))", "x**0.5"),
    "bins by number": ("mean(income)", "histogram(age, 10)", "histogram(age, [20, 40, 60])"),
    "two columns in a histogram": ("mean(income)", "histogram(region, age)", "marginals([region, age])"),
    "bins by keyword": ("mean(income)", "histogram(age, bins=10)", "histogram(age, [20, 40, 60])"),
    "a histogram of numbers without edges": ("mean(income)", "histogram(age)", "edges"),
    "edges of levels": ("mean(income)", "histogram(region, [1, 2])", "edges"),
    "a quantile of nothing": ("mean(income)", "quantile(income)", "quantile(income, 0.9)"),
    "a regression without response": ("mean(income)", "moments([age])", "moments([age, income], cost)"),
    "a mean of levels": ("mean(income)", "mean(region)", "equals(region"),
    "a count of numbers": ("mean(income)", "count(income)", "count(income > 50)"),
    "a level that is not there": ("mean(income)", "count(equals(region, 'west'))", "north"),
    "equality": ("mean(income)", "count(region == 'north')", "equals(region, 'north')"),
    "a comparison with a level": ("mean(income)", "count(region > 'a')", "equals("),
    "and": ("mean(income)", "count(income > 5 and age < 9)", "product"),
    "or": ("mean(income)", "count(income > 5 or age < 9)", "product"),
    "a ratio": ("mean(income)", "mean(income / age)", "by a number"),
    "log of 0": ("mean(income)", "mean(log(income))", "log(income + 1)"),
    "exp of much": ("mean(income)", "mean(exp(income*9))", "exp(income/100)"),
    "an open bracket": ("mean(income)", "mean(income", "brackets"),
    "SQL": ("mean(income)", "SELECT AVG(income)", "cannot be read"),
    "a keyword of another tool": ("mean(income)", "mean(income, axis=0)", "mean takes no 'axis'"),
    "the same twice": ("mean(income)", "mean(income, income)", "twice"),
    "a number for a guarantee": ('{ epsilon = "0.5" }', "0.5", '{ epsilon = "1" }'),
    "an unknown guarantee": ('{ epsilon = "0.5" }', '{ eps = "0.5" }', '{ epsilon = "1" }'),
    "a delta of 1": ('{ epsilon = "0.5" }', '{ epsilon = "1", delta = "1" }', "below 1"),
    "an epsilon below 0": ('"0.5"', '"-1"', "epsilon"),
    "a decimal comma": ('"0.5"', '"0,5"', "expected a number such as"),
    "a misspelt mechanism": ("[release]", '[release]\nmechanism = "laplase"', "did you mean 'laplace'"),
    "a mechanism of nothing": ("[release]", '[release]\nmechanism = "noise"', "or leave it out"),
    "a mechanism that does not fit": ("[release]", '[release]\nmechanism = "gaussian"', "gaussian"),
    "weights for one": ("[release]", "[release]\nweights = [1, 2]", "weights"),
    "a part that is a number": ("[release]", "[release]\npart = 3", "part"),
    "more than the ledger has": ('"0.5"', '"1.5"', "Ask for epsilon <= 1"),
    "another number of records": ("n = 30", "n = 31", "n = 31"),
    "no release": (SPEC[SPEC.index("[release]"):], "", 'statistic = "mean(income)"'),
}  # fmt: skip


@pytest.mark.parametrize("case", SPECS)
def test_a_wrong_spec_says_how_to_go_on_and_spends_nothing(
    case: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, way = SPECS[case]
    assert old in SPEC
    before, _, after = SPEC.rpartition(old) if old.startswith('"') and old != '"change-one"' else SPEC.partition(old)
    (home / "spec.toml").write_text(before + new + after)
    refused(home, monkeypatch, capsys, ("release", "spec.toml", *RELEASE), way)


POPULATIONS: dict[str, tuple[str, str]] = {
    "mu": ("normal(mu=50, sd=3)", "did you mean 'mean'"),
    "sigma": ("normal(mean=50, sigma=3)", "did you mean 'sd'"),
    "no names": ("normal(50, 3)", "normal(mean=norm(50, 50)"),
    "a missing one": ("normal(mean=50)", "Give sd"),
    "a misspelt population": ("nromal(mean=50, sd=3)", "did you mean 'normal'"),
    "a misspelt prior": ("normal(mean=nrom(50, 3), sd=3)", "did you mean 'norm'"),
    "a prior with other names": ("normal(mean=norm(mean=50), sd=3)", "loc and scale"),
    "no parameters": ("normal", "normal(mean=norm(50, 50)"),
    "an sd below 0": ("normal(mean=50, sd=-3)", "sd = -3"),
    "code": ("__import__('os')", "population"),
}


@pytest.mark.parametrize("case", POPULATIONS)
def test_a_wrong_population_says_how_to_go_on_before_anything_is_paid(
    case: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, way = POPULATIONS[case]
    (home / "spec.toml").write_text(f'{SPEC}\n[population]\nincome = "{text}"\n')
    refused(home, monkeypatch, capsys, ("release", "spec.toml", *RELEASE), way)


# ---- the wrong kind of file, the wrong option ----

ACTS: dict[str, tuple[tuple[str, ...], str]] = {
    "a CSV to show": (("show", "records.csv"), "is a table of records"),
    "a spec to show": (("show", "spec.toml"), "is a spec (TOML)"),
    "a ledger to show": (("show", "account"), "noisewise ledger show"),
    "a picture to show": (("show", "picture.png"), "is a picture"),
    "any JSON to show": (("show", "other.json"), "without the format of a release"),
    "nothing to show": (("show", "nothing.json"), "nothing.json"),
    "a CSV as spec": (("release", "records.csv", *RELEASE), "--data FILE"),
    "a release as spec": (("release", "first.json", *RELEASE), "noisewise show FILE"),
    "a ledger as spec": (("precision", "account"), "noisewise ledger show"),
    "a spec as records": (("release", "spec.toml", "--data", "spec.toml", *RELEASE[2:]), "is a spec (TOML)"),
    "a release as records": (("release", "spec.toml", "--data", "first.json", *RELEASE[2:]), "noisewise show FILE"),
    "an archive as records": (("release", "spec.toml", "--data", "posterior.npz", *RELEASE[2:]), "CSV or Parquet"),
    "records as ledger": (("release", "spec.toml", *RELEASE[:3], "records.csv", *RELEASE[4:]), "takes a ledger"),
    "a release as ledger": (("ledger", "show", "first.json"), "noisewise show FILE"),
    "a CSV to infer": (("infer", "records.csv", "--spec", "spec.toml", "--out", "out"), "is a table of records"),
    "a ledger to infer": (("infer", "account", "--spec", "spec.toml", "--out", "out"), "is a ledger"),
    "a posterior to infer": (("infer", "posterior.npz", "--spec", "spec.toml", "--out", "out"), "nw.Posterior.load"),
    "a release as the spec of infer": (("infer", "first.json", "--spec", "first.json", "--out", "out"), "is a release"),
    "no population to infer": (("infer", "first.json", "--spec", "spec.toml", "--out", "out"), "normal(mean=norm"),
    "a misspelt command": (("relase", "spec.toml"), "Did you mean 'release'"),
    "a misspelt command of a ledger": (("ledger", "shw", "account"), "Did you mean 'show'"),
    "a misspelt option": (("release", "spec.toml", "--date", "records.csv"), "--data"),
    "no records named": (("release", "spec.toml", "--ledger", "account", "--out", "new.json"), "--data"),
    "no folder for the release": (("release", "spec.toml", *RELEASE[:5], "no/new.json"), "--out"),
    "the records overwritten": (("release", "spec.toml", *RELEASE[:5], "records.csv"), "Give another name"),
    "budgets in words": (("precision", "spec.toml", "--budgets", "small,large"), "budgets"),
    "no records": (("precision", "spec.toml", "--n", "0"), "a whole number of at least 1"),
    "one of none": (("precision", "spec.toml", "--only", "mean"), "Leave --only out"),
    "budgets of nothing": (("precision", "spec.toml", "--budgets", ","), "--budgets 0.1,1,10"),
    "a picture of another kind": (("precision", "spec.toml", "--plot", "p.doc"), "png"),
    "others without a yes": (("ledger", "replace-records", "account"), "say so with --yes"),
    "others of a CSV": (("ledger", "replace-records", "records.csv", "--yes"), "is a table of records"),
    "others of nothing": (("ledger", "replace-records", "nothing", "--yes"), "There is no ledger"),
    "candidates of nothing": (("choose", "spec.toml"), "[[candidates]]"),
    "an unknown method": (("infer", "first.json", "--spec", "full.toml", "--out", "out", "--method", "magic"), "magic"),
}  # fmt: skip


@pytest.mark.parametrize("case", ACTS)
def test_a_wrong_act_says_how_to_go_on_and_spends_nothing(
    case: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, way = ACTS[case]
    refused(home, monkeypatch, capsys, arguments, way)


def refused(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    way: str,
) -> None:
    """Exit 2, a message with the way on and without Python's words or a record; not a byte of any file changes."""
    before = {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = run_here(monkeypatch, capsys, *arguments)
    assert code == 2, out + err
    assert way in err, err
    for word in ("Traceback", "__init__", "positional argument", "unexpected keyword", "NoneType", CANARY):
        assert word not in out + err
    after = {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}
    assert after == before


def test_the_table_has_at_least_sixty_lines() -> None:
    assert len(SPECS) + len(POPULATIONS) + len(ACTS) >= 60


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        (("show", "records.csv"), "is a table of records"),
        (("release", "spec.toml", "--data", "spec.toml", *RELEASE[2:]), "is a spec (TOML)"),
        (("relase",), "Did you mean 'release'"),
    ],
)
def test_it_is_the_same_from_a_real_shell(arguments: tuple[str, ...], way: str, home: Path) -> None:
    before = (home / "account").read_bytes()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
    command = [str(Path(sys.executable).with_name("noisewise")), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert way in done.stderr
    assert "Traceback" not in done.stderr
    assert (home / "account").read_bytes() == before


# ---- manners ----


def test_version_help_and_completion_are_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlib.metadata import version

    assert run_here(monkeypatch, capsys, "--version") == (0, f"noisewise {version('noisewise')}\n", "")
    for arguments in (("-h",), ("release", "-h"), ("ledger", "-h"), ("ledger", "show", "-h"), ("precision", "--help")):
        code, out, _ = run_here(monkeypatch, capsys, *arguments)
        assert code == 0
        assert "Usage" in out
    assert "--install-completion" in run_here(monkeypatch, capsys, "-h")[1]


def test_a_ledger_moves_on_to_other_records_and_keeps_what_was_spent(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (home / "records.csv").read_text()
    (home / "others.csv").write_text(text.replace(CANARY, "124"))
    act = ("release", "spec.toml", "--data", "others.csv", "--ledger", "account", "--out", "new.json")
    code, _, err = run_here(monkeypatch, capsys, *act)
    assert code == 2
    assert "noisewise ledger replace-records" in err
    with nw.Ledger.open(home / "account") as ledger:
        old = ledger.dataset
    code, out, _ = run_here(monkeypatch, capsys, "ledger", "replace-records", "account", "--yes")
    assert code == 0
    with nw.Ledger.open(home / "account") as ledger:
        assert ledger.dataset != old
        assert ledger.dataset in out
        assert ledger.spent() == nw.PureDP(1)
    assert run_here(monkeypatch, capsys, *act)[0] == 0
    with nw.Ledger.open(home / "account") as ledger:
        assert ledger.spent() == nw.PureDP("1.5")
