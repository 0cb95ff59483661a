"""The law of the features by released histograms: `covariates="released"`.

Every number among the columns has a histogram that some holder released. Its law is uniform within each cell, with
unknown probabilities of the cells; how numbers depend on each other, and on yes/no features, is one coefficient for
each pair, learnt from the released products:
    P(point) proportional to weight * exp(u' t),
    t = the cells of every number, z_i z_j, the directions of yes/no features, their products, and those with the z_j
with z_j = Phi^-1(F_j(x_j)) the normal scores of a number by its noisy histogram, u ~ N(0, 3^2) for a cell, N(0, 1) for
a product or a difference. A Gaussian copula with correlations R has the density exp(-z'(R^-1 - I)z/2) beside its
margins, whose squares are the cells' and whose products are these: the law is that copula, up to what a square changes
within a cell, and leaves every margin free. The scores are those of the published counts, as if these were the margin;
that moves what u means a little, and no margin.

Points are Gauss's nodes within all combinations of cells; where these are too many, a fixed quasi-random bank that
follows the published counts (and, by a quarter, every cell alike), raked to them.

Counts of cells and sums of products of the same records are one normal law: a cell is one more entry of a row, 1 times
its indicator (`extended.py`), so that the points give the covariances of counts with sums. Counts of other records are
a holder of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import ClassVar

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.joining import joined, listed_releases, refuse_left_out
from noisewise.laws import additive_law, normal_mixture
from noisewise.regression.glm.extended import Seen, extended
from noisewise.regression.glm.problem import Cap, GlmProblem
from noisewise.regression.glm.stated import PointLaw, StatedCovariates, crossed, level_columns, numbers_of
from noisewise.regression.observed import Observed, observe
from noisewise.regression.points import base_points
from noisewise.regression.problem import Holder
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics.evaluation import evaluated
from noisewise.statistics.feature import Feature
from noisewise.statistics.protocol import Sort
from noisewise.types import Floats, Integers

__all__ = [
    "RELEASED",
    "CellCounts",
    "ReleasedHistograms",
    "law_of",
    "observe_with_tables",
    "require_same_cells",
    "width_error",
    "with_tables",
    "without_cells",
]

RELEASED = "released"
CELL_SD = 3.0
LEAST_VARIANCE = 0.01  # people, squared: without any noise the counts of all cells are one too many for a normal law
MOST_POINTS, MOST_NODES = 1500, 3
FEWEST_POINTS, MOST_CELLS = 300, 64  # of a bank, for each combination of levels; of all numbers together
EVERYWHERE = 0.25  # of a bank's points lie in every cell alike
SCORE_TAIL = 1e-3  # scores end at 3.1
RAKINGS = 30


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """A released table of one number: its cells as conditions, noisy counts, and whose records they are of."""

    column: str
    cells: tuple[Feature, ...]
    schema: Schema
    observed: Floats
    variance: Floats
    laplace: Floats
    n: int
    holder: int | None  # among the holders of moments; None where nobody released moments of these records
    dataset: str

    def edges(self) -> list[float]:
        """Where cells begin, and where the last ends."""
        bounds = self.schema.bounded(self.column)
        inner = {node.arguments[1] for cell in self.cells for node in cell.nodes() if node.operation == "between"}
        return sorted({bounds.low, bounds.high, *(edge for edge in inner if bounds.low < edge < bounds.high)})

    def cell_counts(self) -> Floats:
        """The noisy counts, from the lowest cell to the highest."""
        ends = np.array(self.edges())
        middle = {self.column: (ends[1:] + ends[:-1]) / 2}
        marks = np.stack(evaluated(self.cells, middle, self.schema), axis=1).astype(float)  # (cells, counts)
        return np.asarray(marks @ self.observed)


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedHistograms:
    """`covariates="released"`: numbers by their histograms, which are released beside the moments."""

    is_normal: ClassVar[bool] = False

    def sized(self, size: int) -> int:
        """Any number of features can be made of columns with histograms."""
        return size

    def law_text(self) -> str:
        """As a spec file writes it."""
        return repr(RELEASED)

    def points(self, observed: Observed) -> PointLaw:
        """The records that stand for all: nodes within the cells of every number, and the levels."""
        features, schema = observed.features, observed.schemas[0]
        names = numbers_of(features, schema)
        edges = {name: _edges_of(name, observed.tables) for name in names}
        levels, made = level_columns(features, observed.schemas)
        margins = {name: published_shares(name, edges[name], observed.tables) for name in names}
        combinations = int(np.prod([len(each) for each in margins.values()])) * made.count
        laid = _grid if combinations <= MOST_POINTS else _bank
        numbers, log_weight, cells = laid(edges, margins, MOST_POINTS, made.count)
        z = np.stack([_scores(numbers[name], edges[name], margins[name]) for name in names], axis=1)
        tilt = [CELL_SD * (cells[:, j] == cell) for j, name in enumerate(names) for cell in range(len(margins[name]))]
        return crossed(levels, made, numbers, z, log_weight, tilt, schema, correlation=1.0)


Laid = tuple[dict[str, Floats], Floats, Integers]  # numbers by name, log weights, and the cell of each


def _grid(edges: Mapping[str, Sequence[float]], margins: Mapping[str, Floats], most: int, levels: int) -> Laid:
    """Nodes within every combination of cells."""
    combinations = int(np.prod([len(each) for each in margins.values()])) * levels
    nodes = max(1, min(MOST_NODES, int((most / combinations) ** (1 / max(len(margins), 1)) + 1e-9)))
    axes = [_nodes(each, nodes) for each in edges.values()]
    places = list(itertools.product(*(range(len(values)) for values, _, _ in axes)))
    at = np.array(places, int).reshape(len(places), len(axes))
    log_weight = sum((axes[j][1][at[:, j]] for j in range(len(axes))), np.zeros(len(at)))
    cells = np.stack([axes[j][2][at[:, j]] for j in range(len(axes))], axis=1)
    return {name: axes[j][0][at[:, j]] for j, name in enumerate(edges)}, log_weight, cells


def _bank(edges: Mapping[str, Sequence[float]], margins: Mapping[str, Floats], most: int, levels: int) -> Laid:
    """A quasi-random bank by the published shares; cells are alike before they are tilted."""
    from scipy.special import ndtr

    points, total = most // levels, sum(len(each) for each in margins.values())
    if points < FEWEST_POINTS or total > MOST_CELLS:
        raise Unsupported(
            f"These histograms have {total} cells in all, beside {levels} combinations of levels; at most {MOST_CELLS} "
            f"cells and {most // FEWEST_POINTS} combinations can be. Release coarser ones, or state a population for "
            "every number, as in {'age': Gamma(...)}."
        )
    z, weights = base_points(len(edges), 2 ** int(math.log2(points)))
    numbers, log_weight, which = dict[str, Floats](), np.log(np.maximum(weights, 1e-12)), []
    for j, (name, ends) in enumerate(edges.items()):
        share = (1 - EVERYWHERE) * margins[name] + EVERYWHERE / len(margins[name])
        up_to = np.concatenate([[0.0], np.cumsum(share)])
        u = ndtr(z[:, j])
        cell = np.clip(np.searchsorted(up_to, u, side="right") - 1, 0, len(share) - 1)
        low, high = np.array(ends[:-1])[cell], np.array(ends[1:])[cell]
        numbers[name] = low + (high - low) * np.clip((u - up_to[cell]) / share[cell], 0.0, 1.0)
        log_weight = log_weight + np.log(margins[name][cell] / share[cell])
        which.append(cell)
    places = np.stack(which, axis=1)
    return numbers, _raked(log_weight, places, list(margins.values())), places


def _raked(log_weight: Floats, cells: Integers, margins: Sequence[Floats]) -> Floats:
    """Log weights by which every cell has its published share exactly, less the logarithms of these shares."""
    p = np.exp(log_weight - log_weight.max())
    for _ in range(RAKINGS):
        for j, share in enumerate(margins):
            held = np.bincount(cells[:, j], p, len(share))
            p = p * (share / np.maximum(held, 1e-300))[cells[:, j]]
    return np.asarray(np.log(p) - sum(np.log(share)[cells[:, j]] for j, share in enumerate(margins)))


def published_shares(name: str, edges: Sequence[float], tables: Sequence[CellCounts]) -> Floats:
    """Shares of the cells between these edges by the published counts of a column: at least half a record in each."""
    low, high, total = np.array(edges[:-1]), np.array(edges[1:]), np.zeros(len(edges) - 1)
    for table in (table for table in tables if table.column == name):
        counts, ends = np.maximum(table.cell_counts(), 0.5), np.array(table.edges())
        cell = np.searchsorted(ends, (low + high) / 2, side="right") - 1
        total += counts[cell] * (high - low) / np.diff(ends)[cell]
    return np.asarray(total / total.sum())


def _scores(values: Floats, edges: Sequence[float], shares: Floats) -> Floats:
    """Normal scores of values by a margin that is uniform within its cells."""
    from scipy.special import ndtri

    below = np.interp(values, edges, np.concatenate([[0.0], np.cumsum(shares)]))
    return np.asarray(ndtri(np.clip(below, SCORE_TAIL, 1 - SCORE_TAIL)))


@singledispatch
def law_of(given: object) -> object:
    """What is said of the features, as the law that it stands for."""
    return given


@law_of.register(Mapping)
def _(given: Mapping[str, object]) -> object:
    return StatedCovariates(given)


@law_of.register
def _(given: str) -> object:
    return ReleasedHistograms() if given == RELEASED else given


def _edges_of(name: str, tables: Sequence[CellCounts]) -> list[float]:
    """Every edge of the column that some table has."""
    found = sorted({edge for table in tables if table.column == name for edge in table.edges()})
    if not found:
        raise InvalidArgument(
            f"covariates='released' needs a released Histogram of column {name!r}: ask its holder for one, as in "
            f"Histogram({name!r}, [...]), and give it beside the moments.",
            argument="covariates",
        )
    return found


def _nodes(edges: Sequence[float], nodes: int) -> tuple[Floats, Floats, Floats]:
    """Values, log weights and cells of Gauss's nodes within cells; cells are alike before they are tilted."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    values = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * places
    return values.ravel(), np.tile(np.log(weights / 2), len(low)), np.repeat(np.arange(len(low)), nodes)


