"""Mechanisms and where they are valid.

A mechanism turns a sensitivity and a guarantee into a noise law. The table below says which mechanism gives
which kind of guarantee to which statistics; anything else is refused with the table, because a mechanism
outside its row is not weaker privacy but none.

A mechanism that adds noise to numbers says by which norm they are measured, the noise scale of a sum of given
sensitivity, and the law at a scale. `register_mechanism` adds a row, and `admit` a guarantee to a row: before a
claim is believed, the exact divergence of the law is computed (`privacy.divergence`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch

from noisewise.errors import InvalidArgument, Unregistered, Unsupported
from noisewise.laws import AdditiveLaw, DiscreteGaussian, DiscreteLaplace, RoundedGaussian
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP

ADDITIVE = ("mean", "sum", "count", "truncated-sum", "histogram", "marginals", "moments", "smallest-eigenvalue")
COUNTS = ("count", "histogram", "marginals")
ORDER = ("median", "maximum", "minimum")
ADD_REMOVE = ("count", "sum", "truncated-sum", "histogram", "marginals", "moments", "smallest-eigenvalue")

Scales = tuple[float, ...]


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
    """One line of the table: its name, the guarantees it can give, the statistics it can serve, and its noise."""

    name: str
    guarantees: tuple[type[Guarantee], ...]
    statistics: tuple[str, ...]
    added: AddedNoise | None = None

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
    Mechanism("laplace", (PureDP,), (*ADDITIVE, "records"), LAPLACE),
    Mechanism("gaussian", (ZeroConcentratedDP, GaussianDP, ApproxDP), (*ADDITIVE, "records"), GAUSSIAN),
    Mechanism("geometric", (PureDP,), COUNTS, LAPLACE),
    Mechanism("randomized-response", (PureDP,), ("records",)),
    Mechanism("smooth-laplace", (ApproxDP,), ORDER),
    Mechanism("smooth-cauchy", (PureDP,), ORDER),
    Mechanism("exponential", (PureDP,), ("quantile",)),
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


def default_mechanism(kind: str, guarantee: Guarantee, *, is_categorical: bool) -> str:
    """The first mechanism of the table that serves this statistic under this guarantee."""
    if kind == "records" and is_categorical:
        return "randomized-response"
    for row in TABLE:
        if kind in row.statistics and row.gives(guarantee):
            return row.name
    raise Unsupported(f"No mechanism gives {kind} a guarantee of kind {guarantee.kind}.\n{validity_table()}")


def check_validity(mechanism: str, kind: str, guarantee: Guarantee, *, neighbours: str) -> None:
    """Refuse a mechanism outside its row of the table, with the table."""
    row = mechanism_named(mechanism)
    if kind not in row.statistics or not row.gives(guarantee):
        raise Unsupported(
            f"The mechanism {mechanism!r} does not give {kind} a guarantee of kind {guarantee.kind}. "
            f"Nothing was spent. It is valid only as in this table:\n{validity_table()}"
        )
    if neighbours == "add-remove" and kind not in ADD_REMOVE:
        raise Unsupported(
            f"{kind} needs neighbours='change-one': with a private number of records only "
            f"{', '.join(ADD_REMOVE)} can be released. Nothing was spent."
        )


def validity_table() -> str:
    """The table as text."""
    lines = ["  mechanism            guarantee                                       statistics"]
    for row in TABLE:
        kinds = ", ".join(kind.__name__ for kind in row.guarantees)
        lines.append(f"  {row.name:<20} {kinds:<47} {', '.join(row.statistics)}")
    return "\n".join(lines)
