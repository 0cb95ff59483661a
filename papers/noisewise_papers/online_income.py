"""online-income: the incomes of places, learned from private answers asked one by one.

Median household income by place, in thousands, with a normal population fitted to it (Yıldırım 2024, section 4.2,
Table 1 and Figure 3). In print: 3982 places of Indiana, maximum likelihood 51.78 and 17.57. The data at hand are others
of the same kind: `income_indiana.csv` (603 places) or `income_us.csv.gz` (27 497), without the places whose median is 0
or top-coded at 300 thousand, of which `n` are taken, the same in every run. Each run asks them in a new order:
    mle             maximum likelihood on the incomes themselves, without privacy: what the others aim at
    adaptive        the survey of this library
    clip-harmonic   clamp and Laplace noise by the published score, the harmonic sum of the diagonal of F
    fixed           everyone is clipped to mle +- 5 sd, which takes knowing it; by the same particles
    mcmc            the answers of `fixed` in one batch, by MHAAR
The print does not say epsilon; its estimates of the sd by `fixed` and `mcmc` (1.5 to 4.8, near the prior) are those of
epsilon = 1. Incomes are skewed, and no normal population is theirs: maximum likelihood matches mean and sd, questions
near the middle match the middle, so a survey need not settle at the mle however many people there are.
Without a folder of data the incomes are simulated, N(51.78, 17.57^2), and `data` says so.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import Array
from noisewise_papers.online import ADAPTIVE, FIXED, MCMC, Estimate, around, batch, surveyed
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = {"indiana": "income_indiana.csv", "us": "income_us.csv.gz"}
SOURCE = "https://www.kaggle.com/datasets/goldenoakresearch/us-household-income-stats-geo-locations"
PRINTED_MLE, TOP_CODE = (51.78, 17.57), 300_000.0
PAPER: Mapping[str, tuple[tuple[float, float], ...]] = {  # Table 1, five runs of (mu, sigma)
    "clip-harmonic": (
        (50.3756, 13.6397), (55.0282, 9.0344), (53.5980, 10.2802), (46.6303, 20.5239), (48.3601, 15.7926),
    ),
    FIXED: ((51.8790, 4.8232), (535.2168, 1.6814), (48.4388, 2.6478), (51.8498, 2.0033), (51.4870, 2.4522)),
    MCMC: ((49.6149, 2.1333), (46.7601, 1.6139), (49.3032, 1.4627), (51.6290, 3.6181), (53.4291, 1.6269)),
}  # fmt: skip
METHODS = (ADAPTIVE, "clip-harmonic", FIXED, MCMC)
MLE = "mle"


def measure(setup: Setup) -> Rows:
    """One row a method and run."""
    incomes, name = records(setup)
    points = [(incomes, dict(setup.settings)) for _ in range(setup["runs"])]
    found = setup.map(run_once, points, "orders")
    truth = {MLE: (float(incomes.mean()), float(incomes.std()))}
    rows: list[Row] = []
    for method in (MLE, *METHODS):
        for run, estimates in enumerate(found, start=1):
            mu, sigma = (truth | estimates)[method]
            rows.append({"method": method, "run": run, "mu": mu, "sigma": sigma, "data": name, "n": incomes.size})
    return rows


def records(setup: Setup) -> tuple[Array, str]:
    """The incomes that are asked for, in thousands, and whose they are."""
    n = setup["n"]
    path = None if setup.data is None else setup.data / FILES[setup["places"]]
    rng = setup.rng("places")
    if path is None or not path.is_file():
        return rng.normal(*PRINTED_MLE, n), "simulated"
    incomes = read(path)
    return rng.permutation(incomes)[:n], setup["places"]


def read(path: Path) -> Array:
    """The medians of a file that are neither 0 nor top-coded, in thousands."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            medians = np.array([float(row["Median"]) for row in csv.DictReader(file)])
    except (KeyError, ValueError, TypeError, OSError, EOFError):
        raise InvalidArgument(
            f"{path.name}: expected a CSV with a column Median of numbers. The data are at {SOURCE}.", argument="data"
        ) from None
    kept = medians[(medians > 0) & (medians < TOP_CODE)]
    if kept.size < 2:
        raise InvalidArgument(f"{path.name} holds fewer than two incomes.", argument="data")
    return np.asarray(kept / 1000)


def run_once(rng: np.random.Generator, point: tuple[Array, dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Every method on one order of the places."""
    incomes, settings = point
    people, epsilon = rng.permutation(incomes), settings["epsilon"]
    ways: dict[str, Any] = {name: name for name in (ADAPTIVE, "clip-harmonic")}
    ways[FIXED] = around(float(incomes.mean()), float(incomes.std()), 5, epsilon)
    found: dict[str, Estimate] = {}
    for method, way in ways.items():
        found[method] = surveyed(rng, people, epsilon, way, settings["n_particles"])
    fixed = found[FIXED].collected
    assert fixed is not None
    found[MCMC] = batch(rng, fixed)
    return {method: (each.mean["mean"], each.mean["sd"]) for method, each in found.items()}


def draw(figure: Figure, rows: Rows) -> None:
    """The runs of each method and the printed ones, as shares of the maximum likelihood estimates of each."""
    panels = figure.subplots(1, 2)
    for k, (axes, name) in enumerate(zip(panels, ("mu", "sigma"), strict=True)):
        mle = next(row[name] for row in rows if row["method"] == MLE)
        axes.axhline(1, color="#1d2733", linewidth=1, label="maximum likelihood, no privacy")
        for place, method in enumerate(METHODS):
            ours = [row[name] / mle for row in rows if row["method"] == method]
            printed = [run[k] / PRINTED_MLE[k] for run in PAPER.get(method, ())]
            inside = [value for value in printed if value < 3]  # one run in print ended at ten times the mle
            axes.plot(np.full(len(ours), place), ours, "o", color="#0072B2", label="ours" if place == 0 else None)
            label = "in print" if place == 1 else None
            axes.plot(np.full(len(inside), place + 0.2), inside, "x", color="#D55E00", label=label)
        axes.set_xticks(range(len(METHODS)), METHODS, rotation=20)
        axes.set_ylabel(f"{name} / mle")
    panels[1].legend(fontsize="small")


def note(rows: Rows) -> str:
    """How far each method is from the estimate without privacy."""
    mle = next(row for row in rows if row["method"] == MLE)
    parts = []
    for method in METHODS:
        some = [row for row in rows if row["method"] == method]
        off = [np.sqrt(np.mean([(row[name] - mle[name]) ** 2 for row in some])) for name in ("mu", "sigma")]
        parts.append(f"{method} {off[0]:.2f} and {off[1]:.2f}")
    words = f"Root mean square distances of mu and sigma from maximum likelihood: {'; '.join(parts)}."
    if mle["data"] == "simulated":
        words += f" The incomes are simulated; the real ones are at {SOURCE}, and --data names their folder."
    return words


STUDY = Study(
    name="online-income",
    about="Incomes of places from private answers: adaptive, fixed and batch.",
    source="Yıldırım (2024), Table 1 and Figure 3",
    settings={
        "epsilon": Setting(float, 1.0, "of epsilon-DP, for each answer", above=0),
        "places": Setting(str, "us", "whose incomes", choices=tuple(FILES)),
        "n": Setting(int, 1500, "places that are asked, at most", full=3982, at_least=2),
        "n_particles": Setting(int, 300, "particles", full=1000, at_least=10),
        "runs": Setting(int, 5, "orders in which they are asked", at_least=1),
    },
    columns=("method", "run", "mu", "sigma", "data", "n"),
    measure=measure,
    draw=draw,
    note=note,
)
