"""posterior-gallery: every likelihood, sampled by every kernel that can, against exact computation.

One release a likelihood is simulated: sums by the central limit theorem and by their own law, one and two components,
Laplace and Gaussian noise; counts and tables by enumeration; local answers in closed form; a median by a bank.
`infer(method="exact")` gives independent draws from each posterior; the published samplers run on the same release.
    deviation      (mean - exact mean) / Monte Carlo standard error of the two
    deviation_sd   the same for the standard deviation
Where every kernel is right, deviations are standard normal; among a hundred the largest is about 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.diagnostics import ess_mean, mcse_mean, mcse_sd
from noisewise.inference.infer import infer
from noisewise.models.simulate import simulate
from noisewise.planning import plan
from noisewise.populations.parameters import Array
from noisewise.populations.population import Bernoulli, Categorical, Normal
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Mean, Median, Records, column
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("mh", "slice", "mh-within-gibbs", "pmmh", "cpm", "mhaar")
FEW_CHAINS = 4  # on a slow likelihood, where chains gain nothing by moving together


@dataclass(frozen=True, slots=True)
class Case:
    """One release: what is published of which records, under which promise, and how it is thought of."""

    statistic: Any
    n: int
    guarantee: Guarantee
    population: Any
    truth: Mapping[str, object]
    mechanism: str | None = None
    likelihood: str = "auto"
    left_out: tuple[str, ...] = ()  # of a default run: pairs that cost a hundred times a closed form


def cases() -> dict[str, Case]:
    """The gallery, by name."""
    from scipy import stats

    x = column("x")
    # Priors a few posterior widths wide: chains begin at draws from them, and a default run is short.
    variance = Normal(mean=0, variance=stats.uniform(0, 6))
    both = Normal(mean=stats.norm(1, 1), sd=stats.gamma(6, scale=1 / 3))
    wide, spread = {"variance": 2.0}, {"mean": 1.0, "sd": 2.0}
    answers = Normal(mean=stats.norm(0, 2), sd=2.0)
    return {
        "mean, normal + Laplace": Case(Mean(abs(x)), 200, PureDP(1), variance, wide, "laplace", "clt"),
        "mean, normal + Gaussian": Case(Mean(abs(x)), 200, GaussianDP(1), variance, wide, "gaussian", "clt"),
        "two means, normal + Laplace": Case(
            Mean(x, x**2), 200, PureDP(4), both, spread, "laplace", "clt", left_out=("slice",)
        ),
        "two means, normal + Gaussian": Case(Mean(x, x**2), 200, GaussianDP(2), both, spread, "gaussian", "clt"),
        "mean of few, own law": Case(Mean(abs(x)), 30, PureDP(5), variance, wide, "laplace", left_out=("slice",)),
        "count": Case(
            Count(column("smoker").equals("yes")), 200, PureDP("1/2"), Bernoulli(p=stats.beta(1, 1)), {"p": 0.3}
        ),
        "table": Case(
            Histogram("region"), 100, PureDP(1), Categorical(p=stats.dirichlet([1, 1, 1])), {"p": [0.5, 0.3, 0.2]},
            left_out=("slice",),
        ),
        "local x": Case(Records(x), 200, PureDP(4), answers, {"mean": 1.0}, "laplace"),
        "local |x|": Case(Records(abs(x)), 200, PureDP(4), variance, wide, "laplace"),
        "local x^2": Case(Records(x**2), 200, PureDP(4), variance, wide, "laplace"),
        "local cells": Case(
            Records(x, cells=[-2, 0, 2]), 400, PureDP(2), answers, {"mean": 1.0}, "randomized-response"
        ),
        "median, smooth Laplace": Case(
            Median(abs(x)), 50, ApproxDP(2, "1/2500"), variance, wide, "smooth-laplace", left_out=("mh", "slice")
        ),
    }  # fmt: skip


Point = tuple[str, int, Mapping[str, Any]]


def measure(setup: Setup) -> Rows:
    """For every release and parameter one row of `exact` and one a valid kernel."""
    points: list[Point] = [(name, setup.seed, setup.settings) for name in cases()]
    return [row for rows in setup.map(rows_of, points, "releases") for row in rows]


def rows_of(rng: np.random.Generator, point: Point) -> list[Row]:
    """Simulate one release and infer from it in every way."""
    name, seed, settings = point
    case = cases()[name]
    planned = plan(case.statistic, schema_of(case), guarantee=case.guarantee, mechanism=case.mechanism)
    own_seed = np.random.SeedSequence([seed, crc32(name.encode())])
    release = simulate(planned, case.population, at=case.truth, seed=own_seed)
    rows: list[Row] = []
    exact: dict[str, Array] = {}
    chains = min(settings["chains"], FEW_CHAINS) if case.left_out else settings["chains"]
    for method in ("exact", *KERNELS):
        if method in case.left_out and not settings["slow_pairs"]:
            continue
        try:
            posterior = infer(
                release, case.population, method=method, likelihood=case.likelihood, draws=settings["draws"],
                warmup=settings["warmup"], chains=chains, seed=int(rng.integers(2**32)), progress=False,
            )  # fmt: skip
        except Unsupported:
            continue
        found = _scalars(posterior.draws)
        exact = exact or found
        for parameter, values in found.items():
            against = None if method == "exact" else exact[parameter]
            rows.append(_row(name, parameter, method, values, against, posterior.seconds))
    return rows


def schema_of(case: Case) -> Schema:
    """The records behind a case."""
    columns: dict[str, Bounded | Levels] = {
        "x": Bounded(-10, 10),
        "smoker": Levels(["no", "yes"]),
        "region": Levels(["north", "south", "east"]),
    }
    return Schema(columns, n=case.n, neighbours="change-one")


def _row(release: str, parameter: str, method: str, draws: Array, exact: Array | None, seconds: float) -> Row:
    return {
        "release": release,
        "parameter": parameter,
        "method": method,
        "mean": float(draws.mean()),
        "sd": float(draws.std()),
        "ess_per_second": ess_mean(draws) / seconds,
        "deviation": None if exact is None else deviation(draws, exact, np.mean, mcse_mean),
        "deviation_sd": None if exact is None else deviation(draws, exact, np.std, mcse_sd),
    }


def deviation(one: Array, two: Array, summary: Any, error: Any) -> float:
    """The difference of two summaries in their common standard error."""
    return float(summary(one) - summary(two)) / math.hypot(error(one), error(two))


def _scalars(draws: Mapping[str, Array]) -> dict[str, Array]:
    """Draws (chains, draws) of every unknown number; a vector's entries but the last, which the others give."""
    found = {}
    for name, values in draws.items():
        if values.ndim == 2:
            found[name] = values
        else:
            found |= {f"{name}[{k}]": values[:, :, k] for k in range(values.shape[2] - 1)}
    return found


