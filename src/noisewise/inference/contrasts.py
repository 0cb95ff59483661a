"""Groups and columns compared: differences, ratios and ranks at every draw, so that what is uncertain stays so.

    contrast    f(first) - f(second), or f(first) / f(second), with its interval and P(first > second)
    ranking     P(rank k) of every group, the expected rank, and P(largest)
Values of two groups are compared draw by draw: what they share (a common centre, a stated n) cancels as it should.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.answer_sources import AnswerSource, Drawn
from noisewise.inference.answers import Quantity, summarised
from noisewise.inference.intervals import checked_level
from noisewise.inference.tables import TextTable
from noisewise.printable import did_you_mean, printable, shown
from noisewise.types import Floats

if TYPE_CHECKING:
    from pandas import DataFrame

    from noisewise.inference.posterior import Posterior

__all__ = ["Contrast", "Ranking", "contrast", "ranking"]

KINDS = ("difference", "ratio")
MOST_RANKS = 12  # shown
FEW_DRAWS = 3  # that say otherwise: as few as leave a chance untold (the rule of three)
NamedOrFunction = str | Callable[[AnswerSource], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """A number of one group (or column) against that of another, in the unit of the column; a ratio has none.

    `probability` is that of the first being larger; None for a point estimate.
    """

    first: str
    second: str
    kind: str
    told: Quantity
    probability: float | None

    @property
    def quantity(self) -> str:
        return self.told.quantity

    @property
    def estimate(self) -> float | None:
        return self.told.estimate

    @property
    def low(self) -> float | None:
        return self.told.low

    @property
    def high(self) -> float | None:
        return self.told.high

    @property
    def sd(self) -> float | None:
        return self.told.sd

    @property
    def unit(self) -> str:
        return self.told.unit

    @property
    def level(self) -> float:
        return self.told.level

    @property
    def draws(self) -> Floats:
        """Its value at every draw (K,)."""
        return self.told.draws

    def __str__(self) -> str:
        sign = "less" if self.kind == "difference" else "divided by"
        of = f" {self.told.column}" if self.told.column else ""
        larger = f"; {self.first} is larger with probability {chance}" if (chance := self._chance()) else ""
        return printable(f"{self.quantity}{of}, {self.first} {sign} {self.second}: {self.told.words()}{larger}.")

    def _chance(self) -> str:
        """The probability in words: that hardly a draw says otherwise is no certainty."""
        if self.probability is None:
            return ""
        few = FEW_DRAWS / max(self.draws.size, 1)
        if self.probability > 1 - few:
            return "over 0.99"
        return "below 0.01" if self.probability < few else f"{self.probability:.3g}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        header = (self.kind, "estimate", "low", "high", "sd", "unit", f"P({self.first} larger)")
        numbers = [self.estimate, self.low, self.high, self.sd]
        cells = ["" if number is None else f"{number:.4g}" for number in numbers]
        row = (f"{self.quantity}: {self.first} against {self.second}", *cells, self.unit, self._chance())
        return TextTable(header, (row,), right=(1, 2, 3, 4, 6)).html(self.kind.capitalize())


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Which group has how large a number: `probabilities[i, k]` that group i has rank k + 1, the largest being 1.

    `expected` are the posterior means of the ranks, `best` the probability of rank 1; groups are in the order of their
    expected ranks. Equal values share their ranks evenly.
    """

    quantity: str
    groups: tuple[str, ...]
    probabilities: Floats  # (groups, ranks)
    expected: Floats
    is_ascending: bool = False

    @property
    def best(self) -> Floats:
        """The probability of rank 1, of each group."""
        return np.asarray(self.probabilities[:, 0])

    def __getitem__(self, group: str | int) -> Floats:
        """The probabilities of the ranks of one group."""
        group = str(group)
        if group not in self.groups:
            raise InvalidArgument(
                f"There is no group {shown(group)}{did_you_mean(group, self.groups)}; there are "
                f"{', '.join(self.groups[:20])}.",
                argument="group",
            )
        return np.asarray(self.probabilities[self.groups.index(group)])

    def to_pandas(self) -> DataFrame:
        """One row for each group: expected rank, and the probability of every rank."""
        import pandas

        ranks = range(1, len(self.groups) + 1)
        made = {"group": list(self.groups), "expected": self.expected, "best": self.best}
        return pandas.DataFrame({**made, **{f"P(rank {k})": self.probabilities[:, k - 1] for k in ranks}})

    def to_markdown(self) -> str:
        """A table for Markdown."""
        return self._table().markdown()

    def to_latex(self) -> str:
        """A table for LaTeX, with booktabs."""
        return self._table().latex()

    def _repr_html_(self) -> str:
        return self._table().html("Ranks", [self._caption()])

    def __str__(self) -> str:
        return self._table().text([self._caption()])

    def __repr__(self) -> str:
        return f"<Ranking of {len(self.groups)} by {self.quantity}>"

    def _caption(self) -> str:
        order = "smallest" if self.is_ascending else "largest"
        return f"Rank 1 has the {order} {self.quantity}; columns are posterior probabilities."

    def _table(self) -> TextTable:
        count = min(len(self.groups), MOST_RANKS)
        header = ("", "expected rank", *(f"rank {k + 1}" for k in range(count)))
        rows = tuple(
            (name, f"{mean:.2f}", *(f"{p:.3f}" for p in chances[:count]))
            for name, mean, chances in zip(self.groups, self.expected, self.probabilities, strict=True)
        )
        return TextTable(header, rows, right=tuple(range(1, count + 2)))


