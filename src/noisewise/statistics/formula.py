"""Regressions in words that people know: a formula is read into a response and features of the closed language.

    cost ~ age + smoker + C(region)          cost ~ age*smoker + log(income)         relapse ~ age + age:smoker + smoker

    a + b      both               a:b      their products           a*b      a + b + a:b           - a     without a
    (a + b):c  a:c + b:c          - 1, + 0 no intercept             I(...)   arithmetic, as statistics write it
    C(region, reference='north')  an indicator for each level but the reference

A column with levels needs no C(...): it stands for its indicators. Their reference is the first level that the schema
declares; of two levels one of which means yes (yes, true, 1), it is the other one. An indicator is the condition
`equals(region, 'south')`, so its coefficient is told by the level's name. Everything else is a feature as
statistics write it: a column, log(x), age > 65, clip(x, 0, 10). Nothing is evaluated as code.

The schema alone decides what a formula means, so holder and analyst read the same one into the same sums:
`Moments.from_formula(text, schema)` for the one, `nw.regression(text, schema)` for the other.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from noisewise.errors import InvalidArgument, InvalidSpec, NoisewiseError, Unsupported
from noisewise.expressions import words
from noisewise.printable import did_you_mean, shown
from noisewise.schema import Level, Levels, Schema, checked_schema
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature, column
from noisewise.statistics.text import feature_from_text

__all__ = ["FAMILIES", "Formula", "checked_family", "likely_centre", "parts_of", "read_formula"]

# What is released for each family: y'y repeats X'y where y is 0 or 1.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "linear": ("xx", "xy", "yy"),
    "logistic": ("xx", "xy"),
    "probit": ("xx", "xy"),
    "poisson": ("xx", "xy", "yy"),
}
YES_NO = ("logistic", "probit")
YES = ("yes", "true", "y", "t", "1")
LONGEST_TEXT, MOST_TERMS, MOST_FEATURES = 10_000, 1000, 200
EXAMPLE = "'cost ~ age + smoker + C(region)'"
INTERCEPT: tuple[Factor, ...] = ()
Words = Sequence[re.Match[str]]


@dataclass(frozen=True, slots=True)
class Factor:
    """What a term is a product of: one feature, or the indicators of a column beside its reference level."""

    text: str
    features: tuple[Feature, ...]
    reference: tuple[str, Level] | None = None


Product = tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula under a schema: what is regressed on what.

    `references` names the level of every column with levels from which its coefficients are counted.
    """

    response: Feature
    features: tuple[Feature, ...]
    intercept: bool
    references: tuple[tuple[str, Level], ...]

    def __str__(self) -> str:
        terms = [str(feature) for feature in self.features]
        beside = "; ".join(f"{name} = {level}" for name, level in self.references)
        right = " + ".join([*terms, *([] if self.intercept else ["0"])])
        return f"{self.response} ~ {right}{f' (counted from {beside})' if beside else ''}"


def read_formula(text: object, schema: Schema, family: str) -> Formula:
    """What a formula such as 'cost ~ age + smoker' means under a schema, for a response of that family."""
    if text != str(text) or not str(text).strip() or len(str(text)) > LONGEST_TEXT:
        raise InvalidSpec(f"Expected a formula such as {EXAMPLE}, not {shown(text)}.", where="formula")
    return _Reader(str(text), checked_schema(schema)).read(checked_family(family))


def checked_family(family: object) -> str:
    """One of FAMILIES."""
    if str(family) not in FAMILIES:
        raise InvalidArgument(
            f"family = {shown(family)}{did_you_mean(family, FAMILIES)}; there are {', '.join(FAMILIES)}.",
            argument="family",
        )
    return str(family)


def parts_of(family: object) -> tuple[str, ...]:
    """The parts of Moments that a family needs."""
    return FAMILIES[checked_family(family)]


def likely_centre(formula: Formula, schema: Schema) -> dict[str, Fraction]:
    """The middle of the bounds of every number, rounded to a hundredth of its range: public, whatever is true.

    Sums of (x - middle)^2 have a quarter of the range of sums of x^2. Conditions are left as they are, 0 or 1; without
    an intercept a centre would change the model.
    """
    if not formula.intercept:
        return {}
    found = {}
    for feature in (*formula.features, formula.response):
        if any(node.is_condition for node in feature.nodes()):
            continue
        low, high, _ = feature_range(feature, schema)
        middle = Fraction(Decimal(f"{(low + high) / 2:.12g}"))
        step = Fraction(10) ** (Decimal(high - low).adjusted() - 2)
        if rounded := round(middle / step) * step:
            found[str(feature)] = rounded
    return found


