"""The coordinates in which information is counted, derivatives in them, and the parameter values it is averaged over.

A scalar unknown is one coordinate. A simplex p_1 + .. + p_m = 1 has m - 1 free ones, p_1 .. p_{m-1}, with p_m moving
against each of them. Its derivative is taken through the share s = p_j/(p_j + p_m), which has room on both sides:
    d/dp_j = 1/(p_j + p_m) d/ds,      p_j = s (p_j + p_m),   p_m = (1 - s)(p_j + p_m).
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
            slopes.extend(_simplex_slope(function, theta, name, j) for j in range(support.size - 1))
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


def given_rows(population: AnyPopulation | Model, at: object) -> dict[str, Array]:
    """theta rows from numbers, or arrays of K numbers, by name; all of them where the parameter lives."""
    model = model_of(population)
    theta = model.theta_at(at)
    for name, support in model.supports.items():
        rows = np.asarray(theta[name])
        is_inside = np.all((rows > support.low) & (rows < support.high))
        if not is_inside or (support.size is not None and np.any(np.abs(rows.sum(axis=-1) - 1) > 1e-9)):
            raise InvalidArgument(f"at[{name!r}] must lie in {support} (one value, or a list of them).", argument="at")
    return theta


def prior_rows(population: AnyPopulation | Model, count: int = PRIOR_DRAWS) -> dict[str, Array]:
    """Quasi-random draws of the unknown parameters from the prior, always the same ones."""
    return model_of(population).prior_rows(count)