def contrast(
    posterior: Posterior,
    quantity: NamedOrFunction,
    first: str | int,
    second: str | int,
    *,
    kind: str = "difference",
    column: str | None = None,
    level: float = 0.9,
) -> Contrast:
    """One group's number against another's; where there are no groups, one column's against another's."""
    first, second = str(first), str(second)  # levels may be numbers: 2019
    if kind not in KINDS:
        raise InvalidArgument(f"kind = {shown(kind)}: it is 'difference' or 'ratio'.", argument="kind")
    share, sources = checked_level(level), named_sources(posterior, quantity, column)
    for given, argument in ((first, "first"), (second, "second")):
        if given not in sources:
            raise InvalidArgument(
                f"There is no group or column {shown(given)}{did_you_mean(given, sources)} with this number; there are "
                f"{', '.join(list(sources)[:20])}.",
                argument=argument,
            )
    if first == second:
        raise InvalidArgument(f"{shown(first)} is compared with itself; name two groups.", argument="second")
    one, other = (_drawn(sources[name], quantity) for name in (first, second))
    if one.unit != other.unit:
        raise InvalidArgument(
            f"{first} is told in {one.unit or 'no unit'}, {second} in {other.unit or 'no unit'}: no contrast of them.",
            argument="second",
        )
    if not (np.isfinite(one.values).all() and np.isfinite(other.values).all()):
        raise Unsupported(one.note or other.note or f"The {one.quantity} is not a number at some draws.")
    place = one.column if one.column == other.column else ""
    made = replace(one, values=_compared(one, other, kind, first, second), column=place, group="", note="")
    made = made if kind == "difference" else replace(made, unit="", is_share=False)
    is_larger = None if posterior.is_point else float(np.mean(one.values > other.values))
    return Contrast(first, second, kind, summarised(posterior, made, share), is_larger)


def _compared(one: Drawn, other: Drawn, kind: str, first: str, second: str) -> Floats:
    if kind == "difference":
        return np.asarray(one.values - other.values)
    if not (np.all(other.values > 0) or np.all(other.values < 0)):
        raise Unsupported(
            f"The ratio of {first} to {second} has no meaning here: the {other.quantity} of {second} may be 0. Ask for "
            "kind='difference'."
        )
    return np.asarray(one.values / other.values)


