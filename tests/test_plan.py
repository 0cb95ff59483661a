"""Plans: sensitivity, lattice, law and bill are settled in the right order, at odd bounds too."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.laws.finite import FiniteLaw, truncated_geometric

x = nw.column("x")


def schema_of(low: float = 0, high: float = 250, n: int = 4000, neighbours: str = "change-one") -> nw.Schema:
    size = {"n": n} if neighbours == "change-one" else {"n_max": n}
    columns = {"x": nw.Bounded(low, high), "g": nw.Levels(["a", "b", "c"])}
    return nw.Schema(columns, neighbours=neighbours, **size)


def lattice_integers(plan: nw.Plan, feature: nw.statistics.Feature, values: np.ndarray, k: int) -> list[int]:
    """The record's contribution in exact arithmetic on the computed double: the oracle for rounding."""
    computed = feature.value({"x": values}, plan.schema)
    step, low, high = Fraction(plan.lattice.step[k]), plan.lattice.low[k], plan.lattice.high[k]
    return [min(max(math.floor(Fraction(float(v)) / step + Fraction(1, 2)), low), high) for v in computed]


def test_mean_and_square_on_a_wide_range_keep_the_noise_on_the_mean_small() -> None:
    plan = nw.plan(nw.Mean(x, x**2), schema_of(), guarantee=nw.PureDP(1))
    assert plan.law.scale == (500.0, 125000.0)
    assert plan.law.step == (2.0**-12, 2.0**-5)
    assert plan.noise[0].sd < 0.3
    assert plan.cost == nw.PureDP(1)


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.PureDP("0.01"), nw.PureDP(20), nw.ZeroConcentratedDP(1),
                                       nw.GaussianDP(2), nw.ApproxDP(1, "1e-6")], ids=str)  # fmt: skip
@pytest.mark.parametrize("bounds", [(0, 250), (9, 10), (-10, -9), (-0.3, 0.7), (1e6, 1e6 + 3), (-1e-3, 1e-3)])
@pytest.mark.parametrize("n", [1, 10, 10**7])
def test_the_declared_sensitivity_covers_the_values_as_rounded(
    bounds: tuple[float, float], n: int, guarantee: nw.PureDP
) -> None:
    plan = nw.plan(nw.Mean(x, abs(x), x**2), schema_of(*bounds, n=n), guarantee=guarantee)
    norm = plan.sensitivity.norm
    grid = np.concatenate(
        [np.linspace(*bounds, 61), [bounds[0], bounds[1]], np.random.default_rng().uniform(*bounds, 20)]
    )
    rows = [lattice_integers(plan, feature, grid, k) for k, feature in enumerate(plan.statistic.row(plan.schema))]
    weighted = [[w * Fraction(step) * q for q in row]
                for w, step, row in zip(plan.weights, plan.law.step, rows, strict=True)]  # fmt: skip
    pairs = [(i, j) for i in range(len(grid)) for j in range(0, len(grid), 5)]
    for i, j in pairs:
        moves = [abs(row[i] - row[j]) for row in weighted]
        if norm == 1:
            assert sum(moves) <= plan.sensitivity.value
        else:
            assert sum(move * move for move in moves) <= plan.sensitivity.value**2
    assert n * max(h - lo for h, lo in zip(plan.lattice.high, plan.lattice.low, strict=True)) <= 2**62


@given(st.sampled_from([1, 2, 100, 4000, 10**7]), st.fractions(Fraction(1, 1000), 50))
@settings(max_examples=100, deadline=None)
def test_the_step_follows_its_rule(n: int, epsilon: Fraction) -> None:
    plan = nw.plan(nw.Sum(x), schema_of(0, 1, n=n), guarantee=nw.PureDP(epsilon))
    scale, step = Fraction(plan.law.scale[0]), Fraction(plan.law.step[0])
    limit = min(scale / 2**20, scale / (2**9 * n))
    assert step <= scale / 2**20
    assert step <= limit < 2 * step * (1 + Fraction(1, 2**15)) or n / (step / 2) >= 2**62


def test_steps_are_equal_for_all_data_and_laws_are_plain_data() -> None:
    first = nw.plan(nw.Mean(x), schema_of(), guarantee=nw.PureDP(1))
    assert first == nw.plan(nw.Mean(x), schema_of(), guarantee=nw.PureDP("1"))
    assert first.request() == nw.plan(nw.Mean(x), schema_of(), guarantee=nw.PureDP("1")).request()
    assert first.request() != nw.plan(nw.Mean(x), schema_of(), guarantee=nw.PureDP("2")).request()


