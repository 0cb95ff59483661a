"""regression-yes-no: how well a private logistic regression predicts, and whether its slopes are what they claim to be.

Two sets of records. `bike-sharing` is real (UCI, CC BY 4.0): was an hour busy, more than 150 rides, given weather and
calendar? Bounds and threshold are round public numbers; 80 % of the hours make one release of `Moments`, the others are
predicted. `simulated` has a known truth: 2000 records with one normal number and one yes/no column.

    ours                     the posterior of `LogisticRegression` from one release at (epsilon, 1/n), change-one
    naive                    Fisher's discriminant from the same noisy sums, taken as exact
    objective-perturbation   Chaudhuri, Monteleoni & Sarwate (2011) on the records: epsilon-DP, change-one
    dp-sgd                   noisy gradients (Abadi et al. 2016) on the records: (epsilon, 1/n), added or removed
    non-private              the mode on the records

The guarantees differ as said; ours is the only one that publishes something from which more than one fit can be made.
`log_loss` and `accuracy` are at the rows that were not used, `slope_error` is the root mean square of slopes less the
truth, `covered` the share of slopes within their 90 % intervals; `answered` the share of releases with a fit at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy.special import expit, ndtri

from noisewise.inference.infer import infer
from noisewise.likelihood.simulate import noisy_values
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import guarantee_from_spec
from noisewise.published.baselines.logistic import (
    LogisticFit,
    discriminant,
    dp_sgd_logistic,
    non_private_logistic,
    objective_perturbation,
)
from noisewise.regression.glm.model import LogisticRegression
from noisewise.regression.priors import INTERCEPT
from noisewise.regression.units import Units
from noisewise.release import Release
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import statistic
from noisewise.statistics.evaluation import evaluated
from noisewise.types import Floats
from noisewise_papers.real_data import DATASETS, read, stand_in
from noisewise_papers.setting import Setting
from noisewise_papers.study import Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, NAIVE, OBJECTIVE, SGD, NON_PRIVATE = "ours", "naive", "objective-perturbation", "dp-sgd", "non-private"
METHODS = (OURS, NAIVE, OBJECTIVE, SGD, NON_PRIVATE)
BIKE, SIMULATED = "bike-sharing", "simulated"
TRAINED, LEVEL, RIDGE, SIZE = 0.8, 0.9, 1e-3, 2500
COLUMNS: Mapping[str, Bounded | Levels] = {
    "temperature": Bounded(0, 1),
    "humidity": Bounded(0, 1),
    "workingday": Levels([0, 1]),
    "year": Levels([0, 1]),
    "hour": Bounded(0, 23),
    "count": Bounded(0, 1500),
}
BUSY = "count > 150 ~ temperature + humidity + workingday + year + between(hour, 7, 20)"
PUBLIC = "centre={temperature: 1/2, humidity: 3/5}, scale={temperature: 1/5, humidity: 1/5}"
OWN: Mapping[str, Bounded | Levels] = {"x": Bounded(-5, 5), "u": Levels([0, 1]), "y": Levels([0, 1])}
TRUTH = np.array([-0.7, 1.0, 0.8])  # intercept, x, u


class Task(NamedTuple):
    """One release of one data set, and who learns from it."""

    dataset: str
    path: Path | None
    epsilon: float
    methods: tuple[str, ...]
    draws: int


class Sample(NamedTuple):
    """Columns, in codes of their levels, and what is asked of them."""

    columns: dict[str, Floats]
    schema: Mapping[str, Bounded | Levels]
    statistic: str
    truth: Floats | None


def measure(setup: Setup) -> Rows:
    """One row for each data set, epsilon and method."""
    found_in = DATASETS[BIKE].found_in(setup.data)
    cells = [(name, epsilon) for name in setup["dataset"] for epsilon in setup["epsilon"]]
    tasks = [
        Task(name, found_in if name == BIKE else None, epsilon, setup["method"], setup["draws"])
        for name, epsilon in cells
        for _ in range(setup["repeats"])
    ]
    found = setup.map(compared, tasks, "releases")
    rows = []
    for k, (name, epsilon) in enumerate(cells):
        each = found[k * setup["repeats"] : (k + 1) * setup["repeats"]]
        shown = name + (" (simulated)" if name == BIKE and found_in is None else "")
        for method in setup["method"]:
            rows.append({"dataset": shown, "epsilon": epsilon, "method": method, **_averaged(each, method)})
    return rows


def _averaged(found: list[dict[str, dict[str, float]]], method: str) -> dict[str, float | None]:
    fits = [one[method] for one in found if method in one]
    names = ("log_loss", "accuracy", "slope_error", "covered")
    means = {name: [fit[name] for fit in fits if name in fit] for name in names}
    averages = {name: float(np.mean(values)) if values else None for name, values in means.items()}
    if averages["slope_error"] is not None:
        averages["slope_error"] = math.sqrt(averages["slope_error"])
    return averages | {"answered": len(fits) / len(found)}


def compared(rng: np.random.Generator, task: Task) -> dict[str, dict[str, float]]:
    """What each method that has an answer says about rows it has not seen."""
    records = _records(rng, task)
    order = rng.permutation(len(next(iter(records.columns.values()))))
    n = math.ceil(TRAINED * len(order))
    used, unused = ({name: one[part] for name, one in records.columns.items()} for part in (order[:n], order[n:]))
    planned = plan_of(records, n, task.epsilon)
    x, y = design(planned, unused)
    found: dict[str, dict[str, float]] = {}
    for method in task.methods:
        fit = fitted(rng, method, task, planned, used)
        if not np.isfinite(fit.coefficients).all():
            continue
        p = np.clip(fit.probabilities(x), 1e-9, 1 - 1e-9)
        found[method] = {
            "log_loss": float(-np.mean(y * np.log(p) + (1 - y) * np.log1p(-p))),
            "accuracy": float(np.mean((p > 0.5) == y)),
        }
        if records.truth is not None:
            away = fit.coefficients[1:] - records.truth[1:]
            found[method]["slope_error"] = float(np.mean(away**2))
            if fit.covariance is not None:
                reach = float(ndtri((1 + LEVEL) / 2)) * np.sqrt(np.diag(fit.covariance)[1:])
                found[method]["covered"] = float(np.mean(np.abs(away) < reach))
    return found


def _records(rng: np.random.Generator, task: Task) -> Sample:
    if task.dataset == SIMULATED:
        u = (rng.random(SIZE) < 0.3).astype(float)
        x = np.clip(0.3 * u + rng.standard_normal(SIZE), -5, 5)
        y = (rng.random(SIZE) < expit(TRUTH[0] + TRUTH[1] * x + TRUTH[2] * u)).astype(float)
        return Sample({"x": x, "u": u, "y": y}, OWN, "moments('y ~ x + u', family='logistic')", TRUTH)
    dataset = DATASETS[BIKE]
    table = stand_in(dataset) if task.path is None else read(task.path, dataset)
    columns = {name: table[:, dataset.names.index(name)] for name in COLUMNS}
    columns |= {name: (columns[name] >= 0.5).astype(float) for name in ("workingday", "year")}
    return Sample(columns, COLUMNS, f"moments('{BUSY}', family='logistic', {PUBLIC})", None)


def plan_of(records: Sample, n: int, epsilon: float) -> Plan:
    """One release of n records at (epsilon, 1/n)."""
    schema = Schema(records.schema, n=n, neighbours="change-one")
    price = guarantee_from_spec({"epsilon": epsilon, "delta": 1 / n})
    return plan(statistic(records.statistic, schema), schema, guarantee=price)


def design(planned: Plan, columns: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Rows (1, features) in units of the public centre and scale, and the response."""
    moments = cast(Any, planned.statistic)
    *x, y = evaluated(moments.entries(planned.schema), dict(columns), planned.schema)
    return np.column_stack([np.ones(len(y)), *x]), y


