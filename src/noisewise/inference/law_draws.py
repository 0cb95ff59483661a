"""The law of one column at every draw of a posterior: its mean, sd, quantiles and shares, one number for each draw.

    source = LawDraws(column, group, law, theta, ...)       theta (K,): K values of the law's parameters
    source.mean()   source.sd()   source.median()   source.quantile(0.9)   source.share_above(100)       each (K,)

All of them are of the law *as it was described*, before any bounds: what the analyst asks about is the population, and
the bounds are the holder's. `recorded_mean` is that of a record as it was summed, clamped to the bounds or among those
within them. Moments are closed where they are known and quadrature else; nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.exact import fraction
from noisewise.inference.answer_sources import Asked, Drawn, Headline
from noisewise.populations.distribution import Distribution
from noisewise.printable import did_you_mean, shown
from noisewise.statistics.feature import Feature
from noisewise.types import Floats, Theta

__all__ = ["ABOVE", "MEAN", "MEDIAN", "OF", "QUANTILE", "RECORDED", "SD", "LawDraws", "probability"]

MEAN, SD, MEDIAN, RECORDED = "mean", "sd", "median", "mean as recorded"
SHARE = "share"  # of all records, that are in the group
QUANTILE, ABOVE, BELOW, OF = "quantile ", "share above ", "share below ", "share of "
MOST_LEVELS = 60


class ColumnLaw(Protocol):
    """The law of one column, as `AnyPopulation.marginal` gives it."""

    @property
    def distribution(self) -> Distribution: ...
    @property
    def free(self) -> tuple[str, ...]: ...
    @property
    def is_discrete(self) -> bool: ...
    @property
    def values(self) -> Callable[[Theta], dict[str, Floats]]: ...
    @property
    def cdf(self) -> Callable[[Sequence[float], Theta], Floats]: ...
    @property
    def between(self) -> Callable[[Sequence[float], Sequence[float], Theta], Floats]: ...
    @property
    def quantile(self) -> Callable[[Sequence[float], Theta], Floats]: ...


@dataclass(frozen=True, slots=True, eq=False)
class LawDraws:
    """The law of one column, in one group where there are groups, at K draws of its parameters."""

    column: str
    law: ColumnLaw
    theta: Theta
    rows: int
    unit: str = ""
    group: str = ""
    levels: tuple[str, ...] = ()  # of a column with levels
    recorded: Callable[[], tuple[Floats, str] | None] | None = None  # mean (K,) of cleaned records, and why it differs
    share: Callable[[Feature], Floats] | None = None  # P(condition) of a cleaned record, where releases say how
    part: Floats | None = None  # the share of all records that are in the group, where that is unknown
    _kept: dict[str, Floats] = field(default_factory=dict)

    # ---- numbers, one for each draw ----

    def mean(self) -> Floats:
        """The mean of the law; NaN or infinite at draws where it has none."""
        return self._moments()[0]

    def sd(self) -> Floats:
        """The standard deviation of one record."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(self._moments()[1])

    def median(self) -> Floats:
        """Half of the records lie below."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> Floats:
        """The value below which a share q of the records lies."""
        self._refuse_levels("quantile")
        return self._each(self.law.quantile([probability(q, "quantile")], self.theta)[:, 0])

    def share_above(self, x: float) -> Floats:
        """The share of records above x."""
        self._refuse_levels("share above a number")
        law = self.law
        return self._each(law.distribution.survival(np.array([_number(x)]), law.values(self.theta))[:, 0])

    def share_below(self, x: float) -> Floats:
        """The share of records below x; of whole numbers, those less than x."""
        self._refuse_levels("share below a number")
        return self._each(self.law.cdf([np.nextafter(_number(x), -np.inf)], self.theta)[:, 0])

    def share_between(self, low: float, high: float) -> Floats:
        """The share of records from low to high, both included."""
        self._refuse_levels("share between numbers")
        ends = np.nextafter(_number(low), -np.inf), _number(high)
        return self._each(self.law.between([ends[0]], [ends[1]], self.theta)[:, 0])

    def share_of(self, level: object) -> Floats:
        """The share of records with a level."""
        if str(level) not in self.levels:
            raise InvalidArgument(
                f"{shown(level)} is not a level of {self.column}{did_you_mean(level, self.levels)}; "
                + (
                    f"there are {', '.join(self.levels[:20])}." if self.levels else "it is a number, not one of levels."
                ),
                argument="level",
            )
        at = np.array([float(self.levels.index(str(level)))])
        return self._each(np.exp(self.law.distribution.log_density(at, self.law.values(self.theta)))[:, 0])

    def group_share(self) -> Floats:
        """The share of all records that are in this group."""
        if self.part is None:
            raise InvalidArgument(
                "There are no shares here: groups have one where a column makes them, as in Grouped('region', ...). "
                "A level's share of its column is asked for as 'share of' and the level.",
                argument="quantity",
            )
        return self._each(self.part)

    def __getitem__(self, name: str) -> Floats:
        """A parameter by its name."""
        values = self.law.values(self.theta)
        if name not in values:
            raise InvalidArgument(
                f"{self.column or 'The population'} has no parameter {shown(name)}{did_you_mean(name, values)}; it has "
                f"{', '.join(values)}.",
                argument="parameter",
            )
        value = values[name]
        return self._each(value[:, 0]) if value.shape[-1:] == (1,) else value

    # ---- as answers ----

    @property
    def quantities(self) -> tuple[str, ...]:
        if self.levels:
            return tuple(OF + level for level in self.levels[:MOST_LEVELS])
        return MEAN, SD, MEDIAN

    def answers(self, asked: Asked) -> Iterable[Drawn]:
        """Mean, sd, median and what was asked beyond; of levels the share of each."""
        names = list(self.quantities)
        if not self.levels:
            names += [f"{QUANTILE}{q:g}" for q in asked.quantiles] + [f"{ABOVE}{x:g}" for x in asked.above]
        for name in names:
            yield self.drawn(name)
            if name == MEAN and (found := self._recorded()) is not None:
                yield found
        for condition in asked.conditions:
            if condition.columns() == {self.column}:
                yield self._condition(condition)

    def drawn(self, quantity: str) -> Drawn:
        """A number by its name, such as 'mean', 'quantile 0.9' or 'share above 100'."""
        simple = {MEAN: self.mean, SD: self.sd, MEDIAN: self.median}
        if quantity in simple:
            self._refuse_levels(quantity)
            return self._told(quantity, simple[quantity](), note=self._missing(quantity))
        if quantity == SHARE:
            return Drawn("share of records", self.group_share(), group=self.group, is_share=True)
        if quantity == RECORDED and (found := self._recorded()) is not None:
            return found
        for prefix, ask in ((QUANTILE, self.quantile), (ABOVE, self.share_above), (BELOW, self.share_below)):
            if quantity.startswith(prefix):
                values = ask(float(fraction(quantity.removeprefix(prefix), "quantity")))
                return self._told(quantity, values, is_share=prefix != QUANTILE)
        if quantity.startswith(OF):
            return self._told(quantity, self.share_of(quantity.removeprefix(OF)), is_share=True)
        known = [*self.quantities, *([] if self.levels else [f"{QUANTILE}0.9", f"{ABOVE}100", f"{BELOW}100"])]
        known += [] if self.part is None else [SHARE]
        raise InvalidArgument(
            f"There is no quantity {shown(quantity)}{did_you_mean(quantity, known)} of {self.column or 'this column'}; "
            f"there are {', '.join(known[:12])}.",
            argument="quantity",
        )

    def headlines(self) -> Sequence[Headline]:
        """Its mean; the median where it has none; of two levels the second one's share, of more the largest."""
        where = f" {self.column}" if self.column else ""
        if self.levels:
            shares = [self.drawn(name) for name in self.quantities]
            if len(shares) == 2:
                return (Headline(f"the share of{where} = {self.levels[1]}", shares[1]),)
            chosen = max(shares, key=lambda one: float(np.mean(one.values)))
            return (Headline(f"the commonest{where}", chosen, f"is {chosen.quantity.removeprefix(OF)}, with"),)
        mean = self.drawn(MEAN)
        if np.isfinite(mean.values).all():
            return (Headline(f"the mean{where}", mean),)
        return (Headline(f"the median{where}", self.drawn(MEDIAN)),)

    # ---- inner ----

    def _each(self, values: Floats) -> Floats:
        """One number for each draw, also where every parameter is known."""
        return np.array(np.broadcast_to(np.asarray(values, np.float64), (self.rows,)))

    def _moments(self) -> tuple[Floats, Floats]:
        if "mean" not in self._kept:
            mean, variance = self.law.distribution.moments(self.law.values(self.theta))
            for name, value in (("mean", mean), ("variance", variance)):
                flat = np.asarray(value, np.float64)
                self._kept[name] = self._each(flat[:, 0] if flat.ndim == 2 else flat)
        return self._kept["mean"], self._kept["variance"]

    def _told(self, quantity: str, values: Floats, *, note: str = "", is_share: bool = False) -> Drawn:
        unit = "" if is_share else self.unit
        return Drawn(quantity, values, unit, self.column, self.group, note, is_share=is_share)

    def _missing(self, quantity: str) -> str:
        """Why some draws have no mean or sd."""
        if quantity == MEDIAN:
            return ""
        values = self.mean() if quantity == MEAN else self.sd()
        lost = float(np.mean(~np.isfinite(values)))
        if not lost:
            return ""
        how = "has no" if quantity == MEAN else "has no finite"
        at = "" if lost == 1 else f" at {100 * lost:.2g} % of the draws"
        return f"A {self.law.distribution.name} law {how} {quantity}{at}; ask for its median and quantiles."

    def _recorded(self) -> Drawn | None:
        found = None if self.recorded is None or self.levels else self.recorded()
        return None if found is None else self._told(RECORDED, self._each(found[0]), note=found[1])

    def _condition(self, condition: Feature) -> Drawn:
        name = f"share with {condition}"
        if condition.operation == "between" and condition.arguments[0] == Feature("column", (self.column,)):
            low, high = condition.arguments[1:]
            self._refuse_levels("share between numbers")
            values = self._each(self.law.between([np.nextafter(low, -np.inf)], [high], self.theta)[:, 0])
            return self._told(name, values, is_share=True)
        if condition.operation == "equals":
            return self._told(name, self.share_of(condition.arguments[1]), is_share=True)
        if self.share is None:
            raise Unsupported(f"The share with {condition} needs a release, whose schema says what records are.")
        return self._told(name, self.share(condition), is_share=True, note=f"{name}: of records within the bounds.")

    def _refuse_levels(self, what: str) -> None:
        if self.levels:
            example = self.levels[1 % len(self.levels)]  # of no and yes the yes
            raise InvalidArgument(
                f"{self.column} has levels, which have no {what}; ask for 'share of {example}'.",
                argument="quantity",
            )


def probability(value: object, argument: str) -> float:
    """A number strictly between 0 and 1."""
    try:
        found = float(fraction(value, argument))
    except NoisewiseError:
        found = -1.0
    if not 0 < found < 1:
        raise InvalidArgument(
            f"{argument} = {shown(value)}: a quantile is asked for at a share between 0 and 1, such as 0.9.",
            argument=argument,
        )
    return found


def _number(value: object) -> float:
    return float(fraction(value, "threshold"))
