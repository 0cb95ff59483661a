"""Mechanisms and where they are valid.

A mechanism turns a sensitivity and a guarantee into a noise law. The table below says which mechanism gives
which kind of guarantee to which sorts of statistics; anything else is refused with the table (`statistics.validity`),
because a mechanism outside its row is not weaker privacy but none.

A mechanism that adds noise to numbers says by which norm they are measured, the noise scale of a sum of given
sensitivity, and the law at a scale. `register_mechanism` adds a row, and `admit` a guarantee to a row: before a
claim is believed, the exact divergence of the law is computed (`privacy.divergence`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import Protocol

from noisewise.errors import InvalidArgument, Unregistered, Unsupported
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
from noisewise.printable import shown
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

    def gives(self, guarantee: Guarantee) -> bool:
        """Whether the kind of this guarantee is among those it can give."""
        return guarantee.kind in {kind.kind for kind in self.guarantees}


def calibrated(sensitivity: Fraction, guarantee: Guarantee) -> Fraction:
    """The scale that the guarantee itself asks for."""
    return guarantee.calibrate(sensitivity)


def _laplace_law(scale: Scales, step: Scales, _guarantee: Guarantee) -> AdditiveLaw:
    return DiscreteLaplace(scale, step)


def _gaussian_law(scale: Scales, step: Scales, guarantee: Guarantee) -> AdditiveLaw:
    return gaussian_steps(guarantee)(scale, step)


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


@singledispatch
def gaussian_steps(guarantee: Guarantee) -> Callable[[Scales, Scales], AdditiveLaw]:
    """How Gaussian noise is brought onto whole steps so that this guarantee stands."""
    raise Unregistered(
        f"The guarantee {type(guarantee).__name__} does not say whether it stands under discrete or rounded Gaussian "
        "noise: register one with `noisewise.privacy.mechanism.gaussian_steps`. Nothing was spent.",
        piece="gaussian_steps",
    )


@gaussian_steps.register
def _(_guarantee: ZeroConcentratedDP) -> Callable[[Scales, Scales], AdditiveLaw]:
    """The discrete Gaussian is exact under zCDP."""
    return DiscreteGaussian


@gaussian_steps.register(GaussianDP)
@gaussian_steps.register(ApproxDP)
def _(_guarantee: Guarantee) -> Callable[[Scales, Scales], AdditiveLaw]:
    """A rounded continuous one is post-processing of the mechanism that keeps them."""
    return RoundedGaussian


LAPLACE = AddedNoise(PureDP.norm, calibrated, _laplace_law)
GAUSSIAN = AddedNoise(ZeroConcentratedDP.norm, calibrated, _gaussian_law)
TABLE = [
    Mechanism("laplace", (PureDP,), (*ADDITIVE, "answers"), LAPLACE),
    Mechanism("gaussian", (ZeroConcentratedDP, GaussianDP, ApproxDP), (*ADDITIVE, "answers"), GAUSSIAN),
    Mechanism("geometric", (PureDP,), COUNTS, LAPLACE),
    Mechanism("randomized-response", (PureDP,), ("answers",), ruled=_response),
    Mechanism("exponential", (PureDP,), ("quantile",), ruled=_exponential),
    Mechanism("smooth-laplace", (ApproxDP,), ("order", "quantile"), ruled=_smooth_laplace),
    Mechanism("smooth-cauchy", (PureDP,), ("order", "quantile"), ruled=_smooth_cauchy),
    Mechanism("finite", (PureDP,), ("count",)),
]


def mechanism_names() -> tuple[str, ...]:
    return tuple(row.name for row in TABLE)


def mechanism_named(name: object) -> Mechanism:
    """The row of the table with this name."""
    for row in TABLE:
        if row.name == name:
            return row
    raise InvalidArgument(f"mechanism = {shown(name)}; there are {', '.join(mechanism_names())}.", argument="mechanism")


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


def admit(kind: type[Guarantee], mechanism: str) -> None:
    """Let a mechanism that adds noise give a further kind of guarantee, once the exact divergence of its law is in it.

    The scale is what the guarantee's `calibrate` asks for, and its `norm` must be the mechanism's.
    """
    from noisewise.privacy.divergence import check_claims

    row = mechanism_named(mechanism)
    if kind in row.guarantees:
        raise InvalidArgument(f"The mechanism {mechanism!r} gives {kind.__name__} already.", argument="kind")
    if added_noise(mechanism).norm != kind.norm:
        raise Unsupported(
            f"The mechanism {mechanism!r} measures a record's move by norm {added_noise(mechanism).norm}, and "
            f"{kind.__name__} by norm {kind.norm}. Nothing was registered."
        )
    check_claims(replace(row, guarantees=(kind,)))
    TABLE[TABLE.index(row)] = replace(row, guarantees=(*row.guarantees, kind))
