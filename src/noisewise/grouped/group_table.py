"""One group's likelihood as a table: sizes by points of the parameters' lines, narrowed to where it has its mass.

    T_d[i, u] = log p(sums of record set d | n_i people, u),     i over sizes n_i in steps of whole numbers
    A(u)      = prod_d sum_i W_di exp T_d[i, u],                 W_di = what shares and noisy counts say of n_i
Between steps a size is interpolated: W_di adds up all sizes around n_i by the tent that is 1 at n_i and 0 at its
neighbours, with the exact weight of each. Steps are 1 where few sizes are left. The grid is refined where neighbouring
cells differ by more than a factor e on average: sums without a count leave a narrow ridge of n against the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.grouped.lines import Line
from noisewise.grouped.record_moments import Box
from noisewise.grouped.terms import AnyTerm
from noisewise.grouped.zoom import climbed, cut, leans_on, log_total, narrowed, tempered
from noisewise.types import Floats, Ints

__all__ = ["GroupTable", "Place", "SizeSteps", "group_box", "group_table", "start_box"]

WHOLE = {1: (129,), 2: (27, 21)}
CLIMBING = 8  # steps of sizes, while the place is looked for
COARSE = {1: (41,), 2: (17, 15)}
FINE = {1: (81,), 2: (33, 25)}
FINE_SLOW = {1: (61,), 2: (27, 21)}
FEW_SIZES, STEPS = 40, 20
MOST_CELLS = 400_000
MOST_POINTS = 301
STEEP = 1.0
TAILS = 1.7  # by which normal noise is widened to hold Laplace's tails
SEEN = 20.0  # a cell that a rough law puts so far below the best is not asked for its own


@dataclass(frozen=True, slots=True, eq=False)
class SizeSteps:
    """Sizes at equal steps through a window, by their places in it."""

    places: Ints
    step: int

    @classmethod
    def between(cls, low: int, high: int, most: int, *, few: int = FEW_SIZES) -> SizeSteps:
        """At most about `most` places from low to high; all of them where they are few."""
        step = max(1, -(-(high - low) // most)) if high - low >= few else 1
        return cls(low + step * np.arange(-(-(high - low) // step) + 1), step)

    def sizes(self, term: AnyTerm) -> Ints:
        """The sizes themselves; a last step may pass the window's end."""
        first = int(term.window.sizes[0])
        return np.asarray(first + term.window.stride * self.places)

    def log_weight(self, term: AnyTerm) -> Floats:
        """log W_i: the window's weights gathered by tents."""
        inside = np.arange(max(self.places[0], 0), min(self.places[-1], term.window.sizes.size - 1) + 1)
        weight = np.exp(term.window.log_alone[inside] - term.window.log_alone.max())
        at = (inside - self.places[0]) / self.step
        left = np.minimum(at.astype(int), self.places.size - 1)
        right = np.minimum(left + 1, self.places.size - 1)
        total = np.bincount(left, weight * (1 - (at - left)), self.places.size)
        total += np.bincount(right, weight * (at - left), self.places.size)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total) + np.log(term.window.stride))


@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """The table of one group."""

    terms: tuple[AnyTerm, ...]
    grids: tuple[Floats, ...]
    nodes: tuple[SizeSteps, ...]
    log_sums: tuple[Floats, ...]  # T_d, each (N_d, *grid)
    log_prior: Floats  # of the parameters that are not pooled, on the grid

    @property
    def steps(self) -> tuple[float, ...]:
        return tuple(float(grid[1] - grid[0]) for grid in self.grids)

    def log_summed(self, which: int) -> Floats:
        """log sum_i W_i exp T[i, u] of one set of records, on the grid."""
        weight = self.nodes[which].log_weight(self.terms[which])
        return log_total(weight.reshape(-1, *(1,) * len(self.grids)) + self.log_sums[which], 0)

    @property
    def log_likelihood(self) -> Floats:
        """log A(u) on the grid."""
        return np.asarray(sum(self.log_summed(d) for d in range(len(self.terms))))


class _Search:
    """The density of a group on a grid, with sizes that are narrowed along with it."""

    def __init__(self, terms: Sequence[AnyTerm], log_prior: Floats | None, lines: Sequence[Line], wide: set[int]):
        self.terms, self.lines, self.wide, self.log_prior = tuple(terms), tuple(lines), wide, log_prior
        self.nodes = [SizeSteps.between(0, term.window.sizes.size - 1, STEPS) for term in terms]
        self.joint: list[Floats] = []
        self.keeps_sizes = False

    def prior(self, grids: list[Floats]) -> Floats:
        """The log-density of every parameter's prior; of pooled ones a wide normal law about it."""
        total = np.zeros(())
        for k, line in enumerate(self.lines):
            if k in self.wide:
                own = -0.5 * np.square((grids[k] - line.mean) / line.wide_sd)
            else:
                own = line.log_prior(grids[k])
            total = total[..., None] + own
        return total

    def __call__(self, grids: list[Floats]) -> Floats:
        """log of the density on a grid; sizes that have no share in it are left out from then on."""
        shape = tuple(grid.size for grid in grids)
        parts = []
        for term, nodes in zip(self.terms, self.nodes, strict=True):
            table = term.outer(nodes.sizes(term), grids)
            parts.append(nodes.log_weight(term)[:, None] + table)
        summed = [log_total(part, 0) for part in parts]
        log = np.sum(summed, axis=0) + self.prior(grids).ravel()
        if self.keeps_sizes:
            return np.asarray(log.reshape(shape))
        self.joint = []
        for d, (term, part) in enumerate(zip(self.terms, parts, strict=True)):
            with np.errstate(invalid="ignore"):
                joint = np.where(np.isfinite(part), log - summed[d] + part, -np.inf)
            self.joint.append(joint.reshape(-1, *shape))
            if not (term.window.is_one or self.keeps_sizes):
                _, share = tempered(self.joint[-1])
                low, high = cut(share.reshape(len(share), -1).sum(axis=1), self.nodes[d].places, 1e-6)
                last = term.window.sizes.size - 1
                self.nodes[d] = SizeSteps.between(int(low), min(int(high), last), STEPS)
        return np.asarray(log.reshape(shape))

    def steepness(self) -> list[list[float]]:
        """Of every set of records: how much neighbouring cells differ, along sizes and along each line."""
        found = []
        for joint in self.joint:
            _, share = tempered(joint)
            own = []
            for axis in range(joint.ndim):
                with np.errstate(invalid="ignore"):
                    jump = np.abs(np.diff(joint, axis=axis))
                weight = np.take(share, range(joint.shape[axis] - 1), axis=axis)
                known = np.isfinite(jump)
                total = weight[known].sum()
                own.append(float((weight[known] * jump[known]).sum() / total) if total > 0 else 0.0)
            found.append(own)
        return found


