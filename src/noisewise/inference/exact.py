"""Direct computation on few parameters: no tuning, no approximation beyond a stated error.

    one parameter     adaptive quadrature: evidence, moments, and independent draws        (`line`)
    two parameters    a grid as the proposal of an independence sampler                    (`plane`);
                      of a thin or bent ridge a sparse mesh                                (`mesh`)
    three and more    a fitted t law as the proposal of an independence sampler, where it fits (`independence`); else
                      slice sampling with leaps, warm-up and several chains                (`kernels.leaping_slice`)

What does not work is followed by what is slower and does: a density too rough for quadrature is drawn from by a sampler
that the quadrature proposes to, a plane that no grid fits is walked on, and a walk that has not mixed is made four
times as long, keeping as many draws.

The draws are from the posterior of the likelihood given. A verdict says "Exact" only where that likelihood is the
release's own law, as `infer` knows; of the central limit law it says by what it was computed, and under which law.
A density that is NaN is left out and counted, never silent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import logsumexp

from noisewise.errors import NoisewiseError
from noisewise.exact import integer
from noisewise.inference.adapt import Progress
from noisewise.inference.density import Density, ExactTarget
from noisewise.inference.diagnostics import ess_bulk, ess_tail, judged, rhat
from noisewise.inference.independence import fitted_sample, sample_beside_a_share
from noisewise.inference.kernels.leaping_slice import LeapingSlice
from noisewise.inference.line import Line, on_the_line
from noisewise.inference.mesh import lay_mesh
from noisewise.inference.modes import Frame, find_frames
from noisewise.inference.plane import BURN, Grid, PlaneDraws, Proposal, accepted, lay_grids, moments, sample
from noisewise.inference.plane import evidence as grid_evidence
from noisewise.inference.run import run
from noisewise.inference.verdict import TOLERANCE, TOO_ROUGH, Chains, IndependentDraws, Verdict
from noisewise.types import Floats

__all__ = ["Exact", "exact", "fitted", "independent"]

KnownMoments = Mapping[str, tuple[Floats, Floats]]
HUMP_SHARE, HUMP_POINTS = 0.01, 400
TRUSTED = 1e-6  # error of evidence and moments, to be told
# Below this share of accepted proposals, or above this R-hat, the grid has missed the posterior's shape; R-hat of few
# draws says nothing.
POOR_ACCEPTANCE, POOR_RHAT, ENOUGH_DRAWS = 0.3, 1.05, 1000
# A grid that fits has at least this share of its proposals accepted; below it a mesh is tried.
GOOD_ACCEPTANCE = 0.9
ENOUGH_A_CHAIN = 250  # of fewer draws a chain mixing cannot be judged, and a walk is not made longer
THINNED = (4,)
# Proposals of a near law: how often they must be accepted, what may be asked of it, and the error of what is corrected.
NEAR_ACCEPTANCE, NEAR_EVALUATIONS, NEAR_ERROR, FITTED = 0.6, 60_000, 2e-3, 400
HEAVIEST = 0.01
QUICK_EVALUATIONS, SLOW_EVALUATIONS = 800_000, 12_000
BENT = (
    "The posterior is a thin bent ridge, of which the grid may have missed a part; compare with method='slice' and "
    "many draws."
)


def independent(
    draws: Floats,
    *,
    by: str = "quadrature",
    error: float = 0.0,
    evaluations: int = 0,
    non_finite: int = 0,
    humps: int = 1,
    law: str = "",
) -> IndependentDraws:
    """The evidence of independent draws (chains, draws, ...), judged as if they came from chains."""
    chains, size = draws.shape[:2]
    columns = draws.reshape(chains, size, -1)
    each = [columns[:, :, j] for j in range(columns.shape[2])]
    return IndependentDraws(
        draws=chains * size,
        chains=chains,
        error=error,
        evaluations=evaluations,
        non_finite=(non_finite,) if non_finite else (),
        rhat=max(rhat(column) for column in each),
        smallest_ess=float(np.min([min(ess_bulk(column), ess_tail(column)) for column in each])),
        by=by,
        humps=humps,
        law=law,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """Draws (chains, draws, size) on the real line, and what is known beyond them."""

    positions: Floats
    log_evidence: float | None
    moments: KnownMoments | None  # mean and sd of each parameter, where known better than by draws
    is_independent: bool
    how: str
    non_finite: tuple[int, ...]
    verdict: Verdict


def exact(
    rng: np.random.Generator,
    target: ExactTarget,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    progress: Progress | None = None,
    tolerance: float = TOLERANCE,
    is_quick: bool = True,
    quick: ExactTarget | None = None,
    law: Callable[[], str] = str,
) -> Exact:
    """Draws from a target whose likelihood has no noise; `warmup` is used where chains must find their way.

    `is_quick` says that the density may be asked hundreds of thousands of times; `law` names what the likelihood
    scored, and is asked once that is known. `quick` is another target, near this one, that is quick: of two parameters
    it is looked at in its place, and proposes.
    """
    integer(chains, "chains", minimum=1)
    integer(draws, "draws", minimum=1)
    integer(warmup, "warmup", minimum=0)
    if target.size == 1:
        return _one(rng, target, chains, draws, warmup, progress, tolerance, law)
    if target.size == 2:
        if quick is not None:
            found = _proposed(rng, target, quick, chains, draws, progress)
            if found is not None:
                return found
        return _two(rng, target, chains, draws, warmup, progress, is_quick=is_quick)
    how = f"slice sampling of {target.size} parameters, {chains} chains after {warmup} steps of warm-up"
    return _many(rng, target, chains, draws, warmup, progress, how=how, is_quick=is_quick)


def _one(
    rng: np.random.Generator,
    target: ExactTarget,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None,
    tolerance: float,
    law: Callable[[], str],
) -> Exact:
    line = on_the_line(rng, target, tolerance)
    if line.error >= TOO_ROUGH and not line.non_finite:
        return _rough(rng, target, line, chains, draws, warmup, progress)
    positions = line.draw(rng, (chains, draws))
    if progress is not None:
        progress(chains * draws, chains * draws)
    non_finite = (line.non_finite,)
    evidence = independent(
        positions,
        error=line.error,
        evaluations=line.evaluations,
        non_finite=line.non_finite,
        humps=humps(line),
        law=law(),
    )
    how = f"adaptive quadrature of one parameter, {line.evaluations} evaluations, independent draws"
    found = _line_moments(target, line)
    return Exact(positions[:, :, None], line.log_evidence, found, True, how, non_finite, Verdict(evidence))


def _rough(
    rng: np.random.Generator,
    target: ExactTarget,
    line: Line,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None,
) -> Exact:
    """What quadrature could not settle as the proposal of an independence sampler; if that fails, too, a walk."""
    note = f"The density is too rough for quadrature (error {line.error:.0e}), which proposed draws instead."
    density = Density(target)
    positions, log_proposal = line.propose(rng, chains * (draws + BURN))
    drawn = accepted(rng, density, positions, log_proposal, chains=chains, draws=draws, progress=progress)
    evidence = judged(drawn.positions, non_finite=drawn.non_finite)
    if _has_failed(drawn, evidence, draws) or _should_go_on(evidence, draws):
        how = f"slice sampling, because the density is too rough for quadrature (error {line.error:.0e})"
        walked = _many(rng, target, chains, draws, warmup, progress, how=how, start=drawn.positions[:, -1])
        return replace(walked, verdict=walked.verdict.saying(notes=(note,)))
    how = f"an independence sampler on the quadrature of one parameter, {drawn.acceptance:.1%} of proposals accepted"
    return Exact(drawn.positions, None, None, False, how, drawn.non_finite, Verdict(evidence, notes=(note,)))


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


def _line_moments(target: ExactTarget, line: Line) -> KnownMoments:
    ((name, value),) = target.parameters(np.zeros((1, 1))).items()
    if value.ndim == 2:  # two probabilities, of which the line knows the first
        return {name: (np.array([line.mean, 1 - line.mean]), np.array([line.sd, line.sd]))}
    return {name: (np.array(line.mean), np.array(line.sd))}


def _two(
    rng: np.random.Generator,
    target: ExactTarget,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None,
    *,
    is_quick: bool,
) -> Exact:
    density, most_evaluations = Density(target), QUICK_EVALUATIONS if is_quick else SLOW_EVALUATIONS
    frames, is_bent = find_frames(rng, density)
    on_mesh = _on_mesh(rng, density, frames, chains, draws, progress, most_evaluations) if is_bent else None
    if on_mesh is not None:
        return on_mesh
    grids = lay_grids(rng, density, frames)
    searched = (density.non_finite,)
    drawn = sample(rng, density, grids, chains=chains, draws=draws, progress=progress)
    evidence = judged(drawn.positions, non_finite=drawn.non_finite, warmup_non_finite=searched)
    if not is_bent and (drawn.acceptance < GOOD_ACCEPTANCE or _should_go_on(evidence, draws)):
        on_mesh = _on_mesh(rng, density, frames, chains, draws, progress, most_evaluations)
        if on_mesh is not None:
            return on_mesh
    if _has_failed(drawn, evidence, draws) or _should_go_on(evidence, draws):
        how = f"slice sampling, because a grid's proposals were accepted only {drawn.acceptance:.0%} of the time"
        start = drawn.positions[:, -1]
        return _many(rng, target, chains, draws, warmup, progress, how=how, start=start, is_quick=is_quick)
    how = f"an independence sampler on a grid of two parameters, {drawn.acceptance:.1%} of proposals accepted"
    is_resolved = grid_error(grids, target) < TRUSTED
    # The search may stumble on its way to a far and narrow posterior that is no ridge. A grid that resolves the density
    # and has none at its borders would show a ridge that leads out of it.
    is_whole = is_resolved and drawn.acceptance >= GOOD_ACCEPTANCE and all(grid.is_closed for grid in grids)
    is_lost, is_trusted = is_bent and not is_whole, is_resolved and (is_whole or not is_bent)
    return Exact(
        drawn.positions,
        log_evidence=grid_evidence(grids) if is_trusted else None,
        moments=moments(grids, target) if is_trusted else None,
        is_independent=False,
        how=how,
        non_finite=drawn.non_finite,
        verdict=Verdict(evidence, warnings=(BENT,) if is_lost else ()),
    )


def _proposed(
    rng: np.random.Generator,
    target: ExactTarget,
    quick: ExactTarget,
    chains: int,
    draws: int,
    progress: Progress | None,
) -> Exact | None:
    """The sampler on a grid of a density that is near the target's and costs little; None where it is not near.

    Only proposals are asked about at the target's own cost: draws are from the target, whatever the other one is like.
    """
    near, density = Density(quick), Density(target)
    try:
        frames, is_bent = find_frames(rng, near)
        grids: tuple[Grid, ...] = ()
        mesh = lay_mesh(rng, near, frames, NEAR_EVALUATIONS) if is_bent else None
        if mesh is None:
            grids = lay_grids(rng, near, frames)
            fitted = sample(rng, near, grids, chains=1, draws=FITTED)
            if is_bent or fitted.acceptance < POOR_ACCEPTANCE:
                return None
            if fitted.acceptance < GOOD_ACCEPTANCE:
                mesh = lay_mesh(rng, near, frames, NEAR_EVALUATIONS)
    except NoisewiseError:  # the near law has no density where the target's may have one
        return None
    proposals: Sequence[Proposal] = grids if mesh is None else (mesh,)
    drawn = sample(rng, density, proposals, chains=chains, draws=draws, progress=progress)
    found = judged(drawn.positions, non_finite=drawn.non_finite)
    if drawn.acceptance < NEAR_ACCEPTANCE or _has_failed(drawn, found, draws) or _should_go_on(found, draws):
        return None
    where = "grid" if mesh is None else f"mesh of {len(mesh.index)} points along a ridge"
    how = (
        f"an independence sampler on a {where} of two parameters, {drawn.acceptance:.1%} of proposals accepted, "
        "which a quicker law made"
    )
    known = _Near.of(near, drawn, grids, target) if mesh is None and grid_error(grids, quick) < TRUSTED else None
    log_evidence, means = (None, None) if known is None else (known.log_evidence, known.moments)
    return Exact(drawn.positions, log_evidence, means, False, how, drawn.non_finite, Verdict(found))


@dataclass(frozen=True, slots=True, eq=False)
class _Near:
    """Evidence and moments of a target from those of one near it: what the weights of shared proposals add to them.

    With weights w of proposals under the target and v under the other,  E f = E_v f + sum (w - v) f,  each set summing
    to 1: the noise of the sums cancels as far as the two are alike.
    """

    log_evidence: float
    moments: KnownMoments

    @classmethod
    def of(cls, near: Density, drawn: PlaneDraws, grids: tuple[Grid, ...], target: ExactTarget) -> _Near | None:
        """None where the two differ too much for that to be better than draws."""
        log_near = near(drawn.proposed) - drawn.log_proposal
        totals = [float(logsumexp(logs)) for logs in (drawn.log_weight, log_near)]
        own, other = (np.exp(logs - total) for logs, total in zip((drawn.log_weight, log_near), totals, strict=True))
        error = float(np.sqrt(np.sum(np.square(own - other))))
        if not error < NEAR_ERROR:
            return None
        found = {}
        theta = target.parameters(drawn.proposed)
        for name, (mean, sd) in moments(grids, target).items():
            away = theta[name] - mean
            shift = np.tensordot(own - other, away, axes=1)
            square = sd**2 + np.tensordot(own - other, away**2, axes=1)
            found[name] = np.asarray(mean + shift), np.sqrt(np.maximum(square - shift**2, 0.0))
        return cls(grid_evidence(grids) + totals[0] - totals[1], found)


def fitted(
    rng: np.random.Generator,
    target: ExactTarget,
    chains: int,
    draws: int,
    progress: Progress | None,
    *,
    has_share: bool = False,
    near: ExactTarget | None = None,
) -> Exact | None:
    """An independence sampler with proposals of a fitted t law; None where it does not fit.

    `near` is a target like this one that costs far less, to which the t law is fitted.
    Of three parameters, the last of which is a share present (`has_share`), a plane beside it is tried first.
    """
    ways = dict[str, Callable[..., PlaneDraws | None]]()
    if has_share and target.size == 3:
        ways["on a plane beside a share present"] = sample_beside_a_share
    what = "one parameter" if target.size == 1 else f"{target.size} parameters"
    ways[f"on a t law fitted to {what}"] = partial(fitted_sample, near=None if near is None else Density(near))
    for words, way in ways.items():
        density = Density(target)
        drawn = way(rng, density, chains=chains, draws=draws, progress=progress)
        if drawn is None:
            continue
        evidence = judged(drawn.positions, non_finite=drawn.non_finite, warmup_non_finite=(density.non_finite,))
        failed = _has_failed(drawn, evidence, draws) or _should_go_on(evidence, draws)
        if not failed and _heaviest(drawn) <= HEAVIEST:
            how = f"an independence sampler {words}, {drawn.acceptance:.1%} of proposals accepted"
            return Exact(drawn.positions, None, None, False, how, drawn.non_finite, Verdict(evidence))
    return None


def _on_mesh(
    rng: np.random.Generator,
    density: Density,
    frames: list[Frame],
    chains: int,
    draws: int,
    progress: Progress | None,
    most_evaluations: int,
) -> Exact | None:
    """The same sampler on a mesh; None if the mesh is out of reach or does not fit either."""
    mesh = lay_mesh(rng, density, frames, most_evaluations)
    if mesh is None:
        return None
    searched = (density.non_finite,)
    drawn = sample(rng, density, (mesh,), chains=chains, draws=draws, progress=progress)
    evidence = judged(drawn.positions, non_finite=drawn.non_finite, warmup_non_finite=searched)
    if _has_failed(drawn, evidence, draws) or _should_go_on(evidence, draws):
        return None
    how = (
        f"an independence sampler on a mesh of {len(mesh.index)} points along a ridge of two parameters, "
        f"{drawn.acceptance:.1%} of proposals accepted"
    )
    return Exact(drawn.positions, None, None, False, how, drawn.non_finite, Verdict(evidence))


def _has_failed(drawn: PlaneDraws, evidence: Chains, draws: int) -> bool:
    """Whether proposals have missed the posterior's shape."""
    has_drifted = evidence.rhat > POOR_RHAT and evidence.chains * draws >= ENOUGH_DRAWS
    return drawn.acceptance < POOR_ACCEPTANCE or has_drifted or bool(evidence.stuck)


