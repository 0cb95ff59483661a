"""`posterior`: draws of the parameters given noisy tables, by Hamiltonian Monte Carlo in all chains at once.

    theta, tau ~ `prior`,       y_h ~ a law of `cell_laws` around n W mu(theta), its Sigma held at the `map` fit
Each sweep:
    1. theta: leap frog with masses M, the precision to expect, for a time drawn from (1/2, 3/2) pi/2
    2. tau given theta, the prior's latent l being drawn first
    3. tau and theta together, theta/tau held: a Metropolis step on log tau whose width is that of the likelihood
    4. the mixing variances of Laplace noise, where the law has them, every `REFRESH` sweeps
Steps 2 and 3 mix where the other does not: with many well-known parameters, and with few (Yu & Meng 2011). Warm-up
starts at draws from the normal approximation at the `map` fit, with M = I + 1/tau^2 there; twice M becomes the chains'
mean of I where they are then, plus that of the prior's precision E[1 / (tau^2 l)].

The law of a holder: normal tables for Gaussian noise, and for noise that is as good as none. For Laplace noise mixed
tables (full covariance), or independent cells where noise dominates: its variance is on average at least `DOMINANT`
times that of sampling. Then leaving out the correlations of sampling changes little, and no matrix is factored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from noisewise.graphical import empirical_bayes, prior
from noisewise.graphical.cell_laws import CellLaw, IndependentCells, MixedTables, NormalTables, inverse_of, total_factor
from noisewise.graphical.empirical_bayes import MapFit
from noisewise.graphical.problem import GAUSSIAN, Holder, Problem
from noisewise.graphical.score import log_likelihood, means, score
from noisewise.inference.hamiltonian import DELAY, DIVERGED, FORGETTING, QUARTER_TURN, SHRINKAGE
from noisewise.inference.progress import Progress
from noisewise.likelihood import normal_laplace
from noisewise.types import Floats

__all__ = ["FULL", "INDEPENDENT", "Draws", "laws_of", "sample"]

FULL, INDEPENDENT = "full covariance", "independent cells"
DOMINANT = 10.0
NEGLIGIBLE = 1e-6
COUNTED = 2.0  # records whose variance is added to a cell's
REFRESH = 2
ACCEPTANCE = 0.8
MOST_LEAPS = 60
ROUNDS = 3  # of steps 2 and 3


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """What the chains found."""

    theta: Floats  # (chains, draws, p)
    tau: Floats  # (chains, draws)
    acceptance: Floats  # (chains,): of the Hamiltonian steps
    divergent: NDArray[np.int64]  # (chains,): steps whose energy error was beyond all measure
    leaps: float  # gradients a step, on average
    likelihood: str  # FULL, or INDEPENDENT if any holder's law was
    fit: MapFit  # where the chains started
    notes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _State:
    theta: Floats  # (chains, p)
    tau: Floats  # (chains,)


class _Leap:
    """The length of a leap: one for all chains, by dual averaging of their mean acceptance."""

    def __init__(self, size: int) -> None:
        self.log = self.average = -0.25 * math.log(size)
        self.first = self.log + math.log(2.0)
        self.statistic, self.steps = 0.0, 0

    def tune(self, acceptance: float) -> None:
        self.steps += 1
        self.statistic += (ACCEPTANCE - acceptance - self.statistic) / (self.steps + DELAY)
        self.log = self.first - math.sqrt(self.steps) / SHRINKAGE * self.statistic
        self.average += self.steps**-FORGETTING * (self.log - self.average)


def sample(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 250,
    warmup: int = 150,
    fit: MapFit | None = None,
    progress: Progress | None = None,
) -> Draws:
    """Draws from the posterior; `fit` is that of `empirical_bayes`, where it is known."""
    fit = empirical_bayes.fit(problem) if fit is None else fit
    laws = laws_of(problem, fit, chains)
    told = _told(problem, fit)
    precision = empirical_bayes.look(problem, fit.theta, told).information + np.eye(problem.parameters) / fit.tau**2
    kernel = _Kernel(problem, laws, precision, fit)
    state = _State(kernel.first(rng, fit.theta, chains), np.full(chains, fit.tau / prior.SD))
    leap = _Leap(problem.parameters)
    theta, tau = np.empty((chains, draws, problem.parameters)), np.empty((chains, draws))
    accepted, divergent, leaps = np.zeros(chains), np.zeros(chains, dtype=np.int64), 0
    for t in range(warmup + draws):
        length = math.exp(leap.log if t < warmup else leap.average)
        acceptance, is_divergent, count = kernel.move(rng, state, length)
        kernel.rescale(rng, state)
        if t % REFRESH == 0:
            for law, mean in zip(laws, means(problem, state.theta), strict=True):
                law.refresh(rng, mean)
        if t < warmup:
            leap.tune(float(acceptance.mean()))
            if t in (warmup // 5, warmup // 2):
                kernel.learn(_precision(problem, state, told))
                leap = _Leap(problem.parameters)
        else:
            theta[:, t - warmup], tau[:, t - warmup] = state.theta, state.tau
            accepted, divergent, leaps = accepted + acceptance, divergent + is_divergent, leaps + count
        if progress is not None:
            progress(t + 1, warmup + draws)
    is_full = not any(isinstance(law, IndependentCells) for law in laws)
    return Draws(
        theta, tau, accepted / draws, divergent, leaps / draws, FULL if is_full else INDEPENDENT, fit, fit.notes
    )


def laws_of(problem: Problem, fit: MapFit, rows: int) -> list[CellLaw]:
    """Each holder's law, with Sigma at the fit."""
    sigma = problem.engine.covariance(problem.potentials(fit.theta))
    return [_law(holder, _sampling(holder, sigma), rows) for holder in problem.holders]


