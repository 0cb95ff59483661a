"""Guarantees: what a release promises the people in the data, as exact numbers.

Four kinds, for neighbouring data sets x, x' and any mechanism M:
    PureDP(epsilon)            P(M(x) in S) <= e^epsilon P(M(x') in S)
    ApproxDP(epsilon, delta)   P(M(x) in S) <= e^epsilon P(M(x') in S) + delta            (Dwork et al. 2006)
    ZeroConcentratedDP(rho)    Renyi divergence of order a at most rho a, for every a > 1 (Bun & Steinke 2016)
    GaussianDP(mu)             no easier to tell apart than N(0, 1) from N(mu, 1)         (Dong, Roth & Su 2022)

The numbers are `Fraction`s: one tenth spent ten times is one. Guarantees of one kind add (GaussianDP adds mu^2)
and are ordered componentwise, so of two ApproxDP neither need be the smaller. Kinds have no common scale: adding or
comparing two of them is refused, and `.to(kind)` converts where a theorem allows it, rounding up, against ourselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Self, TypeAlias, TypeVar

from noisewise.errors import Incomparable, InvalidArgument, InvalidSpec
from noisewise.exact import float_root_above, fraction, integer, text

Number: TypeAlias = int | float | str | Fraction | Decimal


class _Kind(ABC):
    """What the four kinds share: exact parts that add and are ordered one by one."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    @abstractmethod
    def parts(self) -> tuple[Fraction, ...]:
        """The numbers that add up under composition."""

    @classmethod
    @abstractmethod
    def from_parts(cls, *parts: Fraction) -> Self:
        """The guarantee with these parts."""

    @abstractmethod
    def _fields(self) -> dict[str, Fraction]:
        """The numbers by the names people use for them."""

    def to_dict(self) -> dict[str, str]:
        """Plain data, read back unchanged by `guarantee_from_dict`."""
        return {"kind": self.kind} | {name: text(value) for name, value in self._fields().items()}

    def __str__(self) -> str:
        return ", ".join(f"{name} = {_readable(value)}" for name, value in self._fields().items())

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_literal(value)}" for name, value in self._fields().items())
        return f"{type(self).__name__}({inside})"

    def __add__(self, other: object) -> Self:
        """Both mechanisms run on the same records: the parts add."""
        if not isinstance(other, _Kind):
            return NotImplemented
        return self.from_parts(*(a + b for a, b in zip(self.parts, self._same(other, "added to"), strict=True)))

    def times(self, count: int) -> Self:
        """The mechanism run `count` times on the same records."""
        count = integer(count, "count", minimum=1)
        return self.from_parts(*(count * part for part in self.parts))

    def __le__(self, other: object) -> bool:
        """At least as private as `other`: no part is larger."""
        if not isinstance(other, _Kind):
            return NotImplemented
        return all(a <= b for a, b in zip(self.parts, self._same(other, "compared with"), strict=True))

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, _Kind):
            return NotImplemented
        return all(a >= b for a, b in zip(self.parts, self._same(other, "compared with"), strict=True))

    def __lt__(self, other: object) -> bool:
        return NotImplemented if not isinstance(other, _Kind) else self <= other and self.parts != other.parts

    def __gt__(self, other: object) -> bool:
        return NotImplemented if not isinstance(other, _Kind) else self >= other and self.parts != other.parts

    def to(self, kind: type[AnyKind], *, delta: Number | None = None) -> AnyKind:
        """This promise in the words of another kind, rounded up; `delta` belongs to conversions to ApproxDP.

        PureDP -> ZeroConcentratedDP (rho = epsilon^2/2) and -> ApproxDP (epsilon unchanged);
        ZeroConcentratedDP -> ApproxDP and GaussianDP -> ApproxDP at a given delta. Nothing else is known to hold
        tightly, and nothing else is offered.
        """
        if not (isinstance(kind, type) and kind in KINDS.values()):
            raise InvalidArgument(
                f"kind = {kind!r} cannot be used: expected one of {', '.join(k.__name__ for k in KINDS.values())}. "
                "Nothing was spent.",
                argument="kind",
            )
        if delta is not None and kind is not ApproxDP:
            raise InvalidArgument(
                f"delta = {delta!r} cannot be used: {kind.__name__} has no delta; leave it out. Nothing was spent.",
                argument="delta",
            )
        return kind.from_parts(*_converted(self, kind, delta))

    def _same(self, other: _Kind, act: str) -> tuple[Fraction, ...]:
        if type(other) is not type(self):
            raise Incomparable(
                f"{self!r} cannot be {act} {other!r}: the two kinds have no common scale. "
                f"{_how_to_meet(type(self), type(other))} Nothing was spent.",
                left=self,
                right=other,
            )
        return other.parts


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(_Kind):
    """epsilon-differential privacy."""

    kind: ClassVar[str] = "pure-dp"
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", fraction(epsilon, "epsilon", positive=True))

    @property
    def parts(self) -> tuple[Fraction, ...]:
        return (self.epsilon,)

    @classmethod
    def from_parts(cls, *parts: Fraction) -> Self:
        return cls(*parts)

    def _fields(self) -> dict[str, Fraction]:
        return {"epsilon": self.epsilon}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(_Kind):
    """(epsilon, delta)-differential privacy, 0 < delta < 1."""

    kind: ClassVar[str] = "approx-dp"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", fraction(epsilon, "epsilon", positive=True))
        object.__setattr__(self, "delta", _probability(delta, "delta"))

    @property
    def parts(self) -> tuple[Fraction, ...]:
        return (self.epsilon, self.delta)

    @classmethod
    def from_parts(cls, *parts: Fraction) -> Self:
        return cls(*parts)

    def _fields(self) -> dict[str, Fraction]:
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ZeroConcentratedDP(_Kind):
    """rho-zero-concentrated differential privacy."""

    kind: ClassVar[str] = "zero-concentrated-dp"
    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", fraction(rho, "rho", positive=True))

    @property
    def parts(self) -> tuple[Fraction, ...]:
        return (self.rho,)

    @classmethod
    def from_parts(cls, *parts: Fraction) -> Self:
        return cls(*parts)

    def _fields(self) -> dict[str, Fraction]:
        return {"rho": self.rho}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class GaussianDP(_Kind):
    """mu-Gaussian differential privacy. What adds is mu^2, so that is what is kept, exactly."""

    kind: ClassVar[str] = "gaussian-dp"
    mu_squared: Fraction

    def __init__(self, mu: Number) -> None:
        object.__setattr__(self, "mu_squared", fraction(mu, "mu", positive=True) ** 2)

    @property
    def mu(self) -> Fraction | float:
        """The root of `mu_squared`: exact if it is rational, else the smallest float that is not below it."""
        root = _rational_root(self.mu_squared)
        return float_root_above(self.mu_squared) if root is None else root

    @property
    def parts(self) -> tuple[Fraction, ...]:
        return (self.mu_squared,)

    @classmethod
    def from_parts(cls, *parts: Fraction) -> Self:
        (mu_squared,) = parts
        value = cls.__new__(cls)
        object.__setattr__(value, "mu_squared", mu_squared)
        return value

    def _fields(self) -> dict[str, Fraction]:
        root = _rational_root(self.mu_squared)
        return {"mu_squared": self.mu_squared} if root is None else {"mu": root}

    def __str__(self) -> str:
        return f"mu = {_readable(_rational_root(self.mu_squared) or Fraction(self.mu))}"

    def __repr__(self) -> str:
        if _rational_root(self.mu_squared) is None:
            return f"GaussianDP.from_parts({self.mu_squared!r})"
        return _Kind.__repr__(self)


