"""Goodness of fit by Pearson's test, with a sample size that makes a tenth visible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6


def critical_value(cells):
    return stats.chi2.isf(FALSE_ALARM, cells - 1)


def sample_size(true, wrongs):
    """Draws after which Pearson's test rejects each wrong law with probability > 1 - 1e-6.

    Drawn from q and tested against p, the statistic is close to noncentral chi-square with n sum (q-p)^2/p; the size is
    found from that, so a planted fault fails to be caught at most once in a million runs (asked: power > .999).
    """
    n = 5000
    while True:
        shifts = [n * np.sum((true - wrong) ** 2 / wrong) for wrong in wrongs]
        power = [stats.ncx2.sf(critical_value(true.size), true.size - 1, shift) for shift in shifts]
        if min(power) > 1 - FALSE_ALARM and n * true.min() > 20:
            return n
        n = math.ceil(1.2 * n)
        assert n < 10**6, "these cells cannot tell the laws apart"


def rejects(counts, probabilities):
    expected = counts.sum() * probabilities
    return float(np.sum((counts - expected) ** 2 / expected)) > critical_value(counts.size)


def chi_square(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Pearson's p-value, with cells of small expectation joined."""
    expected = np.array(probabilities) * sum(counts)
    order = np.argsort(expected)
    joined, seen, joined_expected, joined_counts = 0.0, 0, [], []
    for j in order:
        joined, seen = joined + expected[j], seen + counts[j]
        if joined >= 10:
            joined_expected.append(joined)
            joined_counts.append(seen)
            joined, seen = 0.0, 0
    joined_expected[-1] += joined
    joined_counts[-1] += seen
    statistic = sum((c - e) ** 2 / e for c, e in zip(joined_counts, joined_expected, strict=True))
    return float(stats.chi2.sf(statistic, len(joined_expected) - 1))
