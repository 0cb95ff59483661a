"""What a learnt graphical model answers: probabilities, conditional ones, and how well it foretells new records.

    marginal        P(x_r) for any columns r, of a common clique or not
    conditional     P(x_r | x_g = levels)
    quick           P(x_r) for columns of one clique, from the estimate of `map` and its errors
    log likelihood  mean_i log p(x_i | theta) of held-out records at every draw; and of the predictive law,
                    mean_i log E p(x_i | theta), which is never lower than the mean over draws
Each is computed at every draw of the potentials, so its interval holds what is not known. A point method has one draw:
its answers are numbers without an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.graphical import matrix_free
from noisewise.graphical.cliques import read_columns
from noisewise.graphical.counted import home_of
from noisewise.graphical.loopy import engine_for
from noisewise.graphical.matching import match
from noisewise.graphical.model import POTENTIALS
from noisewise.graphical.observed import TOO_NARROW, observe
from noisewise.graphical.probabilities import Table, evenly, log_partitions, pieces, table_rows
from noisewise.graphical.problem import Problem
from noisewise.graphical.quick import errors
from noisewise.graphical.structure import onto
from noisewise.inference.frames import frame_columns
from noisewise.inference.intervals import checked_level, equal_tailed
from noisewise.inference.posterior import Posterior
from noisewise.printable import shown
from noisewise.types import Floats, Ints

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = [
    "HeldOut",
    "Probabilities",
    "conditional",
    "estimate",
    "log_likelihood",
    "marginal",
    "parameter_rows",
    "quick",
    "read_records",
]

LARGEST_ANSWER = 100_000  # cells
MOST_LINES = 40
MOST_PREDICTIVE = 1000  # draws
FEWEST_DRAWS = 20
FEWEST_DETERMINED = 2.0  # parameters; with fewer the width of the prior is a guess, and intervals held 0 to 40 %
APPROXIMATE = "Approximate: the columns are too entangled for exact sums (loopy belief propagation)."


@dataclass(frozen=True, slots=True, eq=False)
class Probabilities:
    """Cells with their probability, and the ends of its interval at `level` (None where there is no interval)."""

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    mean: Floats
    low: Floats | None
    high: Floats | None
    level: float
    given: Mapping[str, str | int] = field(default_factory=dict)
    note: str = ""

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, label: str) -> float:
        """The probability of one cell by its label, such as 'sex=f, smoker=yes'."""
        if label not in self.labels:
            raise InvalidArgument(
                f"There is no cell {shown(label, 80)}; there are {', '.join(self.labels[:6])}, ...", argument="label"
            )
        return float(self.mean[self.labels.index(label)])

    def interval(self, label: str) -> tuple[float, float]:
        """(low, high) of one cell by its label."""
        at = self.labels.index(label) if label in self.labels else -1
        if at < 0 or self.low is None or self.high is None:
            self[label]
            raise InvalidArgument("A point estimate has no intervals; use method='posterior'.", argument="label")
        return float(self.low[at]), float(self.high[at])

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of plain data: cell, estimate, low, high."""
        none: list[Any] = [None] * len(self)
        return {
            "cell": list(self.labels),
            "estimate": self.mean.tolist(),
            "low": none if self.low is None else self.low.tolist(),
            "high": none if self.high is None else self.high.tolist(),
        }

    def __str__(self) -> str:
        rows = [["cell", "estimate"]]
        if self.low is not None and self.high is not None:
            rows[0] += [f"{50 * (1 + side * self.level):.4g} %" for side in (-1, 1)]
        for k in range(min(len(self), MOST_LINES)):
            ends = [] if self.low is None or self.high is None else [self.low[k], self.high[k]]
            rows.append([self.labels[k], *(f"{number:.4f}" for number in (self.mean[k], *ends))])
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        if len(self) > MOST_LINES:
            lines.append(f"... and {len(self) - MOST_LINES} more cells.")
        return "\n".join([self.title, *lines, *([self.note] if self.note else [])])

    @property
    def title(self) -> str:
        """P(a, b | c=x), as it is written; cells of several tables have no such name."""
        if not self.columns:
            return "Shares of the records"
        known = ", ".join(f"{name}={level}" for name, level in self.given.items())
        return f"P({', '.join(self.columns)}{' | ' + known if known else ''})"

    def plot(self, path: str | PathLike[str] | None = None) -> bytes:
        """The cells with their intervals, as a PNG (also written to `path`)."""
        from noisewise.report.intervals import interval_plot

        return interval_plot(self.labels, self.mean, self.low, self.high, path, x_label=self.title)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The mean log-probability a record: its posterior mean and interval, and that of the predictive law; in nats."""

    mean: float
    low: float | None
    high: float | None
    predictive: float
    records: int
    level: float

    def __str__(self) -> str:
        ends = "" if self.low is None else f" ({100 * self.level:g} %: {self.low:.4f} to {self.high:.4f})"
        return (
            f"Log-likelihood of {self.records} records: {self.mean:.4f} each{ends}; predictive {self.predictive:.4f}."
        )


def marginal(
    model: GraphicalModel,
    posterior: Posterior,
    columns: object,
    *,
    given: Mapping[str, str | int],
    level: float,
) -> Probabilities:
    """P(columns | given), cell by cell."""
    rows = parameter_rows(model, posterior)
    names, share = read_columns(columns, model.columns), checked_level(level)
    cells = math.prod(len(model.levels[v]) for v in model.region(names))
    if cells > LARGEST_ANSWER:
        raise InvalidArgument(
            f"The table of {', '.join(names)} has {cells} cells; ask for at most {LARGEST_ANSWER}.", argument="columns"
        )
    known = {model.columns.index(name): _given_level(model, name, value) for name, value in given.items()}
    table = Table.of(model, model.region(names), known)
    values = table.rows(rows)
    low, high = (None, None) if posterior.is_point else equal_tailed(values, share)
    note = "" if table.engine.is_exact else APPROXIMATE
    return Probabilities(names, model.cell_labels(names), values.mean(axis=0), low, high, share, dict(given), note)


def conditional(
    model: GraphicalModel, posterior: Posterior, columns: object, *, given: object, level: float
) -> Probabilities:
    """P(columns | given), for at least one level given."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidArgument("given must say which levels are known, as in given={'sex': 'f'}.", argument="given")
    if unknown := [name for name in given if name not in model.columns]:
        raise InvalidArgument(f"The model has no column {shown(unknown[0])}.", argument="given")
    if both := [name for name in read_columns(columns, model.columns) if name in given]:
        raise InvalidArgument(f"{both[0]!r} is asked for and given.", argument="given")
    return marginal(model, posterior, columns, given=given, level=level)


