"""The combinations that a regression's yes/no conditions can take, and its features within each of them.

`equals(smoker, 'yes')` and `between(age, 65, 120)` are 0 or 1, whatever is believed of the records: their law is a
table, never a normal one. Conditions on one column exclude each other as its levels do, and intervals of one number
as the real line makes them; every combination that can occur is a *configuration* c. Within a configuration each
feature is a number plus numbers of the record times constants,
    f_i = a_i(c) + sum_k D_ik(c) z_k,        z = what is left that is no condition: columns, their powers, products
so `1 - equals(...)`, `2*equals(...)`, products of conditions and interactions `equals(...)*age` are all covered.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from noisewise.errors import Unsupported
from noisewise.schema import Schema
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature, power_by_products
from noisewise.types import Floats

CONDITIONS = ("equals", "between")
MOST_CONFIGURATIONS = 256
ALIKE = 1e-9
# What a feature is within every configuration: an array (C,) for each number it is made of, None for the constant.
Parts = dict[Feature | None, Floats]


def has_conditions(feature: Feature) -> bool:
    """Whether a yes/no condition is part of the feature, so that no normal law can be its own."""
    return any(node.operation in CONDITIONS for node in feature.nodes())


def is_discrete(feature: Feature) -> bool:
    """Whether the feature is made of conditions and constants alone, so that it takes a few values only."""
    if feature.operation in CONDITIONS or feature.operation == "constant":
        return True
    inner = [argument for argument in feature.arguments if isinstance(argument, Feature)]
    return bool(inner) and all(map(is_discrete, inner))


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """f = constant(c) + coefficient(c) z for each of C configurations c, in the units of the columns."""

    conditions: tuple[Feature, ...]
    states: Floats  # (C, conditions): each of them 0 or 1
    numbers: tuple[Feature, ...]  # z
    constant: Floats  # (C, d)
    coefficient: Floats  # (C, d, k)

    @classmethod
    def of(cls, features: Sequence[Feature], schemas: Sequence[Schema]) -> Configurations:
        """Those of features under every holder's schema."""
        conditions = _conditions(features)
        columns = _variables(conditions, schemas)
        count = 1
        for _, each in columns:
            count *= len(each)
            if count > MOST_CONFIGURATIONS:
                raise Unsupported(
                    f"These features have more than {MOST_CONFIGURATIONS} combinations of yes/no conditions, which are "
                    "too many to be modelled one by one. Name fewer of them, or give covariates=GivenMoments(...), "
                    "their moments from a public sample."
                )
        rows = [np.concatenate([np.zeros(0), *row]) for row in itertools.product(*(each for _, each in columns))]
        states = np.array(rows, float).reshape(count, len(conditions))
        ordered = [condition for own, _ in columns for condition in own]
        known = {condition: states[:, j] for j, condition in enumerate(ordered)}
        parts = [_parts(feature, known, count) for feature in features]
        numbers = tuple(dict.fromkeys(key for part in parts for key in part if key is not None))
        zero = np.zeros(count)
        constant = np.stack([part.get(None, zero) for part in parts], axis=1)
        coefficient = np.zeros((count, len(parts), len(numbers)))
        for i, part in enumerate(parts):
            for k, number in enumerate(numbers):
                coefficient[:, i, k] = part.get(number, zero)
        return cls(tuple(ordered), states, numbers, constant, coefficient)

    @property
    def count(self) -> int:
        return len(self.states)

    def directions(self) -> Floats:
        """(C, r): what differs between configurations in the features, each column once, from -1/2 to 1/2.

        Columns that others and the constant already make up are left out.
        """
        columns = [*self.constant.T, *self.coefficient.reshape(self.count, -1).T]
        return _independent([_unit(column) for column in columns if np.ptp(column) > 0], self.count)

    def products(self) -> Floats:
        """(C, s): products of two directions that the directions and the constant do not already make up."""
        first = self.directions()
        pairs = itertools.combinations_with_replacement(range(first.shape[1]), 2)
        both = [first[:, i] * first[:, j] for i, j in pairs]
        return _independent([*first.T, *both], self.count)[:, first.shape[1] :]

    def dependences(self, *, intercept: bool) -> list[tuple[int, ...]]:
        """Every feature that is a linear combination of earlier ones (and of the constant), together with these."""
        found: list[tuple[int, ...]] = []
        columns = [self.vector(None)] if intercept else []
        indices = [-1] * len(columns)
        for i in range(self.constant.shape[1]):
            own = self.vector(i)
            if columns:
                made = np.stack(columns, axis=1)
                weights = np.linalg.lstsq(made, own, rcond=None)[0]
                if np.linalg.norm(own - made @ weights) <= ALIKE * np.linalg.norm(own):
                    sizes = np.abs(weights) * np.linalg.norm(made, axis=0)
                    used = [j for j, size in zip(indices, sizes, strict=True) if size > ALIKE * np.linalg.norm(own)]
                    found.append((*used, i))
                    continue
            columns.append(own)
            indices.append(i)
        return found

    def vector(self, feature: int | None) -> Floats:
        """A feature (None: the constant) as numbers (C (1 + k),): it is another function if these differ."""
        if feature is None:
            return np.concatenate([np.ones(self.count), np.zeros(self.count * len(self.numbers))])
        return np.concatenate([self.constant[:, feature], self.coefficient[:, feature].ravel()])

    def told_by_products(self, products: Sequence[tuple[int, ...]]) -> int:
        """The rank, beside the constant, of products of features: how many of their sums tell something of a record.

        A product is a polynomial in z within each combination. Factors are indices of features, -1 the constant.
        """
        polynomials = [self._product(factors) for factors in products]
        keys = dict.fromkeys(itertools.chain([()], *polynomials))
        zero = np.zeros(self.count)
        rows = [np.concatenate([one.get(key, zero) for key in keys]) for one in polynomials]
        constant = np.concatenate([np.ones(self.count) if key == () else zero for key in keys])
        matrix = np.stack([row / (np.linalg.norm(row) or 1.0) for row in (constant, *rows)])
        return int(np.linalg.matrix_rank(matrix, tol=ALIKE)) - 1

    def _product(self, factors: Sequence[int]) -> dict[tuple[int, ...], Floats]:
        """A product by its monomials in z, a number for each combination."""
        found: dict[tuple[int, ...], Floats] = {(): np.ones(self.count)}
        for i in factors:
            if i < 0:
                continue
            longer: dict[tuple[int, ...], Floats] = {}
            linear = [((), self.constant[:, i]), *(((k,), self.coefficient[:, i, k]) for k in range(len(self.numbers)))]
            for (key, value), (number, weight) in itertools.product(found.items(), linear):
                if weight.any():
                    together = tuple(sorted((*key, *number)))
                    longer[together] = longer.get(together, np.zeros(self.count)) + value * weight
            found = longer
        return found


