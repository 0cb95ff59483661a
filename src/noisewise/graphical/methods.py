"""The methods of a graphical model by name.

    posterior     Hamiltonian Monte Carlo on the potentials, privacy noise and sampling in the likelihood; `auto`
    map           empirical Bayes: the most probable potentials under a normal prior whose width is learnt
    naive         noisy tables projected to probabilities and taken for the truth, with a ridge (Bernstein 2020)
    collective    expectation-maximisation on the latent tables (Bernstein et al. 2017), stopped early
Each is a module of this room with one function from a `Problem` to draws or a point; it is imported when asked for.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from noisewise.errors import InvalidArgument

__all__ = ["AUTOMATIC", "METHODS", "Method", "method_named", "positive_option"]

AUTOMATIC = "posterior"


@dataclass(frozen=True, slots=True)
class Method:
    """Where a method lives, what it is in words, and the options it takes."""

    module: str
    words: str
    function: str = "fit"
    options: tuple[str, ...] = ()
    has_prior: bool = True  # that speaks for what no release counts

    @property
    def run(self) -> Callable[..., Any]:
        module = importlib.import_module(f"noisewise.graphical.{self.module}")
        found: Callable[..., Any] = getattr(module, self.function)
        return found

    @property
    def is_point(self) -> bool:
        return self.function == "fit"


METHODS: Mapping[str, Method] = {
    "posterior": Method("sampler", "Hamiltonian Monte Carlo on the potentials", function="sample"),
    "map": Method("empirical_bayes", "the most probable potentials, the width of their prior learnt (empirical Bayes)"),
    "naive": Method(
        "naive", "noisy tables projected to probabilities, taken for the truth", options=("ridge",), has_prior=False
    ),
    "collective": Method(
        "collective",
        "expectation-maximisation on the latent tables, stopped early",
        options=("steps", "inference", "damping"),
        has_prior=False,
    ),
}


def method_named(name: object, options: Mapping[str, Any]) -> tuple[str, Method]:
    """The method of that name that takes these options, or a sentence that lists what there is."""
    wanted = AUTOMATIC if name == "auto" else name
    if not isinstance(wanted, str) or wanted not in METHODS:
        raise InvalidArgument(
            f"method = {name!r:.40}: for a graphical model there are auto, {', '.join(METHODS)}.", argument="method"
        )
    method = METHODS[wanted]
    if unknown := [option for option in options if option not in method.options]:
        there = f"it takes {', '.join(method.options)}" if method.options else "it takes none"
        raise InvalidArgument(f"{unknown[0]!r} is not an option of method={wanted!r}; {there}.", argument=unknown[0])
    return wanted, method


def positive_option(value: object, option: str, *, most: float = math.inf) -> float:
    """A finite number above 0 and at most `most`, or a sentence that names the option."""
    number, shown = math.nan, f"{value!r:.40}" if isinstance(value, bool) or not isinstance(value, Real) else ""
    if not shown:
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        shown = f"{number:g}"
    if not (0 < number <= most and math.isfinite(number)):
        end = "" if math.isinf(most) else f" and at most {most:g}"
        raise InvalidArgument(f"{option} = {shown} must be a finite number above 0{end}.", argument=option)
    return number
