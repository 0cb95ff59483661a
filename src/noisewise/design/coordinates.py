"""The coordinates in which information is counted, derivatives in them, and the parameter values it is averaged over.

A scalar unknown is one coordinate. A simplex p_1 + .. + p_m = 1 has m - 1 free ones, p_1 .. p_{m-1}, with p_m moving
against each of them. Its derivative is taken through the share s = p_j/(p_j + p_m), which has room on both sides:
    d/dp_j = 1/(p_j + p_m) d/ds,      p_j = s (p_j + p_m),   p_m = (1 - s)(p_j + p_m).
Correlations of several columns are a coordinate each, moved as far as the matrix stays positive.
Where no parameter values are given, information is averaged over 64 quasi-random draws from the prior: a fixed
scrambled Sobol sequence through the quantile functions of independent priors, else plain draws with a fixed seed. The
seed belongs to the quadrature rule over the prior: the same plan always gets the same average.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.likelihood.differences import central_difference
from noisewise.models.protocol import Model, model_of
from noisewise.populations.correlation import smallest_eigenvalue
from noisewise.populations.parameters import UNIT, Array, Support, Theta
from noisewise.populations.population import AnyPopulation

PRIOR_DRAWS = 64


def coordinate_names(population: AnyPopulation | Model) -> tuple[str, ...]:
    """One name for each coordinate: the parameter, or p[0] .. p[m-2] of a simplex."""
    names = model_of(population).coordinates
    if not names:
        raise InvalidArgument(
            "Every parameter of this population is known, so a release can tell nothing about it. "
            "Give a prior for what is unknown.",
            argument="population",
        )
    return names


def coordinate_slopes(function: Callable[[Theta], Array], theta: Theta, supports: Mapping[str, Support]) -> Array:
    """d function / d coordinate, (K, P, ...), of a function of theta that gives (K, ...)."""
    slopes = []
    for name, support in supports.items():
        if support.size is None:
            slopes.append(central_difference(function, theta, name, support))
        else:
            slope = _simplex_slope if support.is_simplex else _entry_slope
            slopes.extend(slope(function, theta, name, j) for j in range(support.unknowns))
    return np.stack(slopes, axis=1)


def _simplex_slope(function: Callable[[Theta], Array], theta: Theta, name: str, j: int) -> Array:
    p = np.asarray(theta[name], dtype=float)
    pair = p[:, j] + p[:, -1]
    others = {other: value for other, value in theta.items() if other != name}

    def along(moved: Theta) -> Array:
        at = np.array(moved[name])
        share, total = np.asarray(moved["share"]), at[:, j] + at[:, -1]
        at[:, j], at[:, -1] = share * total, (1 - share) * total
        return function({**{other: moved[other] for other in others}, name: at})

    slope = central_difference(along, {**theta, "share": p[:, j] / pair}, "share", UNIT)
    return np.asarray(slope / pair.reshape(-1, *[1] * (slope.ndim - 1)))


def _entry_slope(function: Callable[[Theta], Array], theta: Theta, name: str, j: int) -> Array:
    """Along one correlation, the others held: no further than half of what keeps the matrix positive."""
    entries = np.asarray(theta[name], dtype=float)
    others = {other: value for other, value in theta.items() if other != name}
    room = 0.5 * smallest_eigenvalue(entries)

    def along(moved: Theta) -> Array:
        at = np.array(moved[name])
        at[:, j] += np.asarray(moved["share"]) * np.asarray(moved["room"])
        return function({**{other: moved[other] for other in others}, name: at})

    start = {**theta, "share": np.zeros(len(entries)), "room": room}
    slope = central_difference(along, start, "share", Support(-1.0, 1.0, step=1e-3))
    return np.asarray(slope / room.reshape(-1, *[1] * (slope.ndim - 1)))


def given_rows(population: AnyPopulation | Model, at: object) -> dict[str, Array]:
    """theta rows from numbers, or arrays of K numbers, by name; all of them where the parameter lives."""
    model = model_of(population)
    theta = model.theta_at(at)
    for name, support in model.supports.items():
        rows = np.asarray(theta[name])
        is_inside = np.all((rows > support.low) & (rows < support.high))
        if not is_inside or (support.is_simplex and np.any(np.abs(rows.sum(axis=-1) - 1) > 1e-9)):
            raise InvalidArgument(f"at[{name!r}] must lie in {support} (one value, or a list of them).", argument="at")
    return theta


def prior_rows(population: AnyPopulation | Model, count: int = PRIOR_DRAWS) -> dict[str, Array]:
    """Quasi-random draws of the unknown parameters from the prior, always the same ones."""
    return model_of(population).prior_rows(count)
