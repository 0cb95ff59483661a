"""The smooth sensitivity is the smallest smooth bound, and its noise rules keep their guarantees."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from noisewise.privacy.smooth import (
    BETA_MARGIN,
    cauchy_rule,
    floored,
    laplace_divergence,
    laplace_rule,
    reach,
    scale_floor,
    smooth_scale,
    worst_laplace_divergence,
)
from noisewise.statistics import statistic

KINDS = ("median", "maximum", "minimum")


def rank(kind, n):
    """The rank of an order statistic, as its statistic says."""
    return statistic(f"{kind}(x)").rank(n)


SIZES = [(1, 6), (2, 6), (3, 5), (4, 5), (5, 4)]
ROUNDING = 1 + 2.0**-43


def naive(values, m, low, high, beta):
    """The definition, one k and t at a time."""
    n = len(values)

    def s(i):
        return low if i < 1 else high if i > n else values[i - 1]

    return max(math.exp(-k * beta) * max(s(m + t) - s(m + t - k - 1) for t in range(k + 2)) for k in range(n + 1))


@cache
def all_data_sets(n, top):
    """All data sets of n records in {0..top}, and the number of records to change between any two."""
    sets = list(combinations_with_replacement(range(top + 1), n))
    counts = [Counter(x) for x in sets]
    distance = np.array([[n - (a & b).total() for b in counts] for a in counts])
    return sets, distance


def local_sensitivity(sets, distance, m):
    statistic = np.array([x[m - 1] for x in sets], dtype=float)
    return np.where(distance <= 1, np.abs(statistic[:, None] - statistic[None, :]), 0).max(axis=1)


@pytest.mark.parametrize(("n", "top"), SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [0.01, 0.3, 1.0, 4.0])
def test_it_is_the_smallest_smooth_bound_over_every_data_set(n, top, kind, beta):
    """Brute force: S(x) = max over all data sets x' of LS(x') e^(-beta d(x, x')); ties and equal records included."""
    sets, distance = all_data_sets(n, top)
    brute = (local_sensitivity(sets, distance, rank(kind, n)) * np.exp(-beta * distance)).max(axis=1)
    ours = np.array([smooth_scale(x, index=rank(kind, n), low=0, high=top, beta=beta) for x in sets])
    assert np.all(ours >= brute)
    assert np.all(ours <= brute * ROUNDING)
    # Smooth between all neighbours; the bound is attained, so a beta one per cent smaller would be broken.
    log_ratio = np.where(distance <= 1, np.abs(np.log(ours)[:, None] - np.log(ours)[None, :]), 0).max()
    assert log_ratio <= beta + BETA_MARGIN
    if beta == 0.01 and n > 1:
        assert log_ratio > 0.99 * beta


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_a_rank_one_off_is_caught_by_the_brute_force(kind):
    """Planted: the bound of a neighbouring rank is too small for some data set."""
    sets, distance = all_data_sets(4, 5)
    m = rank(kind, 4)
    wrong = m - 1 if m > 1 else m + 1
    brute = (local_sensitivity(sets, distance, m) * np.exp(-0.5 * distance)).max(axis=1)
    planted = np.array([smooth_scale(x, index=wrong, low=0, high=5, beta=0.5) for x in sets])
    assert np.any(planted < brute * 0.99)


def test_the_median_is_the_lower_one():
    assert [rank("median", n) for n in (1, 2, 3, 4, 5)] == [1, 1, 2, 2, 3]
    assert (rank("maximum", 7), rank("minimum", 7)) == (7, 1)


values_ = st.lists(st.integers(0, 40), min_size=1, max_size=40).map(sorted)


@given(values_, st.data(), st.floats(1e-6, 20))
def test_the_fast_search_equals_the_definition(values, data, beta):
    m = data.draw(st.integers(1, len(values)))
    expected = naive(values, m, -3, 45, beta)
    assert expected <= smooth_scale(values, index=m, low=-3, high=45, beta=beta) <= expected * ROUNDING


@pytest.mark.parametrize("shape", ["spread", "clumped", "two-ended", "equal"])
@pytest.mark.parametrize("beta", [1e-4, 1e-2, 0.3])
def test_the_fast_search_equals_the_full_table_of_pairs(shape, beta):
    n = 1501
    u = (np.arange(n) + 0.5) / n
    values = {"spread": u, "clumped": u**9, "two-ended": np.round(u) * 0.9, "equal": np.full(n, 0.25)}[shape]
    for m in (1, 400, 751, n):
        padded = np.concatenate([[0.0], values, [1.0]])
        gaps = padded[None, m:] - padded[: m + 1, None]
        steps = np.arange(m, n + 2)[None, :] - np.arange(m + 1)[:, None] - 1
        expected = float((np.exp(-beta * steps) * gaps)[steps >= 0].max())
        assert expected <= smooth_scale(values, index=m, low=0, high=1, beta=beta) * (1 + 2.0**-60)
        assert smooth_scale(values, index=m, low=0, high=1, beta=beta) <= expected * ROUNDING


@given(values_, st.floats(1e-3, 5))
def test_the_maximum_has_the_printed_formula(values, beta):
    """max_k e^(-k beta) max(A - s_(n-k), s_n - s_(n-k-1)), with 0 below the data and A above."""
    n, top = len(values), 45

    def s(i):
        return 0 if i < 1 else values[i - 1]

    printed = max(math.exp(-k * beta) * max(top - s(n - k), s(n) - s(n - k - 1)) for k in range(n + 1))
    ours = smooth_scale(values, index=n, low=0, high=top, beta=beta)
    assert printed * (1 - 1e-15) <= ours <= printed * ROUNDING


def test_tiny_beta_on_many_records_agrees_with_a_coarse_table_of_pairs():
    """Every hundredth pair bounds S from below, and, moved outwards to the next such pair, from above."""
    n, m, beta, stride = 200_000, 100_000, 1e-5, 100
    values = np.sort(((np.arange(n) * 0.6180339887498949) % 1) ** 3)
    below = np.concatenate([values[m - 1 :: -1], np.zeros(stride)])[::stride]
    above = np.concatenate([values[m - 1 :], np.ones(stride)])[::stride]
    steps = stride * (np.arange(below.size)[:, None] + np.arange(above.size)[None, :]) - 1
    coarse = float((np.exp(-beta * steps) * (above[None, :] - below[:, None])).max())
    assert coarse <= smooth_scale(values, index=m, low=0, high=1, beta=beta) <= coarse * math.exp(2 * beta * stride)


def test_enormous_beta_leaves_the_local_sensitivity():
    assert smooth_scale([1, 1, 3], index=2, low=0, high=9, beta=5e5) == pytest.approx(2)
    assert smooth_scale([1, 1, 1], index=2, low=0, high=9, beta=5e5) == 0


def window_scale(values, *, rank, steps, beta):
    """S from the order statistics within `steps` of a rank, as a database is asked for them."""
    first, last = max(1, rank - steps), min(len(values), rank + steps)
    return smooth_scale(values[first - 1 : last], index=rank - first + 1, low=0, high=1, beta=beta)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [0.02, 0.2])
def test_only_the_order_statistics_within_reach_are_needed(kind, beta):
    n, step, alpha = 4001, 2.0**-20, Fraction(1, 2)
    values = np.sort((np.arange(n) * 0.6180339887498949) % 1)
    floor = scale_floor(step=step, alpha=alpha)
    steps = reach(beta=beta, low=0, high=1, floor=floor)
    near = window_scale(values, rank=rank(kind, n), steps=steps, beta=beta)
    whole = smooth_scale(values, index=rank(kind, n), low=0, high=1, beta=beta)
    assert floored(near, step=step, alpha=alpha) == floored(whole, step=step, alpha=alpha)
    assert 2 * steps + 1 < n
    assert math.exp(-beta * steps) <= floor


def test_data_beyond_the_reach_change_only_what_the_floor_covers():
    """Equal records everywhere: S comes from the bounds, far away, and is replaced by the floor."""
    n, beta, step, alpha = 2001, 0.05, 2.0**-20, Fraction(3)
    values = np.full(n, 0.5)
    steps = reach(beta=beta, low=0, high=1, floor=scale_floor(step=step, alpha=alpha))
    near = window_scale(values, rank=rank("median", n), steps=steps, beta=beta)
    whole = smooth_scale(values, index=rank("median", n), low=0, high=1, beta=beta)
    assert near != whole
    assert max(near, whole) < scale_floor(step=step, alpha=alpha)
    assert floored(near, step=step, alpha=alpha) == floored(whole, step=step, alpha=alpha) == 3 * 2**10 * step


def test_flooring_keeps_smoothness_over_every_neighbour():
    sets, distance = all_data_sets(4, 5)
    for step in (2.0**-10, 2.0**-9, 2.0**-8):
        scales = [
            floored(smooth_scale(x, index=2, low=0, high=5, beta=0.7), step=step, alpha=Fraction(1, 2)) for x in sets
        ]
        logs = np.log(scales)
        assert np.where(distance <= 1, np.abs(logs[:, None] - logs[None, :]), 0).max() <= 0.7 + BETA_MARGIN


def excess(epsilon, d, log_ratio):
    """The hockey-stick divergence of Laplace(0, 1) from Laplace(d, e^log_ratio), by quadrature."""

    def positive_part(y):
        log_p, log_q = -abs(y), -log_ratio - abs(y - d) * math.exp(-log_ratio)
        return 0.5 * max(0.0, math.exp(log_p) - math.exp(epsilon + log_q))

    stretch = math.expm1(abs(log_ratio))
    left = -(epsilon + abs(log_ratio) - d * (1 + stretch)) / stretch
    right = (epsilon + abs(log_ratio) + d * (1 + stretch)) / stretch
    corners = sorted({0.0, d, left, right})
    edges = [corners[0] - 60, *corners, corners[-1] + 60]
    return sum(quad(positive_part, a, b, limit=200, epsabs=0, epsrel=1e-9)[0] for a, b in pairwise(edges))


@pytest.mark.parametrize("epsilon", [0.1, 0.9, 3.0, 12.0])
@pytest.mark.parametrize("fraction", [0.2, 0.6, 1.0])
def test_the_closed_form_is_the_divergence(epsilon, fraction):
    for log_ratio in (-epsilon / 2, -epsilon / 6, -epsilon / 20, epsilon / 20, epsilon / 2):
        shift = fraction * epsilon / 2
        d = shift * min(1.0, math.exp(log_ratio))
        true = excess(epsilon, d, log_ratio)
        assert laplace_divergence(epsilon=epsilon, shift=shift, log_ratio=log_ratio) == pytest.approx(
            true, rel=1e-6, abs=1e-200
        )


@pytest.mark.parametrize("epsilon", [0.05, 0.8, 2.0, 7.0, 13.0])
def test_the_worst_neighbours_are_at_the_corner(epsilon):
    beta = epsilon / (2 * math.log(2 / 1e-5))
    grid = [
        laplace_divergence(epsilon=epsilon, shift=kappa * epsilon / 2, log_ratio=ell * beta)
        for kappa in np.linspace(0, 1, 81)
        for ell in np.linspace(-1, 1, 201)
    ]
    assert max(grid) == worst_laplace_divergence(epsilon=epsilon, beta=beta)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "0.9", "1", "3", "10", "13"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-8", "1e-20"])
def test_the_laplace_rule_gives_its_guarantee(epsilon, delta):
    alpha, beta = laplace_rule(ApproxDP(epsilon, delta))
    assert alpha == Fraction(epsilon) / 2
    standard = float(epsilon) / (2 * math.log(2 / float(delta)))
    assert standard * (1 - 1e-14) - 2 * BETA_MARGIN < beta < standard
    # At the proof's beta, margin included, for the worst shift and stretch: measured by quadrature.
    e, ell = float(epsilon), beta + BETA_MARGIN
    if float(epsilon) >= 0.1:
        assert excess(e, e / 2 * math.exp(-ell), -ell) <= float(delta)
        assert excess(e, e / 2, ell) == 0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(50, "1e-5"), (20, "1e-8"), (14, "1e-5"), (9, "0.5"), (10**4, "1e-9"), (10**90, "1e-90")]
)
def test_the_laplace_rule_is_refused_where_it_would_lie(epsilon, delta):
    with pytest.raises(Unsupported, match="beta <= ") as caught:
        laplace_rule(ApproxDP(epsilon, delta))
    error = caught.value
    assert error.divergence > float(delta)
    alpha, beta = laplace_rule(ApproxDP(epsilon, delta), beta=error.valid_beta)  # the way out that the message names
    assert beta == pytest.approx(error.valid_beta, abs=2 * BETA_MARGIN)
    assert worst_laplace_divergence(epsilon=epsilon, beta=error.valid_beta) <= float(delta)
    assert worst_laplace_divergence(epsilon=epsilon, beta=error.valid_beta * 1.01) > float(delta)
    assert alpha == Fraction(epsilon) / 2
    assert laplace_rule(ApproxDP(error.valid_epsilon, delta))[0] == Fraction(str(error.valid_epsilon)) / 2
    with pytest.raises(Unsupported):
        laplace_rule(ApproxDP(error.valid_epsilon * 1.01, delta))


