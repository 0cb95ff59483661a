"""Features: the tiny closed language in which people say what is taken from one record.

A feature is a column combined with `+ - *`, `abs`, `** a`, `log`, `exp`, `clip`, `between`, comparisons and `equals`.
It is plain data: it prints as text that parses back, and it has as many meanings as there are *algebras* to fold it
with: numbers (NumPy), guaranteed enclosures (`enclosure.py`), or a database expression (`holder/evaluate.py`).
Because the language is closed, a feature knows its own range over the declared bounds; that range is where
every sensitivity starts.

Comparisons are windows that are open on one side: every engine computes doubles, so f > a holds exactly where
a+ <= f, a+ the next double after a. They need no meaning of their own in any algebra.
"""

from __future__ import annotations

import keyword
import math
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import SMALLEST, fraction
from noisewise.printable import shown
from noisewise.schema import Level, Schema, checked_level

DEEPEST_FEATURE = 100
DEEPEST_BUILT = 240  # of conditions, and of what statistics build around features as deep as may be given
Value = TypeVar("Value")
LARGEST_FEATURE = 4000  # nodes; keeps hostile release files from costing more than reading them


class Algebra(Protocol[Value]):
    """One meaning of the feature language; values are whatever the algebra computes with."""

    def column(self, name: str) -> Value: ...
    def constant(self, value: float) -> Value: ...
    def add(self, a: Value, b: Value) -> Value: ...
    def subtract(self, a: Value, b: Value) -> Value: ...
    def multiply(self, a: Value, b: Value) -> Value: ...
    def absolute(self, a: Value) -> Value: ...
    def power(self, a: Value, exponent: Fraction) -> Value: ...
    def logarithm(self, a: Value) -> Value: ...
    def exponential(self, a: Value) -> Value: ...
    def clip(self, a: Value, low: float, high: float) -> Value: ...
    def between(self, a: Value, low: float, high: float) -> Value: ...
    def equals(self, name: str, level: Level) -> Value: ...
    def shrunk(self, row: tuple[Value, ...], index: int, radius: float) -> Value: ...


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Feature:
    """One number taken from one record: an operation and its arguments.

    The features inside it, its hash, its size (nodes, shared ones repeating) and its depth are found once, from those
    of its arguments, and size and depth are bounded here: a walk over any feature, shared parts or not, is short.
    """

    operation: str
    arguments: tuple[Any, ...]
    inner: tuple[Feature, ...] = field(init=False)
    size: int = field(init=False)
    depth: int = field(init=False)
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        inner = tuple(argument for argument in self.arguments if isinstance(argument, Feature))
        size, depth = 1 + sum(part.size for part in inner), 1 + max((part.depth for part in inner), default=0)
        if size > LARGEST_FEATURE:
            raise InvalidArgument(
                f"A feature has more than {LARGEST_FEATURE} parts; simplify it, or split it over several features.",
                argument="feature",
            )
        if depth > DEEPEST_BUILT:
            raise InvalidArgument(
                f"A feature is more than {DEEPEST_BUILT} operations deep; write long sums as sums of bracketed sums.",
                argument="feature",
            )
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "_hash", hash((self.operation, self.arguments)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Feature):
            return NotImplemented
        return (self._hash, self.size, self.operation) == (other._hash, other.size, other.operation) and (
            self.arguments == other.arguments
        )

    def __reduce__(self) -> tuple[object, ...]:
        return Feature, (self.operation, self.arguments)  # hashes of texts differ between processes

    def __add__(self, other: object) -> Feature:
        return Feature("add", (self, as_feature(other)))

    def __radd__(self, other: object) -> Feature:
        return Feature("add", (as_feature(other), self))

    def __sub__(self, other: object) -> Feature:
        return Feature("subtract", (self, as_feature(other)))

    def __rsub__(self, other: object) -> Feature:
        return Feature("subtract", (as_feature(other), self))

    def __mul__(self, other: object) -> Feature:
        factor = as_feature(other)
        return self**2 if factor == self else Feature("multiply", (self, factor))

    def __rmul__(self, other: object) -> Feature:
        return Feature("multiply", (as_feature(other), self))

    def __truediv__(self, other: object) -> Feature:
        """f divided by a number, i.e. f times the double nearest to 1/number."""
        return self * (1 / fraction(other, "divisor", nonzero=True))

    def __neg__(self) -> Feature:
        return Feature("multiply", (constant(-1), self))

    def __abs__(self) -> Feature:
        return Feature("absolute", (self,))

    def __pow__(self, exponent: object) -> Feature:
        """`f ** a`, a > 0. Whole powers are products; a = 1/2 is a square root; others need f >= 0."""
        a = fraction(exponent, "exponent", positive=True)
        if a > 64:
            raise InvalidArgument(f"exponent = {exponent!r} is larger than 64.", argument="exponent")
        return self if a == 1 else Feature("power", (self, a))

    def log(self) -> Feature:
        """The natural logarithm of a feature that stays above 0 within the declared bounds."""
        return Feature("logarithm", (self,))

    def exp(self) -> Feature:
        """e to the power of a feature that stays between -575 and 575 within the declared bounds."""
        return Feature("exponential", (self,))

    def clip(self, low: object, high: object) -> Feature:
        """f moved into [low, high]; the likelihood knows about it, so it adds no bias."""
        ends = _ordered(low, high)
        if ends[0] == ends[1]:
            raise InvalidArgument(f"low = {low!r} must be less than high = {high!r}.", argument="low")
        return Feature("clip", (self, *ends))

    def between(self, low: object, high: object) -> Feature:
        """1 where low <= f <= high, else 0; `f.between(a, a)` asks whether f is a."""
        return Feature("between", (self, *_ordered(low, high)))

    def __gt__(self, other: object) -> Feature:
        """1 where f > other, else 0: the double after `other` and all above it."""
        inner, edge = self._compared(other)
        return Feature("between", (inner, _step(edge, math.inf), math.inf))

    def __ge__(self, other: object) -> Feature:
        """1 where f >= other, else 0."""
        inner, edge = self._compared(other)
        return Feature("between", (inner, edge, math.inf))

    def __lt__(self, other: object) -> Feature:
        """1 where f < other, else 0."""
        inner, edge = self._compared(other)
        return Feature("between", (inner, -math.inf, _step(edge, -math.inf)))

    def __le__(self, other: object) -> Feature:
        """1 where f <= other, else 0."""
        inner, edge = self._compared(other)
        return Feature("between", (inner, -math.inf, edge))

    def _compared(self, other: object) -> tuple[Feature, float]:
        """What is compared with which number: f with a number, or f - g with 0 (its sign is never lost to rounding)."""
        if isinstance(other, Feature):
            return self - other, 0.0
        if isinstance(other, str):
            raise InvalidArgument(
                f"{self!s:.60} cannot be compared with the text {shown(other)}: compare it with a number or with "
                "column('name'); whether a column has a level is column('name').equals(level).",
                argument="comparison",
            )
        return self, float(fraction(other, "comparison"))

    def equals(self, level: Level) -> Feature:
        """1 where a column with levels has this level, else 0."""
        if self.operation != "column":
            message = "equals(level) applies to a column, as in column('region').equals('north')."
            raise InvalidArgument(message, argument="equals")
        return Feature("equals", (self.arguments[0], checked_level(level, "level")))

    def nodes(self) -> Iterator[Feature]:
        """Every feature inside this one, itself included (shared ones repeat)."""
        pending = [self]
        while pending:
            feature = pending.pop()
            yield feature
            pending.extend(feature.inner)

    @property
    def is_condition(self) -> bool:
        """True where it is 0 or 1 for every record: intervals, levels, and products of them."""
        if self.operation == "multiply":
            return all(argument.is_condition for argument in self.arguments)
        return self.operation in ("between", "equals")

    def columns(self) -> frozenset[str]:
        """The names of the columns it reads."""
        return frozenset(node.arguments[0] for node in self.nodes() if node.operation in ("column", "equals"))

    @property
    def has_general_power(self) -> bool:
        """True where engines may differ in the last bit: a power that is neither whole nor 1/2, a log or an exp."""
        return any(
            node.operation in ("logarithm", "exponential")
            or (
                node.operation == "power" and node.arguments[1].denominator != 1 and node.arguments[1] != Fraction(1, 2)
            )
            for node in self.nodes()
        )

    @property
    def is_new_in_format_2(self) -> bool:
        """True where readers of release format 1 do not know an operation: log, exp, a comparison, between(f, a, a)."""
        return any(
            node.operation in ("logarithm", "exponential")
            or (node.operation == "between" and (node.arguments[1] == node.arguments[2] or _is_comparison(node)))
            for node in self.nodes()
        )

    def fold(self, algebra: Algebra[Value], memory: dict[Feature, Value] | None = None) -> Value:
        """The feature's value in an algebra; `memory` shares subexpressions between features."""
        known = {} if memory is None else memory
        if self not in known:
            values = tuple(
                argument.fold(algebra, known) if isinstance(argument, Feature) else argument
                for argument in self.arguments
            )
            if self.operation == "shrunk":
                index, radius = self.arguments[:2]
                known[self] = algebra.shrunk(values[2:], index, radius)
            else:
                known[self] = getattr(algebra, self.operation)(*values)
        return known[self]

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        """The feature on NumPy columns (levels as their index)."""
        return self.fold(NumPyAlgebra(columns, schema))

    def __str__(self) -> str:
        return _print(self)[0]

    def __repr__(self) -> str:
        return f"Feature({self})"

    def __bool__(self) -> bool:
        raise TypeError(
            "A feature has no truth value. Write a < f < b as f.between(a, b) or (f > a) * (f < b), `and` as *, and a "
            "condition on a column's level as f.equals(level)."
        )