def _heaviest(drawn: PlaneDraws) -> float:
    """The largest share of all weights that one proposal has: a tail that proposals do not reach shows there."""
    finite = drawn.log_weight[np.isfinite(drawn.log_weight)]
    return (
        float(np.exp(finite.max() - logsumexp(finite))) * min(1.0, finite.size / ENOUGH_DRAWS) if finite.size else 1.0
    )


def _should_go_on(evidence: Chains, draws: int) -> bool:
    """Whether enough draws were asked for to have mixed, and have not."""
    return draws >= ENOUGH_A_CHAIN and not (evidence.has_mixed and not evidence.stuck)


def grid_error(grids: tuple[Grid, ...], target: ExactTarget) -> float:
    """How far evidence and moments (in sds) by every second point of the grids are from those by all of it, squared.

    The trapezoidal rule of a smooth density squares its error when the step is halved.
    """
    errors = [abs(grid_evidence(grids) - grid_evidence(grids, 2))]
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
    is_quick: bool = True,
) -> Exact:
    """A walk, and a longer one from where it ended while it has not mixed; only every so many steps are kept."""
    for thin in (1, *THINNED) if is_quick else (1,):
        trace = run(
            rng, LeapingSlice, target, chains=chains, draws=draws * thin, warmup=warmup, position=start,
            progress=progress,
        )  # fmt: skip
        positions = trace.positions[:, thin - 1 :: thin]
        evidence = judged(positions, non_finite=trace.non_finite, warmup_non_finite=trace.warmup_non_finite)
        if not _should_go_on(evidence, draws):
            break
        start = trace.positions[:, -1]
    words = how if thin == 1 else f"{how}; every {thin}th step was kept, because it moves slowly"
    non_finite = tuple(int(count) for count in trace.non_finite)
    return Exact(positions, None, None, False, words, non_finite, Verdict(evidence))
