"""Schema: public facts are declared, checked and carried."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.schema import Bounded, Levels, Schema, schema_from_dict

GOOD = {"income": Bounded(0, 250), "region": Levels(["north", "south"])}
BAD_NUMBERS = [float("nan"), float("inf"), "", None, True, 1e308, 10**400]


@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_bad_bounds_are_refused_by_name(bad: object) -> None:
    with pytest.raises(InvalidArgument) as low:
        Bounded(bad, 1)
    with pytest.raises(InvalidArgument) as high:
        Bounded(0, bad)
    assert (low.value.argument, high.value.argument) == ("low", "high")


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, 1e31), (-1e31, 0)])
def test_empty_or_enormous_bounds_are_refused(low: float, high: float) -> None:
    with pytest.raises(InvalidArgument):
        Bounded(low, high)


@pytest.mark.parametrize("bad", [[], ["a"], ["a", "a"], ["1", 1], "ab", None, [1.5, 2.5], [True, False], [None, "a"]])
def test_bad_levels_are_refused(bad: object) -> None:
    with pytest.raises(InvalidArgument, match="levels"):
        Levels(bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "10", True, None, 2**60])
def test_bad_n_is_refused_by_name(bad: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Schema(GOOD, n=bad, neighbours="change-one")
    assert caught.value.argument == "n"


def test_neighbours_have_no_default_and_decide_between_n_and_n_max() -> None:
    with pytest.raises(InvalidArgument, match="neighbours='change-one'"):
        Schema(GOOD, n=10)
    with pytest.raises(InvalidArgument, match="n_max"):
        Schema(GOOD, n=10, neighbours="add-remove")
    with pytest.raises(InvalidArgument, match="give n="):
        Schema(GOOD, n_max=10, neighbours="change-one")
    with pytest.raises(InvalidArgument, match="neighbours"):
        Schema(GOOD, n=10, neighbours="nearby")


def test_missing_values_must_fit_their_column() -> None:
    with pytest.raises(InvalidArgument, match="outside the bounds"):
        Schema(GOOD, n=10, neighbours="change-one", missing={"income": 251})
    with pytest.raises(InvalidArgument, match="not one of the levels"):
        Schema(GOOD, n=10, neighbours="change-one", missing={"region": "west"})
    with pytest.raises(InvalidArgument, match="not a column"):
        Schema(GOOD, n=10, neighbours="change-one", missing={"age": 1})


def test_a_schema_is_a_value_that_round_trips() -> None:
    schema = Schema(GOOD, n=10, neighbours="change-one", outside="refuse", missing={"income": 3})
    assert schema_from_dict(schema.to_dict()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert hash(schema) == hash(schema_from_dict(schema.to_dict()))
    assert schema != Schema(GOOD, n=11, neighbours="change-one", outside="refuse", missing={"income": 3})


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"n": 1, "neighbours": "change-one"},
        {"n": 1, "columns": {"x": {"bounds": [0, 1]}}},
        {"n": 1, "neighbours": "change-one", "columns": {"x": {"bounds": [0]}}},
        {"n": 1, "neighbours": "change-one", "columns": {"x": {"bounds": [0, 1], "more": 1}}},
        {"n": 1, "neighbours": "change-one", "columns": {"x": {"bounds": [0, 1]}}, "extra": 1},
        {"n": 1, "neighbours": "change-one", "columns": {}},
    ],
)
def test_a_bad_plain_form_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        schema_from_dict(bad)


def test_parts_take_their_share_of_positions_under_change_one_only() -> None:
    change = Schema(GOOD, n=10, neighbours="change-one")
    sizes = [change.part_size((Fraction(k, 3), Fraction(k + 1, 3))).n for k in range(3)]
    assert sizes == [3, 3, 4]  # floor(10/3), floor(20/3) - 3, 10 - 6: disjoint and covering
    add = Schema(GOOD, n_max=10, neighbours="add-remove")
    assert add.part_size((Fraction(0), Fraction(1, 3))).n_max == 10
    with pytest.raises(InvalidArgument, match="holds no record"):
        change.part_size((Fraction(0), Fraction(1, 100)))


def test_asking_a_column_for_what_it_is_not_names_the_way_out() -> None:
    schema = Schema(GOOD, n=10, neighbours="change-one")
    with pytest.raises(Unsupported, match="equals"):
        schema.bounded("region")
    with pytest.raises(InvalidArgument, match="income, region"):
        schema.column("age")


# ---- units: captions ----


def test_a_unit_changes_nothing_but_what_is_shown() -> None:
    bare, told = Bounded(0, 250), Bounded(0, 250, unit="thousand EUR")
    assert bare == told
    assert hash(bare) == hash(told)
    plain, captioned = (Schema({"income": column}, n=10, neighbours="change-one") for column in (bare, told))
    assert plain == captioned
    assert hash(plain) == hash(captioned)
    requests = {nw.plan(nw.Mean("income"), one, guarantee=nw.PureDP(1)).request() for one in (plain, captioned)}
    assert len(requests) == 1  # the same request, the same price, the same stored release
    assert repr(told) == "Bounded(0, 250, unit='thousand EUR')"
    assert captioned.units == {"income": "thousand EUR"}
    assert captioned.part_size((Fraction(0), Fraction(1, 2))).units == captioned.units
    assert pickle.loads(pickle.dumps(captioned)).units == captioned.units
    assert schema_from_dict(captioned.captioned()).units == captioned.units
    assert plain.captioned() == plain.to_dict() == captioned.to_dict()


@pytest.mark.parametrize("bad", ["", " ", "x" * 41, "EUR\n", "a\x1b[31m", "\u202e", 5, True, ["EUR"]])
def test_a_unit_is_a_short_printable_text(bad: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Bounded(0, 1, unit=bad)
    assert caught.value.argument == "unit"
    with pytest.raises(InvalidArgument):
        schema_from_dict({"n": 3, "neighbours": "change-one", "columns": {"x": {"bounds": [0, 1], "unit": bad}}})


def test_levels_have_no_unit() -> None:
    with pytest.raises(InvalidArgument, match="unit"):
        schema_from_dict({"n": 3, "neighbours": "change-one", "columns": {"x": {"levels": ["a", "b"], "unit": "EUR"}}})


def test_near_misses_in_a_schema_are_told_what_was_meant() -> None:
    schema = Schema(GOOD, n=10, neighbours="change-one")
    with pytest.raises(InvalidArgument, match="did you mean 'income'"):
        schema.column("incme")
    with pytest.raises(InvalidArgument, match="did you mean 'neighbours'"):
        schema_from_dict({"n": 3, "neighbors": "change-one", "columns": {"x": {"bounds": [0, 1]}}})
    with pytest.raises(InvalidArgument, match="did you mean 'change-one'"):
        Schema(GOOD, n=10, neighbours="change_one")
    with pytest.raises(InvalidArgument, match="did you mean 'bounds'"):
        schema_from_dict({"n": 3, "neighbours": "change-one", "columns": {"x": {"bound": [0, 1]}}})
