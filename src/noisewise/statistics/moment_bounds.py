"""How far one record moves sums of products: joint sensitivities of moments, exact or proved.

A row of a table is v = (v_1..v_p) in a box, or a box and the ball |v| <= R where rows are shortened. Components are
monomials in v: () is the constant 1, (i,) an entry (a product with the intercept), (i, j) a product of two, four
indices a fourth moment. With public weights w,

    add-remove   sup_v    || w * f(v) ||          change-one   sup_{u,v} || w * (f(u) - f(v)) ||

and, for rows averaged in blocks of k, sup over u, v and the sum S of the other k - 1 rows of the same with
f(S + u) - f(S + v), products of two divided by k. `value` is the least of several proved bounds; `attained` is
reached by records that exist, so the gap between the two is honest. The proofs are in docs/sensitivity-of-moments.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from noisewise.exact import float_above, root_above
from noisewise.schema import Schema
from noisewise.statistics.enclosure import Array
from noisewise.statistics.feature import Feature
from noisewise.statistics.moment_extremes import (
    LARGEST_CUT,
    Rows,
    exact_l1,
    exact_l1_is_affordable,
    farthest,
    largest_cut,
)
from noisewise.statistics.moment_rows import (
    Box,
    Monomial,
    component_range,
    entry_box,
    fills_its_box,
    frobenius_weight,
    largest_change,
    monomial_feature,
    orderings,
    outer_box,
    shrunk_box,
)
from noisewise.statistics.sensitivity import Sensitivity, joint_sensitivity, norm_above, weights_above

Bound = tuple[Fraction, str]


def moment_sensitivity(
    entries: Sequence[Feature],
    monomials: Sequence[Monomial],
    schema: Schema,
    *,
    norm: int,
    weights: Sequence[Fraction],
    radius: Fraction | None = None,
    block: int = 1,
    rounding: Sequence[Fraction] | None = None,
) -> Sensitivity:
    """The joint sensitivity of the weighted sums of monomials in the entries of a (shortened, averaged) row.

    `rounding[i]` bounds how far entry i may be moved before the products are taken: the bound then holds for the
    moved rows as well, because they lie in the widened box and ball.
    """
    weights = weights_above(weights)
    box = entry_box(entries, schema)
    if radius is not None:
        box, radius = shrunk_box(box, radius)
        box = outer_box(box)
    rows = Rows(tuple(entries), tuple(monomials), schema, None if radius is None else float(radius), block)
    is_free = radius is None and rounding is None and fills_its_box(entries, schema)
    if rounding is not None:
        box = [(low - r, high + r) for (low, high), r in zip(box, rounding, strict=True)]
        radius = None if radius is None else radius + norm_above(rounding, 2)
    square = None if radius is None else radius * radius
    pairs = [k for k, m in enumerate(monomials) if len(m) <= 2]
    fourths = [k for k, m in enumerate(monomials) if len(m) > 2]
    bounds = []
    for group in (pairs, fourths):
        m, w = [monomials[k] for k in group], [weights[k] for k in group]
        if not schema.is_change_one:
            candidates = add_remove_bounds(box, m, w, norm, square)
        elif group is fourths:
            candidates = change_one_fourth_bounds(box, m, w, norm, square)
        else:
            candidates = change_one_bounds(box, m, w, norm, square, block)
            if radius is None and rounding is None and block == 1 and norm == 2 and w:
                candidates += _branch_and_bound(entries, m, schema, norm, w)
        bounds.append(min(candidates, key=lambda bound: bound[0]))
    value = norm_above([bound[0] for bound in bounds], norm) if fourths else bounds[0][0]
    argument = bounds[0][1] if not fourths else f"{bounds[0][1]}; fourth moments: {bounds[1][1]}"
    if is_free and (argument == EXACT_L1 or not schema.is_change_one):
        reached = float(value)
    else:
        reached = farthest(rows, norm=norm, weights=weights)
    return Sensitivity(value, min(reached, float(value)), norm, argument)


# --- add-remove -------------------------------------------------------------------------------------------------


def add_remove_bounds(
    box: Box, monomials: Sequence[Monomial], weights: Sequence[Fraction], norm: int, square: Fraction | None
) -> list[Bound]:
    """sup ||w f(v)||: at the vertex farthest from 0, where every |f_k| is largest at once; or in the ball."""
    far = [max(abs(low), abs(high)) for low, high in box]
    terms = [w * math.prod((far[i] for i in m), start=Fraction(1)) for m, w in zip(monomials, weights, strict=True)]
    bounds = [(norm_above(terms, norm), "every product is largest at the same corner of the box")]
    if square is not None and norm == 2:
        bounds.append((_ball_add_remove_l2(monomials, weights, square), BALL))
    elif square is not None:
        bounds.append((_ball_add_remove_l1(len(box), monomials, weights, square), BALL))
    return bounds


BALL = "rows in a ball, jointly"
EXACT_L1 = "exact extrema of every signed sum"


def _ball_add_remove_l2(monomials: Sequence[Monomial], weights: Sequence[Fraction], square: Fraction) -> Fraction:
    """By degree t: sum_k w_k^2 v^(2 a_k) <= max_k (w_k^2 / orderings_k) (|v|^2)^t, the multinomial theorem."""
    largest: dict[int, Fraction] = {}
    for m, w in zip(monomials, weights, strict=True):
        largest[len(m)] = max(largest.get(len(m), Fraction(0)), _ratio(m, w) ** 2)
    return root_above(sum((ratio * square**t for t, ratio in largest.items()), Fraction(0)))


def _ball_add_remove_l1(
    p: int, monomials: Sequence[Monomial], weights: Sequence[Fraction], square: Fraction
) -> Fraction:
    """Degree <= 2: x' W x with x = (1, |v|), W >= 0. For every x > 0 (Collatz and Wielandt), W <= diag(m_0, m..m)
    with m_0 = (W x)_0 / x_0 and m = max_i (W x)_i / x_i, so m_0 + m R^2 is a bound; the maximiser makes it tight.
    Higher degrees t: Cauchy and Schwarz, sqrt(sum_k w_k^2 / orderings_k) R^t."""
    matrix = [[Fraction(0)] * (p + 1) for _ in range(p + 1)]
    rest: dict[int, Fraction] = {}
    for m, w in zip(monomials, weights, strict=True):
        if len(m) > 2:
            rest[len(m)] = rest.get(len(m), Fraction(0)) + w * w / orderings(m)
            continue
        a, b = ([0, 0, *(i + 1 for i in m)])[-2:]
        matrix[a][b] += w / 2
        matrix[b][a] += w / 2
    higher = sum((root_above(total * square**t) for t, total in rest.items()), Fraction(0))
    if len(rest) == len({len(m) for m in monomials}):
        return higher
    x = [Fraction(value) for value in _largest_in_ball(np.array(matrix, dtype=float), math.sqrt(square))]
    image = [sum((matrix[a][b] * x[b] for b in range(p + 1)), Fraction(0)) for a in range(p + 1)]
    return image[0] / x[0] + max(image[a] / x[a] for a in range(1, p + 1)) * square + higher


def _largest_in_ball(matrix: Array, radius: float) -> Array:
    """x = (1, v) with v > 0, |v| = R near the maximiser of x' W x: a shifted power iteration."""
    p = len(matrix) - 1
    x = np.concatenate([[1.0], np.full(p, radius / math.sqrt(p))])
    floor = 2.0**-60 * radius
    for _ in range(2000):
        gradient = (matrix @ x)[1:] + np.abs(matrix).max() * 0.5 * x[1:]
        size = float(np.sqrt((gradient**2).sum()))
        new = np.maximum(radius * gradient / size, floor) if size > 0 else x[1:]
        if np.abs(new - x[1:]).max() <= 2.0**-52 * radius:
            break
        x[1:] = new
    return x


