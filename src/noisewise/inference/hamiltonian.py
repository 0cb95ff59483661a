"""Hamiltonian Monte Carlo on any smooth density, compiled where the density is.

Positions are seen through a factor, x = F z, in which the posterior should be near normal with covariance I: F F' is
the inverse Hessian at a mode, and then the covariance of warm-up draws. One step (Duane et al. 1987; Neal 2011):
    p ~ N(0, I);   leap frog for a time drawn from (1/2, 3/2) pi/2 in leaps of length e;   accept with min(1, e^-dH)
A quarter turn of a normal law takes it to an independent draw, and drawing the time keeps rotations from resonating.
The leap e is set by dual averaging in warm-up (Hoffman & Gelman 2014), one for each chain, and then left alone.

A density is `density(position, data, gradient) -> log density`, which writes its gradient. `walk_of(density, name)`
makes its sampler: compiled where the density is, and kept on disk under that name if the density is of this package;
plain Python where the density is that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from noisewise.compilation import is_ours, njit
from noisewise.inference.progress import Progress
from noisewise.types import Floats

# Dual averaging as in Hoffman & Gelman (2014), section 3.2.
SHRINKAGE, DELAY, FORGETTING = 0.05, 10.0, 0.75
QUARTER_TURN = math.pi / 2
MOST_LEAPS = 500
DIVERGED = 1000.0
# What a step leaves in `records` after its position.
LOG_DENSITY, ENERGY, ACCEPTANCE, DIVERGENT, NON_FINITE, LEAPS = range(6)
N_RECORDS = 6
BLOCK = 200


class Chain(NamedTuple):
    """Everything the next step of one chain depends on; arrays are changed in place."""

    factor: Floats  # (size, size), lower triangular
    position: Floats  # (size,)
    tuning: Floats  # (6,): log leap, its average, the statistic, steps tuned, log of the first leap times 10, ideal


def density(position: Floats, data: Any, gradient: Floats) -> float:  # noqa: ARG001
    """The standard normal law; `walk_of` puts another in its place."""
    gradient[:] = -position
    return -0.5 * float(position @ position)


def walk(data: Any, chain: Chain, normals: Floats, uniforms: Floats, records: Floats, is_warmup: bool) -> None:
    """As many steps as `normals` has rows; writes position and what happened into the rows of `records`."""
    factor, start, tuning = chain
    size = len(start)
    gradient, slope, first_slope = np.empty(size), np.empty(size), np.empty(size)
    position, momentum = start.copy(), np.empty(size)
    log_density = density(start, data, gradient)
    _turned(factor, gradient, first_slope)
    for t in range(len(normals)):
        leap = math.exp(tuning[0] if is_warmup else tuning[1])
        leaps = min(max(1, math.ceil(QUARTER_TURN * (0.5 + uniforms[t, 0]) / leap)), MOST_LEAPS)
        energy = -log_density
        for i in range(size):
            momentum[i], slope[i], position[i] = normals[t, i], first_slope[i], start[i]
            energy += 0.5 * momentum[i] * momentum[i]
        error, proposed, done = 0.0, log_density, 0
        for _ in range(leaps):
            for i in range(size):
                momentum[i] += 0.5 * leap * slope[i]
            _drift(factor, momentum, leap, position)
            proposed = density(position, data, gradient)
            _turned(factor, gradient, slope)
            error = -proposed - energy
            for i in range(size):
                momentum[i] += 0.5 * leap * slope[i]
                error += 0.5 * momentum[i] * momentum[i]
            done += 1
            if not error < DIVERGED:
                break
        is_divergent = not error < DIVERGED
        acceptance = 0.0 if is_divergent else math.exp(min(0.0, -error))
        if uniforms[t, 1] < acceptance:
            log_density = proposed
            for i in range(size):
                start[i], first_slope[i] = position[i], slope[i]
        for i in range(size):
            records[t, i] = start[i]
        records[t, size + LOG_DENSITY], records[t, size + ENERGY] = log_density, energy
        records[t, size + ACCEPTANCE], records[t, size + DIVERGENT] = acceptance, 1.0 if is_divergent else 0.0
        records[t, size + NON_FINITE], records[t, size + LEAPS] = 1.0 if math.isnan(proposed) else 0.0, done
        if is_warmup:
            tune(tuning, acceptance)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _drift(factor: Floats, momentum: Floats, leap: float, position: Floats) -> None:
    """position += leap F momentum."""
    for i in range(len(position)):
        total = 0.0
        for j in range(i + 1):
            total += factor[i, j] * momentum[j]
        position[i] += leap * total


@njit(cache=True)
def _turned(factor: Floats, gradient: Floats, slope: Floats) -> None:
    """slope = F' gradient."""
    size = len(gradient)
    slope.fill(0.0)
    for i in range(size):
        for j in range(i + 1):
            slope[j] += factor[i, j] * gradient[i]


@njit(cache=True)
def tune(tuning: Floats, acceptance: float) -> None:
    """One step of dual averaging towards the ideal acceptance."""
    tuning[3] += 1.0
    gain = 1.0 / (tuning[3] + DELAY)
    tuning[2] += gain * (tuning[5] - acceptance - tuning[2])
    tuning[0] = tuning[4] - math.sqrt(tuning[3]) / SHRINKAGE * tuning[2]
    weight = tuning[3] ** -FORGETTING
    tuning[1] += weight * (tuning[0] - tuning[1])


