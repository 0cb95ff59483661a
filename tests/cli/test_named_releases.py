"""Specs that name several releases: one bill, one payment, one file for each; wrong names are told and cost nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from command_line import Shown, run_here

import noisewise as nw

N = 40
CANARY = "123.456789"
HEAD = """\
[schema]
n = 40
neighbours = "change-one"
[schema.columns]
income = { bounds = [0, 250] }
region = { levels = ["north", "south"] }

[ledger]
limit = { epsilon = "2" }
"""
NAMED = """
[[release]]
name = "mean-income"
statistic = "mean(income)"
guarantee = { epsilon = "1/3" }

[[release]]
name = "regions"
statistic = "histogram(region)"
guarantee = { epsilon = "1/7" }

[[release]]
name = "first.half"
statistic = "mean(income)"
guarantee = { epsilon = "1/2" }
part = ["0", "1/2"]

[[release]]
name = "second_half"
statistic = "mean(income)"
guarantee = { epsilon = "2/3" }
part = ["1/2", "1"]

[[release]]
name = "again"
statistic = "mean(income)"
guarantee = { epsilon = "1/3" }
"""
FILES = ["again", "first.half", "mean-income", "regions", "second_half"]
TOTAL = Fraction(1, 3) + Fraction(1, 7) + Fraction(2, 3)  # of the second half, the worse; "again" costs nothing

Run = Callable[..., Shown]


def alone(sections: str, number: int) -> str:
    """One of several [[release]] as the [release] without a name."""
    lines = sections.strip().split("\n\n")[number].replace("[[release]]", "[release]").splitlines()
    return "\n".join(line for line in lines if not line.startswith("name")) + "\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{CANARY if k == 3 else 5 * k},{'north' if k % 3 else 'south'}" for k in range(N)]
    (tmp_path / "people.csv").write_text("income,region\n" + "\n".join(rows) + "\n", "utf-8")
    (tmp_path / "spec.toml").write_text(HEAD + NAMED, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Shown:
        code, out, err = run_here(monkeypatch, capsys, *arguments)
        assert CANARY not in out + err
        assert "Traceback" not in err
        return code, " ".join(out.split()), " ".join(err.split())

    return call


def release(out: str = "published", *more: str) -> tuple[str, ...]:
    return ("release", "spec.toml", "--data", "people.csv", "--ledger", "people.ledger", "--out", out, *more)


def spent(home: Path) -> nw.PureDP | None:
    with nw.Ledger.open(home / "people.ledger") as ledger:
        ledger.check()
        return ledger.spent()  # type: ignore[return-value]


def written(home: Path, folder: str = "published") -> list[str]:
    return sorted(path.name.removesuffix(".release.json") for path in (home / folder).iterdir())


def test_all_releases_of_a_spec_are_paid_together_and_written_by_name(run: Run, home: Path) -> None:
    code, shown, errors = run(*release())
    assert (code, errors) == (0, "")
    assert spent(home) == nw.PureDP(TOTAL)
    assert f"to pay epsilon = {TOTAL}, for 4 releases (disjoint parts in parallel)" in shown
    assert f"spent nothing now, epsilon = {TOTAL} then" in shown
    assert f"remaining epsilon = {2 - TOTAL} of epsilon = 2" in shown
    assert "5 again mean(income) all epsilon = 1/3 0: the same as 1" in shown
    assert f"Paid epsilon = {TOTAL}, for 4 releases." in shown
    assert shown.index("to pay") < shown.index("Paid")
    assert written(home) == FILES
    made = {name: nw.Release.load(home / "published" / f"{name}.release.json") for name in FILES}
    assert made["mean-income"] == made["again"]
    assert made["regions"].statistic == nw.statistic("histogram(region)")
    assert made["second_half"].part == (Fraction(1, 2), Fraction(1))
    assert run("ledger", "check", "people.ledger", *(f"published/{name}.release.json" for name in FILES))[0] == 0

    code, shown, _ = run(*release("copies"))
    assert code == 0
    assert shown.count("0: already paid") == 4
    assert "to pay nothing" in shown
    assert spent(home) == nw.PureDP(TOTAL)
    for name in FILES:
        file = f"{name}.release.json"
        assert (home / "copies" / file).read_bytes() == (home / "published" / file).read_bytes()


def test_one_of_them_can_be_made_alone_and_is_free_in_the_rest(run: Run, home: Path) -> None:
    assert run(*release("published", "--only", "regions"))[0] == 0
    assert written(home) == ["regions"]
    assert spent(home) == nw.PureDP("1/7")
    first = (home / "published" / "regions.release.json").read_bytes()
    code, shown, _ = run("release", "spec.toml", "--dry-run", "--ledger", "people.ledger")
    assert code == 0
    assert "2 regions histogram(region) all epsilon = 1/7 0: already paid" in shown
    assert f"to pay epsilon = {TOTAL - Fraction(1, 7)}, for 3 releases" in shown
    assert run(*release())[0] == 0
    assert (home / "published" / "regions.release.json").read_bytes() == first
    assert spent(home) == nw.PureDP(TOTAL)


def test_a_dry_run_shows_the_bill_and_leaves_nothing(run: Run, home: Path) -> None:
    before = sorted(home.iterdir())
    code, shown, _ = run("release", "spec.toml", "--dry-run")
    assert code == 0
    assert f"to pay epsilon = {TOTAL}, for 4 releases" in shown
    assert "first.half: mean(income) over n = 20, part 0 to 1/2" in shown
    assert "nothing was spent" in shown
    code, shown, _ = run("release", "spec.toml", "--dry-run", "--only", "regions")
    assert code == 0
    assert "to pay epsilon = 1/7, for 1 release" in shown
    assert "mean" not in shown
    (home / "spec.toml").write_text(NAMED + HEAD.replace("[ledger]", "").replace('limit = { epsilon = "2" }', ""))
    code, shown, _ = run("release", "spec.toml", "--dry-run")
    assert code == 0
    assert "remaining" not in shown
    assert sorted(home.iterdir()) == before


def test_a_batch_that_does_not_fit_makes_none(run: Run, home: Path) -> None:
    (home / "spec.toml").write_text(HEAD + NAMED.replace('"1/7"', '"1.3"'))
    code, shown, errors = run(*release())
    assert code == 2
    assert "it does not fit into the limit, epsilon = 2" in shown
    assert "BudgetExceeded: release 3 of 5, after those before it, needs epsilon = 0.5" in errors
    assert "Nothing was spent" in errors
    assert not (home / "people.ledger").exists()
    assert not (home / "published").exists()


@pytest.mark.parametrize("name", ["mean-income", None])
def test_what_the_account_cannot_pay_is_refused_before_a_record_is_read(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    assert run(*release())[0] == 0
    before = spent(home)

    def read(*_: object, **__: object) -> None:
        raise AssertionError("a record was read")

    monkeypatch.setattr(nw.Table, "read", read)
    dear = NAMED.replace('"1/3"', '"1.7"')
    if name is None:  # one release without a name
        dear = '[release]\nstatistic = "mean(income)"\nguarantee = { epsilon = "1.7" }\n'
    (home / "spec.toml").write_text(HEAD + dear)
    code, _, errors = run(*(release() if name else release("one.json")))
    assert code == 2
    assert errors.startswith("BudgetExceeded: ")
    assert "Nothing was spent" in errors
    assert spent(home) == before
    (home / "people.ledger").rename(home / "other.ledger")
    (home / "spec.toml").write_text(HEAD.replace('epsilon = "2"', 'epsilon = "0.1"') + dear)
    code, _, errors = run(*(release() if name else release("one.json")))
    assert (code, errors.startswith("BudgetExceeded: ")) == (2, True)
    assert not (home / "people.ledger").exists()


def test_the_precision_of_one_release_can_be_asked_by_its_name(run: Run) -> None:
    code, shown, _ = run("precision", "spec.toml", "--only", "regions", "--quiet")
    assert code == 0
    assert "histogram(region) by" in shown
    assert "mean(income)" not in shown
    code, _, errors = run("precision", "spec.toml", "--only", "region")
    assert (code, "(did you mean 'regions'?)" in errors) == (2, True)


@pytest.mark.parametrize(
    ("out", "word"),
    [
        ("people.csv", "it is a file"),
        ("people.csv/deeper", "is a file"),
        ("all.json", "give a folder"),
        ("/proc/nowhere", "/proc/nowhere"),
        ("taken", "it is a folder"),
    ],
)
def test_every_place_is_checked_before_anything_is_paid(run: Run, home: Path, out: str, word: str) -> None:
    (home / "taken" / "second_half.release.json").mkdir(parents=True)
    code, _, errors = run(*release(out))
    assert code == 2
    assert word in errors
    assert "spent" in errors
    assert not (home / "people.ledger").exists()


@pytest.mark.parametrize("target", ["--data", "--ledger"])
def test_no_release_is_written_over_what_it_is_made_from(run: Run, home: Path, target: str) -> None:
    text = (home / "people.csv").read_text()
    (home / "regions.release.json").write_text(text)
    options = {"--data": "people.csv", "--ledger": "people.ledger"} | {target: "regions.release.json"}
    code, _, errors = run("release", "spec.toml", *(word for pair in options.items() for word in pair), "--out", ".")
    assert code == 2
    assert "would overwrite" in errors
    assert (home / "regions.release.json").read_text() == text


def test_a_file_that_cannot_be_written_after_the_payment_comes_again_for_free(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = os.replace

    def full(source: str, target: str) -> None:
        if "regions" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device")
        sound(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        code, shown, errors = run(*release())
    assert code == 2
    assert "No space left on device" in errors
    assert "All 5 releases are paid and stored in the ledger; 1 of them could not be written" in errors
    assert "ask again: that is free" in errors
    assert "mean-income.release.json, first.half.release.json" in shown
    assert written(home) == [name for name in FILES if name != "regions"]
    assert spent(home) == nw.PureDP(TOTAL)
    assert run(*release())[0] == 0
    assert written(home) == FILES
    assert spent(home) == nw.PureDP(TOTAL)


WRONG = {
    "a name with a slash": ('"regions"', '"../regions"', "In [[release]] 2 of spec.toml: name = '../regions'"),
    "a hidden file": ('"regions"', '".regions"', "a letter or digit first"),
    "an option": ('"regions"', '"-regions"', "a letter or digit first"),
    "an empty name": ('"regions"', '""', "letters, digits"),
    "a name with a space": ('"regions"', '"all regions"', "letters, digits"),
    "another script": ('"regions"', '"région"', "letters, digits"),
    "a name that is a number": ('"regions"', "5", "in quotes"),
    "a long name": ('"regions"', f'"{"r" * 101}"', "at most 100"),
    "a line in a name": ('"regions"', '"a\\nb"', "letters, digits"),
    "a name twice": ('"regions"', '"mean-income"', "[[release]] 1 and 2 are both called 'mean-income'"),
    "a name twice but for capitals": ('"regions"', '"Mean-Income"', "capital letters do not count"),
    "no name": ('name = "regions"\n', "", '[[release]] 2 of spec.toml has no name: give it one, as in name = "'),
    "a misspelt name": ('name = "regions"', 'nmae = "regions"', "unknown entry 'nmae' (did you mean 'name'?)"),
    "a misspelt entry": ('part = ["0"', 'parts = ["0"', "In [[release]] 3 of spec.toml: unknown entry 'parts'"),
    "a wrong statistic": ("histogram(region)", "histogram(area)", "In [[release]] 'regions' of spec.toml"),
    "no guarantee": ('guarantee = { epsilon = "1/7" }', "", "In [[release]] 'regions' of spec.toml"),
    "a name in single brackets": (NAMED, NAMED.split("\n\n")[0].replace("[[release]]", "[release]"), "double brackets"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_name_is_told_in_the_words_of_the_file(case: str, run: Run, home: Path) -> None:
    old, new, words = WRONG[case]
    assert old in NAMED
    (home / "spec.toml").write_text(HEAD + NAMED.replace(old, new, 1), "utf-8")
    code, _, errors = run(*release())
    assert code == 2
    assert errors.startswith("InvalidSpec: ")
    assert words in errors
    assert sorted(path.name for path in home.iterdir()) == ["people.csv", "spec.toml"]


def test_only_takes_a_name_that_is_there(run: Run, home: Path) -> None:
    code, _, errors = run(*release("published", "--only", "region"))
    assert code == 2
    assert "no [[release]] of that name (did you mean 'regions'?); there are mean-income, regions" in errors
    (home / "spec.toml").write_text(HEAD + alone(NAMED, 0))
    code, _, errors = run(*release("x.json", "--only", "regions"))
    assert code == 2
    assert "Leave --only out" in errors
    assert run(*release("x.json"))[0] == 0
    assert nw.Release.load(home / "x.json").statistic == nw.statistic("mean(income)")


def test_one_release_in_double_brackets_goes_to_a_file_without_a_name_and_to_a_folder_with_one(
    run: Run, home: Path
) -> None:
    one = NAMED.strip().split("\n\n")[0]
    (home / "spec.toml").write_text(HEAD + one)
    assert run(*release())[0] == 0
    assert written(home) == ["mean-income"]
    (home / "spec.toml").write_text(HEAD + one.replace('name = "mean-income"\n', ""))
    assert run(*release("one.json"))[0] == 0
    assert (home / "one.json").read_bytes() == (home / "published" / "mean-income.release.json").read_bytes()
    assert spent(home) == nw.PureDP("1/3")


POPULATION = """
[population]
region = "bernoulli(p=beta(1, 1))"
"""
COUNTS = """
[[release]]
name = "north"
statistic = "count(equals(region, 'north'))"
guarantee = { epsilon = "1" }

