"""A1: no law exceeds its guarantee, exactly, at worst-case neighbours, for every law, guarantee and level."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import noisewise as nw
from noisewise.audit.cases import EPSILONS, plans, rows_of, schema_of
from noisewise.audit.exact import exact_loss, hockey_stick, log_ratio, losses, renyi_rate
from noisewise.audit.neighbours import contributions, data_of, evaluated_move, neighbouring_pairs, worst_move
from noisewise.audit.order import (
    Noise,
    exponential_log_ratio,
    exponential_pieces,
    extreme_pairs,
    order_noise,
    smooth_delta,
    smooth_log_ratio,
)
from noisewise.holder import draw
from noisewise.holder.curator import make_release
from noisewise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian, SmoothCauchy, SmoothLaplace
from noisewise.privacy import smooth

ROWS = rows_of(None)

x = nw.column("x")
ROW_IDS = [f"{mechanism}-{kind.__name__}" for mechanism, kind in ROWS]


@pytest.mark.parametrize(("mechanism", "kind"), ROWS, ids=ROW_IDS)
def test_no_law_exceeds_its_guarantee_at_any_level(mechanism, kind):
    found = losses(mechanism, kind)
    assert [loss for loss in found if not loss.holds] == []
    assert all(math.isfinite(loss.value) for loss in found)


@pytest.mark.parametrize(("mechanism", "kind"), ROWS, ids=ROW_IDS)
def test_every_level_is_planned_or_refused_for_a_reason(mechanism, kind):
    planned = [epsilon for epsilon in EPSILONS if any(True for _ in plans(mechanism, kind, epsilon))]
    refused = set(EPSILONS) - set(planned)
    # Only the smooth Laplace rule ends: beyond epsilon = 13 or so its delta is not kept.
    assert refused == ({Fraction(20)} if mechanism == "smooth-laplace" else set())


ADDITIVE = [row for row in ROWS if row[0] in ("laplace", "gaussian", "geometric")]


@pytest.mark.parametrize(("mechanism", "kind"), ADDITIVE, ids=ROW_IDS[:5])
def test_the_noise_is_not_wasted_and_a_tenth_less_is_caught_on_every_plan(mechanism, kind):
    """The worst neighbours use nearly the whole guarantee, so a scale 10 % too small exceeds it on every plan."""
    for plan in plans(mechanism, kind, Fraction(1)):
        assert not exact_loss(replace(plan, law=plan.law.smaller(Fraction(9, 10)))).holds, str(plan)


def test_the_loss_of_finite_laws_is_caught_a_tenth_off():
    for mechanism in ("randomized-response", "finite"):
        for plan in plans(mechanism, nw.PureDP, Fraction(1)):
            assert not exact_loss(replace(plan, law=plan.law.smaller(Fraction(9, 10)))).holds, str(plan)


@pytest.mark.parametrize("kind", [nw.PureDP, nw.ZeroConcentratedDP, nw.GaussianDP, nw.ApproxDP])
def test_neighbours_that_do_not_move_the_statistic_lose_nothing(kind):
    (plan, *_) = plans("laplace" if kind is nw.PureDP else "gaussian", kind, Fraction(1))
    loss = exact_loss(plan, steps=(0,) * len(plan.lattice.step))
    assert loss.holds
    assert loss.value <= 0


# ---- the pieces against other oracles ----


@pytest.mark.parametrize("ratio", [0.7, 5.0, 1000.0])
@pytest.mark.parametrize("d", [1, 7])
def test_the_laplace_ratio_is_the_largest_over_all_outputs(ratio, d):
    law = DiscreteLaplace((ratio,), (1.0,))
    k = np.arange(-50, 60)
    largest = np.max(law.log_pmf(k - d) - law.log_pmf(k))
    assert log_ratio(law, (d,)) == pytest.approx(largest, rel=1e-12)
    assert largest == pytest.approx(d / ratio, rel=1e-12)


@pytest.mark.parametrize("ratio", [0.8, 4.0])
def test_the_renyi_rate_of_a_discrete_gaussian_is_met_at_whole_orders(ratio):
    """By sums in 40 digits: at order 2 the divergence of a move by 1 is exactly 2/(2 r^2)."""
    with mp.workdps(40):
        weights = {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(ratio) ** 2)) for k in range(-200, 201)}
        total = mp.fsum(weights.values())
        terms = [weights[k - 1] ** 2 / weights[k] for k in range(-150, 151)]
        rate = float(mp.log(mp.fsum(terms) / total) / 2)
    assert renyi_rate(DiscreteGaussian((ratio,), (1.0,)), (1,)) == pytest.approx(rate, rel=1e-12)
    assert rate == pytest.approx(1 / (2 * ratio**2), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("ratio", "d"), [(0.9, 1), (4.0, 3), (30.0, 40)])
def test_the_hockey_stick_of_a_rounded_gaussian_is_the_sum_of_positive_parts(ratio, d, epsilon):
    with mp.workdps(30):

        def cell(k):
            return mp.ncdf((k + mp.mpf("0.5")) / ratio) - mp.ncdf((k - mp.mpf("0.5")) / ratio)

        reach = math.ceil(12 * ratio + d)
        summed = mp.fsum(max(mp.mpf(0), cell(k - d) - mp.exp(epsilon) * cell(k)) for k in range(-reach, reach))
    law = RoundedGaussian((ratio,), (1.0,))
    assert hockey_stick(law, (d,), epsilon) == pytest.approx(float(summed), rel=1e-9, abs=1e-15)
    assert hockey_stick(law, (0, -d)[1:], epsilon) == pytest.approx(float(summed), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    "values",
    [
        (Noise(0, 3.0, 6.0), Noise(2, 4.0, 8.0)),
        (Noise(5, 9.0, 18.0), Noise(-3, 8.0, 16.0)),
        (Noise(0, 1.0, 2.0), Noise(0, 1.5, 3.0)),
    ],
)
def test_the_cauchy_ratio_bounds_every_lattice_point_and_is_met(values):
    law = SmoothCauchy(Fraction(1, 2), 0.1, 1.0)
    first, second = values
    k = np.arange(-4000, 4001)
    ratios = law.log_pmf(k - first.value, smooth_scale=first.scale) - law.log_pmf(
        k - second.value, smooth_scale=second.scale
    )
    worst = smooth_log_ratio(law, first, second)
    assert np.max(np.abs(ratios)) <= worst * (1 + 1e-12)
    assert np.max(np.abs(ratios)) >= worst * 0.95


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("values", [(Noise(0, 30.0, 60.0), Noise(20, 40.0, 80.0)),
                                    (Noise(7, 50.0, 100.0), Noise(-13, 30.0, 60.0))])  # fmt: skip
def test_the_laplace_delta_is_the_sum_of_positive_parts(values, epsilon):
    law = SmoothLaplace(Fraction(1, 2), 0.1, 1.0)
    first, second = values
    k = np.arange(-8000, 8001)
    p = np.exp(law.log_pmf(k - first.value, smooth_scale=first.scale))
    q = np.exp(law.log_pmf(k - second.value, smooth_scale=second.scale))
    summed = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)))
    assert smooth_delta(law, first, second, epsilon) >= summed * (1 - 1e-9)
    assert smooth_delta(law, first, second, epsilon) == pytest.approx(summed, rel=1e-2, abs=1e-12)


def test_the_extreme_pair_of_the_smooth_laplace_rule_meets_its_closed_form():
    guarantee = nw.ApproxDP(1, "1e-6")
    plan = nw.plan(nw.Median(x), schema_of(0, 4, 3), guarantee=guarantee)
    found = max(smooth_delta(plan.law, a, b, 1.0) for a, b in extreme_pairs(plan.law, 2**42))
    assert found == pytest.approx(smooth.worst_laplace_divergence(epsilon=1.0, beta=plan.law.beta), rel=1e-3)


def test_a_private_quantile_is_enumerated_point_by_point():
    plan = nw.plan(nw.Quantile(x, "0.5"), schema_of(0, 4, 3), guarantee=nw.PureDP(1))
    small = replace(plan, lattice=replace(plan.lattice, low=(0,), high=(12,)))

    def point_by_point(records):
        weights = [math.exp(-0.5 * abs(sum(r < point for r in records) - 1.5)) for point in range(13)]
        return np.array(weights) / sum(weights)

    for first, second in neighbouring_pairs((0, 3, 4, 12), 3):
        p, q = point_by_point(first), point_by_point(second)
        assert exponential_log_ratio(small, first, second) == pytest.approx(np.max(np.abs(np.log(p / q))), abs=1e-12)
    starts, lengths, _ = exponential_pieces(small, (3, 3, 12))
    assert sum(lengths) == 13
    assert starts == [0, 4, 4, 13]


# ---- what is audited is what the holder computes ----


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(
    "statistic",
    [nw.Sum(x, x**2), nw.Histogram("g"), nw.Marginals(["g", "h"], ["h"]), nw.Moments(["x"], "y", shrink="1.7")],
    ids=str,
)
def test_the_worst_move_is_the_one_the_holder_evaluates(statistic, neighbours):
    plan = nw.plan(statistic, schema_of(-3, 3, 3, neighbours), guarantee=nw.PureDP(1))
    move = worst_move(plan)
    rest = [{"x": 1.0, "y": -1.0, "g": 1.0, "h": 0.0}]
    came = [] if move.came is None else [move.came]
    size = {"rest": rest * (2 if neighbours == "change-one" else 1)}
    tables = [
        nw.Table.read(data_of([*record, *size["rest"]], plan.schema), plan.schema) for record in ([move.left], came)
    ]
    assert evaluated_move(plan, *tables) == move.steps


def test_smooth_noise_is_drawn_with_the_scale_that_is_audited(monkeypatch, tmp_path):
    """The curator's own value and scale, intercepted on their way to the noise, for every data set of a tiny domain."""
    seen = []
    monkeypatch.setattr(draw, "smooth_noise", lambda _, scale: seen.append(scale) or 0)
    for statistic in (nw.Median(x), nw.Maximum(x), nw.Minimum(x)):
        schema = nw.Schema({"x": nw.Bounded(0, 4)}, n=3, neighbours="change-one")
        plan = nw.plan(statistic, schema, guarantee=nw.PureDP(2))
        step = plan.lattice.step[0]
        for k, records in enumerate([(0, 1, 3), (0, 0, 4), (2, 2, 2), (1, 1.37, 4)]):
            with nw.Ledger.open(tmp_path / f"{statistic.kind}{k}", limit=plan.guarantee) as ledger:
                release = make_release(nw.Table.read({"x": list(records)}, schema), plan, ledger=ledger)
            noise = order_noise(plan, [round(value / step) for value in records])
            assert release.value == (noise.value,)
            assert seen.pop() == noise.scale


def test_records_outside_the_bounds_move_the_sums_no_further():
    plan = nw.plan(nw.Mean(x, x**2), nw.Schema({"x": nw.Bounded(0, 1)}, n=2, neighbours="change-one"),
                   guarantee=nw.PureDP(1))  # fmt: skip
    for low, high in ((-1e300, 1e300), (-0.1, 1.1), (-5e-324, 1 + 1e-15)):
        tables = [nw.Table.read({"x": [0.5, value]}, plan.schema) for value in (low, high)]
        assert exact_loss(plan, steps=evaluated_move(plan, *tables)).holds


def test_contributions_of_records_are_whole_numbers_between_the_ends_of_the_lattice():
    plan = nw.plan(nw.Mean(x, x**2), schema_of(9, 10, 5), guarantee=nw.PureDP(1))
    ends = {name: np.array([9.0, 10.0]) for name in ("x", "y")} | {name: np.zeros(2) for name in ("g", "h")}
    integers = contributions(plan, ends)
    assert tuple(integers[0]) == plan.lattice.low
    assert tuple(integers[1]) == plan.lattice.high
