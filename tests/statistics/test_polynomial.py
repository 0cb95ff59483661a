"""What is provably the same for every record is not sold; what varies is."""

from __future__ import annotations

import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import InvalidArgument
from noisewise.statistics.polynomial import is_constant, is_zero

x, z, region = nw.column("x"), nw.column("z"), nw.column("region")
north = region.equals("north")
CONSTANT = [
    2 * x - x - x,
    x - x + 5,
    x * z - z * x,
    (x + z) ** 2 - x**2 - 2 * x * z - z**2,
    abs(2 * x - x) - abs(x),
    (2 * x - x - x + 1).log(),
    (x + z - x - z).clip(-1, 1) + 3,
    x.between(0.25, 1) ** 2 - x.between(0.25, 1),
    north * north - north,
    (x + 1) * (x - 1) - x**2,
    (x + 1) ** 0.5 - (1 + x) ** 0.5,
]
VARYING = [
    x,
    2 * x - x,
    0.1 * x * 10 - x,  # by the doubles that 0.1 and 10 are
    abs(x - 0.5) - x,
    x * z,
    x**3 - x**2,
    north - north * x,
    x.between(0.25, 1) - x.between(0.5, 1),
    x.clip(0, 0.5) - x,
    sum((x**k for k in range(2, 60)), start=x),
    (x + z + north + x.clip(0, 0.5) + abs(z)) ** 20,  # too long to be written out
]


def values(feature) -> np.ndarray:
    """The feature on a grid of records."""
    grid = np.meshgrid(np.linspace(0, 1, 9), np.linspace(-2, 5, 9), [0.0, 1.0])
    columns = {name: axis.ravel() for name, axis in zip(("x", "z", "region"), grid, strict=True)}
    return np.broadcast_to(feature.value(columns, schema()), grid[0].size)


def schema(neighbours: str = "change-one") -> nw.Schema:
    size = {"n": 10} if neighbours == "change-one" else {"n_max": 10}
    columns = {"x": nw.Bounded(0, 1), "z": nw.Bounded(-2, 5), "region": nw.Levels(["north", "south"])}
    return nw.Schema(columns, neighbours=neighbours, **size)


@pytest.mark.parametrize("feature", CONSTANT, ids=lambda one: str(one)[:60])
def test_a_feature_that_is_the_same_for_every_record_is_refused(feature):
    seen = values(feature)
    assert np.ptp(seen) < 1e-12
    assert is_constant(feature)
    assert not is_zero(feature) or np.all(np.abs(seen) < 1e-12)
    for statistic in (nw.Mean(feature), nw.Sum(x, feature)):
        with pytest.raises(InvalidArgument, match=r"the same for every record .* Nothing was spent"):
            nw.plan(statistic, schema(), guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="constant"):
        nw.plan(nw.Median(feature), schema(), guarantee=nw.ApproxDP(1, "1e-6"))
    with pytest.raises(InvalidArgument, match="the same for every record"):
        nw.plan(nw.Records(feature), schema(), guarantee=nw.PureDP(1))


@pytest.mark.parametrize("feature", VARYING, ids=lambda one: str(one)[:60])
def test_a_feature_that_varies_is_never_taken_for_a_constant(feature):
    assert np.ptp(values(feature)) > 0
    assert not is_constant(feature)
    assert not is_zero(feature)


def test_a_constant_other_than_nothing_counts_records_where_their_number_is_private():
    assert nw.Sum(x - x + 5).sensitivity(schema("add-remove"), weights=[1]).value == 5
    nw.plan(nw.Sum(x - x + 5), schema("add-remove"), guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="tells nothing"):
        nw.plan(nw.Sum(2 * x - x - x), schema("add-remove"), guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match=r"0 for every record.* Nothing was spent"):
        nw.plan(nw.Sum(2 * x - x - x, by="region"), schema("add-remove"), guarantee=nw.PureDP(1))