def start_box(lines: Sequence[Line], wide: set[int]) -> Box:
    """Where the parameters can be at all, by their priors."""
    box = []
    for k, line in enumerate(lines):
        low, high = line.range
        room = 4 * line.wide_sd if k in wide else 0.0
        box.append((min(low, line.mean - room), max(high, line.mean + room)))
    return tuple(box)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a group's likelihood has its mass: a box on the lines, its sizes, and lines on which the box ends early."""

    box: Box
    nodes: list[SizeSteps]
    short: frozenset[int]  # lines by number


def group_box(terms: Sequence[AnyTerm], lines: Sequence[Line], wide: set[int]) -> Place:
    """Where a group's likelihood has its mass, by laws that are quick."""
    search = _Search([term.rough() for term in terms], None, lines, wide)
    whole = start_box(lines, wide)
    whole_windows = search.nodes
    search.keeps_sizes = True
    search.nodes = [SizeSteps.between(0, term.window.sizes.size - 1, CLIMBING, few=CLIMBING) for term in terms]
    box = climbed(search, whole, WHOLE[len(lines)])
    search.keeps_sizes, search.nodes = False, whole_windows
    box = narrowed(search, box, COARSE[len(lines)], limits=whole)
    nodes, search.keeps_sizes = search.nodes, True
    return Place(box, nodes, leans_on(search, box, COARSE[len(lines)], whole))


def group_table(terms: Sequence[AnyTerm], lines: Sequence[Line], wide: set[int], found: Place) -> GroupTable:
    """The table by the laws themselves, in the box that rough laws found, moved and widened where they missed."""
    p = len(lines)
    is_slow = any(term.is_slow for term in terms)
    search = _Search([term.rough(TAILS) if is_slow else term for term in terms], None, lines, wide)
    search.nodes = list(found.nodes)
    limits = start_box(lines, wide)
    roomy = tuple(
        (max(low - 0.2 * (high - low), least), min(high + 0.2 * (high - low), most))
        for (low, high), (least, most) in zip(found.box, limits, strict=True)
    )
    box = narrowed(search, roomy, COARSE[p], limits=limits)
    sizes = list((FINE_SLOW if is_slow else FINE)[p])
    slope = search.steepness()
    coarse = COARSE[p]
    for k in range(p):
        steep = max(own[k + 1] for own in slope) * coarse[k] / sizes[k]
        sizes[k] = min(MOST_POINTS, int(np.ceil(sizes[k] * max(1.0, steep / STEEP))))
    chosen = []
    for own, near in zip(slope, search.nodes, strict=True):
        steps = int(np.ceil(near.places.size * max(1.0, own[0] / STEEP)))
        room = max(STEPS, MOST_CELLS // int(np.prod(sizes)))
        low, high = int(near.places[0]), int(near.places[-1])
        chosen.append(SizeSteps.between(low, high, min(max(steps, STEPS), room)) if near.step > 1 else near)
    grids = [np.linspace(low, high, size) for (low, high), size in zip(box, sizes, strict=True)]
    tables = tuple(_table(term, own, grids) for term, own in zip(terms, chosen, strict=True))
    prior = np.zeros(())
    for k, line in enumerate(lines):
        prior = prior[..., None] + (np.zeros(sizes[k]) if k in wide else line.log_prior(grids[k]))
    return GroupTable(tuple(terms), tuple(grids), tuple(chosen), tables, prior)


def _table(term: AnyTerm, nodes: SizeSteps, grids: list[Floats]) -> Floats:
    """T[i, u] on a grid; where the law is dear, cells that a rough law rules out keep its value."""
    shape = tuple(grid.size for grid in grids)
    sizes = nodes.sizes(term)
    if not term.is_slow:
        return term.outer(sizes, grids).reshape(-1, *shape)
    table = term.rough(TAILS).outer(sizes, grids).copy()
    likely = table + nodes.log_weight(term)[:, None]
    rows, columns = np.nonzero(likely > likely.max() - SEEN)
    table[rows, columns] = term.cells(sizes, grids, rows, columns)
    return np.asarray(table.reshape(-1, *shape))
