"""regression-utility: how near each private posterior of a regression comes to the one the records themselves give.

Trials are those of `regression`. In each, a method's draws of the coefficients are compared with those of the
non-private posterior of the same records by the maximum mean discrepancy with the kernel exp(-|x - y|^2/2), estimated
without bias, so it may fall below 0; `mmd` is the mean of MMD^2 over trials, as Bernstein (2020, thesis, Figure 5.7;
Bernstein & Sheldon 2019) prints its formula. The rows of `non-private` compare it with other draws of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisewise.evaluate.discrepancy import mmd_squared
from noisewise.regression.problem import Floats
from noisewise_papers.regression import METHODS, Batch, batches_of, colour, fitted, settings_of
from noisewise_papers.study import Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALLEST = 1e-6  # drawn: on a logarithmic scale an estimate below 0 has no place
COMPARED = 400  # draws of each posterior


def measure(setup: Setup) -> Rows:
    """One row a method, n and epsilon."""
    batches = batches_of(setup.settings)
    found: dict[tuple[str, int, float], list[float]] = {}
    for batch, by_method in zip(batches, setup.map(discrepancies, batches, "trials"), strict=True):
        for method, values in by_method.items():
            found.setdefault((method, batch.world.n, batch.world.epsilon), []).extend(values)
    names = ("method", "n", "epsilon")
    return [dict(zip(names, cell, strict=True)) | {"mmd": float(np.mean(values))} for cell, values in found.items()]


def discrepancies(rng: np.random.Generator, batch: Batch) -> dict[str, list[float]]:
    """MMD^2 from the non-private posterior in each trial of a batch, by method."""
    found: dict[str, list[float]] = {method: [] for method in batch.methods}
    for _ in range(batch.trials):
        truth, base, other = batch.world.draw(rng), int(rng.integers(2**62)), int(rng.integers(2**62))
        yardstick = fitted("non-private", [], np.concatenate(truth.rows), batch.world.model, seed=other)
        for method, fit in batch.world.fits(truth, batch.methods, base).items():
            found[method].append(mmd_squared(thinned(fit.coefficients), thinned(yardstick.coefficients)))
    return found


def thinned(draws: Floats, most: int = COMPARED) -> Floats:
    """At most so many draws, evenly spaced."""
    return draws[:: -(-len(draws) // most)]


def draw(figure: Figure, rows: Rows) -> None:
    """mmd against n, one panel an epsilon; Monte Carlo error is left out."""
    epsilons = sorted({row["epsilon"] for row in rows})
    panels = figure.subplots(1, len(epsilons), squeeze=False, sharey=True)[0]
    for axes, epsilon in zip(panels, epsilons, strict=True):
        for method in METHODS[:-1]:
            line = sorted(
                (row["n"], max(row["mmd"], SMALLEST)) for row in rows
                if (row["method"], row["epsilon"]) == (method, epsilon)
            )  # fmt: skip
            if line:
                axes.plot(*zip(*line, strict=True), marker="o", ms=4, color=colour(method), label=method)
        axes.set(xscale="log", yscale="log", xlabel="records n")
        axes.set_title(f"ε = {epsilon:g}", fontsize="medium")
    panels[0].set_ylabel("MMD² from the non-private posterior")
    panels[-1].legend(frameon=False, fontsize="small")


def note(rows: Rows) -> str:
    """Whether the private posteriors are at least as near as the naive one, as in print."""
    value = {(row["method"], row["n"], row["epsilon"]): row["mmd"] for row in rows}
    sentences = ["In print (figure only): every noise-aware method is at least as near to the non-private posterior as "
                 "naive, nearer as n and epsilon grow."]  # fmt: skip
    for method in METHODS[:-2]:
        pairs = [(mmd, value["naive", *cell[1:]]) for cell, mmd in value.items()
                 if cell[0] == method and ("naive", *cell[1:]) in value]  # fmt: skip
        if pairs:
            nearer = sum(mmd <= naive for mmd, naive in pairs)
            sentences.append(f"Here {method} is nearer than naive in {nearer} of {len(pairs)} cells.")
    sentences.append("`non-private` is Monte Carlo error alone.")
    return " ".join(sentences)


STUDY = Study(
    name="regression-utility",
    about="How near private posteriors of a regression are to the non-private one.",
    source="Bernstein & Sheldon (2019); Bernstein (2020, thesis), Figure 5.7",
    settings=settings_of(
        default={"n": (10, 100, 1000), "epsilon": (0.1, 1.0), "trials": 20},
        full={"n": (10, 100, 1000), "epsilon": (0.1, 1.0, 10.0), "trials": 300},
    ),
    columns=("method", "n", "epsilon", "mmd"),
    measure=measure,
    draw=draw,
    note=note,
)
