"""The best interval of a base distribution: the numbers on record, and a search that knows nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood import clipped_normal
from noisewise.online.interval import best_interval

ON_RECORD = {1: 0.0706, 2: 0.2234, 5: 0.7281, 10: 1.2244}


def information_of(low, high, epsilon):
    return clipped_normal.information(mean=0, sd=1, low=low, high=high, scale=(high - low) / epsilon)


@pytest.mark.parametrize("epsilon", ON_RECORD)
def test_the_best_intervals_for_the_mean_are_those_on_record(epsilon):
    found = best_interval("normal", guarantee=nw.PureDP(epsilon))
    assert found.high == pytest.approx(ON_RECORD[epsilon], abs=6e-5)
    assert found.low == pytest.approx(-ON_RECORD[epsilon], abs=6e-5)
    np.testing.assert_allclose(found.information, information_of(found.low, found.high, epsilon), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("epsilon", [1, 5, 10])
def test_the_harmonic_optimum_beats_every_interval_of_a_fine_grid(epsilon):
    found = best_interval("normal", guarantee=nw.PureDP(epsilon), score="harmonic")
    centre, half = (v.ravel() for v in np.meshgrid(np.linspace(0, 2, 13), np.geomspace(0.02, 3, 17)))
    each = np.diagonal(information_of(centre - half, centre + half, epsilon), axis1=-2, axis2=-1)
    grid = 1 / np.sum(1 / np.maximum(each, 1e-300), axis=-1)
    assert found.value >= grid.max() * (1 - 1e-9)
    assert found.value < grid.max() * 1.05


@pytest.mark.parametrize("base", [stats.logistic, stats.t(5)], ids=["logistic", "t"])
def test_other_bases_have_an_optimum_that_no_neighbour_beats(base):
    found = best_interval(base, guarantee=nw.PureDP(2))
    assert found.low == pytest.approx(-found.high, abs=1e-3)
    population = nw.LocationScale(base, loc=stats.norm(0, 1), scale=stats.lognorm(1))
    from noisewise.online.answer_information import answer_information

    def of(low, high):
        query = nw.Query.clip(low, high, guarantee=nw.PureDP(2))
        return answer_information(population, query, {"loc": 0.0, "scale": 1.0})[0, 0]

    best = of(found.low, found.high)
    for low, high in ((1.2, 1.2), (0.8, 0.8), (1.2, 0.8)):
        assert of(found.low * low, found.high * high) < best * (1 + 1e-9)


def test_gaussian_noise_has_an_optimum_too_and_bad_requests_are_refused():
    found = best_interval("normal", guarantee=nw.GaussianDP(1))
    assert 0 < found.high < 3
    assert found.low == pytest.approx(-found.high, abs=1e-3)
    with pytest.raises(InvalidArgument, match="score"):
        best_interval("normal", guarantee=nw.PureDP(1), score="nonsense")
    with pytest.raises(Unsupported):
        best_interval(stats.gennorm(1.5), guarantee=nw.PureDP(1))


@pytest.mark.parametrize("score", ["location", "harmonic"])
@pytest.mark.parametrize("epsilon", [1, 5])
def test_mirrored_bases_have_mirrored_optima(epsilon, score):
    right, left = (
        best_interval(base, guarantee=nw.PureDP(epsilon), score=score) for base in (stats.gumbel_r, stats.gumbel_l)
    )
    assert right.value == pytest.approx(left.value, rel=1e-6)
    assert (right.low, right.high) == pytest.approx((-left.high, -left.low), abs=1e-3)
