"""Answers in people's terms: numbers of the population with intervals, in the units of the columns.

    answers = posterior.answers(quantiles=(0.1, 0.9), shares=(100,))
    print(answers); answers["mean"].estimate; answers.to_pandas()

A row is one number of the population: its posterior mean, the ends of its equal-tailed interval, and its posterior sd.
Where the draws of a number are so skewed that their mean lies outside their middle half, the median stands for it, and
a note says so (a share lies between 0 and 1, and keeps its mean). A number that does not exist at some draws (the mean
of a Cauchy law) has no estimate: never an infinite one, never NaN. A point estimate has no interval; with standard
errors it has theirs, by the delta method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.exact import fraction
from noisewise.inference.answer_sources import Asked, Drawn
from noisewise.inference.intervals import checked_level, equal_tailed
from noisewise.inference.law_draws import ABOVE, QUANTILE, probability
from noisewise.inference.point_errors import error_of
from noisewise.inference.tables import TextTable
from noisewise.inference.told import interval_words, number_words
from noisewise.inference.units import column_units
from noisewise.printable import did_you_mean, printable, shown
from noisewise.statistics.feature import Feature
from noisewise.statistics.text import feature_from_text
from noisewise.types import Floats

if TYPE_CHECKING:
    from pandas import DataFrame

    from noisewise.inference.posterior import Posterior

__all__ = ["Answers", "Quantity", "answers", "read_asked", "summarised"]


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """One number of the population: what it is, of which column and group, and how well it is known.

    `estimate`, `low`, `high` and `sd` are in `unit`; each is None where there is none, and `note` says why. `draws`
    (K,) are its values at the draws of the posterior.
    """

    quantity: str
    column: str
    group: str
    estimate: float | None
    low: float | None
    high: float | None
    sd: float | None
    unit: str
    level: float
    draws: Floats
    note: str = ""

    def __str__(self) -> str:
        of = f" of {self.column}" if self.column and self.column not in self.quantity else ""
        where = f" in {self.group}" if self.group else ""
        return printable(f"{self.quantity}{of}{where}: {self.words()}.")

    def words(self) -> str:
        """50.3 thousand EUR, 90 % interval 49.4 to 51.1; or why there is none."""
        if self.estimate is None:
            return self.note.rstrip(".") or "none"
        unit = f" {self.unit}" if self.unit else ""
        value = number_words(self.estimate, self.low, self.high, self.sd)
        interval = interval_words(self)
        return f"{value}{unit}{', ' + interval if interval else ''}"

    def __repr__(self) -> str:
        return f"<{self}>"


COLUMNS = ("quantity", "column", "group", "estimate", "low", "high", "sd", "unit")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answers:
    """A table of numbers of the population; iterate over its rows, or take one by name: answers["mean"]."""

    rows: tuple[Quantity, ...]
    level: float
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: str | tuple[str | int, ...]) -> Quantity:
        """One row: answers["mean"], or with a column or a group where there are several, answers["mean", "north"]."""
        quantity, *places = _listed(key)
        self._known(quantity, {row.quantity for row in self.rows}, "quantity")
        found = [row for row in self.rows if row.quantity == quantity]
        for place in map(str, places):  # levels may be numbers: 2019
            self._known(place, {name for row in found for name in (row.column, row.group) if name}, "column or group")
            found = [row for row in found if place in (row.column, row.group)]
        if len(found) > 1:
            ways = [f"answers[{quantity!r}, {(row.group or row.column)!r}]" for row in found[:3]]
            raise InvalidArgument(
                f"There are {len(found)} rows of {quantity!r}; ask for one, as in {', '.join(ways)}, or for all with "
                f"answers.of({quantity!r}).",
                argument="quantity",
            )
        return found[0]

    def of(self, quantity: str | None = None, *, column: str | None = None, group: str | int | None = None) -> Answers:
        """The rows of one quantity, column or group."""
        rows, group = self.rows, None if group is None else str(group)
        for k, (what, asked) in enumerate((("quantity", quantity), ("column", column), ("group", group))):
            if asked is not None:
                places = [(row.quantity, row.column, row.group)[k] for row in rows]
                self._known(asked, set(places), what)
                rows = tuple(row for row, place in zip(rows, places, strict=True) if place == asked)
        return replace(self, rows=rows)

    def to_pandas(self) -> DataFrame:
        """A data frame with the columns quantity, column, group, estimate, low, high, sd and unit."""
        try:
            import pandas
        except ImportError:
            raise Unsupported("to_pandas needs pandas, which is not installed: pip install pandas.") from None
        cells = [
            (r.quantity, r.column, r.group, _nan(r.estimate), _nan(r.low), _nan(r.high), _nan(r.sd), r.unit)
            for r in self.rows
        ]
        return pandas.DataFrame(cells, columns=list(COLUMNS))

    def to_markdown(self) -> str:
        """A table for Markdown."""
        return self._table().markdown()

    def to_latex(self) -> str:
        """A table for LaTeX, with booktabs."""
        return self._table().latex()

    def _repr_html_(self) -> str:
        return self._table().html("Answers", self.notes)

    def __str__(self) -> str:
        return self._table().text(self.notes)

    def __repr__(self) -> str:
        return f"<Answers: {len(self.rows)} rows at level {self.level:g}>"

    def _table(self) -> TextTable:
        """The rows as texts, without the columns in which nothing stands."""
        ends = [f"{50 * (1 + side * self.level):.4g} %" for side in (-1, 1)]
        header = ["quantity", "column", "group", "estimate", *ends, "sd", "unit"]
        cells = [[r.quantity, r.column, r.group, *_number_cells(r), r.unit] for r in self.rows]
        shown_columns = [k for k in range(len(header)) if k in (0, 3) or any(row[k] for row in cells)]
        numbers = tuple(shown_columns.index(k) for k in (3, 4, 5, 6) if k in shown_columns)
        return TextTable(
            tuple(header[k] for k in shown_columns),
            tuple(tuple(row[k] for k in shown_columns) for row in cells),
            right=numbers,
        )

    @staticmethod
    def _known(name: object, there: set[str], what: str) -> None:
        if name not in there:
            known = sorted(there)
            raise InvalidArgument(
                f"There is no {what} {shown(name)}{did_you_mean(name, known)}; there are {', '.join(known[:20])}.",
                argument="quantity",
            )


def answers(posterior: Posterior, quantiles: object = (), shares: object = (), level: float = 0.9) -> Answers:
    """Every number of the population that is asked for, as a table."""
    share, asked = checked_level(level), read_asked(quantiles, shares)
    sources = posterior.answer_sources()
    rows, answered = [], set()
    for source in sources:
        for drawn in source.answers(asked):
            rows.append(summarised(posterior, drawn, share))
            answered.add(drawn.quantity)
    if lost := [name for name in _asked_names(asked) if name not in answered]:
        columns = ", ".join(dict.fromkeys(source.column for source in sources if source.column))
        argument = "quantiles" if lost[0].startswith(QUANTILE) else "shares"
        raise InvalidArgument(
            f"{argument}: nothing here answers for the {lost[0]}; there are {columns or 'no columns by name'}.",
            argument=argument,
        )
    notes = dict.fromkeys((*(row.note for row in rows if row.note), *column_units(posterior.releases).notes))
    return Answers(tuple(rows), share, tuple(notes))


def _asked_names(asked: Asked) -> list[str]:
    """What rows are called that answer what was asked beyond mean, sd and median."""
    quantiles = [f"{QUANTILE}{q:g}" for q in asked.quantiles]
    return quantiles + [f"{ABOVE}{x:g}" for x in asked.above] + [f"share with {one}" for one in asked.conditions]


def read_asked(quantiles: object, shares: object) -> Asked:
    """Quantiles between 0 and 1; thresholds as numbers, conditions as features or texts."""
    above: list[float] = []
    conditions: list[Feature] = []
    for one in _listed(shares):
        try:
            above.append(float(fraction(one, "shares")))
        except NoisewiseError:
            conditions.append(_condition(one))
    found = tuple(probability(q, "quantiles") for q in _listed(quantiles))
    return Asked(found, tuple(above), tuple(conditions))


def _listed(given: object) -> list[object]:
    """A list as it is, one thing as a list of it."""
    return list(np.ravel(np.asarray(given, dtype=object)))


def _condition(one: object) -> Feature:
    """A condition as a feature, or as the text that a feature prints."""
    try:
        feature = feature_from_text(str(one))
    except NoisewiseError as error:
        raise InvalidArgument(f"shares: {error}", argument="shares") from None
    if not feature.is_condition:
        raise InvalidArgument(
            f"shares holds {shown(one)}: give a number, for the share above it, or a condition such as "
            "column('income') > 100, column('region').equals('north') or 'between(income, 0, 50)'.",
            argument="shares",
        )
    return feature


def summarised(posterior: Posterior, drawn: Drawn, level: float) -> Quantity:
    """A number at every draw as one with an interval, or without one where there is none."""
    values = np.asarray(drawn.values, np.float64)

    def told(estimate: float | None, ends: tuple[float, float] | None, sd: float | None, note: str) -> Quantity:
        low, high = (None, None) if ends is None else ends
        return Quantity(
            drawn.quantity, drawn.column, drawn.group, estimate, low, high, sd, drawn.unit, level, values, note
        )

    if not np.isfinite(values).all():
        return told(None, None, None, drawn.note or f"The {drawn.quantity} is not a number at some draws.")
    if posterior.is_point:
        error = None if posterior.covariance is None else error_of(values)
        return told(float(values[0]), None, error, drawn.note)
    low, high = (float(end) for end in equal_tailed(values, level))
    mean, sd = _known_moments(posterior, values)
    first, third = np.quantile(values, [0.25, 0.75])
    if not drawn.is_share and not first <= mean <= third and first < third:
        skewed = f"The draws of the {drawn.quantity} are so skewed that their median stands for them, not their mean."
        return told(float(np.median(values)), (low, high), sd, f"{drawn.note} {skewed}".strip())
    return told(mean, (low, high), sd, drawn.note)


def _known_moments(posterior: Posterior, values: Floats) -> tuple[float, float]:
    """Mean and sd of a number: those of quadrature where it is a parameter whose method knows them."""
    for name, (mean, sd) in (posterior.moments or {}).items():
        draws = posterior.draws[name]
        flat = draws.reshape(draws.shape[0] * draws.shape[1], -1)
        if len(flat) == len(values):
            for k, column in enumerate(flat.T):
                if np.allclose(column, values, rtol=1e-9, atol=0.0):
                    return float(np.ravel(mean)[k]), float(np.ravel(sd)[k])
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _number_cells(row: Quantity) -> list[str]:
    if row.estimate is None:
        return ["-", "", "", ""]
    ends = ["" if end is None else number_words(end, row.low, row.high, row.sd) for end in (row.low, row.high)]
    sd = "" if row.sd is None else f"{row.sd:.2g}"
    return [number_words(row.estimate, row.low, row.high, row.sd), *ends, sd]


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