def column(name: str) -> Feature:
    """The feature that is a column's own value; arithmetic and comparisons make others of it.

    Parameters
    ----------
    name
        The column's name in the schema.

    Returns
    -------
    Feature
        One number taken from one record. `+ - * / **`, `abs`, `.clip(low, high)`, `.between(low, high)`,
        `.equals(level)` and comparisons give features again; comparisons are 0 or 1.

    Examples
    --------
    >>> x = nw.column("income")
    >>> print(x.clip(0, 120) ** 2, (x > 50) * x, nw.column("region").equals("north"))
    clip(income, 0, 120)**2 (income > 50)*income equals(region, 'north')
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"column({shown(name)}): the name must be a text.", argument="name")
    return Feature("column", (name,))


def constant(value: object) -> Feature:
    return Feature("constant", (float(fraction(value, "constant")),))


def shrunk(row: tuple[Feature, ...], index: int, radius: float) -> Feature:
    """Entry `index` of a row shortened to norm `radius`, keeping its direction: v_i * min(1, R/|v|)."""
    return Feature("shrunk", (index, radius, *row))


def as_feature(value: object) -> Feature:
    """A feature as it is, a text as a column name, a number as a constant."""
    if isinstance(value, Feature):
        return value
    return column(value) if isinstance(value, str) else constant(value)


def column_name(column: object, user: str) -> str:
    """A column given by name or as a feature, as its name."""
    if isinstance(column, Feature) and column.operation == "column":
        return str(column.arguments[0])
    if not isinstance(column, str) or not column:
        raise InvalidArgument(f"{user} takes columns by name, not {shown(column)}.", argument="column")
    return column


class Operators:
    """The part of an algebra whose values carry their own operations: arrays and database expressions. Abstract."""

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def subtract(self, a: Any, b: Any) -> Any:
        return a - b

    def multiply(self, a: Any, b: Any) -> Any:
        return a * b

    def logarithm(self, a: Any) -> Any:
        return a.ln()

    def exponential(self, a: Any) -> Any:
        return a.exp()


class NumPyAlgebra(Operators):
    """Features as float64 arrays. Each operation is one rounding, as in a database."""

    def __init__(self, columns: Mapping[str, Any], schema: Schema) -> None:
        self.columns = columns
        self.schema = schema

    def column(self, name: str) -> Any:
        if name not in self.columns:
            raise InvalidArgument(f"There is no column {name!r}.", argument="columns")
        return np.asarray(self.columns[name], dtype=float)

    def constant(self, value: float) -> Any:
        return value

    def absolute(self, a: Any) -> Any:
        return np.abs(a)

    def power(self, a: Any, exponent: Fraction) -> Any:
        return power_by_products(
            a,
            exponent,
            root=lambda base: np.sqrt(np.maximum(base, 0.0)),
            general=lambda base, e: np.power(np.maximum(base, 0.0), e),
        )

    def logarithm(self, a: Any) -> Any:
        return np.log(a)

    def exponential(self, a: Any) -> Any:
        return np.exp(a)

    def clip(self, a: Any, low: float, high: float) -> Any:
        return np.minimum(np.maximum(a, low), high)

    def between(self, a: Any, low: float, high: float) -> Any:
        return ((a >= low) & (a <= high)).astype(float)

    def equals(self, name: str, level: Level) -> Any:
        return (self.column(name) == self.schema.levels(name).index(level)).astype(float)

    def shrunk(self, row: tuple[Any, ...], index: int, radius: float) -> Any:
        norm = np.sqrt(sum_in_order([v * v for v in row]))
        return row[index] * (radius / np.maximum(norm, radius))


def power_by_products(a: Any, exponent: Fraction, *, root: Any, general: Any) -> Any:
    """a**e with the same roundings in every engine: products for whole e, sqrt for 1/2, else the engine's power.

    Roots are taken of max(a, 0): a base that is never negative may still come out as -1 ulp.
    """
    if exponent.denominator == 1:
        result = a
        for _ in range(int(exponent) - 1):
            result = result * a
        return result
    return root(a) if exponent == Fraction(1, 2) else general(a, float(exponent))


def sum_in_order(terms: list[Any]) -> Any:
    """Left-to-right sum, so that two engines round alike."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _ordered(low: object, high: object) -> tuple[float, float]:
    bounds = float(fraction(low, "low")), float(fraction(high, "high"))
    if not bounds[0] <= bounds[1]:
        raise InvalidArgument(f"low = {low!r} must be less than high = {high!r}.", argument="low")
    return bounds