# --- change-one -------------------------------------------------------------------------------------------------


def change_one_bounds(
    box: Box,
    monomials: Sequence[Monomial],
    weights: Sequence[Fraction],
    norm: int,
    square: Fraction | None,
    block: int,
) -> list[Bound]:
    """Proved bounds on sup ||w (f(S + u) - f(S + v))|| for monomials of degree one and two."""
    if not monomials:
        return [(Fraction(0), "nothing is released")]
    changes = [w * largest_change(box, m, block) for m, w in zip(monomials, weights, strict=True)]
    bounds = [(norm_above(changes, norm), "each component over its whole range")]
    around = sum((max(low * low, high * high) for low, high in box), Fraction(0))
    bounds.append((ball_change_one(monomials, weights, norm, around if square is None else square, block), BALL))
    shares = [w / block if len(m) == 2 else w for m, w in zip(monomials, weights, strict=True)]
    if norm == 1 and exact_l1_is_affordable(box, monomials, block):
        bounds.append((exact_l1(box, monomials, shares, block), EXACT_L1))
    if block > 1:
        # f(S+u) - f(S+v) = f(u) - f(v) + (S e' + e S') / k with e = u - v: the triangle inequality.
        crossed = [
            w * (block - 1) * (_far(box[m[0]]) * _width(box[m[1]]) + _far(box[m[1]]) * _width(box[m[0]]))
            for m, w in zip(monomials, shares, strict=True)
            if len(m) == 2
        ]
        alone = min(change_one_bounds(box, monomials, shares, norm, square, 1), key=lambda bound: bound[0])
        return [
            *bounds,
            (alone[0] + norm_above(crossed, norm), "one row's own change and its products with the others"),
        ]
    twice = min(bound[0] for bound in add_remove_bounds(box, monomials, weights, norm, square))
    bounds.append((2 * twice, "twice the largest row"))
    if len(box) + 1 <= LARGEST_CUT:
        bounds.append((_cut_bound(box, monomials, weights, norm), "signs cut the products in two"))
    return bounds


