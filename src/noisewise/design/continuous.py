"""Continuous design: the best exponent, clamp, budget split or cells, found before any record is touched.

The choice among a few statistics (`choice`) extends to families of them:
    best_exponent    a in mean(|f|^a)
    best_clamp       [l, r] in a statistic of clip(x, l, r); the clipping is in the model, so it adds no bias
    best_weights     the split of the budget over the components of a vector
    best_cells       the thresholds of k-ary randomized response, and k
Each maximises the score of the Fisher information of the noisy release over a belief (a prior or a posterior), or at
given parameter values, and rounds the maximum to the simplest numbers that keep 99 % of the information. Published
comparisons stop at whole exponents a >= 1 (Alparslan & Yıldırım 2022, Example 2); a < 1 can tell many times more,
because the noise, of scale A^a, falls faster than the signal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from noisewise.design.family import Family, Member, one_column
from noisewise.design.optimum import Optimum
from noisewise.design.search import (
    Point,
    coordinate_maximum,
    line_maximum,
    round_digits,
    simple_fractions,
    simplex_maximum,
)
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction, integer
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Schema
from noisewise.statistics import Mean, Records, Statistic, Sum
from noisewise.statistics.additive import with_column
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature, as_feature, column

WHOLE = (1, 2, 3, 4)  # the exponents that published comparisons look at
FINEST = 10**6  # denominators of exponents and weights before rounding
LEVELS = (0.01, 0.05, 0.15, 0.27, 0.39, 0.5, 0.61, 0.73, 0.85, 0.95, 0.99)
NARROWEST = 1e-6  # clamp, as a share of the declared range
FARTHEST = 6.0  # log of a weight over its unit-range value
MOST_CELLS = 8
SHRINKS = (1.0, 0.6, 0.3)  # of equal probabilities towards the median, to start from


def best_exponent(
    feature: object,
    schema: Schema,
    population: object,
    *,
    guarantee: Guarantee,
    mechanism: str | None = None,
    low: object = "0.05",
    high: object = 4,
    at: object = None,
    score: object = None,
    likelihood: str = "auto",
    n: int | None = None,
    part: tuple[object, object] | None = None,
    tolerance: float = 0.01,
) -> Optimum:
    """The exponent a in [low, high] for which mean(|f|^a) tells most (the sum, where n is private).

    The baseline is a = 1; `.compared` has the whole exponents of the range.

    Parameters
    ----------
    feature
        f: a column, or a feature.
    schema, guarantee, mechanism, part
        As for `plan`.
    population
        A population with a prior for each unknown, or a posterior.
    low, high
        The range of a. Default "0.05" and 4.
    at
        Values of the unknowns, by name. Default None: averaged over draws.
    score
        One of `choose`'s. Default None: "gain" over the belief, "logdet" at given values.
    likelihood
        "auto" (default) or "clt".
    n
        The number of records, where that is private.
    tolerance
        The relative width at which the search ends. Default 0.01.

    Returns
    -------
    Optimum
        The best `values` and their `plan`, with the baseline beside it.

    Examples
    --------
    >>> schema = nw.Schema({"x": nw.Bounded(-10, 10)}, n=400, neighbours="change-one")
    >>> best = nw.best_exponent("x", schema, nw.Normal(mean=0, sd=stats.halfnorm(scale=3)), high=2,
    ...                         guarantee=nw.GaussianDP(1), at={"sd": [2]}, tolerance=0.2)
    >>> 0 < float(best.value) <= 2
    True
    """
    family = Family.of(
        population, schema=schema, guarantee=guarantee, mechanism=mechanism, at=at, score=score,
        likelihood=likelihood, n=n, part=part, tolerance=tolerance,
    )  # fmt: skip
    first, last = float(fraction(low, "low", positive=True)), float(fraction(high, "high", positive=True))
    if not first < last <= 64:
        raise InvalidArgument(f"low = {low!r} must be less than high = {high!r}, and high at most 64.", argument="low")
    base = as_feature(feature)
    if feature_range(base, schema)[0] < 0:
        base = abs(base)

    def raised(a: float | Fraction) -> Member:
        exact = Fraction(a).limit_denominator(FINEST)
        return (exact,), family.plan(family.total(base**exact))

    baseline = family.plan(family.total(base))
    family.objective.value(baseline)  # refuses what does not fit before anything is searched
    logs = np.linspace(math.log(first), math.log(last), 25).tolist()
    log_a = line_maximum(lambda v: family.objective.quick_level(raised(math.exp(v))[1]), logs)
    best = raised(math.exp(log_a))
    is_edge = min(log_a - logs[0], logs[-1] - log_a) < 1e-3
    return family.optimum(
        "exponent",
        (raised(a) for a in simple_fractions(math.exp(log_a), low=first, high=last)),
        best,
        baseline=baseline,
        compared=[raised(a)[1] for a in WHOLE if first <= a <= last],
        note=f"The maximum is at an end of the range from {low} to {high}." if is_edge else "",
    )


def best_clamp(
    statistic: Statistic,
    schema: Schema,
    population: object,
    *,
    guarantee: Guarantee,
    mechanism: str | None = None,
    side: str = "both",
    at: object = None,
    score: object = None,
    likelihood: str = "auto",
    n: int | None = None,
    part: tuple[object, object] | None = None,
    tolerance: float = 0.01,
) -> Optimum:
    """The interval [l, r] for which a statistic of clip(x, l, r) tells most, in place of one of x.

    The baseline is the statistic as given.

    Parameters
    ----------
    statistic
        Mean, Sum or Records (with noise) of features of one column x.
    schema, guarantee, mechanism, part
        As for `plan`.
    population
        A population with a prior for each unknown, or a posterior.
    side
        "both" (default), or "low" or "high" for the one end that may move from the declared bound.
    at
        Values of the unknowns, by name. Default None: averaged over draws.
    score
        One of `choose`'s. Default None: "gain" over the belief, "logdet" at given values.
    likelihood
        "auto" (default) or "clt".
    n
        The number of records, where that is private.
    tolerance
        The relative width at which the search ends. Default 0.01.

    Returns
    -------
    Optimum
        The best `values` and their `plan`, with the baseline beside it.

    Examples
    --------
    >>> schema = nw.Schema({"x": nw.Bounded(0, 1000)}, n=400, neighbours="change-one")
    >>> best = nw.best_clamp(nw.Mean("x"), schema, nw.Normal(mean=stats.norm(50, 10), sd=20), side="high",
    ...                      guarantee=nw.GaussianDP(1), at={"mean": [50]}, tolerance=0.1)
    >>> 50 < float(best.values[1]) < 200
    True
    """
    family = Family.of(
        population, schema=schema, guarantee=guarantee, mechanism=mechanism, at=at, score=score,
        likelihood=likelihood, n=n, part=part, tolerance=tolerance,
    )  # fmt: skip
    if side not in ("both", "low", "high"):
        raise InvalidArgument(f"side = {shown(side, 40)}: it is 'both', 'low' or 'high'.", argument="side")
    kind, features = _clampable(statistic)
    name = one_column(features, "best_clamp")
    bounds = schema.bounded(name)
    low, high = float(bounds.low), float(bounds.high)

    def clamped(left: float, right: float) -> Member:
        inside = column(name).clip(left, right)
        changed = [with_column(feature, name, inside) for feature in features]
        return (left, right), family.plan(kind(*changed))

    baseline = family.plan(statistic)
    family.objective.value(baseline)

    def level(ends: Point) -> float:
        is_interval = low <= ends[0] and ends[1] <= high and ends[1] - ends[0] > NARROWEST * (high - low)
        return family.objective.quick_level(clamped(*ends)[1]) if is_interval else -math.inf

    left, right = _best_interval(level, [low, *family.quantiles(column(name), LEVELS).tolist(), high], side)
    ends = family.rounded(level, (left, right), width=(right - left) / 10, fixed=(low, high))
    return family.optimum(
        "clamp",
        [clamped(*ends)],
        clamped(left, right),
        baseline=baseline,
    )


def best_weights(
    statistic: Statistic,
    schema: Schema,
    population: object,
    *,
    guarantee: Guarantee,
    mechanism: str | None = None,
    at: object = None,
    score: object = None,
    likelihood: str = "auto",
    n: int | None = None,
    part: tuple[object, object] | None = None,
    tolerance: float = 0.01,
) -> Optimum:
    """The weights of a Mean or Sum of several features, i.e. the split of the budget, that tell most.

    Only their ratios matter: the first stays at its unit-range value, and the others are round multiples of theirs.
    The baseline is unit-range weights. A score that adds up what is told about several parameters, such as "trace",
    can be largest where some of them are not told at all.

    Parameters
    ----------
    statistic, schema, guarantee, mechanism, part
        What would be released, as for `plan`, without its weights.
    population
        A population with a prior for each unknown, or a posterior.
    at
        Values of the unknowns, by name. Default None: averaged over draws.
    score
        One of `choose`'s. Default None: "gain" over the belief, "logdet" at given values.
    likelihood
        "auto" (default) or "clt".
    n
        The number of records, where that is private.
    tolerance
        The relative width at which the search ends. Default 0.01.

    Returns
    -------
    Optimum
        The best `values` and their `plan`, with the baseline beside it.

    Examples
    --------
    >>> schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
    >>> best = nw.best_weights(nw.Mean("x", nw.column("x") ** 2), schema,
    ...                        nw.Normal(mean=stats.norm(5, 1), sd=stats.halfnorm(scale=2)),
    ...                        guarantee=nw.GaussianDP(1), at={"mean": [5], "sd": [2]}, tolerance=0.1)
    >>> len(best.plan.weights)
    2
    """
    family = Family.of(
        population, schema=schema, guarantee=guarantee, mechanism=mechanism, at=at, score=score,
        likelihood=likelihood, n=n, part=part, tolerance=tolerance,
    )  # fmt: skip
    if not isinstance(statistic, Mean | Sum) or len(statistic.features) < 2:
        raise Unsupported(f"{statistic} has no budget to split; give Mean or Sum of two or more features.")
    baseline = family.plan(statistic)
    objective = family.objective
    objective.value(baseline)

    def weighted(multiples: tuple[Fraction, ...]) -> Member:
        weights = tuple(w * m for w, m in zip(baseline.weights, (Fraction(1), *multiples), strict=True))
        return weights, family.plan(statistic, weights)

    def at_logs(logs: Point) -> Member:
        return weighted(tuple(Fraction(math.exp(v)).limit_denominator(FINEST) for v in logs))

    def level(logs: Point, *, is_quick: bool = True) -> float:
        if max(map(abs, logs)) > FARTHEST:
            return -math.inf
        made = at_logs(logs)[1]
        return objective.quick_level(made) if is_quick else objective.level(objective.value(made))

    logs = _best_split(level, len(baseline.weights) - 1, is_polished=objective.is_approximated(baseline))
    is_edge = max(map(abs, logs)) > FARTHEST - 0.05
    return family.optimum(
        "weights",
        (weighted(multiples) for multiples in round_digits(tuple(map(math.exp, logs)))),
        at_logs(logs),
        baseline=baseline,
        note="The score grows as a component loses all its budget: leave that out, or ask for another score." * is_edge,
    )


def best_cells(
    feature: object,
    schema: Schema,
    population: object,
    *,
    guarantee: Guarantee,
    cells: int | None = None,
    at: object = None,
    score: object = None,
    n: int | None = None,
    part: tuple[object, object] | None = None,
    tolerance: float = 0.01,
) -> Optimum:
    """The thresholds for which answers by randomized response, Records(f, cells=[...]), tell most.

    The baseline is as many cells of equal probability (between the clamp's atoms).

    Parameters
    ----------
    feature
        f: a column, or a feature.
    schema, guarantee, part
        As for `plan`.
    population
        A population with a prior for each unknown, or a posterior.
    cells
        How many cells there are (2 to 8). Default None: the best number, tried upwards until two in a row fall behind;
        `.compared` has the others.
    at
        Values of the unknowns, by name. Default None: averaged over draws.
    score
        One of `choose`'s. Default None: "gain" over the belief, "logdet" at given values.
    n
        The number of records, where that is private.
    tolerance
        The relative width at which the search ends. Default 0.01.

    Returns
    -------
    Optimum
        The best `values` and their `plan`, with the baseline beside it.

    Examples
    --------
    >>> schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
    >>> best = nw.best_cells("x", schema, nw.Normal(mean=stats.norm(5, 1), sd=2), cells=2, guarantee=nw.PureDP(1),
    ...                      at={"mean": [5]}, tolerance=0.1)
    >>> 4 < float(best.value) < 6
    True
    """
    family = Family.of(
        population, schema=schema, guarantee=guarantee, mechanism="randomized-response", at=at, score=score,
        likelihood="auto", n=n, part=part, tolerance=tolerance,
    )  # fmt: skip
    base = as_feature(feature)
    one_column([base], "best_cells")
    low, high, _ = feature_range(base, schema)
    tried = range(2, MOST_CELLS + 1) if cells is None else [integer(cells, "cells", minimum=2, maximum=MOST_CELLS)]
    quantiles = family.quantiles(base, np.linspace(0, 1, 841).tolist()).tolist()
    inside = [q for q in quantiles if low < q < high]
    if len(set(inside)) < 2:
        inside = np.linspace(low, high, 17)[1:-1].tolist()

    def cut(edges: Point) -> Member:
        return edges, family.plan(Records(base, cells=edges))

    def level(edges: Point) -> float:
        is_increasing = all(a < b for a, b in itertools.pairwise((low, *edges, high)))
        return family.objective.quick_level(cut(edges)[1]) if is_increasing else -math.inf

    found: dict[int, tuple[Member, Member]] = {}  # by the number of cells: round thresholds, and the best ones
    scores: dict[int, float] = {}
    for k in tried:
        start = max((_equal_cells(inside, k, shrink) for shrink in SHRINKS), key=level)
        best = coordinate_maximum(level, start, (quantiles[0], quantiles[-1]))
        if level(best) == -math.inf:  # too few cells to tell the unknowns apart
            continue
        tidy, scores[k], _ = family.roundest(
            [cut(family.rounded(level, best, width=inside[-1] - inside[0]))], cut(best)
        )
        found[k] = tidy, cut(best)
        if len(scores) > 2 and max(scores.values()) > max(scores[k], scores.get(k - 1, math.inf)):
            break
    if not scores:
        raise family.untold()
    k = max(scores, key=lambda k: scores[k])
    return family.optimum(
        "cells",
        found[k][:1],
        found[k][1],
        baseline=cut(_equal_cells(inside, k, 1.0))[1],
        compared=[tidy[1] for other, (tidy, _) in found.items() if other != k],
    )


def _clampable(statistic: object) -> tuple[Callable[..., Statistic], tuple[Feature, ...]]:
    """What the statistic is made by, and the features it is made of."""
    if isinstance(statistic, Records) and statistic.cells is None:
        return Records, (statistic.feature,)
    if isinstance(statistic, Mean | Sum):
        return type(statistic), statistic.features
    raise Unsupported(f"best_clamp takes Mean, Sum or Records of features of one column, not {statistic!s:.60}.")


def _best_interval(level: Callable[[Point], float], points: list[float], side: str) -> tuple[float, float]:
    """The best [left, right] between the first and the last point: a grid, then Nelder-Mead from its best."""
    grid = sorted(set(points))
    low, high = grid[0], grid[-1]
    if side == "low":
        return line_maximum(lambda left: level((left, high)), grid[:-1]), high
    if side == "high":
        return low, line_maximum(lambda right: level((low, right)), grid[1:])
    left, right = max(itertools.combinations(grid, 2), key=level)

    def ends_of(at: Point) -> tuple[float, float]:
        centre, half = at[0], math.exp(at[1]) / 2
        return max(low, centre - half), min(high, centre + half)

    width = right - left
    start, steps = ((left + right) / 2, math.log(width)), (width / 4, 0.4)
    return ends_of(simplex_maximum(lambda at: level(ends_of(at)), start, steps))


def _best_split(level: Callable[..., float], size: int, *, is_polished: bool) -> Point:
    """Log multiples of the unit-range weights; polished with the law that inference would use, one after another."""
    if size == 1:
        found: Point = (line_maximum(lambda v: level((v,)), np.linspace(-FARTHEST, FARTHEST, 25).tolist()),)
    else:
        found = simplex_maximum(level, (0.0,) * size, (0.7,) * size)
    for k in range(size if is_polished else 0):

        def moved(v: float, k: int = k, at: Point = found) -> Point:
            return (*at[:k], v, *at[k + 1 :])

        near = [min(max(found[k] + move, -FARTHEST), FARTHEST) for move in (-0.5, 0.0, 0.5)]
        found = moved(line_maximum(lambda v, to=moved: level(to(v), is_quick=False), near, accuracy=0.05))  # type: ignore[misc]
    return found


def _equal_cells(inside: list[float], k: int, shrink: float) -> Point:
    """k cells of equal probability, or with the thresholds' levels moved towards the median, to four digits.

    Where values repeat so often that two thresholds fall together, each value counts once.
    """
    levels = [0.5 + shrink * (j / k - 0.5) for j in range(1, k)]
    digits = 4 - math.floor(math.log10(inside[-1] - inside[0]))
    for values in (inside, sorted(set(inside))):
        found = np.interp(levels, np.linspace(0, 1, len(values)), values).tolist()
        for edges in (tuple(round(v, digits) for v in found), tuple(found)):
            if len(set(edges)) == len(edges):
                return edges
    return tuple(found)
