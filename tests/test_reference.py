"""The reference says what the program does: every public name, every parameter of it, and an example that runs.

Docstrings are read with three names known, as the reference tells its readers: `nw`, `np` and scipy's `stats`.
"""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.inference.population_methods import METHODS
from noisewise.regression.formula import regression

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
FLAGS = doctest.REPORT_NDIFF
SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(?P<body>.*?)(?=^\w+\n-+$|\Z)", re.M | re.S)
NAMES = re.compile(r"^(?!\s)(.+)$", re.M)


def thing(name: str) -> Any:
    """What a public name stands for; the room that can be called stands for its function."""
    return regression if name == "regression" else getattr(nw, name)


def examples(name: str) -> Iterator[doctest.DocTest]:
    """The examples of a name, and of its members that have any."""
    known = {"nw": nw, "np": np, "stats": stats}
    parser, found = doctest.DocTestParser(), {name: thing(name)}
    if inspect.isclass(found[name]):
        members = ((key, inspect.getattr_static(found[name], key)) for key in vars(found[name]) if key[0] != "_")
        found |= {f"{name}.{key}": getattr(member, "__func__", member) for key, member in members}
    for path, one in found.items():
        text = inspect.getdoc(one) if callable(one) else None
        if text and ">>>" in text:
            yield parser.get_doctest(text, dict(known), path, None, None)


def failures(test: doctest.DocTest) -> str:
    """What its run printed otherwise than it says; nothing where all is as it says."""
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=printed.append)
    return "".join(printed)


@pytest.fixture(autouse=True)
def methods() -> Iterator[None]:
    """An example registers a method of its own; the next test shall not meet it."""
    before = dict(METHODS._known)
    yield
    METHODS._known.clear()
    METHODS._known.update(before)


@pytest.mark.parametrize("name", nw.__all__)
def test_every_public_name_has_an_example_that_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(examples(name))
    assert name in {test.name for test in found}, f"{name} has no example"
    assert not [said for test in found if (said := failures(test))]


@pytest.mark.parametrize("name", [name for name in nw.imports.__all__ if name not in ("diffprivlib", "mbi")])
def test_every_import_of_plain_data_has_an_example_that_runs(name: str) -> None:
    text = inspect.getdoc(getattr(nw.imports, name)) or ""
    assert ">>>" in text
    assert not failures(doctest.DocTestParser().get_doctest(text, {"nw": nw}, name, None, None))


def test_an_example_that_is_wrong_is_caught() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "planted", None, None)
    assert "Expected" in failures(wrong) or "Differences" in failures(wrong)


def told(text: str) -> set[str]:
    """The names in the sections Parameters and Attributes."""
    return {
        name
        for section in SECTION.finditer(text)
        for line in NAMES.findall(section["body"])
        for name in line.split(", ")
    }


@pytest.mark.parametrize("name", nw.__all__)
def test_every_parameter_is_told_and_none_that_is_not_there(name: str) -> None:
    one = thing(name)
    text = inspect.getdoc(one) or ""
    known = inspect.signature(one).parameters
    if inspect.isclass(one) and issubclass(one, Exception) and one is not nw.NoisewiseError:
        assert not told(text)  # the base tells how errors are made; each says its fields
        return
    public = {key for key in known if not key.startswith("_")}
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    grouped = {key for key, parameter in known.items() if parameter.kind is parameter.VAR_KEYWORD}
    missing = public - told(text) - grouped
    assert not missing, f"{name} does not tell {sorted(missing)}"
    if not is_open:
        assert not told(text) - public, f"{name} tells what it does not take: {sorted(told(text) - public)}"


@pytest.mark.parametrize("name", nw.__all__)
def test_a_default_that_is_told_is_the_default(name: str) -> None:
    """Where the text of one parameter says "Default None." or "Default 0.01", the signature says so."""
    one, text = thing(name), inspect.getdoc(thing(name)) or ""
    known = inspect.signature(one).parameters
    for section in SECTION.finditer(text):
        for names, words in re.findall(r"^(\w+)\n((?:    .*\n?)+)", section["body"], re.M):
            said = re.search(r"Default (None|True|False|\d+(?:\.\d+)?)(?=[.:,;]|\s|$)", words)
            if said and names in known and known[names].default is not inspect.Parameter.empty:
                assert str(known[names].default) == said[1], f"{name}({names}=): {said[0]}"


def test_every_public_name_is_in_the_reference_once() -> None:
    listed = [
        name
        for page in PAGES
        for name in re.findall(r"^::: noisewise\.(?:[a-z_.]+\.)?(\w+)$", page.read_text("utf-8"), re.M)
    ]
    public = [name for name in listed if name in nw.__all__]
    assert sorted(public) == sorted(nw.__all__)
    assert {name for name in listed if name not in nw.__all__} == {*nw.imports.__all__, "observe"}


def test_members_that_the_reference_lists_exist_and_are_told() -> None:
    for page in PAGES:
        entry = r"^::: noisewise\.(\w+)\n    options:\n(?:      (?!members).*\n)*      members: \[(.*?)\]"
        for name, members in re.findall(entry, page.read_text("utf-8"), re.M):
            for member in re.split(r",\s*", members.strip()):
                one = inspect.getattr_static(getattr(nw, name), member)
                assert inspect.getdoc(getattr(one, "__func__", one)), f"{name}.{member} says nothing"