def fitted(
    rng: np.random.Generator, method: str, task: Task, planned: Plan, columns: Mapping[str, Floats]
) -> LogisticFit:
    """Coefficients for rows in units of the public centre and scale, from records or from one release of them."""
    x, y = design(planned, columns)
    n, d = x.shape
    if method == NON_PRIVATE:
        return non_private_logistic(x, y, prior_sd=10.0)
    if method == OBJECTIVE:
        return objective_perturbation(rng, x, y, epsilon=task.epsilon, radius=math.sqrt(d), ridge=RIDGE)
    if method == SGD:
        return dp_sgd_logistic(rng, x, y, epsilon=task.epsilon, delta=1 / n, clip=math.sqrt(d) / 2)
    value = noisy_values(rng, planned, {name: one[None] for name, one in columns.items()})[0]
    name = f"simulated-{rng.bytes(8).hex()}"
    release = Release.of(planned, value.tolist(), dataset=name, ledger_head=None, simulated=True)
    return _discriminant(release, n) if method == NAIVE else _posterior(rng, release, task.draws)


def _discriminant(release: Release, n: int) -> LogisticFit:
    moments = cast(Any, release.statistic)
    size = len(moments.features) + 2
    table = np.zeros((size, size))
    for pair, value in zip(moments.pairs(release.schema), release.estimate, strict=True):
        table[pair] = table[pair[::-1]] = value
    for (a, b), (slope, constant) in moments.implied(release.schema).items():  # sums that follow from others
        table[a, b] = table[b, a] = float(slope) * table[0, b] + float(constant) * n
    return discriminant(n, table[0, 1:-1], table[1:-1, 1:-1], table[0, -1], table[1:-1, -1])


