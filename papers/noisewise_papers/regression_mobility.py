"""regression-mobility: where do children of poor parents do well? A private regression for every census tract.

In each tract the adult income rank `kir` is regressed on the parents' rank `pir`, both in [0, 1]; the line at
pir = 0.25 says how much opportunity a tract gives, and tracts are ranked by it (Bernstein 2020, thesis, section 5.4,
after Chetty & Friedman 2019). Each tract publishes its moments at epsilon; against the non-private posterior mean,
    coverage50, coverage90    how often the interval of the line at 0.25 holds it
    mean_absolute_error       of the posterior mean of the line at 0.25
    rank_correlation          of the two rankings (Spearman)
    extremes_kept             share of the top and bottom tenths that stay within the top or bottom fifth
and the confusion matrix of deciles. `output-perturbation` is Chetty & Friedman's own method: one noisy number a tract,
no interval, and *not differentially private*.

The tracts are simulated here, 20 to 446 people with a long tail, as the thesis describes its own simulated ones: the
line at 0.25 is N(0.42, 0.08^2) over tracts, its slope N(0.3, 0.1^2), kir normal about it with sd 0.2, cut to [0, 1].
The thesis prints the prior InverseGamma(1000, 1/2) of the error variance, which puts its sd at 0.02, and reports
intervals that hold the scatter of people all the same; `prior=printed` takes it as it stands. By default
    sigma^2 ~ InverseGamma(20, 0.8),   theta | sigma^2 ~ N((0.5, 0.1), sigma^2/0.08 I)    (intercept, slope)
whose coefficients are as wide as the printed ones and whose error sd, 0.2, is that of people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noisewise.planning import plan
from noisewise.privacy.guarantee import PureDP
from noisewise.published.baselines.output_perturbation import output_perturbation
from noisewise.regression.model import LinearRegression
from noisewise.regression.priors import NormalCovariates, NormalInverseGamma
from noisewise.regression.problem import Floats
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Moments
from noisewise_papers.regression import WITHOUT_EXTRA, fitted, release_of, seed_for
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT = 0.25  # the parents' rank that counts as poor
SMALLEST, LARGEST = 20, 446
DECILES = 10
PRIORS = {
    "matched": NormalInverseGamma([0.5, 0.1], 0.08, 20, 0.8),
    "printed": NormalInverseGamma([0.5, 0.1], 0.001, 1000, 0.5),
}
OUTPUT = "output-perturbation"
CHOICES = (*WITHOUT_EXTRA[:-1], OUTPUT)  # non-private is the yardstick
SHOWN = ("auto", "gibbs-update", "naive", OUTPUT)
CHUNK = 10  # tracts of one task


class Task(NamedTuple):
    """Some tracts at one epsilon, and who infers."""

    tracts: list[Floats]
    methods: tuple[str, ...]
    epsilon: float
    prior: str
    iterations: int


class Line(NamedTuple):
    """What one posterior says of a tract's line at 0.25: its mean and the ends of its intervals."""

    mean: float
    half: tuple[float, float]
    ninety: tuple[float, float]


def measure(setup: Setup) -> Rows:
    """One row a method and epsilon."""
    tracts = simulated_tracts(setup.rng("tracts"), setup["tracts"])
    asked, prior = setup["method"], setup["prior"]
    fitters = tuple(method for method in asked if method != OUTPUT)
    chunks = [tracts[at : at + CHUNK] for at in range(0, len(tracts), CHUNK)]
    tasks = [Task(chunk, (*fitters, "non-private"), epsilon, prior, setup["iterations"])
             for epsilon in setup["epsilon"] for chunk in chunks]  # fmt: skip
    found = setup.map(lines, tasks, "tracts")
    rows = []
    for place, epsilon in enumerate(setup["epsilon"]):
        mine = [each for task, each in zip(tasks, found, strict=True) if task.epsilon == epsilon]
        by_method = {method: [line for each in mine for line in each[method]] for method in (*fitters, "non-private")}
        yardstick = np.array([line.mean for line in by_method["non-private"]])
        for method in asked:
            if method == OUTPUT:
                points = published(setup.rng(OUTPUT, place), tracts, epsilon)
                rows.append(row_of(method, epsilon, points, yardstick, None))
            else:
                points = np.array([line.mean for line in by_method[method]])
                rows.append(row_of(method, epsilon, points, yardstick, by_method[method]))
    return rows


