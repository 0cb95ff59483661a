"""Where the row of a record can be: its entries as features, the box and the ball that hold them, their monomials.

    v_i = (f_i - centre_i) / scale_i   lies in a box known from the declared bounds as exact numbers;
    v min(1, R/|v|)                    lies in the ball of radius R and in a smaller box (`shrunk_box`).

Monomials are tuples of indices into the entries: () is 1, (i,) an entry, (i, i) its square, (i, j) a product.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from noisewise.errors import InvalidArgument
from noisewise.exact import fraction, root_above
from noisewise.printable import shown
from noisewise.schema import Bounded, Schema
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature, constant

Monomial = tuple[int, ...]
Box = Sequence[tuple[Fraction, Fraction]]
Named = tuple[tuple[str, Fraction], ...]
DECIMALS = 10**12
LARGEST_PRODUCT = Fraction(10) ** 100
LONGEST_BOX = 20_000  # bits


def standardised(features: Sequence[Feature], centre: Named, scale: Named) -> tuple[Feature, ...]:
    """(f - centre) * factor with factor = 1/scale as a float: two roundings, and none that is not needed."""
    centres, scales, row = dict(centre), dict(scale), []
    for feature in features:
        c, s = centres.get(str(feature), Fraction(0)), scales.get(str(feature), Fraction(1))
        moved = feature if c == 0 else feature - constant(c)
        row.append(moved if s == 1 else Feature("multiply", (moved, constant(float(1 / s)))))
    return tuple(row)


def named_numbers(given: Mapping[str, object] | None, features: Sequence[Feature], argument: str) -> Named:
    """Public numbers by the text of a feature (or the bare name of a column), in the row's order."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{argument} must be a mapping such as {{'age': 40}}.", argument=argument)
    numbers = {}
    for key, value in given.items():
        match = [f for f in features if isinstance(key, str) and (key == str(f) or f == Feature("column", (key,)))]
        if not match:
            names = ", ".join(map(str, features))
            raise InvalidArgument(f"{argument} names {shown(key)}, which is not one of {names}.", argument=argument)
        numbers[str(match[0])] = fraction(value, f"{argument}[{key!r}]", positive=argument == "scale")
    return tuple((str(f), numbers[str(f)]) for f in features if str(f) in numbers)


def entry_box(entries: Sequence[Feature], schema: Schema) -> list[tuple[Fraction, Fraction]]:
    """The exact real range of each entry; a range only known with rounding errors is widened by them."""
    return [_exact_range(entry, schema) for entry in entries]


def _exact_range(entry: Feature, schema: Schema) -> tuple[Fraction, Fraction]:
    match entry.operation, entry.arguments:
        case "column", (name,):
            column = schema.bounded(name)
            return Fraction(column.low), Fraction(column.high)
        case "subtract", (Feature() as inner, Feature("constant", (c,))):
            low, high = _exact_range(inner, schema)
            return low - Fraction(c), high - Fraction(c)
        case "multiply", (Feature() as inner, Feature("constant", (factor,))):
            ends = sorted(end * Fraction(factor) for end in _exact_range(inner, schema))
            return ends[0], ends[1]
    low_end, high_end, error = feature_range(entry, schema)
    return Fraction(low_end) - Fraction(error), Fraction(high_end) + Fraction(error)


def fills_its_box(entries: Sequence[Feature], schema: Schema) -> bool:
    """True where every point of the box is a record: each entry is an affine function of a column of its own."""
    names = [name for entry in entries for name in entry.columns()]
    bounded = all(isinstance(schema.column(name), Bounded) for name in names)
    return bounded and all(map(_is_affine, entries)) and len(set(names)) == len(names)


def _is_affine(feature: Feature) -> bool:
    if feature.operation not in ("add", "subtract", "multiply"):
        return feature.operation == "column"
    inner = [argument for argument in feature.arguments if argument.operation != "constant"]
    return len(inner) == 1 and _is_affine(inner[0])


def checked_box(entries: Sequence[Feature], schema: Schema, degree: int) -> list[tuple[Fraction, Fraction]]:
    """The entries' ranges, after showing that no product of `degree` of them overflows."""
    box = entry_box(entries, schema)
    largest = max(abs(end) for ends in box for end in ends)
    if largest**degree >= LARGEST_PRODUCT:
        raise InvalidArgument("Products of these entries overflow; give them a public scale.", argument="scale")
    return box


