"""joins-calibration: are posteriors that join releases of different records as wide as they should be?

Two ways to join, both with few records behind at least one release:
    holders   three data sets of 3, 8 and 40 records: their likelihoods multiply
    part      a part of one data set, and a release of the rest: disjoint records, so they multiply, too
A trial draws the unknowns of N(mean, sd^2) from their prior, the records, and one release of the mean and the mean
square of each data set or part; u = (rank + V)/101 of the truth among 100 draws is uniform if the join is right. The
records lie in [-5, 5], where some are clamped.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from noisewise.evaluate.calibration import Calibration, Plans, calibrate
from noisewise.planning import Plan, plan
from noisewise.populations.population import Normal
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.schema import Bounded, Schema
from noisewise.statistics import statistic
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOLDERS = (3, 8, 40)
WHOLE, CUT = 60, Fraction(1, 3)
BOUND = 5
BATCH = 20  # trials of one task
GUARANTEES = {"laplace": {"kind": "pure-dp", "epsilon": "2"}, "gaussian": {"kind": "zero-concentrated-dp", "rho": "2"}}


class Cell(NamedTuple):
    """How releases are joined, by which noise, and how many unknowns there are."""

    join: str
    noise: str
    unknowns: int
    trials: int


def plans_of(cell: Cell) -> Plans:
    """What is released in a trial, by data set."""

    def released(n: int, part: tuple[Fraction, Fraction] | None = None) -> Plan:
        schema = Schema({"x": Bounded(-BOUND, BOUND)}, n=n, neighbours="change-one")
        return plan(
            statistic("mean(x, x**2)"), schema, guarantee=guarantee_from_dict(GUARANTEES[cell.noise]), part=part
        )

    if cell.join == "holders":
        return [[released(n)] for n in HOLDERS]
    return [[released(WHOLE, (Fraction(0), CUT)), released(WHOLE, (CUT, Fraction(1)))]]


def trials(rng: np.random.Generator, cell: Cell) -> Calibration:
    """One batch of trials of a cell."""
    sd = 1.5 if cell.unknowns == 1 else stats.gamma(4, scale=0.4)
    population = Normal(mean=stats.norm(0, 2), sd=sd)
    return calibrate(plans_of(cell), population, trials=cell.trials, seed=int(rng.integers(2**62)), progress=False)


def measure(setup: Setup) -> Rows:
    """One row for each cell and unknown."""
    cells = [
        Cell(join, noise, unknowns, setup["trials"])
        for join in setup["join"] for noise in setup["noise"] for unknowns in setup["unknowns"]
    ]  # fmt: skip
    batches = [
        cell._replace(trials=min(BATCH, cell.trials - start))
        for cell in cells
        for start in range(0, cell.trials, BATCH)
    ]
    found: dict[Cell, list[Calibration]] = {}
    for batch, one in zip(batches, setup.map(trials, batches, "trials"), strict=True):
        found.setdefault(batch._replace(trials=setup["trials"]), []).append(one)
    return [row for cell, parts in found.items() for row in rows_of(cell, parts)]


def rows_of(cell: Cell, parts: list[Calibration]) -> list[Row]:
    """How far the ranks of one cell are from uniform, by unknown."""
    uniforms = np.concatenate([part.uniforms for part in parts])
    failed = sum(len(part.failures) for part in parts)
    rows = []
    for k, name in enumerate(parts[0].names):
        u = uniforms[:, k]
        row: Row = {"join": cell.join, "noise": cell.noise, "unknowns": cell.unknowns, "parameter": name}
        row["ks_p"] = float(stats.kstest(u, "uniform").pvalue)
        row |= {f"coverage{level}": float(np.mean(np.abs(u - 0.5) <= level / 200)) for level in (50, 90, 95)}
        rows.append({**row, "trials": len(u), "failed": failed})
    return rows


def draw(figure: Figure, rows: Rows) -> None:
    """The coverage of 90 % intervals in every row, with the band of so many trials."""
    axes = figure.subplots()
    names = [f"{row['join']}, {row['noise']}, {row['parameter']} of {row['unknowns']}" for row in rows]
    count = min(row["trials"] for row in rows)
    low, high = stats.binom(count, 0.9).interval(0.99)
    axes.axvspan(low / count, high / count, color="0.88", lw=0)
    axes.axvline(0.9, color="0.5", lw=1)
    axes.plot([row["coverage90"] for row in rows], range(len(rows)), "o", ms=5)
    axes.set(yticks=range(len(rows)), yticklabels=names, xlabel="share of 90 % intervals that hold the truth")


def note(rows: Rows) -> str:
    """Which rows leave the 99 % band of their trials."""
    beyond = [row for row in rows if abs(row["coverage90"] - 0.9) > 2.58 * (0.09 / row["trials"]) ** 0.5]
    failed = sum(row["failed"] for row in rows)
    return (
        f"{len(beyond)} of {len(rows)} rows lie outside the 99 % band of a calibrated posterior's coverage at 90 %; "
        f"{failed} trials failed."
    )


STUDY = Study(
    name="joins-calibration",
    about="Whether posteriors that join releases of different records cover what they claim.",
    source="our own (no paper's): three holders with 3, 8 and 40 records; a part of a data set with the rest",
    settings={
        "join": Setting(str, ("holders", "part"), "which records are joined", choices=("holders", "part")),
        "noise": Setting(str, ("laplace", "gaussian"), "the noise of the releases", choices=("laplace", "gaussian")),
        "unknowns": Setting(int, (1,), "1 (the mean), 2 (the sd, too)", full=(1, 2), at_least=1),
        "trials": Setting(int, 20, "trials of each cell", full=1000, at_least=1),
    },
    columns=(
        "join",
        "noise",
        "unknowns",
        "parameter",
        "ks_p",
        "coverage50",
        "coverage90",
        "coverage95",
        "trials",
        "failed",
    ),
    measure=measure,
    draw=draw,
    note=note,
)
