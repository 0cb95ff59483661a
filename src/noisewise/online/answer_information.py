"""Fisher information of one answer, by quadrature over the answers it can be.

    F = sum_j q_j s_j s_j'                               cells: as many answers as cells
    F = int p(y) s(y) s(y)' dy                           clipped answers; under Laplace noise the score outside
        [low, high] is that at the nearer end, so the two tails are atoms of mass noise * p(end)
with the score s taken by central differences of fourth order along given directions of the walking scale. One answer a
row of directions costs a few hundred evaluations of the law, for all of which `AnswerLaw` is one call.
Many questions at once (`informations`) are judged to 1 %: in wide intervals cells stand for a discrete record's values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from noisewise.design.coordinates import given_rows
from noisewise.errors import Unsupported
from noisewise.inference.transform import Transform
from noisewise.likelihood.quadrature import on_panels
from noisewise.online.answer_law import AnswerLaw, ColumnLaw
from noisewise.online.asked import Asked, asked_of
from noisewise.online.clipped_steps import FEW_VALUES, coarse_log_density, cumulative, value_count
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Population
from noisewise.query import Query

__all__ = ["Stencil", "answer_information", "information", "informations", "stencil", "units"]

STEP = 1e-3
PANEL_ORDER = 16
MOST_PANELS = 48
FAR = 8.0  # standard deviations of Gaussian noise
QUARTILES = np.array([0.25, 0.5, 0.75])
SHARES = np.array([1e-4, 0.02, *QUARTILES, 0.98, 1 - 1e-4])
MANY = 8.0  # values between the quartiles of a discrete record, from which on they move almost smoothly


class Stencil(NamedTuple):
    """theta at a position and at four steps along each direction: what a derivative needs."""

    theta: Theta  # (1 + 4P,) rows
    steps: Array  # (P,)
    cuts: Array  # quantiles of the population at the position, where quadrature is cut
    spread: float  # of the population


def stencil(law: ColumnLaw, transform: Transform, position: Array, directions: Array) -> Stencil:
    """Around one position (size,), along directions (P, size) whose length is the natural unit of each."""
    moves = [k * STEP * direction for direction in directions for k in (-2, -1, 1, 2)]
    theta = transform.parameters(position + np.concatenate([np.zeros((1, position.size)), moves]))
    first = {name: np.asarray(value)[:1] for name, value in theta.items()}
    shares = QUARTILES if law.population.is_discrete else SHARES  # a discrete record's values are the cuts
    cuts = np.asarray(law.population.quantile(shares, first), np.float64).ravel()
    lower, upper = cuts[[0, 2]] if law.population.is_discrete else cuts[[2, 4]]
    return Stencil(theta, np.full(len(directions), STEP), cuts, float(upper - lower) / 1.35)


def information(law: ColumnLaw, asked: Asked, at: Stencil, *, is_rough: bool = False) -> Array:
    """F along the directions of the stencil, (P, P); to 1 % if rough is enough."""
    y, weights = _answers(law, asked, at)
    is_wide = law.population.is_discrete and not asked.is_cells and value_count(asked) > FEW_VALUES
    if is_rough and is_wide:
        logs = coarse_log_density(law.population, asked, y, at.theta)
    else:
        logs = law.log_density(asked, y, at.theta)
    half = _weighted_scores(logs, weights, at)
    return np.asarray(half @ half.T)


def informations(law: ColumnLaw, questions: Sequence[Asked], at: Stencil) -> Array:
    """F of each of many questions, (M, P, P): all their cells together, clipped ones one by one."""
    found = np.empty((len(questions), len(at.steps), len(at.steps)))
    about_cells = [index for index, asked in enumerate(questions) if asked.is_cells]
    for index, asked in enumerate(questions):
        if not asked.is_cells:
            found[index] = information(law, asked, at, is_rough=True)
    if about_cells:
        ends = [questions[index].cell_ends for index in about_cells]
        sizes = [len(low) for low, _ in ends]
        low, high = (np.concatenate(side) for side in zip(*ends, strict=True))
        other, keep = (
            np.repeat([getattr(questions[index], name) for index in about_cells], sizes) for name in ("other", "keep")
        )
        cells = np.repeat(sizes, sizes)
        logs = np.log(other + (keep - other) * law.cell_mass(low, high, cells, at.theta))
        half = _weighted_scores(logs, np.ones(low.size), at)
        starts = np.cumsum([0, *sizes[:-1]])
        found[about_cells] = np.moveaxis(np.add.reduceat(half[:, None] * half, starts, axis=-1), -1, 0)
    return found


def _weighted_scores(logs: Array, weights: Array, at: Stencil) -> Array:
    """sqrt(weight p) times the score, (P, n), from log p on the stencil."""
    around = logs[1:].reshape(len(at.steps), 4, -1)
    slopes = (8 * (around[:, 2] - around[:, 1]) - (around[:, 3] - around[:, 0])) / (12 * at.steps[:, None])
    return np.asarray(np.sqrt(weights * np.exp(logs[0])) * slopes)


def answer_information(population: Population, query: Query, at: Mapping[str, float]) -> Array:
    """F of one answer to a query on the free parameters, (P, P), at the values `at`."""
    law, transform = AnswerLaw(population), Transform(population.supports)
    asked = asked_of(query)
    law.check(asked)
    if law.level_count is not None:
        raise Unsupported("The information on the shares of levels has one row too many; compare numbers.")
    position = transform.position(given_rows(population, at))[0]
    slope = parameter_slopes(transform, position)
    directions = np.diag(units(law, transform, position))
    found = information(law, asked, stencil(law, transform, position, directions))
    back = np.linalg.inv(slope @ directions.T)
    return np.asarray(back.T @ found @ back)


def parameter_slopes(transform: Transform, position: Array) -> Array:
    """d theta / d position, (P, P) of scalar parameters; a vector has a row for each of its components."""
    size = position.size
    step = 1e-5 * np.maximum(1.0, np.abs(position))
    moved = position + np.concatenate([np.diag(step), -np.diag(step)])
    values = transform.parameters(moved).values()
    theta = np.concatenate([np.asarray(v, np.float64).reshape(2 * size, -1) for v in values], axis=-1)
    return np.asarray(((theta[:size] - theta[size:]) / (2 * step[:, None])).T)


def units(law: ColumnLaw, transform: Transform, position: Array) -> Array:
    """How far each coordinate may move before a record's law has changed: for a location, the population's spread.

    It is the spread over the slope of the quartiles, so that no answer depends on the unit x is measured in; at most 1
    for a coordinate without a unit of its own (a logarithm, a logit), and 1 where the quartiles are steps.
    """
    if law.population.is_discrete:
        return _step_units(law, transform, position)
    step = np.maximum(1e-6, 1e-6 * np.abs(position))
    theta = transform.parameters(position + np.concatenate([np.zeros((1, position.size)), np.diag(step)]))
    cuts = np.asarray(law.population.quantile(QUARTILES, theta), np.float64)
    spread = cuts[0, 2] - cuts[0, 0]
    if not spread > 0:
        return np.ones(position.size)
    slopes = np.abs(cuts[1:] - cuts[0]).max(axis=1) / step
    is_real = [np.isinf(s.low) and np.isinf(s.high) for s in transform.supports.values()]
    with np.errstate(divide="ignore"):
        return np.where(slopes > 0, np.minimum(spread / slopes, np.where(is_real, max(spread, 1.0), 1.0)), 1.0)


def _step_units(law: ColumnLaw, transform: Transform, position: Array) -> Array:
    """The units of a discrete population: 1, halved until the cdf at the quartiles moves by no more than a quarter."""
    found = np.ones(position.size)
    cuts = np.ravel(law.population.quantile(QUARTILES, transform.parameters(position[None])))
    if not MANY <= cuts[2] - cuts[0] < np.inf:
        return found
    for _ in range(60):
        moved = transform.parameters(position + np.concatenate([np.zeros((1, position.size)), np.diag(found)]))
        below = cumulative(law.population, cuts, moved)
        is_far = ~(np.abs(below[1:] - below[0]).max(axis=1) <= 0.25)
        if not is_far.any():
            break
        found = np.where(is_far, 0.5 * found, found)
    return found


def _answers(law: ColumnLaw, asked: Asked, at: Stencil) -> tuple[Array, Array]:
    """Answers and their quadrature weights, in numbers of lattice steps."""
    if asked.is_cells:
        return np.arange(asked.answer_count, dtype=float), np.ones(asked.answer_count)
    low, high, noise = asked.low, asked.high, asked.noise
    cuts = at.cuts
    if law.population.is_discrete:
        is_few = value_count(asked) <= MOST_PANELS
        cuts = np.arange(np.ceil(low), np.floor(high) + 1) if is_few else np.empty(0)
    if asked.is_laplace:
        size = min(2 * max(at.spread, (high - low) / MOST_PANELS), 8 * noise)
        start, stop = low, high
    else:
        size, start, stop = 2 * noise, low - FAR * noise, high + FAR * noise
    count = int(np.clip(np.ceil((stop - start) / size), 1, MOST_PANELS))
    even = np.linspace(start, stop, count + 1)
    edges = np.unique(np.concatenate([even, cuts[(cuts > start) & (cuts < stop)]]))
    y, weights = (v.ravel() for v in on_panels(edges, PANEL_ORDER))
    if asked.is_laplace:
        y, weights = np.append(y, [low, high]), np.append(weights, [noise, noise])
    return y, weights / asked.step
