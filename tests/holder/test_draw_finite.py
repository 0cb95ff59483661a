"""Draws among finitely many: answers from their rows, places by weights e^-x, exactly (A1b, B2)."""

import math
import os
import secrets
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from goodness_of_fit import rejects, sample_size

from noisewise.errors import InvalidArgument
from noisewise.holder import draw
from noisewise.laws.finite import FiniteLaw, RandomizedResponse, randomized_response

# ---- finite laws ----


def counts_of(law, true, n, cells):
    return np.bincount(draw.answers(law, np.full(n, true)), minlength=cells)


@pytest.mark.parametrize("cells", [2, 3, 4, 9])
def test_randomized_responses_follow_their_rows_and_an_off_by_one_is_rejected(cells):
    law = randomized_response(cells, Fraction(1))
    odds = law.keep / law.other
    keep = odds / (odds + cells)  # planted: cells where cells - 1 belongs
    planted = RandomizedResponse(keep, cells)
    for true in {0, cells - 1}:
        row, wrong = (np.array([float(p) for p in rows[true]]) for rows in (law.rows(), planted.rows()))
        counts = counts_of(law, true, sample_size(row, [wrong]), cells)
        assert not rejects(counts, row)
        assert rejects(counts, wrong)


FINE = Fraction(2**64 - 3, 2**65)
LONG = Fraction(10**30 + 7, 10**31 + 9)
ROWS = {
    "halves": (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)),
    "zeros": (Fraction(0), Fraction(3, 5), Fraction(0), Fraction(2, 5), Fraction(0)),
    "64 bits": (FINE * 2, Fraction(3, 2**64), Fraction(0)),
    "65 bits": (FINE, 1 - FINE),
    "long": (LONG, 1 - LONG),
}


@pytest.mark.parametrize("name", ["halves", "zeros", "65 bits", "long"])
def test_finite_answers_and_single_rows_follow_their_probabilities(name):
    row = ROWS[name]
    cells = len(row)
    law = FiniteLaw((row, row[::-1]), tuple(range(cells)))
    support = np.array([float(p) for p in row]) > 0
    true = np.array([float(p) for p in row])[support]
    tilted = true * np.linspace(0.9, 1.1, true.size)
    n = sample_size(true, [tilted / tilted.sum()])
    for counts in (
        counts_of(law, 0, n, cells),
        counts_of(law, 1, n, cells)[::-1],
        np.bincount([draw.from_row(row) for _ in range(n)], minlength=cells),
    ):
        assert counts[~support].sum() == 0
        assert not rejects(counts[support], true)
        assert rejects(counts[support], tilted / tilted.sum())


def test_answers_keep_the_shape_and_the_order_of_the_question():
    certain = FiniteLaw(tuple(tuple(Fraction(int(i == j)) for j in range(3)) for i in (2, 0, 1)), (0, 1, 2))
    true = np.array([[0, 1, 2], [2, 1, 0]])
    assert draw.answers(certain, true).tolist() == [[2, 0, 1], [1, 0, 2]]
    assert draw.answers(certain, np.array([], dtype=int)).size == 0


def test_one_draw_from_a_row_is_exact_by_enumeration(monkeypatch):
    for row in (ROWS["halves"], ROWS["zeros"], (Fraction(1, 7), Fraction(2, 5), Fraction(16, 35))):
        unit = math.lcm(*(p.denominator for p in row))
        counts = [0] * len(row)
        for integer in range(unit):
            monkeypatch.setattr(draw.secrets, "randbelow", lambda _, value=integer: value)
            counts[draw.from_row(row)] += 1
        assert [Fraction(count, unit) for count in counts] == list(row)


