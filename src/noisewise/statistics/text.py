"""Statistics and features written as text, read by a whitelist parser.

    statistic("mean(abs(income)**0.5)")    statistic("histogram(income, [20, 40])")    statistic("moments([age], cost)")
    statistic("count((income > 50)*equals(region, 'north'))")                      statistic("mean(log(income + 1))")

The text is parsed to a syntax tree and walked; a node that is not on the list is refused. Nothing is ever evaluated
as code, so a release file or a spec from a stranger can be read safely.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.expressions import parsed
from noisewise.printable import did_you_mean, shown
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature, as_feature, column, constant
from noisewise.statistics.protocol import Statistic
from noisewise.statistics.registry import statistic_kind, statistic_names

LONGEST_TEXT = 100_000
_COMPARISONS = {"Gt()": operator.gt, "GtE()": operator.ge, "Lt()": operator.lt, "LtE()": operator.le}

FEATURES: Mapping[str, Callable[..., Feature]] = {
    "abs": lambda f: abs(as_feature(f)),
    "log": lambda f: as_feature(f).log(),
    "exp": lambda f: as_feature(f).exp(),
    "clip": lambda f, low, high: as_feature(f).clip(low, high),
    "between": lambda f, low, high: as_feature(f).between(low, high),
    "equals": lambda f, level: as_feature(f).equals(level),
    "column": lambda name: column(name),
}

# How each is written: what a wrong call is answered with.
EXAMPLES: Mapping[str, str] = {
    "mean": "mean(income) or mean(income, income**2)",
    "sum": "sum(income) or sum(income, income**2)",
    "count": "count(income > 50) or count(equals(region, 'north'))",
    "truncated_sum": "truncated_sum([income], income, 0, 120)",
    "histogram": "histogram(region) for a column with levels, histogram(age, [20, 40, 60]) for one with bounds",
    "marginals": "marginals([region, sex]) or marginals([region, sex], [sex, smoker])",
    "moments": "moments([age, income], cost) or moments('cost ~ age + smoker', family='linear')",
    "smallest_eigenvalue": "smallest_eigenvalue([age, income], shrink=2)",
    "median": "median(income)",
    "maximum": "maximum(income)",
    "minimum": "minimum(income)",
    "quantile": "quantile(income, 0.9)",
    "records": "records(income) or records(income, cells=[20, 40])",
    "abs": "abs(income)",
    "log": "log(income + 1)",
    "exp": "exp(income/100)",
    "clip": "clip(income, 0, 120)",
    "between": "between(income, 20, 40)",
    "equals": "equals(region, 'north')",
    "column": "column('net income')",
}

# What people ask for under other names.
INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        ("variance", "var", "std", "sd", "stdev", "stddev"),
        "write mean(x, x**2): both averages are released, and the spread is learned from them (Var = E[x^2] - E[x]^2)",
    ),
    **dict.fromkeys(
        ("proportion", "share", "fraction", "prevalence", "rate", "percentage"),
        "write mean(x > 50) or mean(equals(region, 'north')) for a share, count(...) for a number of people",
    ),
    **dict.fromkeys(("avg", "average", "expectation"), "write mean(x)"),
    **dict.fromkeys(("total",), "write sum(x)"),
    **dict.fromkeys(("max",), "write maximum(x)"),
    **dict.fromkeys(("min",), "write minimum(x)"),
    **dict.fromkeys(("sqrt",), "write x**0.5"),
    **dict.fromkeys(("ln",), "write log(x), the natural logarithm"),
    **dict.fromkeys(("log10", "log2", "log1p"), "write log(x), divided by a number for another base, log(x + 1)"),
    **dict.fromkeys(("pow", "square"), "write x**2"),
    **dict.fromkeys(("percentile",), "write quantile(x, 0.9)"),
    **dict.fromkeys(("crosstab", "contingency", "table"), "write marginals([a, b])"),
    **dict.fromkeys(
        ("covariance", "cov", "correlation", "corr", "regression", "ols"),
        "write moments([x], y), from which they are learned",
    ),
    **dict.fromkeys(("if", "where", "sumif", "countif"), "multiply by a condition, as in sum(x*(age > 65))"),
}


def statistic(text: str, schema: Schema | None = None) -> Statistic:
    """Read a statistic that is written as text, as spec files have it.

    Parameters
    ----------
    text
        Such as "mean(income, income**2)"; docs/spec-files.md has the language.
    schema
        The public facts; only formulas need them, as in "moments('cost ~ age + smoker')". Default None.

    Returns
    -------
    Statistic
        The same object that the constructors make.

    Examples
    --------
    >>> nw.statistic("mean(x, x**2)") == nw.Mean("x", nw.column("x") ** 2)
    True
    """
    read = _Reader(text, schema).read()
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


def is_new_in_format_2(statistic: Statistic) -> bool:
    """True where a statistic, or one of its features, is none that readers of release format 1 know."""
    plain: Mapping[str, Any] = statistic.to_dict()
    if "by" in plain or statistic.is_new_in_format_2:
        return True
    one = [plain[key] for key in ("feature", "condition", "response") if key in plain]
    texts = [*plain.get("features", ()), *one]
    # Most features have none of these words; the others are read, for a column's name may hold them, too.
    told = [str(text) for text in texts if any(word in str(text) for word in ("log(", "exp(", "between(", "<", ">"))]
    return any(feature_from_text(text).is_new_in_format_2 for text in told)


def _features(value: object) -> Any:
    if isinstance(value, str):
        return feature_from_text(value)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return [feature_from_text(entry) for entry in value]
    raise InvalidSpec(f"Features must be texts, not {shown(value)}.", where="statistic.features")


def _call(make: Callable[..., Any], positional: Any, named: Mapping[str, Any], where: str) -> Any:
    signature, example = inspect.signature(make), EXAMPLES.get(where, "it as the docs do")
    try:
        signature.bind(*positional, **named)
    except TypeError:
        unknown = sorted(set(named) - set(signature.parameters))
        wrong = (
            f"takes no {unknown[0]!r}{did_you_mean(unknown[0], signature.parameters)}" if unknown else "needs others"
        )
        raise InvalidSpec(f"{where} {wrong}; write {example}.", where=where) from None
    try:
        return make(*positional, **named)
    except NoisewiseError:
        raise
    except TypeError:
        raise InvalidSpec(f"{where} cannot take these values; write {example}.", where=where) from None


def _check_histogram(column: object, second: object) -> None:
    """The two ways in which people ask for another table."""
    if str(second).isdigit():
        raise InvalidSpec(
            f"histogram({column}, {shown(second)}): cells are given by their inner edges, never counted over the range "
            f"of the records: write histogram({column}, [20, 40, 60]) for four cells, or histogram({column}) where the "
            "column has levels.",
            where="histogram",
        )
    if isinstance(second, Feature):
        raise InvalidSpec(
            f"histogram takes one column; for a table of several write marginals([{column}, {second}]), and "
            f"marginals([{column}], [{second}]) for one table of each.",
            where="histogram",
        )


class _Reader:
    """Walks the syntax tree of one text; every node that may appear has a line here."""

    def __init__(self, text: object, schema: Schema | None = None) -> None:
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_TEXT:
            raise InvalidSpec(f"Expected a text such as 'mean(income)', not {shown(text)}.", where="statistic")
        self.text = text
        self.schema = schema

    def read(self) -> Any:
        try:
            return self.node(parsed(self.text))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            if isinstance(error, NoisewiseError):
                raise
            raise InvalidSpec(
                f"{_short(self.text)} cannot be read as a statistic: see its brackets, commas and quotes, as in "
                "'mean(income)' or \"count(equals(region, 'north'))\".",
                where=_short(self.text),
            ) from None

    def node(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return column(name)
            case ast.Constant(value=value) if value is not ...:
                return value
            case ast.List(elts=entries) | ast.Tuple(elts=entries):
                return [self.node(entry) for entry in entries]
            case ast.Dict(keys=keys, values=values):
                return {self.key(key): self.node(value) for key, value in zip(keys, values, strict=True)}
            case ast.Compare(left=left, ops=signs, comparators=others):
                return self.comparison([self.node(side) for side in (left, *others)], [*map(ast.dump, signs)], node)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                raise InvalidSpec(
                    f"{_short(self.text)}: conditions are numbers, 0 or 1. Write their product for 'and', as in "
                    "count((income > 50)*equals(region, 'north')), and mean(1 - equals(region, 'north')) for 'not'.",
                    where=_short(self.text),
                )
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
                "log",
                "exp",
            ):
                return self.call(name, [self.node(target), *(self.node(arg) for arg in args)], keywords, node)
        return self.refuse(node)

    def key(self, node: ast.expr | None) -> str:
        key = None if node is None else self.node(node)
        return str(key) if isinstance(key, str | Feature) else self.refuse(node)

    def negative(self, value: Any, node: ast.expr) -> Any:
        is_number = isinstance(value, Feature | int | float | Fraction) and value is not True and value is not False
        return -value if is_number else self.refuse(node)

    def comparison(self, sides: list[Any], signs: list[str], node: ast.expr) -> Any:
        """f > a, a < f, f > g, and a <= f < b; `==` is said in words."""
        if {"Eq()", "NotEq()"} & {*signs}:
            raise InvalidSpec(
                f"{ast.unparse(node):.80}: write equals(region, 'north') for a level, between(age, 65, 65) for a "
                "number, and mean(1 - equals(region, 'north')) for the share of all others.",
                where=_short(self.text),
            )
        if not {*signs} <= {*_COMPARISONS} or len(signs) > 2:
            return self.refuse(node)
        pairs = zip(signs, itertools.pairwise(sides), strict=True)
        try:
            found = [_COMPARISONS[sign](a, b) for sign, (a, b) in pairs]
        except TypeError:
            return self.refuse(node)
        if not all(isinstance(one, Feature) for one in found):
            return self.refuse(node)
        return found[0] if len(found) == 1 else self.window(found[0], found[1], node)

    def window(self, one: Feature, other: Feature, node: ast.expr) -> Any:
        """a <= f < b, made of its two comparisons."""
        low, high = max(one.arguments[1], other.arguments[1]), min(one.arguments[2], other.arguments[2])
        is_window = one.arguments[0] == other.arguments[0] and -math.inf < low <= high < math.inf
        return Feature("between", (one.arguments[0], low, high)) if is_window else self.refuse(node)

    def arithmetic(self, a: Any, operation: ast.operator, b: Any, node: ast.expr) -> Any:
        if any(isinstance(side, str | list | dict | bool | Statistic) or side is None for side in (a, b)):
            return self.refuse(node)
        is_feature = [isinstance(side, Feature) for side in (a, b)]
        if not any(is_feature):
            a = a if ast.dump(operation) == "Div()" else constant(a)
        match operation:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Pow() if not is_feature[1]:
                return a**b
            case ast.Div() if is_feature == [True, False]:
                return a / b
            case ast.Div() if all(isinstance(side, int) for side in (a, b)) and b != 0:
                return Fraction(a, b)
        return self.refuse(node)

    def call(self, name: str, args: list[Any], keywords: list[ast.keyword], node: ast.expr) -> Any:
        make = statistic_kind(name) or FEATURES.get(name)
        if make is None:
            known = [*statistic_names(), *FEATURES]
            way = INSTEAD.get(name.lower())
            hint = f": {way}" if way else f"{did_you_mean(name, known)}; there are {', '.join(known)}"
            raise InvalidSpec(f"There is no function {name!r} in {_short(self.text)}{hint}.", where=name)
        named = {keyword.arg: self.node(keyword.value) for keyword in keywords if keyword.arg is not None}
        if len(named) != len(keywords):
            return self.refuse(node)
        if name == "histogram":
            _check_histogram(*args[:2], *[None] * (2 - len(args)))
        if args and args[0] == str(args[0]) and name in statistic_names():
            return self.regressed(name, args, named)
        return _call(make, args, named, name)

    def regressed(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        """A statistic of a formula, moments('cost ~ age + smoker')."""
        kind = statistic_kind(name)
        if kind is None or "~" not in args[0]:
            return _call(kind or FEATURES[name], args, named, name)
        if self.schema is None:
            raise InvalidSpec(
                f"{_short(self.text)} holds a formula, which only a schema can read: statistic(text, schema).",
                where="moments",
            )
        return _call(kind.from_formula, [args[0], self.schema, *args[1:]], named, name)

    def refuse(self, node: ast.AST | None) -> Any:
        said = ast.unparse(node) if isinstance(node, ast.expr) else "this"
        raise InvalidSpec(
            f"{said:.80} is not part of the language of statistics, in {_short(self.text)}. Features are columns with "
            "+ - *, / and ** by a number, abs, log, exp, clip, between, equals and comparisons such as income > 50.",
            where=_short(self.text),
        )


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
