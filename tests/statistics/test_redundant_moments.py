"""Products that follow from others are not released: which, at which sensitivity, and that old files keep theirs."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import InvalidRelease
from noisewise.release import FORMAT, FORMAT_2, Release

COLUMNS = {
    "age": nw.Bounded(-1, 2),
    "smoker": nw.Levels(["no", "yes"]),
    "region": nw.Levels(["a", "b", "c"]),
    "ill": nw.Levels(["no", "yes"]),
    "cost": nw.Bounded(0, 1),
}
SMOKES, ILL = nw.column("smoker").equals("yes"), nw.column("ill").equals("yes")
IN_A, IN_B = nw.column("region").equals("a"), nw.column("region").equals("b")
RELATIONS = {"change-one": {"n": 6}, "add-remove": {"n_max": 6}}


def schema_of(neighbours="change-one", **size):
    return nw.Schema(COLUMNS, **(size or RELATIONS[neighbours]), neighbours=neighbours)


def labels(*arguments, **options):
    return [label[4:-1] for label in nw.Moments(*arguments, **options).labels(schema_of())]


def test_the_square_of_a_condition_is_left_out_where_its_sum_is_released():
    assert labels(["age", SMOKES], "cost") == [
        "age", "equals(smoker, 'yes')", "cost", "age**2", "age*equals(smoker, 'yes')", "age*cost",
        "equals(smoker, 'yes')*cost", "cost**2",
    ]  # fmt: skip
    squares = "equals(smoker, 'yes')**2"
    assert squares in labels(["age", SMOKES], ILL, intercept=False)  # no sums: the square is all there is
    assert squares not in labels(["age", SMOKES], ILL, centre={str(SMOKES): 0.2}, scale={str(SMOKES): 0.4})
    assert squares in labels(["age", SMOKES], ILL, shrink=2)
    assert squares in labels(["age", SMOKES], ILL, average=2)
    every = nw.Moments(["age", SMOKES], ILL).earlier
    assert f"sum({squares})" in every.labels(schema_of())


def test_the_square_of_a_response_follows_only_where_its_sum_is_released():
    square = "equals(ill, 'yes')**2"
    assert square not in labels(["age"], ILL)
    assert square in labels(["age"], ILL, parts=["xx", "yy"])
    assert "age**2" in labels([SMOKES], "age")


def test_levels_of_one_column_have_no_product_unless_they_are_centred():
    product = "equals(region, 'a')*equals(region, 'b')"
    assert product not in labels([IN_A, IN_B], "age")
    assert product not in labels([IN_A, IN_B], "age", intercept=False)
    assert product in labels([IN_A, IN_B], "age", centre={str(IN_A): 0.3})
    assert "equals(region, 'a')*equals(smoker, 'yes')" in labels([IN_A, SMOKES], "age")


def test_the_level_1_and_the_word_1_are_one_level():
    group = nw.column("group")
    numbered = nw.Schema({"group": nw.Levels([1, 2]), "cost": nw.Bounded(0, 1)}, n=6, neighbours="change-one")
    moments = nw.Moments([group.equals(1), group.equals("1")], "cost")
    assert "sum(equals(group, 1)*equals(group, '1'))" in moments.labels(numbered)


def test_intervals_that_meet_in_a_point_may_hold_at_once():
    age = nw.column("age")
    apart, meeting = [age.between(-1, 0), age.between(1, 2)], [age.between(-1, 0), age.between(0, 2)]
    assert len(labels(apart, ILL)) == len(labels(meeting, ILL)) - 1


@pytest.mark.parametrize("feature", [1 - SMOKES, 2 * SMOKES, SMOKES * IN_A, nw.column("age") > 1])
def test_whatever_takes_two_values_has_a_square_that_follows(feature):
    assert f"{feature}**2" not in labels([feature], "age")


@pytest.mark.parametrize("feature", [SMOKES + IN_A, SMOKES * nw.column("age"), nw.column("age")])
def test_whatever_takes_more_values_keeps_its_square(feature):
    made = nw.Moments([feature], ILL)
    assert (1, 1) in made.pairs(schema_of())


def records():
    """Every record on a grid: many ages, both sides of every condition, three regions."""
    ages, regions = np.linspace(-1, 2, 25), range(3)
    return list(itertools.product(ages, (0, 1), regions, (0, 1)))


def row_values(record):
    """A third, plain evaluation: the features of a record."""
    age, smoker, region, ill = record
    return [age, float(smoker == 1), float(region == 0), float(region == 1), float(ill == 1)]


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_no_neighbour_moves_what_is_released_by_more_than_declared(neighbours, norm, centred, intercept):
    options = {"centre": {str(SMOKES): 0.2, "age": 0.5}, "scale": {str(SMOKES): 0.4, "age": 1.5}} if centred else {}
    made = nw.Moments(["age", SMOKES, IN_A, IN_B], ILL, intercept=intercept, **options)
    schema = schema_of(neighbours)
    centre, scale = ([0.5, 0.2, 0, 0, 0], [1.5, 0.4, 1, 1, 1]) if centred else ([0] * 5, [1] * 5)
    rows = []
    for record in records():
        own = (np.array(row_values(record)) - centre) / scale
        w = np.concatenate([[1.0], own]) if intercept else own
        rows.append([w[a] * w[b] for a, b in made.pairs(schema)])
    found = made.sensitivity(schema, norm=norm)
    weighted = np.array(rows) * [float(weight) for weight in made.default_weights(schema)]
    if neighbours == "change-one":
        largest = max(np.linalg.norm(weighted - row, ord=norm, axis=1).max() for row in weighted)
    else:
        largest = np.linalg.norm(weighted, ord=norm, axis=1).max()
    assert largest <= float(found.value) * (1 + 1e-12)
    assert found.attained <= largest * 1.01  # records reach what it says they do; the grid of ages has gaps
    assert float(found.value) <= float(made.earlier.sensitivity(schema, norm=norm).value)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_what_is_left_out_follows_exactly_from_what_is_released(neighbours):
    schema = schema_of(neighbours)
    rng = np.random.default_rng()
    columns = {"age": rng.uniform(-1, 2, 6), "smoker": rng.integers(0, 2, 6), "region": rng.integers(0, 3, 6),
               "ill": rng.integers(0, 2, 6), "cost": rng.random(6)}  # fmt: skip
    made = nw.Moments(["age", SMOKES, IN_A, IN_B], ILL, centre={str(SMOKES): 0.2}, scale={str(SMOKES): 0.4})
    every = dict(zip(made.earlier.pairs(schema), made.earlier.value(columns, schema), strict=True))
    kept = dict(zip(made.pairs(schema), made.value(columns, schema), strict=True))
    assert kept == pytest.approx({pair: every[pair] for pair in kept})
    implied = made.implied(schema)
    assert {*implied} == {*every} - {*kept}
    assert {*implied} == {(2, 2), (3, 3), (4, 4), (5, 5), (3, 4)}
    for (a, b), (slope, constant) in implied.items():
        assert every[a, b] == pytest.approx(float(slope) * kept[0, b] + float(constant) * 6)


def released(statistic, tmp_path, name):
    schema = schema_of()
    table = nw.Table.read({"age": [0.0] * 6, "smoker": ["no", "yes"] * 3, "region": ["a", "b", "c"] * 2,
                           "ill": ["yes"] * 6, "cost": [0.5] * 6}, schema)  # fmt: skip
    made = nw.plan(statistic, schema, guarantee=nw.GaussianDP(1))
    return nw.make_release(table, made, ledger=nw.Ledger.open(tmp_path / name, limit=nw.GaussianDP(1)))


def test_a_file_lists_its_entries_and_old_files_keep_theirs_byte_for_byte(tmp_path):
    statistic = nw.Moments(["age", SMOKES], ILL)
    new, old = released(statistic, tmp_path, "new"), released(statistic.earlier, tmp_path, "old")
    assert new.format == FORMAT_2
    assert new.to_dict()["statistic"]["entries"] == [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3], [2, 3]]
    assert Release.from_bytes(new.to_bytes()) == new
    assert old.format == FORMAT
    assert "entries" not in old.to_dict()["statistic"]
    assert len(old.value) == len(new.value) + 2
    assert Release.from_bytes(old.to_bytes()).to_bytes() == old.to_bytes()
    assert nw.statistic(str(new.statistic)) == new.statistic
    assert str(old.statistic) == str(new.statistic)  # the words are the same
    assert old.statistic != new.statistic


def test_moments_of_numbers_are_written_as_before(tmp_path):
    statistic = nw.Moments(["age"], "cost")
    assert statistic.with_every_product() == statistic
    assert statistic.earlier is None
    assert "entries" not in statistic.to_dict()


@pytest.mark.parametrize(
    "entries", [[], [[0, 1]], [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3], [2, 2]], 3, [["a"]]]
)
def test_a_file_that_lists_other_entries_is_refused(tmp_path, entries):
    plain = released(nw.Moments(["age", SMOKES], ILL), tmp_path, "new").to_dict()
    plain["statistic"]["entries"] = entries
    from noisewise.noisy_value import digest as _digest

    plain["hash"] = _digest({key: value for key, value in plain.items() if key != "hash"})
    with pytest.raises(InvalidRelease):
        Release.from_bytes(json.dumps(plain).encode())


def test_what_an_earlier_version_sold_is_handed_out_for_the_same_words_and_costs_nothing(tmp_path):
    statistic = nw.Moments(["age", SMOKES], ILL)
    old = released(statistic.earlier, tmp_path, "ledger")
    again = released(statistic, tmp_path, "ledger")  # the limit is spent: another charge would be refused
    assert again.to_bytes() == old.to_bytes()
    with nw.Ledger.open(tmp_path / "ledger") as ledger:
        made = nw.plan(statistic, schema_of(), guarantee=nw.GaussianDP(1))
        assert ledger.bill([made]).items[0].free == "already paid"
        weighted = nw.plan(statistic, schema_of(), guarantee=nw.GaussianDP(1), weights=[1] * 7)
        assert not ledger.bill([weighted]).items[0].free  # other weights were never asked for