def observe_with_tables(
    releases: object, features: Sequence[Feature], response: Feature, *, intercept: bool, n: object
) -> Observed:
    """What releases of Moments and tables of numbers say, by holder."""
    given = listed_releases(releases)
    refuse_left_out(given, "a regression")
    is_table = [_is_table_of_number(release) for release in given]
    together = joined(given, n)
    of_moments = [k for k in range(len(given)) if not is_table[k]]
    if not of_moments:
        raise Unsupported("Histograms alone tell nothing about coefficients; add a release of Moments.")
    sizes = None if n is None else [together.sizes[k] for k in of_moments]
    seen = observe([given[k] for k in of_moments], features, response, intercept=intercept, n=sizes)
    # Holders stand in the order of their moments, which need not be that of their first release.
    records = list(dict.fromkeys((given[k].dataset, given[k].part) for k in of_moments))
    tables = []
    for k in (k for k in range(len(given)) if is_table[k]):
        own = given[k].dataset, given[k].part
        tables.append(_counts(given[k], together.sizes[k], records.index(own) if own in records else None))
    return replace(seen, releases=given, tables=tuple(tables), warnings=together.warnings)


def _is_table_of_number(release: NoisyValue) -> bool:
    statistic, schema = release.statistic, release.schema
    return (
        statistic.sort is Sort.TABLE
        and len(statistic.columns()) == 1
        and all(node.operation != "equals" for cell in statistic.row(schema) for node in cell.nodes())
    )


