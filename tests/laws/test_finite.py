"""Small laws are exact: every ratio is enumerated with Fractions and compared with e^epsilon (promise A4)."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from noisewise.errors import InvalidArgument
from noisewise.laws.finite import (
    FiniteLaw,
    RandomizedResponse,
    adjacent,
    all_pairs,
    at_most_exp,
    exp_lower,
    exp_upper,
    largest_ratio,
    randomized_response,
    satisfies,
    truncated_geometric,
)

EPSILONS = [Fraction(1, 100), Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(2), Fraction(5), Fraction(20)]


def brute_force_keeps(rows, pairs, epsilon):
    """Every entry against every neighbour's, e^epsilon to 400 digits; it shares no code with the library."""
    with mp.workdps(400):
        bound = mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator)
        return all(
            mp.mpf(p.numerator) * q.denominator <= bound * q.numerator * p.denominator
            for i, j in pairs
            for first, second in ((i, j), (j, i))
            for p, q in zip(rows[first], rows[second], strict=True)
        )


@pytest.mark.parametrize("cells", range(2, 11))
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_keeps_epsilon_exactly_and_wastes_almost_none(cells, epsilon):
    law = randomized_response(cells, epsilon)
    rows, pairs = law.rows(), all_pairs(cells)
    assert all(sum(row) == 1 for row in rows)
    assert brute_force_keeps(rows, pairs, epsilon)
    assert satisfies(rows, pairs, epsilon)
    assert not satisfies(rows, pairs, epsilon * (1 - Fraction(1, 10**9)))
    assert largest_ratio(rows, pairs) == law.keep * (cells - 1) / (1 - law.keep)
    assert math.lcm(*(p.denominator for row in rows for p in row)) <= 2**64


@pytest.mark.parametrize("cells", range(3, 11))
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_an_off_by_one_in_randomized_response_is_caught(cells, epsilon):
    """Planted: keep = E/(E + cells - 2), as if one cell fewer shared the rest; and the rest divided by cells."""
    odds = exp_lower(epsilon)
    wrong = RandomizedResponse(keep=odds / (odds + cells - 2), cells=cells)
    assert not satisfies(wrong.rows(), all_pairs(cells), epsilon)
    keep = odds / (odds + cells - 1)
    share = (1 - keep) / cells
    rows = [[keep + share if i == j == 0 else keep if i == j else share for j in range(cells)] for i in range(cells)]
    with pytest.raises(InvalidArgument, match="sum to exactly 1"):
        satisfies(rows, all_pairs(cells), epsilon)
    assert not at_most_exp(Fraction(largest_ratio(rows, all_pairs(cells))), epsilon)


@pytest.mark.parametrize("size", range(2, 11))
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_truncated_geometric_mechanism_keeps_epsilon_exactly(size, epsilon):
    rows = truncated_geometric(size, epsilon)
    assert all(sum(row) == 1 for row in rows)
    assert brute_force_keeps(rows, adjacent(size), epsilon)
    assert satisfies(rows, adjacent(size), epsilon)
    assert not satisfies(rows, adjacent(size), epsilon * (1 - Fraction(1, 10**8)))
    if size > 2:
        assert not satisfies(rows, all_pairs(size), epsilon), "values two apart are not neighbours"
        # Planted: tails cut and rows renormalised instead of folded into the ends.
        powers = [[exp_upper(-epsilon) ** abs(i - j) for j in range(size)] for i in range(size)]
        assert not satisfies([[p / sum(row) for p in row] for row in powers], adjacent(size), epsilon)


def test_the_truncated_geometric_mechanism_is_the_geometric_law_with_folded_tails():
    size, epsilon = 5, Fraction(1)
    a = math.exp(-1)
    k = np.arange(-200, 201)
    pmf = (1 - a) / (1 + a) * a ** np.abs(k)
    for true, row in enumerate(truncated_geometric(size, epsilon)):
        folded = np.bincount(np.clip(true + k, 0, size - 1), weights=pmf, minlength=size)
        np.testing.assert_allclose([float(p) for p in row], folded, rtol=1e-8)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 10**30), Fraction(60), Fraction(10**50)])
@pytest.mark.parametrize("cells", [2, 3, 1000])
def test_extreme_epsilons_still_give_short_exact_probabilities(cells, epsilon):
    law = randomized_response(cells, epsilon)
    assert Fraction(1, cells) <= law.keep < 1
    assert math.lcm(law.keep.denominator, law.other.denominator) <= 2**64
    assert at_most_exp(law.keep / law.other, min(epsilon, Fraction(1000)))