def _unit(column: Floats) -> Floats:
    low, high = column.min(), column.max()
    return np.asarray((column - (low + high) / 2) / (high - low))


def _independent(columns: Sequence[Floats], count: int) -> Floats:
    """The columns that are no linear combination of the constant and earlier ones, as they are."""
    basis, kept = [np.full(count, count**-0.5)], []
    for column in columns:
        rest = column.copy()
        for _ in range(2):  # twice is enough (Kahan, Parlett)
            for unit in basis:
                rest -= (unit @ rest) * unit
        size = float(np.linalg.norm(rest))
        if size > 1e-9 * float(np.linalg.norm(column)):
            basis.append(rest / size)
            kept.append(column)
    return np.stack(kept, axis=1) if kept else np.zeros((count, 0))


def _conditions(features: Sequence[Feature]) -> list[Feature]:
    """Every condition that is not made of other conditions alone, once, in the order of reading."""
    found: dict[Feature, None] = {}

    def visit(feature: Feature) -> None:
        inner = [argument for argument in feature.arguments if isinstance(argument, Feature)]
        if feature.operation == "equals" or (feature.operation == "between" and not all(map(is_discrete, inner))):
            found[feature] = None
            return
        for argument in inner:
            visit(argument)

    for feature in features:
        visit(feature)
    return list(found)


def _variables(conditions: Sequence[Feature], schemas: Sequence[Schema]) -> list[tuple[list[Feature], list[Floats]]]:
    """Conditions about the same column or number together, with the combinations of them that can occur."""
    together: dict[object, list[Feature]] = {}
    for condition in conditions:
        together.setdefault((condition.operation, condition.arguments[0]), []).append(condition)
    return [
        (own, _levels(own, schemas) if own[0].operation == "equals" else _cells(own, schemas))
        for own in together.values()
    ]


