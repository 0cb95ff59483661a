"""A quantile of any rank under smooth sensitivity: its scale bounds every neighbour, and its file is format 2."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.laws import Form
from noisewise.privacy.smooth import smooth_scale

X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, 100)}, n=200, neighbours="change-one")
LEVELS = (0.0, 1.0, 3.0, 4.0)


def planned(q, mechanism, guarantee, schema=SCHEMA):
    return nw.plan(nw.Quantile(X, q), schema, guarantee=guarantee, mechanism=mechanism)


@pytest.mark.parametrize("beta", [0.05, 0.4, 2.0])
@pytest.mark.parametrize(("n", "q"), [(1, "0.5"), (3, "0.1"), (3, "0.7"), (4, "0.25"), (4, "0.9")])
def test_the_scale_bounds_the_move_of_every_neighbour_and_is_smooth(n, q, beta):
    """All data sets of four values, and all neighbours of each."""
    rank = nw.Quantile(X, q).rank(n)
    scale, value = {}, {}
    for records in itertools.product(LEVELS, repeat=n):
        ordered = np.sort(records)
        value[records] = ordered[rank - 1]
        scale[records] = smooth_scale(ordered, index=rank, low=0.0, high=4.0, beta=beta)
    for records, place, other in itertools.product(scale, range(n), LEVELS):
        neighbour = (*records[:place], other, *records[place + 1 :])
        assert abs(value[records] - value[neighbour]) <= scale[records] * (1 + 1e-12)
        assert scale[records] <= math.exp(beta) * scale[neighbour] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("mechanism", "guarantee"), [("smooth-cauchy", nw.PureDP(1)), ("smooth-laplace", nw.ApproxDP(1, "1e-6"))]
)
def test_it_is_released_in_format_2_read_back_and_learnt_from(mechanism, guarantee, tmp_path, rng):
    made = planned("0.75", mechanism, guarantee)
    table = nw.Table.read({"x": rng.normal(50, 10, 200).clip(0, 100)}, SCHEMA)
    ledger = nw.Ledger.open(tmp_path / "q.ledger", limit=guarantee)
    nw.make_release(table, made, ledger=ledger).save(tmp_path / "q.json")
    release = nw.Release.load(tmp_path / "q.json")
    assert release.format == "noisewise-release/2"
    assert release.law.form is Form.SCALED
    population = nw.Normal(mean=stats.norm(50, 20), sd=10.0)
    law = nw.likelihood_of(release, population)
    assert np.isfinite(law.log_likelihood({"mean": [45.0, 50.0, 55.0]})).all()
    plain = {**release.to_dict(), "format": "noisewise-release/1"}
    with pytest.raises(nw.InvalidRelease):
        nw.Release.from_dict(plain)


def test_the_median_by_either_name_has_the_same_law(rng):
    population = nw.Normal(mean=stats.norm(50, 20), sd=10.0)
    median = nw.plan(nw.Median(X), SCHEMA, guarantee=nw.PureDP(1))
    half = planned("0.5", "smooth-cauchy", nw.PureDP(1))
    assert half.law == median.law
    value = [round(47.0 / half.law.step)]
    releases = [nw.Release.of(made, value, dataset="d", ledger_head=None, simulated=True) for made in (median, half)]
    at = {"mean": np.array([40.0, 47.0, 52.0])}
    one, two = (nw.likelihood_of(release, population).log_likelihood(at) for release in releases)
    assert one == pytest.approx(two, abs=1e-12)


def test_the_exponential_mechanism_stays_the_default():
    assert nw.plan(nw.Quantile(X, "0.9"), SCHEMA, guarantee=nw.PureDP(1)).mechanism == "exponential"
    assert nw.plan(nw.Quantile(X, "0.9"), SCHEMA, guarantee=nw.ApproxDP(1, "1e-6")).mechanism == "smooth-laplace"
