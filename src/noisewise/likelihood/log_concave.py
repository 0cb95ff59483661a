"""Log-concave laws on whole numbers: where their mass is, and exact draws from them.

A count is binomial (or Poisson, or multinomial) given theta and every additive noise law here is log-concave, so their
product f, as a function of the count s, is too: it rises to a mode and falls. The mode is where f(s+1)/f(s) passes 1,
found by bisection, and so are the ends beyond which f lies below e^{-fall} of its peak. All of it is vectorised over
laws and costs log(n), never n.

Draws are by rejection (Devroye 1987): a log-concave pmf with mode m satisfies f(m+x)/f(m) <= min(1, e^{1 - f(m) |x|}),
an envelope whose area is about 4 whatever the law, so a draw costs 4 or 5 evaluations of f at any n.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from noisewise.types import Floats

__all__ = ["draw", "mode", "reach"]

Law = Callable[[Floats], Floats]  # log f at one s for each law, in the laws' shape


def mode(rises: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats) -> Floats:
    """The smallest s in low..high with f(s+1) <= f(s), or high; `rises(s)` says where f(s+1) > f(s)."""
    low, high = low.copy(), high.copy()
    while np.any(low < high):
        middle = np.floor(0.5 * (low + high))
        up = rises(middle) & (low < high)
        low, high = np.where(up, middle + 1, low), np.where(up | (low >= high), high, middle)
    return low


def reach(log_f: Law, peak: Floats, low: Floats, high: Floats, *, fall: float) -> tuple[Floats, Floats]:
    """The first and last s in low..high with log f(s) >= log f(peak) - fall."""
    floor = log_f(peak) - fall
    first = mode(lambda s: log_f(s) < floor, low, peak)
    # Past the peak: the last s that is still above the floor.
    inside, outside = peak.copy(), high + 1
    while np.any(outside - inside > 1):
        middle = np.floor(0.5 * (inside + outside))
        above = log_f(np.minimum(middle, high)) >= floor
        inside, outside = np.where(above, middle, inside), np.where(above, outside, middle)
        inside, outside = np.minimum(inside, high), np.maximum(outside, inside + 1)
    return first, inside


def draw(
    rng: np.random.Generator,
    log_f: Callable[[Floats, NDArray[np.intp]], Floats],
    peak: Floats,
    log_total: Floats,
) -> Floats:
    """One draw from each law f/e^{log_total}, (K,); log_f(s, rows) is log f of some rows, -inf outside the support."""
    drawn, missing = peak.copy(), np.arange(peak.size)
    top = log_f(peak, missing)
    height = np.exp(np.minimum(top - log_total, 0.0))
    while missing.size:
        h = height[missing]
        width = 1 + 0.5 * h
        near = rng.random(h.size) <= width / (1 + width)
        y = np.where(near, rng.random(h.size) * width, width + rng.standard_exponential(h.size)) / h
        s = peak[missing] + np.where(rng.random(h.size) < 0.5, -1, 1) * np.floor(y + 0.5)
        level = np.minimum(0.0, width - h * y) - rng.standard_exponential(h.size)
        kept = level <= log_f(s, missing) - top[missing]
        drawn[missing[kept]] = s[kept]
        missing = missing[~kept]
    return drawn
