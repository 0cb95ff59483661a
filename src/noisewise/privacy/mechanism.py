"""Mechanisms and where they are valid.

A mechanism turns a sensitivity and a guarantee into a noise law. The table below says which mechanism gives
which kind of guarantee to which sorts of statistics; anything else is refused with the table (`statistics.validity`),
because a mechanism outside its row is not weaker privacy but none.

A mechanism that adds noise to numbers says by which norm they are measured, the noise scale of a sum of given
sensitivity, and the law at a scale. `register_mechanism` adds a row: before it is believed, the exact divergence of its
law is computed for every guarantee it claims (`privacy.divergence`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from noisewise.errors import InvalidArgument, Unregistered
from noisewise.laws import (
    AdditiveLaw,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialQuantile,
    Law,
    RoundedGaussian,
    SmoothCauchy,
    SmoothLaplace,
)
from noisewise.laws.finite import randomized_response
from noisewise.privacy.calibration import gaussian_sigma, laplace_scale
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from noisewise.privacy.smooth import cauchy_rule, laplace_rule

COUNTS = ("count", "table")  # sorts of statistics: see `statistics.protocol.Sort`
ADDITIVE = ("sums", *COUNTS)

Scales = tuple[float, ...]
Ruled = Callable[[Guarantee, float], Law]  # at a lattice step, or for a number of cells


class Released(Protocol):
    """What a mechanism asks of a statistic."""

    @property
    def kind(self) -> str: ...
    @property
    def sort(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AddedNoise:
    """How noise of a public scale is fitted to a sum.

    `norm` measures how far a record moves the weighted sums (1 or 2); `scale` is the noise scale of a sum that a record
    moves by at most `sensitivity`; `law` is the law with these scales and lattice steps. `is_for_vectors` claims that
    independent noise on several components, each at the scale of the joint sensitivity, keeps the guarantee.
    """

    norm: int
    scale: Callable[[Fraction, Guarantee], Fraction]
    law: Callable[[Scales, Scales, Guarantee], AdditiveLaw]
    is_for_vectors: bool = True


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One line of the table: its name, the guarantees it can give, the statistics it can serve, and its noise.

    Statistics are named by their sort (sums, count, table, order, quantile, answers), or one by its kind.
    """

    name: str
    guarantees: tuple[type[Guarantee], ...]
    statistics: tuple[str, ...]
    added: AddedNoise | None = None
    ruled: Ruled | None = None  # the law of a mechanism that adds no noise of a public scale

    def serves(self, statistic: Released) -> bool:
        """Whether a record can be hidden in this statistic by this mechanism."""
        return statistic.sort in self.statistics or statistic.kind in self.statistics


def _laplace(sensitivity: Fraction, guarantee: Guarantee) -> Fraction:
    assert isinstance(guarantee, PureDP)
    return laplace_scale(sensitivity=sensitivity, epsilon=guarantee.epsilon)


def _gaussian(sensitivity: Fraction, guarantee: Guarantee) -> Fraction:
    return Fraction(gaussian_sigma(sensitivity=sensitivity, guarantee=guarantee))


def _laplace_law(scale: Scales, step: Scales, _guarantee: Guarantee) -> AdditiveLaw:
    return DiscreteLaplace(scale, step)


def _gaussian_law(scale: Scales, step: Scales, guarantee: Guarantee) -> AdditiveLaw:
    """The discrete Gaussian is exact under zCDP; a rounded continuous one keeps the other two as they stand."""
    return (DiscreteGaussian if isinstance(guarantee, ZeroConcentratedDP) else RoundedGaussian)(scale, step)


def _response(guarantee: Guarantee, cells: float) -> Law:
    assert isinstance(guarantee, PureDP)
    return randomized_response(int(cells), guarantee.epsilon)


def _smooth_laplace(guarantee: Guarantee, step: float) -> Law:
    assert isinstance(guarantee, ApproxDP)
    return SmoothLaplace(*laplace_rule(guarantee), step)


def _smooth_cauchy(guarantee: Guarantee, step: float) -> Law:
    assert isinstance(guarantee, PureDP)
    return SmoothCauchy(*cauchy_rule(guarantee), step)


def _exponential(guarantee: Guarantee, step: float) -> Law:
    assert isinstance(guarantee, PureDP)
    return ExponentialQuantile(guarantee.epsilon, step)


LAPLACE = AddedNoise(1, _laplace, _laplace_law)
GAUSSIAN = AddedNoise(2, _gaussian, _gaussian_law)
TABLE = [
    Mechanism("laplace", (PureDP,), (*ADDITIVE, "answers"), LAPLACE),
    Mechanism("gaussian", (ZeroConcentratedDP, GaussianDP, ApproxDP), (*ADDITIVE, "answers"), GAUSSIAN),
    Mechanism("geometric", (PureDP,), COUNTS, LAPLACE),
    Mechanism("randomized-response", (PureDP,), ("answers",), ruled=_response),
    Mechanism("smooth-laplace", (ApproxDP,), ("order",), ruled=_smooth_laplace),
    Mechanism("smooth-cauchy", (PureDP,), ("order",), ruled=_smooth_cauchy),
    Mechanism("exponential", (PureDP,), ("quantile",), ruled=_exponential),
    Mechanism("finite", (PureDP,), ("count",)),
]


def mechanism_names() -> tuple[str, ...]:
    return tuple(row.name for row in TABLE)


def mechanism_named(name: object) -> Mechanism:
    """The row of the table with this name."""
    for row in TABLE:
        if row.name == name:
            return row
    raise InvalidArgument(f"mechanism = {name!r:.60}; there are {', '.join(mechanism_names())}.", argument="mechanism")


def added_noise(name: str) -> AddedNoise:
    """How the mechanism fits noise to a sum; mechanisms that add none are refused."""
    found = mechanism_named(name).added
    if found is None:
        raise Unregistered(f"The mechanism {name!r} adds no noise to numbers. Nothing was spent.", piece="added")
    return found


def ruled_law(name: str, guarantee: Guarantee, at: float) -> Law:
    """The law that the mechanism's rule gives at a lattice step, or for a number of cells."""
    found = mechanism_named(name).ruled
    if found is None:
        raise Unregistered(f"The mechanism {name!r} has no rule of its own. Nothing was spent.", piece="ruled")
    return found(guarantee, at)


def register_mechanism(mechanism: Mechanism) -> None:
    """Add a row to the table, once the exact divergence of its law is within every guarantee that it claims."""
    from noisewise.privacy.divergence import check_claims

    if mechanism.name in mechanism_names():
        raise InvalidArgument(f"There is a mechanism {mechanism.name!r} already.", argument="mechanism")
    check_claims(mechanism)
    TABLE.append(mechanism)