[[release]]
name = "more"
statistic = "count(equals(region, 'north'))"
guarantee = { epsilon = "1/2" }
"""


def test_commands_that_take_one_release_ask_which(run: Run, home: Path) -> None:
    (home / "spec.toml").write_text(HEAD + COUNTS + POPULATION)
    code, _, errors = run("estimate", "spec.toml")
    assert code == 2
    assert "lists 2 releases, and this takes one: say which with --only north|more" in errors
    code, _, errors = run("estimate", "spec.toml", "--only", "south")
    assert code == 2
    assert "there are north, more" in errors
    (home / "spec.toml").write_text(HEAD + COUNTS.replace('name = "north"\n', "").replace('name = "more"\n', ""))
    code, _, errors = run("estimate", "spec.toml")
    assert code == 2
    assert 'give each a name = "..."' in errors


def test_an_estimate_is_made_of_the_release_that_is_named(run: Run, home: Path) -> None:
    (home / "spec.toml").write_text(HEAD + COUNTS + POPULATION)
    shown = {name: run("estimate", "spec.toml", "--only", name)[1] for name in ("north", "more")}
    (home / "spec.toml").write_text(HEAD + alone(COUNTS, 1) + POPULATION)
    assert run("estimate", "spec.toml")[1] == shown["more"] != shown["north"]


def test_calibration_takes_all_releases_or_the_one_that_is_named(run: Run, home: Path) -> None:
    (home / "spec.toml").write_text(HEAD + COUNTS + POPULATION)
    for arguments, count in (((), 2), (("--only", "more"), 1)):
        run("calibrate", "spec.toml", "--trials", "20", "--quiet", "--json", "c.json", *arguments)
        assert (home / "c.json").read_text().count("count(equals(region, 'north')) by") == count


def test_a_candidate_has_no_name(run: Run, home: Path) -> None:
    (home / "spec.toml").write_text(HEAD + COUNTS.replace("[[release]]", "[[candidates]]") + POPULATION)
    code, _, errors = run("choose", "spec.toml")
    assert code == 2
    assert "name = ... belongs to [[release]]" in errors