def _counts(release: NoisyValue, n: int, holder: int | None) -> CellCounts:
    law = additive_law(release.law)
    laplace = normal_mixture(law).laplace_scale or (0.0,) * law.size
    return CellCounts(
        column=release.statistic.columns()[0],
        cells=release.statistic.row(release.schema),
        schema=release.schema,
        observed=np.asarray(release.estimate, float),
        variance=np.maximum(np.square(np.array(law.sd)), LEAST_VARIANCE),
        laplace=np.array(laplace, float),
        n=n,
        holder=holder,
        dataset=release.dataset,
    )


def require_same_cells(by_site: Sequence[Observed]) -> None:
    """Refuse sites whose histograms have other cells than the first's: draws of their shares stand side by side."""
    first = by_site[0]
    for name in numbers_of(first.features, first.schemas[0]):
        if len({tuple(_edges_of(name, one.tables)) for one in by_site}) > 1:
            raise Unsupported(
                f"Sites released histograms of {name!r} with different cells. With coefficients by site every site's "
                "must have the same ones; ask for them, or learn one site at a time."
            )


def with_tables(problem: GlmProblem, law: PointLaw, tables: Sequence[CellCounts]) -> GlmProblem:
    """The problem with every released cell as one more entry of a row, counted by those who released it."""
    d, holders = problem.d, len(problem.holders)
    entries = [np.stack(evaluated(table.cells, law.columns, law.schema), axis=1).astype(float) for table in tables]
    wide = extended(problem, np.concatenate(entries, axis=1), [Seen(np.arange(d))] * holders)
    found, caps, first = list(wide.holders), list(wide.caps), 1 + d
    for table, entry in zip(tables, entries, strict=True):
        places = first + np.arange(entry.shape[1])
        pairs = np.column_stack([np.zeros(len(places)), places]).astype(np.int64)
        if table.holder is None:
            found.append(_alone(wide, table, pairs))
            caps.append(Cap(problem.caps[0].cap, False))
        else:
            found[table.holder] = _beside(found[table.holder], table, pairs)
        first += entry.shape[1]
    return replace(wide, holders=tuple(found), caps=tuple(caps))


