"""A3 for moments of rows in a box: declared sensitivities against every neighbour on small domains."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import hypothesis
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moment_boxes import PARTS, RELATIONS, distance_power, is_within, largest_attack, names_of, products, schema_of

from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics.feature import column
from noisewise.statistics.moment_bounds import add_remove_bounds, change_one_bounds, change_one_fourth_bounds
from noisewise.statistics.moment_extremes import _loose_span, exact_l1, largest_cut, largest_on_cube
from noisewise.statistics.moment_rows import shrunk_box
from noisewise.statistics.moments import Moments


def test_one_record_moves_the_moments_of_the_unit_square_by_exactly_sixteen_thirds():
    schema = schema_of([(-1, 1), (-1, 1)])
    found = Moments(["x0"], "y").sensitivity(schema, norm=1, weights=[1] * 5)
    thirds = [Fraction(k, 3) for k in range(-3, 4)]
    rows = [products(row, intercept=True) for row in itertools.product(thirds, repeat=2)]
    largest = max(distance_power(a, b, [1] * 5, 1) for a, b in itertools.combinations(rows, 2))
    assert found.value == Fraction(16, 3) == largest
    assert found.is_exact


@pytest.mark.parametrize("boxes", [[(-1, 1), (-1, 1)], [(9, 10), (-1, 1)], [(-3, 0.5), (2, 4)], [(-10, -9), (0, 1)]])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("fourth", [True, False])
def test_no_neighbour_on_a_grid_is_farther_than_declared(boxes, neighbours, norm, intercept, fourth):
    """Every data set of two records on a 5 x 5 grid against every neighbour."""
    schema = schema_of(boxes, neighbours)
    moments = Moments(["x0"], "y", intercept=intercept, fourth=fourth)
    weights = moments.default_weights(schema)
    found = moments.sensitivity(schema, norm=norm, weights=weights)
    axes = [[Fraction(lo) + (Fraction(hi) - Fraction(lo)) * k / 4 for k in range(5)] for lo, hi in boxes]
    is_change = neighbours == "change-one"
    rows = [
        products(row, intercept=intercept, constant=not is_change, fourth=fourth) for row in itertools.product(*axes)
    ]
    nothing = [Fraction(0)] * len(weights)
    pairs = itertools.combinations(rows, 2) if is_change else ((row, nothing) for row in rows)
    largest = max(distance_power(a, b, weights, norm) for a, b in pairs)
    assert is_within(largest, found)
    # The search for `attained` must be at least as good as a coarse grid, and never beyond the bound.
    assert found.attained >= (float(largest) if norm == 1 else math.sqrt(largest)) * (1 - 1e-9)
    assert found.attained <= float(found.value) * (1 + 1e-15)


def test_exact_claims_are_met_by_every_data_set_of_two_records():
    """The largest distance between neighbouring *data sets* equals the bound wherever it claims to be exact."""
    schema = schema_of([(-1, 1), (-1, 1)], n=2)
    moments = Moments(["x0"], "y")
    found = moments.sensitivity(schema, norm=1, weights=[1] * 5)
    grid = list(itertools.product([Fraction(k, 3) for k in (-3, -1, 1, 3)], repeat=2))
    rows = {record: products(record, intercept=True) for record in grid}
    largest = Fraction(0)
    for kept, one, other in itertools.product(grid, repeat=3):
        before = [a + b for a, b in zip(rows[kept], rows[one], strict=True)]
        after = [a + b for a, b in zip(rows[kept], rows[other], strict=True)]
        largest = max(largest, distance_power(before, after, [1] * 5, 1))
    assert found.is_exact
    assert found.value == largest


def test_the_published_formula_is_too_small_where_zero_is_outside_the_box():
    """[w_x^2, w_x w_y, w_y^2] with widths w: x in [9, 10] has w_x = 1, but x^2 moves by 19."""
    schema = schema_of([(9, 10), (-1, 1)])
    moments = Moments(["x0"], "y", intercept=False)
    found = moments.sensitivity(schema, norm=1, weights=[1] * 3)
    far, near = products((10, 1), intercept=False), products((9, -1), intercept=False)
    truth = distance_power(far, near, [1] * 3, 1)
    published = 1 * 1 + 1 * 2 + 2 * 2
    assert truth > published
    assert found.value >= truth


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_pairs_in_random_boxes_stay_within_random_weights(data):
    number = st.fractions(-8, 8, max_denominator=6)
    p = data.draw(st.integers(2, 4))
    boxes = []
    for _ in range(p):
        low, width = data.draw(number), data.draw(st.fractions(Fraction(1, 4), 5, max_denominator=4))
        boxes.append((Fraction(float(low)), Fraction(float(low)) + Fraction(float(width))))
    neighbours, norm = data.draw(st.sampled_from(RELATIONS)), data.draw(st.sampled_from([1, 2]))
    intercept, parts = data.draw(st.booleans()), data.draw(st.sampled_from(PARTS))
    fourth = "xx" in parts and data.draw(st.booleans())
    schema = schema_of([(float(a), float(b)) for a, b in boxes], neighbours)
    moments = Moments(names_of(schema), "y", intercept=intercept, parts=parts, fourth=fourth)
    size = len(moments.pairs(schema))
    weights = data.draw(st.lists(st.fractions(Fraction(1, 9), 9, max_denominator=9), min_size=size, max_size=size))
    found = moments.sensitivity(schema, norm=norm, weights=weights)
    bounds = [(Fraction(schema.columns[c].low), Fraction(schema.columns[c].high)) for c in schema.columns]
    is_change = neighbours == "change-one"
    for _ in range(12):
        steps = [[data.draw(st.sampled_from([0, 0, 1, 2, 3, 4, 4])) for _ in range(p)] for _ in range(2)]
        u, v = ([lo + (hi - lo) * k / 4 for (lo, hi), k in zip(bounds, s, strict=True)] for s in steps)
        options = {"intercept": intercept, "parts": parts, "constant": not is_change, "fourth": fourth}
        after = products(v, **options) if is_change else [0] * size
        assert is_within(distance_power(products(u, **options), after, weights, norm), found)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_extrema_of_a_quadratic_on_a_cube_are_exact(data):
    """No grid point is higher; and the grid comes within its own resolution of the maximum."""
    p = data.draw(st.integers(1, 3))
    number = st.integers(-6, 6)
    linear = [data.draw(number) for _ in range(p)]
    square = [[data.draw(number) if j >= i else 0 for j in range(p)] for i in range(p)]
    top = largest_on_cube(0, linear, square)
    bottom = -largest_on_cube(0, [-b for b in linear], [[-q for q in row] for row in square])
    assert _loose_span((linear, square)) >= 4 * (top - bottom)
    m = 24
    axis = np.arange(m + 1) / m
    z = np.stack([a.ravel() for a in np.meshgrid(*[axis] * p, indexing="ij")])
    grid = np.array(linear) @ z + np.einsum("in,ij,jn->n", z, np.array(square), z)
    assert grid.max() <= float(top) + 1e-12
    # The maximum is a vertex of the grid in some coordinates and a critical point, where the slope is 0, in the others.
    assert float(top) - grid.max() <= np.abs(np.array(square)).sum() / (4 * m * m) + 1e-12


def rational_row(data, box, square):
    """A point of the box and the ball |v|^2 <= square, in Fractions: on a grid of quarters, or drawn in to the ball."""
    steps = [data.draw(st.sampled_from([0, 0, 1, 2, 3, 4, 4])) for _ in box]
    row = [lo + (hi - lo) * k / 4 for (lo, hi), k in zip(box, steps, strict=True)]
    length = sum(v * v for v in row)
    if square is not None and length > square:
        factor = Fraction(math.isqrt(math.floor(square / length * 10**24)), 10**12)
        row = [v * factor for v in row]
    hypothesis.assume(all(lo <= v <= hi for v, (lo, hi) in zip(row, box, strict=True)))
    return row


@settings(max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.filter_too_much])
@given(data=st.data())
def test_every_candidate_bound_holds_by_itself(data):
    """The declared value is the least of several bounds; each must hold alone, in exact arithmetic."""
    p, norm = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 2]))
    corner = st.fractions(-4, 4, max_denominator=4)
    box = [
        (low, low + data.draw(st.sampled_from([Fraction(1, 2), 1, 3, -2 * low])))
        for low in (data.draw(corner.filter(lambda c: c < 0 or c > 1)) for _ in range(p))
    ]
    box = [(min(ends), max(ends)) for ends in box]
    radius = data.draw(st.sampled_from([None, Fraction(1, 2), Fraction(1), Fraction(3)]))
    inside, kept = (box, None) if radius is None else shrunk_box(box, radius)
    square, block = (None if kept is None else kept**2), data.draw(st.integers(1, 3))
    degrees = data.draw(st.sampled_from([(1, 2), (2,), (1,), (3, 4), (4,), (3,)]))
    monomials = [m for t in degrees for m in itertools.combinations_with_replacement(range(p), t)]
    monomials = [m for m in monomials if data.draw(st.integers(0, 3)) > 0] or monomials[:1]
    weights = [data.draw(st.fractions(Fraction(1, 9), 9, max_denominator=9)) for _ in monomials]
    block = block if max(degrees) <= 2 else 1
    if max(degrees) <= 2:
        moved = change_one_bounds(inside, monomials, weights, norm, square, block)
    else:
        moved = change_one_fourth_bounds(inside, monomials, weights, norm, square)
    added = add_remove_bounds(inside, monomials, weights, norm, square)

    def components(row):
        return [math.prod((row[i] for i in m), start=Fraction(1)) / (block if len(m) == 2 else 1) for m in monomials]

    for _ in range(10):
        u, v, rest = (rational_row(data, inside, square) for _ in range(3))
        opposite = [-a for a in u]
        if all(lo <= b <= hi for b, (lo, hi) in zip(opposite, inside, strict=True)) and data.draw(st.booleans()):
            v = opposite
        first, second = ([(block - 1) * s + a for s, a in zip(rest, row, strict=True)] for row in (u, v))
        change = distance_power(components(first), components(second), weights, norm)
        for value, argument in moved:
            assert change <= (value if norm == 1 else value**2), argument
        if block == 1:
            size = distance_power(components(u), [0] * len(monomials), weights, norm)
            for value, argument in added:
                assert size <= (value if norm == 1 else value**2), argument


def test_the_largest_cut_is_the_largest():
    rng = np.random.default_rng()
    for n in range(2, 8):
        weights = np.triu(rng.random((n, n)), 1)
        brute = max(
            sum(weights[a, b] for a in range(n) for b in range(a + 1, n) if z[a] != z[b])
            for z in itertools.product((0, 1), repeat=n)
        )
        found = largest_cut(weights + weights.T)
        assert brute <= found <= brute * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_exact_l1_distance_is_the_largest_over_all_sign_patterns(data):
    """Skipping sign patterns that cannot win must not skip the winner."""
    box = [
        (Fraction(a), Fraction(a + w))
        for a, w in data.draw(st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 4)), min_size=2, max_size=2))
    ]
    monomials = [(0,), (1,), (0, 0), (0, 1), (1, 1)]
    weights = [data.draw(st.fractions(Fraction(1, 9), 9, max_denominator=9)) for _ in monomials]

    def span(signs):
        """max - min of the signed sum over the box, from its own description by largest_on_cube."""
        linear, square = [Fraction(0)] * 2, [[Fraction(0)] * 2 for _ in range(2)]
        for sign, m, w in zip(signs, monomials, weights, strict=True):
            (l0, h0), (l1, h1) = box[m[0]], box[m[-1]]
            if len(m) == 1:
                linear[m[0]] += sign * w * (h0 - l0)
                continue
            linear[m[0]] += sign * w * (h0 - l0) * l1
            linear[m[1]] += sign * w * (h1 - l1) * l0
            square[m[0]][m[1]] += sign * w * (h0 - l0) * (h1 - l1)
        negative = largest_on_cube(0, [-b for b in linear], [[-q for q in row] for row in square])
        return largest_on_cube(0, linear, square) + negative

    brute = max(span(signs) for signs in itertools.product((1, -1), repeat=5))
    assert exact_l1(box, monomials, weights) == brute


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(
    "options", [{}, {"intercept": False}, {"shrink": 2}, {"average": 3}, {"average": 2, "shrink": 1}]
)
def test_fourteen_features_have_a_certified_bound_with_its_gap(norm, options):
    schema = schema_of([(-1, 1)] * 15)
    moments = Moments(names_of(schema), "y", **options)
    found = moments.sensitivity(schema, norm=norm)
    assert found.gap <= 0.15 * float(found.value)
    rng = np.random.default_rng()
    assert largest_attack(moments, schema, norm, rng, restarts=3) <= float(found.value) * (1 + 1e-9)


def test_entries_that_share_columns_are_bounded_and_their_gap_comes_from_real_records():
    schema = Schema(
        {"x": Bounded(-1, 2), "r": Levels(["a", "b", "c"]), "y": Bounded(0, 1)}, n=4, neighbours="change-one"
    )
    x, r = column("x"), column("r")
    moments = Moments([x, x**2, r.equals("a"), r.equals("b")], "y").earlier
    for norm in (1, 2):
        weights = [float(w) for w in moments.default_weights(schema)]
        found = moments.sensitivity(schema, norm=norm)
        grid = itertools.product(np.linspace(-1, 2, 13), range(3), (0.0, 0.5, 1.0))
        rows = [products((a, a * a, float(b == 0), float(b == 1), c), intercept=True) for a, b, c in grid]
        weighted = np.array(rows) * weights
        largest = max(np.linalg.norm(weighted - row, ord=norm, axis=1).max() for row in weighted)
        assert largest <= float(found.value)
        assert found.attained >= largest * (1 - 1e-9)


def test_public_centre_and_scale_only_move_the_box():
    schema = schema_of([(9, 10), (0, 4)])
    moved = Moments(["x0"], "y", centre={"x0": 9.5, "y": 2}, scale={"x0": 0.5, "y": 2})
    plain = Moments(["x0"], "y")
    unit = schema_of([(-1, 1), (-1, 1)])
    for norm in (1, 2):
        assert moved.sensitivity(schema, norm=norm, weights=[1] * 5).value == pytest.approx(
            plain.sensitivity(unit, norm=norm, weights=[1] * 5).value, rel=1e-3
        )
    assert moved.sensitivity(schema, norm=1, weights=[1] * 5).value == Fraction(16, 3)
