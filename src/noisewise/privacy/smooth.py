"""Smooth sensitivity: noise for order statistics that fits the records at hand, without telling about them.

For the order statistic of rank m among s_1 <= ... <= s_n in [low, high] (s_i = low for i < 1, high for i > n), the
smallest beta-smooth upper bound on its local sensitivity is (Nissim, Raskhodnikova & Smith 2007)
    S(x) = max over k of e^(-k beta) max_{t=0..k+1} (s_{m+t} - s_{m+t-k-1})
         = max over a, b >= 0 of e^(-beta (a+b-1)) (s_{m+b} - s_{m-a}).
Neighbours (one record changed) have S(x) <= e^beta S(x') and statistics within min(S(x), S(x')) of each other. So the
release s_m + (S(x)/alpha) V is private if V hides a shift of alpha (in units of its scale) together with a stretch
of e^beta:

`laplace_rule`, ApproxDP: V ~ Laplace(1), alpha = epsilon/2, beta = epsilon/(2 log(2/delta)). Write c = e^ell for the
ratio of the two scales and kappa <= alpha for the shift in units of the smaller one. From the narrower law to the
wider the log-ratio of densities is at most max(kappa, ell + kappa e^-ell) <= alpha + beta <= epsilon: nothing is
exceeded. From the wider to the narrower it exceeds epsilon only beyond t1, t2 = (epsilon + ell -+ kappa)/(c - 1) on
either side, where the excess integrates to
    (1 - 1/c) (e^(-t1) + e^(-t2))/2 = (1 - 1/c) e^(-(epsilon + ell)/(c - 1)) cosh(kappa/(c - 1)).
It grows with kappa, and with ell since t1 and t2 fall; so the worst neighbours have ell = beta, kappa = alpha. The rule
was stated for epsilon < 1; here the divergence is computed at every epsilon, and where it exceeds delta (beyond
epsilon = 13 or so) the rule is refused.

`cauchy_rule`, PureDP: V standard Cauchy. Its log-density moves by at most 1 per unit of shift (2u/(1+u^2)) and per unit
of log-scale ((u^2-1)/(u^2+1)), so alpha + beta <= epsilon is enough.

**S(x) is a secret**: it depends on the records. It may enter the noise and nothing else. Its float arithmetic is
covered by the margin: S is rounded up by 2^-44, and beta lies 2^-40 below the value the proof allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import float_above, float_below, fraction, integer
from noisewise.privacy.guarantee import ApproxDP, Guarantee, Number, PureDP

BETA_MARGIN = 2.0**-40
ROUNDING = 1 + 2.0**-44
FLOOR_STEPS = 2**10
LARGEST_STRETCH = -700.0  # the log-ratio of scales beyond which c is no float

_Floats = NDArray[np.float64]


@singledispatch
def laplace_rule(guarantee: Guarantee, *, beta: Number | None = None) -> tuple[Fraction, float]:  # noqa: ARG001
    """(alpha, beta) for Laplace noise of scale S/alpha; a `beta` other than the standard one is checked like it."""
    raise _wrong_kind("smooth-laplace", "ApproxDP", guarantee)


@laplace_rule.register
def _(guarantee: ApproxDP, *, beta: Number | None = None) -> tuple[Fraction, float]:
    alpha = guarantee.epsilon / 2
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    if beta is None:
        allowed = _standard_beta(epsilon, delta)
    else:
        allowed = float_below(fraction(beta, "beta", positive=True) + Fraction(BETA_MARGIN))
    if allowed > alpha:
        raise InvalidArgument(
            f"beta = {beta} cannot be used: expected less than epsilon/2 = {epsilon / 2:.6g}. Nothing was spent.",
            argument="beta",
        )
    divergence = worst_laplace_divergence(epsilon=epsilon, beta=allowed)
    if _surely(divergence) > delta:
        valid = _largest(lambda b: _holds(epsilon, delta, b + BETA_MARGIN), allowed)
        largest = _largest(lambda e: _holds(e, delta, _standard_beta(e, delta)), epsilon)
        raise Unsupported(
            f"The smooth-laplace rule with alpha = {epsilon / 2:.6g}, beta = {allowed:.6g} does not give "
            f"{guarantee!r}: its delta at this epsilon is {divergence:.3g}. Ask for epsilon <= {largest:.4g} at this "
            f"delta, or for beta <= {valid:.4g} at this epsilon. Nothing was spent.",
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            divergence=divergence,
            beta=allowed,
            valid_beta=valid,
            valid_epsilon=largest,
        )
    return alpha, _less_the_margin(allowed, guarantee)


@singledispatch
def cauchy_rule(guarantee: Guarantee) -> tuple[Fraction, float]:
    """(alpha, beta) for Cauchy noise of scale S/alpha: half of epsilon hides the shift, half the stretch."""
    raise _wrong_kind("smooth-cauchy", "PureDP", guarantee)


@cauchy_rule.register
def _(guarantee: PureDP) -> tuple[Fraction, float]:
    return guarantee.epsilon / 2, _less_the_margin(float_below(guarantee.epsilon / 2), guarantee)


def laplace_divergence(*, epsilon: float, shift: float, log_ratio: float) -> float:
    """The hockey-stick divergence of Laplace(0, 1) from Laplace(d, e^log_ratio) at epsilon.

    `shift` is |d| in units of the smaller of the two scales; both it and |log_ratio| are at most epsilon/2.
    """
    if log_ratio >= 0:
        return 0.0
    if log_ratio < LARGEST_STRETCH:
        return 1.0  # what it grows to with c
    stretch = math.expm1(-log_ratio)  # c - 1
    left, right = ((epsilon - log_ratio + sign * shift) / stretch for sign in (-1, 1))
    return stretch / (1 + stretch) * (math.exp(-left) + math.exp(-right)) / 2


def worst_laplace_divergence(*, epsilon: float, beta: float) -> float:
    """The largest delta of the smooth-laplace rule with alpha = epsilon/2 over all neighbours (proof above)."""
    return laplace_divergence(epsilon=epsilon, shift=epsilon / 2, log_ratio=-beta)


def smooth_scale(sorted_values: ArrayLike, *, index: int, low: float, high: float, beta: float) -> float:
    """S for the order statistic of rank `index` (from 1) of a sorted array, rounded up; secret.

    S = max_{k=0..n} e^(-k beta) max_{t=0..k+1} (s_{m+t} - s_{m+t-k-1}), exact up to rounding (upwards) while S is above
    2^-100 of the range. O(n log n) at worst, and only the steps with e^(-k beta) (high - low) above the best are taken.
    The array may also be the window of ranks within `reach` of the statistic, `index` counted in it: what lies beyond
    is then bounded by the ends of the range, too far away to pass the floor, so the floored S is the same.
    """
    values = np.asarray(sorted_values, dtype=float)
    _check(values, low, high, beta)
    m = integer(index, "index", minimum=1, maximum=values.size)
    below, above = np.append(values[m - 1 :: -1], low), np.append(values[m - 1 :], high)
    return _largest_discounted_gap(below, above, float(high) - float(low), beta) * ROUNDING


def reach(*, beta: float, low: float, high: float, floor: float) -> int:
    """How far from rank m order statistics can matter, whatever the data: e^(-reach beta) (high - low) <= `floor`."""
    if not (0 < beta < math.inf and 0 < floor < math.inf and high > low):
        raise InvalidArgument(
            f"reach needs beta > 0, floor > 0 and low < high, not beta = {beta}, floor = {floor}, "
            f"bounds [{low}, {high}].",
            argument="beta" if not 0 < beta < math.inf else "floor",
        )
    return max(0, math.ceil(math.log((high - low) / floor) / beta)) + 1


def scale_floor(*, step: float, alpha: Fraction) -> float:
    """The least scale used on a lattice of this step: fine enough that the rounded law is as wide as the smooth one."""
    return FLOOR_STEPS * step * max(1.0, float_above(alpha))


def floored(smooth: float, *, step: float, alpha: Fraction) -> float:
    """S, but at least the floor of its lattice; a maximum with a constant stays beta-smooth."""
    return max(smooth, scale_floor(step=step, alpha=alpha))


def _largest_discounted_gap(below: _Floats, above: _Floats, width: float, beta: float) -> float:
    """max over a, b >= 0 of e^(-beta (a+b-1)) (above[b] - below[a]); above[0] = below[0] is the statistic itself.

    Pairs with a = 0 or b = 0 give a first bound, which tells how far a and b may go. For the rest, lines
    x -> e^(-beta b) (above[b] - x) fall less steeply as b grows, so the best b moves one way as x = below[a] does.
    """
    statistic = above[0]
    weights = np.exp(-beta * np.arange(max(below.size, above.size)))
    best = float(
        max(
            np.max(weights[: above.size - 1] * (above[1:] - statistic)),
            np.max(weights[: below.size - 1] * (statistic - below[1:])),
        )
    )
    if best > 0:
        furthest = math.floor((math.log(width) - math.log(best)) / beta + 1e-6) + 2
        below, above = below[:furthest], above[:furthest]
    rows = below[:0:-1]  # a >= 1, its records ascending, so that the best column ascends too
    maxima = _row_maxima(rows, above, weights[: above.size])
    return max(best, float(np.max(weights[: rows.size][::-1] * maxima)))


def _row_maxima(rows: _Floats, columns: _Floats, weights: _Floats) -> _Floats:
    """max_b weights[b] (columns[b] - x) for every x of the ascending `rows`, the best b ascending with x.

    Divide and conquer, one level at a time: every other known row fences in the search of the row between.
    """
    n_rows, last = rows.size, columns.size - 1
    best = np.zeros(n_rows, dtype=np.int64)
    maxima = np.empty(n_rows)
    stride = 1 << (n_rows.bit_length() - 1)
    while stride:
        now = np.arange(stride - 1, n_rows, 2 * stride)
        low = np.where(now >= stride, best[now - stride], 0)
        high = np.where(now + stride < n_rows, best[np.minimum(now + stride, n_rows - 1)], last)
        lengths = high - low + 1
        starts = np.cumsum(lengths) - lengths
        group = np.repeat(np.arange(now.size), lengths)
        column = np.arange(group.size) - starts[group] + low[group]
        value = weights[column] * (columns[column] - rows[now][group])
        maxima[now] = np.maximum.reduceat(value, starts)
        attained = np.flatnonzero(value == maxima[now][group])
        best[now] = column[attained[np.searchsorted(group[attained], np.arange(now.size))]]
        stride //= 2
    return maxima


def _less_the_margin(beta: float, guarantee: Guarantee) -> float:
    if beta <= 2 * BETA_MARGIN:
        raise Unsupported(
            f"{guarantee!r} leaves beta = {beta:.3g}, too little to cover rounding (2^-39). Ask for a larger epsilon. "
            "Nothing was spent.",
            beta=beta,
        )
    return float_below(Fraction(beta) - Fraction(BETA_MARGIN))


def _standard_beta(epsilon: float, delta: float) -> float:
    return min(epsilon / (2 * math.log(2 / delta)), math.nextafter(epsilon / 2, 0.0))


def _holds(epsilon: float, delta: float, beta: float) -> bool:
    return _surely(worst_laplace_divergence(epsilon=epsilon, beta=beta)) <= delta


def _surely(divergence: float) -> float:
    """A bound on a divergence computed in floats."""
    return divergence * (1 + 1e-9)


def _largest(holds: Callable[[float], bool], upper: float) -> float:
    """The largest argument below `upper` up to which a claim holds, to four digits, rounded down."""
    low, high = 0.0, min(upper, -LARGEST_STRETCH)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    digits = 3 - math.floor(math.log10(low)) if low > 0 else 0
    return math.floor(low * 10.0**digits) / 10.0**digits


def _check(values: _Floats, low: float, high: float, beta: float) -> None:
    if not 0 < beta < math.inf:
        raise InvalidArgument(f"beta = {beta!r} cannot be used: expected a number greater than 0.", argument="beta")
    if not -math.inf < low < high < math.inf:
        raise InvalidArgument(f"bounds [{low}, {high}] cannot be used: expected low < high.", argument="low")
    fine = values.ndim == 1 and values.size > 0 and low <= values[0] and values[-1] <= high
    if not (fine and bool(np.all(values[1:] >= values[:-1]))):
        # The values themselves are records and are not quoted.
        raise InvalidArgument(
            "order statistics cannot be used: expected at least one value, ascending and within the bounds.",
            argument="order_statistics",
        )


def _wrong_kind(mechanism: str, kind: str, guarantee: object) -> Unsupported:
    return Unsupported(f"{mechanism} gives {kind}, not {guarantee!r}. Nothing was spent.", guarantee=guarantee)
