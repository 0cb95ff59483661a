"""A population that is known only by a function that draws its records.

    def draw(rng, theta, n):
        is_smoker = rng.random(n) < theta["share"]
        return {"smoker": is_smoker, "cost": rng.gamma(2.0, theta["scale"] * (1 + is_smoker))}

    nw.Simulator(draw, share=stats.beta(2, 2), scale=stats.gamma(4, scale=5))

No density, no quantile: whatever is asked of the law at theta is answered by a bank of B records drawn there, in eight
batches that are independent of each other. Every theta gets the same eight random streams, so that the answers are a
function of theta, and a smooth one wherever `draw` is smooth in theta given its stream. Averages over the bank have
the error of B records,
    mean_B = mean + O(sd/sqrt(B)),
which is common to neighbouring theta. Beside the error sd/sqrt(n) of n records that were summed it is as large as n/B
says; a sum of n records is therefore given the variance n C (1 + n/B), that of the sum about n times the bank's mean,
and the batches tell what is left (`likelihood.simulated`).

Records are drawn as they are in the world: bounds are the schema's, and what lies beyond them is clamped, or left out
where the schema refuses it. A column with levels is drawn as the index of its level, 0, 1, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.populations.averages import N_BATCHES, Averages, BankMoments, Memory
from noisewise.populations.cleaned import (
    CellStatistic,
    attach,
    cell_probabilities,
    condition_probability,
    drawn_records,
    is_possible,
    records_from_base,
    row_moments,
    single_rows,
    sum_moments,
)
from noisewise.populations.drawing import Draw, Point, drawn, tried
from noisewise.populations.parameters import (
    REAL,
    Array,
    Parameters,
    Support,
    Theta,
    is_prior,
    offers,
    read_parameters,
    rows_of,
)
from noisewise.populations.population import Population
from noisewise.populations.simulated_column import SimulatedColumn
from noisewise.printable import shown
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Records
from noisewise.statistics.evaluation import cell_counts
from noisewise.statistics.feature import Feature
from noisewise.statistics.tables import Marginals, refuse_tied
from noisewise.types import Bools, Floats

__all__ = ["Simulator"]

USUAL_SIZE = 2**16  # records of a bank of which nobody has said how large it should be
MANY = 2**15  # records with which a function is tried for jumps
TRIED_ROWS = 4
MOST_REDRAWS = 1000
STEP = 0.05  # of the spread of a prior: over so much a slope is taken
NEAR = 0.0, 0.01  # two places, as shares of the way from one theta to another
JUMP, JUMPING = 0.1, 1e-3  # of the range of records, and the share of them that may jump so far
SIMPLEX = Support(0.0, 1.0, size=0)
NO_SCATTER: Floats = np.zeros((0, 0))


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Simulator:
    """Records that a function draws, with a number or a prior for each of its parameters.

    The likelihood is by simulation: the verdict states its Monte Carlo error, and what that does to the answer. A draw
    that is smooth in theta for a fixed stream (`mean + sd * rng.standard_normal(n)`, inverses of uniform numbers)
    gives a smooth likelihood; one that rejects (`rng.gamma` with an unknown shape) a rougher one.

    Parameters
    ----------
    draw
        `draw(rng, theta, n)` gives n independent records as a mapping from column to an array of n numbers. All
        randomness comes from `rng`, a numpy.random.Generator; `theta` has every parameter by name, as a number (an
        array of probabilities where the prior is a Dirichlet law). Levels are drawn by their index, 0, 1, ...
    parameters
        By name, a number if you know it, else a frozen scipy.stats distribution.

    Examples
    --------
    >>> def draw(rng, theta, n):
    ...     return {"stay": np.exp(theta["level"] + 0.6 * rng.standard_t(5, n))}
    >>> nw.Simulator(draw, level=stats.norm(1, 1)).free
    ('level',)
    """

    draw: Draw
    parameters: Parameters
    columns: tuple[str, ...]
    whole: frozenset[str]  # columns of whole numbers
    given: tuple[tuple[str, object], ...]
    size: int | None  # records of the bank; None where the releases are to say it
    left_out: int | None  # a batch that is not counted
    _steps: Mapping[str, float]
    _memory: Memory  # by size, question and theta; shared by copies

    def __init__(self, draw: Draw, /, **parameters: object) -> None:
        if not callable(draw):
            raise InvalidArgument(
                f"draw = {shown(draw)}: give a function draw(rng, theta, n) that returns a mapping from column to an "
                "array of n numbers.",
                argument="draw",
            )
        object.__setattr__(self, "draw", draw)
        object.__setattr__(self, "parameters", read_parameters(parameters, _domains(parameters), None, ()))
        object.__setattr__(self, "given", tuple(parameters.items()))
        for name, value in (("columns", ()), ("size", None), ("left_out", None), ("whole", frozenset())):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_memory", Memory())
        object.__setattr__(self, "_steps", _steps(self.parameters))
        theta = self.sample_prior(np.random.default_rng(0), TRIED_ROWS) if self.free else {}
        found = tried(draw, [self.point(theta, row) for row in range(rows_of(theta))])
        object.__setattr__(self, "columns", tuple(found))
        whole = {name for name, x in found.items() if np.all(x == np.floor(x))}
        object.__setattr__(self, "whole", frozenset(whole))

    def __repr__(self) -> str:
        from noisewise.populations.written import value_text

        return f"Simulator({', '.join(['draw', *(f'{name}={value_text(value)}' for name, value in self.given)])})"

    # ---- what is asked of every population ----

    @property
    def free(self) -> tuple[str, ...]:
        """The unknown parameters."""
        return self.parameters.free

    @property
    def supports(self) -> Mapping[str, Support]:
        """Where each unknown parameter lives, by its prior, and over what distance a slope in it can be taken.

        Shares of cells move in jumps of 1/B, so that a slope over too small a step is the jump of a single record.
        """
        return {name: replace(one, step=self._steps.get(name, 0.0)) for name, one in self.parameters.supports.items()}

    def log_prior(self, theta: Theta) -> Array:
        return self.parameters.log_prior(theta)

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        return self.parameters.sample(rng, count)

    @property
    def independent_priors(self) -> Mapping[str, Any] | None:
        return self.parameters.independent

    def prior_of(self, name: str) -> Any:
        return self.parameters.prior_of(name)

    def marginal(self, column: str) -> Population:
        """The law of one column, by the bank."""
        given = dict(self.given)
        return Population(SimulatedColumn(column, _domains(given), column in self.whole, self.batch), **given)

    def theta_of(self, column: str, theta: Theta) -> Theta:
        """All parameters: nobody says which a column depends on."""
        return theta

    # ---- the bank ----

    def sized(self, size: int) -> Simulator:
        """The same with a bank of this many records: a power of two, from 2^12 on.

        Left alone, a bank is as large as the releases ask for, up to 2^18 records.
        """
        if integer(size, "size", minimum=2**12, maximum=2**26) & (size - 1):
            raise InvalidArgument(f"size = {size}: give a power of two, as 2**20.", argument="size")
        other = copy(self)
        object.__setattr__(other, "size", size)
        return other

    def without(self, batch: int) -> Simulator:
        """The same without one batch of its bank."""
        other = copy(self)
        object.__setattr__(other, "left_out", batch)
        return other

    @property
    def bank_size(self) -> int:
        """B, the records of the bank."""
        return USUAL_SIZE if self.size is None else self.size

    @property
    def is_smooth(self) -> bool:
        """Whether records move smoothly with theta while their stream stays: tried at one theta and one beside it."""
        if self.whole or not self.free:
            return not self.whole
        two = self.sample_prior(np.random.default_rng(3), 2)
        one, beside = (self.point({name: v[:1] + near * (v[1:] - v[:1]) for name, v in two.items()}) for near in NEAR)
        before, after = (self.records(np.random.default_rng(1), point, MANY) for point in (one, beside))
        moves = {name: after[name] - before[name] for name in before}
        jumped = [np.abs(move - np.median(move)) > JUMP * np.ptp(before[name]) for name, move in moves.items()]
        return float(np.max(np.mean(jumped, axis=1))) < JUMPING

    def point(self, theta: Theta, row: int = 0) -> Point:
        """Every parameter at one row of theta, as `draw` is given them."""
        full = self.parameters.full(theta)
        at = {name: value[min(row, len(value) - 1)] for name, value in full.items()}
        return {name: float(value) if np.ndim(value) == 0 else np.array(value) for name, value in at.items()}

    def batch(self, point: Point, batch: int) -> dict[str, Floats]:
        """The records of one batch, by column (B/8,), before any bounds."""
        return self.records(np.random.default_rng([0, batch]), point, self.bank_size // N_BATCHES)

    def records(self, rng: np.random.Generator, point: Point, n: int) -> dict[str, Floats]:
        """n records at one theta, by column, as the function draws them."""
        found = drawn(self.draw, rng, point, n)
        if self.columns and set(found) != set(self.columns):
            raise Unsupported(
                f"draw gave the columns {', '.join(self.columns)} when it was first tried, and {', '.join(found)} now: "
                "it must give the same columns at every theta."
            )
        return found

    def cleaned(self, schema: Schema, records: Mapping[str, Floats], columns: Iterable[str]) -> dict[str, Floats]:
        """Records as the schema leaves them: clamped, or those inside the bounds alone."""
        names = sorted(set(columns))
        if schema.outside == "refuse":
            bounds = {name: schema.bounded(name) for name in self.columns if name in schema.numeric}
            inside: Bools = np.ones(len(next(iter(records.values()))), bool)
            for name, entry in bounds.items():
                inside &= (records[name] >= entry.low) & (records[name] <= entry.high)
            records = {name: x[inside] for name, x in records.items()}
        return {name: _within(records[name], schema, name) for name in names}

    def inside(
        self, rng: np.random.Generator, schema: Schema, n: int, point: Point, columns: Sequence[str]
    ) -> dict[str, Floats]:
        """n cleaned records; under outside="refuse" records are drawn until so many are inside."""
        pieces, count = list[dict[str, Floats]](), 0
        for _ in range(MOST_REDRAWS):
            pieces.append(self.cleaned(schema, self.records(rng, point, n), columns))
            count += len(pieces[-1][columns[0]])
            if count >= n:
                return {name: np.concatenate([piece[name] for piece in pieces])[:n] for name in columns}
        raise Unsupported("Under some parameters almost no record of this population lies inside the declared bounds.")

    def averages(self, schema: Schema, features: tuple[Feature, ...], point: Point) -> Averages:
        """What the batches say of these features of one cleaned record."""
        columns = frozenset[str]().union(*(feature.columns() for feature in features))

        def summed(records: Mapping[str, Floats], size: int) -> tuple[Floats, Floats]:
            values = [np.broadcast_to(np.asarray(f.value(records, schema), np.float64), (size,)) for f in features]
            rows = np.stack(values)
            mean = rows.mean(axis=1)
            away = rows - mean[:, None]
            return mean, away @ away.T

        return self._remembered(("moments", schema, features), schema, sorted(columns), point, summed, len(features))

    def shares(self, schema: Schema, statistic: CellStatistic, cells: int, point: Point) -> Floats:
        """The share of each cell among the records of the bank, (cells,); half a record is added to each.

        A cell that no record of the bank fell into is not impossible.
        """

        def summed(records: Mapping[str, Floats], size: int) -> tuple[Floats, Floats]:
            if isinstance(statistic, Records):
                counts = cell_counts(statistic.cell(records, schema), cells)
            else:
                counts = np.asarray(statistic.value(records, schema))
            if counts.shape == (1,):  # of a condition
                counts = np.array([size - counts[0], counts[0]])
            return np.asarray(counts, np.float64) / size, NO_SCATTER

        found = self._remembered(("cells", schema, statistic), schema, statistic.columns(), point, summed, cells)
        pooled = found.pooled(self.left_out)
        return (pooled.mean * pooled.records + 0.5) / (pooled.records + 0.5 * cells)

    def spread_over(self, schema: Schema, feature: Feature, grid: Floats, point: Point) -> Floats:
        """The shares (M,) of the bank's records at equally spaced places of a feature, each split between the two."""
        step, last = grid[1] - grid[0], grid.size - 1

        def summed(records: Mapping[str, Floats], size: int) -> tuple[Floats, Floats]:
            values = np.broadcast_to(np.asarray(feature.value(records, schema), np.float64), (size,))
            place = np.clip((values - grid[0]) / step, 0, last)
            left = np.minimum(place.astype(np.int64), last - 1)
            share = place - left
            found = np.bincount(left, 1 - share, minlength=last + 1)
            return (found + np.bincount(left + 1, share, minlength=last + 1)) / size, NO_SCATTER

        question = ("grid", schema, feature, float(grid[0]), float(grid[-1]), grid.size)
        found = self._remembered(question, schema, sorted(feature.columns()), point, summed, grid.size)
        return found.pooled(self.left_out).mean

    def _remembered(
        self,
        question: tuple[object, ...],
        schema: Schema,
        columns: Sequence[str],
        point: Point,
        summed: Callable[[Mapping[str, Floats], int], tuple[Floats, Floats]],
        d: int,
    ) -> Averages:
        """The answer of each batch to a question, kept for the next time it is asked at the same theta."""
        key = (self.bank_size, *question, *(np.asarray(value).tobytes() for value in point.values()))
        if (known := self._memory.get(key)) is not None:
            return known
        counts, means, scatters = np.zeros(N_BATCHES), np.zeros((N_BATCHES, d)), dict[int, Floats]()
        for k in range(N_BATCHES):
            records = self.cleaned(schema, self.batch(point, k), columns)
            counts[k] = size = len(next(iter(records.values())))
            if size:
                means[k], scatters[k] = summed(records, size)
        shape = next(iter(scatters.values()), NO_SCATTER).shape
        every = np.stack([scatters.get(k, np.zeros(shape)) for k in range(N_BATCHES)])
        found = Averages(counts, means, every)
        self._memory.keep(key, found)
        return found


