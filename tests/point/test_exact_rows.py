"""Repair: any nearly private matrix becomes one that is private by arithmetic, and hardly another."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewise.laws.finite import adjacent, satisfies, truncated_geometric
from noisewise.point.exact_rows import exact_rows

Matrix = list[list[float]]
GRAPHS = {"path": adjacent(5), "complete": list(combinations(range(5), 2)), "star": [(0, s) for s in range(1, 5)]}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=5, max_size=5),
    st.sampled_from(sorted(GRAPHS)),
    st.fractions(Fraction(1, 1000), 30, max_denominator=1000),
    st.integers(0, 2),
)
def test_whatever_comes_in_what_comes_out_is_private(
    entries: Matrix, graph: str, epsilon: Fraction, spare: int
) -> None:
    matrix = np.array(entries) + 1e-3
    rows = exact_rows(matrix / matrix.sum(axis=1, keepdims=True), GRAPHS[graph], epsilon, spare=spare).rows
    assert satisfies(rows, GRAPHS[graph], epsilon)
    assert all(sum(row) == 1 for row in rows)


@pytest.mark.parametrize("epsilon", ["1/1000000000", "1/100", "1", "50", "900"])
def test_a_private_matrix_is_left_as_it_is(epsilon: str) -> None:
    size, limit = 9, Fraction(epsilon)
    exact = truncated_geometric(size, limit)
    rows = exact_rows(np.array(exact, dtype=float), adjacent(size), limit, spare=4).rows
    # What is left over is rounding, divided by e^epsilon - 1 to be private itself.
    allowed = 1e-15 * max(1.0, 1 / float(limit))
    assert np.max(np.abs(np.array(rows, dtype=float) - np.array(exact, dtype=float))) <= 20 * allowed


def test_zeros_beside_positive_entries_are_filled() -> None:
    rows = exact_rows(np.array([[1.0, 0.0], [1 - 1e-9, 1e-9]]), [(0, 1)], Fraction(1), spare=0).rows
    assert min(p for row in rows for p in row) > 0
    assert float(rows[0][1]) == pytest.approx(1e-9 / np.e, rel=1e-6)
