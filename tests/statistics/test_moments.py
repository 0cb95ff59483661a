"""A3 for moments: declared sensitivities against every neighbour on small domains and attacks on large ones."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from fractions import Fraction

import hypothesis
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import column
from noisewise.statistics.moment_bounds import add_remove_bounds, change_one_bounds, change_one_fourth_bounds
from noisewise.statistics.moment_extremes import _loose_span, exact_l1, largest_cut, largest_on_cube
from noisewise.statistics.moment_rows import shrunk_box
from noisewise.statistics.moments import Moments, SmallestEigenvalue
from noisewise.statistics.text import statistic, statistic_from_dict

RELATIONS = ["change-one", "add-remove"]
PARTS = [("xx", "xy", "yy"), ("xx", "xy"), ("xy",), ("xx",), ("yy",), ("xy", "yy")]


def schema_of(boxes, neighbours="change-one", n=12):
    """Columns x0, x1, ..., y with the given bounds; the last is y."""
    names = [*(f"x{i}" for i in range(len(boxes) - 1)), "y"]
    size = {"n": n} if neighbours == "change-one" else {"n_max": n}
    return Schema({k: Bounded(*b) for k, b in zip(names, boxes, strict=True)}, neighbours=neighbours, **size)


def names_of(schema):
    return [name for name in schema.columns if name != "y"]


def products(row, *, intercept, parts=("xx", "xy", "yy"), constant=False, fourth=False):
    """The oracle's own list of products of one row (x.., y), in the documented order, in any arithmetic."""
    w = [1, *row] if intercept else list(row)
    last = len(w) - 1
    result = []
    for a in range(len(w)):
        for b in range(a, len(w)):
            part = "yy" if a == last else ("xy" if b == last else "xx")
            if part in parts and (constant or not (intercept and a == b == 0)):
                result.append(w[a] * w[b])
    if fourth:
        x = w[:-1]
        for q in itertools.combinations_with_replacement(range(len(x)), 4):
            if not intercept or sum(a > 0 for a in q) >= 3:
                result.append(x[q[0]] * x[q[1]] * x[q[2]] * x[q[3]])
    return result


def distance_power(a, b, weights, norm):
    """The L1 distance, or the squared L2 distance (so that it stays exact in Fractions)."""
    moved = [w * (s - t) for w, s, t in zip(weights, a, b, strict=True)]
    return sum(abs(m) for m in moved) if norm == 1 else sum(m * m for m in moved)


def is_within(power, sensitivity):
    bound = sensitivity.value if sensitivity.norm == 1 else sensitivity.value**2
    return power <= bound


# --- the box ----------------------------------------------------------------------------------------------------


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
    moments = Moments([x, x**2, r.equals("a"), r.equals("b")], "y")
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


# --- the ball ---------------------------------------------------------------------------------------------------


def shortened(v, radius):
    norm = np.linalg.norm(v)
    return v if norm <= radius else v * (radius / norm)


