"""Past answers, kept by question, and their joint law at a cost that hardly grows with their number.

Answers are independent given theta, so log p = sum over answers, and answers to the same question go together:
    cells      only the counts matter
    Laplace    an answer outside its interval tells no more than on which side it fell: two counts a question; those
               inside are summed through the polynomial that interpolates log p(. | theta) at a few nodes,
                   sum_i log p(y_i) = sum_j weight_j log p(node_j),      weight_j = sum_i l_j(y_i)
    Gaussian   all answers through such nodes
The nodes are used only where, at a sample of theta, they reproduce the sum itself to 1e-7; else the answers are kept
one by one. Every answer stays stored as it came, so nothing is lost by summing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from noisewise.likelihood.quadrature import gauss_legendre, interpolation_matrix
from noisewise.online.answer_law import ColumnLaw
from noisewise.online.asked import Asked
from noisewise.online.clipped_normal_sum import Listed, log_total
from noisewise.populations.parameters import Array, Theta, rows_of

__all__ = ["Group", "Total", "joint_law", "summed"]

ORDERS = (12, 24, 48, 96)
LARGEST_ERROR = 1e-7
MOST_NUMBERS = 40_000  # worked on at once: what a processor's cache holds
Total = Callable[[Theta], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """All answers to one question: readings in the units of x, or numbers of cells."""

    asked: Asked
    readings: Array


class Summed(NamedTuple):
    """Answers of one question as weighted readings, and what they share whatever theta is."""

    asked: Asked
    points: Array
    weights: Array
    constant: float


def joint_law(law: ColumnLaw, groups: Iterable[Group], near: Theta) -> Total:
    """theta -> sum of log P(answer | theta) over all answers, (K,); `near` is a sample of theta that matters."""
    groups = list(groups)
    parts: list[Total] = []
    asked_about_cells = [group for group in groups if group.asked.is_cells]
    if asked_about_cells:
        parts.append(_cells_total(law, asked_about_cells))
    clipped = [summed(law, group, near) for group in groups if not group.asked.is_cells]
    if clipped and law.form == "normal":
        for is_laplace in (True, False):
            some = [one for one in clipped if one.asked.is_laplace is is_laplace]
            if some:
                parts.append(_normal_total(law, some, is_laplace))
    elif clipped:
        parts.append(_general_total(law, clipped))

    def total(theta: Theta) -> Array:
        return np.asarray(np.sum([part(theta) for part in parts], axis=0)) if parts else np.zeros(rows_of(theta))

    return total


def summed(law: ColumnLaw, group: Group, near: Theta) -> Summed:
    """The answers to one clipped question as few weighted readings."""
    asked, y = group.asked, group.readings
    points, weights, constant = np.empty(0), np.empty(0), 0.0
    inside, low, high = y, float(y.min()), float(y.max())
    if asked.is_laplace:
        low, high = asked.low, asked.high
        below, above = y <= low, y >= high
        points, weights = np.array([low, high]), np.array([below.sum(), above.sum()], dtype=float)
        inside = y[~(below | above)]
        constant = -float((low - y[below]).sum() + (y[above] - high).sum()) / asked.noise
    inner = _interpolated(law, asked, inside, low, high, near) if inside.size > ORDERS[0] and high > low else None
    nodes, mass = (inside, np.ones(inside.size)) if inner is None else inner
    points, weights = np.concatenate([points, nodes]), np.concatenate([weights, mass])
    return Summed(asked, points[weights != 0], weights[weights != 0], constant)


def _interpolated(
    law: ColumnLaw, asked: Asked, y: Array, low: float, high: float, near: Theta
) -> tuple[Array, Array] | None:
    """Nodes and weights that reproduce the sum at `near`, fewer than the answers; None if there are none."""
    direct = None
    for order in ORDERS:
        if order >= y.size:
            return None
        nodes = low + 0.5 * (high - low) * (1 + gauss_legendre(order)[0])
        weights = interpolation_matrix(order, 2 * (y - low) / (high - low) - 1).sum(axis=0)
        direct = law.log_density(asked, y, near).sum(axis=1) if direct is None else direct
        gap = law.log_density(asked, nodes, near) @ weights - direct
        if np.all(np.abs(gap) <= LARGEST_ERROR):
            return nodes, weights
    return None


def _cells_total(law: ColumnLaw, groups: list[Group]) -> Total:
    """All questions about cells as one list of cells that were answered, with their counts."""
    columns: list[tuple[float, ...]] = []
    for group in groups:
        asked = group.asked
        low, high = asked.cell_ends
        counts = np.bincount(group.readings.astype(int), minlength=asked.answer_count)
        columns += [
            (low[j], high[j], len(counts), asked.other, asked.keep - asked.other, counts[j])
            for j in np.flatnonzero(counts)
        ]
    low, high, cells, other, gain, count = np.array(columns).T

    def total(theta: Theta) -> Array:
        return in_rows(
            lambda rows: np.log(other + gain * law.cell_mass(low, high, cells, rows)) @ count, theta, low.size
        )

    return total


def _normal_total(law: ColumnLaw, clipped: list[Summed], is_laplace: bool) -> Total:
    low, high, noise = (np.array([getattr(one.asked, name) for one in clipped]) for name in ("low", "high", "noise"))
    starts = np.cumsum([0, *(one.points.size for one in clipped)])
    points = np.concatenate([one.points for one in clipped])
    listed = Listed(starts, low, high, noise, points, np.concatenate([one.weights for one in clipped]))
    constant = _constant(clipped)

    def total(theta: Theta) -> Array:
        mean, sd = law.place(theta)
        return log_total(listed, mean, sd, is_laplace=is_laplace) + constant

    return total


def _general_total(law: ColumnLaw, clipped: list[Summed]) -> Total:
    constant = sum(one.constant for one in clipped)

    def total(theta: Theta) -> Array:
        each = [in_rows(partial(_weighted, law, one), theta, 20 * one.points.size) for one in clipped]
        return np.asarray(np.sum(each, axis=0) + constant)

    return total


def _weighted(law: ColumnLaw, one: Summed, theta: Theta) -> Array:
    return np.asarray(law.log_density(one.asked, one.points, theta) @ one.weights)


def _constant(clipped: list[Summed]) -> float:
    """What does not depend on theta: distances beyond the ends, and the lattice steps."""
    return sum(one.constant + float(one.weights.sum()) * float(np.log(one.asked.step)) for one in clipped)


def in_rows(function: Callable[[Theta], Array], theta: Theta, numbers: int) -> Array:
    """A function of theta evaluated in blocks of rows, so that memory stays bounded; `numbers` is its size a row."""
    rows, block = rows_of(theta), max(1, MOST_NUMBERS // max(numbers, 1))
    if rows <= block:
        return function(theta)
    pieces = [function(_part(theta, start, start + block)) for start in range(0, rows, block)]
    return np.concatenate(pieces)


def _part(theta: Theta, start: int, stop: int) -> Mapping[str, Array]:
    return {name: np.asarray(value)[start:stop] for name, value in theta.items()}
