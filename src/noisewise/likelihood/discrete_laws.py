"""Laws of counts at every size: binomial, Poisson, negative binomial, to full precision when n is 10^9.

log Gamma of a large number is itself large, and differences of three of them lose its digits. By Loader (2000)
    log Poisson(s; mu) = -D(s, mu) - e(s) - log(2 pi s)/2,     D(s, mu) = s log(s/mu) + mu - s,
with e the error of Stirling's formula and D evaluated without cancellation; the binomial law likewise. The weights
    h(s) = Gamma(alpha + s)/(Gamma(alpha) s!),
of the negative binomial law h(s) z^s (1-z)^alpha also make the beta-binomial, h_a(s) h_b(n-s)/h_{a+b}(n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, gammaln, xlogy

from noisewise.types import Floats

__all__ = ["binomial_log_pmf", "deviance", "log_rising", "poisson_log_pmf", "stirling_error"]

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def binomial_log_pmf(s: ArrayLike, *, n: int, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """log Binomial(s; n, p), broadcast; -inf outside 0..n. q is 1 - p where the caller knows it better."""
    s, p = np.asarray(s, dtype=np.float64), np.asarray(p, dtype=np.float64)
    q = 1 - p if q is None else np.asarray(q, dtype=np.float64)
    inside = (s > 0) & (s < n)
    x = np.where(inside, s, 0.5 * n)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shape = stirling_error(np.float64(n)) - stirling_error(x) - stirling_error(n - x)
        middle = shape + 0.5 * np.log(n / (2 * np.pi * x * (n - x))) - deviance(x, n * p) - deviance(n - x, n * q)
        ends = np.where(s == 0, xlogy(n, q) if n else 0.0, np.where(s == n, xlogy(n, p), -np.inf))
    return np.asarray(np.where(inside, middle, ends))


def poisson_log_pmf(s: ArrayLike, mu: ArrayLike) -> Floats:
    """log Poisson(s; mu), broadcast, s >= 0; mu = 0 is certainly 0."""
    s, mu = np.asarray(s, dtype=np.float64), np.asarray(mu, dtype=np.float64)
    x = np.maximum(s, 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        some = -deviance(x, mu) - stirling_error(x) - 0.5 * np.log(2 * np.pi * x)
    return np.asarray(np.where(s == 0, -mu, some))


def log_rising(alpha: ArrayLike, s: ArrayLike) -> Floats:
    """log h(s) = log Gamma(alpha + s)/(Gamma(alpha) s!), broadcast, s >= 0; by Stirling's formula from s = 16 on."""
    alpha, s = np.asarray(alpha, dtype=np.float64), np.asarray(s, dtype=np.float64)
    few, many = np.clip(s, 1.0, 16.0), np.maximum(s, 16.0)
    exact = -np.log(few) - betaln(alpha, few)
    ratio = (alpha - 1) * np.log(many) + (alpha + many - 0.5) * np.log1p(alpha / many) - alpha
    large = ratio + stirling_error(alpha + many) - stirling_error(many) - gammaln(alpha)
    return np.asarray(np.where(s == 0, 0.0, np.where(s < 16, exact, large)))


def stirling_error(x: ArrayLike) -> Floats:
    """log x! - [x log x - x + log(2 pi x)/2], x > 0."""
    x = np.asarray(x, dtype=np.float64)
    large = np.maximum(x, 16.0)
    series = np.zeros_like(large)
    for coefficient in reversed(STIRLING):
        series = series / np.square(large) + coefficient
    small = np.minimum(np.maximum(x, 1e-300), 16.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    return np.asarray(np.where(x >= 16, series / large, exact))


def deviance(x: Floats, m: Floats) -> Floats:
    """x log(x/m) + m - x without cancellation: (x-m) v + 2x (atanh v - v), v = (x-m)/(x+m)."""
    v = (x - m) / (x + m)
    w = np.square(v)
    series = np.zeros_like(w)
    for j in range(12, 0, -1):
        series = series * w + 1 / (2 * j + 1)
    near = (x - m) * v + 2 * x * v * w * series
    return np.asarray(np.where(np.abs(v) < 0.1, near, x * np.log(x / m) + m - x))
