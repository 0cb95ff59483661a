"""Questions worth asking: a few hundred of each family, laid out by the quantiles of a population.

    clip     intervals by centre (a quantile) and half-width (in spreads of the population), within its support
    sign     one threshold at a quantile: binary randomized response
    cells    three to six cells about a quantile, evenly spaced: k-ary randomized response
For a discrete population intervals end on its values, and edges lie half-way between them. Where scipy adds up its cdf
from probabilities (zipf), only the values below `MOST_SUMMED` are asked about.
Randomized response is a pure guarantee's; under the other guarantees a clipped answer gets Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked, asked_cells, asked_clip, is_rising
from noisewise.online.clipped_steps import cumulative, first_value, is_summed
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Population
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee

__all__ = ["FAMILIES", "NARROWEST", "candidates", "checked_families", "quantiles"]

FAMILIES = ("clip", "sign", "cells")
THRESHOLDS = np.array([0.01, 0.02, 0.035, 0.055, 0.08, 0.11, 0.15, 0.2, 0.25, 0.31, 0.37, 0.43])
CENTRES = np.array([0.03, 0.07, 0.13, 0.2, 0.3, 0.4])
HALF_WIDTHS = np.array([0.035, 0.07, 0.12, 0.22, 0.4, 0.55, 0.73, 0.95, 1.22, 1.6, 2.1, 2.8])
SPACINGS = np.array([0.35, 0.55, 0.8, 1.1, 1.5])
CELLS = (3, 4, 5, 6)
MOST_VALUES = 40
MOST_SUMMED = 2000
JUST_ABOVE_0 = 1e-300
NARROWEST = 1e-12  # of a location: the finest scale that questions go down to
QuantileFunction = Callable[[Array], Array]


def checked_families(given: object, law: AnswerLaw, guarantee: Guarantee) -> tuple[str, ...]:
    """The families asked for, each valid under the guarantee and the population; "auto" is all that are."""
    is_pure = guarantee.pure_epsilon is not None
    valid = tuple(name for name in FAMILIES if (law.can_clip if name == "clip" else is_pure))
    if given == "auto":
        if not valid:
            raise Unsupported(
                f"No question about a {law.population.distribution.name} population keeps a guarantee of kind "
                f"{guarantee.kind}: it can be asked about cells only, under PureDP."
            )
        return valid
    names = checked_names((given,) if isinstance(given, str) else tuple(given))  # type: ignore[arg-type]
    for name in names:
        if name not in valid:
            reason = "needs PureDP" if not is_pure and name != "clip" else "has no exact law under this population"
            raise Unsupported(f"queries={name!r} {reason}; use {' or '.join(valid) or 'another population'}.")
    return names


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of families; a sentence where one is none."""
    listed = tuple(names)
    for name in listed:
        if name not in FAMILIES:
            raise InvalidArgument(
                f"queries = {shown(name)}: there are {', '.join(FAMILIES)}, 'auto', or a Query to be asked as it is.",
                argument="queries",
            )
    return listed


def candidates(family: str, guarantee: Guarantee, quantile: QuantileFunction, *, is_discrete: bool) -> list[Asked]:
    """The questions of one family about a population with the given quantiles."""
    upper, middle, lower = (float(v) for v in quantile(np.array([0.75, 0.5, 0.25])))
    spread = max((upper - lower) / 1.35, NARROWEST * abs(middle))
    make = {"clip": _intervals, "sign": _thresholds, "cells": _cells}[family]
    return make(guarantee, quantile, _values(quantile) if is_discrete else None, spread)


def _both_sides(shares: Array) -> Array:
    return np.concatenate([shares, [0.5], 1 - shares[::-1]])


def quantiles(population: Population, theta: Theta) -> QuantileFunction:
    """The quantiles at one theta; those of a cdf that is added up end at `MOST_SUMMED` values."""
    if not is_summed(population):
        return lambda u: np.ravel(population.quantile(u, theta))
    least = first_value(population, theta)
    values = np.asarray(least + np.arange(MOST_SUMMED), np.float64)
    below = cumulative(population, values, theta)[0]
    if not below[-1] >= 0.75:
        name = population.distribution.name
        raise Unsupported(
            f"scipy has no formula for the cdf of {name} and adds it up, and under this prior more than a quarter of "
            f"all values may lie above {values[-1]:.0f}: questions would take minutes. Use a prior with a "
            f"lighter tail, or one fixed question, such as "
            f"queries=Query.cells([{least + 0.5:g}, {least + 9.5:g}], guarantee=...)."
        )
    return lambda u: np.asarray(values[np.minimum(np.searchsorted(below, u), values.size - 1)])


def _values(quantile: QuantileFunction) -> Array:
    """The values of a discrete record that are worth a question: never one alone."""
    low, high = (float(v) for v in quantile(np.array([1e-3, 1 - 1e-3])))
    if not low < high:
        least, most = (float(v) for v in quantile(np.array([JUST_ABOVE_0, 1.0])))
        if not least < most:  # doubles see one value only: the others are on one of its sides
            least, most = low - 1, high + 1
        low, high = max(low - 1, least), min(high + 1, most)
    if high - low < MOST_VALUES:
        return np.arange(low, high + 1)
    return np.unique(np.round(np.linspace(low, high, MOST_VALUES)))


def _intervals(guarantee: Guarantee, quantile: QuantileFunction, values: Array | None, spread: float) -> list[Asked]:
    if values is not None and values.size < MOST_VALUES:
        some = values if values.size <= 12 else values[np.unique(np.linspace(0, values.size - 1, 12).astype(int))]
        return [asked_clip(float(a), float(b), guarantee) for i, a in enumerate(some) for b in some[i + 1 :]]
    least, most = (float(v) for v in quantile(np.array([0.0 if values is None else JUST_ABOVE_0, 1.0])))
    ends: dict[tuple[float, float], None] = {}
    for centre in quantile(_both_sides(CENTRES)):
        for half in HALF_WIDTHS * spread:
            low, high = float(centre - half), float(centre + half)
            low, high = (low, high) if values is None else (float(np.floor(low)), float(np.ceil(high)))
            ends[max(low, least), min(high, most)] = None
    return [asked_clip(low, high, guarantee) for low, high in ends if low < high]


def _thresholds(guarantee: Guarantee, quantile: QuantileFunction, values: Array | None, _: float) -> list[Asked]:
    edges = quantile(_both_sides(THRESHOLDS)) if values is None else values[1:] - 0.5
    return [asked_cells((float(edge),), guarantee) for edge in np.unique(edges)]


def _cells(guarantee: Guarantee, quantile: QuantileFunction, values: Array | None, spread: float) -> list[Asked]:
    rows: Iterable[Array] = (
        centre + gap * spread * (np.arange(cells - 1) - 0.5 * (cells - 2))
        for centre in quantile(_both_sides(CENTRES))
        for cells in CELLS
        for gap in SPACINGS
    )
    if values is None:
        kept = {tuple(float(edge) for edge in row) for row in rows}
    else:
        inside = values[1:] - 0.5
        kept = {tuple(float(e) for e in np.unique(np.round(row + 0.5) - 0.5)) for row in rows}
        kept = {tuple(e for e in row if inside[0] <= e <= inside[-1]) for row in kept}
    return [asked_cells(edges, guarantee) for edges in sorted(kept) if len(edges) >= 2 and is_rising(edges)]
