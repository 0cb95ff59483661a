"""Releases of every kind, made from plans and invented values, and what refuses a file that is none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import noisewise as nw
from noisewise.errors import InvalidRelease
from noisewise.laws.finite import FiniteLaw, truncated_geometric

N = 6
x, y = nw.column("x"), nw.column("income in k")
COLUMNS = {"x": nw.Bounded(-0.3, 7), "income in k": nw.Bounded(0, 250), "g": nw.Levels(["north", "été"]),
           "h": nw.Levels([1, 2, 3])}  # fmt: skip
PUBLIC = nw.Schema(COLUMNS, n=N, neighbours="change-one", missing={"x": 1, "g": "north"})
PRIVATE = nw.Schema(COLUMNS, n_max=100, neighbours="add-remove", outside="refuse")
TRACES = nw.Schema(
    {**dict.fromkeys("hij", nw.Levels([1, 2, 3])), "income in k": nw.Bounded(0, 250)}, n=N, neighbours="change-one"
)
ESTIMATOR = FiniteLaw(truncated_geometric(N + 1, Fraction(1)), tuple(k / 6 for k in range(N + 1)))


def release_of(plan: nw.Plan, value: list[int] | None = None, **options: Any) -> nw.Release:
    values = value or [(-1) ** k * (12345678901 + 997 * k) for k in range(len(plan.statistic.labels(plan.part_schema)))]
    given = {"dataset": "6f1c", "ledger_head": "9ab0", "simulated": False} | options
    return nw.Release.of(plan, values, **given)


def planned(statistic: Any, schema: nw.Schema = PUBLIC, guarantee: Any = None, **options: Any) -> nw.Plan:
    return nw.plan(statistic, schema, guarantee=guarantee or nw.PureDP(1), **options)


# One for each law family and each kind of statistic; the names are those of the golden files.
EXAMPLES: dict[str, nw.Release] = {
    "discrete-laplace-mean": release_of(planned(nw.Mean(x, x**2, y.clip(0, 120)), part=("0", "1/2"))),
    "discrete-gaussian-sum": release_of(planned(nw.Sum(x * y), guarantee=nw.ZeroConcentratedDP("0.1"))),
    "rounded-gaussian-moments": release_of(
        planned(nw.Moments(["x"], y, centre={"x": "0.1"}, shrink="1.7"), guarantee=nw.GaussianDP(1))
    ),
    "moments-averaged": release_of(planned(nw.Moments(["x"], y, intercept=False, average=2, scale={"x": 3}))),
    "moments-fourth": release_of(planned(nw.Moments(["x"], y, fourth=True), PRIVATE)),
    "rounded-gaussian-eigenvalue": release_of(
        planned(nw.SmallestEigenvalue(["x", y], shrink=2), guarantee=nw.ApproxDP(1, "1e-6"))
    ),
    "truncated-sum": release_of(planned(nw.TruncatedSum([y], "x", 0, 5), PRIVATE)),
    "geometric-count": release_of(planned(nw.Count(x.between(0, 3)), mechanism="geometric"), [4]),
    "finite-count": release_of(planned(nw.Count(x.between(0, 3)), mechanism=ESTIMATOR), [5]),
    "histogram-levels": release_of(planned(nw.Histogram("g"), PRIVATE), [-3, 12]),
    "histogram-edges": release_of(planned(nw.Histogram("x", [0, "0.1", 3])), [0, 1, 2, 3]),
    "marginals": release_of(planned(nw.Marginals(["g", "h"], ["h"])), list(range(9))),
    "marginals-tied": release_of(
        planned(nw.Marginals(["h", "i"], ["i", "j"], tied=True, null=2), TRACES), list(range(9))
    ),
    "smooth-laplace-median": release_of(planned(nw.Median(x), guarantee=nw.ApproxDP(1, "1e-4"))),
    "smooth-cauchy-maximum": release_of(planned(nw.Maximum(x)), [-(2**90)]),
    "smooth-cauchy-minimum": release_of(planned(nw.Minimum(x - 1))),
    "exponential-quantile": release_of(planned(nw.Quantile(x, "1/3"))),
    "records-laplace": release_of(planned(nw.Records(x)), [-5, 0, 0, 7, 8, 2**40]),
    "records-cells": release_of(planned(nw.Records(x, cells=[0, "0.5"])), [1, 2, 3]),
    "records-levels": release_of(planned(nw.Records("h")), [6, 0, 0]),
    "mean-by": release_of(planned(nw.Mean(x, y, by=["g", "h"]), PRIVATE)),
    "sum-by": release_of(planned(nw.Sum(y, by="g"), guarantee=nw.GaussianDP(1))),
    "count-by": release_of(planned(nw.Count(x.between(0, 3), by="h")), [-3, 12, 0]),
    "simulated": release_of(planned(nw.Mean(x)), simulated=True, ledger_head=None),
}


def loaded_or_told(data: bytes) -> nw.Release | str:
    """The release, or the one sentence that refuses it; any other exception is a fault."""
    try:
        return nw.Release.from_bytes(data)
    except InvalidRelease as error:
        message = str(error)
    assert message
    assert "\n" not in message
    assert "Traceback" not in message
    assert len(message) < 1500
    return message


def refusal(data: bytes) -> None:
    assert isinstance(loaded_or_told(data), str), "a file that should be refused was loaded"
