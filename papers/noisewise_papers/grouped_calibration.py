"""grouped-calibration: do intervals of groups of 5 to 5000 people in one release cover what they claim?

In every trial shares, means and standard deviations of eight groups are drawn from the prior, records from these, and
one release of mean(x, x**2, by=g) from the records. The rank of each true number among 99 draws is uniform if the
posterior is right. The number of people is public, or under add-remove stated, or drawn from a prior and learnt
(expected sizes are then those at its mean). Methods:
    grouped    `Grouped` as `infer` has it
    naive      the noisy counts, means and variances taken at face value: mean ~ N(m, s^2/n) with m, s, n as published,
               pooled by the usual normal formulas where groups are pooled
With 400 trials a cell, 90 % intervals of a right posterior hold the truth in .827 to .973 of them (at the 1e-6 level).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.evaluate.coverage import LEVELS, Coverage
from noisewise.evaluate.discrepancy import uniformity
from noisewise.evaluate.trials import Sampled, Trial, World, library_posterior, run_trials
from noisewise.grouped.model import Grouped
from noisewise.populations.population import Normal
from noisewise.release import Release
from noisewise.types import Floats
from noisewise_papers.grouped_worlds import NOISES, NUMBERS, GroupWorld, gathered
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (5, 5, 20, 50, 200, 500, 1500, 5000)
POOLED = {"none": (), "mean": ("mean",), "both": ("mean", "sd")}
WAYS = tuple(POOLED)
METHODS = ("grouped", "naive")
RANKED = 99
BATCH = 4
BAND = 0.99


@dataclass(frozen=True, slots=True)
class Cell:
    """One world, what is pooled in it, and the method."""

    world: GroupWorld
    pooled: str
    method: str

    @property
    def population(self) -> Grouped:
        """Eight groups of about 5 to 5000 people."""
        from scipy import stats

        law = Normal(mean=stats.norm(50, 10), sd=stats.lognorm(0.4, scale=12))
        shares = stats.dirichlet(np.array(SIZES) * 40.0 / self.world.total + 0.5)
        return Grouped("g", x=law, pooled=POOLED[self.pooled], names=self.world.names, shares=shares)

    def trials(self, seeds: list[np.random.SeedSequence]) -> list[Trial]:
        """Truths, releases, posteriors and ranks."""
        n = self.world.n
        world = World(((self.world.plan("mean(x, x**2, by=g)"),),), self.population, n)
        sample = naive if self.method == "naive" else library_posterior("auto", "auto", RANKED, n, {})
        return run_trials(world, sample, RANKED, seeds)


def naive(releases: list[Release], population: Grouped, seed: int) -> Sampled:
    """Draws of a fit that takes what was published for what is."""
    rng = np.random.default_rng(seed)
    count, total, squares = np.asarray(releases[0].estimate).reshape(-1, 3).T
    n = np.maximum(count, 2.0)
    mean = np.clip(total / n, 0, 100)
    sd = np.sqrt(np.clip(squares / n - mean**2, 1.0, 2500.0))
    draws: dict[str, Floats] = {}
    centre, spread = mean, sd / np.sqrt(n)
    if "mean" in population.pooled:
        tau = np.sqrt(max(float(np.var(mean) - np.mean(spread**2)), 1.0))
        weight = 1 / (spread**2 + tau**2)
        middle = float(weight @ mean / weight.sum())
        precision = 1 / spread**2 + 1 / tau**2
        centre, spread = (mean / spread**2 + middle / tau**2) / precision, precision**-0.5
        draws["mean.centre"] = middle + weight.sum() ** -0.5 * rng.standard_normal(RANKED)
        draws["mean.spread"] = tau * np.exp(rng.standard_normal(RANKED) / np.sqrt(2 * len(n)))
    draws["mean"] = centre + spread * rng.standard_normal((RANKED, len(n)))
    draws["sd"] = sd * np.exp(rng.standard_normal((RANKED, len(n))) / np.sqrt(2 * n))
    if "sd" in population.pooled:
        draws["sd.centre"] = np.exp(np.mean(np.log(sd)) + 0.2 * rng.standard_normal(RANKED))
        draws["sd.spread"] = np.std(np.log(sd)) * np.exp(rng.standard_normal(RANKED) / np.sqrt(2 * len(n)))
    draws["share"] = rng.dirichlet(n, RANKED)
    draws["n"] = np.full(RANKED, np.rint(count.sum()))
    return Sampled(draws, float(RANKED))


def measure(setup: Setup) -> Rows:
    """One row for each cell and kind of number."""
    cells = [
        Cell(GroupWorld(SIZES, noise, setup["epsilon"], number), pooled, method)
        for noise in setup["noise"]
        for pooled in setup["pooled"]
        for number in setup["n"]
        for method in setup["method"]
    ]
    found = gathered(setup, uniforms, cells, trials=setup["trials"], at_once=BATCH, what="trials")
    return [row_of(cell, name, np.array(values)) for (cell, name), values in found.items()]


def uniforms(rng: np.random.Generator, batch: tuple[Cell, int]) -> dict[str, list[float]]:
    """u of every number in a batch of trials, by kind and expected size of the group."""
    cell, count = batch
    seeds = np.random.SeedSequence(int(rng.integers(2**63))).spawn(count)
    found: dict[str, list[float]] = {}
    for trial in cell.trials(seeds):
        if trial.error:
            raise NoisewiseError(f"A trial of {cell} failed: {trial.error}")
        for name, u in zip(trial.names, trial.uniforms, strict=True):
            found.setdefault(name, []).append(u)
    return found


def row_of(cell: Cell, name: str, u: Floats) -> Row:
    """How far the ranks of one number are from uniform."""
    stem, _, place = name.partition("[")
    coverage = [Coverage(level, int(np.sum(np.abs(u - 0.5) <= level / 2)), u.size) for level in LEVELS]
    return {
        "noise": cell.world.noise,
        "pooled": cell.pooled,
        "n": cell.world.number,
        "method": cell.method,
        "number": stem,
        "people": SIZES[int(place.rstrip("]"))] if place else cell.world.total,
        "ks_p": uniformity(u).p_value,
        **{f"coverage{100 * each.level:g}": each.share for each in coverage},
        "trials": u.size,
    }


def draw(figure: Figure, rows: Rows) -> None:
    """Coverage of 90 % intervals against the size of the group, one panel for each noise and method."""
    cells = list(dict.fromkeys((row["noise"], row["method"]) for row in rows))
    panels = figure.subplots(1, len(cells), squeeze=False, sharey=True)[0]
    for axes, (noise, method) in zip(panels, cells, strict=True):
        mine = [row for row in rows if (row["noise"], row["method"]) == (noise, method)]
        for k, number in enumerate(dict.fromkeys(row["number"] for row in mine)):
            own = [row for row in mine if row["number"] == number]
            axes.plot(
                [row["people"] for row in own],
                [row["coverage90"] for row in own],
                "o",
                color=f"C{k}",
                label=number,
                alpha=0.7,
            )
        low, high = Coverage(0.9, 0, min(row["trials"] for row in mine)).band(BAND)
        axes.axhspan(low, high, color="0.9", zorder=0)
        axes.set(xscale="log", title=f"{method}, {noise} noise", xlabel="people expected in the group")
    panels[0].set_ylabel("share of 90 % intervals that hold the truth")
    panels[0].legend(fontsize="small")


def note(rows: Rows) -> str:
    """Which cells leave the band of a calibrated posterior."""
    sentences = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        outside = [row for row in mine if row["ks_p"] < 1e-6]
        held = float(np.mean([row["coverage90"] for row in mine]))
        worst = min(mine, key=lambda row: float(row["coverage90"]))
        sentences.append(
            f"{method}: 90 % intervals hold the truth in {held:.3f} of all trials, at worst in "
            f"{worst['coverage90']:.2f} ({worst['number']} of {worst['people']} people, {worst['noise']} noise); "
            f"{len(outside)} of {len(mine)} numbers fail Kolmogorov's test at the 1e-6 level."
        )
    return " ".join(sentences)


STUDY = Study(
    name="grouped-calibration",
    about="Whether intervals of groups of 5 to 5000 people in one release cover what they claim.",
    source="own; simulation-based calibration as in `calibrate`",
    settings={
        "noise": Setting(str, ("gaussian",), "the noise", full=NOISES, choices=NOISES),
        "pooled": Setting(str, ("none", "mean"), "which parameters are pooled", full=WAYS, choices=WAYS),
        "n": Setting(
            str,
            ("public",),
            "who knows the number of people (under add-remove but for public)",
            full=NUMBERS,
            choices=NUMBERS,
        ),
        "method": Setting(str, METHODS, "the method", choices=METHODS),
        "epsilon": Setting(float, 2.0, "epsilon of pure privacy, mu of Gaussian", above=0),
        "trials": Setting(int, 16, "trials of each cell", full=400, at_least=1),
    },
    columns=(
        "noise",
        "pooled",
        "n",
        "method",
        "number",
        "people",
        "ks_p",
        "coverage50",
        "coverage90",
        "coverage95",
        "trials",
    ),
    measure=measure,
    draw=draw,
    note=note,
)