def test_rules_refuse_what_they_cannot_give():
    with pytest.raises(Unsupported, match="ApproxDP"):
        laplace_rule(PureDP(1))
    with pytest.raises(Unsupported, match="PureDP"):
        cauchy_rule(GaussianDP(1))
    for rule, guarantee in ((laplace_rule, ApproxDP("1e-12", "1e-6")), (cauchy_rule, PureDP(Fraction(1, 2**38)))):
        with pytest.raises(Unsupported, match="rounding"):
            rule(guarantee)
    for bad in (0, -1, float("nan"), "x", 0.6):
        with pytest.raises(InvalidArgument, match="beta"):
            laplace_rule(ApproxDP(1, "1e-5"), beta=bad)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 20.0])
def test_the_cauchy_rule_gives_its_guarantee(epsilon):
    """max log-ratio of densities over shifts, stretches and outputs, on a dense grid; a beta twice as large fails."""
    alpha, beta = cauchy_rule(PureDP(epsilon))
    assert alpha == Fraction(str(epsilon)) / 2
    assert epsilon - 4 * BETA_MARGIN < float(alpha) + beta <= epsilon - BETA_MARGIN

    def largest_log_ratio(beta):
        shift = np.linspace(-1, 1, 41)[:, None, None] * float(alpha)
        log_scale = np.linspace(-beta, beta, 41)[None, :, None]
        half = np.concatenate([np.linspace(0, 5, 800), np.exp(np.linspace(1.6, 40, 400))])
        y = np.concatenate([-half[::-1], half])[None, None, :]
        scale = np.exp(log_scale)
        u = (y - shift * np.minimum(1, scale)) / scale
        return np.abs(np.log1p(u * u) + log_scale - np.log1p(y * y)).max()

    assert largest_log_ratio(beta + BETA_MARGIN) <= epsilon * (1 + 1e-12)
    assert largest_log_ratio(2.2 * beta) > epsilon


