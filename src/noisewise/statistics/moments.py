"""Moments: sums of products of a row's entries, the sufficient statistics of a linear regression.

    w = ([1,] x_1..x_d, y)      Moments = sum over records of w_a w_b, a <= b      (X'X, X'y, y'y)

Entries may be centred and scaled by public numbers, v = (f - centre) / scale, and rows shortened together to norm R,
keeping their direction: (x, y) -> (x, y) min(1, R / |(x, y)|). `fourth=True` adds the products of four entries of X
that methods for non-normal covariates need. `average=k` sums rows in blocks of k positions and divides by sqrt k
before the products are taken (change-one only: a block is a position). The joint sensitivity of all components is in
`moment_bounds.py`, its proofs in docs/sensitivity-of-moments.md.

Products that carry nothing new are left out, so that no noise is spent on them: the square of an entry v that takes two
values l and h, for v^2 = (l + h) v - l h follows from its sum where that is released, and the product of two conditions
that exclude each other, which is 0 where neither is centred. Shortened and averaged rows have no such products, and
with `fourth=True` all are kept. `earlier` has all of them, too, as releases of format 1 do.

Where values may be absent (`missing="leave-out"`), a row is present where all its columns are, and an absent one adds
nothing: the number of those present, 1 * 1, is then private under change-one, too, and

    change-one   max( sup_{u,v} || w * (f(u) - f(v)) ||,  sup_v || w * f(v) || )     f with its entry 1
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from noisewise.errors import InvalidArgument, InvalidSpec, Unsupported
from noisewise.exact import fraction, integer
from noisewise.exact import text as exact_text
from noisewise.lattice import Lattice, entry_steps, lattice_for
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import added_noise
from noisewise.schema import LARGEST_N, Schema
from noisewise.statistics.additive import FeatureSums, columns_of, read_features
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.evaluation import completed_columns, evaluated
from noisewise.statistics.feature import LARGEST_FEATURE, Feature, shrunk
from noisewise.statistics.moment_bounds import moment_sensitivity
from noisewise.statistics.moment_rows import (
    Monomial,
    Named,
    checked_box,
    component_range,
    frobenius_weight,
    largest_change,
    monomial_feature,
    named_numbers,
    standardised,
)
from noisewise.statistics.polynomial import exclude_each_other, is_two_valued
from noisewise.statistics.presence import (
    PresentRow,
    left_out_of,
    one_record,
    presence,
    settled_present,
    where_present,
)
from noisewise.statistics.protocol import Blocks, Rows, Settled, Whole
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, checked_weights
from noisewise.statistics.settling import Range, given_weights, rounding, settled_sums

PARTS = ("xx", "xy", "yy")
LARGEST_ROW = 5000  # products


@dataclass(frozen=True, slots=True, init=False)
class Moments(FeatureSums):
    r"""Sums over records of the products of the entries of w = ([1,] x, y): what regressions learn from.

    Under change-one the product 1 * 1 = n is public and left out; under add-remove, and where rows may be absent, it
    is a component of its own. `Moments.from_formula(formula, schema)` writes it from a regression in words.

    Parameters
    ----------
    features
        x: one feature or a list.
    response
        y: one feature.
    intercept
        Whether 1 is an entry of w. Default True.
    parts
        Which products: "xx", "xy" and "yy"; default all of them.
    fourth
        Whether products of four entries of x are published as well. Default False.
    centre
        Public numbers by feature that are taken off, in the feature's unit. Default None: 0.
    scale
        Public numbers by feature by which what is left is divided. Default None: 1.
    shrink
        The norm to which longer rows (centred and scaled) are shortened. Default None: rows stay as they are.
    average
        How many rows are averaged before products are taken. Default None: 1.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90), "cost": nw.Bounded(0, 50)}, n=400, neighbours="change-one")
    >>> print(*nw.Moments(["age"], "cost", centre={"age": 50}).labels(schema), sep="\n")
    sum(age)
    sum(cost)
    sum(age**2)
    sum(age*cost)
    sum(cost**2)
    """

    features: tuple[Feature, ...]
    response: Feature
    intercept: bool
    parts: tuple[str, ...]
    fourth: bool
    centre: Named
    scale: Named
    shrink: Fraction | None
    average: int | None
    redundant: bool
    kind: ClassVar[str] = "moments"
    leaves_out: ClassVar[bool] = True

    def __init__(
        self,
        features: str | Feature | Sequence[str | Feature],
        response: str | Feature,
        intercept: bool = True,
        parts: Sequence[str] = PARTS,
        fourth: bool = False,
        centre: Mapping[str, object] | None = None,
        scale: Mapping[str, object] | None = None,
        shrink: object = None,
        average: int | None = None,
    ) -> None:
        assign = object.__setattr__
        *x, y = read_features((*several(features, "Moments"), response), "Moments")
        assign(self, "features", tuple(x))
        assign(self, "response", y)
        assign(self, "intercept", _flag(intercept, "intercept"))
        assign(self, "parts", _parts(parts))
        assign(self, "fourth", _flag(fourth, "fourth"))
        assign(self, "centre", named_numbers(centre, (*x, y), "centre"))
        assign(self, "scale", named_numbers(scale, (*x, y), "scale"))
        assign(self, "shrink", None if shrink is None else fraction(shrink, "shrink", positive=True))
        assign(self, "average", None if average is None else integer(average, "average", minimum=1, maximum=LARGEST_N))
        if self.fourth and "xx" not in self.parts:
            raise InvalidArgument("fourth=True adds to the products of X: parts must hold 'xx'.", argument="parts")
        if self.fourth and self.block > 1:
            raise Unsupported("fourth=True describes single rows; it cannot be averaged. Leave out average.")
        if math.comb(len(x) + 2, 2) + (math.comb(len(x) + 4, 4) if self.fourth else 0) > LARGEST_ROW:
            raise InvalidArgument(f"More than {LARGEST_ROW} products; name fewer features.", argument="features")
        if self.shrink is not None:
            check_shortened((*x, y), 4 if self.fourth else 2)
        assign(self, "redundant", False)

    @classmethod
    def from_entries(cls, entries: Mapping[str, object]) -> Self:
        """A file without the entry "entries" holds every product; one with it must list those that are held."""
        given = {name: value for name, value in entries.items() if name != "entries"}
        made = super(Moments, cls).from_entries(given)
        if "entries" not in entries:
            return made.with_every_product()
        if entries["entries"] != made._kept():
            raise InvalidSpec("entries does not list the products that these moments hold.", where="statistic.entries")
        return made

    @property
    def is_new_in_format_2(self) -> bool:
        """True where products are left out, which readers of format 1 would take to be there."""
        return bool(self._dropped()) and not self.redundant

    @property
    def earlier(self) -> Moments | None:
        """The same moments as earlier versions released them, with every product; None where these are they."""
        return self.with_every_product() if self.is_new_in_format_2 else None

    def with_every_product(self) -> Self:
        """The same with the products that follow from others, as files of format 1 hold them."""
        if not self._dropped():
            return self
        made = copy(self)
        object.__setattr__(made, "redundant", True)
        return made

    @classmethod
    def from_formula(
        cls,
        formula: str,
        schema: Schema,
        *,
        family: str = "linear",
        centre: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Self:
        """The sums that a regression in words needs: what a holder releases for `nw.regression(formula, schema)`.

        Parameters
        ----------
        formula : such as 'cost ~ age + smoker + C(region)'; docs/formulas.md has the language.
        schema : the public facts about the records; it alone decides what the formula means.
        family : "linear", "logistic", "probit" or "poisson": whether y'y is among the sums.
        centre : public numbers as for `Moments`; by default the middle of the bounds of every number, `{}` for none.
        options : `scale`, `shrink`, `average`, `fourth`, `parts` as for `Moments`.

        Examples
        --------
        `plan(Moments.from_formula("cost ~ age + smoker", schema), schema, guarantee=GaussianDP(1))`
        """
        from noisewise.statistics.formula import likely_centre, parts_of, read_formula

        read = read_formula(formula, schema, family)
        own = {"parts": parts_of(family), "centre": likely_centre(read, schema) if centre is None else centre}
        return cls(read.features, read.response, intercept=read.intercept, **own | options)

    @property
    def block(self) -> int:
        """How many rows are averaged: 1 unless `average` says otherwise."""
        return self.average or 1

    @property
    def radius(self) -> Fraction | None:
        """The norm R to which rows are shortened, never below the float that evaluation uses."""
        return None if self.shrink is None else max(self.shrink, Fraction(float(self.shrink)))

    def columns(self) -> tuple[str, ...]:
        return columns_of((*self.features, self.response))

    def why_no_population(self) -> str | None:
        if self.shrink is not None:
            return "its rows were shortened"
        return None if self.average is None else "its rows were averaged before the products were taken"

    def why_not_left_out(self) -> str | None:
        return None if self.average is None else "a row that is absent would leave the block it is averaged in"

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """The columns that must be present for a row to be present."""
        return left_out_of(self.columns(), schema)

    def entries(self, schema: Schema) -> tuple[Feature, ...]:
        """(x_1..x_d, y) as features: centred, scaled and, with `shrink`, shortened together."""
        row = self._unshortened(schema)
        if self.shrink is None:
            return row
        return tuple(shrunk(row, i, float(self.shrink)) for i in range(len(row)))

    def pairs(self, schema: Schema) -> tuple[Monomial, ...]:
        """For each component the indices into w of its factors: two, or four for a fourth moment."""
        first = 1 if self.intercept else 0
        last = first + len(self.features)
        is_public = schema.is_change_one and not self.needs(schema)  # 1 * 1 = n
        left_out = frozenset() if self.redundant else self._dropped()
        pairs = [pair for pair in self._asked() if pair not in left_out and not (is_public and pair[1] < first)]
        if self.fourth:
            known = 2 if self.intercept else 0  # products of degree 1 and 2 are among the pairs already
            quadruples = itertools.combinations_with_replacement(range(last), 4)
            pairs += [q for q in quadruples if sum(a >= first for a in q) > known]
        return tuple(pairs)

    def _asked(self) -> list[Monomial]:
        """The pairs of the parts that are asked for, whether they tell something new or not."""
        last = len(self.features) + (1 if self.intercept else 0)

        def part(a: int, b: int) -> str:
            return "xx" if b < last else "xy" if a < last else "yy"

        pairs = itertools.combinations_with_replacement(range(last + 1), 2)
        return [pair for pair in pairs if part(*pair) in self.parts]

    def _dropped(self) -> frozenset[Monomial]:
        """The pairs that follow from the others, whatever the schema."""
        if self.shrink is not None or self.block > 1 or self.fourth:
            return frozenset()
        row, centres = (*self.features, self.response), dict(self.centre)
        first, asked = (1 if self.intercept else 0), self._asked()
        summed = {pair[1] for pair in asked if first and pair[0] == 0}

        def is_told(a: int, b: int) -> bool:
            one, other = row[a - first], row[b - first]
            if a == b:
                return a in summed and is_two_valued(one)
            return exclude_each_other(one, other) and not (centres.get(str(one)) or centres.get(str(other)))

        return frozenset(pair for pair in asked if pair[0] >= first and is_told(*pair))

    def implied(self, schema: Schema) -> dict[Monomial, tuple[Fraction, Fraction]]:
        """The sums that were left out: sum w_a w_b = slope * sum w_b + constant * (number of rows), for each (a, b)."""
        if self.redundant:
            return {}
        box, first = self._box(schema), 1 if self.intercept else 0
        values = {(a, b): box[b - first] for a, b in self._dropped() if a == b}
        zero = (Fraction(0), Fraction(0))
        return dict.fromkeys(self._dropped(), zero) | {
            pair: (low + high, -low * high) for pair, (low, high) in values.items()
        }

    def _kept(self) -> list[list[int]]:
        """The pairs that are there, as a file lists them; the number of rows, (0, 0), goes without saying."""
        dropped = self._dropped()
        return [list(pair) for pair in self._asked() if pair not in dropped and not (self.intercept and pair == (0, 0))]

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        """The products that are summed, as features of one record.

        With `average=k` the entries inside them stand for their *sums over a block* of k records, and each component
        is the sum over blocks of the product divided by its `divisors` (the intercept's entry is sqrt k, the others
        are sum / sqrt k, so products with the intercept are plain sums).
        """
        return self.summed(schema).features

    def summed(self, schema: Schema) -> PresentRow:
        """The products, and the columns that all of them need."""
        self._box(schema)
        entries, needs = self.entries(schema), self.needs(schema)
        row = tuple(monomial_feature(entries, monomial) for monomial in self.monomials(schema))
        return PresentRow(tuple(where_present(product, needs) for product in row), row, (needs,) * len(row))

    def divisors(self, schema: Schema) -> tuple[int, ...]:
        """What the product of block sums is divided by: k for products of two entries, 1 for the rest."""
        return tuple(self.block if len(monomial) == 2 else 1 for monomial in self.monomials(schema))

    def monomials(self, schema: Schema) -> tuple[Monomial, ...]:
        """The pairs as indices into the entries (x, y): the intercept, a factor 1, is left out."""
        first = 1 if self.intercept else 0
        return tuple(tuple(a - first for a in pair if a >= first) for pair in self.pairs(schema))

    def labels(self, schema: Schema) -> tuple[str, ...]:
        plain = (*self.features, self.response)
        number = "count present" if self.needs(schema) else "n"
        return tuple(f"sum({monomial_feature(plain, m)})" if m else number for m in self.monomials(schema))

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        """Frobenius weights (1 on squares, sqrt 2 beside them) for rows in a ball, else each to unit range."""
        if self.shrink is not None:
            return tuple(frobenius_weight(pair) for pair in self.pairs(schema))
        box, weights = self._box(schema), []
        for monomial in self.monomials(schema):
            if self.needs(schema) and schema.is_change_one:
                low, high = component_range(box, monomial)
                width = max(high, Fraction(0)) - min(low, Fraction(0))
            elif schema.is_change_one:
                width = largest_change(box, monomial, self.block)
            else:
                width = math.prod((max(abs(end) for end in box[i]) for i in monomial), start=Fraction(1))
            if width <= 0:
                raise InvalidArgument("A product of entries is constant; it tells nothing.", argument="features")
            weights.append(1 / width)
        return tuple(weights)

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        """The joint sensitivity of the weighted sums, exact or a certified bound with its gap."""
        return self._sensitivity(schema, norm, weights, None)

    def rounded_sensitivity(
        self,
        schema: Schema,
        *,
        entry_moves: Sequence[Fraction],
        norm: int = 1,
        weights: Sequence[object] | None = None,
    ) -> Sensitivity:
        """The sensitivity when each *entry* is first moved by at most entry_moves[i] (half a step and its error)."""
        moves = [fraction(move, "entry_moves", minimum=0) for move in entry_moves]
        if len(moves) != len(self.features) + 1:
            raise InvalidArgument("entry_moves must name one number an entry of (x, y).", argument="entry_moves")
        return self._sensitivity(schema, norm, weights, moves)

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        given = given_weights(self.default_weights(schema), weights)
        if self.needs(schema):
            return settled_present(self, self.summed(schema), schema, guarantee, mechanism, given)
        if self.block == 1:
            return settled_sums(self, schema, guarantee, mechanism, given)
        unrounded, ranges = self._averaged(schema, added_noise(mechanism).norm, given)
        rows = schema.largest_n // self.block
        return settled_sums(self, schema, guarantee, mechanism, given, ranges=ranges, rows=rows, sensitivity=unrounded)

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        if self.block == 1:
            return rows.sums(self.row(rows.schema), lattice)
        entries, schema = self.entries(rows.schema), rows.schema
        ranges = feature_ranges(entries, schema)
        fine = lattice_for(entry_steps(ranges), ranges)
        return rows.block_sums(
            Blocks(entries, fine, self.monomials(schema), self.divisors(schema), self.block), lattice
        )

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        """The sums on NumPy columns, unrounded; the last axis of a column is the record's."""
        self._box(schema)
        complete = completed_columns(columns, schema)
        entries = evaluated(self.entries(schema), complete, schema)
        (present,) = evaluated((presence(self.needs(schema)),), complete, schema.completed())
        if self.block > 1:
            shape = entries[0].shape
            if shape[-1] % self.block:
                raise InvalidArgument(f"average = {self.block} does not divide the records.", argument="average")
            entries = [e.reshape(*shape[:-1], shape[-1] // self.block, self.block).sum(axis=-1) for e in entries]
        totals = []
        for monomial, divisor in zip(self.monomials(schema), self.divisors(schema), strict=True):
            product = math.prod((entries[i] for i in monomial), start=np.ones_like(entries[0]))
            totals.append((product if self.block > 1 else product * present).sum(axis=-1) / divisor)
        return np.stack(totals, axis=-1)

    def to_dict(self) -> dict[str, object]:
        data: dict[str, object] = {
            "kind": self.kind,
            "features": [str(feature) for feature in self.features],
            "response": str(self.response),
            "intercept": self.intercept,
            "parts": list(self.parts),
            "centre": {name: plain(number) for name, number in self.centre},
            "scale": {name: plain(number) for name, number in self.scale},
            "shrink": None if self.shrink is None else plain(self.shrink),
        }
        if self.fourth:
            data["fourth"] = True
        if self.average is not None:
            data["average"] = self.average
        if self.is_new_in_format_2:
            data["entries"] = self._kept()
        return data

    def __str__(self) -> str:
        options = [] if self.intercept else ["intercept=False"]
        options += [] if self.parts == PARTS else [f"parts={list(self.parts)!r}"]
        options += ["fourth=True"] if self.fourth else []
        options += written(self.centre, self.scale, self.shrink)
        options += [] if self.average is None else [f"average={self.average}"]
        return f"moments({', '.join([listed(self.features), str(self.response), *options])})"

    def _averaged(self, schema: Schema, norm: int, weights: tuple[Fraction, ...]) -> tuple[Sensitivity, list[Range]]:
        """Averaged rows: the sensitivity with entries already rounded, and the range of each product of block sums."""
        bounds = feature_ranges(self.entries(schema), schema)
        moves = [
            Fraction(step) / 2 + Fraction(rounding(*entry, step))
            for step, entry in zip(entry_steps(bounds), bounds, strict=True)
        ]
        sensitivity = self.rounded_sensitivity(schema, entry_moves=moves, norm=norm, weights=weights)
        sizes = [max(abs(low), abs(high)) * (1 + 2.0**-29) for low, high, _ in bounds]
        largest = [self.block * math.prod(sizes[i] for i in monomial) for monomial in self.monomials(schema)]
        return sensitivity, [(-size, size, 4 * 2.0**-53 * size) for size in largest]

    def _unshortened(self, schema: Schema) -> tuple[Feature, ...]:
        return standardised((*self.features, self.response), self.centre, self.scale)

    def _box(self, schema: Schema) -> list[tuple[Fraction, Fraction]]:
        """The checks every use of a schema passes, and the ranges of the unshortened entries."""
        if self.average is not None and not schema.is_change_one:
            raise Unsupported("average=k needs neighbours='change-one': a removed record would move every block.")
        if schema.n is not None and schema.n % self.block:
            raise InvalidArgument(
                f"average = {self.block} does not divide n = {schema.n}; choose a divisor.", argument="average"
            )
        return checked_box(self._unshortened(schema), schema, 4 if self.fourth else 2)

    def _sensitivity(
        self, schema: Schema, norm: int, weights: Sequence[object] | None, moves: Sequence[Fraction] | None
    ) -> Sensitivity:
        self._box(schema)
        monomials, p = self.monomials(schema), checked_norm(norm)
        given = self.default_weights(schema) if weights is None else checked_weights(weights, len(monomials))

        def among(where: Schema, places: Sequence[int]) -> Sensitivity:
            return moment_sensitivity(
                self._unshortened(schema),
                [monomials[k] for k in places],
                where,
                norm=p,
                weights=[given[k] for k in places],
                radius=self.radius,
                block=self.block,
                rounding=moves,
            )

        every = range(len(monomials))
        if not (self.needs(schema) and schema.is_change_one):
            return among(schema, every)
        both = among(one_record(schema, "change-one"), [k for k in every if monomials[k]])  # a 1 less a 1 is nothing
        alone = among(one_record(schema, "add-remove"), every)
        if both.value > alone.value:
            return both
        return Sensitivity(alone.value, alone.attained, p, f"a row becomes absent; {alone.argument}")


def check_shortened(row: Sequence[Feature], degree: int) -> None:
    """Each shortened entry depends on the whole row, so a product of them has as many parts as the row, each time."""
    if degree * sum(5 + feature.size for feature in row) > LARGEST_FEATURE:
        raise InvalidArgument(
            f"Products of entries shortened together would have more than {LARGEST_FEATURE} parts; name fewer or "
            "simpler features.",
            argument="features",
        )


def several(features: object, name: str) -> tuple[object, ...]:
    given = (features,) if isinstance(features, str | Feature) else features
    if not isinstance(given, Sequence) or not given:
        raise InvalidArgument(f"{name} needs a list of features, as in {name}(['age'], ...).", argument="features")
    return tuple(given)


def _parts(parts: object) -> tuple[str, ...]:
    if isinstance(parts, str) or not isinstance(parts, Sequence) or not parts or any(p not in PARTS for p in parts):
        raise InvalidArgument(f"parts = {shown(parts)}; list some of 'xx', 'xy', 'yy'.", argument="parts")
    return tuple(part for part in PARTS if part in parts)


def _flag(value: object, argument: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{argument} = {shown(value)} must be True or False.", argument=argument)
    return value


def plain(number: Fraction) -> int | float | str:
    """A number as JSON holds it, if reading it back gives the same number; else as text."""
    if number.denominator == 1 and abs(number) < 2**53:
        return int(number)
    near = float(number)
    return near if Fraction(repr(near)) == number else str(number)


def written(centre: Named, scale: Named, shrink: Fraction | None) -> list[str]:
    written = []
    for name, numbers in (("centre", centre), ("scale", scale)):
        if numbers:
            written.append(f"{name}={{{', '.join(f'{key}: {exact_text(number)}' for key, number in numbers)}}}")
    return written if shrink is None else [*written, f"shrink={exact_text(shrink)}"]


def listed(features: Sequence[Feature]) -> str:
    return f"[{', '.join(map(str, features))}]"