# ---- a record of it, as a schema leaves it ----


@attach.register
def _(population: Simulator, schema: Schema, columns: Iterable[str]) -> Mapping[str, Population]:
    names = sorted(set(columns))
    _check_columns(population, names)
    for name in names:
        schema.column(name)
    return {name: population.marginal(name) for name in names}


@is_possible.register
def _(population: Simulator, schema: Schema, columns: Iterable[str], theta: Theta) -> Bools:
    """Where no record of the bank is inside the bounds, none is taken to be."""
    if schema.outside == "clamp":
        return np.ones(rows_of(theta), bool)
    names = sorted(set(columns))
    features = tuple(Feature("column", (name,)) for name in names)
    found = [population.averages(schema, features, population.point(row)).records for row in single_rows(theta)]
    return np.array([count.sum() > 0 for count in found])


def _moments(population: Simulator, schema: Schema, features: Sequence[Feature], theta: Theta) -> list[BankMoments]:
    """What the bank says of the features at each row of theta."""
    _check_columns(population, frozenset[str]().union(*(feature.columns() for feature in features)))
    rows = range(rows_of(theta))
    each = [population.averages(schema, tuple(features), population.point(theta, row)) for row in rows]
    return [one.pooled(population.left_out) for one in each]


@row_moments.register
def _(population: Simulator, schema: Schema, features: Sequence[Feature], theta: Theta) -> tuple[Array, Array]:
    found = _moments(population, schema, features, theta)
    return np.stack([one.mean for one in found]), np.stack([one.covariance for one in found])


