"""Simulated people answer by the law of their query: the one that the survey scores and the holder's wing draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.online.simulate import simulated_answer

ALARM = 1e-6
CLIPPED = {
    "laplace": nw.Query.clip(-1, 3, guarantee=nw.PureDP(2), id="a"),
    "gaussian": nw.Query.clip(-1, 3, guarantee=nw.GaussianDP(1)),
}


@pytest.mark.parametrize("name", CLIPPED)
@pytest.mark.parametrize(("x", "clipped"), [(0.3, 0.3), (77.0, 3.0), (-5.0, -1.0)])
def test_a_clipped_answer_is_the_clipped_value_with_the_noise_of_its_law(name, x, clipped):
    query, rng = CLIPPED[name], np.random.default_rng(1)
    law = query.law
    answers = np.array([simulated_answer(rng, query, x).value for _ in range(2000)])
    noise = answers - np.floor(clipped / law.step[0] + 0.5)
    assert stats.kstest(law.cdf(noise), "uniform").pvalue > ALARM
    assert stats.kstest(law.cdf(1.5 * noise), "uniform").pvalue < ALARM  # half as much again would be seen


def test_an_answer_about_cells_tells_the_truth_as_often_as_it_should():
    query, rng = nw.Query.cells([0, 1, 5], guarantee=nw.PureDP(1)), np.random.default_rng(2)
    for x, true in ((-1.0, 0), (0.0, 1), (0.999, 1), (1.0, 2), (6.0, 3)):
        counts = np.bincount([simulated_answer(rng, query, x).value for _ in range(1500)], minlength=4)
        expected = 1500 * np.array(query.law.rows()[true], dtype=float)
        assert stats.chisquare(counts, expected).pvalue > ALARM
        assert stats.chisquare(counts, np.roll(expected, 1)).pvalue < ALARM


def test_the_answer_carries_the_query_it_answers():
    query = CLIPPED["laplace"]
    assert simulated_answer(np.random.default_rng(3), query, 0.0).query is query
