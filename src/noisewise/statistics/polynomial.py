"""Features as polynomials: whether one is provably the same for every record.

The range of 2*x - x - x by interval arithmetic is as wide as that of 4*x, for an interval forgets that both come from
one x. Written out as a polynomial with exact coefficients

    f = sum over monomials of c * prod atom^power,    atoms: columns, and what is not polynomial (abs, log, clip, ...)

it is 0. An atom is the operation and the polynomials it is applied to, so abs(2*x - x) is abs(x); indicators are their
own powers. Only what comes out constant is called constant: constants of features are doubles, so 0.1*x*10 - x is not.
The work is bounded; a feature that needs more is taken for one that varies.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

from noisewise.schema import Level
from noisewise.statistics.feature import Feature

MOST_TERMS = 100
MOST_PRODUCTS = 20_000

Atom = tuple[Hashable, ...]  # operation, whether it is the same for every record, what it is applied to
Monomial = frozenset[tuple[Atom, int]]  # pairs of atom and power
Polynomial = dict[Monomial, Fraction]
NOTHING: Monomial = frozenset()
INDICATORS = ("between", "equals")


def is_constant(feature: Feature) -> bool:
    """Whether a feature is shown to be the same for every record, whatever the schema."""
    found = _written_out(feature)
    return found is not None and _is_fixed(found)


def is_zero(feature: Feature) -> bool:
    """Whether a feature is shown to be 0 for every record."""
    return _written_out(feature) == {}


def is_two_valued(feature: Feature) -> bool:
    """Whether a feature is shown to be a + b c with c a product of conditions: it takes two values, and

    f^2 = (l + h) f - l h      for the two values l and h.
    """
    found = _written_out(feature)
    varying = [term for term in found or {} if term != NOTHING]
    return len(varying) == 1 and all(atom[0] in INDICATORS for atom, _ in varying[0])


def exclude_each_other(one: Feature, other: Feature) -> bool:
    """Whether two conditions are shown never to hold at once: levels of a column, intervals of a number."""
    if one.operation != other.operation or one.operation not in INDICATORS or one.arguments[0] != other.arguments[0]:
        return False
    if one.operation == "equals":
        return str(one.arguments[1]) != str(other.arguments[1])  # the level 1 and the word '1' are one level
    return bool(one.arguments[2] < other.arguments[1] or other.arguments[2] < one.arguments[1])


def _written_out(feature: Feature) -> Polynomial | None:
    try:
        return feature.fold(PolynomialAlgebra())
    except _TooMany:
        return None


class _TooMany(Exception):
    """The polynomial has more terms than are worth writing out."""


class PolynomialAlgebra:
    """The feature language over polynomials with exact coefficients."""

    def __init__(self) -> None:
        self.products = 0

    def column(self, name: str) -> Polynomial:
        return _atom("column", False, name)

    def constant(self, value: float) -> Polynomial:
        return _without_zeros({NOTHING: Fraction(value)})

    def add(self, a: Polynomial, b: Polynomial) -> Polynomial:
        return _without_zeros({term: a.get(term, Fraction(0)) + b.get(term, Fraction(0)) for term in {*a, *b}})

    def subtract(self, a: Polynomial, b: Polynomial) -> Polynomial:
        return self.add(a, {term: -coefficient for term, coefficient in b.items()})

    def multiply(self, a: Polynomial, b: Polynomial) -> Polynomial:
        self.products += len(a) * len(b)
        if self.products > MOST_PRODUCTS:
            raise _TooMany
        found: Polynomial = {}
        for left, x in a.items():
            for right, y in b.items():
                term = _times(left, right)
                found[term] = found.get(term, Fraction(0)) + x * y
        return _without_zeros(found)

    def power(self, a: Polynomial, exponent: Fraction) -> Polynomial:
        if exponent.denominator != 1:
            return _atom("power", _is_fixed(a), frozenset(a.items()), exponent)
        found = a
        for _ in range(int(exponent) - 1):
            found = self.multiply(found, a)
        return found

    def absolute(self, a: Polynomial) -> Polynomial:
        return _atom("absolute", _is_fixed(a), frozenset(a.items()))

    def logarithm(self, a: Polynomial) -> Polynomial:
        return _atom("logarithm", _is_fixed(a), frozenset(a.items()))

    def exponential(self, a: Polynomial) -> Polynomial:
        return _atom("exponential", _is_fixed(a), frozenset(a.items()))

    def clip(self, a: Polynomial, low: float, high: float) -> Polynomial:
        return _atom("clip", _is_fixed(a), frozenset(a.items()), low, high)

    def between(self, a: Polynomial, low: float, high: float) -> Polynomial:
        return _atom("between", _is_fixed(a), frozenset(a.items()), low, high)

    def equals(self, name: str, level: Level) -> Polynomial:
        return _atom("equals", False, name, level)

    def shrunk(self, row: tuple[Polynomial, ...], index: int, radius: float) -> Polynomial:
        return _atom(
            "shrunk", all(map(_is_fixed, row)), tuple(frozenset(entry.items()) for entry in row), index, radius
        )


def _atom(operation: str, is_fixed: bool, *arguments: Hashable) -> Polynomial:
    return {frozenset({((operation, is_fixed, *arguments), 1)}): Fraction(1)}


def _is_fixed(polynomial: Polynomial) -> bool:
    """True where no monomial has a column in it."""
    return all(atom[1] for term in polynomial for atom, _ in term)


def _times(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = 1 if atom[0] in INDICATORS else powers.get(atom, 0) + power
    return frozenset(powers.items())


def _without_zeros(terms: Polynomial) -> Polynomial:
    kept = {term: coefficient for term, coefficient in terms.items() if coefficient}
    if len(kept) > MOST_TERMS:
        raise _TooMany
    return kept