def _posterior(rng: np.random.Generator, release: Release, draws: int) -> LogisticFit:
    """Posterior mean and covariance, in units of the public centre and scale."""
    moments = cast(Any, release.statistic)
    model, units = LogisticRegression(moments.features, moments.response), Units.of(moments)
    found = infer(release, model, seed=int(rng.integers(2**31)), draws=draws, progress=False)
    slopes = np.stack([found.draws[str(feature)].reshape(-1) for feature in moments.features], axis=1)
    start = found.draws[INTERCEPT].reshape(-1) + slopes @ units.centre[:-1]
    theta = np.column_stack([start, slopes / units.factor[:-1]])
    return LogisticFit(theta.mean(axis=0), np.cov(theta, rowvar=False), found.method)


def draw(figure: Figure, rows: Rows) -> None:
    """Log loss by method, one panel for each data set, one line for each epsilon."""
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        own = [row for row in rows if row["dataset"] == name]
        for epsilon in dict.fromkeys(row["epsilon"] for row in own):
            line = [row for row in own if row["epsilon"] == epsilon and row["log_loss"] is not None]
            axes.plot([row["log_loss"] for row in line], [row["method"] for row in line], "o", label=f"{epsilon:g}")
        axes.set(title=name, xlabel="log loss at unused rows")
        axes.legend(title="epsilon", frameon=False, fontsize="small")


def note(rows: Rows) -> str:
    """What differs between the guarantees."""
    del rows
    return (
        "ours and naive: (epsilon, 1/n), change-one, one release for any number of fits; objective-perturbation: "
        "epsilon, change-one, one fit; dp-sgd: (epsilon, 1/n), records added or removed, one fit."
    )


STUDY = Study(
    name="regression-yes-no",
    about="How well private logistic regressions predict, and whether their slopes are covered as claimed.",
    source="Chaudhuri, Monteleoni & Sarwate (2011); Abadi et al. (2016)",
    settings={
        "dataset": Setting(str, (BIKE, SIMULATED), "whose records", choices=(BIKE, SIMULATED)),
        "epsilon": Setting(float, (1.0,), "the privacy of a release", full=(0.3, 1.0, 3.0), above=0),
        "repeats": Setting(int, 2, "releases, each of another 80 % of the records", full=50, at_least=1),
        "method": Setting(str, METHODS, "who learns", choices=METHODS),
        "draws": Setting(int, 250, "of each of 4 chains of ours", full=1000, at_least=10),
    },
    columns=("dataset", "epsilon", "method", "log_loss", "accuracy", "slope_error", "covered", "answered"),
    measure=measure,
    draw=draw,
    note=note,
)
