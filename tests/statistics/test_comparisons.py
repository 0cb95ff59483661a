"""Logarithms, exponentials, comparisons and windows of one point: values, ranges, sensitivities and probabilities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, InvalidSpec, NoisewiseError, Unsupported
from noisewise.populations.cleaned import cell_probabilities, row_moments
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics.additive import Count, Sum, TruncatedSum
from noisewise.statistics.enclosure import EnclosureAlgebra, feature_range
from noisewise.statistics.feature import Feature, column
from noisewise.statistics.text import feature_from_text, statistic

X, Y = column("x"), column("y")
SCHEMA = Schema(
    {"x": Bounded(-3, 5), "y": Bounded(2, 7), "group": Levels(["a", "b", "c"])}, n=10, neighbours="change-one"
)
EDGE_VALUES = np.array(
    [-3, -5e-324, 0, 5e-324, 0.1, 0.30000000000000004, 0.3, 2.9999999999999996, 3, 3.0000000000000004, 5]
)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (X > 3, lambda v: v > 3),
        (X >= 3, lambda v: v >= 3),
        (X < 3, lambda v: v < 3),
        (X <= 3, lambda v: v <= 3),
        (X > 0, lambda v: v > 0),
        (X < 0, lambda v: v < 0),
        (X > 0.3, lambda v: v > 0.3),
        (X <= 0.3, lambda v: v <= 0.3),
        (X.between(3, 3), lambda v: v == 3),
    ],
)
def test_a_comparison_holds_for_exactly_the_doubles_it_names(
    made: Feature, expected: Callable[..., np.ndarray]
) -> None:
    """Clamped records are doubles, the neighbours of the edge among them, so strict and not strict differ."""
    np.testing.assert_array_equal(made.value({"x": EDGE_VALUES}, SCHEMA), expected(EDGE_VALUES).astype(float))


def test_two_features_are_compared_by_the_sign_of_their_difference_which_rounding_keeps() -> None:
    x = np.array([2.0, math.nextafter(2, 3), 3.0, 1e-320, 0.0])
    y = np.array([2.0, 2.0, math.nextafter(3, 4), 0.0, 1e-320])
    for made, expected in ((X > Y, x > y), (X >= Y, x >= y), (X < Y, x < y), (X <= Y, x <= y)):
        np.testing.assert_array_equal(made.value({"x": x, "y": y}, SCHEMA), expected.astype(float))


@pytest.mark.parametrize(
    "text",
    [
        "x > 3", "x >= 3", "x < 3", "x <= -2.5", "x > 0", "x < 0", "x >= 0.1", "x > 0.1", "x - y > 0", "x**2 <= 4",
        "(x > 3)*y", "(x > 3) + 1", "abs(x > 3)", "(x > 3) >= 1", "log(y)", "exp(x)", "log(exp(x) + 1)", "-1*(x > 3)",
        "(x > 3)**2", "between(x, 3, 3)", "log(y)*exp(x/2)", "0 < x <= 3", "-2 < x < 0", "0 < x < 0.5", "2 >= x > 1",
        "x < 9007199254740993",
    ],
)  # fmt: skip
def test_what_is_new_in_the_language_prints_as_text_that_reads_back_unchanged(text: str) -> None:
    feature = feature_from_text(text)
    assert feature_from_text(str(feature)) == feature
    assert hash(feature_from_text(str(feature))) == hash(feature)


def test_a_strict_comparison_prints_as_it_was_written() -> None:
    assert [str(one) for one in (X > 50, X >= 50, X < 0, X <= 0.1, X > Y)] == [
        "x > 50", "x >= 50", "x < 0", "x <= 0.1", "x - y > 0",
    ]  # fmt: skip
    assert str(feature_from_text("0 < x <= 10")) == "0 < x <= 10"
    assert str(feature_from_text("2 <= x <= 10")) == "between(x, 2, 10)"
    assert (X > 50) == X.__ge__(math.nextafter(50, 51))  # one condition, one request


def test_features_stay_equal_by_value_and_usable_as_keys() -> None:
    assert (X == Y) is False
    assert (column("x") == X) is True
    assert {X: 1, X > 3: 2}[column("x") > 3] == 2
    with pytest.raises(TypeError, match=r"between\(a, b\)"):
        bool(0 < X < 3)  # type: ignore[operator]


@pytest.mark.parametrize("value", ["north", True, None, math.nan, math.inf, "", [3], 2**2000])
def test_a_comparison_with_anything_but_a_number_or_a_feature_is_refused(value: object) -> None:
    with pytest.raises(NoisewiseError):
        X.__gt__(value)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("count(group == 'a')", "equals(region, 'north')"),
        ("count(x != 3)", "1 - equals"),
        ("count(x > 1 and y < 2)", "product"),
        ("count(not x > 1)", "1 - equals"),
        ("count(3 < x > 1)", "comparisons such as"),
        ("mean(3 > 2)", "comparisons such as"),
        ("variance(x)", "mean(x, x**2)"),
        ("std(x)", "mean(x, x**2)"),
        ("avg(x)", "mean(x)"),
        ("proportion(x > 3)", "mean(x > 50)"),
        ("histogram(x, 10)", "histogram(x, [20, 40, 60])"),
        ("histogram(group, sex)", "marginals([group, sex])"),
        ("medain(x)", "did you mean 'median'"),
        ("mean(x, bye=group)", "mean takes no 'bye'"),
        ("quantile(x)", "quantile(income, 0.9)"),
        ("moments([x])", "moments([age, income], cost)"),
        ("histogram(x, bins=3)", "histogram(age, [20, 40, 60])"),
        ("mean(x / y)", "by a number"),
        ("mean(x", "brackets"),
    ],
)
def test_a_wrong_statistic_is_answered_with_what_to_write(text: str, way: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        statistic(text)
    said = str(caught.value)
    assert way in said
    for word in ("__init__", "positional argument", "unexpected keyword", "lambda", "required"):
        assert word not in said  # never Python's own words


@pytest.mark.parametrize(
    ("text", "kind"), [("log(x)", Unsupported), ("log(x + 3)", Unsupported), ("exp(x*200)", InvalidArgument),
                       ("exp(-200*x)", InvalidArgument), ("exp(exp(x*2))", InvalidArgument)]
)  # fmt: skip
def test_logarithms_of_0_and_exponentials_beyond_doubles_are_refused_with_the_way_out(
    text: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="clip") as caught:
        feature_range(feature_from_text(text), SCHEMA)
    assert "Nothing was spent" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["log(y)", "exp(x)", "log(x + 4)*y", "exp(x*y/10) - log(y)", "log(exp(x) + y**2)", "exp(log(y)*0.3)"]
)
def test_ranges_and_rounding_errors_of_log_and_exp_hold_against_high_precision(text: str) -> None:
    """Oracle: 60 decimal digits (mpmath), at records in the box and at its corners."""
    mpmath = pytest.importorskip("mpmath")
    feature = feature_from_text(text)
    rng = np.random.default_rng()
    low, high, error = feature_range(feature, SCHEMA)
    names = {"log": mpmath.log, "exp": mpmath.exp}
    points = [*zip(rng.uniform(-3, 5, 60), rng.uniform(2, 7, 60), strict=True), (-3, 2), (5, 7), (-3, 7), (5, 2)]
    with mpmath.workdps(60):
        for x, y in points:
            constants = {"x": mpmath.mpf(float(x)), "y": mpmath.mpf(float(y))}
            exact = eval(text.replace("0.3", "mpf(0.3)"), {**names, "mpf": mpmath.mpf, **constants})
            boxes = {name: (np.array([float(v)]), np.array([float(v)])) for name, v in constants.items()}
            own = feature.fold(EnclosureAlgebra(SCHEMA, boxes))
            computed = feature.value({"x": np.array([float(x)]), "y": np.array([float(y)])}, SCHEMA)[0]
            assert abs(mpmath.mpf(float(computed)) - exact) <= mpmath.mpf(float(own.error[0]))
            assert low - error <= exact <= high + error


BRUTE = [
    ([X > 1], 1), ([X > 1, X], 1), ([X.between(0, 0), X], 1), ([X.between(-3, -3)], 1), ([(X + 4).log()], 1),
    ([(X + 4).log(), X], 1), ([(X / 2).exp(), X], 1), ([(X / 2).exp(), X > 0, X], 1), ([(X > 1) * X], 1), ([X >= 5], 1),
]  # fmt: skip


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("features", "weight"), BRUTE)
def test_sensitivities_with_the_new_features_are_those_of_all_pairs_of_records(
    features: list[Feature], weight: int, norm: int, neighbours: str
) -> None:
    """Brute force over a fine grid of records with the edges' own neighbours: reached to 1e-3, never exceeded."""
    size = {"n": 3} if neighbours == "change-one" else {"n_max": 3}
    schema = Schema({"x": Bounded(-3, 5)}, neighbours=neighbours, **size)
    grid = np.unique(
        np.concatenate([np.linspace(-3, 5, 1601), EDGE_VALUES, [1, math.nextafter(1, 2), math.nextafter(0, 1)]])
    )
    declared = Sum(*features).sensitivity(schema, norm=norm, weights=[weight] * len(features))
    values = np.stack([f.value({"x": grid}, schema) for f in features], axis=-1)
    moved = np.abs(values[:, None] - values[None]) if neighbours == "change-one" else np.abs(values)
    largest = float((moved.sum(-1) if norm == 1 else np.sqrt((moved**2).sum(-1))).max())
    assert largest <= float(declared.value) * (1 + 1e-12)
    assert largest >= float(declared.value) * (1 - 2e-3)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(
    ("bounds", "window"),
    [((-5, 5), (-2, 2)), ((-2, 2), (-2, 2)), ((-2, 8), (-2, 2)), ((0, 10), (1, 4)), ((-9, 1), (-4, 3))],
)
def test_a_truncated_sum_moves_as_far_as_its_worst_pair_of_records_kept_or_redacted(
    bounds: tuple[int, int], window: tuple[int, int], neighbours: str, norm: int
) -> None:
    size = {"n": 3} if neighbours == "change-one" else {"n_max": 3}
    schema = Schema({"x": Bounded(*bounds)}, neighbours=neighbours, **size)
    made = TruncatedSum([X, X**2], "x", *window)
    weights = np.array([float(w) for w in made.default_weights(schema)])
    grid = np.linspace(*bounds, 2001)
    kept = (grid >= window[0]) & (grid <= window[1])
    values = np.stack([grid, grid**2], axis=-1) * kept[:, None] * weights
    moved = np.abs(values[:, None] - values[None]) if neighbours == "change-one" else np.abs(values)
    largest = float((moved.sum(-1) if norm == 1 else np.sqrt((moved**2).sum(-1))).max())
    declared = float(made.sensitivity(schema, norm=norm).value)
    assert largest <= declared * (1 + 1e-9)
    assert declared <= largest * (1 + 1e-3)


