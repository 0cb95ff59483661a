"""Every example in the README and the docs runs, and prints what the page says it prints.

A page is one story: its blocks run in order, in one namespace and one folder, which starts with the records that
`make demo` writes. What a block shows is compared with what it does:

    python    `#> text` under a statement is its exact output; `#~ text` is output with noise in it, compared after
              every number has been masked
    console   lines that start with `$ noisewise` are run, and the lines under each are its exact output; under a
              `<!-- noisy -->` comment numbers are masked
    either    under a `<!-- needs pymc -->` comment a block is run where that package is installed; else the rest of the
              page is run, and then skipped with the reason
    toml      a block with title="name" becomes that file
    json      a block is a release file and must load, hash and all
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from noisewise.cli.main import main
from noisewise.errors import InvalidRelease
from noisewise.holder import draw
from noisewise.laws.protocol import FAMILIES
from noisewise.privacy.guarantee import CONVERSIONS, KINDS
from noisewise.privacy.mechanism import TABLE
from noisewise.release import Release
from noisewise.statistics.registry import KINDS as STATISTIC_KINDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:<!-- needs (?P<needs>\w+) -->\n)?(?P<noisy><!-- noisy -->\n)?"
    r"^```(?P<language>\w+)(?P<info>[^\n]*)\n(?P<body>.*?)^```$",
    re.M | re.S,
)
NUMBER = re.compile(r"[0-9a-f]{8,}|[-+]?\d[\d.:]*(?:e[-+]?\d+)?")
SHOWN = ("#>", "#~")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    title: str | None
    body: str
    line: int
    is_noisy: bool
    needs: str | None = None


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["info"])
        line = text.count("\n", 0, match.start("language")) + 1
        is_noisy = match["noisy"] is not None
        yield Block(match["language"], title[1] if title else None, match["body"], line, is_noisy, match["needs"])


def masked(line: str) -> str:
    """A line without its numbers and the spaces that align them; a chance near 1 may be told as over another."""
    return " ".join(NUMBER.sub("#", line).split()).replace("probability over #", "probability #")


def unwrapped(lines: list[str]) -> list[str]:
    """Lines with what was wrapped and indented under them: where a line breaks depends on its numbers."""
    whole: list[str] = []
    for line in lines:
        if whole and line.startswith("  "):
            whole[-1] += line
        else:
            whole.append(line)
    return whole


def compare(shown: list[str], printed: str, where: str, *, is_noisy: bool) -> None:
    expected = [line.rstrip() for line in shown]
    found = [line.rstrip() for line in printed.rstrip("\n").split("\n")] if printed.strip() else []
    if is_noisy:
        expected, found = ([masked(line) for line in unwrapped(lines)] for lines in (expected, found))
    if expected != found:
        difference = "\n".join(difflib.unified_diff(expected, found, "the page", "the run", lineterm=""))
        raise AssertionError(f"{where} does not print what it shows:\n{difference}")


def segments(body: str) -> Iterator[tuple[str, list[str], int]]:
    """Statements, the output lines shown under them, and how many lines came before."""
    code: list[str] = []
    shown: list[str] = []
    start = 0
    for number, line in enumerate([*body.split("\n"), None]):
        if line is not None and line.startswith(SHOWN):
            shown.append(line)
        else:
            if shown or line is None:
                yield "\n".join(code), shown, start
                code, shown, start = [], [], number
            if line is not None:
                code.append(line)


def run_python(block: Block, names: dict[str, Any], page: str) -> None:
    for code, shown, offset in segments(block.body):
        where = f"{page}:{block.line + 1 + offset}"
        # Blank lines in front, so that a traceback names the line of the page.
        source = compile("\n" * (block.line + offset) + code, page, "exec", dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(source, names)
        if shown:
            noisy = [line.startswith("#~") for line in shown]
            assert len(set(noisy)) == 1, f"{where}: show one output either with #> or with #~"
            compare([line[2:].removeprefix(" ") for line in shown], printed.getvalue(), where, is_noisy=noisy[0])
        else:
            assert not printed.getvalue(), f"{where} prints something that the page does not show"


def run_console(block: Block, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in re.split(r"^\$ ", block.body, flags=re.M)[1:]:
        line, _, shown = command.partition("\n")
        words = shlex.split(line, comments=True)
        if words[0] != "noisewise":
            continue
        monkeypatch.setattr(sys, "argv", words)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), contextlib.suppress(SystemExit):
            main()
        lines = shown.rstrip("\n").split("\n") if shown.strip() else []
        compare(lines, output.getvalue(), f"{page}:{block.line} $ {line}", is_noisy=block.is_noisy)


def run_page(text: str, page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run all blocks of a page in `folder`; returns how many there were."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "150")
    names: dict[str, Any] = {"__name__": "page"}
    count = 0
    missing: set[str] = set()
    for block in blocks(text):
        if block.needs is not None and importlib.util.find_spec(block.needs) is None:
            missing.add(block.needs)
            continue
        count += 1
        match block.language:
            case "python":
                run_python(block, names, page)
            case "console":
                run_console(block, page, monkeypatch)
            case "toml" if block.title is not None:
                Path(block.title).write_text(block.body)
            case "json":
                Release.from_bytes(block.body.encode(), where=f"{page}:{block.line}")
            case _:
                count -= 1
    if missing:
        pytest.skip(f"{page}: all ran but the blocks that need {', '.join(sorted(missing))}, which is not installed")
    return count


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make demo` leaves behind."""
    from noisewise.cli.demo import run

    folder = tmp_path_factory.mktemp("demo")
    with contextlib.redirect_stdout(io.StringIO()):
        run(folder / "demo-report")
    shutil.copy(folder / "demo-report" / "incomes.csv", folder)
    return folder