def log_likelihood(model: GraphicalModel, posterior: Posterior, records: Any, *, level: float) -> HeldOut:
    """How probable held-out records are, per record."""
    rows, share = parameter_rows(model, posterior), checked_level(level)
    distinct, counts = np.unique(read_records(model, records), axis=0, return_counts=True)
    cells, weight = _cells(model, distinct), counts / counts.sum()
    statistics = np.zeros(model.parameters)
    np.add.at(statistics, cells, np.broadcast_to(weight[:, None], cells.shape))
    constant = log_partitions(model, rows)
    each = rows @ statistics - constant
    some, predictive = evenly(len(rows), MOST_PREDICTIVE), 0.0
    for piece in pieces(len(distinct), len(some) * len(model.cliques)):
        score = rows[some][:, cells[piece]].sum(axis=2) - constant[some, None]  # (draws, records)
        predictive += float(weight[piece] @ (logsumexp(score, axis=0) - math.log(len(some))))
    low, high = (None, None) if posterior.is_point else map(float, equal_tailed(each, share))
    return HeldOut(float(each.mean()), low, high, predictive, int(counts.sum()), share)


def quick(
    model: GraphicalModel,
    releases: object,
    columns: str | Sequence[str] | None,
    *,
    level: float,
    n: object,
    draws: int,
    seed: int | None,
) -> Probabilities:
    """The share of every cell of the cliques, or of a table over columns of one clique, with its interval."""
    share, count = checked_level(level), integer(draws, "draws", minimum=FEWEST_DRAWS, maximum=10_000)
    asked = [read_columns(one, model.columns) for one in (model.cliques if columns is None else (columns,))]
    homes = [_home(model, names) for names in asked]
    observed = observe(model, releases, n=n)
    if not matrix_free.is_able(observed.problem):
        raise Unsupported(
            "Quick intervals need tables that are published whole and inference that is exact, which these are not. "
            "Use infer with method='posterior'."
        )
    found = matrix_free.fit(observed.problem)
    if found.notes or (found.effective or 0.0) < FEWEST_DETERMINED:
        raise Unsupported(
            f"These tables determine {found.effective or 0.0:.1g} of {observed.problem.parameters} parameters: too few "
            "to learn the width of their prior, on which quick intervals rest. model.direct(release) has intervals "
            "that do not rest on the model."
        )
    rng = np.random.default_rng(None if seed is None else integer(seed, "seed", minimum=0))
    mu, wrong = errors(observed.problem, found, rng, count)
    cells = np.column_stack([mu, wrong])
    tables = observed.problem.engine.tables
    parts = []
    for names, r in zip(asked, homes, strict=True):
        table = cells[tables.part(r)].T.reshape(-1, *tables.shape(tables.regions[r]))
        parts.append(onto(table, tables.regions[r], model.region(names)).reshape(len(table), -1))
    summed = np.concatenate(parts, axis=1)
    middle, sd = summed[0], np.sqrt(np.mean(np.square(summed[1:]), axis=0))
    reach = float(stats.t.ppf((1 + share) / 2, count)) * sd
    labels = tuple(label for names in asked for label in model.cell_labels(names))
    low, high = np.clip(middle - reach, 0.0, 1.0), np.clip(middle + reach, 0.0, 1.0)
    notes = [*found.notes, *observed.notes, *observed.warnings, *observed.weak_note(TOO_NARROW)]
    return Probabilities(asked[0] if len(asked) == 1 else (), labels, middle, low, high, share, note=" ".join(notes))


