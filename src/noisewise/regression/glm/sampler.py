"""Draws of a generalized linear model's unknowns: importance sampling by a Student law at the mode, else chains.

    mode        L-BFGS from several starts; the inverse Hessian there as a scale
    proposal    Student t with 7 degrees at the mode; once more at the mean and covariance of the weighted draws
    weights     w = p/q, effective number (sum w)^2/sum w^2; draws are taken in proportion to w (stratified), so that
                all of them count the same
Where fewer than a fifth of the proposals are effective, fewer than 100 for each chain, or one proposal holds a
hundredth of the weight, Hamiltonian Monte Carlo takes over (always so for many mixing variances of Laplace noise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.inference import hamiltonian
from noisewise.inference.diagnostics import judged, rhat
from noisewise.inference.progress import Progress
from noisewise.inference.verdict import ESS_A_CHAIN, Chains, Evidence, WeightedDraws
from noisewise.regression import location
from noisewise.regression.coordinates import Belief, unknowns
from noisewise.regression.glm.density import GlmData, glm_density, glm_walk, many_densities
from noisewise.regression.glm.problem import GlmProblem, glm_data, size_of
from noisewise.regression.marginal import curvature, inverse_factor
from noisewise.types import Floats

WEIGHTS, CHAINS = "importance", "hamiltonian"  # the methods by name
DEGREES = 7.0
PILOT, MOST_COORDINATES = 4000, 40
LEAST_SHARE, LARGEST_WEIGHT = 0.2, 0.01
PROPOSALS = 4  # for each draw that is asked for
MOST_PROPOSALS, FEWEST_PROPOSALS = 400_000, 8000
SPREADS = (1.0, 0.2, 5.0)
FIRST_STEPS, MOST_STEPS = 25, 2000
CONTINUATIONS, RHAT_LIMIT = 2, 1.01
ALMOST = 1e-3  # slopes of a first guess: at 0 the direction in which s varies is not defined


@dataclass(frozen=True, slots=True, eq=False)
class GlmFit:
    """Draws (chains, draws, ...) in working units, how they were made, and what they rest on."""

    theta: Floats  # (chains, draws, d + 1)
    share: Floats  # (chains, draws, C)
    means: Floats  # (chains, draws, C, k)
    factor: Floats  # (chains, draws, k, k)
    evidence: Evidence
    method: str
    how: str
    notes: tuple[str, ...] = ()
    energy: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Mode:
    """The highest density found, and the factor of the inverse Hessian there."""

    position: Floats
    factor: Floats


def sample(
    problem: GlmProblem,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    progress: Progress | None = None,
    by: str | None = None,
) -> GlmFit:
    """Draws of all unknowns; `by` names a method, else it is importance sampling where that will do."""
    data = glm_data(problem)
    mode = found_mode(data)
    if by != CHAINS and (by == WEIGHTS or size_of(data) <= MOST_COORDINATES):
        fit = _by_weights(problem, rng, data, mode, chains=chains, draws=draws, is_asked=by == WEIGHTS)
        if fit is not None:
            if progress is not None:
                progress(chains * draws, chains * draws)
            return fit
    return _by_chains(problem, rng, data, mode, chains=chains, draws=draws, warmup=warmup, progress=progress)


def found_mode(data: GlmData) -> Mode:
    """The mode: some steps from each of several starts, then on from the highest point."""
    from scipy.optimize import minimize

    size = size_of(data)
    gradient = np.zeros(size)

    def objective(position: Floats) -> tuple[float, Floats]:
        value = glm_density(position, data, gradient)
        # L-BFGS steps back from a large number, but not from an infinite one.
        return (-value, -gradient) if math.isfinite(value) else (1e300, np.zeros(size))

    def climbed(start: Floats, steps: int) -> tuple[float, Floats]:
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        return float(found.fun), np.asarray(found.x, np.float64)

    starts = [climbed(_first_guess(data, size, spread), FIRST_STEPS) for spread in SPREADS]
    height, position = climbed(min(starts, key=lambda found: found[0])[1], MOST_STEPS)
    if not height < 1e300:
        raise NoisewiseError("The posterior density is not a positive number at any start; check bounds and priors.")
    return Mode(position, inverse_factor(curvature(glm_density, data, position)))


def _first_guess(data: GlmData, size: int, spread: float) -> Floats:
    """The middle of the prior, with all standard deviations of the numbers multiplied by `spread`."""
    position = np.zeros(size)
    position[: data.coefficients.turn.shape[1]] = ALMOST
    k = len(data.belief.location)
    factor = np.linalg.cholesky(data.belief.wishart / (data.belief.degrees + k)) * spread
    at = data.belief.cholesky
    for i in range(k):
        position[at : at + i] = factor[i, :i]
        position[at + i] = math.log(factor[i, i])
        at += i + 1
    return position


# ---- importance sampling ----


@dataclass(frozen=True, slots=True, eq=False)
class _Weighted:
    positions: Floats
    weights: Floats  # they sum to 1

    @property
    def effective(self) -> float:
        return float(1 / np.square(self.weights).sum())


def _by_weights(
    problem: GlmProblem, rng: np.random.Generator, data: GlmData, mode: Mode, *, chains: int, draws: int, is_asked: bool
) -> GlmFit | None:
    """Draws by importance sampling; None where its weights are too uneven and nobody asked for them."""
    pilot = _weighted(rng, data, mode, PILOT)
    size = len(mode.position)
    if not is_asked and pilot.effective < max(0.01 * PILOT, 4 * size):
        return None
    wanted = chains * draws
    count = min(max(PROPOSALS * wanted, FEWEST_PROPOSALS), MOST_PROPOSALS)
    drawn = _weighted(rng, data, _refitted(pilot, mode), count)
    largest = float(drawn.weights.max())
    is_even = drawn.effective >= max(LEAST_SHARE * count, ESS_A_CHAIN * chains) and largest <= LARGEST_WEIGHT
    if not is_even and not is_asked:
        return None
    # Stratified, then in any order: every chain is a sample like the others.
    points = (np.arange(wanted) + rng.random(wanted)) / wanted
    which = np.minimum(np.searchsorted(np.cumsum(drawn.weights), points), count - 1)
    positions = drawn.positions[rng.permutation(which)].reshape(chains, draws, size)
    evidence = WeightedDraws(
        draws=wanted,
        chains=chains,
        proposals=count,
        effective=drawn.effective,
        largest=largest,
        rhat=max((rhat(positions[:, :, i]) for i in range(size)), default=1.0),
    )
    how = "the normal law of the noisy moments, nothing latent, independent draws by importance sampling"
    return fit_of(problem, data, positions, evidence, how)


def _weighted(rng: np.random.Generator, data: GlmData, mode: Mode, count: int) -> _Weighted:
    """Draws of the Student law at a mode, with their weights."""
    size = len(mode.position)
    z = rng.standard_normal((count, size))
    shrink = np.sqrt(rng.chisquare(DEGREES, count) / DEGREES)[:, None]
    positions = mode.position + (z / shrink) @ mode.factor.T
    log_q = -0.5 * (DEGREES + size) * np.log1p(np.square(z / shrink).sum(axis=1) / DEGREES)
    log_w = many_densities(positions, data) - log_q
    log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
    if not np.isfinite(log_w.max()):
        return _Weighted(positions, np.eye(1, count)[0])
    weights = np.exp(log_w - log_w.max())
    return _Weighted(positions, weights / weights.sum())


def _refitted(pilot: _Weighted, mode: Mode) -> Mode:
    """The proposal at the pilot's mean and covariance, leaning on the mode's as on some further draws."""
    size = len(mode.position)
    lean = 1 - pilot.effective / (pilot.effective + 2 * size)
    mean = pilot.weights @ pilot.positions
    away = pilot.positions - mean
    covariance = (1 - lean) * (away * pilot.weights[:, None]).T @ away + lean * mode.factor @ mode.factor.T
    try:
        return Mode(mean, np.asarray(np.linalg.cholesky(covariance), np.float64))
    except np.linalg.LinAlgError:
        return mode


# ---- chains ----


def _by_chains(
    problem: GlmProblem,
    rng: np.random.Generator,
    data: GlmData,
    mode: Mode,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None,
) -> GlmFit:
    """Hamiltonian Monte Carlo, run on where the chains disagree."""
    starts = _starts(rng, data, mode, chains)
    trace = hamiltonian.sample(
        rng, glm_walk, data, starts, factor=mode.factor, warmup=warmup, draws=draws, progress=progress
    )
    runs, limit = 1, max(RHAT_LIMIT, 1 + 20 / (chains * draws))
    while runs <= CONTINUATIONS and _worst_rhat(trace.positions, data.belief) > limit:
        trace = hamiltonian.drawn(rng, glm_walk, data, trace.chains, draws=draws, thin=4**runs)
        runs += 1
    how = "the normal law of the noisy moments, nothing latent, sampled by Hamiltonian Monte Carlo"
    with np.errstate(all="ignore"):
        evidence: Chains = judged(trace.positions[..., : data.coefficients.turn.shape[1]])
    notes = []
    if trace.divergent.sum() > 0.01 * trace.log_density.size:
        notes.append(f"{trace.divergent.sum()} steps diverged: a corner of the posterior may be under-explored.")
    if trace.non_finite.sum():
        notes.append(f"{trace.non_finite.sum()} steps met a non-finite density and were rejected.")
    return fit_of(problem, data, trace.positions, evidence, how, tuple(notes), trace.energy)


def _starts(rng: np.random.Generator, data: GlmData, mode: Mode, chains: int) -> Floats:
    """Draws of the normal law at the mode, moved towards it until their density is not negligible."""
    starts = np.tile(mode.position, (chains, 1))
    gradient = np.zeros_like(mode.position)
    best = glm_density(mode.position, data, gradient)
    for start in starts:
        step = mode.factor @ rng.standard_normal(len(start))
        for _ in range(20):
            if glm_density(mode.position + step, data, gradient) > best - 3.0 * len(start) - 10.0:
                start += step
                break
            step *= 0.5
    return starts


def _worst_rhat(positions: Floats, belief: Belief) -> float:
    """Over all coordinates but the mixing variances; 1 where the draws are too few to have one."""
    found = [rhat(positions[:, :, i]) for i in range(belief.mixing)]
    return max((value for value in found if not math.isnan(value)), default=1.0)


# ---- what positions stand for ----


def fit_of(
    problem: GlmProblem,
    data: GlmData,
    positions: Floats,
    evidence: Evidence,
    how: str,
    notes: tuple[str, ...] = (),
    energy: Floats | None = None,
) -> GlmFit:
    """What positions (chains, draws, size) stand for, in working units."""
    x, coefficients = problem.covariates, data.coefficients
    chains, draws, _ = positions.shape
    p, k = coefficients.turn.shape[1], x.numbers
    theta = coefficients.base + positions[..., :p] @ coefficients.turn.T
    factor = unknowns(positions, data.belief).factor
    where = data.covariates
    effects = positions[..., where.effects : where.tilts].reshape(chains, draws, k, x.contrast.shape[1])
    share = location.shares(x, positions[..., where.tilts : data.belief.mixing])
    means = location.number_means(x, factor, effects)
    method = WEIGHTS if energy is None else CHAINS
    return GlmFit(theta, share, means, factor, evidence, method, how, notes, energy)
