"""Local answers checked by their cells: a chi-square that knows what the fit has used up.

n answers fall into k cells, those of randomized response or, for noisy numbers, cells of equal probability under the
fitted law of an answer (records through the noise, by nodes: no simulation). With counts O and the posterior draws of
the cells' probabilities p(theta), whose mean is pbar,
    T = sum_j (O_j - n pbar_j)^2/(n pbar_j).
The posterior mean of p is the projection of p on what the answers say, so O - n pbar is uncorrelated with p - pbar and
    Cov r = I - q q' - n Cov(p | answers)/(q q'),    r_j = (O_j - n pbar_j)/sqrt(n pbar_j),   q = sqrt(pbar):
what the fit has used up is taken off exactly as far as it was used, whether cells or all answers were fitted (Chernoff
& Lehmann 1954 have the two ends, k - 1 - u and k - 1 degrees of freedom) and however much the prior knew. T is a sum of
squares weighted by the eigenvalues of that matrix; its tail is that of a gamma law with the same mean and variance.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.laws import AdditiveLaw, Form, additive_law, cell_law
from noisewise.populations.cleaned import attach, cell_probabilities
from noisewise.populations.nodes import kinks_of, record_nodes
from noisewise.populations.parameters import Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics import Records
from noisewise.statistics.enclosure import feature_range
from noisewise.types import Floats

__all__ = ["CellCheck", "check_by_cells", "chi_square_tail"]

FEWEST_EXPECTED = 5.0
MOST_CELLS, ANSWERS_PER_CELL = 12, 40
GRID = 600  # points of the law of an answer, from which edges of cells are read
SPREAD = 12.0  # noise sds beyond the range of the answered feature
MOST_ROWS = 400
USED_UP = 1e-6  # an eigenvalue below this is a direction that the fit has used up


@dataclass(frozen=True, slots=True)
class CellCheck:
    """The tail probability of each cell and of the chi-square over all; None where too few answers are left over."""

    components: dict[str, float]
    overall: float | None
    cells: int


def check_by_cells(release: NoisyValue, population: Any, theta: Theta, unknowns: int) -> CellCheck:
    """The check of local answers at posterior draws `theta` (K rows)."""
    statistic = release.statistic
    assert isinstance(statistic, Records)
    some = {name: np.asarray(value)[:MOST_ROWS] for name, value in theta.items()}
    if release.law.form is Form.CELL:
        law = cell_law(release.law)
        true = np.asarray(cell_probabilities(population, release.schema, statistic, some))
        keep, other = float(law.keep), (1 - float(law.keep)) / (law.cells - 1)
        p = other + (keep - other) * true
        counts, labels = np.array(release.value, float), _cell_names(release, statistic)
    else:
        p, counts, labels = _binned(release, population, some, unknowns)
    p, counts, labels = _merged(p, counts, labels)
    if len(counts) - 1 <= unknowns:
        return CellCheck({}, None, len(counts))
    overall, residuals = chi_square_tail(counts, p)
    return CellCheck(dict(zip(labels, _tails(residuals).tolist(), strict=True)), overall, len(counts))


def chi_square_tail(counts: Floats, p: Floats) -> tuple[float, Floats]:
    """(P(T >= t), standardised residuals) of counts (k,) under posterior draws p (K, k) of their probabilities."""
    from scipy.special import gammaincc

    n, middle = counts.sum(), p.mean(axis=0)
    root = np.sqrt(middle)
    r = (counts - n * middle) / (np.sqrt(n) * root)
    used = n * np.atleast_2d(np.cov(p, rowvar=False)) / np.outer(root, root) if len(p) > 1 else 0.0
    left = np.eye(len(root)) - np.outer(root, root) - used
    weight = np.clip(np.linalg.eigvalsh(left), 0.0, 1.0)
    weight = weight[weight > USED_UP]
    if not weight.size:
        return 1.0, np.zeros_like(r)
    mean, variance = weight.sum(), 2 * np.square(weight).sum()
    tail = float(gammaincc(mean**2 / variance, float(r @ r) * mean / variance))
    own = np.sqrt(np.maximum(np.diag(left), USED_UP))
    return tail, np.asarray(r / own)


def _binned(
    release: NoisyValue, population: AnyPopulation, theta: Theta, unknowns: int
) -> tuple[Floats, Floats, list[str]]:
    """Probabilities (K, k) and counts (k,) of cells that are equally probable under the fitted law of an answer."""
    statistic, law, schema = release.statistic, additive_law(release.law), release.schema
    assert isinstance(statistic, Records)
    feature, step = statistic.feature, law.step[0]
    (column,) = feature.columns()
    one = attach(population, schema, (column,))[column]
    nodes = record_nodes(one, schema, column, population.theta_of(column, theta), kinks_of((feature,), schema, column))
    values = np.broadcast_to(feature.value({column: nodes.x}, schema), nodes.x.shape)

    def below(y: Floats) -> Floats:
        """P(answer <= y) in steps, one row for each theta (K, len(y))."""
        found = np.empty((len(values), len(y)))
        for j, edge in enumerate(y):
            found[:, j] = np.sum(nodes.weight * law.cdf(np.floor(edge - values / step + 0.5)), axis=1)
        return found

    n = len(release.value)
    size = int(min(MOST_CELLS, max(unknowns + 3, n // ANSWERS_PER_CELL)))
    low, high, _ = feature_range(feature, schema)
    reach = SPREAD * law.sd[0]
    grid = np.linspace((low - reach) / step, (high + reach) / step, GRID)
    middle = _first_rows(nodes, values, law, grid, step)
    edges = np.unique(np.floor(np.interp(np.arange(1, size) / size, middle, grid)))
    cdf = below(edges)
    p = np.diff(np.column_stack([np.zeros(len(cdf)), cdf, np.ones(len(cdf))]), axis=1)
    answers = np.array(release.value, float)
    counts = np.bincount(np.searchsorted(edges, answers, side="left"), minlength=len(edges) + 1).astype(float)
    ends = [f"{edge * step:.4g}" for edge in edges]
    names = [
        f"up to {ends[0]}",
        *(f"{a} to {b}" for a, b in itertools.pairwise(ends)),
        f"above {ends[-1]}",
    ]
    return np.maximum(p, 0.0), counts, [f"{release.labels[0]} {name}" for name in names]


def _cell_names(release: NoisyValue, statistic: Records) -> list[str]:
    """The labels of the cells, those at the ends of a number's range with the bound where it ends."""
    if statistic.cells is None:
        return list(release.labels)
    low, high, _ = feature_range(statistic.feature, release.schema)
    first, last = statistic.cells[0], statistic.cells[-1]
    start, stop = f"{low:g}" if low < first else "-inf", f"{high:g}]" if high > last else "inf)"
    ends = [start, *(f"{edge:g}" for edge in statistic.cells)]
    inner = [f"{statistic.feature} in [{a}, {b})" for a, b in itertools.pairwise(ends)]
    return [*inner, f"{statistic.feature} in [{ends[-1]}, {stop}"]