def simulated_tracts(rng: np.random.Generator, count: int) -> list[Floats]:
    """Rows (pir, kir) of each tract."""
    tracts = []
    for _ in range(count):
        n = int(np.clip(np.round(80 * np.exp(0.7 * rng.standard_normal())), SMALLEST, LARGEST))
        middle = np.clip(rng.normal(0.45, 0.12), 0.1, 0.9)
        pir = rng.beta(4 * middle, 4 * (1 - middle), n)
        line = rng.normal(0.42, 0.08) + rng.normal(0.3, 0.1) * (pir - AT)
        tracts.append(np.column_stack([pir, np.clip(line + 0.2 * rng.standard_normal(n), 0, 1)]))
    return tracts


def lines(rng: np.random.Generator, task: Task) -> dict[str, list[Line]]:
    """The line at 0.25 of each tract, by method."""
    model = LinearRegression("pir", "kir", prior=PRIORS[task.prior], covariates=NormalCovariates(0.5, 1, 1, 50))
    found: dict[str, list[Line]] = {method: [] for method in task.methods}
    for rows in task.tracts:
        base = int(rng.integers(2**62))
        columns = {"pir": Bounded(0, 1), "kir": Bounded(0, 1)}
        schema = Schema(columns, n=len(rows), neighbours="change-one", outside="refuse")  # ranks are in [0, 1]
        releases = {}
        for fourth in sorted({method == "gibbs-noisy" for method in task.methods}):
            planned = plan(Moments("pir", "kir", fourth=fourth), schema, guarantee=PureDP(task.epsilon))
            releases[fourth] = [release_of(np.random.default_rng([base, fourth]), planned, rows)]
        for method in task.methods:
            fit = fitted(method, releases.get(method == "gibbs-noisy", []), rows, model, seed=seed_for(base, method),
                         iterations=task.iterations)  # fmt: skip
            at = fit.lines(np.array([[AT]]))[:, 0]
            ends = np.quantile(at, [0.25, 0.75, 0.05, 0.95])
            found[method].append(Line(float(at.mean()), (ends[0], ends[1]), (ends[2], ends[3])))
    return found


def published(rng: np.random.Generator, tracts: list[Floats], epsilon: float) -> Floats:
    """One noisy number a tract, by output perturbation."""
    groups = [(rows[:, 0], rows[:, 1]) for rows in tracts]
    return output_perturbation(rng, groups, at=AT, epsilon=epsilon).published


def row_of(method: str, epsilon: float, points: Floats, yardstick: Floats, found: list[Line] | None) -> Row:
    """How a method's lines at 0.25 compare with the yardstick's; NaN coverage where it has no intervals."""
    from scipy.stats import spearmanr

    def coverage(level: str) -> float:
        if found is None:
            return float("nan")
        inside = [low <= one <= high for (low, high), one in
                  zip((getattr(line, level) for line in found), yardstick, strict=True)]  # fmt: skip
        return float(np.mean(inside))

    table = confusion(yardstick, points)
    outer = DECILES // 5
    kept = (table[0, :outer].sum() + table[-1, -outer:].sum()) / (table[0].sum() + table[-1].sum())
    return {
        "method": method,
        "epsilon": epsilon,
        "coverage50": coverage("half"),
        "coverage90": coverage("ninety"),
        "mean_absolute_error": float(np.mean(np.abs(points - yardstick))),
        "rank_correlation": float(spearmanr(points, yardstick).statistic),
        "extremes_kept": float(kept),
        "confusion": table.tolist(),
    }


def confusion(yardstick: Floats, points: Floats) -> Any:
    """How many tracts of each decile by the yardstick (rows) are in each decile by the points (columns)."""
    table = np.zeros((DECILES, DECILES), int)
    np.add.at(table, (deciles(yardstick), deciles(points)), 1)
    return table