def test_counts_live_on_the_integers_without_rounding() -> None:
    for statistic in (nw.Count(x.between(0, 1)), nw.Histogram("g"), nw.Marginals(["g"])):
        plan = nw.plan(statistic, schema_of(), guarantee=nw.PureDP(1))
        assert set(plan.law.step) == {1.0}
    assert nw.plan(nw.Histogram("g"), schema_of(), guarantee=nw.PureDP(1)).law.scale == (2.0, 2.0, 2.0)
    add = schema_of(neighbours="add-remove")
    assert nw.plan(nw.Histogram("g"), add, guarantee=nw.PureDP(1)).law.scale == (1.0, 1.0, 1.0)


def test_weights_are_the_budget_split() -> None:
    even = nw.plan(nw.Mean(x, x**2), schema_of(), guarantee=nw.PureDP(1))
    tilted = nw.plan(nw.Mean(x, x**2), schema_of(), guarantee=nw.PureDP(1), weights=["3/250", "1/62500"])
    assert tilted.law.scale[0] < even.law.scale[0]
    assert tilted.law.scale[1] > even.law.scale[1]
    # Whatever the weights, the price is the same: sum over components of range/scale is epsilon.
    for plan in (even, tilted):
        assert sum(r / s for r, s in zip((250, 62500), plan.law.scale, strict=True)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("statistic", "guarantee", "mechanism"),
    [
        (nw.Mean(x), nw.ApproxDP(1, "1e-6"), "laplace"),
        (nw.Mean(x), nw.PureDP(1), "gaussian"),
        (nw.Mean(x), nw.PureDP(1), "geometric"),
        (nw.Mean(x), nw.PureDP(1), "smooth-cauchy"),
        (nw.Median(x), nw.PureDP(1), "smooth-laplace"),
        (nw.Median(x), nw.ApproxDP(1, "1e-6"), "smooth-cauchy"),
        (nw.Median(x), nw.GaussianDP(1), None),
        (nw.Quantile(x, "0.9"), nw.ApproxDP(1, "1e-6"), "exponential"),
        (nw.Quantile(x, "0.9"), nw.GaussianDP(1), None),
        (nw.Records(x), nw.PureDP(1), "randomized-response"),
        (nw.Records(x, cells=[10]), nw.PureDP(1), "laplace"),
        (nw.Records(x, cells=[10]), nw.GaussianDP(1), None),
        (nw.Histogram("g"), nw.PureDP(1), "exponential"),
    ],
)
def test_a_mechanism_outside_its_row_is_refused(statistic: object, guarantee: object, mechanism: str | None) -> None:
    with pytest.raises(Unsupported):
        nw.plan(statistic, schema_of(), guarantee=guarantee, mechanism=mechanism)


@pytest.mark.parametrize("statistic", [nw.Mean(x), nw.Median(x), nw.Maximum(x), nw.Quantile(x, "0.5"), nw.Records(x)])
def test_statistics_that_need_a_public_n_are_refused_under_add_remove(statistic: object) -> None:
    with pytest.raises(Unsupported, match="change-one"):
        nw.plan(statistic, schema_of(neighbours="add-remove"), guarantee=nw.PureDP(1))


BAD = [float("nan"), float("inf"), -1, 0, "", None, True, 1e308, 10**400]


@pytest.mark.parametrize("bad", BAD, ids=lambda v: repr(v)[:12])
def test_bad_parameters_are_refused_by_name_in_every_public_function(bad: object) -> None:
    """F1: a NoisewiseError that names the argument, before there is anything to spend."""
    schema = schema_of()
    calls = {
        "epsilon": lambda: nw.PureDP(bad),
        "rho": lambda: nw.ZeroConcentratedDP(bad),
        "mu": lambda: nw.GaussianDP(bad),
        "delta": lambda: nw.ApproxDP(1, bad),
        "guarantee": lambda: nw.plan(nw.Mean(x), schema, guarantee=bad),
        "schema": lambda: nw.plan(nw.Mean(x), bad, guarantee=nw.PureDP(1)),
        "statistic": lambda: nw.plan(bad, schema, guarantee=nw.PureDP(1)),
        "q": lambda: nw.Quantile(x, bad),
        "edges": lambda: nw.Histogram("x", [bad]) if bad not in (-1, 0) else nw.Histogram("x", bad),
        "cells": lambda: nw.Records(x, cells=[bad]) if bad not in (-1, 0) else nw.Records(x, cells=bad),
        "weights": lambda: nw.plan(nw.Mean(x), schema, guarantee=nw.PureDP(1), weights=[bad]),
        "part": lambda: nw.plan(nw.Mean(x), schema, guarantee=nw.PureDP(1), part=(bad, bad)),
        "condition": lambda: nw.Count(bad),
        "cliques": lambda: nw.Marginals(bad),
        "average": lambda: nw.Moments(["x"], "y", average=1.5 if bad is None else bad),
        "shrink": lambda: nw.Moments(["x"], "y", shrink="" if bad is None else bad),
        "name": lambda: nw.column(bad),
    }
    for argument, call in calls.items():
        with pytest.raises(NoisewiseError) as caught:
            call()
        assert argument in str(caught.value) or getattr(caught.value, "argument", "").startswith(argument), argument