@sum_moments.register
def _(population: Simulator, schema: Schema, features: Sequence[Feature], theta: Theta, n: int) -> tuple[Array, Array]:
    """The sum of n records about n times the mean of the bank's B: variance n C (1 + n/B)."""
    found = _moments(population, schema, features, theta)
    wider = np.array([1 + n / one.records if one.records else np.nan for one in found])
    covariance = n * wider[:, None, None] * np.stack([one.covariance for one in found])
    return n * np.stack([one.mean for one in found]), covariance


@cell_probabilities.register
def _(population: Simulator, schema: Schema, statistic: CellStatistic, theta: Theta) -> Array:
    if isinstance(statistic, Marginals):
        refuse_tied(statistic)
        if len(statistic.cliques) != 1:
            raise Unsupported(
                "Several marginals of the same records have no cells in common; take one clique at a time."
            )
    _check_columns(population, statistic.columns())
    cells = statistic.cell_count(schema) if isinstance(statistic, Records) else len(statistic.labels(schema))
    rows = range(rows_of(theta))
    cells = max(cells, 2)  # a condition holds or does not
    return np.stack([population.shares(schema, statistic, cells, population.point(theta, row)) for row in rows])


@condition_probability.register
def _(population: Simulator, schema: Schema, condition: Feature, theta: Theta) -> Array:
    return row_moments(population, schema, (condition,), theta)[0][:, 0]


