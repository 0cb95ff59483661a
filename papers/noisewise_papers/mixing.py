"""mixing: how fast the kernels move, against the number of particles.

Records X ~ N(0, variance theta), one release of mean |x| with Laplace noise, a flat prior on (0, prior_high), and the
same random walk of sd `walk_sd` *on theta itself* for every kernel (Alparslan & Yıldırım 2022, section 5.3, Table 3;
Alparslan 2023, Table 6.1). The integrated autocorrelation time (IAC) of theta is the number of steps that are worth one
independent draw:
    mh                the exact marginal likelihood: what the others approach
    pmmh, cpm         an estimate from N particles u ~ f(.|theta), fresh at every step or correlated with the last
    mhaar             ratios averaged over N particles; both sides are estimated afresh
    pmmh-fitted       pmmh with half of its particles drawn where y says they are: our default
    mh-within-gibbs   the statistic is kept and moved in turn

A single run's IAC of pmmh is unreliable: a lucky estimate can hold the chain for thousands of steps. `iac` is the mean
over `chains` runs of the IAC of each (Sokal's window), `iac_low` and `iac_high` the 5 % and 95 % points of that mean
under resampling of the runs. A quarter of `steps` is run first and left out. Time is the processor's, per step of one
chain, with all chains moving together in arrays; `ess_per_second` = 10^6 / (iac * microseconds_per_step).
Under `likelihood=auto` the statistic's own law takes the place of the normal one; particles are then whole data sets.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.inference.diagnostics import integrated_autocorrelation
from noisewise.inference.kernels import Kernel, Walk
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.laws import additive_law
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.quadrature import on_panels
from noisewise.planning import plan
from noisewise.populations.parameters import Array, Support, Theta
from noisewise.populations.population import Normal
from noisewise.privacy.guarantee import PureDP
from noisewise.published.samplers.averaged import Averaged
from noisewise.published.samplers.averaged_records import AveragedRecords
from noisewise.published.samplers.correlated import Correlated
from noisewise.published.samplers.latent import is_batch
from noisewise.published.samplers.metropolis import Metropolis
from noisewise.published.samplers.pseudo_marginal import PseudoMarginal
from noisewise.published.samplers.within_gibbs import WithinGibbs
from noisewise.release import Release
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Mean, column
from noisewise_papers.absolutes import PARAMETER, NormalAbsolutes, OwnAbsolutes
from noisewise_papers.resample import mean_with_range
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IN_PRINT = {
    ("pmmh", 2): 44.03, ("pmmh", 5): 28.19, ("pmmh", 10): 21.11, ("pmmh", 20): 18.16, ("pmmh", 50): 15.32,
    ("pmmh", 100): 16.42, ("mhaar", 2): 17.99, ("mhaar", 5): 17.10, ("mhaar", 10): 16.13, ("mhaar", 20): 15.44,
    ("mhaar", 50): 13.78, ("mhaar", 100): 15.86,
}  # fmt: skip
FEW_PARTICLES = 20  # beyond them the kernels outside the paper's table have nothing left to gain
Point = tuple[str, int | None, Mapping[str, Any]]


def measure(setup: Setup) -> Rows:
    """One row a kernel and number of particles, one for `mh`, one for `exact`."""
    counts: tuple[int, ...] = setup["n_particles"]
    model = Model.of(setup.settings)
    grid: list[tuple[str, int | None]] = [("mh", None)]
    grid += [(name, count) for name in ("pmmh", "mhaar") for count in counts]
    if is_batch(model.latent):
        grid += [(name, count) for name in ("cpm", "pmmh-fitted") for count in counts if count <= FEW_PARTICLES]
        grid += [("mh-within-gibbs", None)]
    points: list[Point] = [(name, count, setup.settings) for name, count in grid]
    return [_exact_row(model), *setup.map(kernel_row, points, "kernels")]


def kernel_row(rng: np.random.Generator, point: Point) -> Row:
    """Run one kernel and say how it moved."""
    name, count, settings = point
    model = Model.of(settings)
    kernel = model.kernel(name, count, Walk.isotropic(1, settings["walk_sd"]))
    draws, seconds = run_chains(rng, kernel, model, settings["chains"], settings["steps"])
    iac, low, high = mean_with_range(rng, np.array([integrated_autocorrelation(chain) for chain in draws]))
    microseconds = 1e6 * seconds / draws.size
    return {
        "kernel": name,
        "n_particles": count,
        "iac": iac,
        "iac_low": low,
        "iac_high": high,
        "mean": float(draws.mean()),
        "sd": float(draws.std()),
        "microseconds_per_step": microseconds,
        "ess_per_second": 1e6 / (iac * microseconds),
        "paper": IN_PRINT.get((name, count or 0)) if is_as_in_print(settings) else None,
    }


@dataclass(frozen=True, slots=True)
class Model:
    """The posterior of the variance given the release, with the walk on the variance itself."""

    likelihood: NormalAbsolutes | OwnAbsolutes
    target: Target
    high: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Model:
        from scipy import stats

        high, release = settings["prior_high"], release_of(settings)
        population = Normal(mean=0, variance=stats.uniform(0, high))
        likelihood: NormalAbsolutes | OwnAbsolutes = NormalAbsolutes.of(release)
        chosen = joint_likelihood([release], population, likelihood=settings["likelihood"])
        if chosen.is_exact:
            likelihood = OwnAbsolutes.of(chosen, release, high)
        target = Target(
            Transform({PARAMETER: Support()}),  # the identity; the prior's density says where theta may be
            prior=population.parameters.log_prior,
            likelihood=lambda theta: likelihood.log_likelihood(_inside(theta, high)),
            sample_prior=population.parameters.sample,
        )
        return cls(likelihood, target, high)

    @property
    def latent(self) -> Any:
        return self.likelihood.latent(lambda position: _inside({PARAMETER: position[:, 0]}, self.high))

    def kernel(self, name: str, count: int | None, walk: Walk) -> Kernel:
        """The kernel of that name; u from f(.|theta) is the papers' choice, the fit is ours."""
        if name == "mh":
            return Metropolis(self.target, walk)
        kinds: dict[str, Any] = {
            "pmmh": partial(PseudoMarginal, share=1.0),
            "cpm": partial(Correlated, share=1.0),
            "mhaar": partial(Averaged, share=1.0) if is_batch(self.latent) else AveragedRecords,
            "pmmh-fitted": PseudoMarginal,
            "mh-within-gibbs": WithinGibbs,
        }
        particles = {} if count is None else {"n_particles": count}
        made: Kernel = kinds[name](self.target, walk, latent=self.latent, **particles)
        return made

    def quadrature(self) -> tuple[Array, Array]:
        """Nodes on (0, high) and their posterior weights: 3200 of them, exact far beyond what is shown."""
        nodes, weights = (part.ravel() for part in on_panels(np.linspace(0, self.high, 201), 16))
        log_density = self.target.log_density(nodes[:, None])
        mass = weights * np.exp(log_density - np.max(log_density))
        return nodes, mass / mass.sum()


