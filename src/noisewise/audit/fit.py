"""Goodness of fit: what is drawn is the law that is scored, and a scale 10 % off would show.

Draws are sorted into cells of about equal probability and compared by Pearson's chi-square at a false-alarm rate of
1e-6. The number of draws is not chosen by hand: under a wrong law q the statistic is close to a noncentral chi-square
with n sum (q-p)^2/p, and n is the smallest (in steps of a fifth) at which every named wrong law is rejected with
probability above 1 - 1e-6. So a fit says two things: this law, and none of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisewise.audit.order import Noise, exponential_pieces, order_noise
from noisewise.errors import Unsupported
from noisewise.laws import (
    AdditiveLaw,
    ExponentialQuantile,
    Form,
    Law,
    SmoothLaw,
    action_law,
    additive_law,
    cell_law,
    smooth_law,
)
from noisewise.planning import Plan
from noisewise.types import Floats

FALSE_ALARM = 1e-6
CELLS = 24
FEWEST, MOST = 5000, 10**6
Cdf = Callable[[Any], Floats]


@dataclass(frozen=True, slots=True)
class Fit:
    """Pearson's statistic of a sample against a law, beside its critical value at the false-alarm rate."""

    draws: int
    statistic: float
    critical: float

    @property
    def fits(self) -> bool:
        return self.statistic <= self.critical


def goodness_of_fit(counts: NDArray[np.int64], probabilities: Floats) -> Fit:
    """Pearson's chi-square of cell counts against cell probabilities."""
    n = int(counts.sum())
    expected = n * probabilities
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return Fit(n, statistic, critical_value(counts.size))


def critical_value(cells: int) -> float:
    """What the statistic of a true law exceeds once in a million samples."""
    from scipy.special import chdtri

    return float(chdtri(cells - 1, FALSE_ALARM))


def draws_needed(true: Floats, wrongs: Sequence[Floats]) -> int:
    """How many draws reject every wrong law but once in a million samples (and fill every cell)."""
    from scipy.special import chndtr

    n, critical = FEWEST, critical_value(true.size)
    while n < MOST:
        misses = [chndtr(critical, true.size - 1, n * float(np.sum((true - q) ** 2 / q))) for q in wrongs]
        if max(misses) < FALSE_ALARM and n * true.min() > 20:
            return n
        n = math.ceil(1.2 * n)
    raise Unsupported("These cells cannot tell the laws apart.")


def cut_points(cdf: Cdf) -> Floats:
    """Integers that cut a lattice law into at most 24 cells of about equal probability."""
    cuts: list[int] = []
    for level in np.arange(1, CELLS) / CELLS:
        low, high = -(2**120), 2**120
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if cdf(float(middle)) < level else (low, middle)
        if not cuts or high > cuts[-1]:
            cuts.append(high)
    while cuts and 1 - float(cdf(float(cuts[-1]))) < 0.01:
        cuts.pop()
    return np.array(cuts, dtype=float)


def cell_probabilities(cdf: Cdf, cuts: Floats) -> Floats:
    return np.diff([0.0, *np.asarray(cdf(cuts)), 1.0])


def fit_of_plan(plan: Plan, *, drawn: Law | None = None) -> Fit:
    """Draw by `holder.draw` what `plan` would draw and compare it with the law it publishes.

    `drawn` plants another law behind the back of the published one. Enough draws are made to tell the published law
    from the same one with its scale (or its odds) 10 % off.
    """
    law = plan.law if drawn is None else drawn
    if law.form is Form.NUMBER:
        return _fit_additive(additive_law(plan.law), additive_law(law))
    if law.form is Form.SCALED:
        return _fit_smooth(plan, smooth_law(plan.law), smooth_law(law))
    if isinstance(law, ExponentialQuantile):
        return _fit_exponential(plan, law)
    return _fit_rows(plan.law, law)


def _fit_additive(law: AdditiveLaw, drawn: AdditiveLaw) -> Fit:
    from noisewise.holder import draw

    off = [law.smaller(factor) for factor in (Fraction(9, 10), Fraction(11, 10))]
    cuts = cut_points(law.cdf)
    true = cell_probabilities(law.cdf, cuts)
    n = draws_needed(true, [cell_probabilities(wrong.cdf, cuts) for wrong in off])
    # As many vectors as draws, drawn as one long vector: its first component, then that of the next one, and so on.
    return _of_sample(np.array(draw.noise(drawn.repeated(n))[:: drawn.size], dtype=float), cuts, true)


def _fit_smooth(plan: Plan, law: SmoothLaw, drawn: SmoothLaw) -> Fit:
    from noisewise.holder import draw

    low, high = plan.lattice.low[0], plan.lattice.high[0]
    records = np.linspace(low, high, plan.part_schema.largest_n).astype(int).tolist()
    noise: Noise = order_noise(plan, records)

    def cdf_at(factor: float) -> Cdf:
        return lambda k: law.cdf(k, smooth_scale=factor * noise.scale)

    cuts = cut_points(cdf_at(1.0))
    true = cell_probabilities(cdf_at(1.0), cuts)
    n = draws_needed(true, [cell_probabilities(cdf_at(factor), cuts) for factor in (0.9, 1.1)])
    sample = np.array([draw.smooth_noise(drawn, noise.scale) for _ in range(n)], dtype=float)
    return _of_sample(sample, cuts, true)


def _fit_exponential(plan: Plan, drawn: ExponentialQuantile) -> Fit:
    """Stretches between records, each cut in two halves, against lengths times e^-exponent."""
    from noisewise.holder import draw

    low, high, n_records = plan.lattice.low[0], plan.lattice.high[0], plan.part_schema.largest_n
    records = [low + (high - low) * (k + 1) // (n_records + 1) for k in range(n_records)]
    starts, lengths, exponents = exponential_pieces(plan, records)

    def halves(factor: float) -> Floats:
        weights = np.array(lengths) * np.exp(-factor * np.array(exponents))
        return np.repeat(weights / weights.sum() / 2, 2)

    n = draws_needed(halves(1.0), [halves(0.9), halves(1.1)])
    assert isinstance(plan.law, ExponentialQuantile)
    exact = [Fraction(e) * drawn.epsilon / plan.law.epsilon for e in exponents]
    pieces = [draw.weighted_index(lengths, exact) for _ in range(n)]
    points = [starts[k] + draw.uniform_below(lengths[k]) for k in pieces]
    cuts = np.sort(np.array([*starts[1:], *(s + (length + 1) // 2 for s, length in zip(starts, lengths, strict=True))]))
    return goodness_of_fit(np.bincount(np.searchsorted(cuts, points, side="right"), minlength=2 * len(starts)),
                           halves(1.0))  # fmt: skip


def _fit_rows(law: Law, drawn: Law) -> Fit:
    from noisewise.holder import draw

    rows = cell_law(law).rows() if law.form is Form.CELL else action_law(law).rows
    row = np.array([float(p) for p in rows[0]])
    tilted = row * np.where(np.arange(row.size) == 0, 1.1, 1.0)
    n = draws_needed(row, [tilted / tilted.sum()])
    counts = np.bincount(draw.answers(drawn, np.zeros(n, dtype=np.int64)), minlength=row.size)
    return goodness_of_fit(counts, row)


def _of_sample(sample: Floats, cuts: Floats, true: Floats) -> Fit:
    counts = np.bincount(np.searchsorted(cuts, sample, side="left"), minlength=true.size)
    return goodness_of_fit(counts, true)
