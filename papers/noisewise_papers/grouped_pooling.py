"""grouped-pooling: what pooling groups gains where they are alike, and costs where they are not.

Groups of 5, 50 and 500 people, four of each, in one release of mean(x, by=g). In every data set the true means are
drawn from N(50, spread^2), sizes and records follow, and three ways estimate the means from the same release:
    naive      the noisy sum over the noisy count, inside the bounds
    separate   `Grouped`, every mean with the prior N(50, 30^2) of its own
    pooled     `Grouped(pooled=("mean",))`: the same prior for the centre, half-normal(30) for the spread
The estimate of a posterior is its mean; a row is the root mean squared error over groups of one size and all data sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.grouped.model import Grouped
from noisewise.inference.infer import infer
from noisewise.models.simulate import simulate
from noisewise.populations.population import Normal
from noisewise.release import Release
from noisewise.types import Floats
from noisewise_papers.grouped_worlds import NOISES, GroupWorld, gathered
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (5,) * 4 + (50,) * 4 + (500,) * 4
METHODS = ("naive", "separate", "pooled")
CENTRE, PRIOR_SD, SD = 50.0, 30.0, 12.0
DRAWS = 250
BATCH = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """One world, and how far true means are apart in it."""

    world: GroupWorld
    spread: float


def population(world: GroupWorld, *, is_pooled: bool) -> Grouped:
    """What the analyst says of the groups."""
    from scipy import stats

    law = Normal(mean=stats.norm(CENTRE, PRIOR_SD), sd=SD)
    return Grouped("g", x=law, pooled=("mean",) if is_pooled else (), names=world.names)


def naive(release: Release) -> Floats:
    """What was published, taken for what is."""
    count, total = np.asarray(release.estimate, dtype=float).reshape(-1, 2).T
    return np.asarray(np.clip(total / np.maximum(count, 1.0), 0.0, 100.0))


def squared_errors(rng: np.random.Generator, batch: tuple[Cell, int]) -> dict[str, list[list[float]]]:
    """For each method, the squared errors of all groups' means in every data set of a batch."""
    cell, count = batch
    made = cell.world.plan("mean(x, by=g)")
    found: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    for _ in range(count):
        truth = np.clip(rng.normal(CENTRE, cell.spread, len(SIZES)), 5.0, 95.0)
        at = {"mean": truth, "share": np.array(SIZES) / sum(SIZES)}
        seed = int(rng.integers(2**62))
        release = simulate(made, population(cell.world, is_pooled=False), at=at, seed=seed)
        estimates = {"naive": naive(release)}
        for method in METHODS[1:]:
            model = population(cell.world, is_pooled=method == "pooled")
            posterior = infer(release, model, draws=DRAWS, chains=4, seed=seed, progress=False)
            estimates[method] = posterior.draws["mean"].mean(axis=(0, 1))
        for method, estimate in estimates.items():
            found[method].append(np.square(estimate - truth).tolist())
    return found


def measure(setup: Setup) -> Rows:
    """One row for each world, size and method."""
    cells = [
        Cell(GroupWorld(SIZES, noise, setup["epsilon"]), spread)
        for noise in setup["noise"]
        for spread in setup["spread"]
    ]
    found = gathered(setup, squared_errors, cells, trials=setup["data_sets"], at_once=BATCH, what="data sets")
    return [
        row
        for cell in cells
        for people in dict.fromkeys(SIZES)
        for row in rows_of(cell, people, {method: np.array(found[cell, method]) for method in METHODS})
    ]


def rows_of(cell: Cell, people: int, errors: dict[str, Floats]) -> list[Row]:
    """The three methods on groups of one size, beside separate fits of the same releases.

    `ratio_se` is the ratio's standard error over data sets (delta method), 0 for separate fits themselves.
    """
    mine = np.array(SIZES) == people
    by_set = {method: own[:, mine].mean(axis=1) for method, own in errors.items()}
    reference = by_set["separate"]
    rows = []
    for method, own in by_set.items():
        ratio = np.sqrt(own.mean() / reference.mean())
        off = own / own.mean() - reference / reference.mean()
        rows.append(
            {
                "noise": cell.world.noise,
                "spread": cell.spread,
                "people": people,
                "method": method,
                "rmse": float(np.sqrt(own.mean())),
                "ratio": float(ratio),
                "ratio_se": float(0.5 * ratio * off.std() / np.sqrt(len(off))),
                "data_sets": len(own),
            }
        )
    return rows


def draw(figure: Figure, rows: Rows) -> None:
    """Errors against the size of the group, one panel for each world."""
    worlds = list(dict.fromkeys((row["noise"], row["spread"]) for row in rows))
    panels = figure.subplots(1, len(worlds), squeeze=False, sharey=True)[0]
    for axes, (noise, spread) in zip(panels, worlds, strict=True):
        for method in METHODS:
            own = [row for row in rows if (row["noise"], row["spread"], row["method"]) == (noise, spread, method)]
            axes.plot([row["people"] for row in own], [row["rmse"] for row in own], "o-", label=method)
        axes.set(xscale="log", yscale="log", title=f"{noise}, means {spread:g} apart", xlabel="people in the group")
    panels[0].set_ylabel("root mean squared error of a group's mean")
    panels[0].legend()


def note(rows: Rows) -> str:
    """What pooling changes in each world."""
    sentences = []
    for noise, spread in dict.fromkeys((row["noise"], row["spread"]) for row in rows):
        own = [row for row in rows if (row["noise"], row["spread"], row["method"]) == (noise, spread, "pooled")]
        ratios = ", ".join(f"{row['ratio']:.2f} ({row['people']} people)" for row in own)
        sentences.append(f"{noise} noise, true means {spread:g} apart: pooled over separate error {ratios}.")
    return " ".join(sentences)


STUDY = Study(
    name="grouped-pooling",
    about="What pooling groups gains where they are alike, and costs where they are not.",
    source="own",
    settings={
        "noise": Setting(str, ("laplace",), "the noise", full=NOISES, choices=NOISES),
        "epsilon": Setting(float, 2.0, "epsilon of pure privacy, mu of Gaussian", above=0),
        "spread": Setting(float, (1.0, 15.0), "standard deviation of the true means", above=0),
        "data_sets": Setting(int, 40, "data sets of each world", full=200, at_least=2),
    },
    columns=("noise", "spread", "people", "method", "rmse", "ratio", "ratio_se", "data_sets"),
    measure=measure,
    draw=draw,
    note=note,
)
