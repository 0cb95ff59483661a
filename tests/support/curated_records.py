"""Forty records, the statistics of them, and the oracles of their releases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

import noisewise as nw

N = 40
x, y, g = (nw.column(name) for name in "xyg")
COLUMNS = {"x": nw.Bounded(-3, 7), "y": nw.Bounded(0, 250), "g": nw.Levels(["a", "b", "c"])}
PUBLIC = nw.Schema(COLUMNS, n=N, neighbours="change-one")
PRIVATE = nw.Schema(COLUMNS, n_max=2 * N, neighbours="add-remove")

STATISTICS: dict[str, Any] = {
    "mean": nw.Mean(x, x**2),
    "sum": nw.Sum(x * y),
    "count": nw.Count(x.between(0, 3)),
    "truncated-sum": nw.TruncatedSum([y], "x", 0, 5),
    "histogram": nw.Histogram("g"),
    "marginals": nw.Marginals(["g"]),
    "moments": nw.Moments(["x"], "y"),
    "smallest-eigenvalue": nw.SmallestEigenvalue(["x", "y"], shrink=2, scale={"y": 100}),
    "records": nw.Records(x),
    "median": nw.Median(x),
    "maximum": nw.Maximum(x),
    "minimum": nw.Minimum(x),
    "quantile": nw.Quantile(x, "0.25"),
    "mean-by": nw.Mean(x, y, by="g"),
    "sum-by": nw.Sum(y, by="g"),
    "count-by": nw.Count(x.between(0, 3), by="g"),
}


def drawn(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng()
    return pd.DataFrame({"x": rng.uniform(-3, 7, n), "y": rng.uniform(0, 250, n), "g": rng.choice(["a", "b", "c"], n)})


def columns(data: pd.DataFrame) -> dict[str, Any]:
    codes = {level: k for k, level in enumerate("abc")}
    return {"x": data.x.to_numpy(), "y": data.y.to_numpy(), "g": data.g.map(codes).to_numpy()}


def secret_scale(plan: nw.Plan, data: pd.DataFrame) -> float:
    """The smooth sensitivity by its definition, over all pairs of ranks: O(n^2), for tests only."""
    low, high = plan.statistic.bounds(plan.part_schema)
    values = np.sort(plan.statistic.feature.value(columns(data), plan.part_schema))
    n = len(values)
    m = {"median": (n + 1) // 2, "maximum": n, "minimum": 1}[plan.statistic.kind]

    def s(i: int) -> float:
        return low if i < 1 else high if i > n else float(values[i - 1])

    smooth = max(
        math.exp(-k * plan.law.beta) * max(s(m + t) - s(m + t - k - 1) for t in range(k + 2)) for k in range(n + 1)
    )
    return max(smooth, 2**10 * plan.law.step * max(1.0, float(plan.law.alpha)))


def replaced(n: int) -> nw.Schema:
    return nw.Schema(COLUMNS, n=n, neighbours="change-one")
