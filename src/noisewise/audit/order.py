"""Laws of released order statistics, given the records: what is compared between neighbouring data sets.

Records are lattice integers. A smooth release is value + noise of the secret ratio r = S/(alpha step); rounding is
post-processing, so the ratio of probabilities of a lattice point is at most the largest ratio of densities on its
cell, and the delta of the rounded law at most that of the continuous one:

    Cauchy     log f1/f2 is extreme at the ends or where -D u^2 + (r2^2 - r1^2 + D^2) u + D r1^2 = 0,
               with u = k - v1 and D = v2 - v1
    Laplace    log f1/f2 is piecewise linear with knots v1, v2, so {log f1/f2 > eps} is a union of at most two intervals

An exponential release is constant between neighbouring records, P(y) = exp(-eps/2 |#{x < y} - q n|)/Z.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from noisewise.laws import ExponentialQuantile, SmoothLaw, smooth_law
from noisewise.planning import Plan
from noisewise.privacy import smooth
from noisewise.statistics.order import OrderStatistic, Quantile


class Noise(NamedTuple):
    """Where a smooth release is centred (in steps), its secret scale S, and r = S/(alpha step)."""

    value: int
    scale: float
    ratio: float


def order_noise(plan: Plan, records: Sequence[int]) -> Noise:
    """The order statistic of sorted lattice integers and the noise its smooth sensitivity asks for."""
    law, statistic = smooth_law(plan.law), plan.statistic
    assert isinstance(statistic, OrderStatistic)
    rank = statistic.rank(len(records))
    bound = smooth.smooth_scale(
        np.array(records, dtype=float),
        index=rank,
        low=float(plan.lattice.low[0]),
        high=float(plan.lattice.high[0]),
        beta=law.beta,
    )
    steps = smooth.floored(bound, step=1.0, alpha=law.alpha)
    return Noise(records[rank - 1], steps * law.step, steps / float(law.alpha))


def extreme_pairs(law: SmoothLaw, width: int) -> list[tuple[Noise, Noise]]:
    """The worst neighbours that smoothness allows: S apart, scales S and e^beta S; S at its floor and its most."""
    pairs = []
    for smaller in (smooth.scale_floor(step=1.0, alpha=law.alpha), float(width)):
        apart = math.floor(smaller)
        narrow = Noise(0, smaller * law.step, smaller / float(law.alpha))
        larger = smaller * math.exp(law.beta)
        for shift in (0, apart, -apart):
            wide = Noise(shift, larger * law.step, larger / float(law.alpha))
            pairs += [(narrow, wide), (wide, narrow)]
    return pairs


def smooth_log_ratio(law: SmoothLaw, first: Noise, second: Noise) -> float:
    """The largest log-ratio of two Cauchy releases, over all outputs; lattice probabilities confirm it."""
    r1, r2, move = first.ratio, second.ratio, float(second.value - first.value)

    def density_ratio(u: float) -> float:
        return math.log(r1 / r2) + math.log((r2 * r2 + (u - move) ** 2) / (r1 * r1 + u * u))

    ends = math.log(r2 / r1)  # as u goes to infinity f1/f2 goes to r1/r2, and the other way round
    extremes = [abs(ends)]
    for u in _roots(-move, r2 * r2 - r1 * r1 + move * move, move * r1 * r1):
        extremes.append(abs(density_ratio(u)))
        k = np.round(u) + np.array([-1.0, 0.0, 1.0])
        probability = law.log_pmf(k, smooth_scale=first.scale) - law.log_pmf(k - move, smooth_scale=second.scale)
        extremes.append(float(np.max(np.abs(probability))))
    return max(extremes)


def smooth_delta(law: SmoothLaw, first: Noise, second: Noise, epsilon: float) -> float:
    """The hockey-stick divergence of two Laplace releases at epsilon, continuous; the cdf confirms it."""
    r1, r2 = first.ratio, second.ratio
    move = float(second.value - first.value)
    continuous = rounded = 0.0
    for start, stop in _where_above(r1, r2, move, epsilon):
        continuous += _laplace_mass(start, stop, r1) - math.exp(epsilon) * _laplace_mass(start - move, stop - move, r2)
        a, b = (end if math.isinf(end) else round(end) for end in (start, stop))
        inside = _rounded_mass(law, a, b, first.scale)
        rounded += inside - math.exp(epsilon) * _rounded_mass(law, a - move, b - move, second.scale)
    return max(0.0, continuous, rounded)


def exponential_pieces(plan: Plan, records: Sequence[int]) -> tuple[list[int], list[int], list[float]]:
    """Starts, lengths and exponents of the stretches of lattice on which a private quantile is uniform."""
    law, statistic = plan.law, plan.statistic
    assert isinstance(law, ExponentialQuantile)
    assert isinstance(statistic, Quantile)
    low, high = plan.lattice.low[0], plan.lattice.high[0]
    target = statistic.q * len(records)
    starts = [low, *(record + 1 for record in sorted(records))]
    lengths = [stop - start for start, stop in zip(starts, [*starts[1:], high + 1], strict=True)]
    exponents = [float(law.epsilon / 2 * abs(rank - target)) for rank in range(len(starts))]
    return starts, lengths, exponents


def exponential_log_ratio(plan: Plan, first: Sequence[int], second: Sequence[int]) -> float:
    """The largest log-ratio of two private quantiles over all lattice points."""
    laws = [exponential_pieces(plan, records) for records in (first, second)]
    log_totals = [
        math.log(math.fsum(length * math.exp(-exponent) for length, exponent in zip(lengths, exponents, strict=True)))
        for _, lengths, exponents in laws
    ]
    points = sorted({start for starts, _, _ in laws for start in starts if start <= plan.lattice.high[0]})
    largest = 0.0
    for point in points:
        logs = [
            -exponents[sum(start <= point for start in starts) - 1] - total
            for (starts, _, exponents), total in zip(laws, log_totals, strict=True)
        ]
        largest = max(largest, abs(logs[0] - logs[1]))
    return largest


def _roots(a: float, b: float, c: float) -> list[float]:
    """The real roots of a u^2 + b u + c, without cancellation."""
    if a == 0:
        return [0.0 if c == 0 else -c / b] if b != 0 else [0.0]
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    q = -(b + math.copysign(root, b)) / 2
    return [q / a, c / q] if q != 0 else [0.0]


def _where_above(r1: float, r2: float, move: float, epsilon: float) -> list[tuple[float, float]]:
    """The intervals of u = k - v1 on which log f1/f2 = log(r2/r1) - |u|/r1 + |u - move|/r2 exceeds epsilon."""

    def excess(u: float) -> float:
        return math.log(r2 / r1) - abs(u) / r1 + abs(u - move) / r2 - epsilon

    knots = sorted({0.0, move})
    far = 1e4 * max(r1, r2) + 10 * abs(move)
    points = [knots[0] - far, *knots, knots[-1] + far]
    found: list[tuple[float, float]] = []
    for a, b in itertools.pairwise(points):
        at_a, at_b = excess(a), excess(b)
        if at_a <= 0 and at_b <= 0:
            continue
        crossing = a + (b - a) * at_a / (at_a - at_b) if (at_a > 0) != (at_b > 0) else None
        start = (a if at_a > 0 else crossing) or 0.0
        stop = (b if at_b > 0 else crossing) or 0.0
        start = -math.inf if start == points[0] else start
        stop = math.inf if stop == points[-1] else stop
        found.append((start, stop))
    return found


def _laplace_mass(start: float, stop: float, r: float) -> float:
    """P(start < r V < stop), V ~ Laplace(1), without cancellation in either tail."""
    if start >= 0:
        return (math.exp(-start / r) - math.exp(-stop / r)) / 2
    if stop <= 0:
        return (math.exp(stop / r) - math.exp(start / r)) / 2
    return 1 - (math.exp(start / r) + math.exp(-stop / r)) / 2


def _rounded_mass(law: SmoothLaw, start: float, stop: float, scale: float) -> float:
    """P(start < K <= stop) of the rounded law, from its cdf, by the tail that keeps its digits."""
    ends = np.array([start, stop])
    if start >= 0:
        upper = np.where(np.isinf(ends), 0.0, law.cdf(-np.where(np.isinf(ends), 0.0, ends) - 1, smooth_scale=scale))
        return float(upper[0] - upper[1])
    finite = np.where(np.isinf(ends), 0.0, ends)
    lower = np.where(np.isinf(ends), ends > 0, law.cdf(finite, smooth_scale=scale))
    return float(lower[1] - lower[0])
