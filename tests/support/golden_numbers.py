"""Numbers that a rebuilding must not move: one case for each kind of release and population.

    python tests/support/golden_numbers.py        writes tests/golden/numbers.json anew

A case is a plan, a published value and a population. Kept of it: the sensitivity and the noise of the plan, log p and
its score at three values of theta, the information there, and mean and sd of the posterior where they come from
quadrature or a closed form. A mend that moves a number on purpose writes the file anew and says so in its commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import noisewise as nw
from noisewise.likelihood.joint import joint_likelihood

FILE = Path(__file__).parents[1] / "golden" / "numbers.json"
x, y, g = nw.column("x"), nw.column("y"), nw.column("g")
COLUMNS = {"x": nw.Bounded(-3, 7), "y": nw.Bounded(0, 250), "g": nw.Levels(["a", "b", "c"])}


def _public(n: int, **options: Any) -> nw.Schema:
    return nw.Schema(COLUMNS, n=n, neighbours="change-one", **options)


def _private(n_max: int) -> nw.Schema:
    return nw.Schema(COLUMNS, n_max=n_max, neighbours="add-remove")


MEAN = nw.Normal(mean=stats.norm(1, 3), sd=2.0)
BOTH = nw.Normal(mean=stats.norm(1, 3), sd=stats.gamma(4, scale=0.5))
MEANS = [{"mean": value} for value in (0.3, 1.1, 2.4)]
PAIRS = [{"mean": 0.3, "sd": 1.5}, {"mean": 1.1, "sd": 2.0}, {"mean": 2.4, "sd": 2.9}]


@dataclass(frozen=True)
class Case:
    """One release (or several of the same records), a population, and where to look."""

    releases: list[tuple[Any, nw.Schema, Any, list[float], dict[str, Any]]]
    population: Any
    thetas: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)

    def made(self) -> list[nw.Release]:
        return [_release(*parts) for parts in self.releases]


def _release(statistic: Any, schema: nw.Schema, guarantee: Any, value: list[float], options: dict[str, Any]):
    made = nw.plan(statistic, schema, guarantee=guarantee, **options)
    step = np.asarray(getattr(made.law, "step", 1), float)
    steps = np.rint(np.asarray(value, float) * made.divisor / step).astype(int)
    return nw.Release.of(made, steps.tolist(), dataset="golden", ledger_head=None, simulated=True)


def _one(statistic: Any, guarantee: Any, value: list[float], population: Any, thetas: Any, **more: Any) -> Case:
    schema = more.pop("schema", None) or _public(more.pop("n", 200))
    run = {"n": more.pop("stated")} if "stated" in more else {}
    return Case([(statistic, schema, guarantee, value, more)], population, thetas, run)


RATES = [{"rate": value} for value in (0.02, 0.03, 0.05)]
SHARES = [{"p": value} for value in ([0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.1, 0.6, 0.3])]
EXPONENTIAL = nw.Exponential(rate=stats.gamma(3, scale=0.01))
LEVELS = nw.Categorical(p=stats.dirichlet([1, 2, 3]))
DELTA = nw.ApproxDP(1, "1e-5")

CASES: dict[str, Case] = {
    "laplace mean": _one(nw.Mean(x), nw.PureDP(1), [1.2], MEAN, MEANS, n=2000),
    "laplace mean, few records": _one(nw.Mean(x), nw.PureDP(1), [1.2], MEAN, MEANS, n=50),
    "laplace mean, refused beyond": _one(
        nw.Mean(x), nw.PureDP(1), [1.2], MEAN, MEANS, schema=_public(2000, outside="refuse")
    ),
    "laplace absolute mean": _one(nw.Mean(abs(x)), nw.PureDP(1), [1.9], MEAN, MEANS, n=2000),
    "laplace sum, add-remove": _one(
        nw.Sum(x), nw.PureDP(1), [2300.0], MEAN, MEANS, schema=_private(4000), stated=2000
    ),
    "gaussian mean, zcdp": _one(nw.Mean(x), nw.ZeroConcentratedDP("0.5"), [1.2], MEAN, MEANS, n=2000),
    "gaussian mean, gdp": _one(nw.Mean(x), nw.GaussianDP(1), [1.2], MEAN, MEANS, n=2000),
    "gaussian mean, approximate": _one(nw.Mean(x), DELTA, [1.2], MEAN, MEANS, n=2000),
    "laplace mean and square": _one(nw.Mean(x, x**2), nw.PureDP(1), [1.2, 5.1], BOTH, PAIRS, n=4000),
    "gaussian mean and square": _one(nw.Mean(x, x**2), nw.GaussianDP(1), [1.2, 5.1], BOTH, PAIRS, n=4000),
    "gaussian mean, square, indicator": _one(
        nw.Mean(x, x**2, x.between(0, 2)), nw.GaussianDP(1), [1.2, 5.1, 0.4], BOTH, PAIRS, n=4000
    ),
    "laplace mean twice": Case(
        [
            (nw.Mean(x), _public(2000), nw.PureDP(1), [1.2], {}),
            (nw.Mean(x**2), _public(2000), nw.PureDP(2), [5.1], {}),
        ],
        BOTH,
        PAIRS,
    ),
    "count": _one(nw.Count(x.between(0, 3)), nw.PureDP(1), [90], MEAN, MEANS),
    "geometric count": _one(nw.Count(x.between(0, 3)), nw.PureDP(1), [90], MEAN, MEANS, mechanism="geometric"),
    "waiting times": _one(nw.Mean(y), nw.PureDP(1), [31.0], EXPONENTIAL, RATES, n=200),
    "gaussian waiting times": _one(nw.Mean(y), nw.GaussianDP(1), [31.0], EXPONENTIAL, RATES, n=200),
    "whole numbers": _one(
        nw.Mean(y), nw.PureDP(1), [31.0], nw.Poisson(rate=stats.gamma(3, scale=10)),
        [{"rate": value} for value in (25.0, 31.0, 40.0)], n=200,
    ),
    "histogram of levels": _one(nw.Histogram("g"), nw.PureDP(1), [50, 60, 90], LEVELS, SHARES),
    "histogram of levels, gaussian": _one(nw.Histogram("g"), nw.GaussianDP(1), [50, 60, 90], LEVELS, SHARES),
    "histogram of cells": _one(nw.Histogram("x", [0, 2]), nw.PureDP(1), [50, 80, 70], MEAN, MEANS),
    "marginals": _one(
        nw.Marginals(["g"]), nw.PureDP(1), [50, 60, 90], LEVELS, SHARES
    ),
    "records, laplace": _one(
        nw.Records(x), nw.PureDP(2), [float(v) for v in np.linspace(-6, 9, 40)], BOTH, PAIRS, n=40
    ),
    "records, gaussian": _one(
        nw.Records(x), nw.GaussianDP(2), [float(v) for v in np.linspace(-6, 9, 40)], MEAN, MEANS, n=40
    ),
    "records in cells": _one(nw.Records(x, cells=[0, 2]), nw.PureDP(2), [10, 18, 12], BOTH, PAIRS, n=40),
    "records of levels": _one(nw.Records("g"), nw.PureDP(2), [10, 18, 12], LEVELS, SHARES, n=40),
    "two columns": _one(
        nw.Mean(x, y), nw.GaussianDP(1), [1.2, 31.0],
        nw.Joint(x=nw.Normal(mean=stats.norm(1, 3), sd=2.0), y=EXPONENTIAL),
        [{"x.mean": 0.3, "y.rate": 0.02}, {"x.mean": 1.1, "y.rate": 0.03}, {"x.mean": 2.4, "y.rate": 0.05}], n=2000,
    ),
}  # fmt: skip
# Plans of the other kinds: what they promise, without a population to learn about.
PLANS: dict[str, tuple[Any, nw.Schema, Any, dict[str, Any]]] = {
    "moments": (nw.Moments(["x"], "y"), _public(200), nw.GaussianDP(1), {}),
    "moments, laplace": (nw.Moments(["x"], "y"), _public(200), nw.PureDP(1), {}),
    "moments, shortened": (nw.Moments(["x"], "y", shrink=2, scale={"y": 100}), _public(200), nw.GaussianDP(1), {}),
    "moments, add-remove": (nw.Moments(["x"], "y"), _private(400), nw.GaussianDP(1), {}),
    "smallest eigenvalue": (nw.SmallestEigenvalue(["x", "y"], shrink=2), _public(200), DELTA, {}),
    "truncated sum": (nw.TruncatedSum([y], "x", 0, 5), _private(400), nw.PureDP(1), {}),
    "median": (nw.Median(x), _public(200), DELTA, {}),
    "maximum": (nw.Maximum(x), _public(200), nw.PureDP(1), {}),
    "quantile": (nw.Quantile(x, "1/4"), _public(200), nw.PureDP(1), {}),
}


def measured(name: str) -> dict[str, Any]:
    """All numbers of one case."""
    case = CASES[name]
    releases = case.made()
    theta = {key: np.array([one[key] for one in case.thetas], float) for key in case.thetas[0]}
    law = joint_likelihood(releases, case.population, **case.options)
    statistic, schema, guarantee, _, options = case.releases[0]
    plan = nw.plan(statistic, schema, guarantee=guarantee, **options)
    found = {
        **planned(plan),
        "log_likelihood": law.log_likelihood(theta).tolist(),
        "score": {key: np.asarray(value).tolist() for key, value in law.score(theta).items()},
        "posterior": _posterior(releases, case),
    }
    if len(releases) == 1:
        information = nw.information(plan, case.population, at=case.thetas[0], **case.options)
        if not np.any(information.matrix_error):
            found["information"] = np.asarray(information.matrix).tolist()
    return found


def planned(plan: nw.Plan) -> dict[str, Any]:
    """What a plan promises."""
    return {
        "noise": [float(v) for v in np.ravel(getattr(plan.law, "scale", ()))],
        "step": [float(v) for v in np.ravel(getattr(plan.law, "step", ()))],
        "cost": str(plan.cost),
    }


def _posterior(releases: list[nw.Release], case: Case) -> dict[str, Any] | None:
    fit = nw.infer(releases, case.population, draws=50, warmup=50, seed=1, progress=False, **case.options)
    if fit.moments is None:
        return None
    return {key: [np.ravel(mean).tolist(), np.ravel(sd).tolist()] for key, (mean, sd) in fit.moments.items()}


def everything() -> dict[str, Any]:
    plans = {
        name: planned(nw.plan(statistic, schema, guarantee=guarantee, **options))
        for name, (statistic, schema, guarantee, options) in PLANS.items()
    }
    return {"cases": {name: measured(name) for name in CASES}, "plans": plans}


if __name__ == "__main__":
    FILE.write_text(json.dumps(everything(), indent=1) + "\n")
