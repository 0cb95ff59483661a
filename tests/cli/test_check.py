"""`noisewise check` and the stop of `noisewise release`: real files, told to the holder, told to nobody else."""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command_line import Run, run_here

import noisewise as nw
from noisewise.printable import toml_key

DATA = Path(os.environ.get("NOISEWISE_DATA", "/nowhere"))
CANARY = "83751.90642"
SPEC = """\
[schema]
n = {n}
neighbours = "change-one"
{policy}
[schema.columns]
{columns}

[ledger]
limit = {{ epsilon = "2" }}

[release]
statistic = "{statistic}"
guarantee = {{ epsilon = "1" }}

{data}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(run_here, monkeypatch, capsys)


def spec(n: int, columns: str, statistic: str, data: str = "", policy: str = "") -> None:
    text = SPEC.format(n=n, columns=columns, statistic=statistic, data=data and f"[data]\n{data}", policy=policy)
    Path("x.toml").write_text(text, "utf-8")


def release(file: str, *more: str) -> tuple[str, ...]:
    return ("release", "x.toml", "--data", file, "--ledger", "x.ledger", "--out", "x.json", *more)


# --- the four files of real offices -----------------------------------------------------------------------------------


@pytest.mark.skipif(not (DATA / "air_quality.csv").exists(), reason="needs the real data (NOISEWISE_DATA)")
def test_the_air_quality_file_is_understood_step_by_step(home: Path, run: Run) -> None:
    """No header, -200 for missing, blank rows at the end: each refusal says what to write next."""
    file = str(DATA / "air_quality.csv")
    spec(9471, "co = { bounds = [0, 12] }", "mean(co)")
    code, _, told = run("check", "x.toml", "--data", file)
    assert code == 2
    assert "header = false" in told
    names = 'header = false\nnames = ["co", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "", ""]'
    spec(9471, "co = { bounds = [0, 12] }", "mean(co)", names, "missing = { co = 2 }")
    code, told, _ = run("check", "x.toml", "--data", file)
    assert code == 0
    assert "co: -200 in 1683 (17.8 %) rows, below the bounds" in told
    assert "114 (1.2 %)" in told
    assert "2.153 by the rows inside the bounds alone" in told
    assert "missing = { co = [-200] } under [data]" in told
    code, _, told = run(*release(file))
    assert code == 2
    assert "1683 of 9471 values (17.8 %; 1683 below, 0 above)" in told
    assert not Path("x.ledger").exists()
    spec(9471, "co = { bounds = [0, 12] }", "mean(co)", names + "\nmissing = { co = [-200] }", "missing = { co = 2 }")
    assert run(*release(file))[0] == 0


@pytest.mark.skipif(not (DATA / "air_quality.csv").exists(), reason="needs the real data (NOISEWISE_DATA)")
def test_the_docs_show_what_the_check_prints_of_the_real_file(home: Path, run: Run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text("utf-8")
    shown = page.split("```text\n")[1].split("```")[0]
    names = ["co", *"abcdefghijkl", "", ""]
    data = f"header = false\nnames = {json.dumps(names)}"
    spec(9471, "co = { bounds = [0, 12] }", "mean(co)", data, "missing = { co = 2 }")
    assert run("check", "x.toml", "--data", str(DATA / "air_quality.csv"))[1] == shown


@pytest.mark.skipif(not (DATA / "income_us.csv.gz").exists(), reason="needs the real data (NOISEWISE_DATA)")
def test_the_income_file_is_checked_and_released(home: Path, run: Run) -> None:
    file = str(DATA / "income_us.csv.gz")
    spec(32_082, "Mean = { bounds = [0, 150000] }", "mean(Mean)")
    code, told, _ = run("check", "x.toml", "--data", file)
    assert code == 0
    rows = gzip.decompress(Path(file).read_bytes()).decode().splitlines()[1:]
    incomes = [float(row.rsplit(",", 3)[1]) for row in rows]
    above = sum(income > 150_000 for income in incomes)
    assert f"{above} (" in told
    assert run(*release(file))[0] == (2 if above > 320 else 0)
    assert run(*release(file, "--accept-clamping"))[0] == 0


@pytest.mark.parametrize("ends", ["\r\n", "mixed"])
def test_a_semicolon_file_in_latin_1_with_decimal_commas_is_understood(home: Path, run: Run, ends: str) -> None:
    rows = ["Größe;Ort", *(f"{k % 90},{k % 10};{'Zürich' if k % 3 else 'Genève'}" for k in range(300))]
    joints = ["\r\n", "\n"] * 200 if ends == "mixed" else [ends] * 400
    Path("x.csv").write_bytes("".join(row + end for row, end in zip(rows, joints, strict=False)).encode("latin-1"))
    columns = '"Größe" = { bounds = [0, 90] }\nOrt = { levels = ["Zürich", "Genève"] }'
    needed = ['encoding = "cp1252"', 'delimiter = ";"', 'decimal = ","']
    written: list[str] = []
    for option in needed:  # each refusal names the next line to write
        spec(300, columns, "histogram(Ort)", "\n".join(written))
        code, _, told = run(*release("x.csv"))
        assert code == 2
        assert option in told
        written.append(option)
    spec(300, columns, "histogram(Ort)", "\n".join(written))
    code, told, _ = run("check", "x.toml", "--data", "x.csv")
    assert code == 0
    assert "300 records" in told
    assert "What to do" not in told
    assert run(*release("x.csv"))[0] == 0


def test_hints_can_be_pasted_into_a_spec_whatever_a_column_is_called(home: Path, run: Run) -> None:
    """Keys such as CO(GT) need quotes in TOML: each hint is taken out of the message and read as TOML."""
    name = "CO(GT) net"
    Path("x.csv").write_text(
        "CO(GT) net,s\n" + "".join(f"{-200 if k % 2 else k},{'x' if k % 3 else ''}\n" for k in range(90))
    )
    columns = f'{toml_key(name)} = {{ bounds = [0, 100] }}\ns = {{ levels = ["a", "b"] }}'
    spec(90, columns, "histogram(s)")
    code, told, _ = run("check", "x.toml", "--data", "x.csv")
    assert code == 0
    hints = re.findall(r"(?:missing|recode) = \{ .*? \}(?: \})? under", told)
    read = [
        tomllib.loads(hint.removesuffix(" under").replace("VALUE", "2").replace("OLD = NEW", 'x = "a"'))
        for hint in hints
    ]
    assert {"missing": {name: [-200]}} in read
    assert {"missing": {name: 2}} in read
    assert {"recode": {"s": {"x": "a"}}} in read
    spec(90, f"{toml_key(name)} = {{ bounds = [0, 100] }}", f"mean(column({name!r}))")
    code, _, told = run(*release("x.csv"))
    assert code == 2
    (hint,) = re.findall(r"missing = \{ .*? \} under", told)
    assert tomllib.loads(hint.removesuffix(" under").replace("CODE", "-200")) == {"missing": {name: [-200]}}


def test_words_for_yes_and_no_are_not_taken_for_nothing_and_the_stop_is_foretold(home: Path, run: Run) -> None:
    rows = [f"{'ja' if k % 3 else 'nein'},{999 if k % 10 == 0 else 30},NA" for k in range(200)]
    Path("x.csv").write_text("active,age,income\n" + "\n".join(rows) + "\n")
    columns = "active = { bounds = [0, 1] }\nage = { bounds = [0, 100] }\nincome = { bounds = [0, 50000] }"
    spec(200, columns, "mean(age)")
    code, told, _ = run("check", "x.toml", "--data", "x.csv")
    assert code == 0
    assert 'active: most are words such as yes and no; if so, write yes = ["yes"]' in told
    assert "active = [" not in told
    assert 'missing = { income = ["NA"] } under [data]' in told
    assert "release would stop: age: 20 of 200 values (10.0 %; 0 below, 20 above), and at most 1 %" in told
    spec(200, columns, "mean(age)", "clamp_at_most = 0.1")
    assert "would stop" not in run("check", "x.toml", "--data", "x.csv")[1]


def test_parts_of_a_statistic_are_told_once_and_large_numbers_without_powers_of_ten(home: Path, run: Run) -> None:
    Path("x.csv").write_text("income\n" + "\n".join(str(50_000 + 500 * k) for k in range(200)) + "\n")
    spec(200, "income = { bounds = [0, 140000] }", "mean(income)")
    head, entries = Path("x.toml").read_text().split("[release]")
    halves = {"first": '["0", "1/2"]', "second": '["1/2", "1"]'}
    parts = "".join(f'[[release]]\nname = "{name}"{entries}\npart = {part}\n' for name, part in halves.items())
    Path("x.toml").write_text(head + parts)
    code, told, errors = run("check", "x.toml", "--data", "x.csv")
    assert code == 0, errors
    assert told.count("of its rows hold a clamped value") == 1
    assert re.search(r"mean\(income\): \d{5} as it would be released \(before noise\); \d{5} by the rows", told)


def test_nothing_is_said_about_a_statistic_that_no_row_can_enter(home: Path, run: Run) -> None:
    Path("x.csv").write_text("income\n" + "1;5\n" * 30)
    spec(30, "income = { bounds = [0, 9] }", "mean(income)")
    assert "mean(income): unknown; in every row" in run("check", "x.toml", "--data", "x.csv")[1]


def test_a_file_with_words_for_nothing_is_understood(home: Path, run: Run) -> None:
    words = ["NA", "n/a", "NA"] * 20
    Path("x.csv").write_text("x,y\n" + "".join(f"{k % 7},0\n" for k in range(140)) + "".join(f"{w},0\n" for w in words))
    spec(200, "x = { bounds = [0, 6] }", "mean(x)")
    code, told, _ = run("check", "x.toml", "--data", "x.csv")
    assert code == 0
    assert "x: NA in 40 (20.0 %) rows, no number" in told
    assert 'missing = { x = ["NA", "n/a"] } under [data]' in told
    code, _, told = run(*release("x.csv"))
    assert code == 2
    assert 'missing = ["NA"], in the words of the file, under [data]' in told
    spec(200, "x = { bounds = [0, 6] }", "mean(x)", 'missing = ["NA", "n/a"]', "missing = { x = 3 }")
    assert run(*release("x.csv"))[0] == 0


# --- the stop ---------------------------------------------------------------------------------------------------------


def outliers(rows: int, moved: int) -> None:
    x = [5.0] * (rows - moved) + [float(CANARY)] * moved
    Path("x.csv").write_text("x\n" + "".join(f"{v}\n" for v in x))


def test_a_release_tells_the_shares_and_stops_above_the_default(home: Path, run: Run) -> None:
    spec(1000, "x = { bounds = [0, 10] }", "mean(x)")
    outliers(1000, 10)
    code, told, _ = run(*release("x.csv"))
    assert code == 0
    assert "Clamped to its bounds: x: 10 of 1000 values (1.0 %; 0 below, 10 above)." in told
    Path("x.ledger").unlink()
    outliers(1000, 11)
    code, _, told = run(*release("x.csv"))
    assert code == 2
    for word in ("InvalidData", "11 of 1000 values (1.1 %; 0 below, 11 above)", "at most 1 %", "--accept-clamping",
                 "clamp_at_most under [data]", "noisewise check", "Nothing was spent"):  # fmt: skip
        assert word in told
    assert CANARY not in told
    assert not Path("x.ledger").exists()
    assert run(*release("x.csv", "--accept-clamping"))[0] == 0


@pytest.mark.parametrize(("limit", "expected"), [("0.011", 0), ("1", 0), ('"11/1000"', 0), ("0.0109", 2), ("0", 2)])
def test_the_spec_says_how_much_may_be_clamped(home: Path, run: Run, limit: str, expected: int) -> None:
    outliers(1000, 11)
    spec(1000, "x = { bounds = [0, 10] }", "mean(x)", f"clamp_at_most = {limit}")
    assert run(*release("x.csv"))[0] == expected


def test_what_is_already_paid_is_handed_out_whatever_is_clamped(home: Path, run: Run) -> None:
    outliers(1000, 50)
    spec(1000, "x = { bounds = [0, 10] }", "mean(x)")
    assert run(*release("x.csv"))[0] == 2
    assert run(*release("x.csv", "--accept-clamping"))[0] == 0
    first = Path("x.json").read_bytes()
    Path("x.json").unlink()
    code, told, _ = run(*release("x.csv"))
    assert code == 0
    assert "already paid" in told
    assert Path("x.json").read_bytes() == first
    spec(1000, "x = { bounds = [0, 10] }", "sum(x)")
    assert run(*release("x.csv"))[0] == 2  # another request is not


def test_an_estimate_stops_as_a_release_does(home: Path, run: Run) -> None:
    Path("x.csv").write_text("x\n" + "0\n1\n" * 20 + f"{CANARY}\n" * 10)
    spec(50, "x = { bounds = [0, 1] }", "count(between(x, 0.5, 1))")
    with Path("x.toml").open("a") as file:
        file.write('[population]\nx = "bernoulli(p=uniform(0, 1))"\n')
    options = ("--data", "x.csv", "--ledger", "x.ledger", "--out", "x.json")
    code, _, told = run("estimate", "x.toml", *options)
    assert code == 2
    assert "10 of 50 values" in told
    assert run("estimate", "x.toml", *options, "--accept-clamping")[0] == 0


# --- only for the holder ----------------------------------------------------------------------------------------------


def test_check_files_belong_to_their_owner_alone(home: Path, run: Run) -> None:
    outliers(1000, 50)
    spec(1000, "x = { bounds = [0, 10] }", "mean(x)")
    for name in ("x.report.json", "x.report.html"):
        Path(name).write_text("old")
        os.chmod(name, 0o644)
    old = os.umask(0)
    try:
        code, told, _ = run("check", "x.toml", "--data", "x.csv", "--json", "x.report.json", "--html", "x.report.html")
    finally:
        os.umask(old)
    assert code == 0
    assert told.count("not for publication") == 2
    for name in ("x.report.json", "x.report.html"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600
        assert "not for publication" in Path(name).read_text().lower()
    read = json.loads(Path("x.report.json").read_text())
    assert (read["rows"], read["columns"][0]["above"], read["columns"][0]["shares"]["above"]) == (1000, 50, 0.05)


def test_nothing_of_a_check_is_in_what_is_published_or_kept(home: Path, run: Run) -> None:
    """Canaries: the code, its count, and the counts of a column; searched in every file but the check's own."""
    rng = np.random.default_rng(1)
    x = [f"{v:.3f}" for v in rng.uniform(0, 10, 4862)] + [f"-{CANARY}"] * 137
    Path("x.csv").write_text("x\n" + "\n".join(x) + "\n")
    spec(len(x), "x = { bounds = [0, 10] }", "mean(x)")
    told = run("check", "x.toml", "--data", "x.csv", "--json", "c.json", "--html", "c.html")[1]
    assert f"-{CANARY} in 137 (2.7 %) rows" in told
    assert run(*release("x.csv", "--accept-clamping"))[0] == 0
    shown = run("show", "x.json")[1] + run("ledger", "show", "x.ledger")[1]
    kept = {path.name: path.read_bytes() for path in home.iterdir()}
    assert set(kept) == {"x.csv", "x.toml", "c.json", "c.html", "x.json", "x.ledger"}
    for text in (kept["x.json"], kept["x.ledger"], shown.encode()):
        for canary in (CANARY, "2.7 %", "clamp_at_most", "holder's eyes"):
            assert canary.encode() not in text
    assert CANARY.encode() in kept["c.json"]  # the search can find it


