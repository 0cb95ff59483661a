"""Bounded cost: whatever is planned, read or learnt from takes at most 20 seconds and 500 MB, or is refused first."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest
from hostile_inputs import LONG, MOST_MEGABYTES, MOST_SECONDS, QUICK, chained, measured, schema

import noisewise as nw
from noisewise.statistics import sensitivity
from noisewise.statistics.enclosure import feature_range

REFUSED = (
    "whole_numbers_of_five_thousand_digits_as_levels", "a_level_of_five_thousand_digits_in_a_feature",
    "a_bound_of_five_thousand_digits", "bounds_near_the_largest_double", "a_million_levels", "a_million_cells",
    "a_marginal_of_a_million_cells", "a_marginal_of_ten_to_the_hundred_cells", "a_power_of_a_million",
    "a_feature_that_doubles_sixty_times", "records_beyond_two_to_the_forty", "ten_thousand_features",
    "fourth_moments_of_sixty_features", "as_many_unknowns_as_cells", "noise_that_a_longer_search_cannot_show",
)  # fmt: skip


def check(name: str) -> None:
    what, seconds, megabytes = measured(name)
    assert seconds < MOST_SECONDS, (what, seconds)
    assert megabytes < MOST_MEGABYTES, (what, megabytes)
    assert (what != "made") == (name in REFUSED), what
    assert what == "made" or what.endswith("."), what


@pytest.mark.parametrize("name", QUICK)
def test_what_is_hostile_is_cheap_or_refused_in_a_sentence(name):
    check(name)


def equal_pairs(times: int) -> tuple[nw.Feature, nw.Feature]:
    """Two features of one shape, made apart, that share nothing but are each full of shared parts."""
    pair = []
    for _ in range(2):
        feature = nw.column("x")
        for k in range(times):
            feature = feature + feature.clip(-k, k + 1)
        pair.append(feature)
    return pair[0], pair[1]


def test_a_feature_is_hashed_once_and_compares_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = equal_pairs(9)
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != equal_pairs(8)[0]
    hashed = []
    monkeypatch.setattr(Fraction, "__hash__", lambda self: hashed.append(self) or 1)
    deep = nw.column("x") ** Fraction(1, 2)
    assert len(hashed) == 1, "the exponent is hashed where the feature is made"
    assert {deep: 1, deep + 1: 2}[deep] == 1
    assert len(hashed) == 1


def test_a_feature_too_large_or_too_deep_is_refused_where_it_is_made() -> None:
    feature = nw.column("x")
    for _ in range(10):
        feature = feature + feature
    with pytest.raises(nw.InvalidArgument, match="more than 4000 parts; simplify"):
        feature + feature * 2
    with pytest.raises(nw.InvalidArgument, match="operations deep; write long sums"):
        nw.statistic("mean(" + "+".join(["x"] * 300) + ")")


def test_the_search_spends_no_more_than_its_work_however_large_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls for small pieces count, too: they were most of what a search of large features cost."""
    work, calls = 2 * 10**7, []
    monkeypatch.setattr(sensitivity, "LARGEST_WORK", work)
    counted = sensitivity._BranchAndBound._values

    def values(self, low, high):
        calls.append((len(low) + sensitivity.CALL) * self.cost)
        return counted(self, low, high)

    monkeypatch.setattr(sensitivity._BranchAndBound, "_values", values)
    row = nw.statistic(f"mean({', '.join(chained(10, 6, seed) for seed in range(4))})").features
    sensitivity.joint_sensitivity(row, schema(6), norm=1, weights=[Fraction(1)] * len(row))
    assert sum(calls) < 1.3 * work


@pytest.mark.parametrize("count", [3, 500])
def test_levels_that_no_feature_names_are_all_alike(count: int) -> None:
    where = nw.Schema({"g": nw.Levels(list(range(count)))}, n=10, neighbours="change-one")
    feature = nw.column("g").equals(1) * 3 - nw.column("g").equals(2)
    assert feature_range(feature, where)[:2] == (-1.0, 3.0)
    assert nw.Mean(feature).sensitivity(where, weights=[1]).value == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_what_is_large_is_bounded_in_time_and_memory(name):
    check(name)
