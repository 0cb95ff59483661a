"""`marginal`: regression from noisy moments without a single latent variable.

    holder j's noisy sums:  t_j ~ N(n_j M, n_j C + noise),   M, C the mean and covariance of a row's products w_a w_b
The moments of normal rows are known (moments.py), so the confidential sums need no sampling, no projection to positive
matrices, and y'y is optional. That their law is normal is the only approximation: sum plus noise has skewness at most
1.54 times a row's variance over the noise's sd, for every n. What remains is a smooth density of a few coordinates
(coordinates.py, density.py): its mode by L-BFGS from several starts, its Hessian there as a metric, Hamiltonian Monte
Carlo (inference/hamiltonian.py). Where chains disagree they are run on, four times as long each time.

Rows that the holder clamped or shortened are modelled as such (radial.py, shortened.py) where the fitted model says
that more than one in a thousand is. Covariates whose moments are given instead of normal: given.py; yes/no ones, and
numbers beside them: location.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Protocol

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.inference import hamiltonian
from noisewise.inference.diagnostics import rhat
from noisewise.inference.progress import Progress
from noisewise.inference.verdict import RHAT_LIMIT
from noisewise.regression import location
from noisewise.regression.changed import ChangedData, changed_density, changed_walk, make_changed_data
from noisewise.regression.coordinates import Belief, Unknowns, belief, first_guess, unknowns
from noisewise.regression.density import Data, make_data, normal_density, normal_walk
from noisewise.regression.given import given_density, given_walk
from noisewise.regression.groups import AS_NORMAL, BY_BANK, RADIALLY, group_holders
from noisewise.regression.location_density import LocationData, location_data, location_density, location_walk
from noisewise.regression.problem import Fit, GivenX, Holder, LocationX, Problem
from noisewise.regression.shortened import make_bank, shorten_rows
from noisewise.regression.sphere import make_sphere
from noisewise.types import Floats

# Clamping or shortening that touches fewer rows is left out of the model: one row, or this share of the root of n. A
# clamped row moves a sum of squares by about two units of its variance, while n rows scatter it by the root of 2n.
FEWEST_ROWS, SHARE_OF_ROOT = 1.0, 1 / 16
SPREADS = (1.0, 0.2, 5.0)
DIFFERENCE = 1e-4
LARGEST_HESSIAN = 120
CONTINUATIONS = 2
MOST_STEPS, MOST_TURNS, LEAST_GAIN = 1000, 20, 1e-3  # of a climb to a mode; of its height, in log density
# Products of bank points and squared pairs beyond which one gradient takes tens of milliseconds, and the number of
# gradients that is then spent.
COSTLY, GRADIENTS_IF_COSTLY = 8e6, 2000
OF_A_CONFIGURATION = 10.0  # what one costs beside a point of the bank


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The density to be sampled: compiled, with its numbers, its mode, and the factor of its inverse Hessian there."""

    density: Callable[..., float]
    walk: Callable[..., None]
    data: Data | ChangedData | LocationData
    mode: Floats
    factor: Floats

    @property
    def belief(self) -> Belief:
        return self.data.belief


