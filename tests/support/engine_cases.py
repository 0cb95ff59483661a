"""What every engine must compute alike: records, statistics of every shape, and parts of them by place and by key."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import noisewise as nw

N = 600
KEY = b"sixteen secret bytes"
x, y, g = nw.column("x"), nw.column("y"), nw.column("g")
COLUMNS = {
    "x": nw.Bounded(-2.5, 3),
    "y": nw.Bounded(9, 10),
    "g": nw.Levels(["a", "b"]),
    "h": nw.Levels([0, 1, 2, 3]),
}  # 3: nobody
STATISTICS = [
    nw.Mean(x, x**2, abs(x) ** 0.5, x.clip(-1, 0.25)),
    nw.Sum(x * y, x.between(-1, 1)),
    nw.Sum(x > 0, x >= 3, (x < 0.5) * y, x > y - 9),
    nw.Count(g.equals("b")),
    nw.Histogram("g"),
    nw.Histogram("x", [-1, 0, 1.5]),
    nw.Marginals(["g", "h"]),
    nw.Moments(["x"], "y", centre={"x": 0.1}, scale={"y": 3}),
    nw.Moments(["x"], "y", shrink=1),
    nw.Moments(["x"], "y", average=6),
    nw.TruncatedSum([x], "x", 0, 1),
    nw.Mean(x, y**2, by="g"),
    nw.Sum(x * y, x > 0, by=["g", "h"]),
    nw.Count(by="h"),
    nw.Count((x > 0) * (y <= 9.5), by=["h", "g"]),
    nw.Mean(x * g.equals("a"), by="g"),
]
OF_THOSE_PRESENT = [
    nw.Mean(x, x**2, x * y),
    nw.Sum(y),
    nw.Count(g.equals("b") * (x > 0)),
    nw.Histogram("x", [-1, 0, 1.5]),
    nw.Marginals(["g", "h"]),
    nw.Moments(["x"], "y", centre={"x": 0.1}, scale={"y": 3}),
    nw.Moments(["x"], "y", shrink=1),
    nw.Mean(x, y, by="g"),
    nw.Count(x > 0, by=["g", "h"]),
]
WIDE = 60  # features, whose moments are 1952 sums
CUTS = [Fraction(0), Fraction(1, 2**60), Fraction(1, 3), Fraction(1, 3) + Fraction(1, 2**60), Fraction(1, 2),
        1 - Fraction(1, 2**33), 1 - Fraction(1, 2**60), Fraction(1)]  # fmt: skip


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "id": rng.permutation(N),
            "x": rng.normal(scale=2, size=N),
            "y": rng.uniform(8.9, 10.1, N),
            "g": rng.choice(["a", "b"], N),
            "h": rng.integers(0, 3, N),
        }
    )


def faulty_frame() -> pd.DataFrame:
    """Missing values, a code far below the bounds, values beyond them, and a level that nobody declared."""
    people, rng = frame(), np.random.default_rng(7)
    people.loc[rng.choice(N, 25, replace=False), "x"] = None
    people.loc[rng.choice(N, 40, replace=False), "y"] = -200.0
    people.loc[rng.choice(N, 30, replace=False), "h"] = 9
    return people


def check_of(source: object) -> dict[str, object]:
    """What the holder is told about the faulty records, as plain data."""
    schema = nw.Schema(COLUMNS, n=N, neighbours="change-one", missing={"x": 0})
    statistics = [nw.Mean(x, y), nw.Sum(y > 9.5), nw.Mean(x, by="g"), nw.Histogram("g"), nw.Median(x)]
    plans = [nw.plan(statistic, schema, guarantee=nw.PureDP(1)) for statistic in statistics]
    return nw.Table.check(source, schema, plans=plans, order="id").to_dict()


def assert_told_alike(first: object, second: object) -> None:
    """The same plain data; averages to rounding, for engines add up in different orders."""
    if isinstance(first, dict) and isinstance(second, dict):
        assert list(first) == list(second)
        for name in first:
            assert_told_alike(first[name], second[name])
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        assert len(first) == len(second)
        for pair in zip(first, second, strict=True):
            assert_told_alike(*pair)
    else:
        assert first == (pytest.approx(second, rel=1e-9) if isinstance(second, float) else second)


def gappy_frame() -> pd.DataFrame:
    """The same people, some of whose values are missing."""
    rng, found = np.random.default_rng(7), frame()
    for name in ("x", "y", "g"):
        found.loc[rng.random(N) < 0.2, name] = None
    # A missing word is NaN in a frame's text column, which Spark would take for the word "NaN".
    found["g"] = found["g"].astype(object).where(found["g"].notna(), None)
    return found


def wide_frame() -> pd.DataFrame:
    rng = np.random.default_rng(6)
    return pd.DataFrame(rng.normal(size=(50, WIDE + 1)), columns=[f"x{i}" for i in range(WIDE + 1)])


def ordered() -> nw.Schema:
    return nw.Schema(COLUMNS, n=N, neighbours="change-one")


def leaving_out() -> nw.Schema:
    return nw.Schema(COLUMNS, n=N, neighbours="change-one", missing="leave-out")


def keyed() -> nw.Schema:
    return nw.Schema(COLUMNS, n_max=2**30, neighbours="add-remove")


def wide() -> nw.Schema:
    columns = {f"x{i}": nw.Bounded(-2, 2) for i in range(WIDE + 1)}
    return nw.Schema(columns, n=50, neighbours="change-one")


def wide_moments() -> nw.Moments:
    return nw.Moments([f"x{i}" for i in range(WIDE)], f"x{WIDE}")


def members(table: nw.Table) -> list[list[float]]:
    """The x of everybody in each part of a partition, as the engine chooses them."""
    return [sorted(table.execute(table.rows(part).select("x"))["x"].to_pylist()) for part in pairwise(CUTS)]


def large() -> nw.Mean:
    """Thirty features of sixty products each."""
    return nw.Mean(*[_tangled(k) for k in range(30)])


def _tangled(k: int) -> nw.Feature:
    """A sum of sixty products, bracketed in pairs."""
    rng = np.random.default_rng(k)
    parts = [abs(x * (y - 9) - float(c)) for c in rng.uniform(-2, 2, 60).round(2)]
    while len(parts) > 1:
        parts = [parts[i] - parts[i + 1] if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]
