"""expfam-utility: how near each private posterior comes to the one that the records themselves give.

Trials are those of `expfam`. In each, the posterior of a method is compared with the non-private posterior of the same
records by the maximum mean discrepancy with the standard normal kernel k(x, y) = exp(-(x - y)^2/2),
    MMD^2 = E k(x, x') + E k(y, y') - 2 E k(x, y),
estimated without bias, so it may fall below 0; `mmd` is its mean over trials, of the first component of the parameter
(Bernstein & Sheldon 2018; Bernstein 2020, thesis, Figure 4.4, which prints the formula of MMD^2 under that name). Where
posteriors are narrow beside the kernel it is nearly the mean squared distance between their means. The rows of
`non-private` compare it with other draws of itself: what remains there is Monte Carlo error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.evaluate.discrepancy import mmd_squared
from noisewise_papers.expfam import FAMILIES, METHODS, Batch, batches_of, settings_of, trial_seeds
from noisewise_papers.study import Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALLEST = 1e-7  # drawn: on a logarithmic scale an estimate below 0 has no place
Cell = tuple[str, int, float, str]


def measure(setup: Setup) -> Rows:
    """One row a family, n, epsilon and method."""
    batches = batches_of(setup.settings)
    found: dict[Cell, list[float]] = {}
    for batch, by_method in zip(batches, setup.map(discrepancies, batches, "trials"), strict=True):
        experiment = batch.experiment
        for method, values in by_method.items():
            found.setdefault((experiment.family, experiment.n, experiment.epsilon, method), []).extend(values)
    names = ("family", "n", "epsilon", "method")
    return [dict(zip(names, cell, strict=True)) | {"mmd": float(np.mean(values))} for cell, values in found.items()]


def discrepancies(rng: np.random.Generator, batch: Batch) -> dict[str, list[float]]:
    """MMD^2 from the non-private posterior in each trial of a batch, by method."""
    experiment, found = batch.experiment, {method: list[float]() for method in batch.methods}
    for seed in trial_seeds(rng, batch.trials)():
        world, *others = (np.random.default_rng(each) for each in seed.spawn(2 + len(batch.methods)))
        theta = experiment.population.sample_prior(world, 1)
        data = experiment.releases(world, theta)

        def draws(method: str, generator: np.random.Generator, data: Any = data) -> Any:
            sampled = experiment.sampler(method)(data, experiment.population, int(generator.integers(2**63)))
            return _thinned(experiment.first(sampled.draws))

        reference = draws("non-private", others[0])
        for method, generator in zip(batch.methods, others[1:], strict=True):
            found[method].append(mmd_squared(draws(method, generator), reference))
    return found


def _thinned(values: Any, most: int = 400) -> Any:
    """At most so many draws, evenly spaced."""
    return values[:: -(-len(values) // most)]


def draw(figure: Figure, rows: Rows) -> None:
    """mmd against n: one panel a family, one colour a method, one dash an epsilon; Monte Carlo error is left out."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    figure.set_size_inches(2.6 * len(families) + 0.8, 3.4)
    panels = figure.subplots(1, len(families), squeeze=False)[0]
    epsilons = sorted({row["epsilon"] for row in rows})
    for axes, family in zip(panels, families, strict=True):
        for method in METHODS[:-1]:
            for dash, epsilon in zip(("-", "--", ":", "-."), epsilons, strict=False):
                mine = [row for row in rows if (row["family"], row["method"]) == (family, method)]
                line = sorted((row["n"], max(row["mmd"], SMALLEST)) for row in mine if row["epsilon"] == epsilon)
                if line:
                    axes.plot(
                        *zip(*line, strict=True),
                        dash,
                        marker="o",
                        ms=4,
                        color=f"C{METHODS.index(method)}",
                        label=f"{method}, ε = {epsilon:g}",
                    )
        axes.set(xscale="log", yscale="log", xlabel="records n")
        axes.set_title(family, fontsize="medium")
    panels[0].set_ylabel("MMD² from the non-private posterior")
    handles: dict[str, Any] = {}
    for axes in panels:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize="x-small")


def note(rows: Rows) -> str:
    """Whether the private posterior is at least as near as the naive one, as in print."""
    value = {(row["family"], row["n"], row["epsilon"], row["method"]): row["mmd"] for row in rows}
    sentences = [
        "In print (figure only): Gibbs is at least as near to the non-private posterior as the naive one, for the "
        "binomial and the multinomial; one-posterior sampling and the exponential are left out."
    ]
    for method in ("exact", "gibbs"):
        pairs = [(mmd, value[*cell[:3], "naive"]) for cell, mmd in value.items()
                 if cell[3] == method and (*cell[:3], "naive") in value]  # fmt: skip
        if pairs:
            nearer = sum(mmd <= naive for mmd, naive in pairs)
            sentences.append(f"Here {method} is nearer than naive in {nearer} of {len(pairs)} cells.")
    sentences.append("`non-private` is Monte Carlo error alone.")
    return " ".join(sentences)


STUDY = Study(
    name="expfam-utility",
    about="How near private posteriors of five conjugate families are to the non-private ones.",
    source="Bernstein & Sheldon (2018); Bernstein (2020, thesis), Figure 4.4",
    settings=settings_of(
        default={"family": FAMILIES, "n": (100, 1000), "epsilon": (0.01, 0.1), "trials": 20},
        full={"n": (10, 100, 1000, 10_000, 100_000), "epsilon": (0.01, 0.1, 1.0), "trials": 1000},
        methods=METHODS,
    ),
    columns=("family", "n", "epsilon", "method", "mmd"),
    measure=measure,
    draw=draw,
    note=note,
)