def sample(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 500,
    progress: Progress | None = None,
    points: int | None = None,
) -> Fit:
    """Draws of all unknowns. `points` is the size of the bank for rows that were shortened."""
    posterior, shares = fitted(problem, rng, points=points)
    is_costly = _cost(posterior.data) > COSTLY
    if is_costly:
        warmup = min(warmup, max(20, GRADIENTS_IF_COSTLY // (20 * chains)))
        draws = min(draws, GRADIENTS_IF_COSTLY // (5 * chains))
    starts = _starts(rng, posterior, chains)
    trace = hamiltonian.sample(
        rng, posterior.walk, posterior.data, starts, factor=posterior.factor, warmup=warmup, draws=draws,
        progress=progress,
    )  # fmt: skip
    runs = 1
    # R-hat of few draws is above its limit by chance: of independent ones it is about 1 + 1/draws.
    limit = max(RHAT_LIMIT, 1 + 20 / (chains * draws))
    while not is_costly and runs <= CONTINUATIONS and _worst_rhat(trace.positions, posterior.belief) > limit:
        trace = hamiltonian.drawn(rng, posterior.walk, posterior.data, trace.chains, draws=draws, thin=4**runs)
        runs += 1
    return fit_of(problem, posterior, trace, shares, is_costly)


def fitted(
    problem: Problem, rng: np.random.Generator, *, points: int | None = None
) -> tuple[Posterior, tuple[float, ...]]:
    """The posterior at its mode, and each holder's predicted share of rows that were clamped or shortened."""
    count = len(problem.holders)
    if isinstance(problem.covariates, GivenX):
        return _at_mode(given_density, given_walk, _plain_data(problem)), (0.0,) * count
    if isinstance(problem.covariates, LocationX):
        located = location_data(problem, is_scaled=not problem.prior.is_learned)
        return _at_mode(location_density, location_walk, located), (0.0,) * count
    closed = _at_mode(normal_density, normal_walk, _plain_data(problem))
    shares = _predicted_shares(problem, closed, rng)
    clamped = _predicted_shares(problem, closed, rng, is_shortened=False)
    how = [_how(*facts) for facts in zip(problem.holders, shares, clamped, strict=True)]
    if not any(how):
        return closed, shares
    data = _changed_data(problem, how, points)
    posterior = _at_mode(changed_density, changed_walk, data, starts=(closed.mode,))
    return posterior, _predicted_shares(problem, posterior, rng)


def _how(holder: Holder, share: float, clamped: float) -> int:
    """How a holder's rows are modelled, from the shares that were changed at all, and by bounds."""
    if not is_felt(holder, share) or not _changes(holder):
        return AS_NORMAL
    is_triangular = np.all(np.triu(holder.map, 1) == 0)
    is_radial = holder.shrink is not None and is_triangular and (not is_felt(holder, clamped) or not holder.clamps)
    return RADIALLY if is_radial else BY_BANK


def is_felt(holder: Holder, share: float) -> bool:
    """Whether so many rows are expected to have been changed that the law of the sums shows it."""
    rows = holder.n * holder.block
    return rows * share > max(FEWEST_ROWS, SHARE_OF_ROOT * math.sqrt(rows))


def _belief(problem: Problem) -> Belief:
    """Theta in units of sigma where its prior is; as it is where its scale is learned from it."""
    return belief(problem, is_scaled=not problem.prior.is_learned)


def _plain_data(problem: Problem) -> Data:
    return make_data(_belief(problem), *group_holders(problem, [AS_NORMAL] * len(problem.holders)))


def row_law(problem: Problem, theta: Floats, variance: float, mu: Floats, factor: Floats) -> tuple[Floats, Floats]:
    """m (m,) and B (m, d + 1) of a row."""
    o = int(problem.intercept)
    mean, spread = np.zeros(problem.m), np.zeros((problem.m, problem.d + 1))
    mean[:o], mean[o:-1], spread[o:-1, :-1], spread[-1, -1] = 1.0, mu, factor, math.sqrt(variance)
    mean[-1], spread[-1, :-1] = theta @ mean[:-1], theta[o:] @ factor
    return mean, spread


def _changed_data(problem: Problem, how: Sequence[int], points: int | None) -> ChangedData:
    groups, members = group_holders(problem, how)
    pairs = groups.pairs.shape[1]
    bank = make_bank(problem.d + 1, m=problem.m, pairs=pairs, points=points if BY_BANK in how else 0)
    sphere = make_sphere(problem.d + 1, m=problem.m, pairs=pairs, is_used=RADIALLY in how)
    return make_changed_data(_belief(problem), groups, members, bank, sphere)


def _cost(data: Data | ChangedData | LocationData) -> float:
    """Points or directions, times squared pairs: what one gradient multiplies and adds for changed rows."""
    if isinstance(data, LocationData):
        return float(np.sum(len(data.own.share) * data.groups.size**2)) * OF_A_CONFIGURATION
    if not isinstance(data, ChangedData):
        return 0.0
    points = np.array([0, len(data.bank.z), 2 * len(data.sphere.weights)])[data.groups.is_shortened]
    return float(np.sum(points * data.groups.size**2))


def size_of(data: Data | ChangedData | LocationData) -> int:
    """How many coordinates a position has."""
    return int(data.belief.mixing + data.members.mixing[-1])


def _at_mode(
    density: Callable[..., float],
    walk: Callable[..., None],
    data: Data | ChangedData | LocationData,
    starts: Sequence[Floats] | None = None,
) -> Posterior:
    """The highest of the modes found from several starts, and the inverse Hessian's factor there."""
    from scipy.optimize import minimize

    size = size_of(data)
    gradient = np.zeros(size)

    def objective(position: Floats) -> tuple[float, Floats]:
        value = density(position, data, gradient)
        # L-BFGS steps back from a large number, but not from an infinite one.
        return (-value, -gradient) if math.isfinite(value) else (1e300, np.zeros(size))

    def climbed(start: Floats) -> tuple[float, Floats]:
        """The top that a start leads to.

        Features that nearly add up to another one make a narrow ridge, on which the walk is still under way when its
        steps are used up; it goes on in coordinates that are whitened where it stands, until that gains nothing.
        """
        walked = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
        height, place = float(walked.fun), np.asarray(walked.x, np.float64)
        is_there = bool(walked.success) or height >= 1e300
        for _ in range(0 if is_there else MOST_TURNS):
            factor = inverse_factor(curvature(density, data, place))

            def whitened(z: Floats, place: Floats = place, factor: Floats = factor) -> tuple[float, Floats]:
                value, slope = objective(place + factor @ z)
                return value, factor.T @ slope

            walked = minimize(whitened, np.zeros(size), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
            gained, height, place = height - float(walked.fun), float(walked.fun), place + factor @ walked.x
            if gained < LEAST_GAIN:
                break
        return height, place

    guesses = starts or [first_guess(data.belief, size, spread=spread) for spread in SPREADS]
    height, mode = min((climbed(guess) for guess in guesses), key=itemgetter(0))
    if not height < 1e300:
        raise NoisewiseError("The posterior density is not a positive number at any start; check bounds and priors.")
    return Posterior(density, walk, data, mode, inverse_factor(curvature(density, data, mode)))


class Believed(Protocol):
    """The data of a density, as far as its curvature asks for them."""

    @property
    def belief(self) -> Belief: ...


def curvature(density: Callable[..., float], data: Believed, mode: Floats) -> Floats:
    """- d^2 log p by central differences; for many mixing variances, each N(0, 1) a priori, the identity will do."""
    size = len(mode)
    known = size if size <= LARGEST_HESSIAN else int(data.belief.mixing)
    hessian, up, down = np.eye(size), np.zeros(size), np.zeros(size)
    for i in range(known):
        moved = mode.copy()
        moved[i] = mode[i] + DIFFERENCE
        density(moved, data, up)
        moved[i] = mode[i] - DIFFERENCE
        density(moved, data, down)
        hessian[i, :known] = (down - up)[:known] / (2 * DIFFERENCE)
    return np.asarray((hessian + hessian.T) / 2)


def inverse_factor(hessian: Floats) -> Floats:
    """The Cholesky factor of H^-1, directions of no or negative curvature taken as weak."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-10))
    values, vectors = np.linalg.eigh(scale[:, None] * hessian * scale)
    values = np.where(values > 1e-10 * values[-1], values, np.maximum(np.abs(values), 1e-2))
    upper = np.asarray(np.linalg.qr((scale[:, None] * vectors / np.sqrt(values)).T, mode="r"))
    return np.ascontiguousarray((upper * np.sign(np.diag(upper))[:, None]).T)


def _starts(rng: np.random.Generator, posterior: Posterior, chains: int) -> Floats:
    """Draws of the normal law at the mode, moved towards it until their density is a number."""
    starts = np.tile(posterior.mode, (chains, 1))
    gradient = np.zeros_like(posterior.mode)
    for start in starts:
        step = posterior.factor @ rng.standard_normal(len(start))
        for _ in range(20):
            value = posterior.density(posterior.mode + step, posterior.data, gradient)
            if value > posterior.density(posterior.mode, posterior.data, gradient) - 3.0 * len(start) - 10.0:
                start += step
                break
            step *= 0.5
    return starts


def _changes(holder: Holder) -> bool:
    """Whether this holder moves rows that lie outside, rather than refuse them."""
    return holder.clamps or holder.shrink is not None


def _predicted_shares(
    problem: Problem, posterior: Posterior, rng: np.random.Generator, *, is_shortened: bool = True
) -> tuple[float, ...]:
    """The share of each holder's rows outside its bounds (or norm) by the model's account, near the mode."""
    near = posterior.mode + rng.standard_normal((16, len(posterior.mode))) @ posterior.factor.T
    found = unknowns(np.concatenate([posterior.mode[None], near]), posterior.belief)
    known: dict[bytes, float] = {}
    shares = []
    for holder in problem.holders:
        key = b"".join([holder.map.tobytes(), holder.low.tobytes(), holder.high.tobytes(), str(holder.shrink).encode()])
        if key not in known:
            shrink = holder.shrink if is_shortened else None
            known[key] = _share(problem, replace(holder, clamps=True, shrink=shrink), found)
        shares.append(known[key])
    return tuple(shares)


def _share(problem: Problem, holder: Holder, found: Unknowns) -> float:
    groups, _ = group_holders(replace(problem, holders=(holder,)), [BY_BANK])
    bank = make_bank(problem.d + 1, m=problem.m, pairs=0)
    o, shares = int(problem.intercept), []
    for theta, variance, mu, factor in zip(*found, strict=True):
        mean, spread = row_law(problem, theta, float(variance), mu, factor)
        shares.append(shorten_rows(0, groups, bank, holder.map @ mean, holder.map @ spread, o))
    return float(np.median(shares))  # a draw of the normal law far out in a long tail does not count


def _worst_rhat(positions: Floats, belief: Belief) -> float:
    """Over all coordinates but the mixing variances; 1 where the draws are too few to have one."""
    found = [rhat(positions[:, :, i]) for i in range(belief.mixing)]
    return max((value for value in found if not math.isnan(value)), default=1.0)


def fit_of(
    problem: Problem, posterior: Posterior, trace: hamiltonian.Trace, shares: tuple[float, ...], is_costly: bool
) -> Fit:
    """What a trace of positions stands for, in working units."""
    if isinstance(problem.covariates, LocationX):
        return _location_fit(problem, problem.covariates, posterior, trace, is_costly)
    found = unknowns(trace.positions, posterior.belief)
    has_law = not isinstance(problem.covariates, GivenX)
    how = "the normal law of the noisy moments, nothing latent, sampled by Hamiltonian Monte Carlo"
    models_cleaning = any(posterior.data.groups.is_shortened)
    if models_cleaning:
        how += ", rows as they were clamped and shortened"
    return Fit(
        theta=found.theta,
        variance=found.variance,
        how=how,
        mean_x=found.mu if has_law else None,
        covariance_x=found.factor @ np.swapaxes(found.factor, -1, -2) if has_law else None,
        models_cleaning=models_cleaning,
        notes=_notes(problem, shares, is_costly, trace),
        non_finite=int(trace.non_finite.sum()),
        energy=trace.energy,
        details=_details(posterior, trace, shares),
    )


def _location_fit(
    problem: Problem, x: LocationX, posterior: Posterior, trace: hamiltonian.Trace, is_costly: bool
) -> Fit:
    """The draws where covariates follow the location model."""
    assert isinstance(posterior.data, LocationData)
    found, where = unknowns(trace.positions, posterior.belief), posterior.data.location
    shape = (*found.variance.shape, x.numbers, x.contrast.shape[1])
    effects = trace.positions[..., where.effects : where.tilts].reshape(shape)
    share = location.shares(x, trace.positions[..., where.tilts : posterior.belief.mixing])
    means = location.number_means(x, found.factor, effects)
    mean_x, covariance_x = location.covariate_moments(x, share, means, found.factor)
    return Fit(
        theta=found.theta,
        variance=found.variance,
        how="the normal law of the noisy moments, nothing latent, yes/no features as such, sampled by Hamiltonian "
        "Monte Carlo",
        mean_x=mean_x,
        covariance_x=covariance_x,
        latent=location.natural_draws(x, share, means, found.factor),
        notes=_notes(problem, (0.0,) * len(problem.holders), is_costly, trace),
        non_finite=int(trace.non_finite.sum()),
        energy=trace.energy,
        details=_details(posterior, trace, (0.0,) * len(problem.holders)),
    )


def _details(posterior: Posterior, trace: hamiltonian.Trace, shares: tuple[float, ...]) -> dict[str, object]:
    return {
        "shares": shares,
        "leaps": trace.leaps,
        "acceptance": trace.acceptance,
        "divergent": trace.divergent,
        "mode": posterior.mode,
    }


def _notes(problem: Problem, shares: tuple[float, ...], is_costly: bool, trace: hamiltonian.Trace) -> tuple[str, ...]:
    felt = [(share, h) for share, h in zip(shares, problem.holders, strict=True) if is_felt(h, share)]
    outside = max((share for share, h in felt if not _changes(h)), default=0.0)
    changed = max((share for share, h in felt if _changes(h)), default=0.0)
    notes = ["Covariates are taken to be normal."]
    if isinstance(problem.covariates, LocationX):
        count = problem.covariates.configurations
        within = " within each of which numbers are taken to be normal," if problem.covariates.numbers else ""
        notes = [f"Yes/no features are modelled as such: {count} combinations,{within} with unknown shares."]
    if isinstance(problem.covariates, GivenX):
        notes = ["Second and fourth moments of the covariates are taken as given."]
        if any(holder.shrink is not None for holder in problem.holders):
            notes.append("Rows were shortened before they were multiplied; with given moments that is not modelled.")
    if changed:
        notes.append(f"About {changed:.1%} of the rows were clamped or shortened, and are modelled so.")
    if outside:
        notes.append(
            f"By this model {outside:.1%} of the rows lie outside bounds that hold all of them: the covariates or the "
            "noise are less than normal, and intervals may be off."
        )
    if is_costly:
        count = trace.positions.shape[1]
        what = "combinations" if isinstance(problem.covariates, LocationX) else "covariates"
        rows = "yes/no features" if isinstance(problem.covariates, LocationX) else "shortened rows"
        notes.append(f"Modelling {rows} is slow with so many {what}: {count} draws a chain were made.")
    if trace.divergent.sum() > 0.01 * trace.log_density.size:
        notes.append(f"{trace.divergent.sum()} steps diverged: a corner of the posterior may be under-explored.")
    return tuple(notes)