def _home(model: GraphicalModel, names: Sequence[str]) -> int:
    """The smallest clique that holds these columns."""
    home = home_of(model.tables, model.region(names))
    if home is None:
        raise InvalidArgument(
            f"[{', '.join(names)}] are in no common clique. Quick intervals are of columns that are; "
            "model.marginal(posterior, columns) asks a posterior for any.",
            argument="columns",
        )
    return home


def estimate(model: GraphicalModel, posterior: Posterior) -> Floats:
    """One model's potentials (p,): a point's own, or those that match the mean of the draws' tables."""
    rows = parameter_rows(model, posterior)
    if posterior.is_point:
        return np.asarray(rows[0].copy())
    problem = Problem(engine_for(model.tables), model.spread, ())
    return match(problem, problem.gather(table_rows(model, rows).mean(axis=0)), start=rows.mean(axis=0))


def parameter_rows(model: GraphicalModel, posterior: object) -> Floats:
    """The potentials (K, p) at all draws of a posterior of this model."""
    if not isinstance(posterior, Posterior) or not model.is_same(posterior.population):
        raise InvalidArgument(
            "posterior is not of this model; give what infer(releases, model) returned.", argument="posterior"
        )
    return posterior.draws[POTENTIALS].reshape(-1, model.parameters)


def read_records(model: GraphicalModel, records: Any) -> Ints:
    """Records (rows, columns) as numbers of levels, from columns by name (mapping, data frame or Arrow table)."""
    known = records if isinstance(records, Mapping) else frame_columns(records)
    if known is None:
        raise InvalidArgument(
            "records must be columns by name: a mapping of lists, a data frame or an Arrow table.", argument="records"
        )
    read = []
    for name, levels in zip(model.columns, model.levels, strict=True):
        if name not in known:
            raise InvalidArgument(
                f"records has no column {shown(name)}; every column of the model is needed.", argument="records"
            )
        index = {str(level): k for k, level in enumerate(levels.levels)}
        values = np.asarray(records[name], dtype=object).ravel()
        try:
            read.append(np.array([index[str(value)] for value in values], dtype=np.int64))
        except KeyError:
            raise InvalidArgument(
                f"The column {shown(name)} of records holds a value that is none of its levels.", argument="records"
            ) from None
    if len({len(column) for column in read}) > 1 or not len(read[0]):
        raise InvalidArgument("The columns of records are empty, or of different lengths.", argument="records")
    return np.stack(read, axis=1)


def _cells(model: GraphicalModel, records: Ints) -> Ints:
    """The parameter (records, cliques) that each record meets in each clique."""
    tables, spread = model.tables, model.spread
    found = []
    for r, region in enumerate(tables.regions):
        cell = np.ravel_multi_index(tuple(records[:, v] for v in region), tables.shape(region))
        found.append(spread[tables.starts[r] + cell])
    return np.stack(found, axis=1)


def _given_level(model: GraphicalModel, name: str, value: object) -> int:
    levels = model.levels[model.columns.index(name)]
    try:
        return levels.index(value)
    except InvalidArgument as error:
        raise InvalidArgument(f"given[{name!r}]: {error}", argument="given") from None