@drawn_records.register
def _(
    population: Simulator, rng: np.random.Generator, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
) -> dict[str, Array]:
    names = sorted(set(columns))
    _check_columns(population, names)
    points = [population.point(theta, row) for row in range(rows_of(theta))]
    rows = [population.inside(rng, schema, n, point, names) for point in points]
    return {name: np.stack([row[name] for row in rows]) for name in names}


@records_from_base.register
def _(
    population: Simulator, schema: Schema, u: Mapping[str, Array], theta: Theta, columns: Iterable[str]
) -> dict[str, Array]:
    del schema, u, theta, columns
    raise Unsupported(
        f"{shown(population, 80)} is known by its draws alone, so its records are no functions of uniform numbers, "
        "which is what this would need."
    )


def _check_columns(population: Simulator, columns: Iterable[str]) -> None:
    for name in sorted(set(columns)):
        if name not in population.columns:
            raise Unsupported(
                f"The release uses column {name!r}, which draw does not give; it gives {', '.join(population.columns)}."
            )


def _within(x: Floats, schema: Schema, name: str) -> Floats:
    """Values of one column, clamped to its bounds, or known to be levels."""
    entry = schema.column(name)
    if isinstance(entry, Bounded):
        return np.clip(x, entry.low, entry.high)
    if x.size and not (np.all(x == np.floor(x)) and x.min() >= 0 and x.max() < len(entry)):
        raise Unsupported(
            f"Column {name!r} has {len(entry)} levels, and draw gives values of it that are none of 0 to "
            f"{len(entry) - 1}: draw the index of the level, in the order of the schema."
        )
    return x


def _domains(parameters: Mapping[str, object]) -> dict[str, Support]:
    """Lists of probabilities are shares; any other parameter is a number."""
    return {name: SIMPLEX if _is_vector(value) else REAL for name, value in parameters.items()}


def _is_vector(value: object) -> bool:
    """Whether a parameter is a list of probabilities, known or with a Dirichlet prior."""
    return offers(value, "alpha") if is_prior(value) else isinstance(value, list | tuple | np.ndarray)


def _steps(parameters: Parameters) -> dict[str, float]:
    """A twentieth of the prior's spread (its central 68 %, halved) for each unknown that is a number."""
    priors = {name: prior for name in parameters.free if (prior := parameters.prior_of(name)) is not None}
    return {name: STEP * float(prior.ppf(0.84) - prior.ppf(0.16)) / 2 for name, prior in priors.items()}
