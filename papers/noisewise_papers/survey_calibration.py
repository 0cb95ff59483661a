"""survey-calibration: are the posteriors of adaptive surveys as wide as they should be?

A trial draws the unknowns of a population from their prior and then the people, asks them one after another with the
questions that a survey chooses (exploring ones among them), and ranks the truth among the posterior's draws:
u = (rank + V)/(draws + 1) is uniform if the posterior is right, whatever made the survey ask what it asked.
    normal, log-normal      two unknowns, all families of questions
    categorical             three levels through randomized response
    joint                   a normal column and one of three levels; the design picks the column
    contaminated            a normal column, and people who lie as often and in the ways the prior has it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from noisewise.online.contamination import LIES
from noisewise.online.simulate import simulated_answer
from noisewise.online.survey import Survey
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.text import population_from_spec
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.query import Query
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = 10  # trials of one task
GUARANTEE = {"kind": "pure-dp", "epsilon": "2"}
FALSE = 0.1  # of the contaminated people, on average
FAR = 1e9
NORMAL, LEVELS = "normal(mean=norm(0, 3), sd=gamma(4, scale=0.4))", "categorical(p=dirichlet([1, 1, 1]))"
POPULATIONS = {
    "normal": {"x": NORMAL},
    "log-normal": {"x": "lognormal(log_mean=norm(3, 1), log_sd=gamma(4, scale=0.2))"},
    "categorical": {"x": LEVELS},
    "joint": {"x": NORMAL, "level": LEVELS},
    "contaminated": {"x": NORMAL},
}


class Cell(NamedTuple):
    """Which population, how many people and particles, how many trials."""

    population: str
    people: int
    particles: int
    trials: int


def trials(rng: np.random.Generator, cell: Cell) -> dict[str, list[float]]:
    """u of each unknown in every trial of a batch."""
    found: dict[str, list[float]] = {}
    for _ in range(cell.trials):
        for name, u in trial(rng, cell).items():
            found.setdefault(name, []).append(u)
    return found


def trial(rng: np.random.Generator, cell: Cell) -> dict[str, float]:
    """u of each unknown in one survey."""
    population = population_from_spec(POPULATIONS[cell.population])
    share = FALSE if cell.population == "contaminated" else 0.0
    survey = Survey(
        population,
        guarantee=guarantee_from_dict(GUARANTEE),
        n_particles=cell.particles,
        contamination=share,
        seed=int(rng.integers(2**62)),
    )
    truth = survey._engine.law.sample_prior(rng, 1)
    for _ in range(cell.people):
        query = survey.query()
        lie = _lie(rng, truth, query) if share else None
        column = query.asks_about
        x = population.marginal(column).sample(rng, 1, population.theta_of(column, truth))[0, 0]
        survey.answer(simulated_answer(rng, query, float(x) if lie is None else lie))
    return _ranks(rng, survey.posterior().draws, truth)


def _lie(rng: np.random.Generator, truth: Theta, query: Query) -> float | None:
    """What someone who lies tells the device; None for the honest."""
    top, bottom, anywhere = (float(truth[name][0]) for name in LIES)
    u = rng.random()
    if u < top:
        return FAR
    if u < top + bottom:
        return -FAR
    if u >= top + bottom + anywhere:
        return None
    if query.edges is None:
        return FAR if rng.random() < 0.5 else -FAR
    ends = [-FAR, *query.edges, FAR]
    cell = int(rng.integers(len(ends) - 1))
    return 0.5 * (max(ends[cell], -FAR) + ends[cell + 1])


def _ranks(rng: np.random.Generator, draws: Theta, truth: Theta) -> dict[str, float]:
    """(rank + V)/(draws + 1) of each number that is unknown; the last of several shares follows from the others."""
    found: dict[str, float] = {}
    for name, value in draws.items():
        own, true = np.asarray(value)[0], np.asarray(truth[name])[0]
        columns = own[:, None] if own.ndim == 1 else own[:, :-1]
        for k, column in enumerate(columns.T):
            label = name if own.ndim == 1 else f"{name}[{k}]"
            below = int(np.sum(column < np.ravel(true)[k]))
            found[label] = float((below + rng.random()) / (len(column) + 1))
    return found


def measure(setup: Setup) -> Rows:
    """One row for each population and unknown."""
    cells = [Cell(name, setup["people"], setup["particles"], setup["trials"]) for name in setup["population"]]
    batches = [
        cell._replace(trials=min(BATCH, cell.trials - start))
        for cell in cells
        for start in range(0, cell.trials, BATCH)
    ]
    found: dict[str, dict[str, list[float]]] = {}
    for batch, one in zip(batches, setup.map(trials, batches, "surveys"), strict=True):
        for name, u in one.items():
            found.setdefault(batch.population, {}).setdefault(name, []).extend(u)
    return [row_of(population, name, np.array(u)) for population, each in found.items() for name, u in each.items()]


def row_of(population: str, name: str, u: Array) -> Row:
    """How far the ranks of one unknown are from uniform."""
    row: Row = {"population": population, "parameter": name, "ks_p": float(stats.kstest(u, "uniform").pvalue)}
    row |= {f"coverage{level}": float(np.mean(np.abs(u - 0.5) <= level / 200)) for level in (50, 90, 95)}
    return {**row, "trials": len(u)}


def draw(figure: Figure, rows: Rows) -> None:
    """The coverage of 90 % intervals in every row, with the band of so many trials."""
    axes = figure.subplots()
    count = min(row["trials"] for row in rows)
    low, high = stats.binom(count, 0.9).interval(0.99)
    axes.axvspan(low / count, high / count, color="0.88", lw=0)
    axes.axvline(0.9, color="0.5", lw=1)
    axes.plot([row["coverage90"] for row in rows], range(len(rows)), "o", ms=5)
    names = [f"{row['population']}, {row['parameter']}" for row in rows]
    axes.set(yticks=range(len(rows)), yticklabels=names, xlabel="share of 90 % intervals that hold the truth")


def note(rows: Rows) -> str:
    """Which rows leave the 99 % band of their trials."""
    beyond = [row for row in rows if abs(row["coverage90"] - 0.9) > 2.58 * (0.09 / row["trials"]) ** 0.5]
    return f"{len(beyond)} of {len(rows)} rows lie outside the 99 % band of a calibrated posterior's coverage at 90 %."


STUDY = Study(
    name="survey-calibration",
    about="Whether the posteriors of adaptive surveys cover what they claim.",
    source="our own (no paper's): people asked one after another at epsilon = 2, each by a question of the survey's",
    settings={
        "population": Setting(
            str, tuple(POPULATIONS), "whom the survey asks", choices=tuple(POPULATIONS)
        ),
        "people": Setting(int, 60, "people of each survey", full=80, at_least=1),
        "particles": Setting(int, 200, "particles of each survey", full=400, at_least=10),
        "trials": Setting(int, 10, "surveys of each population", full=1000, at_least=1),
    },
    columns=("population", "parameter", "ks_p", "coverage50", "coverage90", "coverage95", "trials"),
    measure=measure,
    draw=draw,
    note=note,
)  # fmt: skip