def _sampling(holder: Holder, sigma: Floats) -> Floats:
    """S with the variance of two records added, so that no cell is known better than counting lets it be.

    S is held at the fit, which may take a cell to be empty. y +- 1.645 sqrt(y + 2), 90 % by name, covers a Poisson mean
    with 88 % or more whatever it is; y +- 1.645 sqrt(y) with 5 % where the mean is 0.05.
    """
    covariance = holder.covariance(sigma)
    covariance[np.diag_indices(len(covariance))] += COUNTED * np.square(holder.quantum)
    return covariance


def _law(holder: Holder, sampling: Floats, rows: int) -> CellLaw:
    average = np.diag(sampling).mean()
    if holder.family == GAUSSIAN or holder.variance.max() <= NEGLIGIBLE * average:
        return NormalTables(holder, total_factor(sampling, holder.variance))
    if holder.variance.mean() >= DOMINANT * average:
        return IndependentCells(holder, np.diag(sampling))
    return MixedTables(holder, sampling, rows)


def _told(problem: Problem, fit: MapFit) -> tuple[Floats, ...]:
    """Variances of normal noise that would tell as much as the noise does: half of them where Laplace noise rules."""
    sigma = problem.engine.covariance(problem.potentials(fit.theta))
    told = []
    for holder in problem.holders:
        sampling = np.maximum(np.diag(_sampling(holder, sigma)), 1e-6 * holder.variance)
        if holder.family == GAUSSIAN or holder.variance.min() <= 0:
            told.append(holder.variance)
        else:
            information, _ = normal_laplace.information(variance=sampling, scale=holder.scale)
            told.append(np.clip(1 / information - sampling, holder.variance / 2, holder.variance))
    return tuple(told)


def _precision(problem: Problem, state: _State, told: tuple[Floats, ...]) -> Floats:
    """M where the chains are."""
    information = [empirical_bayes.look(problem, theta, told).information for theta in state.theta]
    held = np.mean(prior.precision(state.theta, state.tau), axis=0)
    return np.asarray(np.mean(information, axis=0) + np.diag(held))


class _Kernel:
    """The moves of one sweep."""

    def __init__(self, problem: Problem, laws: list[CellLaw], masses: Floats, fit: MapFit) -> None:
        self.problem, self.laws = problem, laws
        self.width = 2.4 / math.sqrt(1.0 + float(fit.theta @ fit.information @ fit.theta))
        self.learn(masses)

    def learn(self, masses: Floats) -> None:
        """Move with these masses from now on."""
        self.factor = linalg.cholesky(masses, lower=True, check_finite=False)
        self.inverse = inverse_of(self.factor)

    def first(self, rng: np.random.Generator, mode: Floats, chains: int) -> Floats:
        """Draws of the normal approximation at the mode."""
        normals = rng.standard_normal((len(mode), chains))
        away = linalg.solve_triangular(self.factor, normals, lower=True, trans="T", check_finite=False)
        return np.asarray(mode + away.T)

    def density(self, theta: Floats, tau: Floats) -> tuple[Floats, Floats]:
        """log p(y, theta | tau), and its gradient in theta."""
        value, gradient = score(self.problem, self.laws, theta)
        before, pull = prior.score(theta, tau)
        return value + before, gradient + pull

    def move(self, rng: np.random.Generator, state: _State, leap: float) -> tuple[Floats, NDArray[np.bool_], int]:
        """Step 1; what each chain's chance of acceptance was, whether it diverged, and the number of leaps."""
        chains = len(state.tau)
        leaps = min(max(1, math.ceil(QUARTER_TURN * (0.5 + rng.random()) / leap)), MOST_LEAPS)
        momentum = rng.standard_normal(state.theta.shape) @ self.factor.T
        value, gradient = self.density(state.theta, state.tau)
        velocity = momentum @ self.inverse
        energy = 0.5 * np.sum(momentum * velocity, axis=1) - value
        theta = state.theta
        with np.errstate(over="ignore", invalid="ignore"):  # a chain that diverges is told by its energy
            for _ in range(leaps):
                momentum = momentum + 0.5 * leap * gradient
                theta = theta + leap * (momentum @ self.inverse)
                value, gradient = self.density(theta, state.tau)
                momentum = momentum + 0.5 * leap * gradient
            error = 0.5 * np.sum(momentum * (momentum @ self.inverse), axis=1) - value - energy
        is_divergent = ~(error < DIVERGED)
        chance = np.where(is_divergent, 0.0, np.exp(-np.clip(error, 0.0, DIVERGED)))
        accepted = rng.random(chains) < chance
        state.theta = np.where(accepted[:, None], theta, state.theta)
        return chance, is_divergent, leaps

    def rescale(self, rng: np.random.Generator, state: _State) -> None:
        """Steps 2 and 3, in turn."""
        here = log_likelihood(self.problem, self.laws, state.theta)
        for _ in range(ROUNDS):
            state.tau = prior.draw_width(rng, state.theta, state.tau)
            change = self.width * rng.standard_normal(len(state.tau))
            theta, tau = state.theta * np.exp(change)[:, None], state.tau * np.exp(change)
            there = log_likelihood(self.problem, self.laws, theta)
            ratio = there - here + prior.log_width(tau) - prior.log_width(state.tau)
            accepted = np.log(rng.random(len(tau))) < ratio
            state.theta, state.tau = np.where(accepted[:, None], theta, state.theta), np.where(accepted, tau, state.tau)
            here = np.where(accepted, there, here)
