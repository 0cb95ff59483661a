"""The notebooks run from the first cell to the last, without Jupyter, and show what they hold."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_a_notebook_for_each_kind_of_reader() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["analyst", "holder", "researcher"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_every_cell_runs_and_shows_the_kinds_of_things_that_are_kept(
    path: Path, runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text("utf-8"))
    kept = runner.kinds(notebook)
    assert any("text/html" in kinds for kinds in kept)
    assert any("image/png" in kinds for kinds in kept)
    runner.run(notebook, path.name)
    assert runner.kinds(notebook) == kept


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_plain_and_tells_nothing_of_the_machine_it_ran_on(path: Path) -> None:
    text = path.read_text("utf-8")
    notebook = json.loads(text)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert not re.search(r"(?<![\w/+=])/(tmp|home|root|usr|work|var|opt)/", re.sub(r'"image/png": "[^"]*"', "", text))
    assert "Traceback" not in text


def test_a_cell_that_fails_or_shows_something_else_is_noticed(runner: ModuleType) -> None:
    def book(source: str) -> dict[str, object]:
        return {"cells": [{"cell_type": "code", "source": [source], "outputs": []}]}

    with pytest.raises(ZeroDivisionError):
        runner.run(book("1 / 0"), "planted")
    shown = book("print('a')\n1 + 1")
    runner.run(shown, "planted")
    assert runner.kinds(shown) == [["stream", "text/plain"]]
    silent = book("x = 1")
    runner.run(silent, "planted")
    assert runner.kinds(silent) == [[]]