def test_both_derivatives_of_the_cauchy_log_density_are_at_most_one():
    u = np.concatenate([np.linspace(-10, 10, 20001), [-1e9, 1e9]])
    assert np.abs(2 * u / (1 + u * u)).max() == 1
    assert np.abs((u * u - 1) / (u * u + 1)).max() == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"index": 0},
        {"index": 4},
        {"index": True},
        {"beta": 0},
        {"beta": float("nan")},
        {"beta": math.inf},
        {"low": 9},
        {"high": math.inf},
        {"low": float("nan")},
        {"sorted_values": [3, 2, 1]},
        {"sorted_values": [1, math.nan, 2]},
        {"sorted_values": []},
        {"sorted_values": [1, 2, 77]},
        {"sorted_values": [[1, 2, 3]]},
    ],
    ids=repr,
)
def test_bad_input_is_refused_without_quoting_a_record(bad):
    good = {"sorted_values": [1, 2, 3], "index": 2, "low": 0, "high": 5, "beta": 0.1} | bad
    values = good.pop("sorted_values")
    with pytest.raises(InvalidArgument) as caught:
        smooth_scale(values, **good)
    assert "77" not in str(caught.value)


def test_other_bad_arguments_are_refused_by_name():
    with pytest.raises(InvalidArgument, match="index"):
        smooth_scale([1, 2, 3], index=4, low=0, high=5, beta=1)
    with pytest.raises(InvalidArgument, match="beta"):
        reach(beta=0, low=0, high=1, floor=1)
    with pytest.raises(InvalidArgument, match="floor"):
        reach(beta=1, low=0, high=1, floor=0)
