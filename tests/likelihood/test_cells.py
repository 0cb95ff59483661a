"""Randomized response and finite channels, against enumeration in Fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import log, prod

import numpy as np
import pytest

from noisewise.errors import InvalidArgument
from noisewise.laws import RandomizedResponse
from noisewise.likelihood import cells


def test_likelihood_is_the_sum_over_every_assignment_of_true_cells():
    """All 3^5 true answers of five people, through the exact rows that the mechanism declares."""
    law = RandomizedResponse(keep=Fraction(3, 5), cells=3)
    rows, p = law.rows(), [Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)]
    answers = (0, 1, 1, 2, 1)
    total = sum(
        prod(p[t] * rows[t][a] for t, a in zip(truth, answers, strict=True)) for truth in product(range(3), repeat=5)
    )
    found = cells.log_likelihood([1, 3, 1], [[float(v) for v in p]], keep=0.6)
    assert found[0] == pytest.approx(log(total), rel=1e-13)
    by_rows = cells.log_likelihood(
        [1, 3, 1], [[float(v) for v in p]], channel=[[float(v) for v in row] for row in rows]
    )
    assert by_rows[0] == pytest.approx(log(total), rel=1e-13)
    np.testing.assert_allclose(cells.response_matrix(keep=0.6, cells=3), np.array(rows, dtype=float), rtol=1e-15)


@pytest.mark.parametrize("keep", [0.3, 0.9, 1.0])
def test_score_is_the_derivative_and_information_its_variance(keep):
    p, counts = np.array([0.1, 0.6, 0.3]), np.array([5, 0, 11])
    found = cells.score(counts, p[None], keep=keep)[0]
    for i in range(3):
        step = np.zeros(3)
        step[i] = 1e-6
        channel = cells.response_matrix(keep=keep, cells=3)
        up, down = (cells.log_likelihood(counts, (p + s * step)[None], channel=channel)[0] for s in (1, -1))
        assert found[i] == pytest.approx((up - down) / 2e-6, rel=1e-7)
    slopes = np.array([[0.3, -0.5, 0.2], [1.0, 0.0, -1.0]])
    q = cells.answer_probabilities(p, keep=keep)
    each = np.stack([slopes @ cells.score(np.eye(3)[j], p[None], keep=keep)[0] for j in range(3)])
    expected = np.einsum("j,jp,jq->pq", q, each, each)
    np.testing.assert_allclose(cells.information(p[None], slopes[None], keep=keep)[0], expected, rtol=1e-12)


def test_binary_information_is_the_known_formula():
    """n alpha^2/(tau (1 - tau)), alpha = (e^eps - 1)/(e^eps + 1) (Alparslan & Yildirim 2022, Example 4)."""
    theta, epsilon = 0.3, 1.2
    keep = np.exp(epsilon) / (1 + np.exp(epsilon))
    tau, alpha = theta * keep + (1 - theta) * (1 - keep), 2 * keep - 1
    found = cells.information([[1 - theta, theta]], [[[-1.0, 1.0]]], keep=keep)
    assert found[0, 0, 0] == pytest.approx(alpha**2 / (tau * (1 - tau)), rel=1e-13)


def test_limits_full_noise_tells_nothing_and_no_noise_is_the_multinomial():
    p = np.array([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]])
    blind = cells.log_likelihood([4, 5, 6], p, keep=1 / 3)
    assert blind[0] == pytest.approx(blind[1], rel=1e-14)
    clear = cells.log_likelihood([0, 5, 6], p, keep=1.0)
    np.testing.assert_allclose(clear, [5 * np.log(0.3) + 6 * np.log(0.5), 11 * np.log(0.5)])
    assert cells.log_likelihood([1, 5, 6], p, keep=1.0)[1] == -np.inf


def test_keep_and_channel_together_or_neither_are_refused():
    with pytest.raises(InvalidArgument):
        cells.log_likelihood([1, 2], [[0.5, 0.5]])
    with pytest.raises(InvalidArgument):
        cells.log_likelihood([1, 2], [[0.5, 0.5]], keep=0.7, channel=np.eye(2))
