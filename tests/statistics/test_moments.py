"""Moments: their values, how they are described, and which arguments are refused."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from moment_boxes import PARTS, RELATIONS, products, schema_of, shortened

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.planning import plan
from noisewise.privacy.guarantee import PureDP
from noisewise.statistics.eigenvalue import SmallestEigenvalue
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import column
from noisewise.statistics.moments import Moments
from noisewise.statistics.text import statistic, statistic_from_dict


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
    nothing = column("x0").between(5, 6)  # outside the bounds, so 0 for every record: its step was looked for for ever
    with pytest.raises(InvalidArgument, match="0 for every record"):
        plan(Moments([nothing], "y", shrink=1, average=2), schema, guarantee=PureDP(1))
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