class _Reader:
    """Reads one formula; sums of products of factors, which are read by the language of statistics."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.text, self.schema = text, schema
        self.references: dict[str, int] = {}

    def read(self, family: str) -> Formula:
        try:
            found = words(self.text)
        except ValueError as error:
            raise self.refusal(f"{error}") from None
        sides = _split(found, "~")
        if len(sides) != 2 or not all(sides):
            raise self.refusal(f"a formula has a response, one ~, and what it is regressed on, as in {EXAMPLE}")
        response = self.response(sides[0], family)
        terms = self.sum(sides[1], starts_with=[INTERCEPT])
        has_intercept = INTERCEPT in terms
        terms = sorted((term for term in terms if term), key=len)  # main effects first, as everybody prints them
        self.check_margins(terms, has_intercept)
        features = list(dict.fromkeys(feature for term in terms for feature in _products(term)))
        if not features:
            raise self.refusal("it names nothing that the response is regressed on")
        if len(features) > MOST_FEATURES:
            raise self.refusal(f"it has more than {MOST_FEATURES} features")
        named = {name for feature in features for name in feature.columns()}
        if both := sorted(response.columns() & named):
            raise self.refusal(f"column {both[0]} stands on both sides of ~")
        for feature in (response, *features):
            low, high, _ = feature_range(feature, self.schema)
            if not low < high:
                raise self.refusal(f"{feature} is {low:g} in every record; leave it out")
        references = dict.fromkeys(factor.reference for term in terms for factor in term if factor.reference)
        return Formula(response, tuple(features), has_intercept, tuple(references))

    def response(self, found: Words, family: str) -> Feature:
        factor = self.factor(found)
        if factor.reference is None:
            self.check_response(factor.features[0], family)
            return factor.features[0]
        name = factor.reference[0]
        if len(factor.features) > 1:
            levels = self.schema.levels(name).levels
            raise self.refusal(
                f"the response {name} has {len(levels)} levels; a yes/no response names one of them, as in "
                f"equals({name}, {levels[-1]!r}) ~ ..."
            )
        if family not in YES_NO:
            raise self.refusal(
                f"the response {name} has two levels, and family={family!r} is for numbers: write family='logistic' "
                f"(or 'probit'), or {factor.features[0]} ~ ... if a line is really meant"
            )
        return factor.features[0]

    def check_response(self, response: Feature, family: str) -> None:
        """What can be told from the schema before anybody pays for sums that the model would refuse."""
        low, high, _ = feature_range(response, self.schema)
        is_column = response.operation in ("column", "clip")
        if family in YES_NO and not response.is_condition and not (is_column and (low, high) == (0, 1)):
            raise self.refusal(
                f"family={family!r} is for a response that is yes or no, and {response} lies between {low:g} and "
                f"{high:g}: cut it, as in {response} > {(low + high) / 2:g} ~ ..., or say family='linear'"
            )
        if family == "poisson" and not (is_column and low == 0 and high == int(high)):
            raise self.refusal(
                f"family='poisson' is for a count, one column with whole bounds that begin at 0; {response} lies "
                f"between {low:g} and {high:g}"
            )

    # ---- the right side: sums of terms ----

    def sum(self, found: Words, starts_with: Iterable[Product] = ()) -> list[Product]:
        terms = {_key(term): term for term in starts_with}
        for sign, words_of_term in self.signed(found):
            number = words_of_term[0][0] if len(words_of_term) == 1 else ""
            if number in ("0", "1"):
                terms.pop(_key(INTERCEPT), None)
                if (number == "1") == (sign == "+"):
                    terms[_key(INTERCEPT)] = INTERCEPT
                continue
            for term in self.products(words_of_term):
                if sign == "+":
                    terms.setdefault(_key(term), term)
                elif terms.pop(_key(term), None) is None:
                    raise self.refusal(f"there is no {_words_of(term)} to take away")
            self.check_number(len(terms))
        return list(terms.values())

    def signed(self, found: Words) -> list[tuple[str, Words]]:
        """The terms with their signs; `+ -1` is refused."""
        signs = [i for i, depth in enumerate(_depths(found)) if depth == 0 and found[i][0] in "+-"]
        starts = signs if signs[:1] == [0] else [-1, *signs]
        ends = [*starts[1:], len(found)]
        pieces = [("+" if i < 0 else found[i][0], found[i + 1 : end]) for i, end in zip(starts, ends, strict=True)]
        if not all(piece for _, piece in pieces):
            raise self.refusal("a + or - stands without a term beside it")
        return pieces

    def products(self, found: Words) -> list[Product]:
        """a*b*c: every product of some of them; a:b: the product alone."""
        for word, depth in zip(found, _depths(found), strict=True):
            if depth == 0 and word[0] == ".":
                raise self.refusal(
                    "a dot is no part of a formula: name each column (every one takes its share of the noise), and "
                    "write log(x) without the name of a library"
                )
            if depth == 0 and word[0] in "/^%|&@":
                raise self.refusal(f"{word[0]} is no part of a formula: write arithmetic as I(...), as in I(age/10)")
        sides = [self.interaction(side) for side in self.sides(found, "*")]
        terms = sides[0]
        for side in sides[1:]:
            terms = [*terms, *side, *self.crossed(terms, side)]
            self.check_number(len(terms))
        return terms

    def interaction(self, found: Words) -> list[Product]:
        sides = [self.group(side) for side in self.sides(found, ":")]
        terms = sides[0]
        for side in sides[1:]:
            terms = self.crossed(terms, side)
        return terms

    def sides(self, found: Words, mark: str) -> list[Words]:
        sides = _split(found, mark)
        if not all(sides):
            power = "; write I(age**2) for a square" if "**" in self.text else ""
            raise self.refusal(f"a {mark} stands without a term beside it{power}")
        return sides

    def crossed(self, one: Sequence[Product], other: Sequence[Product]) -> list[Product]:
        self.check_number(len(one) * len(other))
        return [tuple(dict.fromkeys((*a, *b))) for a, b in itertools.product(one, other)]

    def group(self, found: Words) -> list[Product]:
        """(a + b), or one factor."""
        if found[0][0] == "(" and _closing(found) == len(found) - 1:
            inner = found[1:-1]
            if not inner:
                raise self.refusal("a bracket is empty")
            if not any(word[0] in "<>" and depth == 0 for word, depth in zip(inner, _depths(inner), strict=True)):
                return self.sum(inner)
        return [(self.factor(found),)]

    def check_number(self, terms: int) -> None:
        if terms > MOST_TERMS:
            raise self.refusal(f"it has more than {MOST_TERMS} terms")

    # ---- factors ----

    def factor(self, found: Words) -> Factor:
        said, text = [word[0] for word in found], self.text[found[0].start() : found[-1].end()]
        if name := self.named(said):
            return self.column(name, None)
        if said[:2] == ["C", "("]:
            return self.levels(said, text)
        if [word.lastgroup for word in found] == ["number"]:
            raise self.refusal(f"{text:.60} is a number; only 0 and 1 stand alone, for the intercept")
        if said[:2] == ["I", "("] and _closing(found[1:]) == len(found) - 2:
            return _plain(self.feature(self.text[found[1].start() : found[-1].end()]))
        return _plain(self.feature(text))

    def feature(self, text: str) -> Feature:
        feature = feature_from_text(text)
        for name in feature.columns():
            self.schema.column(name)
        return feature

    def named(self, said: Sequence[str]) -> str:
        """The column that `age` or column('net pay') names; nothing where it is something else."""
        if len(said) == 1 and said[0].isidentifier():
            return said[0]
        if len(said) == 4 and said[:2] == ["column", "("] and said[2][0] in "'\"":
            return _quoted(said[2])
        return ""

    def column(self, name: str, reference: str | None) -> Factor:
        """A number as it is; levels as indicators of all but the reference."""
        declared = self.declared_levels(name)
        if declared is None:
            return _plain(column(name))
        place = _reference(declared) if reference is None else self.level(name, declared, reference)
        others = tuple(column(name).equals(level) for k, level in enumerate(declared.levels) if k != place)
        if self.references.setdefault(name, place) != place:
            raise self.refusal(f"{name} has two references; give each C({name}) the same one")
        if len(others) > MOST_FEATURES:
            raise self.refusal(f"{name} has {len(declared.levels)} levels, which are too many features")
        return Factor(f"C({name})", others, (name, declared.levels[place]))

    def declared_levels(self, name: str) -> Levels | None:
        """The levels of a column; None for a number."""
        self.schema.column(name)
        try:
            return self.schema.levels(name)
        except Unsupported:
            return None

    def level(self, name: str, declared: Levels, reference: str) -> int:
        try:
            return declared.index(reference)
        except NoisewiseError:
            hint = did_you_mean(reference, declared.levels)
            listed = ", ".join(map(str, declared.levels[:20]))
            raise self.refusal(f"{name} has no level {shown(reference)}{hint}; it has {listed}") from None

    def levels(self, said: Sequence[str], text: str) -> Factor:
        """C(region) or C(region, reference='north')."""
        inside, reference = [*said[2:-1]], None
        if inside[-4:-1] == [",", "reference", "="]:
            reference = inside[-1] if inside[-1].isdigit() else _quoted(inside[-1])
            inside = inside[:-4]
        name = self.named(inside)
        if not name or reference == "" or said[-1] != ")":
            raise self.refusal(f"{shown(text)}: write C(region) or C(region, reference='north')")
        if self.declared_levels(name) is None:
            raise self.refusal(
                f"{name} is a number with bounds, not a column with levels: write {name} for its slope, or conditions "
                f"such as between({name}, 20, 40), or declare its levels in the schema"
            )
        return self.column(name, reference)

    def check_margins(self, terms: Sequence[Product], has_intercept: bool) -> None:
        """A product of indicators describes differences from a reference, which must be in the formula itself."""
        there = {*map(_key, terms)}
        for term, factor in [(one, factor) for one in terms for factor in one if factor.reference]:
            rest = tuple(one for one in term if one != factor)
            if not rest and not has_intercept:
                raise self.refusal(
                    f"without an intercept the response would be 0 where {_level_words(factor)}; keep the intercept, "
                    "or write one condition for each level, as in equals(region, 'north')"
                )
            if rest and _key(rest) not in there:
                raise self.refusal(
                    f"{_words_of(term)} stands without {_words_of(rest)}, which would then count for nothing where "
                    f"{_level_words(factor)}; write {'*'.join(one.text for one in term)}"
                )

    def refusal(self, sentence: str) -> InvalidSpec:
        text = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return InvalidSpec(f"In the formula {text!r}: {sentence}.", where="formula")


# ---- words and terms ----


def _plain(feature: Feature) -> Factor:
    return Factor(str(feature), (feature,))


def _quoted(text: str) -> str:
    """What stands between quotes; nothing where there are none."""
    return str(ast.literal_eval(text)) if text[0] in "'\"" else ""


def _reference(declared: Levels) -> int:
    """The first level; of two of which the first means yes and the second does not, the second."""
    means_yes = [str(level).strip().casefold() in YES for level in declared.levels]
    return 1 if means_yes == [True, False] else 0


def _products(term: Product) -> list[Feature]:
    """Every product of one feature of each factor."""
    found = []
    for chosen in itertools.product(*(factor.features for factor in term)):
        product = chosen[0]
        for feature in chosen[1:]:
            product = product * feature
        found.append(product)
    return found


def _key(term: Product) -> frozenset[str]:
    """What tells a term from others, whatever the order of its factors."""
    return frozenset(factor.text for factor in term)


def _words_of(term: Product) -> str:
    return ":".join(factor.text for factor in term) or "intercept"


def _level_words(factor: Factor) -> str:
    name, level = factor.reference or ("", "")
    return f"{name} = {level}"


def _depths(found: Words) -> list[int]:
    """How many brackets are open around each word (a bracket counts as inside itself)."""
    depths, depth = [], 0
    for word in found:
        depth += word.lastgroup == "opening"
        depths.append(depth)
        depth -= word.lastgroup == "closing"
    return depths


def _closing(found: Words) -> int:
    """The place of the bracket that closes the first one."""
    depths = _depths(found)
    return next((i for i, word in enumerate(found) if depths[i] == 1 and word.lastgroup == "closing"), -1)


def _split(found: Words, mark: str) -> list[Words]:
    """The words between the marks that stand outside brackets."""
    places = [i for i, depth in enumerate(_depths(found)) if depth == 0 and found[i][0] == mark]
    return [found[start + 1 : end] for start, end in zip([-1, *places], [*places, len(found)], strict=True)]
