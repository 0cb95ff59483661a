"""Intervals without a model: their coverage is summed exactly over every value that could have been published."""

from __future__ import annotations

import numpy as np
import pytest
from graphical_models import LEVELS, released, schema_of
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical.direct import half_width
from noisewise.release import Release


def intervals_of_every_value(n, guarantee, low, high, *, level):
    """A release of a table whose cells hold low, low + 1, .., high: all intervals in one call."""
    values = np.arange(low, high + 1)
    schema = schema_of({"k": [f"l{j}" for j in range(len(values))]}, n=n)
    plan = nw.plan(nw.Histogram("k"), schema, guarantee=guarantee)
    release = Release.of(plan, values.tolist(), dataset="made", ledger_head=None, simulated=True)
    model = nw.GraphicalModel([["k"]], schema)
    return plan.law, model.direct(release, level=level)


@pytest.mark.parametrize(
    ("guarantee", "reach"),
    [(nw.PureDP(1), 100), (nw.PureDP("0.05"), 900), (nw.PureDP(20), 10), (nw.ZeroConcentratedDP("0.02"), 60)],
    ids=["laplace", "much-noise", "little-noise", "gaussian"],
)
def test_the_interval_covers_what_it_claims_whatever_the_share(guarantee, reach):
    n, level = 200, 0.9
    law, found = intervals_of_every_value(n, guarantee, -reach, n + reach, level=level)
    noise = np.exp(law.log_pmf(np.arange(-2 * reach, 2 * reach + 1)))
    for p in (0.0, 0.002, 0.02, 0.1, 0.3, 0.5, 0.97, 1.0):
        chance = np.convolve(stats.binom.pmf(np.arange(n + 1), n, p), noise)[reach : 3 * reach + n + 1]
        assert chance.sum() > 0.999
        covered = (found.low <= p + 1e-9) & (p - 1e-9 <= found.high)
        assert chance[covered].sum() / chance.sum() > level - 0.01


def test_an_interval_of_sampling_alone_would_not_cover():
    n, p, reach = 200, 0.1, 900
    law, _ = intervals_of_every_value(n, nw.PureDP("0.05"), 0, 1, level=0.9)
    noise = np.exp(law.log_pmf(np.arange(-2 * reach, 2 * reach + 1)))
    chance = np.convolve(stats.binom.pmf(np.arange(n + 1), n, p), noise)[reach : 3 * reach + n + 1]
    narrow = np.abs(np.arange(-reach, n + reach + 1) - n * p) <= 1.645 * np.sqrt(n * p * (1 - p)) + 0.5
    assert chance[narrow].sum() < 0.2


def test_the_width_solves_the_law_of_normal_plus_laplace():
    sampling, noise, level = 3.0, 5.0, 0.8
    q = float(half_width(np.array(sampling), np.array(noise), level, is_laplace=True))
    inside = integrate.quad(
        lambda z: stats.norm.pdf(z, scale=sampling)
        * (stats.laplace.cdf(q - z, scale=noise / 2**0.5) - stats.laplace.cdf(-q - z, scale=noise / 2**0.5)),
        -60, 60, points=[-q, q], limit=200,
    )[0]  # fmt: skip
    assert inside == pytest.approx(level, abs=1e-8)
    gaussian = float(half_width(np.array(sampling), np.array(noise), level, is_laplace=False))
    assert gaussian == pytest.approx(stats.norm.ppf(0.9) * np.hypot(sampling, noise))


def test_without_noise_the_share_stands_in_the_middle_and_cells_have_their_labels():
    schema = schema_of(LEVELS, n=4)
    records = {"a": ["x", "x", "x", "y"], "b": ["u", "u", "v", "w"]}
    release = released(nw.Marginals(["a", "b"]), schema, records, guarantee=nw.PureDP(40))
    found = nw.GraphicalModel([["a", "b"]], schema).direct(release)
    assert found.title == "P(a, b)"
    assert found["a=x, b=u"] == 0.5
    assert found["a=y, b=w"] == 0.25
    assert np.all(found.low <= found.mean)
    assert np.all(found.mean <= found.high)


def test_the_interval_narrows_with_the_noise():
    widths = []
    for epsilon in ("0.1", "1", "10"):
        _, found = intervals_of_every_value(1000, nw.PureDP(epsilon), 500, 510, level=0.9)
        widths.append(float((found.high - found.low)[0]))
    assert widths[0] > widths[1] > widths[2] > 0


def test_private_n_is_stated():
    schema = schema_of(LEVELS, n_max=50)
    release = released(nw.Histogram("a"), schema, {"a": ["x"] * 20})
    model = nw.GraphicalModel([["a"]], schema)
    with pytest.raises(InvalidArgument) as caught:
        model.direct(release)
    assert caught.value.argument == "n"
    assert model.direct(release, n=20)["a=x"] == 1.0


def test_what_has_no_cells_has_no_shares():
    schema = nw.Schema({"z": nw.Bounded(0, 1)}, n=10, neighbours="change-one")
    plan = nw.plan(nw.Mean(nw.column("z")), schema, guarantee=nw.PureDP(1))
    release = Release.of(plan, [3], dataset="made", ledger_head=None, simulated=True)
    model = nw.GraphicalModel([["a"]], {"a": ["x", "y"]})
    with pytest.raises(Unsupported, match="cells of a table"):
        model.direct(release)


def test_a_tied_table_has_no_counts_of_records():
    levels = {"s": ["k", "l"], "t": ["k", "l"], "u": ["k", "l"]}
    schema = schema_of(levels, n=3)
    records = {name: ["k", "l", "l"] for name in levels}
    release = released(nw.Marginals(["s", "t"], ["t", "u"], tied=True), schema, records)
    with pytest.raises(Unsupported, match="tied"):
        nw.GraphicalModel.chain(["s", "t", "u"], schema, tied=True).direct(release)


@pytest.mark.parametrize(
    "statistic", [nw.Histogram("a"), nw.Marginals(["a", "b"], ["b"])], ids=["histogram", "marginals"]
)
def test_a_stated_n_that_a_table_contradicts_is_named_or_refused(statistic):
    schema = schema_of(LEVELS, n_max=5000)
    records = {"a": ["x", "y"] * 500, "b": ["u", "v"] * 500}
    release = released(statistic, schema, records, guarantee=nw.PureDP(10))
    model = nw.GraphicalModel([["a", "b"]], {name: LEVELS[name] for name in ("a", "b")})
    assert model.direct(release, n=1000).note == ""
    assert any("was stated, but the sum of" in str(model.direct(release, n=1000 + k)) for k in range(1, 5))
    for wrong in (100, 1050, 5000):
        with pytest.raises(InvalidArgument, match="State a number that agrees") as caught:
            model.direct(release, n=wrong)
        assert caught.value.argument == "n"
