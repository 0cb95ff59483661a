"""Sums of whole numbers by enumeration, far in the tail, and under noise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from noisewise.laws import DiscreteLaplace
from noisewise.likelihood import counts, integers


def test_sums_of_whole_numbers_by_enumeration_and_far_in_the_tail():
    log_pmf = np.log(np.array([[0.5, 0.2, 0.2, 0.1], [1e-8, 1e-3, 0.2, 0.799 - 1e-8]]))
    found = integers.sum_log_pmf(log_pmf, n=4)
    for k in range(2):
        direct = np.zeros(13)
        for x in product(range(4), repeat=4):
            direct[sum(x)] += np.exp(log_pmf[k, list(x)].sum())
        np.testing.assert_allclose(found[k], np.log(direct), rtol=1e-11)
    coin = np.log(np.array([[0.999, 0.001]]))
    tail = integers.sum_log_pmf(coin, n=300, centre=290)
    assert tail[0, 290] == pytest.approx(stats.binom.logpmf(290, 300, 0.001), rel=1e-11)
    noise = DiscreteLaplace(scale=(2.0,), step=(1.0,)).log_pmf(295 - np.arange(301))
    found = integers.log_likelihood(coin, noise, n=300, centre=100)
    assert found[0] == pytest.approx(counts.binomial_log_likelihood(0.001, noise)[0], rel=1e-10)


def test_a_release_beyond_the_largest_sum_still_sees_the_bulk():
    """The oracle convolves without a tilt: at either end noise of scale 20 reaches every sum of 5 counts up to 20."""
    p = stats.poisson(np.array([[0.05], [2.0], [15.0], [70.0]])).pmf(np.arange(21))
    p[:, -1] += 1 - p.sum(axis=1)
    for centre in (0.0, 100.0):
        log_noise = -np.abs(np.arange(101) - centre) / 20
        found = integers.log_likelihood(np.log(p), log_noise, n=5, centre=centre)
        sums = [np.convolve(np.convolve(np.convolve(row, row), np.convolve(row, row)), row) for row in p]
        assert found == pytest.approx(np.log(np.array(sums) @ np.exp(log_noise)), abs=1e-10)
