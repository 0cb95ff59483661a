"""point-bernoulli: the best private estimate of a proportion, against Laplace noise on the usual one.

K records are 1 with probability p ~ prior; the statistic is their sum. For every K and epsilon, the Bayes risk of
    unified          geometric noise and the Bayes action: the optimum in closed form
    unified-lp       the linear program of the paper, answers on a grid
    laplace          the posterior mean plus Laplace noise, as printed
    laplace-clipped  the same, moved into [0, 1]
    laplace-bayes    the Bayes action given the noisy value
(Lakshminarayanan & Rojas, A unified approach to differentially private Bayes point estimation, Figures 3 to 7), exactly
and by simulating parameter, records and mechanism.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.point.laplace import LaplaceEstimator
from noisewise.point.losses import read_loss
from noisewise.point.models import Problem, read_problem
from noisewise.point.optimal import optimal_estimator
from noisewise.populations.parameters import Array
from noisewise.populations.population import Population
from noisewise.populations.text import population_from_spec
from noisewise.privacy.guarantee import PureDP
from noisewise.types import Integers
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("unified", "unified-lp", "laplace", "laplace-clipped", "laplace-bayes")
KIND = {"laplace": "printed", "laplace-clipped": "clipped", "laplace-bayes": "bayes"}
HIGH_PRIVACY = (0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009, 0.01)
LOW_PRIVACY = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
Point = tuple[int, float, Mapping[str, Any]]


def measure(setup: Setup) -> Rows:
    """One row a K, epsilon and method."""
    _population(setup["prior"]), read_loss(setup["loss"])  # better refused before the work than after
    points: list[Point] = [(size, epsilon, setup.settings) for size in setup["K"] for epsilon in setup["epsilon"]]
    return [row for rows in setup.map(rows_at, points, "budgets") for row in rows]


def rows_at(rng: np.random.Generator, point: Point) -> list[Row]:
    """Every method at one K and epsilon, on the same simulated parameters and records."""
    size, epsilon, settings = point
    population, loss = _population(settings["prior"]), read_loss(settings["loss"])
    problem = read_problem(population, loss, n=size, statistic=None, schema=None, estimand=None)
    truth = population.sample_prior(rng, settings["draws"])["p"]
    counts = rng.binomial(size, truth)
    rows = []
    for method in METHODS:
        begun = time.perf_counter()
        if method in KIND:
            noisy = LaplaceEstimator.of(problem, loss, epsilon, KIND[method])
            risk = noisy.risk
            seconds = time.perf_counter() - begun
            answers = noisy.answers(noisy.centres[counts] + noisy.scale * rng.laplace(size=len(counts)))
        else:
            matrix, actions, risk = _unified(method, population, problem, epsilon, size, settings)
            seconds = time.perf_counter() - begun
            answers = drawn_answers(rng, matrix, actions, counts)
        simulated = float(loss.cost(truth, answers).mean())
        rows.append({"K": size, "epsilon": epsilon, "method": method, "risk": risk, "monte_carlo_risk": simulated,
                     "seconds": seconds})  # fmt: skip
    return rows


def _unified(
    method: str, population: Population, problem: Problem, epsilon: float, size: int, settings: Mapping[str, Any]
) -> tuple[Array, Array, float]:
    answers = np.linspace(*problem.belief.range, settings["grid"]) if method == "unified-lp" else None
    found = optimal_estimator(population, settings["loss"], guarantee=PureDP(epsilon), n=size, actions=answers)
    return found.matrix, found.actions, found.risk


def drawn_answers(rng: np.random.Generator, matrix: Array, actions: Array, counts: Integers) -> Array:
    """One simulated answer for each count, from its row."""
    passed = np.cumsum(matrix, axis=1)[counts] < rng.random((len(counts), 1))
    return np.asarray(actions[np.minimum(passed.sum(axis=1), len(actions) - 1)])


def _population(prior: str) -> Population:
    try:
        found = population_from_spec({"x": f"bernoulli(p={prior})"})
    except ValueError as error:
        raise InvalidArgument(f"prior = {prior!r:.60}: {error}", argument="prior") from None
    if not isinstance(found, Population) or not found.free:
        raise InvalidArgument(f"prior = {prior!r:.60}: expected a distribution, as in beta(2, 2).", argument="prior")
    return found


def draw(figure: Figure, rows: Rows) -> None:
    """Risk against epsilon, one panel a K; where several K have one epsilon, against K."""
    sizes = list(dict.fromkeys(row["K"] for row in rows))
    budgets = list(dict.fromkeys(row["epsilon"] for row in rows))
    across, panels = ("epsilon", sizes) if len(budgets) > 1 else ("K", budgets)
    held = "K" if across == "epsilon" else "epsilon"
    figure.set_size_inches(max(6.0, 4.0 * len(panels)), 4.4)
    for axes, panel in zip(np.ravel(figure.subplots(1, len(panels), sharey=True)), panels, strict=True):
        for method in METHODS:
            mine = [row for row in rows if row["method"] == method and row[held] == panel]
            style = "--" if method == "unified-lp" else "-"
            thick = 3.5 if method == "unified" else 1.5
            (line,) = axes.plot([row[across] for row in mine], [row["risk"] for row in mine], style, linewidth=thick,
                                label=method)  # fmt: skip
            axes.plot([row[across] for row in mine], [row["monte_carlo_risk"] for row in mine], ".",
                      color=line.get_color())  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel=across, title=f"{held} = {panel:g}")
    figure.axes[0].set_ylabel("Bayes risk (points: simulated)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def note(rows: Rows) -> str:
    """What the table shows."""
    risk = {(row["K"], row["epsilon"], row["method"]): row["risk"] for row in rows}
    points = list(dict.fromkeys((row["K"], row["epsilon"]) for row in rows))
    worse = [point for point in points if any(risk[*point, "unified"] > risk[*point, m] * (1 + 1e-9) for m in METHODS)]
    gaps = [risk[*point, "unified-lp"] / risk[*point, "unified"] - 1 for point in points]
    verdict = f"At {len(worse)} of them something is better" if worse else "At none of them is anything better"
    return (
        f"The unified estimator at {len(points)} settings. {verdict}, so where print shows it above Laplace noise, "
        f"that is not a property of the method. The program with answers on a grid is at most {max(gaps):.1e} "
        "(relative) above it."
    )


STUDY = Study(
    name="point-bernoulli",
    about="The best private estimate of a proportion, and Laplace noise on the usual one.",
    source="Lakshminarayanan & Rojas, A unified approach to differentially private Bayes point estimation, Figures 3-7",
    settings={
        "K": Setting(int, (10,), "records", full=(2, 5, 10, 20), at_least=1),
        "epsilon": Setting(
            float,
            (0.001, 0.005, 0.01, 0.1, *LOW_PRIVACY[::2]),
            "of epsilon-DP",
            full=(*HIGH_PRIVACY, 0.1, *LOW_PRIVACY),
            above=0,
        ),
        "prior": Setting(str, "beta(1, 1)", "of the proportion, as in a spec file"),
        "loss": Setting(str, "squared", "squared, absolute, pinball(0.9) or window(0.1)"),
        "grid": Setting(int, 200, "answers of the linear program", full=1000, at_least=2),
        "draws": Setting(int, 5000, "simulated parameters and records", full=100_000, at_least=2),
    },
    columns=("K", "epsilon", "method", "risk", "monte_carlo_risk", "seconds"),
    measure=measure,
    draw=draw,
    note=note,
)