def shrunk_box(box: Box, radius: Fraction) -> tuple[list[tuple[Fraction, Fraction]], Fraction | None]:
    """The ranges of the entries of v min(1, R/|v|), and R, or None where no row of the box is longer than R.

    A shortened entry grows with v_i and shrinks towards 0 with the size of the others, so its extremes lie where
    those are smallest or largest.
    """
    far = [max(abs(low), abs(high)) for low, high in box]
    near = [Fraction(0) if low <= 0 <= high else min(abs(low), abs(high)) for low, high in box]
    if sum(m * m for m in far) <= radius * radius:
        return list(box), None
    result = []
    for i, (low, high) in enumerate(box):
        others_far = sum((m * m for j, m in enumerate(far) if j != i), Fraction(0))
        others_near = sum((m * m for j, m in enumerate(near) if j != i), Fraction(0))
        ends = []
        for end, is_outer in ((low, low < 0), (high, high > 0)):
            length = end * end + (others_near if is_outer else others_far)
            if length <= radius * radius or end == 0:
                ends.append(end)
            else:  # the outer end is rounded outwards, the inner one towards 0: divide by a root from below or above
                root = root_above(length)
                ends.append(end * radius / (length / root if is_outer else root))
        result.append((ends[0], ends[1]))
    return result, radius


def outer_box(box: Box) -> list[tuple[Fraction, Fraction]]:
    """A box around the box, with ends of 128 binary digits where exact ones are so long that sums would grow costly."""
    bits = sum(end.numerator.bit_length() + end.denominator.bit_length() for ends in box for end in ends)
    if bits <= LONGEST_BOX:
        return list(box)
    return [(-_end_above(-low), _end_above(high)) for low, high in box]


def _end_above(end: Fraction) -> Fraction:
    if end == 0:
        return end
    shift = 128 - end.numerator.bit_length() + end.denominator.bit_length()
    return Fraction(math.ceil(end * Fraction(2) ** shift)) / Fraction(2) ** shift


def component_range(box: Box, monomial: Monomial) -> tuple[Fraction, Fraction]:
    """The exact range of a monomial over a box: powers of independent entries, multiplied as intervals."""
    low, high = Fraction(1), Fraction(1)
    for i, power in Counter(monomial).items():
        a, b = box[i][0] ** power, box[i][1] ** power
        is_even_across = power % 2 == 0 and box[i][0] < 0 < box[i][1]
        bottom, top = (Fraction(0) if is_even_across else min(a, b)), max(a, b)
        corners = (low * bottom, low * top, high * bottom, high * top)
        low, high = min(corners), max(corners)
    return low, high


def largest_change(box: Box, monomial: Monomial, block: int = 1) -> Fraction:
    """sup |f(S + u) - f(S + v)|, one component at a time; it is linear in S, so S is a vertex of (k-1) box."""
    if block == 1 or len(monomial) < 2:
        low, high = component_range(box, monomial)
        return high - low
    changes = []
    for shift in itertools.product(*([(block - 1) * end for end in box[i]] for i in sorted(set(monomial)))):
        moved = {i: (box[i][0] + s, box[i][1] + s) for i, s in zip(sorted(set(monomial)), shift, strict=True)}
        full = [moved.get(i, box[i]) for i in range(len(box))]
        low, high = component_range(full, monomial)
        changes.append((high - low) / block)
    return max(changes)


def monomial_feature(entries: Sequence[Feature], monomial: Monomial) -> Feature:
    """The product of entries as a feature; squares are powers, so that engines and ranges see them as squares."""
    feature: Feature | None = None
    for i, power in sorted(Counter(monomial).items()):
        factor = entries[i] ** power
        feature = factor if feature is None else Feature("multiply", (feature, factor))
    return constant(1) if feature is None else feature


def frobenius_weight(monomial_with_intercept: Monomial) -> Fraction:
    """sqrt(number of orderings of the indices), rounded down: 1 on squares, sqrt 2 on off-diagonals."""
    return Fraction(math.isqrt(orderings(monomial_with_intercept) * DECIMALS**2), DECIMALS)


def orderings(monomial: Monomial) -> int:
    """In how many orders its indices can be written: the multinomial coefficient."""
    return math.factorial(len(monomial)) // math.prod(math.factorial(power) for power in Counter(monomial).values())
