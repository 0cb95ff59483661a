"""Statistics by group: joint sensitivities against brute force, groups that nobody is in, one query."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.holder.evaluate import IbisRows, lattice_values
from noisewise.report.words import describe_release
from noisewise.statistics import groups

x, z = nw.column("x"), nw.column("z")
is_north, is_woman = nw.column("region").equals("north"), nw.column("sex").equals("f")
LEVELS = ["north", "south", "east", "west"]
COLUMNS = {"x": nw.Bounded(0, 1), "z": nw.Bounded(-2, 5), "region": nw.Levels(LEVELS), "sex": nw.Levels(["f", "m"])}


def schema(neighbours: str = "change-one", n: int = 60, **columns: object) -> nw.Schema:
    size = {"n": n} if neighbours == "change-one" else {"n_max": n}
    return nw.Schema({**COLUMNS, **columns}, neighbours=neighbours, **size)


@pytest.mark.parametrize(("neighbours", "sums", "with_counts"), [("change-one", 2, 4), ("add-remove", 1, 2)])
def test_four_regional_sums_and_their_counts_at_unit_weights(neighbours, sums, with_counts):
    own = schema(neighbours)
    assert nw.Sum(x, by="region").sensitivity(own, norm=1, weights=[1] * 4).value == sums
    assert nw.Mean(x, by="region").sensitivity(own, norm=1, weights=[1] * 8).value == with_counts
    assert nw.Count(by="region").sensitivity(own, norm=1, weights=[1] * 4).value == sums


STATISTICS = [
    nw.Sum(x, by="region"),
    nw.Mean(x, by="region"),
    nw.Mean(z, by="region"),
    nw.Mean(x, z, by="sex"),
    nw.Sum(z, by=["region", "sex"]),
    nw.Count(by=["region", "sex"]),
    nw.Count(x.between(0.25, 1), by="region"),
    nw.Mean(x * z, by="sex"),
    nw.Sum(x - 0.5, by="sex"),
    nw.Sum(is_north * z, by="region"),
    nw.Mean(is_north * z, by="region"),
    nw.Mean(x + 3 * is_north, z * is_woman, by="region"),
    nw.Mean((1 - is_north) * x - is_north * z, by=["region", "sex"]),
    nw.Count(is_north * x.between(0.25, 1), by="region"),
    nw.Sum(is_north, by=["sex", "region"]),
]


def all_records():
    grid = {"x": [0.0, 0.25, 0.5, 1.0], "z": [-2.0, 0.0, 5.0], "region": range(4), "sex": range(2)}
    cells = list(itertools.product(*grid.values()))
    return {name: np.array([cell[k] for cell in cells], dtype=float) for k, name in enumerate(grid)}


def moves(statistic, own):
    """What each record adds to each component, by the statistic on one record alone."""
    records = all_records()
    alone = {name: values[:, None] for name, values in records.items()}
    return np.asarray(statistic.value(alone, own), dtype=float)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_the_joint_sensitivity_is_what_brute_force_over_pairs_of_records_finds(statistic, neighbours, norm, rng):
    own = schema(neighbours)
    added = moves(statistic, own)
    size = added.shape[1]
    for weights in (None, [1] * size, [Fraction(int(k), 4) for k in rng.integers(1, 9, size)]):
        found = statistic.sensitivity(own, norm=norm, weights=weights)
        given = statistic.default_weights(own) if weights is None else weights
        weighted = added * np.array([float(w) for w in given])
        pairs = weighted[:, None] - weighted[None] if neighbours == "change-one" else weighted[:, None]
        farthest = np.linalg.norm(pairs, ord=norm, axis=-1).max()
        assert float(found.value) == pytest.approx(farthest, rel=1e-3)
        assert float(found.value) >= farthest * (1 - 1e-12)
        assert found.attained <= float(found.value)
        assert found.attained == pytest.approx(farthest, rel=1e-3)  # a group's own level is taken into account


def test_features_that_name_more_levels_than_are_told_apart_get_a_bound_that_says_so(monkeypatch):
    statistic, own = nw.Sum(x + is_north, by="region"), schema()
    exact = statistic.sensitivity(own, weights=[1] * 4)
    assert float(exact.value) == exact.attained == 2 + 1  # north at x = 1, another region at x = 1
    monkeypatch.setattr(groups, "MOST_KINDS", 1)
    bound = statistic.sensitivity(own, weights=[1] * 4)
    assert bound.value >= exact.value
    assert bound.attained == 0


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_weights_of_too_many_kinds_get_a_bound_that_no_pair_of_records_exceeds(neighbours, norm, monkeypatch, rng):
    statistic, own = nw.Mean(x, x * z, by=["region", "sex"]), schema(neighbours)
    weights = [Fraction(int(k), 7) for k in rng.integers(1, 50, 24)]
    exact = statistic.sensitivity(own, norm=norm, weights=weights)
    monkeypatch.setattr(groups, "MOST_KINDS", 5)
    bound = statistic.sensitivity(own, norm=norm, weights=weights)
    assert bound.value >= exact.value
    assert bound.attained == 0


@pytest.mark.parametrize("level", [1, "1"])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_a_whole_number_written_as_text_is_the_same_level(level, neighbours):
    """equals(g, '1') is true of the level 1, so a feature that reads it moves that group however it is written."""
    own = schema(neighbours, g=nw.Levels([1, 2, 3]))
    feature = 3 * x * nw.column("g").equals(level) + x
    found = nw.Sum(feature, by="g").sensitivity(own, weights=[1, 1, 1])
    assert float(found.value) == found.attained == (4 + 1 if neighbours == "change-one" else 4)


def test_a_plan_hides_the_pair_that_changes_group_and_not_one_group_alone():
    made = nw.plan(nw.Mean(x, by="region"), schema(), guarantee=nw.PureDP(1))
    assert made.sensitivity.value == 4
    assert made.again() == made
    assert set(made.lattice.step[::2]) == {made.lattice.step[0]}
    whole = nw.plan(nw.Count(by="region"), schema(), guarantee=nw.PureDP(1))
    assert set(whole.lattice.step) == {1.0}
    assert whole.law == nw.plan(nw.Histogram("region"), schema(), guarantee=nw.PureDP(1)).law


@pytest.mark.parametrize("by", ["region", ["region", "sex"]])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_a_group_of_nobody_and_a_group_of_one_look_alike(by, neighbours, rng):
    own = schema(neighbours)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 60), "z": rng.uniform(-2, 5, 60), "region": "south", "sex": "f"})
    one = data.assign(region=["north", *["south"] * 59])
    made = nw.plan(nw.Mean(x, z, by=by), own, guarantee=nw.PureDP(1))
    nobody, single = (lattice_values(nw.Table.read(frame, own), made) for frame in (data, one))
    assert len(nobody) == len(single) == len(made.lattice.step)
    assert set(nobody[:3]) == {0}
    assert [value * step for value, step in zip(single[:3], made.lattice.step, strict=False)] == pytest.approx(
        [1, one.x[0], one.z[0]], abs=1e-4
    )


def test_groups_are_summed_by_one_query(monkeypatch, rng):
    own = schema()
    data = pd.DataFrame({"x": rng.uniform(0, 1, 60), "z": 0.0, "region": rng.choice(LEVELS, 60), "sex": "f"})
    table = nw.Table.read(data, own)
    made = nw.plan(nw.Mean(x, by=["region", "sex"]), own, guarantee=nw.PureDP(1))
    asked = []
    run = nw.Table.execute
    monkeypatch.setattr(nw.Table, "execute", lambda self, query: asked.append(query) or run(self, query))
    made.statistic.evaluate(IbisRows(table, made), made.lattice)
    assert len(asked) == 1


def test_texts_and_refusals():
    for text in ("mean(x, by=region)", "sum(x, z, by=[region, sex])", "count(by=region)", "count(x > 0.5, by=sex)"):
        assert str(nw.statistic(text)) == text
        assert nw.statistic(text).to_dict()["by"]
    with pytest.raises(Unsupported, match="declared levels"):
        nw.plan(nw.Mean(x, by="z"), schema(), guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="one column or two"):
        nw.Mean(x, by=["region", "sex", "z"])
    with pytest.raises(InvalidArgument, match="one condition or none"):
        nw.Count(x, by="region")
    with pytest.raises(nw.NoisewiseError, match="finite"):
        nw.plan(nw.Count(by="region"), schema(), guarantee=nw.PureDP(1), mechanism="finite")


def test_a_release_by_group_is_of_format_2_and_shows_a_table(tmp_path, rng):
    own = schema(n=4000)
    data = pd.DataFrame({
        "x": rng.uniform(0, 1, 4000), "z": 0.0, "region": ["north"] * 5 + ["south"] * 2000 + ["east"] * 1995,
        "sex": "f",
    })  # fmt: skip
    made = nw.plan(nw.Mean(x, by="region"), own, guarantee=nw.PureDP(1))
    ledger = nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1))
    nw.make_release(nw.Table.read(data, own), made, ledger=ledger).save(tmp_path / "r.json")
    release = nw.Release.load(tmp_path / "r.json")
    assert release.format == "noisewise-release/2"
    shown = describe_release(release)
    assert "mean(x)" in shown
    assert "region=west" in shown
    south = next(line for line in shown.splitlines() if "region=south" in line)
    assert float(south.split()[7 if "±" in south else 1]) == pytest.approx(0.5, abs=0.2)


def test_the_noise_of_a_groups_mean_is_that_of_a_ratio(rng):
    """The printed standard deviation against simulated noise on the same sums."""
    own = schema(n=4000)
    made = nw.plan(nw.Mean(x, by="sex"), own, guarantee=nw.PureDP(1))
    law = made.law
    count, total = 2000.0, 1200.0
    noisy = [v + s * rng.laplace(size=100_000) for v, s in zip((count, total), law.scale[:2], strict=True)]
    expected = np.std(noisy[1] / noisy[0])
    stated = math.hypot(law.sd[1], total / count * law.sd[0]) / count
    assert stated == pytest.approx(expected, rel=0.05)


def test_a_group_of_one_person_is_not_shown_by_a_check_of_the_records():
    own = nw.Schema({"x": nw.Bounded(0, 250), "g": nw.Levels(["north", "south"])}, n=41, neighbours="change-one")
    data = pd.DataFrame({"x": [37.123456, *[50.0] * 39, 999.0], "g": ["north", *["south"] * 40]})
    by_group = nw.plan(nw.Mean(x, by="g"), own, guarantee=nw.PureDP(1))
    by_hand = nw.plan(nw.Sum(x * nw.column("g").equals("north")), own, guarantee=nw.PureDP(1))
    found = nw.Table.check(data, own, plans=[by_group, by_hand])
    for told in (str(found), json.dumps(found.to_dict()), found.to_html()):
        assert "37.12" not in told
    assert "fewer than 20 rows" in str(found)


def test_level_names_with_colons_do_not_break_the_table(tmp_path):
    own = nw.Schema({"x": nw.Bounded(0, 1), "g": nw.Levels(["a: b", "c"])}, n=400, neighbours="change-one")
    made = nw.plan(nw.Mean(x, by="g"), own, guarantee=nw.PureDP(5))
    ledger = nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(5))
    data = pd.DataFrame({"x": 0.5, "g": ["a: b"] * 200 + ["c"] * 200})
    shown = describe_release(nw.make_release(nw.Table.read(data, own), made, ledger=ledger))
    assert "mean(x)" in shown
    assert "b: count" not in shown


def test_what_no_record_moves_is_refused_in_a_sentence_wherever_it_is_found():
    own = schema()
    cells = [nw.Moments([x > 2], z > 9, shrink=1), nw.Sum((is_north * x) > 2), nw.Moments([x - x], z > 9, shrink=1)]
    for statistic, guarantee in itertools.product(cells, (nw.PureDP(1), nw.ZeroConcentratedDP(1))):
        with pytest.raises(nw.NoisewiseError, match="tells nothing"):
            nw.plan(statistic, own, guarantee=guarantee)


def test_what_there_is_to_write_is_told_as_people_write_it() -> None:
    for text in ("between(x, 2, 2)", "meen(x)"):
        with pytest.raises(nw.InvalidSpec) as told:
            nw.statistic(text)
        assert "mean" in str(told.value)
        assert "_by" not in str(told.value)
