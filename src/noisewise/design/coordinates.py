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
from typing import Any

import numpy as np
from scipy.stats import qmc

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood.differences import central_difference
from noisewise.populations.parameters import LARGEST, UNIT, Array, Support, Theta
from noisewise.populations.population import AnyPopulation, Joint, Population

PRIOR_DRAWS = 64


def coordinate_names(population: AnyPopulation) -> tuple[str, ...]:
    """One name a coordinate: the parameter, or p[0] .. p[m-2] of a simplex."""
    if not hasattr(population, "supports") or not hasattr(population, "sample_prior"):
        raise InvalidArgument(
            f"population is a {type(population).__name__}; describe the records, as in "
            "Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)).",
            argument="population",
        )
    if hasattr(population, "posterior") and not hasattr(population, "information_engine"):
        raise Unsupported(
            f"The information of a release about a {type(population).__name__} is not computed. Compare the noise of "
            "its tables (plan.noise): from about five cliques on Gaussian noise is less than Laplace noise."
        )
    names: list[str] = []
    for name, support in population.supports.items():
        names.extend([name] if support.size is None else [f"{name}[{j}]" for j in range(support.size - 1)])
    if not names:
        raise InvalidArgument(
            "Every parameter of this population is known, so a release can tell nothing about it. "
            "Give a prior for what is unknown.",
            argument="population",
        )
    return tuple(names)


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


def given_rows(population: AnyPopulation, at: object) -> dict[str, Array]:
    """theta rows from numbers, or arrays of K numbers, by name."""
    if hasattr(population, "theta_at"):  # a model whose unknowns are more than those it is asked about
        return dict(population.theta_at(at))
    names = tuple(population.free)
    if not isinstance(at, Mapping) or set(at) != set(names):
        wanted = ", ".join(names)
        raise InvalidArgument(f"at= must give a number for each unknown parameter: {wanted}.", argument="at")
    rows = {name: _row(at[name], name, population.supports[name]) for name in names}
    count = max(len(row) for row in rows.values())
    if any(len(row) not in (1, count) for row in rows.values()):
        raise InvalidArgument("at= lists different numbers of values for its parameters.", argument="at")
    return {name: np.array(np.broadcast_to(row, (count, *row.shape[1:]))) for name, row in rows.items()}


def _row(given: object, name: str, support: Support) -> Array:
    try:
        value = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        value = np.array(np.nan)
    vector = support.size is not None
    rows = value.reshape(-1, support.size) if vector and value.size and value.size % support.size == 0 else (  # type: ignore[operator, arg-type]
        np.atleast_1d(value))  # fmt: skip
    inside = np.all(np.abs(rows) < LARGEST) and np.all((rows > support.low) & (rows < support.high))
    if isinstance(given, bool) or value.size == 0 or rows.ndim != 1 + vector or not inside or (
        vector and np.any(np.abs(rows.sum(axis=-1) - 1) > 1e-9)):  # fmt: skip
        raise InvalidArgument(f"at[{name!r}] must lie in {support} (one value, or a list of them).", argument="at")
    return np.asarray(rows)


def prior_rows(population: AnyPopulation, count: int = PRIOR_DRAWS) -> dict[str, Array]:
    """Quasi-random draws of the unknown parameters from the prior, always the same ones."""
    priors = _independent_priors(population)
    names = tuple(population.free)
    if priors is None or any(population.supports[name].size is not None for name in names):
        return dict(population.sample_prior(np.random.default_rng(0), count))
    points = qmc.Sobol(len(names), scramble=True, rng=np.random.default_rng(0)).random(count)
    return {name: np.asarray(priors[name].ppf(points[:, k]), dtype=float) for k, name in enumerate(names)}


def _independent_priors(population: AnyPopulation) -> Mapping[str, Any] | None:
    """One frozen distribution a parameter, where the prior is a product of such."""
    if isinstance(population, Population):
        return population.parameters.priors if population.parameters.joint is None else None
    if isinstance(population, Joint):
        parts = {column: _independent_priors(one) for column, one in population.columns.items()}
        return None if None in parts.values() else {
            f"{column}.{name}": prior for column, part in parts.items() for name, prior in (part or {}).items()
        }  # fmt: skip
    return None