def deciles(values: Floats) -> Any:
    """0 for the lowest tenth, 9 for the highest."""
    return np.argsort(np.argsort(values)) * DECILES // len(values)


def nearest_to_four(rows: Rows) -> list[Row]:
    """The rows at the epsilon of the print, or at the one nearest to it."""
    nearest = min({row["epsilon"] for row in rows}, key=lambda epsilon: abs(np.log(epsilon / 4)))
    return [row for row in rows if row["epsilon"] == nearest]


def draw(figure: Figure, rows: Rows) -> None:
    """The confusion matrix of each method at the epsilon nearest to 4 (Figure 5.16), and the error (Figure 5.14)."""
    shown = nearest_to_four(rows)
    nearest = shown[0]["epsilon"]
    figure.set_size_inches(2.9 * (len(shown) + 1) + 0.6, 3.8)
    panels = figure.subplots(1, len(shown) + 1, squeeze=False)[0]
    ticks = np.arange(1, DECILES + 1)
    for axes, row in zip(panels, shown, strict=False):
        table = np.asarray(row["confusion"], float)
        axes.pcolormesh(ticks, ticks, table / np.maximum(table.sum(axis=1, keepdims=True), 1), cmap="cividis", vmin=0)
        axes.set(xlabel="decile, private", title=f"{row['method']}, ε = {nearest:g}", box_aspect=1)
        axes.title.set_fontsize("medium")
    panels[0].set_ylabel("decile, non-private")
    for method in dict.fromkeys(row["method"] for row in rows):
        line = sorted((row["epsilon"], row["mean_absolute_error"]) for row in rows if row["method"] == method)
        panels[-1].plot(*zip(*line, strict=True), marker="o", ms=4, label=method)
    panels[-1].set(xscale="log", yscale="log", xlabel="ε", ylabel="mean absolute error", box_aspect=1)
    panels[-1].legend(frameon=False, fontsize="x-small")


def note(rows: Rows) -> str:
    """The pattern of the figures beside ours."""
    said = [
        "In print (figures only): gibbs-update and gibbs-noisy cover about what they claim at every epsilon, naive "
        "only where epsilon is large; their points are nearer to the non-private ones than naive's; the confusion "
        "matrix at epsilon = 4 is heavy on its diagonal, and the outer tenths stay almost wholly in the outer fifths."
    ]
    for row in nearest_to_four(rows):
        if np.isfinite(row["coverage90"]):
            said.append(
                f"Here {row['method']} at epsilon = {row['epsilon']:g} covers {100 * row['coverage50']:.0f} and "
                f"{100 * row['coverage90']:.0f} %, is off by {row['mean_absolute_error']:.3f} and keeps "
                f"{100 * row['extremes_kept']:.0f} % of the outer tenths."
            )
        else:
            said.append(
                f"Here {row['method']} at epsilon = {row['epsilon']:g} is off by {row['mean_absolute_error']:.3f}."
            )
    said.append(
        "Noise-aware intervals cover more than they claim here, since lines differ far less between tracts than the "
        "prior of one allows. output-perturbation reads its noise scale from the records and is not differentially "
        "private."
    )
    return " ".join(said)


STUDY = Study(
    name="regression-mobility",
    about="Ranking neighbourhoods by a private regression in each.",
    source="Bernstein (2020, thesis), section 5.4, Figures 5.12-5.16",
    settings={
        "epsilon": Setting(float, (1.0, 4.0), "the privacy of each tract's release",
                           full=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0), above=0),
        "tracts": Setting(int, 80, "simulated tracts", full=2745, at_least=20),
        "method": Setting(str, SHOWN, "who infers", full=(*SHOWN[:2], "gibbs-noisy", *SHOWN[2:]), choices=CHOICES),
        "prior": Setting(str, "matched", "matched to people, or as printed", choices=tuple(PRIORS)),
        "iterations": Setting(int, 2000, "of each of 4 chains of a slow sampler, after as many", full=5000,
                              at_least=100),
    },
    columns=(
        "method", "epsilon", "coverage50", "coverage90", "mean_absolute_error", "rank_correlation", "extremes_kept",
    ),
    measure=measure,
    draw=draw,
    note=note,
)  # fmt: skip
