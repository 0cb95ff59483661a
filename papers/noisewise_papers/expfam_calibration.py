"""expfam-calibration: whose posterior of a proportion, a rate or a mean covers what it claims?

For every family, n and epsilon, `trials` parameters are drawn from the prior, records from the population, and one
release from the records (`expfam`). A method's posterior is right if the rank of the true parameter among its draws is
uniform (Cook, Gelman & Rubin 2006). With V uniform on (0, 1),
    u = (rank + V)/101 of 100 draws,     ks = sup |share of u <= t - t|,     coverageP = share of |u - 1/2| <= P/200.
Bernstein & Sheldon (2018) show ks against n (Figure 4.2 of Bernstein 2020, thesis) and the distribution of u at
n = 1000, epsilon = 0.01 (Figure 4.3). They print no numbers; the note says whether the figures' pattern is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.evaluate.coverage import LEVELS, Coverage
from noisewise.evaluate.discrepancy import uniformity
from noisewise.evaluate.trials import run_trials
from noisewise.populations.parameters import Array
from noisewise_papers.expfam import FAMILIES, METHODS, SAMPLES, Batch, batches_of, settings_of, trial_seeds
from noisewise_papers.rank_panels import draw_distances, draw_distributions, half_width, share_legend
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = tuple[str, int, float, str]


class RankedRows(list[Row]):
    """Rows that remember the ranks they sum up, for the figure; a file holds the rows alone."""

    def __init__(self, uniforms: dict[Cell, Array], rows: list[Row]) -> None:
        super().__init__(rows)
        self.uniforms = uniforms


def measure(setup: Setup) -> Rows:
    """One row a family, n, epsilon and method."""
    batches = batches_of(setup.settings)
    found = setup.map(ranks, batches, "trials")
    uniforms: dict[Cell, list[float]] = {}
    for batch, by_method in zip(batches, found, strict=True):
        for method, values in by_method.items():
            uniforms.setdefault(_cell(batch, method), []).extend(values)
    arrays = {cell: np.array(values) for cell, values in uniforms.items()}
    return RankedRows(arrays, [row_of(cell, values) for cell, values in arrays.items()])


def ranks(rng: np.random.Generator, batch: Batch) -> dict[str, list[float]]:
    """u of each trial of a batch, by method; all methods see the same trials."""
    seeds = trial_seeds(rng, batch.trials)
    found = {}
    for method in batch.methods:
        world: Any = batch.experiment
        sample: Any = batch.experiment.sampler(method)
        trials = run_trials(world, sample, SAMPLES, seeds())
        found[method] = [trial.uniforms[0] for trial in trials if not trial.error]
    return found


def row_of(cell: Cell, uniforms: Array) -> Row:
    """How far the ranks of one method in one cell are from uniform."""
    family, n, epsilon, method = cell
    if not uniforms.size:
        raise NoisewiseError(f"Every trial of {method} failed for {family} at n = {n}, epsilon = {epsilon:g}.")
    coverage = [Coverage(level, int(np.sum(np.abs(uniforms - 0.5) <= level / 2)), uniforms.size) for level in LEVELS]
    return {
        "family": family,
        "n": n,
        "epsilon": epsilon,
        "method": method,
        "ks": uniformity(uniforms).distance,
        **{f"coverage{100 * each.level:g}": each.share for each in coverage},
        "trials": uniforms.size,
    }


def _cell(batch: Batch, method: str) -> Cell:
    experiment = batch.experiment
    return experiment.family, experiment.n, experiment.epsilon, method


def draw(figure: Figure, rows: Rows) -> None:
    """ks against n at the smallest epsilon (Figure 4.2), and the distribution of u at n = 1000 (Figure 4.3)."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    epsilon, sizes = min(row["epsilon"] for row in rows), sorted({row["n"] for row in rows})
    uniforms: dict[Cell, Array] = getattr(rows, "uniforms", {})
    kinds = ["distances"] * (len(sizes) > 1 or not uniforms) + ["distributions"] * bool(uniforms)
    figure.set_size_inches(2.6 * len(families) + 0.8, 2.4 * len(kinds) + 0.8)
    panels = figure.subplots(len(kinds), len(families), squeeze=False)
    n = 1000 if 1000 in sizes else sizes[-1]
    for line, kind in zip(panels, kinds, strict=True):
        for axes, family in zip(line, families, strict=True):
            if kind == "distances":
                mine = [row for row in rows if (row["family"], row["epsilon"]) == (family, epsilon)]
                draw_distances(axes, mine, _colour, trials=min(row["trials"] for row in mine))
            else:
                curves = {c[3]: u for c, u in uniforms.items() if c[:3] == (family, n, epsilon)}
                draw_distributions(axes, curves, _colour)
                axes.set_xlabel(f"rank of the truth, n = {n}")
        line[0].set_ylabel("KS distance from uniform" if kind == "distances" else "share below")
    for axes, family in zip(panels[0], families, strict=True):
        axes.set_title(f"{family}, ε = {epsilon:g}", fontsize="medium")
    share_legend(figure, panels)


def _colour(method: str) -> str:
    return f"C{METHODS.index(method)}"


def outside(rows: Rows, method: str) -> list[Row]:
    """The cells where a method's distance is beyond the 99 % band of a calibrated one."""
    return [row for row in rows if row["method"] == method and row["ks"] > half_width(row["trials"])]


def note(rows: Rows) -> str:
    """What the rows show, beside what the figures in print do."""
    lines = [
        "In print (figures only): Gibbs is as calibrated as the non-private posterior in every cell; the naive "
        "posterior is too narrow until n is large, with the truth in its tails; one-posterior sampling is too wide, "
        "with the truth in its middle."
    ]
    lines += [_sentence(rows, method) for method in METHODS if any(row["method"] == method for row in rows)]
    failed = sum(max(row["trials"] for row in rows) - row["trials"] for row in rows)
    if failed:
        lines.append(f"{failed} trials failed and are left out: see `trials`.")
    return " ".join(lines)


def _sentence(rows: Rows, method: str) -> str:
    mine, beyond = [row for row in rows if row["method"] == method], outside(rows, method)
    where = ""
    if beyond:
        worst = max(beyond, key=lambda row: float(row["ks"]))
        where = (
            f", worst for {worst['family']} at n = {worst['n']}, epsilon = {worst['epsilon']:g} (ks {worst['ks']:.2f}, "
            f"its 90 % intervals cover {100 * worst['coverage90']:.0f} %)"
        )
    return f"Here {method} leaves the 99 % band of a calibrated posterior in {len(beyond)} of {len(mine)} cells{where}."


STUDY = Study(
    name="expfam-calibration",
    about="Whose posteriors of five conjugate families cover what they claim.",
    source="Bernstein & Sheldon (2018); Bernstein (2020, thesis), Figures 4.2 and 4.3",
    settings=settings_of(
        default={"family": FAMILIES, "n": (1000,), "epsilon": (0.01, 0.1), "trials": 40},
        full={"n": (10, 100, 1000, 10_000, 100_000), "epsilon": (0.01, 0.1, 1.0), "trials": 1000},
        methods=METHODS,
    ),
    columns=("family", "n", "epsilon", "method", "ks", "coverage50", "coverage90", "coverage95", "trials"),
    measure=measure,
    draw=draw,
    note=note,
)
