"""Newcomers' first mistakes. Each story is one that people live through; the message must tell them the way out.

A test here reads what a person would read. If a message is reworded, its fix must still be in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import noisewise as nw
from noisewise.errors import NoisewiseError
from noisewise.report.words import describe_release

COLUMNS = {"income": nw.Bounded(0, 250), "region": nw.Levels(["north", "south"])}
PEOPLE = pd.DataFrame({"income": [10.0, 20.0, 30.0, 45.5], "region": ["north", "south", "south", "north"]})
income = nw.column("income")


def schema(**changes: Any) -> nw.Schema:
    return nw.Schema(COLUMNS, **({"n": 4, "neighbours": "change-one"} | changes))


def told(act: Any) -> str:
    """What a newcomer reads."""
    with pytest.raises(NoisewiseError) as caught:
        act()
    return str(caught.value)


def mean(epsilon: object = 1, **options: Any) -> nw.Plan:
    return nw.plan(nw.Mean(income), schema(), guarantee=nw.PureDP(epsilon), **options)


@pytest.fixture
def ledger(tmp_path: Path) -> nw.Ledger:
    return nw.Ledger.open(tmp_path / "people.ledger", nw.PureDP(1))


# ---- describing the records ----


def test_i_forgot_to_say_what_neighbours_are() -> None:
    message = told(lambda: nw.Schema(COLUMNS, n=4))
    assert "neighbours='change-one'" in message
    assert "'add-remove'" in message
    assert "'change-one' or 'add-remove'" in told(lambda: schema(neighbours="changeone"))


def test_i_gave_n_where_the_number_is_private() -> None:
    assert "n_max" in told(lambda: schema(neighbours="add-remove"))
    assert "give n=" in told(lambda: nw.Schema(COLUMNS, neighbours="change-one"))


def test_i_swapped_the_bounds() -> None:
    message = told(lambda: nw.Bounded(250, 0))
    assert "low must be less than high" in message
    assert "250" in message


def test_i_wrote_bounds_as_a_pair() -> None:
    message = told(lambda: nw.Schema({"income": (0, 250)}, n=4, neighbours="change-one"))  # type: ignore[dict-item]
    assert "Bounded(lo, hi)" in message
    assert "income" in message


def test_i_misspelled_a_column_in_the_statistic() -> None:
    message = told(lambda: nw.plan(nw.Mean("incone"), schema(), guarantee=nw.PureDP(1)))
    assert "'incone'" in message
    assert "income, region" in message


def test_i_misspelled_a_column_in_the_schema() -> None:
    wrong = nw.Schema({"incone": nw.Bounded(0, 250)}, n=4, neighbours="change-one")
    message = told(lambda: nw.Table.read(PEOPLE, wrong))
    assert "'incone' is not in the pandas frame" in message
    assert "letter by letter" in message
    # The frame's own names are not told: the first line of a file without a header is a record.
    assert "income" not in message


def test_my_file_has_another_number_of_records() -> None:
    message = told(lambda: nw.Table.read(PEOPLE, schema(n=5)))
    assert "n = 5" in message
    assert "Correct n" in message


def test_my_file_has_a_region_i_forgot() -> None:
    message = told(lambda: nw.Table.read(PEOPLE.assign(region="east"), schema()))
    assert "'region'" in message
    assert "list every level" in message
    assert "east" not in message


def test_my_file_has_holes() -> None:
    holes = PEOPLE.assign(income=[None, 20.0, 30.0, 45.5])
    message = told(lambda: nw.Table.read(holes, schema()))
    assert "declare missing={'income': value}" in message
    assert nw.Table.read(holes, schema(missing={"income": 50}))


def test_some_values_are_outside_and_i_asked_to_refuse_them() -> None:
    message = told(lambda: nw.Table.read(PEOPLE.assign(income=300.0), schema(outside="refuse")))
    assert "outside='clamp'" in message
    assert "wider bounds" in message


# ---- asking for a release ----


@pytest.mark.parametrize("epsilon", ["10%", "1,5", "one", "", None, [1], True])
def test_i_wrote_epsilon_as_people_speak(epsilon: Any) -> None:
    message = told(lambda: nw.PureDP(epsilon))
    assert "epsilon" in message
    assert "0.5" in message
    assert "Nothing was spent" in message


def test_i_asked_for_no_noise_at_all() -> None:
    assert "greater than 0" in told(lambda: nw.PureDP(0))
    assert "finite" in told(lambda: nw.PureDP(float("inf")))


def test_i_gave_a_number_for_the_guarantee() -> None:
    message = told(lambda: nw.plan(nw.Mean(income), schema(), guarantee=1))  # type: ignore[arg-type]
    assert "PureDP(epsilon)" in message


def test_i_took_the_mean_of_a_category() -> None:
    message = told(lambda: nw.plan(nw.Mean("region"), schema(), guarantee=nw.PureDP(1)))
    assert "equals(level)" in message


def test_i_counted_a_column_instead_of_a_condition() -> None:
    message = told(lambda: nw.Count(income))
    assert "between(low, high)" in message


def test_i_compared_features_like_numbers() -> None:
    with pytest.raises(TypeError, match="between"):
        bool(income)


def test_i_wanted_gaussian_noise_for_pure_privacy() -> None:
    message = told(lambda: mean(mechanism="gaussian"))
    assert "laplace" in message
    assert "GaussianDP" in message


def test_i_wanted_the_median_with_a_private_number_of_records() -> None:
    private = nw.Schema(COLUMNS, n_max=10, neighbours="add-remove")
    message = told(lambda: nw.plan(nw.Median(income), private, guarantee=nw.PureDP(1)))
    assert "change-one" in message


def test_i_wanted_a_histogram_of_numbers_without_edges() -> None:
    assert "edges=[...]" in told(lambda: nw.plan(nw.Histogram("income"), schema(), guarantee=nw.PureDP(1)))


def test_i_wrote_a_statistic_that_does_not_exist() -> None:
    message = told(lambda: nw.statistic("average(income)"))
    assert "'average'" in message
    assert "mean" in message


# ---- paying ----


def test_i_opened_a_ledger_without_a_limit(tmp_path: Path) -> None:
    message = told(lambda: nw.Ledger.open(tmp_path / "new.ledger"))
    assert "limit=" in message
    assert not (tmp_path / "new.ledger").exists()


def test_i_spent_everything_and_ask_again(ledger: nw.Ledger) -> None:
    table = nw.Table.read(PEOPLE, schema())
    nw.make_release(table, mean("0.75"), ledger=ledger)
    message = told(lambda: nw.make_release(table, mean("0.5"), ledger=ledger))
    assert "0.25 of 1 remains" in message
    assert "epsilon <= 0.25" in message
    assert "Nothing was spent" in message
    nw.make_release(table, mean("0.25"), ledger=ledger)
    assert "Open a new ledger" in told(lambda: nw.make_release(table, mean("0.1"), ledger=ledger))


def test_i_run_my_script_twice(ledger: nw.Ledger) -> None:
    """No error at all: the second run gets the same release and pays nothing."""
    first = nw.make_release(nw.Table.read(PEOPLE, schema()), mean(), ledger=ledger)
    again = nw.make_release(nw.Table.read(PEOPLE, schema()), mean(), ledger=ledger)
    assert again == first
    assert len(ledger.releases()) == 1


def test_i_corrected_a_record_and_ask_again(ledger: nw.Ledger) -> None:
    nw.make_release(nw.Table.read(PEOPLE, schema()), mean("0.5"), ledger=ledger)
    corrected = nw.Table.read(PEOPLE.assign(income=[10.0, 20.0, 30.0, 46.0]), schema())
    message = told(lambda: nw.make_release(corrected, mean("0.25"), ledger=ledger))
    assert "ledger.replace_records()" in message
    ledger.replace_records()
    nw.make_release(corrected, mean("0.25"), ledger=ledger)
    assert ledger.spent() == nw.PureDP("0.75")


def test_i_reopened_the_ledger_with_a_larger_limit(ledger: nw.Ledger) -> None:
    message = told(lambda: nw.Ledger.open(ledger.path, nw.PureDP(10)))
    assert "epsilon = 1" in message
    assert "owner's consent" in message


def test_i_made_the_plan_before_i_changed_the_schema(ledger: nw.Ledger) -> None:
    table = nw.Table.read(PEOPLE, schema(outside="refuse"))
    assert "table.schema" in told(lambda: nw.make_release(table, mean(), ledger=ledger))


def test_i_swapped_table_and_plan(ledger: nw.Ledger) -> None:
    table = nw.Table.read(PEOPLE, schema())
    assert "table must be a Table" in told(lambda: nw.make_release(mean(), table, ledger=ledger))  # type: ignore[arg-type]


def test_i_have_two_budgets_of_different_kinds(ledger: nw.Ledger) -> None:
    table = nw.Table.read(PEOPLE, schema())
    gaussian = nw.plan(nw.Mean(income), schema(), guarantee=nw.GaussianDP(1))
    message = told(lambda: nw.make_release(table, gaussian, ledger=ledger))
    assert "epsilon = 1" in message or "PureDP" in message
    assert "Nothing was spent" in message


# ---- reading someone else's release ----


def test_i_read_a_release_of_someone_else_without_knowing_anything_about_it(ledger: nw.Ledger, tmp_path: Path) -> None:
    nw.make_release(nw.Table.read(PEOPLE, schema()), mean(), ledger=ledger).save(tmp_path / "theirs.json")
    release = nw.Release.load(tmp_path / "theirs.json")
    words = describe_release(release)
    for fact in ("mean(income)", "4 records", "epsilon = 1", "one record was replaced", "clamped", "noise sd"):
        assert fact in words
    assert release.labels == ("mean(income)",)
    assert "45.5" not in words


def test_their_file_was_cut_off_by_the_mail_programme(ledger: nw.Ledger, tmp_path: Path) -> None:
    path = tmp_path / "theirs.json"
    nw.make_release(nw.Table.read(PEOPLE, schema()), mean(), ledger=ledger).save(path)
    path.write_bytes(path.read_bytes()[:-40])
    message = told(lambda: nw.Release.load(path))
    assert "theirs.json" in message
    assert "Ask for it again" in message


def test_someone_rounded_the_numbers_in_their_file(ledger: nw.Ledger, tmp_path: Path) -> None:
    path = tmp_path / "theirs.json"
    release = nw.make_release(nw.Table.read(PEOPLE, schema()), mean(), ledger=ledger)
    path.write_text(release.to_bytes().decode().replace(str(release.value[0]), str(release.value[0] // 10)))
    message = told(lambda: nw.Release.load(path))
    assert "changed after it was made" in message
    assert "Ask for it again" in message


def test_their_file_is_from_a_newer_version(tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text('{"format": "noisewise-release/9"}')
    message = told(lambda: nw.Release.load(tmp_path / "new.json"))
    assert "noisewise-release/9" in message
    assert "newer Noisewise" in message


def test_i_opened_the_records_instead_of_the_release(tmp_path: Path) -> None:
    PEOPLE.to_csv(tmp_path / "people.csv")
    message = told(lambda: nw.Release.load(tmp_path / "people.csv"))
    assert "people.csv" in message
    assert "45.5" not in message
