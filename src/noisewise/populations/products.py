"""A feature as a sum of products of features that each read one column.

When columns are independent, a product of features of different columns has E = product of the E's. So

    f = sum_t c_t prod_j f_tj(x_j)      gives      E f = sum_t c_t prod_j E f_tj,

and the covariance of two terms, with a_j = E f_j E g_j and b_j = Cov(f_j, g_j), is

    prod_j (a_j + b_j) - prod_j a_j = sum_j (a_1 + b_1) ... (a_{j-1} + b_{j-1}) b_j a_{j+1} ... ,

a sum without cancellation. Sums, differences, products, whole powers, and the absolute value of one product expand this
way; a clip, an indicator, a root or a shortening that mixes columns does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from noisewise.statistics.feature import Feature

MOST_TERMS = 64


@dataclass(frozen=True, slots=True)
class Term:
    """coefficient times a product of features, at most one a column."""

    coefficient: float
    factors: Mapping[str, Feature]

    def times(self, other: Term) -> Term:
        shared = {name: self.factors[name] * other.factors[name] for name in self.factors if name in other.factors}
        return Term(self.coefficient * other.coefficient, {**self.factors, **other.factors, **shared})

    def scaled(self, c: float) -> Term:
        return Term(c * self.coefficient, self.factors)


@lru_cache(maxsize=512)
def expanded(feature: Feature) -> tuple[Term, ...] | None:
    """The terms of a feature; None where it mixes columns in a way that no product undoes, or in too many terms."""
    if feature.operation == "constant":
        return (Term(float(feature.arguments[0]), {}),)
    names = feature.columns()
    if len(names) == 1:
        return (Term(1.0, {next(iter(names)): feature}),)
    match feature.operation, feature.arguments:
        case ("add" | "subtract") as operation, (a, b):
            left, right = expanded(a), expanded(b)
            sign = 1.0 if operation == "add" else -1.0
            return None if left is None or right is None else _kept(left + tuple(t.scaled(sign) for t in right))
        case "multiply", (a, b):
            return _product(expanded(a), expanded(b))
        case "power", (a, exponent) if exponent.denominator == 1:
            terms = base = expanded(a)
            for _ in range(int(exponent) - 1):
                terms = _product(terms, base)
            return terms
        case "absolute", (a,):
            inner = expanded(a)
            if inner is not None and len(inner) == 1:
                (term,) = inner
                return (Term(abs(term.coefficient), {name: abs(f) for name, f in term.factors.items()}),)
    return None


def _product(left: tuple[Term, ...] | None, right: tuple[Term, ...] | None) -> tuple[Term, ...] | None:
    if left is None or right is None or len(left) * len(right) > MOST_TERMS:
        return None
    return tuple(a.times(b) for a, b in itertools.product(left, right))


def _kept(terms: tuple[Term, ...]) -> tuple[Term, ...] | None:
    return terms if len(terms) <= MOST_TERMS else None