def largest_attack(moments, schema, norm, rng, restarts):
    """The largest distance an optimiser finds; an independent implementation of rows, blocks and products."""
    bounds = np.array([(schema.columns[c].low, schema.columns[c].high) for c in schema.columns])
    weights = np.array([float(w) for w in moments.default_weights(schema)])
    k, p = moments.average or 1, len(bounds)
    is_change = schema.is_change_one

    def statistic_of(total):
        intercept = moments.intercept
        if k == 1:
            options = {"parts": moments.parts, "constant": not is_change, "fourth": moments.fourth}
            return np.array(products(total, intercept=intercept, **options))
        scaled = [math.sqrt(k), *(total / math.sqrt(k))] if intercept else list(total / math.sqrt(k))
        last = len(scaled) - 1
        return np.array(
            [scaled[a] * scaled[b] for a in range(last + 1) for b in range(a, last + 1) if not (intercept and b == 0)]
        )

    def loss(t):
        records = bounds[:, 0] + (bounds[:, 1] - bounds[:, 0]) / (1 + np.exp(-np.clip(t, -40, 40).reshape(-1, p)))
        if moments.shrink is not None:
            records = np.array([shortened(v, float(moments.shrink)) for v in records])
        if not is_change:
            return -np.linalg.norm(weights * statistic_of(records[0]), ord=norm)
        rest = (k - 1) * records[2]
        return -np.linalg.norm(weights * (statistic_of(rest + records[0]) - statistic_of(rest + records[1])), ord=norm)

    best = 0.0
    for _ in range(restarts):
        start = rng.normal(size=3 * p) * rng.choice([0.3, 2.0, 6.0])
        for candidate in (start, np.sign(start) * 30):
            best = max(best, -loss(candidate))
        iterations = 60 if p <= 4 else 3
        best = max(best, -optimize.minimize(loss, start, method="L-BFGS-B", options={"maxiter": iterations}).fun)
    return best


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("radius", [0.5, 1, 2])
def test_no_pair_of_rows_in_the_ball_beats_the_bound(neighbours, norm, intercept, radius):
    rng = np.random.default_rng()
    for p, parts, fourth in ((2, ("xx",), False), (2, PARTS[0], True), (3, PARTS[0], False)):
        for boxes in ([(-3, 3)] * p, [(0.5, 3)] * p, [(-0.4, 3)] * p):
            schema = schema_of(boxes, neighbours)
            moments = Moments(names_of(schema), "y", intercept=intercept, parts=parts, fourth=fourth, shrink=radius)
            found = moments.sensitivity(schema, norm=norm)
            attack = largest_attack(moments, schema, norm, rng, restarts=2)
            assert attack <= float(found.value) * (1 + 1e-9)
            assert found.attained <= float(found.value) * (1 + 1e-15)


def frobenius(u, v, intercept):
    """|w w' - z z'| with w = (1, u): the matrix norm, not a list of components."""
    w, z = (np.concatenate([[1.0], r]) if intercept else np.asarray(r) for r in (u, v))
    return np.linalg.norm(np.outer(w, w) - np.outer(z, z))


@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0, 3.5])
def test_frobenius_sensitivities_in_the_ball_are_the_closed_forms_and_are_attained(radius):
    schema, removed = schema_of([(-9, 9)] * 3), schema_of([(-9, 9)] * 3, "add-remove")
    plain = Moments(names_of(schema), "y", intercept=False, shrink=radius)
    full = Moments(names_of(schema), "y", shrink=radius)
    u = np.array([radius, 0, 0])
    cosine = -min(1.0, 1 / radius**2)
    v = radius * np.array([cosine, math.sqrt(1 - cosine**2), 0])
    expected = {
        (plain, schema): (math.sqrt(2) * radius**2, frobenius(u, [0, radius, 0], False)),
        (full, schema): (
            math.sqrt(2) * (1 + radius**2) if radius >= 1 else math.sqrt(8) * radius,
            frobenius(u, v, True),
        ),
        (plain, removed): (radius**2, np.linalg.norm(np.outer(u, u))),
        (full, removed): (1 + radius**2, 1 + u @ u),
    }
    for (moments, facts), (closed_form, attained) in expected.items():
        found = moments.sensitivity(facts, norm=2)
        assert attained == pytest.approx(closed_form, rel=1e-12)
        assert float(found.value) == pytest.approx(closed_form, rel=1e-12)
        assert float(found.value) >= attained * (1 - 1e-12)  # the weights are sqrt 2 from below
        assert found.is_exact