def ranking(
    posterior: Posterior, quantity: NamedOrFunction, *, column: str | None = None, ascending: bool = False
) -> Ranking:
    """The posterior probability of each rank of each group (or column)."""
    posterior.refuse_point("rank")
    sources = named_sources(posterior, quantity, column)
    if len(sources) < 2:
        there = f"There is only {', '.join(filter(None, sources)) or 'one number'}"
        raise InvalidArgument(
            f"{there} to rank; a rank needs two groups or columns.",
            argument="quantity",
        )
    drawn = [_drawn(source, quantity) for source in sources.values()]
    if len({one.unit for one in drawn}) > 1:
        units = ", ".join(sorted({one.unit or "no unit" for one in drawn}))
        raise InvalidArgument(f"These are told in different units ({units}): they have no ranks.", argument="quantity")
    values = np.stack([one.values for one in drawn], axis=1)
    if not np.isfinite(values).all():
        raise Unsupported(next((one.note for one in drawn if one.note), "Some draws are not numbers."))
    chances = _rank_chances(values if ascending else -values)
    expected = chances @ np.arange(1.0, values.shape[1] + 1)
    order = np.argsort(expected, kind="stable")
    names = list(sources)
    return Ranking(drawn[0].quantity, tuple(names[k] for k in order), chances[order], expected[order], ascending)


def _rank_chances(values: Floats) -> Floats:
    """(groups, ranks): how often each has each rank, the smallest first; equal values share theirs evenly."""
    from scipy.stats import rankdata

    count = values.shape[1]
    below, upto = (rankdata(values, method=method, axis=1).astype(int) for method in ("min", "max"))
    below -= 1
    weight = 1 / (upto - below)
    steps = np.zeros((count, count + 1))
    for k in range(count):
        np.add.at(steps[k], below[:, k], weight[:, k])
        np.add.at(steps[k], upto[:, k], -weight[:, k])
    return np.asarray(np.cumsum(steps, axis=1)[:, :-1] / len(values))


def named_sources(posterior: Posterior, quantity: NamedOrFunction, column: str | None) -> dict[str, AnswerSource]:
    """The sources that can be compared, by group where there are groups, else by column."""
    sources: Sequence[AnswerSource] = [one for one in posterior.answer_sources() if one.column or one.group]
    if column is not None:
        known = dict.fromkeys(one.column for one in sources)
        if column not in known:
            raise InvalidArgument(
                f"There is no column {shown(column)}{did_you_mean(column, known)}; there are {', '.join(known)}.",
                argument="column",
            )
        sources = [one for one in sources if one.column == column]
    grouped = [one for one in sources if one.group]
    if grouped:
        columns = dict.fromkeys(one.column for one in grouped)
        if len(columns) > 1:
            raise InvalidArgument(
                f"There are groups of several columns; say which, as in column={next(iter(columns))!r}.",
                argument="column",
            )
        return {one.group: one for one in grouped}
    named = [one for one in sources if quantity in one.quantities]
    return {one.column: one for one in named or sources if one.quantities}


def _drawn(source: AnswerSource, quantity: NamedOrFunction) -> Drawn:
    if not callable(quantity):
        if not isinstance(quantity, str):
            raise InvalidArgument(
                f"quantity = {shown(quantity)}: name one, such as 'mean' or 'share above 100', or give a function of "
                "a law.",
                argument="quantity",
            )
        return source.drawn(quantity)
    values = np.asarray(quantity(source), np.float64)
    if values.ndim != 1:
        raise InvalidArgument(
            f"The function gave an array of shape {values.shape}; it must give one number for each draw, as "
            "lambda law: law.quantile(0.9) - law.quantile(0.1).",
            argument="quantity",
        )
    return Drawn("quantity", values, "", source.column, source.group)