def draw(figure: Figure, rows: Rows) -> None:
    """How far each kernel lies from exact computation, and what a second buys."""
    figure.set_size_inches(10, 6)
    left, right = figure.subplots(1, 2, sharey=True)
    lines = list(dict.fromkeys(f"{row['release']}: {row['parameter']}" for row in rows))
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        place = [lines.index(f"{row['release']}: {row['parameter']}") for row in mine]
        marker = "k|" if method == "exact" else "o"
        right.plot([row["ess_per_second"] for row in mine], place, marker, label=method, alpha=0.8)
        if method == "exact":
            left.plot([], [], marker)
        else:
            left.plot([row["deviation"] for row in mine], place, marker, label=method, alpha=0.8)
    left.axvspan(-3, 3, color="0.93", zorder=0)
    left.set_yticks(range(len(lines)), lines, fontsize="small")
    left.invert_yaxis()
    left.set(xlabel="deviation from the exact mean (standard errors)")
    right.set(xscale="log", xlabel="effective draws a second")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize="small")


def note(rows: Rows) -> str:
    """What the table shows."""
    sampled = [abs(row[field]) for row in rows if row["method"] != "exact" for field in ("deviation", "deviation_sd")]
    return (
        f"Of {len(sampled)} comparisons with exact computation the furthest lies {max(sampled):.1f} Monte Carlo "
        f"standard errors away; {sum(far > 3 for far in sampled)} lie beyond 3, where chance alone puts "
        f"{0.0027 * len(sampled):.1f}."
    )


STUDY = Study(
    name="posterior-gallery",
    about="Every likelihood, by exact computation and by every kernel that can sample it.",
    source="the samplers of Alparslan & Yıldırım (2022) and Alparslan (2023)",
    settings={
        "draws": Setting(int, 100, "of each chain", full=5000, at_least=50),
        "warmup": Setting(int, 200, "of each chain", full=1000, at_least=0),
        "chains": Setting(int, 20, "of each method; 4 on a slow likelihood", at_least=2),
        "slow_pairs": Setting(int, 0, "1: also pairs of a slow kernel and a slow likelihood", full=1, at_least=0),
    },
    columns=("release", "parameter", "method", "mean", "sd", "ess_per_second", "deviation", "deviation_sd"),
    measure=measure,
    draw=draw,
    note=note,
)
