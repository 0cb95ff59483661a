"""Exact inference on few parameters: no tuning, no approximation beyond a stated error.

    one parameter     adaptive quadrature: evidence, moments, and independent draws        (`line`)
    two parameters    a grid as the proposal of an independence sampler                    (`plane`)
    three and more    slice sampling, with warm-up and several chains                      (`kernels.slice`)

"Exact" is about the computation: the draws are from the posterior of the likelihood given, whether that likelihood is
the release's own law or the central limit theorem's. A density that is NaN is left out and counted, never silent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from noisewise.exact import integer
from noisewise.inference.adapt import Progress
from noisewise.inference.density import Density, ExactTarget
from noisewise.inference.diagnostics import Verdict, ess_bulk, ess_tail, rhat, verdict
from noisewise.inference.kernels import Floats
from noisewise.inference.kernels.slice import Slice
from noisewise.inference.line import TOLERANCE, Line, on_the_line
from noisewise.inference.plane import Grid, evidence, lay_grids, moments, sample
from noisewise.inference.run import run

__all__ = ["Exact", "IndependentVerdict", "exact"]

Moments = Mapping[str, tuple[Floats, Floats]]
HUMP_SHARE, HUMP_POINTS = 0.01, 400
TRUSTED = 1e-6  # error of evidence and moments, to be told
# Below this share of accepted proposals, or above this R-hat, the grid has missed the posterior's shape; R-hat of few
# draws says nothing.
POOR_ACCEPTANCE, POOR_RHAT, ENOUGH_DRAWS = 0.3, 1.05, 1000


@dataclass(frozen=True, slots=True)
class IndependentVerdict:
    """The verdict on independent draws: there is nothing to converge; only the density itself can be at fault."""

    draws: int
    chains: int
    error: float  # of the quadrature, in units of the whole mass
    evaluations: int
    non_finite: tuple[int, ...]
    rhat: float
    smallest_ess: float
    by: str = "quadrature"
    humps: int = 1  # separate ones, each with a share of the mass worth telling
    notes: tuple[str, ...] = ()  # sentences of a model: what it assumed

    @classmethod
    def of(
        cls, draws: Floats, *, by: str, error: float = 0.0, evaluations: int = 0, non_finite: int = 0
    ) -> IndependentVerdict:
        """On independent draws (chains, draws, ...), judged as if they came from chains."""
        chains, size = draws.shape[:2]
        columns = draws.reshape(chains, size, -1)
        each = [columns[:, :, j] for j in range(columns.shape[2])]
        return cls(
            draws=chains * size,
            chains=chains,
            error=error,
            evaluations=evaluations,
            non_finite=(non_finite,) if non_finite else (),
            rhat=max(rhat(column) for column in each),
            smallest_ess=min(min(ess_bulk(column), ess_tail(column)) for column in each),
            by=by,
        )

    @property
    def is_converged(self) -> bool:
        return not any(self.non_finite) and self.error < 1e-3

    def __str__(self) -> str:
        return " ".join((self._sentence(), *self.notes))

    def _sentence(self) -> str:
        count = sum(self.non_finite)
        if count:
            return (
                f"{count} of {self.evaluations} evaluations of the density were not finite and were left out; "
                "do not trust these draws before the reason is known."
            )
        if not self.is_converged:
            return (
                f"The density is too rough for quadrature (error {self.error:.0e} after {self.evaluations} "
                "evaluations); use method='slice'."
            )
        error = f" (error {self.error:.0e})" if self.error > TOLERANCE else ""
        words = f"Exact: {self.draws} independent draws by {self.by}{error}."
        if self.humps > 1:
            words += f" The posterior has {self.humps} separate humps: look at the plot, not at the mean."
        return words


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """Draws (chains, draws, size) on the real line, and what is known beyond them."""

    positions: Floats
    log_evidence: float | None
    moments: Moments | None  # mean and sd of each parameter, where known better than by draws
    is_independent: bool
    how: str
    non_finite: tuple[int, ...]
    verdict: Verdict | IndependentVerdict


def exact(
    rng: np.random.Generator,
    target: ExactTarget,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    progress: Progress | None = None,
    tolerance: float = TOLERANCE,
) -> Exact:
    """Draws from a target whose likelihood has no noise; `warmup` is used where chains must find their way."""
    integer(chains, "chains", minimum=1)
    integer(draws, "draws", minimum=1)
    integer(warmup, "warmup", minimum=0)
    if target.size == 1:
        return _one(rng, target, chains, draws, progress, tolerance)
    if target.size == 2:
        return _two(rng, target, chains, draws, warmup, progress)
    how = f"slice sampling of {target.size} parameters, {chains} chains after {warmup} steps of warm-up"
    return _many(rng, target, chains, draws, warmup, progress, how=how)


def _one(
    rng: np.random.Generator,
    target: ExactTarget,
    chains: int,
    draws: int,
    progress: Progress | None,
    tolerance: float,
) -> Exact:
    line = on_the_line(rng, target, tolerance)
    positions = line.draw(rng, (chains, draws))
    if progress is not None:
        progress(chains * draws, chains * draws)
    non_finite = (line.non_finite,)
    judged = IndependentVerdict(
        draws=chains * draws,
        chains=chains,
        error=line.error,
        evaluations=line.evaluations,
        non_finite=non_finite,
        rhat=rhat(positions),
        smallest_ess=float(np.min([ess_bulk(positions), ess_tail(positions)])),
        humps=humps(line),
    )
    how = f"adaptive quadrature of one parameter, {line.evaluations} evaluations, independent draws"
    return Exact(positions[:, :, None], line.log_evidence, _line_moments(target, line), True, how, non_finite, judged)


def humps(line: Line) -> int:
    """How many separate humps: between two the density falls below half of both, and each holds a share of the mass."""
    low, high = line.quantile(np.array([HUMP_SHARE / 10, 1 - HUMP_SHARE / 10]))
    below = line.cdf(np.linspace(low, high, HUMP_POINTS))
    mass = np.diff(below)
    sides = np.minimum(np.maximum.accumulate(mass), np.maximum.accumulate(mass[::-1])[::-1])
    runs = np.split(np.arange(mass.size), np.flatnonzero(np.diff(mass < 0.5 * sides)) + 1)
    valleys = [run[np.argmin(mass[run])] for run in runs if mass[run[0]] < 0.5 * sides[run[0]]]
    shares = np.diff([0.0, *below[valleys], 1.0])
    return int(np.sum(shares >= HUMP_SHARE))


def _line_moments(target: ExactTarget, line: Line) -> Moments:
    ((name, value),) = target.parameters(np.zeros((1, 1))).items()
    if value.ndim == 2:  # two probabilities, of which the line knows the first
        return {name: (np.array([line.mean, 1 - line.mean]), np.array([line.sd, line.sd]))}
    return {name: (np.array(line.mean), np.array(line.sd))}


def _two(
    rng: np.random.Generator, target: ExactTarget, chains: int, draws: int, warmup: int, progress: Progress | None
) -> Exact:
    density = Density(target)
    grids = lay_grids(rng, density)
    searched = (density.non_finite,)
    drawn = sample(rng, density, grids, chains=chains, draws=draws, progress=progress)
    judged = verdict(drawn.positions, non_finite=drawn.non_finite, warmup_non_finite=searched)
    has_drifted = judged.rhat > POOR_RHAT and chains * draws >= ENOUGH_DRAWS
    if drawn.acceptance < POOR_ACCEPTANCE or has_drifted or judged.stuck:
        how = f"slice sampling, because a grid's proposals were accepted only {drawn.acceptance:.0%} of the time"
        return _many(rng, target, chains, draws, warmup, progress, how=how, start=drawn.positions[:, -1])
    how = f"an independence sampler on a grid of two parameters, {drawn.acceptance:.1%} of proposals accepted"
    is_trusted = grid_error(grids, target) < TRUSTED
    return Exact(
        drawn.positions,
        log_evidence=evidence(grids) if is_trusted else None,
        moments=moments(grids, target) if is_trusted else None,
        is_independent=False,
        how=how,
        non_finite=drawn.non_finite,
        verdict=judged,
    )


def grid_error(grids: tuple[Grid, ...], target: ExactTarget) -> float:
    """How far evidence and moments (in sds) by every second point of the grids are from those by all of it, squared.

    The trapezoidal rule of a smooth density squares its error when the step is halved.
    """
    errors = [abs(evidence(grids) - evidence(grids, 2))]
    coarse = moments(grids, target, 2)
    for name, (mean, sd) in moments(grids, target).items():
        errors += [float(np.max(np.abs(mean - coarse[name][0]) / sd)), float(np.max(np.abs(sd - coarse[name][1]) / sd))]
    worst = max(errors)
    return worst**2 if math.isfinite(worst) else math.inf


def _many(
    rng: np.random.Generator,
    target: ExactTarget,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None,
    *,
    how: str,
    start: Floats | None = None,
) -> Exact:
    trace = run(rng, Slice, target, chains=chains, draws=draws, warmup=warmup, position=start, progress=progress)
    judged = verdict(trace.positions, non_finite=trace.non_finite, warmup_non_finite=trace.warmup_non_finite)
    non_finite = tuple(int(count) for count in trace.non_finite)
    return Exact(trace.positions, None, None, False, how, non_finite, judged)
