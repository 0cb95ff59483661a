"""The command line as people meet it: real processes, real files, exit codes, one message, no traceback.

The acts run the installed `noisewise`; the long list of things a spec can get wrong goes through the same `main` inside
this process, to save starting Python a hundred times.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import run_here

import noisewise as nw
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec

COMMAND = Path(sys.executable).with_name("noisewise")
N = 30
SPEC = """\
[schema]
n = 30
neighbours = "change-one"
outside = "clamp"
[schema.columns]
income = { bounds = [0, 250] }
region = { levels = ["north", "south"] }

[ledger]
limit = { epsilon = "2" }

[release]
statistic = "mean(income, income**2)"
guarantee = { epsilon = "1.5" }
"""
CANARY = "123.456789"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a spec and its records."""
    (tmp_path / "income.toml").write_text(SPEC, "utf-8")
    rows = [f"{CANARY if k == 3 else 7.5 * k},{'north' if k % 3 else 'south'}" for k in range(N)]
    (tmp_path / "incomes.csv").write_text("income,region\n" + "\n".join(rows) + "\n", "utf-8")
    return tmp_path


def noisewise(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(
        [str(COMMAND), *arguments], cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def release(home: Path, spec: str = "income.toml", data: str = "incomes.csv", **more: str) -> tuple[str, ...]:
    options = {"data": data, "ledger": "incomes.ledger", "out": "income.release.json"} | more
    return ("release", spec, *(part for name, value in options.items() for part in (f"--{name}", value)))


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 2, something to read on the error stream, no traceback, no record."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr + done.stdout
    assert CANARY not in done.stderr + done.stdout
    for word in words:
        assert word in done.stderr, done.stderr


def spent(home: Path) -> nw.PureDP | None:
    with nw.Ledger.open(home / "incomes.ledger") as ledger:
        return ledger.spent()  # type: ignore[return-value]


# ---- the whole line ----


def test_release_show_and_check_from_dry_run_to_an_empty_ledger(home: Path) -> None:
    dry = noisewise(home, "release", "income.toml", "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert "epsilon = 1.5" in dry.stdout
    assert "nothing was spent" in dry.stdout
    assert sorted(path.name for path in home.iterdir()) == ["income.toml", "incomes.csv"]

    first = noisewise(home, *release(home))
    assert (first.returncode, first.stderr) == (0, "")
    assert "Paid epsilon = 1.5" in first.stdout
    made = nw.Release.load(home / "income.release.json")
    assert made.statistic == nw.statistic("mean(income, income**2)")
    assert spent(home) == nw.PureDP("1.5")

    again = noisewise(home, *release(home, out="again.json"))
    assert again.returncode == 0
    assert "already paid" in again.stdout
    assert (home / "again.json").read_bytes() == (home / "income.release.json").read_bytes()
    assert spent(home) == nw.PureDP("1.5")

    (home / "more.toml").write_text(SPEC.replace('"1.5"', '"0.75"'))
    refused = noisewise(home, *release(home, "more.toml", out="more.json"))
    assert_refused(refused, "BudgetExceeded", "0.5 of 2 remains", "Nothing was spent")
    assert not (home / "more.json").exists()
    assert spent(home) == nw.PureDP("1.5")

    shown = noisewise(home, "show", "income.release.json")
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in ("mean(income, income**2)", "30 records", "epsilon = 1.5", "change-one", "noise sd", made.hash):
        assert words in shown.stdout

    account = noisewise(home, "ledger", "show", "incomes.ledger")
    assert account.returncode == 0
    for words in ("limit      epsilon = 2", "spent      epsilon = 1.5", "remaining  epsilon = 0.5", "epsilon = 1.5"):
        assert words in account.stdout

    checked = noisewise(home, "ledger", "check", "incomes.ledger", "income.release.json", "again.json")
    assert checked.returncode == 0
    assert "whole" in checked.stdout
    assert "2 release files" in checked.stdout
    for done in (dry, first, again, refused, shown, account, checked):
        assert CANARY not in done.stdout + done.stderr

    assert_tampering_shows(home)


def assert_tampering_shows(home: Path) -> None:
    plain = json.loads((home / "income.release.json").read_text())
    plain["value"][0] += 1
    (home / "edited.json").write_text(json.dumps(plain))
    assert_refused(noisewise(home, "show", "edited.json"), "InvalidRelease", "hash")
    assert_refused(noisewise(home, "ledger", "check", "incomes.ledger", "edited.json"), "InvalidRelease")
    shutil.copy(home / "incomes.ledger", home / "edited.ledger")
    with sqlite3.connect(home / "edited.ledger") as connection:
        (columns,) = connection.execute("SELECT group_concat(name) FROM pragma_table_info('entries')").fetchone()
        assert "guarantee" in columns
        connection.execute("UPDATE entries SET guarantee = replace(guarantee, '1.5', '0.5')")
    connection.close()
    for act in (("show",), ("check",)):
        assert_refused(noisewise(home, "ledger", *act, "edited.ledger"), "LedgerError", "was edited")
    assert_refused(noisewise(home, *release(home, ledger="edited.ledger", out="x.json")), "LedgerError")
    assert not (home / "x.json").exists()


def test_the_demo_writes_its_report(home: Path) -> None:
    done = noisewise(home, "demo", "--out", "report here")
    assert done.returncode == 0, done.stderr
    assert re.sub(r"^.*: \d+ s so far.*\n", "", done.stderr, flags=re.M) == ""
    folder = home / "report here"
    assert {path.name for path in folder.iterdir()} >= {
        "income.toml", "regions.toml", "incomes.csv", "incomes.ledger", "income.release.json", "regions.release.json",
        "report.html", "posterior.npz", "posterior.png",
    }  # fmt: skip
    page = (folder / "report.html").read_text("utf-8")
    assert re.search(r"<h1>The mean income is highest in north: [\d.]+ thousand EUR, 90 % interval", page)
    for words in ("<!doctype html>", "mean(income, income**2)", "mean(income, by=region)", "<dt>Limit</dt>", "Was it"):
        assert words in page
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", page), "the report needs something from outside"
    assert nw.Release.load(folder / "income.release.json").schema.n == 4000
    assert "report.html" in done.stdout


# ---- what can go wrong: inside this process ----


@pytest.fixture
def run(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`noisewise ARGUMENTS` in this process."""
    monkeypatch.chdir(home)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, *run_here(monkeypatch, capsys, *arguments))

    return call


Run = Callable[..., subprocess.CompletedProcess[str]]

USAGE = {
    "an unknown command": (("publish",), "publish"),
    "no spec": (("release",), "SPEC.toml"),
    "an unknown option": (("release", "income.toml", "--epsilon", "1"), "--epsilon"),
    "an option without its value": (("release", "income.toml", "--data"), "--data"),
    "too many arguments": (("show", "a.json", "b.json"), "b.json"),
    "no file": (("show",), "RELEASE.json"),
    "an unknown ledger act": (("ledger", "spend"), "spend"),
    "a number that is none": (("audit", "--runs", "many"), "--runs"),
}


@pytest.mark.parametrize("case", USAGE)
def test_usage_errors_are_told_with_exit_code_2(case: str, run: Run) -> None:
    arguments, word = USAGE[case]
    assert_refused(run(*arguments), word)


def test_a_usage_error_and_a_bad_spec_look_the_same_from_a_real_shell(home: Path) -> None:
    assert_refused(noisewise(home, "publish"), "publish")
    assert_refused(noisewise(home, "release", "nothing.toml", "--dry-run"), "InvalidSpec", "nothing.toml")
    help_text = noisewise(home, "--help")
    assert help_text.returncode == 0
    for command in ("release", "show", "ledger", "audit", "demo"):
        assert command in help_text.stdout


FILES = {
    "a missing spec": (("release", "nothing.toml", "--dry-run"), "nothing.toml"),
    "a folder for a spec": (("release", ".", "--dry-run"), "Cannot read"),
    "records for a spec": (("release", "incomes.csv", "--dry-run"), "TOML"),
    "no ledger named": (("release", "income.toml", "--data", "incomes.csv"), "--ledger, --out"),
    "a missing release": (("show", "nothing.json"), "nothing.json"),
    "a folder for a release": (("show", "."), "Cannot read"),
    "records for a release": (("show", "incomes.csv"), "a table of records"),
    "a missing ledger": (("ledger", "show", "nothing.ledger"), "no ledger"),
    "another missing ledger": (("ledger", "check", "nothing.ledger"), "no ledger"),
    "records for a ledger": (("ledger", "show", "incomes.csv"), "a table of records"),
    "a folder for a ledger": (("ledger", "check", "."), "LedgerError"),
}


@pytest.mark.parametrize("case", FILES)
def test_wrong_files_are_told_with_exit_code_2(case: str, run: Run, home: Path) -> None:
    arguments, word = FILES[case]
    before = sorted(home.iterdir())
    assert_refused(run(*arguments), word)
    assert sorted(home.iterdir()) == before


DATA = {
    "a missing file": (None, "nothing.csv"),
    "an empty file": ("", "bad.csv"),
    "no records": ("income,region\n", "no records"),
    "a missing column": ("income\n" + f"{CANARY}\n" * N, "region"),
    "an unknown level": ("income,region\n" + f"{CANARY},east\n" * N, "unknown level"),
    "words for numbers": ("income,region\n" + f"{CANARY}x,north\n" * N, "unparsable"),
    "an infinity": ("income,region\n" + "inf,north\n" * N, "infinite"),
    "a missing value": ("income,region\n" + ",north\n" + f"{CANARY},north\n" * (N - 1), "missing"),
    "too few records": ("income,region\n" + f"{CANARY},north\n" * (N - 1), "n = 30"),
    "ragged rows": ("income,region\n" + f"{CANARY},north,{CANARY},1\n" * N, "bad.csv"),
    "another encoding": (b"income,region\n" + "é,north\n".encode("utf-16") * N, "Nothing was spent"),
}


@pytest.mark.parametrize("case", DATA)
def test_bad_records_are_told_by_column_and_fault_before_a_ledger_exists(case: str, run: Run, home: Path) -> None:
    content, word = DATA[case]
    if content is not None:
        (home / "bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(*release(home, data="nothing.csv" if content is None else "bad.csv"))
    assert_refused(done, "InvalidData")
    assert word in done.stderr or word == "bad.csv"
    assert not (home / "incomes.ledger").exists()
    assert not (home / "income.release.json").exists()


def test_a_new_ledger_needs_a_limit_and_an_old_one_keeps_its_own(run: Run, home: Path) -> None:
    (home / "free.toml").write_text(SPEC.replace('[ledger]\nlimit = { epsilon = "2" }\n', ""))
    assert_refused(run(*release(home, "free.toml")), "limit")
    assert not (home / "incomes.ledger").exists()
    nw.Ledger.open(home / "incomes.ledger", nw.PureDP("1.5"))
    done = run(*release(home, "free.toml"))
    assert done.returncode == 0, done.stderr
    with nw.Ledger.open(home / "incomes.ledger") as ledger:
        assert ledger.remaining() is None


@pytest.mark.parametrize("out", ["no/such/folder.json", ".", "/proc/release.json"])
def test_where_a_release_cannot_be_written_nothing_is_paid(run: Run, home: Path, out: str) -> None:
    assert_refused(run(*release(home, out=out)), "--out", "Nothing was computed or spent")
    assert not (home / "incomes.ledger").exists()


def test_a_release_whose_writing_fails_all_the_same_is_paid_once_and_comes_again_for_free(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noisewise.cli.actions import publish

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(home)
    places = map(Path, ("income.toml", "incomes.csv", "incomes.ledger", "income.release.json"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(nw.NoisewiseError, match="asking for it again is free"):
            publish(*places, dry_run=False)
    assert spent(home) == nw.PureDP("1.5")
    done = run(*release(home))
    assert done.returncode == 0
    assert "already paid" in done.stdout
    assert spent(home) == nw.PureDP("1.5")


def test_other_records_are_refused_by_the_ledger(run: Run, home: Path) -> None:
    assert run(*release(home)).returncode == 0
    text = (home / "incomes.csv").read_text()
    (home / "others.csv").write_text(text.replace(CANARY, "124"))
    assert_refused(run(*release(home, data="others.csv", out="b.json")), "DifferentRecords", "Nothing was spent")
    assert not (home / "b.json").exists()
    assert spent(home) == nw.PureDP("1.5")


WRONG = {
    "an unknown section": ("[release]", "[relaese]", "relaese"),
    "no schema": ("[schema]\n", "[population]\n", "schema"),
    "no neighbours": ('neighbours = "change-one"\n', "", "neighbours"),
    "n for add-remove": ('"change-one"', '"add-remove"', "n_max"),
    "an unknown entry": ("n = 30", "n = 30\nm = 30", "'m'"),
    "swapped bounds": ("[0, 250]", "[250, 0]", "low must be less"),
    "one bound": ("[0, 250]", "[250]", "bounds"),
    "one level": ('["north", "south"]', '["north"]', "levels"),
    "an unknown column": ("income**2", "salary", "income, region"),
    "an unknown function": ("mean(income,", "average(income,", "average"),
    "no statistic": ('statistic = "mean(income, income**2)"\n', "", "statistic"),
    "a statistic that is a number": ('"mean(income, income**2)"', "5", "'mean(income)'"),
    "a word too much": ('"mean(income, income**2)"', '"mean(income) please"', "cannot be read"),
    "code": ('"mean(income, income**2)"', "\"__import__('os').system('touch hacked')\"", "InvalidSpec"),
    "no guarantee": ('guarantee = { epsilon = "1.5" }', "", "guarantee"),
    "a bare epsilon": ('{ epsilon = "1.5" }', "1.5", "epsilon"),
    "a percentage": ('"1.5"', '"150%"', "epsilon"),
    "an epsilon of 0": ('"1.5"', '"0"', "epsilon"),
    "an epsilon of nan": ('"1.5"', "nan", "epsilon"),
    "an infinite epsilon": ('"1.5"', "inf", "epsilon"),
    "epsilon and rho": ('epsilon = "1.5"', 'epsilon = "1.5", rho = "1"', "guarantee"),
    "an unknown mechanism": ("[release]", '[release]\nmechanism = "noise"', "laplace"),
    "a mechanism that does not fit": ("[release]", '[release]\nmechanism = "smooth-cauchy"', "table"),
    "too few weights": ("[release]", "[release]\nweights = [1]", "weights"),
    "a part backwards": ("[release]", '[release]\npart = ["1/2", "0"]', "part"),
    "a limit that is a number": ('limit = { epsilon = "2" }', "limit = 2", "epsilon"),
    "a number without end": ("n = 30", "n = 3" + "0" * 5000, "too long"),
    "brackets without end": ("n = 30", "n = " + "[" * 5000 + "]" * 5000, "too deep"),
    "half a file": ('"mean(income, income**2)"', '"mean(income', "TOML"),
    "a date": ("n = 30", "n = 2026-01-01", "n ="),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_spec_is_told_by_its_place_and_costs_nothing(case: str, run: Run, home: Path) -> None:
    old, new, word = WRONG[case]
    assert old in SPEC
    before, after = SPEC.rsplit(old, 1) if old == '"1.5"' else SPEC.split(old, 1)
    (home / "income.toml").write_text(before + new + after, "utf-8")
    assert_refused(run(*release(home)), word, "income.toml")
    assert sorted(path.name for path in home.iterdir()) == ["income.toml", "incomes.csv"]


@pytest.mark.parametrize("text", ["-None", "-mean(income)", "mean(-{})"])
def test_a_minus_before_what_is_no_feature_is_a_wrong_spec(text: str, run: Run, home: Path) -> None:
    (home / "income.toml").write_text(SPEC.replace("mean(income, income**2)", text))
    assert_refused(run("release", "income.toml", "--dry-run"), "InvalidSpec")


@pytest.mark.parametrize(
    ("population", "word"),
    [
        ('income = "normal(mean=norm(50, 20), sd=-1)"', "sd"),
        ('region = "normal(mean=norm(50, 20), sd=1)"', "region"),
        ('income = "nothing(p=1)"', "nothing"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_a_population_that_infer_would_refuse_is_refused_before_anything_is_paid(
    population: str, word: str, dry: bool, run: Run, home: Path
) -> None:
    (home / "income.toml").write_text(f"{SPEC}\n[population]\n{population}\n")
    arguments = ("release", "income.toml", "--dry-run") if dry else release(home)
    assert_refused(run(*arguments), "InvalidSpec", "[population]", word)
    assert not (home / "incomes.ledger").exists()


def test_a_missing_ledger_is_told_where_a_spec_says_its_limit(run: Run, home: Path) -> None:
    (home / "income.toml").write_text(SPEC.replace('[ledger]\nlimit = { epsilon = "2" }\n', ""))
    assert_refused(run(*release(home)), "incomes.ledger", "[ledger] limit =", "Nothing was spent")
    assert not (home / "incomes.ledger").exists()


HOSTILE = ["1", "-1", '""', "true", "[]", "{}", "nan", "inf", "1e400", "1979-05-27", "07:32:00", "[[1]]", "{ a = 1 }",
           '"nan"', '"1e400"', '"mean(*income)"', '"lambda: 1"', '"\\u0000"', '"' + "(" * 500 + '"']  # fmt: skip
PLACES = ["30", '"change-one"', '"clamp"', "{ bounds = [0, 250] }", '["north", "south"]', '{ epsilon = "2" }',
          '"mean(income, income**2)"', '{ epsilon = "1.5" }']  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_hostile_values_anywhere_in_a_spec_are_refused_or_harmless(place: str, run: Run, home: Path) -> None:
    for value in HOSTILE:
        (home / "income.toml").write_text(SPEC.replace(place, value, 1), "utf-8")
        done = run("release", "income.toml", "--dry-run")
        assert done.returncode in (0, 2)
        if done.returncode == 2:
            assert_refused(done, "InvalidSpec")
        else:
            assert place in ("30", '{ epsilon = "2" }'), f"{value} was accepted for {place}"


def test_order_and_key_of_the_table_section_are_checked(run: Run, home: Path) -> None:
    for section, word in (('[table]\nsort = "id"', "order or key"), ("table = 5", "order or key"),
                          ("[table]\norder = 5", "order"), ('[table]\norder = "income"', "schema column"),
                          ('[table]\nkey = "id"', "change-one")):  # fmt: skip
        (home / "income.toml").write_text(section + "\n" + SPEC if "=" in section[:8] else SPEC + section + "\n")
        assert_refused(run(*release(home)), word)
        assert not (home / "incomes.ledger").exists()


@pytest.mark.parametrize("value", ["5", '"population"', "true", "1979-05-27", "[1]", "{ population = 5 }"])
def test_a_survey_section_that_is_none_is_refused_where_its_population_is_looked_for(value: str, home: Path) -> None:
    (home / "income.toml").write_text(f"survey = {value}\n{SPEC}")
    with pytest.raises(InvalidSpec, match="survey"):
        Spec.read(home / "income.toml").population()


def test_the_program_has_no_secrets_in_its_help(run: Run) -> None:
    for arguments in (("--help",), ("release", "--help"), ("ledger", "--help"), ("show", "--help"), ("demo", "--help")):
        done = run(*arguments)
        assert done.returncode == 0
        assert str(Path.home()) not in done.stdout


@pytest.mark.parametrize(
    "target",
    [
        "income.toml",
        "incomes.csv",
        "./incomes.csv",
        "incomes.ledger",
        "incomes.ledger-journal",
        "./incomes.ledger-wal",
        "incomes.ledger-shm",
    ],
)
def test_a_release_never_overwrites_what_it_was_made_from(
    home: Path, run: Callable[..., subprocess.CompletedProcess[str]], target: str
) -> None:
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    arguments = ("release", "income.toml", "--data", "incomes.csv", "--ledger", "incomes.ledger", "--out", target)
    assert_refused(run(*arguments), "Nothing was spent")
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


def test_the_demo_never_writes_into_a_folder_that_is_not_its_own(
    home: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    assert_refused(run("demo", "--out", "."), "new folder")
    assert_refused(run("demo", "--out", "incomes.csv"), "incomes.csv")
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


def test_a_place_that_cannot_be_written_is_one_sentence(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert_refused(run("demo", "--out", "/proc/nowhere"), "/proc/nowhere")
    assert_refused(
        run("audit", "finite", "--runs", "20", "--json", "/proc/nowhere/rows.json"), "/proc/nowhere/rows.json"
    )
