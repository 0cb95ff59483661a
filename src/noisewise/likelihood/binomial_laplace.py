"""A noisy count in closed form: s ~ Binomial(n, p) behind discrete Laplace noise, at every n, at the same cost.

With q = 1 - p and a = e^{-rate}, P(y | s) = (1-a)/(1+a) a^{|y-s|}. The sum over s <= y is a tilted binomial cdf,
    T(y; p, q) = sum_{s<=y} Binomial(s; n, p) a^{y-s} = a^y (q + p/a)^n P(Binomial(n, t) <= y),    t = p/(p + a q),
and that over s > y is the same by reflection (count the other records), a T(n-1-y; q, p). So
    p(y | p) = (1-a)/(1+a) [T(y; p, q) + a T(n-1-y; q, p)],      0 for an empty sum, cdf = 1 from y = n on.
On a lattice finer than one record y may lie between two counts, at m + f with m whole: the two sides are then those of
m times a^f and a^-f, and the noise's highest probability (`log_norm`) stands for (1-a)/(1+a).
Above its mean the cdf is at least about 1/2 and T is taken as written. Below it, T = Binomial(y; n, p) M with the Mills
ratio M = cdf/pmf at t, between 1 and about sqrt(n): from the incomplete beta function, and where that underflows from
its continued fraction, which converges in a few terms there. E[s | s <= y] under the tilt is t (n - (n-y)/M).

Promise: log p(y | p) to 1e-9 for n up to 10^6 and to 1e-7 up to 10^9 (what the incomplete beta function gives); p = 0
and p = 1 are allowed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, expit

from noisewise.likelihood.discrete_laws import binomial_log_pmf
from noisewise.types import Floats

__all__ = ["log_likelihood", "mean_counts", "score"]

DEEPEST = 1e-250  # below it a cdf is taken from the continued fraction
MOST_TERMS = 400


def log_likelihood(p: ArrayLike, *, y: float, n: int, rate: float, log_norm: float | None = None) -> Floats:
    """log p(y | p), elementwise in p; `rate` is one record over the scale of the noise, `log_norm` of a finer one."""
    p = np.asarray(p, dtype=np.float64)
    below, above, _, _ = _two_sides(p, y, n, rate)
    return np.asarray((_log_norm(rate) if log_norm is None else log_norm) + np.logaddexp(below, above))


def mean_counts(p: ArrayLike, *, y: float, n: int, rate: float) -> tuple[Floats, Floats]:
    """E[s | y, p] and E[n - s | y, p], elementwise in p, each to its own digits."""
    below, above, low, high = _two_sides(np.asarray(p, dtype=np.float64), y, n, rate)
    lower, upper = expit(below - above), expit(above - below)
    counted, others = (lower * one + upper * other for one, other in zip(low, high, strict=True))
    return np.asarray(counted), np.asarray(others)


def score(p: ArrayLike, *, y: float, n: int, rate: float) -> Floats:
    """d log p(y | p)/dp = E[s | y, p]/p - E[n - s | y, p]/q; at the ends by one record more or less."""
    p = np.asarray(p, dtype=np.float64)
    counted, others = mean_counts(p, y=y, n=n, rate=rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = counted / p - others / (1 - p)
    with np.errstate(over="ignore"):
        at_zero = n * np.expm1(rate * (abs(y) - abs(y - 1)))
        at_one = -n * np.expm1(rate * (abs(y - n) - abs(y - n + 1)))
    return np.asarray(np.where(p == 0, at_zero, np.where(p == 1, at_one, inner)))


def _log_norm(rate: float) -> float:
    """log (1-a)/(1+a)."""
    return math.log(math.tanh(rate / 2)) if rate < 1 else math.log1p(-math.exp(-rate)) - math.log1p(math.exp(-rate))


Means = tuple[Floats, Floats]  # of s and of n - s


def _two_sides(p: Floats, y: float, n: int, rate: float) -> tuple[Floats, Floats, Means, Means]:
    """log of the sums over s <= y and s > y, and the mean counts on each side."""
    whole = math.floor(y)
    rest = y - whole
    below, low = _side(whole, n, p, 1 - p, rate)
    above, (others, counted) = _side(n - 1 - whole, n, 1 - p, p, rate)
    return below - rate * rest, above - rate * (1 - rest), low, (counted, others)


def _side(y: int, n: int, p: Floats, q: Floats, rate: float) -> tuple[Floats, Means]:
    """log T(y; p, q), and E[s], E[n - s] given s <= y under the tilt."""
    if y < 0:
        return np.full(p.shape, -np.inf), (np.zeros(p.shape), np.zeros(p.shape))
    a = math.exp(-rate)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        total = p + a * q
        log_total = np.where(q < 0.5, np.log1p(np.expm1(-rate) * q), np.logaddexp(np.log(p), np.log(q) - rate))
        t = np.where(total > 0, p / total, 0.0)
        u = np.where(total > 0, a * q / total, 1.0)
        whole = (n - y) * rate + n * log_total
        if y >= n:
            return np.asarray(whole), (n * t, n * u)
        cdf = betainc(n - y, y + 1.0, u)
        log_mills = np.array(np.log(cdf) - binomial_log_pmf(y, n=n, p=t, q=u))
        deep = np.asarray(cdf <= DEEPEST)
        log_mills[deep] = np.log(t[deep] * _fraction(n - y, y + 1.0, u[deep]))
        log_mills = log_mills if y > 0 else np.zeros_like(log_mills)
        inverse = np.exp(-np.maximum(log_mills, 0.0))
        log_sum = np.where(y >= n * t, whole + np.log(cdf), binomial_log_pmf(y, n=n, p=p, q=q) + log_mills)
        return log_sum, (t * (n * (1 - inverse) + y * inverse), n * u + t * (n - y) * inverse)


def _fraction(a: float, b: float, x: Floats) -> Floats:
    """The continued fraction of I_x(a, b)/[x^a (1-x)^b/(a B(a, b))] by Lentz's method, for x below (a+1)/(a+b+2)."""
    tiny = 1e-300
    d = 1 - (a + b) * x / (a + 1)
    d = 1 / np.where(np.abs(d) < tiny, tiny, d)
    c, h = np.ones_like(x), d.copy()
    for m in range(1, MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 + term * d, 1 + term / c
            d = 1 / np.where(np.abs(d) < tiny, tiny, d)
            c = np.where(np.abs(c) < tiny, tiny, c)
            h = h * d * c
        if np.all(np.abs(d * c - 1) < 1e-15):
            break
    return np.asarray(h)