def test_leaving_the_intercept_out_of_the_joint_ball_is_caught():
    """Planted: the sensitivity of rows without intercept, declared for rows with one."""
    schema = schema_of([(-9, 9)] * 2)
    moments = Moments(["x0"], "y", shrink=1)
    truth = frobenius([1, 0], [-1, 0], True)
    planted = Moments(["x0"], "y", intercept=False, shrink=1).sensitivity(schema, norm=2).value
    assert truth == pytest.approx(2 * math.sqrt(2))
    assert float(planted) < 0.51 * truth
    assert float(moments.sensitivity(schema, norm=2).value) == pytest.approx(2 * math.sqrt(2), rel=1e-12)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_l1_in_the_ball_keeps_the_stated_formulas(p):
    for radius in (Fraction(1, 2), Fraction(2)):
        schema, removed = schema_of([(-50, 50)] * p), schema_of([(-50, 50)] * p, "add-remove")
        moments = Moments(names_of(schema), "y", intercept=False, shrink=radius)
        ones = [1] * (p * (p + 1) // 2)
        one = moments.sensitivity(removed, norm=1, weights=ones)
        assert one.value == radius**2 * Fraction(p + 1, 2)
        assert one.is_exact
        two = moments.sensitivity(schema, norm=1, weights=ones)
        assert float(two.value) <= float(radius**2) * math.sqrt(p * (p + 3) / 2) * (1 + 1e-12)


def test_a_box_inside_the_ball_is_never_shortened():
    schema = schema_of([(-1, 1), (-1, 1)])
    assert Moments(["x0"], "y", shrink=2).sensitivity(schema, norm=1, weights=[1] * 5).value == Fraction(16, 3)


def test_fourth_moments_in_the_ball_are_bounded_jointly_and_attained():
    """|x^(4) - z^(4)|^2 = |x|^8 + |z|^8 - 2 (x.z)^4: orthogonal rows reach sqrt 2 R^4 beside sqrt 2 R^2."""
    schema = schema_of([(-9, 9)] * 3)
    moments = Moments(["x0", "x1"], "y", intercept=False, fourth=True, shrink=2)
    found = moments.sensitivity(schema, norm=2)
    u, v = np.array([2.0, 0]), np.array([0, 2.0])
    fourth = np.einsum("i,j,k,l", u, u, u, u) - np.einsum("i,j,k,l", v, v, v, v)
    truth = math.sqrt(np.sum(fourth**2) + np.sum((np.outer(u, u) - np.outer(v, v)) ** 2))
    assert float(found.value) == pytest.approx(truth, rel=1e-10)
    assert found.is_exact


def test_fourth_moments_with_intercept_count_the_odd_products_that_opposite_rows_move():
    schema = schema_of([(-9, 9)] * 3)
    moments = Moments(["x0", "x1"], "y", fourth=True, shrink=1)
    weights = [float(w) for w in moments.default_weights(schema)]
    u, v = (products(row, intercept=True, fourth=True) for row in ((0.6, 0.8, 0.0), (-0.6, -0.8, 0.0)))
    truth = math.sqrt(distance_power(u, v, weights, 2))
    found = moments.sensitivity(schema, norm=2)
    assert truth == pytest.approx(math.sqrt(24), rel=1e-10)  # 2 (1 + 1) 2 from the sums, 16 from the cubes
    assert float(found.value) == pytest.approx(truth, rel=1e-10)


# --- averaged rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_block_of_averaged_rows_beats_the_bound(k, intercept):
    rng = np.random.default_rng()
    for p, options, boxes in (
        (2, {"shrink": 1}, (-3, 3)),
        (3, {"shrink": 2}, (-0.5, 3)),
        (2, {}, (-1, 1)),
        (3, {}, (2, 3)),
    ):
        schema = schema_of([boxes] * p)
        moments = Moments(names_of(schema), "y", intercept=intercept, average=k, **options)
        for norm in (1, 2):
            found = moments.sensitivity(schema, norm=norm)
            attack = largest_attack(moments, schema, norm, rng, restarts=3)
            assert attack <= float(found.value) * (1 + 1e-9)
            assert found.attained >= attack * 0.99  # the search that states the gap is no worse than this one


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_averaged_rows_have_their_own_sensitivity_and_it_is_attained(k):
    """k equal rows R u, one of them turned to -R u: 4 R^2 (1 - 1/k), and 8 R^2 more under the root with intercept."""
    radius, schema = 1.5, schema_of([(-9, 9)] * 2, n=60)
    rows = np.tile([radius, 0.0], (k, 1))
    turned = rows.copy()
    turned[0] *= -1
    a, b = rows.sum(axis=0) / math.sqrt(k), turned.sum(axis=0) / math.sqrt(k)
    plain = np.linalg.norm(np.outer(a, a) - np.outer(b, b))
    full = math.sqrt(plain**2 + 2 * k * np.sum((a - b) ** 2))
    unaveraged = Moments(["x0"], "y", intercept=False, shrink=radius).sensitivity(schema, norm=2).value
    assert float(unaveraged) < plain  # planted: the unaveraged sensitivity is too small
    for intercept, truth in ((False, plain), (True, full)):
        found = Moments(["x0"], "y", intercept=intercept, shrink=radius, average=k).sensitivity(schema, norm=2)
        assert float(found.value) == pytest.approx(truth, rel=1e-12)
        assert found.is_exact


def test_rows_moved_before_the_products_stay_within_the_widened_bound():
    rng = np.random.default_rng()
    schema = schema_of([(-1, 1)] * 2)
    move = Fraction(1, 64)
    for options in ({"average": 3}, {"average": 3, "shrink": 1}, {"shrink": 1}):
        moments = Moments(["x0"], "y", **options)
        k, weights = moments.block, np.array([float(w) for w in moments.default_weights(schema)])
        divisors = np.array(moments.divisors(schema))
        for norm in (1, 2):
            found = moments.rounded_sensitivity(schema, entry_moves=[move, move], norm=norm)
            assert found.value > moments.sensitivity(schema, norm=norm).value
            corners = rng.choice([-1.0, 1.0, 0.3], size=(4000, 3, 2))
            rows = corners if moments.shrink is None else np.array([[shortened(v, 1.0) for v in c] for c in corners])
            rows = rows + rng.choice([-1, 1], size=rows.shape) * float(move)
            totals = [(k - 1) * rows[:, 2] + rows[:, side] for side in (0, 1)]
            first, second = (np.array(products(t.T, intercept=True)).T / divisors for t in totals)
            assert np.linalg.norm(weights * (first - second), ord=norm, axis=1).max() <= float(found.value)


# --- the smallest eigenvalue ------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_one_record_moves_the_smallest_eigenvalue_by_at_most_the_radius_squared(neighbours):
    rng = np.random.default_rng()
    schema = schema_of([(-9, 9)] * 3, neighbours)
    smallest = SmallestEigenvalue(["x0", "x1"], shrink=2)
    found = smallest.sensitivity(schema, norm=2)
    assert found.value == 4
    assert found.is_exact
    axes = {"x0": np.array([2.0, 0, 0]), "x1": np.array([0, 2.0, 2.0])}
    less = {"x0": np.array([0.0, 0, 0]), "x1": axes["x1"]}
    assert smallest.value(axes, schema)[0] - smallest.value(less, schema)[0] == pytest.approx(4)
    for _ in range(300):
        data = {name: rng.uniform(-9, 9, size=5) for name in ("x0", "x1")}
        after = {name: np.concatenate([[rng.uniform(-9, 9)], values[1:]]) for name, values in data.items()}
        if neighbours == "add-remove":
            after = {name: values[1:] for name, values in data.items()}
        assert abs(smallest.value(data, schema)[0] - smallest.value(after, schema)[0]) <= 4 + 1e-9


def test_the_gram_row_sums_to_the_gram_matrix():
    rng = np.random.default_rng()
    schema = schema_of([(-9, 9)] * 4)
    smallest = SmallestEigenvalue(["x0", "x1", "x2"], shrink=3, centre={"x1": 1}, scale={"x2": 4})
    data = {name: rng.uniform(-9, 9, size=20) for name in names_of(schema)}
    x = np.stack([data["x0"], data["x1"] - 1, data["x2"] / 4], axis=1)
    x = np.array([shortened(row, 3.0) for row in x])
    gram = [feature.value(data, schema).sum() for feature in smallest.gram_row(schema)]
    assert gram == pytest.approx((x.T @ x)[np.triu_indices(3)])
    assert smallest.value(data, schema)[0] == pytest.approx(np.linalg.eigvalsh(x.T @ x)[0], abs=1e-9)


# --- values, descriptions, input --------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("intercept", [True, False])
def test_values_rows_pairs_and_labels_describe_the_same_sums(neighbours, parts, intercept):
    rng = np.random.default_rng()
    schema = schema_of([(-2, 2)] * 3, neighbours)
    fourth = "xx" in parts
    moments = Moments(["x0", "x1"], "y", intercept=intercept, parts=parts, fourth=fourth, shrink=2, scale={"y": 2})
    data = {name: rng.uniform(-2, 2, size=12) for name in schema.columns}
    rows = np.array([shortened(v, 2.0) for v in np.stack([data["x0"], data["x1"], data["y"] / 2], axis=1)])
    is_counted = neighbours == "add-remove"
    expected = [
        np.sum(t * np.ones(12))
        for t in products(rows.T, intercept=intercept, parts=parts, constant=is_counted, fourth=fourth)
    ]
    assert moments.value(data, schema) == pytest.approx(expected)
    by_row = [np.sum(f.value(data, schema) * np.ones(12)) for f in moments.row(schema)]
    assert by_row == pytest.approx(expected)
    w = [np.ones(12), *rows.T] if intercept else list(rows.T)
    by_pairs = [np.prod([w[a] for a in pair], axis=0).sum() for pair in moments.pairs(schema)]
    assert by_pairs == pytest.approx(expected)
    assert len(moments.labels(schema)) == len(set(moments.labels(schema))) == len(expected)
    assert ("n" in moments.labels(schema)) == (is_counted and intercept and "xx" in parts)
    batch = {name: np.stack([values, values[::-1]]) for name, values in data.items()}
    assert moments.value(batch, schema)[1] == pytest.approx(expected)


def test_averaged_values_are_moments_of_block_means_times_root_k():
    rng = np.random.default_rng()
    schema = schema_of([(-2, 2)] * 2, n=12)
    data = {name: rng.uniform(-2, 2, size=12) for name in schema.columns}
    w = np.stack([np.ones(12), data["x0"], data["y"]], axis=1).reshape(4, 3, 3).sum(axis=1) / math.sqrt(3)
    gram = w.T @ w
    value = Moments(["x0"], "y", average=3).value(data, schema)
    assert value == pytest.approx(gram[np.triu_indices(3)][1:])
    assert gram[0, 0] == pytest.approx(12)
    assert Moments(["x0"], "y", average=3).divisors(schema) == (1, 1, 3, 3, 3)


def test_the_evaluation_error_of_every_component_is_within_its_enclosure():
    """Sixty digits against floats; the lattice takes its slack from these errors."""
    rng = np.random.default_rng()
    schema = schema_of([(-3, 7), (0.1, 0.9), (-1, 1)])
    centre, scale = {"x0": 0.1, "y": "1/3"}, {"x0": 3, "x1": 0.7, "y": 11}
    for shrink in (None, 0.3, 1.7):
        moments = Moments(["x0", "x1"], "y", centre=centre, scale=scale, shrink=shrink, fourth=True)
        row = moments.row(schema)
        errors = [feature_range(feature, schema)[2] for feature in row]
        with mpmath.workdps(60):
            for _ in range(40):
                record = {c: float(rng.uniform(b.low, b.high)) for c, b in schema.columns.items()}
                computed = [f.value({c: np.array([v]) for c, v in record.items()}, schema) for f in row]
                x0 = (mpmath.mpf(record["x0"]) - mpmath.mpf(0.1)) * mpmath.mpf(1 / 3)
                x1 = mpmath.mpf(record["x1"]) * mpmath.mpf(float(1 / Fraction(7, 10)))
                y = (mpmath.mpf(record["y"]) - mpmath.mpf(1 / 3)) * mpmath.mpf(1 / 11)
                norm = mpmath.sqrt(x0 * x0 + x1 * x1 + y * y)
                by = 1 if shrink is None else min(mpmath.mpf(1), mpmath.mpf(shrink) / norm)
                exact = products([x0 * by, x1 * by, y * by], intercept=True, fourth=True)
                for value, truth, error in zip(computed, exact, errors, strict=True):
                    assert abs(mpmath.mpf(float(value[0])) - truth) <= error


def test_default_weights_are_frobenius_from_below_in_a_ball_and_unit_ranges_in_a_box():
    schema = schema_of([(-1, 1), (0, 4)])
    ball = Moments(["x0"], "y", shrink=1).default_weights(schema)
    assert [w == 1 for w in ball] == [False, False, True, False, True]
    root = ball[0]
    assert root**2 < 2 < (root + Fraction(1, 10**12)) ** 2
    box = Moments(["x0"], "y").default_weights(schema)
    assert box == (Fraction(1, 2), Fraction(1, 4), Fraction(1), Fraction(1, 8), Fraction(1, 16))


def test_the_release_form_reads_back_as_the_same_statistic():
    plain = Moments(["age", "bmi"], "cost", shrink=1.7)
    assert plain.to_dict() == {
        "kind": "moments", "features": ["age", "bmi"], "response": "cost", "intercept": True,
        "parts": ["xx", "xy", "yy"], "centre": {}, "scale": {}, "shrink": 1.7,
    }  # fmt: skip
    assert str(plain) == "moments([age, bmi], cost, shrink=1.7)"
    a = column("age")
    for moments in (
        plain,
        Moments([a, a**2], "the cost", intercept=False, centre={"age": "1/3", "the cost": -2}, scale={"age**2": 1.5}),
        Moments("age", "cost", parts=["yy", "xx"], fourth=True),
        Moments("age", "cost", average=4),
        SmallestEigenvalue(["age", "bmi"], shrink="1/3", centre={"age": 40}),
    ):
        assert statistic_from_dict(json.loads(json.dumps(moments.to_dict()))) == moments
        assert statistic(str(moments)) == moments
        assert pickle.loads(pickle.dumps(moments)) == moments
        assert hash(moments) == hash(pickle.loads(pickle.dumps(moments)))
    assert statistic_from_dict(plain.to_dict()) == plain


BAD = [float("nan"), float("inf"), -1, 0, "", True, 10**400, [[1]]]


@pytest.mark.parametrize("bad", [*BAD, None])
def test_bad_arguments_are_refused_by_name(bad):
    for argument in ("features", "parts", "intercept", "fourth"):
        if bad is True and argument in ("intercept", "fourth"):
            continue
        given = {"features": ["x0"], "response": "y", argument: bad}
        with pytest.raises(NoisewiseError):
            Moments(**given)
    with pytest.raises(NoisewiseError):
        Moments(["x0"], bad)
    for argument in ("centre", "scale", "shrink", "average"):
        if bad is not None:
            with pytest.raises(NoisewiseError):
                Moments(["x0"], "y", **{argument: bad})
            if argument == "scale" or (argument == "centre" and (bad is True or bad not in (0, -1))):
                with pytest.raises(NoisewiseError):
                    Moments(["x0"], "y", **{argument: {"x0": bad}})
    with pytest.raises(NoisewiseError):
        SmallestEigenvalue(["x0"], shrink=bad)
    with pytest.raises(NoisewiseError):
        SmallestEigenvalue(bad, shrink=1)


def test_what_cannot_be_private_or_computed_is_refused():
    schema, removed = schema_of([(-1, 1)] * 2, n=12), schema_of([(-1, 1)] * 2, "add-remove")
    with pytest.raises(Unsupported, match="change-one"):
        Moments(["x0"], "y", average=2).sensitivity(removed)
    with pytest.raises(InvalidArgument, match="does not divide"):
        Moments(["x0"], "y", average=5).sensitivity(schema)
    with pytest.raises(Unsupported):
        Moments(["x0"], "y", average=2, fourth=True)
    with pytest.raises(InvalidArgument, match="twice"):
        Moments(["x0", "y"], "y")
    with pytest.raises(InvalidArgument, match="not one of"):
        Moments(["x0"], "y", centre={"age": 1})
    with pytest.raises(InvalidArgument, match="weights"):
        Moments(["x0"], "y").sensitivity(schema, weights=[1])
    with pytest.raises(InvalidArgument, match="norm"):
        Moments(["x0"], "y").sensitivity(schema, norm=3)
    with pytest.raises(InvalidArgument, match="overflow"):
        Moments(["x0"], "y", scale={"x0": 1e-90}).sensitivity(schema)