Guarantee: TypeAlias = PureDP | ApproxDP | ZeroConcentratedDP | GaussianDP


def checked_guarantee(value: object) -> Guarantee:
    """A guarantee, or a sentence that names the four kinds."""
    if not isinstance(value, Guarantee):
        raise InvalidArgument(
            f"guarantee = {value!r:.60}; use PureDP(epsilon), ApproxDP(epsilon, delta), ZeroConcentratedDP(rho) or "
            "GaussianDP(mu).",
            argument="guarantee",
        )
    return value


AnyKind = TypeVar("AnyKind", PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP)

KINDS: Mapping[str, type[PureDP] | type[ApproxDP] | type[ZeroConcentratedDP] | type[GaussianDP]] = {
    kind.kind: kind for kind in (PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP)
}

_READERS: Mapping[frozenset[str], Callable[..., Guarantee]] = {
    frozenset({"epsilon"}): PureDP,
    frozenset({"epsilon", "delta"}): ApproxDP,
    frozenset({"rho"}): ZeroConcentratedDP,
    frozenset({"mu"}): GaussianDP,
    frozenset({"mu_squared"}): lambda mu_squared: GaussianDP.from_parts(
        fraction(mu_squared, "mu_squared", positive=True)
    ),
}


def guarantee_from_dict(plain: object) -> Guarantee:
    """The guarantee written by `to_dict`; its numbers must be text, so that they are exact."""
    if isinstance(plain, Mapping) and plain.get("kind") in tuple(KINDS):
        numbers = {name: value for name, value in plain.items() if name != "kind"}
        read = _READERS.get(frozenset(numbers))
        if read is not None and all(isinstance(value, str) for value in numbers.values()):
            guarantee = read(**numbers)
            if guarantee.kind == plain["kind"]:
                return guarantee
    raise InvalidArgument(
        f"guarantee = {_shortened(plain)} cannot be read: expected for example "
        '{"kind": "pure-dp", "epsilon": "1"} or {"kind": "approx-dp", "epsilon": "1", "delta": "1e-6"}.',
        argument="guarantee",
    )