def test_the_truncated_sum_of_x_and_its_square_on_a_window_of_4_moves_by_25_sixteenths() -> None:
    schema = Schema({"x": Bounded(-5, 5)}, n=3, neighbours="change-one")
    declared = TruncatedSum([X, X**2], "x", -2, 2).sensitivity(schema)
    assert Fraction(25, 16) <= declared.value <= Fraction(25, 16) * (1 + Fraction(1, 10**4))
    with pytest.raises(InvalidArgument, match="less than"):
        TruncatedSum([X], "x", 1, 1)


RECORDS = {
    "x": [-3.0, 0.0, 0.1, 3.0, 3.0000000000000004, 5.0, 2.5, -0.5],
    "y": [2.0, 2.5, 7.0, 3.0, 3.0, 4.0, 6.125, 2.0000000000000004],
}


@pytest.mark.parametrize(
    "text",
    [
        "x > 3",
        "x >= 3",
        "x < 0",
        "x <= 0",
        "x > 0",
        "between(x, 3, 3)",
        "x > y",
        "x >= y",
        "(y > 2)*(x < 3)",
        "0 < x <= 3",
    ],
)
def test_the_database_and_numpy_agree_on_every_comparison(text: str) -> None:
    ibis = pytest.importorskip("ibis")
    from noisewise.holder.evaluate import IbisAlgebra

    feature = feature_from_text(text)
    rows = ibis.memtable(RECORDS)
    found = feature.fold(IbisAlgebra(rows, SCHEMA, "duckdb")).name("f").as_table()
    expected = feature.value({name: np.array(values) for name, values in RECORDS.items()}, SCHEMA)
    np.testing.assert_array_equal(ibis.duckdb.connect().to_pyarrow(found)["f"].to_numpy(), expected)