def _step(edge: float, towards: float) -> float:
    """The next double, so that a strict comparison becomes one that is not."""
    following = math.nextafter(edge, towards)
    if math.isinf(following):
        raise InvalidArgument(f"comparison = {edge!r}: nothing lies beyond it.", argument="comparison")
    return following


def _is_comparison(feature: Feature) -> bool:
    """True for a window that only comparisons make: open on one side, or beginning or ending next to 0."""
    return feature.operation == "between" and any(
        math.isinf(end) or 0 < abs(end) < SMALLEST for end in feature.arguments[1:]
    )


def number_text(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def _print(feature: Feature) -> tuple[str, int]:
    """Text and binding strength: -1 comparison, 0 sum, 1 product, 2 power, 3 atom."""
    arguments = feature.arguments
    match feature.operation:
        case "column":
            return (arguments[0] if _is_plain_name(arguments[0]) else f"column({arguments[0]!r})"), 3
        case "constant":
            return number_text(arguments[0]), (3 if arguments[0] >= 0 else 1)
        case "add" | "subtract":
            sign = " + " if feature.operation == "add" else " - "
            return _wrapped(arguments[0], 0) + sign + _wrapped(arguments[1], 1), 0
        case "multiply":
            return _wrapped(arguments[0], 1) + "*" + _wrapped(arguments[1], 2), 1
        case "power":
            a = arguments[1]
            shown = str(a) if a.denominator == 1 else f"({a})"
            return f"{_wrapped(arguments[0], 3)}**{shown}", 2
        case "absolute" | "logarithm" | "exponential":
            return f"{_WORDS[feature.operation]}({arguments[0]})", 3
        case "between" if _is_comparison(feature):
            low, high = (_compared_text(end, sign) for end, sign in zip(arguments[1:], "><", strict=True))
            inner = _wrapped(arguments[0], 0)
            if not high or not low:
                return f"{inner} {low or high}", -1
            sign, _, number = low.partition(" ")
            return f"{number} {sign.replace('>', '<')} {inner} {high}", -1
        case "clip" | "between":
            return f"{feature.operation}({arguments[0]}, {', '.join(map(number_text, arguments[1:]))})", 3
        case "equals":
            return f"equals({_print(column(arguments[0]))[0]}, {arguments[1]!r})", 3
    index, radius, *row = arguments
    return f"shrunk([{', '.join(map(str, row))}], {index}, {number_text(radius)})", 3


_WORDS = {"absolute": "abs", "logarithm": "log", "exponential": "exp"}


def _compared_text(end: float, sign: str) -> str:
    """Of `>= a` and `> b`, b the double before a, the shorter (both are the same condition); nothing without an end."""
    if math.isinf(end):
        return ""
    before = math.nextafter(end, -math.inf if sign == ">" else math.inf)
    return min(f"{sign}= {number_text(end)}", f"{sign} {number_text(before)}", key=len)


def _is_plain_name(name: str) -> bool:
    """True where a name reads back as itself in an expression."""
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def _wrapped(feature: Feature, strength: int) -> str:
    text, own = _print(feature)
    return text if own >= strength else f"({text})"
