"""Bounded cost: whatever is planned, read or learnt from takes at most 20 seconds and 500 MB, or is refused first."""

from __future__ import annotations

import pytest
from hostile_inputs import LONG, MOST_MEGABYTES, MOST_SECONDS, QUICK, measured

REFUSED = (
    "whole_numbers_of_five_thousand_digits_as_levels", "a_level_of_five_thousand_digits_in_a_feature",
    "a_bound_of_five_thousand_digits", "bounds_near_the_largest_double", "a_million_levels", "a_million_cells",
    "a_marginal_of_a_million_cells", "a_marginal_of_ten_to_the_hundred_cells", "a_power_of_a_million",
    "a_feature_that_doubles_sixty_times", "records_beyond_two_to_the_forty", "ten_thousand_features",
    "fourth_moments_of_sixty_features", "as_many_unknowns_as_cells",
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


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_what_is_large_is_bounded_in_time_and_memory(name):
    check(name)
