"""A population as it was written: the Python text that makes it again.

    >>> Normal(mean=stats.norm(50, 50), sd=2)
    Normal(mean=stats.norm(50, 50), sd=2)
Numbers are printed as people write them (2, not 2.0), priors as frozen scipy.stats distributions. A prior of another
package is shown by its own repr.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from noisewise.populations.distribution import Distribution
from noisewise.populations.parameters import offers

__all__ = ["value_text", "written"]

NAMES = {
    "normal": "Normal",
    "uniform": "Uniform",
    "bernoulli": "Bernoulli",
    "categorical": "Categorical",
    "poisson": "Poisson",
    "gamma": "Gamma",
    "lognormal": "LogNormal",
}


class Beliefs(Protocol):
    """Known numbers, priors, and a prior of several parameters together."""

    @property
    def known(self) -> Mapping[str, object]: ...
    @property
    def priors(self) -> Mapping[str, object]: ...
    @property
    def joint(self) -> tuple[tuple[str, ...], object] | None: ...


class OneColumn(Protocol):
    """A population of one column."""

    @property
    def distribution(self) -> Distribution: ...
    @property
    def parameters(self) -> Beliefs: ...
    @property
    def column(self) -> str | None: ...
    @property
    def given(self) -> tuple[str, ...]: ...
    @property
    def is_moved(self) -> bool: ...


def written(population: OneColumn) -> str:
    """The text of a population of one column."""
    law, parameters = population.distribution, population.parameters
    if law.name == "mixture":
        return str(law) if population.column is None else f"{law}.named({population.column!r})"
    values: Mapping[str, object] = {**parameters.known, **parameters.priors}
    named = {name: value_text(values[name]) for name in population.given if name in values}
    if parameters.joint is not None:
        named = {"prior": value_text(parameters.joint[1])}
    inside = ", ".join(f"{name}={value}" for name, value in named.items())
    if law.scipy_law is not None:
        base = f"stats.{law.name}"
        if law.standard:
            base += f"({', '.join(_number(value) for value in law.standard)})"
        head = "LocationScale" if population.is_moved else "Population"
        text = f"{head}({', '.join(part for part in (base, inside) if part)})"
    else:
        name = "Exponential" if law.name == "gamma" and "shape" not in law.domains else NAMES.get(law.name)
        text = f"{name}({inside})" if name else f"Population({law!r}, {inside})"
    return text if population.column is None else f"{text}.named({population.column!r})"


def value_text(value: object) -> str:
    """A number, a list of numbers, or a frozen prior as people write it."""
    if offers(value, "dist", "args", "kwds"):
        return _frozen(value)
    if offers(value, "rvs"):
        return _several(value)
    numbers = np.asarray(value, np.float64)
    return _number(numbers[0] if numbers.shape[:1] == (1,) else numbers)


def _frozen(prior: object) -> str:
    plain = vars(prior)
    numbers = [_number(value) for value in plain["args"]]
    numbers += [f"{name}={_number(value)}" for name, value in plain["kwds"].items()]
    return f"stats.{plain['dist'].name}({', '.join(numbers)})"


def _several(prior: object) -> str:
    """A prior of several numbers: dirichlet, normal_inverse_gamma; others by their own repr."""
    plain, name = vars(prior), type(prior).__name__.removesuffix("_frozen")
    if "alpha" in plain:
        return f"stats.{name}({_number(plain['alpha'])})"
    if "_shapes" in plain:
        return f"stats.{name}({', '.join(_number(value) for value in plain['_shapes'])})"
    return repr(prior)


def _number(value: object) -> str:
    """2 for 2.0, 0.5 for 0.5, [1, 1] for an array."""
    numbers = np.asarray(value)
    if numbers.ndim:
        return f"[{', '.join(_number(one) for one in numbers)}]"
    number = float(numbers)
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)
