"""What a guarantee is: exact numbers that add, a norm, and the noise a sum needs. Nothing here is a branch by kind.

A kind of guarantee is a frozen dataclass whose fields are `Fraction`s, its *parts*: they add up under composition, one
by one, and order the kind, one by one, so of two guarantees neither need be the smaller. One tenth spent ten times is
one. Kinds have no common scale: adding or comparing two of them is refused, and `.to(kind)` converts where a theorem
was registered (`register_conversion`), rounding up, against ourselves.

A kind says how its additive mechanism measures a record's move (`norm`: 1 or 2) and how much noise hides it
(`calibrate`). `register_guarantee` makes it known to files and specs; what belongs to another room is registered there,
and asking for it without a registration raises `Unregistered`, which names the piece:
    exact divergence    `privacy.divergence.one_way_loss`    checked before a mechanism may claim the kind
    mechanism           `privacy.mechanism.admit`            which noise gives it
    two records         `privacy.accounting.for_two_records` for accounts that change their neighbours
    under (epsilon, delta) limits   `privacy.accounting.shares`
    attacks             `audit.attack.proven_loss`
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import ClassVar, Self, TypeAlias, TypeVar, cast

from noisewise.errors import Incomparable, InvalidArgument, InvalidSpec, Unregistered
from noisewise.exact import fraction, integer, text
from noisewise.printable import shown

Number: TypeAlias = int | float | str | Fraction | Decimal
Parts: TypeAlias = tuple[Fraction, ...]


class Guarantee(ABC):
    """What a release promises the people in the data. A kind is a frozen dataclass whose fields are its parts."""

    __slots__ = ()
    kind: ClassVar[str]  # its name in files
    norm: ClassVar[int]  # by which norm its additive mechanism measures how far a record moves the sums: 1 or 2
    __match_args__: ClassVar[tuple[str, ...]]
    takes_delta: ClassVar[bool] = False  # whether a conversion to this kind needs a delta

    def __init__(self, *_numbers: Number) -> None:
        raise TypeError("Guarantee is what kinds have in common: use one of them, such as PureDP(1).")

    def __post_init__(self) -> None:
        for name in self.part_names():
            object.__setattr__(self, name, fraction(vars_of(self)[name], name, positive=True))

    # ---- its numbers ----

    @classmethod
    def part_names(cls) -> tuple[str, ...]:
        """What the parts are called, in their order."""
        return cls.__match_args__  # dataclasses keep the names of their fields there

    @property
    def parts(self) -> Parts:
        """The numbers that add up under composition."""
        return tuple(vars_of(self).values())

    @classmethod
    def from_parts(cls, *parts: Fraction) -> Self:
        """The guarantee with these parts."""
        return cls(*parts)

    def numbers(self) -> dict[str, Fraction]:
        """The exact numbers by the names people use for them, as files hold them."""
        return vars_of(self)

    @classmethod
    def number_names(cls) -> tuple[str, ...]:
        """The names under which people give the numbers, in a spec file for example."""
        return cls.part_names()

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, Number]) -> Self | None:
        """The guarantee with these numbers by name; None where the names are not those of `numbers()`."""
        return cls(**numbers) if set(numbers) == set(cls.number_names()) else None

    @property
    def pure_epsilon(self) -> Fraction | None:
        """The epsilon whose pure privacy keeps this guarantee, rounded down; None where ratios are not bounded."""
        return None

    @classmethod
    def beside(cls, epsilon: Fraction) -> Self:  # noqa: ARG003
        """The guarantee of this kind that stands beside epsilon, where mechanisms are tried at several levels."""
        raise _missing(cls, "beside", "member beside an epsilon: give it a classmethod `beside(epsilon)`")

    # ---- its noise ----

    def calibrate(self, sensitivity: Fraction) -> Fraction:
        """The scale of the noise on a sum that a record moves by at most `sensitivity` (by `norm`), never too small."""
        raise _missing(type(self), "calibrate", "noise scale: give it a method `calibrate(sensitivity)`")

    # ---- plain data and words ----

    def to_dict(self) -> dict[str, str]:
        """Plain data, read back unchanged by `guarantee_from_dict`."""
        return {"kind": self.kind} | {name: text(value) for name, value in self.numbers().items()}

    def __str__(self) -> str:
        return ", ".join(f"{name} = {readable(value)}" for name, value in self.numbers().items())

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_literal(value)}" for name, value in self.numbers().items())
        return f"{type(self).__name__}({inside})"

    # ---- addition and order ----

    def __add__(self, other: object) -> Self:
        """Both mechanisms run on the same records: the parts add."""
        if not isinstance(other, Guarantee):
            return NotImplemented
        return self.from_parts(*(a + b for a, b in zip(self.parts, self._same(other, "added to"), strict=True)))

    def times(self, count: int) -> Self:
        """The mechanism run `count` times on the same records."""
        count = integer(count, "count", minimum=1)
        return self.from_parts(*(count * part for part in self.parts))

    def __le__(self, other: object) -> bool:
        """At least as private as `other`: no part is larger."""
        if not isinstance(other, Guarantee):
            return NotImplemented
        return all(a <= b for a, b in zip(self.parts, self._same(other, "compared with"), strict=True))

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, Guarantee):
            return NotImplemented
        return all(a >= b for a, b in zip(self.parts, self._same(other, "compared with"), strict=True))

    def __lt__(self, other: object) -> bool:
        return NotImplemented if not isinstance(other, Guarantee) else self <= other and self.parts != other.parts

    def __gt__(self, other: object) -> bool:
        return NotImplemented if not isinstance(other, Guarantee) else self >= other and self.parts != other.parts

    def _same(self, other: Guarantee, act: str) -> Parts:
        if other.kind != self.kind:
            raise Incomparable(
                f"{self!r} cannot be {act} {other!r}: the two kinds have no common scale. "
                f"{_how_to_meet(type(self), type(other))} Nothing was spent.",
                left=self,
                right=other,
            )
        return other.parts

    # ---- conversion ----

    def to(self, kind: type[AnyKind], *, delta: Number | None = None) -> AnyKind:
        """This promise in the words of another kind, rounded up; `delta` belongs to conversions to ApproxDP.

        PureDP -> ZeroConcentratedDP (rho = epsilon^2/2) and -> ApproxDP (epsilon unchanged);
        ZeroConcentratedDP -> ApproxDP and GaussianDP -> ApproxDP at a given delta. Nothing else is known to hold
        tightly, and nothing else is offered, but for kinds that registered a conversion of their own.
        """
        if not (isinstance(kind, type) and kind in KINDS.values()):
            raise InvalidArgument(
                f"kind = {kind!r} cannot be used: expected one of {', '.join(k.__name__ for k in KINDS.values())}. "
                "Nothing was spent.",
                argument="kind",
            )
        if delta is not None and not kind.takes_delta:
            raise InvalidArgument(
                f"delta = {delta!r} cannot be used: {kind.__name__} has no delta; leave it out. Nothing was spent.",
                argument="delta",
            )
        if isinstance(self, kind) and delta is None:
            return self
        convert = CONVERSIONS.get((self.kind, kind.kind))
        if convert is None:
            raise Incomparable(
                f"{self!r} cannot be converted to {kind.__name__}. {_how_to_meet(type(self), kind)} Nothing was spent.",
                left=self,
                right=kind,
            )
        if kind.takes_delta and delta is None:
            raise InvalidArgument(
                f"delta = None cannot be used: converting {self!r} to {kind.__name__} needs a delta, a number between "
                "0 and 1 well below one over the number of records. Nothing was spent.",
                argument="delta",
            )
        return kind.from_parts(*convert(self, Fraction(0) if delta is None else probability(delta, "delta")))


AnyKind = TypeVar("AnyKind", bound=Guarantee)
Conversion: TypeAlias = Callable[[Guarantee, Fraction], Parts]

KINDS: dict[str, type[Guarantee]] = {}
CONVERSIONS: dict[tuple[str, str], Conversion] = {}


def register_guarantee(kind: type[AnyKind]) -> type[AnyKind]:
    """Make a kind known by its name, to files, specs and conversions. A decorator; its parts need no other place."""
    if kind.kind in KINDS:
        raise InvalidArgument(f"There is a guarantee {kind.kind!r} already.", argument="kind")
    if kind.norm not in (1, 2):
        raise InvalidArgument(f"norm = {kind.norm!r}: a record's move is measured by norm 1 or 2.", argument="norm")
    KINDS[kind.kind] = kind
    return kind


def register_conversion(
    source: type[AnyKind], kind: type[Guarantee], convert: Callable[[AnyKind, Fraction], Parts]
) -> None:
    """Let `source` be said in the words of `kind`: `convert(guarantee, delta)` gives its parts, rounded up.

    The delta is 0 where the kind has none. A conversion without one is a fixed price, which ledgers add.
    """
    CONVERSIONS[source.kind, kind.kind] = cast(Conversion, convert)


def checked_guarantee(value: object) -> Guarantee:
    """A guarantee of a registered kind, or a sentence that names the kinds."""
    if not isinstance(value, Guarantee):
        raise InvalidArgument(
            f"guarantee = {shown(value)}; use PureDP(epsilon), ApproxDP(epsilon, delta), ZeroConcentratedDP(rho) or "
            "GaussianDP(mu).",
            argument="guarantee",
        )
    if KINDS.get(value.kind) is not type(value):
        raise _missing(type(value), "guarantee", "name in files: register it with `register_guarantee`")
    return value


def guarantee_from_dict(plain: object) -> Guarantee:
    """The guarantee written by `to_dict`; its numbers must be text, so that they are exact."""
    if isinstance(plain, Mapping) and plain.get("kind") in tuple(KINDS):
        numbers = {name: value for name, value in plain.items() if name != "kind"}
        if all(isinstance(entry, str) for pair in numbers.items() for entry in pair):
            read = KINDS[plain["kind"]].from_numbers(numbers)
            if read is not None:
                return read
    raise InvalidArgument(
        f"guarantee = {_shortened(plain)} cannot be read: expected for example "
        '{"kind": "pure-dp", "epsilon": "1"} or {"kind": "approx-dp", "epsilon": "1", "delta": "1e-6"}. '
        "A kind of another package is read once it is registered there (`register_guarantee`).",
        argument="guarantee",
    )


def guarantee_from_spec(table: object) -> Guarantee:
    """The guarantee of a spec file: { epsilon }, { epsilon, delta }, { rho }, { mu }, or with its kind by name."""
    if isinstance(table, Mapping):
        numbers = {name: value for name, value in table.items() if name != "kind"}
        for kind in KINDS.values():
            if set(numbers) == set(kind.number_names()) and table.get("kind", kind.kind) == kind.kind:
                return kind(**numbers)
    raise InvalidSpec(
        f"guarantee = {_shortened(table)} cannot be read: expected one of "
        '{ epsilon = "1" }, { epsilon = "1", delta = "1e-6" }, { rho = "0.5" }, { mu = "1" }.',
        where="guarantee",
    )


def probability(value: object, argument: str) -> Fraction:
    """A number between 0 and 1, both left out."""
    exact = fraction(value, argument, positive=True)
    if exact >= 1:
        raise InvalidArgument(
            f"{argument} = {readable(exact)} cannot be used: expected a number below 1 (at 1 or more nothing is "
            "promised). Nothing was spent.",
            argument=argument,
        )
    return exact


def vars_of(guarantee: Guarantee) -> dict[str, Fraction]:
    """The parts by name."""
    return {name: getattr(guarantee, name) for name in guarantee.part_names()}


def readable(value: Fraction) -> str:
    """An exact number for a sentence: exact where that is short, else six digits, rounded up."""
    exact = _literal(value).strip("'")
    if len(exact) <= 16:
        return exact
    return format(Context(prec=6, rounding=ROUND_CEILING).divide(value.numerator, value.denominator), "g")


def _missing(kind: type[Guarantee], piece: str, what: str) -> Unregistered:
    return Unregistered(f"The guarantee {kind.__name__} has no {what}. Nothing was spent.", piece=piece)


def _how_to_meet(left: type[Guarantee], right: type[Guarantee]) -> str:
    """How two kinds can be said in the words of one."""
    for source, kind in ((left, right), (right, left)):
        if (source.kind, kind.kind) in CONVERSIONS:
            way = f"{_a(source)} becomes {_a(kind, 'a')} by {_by(kind)}"
            return f"{way}." if kind.takes_delta and source is left else f"{way}, never the other way."
    for kind in KINDS.values():
        if all((one.kind, kind.kind) in CONVERSIONS for one in (left, right)):
            return f"Both become {_a(kind, 'a')} by {_by(kind)}."
    return f"No conversion between them, {left.__name__}.to(...) or {right.__name__}.to(...), is registered."


def _a(kind: type[Guarantee], article: str = "A") -> str:
    return f"{article}{'n' if kind.__name__[0] in 'AEIOU' else ''} {kind.__name__}"


def _by(kind: type[Guarantee]) -> str:
    return f".to({kind.__name__}{', delta=...' if kind.takes_delta else ''})"


def _literal(value: Fraction) -> str:
    """An exact number as Python source that `fraction` reads back unchanged."""
    if value.denominator == 1 and value < 10**15:
        return str(value)
    return repr(float(value)) if Fraction(repr(float(value))) == value else repr(text(value))


def _shortened(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
