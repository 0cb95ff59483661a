"""regression-calibration: does a posterior of a private regression cover what it claims?

A trial draws coefficients, error variance, covariates and rows from the model, releases their moments, and asks where
the truth falls among the draws of each posterior. With V uniform,
    u = (rank + V)/101 of 100 draws,     ks = sup |share of u <= t - t|,     coverage95 = share of |u - 1/2| <= 0.475.
Bernstein (2020, thesis; Bernstein & Sheldon 2019) shows ks against n and epsilon (Figure 5.4), the distribution of u at
n = 10, epsilon = 0.1 (Figure 5.5), the coverage of 95 % intervals (Figure 5.6) and run times (Figure 5.8), without
numbers; the note says whether the figures' pattern is ours. `regression` says what is drawn and who infers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.evaluate.discrepancy import uniformity
from noisewise.populations.parameters import Array
from noisewise.regression.priors import NOISE_VARIANCE
from noisewise.regression.problem import Floats
from noisewise_papers.rank_panels import draw_distances, draw_distributions, half_width, share_legend
from noisewise_papers.regression import METHODS, NEAR, Batch, batches_of, colour, settings_of
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKED = 100  # draws of a trial
Cell = tuple[str, int, float, str]  # method, n, epsilon, parameter


class Trials(NamedTuple):
    """What a batch of trials found."""

    uniforms: dict[tuple[str, str], list[float]]  # by method and parameter
    seconds: dict[str, list[float]]  # of a fit, by method
    inside: list[tuple[float, float]]  # the share of covariates, and of responses, in [-1, 1]


class RankedRows(list[Row]):
    """Rows that remember the ranks they sum up and the shares of records in [-1, 1]; a file holds the rows alone."""

    def __init__(self, uniforms: dict[Cell, Array], inside: Array, rows: list[Row]) -> None:
        super().__init__(rows)
        self.uniforms, self.inside = uniforms, inside


def measure(setup: Setup) -> Rows:
    """One row a method, n, epsilon and parameter."""
    batches = batches_of(setup.settings)
    uniforms: dict[Cell, list[float]] = {}
    seconds: dict[Cell, list[float]] = {}
    inside: list[tuple[float, float]] = []
    for batch, found in zip(batches, setup.map(trials, batches, "trials"), strict=True):
        inside += found.inside
        for (method, parameter), values in found.uniforms.items():
            cell = (method, batch.world.n, batch.world.epsilon, parameter)
            uniforms.setdefault(cell, []).extend(values)
            seconds.setdefault(cell, []).extend(found.seconds[method])
    arrays = {cell: np.array(values) for cell, values in uniforms.items() if values}
    rows = [row_of(cell, values, float(np.median(seconds[cell]))) for cell, values in arrays.items()]
    return RankedRows(arrays, np.mean(inside, axis=0), rows)


def trials(rng: np.random.Generator, batch: Batch) -> Trials:
    """u of each parameter in each trial of a batch, by method; all methods see the same trials."""
    names = batch.world.model.free
    found = Trials({(method, name): [] for method in batch.methods for name in names},
                   {method: [] for method in batch.methods}, [])  # fmt: skip
    for _ in range(batch.trials):
        truth, base = batch.world.draw(rng), int(rng.integers(2**62))
        ties = rng.random((len(batch.methods), len(names)))
        rows = np.concatenate(truth.rows)
        found.inside.append((float(np.mean(np.abs(rows[:, :-1]) <= NEAR)), float(np.mean(np.abs(rows[:, -1]) <= NEAR))))
        for broken, (method, fit) in zip(ties, batch.world.fits(truth, batch.methods, base).items(), strict=True):
            found.seconds[method].append(fit.seconds)
            for name, draws, v in zip(names, fit.joint.T, broken, strict=True):
                if name == NOISE_VARIANCE and np.all(np.isnan(draws)):
                    continue  # fixed-s-fast says nothing about it
                found.uniforms[method, name].append(rank(draws, truth.theta[name], v))
    return found


def rank(draws: Floats, truth: float, v: float) -> float:
    """(rank + v)/101 of the truth among 100 of the draws, evenly spaced."""
    if len(draws) < RANKED or not np.all(np.isfinite(draws)):
        raise NoisewiseError(
            f"{RANKED} finite draws are ranked; the posterior has {len(draws)}, or not all are finite."
        )
    kept = draws[((np.arange(RANKED) + 0.5) * len(draws) / RANKED).astype(int)]
    return float((np.sum(kept < truth) + v) / (RANKED + 1))


def row_of(cell: Cell, uniforms: Array, seconds: float) -> Row:
    """How far the ranks of one method in one cell are from uniform."""
    method, n, epsilon, parameter = cell
    return {
        "method": method,
        "n": n,
        "epsilon": epsilon,
        "parameter": parameter,
        "ks": uniformity(uniforms).distance,
        "coverage95": float(np.mean(np.abs(uniforms - 0.5) <= 0.475)),
        "seconds_per_fit": seconds,
    }


def draw(figure: Figure, rows: Rows) -> None:
    """ks against n at the smallest epsilon (Figure 5.4), and the distribution of u at the smallest n (Figure 5.5)."""
    parameters = list(dict.fromkeys(row["parameter"] for row in rows))
    epsilon, sizes = min(row["epsilon"] for row in rows), sorted({row["n"] for row in rows})
    uniforms: dict[Cell, Array] = getattr(rows, "uniforms", {})
    kinds = ["distances"] * (len(sizes) > 1 or not uniforms) + ["distributions"] * bool(uniforms)
    figure.set_size_inches(3.0 * len(parameters) + 0.8, 2.6 * len(kinds) + 0.8)
    panels = figure.subplots(len(kinds), len(parameters), squeeze=False)
    count = min((u.size for u in uniforms.values()), default=0)
    for line, kind in zip(panels, kinds, strict=True):
        for axes, parameter in zip(line, parameters, strict=True):
            if kind == "distances":
                mine = [row for row in rows if (row["parameter"], row["epsilon"]) == (parameter, epsilon)]
                draw_distances(axes, mine, colour, trials=count)
            else:
                key = (sizes[0], epsilon, parameter)
                draw_distributions(axes, {cell[0]: u for cell, u in uniforms.items() if cell[1:] == key}, colour)
                axes.set_xlabel(f"rank of the truth, n = {sizes[0]}")
        line[0].set_ylabel("KS distance from uniform" if kind == "distances" else "share below")
    for axes, parameter in zip(panels[0], parameters, strict=True):
        axes.set_title(f"{parameter}, ε = {epsilon:g}", fontsize="medium")
    share_legend(figure, panels)


def note(rows: Rows) -> str:
    """What the rows show, beside what the figures in print do."""
    lines = [
        "In print (figures only): the noise-aware methods are at or near the calibration of the non-private posterior "
        "at every n and epsilon, gibbs-noisy and gibbs-prior slightly off in places, and naive is far off."
    ]
    uniforms: dict[Cell, Array] = getattr(rows, "uniforms", {})
    if uniforms:
        lines += [_sentence(rows, method, uniforms) for method in METHODS if any(c[0] == method for c in uniforms)]
        in_x, in_y = 100 * np.asarray(getattr(rows, "inside", (np.nan, np.nan)))
        lines.append(
            "The print says that at least 95 % of x and y lie in [-1, 1], the bounds behind the noise. Under its prior "
            f"that is so for x ({in_x:.1f} % here) but not for y ({in_y:.0f} %; 67 % at d = 1): were the records "
            "clamped as the privacy of the noise demands, no method that ignores the clamp would be calibrated."
        )
    return " ".join(lines)


def _sentence(rows: Rows, method: str, uniforms: dict[Cell, Array]) -> str:
    mine = [row for row in rows if row["method"] == method]
    beyond = [
        row for row in mine
        if row["ks"] > half_width(uniforms[method, row["n"], row["epsilon"], row["parameter"]].size)
    ]  # fmt: skip
    where = ""
    if beyond:
        worst = max(beyond, key=lambda row: float(row["ks"]))
        where = (
            f", worst for {worst['parameter']} at n = {worst['n']}, epsilon = {worst['epsilon']:g} (ks "
            f"{worst['ks']:.2f}, its 95 % intervals cover {100 * worst['coverage95']:.0f} %)"
        )
    return f"Here {method} leaves the 99 % band of a calibrated posterior in {len(beyond)} of {len(mine)} rows{where}."


STUDY = Study(
    name="regression-calibration",
    about="Whose posteriors of a private regression cover what they claim.",
    source="Bernstein & Sheldon (2019); Bernstein (2020, thesis), Figures 5.4-5.6 and 5.8",
    settings=settings_of(
        default={"n": (10, 1000), "epsilon": (0.1, 1.0), "trials": 40},
        full={"n": (10, 100, 1000), "epsilon": (0.1, 1.0, 10.0), "trials": 300},
    ),
    columns=("method", "n", "epsilon", "parameter", "ks", "coverage95", "seconds_per_fit"),
    measure=measure,
    draw=draw,
    note=note,
)