def test_a_part_is_a_fraction_of_the_positions_and_the_law_is_that_of_its_records() -> None:
    whole = nw.plan(nw.Mean(x), schema_of(n=4000), guarantee=nw.PureDP(1))
    half = nw.plan(nw.Mean(x), schema_of(n=4000), guarantee=nw.PureDP(1), part=("0", "1/2"))
    assert half.part_schema.n == 2000
    assert half.noise[0].sd == pytest.approx(2 * whole.noise[0].sd, rel=1e-6)
    assert nw.plan(nw.Mean(x), schema_of(), guarantee=nw.PureDP(1), part=(0, 1)) == whole


def test_an_estimator_is_released_only_if_its_matrix_is_private_by_exact_check() -> None:
    schema = schema_of(n=6)
    rows = truncated_geometric(7, Fraction(1))
    law = FiniteLaw(rows, tuple(k / 6 for k in range(7)))
    count = nw.Count(x.between(0, 1))
    assert nw.plan(count, schema, guarantee=nw.PureDP(1), mechanism=law).law == law
    with pytest.raises(Unsupported, match=r"not epsilon = 0\.9-private"):
        nw.plan(count, schema, guarantee=nw.PureDP("0.9"), mechanism=law)
    with pytest.raises(Unsupported, match="rows"):
        nw.plan(count, schema_of(n=7), guarantee=nw.PureDP(1), mechanism=law)


def test_noise_too_small_for_exact_sums_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(Unsupported, match="Nothing was spent"):
        nw.plan(nw.Sum(x), schema_of(1e9, 1e9 + 1, n=10**7), guarantee=nw.PureDP(10**6))


@pytest.mark.parametrize("statistic", [nw.Mean(x), nw.Sum(x, by="g"), nw.Records(x)], ids=str)
def test_noise_in_which_every_record_is_lost_is_refused_for_that_reason(statistic: object) -> None:
    with pytest.raises(Unsupported, match="epsilon = 1e-30 asks for noise so large"):
        nw.plan(statistic, schema_of(), guarantee=nw.PureDP("1e-30"))


def test_a_plan_in_words_names_statistic_price_neighbours_and_noise() -> None:
    text = nw.plan(nw.Mean(x), schema_of(), guarantee=nw.PureDP("0.5")).describe()
    for word in ("mean(x)", "n = 4000", "change-one", "epsilon = 0.5", "laplace", "sd"):
        assert word in text


def test_smooth_plans_say_that_the_scale_is_secret() -> None:
    plan = nw.plan(nw.Median(x), schema_of(), guarantee=nw.ApproxDP(1, "1e-4"))
    assert plan.noise[0].sd is None
    assert "secret" in plan.describe()
    assert plan.law.alpha == Fraction(1, 2)
    assert plan.law.beta == pytest.approx(1 / (2 * math.log(2e4)), rel=1e-9)


def test_parts_out_of_order_are_refused() -> None:
    for part in [(1, 0), ("1/2", "1/2"), (-1, 1), (0, 2), (0,), "01"]:
        with pytest.raises(InvalidArgument, match="part"):
            nw.plan(nw.Mean(x), schema_of(), guarantee=nw.PureDP(1), part=part)


@pytest.mark.parametrize("make", [nw.Mean, nw.Sum, nw.Records], ids=["mean", "sum", "records"])
def test_a_feature_that_no_record_moves_is_refused_with_the_way_out(make) -> None:
    where = nw.Schema({"x": nw.Bounded(0, 1)}, n=10, neighbours="change-one")
    for feature in (nw.column("x").clip(2, 3), nw.column("x") * 0):
        with pytest.raises(nw.InvalidArgument, match=r"the same for every record .* change its limits .* Nothing was"):
            nw.plan(make(feature), where, guarantee=nw.PureDP(1))


def test_truth_values_as_levels_are_refused_with_the_way_out() -> None:
    for make in (lambda: nw.Levels([True, False]), lambda: nw.column("b").equals(True)):
        with pytest.raises(nw.InvalidArgument, match="write 1 for True and 0 for False"):
            make()
