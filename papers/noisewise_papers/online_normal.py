"""online-normal: how well the mean and the sd of a normal population are learned from people asked one by one.

X_t ~ N(mean, sd^2), t = 1, ..., n; each person answers one private question. Mean ~ N(0, 100^2) and variance ~ inverse
gamma(1, 1) a priori (Yıldırım 2024, section 4.1, Figures 1 and 2). In every run all methods meet the same people:
    adaptive      the survey of this library: each question is the most informative one of all families
    fixed         everyone is clipped to mean +- 10 sd, as in print; by the same particles
    fixed-2sd     everyone is clipped to mean +- 2 sd: a guess that happens to be right
    fixed-oracle  everyone is asked the one question that is best at the true mean and sd, which nobody knows
    mcmc          the answers of `fixed` in one batch, by MHAAR
    clip sign cells clip-location clip-harmonic     adaptive, with one family or a published score (`query`)

`rmse` is that of the posterior mean over the runs, `iqr` the interquartile range of these means (Figure 2's boxes), and
`cramer_rao` the least standard error of an unbiased estimate from the questions that were asked,
sqrt((sum_t F_t)^-1)_ii at the truth. A posterior mean leans on the prior, so where answers say little (`fixed`) it may
stay below. `excess` is the mean over runs of the squared error minus that of `adaptive` in the same run, and
`excess_se` its standard error. Seconds are of the processor, one run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.online.collect import cramer_rao
from noisewise.populations.parameters import Array
from noisewise_papers.online import (
    ADAPTIVE,
    FIXED,
    MCMC,
    QUERIES,
    Estimate,
    around,
    batch,
    oracle,
    published_population,
    surveyed,
)
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARAMETERS = ("mean", "sd")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#1d2733", "#6b7885", "#882255", "#44AA99")
Found = dict[str, dict[str, Any]]


def measure(setup: Setup) -> Rows:
    """One row an epsilon, method and parameter."""
    settings = dict(setup.settings)
    points = [(epsilon, settings) for epsilon in settings["epsilon"] for _ in range(settings["runs"])]
    found = setup.map(run_at, points, "runs")
    rows = []
    for k, epsilon in enumerate(settings["epsilon"]):
        runs = found[k * settings["runs"] : (k + 1) * settings["runs"]]
        truth = {"mean": settings["mean"], "sd": settings["sd"]}
        rows += [row_of(epsilon, method, name, truth[name], runs) for method in runs[0] for name in PARAMETERS]
    return rows


def run_at(rng: np.random.Generator, point: tuple[float, dict[str, Any]]) -> Found:
    """Every method on the same people."""
    epsilon, settings = point
    mean, sd, particles = settings["mean"], settings["sd"], settings["n_particles"]
    people = rng.normal(mean, sd, settings["n"])
    ways: dict[str, Any] = {
        ADAPTIVE: ADAPTIVE,
        FIXED: around(mean, sd, 10, epsilon),
        "fixed-2sd": around(mean, sd, 2, epsilon),
        "fixed-oracle": oracle(mean, sd, epsilon),
    }
    ways |= {name: name for name in settings["query"]}
    found = {}
    for method, way in ways.items():
        estimate = surveyed(rng, people, epsilon, way, particles)
        found[method] = facts(estimate, {"mean": mean, "sd": sd})
        if method == FIXED:
            assert estimate.collected is not None
            found[MCMC] = facts(batch(rng, estimate.collected)) | {"cramer_rao": found[FIXED]["cramer_rao"]}
    return found


def facts(estimate: Estimate, truth: dict[str, float] | None = None) -> dict[str, Any]:
    """What a row needs of one run."""
    known: dict[str, Any] = {
        "estimate": dict(estimate.mean), "seconds": estimate.seconds, "rejuvenations": estimate.rejuvenations
    }  # fmt: skip
    if truth is not None and estimate.collected is not None:
        known["cramer_rao"] = cramer_rao(published_population(), estimate.collected.questions, truth)
    return known


def row_of(epsilon: float, method: str, parameter: str, truth: float, runs: list[Found]) -> Row:
    """One method and parameter over all runs."""

    def errors(method: str) -> Array:
        return np.array([run[method]["estimate"][parameter] for run in runs]) - truth

    own = errors(method)
    excess = np.square(own) - np.square(errors(ADAPTIVE))
    is_other = method != ADAPTIVE
    least = np.array([run[method]["cramer_rao"][parameter] for run in runs])
    moved = [run[method]["rejuvenations"] for run in runs]
    return {
        "epsilon": epsilon,
        "method": method,
        "parameter": parameter,
        "rmse": float(np.sqrt(np.mean(own**2))),
        "iqr": float(np.subtract(*np.quantile(own, [0.75, 0.25]))),
        "cramer_rao": float(np.sqrt(np.mean(least**2))),
        "seconds": float(np.mean([run[method]["seconds"] for run in runs])),
        "rejuvenations": None if moved[0] is None else float(np.mean(moved)),
        "excess": float(np.mean(excess)) if is_other else None,
        "excess_se": float(np.std(excess, ddof=1) / np.sqrt(len(runs))) if is_other and len(runs) > 1 else None,
    }


def draw(figure: Figure, rows: Rows) -> None:
    """RMSE against epsilon, one panel a parameter; the Cramér-Rao value of the adaptive questions as a dotted line."""
    panels = figure.subplots(1, 2)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for axes, parameter in zip(panels, PARAMETERS, strict=True):
        for k, method in enumerate(methods):
            some = [row for row in rows if (row["method"], row["parameter"]) == (method, parameter)]
            epsilon, colour = [row["epsilon"] for row in some], COLOURS[k % len(COLOURS)]
            axes.plot(epsilon, [row["rmse"] for row in some], "o-", color=colour, label=method, markersize=4)
            if method == ADAPTIVE:
                axes.plot(epsilon, [row["cramer_rao"] for row in some], ":", color=colour, label="its Cramér-Rao value")
        axes.set(xlabel="epsilon", ylabel=f"RMSE of the {parameter}", xscale="log", yscale="log")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="small")


def note(rows: Rows) -> str:
    """Who beats whom, by how many standard errors."""
    adaptive = [row for row in rows if row["method"] == ADAPTIVE]
    fixed = {(row["epsilon"], row["parameter"]): row for row in rows if row["method"] == FIXED}
    pairs = [(row, fixed[row["epsilon"], row["parameter"]]) for row in adaptive]
    won = sum(row["rmse"] < other["rmse"] for row, other in pairs)
    gains = [other["rmse"] / row["rmse"] for row, other in pairs]
    ratios = [row["rmse"] / row["cramer_rao"] for row in adaptive if row["parameter"] == "mean"]
    return (
        f"Adaptive questions beat the fixed wide interval in {won} of {len(pairs)} cells, by a factor of "
        f"{min(gains):.1f} to {max(gains):.1f} in RMSE. The RMSE of the mean is {min(ratios):.2f} to "
        f"{max(ratios):.2f} times the Cramér-Rao value of the questions. An excess beyond 3 of its standard errors is "
        "a difference; below that the runs do not tell."
    )


STUDY = Study(
    name="online-normal",
    about="The mean and sd of a normal population from adaptive, fixed and batch questions.",
    source="Yıldırım (2024), Figures 1 and 2",
    settings={
        "n": Setting(int, 1000, "people", at_least=2),
        "n_particles": Setting(int, 200, "particles", full=1000, at_least=10),
        "runs": Setting(int, 4, "runs, each with new people", full=200, at_least=1),
        "mean": Setting(float, 50.0, "the true mean"),
        "sd": Setting(float, 10**0.5, "the true sd", above=0),
        "epsilon": Setting(float, (1.0, 5.0), "of epsilon-DP, for each answer", full=(1.0, 2.0, 5.0, 10.0), above=0),
        "query": Setting(str, ("clip", "sign", "cells"), "adaptive with one family only", choices=QUERIES),
    },
    columns=(
        "epsilon", "method", "parameter", "rmse", "iqr", "cramer_rao", "seconds", "rejuvenations",
        "excess", "excess_se",
    ),
    measure=measure,
    draw=draw,
    note=note,
)  # fmt: skip