def guarantee_from_spec(table: object) -> Guarantee:
    """The guarantee of a spec file: { epsilon }, { epsilon, delta }, { rho } or { mu }."""
    if isinstance(table, Mapping) and "mu_squared" not in table:
        read = _READERS.get(frozenset(table))
        if read is not None:
            return read(**table)
    raise InvalidSpec(
        f"guarantee = {_shortened(table)} cannot be read: expected one of "
        '{ epsilon = "1" }, { epsilon = "1", delta = "1e-6" }, { rho = "0.5" }, { mu = "1" }.',
        where="guarantee",
    )


def _converted(source: _Kind, kind: type[_Kind], delta: Number | None) -> tuple[Fraction, ...]:
    """The parts of `source` in the words of `kind`."""
    from noisewise.privacy.accounting import gaussian_epsilon, zero_concentrated_epsilon

    if type(source) is kind and delta is None:
        return source.parts
    if kind is ZeroConcentratedDP and isinstance(source, PureDP):
        return (source.epsilon**2 / 2,)
    if kind is not ApproxDP:
        raise Incomparable(
            f"{source!r} cannot be converted to {kind.__name__}. {_how_to_meet(type(source), kind)} Nothing was spent.",
            left=source,
            right=kind,
        )
    if delta is None:
        raise InvalidArgument(
            f"delta = None cannot be used: converting {source!r} to ApproxDP needs a delta, a number between 0 and 1 "
            "well below one over the number of records. Nothing was spent.",
            argument="delta",
        )
    exact_delta = _probability(delta, "delta")
    if isinstance(source, ZeroConcentratedDP):
        return (zero_concentrated_epsilon(source.rho, exact_delta), exact_delta)
    if isinstance(source, GaussianDP):
        return (gaussian_epsilon(source.mu_squared, exact_delta), exact_delta)
    if isinstance(source, ApproxDP) and exact_delta < source.delta:
        raise Incomparable(
            f"{source!r} says nothing at the smaller delta = {_readable(exact_delta)}. "
            f"Ask for delta >= {_readable(source.delta)}. Nothing was spent.",
            left=source,
            right=kind,
        )
    return (source.parts[0], exact_delta)


def _how_to_meet(left: type[_Kind], right: type[_Kind]) -> str:
    if {left, right} == {PureDP, ZeroConcentratedDP}:
        return "A PureDP becomes a ZeroConcentratedDP by .to(ZeroConcentratedDP), never the other way."
    if ApproxDP in (left, right) and left is not ApproxDP:
        return f"A {left.__name__} becomes an ApproxDP by .to(ApproxDP, delta=...)."
    if ApproxDP in (left, right):
        return f"A {right.__name__} becomes an ApproxDP by .to(ApproxDP, delta=...), never the other way."
    return "Both become an ApproxDP by .to(ApproxDP, delta=...)."


def _probability(value: object, argument: str) -> Fraction:
    exact = fraction(value, argument, positive=True)
    if exact >= 1:
        raise InvalidArgument(
            f"{argument} = {_readable(exact)} cannot be used: expected a number below 1 (at 1 or more nothing is "
            "promised). Nothing was spent.",
            argument=argument,
        )
    return exact


def _rational_root(square: Fraction) -> Fraction | None:
    root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    return root if root * root == square else None


def _literal(value: Fraction) -> str:
    """An exact number as Python source that `fraction` reads back unchanged."""
    if value.denominator == 1 and value < 10**15:
        return str(value)
    return repr(float(value)) if Fraction(repr(float(value))) == value else repr(text(value))


def _readable(value: Fraction) -> str:
    """An exact number for a sentence: exact where that is short, else six digits, rounded up."""
    exact = _literal(value).strip("'")
    if len(exact) <= 16:
        return exact
    return format(Context(prec=6, rounding=ROUND_CEILING).divide(value.numerator, value.denominator), "g")


def _shortened(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
