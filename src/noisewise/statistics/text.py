"""Statistics and features written as text, read by a whitelist parser.

    statistic("mean(abs(income)**0.5)")    statistic("histogram(income, [20, 40])")    statistic("moments([age], cost)")

The text is parsed to a syntax tree and walked; a node that is not on the list is refused. Nothing is ever evaluated
as code, so a release file or a spec from a stranger can be read safely.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.expressions import parsed
from noisewise.printable import printable, shown
from noisewise.statistics.feature import Feature, as_feature, column, constant
from noisewise.statistics.protocol import Statistic
from noisewise.statistics.registry import statistic_kind, statistic_names

LONGEST_TEXT = 100_000

FEATURES: Mapping[str, Callable[..., Feature]] = {
    "abs": lambda f: abs(as_feature(f)),
    "clip": lambda f, low, high: as_feature(f).clip(low, high),
    "between": lambda f, low, high: as_feature(f).between(low, high),
    "equals": lambda f, level: as_feature(f).equals(level),
    "column": lambda name: column(name),
}


def statistic(text: str) -> Statistic:
    """Read a statistic such as 'mean(income, income**2)'."""
    read = _Reader(text).read()
    if not isinstance(read, Statistic):
        raise InvalidSpec(
            f"{_short(text)} is not a statistic; write one of {', '.join(statistic_names())} around it.",
            where=_short(text),
        )
    return read


def feature_from_text(text: str) -> Feature:
    """Read a feature such as 'abs(income)**0.5'."""
    read = _Reader(text).read()
    if not isinstance(read, Feature):
        raise InvalidSpec(f"{_short(text)} is not a feature.", where=_short(text))
    return read


def statistic_from_dict(data: Mapping[str, Any]) -> Statistic:
    """Read a statistic from its plain form in a release."""
    kind = data.get("kind")
    made = statistic_kind(kind.replace("-", "_")) if isinstance(kind, str) else None
    if made is None:
        raise InvalidSpec(f"There is no statistic of kind {shown(kind)}.", where="statistic.kind")
    arguments = {key: value for key, value in data.items() if key != "kind"}
    for key in ("features", "feature", "condition", "response"):
        if key in arguments:
            arguments[key] = _features(arguments[key])
    read: Statistic = _call(made.from_entries, [arguments], {}, "statistic")
    return read


def _features(value: object) -> Any:
    if isinstance(value, str):
        return feature_from_text(value)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return [feature_from_text(entry) for entry in value]
    raise InvalidSpec(f"Features must be texts, not {shown(value)}.", where="statistic.features")


def _call(make: Callable[..., Any], positional: Any, named: Mapping[str, Any], where: str) -> Any:
    try:
        return make(*positional, **named)
    except NoisewiseError:
        raise
    except TypeError as error:
        raise InvalidSpec(f"{where}: {printable(error)}.", where=where) from None


class _Reader:
    """Walks the syntax tree of one text; every node that may appear has a line here."""

    def __init__(self, text: object) -> None:
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_TEXT:
            raise InvalidSpec(f"Expected a text such as 'mean(income)', not {shown(text)}.", where="statistic")
        self.text = text

    def read(self) -> Any:
        try:
            return self.node(parsed(self.text))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            if isinstance(error, NoisewiseError):
                raise
            raise InvalidSpec(f"{_short(self.text)} cannot be read as a statistic.", where=_short(self.text)) from None

    def node(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return column(name)
            case ast.Constant(value=bool() | None | str() | int() | float()):
                return node.value
            case ast.List(elts=entries) | ast.Tuple(elts=entries):
                return [self.node(entry) for entry in entries]
            case ast.Dict(keys=keys, values=values):
                return {self.key(key): self.node(value) for key, value in zip(keys, values, strict=True)}
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.negative(self.node(operand), node)
            case ast.BinOp(left=left, op=operation, right=right):
                return self.arithmetic(self.node(left), operation, self.node(right), node)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                return self.call(name, [self.node(arg) for arg in args], keywords, node)
            case ast.Call(func=ast.Attribute(value=target, attr=name), args=args, keywords=keywords) if name in (
                "clip",
                "between",
                "equals",
            ):
                return self.call(name, [self.node(target), *(self.node(arg) for arg in args)], keywords, node)
        return self.refuse(node)

    def key(self, node: ast.expr | None) -> str:
        key = None if node is None else self.node(node)
        return str(key) if isinstance(key, str | Feature) else self.refuse(node)

    def negative(self, value: Any, node: ast.expr) -> Any:
        is_number = isinstance(value, Feature | int | float | Fraction) and not isinstance(value, bool)
        return -value if is_number else self.refuse(node)

    def arithmetic(self, a: Any, operation: ast.operator, b: Any, node: ast.expr) -> Any:
        if any(isinstance(side, str | list | dict | bool) or side is None for side in (a, b)):
            return self.refuse(node)
        if not isinstance(a, Feature) and not isinstance(b, Feature):
            a = constant(a) if not isinstance(operation, ast.Div) else a
        match operation:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Pow():
                return a**b if not isinstance(b, Feature) else self.refuse(node)
            case ast.Div() if isinstance(a, Feature) and not isinstance(b, Feature):
                return a / b
            case ast.Div() if isinstance(a, int) and isinstance(b, int) and b != 0:
                return Fraction(a, b)
        return self.refuse(node)

    def call(self, name: str, args: list[Any], keywords: list[ast.keyword], node: ast.expr) -> Any:
        make = statistic_kind(name) or FEATURES.get(name)
        if make is None:
            known = ", ".join([*statistic_names(), *FEATURES])
            raise InvalidSpec(f"There is no function {name!r} in {_short(self.text)}; there are {known}.", where=name)
        named = {keyword.arg: self.node(keyword.value) for keyword in keywords if keyword.arg is not None}
        if len(named) != len(keywords):
            return self.refuse(node)
        return _call(make, args, named, name)

    def refuse(self, node: ast.AST | None) -> Any:
        said = ast.unparse(node) if isinstance(node, ast.expr) else "this"
        raise InvalidSpec(
            f"{said:.80} is not part of the language of statistics, in {_short(self.text)}.", where=_short(self.text)
        )


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