@pytest.fixture
def registries() -> Iterator[None]:
    """A page may register a law, a guarantee or a statistic of its own; the next test shall not meet it."""
    registered = (FAMILIES, TABLE, draw._SAMPLERS, KINDS, CONVERSIONS, STATISTIC_KINDS)
    kept = [(registry, registry.copy()) for registry in registered]
    yield
    for registry, before in kept:
        registry.clear()
        registry.extend(before) if isinstance(registry, list) else registry.update(before)


@pytest.mark.usefixtures("registries")
@pytest.mark.filterwarnings("ignore:PyTensor could not link:UserWarning")  # it says that of itself, installed by pip
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_example_runs_and_prints_what_it_shows(
    page: Path, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(records, tmp_path, dirs_exist_ok=True)
    text = page.read_text("utf-8")
    # Every fence is either run or of a language that is only read; none is lost to a misspelling.
    assert text.count("\n```") % 2 == 0
    assert {block.language for block in blocks(text)} <= {"python", "console", "toml", "json", "text", "math"}
    run_page(text, page.name, tmp_path, monkeypatch)


PLANTED = {
    "wrong output": "```python\nprint(1 + 1)\n#> 3\n```\n",
    "missing output": "```python\nprint(1 + 1)\n```\n",
    "output of a later statement": "```python\nx = 1\n#> 2\nprint(x + 1)\n```\n",
    "wrong words around a number": "```python\nprint('spent 1')\n#~ left 2\n```\n",
    "an error": "```python\nimport noisewise as nw\nnw.PureDP(-1)\n```\n",
    "a wrong command output": "```console\n$ noisewise show nothing.json\nall is well\n```\n",
    "a noisy command with other words": "<!-- noisy -->\n```console\n$ noisewise show nothing.json\nall is well\n```\n",
    "a release that was edited": '```json\n{"format": "noisewise-release/1"}\n```\n',
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_page_that_is_wrong_is_caught(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((AssertionError, ValueError, InvalidRelease)):
        run_page(PLANTED[fault], "planted.md", tmp_path, monkeypatch)


def test_masking_hides_numbers_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "```python\nprint('a   1.5e-3 b deadbeef00 c')\n#~ a 22 b 0123456789 c\n```\n"
    assert run_page(page, "page.md", tmp_path, monkeypatch) == 1


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_every_test_that_the_promises_name_exists() -> None:
    named = re.findall(r"`(tests/[\w/.]+|benchmarks/[\w/.]+)`", (ROOT / "docs" / "promises.md").read_text("utf-8"))
    assert len(named) > 10
    # An empty folder tests nothing.
    assert not [path for path in named if not ((ROOT / path).is_file() or list((ROOT / path).glob("test_*.py")))]


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"\b([\w-]+\.md)\b", (ROOT / "mkdocs.yml").read_text("utf-8")))
    assert listed == {page.name for page in PAGES if page.name != "README.md"}