def _first_rows(nodes: Any, values: Floats, law: AdditiveLaw, grid: Floats, step: float) -> Floats:
    """The distribution function of an answer on a grid, averaged over a few posterior draws."""
    total = np.zeros(len(grid))
    rows = range(0, len(values), max(1, len(values) // 8))
    for row in rows:
        kept = nodes.weight[row] > 0
        residual = grid[:, None] - values[row, kept] / step
        total += law.cdf(np.floor(residual)) @ nodes.weight[row, kept]
    return total / len(rows)


def _merged(p: Floats, counts: Floats, labels: list[str]) -> tuple[Floats, Floats, list[str]]:
    """Neighbouring cells together until each expects enough answers."""
    n = counts.sum()
    expected = n * p.mean(axis=0)
    groups: list[list[int]] = []
    for j in range(len(counts)):
        if groups and expected[groups[-1]].sum() < FEWEST_EXPECTED:
            groups[-1].append(j)
        else:
            groups.append([j])
    if len(groups) > 1 and expected[groups[-1]].sum() < FEWEST_EXPECTED:
        last = groups.pop()
        groups[-1] += last
    together = [" and ".join(labels[j] for j in group) for group in groups]
    return (
        np.stack([p[:, group].sum(axis=1) for group in groups], axis=1),
        np.array([counts[group].sum() for group in groups]),
        together,
    )


def _tails(residuals: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-np.abs(residuals)))
