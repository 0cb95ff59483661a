"""Values that are left out: joint sensitivities against brute force over every pattern of presence, and what is summed.

The oracle writes every component as a text of one record and the columns that must be present for it.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from plain_evaluation import in_steps, valued

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.holder.evaluate import lattice_values
from noisewise.report.words import describe_release
from noisewise.statistics.evaluation import NumPyRows

x, z, w, g = (nw.column(name) for name in ("x", "z", "w", "g"))
LEVELS = ["north", "south"]
COLUMNS = {
    "x": nw.Bounded(0, 1),
    "z": nw.Bounded(-2, 5),
    "w": nw.Bounded(3, 4),  # far from 0: to become absent moves more than to become anything else
    "g": nw.Levels(LEVELS),
    "h": nw.Levels(["f", "m"]),
}
GRID = {
    "x": np.linspace(0, 1, 9).tolist(),
    "z": np.linspace(-2, 5, 29).tolist(),
    "w": [3.0, 3.5, 4.0],
    "g": LEVELS,
    "h": ["f", "m"],
}


def schema(neighbours="change-one", n=60, missing="leave-out", **columns):
    size = {"n": n} if neighbours == "change-one" else {"n_max": n}
    return nw.Schema({**COLUMNS, **columns}, neighbours=neighbours, missing=missing, **size)


def by_group(*own):
    return [(("g", *needs), f"equals(g, '{level}')*({text})") for level in LEVELS for needs, text in own]


CELLS = [(("g", "h"), f"equals(g, '{a}')*equals(h, '{b}')") for a in LEVELS for b in ("f", "m")]
ZONE = [(("z",), "between(z, -2, -0.6)"), (("z",), "between(z, -0.6, 5)")]  # no value of the grid is at the edge

# Each statistic, and its components by hand.
STATISTICS = [
    (nw.Mean(x), [(("x",), "1"), (("x",), "x")]),
    (nw.Mean(w), [(("w",), "1"), (("w",), "w")]),
    (nw.Mean(z, z**2), [(("z",), "1"), (("z",), "z"), (("z",), "z**2")]),
    (nw.Mean(x, z), [(("x",), "1"), (("z",), "1"), (("x",), "x"), (("z",), "z")]),
    (nw.Mean(x, x * w), [(("x",), "1"), (("x", "w"), "1"), (("x",), "x"), (("x", "w"), "x*w")]),
    (nw.Mean(w - 3.5), [(("w",), "1"), (("w",), "w - 3.5")]),
    (nw.Sum(w), [(("w",), "w")]),
    (nw.Sum(x, x * z), [(("x",), "x"), (("x", "z"), "x*z")]),
    (nw.Count(x.between(0.2, 1)), [(("x",), "between(x, 0.2, 1)")]),
    (nw.Count(g.equals("north") * x.between(0.2, 1)), [(("g", "x"), "equals(g, 'north')*between(x, 0.2, 1)")]),
    (nw.Histogram("g"), [(("g",), "equals(g, 'north')"), (("g",), "equals(g, 'south')")]),
    (nw.Histogram("z", [-0.6]), ZONE),
    (nw.Marginals(["g", "h"]), CELLS),
    (nw.Moments(["x"], "z", parts=["xx", "xy"]), [(("x", "z"), t) for t in ("1", "x", "z", "x*x", "x*z")]),
    (nw.Moments(["w"], "x", intercept=False), [(("w", "x"), t) for t in ("w*w", "w*x", "x*x")]),
    (nw.Mean(x, by="g"), by_group((("x",), "1"), (("x",), "x"))),
    (nw.Mean(x, w, by="g"), by_group((("x",), "1"), (("w",), "1"), (("x",), "x"), (("w",), "w"))),
    (nw.Sum(z, by="g"), by_group((("z",), "z"))),
    (nw.Count(by="g"), by_group(((), "1"))),
    (nw.Count(x.between(0.2, 1), by="g"), by_group((("x",), "between(x, 0.2, 1)"))),
]
IDS = [str(statistic) for statistic, _ in STATISTICS]


def records(names):
    """Every record of a grid over some columns, with every pattern of what is missing."""
    return [dict(zip(names, cell, strict=True)) for cell in itertools.product(*([*GRID[name], None] for name in names))]


def part(needs, text, record):
    """What one record adds to one component."""
    return 0.0 if any(record[name] is None for name in needs) else valued(text, record)


def farthest(components, names, weights, neighbours, norm):
    """The largest move of the weighted sums by brute force over records and patterns."""
    rows = np.array([[part(needs, text, one) for needs, text in components] for one in records(names)])
    rows = np.unique(rows * np.array([float(weight) for weight in weights]), axis=0)
    moves = rows[:, None] - rows[None] if neighbours == "change-one" else rows[:, None]
    return np.linalg.norm(moves, ord=norm, axis=-1).max()


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(("statistic", "components"), STATISTICS, ids=IDS)
def test_the_joint_sensitivity_is_what_brute_force_over_patterns_finds(statistic, components, neighbours, norm, rng):
    own = schema(neighbours)
    size = len(statistic.labels(own))
    assert size == len(components)
    for weights in (None, [1] * size, [Fraction(int(k), 4) for k in rng.integers(1, 9, size)]):
        found = statistic.sensitivity(own, norm=norm, weights=weights)
        given = statistic.default_weights(own) if weights is None else weights
        expected = farthest(components, statistic.columns(), given, neighbours, norm)
        assert float(found.value) >= expected * (1 - 1e-12)
        assert found.attained <= float(found.value) * (1 + 1e-12)
        # Features of different sets of columns that share some are searched to 1/32 of the best pair, where the search
        # stops, and the bound is rounded up from there; the grid itself is near to 4e-3.
        is_searched = len({needs for needs, _ in components}) > 1 and len(statistic.columns()) > 1
        assert float(found.value) == pytest.approx(expected, rel=2**-5 + 1e-9 if is_searched else 4e-3)
        assert not found.is_exact or float(found.value) == pytest.approx(expected, rel=4e-3)


def test_a_value_far_from_zero_that_becomes_absent_moves_more_than_one_that_changes():
    present = nw.Sum(w).sensitivity(schema(missing="refuse"), weights=[1]).value
    assert present == 1
    assert nw.Sum(w).sensitivity(schema(), weights=[1]).value == 4
    assert nw.Mean(w).sensitivity(schema(), weights=[1, 1]).value == 5
    assert nw.Mean(w).sensitivity(schema(), norm=2, weights=[1, 1]).value == pytest.approx(math.sqrt(17), rel=1e-9)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_sensitivity_of_columns_that_are_never_missing_is_that_of_complete_records(norm):
    own, complete = schema(missing={"x": "leave-out"}), schema(missing="refuse")
    assert nw.Mean(z, w).sensitivity(own, norm) == nw.Mean(z, w).sensitivity(complete, norm)
    assert nw.Mean(z, w).labels(own) == ("mean(z)", "mean(w)")
    mixed = nw.Mean(x, z)
    assert mixed.labels(own) == ("count present", "sum(x)", "sum(z)")
    components = [(("x",), "1"), (("x",), "x"), ((), "z")]
    complete_rows = [one for one in records(("x", "z")) if one["z"] is not None]
    rows = np.array([[part(needs, text, one) for needs, text in components] for one in complete_rows])
    expected = np.linalg.norm(rows[:, None] - rows[None], ord=norm, axis=-1).max()
    assert float(mixed.sensitivity(own, norm, [1, 1, 1]).value) == pytest.approx(expected, rel=4e-3)


def test_labels_say_what_is_counted():
    own = schema()
    assert nw.Mean(x, x**2).labels(own) == ("count present", "sum(x)", "sum(x**2)")
    assert nw.Mean(x, z).labels(own) == ("count present(x)", "count present(z)", "sum(x)", "sum(z)")
    assert nw.Moments(["x"], "z").labels(own)[0] == "count present"
    assert nw.Mean(x, by="g").labels(own)[:2] == ("g=north: count present", "g=north: sum(x)")
    assert nw.Mean(x).divisor(own) == 1
    assert nw.Mean(x).divisor(schema(missing="refuse")) == 60


def frame(rng, n=60, share=0.25):
    data = pd.DataFrame(
        {
            "x": rng.uniform(0, 1, n),
            "z": rng.uniform(-2, 5, n),
            "w": rng.uniform(3, 4, n),
            "g": rng.choice(LEVELS, n),
            "h": rng.choice(["f", "m"], n),
        }
    )
    for name in data:
        data.loc[rng.random(n) < share, name] = None
    return data


def plain_records(data):
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in data.to_dict(orient="records")
    ]


def coded(data, own):
    """The same records as NumPy columns: NaN and -1 where a value is absent."""
    columns = {}
    for name in data:
        if name in "gh":
            codes = {level: code for code, level in enumerate(own.levels(name).levels)}
            columns[name] = np.array([[codes.get(value, -1) for value in data[name]]], dtype=float)
        else:
            columns[name] = data[name].to_numpy(dtype=float)[None]
    return columns


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.ZeroConcentratedDP(Fraction(1, 2))], ids=["pure", "zcdp"])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(("statistic", "components"), STATISTICS, ids=IDS)
def test_three_evaluations_give_the_same_integers(statistic, components, neighbours, guarantee, rng):
    own, data = schema(neighbours), frame(rng)
    made = nw.plan(statistic, own, guarantee=guarantee)
    assert made.again() == made
    by_database = lattice_values(nw.Table.read(data, own), made)
    by_numpy = statistic.evaluate(NumPyRows(own, [coded(data, own)], 60), made.lattice)[0].tolist()
    by_hand = [
        sum(in_steps(part(needs, text, one), made.lattice, k) for one in plain_records(data))
        for k, (needs, text) in enumerate(components)
    ]
    assert list(by_database) == by_numpy == by_hand
    value = np.asarray(statistic.value({name: column[0] for name, column in coded(data, own).items()}, own))
    assert value == pytest.approx(np.array(by_hand) * np.array(made.lattice.step), abs=60 * max(made.lattice.step))


def test_a_part_has_its_own_number_present(rng):
    own, data = schema(), frame(rng)
    table = nw.Table.read(data, own)
    halves = [nw.plan(nw.Mean(x), own, guarantee=nw.PureDP(1), part=ends) for ends in ((0, "1/2"), ("1/2", 1))]
    counts = [lattice_values(table, made)[0] * made.lattice.step[0] for made in halves]
    assert counts == [data.x[:30].notna().sum(), data.x[30:].notna().sum()]


REFUSED = [
    nw.Median(x),
    nw.Maximum(x),
    nw.Minimum(x),
    nw.Quantile(x, 0.5),
    nw.Records(x),
    nw.SmallestEigenvalue([x, z], shrink=1),
    nw.TruncatedSum([x], "x", 0, 0.5),
    nw.Moments(["x"], "z", average=2),
    nw.Marginals(["g", "h"], ["h", "g2"], tied=True),
]


@pytest.mark.parametrize("statistic", REFUSED, ids=str)
def test_what_cannot_leave_records_out_says_why_and_what_can(statistic):
    own = schema(g2=nw.Levels(LEVELS), h=nw.Levels(LEVELS))
    guarantee = nw.ApproxDP(1, "1e-6") if isinstance(statistic, nw.Median | nw.Maximum | nw.Minimum) else nw.PureDP(1)
    guarantee = nw.ZeroConcentratedDP(1) if isinstance(statistic, nw.SmallestEigenvalue) else guarantee
    with pytest.raises(Unsupported, match=r"cannot leave out records.*Nothing was spent") as told:
        nw.plan(statistic, own, guarantee=guarantee)
    assert "mean" in str(told.value)


def test_under_add_remove_a_mean_of_those_present_can_be_released_and_a_mean_of_all_cannot():
    made = nw.plan(nw.Mean(x), schema("add-remove"), guarantee=nw.PureDP(1))
    assert made.sensitivity.value == pytest.approx(2, rel=1e-5)
    with pytest.raises(Unsupported, match="change-one"):
        nw.plan(nw.Mean(z), schema("add-remove", missing={"x": "leave-out"}), guarantee=nw.PureDP(1))


def test_the_schema_says_what_is_left_out_and_refuses_what_it_cannot_mean():
    own = schema(missing={"x": "leave-out", "z": 0, "g": "leave-out"})
    assert own.left_out == ("x", "g")
    assert own.fills == {"z": 0}
    assert nw.schema.schema_from_dict(own.to_dict()) == own
    assert schema().to_dict()["missing"] == "leave-out"
    named = nw.Schema({"c": nw.Levels(["leave-out", "b"])}, n=3, neighbours="change-one", missing={"c": "leave-out"})
    assert named.left_out == ()
    assert named.fills == {"c": "leave-out"}
    with pytest.raises(InvalidArgument, match="present"):
        nw.Schema({"x": nw.Bounded(0, 1), "present(x)": nw.Bounded(0, 1)}, n=3, neighbours="change-one",
                  missing="leave-out")  # fmt: skip
    with pytest.raises(InvalidArgument, match="did you mean 'leave-out'"):
        schema(missing="leave_out")


def test_a_release_of_those_present_is_of_format_2_and_shows_their_mean(tmp_path, rng):
    own = schema(n=4000)
    data = frame(rng, 4000)
    ledger = nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(20))
    made = nw.plan(nw.Mean(x, z), own, guarantee=nw.PureDP(10))
    nw.make_release(nw.Table.read(data, own), made, ledger=ledger).save(tmp_path / "r.json")
    release = nw.Release.load(tmp_path / "r.json")
    assert release.format == "noisewise-release/2"
    assert release.schema == own
    shown = describe_release(release)
    told = next(line for line in shown.splitlines() if "mean(x) of those present" in line)
    assert float(told.split(": ")[1].split()[0]) == pytest.approx(data.x.mean(), abs=0.02)
    assert "left out" in shown
    assert "left out where x or z is missing" in made.describe().lower()
    old = (tmp_path / "r.json").read_text().replace("noisewise-release/2", "noisewise-release/1")
    with pytest.raises(nw.InvalidRelease):
        nw.Release.from_bytes(old.encode())
    by_group = nw.plan(nw.Mean(x, z, by="g"), own, guarantee=nw.PureDP(10))
    table = describe_release(nw.make_release(nw.Table.read(data, own), by_group, ledger=ledger))
    assert "mean(x)" in table
    assert "mean(z)" in table


def test_whether_a_value_is_present_is_in_the_fingerprint():
    """Two data sets that agree in every cleaned value, and differ in what is present."""
    key, own = b"sixteen secret bytes", nw.Schema({"x": nw.Bounded(0, 1)}, n=3, neighbours="change-one",
                                                  missing="leave-out")  # fmt: skip
    first, second = (nw.Table.read({"x": values}, own).fingerprint(key) for values in ([0, None, 1], [0, 0, 1]))
    assert first != second
    assert first == nw.Table.read({"x": [1, 0, None]}, own).fingerprint(key)


def test_the_check_says_how_many_are_left_out():
    own = nw.Schema({"x": nw.Bounded(0, 1), "z": nw.Bounded(0, 9)}, n=50, neighbours="change-one", missing="leave-out")
    data = pd.DataFrame({"x": [0.5] * 40 + [None] * 10, "z": [3.0] * 45 + [None] * 5})
    made = [nw.plan(s, own, guarantee=nw.PureDP(1)) for s in (nw.Mean(x), nw.Mean(z), nw.Mean(x, z))]
    found = nw.Table.check(data, own, plans=made)
    assert found.refusal is None
    assert found.column("x").missing == 10
    assert [one.absent for one in found.statistics] == [10, 5, 10]
    assert "10 (20.0 %) of its rows lack a value" in str(found)
    assert "public value in their place" not in str(found)
    refused = nw.Table.check(data, nw.Schema(own.columns, n=50, neighbours="change-one"))
    assert "missing='leave-out'" in str(refused)