@pytest.mark.parametrize("bits", [20, 96, 700])
@pytest.mark.parametrize(
    "x", [Fraction(x) for x in ("0", "1", "-1", "1/1000", "-7/3", "20", "-500", "500", "1e-40", "99999/7")]
)
def test_e_to_the_x_is_enclosed_as_tightly_as_asked(x, bits):
    low, high = exp_lower(x, bits), exp_upper(x, bits)
    with mp.workprec(3 * bits + 400):
        true = mp.exp(mp.mpf(x.numerator) / x.denominator)
        assert mp.mpf(low.numerator) / low.denominator <= true <= mp.mpf(high.numerator) / high.denominator
    assert high - low <= low / 2**bits
    assert (low == high) == (x == 0)


def test_comparisons_with_e_to_the_epsilon_are_decided_however_close():
    near_below, near_above = exp_lower(Fraction(1), 2000), exp_upper(Fraction(1), 2000)
    assert at_most_exp(near_below, Fraction(1))
    assert not at_most_exp(near_above, Fraction(1))
    assert at_most_exp(Fraction(1), Fraction(0))
    assert not at_most_exp(Fraction(10**30 + 1, 10**30), Fraction(0))


def test_a_zero_beside_a_positive_entry_has_no_finite_ratio():
    rows = [[Fraction(1, 2), Fraction(1, 2), Fraction(0)], [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]]
    assert largest_ratio(rows, [(0, 1)]) == math.inf
    assert not satisfies(rows, [(0, 1)], Fraction(100))
    assert largest_ratio(rows, []) == 1
    shared = [[Fraction(1, 3), Fraction(2, 3), Fraction(0)], [Fraction(1, 2), Fraction(1, 2), Fraction(0)]]
    assert largest_ratio(shared, [(1, 0)]) == Fraction(3, 2)
    with pytest.raises(InvalidArgument, match="negative"):
        largest_ratio([[Fraction(-1), Fraction(2)]], [])


def test_finite_laws_score_their_exact_rows():
    tiny = Fraction(1, 10**400)
    law = FiniteLaw(((tiny, 1 - tiny, Fraction(0)), (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))), (0.0, 0.5, 1.0))
    scores = law.log_pmf([0, 1, 2, 2], [0, 0, 0, 1])
    np.testing.assert_allclose(scores, [-400 * math.log(10), 0.0, -math.inf, -math.log(2)], rtol=1e-14)
    response = RandomizedResponse(Fraction(1901, 4000), 4)
    expected = [[math.log(p) for p in row] for row in response.rows()]
    np.testing.assert_allclose(response.log_pmf(np.arange(4)[None, :], np.arange(4)[:, None]), expected, rtol=1e-14)


@pytest.mark.parametrize("wrong", [-1, 4, 0.5, True])
def test_indices_outside_a_finite_law_are_refused(wrong):
    with pytest.raises(InvalidArgument, match="answer"):
        RandomizedResponse(Fraction(1, 2), 4).log_pmf(wrong, 0)
    with pytest.raises(InvalidArgument, match="output"):
        FiniteLaw(((Fraction(1, 4),) * 4,), (0, 1, 2, 3)).log_pmf(wrong, 0)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, None, True, "", 10**400])
def test_bad_epsilons_are_refused_by_name(epsilon):
    for build in (randomized_response, truncated_geometric):
        with pytest.raises(InvalidArgument) as refused:
            build(3, epsilon)
        assert refused.value.argument == "epsilon"


@pytest.mark.parametrize("count", [1, 0, -3, 2.0, True, None, 10**400])
def test_bad_sizes_are_refused_by_name(count):
    with pytest.raises(InvalidArgument, match="cells"):
        randomized_response(count, Fraction(1))
    if count != 10**400:
        with pytest.raises(InvalidArgument, match="size"):
            truncated_geometric(count, Fraction(1))


def test_rows_that_are_no_law_are_refused():
    half = Fraction(1, 2)
    for rows in (((half, half), (half, Fraction(1, 3))), ((half, half, 0),), ((-half, 3 * half),), (), ((),), "ab"):
        with pytest.raises(InvalidArgument) as refused:
            FiniteLaw(rows, (0.0, 1.0))
        assert refused.value.argument == "rows"