def walk_of(density: Callable[[Floats, Any, Floats], float], name: str) -> Callable[..., None]:
    """The walk on a density; `name` tells one compiled density's walk from another's on disk.

    A compiled function that takes another as an argument cannot be kept between runs of Python, one that reads it from
    its globals can: so the walk is copied with globals of its own.
    """
    copy = FunctionType(walk.__code__, {**walk.__globals__, "density": density}, name)
    copy.__qualname__ = name
    return njit(cache=is_ours(density))(copy) if isinstance(density, Dispatcher) else copy


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The draws of a finished run, and what happened on the way."""

    positions: Floats  # (chains, draws, size)
    log_density: Floats  # (chains, draws)
    energy: Floats  # (chains, draws)
    acceptance: Floats  # (chains,)
    divergent: NDArray[np.int64]  # (chains,): steps whose energy error was beyond all measure
    non_finite: NDArray[np.int64]  # (chains,): steps that met a density that is not a number
    leaps: float  # gradients a step, on average
    factor: Floats  # as learned
    chains: tuple[Chain, ...]  # to be continued


def sample(
    rng: np.random.Generator,
    walk_it: Callable[..., None],
    data: Any,
    starts: Floats,
    *,
    factor: Floats,
    warmup: int,
    draws: int,
    thin: int = 1,
    acceptance: float = 0.8,
    progress: Progress | None = None,
) -> Trace:
    """Warm up and draw. `starts` (chains, size) should have finite densities; `factor` is a first guess of F.

    Warm-up learns the leap for a tenth of its steps, then the covariance twice, over two and over four tenths, and the
    leap for the last one each time it changes.
    """
    count, size = starts.shape
    done, total = 0, count * (warmup + draws * thin)

    def advanced(steps: int) -> None:
        nonlocal done
        done += steps
        if progress is not None:
            progress(done, total)

    chains = [_chain(start, factor, acceptance) for start in starts]
    for steps, learns in _windows(warmup):
        seen = [_advance(rng, walk_it, data, chain, steps, 1, True, advanced)[:, :size] for chain in chains]
        if learns:
            factor = _learned(factor, np.stack(seen))
            chains = [_chain(chain.position, factor, acceptance, leap=chain.tuning[1]) for chain in chains]
    return drawn(rng, walk_it, data, tuple(chains), draws=draws, thin=thin, progress=advanced)


def drawn(
    rng: np.random.Generator,
    walk_it: Callable[..., None],
    data: Any,
    chains: tuple[Chain, ...],
    *,
    draws: int,
    thin: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """Draws of chains that have been warmed up, every `thin`-th step kept."""
    size = len(chains[0].position)
    records = np.stack([_advance(rng, walk_it, data, chain, draws, thin, False, progress) for chain in chains])
    facts = records[:, :, size:]
    return Trace(
        positions=records[:, :, :size],
        log_density=facts[:, :, LOG_DENSITY],
        energy=facts[:, :, ENERGY],
        acceptance=facts[:, :, ACCEPTANCE].mean(axis=1),
        divergent=facts[:, :, DIVERGENT].sum(axis=1).astype(np.int64),
        non_finite=facts[:, :, NON_FINITE].sum(axis=1).astype(np.int64),
        leaps=float(facts[:, :, LEAPS].mean()),
        factor=chains[0].factor,
        chains=chains,
    )


def _chain(start: Floats, factor: Floats, acceptance: float, leap: float | None = None) -> Chain:
    return Chain(np.ascontiguousarray(factor), start.copy(), fresh_tuning(len(start), acceptance, leap))


def fresh_tuning(size: int, acceptance: float, leap: float | None = None) -> Floats:
    """A chain's tuning before its first step, from a logarithm of the leap or from the number of coordinates."""
    log_leap = -0.25 * math.log(size) if leap is None else leap
    return np.array([log_leap, log_leap, 0.0, 0.0, log_leap + (math.log(2.0) if leap is None else 0.0), acceptance])


def _windows(warmup: int) -> list[tuple[int, bool]]:
    """(steps, whether the covariance is learned from them); a warm-up too short for that only sets the leap."""
    if warmup < 20:
        return [(warmup, False)] if warmup else []
    parts = [warmup // 10, warmup // 5, 2 * warmup // 5]
    return [(parts[0], False), (parts[1], True), (parts[2], True), (warmup - sum(parts), False)]


def _advance(
    rng: np.random.Generator,
    walk_it: Callable[..., None],
    data: Any,
    chain: Chain,
    draws: int,
    thin: int,
    is_warmup: bool,
    progress: Callable[[int], None] | None,
) -> Floats:
    """`draws` records (draws, size + N_RECORDS), every thin-th step; counts are summed over the steps between."""
    size, kept = len(chain.position), []
    for first in range(0, draws, BLOCK):
        steps = min(BLOCK, draws - first) * thin
        records = np.empty((steps, size + N_RECORDS))
        normals, uniforms = rng.standard_normal((steps, size)), rng.random((steps, 2))
        walk_it(data, chain, normals, uniforms, records, is_warmup)
        by_draw = records.reshape(-1, thin, size + N_RECORDS)
        last = by_draw[:, -1].copy()
        last[:, size + ACCEPTANCE :] = by_draw[:, :, size + ACCEPTANCE :].mean(axis=1)
        last[:, size + DIVERGENT : size + LEAPS] *= thin
        kept.append(last)
        if progress is not None:
            progress(steps)
    return np.concatenate(kept) if kept else np.empty((0, size + N_RECORDS))


def _learned(factor: Floats, positions: Floats) -> Floats:
    """The factor of the draws' covariance, leaning on the present one as on `size` further draws."""
    size = positions.shape[-1]
    x = (positions - positions.mean(axis=1, keepdims=True)).reshape(-1, size)
    weight = len(x) / (len(x) + size)
    covariance = weight * (x.T @ x) / len(x) + (1 - weight) * (factor @ factor.T)
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        return factor
