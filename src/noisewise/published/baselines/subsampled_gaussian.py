"""What Gaussian noise on random minibatches costs: Rényi accounting of the subsampled Gaussian mechanism.

Each step takes every record with chance q, sums vectors of length at most C and adds N(0, (sigma C)^2). Between data
sets that differ by one record *added or removed* its Rényi divergence at a whole order a is at most

    (a - 1) r(a) = log sum_{k=0}^{a} binom(a, k) (1 - q)^{a-k} q^k exp((k^2 - k) / (2 sigma^2))

(Mironov, Talwar & Zhang 2019, section 3.3). The left side is convex in a and 0 at a = 1, so the chord between whole
orders bounds the orders between them. T steps add up to T r(a), and

    epsilon = min over a > 1 of   T r(a) + log(1 - 1/a) - (log delta + log a)/(a - 1)

(Canonne, Kamath & Steinke 2020). Every order is valid, so the answer is an upper bound however coarse the grid.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.types import Floats

__all__ = ["noise_multiplier_for", "spent_epsilon"]

WHOLE_ORDERS = (*range(1, 65), *(round(64 * 2 ** (j / 8)) for j in range(1, 49)))  # up to 4096
BETWEEN = 16  # orders on each chord
LARGEST_MULTIPLIER = 1e6
PRECISION = 1e-6


def spent_epsilon(*, noise_multiplier: float, sampling_rate: float, steps: int, delta: float) -> float:
    """The epsilon at `delta` of so many steps; add-remove neighbours."""
    _check(noise_multiplier, sampling_rate, delta)
    integer(steps, "steps", minimum=1)
    moments = log_moments(noise_multiplier, sampling_rate)
    orders = _orders()
    spent = steps * np.interp(orders, WHOLE_ORDERS, moments) / (orders - 1)
    bounds = spent + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(np.min(bounds)))


def noise_multiplier_for(*, epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """The smallest sigma (to one in a million, rounded up) whose steps spend at most epsilon at `delta`."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidArgument(f"epsilon = {epsilon!r} must be above 0.", argument="epsilon")

    def is_enough(sigma: float) -> bool:
        return spent_epsilon(noise_multiplier=sigma, sampling_rate=sampling_rate, steps=steps, delta=delta) <= epsilon

    low, high = 1e-2, 1.0
    while not is_enough(high):
        low, high = high, 2 * high
        if high > LARGEST_MULTIPLIER:
            raise InvalidArgument(
                f"epsilon = {epsilon:g} at delta = {delta:g} is out of reach of {steps} steps at any noise that this "
                "accounting can weigh; take fewer steps, a smaller sampling rate or a larger delta.",
                argument="epsilon",
            )
    while high > low * (1 + PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def log_moments(noise_multiplier: float, sampling_rate: float) -> Floats:
    """(a - 1) r(a) of one step at `WHOLE_ORDERS`."""
    orders = np.array(WHOLE_ORDERS, dtype=float)
    if sampling_rate == 1:
        return np.asarray(orders * (orders - 1) / (2 * noise_multiplier**2))
    order, k, chosen, starts = _binomials()
    terms = chosen + (order - k) * math.log1p(-sampling_rate) + k * math.log(sampling_rate)
    terms += (k**2 - k) / (2 * noise_multiplier**2)
    top = np.maximum.reduceat(terms, starts)
    total = np.add.reduceat(np.exp(terms - np.repeat(top, np.diff([*starts, len(terms)]))), starts)
    return np.asarray(np.maximum(top + np.log(total), 0))


@lru_cache(maxsize=1)
def _binomials() -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """a, k and log binom(a, k) for k = 0..a of every whole order a, laid end to end, and where each order begins."""
    sizes = np.array(WHOLE_ORDERS) + 1
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    order = np.repeat(sizes - 1.0, sizes)
    k = np.arange(len(order)) - np.repeat(starts, sizes).astype(float)
    return order, k, gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1), starts


@lru_cache(maxsize=1)
def _orders() -> Floats:
    """Whole orders above 1, and some on each chord between them."""
    whole = np.array(WHOLE_ORDERS, dtype=float)
    steps = np.arange(1, BETWEEN + 1) / BETWEEN
    return np.asarray((whole[:-1, None] + np.diff(whole)[:, None] * steps).ravel())


def _check(noise_multiplier: float, sampling_rate: float, delta: float) -> None:
    if not (math.isfinite(noise_multiplier) and noise_multiplier > 0):
        raise InvalidArgument(f"noise_multiplier = {noise_multiplier!r} must be above 0.", argument="noise_multiplier")
    if not 0 < sampling_rate <= 1:
        raise InvalidArgument(f"sampling_rate = {sampling_rate!r} must be in (0, 1].", argument="sampling_rate")
    if not 0 < delta < 1:
        raise InvalidArgument(f"delta = {delta!r} must be in (0, 1).", argument="delta")
