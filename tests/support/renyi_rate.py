"""A kind of guarantee from outside the package, in the pieces a kind needs.

RenyiRate(rate): the Renyi divergence of order a is at most rate a/2, for every a > 1. It is 2 rho of zCDP, so Gaussian
noise of sigma = D/sqrt(rate) gives it, and rates add.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from noisewise import exact
from noisewise.laws import DiscreteGaussian
from noisewise.privacy import accounting, divergence, mechanism
from noisewise.privacy.guarantee import (
    CONVERSIONS,
    KINDS,
    ApproxDP,
    Guarantee,
    ZeroConcentratedDP,
    register_conversion,
    register_guarantee,
)


@dataclass(frozen=True, slots=True, repr=False, init=True)
class RenyiRate(Guarantee):
    """A bound on the Renyi divergence per order and half."""

    kind: ClassVar[str] = "renyi-rate"
    norm: ClassVar[int] = 2
    rate: Fraction

    @classmethod
    def beside(cls, epsilon: Fraction) -> RenyiRate:
        return cls(epsilon**2)

    def calibrate(self, sensitivity: Fraction) -> Fraction:
        return Fraction(exact.float_root_above(sensitivity**2 / self.rate))


def as_concentrated(guarantee: RenyiRate) -> ZeroConcentratedDP:
    return ZeroConcentratedDP(guarantee.rate / 2)


def register_kind() -> None:
    register_guarantee(RenyiRate)


def register_divergence() -> None:
    divergence.one_way_loss.register(
        RenyiRate, lambda guarantee, law, steps: divergence.one_way_loss(as_concentrated(guarantee), law, steps)
    )


def register_steps() -> None:
    mechanism.gaussian_steps.register(RenyiRate, lambda _: DiscreteGaussian)


def register_mechanism() -> None:
    mechanism.admit(RenyiRate, "gaussian")


def register_conversions() -> None:
    register_conversion(RenyiRate, ZeroConcentratedDP, lambda source, _: (source.rate / 2,))
    register_conversion(
        RenyiRate, ApproxDP, lambda source, delta: as_concentrated(source).to(ApproxDP, delta=delta).parts
    )
    accounting.shares.register(RenyiRate, lambda charge: accounting.Shares(rho=charge.rate / 2))


PIECES = (register_kind, register_divergence, register_steps, register_mechanism, register_conversions)
_DISPATCHED = (divergence.one_way_loss, mechanism.gaussian_steps, accounting.shares)


def without(piece) -> tuple:
    return tuple(one for one in PIECES if one is not piece)


def _forget(dispatched, kind: type) -> None:
    """Take a registration back: its default, which raises, answers again."""
    dispatched.register(kind, dispatched.registry[object])


@contextmanager
def registered(*pieces) -> Iterator[None]:
    """The pieces, in order, for as long as the block lasts."""
    kept = [(registry, registry.copy()) for registry in (KINDS, CONVERSIONS, mechanism.TABLE)]
    try:
        for register in pieces:
            register()
        yield
    finally:
        for registry, before in kept:
            registry.clear()
            registry.extend(before) if isinstance(registry, list) else registry.update(before)
        for dispatched in _DISPATCHED:
            _forget(dispatched, RenyiRate)