WRONG = {
    "[data] is no section": ("data = 3", "", "[data]"),
    "an unknown option": ("", "separator = ';'", "no such option"),
    "a delimiter of two characters": ("", 'delimiter = ";;"', "delimiter"),
    "a share above one": ("", "clamp_at_most = 1.5", "clamp_at_most"),
    "a share that is no number": ("", 'clamp_at_most = "much"', "clamp_at_most"),
    "no such encoding": ("", 'encoding = "klingon"', "encoding"),
    "no names": ("", "header = false", "names"),
    "a date of a column that is not there": ("", 'dates = { born = "%Y" }', "born"),
    "a level that is not declared": ("", 'recode = { "M" = "m" }', "recode"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("command", ["check", "release"])
def test_what_a_data_section_can_get_wrong_is_one_sentence(home: Path, run: Run, name: str, command: str) -> None:
    top, section, word = WRONG[name]
    outliers(100, 0)
    spec(100, "x = { bounds = [0, 10] }", "mean(x)", section)
    Path("x.toml").write_text(f"{top}\n{Path('x.toml').read_text()}")
    arguments = ("check", "x.toml", "--data", "x.csv") if command == "check" else release("x.csv")
    code, _, told = run(*arguments)
    assert code == 2
    assert word in told
    assert "Traceback" not in told
    assert not Path("x.ledger").exists()


def test_a_check_never_overwrites_the_records_or_the_spec(home: Path, run: Run) -> None:
    outliers(100, 0)
    spec(100, "x = { bounds = [0, 10] }", "mean(x)")
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    for option in ("--json", "--html"):
        for name in ("x.csv", "./x.toml", "no/such/folder.json"):
            assert run("check", "x.toml", "--data", "x.csv", option, name)[0] == 2
    assert run("check", "x.toml", "--data", "none.csv")[0] == 2
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


def test_no_table_or_picture_overwrites_a_ledger_a_spec_or_a_release(home: Path, run: Run) -> None:
    outliers(100, 0)
    spec(100, "x = { bounds = [0, 10] }", "mean(x)")
    assert run("release", "x.toml", "--data", "x.csv", "--ledger", "x.ledger", "--out", "x.json")[0] == 0
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    for name in ("x.toml", "x.ledger", "x.csv", "x.json"):
        for command in (("precision", "x.toml"), ("check", "x.toml", "--data", "x.csv")):
            code, out, err = run(*command, "--json", name)
            assert code == 2
            assert "would overwrite" in " ".join((out + err).split())
    code, out, err = run("check", "x.toml", "--data", "x.csv", "--json", "both", "--html", "both")
    assert code == 2
    assert "same file" in " ".join((out + err).split())
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


def test_nothing_at_all_is_written_over_another_account(home: Path, run: Run) -> None:
    outliers(100, 0)
    spec(100, "x = { bounds = [0, 10] }", "mean(x)")
    release = ("release", "x.toml", "--data", "x.csv")
    assert run(*release, "--ledger", "x.ledger", "--out", "x.json")[0] == 0
    account = (home / "x.ledger").read_bytes()
    code, out, err = run(*release, "--ledger", "other.ledger", "--out", "x.ledger")
    assert code == 2
    assert "a ledger or another database lies there" in " ".join((out + err).split())
    assert not (home / "other.ledger").exists()
    assert run("survey", "page", "--out", "x.ledger")[0] == 2
    made = nw.Release.load(home / "x.json")
    with pytest.raises(nw.NoisewiseError, match=r"'x.ledger': a ledger or another database lies there"):
        made.save("x.ledger")
    assert (home / "x.ledger").read_bytes() == account
    assert nw.Ledger.open(home / "x.ledger").spent() == nw.PureDP(1)