def _beside(holder: Holder, table: CellCounts, pairs: Integers) -> Holder:
    return replace(
        holder,
        pairs=np.concatenate([holder.pairs, pairs]),
        observed=np.concatenate([holder.observed, table.observed]),
        variance=np.concatenate([holder.variance, table.variance]),
        laplace=np.concatenate([holder.laplace, table.laplace]),
    )


def _alone(problem: GlmProblem, table: CellCounts, pairs: Integers) -> Holder:
    """A holder of nothing but counts; what is refused for its response is not known of its records."""
    size = problem.d + 2
    free = np.full(size - 1, np.inf)
    return Holder(table.n, pairs, table.observed, table.variance, table.laplace, np.eye(size), -free, free)


def without_cells(holder: Holder, problem: GlmProblem) -> Holder:
    """The holder's sums of products alone: a count of few people is skew, and tells a coefficient nothing."""
    last, features = problem.d + 1, int(np.count_nonzero(problem.prior.turn[1:].any(axis=1)))
    kept = (holder.pairs[:, 1] == last) | (holder.pairs[:, 1] <= features)
    return replace(
        holder,
        pairs=holder.pairs[kept],
        observed=holder.observed[kept],
        variance=holder.variance[kept],
        laplace=holder.laplace[kept],
    )


def width_error(law: PointLaw, share: Floats, tables: Sequence[CellCounts], scale: Mapping[str, float]) -> float:
    """The largest ratio, over numbers, of what uniform cells may move the sum of squares by to its standard deviation.

    Within a cell the density is taken to rise as it does between the neighbouring cells; the sd is that of n records.
    """
    worst = 0.0
    for name, noise in scale.items():
        edges = np.array(_edges_of(name, tables))
        x, width = law.columns[name], np.diff(edges)
        cell = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(width) - 1)
        p = np.bincount(cell, weights=share, minlength=len(width))
        middle = (edges[1:] + edges[:-1]) / 2
        density = p / width
        rise = np.gradient(density, middle) if len(width) > 1 else np.zeros(1)
        shift = np.clip(rise * width**2 / (12 * np.maximum(density, 1e-300)), -width / 6, width / 6)
        mean = float(share @ x)
        moved = abs(float(np.sum(p * 2 * (middle - mean) * shift)))
        n = max(table.n for table in tables if table.column == name)
        sampling = np.sqrt(max(float(share @ (x - mean) ** 4) - float(share @ (x - mean) ** 2) ** 2, 0.0) / n)
        worst = max(worst, moved / float(np.hypot(sampling, noise / n)))
    return worst
