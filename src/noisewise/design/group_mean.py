"""How well the mean of a group will be known: noise on a sum over noise on a count.

A group of m records with mean mu is released as its sum m mu + E and its count m + C. Their ratio misses the mean by

    (m mu + E)/(m + C) - mu = (E - mu C)/(m + C),

so it lies within h of it where m + C > 0 and mu C - h (m + C) <= E <= mu C + h (m + C). The probability of that is the
mean over C of a difference of two values of E's distribution function; C is taken at the middles of equal shares of its
own law. The noise is symmetric, so it grows with |mu|: at the largest |mu| that the bounds allow the width holds for
every mean. Nothing is simulated, and no law is taken for another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noisewise.laws import additive_law
from noisewise.planning import Plan
from noisewise.statistics.protocol import Average

SHARES = 2000


def mean_half_width(made: Plan, average: Average, *, records: int, low: float, high: float, level: float) -> float:
    """The smallest h such that a group's mean is within h of the truth with probability `level`.

    `records` is m; the mean lies between `low` and `high`, so h is at most half of that range.
    """
    law, count, total = additive_law(made.law), average.count, average.total
    size, most = max(abs(low), abs(high)), (high - low) / 2
    steps = _quantiles(made, (np.arange(SHARES // 2) + 0.5) / SHARES, count)
    counts = records + np.concatenate([-steps, steps]) * law.step[count]

    def inside(h: float) -> float:
        reach, middle = h * counts, size * (counts - records)
        ends = [np.floor((middle + side * reach) / law.step[total]) for side in (1, -1)]
        upper, lower = (law.cdf(end, total) for end in ends)
        return float(np.where(counts > 0, upper - lower, 0.0).mean())

    short, enough = 0.0, most
    if inside(most) < level:
        return most
    while enough - short > 1e-4 * enough:
        middle = (short + enough) / 2
        short, enough = (short, middle) if inside(middle) >= level else (middle, enough)
    return enough


def _quantiles(made: Plan, tails: NDArray[np.float64], component: int) -> NDArray[np.float64]:
    """The smallest numbers of steps that the noise falls below, to the other side of 0, with these probabilities."""
    law = additive_law(made.law)
    low, high = np.full(tails.shape, -1.0), np.full(tails.shape, float(law.reach(float(tails.min()), component)))
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        is_enough = law.cdf(-middle - 1, component) <= tails
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return high