@pytest.mark.parametrize("text", ["log(y)", "exp(x)", "log(exp(x) + y)", "exp(-1*log(y))*x"])
def test_the_database_and_numpy_agree_on_log_and_exp_to_the_declared_rounding(text: str) -> None:
    ibis = pytest.importorskip("ibis")
    from noisewise.holder.evaluate import IbisAlgebra

    feature = feature_from_text(text)
    found = feature.fold(IbisAlgebra(ibis.memtable(RECORDS), SCHEMA, "duckdb")).name("f").as_table()
    expected = feature.value({name: np.array(values) for name, values in RECORDS.items()}, SCHEMA)
    error = feature_range(feature, SCHEMA)[2]
    computed = ibis.duckdb.connect().to_pyarrow(found)["f"].to_numpy()
    assert np.abs(computed - expected).max() <= 2 * error
    assert feature.has_general_power  # so it has a step of slack in every plan


POPULATION = nw.Normal(mean=1, sd=2)
NOTHING: dict[str, np.ndarray] = {}


def _expected(f: Callable[[float], float], cuts: list[float]) -> float:
    """E f(X) of a normal record clamped to [-3, 5], by adaptive quadrature between the cuts."""
    law = stats.norm(1, 2)
    ends = [-3.0, *cuts, 5.0]
    inside = sum(
        integrate.quad(lambda t: f(t) * law.pdf(t), a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(ends)
    )
    return float(inside + f(-3.0) * law.cdf(-3) + f(5.0) * law.sf(5))


@pytest.mark.parametrize(
    ("text", "function", "cuts"),
    [
        ("x > 1", lambda t: float(t > 1), [1.0]),
        ("x >= 5", lambda t: float(t >= 5), []),
        ("x > -3", lambda t: float(t > -3), []),
        ("between(x, 5, 5)", lambda t: float(t >= 5), []),
        ("between(x, 1, 1)", lambda t: 0.0 * t, []),
        ("log(x + 3.001)", lambda t: math.log(t + 3.001), [-2.99, -2.9, -2.0]),
        ("log(clip(x, 0.001, 4))", lambda t: math.log(min(max(t, 0.001), 4)), [0.001, 0.01, 0.1, 1.0, 4.0]),
        ("exp(3*x)", lambda t: math.exp(3 * t), [0.0, 3.0, 4.0]),
    ],
)
def test_expected_values_of_the_new_features_are_those_of_adaptive_quadrature(
    text: str, function: Callable[[float], float], cuts: list[float]
) -> None:
    schema = Schema({"x": Bounded(-3, 5)}, n=10, neighbours="change-one")
    mean, covariance = row_moments(POPULATION.named("x"), schema, [feature_from_text(text)], NOTHING)
    first, second = _expected(function, cuts), _expected(lambda t: function(t) ** 2, cuts)
    assert mean[0, 0] == pytest.approx(first, rel=1e-10, abs=1e-12)
    assert covariance[0, 0, 0] == pytest.approx(second - first**2, rel=1e-8, abs=1e-11)


def test_strict_and_closed_comparisons_differ_for_counts_and_at_clamped_bounds() -> None:
    schema = Schema({"x": Bounded(0, 20)}, n=10, neighbours="change-one")
    law, counted = stats.poisson(4), nw.Poisson(rate=4).named("x")
    shares = {
        text: float(cell_probabilities(counted, schema, statistic(f"count({text})"), NOTHING)[0, 1])
        for text in ("x > 4", "x >= 4", "x < 4", "x <= 4", "between(x, 4, 4)")
    }
    expected = [law.sf(4), law.sf(3), law.cdf(3), law.cdf(4), law.pmf(4)]
    np.testing.assert_allclose(list(shares.values()), expected, rtol=1e-12)
    normal = nw.Normal(mean=1, sd=2).named("x")
    above = cell_probabilities(normal, schema, Count(X > 0), NOTHING)[0, 1]
    reached = cell_probabilities(normal, schema, Count(X >= 0), NOTHING)[0, 1]
    assert above == pytest.approx(stats.norm.sf(-0.5), rel=1e-12)  # clamped records lie at 0, not above it
    assert reached == pytest.approx(1.0, rel=1e-12)


def test_a_release_of_the_new_features_goes_the_whole_line(tmp_path: Path) -> None:
    """Records to file to posterior: the log-normal's log mean from mean(log(x)), with the share above a limit."""
    rng = np.random.default_rng(5)
    schema = nw.Schema({"x": nw.Bounded(1, 1000)}, n=5000, neighbours="change-one")
    table = nw.Table.read({"x": np.exp(rng.normal(3, 0.6, 5000))}, schema)
    ledger = nw.Ledger.open(tmp_path / "x.ledger", limit=nw.PureDP(20))
    made = nw.make_release(
        table, nw.plan(nw.statistic("mean(log(x), x > 30)"), schema, guarantee=nw.PureDP(10)), ledger=ledger
    )
    made.save(tmp_path / "x.json")
    read = nw.Release.load(tmp_path / "x.json")
    assert str(read.statistic) == "mean(log(x), x > 30)"
    population = nw.LogNormal(log_mean=stats.norm(2, 2), log_sd=stats.halfnorm(scale=2))
    posterior = nw.infer(read, population.named("x"), seed=1, progress=False)
    assert posterior.mean["log_mean"] == pytest.approx(3, abs=6 * 0.6 / math.sqrt(5000) + 0.01)