def _levels(conditions: Sequence[Feature], schemas: Sequence[Schema]) -> list[Floats]:
    """None of the named levels, where the column has others, and each of them."""
    column = str(conditions[0].arguments[0])
    levels = {level for schema in schemas for level in schema.levels(column).levels}
    others = levels - {condition.arguments[1] for condition in conditions}
    none = [np.zeros(len(conditions))] if others else []
    return [*none, *np.eye(len(conditions))]


def _cells(conditions: Sequence[Feature], schemas: Sequence[Schema]) -> list[Floats]:
    """Which intervals hold a number, for every number within its range."""
    inner = conditions[0].arguments[0]
    ranges = [feature_range(inner, schema) for schema in schemas]
    low, high = min(each[0] for each in ranges), max(each[1] for each in ranges)
    ends = sorted({end for condition in conditions for end in condition.arguments[1:]} | {low, high})
    points = [end for end in (*ends, *((a + b) / 2 for a, b in itertools.pairwise(ends))) if low <= end <= high]
    states = {tuple(float(c.arguments[1] <= point <= c.arguments[2]) for c in conditions) for point in points}
    return [np.array(state) for state in sorted(states)]


def _parts(feature: Feature, known: Mapping[Feature, Floats], count: int) -> Parts:
    """The feature within each configuration."""
    if feature in known:
        return {None: known[feature]}
    arguments = feature.arguments
    match feature.operation:
        case "constant":
            return {None: np.full(count, float(arguments[0]))}
        case "column":
            return {feature: np.ones(count)}
        case "add" | "subtract":
            one, other = (_parts(argument, known, count) for argument in arguments)
            sign = 1.0 if feature.operation == "add" else -1.0
            keys = dict.fromkeys((*one, *other))
            zero = np.zeros(count)
            return {key: one.get(key, zero) + sign * other.get(key, zero) for key in keys}
        case "multiply":
            return _product(*(_parts(argument, known, count) for argument in arguments))
    return _bent(feature, known, count)


def _product(one: Parts, other: Parts) -> Parts:
    found: Parts = {}
    for (a, x), (b, y) in itertools.product(one.items(), other.items()):
        key = b if a is None else a if b is None else _times(a, b)
        found[key] = found[key] + x * y if key in found else x * y
    return found


def _times(a: Feature, b: Feature) -> Feature:
    """A product of two numbers as a number of its own, in one order."""
    first, second = sorted((a, b), key=str)
    return first**2 if first == second else first * second


def _bent(feature: Feature, known: Mapping[Feature, Floats], count: int) -> Parts:
    """Powers, clips, absolute values and conditions on conditions."""
    inner, *numbers = feature.arguments
    if not has_conditions(feature):
        return {feature: np.ones(count)}
    if is_discrete(feature):
        value = _parts(inner, known, count)[None]
        match feature.operation:
            case "absolute":
                return {None: np.abs(value)}
            case "logarithm":
                return {None: np.log(value)}
            case "exponential":
                return {None: np.exp(value)}
            case "clip":
                return {None: np.clip(value, *numbers)}
            case "between":
                return {None: ((value >= numbers[0]) & (value <= numbers[1])).astype(float)}
            case "power":
                return {None: np.asarray(_power(value, numbers[0]))}
    if feature.operation == "power" and numbers[0].denominator == 1:
        parts = result = _parts(inner, known, count)
        for _ in range(int(numbers[0]) - 1):
            result = _product(result, parts)
        return result
    raise Unsupported(
        f"{feature} bends a mixture of a yes/no condition and a number, of which no law is known here. Write it as a "
        "sum of products of conditions and numbers, or give covariates=GivenMoments(...), the moments of a public "
        "sample."
    )


def _power(value: Floats, exponent: Fraction) -> Floats:
    return np.asarray(
        power_by_products(
            value, exponent, root=lambda base: np.sqrt(np.maximum(base, 0.0)),
            general=lambda base, e: np.power(np.maximum(base, 0.0), e),
        )
    )  # fmt: skip
