"""Settings: what is typed is what a study reads, and a slip is one sentence that says what was wanted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from noisewise.errors import InvalidArgument
from noisewise_papers.setting import Setting, parse_assignments, read_settings, shown

SETTINGS = {
    "epsilon": Setting(float, 5.0, "privacy", above=0),
    "repeats": Setting(int, 100, "repeats", full=1000, at_least=2),
    "theta": Setting(float, (0.5, 1.0, 2.0), "true values", above=0),
    "y": Setting(float, None, "the value; null: its expectation"),
    "likelihood": Setting(str, "clt", "which law", choices=("clt", "auto")),
}


def read(given: dict[str, object], *, full: bool = False) -> dict[str, Any]:
    return read_settings(SETTINGS, given, full=full)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epsilon", "0.5", 0.5),
        ("epsilon", " 2e1 ", 20.0),
        ("repeats", "7", 7),
        ("theta", "1", (1.0,)),
        ("theta", "0.5, 3", (0.5, 3.0)),
        ("y", "null", None),
        ("y", "-1.25", -1.25),
        ("likelihood", "auto", "auto"),
    ],
)
def test_text_and_values_are_read_alike(name: str, text: str, value: object) -> None:
    assert read({name: text})[name] == read({name: value})[name] == value
    assert type(read({name: text})[name]) is type(value)


def test_what_is_not_given_has_its_default_or_its_value_at_full_scale() -> None:
    assert read({}) == {"epsilon": 5.0, "repeats": 100, "theta": (0.5, 1.0, 2.0), "y": None, "likelihood": "clt"}
    assert read({}, full=True)["repeats"] == 1000
    assert read({"repeats": "3"}, full=True)["repeats"] == 3


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("epsilon", bad) for bad in ("", "0", "-1", "nan", "inf", "1e999", "five", "1,2", True, None, [1.0])),
        *(("repeats", bad) for bad in ("1", "2.5", "many", "nan", False, None)),
        *(("theta", bad) for bad in ("", "1,,2", "1,-1", (), None, [True], "1;2")),
        *(("y", bad) for bad in ("nan", "none at all", "")),
        *(("likelihood", bad) for bad in ("exact", "", None)),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_setting(name: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name} = .*: expected ") as refused:
        read({name: bad})
    assert refused.value.argument == name


def test_inf_is_read_only_where_it_means_something() -> None:
    budget = Setting(float, (1.0,), "privacy; inf: none", above=0, may_be_infinite=True)
    assert budget.read("1, inf", "epsilon") == budget.read([1, math.inf], "epsilon") == (1.0, math.inf)
    for bad in ("-inf", "nan", "1,-inf"):
        with pytest.raises(InvalidArgument, match=r"a number above 0 \(or inf\)"):
            budget.read(bad, "epsilon")


def test_a_list_that_is_empty_by_default_may_be_null() -> None:
    values = Setting(float, (), "null: the study's own", above=0)
    assert values.read("null", "theta") == values.read(None, "theta") == values.read((), "theta") == ()
    assert values.read("1,2", "theta") == (1.0, 2.0)
    with pytest.raises(InvalidArgument, match="or null"):
        values.read("", "theta")
    assert shown(()) == "null"


def test_an_unknown_setting_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidArgument, match="'epsilom' is not a setting") as refused:
        read({"epsilom": "1"})
    assert all(name in str(refused.value) for name in SETTINGS)


def test_assignments_are_key_and_value() -> None:
    assert parse_assignments(["a=1", " b = x=y"]) == {"a": "1", "b": "x=y"}
    for bad in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(InvalidArgument):
            parse_assignments(bad)