def change_one_fourth_bounds(
    box: Box, monomials: Sequence[Monomial], weights: Sequence[Fraction], norm: int, square: Fraction | None
) -> list[Bound]:
    if not monomials:
        return [(Fraction(0), "nothing is released")]
    changes = [w * largest_change(box, m) for m, w in zip(monomials, weights, strict=True)]
    twice = min(bound[0] for bound in add_remove_bounds(box, monomials, weights, norm, square))
    around = sum((max(low * low, high * high) for low, high in box), Fraction(0)) if square is None else square
    return [
        (norm_above(changes, norm), "each component over its whole range"),
        (2 * twice, "twice the largest row"),
        (_ball_fourth(monomials, weights, norm, around), BALL),
    ]


def _ball_fourth(monomials: Sequence[Monomial], weights: Sequence[Fraction], norm: int, square: Fraction) -> Fraction:
    """Degrees 3 and 4, L2, largest squared ratios a_t to Frobenius': with c = u.v the squared distance is at most
    2 (a_3 R^6 + a_4 R^8) - 2 (a_3 c^3 + a_4 c^4), least at c = -min(R^2, 3 a_3 / 4 a_4). L1: degree by degree."""
    if norm == 1:
        total = Fraction(0)
        for degree, furthest in ((3, 4 * square**3), (4, 2 * square**4)):
            share = sum((w * w / orderings(m) for m, w in zip(monomials, weights, strict=True) if len(m) == degree), 0)
            total += root_above(share * furthest)
        return total
    a3, a4 = (
        max(
            (_ratio(m, w) ** 2 for m, w in zip(monomials, weights, strict=True) if len(m) == degree),
            default=Fraction(0),
        )
        for degree in (3, 4)
    )
    c = -min(square, 3 * a3 / (4 * a4)) if a4 else -square
    return root_above(2 * (a3 * square**3 + a4 * square**4) - 2 * (a3 * c**3 + a4 * c**4))


