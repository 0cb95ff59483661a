"""The methods of a graphical model by name.

    posterior     Hamiltonian Monte Carlo on the potentials, privacy noise and sampling in the likelihood; `auto`
    map           empirical Bayes: the most probable potentials under a normal prior whose width is learnt
    naive         noisy tables projected to probabilities and taken for the truth, with a ridge (Bernstein 2020)
    collective    expectation-maximisation on the latent tables (Bernstein et al. 2017), stopped early
Each is one function of this room from a `Problem` to draws or a point; it is imported when asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from noisewise.errors import InvalidArgument
from noisewise.inference.methods import AUTO, Method, Methods, Option
from noisewise.printable import shown

__all__ = ["AUTOMATIC", "METHODS", "GraphicalMethod", "method_named", "positive_option"]

AUTOMATIC = "posterior"


@dataclass(frozen=True, slots=True)
class GraphicalMethod(Method):
    """What a method of a graphical model is worth."""

    has_prior: bool = True  # that speaks for what no release counts


def _sampler() -> Callable[..., Any]:
    from noisewise.graphical.sampler import sample

    return sample


def _empirical_bayes() -> Callable[..., Any]:
    from noisewise.graphical.matrix_free import estimate

    return estimate


def _naive() -> Callable[..., Any]:
    from noisewise.published.graphical.naive import fit

    return fit


def _collective() -> Callable[..., Any]:
    from noisewise.published.graphical.collective import fit

    return fit


# A method reads the values of its options itself: it is asked with them by others, too.
METHODS: Methods[GraphicalMethod] = Methods(
    "a graphical model",
    GraphicalMethod(AUTOMATIC, _sampler, "Hamiltonian Monte Carlo on the potentials"),
    GraphicalMethod(
        "map",
        _empirical_bayes,
        "the most probable potentials, the width of their prior learnt (empirical Bayes)",
        is_point=True,
    ),
    GraphicalMethod(
        "naive",
        _naive,
        "noisy tables projected to probabilities, taken for the truth",
        (Option("ridge"),),
        is_point=True,
        has_prior=False,
    ),
    GraphicalMethod(
        "collective",
        _collective,
        "expectation-maximisation on the latent tables, stopped early",
        (Option("steps"), Option("inference", "dual"), Option("damping", 0.1)),
        is_point=True,
        has_prior=False,
    ),
    instead=AUTOMATIC,
)


def method_named(name: str) -> GraphicalMethod:
    """The method of that name, or the one that "auto" takes."""
    return METHODS[AUTOMATIC if name == AUTO else name]


def positive_option(value: object, option: str, *, most: float = math.inf) -> float:
    """A finite number above 0 and at most `most`, or a sentence that names the option."""
    number, given = math.nan, shown(value, 40) if isinstance(value, bool) or not isinstance(value, Real) else ""
    if not given:
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        given = f"{number:g}"
    if not (0 < number <= most and math.isfinite(number)):
        end = "" if math.isinf(most) else f" and at most {most:g}"
        raise InvalidArgument(f"{option} = {given} must be a finite number above 0{end}.", argument=option)
    return number