def release_of(settings: Mapping[str, Any]) -> Release:
    """A simulated release of mean |x| with the value y, on its lattice."""
    n, bound = settings["n"], settings["bound"]
    schema = Schema({"x": Bounded(-bound, bound)}, n=n, neighbours="change-one")
    planned = plan(Mean(abs(column("x"))), schema, guarantee=PureDP(settings["epsilon"]))
    y = settings["y"]
    if y is None:
        y = math.sqrt(2 * settings["theta"] / math.pi)
    value = round(y * n / additive_law(planned.law).step[0])
    return Release.of(planned, [value], dataset="simulated", ledger_head=None, simulated=True)


def run_chains(rng: np.random.Generator, kernel: Kernel, model: Model, chains: int, steps: int) -> tuple[Array, float]:
    """Draws (chains, steps) of theta after a quarter of the steps, begun at draws from the posterior; their seconds."""
    nodes, weights = model.quadrature()
    state = kernel.init(rng, rng.choice(nodes, (chains, 1), p=weights))
    draws: Array = np.empty((chains, steps))
    for _ in range(steps // 4):
        state, _ = kernel.step(rng, state)
    begun = time.process_time()
    for t in range(steps):
        state, _ = kernel.step(rng, state)
        draws[:, t] = state.position[:, 0]
    return draws, time.process_time() - begun


def is_as_in_print(settings: Mapping[str, Any]) -> bool:
    """True where the settings are the paper's (which does not state its walk), so that its figures may stand here."""
    stated = {"epsilon": 5.0, "n": 100, "bound": 10.0, "theta": 2.0, "likelihood": "clt"}
    return settings["y"] is None and all(settings[name] == value for name, value in stated.items())


def _exact_row(model: Model) -> Row:
    nodes, weights = model.quadrature()
    mean = float(weights @ nodes)
    row: Row = dict.fromkeys(STUDY.columns)
    return row | {"kernel": "exact", "mean": mean, "sd": math.sqrt(float(weights @ np.square(nodes - mean)))}


def _inside(theta: Theta, high: float) -> dict[str, Array]:
    """theta, moved into its support where a walk has left it: the prior already excludes the place."""
    return {PARAMETER: np.clip(theta[PARAMETER], 1e-9 * high, high)}


def draw(figure: Figure, rows: Rows) -> None:
    """IAC against the number of particles, with the paper's figures as crosses."""
    axes = figure.subplots()
    for name in dict.fromkeys(row["kernel"] for row in rows if row["n_particles"] is not None):
        line = [row for row in rows if row["kernel"] == name]
        count = [row["n_particles"] for row in line]
        drawn = axes.plot(count, [row["iac"] for row in line], marker="o", label=name)[0]
        axes.fill_between(
            count, [row["iac_low"] for row in line], [row["iac_high"] for row in line], alpha=0.2, lw=0,
            color=drawn.get_color(),
        )  # fmt: skip
        printed = [(row["n_particles"], row["paper"]) for row in line if row["paper"] is not None]
        if printed:
            axes.plot(*zip(*printed, strict=True), "x", color=drawn.get_color(), label=f"{name}, in print")
    for row in rows:
        if row["n_particles"] is None and row["iac"] is not None:
            style = "--" if row["kernel"] == "mh" else ":"
            axes.axhline(row["iac"], color="0.3", ls=style, lw=1, label=row["kernel"])
    counts = sorted({row["n_particles"] for row in rows if row["n_particles"] is not None})
    axes.set(xscale="log", xlabel="particles N", ylabel="integrated autocorrelation time of θ")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small", ncols=2)


def note(rows: Rows) -> str:
    """What the table shows."""
    ideal = next(row for row in rows if row["kernel"] == "mh")
    return (
        f"An ideal chain with this walk needs {ideal['iac']:.1f} steps for one independent draw. PMMH approaches that "
        "with N, MHAAR is near it from the start; `paper` is Alparslan & Yıldırım (2022), Table 3, from single runs. "
        "All kernels have the posterior of `exact`, which needs no chain at all."
    )


STUDY = Study(
    name="mixing",
    about="How fast each kernel moves, against its number of particles.",
    source="Alparslan & Yıldırım (2022), Table 3",
    settings={
        "epsilon": Setting(float, 5.0, "the privacy of the release", above=0),
        "n": Setting(int, 100, "records", at_least=1),
        "bound": Setting(float, 10.0, "records are clamped to [-bound, bound]", above=0),
        "theta": Setting(float, 2.0, "the true variance, if y is not given", above=0),
        "y": Setting(float, None, "the released mean of |x|; null: its expectation"),
        "walk_sd": Setting(float, 0.25, "of the random walk on theta", above=0),
        "prior_high": Setting(float, 10.0, "the prior is uniform on (0, prior_high)", above=0),
        "likelihood": Setting(str, "clt", "clt as in the paper, or auto", choices=("clt", "auto")),
        "n_particles": Setting(int, (2, 5, 10, 20, 50, 100), "particles of pmmh, mhaar and cpm", at_least=2),
        "chains": Setting(int, 100, "runs of each kernel", at_least=2),
        "steps": Setting(int, 5000, "of each run, after a quarter of as many", full=100_000, at_least=50),
    },
    columns=(
        "kernel",
        "n_particles",
        "iac",
        "iac_low",
        "iac_high",
        "mean",
        "sd",
        "microseconds_per_step",
        "ess_per_second",
        "paper",
    ),
    measure=measure,
    draw=draw,
    note=note,
)
