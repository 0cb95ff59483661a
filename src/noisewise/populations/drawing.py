"""A function that draws records: called, checked, and tried before it is believed.

    draw(rng, theta, n)    n independent records at one theta, as a mapping from column to an array of n numbers

What it gives must be finite numbers, n for each column, a function of theta and of the state of `rng` alone. A refusal
says what it gave instead, and at which theta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.types import Floats

__all__ = ["Draw", "Point", "drawn", "tried"]

TRIED, FEW = 2048, 7  # records with which a function is tried

Point: TypeAlias = dict[str, Any]  # every parameter at one theta: a number, or an array of probabilities
Draw: TypeAlias = Callable[[np.random.Generator, Point, int], Mapping[str, ArrayLike]]


def drawn(draw: Draw, rng: np.random.Generator, point: Point, n: int) -> dict[str, Floats]:
    """What a function gives, as arrays of n finite numbers by column; told what is wrong with it else."""
    try:
        with np.errstate(all="ignore"):
            given = draw(rng, dict(point), n)
    except Exception as error:
        raise Unsupported(
            f"draw(rng, theta, n) failed at {_where(point)}: {type(error).__name__}: {error!s:.200}"
        ) from error
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) and name for name in given):
        raise Unsupported(
            f"draw(rng, theta, n) must return a mapping from column names to arrays of n numbers, as "
            f"{{'income': ...}}, not {type(given).__name__}."
        )
    found = {}
    for name, value in given.items():
        x = np.asarray(value)
        if x.shape != (n,):
            raise Unsupported(
                f"draw(rng, theta, n) gave an array of shape {x.shape} for {name!r} at n = {n}; it owes {n} records at "
                "once, as in rng.normal(theta['mean'], 1, n)."
            )
        if x.dtype.kind not in "fiub":
            raise Unsupported(
                f"draw(rng, theta, n) gave {x.dtype} for {name!r}: give numbers, levels by their index (0, 1, ...)."
            )
        if not np.isfinite(x).all():
            raise Unsupported(
                f"draw(rng, theta, n) gave values of {name!r} that are no finite numbers at {_where(point)}. Choose "
                "priors under which every record is one."
            )
        found[name] = x.astype(np.float64)
    return found


def tried(draw: Draw, points: Sequence[Point]) -> dict[str, Floats]:
    """Some of its records at each of these places; refused where they cannot be what a population draws."""
    try:
        first = [drawn(draw, np.random.default_rng(1), point, TRIED) for point in points]
        again = [drawn(draw, np.random.default_rng(1), point, TRIED) for point in points]
        other = [drawn(draw, np.random.default_rng(2), point, TRIED) for point in points]
        few = [drawn(draw, np.random.default_rng(1), points[0], n) for n in (1, FEW)]
    except Unsupported as error:
        raise InvalidArgument(str(error), argument="draw") from error
    if len({frozenset(made) for made in (*first, *few)}) > 1:
        raise InvalidArgument("draw gives other columns at another theta or n.", argument="draw")
    if not all(np.array_equal(one[name], two[name]) for one, two in zip(first, again, strict=True) for name in one):
        raise InvalidArgument(
            "draw gives other records from a generator in the same state: take all randomness from rng, and keep "
            "nothing between calls.",
            argument="draw",
        )
    if all(np.array_equal(one[name], two[name]) for one, two in zip(first, other, strict=True) for name in one):
        raise InvalidArgument(
            "draw gives the same records whatever rng is: take all randomness from rng, as in rng.normal(0, 1, n).",
            argument="draw",
        )
    for name in first[0]:
        alike = all(np.ptp(made[name]) == 0 for made in (*first, *other))
        if alike and any(one[name][0] != two[name][0] for one, two in zip(first, other, strict=True)):
            raise InvalidArgument(
                f"draw gives all records of one call the same {name!r}, and another one at the next call: they must be "
                "drawn independently of each other, as in rng.random(n) instead of rng.random().",
                argument="draw",
            )
    return {name: np.concatenate([made[name] for made in first]) for name in first[0]}


def _where(point: Point) -> str:
    return ", ".join(f"{name} = {np.array2string(np.asarray(value), precision=4)}" for name, value in point.items())
