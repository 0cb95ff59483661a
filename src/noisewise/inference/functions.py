"""Any function of what was learnt, with its interval: posterior.quantity(lambda p: p.quantile(0.9) / p.quantile(0.1)).

The function is given `PopulationDraws`: everything by name, one number for each draw. It is asked for all draws at
once; a function that cannot do that (one with an `if` in it) is asked draw by draw, at no more than `MOST_SINGLE`
draws. What it gives for all at once is compared with what it gives for a few draws alone, so that a function which
mixes draws (one that takes their largest, say) is not taken at its word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.exact import integer
from noisewise.inference.answer_sources import AnswerSource, Drawn
from noisewise.inference.answers import Quantity, summarised
from noisewise.inference.intervals import checked_level
from noisewise.inference.law_draws import MEDIAN
from noisewise.printable import did_you_mean, shown
from noisewise.types import Floats, Theta

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

__all__ = ["PopulationDraws", "quantity"]

MOST_SINGLE, COMPARED, NEAR = 1000, 3, 1e-6
Sources = Callable[[Theta], tuple[AnswerSource, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class PopulationDraws:
    """What was learnt at K draws: a parameter, a column or a group by its name; of one column its numbers at once.

    p["mean"]  p["income.mean"]                  a parameter (K,)
    p["income"].quantile(0.9)  p["north"].mean() the law of a column, or of a group
    p.mean()  p.sd()  p.median()  p.quantile(q)  p.share_above(x)  p.share_below(x)      where there is one law
    """

    theta: Theta
    sources: tuple[AnswerSource, ...]

    def __getitem__(self, name: str | int) -> Floats | AnswerSource:
        """A parameter, or the law of a column or group."""
        name = str(name)  # levels may be numbers: 2019
        if name in self.theta:
            return np.asarray(self.theta[name])
        found = [one for one in self.sources if name in (one.group, one.column) and name]
        if len(found) == 1:
            return found[0]
        known = dict.fromkeys((*self.theta, *(one.group or one.column for one in self.sources if one.quantities)))
        raise InvalidArgument(
            f"There is no parameter, column or group {shown(name)}{did_you_mean(name, known)}; there are "
            f"{', '.join(list(known)[:20])}.",
            argument="name",
        )

    def mean(self) -> Floats:
        """The mean of the one law."""
        return self._only("mean")

    def sd(self) -> Floats:
        """Its standard deviation."""
        return self._only("sd")

    def median(self) -> Floats:
        """Its median."""
        return self._only("median")

    def quantile(self, q: float) -> Floats:
        """The value below which a share q of the records lies."""
        return self._only(f"quantile {q!r}")

    def share_above(self, x: float) -> Floats:
        """The share of records above x."""
        return self._only(f"share above {x!r}")

    def share_below(self, x: float) -> Floats:
        """The share of records below x."""
        return self._only(f"share below {x!r}")

    def _only(self, name: str) -> Floats:
        laws = [one for one in self.sources if MEDIAN in one.quantities]
        asked = name.split()[0]
        if not laws:
            raise InvalidArgument(
                f"There is no law of a number here, so no {asked}(); p[name] is a parameter, as posterior.draws has "
                "them.",
                argument="function",
            )
        if len(laws) > 1:
            there = ", ".join(one.group or one.column for one in laws[:20])
            raise InvalidArgument(f"Say of which: p[name].{asked}(), with {there}.", argument="function")
        return laws[0].drawn(name).values


def quantity(
    posterior: Posterior,
    function: Callable[[PopulationDraws], object],
    *,
    name: str = "quantity",
    unit: str = "",
    level: float = 0.9,
    draws: int = MOST_SINGLE,
) -> Quantity:
    """A function of the population at every draw, as a number with an interval."""
    if not callable(function):
        raise InvalidArgument(
            f"function is {shown(function)}; give a function of the population, as lambda p: p.quantile(0.9).",
            argument="function",
        )
    share, most = checked_level(level), integer(draws, "draws", minimum=1, maximum=10**6)
    theta = posterior.answer_theta()
    values = _at_once(posterior, function, theta)
    if values is None:
        values = _one_by_one(posterior, function, theta, most)
    lost = float(np.mean(~np.isfinite(values)))
    at = "any" if lost == 1 else f"{100 * lost:.2g} % of the"
    note = "" if not lost else f"The {name} is not a finite number at {at} draws."
    return summarised(posterior, Drawn(str(name), values, str(unit), note=note), share)


def _view(posterior: Posterior, theta: Theta) -> PopulationDraws:
    try:
        sources = posterior.model.answer_sources(theta, posterior.releases)
    except NoisewiseError:  # a model without laws of columns still has parameters
        sources = ()
    return PopulationDraws(theta, tuple(sources))


def _rows(theta: Theta, rows: Floats) -> dict[str, Floats]:
    return {name: np.asarray(value)[rows.astype(int)] for name, value in theta.items()}


def _at_once(posterior: Posterior, function: Callable[[PopulationDraws], object], theta: Theta) -> Floats | None:
    """Its values at all draws; None where it cannot give them, or where they are not those of the single draws."""
    count = len(next(iter(theta.values())))
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(function(_view(posterior, theta)), np.float64)
    except NoisewiseError:
        raise
    except Exception:  # whatever a stranger's function raises: it may do better with one draw
        return None
    if values.shape != (count,):
        return None
    some = np.unique(np.linspace(0, count - 1, COMPARED).round())
    alone = [_single(posterior, function, _rows(theta, np.array([k])), is_asked=False) for k in some]
    there = values[some.astype(int)]
    is_same = [
        one is None or np.isclose(one, now, rtol=NEAR, equal_nan=True) for one, now in zip(alone, there, strict=True)
    ]
    return values if all(is_same) else None


def _one_by_one(posterior: Posterior, function: Callable[[PopulationDraws], object], theta: Theta, most: int) -> Floats:
    count = len(next(iter(theta.values())))
    chosen = np.unique(np.linspace(0, count - 1, min(most, count)).round())
    found = [_single(posterior, function, _rows(theta, np.array([k])), is_asked=True) for k in chosen]
    return np.array(found, np.float64)


def _single(
    posterior: Posterior, function: Callable[[PopulationDraws], object], theta: Theta, *, is_asked: bool
) -> float | None:
    """Its value at one draw; a sentence for one that gives none, or None where nobody insists."""
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(function(_view(posterior, theta)), np.float64)
    except NoisewiseError:
        raise
    except Exception as error:
        if not is_asked:
            return None
        raise InvalidArgument(
            f"The function failed at one draw: {type(error).__name__}: {str(error)[:200]}", argument="function"
        ) from error
    if value.size != 1:
        if not is_asked:
            return None
        raise InvalidArgument(
            f"The function gave an array of shape {value.shape} for one draw; it must give one number.",
            argument="function",
        )
    return float(value.reshape(()))