def ball_change_one(
    monomials: Sequence[Monomial], weights: Sequence[Fraction], norm: int, square: Fraction, block: int = 1
) -> Fraction:
    """Rows with |v|^2 <= R^2 = `square`. L2, a and b the largest ratios of weights of products and sums to Frobenius',

        a sqrt2 R^2 without sums;  sqrt2 (a R^2 + b^2/a) if b <= a R;  sqrt8 b R otherwise;
        blocks of k >= 2:  sqrt(a^2 (4 R^2 (1 - 1/k))^2 + 8 b^2 R^2).

    L1: by Cauchy and Schwarz from the L2 bound at the best ratio s = b^2/a^2. A ball of radius 0 moves nothing.
    """
    if not square:
        return Fraction(0)
    products = [(m, w) for m, w in zip(monomials, weights, strict=True) if len(m) == 2]
    sums = [w for m, w in zip(monomials, weights, strict=True) if len(m) == 1]
    if norm == 2:
        a = max((_ratio(m, w) for m, w in products), default=Fraction(0))
        b = max((w / frobenius_weight((0, 1)) for w in sums), default=Fraction(0))
        return root_above(_ball_square(a * a, b * b, square, block))
    q = sum((w * w / orderings(m) for m, w in products), Fraction(0))
    el = sum((w * w / 2 for w in sums), Fraction(0))
    if not products or not sums or block > 1:
        return root_above(q * _ball_square(Fraction(1), Fraction(0), square, block)) + root_above(8 * el * square)
    ratio = el / q
    best = (math.sqrt(ratio * ratio + 8 * ratio * square) - float(ratio)) / 4
    s = min(Fraction(best), square) if best > 0 else square
    return root_above((q + el / s) * _ball_square(Fraction(1), s, square, block))


def _ball_square(a2: Fraction, b2: Fraction, square: Fraction, block: int) -> Fraction:
    """The squared L2 bound of `ball_change_one` for squared ratios a^2, b^2."""
    if block > 1:
        return a2 * (4 * square * (1 - Fraction(1, block))) ** 2 + 8 * b2 * square
    if b2 > a2 * square:
        return 8 * b2 * square
    return 2 * a2 * (square + b2 / a2) ** 2 if a2 else Fraction(0)


def _cut_bound(box: Box, monomials: Sequence[Monomial], weights: Sequence[Fraction], norm: int) -> Fraction:
    """v = c + h z, z in [-1, 1]^p. |z_i z_j - z'_i z'_j| and |z_i - z'_i| are convex in each coordinate, so their
    weighted sum is largest at vertices, where it is a cut of the signs z z'. Squares vanish there and are bounded by
    their ranges; what the centre c adds is linear in z."""
    half = [(high - low) / 2 for low, high in box]
    centre = [abs(high + low) / 2 for low, high in box]
    graph = [[Fraction(0)] * (len(box) + 1) for _ in range(len(box) + 1)]
    fixed, shifted = [], []
    for m, w in zip(monomials, weights, strict=True):
        i, j = ([-1, *m])[-2:]
        if i == j:
            low, high = component_range(box, m)
            fixed.append(w * (high - low))
            continue
        size = w * half[j] * (half[i] if i >= 0 else 1)
        graph[i + 1][j + 1] += size if norm == 1 else size * size
        if i < 0:
            continue
        if norm == 1:
            graph[0][i + 1] += w * centre[j] * half[i]
            graph[0][j + 1] += w * centre[i] * half[j]
        else:
            shifted.append(2 * w * (centre[i] * half[j] + centre[j] * half[i]))
    top = max(max(row) for row in graph) or Fraction(1)
    upper = np.array([[float_above(term / top) for term in row] for row in graph])
    cut = top * Fraction(largest_cut(upper + upper.T))
    if norm == 1:
        return 2 * cut + norm_above(fixed, 1)
    return root_above(4 * cut + sum((term * term for term in fixed), Fraction(0))) + norm_above(shifted, 2)


def _branch_and_bound(
    entries: Sequence[Feature], monomials: Sequence[Monomial], schema: Schema, norm: int, weights: Sequence[Fraction]
) -> list[Bound]:
    if len(frozenset().union(*(entry.columns() for entry in entries))) > 3:
        return []
    found = joint_sensitivity([monomial_feature(entries, m) for m in monomials], schema, norm=norm, weights=weights)
    # Its ranges come from floats: the margin is far above their rounding and far below any noise.
    return [(found.value * (1 + Fraction(1, 2**40)), found.argument)]


def _ratio(monomial: Monomial, weight: Fraction) -> Fraction:
    """The weight over its Frobenius weight; at least the true ratio, since that weight is rounded down."""
    return weight / frobenius_weight(monomial)


def _far(ends: tuple[Fraction, Fraction]) -> Fraction:
    return max(abs(ends[0]), abs(ends[1]))


def _width(ends: tuple[Fraction, Fraction]) -> Fraction:
    return ends[1] - ends[0]