def test_many_draws_are_exact_by_enumeration(monkeypatch):
    """Every 64-bit word pattern that matters, once: accepted words hit each index exactly as often as its numerator."""
    row = (Fraction(5, 37), Fraction(0), Fraction(30, 37), Fraction(2, 37))
    words = iter([*range(64), *range(37)])  # 37..63 are rejected and replaced; upper bits are masked away

    def every_word(size):
        return b"".join(
            (next(words) + (secrets.randbits(50) << 6)).to_bytes(8, sys.byteorder) for _ in range(size // 8)
        )

    monkeypatch.setattr(draw.secrets, "token_bytes", every_word)
    drawn = draw.answers(FiniteLaw((row,), (0, 1, 2, 3)), np.zeros(64, dtype=int))
    # 64 words give 37 indices, each integer below 37 once; the next 27 words are 0..26.
    assert np.bincount(drawn[:37], minlength=4).tolist() == [5, 0, 30, 2]
    assert np.bincount(drawn[37:], minlength=4).tolist() == [5, 0, 22, 0]


def test_the_finest_vectorised_denominator_is_not_rounded(monkeypatch):
    law = FiniteLaw((ROWS["64 bits"],), (0, 1, 2))
    words = [0, 2**64 - 4, 2**64 - 3, 2**64 - 1]
    monkeypatch.setattr(draw.secrets, "token_bytes", lambda _: np.array(words, dtype=np.uint64).tobytes())
    assert draw.answers(law, np.zeros(4, dtype=int)).tolist() == [0, 0, 1, 1]


# ---- e^-x weights ----


def test_a_weighted_index_is_where_a_known_uniform_falls(monkeypatch):
    """The bits are recorded and inverted again with 600-digit arithmetic: the index must agree every time."""
    recorded = []

    def record(size):
        recorded.append(os.urandom(size))
        return recorded[-1]

    monkeypatch.setattr(draw.secrets, "token_bytes", record)
    for case in range(300):
        size = 1 + case % 40
        lengths = [secrets.randbelow(2 ** (case % 61)) for _ in range(size)] + [1]
        exponents = [Fraction(secrets.randbelow(10**6), 10 ** (2 + case % 4)) for _ in range(size + 1)]
        recorded.clear()
        index = draw.weighted_index(lengths, exponents)
        with mp.workdps(600):
            known = b"".join(recorded)
            u = mp.mpf(int.from_bytes(known, "big")) / mp.mpf(2) ** (8 * len(known))
            weights = [
                n * mp.exp(-mp.mpf(x.numerator) / x.denominator) for n, x in zip(lengths, exponents, strict=True)
            ]
            below = mp.fsum(weights[:index]) / mp.fsum(weights)
            assert below <= u < below + weights[index] / mp.fsum(weights)


@pytest.mark.parametrize("exponent", [1, 50, 500, 900])
def test_a_weight_of_e_to_minus_500_has_its_chance_and_no_more(monkeypatch, exponent):
    """A uniform just below e^-x/(1 + e^-x) gives the rare index, one just above it the common one."""
    for factor, index in (("1e-5", 0), ("0.9999999999", 0), ("1.0000000001", 1), ("2", 1)):
        with mp.workdps(900):
            u = mp.exp(-exponent) / (1 + mp.exp(-exponent)) * mp.mpf(factor)
            bits = int(mp.floor(u * mp.mpf(2) ** 2560)) if u < 1 else 2**2560 - 1
        blocks = iter([bits.to_bytes(320, "big")[start : start + 64] for start in range(0, 320, 64)])
        monkeypatch.setattr(draw.secrets, "token_bytes", lambda _, blocks=blocks: next(blocks))
        assert draw.weighted_index([1, 1], [Fraction(exponent), Fraction(0)]) == index


def test_weighted_indices_follow_their_weights():
    lengths, exponents = [3, 0, 5, 2**40, 1], [Fraction(1), Fraction(0), Fraction(1, 2), Fraction(28), Fraction(0)]
    weights = np.array([n * math.exp(-x) for n, x in zip(lengths, exponents, strict=True)])
    tilted = weights * np.linspace(0.9, 1.1, 5)
    kept = weights > 0
    true, wrong = weights[kept] / weights.sum(), tilted[kept] / tilted.sum()
    n = sample_size(true, [wrong])
    counts = np.bincount([draw.weighted_index(lengths, exponents) for _ in range(n)], minlength=5)
    assert counts[1] == 0
    assert not rejects(counts[kept], true)
    assert rejects(counts[kept], wrong)


def test_thousands_of_weights_concentrate_where_they_should():
    # P(|index - 4000| > 300) is below e^-27 here, far under the false-alarm rate.
    drawn = draw.weighted_index([10**12] * 8000, [Fraction(abs(j - 4000), 10) for j in range(8000)])
    assert abs(drawn - 4000) <= 300


@pytest.mark.parametrize("exponent", [Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_a_trial_succeeds_with_probability_e_to_minus_the_exponent(exponent):
    true, *wrongs = (
        np.array([math.exp(-factor * float(exponent)), -math.expm1(-factor * float(exponent))])
        for factor in (1, 0.9, 1.1)
    )
    n = sample_size(true, wrongs)
    successes = sum(draw.bernoulli_exp(exponent) for _ in range(n))
    counts = np.array([successes, n - successes])
    assert not rejects(counts, true)
    assert all(rejects(counts, wrong) for wrong in wrongs)


def test_trials_at_the_ends_are_certain_and_a_negative_exponent_is_refused():
    assert all(draw.bernoulli_exp(Fraction(0)) for _ in range(100))
    assert not any(draw.bernoulli_exp(Fraction(1000)) for _ in range(100))
    with pytest.raises(InvalidArgument, match="exponent"):
        draw.bernoulli_exp(Fraction(-1, 2))


def test_whole_numbers_below_a_bound_are_uniform():
    uniform, tilted = np.full(7, 1 / 7), np.linspace(0.9, 1.1, 7) / 7
    counts = np.bincount([draw.uniform_below(7) for _ in range(sample_size(uniform, [tilted]))], minlength=7)
    assert not rejects(counts, uniform)
    assert rejects(counts, tilted)
